"""Records that came back: released rows that are somebody's own record, in whatever row they stand.

In a small file chance alone brings records back: two components of ten records, each put into a random order, return
one record on average. They are found after the fact, so that the file can be drawn again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array

SAME = 1e-7
"""Share of a column's standard deviation within which values are the same."""

MOST_ROWS = 20_000
"""Records up to which they are looked for: in larger files, values do not meet again by chance."""

UNAVOIDABLE = 3.0
"""Records that are expected to come back by chance from which on nothing can be done: few values, which many share."""


def returned_records(original: Sequence[Array], released: Sequence[Array]) -> int:
    """How many records that nobody else has stand in the release in all columns; 0 where coarse values explain it."""
    if not original or not 0 < original[0].size <= MOST_ROWS:
        return 0
    scales = [_scale(column) for column in original]
    # Two grids, half a step apart: two values that are the same are in one cell of at least one of them.
    grids = [[_keys(columns, scales, offset) for columns in (original, released)] for offset in (0.0, 0.5)]
    unique = _unique(grids[0][0])
    back = unique & np.logical_or.reduce([np.isin(before, after) for before, after in grids])
    count = int(np.count_nonzero(back))
    return count if count and _expected(original, released, unique) < UNAVOIDABLE else 0


def _scale(column: Array) -> float:
    spread = float(np.nanstd(column)) if not np.isnan(column).all() else 0.0
    return SAME * spread if spread > 0 else 1.0


def _keys(columns: Sequence[Array], scales: Sequence[float], offset: float) -> NDArray[np.uint64]:
    """A number for each record, the same for the same records: a sum of its cells, each times an odd constant."""
    keys = np.zeros(columns[0].size, dtype=np.uint64)
    for number, (column, scale) in enumerate(zip(columns, scales, strict=True)):
        cells = np.floor(np.nan_to_num(column / scale, nan=np.pi * 1e6) + offset)
        odd = np.uint64((2 * number + 1) * 0x9E3779B97F4A7C15 % 2**64 | 1)
        keys = (keys ^ (cells.astype(np.int64).astype(np.uint64) * odd)) * np.uint64(0xBF58476D1CE4E5B9)
        keys ^= keys >> np.uint64(29)
    return keys


def _unique(keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
    _, place, count = np.unique(keys, return_inverse=True, return_counts=True)
    unique: NDArray[np.bool_] = count[place] == 1
    return unique


def _expected(original: Sequence[Array], released: Sequence[Array], unique: NDArray[np.bool_]) -> float:
    """How many unique records would come back if every column were drawn by itself, of two columns' worth at least.

    Two columns of single values return one record on average however they are shuffled: that can be avoided.
    """
    logs = np.zeros(original[0].size)
    shared = 0
    for old, new in zip(original, released, strict=True):
        ascending = np.sort(new)
        hits = np.searchsorted(ascending, old, "right") - np.searchsorted(ascending, old, "left")
        logs += np.log(np.maximum(hits, 1) / old.size)
        shared += bool(np.mean(hits > 1) > 0.5)
    if not shared:
        return 0.0
    return float(np.minimum(old.size * np.exp(logs[unique]), 1.0).sum())
