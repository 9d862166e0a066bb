"""Calviño (2017), §3.1: the illustrative example of ten records. Equation 4 and Tables 1 to 3."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from microveil.core.arrays import Array
from microveil.papers.base import Found, Place, Printed, PublishedItem, RunOptions, Tolerance, rounding
from microveil.papers.calvino_table4 import PAPER
from microveil.papers.runs import read_off, releases
from microveil.release.release import Release

X = np.array(
    [
        [26.20, 26.13, 85.98],
        [98.61, 124.85, 74.25],
        [43.97, 60.01, 55.26],
        [55.67, 126.72, 68.07],
        [82.51, 147.21, 58.13],
        [33.52, 87.71, 52.91],
        [72.80, 118.89, 85.34],
        [40.26, 32.56, 80.02],
        [38.14, 43.15, 70.48],
        [97.50, 165.31, 48.00],
    ]
)
SCORES = np.array(
    [
        [2.3095, 0.4611, -0.0835],
        [-1.1954, 1.2161, 0.4253],
        [0.4223, -1.2144, 0.3255],
        [-0.3816, 0.0625, -0.6000],
        [-1.6351, -0.0870, -0.0773],
        [0.2127, -1.4687, -0.3291],
        [-0.1328, 1.5062, -0.3122],
        [1.6889, 0.3184, 0.2680],
        [1.2865, -0.3333, 0.1997],
        [-2.5749, -0.4609, 0.1835],
    ]
)
WEIGHTS = np.array([[-0.6183, 0.4407, 0.6508], [-0.6656, 0.1468, -0.7317], [0.4180, 0.8856, -0.2026]])

# The order of each swapped component, implied by Tables 2 and 3 (source records, counted from 1).
ORDERS = (
    np.array([[10, 2, 7, 1, 6, 5, 3, 8, 4, 9], [10, 1, 7, 9, 8, 3, 4, 6, 5, 2], [10, 8, 6, 2, 1, 9, 4, 7, 5, 3]]).T - 1
)

# Masked data with the first, the first two and all three components swapped.
MASKED: dict[int, list[list[float]]] = {
    1: [
        [103.45, 181.07, 59.35],
        [98.61, 124.85, 74.25],
        [52.75, 77.62, 52.23],
        [13.11, 41.35, 82.74],
        [53.29, 88.59, 68.20],
        [62.74, 146.33, 42.84],
        [64.02, 101.28, 88.37],
        [40.26, 32.56, 80.02],
        [64.52, 96.06, 61.39],
        [36.43, 42.82, 69.05],
    ],
    2: [
        [93.05, 174.62, 48.71],
        [90.10, 119.57, 65.53],
        [83.42, 96.65, 83.66],
        [8.65, 38.58, 78.17],
        [57.86, 91.43, 72.89],
        [65.61, 148.11, 45.77],
        [47.75, 91.18, 71.69],
        [20.12, 20.06, 59.38],
        [67.30, 97.79, 64.23],
        [55.34, 54.55, 88.42],
    ],
    3: [
        [97.50, 165.31, 48.00],
        [87.48, 125.05, 65.94],
        [72.52, 119.48, 85.38],
        [25.72, 2.83, 75.46],
        [57.75, 91.65, 72.90],
        [74.41, 129.66, 44.38],
        [42.96, 101.22, 72.45],
        [10.46, 40.29, 60.91],
        [62.69, 107.45, 64.96],
        [57.70, 49.60, 88.04],
    ],
}
MEANS = [58.92, 93.25, 67.84]
DEVIATIONS: dict[int, list[float | None]] = {
    1: [None, 48.06, 14.21],
    2: [27.94, 47.38, 14.00],
    3: [26.78, 48.73, 14.24],
}
CORRELATIONS = {1: [0.8664, -0.2857, -0.4970], 2: [0.8258, -0.2354, -0.5947], 3: [0.8652, -0.2847, -0.4964]}

VARIABLES, COMPONENTS, PAIRS = ("X", "Y", "Z"), ("PC1", "PC2", "PC3"), ("cor XY", "cor XZ", "cor YZ")
TWO, FOUR = rounding(2), rounding(4)
# What rounding the records moves: standard deviations of 2.3e-5, 7.6e-5 and 6.5e-5 at most, by simulation.
REASON = (
    "half a unit of the 4th decimal, and three standard deviations of what rounding the records to two decimals moves"
)
CORRELATED = {
    pair: Tolerance(REASON, 0.00005 + 3 * moved) for pair, moved in zip(PAIRS, (2.3e-5, 7.6e-5, 6.5e-5), strict=True)
}
LOST = "unreadable in our copy of the paper"


def _records(name: str) -> list[str]:
    return [f"{name}record {number}" for number in range(1, len(X) + 1)]


def _cells(rows: Iterable[str], figures: Sequence[str], values: Array) -> dict[Place, float]:
    return {(row, figure): float(values[i, j]) for i, row in enumerate(rows) for j, figure in enumerate(figures)}


def _moments(name: str, data: Array) -> dict[Place, float]:
    """Mean, standard deviation (divisor n - 1, as printed) and correlations."""
    correlation: Array = np.asarray(np.corrcoef(data.T))
    pairs = correlation[np.triu_indices(3, 1)]
    return _cells(
        [f"{name}mean", f"{name}sd"], VARIABLES, np.vstack([data.mean(axis=0), data.std(axis=0, ddof=1)])
    ) | _cells([f"{name}correlation"], PAIRS, pairs[None, :])


# --- Table 1: scores, deviations and correlations of the original


def _scores(release: Release) -> dict[Place, float]:
    """Scores of data in population deviations. The signs of eigenvectors are arbitrary: the paper's are taken."""
    weights = release.components.weights
    weights = weights * np.sign((weights * WEIGHTS).sum(axis=0))
    scores = (X - X.mean(axis=0)) / X.std(axis=0) @ weights
    # Only this line of the table has the divisor n - 1.
    deviations = np.sqrt(release.components.variance * len(X) / (len(X) - 1))
    return (
        _cells(_records(""), COMPONENTS, scores)
        | _cells(["sd"], COMPONENTS, deviations[None, :])
        | _cells([f"weight of {name}" for name in VARIABLES], COMPONENTS, weights)
        | _moments("", X)
    )


