"""What is declared of the columns, and the cells as that says: nothing here is decided by looking at the data.

A cell is read by itself, and never refused: a number outside its bounds counts as the bound, and what is no number, or
no level, as missing. So no error, no type and no row of a release tells what is in a cell.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, ClassVar

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Index, Mask
from microveil.core.errors import ParameterError, check_column
from microveil.core.late import pl
from microveil.io.dictionary import ColumnEntry, Dictionary
from microveil.io.frames.base import Frame
from microveil.private.arrangement import Synthetic
from microveil.private.distributions import Scale
from microveil.private.targets import Records

MOST_LEVELS, MOST_DECIMALS, MOST_STEPS = 200, 3, 2**50
FIRST_DAY = date(1970, 1, 1)
GIVE_BOUNDS = (
    "give bounds={'column': (low, high)} for amounts and levels={'column': [...]} for categories, from what is known "
    "about them and not from the data (`microveil budget INPUT -o FILE.toml` writes a dictionary to fill in), or drop "
    "the column"
)


@dataclass(frozen=True)
class AmountColumn:
    """An amount, or a date in days, with the values it can have."""

    name: str
    scale: Scale
    may_miss: bool = False
    dates: bool = False

    @property
    def kind(self) -> str:
        """What kind of column it is."""
        return "date" if self.dates else "amount"


@dataclass(frozen=True)
class CategoryColumn:
    """A category with all its levels."""

    name: str
    levels: tuple[Any, ...]
    may_miss: bool = False
    kind: ClassVar[str] = "category"

    @property
    def size(self) -> int:
        """Levels, and one for missing cells if there may be some."""
        return len(self.levels) + self.may_miss


@dataclass(frozen=True)
class Declared:
    """The columns of a release, in their order."""

    columns: tuple[AmountColumn | CategoryColumn, ...]
    void: tuple[str, ...] = ()
    """Why nothing is promised after all."""

    @property
    def amounts(self) -> list[AmountColumn]:
        """The amounts."""
        return [column for column in self.columns if isinstance(column, AmountColumn)]

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return [column.name for column in self.columns]

    def read(self, frame: Frame, rows: Index | None) -> tuple[Records, dict[str, int]]:
        """The records as the mechanisms see them, and, for the owner only, how many cells of a column did not fit."""
        amounts, categories, unfit = {}, {}, {}
        absent: dict[str, tuple[int, Index]] = {}
        count = frame.count if rows is None else rows.size
        for column in self.columns:
            cells = _cells(frame, column.name)
            cells = cells if rows is None else cells[rows]
            if isinstance(column, AmountColumn):
                values = _numbers(cells, _days if column.dates else _number)
                amounts[column.name] = (column.scale, column.scale.cells_of(values))
                missing = np.isnan(values)
                outside = (values < column.scale.low) | (values > column.scale.high)
                unfit[column.name] = int(np.count_nonzero(outside | (missing & (not column.may_miss))))
                if column.may_miss:
                    absent[absence(column.name)] = (2, missing.astype(np.intp))
            else:
                places = {_text(level): place for place, level in enumerate(column.levels)}
                other = len(column.levels) if column.may_miss else -1
                gone = [other if _is_missing(cell) else places.get(_text(cell), -1) for cell in cells.tolist()]
                codes = np.array(gone, np.intp).reshape(-1)
                categories[column.name] = (column.size, codes)
                unfit[column.name] = int(np.count_nonzero(codes < 0))
        absences = {column.name: absence(column.name) for column in self.amounts if column.may_miss}
        return Records(count, amounts, {**categories, **absent}, absences), unfit

    def table(self, frame: Frame, made: Synthetic) -> Any:
        """The release as a table of the kind that came in; its types follow from what is declared."""
        columns: dict[str, Any] = {}
        schema: dict[str, Any] = {}
        if isinstance(frame.source, np.ndarray):
            return np.column_stack([self._as_floats(column, made) for column in self.columns])
        backend: Any = frame.native.implementation  # type: ignore[attr-defined]  # what is no array has one
        for column in self.columns:
            if isinstance(column, AmountColumn):
                columns[column.name], schema[column.name] = _amount_cells(column, made, pandas=backend.is_pandas_like())
            else:
                columns[column.name], schema[column.name] = _level_cells(column, made)
        return nw.from_dict(columns, schema, backend=backend).to_native()

    def _as_floats(self, column: AmountColumn | CategoryColumn, made: Synthetic) -> Array:
        if isinstance(column, AmountColumn):
            return np.where(_absent(column, made), np.nan, made.amounts[column.name])
        try:
            levels = np.array([float(level) for level in column.levels] + [np.nan] * column.may_miss)
        except (TypeError, ValueError):
            raise ParameterError(f"levels: those of column '{column.name}' of an array must be numbers") from None
        return levels[made.categories[column.name]]


def absence(name: str) -> str:
    """The name of the category that tells where an amount is missing."""
    return f"{name} is missing"


def declared_columns(frame: Frame, options: Any, dictionary: Dictionary) -> Declared:
    """What the call and the dictionary say of the columns, of which none may be left without.

    `options` has `bounds` and `levels`, and the names of columns that may have missing cells (`may_be_missing`), that
    are left out (`drop`, `unit`) or that alone are not (`confidential`). The cells of the frame are looked at only with
    `bounds_from_data_without_guarantee`.
    """
    names, from_data = frame.names, []
    bounds, levels = (
        {check_column(role, name, names): said for name, said in (getattr(options, role) or {}).items()}
        for role in ("bounds", "levels")
    )
    apart, chosen = {*(options.drop or ()), *(options.unit or ())}, options.confidential or names
    found: list[AmountColumn | CategoryColumn] = []
    for name in (name for name in names if name in chosen and name not in apart):
        entry = dictionary.columns.get(name) or ColumnEntry.model_validate({})
        may_miss = name in (options.may_be_missing or ()) or entry.missing
        own_bounds, own_levels = bounds.get(name), levels.get(name, entry.levels or None)
        if own_bounds is None and entry.minimum is not None and entry.maximum is not None:
            own_bounds = (entry.minimum, entry.maximum, *([entry.step] if entry.step else []))
        if own_bounds is not None and own_levels is not None:
            raise ParameterError(f"column '{name}' has both bounds and levels", "it is an amount or a category")
        if own_bounds is None and own_levels is None and options.bounds_from_data_without_guarantee:
            from_data.append(name)
            own_bounds, own_levels, gaps = _found_in_data(name, _cells(frame, name))
            may_miss |= gaps
        if own_bounds is None and own_levels is None:
            raise ParameterError(f"epsilon: nothing is declared of column '{name}'", GIVE_BOUNDS)
        if own_bounds is not None:
            found.append(_amount(name, own_bounds, entry.step, may_miss))
        else:
            found.append(_category(name, own_levels, may_miss))
    if not found:
        raise ParameterError("epsilon: no column is left to release", "name some with confidential")
    for column in found:
        if column.may_miss and isinstance(column, AmountColumn) and absence(column.name) in names:
            raise ParameterError(f"epsilon: a column is called '{absence(column.name)}'", "rename it")
    reason = f"bounds or levels of {len(from_data)} columns were taken from the data ({', '.join(from_data)})"
    return Declared(tuple(found), (reason,) if from_data else ())


def _found_in_data(name: str, cells: NDArray[Any]) -> tuple[Any, Any, bool]:
    """Bounds or levels of a column, and whether cells are missing, as its cells have them: nothing private about it."""
    there = [cell for cell in cells.tolist() if not _is_missing(cell)]
    gaps = len(there) < len(cells)
    dates = bool(there) and all(isinstance(cell, date) for cell in there)
    if dates or (cells.dtype != object or all(isinstance(cell, int | float) for cell in there)):
        values = np.array([_days(cell) if dates else _number(cell) for cell in there])
        values = values[np.isfinite(values)]
        if values.size and values.min() < values.max():
            ends = min(there), max(there)
            fine = [10.0**-d for d in range(MOST_DECIMALS + 1) if (np.round(values, d) == values).all()]
            low, high = ends if dates else (float(values.min()), float(values.max()))
            return (low, high, *fine[: not dates]), None, gaps
    levels = sorted({_text(cell) for cell in there})
    if len(levels) > MOST_LEVELS:
        raise ParameterError(f"column '{name}' has more than {MOST_LEVELS} different labels", "drop it")
    return None, levels or None, gaps


def _amount(name: str, bounds: Any, step: float | None, may_miss: bool) -> AmountColumn:
    problem = f"bounds: those of column '{name}' are not (low, high) or (low, high, step)"
    hint = "give two numbers or dates, the lower one first, and the step of its values, if they have one"
    if not isinstance(bounds, list | tuple) or len(bounds) not in (2, 3):
        raise ParameterError(problem, hint)
    low, high, *steps = bounds
    dates = any(isinstance(end, date | str) for end in (low, high))
    ends = [_days(end) if dates else _number(end) for end in (low, high)]
    step = steps[0] if steps else step
    step = 1.0 if dates and step is None else step  # days
    width = math.nan if step is None else _number(step)
    if not all(map(math.isfinite, ends)) or ends[0] >= ends[1] or (step is not None and not 0 < width < math.inf):
        raise ParameterError(problem, hint)
    if max(map(abs, ends)) > 1e150 or (step is not None and not 1 <= (ends[1] - ends[0]) / width < MOST_STEPS):
        raise ParameterError(problem, hint)
    if dates and not width.is_integer():
        raise ParameterError(f"bounds: the step of column '{name}' is no number of days", "give whole days, or none")
    return AmountColumn(name, Scale(ends[0], ends[1], None if step is None else width), may_miss, dates)


def _category(name: str, levels: Any, may_miss: bool) -> CategoryColumn:
    if isinstance(levels, str) or not isinstance(levels, Sequence | set | frozenset | np.ndarray) or len(levels) < 1:
        raise ParameterError(f"levels: those of column '{name}' are no list", "give all labels that it can have")
    own = sorted(levels, key=str) if isinstance(levels, set | frozenset) else list(levels)
    may_miss |= any(_is_missing(level) for level in own)
    own = [level.item() if isinstance(level, np.generic) else level for level in own if not _is_missing(level)]
    if len({_text(level) for level in own}) < len(own):
        raise ParameterError(f"levels: column '{name}' has one of its levels twice", "name each once")
    if not own or len(own) > MOST_LEVELS:
        raise ParameterError(
            f"levels: column '{name}' has {len(own)} levels", f"group them: there may be 1 to {MOST_LEVELS}"
        )
    return CategoryColumn(name, tuple(own), may_miss)


def _cells(frame: Frame, name: str) -> NDArray[Any]:
    """The cells of a column, as numbers where its type has no others."""
    native = getattr(frame, "native", None)
    if native is None:
        return frame.numbers(name)
    own = getattr(frame, "own", {}).get(name)  # its plainer type may be one that all cells together have
    column = native[name] if own is None else nw.from_native(own, series_only=True)
    whole = column.dtype.is_integer() and column.dtype not in (nw.Int128, nw.UInt128)  # of which numpy has none
    if column.dtype.is_float() or (whole and not column.is_null().any()):
        return np.asarray(column.to_numpy())
    found = np.empty(len(column), object)
    try:
        found[:] = column.to_list()
    except (Exception, pl.exceptions.PanicException):  # a date that Python has not: the others are as they would be
        found[:] = [_cell(column, row) for row in range(len(column))]
    return found


def _cell(column: nw.Series[Any], row: int) -> Any:
    """A cell by itself, None if it cannot be read."""
    try:
        return column[row : row + 1].to_list()[0]  # as it would be among others
    except (Exception, pl.exceptions.PanicException):
        return None


def units_of(frame: Frame, name: str) -> list[str]:
    """The unit of each record, by what its label reads; "" where there is none."""
    return ["" if _is_missing(cell) else _text(cell) for cell in _cells(frame, name).tolist()]


def _numbers(cells: NDArray[Any], number: Callable[[Any], float]) -> Array:
    if cells.dtype != object and number is _number:
        return cells.astype(np.float64)
    return np.array([number(cell) for cell in cells.tolist()], np.float64)


def _number(cell: Any) -> float:
    """A cell as a number, NaN if it is none."""
    try:
        return float(cell)
    except Exception:  # whatever it is, it is no number, and what is wrong with it must not be said
        return math.nan


def _days(cell: Any) -> float:
    """A date, or one as text (2024-12-31), in days; NaN if it is none."""
    try:
        if isinstance(cell, str):
            cell = datetime.fromisoformat(cell)
        return float(((cell.date() if isinstance(cell, datetime) else cell) - FIRST_DAY).days)
    except Exception:  # as for numbers
        return math.nan


def _is_missing(cell: Any) -> bool:
    if isinstance(cell, float | Decimal):
        return cell.is_nan() if isinstance(cell, Decimal) else math.isnan(cell)
    return cell is None or type(cell).__name__ in ("NAType", "NaTType")


def _text(cell: Any) -> str:
    """What a label reads: 1, 1.0, "1" and "1.0" are one label, whatever type the other cells of the column made it."""
    if isinstance(cell, str | bool | np.bool_ | Decimal):
        text = str(cell)
        return text.lower() if text.lower() in ("true", "false") else re.sub(r"^(-?\d+)\.0*$", r"\1", text)
    try:
        if isinstance(cell, float | np.floating) and not float(cell).is_integer():
            return repr(float(cell))
        return str(int(cell)) if isinstance(cell, int | float | np.number) else str(cell)
    except Exception:  # whatever it is, it is no label, and what is wrong with it must not be said
        return ""


def _absent(column: AmountColumn, made: Synthetic) -> Mask:
    if not column.may_miss:
        return np.zeros(made.amounts[column.name].size, dtype=bool)
    found: Mask = made.categories[absence(column.name)] == 1
    return found


def _amount_cells(column: AmountColumn, made: Synthetic, *, pandas: bool) -> tuple[list[Any], Any]:
    values, absent = made.amounts[column.name], _absent(column, made)
    if column.dates:
        days = [date.fromordinal(int(day) + FIRST_DAY.toordinal()) for day in values.tolist()]
        cells: list[Any] = [datetime(day.year, day.month, day.day) for day in days] if pandas else days
        kind: Any = nw.Datetime() if pandas else nw.Date()
    elif column.scale.whole and not column.may_miss:
        return np.rint(values).astype(np.int64).tolist(), nw.Int64()
    else:
        cells, kind = values.tolist(), nw.Float64()
    return [None if gone else cell for cell, gone in zip(cells, absent.tolist(), strict=True)], kind


def _level_cells(column: CategoryColumn, made: Synthetic) -> tuple[list[Any], Any]:
    kinds = {type(level) for level in column.levels}
    levels: list[Any] = list(column.levels)
    if kinds == {int} and not column.may_miss:
        kind: Any = nw.Int64()
    elif kinds <= {int, float}:
        kind, levels = nw.Float64(), [float(level) for level in levels]
    elif kinds == {bool} and not column.may_miss:
        kind = nw.Boolean()
    else:
        kind, levels = nw.String(), [level if isinstance(level, str) else _text(level) for level in levels]
    levels += [None] * column.may_miss
    return [levels[code] for code in made.categories[column.name].tolist()], kind


def dictionary_to_fill_in(names: Sequence[str]) -> str:
    """A dictionary with the names of columns, in which their bounds or levels are to be written."""
    lines = [
        "# Fill in what is known of each column without looking at the data: bounds, or levels; drop the others.",
        "",
    ]
    for name in names:
        lines += [f"[columns.{json.dumps(name, ensure_ascii=False)}]", "# minimum = ", "# maximum = ", "# step = "]
        lines += ["# levels = []", "# missing = true", ""]
    return "\n".join(lines)
