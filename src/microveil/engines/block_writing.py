"""Released rows of a file that was read in blocks, written batch by batch, with the columns that are not protected."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.late import pa
from microveil.engines.out_of_core import RemoteOutcome, with_stored_digits
from microveil.engines.release_check import Evidence, RemoteComparison
from microveil.engines.stream import SHARE, DiskTable, FileSource
from microveil.engines.survey import comparable
from microveil.intake.from_dates import DateRule, as_days
from microveil.intake.intake import Intake
from microveil.io.blocks import BlockSource
from microveil.storage.disk_columns import DiskColumn
from microveil.storage.distinct import DistinctCounter

NOTHING: Array = np.empty((0, 0))


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

    labels: tuple[Array, Array] = (NOTHING, NOTHING)
    """Where labels are not at hand with the table: those of the sample, before and after (columns x rows)."""

    label_errors: Mapping[str, float] | None = None
    """Where they were measured on all rows: how far two-way tables and group means are off."""


@dataclass(frozen=True, repr=False)
class OtherColumns:
    """Columns that are not protected: in clear, numbered anew, or computed from protected dates."""

    in_clear: Sequence[str] = ()
    renumbered: Mapping[str, DiskColumn] = field(default_factory=dict)
    from_dates: Sequence[DateRule] = ()
    labels: Mapping[str, tuple[pa.Array, NDArray[Any]]] = field(default_factory=dict)
    """Labels that were exchanged: a cell of each level, and the level of each row."""

    whole: Collection[str] = ()
    """Protected columns of whole numbers that still are."""

    holes: Collection[str] = ()
    """Protected columns that have missing cells, or special codes."""

    codes: Mapping[str, tuple[Array, NDArray[np.uint8]]] = field(default_factory=dict)
    """Of those with special codes: NaN and the codes, and which of these each row has."""

    def relabelled(self, batch: pa.RecordBatch, rows: slice) -> pa.RecordBatch:
        """Rows of columns that were not changed but for labels, with the new labels."""
        for name, (cells, codes) in self.labels.items():
            place = batch.schema.get_field_index(name)
            taken = cells.take(pa.array(codes[rows].astype(np.int64)))
            batch = batch.set_column(place, name, taken.cast(batch.schema.field(name).type))
        return batch

    def with_holes_and_types(self, rows: slice, new: dict[str, Any]) -> None:
        """Put codes back into some rows of the protected columns that are `new`, which lack them; whole ones stay."""
        for name in dict.fromkeys([*self.holes, *self.whole]):
            values, missing = new[name], None
            if name in self.holes:
                if name in self.codes:
                    codes, which = self.codes[name]
                    values = np.where(np.isnan(values), codes[which[rows]], values)
                missing = np.isnan(values)
            if name in self.whole:
                values = np.where(False if missing is None else missing, 0.0, values).astype(np.int64)
            new[name] = pa.array(values, mask=missing)

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
            made[rule.column] = pa.array(values, mask=np.isnan(values))
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
    changed = {name: kind for name, kind in changed.items() if name not in others.whole} | others.types(source)
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
            others.with_holes_and_types(batch, new)
            new |= {name: form.stored(new[name]) for name, form in source.times.items() if name in new}
            same = None if same is None else others.relabelled(same, batch)
            sink.write(same, {**new, **made_of_it})
            columns.progress("writing the file", 0.6 + 0.4 * batch.stop / table.count)
    sums, before, after = zip(*seen, strict=True)
    proof, odd = comparison.conclusion(np.sum(sums, axis=0), np.hstack(after))
    unique = counter.counts()[1] / table.count
    return Written(proof, odd, np.hstack(before), np.hstack(after), bool(short), unique=unique)
