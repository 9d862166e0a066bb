"""Noise: the old values, blurred one by one, along their correlations, in proportion to their size, or by a turn."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from microveil.core.arrays import Array
from microveil.perturb.base import (
    Column,
    Columns,
    JointNormalPerturbation,
    NormalPerturbation,
    check_given,
    not_percent,
    with_covariance,
)


class Noise(NormalPerturbation):
    """Add normal noise whose standard deviation is a share of the component's.

    Calviño (2017), §3.2. The sum is brought back to the component's variance, so that covariances hold on
    average and the correlation with the original is 1/sqrt(1 + ratio²).
    """

    reference: ClassVar[str] = "Calviño (2017), §3.2; Brand (2002)"
    by_rows: ClassVar[bool] = True

    noise_sd_ratio: float = Field(
        default=0.5, gt=0, le=10, description="standard deviation of the noise, as a share of the component's own"
    )

    def apply(self, column: Column) -> Array:
        """(z + ratio sd N(0, 1)) / sqrt(1 + ratio²) about the mean."""
        blurred = (column.values - column.mean) + self.noise_sd_ratio * column.sd * self.deviates(column)
        return column.mean + blurred * self.retained()

    def retained(self) -> float:
        """1/sqrt(1 + ratio²)."""
        return 1 / math.sqrt(1 + self.noise_sd_ratio**2)


class CorrelatedNoise(JointNormalPerturbation):
    """Shrink all columns towards their means, and add normal noise that has the covariance they lost.

    x* = mean + sqrt(1 - s) (x - mean) + noise of covariance s Σ, with Σ the covariance of the data: means and
    covariances come back on average, and every column keeps a correlation of sqrt(1 - s) with its original. With
    noise that is independent from column to column, variances come back, but correlations shrink by 1 - s.
    """

    reference: ClassVar[str] = "Kim (1986); Tendick and Matloff (1994)"

    noise_variance_share: Annotated[float, not_percent("a fraction of the variance")] = Field(
        default=0.2, gt=0, lt=1, description="share of each released column's variance that is noise, as a fraction"
    )
    noise_covariance: Literal["data", "diagonal"] = Field(
        default="data",
        description="covariance of the noise: that of the data, or none between columns, which lets correlations "
        "shrink",
    )

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


class MultiplicativeNoise(JointNormalPerturbation):
    """Multiply each value by a random factor, lognormal with mean 1.

    x* = x exp(σ N(0, 1) - σ²/2) with σ² = ln(1 + cv²). It acts on the values themselves and not on their distance from
    the mean, so that zeros stay zero and signs stay. Means come back on average, and E x*² = (1 + cv²) E x²: the
    variance grows by cv² E x². It is not taken back, as that would move zeros and change signs; whoever knows the cv
    can correct for it. One factor for all values of a record leaves their ratios as they were.
    """

    reference: ClassVar[str] = "Kim and Winkler (2003); Nayak, Sinha and Zayatz (2011)"
    keeps_variance: ClassVar[bool] = False
    keeps_zeros: ClassVar[bool] = True
    retention_varies: ClassVar[bool] = True  # with how far the columns are from zero
    # Values are multiplied as they are; what they share with public columns comes back on average all the same.
    regresses_itself: ClassVar[bool] = True

    noise_cv: Annotated[float, not_percent("a coefficient of variation of at most 1")] = Field(
        default=0.5,
        gt=0,
        le=1,
        description="coefficient of variation of the factor (its standard deviation), as a fraction",
    )
    shared: Literal["cell", "record"] = Field(
        default="cell",
        description="who shares a factor: nobody, each cell has one of its own, or all cells of a record, whose "
        "ratios then stay",
    )

    def apply_together(self, columns: Columns) -> Array:
        """The values times their factors."""
        if self.shared == "record" and self.draws is None:
            deviates = columns.stream.normal(columns.values.shape[1])[None, :]
        else:
            deviates = self.deviates(columns)
        variance = math.log1p(self.noise_cv**2)
        return columns.values * np.exp(math.sqrt(variance) * deviates - variance / 2)

    def check(self, rows: int, columns: int) -> None:
        """Given draws must fit: a column for each column, or one for all."""
        check_given("draws", self.draws, rows, 1 if self.shared == "record" else columns)


USUAL = 0.5
"""The correlation that is aimed at when nothing is said."""


class RandomTurn(NormalPerturbation):
    """Add lambda times normal noise to scores of unit length; orthogonalised again, they are a random turn of the old.

    Langsrud (2019), eq. 17, after Ting, Fienberg and Trottini (2008): the same as multiplying the records by a random
    orthogonal matrix (eq. 15) whose basis begins with the scores, without making that matrix. What lambda does depends
    on the number of rows; a target correlation rho stands for lambda = sqrt((1 / rho² - 1) / (rows - columns of X)),
    and is met on average.
    """

    reference: ClassVar[str] = "Langsrud (2019), eq. 17; Ting, Fienberg and Trottini (2008)"
    mixes: ClassVar[bool] = True
    by_rows: ClassVar[bool] = True

    noise: float | None = Field(
        default=None,
        gt=0,
        description="lambda: how much normal noise is added to scores of unit length; infinity is ipso",
        json_schema_extra={"allowed": "a number above 0"},
    )
    target_correlation: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description=f"correlation of new scores with old ones to aim at, instead of noise; {USUAL} by default",
        json_schema_extra={"allowed": "a number above 0 and below 1"},
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.noise is not None and self.target_correlation is not None:
            raise ValueError("noise and target_correlation say the same in two ways; give one of them")
        return self

    def apply(self, column: Column) -> Array:
        """T + lambda h, in the units of the score."""
        drawn = column.sd * math.sqrt(column.count) * self.deviates(column)
        old, size = column.values - column.mean, self._noise(column.dimensions)
        # The length of the sum does not matter, and lambda may be too large to be squared.
        return old + size * drawn if size < 1 else old / size + drawn

    def retained(self) -> float | None:
        """The correlation that was aimed at."""
        return None if self.noise is not None else self.target_correlation or USUAL

    def _noise(self, dimensions: int) -> float:
        """Lambda, as given or as the target asks for."""
        if self.noise is not None:
            return self.noise
        target = self.target_correlation or USUAL
        return math.sqrt((1 - target**2) / dimensions) / target
