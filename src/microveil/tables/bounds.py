"""How low and how high sums of unknown cells can be, given what is known of the cells (linear programming by HiGHS).

Plain matrices here; `audit.py` knows tables. The system falls into parts that are solved one by one. The true cells are
a point that is possible, and so is every solution on the way: a sum that some point takes as far as the bounds of its
cells allow needs no program of its own.

With the package highspy a program stays in HiGHS: only the sum that is asked for changes, and the search goes on from
the last solution. Without it, scipy's HiGHS starts anew every time, which gives the same ends and takes longer.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from microveil.core.arrays import Array, Index, Mask
from microveil.core.errors import DataError
from microveil.core.late import optimize, sparse
from microveil.core.threads import in_threads
from microveil.core.tolerances import TEXT_ROUND_OFF
from microveil.tables.reduced import pieces

ROUNDS = 60
"""Times that bounds are passed from sum to cell; what is not at rest by then is left to the programs."""

TOGETHER = 12
"""Programs that ask for all open sums at once, at most."""

FEASIBLE = 1e-9
"""By how much HiGHS may break a condition, in the unit of the program."""

LARGE = 1e4
"""Cells above this are brought down to it: HiGHS works in absolute tolerances."""


@dataclass(frozen=True, repr=False)
class CellBounds:
    """Unknown cells between `low` and `high`, and `sums` of them between `floor` and `ceiling`.

    `point` are the true values, which are possible; `needed` says which of the sums do not follow from others.
    """

    low: Array
    high: Array
    sums: Any
    floor: Array
    ceiling: Array
    point: Array
    needed: Mask

    def part(self, rows: Index, columns: Index) -> CellBounds:
        """What is known of these cells by these sums."""
        cells, sums = (self.low, self.high, self.point), (self.floor, self.ceiling)
        low, high, point = (side[columns] for side in cells)
        floor, ceiling = (side[rows] for side in sums)
        return CellBounds(low, high, self.sums[rows][:, columns], floor, ceiling, point, self.needed[rows])


@dataclass(repr=False)
class Reach:
    """How far sums are known to come towards one side, and how far they cannot go beyond; `sign` is 1 below."""

    sign: float
    reached: Array
    outer: Array

    @property
    def open(self) -> Mask:
        """Sums that may come further."""
        gap = np.zeros_like(self.reached)
        np.subtract(self.reached, self.outer, out=gap, where=self.reached != self.outer)  # both may be infinite
        return self.sign * gap > TEXT_ROUND_OFF * np.maximum(1.0, np.abs(self.reached))

    def note(self, values: Array) -> None:
        """A point that is possible."""
        self.reached = np.minimum(self.reached, values) if self.sign > 0 else np.maximum(self.reached, values)

    def close(self, row: int, value: float) -> None:
        """A program has found the end."""
        self.reached[row] = self.outer[row] = value


def extremes(targets: Any, known: CellBounds, tell: Callable[[float], None] = lambda _: None) -> tuple[Array, Array]:
    """The lowest and the highest value of every row of `targets`, a sparse matrix: sums x unknown cells.

    `tell` is called with the share of the work that is done.
    """
    low, high = np.zeros(targets.shape[0]), np.zeros(targets.shape[0])
    outer = propagated(known)
    needed = np.flatnonzero(known.needed)
    parts = [(needed[rows], columns) for rows, columns in pieces(known.sums[needed]) if columns.size]
    by_column = targets.tocsc()
    tasks = [partial(_of_part, by_column, known, outer, *part) for part in parts]
    small = known.point.size < 64
    for touched, lowest, highest in in_threads(tasks, lambda done: tell(done / len(parts)), small=small):
        low[touched] += lowest
        high[touched] += highest
    return low, high


def _of_part(
    targets: Any, known: CellBounds, outer: tuple[Array, Array], rows: Index, columns: Index
) -> tuple[Index, Array, Array]:
    """The sums that have cells in one part of the system, and the ends of what they have there.

    `targets` are sums x unknown cells, `outer` has bounds of single cells, `rows` and `columns` are the known sums and
    the cells of the part.
    """
    here = targets[:, columns].tocsr()
    touched = np.flatnonzero(np.diff(here.indptr))
    here, part = here[touched], known.part(rows, columns)
    value = here @ part.point
    below, above = (
        Reach(sign, value.copy(), here @ side[columns]) for sign, side in zip((1.0, -1.0), outer, strict=True)
    )
    if below.open.any() or above.open.any():
        _search(here, (below, above), program(part))
    return touched, below.reached, above.reached


def _search(targets: Any, sides: tuple[Reach, Reach], solver: RepeatedProgram) -> None:
    """Bring both sides of all sums (`targets`, sums x cells) to their ends: some together, the rest one by one."""

    def found(cells: Index, sign: float) -> Array | None:
        point = solver.least(cells, sign)
        for side in sides if point is not None else ():
            side.note(targets @ point)
        return point

    for side in sides:  # for the cells of all open sums at once, as long as each program closes a few
        left = int(side.open.sum())
        for _ in range(TOGETHER):
            if left < 2 or found(np.unique(targets[side.open].indices), side.sign) is None:
                break
            before, left = left, int(side.open.sum())
            if left > 0.95 * before:
                break
    for side in sides:
        for row in range(targets.shape[0]):
            if side.open[row]:
                cells = targets.indices[targets.indptr[row] : targets.indptr[row + 1]]
                point = found(cells, side.sign)
                side.close(row, -side.sign * np.inf if point is None else float(point[cells].sum()))


def propagated(known: CellBounds) -> tuple[Array, Array]:
    """Bounds of single cells, as each sum and the bounds of the others in it leave them."""
    low, high = known.low.copy(), known.high.copy()
    rows = np.repeat(np.arange(known.sums.shape[0]), np.diff(known.sums.indptr))
    cells = known.sums.indices
    for _ in range(ROUNDS):
        others_high = _without_own(high, rows, cells, known.sums.shape[0])
        others_low = _without_own(low, rows, cells, known.sums.shape[0])
        new_low, new_high = low.copy(), high.copy()
        np.maximum.at(new_low, cells, known.floor[rows] - others_high)
        np.minimum.at(new_high, cells, known.ceiling[rows] - others_low)
        old, new = np.concatenate([low, high]), np.concatenate([new_low, new_high])
        moved = float(np.abs(new[old != new] - old[old != new]).max(initial=0.0))
        low, high = new_low, new_high
        if moved <= TEXT_ROUND_OFF * max(1.0, float(np.abs(known.point).max(initial=0.0))):
            break
    return low, high


def _without_own(side: Array, rows: Index, cells: Index, count: int) -> Array:
    """For each cell of each sum, what the bounds of the other cells in the sum add up to; infinite bounds count.

    `side` has a bound for each cell; `rows` and `cells` are the entries of the sums, of which there are `count`.
    """
    infinite = ~np.isfinite(side)
    finite = np.where(infinite, 0.0, side)
    total = np.bincount(rows, finite[cells], count)[rows] - finite[cells]
    endless = np.bincount(rows, infinite[cells], count)[rows] - infinite[cells] > 0
    sign = np.inf if infinite.any() and side[infinite][0] > 0 else -np.inf
    return np.where(endless, sign, total)


class RepeatedProgram:
    """Finds where a sum of cells is least or largest, by scipy's HiGHS, from the start every time."""

    def __init__(self, known: CellBounds) -> None:
        self.known = known
        self.unit = max(1.0, float(np.abs(known.point).max(initial=0.0)) / LARGE)

    def least(self, cells: Index, sign: float) -> Array | None:
        """A point at which `sign` times the sum of the cells is least; None where there is no end to it."""
        known, cost = self.known, np.zeros(self.known.point.size)
        cost[cells] = sign
        exact = known.floor == known.ceiling
        above, below = ~exact & np.isfinite(known.ceiling), ~exact & np.isfinite(known.floor)
        loose = sparse.vstack([known.sums[above], -known.sums[below]]) if above.any() or below.any() else None
        for presolve in (True, False):  # which cannot always tell a program without end from one without solution
            found = optimize.linprog(
                cost,
                A_ub=loose,
                b_ub=None if loose is None else np.concatenate([known.ceiling[above], -known.floor[below]]) / self.unit,
                A_eq=known.sums[exact] if exact.any() else None,
                b_eq=known.floor[exact] / self.unit if exact.any() else None,
                bounds=np.column_stack([known.low, known.high]) / self.unit,
                method="highs-ds",
                options={
                    "presolve": presolve,
                    "primal_feasibility_tolerance": FEASIBLE,
                    "dual_feasibility_tolerance": FEASIBLE,
                },
            )
            if found.status in (0, 3):
                break
        if found.status == 3:
            return None
        if found.x is None:
            raise _no_answer(found.message)
        return np.asarray(found.x, dtype=np.float64) * self.unit


