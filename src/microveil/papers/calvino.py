"""Calviño (2017): the example of ten records (§3.1), Tarragona (Table 4), and Census (§4.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from microveil.core.arrays import Array
from microveil.papers.published import Found, Place, RunOptions
from microveil.papers.runs import collect, measured, once, releases
from microveil.papers.sources import SOURCES, ten_record_orders, ten_records
from microveil.release.release import Release

COMPONENTS, PAIRS = ("PC1", "PC2", "PC3"), ("cor XY", "cor XZ", "cor YZ")
WEIGHT_SIGNS = np.array([[-1, 1, 1], [-1, 1, -1], [1, 1, -1]])
"""Signs of equation 4."""


def release_figures(options: RunOptions, *, data: str, method: str, figures: str, **parameters: Any) -> Found:
    """Figures read from releases. `data` is one of `SOURCES`, `figures` one of `READERS`; the rest is the method's."""
    table = SOURCES[data]()
    made = releases(table, method, options, **parameters)
    return Found(collect(READERS[figures](table, release) for release in made))


def measured_with_variance(options: RunOptions, *, data: str, **study: Any) -> Found:
    """A study, and per cent of the variance in the first components (Table 4)."""
    table = SOURCES[data]()
    (release,) = releases(table, "pca", once(options.seed))
    shares = 100 * np.cumsum(release.components.explained)
    altered = {(f"pca {count}", "altered variance, %"): [float(share)] for count, share in enumerate(shares, start=1)}
    found = measured(options, data=table, **study)
    return replace(found, values={**found.values, **altered})


def swapped_records(options: RunOptions, *, swapped: Mapping[str, int]) -> Found:
    """The ten records with their first components in the paper's own order (Tables 2 and 3).

    `swapped` has the number of components by what the names of rows begin with.
    """
    values: dict[Place, list[float]] = {}
    for name, count in swapped.items():
        orders = ten_record_orders()[:, :count]
        made = releases(ten_records(), "pca", options, components=count, permutations=orders)
        values |= collect(_records(release.data, "XYZ", name) | _moments(release.data, name) for release in made)
    return Found(values)


def _cells(rows: Iterable[str], columns: Sequence[str], values: Array) -> dict[Place, float]:
    return {(row, column): float(values[i, j]) for i, row in enumerate(rows) for j, column in enumerate(columns)}


def _records(values: Array, columns: Sequence[str], name: str = "") -> dict[Place, float]:
    return _cells([f"{name}record {number}" for number in range(1, len(values) + 1)], columns, values)


def _moments(data: Array, name: str = "") -> dict[Place, float]:
    """Mean, standard deviation (divisor n - 1, as printed) and correlations."""
    correlation: Array = np.asarray(np.corrcoef(data.T))
    moments = np.vstack([data.mean(axis=0), data.std(axis=0, ddof=1)])
    pairs = correlation[np.triu_indices(3, 1)]
    return _cells([f"{name}mean", f"{name}sd"], "XYZ", moments) | _cells([f"{name}correlation"], PAIRS, pairs[None, :])


def _example(data: Array, release: Release) -> dict[Place, float]:
    """Scores of data in population deviations, and weights, with the signs of equation 4: these are arbitrary."""
    weights = release.components.weights
    weights = weights * np.sign((weights * WEIGHT_SIGNS).sum(axis=0))
    scores = (data - data.mean(axis=0)) / data.std(axis=0) @ weights
    # Only this line of the table has the divisor n - 1.
    deviations = np.sqrt(release.components.variance * len(data) / (len(data) - 1))
    return (
        _records(scores, COMPONENTS)
        | _cells(["sd"], COMPONENTS, deviations[None, :])
        | _cells([f"weight of {name}" for name in "XYZ"], COMPONENTS, weights)
        | _moments(data)
    )


def _weight_shares(_: Array, release: Release) -> dict[Place, float]:
    """What the text reads off Fig. 1."""
    shares = release.components.weight_shares
    return {
        ("V1", "share of component 3"): shares[0, 2],
        ("V1", "component with the largest weight"): 1 + int(np.argmax(shares[0])),
        ("V8", "share left by component 3"): 1 - shares[7, 2],
    }


def _own_correlations(_: Array, release: Release) -> dict[Place, float]:
    """Correlations of the columns with their release: a dose is one minus that."""
    doses = enumerate(release.dose.values(), start=1)
    return {(f"V{number}", "cor(V, V')"): 1 - dose.achieved for number, dose in doses}


def _correlations(data: Array, release: Release) -> dict[Place, float]:
    """Correlations of the first and the third column with all, before and after."""
    found: dict[Place, float] = {}
    for word, table in (("original", data), ("resulting", release.data)):
        rows = np.asarray(np.corrcoef(table.T))[[0, 2]]
        found |= _cells([f"V1 {word}", f"V3 {word}"], [f"V{number}" for number in range(1, 13)], rows)
    return found


def _factor_variance(_: Array, release: Release) -> dict[Place, float]:
    return {("Tarragona", "variance of the factors, %"): 100 * release.components.altered_variance}


READERS: dict[str, Callable[[Array, Release], dict[Place, float]]] = {
    "example": _example,
    "weight_shares": _weight_shares,
    "own_correlations": _own_correlations,
    "correlations": _correlations,
    "factor_variance": _factor_variance,
}
