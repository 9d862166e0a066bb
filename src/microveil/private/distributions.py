"""Noisy distributions of columns: of categories by counting, of amounts in two steps that adapt to skew.

The scale of an amount is its declared bounds cut into numbered cells, so that all that follows counts whole numbers.
What a cell is follows from the declaration alone. With a step, a cell is a value; without one, the range is cut finely,
and its ends and zero, at which values pile up, are cells of their own.

An amount is explored first: runs of cells are halved as long as their noisy count is large, so that the cells that hold
many records become narrow, wherever they are. Then the runs that were found are counted once more, with most of the
budget. Counts of disjoint runs together change by 1 with a record: their L2 sensitivity is 1 (add or remove one record:
one count moves by one). Which runs are counted next depends on noisy counts only (adaptive composition). All counts
are put together by weighted least squares, and projected on what counts can be: none negative, and the right sum.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Index
from microveil.private.mechanism import Account

FINEST = 2**20
"""Cells of a range without a step, and the most that one with a step is cut into."""

MANY = 256
"""Cells of a grid on which the ends and zero are cells of their own to begin with, too."""


@dataclass(frozen=True)
class Scale:
    """The cells of an amount between two bounds."""

    low: float
    high: float
    step: float | None = None

    @property
    def whole(self) -> bool:
        """Are all values whole numbers, which doubles tell apart?"""
        whole = self.step is not None and float(self.step).is_integer() and float(self.low).is_integer()
        return whole and max(-self.low, self.high) <= 2**53

    @cached_property
    def _on_grid(self) -> bool:
        return self.step is not None and round((self.high - self.low) / self.step) < FINEST

    @cached_property
    def edges(self) -> Array:
        """Where the cells begin; of a range without a step, single points have an edge on both sides."""
        if self._on_grid and self.step is not None:
            return np.arange(round((self.high - self.low) / self.step) + 1.0)
        points = [self.low, *([0.0] if self.low < 0 < self.high else []), self.high]
        parts = []
        for left, right in pairwise(points):
            inner = np.linspace(left, right, FINEST // (len(points) - 1) + 1)
            inner[0] = np.nextafter(left, np.inf)
            parts += [np.array([left]), inner[:-1]]
        # Of a range of few numbers several edges are one; in ascending order, or a search would depend on other cells.
        return np.maximum.accumulate(np.concatenate([*parts, [self.high]]))

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return int(self.edges.size)

    @cached_property
    def pieces(self) -> list[tuple[int, int]]:
        """Runs of cells to begin with: single points by themselves."""
        if self._on_grid and self.step is not None:
            zero = round(-self.low / self.step) if self.low < 0 < self.high else 0
            ends = sorted({0, 1, zero, zero + 1, self.cells - 1, self.cells} if self.cells > MANY else {0, self.cells})
            return list(pairwise(ends))
        found, at = [], 0
        inner = (self.cells - 2 - (self.low < 0 < self.high)) // (1 + (self.low < 0 < self.high))
        while at < self.cells - 1:
            found += [(at, at + 1), (at + 1, at + 1 + inner)]
            at += 1 + inner
        return [*found, (at, at + 1)]

    def cells_of(self, values: Array) -> NDArray[np.int64]:
        """The cell of each value, -1 where it is missing; what is outside the bounds counts as the bound."""
        missing = np.isnan(values)
        inside = np.clip(np.where(missing, self.low, values), self.low, self.high)
        if self._on_grid and self.step is not None:
            found = np.rint((inside - self.low) / self.step)
        else:
            found = np.searchsorted(self.edges, inside, side="right") - 1.0
        return np.where(missing, -1, np.clip(found, 0, self.cells - 1)).astype(np.int64)

    def values_at(self, places: Array) -> Array:
        """Values at places on the line of cells (2.25: a quarter into the third cell), on the grid of the step."""
        if self._on_grid and self.step is not None:
            return self.rounded(self.low + np.floor(places) * self.step)
        whole = np.clip(np.floor(places).astype(np.int64), 0, self.cells - 1)
        left, right = self.edges[whole], np.append(self.edges[1:], self.high)[whole]
        values = left + (places - whole) * (right - left)
        # The cell after zero begins at the least number that there is, which nobody would take for an amount.
        return self.rounded(np.where(np.abs(values) < 1e-12 * (self.high - self.low), 0.0, values))

    def rounded(self, values: Array) -> Array:
        """On the grid of the step, if there is one, and within the bounds."""
        if self.step is not None:
            digits = max(0, -int(np.floor(np.log10(self.step))) + 6)
            values = np.round(self.low + np.rint((values - self.low) / self.step) * self.step, digits)
        return np.clip(values, self.low, self.high)


Run = tuple[int, int]
"""Cells from the first to the last, exclusive."""

EXPLORING = 0.4
"""Share of the budget of an amount that finds where its records are."""

FIRST_CUT, EXTRA_LEVELS, FEWEST_LEVELS, MOST_LEVELS = 8, 4, 2, 16
"""Pieces that are cut before anything is asked; and how many times they are halved: as often as the noise lets an even
distribution be, and some times more for skew."""

NOTHING, STEEPEST = 1e-6, 8.0
"""Least share of a run, for its density; and the most that the log of a density changes by within a run."""

SURE = 3.0
"""Standard deviations of the noise that the outermost counts must be above."""

EVEN = 10_000
"""Ranks at which a distribution is looked at for its moments."""

WORTH_HALVING, PER_LEAF = 2.0, 3.0
"""Runs are halved while their noisy count is above so many standard deviations of the noise of the exploration, and of
what is counted afterwards: smaller counts would be noise."""

FEWEST, EXACT = 2.0, 1e-3
"""Where there is hardly any noise: records of a run that is halved, and the least standard deviation that counts."""


@dataclass(frozen=True, repr=False)
class Distribution:
    """Shares of runs of cells of a scale: run k has the cells from `edges[k]` to `edges[k + 1]`."""

    scale: Scale
    edges: NDArray[np.int64]
    shares: Array

    @property
    def levels(self) -> Array:
        """The share of records below each edge."""
        return np.append(0.0, np.cumsum(self.shares)).clip(0.0, 1.0)

    @cached_property
    def _slopes(self) -> Array:
        """Of each run the log of its density at its end over that at its beginning.

        A density runs log-linearly from run to run, so that a long run in a tail has most of its records where it
        joins the others. Runs of a single cell are as they are.
        """
        widths = np.diff(self.edges)
        density = np.log(np.maximum(self.shares, NOTHING) / widths)
        joints = (density[:-1] + density[1:]) / 2
        single = widths == 1
        beside = single[:-1] | single[1:]
        left = np.where(np.append(True, beside), np.nan, np.append(0.0, joints))
        right = np.where(np.append(beside, True), np.nan, np.append(joints, 0.0))
        left, right = (
            np.where(np.isnan(left), 2 * density - right, left),
            np.where(np.isnan(right), 2 * density - left, right),
        )
        slopes = np.nan_to_num(right - left, nan=0.0)
        return np.where(single, 0.0, np.clip(slopes, -STEEPEST, STEEPEST))

    def ranks(self, cells: NDArray[np.int64]) -> Array:
        """The middle rank, from 0 to 1, of each cell."""
        run = np.clip(np.searchsorted(self.edges, cells, side="right") - 1, 0, self.shares.size - 1)
        inside = np.clip((cells - self.edges[run] + 0.5) / (self.edges[run + 1] - self.edges[run]), 0.0, 1.0)
        slope = self._slopes[run]
        bent = np.expm1(slope * inside) / np.where(slope == 0, 1.0, np.expm1(slope))
        return self.levels[run] + np.where(slope == 0, inside, bent) * self.shares[run]

    def places(self, ranks: Array) -> Array:
        """Where on the line of cells given ranks (0 to 1) are."""
        run = np.clip(np.searchsorted(self.levels, ranks, side="right") - 1, 0, self.shares.size - 1)
        share = np.where(self.shares[run] > 0, self.shares[run], 1.0)
        inside, slope = np.clip((ranks - self.levels[run]) / share, 0.0, 1.0 - 1e-9), self._slopes[run]
        bent = np.log1p(inside * np.expm1(slope)) / np.where(slope == 0, 1.0, slope)
        inside = np.clip(np.where(slope == 0, inside, bent), 0.0, 1.0 - 1e-9)
        return self.edges[run].astype(np.float64) + inside * (self.edges[run + 1] - self.edges[run])

    @cached_property
    def mean_and_sd(self) -> tuple[float, float]:
        """The mean and the standard deviation of its values; that of a single value counts as one."""
        return float(self.even.mean()), float(self.even.std()) or 1.0

    @cached_property
    def even(self) -> Array:
        """Values at even ranks."""
        return self.scale.values_at(self.places((np.arange(EVEN) + 0.5) / EVEN))

    def drawn(self, count: int, generator: np.random.Generator) -> Array:
        """So many values in ascending order, one from each n-th of the distribution."""
        ranks = (np.arange(count) + generator.random(count)) / count
        return np.sort(self.scale.values_at(self.places(ranks)))


def levels_to_explore(count: float, leaf_sd: float, cells: int) -> int:
    """How often to count and halve: by the number of records, the noise and the cells of the scale alone."""
    even = np.log2(max(count / (max(PER_LEAF * leaf_sd, FEWEST) * FIRST_CUT), 1.0))
    useful = 1 + np.ceil(np.log2(max(cells / FIRST_CUT, 1.0)))
    return int(min(np.clip(np.ceil(even) + EXTRA_LEVELS, FEWEST_LEVELS, MOST_LEVELS), useful))


def amount_distribution(
    account: Account, name: str, scale: Scale, cells: NDArray[np.int64], *, count: float, rho: float
) -> Distribution:
    """The noisy distribution of an amount.

    Args:
        account: pays for it.
        name: of the column.
        scale: its cells.
        cells: of each record, -1 where it is missing.
        count: how many records there are, about; not taken from the data.
        rho: what it may cost.
    """
    leaf_sd = account.noise_sd(1.0, rho * (1 - EXPLORING))
    levels = levels_to_explore(count, leaf_sd, scale.cells)
    each = rho * EXPLORING / levels
    sd = account.noise_sd(1.0, each)
    enough = max(WORTH_HALVING * sd, PER_LEAF * leaf_sd, FEWEST)
    runs = [run for piece in scale.pieces for run in _cut(piece, FIRST_CUT)]
    active, asked, left = runs, _NoisyCounts(), 1.0
    for _ in range(levels):
        if not active:
            break
        counts = account.noisy(f"distribution of {name}", _counts(cells, active), 1.0, each)
        asked.add(active, counts, sd)
        left -= EXPLORING / levels
        large = {run for run, found in zip(active, counts, strict=True) if found > enough and run[1] - run[0] > 1}
        active = [half for run in active if run in large for half in asked.halve(run)]
        runs = sorted([run for run in runs if run not in large] + active)
    last_sd = account.noise_sd(1.0, rho * left)
    # What levels that were not needed would have cost goes into the last count.
    asked.add(runs, account.noisy(f"distribution of {name}", _counts(cells, runs), 1.0, rho * left), last_sd)
    edges = np.array([*(run[0] for run in runs), scale.cells], np.int64)
    return Distribution(scale, edges, on_simplex(_without_empty_ends(asked.fitted(runs), last_sd)))


def category_shares(account: Account, name: str, codes: Index, levels: int, *, rho: float) -> Array:
    """The noisy share of each level; `codes` are those of the records, -1 for none of them."""
    counts = np.bincount(codes[codes >= 0], minlength=levels).astype(np.int64)
    return on_simplex(account.noisy(f"distribution of {name}", counts, 1.0, rho))


def on_simplex(counts: Array) -> Array:
    """The shares nearest to noisy counts: none is negative, and they add up to one (Euclidean projection).

    Those that are minus infinity are 0.
    """
    out, counts = counts, counts[np.isfinite(counts)]
    total = max(float(counts.sum()), 1.0)
    ordered = np.sort(counts)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, counts.size + 1)
    shift = excess[np.flatnonzero(ordered >= excess)[-1]]
    shares: Array = np.maximum(out - shift, 0.0) / total
    return shares


def _without_empty_ends(counts: Array, sd: float) -> Array:
    """Counts in which those at either end that noise alone could be are added up where surer ones begin: far out, they
    would be taken for outliers.
    """
    counts = counts.copy()
    for ends in (counts, counts[::-1]):
        sums = np.cumsum(ends)
        sure = np.flatnonzero(np.maximum(ends, sums / np.sqrt(np.arange(1, ends.size + 1))) > SURE * sd)
        if sure.size and sure[0] > 1:
            ends[sure[0] - 1] = sums[sure[0] - 1]
            ends[: sure[0] - 1] = -np.inf
    return counts


@dataclass(frozen=True, repr=False)
class _NoisyCounts:
    """What was asked of runs of cells: of each the noisy count of its records, the precision of it, and its parts."""

    counts: dict[Run, float] = field(default_factory=dict)
    precision: dict[Run, float] = field(default_factory=dict)
    parts: dict[Run, list[Run]] = field(default_factory=dict)

    def add(self, runs: list[Run], answers: Array, sd: float) -> None:
        new = max(sd, EXACT) ** -2
        for run, answer in zip(runs, answers.tolist(), strict=True):
            old = self.precision.get(run, 0.0)
            self.counts[run] = (old * self.counts.get(run, 0.0) + new * answer) / (old + new)
            self.precision[run] = old + new

    def halve(self, run: Run) -> list[Run]:
        self.parts[run] = _cut(run, 2)
        return self.parts[run]

    def fitted(self, runs: list[Run]) -> Array:
        """The counts of the runs that were not halved which fit all answers best, each by its precision.

        Weighted least squares on a tree (Hay et al. 2010): what parts say of the whole is added to what was said of it,
        from the last halved on; then what is left over is given to the parts by their variance, from the first on.
        """
        counts, precision = self.counts, self.precision
        for run, parts in reversed(self.parts.items()):
            theirs = 1 / sum(1 / precision[part] for part in parts)
            total = sum(counts[part] for part in parts)
            counts[run] = (precision[run] * counts[run] + theirs * total) / (precision[run] + theirs)
            precision[run] += theirs
        for run, parts in self.parts.items():
            over = counts[run] - sum(counts[part] for part in parts)
            variance = sum(1 / precision[part] for part in parts)
            for part in parts:
                counts[part] += over / precision[part] / variance
        return np.array([counts[run] for run in runs])


def _cut(run: Run, parts: int) -> list[Run]:
    """A run in parts as equal as they can be, of a cell at least."""
    edges = np.unique(np.linspace(run[0], run[1], min(parts, run[1] - run[0]) + 1).astype(int)).tolist()
    return list(pairwise(edges))


def _counts(cells: NDArray[np.int64], runs: list[Run]) -> NDArray[np.int64]:
    """How many records are in each of some runs, which do not overlap."""
    ordered = np.array(sorted(runs))
    run = np.searchsorted(ordered[:, 0], cells, side="right") - 1
    inside = (run >= 0) & (cells < ordered[run, 1])
    counts = dict(zip(map(tuple, ordered.tolist()), np.bincount(run[inside], minlength=len(runs)), strict=True))
    return np.array([counts[run] for run in runs], np.int64)
