"""Tables on a disk as the measures see them: what was found in all rows is kept, so that no pass is made twice."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import numpy as np

from microveil.core.arrays import Array
from microveil.core.sorted_columns import pieces_of
from microveil.core.table import Matrix
from microveil.core.threads import worker_count
from microveil.storage.disk_columns import BYTES, DiskColumn, Shelf

Answer = TypeVar("Answer")

SHARE = 2
"""Of the memory allowed, columns that are sorted at once take one part in so many; there may be one for each thread."""

PIVOTS = 100_000
"""Cells, evenly spaced, that the borders of the buckets of a larger column are taken from."""


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class RemoteMatrix(Matrix):
    """Columns on a disk."""

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
