"""How far the records moved: matrix norms and the correlation of all cells (D'Acquisto and Naldi)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from microveil.core.arrays import Array
from microveil.core.sorted_columns import pieces_of
from microveil.core.table import Matrix
from microveil.core.threads import segments
from microveil.measures.base import Estimate, distance, gauge, over_rows, scales

Over = Callable[[Callable[[Array, Array], Array]], list[Array]]
"""Calls a function with every piece of two files, and gives back what it said."""

norm = partial(distance, paired=True)


def _moves(before: Array, after: Array) -> Array:
    """d_ij = |a_ij - b_ij| / σ_j, σ_j with the divisor n (eq. 1); 0 where a cell is missing in either file."""
    return np.nan_to_num(np.abs(after - before))


def _added(original: Matrix, released: Matrix, *, power: int) -> tuple[float, float]:
    """The sum of the moves to this power, and the number of cells that are there in both files (at least 1)."""

    def added(before: Array, after: Array) -> Array:
        known = np.count_nonzero(~np.isnan(before) & ~np.isnan(after))
        return np.array([(_moves(before, after) ** power).sum(), known])

    total, cells = np.sum(over_rows(original, released, added), axis=0)
    return float(total), max(float(cells), 1.0)


@norm("sum over all cells of their change in standard deviations")
def norm_sum(original: Matrix, released: Matrix) -> Estimate:
    """M = Σ_i Σ_j d_ij (D'Acquisto and Naldi, eq. 2). No sampling is involved.

    In the parts it is per cell that is there in both files.
    """
    total, cells = _added(original, released, power=1)
    return Estimate(total, parts={"per cell": total / cells})


@norm("largest change of a record: the sum over its cells, in standard deviations")
def norm_max_row(original: Matrix, released: Matrix) -> Estimate:
    """M = max_i Σ_j d_ij (D'Acquisto and Naldi, eq. 3); per column in the part "per cell". No sampling is involved."""
    largest = float(max(over_rows(original, released, lambda *both: _moves(*both).sum(axis=0).max())))
    return Estimate(largest, parts={"per cell": largest / len(scales(original))})


@norm("root of the sum over all cells of their squared change in standard deviations")
def norm_frobenius(original: Matrix, released: Matrix) -> Estimate:
    """M = sqrt(Σ_i Σ_j d_ij²) (D'Acquisto and Naldi, eq. 4). No sampling is involved.

    When the k largest principal components are removed it is sqrt(n Σ_{i<=k} λ_i).
    """
    total, cells = _added(original, released, power=2)
    return Estimate(float(np.sqrt(total)), parts={"per cell": float(np.sqrt(total / cells))})


@gauge(
    "correlation of all cells of the original with those of the release, columns standardised",
    better="high",
    range=(-1, 1),
    paired=True,
    on_disk="passes",
)
def vector_correlation(original: Matrix, released: Matrix) -> Estimate:
    """The correlation of both tables read as one long vector each (D'Acquisto and Naldi, eq. 6).

    Columns are standardised by the original first: with raw values (in the parts) columns in large units drown the
    others. With the k largest principal components removed it is sqrt(1 - Σ_{i<=k} λ_i / p). No sampling is involved.
    """
    raw = [table.select(list(scales(original, needed=True))) for table in (original, released)]
    pieces = [piece for run in segments(*raw[0].shape) for piece in run]
    parts = {"raw values": _correlation(lambda of: [of(*(table.piece(rows) for table in raw)) for rows in pieces])}
    return Estimate(_correlation(partial(over_rows, original, released)), parts=parts)


def cell_correlation(before: Array, after: Array) -> float:
    """Pearson's over the cells that are there in both columns; 0 if one of them is constant."""
    return _correlation(lambda of: [of(old, new) for old, new in zip(pieces_of(before), pieces_of(after), strict=True)])


def _correlation(over: Over) -> float:
    """Pearson's over the cells that are there in both, in two passes; 0 if one of the vectors is constant."""
    looks = np.array([look for look in over(_look) if look[0, 0]])
    if not looks.size:
        return 0.0
    mean = looks[:, 1].sum(axis=0) / looks[:, 0].sum(axis=0)
    largest = np.maximum(looks[:, 3].max(axis=0) - mean, mean - looks[:, 2].min(axis=0))
    if not largest.all():
        return 0.0
    first, second, cross = np.sum(over(partial(_products, mean=mean, unit=largest)), axis=0)
    return float(np.clip(cross / np.sqrt(first) / np.sqrt(second), -1, 1))


def _look(before: Array, after: Array) -> Array:
    """Of both files: how many cells are there in both, their sum, the least and the largest."""
    known = ~np.isnan(before) & ~np.isnan(after)
    cells = [side[known] for side in (before, after)]
    if not known.any():
        return np.zeros((4, 2))
    return np.array([[side.size, side.sum(), side.min(), side.max()] for side in cells]).T


def _products(before: Array, after: Array, *, mean: Array, unit: Array) -> Array:
    """Sums of squares and products about the `mean` of each file, in a `unit` of each: raw values may be too large."""
    old, new = (before - mean[0]) / unit[0], (after - mean[1]) / unit[1]
    known = ~np.isnan(old) & ~np.isnan(new)
    old, new = old[known], new[known]
    return np.array([old @ old, new @ new, old @ new])
