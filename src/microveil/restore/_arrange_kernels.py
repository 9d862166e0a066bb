"""The compiled loop of the arrangement. Importing this module imports numba and compiles or loads the loop.

With T the target and E the error of the second moments the loss is half of trace(T^-1 E T^-1 E) within each layer,
times its emphasis, plus the squares of E between other features, times what `fitted` says. For an exchange that changes
E by u v' (u: own features, v: the others) the loss changes by 2 u'Gv plus a term that is never negative; so the first
alone chooses.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from microveil.core.compiled import compiled
from microveil.restore._partner_kernels import (
    EVERY,
    LEAST_RUNS,
    PAD,
    RUN,
    SMALL_EVERY,
    Block,
    Loss,
    below,
    best_of_run,
    far_out,
    fill_curvature,
    fill_slopes,
    next_state,
    own_places,
    turn,
)

WRONG = 64
"""Exchanges chosen in vain, after which the slopes of a block are looked at anew."""

_features = types.float32[:, ::1]
_gradient = types.float64[:, ::1]
_readonly_matrix = types.Array(types.float64, 2, "C", readonly=True)
_readonly_matrices = types.Array(types.float64, 3, "C", readonly=True)
_readonly_weights = types.Array(types.float64, 1, "C", readonly=True)
_readonly_marks = types.Array(types.uint8, 2, "C", readonly=True)
_readonly_places = types.Array(types.int64, 2, "C", readonly=True)


@njit(inline="always")
def _slope(
    features: NDArray[np.float32],
    weights: NDArray[np.float64],
    rows: tuple[int, int],
    own: NDArray[np.int64],
    gradient: NDArray[np.float64],
    change: NDArray[np.float64],
) -> float:
    """The first term of the change of the loss, if two rows exchange their features in the places `own`.

    Fills `change` (features) with the difference of the rows in all other places.
    """
    one, other = rows
    first, second = weights[one], weights[other]
    for q in range(features.shape[1]):
        change[q] = first * features[one, q] - second * features[other, q]
    for p in own:
        change[p] = 0.0
    slope = 0.0
    for at, p in enumerate(own):
        old, new = np.float64(features[one, p]), np.float64(features[other, p])
        if new == old:
            continue
        along = 0.0
        for q in range(features.shape[1]):
            along += gradient[at, q] * change[q]
        # Its own variance changes only where the rows have different weights.
        slope += (new - old) * along + gradient[at, p] * 0.5 * (new**2 - old**2) * (first - second)
    return slope


@njit(inline="always")
def _improves(
    features: NDArray[np.float32],
    weights: NDArray[np.float64],
    rows: tuple[int, int],
    own: NDArray[np.int64],
    gradient: NDArray[np.float64],
    loss: Loss,
    change: NDArray[np.float64],
    scaled: NDArray[np.float64],
) -> bool:
    """Does the loss fall if two rows exchange their features in the places `own`, whose `gradient` is given?

    Those of an amount are one of each whitened layer. Fills `change` (features) with the difference of the rows and, if
    the first term does not decide against it, `scaled` (layers x values) with T^-1 d for the whitened layers.
    """
    (one, other), (inverse, _, fitted, emphasis) = rows, loss
    first, second = weights[one], weights[other]
    values = inverse.shape[1]
    slope = _slope(features, weights, rows, own, gradient, change)
    if slope >= 0.0:
        return False
    curve = 0.0
    for at, p in enumerate(own):
        old, new = np.float64(features[one, p]), np.float64(features[other, p])
        step, along = new - old, 0.0
        if step != 0.0:
            for q in range(features.shape[1]):
                along += fitted[p, q] * change[q] * change[q]
            curve += step**2 * along
        if own[0] < values and emphasis[at] > 0.0:
            column, shift = p - at * values, at * values
            change[p] = 0.5 * (new + old) * (first - second)
            for k in range(values):
                scaled[at, k] = 0.0
            for h in range(values):
                for k in range(values):
                    scaled[at, k] += step * change[shift + h] * inverse[at, h, k]
            along = 0.0
            for k in range(values):
                along += scaled[at, k] * change[shift + k]
            curve += emphasis[at] * (scaled[at, column] ** 2 + inverse[at, column, column] * step * along)
    return bool(2.0 * slope + curve < 0.0)


@njit(inline="always")
def _exchanged(
    features: NDArray[np.float32],
    rows: tuple[int, int],
    own: NDArray[np.int64],
    gradient: NDArray[np.float64],
    moved: NDArray[np.float64],
    loss: Loss,
    change: NDArray[np.float64],
    scaled: NDArray[np.float64],
) -> None:
    """Exchange the features of two rows in the places `own`; bring up to date their gradient, and what `moved`."""
    (one, other), (inverse, _, fitted, emphasis) = rows, loss
    values = inverse.shape[1]
    for at, p in enumerate(own):
        old, new = features[one, p], features[other, p]
        features[one, p], features[other, p] = new, old
        step = np.float64(new) - np.float64(old)
        if step == 0.0:
            continue
        for q in range(features.shape[1]):
            moved[at, q] += step * change[q]
            gradient[at, q] += fitted[p, q] * step * change[q]
        if own[0] < values and emphasis[at] > 0.0:
            column, shift = p - at * values, at * values
            left, right = emphasis[at] * inverse[at, column, column], emphasis[at] * scaled[at, column]
            for h in range(values):
                gradient[at, shift + h] += left * scaled[at, h] + right * inverse[at, column, h]


@njit(inline="always")
def _settle(own: NDArray[np.int64], moved: NDArray[np.float64], loss: Loss, scaled: NDArray[np.float64]) -> None:
    """Bring the gradient of everything up to date, after the moments of a column's places `own` have moved."""
    inverse, gradient, fitted, emphasis = loss
    values = inverse.shape[1]
    for at, p in enumerate(own):
        for q in range(gradient.shape[0]):
            gradient[p, q] += fitted[p, q] * moved[at, q]
            gradient[q, p] += fitted[p, q] * moved[at, q]
        if own[0] < values and emphasis[at] > 0.0:
            column, shift = p - at * values, at * values
            for k in range(values):
                scaled[at, k] = 0.0
                for h in range(values):
                    scaled[at, k] += inverse[at, k, h] * moved[at, shift + h]
            for k in range(values):
                left, right = emphasis[at] * inverse[at, k, column], emphasis[at] * scaled[at, k]
                for h in range(values):
                    gradient[shift + k, shift + h] += left * scaled[at, h] + right * inverse[at, column, h]


