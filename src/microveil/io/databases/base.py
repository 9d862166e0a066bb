"""What the databases have in common: a table is read in batches, and written in one transaction or not at all."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from microveil.core.errors import FileError, did_you_mean
from microveil.io.files.formats import needs
from microveil.io.files.header_names import check_no_pattern
from microveil.io.files.numerals import Original, to_numbers, written_as
from microveil.io.locations import Database
from microveil.storage.atomic import shown

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")

EXTRA: Final = "db"
ROWS: Final = 50_000
"""Rows that are read and written at a time."""

_DECIMAL: Final = re.compile(r"(?:numeric|decimal)\((\d+),(\d+)\)", re.IGNORECASE)


@dataclass(frozen=True, repr=False)
class DatabaseColumn:
    """The type of a column in its database, how the methods see it, and its text where it was read as text."""

    kind: str
    seen: pl.Series
    text: pl.Series | None = None


@dataclass(frozen=True)
class TableSource:
    """The columns of a table by name. Keys, indexes and rights stay behind."""

    columns: Mapping[str, DatabaseColumn] = field(default_factory=dict, repr=False, compare=False)
    description: str = ""
    is_plain: bool = True


class Engine(ABC):
    """A kind of database. A new one is a file beside this one, and a line in `files.DATABASES`.

    What is public here calls the private steps of each, and tells their errors without the words of the driver.
    """

    name: ClassVar[str]

    def read(self, place: Database, query: str | None) -> tuple[pl.DataFrame, Any]:
        """The rows of a table, or of a query, in batches; and the source format of its columns. Nothing is changed."""

        def work(connection: Any) -> tuple[pl.DataFrame, Any]:
            if query is None and not self._has(connection, place):
                names = self._names(connection)
                raise FileError(f"there is no table {shown(place)}", did_you_mean(place.table, names) if names else "")
            return self._read(connection, place, query)

        return self._reading(place, work)

    @contextmanager
    def writing(self, frame: pl.DataFrame, place: Database, source_format: Any, *, replacing: bool) -> Iterator[None]:
        """Rows that are written, in batches, when the block begins, and are there for others when it ends well."""
        with nullcontext() if place.file is None else new_or_old(place.file):
            connection = self._with_our_errors(place, "written", lambda: self._connect(place, write=True))
            try:
                self._with_our_errors(
                    place, "written", lambda: self._insert(connection, frame, place, source_format, replacing)
                )
                yield
                self._with_our_errors(place, "written", lambda: self._commit(connection))
            finally:
                connection.close()  # which undoes what was not made good

    def tables(self, place: Database) -> list[str]:
        """The tables there are."""
        return self._reading(place, self._names)

    def check_target(self, place: Database, *, replacing: bool) -> None:
        """Refuse, before the long work, a table that is there already or a database that cannot be reached."""
        if not place.table:
            raise FileError(f"{shown(place)} names no table", "add #TABLE to the output")
        file = place.file
        if file is not None and not file.exists():
            if not file.parent.is_dir():
                problem = f"{shown(place)} cannot be written: there is no folder {shown(file.parent)}"
                raise FileError(problem, "create it first")
            return
        if self._reading(place, lambda connection: self._has(connection, place)) and not replacing:
            raise already_there(place)

    def is_same(self, one: Database, other: Database) -> bool:
        """Whether two places are one table, as far as their addresses tell."""
        if one.kind != other.kind or one.schema_and_name != other.schema_and_name:
            return False
        if one.file is not None and other.file is not None:
            return os.path.realpath(one.file) == os.path.realpath(other.file)
        return str(one).rpartition("#")[0] == str(other).rpartition("#")[0]

    def _reading(self, place: Database, work: Callable[[Any], T]) -> T:
        def connected() -> T:
            with closing(self._connect(place, write=False)) as connection:
                return work(connection)

        return self._with_our_errors(place, "read", connected)

    def _with_our_errors(self, place: Database, verb: str, work: Callable[[], T]) -> T:
        """Do it; an error of the driver becomes ours, and is not even its context: it may quote data or a password."""
        needs(self.driver, EXTRA, place)
        try:
            return work()
        except self._errors() as error:
            why, hint = self._reason(error)
        raise FileError(f"{shown(place)} cannot be {verb} ({why})", hint)

    @property
    @abstractmethod
    def driver(self) -> str:
        """The package that speaks to it."""

    @abstractmethod
    def _errors(self) -> type[Exception] | tuple[type[Exception], ...]:
        """What the driver raises, and what brings its rows here."""

    def _reason(self, error: Exception) -> tuple[str, str]:
        """Why it failed in a word that holds no data, and what to do."""
        return type(error).__name__, "check the file, the table and the query"

    @abstractmethod
    def _connect(self, place: Database, *, write: bool) -> Any:
        """A connection in which nothing is made good by itself; without `write` one that cannot change anything."""

    @abstractmethod
    def _read(self, connection: Any, place: Database, query: str | None) -> tuple[pl.DataFrame, Any]: ...

    @abstractmethod
    def _insert(
        self, connection: Any, frame: pl.DataFrame, place: Database, source_format: Any, replacing: bool
    ) -> None:
        """Begin a transaction, and write everything in it."""

    @abstractmethod
    def _commit(self, connection: Any) -> None: ...

    @abstractmethod
    def _names(self, connection: Any) -> list[str]:
        """Tables and views."""

    def _has(self, connection: Any, place: Database) -> bool:
        """Whether there is such a table. Embedded databases take small letters and capitals for the same."""
        schema, name = place.schema_and_name
        wanted = name if schema in (None, "main") else f"{schema}.{name}"
        return wanted.lower() in [found.lower() for found in self._names(connection)]

    def _make_room(self, connection: Any, place: Database, *, replacing: bool) -> None:
        """Drop the old table, if that was asked for."""
        if self._has(connection, place):
            if not replacing:
                raise already_there(place)
            connection.execute(f"DROP TABLE {quoted(*place.schema_and_name)}")


def already_there(place: Database) -> FileError:
    """The error for a target that nobody asked to replace."""
    return FileError(f"{shown(place)} exists already", "name another table, or say --overwrite")


def quoted(*names: str | None) -> str:
    """Names for a statement, whatever characters they hold."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names if name is not None)


