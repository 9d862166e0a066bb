"""The streaming engine: a file read once onto a disk table, protected there, and written batch by batch.

Tables on a disk are permuted with buckets in files, put in order a column at a time, and all else is piece by piece.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.fewest_records import pulled_in
from microveil.core.late import pa
from microveil.core.rng import ROWS_PER_BLOCK, Stream, Streams, row_blocks
from microveil.core.shuffle import FIRST_BUCKET, SMALL, bucket_count, drawn_buckets, shuffle_bucket, shuffled
from microveil.core.table import LabelColumns, RowMap
from microveil.core.threads import in_threads, rows_per_piece, worker_count
from microveil.engines.out_of_core import RemoteOutcome, RemoteTable, stored_columns
from microveil.engines.rows import Progress
from microveil.engines.scores import ShareDone
from microveil.intake.model_matrix import MOST_LEVELS, check_levels, check_rare, check_room
from microveil.intake.roles import Roles
from microveil.intake.sources import (
    BatchedSource,
    Cells,
    ReadTable,
    check_count,
    check_simple_roles,
    has_missing,
    scaled_weights,
)
from microveil.io.blocks import BlockSource, NumberedLabels
from microveil.io.frames.surveyed import plain_cells
from microveil.restore import Marginals
from microveil.storage.disk_columns import BYTES, DiskColumn, LabelColumn, RemoteMatrix, Shelf


@dataclass(frozen=True, repr=False)
class FileSource(BatchedSource[BlockSource]):
    """A file that is read block by block; the columns that are needed go onto a disk."""

    shelf: Shelf
    progress: Progress = lambda *_: None
    pull_in: bool = False
    """Are records far out in public columns or weights pulled in? As for a frame."""

    whole_columns: bool = False
    """Are columns read whole, one at a time, so that cells may be missing and rules be found?"""

    @property
    def in_memory(self) -> bool:
        """Can cells be missing, and whole columns be searched?"""
        return self.whole_columns

    def number_batches(self, names: Sequence[str]) -> Iterator[Cells]:
        """Some columns of numbers, as many rows at a time as the memory allows."""
        for batch in self.opened.batches(list(names), batch_rows(len(self.names), self.shelf.memory)):
            yield {name: self.opened.numbers(name, batch.column(name), held=False)[0] for name in names}

    def read(self, roles: Roles) -> ReadTable:
        """The columns with a role on a disk, but for public ones that are constant."""
        check_simple_roles(roles)
        factors = [product[0] for product in roles.public.products]
        numbers = [factor.column for factor in factors if not factor.labels]
        labels = [factor.column for factor in factors if factor.labels]
        weight = [] if roles.weight is None else [roles.weight]
        columns, varying, found = self._read([*numbers, *roles.confidential, *weight], [*labels, *roles.labels])
        check_count(self.count)
        indicators: list[tuple[str, LabelColumn]] = []
        for name in labels:
            check_levels("public", [name], len(found[name].rows))
            check_rare("public", name, np.array(found[name].rows))
            # The first label follows from the others, all 0.
            indicators += [(name, LabelColumn(columns[name], code)) for code in found[name].in_order()[1:]]
        check_room(self.count, "public", len(numbers) + len(indicators))
        numbers = [name for name in numbers if name in varying]
        chosen: list[Any] = [*(columns[name] for name in numbers), *(column for _, column in indicators)]
        weights = None if roles.weight is None else scaled_weights(roles.weight, columns[roles.weight][:])
        rare: dict[str, int] = {}
        if self.pull_in and weights is not None:
            (weights,), heavy = pulled_in([weights], None)
            weights /= weights.mean()
            rare |= {"heavy": heavy} if heavy else {}
        if self.pull_in and chosen:
            chosen, far = pulled_in([column[:] for column in chosen], weights)
            rare |= {"far": far} if far else {}
        names = [*numbers, *(name for name, _ in indicators)]
        if not names and not roles.confidential:  # labels alone: a column of ones says how many rows there are
            names, chosen = ["1"], [np.ones(self.count)]
        chosen += [columns[name] for name in roles.confidential]
        values = RemoteMatrix((), shelf=self.shelf).with_columns(chosen)
        codes = {name: found[name].ranks(columns[name][:]) for name in roles.labels}
        blanks = tuple(int(codes[name].max()) if None in found[name].numbers else None for name in roles.labels)
        table = DiskTable(
            values,
            (*names, *roles.confidential),
            len(names),
            weights,
            labels=LabelColumns(roles.labels, tuple(codes.values()), blanks),
            shelf=self.shelf,
        )
        return ReadTable(table, {number: ("public", name) for number, name in enumerate(numbers)}, rare=rare)

    def _read(
        self, names: Sequence[str], labels: Sequence[str]
    ) -> tuple[dict[str, DiskColumn], set[str], dict[str, NumberedLabels]]:
        """Columns on a disk (labels by their numbers), the names of those that vary, and the labels."""
        source, columns = self.opened, {name: self.shelf.column() for name in (*names, *labels)}
        first: dict[str, float] = {}
        varying: set[str] = set()
        found = {name: NumberedLabels() for name in labels}
        for batch in source.batches(list(columns), batch_rows(len(columns), self.shelf.memory)):
            for name in names:
                numbers, missing = source.numbers(name, batch.column(name))
                if missing and not self.in_memory:
                    raise has_missing(name)
                columns[name].append(numbers)
                if numbers.size and name not in varying and (numbers != first.setdefault(name, numbers[0])).any():
                    varying.add(name)
            for name in labels:
                columns[name].append(found[name].codes(self._typed(name, batch)))
                if not self.in_memory and len(found[name].rows) > MOST_LEVELS:
                    check_levels("public", [name], len(found[name].rows))
            self.progress("reading the file", 0.15 * min(columns[next(iter(columns))].size / source.count, 1.0))
        pa.default_memory_pool().release_unused()
        return columns, varying, found

    def _typed(self, name: str, batch: pa.RecordBatch) -> pa.Array:
        """The cells of labels in the type that the column has in the whole file."""
        cells = self.opened.typed(name, batch.column(name))
        return plain_cells(batch.column(name) if cells is None else cells)

    def cells_of_labels(self, names: Sequence[str], codes: Mapping[str, NDArray[Any]]) -> dict[str, pa.Array]:
        """For each column of labels a cell of each level, as the file has them, in the order of their numbers."""
        first = {name: np.unique(codes[name], return_index=True)[1] for name in names}
        found: dict[str, list[Any]] = {name: [None] * first[name].size for name in names}
        start = 0
        for batch in self.opened.batches(list(names), batch_rows(len(names), self.shelf.memory)) if names else ():
            for name in names:
                for level in np.flatnonzero((first[name] >= start) & (first[name] < start + batch.num_rows)).tolist():
                    found[name][level] = plain_cells(batch.column(name).slice(first[name][level] - start, 1))
            start += batch.num_rows
        return {name: pa.concat_arrays(cells) for name, cells in found.items()}


Seen = TypeVar("Seen")

SHARE = 4
"""Of the memory allowed, one part in so many is for the rows at hand; the rest is for readers, writers and threads."""


MOST_ROWS = 2**20
"""Rows of a batch at most: more would make no difference to anything but the memory."""


def batch_rows(width: int, memory: int) -> int:
    """Rows of a batch of so many columns: whole blocks, as the memory (in bytes) allows."""
    rows = memory // SHARE // (BYTES * max(width, 1)) // 2
    return int(min(max(rows // ROWS_PER_BLOCK, 1) * ROWS_PER_BLOCK, MOST_ROWS))


@dataclass(frozen=True, repr=False)
class DiskTable(RemoteTable):
    """A table on a disk."""

    shelf: Shelf = field(kw_only=True)

    def permuted(self, of: RowMap, streams: Sequence[Stream], report: ShareDone) -> DiskTable:
        """The table with further columns: what is made of the rows, each column of it in a random order."""
        if self.count > SMALL:
            return self.with_columns(self._permuted_in_buckets(of, streams, report))
        columns = self.stored(of, len(streams), lambda share: report(share / 2))
        for column, stream in zip(columns, streams, strict=True):
            column.write(0, shuffled(column[:], stream))
        return self.with_columns(columns)

    def with_columns(self, columns: Sequence[Any]) -> DiskTable:
        """The table with further columns."""
        values = self.values.with_columns([*self.values.columns, *columns])
        return replace(self, values=values, names=(*self.names, *("stored" for _ in columns)))

    def stored(self, of: RowMap, width: int, report: ShareDone) -> list[DiskColumn]:
        """What is made of the rows, so many columns, on the disk."""
        columns = [self.shelf.column(self.count) for _ in range(width)]
        for batch in self.batches(width):
            made = np.empty((width, batch.stop - batch.start))
            self.made(of, batch, made)
            for column, values in zip(columns, made, strict=True):
                column.write(batch.start, values)
            report(batch.stop / self.count)
        return columns

    def batches(self, width: int) -> Iterator[slice]:
        """The rows in batches of whole blocks, as many as the memory allows for so many columns."""
        rows = batch_rows(width, self.shelf.memory)
        for start in range(0, self.count, rows):
            yield slice(start, min(start + rows, self.count))

    def made(
        self,
        of: RowMap,
        batch: slice,
        out: Array,
        watch: Callable[[Array, slice], Seen] | None = None,
        *,
        first: int | None = None,
    ) -> list[Seen]:
        """What is made of a batch of rows, in the pieces that every engine takes; and what `watch` makes of each.

        If it needs no more than the `first` columns, no others are read.
        """
        rows = rows_per_piece(self.values.shape[1])
        read = self.values if first is None else self.values.select(range(first))

        def fill(starts: range) -> list[Seen]:
            seen: list[Seen] = []
            for start in starts:
                piece = slice(start, min(start + rows, batch.stop))
                values = of(read.piece(piece), piece)
                out[:, piece.start - batch.start : piece.stop - batch.start] = values
                if watch is not None:
                    seen.append(watch(values, piece))
            return seen

        step = -(-(batch.stop - batch.start) // worker_count() // rows) * rows or rows
        parts = [range(start, min(start + step, batch.stop), rows) for start in range(batch.start, batch.stop, step)]
        return [seen for part in in_threads([partial(fill, part) for part in parts]) for seen in part]

    def _permuted_in_buckets(self, of: RowMap, streams: Sequence[Stream], report: ShareDone) -> list[DiskColumn]:
        """The shuffle of `core.shuffle` with its buckets in files: rows to their buckets, then each bucket shuffled."""
        columns = [self.shelf.column(self.count) for _ in streams]
        shuffles = [BucketShuffle.drawn(column, stream) for column, stream in zip(columns, streams, strict=True)]
        for batch in self.batches(len(columns) + 2 * worker_count()):
            made = np.empty((len(columns), batch.stop - batch.start))
            self.made(of, batch, made)
            pairs = zip(shuffles, made, strict=True)
            in_threads([partial(shuffle.scatter, batch, values) for shuffle, values in pairs])
            report(0.7 * batch.stop / self.count)
        in_threads([shuffle.settle for shuffle in shuffles], lambda done: report(0.7 + 0.3 * done / len(shuffles)))
        return columns


@dataclass(frozen=True, repr=False)
class BucketShuffle:
    """A column that is brought into a random order: the borders of its buckets, and where the next row of each goes."""

    column: DiskColumn
    stream: Stream
    ends: NDArray[np.uint64]
    next_free: NDArray[np.uint64]

    @classmethod
    def drawn(cls, column: DiskColumn, stream: Stream) -> BucketShuffle:
        """The buckets of all rows are drawn first, so that each has its place in the file before a row arrives."""
        from microveil.core import _order_kernels as kernels

        sizes = np.zeros(bucket_count(column.size), dtype=np.uint64)
        for _, rows in row_blocks(column.size):
            kernels.count(drawn_buckets(stream, sizes.size, rows), sizes)
        ends = np.cumsum(sizes)
        return cls(column, stream, ends, ends - sizes)

    def scatter(self, batch: slice, values: Array) -> None:
        """Rows to the ends of their buckets, in row order: sorted by bucket here, then a run to each."""
        from microveil.core import _order_kernels as kernels

        digits = drawn_buckets(self.stream, self.ends.size, batch)
        sizes = np.zeros(self.ends.size, dtype=np.uint64)
        kernels.count(digits, sizes)
        stops = np.cumsum(sizes)
        by_bucket = np.empty(values.size)
        kernels.scatter(values, digits, stops - sizes, by_bucket)
        start = 0
        for bucket, stop in enumerate(stops.tolist()):
            if stop > start:
                self.column.write(int(self.next_free[bucket]), by_bucket[start:stop])
            start = stop
        self.next_free[:] += sizes

    def settle(self) -> None:
        """Each bucket in random order."""
        start = 0
        for bucket, end in enumerate(self.ends.tolist()):
            values = self.column[start:end]
            shuffle_bucket(values, self.stream.generator(FIRST_BUCKET + bucket))
            self.column.write(start, values)
            start = end


COPIES = 6
"""Columns of the size of one that sorting and smoothing it take."""

DOUBT = 0.05
"""Probability that the error of a sample is larger than stated."""


def with_marginals(
    step: Marginals, original: DiskTable, found: RemoteOutcome, streams: Streams, tell: Progress
) -> RemoteOutcome:
    """The outcome with the values of the original columns in the order of the perturbed ones, one column at a time.

    A column that fits into the memory is put in order there, by the very `step` that tables in memory go through. One
    that does not is mapped by the quantiles of a sample, whose error is known: the share of values below any value is
    off by no more than a bound of Dvoretzky, Kiefer, Wolfowitz and Massart, which a remark states. `original` is the
    table before, and `found` what came of its rows; `streams` draw the samples, and `tell` hears of the progress.
    """
    table, chosen = found.table, found.released.chosen
    if not isinstance(table, DiskTable):
        raise TypeError("columns are put in order on a disk")
    if step.marginals == "smoothed" and not step.smooths(table.count):
        return found
    columns = table.stored(
        found.released.perturbed, len(chosen), lambda share: tell("storing columns", 0.55 + 0.05 * share)
    )
    stream, own = streams.stream("marginals", 0), original.confidential.columns
    rows = table.shelf.memory // (COPIES * BYTES)
    for place, (number, column) in enumerate(zip(chosen, columns, strict=True)):
        tell("ordering columns", 0.6 + 0.1 * place / len(chosen))
        child = stream.child(f"smooth {place}")
        if table.count <= rows:
            values = column[:]
            step.of(own[number][:], None, child).put_in_order_of(values)
            column.write(0, values)
        else:
            _map_by_sample(step, own[number], column, rows, child)
    stored = partial(stored_columns, table.values.shape[1], len(columns))
    released = replace(found.released, perturbed=stored, reads=None, stored=True)
    remark = "" if table.count <= rows else _doubt(rows)
    return replace(found, table=table.with_columns(columns), released=released, remark=remark)


def _map_by_sample(step: Marginals, own: Array, column: DiskColumn, most: int, stream: Stream) -> None:
    """Each value becomes the one of the original sample that is as far up as it is in its own sample."""
    rows = np.unique(stream.child("rows").integers(column.size, most // 2))
    ranks = np.sort(column[rows])
    values = step.of(own[rows], None, stream).values
    start = 0
    for piece in column.pieces():
        low, high = (np.searchsorted(ranks, piece, side=side) for side in ("left", "right"))
        # Values that several records share are in the middle of their places.
        column.write(start, values[np.minimum((low + high) // 2, values.size - 1)])
        start += piece.size


def _doubt(most: int) -> str:
    rows = most // 2
    error = 2 * math.sqrt(math.log(2 / DOUBT) / (2 * rows))
    return (
        f"the columns were too long to be put in order: their distributions come from samples of about {rows} rows, "
        f"and shares of values are off by at most {error:.5f} (in {1 - DOUBT:.0%} of all cases)"
    )
