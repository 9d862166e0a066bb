"""Rotations of factors: orthogonal matrices T, such that L T says the same as the loadings L in other words.

(L T)(L T)' = L L', so a rotation changes neither what the factors explain nor the rest; it only decides which factor
speaks for which columns. Loadings are columns x factors.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from microveil.core.arrays import Array
from microveil.core.linalg import nearest_rotation

Rotation = Literal["none", "varimax", "sensitive_first", "public_first"]

ROUNDS = 500
SETTLED = 1e-10
"""Relative gain of the varimax criterion below which it has converged."""


def columns_first(loadings: Array, columns: list[int]) -> Array:
    """The rotation after which the first of the columns loads on the first factor only, the second on two, and so on.

    Calviño et al. (2017), §IV: "rotate all factors until only the first factor represents it", variable by variable.
    All those steps in one: with Q R the full QR decomposition of the columns' loadings, transposed, L Q has R' in their
    rows, which is lower triangular. Signs are such that its diagonal is not negative.
    """
    rotation, upper = np.linalg.qr(loadings[columns].T, mode="complete")
    negative = np.diagonal(upper) < 0
    rotation[:, : negative.size] *= np.where(negative, -1.0, 1.0)
    return rotation


def varimax(loadings: Array) -> Array:
    """The rotation that drives squared loadings apart, towards zero and one (Kaiser 1958, rows brought to unit length).

    Each round turns to the nearest rotation in the direction of steepest ascent, which never lowers the criterion.
    """
    count = loadings.shape[1]
    rotation = np.eye(count)
    if count < 2:
        return rotation
    length = np.sqrt(np.square(loadings).sum(axis=1, keepdims=True))
    rows = loadings / np.where(length > 0, length, 1.0)
    reached = -np.inf
    for _ in range(ROUNDS):
        turned = rows @ rotation
        ascent = rows.T @ (turned**3 - turned * np.square(turned).mean(axis=0))
        rotation = nearest_rotation(ascent)
        now = varimax_criterion(rows @ rotation)
        if now <= reached + SETTLED * abs(now):
            break
        reached = now
    return rotation * _signs(loadings @ rotation)


def varimax_criterion(loadings: Array) -> float:
    """The variance of the squared loadings, summed over the factors."""
    return float(np.square(loadings).var(axis=0).sum())


def _signs(loadings: Array) -> Array:
    """1 or -1 for each factor, so that its largest loading is positive."""
    largest = loadings[np.abs(loadings).argmax(axis=0), np.arange(loadings.shape[1])]
    return np.where(largest < 0, -1.0, 1.0)
