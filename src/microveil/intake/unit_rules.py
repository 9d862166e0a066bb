"""Columns that follow from the units of the rows: their size, the place of a row, counts and sums over the members.

They are found where they hold in every unit, left out, and computed anew from what is released.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.io.frames.dataframes import Frame

FEWEST, SEVERAL = 20, 10
"""Units of two rows or more that there must be, and of those in which some rows are counted and others are not."""

MOSTLY = 0.95
"""Share of units from which on a size that does not always hold is worth a word."""

SAMPLE = 1_000
"""Units that are looked at first."""

DIGITS = 6
"""Decimals of a sum: what is further behind the point is the round-off of adding up."""

SIZE, PLACE, BELOW, FROM, LEVEL, SUM = (
    "the number of rows",
    "the place of the row",
    "rows below a limit of",
    "rows from a limit on of",
    "rows with a label of",
    "the sum of",
)


@dataclass(frozen=True, repr=False)
class Units:
    """Which unit each row belongs to, from 0 on, and the first row of each."""

    of_rows: NDArray[np.intp]
    first: NDArray[np.intp]

    @classmethod
    def of(cls, frame: Frame, name: str) -> Units:
        """Those that a column tells."""
        if frame.missing(name):
            raise DataError(
                f"unit: column '{name}' has missing cells", "give every row its unit, or name it in keep or drop"
            )
        _, first, numbers = np.unique(frame.labels(name), return_index=True, return_inverse=True)
        return cls(numbers.ravel(), first)

    @cached_property
    def sizes(self) -> NDArray[np.intp]:
        """The number of rows of each."""
        return np.bincount(self.of_rows)

    def is_constant(self, frame: Frame, name: str) -> bool:
        """Is the column the same in all rows of every unit, holes included?"""
        labels = frame.labels(name)
        return bool((labels == labels[self.first][self.of_rows]).all())

    def total(self, values: Array) -> Array:
        """The sum over the rows of each unit, in every row."""
        sums: Array = np.bincount(self.of_rows, weights=values)[self.of_rows]
        return sums

    def by(self, values: Array) -> NDArray[np.intp]:
        """The rows, unit by unit, in the order of a column."""
        return np.lexsort((values, self.of_rows)).astype(np.intp)

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """Where each unit begins, unit by unit."""
        return (np.cumsum(self.sizes) - self.sizes).astype(np.intp)

    def places(self, order: NDArray[np.intp]) -> Array:
        """The place of each row within its unit, from 0 on, by an order of the rows unit by unit."""
        places = np.empty(order.size)
        places[order] = np.arange(order.size) - np.repeat(self.starts, self.sizes)
        return places


@dataclass(frozen=True, repr=False)
class UnitRule:
    """A column that says something of the unit, or of the place of a row in it; never the limit, which is a value."""

    column: str
    unit: str
    part: str = SIZE
    of: str | None = None
    limit: float = 0.0
    exceptions: int = 0
    """Units in which it does not hold."""

    @property
    def sentence(self) -> str:
        """It as a person would say it."""
        counted = "" if self.part in (SIZE, PLACE, SUM) else "the number of "
        of = "" if self.of is None else f" {self.of}"
        return f"{self.column} follows from {self.unit}: {counted}{self.part}{of} in each"

    def computed(self, frame: Frame) -> Array:
        """The column, from a table; the place of a row stays what it was."""
        units = Units.of(frame, self.unit)
        if self.part == PLACE:
            return frame.numbers(self.column)
        if self.part == LEVEL and self.of is not None:
            return units.total((frame.labels(self.of) == self.limit).astype(float))
        if self.of is None:
            return units.sizes[units.of_rows].astype(float)
        values = frame.numbers(self.of)
        if self.part == SUM:
            return np.round(units.total(values), DIGITS)
        return units.total((values < self.limit if self.part == BELOW else values >= self.limit).astype(float))


def find_unit_rules(
    frame: Frame, unit: str, columns: Sequence[str], numbers: Sequence[str], labels: Sequence[str]
) -> list[UnitRule]:
    """For each of some columns of numbers the rule by which it follows from the units, if there is one.

    Args:
        frame: the table.
        unit: the column of the units.
        columns: those that may follow.
        numbers: columns of numbers that may be counted or added up.
        labels: columns of labels that may be counted.
    """
    units = Units.of(frame, unit)
    if np.count_nonzero(units.sizes > 1) < FEWEST:
        return []
    found: dict[str, UnitRule] = {}
    for column in columns:
        rule = _of_size(frame, units, unit, column)
        found |= {} if rule is None else {column: rule}
    own = [name for name in columns if name not in found and units.is_constant(frame, name)]
    own = [name for name in own if not frame.missing(name) and np.ptp(frame.numbers(name)) > 0]
    others = [name for name in (*numbers, *labels) if name not in found and not frame.missing(name)] if own else []
    others = [name for name in others if not units.is_constant(frame, name)]
    for column in own:
        for of in others:
            rule = _of_members(frame, units, UnitRule(column, unit, of=of), is_label=of in labels)
            if rule is not None and _same(rule.computed(frame), frame.numbers(column)):
                found[column] = rule
                break
    return list(found.values())


def _of_size(frame: Frame, units: Units, unit: str, column: str) -> UnitRule | None:
    """The rule of a column that is the size of its unit, but for a few of them, or the place of its row."""
    values = frame.numbers(column)
    if frame.missing(column) or not (values == np.round(values)).all():
        return None
    sizes = units.sizes[units.of_rows]
    if np.ptp(sizes) > 0 and values.max() <= units.of_rows.size:
        wrong = np.zeros(units.first.size, dtype=bool)
        wrong[units.of_rows[values != sizes]] = True
        if wrong.mean() <= 1 - MOSTLY:
            return UnitRule(column, unit, exceptions=int(np.count_nonzero(wrong)))
    least = values.min()
    if least in (0, 1) and (values - least <= sizes).all():
        order = units.by(values)
        if np.array_equal(units.places(order) + least, values):
            return UnitRule(column, unit, PLACE)
    return None


def _of_members(frame: Frame, units: Units, rule: UnitRule, *, is_label: bool) -> UnitRule | None:
    """How a column of the units may follow from one of the rows: it is checked in all units by the caller."""
    assert rule.of is not None
    rows = np.flatnonzero(units.of_rows < SAMPLE)
    part = Units(units.of_rows[rows], np.zeros(0, dtype=np.intp))
    wanted = frame.numbers(rule.column)
    here = wanted[rows]
    several = part.sizes[part.of_rows] > 1
    counts = bool((here == np.round(here)).all() and (here >= 0).all() and (here <= part.sizes[part.of_rows]).all())
    some = np.unique(part.of_rows[(here > 0) & (here < part.sizes[part.of_rows])]).size >= SEVERAL
    if is_label:
        if not counts or not some:
            return None
        levels = frame.labels(rule.of)
        at = int(np.flatnonzero(here > 0)[0])
        candidates = np.unique(levels[rows][part.of_rows == part.of_rows[at]])
        fitting = [v for v in candidates.tolist() if np.array_equal(part.total((levels[rows] == v) * 1.0), here)]
        return UnitRule(rule.column, rule.unit, LEVEL, rule.of, fitting[0]) if fitting else None
    values = frame.numbers(rule.of)
    if several.any() and _same(part.total(values[rows]), here):
        return UnitRule(rule.column, rule.unit, SUM, rule.of)
    if not counts or not some:
        return None
    places = units.places(units.by(values))
    for name, below in ((BELOW, places < wanted), (FROM, places < units.sizes[units.of_rows] - wanted)):
        if below.any() and not below.all() and values[below].max() < values[~below].min():
            return UnitRule(rule.column, rule.unit, name, rule.of, float(values[~below].min()))
    return None


def _same(values: Array, others: Array) -> bool:
    """Equal but for the round-off of adding up."""
    return bool(np.allclose(values, others, rtol=1e-12, atol=10.0**-DIGITS))


def dates_in_order(frame: Frame, units: Units, place: str | None, dates: Sequence[str]) -> str | None:
    """The first column of dates that never falls from row to row of a unit, by the `place` of the rows or as they are.

    None if there is none, or if there are too few units of several rows to tell.
    """
    order = units.by(np.arange(units.of_rows.size) if place is None else frame.numbers(place))
    inside = np.ones(order.size, dtype=bool)
    inside[units.starts] = False
    for name in dates:
        values = frame.numbers(name)
        steps = np.diff(values[order])[inside[1:]]
        rising = np.unique(units.of_rows[order][1:][inside[1:]][steps > 0]).size
        if steps.size and rising >= FEWEST and (steps >= 0).all():
            return name
    return None
