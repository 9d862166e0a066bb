"""Make the example survey that ships with the package: 1,200 invented firms.

    python scripts/make_example_survey.py            # write src/microveil/examples/business_survey.csv
    python scripts/make_example_survey.py --check    # exit 1 when the committed file differs

No real firm and no real table went into it; the seed is public because there is nothing to hide. The file shows what
firm data do to a method: heavy tails, a sum rule, heaped zeros, negative values, missing answers, a special code and
survey weights. Its columns are described in src/microveil/examples/README.md.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
Columns = dict[str, Floats]

SEED = 2021
REFUSED = -9
TARGET = Path(__file__).resolve().parents[1] / "src" / "microveil" / "examples" / "business_survey.csv"

DECIMALS = {"energy_cost": 2, "financial_result": 1, "weight": 2}  # every other numeric column holds whole numbers


class Region(NamedTuple):
    """How common a region is, and how productive."""

    share: float  # of the firms in the sample
    productivity: float  # relative to the country


class Industry(NamedTuple):
    """The typical firm of an industry; money in thousands of euros."""

    share: float  # of the firms in the sample
    turnover: float  # per employee
    wage: float  # per employee
    materials: float  # as a share of turnover
    energy: float  # as a share of turnover
    capital: float  # depreciation as a share of turnover
    exporters: float  # the chance to export of a firm with 50 employees
    research: float  # the chance to do research of a firm with 50 employees


class SizeClass(NamedTuple):
    """A stratum of the design: where it starts, how many of its firms answered, how many firms each stands for."""

    smallest: int
    firms: int
    weight: float


REGIONS = {
    "Arvenmark": Region(0.22, 1.10),
    "Belholm": Region(0.17, 1.05),
    "Corrinth": Region(0.15, 1.00),
    "Dunmarsh": Region(0.13, 0.95),
    "Estravale": Region(0.11, 0.95),
    "Faldren": Region(0.09, 0.90),
    "Grauwick": Region(0.08, 1.00),
    "Hestmar": Region(0.05, 0.85),
}

INDUSTRIES = {
    "B Mining": Industry(0.03, 260, 46, 0.30, 0.070, 0.090, 0.55, 0.15),
    "C Manufacturing": Industry(0.24, 210, 42, 0.46, 0.030, 0.045, 0.85, 0.48),
    "D Energy supply": Industry(0.03, 380, 56, 0.50, 0.080, 0.085, 0.40, 0.22),
    "E Water and waste": Industry(0.04, 190, 38, 0.28, 0.050, 0.085, 0.42, 0.12),
    "F Construction": Industry(0.14, 150, 36, 0.40, 0.016, 0.025, 0.40, 0.08),
    "G Trade": Industry(0.20, 270, 32, 0.62, 0.012, 0.016, 0.68, 0.08),
    "H Transport": Industry(0.09, 160, 35, 0.26, 0.070, 0.060, 0.68, 0.07),
    "I Hospitality": Industry(0.07, 70, 22, 0.32, 0.040, 0.045, 0.30, 0.02),
    "J Information": Industry(0.08, 180, 58, 0.18, 0.010, 0.045, 0.72, 0.55),
    "M Professional": Industry(0.08, 130, 54, 0.12, 0.008, 0.025, 0.62, 0.40),
}

SIZE_CLASSES = (SizeClass(1, 330, 74.0), SizeClass(10, 410, 17.5), SizeClass(50, 330, 4.2), SizeClass(250, 130, 1.0))
LARGEST_FIRM = 3000
FIRMS = sum(size_class.firms for size_class in SIZE_CLASSES)


def spread(rng: np.random.Generator, employees: Floats, log_sd: float) -> Floats:
    """One positive factor per firm, of median 1; `log_sd` is its spread at 50 employees.

    Large firms are closer to the typical firm than small ones, and the normal draw is cut: no firm is absurd.
    """
    return np.exp(log_sd * (employees / 50) ** -0.12 * np.clip(rng.standard_normal(FIRMS), -2.5, 2.5))


def chance(typical: Floats | float, employees: Floats, slope: float) -> Floats:
    """A probability whose odds move with the firm's size; `typical` is its value at 50 employees."""
    odds = typical / (1 - typical) * (employees / 50) ** slope
    return odds / (1 + odds)


def pick(rng: np.random.Generator, kinds: dict[str, Region] | dict[str, Industry]) -> Integers:
    """For every firm the position of its kind, drawn with the stated shares."""
    ends = np.cumsum([kind.share for kind in kinds.values()])
    return np.searchsorted(ends[:-1], rng.random(FIRMS), side="right")


def draw_employees(rng: np.random.Generator) -> Floats:
    """Head counts: even in the logarithm within a size class, a cut Pareto law among the largest firms."""
    *lower, top = SIZE_CLASSES
    uppers = [size_class.smallest for size_class in SIZE_CLASSES[1:]]
    parts = [
        size_class.smallest * (upper / size_class.smallest) ** rng.random(size_class.firms)
        for size_class, upper in zip(lower, uppers, strict=True)
    ]
    tail = 1.2
    kept = 1 - (top.smallest / LARGEST_FIRM) ** tail
    parts.append(top.smallest / (1 - kept * rng.random(top.firms)) ** (1 / tail))
    mixed = np.argsort(rng.random(FIRMS), kind="stable")
    return np.floor(np.concatenate(parts))[mixed]


