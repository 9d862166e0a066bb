"""Features of columns: what an arrangement looks at when it brings the moments between columns back.

A column is a block of features. Of an amount: its value, and polynomials of its rank, of the first degree (straight
relations), the second (bends, and spreads that go together) and the third, without its linear part. Of labels: an
indicator of each level, less its share, over the root of its share. Second moments between the features of two columns
are then correlations, rank correlations, bends, group means and two-way tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Mask
from microveil.core.fewest_records import FEWEST_RECORDS
from microveil.core.sorted_columns import mid_ranks
from microveil.core.threads import in_threads

EMPTY: Array = np.empty(0)
LAYERS = 4


@dataclass(frozen=True, repr=False)
class LabelBlock:
    """Where the levels of a column of labels are, from `first` to `last`, exclusive.

    `levels` gives each level its feature, -1 for none.
    """

    first: int
    last: int
    levels: NDArray[np.intp]

    def levels_at(self, features: NDArray[np.float32], first: NDArray[np.intp]) -> NDArray[np.intp]:
        """The labels of which `first` is one order, in the order that the features (rows x features) have now."""
        if self.first == self.last:
            return first
        own = features[:, self.first : self.last]
        now = np.where((own > 0).any(axis=1), own.argmax(axis=1), -1)
        out = np.empty_like(first)
        out[np.argsort(now, kind="stable")] = first[np.argsort(self.levels[first], kind="stable")]
        return out

    def fill(self, out: NDArray[np.float32], codes: NDArray[np.intp]) -> None:
        """Put the indicators of the levels into their places of `out` (rows x features)."""
        feature = self.levels[codes]
        shares = np.bincount(feature[feature >= 0], minlength=self.last - self.first) / codes.size
        for level, share in enumerate(shares.tolist()):
            out[:, self.first + level] = ((feature == level) - share) / np.sqrt(share)


@dataclass(frozen=True, repr=False)
class FeatureBlocks:
    """The features of a table: layers first, with a feature of each of the `values` columns of numbers; then levels.

    The first `fixed` columns of numbers stay, the others and all labels move.
    """

    fixed: int
    values: int
    labels: tuple[LabelBlock, ...]

    @property
    def layers(self) -> list[slice]:
        """Where the layers are."""
        return [slice(at * self.values, (at + 1) * self.values) for at in range(LAYERS)]

    @cached_property
    def width(self) -> int:
        """The number of features."""
        return self.labels[-1].last if self.labels else LAYERS * self.values

    @cached_property
    def owner(self) -> NDArray[np.intp]:
        """The column of each feature."""
        levels = [np.full(block.last - block.first, self.values + at) for at, block in enumerate(self.labels)]
        return np.concatenate([*[np.arange(self.values)] * LAYERS, *levels]).astype(np.intp)

    @cached_property
    def degree(self) -> NDArray[np.intp]:
        """Of each feature: 0 for values, the degree of the polynomial of the rank, 1 for levels."""
        degree = np.ones(self.width, np.intp)
        for layer, own in enumerate(self.layers):
            degree[own] = layer
        return degree

    @cached_property
    def moving(self) -> NDArray[np.int64]:
        """Columns that move x (place in the layers, or -1; first and last level), for the compiled loop."""
        numbers = [[j, 0, 0] for j in range(self.fixed, self.values)]
        return np.array([*numbers, *([-1, block.first, block.last] for block in self.labels)], np.int64).reshape(-1, 3)

    def features(
        self, columns: list[Array], labels: Sequence[NDArray[np.intp]], present: Mask | None
    ) -> NDArray[np.float32]:
        """Rows x features, each with mean 0 and variance 1 (levels: with variance 1 - share).

        The list is emptied meanwhile: a large table has no room for the columns and their features. The moving columns
        may have missing cells (`present`, rows x columns): these have nothing but zeros, so that second moments are
        those over complete pairs.
        """
        out = np.empty((len((columns or labels)[0]), self.width), dtype=np.float32)
        jobs: list[Callable[[], None]] = [partial(self._fill, out, columns, j, present) for j in range(len(columns))]
        jobs += [partial(block.fill, out, codes) for block, codes in zip(self.labels, labels, strict=True)]
        in_threads(jobs)
        return out

    def _fill(self, out: NDArray[np.float32], columns: list[Array], j: int, present: Mask | None) -> None:
        """Put the layers of column `j`, which is taken from the list, into their places of `out` (rows x features)."""
        column, columns[j] = columns[j], EMPTY
        there = None if present is None or j < self.fixed else present[:, j - self.fixed]
        if there is None or there.all():
            for layer, values in enumerate(layers_of(column)):
                out[:, layer * self.values + j] = values
            return
        out[:, j : LAYERS * self.values : self.values] = 0.0
        for layer, values in enumerate(layers_of(column[there])):
            out[there, layer * self.values + j] = values


def feature_blocks(values: int, labels: Sequence[NDArray[np.intp]], fixed: int) -> FeatureBlocks:
    """The blocks of so many columns of numbers, of which the first `fixed` stay, and of labels.

    Levels that few records have share a feature, if together they are enough. If not, the rarest of the others has
    none, too: the features of all others tell what the rest is, which must not be a few records.
    """
    place, blocks = LAYERS * values, []
    for codes in labels:
        levels = _levels(codes)
        blocks.append(LabelBlock(place, place + int(levels.max(initial=-1)) + 1, levels))
        place = blocks[-1].last
    return FeatureBlocks(fixed, values, tuple(blocks))


def _levels(codes: NDArray[np.intp]) -> NDArray[np.intp]:
    """The feature of each level: those of few records share the last one, or have none, with another."""
    counts = np.bincount(codes)
    common = counts >= FEWEST_RECORDS
    rest = counts[~common].sum()
    if 0 < rest < FEWEST_RECORDS and common.any():
        common[np.argmin(np.where(common, counts, codes.size))] = False
    levels = np.where(common, np.cumsum(common) - 1, -1)
    if rest >= FEWEST_RECORDS:
        levels[~common & (counts > 0)] = int(np.count_nonzero(common))
    return levels.astype(np.intp)


def layers_of(column: Array) -> Iterator[Array | float]:
    """The values, and polynomials of the ranks: each is 0 where it does not vary, as bends of two values do not."""
    yield standardised(column)
    level = mid_ranks(column)
    level -= (column.size + 1) / 2
    level /= column.size
    yield standardised(level)
    squares = np.square(level)
    yield standardised(squares)
    # E[u^4] / E[u^2] = 0.15 for u uniform on (-1/2, 1/2).
    yield standardised(np.multiply(level, squares - 0.15, out=squares))


def standardised(values: Array) -> Array | float:
    """Mean 0 and variance 1; 0 where nothing varies."""
    low, high = float(values.min()), float(values.max())
    if high - low <= 4 * np.finfo(float).eps * max(abs(low), abs(high)):
        return 0.0
    return (values - float(values.mean())) / float(values.std())
