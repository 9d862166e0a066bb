"""Records and values that came back: released rows that are somebody's own record, in whatever row they are.

In a small file chance alone brings records back: two components of ten records, each put into a random order, return
one record on average. They are found after the fact, so that the file can be drawn again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Index, Mask
from microveil.core.fewest_records import few_decide
from microveil.measures.nearest.neighbours import link, nearest

SAME = 1e-7
"""Share of a column's standard deviation within which values are the same."""

MOST_ROWS = 20_000
"""Records up to which they are looked for: in larger files, values do not meet again by chance."""

MOST_STEPS = 2.0**62
"""Steps from the mean that a whole number holds."""

UNAVOIDABLE = 3.0
"""Records that are expected to come back by chance from which on nothing can be done: few values, which many share."""

NEAR_ENOUGH, FAR_FROM_ALL = 0.1, 0.8
"""Share of the largest value within which a guess tells it; and share of it that the fifth largest stays below."""

FEW_COLUMNS, FEW_ROWS, TRIED, COPIES, NEXT_TO_OWN, HALF = 2, 30, 200, 0.05, 0.6, 0.5
"""Columns and rows from which on giveaways are looked for, records that are tried, the share of near copies that is no
accident, the share of values next to their own that is none, and half."""


def returned_records(original: Sequence[Array], released: Sequence[Array]) -> int:
    """How many records that nobody else has are in the release, in all columns; 0 where coarse values explain it."""
    if len(original) < FEW_COLUMNS or not 0 < original[0].size <= MOST_ROWS:
        return 0
    scales = [_centre_and_scale(column) for column in original]
    # Two grids, half a step apart: two values that are the same are in one cell of at least one of them.
    grids = [[_keys(columns, scales, offset) for columns in (original, released)] for offset in (0.0, 0.5)]
    # A record with few cells is soon met again.
    mostly_there = np.mean([~np.isnan(column) for column in original], axis=0) > HALF
    _, place, count_of = np.unique(grids[0][0], return_inverse=True, return_counts=True)
    unique = (count_of[place] == 1) & mostly_there
    back = unique & np.logical_or.reduce([np.isin(before, after) for before, after in grids])
    count = int(np.count_nonzero(back))
    return count if count and _expected(original, released, unique) < UNAVOIDABLE else 0


def _centre_and_scale(column: Array) -> tuple[float, float]:
    if np.isnan(column).all():
        return 0.0, 1.0
    return float(np.nanmean(column)), SAME * float(np.nanstd(column)) or 1.0


def _keys(columns: Sequence[Array], scales: Sequence[tuple[float, float]], offset: float) -> NDArray[np.uint64]:
    """A number for each record, the same for the same records: a sum of its cells, each times an odd constant."""
    keys = np.zeros(columns[0].size, dtype=np.uint64)
    for number, (column, (centre, scale)) in enumerate(zip(columns, scales, strict=True)):
        cells = np.floor(
            np.nan_to_num((column - centre) / scale, nan=np.pi * 1e6).clip(-MOST_STEPS, MOST_STEPS) + offset
        )
        odd = np.uint64((2 * number + 1) * 0x9E3779B97F4A7C15 % 2**64 | 1)
        keys = (keys ^ (cells.astype(np.int64).astype(np.uint64) * odd)) * np.uint64(0xBF58476D1CE4E5B9)
        keys ^= keys >> np.uint64(29)
    return keys


def _expected(original: Sequence[Array], released: Sequence[Array], unique: Mask) -> float:
    """How many unique records would come back if every column were drawn by itself.

    0 where values are single ones: two columns of these return a record on average, but another draw does not.
    """
    count, chance, coarse = original[0].size, np.ones(original[0].size), False
    for old, new in zip(original, released, strict=True):
        hits = _hits(old, new)
        chance *= np.maximum(hits, 1) / count
        coarse |= bool(np.mean(hits > 1) > HALF)
    return float(np.minimum(count * chance[unique], 1.0).sum()) if coarse else 0.0


def _hits(old: Array, new: Array) -> Index:
    """How many released cells of a column have each of its values."""
    ascending = np.sort(new)
    return np.searchsorted(ascending, old, "right") - np.searchsorted(ascending, old, "left")


