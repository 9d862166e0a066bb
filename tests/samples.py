"""Tables that several files of tests make, and what they hold releases of them against."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from microveil.core.table import Matrix

Array = NDArray[np.float64]


def matrix(values: Array) -> Matrix:
    """The columns of an array (n x k), as measures take them."""
    return Matrix(list(values.T))


def skewed(seed: int = 0, rows: int = 300, columns: int = 4) -> Array:
    """Skewed columns of both signs that go together, far from zero."""
    rng = np.random.default_rng(seed)
    return rng.gamma(1.5, size=(rows, columns)) @ rng.standard_normal((columns, columns)) + 10


def factor_amounts(seed: int, rows: int = 300, columns: int = 6) -> Array:
    """Amounts that follow three common factors, with heavy tails."""
    rng = np.random.default_rng(seed)
    loadings = rng.gamma(0.5, size=(columns, 3)) + 0.1
    return rng.lognormal(0, 1, size=(rows, 3)) @ loadings.T * rng.lognormal(0, 0.4, size=(rows, columns))


def wages(rows: int = 150, seed: int = 0) -> Array:
    """Three lognormal columns that go together, of very different scales."""
    rng = np.random.default_rng(seed)
    return np.exp(rng.standard_normal((rows, 3)) @ [[1, 0.8, 0.5], [0, 0.6, -0.4], [0, 0, 0.7]]) * [1, 50, 1e-3]


def moment_errors(before: Array, after: Array) -> tuple[float, float]:
    """The largest gap of means, in standard deviations, and that of covariances, in products of them."""
    sd = before.std(axis=0)
    gap = np.abs(np.cov(after.T, ddof=0) - np.cov(before.T, ddof=0)) / np.outer(sd, sd)
    return float((np.abs(after.mean(axis=0) - before.mean(axis=0)) / sd).max()), float(gap.max())


def weighted_moments(values: Array, weights: Array) -> Array:
    """Means, and below them covariances (k + 1 x k)."""
    mean = np.average(values, axis=0, weights=weights)
    return np.vstack([mean, (weights[:, None] * (values - mean)).T @ (values - mean) / weights.sum()])


def close_on_average(found: Array, expected: Array) -> bool:
    """Is the mean over the repeats (along the first axis) within four standard errors of what theory says?"""
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    return bool((np.abs(found.mean(axis=0) - expected) < 4 * error).all())