@njit(inline="always")
def _begin(own: NDArray[np.int64], loss: Loss, gradient: NDArray[np.float64], moved: NDArray[np.float64]) -> None:
    """Begin with a column: its gradient as it is now, and nothing `moved` yet."""
    for at in range(own.size):
        for q in range(gradient.shape[1]):
            gradient[at, q], moved[at, q] = loss[1][own[at], q], 0.0


@njit(inline="always")
def _room(
    width: int, layers: int, marks: NDArray[np.uint8], moving: NDArray[np.int64], starts: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], Block, NDArray[np.float32], NDArray[np.float32]]:
    """Room for what `exchange` keeps of a column, and of the largest block: made once for all of them.

    Args:
        width: how many features there are.
        layers: how many of them a column of numbers has in the layers.
        marks: as in `exchange`.
        moving: as in `exchange`.
        starts: as in `exchange`.

    Returns:
        The gradient and what was moved (features of a column x features), the block, and curvature and variance of the
        features of a column.
    """
    longest, largest = layers, 0
    for column in range(moving.shape[0]):
        longest = max(longest, layers + moving[column, 2] - moving[column, 1])
    for number in range(starts.size - 1):
        largest = max(largest, starts[number + 1] - starts[number])
    turned = np.empty((width, largest + PAD), np.float32)
    slopes, heavy = np.empty((longest, largest + PAD), np.float32), np.empty(largest, np.float32)
    order, mark = np.empty(largest, np.int64), np.empty(largest if marks.shape[0] > 0 else 0, np.uint8)
    gradient, moved = np.empty((longest, width)), np.empty((longest, width))
    block = order, turned, slopes, heavy, mark
    return gradient, moved, block, np.empty(longest, np.float32), np.empty(longest, np.float32)


@njit(inline="always")
def _differs(values: NDArray[np.float32]) -> bool:
    """Is there more than one value?"""
    first, differs = values[0], False
    for value in values:
        differs = differs or value != first
    return differs


@njit(inline="always")
def _swap(turned: NDArray[np.float32], own: NDArray[np.int64], one: int, other: int) -> None:
    """Two rows exchange their features of a column; `turned` is features x rows."""
    for p in own:
        turned[p, one], turned[p, other] = turned[p, other], turned[p, one]


