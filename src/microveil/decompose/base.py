"""What a decomposition is: axes on which the centred data become scores, and back."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator

from microveil.core.arrays import Array
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
    def columns(self) -> NDArray[np.intp]:
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

    most_columns: ClassVar[int | None] = None
    """Columns at most, where matrices of columns x columns are made; None where few rows stand for them."""

    @property
    def uncorrelated(self) -> bool:
        """False when the components may be correlated, so that perturbing them one by one changes the covariances."""
        return True

    @abstractmethod
    def fit(self, centred: Moments, sample: Sample, stream: Stream) -> Axes:
        """The axes; `stream` is for decompositions that start from a random place."""
