"""What a decomposition is: axes on which the centred data become scores, and back."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from microveil.core.arrays import Array
from microveil.core.moments import Moments
from microveil.core.parameters import Step
from microveil.core.rng import Stream


@dataclass(frozen=True, repr=False)
class Axes:
    """`centred = scores @ loadings`, with `scores = centred @ projection`.

    `variance` has the variance of each score, `weights` the share of each column in it as the paper prints it
    (eigenvectors, for principal components): columns x components. A `remark` is for the owner of the release.
    """

    projection: Array
    loadings: Array
    variance: Array
    weights: Array
    remark: str = ""

    @property
    def count(self) -> int:
        """The number of components."""
        return int(self.loadings.shape[0])

    def variance_shares(self, column_variance: Array) -> Array:
        """How much of each column's variance sits in each component: components x columns."""
        return np.square(self.loadings) * self.variance[:, None] / column_variance


Sample = Callable[[int], Array]
"""At most so many random rows of the centred data, rows x columns; the same whenever asked."""


class Decomposition(Step):
    """Base of all decompositions. They see the moments of the centred data and, if they must, a sample of rows."""

    @abstractmethod
    def fit(self, centred: Moments, sample: Sample, stream: Stream) -> Axes:
        """The axes; `stream` is for decompositions that start from a random place."""
