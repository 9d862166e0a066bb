"""Columns of numbers on a disk, in files that have no name, and tables of them.

A file without a name is readable by nobody else, and the system gives its space back when the process ends, however it
ends: there is nothing to clean up after a crash. Reading and writing go through the system's cache, which is not part
of the process: what it holds in memory are the pieces it works on. (DuckDB and polars would sort and count as well, but
spill into files with names; pages of a memory map count as the process's own, and a full disk kills it.)
"""

from __future__ import annotations

import os
import re
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from microveil.core.arrays import Array, give_memory_back
from microveil.core.errors import FileError, ParameterError
from microveil.core.sorted_columns import pieces_of
from microveil.core.table import Matrix
from microveil.core.threads import worker_count
from microveil.storage.atomic import NO_SPACE, shown

BYTES = 8
ROWS_AT_ONCE = 65_536
"""Rows that are read at once where a whole column is gone through."""

SINGLE, TURNED = 4, 512
"""Bytes of a feature; and rows whose features are turned at once from one feature after the other to one row after the
other: they stay in the cache."""


class _NamelessFile:
    """A file without a name: unlinked at once, or never named where the system can do that; gone with its owner."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - it lives as long as its owner
        self._handle = self._file.fileno()

    def close(self) -> None:
        """Give the space back."""
        self._file.close()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self.close()

    def _write(self, place: int, values: NDArray[Any]) -> None:
        """Put numbers into the file, at a place in bytes."""
        left = np.ascontiguousarray(values).data.cast("B")
        try:
            while left:
                written = os.pwrite(self._handle, left, place)
                left, place = left[written:], place + written
        except OSError as error:
            hint = "free some space, or choose another folder with MICROVEIL_TEMPORARY"
            why = "is full" if error.errno in NO_SPACE else "cannot be written to"
            raise FileError(f"the folder for temporary files, {shown(self.folder)}, {why}", hint) from None

    def _fill(self, place: int, values: NDArray[Any]) -> None:
        """Fill an array with numbers of the file, from a place in bytes on."""
        left = values.data.cast("B")
        while left:
            count = os.preadv(self._handle, [left], place)
            if count == 0:
                raise FileError("a temporary file has lost its end", "check the disk, and try again")
            left, place = left[count:], place + count


class DiskColumn(_NamelessFile, NDArrayOperatorsMixin):
    """A column of numbers in a file of its own; some rows are an array, as with an array's slices.

    A formula of columns reads the whole of them, and gives an array.
    """

    dtype, ndim = np.dtype(np.float64), 1

    def __init__(self, rows: int, folder: Path) -> None:
        super().__init__(folder)
        self.shape, self.size = (rows,), rows

    def __len__(self) -> int:
        return self.size

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self[:] if dtype is None else self[:].astype(dtype, copy=False)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """What numpy makes of whole columns."""
        read = [given[:] if isinstance(given, DiskColumn) else given for given in inputs]
        return getattr(ufunc, method)(*read, **options)

    def __getitem__(self, rows: slice | NDArray[Any]) -> Array:
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self.size)
            return self._read(start, stop) if step == 1 else self._gathered(np.arange(start, stop, step))
        return self._gathered(np.flatnonzero(rows) if rows.dtype == bool else rows)

    def __setitem__(self, rows: slice, values: Array) -> None:
        start, stop, _ = rows.indices(self.size)
        self.write(start, np.broadcast_to(values, stop - start))

    def write(self, start: int, values: Array) -> None:
        """Put values into the rows from `start` on."""
        self._write(start * BYTES, values)

    def append(self, values: Array) -> None:
        """Put values after the last row."""
        self.write(self.size, values)
        self.size += values.size
        self.shape = (self.size,)

    def pieces(self) -> Iterator[Array]:
        """The whole column, a piece at a time."""
        for start in range(0, self.size, ROWS_AT_ONCE):
            yield self._read(start, min(start + ROWS_AT_ONCE, self.size))

    def copy(self) -> Array:
        """The whole column."""
        return self[:]

    def std(self) -> float:
        """The standard deviation."""
        return float(self[:].std())

    def max(self) -> float:
        """The largest value."""
        return max(float(piece.max()) for piece in self.pieces())

    def min(self) -> float:
        """The least value."""
        return min(float(piece.min()) for piece in self.pieces())

    def _read(self, start: int, stop: int) -> Array:
        values = np.empty(max(stop - start, 0))
        self._fill(start * BYTES, values)
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


class DiskFeatures(_NamelessFile):
    """Features of rows (rows x features, in single precision) in a file without a name, one feature after the other.

    They come in parts of whole blocks of rows, and a feature of all rows is an array, as with an array's columns. The
    file is gone with the last reference to it.
    """

    def __init__(self, rows: int, width: int, folder: Path) -> None:
        super().__init__(folder)
        self.shape = rows, width

    def __getitem__(self, where: tuple[slice, int]) -> NDArray[np.float32]:
        values = np.empty(self.shape[0], np.float32)
        self._fill(self._place(where[1], 0), values)
        return values

    def __setitem__(self, where: tuple[slice, int], values: Array | NDArray[np.float32] | float) -> None:
        every = np.broadcast_to(np.asarray(values, np.float32), self.shape[0])
        self._write(self._place(where[1], 0), every)

    def parts(self, starts: NDArray[np.int64] | None = None) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """The first row of each part, and its features.

        With the `starts` of blocks (and the number of rows), parts are of whole blocks, whose features may change
        meanwhile, and are kept so.
        """
        rows = self.shape[0]
        # A short rest goes with the part before.
        cuts = np.append(np.arange(0, max(rows - ROWS_AT_ONCE // 2, 1), ROWS_AT_ONCE), rows)
        cuts = cuts if starts is None else np.unique(starts[np.searchsorted(starts, cuts)])
        spans = list(pairwise(cuts.tolist()))
        # While one part is worked on, the next one is read, and the one before is written.
        with ThreadPoolExecutor(1) as beside:
            coming, written = beside.submit(self._turned, *spans[0]), None
            for number, (first, _) in enumerate(spans):
                part = coming.result()
                if number + 1 < len(spans):
                    coming = beside.submit(self._turned, *spans[number + 1])
                yield first, part
                if written is not None:
                    written.result()
                written = None if starts is None else beside.submit(self._put_back, first, part)
            if written is not None:
                written.result()

    def _turned(self, first: int, last: int) -> NDArray[np.float32]:
        """The features of some rows, rows x features."""
        across = np.empty((self.shape[1], last - first), np.float32)
        part = np.empty(across.shape[::-1], np.float32)
        for feature, values in enumerate(across):
            self._fill(self._place(feature, first), values)
        for start in range(0, len(part), TURNED):
            part[start : start + TURNED] = across[:, start : start + TURNED].T
        return part

    def _put_back(self, first: int, part: NDArray[np.float32]) -> None:
        """Write the features of some rows (rows x features)."""
        across = np.empty(part.shape[::-1], np.float32)
        for start in range(0, len(part), TURNED):
            across[:, start : start + TURNED] = part[start : start + TURNED].T
        for feature, values in enumerate(across):
            self._write(self._place(feature, first), values)

    def shorten(self, width: int) -> None:
        """Give back the space of all features but so many, the first ones."""
        self.shape = self.shape[0], width
        os.ftruncate(self._handle, self._place(width, 0))

    def _place(self, feature: int, row: int) -> int:
        """Where a cell is, in bytes."""
        return (feature * self.shape[0] + row) * SINGLE


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


class ColumnMadeAgain:
    """A column that is made again whenever it is read: what others on the disk tell takes no room beside them."""

    def __init__(self, make: Callable[[], Array]) -> None:
        self.make = make

    def __getitem__(self, rows: slice) -> Array:
        return self.make()[rows]


class Shelf(ExitStack):
    """Makes columns on a disk, and says how much memory their user may take.

    The space of a column is given back with the last reference to it, and at the end that of all.
    """

    def __init__(self, folder: Path, memory: int) -> None:
        super().__init__()
        self.folder, self.memory = folder, memory

    def column(self, rows: int = 0) -> DiskColumn:
        """A new column of so many rows, with nothing in them yet."""
        column = DiskColumn(rows, self.folder)
        self.callback(_closed, weakref.ref(column))
        return column


def _closed(column: weakref.ref[DiskColumn]) -> None:
    """Give the space of a column back, if it is still there."""
    left = column()
    if left is not None:
        left.close()


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


SHARE = 2
"""Of the memory allowed, columns that are sorted at once take one part in so many; there may be one for each thread."""

FEW = 4
"""Of fewer than one row in so many, columns are not read whole."""

PIVOTS = 100_000
"""Cells, evenly spaced, that the borders of the buckets of a larger column are taken from."""


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class RemoteMatrix(Matrix):
    """Columns on a disk. What was found in all rows is kept, so that no pass is made twice."""

    shelf: Shelf

    def select(self, columns: Sequence[int]) -> RemoteMatrix:
        """Some of the columns, in the order given; what has been sorted is not sorted again."""
        found = replace(self, columns=[self.columns[j] for j in columns])
        for k, j in enumerate(columns):
            before = ("in order", j), id(None)
            if before in self.kept:
                found.kept[("in order", k), id(None)] = self.kept[before]
        return found

    def put_aside(self, column: Array) -> Array:
        """A column that stands beside these, on the disk too; its space is given back with the last reference."""
        out = self.shelf.column(column.size)
        out.write(0, column)
        give_memory_back()
        return cast(Array, out)

    def made_when_read(self, make: Callable[[], Array]) -> Array:
        """A column beside these that is made of them whenever it is read, and takes no room."""
        return cast(Array, ColumnMadeAgain(make))

    def room_for_features(self, count: int, width: int) -> DiskFeatures:
        """Room for so many features of so many rows."""
        return DiskFeatures(count, width, self.shelf.folder)

    def with_columns(self, columns: Sequence[Array]) -> RemoteMatrix:
        """Other columns of the same rows; arrays among them are put aside."""
        held = [self.put_aside(column) if isinstance(column, np.ndarray) else column for column in columns]
        return RemoteMatrix(held, shelf=self.shelf)

    def take(self, rows: NDArray[Any]) -> RemoteMatrix:
        """Some of the rows, copied, a column at a time."""
        few = rows.size < self.shape[0] // FEW
        return self.with_columns([self.put_aside(column[rows] if few else column[:][rows]) for column in self.columns])

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