class KeptProgram(RepeatedProgram):
    """The program stays in HiGHS (package highspy)."""

    def __init__(self, known: CellBounds) -> None:
        highspy: Any = importlib.import_module("highspy")
        super().__init__(known)
        self.highs = highspy.Highs()
        settings = {
            "output_flag": False,
            "threads": 1,
            "presolve": "off",
            "solver": "simplex",
            "simplex_strategy": 4,  # primal: the last solution stays possible when another sum is asked for
            "primal_feasibility_tolerance": FEASIBLE,
            "dual_feasibility_tolerance": FEASIBLE,
        }
        for name, setting in settings.items():
            self.highs.setOptionValue(name, setting)
        model = highspy.HighsLp()
        rows, width = known.sums.shape
        model.num_col_, model.num_row_ = width, rows
        model.col_cost_ = np.zeros(width)
        model.col_lower_, model.col_upper_ = known.low / self.unit, known.high / self.unit
        model.row_lower_, model.row_upper_ = known.floor / self.unit, known.ceiling / self.unit
        by_row = known.sums.tocsr()
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = by_row.indptr
        model.a_matrix_.index_ = by_row.indices
        model.a_matrix_.value_ = by_row.data
        self.highs.passModel(model)
        self._status = highspy.HighsModelStatus
        self._columns = np.arange(width, dtype=np.int32)

    def least(self, cells: Index, sign: float) -> Array | None:
        """From the last solution on."""
        cost = np.zeros(self._columns.size)
        cost[cells] = sign
        self.highs.changeColsCost(cost.size, self._columns, cost)
        for _ in range(2):
            self.highs.run()
            status = self.highs.getModelStatus()
            if status in (self._status.kUnbounded, self._status.kUnboundedOrInfeasible):  # the true cells are possible
                return None
            if status == self._status.kOptimal:
                break
            self.highs.clearSolver()  # the last solution may be a bad start: once more without it
        else:
            raise _no_answer(self.highs.modelStatusToString(status))
        return np.asarray(self.highs.getSolution().col_value, dtype=np.float64) * self.unit


def program(known: CellBounds) -> RepeatedProgram:
    """The faster of the two that there is."""
    try:
        return KeptProgram(known)
    except ImportError:
        return RepeatedProgram(known)


def _no_answer(why: str) -> DataError:
    return DataError(
        f"the interval of a cell was not found ({' '.join(str(why).split())[:80]})",
        "what is known of the cells must agree with the table",
    )
