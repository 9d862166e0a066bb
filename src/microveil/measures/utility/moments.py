"""What happened to the columns one by one: relative bias of their moments, Kolmogorov-Smirnov, Wasserstein, IL1s.

Central moments of a file are what most measures of utility see of it, from cells that are held or passed by.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.core.sorted_columns import FEW, pieces_of, side_by_side
from microveil.core.table import Matrix, RowMap
from microveil.core.threads import in_threads, segments
from microveil.core.tolerances import STATISTIC_ROUND_OFF
from microveil.measures.base import Estimate, are_many, distance, gauge, over_rows, scales
from microveil.storage.disk_columns import RemoteMatrix

FLOOR = 0.05
"""Smallest denominator of the floored relative bias: a statistic near zero makes the literal one explode."""

MOMENTS = ((0,), (2,), (3,), (4,), (5,), (6,), (8,), (0, 0), (1, 1), (2, 2), (3, 1))
"""Powers, and products of powers, of which measures need the sums; of rows on a disk, all are taken at once."""

MOST_COLUMNS = 4_000
"""Columns whose pairs are all compared at most: a matrix of them takes 128 MB, and a measure needs some ten."""

CUT_ROWS, MOST_CUTS = 40_000, 2_000
"""Rows that values are looked for in at which far cells are counted, and how many values of a column at most."""

Units = Mapping[int, tuple[float, float]]
"""What is taken off each column, and what it is divided by, by its number; other columns are left out."""


@dataclass(frozen=True, repr=False)
class ColumnMoments:
    """Moments of the columns about their own means, over the cells (or pairs of cells) that are there.

    `mean` (k) has the means; `sums(r)` (k) adds up the r-th powers of each column about its mean, and `sums(r, s)`
    (k x k) products of powers of all pairs of columns. A cell that is missing adds nothing, not even to powers of 0.
    """

    mean: Array
    sums: Callable[..., Array]

    @classmethod
    def of(cls, values: Array) -> ColumnMoments:
        """From a table with NaN where cells are missing: each moment is found when it is needed."""
        there = ~np.isnan(values)
        mean = np.where(there, values, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
        return cls(mean, _sums_about(mean, values))

    @classmethod
    def in_passes(cls, table: Matrix, units: Units) -> ColumnMoments:
        """From rows on a disk or far away, in two passes: the means, and all moments about them."""
        check_pairs(len(units))
        chosen, width = table.select(list(units)), len(units)
        off, unit = (np.array(values)[:, None] for values in zip(*units.values(), strict=True))

        total, count = _total(chosen, partial(_counted, off, unit)).reshape(2, width)
        mean = total / np.maximum(count, 1)
        flat = _total(chosen, partial(_every_sum, mean, off, unit))
        shapes = [(width,) * len(powers) for powers in MOMENTS]
        parts = np.split(flat, np.cumsum([math.prod(shape) for shape in shapes])[:-1])
        found = {p: part.reshape(shape) for p, part, shape in zip(MOMENTS, parts, shapes, strict=True)}
        return cls(mean, lambda *powers: found[powers])

    @cached_property
    def count(self) -> Array:
        """Cells of each column that are there (1 for an empty column, whose moments are all 0)."""
        return np.maximum(self.sums(0), 1)

    @cached_property
    def pairs(self) -> Array:
        """Rows in which both of two columns are there (1 if there are none)."""
        return np.maximum(self.sums(0, 0), 1)

    def power(self, r: int) -> Array:
        """The central moments μ_r of the columns."""
        return self.sums(r) / self.count

    def product(self, r: int = 1, s: int = 1) -> Array:
        """The central moments μ_rs of all pairs of columns."""
        check_pairs(self.mean.size)
        return self.sums(r, s) / self.pairs

    def correlation(self) -> Array:
        """Pearson correlations; a constant column has none, and gets 0."""
        check_pairs(self.mean.size)
        sd = np.sqrt(self.power(2))
        scale = np.outer(sd, sd)
        found = np.divide(self.product(), scale, out=np.zeros_like(scale), where=scale > 0)
        found[np.diag_indices_from(found)] = 1.0
        bounded: Array = np.clip(found, -1.0, 1.0)
        return bounded

    def standardised_power(self, r: int) -> Array:
        """μ_r / μ_2^(r/2): skewness for r = 3, kurtosis (of a normal: 3) for r = 4; 0 for a constant column."""
        spread = self.power(2) ** (r / 2)
        return np.divide(self.power(r), spread, out=np.zeros_like(spread), where=spread > 0)


def _total(table: Matrix, of: RowMap) -> Array:
    """The sum over all rows of what is made of them; on a disk, each thread adds up its own."""
    if table.distant:
        return table.total(of, range(table.shape[1]))

    def added(pieces: list[slice]) -> Array:
        return np.asarray(sum(of(table.piece(piece), piece) for piece in pieces))

    return np.asarray(np.sum(in_threads([partial(added, run) for run in segments(*table.shape)]), axis=0))


def _counted(off: Array, unit: Array, cells: Array, rows: slice) -> Array:  # noqa: ARG001 - a row map
    """Of each column the sum in a unit, and then the number of cells that are there."""
    values = (cells - off) / unit
    return np.concatenate([np.nansum(values, axis=1), np.count_nonzero(~np.isnan(values), axis=1)])


def _every_sum(mean: Array, off: Array, unit: Array, cells: Array, rows: slice) -> Array:  # noqa: ARG001 - a row map
    """All `MOMENTS` of columns in a unit, one after the other."""
    sums = _sums_about(mean, ((cells - off) / unit).T)
    return np.concatenate([sums(*powers).ravel() for powers in MOMENTS])


def _sums_about(mean: Array, values: Array) -> Callable[..., Array]:
    """What adds up powers of columns about their means, or products of powers of all pairs of columns (`sums` above).

    `values` are rows x columns with NaN where cells are missing, `mean` has a number for each column.
    """
    there = ~np.isnan(values)
    centred, present = np.where(there, values - mean, 0.0), there.astype(float)

    def raised(power: int) -> Array:
        return _raised(centred, power) if power else present

    def sums(r: int, s: int | None = None) -> Array:
        total: Array = raised(r).sum(axis=0) if s is None else raised(r).T @ raised(s)
        return total

    return sums


def _raised(values: Array, power: int) -> Array:
    """A whole power by multiplication, several times faster than by logarithms."""
    if power == 1:
        return values
    half = _raised(values, power // 2)
    return half * half * values if power % 2 else half * half


def moments_in(table: Matrix, units: Units) -> ColumnMoments:
    """The moments of a file in these units."""
    if table.distant or isinstance(table, RemoteMatrix) or are_many(table.shape[0]):
        return table.remember(("moments", tuple(units.items())), lambda: ColumnMoments.in_passes(table, units))
    return ColumnMoments.of(np.column_stack([(table.columns[j] - off) / unit for j, (off, unit) in units.items()]))


def moments_of_both(original: Matrix, released: Matrix) -> tuple[ColumnMoments, ColumnMoments]:
    """The moments of both files in standard deviations of the original; its constant columns are left out."""
    units = scales(original, needed=True)
    return moments_in(original, units), moments_in(released, units)


def check_pairs(columns: int, most: int = MOST_COLUMNS) -> None:
    """Refuse, before the work, to compare all pairs of too many columns."""
    if columns > most:
        raise DataError(f"{columns} columns have too many pairs (at most {most} columns)", "measure some of them")


def gaps(before: Array, after: Array) -> Array:
    """Absolute differences, round-off set to zero."""
    difference = np.abs(after - before)
    return np.where(difference < STATISTIC_ROUND_OFF, 0.0, difference)


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
    on_spark=True,
)
def ks(original: Matrix, released: Matrix) -> Estimate:
    """Kolmogorov-Smirnov distance of each column: the mean, and in the note and the parts the largest.

    No sampling is involved; chance is the mean for two large independent samples of a continuous population,
    sqrt(π/2) ln 2 sqrt(1/n + 1/m) of n and m cells that are there. Where rows are far away, the functions are counted
    at some 2,000 values of each column: there the largest difference is the value, and what it can be in between, at
    most, is the upper end of the interval.
    """

    def compare(old: Array, new: Array, _: float) -> tuple[float, float]:
        return ks_distance(old, new), _ks_by_luck(old.size, new.size)

    return _ks_by_counts(original, released) if original.distant else _mean_over_columns(original, released, compare)


def _ks_by_luck(count: float, new_count: float) -> float:
    """The mean distance of two samples of so many values of one population."""
    return float(min(np.sqrt(np.pi / 2) * np.log(2) * np.sqrt(1 / count + 1 / max(new_count, 1)), 1.0))


def _ks_by_counts(original: Matrix, released: Matrix) -> Estimate:
    """`ks` of columns that cannot be put in order: by counts of cells at some values (cuts), and between them."""
    numbers = list(scales(original, needed=True))
    both = [table.select(numbers) for table in (original, released)]
    cuts = _common_cuts(both)
    borders = np.cumsum([2 * own.size + 1 for own in cuts])[:-1]
    tallies = [np.split(table.total(partial(_tallied, cuts), range(len(cuts))), borders) for table in both]
    found, most, luck = [], [], []
    for before, after in zip(*tallies, strict=True):
        luck.append(_ks_by_luck(before.sum(), after.sum()))
        if not after.sum():
            found.append(1.0)
            most.append(1.0)
            continue
        # Counts stand for what is below the first cut, at it, between it and the next, ...
        old, new = (np.cumsum(of) / of.sum() for of in (before, after))
        at = np.abs(old - new)[1::2]
        start = [np.concatenate([[0.0], of[1::2]]) for of in (old, new)]
        between = np.maximum(old[::2] - start[1], new[::2] - start[0])
        found.append(float(at.max(initial=0.0)))
        most.append(float(max(found[-1], between.max())))
    value, worst = float(np.mean(found)), int(np.argmax(found))
    said = f"counted at up to {MOST_CUTS} values of each column: between {value:.4f} and {np.mean(most):.4f}"
    return Estimate(
        value,
        value,
        float(np.mean(most)),
        float(np.mean(luck)),
        f"largest: {found[worst]:.3f}, in column {numbers[worst]} (from 0); {said}",
        {"largest": found[worst]},
    )


def _common_cuts(tables: Sequence[Matrix]) -> list[Array]:
    """For each column some of the values that both files have, as many between each two: of rows all over them."""
    rows = [np.unique(np.linspace(0, t.shape[0] - 1, CUT_ROWS // len(tables)).astype(np.intp)) for t in tables]
    seen = [table.take(some).columns for table, some in zip(tables, rows, strict=True)]
    cuts = []
    for columns in zip(*seen, strict=True):
        cells = np.concatenate(columns)
        values = np.unique(cells[~np.isnan(cells)])
        if values.size > MOST_CUTS:
            values = np.unique(np.quantile(cells[~np.isnan(cells)], np.linspace(0, 1, MOST_CUTS), method="lower"))
        cuts.append(values)
    return cuts


def _tallied(cuts: Sequence[Array], cells: Array, rows: slice) -> Array:  # noqa: ARG001 - a row map
    """Cells of each column at its cuts and between them."""
    counts = []
    for own, column in zip(cuts, cells, strict=True):
        there = column[~np.isnan(column)]
        digits = np.searchsorted(own, there, "left") + np.searchsorted(own, there, "right")
        counts.append(np.bincount(digits, minlength=2 * own.size + 1))
    return np.concatenate(counts).astype(np.float64)


@distance(
    "how far the values of a column must be moved to become the released ones, in standard deviations, mean over the "
    "columns",
    on_disk="sorted",
    on_spark=False,
)
def marginal_distance(original: Matrix, released: Matrix) -> Estimate:
    """Wasserstein distance of each column, ∫ |F - G| dx in standard deviations of the original: the mean of them.

    In the note and the parts is the largest. Unlike `ks` it says how far values are off, not only how many. A column
    without released values is infinitely far. No sampling is involved; chance is the mean for two large independent
    samples, sqrt(2/π (1/n + 1/m)) ∫ sqrt(F (1 - F)) dx.
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


