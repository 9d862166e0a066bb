"""How far the records moved: matrix norms and the correlation of all cells (D'Acquisto and Naldi)."""

from __future__ import annotations

from functools import partial

import numpy as np

from microveil.core.arrays import Array
from microveil.core.measure import Reading, gauge, scales, standardised
from microveil.core.table import Matrix

norm = partial(gauge, better="low", range=(0.0, np.inf), cost="fast", paired=True)


def _moves(original: Matrix, released: Matrix) -> Array:
    """d_ij = |a_ij - b_ij| / σ_j, σ_j with the divisor n (eq. 1); 0 where a cell is missing in either file."""
    before, after = standardised(original, released)
    return np.nan_to_num(np.abs(after - before))


@norm("sum over all cells of their change in standard deviations")
def norm_sum(original: Matrix, released: Matrix) -> Reading:
    """M = Σ_i Σ_j d_ij (D'Acquisto and Naldi, eq. 2); per cell in the parts. No sampling is involved."""
    moves = _moves(original, released)
    return Reading(float(moves.sum()), parts={"per cell": float(moves.mean())})


@norm("largest change of a record: the sum over its cells, in standard deviations")
def norm_max_row(original: Matrix, released: Matrix) -> Reading:
    """M = max_i Σ_j d_ij (D'Acquisto and Naldi, eq. 3); per cell in the parts. No sampling is involved."""
    moves = _moves(original, released)
    largest = float(moves.sum(axis=1).max())
    return Reading(largest, parts={"per cell": largest / moves.shape[1]})


@norm("root of the sum over all cells of their squared change in standard deviations")
def norm_frobenius(original: Matrix, released: Matrix) -> Reading:
    """M = sqrt(Σ_i Σ_j d_ij²) (D'Acquisto and Naldi, eq. 4). No sampling is involved.

    When the k largest principal components are removed it is sqrt(n Σ_{i<=k} λ_i).
    """
    moves = _moves(original, released)
    return Reading(float(np.sqrt(np.square(moves).sum())), parts={"per cell": float(np.sqrt(np.square(moves).mean()))})


@gauge(
    "correlation of all cells of the original with those of the release, columns standardised",
    better="high",
    range=(-1, 1),
    cost="fast",
    paired=True,
)
def vector_correlation(original: Matrix, released: Matrix) -> Reading:
    """The correlation of both tables read as one long vector each (D'Acquisto and Naldi, eq. 6).

    Columns are standardised by the original first: with raw values (in the parts) columns in large units drown the
    others. With the k largest principal components removed it is sqrt(1 - Σ_{i<=k} λ_i / p). No sampling is involved.
    """
    before, after = standardised(original, released)
    varying = list(scales(original))
    raw = (np.column_stack([table.columns[j] for j in varying]) for table in (original, released))
    return Reading(cell_correlation(before, after), parts={"raw values": cell_correlation(*raw)})


def cell_correlation(before: Array, after: Array) -> float:
    """Pearson's over the cells that are there in both; 0 if one of the vectors is constant."""
    known = ~np.isnan(before) & ~np.isnan(after)
    if not known.any():
        return 0.0
    units = []
    for side in (before[known], after[known]):
        centred = side - side.mean()
        largest = np.abs(centred).max()
        if largest == 0:
            return 0.0
        centred /= largest  # raw values may be too large to be squared
        units.append(centred / np.sqrt(centred @ centred))
    return float(np.clip(units[0] @ units[1], -1, 1))
