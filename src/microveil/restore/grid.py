"""Moments on a grid, so that two releases of files that differ by one record do not tell that record.

Exact moments are sums over all records: n times the mean of one file less that of another without a record *is* the
record, and the covariances give its squares and products. On a grid that is wider than what any one record moves, both
files mostly have the same moments. What a record can move follows from the one that is farthest out: its distance from
the mean, over n, for the mean; the square of it for the variance; its share of the sum of squares for correlations.

The steps are powers of two, so that a year later they are mostly the same. A column that one record dominates has wide
steps, and its correlations vanish: they were that record's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from microveil.core.arrays import Array
from microveil.core.linalg import regression_slopes
from microveil.core.moments import Moments

SAFETY = 4.0
"""How many times what one record moves a step is, before it counts that every column tells of the same record.

Rounding errs by up to half a step, evenly. With four times, a difference of two means has a standard error of 1.15
times the distance of the farthest record: no better than to guess the mean. The square root of the number of columns
comes to it, because whoever averages over columns gains as much.
"""

SINGULAR = 2.0**-10
"""Smallest variance, of standardised columns, that any combination of them may be left with."""

SHRINKING = 64
"""Steps in which correlations are brought nearer to zero until they fit together."""


@dataclass(frozen=True, repr=False)
class Gridded:
    """Moments on the grid, and the share of the correlations that is left, where rounded ones do not fit together."""

    moments: Moments
    left: float


def on_grid(found: Moments, lowest: Array, highest: Array, public: int, heaviest: float = 1.0) -> Gridded:
    """Moments of public and confidential columns with those of the latter on the grid.

    `lowest` and `highest` are the extremes of the columns, and `heaviest` the largest weight; their mean is 1. Public
    columns are in clear, so that their own moments stay.
    """
    own = slice(public, None)
    reach = np.maximum(highest - found.mean, found.mean - lowest)
    factor = SAFETY * np.sqrt(reach.size - public) * heaviest
    step = _power(factor * reach[own] / found.weight)
    variance_step = _power(factor * np.square(reach[own]) / found.weight)
    variance = found.variance.copy()
    variance[own] = np.round(variance[own] / variance_step) * variance_step
    # Where one record is most of the variance, no step of it is left: then what that record would make of it, and more.
    dominated = variance[own] == 0
    variance[own] += np.where(dominated, _power(SAFETY * heaviest * np.square(reach[own]) / found.weight), 0.0)
    shares = np.divide(np.square(reach), np.diagonal(found.comoment), out=np.zeros_like(reach), where=reach > 0)
    between = _power(factor * np.add.outer(shares, shares))
    sd = np.where(found.sd > 0, found.sd, 1.0)
    correlations = found.covariance / np.outer(sd, sd)
    kept = correlations[:public, :public].copy()
    rounded = np.clip(np.round(correlations / between) * between, -1.0, 1.0)
    rounded[:public, :public] = kept
    np.fill_diagonal(rounded, np.where(found.sd > 0, 1.0, 0.0))
    rounded, left = _fitting(rounded, public)
    offset = found.offset.copy()
    offset[own] = np.round(found.mean[own] / step) * step - found.shift[own]
    comoment = rounded * np.sqrt(np.outer(variance, variance)) * found.weight
    comoment[:public, :public] = found.comoment[:public, :public]
    return Gridded(Moments(found.weight, found.shift, offset, comoment), left)


def _power(least: Array) -> Array:
    """The smallest powers of two that are not below something; 1 where that is nothing."""
    return np.exp2(np.ceil(np.log2(np.where(least > 0, least, 1.0))))


def _fitting(correlations: Array, public: int) -> tuple[Array, float]:
    """Correlations near these that a table can have, and the factor that it took; those of public columns stay.

    Only what is rounded already goes in, so the factor tells no more of a record than the grid does.
    """
    for steps in range(SHRINKING, -1, -1):
        share = steps / SHRINKING
        nearer = share * correlations
        nearer[:public, :public] = correlations[:public, :public]
        np.fill_diagonal(nearer, np.diagonal(correlations))
        cross = nearer[:public, public:]
        left = nearer[public:, public:] - cross.T @ regression_slopes(nearer[:public, :public], cross)
        if np.linalg.eigvalsh(left)[0] >= SINGULAR:
            break
    return nearer, share
