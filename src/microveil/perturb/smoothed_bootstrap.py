"""The smoothed bootstrap: whole records, drawn anew and blurred."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

from pydantic import Field

from microveil.core.arrays import Array
from microveil.perturb.base import Columns
from microveil.perturb.redraw import donors, effective_rows
from microveil.perturb.together import JointNormalPerturbation, with_covariance


class SmoothedBootstrap(JointNormalPerturbation):
    """Draw whole records with replacement, add a little normal noise, and shrink the sum to the variance it had.

    x* = mean + (x of a random record - mean + h noise) / sqrt(1 + h²), the noise having the covariance of the data: a
    draw from their kernel density estimate, shrunk so that means and covariances come back on average. The bandwidth h
    is the best one for normal data. With survey weights, heavy records are drawn more often. At a small bandwidth a
    released record sits beside the one it was made of.
    """

    reference: ClassVar[str] = "Silverman (1986), §4.3.2 and §6.4.1; Efron (1979)"
    replaces: ClassVar[bool] = True

    bandwidth_ratio: Annotated[
        float,
        Field(gt=0, le=10, description="width of the smoothing, in units of the rule of thumb for normal data"),
    ] = 1.0

    @property
    def keeps_covariance(self) -> bool:
        """Records are drawn whole, and the noise is as correlated as they are."""
        return True

    def apply_together(self, columns: Columns) -> Array:
        """Mean + (drawn - mean + h noise) / sqrt(1 + h²)."""
        count, rows = columns.values.shape
        h = self.bandwidth_ratio * bandwidth(count, effective_rows(rows, columns.weights))
        mean = columns.moments.mean[:, None]
        drawn = columns.values[:, donors(columns.stream, rows, columns.weights)] - mean
        drawn += h * with_covariance(self.deviates(columns), columns.moments.covariance)
        return mean + drawn / math.sqrt(1 + h * h)


def bandwidth(columns: int, rows: float) -> float:
    """Silverman's rule for normal data of unit covariance: (4 / ((d + 2) n)) to the power of 1 / (d + 4)."""
    return float((4 / ((columns + 2) * rows)) ** (1 / (columns + 4)))
