"""The compiled search by mixed distances. Importing this module imports numba and compiles or loads the loop."""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from microveil.core.compiled import compiled

_cells = types.Array(types.float64, 2, "C", readonly=True)
_marks = types.Array(types.uint8, 1, "C", readonly=True)
_weights = types.Array(types.float64, 1, "C", readonly=True)
_rows = types.Array(types.int64, 1, "C", readonly=True)

UNKNOWN = 0.5
"""Distance of a number from a missing cell, which may be anything."""


@njit(inline="always")
def _gap(old: float, new: float, by_gap: int) -> float:
    """Of two cells: 0 or 1 where they are labels, else how far their places are apart."""
    if by_gap == 0:
        return 0.0 if old == new else 1.0
    if np.isnan(old) or np.isnan(new):
        return 0.0 if np.isnan(old) and np.isnan(new) else UNKNOWN
    return abs(old - new)


@compiled(types.float64[::1](_cells, _cells, _marks, _weights, _rows, _rows, types.float64))
def linked(
    before: NDArray[np.float64],
    after: NDArray[np.float64],
    by_gap: NDArray[np.uint8],
    weights: NDArray[np.float64],
    tried: NDArray[np.int64],
    order: NDArray[np.int64],
    tie: float,
) -> NDArray[np.float64]:
    """For each original tried, 1 / k if its own release is one of the k nearest records, else 0.

    Args:
        before: records x columns of the original.
        after: the same of the release, in the same order of records.
        by_gap: for each column, 0 if its cells are labels, 1 if they are places.
        weights: of the columns.
        tried: rows of the original.
        order: rows of the release, in the order in which they are looked at: the first nearer one settles it.
        tie: distances that differ by no more are the same.
    """
    credit = np.zeros(tried.size)
    for number in range(tried.size):
        row = tried[number]
        own = 0.0
        for j in range(weights.size):
            own += weights[j] * _gap(before[row, j], after[row, j], by_gap[j])
        level, lost = 0, False
        for rival in order:
            distance = 0.0
            for j in range(weights.size):
                distance += weights[j] * _gap(before[row, j], after[rival, j], by_gap[j])
                if distance > own + tie:
                    break
            if distance < own - tie:
                lost = True
                break
            if distance <= own + tie:
                level += 1
        if not lost:
            credit[number] = 1.0 / level
    return credit
