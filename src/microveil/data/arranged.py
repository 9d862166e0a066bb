"""Tables with columns left out, or with their rows in another order, of the kind that they were."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from microveil.core.errors import ParameterError
from microveil.data.frames import open_frame


def without_columns(data: Any, names: Sequence[str]) -> Any:
    """The table without some columns. Columns of an array have no names but their places, and these would change."""
    if not names:
        return data
    frame = open_frame(data)
    if isinstance(data, np.ndarray):
        raise ParameterError("drop: the columns of an array cannot be dropped", "leave them out of the array")
    stay = [place for place, name in enumerate(frame.names) if name not in names]
    if nw.dependencies.is_pandas_like_dataframe(data):
        return data.iloc[:, stay]  # by place: names need not be text
    return nw.from_native(data, eager_only=True).select([frame.names[place] for place in stay]).to_native()


def with_rows(data: Any, rows: NDArray[np.intp]) -> Any:
    """Some rows of a table, in an order given. The index of pandas is numbered anew: it would tell the old order."""
    if isinstance(data, np.ndarray):
        return data[rows]
    if nw.dependencies.is_pandas_like_dataframe(data):
        return data.iloc[rows].reset_index(drop=True)
    return nw.from_native(data, eager_only=True)[rows.tolist()].to_native()


def manner_with_rows(manner: Any, rows: NDArray[np.intp]) -> Any:
    """How a file was written, for a table with its rows in another order.

    What is kept of its cells (the text of a number, the word for a missing one) is looked up by place. It goes with its
    row: left where it was, it would tell which rows were there.
    """
    import polars as pl

    if isinstance(manner, pl.Series):
        return manner[rows.tolist()] if len(manner) == rows.size else manner
    if isinstance(manner, list):
        return [manner[row] for row in rows] if len(manner) == rows.size else manner
    if isinstance(manner, Mapping):
        return {name: manner_with_rows(kept, rows) for name, kept in manner.items()}
    if isinstance(manner, tuple) and hasattr(manner, "_make"):
        return manner._make(manner_with_rows(kept, rows) for kept in manner)
    if dataclasses.is_dataclass(manner) and not isinstance(manner, type):
        fields = [field.name for field in dataclasses.fields(manner) if field.init]
        return dataclasses.replace(manner, **{name: manner_with_rows(getattr(manner, name), rows) for name in fields})
    return manner
