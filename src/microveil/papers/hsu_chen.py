"""Hsu and Chen (2008): biases of correlations (Tables 6 to 10), Examples 1 to 3 (Figs. 5, 7 and 10), and Fig. 8."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import combinations, product
from typing import Any

import numpy as np

from microveil.core.arrays import Array
from microveil.measures.risk.closest import leakage_distribution
from microveil.papers.published import Found, NotRunError, Place, RunOptions, printed_values
from microveil.papers.runs import collect, measured, part_of, releases
from microveil.papers.sources import PRINTED, boston, census, keel
from microveil.studies.compare import Methods

# --- Tables 6 to 10: relative biases of correlations of twelve sets, as far as packages carry them

MEASURES = {"Pearson": "correlation_bias", "Spearman": "rank_correlation_bias", "Kendall": "kendall_bias"}
SCALES = dict.fromkeys(MEASURES, 0.01)
"""The printed figures have the size of the relative bias divided by 100 once more; the paper does not say so."""

RANKS = ("Spearman", "Kendall")
FIRST, HYBRID, SIMULATED = "PRIMP", "hybrid", "12 simulated"
NO_PACKAGE = "no package carries these data"


def _bundled(name: str) -> Array:
    from sklearn import datasets

    return np.ascontiguousarray(getattr(datasets, f"load_{name}")().data, dtype=np.float64)


def simulated() -> Array:
    """Data set 12 by model (5): two normal sources and a uniform one, mixed. The paper's draw is not known."""
    rng = np.random.default_rng(1)
    sources = np.column_stack([rng.standard_normal((2_000, 2)), rng.uniform(size=2_000)])
    mixed: Array = sources @ np.array([[1.0, 3.0, 3.0], [4.0, 4.0, 6.0], [12.0, 13.0, 17.0]]).T
    return mixed


# The columns that the paper's numbers of columns leave of the files.
SETS: dict[str, Callable[[], Array]] = {
    "4 iris": partial(_bundled, "iris"),
    "5 ecoli": partial(keel, "imbalanced/raw/ecoli1", (0, 1, 4, 5, 6)),
    "6 ionosphere": partial(keel, "balanced/raw/ionosphere", range(1, 33)),
    "7 housing": boston,
    "8 pima": partial(keel, "balanced/raw/pima", range(8)),
    "9 yeast": partial(keel, "imbalanced/raw/yeast1", (0, 1, 2, 3, 6, 7)),
    "10 breast cancer": partial(_bundled, "breast_cancer"),
    "11 census": census,
    "12 simulated": simulated,
}


def correlation_biases(options: RunOptions, *, method: str, **parameters: Any) -> Found:
    """The biases that a method leaves in every set."""
    found, absent = _of_sets({"": (method, parameters)}, options)
    return Found({(row, column): of for (row, _, column), of in found.items()}, absent, otherwise=NO_PACKAGE)


def _of_sets(methods: Methods, options: RunOptions) -> tuple[dict[tuple[str, str, str], list[float]], dict[str, str]]:
    """The biases of every set by set, method and measure; and why sets have none."""
    values: dict[tuple[str, str, str], list[float]] = {}
    absent: dict[str, str] = {}
    for number, (row, source) in enumerate(SETS.items()):
        try:
            data = source()
        except NotRunError as reason:
            absent[row] = str(reason)
            continue
        part = part_of(options, number, len(SETS))
        found = measured(part, data=data, methods=methods, measures=MEASURES, scales=SCALES)
        values |= {(row, label, column): list(of) for (label, column), of in found.values.items()}
        absent |= dict.fromkeys([row] if found.absent else [], next(iter(found.absent.values()), ""))
    return values, absent


