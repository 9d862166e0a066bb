"""Decimals in the place of suppressed cells, which add up to everything that is published (Langsrud 2019, §7).

First come tables, then plain matrices of unknown cells × variables: fitted values plus new residuals.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.errors import DataError, ParameterError
from microveil.core.factor import generalised_qr, without_round_off
from microveil.core.rng import Streams
from microveil.core.tolerances import TEXT_ROUND_OFF
from microveil.options import Options, declared_by, option
from microveil.tables.reduced import Reduced, reduced
from microveil.tables.suppress import Suppressed
from microveil.tables.table import Cell, Table, cell_rows, frame_like

SHOWN = 5
"""Cells that a warning names."""

MODULO = (
    "modulo: all but the remainders of the suppressed cells are taken to be no secret, and the decimals come closer to "
    "the truth; the method has not been studied thoroughly (Langsrud 2019, section 7)"
)

Draw = Callable[[int], Array]
"""Standard normal deviates of the attempt of this number: a row for each unknown cell, a column for each variable."""

ATTEMPTS = 200
"""Draws that are tried for a variance that not every draw allows: of those in the paper's example, 83 % do."""


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
        matrix = self.suppressed.table.matrix
        size = np.sqrt(np.maximum(1.0, np.diff(matrix.indptr)))
        moving: Mask = (np.abs(matrix.astype(np.float64) @ self.moves) > TEXT_ROUND_OFF * size[:, None]).any(axis=1)
        return self.suppressed.suppressed & ~moving

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
        return frame_like(table.source, {**table.labels, **self._columns(table.variable), **hidden})

    def _columns(self, first: str) -> dict[str, Array]:
        others = (f"{table.variable}_filled" if first == "filled" else table.variable for table in self.tables[1:])
        return {name: self.values_of(number) for number, name in enumerate([first, *others])}

    def sum_of(self, cells: Iterable[Cell]) -> CellSum:
        """A sum of published cells, called publishable where all decimals in it cancel, as a whole number shows."""
        table = self.suppressed.table
        rows = cell_rows(table, cells)
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
    seed: Any = option(None, "For a result that can be repeated. Keep it secret.", "number")

    @classmethod
    def checked(cls, given: Mapping[str, Any]) -> Self:
        """The options with these values; refuses what is out of its range, or does not go together."""
        asked = super().checked(given)
        if asked.modulo is not None and not (np.isfinite(asked.modulo) and asked.modulo > 0):
            raise ParameterError("modulo must be above 0", "10 takes the last digit of a count to be the secret")
        if not (np.isfinite(asked.residual_scale) and asked.residual_scale >= 0):
            raise ParameterError("residual_scale must not be negative", "1 keeps the variance, 0.1 is a tenth of it")
        if asked.residual_sd is not None and not (np.isfinite(asked.residual_sd) and asked.residual_sd > 0):
            raise ParameterError("residual_sd must be above 0", "it is in the unit of the cells")
        if (asked.residual_scale != 1) + (asked.residual_sd is not None) + asked.keep_variance > 1:
            raise ParameterError(
                "residual_scale, residual_sd and keep_variance exclude each other", "choose one size of the residuals"
            )
        return asked


@declared_by(ResidualOptions)
def fill(s: Suppressed, *, others: Sequence[Table] = (), draws: Array | None = None, **options: Any) -> Filled:
    """Put decimals in the place of the suppressed cells: fitted values and drawn residuals, Y* = Ŷ + Ê*.

    Every published cell stays, so all sums hold. Without options the sum of squares stays, too (with `others`, the
    products), which says a little about the suppressed cells; scaled residuals say nothing.

    Args:
        s: the suppressed table.
        others: tables of further variables over the same cells, filled together with this one.
        draws: standard normal deviates, unknown inner cells × variables, for tests.
        **options: the options below; a modulo of 10 takes the last digit of a count to be secret.
    """
    asked = ResidualOptions.checked(options)
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

    return _filled(s, tables, system, streams, lambda values: synthetic(system, values, asked, draw), asked.modulo)


def fitted(s: Suppressed, modulo: float | None = None) -> Filled:
    """Ŷ of eq. 21 in the place of the suppressed cells: what the published cells say of them, and no more."""
    ResidualOptions.checked({"modulo": modulo})
    system = reduced(s.table.matrix, s.suppressed)
    tables = (s.table,)
    return _filled(s, tables, system, _streams(tables, 0), lambda values: fitted_values(system, values, modulo), modulo)


def _filled(
    s: Suppressed, tables: tuple[Table, ...], system: Reduced, streams: Streams, made: Any, modulo: float | None
) -> Filled:
    """The table with what is `made` of its unknown cells, and warnings.

    `tables` are those of all variables; `streams` draw the movements of the `system` that show what follows.
    """
    inner = np.column_stack([table.inner_values for table in tables])
    moves = np.zeros((s.table.inner_count, 2))
    if s.suppressed.any() or system.size:  # linked tables need not show their inner cells
        inner[system.unknown] = made(inner[system.unknown])
        moves[system.unknown] = system.residuals(_normal(streams, "second draw", (system.size, 2)))
    filled = Filled(s, tables, inner, moves)
    said, hidden, table = filled.warnings, s.suppressed, s.table
    if filled.determined.any():
        rows = np.flatnonzero(filled.determined).tolist()
        named = ", ".join(map(table.name_of, rows[:SHOWN])) + (" and others" if len(rows) > SHOWN else "")
        said.append(
            f"the suppression has failed: of the suppressed cells {len(rows)} can be derived from the published ones, "
            f"and come out as they are in every draw: {named}"
        )
    if modulo is not None and hidden.any():
        said.append(MODULO)
        true = int((np.rint(filled.values[hidden]) == table.published_values[hidden]).sum())
        if is_whole(table) and true:
            said.append(f"modulo: rounded, {true} of {int(hidden.sum())} suppressed cells come out at their true value")
    return filled


