"""Normal noise for all columns together: drawn or given, with the covariance that is asked for."""

from __future__ import annotations

import numpy as np

from microveil.core.arrays import Array
from microveil.core.linalg import square_root
from microveil.core.parameters import Draws
from microveil.perturb.base import Columns, JointPerturbation, check_given


class JointNormalPerturbation(JointPerturbation):
    """Base of perturbations of all columns together that draw normal deviates, which tests may give instead."""

    draws: Draws = None

    def deviates(self, columns: Columns) -> Array:
        """Standard normal deviates, a row for each column."""
        if self.draws is not None:
            return self.draws.T
        count, rows = columns.values.shape
        return np.array([columns.stream.child(f"column {j}").normal(rows) for j in range(count)])

    def check(self, rows: int, columns: int) -> None:
        """Given draws must fit."""
        check_given("draws", self.draws, rows, columns)


def with_covariance(deviates: Array, covariance: Array) -> Array:
    """Independent deviates (a row for each column) turned into noise of this covariance.

    By the symmetric root, so that no column comes before another; of the correlations, as columns may differ in unit.
    """
    sd = np.sqrt(np.diagonal(covariance))
    unit = np.where(sd > 0, sd, 1.0)
    return unit[:, None] * (square_root(covariance / np.outer(unit, unit)) @ deviates)
