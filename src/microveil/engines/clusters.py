"""Clusters: fits inside clusters and across them stay, and what they leave is drawn anew in each.

Langsrud (2019), §6. The same split into four parts is made of the data and of drawn values; the scores of the one get
the loadings of the other, in each cluster and over all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.errors import DataError, ParameterError
from microveil.core.moments import moments
from microveil.core.table import Groups, Matrix, Microdata, rows_by_group
from microveil.decompose import Clustered, ClusterLayout, Levels, Parts, crossed, fit_levels, outlying
from microveil.engines.pipeline import Spectrum
from microveil.engines.rows import ALONE, HIGH_LEVERAGE, RunContext
from microveil.methods import Plan
from microveil.perturb import NormalPerturbation, check_draws, similar_records
from microveil.restore import NewResiduals, new_residuals

NEEDED = 2
"""Dimensions a cluster must have left for its residuals: with one, its records come back as they are or mirrored."""


OUTLYING = 1
"""The number of the cluster of outlying records."""


@dataclass(frozen=True, repr=False)
class Layers:
    """The clusters of a table, and the regressions inside and across them."""

    groups: Groups
    pieces: NDArray[np.intp]
    levels: Levels

    def sizes(self, numbers: Sequence[int]) -> str:
        """How large some of the clusters are. What they are called are cells, which no error shows."""
        sizes = np.bincount(self.groups.numbers)[list(numbers)]
        low, high = int(sizes.min()), int(sizes.max())
        return f"of {low:,} records" if low == high else f"of {low:,} to {high:,} records"


def clustered(context: RunContext, table: Microdata) -> tuple[list[Array], Spectrum]:
    """The released confidential columns, and the components of what was replaced."""
    plan = context.plan
    if not isinstance(plan.decompose, Clustered):
        raise TypeError(f"{type(plan.decompose).__name__} makes no clusters")
    layout = plan.decompose.layout
    if table.weights is not None:
        raise ParameterError("weight: plays no part inside clusters", "leave it out, or use ipso with strata")
    context.progress("finding clusters", 0.2)
    layers = _layers(layout, table, context)
    given = plan.perturb.draws if isinstance(plan.perturb, NormalPerturbation) else None
    values, means = _centred(np.column_stack(table.confidential.columns))
    own = layers.levels.split(values)
    high = _check(layers, layout, own, table, given is not None)
    context.progress("redrawing clusters", 0.4)
    if isinstance(plan.perturb, NormalPerturbation):
        check_draws(given, table.count, values.shape[1])
        draws = _drawn(values.shape, context) if given is None else given[:, : values.shape[1]]
        drawn = layers.levels.split(draws)
        new = new_residuals(
            layers.levels.clusters,
            own.between,
            own.within,
            drawn.between,
            drawn.within,
            layout.modification,
            layout.alpha,
        )
        _check_solved(layers, layout, new)
        released = own.fit + new.between + new.within
    else:
        new, released = None, own.fit
    spectrum = _spectrum(plan, table, own, context.stream("decompose"))
    columns = list(np.ascontiguousarray((released + means).T))
    for column, original in zip(columns, table.confidential.columns, strict=True):
        np.copyto(column, original, where=_left_alone(layout, layers))
    return columns, replace(
        spectrum,
        leverage=high,
        clusters=layers.groups.numbers,
        pieces=layers.pieces,
        found=_found(layers, layout, new),
        axes=replace(spectrum.axes, remark=_remark(layout, layers, new)),
    )


def _left_alone(layout: ClusterLayout, layers: Layers) -> NDArray[np.bool_]:
    """Which records are outlying and stay as they are."""
    return np.asarray((layers.groups.numbers == OUTLYING) & layout.keeps_outliers)


def _centred(columns: Array) -> tuple[Array, Array]:
    """Columns without their means, and these: every cluster has a constant, and large means would cost digits."""
    means: Array = columns.mean(axis=0)
    return columns - means, means


def _layers(layout: ClusterLayout, table: Microdata, context: RunContext) -> Layers:
    """The clusters and their regressions, as the layout says."""
    clustering = table.clustering
    groups = clustering.clusters or _found_clusters(layout, table, context)
    pieces = None if clustering.pieces is None else clustering.pieces.numbers
    if layout.as_pieces:
        pieces, groups = groups.numbers, _one_cluster(table.count)
    regressors, _ = _centred(np.column_stack([np.empty((table.count, 0)), *table.regressors.columns]))
    if layout.public_is_local:
        local, across = regressors, np.empty((table.count, 0))
    else:
        taken = {*clustering.local, *clustering.local_pieces, *clustering.grouped}
        local = regressors[:, list(clustering.local)]
        across = regressors[:, [j for j in range(table.public) if j not in taken]]
    if clustering.groups is not None:
        _check_groups(groups, clustering.groups.numbers)
        across = np.hstack([across, crossed(regressors[:, list(clustering.grouped)], clustering.groups.numbers)])
    clusters = rows_by_group(groups.numbers)
    if pieces is None:
        return Layers(groups, groups.numbers, fit_levels(clusters, local, across))
    cut = np.unique(groups.numbers * (pieces.max() + 1) + pieces, return_inverse=True)[1]
    levels = fit_levels(clusters, local, across, rows_by_group(cut), regressors[:, list(clustering.local_pieces)])
    return Layers(groups, cut, levels)


def _check_groups(clusters: Groups, groups: NDArray[np.intp]) -> None:
    """Groups are made of whole clusters: only then have they constants, and slopes on columns come back in each."""
    pairs = np.unique(clusters.numbers * (groups.max() + 1) + groups) // (groups.max() + 1)
    torn = int(np.count_nonzero(np.bincount(pairs) > 1))
    if torn:
        raise DataError(
            f"groups: the records of {torn} clusters are not all in one group",
            "use groups of whole clusters, or make the clusters smaller by the columns of the groups",
        )


def _one_cluster(count: int) -> Groups:
    return Groups(np.zeros(count, dtype=np.intp), ("all records",))


def _found_clusters(layout: ClusterLayout, table: Microdata, context: RunContext) -> Groups:
    """Clusters that no column makes: similar records, ordinary and outlying ones, or all records in one."""
    if layout.outlier_quantile is not None:
        values = np.column_stack(table.confidential.columns)
        outliers = outlying(values, layout.outlier_quantile, context.stream("outliers"))
        if outliers.all() or not outliers.any():
            return _one_cluster(table.count)
        return Groups(outliers.astype(np.intp), ("ordinary records", "outlying records"))
    if layout.similar is None:
        return _one_cluster(table.count)
    if layout.similar > table.count:
        raise DataError(
            f"group_size: {layout.similar} records asked, but there are {table.count} rows", "use smaller groups"
        )
    # Similar in all that is known of them: public columns tell records apart, too.
    numbers = similar_records(np.vstack(table.values.columns), layout.similar).astype(np.intp)
    return Groups(numbers, tuple(f"cluster {number + 1}" for number in range(int(numbers.max()) + 1)))


def _drawn(shape: tuple[int, int], context: RunContext) -> Array:
    """Normal deviates for every cell, a stream for each column."""
    return np.column_stack([context.stream("clusters", j).normal(shape[0]) for j in range(shape[1])])


def _check(layers: Layers, layout: ClusterLayout, own: Parts, table: Microdata, given: bool) -> int:
    """Is there anything to replace, everywhere? Returns how many records stand far out in what is regressed on."""
    names = table.confidential_names
    fitted = [names[j] for j in np.flatnonzero(~own.residuals.any(axis=0))]
    if fitted:
        raise DataError(
            f"the regressions determine {', '.join(fitted)}: nothing of it would be replaced",
            "regress on fewer columns, use larger clusters, or leave it out of confidential",
        )
    if given:
        return 0
    small = [number for number, free in enumerate(layers.levels.free) if free < NEEDED]
    small = [number for number in small if not (layout.keeps_outliers and number == OUTLYING)]
    if small:
        merge = "merge them" if layout.outlier_quantile is None else "use another outlier_quantile, or ipso"
        raise DataError(
            f"clusters: {len(small)}, {layers.sizes(small)}, are too small: their records would come back as they are "
            "or mirrored",
            f"{merge}: each needs {NEEDED} records more than is regressed on in it, the constant included",
        )
    leverage = np.where(_left_alone(layout, layers), 0.0, layers.levels.leverage)
    alone = int(np.count_nonzero(leverage > ALONE))
    if alone:
        raise DataError(
            f"{alone} records are alone in what is regressed on, and would be released as they are",
            "use larger pieces or clusters, or regress on fewer columns",
        )
    return int(np.count_nonzero(leverage > HIGH_LEVERAGE))


def _check_solved(layers: Layers, layout: ClusterLayout, new: NewResiduals) -> None:
    """Were there residuals with the covariances that are wanted, in every cluster?"""
    short = [number for number in new.short if not (layout.keeps_outliers and number == OUTLYING)]
    if short:
        raise DataError(
            f"clusters: {len(short)}, {layers.sizes(short)}, have too few for their covariances",
            "merge them, regress on fewer columns, or use no modification",
        )
    if new.alpha is None or layout.modification == "a":
        return
    unsolved = [number for number, limit in enumerate(new.limits) if limit < new.alpha]
    if unsolved:
        raise DataError(
            f"modification: in {len(unsolved)} clusters, {layers.sizes(unsolved)}, there are no residuals with alpha = "
            f"{new.alpha:g}; the limit is {min(new.limits):.6g}",
            "use modification='c' without alpha, which takes as much as there is room for",
        )


def _remark(layout: ClusterLayout, layers: Layers, new: NewResiduals | None) -> str:
    alone = int(np.count_nonzero(_left_alone(layout, layers)))
    if alone:
        return f"{alone} outlying records are released as they are (outliers='keep'): whoever knows one finds it"
    if new is None or new.alpha is None or layout.alpha is not None or new.alpha in (0.0, 1.0):
        return ""
    return f"of what was drawn between clusters alpha = {new.alpha:.6g} was taken, as clusters have no room for more"


def _found(layers: Layers, layout: ClusterLayout, new: NewResiduals | None) -> dict[str, float]:
    """How many clusters there are, the smallest of them and of their pieces, and alpha with its limit."""
    sizes, pieces = np.bincount(layers.groups.numbers), np.bincount(layers.pieces)
    if layout.as_pieces:
        sizes = pieces
    found = {"clusters": float(sizes.size), "smallest_cluster": float(sizes.min())}
    if layout.pieces:
        found["smallest_piece"] = float(pieces.min())
    if new is not None and new.alpha is not None:
        found |= {"alpha": new.alpha, "alpha_limit": min(new.limits)}
    return found


def _spectrum(plan: Plan, table: Microdata, own: Parts, stream: Any) -> Spectrum:
    """The components of what was replaced, over all records."""
    residuals = moments(Matrix.from_array(own.residuals).piece, table.count)
    variance = moments(table.confidential.piece, table.count).variance
    axes = plan.decompose.fit(residuals, lambda most: np.empty((0, most)), stream)
    selected = list(range(axes.count))
    return Spectrum(table.confidential_names, axes, selected, axes.variance_shares(variance), {})
