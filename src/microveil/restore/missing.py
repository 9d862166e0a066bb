"""Missing cells: filled in for the decomposition, blank again in the release.

1. Before: each missing cell gets a draw from the normal distribution given the cells present in its row, with
   moments from complete pairs, within the range of its column. (A conditional mean would do for the components, but
   would pull their spread together, and that of the release with it.)
2. After: the cells that were missing are blanked, whatever they hold now.
3. What analysts compute from such a file are means over the cells present and covariances over complete pairs.
   `recalibrated` makes exactly these come back, with the smallest change of the cells that does it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Mask
from microveil.core.linalg import nearest_correlation, regression_slopes
from microveil.core.moments import PairMoments, is_wide, pair_moments
from microveil.core.rng import ROWS_PER_BLOCK, Stream, Streams
from microveil.core.table import Matrix, RowsFirst, rows_by_group
from microveil.core.tolerances import FINE_ROUND_OFF, SUM_ROUND_OFF

NEWTON_STEPS = 30
CG_STEPS = 2_000
"""Most steps of the two loops of `recalibrated`; a handful is usual."""

CG_REDUCTION = 1e-16
"""Eight digits a solution; Newton's method asks for the next eight itself."""


def completed(values: Matrix, present: Mask, weights: Array | None, streams: Streams, stratum: int) -> Sequence[Array]:
    """The columns without holes; `present` is rows x columns, `weights` (rows) or None.

    In a wide table a regression on the cells that are there would fit every record, so that it tells nothing of those
    that are not: these are drawn from their columns alone.
    """
    columns, some = list(values.columns), np.flatnonzero(~present.all(axis=0)).tolist()
    luck = {j: streams.stream("missing", stratum, j) for j in some}
    ends = np.full((2, len(columns)), [[-np.inf], [np.inf]])
    for j in some:
        there = columns[j][:][present[:, j]]
        ends[:, j] = (there.min(), there.max()) if there.size else ends[:, j]
    if is_wide(*values.shape):
        for j in some:
            own = pair_moments(columns[j][:, None], present[:, [j]], weights=weights)
            drawn = np.clip(own.mean[0] + luck[j].normal(len(present)) * own.sd[0], *ends[:, j])
            columns[j] = np.where(present[:, j], columns[j], drawn)
        return columns
    fill = GapFilling(pair_moments(RowsFirst(values), present, weights=weights), luck, ends)
    for j in some:
        columns[j] = values.put_aside(columns[j].copy())
    for start in range(0, len(present), ROWS_PER_BLOCK):
        rows = slice(start, min(start + ROWS_PER_BLOCK, len(present)))
        for j, filled in zip(some, fill.filled(RowsFirst(values)[rows], present[rows], start), strict=True):
            columns[j][rows] = filled
    return columns


@dataclass(frozen=True, repr=False)
class GapFilling:
    """Missing cells drawn, given those that are present in their row: a row map.

    `pairs` are the moments of complete pairs of all columns, and `luck` has a stream for each column, by number, of
    which cells are missing; `ends` (2 x columns) are the least and the largest cell that is there.
    """

    pairs: PairMoments
    luck: Mapping[int, Stream]
    ends: Array

    def __call__(self, cells: Array, rows: slice) -> Array:
        """The columns of some rows (columns x rows, NaN where a cell is missing) that have missing cells, filled."""
        values = np.ascontiguousarray(cells.T)
        return np.array(self.filled(values, ~np.isnan(values), rows.start))

    def filled(self, values: Array, present: Mask, start: int) -> list[Array]:
        """The same columns; `values` and `present` are rows x columns, of rows from `start` on."""
        pairs, scale = self.pairs, np.where(self.pairs.sd > 0, self.pairs.sd, 1.0)
        cells, drawn = np.where(present, (values - pairs.mean) / scale, 0.0), np.zeros(values.shape)
        for j, stream in self.luck.items():
            drawn[:, j] = stream.normal(len(values), start)
        filled = np.clip(pairs.mean + _regressed(cells, present, self.correlation, drawn) * scale, *self.ends)
        return [np.where(present[:, j], values[:, j], filled[:, j]) for j in self.luck]

    @cached_property
    def correlation(self) -> Array:
        """The correlations of complete pairs, or what is near them and can be such."""
        scale = np.where(self.pairs.sd > 0, self.pairs.sd, 1.0)
        return nearest_correlation(np.nan_to_num(self.pairs.covariance / np.outer(scale, scale)))


