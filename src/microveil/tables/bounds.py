"""How low and how high sums of unknown cells can be, given what is known of the cells (linear programming).

Plain matrices here; `audit.py` knows tables. The system falls into parts that are solved one by one. The true cells are
a point that is possible, and so is every solution on the way: a sum that some point takes as far as the bounds of its
cells allow needs no program of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.threads import in_threads
from microveil.core.tolerances import TEXT_ROUND_OFF
from microveil.tables.programs import CellBounds, Program, program
from microveil.tables.reduced import Indices, pieces

ROUNDS = 60
"""Times that bounds are passed from sum to cell; what is not at rest by then is left to the programs."""

TOGETHER = 12
"""Programs that ask for all open sums at once, at most."""


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
    outer = _propagated(known)
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
    targets: Any, known: CellBounds, outer: tuple[Array, Array], rows: Indices, columns: Indices
) -> tuple[Indices, Array, Array]:
    """The sums that have cells in this part, and the ends of what is in it."""
    here = targets[:, columns].tocsr()
    touched = np.flatnonzero(np.diff(here.indptr))
    here, part = here[touched], known.part(rows, columns)
    value = here @ part.point
    below, above = (
        Reach(sign, value.copy(), here @ side[columns]) for sign, side in zip((1.0, -1.0), outer, strict=True)
    )
    if below.open.any() or above.open.any():
        solver = program(part)
        for side in (below, above):
            _all_together(here, side, (below, above), solver)
        for side in (below, above):
            _one_by_one(here, side, (below, above), solver)
    return touched, below.reached, above.reached


def _all_together(targets: Any, side: Reach, both: tuple[Reach, Reach], solver: Program) -> None:
    """Programs for the cells of all open sums at once, as long as each closes a few."""
    left = int(side.open.sum())
    for _ in range(TOGETHER):
        if left < 2:
            return
        cells = np.unique(targets[side.open].indices)
        point = solver.least(cells, side.sign)
        if point is None:
            return
        for each in both:
            each.note(targets @ point)
        before, left = left, int(side.open.sum())
        if left > 0.95 * before:
            return


def _one_by_one(targets: Any, side: Reach, both: tuple[Reach, Reach], solver: Program) -> None:
    """A program for each sum that is still open."""
    for row in range(targets.shape[0]):
        if not side.open[row]:
            continue
        cells = targets.indices[targets.indptr[row] : targets.indptr[row + 1]]
        point = solver.least(cells, side.sign)
        if point is None:
            side.close(row, -side.sign * np.inf)
            continue
        for each in both:
            each.note(targets @ point)
        side.close(row, float(point[cells].sum()))


def _propagated(known: CellBounds) -> tuple[Array, Array]:
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
        moved = max(_largest_move(low, new_low), _largest_move(high, new_high))
        low, high = new_low, new_high
        if moved <= TEXT_ROUND_OFF * max(1.0, float(np.abs(known.point).max(initial=0.0))):
            break
    return low, high


def _without_own(side: Array, rows: Indices, cells: Indices, count: int) -> Array:
    """For each cell of each sum, what the bounds of the other cells in the sum add up to; infinite bounds count."""
    infinite = ~np.isfinite(side)
    finite = np.where(infinite, 0.0, side)
    total = np.bincount(rows, finite[cells], count)[rows] - finite[cells]
    endless = np.bincount(rows, infinite[cells], count)[rows] - infinite[cells] > 0
    sign = np.inf if infinite.any() and side[infinite][0] > 0 else -np.inf
    return np.where(endless, sign, total)


def _largest_move(old: Array, new: Array) -> float:
    changed = old != new
    return float(np.abs(new[changed] - old[changed]).max(initial=0.0))
