"""One file as the utility measures see it: central moments of its columns, from cells that are held or passed by."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.core.table import Matrix
from microveil.core.threads import in_threads, segments
from microveil.measures.base import scales
from microveil.storage.remote_table import RemoteMatrix

SAME = 1e-10
"""Statistics of standardised columns that differ by less than this are equal: round-off must not count as a loss."""

POWERS = (2, 3, 4, 5, 6, 8)
PRODUCTS = ((1, 1), (2, 2), (3, 1))
"""Moments that measures ask for; of rows that pass by, all are taken at once."""

MOST_COLUMNS = 4_000
"""Columns whose pairs are all compared at most: a matrix of them takes 128 MB, and a measure needs some ten."""

Units = Mapping[int, tuple[float, float]]
"""What is taken off each column, and what it is divided by, by its number; other columns are left out."""


class Side(ABC):
    """Moments of the columns about their own means, over the cells (or pairs of cells) that are there.

    Attributes:
        mean: the means.
        count: cells of each column that are there (1 for an empty column, whose moments are all 0).
        pairs: rows in which both of two columns are there (1 if there are none).
    """

    mean: Array
    count: Array
    pairs: Array

    @staticmethod
    def of(values: Array) -> Side:
        """From a table with NaN where cells are missing."""
        there = ~np.isnan(values)
        mean = np.where(there, values, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
        return HeldSide(mean, CentredRows.about(mean, values))

    @abstractmethod
    def power(self, r: int) -> Array:
        """The central moments μ_r of the columns."""

    @abstractmethod
    def product(self, r: int = 1, s: int = 1) -> Array:
        """The central moments μ_rs of all pairs of columns."""

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

    def counts(self) -> Array:
        """Cells that are there, of each column."""
        total: Array = self.present.sum(axis=0)
        return total

    def pairs(self) -> Array:
        """Rows in which both of two columns are there."""
        return self.present.T @ self.present

    def powers(self, r: int) -> Array:
        """Sums of powers of each column."""
        total: Array = _raised(self.centred, r).sum(axis=0)
        return total

    def products(self, r: int, s: int) -> Array:
        """Sums of products of powers of all pairs of columns."""
        return _raised(self.centred, r).T @ _raised(self.centred, s)


@dataclass(frozen=True, repr=False)
class HeldSide(Side):
    """A file in memory: each moment is found when it is asked for."""

    mean: Array
    cells: CentredRows

    @property
    def count(self) -> Array:  # type: ignore[override]  # found when asked for
        """Cells of each column that are there."""
        return np.maximum(self.cells.counts(), 1)

    @property
    def pairs(self) -> Array:  # type: ignore[override]  # found when asked for
        """Rows in which both of two columns are there."""
        return np.maximum(self.cells.pairs(), 1)

    def power(self, r: int) -> Array:
        """The central moments μ_r of the columns."""
        return self.cells.powers(r) / self.count

    def product(self, r: int = 1, s: int = 1) -> Array:
        """The central moments μ_rs of all pairs of columns."""
        check_pairs(self.mean.size)
        return self.cells.products(r, s) / self.pairs


@dataclass(frozen=True, repr=False)
class SummedSide(Side):
    """A file whose rows passed by: all moments were summed up on the way."""

    mean: Array
    count: Array
    pairs: Array
    powers: Mapping[int, Array]
    products: Mapping[tuple[int, int], Array]

    def power(self, r: int) -> Array:
        """The central moments μ_r of the columns."""
        return self.powers[r] / self.count

    def product(self, r: int = 1, s: int = 1) -> Array:
        """The central moments μ_rs of all pairs of columns."""
        return self.products[r, s] / self.pairs

    @classmethod
    def of_rows(cls, table: Matrix, units: Units) -> SummedSide:
        """In two passes: the means, and the moments about them."""
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
            totals = [np.zeros(width)] * (1 + len(POWERS)) + [np.zeros((width, width))] * (1 + len(PRODUCTS))
            for piece in pieces:
                cells = CentredRows.about(mean, ((chosen.piece(piece) - off) / unit).T)
                found = [cells.counts(), *(cells.powers(r) for r in POWERS)]
                found += [cells.pairs(), *(cells.products(r, s) for r, s in PRODUCTS)]
                totals = [total + more for total, more in zip(totals, found, strict=True)]
            return totals

        runs = segments(table.shape[0], width)
        total, count = np.sum(in_threads([partial(firsts, run) for run in runs]), axis=0)
        mean = total / np.maximum(count, 1)
        parts = in_threads([partial(sums, run) for run in runs])
        counts, *rest = (np.sum(those, axis=0) for those in zip(*parts, strict=True))
        powers, (pairs, *products) = rest[: len(POWERS)], rest[len(POWERS) :]
        return cls(
            mean,
            np.maximum(counts, 1),
            np.maximum(pairs, 1),
            dict(zip(POWERS, powers, strict=True)),
            dict(zip(PRODUCTS, products, strict=True)),
        )


def _raised(values: Array, power: int) -> Array:
    """A whole power by multiplication, several times faster than by logarithms."""
    if power == 1:
        return values
    half = _raised(values, power // 2)
    return half * half * values if power % 2 else half * half


def side_of(table: Matrix, units: Units) -> Side:
    """A file in these units."""
    if isinstance(table, RemoteMatrix):
        return table.remember(("side", tuple(units.items())), lambda: SummedSide.of_rows(table, units))
    return Side.of(np.column_stack([(table.columns[j] - off) / unit for j, (off, unit) in units.items()]))


def both_sides(original: Matrix, released: Matrix) -> tuple[Side, Side]:
    """Both files in standard deviations of the original; its constant columns are left out."""
    units = scales(original, needed=True)
    return side_of(original, units), side_of(released, units)


def check_pairs(columns: int, most: int = MOST_COLUMNS) -> None:
    """Refuse, before the work, to compare all pairs of too many columns."""
    if columns > most:
        raise DataError(f"{columns} columns have too many pairs (at most {most} columns)", "measure some of them")


def gaps(before: Array, after: Array) -> Array:
    """Absolute differences, round-off set to zero."""
    difference = np.abs(after - before)
    return np.where(difference < SAME, 0.0, difference)
