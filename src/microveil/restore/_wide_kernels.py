"""The compiled loop of the arrangement of wide tables. Importing this module imports numba and compiles or loads it."""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from microveil.core.compiled import compiled
from microveil.restore._arrange_kernels import TOURNAMENT, _below, _next

_cells = types.float64[:, :, ::1]
_readonly_cells = types.Array(types.float64, 3, "C", readonly=True)
_readonly_numbers = types.Array(types.float64, 1, "C", readonly=True)
_readonly_marks = types.Array(types.uint8, 2, "C", readonly=True)


@njit(inline="always")
def _far_out(cells: NDArray[np.float64], column: int, rows: int, state: np.uint64) -> tuple[np.uint64, int]:
    """Of some random rows, the one with the value farthest out; and the random state after it."""
    state = _next(state)
    best = _below(state, rows)
    for _ in range(TOURNAMENT - 1):
        state = _next(state)
        rival = _below(state, rows)
        if abs(cells[0, column, rival]) > abs(cells[0, column, best]):
            best = rival
    return state, best


@njit(nogil=True)
def _gradient(
    x: NDArray[np.float64],
    weights: NDArray[np.float64],
    axis: NDArray[np.float64],
    b: NDArray[np.float64],
    ridge: float,
    onto: NDArray[np.float64],
    now: NDArray[np.float64],
    across: NDArray[np.float64],
    a: NDArray[np.float64],
    u: NDArray[np.float64],
) -> tuple[float, float]:
    """What a column's exchanges depend on in a layer: a and u (filled), sum of w (a^2 - b^2), T^-1 at the column."""
    rows = x.size
    own, g = 0.0, 0.0
    a[:] = x
    u[:] = 0.0
    for k in range(rows):
        own += axis[k] ** 2
        for i in range(rows):
            a[i] -= axis[k] * onto[k, i]
    for i in range(rows):
        a[i] /= ridge
        g += weights[i] * (a[i] ** 2 - b[i] ** 2)
        for k in range(rows):
            u[k] += weights[i] * (a[i] * now[i, k] - b[i] * across[i, k])
    return g, (1.0 - own) / ridge


@njit(nogil=True)
def _follow(
    one: int,
    other: int,
    step: float,
    t: float,
    weights: NDArray[np.float64],
    axis: NDArray[np.float64],
    b: NDArray[np.float64],
    onto: NDArray[np.float64],
    now: NDArray[np.float64],
    across: NDArray[np.float64],
    a: NDArray[np.float64],
    u: NDArray[np.float64],
) -> float:
    """Bring a layer up to date: row `one` gained `step` in the column, `other` lost it. New sum of w (a^2 - b^2)."""
    rows = a.size
    shift, w1, w2 = step * t, weights[one], weights[other]
    first, last = a[one] + shift, a[other] - shift
    pull = w1 * first - w2 * last
    both, own = w1 * shift * a[one] - w2 * shift * a[other], 0.0
    for k in range(rows):
        both += weights[k] * a[k] ** 2
        own += weights[k] * b[k] ** 2
        u[k] += shift * (w1 * now[one, k] - w2 * now[other, k]) + step * a[k] * pull
    extra = step * (both - own) + step * shift * pull
    u[one] += extra
    u[other] -= extra
    for k in range(rows):
        now[one, k] += step * a[k]
        now[other, k] -= step * a[k]
    for k in range(rows):
        now[k, one] += step * a[k]
        now[k, other] -= step * a[k]
        across[k, one] += step * b[k]
        across[k, other] -= step * b[k]
        onto[k, one] += step * axis[k]
        onto[k, other] -= step * axis[k]
    now[one, one] += step * shift
    now[one, other] -= step * shift
    now[other, one] -= step * shift
    now[other, other] += step * shift
    a[one], a[other] = first, last
    g = -own
    for k in range(rows):
        g += weights[k] * a[k] ** 2
    return g


