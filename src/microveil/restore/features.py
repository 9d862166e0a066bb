"""Features of columns: what an arrangement looks at when it brings the moments between columns back.

A column is a block of features. Of an amount: its value, polynomials of its rank, of the first degree (straight
relations), the second (bends, and spreads that go together) and the third, without its linear part, and the square of
its value. Of labels: an indicator of each level, less its share, over the root of its share. Second moments between the
features of two columns are then correlations, rank correlations, bends, group means and two-way tables.
What follows from an amount and is computed anew (an age group) has features that move along with the amount's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Mask
from microveil.core.fewest_records import FEWEST_RECORDS
from microveil.core.sorted_columns import mid_ranks
from microveil.core.table import Bands, Microdata
from microveil.core.threads import in_threads
from microveil.restore.exchanges import Features

EMPTY: Array = np.empty(0)

LAYERS = SQUARES = 4
"""Features of a number that are matched like with like; the square of its value, if it has one, comes after them."""

LEVELS, HEAPS = 5, 6
"""The kinds of features of levels, and of heaps of equal numbers; those of numbers have the number of their layer."""

HEAP, MOST_HEAPS = 0.05, 10
"""Share of the records from which on those with the same number are a heap (zeros, round or filled-in numbers), and
heaps of a column, at most."""

TOGETHER, STRIP_ROWS = 4, 4_096
"""Columns whose features are put into their places together, and rows of them that stay in the cache meanwhile."""

Along = tuple[int, Bands, Array, int]
"""What moves along with a column of numbers: the column's number, the rule, the cells, and the kind of features."""


@dataclass(frozen=True, repr=False)
class LabelBlock:
    """Where the levels of a column of labels are, from `first` to `last`, exclusive.

    `levels` gives each level its feature, -1 for none.
    """

    first: int
    last: int
    levels: NDArray[np.intp]

    def levels_at(self, features: Features, first: NDArray[np.intp]) -> NDArray[np.intp]:
        """The labels of which `first` is one order, in the order that the features (rows x features) have now."""
        if self.first == self.last:
            return first
        now = np.full(first.size, -1, np.int32)
        for level in range(self.last - self.first):
            now[features[:, self.first + level] > 0] = level
        out = np.empty_like(first)
        out[np.argsort(now, kind="stable")] = first[np.argsort(self.levels[first], kind="stable")]
        return out

    def features(self, codes: NDArray[np.intp]) -> Iterator[Array]:
        """The indicators of the levels."""
        feature = self.levels[codes]
        shares = np.bincount(feature[feature >= 0], minlength=self.last - self.first) / codes.size
        for level, share in enumerate(shares.tolist()):
            yield ((feature == level) - share) / np.sqrt(share or 1.0)


@dataclass(frozen=True, repr=False)
class BandBlock:
    """Where the features are, from `first` to `last`, of what follows from the column of numbers `owner` by `bands`.

    Of labels (`LEVELS`) and of heaps they are the indicators of their `levels`; of numbers, the values and their
    squares.
    """

    owner: int
    bands: Bands
    first: int
    last: int
    levels: LabelBlock | None
    kind: int

    @property
    def kinds(self) -> list[int]:
        """The kind of each feature."""
        return [0, SQUARES][: self.last - self.first] if self.levels is None else [self.kind] * (self.last - self.first)

    def features(self, column: Array) -> Iterator[Array | float]:
        """The features, given the column that they follow from."""
        cells = self.bands.of(column)
        if self.levels is not None:
            yield from self.levels.features(cells.astype(np.intp))
            return
        values = standardised(cells)
        yield values
        yield standardised(np.square(values)) if isinstance(values, np.ndarray) else 0.0


