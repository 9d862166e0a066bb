"""One file as the utility measures see it: central moments of its columns, from cells that are held or passed by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.core.table import Matrix
from microveil.core.threads import in_threads, segments
from microveil.core.tolerances import STATISTIC_ROUND_OFF
from microveil.measures.base import scales
from microveil.storage.remote_table import RemoteMatrix

MOMENTS = ((0,), (2,), (3,), (4,), (5,), (6,), (8,), (0, 0), (1, 1), (2, 2), (3, 1))
"""Powers, and products of powers, of which measures need the sums; of rows on a disk, all are taken at once."""

MOST_COLUMNS = 4_000
"""Columns whose pairs are all compared at most: a matrix of them takes 128 MB, and a measure needs some ten."""

Units = Mapping[int, tuple[float, float]]
"""What is taken off each column, and what it is divided by, by its number; other columns are left out."""


@dataclass(frozen=True, repr=False)
class ColumnMoments:
    """Moments of the columns about their own means, over the cells (or pairs of cells) that are there.

    `mean` (k) has the means; `sums(r)` (k) adds up the r-th powers of each column about its mean, and `sums(r, s)`
    (k x k) products of powers of all pairs of columns. A cell that is missing adds nothing, not even to powers of 0.
    """

    mean: Array
    sums: Callable[..., Array]

    @classmethod
    def of(cls, values: Array) -> ColumnMoments:
        """From a table with NaN where cells are missing: each moment is found when it is needed."""
        there = ~np.isnan(values)
        mean = np.where(there, values, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
        return cls(mean, CentredRows.about(mean, values).sums)

    @classmethod
    def in_passes(cls, table: Matrix, units: Units) -> ColumnMoments:
        """From rows on a disk, in two passes: the means, and all moments about them."""
        check_pairs(len(units))
        chosen, width = table.select(list(units)), len(units)
        off, unit = (np.array(values)[:, None] for values in zip(*units.values(), strict=True))

        def firsts(pieces: list[slice]) -> Array:
            total = np.zeros((2, width))
            for piece in pieces:
                values = (chosen.piece(piece) - off) / unit
                total += np.nansum(values, axis=1), np.count_nonzero(~np.isnan(values), axis=1)
            return total

        def sums(pieces: list[slice]) -> list[Array]:
            totals = [np.zeros((width,) * len(powers)) for powers in MOMENTS]
            for piece in pieces:
                cells = CentredRows.about(mean, ((chosen.piece(piece) - off) / unit).T)
                totals = [total + cells.sums(*powers) for total, powers in zip(totals, MOMENTS, strict=True)]
            return totals

        runs = segments(table.shape[0], width)
        total, count = np.sum(in_threads([partial(firsts, run) for run in runs]), axis=0)
        mean = total / np.maximum(count, 1)
        parts = in_threads([partial(sums, run) for run in runs])
        found = {p: np.sum(those, axis=0) for p, those in zip(MOMENTS, zip(*parts, strict=True), strict=True)}
        return cls(mean, lambda *powers: found[powers])

    @cached_property
    def count(self) -> Array:
        """Cells of each column that are there (1 for an empty column, whose moments are all 0)."""
        return np.maximum(self.sums(0), 1)

    @cached_property
    def pairs(self) -> Array:
        """Rows in which both of two columns are there (1 if there are none)."""
        return np.maximum(self.sums(0, 0), 1)

    def power(self, r: int) -> Array:
        """The central moments μ_r of the columns."""
        return self.sums(r) / self.count

    def product(self, r: int = 1, s: int = 1) -> Array:
        """The central moments μ_rs of all pairs of columns."""
        check_pairs(self.mean.size)
        return self.sums(r, s) / self.pairs

    def correlation(self) -> Array:
        """Pearson correlations; a constant column has none, and gets 0."""
        check_pairs(self.mean.size)
        sd = np.sqrt(self.power(2))
        scale = np.outer(sd, sd)
        found = np.divide(self.product(), scale, out=np.zeros_like(scale), where=scale > 0)
        found[np.diag_indices_from(found)] = 1.0
        bounded: Array = np.clip(found, -1.0, 1.0)
        return bounded

    def standardised_power(self, r: int) -> Array:
        """μ_r / μ_2^(r/2): skewness for r = 3, kurtosis (of a normal: 3) for r = 4; 0 for a constant column."""
        spread = self.power(2) ** (r / 2)
        return np.divide(self.power(r), spread, out=np.zeros_like(spread), where=spread > 0)


@dataclass(frozen=True, repr=False)
class CentredRows:
    """Rows of columns about their means, missing cells at zero; `present` is 1 where a cell is there."""

    centred: Array
    present: Array

    @classmethod
    def about(cls, mean: Array, values: Array) -> CentredRows:
        """From rows x columns with NaN where cells are missing."""
        there = ~np.isnan(values)
        return cls(np.where(there, values - mean, 0.0), there.astype(float))

    def sums(self, r: int, s: int | None = None) -> Array:
        """Sums of powers of each column, or of products of powers of all pairs of columns."""
        return self._raised(r).sum(axis=0) if s is None else self._raised(r).T @ self._raised(s)

    def _raised(self, power: int) -> Array:
        return _raised(self.centred, power) if power else self.present


def _raised(values: Array, power: int) -> Array:
    """A whole power by multiplication, several times faster than by logarithms."""
    if power == 1:
        return values
    half = _raised(values, power // 2)
    return half * half * values if power % 2 else half * half


def moments_in(table: Matrix, units: Units) -> ColumnMoments:
    """The moments of a file in these units."""
    if isinstance(table, RemoteMatrix):
        return table.remember(("moments", tuple(units.items())), lambda: ColumnMoments.in_passes(table, units))
    return ColumnMoments.of(np.column_stack([(table.columns[j] - off) / unit for j, (off, unit) in units.items()]))


def moments_of_both(original: Matrix, released: Matrix) -> tuple[ColumnMoments, ColumnMoments]:
    """The moments of both files in standard deviations of the original; its constant columns are left out."""
    units = scales(original, needed=True)
    return moments_in(original, units), moments_in(released, units)


def check_pairs(columns: int, most: int = MOST_COLUMNS) -> None:
    """Refuse, before the work, to compare all pairs of too many columns."""
    if columns > most:
        raise DataError(f"{columns} columns have too many pairs (at most {most} columns)", "measure some of them")


def gaps(before: Array, after: Array) -> Array:
    """Absolute differences, round-off set to zero."""
    difference = np.abs(after - before)
    return np.where(difference < STATISTIC_ROUND_OFF, 0.0, difference)
