"""Missing cells: filled in for the decomposition, blank again in the release.

1. Before: each missing cell gets a draw from the normal distribution given the cells present in its row, with
   moments from complete pairs. (A conditional mean would do for the components, but would pull their spread
   together, and that of the release with it.)
2. After: the cells that were missing are blanked, whatever they hold now.
3. What analysts compute from such a file are means over the cells present and covariances over complete pairs.
   `recalibrated` makes exactly these come back: column by column, a column gets a small multiple of the columns
   before it, a factor and a shift, as many unknowns as there are moments to meet.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from microveil.core.linalg import regression_slopes
from microveil.core.moments import Array, PairMoments, pair_moments
from microveil.core.rng import Streams

Mask = NDArray[np.bool_]


def completed(values: Array, present: Mask, streams: Streams, stratum: int) -> Array:
    """The table without holes."""
    pairs = pair_moments(values, present)
    scale = np.where(pairs.sd > 0, pairs.sd, 1.0)
    correlation = _nearest_correlation(np.nan_to_num(pairs.covariance / np.outer(scale, scale)))
    filled = np.where(present, (values - pairs.mean) / scale, 0.0)
    luck = np.zeros_like(filled)
    for j in np.flatnonzero(~present.all(axis=0)):
        luck[:, j] = streams.stream("missing", stratum, int(j)).normal(values.shape[0])
    patterns, which = np.unique(present, axis=0, return_inverse=True)
    for number, there in enumerate(patterns):
        if there.all():
            continue
        rows = np.flatnonzero(which.ravel() == number)
        slopes = regression_slopes(correlation[np.ix_(there, there)], correlation[np.ix_(there, ~there)])
        left = correlation[np.ix_(~there, ~there)] - correlation[np.ix_(~there, there)] @ slopes
        spread, directions = np.linalg.eigh(left)
        root = directions * np.sqrt(np.clip(spread, 0, None))
        filled[np.ix_(rows, ~there)] = filled[np.ix_(rows, there)] @ slopes + luck[np.ix_(rows, ~there)] @ root.T
    return np.where(present, values, pairs.mean + filled * scale)


def _nearest_correlation(matrix: Array) -> Array:
    """Correlations from different rows need not fit together; clip what is negative, restore the diagonal."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    clipped = (vectors * np.clip(values, 1e-12, None)) @ vectors.T
    scale = np.sqrt(np.diagonal(clipped))
    nearest: Array = clipped / np.outer(scale, scale)
    return nearest


def with_means(values: Array, present: Mask, target: PairMoments, weights: Array | None) -> Array:
    """The table shifted, column by column, to the mean over the cells present that it had."""
    now = pair_moments(values, present, weights=weights)
    return values + (target.mean - now.mean)


def recalibrated(values: Array, present: Mask, target: PairMoments, weights: Array | None) -> Array:
    """The table with means over cells present and covariances over complete pairs as in `target`.

    Columns with the fewest holes go first and move least. Where no real factor meets a variance (covariances
    from different rows can contradict each other) the nearest is taken; what was reached is measured later.
    """
    scale = np.where(target.sd > 0, target.sd, 1.0)
    work = (values - target.mean) / scale
    weight = np.ones(values.shape[0]) if weights is None else weights
    done: list[int] = []
    for k in np.argsort(-present.sum(axis=0), kind="stable").tolist():
        aims = target.covariance[done, k] / (scale[done] * scale[k]), target.covariance[k, k] / scale[k] ** 2
        work[:, k] = _column(work[:, done], present[:, done], work[:, k], present[:, k], aims, weight)
        done.append(k)
    return work * scale + target.mean


def _column(
    others: Array, others_there: Mask, column: Array, there: Mask, aims: tuple[Array, float], weight: Array
) -> Array:
    """`others @ a + factor * column + shift` with the covariances and the variance aimed at, and mean zero."""
    covariances, variance = aims
    pair = others_there & there[:, None]
    pair_weight = pair * weight[:, None]
    totals = pair_weight.sum(axis=0)
    means = (pair_weight * np.where(pair, others, 0)).sum(axis=0) / totals
    probes = pair_weight * np.where(pair, others - means, 0) / totals
    base, tilt = _solved(probes.T @ others, covariances, -(probes.T @ column))
    fixed, moving = others @ base, column + others @ tilt
    factor = _factor(_variances(fixed, moving, there, weight), variance)
    new = fixed + factor * moving
    result: Array = new - (weight * there) @ np.where(there, new, 0) / (weight @ there)
    return result


def _solved(matrix: Array, *right: Array) -> list[Array]:
    if matrix.shape[0] == 0:
        return [np.zeros(0) for _ in right]
    return list(np.linalg.lstsq(matrix, np.column_stack(right), rcond=None)[0].T)


def _variances(fixed: Array, moving: Array, there: Mask, weight: Array) -> tuple[float, float, float]:
    """Variance of `moving`, its covariance with `fixed`, and the variance of `fixed`, over the cells present."""
    w = weight[there] / weight[there].sum()
    f, m = fixed[there] - w @ fixed[there], moving[there] - w @ moving[there]
    return float(w @ (m * m)), float(w @ (m * f)), float(w @ (f * f))


def _factor(parts: tuple[float, float, float], variance: float) -> float:
    """The root nearest to 1 of `q2 t² + 2 q1 t + q0 = variance`; where there is none, the point nearest to one."""
    q2, q1, q0 = parts
    if q2 <= 0:
        return 1.0
    inside = q1 * q1 - q2 * (q0 - variance)
    if inside <= 0:
        return -q1 / q2
    roots = ((-q1 + np.sqrt(inside)) / q2, (-q1 - np.sqrt(inside)) / q2)
    return float(min(roots, key=lambda root: abs(root - 1)))
