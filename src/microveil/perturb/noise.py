"""Noise: the old scores, blurred."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

from pydantic import Field

from microveil.core.arrays import Array
from microveil.perturb.base import Column, NormalPerturbation


class Noise(NormalPerturbation):
    """Add normal noise whose standard deviation is a share of the component's.

    Calviño (2017), §3.2. The sum is brought back to the component's variance, so that covariances hold on
    average and the correlation with the original is 1/sqrt(1 + ratio²).
    """

    reference: ClassVar[str] = "Calviño (2017), §3.2; Brand (2002)"
    by_rows: ClassVar[bool] = True

    noise_sd_ratio: Annotated[
        float,
        Field(gt=0, le=10, description="standard deviation of the noise, as a share of the component's own"),
    ] = 0.5

    def apply(self, column: Column) -> Array:
        """(z + ratio sd N(0, 1)) / sqrt(1 + ratio²) about the mean."""
        blurred = (column.values - column.mean) + self.noise_sd_ratio * column.sd * self.deviates(column)
        return column.mean + blurred * self.retained()

    def retained(self) -> float:
        """1/sqrt(1 + ratio²)."""
        return 1 / math.sqrt(1 + self.noise_sd_ratio**2)
