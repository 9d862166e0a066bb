"""DuckDB files, by its own driver and Arrow."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Final

from microveil.core.late import duckdb, pa, pl
from microveil.io.databases.base import STAGED, ArrowEngine, arrow_batches
from microveil.io.locations import Database

_SAME: Final = {
    "Int8": "TINYINT",
    "Int16": "SMALLINT",
    "Int32": "INTEGER",
    "Int64": "BIGINT",
    "UInt8": "UTINYINT",
    "UInt16": "USMALLINT",
    "UInt32": "UINTEGER",
    "UInt64": "UBIGINT",
    "Float32": "FLOAT",
    "Float64": "DOUBLE",
    "Boolean": "BOOLEAN",
    "String": "VARCHAR",
    "Binary": "BLOB",
    "Date": "DATE",
    "Datetime": "TIMESTAMP",
    "Time": "TIME",
}
# Nothing is loaded from the network, and a query reaches no other file.
_CLOSED: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_access": "false",
}

_CELL: Final = ("a cell is not of the type that the query or the table says", "leave the cast out, or use TRY_CAST")
_REASONS: Final = {
    "BinderException": ("the query names a column that is not there, or asks for what it cannot", "check its names"),
    "CatalogException": ("the query names a table or function that is not there", "check its names"),
    "ParserException": ("the query is no SELECT", "write one, without anything after it"),
    "PermissionException": ("a query can only read this database", "leave out what reaches beyond it"),
    "IOException": ("it is no database of DuckDB, or in use by another program", "check the file"),
    "ConversionException": _CELL,
    "OutOfRangeException": _CELL,
    "InvalidInputException": _CELL,
    "ArrowInvalid": _CELL,
    "OSError": _CELL,
}
"""Why something failed, by the kind of the error: the words of DuckDB itself quote cells."""


class DuckDb(ArrowEngine):
    """A file of DuckDB."""

    name: ClassVar[str] = "duckdb"
    driver: ClassVar[str] = "duckdb"
    types: ClassVar[Mapping[str, str]] = {**_SAME, "Decimal": "DOUBLE", "Duration": "INTERVAL"}
    native: ClassVar[Collection[str]] = frozenset(_SAME.values())
    exact: ClassVar[tuple[str, ...]] = ("DECIMAL", "HUGEINT", "UHUGEINT")

    def _errors(self) -> tuple[type[Exception], ...]:
        return duckdb.Error, pa.ArrowException, OSError  # rows come by way of Arrow, whose errors quote theirs

    def _reason(self, error: Exception) -> tuple[str, str]:
        return _REASONS.get(type(error).__name__, super()._reason(error))

    def _connect(self, place: Database, *, write: bool) -> Any:
        return duckdb.connect(str(place.file), read_only=not write, config=_CLOSED)

    def _kinds(self, connection: Any, source: str, place: Database | None) -> tuple[dict[str, str], dict[str, str]]:  # noqa: ARG002 - both are one
        described = self._execute(connection, f"DESCRIBE SELECT * FROM {source}")  # noqa: S608 - names are quoted
        kinds = {name: kind for name, kind, *_ in described}
        return kinds, kinds

    def _fetch(self, connection: Any, query: str) -> pa.Table:
        return connection.sql(query).to_arrow_table()

    def _begin(self, connection: Any) -> None:
        connection.execute("BEGIN TRANSACTION")

    def _copy(self, connection: Any, cells: pl.DataFrame, insert: str) -> None:
        connection.register(STAGED, arrow_batches(cells))
        connection.execute(insert)
        connection.unregister(STAGED)

    def _names(self, connection: Any) -> list[str]:
        found = self._execute(
            connection, "SELECT table_schema, table_name FROM information_schema.tables ORDER BY 1, 2"
        )
        return [name if schema == "main" else f"{schema}.{name}" for schema, name in found]
