"""What a decomposition is: axes on which the centred data become scores, and back.

The centre is what is taken off before, and put back after. Without public columns it is the mean. With them it is the
fitted part of a regression on them, so that what is perturbed are the residuals, and the relations between confidential
and public columns stay.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from pydantic import BeforeValidator

from microveil.core.arrays import Array, Index
from microveil.core.linalg import regression_slopes
from microveil.core.moments import Moments
from microveil.core.parameters import Step
from microveil.core.rng import Stream


@dataclass(frozen=True, repr=False)
class Axes:
    """`centred = scores @ loadings`, with `scores = centred @ projection`.

    `variance` has the variance of each score, `weights` the share of each column in it as the paper prints it
    (eigenvectors, for principal components): columns x components. A `remark` is for the owner of the release.
    Components that are `reserved` are never perturbed: a parameter of the decomposition keeps them.
    `noise` (columns of noise x components) adds to the scores that much of columns of noise with unit variance, which
    are uncorrelated with all data; as the loadings undo it, the identity holds. Where the last components are what no
    other shares with a column, `rest_of` names these columns in their order. Where `sets_moments`, exact moments are
    those that the axes ask for (uncorrelated scores with `variance`), and not those the scores have.
    """

    projection: Array
    loadings: Array
    variance: Array
    weights: Array
    remark: str = ""
    reserved: tuple[int, ...] = ()
    noise: Array | None = None
    rest_of: tuple[int, ...] = ()
    sets_moments: bool = False

    @property
    def count(self) -> int:
        """The number of components."""
        return int(self.loadings.shape[0])

    @property
    def columns(self) -> Index:
        """The columns that have a part in some component; public columns determine the others."""
        return np.flatnonzero(self.loadings.any(axis=0))

    @property
    def shared(self) -> int:
        """The number of components that are not the rest of a column."""
        return self.count - len(self.rest_of)

    def variance_shares(self, column_variance: Array) -> Array:
        """How much of each column's variance sits in each component: components x columns."""
        return np.square(self.loadings) * self.variance[:, None] / column_variance


SQUARED = 5_000
"""Columns at most where some matrices of columns x columns are made: each takes 200 MB."""

Sample = Callable[[int], Array]
"""At most so many random rows of the centred data, rows x columns; the same whenever asked."""


def _not_a_truth_value(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("true and false are not numbers")
    return value


number_or_word = BeforeValidator(_not_a_truth_value)
"""For parameters that are a number or a word: Python counts true as 1."""


class Decomposition(Step):
    """Base of all decompositions. They see the moments of the centred data and, if they must, a sample of rows."""

    centres: ClassVar[bool] = True
    """False when the components are the values themselves; nothing is then taken off them, if nothing needs to be."""

    ordered: ClassVar[bool] = False
    """True when columns are taken in the order given: of those that depend on each other, the last are then rebuilt."""

    reports_near_returns: ClassVar[bool] = False
    """True when independent components are swapped for the sake of leakage, so that near-returns are reported."""

    has_no_order: ClassVar[bool] = False
    """True when no component comes before another, so that a triangular root is that of the columns."""

    most_columns: ClassVar[int | None] = None
    """Columns at most, where matrices of columns x columns are made; None where few rows stand for them."""

    @property
    def uncorrelated(self) -> bool:
        """False when the components may be correlated, so that perturbing them one by one changes the covariances."""
        return True

    @abstractmethod
    def fit(self, centred: Moments, sample: Sample, stream: Stream) -> Axes:
        """The axes; `stream` is for decompositions that start from a random place."""


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

        They are where the public columns explain little enough of each, and are not nearly collinear.
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
