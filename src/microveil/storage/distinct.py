"""Counts of different rows, by hashes that go to a disk where they do not fit."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microveil.core.late import pl
from microveil.storage.disk_columns import BYTES, DiskColumn, Shelf

WORDS = 3
"""Of an entry: two halves of a hash, and how often it occurred."""

COPIES = 4
"""Of what is held while it is counted."""

MOST_BUCKETS = 128
"""Each is an open file."""


class DistinctCounter:
    """Counts different rows of tables that come in parts; `rows` are to be expected, and `room` is in bytes."""

    def __init__(self, shelf: Shelf, rows: int, room: int) -> None:
        self.shelf = shelf
        self.keys = [secrets.randbits(64) for _ in range(2)]
        self.most = max(room // (WORDS * BYTES * COPIES), 1_000)
        needed = -(-rows // self.most)
        self.bits = min((needed - 1).bit_length(), MOST_BUCKETS.bit_length() - 1) if needed > 1 else 0
        self.held: Any = None
        self.buckets: list[DiskColumn] = []

    def add(self, cells: pl.DataFrame) -> None:
        """Count some more rows."""
        first, second = (cells.hash_rows(seed=key) for key in self.keys)
        new = pl.DataFrame({"a": first, "b": second}).group_by("a", "b").agg(n=pl.len().cast(pl.UInt64))
        self.held = new if self.held is None else _together(pl.concat([self.held, new]))
        if self.held.height > self.most:
            self._spread()

    def counts(self) -> tuple[int, int]:
        """How many are different, and how many of these occurred once."""
        if self.buckets and self.held is not None:
            self._spread()
        parts = [] if self.held is None else [self.held]
        different = single = 0
        for part in parts or map(self._gathered, self.buckets):
            different += part.height
            single += int((part["n"] == 1).sum())
        return different, single

    def _spread(self) -> None:
        """What is held goes to the buckets that its first bits name."""
        entries = np.ascontiguousarray(self.held.select("a", "b", "n").to_numpy())
        digits = entries[:, 0] >> np.uint64(64 - self.bits) if self.bits else np.zeros(len(entries), dtype=np.uint64)
        order = np.argsort(digits, kind="stable")
        ends = np.cumsum(np.bincount(digits.astype(np.intp), minlength=2**self.bits))
        self.buckets = self.buckets or [self.shelf.column() for _ in ends]
        for bucket, rows in zip(self.buckets, np.split(order, ends[:-1]), strict=True):
            bucket.append(entries[rows].reshape(-1).view(np.float64))
        self.held = None

    def _gathered(self, bucket: DiskColumn) -> pl.DataFrame:
        words: NDArray[np.uint64] = bucket[:].view(np.uint64)
        bucket.close()
        return _together(pl.DataFrame(words.reshape(-1, WORDS), schema=["a", "b", "n"]))


def _together(entries: pl.DataFrame) -> pl.DataFrame:
    return entries.group_by("a", "b").agg(pl.col("n").sum())
