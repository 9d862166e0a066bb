"""Microaggregation with noise: similar records become their mean, blurred by what the means have lost."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from microveil.core.arrays import Array
from microveil.core.moments import moments
from microveil.perturb.base import Columns, JointNormalPerturbation, with_covariance
from microveil.perturb.microaggregate import GroupSize, check_group_size, group_means, similar_records


class MicroaggregateNoise(JointNormalPerturbation):
    """Replace records by the means of groups of similar ones (MDAV), and add normal noise of the covariance lost by it.

    Oganian and Karr (2006): the noise is N(0, S_X - S_M), with S_X the covariance of the data and S_M that of the
    means. What is lost is how values vary about the means of their groups, so it is a covariance itself, of those
    differences. Means and covariances come back on average; the noise is not given a mean of exactly zero. With survey
    weights the means of the groups and all covariances are weighted; the groups count records.
    """

    reference: ClassVar[str] = "Oganian and Karr (2006)"
    retention_varies: ClassVar[bool] = True  # with how similar similar records are

    group_size: GroupSize = 3

    @property
    def keeps_covariance(self) -> bool:
        """The noise has the covariance that is missing."""
        return True

    def apply_together(self, columns: Columns) -> Array:
        """Means of groups + noise."""
        values, weights = columns.values, columns.weights
        means = group_means(values, similar_records(values, self.group_size), weights)
        differences = values - means
        lost = moments(lambda piece: differences[:, piece], values.shape[1], weights=weights).covariance
        return means + with_covariance(self.deviates(columns), lost / _share_shown(values.shape[1], weights))

    def check(self, rows: int, columns: int) -> None:
        """There must be rows enough for one group, and given draws must fit."""
        check_group_size(self.group_size, rows)
        super().check(rows, columns)


def _share_shown(rows: int, weights: Array | None) -> float:
    """The share of the variance of independent draws that shows about their own mean: (n - 1) / n without weights."""
    return 1 - 1 / rows if weights is None else 1 - float(np.square(weights).sum() / weights.sum() ** 2)
