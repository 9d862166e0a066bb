"""Records that stand far out, by distances that outliers themselves do not bend."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.linalg import rank_of, sorted_eigen
from microveil.core.rng import Stream

FEW = 2
"""Rows for each dimension that robust distances need at the least."""


def outlying(values: Array, quantile: float, stream: Stream) -> NDArray[np.bool_]:
    """Which rows have a robust distance beyond this quantile of the chi-square distribution.

    The distances are those of the minimum covariance determinant (Rousseeuw 1984), on principal components at unit
    variance, so that columns in different units and columns that follow from others do no harm.
    """
    from scipy.stats import chi2
    from sklearn.covariance import MinCovDet

    scale = values.std(axis=0)
    standard = (values - values.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    variances, axes = sorted_eigen(standard.T @ standard / len(standard))
    rank = rank_of(variances)
    white = standard @ axes[:, :rank] / np.sqrt(variances[:rank])
    if white.shape[0] <= FEW * rank:
        return np.zeros(white.shape[0], dtype=bool)
    seed = int(stream.generator().integers(2**31))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a dense half that is flat shows in its distances
        try:
            distances = MinCovDet(random_state=seed).fit(white).mahalanobis(white)
        except ValueError:  # half of the records are one and the same
            return np.zeros(white.shape[0], dtype=bool)
    far: NDArray[np.bool_] = distances > chi2.ppf(quantile, rank)
    return far
