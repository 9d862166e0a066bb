"""Regressions of every column on the others: would an analyst of the release draw the same conclusions?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.core.linalg import rank_of, sorted_eigen
from microveil.core.measure import Reading, gauge
from microveil.core.table import Matrix
from microveil.utility.sides import Side, both_sides, gaps

QUANTILE = 1.959964

DETERMINED = 1e-10
"""Share of a column's variance that the columns before it must leave, else it is computed from them and left out."""

OF_TWO_SAMPLES = 2 / np.sqrt(np.pi)
"""E|d| in standard errors, when d is the difference of two independent samples' statistics."""


@dataclass(frozen=True, repr=False)
class Fits:
    """Least squares of each column on all others, one row each (without its own place); columns in common units."""

    slopes: Array
    errors: Array
    r2: Array
    mean: Array
    mean_error: Array


@gauge(
    "overlap of the 95 % confidence intervals of regression coefficients, each column on all others, mean over them",
    better="high",
    range=(0, 1),
    cost="fast",
)
def ci_overlap(original: Matrix, released: Matrix) -> Reading:
    """Confidence interval overlap (Karr et al. 2006), of the slopes of every column's regression on the others.

    Of each slope the two intervals are compared, ½ (overlap / length in the original + overlap / length in the
    release), 0 if they do not meet: 1 if an analyst of the release would report the same interval. Regressions rather
    than means, because releases that keep all means are many; the part "means" has those too, "smallest" the worst
    slope. Intervals are the ordinary ones, estimate ± 1.96 standard errors. Columns computed from others are left
    out. No sampling is involved; chance is the mean for two independent samples of one population.
    """
    old, new = _both_fits(original, released)
    overlap = _overlap(old.slopes, old.errors, new.slopes, new.errors)
    means = _overlap(old.mean, old.mean_error, new.mean, new.mean_error)
    return Reading(
        float(overlap.mean()),
        chance=_overlap_of_two_samples(),
        parts={"means": float(means.mean()), "smallest": float(overlap.min())},
    )


@gauge(
    "change of regression coefficients in standard errors, each column on all others, mean over them",
    better="low",
    range=(0, np.inf),
    cost="fast",
)
def regression_fit(original: Matrix, released: Matrix) -> Reading:
    """Distance of the slopes of every column's regression on the others, |b' - b| / (standard error in the original).

    The parts have the largest, and the change of R², mean and largest. Columns computed from others are left out. No
    sampling is involved; chance is the mean for two independent samples of one population, 2/sqrt(π).
    """
    old, new = _both_fits(original, released)
    moved = gaps(old.slopes, new.slopes)
    with np.errstate(divide="ignore"):
        distance = np.divide(moved, old.errors, out=np.zeros_like(moved), where=moved > 0)
    r2 = gaps(old.r2, new.r2)
    return Reading(
        float(distance.mean()),
        chance=float(OF_TWO_SAMPLES),
        parts={
            "largest": float(distance.max()),
            "change of R²": float(r2.mean()),
            "largest change of R²": float(r2.max()),
        },
    )


def _both_fits(original: Matrix, released: Matrix) -> tuple[Fits, Fits]:
    old, new = both_sides(original, released)
    columns = _independent(old.product())
    if columns.size < 2:
        raise DataError("a regression needs two columns that vary on their own", "there is nothing to regress on")
    return _fits(old, columns), _fits(new, columns)


def _independent(covariance: Array) -> NDArray[np.intp]:
    """Columns that those before them do not determine, by Cholesky elimination."""
    left, kept = covariance.copy(), []
    for j in range(len(left)):
        unexplained = left[j, j]
        if unexplained > DETERMINED:
            kept.append(j)
            left -= np.outer(left[:, j], left[:, j]) / unexplained
    return np.array(kept, dtype=np.intp)


def _fits(side: Side, columns: NDArray[np.intp]) -> Fits:
    covariance = side.product()[np.ix_(columns, columns)]
    width, count = columns.size, float(side.pairs[np.ix_(columns, columns)].min())
    slopes, errors, r2 = np.empty((width, width - 1)), np.empty((width, width - 1)), np.empty(width)
    for j in range(width):
        others = np.delete(np.arange(width), j)
        inverse = _inverse(covariance[np.ix_(others, others)])
        slopes[j] = inverse @ covariance[others, j]
        rest = max(float(covariance[j, j] - covariance[others, j] @ slopes[j]), 0.0)
        r2[j] = 1 - rest / covariance[j, j] if covariance[j, j] > 0 else 0.0
        errors[j] = np.sqrt(rest * np.diagonal(inverse) / max(count - width, 1.0))
    mean_error = np.sqrt(np.diagonal(covariance) / side.count[columns])
    return Fits(slopes, errors, r2, side.mean[columns], mean_error)


def _inverse(covariance: Array) -> Array:
    """The inverse in the directions that there are: a release may lack some."""
    sd = np.sqrt(np.diagonal(covariance))
    sd = np.where(sd > 0, sd, 1.0)
    values, vectors = sorted_eigen(covariance / np.outer(sd, sd))
    kept = vectors[:, : rank_of(values)]
    inverse: Array = (kept / values[: kept.shape[1]]) @ kept.T / np.outer(sd, sd)
    return inverse


def _overlap(before: Array, error: Array, after: Array, new_error: Array) -> Array:
    """½ (overlap / one length + overlap / other length). An interval without length is inside or it is not."""
    shift = np.where(gaps(before, after) == 0, before, after) - before
    low, high = np.maximum(-error, shift / QUANTILE - new_error), np.minimum(error, shift / QUANTILE + new_error)
    met = np.maximum(high - low, 0.0) / 2
    shares = [
        np.divide(met, length, out=(high >= low).astype(float), where=length > 0) for length in (error, new_error)
    ]
    overlap: Array = (shares[0] + shares[1]) / 2
    return overlap


def _overlap_of_two_samples() -> float:
    """E max(0, 1 - |d| / w) for d with twice the variance of an estimate, and w the length of an interval."""
    from scipy.special import erf

    ratio = QUANTILE  # w / (sd of d) / sqrt(2) = 2 · 1.96 / sqrt(2) / sqrt(2)
    return float(erf(ratio) - (1 - np.exp(-(ratio**2))) / (ratio * np.sqrt(np.pi)))
