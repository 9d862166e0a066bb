"""Calviño, Aldeguer and Domingo-Ferrer (2017), §IV: one column is sensitive. Figs. 5 and 6, which have no numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from microveil import api
from microveil.core.arrays import Array
from microveil.core.errors import MicroveilError
from microveil.papers.base import Found, Place, Printed, PublishedItem, RunOptions
from microveil.papers.calvino_factor import CORRELATIONS, PAPER, pair, row_of
from microveil.papers.runs import SAYS, SHOWN, TEXT, Methods, in_processes, releases, said
from microveil.papers.sources import TARRAGONA, tarragona
from microveil.release.release import Release

FAMILIES = ("PCA", "FA", "M-AGG")
Families = Mapping[str, Methods]
GROUPS = "microaggregate_noise"

# --- The score `overall`, and the best of several configurations by it


@dataclass(frozen=True, repr=False)
class ScoredConfiguration:
    """A configuration to score on a table of which one column is sensitive."""

    data: Array
    column: int
    method: str
    parameters: Mapping[str, Any]
    repeats: int
    seed: int | None


def _overall(data: Array, column: int, released: Array, kept: Array) -> float:
    """Expression (4): the four parts of `summary`, and twice the selectivity, from the correlations that were kept."""
    summary = api.assess(data, released, measures=["summary"], rules=None, seed=0, sanity=False)["summary"].value
    indices = 1 - kept
    indices[column] = kept[column]
    return (4 * summary + 2 * float(indices.mean())) / 6


def _taken_over(task: ScoredConfiguration, release: Release) -> tuple[Array, Array]:
    """The released table, and |correlations| of its columns with the original's; a dose is one minus that.

    Of microaggregation, only the sensitive column is taken over, also where groups are made of all columns.
    """
    columns = [task.column] if task.method == GROUPS else [int(name) for name in release.dose]
    released, kept = task.data.copy(), np.ones(task.data.shape[1])
    for column in columns:
        released[:, column] = release.data[:, column]
        kept[column] = abs(1 - release.dose[str(column)].achieved)
    return released, kept


def _scored(task: ScoredConfiguration) -> list[float]:
    """The score of every release; none where the configuration has nothing to alter."""
    asked = RunOptions(task.repeats, task.seed, 1, lambda *_: None)
    try:
        made = list(releases(task.data, task.method, asked, **task.parameters))
    except MicroveilError:
        return []
    return [_overall(task.data, task.column, *_taken_over(task, one)) for one in made]


def _best(tables: Mapping[str, tuple[Array, int, Families]], asked: RunOptions) -> dict[Place, list[float]]:
    """By table and family the scores of the configuration that is best on average."""
    places, tasks = [], []
    for row, (data, column, families) in tables.items():
        for family, configurations in families.items():
            for method, parameters in configurations.values():
                places.append((row, family))
                tasks.append(ScoredConfiguration(data, column, method, parameters, asked.repeats, asked.seed))
    best: dict[Place, list[float]] = {}
    for place, scores in zip(places, in_processes(_scored, tasks, asked), strict=True):
        if scores and (place not in best or np.mean(scores) < np.mean(best[place])):
            best[place] = scores
    for row, (data, column, families) in tables.items():
        for family in families:  # where no configuration alters anything, the release is the original
            if (row, family) not in best:
                best[row, family] = [_overall(data, column, data, np.ones(data.shape[1]))]
    return best


def _factor(column: int, **parameters: Any) -> Iterator[tuple[str, tuple[str, dict[str, Any]]]]:
    """Both of the paper's rotations with its three criteria."""
    for rotation in ("sensitive_first", "public_first"):
        for select in ("loads_on_sensitive", "not_on_public", "more_sensitive_than_public"):
            given = {"rotation": rotation, "select": select, "sensitive": [column], "rest": "keep", "exact": False}
            yield f"{rotation} {select} {parameters}", ("factor", {**given, **parameters})


def _components(data: Array, column: int, most: int) -> Methods:
    """The components on which the column weighs most: the one, two, ... largest, as a falling threshold takes them."""
    (release,) = releases(data, "pca", RunOptions(1, 0, 1, lambda *_: None))
    order = np.argsort(-np.abs(release.components.weights[column]), kind="stable").tolist()
    return {
        f"{count} components": ("pca", {"components": sorted(order[:count]), "exact": False})
        for count in range(1, most + 1)
    }


