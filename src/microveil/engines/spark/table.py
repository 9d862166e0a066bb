"""Tables whose rows are on the workers of a Spark cluster.

Rows are gathered into records once (`engines.spark.rows`), which Spark keeps on the workers' disks. A lost record is
made again from where the rows came from; its check sums say whether it is the same, so that a task may run twice, or
on another worker, without a change in the result. Only summaries come to the driver.

The shuffle is that of `core.shuffle`, row for row. Rows go to the buckets that their block's generator draws, each
bucket is put in random order, and what comes out goes to the records whose rows it belongs to. None of it depends on
where the rows are, or on which worker does what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from microveil.core import shuffle
from microveil.core.arrays import Array
from microveil.core.late import pa, sf
from microveil.core.moments import Moments, Profile
from microveil.core.rng import ROWS_PER_BLOCK, Stream
from microveil.core.shuffle import FIRST_BUCKET, drawn_buckets, shuffle_bucket, shuffled
from microveil.core.table import Matrix, Microdata, RowMap, as_they_are
from microveil.engines.out_of_core import RemoteTable
from microveil.engines.scores import ShareDone
from microveil.engines.spark.rows import (
    RECORD,
    SUMMARY,
    Batches,
    Fold,
    Make,
    Making,
    Piece,
    RecordLayout,
    RemoteColumn,
    Summary,
    as_moments,
    as_profile,
    batch_of,
    fold_by,
    fold_moments,
    fold_neighbours,
    fold_profiles,
    packed,
    pick_rows,
    reduce_records,
    unpacked,
)

if TYPE_CHECKING:
    from pyspark import StorageLevel
    from pyspark.sql import DataFrame, SparkSession

SUMMARIES_AT_ONCE = 64
"""Partitions whose summaries one task makes into one, before the driver adds up the rest."""


@dataclass(frozen=True, repr=False)
class SparkRecords:
    """The records of a table: where they are, and what is known of them."""

    frame: DataFrame
    layout: RecordLayout
    width: int
    """Columns of numbers that they have."""

    kept: list[DataFrame]
    """What Spark keeps on its disks, for these records and those that were made of them."""

    def mapped(self, by: Callable[[Batches], Batches], schema: Any, *, with_rest: bool = False) -> DataFrame:
        """Records through a function on the workers; without the columns that are not numbers, unless `with_rest`."""
        columns = ["part", "at", "cells", *(["rest"] if with_rest else [])]
        return on_workers(self.frame.select(*columns), by, schema)

    def reduced(self, make: Make, fold: Fold) -> Summary:
        """All records to one summary, in their order."""
        reducing = partial(reduce_records, self.layout, make, fold)
        return summed(self.mapped(reducing, SUMMARY), fold, self.layout.parts)


def forget(kept: list[DataFrame]) -> None:
    """Give the workers' disks back; what is read later is made once more."""
    while kept:
        kept.pop().unpersist()