@dataclass(frozen=True, repr=False)
class FeatureBlocks:
    """The features of a table: layers first, with a feature of each of the `values` columns of numbers; then levels,
    and features of what follows from columns of numbers (`bands`, those of a column side by side).

    The first `fixed` columns of numbers stay, the others and all labels move. `depth` is the number of layers: one more
    than are matched like with like, if there are squares of values.
    """

    fixed: int
    values: int
    labels: tuple[LabelBlock, ...]
    depth: int
    bands: tuple[BandBlock, ...] = ()

    @property
    def layers(self) -> list[slice]:
        """Where the layers are."""
        return [slice(at * self.values, (at + 1) * self.values) for at in range(self.depth)]

    @property
    def levels(self) -> slice:
        """Where the features of labels are, and what moves along with numbers: behind the layers."""
        return slice(self.depth * self.values, None)

    @cached_property
    def width(self) -> int:
        """The number of features."""
        ends = [*(block.last for block in self.labels), *(block.last for block in self.bands)]
        return max([self.depth * self.values, *ends])

    @cached_property
    def owner(self) -> NDArray[np.intp]:
        """The column of each feature."""
        levels = [np.full(block.last - block.first, self.values + at) for at, block in enumerate(self.labels)]
        along = [np.full(block.last - block.first, block.owner) for block in self.bands]
        return np.concatenate([*[np.arange(self.values)] * self.depth, *levels, *along]).astype(np.intp)

    @cached_property
    def layer(self) -> NDArray[np.intp]:
        """The layer of each feature, -1 for levels and what moves along with numbers."""
        return np.where(np.arange(self.width) < self.levels.start, self.kind, -1)

    @cached_property
    def kind(self) -> NDArray[np.intp]:
        """The kind of each feature: 0 for values, the degree of polynomials of the rank, squares of values, levels."""
        numbers = np.repeat(np.arange(self.depth), self.values)
        levels = [LEVELS] * sum(block.last - block.first for block in self.labels)
        return np.array([*numbers, *levels, *(kind for block in self.bands for kind in block.kinds)], np.intp)

    @cached_property
    def degree(self) -> NDArray[np.intp]:
        """Of each feature: 0 for values, 2 for their squares, that of polynomials of the rank, 1 for all others."""
        return np.array([0, 1, 2, 3, 2, 1, 1])[self.kind]

    @cached_property
    def in_layers(self) -> Mask:
        """Which pairs of features are of one layer that is matched as a whole: features x features."""
        layer = self.layer
        same: Mask = (layer[:, None] == layer) & (layer >= 0) & (layer != SQUARES)
        return same

    @cached_property
    def bent(self) -> Mask:
        """Which pairs of features have the square of a value: features x features."""
        squares = self.kind == SQUARES
        pairs: Mask = squares[:, None] | squares
        return pairs

    @cached_property
    def means(self) -> Mask:
        """Which pairs of features are a value and a level, so that moments are means of groups: features x features."""
        pairs: Mask = (self.kind == 0)[:, None] & (self.kind == LEVELS)
        return pairs | pairs.T

    @cached_property
    def moving(self) -> NDArray[np.int64]:
        """Columns that move x (place in the layers, or -1; first and last of other features), for the compiled loop."""
        numbers = np.zeros((self.values, 3), np.int64)
        numbers[:, 0] = np.arange(self.values)
        for block in self.bands:
            numbers[block.owner, 1:] = numbers[block.owner, 1] or block.first, block.last
        labels = np.array([[-1, block.first, block.last] for block in self.labels], np.int64).reshape(-1, 3)
        return np.concatenate([numbers[self.fixed :], labels])

    def features(
        self,
        columns: list[Array],
        labels: Sequence[NDArray[np.intp]],
        present: Mask | None,
        room: Callable[[int], Features] | None = None,
    ) -> Features:
        """Rows x features, each with mean 0 and variance 1 (levels: with variance 1 - share).

        The list is emptied meanwhile: a large table has no room for the columns and their features. The moving columns
        may have missing cells (`present`, rows x columns): these have nothing but zeros, so that second moments are
        those over complete pairs. `room` makes room for so many features, where they are not held.
        """
        out = np.empty((len((columns or labels)[0]), self.width), np.float32) if room is None else room(self.width)
        fills: list[Callable[[Features], None]]
        fills = [partial(self._fill, columns=columns, j=j, present=present) for j in range(len(columns))]
        for block, codes in zip(self.labels, labels, strict=True):
            fills.append(partial(_put, first=block.first, features=block.features(codes)))
        if not isinstance(out, np.ndarray):  # what is not held has room for one column at a time
            in_threads([partial(fill, out) for fill in fills], small=True)
            return out
        together = [fills[at : at + TOGETHER] for at in range(0, len(fills), TOGETHER)]
        in_threads([partial(_fill_together, out, some) for some in together])
        return out

    def _fill(self, out: Features, columns: list[Array], j: int, present: Mask | None) -> None:
        """Put the features of column `j`, which is taken from the list, into their places of `out`, rows x features."""
        column, columns[j] = columns[j], EMPTY
        there = None if present is None or j < self.fixed else present[:, j - self.fixed]
        if there is not None and there.all():
            there = None
        rows = slice(None) if there is None else there
        _put(out, j, layers_of(column[:][rows], self.depth), self.values, there)
        for block in self.bands:
            if block.owner == j:
                _put(out, block.first, islice(block.features(column[:][rows]), block.last - block.first), 1, there)


