"""Columns of labels with other cells: some of them missing, or of other levels, in the library and type they had."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from microveil.core.arrays import Index
from microveil.core.late import is_arrow, pa, pl


def taken(column: Any, rows: Index) -> Any:
    """The cells of some rows of a pandas, polars or Arrow column; missing where the row is -1.

    Whole numbers and truth values of pandas, among which none can be missing, become its nullable ones (Int64).
    """
    gone = rows < 0
    if hasattr(column, "iloc"):
        cells = column.iloc[np.where(gone, 0, rows)]
        if not gone.any():
            return cells
        if isinstance(cells.dtype, np.dtype) and cells.dtype.kind in "iub":
            cells = cells.astype("boolean" if cells.dtype.kind == "b" else _nullable(cells.dtype))
        return cells.mask(gone)
    places = pl.Series(rows).replace(-1, None)  # Arrow would load pandas to make them of an array
    return column.take(places.to_arrow()) if is_arrow(column) else column.gather(places)


def palette(column: Any, levels: Sequence[Any]) -> Any:
    """New levels as a short column like another one: of its type, if they fit it, with its categories if it has any."""
    names = list(dict.fromkeys(level for level in levels if level is not None))
    if hasattr(column, "iloc"):
        kind = column.dtype
        plain = type(column)(list(levels))
        if hasattr(kind, "categories"):  # of new levels nobody knows the order
            return plain.astype(kind if set(names) <= set(kind.categories) else type(kind)(names))
        with suppress(TypeError, ValueError):
            fitting = plain.astype(kind)
            return fitting if bool((fitting == plain).all()) else plain
        return plain
    if is_arrow(column):
        return pa.chunked_array([_arrow(column.type, levels)])
    plain_series = pl.Series(column.name, list(levels), strict=False)
    kind = pl.Enum(names) if column.dtype == pl.Enum and plain_series.dtype == pl.String else column.dtype
    with suppress(pl.exceptions.PolarsError):
        fitting_series = plain_series.cast(kind)
        same = kind in (pl.Categorical, pl.Enum) or bool((fitting_series == plain_series).all())
        return fitting_series if same else plain_series
    return plain_series


def _arrow(kind: Any, levels: Sequence[Any]) -> Any:
    plain = pa.array(list(levels))
    if pa.types.is_dictionary(kind):
        return plain.dictionary_encode()
    with suppress(pa.ArrowException):
        return plain.cast(kind)  # which refuses what does not fit
    return plain


def _nullable(kind: np.dtype[Any]) -> str:
    """int16: Int16, uint8: UInt8."""
    return kind.name.replace("uint", "UInt") if kind.kind == "u" else kind.name.replace("int", "Int")