def summed(frame: DataFrame, fold: Fold, parts: int) -> Summary:
    """Summaries of many partitions in one: those of neighbours first, on the workers, and the rest here."""
    while parts > SUMMARIES_AT_ONCE:
        parts = -(-parts // SUMMARIES_AT_ONCE)
        groups = frame.withColumn("part", (sf.col("part") / SUMMARIES_AT_ONCE).cast("int"))
        ordered = groups.repartition(parts, "part").sortWithinPartitions("part", "number")
        frame = on_workers(ordered, partial(fold_neighbours, fold), SUMMARY)
    found = sorted(frame.collect(), key=lambda row: row["number"])
    return fold([unpacked(row["summary"]) for row in found])


@dataclass(frozen=True, repr=False)
class SparkMatrix(Matrix):
    """Columns whose cells are in records."""

    records: SparkRecords = field(kw_only=True)
    distant: ClassVar[bool] = True

    def __reduce__(self) -> tuple[type[Matrix], tuple[Any, ...]]:
        """A worker gets the places of the columns; its rows are those before it."""
        return Matrix, (self.columns,)

    @property
    def places(self) -> list[int]:
        """Where the columns are in a record."""
        return [cast(RemoteColumn, column).place for column in self.columns]

    def select(self, columns: Sequence[int]) -> SparkMatrix:
        """Some of the columns, in the order given."""
        return replace(self, columns=[self.columns[j] for j in columns])

    def profile(self, weights: Array | None = None) -> Profile:
        """Moments, extremes and the fingerprint of all rows, in one pass."""
        return as_profile(self.records.reduced(Making(as_they_are, self.places, weights).profile, fold_profiles))

    def measure(self, of: RowMap = as_they_are, weights: Array | None = None, first: int | None = None) -> Moments:
        """Moments of what is made of the rows; of their `first` columns only, if it needs no others."""
        return as_moments(self.records.reduced(Making(of, self.places[:first], weights).moments, fold_moments))

    def folded(self, of: RowMap, columns: Sequence[int], fold: Callable[[list[Array]], Array]) -> Array:
        """What is made of some columns of each record, in one."""
        return self.records.reduced(Making(of, self.select(columns).places).as_it_is, partial(fold_by, fold))[0]

    def sampled(self, of: RowMap, rows: NDArray[np.intp]) -> Array:
        """What is made of some rows, brought to the driver."""
        wanted, back = np.unique(rows, return_inverse=True)
        picking = partial(pick_rows, self.records.layout, Making(of, self.places), wanted)
        found = sorted(self.records.mapped(picking, SUMMARY).collect(), key=lambda row: row["number"])
        return np.hstack([unpacked(row["summary"])[0] for row in found])[:, back]

    def stored(self, of: RowMap, width: int, drop: int = 0, *, together: bool = False) -> SparkMatrix:
        """These with further columns: what is made of the rows, so many columns; the last ones may be dropped.

        Records may be taken `together`, as many as a worker gets at once.
        """
        first = self.records.width - drop
        by = partial(append_columns, self.records.layout, Making(of, self.places), first, together)
        wider = on_workers(self.records.frame, by, RECORD).persist(on_disks())
        self.records.kept.append(wider)
        columns = self.columns[: len(self.columns) - drop]
        added = columns_at(range(first, first + width), self.records.layout.count)
        return SparkMatrix([*columns, *added], records=replace(self.records, frame=wider, width=first + width))

    def blanked(self, codes: Mapping[int, Sequence[float]]) -> SparkMatrix:
        """The same with NaN in the place of codes, for the columns that have some, by number."""
        blanked = self.stored(partial(_without_codes, codes), len(codes))
        new = dict(zip(codes, blanked.columns[len(self.columns) :], strict=True))
        return replace(blanked, columns=[new.get(j, column) for j, column in enumerate(self.columns)])

    def varies(self, column: int) -> bool:  # noqa: ARG002 - it holds for every column
        """Whoever asks knows from the profile that the column varies; another pass for each would be too much."""
        return True


@dataclass(frozen=True, repr=False)
class SparkTable(RemoteTable):
    """A table on a Spark cluster; its columns are places in the records."""

    def __reduce__(self) -> tuple[type[Microdata], tuple[Any, ...]]:
        """A worker gets the names and places of the columns; its rows are those before it."""
        return Microdata, (self.values, self.names, self.public, self.weights)

    @property
    def cells(self) -> SparkMatrix:
        """The columns."""
        return cast(SparkMatrix, self.values)

    def sampled(self, of: RowMap, rows: NDArray[np.intp]) -> Array:
        """What is made of some rows, brought to the driver."""
        return self.cells.sampled(of, rows)

    def take(self, rows: NDArray[np.intp]) -> Microdata:
        """Some of the rows, in memory."""
        width, every = len(self.names), self.with_further(self.labels.codes)
        of = as_they_are if self.weights is None else partial(_with_weights, self.weights)
        cells, codes, weights = np.split(every.sampled(of, rows), [width, width + len(self.labels.names)])
        labels = replace(self.labels, codes=tuple(codes.astype(np.intp)))
        values, weight = Matrix(list(cells)), weights[0] if len(weights) else None
        return Microdata(values, self.names, self.public, weight, labels=labels)

    def with_further(self, columns: Sequence[Any]) -> SparkTable:
        """The table with further columns of its records."""
        values = SparkMatrix([*self.values.columns, *columns], records=self.cells.records)
        return replace(self, values=values, names=(*self.names, *("further" for _ in columns)))

    def with_columns_of(self, other: SparkTable) -> SparkTable:
        """The columns of both. Records only ever grow, so the wider ones have all that the others have."""
        records = max(self.cells.records, other.cells.records, key=lambda records: records.width)
        values = SparkMatrix([*self.values.columns, *other.values.columns], records=records)
        return replace(self, values=values, names=(*self.names, *other.names))

    def permuted(self, of: RowMap, streams: Sequence[Stream], report: ShareDone) -> SparkTable:
        """The table with further columns: what is made of the rows, each column of it in a random order."""
        records = self.cells.records
        shuffles = Shuffles(list(streams), 0 if self.count <= shuffle.SMALL else shuffle.bucket_count(self.count))
        wider = _shuffled(records, Making(of, self.cells.places), shuffles)
        report(1.0)
        added = columns_at(range(records.width, wider.width), self.count)
        values = SparkMatrix([*self.values.columns, *added], records=wider)
        return replace(self, values=values, names=(*self.names, *("permuted" for _ in streams)))

    def with_stored(self, of: RowMap, width: int, drop: int = 0, *, together: bool = False) -> SparkTable:
        """The table with further columns, as `SparkMatrix.stored` has them."""
        names = (*self.names[: len(self.names) - drop], *("stored" for _ in range(width)))
        return replace(self, values=self.cells.stored(of, width, drop, together=together), names=names)


def append_columns(layout: RecordLayout, made: Making, first: int, together: bool, batches: Batches) -> Batches:
    """Records with what is `made` of their rows in the place of the columns from the `first` on.

    The records of each of the `batches` may be taken `together`, as if their rows followed each other.
    """
    names = [word.split()[0] for word in RECORD.split(", ")]
    for batch in batches:
        pieces = layout.pieces(iter([batch.select(["part", "at", "cells"])]))
        for record, (cells, new) in zip(batch.to_pylist(), _made_of(made, pieces, together=together), strict=True):
            content = cells[:first].tobytes() + np.ascontiguousarray(new).tobytes()
            yield batch_of([[content if name == "cells" else record[name]] for name in names], RECORD)


def _made_of(made: Making, pieces: Iterator[Piece], *, together: bool) -> Iterator[tuple[Array, Array]]:
    """The cells of records, and what is `made` of them."""
    if not together:
        yield from ((piece.cells, made.made(piece)) for piece in pieces)
        return
    every = list(pieces)
    ends = np.cumsum([piece.cells.shape[1] for piece in every])
    start = every[0].rows.start
    whole = Piece(every[0].number, slice(start, start + int(ends[-1])), np.hstack([piece.cells for piece in every]))
    yield from zip([piece.cells for piece in every], np.split(made.made(whole), ends[:-1], axis=1), strict=True)


def _without_codes(codes: Mapping[int, Sequence[float]], cells: Array, rows: slice) -> Array:  # noqa: ARG001 - a row map
    return np.array([np.where(np.isin(cells[j], own), np.nan, cells[j]) for j, own in codes.items()])


def _with_weights(weights: Array, cells: Array, rows: slice) -> Array:
    return np.vstack([cells, weights[rows]])


def columns_at(places: Iterable[int], rows: int) -> list[Array]:
    """Columns at these places of a record."""
    return [cast(Array, RemoteColumn(place, rows)) for place in places]


def _shuffled(records: SparkRecords, made: Making, shuffles: Shuffles) -> SparkRecords:
    """Records with further columns: what is made of the rows, each column in random order."""
    layout, count = records.layout, len(shuffles.streams)
    session, tasks = records.frame.sparkSession, max(layout.parts, 1)
    starts = _bucket_starts(session, shuffles, layout.count, tasks)
    targets = _targets(session, tasks)
    scattered = records.mapped(partial(scatter_rows, layout, made, shuffles), SCATTERED)
    buckets = scattered.repartition(min(tasks, starts.size), "component", "bucket")
    in_order = buckets.sortWithinPartitions("component", "bucket", "first")
    settled = on_workers(in_order, partial(settle_buckets, layout, shuffles, starts, targets), MOVED)
    target = sf.element_at(sf.array(*(sf.lit(int(key)) for key in targets)), sf.col("part") + 1)
    head = [
        target.cast("long").alias("target"),
        sf.lit(THE_RECORD).alias("component"),
        sf.lit(0).alias("offset"),
    ]
    both = records.frame.select(*head, *records.frame.columns).union(settled)
    home = both.repartition(tasks, "target").sortWithinPartitions("part", "at", "component", "offset")
    wider = on_workers(home, partial(merge_columns, count), RECORD).persist(on_disks())
    records.kept.append(wider)
    return replace(records, frame=wider, width=records.width + count)


def _bucket_starts(session: SparkSession, shuffles: Shuffles, rows: int, tasks: int) -> NDArray[np.int64]:
    """The row at which each bucket of each component begins."""
    blocks = session.range(0, -(-rows // ROWS_PER_BLOCK), 1, tasks)
    counted = on_workers(blocks, partial(count_buckets, shuffles, rows), SUMMARY)
    sizes = summed(counted, partial(fold_by, partial(np.sum, axis=0)), tasks)[0]
    return np.cumsum(sizes, axis=1) - sizes


def _targets(session: SparkSession, tasks: int) -> NDArray[np.int64]:
    """For each partition a number that Spark's hash sends there, so that rows come back in the order they had.

    Were the hash to change, the partitions would change places, and nothing else.
    """
    found: dict[int, int] = {}
    tried = 32 * tasks
    while len(found) < tasks:
        tried *= 2
        ids = session.range(0, tried, 1, 1).select(sf.pmod(sf.hash("id"), sf.lit(tasks)), "id")
        found = dict(map(tuple, reversed(ids.collect())))
    return np.array([found[task] for task in range(tasks)], dtype=np.int64)


def on_workers(frame: DataFrame, by: Callable[[Batches], Batches], schema: Any) -> DataFrame:
    """Rows through a function on the workers, batch by batch."""
    return frame.mapInArrow(by, schema)  # type: ignore[arg-type]  # it says function, and takes any callable


def on_disks() -> StorageLevel:
    """Records go to the workers' disks: their memory is for the work."""
    from pyspark import StorageLevel

    return StorageLevel.DISK_ONLY


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