@distance(
    "mean absolute change of a cell, in units of √2 standard deviations of its column", paired=True, on_spark=False
)
def il1s(original: Matrix, released: Matrix) -> Estimate:
    """IL1s (Yancey, Winkler and Creecy 2002): (1/np) Σ |x - x'| / (√2 s), s with the divisor n - 1.

    Means are over the cells that are there in both files. No sampling is involved.
    """

    def changes(before: Array, after: Array) -> Array:
        """Of each column: the sum of the changes, the cells that are there in both files, and those in the first."""
        change = np.abs(after - before)
        known = ~np.isnan(change)
        return np.array([np.where(known, change, 0.0).sum(axis=1), known.sum(axis=1), (~np.isnan(before)).sum(axis=1)])

    changed, known, present = np.sum(over_rows(original, released, changes), axis=0)
    changed *= np.sqrt((present - 1) / present) / np.sqrt(2)
    return Estimate(float(changed.sum() / max(known.sum(), 1.0)))


def ks_distance(before: Array, after: Array) -> float:
    """Sup |F - G| of columns in ascending order; 1 if there is nothing in the release."""
    if not after.size:
        return 1.0
    worst = 0.0
    for old, new, passed, released in side_by_side(before, after):
        if old.size + new.size > FEW:
            from microveil.core._order_kernels import farthest_apart

            worst = max(worst, farthest_apart(old, new, passed, released, before.size, after.size))
            continue
        first = _shares_at(old, new, passed, released, before.size, after.size)
        second = _shares_at(new, old, released, passed, after.size, before.size)
        worst = max(worst, *(float(np.abs(own - other).max(initial=0.0)) for own, other in (first, second)))
    return worst


def _shares_at(here: Array, there: Array, own: int, other: int, size: int, other_size: int) -> tuple[Array, Array]:
    """Both distribution functions at the different values of one column, in a piece of it.

    `here` and `there` are pieces in ascending order, after `own` and `other` values of all `size` and `other_size`.
    """
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
