"""Columns of numbers on a disk, in files that have no name; and tables of them, as the measures see them.

A file without a name is readable by nobody else, and the system gives its space back when the process ends, however it
ends: there is nothing to clean up after a crash. Reading and writing go through the system's cache, which is not part
of the process: what it holds in memory are the pieces it works on. (DuckDB and polars would sort and count as well, but
spill into files with names; pages of a memory map count as the process's own, and a full disk kills it.)
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.errors import FileError, ParameterError
from microveil.core.sorted_columns import pieces_of
from microveil.core.table import Matrix
from microveil.core.threads import worker_count
from microveil.storage.atomic import NO_SPACE, shown

BYTES = 8
ROWS_AT_ONCE = 65_536
"""Rows that are read at once where a whole column is gone through."""


class DiskColumn:
    """A column of numbers in a file of its own; some rows are an array, as with an array's slices."""

    def __init__(self, rows: int, folder: Path) -> None:
        self.shape, self.size = (rows,), rows
        self.folder = folder
        # The file is unlinked at once, or has never had a name where the system can do that.
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - it lives as long as the column
        self._handle = self._file.fileno()

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, rows: slice | NDArray[Any]) -> Array:
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self.size)
            return self._read(start, stop) if step == 1 else self._gathered(np.arange(start, stop, step))
        return self._gathered(np.flatnonzero(rows) if rows.dtype == bool else rows)

    def write(self, start: int, values: Array) -> None:
        """Put values into the rows from `start` on."""
        left = np.ascontiguousarray(values).data.cast("B")
        place = start * BYTES
        try:
            while left:
                written = os.pwrite(self._handle, left, place)
                left, place = left[written:], place + written
        except OSError as error:
            hint = "free some space, or choose another folder with MICROVEIL_TEMPORARY"
            why = "is full" if error.errno in NO_SPACE else "cannot be written to"
            raise FileError(f"the folder for temporary files, {shown(self.folder)}, {why}", hint) from None

    def close(self) -> None:
        """Give the space back."""
        self._file.close()

    def append(self, values: Array) -> None:
        """Put values after the last row."""
        self.write(self.size, values)
        self.size += values.size
        self.shape = (self.size,)

    def pieces(self) -> Iterator[Array]:
        """The whole column, a piece at a time."""
        for start in range(0, self.size, ROWS_AT_ONCE):
            yield self._read(start, min(start + ROWS_AT_ONCE, self.size))

    def max(self) -> float:
        """The largest value."""
        return max(float(piece.max()) for piece in self.pieces())

    def min(self) -> float:
        """The least value."""
        return min(float(piece.min()) for piece in self.pieces())

    def _read(self, start: int, stop: int) -> Array:
        values = np.empty(max(stop - start, 0))
        left = values.data.cast("B")
        place = start * BYTES
        while left:
            count = os.preadv(self._handle, [left], place)
            if count == 0:
                raise FileError("a temporary file has lost its end", "check the disk, and try again")
            left, place = left[count:], place + count
        return values

    def _gathered(self, rows: NDArray[Any]) -> Array:
        """Some rows in any order, read in the order of the file."""
        out = np.empty(rows.size)
        order = np.argsort(rows, kind="stable")
        ascending = rows[order]
        for start in range(0, self.size, ROWS_AT_ONCE):
            first, last = np.searchsorted(ascending, [start, start + ROWS_AT_ONCE])
            if first < last:
                piece = self._read(start, min(start + ROWS_AT_ONCE, self.size))
                out[order[first:last]] = piece[ascending[first:last] - start]
        return out


class LabelColumn:
    """1 in the rows with some label, 0 in the others; of labels that are on a disk by their numbers."""

    def __init__(self, codes: DiskColumn, code: int) -> None:
        self.codes, self.code = codes, code
        self.shape, self.size = codes.shape, codes.size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, rows: slice | NDArray[Any]) -> Array:
        here: Array = (self.codes[rows] == self.code).astype(np.float64)
        return here


def on_disk(columns: Sequence[DiskColumn | LabelColumn]) -> Matrix:
    """Columns on a disk as a matrix, whose pieces are read as those of arrays are."""
    return Matrix(cast(Sequence[Array], columns))


class Shelf(ExitStack):
    """Makes columns on a disk and lets go of them all; and says how much memory their user may take."""

    def __init__(self, folder: Path, memory: int) -> None:
        super().__init__()
        self.folder, self.memory = folder, memory

    def column(self, rows: int = 0) -> DiskColumn:
        """A new column of so many rows, with nothing in them yet."""
        return self.enter_context(closing(DiskColumn(rows, self.folder)))


UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
LEAST_MEMORY = 10**8
"""Below this, Python and its libraries alone take more."""


def memory_in_bytes(memory: int | str) -> int:
    """`1GB`, `800 MB` or a number of bytes."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?b?)\s*", str(memory).lower())
    unit = found[2].upper() if found else ""
    unit = unit if unit.endswith("B") or not unit else f"{unit}B"
    size = int(float(found[1]) * UNITS[unit]) if found else 0
    if isinstance(memory, bool) or size < LEAST_MEMORY:
        raise ParameterError("memory: must be at least 100MB", "write it as 800MB or 1GB")
    return size


def temporary_folder(file: Path | None) -> Path:
    """Where temporary columns go: `MICROVEIL_TEMPORARY`, or that of `file`, or where the system has its own."""
    folder = os.environ.get("MICROVEIL_TEMPORARY", "").strip()
    if folder:
        if not Path(folder).is_dir():
            raise FileError(f"MICROVEIL_TEMPORARY: there is no folder {shown(folder)}", "create it, or unset it")
        return Path(folder)
    return Path(tempfile.gettempdir()) if file is None else file.resolve().parent


Answer = TypeVar("Answer")

SHARE = 2
"""Of the memory allowed, columns that are sorted at once take one part in so many; there may be one for each thread."""

PIVOTS = 100_000
"""Cells, evenly spaced, that the borders of the buckets of a larger column are taken from."""


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class RemoteMatrix(Matrix):
    """Columns on a disk. What was found in all rows is kept, so that no pass is made twice."""

    shelf: Shelf
    kept: dict[Hashable, Any] = field(default_factory=dict)

    def remember(self, what: Hashable, make: Callable[[], Answer]) -> Answer:
        """What is made of all rows: made once."""
        if what not in self.kept:
            self.kept[what] = make()
        return cast(Answer, self.kept[what])

    def select(self, columns: Sequence[int]) -> RemoteMatrix:
        """Some of the columns, in the order given; what has been sorted is not sorted again."""
        sorted_before = {k: self.kept["in order", j] for k, j in enumerate(columns) if ("in order", j) in self.kept}
        kept: dict[Hashable, Any] = {("in order", k): cells for k, cells in sorted_before.items()}
        return replace(self, columns=[self.columns[j] for j in columns], kept=kept)

    def in_order(self, column: int) -> Array:
        """The cells of a column that are there in ascending order, on the disk too."""
        return self.remember(("in order", column), lambda: sorted_on_disk(self.columns[column], self.shelf))


def sorted_on_disk(column: Array, shelf: Shelf) -> Array:
    """A column in ascending order without its missing cells: sorted at once, or in buckets if it is large."""
    out = shelf.column()
    if column.size * BYTES <= _room(shelf):
        _append_sorted(out, [column[:]])
    else:
        _sort_in_buckets(column, out, shelf)
    return cast(Array, out)


def _room(shelf: Shelf) -> int:
    """Bytes that a thread may sort at once."""
    return max(shelf.memory // (SHARE * worker_count()), BYTES)


def _append_sorted(out: DiskColumn, cells: list[Array]) -> None:
    values = cells.pop()  # the only reference: what is sorted is not held twice
    values.sort()  # missing cells go to the end
    out.append(values[: values.size - int(np.count_nonzero(np.isnan(values)))])


def _sort_in_buckets(column: Array, out: DiskColumn, shelf: Shelf) -> None:
    """Buckets between pivots, each sorted by itself. Cells that equal a pivot are a bucket that needs no sorting."""
    step = max(column.size // PIVOTS, 1)
    some = np.concatenate([piece[::step] for piece in pieces_of(column)])
    some = np.sort(some[~np.isnan(some)])
    count = -(-column.size * BYTES * 2 // _room(shelf))
    pivots = np.unique(some[(np.arange(1, count) * some.size) // count]) if some.size else some
    buckets = [shelf.column() for _ in range(2 * pivots.size + 1)]
    for piece in pieces_of(column):
        there = piece[~np.isnan(piece)]
        digits = np.searchsorted(pivots, there, "left") + np.searchsorted(pivots, there, "right")
        for digit, bucket in enumerate(buckets):
            bucket.append(there[digits == digit])
    for digit, bucket in enumerate(buckets):
        if digit % 2:
            for piece in bucket.pieces():
                out.append(piece)
        else:
            _append_sorted(out, [bucket[:]])
        bucket.close()
