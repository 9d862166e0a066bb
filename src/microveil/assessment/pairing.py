"""Two files side by side: the same columns of both, codes and missing cells set apart, and what a reader must know.

Columns are matched by their names (by their numbers in arrays), rows by their places. Files may be in memory, or larger
than it: then the columns of both go onto a disk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from microveil.assessment.column_sources import MOST_ROWS, ColumnSource, DistantColumns, FileColumns
from microveil.assessment.label_columns import ColumnKinds, kinds_of_columns, pair_of_labels
from microveil.core.arrays import Array
from microveil.core.errors import DataError, ParameterError
from microveil.core.sorted_columns import pieces_of
from microveil.core.table import Matrix
from microveil.core.threads import in_threads
from microveil.intake.intake import Rules, dictionary_for
from microveil.intake.roles import Choice, named, regressed
from microveil.io.dictionary import find_codes
from microveil.io.frames.dataframes import Frame, NumpyFrame, open_frame
from microveil.io.frames.validation import LARGEST
from microveil.measures.base import ends_of, scales
from microveil.measures.labels import LabelPair
from microveil.options import Assess
from microveil.storage.disk_columns import DiskColumn

REORDERED = "most released records are records of the original from other rows: the files are not in the same order"
"""A table that was only sorted must not pass for one that is hard to link."""

GAPS_IN_PLACE = "missing or coded in the same rows of both files: {}; whoever finds a row sees what was not answered"

REGROUPED = (
    "rows are in another unit than they were ({}), and files are compared row by row: figures of linkage are not those "
    "that `protect` gave, which knew where each went"
)

BEYOND = 1e15
"""Standard deviations of the original from its mean: a released value further off is in another unit, or broken."""

IN_ORDER = "in order"


@dataclass(frozen=True, repr=False, eq=False)
class SortedOnce(Matrix):
    """Columns in memory that many measures ask for in order: each is sorted once, and kept until that is forgotten."""

    def in_order(self, column: int) -> Array:
        """The cells of a column that are there, in ascending order."""
        return self.remember((IN_ORDER, column), partial(super().in_order, column))

    def forget_order(self) -> None:
        """The room that it takes is that of the columns themselves."""
        for name in [one for one in self.kept if isinstance(one[0], tuple) and one[0][0] == IN_ORDER]:
            del self.kept[name]


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
    """Records of the same population that did not enter the release, to see what it discloses of strangers."""

    union: Matrix | None = None
    """The records of several releases together, where there are several; `released` is then the first."""

    mean: Matrix | None = None
    """The mean of each record's releases, where all have the same rows."""

    labels: LabelPair | None = None
    """Columns of labels and those in clear, of files in memory that have some; of several releases, of the first."""

    compared: tuple[str, ...] = ()
    """The columns of numbers and of labels that are compared; `names` are those of numbers."""

    @property
    def rows(self) -> tuple[int, int]:
        """Rows of the original and of the released file."""
        if self.labels is not None:
            return len(self.labels.original), len(self.labels.released)
        return self.original.shape[0], self.released.shape[0]


