"""The compiled loops that bring rows within limits. Importing this module imports numba and compiles or loads them."""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from microveil.core.compiled import compiled
from microveil.restore._partner_kernels import next_state

_matrix = types.float64[:, ::1]
_vector = types.float64[::1]
_marks = types.uint8[:, ::1]
_places = types.int64[:, ::1]
_numbers = types.int64[::1]
_limits = types.Tuple((_matrix, _vector, _vector, _vector, _marks))  # type: ignore[no-untyped-call]  # numba
_moments = types.Tuple((types.float32[:, :, ::1], _matrix, types.float64[:, :, ::1]))  # type: ignore[no-untyped-call]  # numba
_order = types.Tuple((_places, _places, _numbers, _numbers))  # type: ignore[no-untyped-call]  # numba

Limits = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.uint8]]
"""Terms (limits x columns), bounds, round-off as a share of the size of the terms, the scale in which an excess counts,
and in which rows a limit can be seen (limits x rows, or no rows: in all)."""

Moments = tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.float64]]
"""Features (layers x rows x features, those of the columns first), weights of the rows (layers x rows), and how far the
second moments of the columns are off (layers x columns x features)."""

Order = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""Of some columns: rows in ascending order of it, where each row is in that order (-1: nowhere), both columns x rows;
how many rows are in the order, and the number of the column."""

STILL_BEYOND = 1e6
"""More than any change of moments costs."""


@njit(inline="always")
def _share(state: np.uint64) -> float:
    """A number from 0 to 1, 1 excluded."""
    return (state >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(inline="never")
def _over(columns: NDArray[np.float64], limits: Limits, k: int, row: int, column: int, value: float) -> float:
    """By how much a row is beyond a limit if it has a `value` of a `column` (-1: as it is); 0 if it is not."""
    terms, bounds, round_off, _, seen = limits
    if seen.shape[1] > 0 and seen[k, row] == 0:
        return 0.0
    total, size = -bounds[k], abs(bounds[k])
    for j in range(terms.shape[1]):
        if terms[k, j] != 0.0:
            part = terms[k, j] * (value if j == column else columns[j, row])
            total += part
            size += abs(part)
    return total if total > round_off[k] * size else 0.0


@njit(inline="never")
def _beyond(columns: NDArray[np.float64], limits: Limits, row: int, column: int, value: float) -> float:
    """How far a row is beyond all limits together."""
    total = 0.0
    for k in range(limits[0].shape[0]):
        total += limits[3][k] * _over(columns, limits, k, row, column, value)
    return total


@njit(inline="never")
def _cost(moments: Moments, j: int, one: int, other: int) -> float:
    """How the squared errors of moments change if two rows exchange column `j`."""
    features, weights, error = moments
    cost = 0.0
    for layer in range(features.shape[0]):
        first, second = weights[layer, one], weights[layer, other]
        step = np.float64(features[layer, other, j]) - np.float64(features[layer, one, j])
        for q in range(features.shape[2]):
            if q != j:
                change = step * (first * features[layer, one, q] - second * features[layer, other, q])
                cost += change * (2.0 * error[layer, j, q] + change)
        change = _own_change(features, layer, j, one, other) * (first - second)
        cost += change * (2.0 * error[layer, j, j] + change)
    return cost


@njit(inline="always")
def _own_change(features: NDArray[np.float32], layer: int, j: int, one: int, other: int) -> float:
    """By how much the square of a feature is larger in the other row: weights that differ make variances move."""
    return np.float64(features[layer, other, j]) ** 2 - np.float64(features[layer, one, j]) ** 2


@njit(inline="never")
def _exchange(columns: NDArray[np.float64], moments: Moments, order: Order, at: int, one: int, other: int) -> None:
    """Two rows exchange the column that is at this place of the order; moments and orders are brought up to date."""
    features, weights, error = moments
    sorted_rows, place, _, numbers = order
    j = numbers[at]
    for layer in range(features.shape[0]):
        first, second = weights[layer, one], weights[layer, other]
        step = np.float64(features[layer, other, j]) - np.float64(features[layer, one, j])
        for q in range(features.shape[2]):
            if q != j:
                change = step * (first * features[layer, one, q] - second * features[layer, other, q])
                error[layer, j, q] += change
                if q < columns.shape[0]:
                    error[layer, q, j] += change
        error[layer, j, j] += _own_change(features, layer, j, one, other) * (first - second)
        features[layer, one, j], features[layer, other, j] = features[layer, other, j], features[layer, one, j]
    columns[j, one], columns[j, other] = columns[j, other], columns[j, one]
    place[at, one], place[at, other] = place[at, other], place[at, one]
    sorted_rows[at, place[at, one]], sorted_rows[at, place[at, other]] = one, other


@njit(inline="never")
def _first_that_does(column: NDArray[np.float64], rows: NDArray[np.int64], size: int, wanted: float, up: bool) -> int:
    """The place in ascending order of the value nearest to a wanted one that is not below (`up`) or above it."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        value = column[rows[middle]]
        if value < wanted or (not up and value == wanted):
            low = middle + 1
        else:
            high = middle
    return low if up else low - 1


