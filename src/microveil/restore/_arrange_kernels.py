"""The compiled loop of the arrangement. Importing this module imports numba and compiles or loads the loop."""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from microveil.core.compiled import compiled

_features = types.float32[:, ::1]
_gradient = types.float64[:, ::1]
_readonly_matrix = types.Array(types.float64, 2, "C", readonly=True)
_readonly_matrices = types.Array(types.float64, 3, "C", readonly=True)
_readonly_weights = types.Array(types.float64, 1, "C", readonly=True)
_readonly_marks = types.Array(types.uint8, 2, "C", readonly=True)
_readonly_places = types.Array(types.int64, 2, "C", readonly=True)

Loss = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]

TOURNAMENT = 16
"""Rows from which the farthest out is chosen."""


@njit(inline="always")
def next_state(state: np.uint64) -> np.uint64:
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
    features: NDArray[np.float32], place: int, start: int, size: int, state: np.uint64
) -> tuple[np.uint64, int]:
    """Of some random rows of the block, the one with the feature farthest out; and the random state after it."""
    state = next_state(state)
    best = start + _below(state, size)
    for _ in range(TOURNAMENT - 1):
        state = next_state(state)
        rival = start + _below(state, size)
        if abs(features[rival, place]) > abs(features[best, place]):
            best = rival
    return state, best


@njit(inline="always")
def _proposal(
    features: NDArray[np.float32], moving: NDArray[np.int64], values: int, start: int, size: int, state: np.uint64
) -> tuple[np.uint64, int, int, int]:
    """The random state before them, a moving column and two rows of the block of `size` rows from `start` on.

    `moving` (columns x 3) has the place of each column (-1 for labels) among the `values` first features.
    """
    state = next_state(state)
    column = _below(state, moving.shape[0])
    state = next_state(state)
    one = start + _below(state, size)
    state = next_state(state)
    other = start + _below(state, size)
    if state & np.uint64(1) and moving[column, 0] >= 0:
        # Few values far out decide about moments: every other time, such a one is tried ...
        state, one = _far_out(features, moving[column, 0], start, size, state)
        state = next_state(state)
        if state & np.uint64(1):
            # ... and half of these times in a row that is far out in another column.
            state = next_state(state)
            state, other = _far_out(features, _below(state, values), start, size, state)
    return state, column, one, other


@njit(inline="always")
def _improves(
    features: NDArray[np.float32],
    weights: NDArray[np.float64],
    rows: tuple[int, int],
    own: NDArray[np.int64],
    loss: Loss,
    change: NDArray[np.float64],
    scaled: NDArray[np.float64],
) -> bool:
    """Does the loss fall if two rows exchange their features in the places `own`?

    Those of an amount are one of each whitened layer. Fills `change` (features) with the difference of the rows and, if
    the first term does not decide against it, `scaled` (layers x values) with T^-1 d for the whitened layers.
    """
    (one, other), (inverse, gradient, fitted, emphasis) = rows, loss
    first, second = weights[one], weights[other]
    values = inverse.shape[1]
    for q in range(features.shape[1]):
        change[q] = first * features[one, q] - second * features[other, q]
    for p in own:
        change[p] = 0.0
    slope = 0.0
    whitened = own[0] < values
    for p in own:
        old, new = np.float64(features[one, p]), np.float64(features[other, p])
        if new == old:
            continue
        along = 0.0
        for q in range(features.shape[1]):
            along += gradient[p, q] * change[q]
        slope += (new - old) * along
        if whitened:  # its own variance changes only where the rows have different weights
            slope += gradient[p, p] * 0.5 * (new**2 - old**2) * (first - second)
    if slope >= 0.0:
        return False
    curve = 0.0
    for at, p in enumerate(own):
        old, new = np.float64(features[one, p]), np.float64(features[other, p])
        if new == old:
            if whitened:
                for k in range(values):
                    scaled[at, k] = 0.0
            continue
        along = 0.0
        for q in range(features.shape[1]):
            along += fitted[p, q] * change[q] * change[q]
        curve += (new - old) ** 2 * along
        if whitened:
            column, step, shift = p - at * values, new - old, at * values
            itself = 0.5 * (new**2 - old**2) * (first - second)
            along = 0.0
            for k in range(values):
                total = inverse[at, k, column] * itself
                for h in range(values):
                    total += inverse[at, k, h] * step * change[shift + h]
                scaled[at, k] = total
                along += total * (itself if k == column else step * change[shift + k])
            curve += emphasis[at] * (scaled[at, column] ** 2 + inverse[at, column, column] * along)
    return bool(2.0 * slope + curve < 0.0)


