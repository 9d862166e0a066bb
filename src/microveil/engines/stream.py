"""The streaming engine: a file read once onto a disk table, protected there, and written batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import repeat
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.core.profile import Scan, scan
from microveil.core.rng import ROWS_PER_BLOCK
from microveil.engines.disk import SHARE, DiskTable
from microveil.engines.out_of_core import FarOutcome
from microveil.engines.out_of_core_checks import (
    check_columns,
    check_count,
    check_declares_sums,
    check_roles,
    has_missing,
    public_codes,
)
from microveil.engines.pipeline import Progress
from microveil.engines.release_check import Evidence, RemoteComparison
from microveil.intake.intake import Intake, Rules, dictionary_for
from microveil.intake.model_matrix import MOST_LEVELS, check_levels, check_rare, check_room
from microveil.intake.roles import Roles
from microveil.io.blocks import BlockSource, Labels
from microveil.io.dictionary import Dictionary, declared_rules, watched_rules
from microveil.io.frames.dataframes import SAMPLE
from microveil.methods import Plan
from microveil.rules.column_rules import ColumnRules
from microveil.rules.linear_rules import Dependence, dependence_among
from microveil.storage.disk_columns import BYTES, DiskColumn, LabelColumn, Shelf, on_disk

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ROWS = 2**20
"""Rows of a batch at most: more would make no difference to anything but the memory."""


def take_in_blocks(source: BlockSource, roles: Roles, rules: Rules, shelf: Shelf, tell: Progress) -> Intake:
    """The columns that are needed onto a disk, checked as those of a table in memory are."""
    check_roles(roles)
    numbers, labels = _public(roles)
    weight = () if roles.weight is None else (roles.weight,)
    columns, found = _read(source, [*numbers, *roles.confidential, *weight], labels, shelf, tell)
    check_count(source.count)
    regressors: list[tuple[str, DiskColumn | LabelColumn]] = [(name, columns[name]) for name in numbers]
    for name in labels:
        check_levels("public", [name], len(found[name].rows))
        check_rare("public", name, np.array(found[name].rows))
        # The first label is told by the others, all 0.
        regressors += [(name, LabelColumn(columns[name], code)) for code in found[name].in_order()[1:]]
    check_room(source.count, "public", len(regressors))
    table = DiskTable(
        on_disk([*(column for _, column in regressors), *(columns[name] for name in roles.confidential)]),
        (*(name for name, _ in regressors), *roles.confidential),
        len(regressors),
        _weights(columns, roles.weight),
        shelf=shelf,
    )
    tell("measuring", 0.15)
    table, look = _scanned(table)
    dictionary, inferred = dictionary_for(rules, source.names)
    told = public_codes(table, look) if inferred else {}
    return Intake(table, look, {}, told, dict.fromkeys(roles.confidential), _known(dictionary, table))


def _public(roles: Roles) -> tuple[list[str], list[str]]:
    """The public columns that are numbers, and those that are labels."""
    factors = [product[0] for product in roles.public.products]
    numbers = [factor.column for factor in factors if not factor.labels]
    return numbers, [factor.column for factor in factors if factor.labels]


def _scanned(table: DiskTable) -> tuple[DiskTable, Scan]:
    """The table without public columns that are constant, after a look at all rows."""
    look = scan(table)
    check_columns(table, look)
    flat = [number for number in range(table.public) if look.minimum[number] == look.maximum[number]]
    if not flat:
        return table, look
    kept = [number for number in range(len(table.names)) if number not in flat]
    names = tuple(table.names[number] for number in kept)
    table = replace(table, values=table.values.select(kept), names=names, public=table.public - len(flat))
    return table, scan(table)


def _read(
    source: BlockSource, names: Sequence[str], labels: Sequence[str], shelf: Shelf, tell: Progress
) -> tuple[dict[str, DiskColumn], dict[str, Labels]]:
    """Some columns of a file on a disk: numbers as doubles, labels by their numbers."""
    columns = {name: shelf.column() for name in (*names, *labels)}
    found = {name: Labels() for name in labels}
    for batch in source.batches(list(columns), batch_rows(len(columns), shelf.memory)):
        for name in names:
            numbers, missing = source.numbers(name, batch.column(name))
            if missing:
                raise has_missing(name)
            columns[name].append(numbers)
        for name in labels:
            columns[name].append(found[name].codes(batch.column(name)))
            if len(found[name].rows) > MOST_LEVELS:
                check_levels("public", [name], len(found[name].rows))
        tell("reading the file", 0.15 * min(columns[names[0]].size / source.count, 1.0))
    return columns, found


def batch_rows(width: int, memory: int) -> int:
    """Rows of a batch of so many columns: whole blocks, as the memory allows."""
    rows = memory // SHARE // (BYTES * max(width, 1)) // 2
    return int(min(max(rows // ROWS_PER_BLOCK, 1) * ROWS_PER_BLOCK, MOST_ROWS))


def _weights(columns: Mapping[str, DiskColumn], name: str | None) -> Array | None:
    """Survey weights, which are needed with every piece: they are held in memory."""
    if name is None:
        return None
    weights = columns[name][:]
    if not np.isfinite(weights).all() or (weights <= 0).any():
        raise DataError(f"weight: column '{name}' has cells that are missing or not above 0", "give every row a weight")
    scaled: Array = weights / weights.mean()
    return scaled


def _known(dictionary: Dictionary, table: DiskTable) -> ColumnRules:
    """Sums that were declared; what else a dictionary can declare needs whole columns."""
    check_declares_sums(dictionary)
    columns = dict(zip(table.confidential_names, table.confidential.columns, strict=True))
    return ColumnRules(sums=declared_rules(dictionary, columns), watched=watched_rules(dictionary, columns))


def dependence_of(plan: Plan, table: DiskTable, look: Scan, known: ColumnRules) -> Dependence:
    """Columns that vary and stand for themselves, and rules for those that follow from them by a sum."""
    varying = [j - table.public for j in look.varying() if j >= table.public]
    # A rule is about rows: each counts once.
    summary = None if table.weights is not None else look.moments.select([table.public + j for j in varying])
    return dependence_among(
        table.confidential, varying, None, known.sums, summary=summary, ordered=plan.decompose.ordered
    )


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
    source: BlockSource, intake: Intake, outcome: FarOutcome, sampled: NDArray[np.intp], file: IO[bytes], tell: Progress
) -> Written:
    """The released rows, and beside them the columns that stay as they are, batch by batch.

    While a batch is written the next is made and compared with the original, and rows that are `sampled` are kept.
    """
    table, far = intake.table, outcome.table
    if not (isinstance(table, DiskTable) and isinstance(far, DiskTable)):
        raise TypeError("this engine writes tables on a disk")
    names = table.confidential_names
    kept = [name for name in source.names if name not in set(names)]
    rows = batch_rows(2 * len(source.names), table.shelf.memory)
    batches = [slice(start, min(start + rows, table.count)) for start in range(0, table.count, rows)]
    unchanged: Iterator[pa.RecordBatch | None] = source.batches(kept, rows) if kept else repeat(None)
    sink = source.sink(file, names)
    comparison = RemoteComparison(table, intake.look.moments)
    watching = Watching(table, comparison, np.arange(table.count) if comparison.of_rows else sampled)

    short = {number: sink.short[name] for number, name in enumerate(names) if name in sink.short}

    def stored(cells: Array, rows: slice) -> Array:
        values = outcome.released(cells, rows)
        for number, kind in short.items():
            values[number] = values[number].astype(kind)
        return values

    def made(batch: slice) -> tuple[Array, list[Seen]]:
        values = np.empty((len(names), batch.stop - batch.start))
        return values, far.made(stored, batch, values, watching.see, first=outcome.released.reads)

    words = [name for name in kept if not source.is_numeric(name)]
    apart = max(-(-table.count // SAMPLE), 1)
    some: list[pa.RecordBatch] = []
    seen: list[Seen] = []
    with ThreadPoolExecutor(1) as ahead:
        coming = ahead.submit(made, batches[0])
        for number, batch in enumerate(batches):
            values, said = coming.result()
            seen += said
            if number + 1 < len(batches):
                coming = ahead.submit(made, batches[number + 1])
            others = next(unchanged)
            if words and others is not None:
                some.append(others.select(words).take(np.arange(-batch.start % apart, others.num_rows, apart)))
            sink.write(others, dict(zip(names, values, strict=True)))
            tell("writing the file", 0.6 + 0.4 * batch.stop / table.count)
    sink.close()
    return replace(watching.seen(seen, rounded=bool(short)), words=some)


class Seen(NamedTuple):
    """What was seen of a piece: sums of a comparison, and the rows of the sample before and after."""

    sums: Array
    before: Array
    after: Array


@dataclass(frozen=True, repr=False)
class Watching:
    """Looks at released rows as they pass."""

    table: DiskTable
    comparison: RemoteComparison
    sampled: NDArray[np.intp]

    def see(self, made: Array, piece: slice) -> Seen:
        """Compare a piece with the original, and keep its rows of the sample."""
        cells = self.table.values.piece(piece)
        first, last = np.searchsorted(self.sampled, [piece.start, piece.stop])
        places = self.sampled[first:last] - piece.start
        return Seen(self.comparison.sums(cells, made, piece), cells[:, places], made[:, places])

    def seen(self, parts: Sequence[Seen], *, rounded: bool) -> Written:
        """All pieces in one."""
        before, after = (np.hstack(cells) for cells in zip(*(part[1:] for part in parts), strict=True))
        proof, odd = self.comparison.conclusion(np.sum([part.sums for part in parts], axis=0), after)
        return Written(proof, odd, before, after, rounded)
