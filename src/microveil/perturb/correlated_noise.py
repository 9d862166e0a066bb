"""Correlated noise: the old columns, blurred along their own correlations."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from microveil.core.arrays import Array
from microveil.perturb.base import Columns
from microveil.perturb.together import JointNormalPerturbation, with_covariance
from microveil.perturb.units import no_percentage


class CorrelatedNoise(JointNormalPerturbation):
    """Shrink all columns towards their means, and add normal noise that has the covariance they lost.

    x* = mean + sqrt(1 - s) (x - mean) + noise of covariance s Σ, with Σ the covariance of the data: means and
    covariances come back on average, and every column keeps a correlation of sqrt(1 - s) with its original. With
    noise that is independent from column to column, variances come back, but correlations shrink by 1 - s.
    """

    reference: ClassVar[str] = "Kim (1986); Tendick and Matloff (1994)"

    noise_variance_share: Annotated[
        float, Field(gt=0, lt=1, description="share of each released column's variance that is noise, as a fraction")
    ] = 0.2
    noise_covariance: Annotated[
        Literal["data", "diagonal"],
        Field(
            description="covariance of the noise: that of the data, or none between columns, which lets correlations "
            "shrink"
        ),
    ] = "data"

    @field_validator("noise_variance_share", mode="before")
    @classmethod
    def _no_percentage(cls, value: Any) -> Any:
        return no_percentage(value, "a fraction of the variance")

    @property
    def keeps_covariance(self) -> bool:
        """Only noise that is as correlated as the data leaves them as correlated as they were."""
        return self.noise_covariance == "data"

    def apply_together(self, columns: Columns) -> Array:
        """Mean + sqrt(1 - s) (x - mean) + sqrt(s) noise."""
        mean, deviates = columns.moments.mean[:, None], self.deviates(columns)
        if self.noise_covariance == "data":
            noise = with_covariance(deviates, columns.moments.covariance)
        else:
            noise = columns.moments.sd[:, None] * deviates
        blurred: Array = mean + self.retained() * (columns.values - mean)
        blurred += math.sqrt(self.noise_variance_share) * noise
        return blurred

    def retained(self) -> float:
        """sqrt(1 - s)."""
        return math.sqrt(1 - self.noise_variance_share)
