"""The compiled loop of the arrangement. Importing this module imports numba and compiles or loads the loop."""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from microveil.core.compiled import compiled

_features = types.float32[:, :, ::1]
_matrices = types.float64[:, :, ::1]
_readonly_matrices = types.Array(types.float64, 3, "C", readonly=True)
_readonly_weights = types.Array(types.float64, 1, "C", readonly=True)
_readonly_marks = types.Array(types.uint8, 2, "C", readonly=True)


TOURNAMENT = 16
"""Rows from which the farthest out is chosen."""


@njit(inline="always")
def _next(state: np.uint64) -> np.uint64:
    """Marsaglia's xorshift: the search needs variety, not secrecy; its start comes from the secret stream."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    return state


@njit(inline="always")
def _below(state: np.uint64, bound: int) -> int:
    """A number in 0 ... bound-1 from the upper half of the state, by Lemire's multiplication."""
    return int(((state >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32))


@njit(inline="always")
def _far_out(
    features: NDArray[np.float32], column: int, start: int, size: int, state: np.uint64
) -> tuple[np.uint64, int]:
    """Of some random rows of the block, the one with the value farthest out; and the random state after it."""
    state = _next(state)
    best = start + _below(state, size)
    for _ in range(TOURNAMENT - 1):
        state = _next(state)
        rival = start + _below(state, size)
        if abs(features[rival, 0, column]) > abs(features[best, 0, column]):
            best = rival
    return state, best


@njit(inline="always")
def _proposal(
    features: NDArray[np.float32], fixed: int, start: int, size: int, state: np.uint64
) -> tuple[np.uint64, int, int, int]:
    """A moving column and two rows of the block of `size` rows from `start` on; and the random state before them."""
    width = features.shape[2]
    state = _next(state)
    column = fixed + _below(state, width - fixed)
    state = _next(state)
    one = start + _below(state, size)
    state = _next(state)
    other = start + _below(state, size)
    if state & np.uint64(1):
        # Few values far out decide about moments: every other time, such a one is tried ...
        state, one = _far_out(features, column, start, size, state)
        state = _next(state)
        if state & np.uint64(1):
            # ... and half of these times in a row that is far out in another column.
            state = _next(state)
            state, other = _far_out(features, _below(state, width), start, size, state)
    return state, column, one, other


@njit(inline="always")
def _improves(
    features: NDArray[np.float32],
    weights: NDArray[np.float64],
    rows: tuple[int, int],
    column: int,
    loss: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]],
    change: NDArray[np.float64],
    scaled: NDArray[np.float64],
) -> bool:
    """Does the loss fall if two rows exchange their values of a column?

    Fills `change` (layers x columns) with d and, if the first term does not decide against it, `scaled` with T^-1 d.
    """
    (one, other), (inverse, gradient, emphasis) = rows, loss
    layers, width = change.shape
    first, second = weights[one], weights[other]
    slope, curve = 0.0, 0.0
    for layer in range(layers):
        old, new = features[one, layer, column], features[other, layer, column]
        step = np.float64(new) - np.float64(old)
        for k in range(width):
            change[layer, k] = step * (first * features[one, layer, k] - second * features[other, layer, k])
        # The column's own variance changes only where the rows have different weights.
        change[layer, column] = 0.5 * (np.float64(new) ** 2 - np.float64(old) ** 2) * (first - second)
        along = 0.0
        for k in range(width):
            along += gradient[layer, column, k] * change[layer, k]
        slope += emphasis[layer] * along
    for layer in range(layers if slope < 0.0 else 0):
        along = 0.0
        for k in range(width):
            total = 0.0
            for h in range(width):
                total += inverse[layer, k, h] * change[layer, h]
            scaled[layer, k] = total
            along += total * change[layer, k]
        curve += emphasis[layer] * (scaled[layer, column] ** 2 + inverse[layer, column, column] * along)
    return bool(slope < 0.0 and 4.0 * slope + 2.0 * curve < 0.0)


@compiled(
    types.int64(
        _features,
        _readonly_weights,
        _readonly_marks,
        types.int64,
        types.Tuple((_readonly_matrices, _matrices, _readonly_weights)),  # type: ignore[no-untyped-call]
        types.int64,
        types.uint64,
    )
)
def exchange(
    features: NDArray[np.float32],
    weights: NDArray[np.float64],
    marks: NDArray[np.uint8],
    fixed: int,
    loss: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]],
    block: int,
    seed: int,
) -> int:
    """One proposal per cell: two rows of a block exchange their values of a column if that brings the moments nearer.

    `features` is rows x layers x columns, of which the `fixed` first columns stay; `weights` (rows) add up to one. With
    T the target and E the error of a layer's second moments, the loss is the sum over layers of trace(T^-1 E T^-1 E)
    times the layer's emphasis. `loss` holds T^-1 and the gradient T^-1 E T^-1 (layers x columns x columns), which is
    kept up to date, and the emphasis (layers). Exchanging changes row and column j of E by a vector d, and the loss by
    4 (gradient d)_j + 2 (T^-1 d)_j^2 + 2 (T^-1)_jj d'T^-1 d. The last two are never negative, so the first alone
    decides against half of the proposals. Cells with different `marks` (present and missing; rows x moving columns, or
    no rows) do not exchange values, and only rows of a block do, because these fit in the cache. Returns the number of
    exchanges.
    """
    rows, layers, width = features.shape
    inverse, gradient, _ = loss
    change, scaled = np.empty((layers, width)), np.empty((layers, width))
    state = np.uint64(seed) | np.uint64(1)
    done = 0
    for start in range(0, rows, block):
        size = min(block, rows - start)
        if size < 2:
            continue
        for _ in range(size * (width - fixed)):
            state, column, one, other = _proposal(features, fixed, start, size, state)
            if features[one, 0, column] == features[other, 0, column]:
                continue
            if marks.shape[0] > 0 and marks[one, column - fixed] != marks[other, column - fixed]:
                continue
            if not _improves(features, weights, (one, other), column, loss, change, scaled):
                continue
            done += 1
            for layer in range(layers):
                kept = features[one, layer, column]
                features[one, layer, column] = features[other, layer, column]
                features[other, layer, column] = kept
                for k in range(width):
                    for h in range(width):
                        gradient[layer, k, h] += (
                            inverse[layer, k, column] * scaled[layer, h] + scaled[layer, k] * inverse[layer, column, h]
                        )
    return done
