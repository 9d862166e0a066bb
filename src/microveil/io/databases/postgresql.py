"""PostgreSQL by ADBC, which speaks Arrow with the server and copies rows in binary form."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from microveil.core.late import pa, pl
from microveil.io.databases.base import STAGED, ArrowEngine, arrow_batches, quoted
from microveil.io.locations import Database

_TYPES: Final = {
    "Int8": "smallint",
    "Int16": "smallint",
    "Int32": "integer",
    "Int64": "bigint",
    "UInt8": "smallint",
    "UInt16": "integer",
    "UInt32": "bigint",
    "UInt64": "numeric(20,0)",
    "Float32": "real",
    "Float64": "double precision",
    "Decimal": "numeric",
    "Boolean": "boolean",
    "String": "text",
    "Binary": "bytea",
    "Date": "date",
    "Datetime": "timestamp",
    "Time": "time",
    "Duration": "interval",
}
# What Arrow calls types that the driver does not name.
_NUMBERS: Final = {
    "bool": "bool",
    "int16": "int2",
    "int32": "int4",
    "int64": "int8",
    "float": "float4",
    "double": "float8",
}
_ARROW_NAMES: Final = _NUMBERS | {"string": "text", "large_string": "text", "binary": "bytea", "date32[day]": "date"}
# Types of polars that the driver does not know, and what it sends for them.
_WIDER: Final = {"Int8": "Int16", "UInt8": "Int16", "UInt16": "Int32", "UInt32": "Int64", "UInt64": "String"}
_WAIT: Final = "10"  # seconds for a server that does not answer
_REASONS: Final = {
    "28": ("the server refused the user or the password", "check the address, PGPASSWORD or ~/.pgpass"),
    "3D": ("there is no such database", "check the address"),
    "42501": ("permission denied", "ask for the rights on it"),
    "25006": ("the query wants to change something", "give a query that only reads"),
    "42": ("the statement was refused", "check the table and the query"),
    "53": ("the server has no room", "free some space on the server"),
    "2BP01": ("other objects depend on the table", "name another table"),
    "57": ("the server stopped the work", "try again"),
    "08": ("the connection was lost", "try again"),
}


class PostgreSql(ArrowEngine):
    """A table on a server."""

    name: ClassVar[str] = "postgresql"
    driver: ClassVar[str] = "adbc_driver_postgresql"
    types: ClassVar[Mapping[str, str]] = _TYPES
    native: ClassVar[Collection[str]] = frozenset(
        {"bool", "int2", "int4", "int8", "float4", "float8", "text", "varchar", "bpchar", "bytea", "date", "timestamp"}
    )
    exact: ClassVar[tuple[str, ...]] = ("numeric",)

    def _errors(self) -> type[Exception]:
        import adbc_driver_manager

        return adbc_driver_manager.Error

    def _reason(self, error: Exception) -> tuple[str, str]:
        state = getattr(error, "sqlstate", None) or ""
        for length in (5, 2):
            if state[:length] in _REASONS:
                return _REASONS[state[:length]]
        if not state:
            return "the server cannot be reached, or refused the connection", "check the address and the password"
        return f"SQLSTATE {state}", "check the table and the query"

    def _connect(self, place: Database, *, write: bool) -> Any:
        from adbc_driver_postgresql import dbapi

        connection = dbapi.connect(_with_wait(place.address))
        try:
            if not write:
                self._execute(connection, "SET TRANSACTION READ ONLY")
            # Rows in the order in which they are stored: no joining in half-way, no workers side by side.
            self._execute(connection, "SET LOCAL synchronize_seqscans = off")
            self._execute(connection, "SET LOCAL max_parallel_workers_per_gather = 0")
        except BaseException:
            connection.close()
            raise
        return connection

    def _execute(self, connection: Any, statement: str) -> list[Any]:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    def _kinds(self, connection: Any, source: str, place: Database | None) -> tuple[dict[str, str], dict[str, str]]:
        """The declared type is the full one, such as numeric(10,2)."""
        schema = self._fetch(connection, f"SELECT * FROM {source} LIMIT 0").schema  # noqa: S608 - quoted
        kinds = {field.name: _typname(field) for field in schema}
        if place is None:
            return kinds, kinds
        declared = self._execute(
            connection,
            "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute "  # noqa: S608 - a literal
            f"WHERE attrelid = {_regclass(place)} AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        )
        return kinds, dict(declared)

    def _fetch(self, connection: Any, query: str) -> pa.Table:
        with connection.cursor() as cursor:
            return cursor.execute(query).fetch_arrow_table()

    def _copy(self, connection: Any, cells: pl.DataFrame, insert: str) -> None:
        """By a temporary table, from which the server casts every column into its type."""
        kinds = [_WIDER.get(str(column.dtype)) for column in cells.get_columns()]
        cells = cells.with_columns(
            column.cast(getattr(pl, kind)) for column, kind in zip(cells.get_columns(), kinds, strict=True) if kind
        )
        with connection.cursor() as cursor:
            cursor.adbc_ingest(STAGED, arrow_batches(cells), mode="create", temporary=True)
        self._execute(connection, insert)
        self._execute(connection, f"DROP TABLE pg_temp.{STAGED}")

    def _commit(self, connection: Any) -> None:
        connection.commit()

    def _names(self, connection: Any) -> list[str]:
        found = self._execute(
            connection,
            "SELECT table_schema, table_name FROM information_schema.tables "
            "WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2",
        )
        return [name if schema == "public" else f"{schema}.{name}" for schema, name in found]

    def _has(self, connection: Any, place: Database) -> bool:
        """As the server finds it: a name without a schema is looked for along its path."""
        return bool(self._execute(connection, f"SELECT {_regclass(place)} IS NOT NULL")[0][0])


def _regclass(place: Database) -> str:
    """The table in a statement about it, or NULL if there is none."""
    name = quoted(*place.schema_and_name).replace("'", "''")
    return f"to_regclass('{name}')"


def _typname(field: Any) -> str:
    """What the server calls a type: the driver says so where Arrow has no type for it."""
    noted = (field.metadata or {}).get(b"ADBC:postgresql:typname")
    if noted is not None:
        return str(noted.decode())
    if isinstance(field.type, pa.BaseExtensionType):
        return str(getattr(field.type, "type_name", "other"))
    if pa.types.is_timestamp(field.type):
        return "timestamptz" if field.type.tz else "timestamp"
    return _ARROW_NAMES.get(str(field.type), "other")


def _with_wait(address: str) -> str:
    """The address with a limit on the time to connect, if it says none."""
    parts = urlsplit(address)
    said = parse_qsl(parts.query, keep_blank_values=True)
    if "connect_timeout" not in dict(said):
        said.append(("connect_timeout", _WAIT))
    return urlunsplit(parts._replace(query=urlencode(said)))
