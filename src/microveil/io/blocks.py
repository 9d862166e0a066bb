"""Files that are read and written block by block, because they may be larger than the memory.

A source says which columns there are and gives some of them in order, a batch of rows at a time; a sink takes batches
of the same shape. The rows of two readings come in the same order, in batches of the same length.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.errors import DataError, FileError
from microveil.io.files.formats import ReadOptions, check_options, plain_pandas_note
from microveil.io.frames.number_types import arrow_hides_numbers, as_doubles, check_held, decimals_held, wholes_held
from microveil.io.frames.validation import check_shape
from microveil.storage.atomic import cannot, shown

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

BUFFER = 2**20
"""Bytes of a column that are read ahead; the whole of a row group may be larger than the memory."""


FIRST_ROWS = 10_000


class BlockSource(ABC):
    """A file of rows: its columns by name, which of them are numbers, and its rows in batches."""

    names: list[str]
    count: int
    """The rows: as the file says, or as its lines let expect until all have been read."""

    has_notes: bool = False
    """Has whoever made the file noted something in it?"""

    @abstractmethod
    def is_numeric(self, name: str) -> bool:
        """Does the column hold numbers?"""

    @abstractmethod
    def is_integer(self, name: str) -> bool:
        """Does the column hold whole numbers by its type?"""

    def hides_numbers(self, name: str) -> bool:  # noqa: ARG002 - text holds none
        """Does a column that is not one of numbers have numbers in it by its type?"""
        return False

    @abstractmethod
    def batches(self, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Some columns of all rows, so many rows at a time; only the last batch may be shorter."""

    def numbers(self, name: str, column: pa.Array) -> tuple[Array, int]:
        """The cells of a column of numbers as doubles, and how many of them are missing (those are NaN)."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if pa.types.is_decimal(column.type):
            check_held(name, decimals_held(column))
        elif pa.types.is_integer(column.type):
            check_held(name, wholes_held(*pc.min_max(column).as_py().values()))
        cells = as_doubles(column)
        return np.asarray(cells.to_numpy(zero_copy_only=False), dtype=np.float64), int(column.null_count)

    @abstractmethod
    def close(self) -> None:
        """No more rows will be read."""

    @abstractmethod
    def sink(self, file: IO[bytes], changed: Sequence[str]) -> BlockSink:
        """What writes a file of the same kind: the same columns, some of them with other values."""

    def head(self) -> pl.DataFrame:
        """The first rows with all columns, to see what kind of columns they are."""
        import polars as pl

        first = next(self.batches(self.names, FIRST_ROWS))
        return cast("pl.DataFrame", pl.from_arrow(first))


class BlockSink(ABC):
    """Writes a file of rows, batch by batch."""

    short: Mapping[str, np.dtype[Any]] = MappingProxyType({})
    """Changed columns that are stored in half or single precision, and their types."""

    @abstractmethod
    def write(self, unchanged: pa.RecordBatch | None, changed: Mapping[str, Array]) -> None:
        """Write the next rows: columns that are as they were, and new values for the others."""

    @abstractmethod
    def close(self) -> None:
        """No more rows will come."""


def open_blocks(path: Path, read_options: ReadOptions | None = None) -> BlockSource:
    """A file to be read in blocks."""
    kind = SOURCES.get(path.suffix.lower())
    if kind is None:
        raise FileError(f"{shown(path)} cannot be read block by block", "use a .parquet file, or engine='memory'")
    return kind(path, read_options or ReadOptions())


class ParquetBlocks(BlockSource):
    """A Parquet file."""

    def __init__(self, path: Path, read_options: ReadOptions) -> None:
        from pyarrow import ArrowException
        from pyarrow import parquet as pq

        check_options((), read_options, "Parquet files")
        self.path = path
        found = None
        try:
            found = pq.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER)
        except OSError as error:
            raise cannot("read", path, error) from None
        except ArrowException:
            pass
        if found is None:
            raise FileError(f"{shown(path)} is not a Parquet file, or is damaged", "write it again")
        self.file = found
        self.schema = found.schema_arrow
        self.names = list(self.schema.names)
        noted = self.schema.metadata or {}
        pandas = {b"pandas": plain_pandas_note(noted.get(b"pandas"))}
        self.has_notes = any(note != pandas.get(key) for key, note in noted.items())
        check_shape(path, len(self.names))
        if len(set(self.names)) < len(self.names):
            raise DataError(f"{shown(path)} repeats column names", "rename them apart")
        self.count = found.metadata.num_rows
        if not self.count:
            raise DataError(f"{shown(path)} has no rows", "check that it is the right file")

    def is_numeric(self, name: str) -> bool:
        """Does the column hold numbers?"""
        from pyarrow import types

        kind = self.schema.field(name).type
        return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))

    def hides_numbers(self, name: str) -> bool:
        """Are there numbers in a dictionary, a list or a record?"""
        return arrow_hides_numbers(self.schema.field(name).type) and not self.is_numeric(name)

    def is_integer(self, name: str) -> bool:
        """Does the column hold whole numbers by its type?"""
        from pyarrow import types

        return bool(types.is_integer(self.schema.field(name).type))

    def batches(self, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Some columns of all rows, so many rows at a time."""
        read = self.file.iter_batches(batch_size=rows, columns=list(names), use_threads=True)
        return rebatched(read, rows)

    def sink(self, file: IO[bytes], changed: Sequence[str]) -> BlockSink:
        """What writes a Parquet file of the same kind."""
        return _ParquetSink(file, self, changed)

    def close(self) -> None:
        """No more rows will be read."""
        self.file.close()

    def codec(self) -> str:
        """How the columns are compressed: as the first one is."""
        first = self.file.metadata.row_group(0).column(0).compression
        return "none" if first == "UNCOMPRESSED" else str(first).lower()


