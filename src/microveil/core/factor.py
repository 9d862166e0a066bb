"""Scores and loadings of a matrix: the generalised QR and singular value decompositions (Langsrud 2019, Appendices).

Both write A = Q R with orthonormal columns in Q, as many as the rank says, and both are unique: their signs are fixed.
Without that a drawn matrix would not give every rotation the same chance (LAPACK's own signs make the first score of
the first record negative, always).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from microveil.core.arrays import Array
from microveil.core.tolerances import RANK_TOLERANCE, SUM_ROUND_OFF

Factorisation = Literal["qr", "svd"]

MARGIN = 1e-7
"""How far below its limit a share is taken, so that what is left to add has its full rank (as RegSDC)."""

NO_SHARE = 1e-8
"""A limit below this is none: the matrix cannot be used at all."""

CLEARLY = 1e-6
"""Share of its own norm from which on nobody doubts that a column is no combination of those before it."""

VANISHING, LAST_DIGITS = 1e-9, 1e-13
"""Shares of a column's spread and of its norm below which a residual is round-off, which must not become a score."""


@dataclass(frozen=True, repr=False)
class Factors:
    """`matrix = scores @ loadings`; the scores are orthonormal columns."""

    scores: Array
    loadings: Array

    @property
    def rank(self) -> int:
        """The number of scores."""
        return int(self.loadings.shape[0])


def generalised_qr(matrix: Array) -> Factors:
    """Gram-Schmidt in the order of the columns, with a positive diagonal (eq. 24-26).

    A column that those before it explain, up to a share of its own norm, adds no score but keeps its loadings. Where
    no column comes near that, LAPACK finds the same many times faster.
    """
    rows, width = matrix.shape
    if not 0 < width <= rows:
        return _one_by_one(matrix)
    scores, loadings = np.linalg.qr(matrix)
    lengths = np.diagonal(loadings)
    if not (np.abs(lengths) > CLEARLY * np.linalg.norm(loadings, axis=0)).all():
        return _one_by_one(matrix)
    signs = np.where(lengths < 0, -1.0, 1.0)
    return Factors(scores * signs, signs[:, None] * loadings)


def _one_by_one(matrix: Array) -> Factors:
    """Gram-Schmidt, one column after the other."""
    rows, width = matrix.shape
    norms = np.linalg.norm(matrix, axis=0)
    scores = np.empty((rows, min(rows, width)))
    loadings = np.zeros((min(rows, width), width))
    rank = 0
    for j in range(width):
        left = matrix[:, j].copy()
        for _ in range(2):  # once more: what the first pass leaves of the earlier scores is round-off
            shared = scores[:, :rank].T @ left
            left -= scores[:, :rank] @ shared
            loadings[:rank, j] += shared
        length = float(np.linalg.norm(left))
        if rank < scores.shape[1] and length > RANK_TOLERANCE * norms[j]:
            scores[:, rank] = left / length
            loadings[rank, j] = length
            rank += 1
    return Factors(scores[:, :rank], loadings[:rank])


def generalised_svd(matrix: Array) -> Factors:
    """Principal components of the columns as they are: A = U (diag(s) V') (eq. 28).

    There are as many as in the QR decomposition, which goes by the norm of each column: a rule on singular values would
    drop every column in small units. The loadings are U'A and not diag(s) V', in which such a column has lost its last
    digits. Each row of V' has a positive sum, or a positive largest entry where the sum vanishes.
    """
    triangular = generalised_qr(matrix)
    rotation, _, _ = np.linalg.svd(triangular.loadings, full_matrices=False)
    loadings = rotation.T @ triangular.loadings
    signs = loading_signs(loadings)
    return Factors(triangular.scores @ rotation * signs, signs[:, None] * loadings)


def loading_signs(loadings: Array) -> Array:
    """The sign of the sum of each row, or of its largest entry where the sum is round-off."""
    sums = loadings.sum(axis=1)
    largest = np.take_along_axis(loadings, np.abs(loadings).argmax(axis=1)[:, None], axis=1)[:, 0]
    undecided = np.abs(sums) <= SUM_ROUND_OFF * np.abs(loadings).sum(axis=1)
    return np.where(np.where(undecided, largest, sums) < 0, -1.0, 1.0)


def without_round_off(residuals: Array, original: Array) -> Array:
    """Residuals with zeros in the columns that were fitted to the last digit."""
    spread = np.linalg.norm(original - original.mean(axis=0), axis=0)
    round_off = np.maximum(VANISHING * spread, LAST_DIGITS * np.linalg.norm(original, axis=0))
    return np.where(np.linalg.norm(residuals, axis=0) > round_off, residuals, 0.0)


@dataclass(frozen=True, repr=False)
class Completion:
    """`C` with C'C = W'W - share² G'G, the share that was taken, and the largest for which there is such a C (eq. 10).

    The limit is infinite where G is nothing.
    """

    matrix: Array
    share: float
    limit: float


def largest_share(whole: Array, part: Array) -> float:
    """The largest alpha with W'W - alpha² G'G not negative, for singular W and G too (Langsrud 2019, §3)."""
    return _stacked(whole, part)[3]


def completion(whole: Array, part: Array, share: float | None = None) -> Completion:
    """What must be added to `share` times a part to make the whole; the share is 1 or just below the limit by default.

    Both are loadings, a column for each variable. A given share must not be above the limit.
    """
    cosines, sines, right, limit = _stacked(whole, part)
    taken = min(1.0, limit / (1 + MARGIN)) if share is None else share
    left = np.clip(np.square(cosines) - taken**2 * np.square(sines), 0, None)
    return Completion(generalised_qr(np.sqrt(left)[:, None] * right).loadings, taken, limit)


def _stacked(whole: Array, part: Array) -> tuple[Array, Array, Array, float]:
    """Cosines and sines of both matrices in common directions, these directions, and the largest share.

    W'W = M' diag(c²) M and G'G = M' diag(s²) M, found without squaring a matrix. Where G is much larger or smaller than
    W it is brought to its size first, as the smaller of the two would be taken for round-off.
    """
    own, others = (np.linalg.norm(loadings, axis=0) for loadings in (whole, part))
    scale = float(np.divide(others, own, out=np.zeros_like(own), where=own > 0).max(initial=0.0)) or 1.0
    both = np.vstack([whole, part / scale])
    units = np.linalg.norm(both, axis=0)
    units = np.where(units > 0, units, 1.0)
    left, lengths, right = np.linalg.svd(both / units, full_matrices=False)
    rank = int(np.count_nonzero(lengths > RANK_TOLERANCE * lengths[:1])) if lengths.size else 0
    left, right = left[:, :rank], lengths[:rank, None] * right[:rank] * units
    _, cosines, directions = np.linalg.svd(left[: whole.shape[0]])
    cosines = np.concatenate([cosines, np.zeros(rank - cosines.size)])
    sines = np.linalg.norm(left[whole.shape[0] :] @ directions.T, axis=0)
    bounds = cosines[sines > NO_SHARE] / sines[sines > NO_SHARE]
    limit = float(bounds.min()) if bounds.size else np.inf
    return cosines, scale * sines, directions @ right, 0.0 if limit < NO_SHARE else limit / scale
