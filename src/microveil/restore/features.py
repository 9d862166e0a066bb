"""Features of columns: what an arrangement looks at when it brings the moments between columns back.

A column is a block of features. Of an amount: its value, and Legendre polynomials of its rank, of the first degree
(straight relations), the second (bends, and spreads that go together) and the third. Of labels: an indicator of each
level, less its share, over the root of its share. Second moments between the features of two columns are then
correlations, rank correlations, bends, group means and two-way tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Mask
from microveil.core.fewest_records import FEWEST_RECORDS
from microveil.core.ranks import mid_ranks
from microveil.core.threads import in_threads

EMPTY: Array = np.empty(0)
DEGREES = 3


@dataclass(frozen=True, repr=False)
class ColumnBlock:
    """Where the features of a column are: its value (its rank is as many places further as there are values), or -1
    for labels; and the others from `first` to `last`, exclusive. `levels` gives each level its feature, -1 for none.
    """

    value: int
    first: int
    last: int
    levels: NDArray[np.intp] | None = None

    @property
    def size(self) -> int:
        """The number of features that are neither value nor rank."""
        return self.last - self.first

    def levels_at(self, features: NDArray[np.float32], first: NDArray[np.intp]) -> NDArray[np.intp]:
        """The labels of which `first` is one order, in the order that the features (rows x features) have now."""
        if self.levels is None or self.size == 0:
            return first
        own = features[:, self.first : self.last]
        now = np.where((own > 0).any(axis=1), own.argmax(axis=1), -1)
        out = np.empty_like(first)
        out[np.argsort(now, kind="stable")] = first[np.argsort(self.levels[first], kind="stable")]
        return out


@dataclass(frozen=True, repr=False)
class FeatureBlocks:
    """The features of a table: of the columns that stay, of amounts that move, of labels, which move too.

    `values` columns have a value; their ranks follow, then everything else.
    """

    blocks: tuple[ColumnBlock, ...]
    fixed: int
    values: int

    @cached_property
    def width(self) -> int:
        """The number of features."""
        return self.blocks[-1].last

    @cached_property
    def owner(self) -> NDArray[np.intp]:
        """The column of each feature."""
        owner = np.empty(self.width, np.intp)
        for number, block in enumerate(self.blocks):
            owner[block.first : block.last] = number
            if block.value >= 0:
                owner[[block.value, self.values + block.value]] = number
        return owner

    @cached_property
    def degree(self) -> NDArray[np.intp]:
        """Of each feature: 0 for values, the degree of the polynomial of the rank, 1 for levels."""
        degree = np.ones(self.width, np.intp)
        degree[: self.values] = 0
        for block in self.blocks[: self.values]:
            degree[block.first : block.last] = 2 + np.arange(block.size)
        return degree

    @cached_property
    def moving(self) -> NDArray[np.int64]:
        """Columns that move x (value, first, last), for the compiled loop."""
        moving = [[block.value, block.first, block.last] for block in self.blocks[self.fixed :]]
        return np.array(moving, np.int64).reshape(-1, 3)

    def features(
        self, columns: list[Array], labels: Sequence[NDArray[np.intp]], present: Mask | None
    ) -> NDArray[np.float32]:
        """Rows x features, each with mean 0 and variance 1 (levels: with variance 1 - share).

        The list is emptied meanwhile: a large table has no room for the columns and their features. The moving columns
        may have missing cells (`present`, rows x columns): these have nothing but zeros, so that second moments are
        those over complete pairs.
        """
        out = np.zeros((len((columns or labels)[0]), self.width), dtype=np.float32)
        jobs: list[Callable[[], None]] = []
        for j in range(len(columns)):
            there = None if present is None or j < self.fixed else present[:, j - self.fixed]
            there = None if there is None or there.all() else there
            jobs.append(partial(self._fill, out, columns, j, there))
        for block, codes in zip(self.blocks[self.values :], labels, strict=True):
            jobs.append(partial(_fill_levels, out, block, codes))
        in_threads(jobs)
        return out

    def _fill(self, out: NDArray[np.float32], columns: list[Array], j: int, there: Mask | None) -> None:
        """The features of column `j`, which is taken from the list, into their places of `out` (rows x features)."""
        column, columns[j] = columns[j], EMPTY
        block, rows, cells = self.blocks[j], slice(None), column
        if there is not None:
            rows, cells = there, column[there]
        out[rows, block.value] = standardised(cells)
        for degree, polynomial in enumerate(_of_ranks(cells, 1 + block.size)):
            out[rows, self.values + j if degree == 0 else block.first + degree - 1] = polynomial


def feature_blocks(columns: Sequence[Array], labels: Sequence[NDArray[np.intp]], fixed: int) -> FeatureBlocks:
    """The blocks of columns of numbers, of which the first `fixed` stay, and of labels.

    A column of two values has no bends; levels that few records have share a feature, if together they are enough.
    """
    place, blocks = 2 * len(columns), []
    for value, column in enumerate(columns):
        size = max(min(_distinct(column), DEGREES + 1) - 2, 0)
        blocks.append(ColumnBlock(value, place, place + size))
        place += size
    for codes in labels:
        levels = _levels(codes)
        size = int(levels.max(initial=-1)) + 1
        blocks.append(ColumnBlock(-1, place, place + size, levels))
        place += size
    return FeatureBlocks(tuple(blocks), fixed, len(columns))


def _distinct(column: Array) -> int:
    """How many different values there are, as far as it matters: the first rows mostly tell."""
    found = np.unique(column[:1_000]).size
    return found if found > DEGREES else np.unique(column).size


def _levels(codes: NDArray[np.intp]) -> NDArray[np.intp]:
    """The feature of each level: those of few records share the last one, or have none."""
    counts = np.bincount(codes)
    common = counts >= FEWEST_RECORDS
    levels = np.where(common, np.cumsum(common) - 1, -1)
    if counts[~common].sum() >= FEWEST_RECORDS:
        levels[~common & (counts > 0)] = int(np.count_nonzero(common))
    return levels.astype(np.intp)


def _fill_levels(out: NDArray[np.float32], block: ColumnBlock, codes: NDArray[np.intp]) -> None:
    """The indicators of levels, into their places of `out` (rows x features)."""
    feature = np.full(codes.size, -1) if block.levels is None else block.levels[codes]
    shares = np.bincount(feature[feature >= 0], minlength=block.size) / codes.size
    for level, share in enumerate(shares.tolist()):
        out[:, block.first + level] = ((feature == level) - share) / np.sqrt(share)


def _of_ranks(column: Array, degrees: int) -> list[Array | float]:
    """Legendre polynomials of the rank, on (-1, 1), each standardised."""
    level = mid_ranks(column)
    level -= (column.size + 1) / 2
    level *= 2 / column.size
    found = [standardised(level)]
    if degrees >= 2:
        squares = np.square(level)
        found.append(standardised(squares))
    if degrees >= 3:
        found.append(standardised(level * (squares - 0.6)))
    return found


def standardised(values: Array) -> Array | float:
    """Mean 0 and variance 1; 0 where nothing varies."""
    low, high = float(values.min()), float(values.max())
    if high - low <= 4 * np.finfo(float).eps * max(abs(low), abs(high)):
        return 0.0
    return (values - float(values.mean())) / float(values.std())
