"""Frames in, the same kind of frame out: numpy arrays, and through narwhals pandas, polars and Arrow."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import FIRST_ROWS, Array, Index, Mask
from microveil.core.errors import DataError
from microveil.core.late import has_arrow, is_arrow, pa, pl
from microveil.io.files.formats import MISSING, check_no_pattern
from microveil.io.frames import number_types
from microveil.io.frames.base import NOTHING, Cells, Changed, Frame, Labels, Levels, NumpyFrame, fits, same_numbers
from microveil.io.frames.relabel import palette, taken
from microveil.io.frames.times import TimeColumn, as_series, read_times

__all__ = ["Frame", "NarwhalsFrame", "NumpyFrame", "as_polars", "fingerprint", "open_frame", "table_like"]

KINDS = "a numpy array, a pandas or polars DataFrame or a pyarrow Table"

_CODES: Final = 0.05  # share of cells like 007 that makes a column one of codes; fewer are slips of the pen
_TRIMMINGS: Final = re.compile(r"[\s\u00a0\u202f\u2019'*%€$£()]|EUR|USD|GBP|CHF", re.IGNORECASE)
_LEADING_ZERO: Final = re.compile(r"[<>]?=?\s*[+-]?0[0-9]")
# A number as people type it: either sign of decimals, either sign of thousands, '<5' for a cell that was blurred.
_TYPED_NUMBER: Final = re.compile(
    r"""(?:[<>]=?\s*)? [+-]?
        (?: [0-9]{1,3}(?:\.[0-9]{3})+(?:,[0-9]*)? | [0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]*)?
          | [0-9]+[.,]?[0-9]* | [.,][0-9]+ )
        (?:[eE][+-]?[0-9]+)?""",
    re.VERBOSE,
)


def open_frame(data: Any) -> Frame:
    """The frame of a table of any supported kind; an opened one is given back."""
    if isinstance(data, Frame):
        return data
    frame = NumpyFrame(data) if isinstance(data, np.ndarray) else _narwhals_frame(data)
    frame.source = data
    return frame


def _narwhals_frame(data: Any) -> Frame:
    headings: Any = None
    own: dict[str, Any] = {}
    if nw.dependencies.is_pandas_like_dataframe(data):
        headings = data.columns
        data, own = number_types.plain_columns(_with_text_names(data))
    try:
        native = nw.from_native(data, eager_only=True)
    except TypeError:
        lazy = type(data).__name__ == "LazyFrame"
        hint = "collect() it first" if lazy else f"give {KINDS}"
        raise DataError(f"data: cannot work with {type(data).__name__}", hint) from None
    except (nw.exceptions.NarwhalsError, ValueError):
        # narwhals refuses duplicate names while opening the frame
        raise _duplicates(list(getattr(data, "column_names", getattr(data, "columns", [])))) from None
    return NarwhalsFrame(native, headings, own)


def fingerprint(data: Any) -> str:
    """A hash of all cells of a table, none of which can be found from it; `data` is any table that `protect` takes."""
    frame = open_frame(data)
    digest = hashlib.blake2b(json.dumps(frame.names).encode(), digest_size=16)
    for name in frame.names:
        cells = frame.numbers(name) if frame.is_numeric(name) else frame.labels(name)
        digest.update(np.ascontiguousarray(cells).tobytes())
    return digest.hexdigest()


def table_like(frame: Frame, columns: Mapping[str, list[Any]]) -> Any:
    """A small table about something else, of the kind of `frame`. Arrays have no names, so polars it is for them.

    Columns hold text, or numbers and None; whole numbers are counts.
    """
    backend: Any = frame.native.implementation if isinstance(frame, NarwhalsFrame) else "polars"
    schema = {name: _type_of(cells) for name, cells in columns.items()}
    return nw.from_dict(columns, schema, backend=backend).to_native()


def as_polars(data: Any) -> pl.DataFrame:
    """Any table in the kind that files are written from; the columns of an array are called by their numbers."""
    if isinstance(data, np.ndarray):
        return pl.DataFrame(data, schema=list(open_frame(data).names))
    native = nw.from_native(_with_text_names(data), eager_only=True)
    if native.implementation.is_pandas_like() and not has_arrow():
        return pl.DataFrame({name: as_series(native[name]) for name in native.columns})
    found: pl.DataFrame = native.to_polars()
    return found


def _type_of(cells: list[Any]) -> Any:
    if any(isinstance(cell, str) for cell in cells):
        return nw.String()
    return nw.Int64() if cells and all(isinstance(cell, int) for cell in cells) else nw.Float64()


def _with_text_names(data: Any) -> Any:
    """A pandas frame whose column names are text, which numbers and the tuples of a MultiIndex are not."""
    if all(isinstance(name, str) for name in data.columns):
        return data
    names = [str(name) for name in data.columns]
    if data.columns.is_unique and len(set(names)) < len(names):
        twice = next(name for name, times in Counter(names).items() if times > 1)
        raise DataError(f"two column names both read '{twice}' as text", "rename one of them")
    data = data.copy(deep=False)
    data.columns = names
    return data


def _duplicates(names: Sequence[Any]) -> DataError:
    twice = [str(name) for name, times in Counter(names).items() if times > 1]
    if not twice:
        return DataError("data: the table cannot be read", f"give {KINDS}")
    return DataError(f"column '{twice[0]}' occurs more than once", "give every column a name of its own")


class NarwhalsFrame(Frame):
    """A pandas, polars or Arrow table; `headings` are the column names of pandas, which need not be text.

    `own` are those of its columns, as they were, that are of a plainer type in `native`.
    """

    def __init__(self, native: nw.DataFrame[Any], headings: Any = None, own: Mapping[str, Any] = NOTHING) -> None:
        self.native = native
        self.headings = headings
        self.own = own
        self._times_read: dict[str, TimeColumn | None] = {}
        self._distinct: dict[str, int] = {}
        self._few_levels: dict[str, NDArray[np.uint8]] = {}
        self.names = list(native.columns)
        if len(set(self.names)) < len(self.names):
            raise _duplicates(self.names)
        if native.implementation.is_polars():
            check_no_pattern(self.names)
        self.count = len(native)
        try:
            self.schema = native.schema
        except ValueError:  # narwhals knows no decimals of thousands
            raise DataError("data: a column has decimals of a negative scale", "convert it to float64 first") from None

    def is_numeric(self, name: str) -> bool:
        # A column that is missing from end to end has no type of its own in some libraries.
        return name in self.times or bool(self.schema[name].is_numeric()) or self._is_blank(name)

    def _is_blank(self, name: str) -> bool:
        return self.schema[name] in (nw.Unknown, nw.Object) and bool(self.native[name].is_null().all())

    def is_integer(self, name: str) -> bool:
        return name in self.times or bool(self.schema[name].is_integer())

    def time_column(self, name: str) -> TimeColumn | None:
        if name not in self._times_read:
            self._times_read[name] = read_times(self.native[name])
        return self._times_read[name]

    def level_order(self, name: str) -> list[str]:
        kind: Any = self.schema[name]
        if kind != nw.Enum:
            kind = getattr(self.native[name].to_native(), "dtype", None)
        ordered = self.schema[name] == nw.Enum or getattr(kind, "ordered", False)
        return [str(level) for level in kind.categories] if ordered else []

    def looks_numeric(self, name: str) -> bool:
        if self.schema[name] not in (nw.String, nw.Object, nw.Binary):
            return False
        cells = self.native[name].gather_every(max(1, -(-self.count // FIRST_ROWS))).drop_nulls().to_list()
        return _mostly_numbers(cells)

    def hides_numbers(self, name: str) -> bool:
        return not self.is_numeric(name) and number_types.hides_numbers(self.native[name].to_native())

    def is_decimal(self, name: str) -> bool:
        return isinstance(self.schema[name], nw.Decimal)

    def is_held(self, name: str) -> bool:
        if name in self.times:
            return True
        if name in self.own and not self.is_integer(name) and not self.is_decimal(name):
            return same_numbers(np.asarray(self.own[name]), self.numbers(name))
        if not self.is_integer(name) and not self.is_decimal(name):
            return True
        column = self.native[name].drop_nulls()
        if self.is_decimal(name):
            return number_types.decimals_held(as_series(column))
        return not len(column) or number_types.wholes_held(column.min(), column.max())

    def is_unique(self, name: str) -> bool:
        column = self.native[name]
        try:
            start = column.head(FIRST_ROWS)  # settles it for most columns
            if start.n_unique() < len(start):
                return False
            distinct = self.levels(name) if self.schema[name] == nw.String else column.n_unique()
        except Exception:  # each library has its own error for cells that cannot be compared, such as lists
            distinct = int(self.labels(name).max(initial=-1)) + 1
        return 0 < distinct == self.count and self.missing(name) == 0

    def groups(self, name: str) -> Index:
        return _distinct_texts(self.native[name])[1] if self.schema[name] == nw.String else self.labels(name)

    def levels(self, name: str) -> int:
        if name not in self._distinct:
            # Counting texts takes a tenth of the time of numbering them in their order.
            text = self.schema[name] == nw.String
            self._distinct[name] = int(self.native[name].drop_nulls().n_unique()) if text else super().levels(name)
        return self._distinct[name]

    def missing(self, name: str) -> int:
        return super().missing(name) if self.is_numeric(name) else int(self.native[name].is_null().sum())

    def numbers(self, name: str) -> Array:
        if name in self.times:
            return self.times[name].numbers
        return np.ascontiguousarray(self._floats(name).to_numpy(), dtype=np.float64)

    def _floats(self, name: str) -> nw.Series[Any]:
        """A numeric column as float64, in its own library."""
        try:
            return _as_float64(self.native[name])
        except MemoryError:
            raise
        except Exception:
            why = "cannot be turned into decimal numbers"
        # Raised out here: the error of the library quotes the cell, so it must not even be the context of this one.
        raise DataError(f"column '{name}' {why}", "convert it to float64 first")

    def words(self, name: str, rows: Index) -> list[str]:
        if self.is_numeric(name) and name not in self.times:
            return super().words(name, rows)
        return [str(cell) for cell in self.native[name][rows.tolist()].to_list()]

    def labels(self, name: str) -> Index:
        if name in self._few_levels and name not in self.times:
            return self._few_levels[name].astype(np.intp)
        found = self._numbered(name)
        if name not in self.times and found.max(initial=0) <= np.iinfo(np.uint8).max:
            self._few_levels[name] = found.astype(np.uint8)  # every search asks again, and a byte a row is little
        return found

    def _numbered(self, name: str) -> Index:
        numeric = self.is_numeric(name)
        if numeric and self.is_held(name):
            values = self.numbers(name)
            return np.unique(values, return_inverse=True)[1].ravel()  # NaN comes last
        texts, codes = _distinct_texts(self.native[name])
        order = {text: rank for rank, text in enumerate(sorted(set(texts), key=Decimal if numeric else None))}
        # Code -1, a missing cell, takes the last place.
        ranks = np.array([*(order[text] for text in texts), len(order)], dtype=np.intp)[codes]
        used = np.bincount(ranks, minlength=1) > 0  # a categorical may have values that no cell has
        return np.cumsum(used, dtype=np.intp)[ranks] - 1

    def short_type(self, name: str) -> np.dtype[Any] | None:
        kind = self.schema[name]
        return np.dtype(str(kind).lower()) if kind in (nw.Float32, nw.Float16) else None

    def as_stored(self, name: str, values: Array) -> Array:
        return np.round(values) if name in self.times else super().as_stored(name, values)

    def rebuilt(self, columns: Cells, changed: Changed, labels: Labels = NOTHING, levels: Levels = NOTHING) -> Any:
        new = [self._series(name, values, changed[name]) for name, values in columns.items()]
        rows = {name: self.rows_with(name, codes) for name, codes in labels.items() if name not in levels}
        new += [self._taken(self.native[name].to_native(), places, name) for name, places in rows.items()]
        for name, found in levels.items():
            new.append(self._taken(palette(self.native[name].to_native(), found), labels[name], name))
        native = self.native.with_columns(*new).to_native()
        if self.own:  # of a type that may not hold missing cells or other levels: then it stays the plainer one
            own = {name: was for name, was in self.own.items() if name not in labels}
            own |= {name: self.own[name].iloc[at] for name, at in rows.items() if name in self.own and (at >= 0).all()}
            native = native.assign(
                **{
                    name: number_types.back_as_it_was(native[name], was) if name in columns else was
                    for name, was in own.items()
                }
            )
        if self.headings is not None:
            native.columns = self.headings
        return native

    def level_values(self, name: str) -> list[Any]:
        rows = np.unique(self.labels(name), return_index=True)[1]
        found = self.native[name][rows.tolist()]
        cells = zip(found.to_list(), found.is_null().to_list(), strict=True)
        return [None if gone or cell != cell else cell for cell, gone in cells]  # NaN is not itself

    def _taken(self, column: Any, rows: Index, name: str) -> nw.Series[Any]:
        """The cells of some rows (-1: a missing one) as a column of this table, with the index that it has."""
        cells = taken(column, rows)
        if self.native.implementation.is_pandas_like():
            cells = cells.set_axis(self.native.to_native().index)
        return _wrapped(cells).alias(name)

    def _series(self, name: str, values: Array, changed: Mask | None) -> nw.Series[Any]:
        """New values in the column's own type, if all fit it: whole numbers and decimals; else float64."""
        old = self.native[name]
        if name in self.times:
            times = self.times[name]
            cells = values if changed is None else np.where(changed, values, times.numbers)
            return _wrapped(times.written(cells, old)).alias(name)
        decimals = self._decimals(old, values, changed) if self.is_decimal(name) else None
        if decimals is not None:
            return decimals if changed is None else decimals.zip_with(self._like(old, changed), old).alias(name)
        if self.is_integer(name) and fits(values, changed, _numpy_integer(self.schema[name])):
            whole = values if changed is None else np.where(changed, values, 0)
            values = whole.astype(_numpy_integer(self.schema[name]))
        elif self.short_type(name) is None:
            old = self._floats(name)
        new = self._like(old, values)
        if changed is None:
            return new
        if np.isnan(values[changed]).any():
            new = new.fill_nan(None)  # a ratio without a denominator is missing as the library has it
        return new.zip_with(self._like(old, changed), old).alias(name)

    def _decimals(self, column: nw.Series[Any], values: Array, changed: Mask | None) -> nw.Series[Any] | None:
        """Values as decimals of the column's own type, if they have no more digits than it."""
        template = column.to_native()
        cells = number_types.as_decimals(
            values if changed is None else np.where(changed, values, 0), number_types.decimal_type(template)
        )
        if cells is None:
            return None
        if self.native.implementation.is_pandas_like():
            return _wrapped(type(template)(type(template.array)(cells), index=template.index, name=template.name))
        return _wrapped(pa.chunked_array([cells]) if is_arrow(cells) else cells).alias(column.name)

    def _like(self, column: nw.Series[Any], values: NDArray[Any]) -> nw.Series[Any]:
        """Values as a series of the same library, with the same index where it has one."""
        if not self.native.implementation.is_pandas_like():
            dtype = nw.Boolean() if values.dtype == np.bool_ else column.dtype
            return nw.new_series(column.name, values, dtype, backend=self.native.implementation)
        template = column.to_native()
        series = type(template)(values, index=template.index, name=template.name)
        if values.dtype != np.bool_:
            series = series.astype(template.dtype)  # nullable or Arrow-backed, as the column was
        return _wrapped(series)