class _Strip:
    """Features that are put into their places together, some rows at a time.

    Put one by one, each would bring all rows into the cache again.
    """

    def __init__(self, out: NDArray[np.float32]) -> None:
        self.out = out
        self.made: dict[int, NDArray[np.float32]] = {}

    def __setitem__(self, where: tuple[slice, int], values: Array | float) -> None:
        self.made[where[1]] = np.broadcast_to(np.asarray(values, np.float32), len(self.out))

    def put(self) -> None:
        """Put them there."""
        for start in range(0, len(self.out), STRIP_ROWS):
            rows = slice(start, start + STRIP_ROWS)
            for place, column in self.made.items():
                self.out[rows, place] = column[rows]


def _fill_together(out: NDArray[np.float32], fills: Sequence[Callable[[Any], None]]) -> None:
    """Put the features of some columns into `out` (rows x features)."""
    strip = _Strip(out)
    for fill in fills:
        fill(strip)
    strip.put()


def _put(
    out: Features, first: int, features: Iterable[Array | float], step: int = 1, there: Mask | None = None
) -> None:
    """Put features into the places of `out` (rows x features) from the first on; zeros where cells are not there."""
    place = first
    for values in features:  # not numbered by `enumerate`, which would hold one while the next one is made
        column = values
        if there is not None:
            column = np.zeros(there.size, np.float32)
            column[there] = values
        out[:, place] = column
        place += step
        del values, column


def feature_blocks(
    values: int,
    labels: Sequence[NDArray[np.intp]],
    fixed: int,
    *,
    squares: bool = True,
    bands: Sequence[Along] = (),
) -> FeatureBlocks:
    """The blocks of so many columns of numbers, of which the first `fixed` stay, and of labels.

    `bands` tell what moves along with columns of numbers. Levels that few records have share a feature, if together
    they are enough. If not, the rarest of the others has none, too: the features of all others tell what the rest is,
    which must not be a few records.
    """
    depth = LAYERS + squares
    place, blocks = depth * values, []
    for codes in labels:
        blocks.append(_label_block(place, codes))
        place = blocks[-1].last
    along = []
    for owner, rule, column, kind in bands:
        levels, last = None, place + 1 + squares
        if rule.labels:
            levels = _label_block(place, rule.of(column).astype(np.intp), int(rule.values.max()) + 1)
            last = levels.last
        along.append(BandBlock(owner, rule, place, last, levels, kind))
        place = along[-1].last
    return FeatureBlocks(fixed, values, tuple(blocks), depth, tuple(along))


def moving_along(original: Microdata, present: Mask | None, fixed: int, *, heaps: bool) -> list[Along]:
    """What moves along with confidential columns, which have numbers from `fixed` on: what follows from them; where
    nothing does, their `heaps`. Cells that are not `present` (rows x columns) have neither.
    """
    along: list[Along] = []
    for j, (name, column) in enumerate(zip(original.confidential_names, original.confidential.columns, strict=True)):
        own = [bands for bands in original.bands if bands.source == name]
        if not own and not heaps:
            continue
        cells = column[:] if present is None else column[present[:, j]]
        rules = bands_together(own, cells)
        along += [(fixed + j, rule, cells, LEVELS) for rule in rules]
        along += [(fixed + j, rule, cells, HEAPS) for rule in (heaps_of(name, cells) if heaps and not rules else ())]
    return along