def _printed_1() -> Iterator[Printed]:
    for row, values in zip(_records(""), SCORES, strict=True):
        yield from (Printed(row, name, float(value), FOUR) for name, value in zip(COMPONENTS, values, strict=True))
    for name, values in zip(VARIABLES, WEIGHTS, strict=True):
        row = f"weight of {name}"
        yield from (Printed(row, name, float(value), FOUR) for name, value in zip(COMPONENTS, values, strict=True))
    yield from (Printed("mean", name, value, TWO) for name, value in zip(VARIABLES, MEANS, strict=True))
    yield from (Printed("sd", name, value, TWO) for name, value in zip(VARIABLES, (26.96, 50.24, 13.75), strict=True))
    yield from (
        Printed("sd", name, value, FOUR) for name, value in zip(COMPONENTS, (1.5261, 0.9445, 0.3351), strict=True)
    )
    yield from (
        Printed("correlation", pair, value, CORRELATED[pair])
        for pair, value in zip(PAIRS, (0.8664, -0.2417, -0.4639), strict=True)
    )


TABLE_1 = PublishedItem(
    id="calvino-table1",
    title="ten records, their components and the weights of equation 4",
    paper=PAPER,
    place="Table 1 and equation 4",
    needs="nothing: the records are printed",
    printed=tuple(_printed_1()),
    run=lambda asked: read_off(releases(X, "pca", asked), _scores),
    least_repeats=0,
    notes=("scores are of data in population deviations; only the printed deviations have the divisor n - 1",),
)

# --- Tables 2 and 3: masked data from the paper's own permutations

COPIED = "it is the original's (Table 1); the printed masked data give 0.8666"


def _printed_masked(count: int, name: str) -> Iterator[Printed]:
    for row, values in zip(_records(name), MASKED[count], strict=True):
        yield from (Printed(row, column, value, TWO) for column, value in zip(VARIABLES, values, strict=True))
    yield from (Printed(f"{name}mean", column, value, TWO) for column, value in zip(VARIABLES, MEANS, strict=True))
    for column, deviation in zip(VARIABLES, DEVIATIONS[count], strict=True):
        yield Printed(f"{name}sd", column, deviation, TWO, remark=LOST if deviation is None else "")
    for pair, value in zip(PAIRS, CORRELATIONS[count], strict=True):
        wrong = (count, pair) == (1, "cor XY")
        misprint, right = (COPIED, 0.8666) if wrong else ("", None)
        yield Printed(f"{name}correlation", pair, value, CORRELATED[pair], misprint, right)


def _masked_figures(name: str, release: Release) -> dict[Place, float]:
    return _cells(_records(name), VARIABLES, release.data) | _moments(name, release.data)


def _masked(asked: RunOptions, counts: dict[int, str]) -> Found:
    values: dict[Place, Sequence[float]] = {}
    for count, name in counts.items():
        made = releases(X, "pca", asked, components=count, permutations=ORDERS[:, :count])
        values |= read_off(made, partial(_masked_figures, name)).values
    return Found(values)


TABLE_2 = PublishedItem(
    id="calvino-table2",
    title="the ten records with the first component swapped",
    paper=PAPER,
    place="Table 2",
    needs="nothing: the records are printed",
    printed=tuple(_printed_masked(1, "")),
    run=lambda asked: _masked(asked, {1: ""}),
    least_repeats=0,
    notes=("the permutation is the one that the printed components imply",),
)

TABLE_3 = PublishedItem(
    id="calvino-table3",
    title="the ten records with two and with all components swapped",
    paper=PAPER,
    place="Table 3",
    needs="nothing: the records are printed",
    printed=(*_printed_masked(2, "two: "), *_printed_masked(3, "all: ")),
    run=lambda asked: _masked(asked, {2: "two: ", 3: "all: "}),
    least_repeats=0,
    notes=(
        "the permutations are those that the printed components imply",
        "the text says that no record is left unchanged; yet the first of 'all' is the tenth original as it was",
    ),
)
