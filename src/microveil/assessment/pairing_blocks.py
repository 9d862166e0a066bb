"""Two files side by side that may be larger than the memory: the columns of both go onto a disk.

What is compared, refused and told is the same as for two tables in memory (`pair`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import numpy as np

from microveil.assessment.pairing import (
    Pair,
    about_codes,
    about_left_out,
    about_sensitive,
    check_columns,
    check_size,
    check_unit,
    compared,
    places_of,
    told_moved,
    told_same,
)
from microveil.core.arrays import Array
from microveil.core.sorted_columns import pieces_of
from microveil.core.table import Matrix
from microveil.core.threads import in_threads
from microveil.intake.intake import Rules, dictionary_for
from microveil.intake.roles import Choice, named, regressed
from microveil.io.blocks import BlockSource
from microveil.io.dictionary import find_codes
from microveil.io.frames.dataframes import open_frame
from microveil.measures.base import scales
from microveil.storage.disk_columns import BYTES, DiskColumn, Shelf
from microveil.storage.remote_table import RemoteMatrix

Tell = Callable[[str, float], None]

SHARE = 32
"""Of the memory allowed, one part in so many is for a batch of rows: the reader holds some, and so do conversions."""

FEWEST_ROWS, MOST_ROWS = 2**12, 2**18


class Shown:
    """The columns of a file, and what its first rows look like."""

    def __init__(self, source: BlockSource) -> None:
        self.source, self.names = source, list(source.names)
        self.first = open_frame(source.head())

    def is_numeric(self, name: str) -> bool:
        """Does the column hold numbers?"""
        return self.source.is_numeric(name)

    def looks_numeric(self, name: str) -> bool:
        """Does a column of text look like one of numbers?"""
        return self.first.looks_numeric(name)


def pair_up_blocks(
    original: BlockSource,
    released: BlockSource,
    *,
    confidential: Choice,
    public: Choice,
    rules: Rules,
    sensitive: Choice = None,
    shelf: Shelf,
    tell: Tell,
) -> Pair:
    """Match the columns of two files; by default those that are numeric in both and not public."""
    shown = Shown(original), Shown(released)
    numeric = {name: original.is_numeric(name) for name in original.names}
    known = regressed(numeric, "public", public).columns
    asked = confidential is not None
    names = named(numeric, "confidential", confidential) if asked else compared(*shown, known)
    check_columns(*shown, names, known)
    hidden = places_of(sensitive, numeric, names)
    beside = [name for name in known if numeric[name] and released.is_numeric(name)]
    before = _read(original, [*names, *beside], shelf, lambda done: tell("reading the original", done / 2))
    after = _read(released, [*names, *beside], shelf, lambda done: tell("reading the release", (1 + done) / 2))
    changed = _differing(beside, before[len(names) :], after[len(names) :])
    before, after = before[: len(names)], after[: len(names)]
    codes = _codes(original, names, before, rules)
    for name, found in codes.items():
        for columns in (before, after):
            _blank(columns[names.index(name)], found)
    old, new = (RemoteMatrix(cast(Sequence[Array], columns), shelf=shelf) for columns in (before, after))
    _check_values(names, old, new)
    moved = set(_differing(names, before, after))
    notes = [
        *about_sensitive(names, hidden),
        *([] if asked else about_left_out(*shown)),
        *about_codes(codes),
        *told_same([name for name in names if name not in moved]),
        *(told_moved(changed) if original.count == released.count else []),
    ]
    return Pair(names, old, new, notes, hidden)


def _read(source: BlockSource, names: Sequence[str], shelf: Shelf, told: Callable[[float], None]) -> list[DiskColumn]:
    """Some columns of a file as doubles on a disk, NaN where a cell is missing."""
    columns = {name: shelf.column() for name in names}
    rows = min(max(shelf.memory // SHARE // (BYTES * len(columns)), FEWEST_ROWS), MOST_ROWS)
    for batch in source.batches(list(columns), rows):
        for name, column in columns.items():
            column.append(source.numbers(name, batch.column(name))[0])
        told(min(column.size / source.count, 1.0))  # of a file of text, the rows are not known before
    return list(columns.values())


def _differing(names: Sequence[str], before: Sequence[DiskColumn], after: Sequence[DiskColumn]) -> list[str]:
    """Columns that are not the same in both files, cell by cell."""
    return [name for name, old, new in zip(names, before, after, strict=True) if not _same(old, new)]


def _same(old: DiskColumn, new: DiskColumn) -> bool:
    pairs = zip(old.pieces(), new.pieces(), strict=False)
    return old.size == new.size and all(np.array_equal(first, second, equal_nan=True) for first, second in pairs)


def _codes(
    original: BlockSource, names: Sequence[str], columns: Sequence[DiskColumn], rules: Rules
) -> dict[str, tuple[float, ...]]:
    """The special codes of each column: found in the original, or as the dictionary says."""
    dictionary, inferred = dictionary_for(rules, original.names)
    if not inferred:
        return {name: dictionary.codes(name) for name in names if dictionary.codes(name)}
    held = Matrix(cast(Sequence[Array], columns))
    tasks = [partial(_codes_in, held, number) for number in range(len(columns))]
    found = in_threads(tasks, small=original.count < MOST_ROWS)
    return {name: codes for name, codes in zip(names, found, strict=True) if codes}


def _codes_in(columns: Matrix, number: int) -> tuple[float, ...]:
    return find_codes(columns, number, *_extremes(columns.columns[number]))


def _blank(column: DiskColumn, codes: Sequence[float]) -> None:
    """Cells that hold a code become missing."""
    start = 0
    for piece in column.pieces():
        column.write(start, np.where(np.isin(piece, codes), np.nan, piece))
        start += piece.size


def _check_values(names: Sequence[str], before: RemoteMatrix, after: RemoteMatrix) -> None:
    """Infinite cells, columns in different units, and tables in which nothing varies."""
    for which, table in (("original", before), ("released", after)):
        small = table.shape[0] < MOST_ROWS
        extremes = in_threads([partial(_extremes, column) for column in table.columns], small=small)
        for name, ends in zip(names, extremes, strict=True):
            check_size(which, name, max(map(abs, ends)))
    for number, (mean, sd) in scales(before, needed=True).items():
        check_unit(names[number], max(abs(end - mean) for end in extremes[number]) / sd)


def _extremes(column: Array) -> tuple[float, float]:
    """The least and the largest cell that is there; zeros if none is."""
    ends = [(np.nanmin(piece), np.nanmax(piece)) for piece in pieces_of(column) if not np.isnan(piece).all()]
    return (float(min(end[0] for end in ends)), float(max(end[1] for end in ends))) if ends else (0.0, 0.0)
