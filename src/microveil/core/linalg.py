"""The little linear algebra that decides: rank, signs, square roots. One tolerance, in one place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from microveil.core.arrays import Array
from microveil.core.tolerances import DETERMINED_SHARE, RANK_TOLERANCE, SUM_ROUND_OFF

ROTATION_RETURNED = 1e-13
"""A search for a rotation that turns its axes by more in every step, and comes as near as this to where it has been
(1 - cosine of the angle), goes in circles."""


def sorted_eigen(symmetric: Array) -> tuple[Array, Array]:
    """Eigenvalues in descending order, with eigenvectors whose largest entry is positive.

    The sign of an eigenvector is arbitrary; fixing it keeps a release the same across LAPACK builds.
    """
    values, vectors = np.linalg.eigh(symmetric)
    values, vectors = values[::-1], vectors[:, ::-1]
    return values, vectors * signs_of(vectors)


def signs_of(vectors: Array) -> Array:
    """1 or -1 for each column: the sign of its largest entry."""
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])])
    return np.where(signs == 0, 1.0, signs)


def rank_of(eigenvalues: Array) -> int:
    """How many eigenvalues (descending, of columns brought to a common scale) are not round-off.

    Eigenvalues are squares of norms, so the tolerance is squared too.
    """
    if eigenvalues.size == 0 or eigenvalues[0] <= 0:
        return 0
    return int(np.count_nonzero(eigenvalues > RANK_TOLERANCE**2 * eigenvalues.size * eigenvalues[0]))


def inverse_square_root(symmetric: Array) -> tuple[Array, float]:
    """The symmetric inverse square root of a positive matrix, and the matrix's condition number."""
    values, vectors = np.linalg.eigh(symmetric)
    if values[0] <= values[-1] * values.size * np.finfo(float).eps:
        return np.full_like(symmetric, np.nan), np.inf
    return (vectors / np.sqrt(values)) @ vectors.T, float(values[-1] / values[0])


