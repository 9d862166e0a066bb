"""Noisy moments between the features of columns: sums over all records of products of two bounded whole numbers.

A column is a block of features, each a function of the record's own cell and of what has been measured with noise
before: of an amount, waves of its rank (cosines, which are bounded where polynomials are largest at the ends) and its
value, cut off; of a category, an indicator of each level less an equal share. Features are rounded towards zero to
whole multiples of 1 / UNIT, so that sums are exact whole numbers and bounds hold to the last bit. They are computed for
every cell that there can be and looked up, so that no record's depend on where it stands among others.

Sensitivity. Let a record have features f_a in column a, with |f_a|^2 <= B_a whatever its cell (0 if it is missing). A
group of queries is the sums over records of all products f_a[i] f_b[j], for some pairs of columns (a, b). Adding or
removing the record changes them by the vector of its own products, whose squared length is the sum over these pairs of
|f_a|^2 |f_b|^2 <= sum of B_a B_b. So the L2 sensitivity is at most the root of that sum (`MomentGroup.sensitivity`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.private.mechanism import Account

UNIT = 4_096
"""Features are whole multiples of 1 / UNIT."""

WAVES = 3
"""Waves of the rank of an amount: slopes, bends and a third."""

CUT_OFF, MOST_CUT_OFF = 2.5, 16.0
"""Standard deviations at which values are cut off, where noise is large and where there is none."""

ROWS_AT_ONCE = 2**20
"""Rows whose products of two features, each 2^16 at most, add up to less than 2^53."""

RANKS, VALUES, SHAPES, MEANS, TABLES, SPREADS = "ranks", "values", "shapes", "means", "tables", "spreads"
NEAR = "near"
QUERIES = {
    RANKS: "sums for correlations of ranks",
    VALUES: "sums for correlations of values",
    SHAPES: "sums for bends between amounts",
    MEANS: "sums for means of amounts by category",
    TABLES: "two-way tables of categories",
    SPREADS: "sums for values and spreads of amounts by category",
    NEAR: "squared differences of amounts that are nearly alike",
}
"""What groups of moments are called in the ledger."""

Features = Array
"""Records x features, whole numbers."""


def waves(ranks: Array, order: int) -> Features:
    """sqrt(2) cos(pi k (1 - rank)) for one order k: mean 0 and variance 1 over even ranks.

    The first rises from -1.41 to 1.41.
    """
    found: Features = np.trunc(UNIT * math.sqrt(2) * np.cos(np.pi * order * (1 - ranks)))
    return found


WAVE_BOUND = math.isqrt(2 * UNIT**2)
"""The largest that a wave can be."""


def values_cut_off(values: Array, mean: float, sd: float, cut_off: float = CUT_OFF) -> Features:
    """Standardised values, cut off."""
    found: Features = np.trunc(UNIT * np.clip((values - mean) / sd, -cut_off, cut_off))
    return found


def value_bound(cut_off: float) -> int:
    """The largest that a value that is cut off can be."""
    return math.floor(UNIT * cut_off)


def spread_bound(cut_off: float) -> int:
    """The largest square length of a value and all waves but the first."""
    return value_bound(cut_off) ** 2 + (WAVES - 1) * WAVE_BOUND**2


def level_features(levels: int) -> Features:
    """The features of each level, levels x levels: its indicator less an equal share."""
    return np.trunc(UNIT * (np.eye(levels) - 1 / levels))


def level_bound(levels: int) -> int:
    """The largest square length of the features of a level, in units of 1 / UNIT^2."""
    return int(np.square(level_features(levels)).sum(axis=1).max())


@dataclass(frozen=True, repr=False)
class Block:
    """The features of one column in one group of queries, the largest square length they can have (whole), and their
    means, of amounts also those of their squares, by the noisy distribution of the column.
    """

    column: int
    features: Features
    bound: int
    means: Array
    squares: Array = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True, repr=False)
class MomentGroup:
    """Queries that share a budget: the moments between blocks of some pairs of columns."""

    name: str
    pairs: Sequence[tuple[Block, Block]]

    def exact(self) -> NDArray[np.int64]:
        """All sums, pair by pair."""
        found = [np.empty(0, np.int64)]
        for one, other in self.pairs:
            total = np.zeros((one.features.shape[1], other.features.shape[1]), np.int64)
            for start in range(0, len(one.features), ROWS_AT_ONCE):  # whole numbers below 2^53: exact in doubles
                rows = slice(start, start + ROWS_AT_ONCE)
                total += (one.features[rows].T @ other.features[rows]).astype(np.int64)
            found.append(total.ravel())
        return np.concatenate(found)

    @property
    def sensitivity(self) -> float:
        """The most that one record changes the sums by, as a Euclidean length (see above)."""
        return group_sensitivity([(one.bound, other.bound) for one, other in self.pairs])

    def noisy(self, account: Account, rho: float, count: float) -> list[Array]:
        """The moments of each pair (features x features), per record."""
        answers = account.noisy(QUERIES[self.name], self.exact(), self.sensitivity, rho, UNIT**2) / (UNIT**2 * count)
        shapes = [(one.features.shape[1], other.features.shape[1]) for one, other in self.pairs]
        parts = np.split(answers, np.cumsum([rows * columns for rows, columns in shapes])[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def group_sensitivity(bounds: Sequence[tuple[int, int]]) -> float:
    """The root of the sum of products of square lengths, rounded up."""
    return float(math.isqrt(sum(one * other for one, other in bounds)) + 1)
