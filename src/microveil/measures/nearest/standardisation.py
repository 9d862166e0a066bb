"""Three ways to look at both files when records are compared: as they are, without correlations, and by ranks.

Missing cells are set to the middle of their column in both files; as a record's own cells are missing in the same
places, this makes its own release a little nearer and the figures a little too high rather than too low. A record
without a single cell that is there in both files is never a hit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.linalg import rank_of, sorted_eigen
from microveil.core.sorted_columns import mid_ranks
from microveil.core.table import Matrix
from microveil.measures.base import means_and_sds, scales, standardised, without_holes


@dataclass(frozen=True, repr=False)
class StandardisedPair:
    """Both files in coordinates in which distances are Euclidean, without holes; and records known in both."""

    before: Array
    after: Array
    known: Mask


def plain_view(original: Matrix, released: Matrix) -> StandardisedPair:
    """Columns in standard deviations of the original."""
    before, after = standardised(original, released)
    return StandardisedPair(without_holes(before), without_holes(after), known_together(before, after))


def whitened_view(original: Matrix, released: Matrix) -> StandardisedPair:
    """Principal components of the original, each with unit variance: Euclidean distances are Mahalanobis' there."""
    view = plain_view(original, released)
    axes = whitening_axes(view.before)
    return StandardisedPair(view.before @ axes, view.after @ axes, view.known)


def ranked_view(original: Matrix, released: Matrix) -> StandardisedPair:
    """Each value by its rank in its own file."""
    before, after = standardised(original, released)
    return StandardisedPair(relative_ranks(before), relative_ranks(after), known_together(before, after))


View = Callable[[Matrix, Matrix], StandardisedPair]

VIEWS: dict[str, View] = {
    "dbrl": plain_view,
    "mahalanobis_linkage": whitened_view,
    "rank_linkage": ranked_view,
}
"""The views by the linkage that uses them."""


def known_together(before: Array, after: Array) -> Mask:
    """Records with at least one cell that is there in both files."""
    if len(before) != len(after):  # nobody's release is known
        return np.zeros(len(before), dtype=bool)
    known: Mask = np.any(~np.isnan(before) & ~np.isnan(after), axis=1)
    return known


def on_axes(values: Array, axes: Array | None) -> Array:
    """Standardised rows without holes, turned onto the axes if there are any."""
    filled: Array = np.nan_to_num(values)
    return filled if axes is None else filled @ axes


def whitening_axes_of(table: Matrix) -> Array:
    """`whitening_axes` of the standardised columns of a table whose rows pass by."""
    found = scales(table, needed=True)
    products = partial(_products, *means_and_sds(found))
    return axes_of(table.total(products, list(found)) / table.shape[0])


def _products(mean: Array, sd: Array, cells: Array, rows: slice) -> Array:  # noqa: ARG001 - a row map
    filled = np.nan_to_num((cells - mean) / sd)
    products: Array = filled @ filled.T
    return products


def whitening_axes(values: Array) -> Array:
    """Axes on which centred columns have unit variance and no correlation; those that are round-off are left out."""
    return axes_of(values.T @ values / len(values))


def axes_of(covariance: Array) -> Array:
    """Axes on which columns with this covariance have unit variance and no correlation, without those of round-off."""
    variances, vectors = sorted_eigen(covariance)
    rank = rank_of(variances)
    return vectors[:, :rank] / np.sqrt(variances[:rank])


def relative_ranks(values: Array) -> Array:
    """Ranks from 0 to 1 less a half, in units of their standard deviation; missing cells in the middle."""
    scaled = np.zeros_like(values)
    for column, cells in zip(scaled.T, values.T, strict=True):
        there = ~np.isnan(cells)
        column[there] = ((mid_ranks(cells[there]) - 0.5) / max(there.sum(), 1) - 0.5) * np.sqrt(12)
    return scaled
