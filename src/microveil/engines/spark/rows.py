"""What Spark's workers do with rows: gather them into records, map these, and reduce them to summaries.

A record is a run of rows in two pieces: the numbers that a method works on, as one *columns x rows* array, and all
other columns as they came, in Arrow's own format. Spark moves a few large records about instead of many small rows.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.core.late import pa, pl
from microveil.core.moments import Moments, Profile, merged, moments
from microveil.core.table import Matrix, RowMap
from microveil.core.threads import single_threaded_blas
from microveil.engines.renumbering import secret_number
from microveil.intake.from_dates import DateRule, as_days
from microveil.io.frames.surveyed import plain_cells
from microveil.io.frames.times import TimeForm

RECORD = (
    "part int, at int, place long, start long, rows int, cells_check long, rest_check long, cells binary, rest binary"
)
"""The partition that a record is in and its place there, where its first row was found, and check sums."""

SUMMARY = "part int, number long, summary binary"

FOLD_EVERY = 64
"""Summaries of records that are held before they become one."""

Summary = Sequence[NDArray[Any]]
Fold = Callable[[Sequence[Summary]], Summary]
Batches = Iterator["pa.RecordBatch"]


class CellForm(Protocol):
    """How cells that are no numbers become some: dates and times, or labels."""

    def steps(self, cells: Any) -> Array:
        """Cells of Arrow as numbers."""


class RemoteColumn:
    """A column whose cells are on the workers. Where a row map runs, the rows at hand can be read by their numbers."""

    at_hand: tuple[slice, Array] | None = None
    """The rows that a worker has before it, with all their cells; a worker's process does one thing at a time."""

    def __init__(self, place: int, rows: int, unit: float = 1.0) -> None:
        self.place, self.size, self.shape, self.unit = place, rows, (rows,), unit

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, rows: slice) -> Array:
        if RemoteColumn.at_hand is None:
            raise DataError("engine: 'spark' cannot bring all rows to one place", "use engine='memory'")
        there, cells = RemoteColumn.at_hand
        return self.of(cells)[rows.start - there.start : rows.stop - there.start]

    def of(self, cells: Array) -> Array:
        """The column in a record's cells."""
        column: Array = cells[self.place]
        return column if self.unit == 1.0 else column / self.unit


@dataclass(frozen=True, repr=False)
class Piece:
    """A record before a worker: its number, the numbers of its rows, and its cells."""

    number: int
    rows: slice
    cells: Array


@dataclass(frozen=True, repr=False)
class RecordLayout:
    """All records of a table, by partition and place: the number of the first row of each, its rows, its check sums.

    `checks` (records x 2) are of the first `checked_columns` columns of numbers, those that the records had at first,
    and of what is no number.
    """

    part: NDArray[np.int64]
    at: NDArray[np.int64]
    first: NDArray[np.int64]
    rows: NDArray[np.int64]
    checks: NDArray[np.int64]
    checked_columns: int

    @property
    def count(self) -> int:
        """The number of rows."""
        return int(self.rows.sum())

    @cached_property
    def by_row(self) -> NDArray[np.int64]:
        """The records in the order of their rows."""
        return np.argsort(self.first, kind="stable")

    @property
    def parts(self) -> int:
        """The number of partitions, empty ones at the end apart."""
        return int(self.part.max(initial=-1)) + 1

    def number(self, part: int, at: int) -> int:
        """The number of a record."""
        begin, end = np.searchsorted(self.part, [part, part + 1]).tolist()
        if not begin <= begin + at < end:
            raise _moved()
        return int(begin) + at

    def numbers(self, number: int) -> slice:
        """The numbers of the rows of a record."""
        first = int(self.first[number])
        return slice(first, first + int(self.rows[number]))

    def check(self, number: int, which: int, found: int) -> None:
        """Refuse a record that has not the check sum that it had when it was first seen."""
        if found != int(self.checks[number, which]):
            raise _moved()

    def pieces(self, batches: Batches) -> Iterator[Piece]:
        """Records one by one, checked; batches begin with partition, place and cells."""
        with single_threaded_blas():
            for batch in batches:
                for k in range(batch.num_rows):
                    part, at, content = (batch.column(j)[k] for j in range(3))
                    number = self.number(part.as_py(), at.as_py())
                    rows = self.numbers(number)
                    size = rows.stop - rows.start
                    bytes_ = content.as_buffer()
                    self.check(number, 0, zlib.crc32(memoryview(bytes_)[: 8 * self.checked_columns * size]))
                    cells = np.frombuffer(bytes_, dtype=np.float64).reshape(-1, size)
                    RemoteColumn.at_hand = rows, cells
                    try:
                        yield Piece(number, rows, cells)
                    finally:
                        RemoteColumn.at_hand = None


