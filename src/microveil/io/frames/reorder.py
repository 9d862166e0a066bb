"""Tables with columns left out, or with their rows in another order, of the kind that they were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Index, Mask
from microveil.core.errors import ParameterError, check_column
from microveil.core.late import pa, pl
from microveil.core.rng import Stream
from microveil.io.files.formats import FileFormat, split_notes
from microveil.io.frames.dataframes import open_frame


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


class IndexAndNotes(NamedTuple):
    """The index and the notes of a table, as far as they are released, and warnings about them."""

    index: Any = None
    notes: Any = None
    warnings: Sequence[str] = ()

    def put_back(self, data: Any, order: Index | None) -> Any:
        """A released table with it, the index with its rows."""
        if self.index is not None:
            data = data.set_axis(self.index if order is None else self.index[order], axis=0)
        return data if self.notes is None else _with_notes(data, self.notes)


def set_apart(data: Any, keep: Sequence[str], *, keep_notes: bool, names: Sequence[str]) -> tuple[Any, IndexAndNotes]:
    """The columns of a table `data` alone, and what else is to be released with them; `names` are those of all columns.

    The index of pandas may name the records, so it stays behind but for the levels to `keep`. Notes on the table and
    its columns (`attrs` of pandas, metadata of Arrow) stay behind, too, unless `keep_notes`: nobody has looked at them.
    """
    is_pandas = nw.dependencies.is_pandas_like_dataframe(data)
    levels = _levels(data.index) if is_pandas else []
    for name in keep:
        check_column("keep", name, [*levels, *names])
    warnings, index, notes = [], None, _notes(data) or None
    if is_pandas and levels:
        left = [place for place, name in enumerate(levels) if name not in keep]
        index = data.index.droplevel(left) if 0 < len(left) < len(levels) else None if left else data.index
        warnings += _about_index([levels[place] for place in left], [name for name in levels if name in keep])
        data = data.reset_index(drop=True)
    if notes is not None:
        word = "released as they are" if keep_notes else "left out of the release; keep_notes keeps them"
        warnings.append(f"notes on the table and its columns (attrs, metadata) are {word}")
        data = _with_notes(data, None)
    return data, IndexAndNotes(index, notes if keep_notes else None, warnings)


def _levels(index: Any) -> list[str]:
    """The names of the levels of an index that says something: not of one that counts the rows from 0."""
    if index.nlevels > 1:
        return [f"level_{place}" if name is None else str(name) for place, name in enumerate(index.names)]
    if index.name is None and index.dtype.kind in "iu" and np.array_equal(index, np.arange(len(index))):
        return []
    return ["index" if index.name is None else str(index.name)]


def _about_index(left: Sequence[str], kept: Sequence[str]) -> list[str]:
    said = [f"the index is left out of the release: {', '.join(left)}; name what is to stay with keep"] if left else []
    return said + ([f"the index is released as it is, on request: {', '.join(kept)}"] if kept else [])


def _notes(data: Any) -> Any:
    """The `attrs` of a pandas frame, or the metadata of an Arrow table and of its columns, if there are any."""
    if nw.dependencies.is_pyarrow_table(data):
        columns = {field.name: field.metadata for field in data.schema if field.metadata}
        return (data.schema.metadata, columns) if split_notes(data.schema)[1] or columns else None
    return dict(getattr(data, "attrs", {})) if nw.dependencies.is_pandas_like_dataframe(data) else None


def _with_notes(data: Any, notes: Any) -> Any:
    """A table with these notes, and no others. What pandas notes about its types and its index is none."""
    if not nw.dependencies.is_pyarrow_table(data):
        data = data.copy(deep=False)
        data.attrs = notes or {}
        return data
    pandas, _ = split_notes(data.schema)
    whole, columns = notes or ({} if pandas is None else {b"pandas": pandas}, {})
    fields = [field.with_metadata(columns.get(field.name)) for field in data.schema]
    return pa.table(data.columns, schema=pa.schema(fields, whole))


def renumbered(data: Any, name: str, labels: Index, stream: Stream) -> Any:
    """The table `data` with a column `name` of identifiers numbered from 1, in a random order from the `stream`.

    `labels` (a number for each row) says which rows have the same one. Missing cells stay missing.
    """
    frame = open_frame(data)
    numbers = stream.generator().permutation(int(labels.max(initial=-1)) + 1)[labels] + 1
    if isinstance(data, np.ndarray):
        out = np.array(data)
        out[:, frame.names.index(name)] = numbers
        return out
    native = nw.from_native(data, eager_only=True)
    column = native[native.columns[frame.names.index(name)]]  # whose name need not be text
    new = nw.new_series(column.name, numbers, nw.Int64(), backend=native.implementation)
    if not column.dtype.is_numeric():
        new = new.cast(nw.String())
    if native.implementation.is_pandas_like():
        new = nw.from_native(new.to_native().set_axis(data.index), series_only=True)
    missing = column.is_null()
    if missing.any() and column.dtype.is_numeric() and native.implementation.is_pandas_like():
        return native.with_columns(column.zip_with(missing, new.cast(column.dtype))).to_native()
    if missing.any():
        new = nw.maybe_align_index(new, column)
        new = new.zip_with(
            ~missing,
            nw.new_series(column.name, [None] * len(column), new.dtype, backend=native.implementation),
        )
    return native.with_columns(new).to_native()


def with_columns_from(data: Any, taken: Mapping[str, tuple[Any, Index]]) -> Any:
    """The table with some columns of other tables of its kind, each with the rows that are named."""
    if isinstance(data, np.ndarray):
        columns = {name: open_frame(table).numbers(name)[rows] for name, (table, rows) in taken.items()}
        return open_frame(data).rebuilt(columns, dict.fromkeys(columns))
    if nw.dependencies.is_pandas_like_dataframe(data):  # by place: names need not be text
        out, places = data.copy(deep=False), _places(data)
        places_in = {id(table): _places(table) for table, _ in taken.values()}
        for name, (table, rows) in taken.items():
            column = table.iloc[:, places_in[id(table)][name]].iloc[rows]
            out.isetitem(places[name], column.set_axis(data.index))
        return out
    native = nw.from_native(data, eager_only=True)
    new = (nw.from_native(table, eager_only=True)[name][rows] for name, (table, rows) in taken.items())
    return native.with_columns(*new).to_native()


def _places(data: Any) -> dict[str, int]:
    """The columns of a pandas frame by their names, as text."""
    return {str(name): place for place, name in enumerate(data.columns)}


def with_blanks(data: Any, rows: Mapping[str, Mask]) -> Any:
    """The table with columns that are missing in some rows, in types that have cells for it."""
    if not rows:
        return data
    if isinstance(data, np.ndarray):
        columns = {name: np.where(blank, np.nan, open_frame(data).numbers(name)) for name, blank in rows.items()}
        return open_frame(data).rebuilt(columns, dict.fromkeys(columns))
    if nw.dependencies.is_pandas_like_dataframe(data):
        out, places = data.copy(deep=False), _places(data)
        for name, blank in rows.items():
            out.isetitem(places[name], data.iloc[:, places[name]].where(~blank))
        return out
    native = nw.from_native(data, eager_only=True)
    there = {name: nw.new_series(name, ~blank, backend=native.implementation) for name, blank in rows.items()}
    return native.with_columns(nw.when(there[name]).then(nw.col(name)).alias(name) for name in rows).to_native()


def with_column(data: Any, name: str, values: NDArray[Any]) -> Any:
    """The table with one column more, at its end; of pandas, polars or Arrow."""
    native = nw.from_native(data, eager_only=True)
    if native.implementation.is_pandas_like():
        return data.assign(**{name: values})
    return native.with_columns(nw.new_series(name, values, backend=native.implementation)).to_native()


def with_rows(data: Any, rows: Index) -> Any:
    """Some rows of a table, in an order given. The index of pandas is numbered anew: it would tell the old order."""
    if isinstance(data, np.ndarray):
        return data[rows]
    if nw.dependencies.is_pandas_like_dataframe(data):
        return data.iloc[rows].reset_index(drop=True)
    return nw.from_native(data, eager_only=True)[rows].to_native()


def format_of_released(kept: FileFormat, order: Index | None, places: Mapping[str, Index]) -> FileFormat:
    """How a file was written, for a release of it: `order` tells where its rows were, `places` where cells of columns.

    A column that has places has no other order.
    """
    columns = {name: format_with_rows(of, places[name]) for name, of in kept.columns.items() if name in places}
    kept = kept if order is None else format_with_rows(kept, order)
    return replace(kept, columns={**kept.columns, **columns}) if columns else kept


def format_with_rows(kept: Any, rows: Index) -> Any:
    """How a file was written, for a table with its rows in another order.

    What is kept of its cells (the text of a number, the word for a missing one) is looked up by place. It goes with its
    row: left where it was, it would tell which rows were there.
    """
    if isinstance(kept, pl.Series):
        return kept[rows.tolist()] if len(kept) == rows.size else kept
    if isinstance(kept, list):
        return [kept[row] for row in rows] if len(kept) == rows.size else kept
    if isinstance(kept, Mapping):
        return {name: format_with_rows(part, rows) for name, part in kept.items()}
    if isinstance(kept, tuple) and hasattr(kept, "_make"):
        return kept._make(format_with_rows(part, rows) for part in kept)
    if is_dataclass(kept) and not isinstance(kept, type):
        parts = {field.name: getattr(kept, field.name) for field in fields(kept) if field.init}
        return replace(kept, **format_with_rows(parts, rows))
    return kept