def _numpy_integer(dtype: nw.dtypes.DType) -> np.dtype[Any]:
    """The numpy type of an integer column: Int16 -> int16. A double tells no more apart than 64 bits do."""
    return np.dtype(str(dtype).lower().replace("128", "64"))


def _as_float64(column: nw.Series[Any]) -> nw.Series[Any]:
    """The nearest float64 of every cell."""
    native = column.to_native()
    if is_arrow(native):
        return _wrapped(number_types.as_doubles(native)).alias(column.name)
    if hasattr(native.dtype, "pyarrow_dtype"):
        cells: Any = native.array
        return _wrapped(
            type(native)(type(cells)(number_types.as_doubles(pa.array(cells))), index=native.index, name=native.name)
        )
    return column.cast(nw.Float64)


def _wrapped(series: Any) -> nw.Series[Any]:
    return nw.from_native(series, series_only=True)


def _distinct_texts(column: nw.Series[Any]) -> tuple[list[str], Index]:
    """The values of a column as text, and for each cell the number of its value, -1 if it is missing."""
    if column.implementation.is_polars() and not column.dtype.is_nested() and column.dtype != nw.Object:
        return _distinct_of_polars(column.to_native())
    if column.dtype != nw.Object and has_arrow():  # of objects Arrow makes one value of 1 and 1.0
        with suppress(pa.ArrowException, UnicodeError):  # lists, and text that is not Unicode
            encoded = pa.chunked_array([column.to_arrow()]).dictionary_encode().unify_dictionaries().combine_chunks()
            codes = pl.Series(encoded.indices).cast(pl.Int64).fill_null(-1).to_numpy()  # Arrow's way would load pandas
            return [str(value) for value in encoded.dictionary.to_pylist()], codes
    numbers: dict[str, int] = {}
    cells = zip(column.to_list(), column.is_null().to_list(), strict=True)
    found = (-1 if missing else numbers.setdefault(str(value), len(numbers)) for value, missing in cells)
    codes = np.fromiter(found, dtype=np.intp, count=len(column))
    return list(numbers), codes


