"""Two files side by side: the same columns of both, codes and missing cells set apart, and what a reader must know.

Columns are matched by their names (by their numbers in arrays), rows by their places. Files may be in memory, or larger
than it: then the columns of both go onto a disk.

Of several releases of one file an intruder has all who kept them. Attacks that need no pairs search all released
records at once; attacks on pairs go by the mean of a record's releases, in which independent errors cancel out; and
sums that were kept exactly tell, by their difference, the record that is in one file and not in the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import cast

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError, ParameterError
from microveil.core.sorted_columns import pieces_of
from microveil.core.table import Matrix
from microveil.core.threads import in_threads
from microveil.intake.intake import Rules, dictionary_for
from microveil.intake.roles import Choice, named, regressed
from microveil.io.blocks import BlockSource
from microveil.io.dictionary import find_codes
from microveil.io.frames.dataframes import Frame, NumpyFrame, open_frame
from microveil.io.frames.validation import LARGEST
from microveil.measures.base import scales
from microveil.options import Assess
from microveil.storage.disk_columns import BYTES, DiskColumn, RemoteMatrix, Shelf

REORDERED = "most released records are records of the original from other rows: the files are not in the same order"
"""A table that was only sorted must not pass for one that is hard to link."""

BEYOND = 1e15
"""Standard deviations of the original from its mean: a released value further off is in another unit, or broken."""

SHARE = 32
"""Of the memory allowed, one part in so many is for a batch of rows: the reader holds some, and so do conversions."""

FEWEST_ROWS, MOST_ROWS = 2**12, 2**18
"""Rows of a batch; fewer rows than the most are not worth a thread."""

EXACT = 1e-6
"""Standard deviations within which the difference of two sums is a record of the original."""


class FileColumns:
    """A file that may be larger than the memory: its columns are read onto a disk, in one pass."""

    def __init__(self, source: BlockSource, shelf: Shelf, progress: Callable[[float], None]) -> None:
        self.source, self.shelf, self.progress = source, shelf, progress
        self.names, self.first = list(source.names), open_frame(source.head())

    def is_numeric(self, name: str) -> bool:
        """Does the column hold numbers?"""
        return self.source.is_numeric(name)

    def looks_numeric(self, name: str) -> bool:
        """Does a column of text look like one of numbers, by the first rows?"""
        return self.first.looks_numeric(name)

    def read(self, names: Sequence[str]) -> RemoteMatrix:
        """Some columns as doubles on a disk, NaN where a cell is missing."""
        columns = {name: self.shelf.column() for name in names}
        rows = min(max(self.shelf.memory // SHARE // (BYTES * len(columns)), FEWEST_ROWS), MOST_ROWS)
        for batch in self.source.batches(list(columns), rows):
            for name, column in columns.items():
                column.append(self.source.numbers(name, batch.column(name))[0])
            self.progress(min(column.size / self.source.count, 1.0))  # of a file of text, the rows are not known before
        return RemoteMatrix(cast(Sequence[Array], list(columns.values())), shelf=self.shelf)


ColumnSource = Frame | FileColumns
"""A file as far as its columns go: their names, and what is in them."""


@dataclass(frozen=True, repr=False)
class Pair:
    """The columns that are compared, NaN where a cell is missing or coded."""

    names: tuple[str, ...]
    original: Matrix
    released: Matrix
    notes: list[str]
    sensitive: tuple[int, ...] | None = None
    """The numbers of those that were to be hidden, if not all."""

    reordered: str = ""
    """Why rows of both files do not belong together, if they do not."""

    order_known: bool = False
    """Is it known that rows are in the same order, because the release says where they were?"""

    holdout: Matrix | None = None
    """Records of the same population that did not enter the release, to see what it tells of strangers."""

    union: Matrix | None = None
    """The records of several releases together, where there are several; `released` is then the first."""

    mean: Matrix | None = None
    """The mean of each record's releases, where all have the same rows."""

    @property
    def rows(self) -> tuple[int, int]:
        """Rows of the original and of the released file."""
        return self.original.shape[0], self.released.shape[0]


