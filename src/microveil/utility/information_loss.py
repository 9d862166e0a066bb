"""Probabilistic information loss: by how much more did statistics move than another sample would have moved them?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from microveil.core.arrays import Array
from microveil.core.measure import Reading, gauge, standardised
from microveil.core.table import Matrix
from microveil.utility.sides import Side, gaps

QUANTILES = np.arange(5, 100, 5) / 100

OF_TWO_SAMPLES = 2 / np.pi * np.arctan(np.sqrt(2))
"""E[2 Φ(|d| / sd) - 1] when d is the difference of two independent samples' statistics, with variance 2 sd²."""


@gauge(
    "probability that a statistic moves less from sample to sample than it moved here; mean over 5 groups of them",
    better="low",
    range=(0, 1),
    cost="fast",
)
def pil(original: Matrix, released: Matrix) -> Reading:
    """Probabilistic information loss (Mateo-Sanz, Domingo-Ferrer and Sebé 2005; Calviño 2017, §4.1).

    The mean of five group means (means, variances, covariances, correlations, quantiles from 5 to 95 %) of
    pil = 2 Φ(|d| / sd) - 1, where d is how far a statistic moved and sd its standard error, from the moments of the
    original. A group counts as much as another however many statistics it has; groups are in the parts. Statistics
    that are kept to round-off lose nothing. No sampling is involved; chance is that of two independent samples.
    """
    return _mean_of_groups(*standardised(original, released), shape=False)


@gauge(
    "probability that a statistic moves less from sample to sample than it moved here; mean over 7 groups of them",
    better="low",
    range=(0, 1),
    cost="fast",
)
def pil7(original: Matrix, released: Matrix) -> Reading:
    """`pil` with two more groups, skewness and kurtosis (Calviño, Aldeguer and Domingo-Ferrer 2017, §2)."""
    return _mean_of_groups(*standardised(original, released), shape=True)


def _mean_of_groups(before: Array, after: Array, *, shape: bool) -> Reading:
    old, new = Side.of(before), Side.of(after)
    groups = {**dict(_moment_groups(old, new)), "quantiles": _quantile_group(before, after)}
    if shape:
        groups |= dict(_shape_groups(old, new))
    parts = {name: float(losses.mean()) for name, losses in groups.items() if losses.size}
    return Reading(float(np.mean(list(parts.values()))), chance=float(OF_TWO_SAMPLES), parts=parts)


def _loss(before: Array, after: Array, variance: Array) -> Array:
    """Pil = 2 Φ(|d| / sd) - 1 of each statistic. One that cannot vary, and moved, is lost altogether."""
    from scipy.special import erf

    moved, sd = gaps(before, after), np.sqrt(np.maximum(variance, 0))
    ratio = np.divide(moved, sd, out=np.full(moved.shape, np.inf), where=sd > 0)
    loss: Array = erf(np.where(moved == 0, 0.0, ratio) / np.sqrt(2))
    return loss


def _moment_groups(old: Side, new: Side) -> Iterator[tuple[str, Array]]:
    """Means, variances, covariances and correlations, with variances by the delta method from central moments μ_rs."""
    count, pairs = old.count, old.pairs
    mu2, mu4 = old.power(2), old.power(4)
    yield "means", _loss(old.mean, new.mean, mu2 / count)
    yield "variances", _loss(mu2, new.power(2), (mu4 - mu2**2) / count)
    upper = np.triu_indices(mu2.size, 1)
    mu11, mu22, mu31 = old.product(1, 1), old.product(2, 2), old.product(3, 1)
    yield "covariances", _loss(mu11, new.product(1, 1), (mu22 - mu11**2) / pairs)[upper]
    # Var(r) multiplied out for columns of unit variance, so that r = 0 is harmless.
    r = old.correlation()
    variance = mu22 + r**2 * (mu4[:, None] + mu4 + 2 * mu22) / 4 - r * (mu31 + mu31.T)
    yield "correlations", _loss(r, new.correlation(), variance / pairs)[upper]


def _shape_groups(old: Side, new: Side) -> Iterator[tuple[str, Array]]:
    """Skewness and kurtosis; a_k are the standardised moments of the original."""
    a3, a4, a5, a6, a8 = (old.standardised_power(k) for k in (3, 4, 5, 6, 8))
    skewness = a6 - 6 * a4 + 9 + a3**2 * (9 * a4 + 35) / 4 - 3 * a3 * a5
    yield "skewness", _loss(a3, new.standardised_power(3), skewness / old.count)
    kurtosis = a8 - 4 * a4 * a6 + 4 * a4**3 - a4**2 + 16 * a4 * a3**2 - 8 * a3 * a5 + 16 * a3**2
    yield "kurtosis", _loss(a4, new.standardised_power(4), kurtosis / old.count)


def _quantile_group(before: Array, after: Array) -> Array:
    """Var(Q_q) = q (1 - q) / (n f(Q_q)²), the density f by a Gaussian kernel."""
    losses = []
    for old, new in zip(before.T, after.T, strict=True):
        there, released = old[~np.isnan(old)], new[~np.isnan(new)]
        if released.size:
            at = np.quantile(there, QUANTILES)
            density = _density(there, at)
            with np.errstate(divide="ignore"):  # where there is no density, a quantile may be anywhere
                variance = QUANTILES * (1 - QUANTILES) / (there.size * density**2)
            losses.append(_loss(at, np.quantile(released, QUANTILES), variance))
    return np.concatenate(losses) if losses else np.empty(0)


def _density(values: Array, at: Array) -> Array:
    """A Gaussian kernel density with the rule-of-thumb width of R's `bw.nrd0`."""
    sd = values.std(ddof=1) if values.size > 1 else 0.0
    low, high = np.quantile(values, [0.25, 0.75])
    width = 0.9 * (min(sd, (high - low) / 1.34) or sd or 1.0) * values.size**-0.2
    kernels = [np.exp(-(((values - point) / width) ** 2) / 2).mean() for point in at]
    density: Array = np.array(kernels) / (width * np.sqrt(2 * np.pi))
    return density
