"""What became of labels: tables of two columns, the means of the groups that they make, regressions on them.

Missing is a label of its own. Functions of codes take them rows x columns, -1 where a cell is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.core.fewest_records import FEWEST_RECORDS
from microveil.core.keys import Codes
from microveil.core.linalg import independent_columns
from microveil.core.sorted_columns import STEP
from microveil.core.table import Matrix
from microveil.measures.base import Estimate, gauge, scales
from microveil.measures.labels import DistantCodes, LabelPair, indicator_columns
from microveil.measures.utility.regression import MEAN_GAP, regression_on

MOST_CELLS = 50
"""Cells of a two-way table whose shares are compared: larger ones have too few records in each."""

RECORDS_PER_CELL = 10
"""Of large files, tables of more cells are compared, too, if so many records are in each on average."""

MOST_TERMS = 300
"""Labels that are regressed on, at most: the most frequent."""


@dataclass(frozen=True, repr=False)
class TwoWay:
    """A table of two columns of labels: their places, and the shares of the records in its cells, before and after."""

    first: int
    second: int
    before: Array
    after: Array

    @property
    def distance(self) -> float:
        """Total variation: the share of the records that would have to move."""
        return float(np.abs(self.before - self.after).sum() / 2)

    def by_luck(self, rows: float, new_rows: float) -> float:
        """The mean distance of two independent samples of one population, of so many records (of equal weights)."""
        spread = np.sqrt(self.before * (1 - self.before) * (1 / rows + 1 / new_rows))
        return float(MEAN_GAP * spread.sum() / 2)


def two_way_shares(codes: Codes, sizes: tuple[int, int], weights: Array | None = None) -> Array:
    """Shares of the records (rows x 2) in the cells of a table, the first row and column for missing cells."""
    shape = sizes[0] + 1, sizes[1] + 1
    if isinstance(codes, DistantCodes):
        counts = codes.table.total(partial(_counts, shape), [0, 1])
    else:
        counts = _counts(shape, codes.T, slice(len(codes)), weights)
    shares: Array = counts / counts.sum()
    return shares


def _counts(shape: tuple[int, int], codes: Array | Codes, _: slice, weights: Array | None = None) -> Array:
    """Records (2 x rows) in the cells of a table of this `shape`; their sums of `weights`, if there are any."""
    cells = ((codes[0] + 1) * shape[1] + codes[1] + 1).astype(np.int64)
    return np.bincount(cells, weights, shape[0] * shape[1]).reshape(shape).astype(np.float64)


def two_way_tables_of(labels: LabelPair) -> Iterator[TwoWay]:
    """All tables of two columns of labels that are not too large for the records, missing cells aside."""
    most, weights = max(MOST_CELLS, len(labels.original) // RECORDS_PER_CELL), weights_of(labels)
    for first, second in combinations(range(len(labels.names)), 2):
        sizes = labels.sizes[first], labels.sizes[second]
        if sizes[0] * sizes[1] <= most:
            sides = zip((labels.original, labels.released), weights, strict=True)
            before, after = (two_way_shares(codes[:, [first, second]], sizes, of) for codes, of in sides)
            yield TwoWay(first, second, before, after)


def weights_of(labels: LabelPair) -> tuple[Array | None, Array | None]:
    """The weights of both files, or none of either."""
    return (labels.weights, labels.released_weights) if labels.released_weights is not None else (None, None)


def _sizes_of(labels: LabelPair) -> tuple[float, float]:
    """The numbers of records of both files; with weights, of as good a sample of equal weights."""
    old, new = weights_of(labels)
    if old is None or new is None:
        return float(len(labels.original)), float(len(labels.released))
    return float(old.sum() ** 2 / np.square(old).sum()), float(new.sum() ** 2 / np.square(new).sum())


def _cramers_v(shares: Array) -> float:
    """The strength of an association from 0 to 1: chi-square over its largest value, without correction."""
    there = shares[shares.sum(axis=1) > 0][:, shares.sum(axis=0) > 0]
    if min(there.shape) < 2:
        return 0.0
    expected = np.outer(there.sum(axis=1), there.sum(axis=0))
    return float(np.sqrt((np.square(there - expected) / expected).sum() / (min(there.shape) - 1)))


def _worst_table(labels: LabelPair, size_of: Callable[[TwoWay], float], chance: float | None = None) -> Estimate:
    """The table of two columns of labels for which `size_of` is largest; chance is that of distances by default."""
    chosen = labels.of_labels
    found = list(two_way_tables_of(chosen))
    if not found:
        raise DataError("no two columns of labels make a table that has some records in each cell", "pool levels first")
    sizes = [size_of(table) for table in found]
    worst = found[int(np.argmax(sizes))]
    return Estimate(
        max(sizes),
        chance=max(table.by_luck(*_sizes_of(labels)) for table in found) if chance is None else chance,
        note=f"largest for {chosen.names[worst.first]} and {chosen.names[worst.second]}",
        parts={"mean": float(np.mean(sizes))},
    )


@gauge(
    "largest share of records that would have to move to bring a table of two columns of labels back",
    default=True,
    on_spark=True,
    needs="labels",
)
def two_way_tables(original: Matrix, released: Matrix, *, labels: LabelPair) -> Estimate:  # noqa: ARG001 - of labels
    """Total variation of two-way tables, ½ Σ |p' - p| over their cells, of the pair of columns that lost most.

    Left out are tables of more than 50 cells that have fewer than ten records in each on average. The part "mean" is
    that over all pairs; weights count, where they are known. No sampling is involved; chance is the mean for two
    independent samples of one population, of the pair for which it is largest.
    """
    return _worst_table(labels, lambda table: table.distance)


@gauge(
    "largest change of Cramér's V, the strength of an association of two columns of labels",
    on_spark=True,
    needs="labels",
)
def cramers_v_change(original: Matrix, released: Matrix, *, labels: LabelPair) -> Estimate:  # noqa: ARG001 - of labels
    """Change of Cramér's V over all pairs of columns of labels that `two_way_tables` compares.

    V is the root of chi-square over its largest possible value: 0 if two columns have nothing to do with each other, 1
    if one follows from the other. The part "mean" is that over all pairs. Chance is about the mean for two independent
    samples where associations are weak; the note names the pair.
    """
    rows, new_rows = _sizes_of(labels)
    luck = min(float(MEAN_GAP * np.sqrt(1 / rows + 1 / new_rows)), 1.0)
    return _worst_table(labels, lambda table: abs(_cramers_v(table.after) - _cramers_v(table.before)), luck)


@dataclass(frozen=True, repr=False)
class GroupMeans:
    """The means of a column in the groups of one of labels, in standard deviations of the original from its mean.

    `levels` are those of enough records in the original; `luck` is the mean gap of two samples of so many each.
    """

    column: int
    label: int
    levels: Codes
    before: Array
    after: Array
    luck: Array

    @property
    def gap(self) -> float:
        """The largest difference; a group that is empty now is off by its whole distance from the mean."""
        return float(np.abs(self.before - np.nan_to_num(self.after)).max(initial=0.0))


def group_sums(by: Codes, values: Array, levels: int, weights: Array | None = None) -> tuple[Array, Array]:
    """Sums of weights and of weighted values in groups 0 ... `levels` - 1, piece by piece; records without a group, and
    NaN, are left out.
    """
    total = np.zeros((2, levels))
    for start in range(0, by.size, STEP):
        rows = slice(start, start + STEP)
        groups, cells = by[rows], values[rows]
        there = (groups >= 0) & ~np.isnan(cells)
        each = np.ones(there.sum()) if weights is None else weights[rows][there]
        total += [np.bincount(groups[there], of, levels) for of in (each, each * cells[there])]
    return total[0], total[1]


def group_means_of(original: Matrix, released: Matrix, labels: LabelPair) -> Iterator[GroupMeans]:
    """For each column of numbers that varies and each of labels, the means of the groups that are not small."""
    weights = weights_of(labels)
    for column, (mean, sd) in scales(original).items():
        both = [(table.columns[column] - mean) / sd for table in (original, released)]
        for label, size in enumerate(labels.sizes):
            codes = labels.original[:, label], labels.released[:, label]
            levels = np.flatnonzero(group_sums(codes[0], both[0], size)[0] >= FEWEST_RECORDS)
            if not levels.size:
                continue
            sides = [group_means_in(*side, size) for side in zip(codes, both, weights, strict=True)]
            (before, spread, old), (after, _, new) = ([of[levels] for of in side] for side in sides)
            error = spread * np.sqrt(old + np.where(new > 0, new, 1.0))
            yield GroupMeans(column, label, levels, before, after, MEAN_GAP * error)


def group_means_in(by: Codes, values: Array, weights: Array | None, levels: int) -> tuple[Array, Array, Array]:
    """The means and standard deviations of groups 0 ... `levels` - 1, and 1 / the records of equal weights in each.

    `by` (n) has the group of each record, -1 for none, `values` and `weights` (n) its number and weight.
    """
    sizes, sums = group_sums(by, values, levels, weights)
    squares = group_sums(by, np.square(values), levels, weights)[1]
    of_weights = group_sums(by, values, levels, None if weights is None else np.square(weights))[0]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = sums / sizes
        spread = np.sqrt(np.maximum(squares / sizes - np.square(mean), 0.0))
        return mean, spread, np.nan_to_num(of_weights / np.square(sizes))


@gauge(
    "largest change of the mean of a column in a group that labels make, in standard deviations",
    range=(0.0, np.inf),
    default=True,
    needs="both",
)
def group_means(original: Matrix, released: Matrix, *, labels: LabelPair) -> Estimate:
    """Means of every column of numbers in the groups of every column of labels, |m' - m| over the standard deviation.

    Groups of few records are left out, as nothing can be said of them; weights count, where they are known. The parts
    have the mean over all groups, and the note names the pair of columns. No sampling is involved; chance is the mean
    gap for two independent samples of one population, of the group for which it is largest.
    """
    chosen = labels.of_labels
    found = list(group_means_of(original, released, chosen))
    if not found:
        raise DataError(f"no label has {FEWEST_RECORDS} records", "give more records, or pool levels")
    worst = max(found, key=lambda one: one.gap)
    gaps = np.concatenate([np.abs(one.before - np.nan_to_num(one.after)) for one in found])
    return Estimate(
        worst.gap,
        chance=float(max(one.luck.max() for one in found)),
        note=f"largest for column {worst.column} (from 0) by {chosen.names[worst.label]}",
        parts={"mean": float(gaps.mean())},
    )


@gauge(
    "change of regression coefficients in standard errors, each column of numbers on labels and numbers, mean of all",
    range=(0.0, np.inf),
    default=True,
    needs="both",
)
def label_regressions(original: Matrix, released: Matrix, *, labels: LabelPair) -> Estimate:
    """Regressions of every column of numbers on all labels and all other numbers, |b' - b| / (standard error before).

    Each label that enough records have is a term of its own (at most 300, the most frequent; the others are what these
    are compared with), as an analyst would regress wages on sex, union and schooling. Terms that follow from others are
    left out, missing numbers are set to the mean, and so are columns that do not vary. Weights count, where they are
    known. The parts have the largest, and that of the labels' own coefficients. Chance is the mean for two independent
    samples, sqrt(2/π (1 + n/m)).
    """
    found = scales(original, needed=True)
    numbers = [
        np.column_stack([np.nan_to_num((table.columns[j] - mean) / sd) for j, (mean, sd) in found.items()])
        for table in (original, released)
    ]
    terms = indicator_columns(labels.of_labels, MOST_TERMS, fewest=FEWEST_RECORDS)
    old, new = (np.hstack([side, of]) for side, of in zip(numbers, terms, strict=False))
    moments = [
        np.cov(side, rowvar=False, ddof=0, aweights=weights).reshape(side.shape[1], -1)
        for side, weights in zip((old, new), weights_of(labels), strict=True)
    ]
    counts = _sizes_of(labels)
    chosen = np.array(independent_columns(moments[0]), dtype=np.intp)
    targets = [place for place, j in enumerate(chosen) if j < len(found)]
    if not targets or chosen.size < 2:
        raise DataError("a regression needs two columns that vary on their own", "there is nothing to regress on")
    freedom = max(counts[0] - chosen.size, 1.0)
    gaps, own = [], []
    for place in targets:
        others = np.delete(chosen, place)
        (before, error, _), (after, _, _) = (regression_on(of, int(chosen[place]), others, freedom) for of in moments)
        moved = np.abs(after - before)
        gap = np.divide(moved, np.maximum(error, 1e-300), out=np.zeros_like(moved), where=moved > 1e-12)
        gaps.append(gap)
        own.append(gap[others >= len(found)])
    every = np.concatenate(gaps)
    of_labels = np.concatenate(own)
    parts = {"largest": float(every.max()), "of labels": float(of_labels.mean()) if of_labels.size else 0.0}
    return Estimate(float(every.mean()), chance=float(MEAN_GAP * np.sqrt(1 + counts[0] / counts[1])), parts=parts)
