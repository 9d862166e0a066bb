"""PostgreSQL by ADBC, which speaks Arrow with the server and copies rows in binary form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from microveil.io.databases.base import ROWS, Engine, TableSource, already_there, as_written, from_text, joined, quoted
from microveil.io.frames.validation import check_shape
from microveil.io.locations import Database

if TYPE_CHECKING:
    import polars as pl

# Types that Arrow and polars have as well; the others pass as text, and are cast back by the server.
_NATIVE: Final = frozenset(
    {"bool", "int2", "int4", "int8", "float4", "float8", "text", "varchar", "bpchar", "bytea", "date", "timestamp"}
)
_USUAL: Final = {
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
_STAGED: Final = "microveil_staged"
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


class PostgreSql(Engine):
    """A table on a server."""

    name: ClassVar[str] = "postgresql"
    driver: ClassVar[str] = "adbc_driver_postgresql"

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
            with connection.cursor() as cursor:
                if not write:
                    cursor.execute("SET TRANSACTION READ ONLY")
                # Rows in the order in which they are stored: no joining in half-way, no workers side by side.
                cursor.execute("SET LOCAL synchronize_seqscans = off")
                cursor.execute("SET LOCAL max_parallel_workers_per_gather = 0")
        except BaseException:
            connection.close()
            raise
        return connection

    def _read(self, connection: Any, place: Database, query: str | None) -> tuple[pl.DataFrame, TableSource]:
        """Rows as the server gives them; a query says its order itself."""
        source = f"({query}) AS asked" if query is not None else quoted(*place.schema_and_name)
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {source} LIMIT 0")  # noqa: S608 - names are quoted
            schema = cursor.fetch_arrow_table().schema
            check_shape(place, len(schema))
            short = {field.name: _typname(field) for field in schema}
            kinds = short if query is not None else self._declared(cursor, place)
            as_text = [name for name, kind in short.items() if kind not in _NATIVE]
            picked = (f"{quoted(n)}::text AS {quoted(n)}" if n in as_text else quoted(n) for n in short)
            cursor.execute(f"SELECT {', '.join(picked)} FROM {source}")  # noqa: S608 - names are quoted
            frame = joined(cursor.fetch_record_batch())
        return from_text(frame, kinds, as_text, [name for name, kind in short.items() if kind == "numeric"])

    def _insert(
        self, connection: Any, frame: pl.DataFrame, place: Database, source_format: Any, replacing: bool
    ) -> None:
        """By a temporary table, from which the server casts every column into its type."""
        import polars as pl

        table = quoted(*place.schema_and_name)
        known = (source_format or TableSource()).columns
        found = [as_written(column, known.get(column.name), _USUAL) for column in frame.get_columns()]
        cells = pl.DataFrame([column for column, _ in found])
        pairs = [(quoted(name), kind) for name, (_, kind) in zip(cells.columns, found, strict=True)]
        with connection.cursor() as cursor:
            self._make_room(connection, place, replacing=replacing)
            cursor.adbc_ingest(_STAGED, _batches(cells), mode="create", temporary=True)
            cursor.execute(f"CREATE TABLE {table} ({', '.join(f'{name} {kind}' for name, kind in pairs)})")
            casts = ", ".join(f"{name}::{kind}" for name, kind in pairs)
            cursor.execute(f"INSERT INTO {table} SELECT {casts} FROM pg_temp.{_STAGED}")  # noqa: S608 - quoted
            cursor.execute(f"DROP TABLE pg_temp.{_STAGED}")

    def _commit(self, connection: Any) -> None:
        connection.commit()

    def _names(self, connection: Any) -> list[str]:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT table_schema, table_name FROM information_schema.tables "
                "WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2"
            )
            return [name if schema == "public" else f"{schema}.{name}" for schema, name in cursor.fetchall()]

    def _has(self, connection: Any, place: Database) -> bool:
        """As the server finds it: a name without a schema is looked for along its path."""
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT to_regclass({_literal(quoted(*place.schema_and_name))}) IS NOT NULL")
            return bool(cursor.fetchone()[0])

    def _make_room(self, connection: Any, place: Database, *, replacing: bool) -> None:
        """Drop the old table, if that was asked for; the server refuses if a view depends on it."""
        if self._has(connection, place):
            if not replacing:
                raise already_there(place)
            with connection.cursor() as cursor:
                cursor.execute(f"DROP TABLE {quoted(*place.schema_and_name)}")

    def _declared(self, cursor: Any, place: Database) -> dict[str, str]:
        """The types of the columns with everything that was declared, such as numeric(10,2)."""
        table = _literal(quoted(*place.schema_and_name))
        cursor.execute(
            "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute "  # noqa: S608 - a literal
            f"WHERE attrelid = to_regclass({table}) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        )
        return dict(cursor.fetchall())


def _typname(field: Any) -> str:
    """What the server calls a type: the driver says so where Arrow has no type for it."""
    import pyarrow as pa

    noted = (field.metadata or {}).get(b"ADBC:postgresql:typname")
    if noted is not None:
        return str(noted.decode())
    if isinstance(field.type, pa.BaseExtensionType):
        return str(getattr(field.type, "type_name", "other"))
    arrow = {"bool": "bool", "int16": "int2", "int32": "int4", "int64": "int8", "float": "float4", "double": "float8"}
    plain = {**arrow, "string": "text", "large_string": "text", "binary": "bytea", "date32[day]": "date"}
    if pa.types.is_timestamp(field.type):
        return "timestamptz" if field.type.tz else "timestamp"
    return plain.get(str(field.type), "other")


def _batches(cells: pl.DataFrame) -> Any:
    """The rows as Arrow sends them, some at a time."""
    import polars as pl
    import pyarrow as pa

    # The driver has no such types.
    wider: dict[Any, Any] = {
        pl.Int8: pl.Int16,
        pl.UInt8: pl.Int16,
        pl.UInt16: pl.Int32,
        pl.UInt32: pl.Int64,
        pl.UInt64: pl.String,
    }
    cells = cells.with_columns(column.cast(wider.get(column.dtype, column.dtype)) for column in cells.get_columns())
    oldest = pl.CompatLevel.oldest()
    slices = (cells[start : start + ROWS].to_arrow(compat_level=oldest) for start in range(0, cells.height, ROWS))
    schema = cells.clear().to_arrow(compat_level=oldest).schema
    return pa.RecordBatchReader.from_batches(schema, (batch for part in slices for batch in part.to_batches()))


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _with_wait(address: str) -> str:
    """The address with a limit on the time to connect, if it says none."""
    parts = urlsplit(address)
    said = parse_qsl(parts.query, keep_blank_values=True)
    if "connect_timeout" not in dict(said):
        said.append(("connect_timeout", _WAIT))
    return urlunsplit(parts._replace(query=urlencode(said)))
