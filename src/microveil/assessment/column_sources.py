"""Files as far as their columns go: in memory, larger than that, or on Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from microveil.assessment.label_columns import ColumnKinds
from microveil.core.arrays import Array
from microveil.core.table import Matrix
from microveil.io.blocks import BlockSource
from microveil.io.frames.dataframes import Frame, open_frame
from microveil.measures.labels import LabelPair
from microveil.options import Assess
from microveil.storage.disk_columns import BYTES, RemoteMatrix, Shelf

SHARE = 32
"""Of the memory allowed, one part in so many is for a batch of rows: the reader holds some, and so do conversions."""

FEWEST_ROWS, MOST_ROWS = 2**12, 2**18
"""Rows of a batch; fewer rows than the most are not worth a thread."""


class FileColumns:
    """A file that may be larger than the memory: its columns are read onto a disk, in one pass."""

    def __init__(self, source: BlockSource, shelf: Shelf, progress: Callable[[float], None]) -> None:
        self.source, self.shelf, self.progress = source, shelf, progress
        self.names, self.first = list(source.names), open_frame(source.head())

    def is_numeric(self, name: str) -> bool:
        """Does the column hold numbers?"""
        return self.source.is_numeric(name)

    def looks_numeric(self, name: str) -> bool:
        """Does a column of text look like one of numbers, by the first rows?"""
        return self.first.looks_numeric(name)

    def read(self, names: Sequence[str]) -> RemoteMatrix:
        """Some columns as doubles on a disk, NaN where a cell is missing."""
        columns = {name: self.shelf.column() for name in names}
        rows = min(max(self.shelf.memory // SHARE // (BYTES * len(columns)), FEWEST_ROWS), MOST_ROWS)
        for batch in self.source.batches(list(columns), rows):
            for name, column in columns.items():
                column.append(self.source.numbers(name, batch.column(name))[0])
            self.progress(min(column.size / self.source.count, 1.0))  # of a file of text, the rows are not known before
        return RemoteMatrix(cast(Sequence[Array], list(columns.values())), shelf=self.shelf)


class DistantColumns(Protocol):
    """A table whose rows stay far away, on Spark."""

    @property
    def names(self) -> list[str]:
        """All columns."""

    def is_numeric(self, name: str) -> bool:
        """Does the column hold numbers?"""

    def looks_numeric(self, name: str) -> bool:
        """Does a column of text look like one of numbers?"""

    def read(self, names: Sequence[str]) -> Matrix:
        """Some columns as doubles, NaN where a cell is missing."""

    def kinds(self, released: Any, asked: Assess, known: Mapping[str, str] | None) -> ColumnKinds:
        """The kinds of the columns of this file, the original; some may be known."""

    def labels(self, released: Any, names: Sequence[str]) -> LabelPair | None:
        """Columns of labels of this file and of the release."""


ColumnSource = Frame | FileColumns | DistantColumns
"""A file as far as its columns go: their names, and what is in them."""
