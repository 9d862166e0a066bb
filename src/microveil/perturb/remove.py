"""Removal: the component is taken out, and nothing put in its place."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from microveil.core.arrays import Array
from microveil.perturb.base import Column, ColumnPerturbation


class Remove(ColumnPerturbation):
    """Set the component to its mean, which is zero.

    The means of the data stay; variances shrink by what the component had, and nothing is random. It hides no record:
    all that is left of one is exact.
    """

    reference: ClassVar[str] = "D'Acquisto and Naldi, §III, step 3"
    keeps_mean: ClassVar[bool] = True
    keeps_variance: ClassVar[bool] = False
    random: ClassVar[bool] = False
    by_rows: ClassVar[bool] = True

    def apply(self, column: Column) -> Array:
        """Zeros."""
        return np.zeros_like(column.values)
