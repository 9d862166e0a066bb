"""What the files of statistics packages have in common: labels, user-missing codes, formats, and dates as numbers.

A file is read raw: codes as they are, dates as the numbers they are stored as. What the methods see is made of that: a
user-missing code is a missing cell, a date is a date, and a column in which every value has a label is one of
categories and no amount. The raw columns are kept; a column that was not changed is written from them.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, ClassVar, Final

import numpy as np

from microveil.core.errors import FileError, some_of
from microveil.core.late import pl, pyreadstat
from microveil.io.files.formats import FileFormat, Format, ReadOptions, check_flat, check_table, needs, same_cells
from microveil.io.frames.validation import check_shape
from microveil.storage.atomic import shown

WORDS: Final = "names are letters, digits and _, at most 32, not beginning with a digit"
_SHOWN: Final = 4  # names of columns in the description of a file


@dataclass(frozen=True)
class Clock:
    """How a package stores a date: as so many of a unit since a day."""

    kind: str  # "date", "datetime" or "duration"
    since: str  # the day, as 1960-01-01
    milliseconds: int  # in one unit

    @property
    def start(self) -> int:
        """The first day, as polars counts: milliseconds since 1970."""
        return (dt.date.fromisoformat(self.since) - dt.date(1970, 1, 1)) // dt.timedelta(milliseconds=1)

    def dates(self, numbers: pl.Series) -> pl.Series:
        """Stored numbers as dates, times of a day and a date, or durations."""
        moments = (numbers.cast(pl.Float64) * self.milliseconds).round().cast(pl.Int64, strict=False)
        if self.kind == "duration":
            return moments.cast(pl.Duration("ms"))
        stamps = (moments + self.start).cast(pl.Datetime("ms"))
        return stamps.dt.date() if self.kind == "date" else stamps

    def numbers(self, dates: pl.Series) -> pl.Series:
        """Dates as the numbers the file has for them."""
        if self.kind == "duration":
            return dates.cast(pl.Int64) / self.milliseconds
        return (dates.cast(pl.Datetime("ms")).cast(pl.Int64) - self.start) / self.milliseconds


@dataclass(frozen=True, repr=False)
class Variable:
    """A column as it is in the file (raw, with letters such as `.a` apart), and as the methods see it."""

    raw: pl.Series
    letters: pl.Series | None
    seen: pl.Series
    clock: Clock | None = None
    codes: Mapping[str, float] = field(default_factory=dict)  # by label, where the column is seen as categories

    def stored(self, column: pl.Series) -> tuple[pl.Series, pl.Series | None]:
        """A column as the file stores it, and its letters: unchanged from the raw one, else made of the new values.

        In a changed column a missing cell is what it was where it was missing before: that very code. Where labels were
        exchanged, missing ones are in other rows, and codes are dealt out to them.
        """
        if same_cells(column, self.seen):
            return self.raw, self.letters
        if self.clock is not None and column.dtype == self.seen.dtype:
            column = self.clock.numbers(column)
        elif self.codes and column.dtype == self.seen.dtype:
            column = column.cast(pl.String).replace_strict(self.codes, return_dtype=pl.Float64)
        column = column.fill_nan(None) if column.dtype.is_float() else column
        if len(column) != len(self.raw):
            return column.alias(self.raw.name), None
        if self.codes and (self.seen.is_null() & column.is_not_null()).any():
            return self._with_codes_dealt(column)
        codes = self.raw.cast(column.dtype, strict=False)
        cells = codes.zip_with(column.is_null() & self.seen.is_null(), column)
        letters = None if self.letters is None else self.letters.set(column.is_not_null(), None)
        return cells.alias(self.raw.name), letters

    def _with_codes_dealt(self, column: pl.Series) -> tuple[pl.Series, pl.Series | None]:
        """Numbers of labels with codes in the place of missing cells, as many of each as there were, and letters.

        Which cell gets which depends on the new column alone: it tells nothing of the rows that had them.
        """
        rows, gaps = column.is_null().arg_true(), self.seen.is_null()
        raw = self.raw.cast(column.dtype, strict=False).filter(gaps)
        letters = pl.Series([None] * len(raw), dtype=pl.String) if self.letters is None else self.letters.filter(gaps)
        had = sorted(zip(raw.to_list(), letters.to_list(), strict=True), key=str)
        had += [(None, None)] * (len(rows) - len(had))
        key = hashlib.blake2b(repr(column.to_list()).encode(), digest_size=16).digest()
        order = np.random.default_rng(list(key)).permutation(len(had))[: len(rows)]
        dealt = [had[at] for at in order]
        cells = column.clone().scatter(rows, [code for code, _ in dealt]).alias(self.raw.name)
        if self.letters is None:
            return cells, None
        blank = pl.Series(self.letters.name, [None] * len(column), self.letters.dtype)
        return cells, blank.scatter(rows, [letter for _, letter in dealt])


@dataclass(frozen=True, kw_only=True)
class StatFileFormat(FileFormat):
    """Everything about a file but its values. Columns are kept as `Variable`, notes by the name of the option."""

    title: str = ""  # what people call the package
    meta: Any = field(default=None, repr=False)
    release: int = 0  # the version of the file's format

    @property
    def description(self) -> str:
        """`SPSS, with labels; as categories: sex, region; user-missing codes in income`."""
        if self.meta is None:
            return ""
        categories = [name for name, variable in self.columns.items() if variable.codes]
        coded = [
            name
            for name, v in self.columns.items()
            if v.letters is not None or v.raw.null_count() < v.seen.null_count()
        ]
        parts = [
            self.title,
            *([f"labelled, so taken as categories: {some_of(categories, _SHOWN)}"] if categories else []),
            *([f"user-missing codes in {some_of(coded, _SHOWN)}"] if coded else []),
        ]
        return "; ".join(parts)

    @property
    def is_plain(self) -> bool:
        """Files of statistics packages always have something to say."""
        return self.meta is None


class StatFormat(Format):
    """A kind of file that pyreadstat reads and writes."""

    title: ClassVar[str]
    """What people call it."""

    functions: ClassVar[str]
    """How the functions of pyreadstat for it end."""

    column_name: ClassVar[tuple[re.Pattern[str], str]]
    """What columns can be called, as a pattern and in words."""

    padded: ClassVar[bool] = True
    """Does the package fill text up with spaces, so that one filled cell says how wide its column is?"""

    read_settings: ClassVar[Mapping[str, Any]] = MappingProxyType({"user_missing": True})
    default: ClassVar[StatFileFormat] = StatFileFormat()

    clocks: ClassVar[Mapping[str, Clock]] = MappingProxyType({})
    """How columns store dates, by patterns of the names of their formats."""

    def clock(self, form: str) -> Clock | None:
        """How a column of this format of the package stores dates, whatever its width; None if it does not."""
        name = re.sub(r"\d*\.?\d*$", "", form.upper())
        return next((clock for pattern, clock in self.clocks.items() if re.fullmatch(pattern, name)), None)

    def release(self, path: Path) -> int:
        """The version of the format that a file is in."""
        return 0

    def write_settings(self, like: StatFileFormat, columns: Sequence[str], shown_as: Path) -> dict[str, Any]:
        """What pyreadstat's writer needs in addition to names, labels and formats of the columns."""
        raise NotImplementedError

    def read(self, path: Path, read_options: ReadOptions) -> tuple[pl.DataFrame, StatFileFormat]:
        """The table as the methods see it: numbers as narrow as in the file, Float64 where there is no other."""
        needs("pyreadstat", path)

        reader, raw = getattr(pyreadstat, f"read_{self.functions}"), None
        with suppress(pyreadstat.ReadstatError, pyreadstat.PyreadstatError, UnicodeDecodeError, ValueError):
            _, about = reader(path, metadataonly=True)
            width = about.number_columns
            check_shape(path, width, width * (about.number_rows or 0), size=path.stat().st_size)
            raw, meta = reader(path, disable_datetime_conversion=True, output_format="dict", **self.read_settings)
        if raw is None:  # raised out here: their errors may quote the data
            problem = f"{shown(path)} is not a file of {self.title}, or is damaged"
            raise FileError(problem, "write it again, or as a .csv")
        clocks = {column: self.clock(meta.original_variable_types.get(column) or "") for column in raw}
        if read_options.without_looking:
            meta.variable_value_labels = {}
        variables = {column: _variable(column, cells, meta, clocks[column]) for column, cells in raw.items()}
        frame = pl.DataFrame([variable.seen for variable in variables.values()])
        check_table(frame, path)
        # Sealed, and without lists: those would be taken for cells when rows change places.
        written = {"file_label": meta.file_label, "note": "\n".join(meta.notes or ())}
        notes = {option: text for option, text in written.items() if text}
        about = {"title": self.title, "meta": SimpleNamespace(**vars(meta)), "release": self.release(path)}
        return frame, StatFileFormat(columns=variables, notes=notes, **about)

    def write(self, frame: pl.DataFrame, path: Path, like: StatFileFormat, *, shown_as: Path) -> None:
        """Write by pyreadstat, with everything the source said about its columns."""
        needs("pyreadstat", shown_as)

        cells, letters = _stored_columns(frame, like, padded=self.padded)
        settings = self.write_settings(like, frame.columns, shown_as)
        settings["file_label"] = like.notes.get("file_label")
        meta = like.meta
        if meta is not None:
            labels = meta.column_names_to_labels.items()
            settings["column_labels"] = {name: label for name, label in labels if label is not None}
            settings["variable_format"] = {name: form for name, form in meta.original_variable_types.items() if form}
        failed = False
        try:
            given = {key: value for key, value in settings.items() if value}
            getattr(pyreadstat, f"write_{self.functions}")(cells, path, **given)
        except (pyreadstat.ReadstatError, pyreadstat.PyreadstatError):
            failed = True  # raised out here: their errors may quote the data
        if failed:
            hint = "check names and labels of the columns, and the space on the disk; or write a .parquet file"
            raise FileError(f"{shown(shown_as)} cannot be written: a column has no place in it", hint)
        self.finish(path, cells, letters, like)

    def finish(self, path: Path, cells: pl.DataFrame, letters: Mapping[str, pl.Series], like: StatFileFormat) -> None:
        """Do what pyreadstat cannot: the file at `path` holds `cells`, and is to have the `letters` of missing ones."""

    def check_holds(self, frame: pl.DataFrame, path: Path) -> None:
        """Refuse names of columns that the package does not know, before the long work."""
        check_flat(frame, path)
        pattern, allowed = self.column_name
        for name in frame.columns:
            if not pattern.fullmatch(name):
                problem = f"{shown(path)} cannot have a column called {shown(name)}"
                raise FileError(problem, f"{allowed}; rename it first")


