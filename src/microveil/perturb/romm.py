"""Random orthogonal matrix masking: the scores, turned a little way at random."""

from __future__ import annotations

import math
from typing import ClassVar, Self

from pydantic import Field, model_validator

from microveil.core.arrays import Array
from microveil.perturb.base import Column, NormalPerturbation

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
