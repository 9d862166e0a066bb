"""Features of rows that are on Spark: by curves that were found in a sample, so that each row tells its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Mask
from microveil.core.fewest_records import FEWEST_RECORDS, Limits, within
from microveil.core.table import Microdata
from microveil.engines.spark.rows import chosen
from microveil.restore.arrange import ExchangeSearch
from microveil.restore.exchanges import second_moments
from microveil.restore.features import BandBlock, FeatureBlocks, layers_of


@dataclass(frozen=True, repr=False)
class Curve:
    """A function by its values at points in ascending order: straight in between, or that of the point before."""

    points: Array
    values: Array
    steps: bool = False

    def __call__(self, at: Array) -> Array:
        """The values of the function."""
        if not self.steps:
            return np.asarray(np.interp(at, self.points, self.values))
        before: Array = self.values[np.searchsorted(self.points, at, "right").clip(1, self.points.size) - 1]
        return before


@dataclass(frozen=True, repr=False)
class RowParts:
    """Where the parts of a row are among its cells: columns of numbers, the same as they were, and labels."""

    numbers: range
    as_they_were: Sequence[int]
    labels: range

    def of(self, cells: Array) -> tuple[Array, Mask, NDArray[np.intp]]:
        """Numbers, which of them are no gaps, and numbers of levels: columns x rows each."""
        there = ~np.isnan(chosen(cells, self.as_they_were))
        return chosen(cells, self.numbers), there, chosen(cells, self.labels).astype(np.intp)


@dataclass(frozen=True, repr=False)
class Staying:
    """What exchanges do not change: for columns with gaps, whether a cell is one; and the features of levels.

    `gaps` are the columns, with what stands for a gap and for a cell that is there. Rows whose gaps are none of the
    `usual` ones have zeros: moments with gaps that few records have would be those records.
    """

    gaps: Sequence[tuple[int, float, float]]
    usual: NDArray[np.bytes_]
    levels: Sequence[NDArray[np.float32]]
    """Of each column of labels, levels x features."""

    @classmethod
    def of(cls, search: ExchangeSearch, blocks: FeatureBlocks, sample: Microdata, present: Mask) -> Staying:
        """That of a `sample`, of which these cells are `present` (columns x rows)."""
        there = np.count_nonzero(present, axis=1)
        some = np.flatnonzero(np.minimum(there, sample.count - there) >= FEWEST_RECORDS).tolist()
        gaps = [
            (j, *(anchor[present[j] == is_there][0] for is_there in (False, True)))
            for j, anchor in zip(some, search.anchors, strict=True)
        ]
        usual = np.delete(_patterns(present[some]), search.left_out[0])
        levels = []
        for block, codes in zip(blocks.labels, sample.labels.codes, strict=True):
            known = np.zeros((block.levels.size, block.last - block.first), np.float32)
            known[block.levels >= 0, block.levels[block.levels >= 0]] = 1.0
            shares = known[codes].mean(axis=0, dtype=np.float64)
            levels.append(((known - shares) / np.sqrt(np.where(shares > 0, shares, 1.0))).astype(np.float32))
        return cls(gaps, np.unique(usual), levels)

    def can_change(self, blocks: FeatureBlocks) -> Mask:
        """Which moments exchanges can change: not those within a column, nor with its own gaps; features x features."""
        column = blocks.owner.copy()
        for place, (j, *_) in enumerate(self.gaps):
            column[blocks.owner == place] = blocks.fixed + j
        can: Mask = column[:, None] != column
        return can

    def anchors(self, present: Mask) -> Iterator[Array]:
        """The features of gaps, given which cells are there: columns x rows."""
        if self.gaps:
            usual = np.isin(_patterns(present[[j for j, *_ in self.gaps]]), self.usual)
        for j, gap, cell in self.gaps:
            yield np.where(usual, np.where(present[j], cell, gap), 0.0)


def _patterns(present: Mask) -> NDArray[np.bytes_]:
    """Which cells of each row are there (columns x rows), in a word."""
    packed = np.ascontiguousarray(np.packbits(present, axis=0).T)
    return packed.view(f"S{packed.shape[1]}").ravel() if packed.shape[1] else np.zeros(len(packed), "S1")


@dataclass(frozen=True, repr=False)
class FeatureCurves:
    """Features of rows by curves, one for each layer of each column, found in a sample; of heaps, gaps and labels."""

    blocks: FeatureBlocks
    staying: Staying
    limits: Sequence[Limits | None]
    curves: Sequence[Sequence[Curve]]
    heaps: Sequence[tuple[BandBlock, Array]]
    """Where they are, and what they are between each two cuts: intervals x features."""

    @classmethod
    def of(
        cls, columns: Sequence[Array], limits: Sequence[Limits | None], blocks: FeatureBlocks, staying: Staying
    ) -> FeatureCurves:
        """Those of the cells of a sample that are there, column by column."""
        curves = []
        for column, limit in zip(columns, limits, strict=True):
            values = within(column, limit)
            points, first = np.unique(values, return_index=True)
            layers = (np.broadcast_to(layer, values.shape) for layer in layers_of(values, blocks.depth))
            curves.append([Curve(points, layer[first]) for layer in layers])
        heaps = []
        for block in blocks.bands:
            own = columns[block.owner - blocks.fixed]
            intervals, first = np.unique(np.searchsorted(block.bands.cuts, own), return_index=True)
            found = np.column_stack([np.asarray(feature) for feature in block.features(own)])
            known = np.zeros((block.bands.cuts.size + 1, found.shape[1]))
            known[intervals] = found[first]
            heaps.append((block, known))
        return cls(blocks, staying, limits, curves, heaps)

    def features(self, columns: Array, present: Mask, labels: NDArray[np.intp]) -> NDArray[np.float32]:
        """Rows x features of numbers, of which some are `present`, and labels: columns x rows each."""
        blocks, values = self.blocks, self.blocks.values
        out = np.zeros((present.shape[1], blocks.width), np.float32)
        for place, anchor in enumerate(self.staying.anchors(present)):
            out[:, place : blocks.levels.start : values] = anchor[:, None]
        for j, (column, limit, curves) in enumerate(zip(columns, self.limits, self.curves, strict=True)):
            cells = within(column[present[j]], limit)
            for layer, curve in enumerate(curves):
                out[present[j], layer * values + blocks.fixed + j] = curve(cells)
        for block, known in self.heaps:
            own = block.owner - blocks.fixed
            there = np.flatnonzero(present[own])
            out[there, block.first : block.last] = known[np.searchsorted(block.bands.cuts, columns[own][there])]
        for levels, features, codes in zip(blocks.labels, self.staying.levels, labels, strict=True):
            out[:, levels.first : levels.last] = features[codes]
        return out

    def products(self, parts: RowParts, cells: Array, rows: slice) -> Array:  # noqa: ARG002 - a row map
        """The sums of products of the features of some rows."""
        found = self.features(*parts.of(cells))
        return second_moments(found, np.ones(len(found)))