def pair_up(
    original: ColumnSource,
    released: ColumnSource,
    asked: Assess,
    *,
    order_known: bool = False,
    codes: Mapping[str, Sequence[float]] | None = None,
    kinds: Mapping[str, str] | None = None,
    in_clear: Sequence[str] = (),
) -> Pair:
    """Match the columns of two files; by default those that are numbers or labels in both and not public.

    In memory, labels of both files are paired as well, dates and times are numbers, there can be a holdout, and
    it is found out whether rows are in another order.

    Args:
        original: the file as it was.
        released: the file to judge.
        asked: which columns are compared.
        order_known: whether the rows are in one order for sure.
        codes: special codes by column, if they are known already.
        kinds: kinds of the columns, if they are known already.
        in_clear: columns that are known to be released as they are; those that are equal in both files are, too.
    """
    _check_kinds(original, released)
    columns = _column_kinds(original, released, asked, kinds)
    in_memory = isinstance(original, Frame)
    if in_memory:
        original, released = columns.frames[:2]
    numeric = {name: original.is_numeric(name) for name in original.names}
    public = regressed(numeric, "public", asked.public).columns
    names, labels = _compared(original, released, asked, public, columns)
    also = labels if asked.confidential is not None else [name for name in labels if name not in public]
    _check_columns(original, released, names, (*public, *also))
    kept = [name for name in public if numeric[name] and released.is_numeric(name) and name not in labels]
    whole = _read(original, [*names, *kept]), _read(released, [*names, *kept], "released")
    compared, unchanged = range(len(names)), range(len(names), len(names) + len(kept))
    changed = _differing(kept, *(table.select(unchanged) for table in whole))
    tables = [table.select(compared) for table in whole]
    if codes is None:
        codes = codes_in(names, tables[0], asked.rules, original.names)
    before, after = (_without_codes(table, names, codes) for table in tables)
    _check_values(names, before, after, needed=not labels)
    moved = _differing(names, before, after)
    hidden = _places_of(asked.sensitive, numeric, (*names, *labels))
    sensitive = None if hidden is None else tuple(j for j in hidden if j < len(names))
    strangers = _held_out(columns, names, labels, codes) if len(columns.frames) > 2 else None
    of_labels = None
    if before.distant:
        of_labels = cast(DistantColumns, original).labels(released, labels)
    elif in_memory:
        same = [*(name for name in names if name not in moved), *(name for name in kept if name not in changed)]
        found = columns.in_clear([*same, *in_clear], (*moved, *changed))
        hidden_labels = None if hidden is None else [labels[j - len(names)] for j in hidden if j >= len(names)]
        of_labels = pair_of_labels(columns, labels, found, hidden_labels, asked)
    notes = [
        *_about("risk is that of {} alone, all else that of all columns", [(*names, *labels)[j] for j in hidden or ()]),
        *([] if asked.confidential is not None else _about_left_out(original, released)),
        *_about_codes(codes),
        *_about("the same in both files, cell by cell: {}", _same(names, moved, public, of_labels)),
        *_about(GAPS_IN_PLACE, [n for n in _with_gaps_in_place(names, before, after) if n in moved]),
    ]
    if not in_memory:
        others = [name for name in original.names if name in released.names and not numeric[name]]
        others = [name for name in others if name not in labels]
        notes += _about("in blocks and on Spark, columns that are no numbers are in no figure: {}", others)
    elif not order_known:
        notes += _about(REGROUPED, columns.regrouped())
    if before.shape[0] == after.shape[0]:
        notes += _about("public, but not the same in both files: {}; are the rows in the same order?", changed)
    reordered = "" if order_known or not in_memory else _reordered(before, after, of_labels)
    found_pair = Pair(names, before, after, notes, sensitive, reordered, order_known, strangers)
    return replace(found_pair, labels=of_labels, compared=(*names, *labels))


def _column_kinds(
    original: ColumnSource, released: ColumnSource, asked: Assess, kinds: Mapping[str, str] | None
) -> ColumnKinds:
    """Kinds of columns in memory, found or `kinds`; files in blocks have numbers, and what needs labels is refused."""
    if not isinstance(original, Frame | FileColumns):
        return original.kinds(released, asked, kinds)
    if isinstance(original, Frame) and isinstance(released, Frame):
        holdout = [] if asked.holdout is None else [open_frame(asked.holdout)]
        for frame in holdout:
            _check_kinds(original, frame)
        return kinds_of_columns([original, released, *holdout], asked, kinds)
    for name in ("keys", "weight", "kinds"):
        if getattr(asked, name) is not None:
            raise ParameterError(
                f"{name}: goes with engine='memory' only", "measure a sample of the rows of both files"
            )
    return ColumnKinds()