def _variable(name: str, cells: list[Any], meta: Any, clock: Clock | None) -> Variable:
    """A column of a file in its two shapes: of its raw `cells`, what the file's `meta` data say, and its `clock`."""
    stored = meta.readstat_variable_types[name]
    ranges = meta.missing_ranges.get(name, [])
    if stored.startswith("string"):
        text = pl.Series(name, cells, pl.String)
        missing = [entry["lo"] if isinstance(entry, dict) else entry for entry in ranges]
        seen = text.set(text.is_in(missing).fill_null(value=False), None) if missing else text
        return Variable(text, None, seen)
    letters = None
    if name in meta.missing_user_values:
        letters = pl.Series([cell if isinstance(cell, str) else None for cell in cells], dtype=pl.String)
        cells = [None if isinstance(cell, str) else cell for cell in cells]
    kind = {"int8": pl.Int8, "int16": pl.Int16, "int32": pl.Int32, "float": pl.Float32}.get(stored, pl.Float64)
    raw = pl.Series(name, cells, kind)
    seen = raw.fill_nan(None) if raw.dtype.is_float() else raw
    for entry in ranges:
        seen = seen.set(seen.is_between(entry["lo"], entry["hi"]).fill_null(value=False), None)
    if clock is not None:
        return Variable(raw, letters, clock.dates(seen), clock)
    codes = _categories(seen, meta.variable_value_labels.get(name, {}))
    if codes:
        back = {code: label for label, code in codes.items()}
        seen = seen.cast(pl.Float64).replace_strict(back, return_dtype=pl.Enum(list(codes)))
    return Variable(raw, letters, seen, None, codes)


