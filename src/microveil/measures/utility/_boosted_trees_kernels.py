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
Marks = NDArray[np.bool_]


def binned(values: Numbers) -> NDArray[np.uint8]:
    """For each cell of a table (n x m) its bin of about equally many; 0 where the cell is missing."""
    found = np.zeros(values.shape, dtype=np.uint8)
    for place, column in enumerate(values.T):
        there = ~np.isnan(column)
        if there.any():
            cuts = np.unique(np.quantile(column[there], np.arange(1, BINS - 1) / (BINS - 1)))
            found[there, place] = 1 + np.searchsorted(cuts, column[there])
    return found


# Plain loops over single numbers: numba compiles them in a fraction of the time that slices of arrays take.


@njit(nogil=True)
def _collect(bins: NDArray[np.uint8], terms: Numbers, rows: Places, start: int, stop: int, sums: Numbers) -> None:
    """Into `sums` those of the terms of the rows from `start` to `stop`, in each bin of each column.

    `bins` is n x m, `terms` n x 3, `rows` an order of the n, and `sums` m x BINS x 3.
    """
    for column in range(sums.shape[0]):
        for place in range(BINS):
            for term in range(3):
                sums[column, place, term] = 0.0
    for at in range(start, stop):
        row = rows[at]
        for column in range(sums.shape[0]):
            place = bins[row, column]
            for term in range(3):
                sums[column, place, term] += terms[row, term]


@njit(nogil=True)
def _take_away(sums: Numbers, part: Numbers) -> None:
    """The sums (m x BINS x 3) less those of a part."""
    for column in range(sums.shape[0]):
        for place in range(BINS):
            for term in range(3):
                sums[column, place, term] -= part[column, place, term]


@njit(nogil=True)
def _total(sums: Numbers, term: int) -> float:
    """A term of all rows, which is in any column."""
    total = 0.0
    for place in range(BINS):
        total += sums[0, place, term]
    return total


@njit(nogil=True)
def _best_cut(sums: Numbers) -> tuple[float, int, int]:
    """How much the best cut of a leaf gains (0: none is allowed), its column, and the last bin on its left."""
    slope, curvature, count = _total(sums, 0), _total(sums, 1), _total(sums, 2)
    uncut = slope * slope / (curvature + NOTHING)
    best, best_column, best_place = 0.0, 0, 0
    for column in range(sums.shape[0]):
        left_slope, left_curvature, left = 0.0, 0.0, 0.0
        for place in range(BINS - 1):
            left_slope += sums[column, place, 0]
            left_curvature += sums[column, place, 1]
            left += sums[column, place, 2]
            if left < FEWEST or sums[column, place, 2] == 0.0:  # an empty bin: the cut before it was the same
                continue
            if count - left < FEWEST:
                break
            right_slope = slope - left_slope
            right = right_slope * right_slope / (curvature - left_curvature + NOTHING)
            gain = left_slope * left_slope / (left_curvature + NOTHING) + right - uncut
            if gain > best + NOTHING:
                best, best_column, best_place = gain, column, place
    return best, best_column, best_place


@njit(nogil=True)
def _part(bins: NDArray[np.uint8], rows: Places, spare: Places, leaf: Places, cut: Places) -> int:
    """Put the rows of a leaf that are left of a cut first, in their order; and say where the others begin.

    Args:
        bins: the records (n x m).
        rows: their order (n), which is changed.
        spare: room for as many.
        leaf: where its rows start and stop.
        cut: the column, and the last bin on the left.
    """
    middle, right = int(leaf[0]), 0
    for at in range(leaf[0], leaf[1]):
        row = rows[at]
        if bins[row, cut[0]] <= cut[1]:
            rows[middle] = row
            middle += 1
        else:
            spare[right] = row
            right += 1
    for at in range(right):
        rows[middle + at] = spare[at]
    return middle


@njit(nogil=True)
def _grow(bins: NDArray[np.uint8], terms: Numbers, rows: Places, leaves: Places, sums: Numbers) -> int:
    """A tree, grown where a cut gains most; the number of its leaves.

    Args:
        bins: the records (n x m).
        terms: slope and curvature of their likelihood and one, or three times nothing (n x 3).
        rows: their order (n), in which those of a leaf will stand together.
        leaves: where the rows of each leaf start and stop, to be found (LEAVES x 2).
        sums: those of the terms of each leaf, to be found (LEAVES x m x BINS x 3).
    """
    spare = np.empty(rows.size, dtype=np.int64)
    gains, cuts = np.zeros(LEAVES), np.zeros((LEAVES, 2), dtype=np.int64)
    leaves[0, 0], leaves[0, 1] = 0, rows.size
    _collect(bins, terms, rows, 0, rows.size, sums[0])
    gains[0], cuts[0, 0], cuts[0, 1] = _best_cut(sums[0])
    for new in range(1, LEAVES):
        old = 0
        for leaf in range(1, new):
            if gains[leaf] > gains[old]:
                old = leaf
        if gains[old] <= 0:
            return new
        middle = _part(bins, rows, spare, leaves[old], cuts[old])
        # The smaller part is the new leaf and is counted; the other is what is left.
        if leaves[old, 1] - middle < middle - leaves[old, 0]:
            leaves[new, 0], leaves[new, 1], leaves[old, 1] = middle, leaves[old, 1], middle
        else:
            leaves[new, 0], leaves[new, 1], leaves[old, 0] = leaves[old, 0], middle, middle
        _collect(bins, terms, rows, leaves[new, 0], leaves[new, 1], sums[new])
        _take_away(sums[old], sums[new])
        gains[old], cuts[old, 0], cuts[old, 1] = _best_cut(sums[old])
        gains[new], cuts[new, 0], cuts[new, 1] = _best_cut(sums[new])
    return LEAVES


@compiled(
    types.float64[::1](
        types.Array(types.uint8, 2, "C", readonly=True),
        types.Array(types.boolean, 1, "C", readonly=True),
        types.Array(types.boolean, 1, "C", readonly=True),
        types.float64,
    )
)
def _boosted(bins: NDArray[np.uint8], label: Marks, learnt: Marks, start: float) -> Numbers:
    """The log odds of each record (n), from `start` on; the others are those of `log_odds`."""
    odds = np.zeros(label.size) + start
    terms = np.zeros((label.size, 3))
    sums = np.empty((LEAVES, bins.shape[1], BINS, 3))
    rows, leaves = np.arange(label.size), np.zeros((LEAVES, 2), dtype=np.int64)
    for _ in range(ROUNDS):
        for row in range(label.size):
            if learnt[row]:
                chance = 1 / (1 + np.exp(-odds[row]))
                terms[row, 0], terms[row, 1], terms[row, 2] = label[row] - chance, chance * (1 - chance), 1.0
        for leaf in range(_grow(bins, terms, rows, leaves, sums)):
            step = RATE * _total(sums[leaf], 0) / (_total(sums[leaf], 1) + NOTHING)
            for at in range(leaves[leaf, 0], leaves[leaf, 1]):
                odds[rows[at]] += step
    return odds


def log_odds(bins: NDArray[np.uint8], label: Marks, learnt: Marks) -> Numbers:
    """The log odds that each record has the label, said by trees that learn from some of the records.

    Args:
        bins: the records (n x m) as `binned` gives them.
        label: who has it (n).
        learnt: whose labels are looked at (n); some have it, and some have not.
    """
    share = label[learnt].mean()
    odds: Numbers = _boosted(bins, label, learnt, np.log(share / (1 - share)))
    return odds
