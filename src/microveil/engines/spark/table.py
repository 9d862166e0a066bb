"""Tables whose rows are on the workers of a Spark cluster.

Rows are gathered into records once (`engines.spark.rows`), which Spark keeps on the workers' disks. A lost record is
made again from where the rows came from; its check sums say whether it is the same, so that a task may run twice, or
on another worker, without a change in the result. Only summaries come to the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from microveil.core import shuffle
from microveil.core.arrays import Array
from microveil.core.moments import Moments, Profile
from microveil.core.rng import ROWS_PER_BLOCK, Stream
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
    RecordLayout,
    RemoteColumn,
    Summary,
    as_moments,
    as_profile,
    fold_largest,
    fold_moments,
    fold_neighbours,
    fold_profiles,
    fold_totals,
    pick_rows,
    reduce_records,
    unpacked,
)
from microveil.engines.spark.shuffle import (
    MOVED,
    SCATTERED,
    THE_RECORD,
    Shuffles,
    count_buckets,
    merge_columns,
    scatter_rows,
    settle_buckets,
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
    from pyspark.sql import functions

    while parts > SUMMARIES_AT_ONCE:
        parts = -(-parts // SUMMARIES_AT_ONCE)
        groups = frame.withColumn("part", (functions.col("part") / SUMMARIES_AT_ONCE).cast("int"))
        ordered = groups.repartition(parts, "part").sortWithinPartitions("part", "number")
        frame = on_workers(ordered, partial(fold_neighbours, fold), SUMMARY)
    found = sorted(frame.collect(), key=lambda row: row["number"])
    return fold([unpacked(row["summary"]) for row in found])


@dataclass(frozen=True, repr=False)
class SparkMatrix(Matrix):
    """Columns whose cells are in records."""

    records: SparkRecords = field(kw_only=True)

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

    def total(self, of: RowMap, columns: Sequence[int]) -> Array:
        """The sum over all records of what is made of some columns."""
        return self.records.reduced(Making(of, self.select(columns).places).total, fold_totals)[0]

    def largest(self, of: RowMap, columns: Sequence[int]) -> Array:
        """The largest over all records of what is made of some columns."""
        return self.records.reduced(Making(of, self.select(columns).places).total, fold_largest)[0]

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
        wanted, back = np.unique(rows, return_inverse=True)
        records = self.cells.records
        picking = partial(pick_rows, records.layout, Making(of, self.cells.places), wanted)
        found = sorted(records.mapped(picking, SUMMARY).collect(), key=lambda row: row["number"])
        return np.hstack([unpacked(row["summary"])[0] for row in found])[:, back]

    def take(self, rows: NDArray[np.intp]) -> Microdata:
        """Some of the rows, in memory."""
        if self.weights is None:
            return Microdata(Matrix(list(self.sampled(as_they_are, rows))), self.names, self.public)
        *cells, weights = self.sampled(partial(_with_weights, self.weights), rows)
        return Microdata(Matrix(cells), self.names, self.public, weights)

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


def _with_weights(weights: Array, cells: Array, rows: slice) -> Array:
    return np.vstack([cells, weights[rows]])


def columns_at(places: Iterable[int], rows: int) -> list[Array]:
    """Columns at these places of a record."""
    return [cast(Array, RemoteColumn(place, rows)) for place in places]


def _shuffled(records: SparkRecords, made: Making, shuffles: Shuffles) -> SparkRecords:
    """Records with further columns: what is made of the rows, each column in random order."""
    from pyspark.sql import functions

    layout, count = records.layout, len(shuffles.streams)
    session, tasks = records.frame.sparkSession, max(layout.parts, 1)
    starts = _bucket_starts(session, shuffles, layout.count, tasks)
    targets = _targets(session, tasks)
    scattered = records.mapped(partial(scatter_rows, layout, made, shuffles), SCATTERED)
    buckets = scattered.repartition(min(tasks, starts.size), "component", "bucket")
    in_order = buckets.sortWithinPartitions("component", "bucket", "first")
    settled = on_workers(in_order, partial(settle_buckets, layout, shuffles, starts, targets), MOVED)
    target = functions.element_at(
        functions.array(*(functions.lit(int(key)) for key in targets)), functions.col("part") + 1
    )
    head = [
        target.cast("long").alias("target"),
        functions.lit(THE_RECORD).alias("component"),
        functions.lit(0).alias("offset"),
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
    sizes = summed(counted, fold_totals, tasks)[0]
    return np.cumsum(sizes, axis=1) - sizes


def _targets(session: SparkSession, tasks: int) -> NDArray[np.int64]:
    """For each partition a number that Spark's hash sends there, so that rows come back in the order they had.

    Were the hash to change, the partitions would change places, and nothing else.
    """
    from pyspark.sql import functions

    found: dict[int, int] = {}
    tried = 32 * tasks
    while len(found) < tasks:
        tried *= 2
        ids = session.range(0, tried, 1, 1).select(functions.pmod(functions.hash("id"), functions.lit(tasks)), "id")
        found = dict(map(tuple, reversed(ids.collect())))
    return np.array([found[task] for task in range(tasks)], dtype=np.int64)


def on_workers(frame: DataFrame, by: Callable[[Batches], Batches], schema: Any) -> DataFrame:
    """Rows through a function on the workers, batch by batch."""
    return frame.mapInArrow(by, schema)  # type: ignore[arg-type]  # it says function, and takes any callable


def on_disks() -> StorageLevel:
    """Records go to the workers' disks: their memory is for the work."""
    from pyspark import StorageLevel

    return StorageLevel.DISK_ONLY
