"""Dates and times as numbers: whole steps on the line of time, and back into the type, or the text, they came in.

The step is the precision of the column: months if all days are the first, days, hours, minutes, seconds, or less.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import FIRST_ROWS, Array, Mask
from microveil.core.late import has_arrow, is_arrow, pa, pl

TimeKind = Literal["date", "datetime", "time", "duration"]
"""A duration is a span of time, and has no place on its line."""

Whole = NDArray[np.int64]

MICROSECONDS: Final = {
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
"""Steps in microseconds. Doubles hold these for a few centuries; of nanoseconds they would not."""

FORMATS: Final[dict[TimeKind, tuple[str, ...]]] = {
    "date": ("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%-d.%-m.%Y", "%-m/%-d/%Y"),
    "datetime": (
        "%Y-%m-%d %H:%M:%S",
        "%Y-%m-%dT%H:%M:%S",
        "%Y-%m-%d %H:%M",
        "%Y-%m-%dT%H:%M",
        "%d.%m.%Y %H:%M",
        "%d/%m/%Y %H:%M",
        "%m/%d/%Y %H:%M",
        "%Y-%m-%d %H:%M:%S%.3f",
        "%Y-%m-%dT%H:%M:%S%.3f",
        "%Y-%m-%d %H:%M:%S%.6f",
        "%Y-%m-%dT%H:%M:%S%.6f",
    ),
    "time": ("%H:%M:%S", "%H:%M"),
}
"""Texts that are dates and times. All cells of a column must come back from one of them as they were."""

ZONE: Final = r"\d(Z| ?[+-]\d\d:?\d\d)$"
"""What a time may end in. Where all cells end in the same, they are steps on one line, and it is written again."""

DAY_NUMBERS: Final = "%Y%m%d"
NUMBER_FORMATS: Final = {DAY_NUMBERS: ("day", 1800_00_00, 2200_00_00, 3), "%Y%m": ("month", 1900_00, 2101_00, 12)}
"""Whole numbers that are dates, as 20260131 and 202601: the step, between which numbers, and how many different ones
there are at least. All must be dates: of amounts of so many digits, one in thirty is by chance, or one in eight."""

FEWEST = 3
"""Different texts that can tell whether a column has dates."""


@dataclass(frozen=True)
class TimeForm:
    """How dates or times are whole numbers of steps."""

    kind: TimeKind
    unit: str
    """month, day, hour, ..., microsecond."""

    text: str = ""
    """The format, where the cells are text, or whole numbers such as 20260131."""

    is_number: bool = False

    def steps(self, cells: Any) -> Array:
        """Cells of a column that has this form, of polars or Arrow, as numbers of steps; NaN is missing."""
        cells = _of_arrow(cells) if is_arrow(cells) else cells
        if self.text:
            text = self.text
            if self.is_number:
                cells = cells.cast(pl.Int64, strict=False).cast(pl.String) + ("01" if self.unit == "month" else "")
                text = DAY_NUMBERS
            cells = _parse(cells, self.kind, text)
        micro, missing = _microseconds(cells)
        return np.where(missing, np.nan, _in_steps(micro, self.unit).astype(np.float64))

    def column(self, cells: Any) -> TimeColumn:
        """Such cells as a column of numbers."""
        return TimeColumn(self.kind, self.unit, self.text, self.is_number, numbers=self.steps(cells))

    def cells(self, values: Array) -> pl.Series:
        """Numbers of steps as a series: dates, timestamps or times of day; NaN is missing."""
        missing = np.isnan(values)
        steps = np.round(np.where(missing, 0.0, values)).astype(np.int64)
        if self.unit == "month":
            days = (steps.astype("datetime64[M]")).astype("datetime64[D]").astype(np.int64)
            micro = days * MICROSECONDS["day"]
        else:
            micro = steps * MICROSECONDS[self.unit]
        if self.kind == "time":
            found = pl.Series(micro % MICROSECONDS["day"] * 1_000).cast(pl.Time)
        elif self.kind == "duration":
            found = pl.Series(micro).cast(pl.Duration("us"))
        else:
            found = pl.Series(micro).cast(pl.Datetime("us"))
            found = found.cast(pl.Date) if self.kind == "date" else found
        return found.set(pl.Series(missing), None) if missing.any() else found

    def _stored(self, values: Array) -> pl.Series:
        """The same, as text where the column is text, and as whole numbers where it has such."""
        cells = self.cells(values)
        if not self.text:
            return cells
        texts = cells.dt.strftime(self.text)
        return texts.cast(pl.Int64) if self.is_number else texts

    def stored(self, values: Array) -> pa.Array:
        """Numbers of steps as Arrow stores the column."""
        cells = self._stored(values)
        found = cells.to_arrow()
        if cells.dtype == pl.String:
            return found.cast(pa.string())
        return found.cast(pa.time64("us")) if cells.dtype == pl.Time else found

    def written(self, values: Array, like: nw.Series[Any]) -> Any:
        """Numbers of steps as a native series of the library and type of the column `like`."""
        native = like.to_native()
        if is_arrow(native):
            return pa.chunked_array([self.stored(values).cast(native.type)])
        cells = self._stored(values)
        if isinstance(native, pl.Series):
            return pl.Series(like.name, _zoned(cells, native.dtype))
        return _as_pandas(cells, native)


@dataclass(frozen=True, repr=False)
class TimeColumn(TimeForm):
    """A column of dates or times as whole numbers of steps, NaN where a cell is missing."""

    numbers: Array = field(kw_only=True)

    def in_unit(self, unit: str) -> TimeColumn:
        """The column in a finer unit, one of `MICROSECONDS`."""
        numbers, size = self.numbers, MICROSECONDS.get(self.unit, MICROSECONDS["day"])
        if self.unit == "month":
            missing = np.isnan(numbers)
            months = np.where(missing, 0.0, numbers).astype(np.int64).astype("datetime64[M]")
            numbers = np.where(missing, np.nan, months.astype("datetime64[D]").astype(np.float64))
        return replace(self, numbers=numbers * (size / MICROSECONDS[unit]), unit=unit)


@dataclass(frozen=True)
class TimeSpan:
    """What some cells are as dates or times: the step that all are whole numbers of, the least and the largest."""

    kind: TimeKind
    unit: str
    """day, hour, ..., microsecond; month for numbers such as 202601."""

    months: bool
    """All are the first of a month."""

    low: int
    high: int

    @classmethod
    def of(cls, present: Whole, kind: TimeKind) -> TimeSpan:
        """The span of microseconds, of which there is one at least."""
        unit = next(unit for unit, size in MICROSECONDS.items() if not (present % size).any())
        dates = present.astype("datetime64[us]").astype("datetime64[D]")
        months = kind in ("date", "datetime") and unit == "day" and bool((dates == dates.astype("datetime64[M]")).all())
        return cls(kind, unit, months, int(present.min()), int(present.max()))

    def joined(self, other: TimeSpan) -> TimeSpan:
        """The span of the cells of both."""
        unit = max(self.unit, other.unit, key=["month", *MICROSECONDS].index)
        months = self.months and other.months
        return TimeSpan(self.kind, unit, months, min(self.low, other.low), max(self.high, other.high))

    def form(self, text: str) -> TimeForm:
        """How such cells, written like this, are numbers."""
        if text in NUMBER_FORMATS:
            return TimeForm(self.kind, self.unit, text, is_number=True)
        return TimeForm(self.kind, "month" if self.months and self.low < self.high else self.unit, text)


Spans = Mapping[str, TimeSpan]
"""By format, and under no name for a type of dates or times: what cells are, read so. Empty if they are none."""


def spans(cells: pa.Array) -> Spans | None:
    """What the cells of a part of a column, of Arrow, are as dates or times; None where none is there."""
    if cells.null_count == len(cells):
        return None
    types = pa.types
    if not any(is_one(cells.type) for is_one in (types.is_temporal, types.is_string, types.is_large_string)):
        return {}
    return dict(_readings(_of_arrow(cells)))


def _readings(cells: pl.Series, fewest: int = 1) -> Iterator[tuple[str, TimeSpan]]:
    """The span of cells, one of which is there, by every format of which all their texts are; `fewest` are different.

    A type of dates or times has one reading, under no name, and other types have none.
    """
    if cells.dtype.is_temporal():
        yield "", _span(cells)
    texts = _dates_at_first(cells) if cells.dtype == pl.String else None
    if texts is not None and len(texts) >= fewest:
        yield from ((form, _span(_parse(texts, kind, form))) for kind, form in _fitting(texts))


def joined_spans(one: Spans | None, other: Spans | None) -> Spans | None:
    """What all cells of two parts are."""
    if one is None or other is None:
        return one if other is None else other
    return {form: span.joined(other[form]) for form, span in one.items() if form in other}


def _span(cells: pl.Series) -> TimeSpan:
    """The span of cells of a type of dates or times, of which one is there."""
    micro, missing = _microseconds(cells)
    return TimeSpan.of(micro[~missing], _kind_of(cells.dtype))


def _kind_of(kind: Any) -> TimeKind:
    kinds: dict[Any, TimeKind] = {pl.Time: "time", pl.Date: "date", pl.Duration: "duration"}
    return kinds.get(kind.base_type(), "datetime")


def in_one_unit(columns: Sequence[TimeColumn]) -> list[TimeColumn]:
    """Columns of different files that are to be compared, in the finest of their units."""
    units = [unit for unit in MICROSECONDS if any(column.unit == unit for column in columns)]
    if len({column.unit for column in columns}) == 1:
        return list(columns)
    return [column if column.unit == units[-1] else column.in_unit(units[-1]) for column in columns]


def _zoned(series: pl.Series, kind: Any) -> pl.Series:
    """A series in a type of polars, which casts no time without a zone to one with it."""
    zone = getattr(kind, "time_zone", None)
    return (series if zone is None else series.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)).cast(kind)


def _as_pandas(cells: pl.Series, template: Any) -> Any:
    """Cells as a pandas series of the type and index of another."""
    series = type(template)
    if template.dtype == object or cells.dtype in (pl.String, pl.Time):
        found = series(cells.to_list(), dtype=object).astype(template.dtype)
    elif getattr(template.dtype, "tz", None) is not None:
        found = series(cells.to_numpy()).astype("datetime64[us]").dt.tz_localize("UTC").astype(template.dtype)
    elif cells.dtype == pl.Date:  # of which numpy makes days, and pandas knows none
        found = series(cells.cast(pl.Datetime("us")).to_numpy()).astype(template.dtype)
    else:
        found = series(cells.to_numpy()).astype(template.dtype)
    return found.set_axis(template.index).rename(template.name)


def as_series(column: nw.Series[Any]) -> pl.Series:
    """A column of any library as one of polars. From pandas its cells go one by one where there is no Arrow."""
    native = column.to_native()
    if isinstance(native, pl.Series):
        return native
    if is_arrow(native) or has_arrow():
        return _of_arrow(column.to_arrow())
    missing = column.is_null().to_list()
    return pl.Series(column.name, [None if gone else cell for cell, gone in zip(native, missing, strict=True)])


def _of_arrow(cells: Any) -> pl.Series:
    """Cells of Arrow as a series: a point in time in microseconds of UTC, without a zone that polars may not know."""
    kind = cells.type
    if pa.types.is_timestamp(kind):
        cells = cells.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64()).cast(pa.timestamp("us"))
    elif pa.types.is_date(kind):
        cells = cells.cast(pa.date32())
    return pl.Series(cells)


def read_times(column: nw.Series[Any]) -> TimeColumn | None:
    """A column of dates, times, texts of these or numbers such as 20260131 as numbers; None if it is something else."""
    if column.dtype.is_integer() or column.dtype.is_float():
        if not can_be_numbered_dates(column.min(), column.max()):  # settles it for most, before they become doubles
            return None
        cells = pl.Series(np.asarray(column.cast(nw.Float64).to_numpy(), dtype=np.float64)).fill_nan(None)
        spans_found = spans_of_numbers(cells.drop_nulls().to_numpy(), in_all=True) or {}
        found = next(iter(spans_found.items()), None)
    elif _may_be_times(column):
        try:
            cells = as_series(column)
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):  # objects of several kinds
            return None
        found = next(_readings(cells, FEWEST), None) if cells.null_count() < len(cells) else None
    else:
        return None
    return None if found is None else found[1].form(found[0]).column(cells)


def can_be_numbered_dates(low: float | None, high: float | None) -> bool:
    """Are numbers between these of the size of dates such as 20260131 or 202601?"""
    if low is None or high is None:
        return False
    return any(least < low and high < most for _, least, most, _ in NUMBER_FORMATS.values())


def _numbered_dates(numbers: Array, form: str) -> Whole | None:
    """Different numbers as steps, if all of them are dates of a form."""
    unit, low, high, _ = NUMBER_FORMATS[form]
    if not numbers.size or not low < numbers.min() <= numbers.max() < high or (numbers % 1).any():
        return None
    days = numbers.astype(np.int64) if unit == "day" else numbers.astype(np.int64) * 100 + 1
    year, month, day = days // 10_000, days // 100 % 100, days % 100
    months = ((year - 1970) * 12 + np.clip(month, 1, 12) - 1).astype("datetime64[M]")
    dates = months.astype("datetime64[D]") + (day - 1)
    valid = (month >= 1) & (month <= 12) & (day >= 1) & (dates.astype("datetime64[M]") == months)
    return (dates if unit == "day" else months).astype(np.int64) if valid.all() else None


def spans_of_numbers(numbers: Array, *, in_all: bool = False) -> Spans | None:
    """What numbers, in a part of a column or `in_all` of it, are as dates; None where none is there."""
    if not numbers.size:
        return None
    if not can_be_numbered_dates(float(numbers.min()), float(numbers.max())):
        return {}
    distinct = np.unique(numbers)
    found: dict[str, TimeSpan] = {}
    for form, (unit, _, _, least) in NUMBER_FORMATS.items():
        steps = _numbered_dates(distinct, form) if distinct.size >= least or not in_all else None
        found |= {} if steps is None else {form: TimeSpan("date", unit, False, int(steps[0]), int(steps[-1]))}
    return found


def _may_be_times(column: nw.Series[Any]) -> bool:
    if column.dtype in (nw.Date, nw.Time) or isinstance(column.dtype, nw.Datetime | nw.Duration):
        return True
    if column.dtype == nw.Unknown:  # narwhals does not know every name of a zone, such as America/New_York
        return str(getattr(column.to_native(), "dtype", "")).startswith("datetime64")
    if column.dtype == nw.Object:
        first = next((cell for cell in column.head(FIRST_ROWS).to_list() if cell is not None and cell == cell), None)
        return isinstance(first, dt.date | dt.time | dt.timedelta)
    return column.dtype == nw.String


def _microseconds(cells: pl.Series) -> tuple[Whole, Mask]:
    """Microseconds since 1970, or since midnight, and which cells are missing."""
    missing = cells.is_null().to_numpy()
    kind = cells.dtype
    if not kind.is_temporal():
        raise TypeError("the column has no dates or times")
    if kind in (pl.Datetime, pl.Duration):
        cells = cells.cast(pl.Datetime("us") if kind == pl.Datetime else pl.Duration("us"))
    found = cells.to_physical().fill_null(0).cast(pl.Int64).to_numpy()
    return (found // 1_000 if kind == pl.Time else found * MICROSECONDS["day"] if kind == pl.Date else found), missing


def _in_steps(micro: Whole, unit: str) -> Whole:
    """Microseconds as whole numbers of a step."""
    if unit == "month":
        return micro.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)
    return micro // MICROSECONDS[unit]


def _dates_at_first(every: pl.Series) -> pl.Series | None:
    """The different texts, if the first ones may be dates, which settles it for most columns."""
    if not every.head(FIRST_ROWS).drop_nulls().str.contains(r"^\d{1,4}[-./:]").all():
        return None
    return every.drop_nulls().unique()


def _fitting(texts: pl.Series) -> Iterator[tuple[TimeKind, str]]:
    """The kinds and formats from which every text comes back as it was."""
    first = texts.head(FIRST_ROWS)
    zone = first.str.extract(ZONE).to_list()[0] if len(first) else None
    for kind, formats in FORMATS.items():
        for form in formats:
            form = form + zone if zone and kind == "datetime" else form
            if _comes_back(first, kind, form) and _comes_back(texts, kind, form):
                yield kind, form


def read_texts(texts: pl.Series) -> list[Any] | None:
    """Texts as times of one writing; None if no writing is that of all. Where others are dates, few are enough."""
    for kind, formats in FORMATS.items():
        for form in formats if kind != "time" else ():
            if _comes_back(texts, kind, form):
                return _parse(texts, kind, form).cast(pl.Datetime("us")).to_list()
    return None


def _parse(texts: pl.Series, kind: TimeKind, form: str) -> pl.Series:
    types: dict[TimeKind, Any] = {"date": pl.Date, "datetime": pl.Datetime("us"), "time": pl.Time}
    return texts.str.strptime(types[kind], form.replace("%-", "%"), strict=False)


def _comes_back(texts: pl.Series, kind: TimeKind, form: str) -> bool:
    parsed = _parse(texts, kind, form)
    return parsed.null_count() == 0 and bool((parsed.dt.strftime(form) == texts).all())
