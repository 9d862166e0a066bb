"""How many records a statistic must be about, so that fitting a release to it does not give a record back.

With one gap in a column, the moments of the gap's indicator *are* the record; with a label of three records, they are
the sums of three. So nothing that a release is fitted to is a sum over fewer records than this: rarer labels and strata
are pooled, rarer gaps play no part. A record that stands far out in a public column is a group of its own: the fit
follows it, so it is pulled in.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Index, Mask
from microveil.core.linalg import leverage, regression_slopes

FEWEST_RECORDS = 10
"""Sets of up to five records came back as a set where they were fitted to; of ten, records are as far off as others."""

A_HANDFUL = 5.0
"""Records that have most of the variance of a column, so that its covariances give them away."""

ONE = 1.5
"""Below so many, it is one record that has it."""

FEW_ROWS = 500
"""Rows up to which clusters with moments of their own would tell who is in a table."""


def few_decide(column: Array, few: float = A_HANDFUL) -> bool:
    """Have fewer records than these most of the variance of a column? Squares, summed and squared, over fourths."""
    off = column - column.mean()
    squares = np.square(off / (np.abs(off).max(initial=0.0) or 1.0))
    return bool(np.square(squares.sum()) < few * np.square(squares).sum())


Limits = tuple[float, float]

A_LITTLE = 1e-3
"""How far beyond the limits values come, as a share of the distance between them: so that their order is seen."""


def limits_to_fit(column: Array) -> Limits | None:
    """How far out the values of a column may be for a release to be fitted to it; None for as far as they are.

    Where one record has most of the variance, or all but a few have the same value, it is where enough records are: in
    the second case both limits are that value, and the column takes no part.
    """
    enough = min(FEWEST_RECORDS - 1, column.size // 4)
    low, high = np.partition(column, (enough, column.size - 1 - enough))[[enough, column.size - 1 - enough]].tolist()
    return (low, high) if low == high or few_decide(column, ONE) else None


def within(column: Array, limits: Limits | None) -> Array:
    """A column with the values that are beyond the limits next to these, in their order; constant if they are equal."""
    if limits is None:
        return column
    low, high = limits
    values = column[:]
    inside = values.clip(low, high)
    if low < high:
        beyond = values - inside
        inside += A_LITTLE * (high - low) * beyond / (np.abs(beyond) + (high - low))
    return inside


def pooled(groups: Index, least: int = FEWEST_RECORDS) -> tuple[Index, int]:
    """Groups (numbered from 0, none empty) with the small ones as one, and how many were small.

    If these are too few even together, the smallest of the others joins them.
    """
    sizes = np.bincount(groups)
    small = sizes < least
    count = int(np.count_nonzero(small))
    if count == 0:
        return groups, 0
    if sizes[small].sum() < least and not small.all():
        small[np.argmin(np.where(small, sizes.sum(), sizes))] = True
    new = np.where(small, sizes.size, np.arange(sizes.size))
    return np.unique(new[groups], return_inverse=True)[1].astype(np.intp), count


MOST_LEVERAGE, TIMES_AVERAGE = 0.2, 4
"""Share of a record in its own fitted value, at most; in small files, so many times the average share."""

LEFT_OUT = 3.0
"""How many of the fewest records' shares in a fit a record may have before it is left out: more than those have that
are pulled in. Alone, two or three together are beyond it."""

NEARLY, ALL_OF_IT = 0.8, 0.9
"""Records alike with this share of the limit each, who together have nearly all of a direction, are left out, too: four
came nearer to their own values than others, five did not."""

FEW_ADD_UP = 3.0
"""Records whose like contributions would make up the mean of a group, below which it is left to chance."""

PULLS = 100
"""Rounds of pulling in; each pull makes others stand out a little more."""

A_BIT_FURTHER = 0.98
"""So that the next round does not find the same record again."""


def pulled_in(columns: list[Array], weights: Array | None) -> tuple[list[Array], int]:
    """Public columns with no record so far out that a regression on them follows it; and how many were pulled in."""
    if not columns:
        return columns, 0
    x = np.column_stack(columns)
    middle = np.median(x, axis=0)
    x -= middle
    weight = np.ones(len(x)) if weights is None else weights
    limit = max(MOST_LEVERAGE, TIMES_AVERAGE * (x.shape[1] + 1) / len(x))
    moved = np.zeros(len(x), dtype=bool)
    for _ in range(PULLS):
        own = _leverage(x, weight)
        far = own > limit
        if not far.any():
            break
        x[far] *= A_BIT_FURTHER * np.sqrt(limit / own[far])[:, None]
        moved |= far
    if not moved.any():
        return columns, 0
    return [np.ascontiguousarray(column) for column in (x + middle).T], int(np.count_nonzero(moved))


def standing_out(features: Array, weights: Array) -> Mask:
    """Which records a fit to the features (records x features, 0 in the middle) would follow, by their leverage.

    Who is left out makes others stand out more, so that these are looked for again.
    """
    x, out = features.copy(), np.zeros(len(features), dtype=bool)
    if x.shape[1] == 0:
        return out
    limit = max(LEFT_OUT / FEWEST_RECORDS, TIMES_AVERAGE * x.shape[1] / len(x))
    for _ in range(PULLS):
        inverse = regression_slopes((x.T * weights) @ x, np.eye(x.shape[1]))
        own = weights * np.einsum("ij,ij->i", x @ inverse, x)
        far = own > limit
        near = np.flatnonzero((own > NEARLY * limit) & ~far)
        if near.size:  # a few alike, who decide over a direction together
            alike = np.unique(x[near], axis=0, return_inverse=True)[1].ravel()
            far[near] = np.bincount(alike, own[near])[alike] > ALL_OF_IT
        if not far.any():
            break
        x[far], out[far] = 0.0, True
    return out


def _leverage(x: Array, weight: Array) -> Array:
    """The leverage of each record in a regression on the columns of `x` (records x columns)."""
    centred = x - weight @ x / weight.sum()
    inverse = regression_slopes((centred.T * weight) @ centred, np.eye(x.shape[1]))
    return leverage(np.einsum("ij,jk,ik->i", centred, inverse, centred), weight, weight.sum())


def many_add_up(blocks: Iterable[tuple[NDArray[np.float32], NDArray[np.float32]]], few: float) -> Mask:
    """Between which values and others no few records dominate the moment: values x others.

    Both come in blocks of rows (rows x features each). The mean of a group with a giant is the giant's, and would give
    its labels away. `few` records with like contributions, and no others, are too few.
    """
    total, squares = np.zeros((2, 1, 1))
    for block in blocks:
        x, y = (np.abs(part.astype(np.float64)) for part in block)
        total = total + x.T @ y
        squares = squares + np.square(x).T @ np.square(y)
    return np.asarray(np.square(total) >= few * squares)
