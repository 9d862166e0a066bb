"""The streaming engine: a file read once onto a disk table, protected there, and written batch by batch.

Tables on a disk are permuted with buckets in files, put in order a column at a time, and all else is piece by piece.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import repeat
from typing import IO, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.late import pa
from microveil.core.rng import ROWS_PER_BLOCK, Stream, Streams, row_blocks
from microveil.core.shuffle import FIRST_BUCKET, SMALL, bucket_count, drawn_buckets, shuffle_bucket, shuffled
from microveil.core.table import Matrix, RowMap
from microveil.core.threads import in_threads, rows_per_piece, worker_count
from microveil.engines.out_of_core import RemoteOutcome, RemoteTable, stored_columns, with_stored_digits
from microveil.engines.release_check import Evidence, RemoteComparison
from microveil.engines.rows import Progress
from microveil.engines.scores import ShareDone
from microveil.engines.survey import comparable
from microveil.intake.from_dates import DateRule, as_days
from microveil.intake.intake import Intake
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
from microveil.restore import Marginals
from microveil.storage.disk_columns import BYTES, DiskColumn, LabelColumn, Shelf, on_disk
from microveil.storage.distinct import DistinctCounter


@dataclass(frozen=True, repr=False)
class FileSource(BatchedSource[BlockSource]):
    """A file that is read block by block; the columns that are needed go onto a disk."""

    shelf: Shelf
    progress: Progress = lambda *_: None
    in_memory: ClassVar[bool] = False

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
        columns, varying, found = self._read([*numbers, *roles.confidential, *weight], labels)
        check_count(self.count)
        indicators: list[tuple[str, LabelColumn]] = []
        for name in labels:
            check_levels("public", [name], len(found[name].rows))
            check_rare("public", name, np.array(found[name].rows))
            # The first label follows from the others, all 0.
            indicators += [(name, LabelColumn(columns[name], code)) for code in found[name].in_order()[1:]]
        check_room(self.count, "public", len(numbers) + len(indicators))
        numbers = [name for name in numbers if name in varying]
        chosen = [columns[name] for name in (*numbers, *roles.confidential)]
        table = DiskTable(
            on_disk([*chosen[: len(numbers)], *(column for _, column in indicators), *chosen[len(numbers) :]]),
            (*numbers, *(name for name, _ in indicators), *roles.confidential),
            len(numbers) + len(indicators),
            None if roles.weight is None else scaled_weights(roles.weight, columns[roles.weight][:]),
            shelf=self.shelf,
        )
        return ReadTable(table, {number: ("public", name) for number, name in enumerate(numbers)})

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
                if missing:
                    raise has_missing(name)
                columns[name].append(numbers)
                if numbers.size and name not in varying and (numbers != first.setdefault(name, numbers[0])).any():
                    varying.add(name)
            for name in labels:
                columns[name].append(found[name].codes(batch.column(name)))
                if len(found[name].rows) > MOST_LEVELS:
                    check_levels("public", [name], len(found[name].rows))
            self.progress("reading the file", 0.15 * min(columns[names[0]].size / source.count, 1.0))
        return columns, varying, found


@dataclass(frozen=True, repr=False)
class Written:
    """What was seen while the rows were written: how they compare with the original, and a sample of both."""

    proof: Evidence
    odd: Array
    before: Array
    after: Array
    rounded: bool
    """Is some column stored with fewer digits than it was computed with?"""

    weights: Array | None = None
    """Those of the sample, where they are not at hand with the table."""

    unique: float = 0.0
    """The share of the rows that no other is equal to in what is in clear."""


@dataclass(frozen=True, repr=False)
class OtherColumns:
    """Columns that are not protected: in clear, numbered anew, or computed from protected dates."""

    in_clear: Sequence[str] = ()
    renumbered: Mapping[str, DiskColumn] = field(default_factory=dict)
    from_dates: Sequence[DateRule] = ()

    def types(self, source: BlockSource) -> dict[str, pa.DataType]:
        """The types of those that get another one."""
        return {name: pa.int64() if source.is_numeric(name) else pa.string() for name in self.renumbered}

    def made(self, source: BlockSource, rows: slice, new: Mapping[str, Array]) -> dict[str, pa.Array]:
        """The cells of some rows, of which the protected columns are `new`."""
        types, made = self.types(source), {}
        for name, column in self.renumbered.items():
            numbers = column[rows].astype(np.int64)
            made[name] = pa.array(numbers, mask=numbers == 0).cast(types[name])
        for rule in self.from_dates:
            values = rule.computed(lambda date: as_days(source.times[date], new[date]))
            made[rule.column] = pa.array(values)
        return made


def write_blocks(
    columns: FileSource,
    intake: Intake,
    outcome: RemoteOutcome,
    others: OtherColumns,
    sampled: NDArray[np.intp],
    file: IO[bytes],
) -> Written:
    """Write the released rows, with the columns that are not protected, batch by batch.

    While a batch is written the next is made and compared with the original, and rows that are `sampled` are kept.

    Args:
        columns: the file that was read.
        intake: its table, as it was taken in.
        outcome: what to make of its rows.
        others: the columns that are not protected.
        sampled: rows that are kept.
        file: what is written.
    """
    source, table, released = columns.opened, intake.table, outcome.table
    if not (isinstance(table, DiskTable) and isinstance(released, DiskTable)):
        raise TypeError("this engine writes tables on a disk")
    names = table.confidential_names
    changed: dict[str, pa.DataType | None] = {name: None for name in names if name not in source.times}
    changed |= others.types(source)
    gone = {*names, *others.renumbered, *(rule.column for rule in others.from_dates)}
    kept = [name for name in source.names if name not in gone]
    batches = list(table.batches(2 * len(source.names)))
    rows = batches[0].stop
    unchanged: Iterator[pa.RecordBatch | None] = source.batches(kept, rows) if kept else repeat(None)
    sink = source.sink(file, changed)
    counter = DistinctCounter(columns.shelf, table.count, columns.shelf.memory // SHARE)
    comparison = RemoteComparison(table, intake.profile.moments)
    wanted = np.arange(table.count) if comparison.of_rows else sampled
    short: dict[int, Any] = {number: sink.short[name] for number, name in enumerate(names) if name in sink.short}
    short |= {number: np.round for number, name in enumerate(names) if name in source.times}
    stored = partial(with_stored_digits, outcome.released, short)

    def see(made: Array, piece: slice) -> tuple[Array, Array, Array]:
        cells = table.values.piece(piece)
        first, last = np.searchsorted(wanted, [piece.start, piece.stop])
        places = wanted[first:last] - piece.start
        return comparison.sums(cells, made, piece), cells[:, places], made[:, places]

    def made(batch: slice) -> tuple[Array, list[tuple[Array, Array, Array]]]:
        values = np.empty((len(names), batch.stop - batch.start))
        return values, released.made(stored, batch, values, see, first=outcome.released.reads)

    seen: list[tuple[Array, Array, Array]] = []
    with closing(sink), ThreadPoolExecutor(1) as ahead:
        coming = ahead.submit(made, batches[0])
        for number, batch in enumerate(batches):
            values, seen_in_batch = coming.result()
            seen += seen_in_batch
            if number + 1 < len(batches):
                coming = ahead.submit(made, batches[number + 1])
            same = next(unchanged)
            if others.in_clear and same is not None:
                counter.add(comparable(source, same, others.in_clear))
            new: dict[str, Any] = dict(zip(names, values, strict=True))
            made_of_it = others.made(source, batch, new)
            new |= {name: form.stored(new[name]) for name, form in source.times.items() if name in new}
            sink.write(same, {**new, **made_of_it})
            columns.progress("writing the file", 0.6 + 0.4 * batch.stop / table.count)
    sums, before, after = zip(*seen, strict=True)
    proof, odd = comparison.conclusion(np.sum(sums, axis=0), np.hstack(after))
    unique = counter.counts()[1] / table.count
    return Written(proof, odd, np.hstack(before), np.hstack(after), bool(short), unique=unique)


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

    def with_columns(self, columns: Sequence[DiskColumn]) -> DiskTable:
        """The table with further columns."""
        values = Matrix([*self.values.columns, *on_disk(columns).columns])
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
        from microveil.core import _shuffle_kernels as kernels

        sizes = np.zeros(bucket_count(column.size), dtype=np.uint64)
        for _, rows in row_blocks(column.size):
            kernels.count(drawn_buckets(stream, sizes.size, rows), sizes)
        ends = np.cumsum(sizes)
        return cls(column, stream, ends, ends - sizes)

    def scatter(self, batch: slice, values: Array) -> None:
        """Rows to the ends of their buckets, in row order: sorted by bucket here, then a run to each."""
        from microveil.core import _shuffle_kernels as kernels

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
