"""What the databases have in common: a table is read in batches, and written in one transaction or not at all."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from microveil.core.errors import FileError, did_you_mean
from microveil.core.late import pa, pl
from microveil.io.files.formats import check_no_pattern, needs
from microveil.io.files.numerals import Original, to_numbers, written_as
from microveil.io.frames.validation import check_shape
from microveil.io.locations import Database
from microveil.storage.atomic import shown

T = TypeVar("T")

ROWS: Final = 50_000
"""Rows that are sent at a time."""

STAGED: Final = "microveil_staged"
"""What rows on their way into a table are called."""

_DECIMAL: Final = re.compile(r"(?:numeric|decimal)\((\d+),(\d+)\)", re.IGNORECASE)


@dataclass(frozen=True, repr=False)
class DatabaseColumn:
    """The type of a column in its database, how the methods see it, and its text where it was read as text."""

    kind: str
    seen: pl.Series
    text: pl.Series | None = None

    @property
    def unseen(self) -> pl.Series:
        """The column as its type alone says."""
        return self.seen if self.text is None else self.text


class Engine(ABC):
    """A kind of database. A new one is a file in this folder, and a line in `tables.DATABASES`.

    What is public here calls the private steps of each, and gives their errors without the words of the driver. Keys,
    indexes and rights of a table stay behind.
    """

    name: ClassVar[str]
    driver: ClassVar[str]  # the package that speaks to it

    def read(self, place: Database, query: str | None) -> tuple[pl.DataFrame, Mapping[str, Any]]:
        """The rows of a table, or of a query, in batches; and what is kept of its columns. Nothing is changed."""

        def work(connection: Any) -> tuple[pl.DataFrame, Mapping[str, Any]]:
            if query is None and not self._has(connection, place):
                names = self._names(connection)
                raise FileError(f"there is no table {shown(place)}", did_you_mean(place.table, names) if names else "")
            return self._read(connection, place, query)

        return self._reading(place, work)

    @contextmanager
    def writing(
        self, frame: pl.DataFrame, place: Database, known: Mapping[str, Any], *, replacing: bool
    ) -> Iterator[None]:
        """Write `frame` to the table at `place` when the block begins; others see it when the block ends well.

        `known` is what is kept of columns of the same kind of database, by name; `replacing` drops the old table.
        """
        with nullcontext() if place.file is None else new_or_old(place.file):
            connection = self._with_our_errors(place, "written", lambda: self._connect(place, write=True))
            try:
                self._with_our_errors(
                    place, "written", lambda: self._insert(connection, frame, place, known, replacing)
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
        self._reading(place, lambda connection: self._is_taken(connection, place, replacing=replacing))

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
        needs(self.driver, place)
        try:
            return work()
        except self._errors() as error:
            why, hint = self._reason(error)
        raise FileError(f"{shown(place)} cannot be {verb} ({why})", hint)

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
    def _read(self, connection: Any, place: Database, query: str | None) -> tuple[pl.DataFrame, Mapping[str, Any]]: ...

    @abstractmethod
    def _insert(
        self, connection: Any, frame: pl.DataFrame, place: Database, known: Mapping[str, Any], replacing: bool
    ) -> None:
        """Begin a transaction, and write everything in it; the arguments are those of `writing`."""

    @abstractmethod
    def _names(self, connection: Any) -> list[str]:
        """Tables and views."""

    def _has(self, connection: Any, place: Database) -> bool:
        """Whether there is such a table. Embedded databases take small letters and capitals for the same."""
        schema, name = place.schema_and_name
        wanted = name if schema in (None, "main") else f"{schema}.{name}"
        return wanted.lower() in [found.lower() for found in self._names(connection)]

    def _is_taken(self, connection: Any, place: Database, *, replacing: bool) -> bool:
        """Whether there is such a table already, which is refused unless it is to be replaced."""
        there = self._has(connection, place)
        if there and not replacing:
            raise FileError(f"{shown(place)} exists already", "name another table, or say --overwrite")
        return there

    def _create(self, connection: Any, place: Database, columns: str, *, replacing: bool) -> None:
        """Make the table with these `columns`, in place of the old one if `replacing`.

        A server refuses to drop a table if a view depends on it.
        """
        if self._is_taken(connection, place, replacing=replacing):
            self._execute(connection, f"DROP TABLE {self._table(place)}")
        self._execute(connection, f"CREATE TABLE {self._table(place)} ({columns})")

    def _table(self, place: Database) -> str:
        """The table in a statement."""
        return quoted(*place.schema_and_name)

    def _execute(self, connection: Any, statement: str) -> list[Any]:
        """Run a statement; the rows it gives."""
        return list(connection.execute(statement).fetchall())

    def _commit(self, connection: Any) -> None:
        self._execute(connection, "COMMIT")


def quoted(*names: str | None) -> str:
    """Names for a statement, whatever characters they hold."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names if name is not None)


