"""What happened to the columns one by one: relative bias of their moments, Kolmogorov-Smirnov, Wasserstein, IL1s."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from microveil.core.arrays import Array
from microveil.core.sorted_columns import pieces_of, side_by_side
from microveil.core.table import Matrix
from microveil.measures.base import Estimate, distance, gauge, over_rows, scales
from microveil.measures.utility.central_moments import gaps, moments_of_both

FLOOR = 0.05
"""Smallest denominator of the floored relative bias: a statistic near zero makes the literal one explode."""


def relative_bias(before: Array, after: Array, *, kept: int = 0) -> Estimate:
    """The mean of |after - before| / |before|; the parts have it floored, and without a denominator.

    `kept` statistics more are in the literal mean, which cannot change: the diagonal of a correlation matrix.
    """
    moved, size = gaps(before, after), np.abs(before)
    if not moved.size:
        return Estimate(0.0, note="there are no two columns to relate")
    with np.errstate(divide="ignore"):
        literal = np.divide(moved, size, out=np.zeros_like(moved), where=moved > 0)
    parts = {
        "floored": float((moved / np.maximum(size, FLOOR)).mean()),
        "absolute": float(moved.mean()),
        "largest": float(moved.max()),
        "smallest original": float(size.min()),
    }
    return Estimate(float(literal.sum()) / (moved.size + kept), parts=parts)


@distance("relative change of the means, mean over the columns")
def mean_bias(original: Matrix, released: Matrix) -> Estimate:
    """Relative bias of the means. Parts are in standard deviations of the original. No sampling is involved."""
    old, new = moments_of_both(original, released)
    means = np.array([mean / sd for mean, sd in scales(original).values()])
    return relative_bias(means, means + (new.mean - old.mean))


@distance("relative change of the variances, mean over the columns")
def variance_bias(original: Matrix, released: Matrix) -> Estimate:
    """Relative bias of the variances. No sampling is involved."""
    old, new = moments_of_both(original, released)
    return relative_bias(old.power(2), new.power(2))


@distance("relative change of the skewness, mean over the columns")
def skewness_bias(original: Matrix, released: Matrix) -> Estimate:
    """Relative bias of the skewness μ3 / μ2^(3/2) (Calviño 2017, Table 4). No sampling is involved."""
    old, new = moments_of_both(original, released)
    return relative_bias(old.standardised_power(3), new.standardised_power(3))


@distance("relative change of the kurtosis, mean over the columns")
def kurtosis_bias(original: Matrix, released: Matrix) -> Estimate:
    """Relative bias of the kurtosis μ4 / μ2², 3 for a normal (Calviño 2017, Table 4). No sampling is involved."""
    old, new = moments_of_both(original, released)
    return relative_bias(old.standardised_power(4), new.standardised_power(4))


@gauge(
    "largest difference of the distribution functions of a column, mean over the columns",
    default=True,
    on_disk="sorted",
)
def ks(original: Matrix, released: Matrix) -> Estimate:
    """Kolmogorov-Smirnov distance of each column: the mean, and in the note and the parts the largest.

    No sampling is involved; chance is the mean for two large independent samples of a continuous population,
    sqrt(π/2) ln 2 sqrt(1/n + 1/m) of n and m cells that are there.
    """
    return _mean_over_columns(original, released, lambda old, new, _: (_largest_gap(old, new), _gap_by_luck(old, new)))


@distance(
    "how far the values of a column must be moved to become the released ones, in standard deviations, mean over the "
    "columns",
    on_disk="sorted",
)
def marginal_distance(original: Matrix, released: Matrix) -> Estimate:
    """Wasserstein distance of each column, ∫ |F - G| dx in standard deviations of the original: the mean of them.

    In the note and the parts is the largest. Unlike `ks` it tells how far values are off, and not only how many. A
    column without released values is infinitely far. No sampling is involved; chance is the mean for two large
    independent samples, sqrt(2/π (1/n + 1/m)) ∫ sqrt(F (1 - F)) dx.
    """
    return _mean_over_columns(
        original, released, lambda old, new, sd: (_moved(old, new) / sd, _moved_by_luck(old, new) / sd)
    )


def _mean_over_columns(
    original: Matrix, released: Matrix, compare: Callable[[Array, Array, float], tuple[float, float]]
) -> Estimate:
    """The mean of a distance over the columns, and of its chance; the largest is in the note and the parts.

    `compare` has both columns in ascending order and the standard deviation, and gives back the distance and chance.
    """
    scale = scales(original, needed=True)
    both = [compare(original.in_order(j), released.in_order(j), sd) for j, (_, sd) in scale.items()]
    found, chance = zip(*both, strict=True)
    worst = int(np.argmax(found))
    return Estimate(
        float(np.mean(found)),
        chance=float(np.mean(chance)),
        note=f"largest: {found[worst]:.3f}, in column {list(scale)[worst]} (from 0)",
        parts={"largest": found[worst]},
    )


@distance("mean absolute change of a cell, in units of √2 standard deviations of its column", paired=True)
def il1s(original: Matrix, released: Matrix) -> Estimate:
    """IL1s (Yancey, Winkler and Creecy 2002): (1/np) Σ |x - x'| / (√2 s), s with the divisor n - 1.

    Means are over the cells that are there in both files. No sampling is involved.
    """
    changed, known, present = np.sum(over_rows(original, released, _changes), axis=0)
    changed *= np.sqrt((present - 1) / present) / np.sqrt(2)
    return Estimate(float(changed.sum() / max(known.sum(), 1.0)))


def _changes(before: Array, after: Array) -> Array:
    """Of each column: the sum of the changes, the cells that are there in both files, and those in the first."""
    change = np.abs(after - before)
    known = ~np.isnan(change)
    return np.array([np.where(known, change, 0.0).sum(axis=1), known.sum(axis=1), (~np.isnan(before)).sum(axis=1)])


def _largest_gap(before: Array, after: Array) -> float:
    """Sup |F - G| of columns in ascending order; 1 if there is nothing in the release."""
    if not after.size:
        return 1.0
    worst = 0.0
    for old, new, passed, released in side_by_side(before, after):
        first = _shares_at(old, new, passed, released, before.size, after.size)
        second = _shares_at(new, old, released, passed, after.size, before.size)
        worst = max(worst, *(float(np.abs(own - other).max(initial=0.0)) for own, other in (first, second)))
    return worst


def _gap_by_luck(before: Array, after: Array) -> float:
    """The mean of the same for two large samples of one continuous population."""
    return float(min(np.sqrt(np.pi / 2) * np.log(2) * np.sqrt(1 / before.size + 1 / max(after.size, 1)), 1.0))


def _shares_at(here: Array, there: Array, own: int, other: int, size: int, other_size: int) -> tuple[Array, Array]:
    """Both distribution functions at the different values of one column; `own` and `other` values came before."""
    last = np.flatnonzero(np.append(here[1:] != here[:-1], True)[: here.size])  # of each run of equal values
    return (own + last + 1) / size, (other + np.searchsorted(there, here[last], "right")) / other_size


def _moved(before: Array, after: Array) -> float:
    """∫ |F - G| dx of columns in ascending order."""
    if not after.size:
        return float(np.inf)
    total, last, gap = 0.0, 0.0, 0.0
    for old, new, passed, released in side_by_side(before, after):
        at = np.sort(np.concatenate([old, new]))
        shares = [
            (passed + np.searchsorted(old, at, "right")) / before.size,
            (released + np.searchsorted(new, at, "right")) / after.size,
        ]
        gaps_here = np.abs(shares[0] - shares[1])
        total += gap * (float(at[0]) - last) + float(gaps_here[:-1] @ np.diff(at))
        last, gap = float(at[-1]), float(gaps_here[-1])
    return total


def _moved_by_luck(before: Array, after: Array) -> float:
    """The mean of the same for two samples of the first file's distribution: |F - G| is that of a normal there."""
    spread, done, last = 0.0, 0, before[:0]
    for piece in pieces_of(before):
        share = np.arange(max(done, 1), done + piece.size) / before.size
        spread += float(np.sqrt(share * (1 - share)) @ np.diff(np.concatenate([last, piece])))
        done, last = done + piece.size, piece[-1:]
    return float(np.sqrt(2 / np.pi * (1 / before.size + 1 / max(after.size, 1)))) * spread
