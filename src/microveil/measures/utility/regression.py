"""Regressions of every column on the others: would an analyst of the release draw the same conclusions?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.core.linalg import independent_columns, regression_slopes
from microveil.core.table import Matrix
from microveil.measures.base import Estimate, distance, gauge
from microveil.measures.utility.moments import ColumnMoments, gaps, moments_of_both

QUANTILE = 1.959964

MEAN_GAP = float(np.sqrt(2 / np.pi))
"""E|d| of a standard normal d."""


@dataclass(frozen=True, repr=False)
class Fits:
    """Least squares of each column on all others, one row each (without its own place); columns in common units.

    `freedom` is the number of rows (of the two columns that have fewest together) beyond that of the coefficients.
    """

    freedom: float
    slopes: Array
    errors: Array
    r2: Array
    mean: Array
    mean_error: Array


@gauge(
    "overlap of the 95 % confidence intervals of regression coefficients, each column on all others, mean over them",
    better="high",
    on_disk="passes",
    on_spark=True,
)
def ci_overlap(original: Matrix, released: Matrix) -> Estimate:
    """Confidence interval overlap (Karr et al. 2006), of the slopes of every column's regression on the others.

    Of each slope the two intervals are compared, ½ (overlap / length in the original + overlap / length in the
    release), 0 if they do not meet: 1 if an analyst of the release would report the same interval. Regressions rather
    than means, because releases that keep all means are many; the part "means" has those too, "smallest" the worst
    slope. Intervals are the ordinary ones, estimate ± 1.96 standard errors. Columns computed from others are left
    out. No sampling is involved; chance is the mean for two independent samples of these sizes of a normal population.
    Where the ordinary errors are too small, two samples overlap less: with long tails, with curved relations, and with
    missing cells, which are left out pair by pair.
    """
    old, new = _both_fits(original, released)
    overlap = _overlap(old.slopes, old.errors, new.slopes, new.errors)
    means = _overlap(old.mean, old.mean_error, new.mean, new.mean_error)
    return Estimate(
        float(overlap.mean()),
        chance=_overlap_of_two_samples(old.freedom, new.freedom),
        parts={"means": float(means.mean()), "smallest": float(overlap.min())},
    )


@distance("change of regression coefficients in standard errors, each column on all others, mean over them")
def regression_fit(original: Matrix, released: Matrix) -> Estimate:
    """Distance of the slopes of every column's regression on the others, |b' - b| / (standard error in the original).

    The parts have the largest, and the change of R², mean and largest. Columns computed from others are left out. No
    sampling is involved; chance is the mean for two independent samples of n and m records of a normal population,
    sqrt(2/π (1 + n/m)). With long tails, curved relations or missing cells two samples are farther apart, as in
    `ci_overlap`.
    """
    old, new = _both_fits(original, released)
    moved = gaps(old.slopes, new.slopes)
    with np.errstate(divide="ignore"):
        distance = np.divide(moved, old.errors, out=np.zeros_like(moved), where=moved > 0)
    r2 = gaps(old.r2, new.r2)
    return Estimate(
        float(distance.mean()),
        chance=float(MEAN_GAP * np.sqrt(1 + old.freedom / new.freedom)),
        parts={
            "largest": float(distance.max()),
            "change of R²": float(r2.mean()),
            "largest change of R²": float(r2.max()),
        },
    )


def _both_fits(original: Matrix, released: Matrix) -> tuple[Fits, Fits]:
    old, new = moments_of_both(original, released)
    columns = np.array(independent_columns(old.product()), dtype=np.intp)
    if columns.size < 2:
        raise DataError("a regression needs two columns that vary on their own", "there is nothing to regress on")
    return _fits(old, columns), _fits(new, columns)


def _fits(side: ColumnMoments, columns: NDArray[np.intp]) -> Fits:
    covariance = side.product()[np.ix_(columns, columns)]
    width = columns.size
    freedom = max(float(side.pairs[np.ix_(columns, columns)].min()) - width, 1.0)
    slopes, errors, r2 = np.empty((width, width - 1)), np.empty((width, width - 1)), np.empty(width)
    for j in range(width):
        others = np.delete(np.arange(width), j)
        slopes[j], errors[j], rest = regression_on(covariance, j, others, freedom)
        r2[j] = 1 - rest / covariance[j, j] if covariance[j, j] > 0 else 0.0
    mean_error = np.sqrt(np.diagonal(covariance) / side.count[columns])
    return Fits(freedom, slopes, errors, r2, side.mean[columns], mean_error)


def regression_on(
    covariance: Array, target: int, others: NDArray[np.intp], freedom: float
) -> tuple[Array, Array, float]:
    """The slopes of a column on others, their standard errors, and the variance that is left.

    `covariance` is k x k; `freedom` is the number of records beyond that of the coefficients.
    """
    # In the directions that there are: a release may lack some.
    inverse = regression_slopes(covariance[np.ix_(others, others)], np.eye(others.size))
    slopes = inverse @ covariance[others, target]
    rest = max(float(covariance[target, target] - covariance[others, target] @ slopes), 0.0)
    return slopes, np.sqrt(rest * np.diagonal(inverse) / freedom), rest


def _overlap(before: Array, error: Array, after: Array, new_error: Array) -> Array:
    """½ (overlap / one length + overlap / other length). An interval without length is inside or it is not.

    `before` and `after` are estimates of any shape, each with its standard `error`.
    """
    shift = np.where(gaps(before, after) == 0, before, after) - before
    low, high = np.maximum(-error, shift / QUANTILE - new_error), np.minimum(error, shift / QUANTILE + new_error)
    met = np.maximum(high - low, 0.0) / 2
    shares = [
        np.divide(met, length, out=(high >= low).astype(float), where=length > 0) for length in (error, new_error)
    ]
    overlap: Array = (shares[0] + shares[1]) / 2
    return overlap


def _overlap_of_two_samples(before: float, after: float) -> float:
    """The mean overlap for estimates from so many records, over normal differences of them."""
    at = np.linspace(-8.0, 8.0, 1_601)
    errors = np.full((2, at.size), [[1.0], [np.sqrt(before / after)]])
    overlap = _overlap(np.zeros(at.size), errors[0], at * np.hypot(*errors), errors[1])
    return float(np.trapezoid(overlap * np.exp(-np.square(at) / 2), at) / np.sqrt(2 * np.pi))
