"""Decimals in the place of suppressed cells, which add up to everything that is published (Langsrud 2019, §7)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.errors import DataError, ParameterError, did_you_mean
from microveil.core.rng import Streams
from microveil.core.tolerances import TEXT_ROUND_OFF
from microveil.options import Options, declared_by, option
from microveil.tables.decimals import ResidualSize, fitted_values, synthetic
from microveil.tables.reduced import Indices, Reduced, reduced
from microveil.tables.suppress import Suppressed
from microveil.tables.table import Table, frame_like

SHOWN = 5
"""Cells that a warning names."""

MODULO = (
    "modulo: all but the remainders of the suppressed cells are taken to be no secret, and the decimals come closer to "
    "the truth; the method has not been studied thoroughly (Langsrud 2019, section 7)"
)

Cell = Sequence[str] | Mapping[str, str]
"""A published cell: its codes in the order of the dimensions, or by dimension; without one it is at its total."""


@dataclass(frozen=True)
class CellSum:
    """A sum of published cells; `publishable` says that it follows from what is published, so that it is true."""

    value: float
    publishable: bool


@dataclass(frozen=True, repr=False)
class Filled:
    """A suppressed table with decimals in its holes.

    `by_variable` has a column for each variable (that of the table, then the others) and a row for each inner cell.
    `moves` are two draws of what published sums leave free: a cell that stands still in both follows from them.
    """

    suppressed: Suppressed
    tables: tuple[Table, ...]
    by_variable: Array
    moves: Array
    warnings: list[str] = field(default_factory=list)

    @property
    def inner(self) -> Array:
        """The values of the inner cells (of the table's own variable)."""
        return self.by_variable[:, 0]

    @cached_property
    def values(self) -> Array:
        """The values of the published cells (of the table's own variable): as they were, or decimals."""
        return self.values_of(0)

    def values_of(self, variable: int) -> Array:
        """The values of the published cells, of the variable of this number."""
        table = self.tables[variable]
        decimals = table.matrix.astype(np.float64) @ self.by_variable[:, variable]
        return np.where(self.suppressed.suppressed, decimals, table.published_values)

    @cached_property
    def determined(self) -> Mask:
        """Suppressed cells that come out the same in two draws: they follow from the published ones."""
        return self.suppressed.suppressed & ~_moving(self.suppressed.table, self.moves)

    @property
    def cells(self) -> Any:
        """All published cells: codes, value, what is hidden, and the decimals. For the publisher's eyes."""
        hidden = {"primary": self.suppressed.primary, "suppressed": self.suppressed.suppressed}
        return self.suppressed.table.frame(**hidden, **self._columns("filled"))

    @property
    def published(self) -> Any:
        """The table as it can leave: codes, values or decimals, and which of them are decimals."""
        table = self.suppressed.table
        hidden = {"suppressed": self.suppressed.suppressed}
        return frame_like(table.source, {**table.labels, **self._columns(_name(table)), **hidden})

    def _columns(self, first: str) -> dict[str, Array]:
        others = (f"{_name(table)}_filled" if first == "filled" else _name(table) for table in self.tables[1:])
        return {name: self.values_of(number) for number, name in enumerate([first, *others])}

    def sum_of(self, cells: Iterable[Cell]) -> CellSum:
        """A sum of published cells, called publishable where all decimals in it cancel, as a whole number shows."""
        table = self.suppressed.table
        rows = rows_of(table, cells)
        parts = np.asarray(table.matrix[rows].astype(np.float64).sum(axis=0)).ravel()
        value = float(parts @ self.inner)
        publishable = bool(
            (np.abs(parts @ self.moves) <= TEXT_ROUND_OFF * max(1.0, float(np.linalg.norm(parts)))).all()
        )
        exact = float(parts @ table.inner_values) if publishable else value
        return CellSum(exact, publishable)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The inner cells: Ŷ or Y* of the paper."""
        return np.array(self.inner, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        hidden, count = int(self.suppressed.suppressed.sum()), len(self.warnings)
        return f"<Filled {self.suppressed.table!r}: {hidden:,} decimals, {count} warning{'' if count == 1 else 's'}>"


class ResidualOptions(Options):
    """The options of `fill`: how large the new residuals are, and where they come from."""

    modulo: float | None = option(None, "Take only remainders of D to be secret. Mind the warning.", metavar="D")
    residual_scale: float = option(1.0, "What residuals are multiplied by.", metavar="F")
    residual_sd: float | None = option(None, "Their standard deviation instead.", metavar="S")
    keep_variance: bool = option(False, "Keep the sum of squares with --modulo.")
    seed: Any = option(None, "For a result that can be repeated. Keep it secret.", "number", metavar="N")


@declared_by(ResidualOptions)
def fill(s: Suppressed, *, others: Sequence[Table] = (), draws: Array | None = None, **options: Any) -> Filled:
    """Put decimals in the place of the suppressed cells: fitted values and drawn residuals, Y* = Ŷ + Ê*.

    Every published cell stays, so all sums hold. Without options the sum of squares stays, too (with `others`, the
    products), which tells a little about the suppressed cells; scaled residuals tell nothing.

    Args:
        s: the suppressed table.
        others: tables of further variables over the same cells, filled together with this one.
        draws: standard normal deviates, unknown inner cells × variables, for tests.
        **options: the options below; a modulo of 10 takes the last digit of a count to be secret.
    """
    asked = ResidualOptions.checked(options)
    size = ResidualSize(asked.modulo, asked.residual_scale, asked.residual_sd, asked.keep_variance)
    tables = _same_cells(s, others)
    system = reduced(s.table.matrix, s.suppressed)
    streams = _streams(tables, asked.seed)

    def draw(attempt: int) -> Array:
        if draws is None:
            return _normal(streams, f"fill {attempt}", (system.size, len(tables)))
        if attempt:
            raise DataError("the draws do not allow the variance under this modulo", "give others, or a seed")
        given = np.asarray(draws, dtype=np.float64)
        if given.shape != (system.size, len(tables)):
            raise ParameterError(
                f"draws: {system.size} rows and {len(tables)} columns of deviates are needed",
                "one for each unknown cell",
            )
        return given

    return _filled(s, tables, system, streams, lambda values: synthetic(system, values, size, draw), asked.modulo)


def fitted(s: Suppressed, modulo: float | None = None) -> Filled:
    """Ŷ of eq. 21 in the place of the suppressed cells: what the published cells say of them, and no more."""
    ResidualSize(modulo)  # refuses a modulo out of its range
    system = reduced(s.table.matrix, s.suppressed)
    tables = (s.table,)
    return _filled(s, tables, system, _streams(tables, 0), lambda values: fitted_values(system, values, modulo), modulo)


def _filled(
    s: Suppressed, tables: tuple[Table, ...], system: Reduced, streams: Streams, made: Any, modulo: float | None
) -> Filled:
    inner = np.column_stack([table.inner_values for table in tables])
    moves = np.zeros((s.table.inner_count, 2))
    if s.suppressed.any() or system.size:  # linked tables need not show their inner cells
        inner[system.unknown] = made(inner[system.unknown])
        moves[system.unknown] = system.residuals(_normal(streams, "second draw", (system.size, 2)))
    filled = Filled(s, tables, inner, moves)
    filled.warnings.extend(_warnings(filled, modulo))
    return filled


def _warnings(filled: Filled, modulo: float | None) -> list[str]:
    said = []
    hidden, table = filled.suppressed.suppressed, filled.suppressed.table
    if filled.determined.any():
        named = names_of(table, np.flatnonzero(filled.determined))
        said.append(
            f"the suppression has failed: of the suppressed cells {int(filled.determined.sum())} can be derived from "
            f"the published ones, and come out as they are in every draw: {named}"
        )
    if modulo is not None and hidden.any():
        said.append(MODULO)
        true = int((np.rint(filled.values[hidden]) == table.published_values[hidden]).sum())
        if is_whole(table) and true:
            said.append(f"modulo: rounded, {true} of {int(hidden.sum())} suppressed cells come out at their true value")
    return said


def is_whole(table: Table) -> bool:
    """Whether every inner cell is a whole number, as counts are."""
    return bool((table.inner_values == np.rint(table.inner_values)).all())


def names_of(table: Table, rows: Indices) -> str:
    """The first of some cells in words."""
    named = ", ".join(table.name_of(int(row)) for row in rows[:SHOWN])
    return f"{named} and others" if rows.size > SHOWN else named


def rows_of(table: Table, cells: Iterable[Cell]) -> Indices:
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
        if name not in table.dimensions:
            raise ParameterError(f"a cell: '{name}' is not among the dimensions", did_you_mean(name, table.dimensions))
    numbers = []
    for hierarchy in table.hierarchies:
        code = str(named.get(hierarchy.name, hierarchy.codes[0]))
        if code not in hierarchy.number:
            raise ParameterError(
                f"a cell: dimension '{hierarchy.name}' has no such code", "write codes as they are in the table"
            )
        numbers.append(hierarchy.number[code])
    return numbers


def _moving(table: Table, moves: Array) -> Mask:
    """Published cells that move in one of the draws."""
    sums = table.matrix.astype(np.float64) @ moves
    size = np.sqrt(np.maximum(1.0, np.diff(table.matrix.indptr)))
    moving: Mask = (np.abs(sums) > TEXT_ROUND_OFF * size[:, None]).any(axis=1)
    return moving


def _same_cells(s: Suppressed, others: Sequence[Table]) -> tuple[Table, ...]:
    for other in others:
        if other.dimensions != s.table.dimensions or not np.array_equal(other.codes, s.table.codes):
            raise ParameterError("others: a table has other cells", "make it with the same dimensions and hierarchies")
        if any(mine.codes != its.codes for mine, its in zip(s.table.hierarchies, other.hierarchies, strict=True)):
            raise ParameterError("others: a table has other codes", "make it with the same dimensions and hierarchies")
        if not np.array_equal(other.inner_leaves, s.table.inner_leaves):
            raise ParameterError("others: a table has other inner cells", "make it from the same rows")
    tables = (s.table, *others)
    names = [_name(table) for table in tables]
    if len(set(names)) < len(names):
        raise ParameterError("others: two tables have the same variable", "give each variable once")
    return tables


def _name(table: Table) -> str:
    return table.value or "n"


def _streams(tables: Sequence[Table], seed: int | None) -> Streams:
    """Keyed by the values, too: a guessed seed alone gives nothing away."""
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0):
        raise ParameterError("seed must be a whole number from 0 on", "leave it out for fresh randomness")
    digest = hashlib.blake2b(digest_size=16)
    for table in tables:
        digest.update(np.ascontiguousarray(table.inner_values).tobytes())
    return Streams.from_seed(None if seed is None else int(seed), int.from_bytes(digest.digest()))


def _normal(streams: Streams, name: str, shape: tuple[int, int]) -> Array:
    columns = [streams.stream(name, column).normal(shape[0]) for column in range(shape[1])]
    return np.column_stack(columns)
