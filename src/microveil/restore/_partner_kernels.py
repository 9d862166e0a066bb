"""Compiled steps that choose which rows of a block might exchange their values, for `_arrange_kernels`.

They are compiled into the loops that use them. Numba keeps a loop by the date of its own file: after a change here,
`_arrange_kernels.py` has to be saved anew.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Loss = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]
Block = tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32], NDArray[np.float32], NDArray[np.uint8]]
"""Rows of a block in a random order; their features in that order (features x rows) and slopes of some (places x rows);
their weights; marks of the cells of a column, or none."""

RUN = 64
"""Neighbours in a random order of a block's rows, of which one is chosen as the partner of an exchange. They are looked
at together, which takes as long as a few that are drawn one by one."""

EVERY, SMALL_EVERY = 8, 2
"""One row in so many looks for a partner in each pass: the best of many exchanges are enough. In a table of one block
each counts."""

LEAST_RUNS = 4
"""A run is not longer than this part of a block: where all rows are looked at, the same one might be chosen in vain
again and again."""

MANY_ROWS = 256
"""Rows of a block from which on an exchange that promises nothing is not looked at: what it promises is an average."""

TOURNAMENT = 16
"""Rows from which the farthest out is chosen."""

PAD = 16
"""Numbers between the rows of a block's features on end: with a power of two from one to the next, they would all share
a few lines of the cache."""

FAST = {"reassoc", "contract", "nsz"}


@njit(inline="always")
def next_state(state: np.uint64) -> np.uint64:
    """Marsaglia's xorshift: the search needs variety, not secrecy; its start comes from the secret stream."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    return state


@njit(inline="always")
def below(state: np.uint64, bound: int) -> int:
    """A number in 0 ... bound-1 from the upper half of the state, by Lemire's multiplication."""
    return np.int64(((state >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32))  # type: ignore[return-value]


@njit(inline="always")
def turn(
    features: NDArray[np.float32], weights: NDArray[np.float64], start: int, size: int, block: Block, state: np.uint64
) -> np.uint64:
    """Put the features of a block's rows on end, in a random order; the random state after it."""
    order, turned, _, heavy, _ = block
    for at in range(size):
        order[at] = start + at
    for at in range(size - 1, 0, -1):
        state = next_state(state)
        other = below(state, at + 1)
        order[at], order[other] = order[other], order[at]
    for at in range(size):
        row = order[at]
        heavy[at] = weights[row]
        for q in range(features.shape[1]):
            turned[q, at] = features[row, q]
    return state


@njit(inline="always")
def far_out(feature: NDArray[np.float32], size: int, state: np.uint64) -> int:
    """Of some neighbours in the random order, the one with the feature farthest out."""
    first = below(state, max(size - TOURNAMENT, 0) + 1)
    best = first
    for at in range(first, min(first + TOURNAMENT, size)):
        if abs(feature[at]) > abs(feature[best]):
            best = at
    return best


@njit(inline="never", fastmath=FAST)
def fill_slopes(size: int, own: NDArray[np.int64], gradient: NDArray[np.float64], block: Block) -> None:
    """Fill the slopes of a block with what the loss would gain by more of each of the features `own`, twice."""
    _, turned, slopes, heavy, _ = block
    width = turned.shape[0]
    along = np.empty(width, np.float32)
    for at in range(own.size):
        for q in range(width):
            along[q] = 2.0 * gradient[at, q]
        for p in own:
            along[p] = 0.0
        total = slopes[at]
        for row in range(size):
            total[row] = 0.0
        for q in range(0, width - 3, 4):
            a, b, c, d = along[q], along[q + 1], along[q + 2], along[q + 3]
            f, g, h, i = turned[q], turned[q + 1], turned[q + 2], turned[q + 3]
            for row in range(size):
                total[row] += a * f[row] + b * g[row] + c * h[row] + d * i[row]
        for q in range(width - width % 4, width):
            a, f = along[q], turned[q]
            for row in range(size):
                total[row] += a * f[row]
        for row in range(size):
            total[row] *= heavy[row]


@njit(inline="always")
def fill_curvature(size: int, own: NDArray[np.int64], loss: Loss, curvature: NDArray[np.float32]) -> None:
    """Fill `curvature` (places) with what the second term of the change of the loss is on average.

    It is in units of the squares of the step and of the weights: rows differ by T twice, so d'T^-1 d is their number.
    In blocks of few rows it is left out.
    """
    inverse, _, fitted, emphasis = loss
    values = inverse.shape[1]
    for at, p in enumerate(own):
        curvature[at] = 0.0
        for q in range(fitted.shape[0] if size >= MANY_ROWS else 0):
            curvature[at] += fitted[p, q]
        if own[0] < values and emphasis[at] > 0.0 and size >= MANY_ROWS:
            column = p - at * values
            curvature[at] += emphasis[at] * inverse[at, column, column] * (values + 1)


@njit(inline="never", fastmath=FAST)
def best_of_run(
    block: Block,
    own: NDArray[np.int64],
    bends: tuple[NDArray[np.float32], NDArray[np.float32], bool],
    one: int,
    run: tuple[int, int],
    gains: NDArray[np.float32],
) -> int:
    """Of a run of rows the one that promises most as the partner of a row, by slopes that are known; or -1.

    `bends` are the curvature of each place, the gradient by its own variance, and whether rows have different weights:
    then variances move.
    """
    (first, last), (_, turned, slopes, heavy, marks), (curvature, variance, weighted) = run, block, bends
    size, weight = last - first, heavy[one]
    for k in range(size):
        gains[k] = 0.0
    for at in range(own.size):
        feature, slope = turned[own[at], first:last], slopes[at, first:last]
        mine, up, curve = turned[own[at], one], slopes[at, one], curvature[at] * weight * weight
        if not weighted:
            for k in range(size):
                step = feature[k] - mine
                gains[k] += step * (up - slope[k] + np.float32(2.0) * curve * step)
        else:
            other, moves = heavy[first:last], variance[at]
            for k in range(size):
                step = feature[k] - mine
                bend = curvature[at] * (weight * weight + other[k] * other[k]) * step
                gains[k] += step * (up - slope[k] + bend + moves * (feature[k] + mine) * (weight - other[k]))
    best, least = -1, np.float32(0.0)
    for k in range(size):
        if gains[k] < least and (marks.size == 0 or marks[first + k] == marks[one]):
            best, least = first + k, gains[k]
    return best


@njit(inline="always")
def own_places(moving: NDArray[np.int64], column: int, layers: int, values: int, places: NDArray[np.int64]) -> int:
    """Fill `places` with the features of a moving column, one of each layer first; how many it has."""
    value, first = moving[column, 0], moving[column, 1]
    layered = layers if value >= 0 else 0
    for at in range(layered):
        places[at] = at * values + value
    for at in range(moving[column, 2] - first):
        places[layered + at] = first + at
    return int(layered + moving[column, 2] - first)
