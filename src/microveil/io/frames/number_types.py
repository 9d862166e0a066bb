"""Types of numbers other than float64: which of their numbers a double holds, and how new values go back into them.

The methods work on doubles. A number that no double holds would be another number before any work is done, and a type
that no one looks for would be released in clear; so the first is refused by name, and the second is found here.
"""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from typing import Any, Final

import narwhals as nw
import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.core.late import has_arrow, is_arrow, pa, pl

LARGEST_WHOLE: Final = 2**53
"""Beyond it doubles do not tell neighbouring whole numbers apart."""

DIGITS: Final = 15
"""Significant digits that every double keeps."""


def check_held(name: str, held: bool) -> None:
    """Refuse to protect a column that would not even be read right."""
    if not held:
        raise DataError(
            f"column '{name}' has numbers with more digits than float64 holds "
            f"(whole numbers beyond 2^53, or more than {DIGITS} digits)",
            "drop it if it numbers the records; else round it, divide it by a unit, or convert it to float64 yourself",
        )


def wholes_held(low: Any, high: Any) -> bool:
    """Whether a double holds every whole number between two; None stands for no cells at all."""
    return low is None or bool(int(low) >= -LARGEST_WHOLE and int(high) <= LARGEST_WHOLE)


def decimals_held(cells: Any) -> bool:
    """Whether every decimal of a column, of polars or Arrow, comes back from the nearest double."""
    cells = pl.Series(cells) if is_arrow(cells) else cells
    low, high = cells.min(), cells.max()
    if low is None or max(-low, high).scaleb(cells.dtype.scale) < 10**DIGITS:
        return True
    return all(Decimal(repr(float(cell))) == cell for cell in cells.drop_nulls().unique().to_list())


def as_doubles(cells: Any) -> Any:
    """The nearest double of every cell of an Arrow column, whole numbers beyond 2**53 included, which Arrow refuses."""
    if pa.types.is_decimal(cells.type):
        cells = cells.cast(pa.string())  # Arrow itself would be off in the last digit: 0.30000000000000004
    return cells.cast(pa.float64(), safe=False)


def as_decimals(values: Array, kind: Any) -> Any:
    """Doubles as decimals of a type of polars or Arrow; nothing, if one has more digits. NaN is missing."""
    finite = values[np.isfinite(values)]
    if np.isinf(values).any():
        return None
    largest = float(np.abs(finite).max(initial=0.0))
    # More digits than a double has would be made up: 0.1 is no 0.100000000000000006.
    before = int(np.floor(np.log10(largest))) + 1 if largest > 0 else 0
    scale = int(min(kind.scale, max(DIGITS - before, 0), 22))
    rounded = np.round(finite, scale)
    if before > kind.precision - kind.scale or not np.array_equal(rounded, finite):
        return None
    if isinstance(kind, pl.DataType):
        with suppress(pl.exceptions.PolarsError):
            return pl.Series(values).fill_nan(None).cast(pl.Decimal(38, scale)).cast(kind)
        return None
    with suppress(pa.ArrowException):
        return pa.array(values, from_pandas=True).cast(pa.decimal128(38, scale)).cast(kind)
    return None


def decimal_type(native: Any) -> Any:
    """The type of a column of polars or Arrow, or of pandas where it is kept by Arrow."""
    return native.type if is_arrow(native) else getattr(native.dtype, "pyarrow_dtype", native.dtype)


def hides_numbers(native: Any) -> bool:
    """Whether a column that is not of a type of numbers has numbers in it all the same.

    Categories that are numbers, lists and records of numbers, complex numbers, and whatever no library has a name for.
    """
    if isinstance(native, pl.Series):
        return native.dtype.is_nested() and _polars_numbers(native.dtype)
    kind = native.type if is_arrow(native) else getattr(native.dtype, "pyarrow_dtype", None)
    if kind is not None:
        return arrow_hides_numbers(kind)
    inner = getattr(native.dtype, "categories", native).dtype
    return getattr(inner, "kind", "O") in "iufc"


def _polars_numbers(kind: Any) -> bool:
    """Whether there are numbers in a type of polars, at whichever depth."""
    inner = [field.dtype for field in kind.fields] if kind == pl.Struct else [kind.inner] if kind.is_nested() else []
    return bool(kind.is_numeric()) or any(_polars_numbers(part) for part in inner)


def arrow_hides_numbers(kind: pa.DataType) -> bool:
    """Whether a type that is not one of numbers holds some."""
    return _arrow_numbers(kind) and not _is_number(kind)


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal128(kind))


def _arrow_numbers(kind: pa.DataType) -> bool:
    """Whether there are numbers in a type, at whichever depth."""
    types = pa.types
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return _arrow_numbers(kind.value_type)
    if types.is_nested(kind):
        return any(_arrow_numbers(kind.field(place).type) for place in range(kind.num_fields))
    return _is_number(kind) or bool(types.is_decimal(kind))


def plain_columns(data: Any) -> tuple[Any, dict[str, Any]]:
    """A pandas frame whose columns are all of a type with a name, and those of its columns that were not.

    Sparse columns and long doubles are full columns of doubles, and objects that are decimals are kept by Arrow.
    """
    columns = {name: data.iloc[:, place] for place, name in enumerate(data.columns)}
    decimals = {name: found for name, column in columns.items() if (found := _as_decimals_of_arrow(column)) is not None}
    own = {
        name: column
        for name, column in columns.items()
        if _is_sparse(column.dtype) or _is_long(column.dtype) or name in decimals
    }
    if not own or not data.columns.is_unique:
        return data, {}
    full = {name: column.sparse.to_dense() if _is_sparse(column.dtype) else column for name, column in own.items()}
    full |= decimals
    with np.errstate(over="ignore"):  # what a double cannot hold is infinite, and refused by name
        full |= {name: column.astype(np.float64) for name, column in full.items() if _is_long(column.dtype)}
    return data.assign(**full), own


def back_as_it_was(column: Any, was: Any) -> Any:
    """A column of pandas as sparse, as long doubles or as objects, as it was; whole numbers may have become others."""
    if was.dtype == object:  # digits that no cell had are no decimals any more
        is_decimal = str(column.dtype).startswith("decimal")
        return column.astype(object).where(column.notna(), None) if is_decimal else column
    if not _is_sparse(was.dtype):
        return column.astype(was.dtype)
    return column.astype(type(was.dtype)(column.dtype, was.dtype.fill_value))


def _as_decimals_of_arrow(column: Any) -> Any:
    """Objects that are decimals, as far as they are there, in the type that Arrow has for them; None for others."""
    pandas = nw.dependencies.get_pandas()
    if column.dtype != object or not has_arrow():
        return None
    try:
        there = column[column.notna()].head(1).tolist()
        if not there or not isinstance(there[0], Decimal):
            return None
        cells = pa.array(column, from_pandas=True)
    except (pa.ArrowException, ArithmeticError, TypeError):  # of decimals that signal when looked at, or are infinite
        return None
    if pandas is None or not pa.types.is_decimal128(cells.type):
        return None
    return column.astype(pandas.ArrowDtype(cells.type))


def _is_sparse(kind: Any) -> bool:
    return type(kind).__name__ == "SparseDtype"


def _is_long(kind: Any) -> bool:
    return isinstance(kind, np.dtype) and kind.kind == "f" and kind.itemsize > np.dtype(np.float64).itemsize
