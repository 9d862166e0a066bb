"""A table to be published: its inner cells, all sums over them that are shown, and who contributes to them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Index, Mask
from microveil.core.errors import DataError, ParameterError, check_column, did_you_mean
from microveil.core.late import sparse
from microveil.core.tolerances import TEXT_ROUND_OFF
from microveil.io.frames.dataframes import Frame, NarwhalsFrame, open_frame
from microveil.options import Options, declared_by, option
from microveil.tables.hierarchy import Hierarchy, Numbers, codes_of, hierarchy_of

MOST_CELLS = 20_000_000
"""Cells, shown or inner, that a table may have."""

Cell = Sequence[str] | Mapping[str, str]
"""A published cell: its codes in the order of the dimensions, or by dimension; without one it is at its total."""


@dataclass(frozen=True, repr=False)
class Contributions:
    """What each contributor gave to each inner cell, summed: one entry per cell and contributor."""

    cells: Numbers
    who: Numbers
    amounts: Array


class Layout(Options):
    """The options of a `Table`: who contributed, which tables there are, and what totals are called."""

    contributors: Any = option(None, "The column that says who contributed; `rows`: each row is another.", metavar="C")
    counts: Any = option(None, "The column with the number of records behind a cell of amounts.", metavar="K")
    linked: Any = option(None, "One of several tables over the same rows, by its dimensions.", kind="tables")
    total: str = option("Total", "What totals are called.")


class Table:
    """A table of counts or amounts over crossed dimensions, with all sums over them.

    `frame` has a row for each cell (`value` is its count or amount, each cell occurs once, and sums may be among them:
    they are checked and not counted twice); or a row for each record: then give `value=None` to count records, or the
    column of amounts together with `contributors`, the column that says who contributed (True: each row is somebody
    else). Records with the same contributor are one contribution to a cell, as the firms of a holding are.

    `hierarchies` has, for a dimension, how its codes add up: a nested dictionary, a dictionary or frame from each code
    to the one above, names of columns with the coarser codes, lengths of the leading parts of codes, or a .hrc file.
    `linked` lists several tables over the same rows, each by its dimensions; cells that they share are one cell.
    Without it there is one table over all dimensions, and combinations of codes without a row are cells with zero.
    `counts` is a column with the number of records behind each cell, for a table of amounts that comes as cells.
    """

    @declared_by(Layout)
    def __init__(
        self,
        frame: Any,
        dimensions: Sequence[str],
        value: str | None = "n",
        hierarchies: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        asked = Layout.checked(options)
        contributors, counts = asked.contributors, asked.counts
        self.source = open_frame(frame)
        self.total = asked.total
        self.dimensions = _dimensions(dimensions, self.source)
        self.value = value
        self.linked = _linked(asked.linked, self.dimensions)
        self._check_columns(contributors, counts, hierarchies or {})
        given = hierarchies or {}
        self.hierarchies = tuple(
            hierarchy_of(name, given.get(name), self.source, self.total) for name in self.dimensions
        )
        self.from_records = value is None or contributors is not None
        self.is_magnitude = (value is not None and contributors is not None) or counts is not None
        self._read(contributors, counts)

    def _check_columns(self, contributors: Any, counts: str | None, hierarchies: Mapping[str, Any]) -> None:
        for role, name in (("value", self.value), ("contributors", contributors), ("counts", counts)):
            if isinstance(name, str) and check_column(role, name, self.source.names) in self.dimensions:
                raise ParameterError(f"{role}: '{name}' is a dimension already", "name another column")
        if contributors is False:
            raise ParameterError("contributors: false says nothing", "leave it out, or give True or a column")
        if counts is not None and (contributors is not None or self.value is None):
            raise ParameterError(
                "counts: records are counted here", "leave it out; it is for tables that come as cells"
            )
        for name in hierarchies:
            _check_dimension("hierarchies", name, self.dimensions)

    # The rows of the frame become inner cells.

    def _read(self, contributors: str | bool | None, counts: str | None) -> None:
        codes = np.stack([_numbered(self.source, each) for each in self.hierarchies], axis=1)
        values = np.ones(self.source.count) if self.value is None else self._numbers(self.value)
        behind = values if counts is None else self._numbers(counts, least=0.0)
        if not self.is_magnitude:
            _refuse(
                values < 0,
                f"{np.count_nonzero(values < 0)} counts are negative",
                "for amounts, which may be negative, say who contributed (contributors, --contributors) or how "
                "many (counts, --counts)",
            )
        inner = np.ones(len(codes), dtype=bool)
        for column, each in zip(codes.T, self.hierarchies, strict=True):
            inner &= each.leaf_of[column] >= 0
        if self.from_records:
            problem = f"{np.count_nonzero(~inner)} records have the code of a sum"
            _refuse(~inner, problem, "records belong to codes that nothing lies below")
        places = self._places(codes[inner])
        self.inner_values = _summed(places, values[inner], self.inner_count)
        counted = np.ones(places.size) if contributors is not None else behind[inner]
        self.inner_counts = _summed(places, counted, self.inner_count)
        self.contributions: Contributions | None = None
        if self.from_records:
            who = np.arange(places.size)
            if isinstance(contributors, str):
                nobody = self.source.missing(contributors)
                if nobody:
                    problem = f"column '{contributors}': {nobody} contributions are nobody's"
                    raise DataError(problem, "give unknown contributors names")
                who = self.source.labels(contributors).astype(np.int64)
            self.contributions = by_contributor(places, who, values[inner])
        else:
            self._check_cells(codes, values, ~inner)

    def _numbers(self, name: str, least: float = -math.inf) -> Array:
        """A column of numbers without gaps."""
        if not self.source.is_numeric(name):
            raise DataError(f"column '{name}' does not hold numbers", "convert it first")
        values = self.source.numbers(name)
        faults = {"missing": np.isnan(values), "infinite": np.isinf(values), "negative": values < least}
        for what, wrong in faults.items():
            problem = f"column '{name}': {what} in {np.count_nonzero(wrong)} rows"
            _refuse(wrong, problem, "give every cell a finite number; a cell that nothing is in has zero")
        return values

    def _places(self, codes: Numbers) -> Numbers:
        """The inner cell of each row; sets what the inner cells are."""
        leaves = np.stack([h.leaf_of[column] for h, column in zip(self.hierarchies, codes.T, strict=True)], axis=1)
        sizes = [each.leaves.size for each in self.hierarchies]
        if self.linked is None:
            if math.prod(len(each.codes) for each in self.hierarchies) > MOST_CELLS:
                raise DataError(
                    f"the table has more than {MOST_CELLS:,} cells", "leave a dimension out, or give linked tables"
                )
            self.inner_leaves = np.stack(np.unravel_index(np.arange(math.prod(sizes)), sizes), axis=1)
            return np.asarray(np.ravel_multi_index(tuple(leaves.T), sizes), dtype=np.int64)
        self.inner_leaves, places = np.unique(leaves, axis=0, return_inverse=True)
        return places.ravel().astype(np.int64)

    @property
    def inner_count(self) -> int:
        """How many inner cells there are."""
        return len(self.inner_leaves)

    def _check_cells(self, codes: Numbers, values: Array, sums: Mask) -> None:
        """Each cell comes once, and sums that came with the cells must be those of the cells."""
        _, cells, times = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
        _refuse(
            times[cells.ravel()] > 1,
            f"{np.count_nonzero(times > 1)} cells occur more than once",
            "give each cell one row; for records, say who contributed (contributors, --contributors), or give no value "
            "to count them (value=None, without --value)",
        )
        if not sums.any():
            return
        rows = self.row_of(codes)
        absent = sums & (rows < 0)
        problem = f"{np.count_nonzero(absent)} cells are sums that none of the linked tables shows"
        _refuse(absent, problem, "leave them out")
        size = abs(self.matrix) @ np.abs(self.inner_values)
        wrong = sums & (np.abs(self.published_values[rows] - values) > TEXT_ROUND_OFF * np.maximum(size[rows], 1.0))
        problem = f"{np.count_nonzero(wrong)} sums are not those of their parts"
        _refuse(wrong, problem, "correct them or the cells below them, or leave the sums out: they are made here")

    # Published cells.

    @cached_property
    def codes(self) -> Numbers:
        """Published cells x dimensions: the number of each code in its hierarchy, in the order of these numbers."""
        sizes = [len(each.codes) for each in self.hierarchies]
        if self.linked is None:
            return np.stack(np.unravel_index(np.arange(math.prod(sizes)), sizes), axis=1)
        flat = []
        for table in self.linked:  # all codes of its dimensions, crossed; the other dimensions are at their total
            axes = [np.arange(len(h.codes) if h.name in table else 1) for h in self.hierarchies]
            if math.prod(axis.size for axis in axes) > MOST_CELLS:
                raise DataError(f"a linked table has more than {MOST_CELLS:,} cells", "leave a dimension out")
            flat.append(np.ravel_multi_index(np.ix_(*axes), sizes).ravel())
        return np.stack(np.unravel_index(np.unique(np.concatenate(flat)), sizes), axis=1)

    def _flat(self, codes: Numbers) -> Numbers:
        """One number for each combination of codes."""
        sizes = [len(each.codes) for each in self.hierarchies]
        return np.asarray(np.ravel_multi_index(tuple(codes.T), sizes), dtype=np.int64)

    def row_of(self, codes: Numbers) -> Numbers:
        """The published cell of each combination of codes, -1 where it is not shown."""
        wanted = self._flat(codes)
        if self.linked is None:
            return wanted
        place = np.searchsorted(self._keys, wanted)
        place[place == self._keys.size] = 0
        return np.where(self._keys[place] == wanted, place, -1)

    def rows_of(self, frame: Frame) -> Numbers:
        """The published cell of each row of a frame that has the dimensions."""
        rows = self.row_of(np.stack([_numbered(frame, each) for each in self.hierarchies], axis=1))
        problem = f"{np.count_nonzero(rows < 0)} rows are of no cell of the table"
        _refuse(rows < 0, problem, "leave them out; linked tables show some sums only")
        return rows

    @cached_property
    def _keys(self) -> Numbers:
        return self._flat(self.codes)

    @property
    def variable(self) -> str:
        """What the values are called: `n`, if records are counted."""
        return self.value or "n"

    @property
    def count(self) -> int:
        """How many cells are published."""
        return len(self.codes)

    def lifts(self) -> Iterator[tuple[Numbers, Numbers]]:
        """Pairs of inner cells and the published cells they are part of: each inner cell once in a pair of arrays.

        There is a pair for each choice of levels, so that nothing larger than the inner cells is ever held.
        """
        lines = [h.lines[leaf] for h, leaf in zip(self.hierarchies, self.inner_leaves.T, strict=True)]
        for levels in product(*(range(line.shape[1]) for line in lines)):
            codes = np.stack([line[:, level] for line, level in zip(lines, levels, strict=True)], axis=1)
            inner = np.flatnonzero((codes >= 0).all(axis=1))
            rows = self.row_of(codes[inner])
            yield inner[rows >= 0], rows[rows >= 0]

    @cached_property
    def matrix(self) -> sparse.csr_array:
        """Published cells x inner cells: 1 where the inner cell is part of the published one."""
        pairs = list(self.lifts())
        inner, rows = (np.concatenate([pair[k] for pair in pairs]) for k in (0, 1))
        matrix = sparse.csr_array((np.ones(rows.size, np.int8), (rows, inner)), shape=(self.count, self.inner_count))
        matrix.sort_indices()
        return matrix

    @cached_property
    def published_values(self) -> Array:
        """The count or amount of every published cell."""
        return np.asarray(self.matrix.astype(np.float64) @ self.inner_values)

    @cached_property
    def published_counts(self) -> Array:
        """The records behind every published cell; in a table of counts, its values."""
        return np.asarray(self.matrix.astype(np.float64) @ self.inner_counts)

    @cached_property
    def labels(self) -> dict[str, NDArray[np.str_]]:
        """For each dimension the code of every published cell."""
        return {h.name: np.array(h.codes)[column] for h, column in zip(self.hierarchies, self.codes.T, strict=True)}

    def name_of(self, row: int) -> str:
        """A published cell in words."""
        parts = [f"{h.name}={h.codes[code]}" for h, code in zip(self.hierarchies, self.codes[row], strict=True)]
        return f"({', '.join(parts)})"

    def frame(self, **columns: Any) -> Any:
        """The published cells as a frame of the kind the table was made from: codes, value, and the columns given."""
        return frame_like(self.source, {**self.labels, self.variable: self.published_values, **columns})

    def __repr__(self) -> str:
        return f"Table({' x '.join(self.dimensions)}: {self.count:,} cells, {self.inner_count:,} of them inner)"


def cell_rows(table: Table, cells: Iterable[Cell]) -> Index:
    """The places of cells among the published ones."""
    codes = [_codes(table, cell) for cell in cells]
    if not codes:
        return np.empty(0, dtype=np.intp)
    rows = table.row_of(np.array(codes, dtype=np.int64))
    if (rows < 0).any():
        raise ParameterError("a cell is not among those that are published", "linked tables show some sums only")
    return np.asarray(rows, dtype=np.intp)


def _codes(table: Table, cell: Cell) -> list[int]:
    named = dict(cell) if isinstance(cell, Mapping) else None
    if named is None:
        if isinstance(cell, str) or len(cell) != len(table.dimensions):
            raise ParameterError(
                f"a cell has a code for each of the dimensions {', '.join(table.dimensions)}", "give one for each"
            )
        named = dict(zip(table.dimensions, cell, strict=True))
    for name in named:
        _check_dimension("a cell", name, table.dimensions)
    numbers = []
    for hierarchy in table.hierarchies:
        code = str(named.get(hierarchy.name, hierarchy.codes[0]))
        if code not in hierarchy.number:
            raise ParameterError(
                f"a cell: dimension '{hierarchy.name}' has no such code", "write codes as they are in the table"
            )
        numbers.append(hierarchy.number[code])
    return numbers


def frame_like(source: Frame, columns: Mapping[str, Any]) -> Any:
    """Columns as a frame of the same library; arrays have no names, so polars it is for them."""
    backend: Any = source.native.implementation if isinstance(source, NarwhalsFrame) else "polars"
    kinds = {"f": nw.Float64(), "b": nw.Boolean(), "i": nw.Int64(), "U": nw.String()}
    series, schema = {}, {}
    for name, column in columns.items():
        cells = np.asarray(column)
        if cells.dtype.kind == "f" and (np.abs(cells) < 2**53).all() and (cells == np.round(cells)).all():
            cells = cells.astype(np.int64)
        series[name] = cells.tolist()
        schema[name] = kinds.get(cells.dtype.kind, nw.String())
    return nw.from_dict(series, schema, backend=backend).to_native()


def _summed(places: Numbers, values: Array, size: int) -> Array:
    """Sums by place that do not depend on the order of the rows, to the last bit."""
    order = np.lexsort((values, places))
    return np.bincount(places[order], values[order], minlength=size).astype(np.float64)


def by_contributor(cells: Numbers, who: Numbers, amounts: Array) -> Contributions:
    """Contributions of the same contributor to a cell as one, whatever the order of the rows."""
    order = np.lexsort((amounts, who, cells))
    cells, who, amounts = cells[order], who[order], amounts[order]
    if not cells.size:
        return Contributions(cells, who, amounts)
    starts = np.flatnonzero(np.r_[True, (np.diff(cells) != 0) | (np.diff(who) != 0)])
    return Contributions(cells[starts], who[starts], np.add.reduceat(amounts, starts))


def _refuse(rows: Mask, problem: str, hint: str) -> None:
    """Raise an error if there are such rows, which says where the first is. Codes are cells: no error names one."""
    if rows.any():
        raise DataError(f"{problem} (the first in row {int(np.flatnonzero(rows)[0]) + 1:,})", hint)


def _numbered(frame: Frame, hierarchy: Hierarchy) -> Numbers:
    """For each row the number of its code in the hierarchy."""
    texts, rows = codes_of(frame, hierarchy.name)
    numbers = np.array([hierarchy.number.get(text, -1) for text in texts], dtype=np.int64)
    problem = f"dimension '{hierarchy.name}': {np.count_nonzero(numbers < 0)} codes are not in its hierarchy"
    _refuse((numbers < 0)[rows], problem, "put them below others there, or correct them")
    return numbers[rows]


def _dimensions(names: Sequence[str], frame: Frame) -> tuple[str, ...]:
    if isinstance(names, str) or not names:
        raise ParameterError("dimensions: names of at least one column are needed", "such as ['region', 'sector']")
    for name in names:
        check_column("dimensions", name, frame.names)
    if len(set(names)) < len(names):
        raise ParameterError("dimensions: a column is named twice", "name each once")
    if not frame.count:
        raise DataError("the table has no rows", "give at least one")
    return tuple(names)


def _linked(tables: Sequence[Sequence[str]] | None, dimensions: tuple[str, ...]) -> tuple[tuple[str, ...], ...] | None:
    if tables is None:
        return None
    for table in tables:
        for name in [table] if isinstance(table, str) else table:
            _check_dimension("linked", name, dimensions)
    unused = set(dimensions) - {name for table in tables for name in table}
    if unused:
        raise ParameterError(
            f"linked: no table has the dimension '{sorted(unused)[0]}'", "leave it out of the dimensions"
        )
    return tuple(tuple(table) for table in tables)


def _check_dimension(role: str, name: str, dimensions: Sequence[str]) -> None:
    if name not in dimensions:
        raise ParameterError(f"{role}: '{name}' is not among the dimensions", did_you_mean(name, dimensions))
