"""Principal components (Calviño 2017, eq. 5, 6, 8), and the columns themselves as components."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from microveil.core.arrays import Array
from microveil.core.errors import ParameterError
from microveil.core.linalg import rank_of, signs_of, sorted_eigen
from microveil.core.moments import Moments
from microveil.core.rng import Stream
from microveil.decompose.base import SQUARED, Axes, Decomposition, Sample

ONE_UNIT = 1e5
"""Ratio of standard deviations up to which columns may pass for being in one unit."""


class PrincipalComponents(Decomposition):
    """Uncorrelated components in the order of their variance.

    X1 = (X - M) S, X2 = X1 A (eq. 5, 6), with A the eigenvectors of the correlation matrix. Standard
    deviations have the divisor n, as the scores printed in the paper's Table 1; the masked data do not depend
    on it.
    """

    reference: ClassVar[str] = "Calviño (2017), eq. 5-8"

    standardise: bool = Field(
        default=True, description="bring the columns to unit variance first; turn it off only if all are in one unit"
    )

    def fit(self, centred: Moments, sample: Sample, stream: Stream) -> Axes:  # noqa: ARG002 - moments suffice
        """Eigenvectors of the correlation (or covariance) matrix, as many as the columns have dimensions.

        The rank is always decided on columns of unit variance: on raw ones, small units would look like round-off.
        """
        standard = standard_axes(centred)
        if self.standardise:
            return standard
        if centred.sd.max() > ONE_UNIT * centred.sd.min():
            raise ParameterError("standardise: the columns are not in one unit", "leave it on, or rescale them")
        return _axes(_eigen(centred, np.ones_like(centred.sd)), np.ones_like(centred.sd), standard.count)


def standard_axes(centred: Moments) -> Axes:
    """The principal components of standardised columns, without those that are round-off."""
    return _axes(_eigen(centred, centred.sd), centred.sd)


def _eigen(centred: Moments, unit: Array) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors of the covariance matrix of columns in these units.

    Of a wide table, only the directions that its rows span: the others have no variance.
    """
    if centred.deviations is None:
        return sorted_eigen(centred.covariance / np.outer(unit, unit))
    vectors, singular, _ = np.linalg.svd(centred.deviations / unit[:, None], full_matrices=False)
    return np.square(singular) / centred.weight, vectors * signs_of(vectors)


def _axes(eigen: tuple[Array, Array], unit: Array, rank: int | None = None) -> Axes:
    """Axes of columns in these units, as many as they have dimensions or as are asked."""
    values, vectors = eigen
    rank = rank_of(values) if rank is None else rank
    values, vectors = values[:rank], vectors[:, :rank]
    return Axes(
        projection=vectors / unit[:, None],
        loadings=vectors.T * unit,
        variance=np.clip(values, 0, None),
        weights=vectors,
    )


class Identity(Decomposition):
    """Each column is its own component.

    The unit of a component is the power of two nearest to the column's standard deviation: multiplying by it loses no
    digit, so that values which only change places come back as they were.
    """

    centres: ClassVar[bool] = False
    most_columns: ClassVar[int | None] = SQUARED

    @property
    def uncorrelated(self) -> bool:
        """Columns are as correlated as they are."""
        return False

    def fit(self, centred: Moments, sample: Sample, stream: Stream) -> Axes:  # noqa: ARG002 - moments suffice
        """A component for each column."""
        unit = np.ldexp(1.0, np.round(np.log2(centred.sd)).astype(int))
        return Axes(
            projection=np.diag(1 / unit),
            loadings=np.diag(unit),
            variance=centred.variance / np.square(unit),
            weights=np.eye(unit.size),
        )
