"""Invariant coordinates (Tyler, Critchley, Dümbgen and Oja 2009)."""

from __future__ import annotations

import warnings
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.core.linalg import sorted_eigen
from microveil.core.moments import Moments
from microveil.core.rng import Stream
from microveil.decompose.base import Axes, Decomposition, Sample
from microveil.decompose.pca import standard_axes

COV4_ROWS = 100_000
"""Rows the fourth moments are taken from: all of them in most files, and more would not turn the axes visibly."""

MCD_ROWS = 2_000
"""Rows the robust scatter is searched on: the search takes many passes, and it looks for half of the rows only."""

FLAT = 1e-10
"""A direction in which the robust scatter is less than this share of the covariance holds half of the records alike."""


class InvariantCoordinates(Decomposition):
    """Components that do not depend on the units, or any linear combination, of the columns they come from.

    Two scatter matrices S1 and S2 are compared: in the new coordinates S1 is the identity and S2 is diagonal. With
    `cov_cov4` these are the covariance and the covariance weighted by each record's distance from the centre (fourth
    moments), with `mcd_cov` a robust scatter of the densest half of the records and the covariance. Outlying records
    stand out in the first components or the last ones instead of bending all of them. One of the two is always the
    covariance of all records, so that the components are exactly uncorrelated; the other may come from a sample.
    Signs are chosen so that the components are skewed to the right.
    """

    reference: ClassVar[str] = "Tyler, Critchley, Dümbgen and Oja (2009); Rousseeuw and Van Driessen (1999)"

    scatter: Literal["cov_cov4", "mcd_cov"] = Field(
        default="cov_cov4",
        description="the two scatter matrices: the covariance and that of fourth moments, or a robust one and the "
        "covariance",
    )

    def fit(self, centred: Moments, sample: Sample, stream: Stream) -> Axes:
        """Whiten by principal components, then turn to the axes of the other scatter matrix."""
        principal = standard_axes(centred)
        scale = np.sqrt(principal.variance)
        whitening, colouring = principal.projection / scale, principal.loadings * scale[:, None]
        if self.scatter == "cov_cov4":
            white = sample(COV4_ROWS) @ whitening
            _, turn = sorted_eigen(_fourth_moments(white))
            spread = np.ones(principal.count)
        else:
            white = sample(MCD_ROWS) @ whitening
            robust, turn = sorted_eigen(_robust_scatter(white, stream))
            # Smallest first: where the dense half is narrow, the covariance owes most to the records outside of it.
            robust, turn = robust[::-1], turn[:, ::-1]
            if robust[0] <= FLAT:
                raise DataError(
                    "scatter: half of the records lie in a plane, so that their own scatter is flat",
                    "use scatter='cov_cov4'",
                )
            spread = 1 / np.sqrt(robust)
        turn = turn * _skewed_to_the_right(white @ turn)
        return Axes(
            projection=(whitening @ turn) * spread,
            loadings=(turn.T @ colouring) / spread[:, None],
            variance=np.square(spread),
            weights=(principal.weights * scale) @ turn,
        )


def _fourth_moments(white: Array) -> Array:
    """Cov4 of white data: the mean of |y|² y y' over d + 2, which is the identity for normal data."""
    distance = np.square(white).sum(axis=1)
    scatter: Array = (white * distance[:, None]).T @ white / (white.shape[0] * (white.shape[1] + 2))
    return (scatter + scatter.T) / 2


def _robust_scatter(white: Array, stream: Stream) -> Array:
    """The minimum covariance determinant of white data, reweighted."""
    from sklearn.covariance import MinCovDet

    if white.shape[1] == 1 or white.shape[0] <= white.shape[1] + 1:
        return np.eye(white.shape[1])  # one coordinate has no axes to choose; so few records have no dense half
    seed = int(stream.child("mcd").generator().integers(2**31))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # flat and nearly flat scatters are judged by their axes
        try:
            found = MinCovDet(random_state=seed).fit(white).covariance_
        except ValueError:  # half of the records are one and the same
            return np.zeros((white.shape[1], white.shape[1]))
    scatter: Array = (found + found.T) / 2
    return scatter


def _skewed_to_the_right(scores: Array) -> Array:
    """1 or -1 for each component, so that its third moment is not negative."""
    return np.where((scores**3).sum(axis=0) < 0, -1.0, 1.0)