class ArrowEngine(Engine):
    """A database that gives and takes rows as Arrow. What Arrow has no type for passes as text, and is cast back."""

    types: ClassVar[Mapping[str, str]]
    """The type of a column from elsewhere, by the name of its type in polars. That of decimals holds any number."""

    native: ClassVar[Collection[str]]
    """Types that Arrow and polars have as well."""

    exact: ClassVar[tuple[str, ...]]
    """How the types of exact numbers begin."""

    @abstractmethod
    def _kinds(self, connection: Any, source: str, place: Database | None) -> tuple[dict[str, str], dict[str, str]]:
        """The types of the columns of a table (or of a query, without a place), and as they were declared."""

    @abstractmethod
    def _fetch(self, connection: Any, query: str) -> pa.Table:
        """The rows of a query, in the order in which they are stored."""

    @abstractmethod
    def _copy(self, connection: Any, cells: pl.DataFrame, insert: str) -> None:
        """Send rows to the database as `STAGED`, from which the statement `insert` takes them."""

    def _read(
        self, connection: Any, place: Database, query: str | None
    ) -> tuple[pl.DataFrame, Mapping[str, DatabaseColumn]]:
        source = self._table(place) if query is None else f"({query}) AS selected"
        kinds, declared = self._kinds(connection, source, place if query is None else None)
        check_shape(place, len(kinds))
        check_no_pattern(kinds)
        as_text = [name for name, kind in kinds.items() if kind not in self.native]
        picked = (f"CAST({quoted(n)} AS text) AS {quoted(n)}" if n in as_text else quoted(n) for n in kinds)
        query = f"SELECT {', '.join(picked)} FROM {source}"  # noqa: S608 - names are quoted
        frame = pl.DataFrame(pl.from_arrow(self._fetch(connection, query)))
        columns = {}
        for name in frame.columns:
            text = frame[name] if name in as_text else None
            numbers = to_numbers(text) if text is not None and kinds[name].startswith(self.exact) else None
            columns[name] = DatabaseColumn(declared[name], frame[name] if numbers is None else numbers, text)
        return frame.with_columns(column.seen for column in columns.values()), columns

    def _insert(
        self, connection: Any, frame: pl.DataFrame, place: Database, known: Mapping[str, Any], replacing: bool
    ) -> None:
        found = [self._as_written(column, known.get(column.name)) for column in frame.get_columns()]
        cells = pl.DataFrame([column for column, _ in found])
        pairs = [(quoted(name), kind) for name, (_, kind) in zip(cells.columns, found, strict=True)]
        self._begin(connection)
        self._create(connection, place, ", ".join(f"{name} {kind}" for name, kind in pairs), replacing=replacing)
        casts = ", ".join(f"CAST({name} AS {kind})" for name, kind in pairs)
        self._copy(connection, cells, f"INSERT INTO {self._table(place)} SELECT {casts} FROM {STAGED}")  # noqa: S608 - quoted

    def _begin(self, connection: Any) -> None:
        """Begin a transaction."""

    def _as_written(self, column: pl.Series, was: DatabaseColumn | None) -> tuple[pl.Series, str]:
        """A column for the way into the database, and the type it gets there: its own, if the values still fit it."""
        if isinstance(column.dtype, pl.Enum | pl.Categorical):
            column = column.cast(pl.String)
        if column.dtype.is_float():
            column = column.fill_nan(None)
        same = was is not None and column.dtype == was.seen.dtype
        if was is not None and was.text is not None and column.dtype.is_numeric():
            cells = written_as(column, Original(was.text, was.seen)) if same else column
            return cells.cast(pl.String), was.kind if _fits(column, was.kind) else self.types["Decimal"]
        if was is not None and same:
            return column, was.kind
        return column, self.types.get(column.dtype.base_type().__name__, "text")


def arrow_batches(cells: pl.DataFrame) -> pa.RecordBatchReader:
    """The rows as Arrow sends them, `ROWS` at a time."""
    oldest = pl.CompatLevel.oldest()
    slices = (cells[start : start + ROWS].to_arrow(compat_level=oldest) for start in range(0, cells.height, ROWS))
    schema = cells.clear().to_arrow(compat_level=oldest).schema
    return pa.RecordBatchReader.from_batches(schema, (batch for part in slices for batch in part.to_batches()))


def _fits(column: pl.Series, kind: str) -> bool:
    """Whether numbers have no more digits than a type such as numeric(10,2) keeps."""
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