def _categories(seen: pl.Series, labels: Mapping[Any, str]) -> dict[str, float]:
    """The codes by label, in the order of the codes, if every value has a label of its own; else nothing."""
    known = {float(code): label for code, label in labels.items() if not isinstance(code, str)}
    values = seen.drop_nulls().unique().to_list()
    if not values or not all(float(value) in known for value in values) or len(set(known.values())) < len(known):
        return {}
    return {known[code]: code for code in sorted(known)}


def _stored_columns(
    frame: pl.DataFrame, like: StatFileFormat, *, padded: bool
) -> tuple[pl.DataFrame, dict[str, pl.Series]]:
    """The table as a file stores it, and the letters of missing cells by column."""
    columns: list[pl.Series] = []
    letters: dict[str, pl.Series] = {}
    for column in frame.get_columns():
        variable = like.columns.get(column.name)
        if variable is None:
            columns.append(_plain(column))
            continue
        stored, tags = variable.stored(column)
        if tags is not None:
            letters[column.name] = tags
        stored = _plain(stored)
        if padded and stored.dtype == pl.String:
            stored = _widened(stored, like.meta.variable_storage_width[column.name])
        columns.append(stored)
    return pl.DataFrame(columns), letters


def _plain(column: pl.Series) -> pl.Series:
    """Types of elsewhere in those that every package has: numbers, text, dates."""
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
    first = text[0] or ""
    filled = first + " " * (width - len(first.encode()))
    return text if filled == first else pl.concat([pl.Series(text.name, [filled]), text[1:]])
