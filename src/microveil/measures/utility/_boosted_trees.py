"""Gradient-boosted trees on binned columns (Friedman 2001), grown leaf by leaf. Importing this module imports numba.

They are those of scikit-learn's histogram boosting in size and in what they see. There a tree of a few thousand rows
is made of calls that cost more than their work, and the library takes a second to load: six times this in all.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from microveil.core.compiled import compiled

BINS = 64
"""Bins of a column, the first for missing cells: what a cut tells apart, 63 quantiles show."""

ROUNDS, LEAVES, RATE, FEWEST = 60, 31, 0.1, 20
"""Trees, leaves of each, the share of its step that is taken, and records in a leaf at least."""

NOTHING = 1e-9
"""Curvature that keeps quotients finite, and a gain that is none."""

Numbers = NDArray[np.float64]
Places = NDArray[np.int64]


def binned(values: Numbers) -> NDArray[np.uint8]:
    """For each cell of a table (n x m) its bin of about equally many; 0 where the cell is missing."""
    found = np.zeros(values.shape, dtype=np.uint8)
    for place, column in enumerate(values.T):
        there = ~np.isnan(column)
        if there.any():
            cuts = np.unique(np.quantile(column[there], np.arange(1, BINS - 1) / (BINS - 1)))
            found[there, place] = 1 + np.searchsorted(cuts, column[there])
    return found


@njit(nogil=True)
def _collect(bins: NDArray[np.uint8], terms: Numbers, rows: Places, sums: Numbers) -> None:
    """The sums of some rows' terms in each bin of each column."""
    sums[:] = 0
    for row in rows:
        for column in range(bins.shape[1]):
            place = bins[row, column]
            for term in range(3):
                sums[column, place, term] += terms[row, term]


@njit(nogil=True)
def _best_cut(sums: Numbers) -> tuple[float, int, int]:
    """How much the best cut of a leaf gains (0: none is allowed), its column, and the last bin on its left."""
    slope, curvature, count = sums[0, :, 0].sum(), sums[0, :, 1].sum(), sums[0, :, 2].sum()
    uncut = slope * slope / (curvature + NOTHING)
    best, best_column, best_place = 0.0, 0, 0
    for column in range(sums.shape[0]):
        left_slope, left_curvature, left = 0.0, 0.0, 0.0
        for place in range(BINS - 1):
            left_slope += sums[column, place, 0]
            left_curvature += sums[column, place, 1]
            left += sums[column, place, 2]
            if left < FEWEST:
                continue
            if count - left < FEWEST:
                break
            right = (slope - left_slope) ** 2 / (curvature - left_curvature + NOTHING)
            gain = left_slope**2 / (left_curvature + NOTHING) + right - uncut
            if gain > best + NOTHING:
                best, best_column, best_place = gain, column, place
    return best, best_column, best_place


@njit(nogil=True)
def _part(bins: NDArray[np.uint8], rows: Places, column: int, place: int) -> int:
    """Put the rows left of a cut first, in their order, and say how many they are."""
    right = np.empty_like(rows)
    left = 0
    for at in range(rows.size):
        if bins[rows[at], column] <= place:
            rows[left] = rows[at]
            left += 1
        else:
            right[at - left] = rows[at]
    rows[left:] = right[: rows.size - left]
    return left


@compiled(
    types.float64[::1](
        types.Array(types.uint8, 2, "C", readonly=True),
        types.Array(types.boolean, 1, "C", readonly=True),
        types.Array(types.boolean, 1, "C", readonly=True),
    )
)
def log_odds(bins: NDArray[np.uint8], label: NDArray[np.bool_], learnt: NDArray[np.bool_]) -> Numbers:
    """The log odds that each record has the label, said by trees that learn from some of the records.

    Args:
        bins: the records (n x m) as `binned` gives them.
        label: who has it (n).
        learnt: whose labels are looked at (n); some have it, and some have not.
    """
    share = (label & learnt).sum() / learnt.sum()
    odds = np.full(label.size, np.log(share / (1 - share)))
    terms = np.zeros((label.size, 3))  # slope and curvature of the likelihood, and one; nothing where nobody looks
    sums = np.empty((LEAVES, bins.shape[1], BINS, 3))
    rows = np.arange(label.size)
    start, stop = np.zeros(LEAVES, dtype=np.int64), np.zeros(LEAVES, dtype=np.int64)
    gain, column, place = np.zeros(LEAVES), np.zeros(LEAVES, dtype=np.int64), np.zeros(LEAVES, dtype=np.int64)
    for _ in range(ROUNDS):
        for row in np.flatnonzero(learnt):
            chance = 1 / (1 + np.exp(-odds[row]))
            terms[row] = label[row] - chance, chance * (1 - chance), 1.0
        stop[0], leaves = rows.size, 1
        _collect(bins, terms, rows, sums[0])
        gain[0], column[0], place[0] = _best_cut(sums[0])
        while leaves < LEAVES:
            old = np.argmax(gain[:leaves])
            if gain[old] <= 0:
                break
            middle = start[old] + _part(bins, rows[start[old] : stop[old]], column[old], place[old])
            start[leaves], stop[leaves], stop[old] = middle, stop[old], middle
            # The smaller part is counted; the other is what is left.
            sums[leaves] = sums[old]
            small, large = (old, leaves) if middle - start[old] < stop[leaves] - middle else (leaves, old)
            _collect(bins, terms, rows[start[small] : stop[small]], sums[small])
            sums[large] -= sums[small]
            for leaf in (old, leaves):
                gain[leaf], column[leaf], place[leaf] = _best_cut(sums[leaf])
            leaves += 1
        for leaf in range(leaves):
            step = RATE * sums[leaf, 0, :, 0].sum() / (sums[leaf, 0, :, 1].sum() + NOTHING)
            odds[rows[start[leaf] : stop[leaf]]] += step
    return odds
