"""A population and its releases, for tests of the regression family."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import microveil as mv

Array = NDArray[np.float64]


ROWS, WIDTH = 300, 4


def population(seed: int = 0, rows: int = ROWS, condition: float = 1.0, offset: float = 0.0) -> tuple[Array, Array]:
    """Confidential columns with a condition number, and public ones they follow."""
    rng = np.random.default_rng(seed)
    x = rng.lognormal(size=(rows, 2))
    left, _ = np.linalg.qr(rng.standard_normal((rows, WIDTH)))
    right, _ = np.linalg.qr(rng.standard_normal((WIDTH, WIDTH)))
    y = left * np.geomspace(1, 1 / condition, WIDTH) * np.sqrt(rows) @ right
    return y + x @ rng.standard_normal((2, WIDTH)) / condition + offset, x


def masked(y: Array, seed: int = 5) -> Array:
    """What another masker might have made of it."""
    return y + 0.3 * y.std(axis=0) * np.random.default_rng(seed).standard_normal(y.shape)


def released(method: str, y: Array, x: Array | None, **given: Any) -> tuple[mv.Release, Array]:
    data = y if x is None else np.hstack([y, x])
    width = y.shape[1]
    public = list(range(width, data.shape[1])) or None
    release = mv.protect(data, method, confidential=list(range(width)), public=public, rules=None, **given)
    return release, release.data[:, :width]


def residuals(y: Array, x: Array) -> Array:
    design = np.column_stack([np.ones(len(y)), x])
    basis, _ = np.linalg.qr(design)
    left = y - basis @ (basis.T @ y)
    return left - basis @ (basis.T @ left)


def relative(new: Array, old: Array, left: Array, right: Array) -> float:
    """Difference of cross-products, over the norms of what was multiplied."""
    norms = np.outer(np.linalg.norm(left, axis=0), np.linalg.norm(right, axis=0))
    return float((np.abs(new - old) / norms).max())
