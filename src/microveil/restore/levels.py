"""New residuals on two levels, made of drawn ones: per cluster and over all of them (Langsrud 2019, §6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.factor import MARGIN, completion, generalised_qr, largest_share

Modification = Literal["a", "b", "c"]


@dataclass(frozen=True, repr=False)
class NewResiduals:
    """What takes the place of the parts between and within clusters.

    `alpha` is the share of the drawn part between clusters that was taken, `limits` the largest share in each cluster;
    `short` numbers clusters that have fewer dimensions than their residuals need.
    """

    between: Array
    within: Array
    alpha: float | None = None
    limits: tuple[float, ...] = ()
    short: tuple[int, ...] = ()


def with_loadings_of(drawn: Array, original: Array) -> Array:
    """Drawn residuals with the covariance of the original ones: scores of the one, loadings of the other (eq. 4)."""
    old = generalised_qr(original)
    return generalised_qr(drawn).scores[:, : old.rank] @ old.loadings


def new_residuals(
    clusters: Sequence[NDArray[np.intp]],
    between: Array,
    within: Array,
    drawn_between: Array,
    drawn_within: Array,
    modification: Modification | None = None,
    alpha: float | None = None,
) -> NewResiduals:
    """Steps 6, 9 and 10 of the algorithm, or their modifications a, b and c.

    `clusters` are the rows of each cluster; the four parts, of the data and drawn, are rows x columns. `alpha` is the
    share for modification c. Without a modification the part between clusters is replaced over all records, and the
    part within inside each. The modifications keep the covariance of both together inside each cluster.
    """
    new_within = np.empty_like(within)
    short = []
    if modification is None:
        for number, rows in enumerate(clusters):
            old, scores = generalised_qr(within[rows]), generalised_qr(drawn_within[rows]).scores
            if scores.shape[1] < old.rank:
                short.append(number)
                continue
            new_within[rows] = scores[:, : old.rank] @ old.loadings
        return NewResiduals(with_loadings_of(drawn_between, between), new_within, short=tuple(short))
    new_between = np.zeros_like(between) if modification == "a" else with_loadings_of(drawn_between, between)
    wholes = [generalised_qr(np.vstack([within[rows], between[rows]])).loadings for rows in clusters]
    limits = tuple(largest_share(whole, new_between[rows]) for whole, rows in zip(wholes, clusters, strict=True))
    taken = _share(modification, alpha, limits)
    for number, (whole, rows) in enumerate(zip(wholes, clusters, strict=True)):
        missing = completion(whole, new_between[rows], min(taken, limits[number])).matrix
        scores = generalised_qr(drawn_within[rows]).scores
        if scores.shape[1] < missing.shape[0]:
            short.append(number)
            continue
        new_within[rows] = scores[:, : missing.shape[0]] @ missing
    return NewResiduals(taken * new_between, new_within, taken, limits, tuple(short))


def _share(modification: Modification, alpha: float | None, limits: Sequence[float]) -> float:
    """The share of the part between clusters: none (a), all (b), or as large as all clusters allow (c)."""
    if modification == "a":
        return 0.0
    if alpha is not None:
        return alpha
    return 1.0 if modification == "b" else min(1.0, min(limits) / (1 + MARGIN))
