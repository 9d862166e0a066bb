"""The shuffle of `core.shuffle` on Spark's workers, row for row the same.

Rows go to the buckets that their block's generator draws, each bucket is put in random order, and what comes out goes
to the records whose rows it belongs to. None of it depends on where the rows are, or on which worker does what.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

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


def count_buckets(shuffles: Shuffles, count: int, batches: Batches) -> Batches:
    """Sizes of the buckets of `count` rows, from blocks of them by number: they are drawn, whatever the rows are."""
    sizes = np.zeros((len(shuffles.streams), max(shuffles.buckets, 1)), dtype=np.int64)
    for batch in batches:
        for block in batch.column(0).to_pylist():
            rows = slice(block * ROWS_PER_BLOCK, min((block + 1) * ROWS_PER_BLOCK, count))
            for component, own in enumerate(sizes):
                own += np.bincount(shuffles.digits(component, rows), minlength=own.size)
    yield batch_of([[0], [0], [packed([sizes])]], SUMMARY)


def scatter_rows(layout: RecordLayout, made: Making, shuffles: Shuffles, batches: Batches) -> Batches:
    """What is `made` of the rows of records, to buckets: for each component and bucket the values of a run of rows.

    `batches` have the records' partition, place and cells. Values are in row order.
    """
    held: list[Array] = []
    first = stop = 0
    for piece in layout.pieces(batches):
        if held and (piece.rows.start != stop or stop - first >= GATHERED):
            yield from _scattered(shuffles, first, held)
            held = []
        first, stop = (first if held else piece.rows.start), piece.rows.stop
        held.append(made.made(piece))
    if held:
        yield from _scattered(shuffles, first, held)


def _scattered(shuffles: Shuffles, first: int, held: list[Array]) -> Iterator[pa.RecordBatch]:
    values = np.concatenate(held, axis=1)
    rows = slice(first, first + values.shape[1])
    for component, own in enumerate(values):
        digits = shuffles.digits(component, rows)
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


def settle_buckets(
    layout: RecordLayout,
    shuffles: Shuffles,
    starts: NDArray[np.int64],
    targets: NDArray[np.int64],
    batches: Batches,
) -> Batches:
    """Buckets in random order, cut where records end: what goes into each record, and where.

    `starts` has the row at which each bucket of each component begins, and `targets` the number that brings rows to
    each partition. Batches are sorted by component, bucket and row.
    """
    by_row = layout.by_row
    firsts = layout.first[by_row]
    rows = (row for batch in batches for row in batch.to_pylist())
    for (component, bucket), members in groupby(rows, lambda row: (row["component"], row["bucket"])):
        drawn = np.frombuffer(b"".join(row["cells"] for row in members)).copy()
        values, start = shuffles.settled(component, bucket, drawn), int(starts[component, bucket])
        begin = int(np.searchsorted(firsts, start, side="right")) - 1
        end = int(np.searchsorted(firsts, start + values.size))
        numbers, size = by_row[begin:end], end - begin
        borders = np.clip(firsts[begin:end] - start, 0, None)
        parts, nothing, empty = layout.part[numbers], np.zeros(size, dtype=np.int64), [b""] * size
        head = [targets[parts], np.full(size, component), borders + start - firsts[begin:end]]
        cells = _runs(values, [*borders.tolist(), values.size])
        yield batch_of([*head, parts, layout.at[numbers], *[nothing] * 5, cells, empty], MOVED)


def merge_columns(columns: int, batches: Batches) -> Batches:
    """Records with so many further columns. Batches are sorted by record, and begin with it."""
    names = [word.split()[0] for word in RECORD.split(", ")]
    rows = (row for batch in batches for row in batch.to_pylist())
    for _, members in groupby(rows, lambda row: (row["part"], row["at"])):
        record, *others = members
        added, filled = np.empty((columns, record["rows"])), 0
        for row in others:
            values = np.frombuffer(row["cells"])
            added[row["component"], row["offset"] : row["offset"] + values.size] = values
            filled += values.size
        if record["component"] != THE_RECORD or filled != added.size:
            raise RuntimeError("a record has not got all its permuted values")
        cells = record["cells"] + added.tobytes()
        yield batch_of([[cells if name == "cells" else record[name]] for name in names], RECORD)