def giveaways(original: Sequence[Array], released: Sequence[Array], *, exact: bool = False) -> list[str]:
    """What the released values alone disclose of the people in the file, measured on them.

    Where covariances are `exact`, they tell the records that have most of the variance of a column.
    """
    back = returned_records(original, released)
    warnings = [f"{back} records that nobody else has are in the release unchanged"] if back else []
    if len(original) < FEW_COLUMNS or not FEW_ROWS <= original[0].size <= MOST_ROWS:
        return warnings
    there = [column[~np.isnan(column)] for column in original] if exact else []
    few = sum(few_decide(column) for column in there if column.size > FEW_ROWS)
    if few:
        warnings.append(
            f"in {few} columns a handful of records have most of the variance: covariances that are exact tell them"
        )
    near, lucky, linked, tried = _found_records(original, released)
    # An independent file has such a record for 1 of 1 + 4^d, in d dimensions; columns that go together have fewer, and
    # where values are few, another record of the file itself is as often the same.
    luck = max(lucky + 2 * lucky**0.5, 2 * tried / (1 + 2.0 ** min(len(original), 60)))
    if near > COPIES * tried + luck:
        warnings.append(
            f"{near} of {tried} records have a released record four times as near to them as anybody else: who knows "
            "them finds them"
        )
    if linked > COPIES * tried:
        warnings.append(
            f"{linked} of {tried} records are nearest to their own released record: who knows them finds the rest of it"
        )
    guessed, of = _largest_guessed(original, released)
    if guessed > FEW_COLUMNS and guessed > HALF * of:
        warnings.append(
            f"in {guessed} of {of} columns the second largest can tell the largest within a tenth, from the two "
            "largest released values"
        )
    single = _single_values(original, released)
    verbatim = [np.mean(_hits(own, new) > 0) for own, new in single]
    if single and np.mean([_next_to_own(own, new) for own, new in single]) > NEXT_TO_OWN and np.mean(verbatim) <= HALF:
        warnings.append(
            "most released values are next to an original one, by their rank: summed over columns, such gaps tell who "
            "is in the file"
        )
    if verbatim and np.mean(verbatim) > HALF:
        warnings.append(
            f"{np.mean(verbatim):.0%} of the values that one record has are released as they are: who knows a record's "
            "values sees whether it is in the file"
        )
    return warnings


def _largest_guessed(original: Sequence[Array], released: Sequence[Array]) -> tuple[int, int]:
    """In how many columns the sum of two released values less the second largest is near the largest; and of how many.

    Where the five largest are close together, everybody knows the largest.
    """
    guessed = of = 0
    for old, new in zip(original, released, strict=True):
        own, drawn = (np.sort(column[~np.isnan(column)])[::-1] for column in (old, new))
        if own.size >= FEW_ROWS and own[4] < FAR_FROM_ALL * own[0]:
            of += 1
            guessed += int(abs(drawn[0] + drawn[1] - own[1] - own[0]) <= NEAR_ENOUGH * own[0])
    return guessed, of


def _next_to_own(own: Array, new: Array) -> float:
    """The share of single values that have the released value of their rank between their neighbours."""
    released = np.sort(new[~np.isnan(new)])
    if released.size < own.size:
        return 0.0
    ranks = (np.arange(own.size) + 0.5) / own.size * (released.size - 1)
    at = np.interp(ranks, np.arange(released.size), released)[1:-1]  # as np.quantile, which sorts for every rank
    return float(np.mean((at > own[:-2]) & (at < own[2:])))


def _found_records(original: Sequence[Array], released: Sequence[Array]) -> tuple[int, int, int, int]:
    """Of some originals, how many have a released record in a quarter of the distance to the nearest other; how many
    have the nearest other in a quarter of the distance to the next, which is luck; how many are nearest to their own;
    and how many were tried.
    """
    scales = [float(np.nanstd(column)) or 1.0 for column in original]
    before, after = (
        np.column_stack([np.nan_to_num(column / scale) for column, scale in zip(columns, scales, strict=True)])
        for columns in (original, released)
    )
    rows = np.unique(np.linspace(0, len(before) - 1, TRIED).astype(np.intp))
    away, (others, next_others) = nearest(before[rows], after, 1)[1][:, 0], nearest(before[rows], before, 3)[1][:, 1:].T
    near, lucky = (int(np.count_nonzero(4 * one < other)) for one, other in ((away, others), (others, next_others)))
    linked = int(np.count_nonzero((link(before[rows], after, rows).nearest == rows) & (others > 0)))
    return near, lucky, linked, rows.size


def _single_values(original: Sequence[Array], released: Sequence[Array]) -> list[tuple[Array, Array]]:
    """The values of each column that one record has, where most have one, with the released column."""
    found = []
    for old, new in zip(original, released, strict=True):
        values, counts = np.unique(old[~np.isnan(old)], return_counts=True)
        single = values[counts == 1]
        if single.size > HALF * old.size:
            found.append((single, new))
    return found
