"""The centre: what is taken off before the decomposition and put back after it.

Without public columns it is the mean. With them it is the fitted part of a regression on them, so that what
is perturbed are the residuals, and the relations between confidential and public columns stay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from microveil.core.arrays import Array
from microveil.core.linalg import regression_slopes
from microveil.core.moments import Moments

BLURRED = 1e-3
"""Share of variance below which moments alone leave too few digits of what is left of a column."""

DETERMINED = 1e-18
"""Share of variance below which the public columns determine a confidential one: nothing is left to perturb.

A billionth of the column's spread: residuals are measured on the rows, so what is larger is more than round-off.
"""


@dataclass(frozen=True, repr=False)
class Centre:
    """`centred = (y - mean_y) - (x - mean_x) @ slopes`, and the moments of `centred`. Means are shift + offset."""

    shift: Array
    offset: Array
    slopes: Array
    centred: Moments

    @property
    def public(self) -> int:
        """The number of public columns."""
        return int(self.slopes.shape[0])

    def refined(self, measured: Moments) -> Centre:
        """The centre after another regression of what it leaves: `measured` is of public columns and residuals."""
        again = fit_centre(measured, self.public)
        return replace(self, slopes=self.slopes + again.slopes, centred=again.centred)

    def nothing(self) -> Centre:
        """The same, with nothing taken off: for values that are to come back to the last digit."""
        return replace(
            self,
            shift=np.zeros_like(self.shift),
            offset=np.zeros_like(self.offset),
            slopes=np.zeros_like(self.slopes),
        )

    def is_sharp(self, summary: Moments) -> bool:
        """Are the residuals known well enough from the moments of the columns alone?

        They are where the public columns tell little enough of each, and are not nearly collinear.
        """
        if self.public == 0:
            return True
        left = self.centred.squares > BLURRED * summary.squares[self.public :]
        sd = summary.sd[: self.public]
        if not left.all() or not sd.all():
            return False
        public = slice(0, self.public)
        values = np.linalg.eigvalsh(summary.between(public, public) / summary.weight / np.outer(sd, sd))
        return bool(values[0] > BLURRED * values[-1])

    def determined(self, summary: Moments) -> list[int]:
        """Confidential columns (numbered among themselves) that the public ones determine."""
        return np.flatnonzero(self.centred.squares <= DETERMINED * summary.squares[self.public :]).tolist()


def fit_centre(summary: Moments, public: int) -> Centre:
    """Regress the confidential columns on the `public` first ones, from the moments of both."""
    x, y = slice(0, public), slice(public, None)
    shared = summary.between(x, y)
    slopes = regression_slopes(summary.between(x, x), shared)
    zero = np.zeros(slopes.shape[1])
    if summary.deviations is not None:
        rows = summary.deviations[y] - slopes.T @ summary.deviations[x]
        return Centre(summary.shift, summary.offset, slopes, Moments(summary.weight, zero, zero, None, rows))
    left = summary.between(y, y) - slopes.T @ shared
    centred = Moments(summary.weight, zero, zero, (left + left.T) / 2)
    return Centre(summary.shift, summary.offset, slopes, centred)
