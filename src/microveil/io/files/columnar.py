"""Parquet, as a whole or block by block, and Arrow and Feather, whose unchanged columns come back in their types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError, FileError
from microveil.core.late import pa, pl, pq
from microveil.io.blocks import BlockSink, BlockSource, rebatched
from microveil.io.files import formats
from microveil.io.frames.number_types import arrow_hides_numbers
from microveil.io.frames.validation import check_shape
from microveil.storage.atomic import shown, system_errors


@dataclass(frozen=True, kw_only=True)
class ParquetFormat(formats.FileFormat):
    """What pandas notes in a file (which column is its index), and the types of the columns it is about."""

    pandas: bytes | None = field(default=None, repr=False)
    schema: Mapping[str, Any] = field(default_factory=dict, repr=False)


class Parquet(formats.Format):
    """Columns of any type, nested ones included."""

    name: ClassVar[str] = "parquet"
    default: ClassVar[ParquetFormat] = ParquetFormat()

    def read(self, path: Path, read_options: formats.ReadOptions) -> tuple[pl.DataFrame, ParquetFormat]:
        """The table; it knows its types itself."""
        formats.needs("pyarrow", path)
        schema = _check_schema(path)
        frame = _read_parquet(path)
        pandas, notes = (None, {}) if schema is None else formats.split_notes(schema)
        return frame, ParquetFormat(pandas=pandas, schema=dict(frame.schema), notes=notes)

    def write(self, frame: pl.DataFrame, path: Path, like: ParquetFormat, *, shown_as: Path) -> None:
        """Write with zstd, which every reader of today knows and which is far smaller than the older default."""
        pandas = None if dict(frame.schema) != like.schema else like.pandas
        notes = {**({} if pandas is None else {b"pandas": pandas}), **like.notes}
        with path.open("wb") as file:
            if not notes:
                frame.write_parquet(file, compression="zstd")
                return
            # Polars has no place for such notes where pandas looks for them.
            table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
            pq.write_table(table.replace_schema_metadata(notes), file, compression="zstd")


def _check_schema(path: Path) -> pa.Schema | None:
    """The schema at the end of a file, which says how large it is; None if it is damaged, as its reader will find."""
    with suppress(pa.ArrowException):
        about = pq.read_metadata(path)
        check_shape(path, about.num_columns, about.num_columns * about.num_rows, size=path.stat().st_size)
        schema = about.schema.to_arrow_schema()
        formats.check_unique(schema.names, path)
        return schema
    return None


def _read_parquet(path: Path) -> pl.DataFrame:
    """By polars, which keeps types of its own that Arrow does not know."""
    frame = None
    # A file, not its name: polars reads '*' and '[' in names as patterns.
    with path.open("rb") as file, suppress(pl.exceptions.PolarsError, pl.exceptions.PanicException):
        frame = pl.read_parquet(file)
    # Raised out here, so that the error polars gave, which may quote the data, is not even its context.
    if frame is None:
        raise FileError(f"{shown(path)} is not a Parquet file, or is damaged", "write it again, or read a .csv")
    if frame.is_empty():
        raise DataError(f"{shown(path)} has no rows", "check that it is the right file")
    return frame


BUFFER = 2**20
"""Bytes of a column that are read ahead; the whole of a row group may be larger than the memory."""


class ParquetBlocks(BlockSource):
    """A Parquet file."""

    def __init__(self, path: Path, read_options: formats.ReadOptions) -> None:
        formats.check_options((), read_options, "Parquet files")
        found = None
        with system_errors("read", path), suppress(pa.ArrowException):
            found = pq.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER)
        if found is None:
            raise FileError(f"{shown(path)} is not a Parquet file, or is damaged", "write it again")
        self.file, self.schema = found, found.schema_arrow
        self.names = list(self.schema.names)
        self.pandas, notes = formats.split_notes(self.schema)
        self.has_notes = bool(notes)
        check_shape(path, len(self.names))
        formats.check_unique(self.names, path)
        self.count = found.metadata.num_rows
        if not self.count:
            raise DataError(f"{shown(path)} has no rows", "check that it is the right file")
        kinds = {field.name: field.type for field in self.schema}
        tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
        self.numeric = {name for name, kind in kinds.items() if any(test(kind) for test in tests)}
        self.hiding = {name for name, kind in kinds.items() if arrow_hides_numbers(kind)} - self.numeric

    def is_integer(self, name: str) -> bool:
        """Are the cells of a column whole numbers by their type?"""
        return bool(pa.types.is_integer(self.schema.field(name).type))

    def batches(self, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Some columns of all rows, so many rows at a time."""
        read = self.file.iter_batches(batch_size=rows, columns=list(names), use_threads=True)
        return rebatched(read, rows)

    def sink(self, file: IO[bytes], changed: Mapping[str, pa.DataType | None]) -> BlockSink:
        """What writes a Parquet file of the same kind."""
        return _ParquetSink(file, self, changed)

    def close(self) -> None:
        """No more rows will be read."""
        self.file.close()


