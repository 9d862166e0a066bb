"""DuckDB files, by its own driver and Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from microveil.io.databases.base import ROWS, Engine, TableSource, as_written, from_text, joined, quoted
from microveil.io.frames.validation import check_shape
from microveil.io.locations import Database

if TYPE_CHECKING:
    import polars as pl

_USUAL: Final = {
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
# The same types are read as they are; the others pass as text, and are cast back.
_NATIVE: Final = frozenset(_USUAL.values())
_ELSEWHERE: Final = {**_USUAL, "Decimal": "DOUBLE", "Duration": "INTERVAL"}
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


class DuckDb(Engine):
    """A file of DuckDB."""

    name: ClassVar[str] = "duckdb"
    driver: ClassVar[str] = "duckdb"

    def _errors(self) -> tuple[type[Exception], ...]:
        import duckdb
        from pyarrow.lib import ArrowException

        return duckdb.Error, ArrowException, OSError  # rows come by way of Arrow, whose errors quote theirs

    def _reason(self, error: Exception) -> tuple[str, str]:
        return _REASONS.get(type(error).__name__, super()._reason(error))

    def _connect(self, place: Database, *, write: bool) -> Any:
        import duckdb

        return duckdb.connect(str(place.file), read_only=not write, config=_CLOSED)

    def _read(self, connection: Any, place: Database, query: str | None) -> tuple[pl.DataFrame, TableSource]:
        """Rows in the order in which they were inserted."""
        source = f"({query})" if query is not None else quoted(*place.schema_and_name)
        described = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()  # noqa: S608 - names are quoted
        kinds = {name: kind for name, kind, *_ in described}
        check_shape(place, len(kinds))
        as_text = [name for name, kind in kinds.items() if kind not in _NATIVE]
        picked = (f"CAST({quoted(n)} AS VARCHAR) AS {quoted(n)}" if n in as_text else quoted(n) for n in kinds)
        reader = connection.sql(f"SELECT {', '.join(picked)} FROM {source}").to_arrow_reader(ROWS)  # noqa: S608 - quoted
        frame = joined(reader)
        numeric = [name for name, kind in kinds.items() if kind.startswith(("DECIMAL", "HUGEINT", "UHUGEINT"))]
        return from_text(frame, kinds, as_text, numeric)

    def _insert(
        self, connection: Any, frame: pl.DataFrame, place: Database, source_format: Any, replacing: bool
    ) -> None:
        """One transaction around everything, also around making and dropping tables."""
        import polars as pl

        table = quoted(*place.schema_and_name)
        known = (source_format or TableSource()).columns
        found = [as_written(column, known.get(column.name), _ELSEWHERE) for column in frame.get_columns()]
        cells = pl.DataFrame([column for column, _ in found])
        kinds = ["DOUBLE" if kind == "numeric" else kind for _, kind in found]
        pairs = list(zip(map(quoted, cells.columns), kinds, strict=True))
        connection.execute("BEGIN TRANSACTION")
        self._make_room(connection, place, replacing=replacing)
        connection.execute(f"CREATE TABLE {table} ({', '.join(f'{name} {kind}' for name, kind in pairs)})")
        casts = ", ".join(f"CAST({name} AS {kind})" for name, kind in pairs)
        for start in range(0, cells.height, ROWS):
            batch = cells[start : start + ROWS].to_arrow(compat_level=pl.CompatLevel.oldest())
            connection.register("microveil_batch", batch)
            connection.execute(f"INSERT INTO {table} SELECT {casts} FROM microveil_batch")  # noqa: S608 - quoted
            connection.unregister("microveil_batch")

    def _commit(self, connection: Any) -> None:
        connection.execute("COMMIT")

    def _names(self, connection: Any) -> list[str]:
        found = connection.execute("SELECT table_schema, table_name FROM information_schema.tables ORDER BY 1, 2")
        return [name if schema == "main" else f"{schema}.{name}" for schema, name in found.fetchall()]