def is_whole(table: Table) -> bool:
    """Whether every inner cell is a whole number, as counts are."""
    return bool((table.inner_values == np.rint(table.inner_values)).all())


def _same_cells(s: Suppressed, others: Sequence[Table]) -> tuple[Table, ...]:
    for other in others:
        if other.dimensions != s.table.dimensions or not np.array_equal(other.codes, s.table.codes):
            raise ParameterError("others: a table has other cells", "make it with the same dimensions and hierarchies")
        if any(mine.codes != its.codes for mine, its in zip(s.table.hierarchies, other.hierarchies, strict=True)):
            raise ParameterError("others: a table has other codes", "make it with the same dimensions and hierarchies")
        if not np.array_equal(other.inner_leaves, s.table.inner_leaves):
            raise ParameterError("others: a table has other inner cells", "make it from the same rows")
    tables = (s.table, *others)
    names = [table.variable for table in tables]
    if len(set(names)) < len(names):
        raise ParameterError("others: two tables have the same variable", "give each variable once")
    return tables


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


def deducted(values: Array, modulo: float | None) -> Array:
    """What the modulo method takes to be no secret: all but the remainder."""
    return np.zeros_like(values) if modulo is None else modulo * np.floor(values / modulo)


def fitted_values(system: Reduced, values: Array, modulo: float | None = None) -> Array:
    """Ŷ of eq. 21, of what the modulo method leaves."""
    base = deducted(values, modulo)
    secret = values - base
    return secret - system.residuals(secret) + base


def synthetic(system: Reduced, values: Array, size: ResidualOptions, draw: Draw) -> Array:
    """Y* = Ŷ + Ê*: new residuals with the covariance of the old ones, scaled as the options say.

    `values` are unknown cells x variables; `draw` gives as many deviates.
    """
    if system.freedom == 0:
        raise DataError(
            "every suppressed cell follows from the published ones: the suppression has failed",
            "suppress more cells; tables.audit names those that can be derived",
        )
    if system.freedom == 1 and size.residual_scale != 0:
        raise DataError(
            "the suppressed cells can move in one direction only, so that decimals of the same variance are the "
            "original values or their mirror image",
            "suppress another cell, or take tables.fitted",
        )
    if size.residual_scale == 0:
        return fitted_values(system, values, size.modulo)
    base = deducted(values, size.modulo)
    secret = values - base
    old = without_round_off(system.residuals(secret), values)
    fit = secret - old + base
    if not size.keep_variance or size.modulo is None:
        new = _with_loadings_of(system, draw(0), old)
        if size.residual_sd is None:
            return fit + new * size.residual_scale
        # A standard deviation counts the directions in which cells can move.
        length = np.sqrt(np.square(new).sum(axis=0) / system.freedom)
        unit: Array = np.divide(size.residual_sd, length, out=np.zeros_like(length), where=length > 0)
        return fit + new * unit
    deducted_part = system.residuals(base)
    goal = np.square(system.residuals(values)).sum(axis=0)
    for attempt in range(ATTEMPTS):
        new = _with_loadings_of(system, draw(attempt), old)
        scale = required_scale(new, deducted_part, goal)
        if scale is not None:
            return fit + new * scale
    raise DataError(
        "no draw gives the decimals the variance of the original values under this modulo",
        "choose another modulo, or do without keep_variance",
    )


def required_scale(new: Array, deducted_part: Array, goal: Array) -> Array | None:
    """C with |c Ê* + (I - P) d|² = the goal, for each variable; None where a draw allows none.

    A quadratic equation: the residuals of what was deducted, d, are not orthogonal to the new ones. Of its two
    solutions the larger one is taken, which moves the cells more.
    """
    squares = np.square(new).sum(axis=0)
    cross = (new * deducted_part).sum(axis=0)
    rest = np.square(deducted_part).sum(axis=0) - goal
    root = np.square(cross) - squares * rest
    if (root < 0).any():
        return None
    larger = -(cross + np.where(cross < 0, -1.0, 1.0) * np.sqrt(root))
    scale: Array = np.divide(larger, squares, out=np.zeros_like(squares), where=squares > 0)
    return scale


def _with_loadings_of(system: Reduced, drawn: Array, old: Array) -> Array:
    """Drawn residuals with the covariance of the old ones: scores of the one, loadings of the other (eq. 4)."""
    loadings = generalised_qr(old).loadings
    return generalised_qr(system.residuals(drawn)).scores[:, : loadings.shape[0]] @ loadings
