"""Parametric redraw: new scores from the family of distributions that fits the old ones best."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.core.rng import row_blocks
from microveil.perturb.base import Column, ColumnPerturbation

Family = Literal["normal", "logistic", "laplace", "student", "uniform", "gumbel", "gumbel_mirrored", "skew_normal"]

SCIPY_NAMES: dict[Family, str] = {
    "normal": "norm",
    "logistic": "logistic",
    "laplace": "laplace",
    "student": "t",
    "uniform": "uniform",
    "gumbel": "gumbel_r",
    "gumbel_mirrored": "gumbel_l",
    "skew_normal": "skewnorm",
}

FIT_POINTS = 2_000
"""Quantiles a family is fitted to: a long column is summed up by them, and the fit takes a bounded time."""


@dataclass(frozen=True)
class Fit:
    """A fitted family: scipy's frozen distribution, its moments, and its distance from the data."""

    family: str
    distribution: Any
    mean: float
    sd: float
    distance: float


def fit_family(family: Family, sample: Array) -> Fit | None:
    """The maximum-likelihood fit of one family, or None where it has no finite variance to keep."""
    from scipy import stats

    model = getattr(stats, SCIPY_NAMES[family])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # A family that does not suit the data makes the optimiser complain; its distance says it better.
        warnings.simplefilter("ignore")
        try:
            distribution = model(*model.fit(sample))
            mean, variance = (float(value) for value in distribution.stats(moments="mv"))
            distance = float(stats.kstest(sample, distribution.cdf).statistic)
        except (ValueError, RuntimeError, FloatingPointError):
            return None
    if not (math.isfinite(mean) and math.isfinite(variance) and variance > 0 and math.isfinite(distance)):
        return None
    return Fit(family, distribution, mean, math.sqrt(variance), distance)


class Parametric(ColumnPerturbation):
    """Draw from the family of distributions that fits best by the Kolmogorov-Smirnov distance.

    Liew, Choi and Liew (1985), as proposed by Calviño (2017), §3.2. The chosen family is brought to the
    component's own mean and variance, so that the covariances hold on average; which one was chosen, and how
    far it is from the data, stands in the notes of the release.
    """

    reference: ClassVar[str] = "Liew, Choi and Liew (1985); Calviño (2017), §3.2"
    replaces: ClassVar[bool] = True

    families: Annotated[
        tuple[Family, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)
    ] = Field(
        default=tuple(SCIPY_NAMES),
        min_length=1,
        description="families to choose from",
        json_schema_extra={"allowed": "a list out of " + ", ".join(SCIPY_NAMES)},
    )

    def apply(self, column: Column) -> Array:
        """Fit each family, draw from the nearest, restore mean and variance of the component."""
        best = self.choose(column)
        column.notes.append(f"{best.family} (Kolmogorov-Smirnov distance {best.distance:.3f})")
        drawn = np.empty_like(column.values)
        for block, rows in row_blocks(drawn.size):
            drawn[rows] = best.distribution.rvs(
                size=rows.stop - rows.start, random_state=column.stream.generator(block)
            )
        return column.mean + (drawn - best.mean) * (column.sd / best.sd)

    def choose(self, column: Column) -> Fit:
        """The family nearest to the values."""
        levels = (np.arange(FIT_POINTS) + 0.5) / FIT_POINTS
        few = column.values.size <= FIT_POINTS and column.weights is None
        sample = column.values if few else column.quantiles(levels)
        fits = [fit for family in self.families if (fit := fit_family(family, sample)) is not None]
        if not fits:
            raise DataError(
                "families: none of them has a finite variance when fitted to a component",
                "add 'normal' to families, or perturb with 'redraw'",
            )
        return min(fits, key=lambda fit: fit.distance)
