"""What the files of statistics packages have in common: labels, user-missing codes, formats, and dates as numbers.

A file is read raw: codes as they are, dates as the numbers they are stored as. What the methods see is made of that: a
user-missing code is a missing cell, a date is a date, and a column in which every value has a label is one of
categories and no amount. The raw columns are kept; a column that was not changed is written from them.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from microveil.core.errors import FileError
from microveil.io.files.formats import check_flat, check_table, needs
from microveil.io.frames.validation import check_shape
from microveil.storage.atomic import shown

if TYPE_CHECKING:
    import polars as pl

EXTRA: Final = "stat"
_SHOWN: Final = 4  # names of columns in the line that tells how a file was read


@dataclass(frozen=True)
class Clock:
    """How a package stores a date: as so many of a unit since a day."""

    kind: str  # "date", "datetime" or "duration"
    since: str  # the day, as 1960-01-01
    milliseconds: int  # in one unit


@dataclass(frozen=True, repr=False)
class Variable:
    """A column as it is in the file (raw, with letters such as `.a` apart), and as the methods see it."""

    raw: pl.Series
    letters: pl.Series | None
    seen: pl.Series
    clock: Clock | None = None
    codes: Mapping[str, float] = field(default_factory=dict)  # by label, where the column is seen as categories


@dataclass(frozen=True)
class StatSource:
    """Everything about a file but its values; those are confidential, and stay out of its printed form."""

    name: str = ""
    meta: Any = field(default=None, repr=False)
    variables: Mapping[str, Variable] = field(default_factory=dict, repr=False, compare=False)
    release: int = 0  # the version of the file's format
    notes: Mapping[str, Any] = field(default_factory=dict, repr=False)  # about the file, by the name of the option

    @property
    def description(self) -> str:
        """`SPSS, with labels; as categories: sex, region; user-missing codes in income`."""
        if self.meta is None:
            return ""
        categories = [name for name, variable in self.variables.items() if variable.codes]
        coded = [name for name, variable in self.variables.items() if _has_codes(variable)]
        parts = [
            self.name,
            *([f"labelled, so taken as categories: {_listed(categories)}"] if categories else []),
            *([f"user-missing codes in {_listed(coded)}"] if coded else []),
        ]
        return "; ".join(parts)

    @property
    def is_plain(self) -> bool:
        """Files of statistics packages always have something to say."""
        return self.meta is None


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _has_codes(variable: Variable) -> bool:
    return variable.letters is not None or variable.raw.null_count() < variable.seen.null_count()


def read_stat(
    reader: str, path: Path, name: str, clock_of: Callable[[str], Clock | None], release: int = 0, **options: Any
) -> tuple[pl.DataFrame, StatSource]:
    """The table as the methods see it, and its source format; `reader` is a function of pyreadstat."""
    needs("pyreadstat", EXTRA, path)
    import polars as pl
    import pyreadstat

    raw, size = None, path.stat().st_size
    with suppress(pyreadstat.ReadstatError, pyreadstat.PyreadstatError, UnicodeDecodeError, ValueError):
        _, about = getattr(pyreadstat, reader)(path, metadataonly=True)
        width = about.number_columns
        check_shape(path, width, width * (about.number_rows or 0), size=size)
        raw, meta = getattr(pyreadstat, reader)(path, disable_datetime_conversion=True, output_format="dict", **options)
    if raw is None:  # raised out here: their errors may quote the data
        raise FileError(f"{shown(path)} is not a file of {name}, or is damaged", "write it again, or as a .csv")
    variables = {
        column: _variable(column, cells, meta, clock_of(meta.original_variable_types.get(column) or ""))
        for column, cells in raw.items()
    }
    frame = pl.DataFrame([variable.seen for variable in variables.values()])
    check_table(frame, path)
    # Sealed: its lists are about columns, and must not be taken for cells when rows change places.
    # No lists: such are taken for cells when rows change places.
    written = {"file_label": meta.file_label, "note": "\n".join(meta.notes or ())}
    notes = {option: text for option, text in written.items() if text}
    return frame, StatSource(name, SimpleNamespace(**vars(meta)), variables, release, notes)


def _variable(name: str, cells: list[Any], meta: Any, clock: Clock | None) -> Variable:
    """A column of a file in its two shapes."""
    import polars as pl

    stored = meta.readstat_variable_types[name]
    ranges = meta.missing_ranges.get(name, [])
    if stored.startswith("string"):
        text = pl.Series(name, cells, pl.String)
        missing = [entry["lo"] if isinstance(entry, dict) else entry for entry in ranges]
        seen = _without(text, text.is_in(missing)) if missing else text
        return Variable(text, None, seen)
    letters = None
    if name in meta.missing_user_values:
        letters = pl.Series([cell if isinstance(cell, str) else None for cell in cells], dtype=pl.String)
        cells = [None if isinstance(cell, str) else cell for cell in cells]
    kind = {"int8": pl.Int8, "int16": pl.Int16, "int32": pl.Int32, "float": pl.Float32}.get(stored, pl.Float64)
    raw = pl.Series(name, cells, kind)
    seen = raw.fill_nan(None) if raw.dtype.is_float() else raw
    for entry in ranges:
        seen = _without(seen, seen.is_between(entry["lo"], entry["hi"]))
    if clock is not None:
        return Variable(raw, letters, _as_date(seen, clock), clock)
    codes = _categories(seen, meta.variable_value_labels.get(name, {}))
    if codes:
        back = {code: label for label, code in codes.items()}
        seen = seen.cast(pl.Float64).replace_strict(back, return_dtype=pl.Enum(list(codes)))
    return Variable(raw, letters, seen, None, codes)


def _without(column: pl.Series, missing: pl.Series) -> pl.Series:
    import polars as pl

    kept = pl.when(~missing.fill_null(value=False)).then(column)
    return pl.select(kept.alias(column.name)).to_series()


def _categories(seen: pl.Series, labels: Mapping[Any, str]) -> dict[str, float]:
    """The codes by label, in the order of the codes, if every value has a label of its own; else nothing."""
    known = {float(code): label for code, label in labels.items() if not isinstance(code, str)}
    values = seen.drop_nulls().unique().to_list()
    if not values or not all(float(value) in known for value in values) or len(set(known.values())) < len(known):
        return {}
    return {known[code]: code for code in sorted(known)}


def _as_date(numbers: pl.Series, clock: Clock) -> pl.Series:
    """Stored numbers as dates, times of a day and a date, or durations."""
    import polars as pl

    moments = (numbers.cast(pl.Float64) * clock.milliseconds).round().cast(pl.Int64, strict=False)
    if clock.kind == "duration":
        return moments.cast(pl.Duration("ms"))
    stamps = (moments + _start(clock)).cast(pl.Datetime("ms"))
    return stamps.dt.date() if clock.kind == "date" else stamps


def _as_stored(dates: pl.Series, clock: Clock) -> pl.Series:
    """Dates as the numbers the file has for them."""
    import polars as pl

    if clock.kind == "duration":
        return dates.cast(pl.Int64) / clock.milliseconds
    return (dates.cast(pl.Datetime("ms")).cast(pl.Int64) - _start(clock)) / clock.milliseconds


def _start(clock: Clock) -> int:
    """The first day, as polars counts: milliseconds since 1970."""
    days = dt.date.fromisoformat(clock.since) - dt.date(1970, 1, 1)
    return days // dt.timedelta(milliseconds=1)


def written_back(column: pl.Series, variable: Variable) -> tuple[pl.Series, pl.Series | None]:
    """A column as the file stores it, and its letters: unchanged from the raw one, else made of the new values.

    In a changed column a missing cell is what it was where it was missing before: that very code.
    """
    import polars as pl

    if column.dtype == variable.seen.dtype and column.equals(variable.seen, null_equal=True):
        return variable.raw, variable.letters
    if variable.clock is not None and column.dtype == variable.seen.dtype:
        column = _as_stored(column, variable.clock)
    elif variable.codes and column.dtype == variable.seen.dtype:
        column = column.cast(pl.String).replace_strict(variable.codes, return_dtype=pl.Float64)
    column = column.fill_nan(None) if column.dtype.is_float() else column
    if len(column) != len(variable.raw):
        return column.alias(variable.raw.name), None
    codes = variable.raw.cast(column.dtype, strict=False)
    was_missing = variable.seen.is_null()
    cells = pl.when(column.is_null() & was_missing).then(codes).otherwise(column)
    letters = variable.letters
    if letters is not None:
        letters = pl.select(pl.when(column.is_null()).then(letters)).to_series()
    return pl.select(cells.alias(variable.raw.name)).to_series(), letters


def stored_columns(
    frame: pl.DataFrame, source_format: StatSource, *, padded: bool
) -> tuple[pl.DataFrame, dict[str, pl.Series]]:
    """The table as a file stores it, and the letters of missing cells by column.

    `padded`: the package fills text up with spaces, so that one filled cell says how wide its column is.
    """
    import polars as pl

    columns: list[pl.Series] = []
    letters: dict[str, pl.Series] = {}
    for column in frame.get_columns():
        variable = source_format.variables.get(column.name)
        if variable is None:
            columns.append(_plain(column))
            continue
        stored, tags = written_back(column, variable)
        if tags is not None:
            letters[column.name] = tags
        stored = _plain(stored)
        if padded and stored.dtype == pl.String:
            stored = _widened(stored, source_format.meta.variable_storage_width[column.name])
        columns.append(stored)
    return pl.DataFrame(columns), letters


def _plain(column: pl.Series) -> pl.Series:
    """Types of elsewhere in those that every package has: numbers, text, dates."""
    import polars as pl

    kind = column.dtype
    if isinstance(kind, pl.Enum | pl.Categorical) or kind == pl.Null:
        return column.cast(pl.String)
    if kind.is_decimal() or kind in (pl.Int64, pl.UInt64, pl.UInt32, pl.Int128):
        return column.cast(pl.Float64)
    if kind in (pl.Boolean, pl.UInt8, pl.UInt16):
        return column.cast(pl.Int32)
    if isinstance(kind, pl.Datetime):
        return column.dt.replace_time_zone(None).dt.cast_time_unit("ms")
    if isinstance(kind, pl.Duration):
        return column.dt.total_milliseconds() / 1000
    return column


def _widened(text: pl.Series, width: int) -> pl.Series:
    """Text of which the first cell is filled up with spaces, if it is not wide enough."""
    import polars as pl

    first = text[0] or ""
    filled = first + " " * (width - len(first.encode()))
    return text if filled == first else pl.concat([pl.Series(text.name, [filled]), text[1:]])


def check_names(frame: pl.DataFrame, path: Path, pattern: re.Pattern[str], allowed: str) -> None:
    """Refuse names of columns that the package does not know, before the long work."""
    check_flat(frame, path)
    for name in frame.columns:
        if not pattern.fullmatch(name):
            raise FileError(f"{shown(path)} cannot have a column called {shown(name)}", f"{allowed}; rename it first")


def labelled(source_format: StatSource) -> dict[str, Any]:
    """The label of a file, for packages whose writers take no further notes."""
    return {"file_label": label} if (label := source_format.notes.get("file_label")) else {}


def write_stat(writer: str, frame: pl.DataFrame, path: Path, shown_as: Path, **options: Any) -> None:
    """Write by a function of pyreadstat."""
    needs("pyreadstat", EXTRA, shown_as)
    import pyreadstat

    failed = False
    try:
        getattr(pyreadstat, writer)(frame, path, **{key: value for key, value in options.items() if value})
    except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError):
        failed = True  # raised out here: their errors may quote the data
    if failed:
        hint = "check names and labels of the columns, and the space on the disk; or write a .parquet file"
        raise FileError(f"{shown(shown_as)} cannot be written: a column has no place in it", hint)
