"""How far apart two normal distributions with the files' means and covariances are."""

from __future__ import annotations

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import ParameterError
from microveil.core.linalg import rank_of, sorted_eigen, square_root
from microveil.core.table import Matrix
from microveil.measures.base import Estimate, distance
from microveil.measures.utility.central_moments import moments_of_both

RIDGE = 1e-2

UNSEEN = 1e-12
"""Variance (in units of the original's) that is round-off."""


def _normal(original: Matrix, released: Matrix) -> tuple[Array, Array, Array]:
    """Covariance matrices of both files, and the difference of their means, in the original's standard deviations."""
    old, new = moments_of_both(original, released)
    return old.product(), new.product(), new.mean - old.mean


@distance(
    "Kullback-Leibler divergence of two normal distributions with the files' means and covariances",
)
def kl_gaussian(original: Matrix, released: Matrix) -> Estimate:
    """Kullback-Leibler divergence under normality (D'Acquisto and Naldi, eq. 8).

    ½ [tr(R_a R_b⁻¹) - ln(|R_a| / |R_b|) - m] + ½ (ā - b̄)' R_b⁻¹ (ā - b̄). It is infinite if the release lacks a
    dimension that the original has (as after the removal of components), or has one that the original lacks. Linear
    rules that hold in both files take dimensions from both, and the rest is compared. No sampling is involved.
    """
    before, after, shift = _normal(original, released)
    values, vectors = sorted_eigen(before)
    rank = rank_of(values)
    axes, lost = vectors[:, :rank] / np.sqrt(values[:rank]), vectors[:, rank:]
    outside = np.abs(lost.T @ after @ lost).max(initial=0.0) + np.square(lost.T @ shift).max(initial=0.0)
    inside = axes.T @ after @ axes
    if outside > UNSEEN or rank_of(sorted_eigen(inside)[0]) < rank:
        return Estimate(np.inf, note="one of the files has dimensions that the other lacks")
    return Estimate(_divergence(np.eye(rank), inside, axes.T @ shift))


@distance(
    "Kullback-Leibler divergence of two normal distributions, with a little added to all variances to keep it finite",
)
def kl_ridge(original: Matrix, released: Matrix, *, ridge: float = RIDGE) -> Estimate:
    """`kl_gaussian` with `ridge` (in units of the original's variances) added to the diagonals of both covariances.

    With the k largest principal components removed it is ½ Σ_{i<=k} [r_i - ln(1 + r_i)], r_i = λ_i / ridge. Only
    figures with the same ridge compare. No sampling is involved.
    """
    if not ridge > 0:
        raise ParameterError("ridge: must be above 0", "kl_gaussian is the divergence without it")
    before, after, shift = _normal(original, released)
    extra = ridge * np.eye(len(shift))
    return Estimate(_divergence(before + extra, after + extra, shift))


@distance(
    "squared Wasserstein distance of two normal distributions with the files' means and covariances",
)
def wasserstein_gaussian(original: Matrix, released: Matrix) -> Estimate:
    """|ā - b̄|² + tr(A + B - 2 (A^½ B A^½)^½), in variances of the original's columns (Dowson and Landau 1982).

    Finite for every release. With the k largest principal components removed it is Σ_{i<=k} λ_i. No sampling is
    involved.
    """
    before, after, shift = _normal(original, released)
    root = square_root(before)
    cross = np.sqrt(np.clip(np.linalg.eigvalsh(root @ after @ root), 0, None)).sum()
    return Estimate(max(float(shift @ shift + np.trace(before) + np.trace(after) - 2 * cross), 0.0))


def _divergence(before: Array, after: Array, shift: Array) -> float:
    """Eq. 8 for matrices of full rank, by whitening with the Cholesky factor of the second.

    ½ Σ (v_i - 1 - ln v_i) over the eigenvalues of the whitened first one: near v = 1 nothing cancels.
    """
    inverse = np.linalg.inv(np.linalg.cholesky(after))
    excess = np.linalg.eigvalsh(inverse @ (before - after) @ inverse.T)
    return float((excess - np.log1p(np.maximum(excess, -1 + 1e-15))).sum() + np.square(inverse @ shift).sum()) / 2
