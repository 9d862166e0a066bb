"""Calviño, Aldeguer and Domingo-Ferrer (2017): Figs. 2, 3, 5 and 6, which have no numbers (`subsets` has Fig. 4).

General protection first, then (§IV) that of one column that is sensitive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError, MicroveilError
from microveil.core.table import Matrix
from microveil.measures.utility.distances import selectivity, sensitive_correlation
from microveil.papers.published import Found, Place, RunOptions
from microveil.papers.runs import in_processes, measured, once, part_of, releases
from microveil.papers.sources import tarragona
from microveil.papers.subsets import PARTS, whole
from microveil.release.release import Release
from microveil.studies.columns import correlation_structure
from microveil.studies.compare import Methods
from microveil.studies.study import UNPROTECTED

RECORDS = 500
CORRELATIONS = (0.05, 0.2, 0.5, 0.8, 0.95)
SUMMARY = {"summary": "summary"}
FACTORS: dict[str, Any] = {"rest": "keep", "exact": False}

FAMILIES = ("PCA", "FA", "M-AGG")
Families = Mapping[str, Sequence[tuple[str, Mapping[str, Any]]]]
"""Methods with their parameters, by family."""

GROUPS = "microaggregate_noise"

# --- Two columns by their correlation


def pair(correlation: float) -> Array:
    """Two normal columns with exactly this correlation."""
    drawn = np.random.default_rng(1).standard_normal((RECORDS, 2))
    basis, _ = np.linalg.qr(drawn - drawn.mean(axis=0))
    other: Array = correlation * basis[:, 0] + np.sqrt(1 - correlation**2) * basis[:, 1]
    return np.column_stack([basis[:, 0], other])


def row_of(correlation: float) -> str:
    """What the row of a correlation is called."""
    return f"correlation {correlation:g}"


def _curves(methods: Methods, options: RunOptions) -> tuple[dict[Place, Sequence[float]], dict[str, Array]]:
    """The summary of every method by the correlation: as figures, and as arrays (correlations x releases) by method."""
    values: dict[Place, Sequence[float]] = {}
    for number, correlation in enumerate(CORRELATIONS):
        part = part_of(options, number, len(CORRELATIONS))
        found = measured(part, data=pair(correlation), methods=methods, measures=SUMMARY)
        values |= {(row_of(correlation), method): of for (method, _), of in found.values.items()}
    return values, {
        method: np.array([values[row_of(correlation), method] for correlation in CORRELATIONS]) for method in methods
    }


# --- Fig. 2: the first, the second or both factors of two columns


def factor_choice(options: RunOptions, *, methods: Methods) -> Found:
    """Curves of the first, the second and both factors, in this order; the last method is tried without correlation."""
    values, curves = _curves(methods, options)
    name, parameters = list(methods.values())[-1]
    return Found(values, claims=claims_of_choice(curves, _nothing_to_alter(options, name, parameters)))


def claims_of_choice(curves: Mapping[str, Array], nothing: bool) -> list[bool]:
    """Does what the text says of the curves (first, second and both factors; correlations x releases) hold?"""
    first, second, both = (curve.mean(axis=1) for curve in curves.values())
    widths = [_width(curve) for curve in curves.values()]
    return [
        bool((np.diff(both) < 0).all()),
        bool((np.diff(first) < 0).all()),
        bool((second > np.maximum(first, both)).all()),
        nothing,
        bool(widths[2] < widths[0]),
    ]


def _nothing_to_alter(options: RunOptions, method: str, parameters: Mapping[str, Any]) -> bool:
    """Are two uncorrelated columns refused, because they have no common factor?"""
    try:
        next(releases(pair(0.0), method, options, **parameters))
    except DataError:
        return True
    return False


# --- Fig. 3: three methods by the correlation


def methods_by_correlation(options: RunOptions, *, methods: Methods) -> Found:
    """Curves of FA, PCA and M-AGG."""
    values, curves = _curves(methods, options)
    return Found(values, claims=claims_by_correlation(curves))


def claims_by_correlation(curves: Mapping[str, Array]) -> list[bool]:
    """Does what the text says of the curves (correlations x releases) hold?"""
    fa, pca, groups = (curves[method].mean(axis=1) for method in ("FA", "PCA", "M-AGG"))
    above = np.array(CORRELATIONS) > 0.5
    errors = [curves[method].std(axis=1, ddof=1) / np.sqrt(curves[method].shape[1]) for method in ("FA", "PCA")]
    widths = {method: _width(curve) for method, curve in curves.items()}
    return [
        bool((np.diff(fa) < 0).all()),
        bool((fa < groups)[above].all()),
        bool(np.ptp(groups) < np.ptp(fa) / 2),
        bool(np.ptp(pca) < np.ptp(fa) / 2),
        bool((np.abs(fa - pca) <= 3 * np.hypot(*errors))[above].all()),
        max(widths["FA"], widths["PCA"]) < widths["M-AGG"],
    ]


def _width(curve: Array) -> float:
    """How wide the 95 % intervals of releases are, on average (correlations x releases)."""
    return float(np.ptp(np.percentile(curve, (2.5, 97.5), axis=1), axis=0).mean())


# --- Selective protection: the best of several configurations by the score `overall`


class ScoredConfiguration(NamedTuple):
    """A configuration to score on a table of which one column is sensitive."""

    data: Array
    column: int
    method: str
    parameters: Mapping[str, Any]
    repeats: int
    seed: int | None


class Scored(NamedTuple):
    """The score `overall` of every release, and the correlation of the sensitive column with its original."""

    scores: Sequence[float]
    kept: Sequence[float]

    @property
    def rank(self) -> tuple[bool, float]:
        """What is least in the best configuration: those that leave the column nearly as it was come last."""
        return not self.protects, float(np.mean(self.scores))

    @property
    def protects(self) -> bool:
        """Is the column another one? The rule of `compare` and `recommend`."""
        return float(np.mean(self.kept)) <= UNPROTECTED

    def beats(self, other: Scored) -> bool:
        """Does it protect, and is its score lower by three standard errors, unless the other does not protect?"""
        apart = float(np.mean(other.scores) - np.mean(self.scores))
        return self.protects and (not other.protects or apart > 3 * np.hypot(self.error, other.error))

    @property
    def error(self) -> float:
        """The standard error of the mean score."""
        return float(np.std(self.scores, ddof=1) / np.sqrt(len(self.scores))) if len(self.scores) > 1 else 0.0


def _released(task: ScoredConfiguration, release: Release) -> Array:
    """The released table. Of microaggregation only the sensitive column is taken, also where groups are of all."""
    if task.method != GROUPS:
        return np.asarray(release.data)
    released = task.data.copy()
    released[:, task.column] = release.data[:, task.column]
    return released


def _scored(task: ScoredConfiguration) -> Scored:
    """The scores `overall` (eq. 4) of a configuration; where it has nothing to alter, the release is the original."""
    options = replace(once(task.seed), repeats=task.repeats)
    try:
        made = [_released(task, one) for one in releases(task.data, task.method, options, **task.parameters)]
    except MicroveilError:
        made = [task.data]
    table, tables, hidden = Matrix.from_array(task.data), [Matrix.from_array(one) for one in made], [task.column]
    apart = [selectivity(table, one, sensitive=hidden).value for one in tables]
    overall = [(PARTS * whole(task.data, one) + 2 * part) / (PARTS + 2) for one, part in zip(made, apart, strict=True)]
    return Scored(overall, [sensitive_correlation(table, one, sensitive=hidden).value for one in tables])


Best = Mapping[Place, Scored]
"""The configuration that is best on average, by row and family."""


def _best(tables: Mapping[str, tuple[Array, int, Families]], options: RunOptions) -> Best:
    """The best of each family, of those that protect if any do.

    `tables` has the data (records x columns), the sensitive column and the families to try, by row.
    """
    places, tasks = [], []
    for row, (data, column, families) in tables.items():
        for family, configurations in families.items():
            places += [(row, family)] * len(configurations)
            tasks += [ScoredConfiguration(data, column, *one, options.repeats, options.seed) for one in configurations]
    best: dict[Place, Scored] = {}
    for place, found in zip(places, in_processes(_scored, tasks, options), strict=True):
        best[place] = min(best.get(place, found), found, key=lambda one: one.rank)
    return best


def _figures(best: Best) -> dict[Place, Sequence[float]]:
    """Scores, and the correlation that is left of the sensitive column."""
    scores: dict[Place, Sequence[float]] = {place: found.scores for place, found in best.items()}
    return scores | {(row, f"{family}: correlation"): found.kept for (row, family), found in best.items()}


def winner_of(best: Best, row: str) -> str:
    """The family that beats the others; "tie" where none does, "none" where none protects."""
    found = {name: best[row, name] for name in FAMILIES}
    if not any(one.protects for one in found.values()):
        return "none"
    winners = (name for name in found if all(found[name].beats(found[other]) for other in found if other != name))
    return next(winners, "tie")


def _families(data: Array, column: int, most: int, extractions: Sequence[Mapping[str, str]] = ({},)) -> Families:
    """What is tried where one column of the data (records x columns) is sensitive.

    PCA: the components on which the column weighs most, the one, two, ... `most` largest, as a falling threshold takes
    them. FA: both of the paper's rotations with its three criteria, by each extraction. M-AGG: small groups, as the
    paper has them, of records that are near in the sensitive column, or in all of them.
    """
    (release,) = releases(data, "pca", once())
    order = np.argsort(-np.abs(release.components.weights[column]), kind="stable").tolist()
    chosen = [sorted(order[:count]) for count in range(1, most + 1)]
    factors = [
        {"rotation": rotation, "select": select, "sensitive": [column], **FACTORS, **extraction}
        for extraction in extractions
        for rotation in ("sensitive_first", "public_first")
        for select in ("loads_on_sensitive", "not_on_public", "more_sensitive_than_public")
    ]
    groups = [{"group_size": size, **near} for size in (3, 5) for near in ({"confidential": [column]}, {})]
    return {
        "PCA": [("pca", {"components": components, "exact": False}) for components in chosen],
        "FA": [("factor", parameters) for parameters in factors],
        "M-AGG": [(GROUPS, parameters) for parameters in groups],
    }


# --- Fig. 5: two columns, one of them sensitive


def selective_pair(options: RunOptions) -> Found:
    """Scores by the correlation of two columns."""
    data = {row_of(correlation): pair(correlation) for correlation in CORRELATIONS}
    extractions: list[dict[str, str]] = [{}, {"extraction": "ml"}]
    best = _best({row: (table, 0, _families(table, 0, 2, extractions)) for row, table in data.items()}, options)
    curves = {name: np.array([np.mean(best[row, name].scores) for row in data]) for name in FAMILIES}
    better = [best[row, "FA"].beats(best[row, "PCA"]) for row in data]
    return Found(_figures(best), claims=claims_of_pair(curves, better))


def claims_of_pair(curves: Mapping[str, Array], better: Sequence[bool]) -> list[bool]:
    """Curves have a mean for each correlation. Less affected: the mean moves less than half as much.

    `better` says for each correlation whether FA beats PCA.
    """
    pca, fa, groups = (curves[name] for name in FAMILIES)
    medium = np.array(CORRELATIONS) >= 0.5
    return [
        bool(np.ptp(groups) < np.ptp(fa) / 2),
        bool(np.ptp(pca) < np.ptp(fa) / 2),
        bool(np.array(better)[medium].all()),
    ]


# --- Fig. 6: one of five columns, by the correlations within and between

WITHIN = (0.1, 0.4, 0.7, 0.9)
BETWEEN = (0.1, 0.3, 0.5, 0.7)
GRID_RECORDS, COLUMNS = 300, 5
LEAST_EIGENVALUE = 0.01
GridCell = tuple[float, float]


def _structure(within: float, between: float) -> Array:
    """Expression (5): the first column is the sensitive one."""
    matrix = np.full((COLUMNS, COLUMNS), within)
    matrix[0], matrix[:, 0] = between, between
    np.fill_diagonal(matrix, 1.0)
    return matrix


CELLS: tuple[GridCell, ...] = tuple(
    (within, between)
    for within in WITHIN
    for between in BETWEEN
    if np.linalg.eigvalsh(_structure(within, between))[0] > LEAST_EIGENVALUE
)
"""Within and between, as far as there are such correlations."""

LOW_WITHIN, LOW_BETWEEN = WITHIN[:2], BETWEEN[:2]
"""The lower half of either scale is low."""


def _simulated(within: float, between: float) -> Array:
    """Normal columns with exactly these correlations."""
    drawn = np.random.default_rng(1).standard_normal((GRID_RECORDS, COLUMNS))
    basis, _ = np.linalg.qr(drawn - drawn.mean(axis=0))
    columns: Array = basis @ np.linalg.cholesky(_structure(within, between)).T
    return columns


def selective_grid(options: RunOptions) -> Found:
    """Scores by the correlations within and between."""
    rows = {cell: f"within {cell[0]:g}, between {cell[1]:g}" for cell in CELLS}
    data = {row: _simulated(*cell) for cell, row in rows.items()}
    best = _best({row: (table, 0, _families(table, 0, COLUMNS)) for row, table in data.items()}, options)
    grids = {name: {cell: float(np.mean(best[row, name].scores)) for cell, row in rows.items()} for name in FAMILIES}
    winners = {cell: winner_of(best, row) for cell, row in rows.items()}
    return Found(_figures(best), claims=claims_of_grid(grids, winners))


def claims_of_grid(grids: Mapping[str, Mapping[GridCell, float]], winners: Mapping[GridCell, str]) -> list[bool]:
    """A method is best where its own mean is lowest (`grids`, by method), and wins where it beats the others."""

    def at(low_within: bool, low_between: bool) -> list[GridCell]:
        return [c for c in CELLS if (c[0] in LOW_WITHIN) == low_within and (c[1] in LOW_BETWEEN) == low_between]

    def wins(name: str, cells: list[GridCell]) -> bool:
        return all(winners[cell] == name for cell in cells)

    best = {name: min(CELLS, key=lambda cell: grids[name][cell]) for name in FAMILIES}
    return [
        best["PCA"] in at(False, True),
        best["M-AGG"] in at(False, True),
        best["FA"] in at(True, False),
        wins("PCA", at(False, True)),
        wins("FA", at(True, False)),
        wins("M-AGG", at(True, True)),
    ]


# --- Fig. 6, the symbols: Tarragona, one column after the other sensitive


def selective_tarragona(options: RunOptions, *, most_components: int) -> Found:
    """Scores with each column of Tarragona as the sensitive one, and its correlations."""
    data = tarragona()
    rows = [f"V{number}" for number in range(1, data.shape[1] + 1)]
    structure = [correlation_structure(data, [column]) for column in range(len(rows))]
    best = _best(
        {row: (data, column, _families(data, column, most_components)) for column, row in enumerate(rows)}, options
    )
    winners = [winner_of(best, row) for row in rows]
    values = _figures(best)
    for row, (between, within) in zip(rows, structure, strict=True):
        values |= {(row, "between"): [between], (row, "within"): [within]}
    counts = {("winners", name): [float(winners.count(name))] for name in (*FAMILIES, "tie", "none")}
    return Found({**values, **counts}, claims=claims_of_tarragona(winners, [between for between, _ in structure]))


def claims_of_tarragona(winners: Sequence[str], between: Sequence[float]) -> list[bool]:
    """Is microaggregation the winner of some columns, and where it is, are between-correlations lower?"""
    groups = [value for name, value in zip(winners, between, strict=True) if name == "M-AGG"]
    others = [value for name, value in zip(winners, between, strict=True) if name != "M-AGG"]
    return [bool(groups), bool(groups and others and np.mean(groups) < np.mean(others))]
