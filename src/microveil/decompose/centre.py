"""The centre: what is taken off before the decomposition and put back after it.

Without public columns it is the mean. With them it is the fitted part of a regression on them, so that what
is perturbed are the residuals, and the relations between confidential and public columns stay.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from microveil.core.linalg import regression_slopes
from microveil.core.moments import Array, Moments

DETERMINED = 1e-12
"""Share of variance below which the public columns determine a confidential one: nothing is left to perturb."""


@dataclass(frozen=True)
class Centre:
    """`centred = (y - mean_y) - (x - mean_x) @ slopes`, and the moments of `centred`."""

    mean: Array
    slopes: Array
    centred: Moments

    @property
    def public(self) -> int:
        """The number of public columns."""
        return int(self.slopes.shape[0])

    def determined(self, summary: Moments) -> list[int]:
        """Confidential columns (numbered among themselves) that the public ones determine."""
        left = np.diagonal(self.centred.comoment)
        whole = np.diagonal(summary.comoment)[self.public :]
        return np.flatnonzero(left <= DETERMINED * whole).tolist()


def fit_centre(summary: Moments, public: int) -> Centre:
    """Regress the confidential columns on the `public` first ones, from the moments of both."""
    x, y = slice(0, public), slice(public, None)
    slopes = regression_slopes(summary.comoment[x, x], summary.comoment[x, y])
    left = summary.comoment[y, y] - slopes.T @ summary.comoment[x, y]
    return Centre(summary.mean, slopes, Moments(summary.weight, np.zeros(left.shape[0]), (left + left.T) / 2))
