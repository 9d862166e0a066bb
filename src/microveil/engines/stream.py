"""The streaming engine: a file read once onto a disk table, protected there, and written batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.dependence import Dependence, LinearRule, find_dependence
from microveil.core.errors import DataError, ParameterError
from microveil.core.evidence import Comparison, Evidence
from microveil.core.knowledge import Knowledge
from microveil.core.moments import moments
from microveil.core.rng import ROWS_PER_BLOCK
from microveil.core.roles import Roles
from microveil.core.scan import Scan, scan
from microveil.core.shelf import BYTES, DiskColumn, Shelf, on_disk
from microveil.data.blocks import BlockSource, as_numbers
from microveil.data.dictionary import Dictionary, find_codes
from microveil.data.intake import Intake, Rules, dictionary_for
from microveil.data.limits import SMALLEST_TABLE, check_values
from microveil.engines.disk import SHARE, DiskTable
from microveil.engines.pipeline import Progress
from microveil.engines.scale import FarOutcome
from microveil.methods import Plan

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK = 65_536
"""Rows from each end and the middle of a column in which special codes are looked for."""

HOLDS = 1e-9
"""Share of the sizes of its terms to which a declared sum must hold."""

NOTHING = np.empty(0)

MOST_ROWS = 2**20
"""Rows of a batch at most: more would make no difference to anything but the memory."""


def take_in_blocks(
    source: BlockSource, roles: Roles, rules: Rules, folder: Path, memory: int, tell: Progress
) -> Intake:
    """The columns that are needed onto a disk, checked as those of a table in memory are."""
    _check_roles(roles)
    if source.count < SMALLEST_TABLE:
        raise DataError(f"data: has {source.count} rows", f"at least {SMALLEST_TABLE} are needed to hide one")
    public = roles.public.columns
    weight = () if roles.weight is None else (roles.weight,)
    shelf = Shelf(source.count, folder, memory)
    columns = _read(source, [*public, *roles.confidential, *weight], shelf, tell)
    table = DiskTable(
        on_disk([columns[name] for name in (*public, *roles.confidential)]),
        (*public, *roles.confidential),
        len(public),
        _weights(columns, roles.weight),
        shelf=shelf,
    )
    tell("measuring", 0.15)
    look = scan(table)
    _check_columns(table, look)
    dictionary, inferred = dictionary_for(rules, source.names)
    if inferred:
        _check_codes(table, look)
    return Intake(table, look, {}, {}, dict.fromkeys(roles.confidential), _known(dictionary, table))


def _check_roles(roles: Roles) -> None:
    """What rows that come in blocks cannot be asked for."""
    if roles.strata:
        raise ParameterError("strata: go with engine='memory' only", "protect a file for each stratum, or use memory")
    if any(len(product) > 1 or product[0].labels for product in roles.public.products):
        raise ParameterError(
            "public: with rows in blocks, only columns of numbers can be regressed on, and no products of them",
            "use engine='memory', or add columns of 0 and 1 to the file",
        )


def _read(source: BlockSource, names: Sequence[str], shelf: Shelf, tell: Progress) -> dict[str, DiskColumn]:
    """Some columns of a file as doubles on a disk."""
    columns = {name: DiskColumn(0, shelf.folder) for name in names}
    for batch in source.batches(list(columns), batch_rows(len(columns), shelf.memory)):
        for name, column in columns.items():
            numbers, missing = as_numbers(batch.column(name))
            if missing:
                raise _missing(name)
            column.append(numbers)
        tell("reading the file", 0.15 * column.size / source.count)
    return columns


def _missing(name: str) -> DataError:
    return DataError(
        f"column '{name}' has missing cells, and rows that come in blocks must be whole",
        "use engine='memory', or leave the column out",
    )


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


def _check_columns(table: DiskTable, look: Scan) -> None:
    """Cells that are missing, infinite or cannot be squared; and public columns that say nothing."""
    missing = set(look.missing())
    for number, name in enumerate(table.names):
        role = "public" if number < table.public else "confidential"
        low, high = _extremes(look, number)
        if np.isinf(low) or np.isinf(high):
            raise DataError(f"{role}: column '{name}' has infinite cells", "make them numbers or leave the column out")
        check_values(role, name, NOTHING, low, high)
        if number in missing:
            raise _missing(name)
        if number < table.public and low == high:
            raise DataError(f"public: column '{name}' is constant", "leave it out of public")


def _check_codes(table: DiskTable, look: Scan) -> None:
    """A special code counts as missing, and rows that come in blocks must be whole; some blocks of rows tell."""
    for number in range(table.public, len(table.names)):
        found = find_codes(_some(table.values.columns[number]), *_extremes(look, number))
        if found:
            codes = ", ".join(f"{code:g}" for code in found)
            raise DataError(
                f"column '{table.names[number]}': {codes} looks like a code for missing, and rows that come in blocks "
                "must be whole",
                "use engine='memory', or rules='none' if it is a value",
            )


def _some(column: Array) -> Array:
    """Rows from the beginning, the middle and the end of a column."""
    last = max(len(column) - BLOCK, 0)
    starts = sorted({0, last // 2, last})
    return np.concatenate([column[start : start + BLOCK] for start in starts])


def _extremes(look: Scan, number: int) -> tuple[float, float]:
    return float(look.minimum[number]), float(look.maximum[number])


def _known(dictionary: Dictionary, table: DiskTable) -> Knowledge:
    """Sums that were declared; what else a dictionary can declare needs whole columns."""
    if dictionary != Dictionary(sums=dictionary.sums):
        raise ParameterError(
            "rules: with rows in blocks, a dictionary of the columns can declare sums only", "use engine='memory'"
        )
    place = {name: j for j, name in enumerate(table.confidential_names)}
    rules = []
    for entry in dictionary.sums:
        if not {entry.total, *entry.parts} <= place.keys():
            raise ParameterError(
                f"rules: the sum for '{entry.total}' has columns that are not protected", "protect all of them, or none"
            )
        rule = LinearRule(place[entry.total], {place[name]: 1.0 for name in entry.parts})
        if rule.worst_error(table.confidential.columns) > HOLDS:
            raise DataError(
                f"rules: '{entry.total}' is not the sum of its parts in every row", "correct the rows or the rules"
            )
        rules.append(rule)
    return Knowledge(sums=rules)


def dependence_of(plan: Plan, table: DiskTable, look: Scan, known: Knowledge) -> Dependence:
    """Columns that vary and stand for themselves, and rules for those that follow from them by a sum."""
    varying = [j - table.public for j in look.varying() if j >= table.public]
    if not varying:
        raise DataError("confidential: every column is constant", "there is nothing to perturb; check the data")
    values = table.confidential.select(varying)
    summary = look.moments.select([table.public + j for j in varying])
    if table.weights is not None:
        summary = moments(values.piece, table.count)  # a rule is about rows: each counts once
    place, back = {j: at for at, j in enumerate(varying)}, dict(enumerate(varying))
    declared = [rule.renumbered(place) for rule in known.sums if {rule.column, *rule.terms} <= place.keys()]
    found = find_dependence(values, summary, declared, ordered=plan.decompose.ordered)
    rules = [rule.renumbered(back) for rule in found.rules]
    return Dependence([back[j] for j in found.independent], rules)


@dataclass(frozen=True, repr=False)
class Written:
    """What was seen while the rows were written: how they compare with the original, and a sample of both."""

    proof: Evidence
    odd: Array
    before: Array
    after: Array
    rounded: bool
    """Is some column stored with fewer digits than it was computed with?"""


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
    watching = Watching(table, Comparison(table, intake.look.moments), sampled)

    single = [number for number, name in enumerate(names) if name in sink.single]

    def stored(cells: Array, rows: slice) -> Array:
        values = outcome.released(cells, rows)
        for number in single:
            values[number] = values[number].astype(np.float32)
        return values

    def made(batch: slice) -> tuple[Array, list[Seen]]:
        values = np.empty((len(names), batch.stop - batch.start))
        return values, far.made(stored, batch, values, watching.see)

    seen: list[Seen] = []
    with ThreadPoolExecutor(1) as ahead:
        coming = ahead.submit(made, batches[0])
        for number, batch in enumerate(batches):
            values, said = coming.result()
            seen += said
            if number + 1 < len(batches):
                coming = ahead.submit(made, batches[number + 1])
            sink.write(next(unchanged), dict(zip(names, values, strict=True)))
            tell("writing the file", 0.6 + 0.4 * batch.stop / table.count)
    sink.close()
    return watching.seen(seen, rounded=bool(single))


class Seen(NamedTuple):
    """What was seen of a piece: sums of a comparison, and the rows of the sample before and after."""

    sums: Array
    before: Array
    after: Array


@dataclass(frozen=True, repr=False)
class Watching:
    """Looks at released rows as they pass."""

    table: DiskTable
    comparison: Comparison
    sampled: NDArray[np.intp]

    def see(self, made: Array, piece: slice) -> Seen:
        """Compare a piece with the original, and keep its rows of the sample."""
        cells = self.table.values.piece(piece)
        first, last = np.searchsorted(self.sampled, [piece.start, piece.stop])
        places = self.sampled[first:last] - piece.start
        return Seen(self.comparison.sums(cells, made, piece), cells[:, places], made[:, places])

    def seen(self, parts: Sequence[Seen], *, rounded: bool) -> Written:
        """All pieces in one."""
        proof, odd = self.comparison.conclusion(np.sum([part.sums for part in parts], axis=0))
        before, after = (np.hstack(cells) for cells in zip(*(part[1:] for part in parts), strict=True))
        return Written(proof, odd, before, after, rounded)