def bands_together(bands: Sequence[Bands], column: Array) -> list[Bands]:
    """What follows from one column: one rule for all labels and flags together, and those of other numbers.

    Records between the cuts of two rules would be told by the difference of both: where they are few, the later rule is
    left out.
    """
    taken: list[Bands] = []
    cuts: Array = np.empty(0)
    for rule in bands:
        both = np.union1d(cuts, rule.cuts)
        between = np.bincount(np.searchsorted(both, column))
        if between[between > 0].min() >= FEWEST_RECORDS:
            taken, cuts = [*taken, rule], both
    labels = [rule for rule in taken if rule.labels or np.unique(rule.values).size == 2]
    if labels:
        cuts = np.unique(np.concatenate([rule.cuts for rule in labels]))
        cells = np.column_stack([rule.of(np.append(cuts, np.inf)) for rule in labels])
        codes = np.unique(cells, axis=0, return_inverse=True)[1].ravel().astype(np.float64)
        taken = [Bands(labels[0].source, cuts, codes, labels=True), *(rule for rule in taken if rule not in labels)]
    return taken


def heaps_of(name: str, column: Array) -> list[Bands]:
    """The heaps of a column by that name, as levels after that of all other numbers; none in a flag.

    Flags have moments of their own.
    """
    values, counts = np.unique(column, return_counts=True)
    heaps = np.flatnonzero(counts >= max(FEWEST_RECORDS, HEAP * column.size))
    if values.size <= 2 or heaps.size == 0:
        return []
    at = np.sort(values[heaps[np.argsort(-counts[heaps], kind="stable")][:MOST_HEAPS]])
    cuts = np.column_stack([np.nextafter(at, -np.inf), at]).ravel()
    levels = np.column_stack([np.zeros(at.size), 1.0 + np.arange(at.size)]).ravel()
    return [Bands(name, cuts, np.append(levels, 0.0), labels=True)]


def _label_block(first: int, codes: NDArray[np.intp], count: int = 0) -> LabelBlock:
    """The block of labels whose features begin at a place; `count` is the number of levels that there may be."""
    levels = _levels(codes, count)
    return LabelBlock(first, first + int(levels.max(initial=-1)) + 1, levels)


def _levels(codes: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    """The feature of each level: those of few records share the last one, or have none, with another."""
    counts = np.bincount(codes, minlength=count)
    common = counts >= FEWEST_RECORDS
    rest = counts[~common].sum()
    if 0 < rest < FEWEST_RECORDS and common.any():
        common[np.argmin(np.where(common, counts, codes.size))] = False
    levels = np.where(common, np.cumsum(common) - 1, -1)
    if rest >= FEWEST_RECORDS:
        levels[~common & (counts > 0)] = int(np.count_nonzero(common))
    return levels.astype(np.intp)


def layers_of(column: Array, depth: int) -> Iterator[Array | float]:
    """The values, and polynomials of the ranks: each is 0 where it does not vary, as bends of two values do not."""
    yield standardised(column)
    level = mid_ranks(column)
    if depth == LAYERS:
        del column  # a long one, of which nobody else has need, gives its room back
    level -= (level.size + 1) / 2
    level /= level.size
    yield standardised(level)
    squares = np.square(level)
    yield standardised(squares)
    # E[u^4] / E[u^2] = 0.15 for u uniform on (-1/2, 1/2).
    squares -= 0.15
    yield standardised(np.multiply(level, squares, out=squares))
    if depth > LAYERS:
        values = standardised(column)
        yield standardised(np.square(values)) if isinstance(values, np.ndarray) else 0.0


def standardised(values: Array) -> Array | float:
    """Mean 0 and variance 1; 0 where nothing varies."""
    low, high = float(values.min()), float(values.max())
    if high - low <= 4 * np.finfo(float).eps * max(abs(low), abs(high)):
        return 0.0
    out = values - float(values.mean())
    out /= float(np.sqrt(np.square(out).mean()))
    return out
