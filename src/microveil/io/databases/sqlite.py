"""SQLite through the standard library: every cell has a type of its own there, which ADBC guesses by the first rows."""

from __future__ import annotations

import datetime as dt
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import quote

from microveil.core.late import pl
from microveil.io.databases.base import ROWS, Engine, quoted
from microveil.io.files.formats import check_no_pattern
from microveil.io.frames.mixed_types import MixedColumn, to_cells
from microveil.io.frames.validation import check_shape
from microveil.io.locations import Database

_TYPES: Final = {"Float32": "REAL", "Float64": "REAL", "Decimal": "REAL", "String": "TEXT", "Binary": "BLOB"}
_WHOLE: Final = "INTEGER"

_PLAIN: Final = re.compile(r"(?:[A-Za-z][A-Za-z0-9_ ]*)?(?:\(\s*\d+\s*(?:,\s*\d+\s*)?\))?")
_CONSTRAINTS: Final = re.compile(
    r"\b(?:AS|ALWAYS|AUTOINCREMENT|CHECK|COLLATE|CONSTRAINT|DEFAULT|GENERATED|KEY|NOT|NULL|ON|PRIMARY|REFERENCES|UNIQUE)\b",
    re.IGNORECASE,
)
_READ_ACTIONS: Final = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)

_READS: Final = ("only reading is allowed", "ask with a SELECT")
_REASONS: Final = {
    sqlite3.SQLITE_AUTH: _READS,
    sqlite3.SQLITE_READONLY: _READS,
    sqlite3.SQLITE_NOTADB: ("it is no database of SQLite, or an encrypted one", "check the file"),
    sqlite3.SQLITE_CORRUPT: ("the file is damaged", "take another copy of it"),
    sqlite3.SQLITE_BUSY: ("another program is writing to it", "wait, or close the other program"),
    sqlite3.SQLITE_FULL: ("the disk is full", "free some space, or choose another disk"),
}
_SAID: Final = {
    "not authorized": _READS,
    "no such column": ("the query names a column that is not there", "check its names"),
    "no such table": ("the query names a table that is not there", "check its names"),
    "no such function": ("the query uses a function that is not there", "check its names"),
    "near ": ("the query is not valid SQL", "check its words and signs"),
    "incomplete input": ("the query is not valid SQL", "it ends too early"),
}
"""How messages begin that have no number of their own. The rest of them may quote cells."""


class SqliteColumn(NamedTuple):
    """What is kept of a column: its cells, and the type it was declared with, which need not be one."""

    cells: MixedColumn
    declared: str | None

    @property
    def unseen(self) -> pl.Series:
        """Each cell as text, whatever others are."""
        seen = self.cells.seen
        cells = seen.to_list() if self.cells.cells is None else self.cells.cells
        return pl.Series(seen.name, [None if cell is None else str(cell) for cell in cells], pl.String)


class Sqlite(Engine):
    """A file of SQLite."""

    name: ClassVar[str] = "sqlite"
    driver: ClassVar[str] = "sqlite3"

    def _errors(self) -> tuple[type[Exception], ...]:
        return sqlite3.Error, sqlite3.Warning  # which is what two statements in one were before Python 3.12

    def _reason(self, error: Exception) -> tuple[str, str]:
        code = getattr(error, "sqlite_errorcode", None)
        if code is None:
            return "a query is one statement", "write one SELECT"
        if code in _REASONS:
            return _REASONS[code]
        found = [reason for beginning, reason in _SAID.items() if str(error).startswith(beginning)]
        return found[0] if found else super()._reason(error)

    def _connect(self, place: Database, *, write: bool) -> sqlite3.Connection:
        address = f"file:{quote(str(place.file))}?mode={'rwc' if write else 'ro'}"
        return sqlite3.connect(address, uri=True, isolation_level=None)

    def _read(
        self, connection: sqlite3.Connection, place: Database, query: str | None
    ) -> tuple[pl.DataFrame, Mapping[str, SqliteColumn]]:
        """Rows in the order in which they are stored."""
        statement = query or f"SELECT * FROM {self._table(place)}"  # noqa: S608 - names are quoted
        if query is not None:  # a connection that only reads can still copy the database, and make others
            connection.set_authorizer(_reading_only)
        with closing(connection.execute(statement)) as cursor:  # an open one holds a lock, even in an error
            names = [entry[0] for entry in cursor.description or ()]
            check_shape(place, len(names))
            check_no_pattern(names)
            cells: list[list[Any]] = [[] for _ in names]
            while rows := cursor.fetchmany(ROWS):
                for column, batch in zip(cells, zip(*rows, strict=True), strict=True):
                    column.extend(batch)
        declared = connection.execute(f"PRAGMA table_info({self._table(place)})").fetchall() if query is None else []
        kinds = {name: kind for _, name, kind, *_ in declared}
        columns = {
            name: SqliteColumn(MixedColumn.read(name, column), kinds.get(name))
            for name, column in zip(names, cells, strict=True)
        }
        return pl.DataFrame([column.cells.seen for column in columns.values()]), columns

    def _insert(
        self, connection: Any, frame: pl.DataFrame, place: Database, known: Mapping[str, Any], replacing: bool
    ) -> None:
        """One transaction around everything, also around making and dropping tables."""
        columns = [f"{quoted(name)} {_kind(frame[name], known.get(name))}".rstrip() for name in frame.columns]
        connection.execute("BEGIN IMMEDIATE")
        self._create(connection, place, ", ".join(columns), replacing=replacing)
        insert = f"INSERT INTO {self._table(place)} VALUES ({', '.join('?' * frame.width)})"  # noqa: S608 - names are quoted
        cells = [_cells(column, known.get(column.name)) for column in frame.get_columns()]
        for start in range(0, frame.height, ROWS):
            batch = (column[start : start + ROWS] for column in cells)
            connection.executemany(insert, zip(*batch, strict=True))

    def _table(self, place: Database) -> str:
        return quoted(place.table)  # a point in it is part of the name

    def _names(self, connection: sqlite3.Connection) -> list[str]:
        found = self._execute(
            connection, "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
        )
        return [name for (name,) in found if not name.startswith("sqlite_")]


def _kind(column: pl.Series, was: SqliteColumn | None) -> str:
    """The declared type, unless new fractions would not be kept by it."""
    if (
        was is not None
        and was.declared is not None
        and column.dtype == was.cells.seen.dtype
        and _is_plain(was.declared)
    ):
        return was.declared
    if column.dtype.is_integer() or str(column.dtype) == "Boolean":
        return _WHOLE
    return _TYPES.get(column.dtype.base_type().__name__, "TEXT")


def _is_plain(declared: str) -> bool:
    """Whether it is a type and no more: in quotes anything can be declared, and would be read as a constraint here."""
    return _PLAIN.fullmatch(declared) is not None and _CONSTRAINTS.search(declared) is None


def _reading_only(action: int, _: str | None, function: str | None, *__: str | None) -> int:
    """What a query may do: look at tables."""
    allowed = action in _READ_ACTIONS and not (action == sqlite3.SQLITE_FUNCTION and function == "load_extension")
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _cells(column: pl.Series, was: SqliteColumn | None) -> list[Any]:
    """Cells that SQLite knows; it has no dates, and keeps them as text."""
    cells = to_cells(column) if was is None else was.cells.back(column)
    if column.dtype.is_temporal():
        return [None if cell is None else cell if isinstance(cell, str) else _text(cell) for cell in cells]
    return cells


def _text(moment: Any) -> str:
    return moment.isoformat(" ") if isinstance(moment, dt.datetime) else str(moment)
