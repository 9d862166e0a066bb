"""What every format of a table has: how it is read, how it is written, and what it takes to write one like it."""

from __future__ import annotations

import importlib.util
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Final

from microveil.core.errors import DataError, FileError, ParameterError, one_of
from microveil.core.late import EXTRAS, pa, pl
from microveil.storage.atomic import shown

RAW = "lists and bytes need a .parquet file"

MISSING: Final = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", ".")
"""Cells that count as missing in a column of numbers, with or without spaces around."""

_NUMBER: Final = re.compile(r"\s*[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)


@dataclass(frozen=True)
class ReadOptions:
    """What the user says about how a table is to be read; what is None is found."""

    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    sheet: str | None = None
    header_row: int | None = None
    skip_rows: int | None = None
    query: str | None = None
    without_looking: bool | None = None
    """Leave cells of text files, of SQLite and of decimals in databases as text, and labelled columns of statistics
    packages as codes: what numbers a column has, and whether all have labels, is found by looking at all of them."""

    @classmethod
    def of(cls, options: Any) -> ReadOptions:
        """The options of reading among others, by name."""
        return cls(**{own.name: getattr(options, own.name, None) for own in fields(cls)})

    @property
    def given(self) -> dict[str, str | int]:
        """The options that were given, by name."""
        values = {own.name: getattr(self, own.name) for own in fields(self) if own.name != "without_looking"}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def words(self) -> list[str]:
        """The options that were given, as they are typed on the command line."""
        return [word for name, value in self.given.items() for word in (_flag(name), str(value))]


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True)
class FileFormat:
    """How a table was kept where it came from, and so what it takes to write one like it.

    What is kept of its cells is confidential, and stays out of the printed form.
    """

    name: str = ""  # of the kind of file or database
    extension: str = ""
    columns: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """What is kept of columns, by name."""

    notes: Mapping[Any, Any] = field(default_factory=dict, repr=False)
    """Notes of the author of the file that are about no single column."""

    findings: Sequence[str] = field(default=(), compare=False)
    """What a user of the table must know of how it was read, a sentence each: rows that were left out, units."""

    @property
    def description(self) -> str:
        """What was found, for people: `semicolon, decimal comma, cp1252`; nothing when there is nothing to say."""
        return ""

    @property
    def is_plain(self) -> bool:
        """Whether it is what everybody expects, so that nothing has to be said."""
        return True

    def text_of(self, name: str) -> pl.Series | None:
        """The cells of a column of numbers as they were written, where they were text."""
        return None


class Format(ABC):
    """A kind of file. A new one is a file in this folder, and a line in `tables.FORMATS`."""

    name: ClassVar[str]
    options: ClassVar[Sequence[str]] = ()  # the fields of `ReadOptions` that it knows
    default: ClassVar[Any] = FileFormat()  # for a table that came from elsewhere

    @abstractmethod
    def read(self, path: Path, read_options: ReadOptions) -> tuple[pl.DataFrame, Any]:
        """The table in a file, and its format. Errors of the system may be raised, but none of a library."""

    @abstractmethod
    def write(self, frame: pl.DataFrame, path: Path, like: Any, *, shown_as: Path) -> None:
        """Write `frame` `like` its source into `path`, a private temporary file that is going to be `shown_as`."""

    def adapted(self, like: Any, extension: str) -> Any:
        """The format of the source for a target of another extension than the source had, both of this kind."""
        return like

    def check_holds(self, frame: pl.DataFrame, path: Path) -> None:  # noqa: B027 - some hold everything
        """Refuse columns for which the format has no form."""


def check_options(options: Sequence[str], read_options: ReadOptions, what: str) -> None:
    """An option that would have no effect is refused."""
    for option in read_options.given:
        if option not in options:
            known = one_of(_flag(name) for name in options)
            hint = f"it has {known}" if options else "leave it out"
            raise ParameterError(f"{_flag(option)}: means nothing for {what}", hint)


def sign_of(option: str, value: str | None, words: Mapping[str, str]) -> str | None:
    """The sign that the `value` of an `option` stands for: one of the `words` for it, or the sign itself."""
    if value is None:
        return None
    sign = words.get(value.lower(), value)
    if sign not in words.values():
        allowed = one_of(dict.fromkeys(word for word in words if word.isalpha()))
        raise ParameterError(f"{_flag(option)}: {shown(value)} is not known", f"it is {allowed}")
    return sign