def order_of_methods(options: RunOptions, *, methods: Methods, printed: Mapping[str, str]) -> Found:
    """Does PRIMP beat MN, LHS and Cholesky on measures of ranks, and do all methods come in the printed order?

    `methods` has the runs of Tables 6 to 10 by the names of methods, `printed` the ids of those tables.
    """
    found, absent = _of_sets(methods, options)
    means = {place: float(np.mean(of)) for place, of in found.items()}
    errors = {place: float(np.std(of, ddof=1) / np.sqrt(len(of))) for place, of in found.items()}
    tables = {label: printed_values(PRINTED / "hsu_chen.toml", table) for label, table in printed.items()}
    rows = [row for row in SETS if row not in absent]
    values: dict[Place, list[float]] = {}
    others = [label for label in methods if label not in (FIRST, HYBRID)]  # the hybrid is PRIMP's own
    for row, column in product(rows, RANKS):
        ours = {label: means[row, label, column] for label in methods}
        theirs = {label: tables[label][row, column] for label in methods}
        off = {label: errors[row, label, column] for label in methods}
        ahead = [ours[FIRST] - ours[label] for label in others]
        by_luck = [3 * np.hypot(off[FIRST], off[label]) for label in others]  # three standard errors
        alike = [(ours[a] - ours[b]) * (theirs[a] - theirs[b]) > 0 for a, b in combinations(methods, 2)]
        values[row, f"{column}: {FIRST} is best"] = [float(max(ahead) < 0)]
        values[row, f"{column}: pairs in the printed order"] = [float(sum(alike))]
        values[row, f"{column}: {FIRST} may be best"] = [float((np.array(ahead) <= by_luck).all())]
    wins = {column: sum(values[row, f"{column}: {FIRST} is best"][0] for row in rows) for column in RANKS}
    if not absent:
        for column, word in product(RANKS, ("is", "may be")):
            figure = f"{column}: {FIRST} {word} best"
            values["sets 4 to 12", figure] = [sum(values[row, figure][0] for row in rows)]
    last = [column for column in RANKS if SIMULATED in rows and values[SIMULATED, f"{column}: {FIRST} is best"][0]]
    hybrid = [means[row, HYBRID, column] < means[row, FIRST, column] for row in rows for column in RANKS]
    claims = [*(2 * wins[column] > len(rows) for column in RANKS), len(last) == len(RANKS), not all(hybrid)]
    return Found(values, absent, claims, otherwise="not all of the nine sets are there")


# --- Example 1, Fig. 5: the sources that FastICA finds

RECORDS = 500
MIXING = np.array([[2.0, 3.0], [2.0, 1.0]])
CELLS = 5
HALF = np.sqrt(3.0)
"""A uniform source of unit variance ends here."""

CHANCE = 0.001
"""A test finds something below this."""


def mixed() -> Array:
    """Two independent sources, uniform on a square, mixed."""
    sources = np.random.default_rng(1).uniform(-HALF, HALF, (RECORDS, 2))
    data: Array = sources @ MIXING.T
    return data


def independent_sources(options: RunOptions) -> Found:
    """Are the attributes dependent, and the sources that are found of them independent and uniform?"""
    data = mixed()
    (release,) = releases(data, "primp", options)
    # The sources behind a release are the standardised data without the mixing, in standard deviations.
    found = np.linalg.solve(release.components.weights, ((data - data.mean(axis=0)) / data.std(axis=0)).T).T
    sources = found / found.std(axis=0)
    truth = np.linalg.solve(MIXING, data.T)
    alike = np.abs(np.corrcoef(sources.T, truth)[:2, 2:])
    dependence, independence, misplaced = _crossed(data), _crossed(sources), _in_square(sources)
    values = {
        ("attributes", "p of independence"): [dependence],
        ("sources", "p of independence"): [independence],
        ("sources", "misplaced records"): [misplaced],
        ("sources", "least correlation with the true ones"): [float(alike.max(axis=1).min())],
        ("fresh samples", "99 % have at most"): [fresh_limit()],
    }
    return Found(values, claims=[dependence < CHANCE, independence >= CHANCE, misplaced <= fresh_limit()])


