"""How far the files are apart: norms and the correlation of all cells, normal divergences, and which columns moved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError, ParameterError
from microveil.core.linalg import rank_of, sorted_eigen, square_root
from microveil.core.sorted_columns import pieces_of
from microveil.core.table import Matrix
from microveil.core.threads import segments
from microveil.measures.base import Estimate, check_sensitive, distance, gauge, over_rows, scales
from microveil.measures.utility.moments import moments_of_both

Over = Callable[[Callable[[Array, Array], Array]], list[Array]]
"""Calls a function with every piece of two files, and gives back what it said."""

norm = partial(distance, paired=True, on_spark=False)

RIDGE = 1e-2

UNSEEN = 1e-12
"""Variance (in units of the original's) that is round-off."""


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
    """Sums of squares and products of both files (`before`, `after`) about the `mean` of each, in a `unit` of each.

    Raw values may be too large to be squared.
    """
    old, new = (before - mean[0]) / unit[0], (after - mean[1]) / unit[1]
    known = ~np.isnan(old) & ~np.isnan(new)
    old, new = old[known], new[known]
    return np.array([old @ old, new @ new, old @ new])


def _normal(original: Matrix, released: Matrix) -> tuple[Array, Array, Array]:
    """Covariance matrices of both files, and the difference of their means, in the original's standard deviations."""
    old, new = moments_of_both(original, released)
    return old.product(), new.product(), new.mean - old.mean


@distance("Kullback-Leibler divergence of two normal distributions with the files' means and covariances")
def kl_gaussian(original: Matrix, released: Matrix) -> Estimate:
    """Kullback-Leibler divergence under normality (D'Acquisto and Naldi, eq. 8).

    ½ [tr(R_a R_b⁻¹) - ln(|R_a| / |R_b|) - m] + ½ (ā - b̄)' R_b⁻¹ (ā - b̄). It is infinite if the release lacks a
    dimension that the original has (as after the removal of components), or has one that the original lacks. Linear
    rules that hold in both files take dimensions from both, and the rest is compared. No sampling is involved.
    """
    before, after, shift = _normal(original, released)
    values, vectors = sorted_eigen(before)
    rank = rank_of(values)
    axes, lost = vectors[:, :rank] / np.sqrt(values[:rank]), vectors[:, rank:]
    outside = np.abs(lost.T @ after @ lost).max(initial=0.0) + np.square(lost.T @ shift).max(initial=0.0)
    inside = axes.T @ after @ axes
    if outside > UNSEEN or rank_of(sorted_eigen(inside)[0]) < rank:
        return Estimate(np.inf, note="one of the files has dimensions that the other lacks")
    return Estimate(_divergence(np.eye(rank), inside, axes.T @ shift))


@distance(
    "Kullback-Leibler divergence of two normal distributions, with a little added to all variances to keep it finite"
)
def kl_ridge(original: Matrix, released: Matrix, *, ridge: float = RIDGE) -> Estimate:
    """`kl_gaussian` with `ridge` (in units of the original's variances) added to the diagonals of both covariances.

    With the k largest principal components removed it is ½ Σ_{i<=k} [r_i - ln(1 + r_i)], r_i = λ_i / ridge. Only
    figures with the same ridge compare. No sampling is involved.
    """
    if not ridge > 0:
        raise ParameterError("ridge: must be above 0", "kl_gaussian is the divergence without it")
    before, after, shift = _normal(original, released)
    extra = ridge * np.eye(len(shift))
    return Estimate(_divergence(before + extra, after + extra, shift))


@distance("squared Wasserstein distance of two normal distributions with the files' means and covariances")
def wasserstein_gaussian(original: Matrix, released: Matrix) -> Estimate:
    """|ā - b̄|² + tr(A + B - 2 (A^½ B A^½)^½), in variances of the original's columns (Dowson and Landau 1982).

    Finite for every release. With the k largest principal components removed it is Σ_{i<=k} λ_i. No sampling is
    involved.
    """
    before, after, shift = _normal(original, released)
    root = square_root(before)
    cross = np.sqrt(np.clip(np.linalg.eigvalsh(root @ after @ root), 0, None)).sum()
    return Estimate(max(float(shift @ shift + np.trace(before) + np.trace(after) - 2 * cross), 0.0))


def _divergence(before: Array, after: Array, shift: Array) -> float:
    """Eq. 8 for matrices of full rank, by whitening with the Cholesky factor of the second.

    ½ Σ (v_i - 1 - ln v_i) over the eigenvalues of the whitened first one: near v = 1 nothing cancels.
    """
    inverse = np.linalg.inv(np.linalg.cholesky(after))
    excess = np.linalg.eigvalsh(inverse @ (before - after) @ inverse.T)
    return float((excess - np.log1p(np.maximum(excess, -1 + 1e-15))).sum() + np.square(inverse @ shift).sum()) / 2


@gauge(
    "how far sensitive columns still go with their originals, and others do not any more, mean over the columns",
    paired=True,
    on_disk="passes",
)
def selectivity(original: Matrix, released: Matrix, *, sensitive: Sequence[int] | None = None) -> Estimate:
    """Selectivity (Calviño, Aldeguer and Domingo-Ferrer 2017, eq. 3 and §IV), twice a part of their score `overall`.

    For a sensitive column |cor(x, x')|, which protection should bring to 0; for any other 1 - |cor(x, x')|, as it was
    to be left alone; the mean over the columns. By default all columns are sensitive: then it is the mean of |cor|, and
    1 if nothing was done. Parts have the mean of |cor| of either kind. With two columns that correlate it is near one
    half for every method that exchanges components, so it cannot tell them apart there. No sampling is involved.
    """
    hidden, others = _kept(original, released, sensitive)
    groups = {"sensitive": list(hidden.values()), "others": list(others.values())}
    indices = [*groups["sensitive"], *(1 - value for value in groups["others"])]
    parts = {name: float(np.mean(values)) for name, values in groups.items() if values}
    return Estimate(float(np.mean(indices)), parts=parts)


@gauge(
    "largest absolute correlation of a sensitive column with its original: near 1, it was not protected",
    paired=True,
    on_disk="passes",
)
def sensitive_correlation(original: Matrix, released: Matrix, *, sensitive: Sequence[int] | None = None) -> Estimate:
    """Max |cor(x, x')| over the sensitive columns (by default all).

    A method that leaves a column as it is has the best figures of utility, and a good `selectivity` if most columns are
    public. So `compare` and `recommend` leave out of their rankings what is above .9 here. No sampling is involved.
    """
    hidden, _ = _kept(original, released, sensitive)
    if not hidden:
        raise DataError("every sensitive column is constant", "there is nothing to protect in them")
    largest = max(hidden, key=lambda j: hidden[j])
    return Estimate(hidden[largest], note=f"of column {largest} (from 0)")


def _kept(
    original: Matrix, released: Matrix, sensitive: Sequence[int] | None
) -> tuple[dict[int, float], dict[int, float]]:
    """|cor(x, x')| by the number of the column, of sensitive columns (by default all) and of the others."""
    width = original.shape[1]
    check_sensitive(sensitive, width)
    chosen = set(range(width)) if sensitive is None else set(sensitive)

    def kept_of(j: int) -> float:
        pieces = list(zip(pieces_of(original.columns[j]), pieces_of(released.columns[j]), strict=True))
        return abs(_correlation(lambda of: [of(old, new) for old, new in pieces]))

    kept = {j: kept_of(j) for j in scales(original, needed=True)}
    first, second = ({j: value for j, value in kept.items() if (j in chosen) == of} for of in (True, False))
    return first, second
