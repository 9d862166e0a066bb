"""Databases as the tests have them, each asked by its own driver, and the table that is put into them."""

import datetime as dt
import sqlite3
import traceback
from pathlib import Path

import duckdb
import pytest
from postgres import PASSWORD, name

SENTINEL = "SECRET81234"


ROWS = [
    (1, 1500.5, "Ann", "10.50", True, dt.date(2020, 1, 31)),
    (2, None, "Bé", "0.05", False, None),
    (3, -2.25, None, None, None, dt.date(1999, 12, 31)),
    (4, 0.1, "", "12345678.90", True, dt.date(2024, 2, 29)),
    (5, 7.0, SENTINEL, "3.00", False, dt.date(2024, 3, 1)),
]


COLUMNS = {
    "id": "integer",
    "income": "double precision",
    "na me": "text",
    "price": "numeric(10,2)",
    "ok": "boolean",
    "day": "date",
}


class Sqlite:
    """A file of SQLite, by its own driver."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "firms.db"
        self.address = f"sqlite:///{self.file}"

    def run(self, statement: str, rows=()):
        with sqlite3.connect(self.file) as connection:
            cells = [[cell.isoformat() if isinstance(cell, dt.date) else cell for cell in row] for row in rows]
            found = connection.executemany(statement, cells) if rows else connection.execute(statement)
            result = found.fetchall()
        connection.close()
        return result

    def types(self, table: str) -> list[tuple[str, str]]:
        return [(name, kind) for _, name, kind, *_ in self.run(f'PRAGMA table_info("{table}")')]


class DuckDb:
    """A file of DuckDB, by its own driver."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "firms.duckdb"
        self.address = f"duckdb:///{self.file}"

    def run(self, statement: str, rows=()):
        with duckdb.connect(str(self.file)) as connection:
            if rows:
                connection.executemany(statement, [list(row) for row in rows])
                return []
            return connection.execute(statement).fetchall()

    def types(self, table: str) -> list[tuple[str, str]]:
        return [(name, kind) for name, kind, *_ in self.run(f'DESCRIBE "{table}"')]


class PostgreSql:
    """A real server, asked by statements of our own."""

    def __init__(self, address: str) -> None:
        self.address = address

    def run(self, statement: str, rows=()):
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(self.address) as connection, connection.cursor() as cursor:
            for row in rows or [None]:
                cursor.execute(statement if row is None else _filled(statement, row))
            found = cursor.fetchall() if cursor.description else []
            connection.commit()
        return found

    def types(self, table: str) -> list[tuple[str, str]]:
        return self.run(
            "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute "
            f"WHERE attrelid = to_regclass('\"{table}\"') AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        )


def _filled(statement: str, row) -> str:
    def literal(cell) -> str:
        return "NULL" if cell is None else "'" + str(cell).replace("'", "''") + "'"

    return statement[: statement.index("VALUES")] + f"VALUES ({', '.join(map(literal, row))})"


def table(base, rows=ROWS) -> str:
    """A new table with the rows."""
    made = name()
    base.run(f'CREATE TABLE "{made}" ({", ".join(f"{quoted(n)} {kind}" for n, kind in COLUMNS.items())})')
    base.run(f'INSERT INTO "{made}" VALUES (?, ?, ?, ?, ?, ?)', rows)
    return made


def quoted(text: str) -> str:
    return f'"{text}"'


def refused(kind, action) -> str:
    """The message of an error, which holds no data and no password, not even in its traceback."""
    with pytest.raises(kind) as caught:
        action()
    error = caught.value
    assert "\n" not in str(error)
    assert error.hint
    chain = error
    while chain is not None:
        assert SENTINEL not in "".join(traceback.format_exception_only(chain))
        assert PASSWORD not in "".join(traceback.format_exception_only(chain))
        chain = chain.__cause__ or chain.__context__
    return str(error)