def split_notes(schema: pa.Schema) -> tuple[bytes | None, dict[bytes, bytes]]:
    """What pandas notes in a schema about its types and its index; and what its user, or anybody else, has noted."""
    noted = schema.metadata or {}
    pandas = None
    with suppress(ValueError, KeyError):
        content = json.loads(noted[b"pandas"])
        if isinstance(content, dict):
            pandas = (
                json.dumps({**content, "attributes": {}}).encode() if content.get("attributes") else noted[b"pandas"]
            )
    return pandas, {key: note for key, note in noted.items() if key != b"pandas" or note != pandas}


def needs(package: str, path: object) -> None:
    """Refuse a format whose library is not installed, and say which extra of ours brings it."""
    if importlib.util.find_spec(package) is None:
        extra = next(extra for extra, packages in EXTRAS.items() if package.replace("_", "-") in packages)
        raise FileError(f"{shown(path)} needs {package}", f'run: pip install "microveil[{extra}]"')


def check_table(frame: pl.DataFrame, what: object) -> None:
    """Refuse a table without rows, or without columns."""
    if not frame.width or not frame.height:
        missing = "rows" if frame.width else "columns"
        raise DataError(f"{shown(what)} has no {missing}", "check that it is the right one")


def check_unique(names: Sequence[str], what: object) -> None:
    """Refuse names that more than one column has."""
    positions: dict[str, list[int]] = {}
    for position, name in enumerate(names, 1):
        positions.setdefault(name, []).append(position)
    repeated = {name: where for name, where in positions.items() if len(where) > 1}
    if repeated:
        raise DataError(f"{shown(what)} repeats column names: {_listed(repeated)}", "rename them apart")


def check_flat(frame: pl.DataFrame, path: object, hint: str = RAW, *, binary: bool = False) -> None:
    """Refuse columns of a `frame` that hold lists, records or, unless `binary`, raw bytes; `hint` says what to do."""
    refused = (pl.Object,) if binary else (pl.Object, pl.Binary)
    for name, kind in frame.schema.items():
        if kind.is_nested() or kind in refused:
            raise FileError(f"{shown(path)} cannot hold column {shown(name)}", hint)


def same_cells(column: pl.Series, other: pl.Series) -> bool:
    """Whether two columns have the same type and the same cells, so that the second can be written as it was read."""
    return column.dtype == other.dtype and column.equals(other, null_equal=True)


def check_names(names: list[str], path: Path) -> None:
    """Refuse a header with empty or repeated names, with one that cannot be worked with, or that is a record."""
    if looks_like_record(names):
        # Taken for names, the numbers of the first record would be released as they are.
        raise DataError(f"{shown(path)} has numbers in place of column names", "add a first line with the names")
    nameless = [position for position, name in enumerate(names, 1) if not name.strip()]
    if nameless:
        hint = "name it, or leave it out if it only numbers the rows"
        raise DataError(f"{shown(path)} has no name for column {nameless[0]} of {len(names)}", hint)
    check_unique(names, path)
    check_no_pattern(names)


def check_no_pattern(names: Iterable[str]) -> None:
    """Refuse ^names$: polars works on a column by its name, takes these for patterns, and finds nothing or too much."""
    for name in names:
        if name.startswith("^") and name.endswith("$"):
            raise DataError(f"column {shown(name)} has a name that polars takes for a pattern", "rename it")


def looks_like_record(names: list[str]) -> bool:
    """Whether names are numbers, other than the counting ones (0, 1, 2; 2019, 2020) that tools and people write."""
    numbers = [name for name in names if _NUMBER.fullmatch(name)]
    blanks = [name for name in names if name.strip() in MISSING]
    if blanks and any(names) and len(numbers) + len(blanks) == len(names):
        return True
    if not numbers:
        return False
    if not all(re.fullmatch(r"\d{1,9}", name, re.ASCII) for name in numbers):
        return True
    counted = [int(name) for name in numbers]
    return counted != list(range(counted[0], counted[0] + len(counted)))


def _listed(repeated: Mapping[str, list[int]], limit: int = 5) -> str:
    """`'x' (columns 1, 3)`, for each repeated name; what could be a record's value is named by its position alone."""
    parts = []
    for name, where in list(repeated.items())[:limit]:
        columns = f"columns {', '.join(map(str, where))}"
        parts.append(columns if _NUMBER.fullmatch(name) or len(name) > 60 else f"{shown(name)} ({columns})")
    return "; ".join(parts) + ("; and others" if len(repeated) > limit else "")
