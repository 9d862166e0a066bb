"""Redrawing: new scores from a model of the old ones."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from microveil.core.arrays import Array
from microveil.core.rng import Stream
from microveil.core.shuffle import shuffled
from microveil.perturb.base import CarryingPerturbation, Column, ColumnPerturbation, NormalPerturbation


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

    bandwidth_ratio: Annotated[
        float, Field(ge=0, le=10, description="width of the smoothing, in units of the rule of thumb (R's bw.nrd0)")
    ] = 1.0

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


def donors(stream: Stream, rows: int, weights: Array | None) -> NDArray[np.intp]:
    """The rows of a bootstrap sample, from another stream than that of any noise; heavy rows are drawn more often."""
    stream = stream.child("donors")
    if weights is None:
        return stream.integers(rows, rows)
    cumulated = np.cumsum(weights)
    drawn: NDArray[np.intp] = np.searchsorted(cumulated, stream.uniform(rows) * cumulated[-1], side="right")
    return np.minimum(drawn, rows - 1)


def effective_rows(rows: int, weights: Array | None) -> float:
    """The effective sample size: as many rows of equal weight would tell as much."""
    return float(rows) if weights is None else float(np.square(weights.sum()) / np.square(weights).sum())


class Normal(NormalPerturbation):
    """Draw from the normal distribution with the component's mean and variance."""

    reference: ClassVar[str] = "Calviño (2017), §3.2 (random scores)"
    replaces: ClassVar[bool] = True
    by_rows: ClassVar[bool] = True

    def apply(self, column: Column) -> Array:
        """The mean plus sd N(0, 1)."""
        return column.mean + column.sd * self.deviates(column)


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
        from scipy.special import ndtri

        n = column.values.size
        return column.brought_to_own_moments(shuffled(ndtri(np.arange(1, n + 1) / (n + 1)), column.stream))