def square_root(symmetric: Array) -> Array:
    """The symmetric square root of a matrix that is positive up to round-off."""
    values, vectors = np.linalg.eigh(symmetric)
    root: Array = (vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T
    return root


def triangular_root(symmetric: Array) -> Array:
    """R with R'R = the matrix, upper triangular, its diagonal not negative; for a matrix positive up to round-off.

    By way of the symmetric root, because the usual algorithm breaks down where the matrix is nearly singular.
    """
    _, upper = np.linalg.qr(square_root(symmetric))
    return upper * np.where(np.diagonal(upper) < 0, -1.0, 1.0)[:, None]


def nearest_rotation(matrix: Array) -> Array:
    """The orthogonal matrix nearest to a square one (its polar factor)."""
    left, _, right = np.linalg.svd(matrix)
    rotation: Array = left @ right
    return rotation


def fast_ica(white: Array, start: Array, iterations: int, tolerance: float = 1e-4) -> tuple[Array, bool]:
    """The rotation (k x k) that makes the columns of `white` (n x k) least normal by log cosh; and whether it is found.

    Symmetric FastICA (Hyvärinen 1999) with the steps of scikit-learn's, bit for bit; that library takes a second to
    load, longer than all the rest of a small release.

    Args:
        white: columns that are not correlated and have unit variance.
        start: a matrix (k x k) that the search begins with.
        iterations: steps at most.
        tolerance: found is a rotation of which no axis turns by more.

    A search that comes back to where it has been never ends; it is cut short.
    """
    from scipy.linalg.lapack import dsyevr, dsyevr_lwork

    # What `scipy.linalg.eigh` calls: many steps are taken with small matrices, and its checks would be most of them.
    room = dict(zip(("lwork", "liwork"), map(int, dsyevr_lwork(n=len(start), lower=True)), strict=False))

    def decorrelated(axes: Array) -> Array:
        squares, vectors, _, _, failed = dsyevr(a=axes @ axes.T, lower=True, compute_v=True, **room)
        if failed:
            raise np.linalg.LinAlgError("eigenvalues were not found")
        roots = 1.0 / np.sqrt(np.maximum(squares, np.finfo(float).tiny))
        found: Array = np.dot(vectors * roots, np.dot(vectors.T, axes))
        return found

    def turned(before: Array) -> float:
        return float(np.abs(np.abs(np.einsum("ij,ij->i", axes, before)) - 1).max())

    columns, axes, last = white.T, decorrelated(start), iterations
    marked, mark = axes, 0
    for step in range(1, iterations + 1):
        bent = axes @ columns
        np.tanh(bent, out=bent)
        slopes = (1 - bent**2).mean(axis=1)
        before, axes = axes, decorrelated(bent @ columns.T / len(white) - slopes[:, None] * axes)
        if turned(before) < tolerance:
            return nearest_rotation(axes.T), True
        if last == iterations and turned(marked) < ROTATION_RETURNED:
            last = step + (iterations - step) % (step - mark)  # in circles: end where it would, up to signs
        if step == last:
            break
        if step == 2 * mark + 1:  # after Brent (1980): a circle is found after few more steps than it has
            marked, mark = axes, step
    return nearest_rotation(axes.T), False


def regression_slopes(xx: Array, xy: Array) -> Array:
    """Least-squares slopes of y on x from their cross-products.

    The columns are brought to unit norm first; directions in which they are collinear carry nothing.
    """
    if xx.shape[0] == 0:
        return np.zeros(xy.shape)
    norm = np.sqrt(np.diagonal(xx))
    norm = np.where(norm > 0, norm, 1.0)
    values, vectors = sorted_eigen(xx / np.outer(norm, norm))
    kept = vectors[:, : rank_of(values)]
    return ((kept / values[: kept.shape[1]]) @ kept.T @ (xy / norm[:, None])) / norm[:, None]


def leverage(distance: Array, weight: Array | float, total: float) -> Array:
    """The share of each record in its own fitted value, with an intercept.

    `distance` is x' (X'WX)^-1 x of each record x, off the means; its `weight` is one of a `total` over all records.
    """
    return weight * (1 / total + distance)


def nearest_correlation(matrix: Array) -> Array:
    """Correlations that need not fit together, made to: clip what is negative, restore the diagonal."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    clipped = (vectors * np.clip(values, SUM_ROUND_OFF, None)) @ vectors.T
    scale = np.sqrt(np.diagonal(clipped))
    nearest: Array = clipped / np.outer(scale, scale)
    return nearest


@dataclass(frozen=True, repr=False)
class CanonicalPair:
    """The combinations of two sets of columns that are correlated most (Hotelling 1936)."""

    left: Array
    right: Array
    correlation: float


def first_canonical_pair(left: Array, right: Array) -> CanonicalPair:
    """The first pair of canonical variables of two tables of the same records, rows x columns, without holes."""
    tables = [table - table.mean(axis=0) for table in (left, right)]
    bases = [_orthonormal(table) for table in tables]
    a, correlations, b = np.linalg.svd(bases[0].T @ bases[1])
    if correlations.size == 0:
        return CanonicalPair(np.zeros(left.shape[1]), np.zeros(right.shape[1]), 0.0)
    scores = bases[0] @ a[:, 0], bases[1] @ b[0]
    found = [np.linalg.lstsq(table, score)[0] for table, score in zip(tables, scores, strict=True)]
    return CanonicalPair(found[0], found[1], float(min(correlations[0], 1.0)))


def _orthonormal(values: Array) -> Array:
    """An orthonormal basis of what the columns span, each counted in its own unit."""
    sd = values.std(axis=0)
    u, singular, _ = np.linalg.svd(values / np.where(sd > 0, sd, 1.0), full_matrices=False)
    return u[:, singular > RANK_TOLERANCE * singular.max(initial=0.0)]


def independent_columns(covariance: Array) -> list[int]:
    """The columns that those before them do not determine, by Cholesky elimination of the covariances (k x k)."""
    left, kept = covariance.copy(), []
    for j in range(len(left)):
        unexplained = left[j, j]
        if unexplained > DETERMINED_SHARE:
            kept.append(j)
            left -= np.outer(left[:, j], left[:, j]) / unexplained
    return kept