def _groups(column: int) -> Methods:
    """Small groups, as the paper has them, of records that are near in the sensitive column, or in all of them."""
    return {
        f"{near}, groups of {size}": (GROUPS, {"group_size": size, **roles})
        for size in (3, 5)
        for near, roles in (("near in one", {"confidential": [column]}), ("near in all", {}))
    }


def _families(data: Array, column: int, most: int) -> Families:
    configurations = (_components(data, column, most), dict(_factor(column)), _groups(column))
    return dict(zip(FAMILIES, configurations, strict=True))


# --- Fig. 5: two columns, one of them sensitive

CLAIMS_5 = (
    "M-AGG is less affected by the correlation than FA",
    "PCA is less affected by the correlation than FA",
    "FA is better than PCA from a correlation of 0.5 on",
)


def _claims_5(curves: Mapping[str, Array]) -> dict[str, bool]:
    """Curves have a mean for each correlation. Less affected: the mean moves less than half as much."""
    pca, fa, groups = (curves[name] for name in FAMILIES)
    medium = np.array(CORRELATIONS) >= 0.5
    found = (
        bool(np.ptp(groups) < np.ptp(fa) / 2),
        bool(np.ptp(pca) < np.ptp(fa) / 2),
        bool((fa < pca)[medium].all()),
    )
    return dict(zip(CLAIMS_5, found, strict=True))


def _run_5(asked: RunOptions) -> Found:
    tables: dict[str, tuple[Array, int, Families]] = {}
    for correlation in CORRELATIONS:
        data = pair(correlation)
        families = dict(_families(data, 0, 2))
        families["FA"] = {**families["FA"], **dict(_factor(0, extraction="ml"))}
        tables[row_of(correlation)] = (data, 0, families)
    values = _best(tables, asked)
    curves = {
        name: np.array([np.mean(values[row_of(correlation), name]) for correlation in CORRELATIONS])
        for name in FAMILIES
    }
    return Found({**values, **said(_claims_5(curves))})


BEST = (
    "of each method the configuration that is best on average: PCA with one, two, ... of the components on which the "
    "column weighs most; FA with both rotations and all three criteria (threshold 0.3); M-AGG of the column, in groups "
    "of 3 or 5 records that are near in it or in all columns"
)

FIGURE_5 = PublishedItem(
    id="calvino-factor-fig5",
    title="overall score of factor analysis, PCA and microaggregation where one of two columns is sensitive",
    paper=PAPER,
    place="Fig. 5",
    needs="nothing: the columns are simulated",
    printed=[
        *(Printed(row_of(correlation), name, None, SHOWN) for correlation in CORRELATIONS for name in FAMILIES),
        *(Printed(TEXT, claim, 1, SAYS) for claim in CLAIMS_5),
    ],
    run=_run_5,
    notes=(
        BEST,
        "FA also by maximum likelihood, which finds two factors in two columns",
        "less affected: the mean moves less than half as much",
    ),
)

# --- Fig. 6: one of five columns, by the correlations within and between

WITHIN = (0.1, 0.4, 0.7, 0.9)
BETWEEN = (0.1, 0.3, 0.5, 0.7)
RECORDS, COLUMNS = 300, 5
LEAST_EIGENVALUE = 0.01
Cell = tuple[float, float]


def _structure(within: float, between: float) -> Array:
    """Expression (5): the first column is the sensitive one."""
    matrix = np.full((COLUMNS, COLUMNS), within)
    matrix[0], matrix[:, 0] = between, between
    np.fill_diagonal(matrix, 1.0)
    return matrix


CELLS: tuple[Cell, ...] = tuple(
    (within, between)
    for within in WITHIN
    for between in BETWEEN
    if np.linalg.eigvalsh(_structure(within, between))[0] > LEAST_EIGENVALUE
)
"""Within and between, as far as there are such correlations."""


def _simulated(within: float, between: float) -> Array:
    """Normal columns with exactly these correlations."""
    drawn = np.random.default_rng(1).standard_normal((RECORDS, COLUMNS))
    basis, _ = np.linalg.qr(drawn - drawn.mean(axis=0))
    columns: Array = basis @ np.linalg.cholesky(_structure(within, between)).T
    return columns


def _cell_row(cell: Cell) -> str:
    return f"within {cell[0]:g}, between {cell[1]:g}"


LOW_WITHIN, LOW_BETWEEN = WITHIN[:2], BETWEEN[:2]
"""The lower half of either scale is low."""

