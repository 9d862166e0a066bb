"""Decimals in the place of suppressed cells: the paper's table, RegSDC from its draws, and what must always hold."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from microveil import tables
from microveil.core.errors import DataError, ParameterError
from microveil.tables.fill import ResidualOptions, required_scale, synthetic
from microveil.tables.reduced import Reduced, pieces, reduced

Array = NDArray[np.float64]

GOLDEN = Path(__file__).parents[1] / "golden" / "suppressed"
COUNTS = np.array([[3, 11, 32, 30], [1, 9, 13, 8], [12, 22, 2, 2], [18, 19, 16, 3]])
HIDDEN = [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 3), (3, 4), (4, 1), (4, 4)]
"""Langsrud (2019), Table 1: what is hidden there. It is read by columns, as in the golden files."""


def cell(row: int, column: int) -> tuple[str, str]:
    return f"row{row}", f"col{column}"


def table_1() -> tables.Table:
    cells = [(*cell(i + 1, j + 1), int(COUNTS[i, j])) for j in range(4) for i in range(4)]
    return tables.Table(pd.DataFrame(cells, columns=["row", "col", "n"]), ["row", "col"])


def paper() -> tables.Suppressed:
    return tables.as_suppressed(table_1(), [cell(*place) for place in HIDDEN])


def by_columns(inner: Array) -> Array:
    """Our inner cells, row by row, in the order of the golden files."""
    return inner.reshape(4, 4).T.ravel()


def golden(name: str) -> dict[str, Any]:
    (path,) = GOLDEN.glob(f"{name}_*.json")
    return json.loads(path.read_text())


def matrix(case: dict[str, Any], name: str) -> Array:
    return np.array(case[name] if name in case else case["inputs"][name], dtype=float)


def our_draws(case: dict[str, Any]) -> Array:
    """Deviates of the nine unknown cells, from the order of the golden files to ours."""
    hidden = np.zeros(16, dtype=bool)
    hidden[[4 * (j - 1) + i - 1 for i, j in HIDDEN]] = True  # by columns
    spread = np.full((16, len(case["random_draws"][0])), np.nan)
    spread[hidden] = matrix(case, "random_draws")
    ours = spread.reshape(4, 4, -1).transpose(1, 0, 2).reshape(16, -1)
    return ours[~np.isnan(ours[:, 0])]


def random_table(shape: tuple[int, ...], seed: int, share: float = 0.6, kind: str = "counts") -> tables.Suppressed:
    """A table of which some cells, shown sums among them, are hidden at random."""
    rng = np.random.default_rng(seed)
    values = rng.poisson(rng.gamma(0.7, 12, size=shape)) if kind == "counts" else rng.lognormal(6, 2, size=shape)
    frame = pl.DataFrame(
        {f"d{k}": axis.ravel().astype(str) for k, axis in enumerate(np.indices(shape))} | {"n": values.ravel()}
    )
    table = tables.Table(frame, [f"d{k}" for k in range(len(shape))])
    hidden = np.flatnonzero(rng.random(table.count) < share)
    names = list(zip(*table.labels.values(), strict=True))
    return tables.as_suppressed(table, [tuple(map(str, names[row])) for row in hidden])


# --- The paper


@pytest.mark.parametrize(("column", "modulo"), [("Yhat", None), ("YhatMod4", 4), ("YhatMod10", 10)])
def test_fitted_values_of_table_2(column: str, modulo: float | None) -> None:
    found = tables.fitted(paper(), modulo).inner.reshape(4, 4)
    with (GOLDEN / "table2_comparison.csv").open() as stream:
        printed = list(csv.DictReader(stream))
    assert len(printed) == 9
    for line in printed:
        row, place = (int(part[3:]) - 1 for part in line["cell"].split("_"))
        assert found[row, place] == pytest.approx(float(line[f"{column}_paper"]), abs=5e-5)
        assert found[row, place] == pytest.approx(float(line[column]), abs=1e-10)


@pytest.mark.parametrize("modulo", [None, 4, 10])
def test_fitted_values_are_those_of_the_pseudo_inverse(modulo: float | None) -> None:
    s = paper()
    x = s.table.matrix.toarray().astype(float)[~s.suppressed]
    y = s.table.inner_values
    base = 0 * y if modulo is None else modulo * np.floor(y / modulo)
    assert tables.fitted(s, modulo).inner == pytest.approx(np.linalg.pinv(x) @ x @ (y - base) + base, abs=1e-10)


def test_the_warning_of_the_modulo_method_counts_what_rounding_gives_away() -> None:
    """With 4 as the divisor "the true value is the closest integer in all cases" (§7)."""
    assert tables.fitted(paper()).warnings == []
    said = " ".join(tables.fitted(paper(), 4).warnings)
    assert "has not been studied thoroughly" in said
    assert "9 of 9 suppressed cells come out at their true value" in said
    assert "9 of 9" not in " ".join(tables.fitted(paper(), 10).warnings)


# --- RegSDC, from its draws


def test_fitted_values_of_regsdc() -> None:
    assert by_columns(tables.fitted(paper()).inner) == pytest.approx(matrix(golden("R080"), "output")[:, 0], abs=1e-10)
    found = by_columns(tables.fitted(paper(), 10).inner)
    assert found == pytest.approx(matrix(golden("R082"), "output")[:, 0], abs=1e-10)


@pytest.mark.parametrize(
    ("name", "options"),
    [("R083", {}), ("R085", {"modulo": 10, "residual_scale": 0.1}), ("R086", {"residual_sd": 1.0})],
)
def test_decimals_of_regsdc(name: str, options: dict[str, Any]) -> None:
    case = golden(name)
    found = tables.fill(paper(), draws=our_draws(case), **options)
    assert by_columns(found.inner) == pytest.approx(matrix(case, "output")[:, 0], abs=1e-10)


def test_nothing_suppressed_gives_the_table_back() -> None:
    assert matrix(golden("R088"), "output")[:, 0].tolist() == by_columns(table_1().inner_values).tolist()
    found = tables.fill(tables.as_suppressed(table_1(), []))
    assert found.inner.tolist() == table_1().inner_values.tolist()
    assert found.warnings == []


def test_several_variables_of_regsdc() -> None:
    case = golden("R091")
    y = matrix(case, "y")
    frame = pd.DataFrame([(*cell(i + 1, j + 1), *y[4 * j + i]) for j in range(4) for i in range(4)])
    frame.columns = ["row", "col", "n", "amount"]
    both = [tables.Table(frame, ["row", "col"], value) for value in ("n", "amount")]
    s = tables.as_suppressed(both[0], [cell(*place) for place in HIDDEN])
    found = tables.fill(s, others=both[1:], draws=our_draws(case))
    for number in range(2):
        ours = by_columns(found.by_variable[:, number])
        assert ours == pytest.approx(matrix(case, "output")[:, number], abs=1e-9)
    assert found.by_variable.T @ found.by_variable == pytest.approx(y.T @ y, rel=1e-12)
    assert list(found.cells.columns)[-2:] == ["filled", "amount_filled"]
    assert list(found.published.columns) == ["row", "col", "n", "amount", "suppressed"]


def test_residuals_of_a_given_standard_deviation_of_regsdc() -> None:
    """IpsoExtra on a regression that is no table: the kernel asks for sums only."""
    case = golden("R092")
    x = np.column_stack([np.ones(20), matrix(case, "x")[:, 0]])
    system = Reduced(np.arange(20), np.arange(2), csr_array(x.T))
    for number in range(2):
        draws = matrix(case, "random_draws")[:, [number]]
        found = synthetic(system, matrix(case, "y"), ResidualOptions(residual_sd=0.25), lambda _, draws=draws: draws)
        assert found[:, 0] == pytest.approx(matrix(case, "output")[:, number], abs=1e-10)


# --- What must always hold


@pytest.mark.parametrize("shape", [(5, 4), (4, 4, 3), (5, 4, 4, 3), (30, 20)])
@pytest.mark.parametrize(
    "options",
    [{}, {"residual_scale": 0.1}, {"residual_sd": 3.0}, {"modulo": 10}, {"modulo": 10, "residual_scale": 0.1}],
)
def test_published_cells_stay(shape: tuple[int, ...], options: dict[str, Any]) -> None:
    for seed in range(5):
        s = random_table(shape, seed, kind="counts" if seed % 2 else "amounts")
        found = tables.fill(s, seed=seed, **options)
        sums = s.table.matrix.astype(float) @ found.inner
        size = np.maximum(1.0, np.abs(s.table.published_values))
        assert (np.abs(sums - s.table.published_values) / size)[~s.suppressed].max() <= 1e-9
        assert found.values[~s.suppressed].tolist() == s.table.published_values[~s.suppressed].tolist()
        assert found.values[s.suppressed] == pytest.approx(sums[s.suppressed], rel=1e-12)


@pytest.mark.quick("shape0", "shape1")
@pytest.mark.parametrize("shape", [(5, 4), (4, 4, 3), (12, 10, 8)])
def test_fitted_values_of_random_tables_are_those_of_the_pseudo_inverse(shape: tuple[int, ...]) -> None:
    for seed in range(3):
        s = random_table(shape, seed, 0.5)
        x = s.table.matrix.toarray().astype(float)[~s.suppressed]
        y = s.table.inner_values
        assert np.abs(tables.fitted(s).inner - np.linalg.pinv(x) @ (x @ y)).max() <= 1e-10


def test_the_sum_of_squares_stays() -> None:
    s = random_table((6, 5, 4), 1)
    found, y = tables.fill(s, seed=1).inner, s.table.inner_values
    assert found @ found == pytest.approx(y @ y, rel=1e-12)
    assert np.abs(found - y).max() > 1


def test_scaled_residuals_have_the_size_that_was_asked_for() -> None:
    s = paper()
    fit, y = tables.fitted(s).inner, s.table.inner_values
    half = tables.fill(s, residual_scale=0.5, seed=3).inner - fit
    assert np.linalg.norm(half) == pytest.approx(0.5 * np.linalg.norm(y - fit), rel=1e-12)
    given = tables.fill(s, residual_sd=2.0, seed=3).inner - fit
    assert given @ given / 2 == pytest.approx(4.0, rel=1e-12)  # two directions are free
    assert tables.fill(s, residual_scale=0.0, seed=3).inner == pytest.approx(fit, abs=1e-12)


@pytest.mark.parametrize("modulo", [4, 10])
def test_the_required_variance_under_modulo(modulo: float) -> None:
    """The quadratic equation: with 10 every draw can be scaled to it, with 4 some cannot and others are drawn."""
    for seed in range(20):
        found = tables.fill(paper(), modulo=modulo, keep_variance=True, seed=seed).inner
        assert found @ found == pytest.approx(3955, rel=1e-12)


def test_how_many_draws_allow_the_variance() -> None:
    """In two dimensions a draw at the angle t to what was deducted allows it if cos²t >= 1 - t/h."""
    s = paper()
    system, y = reduced(s.table.matrix, s.suppressed), s.table.inner_values[:, None]
    secret = y[system.unknown]
    base = 4 * np.floor(secret / 4)
    part, goal = system.residuals(base), np.square(system.residuals(secret)).sum(axis=0)
    share = 2 / np.pi * np.arccos(np.sqrt(1 - goal[0] / np.square(part).sum()))
    rng = np.random.default_rng(1)
    draws = [system.residuals(rng.normal(size=(9, 1))) for _ in range(2000)]
    solved = np.mean([required_scale(draw, part, goal) is not None for draw in draws])
    assert share == pytest.approx(0.83, abs=0.005)
    assert abs(solved - share) < 4 * np.sqrt(share * (1 - share) / 2000)


def test_draws_that_do_not_allow_the_variance_are_told() -> None:
    s = paper()
    system, y = reduced(s.table.matrix, s.suppressed), s.table.inner_values
    base = 4 * np.floor(y[system.unknown] / 4)
    across = system.residuals(np.random.default_rng(1).normal(size=(9, 1)))
    part = system.residuals(base[:, None])
    across -= part * float((across * part).sum() / (part * part).sum())
    with pytest.raises(DataError, match="do not allow the variance"):
        tables.fill(s, modulo=4, keep_variance=True, draws=across)


# --- Seeds


def test_a_seed_repeats_and_fresh_entropy_does_not() -> None:
    first, again = (tables.fill(paper(), seed=7).inner for _ in range(2))
    assert first.tolist() == again.tolist()
    assert tables.fill(paper(), seed=8).inner.tolist() != first.tolist()
    assert tables.fill(paper()).inner.tolist() != tables.fill(paper()).inner.tolist()


@pytest.mark.slow
def test_directions_are_drawn_evenly() -> None:
    """Two directions are free: the angle is uniform, so its cosine squared has mean 1/2 and variance 1/8."""
    s = paper()
    fit = tables.fitted(s).inner
    axis = s.table.inner_values - fit
    squares = []
    for seed in range(600):
        new = tables.fill(s, seed=seed).inner - fit
        squares.append(float(new @ axis / (axis @ axis)) ** 2)
    assert abs(np.mean(squares) - 0.5) < 4 * np.sqrt(1 / 8 / 600)


# --- Suppressions that have failed


def test_rank_n_is_refused() -> None:
    s = tables.as_suppressed(table_1(), [cell(1, 1), cell(2, 2)])
    with pytest.raises(DataError, match="every suppressed cell follows from the published ones"):
        tables.fill(s)


def test_rank_n_minus_1_is_refused_but_not_for_fitted_values() -> None:
    s = tables.as_suppressed(table_1(), [cell(i, j) for i in (1, 2) for j in (3, 4)])
    with pytest.raises(DataError, match="their mirror image"):
        tables.fill(s)
    with pytest.raises(DataError, match="their mirror image"):
        tables.fill(s, residual_scale=0.5)
    square = COUNTS[:2, 2:]
    fit = square.sum(axis=1, keepdims=True) / 2 + square.sum(axis=0) / 2 - square.sum() / 4
    assert tables.fitted(s).inner.reshape(4, 4)[:2, 2:] == pytest.approx(fit, abs=1e-10)
    assert tables.fill(s, residual_scale=0).inner.tolist() == tables.fitted(s).inner.tolist()


def test_determined_cells_come_out_whole_in_two_draws_and_are_named() -> None:
    lone = cell(3, 2)  # alone in its column: it follows
    squares = [cell(i, j) for i in (1, 2, 4) for j in (3, 4)]
    s = tables.as_suppressed(table_1(), [lone, *squares])
    found = tables.fill(s, seed=1)
    assert [s.table.name_of(int(row)) for row in np.flatnonzero(found.determined)] == ["(row=row3, col=col2)"]
    (said,) = found.warnings
    assert "the suppression has failed: of the suppressed cells 1 can be derived" in said
    assert "(row=row3, col=col2)" in said
    again = tables.fill(s, seed=2)
    for draw in (found, again):
        whole = np.abs(draw.values - np.rint(draw.values)) <= 1e-9
        assert (whole & s.suppressed).tolist() == found.determined.tolist()


def test_no_cell_of_a_good_suppression_comes_out_whole() -> None:
    found = tables.fill(paper(), seed=1)
    assert not found.determined.any()
    hidden = found.values[found.suppressed.suppressed]
    assert np.abs(hidden - np.rint(hidden)).min() > 1e-9


def test_a_cell_that_follows_in_two_steps_is_known() -> None:
    """Column 1 gives row 1 away, and then row 1 gives away the rest."""
    s = tables.as_suppressed(table_1(), [cell(1, 1), cell(1, 2), cell(3, 2)])
    assert reduced(s.table.matrix, s.suppressed).size == 0


# --- Sums afterwards


def test_sums_are_publishable_where_the_decimals_cancel() -> None:
    found = tables.fill(paper(), seed=1)
    known = found.sum_of([cell(1, 1), cell(1, 2)])
    assert known == tables.CellSum(14.0, True)
    assert found.sum_of([cell(3, 3), cell(3, 4), {"row": "row1"}]) == tables.CellSum(80.0, True)
    hidden = found.sum_of([cell(1, 1), cell(4, 4)])
    assert not hidden.publishable
    assert abs(hidden.value - round(hidden.value)) > 1e-9
    assert found.sum_of([{"col": "col1"}]) == tables.CellSum(34.0, True)
    assert found.sum_of([]) == tables.CellSum(0.0, True)


def test_a_sum_over_every_second_cell_of_a_ring_is_publishable_only_with_its_partner() -> None:
    s = tables.as_suppressed(table_1(), [cell(i, j) for i in (1, 2, 3) for j in (1, 2, 3)])
    found = tables.fill(s, seed=2)
    assert not found.sum_of([cell(1, 1), cell(2, 2), cell(3, 3)]).publishable
    assert found.sum_of([cell(i, j) for i in (1, 2) for j in (1, 2, 3)]).publishable


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ([("row1", "col9")], "dimension 'col' has no such code"),
        ([("row1",)], "a cell has a code for each of the dimensions row, col"),
        ([{"rows": "row1"}], "'rows' is not among the dimensions"),
    ],
)
def test_unknown_cells_are_named(asked: list[Any], problem: str) -> None:
    with pytest.raises(ParameterError, match=problem):
        tables.fill(paper(), seed=1).sum_of(asked)


# --- Options


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"modulo": 0}, "modulo must be above 0"),
        ({"modulo": float("nan")}, "modulo must be above 0"),
        ({"residual_scale": -1}, "residual_scale must not be negative"),
        ({"residual_sd": 0}, "residual_sd must be above 0"),
        ({"residual_sd": 1, "keep_variance": True}, "exclude each other"),
        ({"residual_scale": 0.1, "keep_variance": True}, "exclude each other"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"seed": 1.5}, "seed must be a whole number"),
        ({"draws": np.zeros((3, 1))}, "draws: 9 rows and 1 columns of deviates are needed"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ParameterError, match=problem):
        tables.fill(paper(), **options)


def test_other_tables_must_have_the_same_cells() -> None:
    other = random_table((4, 4), 1).table
    with pytest.raises(ParameterError, match="other cells"):
        tables.fill(paper(), others=[other])
    with pytest.raises(ParameterError, match="the same variable"):
        tables.fill(paper(), others=[table_1()])


def test_frames_come_back_as_they_came() -> None:
    assert isinstance(tables.fill(paper(), seed=1).cells, pd.DataFrame)
    s = random_table((4, 4, 3), 1)
    found = tables.fill(s, seed=1)
    assert isinstance(found.published, pl.DataFrame)
    assert found.published.columns == ["d0", "d1", "d2", "n", "suppressed"]
    assert "value" not in repr(found)


def test_linked_tables_need_not_show_their_inner_cells() -> None:
    """Cells that nobody shows are filled as well: what is stored must not hold them."""
    rng = np.random.default_rng(3)
    places = np.indices((4, 3, 3)).reshape(3, -1)
    frame = pl.DataFrame({"abc"[k]: axis.astype(str) for k, axis in enumerate(places)} | {"n": rng.poisson(9, 36)})
    table = tables.Table(frame, ["a", "b", "c"], linked=[["a", "b"], ["b", "c"]])
    for cells in ([], [{"a": "0", "b": "0"}, {"a": "0", "b": "1"}, {"a": "1", "b": "0"}, {"a": "1", "b": "1"}]):
        s = tables.as_suppressed(table, cells)
        found = tables.fill(s, seed=1)
        assert np.abs(found.inner - table.inner_values).min() > 1e-6
        sums = table.matrix.astype(float) @ found.inner
        assert sums[~s.suppressed] == pytest.approx(table.published_values[~s.suppressed], abs=1e-9)
        assert np.abs(sums - table.published_values)[s.suppressed].min(initial=1.0) > 1e-6
        assert not found.determined.any()


# --- The reduced system


def test_the_reduced_system_of_the_paper_is_small() -> None:
    s = paper()
    system = reduced(s.table.matrix, s.suppressed)
    assert (system.size, system.sums.shape, system.rank, system.freedom) == (9, (9, 9), 7, 2)


@pytest.mark.slow
def test_ranks_are_those_of_dense_algebra() -> None:
    for seed in range(6):
        s = random_table((6, 5, 4), seed, 0.15 + 0.1 * seed)
        system = reduced(s.table.matrix, s.suppressed)
        assert system.rank == np.linalg.matrix_rank(system.sums.toarray())
        assert system.rank == np.linalg.matrix_rank(system.sums[system.independent].toarray())
        x = s.table.matrix.toarray().astype(float)[~s.suppressed]
        assert system.freedom == s.table.inner_count - np.linalg.matrix_rank(x)


def test_parts_share_nothing() -> None:
    two = tables.as_suppressed(
        table_1(), [*(cell(i, j) for i in (1, 2) for j in (1, 2)), *(cell(i, j) for i in (3, 4) for j in (3, 4))]
    )
    system = reduced(two.table.matrix, two.suppressed)
    parts = pieces(system.sums[system.independent])  # the total follows from the rows
    assert sorted(part[1].size for part in parts) == [4, 4]
    assert [part[1].tolist() for part in pieces(csr_array((0, 3)))] == [[0], [1], [2]]


def test_thousands_of_unknown_cells() -> None:
    s = random_table((20, 20, 20), 1, 0.5)
    system = reduced(s.table.matrix, s.suppressed)
    assert system.size > 3000
    found = tables.fill(s, seed=1)
    sums = s.table.matrix.astype(float) @ found.inner
    assert np.abs(sums - s.table.published_values)[~s.suppressed].max() <= 1e-9
    y = s.table.inner_values
    assert found.inner @ found.inner == pytest.approx(y @ y, rel=1e-12)
