"""What happened to the columns one by one: relative bias of their moments, Kolmogorov-Smirnov, Wasserstein, IL1s."""

from __future__ import annotations

from functools import partial

import numpy as np

from microveil.core.arrays import Array
from microveil.core.measure import Reading, gauge, scales, standardised, varying
from microveil.core.table import Matrix
from microveil.utility.sides import both_sides, gaps

FLOOR = 0.05
"""Smallest denominator of the floored relative bias: a statistic near zero makes the literal one explode."""

bias = partial(gauge, better="low", range=(0.0, np.inf), cost="fast")


def relative_bias(before: Array, after: Array, *, kept: int = 0) -> Reading:
    """The mean of |after - before| / |before|; the parts have it floored, and without a denominator.

    `kept` statistics more are in the literal mean, which cannot change: the diagonal of a correlation matrix.
    """
    moved, size = gaps(before, after), np.abs(before)
    if not moved.size:
        return Reading(0.0, note="there are no two columns to relate")
    with np.errstate(divide="ignore"):
        literal = np.divide(moved, size, out=np.zeros_like(moved), where=moved > 0)
    parts = {
        "floored": float((moved / np.maximum(size, FLOOR)).mean()),
        "absolute": float(moved.mean()),
        "largest": float(moved.max()),
        "smallest original": float(size.min()),
    }
    return Reading(float(literal.sum()) / (moved.size + kept), parts=parts)


@bias("relative change of the means, mean over the columns")
def mean_bias(original: Matrix, released: Matrix) -> Reading:
    """Relative bias of the means. Parts are in standard deviations of the original. No sampling is involved."""
    old, new = both_sides(original, released)
    means = np.array([mean / sd for mean, sd in scales(original).values()])
    return relative_bias(means, means + (new.mean - old.mean))


@bias("relative change of the variances, mean over the columns")
def variance_bias(original: Matrix, released: Matrix) -> Reading:
    """Relative bias of the variances. No sampling is involved."""
    old, new = both_sides(original, released)
    return relative_bias(old.power(2), new.power(2))


@bias("relative change of the skewness, mean over the columns")
def skewness_bias(original: Matrix, released: Matrix) -> Reading:
    """Relative bias of the skewness μ3 / μ2^(3/2) (Calviño 2017, Table 4). No sampling is involved."""
    old, new = both_sides(original, released)
    return relative_bias(old.standardised_power(3), new.standardised_power(3))


@bias("relative change of the kurtosis, mean over the columns")
def kurtosis_bias(original: Matrix, released: Matrix) -> Reading:
    """Relative bias of the kurtosis μ4 / μ2², 3 for a normal (Calviño 2017, Table 4). No sampling is involved."""
    old, new = both_sides(original, released)
    return relative_bias(old.standardised_power(4), new.standardised_power(4))


@gauge(
    "largest difference of the distribution functions of a column, mean over the columns",
    better="low",
    range=(0, 1),
    cost="fast",
)
def ks(original: Matrix, released: Matrix) -> Reading:
    """Kolmogorov-Smirnov distance of each column: the mean, and in the note and the parts the largest.

    No sampling is involved; chance is the mean for two large independent samples of a continuous population,
    sqrt(π/2) ln 2 sqrt(1/n + 1/m).
    """
    found = [_largest_gap(old, new) for old, new in varying(original, released)]
    chance = np.sqrt(np.pi / 2) * np.log(2) * np.sqrt(1 / original.shape[0] + 1 / released.shape[0])
    worst = int(np.argmax(found))
    return Reading(
        float(np.mean(found)),
        chance=min(float(chance), 1.0),
        note=f"largest: {found[worst]:.3f}, in column {list(scales(original))[worst]} (from 0)",
        parts={"largest": found[worst]},
    )


@gauge(
    "how far the values of a column must be moved to become the released ones, in standard deviations, mean over the "
    "columns",
    better="low",
    range=(0, np.inf),
    cost="fast",
)
def marginal_distance(original: Matrix, released: Matrix) -> Reading:
    """Wasserstein distance of each column, ∫ |F - G| dx in standard deviations of the original: the mean of them.

    In the note and the parts is the largest. Unlike `ks` it tells how far values are off, and not only how many. A
    column without released values is infinitely far. No sampling is involved; chance is the mean for two large
    independent samples, sqrt(2/π (1/n + 1/m)) ∫ sqrt(F (1 - F)) dx.
    """
    before, after = standardised(original, released)
    found = [_moved(old, new) for old, new in zip(before.T, after.T, strict=True)]
    chance = [_moved_by_luck(old, new) for old, new in zip(before.T, after.T, strict=True)]
    worst = int(np.argmax(found))
    return Reading(
        float(np.mean(found)),
        chance=float(np.mean(chance)),
        note=f"largest: {found[worst]:.3f}, in column {list(scales(original))[worst]} (from 0)",
        parts={"largest": found[worst]},
    )


@gauge(
    "mean absolute change of a cell, in units of √2 standard deviations of its column",
    better="low",
    range=(0, np.inf),
    cost="fast",
    paired=True,
)
def il1s(original: Matrix, released: Matrix) -> Reading:
    """IL1s (Yancey, Winkler and Creecy 2002): (1/np) Σ |x - x'| / (√2 s), s with the divisor n - 1.

    Means are over the cells that are there in both files. No sampling is involved.
    """
    before, after = standardised(original, released)
    change = np.abs(after - before)
    present = (~np.isnan(before)).sum(axis=0)
    change *= np.sqrt((present - 1) / present) / np.sqrt(2)
    known = ~np.isnan(change)
    return Reading(float(change[known].mean()) if known.any() else 0.0)


def _largest_gap(old: Array, new: Array) -> float:
    """Sup |F - G| over the values that are there; 1 if there are none in the release."""
    before, after = (np.sort(column[~np.isnan(column)]) for column in (old, new))
    if not after.size:
        return 1.0
    at = np.concatenate([before, after])
    shares = [np.searchsorted(side, at, "right") / side.size for side in (before, after)]
    return float(np.abs(shares[0] - shares[1]).max())


def _moved(old: Array, new: Array) -> float:
    """∫ |F - G| dx over the values that are there."""
    before, after = (np.sort(column[~np.isnan(column)]) for column in (old, new))
    if not after.size:
        return float(np.inf)
    at = np.sort(np.concatenate([before, after]))
    shares = [np.searchsorted(side, at[:-1], "right") / side.size for side in (before, after)]
    return float(np.abs(shares[0] - shares[1]) @ np.diff(at))


def _moved_by_luck(old: Array, new: Array) -> float:
    """The mean of the same for two samples of the first file's distribution: |F - G| is that of a normal there."""
    before, others = np.sort(old[~np.isnan(old)]), max(int(np.count_nonzero(~np.isnan(new))), 1)
    share = np.arange(1, before.size) / before.size
    spread = np.sqrt(share * (1 - share)) @ np.diff(before)
    return float(np.sqrt(2 / np.pi * (1 / before.size + 1 / others)) * spread)
