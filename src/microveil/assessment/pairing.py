"""Two files side by side: the same columns of both, codes and missing cells set apart, and what a reader must be told.

Columns are matched by their names (by their numbers in arrays), rows by their places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError, ParameterError
from microveil.core.table import Matrix
from microveil.intake.intake import Rules, dictionary_for
from microveil.intake.roles import Choice, named, regressed
from microveil.io.dictionary import find_codes
from microveil.io.frames.dataframes import Frame, NumpyFrame
from microveil.io.frames.validation import LARGEST
from microveil.measures.base import scales

REORDERED = "most released records are records of the original from other rows: the files are not in the same order"
"""A table that was only sorted must not pass for one that is hard to link."""

BEYOND = 1e15
"""Standard deviations of the original from its mean: a released value further off is in another unit, or broken."""


class ColumnSource(Protocol):
    """A file as far as its columns go: their names, and what is in them."""

    names: list[str]

    def is_numeric(self, name: str) -> bool:
        """Does the column hold numbers?"""

    def looks_numeric(self, name: str) -> bool:
        """Does a column of text look like one of numbers?"""


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
    original: Frame,
    released: Frame,
    *,
    confidential: Choice,
    public: Choice,
    rules: Rules,
    sensitive: Choice = None,
    holdout: Frame | None = None,
    order_known: bool = False,
) -> Pair:
    """Match the columns of two files; by default those that are numeric in both and not public."""
    _check_kinds(original, released)
    numeric = {name: original.is_numeric(name) for name in original.names}
    known = regressed(numeric, "public", public).columns
    asked = confidential is not None
    names = named(numeric, "confidential", confidential) if asked else compared(original, released, known)
    check_columns(original, released, names, known)
    hidden = places_of(sensitive, numeric, names)
    codes = codes_in(original, names, rules)
    before, after = ([_values(frame, name, codes.get(name, ())) for name in names] for frame in (original, released))
    _check_values(names, before, after)
    notes = [
        *about_sensitive(names, hidden),
        *([] if asked else about_left_out(original, released)),
        *about_codes(codes),
        *_about_same(names, before, after),
        *_about_public(original, released, known),
    ]
    beside = None if holdout is None else _held_out(original, holdout, names, codes)
    reordered = "" if order_known else _reordered(before, after)
    return Pair(names, Matrix(before), Matrix(after), notes, hidden, reordered, order_known, beside)


def _held_out(original: Frame, holdout: Frame, names: Sequence[str], codes: Mapping[str, Sequence[float]]) -> Matrix:
    """The same columns of records that were kept back."""
    _check_kinds(original, holdout, "held-out")
    check_columns(original, holdout, names, (), "held-out")
    columns = [_values(holdout, name, codes.get(name, ())) for name in names]
    for name, values in zip(names, columns, strict=True):
        check_size("held-out", name, float(np.nanmax(np.abs(values), initial=0.0)))
    return Matrix(columns)


def _check_kinds(original: Frame, released: Frame, called: str = "released") -> None:
    """Arrays have no names to match by, only places."""
    arrays = [isinstance(frame, NumpyFrame) for frame in (original, released)]
    if arrays[0] != arrays[1]:
        raise DataError("one file is an array, the other has column names", "give both as arrays, or both as frames")
    widths = len(original.names), len(released.names)
    if all(arrays) and widths[0] != widths[1]:
        raise DataError(f"the arrays have {widths[0]} and {widths[1]} columns", "give the same columns of both")
    for which, frame in (("original", original), (called, released)):
        if not frame.count:
            raise DataError(f"the {which} file has no rows", "check that it is the right one")


def compared(original: ColumnSource, released: ColumnSource, public: Sequence[str]) -> tuple[str, ...]:
    """The columns that are numeric in both files, in the order of the original."""
    shared = [name for name in original.names if name in released.names and name not in public]
    names = tuple(name for name in shared if original.is_numeric(name) and released.is_numeric(name))
    if not names:
        kind = "numeric column" if shared else "column"
        raise DataError(f"the files have no {kind} in common", "check the names of the columns, and how they were read")
    return names


def check_columns(
    original: ColumnSource,
    released: ColumnSource,
    names: Sequence[str],
    public: Sequence[str],
    called: str = "released",
) -> None:
    """Both files have these columns, and those to be compared are numbers in both."""
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


def places_of(sensitive: Choice, columns: Mapping[str, bool], names: Sequence[str]) -> tuple[int, ...] | None:
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


def about_sensitive(names: Sequence[str], sensitive: Sequence[int] | None) -> list[str]:
    """What attacks are about, where it is not all columns."""
    if sensitive is None:
        return []
    return [f"risk is that of {', '.join(names[j] for j in sensitive)} alone, all else that of all columns"]


def about_codes(codes: Mapping[str, Sequence[float]]) -> list[str]:
    """Numbers that were taken for codes."""
    return [
        f"column '{name}': {', '.join(f'{code:g}' for code in found)} taken for a code, not a value; such cells "
        "enter no figure (rules=None if it is a value)"
        for name, found in codes.items()
    ]


def codes_in(original: Frame, names: Sequence[str], rules: Rules) -> dict[str, tuple[float, ...]]:
    """The special codes of each column: found in the original, or as the dictionary says."""
    dictionary, inferred = dictionary_for(rules, original.names)
    found = {name: dictionary.codes(name) for name in names}
    for name in names if inferred else ():
        values = original.numbers(name)
        present = values[~np.isnan(values)]
        if present.size:
            found[name] = find_codes(Matrix([values]), 0, float(present.min()), float(present.max()))
    return {name: codes for name, codes in found.items() if codes}


def _values(frame: Frame, name: str, codes: Sequence[float]) -> Array:
    values = frame.numbers(name)
    return np.where(np.isin(values, codes), np.nan, values) if codes else values


def _check_values(names: Sequence[str], before: Sequence[Array], after: Sequence[Array]) -> None:
    """Infinite cells, columns in different units, and tables in which nothing varies."""
    for which, columns in (("original", before), ("released", after)):
        for name, values in zip(names, columns, strict=True):
            check_size(which, name, float(np.nanmax(np.abs(values), initial=0.0)))
    for number, (mean, sd) in scales(Matrix(before), needed=True).items():
        check_unit(names[number], float(np.nanmax(np.abs(after[number] - mean), initial=0.0)) / sd)


def check_size(which: str, name: str, largest: float) -> None:
    """A column whose values cannot be squared cannot be measured."""
    if np.isinf(largest):
        problem = f"column '{name}' of the {which} file has infinite cells"
        raise DataError(problem, "make them missing, or leave the column out")
    if largest > LARGEST:
        problem = f"column '{name}' of the {which} file is too large in its unit to be squared"
        raise DataError(problem, "give it in another unit, in both files")


def check_unit(name: str, farthest: float) -> None:
    """Released values so many standard deviations from the original's mean are in another unit."""
    if farthest > BEYOND:
        raise DataError(f"column '{name}' differs too much between the files", "give both in one unit")


def about_left_out(original: ColumnSource, released: ColumnSource) -> list[str]:
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
    return [f"not compared ({why}): {', '.join(names)}" for why, names in said.items() if names]


def _about_same(names: Sequence[str], before: Sequence[Array], after: Sequence[Array]) -> list[str]:
    """Columns that should have changed, and did not."""
    columns = zip(names, before, after, strict=True)
    return told_same([name for name, old, new in columns if np.array_equal(old, new, equal_nan=True)])


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


def told_same(names: Sequence[str]) -> list[str]:
    """A word on columns that did not change."""
    return [f"the same in both files, cell by cell: {', '.join(names)}"] if names else []


def _about_public(original: Frame, released: Frame, public: Sequence[str]) -> list[str]:
    """Columns that should not have changed, and did: the rows may be in another order."""
    moved = [
        name
        for name in public
        if original.is_numeric(name) and released.is_numeric(name)
        if not np.array_equal(original.numbers(name), released.numbers(name), equal_nan=True)
    ]
    return told_moved(moved) if original.count == released.count else []


def told_moved(names: Sequence[str]) -> list[str]:
    """A word on public columns that did change."""
    if not names:
        return []
    return [f"public, but not the same in both files: {', '.join(names)}; are the rows in the same order?"]
