"""Linear programs over unknown cells, one after the other with the same conditions, by HiGHS.

With the package highspy the program stays in HiGHS: only the sum that is asked for changes, and the search goes on from
the last solution. Without it, scipy's HiGHS starts anew every time, which gives the same ends and takes longer.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.errors import DataError
from microveil.tables.reduced import Indices

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

    def part(self, rows: Indices, columns: Indices) -> CellBounds:
        """What is known of these cells by these sums."""
        cells, sums = (self.low, self.high, self.point), (self.floor, self.ceiling)
        low, high, point = (side[columns] for side in cells)
        floor, ceiling = (side[rows] for side in sums)
        return CellBounds(low, high, self.sums[rows][:, columns], floor, ceiling, point, self.needed[rows])


class Program(ABC):
    """Finds where a sum of cells is least or largest."""

    def __init__(self, known: CellBounds) -> None:
        self.known = known
        size = float(np.abs(known.point).max(initial=0.0))
        self.unit = max(1.0, size / LARGE)

    @abstractmethod
    def least(self, cells: Indices, sign: float) -> Array | None:
        """A point at which `sign` times the sum of the cells is least; None where there is no end to it."""


class KeptProgram(Program):
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

    def least(self, cells: Indices, sign: float) -> Array | None:
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


class RepeatedProgram(Program):
    """scipy's HiGHS, from the start every time."""

    def least(self, cells: Indices, sign: float) -> Array | None:
        """From the start."""
        from scipy.optimize import linprog
        from scipy.sparse import vstack

        known, cost = self.known, np.zeros(self.known.point.size)
        cost[cells] = sign
        exact = known.floor == known.ceiling
        above, below = ~exact & np.isfinite(known.ceiling), ~exact & np.isfinite(known.floor)
        loose = vstack([known.sums[above], -known.sums[below]]) if above.any() or below.any() else None
        for presolve in (True, False):  # which cannot always tell a program without end from one without solution
            found = linprog(
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


def program(known: CellBounds) -> Program:
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
