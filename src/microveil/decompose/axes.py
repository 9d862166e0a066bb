"""Axes found from the moments alone: principal components (Calviño 2017, eq. 5, 6, 8), and the columns themselves.

Triangular axes are the Cholesky factor of the covariance matrix (Hsu and Chen 2008, after Mateo-Sanz et al. 2004). So
are the scores of what public columns leave (Langsrud 2019, eq. 2), and axes that give scores a wanted correlation,
whatever they had: the target of Iman and Conover (1982).
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from microveil.core.arrays import Array
from microveil.core.errors import ParameterError
from microveil.core.factor import Factorisation, generalised_svd
from microveil.core.linalg import nearest_correlation, rank_of, signs_of, sorted_eigen
from microveil.core.moments import Moments
from microveil.core.rng import Stream
from microveil.core.sorted_columns import mid_ranks
from microveil.core.tolerances import RANK_TOLERANCE
from microveil.decompose.base import SQUARED, Axes, Decomposition, Sample


class Cholesky(Decomposition):
    """Each component is what a column adds to those before it, at unit variance (Gram-Schmidt, in the order given).

    X - E = G L' with C = L L' the covariance matrix and L lower triangular (Hsu and Chen 2008, Theorem 4). L is found
    on columns of unit variance; a column that those before it explain adds no component, but keeps its row of L
    (generalised Cholesky).
    """

    def fit(self, centred: Moments, sample: Sample, stream: Stream) -> Axes:  # noqa: ARG002 - moments suffice
        """The generalised Cholesky factor and its inverse."""
        return residual_axes(centred)


def residual_axes(centred: Moments) -> Axes:
    """The triangular axes of columns with these moments."""
    rows = centred.standardised
    if rows is not None:
        return axes_of_factor(*_cholesky_of_rows(rows), centred.sd)
    correlation = centred.covariance / np.outer(centred.sd, centred.sd)
    return axes_of_factor(*generalised_cholesky(correlation), centred.sd)


def axes_of_factor(factor: Array, pivots: list[int], sd: Array) -> Axes:
    """Axes on which uncorrelated scores of unit variance get the correlations that a triangular factor is of.

    The `factor` is columns x pivots; `sd` has the standard deviations of the columns.
    """
    projection = np.zeros((sd.size, len(pivots)))
    projection[pivots] = np.linalg.inv(factor[pivots]).T / sd[pivots, None]
    return Axes(projection=projection, loadings=factor.T * sd, variance=np.ones(len(pivots)), weights=factor)


def generalised_cholesky(correlation: Array) -> tuple[Array, list[int]]:
    """L with L L' = correlation, a column for each pivot, and the pivots: columns that earlier ones do not explain."""
    left = correlation.copy()
    columns, pivots = [], []
    for j in range(left.shape[0]):
        unexplained = left[j, j]
        if unexplained <= RANK_TOLERANCE**2 * left.shape[0]:
            continue
        column = left[:, j] / np.sqrt(unexplained)
        column[:j] = 0.0  # what is left there is round-off
        left[j:, j:] -= np.outer(column[j:], column[j:])
        columns.append(column)
        pivots.append(j)
    return np.column_stack(columns), pivots


def _cholesky_of_rows(rows: Array) -> tuple[Array, list[int]]:
    """The same for the correlation `rows @ rows.T` of a wide table, without making it: Gram-Schmidt on its columns."""
    left = rows.copy()
    columns, pivots = [], []
    for j in range(left.shape[0]):
        unexplained = float(left[j] @ left[j])
        if unexplained <= RANK_TOLERANCE**2 * left.shape[0]:
            continue
        direction = left[j] / np.sqrt(unexplained)
        column = left @ direction
        column[:j] = 0.0
        left -= np.outer(column, direction)
        columns.append(column)
        pivots.append(j)
        if len(pivots) == rows.shape[1]:
            break  # there are no more dimensions
    return np.column_stack(columns), pivots


class Residuals(Decomposition):
    """Orthogonal scores of residuals, one by one (QR) or by principal components (SVD): Langsrud (2019), eq. 2."""

    ordered: ClassVar[bool] = True

    decomposition: Factorisation = Field(
        default="qr",
        description="scores of the residuals: qr adds one column after the other, in their order; svd takes the "
        "principal components of the columns in their own units",
    )

    def fit(self, centred: Moments, sample: Sample, stream: Stream) -> Axes:  # noqa: ARG002 - moments suffice
        """The axes; principal ones are found from the triangular ones, which do not square the spread of scales."""
        axes = residual_axes(centred)
        if self.decomposition == "qr":
            return axes
        turned = generalised_svd(axes.loadings)
        return Axes(
            projection=axes.projection @ turned.scores,
            loadings=turned.loadings,
            variance=axes.variance,
            weights=turned.loadings.T / centred.sd[:, None],
        )


SAMPLE_ROWS = 100_000
"""Rows the rank correlations are taken from: their error is then 0.003."""


class RankTarget(Decomposition):
    """Uncorrelated scores, and loadings that give them the correlation that normal scores must have.

    Values that are assigned by the ranks of normal scores with correlation r have a rank correlation of
    6/π arcsin(r/2); so r = 2 sin(π r_s / 6) gives back Spearman's r_s. Iman and Conover take r_s itself, which comes
    out a little smaller. Hsu and Chen (2008) seem to have taken Pearson's, by the figures they print.
    """

    most_columns: ClassVar[int | None] = SQUARED

    target: Literal["adjusted", "spearman", "pearson"] = Field(
        default="adjusted",
        description="correlation of the normal scores: 2 sin(pi r / 6) of Spearman's r, r itself, or Pearson's",
    )

    def fit(self, centred: Moments, sample: Sample, stream: Stream) -> Axes:  # noqa: ARG002 - nothing random
        """The Cholesky factor of the target."""
        target = nearest_correlation(self._target(centred, sample))
        return replace(axes_of_factor(*generalised_cholesky(target), centred.sd), sets_moments=True)

    def _target(self, centred: Moments, sample: Sample) -> Array:
        if self.target == "pearson":
            return centred.covariance / np.outer(centred.sd, centred.sd)
        ranks = np.array([mid_ranks(column) for column in sample(SAMPLE_ROWS).T])
        spearman = np.atleast_2d(np.corrcoef(ranks))
        return spearman if self.target == "spearman" else 2 * np.sin(np.pi * spearman / 6)


ONE_UNIT = 1e5
"""Ratio of standard deviations up to which columns may pass for being in one unit."""


class PrincipalComponents(Decomposition):
    """Uncorrelated components in the order of their variance.

    X1 = (X - M) S, X2 = X1 A (Calviño 2017, eq. 5, 6), with A the eigenvectors of the correlation matrix. Standard
    deviations have the divisor n, as the scores printed in the paper's Table 1; the masked data do not depend on it.
    """

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