@compiled(
    types.int64(
        _cells,
        _readonly_numbers,
        _readonly_marks,
        types.int64,
        _readonly_cells,
        _readonly_cells,
        types.float64,
        _cells,
        _cells,
        _cells,
        _readonly_numbers,
        types.uint64,
    )
)
def exchange_by_rows(
    cells: NDArray[np.float64],
    weights: NDArray[np.float64],
    marks: NDArray[np.uint8],
    fixed: int,
    axes: NDArray[np.float64],
    original: NDArray[np.float64],
    ridge: float,
    onto: NDArray[np.float64],
    now: NDArray[np.float64],
    across: NDArray[np.float64],
    emphasis: NDArray[np.float64],
    seed: int,
) -> int:
    """One proposal per cell, as `exchange` makes them, column after column in a random order.

    All matrices have the layers first. `cells` x (columns x rows) change. With T the target of a layer and its ridge,
    T^-1 = (1 - G G') / ridge, where `axes` has G (columns x rows). `original` has T^-1 y of the original rows y
    (columns x rows), `onto` G'x (rows x rows), `now` x'T^-1 x and `across` y'T^-1 x (rows x rows); the last three are
    kept up to date. For a column j, a = T^-1 x in place j is found from these, and the gradient in the direction of an
    exchange is made of u = sum of w (a x - b y)'T^-1 x. So a proposal costs a few numbers, and an exchange a few
    vectors of rows, whatever the number of columns. Returns the number of exchanges.
    """
    layers, width, rows = cells.shape
    moving = width - fixed
    a, u = np.empty((layers, rows)), np.empty((layers, rows))
    g, t = np.empty(layers), np.empty(layers)
    order = np.arange(fixed, width)
    state = np.uint64(seed) | np.uint64(1)
    done = 0
    for place in range(moving - 1, -1, -1):
        state = _next(state)
        pick = _below(state, place + 1)
        column = order[pick]
        order[pick] = order[place]
        for layer in range(layers):
            g[layer], t[layer] = _gradient(
                cells[layer, column],
                weights,
                axes[layer, column],
                original[layer, column],
                ridge,
                onto[layer],
                now[layer],
                across[layer],
                a[layer],
                u[layer],
            )
        for _ in range(rows):
            state = _next(state)
            one = _below(state, rows)
            state = _next(state)
            other = _below(state, rows)
            if state & np.uint64(1):
                # As in `exchange`: every other time a value far out, and half of these times in a row far out.
                state, one = _far_out(cells, column, rows, state)
                state = _next(state)
                if state & np.uint64(1):
                    state = _next(state)
                    state, other = _far_out(cells, _below(state, width), rows, state)
            if cells[0, column, one] == cells[0, column, other]:
                continue
            if marks.shape[0] > 0 and marks[one, column - fixed] != marks[other, column - fixed]:
                continue
            w1, w2 = weights[one], weights[other]
            change = 0.0
            for layer in range(layers):
                old, new = cells[layer, column, one], cells[layer, column, other]
                step = new - old
                # The column's own variance changes only where the rows have different weights.
                c = 0.5 * (new**2 - old**2) * (w1 - w2) - step * (w1 * old - w2 * new)
                slope = step * (w1 * u[layer, one] - w2 * u[layer, other]) + c * g[layer]
                along = w1 * a[layer, one] - w2 * a[layer, other]
                length = (
                    w1 * w1 * now[layer, one, one]
                    - 2.0 * w1 * w2 * now[layer, one, other]
                    + w2 * w2 * now[layer, other, other]
                )
                length = step * step * length + 2.0 * c * step * along + c * c * t[layer]
                here = step * along + c * t[layer]
                change += emphasis[layer] * (4.0 * slope + 2.0 * (here * here + t[layer] * length))
            if change >= 0.0:
                continue
            done += 1
            for layer in range(layers):
                old, new = cells[layer, column, one], cells[layer, column, other]
                step = new - old
                cells[layer, column, one], cells[layer, column, other] = new, old
                g[layer] = _follow(
                    one,
                    other,
                    step,
                    t[layer],
                    weights,
                    axes[layer, column],
                    original[layer, column],
                    onto[layer],
                    now[layer],
                    across[layer],
                    a[layer],
                    u[layer],
                )
    return done