def _regressed(cells: Array, present: Mask, correlation: Array, luck: Array) -> Array:
    """Standardised cells (rows x columns) with those that are missing drawn, given the others, by some `luck`."""
    patterns, which = np.unique(present, axis=0, return_inverse=True)
    for there, rows in zip(patterns, rows_by_group(which.ravel()), strict=True):
        if there.all():
            continue
        slopes = regression_slopes(correlation[np.ix_(there, there)], correlation[np.ix_(there, ~there)])
        left = correlation[np.ix_(~there, ~there)] - correlation[np.ix_(~there, there)] @ slopes
        spread, directions = np.linalg.eigh(left)
        root = directions * np.sqrt(np.clip(spread, 0, None))
        cells[np.ix_(rows, ~there)] = cells[np.ix_(rows, there)] @ slopes + luck[np.ix_(rows, ~there)] @ root.T
    return cells


def outnumbered(present: Mask) -> bool:
    """Are there more means and covariances than cells that could be changed to meet them?"""
    width = int(present.shape[1])
    return width * (width + 3) // 2 > int(np.count_nonzero(present))


def with_means(values: Array, present: Mask, target: PairMoments, weights: Array | None) -> Array:
    """The table shifted, column by column, to the mean over the cells present that it had."""
    now = pair_moments(values, present, weights=weights)
    return values + (target.mean - now.mean)


@dataclass(frozen=True, repr=False)
class Sums:
    """Columns that will be made of the others, `constant + values @ matrix`, and have holes of their own."""

    matrix: Array
    constant: Array


def recalibrated(
    values: Array,
    present: Mask,
    target: PairMoments,
    weights: Array | None,
    fixed: int = 0,
    sums: Sums | None = None,
) -> Array:
    """The table with means over cells present and covariances over complete pairs as in `target`.

    `values` is rows x columns, `weights` (rows) or None; `present` and `target` are of the columns, then of the `sums`.
    The `fixed` first columns have the moments they should have and stay as they are. A cell that is missing, but is in
    a sum that is not, changes too.

    Newton's method on the moments; each step is the smallest change of the cells present that meets them to first
    order. The best table seen is returned: what was reached is measured on the release itself.
    """
    width = values.shape[1]
    sums = sums or Sums(np.empty((width, 0)), np.empty(0))
    scale = np.where(target.sd > 0, target.sd, 1.0)
    system = _System(present, target, scale, weights, fixed, sums)
    mean, unit = target.mean[:width], scale[:width]
    work = np.where(system.used, (values - mean) / unit, 0.0)
    gap = system.gap(work)
    best, best_gap = work, gap
    for _ in range(NEWTON_STEPS):
        if best_gap.size_of_worst <= FINE_ROUND_OFF:
            break
        step = system.smallest_change(work, gap)
        gaps = {part: system.gap(work + part * step) for part in (1.0, 0.5, 0.25, 0.125)}
        best_part = min(gaps, key=lambda part: gaps[part].size_of_worst)
        # Where no step leads downhill, the full one leads out of the valley.
        part = best_part if gaps[best_part].size_of_worst < gap.size_of_worst else 1.0
        work, gap = work + part * step, gaps[part]
        if gap.size_of_worst < best_gap.size_of_worst:
            best, best_gap = work, gap
        elif best_gap.size_of_worst <= SUM_ROUND_OFF:  # what is left is round-off
            break
    return np.where(system.used, best * unit + mean, values)


@dataclass(frozen=True, repr=False)
class _Gap:
    """What is missing to the target: means, and covariances (symmetric)."""

    means: Array
    covariances: Array

    @property
    def size_of_worst(self) -> float:
        return float(max(np.abs(self.means).max(), np.abs(self.covariances).max()))

    def dot(self, other: _Gap) -> float:
        return float(self.means @ other.means + (self.covariances * other.covariances).sum())

    def plus(self, factor: float, other: _Gap) -> _Gap:
        return _Gap(self.means + factor * other.means, self.covariances + factor * other.covariances)


