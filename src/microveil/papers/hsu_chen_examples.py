"""Hsu and Chen (2008), Examples 1 to 3 (Figs. 5, 7 and 10) and Fig. 8: pictures without numbers, and what is said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from microveil import api
from microveil.core.arrays import Array
from microveil.papers.base import Found, Place, Printed, PublishedItem, RunOptions, rounding
from microveil.papers.hsu_chen import EXACT, PAPER
from microveil.papers.runs import SAYS, SHOWN, TEXT, part_of, read_off, releases, said
from microveil.release.release import Release

RECORDS = 500
MIXING = np.array([[2.0, 3.0], [2.0, 1.0]])
CELLS = 5
HALF = np.sqrt(3.0)
"""A uniform source of unit variance ends here."""

SIMULATED = "nothing: the columns are simulated"
ASSUMED = (
    "the paper tells neither the mixing matrix nor the number of records: 500, as in Fig. 3, and (2 3; 2 1), with "
    "which Hyvärinen and Oja (2000) draw the same picture"
)


def mixed() -> Array:
    """Two independent sources, uniform on a square, mixed."""
    sources = np.random.default_rng(1).uniform(-HALF, HALF, (RECORDS, 2))
    data: Array = sources @ MIXING.T
    return data


# --- Example 1, Fig. 5: the sources that FastICA finds

DEPENDENT, INDEPENDENT, SQUARE = (
    "the attributes are not independent",
    "the sources are independent",
    "the sources are uniform on a square",
)
CHANCE = 0.001
"""A test finds something below this."""


def _crossed(table: Array) -> float:
    """The p-value of a chi-square test of independence, of the fifths of one column by the fifths of the other."""
    from scipy.stats import chi2_contingency

    one, other = (CELLS * column.argsort().argsort() // len(column) for column in table.T)
    counts = np.histogram2d(one, other, bins=CELLS)[0]
    return float(chi2_contingency(counts).pvalue)


def _square(sources: Array) -> list[float]:
    """P-values of Kolmogorov-Smirnov tests of each source against the uniform distribution of its mean and variance."""
    from scipy.stats import kstest

    return [float(kstest(source, "uniform", args=(-HALF, 2 * HALF)).pvalue) for source in sources.T]


def _sources(data: Array, release: Release) -> Array:
    """The sources behind a release, in standard deviations: the standardised data without the mixing."""
    standard = (data - data.mean(axis=0)) / data.std(axis=0)
    found = np.linalg.solve(release.components.weights, standard.T).T
    scaled: Array = found / found.std(axis=0)
    return scaled


def _run_5(asked: RunOptions) -> Found:
    data = mixed()
    (release,) = releases(data, "primp", asked)
    sources = _sources(data, release)
    truth = np.linalg.solve(MIXING, data.T)
    alike = np.abs(np.corrcoef(sources.T, truth)[:2, 2:])
    found = {
        ("attributes", "p of independence"): _crossed(data),
        ("sources", "p of independence"): _crossed(sources),
        ("sources", "least p of uniformity"): min(_square(sources)),
        ("sources", "least correlation with the true ones"): float(alike.max(axis=1).min()),
    }
    claims = {
        DEPENDENT: found["attributes", "p of independence"] < CHANCE,
        INDEPENDENT: found["sources", "p of independence"] >= CHANCE,
        SQUARE: found["sources", "least p of uniformity"] >= CHANCE,
    }
    return Found({**{place: [value] for place, value in found.items()}, **said(claims)})


FIGURE_5 = PublishedItem(
    id="hsu-chen-fig5",
    title="the independent sources of two mixed columns",
    paper=PAPER,
    place="Example 1, Fig. 5",
    needs=SIMULATED,
    printed=[
        Printed("attributes", "p of independence", None, SHOWN),
        Printed("sources", "p of independence", None, SHOWN),
        Printed("sources", "least p of uniformity", None, SHOWN),
        Printed("sources", "least correlation with the true ones", None, SHOWN),
        *(Printed(TEXT, claim, 1, SAYS) for claim in (DEPENDENT, INDEPENDENT, SQUARE)),
    ],
    run=_run_5,
    least_repeats=0,
    notes=(ASSUMED, "tests are held at 0.001: independence by chi-square of 5 x 5 fifths, uniformity by KS"),
)

# --- Examples 2 and 3, Figs. 7 and 10: does a release lie where the data lie?

MISPLACED = "misplaced records"
COVARIANCE = "largest relative change of a covariance"


def _misplaced(shares: Array) -> Array:
    """Half the sum of what the cells have too much or too little, and what is in none: so many would have to move."""
    outside = 1 - shares.sum(axis=-1)
    moving: Array = (np.abs(shares - CELLS**-2).sum(axis=-1) + outside) / 2
    return moving


def _places(released: Array) -> float:
    """The misplaced share of a release: the cells are 5 x 5 in the square of the true sources, equally likely."""
    one, other = np.linalg.solve(MIXING, released.T)
    edges = np.linspace(-HALF, HALF, CELLS + 1)
    counts = np.histogram2d(one, other, bins=[edges, edges])[0]
    return float(_misplaced(counts.ravel() / len(released)))


def _by_chance() -> Array:
    """The misplaced share of fresh samples of the same distribution."""
    draws = np.random.default_rng(2).multinomial(RECORDS, np.full(CELLS**2, CELLS**-2), size=10_000)
    return _misplaced(draws / RECORDS)


METHODS_7 = {"PRIMP": "primp", "MN": "normal", "LHS": "lhs", "Cholesky": "cholesky"}
METHODS_10 = {"hybrid": "primp_cholesky"}
KEEPING = ("PRIMP", "hybrid")
"""Of which the text says that they keep the joint distribution; of the others, that they do not."""

FRESH = ("fresh samples", "99 % have at most")


def _claim(method: str) -> str:
    return f"{method} {'represents' if method in KEEPING else 'misrepresents'} the joint distribution"


def _run_7(methods: dict[str, str], asked: RunOptions) -> Found:
    data = mixed()
    limit = float(np.quantile(_by_chance(), 0.99))
    values: dict[Place, Sequence[float]] = {FRESH: [limit]}
    for number, (row, method) in enumerate(methods.items()):
        made = releases(data, method, part_of(asked, number, len(methods)))
        values |= read_off(made, partial(_figures_7, data, row)).values
    near = {row: bool(np.mean(values[row, MISPLACED]) <= limit) for row in methods}
    claims = {_claim(row): near[row] == (row in KEEPING) for row in methods}
    return Found({**values, **said(claims)})


def _figures_7(data: Array, row: str, release: Release) -> dict[Place, float]:
    change = np.abs(np.cov(release.data.T) / np.cov(data.T) - 1).max()
    return {(row, MISPLACED): _places(release.data), (row, COVARIANCE): float(change)}


def _entry_7(number: int, title: str, place: str, methods: dict[str, str]) -> PublishedItem:
    exact = [Printed("hybrid", COVARIANCE, 0, EXACT)] if "hybrid" in methods else []
    return PublishedItem(
        id=f"hsu-chen-fig{number}",
        title=title,
        paper=PAPER,
        place=f"{place}, Fig. {number}",
        needs=SIMULATED,
        printed=[
            *(Printed(row, MISPLACED, None, SHOWN) for row in methods),
            Printed(*FRESH, None, SHOWN),
            *exact,
            *(Printed(TEXT, _claim(row), 1, SAYS) for row in methods),
        ],
        run=partial(_run_7, methods),
        notes=(
            ASSUMED,
            "misplaced: the share of records that would have to move for 5 x 5 cells of the true sources' square to "
            "hold equally many, and none to lie outside",
            "a release represents the distribution if, on average, no more are misplaced than in 99 % of fresh samples",
        ),
    )


FIGURE_7 = _entry_7(7, "which methods keep the joint distribution of two mixed columns", "Example 2", METHODS_7)
FIGURE_10 = _entry_7(10, "does PRIMP with Cholesky keep the joint distribution", "Example 3", METHODS_10)

# --- Fig. 8 and Theorems 1 and 2: leakage; nothing is drawn

SIZES = (10, 100, 1_000, 10_000)
SOURCES = (2, 3, 4, 5)
ALMOST = 0.01
"""What is called almost 0: the text gives the figure's values with two decimals."""

