"""What a table is to the rooms further in, and the simplest one: an array."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import FIRST_ROWS, Array, Index, Mask
from microveil.core.errors import DataError
from microveil.io.frames.number_types import LARGEST_WHOLE, wholes_held
from microveil.io.frames.times import TimeColumn

ROWS_AT_ONCE = 8_192
"""Rows of an array that are copied column by column: few enough that they stay in the cache from one to the next."""


Cells = Mapping[str, Array]
Changed = Mapping[str, Mask | None]
Labels = Mapping[str, Index]
Levels = Mapping[str, Sequence[Any]]
"""By column: numbers, which cells have changed, the numbers of levels, and what these stand for."""

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Frame(ABC):
    """A table as the outside world holds it. What is not abstract holds for tables of numbers only."""

    names: list[str]
    count: int
    source: Any
    """The table that was opened."""

    times: Mapping[str, TimeColumn] = NOTHING
    """Columns of dates and times that count as numbers."""

    def time_column(self, name: str) -> TimeColumn | None:
        """The column as steps on the line of time; None if it has no dates or times."""
        return None

    def with_times(self, names: Sequence[str]) -> Frame:
        """The same table, in which these columns of dates and times count as numbers."""
        return self.with_time_columns(
            {name: column for name in names if (column := self.time_column(name)) is not None}
        )

    def with_time_columns(self, columns: Mapping[str, TimeColumn]) -> Frame:
        """The same table, in which some columns count as these numbers."""
        if not columns:
            return self
        new = copy.copy(self)
        new.times = columns
        return new

    def level_order(self, name: str) -> list[str]:
        """The labels that a column can have, in their order, where its type has one."""
        return []

    @cached_property
    def found_codes(self) -> dict[str, tuple[float, ...]]:
        """Special codes by column, for those columns in which they have been looked for."""
        return {}

    def is_numeric(self, name: str) -> bool:
        """Whether the column holds numbers (true/false does not count)."""
        return True

    @abstractmethod
    def is_integer(self, name: str) -> bool:
        """Whether the column has a type of whole numbers."""

    def looks_numeric(self, name: str) -> bool:
        """Whether a column of text or objects seems to be meant as numbers, judged by a sample of its cells."""
        return False

    def hides_numbers(self, name: str) -> bool:
        """Whether a column that does not count as numeric has numbers in it by its type: as categories, in lists."""
        return False

    def is_decimal(self, name: str) -> bool:
        """Whether the column has a type of decimals with a fixed number of digits."""
        return False

    @abstractmethod
    def is_held(self, name: str) -> bool:
        """Whether doubles hold the numbers of the column as they are."""

    def is_unique(self, name: str) -> bool:
        """Whether all cells are present and different, as those of an identifier are."""
        return 0 < self.count == self.levels(name) and not self.missing(name)

    def missing(self, name: str) -> int:
        """How many cells are missing."""
        return int(np.count_nonzero(np.isnan(self.numbers(name))))

    def levels(self, name: str) -> int:
        """How many different values the column has; missing cells are none."""
        return int(self.labels(name).max(initial=-1)) + 1 - (self.missing(name) > 0)

    def extent(self, name: str) -> tuple[int, float, float]:
        """How many cells of a column of numbers are there, the least and the largest."""
        values = self.numbers(name)
        present = values[~np.isnan(values)] if values.size and np.isnan(values.min()) else values
        return (present.size, float(present.min()), float(present.max())) if present.size else (0, np.nan, np.nan)

    def is_whole(self, name: str) -> bool:
        """Whether all numbers of a column are whole; the first ones mostly tell."""
        values = self.numbers(name)
        return all(((part == np.round(part)) | np.isnan(part)).all() for part in (values[:FIRST_ROWS], values))

    def rises_evenly(self, name: str) -> bool:
        """Whether each number is above, or below, the one before by the same."""
        steps = np.diff(self.numbers(name))
        return bool(steps.size and steps[0] != 0 and (steps == steps[0]).all())

    @abstractmethod
    def numbers(self, name: str) -> Array:
        """A numeric column as float64, NaN where a cell is missing. Not to be written to."""

    def block(self) -> Array | None:
        """All columns as one float64 array, where that costs no copy."""
        return None

    @abstractmethod
    def labels(self, name: str) -> Index:
        """A column as whole numbers that stand for its distinct values, in ascending order of numbers or text.

        The missing cells are a group of their own, after all others.
        """

    def groups(self, name: str) -> Index:
        """A column without missing cells as whole numbers that stand for its distinct values, in any order."""
        return self.labels(name)

    def words(self, name: str, rows: Index) -> list[str]:
        """Some cells of a column that is released as it is, as text for a message."""
        return [f"{cell:g}" for cell in self.numbers(name)[rows]]

    @abstractmethod
    def short_type(self, name: str) -> np.dtype[Any] | None:
        """The type of a column that rounds what it holds, and keeps it: float32 or float16."""

    def as_stored(self, name: str, values: Array) -> Array:
        """New values as the column will hold them: rounded, if it is a float32 or a float16."""
        kind = self.short_type(name)
        if kind is None:
            return values
        with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is refused by name
            return values.astype(kind).astype(np.float64)

    @abstractmethod
    def rebuilt(self, columns: Cells, changed: Changed, labels: Labels = NOTHING, levels: Levels = NOTHING) -> Any:
        """A frame of the same kind with new values; cells not `changed` (None: all are) stay as they were.

        `labels` gives other columns the numbers of their levels, as `labels(name)` counts them, -1 for a missing cell;
        `levels` says what the numbers stand for in columns that have other levels than before.
        """

    def level_values(self, name: str) -> list[Any]:
        """The distinct values of a column as `labels` counts them; None for the missing ones."""
        values = self.numbers(name)[np.unique(self.labels(name), return_index=True)[1]]
        return [None if np.isnan(value) else value for value in values.tolist()]

    def rows_with(self, name: str, levels: Index) -> Index:
        """For each number of a level, a row that has this level in the column; -1 for a missing cell."""
        return np.where(levels < 0, -1, np.unique(self.labels(name), return_index=True)[1][levels])


class NumpyFrame(Frame):
    """A two-dimensional array of numbers; its columns are called by their number."""

    def __init__(self, data: np.ndarray[Any, Any]) -> None:
        if isinstance(data, np.ma.MaskedArray):
            raise DataError("data: a masked array has no NaN", "give data.filled(numpy.nan)")
        if data.ndim != 2:
            raise DataError(f"data: the array has {data.ndim} dimensions", "give rows x columns")
        if data.dtype.kind not in "iufb":
            raise DataError(f"data: the array holds {data.dtype}, not numbers", "use a frame for mixed columns")
        self.data = data
        self.count = data.shape[0]
        self.names = [str(j) for j in range(data.shape[1])]
        with np.errstate(over="ignore"):  # what a double cannot hold is infinite, and refused by name
            self.values = np.asarray(data, dtype=np.float64)

    def is_integer(self, name: str) -> bool:
        return self.data.dtype.kind in "iub"

    def is_held(self, name: str) -> bool:
        column = self.data[:, int(name)]
        if column.dtype.kind in "iu":
            return not column.size or wholes_held(column.min(), column.max())
        return column.dtype.itemsize <= self.values.dtype.itemsize or same_numbers(column, self.numbers(name))

    def numbers(self, name: str) -> Array:
        return self.values[:, int(name)]

    def block(self) -> Array | None:
        return self.values

    def labels(self, name: str) -> Index:
        return np.unique(self.data[:, int(name)], return_inverse=True)[1].ravel()

    def levels(self, name: str) -> int:
        return np.unique(self.data[:, int(name)]).size - (self.missing(name) > 0)

    def short_type(self, name: str) -> np.dtype[Any] | None:
        return None if self.data.dtype.kind != "f" or self.data.dtype == np.float64 else self.data.dtype

    def rebuilt(self, columns: Cells, changed: Changed, labels: Labels = NOTHING, levels: Levels = NOTHING) -> Any:
        dtype = self.data.dtype
        relabelled = {
            name: self._relabelled(name, codes, levels.get(name))
            for name, codes in labels.items()
            if name in levels or (codes < 0).any()
        }
        columns = {**columns, **relabelled}
        changed = {**changed, **dict.fromkeys(relabelled)}
        if dtype.kind != "f" and not all(fits(new, changed[name], dtype) for name, new in columns.items()):
            dtype = np.dtype(np.float64)
        whole = _common_buffer([columns.get(name) for name in self.names])
        if whole is not None and dtype == np.float64 and all(changed[name] is None for name in columns):
            return whole.T
        out = np.empty(self.data.shape, dtype=dtype, order="F")
        old = [j for j, name in enumerate(self.names) if name not in columns or changed[name] is not None]
        for start in range(0, self.count if old else 0, ROWS_AT_ONCE):
            rows = self.data[start : start + ROWS_AT_ONCE]
            for j in old:
                out[start : start + ROWS_AT_ONCE, j] = rows[:, j]
        for j, name in enumerate(self.names):
            if name in columns:
                mask = changed[name]
                np.copyto(out[:, j], columns[name], where=True if mask is None else mask, casting="unsafe")
            elif name in labels:
                out[:, j] = self.data[self.rows_with(name, labels[name]), j]
        return out

    def _relabelled(self, name: str, codes: Index, levels: Sequence[Any] | None) -> Array:
        """The numbers of levels, NaN for a missing cell."""
        known = self.level_values(name) if levels is None else levels
        if any(not isinstance(level, int | float | None) for level in known):
            raise DataError(f"column '{name}' would have text, and an array holds numbers only", "use a frame")
        values = np.array([*known, None], dtype=np.float64)
        return values[codes]  # the last one, which -1 counts, is missing


def fits(values: Array, changed: Mask | None, dtype: np.dtype[Any]) -> bool:
    """Are the new cells whole numbers that an integer column can hold?"""
    cells = values if changed is None else values[changed]
    if dtype.kind not in "iu" or not np.isfinite(cells).all() or (cells != np.round(cells)).any():
        return False
    # A double can only tell whole numbers apart up to here.
    limits = max(np.iinfo(dtype).min, -LARGEST_WHOLE), min(np.iinfo(dtype).max, LARGEST_WHOLE)
    return bool(limits[0] <= cells.min(initial=0.0) and cells.max(initial=0.0) <= limits[1])


def _common_buffer(columns: Sequence[Array | None]) -> Array | None:
    """The array whose rows these columns are, in order, so that a release need not be copied."""
    first = columns[0] if columns else None
    base = None if first is None else first.base
    if not isinstance(base, np.ndarray) or base.ndim != 2 or base.shape[0] != len(columns):
        return None
    same = all(c is not None and c.base is base and c.ctypes.data == base[j].ctypes.data for j, c in enumerate(columns))
    return base if same else None


def same_numbers(column: NDArray[Any], values: Array) -> bool:
    """Are the doubles the very numbers of the column, the missing ones aside?"""
    return bool(((column == values) | np.isnan(values)).all())