def _moved() -> DataError:
    return DataError(
        "Spark has read the rows once more, and they came in another order or changed",
        "write them to Parquet, and protect that; or sort them by a key",
    )


@dataclass(frozen=True, repr=False)
class Packing:
    """Rows to records. A batch has perhaps the file of each row and the row in it, then the cells, and the rest.

    The partition is that of the task: Spark computes a column of it on the driver for rows that are there, as one.
    """

    width: int
    rows: int
    from_files: bool
    forms: Mapping[int, CellForm] = field(default_factory=dict)
    """Columns that are no numbers, by their place among the cells, and how they become some."""

    def __call__(self, batches: Batches) -> Batches:
        """Records of so many rows; a new one begins where the rows of a file do not go on."""
        from pyspark import TaskContext

        held: list[pa.RecordBatch] = []
        at = place = start = length = seen = 0
        task = TaskContext.get()
        if task is None:
            raise RuntimeError("records are packed by the workers of Spark")
        part = task.partitionId()
        for batch in batches:
            for piece in self._runs(batch):
                where, row = self._found(piece) if self.from_files else (part, seen)
                seen += piece.num_rows
                if held and (where != place or row != start + length):
                    yield self._record(part, at, place, start, held)
                    held, at = [], at + 1
                while piece.num_rows:
                    if not held:
                        place, start, length = where, row, 0
                    held.append(piece.slice(0, self.rows - length))
                    taken = held[-1].num_rows
                    length, row, piece = length + taken, row + taken, piece.slice(taken)
                    if length == self.rows:
                        yield self._record(part, at, place, start, held)
                        held, at = [], at + 1
        if held:
            yield self._record(part, at, place, start, held)

    def _runs(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Parts of a batch in which rows of one file follow each other."""
        if not self.from_files:
            yield batch
            return
        places, rows = batch.column(0).to_numpy(), batch.column(1).to_numpy()
        breaks = np.flatnonzero((np.diff(rows) != 1) | (np.diff(places) != 0)) + 1
        ends = [*breaks.tolist(), batch.num_rows]
        for begin, end in zip([0, *ends[:-1]], ends, strict=True):
            yield batch.slice(begin, end - begin)

    @staticmethod
    def _found(piece: pa.RecordBatch) -> tuple[int, int]:
        return (piece.column(0)[0].as_py(), piece.column(1)[0].as_py()) if piece.num_rows else (0, 0)

    def _record(self, part: int, at: int, place: int, start: int, held: list[pa.RecordBatch]) -> pa.RecordBatch:
        own = 2 if self.from_files else 0
        rows = sum(piece.num_rows for piece in held)
        cells = np.empty((self.width, rows))
        for j in range(self.width):
            np.concatenate([numbers_in(piece.column(own + j), self.forms.get(j)) for piece in held], out=cells[j])
        others = list(range(own + self.width, held[0].num_columns))
        rest = pa.Table.from_batches([piece.select(others) for piece in held])
        content = cells.tobytes()
        checks = zlib.crc32(content), rest_check(rest)
        columns = [part, at, place, start, rows, *checks, content, _as_bytes(rest) if others else b""]
        return _one_row(columns, RECORD)


def numbers_in(column: Any, form: CellForm | None) -> Array:
    """A column as doubles; one of dates, times or labels by its form."""
    if form is None:
        return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
    return form.steps(column)


def rest_check(rest: pa.Table | pa.RecordBatch) -> int:
    """A check sum of cells that are no numbers.

    It is of the cells, not of their bytes: in these, what lies past the end of a bitmap or beneath a missing cell is
    whatever the memory held, and differs when the same rows are read again.
    """
    if not rest.num_columns:
        return 0
    frame = pl.DataFrame(pl.from_arrow(rest))
    return zlib.crc32(frame.hash_rows(seed=0).to_numpy().tobytes())


def _as_bytes(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue()


def _one_row(values: Sequence[Any], schema: str) -> pa.RecordBatch:
    return batch_of([[value] for value in values], schema)


def batch_of(columns: Sequence[Any], schema: str) -> pa.RecordBatch:
    """A batch of a schema in Spark's words."""
    types = {"int": pa.int32(), "long": pa.int64(), "binary": pa.binary()}
    fields = [pa.field(name, types[kind]) for name, kind in (word.split() for word in schema.split(", "))]
    arrays = [
        values if isinstance(values, pa.Array) else pa.array(values, field.type)
        for values, field in zip(columns, fields, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def chosen(cells: Array, places: Sequence[int]) -> Array:
    """Some columns of a record; a view where they lie side by side."""
    first = places[0] if places else 0
    if list(places) == list(range(first, first + len(places))):
        return cells[first : first + len(places)]
    return cells[list(places)]


Make = Callable[[Piece], Summary]


def reduce_records(layout: RecordLayout, make: Make, fold: Fold, batches: Batches) -> Batches:
    """Records of a partition to one summary, or to nothing where it is empty.

    `make` gives the summary of a record, and `fold` one of several; `batches` have partition, place and cells.
    """
    held: list[Summary] = []
    first: int | None = None
    for piece in layout.pieces(batches):
        first = piece.number if first is None else first
        held.append(make(piece))
        if len(held) == FOLD_EVERY:
            held = [fold(held)]
    if first is not None:
        yield _one_row([int(layout.part[first]), first, packed(fold(held))], SUMMARY)


def fold_neighbours(fold: Fold, batches: Batches) -> Batches:
    """Summaries of neighbouring partitions to one, in their order: one for each group of partitions."""
    rows = (row for batch in batches for row in batch.to_pylist())
    for group, members in groupby(rows, lambda row: row["part"]):
        held = list(members)
        yield _one_row([group, held[0]["number"], packed(fold([unpacked(row["summary"]) for row in held]))], SUMMARY)


def packed(summary: Summary) -> bytes:
    """A summary as bytes."""
    file = io.BytesIO()
    np.savez(file, *summary, allow_pickle=False)
    return file.getvalue()


def unpacked(content: bytes) -> Summary:
    """A summary from its bytes."""
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return list(arrays.values())


@dataclass(frozen=True, repr=False)
class Making:
    """What is made of the rows of a record: columns by their places, weights as a column."""

    of: RowMap
    places: Sequence[int]
    weights: Array | None = None

    def made(self, piece: Piece) -> Array:
        """The row map's result."""
        return self.of(chosen(piece.cells, self.places), piece.rows)

    def as_it_is(self, piece: Piece) -> Summary:
        """As it is, to be folded."""
        return [np.asarray(self.made(piece), dtype=np.float64)]

    def moments(self, piece: Piece) -> Summary:
        """Its moments."""
        made = self.made(piece)
        weights = None if self.weights is None else self.weights[piece.rows]
        return _as_summary(moments(lambda rows: made[:, rows], made.shape[1], weights=weights))

    def profile(self, piece: Piece) -> Summary:
        """Its moments, extremes and fingerprint."""
        weights = None if self.weights is None else self.weights[piece.rows]
        found = Matrix(list(self.made(piece))).profile(weights)
        fingerprint = np.array(found.fingerprint, dtype=np.uint64)
        return [*_as_summary(found.moments), found.minimum, found.maximum, fingerprint]


def _as_summary(found: Moments) -> Summary:
    return [np.array(found.weight), found.shift, found.offset, found.comoment]


def as_moments(summary: Summary) -> Moments:
    """The moments in a summary."""
    return Moments(float(summary[0]), *summary[1:4])


def as_profile(summary: Summary) -> Profile:
    """The profile in a summary."""
    return Profile(as_moments(summary), summary[4], summary[5], int(summary[6]))


def fold_by(fold: Callable[[list[Array]], Array], parts: Sequence[Summary]) -> Summary:
    """What was made of records, in one."""
    return [fold([made for (made,) in parts])]


def fold_moments(parts: Sequence[Summary]) -> Summary:
    """Moments of all rows together."""
    return _as_summary(merged([as_moments(part) for part in parts]))


def fold_profiles(parts: Sequence[Summary]) -> Summary:
    """Moments, extremes and the fingerprint of all rows together."""
    folds = (np.fmin, np.fmax, np.add)  # a fingerprint wraps around, as it should
    return [*fold_moments(parts), *(fold.reduce([part[4 + j] for part in parts]) for j, fold in enumerate(folds))]


def pick_rows(layout: RecordLayout, made: Making, wanted: NDArray[np.intp], batches: Batches) -> Batches:
    """What is `made` of the `wanted` rows of each record, for the driver; `batches` are those of `reduce_records`."""
    for piece in layout.pieces(batches):
        begin, end = np.searchsorted(wanted, [piece.rows.start, piece.rows.stop]).tolist()
        if begin < end:
            picked = made.made(piece)[:, wanted[begin:end] - piece.rows.start]
            yield _one_row([int(layout.part[piece.number]), begin, packed([picked])], SUMMARY)


@dataclass(frozen=True, repr=False)
class ReleasedColumns:
    """The columns of a release: their types, and how they are made."""

    types: Mapping[str, pa.DataType | None]
    """All of them, in their order, with the types of those that are new."""

    protected: Sequence[str]
    others: Sequence[str]
    """Columns that come with a record, besides its numbers."""

    times: Mapping[str, TimeForm]
    keys: Mapping[str, bytes]
    """By which columns are numbered anew."""

    from_dates: Sequence[DateRule]
    labels: Mapping[str, pa.Array]
    """The levels of labels, whose numbers come after those that are protected."""

    def cells(self, values: Array, others: Sequence[pa.Array]) -> list[pa.Array]:
        """All columns of some rows, from protected numbers, those of labels, and from what came with them."""
        numbers, codes = np.split(values, [len(self.protected)])
        new = {n: np.round(v) if n in self.times else v for n, v in zip(self.protected, numbers, strict=True)}
        found = dict(zip(self.others, others, strict=True))
        for (name, levels), own in zip(self.labels.items(), codes, strict=True):
            found[name] = levels.take(pa.array(own.astype(np.int64)))
        found |= {name: _numbered(found[name], key) for name, key in self.keys.items()}
        for name, cells in new.items():
            is_time = name in self.times
            found[name] = self.times[name].stored(cells) if is_time else pa.array(cells, mask=np.isnan(cells))
        for rule in self.from_dates:
            found[rule.column] = pa.array(rule.computed(lambda date: as_days(self.times[date], new[date])))
        return [found[name] if kind is None else found[name].cast(kind) for name, kind in self.types.items()]


def _numbered(cells: pa.Array, key: bytes) -> pa.Array:
    """Identifiers by secret numbers of their own."""
    encoded = plain_cells(cells).dictionary_encode()
    numbers = pa.array([secret_number(cell, key) for cell in encoded.dictionary.to_pylist()], pa.int64())
    return numbers.take(encoded.indices)


def release_rows(layout: RecordLayout, made: Making, columns: ReleasedColumns, batches: Batches) -> Batches:
    """Records to rows again, a batch for each: what is `made` in the confidential columns, and all others.

    Batches begin with partition, place and cells, and end with the rest.
    """
    for batch in batches:
        for k, piece in enumerate(layout.pieces(iter([batch]))):
            rest = batch.column(3)[k].as_buffer()
            others = []
            if rest.size:
                read = pa.ipc.open_stream(rest).read_next_batch()
                layout.check(piece.number, 1, rest_check(read))
                others = read.columns
            cells = columns.cells(made.made(piece), others)
            yield pa.RecordBatch.from_arrays(cells, names=list(columns.types))