PRINTED_SUM = "the formula as printed adds up to more than 1 from three sources on: (n - l)! ought to be (n - k - l)!"


def _sum_as_printed(n: int, m: int) -> float:
    """The probabilities of Theorem 1 as it is printed, added up."""
    from math import factorial

    def term(count: int) -> float:
        return float((factorial(n - count) / factorial(n)) ** (m - 2) / factorial(count))

    def probability(k: int) -> float:
        return float(1 - sum((-1) ** (count + 1) * term(count) for count in range(1, n - k + 1))) / factorial(k)

    return sum(probability(k) for k in range(n + 1))


def _falls(risk: Callable[[int, int], float], sources: Sequence[int]) -> bool:
    return all((np.diff([risk(n, m) for n in (2, 3, 4, *SIZES)]) < 0).all() for m in sources)


def _run_8(asked: RunOptions) -> Found:
    asked.progress("adding up", 0.5)

    def risk(n: int, m: int) -> float:
        return api.leakage_distribution(n, m).risk

    values: dict[Place, Sequence[float]] = {}
    for m in SOURCES:
        for n in SIZES:
            found = api.leakage_distribution(n, m)
            values |= {(_row_8(m, n), "expected"): [found.mean], (_row_8(m, n), "risk"): [found.risk]}
    whole = api.leakage_distribution(5, 3)
    values["m = 3, n = 5", "sum of the probabilities"] = [sum(whole.pmf(k) for k in range(6))]
    claims = (
        all((np.diff([risk(n, m) for m in SOURCES]) < 0).all() for n in SIZES),
        _falls(risk, SOURCES[1:]),
        _falls(risk, SOURCES[:1]),
        all(risk(n, 3) <= ALMOST for n in SIZES[1:]),
        all(risk(n, m) <= ALMOST for n in SIZES for m in SOURCES[2:]),
    )
    return Found({**values, **said(dict(zip(CLAIMS_8, claims, strict=True)))})


