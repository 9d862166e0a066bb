"""What a decomposition is: axes on which the centred data become scores, and back."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from microveil.core.arrays import Array
from microveil.core.moments import Moments
from microveil.core.parameters import Step


@dataclass(frozen=True, repr=False)
class Axes:
    """`centred = scores @ loadings`, with `scores = centred @ projection`.

    `variance` has the variance of each score, `weights` the share of each column in it as the paper prints it
    (eigenvectors, for principal components): columns x components.
    """

    projection: Array
    loadings: Array
    variance: Array
    weights: Array

    @property
    def count(self) -> int:
        """The number of components."""
        return int(self.loadings.shape[0])

    def variance_shares(self, column_variance: Array) -> Array:
        """How much of each column's variance sits in each component: components x columns."""
        return np.square(self.loadings) * self.variance[:, None] / column_variance


class Decomposition(Step):
    """Base of all decompositions. They see the moments of the centred data, never the rows."""

    @abstractmethod
    def fit(self, centred: Moments) -> Axes:
        """The axes."""