CLAIMS_6 = (
    "PCA is best where within is high and between is low",
    "M-AGG is best where within is high and between is low",
    "FA is best where within is low and between is significant",
    "cookbook: PCA wins where within is high and between is low",
    "cookbook: FA wins where within is low and between is significant",
    "cookbook: M-AGG wins where between is low, and PCA is not advised",
)


def _claims_6(grids: Mapping[str, Mapping[Cell, float]]) -> dict[str, bool]:
    def at(low_within: bool, low_between: bool) -> list[Cell]:
        return [c for c in CELLS if (c[0] in LOW_WITHIN) == low_within and (c[1] in LOW_BETWEEN) == low_between]

    def wins(name: str, cells: list[Cell]) -> bool:
        return all(min(FAMILIES, key=lambda other: grids[other][cell]) == name for cell in cells)

    best = {name: min(CELLS, key=lambda cell: grids[name][cell]) for name in FAMILIES}
    found = (
        best["PCA"] in at(False, True),
        best["M-AGG"] in at(False, True),
        best["FA"] in at(True, False),
        wins("PCA", at(False, True)),
        wins("FA", at(True, False)),
        wins("M-AGG", at(True, True)),
    )
    return dict(zip(CLAIMS_6, found, strict=True))


def _run_6(asked: RunOptions) -> Found:
    tables = {}
    for cell in CELLS:
        data = _simulated(*cell)
        tables[_cell_row(cell)] = (data, 0, _families(data, 0, COLUMNS))
    values = _best(tables, asked)
    grids = {name: {cell: float(np.mean(values[_cell_row(cell), name])) for cell in CELLS} for name in FAMILIES}
    return Found({**values, **said(_claims_6(grids))})


FIGURE_6 = PublishedItem(
    id="calvino-factor-fig6",
    title="overall score of three methods by the correlations within and between, one of five columns sensitive",
    paper=PAPER,
    place="Fig. 6 and §V",
    needs="nothing: the columns are simulated",
    printed=[
        *(Printed(_cell_row(cell), name, None, SHOWN) for cell in CELLS for name in FAMILIES),
        *(Printed(TEXT, claim, 1, SAYS) for claim in CLAIMS_6),
    ],
    run=_run_6,
    notes=(
        BEST,
        "the paper tells neither the number of columns nor of records: 5 and 300",
        "low: 0.1 and 0.4 within, 0.1 and 0.3 between; the others are high, or significant",
        "a method is best where its own mean is lowest, and wins where it is lower than the others'",
    ),
)

# --- Fig. 6, the symbols: Tarragona, one column after the other sensitive

VARIABLES = [f"V{number}" for number in range(1, 14)]
MOST = 5
CLAIMS_TARRAGONA = (
    "M-AGG is best for some columns",
    "where M-AGG is best, between is lower than elsewhere",
)


def _claims_tarragona(winners: Sequence[str], between: Sequence[float]) -> dict[str, bool]:
    groups = [value for name, value in zip(winners, between, strict=True) if name == "M-AGG"]
    others = [value for name, value in zip(winners, between, strict=True) if name != "M-AGG"]
    lower = bool(groups and others and np.mean(groups) < np.mean(others))
    return dict(zip(CLAIMS_TARRAGONA, (bool(groups), lower), strict=True))


def _run_tarragona(asked: RunOptions) -> Found:
    data = tarragona()
    structure = [api.correlation_structure(data, [column]) for column in range(len(VARIABLES))]
    tables = {row: (data, column, _families(data, column, MOST)) for column, row in enumerate(VARIABLES)}
    values = _best(tables, asked)
    winners = [min(FAMILIES, key=lambda name: float(np.mean(values[row, name]))) for row in VARIABLES]
    claims = _claims_tarragona(winners, [between for between, _ in structure])
    for row, pair_of in zip(VARIABLES, structure, strict=True):
        values |= {(row, word): [value] for word, value in zip(("between", "within"), pair_of, strict=True)}
    return Found({**values, **said(claims)})


TARRAGONA_6 = PublishedItem(
    id="calvino-factor-fig6-tarragona",
    title="overall score of three methods on Tarragona, one column after the other sensitive",
    paper=PAPER,
    place="Fig. 6, symbols, and §IV.B",
    needs=TARRAGONA,
    printed=[
        *(Printed(row, name, None, SHOWN) for row in VARIABLES for name in ("between", "within", *FAMILIES)),
        *(Printed(TEXT, claim, 1, SAYS) for claim in CLAIMS_TARRAGONA),
    ],
    run=_run_tarragona,
    notes=(BEST, f"PCA with up to {MOST} components"),
)
