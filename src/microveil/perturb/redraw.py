"""Redrawing: new scores from a model of the old ones, smoothed or of the family of distributions that fits best."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from microveil.core.arrays import Array, Index
from microveil.core.errors import DataError
from microveil.core.late import special, stats
from microveil.core.rng import Stream, row_blocks
from microveil.core.shuffle import shuffled
from microveil.perturb.base import (
    CarryingPerturbation,
    Column,
    ColumnPerturbation,
    Columns,
    JointNormalPerturbation,
    NormalPerturbation,
    with_covariance,
)


def bandwidth_nrd0(column: Column) -> float:
    """Silverman's rule of thumb, as R's `bw.nrd0`: 0.9 min(sd, IQR/1.34) n^(-1/5)."""
    n = effective_rows(column.values.size, column.weights)
    sd = column.sd * math.sqrt(n / max(n - 1, 1e-9))
    low, high = column.quantiles(np.array([0.25, 0.75]))
    # Half of the values may be equal (a spike at zero); R then falls back on the sd alone, as here.
    spread = min(sd, float(high - low) / 1.34) or sd
    return float(0.9 * spread * n**-0.2)


class Redraw(NormalPerturbation, CarryingPerturbation):
    """Draw from the smoothed empirical distribution: a random old value plus a little normal noise.

    Calviño (2017), §4.2, after Fienberg (1994). The noise has the bandwidth of a kernel density estimate;
    it adds h² to the variance, which `exact` takes back. With survey weights, heavy records are drawn more often.
    """

    reference: ClassVar[str] = "Calviño (2017), §4.2; Fienberg (1994)"
    replaces: ClassVar[bool] = True
    keeps_variance: ClassVar[bool] = False

    bandwidth_ratio: float = Field(
        default=1.0, ge=0, le=10, description="width of the smoothing, in units of the rule of thumb (R's bw.nrd0)"
    )

    def apply(self, column: Column) -> Array:
        """A bootstrap sample plus h N(0, 1)."""
        h = self.bandwidth_ratio * bandwidth_nrd0(column)
        return column.values[donors(column.stream, column.values.size, column.weights)] + h * self.deviates(column)


class Bootstrap(CarryingPerturbation):
    """Draw from the old values with replacement.

    The smoothed redraw without its noise: every value is one that was there. The variance of the new mean about the
    old one is that of a sample mean, sd²/n. With survey weights, heavy records are drawn more often.
    """

    reference: ClassVar[str] = "Efron (1979)"
    replaces: ClassVar[bool] = True

    def apply(self, column: Column) -> Array:
        """A bootstrap sample."""
        return column.values[donors(column.stream, column.values.size, column.weights)]


class SmoothedBootstrap(JointNormalPerturbation):
    """Draw whole records with replacement, add a little normal noise, and shrink the sum to the variance it had.

    x* = mean + (x of a random record - mean + h noise) / sqrt(1 + h²), the noise having the covariance of the data: a
    draw from their kernel density estimate, shrunk so that means and covariances come back on average. The bandwidth h
    is the best one for normal data. With survey weights, heavy records are drawn more often. At a small bandwidth a
    released record is close to the one it was made of.
    """

    reference: ClassVar[str] = "Silverman (1986), §4.3.2 and §6.4.1; Efron (1979)"
    replaces: ClassVar[bool] = True

    bandwidth_ratio: float = Field(
        default=1.0, gt=0, le=10, description="width of the smoothing, in units of the rule of thumb for normal data"
    )

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


def donors(stream: Stream, rows: int, weights: Array | None) -> Index:
    """The rows of a bootstrap sample, from another stream than that of any noise; heavy rows are drawn more often."""
    stream = stream.child("donors")
    if weights is None:
        return stream.integers(rows, rows)
    cumulated = np.cumsum(weights)
    drawn: Index = np.searchsorted(cumulated, stream.uniform(rows) * cumulated[-1], side="right")
    return np.minimum(drawn, rows - 1)


def effective_rows(rows: int, weights: Array | None) -> float:
    """The effective sample size: so many rows of equal weight would be as good."""
    return float(rows) if weights is None else float(np.square(weights.sum()) / np.square(weights).sum())


class Normal(NormalPerturbation):
    """Draw from the normal distribution with the component's mean and variance."""

    reference: ClassVar[str] = "Calviño (2017), §3.2 (random scores)"
    replaces: ClassVar[bool] = True
    by_rows: ClassVar[bool] = True

    def apply(self, column: Column) -> Array:
        """The mean plus sd N(0, 1)."""
        return column.mean + column.sd * self.deviates(column)


class Stratified(CarryingPerturbation):
    """Draw one value from each n-th of the component's distribution, in random order (Latin hypercube sampling).

    Between neighbouring values the distribution is a straight line. Hsu and Chen (2008), §1, name it with resampling
    as a way to draw independent sources. With survey weights it is the weighted distribution.
    """

    reference: ClassVar[str] = "Hsu and Chen (2008), §1; McKay, Beckman and Conover (1979)"
    replaces: ClassVar[bool] = True

    def apply(self, column: Column) -> Array:
        """A quantile within each n-th, shuffled."""
        n = column.values.size
        places = (np.arange(n) + column.stream.child("places").uniform(n)) / n
        return shuffled(column.quantiles(places), column.stream)


class Uniform(ColumnPerturbation):
    """Draw from the uniform distribution with the component's mean and variance.

    The seeds of the Cholesky method in Hsu and Chen (2008), §5.
    """

    reference: ClassVar[str] = "Hsu and Chen (2008), §5"
    replaces: ClassVar[bool] = True
    by_rows: ClassVar[bool] = True

    def apply(self, column: Column) -> Array:
        """The mean plus sd times a uniform deviate of unit variance."""
        return column.mean + column.sd * math.sqrt(12) * (column.uniform() - 0.5)


class VanDerWaerden(ColumnPerturbation):
    """Put the n quantiles of a normal distribution in random order, with the component's mean and variance.

    The quantiles are those of i/(n + 1), i = 1 ... n: normal scores without the luck of a draw, only their order is
    random. With survey weights, mean and variance are the weighted ones in the order that was drawn.
    """

    reference: ClassVar[str] = "van der Waerden (1952); Iman and Conover (1982)"
    replaces: ClassVar[bool] = True
    keeps_mean: ClassVar[bool] = True

    def apply(self, column: Column) -> Array:
        """Normal scores in random order."""
        n = column.values.size
        return column.brought_to_own_moments(shuffled(special.ndtri(np.arange(1, n + 1) / (n + 1)), column.stream))


class Rotate(NormalPerturbation):
    """Turn the component, as a vector with a place for each record, to a random direction.

    The map is a random orthogonal one that leaves the mean alone, all such maps being equally likely (Haar measure).
    Where it sends a vector is then uniform on the sphere of its length, so the image is drawn there at once: normal
    deviates about their mean, brought to the component's length. Mean and variance come back exactly, no value does.
    With survey weights it is the weighted mean and the weighted length.
    """

    reference: ClassVar[str] = "Perkonoja and Virta (2024), O-variant"
    replaces: ClassVar[bool] = True
    keeps_mean: ClassVar[bool] = True

    def apply(self, column: Column) -> Array:
        """A uniformly random vector of the same mean and length."""
        return column.brought_to_own_moments(self.deviates(column))


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
    far it is from the data, is in the notes of the release.
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