def joined(reader: Any) -> pl.DataFrame:
    """One table of all batches that Arrow reads; without any, its columns."""
    import polars as pl

    batches = [pl.DataFrame(pl.from_arrow(batch)) for batch in reader]
    empty = pl.DataFrame(pl.from_arrow(reader.schema.empty_table()))
    return pl.concat(batches, how="vertical", rechunk=True) if batches else empty


def from_text(
    frame: pl.DataFrame, kinds: Mapping[str, str], as_text: Sequence[str], numeric: Sequence[str]
) -> tuple[pl.DataFrame, TableSource]:
    """The table as the methods see it: what was read as text and is of a numeric type, as numbers."""
    check_no_pattern(frame.columns)
    columns = {}
    for name in frame.columns:
        text = frame[name] if name in as_text else None
        numbers = to_numbers(text) if text is not None and name in numeric else None
        columns[name] = DatabaseColumn(kinds[name], frame[name] if numbers is None else numbers, text)
    return frame.with_columns(column.seen for column in columns.values()), TableSource(columns)


def as_written(column: pl.Series, was: DatabaseColumn | None, usual: Mapping[str, str]) -> tuple[pl.Series, str]:
    """A column for the way into a database, and the type it gets there: its own, if the values still fit it."""
    import polars as pl

    if isinstance(column.dtype, pl.Enum | pl.Categorical):
        column = column.cast(pl.String)
    if column.dtype.is_float():
        column = column.fill_nan(None)
    if was is None:
        return column, usual.get(column.dtype.base_type().__name__, "text")
    if was.text is not None and column.dtype == was.seen.dtype:
        if column.dtype == pl.String:
            return column, was.kind
        cells = written_as(column, Original(was.text, was.seen)).cast(pl.String)
        return cells, was.kind if _fits(column, was.kind) else "numeric"
    if was.text is not None and column.dtype.is_numeric():
        return column.cast(pl.String), was.kind if _fits(column, was.kind) else "numeric"
    if column.dtype == was.seen.dtype or (was.seen.dtype.is_decimal() and _fits(column, was.kind)):
        return column, was.kind
    return column, usual.get(column.dtype.base_type().__name__, "text")


def _fits(column: pl.Series, kind: str) -> bool:
    """Whether numbers have no more digits than a type such as numeric(10,2) keeps."""
    import polars as pl

    found = _DECIMAL.search(kind)
    if found is None:
        return True
    digits, decimals = int(found[1]), int(found[2])
    values = column.drop_nulls().cast(pl.Float64)
    return bool((values.round(decimals) == values).all()) and bool((values.abs() < 10.0 ** (digits - decimals)).all())


@contextmanager
def new_or_old(file: Path) -> Iterator[None]:
    """Around the writing into an embedded database: a file that is new is private until all is well, else removed."""
    is_new = not file.exists()
    mask = os.umask(0o077) if is_new else None
    try:
        yield
    except BaseException:
        if is_new:
            for leftover in (file, *(file.with_name(file.name + end) for end in ("-journal", "-wal", ".wal"))):
                leftover.unlink(missing_ok=True)
        raise
    finally:
        if mask is not None:
            os.umask(mask)
    if is_new and mask is not None:
        with suppress(OSError):
            file.chmod(0o666 & ~mask)