def _crossed(table: Array) -> float:
    """The p-value of a chi-square test of independence, of the fifths of one column by the fifths of the other."""
    from scipy.stats import chi2_contingency

    one, other = (CELLS * column.argsort().argsort() // len(column) for column in table.T)
    counts = np.histogram2d(one, other, bins=CELLS)[0]
    return float(chi2_contingency(counts).pvalue)


# --- Examples 2 and 3, Figs. 7 and 10: does a release lie where the data lie?


def joint_distribution(options: RunOptions, *, methods: Mapping[str, str], keeping: Sequence[str]) -> Found:
    """How many records a method misplaces; of those in `keeping` the text says that they keep the distribution."""
    data = mixed()
    limit = fresh_limit()
    values: dict[Place, Sequence[float]] = {("fresh samples", "99 % have at most"): [limit]}
    claims, spread = [], np.cov(data.T)
    for number, (row, method) in enumerate(methods.items()):
        made = releases(data, method, part_of(options, number, len(methods)))
        values |= collect(
            {
                (row, "misplaced records"): _places(release.data),
                (row, "largest relative change of a covariance"): np.abs(np.cov(release.data.T) / spread - 1).max(),
            }
            for release in made
        )
        near = bool(np.mean(values[row, "misplaced records"]) <= limit)
        claims.append(near == (row in keeping))
    return Found(values, claims=claims)


def _misplaced(shares: Array) -> Array:
    """Half the sum of what the cells have too much or too little, and what is in none: so many would have to move."""
    outside = 1 - shares.sum(axis=-1)
    moving: Array = (np.abs(shares - CELLS**-2).sum(axis=-1) + outside) / 2
    return moving


@cache
def fresh_limit() -> float:
    """What 99 % of fresh samples have at most, of misplaced records."""
    fresh = np.random.default_rng(2).multinomial(RECORDS, np.full(CELLS**2, CELLS**-2), size=10_000)
    return float(np.quantile(_misplaced(fresh / RECORDS), 0.99))


def _places(released: Array) -> float:
    """The misplaced share of a release, by its true sources."""
    return _in_square(np.linalg.solve(MIXING, released.T).T)


def _in_square(sources: Array) -> float:
    """The misplaced share of sources of unit variance: the cells are 5 x 5 in their square, equally likely."""
    edges = np.linspace(-HALF, HALF, CELLS + 1)
    counts = np.histogram2d(sources[:, 0], sources[:, 1], bins=[edges, edges])[0]
    return float(_misplaced(counts.ravel() / len(sources)))


# --- Fig. 8 and Theorems 1 and 2: leakage; nothing is drawn

SIZES = (*range(2, 11), 100, 1_000, 10_000)
SOURCES = (2, 3, 4, 5)
ALMOST = 0.01
"""What is called almost 0: the text gives the figure's values with two decimals."""


def leakage(options: RunOptions) -> Found:
    """Expected number of records given away, and the risk that there is one, by numbers of sources and records."""
    options.progress("adding up", 0.5)
    values: dict[Place, Sequence[float]] = {}
    for m in SOURCES:
        for n in SIZES[-4:]:
            found, row = leakage_distribution(n, m), f"m = {m}, n = {n}"
            values |= {(row, "expected"): [found.mean], (row, "risk"): [found.risk]}
    whole = leakage_distribution(5, 3)
    values["m = 3, n = 5", "sum of the probabilities"] = [sum(whole.pmf(k) for k in range(6))]
    risk = {m: np.array([leakage_distribution(n, m).risk for n in SIZES]) for m in SOURCES}
    large = np.array(SIZES) >= 100
    claims = [
        bool((np.diff([risk[m] for m in SOURCES], axis=0) < 0).all()),
        all((np.diff(risk[m]) < 0).all() for m in SOURCES[1:]),
        bool((np.diff(risk[SOURCES[0]]) < 0).all()),
        bool((risk[3][large] <= ALMOST).all()),
        all((risk[m] <= ALMOST).all() for m in SOURCES[2:]),
    ]
    return Found(values, claims=claims)