def _compared(
    original: ColumnSource, released: ColumnSource, asked: Assess, public: Sequence[str], columns: ColumnKinds
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of numbers and of labels that are compared: those that are asked for, or else all of both files.

    Args:
        original: the file as it was.
        released: the file to judge.
        asked: the columns may be named there.
        public: columns that were to stay.
        columns: the kinds of columns.
    """
    if asked.confidential is not None:
        return columns.confidential(named(original.names, "confidential", asked.confidential))
    shared = [name for name in original.names if name in released.names and name not in public]
    numeric = [name for name in shared if original.is_numeric(name) and released.is_numeric(name)]
    names = tuple(name for name in numeric if name not in columns.no_numbers)
    if not names and not columns.labels:
        kind = "numeric column" if shared else "column"
        raise DataError(f"the files have no {kind} in common", "check the names of the columns, and how they were read")
    return names, columns.labels


def _same(names: Sequence[str], moved: Sequence[str], public: Sequence[str], labels: LabelPair | None) -> list[str]:
    """Columns that are the same in both files: `names` that are not `moved`, then others that are not `public`."""
    clear = [] if labels is None else labels.of_clear.names
    others = [name for name in clear if name not in (*names, *public)]
    return [*(name for name in names if name not in moved), *others]


def _read(source: ColumnSource, names: Sequence[str], called: str = "original") -> Matrix:
    table = SortedOnce([source.numbers(name) for name in names]) if isinstance(source, Frame) else source.read(names)
    if not (source.count if isinstance(source, Frame) else table.shape[0] or not names):
        raise DataError(f"the {called} file has no rows", "check that it is the right one")
    return table


def _held_out(
    columns: ColumnKinds, names: Sequence[str], labels: Sequence[str], codes: Mapping[str, Sequence[float]]
) -> Matrix:
    """The columns `names` of records that were kept back, without their `codes`; they must have the `labels`, too."""
    original, _, holdout = columns.frames
    _check_columns(original, holdout, names, labels, "held-out")
    for name in labels:
        if original.is_numeric(name) != holdout.is_numeric(name):
            raise DataError(f"column '{name}' is numbers in one file, text in the held-out one", "read both alike")
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


def _check_columns(
    original: ColumnSource,
    released: ColumnSource,
    names: Sequence[str],
    public: Sequence[str],
    called: str = "released",
) -> None:
    """Both files have the columns `names` and `public`, and those to be compared (`names`) are numbers in both.

    `called` is what errors call the second file.
    """
    if not names and not public:
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
        "enter no figure (if it is a value: rules=None)"
        for name, found in codes.items()
    ]


def codes_in(columns: Sequence[str], table: Matrix, rules: Rules, names: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """The special codes of each of the `columns` of a `table`: found there, or as the dictionary says that `rules` are.

    `names` are those of all columns of the file. The rows may be anywhere.
    """
    dictionary, inferred = dictionary_for(rules, names)
    found = [dictionary.codes(name) for name in columns]
    if inferred:
        tasks = [partial(find_codes, table, j, *ends) for j, ends in enumerate(_extremes(table))]
        found = in_threads(tasks, small=table.shape[0] < MOST_ROWS)
    return {name: codes for name, codes in zip(columns, found, strict=True) if codes}


def _without_codes(table: Matrix, names: Sequence[str], codes: Mapping[str, Sequence[float]]) -> Matrix:
    """The table with NaN where a cell holds a code."""
    if table.distant:
        return cast(Matrix, cast(Any, table).without([codes.get(name, ()) for name in names]))
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


def _check_values(names: Sequence[str], before: Matrix, after: Matrix, *, needed: bool) -> None:
    """Refuse infinite cells, columns (`names`) in other units, and, if numbers are `needed`, that nothing varies."""
    _check_sizes("original", names, before)
    extremes = _check_sizes("released", names, after)
    for number, (mean, sd) in scales(before, needed=needed).items():
        if max(abs(end - mean) for end in extremes[number]) / sd > BEYOND:
            raise DataError(f"column '{names[number]}' differs too much between the files", "give both in one unit")


def _check_sizes(which: str, names: Sequence[str], table: Matrix) -> list[tuple[float, float]]:
    """The extremes of each column. One whose values cannot be squared cannot be measured."""
    extremes = _extremes(table)
    for name, ends in zip(names, extremes, strict=True):
        if np.isinf(ends).any():
            problem = f"column '{name}' of the {which} file has infinite cells"
            raise DataError(problem, "make them missing, or leave the column out")
        if max(map(abs, ends)) > LARGEST:
            problem = f"column '{name}' of the {which} file is too large in its unit to be squared"
            raise DataError(problem, "give it in another unit, in both files")
    return extremes


def _extremes(table: Matrix) -> list[tuple[float, float]]:
    """The least and the largest cell of each column that is there; zeros if none is."""
    if table.distant:
        return [(float(low), float(high)) for low, high in zip(*ends_of(table), strict=True)]
    return in_threads([partial(_ends, column) for column in table.columns], small=table.shape[0] < MOST_ROWS)


def _ends(column: Array) -> tuple[float, float]:
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
    """Columns that are not the same in both files, cell by cell; of those far away, by sums of hashes of all cells."""
    if before.distant:
        marks: list[Any] = [table.total(_mark, range(len(names))) if names else [] for table in (before, after)]
        return [name for name, old, new in zip(names, *marks, strict=True) if old != new]
    differing = []
    for name, old, new in zip(names, before.columns, after.columns, strict=True):
        pieces = zip(pieces_of(old), pieces_of(new), strict=False)
        if old.size != new.size or not all(np.array_equal(*both, equal_nan=True) for both in pieces):
            differing.append(name)
    return differing


def _with_gaps_in_place(names: Sequence[str], before: Matrix, after: Matrix) -> list[str]:
    """Columns with cells missing in the very same rows of both files; where the rows are far away, nobody looks."""
    if before.distant or before.shape != after.shape:
        return []
    found = []
    for name, old, new in zip(names, before.columns, after.columns, strict=True):
        gaps = 0
        for cells, released in zip(pieces_of(old), pieces_of(new), strict=True):
            missing = np.isnan(cells)
            if not np.array_equal(missing, np.isnan(released)):
                break
            gaps += int(np.count_nonzero(missing))
        else:
            found += [name] if gaps else []
    return found


def _mark(cells: Array, rows: slice) -> Array:
    """A number for some rows of each column: sums of these tell two columns apart, whatever the pieces."""
    place = np.arange(rows.start, rows.stop, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    bits = np.ascontiguousarray(cells + 0.0).view(np.uint64) ^ place  # 0.0 and -0.0 are one
    mixed = (bits ^ (bits >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)  # that of the golden ratio
    marks: Array = (mixed >> np.uint64(44)).sum(axis=1).astype(np.float64)  # 20 bits of each: doubles hold the sum
    return marks


def _reordered(before: Matrix, after: Matrix, labels: LabelPair | None) -> str:
    """Are most released records, whole, those that only one other row of the original has?

    A table that was sorted is no less disclosed for it, but what compares rows with rows would not see it.
    """
    import polars as pl

    both: list[list[NDArray[Any]]] = [[*before.columns], [*after.columns]]
    if labels is not None:
        both[0] += [*labels.of_labels.original.T]
        both[1] += [*labels.of_labels.released.T]
    if len(both[0]) < 2 or both[0][0].size != both[1][0].size:
        return ""
    old, new = (pl.DataFrame({str(j): cells for j, cells in enumerate(those)}).hash_rows() for those in both)
    elsewhere = (new != old) & new.is_in(old.filter(old.is_unique()).implode())
    return REORDERED if 2 * int(elsewhere.sum()) >= new.len() else ""