class _System:
    """The moments of a table with holes, their derivatives, and the smallest change that moves them as wanted.

    With J the derivative of the moments by the cells, the smallest change is J'v with J J' v = gap. J J' is never
    formed: conjugate gradients need only its products, which are a few products of tables.
    """

    def __init__(
        self, present: Mask, target: PairMoments, scale: Array, weights: Array | None, fixed: int, sums: Sums
    ) -> None:
        width = sums.matrix.shape[0]
        made = np.hstack([np.eye(width), sums.matrix])
        self.turn = made * scale[:width, None] / scale
        self.offset = (np.r_[np.zeros(width), sums.constant] + target.mean[:width] @ made - target.mean) / scale
        self.offset[:width] = 0.0
        self.there = present.astype(np.float64)
        self.used = self.there @ (made != 0).T > 0
        self.free = self.used.astype(np.float64)
        self.free[:, :fixed] = 0.0
        self.fixed = fixed
        self.weight = np.ones((present.shape[0], 1)) if weights is None else weights[:, None] / weights.mean()
        self.counts = (self.weight * self.there).T @ self.there
        self.safe = np.where(self.counts > 0, self.counts, 1.0)
        self.target = np.where(self.counts > 0, np.nan_to_num(target.covariance) / np.outer(scale, scale), 0.0)

    def seen(self, work: Array) -> Array:
        """The columns and their sums, zero in their holes."""
        seen: Array = self.there * (work @ self.turn + self.offset)
        return seen

    def gap(self, work: Array) -> _Gap:
        """Target minus moments of a table (zero in its holes)."""
        work = self.seen(work)
        weighted = self.weight * work
        firsts = weighted.T @ self.there
        gap = self.target - (weighted.T @ work - firsts * firsts.T / self.safe) / self.safe
        # Symmetric to the last digit: no change of the cells can close an asymmetry, and the solver would try for ever.
        gap = (gap + gap.T) / 2
        means = -np.diagonal(firsts) / np.diagonal(self.safe)
        means[: self.fixed], gap[: self.fixed, : self.fixed] = 0.0, 0.0
        return _Gap(means, gap)

    def smallest_change(self, work: Array, gap: _Gap) -> Array:
        """Conjugate gradients for J J' v = gap, then J'v."""
        work = self.seen(work)
        means = (self.weight * work).T @ self.there / self.safe  # of column j over the rows it shares with k
        solution = _Gap(np.zeros_like(gap.means), np.zeros_like(gap.covariances))
        residual = direction = gap
        size = start = residual.dot(residual)
        for _ in range(CG_STEPS):
            # Moments of sums may follow from others: what is left of their gap is then round-off, which nothing closes.
            if size <= max(CG_REDUCTION * start, FINE_ROUND_OFF**2):
                break
            image = self._moved(work, means, self._change(work, means, direction))
            along = direction.dot(image)
            if along <= 0:
                break
            solution = solution.plus(size / along, direction)
            residual = residual.plus(-size / along, image)
            size, previous = residual.dot(residual), size
            direction = residual.plus(size / previous, direction)
        return self._change(work, means, solution)

    def _change(self, work: Array, means: Array, v: _Gap) -> Array:
        """J'v: column j gets a multiple of each column k, about k's mean, in the rows where both are present."""
        factors = 2 * v.covariances / self.safe
        shift = v.means / np.diagonal(self.safe)
        along = self.there * (work @ factors - self.there @ (factors * means) + shift)
        change: Array = self.free * (along @ self.turn.T)
        return change

    def _moved(self, work: Array, means: Array, change: Array) -> _Gap:
        """J applied to a change of the cells."""
        weighted = self.weight * self.there * (change @ self.turn)
        half = (work.T @ weighted - means * (self.there.T @ weighted)) / self.safe
        return _Gap(weighted.sum(axis=0) / np.diagonal(self.safe), half + half.T)


def marks_of(present: Mask, labels: int) -> NDArray[np.uint8]:
    """Which cells are there, rows x moving columns; labels all are."""
    return np.ascontiguousarray(np.hstack([present, np.ones((len(present), labels), dtype=bool)]), np.uint8)


def both_present(present: Mask) -> Array:
    """In how many rows both of two cells are there: columns x columns."""
    total = np.zeros((present.shape[1],) * 2)
    for start in range(0, len(present), ROWS_PER_BLOCK):
        there = present[start : start + ROWS_PER_BLOCK].astype(np.float64)
        total += there.T @ there
    return total
