"""What an intruder can derive: intervals against known ones, another solver, and what must hold of them."""

from __future__ import annotations

import csv
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_array
from test_fill import GOLDEN, cell, paper, random_table, table_1

from microveil import tables
from microveil.core.errors import DataError, ParameterError
from microveil.tables import bounds
from microveil.tables.audit import EXACT, NEAR, SAFE

SQUARE = [cell(i, j) for i in (1, 2) for j in (1, 2)]


@pytest.fixture(params=["kept", "repeated"])
def either_program(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of solving must give the same."""
    kind = bounds.KeptProgram if request.param == "kept" else bounds.RepeatedProgram
    if request.param == "kept":
        pytest.importorskip("highspy", reason="highspy is not installed")
    monkeypatch.setattr(bounds, "program", kind)
    return str(request.param)


def by_cell(found: tables.Intervals) -> dict[tuple[str, ...], tuple[float, float]]:
    labels = [column[found.rows] for column in found.suppressed.table.labels.values()]
    ends = zip(found.low.tolist(), found.high.tolist(), strict=True)
    return dict(zip(zip(*labels, strict=True), ends, strict=True))


def plainly(s: tables.Suppressed) -> tuple[np.ndarray, np.ndarray]:
    """Two linear programs for each cell over all inner cells, without any of the reasoning."""
    matrix = s.table.matrix.toarray().astype(float)
    public, z = matrix[~s.suppressed], s.table.published_values[~s.suppressed]
    ends: list[list[float]] = [[], []]
    for row in np.flatnonzero(s.suppressed):
        for side, sign in zip(ends, (1, -1), strict=True):
            found = linprog(sign * matrix[row], A_eq=public, b_eq=z, bounds=(0, None))
            side.append({0: sign * (found.fun or 0.0), 3: -sign * np.inf}[found.status])
    return np.array(ends[0]), np.array(ends[1])


# --- Known intervals


@pytest.mark.parametrize("pattern", ["gauss8", "paper9"])
def test_intervals_of_table_1(pattern: str, either_program: str) -> None:
    with (GOLDEN / "table1_intervals.csv").open() as stream:
        lines = [line for line in csv.DictReader(stream) if line["pattern"] == pattern]
    expected = {
        cell(int(line["row"]), int(line["col"])): (float(line["lower"]), float(line["upper"])) for line in lines
    }
    assert len(expected) == int(pattern[-1])
    found = by_cell(tables.intervals(tables.as_suppressed(table_1(), expected)))
    assert found == expected


@pytest.mark.quick("kept-shape0-0.5", "kept-shape2-0.7", "repeated-shape0-0.5")
@pytest.mark.parametrize(("shape", "share"), [((5, 4), 0.5), ((4, 4, 3), 0.5), ((3, 3, 3), 0.7), ((8, 6), 0.3)])
def test_intervals_are_those_of_plain_programs(shape: tuple[int, ...], share: float, either_program: str) -> None:
    for seed in range(2):
        s = random_table(shape, seed, share, "counts" if seed else "amounts")
        found = tables.intervals(s)
        low, high = plainly(s)
        size = max(1.0, float(s.table.inner_values.max()))
        ends = np.isfinite(high)
        assert np.isinf(found.high[~ends]).all()
        assert np.abs(found.low - low).max() <= 1e-6 * size
        assert np.abs(found.high[ends] - high[ends]).max(initial=0.0) <= 1e-6 * size


def test_the_true_value_always_lies_inside() -> None:
    for seed in range(5):
        found = tables.intervals(random_table((6, 5, 4), seed, 0.5))
        assert (found.low <= found.value + 1e-9).all()
        assert (found.value - 1e-9 <= found.high).all()


def test_a_thousand_cells() -> None:
    s = random_table((12, 12, 12), 2, 0.35)
    assert s.suppressed.sum() > 700
    found = tables.intervals(s)
    assert (found.low <= found.value).all()
    assert (found.value <= found.high).all()
    width = found.high - found.low
    row = int(np.argmax(np.where(np.isfinite(width), width, 0)))
    public = s.table.matrix.astype(float)[~s.suppressed]
    cost = -s.table.matrix[[int(found.rows[row])]].toarray().ravel().astype(float)
    other = linprog(cost, A_eq=public, b_eq=public @ s.table.inner_values, bounds=(0, None))
    assert found.high[row] == pytest.approx(-other.fun, abs=1e-6)


# --- Verdicts


def test_cells_that_follow_are_exactly_determined_and_named() -> None:
    s = tables.as_suppressed(table_1(), [*SQUARE, cell(3, 3)])
    found = tables.intervals(s)
    assert found.count(EXACT) == 1
    assert found.named(EXACT) == ["(row=row3, col=col3)"]
    frame = tables.audit(s)
    assert list(frame.columns) == ["row", "col", "n", "primary", "low", "high", "width", "verdict"]
    line = frame[frame["row"].eq("row3")].iloc[0]
    assert (line["low"], line["high"], line["width"], line["verdict"]) == (2, 2, 0, EXACT)


def test_zeros_are_determined_by_those_who_know_that_nothing_is_negative() -> None:
    frame = pl.DataFrame({"a": ["x", "x", "y", "y"], "b": ["u", "v", "u", "v"], "n": [0, 0, 5, 7]})
    s = tables.as_suppressed(tables.Table(frame, ["a", "b"]), [("x", "u"), ("x", "v"), ("y", "u"), ("y", "v")])
    assert set(tables.audit(s)["verdict"]) == {EXACT}
    free = tables.intervals(s, nonnegative=False)
    assert np.isneginf(free.low).all()
    assert np.isposinf(free.high).all()
    assert set(free.verdicts) == {SAFE}


def test_protection_is_a_share_of_the_value() -> None:
    s = tables.as_suppressed(table_1(), SQUARE)  # intervals of width 4: 0..4, 10..14, 0..4, 6..10
    width = {name: high - low for name, (low, high) in by_cell(tables.intervals(s)).items()}
    assert set(width.values()) == {4.0}
    # 4 is 36 % of 11 and 44 % of 9.
    assert tables.intervals(s, protection=40).named(NEAR) == ["(row=row1, col=col2)"]
    assert tables.intervals(s, protection=0).count(SAFE) == 4
    # On each side: 11 has 1 below (9 %), 9 has 1 above (11 %), 3 and 1 have 1 above or below.
    assert tables.intervals(s, protection=10, sides="each").named(NEAR) == ["(row=row1, col=col2)"]


# --- What the intruder knows


def test_a_known_cell_gives_the_others_away() -> None:
    s = tables.as_suppressed(table_1(), SQUARE)
    found = tables.intervals(s, known=[cell(1, 1)])
    assert found.count(EXACT) == 4
    assert tables.intervals(s).count(EXACT) == 0


def test_bounds_that_are_known_narrow_the_intervals(either_program: str) -> None:
    s = tables.as_suppressed(table_1(), SQUARE)
    assert by_cell(tables.intervals(s, at_most={cell(1, 1): 3.5}))[cell(1, 2)] == (10.5, 14)
    assert by_cell(tables.intervals(s, at_least={cell(1, 1): 2}))[cell(1, 2)] == (10, 12)
    assert by_cell(tables.intervals(s, at_most=12))[cell(1, 1)] == (2, 4)
    assert by_cell(tables.intervals(s, at_least=1))[cell(1, 1)] == (1, 3)
    assert by_cell(tables.intervals(s, within_percent=0))[cell(1, 2)] == (11, 11)
    assert by_cell(tables.intervals(s, within_percent=50))[cell(1, 2)] == (10.5, 11.5)  # 1 is in 0.5..1.5


def test_bounds_of_sums_are_bounds_of_their_cells(either_program: str) -> None:
    """A hidden total that is known up to a bound ties parts together that had nothing to do with each other."""
    frame = pl.DataFrame({"a": ["x", "y", "z"], "n": [5, 6, 7]})
    s = tables.as_suppressed(tables.Table(frame, ["a"]), [("x",), ("y",), ("z",), ("Total",)])
    assert np.isinf(tables.intervals(s).high).all()
    found = by_cell(tables.intervals(s, at_most={("Total",): 20}, at_least={("y",): 4}))
    assert found == {("Total",): (4, 20), ("x",): (0, 16), ("y",): (4, 20), ("z",): (0, 16)}


def test_whole_numbers_are_rounded_inwards() -> None:
    s = tables.as_suppressed(table_1(), SQUARE)
    assert by_cell(tables.intervals(s, at_most={cell(1, 1): 3.5}, whole=True))[cell(1, 2)] == (11, 14)
    with pytest.raises(ParameterError, match="whole: the cells are not whole numbers"):
        tables.intervals(random_table((4, 4), 1, 0.5, "amounts"), whole=True)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"at_most": 1.0}, "at_most: a bound is not true of the cells"),
        ({"at_least": {cell(1, 1): 4}}, "at_least: a bound is not true of the cells"),
        ({"at_most": float("nan")}, "at_most: a bound is not true of the cells"),
        ({"within_percent": -1}, "within_percent must not be negative"),
        ({"protection": -1}, "protection: a percentage"),
        ({"sides": "both"}, "sides: 'both' is unknown"),
        ({"known": [("row9", "col1")]}, "dimension 'row' has no such code"),
    ],
)
def test_wrong_knowledge_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ParameterError, match=problem):
        tables.audit(tables.as_suppressed(table_1(), SQUARE), **options)


def test_negative_amounts_must_be_allowed_for() -> None:
    frame = pd.DataFrame({"a": ["x", "x", "y", "y"], "b": ["u", "v", "u", "v"], "n": [-1.0, 2.0, 5.0, 7.0], "k": 9})
    table = tables.Table(frame, ["a", "b"], counts="k")
    s = tables.as_suppressed(table, [(a, b) for a in "xy" for b in "uv"])
    with pytest.raises(ParameterError, match="say nonnegative=False"):
        tables.audit(s)
    assert np.isinf(tables.audit(s, nonnegative=False)["width"]).all()
    assert by_cell(tables.intervals(s, nonnegative=False, at_least=-2))[("x", "u")] == (-2, 3)


# --- The rest


def test_nothing_suppressed_is_nothing_to_audit() -> None:
    assert len(tables.audit(tables.as_suppressed(table_1(), []))) == 0


def test_large_amounts_do_not_lose_their_digits(either_program: str) -> None:
    """Tolerances of the solver are absolute, so large cells are brought down first."""
    frame = pd.DataFrame([(*cell(i, j), 1e9 * (i + 0.1 * j), 1) for i in (1, 2) for j in (1, 2)])
    frame.columns = ["row", "col", "n", "k"]
    s = tables.as_suppressed(tables.Table(frame, ["row", "col"], counts="k"), SQUARE)
    found = by_cell(tables.intervals(s))
    assert found[cell(1, 1)] == pytest.approx((0, 2.3e9), abs=1e-3)
    assert found[cell(2, 2)] == pytest.approx((1.1e9, 3.4e9), rel=1e-12)


def test_without_highspy_scipy_solves(monkeypatch: pytest.MonkeyPatch) -> None:
    known = bounds.CellBounds(
        np.zeros(1), np.ones(1), csr_array((0, 1)), np.zeros(0), np.zeros(0), np.ones(1), np.zeros(0, dtype=bool)
    )

    def absent(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(bounds.importlib, "import_module", absent)
    solver = bounds.program(known)
    assert isinstance(solver, bounds.RepeatedProgram)
    found = solver.least(np.array([0]), -1.0)
    assert found is not None
    assert found.tolist() == [1.0]


def test_progress_is_told() -> None:
    told: list[tuple[str, float | None]] = []
    tables.intervals(paper(), progress=lambda step, share: told.append((step, share)))
    assert told[-1] == ("solving linear programs", 1.0)


def test_a_program_without_an_answer_is_an_error_without_values() -> None:
    one, five = paper().table.matrix[:1, :1].astype(float), np.array([5.0])
    known = bounds.CellBounds(np.zeros(1), np.ones(1), one, five, five, np.ones(1), np.ones(1, dtype=bool))
    for kind in (bounds.KeptProgram, bounds.RepeatedProgram):
        with pytest.raises(DataError, match="the interval of a cell was not found"):
            kind(known).least(np.array([0]), 1.0)
