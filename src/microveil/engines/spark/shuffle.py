"""The shuffle of `core.shuffle` on Spark's workers, row for row the same.

Rows go to the buckets that their block's generator draws, each bucket is put in random order, and what comes out goes
to the records whose rows it belongs to. None of it depends on where the rows are, or on which worker does what.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.late import pa
from microveil.core.rng import ROWS_PER_BLOCK, Stream
from microveil.core.shuffle import FIRST_BUCKET, drawn_buckets, shuffle_bucket, shuffled
from microveil.engines.spark.rows import RECORD, SUMMARY, Batches, Making, RecordLayout, batch_of, packed

SCATTERED = "component int, bucket int, first long, cells binary"

MOVED = f"target long, component int, offset int, {RECORD}"
"""A record, or what comes into one; the target brings it to the partition that the record was in."""

THE_RECORD = -1
"""In the place of a component: the record itself, which comes before anything that goes into it."""

GATHERED = 131_072
"""Rows that are sorted into buckets at once, at least: a bucket should get more than a few values from them."""


@dataclass(frozen=True, repr=False)
class Shuffles:
    """Which columns are shuffled: a stream for each, and the number of buckets (0: few rows, a bucket by itself)."""

    streams: Sequence[Stream]
    buckets: int

    def digits(self, component: int, rows: slice) -> NDArray[np.uint16]:
        """The bucket of each row."""
        if self.buckets == 0:
            return np.zeros(rows.stop - rows.start, dtype=np.uint16)
        return drawn_buckets(self.streams[component], self.buckets, rows)

    def settled(self, component: int, bucket: int, values: Array) -> Array:
        """A bucket in random order."""
        if self.buckets == 0:
            return shuffled(values, self.streams[component])
        shuffle_bucket(values, self.streams[component].generator(FIRST_BUCKET + bucket))
        return values


@dataclass(frozen=True, repr=False)
class Counting:
    """Sizes of the buckets, from blocks of rows by their numbers: they are drawn, whatever the rows are."""

    shuffles: Shuffles
    count: int

    def __call__(self, batches: Batches) -> Batches:
        """One summary of all blocks at hand."""
        sizes = np.zeros((len(self.shuffles.streams), max(self.shuffles.buckets, 1)), dtype=np.int64)
        for batch in batches:
            for block in batch.column(0).to_pylist():
                rows = slice(block * ROWS_PER_BLOCK, min((block + 1) * ROWS_PER_BLOCK, self.count))
                for component, own in enumerate(sizes):
                    own += np.bincount(self.shuffles.digits(component, rows), minlength=own.size)
        yield batch_of([[0], [0], [packed({"made": sizes})]], SUMMARY)


@dataclass(frozen=True, repr=False)
class Scattering:
    """What is made of the rows, to buckets."""

    layout: RecordLayout
    made: Making
    shuffles: Shuffles

    def __call__(self, batches: Batches) -> Batches:
        """For each component and bucket the values of a run of rows, in row order."""
        held: list[Array] = []
        first = stop = 0
        for piece in self.layout.pieces(batches):
            if held and (piece.rows.start != stop or stop - first >= GATHERED):
                yield from self._scattered(first, held)
                held = []
            first, stop = (first if held else piece.rows.start), piece.rows.stop
            held.append(self.made.made(piece))
        if held:
            yield from self._scattered(first, held)

    def _scattered(self, first: int, held: list[Array]) -> Iterator[pa.RecordBatch]:
        values = np.concatenate(held, axis=1)
        rows = slice(first, first + values.shape[1])
        for component, own in enumerate(values):
            digits = self.shuffles.digits(component, rows)
            order = np.argsort(digits, kind="stable")
            buckets, starts = np.unique(digits[order], return_index=True)
            cells = _runs(own[order], [*starts.tolist(), own.size])
            size = len(buckets)
            columns = [np.full(size, component), buckets.astype(np.int32), np.full(size, first), cells]
            yield batch_of(columns, SCATTERED)


def _runs(values: Array, borders: Sequence[int]) -> pa.Array:
    """Runs of values as an array of bytes, without copying them one by one."""
    offsets = pa.py_buffer((np.asarray(borders) * 8).astype(np.int32))
    return pa.BinaryArray.from_buffers(pa.binary(), len(borders) - 1, [None, offsets, pa.py_buffer(values)])


@dataclass(frozen=True, repr=False)
class Settling:
    """Buckets in random order, cut where records end. Batches are sorted by component, bucket and row."""

    layout: RecordLayout
    shuffles: Shuffles
    starts: NDArray[np.int64]
    """The row at which each bucket of each component begins."""

    targets: NDArray[np.int64]

    def __call__(self, batches: Batches) -> Batches:
        """What goes into each record, and where."""
        rows = (row for batch in batches for row in batch.to_pylist())
        for (component, bucket), members in groupby(rows, lambda row: (row["component"], row["bucket"])):
            values = np.frombuffer(b"".join(row["cells"] for row in members)).copy()
            settled = self.shuffles.settled(component, bucket, values)
            yield self._to_records(component, int(self.starts[component, bucket]), settled)

    def _to_records(self, component: int, start: int, values: Array) -> pa.RecordBatch:
        by_row = self.layout.by_row
        firsts = self.layout.first[by_row]
        begin = int(np.searchsorted(firsts, start, side="right")) - 1
        end = int(np.searchsorted(firsts, start + values.size))
        numbers = by_row[begin:end]
        borders = np.clip(firsts[begin:end] - start, 0, None)
        cells = _runs(values, [*borders.tolist(), values.size])
        size = len(numbers)
        offsets = borders + start - firsts[begin:end]
        parts, nothing, empty = self.layout.part[numbers], np.zeros(size, dtype=np.int64), [b""] * size
        head = [self.targets[parts], np.full(size, component), offsets]
        place = [parts, self.layout.at[numbers]]
        return batch_of([*head, *place, *[nothing] * 5, cells, empty], MOVED)


@dataclass(frozen=True, repr=False)
class Merging:
    """Records with what goes into them as further columns. Batches are sorted by record, and begin with it."""

    columns: int

    def __call__(self, batches: Batches) -> Batches:
        """The records with their new columns."""
        rows = (row for batch in batches for row in batch.to_pylist())
        for _, members in groupby(rows, lambda row: (row["part"], row["at"])):
            yield self._merged(members)

    def _merged(self, members: Iterator[dict[str, Any]]) -> pa.RecordBatch:
        record = next(members)
        size = record["rows"]
        added, filled = np.empty((self.columns, size)), 0
        for row in members:
            values = np.frombuffer(row["cells"])
            added[row["component"], row["offset"] : row["offset"] + values.size] = values
            filled += values.size
        if record["component"] != THE_RECORD or filled != added.size:
            raise RuntimeError("a record has not got all its permuted values")
        cells = record["cells"] + added.tobytes()
        names = [word.split()[0] for word in RECORD.split(", ")]
        return batch_of([[cells if name == "cells" else record[name]] for name in names], RECORD)
