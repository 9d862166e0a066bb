"""Multiplicative noise: large values are blurred more than small ones, and zeros not at all."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from microveil.core.arrays import Array
from microveil.perturb.base import Columns, check_given
from microveil.perturb.together import JointNormalPerturbation
from microveil.perturb.units import no_percentage


class MultiplicativeNoise(JointNormalPerturbation):
    """Multiply each value by a random factor, lognormal with mean 1.

    x* = x exp(σ N(0, 1) - σ²/2) with σ² = ln(1 + cv²). It acts on the values themselves and not on their distance from
    the mean, so that zeros stay zero and signs stay. Means come back on average, and E x*² = (1 + cv²) E x²: the
    variance grows by cv² E x². It is not taken back, as that would move zeros and change signs; whoever is told the cv
    can correct for it. One factor for all values of a record leaves their ratios as they were.
    """

    reference: ClassVar[str] = "Kim and Winkler (2003); Nayak, Sinha and Zayatz (2011)"
    keeps_variance: ClassVar[bool] = False
    keeps_zeros: ClassVar[bool] = True
    # Values are multiplied as they are; what they share with public columns comes back on average all the same.
    regresses_itself: ClassVar[bool] = True

    noise_cv: Annotated[
        float,
        Field(gt=0, le=1, description="coefficient of variation of the factor (its standard deviation), as a fraction"),
    ] = 0.5
    shared: Annotated[
        Literal["cell", "record"],
        Field(
            description="who shares a factor: nobody, each cell has one of its own, or all cells of a record, whose "
            "ratios then stay"
        ),
    ] = "cell"

    @field_validator("noise_cv", mode="before")
    @classmethod
    def _no_percentage(cls, value: Any) -> Any:
        return no_percentage(value, "a coefficient of variation of at most 1")

    def apply_together(self, columns: Columns) -> Array:
        """The values times their factors."""
        if self.shared == "record" and self.draws is None:
            deviates = columns.stream.normal(columns.values.shape[1])[None, :]
        else:
            deviates = self.deviates(columns)
        variance = math.log1p(self.noise_cv**2)
        return columns.values * np.exp(math.sqrt(variance) * deviates - variance / 2)

    def retained(self) -> None:
        """It depends on how far the columns are from zero."""

    def check(self, rows: int, columns: int) -> None:
        """Given draws must fit: a column for each column, or one for all."""
        check_given("draws", self.draws, rows, 1 if self.shared == "record" else columns)
