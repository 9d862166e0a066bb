"""Langsrud (2019), section 7: the frequency table, decimals in the place of its suppressed cells, and how far they lie.

Fitted values are no draw and must be found again to the last printed digit. Of the printed draws only what is the same
for every draw can be: sums, the sum of squares, the length of the residuals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from microveil import tables
from microveil.core.arrays import Array
from microveil.core.rng import Streams
from microveil.papers.base import Found, Place, Printed, PublishedItem, RunOptions, Tolerance, rounding

PAPER = "Langsrud (2019)"
NEEDS = "nothing: the table is printed in the paper"

COUNTS = np.array([[3, 11, 32, 30], [1, 9, 13, 8], [12, 22, 2, 2], [18, 19, 16, 3]])
PRIMARY = ((1, 1), (2, 1), (3, 3), (3, 4), (4, 4))
SECONDARY = ((1, 2), (2, 2), (2, 3), (4, 1))
TOTALS = {
    **{f"row{i}": total for i, total in zip(range(1, 5), (76, 31, 38, 56), strict=True)},
    **{f"col{j}": total for j, total in zip(range(1, 5), (34, 61, 63, 43), strict=True)},
    "all": 201,
}

# Table 2, in its order: (row, col), Y*, Ŷ, Ŷ of remainders of 4 and of 10.
DRAWN = {
    (2, 1): 11.1562, (3, 3): 9.3549, (3, 4): -5.3549, (1, 1): 0.1986, (4, 4): 10.3549,
    (2, 2): 6.1986, (1, 2): 13.8014, (2, 3): 5.6451, (4, 1): 10.6451,
}  # fmt: skip
FITTED: dict[str, tuple[float | None, dict[tuple[int, int], float]]] = {
    "Ŷ": (None, {
        (2, 1): 4.5217, (3, 3): 6.6957, (3, 4): -2.6957, (1, 1): 4.1739, (4, 4): 7.6957,
        (2, 2): 10.1739, (1, 2): 9.8261, (2, 3): 8.3043, (4, 1): 13.3043,
    }),
    "Ŷ mod 4": (4.0, {
        (2, 1): 0.8696, (3, 3): 1.8261, (3, 4): 2.1739, (1, 1): 2.9565, (4, 4): 2.8261,
        (2, 2): 8.9565, (1, 2): 11.0435, (2, 3): 13.1739, (4, 1): 18.1739,
    }),
    "Ŷ mod 10": (10.0, {
        (2, 1): 4.0870, (3, 3): 2.7826, (3, 4): 1.2174, (1, 1): 0.6957, (4, 4): 3.7826,
        (2, 2): 6.6957, (1, 2): 13.3043, (2, 3): 12.2174, (4, 1): 17.2174,
    }),
}  # fmt: skip

# Table 3: remainders of 10, residuals a tenth of the ordinary ones.
SCALED = np.array(
    [[0.4449, 13.5551, 32, 30], [4.2102, 6.4449, 12.3449, 8], [12, 22, 2.6551, 1.3449], [17.3449, 19, 16, 3.6551]]
)

EXACT = Tolerance("a whole number", 1e-9)
SUM = Tolerance("half a unit of the last printed decimal (4), of each of the cells that are summed", 9 * 0.00005)


def _rounded_squares(values: Sequence[float], centre: Sequence[float]) -> float:
    """By how much the rounding of four decimals moves a sum of squared differences, at most."""
    differences = np.abs(np.array(values) - np.array(centre))
    return float((2 * differences * 0.00005 + 0.00005**2).sum())


def _name(place: tuple[int, int]) -> str:
    return f"({place[0]},{place[1]})"


def example() -> tables.Table:
    """Table 1."""
    rows, columns = (axis.ravel() + 1 for axis in np.indices(COUNTS.shape))
    frame = {"row": [f"row{i}" for i in rows], "col": [f"col{j}" for j in columns], "n": COUNTS.ravel().tolist()}
    return tables.Table(_frame(frame), ["row", "col"])


def paper_pattern() -> tables.Suppressed:
    """Table 1 as the paper hides it."""
    cells = {kind: [(f"row{i}", f"col{j}") for i, j in places] for kind, places in (("p", PRIMARY), ("s", SECONDARY))}
    return tables.as_suppressed(example(), cells["s"], cells["p"])


def _frame(columns: Mapping[str, list[Any]]) -> Any:
    from polars import DataFrame

    return DataFrame(columns)


def _inner(filled: tables.Filled) -> Array:
    return filled.inner.reshape(COUNTS.shape)


def _run_1(asked: RunOptions) -> Found:
    asked.progress("suppressing", 0.5)
    table = example()
    ours = tables.suppress(table, tables.SmallCount(limit=4))
    values = dict(zip(zip(*table.labels.values(), strict=True), table.published_values.tolist(), strict=True))
    found: dict[Place, Sequence[float]] = {}
    for name in TOTALS:
        row, col = ("Total", "Total") if name == "all" else (name, "Total") if name[0] == "r" else ("Total", name)
        found["totals", name] = [values[row, col]]
    found["suppressed cells", "primary"] = [float(ours.primary.sum())]
    found["suppressed cells", "secondary"] = [float(ours.suppressed.sum() - ours.primary.sum())]
    kept = tables.intervals(paper_pattern())
    found["the paper's pattern", "exactly determined"] = [float(kept.count("exactly determined"))]
    return Found(found)


TABLE_1 = PublishedItem(
    id="langsrud-table1",
    title="a frequency table and which of its cells are suppressed",
    paper=PAPER,
    place="Table 1",
    needs=NEEDS,
    printed=[
        *(Printed("totals", name, float(total), EXACT) for name, total in TOTALS.items()),
        Printed("suppressed cells", "primary", 5.0, EXACT),
        Printed(
            "suppressed cells",
            "secondary",
            4.0,
            EXACT,
            remark="three suffice: 11, 9 and 16 hide what 11, 9, 13 and 18 do",
        ),
        Printed(
            "the paper's pattern",
            "exactly determined",
            None,
            Tolerance("the paper has no intervals: there is nothing to agree with"),
            remark="by linear programs",
        ),
    ],
    run=_run_1,
    least_repeats=0,
)


def _run_2(asked: RunOptions) -> Found:
    s = paper_pattern()
    found: dict[Place, list[float]] = {}
    for figure, (modulo, printed) in FITTED.items():
        inner = _inner(tables.fitted(s, modulo))
        found |= {(_name(place), figure): [float(inner[place[0] - 1, place[1] - 1])] for place in printed}
    fit = _inner(tables.fitted(s))
    for inner in _draws(asked, s):
        found.setdefault(("Y*", "sum of squares of the table"), []).append(float(np.square(inner).sum()))
        found.setdefault(("Y*", "squared length of the residuals"), []).append(float(np.square(inner - fit).sum()))
        found.setdefault(("Y*", "sum of the suppressed cells"), []).append(
            float(sum(inner[i - 1, j - 1] for i, j in DRAWN))
        )
    return Found(found)


def _draws(asked: RunOptions, s: tables.Suppressed, **options: Any) -> list[Array]:
    streams = Streams.from_seed(asked.seed)
    seeds = (int(streams.stream("langsrud", repeat).generator().integers(2**63)) for repeat in range(asked.repeats))
    return [_inner(tables.fill(s, seed=seed, **options)) for seed in seeds]


def _printed_2() -> list[Printed]:
    cells = [
        Printed(_name(place), figure, value, rounding(4))
        for figure, (_, printed) in FITTED.items()
        for place, value in printed.items()
    ]
    others = float(np.square(COUNTS).sum()) - float(sum(COUNTS[i - 1, j - 1] ** 2 for i, j in DRAWN))
    drawn, fit = list(DRAWN.values()), [FITTED["Ŷ"][1][place] for place in DRAWN]
    reason = "the rounding of the printed cells: every draw has the same"
    return [
        *cells,
        Printed(
            "Y*",
            "sum of squares of the table",
            others + float(np.square(drawn).sum()),
            Tolerance(reason, _rounded_squares(drawn, [0.0] * 9)),
        ),
        Printed(
            "Y*",
            "squared length of the residuals",
            float(np.square(np.array(drawn) - np.array(fit)).sum()),
            Tolerance(reason, 2 * _rounded_squares(drawn, fit)),
        ),
        Printed("Y*", "sum of the suppressed cells", float(sum(drawn)), SUM),
    ]


TABLE_2 = PublishedItem(
    id="langsrud-table2",
    title="fitted and drawn values in the place of suppressed cells",
    paper=PAPER,
    place="Table 2",
    needs=NEEDS,
    printed=_printed_2(),
    run=_run_2,
    notes=("the printed Y* is one draw: of it only what all draws share is held against ours",),
)


def _run_3(asked: RunOptions) -> Found:
    s = paper_pattern()
    fit = _inner(tables.fitted(s, 10))
    found: dict[Place, list[float]] = {}
    for inner in _draws(asked, s, modulo=10, residual_scale=0.1):
        for i in range(4):
            found.setdefault(("sums", f"row{i + 1}"), []).append(float(inner[i].sum()))
            found.setdefault(("sums", f"col{i + 1}"), []).append(float(inner[:, i].sum()))
        found.setdefault(("residuals", "length"), []).append(float(np.linalg.norm(inner - fit)))
    return Found(found)


def _printed_3() -> list[Printed]:
    sums = partial(Tolerance, "half a unit of the last printed decimal (4), of each of four cells")
    fit = COUNTS.astype(float)
    for (i, j), value in FITTED["Ŷ mod 10"][1].items():
        fit[i - 1, j - 1] = value
    length = float(np.linalg.norm(SCALED - fit))
    return [
        *(Printed("sums", f"row{i + 1}", float(SCALED[i].sum()), sums(4 * 0.00005)) for i in range(4)),
        *(Printed("sums", f"col{j + 1}", float(SCALED[:, j].sum()), sums(4 * 0.00005)) for j in range(4)),
        Printed(
            "residuals",
            "length",
            length,
            Tolerance("the rounding of the printed cells and of the fitted ones", float(np.sqrt(9) * 0.0001)),
            remark="a tenth of the residuals of the remainders; a tenth of those of the table would be 1.126",
        ),
    ]


TABLE_3 = PublishedItem(
    id="langsrud-table3",
    title="the table with decimals: remainders of 10, residuals a tenth of the ordinary ones",
    paper=PAPER,
    place="Table 3",
    needs=NEEDS,
    printed=_printed_3(),
    run=_run_3,
    notes=("the printed table is one draw: of it only what all draws share is held against ours",),
)
