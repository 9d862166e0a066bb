"""One file as the utility measures see it: centred columns with their missing cells at zero, and central moments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from microveil.core.arrays import Array
from microveil.core.measure import standardised
from microveil.core.table import Matrix

SAME = 1e-10
"""Statistics of standardised columns that differ by less than this are equal: round-off must not count as a loss."""


@dataclass(frozen=True, repr=False)
class Side:
    """Columns about their own means, missing cells at zero; `present` is 1 where a cell is there.

    Moments are means over the cells (or pairs of cells) that are there.
    """

    mean: Array
    centred: Array
    present: Array

    @classmethod
    def of(cls, values: Array) -> Side:
        """From a table with NaN where cells are missing."""
        there = ~np.isnan(values)
        mean = np.where(there, values, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
        return cls(mean, np.where(there, values - mean, 0.0), there.astype(float))

    @property
    def count(self) -> Array:
        """Cells of each column that are there (1 for an empty column, whose moments are all 0)."""
        counts: Array = np.maximum(self.present.sum(axis=0), 1)
        return counts

    @property
    def pairs(self) -> Array:
        """Rows in which both of two columns are there."""
        return np.maximum(self.present.T @ self.present, 1)

    def power(self, r: int) -> Array:
        """The central moments μ_r of the columns."""
        moment: Array = _raised(self.centred, r).sum(axis=0) / self.count
        return moment

    def product(self, r: int = 1, s: int = 1) -> Array:
        """The central moments μ_rs of all pairs of columns."""
        moment: Array = _raised(self.centred, r).T @ _raised(self.centred, s) / self.pairs
        return moment

    def correlation(self) -> Array:
        """Pearson correlations; a constant column has none, and gets 0."""
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


def _raised(values: Array, power: int) -> Array:
    """A whole power by multiplication, several times faster than by logarithms."""
    if power == 1:
        return values
    half = _raised(values, power // 2)
    return half * half * values if power % 2 else half * half


def both_sides(original: Matrix, released: Matrix) -> tuple[Side, Side]:
    """Both files in standard deviations of the original; its constant columns are left out."""
    before, after = standardised(original, released)
    return Side.of(before), Side.of(after)


def gaps(before: Array, after: Array) -> Array:
    """Absolute differences, round-off set to zero."""
    difference = np.abs(after - before)
    return np.where(difference < SAME, 0.0, difference)
