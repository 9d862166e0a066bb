"""Probabilistic information loss: by how much more did statistics move than another sample would have moved them?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from microveil.core.arrays import Array
from microveil.core.sorted_columns import first_above, first_at, pieces_of, quantiles
from microveil.core.table import Matrix
from microveil.measures.base import Estimate, gauge, scale_of, scales
from microveil.measures.utility.moments import ColumnMoments, check_pairs, gaps, moments_of_both

QUANTILES = np.arange(5, 100, 5) / 100
GROUPS = ("means", "variances", "covariances", "correlations", "quantiles", "skewness", "kurtosis")

FAR = 9
"""Widths of a kernel at which it is below 3e-18: less than the round-off of a sum that has the value itself in it."""

OF_TWO_SAMPLES = 2 / np.pi * np.arctan(np.sqrt(2))
"""E[2 Φ(|d| / sd) - 1] when d is the difference of two independent samples' statistics, with variance 2 sd²."""


@gauge(
    "probability that a statistic moves less from sample to sample than it moved here; mean over 5 groups of them",
    default=True,
    on_disk="sorted",
)
def pil(original: Matrix, released: Matrix) -> Estimate:
    """Probabilistic information loss (Mateo-Sanz, Domingo-Ferrer and Sebé 2005; Calviño 2017, §4.1).

    The mean of five group means (means, variances, covariances, correlations, quantiles from 5 to 95 %) of
    pil = 2 Φ(|d| / sd) - 1, where d is how far a statistic moved and sd its standard error, from the moments of the
    original. A group counts as much as another however many statistics it has; groups are in the parts. Statistics
    that are kept to round-off lose nothing. No sampling is involved; chance is that of two independent samples.
    """
    return _mean_of_groups(original, released, shape=False)


@gauge(
    "probability that a statistic moves less from sample to sample than it moved here; mean over 7 groups of them",
    on_disk="sorted",
)
def pil7(original: Matrix, released: Matrix) -> Estimate:
    """`pil` with two more groups, skewness and kurtosis (Calviño, Aldeguer and Domingo-Ferrer 2017, §2)."""
    return _mean_of_groups(original, released, shape=True)


def _mean_of_groups(original: Matrix, released: Matrix, *, shape: bool) -> Estimate:
    old, new = moments_of_both(original, released)
    check_pairs(old.mean.size)
    values, moved = statistics_of(old, shape=shape), statistics_of(new, shape=shape)
    groups = {name: losses(values[name], moved[name], variance) for name, variance in variances_of(old, shape=shape)}
    groups["quantiles"] = original.remember("quantiles", lambda: _quantile_group(original, released), released)
    parts = {name: float(groups[name].mean()) for name in GROUPS if name in groups and groups[name].size}
    return Estimate(float(np.mean(list(parts.values()))), chance=float(OF_TWO_SAMPLES), parts=parts)


def losses(before: Array, after: Array, variance: Array) -> Array:
    """Pil = 2 Φ(|d| / sd) - 1 of each statistic. One that cannot vary, and moved, is lost altogether."""
    from scipy.special import erf

    moved, sd = gaps(before, after), np.sqrt(np.maximum(variance, 0))
    ratio = np.divide(moved, sd, out=np.full(moved.shape, np.inf), where=sd > 0)
    loss: Array = erf(np.where(moved == 0, 0.0, ratio) / np.sqrt(2))
    return loss


def statistics_of(side: ColumnMoments, *, shape: bool) -> dict[str, Array]:
    """The statistics of each group, but for the quantiles."""
    upper = np.triu_indices(side.mean.size, 1)
    found = {
        "means": side.mean,
        "variances": side.power(2),
        "covariances": side.product()[upper],
        "correlations": side.correlation()[upper],
    }
    if shape:
        found |= {"skewness": side.standardised_power(3), "kurtosis": side.standardised_power(4)}
    return found


def variances_of(side: ColumnMoments, *, shape: bool) -> Iterator[tuple[str, Array]]:
    """The sampling variances of these statistics, by the delta method from central moments μ_rs."""
    count, pairs = side.count, side.pairs
    upper = np.triu_indices(side.mean.size, 1)
    mu2, mu4 = side.power(2), side.power(4)
    mu11, mu22, mu31 = side.product(1, 1), side.product(2, 2), side.product(3, 1)
    yield "means", mu2 / count
    yield "variances", (mu4 - mu2**2) / count
    yield "covariances", ((mu22 - mu11**2) / pairs)[upper]
    # Var(r) multiplied out for columns of unit variance, so that r = 0 is harmless.
    r = side.correlation()
    yield "correlations", ((mu22 + r**2 * (mu4[:, None] + mu4 + 2 * mu22) / 4 - r * (mu31 + mu31.T)) / pairs)[upper]
    if shape:
        a3, a4, a5, a6, a8 = (side.standardised_power(k) for k in (3, 4, 5, 6, 8))
        yield "skewness", (a6 - 6 * a4 + 9 + a3**2 * (9 * a4 + 35) / 4 - 3 * a3 * a5) / count
        yield (
            "kurtosis",
            (a8 - 4 * a4 * a6 + 4 * a4**3 - a4**2 + 16 * a4 * a3**2 - 8 * a3 * a5 + 16 * a3**2) / count,
        )


def _quantile_group(original: Matrix, released: Matrix) -> Array:
    found = []
    for j, (mean, sd) in scales(original, needed=True).items():
        old, new = original.in_order(j), released.in_order(j)
        if new.size:
            at, moved = quantiles(old, QUANTILES), quantiles(new, QUANTILES)
            found.append(losses((at - mean) / sd, (moved - mean) / sd, quantile_variances(old, at) / sd**2))
    return np.concatenate(found) if found else np.empty(0)


def quantile_variances(ordered: Array, at: Array) -> Array:
    """Var(Q_q) = q (1 - q) / (n f(Q_q)²), the density f of a column in ascending order by a Gaussian kernel."""
    with np.errstate(divide="ignore"):  # where there is no density, a quantile may be anywhere
        variances: Array = QUANTILES * (1 - QUANTILES) / (ordered.size * _density(ordered, at) ** 2)
    return variances


def _density(ordered: Array, at: Array) -> Array:
    """A Gaussian kernel density with the rule-of-thumb width of R's `bw.nrd0`."""
    count, (_, sd) = ordered.size, scale_of(ordered) or (0.0, 0.0)
    sd *= np.sqrt(count / max(count - 1, 1))
    low, high = quantiles(ordered, np.array([0.25, 0.75]))
    width = 0.9 * (min(sd, (high - low) / 1.34) or sd or 1.0) * count**-0.2
    kernels = np.array([_kernels(ordered, float(point), width) for point in at])
    density: Array = kernels / (count * width * np.sqrt(2 * np.pi))
    return density


def _kernels(ordered: Array, point: float, width: float) -> float:
    """The sum of the kernels at a point; those of values that are too far away to count are left out."""
    start, stop = first_at(ordered, point - FAR * width), first_above(ordered, point + FAR * width)
    near = pieces_of(ordered, start, stop)
    return float(sum(np.exp(-(((values - point) / width) ** 2) / 2).sum() for values in near))