def draw_weights(rng: np.random.Generator, employees: Floats, region: Integers) -> Floats:
    """Design weights by size class, corrected for response by region; every one of the largest firms answers."""
    size = np.searchsorted([size_class.smallest for size_class in SIZE_CLASSES], employees, side="right") - 1
    correction = 0.85 + 0.35 * rng.random((len(SIZE_CLASSES), len(REGIONS)))
    correction[-1] = 1
    return np.array([size_class.weight for size_class in SIZE_CLASSES])[size] * correction[size, region]


def draw_accounts(rng: np.random.Generator, employees: Floats, kind: Columns, productivity: Floats) -> Columns:
    """The accounts of every firm, before rounding, except turnover; `kind` holds its industry's figures."""
    # From 630 to 2,450 hours per employee: part-time work at one end, agency and seasonal staff at the other.
    hours = employees * 1650 * (0.38 + 1.10 * rng.random(FIRMS))

    # Turnover is rounded before it is added up: the sum rule then holds in every digit.
    success = spread(rng, employees, 0.50)
    turnover = employees * kind["turnover"] * productivity * success
    exports = rng.random(FIRMS) < chance(kind["exporters"], employees, 0.45)
    export = np.round(turnover * exports * 0.9 * rng.random(FIRMS) ** 1.3)
    domestic = np.maximum(np.round(turnover - export), 1)
    total = domestic + export

    wages = np.maximum(employees * kind["wage"] * productivity * success**0.4 * spread(rng, employees, 0.30), 1)
    materials = total * np.minimum(kind["materials"] * spread(rng, employees, 0.45), 0.85)
    energy = np.maximum(total * kind["energy"] * spread(rng, employees, 0.50), 0.01)
    depreciation = total * kind["capital"] * spread(rng, employees, 0.50)
    stock_change = 0.03 * materials * spread(rng, employees, 0.45) * (rng.standard_normal(FIRMS) + 0.15)

    # What is left pays for bought services, which no column shows: profit is no linear combination of the others.
    left = total + stock_change - wages - materials - energy - depreciation
    services = np.maximum(0.75 * left * spread(rng, employees, 0.22), 0.04 * total)

    invests = rng.random(FIRMS) < chance(0.80, employees, 0.40)
    researches = rng.random(FIRMS) < chance(kind["research"], employees, 0.50)
    interest = 0.010 * total * spread(rng, employees, 0.80)
    holdings = 0.016 * total * spread(rng, employees, 0.80) * (rng.random(FIRMS) < 0.15)
    return {
        "employees": employees,
        "hours_worked": hours,
        "turnover_domestic": domestic,
        "turnover_export": export,
        "turnover_total": total,
        "wages": wages,
        "materials": materials,
        "energy_cost": energy,
        "depreciation": depreciation,
        "investment": np.where(invests, np.maximum(depreciation * 1.1 * spread(rng, employees, 0.60), 1), 0),
        "stock_change": stock_change,
        "financial_result": holdings - interest,
        "operating_profit": left - services,
        "rd_spending": np.where(researches, np.maximum(0.03 * total * spread(rng, employees, 0.70), 1), 0),
    }


def round_answers(columns: Columns) -> Columns:
    """Every column in its unit. A true -9 moves one unit down, so that -9 never means anything but a refusal."""
    rounded = {}
    for name, values in columns.items():
        digits = DECIMALS.get(name, 0)
        answer = np.round(values, digits) + 0.0  # + 0.0 makes -0.0 a plain zero
        rounded[name] = np.where(answer == REFUSED, REFUSED - 10.0**-digits, answer)
    return rounded


def hide_answers(rng: np.random.Generator, columns: Columns) -> None:
    """Take answers away, in place: blanks, more often of small firms, and refusals."""
    employees = columns["employees"]
    columns["investment"][rng.random(FIRMS) < chance(0.022, employees, -0.35)] = np.nan
    columns["energy_cost"][rng.random(FIRMS) < chance(0.011, employees, -0.35)] = np.nan
    columns["rd_spending"][rng.random(FIRMS) < 0.04] = REFUSED


def cells(name: str, values: Floats) -> list[str]:
    """A column as text; a missing value is an empty cell."""
    digits = DECIMALS.get(name, 0)
    return ["" if np.isnan(value) else f"{value:.{digits}f}" for value in values]


def make_survey() -> bytes:
    """The whole file. Only uniform and normal draws are used, the streams that numpy has kept the same for years."""
    rng = np.random.default_rng(SEED)
    region = pick(rng, REGIONS)
    industry = pick(rng, INDUSTRIES)
    employees = draw_employees(rng)
    weight = draw_weights(rng, employees, region)

    figures = np.array(list(INDUSTRIES.values()))[industry]
    kind = dict(zip(Industry._fields, figures.T, strict=True))
    productivity = np.array([place.productivity for place in REGIONS.values()])[region]

    numeric = round_answers({**draw_accounts(rng, employees, kind, productivity), "weight": weight})
    hide_answers(rng, numeric)
    text = {
        "region": [list(REGIONS)[place] for place in region],
        "industry": [list(INDUSTRIES)[place] for place in industry],
        **{name: cells(name, values) for name, values in numeric.items()},
    }
    lines = [",".join(text), *(",".join(row) for row in zip(*text.values(), strict=True))]
    return ("\n".join(lines) + "\n").encode("ascii")


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the example survey of the package.")
    parser.add_argument("--check", action="store_true", help="compare with the committed file; exit 1 if it differs")
    check = parser.parse_args().check
    made = make_survey()
    if not check:
        TARGET.write_bytes(made)
        print(f"wrote {TARGET} ({len(made):,} bytes)")
        return 0
    if TARGET.is_file() and TARGET.read_bytes() == made:
        print(f"{TARGET.name} is what the script makes")
        return 0
    print(f"{TARGET} differs from what this script makes; run it without --check", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