def pair_up(
    original: ColumnSource,
    released: ColumnSource,
    asked: Assess,
    *,
    order_known: bool = False,
    codes: Mapping[str, Sequence[float]] | None = None,
) -> Pair:
    """Match the columns of two files; by default those that are numeric in both and not public.

    Only of files in memory there can be a holdout, and only there it is found out whether rows are in another order
    (unless `order_known`). Special codes by column that are known already (`codes`) are not looked for.
    """
    confidential, public, sensitive = asked.confidential, asked.public, asked.sensitive
    _check_kinds(original, released)
    numeric = {name: original.is_numeric(name) for name in original.names}
    known = regressed(numeric, "public", public).columns
    chosen = confidential is not None
    names = named(numeric, "confidential", confidential) if chosen else _comparable(original, released, known)
    _check_columns(original, released, names, known)
    hidden = _places_of(sensitive, numeric, names)
    kept = [name for name in known if numeric[name] and released.is_numeric(name)]
    whole = _read(original, [*names, *kept]), _read(released, [*names, *kept], "released")
    compared, unchanged = range(len(names)), range(len(names), len(names) + len(kept))
    changed = _differing(kept, *(table.select(unchanged) for table in whole))
    tables = [table.select(compared) for table in whole]
    if codes is None:
        codes = codes_in(dict(zip(names, tables[0].columns, strict=True)), asked.rules, original.names)
    before, after = (_without_codes(table, names, codes) for table in tables)
    _check_values(names, before, after)
    moved = _differing(names, before, after)
    notes = [
        *_about("risk is that of {} alone, all else that of all columns", [names[j] for j in hidden or ()]),
        *([] if chosen else _about_left_out(original, released)),
        *_about_codes(codes),
        *_about("the same in both files, cell by cell: {}", [name for name in names if name not in moved]),
    ]
    if before.shape[0] == after.shape[0]:
        notes += _about("public, but not the same in both files: {}; are the rows in the same order?", changed)
    reordered = "" if order_known or isinstance(before, RemoteMatrix) else _reordered(before.columns, after.columns)
    strangers = None if asked.holdout is None else _held_out(original, open_frame(asked.holdout), names, codes)
    return Pair(names, before, after, notes, hidden, reordered, order_known, strangers)


def _read(source: ColumnSource, names: Sequence[str], called: str = "original") -> Matrix:
    table = Matrix([source.numbers(name) for name in names]) if isinstance(source, Frame) else source.read(names)
    if not table.shape[0]:
        raise DataError(f"the {called} file has no rows", "check that it is the right one")
    return table


def _held_out(
    original: ColumnSource, holdout: Frame, names: Sequence[str], codes: Mapping[str, Sequence[float]]
) -> Matrix:
    """The columns `names` of records that were kept back, without their `codes`."""
    _check_kinds(original, holdout)
    _check_columns(original, holdout, names, (), "held-out")
    table = _without_codes(_read(holdout, names, "held-out"), names, codes)
    _check_sizes("held-out", names, table)
    return table


def _check_kinds(original: ColumnSource, released: ColumnSource) -> None:
    """Arrays have no names to match by, only places."""
    arrays = [isinstance(source, NumpyFrame) for source in (original, released)]
    if arrays[0] != arrays[1]:
        raise DataError("one file is an array, the other has column names", "give both as arrays, or both as frames")
    widths = len(original.names), len(released.names)
    if all(arrays) and widths[0] != widths[1]:
        raise DataError(f"the arrays have {widths[0]} and {widths[1]} columns", "give the same columns of both")


def _comparable(original: ColumnSource, released: ColumnSource, public: Sequence[str]) -> tuple[str, ...]:
    """The columns that are numeric in both files, in the order of the original."""
    shared = [name for name in original.names if name in released.names and name not in public]
    names = tuple(name for name in shared if original.is_numeric(name) and released.is_numeric(name))
    if not names:
        kind = "numeric column" if shared else "column"
        raise DataError(f"the files have no {kind} in common", "check the names of the columns, and how they were read")
    return names


def _check_columns(
    original: ColumnSource,
    released: ColumnSource,
    names: Sequence[str],
    public: Sequence[str],
    called: str = "released",
) -> None:
    """Both files have these columns, and those to be compared (`names`) are numbers in both.

    `called` is what errors call the second file.
    """
    if not names:
        raise ParameterError("confidential: no column named", "name at least one, or leave it out for all numeric")
    for name in (*names, *public):
        if (*names, *public).count(name) > 1:
            raise ParameterError(f"column '{name}' is named twice", "give each column one role, once")
        if name not in released.names:
            raise DataError(f"the {called} file has no column '{name}'", "rename its columns, or leave this one out")
    for which, frame in (("original", original), (called, released)):
        for name in names:
            if not frame.is_numeric(name):
                problem = f"confidential: column '{name}' of the {which} file is not numeric"
                raise DataError(problem, "leave it out, or turn its cells into numbers first")


