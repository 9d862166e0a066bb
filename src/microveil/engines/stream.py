"""The streaming engine: a file read once onto a disk table, protected there, and written batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import IO, ClassVar

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.late import pa
from microveil.engines.disk import DiskTable, batch_rows
from microveil.engines.out_of_core import RemoteOutcome, with_stored_digits
from microveil.engines.release_check import Evidence, RemoteComparison
from microveil.engines.rows import Progress
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
from microveil.io.blocks import BlockSource, Labels
from microveil.io.frames.dataframes import SAMPLE
from microveil.storage.disk_columns import DiskColumn, LabelColumn, Shelf, on_disk


@dataclass(frozen=True, repr=False)
class FileSource(BatchedSource[BlockSource]):
    """A file that is read block by block; the columns that are needed go onto a disk."""

    shelf: Shelf
    progress: Progress = lambda *_: None
    in_memory: ClassVar[bool] = False

    def number_batches(self, names: Sequence[str]) -> Iterator[Cells]:
        """Some columns of numbers, as many rows at a time as the memory allows."""
        for batch in self.opened.batches(list(names), batch_rows(len(self.names), self.shelf.memory)):
            yield {name: self.opened.numbers(name, batch.column(name))[0] for name in names}

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
    ) -> tuple[dict[str, DiskColumn], set[str], dict[str, Labels]]:
        """Columns on a disk (labels by their numbers), the names of those that vary, and the labels."""
        source, columns = self.opened, {name: self.shelf.column() for name in (*names, *labels)}
        first: dict[str, float] = {}
        varying: set[str] = set()
        found = {name: Labels() for name in labels}
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

    words: Sequence[pa.RecordBatch] = ()
    """Cells of columns that are not numbers, from all over the file."""


def write_blocks(
    columns: FileSource, intake: Intake, outcome: RemoteOutcome, sampled: NDArray[np.intp], file: IO[bytes]
) -> Written:
    """Write the released rows, with the columns that stay as they are, batch by batch.

    While a batch is written the next is made and compared with the original, and rows that are `sampled` are kept.
    """
    source, table, released = columns.opened, intake.table, outcome.table
    if not (isinstance(table, DiskTable) and isinstance(released, DiskTable)):
        raise TypeError("this engine writes tables on a disk")
    names = table.confidential_names
    kept = [name for name in source.names if name not in set(names)]
    batches = list(table.batches(2 * len(source.names)))
    rows = batches[0].stop
    unchanged: Iterator[pa.RecordBatch | None] = source.batches(kept, rows) if kept else repeat(None)
    sink = source.sink(file, names)
    comparison = RemoteComparison(table, intake.profile.moments)
    wanted = np.arange(table.count) if comparison.of_rows else sampled
    short = {number: sink.short[name] for number, name in enumerate(names) if name in sink.short}
    stored = partial(with_stored_digits, outcome.released, short)

    def see(made: Array, piece: slice) -> tuple[Array, Array, Array]:
        cells = table.values.piece(piece)
        first, last = np.searchsorted(wanted, [piece.start, piece.stop])
        places = wanted[first:last] - piece.start
        return comparison.sums(cells, made, piece), cells[:, places], made[:, places]

    def made(batch: slice) -> tuple[Array, list[tuple[Array, Array, Array]]]:
        values = np.empty((len(names), batch.stop - batch.start))
        return values, released.made(stored, batch, values, see, first=outcome.released.reads)

    words = [name for name in kept if not source.is_numeric(name)]
    apart = max(-(-table.count // SAMPLE), 1)
    some: list[pa.RecordBatch] = []
    seen: list[tuple[Array, Array, Array]] = []
    with ThreadPoolExecutor(1) as ahead:
        coming = ahead.submit(made, batches[0])
        for number, batch in enumerate(batches):
            values, seen_in_batch = coming.result()
            seen += seen_in_batch
            if number + 1 < len(batches):
                coming = ahead.submit(made, batches[number + 1])
            others = next(unchanged)
            if words and others is not None:
                some.append(others.select(words).take(np.arange(-batch.start % apart, others.num_rows, apart)))
            sink.write(others, dict(zip(names, values, strict=True)))
            columns.progress("writing the file", 0.6 + 0.4 * batch.stop / table.count)
    sink.close()
    sums, before, after = zip(*seen, strict=True)
    proof, odd = comparison.conclusion(np.sum(sums, axis=0), np.hstack(after))
    return Written(proof, odd, np.hstack(before), np.hstack(after), bool(short), words=some)
