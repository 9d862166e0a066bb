"""Values of a table on Spark get their distributions back, and are exchanged between rows until moments return.

Distributions come from a sample of the rows of bounded size, the one thing that comes to the driver. All else is a map
of rows or a sum over them: a perturbed row is mapped to values by the places of its cells in the sample; second moments
of features are added up; and each record of rows exchanges its own values, by the very loop of tables in memory, as if
all other records went the same way. So the error of the whole falls from pass to pass, and no record waits for another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.core.fewest_records import Limits, limits_to_fit, within
from microveil.core.moments import moments
from microveil.core.rng import Stream, Streams
from microveil.core.table import Matrix, RowMap
from microveil.engines.out_of_core import RemoteOutcome, stored_columns
from microveil.engines.rows import Progress
from microveil.engines.spark.table import SparkTable
from microveil.restore import Marginals, Settled, correction
from microveil.restore.arrange import RIDGE, ROWS_PER_COLUMN, ExchangeSearch
from microveil.restore.calibrate import ROUNDS
from microveil.restore.exchanges import Goal, Rows, Stop, exchange_towards, second_moments
from microveil.restore.features import BandBlock, FeatureBlocks, layers_of
from microveil.rules.domain import step_of

MOST_SAMPLED = 50_000
"""Rows that distributions come from: the share of values below any value is off by .006 at most, in 95 % of cases."""

PASSES, LOCAL_PASSES = 8, 40
"""Times that the error of the whole is measured, at most, and passes over a record in between."""

NEARER, FINER = 0.8, 20
"""Share to which the largest error has to fall in a pass for another to be worth it; and the part of it at which a
record has nothing left to do."""


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


def levels_of(sample: Array) -> Curve:
    """The share of a sample that is below each value, ties by halves."""
    values, counts = np.unique(sample, return_counts=True)
    return Curve(values, (np.cumsum(counts) - counts / 2) / sample.size)


def quantiles_of(ascending: Array) -> Curve:
    """The values by their levels; those of a column of steps are none but its own."""
    count, steps = ascending.size, step_of(ascending) is not None
    return Curve((np.arange(count) + (0.0 if steps else 0.5)) / count, ascending, steps)


@dataclass(frozen=True, repr=False)
class Mapped:
    """Columns through linear maps, each followed by the distributions of the release: a row map, after another."""

    first: RowMap
    steps: Sequence[tuple[tuple[Array, Array] | None, Sequence[Curve]]]
    quantiles: Sequence[Curve]

    def __call__(self, cells: Array, rows: slice) -> Array:
        """The values of some rows."""
        return self.of(self.first(cells, rows))

    def of(self, columns: Array) -> Array:
        """The same for columns x rows."""
        for linear, levels in self.steps:
            if linear is not None:
                columns = linear[0].T @ columns + linear[1][:, None]
            columns = redistributed(columns, levels, self.quantiles)
        return columns


def redistributed(columns: Array, levels: Sequence[Curve], quantiles: Sequence[Curve]) -> Array:
    """Columns (columns x rows) with the values that other distributions have at the same levels."""
    every = zip(columns, levels, quantiles, strict=True)
    return np.array([quantile(level(column)) for column, level, quantile in every])


@dataclass(frozen=True, repr=False)
class FeatureCurves:
    """Features of rows by curves, one for each layer of each column, found in a sample; and those of heaps."""

    limits: Sequence[Limits | None]
    curves: Sequence[Sequence[Curve]]
    heaps: Sequence[tuple[BandBlock, Array]]
    """Where they are, and what they are between each two cuts: intervals x features."""

    @classmethod
    def of(cls, columns: Sequence[Array], limits: Sequence[Limits | None], blocks: FeatureBlocks) -> FeatureCurves:
        """Those of a sample."""
        curves = []
        for column, limit in zip(columns, limits, strict=True):
            values = within(column, limit)
            points, first = np.unique(values, return_index=True)
            layers = (np.broadcast_to(layer, values.shape) for layer in layers_of(values, blocks.depth))
            curves.append([Curve(points, layer[first]) for layer in layers])
        heaps = []
        for block in blocks.bands:
            intervals, first = np.unique(np.searchsorted(block.bands.cuts, columns[block.owner]), return_index=True)
            found = np.column_stack([np.asarray(feature) for feature in block.features(columns[block.owner])])
            known = np.zeros((block.bands.cuts.size + 1, found.shape[1]))
            known[intervals] = found[first]
            heaps.append((block, known))
        return cls(limits, curves, heaps)

    def features(self, columns: Array) -> NDArray[np.float32]:
        """Rows x features of columns x rows."""
        width = len(columns)
        last = max([len(self.curves[0]) * width, *(block.last for block, _ in self.heaps)])
        out = np.empty((columns.shape[1], last), np.float32)
        for j, (column, limit, curves) in enumerate(zip(columns, self.limits, self.curves, strict=True)):
            for layer, curve in enumerate(curves):
                out[:, layer * width + j] = curve(within(column, limit))
        for block, known in self.heaps:
            out[:, block.first : block.last] = known[np.searchsorted(block.bands.cuts, columns[block.owner])]
        return out

    def products(self, places: Sequence[int], cells: Array, rows: slice) -> Array:  # noqa: ARG002 - a row map
        """The sums of products of the features of some rows."""
        found = self.features(cells[list(places)])
        return second_moments(found, np.ones(len(found)))


@dataclass(frozen=True, repr=False)
class RecordExchange:
    """Exchanges of values within a record, towards moments that are off by the error of the whole: a row map."""

    features: FeatureCurves
    goal: Goal
    moving: NDArray[np.int64]
    error: Array
    unit: Array
    settled: float
    stream: Stream
    places: Sequence[int]

    def __call__(self, cells: Array, rows: slice) -> Array:
        """The columns of a record with values exchanged between its rows."""
        columns = cells[list(self.places)]
        found, count = self.features.features(columns), columns.shape[1]
        weights = np.full(count, 1 / count)
        goal = replace(self.goal, target=second_moments(found, weights) - self.error)
        marks = np.empty((0, len(self.moving)), np.uint8)
        stop = Stop(LOCAL_PASSES, LOCAL_PASSES // 2, self._errors, self.settled, np.inf)
        own = self.stream.child(f"rows {rows.start}")
        exchange_towards(found, goal, Rows(weights, marks, self.moving), stop, own)
        out = np.empty_like(columns)
        for j, column in enumerate(columns):
            out[j, np.argsort(found[:, len(columns) + j], kind="stable")] = np.sort(column)
        return out

    def _errors(self, error: Array) -> Array:
        """The largest error of each layer and of single moments, in units of what counts as none."""
        return self.goal.by_part(np.abs(error) * self.unit, np.max)


def arranged_on_spark(
    step: Marginals, original: SparkTable, found: RemoteOutcome, streams: Streams, tell: Progress
) -> RemoteOutcome:
    """The outcome with values of the original distributions, arranged between the rows where these are.

    `original` is the table before, and `found` what came of its rows.
    """
    table, chosen = found.table, list(found.released.chosen)
    if not isinstance(table, SparkTable):
        raise TypeError("this engine arranges tables on Spark")
    stream, count, width = streams.stream("marginals", 0), original.count, len(chosen)
    if not step.smooths(count) or width * ROWS_PER_COLUMN > count:
        raise DataError(
            f"{count} rows of {width} columns are too few for distributions to come back on Spark", "use `protect`"
        )
    rows = np.arange(count)
    if count > MOST_SAMPLED:
        rows = np.sort(stream.child("sample").generator().choice(count, MOST_SAMPLED, replace=False, shuffle=False))
    tell("sampling rows", 0.6)
    sample = original.take(rows).keep(chosen)
    own = list(sample.confidential.columns)
    start = _mapped(step, own, table.sampled(found.released.perturbed, rows), found.released.perturbed, stream)
    search = ExchangeSearch(sample, None)
    blocks = search.blocks
    tell("measuring moments", 0.65)
    before = FeatureCurves.of(own, search.limits, blocks)
    after = FeatureCurves.of([curve.values for curve in start.quantiles], search.limits, blocks)
    target = original.total(partial(before.products, [original.public + j for j in chosen])) / count
    inverse = np.array([np.linalg.inv(target[own, own] + RIDGE * np.eye(width)) for own in blocks.layers])
    goal = replace(search.goal, target=target, inverse=inverse)
    between = blocks.owner[:, None] != blocks.owner
    table = best = table.with_stored(start, width)
    last = list(range(len(table.names) - width, len(table.names)))
    least, error = np.inf, goal.target
    for number in range(PASSES):
        tell("arranging values", 0.7 + 0.1 * number / PASSES)
        now = goal.error(table.total(partial(after.products, last)) / count)
        worst = float((np.abs(now) * between).max())
        if worst < least:
            best, error = table, now
        if worst > NEARER * least:
            break
        least = worst
        own_stream = stream.child(f"pass {number}")
        by = RecordExchange(after, goal, blocks.moving, now, between * 1.0, worst / FINER, own_stream, last)
        table = table.with_stored(by, width, drop=width)
    released = replace(found.released, perturbed=partial(stored_columns, last[0], width), reads=None, stored=True)
    settled = _largest(goal, error, width)
    return replace(found, table=best, released=released, settled=settled, remark=_doubt(count))


def _mapped(step: Marginals, own: list[Array], perturbed: Array, first: RowMap, stream: Stream) -> Mapped:
    """How perturbed rows get values: as in memory (`restore.calibrate.calibrated`), found in a sample."""
    values = [step.of(column, None, stream.child(f"smooth {j}")).values for j, column in enumerate(own)]
    quantiles = [quantiles_of(column) for column in values]
    goal = Matrix([within(column, limits_to_fit(column)) for column in own])
    target, every = moments(goal.piece, len(own[0])), list(range(len(own)))
    steps: list[tuple[tuple[Array, Array] | None, Sequence[Curve]]] = []
    for number in range(ROUNDS + 1):
        linear = None
        if number:
            fix = correction(moments(Matrix(list(perturbed)).piece, len(own[0])), target, 0, every)
            if not np.isfinite(fix.condition):
                break
            linear = fix.matrix, fix.constant
            perturbed = linear[0].T @ perturbed + linear[1][:, None]
        levels = [levels_of(column) for column in perturbed]
        steps.append((linear, levels))
        perturbed = redistributed(perturbed, levels, quantiles)
    return Mapped(first, steps, quantiles)


def _largest(goal: Goal, error: Array, width: int) -> Settled:
    """The largest errors of a correlation and of a rank correlation."""
    other = ~np.eye(width, dtype=bool)
    values, ranks = (float((np.abs(error[own, own]) * other).max(initial=0.0)) for own in goal.layers[:2])
    return Settled(values, ranks)


def _doubt(count: int) -> str:
    if count <= MOST_SAMPLED:
        return ""
    return f"the distributions of the columns come from a sample of {MOST_SAMPLED:,} of their {count:,} rows"