class _ParquetSink(BlockSink):
    """The schema of the source, but whole numbers and decimals become doubles; half and single precision stay."""

    def __init__(self, file: IO[bytes], like: ParquetBlocks, changed: Mapping[str, pa.DataType | None]) -> None:
        numbers = [name for name, kind in changed.items() if kind is None]
        fields = [
            field.with_type(changed.get(field.name) or _stored_as(field.type, changed=field.name in numbers))
            for field in map(like.schema.field, like.names)
        ]
        # Of notes on the whole file only that of pandas is known to hold none of its cells; it is about all columns.
        plain = [field.remove_metadata() for field in fields]
        noted = None if like.pandas is None or len(plain) < len(like.schema) else {b"pandas": like.pandas}
        self.schema = pa.schema(plain, noted)
        kinds = {name: self.schema.field(name).type for name in numbers}
        self.short = {name: kind.to_pandas_dtype() for name, kind in kinds.items() if kind != pa.float64()}
        codec = like.file.metadata.row_group(0).column(0).compression
        # Released numbers hardly ever repeat: a dictionary of them would be made in vain.
        repeating = [name for name in like.names if name not in changed]
        self.writer = pq.ParquetWriter(
            file,
            self.schema,
            compression="none" if codec == "UNCOMPRESSED" else codec.lower(),
            use_dictionary=repeating or False,
        )

    def write(self, unchanged: pa.RecordBatch | None, changed: Mapping[str, Array | pa.Array]) -> None:
        """Write the next rows."""
        columns = {} if unchanged is None else dict(zip(unchanged.schema.names, unchanged.columns, strict=True))
        for name, values in changed.items():
            kind = self.schema.field(name).type
            if isinstance(values, np.ndarray):
                columns[name] = pa.array(values.astype(kind.to_pandas_dtype()), from_pandas=False)
            else:
                columns[name] = values.cast(kind)
        batch = pa.RecordBatch.from_arrays([columns[name] for name in self.schema.names], schema=self.schema)
        self.writer.write_batch(batch, row_group_size=max(batch.num_rows, 1))

    def close(self) -> None:
        """No more rows will come."""
        self.writer.close()


def _stored_as(kind: pa.DataType, *, changed: bool) -> pa.DataType:
    return kind if not changed or pa.types.is_floating(kind) else pa.float64()


@dataclass(frozen=True, kw_only=True)
class ArrowFormat(formats.FileFormat):
    """What pandas notes. Columns are kept as Arrow has them and as the methods see them.

    Notes are by column; those on the table are under no name.
    """

    pandas: bytes | None = field(default=None, repr=False)


class Arrow(formats.Format):
    """The file format of Arrow, which Feather is another name for."""

    name: ClassVar[str] = "arrow"
    default: ClassVar[ArrowFormat] = ArrowFormat()

    def read(self, path: Path, read_options: formats.ReadOptions) -> tuple[pl.DataFrame, ArrowFormat]:
        """Columns of any type, nested ones included."""
        formats.needs("pyarrow", path)
        table = _read_arrow(path)
        formats.check_unique(table.column_names, path)
        frame = pl.DataFrame(pl.from_arrow(table))
        formats.check_table(frame, path)
        columns = {name: (table.schema.field(name), table.column(name), frame[name]) for name in table.column_names}
        pandas, whole = formats.split_notes(table.schema)
        notes = {field.name: field.metadata for field in table.schema if field.metadata} | (
            {None: whole} if whole else {}
        )
        return frame, ArrowFormat(columns=columns, pandas=pandas, notes=notes)

    def write(self, frame: pl.DataFrame, path: Path, like: ArrowFormat, *, shown_as: Path) -> None:
        """Write, compressed as Feather files are; in an .arrow file as it is, to be mapped into memory."""
        formats.needs("pyarrow", shown_as)
        found = [_field_and_cells(column, like.columns.get(column.name)) for column in frame.get_columns()]
        fields = [kind.with_metadata(like.notes.get(kind.name)) for kind, _ in found]
        before = {name: seen.dtype for name, (_, _, seen) in like.columns.items()}
        same = dict(frame.schema) == before  # what pandas notes is about the types, too
        noted = {b"pandas": like.pandas} if like.pandas is not None and same else {}
        schema = pa.schema(fields, metadata={**noted, **like.notes.get(None, {})})
        table = pa.table([cells for _, cells in found], schema=schema)
        options = pa.ipc.IpcWriteOptions(compression="lz4" if shown_as.suffix.lower() == ".feather" else None)
        with path.open("wb") as file, pa.ipc.new_file(file, table.schema, options=options) as writer:
            writer.write_table(table)


def _read_arrow(path: Path) -> Any:
    """The table, whichever of the three formats of Arrow it is in."""
    with path.open("rb") as file:
        content = pa.py_buffer(file.read())
    for opened in (pa.ipc.open_file, pa.ipc.open_stream):
        try:
            source = opened(content)
            check_shape(path, len(source.schema))
            return source.read_all()
        except (pa.ArrowException, OSError):  # its errors may quote the data
            continue
    raise FileError(f"{shown(path)} is not an Arrow file, or is damaged", "write it again, or as a .parquet file")


def _field_and_cells(column: pl.Series, was: tuple[Any, Any, pl.Series] | None) -> tuple[Any, Any]:
    """A column for Arrow: the very one it was, if nothing has changed, else in the type it had."""
    cells = column.to_arrow(compat_level=pl.CompatLevel.oldest())
    if was is None:
        return pa.field(column.name, cells.type), cells
    kind, original, seen = was
    if formats.same_cells(column, seen):
        return kind, original
    if column.dtype == seen.dtype:
        with suppress(pa.ArrowException):  # a dictionary of another width
            return kind, cells.cast(kind.type)
    return pa.field(column.name, cells.type), cells