@njit(inline="always")
def _fill_marks(marks: NDArray[np.uint8], column: int, order: NDArray[np.int64], mark: NDArray[np.uint8]) -> None:
    """The marks of a column in the order of the block; `mark` has no cells where there are none."""
    for at in range(mark.size):
        mark[at] = marks[order[at], column]


@njit(inline="always")
def _fill_variance(own: NDArray[np.int64], gradient: NDArray[np.float64], variance: NDArray[np.float32]) -> None:
    """The gradient of each feature of a column by itself."""
    for p in range(own.size):
        variance[p] = gradient[p, own[p]]


@compiled(
    types.Tuple((types.int64, types.int64))(  # type: ignore[no-untyped-call]  # numba
        _features,
        _readonly_weights,
        _readonly_marks,
        _readonly_places,
        types.Tuple((_readonly_matrices, _gradient, _readonly_matrix, _readonly_weights)),  # type: ignore[no-untyped-call]  # numba
        types.Array(types.int64, 1, "C"),
        types.Array(types.uint64, 1, "C", readonly=True),
        types.boolean,
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
    seeds: NDArray[np.uint64],
    small: bool,
) -> tuple[int, int]:
    """One pass over all cells: two rows of a block exchange their values of a column if that brings the moments nearer.

    The partner of a row is the one of some random rows of its block that promises most, by the gradient as it was when
    the column was begun, or since too many were chosen in vain.

    Args:
        features: rows x features; first the layers, each with a feature of every column of numbers, then the levels of
            labels.
        weights: one for each row; they add up to one.
        marks: rows x moving columns, or no rows: cells with different marks (present, missing) exchange nothing.
        moving: for each column that moves its place in the layers (-1 for labels), and the first and last (exclusive)
            of its levels, or of features that move along with a number.
        loss: of the layers T^-1 (layers x values x values); the gradient (features x features), which is kept up to
            date; which other moments are fitted (features x features, weights); the emphasis of the layers, then zeros
            for features that move along.
        starts: where blocks of rows that exchange values among themselves start, and the number of rows at the end.
        seeds: of the proposals, one for each block.
        small: are the rows of the table few? Then more of them look for a partner, and values far out more often.

    Returns the number of partners chosen, and of exchanges.
    """
    (layers, values), width = loss[0].shape[:2], features.shape[1]
    change, scaled, places = np.empty(width), np.zeros((layers, values)), np.empty(width, np.int64)
    gradient, moved, block, curvature, variance = _room(width, layers, marks, moving, starts)
    order, turned, _, heavy, mark = block
    gains = np.empty(RUN, np.float32)
    chosen = done = 0
    for number in range(starts.size - 1):
        start, size, state = starts[number], starts[number + 1] - starts[number], seeds[number] | np.uint64(1)
        if size < 2:
            continue
        state = turn(features, weights, start, size, block, state)
        run, every = max(min(RUN, size // LEAST_RUNS), 1), SMALL_EVERY if small else EVERY
        weighted = _differs(heavy[:size])
        for column in range(moving.shape[0]):
            value, length = moving[column, 0], own_places(moving, column, layers, values, places)
            if length == 0:
                continue
            own, before = places[:length], done
            _begin(own, loss, gradient, moved)
            fill_curvature(size, own, loss, curvature)
            _fill_marks(marks, column, order, mark[:size])
            wrong, fresh, state = 0, False, next_state(state)
            for at in range(below(state, every), size, every):
                if not fresh:
                    fill_slopes(size, own, gradient, block)
                    _fill_variance(own, gradient, variance)
                    wrong, fresh = 0, True
                state, one = next_state(state), at
                # In a small table few values far out decide about moments: every other time, such a one is tried.
                if small and value >= 0 and state & np.uint64(1):
                    one = far_out(turned[value], size, state)
                    state = next_state(state)
                first = below(state, size - run + 1)
                best = best_of_run(block, own, (curvature, variance, weighted), one, (first, first + run), gains)
                if best < 0:
                    continue
                chosen += 1
                rows = order[one], order[best]
                if _improves(features, weights, rows, own, gradient, loss, change, scaled):
                    done += 1
                    _exchanged(features, rows, own, gradient, moved, loss, change, scaled)
                    _swap(turned, own, one, best)
                else:
                    wrong += 1
                    fresh = wrong < WRONG
            if done > before:
                _settle(own, moved, loss, scaled)
    return chosen, done
