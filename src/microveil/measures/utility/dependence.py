"""What happened to the relations between the columns: Pearson, Spearman, Kendall."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import numpy as np

from microveil.core.arrays import Array
from microveil.core.moments import moments
from microveil.core.sorted_columns import mid_ranks, pieces_of
from microveil.core.table import Matrix
from microveil.measures.base import Estimate, check_sensitive, distance, gauge, scales, standardised
from microveil.measures.utility.moments import (
    ColumnMoments,
    check_pairs,
    gaps,
    moments_in,
    moments_of_both,
    relative_bias,
)

MOST_BY_KENDALL = 400
"""Columns whose pairs are all compared by Kendall's tau at most: each pair is sorted."""

Ties = Literal["shared", "as_printed"]

cookbook = partial(gauge, better="neither", on_disk="passes")
"""Declares an input of the cookbook of Calviño, Aldeguer and Domingo-Ferrer (2017), which is neither good nor bad."""


def upper(matrix: Array) -> Array:
    """The entries above the diagonal."""
    return matrix[np.triu_indices(len(matrix), 1)]


def pearson(original: Matrix, released: Matrix) -> tuple[Array, Array]:
    """Correlation matrices of both files, from the pairs of cells that are there."""
    old, new = moments_of_both(original, released)
    return old.correlation(), new.correlation()


def spearman(original: Matrix, released: Matrix) -> tuple[Array, Array]:
    """Rank correlations: Pearson's of the ranks; equal values share their mean rank."""
    varying = list(scales(original, needed=True))
    check_pairs(len(varying))
    before, after = (_rank_correlation(table.select(varying)) for table in (original, released))
    return before, after


def _rank_correlation(table: Matrix) -> Array:
    """Pearson's correlations of the ranks, one file at a time: the ranks of a large one take room enough."""
    columns = table.columns
    if not any(np.isnan(column).any() for column in columns):
        ranks = Matrix([table.put_aside(mid_ranks(column)) for column in columns])
        summary = moments(ranks.piece, columns[0].size)
        sd = np.where(summary.sd > 0, summary.sd, 1.0)
        correlation: Array = summary.covariance / np.outer(sd, sd)
        return correlation
    with_holes = np.full((columns[0].size, len(columns)), np.nan)
    for j, column in enumerate(columns):
        there = ~np.isnan(column)
        with_holes[there, j] = mid_ranks(column[there])
    return ColumnMoments.of(with_holes).correlation()


def _of_pairs(original: Matrix, released: Matrix, of: Callable[[Array, Array], float]) -> tuple[Array, Array]:
    """A coefficient of all pairs of columns of both files, over the records that have both; 0 where it is none."""
    matrices = []
    for side in standardised(original, released):
        width = side.shape[1]
        check_pairs(width, MOST_BY_KENDALL)
        matrix = np.eye(width)
        for i, j in zip(*np.triu_indices(width, 1), strict=True):
            there = ~np.isnan(side[:, i]) & ~np.isnan(side[:, j])
            found = of(side[there, i], side[there, j]) if there.sum() > 1 else np.nan
            matrix[i, j] = matrix[j, i] = 0.0 if np.isnan(found) else found
        matrices.append(matrix)
    return matrices[0], matrices[1]


def _tau_b(x: Array, y: Array) -> float:
    """Kendall's tau-b, which allows for ties; in O(n log n)."""
    from scipy.stats import kendalltau

    return float(kendalltau(x, y).statistic)


def _eq_8(x: Array, y: Array) -> float:
    """Kendall's as printed: concordant less discordant pairs, tied ones counting as concordant (the sign of 0 is 1)."""
    pairs = x.size * (x.size - 1) / 2
    alike = (np.unique(of, axis=0, return_counts=True)[1] for of in (x, y, np.column_stack([x, y])))
    tied_x, tied_y, tied = (float((counts * (counts - 1)).sum() / 2) for counts in alike)
    tau = _tau_b(x, y)
    apart = 0.0 if np.isnan(tau) else tau * np.sqrt((pairs - tied_x) * (pairs - tied_y))
    return float((apart + tied_x + tied_y - tied) / pairs)


def _eq_7(x: Array, y: Array) -> float:
    """Spearman's as printed, with mean ranks for equal values."""
    return float(1 - 6 * np.square(mid_ranks(x) - mid_ranks(y)).sum() / (x.size * (x.size**2 - 1)))


def _matrix_bias(before: Array, after: Array) -> Estimate:
    """Hsu and Chen's mean over i <= j: the diagonal, which is 1 in both, is in the literal mean and in no other."""
    return relative_bias(upper(before), upper(after), kept=len(before))


@distance("relative change of Pearson's correlations, mean over the pairs of columns")
def correlation_bias(original: Matrix, released: Matrix) -> Estimate:
    """Relative bias of the correlation matrix (Hsu and Chen 2008, §5): 2/(m²+m) Σ_{i<=j} |C'_ij - C_ij| / |C_ij|.

    A correlation near 0 makes the literal figure explode; so the parts have it with denominators of at least 0.05
    ("floored") and with none ("absolute"), both without the diagonal, and the smallest |C_ij|. The paper's tables seem
    to be this figure divided by 100. No sampling is involved.
    """
    return _matrix_bias(*pearson(original, released))


