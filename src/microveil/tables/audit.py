"""What an intruder can derive of suppressed cells: the interval that published sums and outside knowledge leave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Mask
from microveil.core.errors import ParameterError, one_of
from microveil.core.tolerances import PROGRAM_ROUND_OFF
from microveil.options import Options, declared_by, option
from microveil.tables.bounds import CellBounds, extremes
from microveil.tables.fill import is_whole
from microveil.tables.reduced import Indices, Reduced, reduced
from microveil.tables.suppress import Suppressed
from microveil.tables.table import Table, frame_like, rows_of

EXACT, NEAR, SAFE = "exactly determined", "nearly determined", "protected"

SIDES = ("sliding", "each")

Limits = float | Mapping[tuple[str, ...], float]
"""A bound of every inner cell, or bounds of some published cells by their codes."""


@dataclass(frozen=True, repr=False)
class Intervals:
    """The suppressed cells (`rows` among the published ones), how low and how high each can be, and a verdict."""

    suppressed: Suppressed
    rows: Indices
    low: Array
    high: Array
    verdicts: NDArray[np.str_]

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
        }
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
    hidden[rows_of(table, asked.known)] = False
    system = reduced(table.matrix, hidden)
    knowledge = _knowledge(table, system, asked)
    rows = np.flatnonzero(s.suppressed)
    low, high = _ends(table, rows, system, knowledge, progress)
    if asked.whole and not is_whole(table):
        raise ParameterError("whole: the cells are not whole numbers", "leave it out")
    if is_whole(table):
        low, high = (_without_round_off(side) for side in (low, high))
    if asked.whole:
        low, high = np.ceil(low), np.floor(high)
    value = table.published_values[rows]
    needed = asked.protection / 100 * np.abs(value)
    gaps = (high - low,) if asked.sides == "sliding" else (value - low, high - value)
    exact = high - low <= PROGRAM_ROUND_OFF * np.maximum(1.0, np.abs(value))
    near = np.any([gap < needed for gap in gaps], axis=0)
    return Intervals(s, rows, low, high, np.where(exact, EXACT, np.where(near, NEAR, SAFE)))


def _ends(
    table: Table,
    rows: Indices,
    system: Reduced,
    known: CellBounds,
    progress: Callable[[str, float | None], None] | None,
) -> tuple[Array, Array]:
    """The ends of all cells; no programs are solved for those that cannot move at all."""
    value = table.published_values[rows]
    targets = table.matrix[rows][:, system.unknown].astype(np.float64).tocsr()
    probe = system.residuals(np.random.default_rng(1).standard_normal((system.size, 2)))
    moving = np.flatnonzero((np.abs(targets @ probe) > PROGRAM_ROUND_OFF).any(axis=1))
    low, high = value.copy(), value.copy()
    if moving.size:
        rest = value[moving] - targets[moving] @ known.point
        tell = (lambda _: None) if progress is None else (lambda share: progress("solving linear programs", share))
        lowest, highest = extremes(targets[moving], known, tell)
        low[moving], high[moving] = rest + lowest, rest + highest
    return low, high


def _knowledge(table: Table, system: Reduced, asked: Intruder) -> CellBounds:
    """The conditions of the linear programs; what the intruder takes for granted must be true."""
    from scipy.sparse import csr_array, vstack

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
        rows = rows_of(table, limits)
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
    stacked = csr_array(vstack(sums)) if len(sums) > 1 else sums[0]
    return CellBounds(low, high, stacked, *ends, point, np.concatenate(needed))


def _check_true(value: Array, bound: float | Array, side: str) -> None:
    wrong = value < bound if side == "at_least" else value > bound
    if np.isnan(bound).any() or wrong.any():
        raise ParameterError(f"{side}: a bound is not true of the cells", "an intruder cannot know what is wrong")


def _without_round_off(side: Array) -> Array:
    nearest, distance = np.rint(side), np.zeros_like(side)
    np.subtract(side, nearest, out=distance, where=np.isfinite(side))
    return np.where(np.abs(distance) <= PROGRAM_ROUND_OFF * np.maximum(1.0, np.abs(nearest)), nearest, side)