@njit(inline="always")
def _exchanged(
    features: NDArray[np.float32],
    rows: tuple[int, int],
    own: NDArray[np.int64],
    loss: Loss,
    change: NDArray[np.float64],
    scaled: NDArray[np.float64],
) -> None:
    """Exchange the features of two rows in the places `own`, and bring the gradient up to date."""
    (one, other), (inverse, gradient, fitted, emphasis) = rows, loss
    values = inverse.shape[1]
    whitened = own[0] < values
    for at, p in enumerate(own):
        old, new = features[one, p], features[other, p]
        features[one, p], features[other, p] = new, old
        step = np.float64(new) - np.float64(old)
        if step == 0.0:
            continue
        for q in range(features.shape[1]):
            moved = fitted[p, q] * step * change[q]
            gradient[p, q] += moved
            gradient[q, p] += moved
        if whitened:
            column, shift = p - at * values, at * values
            for k in range(values):
                left, right = emphasis[at] * inverse[at, k, column], emphasis[at] * scaled[at, k]
                for h in range(values):
                    gradient[shift + k, shift + h] += left * scaled[at, h] + right * inverse[at, column, h]


@compiled(
    types.int64(
        _features,
        _readonly_weights,
        _readonly_marks,
        _readonly_places,
        types.Tuple((_readonly_matrices, _gradient, _readonly_matrix, _readonly_weights)),  # type: ignore[no-untyped-call]  # numba
        types.Array(types.int64, 1, "C"),
        types.uint64,
    ),
    reassociate=True,
)
def exchange(
    features: NDArray[np.float32],
    weights: NDArray[np.float64],
    marks: NDArray[np.uint8],
    moving: NDArray[np.int64],
    loss: Loss,
    starts: NDArray[np.int64],
    seed: int,
) -> int:
    """One proposal per cell: two rows of a block exchange their values of a column if that brings the moments nearer.

    Args:
        features: rows x features; first the layers, each with a feature of every column of numbers, then the levels of
            labels.
        weights: one for each row; they add up to one.
        marks: rows x moving columns, or no rows: cells with different marks (present, missing) exchange nothing.
        moving: for each column that moves its place in the layers (-1 for labels), and the first and last (exclusive)
            level of labels.
        loss: of the layers T^-1 (layers x values x values); the gradient (features x features), which is kept up to
            date; which other moments are fitted (features x features, weights); the emphasis of the layers.
        starts: where blocks of rows that exchange values among themselves start, and the number of rows at the end.
        seed: of the proposals.

    With T the target and E the error of the second moments the loss is half of trace(T^-1 E T^-1 E) within each layer,
    times its emphasis, plus the squares of E between other features, times what `fitted` says. For an
    exchange that changes E by u v' (u: own features, v: the others) the loss changes by 2 u'Gv plus a term that is
    never negative; so the first alone decides against half of the proposals. Returns the number of exchanges.
    """
    values = loss[0].shape[1]
    change, scaled = np.empty(features.shape[1]), np.zeros(loss[0].shape[:2])
    places = np.empty(features.shape[1], np.int64)
    state = np.uint64(seed) | np.uint64(1)
    done = 0
    for number in range(starts.size - 1):
        start = starts[number]
        size = starts[number + 1] - start
        if size < 2:
            continue
        for _ in range(size * moving.shape[0]):
            state, column, one, other = _proposal(features, moving, values, start, size, state)
            if marks.shape[0] > 0 and marks[one, column] != marks[other, column]:
                continue
            value, first, last = moving[column]
            length = loss[0].shape[0] if value >= 0 else last - first
            if length == 0 or (value >= 0 and features[one, value] == features[other, value]):
                continue
            for at in range(length):
                places[at] = at * values + value if value >= 0 else first + at
            own = places[:length]
            if not _improves(features, weights, (one, other), own, loss, change, scaled):
                continue
            done += 1
            _exchanged(features, (one, other), own, loss, change, scaled)
    return done