def _places_of(sensitive: Choice, columns: Mapping[str, bool], names: Sequence[str]) -> tuple[int, ...] | None:
    """The numbers of sensitive columns among those that are compared."""
    if sensitive is None:
        return None
    chosen = dict.fromkeys(named(columns, "sensitive", sensitive))
    if not chosen:
        raise ParameterError("sensitive: no column named", "name at least one, or leave it out for all")
    for name in chosen:
        if name not in names:
            raise ParameterError(f"sensitive: column '{name}' is not compared", "name columns that are confidential")
    return tuple(names.index(name) for name in chosen)


def _about_codes(codes: Mapping[str, Sequence[float]]) -> list[str]:
    """Numbers that were taken for codes."""
    return [
        f"column '{name}': {', '.join(f'{code:g}' for code in found)} taken for a code, not a value; such cells "
        "enter no figure (rules=None if it is a value)"
        for name, found in codes.items()
    ]


def codes_in(columns: Mapping[str, Array], rules: Rules, names: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """The special codes of each of the `columns`: found in them, or as the dictionary says that `rules` are.

    `names` are those of all columns of the file. Columns may be in memory or on a disk.
    """
    dictionary, inferred = dictionary_for(rules, names)
    found = [dictionary.codes(name) for name in columns]
    if inferred:
        table = Matrix(list(columns.values()))
        tasks = [
            partial(lambda j, column: find_codes(table, j, *_extremes(column)), j, column)
            for j, column in enumerate(table.columns)
        ]
        found = in_threads(tasks, small=table.shape[0] < MOST_ROWS)
    return {name: codes for name, codes in zip(columns, found, strict=True) if codes}


def _without_codes(table: Matrix, names: Sequence[str], codes: Mapping[str, Sequence[float]]) -> Matrix:
    """The table with NaN where a cell holds a code."""
    columns = [_blanked(column, codes.get(name, ())) for name, column in zip(names, table.columns, strict=True)]
    return replace(table, columns=columns)


def _blanked(column: Array, codes: Sequence[float]) -> Array:
    """A column without its codes; on a disk they are overwritten."""
    if not codes:
        return column
    if not isinstance(column, DiskColumn):
        return np.where(np.isin(column, codes), np.nan, column)
    start = 0
    for piece in column.pieces():
        column.write(start, np.where(np.isin(piece, codes), np.nan, piece))
        start += piece.size
    return cast(Array, column)


def _check_values(names: Sequence[str], before: Matrix, after: Matrix) -> None:
    """Infinite cells, columns in different units, and tables in which nothing varies."""
    _check_sizes("original", names, before)
    extremes = _check_sizes("released", names, after)
    for number, (mean, sd) in scales(before, needed=True).items():
        if max(abs(end - mean) for end in extremes[number]) / sd > BEYOND:
            raise DataError(f"column '{names[number]}' differs too much between the files", "give both in one unit")


def _check_sizes(which: str, names: Sequence[str], table: Matrix) -> list[tuple[float, float]]:
    """The extremes of each column. One whose values cannot be squared cannot be measured."""
    tasks = [partial(_extremes, column) for column in table.columns]
    extremes = in_threads(tasks, small=table.shape[0] < MOST_ROWS)
    for name, ends in zip(names, extremes, strict=True):
        if np.isinf(ends).any():
            problem = f"column '{name}' of the {which} file has infinite cells"
            raise DataError(problem, "make them missing, or leave the column out")
        if max(map(abs, ends)) > LARGEST:
            problem = f"column '{name}' of the {which} file is too large in its unit to be squared"
            raise DataError(problem, "give it in another unit, in both files")
    return extremes


def _extremes(column: Array) -> tuple[float, float]:
    """The least and the largest cell that is there; zeros if none is."""
    ends = [(np.nanmin(piece), np.nanmax(piece)) for piece in pieces_of(column) if not np.isnan(piece).all()]
    return (float(min(end[0] for end in ends)), float(max(end[1] for end in ends))) if ends else (0.0, 0.0)


def _about_left_out(original: ColumnSource, released: ColumnSource) -> list[str]:
    """Columns that nobody named, and that cannot be compared."""
    both = [name for name in original.names if name in released.names]
    numeric = {name: (original.is_numeric(name), released.is_numeric(name)) for name in both}
    said = {
        "the released file does not have them": [name for name in original.names if name not in released.names],
        "the original file does not have them": [name for name in released.names if name not in original.names],
        "numbers in one file, text in the other": [name for name, kinds in numeric.items() if kinds[0] != kinds[1]],
        "text that looks like numbers": [
            name for name, kinds in numeric.items() if not any(kinds) and original.looks_numeric(name)
        ],
    }
    return [note for why, names in said.items() for note in _about(f"not compared ({why}): {{}}", names)]


def _about(sentence: str, names: Sequence[str]) -> list[str]:
    """A note on some columns, if there are any."""
    return [sentence.format(", ".join(names))] if names else []


def _differing(names: Sequence[str], before: Matrix, after: Matrix) -> list[str]:
    """Columns that are not the same in both files, cell by cell."""
    differing = []
    for name, old, new in zip(names, before.columns, after.columns, strict=True):
        pieces = zip(pieces_of(old), pieces_of(new), strict=False)
        if old.size != new.size or not all(np.array_equal(*both, equal_nan=True) for both in pieces):
            differing.append(name)
    return differing


def _reordered(before: Sequence[Array], after: Sequence[Array]) -> str:
    """Are most released records, whole, those that only one other row of the original has?

    A table that was sorted is no less disclosed for it, but what compares rows with rows would not see it.
    """
    import polars as pl

    if len(before) < 2 or before[0].size != after[0].size:
        return ""
    old, new = (pl.DataFrame({str(j): cells for j, cells in enumerate(those)}).hash_rows() for those in (before, after))
    elsewhere = (new != old) & new.is_in(old.filter(old.is_unique()).implode())
    return REORDERED if 2 * int(elsewhere.sum()) >= new.len() else ""


def combined(pairs: Sequence[Pair]) -> Pair:
    """The original beside all its releases: the first for itself, all records together, and the mean of each record."""
    first, original = pairs[0], pairs[0].original
    releases = [pair.released for pair in pairs]
    disclosed = _differences(original, releases)
    by_column = list(zip(*(table.columns for table in releases), strict=True))
    union = Matrix([np.concatenate([*cells, disclosed[:, j]]) for j, cells in enumerate(by_column)])
    alike = all(pair.rows[1] == first.rows[0] and not pair.reordered for pair in pairs)
    notes = [f"{len(pairs)} releases: attacks have all of them, what a release is good for is that of the first"]
    notes += [f"shared by releases: {_shared(releases):.1%} of the values of the first stand in another one too"]
    if len(disclosed):
        notes.append(
            f"sums of two releases differ by a record of the original, which is given away: {len(disclosed)} of them"
        )
    return replace(
        first,
        notes=[*notes, *first.notes],
        union=union,
        mean=Matrix([np.mean(cells, axis=0) for cells in by_column]) if alike else None,
        order_known=all(pair.order_known for pair in pairs),
    )


def _shared(releases: Sequence[Matrix]) -> float:
    """The share of values of the first release that stand in another one too."""
    hits = [
        np.isin(column[~np.isnan(column)], np.concatenate([other.columns[j] for other in releases[1:]]))
        for j, column in enumerate(releases[0].columns)
    ]
    return float(np.concatenate(hits).mean()) if hits else 0.0


def _differences(original: Matrix, releases: Sequence[Matrix]) -> Array:
    """Records of the original that are the difference of the sums of two releases, whose rows differ by one."""
    found = scales(original)
    records = np.column_stack(original.columns)
    found_records = []
    for pair in combinations(releases, 2):
        small, large = sorted(pair, key=lambda table: table.shape[0])
        if large.shape[0] - small.shape[0] == 1:
            gap = np.array([new.sum() - old.sum() for new, old in zip(large.columns, small.columns, strict=True)])
            near = [np.abs(records[:, j] - gap[j]) <= EXACT * sd * len(records) for j, (_, sd) in found.items()]
            found_records += [gap] if near and np.all(near, axis=0).any() else []
    return np.array(found_records).reshape(len(found_records), original.shape[1])
