"""What an intruder can derive of suppressed cells: the interval that published sums and outside knowledge leave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Index, Mask
from microveil.core.errors import ParameterError, one_of
from microveil.core.late import sparse
from microveil.core.tolerances import PROGRAM_ROUND_OFF
from microveil.options import Options, declared_by, option
from microveil.tables.bounds import CellBounds, extremes
from microveil.tables.fill import is_whole
from microveil.tables.reduced import Reduced, reduced
from microveil.tables.suppress import Suppressed
from microveil.tables.table import Table, cell_rows, frame_like
from microveil.tables.witnesses import witnessed

EXACT, NEAR, SAFE = "exactly determined", "nearly determined", "protected"

SIDES = ("sliding", "each")

FEW = 500
"""Hidden cells up to which the ends of every interval are found, unless another thing is asked for."""

SEARCHING, SOLVING = "searching for possible tables", "solving linear programs"

Limits = float | Mapping[tuple[str, ...], float]
"""A bound of every inner cell, or bounds of some published cells by their codes."""


@dataclass(frozen=True, repr=False)
class Intervals:
    """The suppressed cells (`rows` among the published ones), how low and how high each can be, and a verdict.

    Cells whose `ends_known` is false can go further than `low` and `high`, which were enough to call them protected.
    """

    suppressed: Suppressed
    rows: Index
    low: Array
    high: Array
    verdicts: NDArray[np.str_]
    ends_known: Mask

    @property
    def value(self) -> Array:
        """The true values."""
        return self.suppressed.table.published_values[self.rows]

    @property
    def primary(self) -> Mask:
        """Which of the cells are sensitive for their own sake."""
        return self.suppressed.primary[self.rows]

    def count(self, verdict: str) -> int:
        """How many cells have a verdict."""
        return int((self.verdicts == verdict).sum())

    def named(self, verdict: str) -> list[str]:
        """The cells with a verdict, in words."""
        return [self.suppressed.table.name_of(int(row)) for row in self.rows[self.verdicts == verdict]]

    def to_frame(self) -> Any:
        """A row for each suppressed cell, in a frame of the user's kind. For the publisher's eyes: it has values."""
        table = self.suppressed.table
        codes = {name: column[self.rows] for name, column in table.labels.items()}
        found = {
            table.variable: self.value,
            "primary": self.primary,
            "low": self.low,
            "high": self.high,
            "width": self.high - self.low,
            "verdict": self.verdicts,
        } | ({} if self.ends_known.all() else {"ends_known": self.ends_known})
        return frame_like(table.source, {**codes, **found})


def audit(s: Suppressed, **options: Any) -> Any:
    """A frame of all suppressed cells with the interval (low, high, width) an intruder can derive, and a verdict.

    Options are those of `intervals`.
    """
    return intervals(s, **options).to_frame()


class Intruder(Options):
    """The options of `intervals`: what an intruder knows, and how wide the interval of a cell must be."""

    nonnegative: bool = option(True, "Whether he knows that no inner cell is below zero.", only="python")
    whole: bool = option(
        False,
        "He knows that cells are whole numbers.",
        explained="The ends are rounded inwards, which is all there is to it in tables of two dimensions, and in "
        "others nearly so.",
    )
    known: Any = option((), "Suppressed cells whose values he knows, such as his own.", only="python")
    at_least: Any = option(
        None, "He knows that no inner cell is below L.", metavar="L", explained="Or numbers by cell: lower bounds."
    )
    at_most: Any = option(
        None, "He knows that no inner cell is above U.", metavar="U", explained="Or numbers by cell: upper bounds."
    )
    within_percent: float | None = option(None, "He knows every inner cell to within P percent.", metavar="P")
    protection: float = option(
        10.0,
        "Percent of its value that the interval of a cell must be wide.",
        metavar="P",
        explained="Or it is called nearly determined.",
    )
    sides: str = option("sliding", "sliding (the whole width), or each side of the value.")
    exact_intervals: bool | None = option(
        None,
        "Find the ends of every interval.",
        explained=f"Else, where more than {FEW:,} cells are hidden, two possible tables in which a cell lies far "
        "enough apart are all that is asked for to call it protected, and it may go further than they say.",
    )


@declared_by(Intruder)
def intervals(
    s: Suppressed, *, progress: Callable[[str, float | None], None] | None = None, **options: Any
) -> Intervals:
    """Attack a suppressed table: how low and how high each suppressed cell can be, by linear programming.

    Args:
        s: the suppressed table.
        progress: called with the name of the step and the share done.
        **options: the options below.
    """
    asked = Intruder.checked(options)
    if asked.sides not in SIDES:
        raise ParameterError(f"sides: '{asked.sides}' is unknown", f"it is {one_of(SIDES)}")
    if not (np.isfinite(asked.protection) and asked.protection >= 0):
        raise ParameterError("protection: a percentage that is not negative is needed", "10 is usual")
    table, hidden = s.table, s.suppressed.copy()
    hidden[cell_rows(table, asked.known)] = False
    system = reduced(table.matrix, hidden)
    knowledge = _knowledge(table, system, asked)
    rows = np.flatnonzero(s.suppressed)
    if asked.whole and not is_whole(table):
        raise ParameterError("whole: the cells are not whole numbers", "leave it out")
    attack = Attack(table.published_values[rows], asked, is_whole(table))
    targets = table.matrix[rows][:, system.unknown].astype(np.float64).tocsr()
    low, high, ends_known = attack.ends(targets, system, knowledge, progress or (lambda *_: None))
    return Intervals(s, rows, *attack.rounded(low, high), attack.verdicts(low, high), ends_known)


@dataclass(frozen=True, repr=False)
class Attack:
    """The search for the ends of cells of these values, and what the ends say."""

    value: Array
    asked: Intruder
    whole: bool

    def ends(
        self, targets: Any, system: Reduced, known: CellBounds, tell: Callable[[str, float | None], None]
    ) -> tuple[Array, Array, Mask]:
        """How low and how high each cell can be, and of which cells that is all: the others can go further.

        `targets` are the cells x unknown inner cells of the `system`, `known` has their bounds, and `tell` is called
        with the step and the share done. Linear programs are for cells that no witnesses call protected, and that can
        move at all.
        """
        probe = system.residuals(np.random.default_rng(1).standard_normal((system.size, 2)))
        still = (np.abs(targets @ probe) <= PROGRAM_ROUND_OFF).all(axis=1)
        low, high, rest = self.value.copy(), self.value.copy(), self.value - targets @ known.point
        exact = self.asked.exact_intervals
        if exact is None:
            exact = self.value.size <= FEW
        if not exact and not still.all():

            def settled(below: Array, above: Array) -> Mask:
                done: Mask = still | self._clear(rest + below, rest + above)
                return done

            below, above = witnessed(targets, known, settled, partial(tell, SEARCHING))
            low[~still], high[~still] = (rest + below)[~still], (rest + above)[~still]
        open_ = np.flatnonzero(~still if exact else ~(still | self._clear(low, high)))
        if open_.size:
            lowest, highest = extremes(targets[open_], known, partial(tell, SOLVING))
            low[open_], high[open_] = rest[open_] + lowest, rest[open_] + highest
        ends_known = still.copy()
        ends_known[open_] = True
        return low, high, ends_known

    def rounded(self, low: Array, high: Array) -> tuple[Array, Array]:
        """The ends without round-off, and between whole numbers for those who know that cells are whole."""
        if self.whole:
            low, high = (_without_round_off(side) for side in (low, high))
        return (np.ceil(low), np.floor(high)) if self.asked.whole else (low, high)

    def verdicts(self, low: Array, high: Array) -> NDArray[np.str_]:
        """What the ends say of each cell."""
        low, high = self.rounded(low, high)
        needed = self.asked.protection / 100 * np.abs(self.value)
        gaps = (high - low,) if self.asked.sides == "sliding" else (self.value - low, high - self.value)
        exact = high - low <= PROGRAM_ROUND_OFF * np.maximum(1.0, np.abs(self.value))
        near = np.any([gap < needed for gap in gaps], axis=0)
        return np.where(exact, EXACT, np.where(near, NEAR, SAFE))

    def _clear(self, low: Array, high: Array) -> Mask:
        """Cells that are protected even if what was seen is off by the round-off of a program."""
        margin = 2 * PROGRAM_ROUND_OFF * np.maximum(1.0, np.abs(self.value))
        with np.errstate(invalid="ignore"):
            wide = high - low > 3 * margin
        clear: Mask = wide & (self.verdicts(low + margin, high - margin) == SAFE)
        return clear


def _knowledge(table: Table, system: Reduced, asked: Intruder) -> CellBounds:
    """The conditions of the linear programs; what the intruder takes for granted must be true."""
    point = table.inner_values[system.unknown]
    if asked.nonnegative and (point < 0).any():
        raise ParameterError("nonnegative: some inner cells are negative", "say nonnegative=False (--allow-negative)")
    low = np.full(point.size, 0.0 if asked.nonnegative else -np.inf)
    high = np.full(point.size, np.inf)
    if asked.within_percent is not None:
        if not asked.within_percent >= 0:
            raise ParameterError("within_percent must not be negative", "100 says: between zero and twice the value")
        margin = asked.within_percent / 100 * np.abs(point)
        low, high = np.maximum(low, point - margin), point + margin
    public = system.sums @ point
    sums, floor, ceiling, needed = [system.sums], [public], [public], [system.independent]
    for side in ("at_least", "at_most"):
        limits: Limits | None = getattr(asked, side)
        if limits is None:
            continue
        below = side == "at_least"
        if not isinstance(limits, Mapping):
            _check_true(point, float(limits), side)
            low, high = (np.maximum(low, limits), high) if below else (low, np.minimum(high, limits))
            continue
        rows = cell_rows(table, limits)
        bound = np.array(list(limits.values()), dtype=np.float64)
        _check_true(table.published_values[rows], bound, side)
        part = table.matrix[rows][:, system.unknown].astype(np.float64)
        bound = bound - (table.published_values[rows] - part @ point)
        endless = np.full(bound.size, np.inf)
        sums.append(part)
        needed.append(np.ones(bound.size, dtype=bool))
        floor.append(bound if below else -endless)
        ceiling.append(endless if below else bound)
    ends = np.concatenate(floor), np.concatenate(ceiling)
    stacked = sparse.csr_array(sparse.vstack(sums)) if len(sums) > 1 else sums[0]
    return CellBounds(low, high, stacked, *ends, point, np.concatenate(needed))


def _check_true(value: Array, bound: float | Array, side: str) -> None:
    wrong = value < bound if side == "at_least" else value > bound
    if np.isnan(bound).any() or wrong.any():
        raise ParameterError(f"{side}: a bound is not true of the cells", "an intruder cannot know what is wrong")


def _without_round_off(side: Array) -> Array:
    nearest, distance = np.rint(side), np.zeros_like(side)
    np.subtract(side, nearest, out=distance, where=np.isfinite(side))
    return np.where(np.abs(distance) <= PROGRAM_ROUND_OFF * np.maximum(1.0, np.abs(nearest)), nearest, side)