@njit(inline="never")
def _worst(columns: NDArray[np.float64], limits: Limits, row: int) -> int:
    """The limit that a row is farthest beyond; -1 if it is within all."""
    worst, most = -1, 0.0
    for k in range(limits[0].shape[0]):
        over = limits[3][k] * _over(columns, limits, k, row, -1, 0.0)
        if over > most:
            worst, most = k, over
    return worst


@compiled(types.int64(_matrix, _limits, _moments, _order, _numbers, types.int64, types.uint64))
def settle(
    columns: NDArray[np.float64],
    limits: Limits,
    moments: Moments,
    order: Order,
    rows: NDArray[np.int64],
    candidates: int,
    seed: int,
) -> int:
    """Rows that are beyond a limit exchange a value, each the cheapest that it finds. Returns the number of exchanges.

    Args:
        columns: columns x rows.
        limits: what rows are to keep.
        moments: what an exchange costs.
        order: of the columns that may be exchanged.
        rows: that are beyond a limit.
        candidates: partners that each of them tries for each column. They are near in value more often than far: the
            logarithm of their distance in ranks is drawn evenly. Every fourth only helps on the way, for where no row
            could do with the value.
        seed: of the candidates.
    """
    sorted_rows, place, sizes, numbers = order
    state = np.uint64(seed) | np.uint64(1)
    done = 0
    for row in rows:
        k = _worst(columns, limits, row)
        if k < 0:
            continue
        before = _beyond(columns, limits, row, -1, 0.0)
        best, partner, chosen = np.inf, -1, -1
        for at in range(numbers.size):
            j = numbers[at]
            slope = limits[0][k, j]
            if slope == 0.0 or place[at, row] < 0:
                continue
            own = columns[j, row]
            wanted = own - _over(columns, limits, k, row, -1, 0.0) / slope
            up = slope < 0.0
            first = _first_that_does(columns[j], sorted_rows[at], sizes[at], wanted, up)
            room = max(sizes[at] - first if up else first + 1, 1)
            for number in range(candidates):
                state = next_state(state)
                drawn = _share(state)
                if number % 4 == 3:
                    there = place[at, row] + int(drawn * (first - place[at, row]))
                else:
                    step = int(room**drawn) - 1
                    there = first + step if up else first - step
                other = sorted_rows[at, min(max(there, 0), sizes[at] - 1)]
                left = _beyond(columns, limits, row, j, columns[j, other])
                if left >= before:
                    continue
                if _beyond(columns, limits, other, j, own) > _beyond(columns, limits, other, -1, 0.0):
                    continue
                cost = STILL_BEYOND * (1.0 + left) if left > 0.0 else _cost(moments, j, row, other)
                if cost < best:
                    best, partner, chosen = cost, other, at
        if partner >= 0:
            _exchange(columns, moments, order, chosen, row, partner)
            done += 1
    return done


@compiled(types.int64(_matrix, _limits, _moments, _order, types.int64, types.uint64))
def mend(
    columns: NDArray[np.float64], limits: Limits, moments: Moments, order: Order, proposals: int, seed: int
) -> int:
    """Exchanges at random that bring moments nearer to their target and no row beyond a limit; how many there were.

    The arguments are those of `settle`, with the number of proposals.
    """
    sorted_rows, _, sizes, numbers = order
    state = np.uint64(seed) | np.uint64(1)
    done = 0
    for _ in range(proposals):
        state = next_state(state)
        at = int(_share(state) * numbers.size)
        state = next_state(state)
        start = int(_share(state) * sizes[at])
        state = next_state(state)
        step = int(np.float64(sizes[at]) ** _share(state))
        one, other = sorted_rows[at, start], sorted_rows[at, (start + step) % sizes[at]]
        j = numbers[at]
        if columns[j, one] == columns[j, other] or _cost(moments, j, one, other) >= 0.0:
            continue
        mine, theirs = columns[j, one], columns[j, other]
        if _beyond(columns, limits, one, j, theirs) > _beyond(columns, limits, one, -1, 0.0):
            continue
        if _beyond(columns, limits, other, j, mine) > _beyond(columns, limits, other, -1, 0.0):
            continue
        _exchange(columns, moments, order, at, one, other)
        done += 1
    return done
