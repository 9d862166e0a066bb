"""Triangular axes: the Cholesky factor of the covariance matrix (Hsu and Chen 2008, after Mateo-Sanz et al. 2004)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from microveil.core.arrays import Array
from microveil.core.moments import Moments
from microveil.core.rng import Stream
from microveil.core.tolerances import RANK_TOLERANCE
from microveil.decompose.base import Axes, Decomposition, Sample


class Cholesky(Decomposition):
    """Each component is what a column adds to those before it, at unit variance (Gram-Schmidt, in the order given).

    X - E = G L' with C = L L' the covariance matrix and L lower triangular (Theorem 4). L is found on columns of unit
    variance; a column that those before it explain adds no component, but keeps its row of L (generalised Cholesky).
    """

    reference: ClassVar[str] = "Hsu and Chen (2008), Theorem 4 and Table 3"

    def fit(self, centred: Moments, sample: Sample, stream: Stream) -> Axes:  # noqa: ARG002 - moments suffice
        """The generalised Cholesky factor and its inverse."""
        return residual_axes(centred)


def residual_axes(centred: Moments) -> Axes:
    """The triangular axes of columns with these moments."""
    rows = centred.standardised
    if rows is not None:
        return axes_of_factor(*_cholesky_of_rows(rows), centred.sd)
    return triangular_axes(centred.covariance / np.outer(centred.sd, centred.sd), centred.sd)


def triangular_axes(correlation: Array, sd: Array) -> Axes:
    """Axes on which uncorrelated scores of unit variance get this correlation and these standard deviations."""
    return axes_of_factor(*generalised_cholesky(correlation), sd)


def axes_of_factor(factor: Array, pivots: list[int], sd: Array) -> Axes:
    """The axes of a triangular factor (columns x pivots) of the correlations, and these standard deviations."""
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