@distance("relative change of Spearman's rank correlations, mean over the pairs of columns", on_disk="sample")
def rank_correlation_bias(original: Matrix, released: Matrix, *, ties: Ties = "shared") -> Estimate:
    """As `correlation_bias`, for Spearman's rank correlations (mean ranks for equal values).

    With `ties="as_printed"` by the paper's eq. 7, 1 - 6 Σ d² / (n (n² - 1)), which is not a correlation where values
    are equal.
    """
    printed = ties == "as_printed"
    return _matrix_bias(*(_of_pairs(original, released, _eq_7) if printed else spearman(original, released)))


@distance("relative change of Kendall's tau, mean over the pairs of columns", cost="slow", on_disk="sample")
def kendall_bias(original: Matrix, released: Matrix, *, ties: Ties = "shared") -> Estimate:
    """As `correlation_bias`, for Kendall's tau-b.

    With `ties="as_printed"` by the paper's eq. 8, in which a pair that is tied counts like one in the same order, so
    that two columns with many ties look alike.
    """
    return _matrix_bias(*_of_pairs(original, released, _eq_8 if ties == "as_printed" else _tau_b))


def _largest(before: Array, after: Array) -> Estimate:
    moved = gaps(upper(before), upper(after))
    return Estimate(float(moved.max(initial=0.0)), parts={"mean": float(moved.mean()) if moved.size else 0.0})


@gauge("largest change of a correlation", range=(0, 2), default=True, on_disk="passes", on_spark=True)
def correlation_difference(original: Matrix, released: Matrix) -> Estimate:
    """Largest absolute difference of Pearson's correlations; the mean is in the parts. No sampling is involved."""
    return _largest(*pearson(original, released))


@gauge("largest change of a rank correlation", range=(0, 2), default=True, on_disk="sample")
def rank_correlation_difference(original: Matrix, released: Matrix) -> Estimate:
    """Largest absolute difference of Spearman's rank correlations; the mean is in the parts."""
    return _largest(*spearman(original, released))


@cookbook("mean absolute correlation of a sensitive column with the others, in the original")
def between_correlation(original: Matrix, released: Matrix, *, sensitive: Sequence[int] | None = None) -> Estimate:
    """Between-correlation (Calviño, Aldeguer and Domingo-Ferrer 2017, eq. 6), an input of their cookbook.

    For one sensitive column p, the mean of |cor(x_p, x_i)| over all others; for several, over pairs of a sensitive and
    a public column; by default, the mean of Between(p) over all p. The part "released" has it for the release. No
    sampling is involved.
    """
    return _described(original, released, sensitive, between)


@cookbook("mean absolute correlation among the columns that are not sensitive, in the original")
def within_correlation(original: Matrix, released: Matrix, *, sensitive: Sequence[int] | None = None) -> Estimate:
    """Within-correlation (Calviño, Aldeguer and Domingo-Ferrer 2017, eq. 7), an input of their cookbook.

    The mean of |cor(x_i, x_j)| over pairs of public columns; by default, the mean of Within(-p) over all p. The part
    "released" has it for the release. No sampling is involved.
    """
    return _described(original, released, sensitive, within)


def between(correlation: Array, sensitive: Sequence[int]) -> float:
    """The mean |correlation| of sensitive and public columns (eq. 6); 0 if there is no pair."""
    chosen = np.asarray(sensitive, dtype=np.intp)
    public = np.delete(np.arange(len(correlation)), chosen)
    block = np.abs(correlation[np.ix_(chosen, public)])
    return float(block.mean()) if block.size else 0.0


def within(correlation: Array, sensitive: Sequence[int]) -> float:
    """The mean |correlation| among public columns (eq. 7); 0 if there is no pair."""
    public = np.delete(np.arange(len(correlation)), np.asarray(sensitive, dtype=np.intp))
    pairs = np.abs(upper(correlation[np.ix_(public, public)]))
    return float(pairs.mean()) if pairs.size else 0.0


def _described(
    original: Matrix, released: Matrix, sensitive: Sequence[int] | None, figure: Callable[[Array, Sequence[int]], float]
) -> Estimate:
    """The `figure` of the correlations for the `sensitive` columns, or its mean over each column taken as the one."""
    width = original.shape[1]
    check_sensitive(sensitive, width)
    groups = [[p] for p in range(width)] if sensitive is None else [list(sensitive)]
    before, after = (moments_in(table, _own_units(table)).correlation() for table in (original, released))
    old, new = (float(np.mean([figure(matrix, group) for group in groups])) for matrix in (before, after))
    return Estimate(old, parts={"released": new})


def _own_units(table: Matrix) -> dict[int, tuple[float, float]]:
    """A unit for each column. Constant ones count as columns without correlation, so that numbers stay the same."""
    units = scales(table)
    for j, column in enumerate(table.columns):
        if j not in units:  # the first cell that is there; 0 if none is
            cells = (piece[~np.isnan(piece)] for piece in pieces_of(column))
            units[j] = next((float(there[0]) for there in cells if there.size), 0.0), 1.0
    return dict(sorted(units.items()))
