"""Frames in, the same kind of frame out: numpy arrays, and through narwhals pandas, polars and Arrow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from microveil.core.errors import DataError

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

KINDS = "a numpy array, a pandas or polars DataFrame or a pyarrow Table"


class Frame(ABC):
    """A table as the outside world holds it."""

    names: list[str]
    count: int

    @abstractmethod
    def is_numeric(self, name: str) -> bool:
        """Whether the column holds numbers (true/false does not count)."""

    @abstractmethod
    def is_integer(self, name: str) -> bool:
        """Whether the column has a type of whole numbers."""

    @abstractmethod
    def numbers(self, name: str) -> Array:
        """A numeric column as float64, NaN where a cell is missing. Not to be written to."""

    @abstractmethod
    def block(self) -> Array | None:
        """All columns as one float64 array, where that costs no copy."""

    @abstractmethod
    def labels(self, name: str) -> NDArray[np.intp]:
        """A column as whole numbers that stand for its distinct values in ascending order."""

    @abstractmethod
    def as_stored(self, name: str, values: Array) -> Array:
        """New values as the column will hold them: rounded, if it is a float32."""

    @abstractmethod
    def rebuilt(self, columns: Mapping[str, Array], changed: Mapping[str, Mask | None]) -> Any:
        """A frame of the same kind with new values; cells not `changed` (None: all are) stay as they were."""


def open_frame(data: Any) -> Frame:
    """The frame of a table of any supported kind."""
    if isinstance(data, np.ndarray):
        return NumpyFrame(data)
    try:
        native = nw.from_native(data, eager_only=True)
    except TypeError:
        lazy = type(data).__name__ == "LazyFrame"
        hint = "collect() it first" if lazy else f"give {KINDS}"
        raise DataError(f"data: cannot work with {type(data).__name__}", hint) from None
    except (nw.exceptions.NarwhalsError, ValueError):
        # narwhals refuses duplicate names while opening the frame
        raise _duplicates(list(getattr(data, "column_names", getattr(data, "columns", [])))) from None
    return NarwhalsFrame(native)


def _duplicates(names: Sequence[Any]) -> DataError:
    twice = [str(name) for name, times in Counter(names).items() if times > 1]
    if not twice:
        return DataError("data: the table cannot be read", f"give {KINDS}")
    return DataError(f"column '{twice[0]}' occurs more than once", "give every column a name of its own")


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
        self.values = np.asarray(data, dtype=np.float64)

    def is_numeric(self, name: str) -> bool:
        return True

    def is_integer(self, name: str) -> bool:
        return self.data.dtype.kind in "iub"

    def numbers(self, name: str) -> Array:
        return self.values[:, int(name)]

    def block(self) -> Array | None:
        return self.values

    def labels(self, name: str) -> NDArray[np.intp]:
        return np.unique(self.numbers(name), return_inverse=True)[1].ravel()

    def as_stored(self, name: str, values: Array) -> Array:
        if self.data.dtype.kind != "f" or self.data.dtype == np.float64:
            return values
        return values.astype(self.data.dtype).astype(np.float64)

    def rebuilt(self, columns: Mapping[str, Array], changed: Mapping[str, Mask | None]) -> Any:
        dtype = self.data.dtype if self.data.dtype.kind == "f" else np.dtype(np.float64)
        whole = _common_buffer([columns.get(name) for name in self.names])
        if whole is not None and dtype == np.float64 and all(changed[name] is None for name in self.names):
            return whole.T
        out = np.empty(self.data.shape, dtype=dtype, order="F")
        for j, name in enumerate(self.names):
            out[:, j] = self.data[:, j]
            if name in columns:
                mask = changed[name]
                np.copyto(out[:, j], columns[name], where=True if mask is None else mask, casting="same_kind")
        return out


def _common_buffer(columns: Sequence[Array | None]) -> Array | None:
    """The array whose rows these columns are, in order, so that a release need not be copied."""
    first = columns[0] if columns else None
    base = None if first is None else first.base
    if not isinstance(base, np.ndarray) or base.ndim != 2 or base.shape[0] != len(columns):
        return None
    same = all(c is not None and c.base is base and c.ctypes.data == base[j].ctypes.data for j, c in enumerate(columns))
    return base if same else None


class NarwhalsFrame(Frame):
    """A pandas, polars or Arrow table."""

    def __init__(self, native: nw.DataFrame[Any]) -> None:
        self.native = native
        self.names = list(native.columns)
        for name in self.names:
            if not isinstance(name, str):
                raise DataError(f"column {name!r} has a name that is not text", "rename it, e.g. with str()")
        if len(set(self.names)) < len(self.names):
            raise _duplicates(self.names)
        self.count = len(native)
        self.schema = native.schema

    def is_numeric(self, name: str) -> bool:
        # A column that is missing from end to end has no type of its own in some libraries.
        return bool(self.schema[name].is_numeric()) or self._is_blank(name)

    def _is_blank(self, name: str) -> bool:
        return self.schema[name] in (nw.Unknown, nw.Object) and bool(self.native[name].is_null().all())

    def is_integer(self, name: str) -> bool:
        return bool(self.schema[name].is_integer())

    def numbers(self, name: str) -> Array:
        column = self.native[name]
        values = column.cast(nw.Float64).to_numpy()
        return np.ascontiguousarray(values, dtype=np.float64)

    def block(self) -> Array | None:
        return None

    def labels(self, name: str) -> NDArray[np.intp]:
        column = self.native[name]
        missing = column.is_null().to_numpy()
        if self.is_numeric(name):
            values: Any = self.numbers(name)
        else:
            values = np.array([str(value) for value in column.to_list()], dtype=np.str_)
        codes = np.unique(values, return_inverse=True)[1].ravel()
        # A missing label is a group of its own, after all others.
        codes = np.where(missing, codes.max(initial=-1) + 1, codes)
        return np.unique(codes, return_inverse=True)[1].ravel()

    def as_stored(self, name: str, values: Array) -> Array:
        return values.astype(np.float32).astype(np.float64) if self.schema[name] == nw.Float32 else values

    def rebuilt(self, columns: Mapping[str, Array], changed: Mapping[str, Mask | None]) -> Any:
        new = [self._series(name, values, changed[name]) for name, values in columns.items()]
        return self.native.with_columns(*new).to_native()

    def _series(self, name: str, values: Array, changed: Mask | None) -> nw.Series[Any]:
        """New values in the column's own flavour: a float32 stays one, all other numbers become float64."""
        old = self.native[name]
        if self.schema[name] != nw.Float32:
            old = old.cast(nw.Float64)
        new = self._like(old, values)
        if changed is None:
            return new
        return new.zip_with(self._like(old, changed), old).alias(name)

    def _like(self, column: nw.Series[Any], values: NDArray[Any]) -> nw.Series[Any]:
        """Values as a series of the same library, with the same index where it has one."""
        if not self.native.implementation.is_pandas_like():
            dtype = nw.Boolean() if values.dtype == np.bool_ else column.dtype
            return nw.new_series(column.name, values, dtype, backend=self.native.implementation)
        template = column.to_native()
        series = type(template)(values, index=template.index, name=template.name)
        if values.dtype != np.bool_:
            series = series.astype(template.dtype)  # nullable or Arrow-backed, as the column was
        wrapped: nw.Series[Any] = nw.from_native(series, series_only=True)
        return wrapped
