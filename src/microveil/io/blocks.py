"""Files that are read and written block by block, because they may be larger than the memory.

A source says which columns there are and gives some of them in order, a batch of rows at a time; a sink takes batches
of the same shape. The rows of two readings come in the same order, in batches of the same length.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import IO, Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Index
from microveil.core.late import pa, pc, pl
from microveil.io.frames.number_types import as_doubles, check_held, decimals_held, wholes_held
from microveil.io.frames.times import TimeForm

FIRST_ROWS = 10_000


class BlockSource(ABC):
    """A file of rows: its columns by name, which of them are numbers, and its rows in batches."""

    names: list[str]
    count: int
    """The rows: as the file says, or as many as its lines suggest until all have been read."""

    has_notes: bool = False
    """Did the author of the file leave notes in it?"""

    findings: Sequence[str] = ()
    """What its user should know of how it is read."""

    numeric: Collection[str]
    """The columns that hold numbers."""

    hiding: Collection[str] = ()
    """Other columns whose type holds numbers: categories, lists, records."""

    broken: Collection[str] = ()
    """Columns that begin as numbers, and go on as something else."""

    times: Mapping[str, TimeForm] = MappingProxyType({})
    """Columns of dates and times that count as numbers, and how."""

    def only(self, names: Sequence[str], times: Mapping[str, TimeForm]) -> Self:
        """The same file with some of its columns, of which those of dates and times count as numbers."""
        new = copy.copy(self)
        new.names, new.times = list(names), times
        return new

    def is_numeric(self, name: str) -> bool:
        """Does the column hold numbers?"""
        return name in self.numeric or name in self.times

    @abstractmethod
    def is_integer(self, name: str) -> bool:
        """Are the cells of a column whole numbers by their type?"""

    def typed(self, name: str, column: pa.Array) -> pa.Array | None:  # noqa: ARG002 - others read text
        """Cells in the type that the column has in the whole file; None if it is another than was known so far."""
        return column

    def hides_numbers(self, name: str) -> bool:
        """Does a column that is not one of numbers have numbers in it by its type?"""
        return name in self.hiding

    @abstractmethod
    def batches(self, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Some columns of all rows, so many rows at a time; only the last batch may be shorter."""

    def numbers(self, name: str, column: pa.Array, *, held: bool = True) -> tuple[Array, int]:
        """The cells of a column of numbers as doubles, and how many of them are missing (those are NaN).

        Unless they need not be `held`, numbers that doubles do not hold are refused.
        """
        form = self.times.get(name)
        if form is not None and not form.is_number:
            return form.steps(column), int(column.null_count)
        values, missing = self._doubles(name, column, held=held)
        return values if form is None else form.steps(pl.Series(values)), missing

    def _doubles(self, name: str, column: pa.Array, *, held: bool) -> tuple[Array, int]:
        if not held:
            pass
        elif pa.types.is_decimal(column.type):
            check_held(name, decimals_held(column))
        elif pa.types.is_integer(column.type):
            check_held(name, wholes_held(*pc.min_max(column).as_py().values()))
        cells = as_doubles(column)
        return np.asarray(cells.to_numpy(zero_copy_only=False), dtype=np.float64), int(column.null_count)

    def close(self) -> None:  # noqa: B027 - some have nothing open between readings
        """No more rows will be read."""

    @abstractmethod
    def sink(self, file: IO[bytes], changed: Mapping[str, pa.DataType | None]) -> BlockSink:
        """What writes a file of the same kind with these columns, some of them changed.

        Those get a type, or None: numbers become doubles, unless they have half or single precision.
        """

    def head(self) -> pl.DataFrame:
        """The first rows with all columns, to see what kind of columns they are."""
        return cast("pl.DataFrame", pl.from_arrow(next(self.batches(self.names, FIRST_ROWS))))


class BlockSink(ABC):
    """Writes a file of rows, batch by batch."""

    short: Mapping[str, np.dtype[Any]] = MappingProxyType({})
    """Changed columns that are stored in half or single precision, and their types."""

    @abstractmethod
    def write(self, unchanged: pa.RecordBatch | None, changed: Mapping[str, Array | pa.Array]) -> None:
        """Write the next rows: columns that are as they were, and numbers or other cells for those that changed."""

    def close(self) -> None:  # noqa: B027 - some have nothing to finish
        """No more rows will come."""


def rebatched(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of one length, whatever the lengths were: row groups end where they like."""
    waiting: list[Any] = []
    held = 0
    for batch in batches:
        start = 0
        while batch.num_rows - start >= rows - held:
            waiting.append(batch.slice(start, rows - held))
            start += rows - held
            yield pa.concat_batches(waiting)
            waiting, held = [], 0
        if start < batch.num_rows:
            waiting.append(batch.slice(start))
            held += batch.num_rows - start
    if waiting:
        yield pa.concat_batches(waiting)


class NumberedLabels:
    """The labels of a column that comes in batches, numbered as they come."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}
        self.rows: list[int] = []

    def codes(self, column: pa.Array) -> Array:
        """The numbers of the labels of some rows; a missing cell is a label of its own."""
        encoded = column.dictionary_encode(null_encoding="encode")
        labels = [None if label != label else label for label in encoded.dictionary.to_pylist()]  # NaN is not itself
        for label in labels:
            if label not in self.numbers:
                self.numbers[label] = len(self.numbers)
                self.rows.append(0)
        here = np.array([self.numbers[label] for label in labels], dtype=np.intp)
        codes: Index = here[encoded.indices.to_numpy(zero_copy_only=False)]
        for number, count in enumerate(np.bincount(codes, minlength=len(self.rows)).tolist()):
            self.rows[number] += count
        return codes.astype(np.float64)

    def ranks(self, codes: Array) -> NDArray[Any]:
        """The labels that have these numbers (rows), by their places in order, in as few bytes as hold them."""
        places = np.argsort(self.in_order()).astype(np.min_scalar_type(max(len(self.rows) - 1, 0)))
        return places[codes.astype(np.intp)]

    def in_order(self) -> list[int]:
        """The numbers in the order of their labels: numbers by size, text by its letters, missing cells last."""
        known = [label for label in self.numbers if label is not None]
        by_size = all(isinstance(label, int | float) for label in known)
        ordered = sorted(known, key=None if by_size else str)
        return [self.numbers[label] for label in (*ordered, *([None] if None in self.numbers else []))]