class _ParquetSink(BlockSink):
    """The schema of the source, but for whole numbers that become decimals."""

    def __init__(self, file: IO[bytes], like: ParquetBlocks, changed: Sequence[str]) -> None:
        import pyarrow as pa
        from pyarrow import parquet as pq

        fields = [field.with_type(_stored_as(field.type)) if field.name in changed else field for field in like.schema]
        # Of notes on the whole file only that of pandas is known to hold none of its cells.
        note = plain_pandas_note((like.schema.metadata or {}).get(b"pandas"))
        plain = [field.remove_metadata() for field in fields]
        self.schema = pa.schema(plain, None if note is None else {b"pandas": note})
        kinds = {name: self.schema.field(name).type for name in changed}
        self.short = {name: kind.to_pandas_dtype() for name, kind in kinds.items() if kind != pa.float64()}
        # Released numbers hardly ever repeat: a dictionary of them would be made in vain.
        repeating = [name for name in like.names if name not in changed]
        self.writer = pq.ParquetWriter(file, self.schema, compression=like.codec(), use_dictionary=repeating or False)

    def write(self, unchanged: pa.RecordBatch | None, changed: Mapping[str, Array]) -> None:
        """Write the next rows."""
        import pyarrow as pa

        arrays = [
            pa.array(changed[field.name].astype(field.type.to_pandas_dtype()), from_pandas=False)
            if field.name in changed
            else _known(unchanged).column(field.name)
            for field in self.schema
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        self.writer.write_batch(batch, row_group_size=max(batch.num_rows, 1))

    def close(self) -> None:
        """No more rows will come."""
        self.writer.close()


def _known(batch: pa.RecordBatch | None) -> pa.RecordBatch:
    if batch is None:
        raise TypeError("columns that stay as they are must be given")
    return batch


def _stored_as(kind: pa.DataType) -> pa.DataType:
    """The type of a protected column: half and single precision stay, all other numbers become doubles."""
    import pyarrow as pa

    return kind if pa.types.is_floating(kind) else pa.float64()


def rebatched(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of one length, whatever the lengths were: row groups end where they like."""
    waiting: list[Any] = []
    held = 0
    for batch in batches:
        start = 0
        while batch.num_rows - start >= rows - held:
            waiting.append(batch.slice(start, rows - held))
            start += rows - held
            yield _in_one(waiting)
            waiting, held = [], 0
        if start < batch.num_rows:
            waiting.append(batch.slice(start))
            held += batch.num_rows - start
    if waiting:
        yield _in_one(waiting)


def _in_one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    import pyarrow as pa

    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _csv(path: Path, read_options: ReadOptions) -> BlockSource:
    from microveil.io.files.csv_blocks import CsvBlocks

    return CsvBlocks(path, read_options)


SOURCES: dict[str, Callable[[Path, ReadOptions], BlockSource]] = {
    ".parquet": ParquetBlocks,
    ".pq": ParquetBlocks,
    ".csv": _csv,
    ".tsv": _csv,
    ".txt": _csv,
}


class Labels:
    """The labels of a column that comes in batches, numbered as they come."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}
        self.rows: list[int] = []

    def codes(self, column: pa.Array) -> Array:
        """The numbers of the labels of some rows; a missing cell is a label of its own."""
        encoded = column.dictionary_encode(null_encoding="encode")
        labels = encoded.dictionary.to_pylist()
        for label in labels:
            if label not in self.numbers:
                self.numbers[label] = len(self.numbers)
                self.rows.append(0)
        here = np.array([self.numbers[label] for label in labels], dtype=np.intp)
        codes: NDArray[np.intp] = here[encoded.indices.to_numpy(zero_copy_only=False)]
        for number, count in enumerate(np.bincount(codes, minlength=len(self.rows)).tolist()):
            self.rows[number] += count
        return codes.astype(np.float64)

    def in_order(self) -> list[int]:
        """The numbers in the order of their labels: numbers by size, text by its letters, missing cells last."""
        known = [label for label in self.numbers if label is not None]
        by_size = all(isinstance(label, int | float) for label in known)
        ordered = sorted(known, key=None if by_size else str)
        return [self.numbers[label] for label in (*ordered, *([None] if None in self.numbers else []))]