def _row_8(m: int, n: int) -> str:
    return f"m = {m}, n = {n}"


CLAIMS_8 = {
    "the risk falls with more sources": "",
    "the risk falls with more records, m = 3 to 5": "from three on; for m = 3 it is 1/4 with two, 5/18 with three",
    "the risk falls with more records, m = 2": "1/2, 2/3 and 5/8 for 2, 3 and 4 records: it comes to rest at 0.63",
    "the risk is almost 0 from 100 records on, m = 3": "it is nearly 1/n",
    "the risk is almost 0 for any number of records, m = 4 and 5": "from ten records on; with two, m = 4, it is 1/8",
}


def _printed_8() -> list[Printed]:
    large = {"expected": (1.0, EXACT), "risk": (0.63, rounding(2))}
    lines = []
    for m in SOURCES:
        for n in SIZES:
            for figure, (value, tolerance) in large.items():
                told = m == 2 and n == SIZES[-1]
                lines.append(Printed(_row_8(m, n), figure, value if told else None, tolerance if told else SHOWN))
    added = _sum_as_printed(5, 3)
    lines.append(Printed("m = 3, n = 5", "sum of the probabilities", added, EXACT, PRINTED_SUM, 1.0))
    return [*lines, *(Printed(TEXT, claim, 1, SAYS, remark=remark) for claim, remark in CLAIMS_8.items())]


FIGURE_8 = PublishedItem(
    id="hsu-chen-fig8",
    title="expected number of records that PRIMP gives away, and the risk that there is one",
    paper=PAPER,
    place="Fig. 8, Theorems 1 and 2",
    needs="nothing: they are formulas",
    printed=_printed_8(),
    run=_run_8,
    least_repeats=0,
    notes=("the figure has no numbers: those of the text are held", f"almost 0: at most {ALMOST}"),
)