def _distinct_of_polars(cells: pl.Series) -> tuple[list[str], Index]:
    cells = cells.cast(pl.String) if cells.dtype in (pl.Categorical, pl.Enum) else cells
    distinct = cells.drop_nulls().unique(maintain_order=True)
    if not len(distinct):  # a table of nothing has no type of numbers to look up
        return [], np.full(len(cells), -1, dtype=np.intp)
    if cells.dtype == pl.String:
        codes = cells.cast(pl.Enum(distinct)).to_physical().cast(pl.Int64)
    else:
        codes = cells.replace_strict(distinct, pl.Series(np.arange(len(distinct))), return_dtype=pl.Int64)
    return [str(value) for value in distinct.to_list()], codes.fill_null(-1).to_numpy().astype(np.intp)


def _has_number(cell: Any) -> bool:
    """Whether an object is a number, or one that holds some."""
    if isinstance(cell, dict):
        cell = list(cell.values())
    if isinstance(cell, list | tuple | np.ndarray):
        return any(_has_number(part) for part in cell[:10])
    return isinstance(cell, int | float | complex | Decimal | np.number) and not isinstance(cell, bool)


def _mostly_numbers(cells: Iterable[Any]) -> bool:
    """Whether at least half of the cells are numbers or read like one, and hardly any like a code such as 007."""
    present = numbers = codes = 0
    for cell in cells:
        if not isinstance(cell, str | bytes):
            present += 1
            numbers += _has_number(cell)
            continue
        text = (cell if isinstance(cell, str) else cell.decode(errors="replace")).strip()
        if text in MISSING:
            continue
        present += 1
        text = _TRIMMINGS.sub("", text)  # 1 234, 12.5 %, (5), 12.00 EUR
        codes += _LEADING_ZERO.match(text) is not None
        numbers += _TYPED_NUMBER.fullmatch(text) is not None
    return 0 < present <= 2 * numbers and codes < _CODES * present
