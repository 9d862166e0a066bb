"""Ranks with ties."""

from __future__ import annotations

import numpy as np

from microveil.core.arrays import Array


def mid_ranks(column: Array) -> Array:
    """Ranks from 1; equal values share the mean of theirs."""
    order = np.argsort(column, kind="stable")
    ascending = column[order]
    starts = np.flatnonzero(np.r_[True, ascending[1:] != ascending[:-1]])
    sizes = np.diff(np.r_[starts, column.size])
    ranks = np.empty(column.size)
    ranks[order] = np.repeat(starts + (sizes + 1) / 2, sizes)
    return ranks
