"""Columns that follow from dates: a year, a month, a weekday or its name, an age. They are computed anew from the
released dates.

An age is the number of completed years from a date to another column of dates, or to a day that is the same for all
rows: the day of the survey, which need not be known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import FIRST_ROWS, Array
from microveil.core.late import pl
from microveil.intake.from_values import cells_of, known_rows
from microveil.io.frames.dataframes import Frame
from microveil.io.frames.times import TimeForm
from microveil.rules.label_rules import BY_CHANCE, follows

Days = NDArray[np.datetime64]

FEWEST, DIFFERENT = 20, 4
"""Rows that must agree, and different values that they must have: fewer agree by accident."""

YEARS = "completed years"

PARTS: Mapping[str, Callable[[Days], Array]] = {
    "the year": lambda days: days.astype("datetime64[Y]").astype(float) + 1970,
    "the month": lambda days: days.astype("datetime64[M]").astype(float) % 12 + 1,
    "the weekday": lambda days: (days.astype(float) + 3) % 7,
    "the weekday, from 1": lambda days: (days.astype(float) + 3) % 7 + 1,
    "the quarter": lambda days: days.astype("datetime64[M]").astype(float) % 12 // 3 + 1,
    "the day of the month": lambda days: (days - days.astype("datetime64[M]")).astype(float) + 1,
    "the day of the year": lambda days: (days - days.astype("datetime64[Y]")).astype(float) + 1,
}

LABELLED: Mapping[str, Callable[[Days], Array]] = {
    **{part: PARTS[part] for part in ("the weekday", "the quarter", "the month", "the year")},
    "the month of a year": lambda days: days.astype("datetime64[M]").astype(float),
}
"""Parts that columns of labels are names of: Monday, Q1, 2024-05."""


@dataclass(frozen=True, repr=False)
class DateRule:
    """A column that is a part of a date, or the years from it to another date or to a day; NaN where one is missing."""

    column: str
    date: str
    part: str = YEARS
    until: str | None = None
    day: np.datetime64 | None = None
    levels: tuple[tuple[float, int], ...] = ()
    """Of a column of labels: the level of each value of the part, in their order."""

    @property
    def labels(self) -> bool:
        """Is it a column of labels?"""
        return bool(self.levels)

    @property
    def sentence(self) -> str:
        """The rule in words; never the day, which is a value."""
        end = f" until {self.until}" if self.until else ""
        return f"{self.column} follows from {self.date}: {self.part}{end}"

    @property
    def dates(self) -> tuple[str, ...]:
        """The columns of dates that it takes."""
        return (self.date,) if self.until is None else (self.date, self.until)

    def computed(self, days_of: Callable[[str], Days]) -> Array:
        """The column, from what gives the days of a column of dates."""
        days = days_of(self.date)
        if self.levels:  # a part that no record had takes the next one's label
            at = np.searchsorted([value for value, _ in self.levels], LABELLED[self.part](days))
            levels = np.array([level for _, level in self.levels], float)
            return _where(days, levels[np.minimum(at, levels.size - 1)])
        if self.part in PARTS:
            return _where(days, PARTS[self.part](days))
        end = np.full(days.shape, self.day) if self.until is None else days_of(self.until)
        return completed_years(days, end)

    def holds(self, days_of: Callable[[str], Days], values: Array, *, gaps: bool = False) -> bool:
        """Does the column follow in all of some rows? With `gaps`, one of the two may be missing without the other."""
        found = self.computed(days_of)
        if not gaps:
            return np.array_equal(found, values, equal_nan=True)
        known = known_rows(np.isnan(found), values, gaps=gaps)
        if known is None or np.count_nonzero(known) < FEWEST or np.unique(values[known]).size < DIFFERENT:
            return False
        return np.array_equal(found[known], values[known])


def days_in(frame: Frame, name: str) -> Days:
    """The days of a column of dates or datetimes that counts as numbers; NaT where a cell is missing."""
    return as_days(frame.times[name], frame.times[name].numbers)


def as_days(form: TimeForm, numbers: Array) -> Days:
    """Numbers of steps as days."""
    return form.cells(numbers).cast(pl.Date).to_numpy()


def completed_years(first: Days, last: Days) -> Array:
    """Birthdays from one day to another; NaN where one is missing."""
    whole = last.astype("datetime64[Y]").astype(float) - first.astype("datetime64[Y]").astype(float)
    return _where(first, _where(last, whole - (_day_of_year(last) < _day_of_year(first))))


def _day_of_year(days: Days) -> Array:
    """Month and day as a number that grows with them, leap years or not."""
    months = days.astype("datetime64[M]")
    number: Array = (months.astype(float) % 12) * 32 + (days - months.astype("datetime64[D]")).astype(float)
    return number


def _where(days: Days, values: Array) -> Array:
    return np.where(np.isnat(days), np.nan, values)


def find_date_rules(frame: Frame, columns: Sequence[str], *, gaps: bool = True) -> list[DateRule]:
    """For each of some columns of numbers the rule by which it follows from dates in every row, if there is one.

    With `gaps`, a date or a cell may be missing without the other.
    """
    first = (next(date_rules_of(frame, column, gaps=gaps), None) for column in columns)
    return [rule for rule in first if rule is not None]


def _dates(frame: Frame) -> list[str]:
    """Columns of days on the line of time."""
    return [name for name, found in frame.times.items() if found.kind in ("date", "datetime")]


def find_dated_labels(frame: Frame, columns: Sequence[str], *, gaps: bool = True) -> list[DateRule]:
    """For each of some columns of labels the rule by which it names a part of a date in every row, if there is one.

    With `gaps`, a date or a label may be missing without the other.
    """
    if frame.count < FEWEST:
        return []
    dates = {date: days_in(frame, date) for date in _dates(frame)}
    by_chance = BY_CHANCE / max(len(dates) * len(columns), 1)
    found: list[DateRule | None] = []
    for column in columns:
        cells = cells_of(frame, column, labels=True)
        rules = (_named_part(column, cells, date, days, by_chance, gaps=gaps) for date, days in dates.items())
        found.append(next((rule for rule in rules if rule is not None), None))
    return [rule for rule in found if rule is not None]


def _named_part(column: str, cells: Array, date: str, days: Days, by_chance: float, *, gaps: bool) -> DateRule | None:
    """The rule by which the `cells` of a column name a part of a date, unless that could well be chance."""
    first = ~(np.isnan(cells[:FIRST_ROWS]) | np.isnat(days[:FIRST_ROWS]))
    shown = [
        part for part, of in LABELLED.items() if not _refuted(of(days[:FIRST_ROWS][first]), cells[:FIRST_ROWS][first])
    ]
    known = known_rows(np.isnat(days), cells, gaps=gaps) if shown else None
    if known is None or np.count_nonzero(known) < FEWEST:
        return None
    codes = cells[known].astype(np.intp)
    for part in shown:
        values, at = np.unique(LABELLED[part](days[known]), return_inverse=True)
        rule = follows(at.ravel(), codes, by_chance)
        if rule is not None and not rule.exceptions and values.size >= DIFFERENT:
            return DateRule(column, date, part, levels=tuple(zip(values.tolist(), rule.levels.tolist(), strict=True)))
    return None


def _refuted(values: Array, cells: Array) -> bool:
    """Has one of the values two labels in some rows? Nearly every column is refuted by the first ones."""
    return len(set(zip(values.tolist(), cells.tolist(), strict=True))) > len(set(values.tolist()))


def date_rules_of(frame: Frame, column: str, *, gaps: bool = False) -> Iterator[DateRule]:
    """All rules by which a column of numbers follows from dates in every row; `gaps` as in `find_date_rules`."""
    values = frame.numbers(column)
    whole = values[~np.isnan(values)]
    if whole.size < FEWEST or not (whole == np.round(whole)).all() or np.unique(whole).size < DIFFERENT:
        return
    dates = _dates(frame)
    days_of = partial(days_in, frame)
    for date in dates:
        rules = [DateRule(column, date, part) for part in PARTS]
        rules += [DateRule(column, date, until=other) for other in dates if other != date]
        yield from (rule for rule in rules if rule.holds(days_of, values, gaps=gaps))
        dated = (DateRule(column, date, day=day) for day in _days_for_all(days_of(date), values))
        yield from (rule for rule in dated if rule.holds(days_of, values, gaps=gaps))


def _days_for_all(days: Days, values: Array) -> Iterator[np.datetime64]:
    """Days up to which all ages are right: not before any birthday that was had, and before all next ones."""
    there = ~np.isnat(days) & ~np.isnan(values)
    if not there.any() or (values[there] < 0).any() or (values[there] > 150).any():
        return
    birth, years = days[there], values[there].astype(np.int64)
    # Within a few days, as years differ: the rule is checked with each day of the range.
    months = birth.astype("datetime64[M]")
    offset = (birth - months.astype("datetime64[D]")).astype(np.int64)
    had = ((months + 12 * years).astype("datetime64[D]") + offset).max()
    coming = ((months + 12 * (years + 1)).astype("datetime64[D]") + offset).min()
    for day in np.arange(had, min(coming, had + 400) + 1):
        if np.array_equal(completed_years(birth, np.full(birth.shape, day)), years.astype(float)):
            yield np.datetime64(day, "D")
