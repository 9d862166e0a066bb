"""Columns that follow from the units of the rows: their size, the place of a row, counts, sums, the first of members.

They are found where they hold in every unit, left out, and computed anew from what is released.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from microveil.core.arrays import Array, Index, Mask
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

SIZE, PLACE, BELOW, FROM, LEVEL = (
    "the number of rows",
    "the place of the row",
    "rows below a limit of",
    "rows from a limit on of",
    "rows with a label of",
)
SUM, LEAST, MOST, MEAN = ADDED_UP = ("the sum of", "the least of", "the largest of", "the mean of")


@dataclass(frozen=True, repr=False)
class Units:
    """Which unit each row belongs to, from 0 on, and the first row of each."""

    of_rows: Index
    first: Index

    @classmethod
    def of(cls, frame: Frame, name: str) -> Units:
        """The units that a column names."""
        if frame.missing(name):
            raise DataError(
                f"unit: column '{name}' has missing cells", "give every row its unit, or name it in keep or drop"
            )
        of_rows = frame.groups(name)
        first = np.zeros(int(of_rows.max(initial=-1)) + 1, dtype=np.intp)
        first[of_rows[::-1]] = np.arange(of_rows.size)[::-1]  # of several rows the last that is written stays
        return cls(of_rows, first)

    @cached_property
    def sizes(self) -> Index:
        """The number of rows of each."""
        return np.bincount(self.of_rows)

    def is_constant(self, frame: Frame, name: str) -> bool:
        """Is the column the same in all rows of every unit, holes included?"""
        labels = frame.labels(name)
        return bool((labels == labels[self.first][self.of_rows]).all())

    def total(self, values: Array) -> Array:
        """The sum over the rows of each unit, in every row."""
        return np.bincount(self.of_rows, weights=values).astype(np.float64)[self.of_rows]

    def over_rows(self, part: str, values: Array) -> Array:
        """The sum, least, largest or mean over the rows of each unit, in every row."""
        if part in (LEAST, MOST):
            ordered = values[self.by(values)]
            return ordered[self.starts if part == LEAST else self.starts + self.sizes - 1][self.of_rows]
        sums = self.total(values)
        return sums if part == SUM else sums / self.sizes[self.of_rows]

    def by(self, values: Array) -> Index:
        """The rows, unit by unit, in the order of a column."""
        return np.lexsort((values, self.of_rows)).astype(np.intp)

    @cached_property
    def starts(self) -> Index:
        """Where each unit begins, unit by unit."""
        return (np.cumsum(self.sizes) - self.sizes).astype(np.intp)

    def places(self, order: Index) -> Array:
        """The place of each row within its unit, from 0 on, by an order of the rows unit by unit."""
        places = np.empty(order.size)
        places[order] = np.arange(order.size) - np.repeat(self.starts, self.sizes)
        return places


@dataclass(frozen=True, repr=False)
class UnitRule:
    """A column that says something of the unit, or of the place of a row in it; never the limit, which is a value.

    What is added up is rounded to as many digits behind the point as the `limit` says.
    """

    column: str
    unit: str
    part: str = SIZE
    of: str | None = None
    limit: float = 0.0
    exceptions: int = 0
    """Units in which it does not hold."""

    levels: tuple[int, ...] = ()
    """For each size the number of its label, of a column that has labels such as 3+."""

    @property
    def labels(self) -> bool:
        """Has the column labels?"""
        return bool(self.levels)

    @property
    def sentence(self) -> str:
        """The rule in words."""
        counted = "" if self.part in (SIZE, PLACE, *ADDED_UP) else "the number of "
        of = "" if self.of is None or self.part == PLACE else f" {self.of}"
        return f"{self.column} follows from {self.unit}: {counted}{self.part}{of} in each"

    def computed(self, frame: Frame) -> Array:
        """The column, from a table; the place of a row stays what it was, and others that tell it agree with it."""
        units = Units.of(frame, self.unit)
        if self.part == PLACE:
            return frame.numbers(self.column) if self.of is None else frame.numbers(self.of) + self.limit
        if self.part == LEVEL and self.of is not None:
            return units.total((frame.labels(self.of) == self.limit).astype(float))
        if self.of is None:
            sizes = units.sizes[units.of_rows].astype(float)
            return np.array(self.levels, dtype=float)[sizes.astype(np.intp)] if self.levels else sizes
        values = frame.numbers(self.of)
        if self.part in ADDED_UP:
            return np.round(units.over_rows(self.part, values), int(self.limit))
        return units.total((values < self.limit if self.part == BELOW else values >= self.limit).astype(float))


def find_unit_rules(
    frame: Frame, unit: str, columns: Sequence[str], numbers: Sequence[str], labels: Sequence[str]
) -> list[UnitRule]:
    """For each of some columns the rule by which it follows from the units, if there is one.

    Args:
        frame: the table, with its dates as numbers.
        unit: the column of the units.
        columns: those that may follow: numbers, labels of the size of units, or dates, which may be the first or the
            last of other dates.
        numbers: columns of numbers that may be counted or added up.
        labels: columns of labels that may be counted.
    """
    units = Units.of(frame, unit)
    if np.count_nonzero(units.sizes > 1) < FEWEST:
        return []
    of_sizes = [_label_of_size(frame, units, name, unit) for name in columns if name in labels]
    columns, dates = [name for name in columns if name not in labels], [name for name in frame.times if name != unit]
    cells = {name: frame.numbers(name) for name in dict.fromkeys([*columns, *numbers, *dates])}
    cells = {name: values for name, values in cells.items() if not np.isnan(values).any()}
    whole = [name for name in columns if name in cells and name not in dates]
    found = {rule.column: rule for rule in of_sizes if rule is not None}
    found |= {name: rule for name in whole if (rule := _of_size(cells[name], units, name, unit))}
    places = [name for name, rule in found.items() if rule.part == PLACE]
    for name in places[1:]:
        found[name] = replace(found[name], of=places[0], limit=cells[name].min() - cells[places[0]].min())
    own = [name for name in columns if name in cells and name not in found and _is_own(cells[name], units)]
    if not own:
        return list(found.values())
    cells |= {name: frame.labels(name).astype(float) for name in labels if not frame.missing(name)}
    others = [name for name in cells if name not in found and name not in own and not _is_own(cells[name], units)]
    for column in own:
        for of in others:
            if _step(frame, column) != _step(frame, of):
                continue
            rule = _of_members(cells[column], cells[of], units, UnitRule(column, unit, of=of), is_label=of in labels)
            if rule is not None and (rule.part in ADDED_UP or _same(rule.computed(frame), cells[column])):
                found[column] = rule
                break
    return list(found.values())


def once_in_each(frame: Frame, units: Units, labels: Sequence[str]) -> tuple[str | None, Mask]:
    """The column with a label that every unit has once, as the head of each household, and the rows that have it.

    None if there is no such column among these.
    """
    if np.count_nonzero(units.sizes > 1) >= FEWEST:
        for name in labels:
            levels = frame.labels(name)
            for level in np.flatnonzero(np.bincount(levels) == units.first.size).tolist():
                rows = levels == level
                if np.bincount(units.of_rows[rows], minlength=units.first.size).max() == 1:
                    return name, rows
    return None, np.zeros(frame.count, dtype=bool)


def smallest_first(frame: Frame, units: Sequence[str]) -> list[str]:
    """Columns of units, the smallest units first: patients, then their hospitals."""
    return sorted(units, key=lambda name: -frame.levels(name))


def _step(frame: Frame, name: str) -> tuple[str, str] | None:
    """The step that a column of dates counts in; none for numbers: neither follows from the other."""
    return (frame.times[name].kind, frame.times[name].unit) if name in frame.times else None


def _is_own(values: Array, units: Units) -> bool:
    """Is a column the same in all rows of every unit, and not in all of them?"""
    return bool(np.ptp(values) > 0 and (values == values[units.first][units.of_rows]).all())


def _of_size(values: Array, units: Units, column: str, unit: str) -> UnitRule | None:
    """The rule of a column that is the size of its unit, but for a few of them, or the place of its row.

    The place may be counted from any number on: in a panel whose units all begin in one year, the year tells it.
    """
    least = values.min()
    if least < 0 or not (values == np.round(values)).all():
        return None
    sizes = units.sizes[units.of_rows]
    if np.ptp(sizes) > 0:
        wrong = np.zeros(units.first.size, dtype=bool)
        wrong[units.of_rows[values != sizes]] = True
        if wrong.mean() <= 1 - MOSTLY:
            return UnitRule(column, unit, exceptions=int(np.count_nonzero(wrong)))
    if (values - least < sizes).all():
        order = units.by(values)
        if np.array_equal(units.places(order) + least, values):
            return UnitRule(column, unit, PLACE)
    return None


def _label_of_size(frame: Frame, units: Units, column: str, unit: str) -> UnitRule | None:
    """The rule of a `column` of labels of a `frame` that says the size of the `unit` of a row: 1, 2, 3+."""
    codes, sizes = frame.labels(column)[units.first], units.sizes
    levels = np.zeros(sizes.max() + 1, dtype=np.intp)
    levels[sizes] = codes
    several = np.unique(codes).size > 1 and not frame.missing(column)
    if not several or not np.array_equal(frame.labels(column), levels[sizes][units.of_rows]):
        return None
    return UnitRule(column, unit, levels=tuple(levels.tolist()))


def _of_members(wanted: Array, values: Array, units: Units, rule: UnitRule, *, is_label: bool) -> UnitRule | None:
    """How a column of the units may follow from one of the rows, by the first units: the caller looks at all.

    `wanted` has the column, and `values` what is counted or added up: levels, if it `is_label`, or numbers. What is
    found completes the `rule`.
    """
    rows = np.flatnonzero(units.of_rows < SAMPLE)
    part = Units(units.of_rows[rows], units.first[:SAMPLE])
    here, there, sizes = wanted[rows], values[rows], part.sizes[part.of_rows]
    digits = next(d for d in range(1, DIGITS + 1) if d == DIGITS or _same(np.round(here, d), here))
    for name in () if is_label or sizes.max() == 1 else ADDED_UP:  # of one row alone, all of these are the row
        if _adds_up(name, part, there, here, digits) and _adds_up(name, units, values, wanted, digits):
            return replace(rule, part=name, limit=digits)
    some = np.unique(part.of_rows[(here > 0) & (here < sizes)]).size >= SEVERAL
    if not some or (here < 0).any() or (here > sizes).any() or (here != np.round(here)).any():
        return None
    if is_label:
        of_one = part.of_rows == part.of_rows[int(np.flatnonzero(here > 0)[0])]
        levels = [v for v in np.unique(there[of_one]).tolist() if _same(part.total((there == v) * 1.0), here)]
        return replace(rule, part=LEVEL, limit=levels[0]) if levels else None
    places = part.places(part.by(there))
    if all(_parted(there, below) is None for below in (places < here, places < sizes - here)):
        return None
    places = units.places(units.by(values))  # the limit is that of all rows
    for name, below in ((BELOW, places < wanted), (FROM, places < units.sizes[units.of_rows] - wanted)):
        if (limit := _parted(values, below)) is not None:
            return replace(rule, part=name, limit=limit)
    return None


def _parted(values: Array, below: Mask) -> float | None:
    """The least of the other values, if all that are `below` are below them."""
    if not below.any() or below.all():
        return None
    limit = float(values[~below].min())
    return limit if values[below].max() < limit else None


def _adds_up(part: str, units: Units, values: Array, wanted: Array, digits: int) -> bool:
    """Is a column the sum, least, largest or mean (`part`) of another over the rows of each of the `units`?

    `values` has the other, `wanted` the column, and `digits` how many its numbers have behind the point. A mean that
    ends in a five may be rounded up or down.
    """
    found = units.over_rows(part, values)
    if part != MEAN:
        return _same(np.round(found, digits), wanted)
    return bool((np.abs(found - wanted) <= 0.5 * 10.0**-digits + 1e-9 * np.maximum(1.0, np.abs(wanted))).all())


def _same(values: Array, others: Array) -> bool:
    """Equal but for the round-off of adding up."""
    return bool(np.allclose(values, others, rtol=1e-12, atol=10.0**-DIGITS))


def dates_in_order(frame: Frame, units: Units, place: str | None, dates: Sequence[str]) -> str | None:
    """The first column of dates that never falls from row to row of a unit, by the `place` of the rows or as they are.

    None if there is none, or if there are too few units of several rows to tell.
    """
    order = units.by(np.arange(units.of_rows.size, dtype=float) if place is None else frame.numbers(place))
    inside = np.ones(order.size, dtype=bool)
    inside[units.starts] = False
    for name in dates:
        steps = np.diff(frame.numbers(name)[order])[inside[1:]]
        rising = np.unique(units.of_rows[order][1:][inside[1:]][steps > 0]).size
        if steps.size and rising >= FEWEST and (steps >= 0).all():
            return name
    return None
