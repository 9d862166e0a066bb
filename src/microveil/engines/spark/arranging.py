"""Values of a table on Spark get their distributions back, and are exchanged between rows until moments return.

Distributions come from a sample of the rows of bounded size, the one thing that comes to the driver. All else is a map
of rows or a sum over them: a perturbed row is mapped to values by the places of its cells in the sample; labels start
in a random order of all rows; second moments of features are added up; and each record of rows exchanges its own
values and labels, by the very loop of tables in memory, with those of the other records that its worker has at hand,
as if all others went the same way. So the error of the whole falls from pass to pass, and nobody waits for another. A
table of one record is arranged as in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.errors import DataError
from microveil.core.fewest_records import limits_to_fit, within
from microveil.core.moments import moments
from microveil.core.rng import Stream, Streams
from microveil.core.table import LabelColumns, Matrix, Microdata, RowMap
from microveil.engines.out_of_core import RemoteOutcome, stored_columns
from microveil.engines.restoring import mapped_back
from microveil.engines.rows import Progress
from microveil.engines.spark.features import Curve, FeatureCurves, RowParts, Staying
from microveil.engines.spark.table import SparkTable
from microveil.restore import Marginals, Settled, correction
from microveil.restore.arrange import RIDGE, ROWS_PER_COLUMN, SETTLED, ExchangeSearch
from microveil.restore.calibrate import ROUNDS
from microveil.restore.exchanges import Goal, Rows, Stop, exchange_towards, second_moments
from microveil.restore.features import FeatureBlocks
from microveil.restore.missing import marks_of
from microveil.rules.domain import step_of

MOST_SAMPLED = 50_000
"""Rows that distributions come from: the share of values below any value is off by .006 at most, in 95 % of cases."""

PASSES, LOCAL_PASSES = 8, 40
"""Times that the error of the whole is measured, at most, and passes over a record in between."""

NEARER, FINER = 0.8, 20
"""Share to which the loss has to fall in a pass for another to be worth it; and the part of the largest error of a
layer at which a record has nothing left to do there."""


Sides = tuple[Curve, Curve]
"""Of the cells of a column that are there, and of those that are not."""


def levels_of(sample: Array) -> Curve:
    """The share of a sample that is below each value, ties by halves."""
    values, counts = np.unique(sample, return_counts=True)
    return Curve(values, (np.cumsum(counts) - counts / 2) / sample.size)


def quantiles_of(ascending: Array) -> Curve:
    """The values by their levels; those of a column of steps are none but its own."""
    count, steps = ascending.size, step_of(ascending) is not None
    return Curve((np.arange(count) + (0.0 if steps else 0.5)) / count, ascending, steps)


def redistributed(columns: Array, present: Mask, levels: Sequence[Sides], quantiles: Sequence[Sides]) -> Array:
    """Columns (columns x rows) with the values that other distributions have at the same levels.

    Cells that are not `present` (columns x rows) have distributions of their own, which nobody will see.
    """
    out = np.empty_like(columns)
    for column, there, level, quantile, new in zip(columns, present, levels, quantiles, out, strict=True):
        for cells, own, values in zip((there, ~there), level, quantile, strict=True):
            new[cells] = values(own(column[cells]))
    return out


@dataclass(frozen=True, repr=False)
class Mapped:
    """Columns through linear maps, each followed by the distributions of the release: a row map, after another."""

    first: RowMap
    steps: Sequence[tuple[tuple[Array, Array] | None, Sequence[Sides]]]
    quantiles: Sequence[Sides]
    parts: RowParts

    def __call__(self, cells: Array, rows: slice) -> Array:
        """The values of some rows, and their labels as they are."""
        _, present, labels = self.parts.of(cells)
        return np.vstack([self.of(self.first(cells, rows), present), labels])

    def of(self, columns: Array, present: Mask) -> Array:
        """The values of columns x rows."""
        for linear, levels in self.steps:
            if linear is not None:
                columns = linear[0].T @ columns + linear[1][:, None]
            columns = redistributed(columns, present, levels, self.quantiles)
        return columns


@dataclass(frozen=True, repr=False)
class ArrangedWhole:
    """All rows of a table that is one record, arranged as in memory: a row map."""

    step: Marginals
    perturbed: RowMap
    parts: RowParts
    names: tuple[str, ...]
    public: int
    labels: tuple[str, ...]
    stream: Stream

    def __call__(self, cells: Array, rows: slice) -> Array:
        """The values and labels of all rows."""
        columns, present, codes = self.parts.of(cells)
        values = Matrix([*cells[: self.public], *columns])
        labels = LabelColumns(self.labels, tuple(codes))
        table = Microdata(values, self.names, self.public, labels=labels, rows_trade=True)
        perturbed = [np.array(column) for column in self.perturbed(cells, rows)]
        holes = None if present.all() else np.ascontiguousarray(present.T)
        found = mapped_back(self.step, table, lambda: perturbed, holes, self.stream)
        return np.array([*found.columns, *found.labels], dtype=np.float64)


@dataclass(frozen=True, repr=False)
class RecordExchange:
    """Exchanges of values within a record, towards moments that are off by the error of the whole: a row map."""

    features: FeatureCurves
    goal: Goal
    error: Array
    unit: Array
    settled: Array
    stream: Stream
    parts: RowParts

    def __call__(self, cells: Array, rows: slice) -> Array:
        """The columns and labels of a record with values exchanged between its rows."""
        (columns, present, labels), blocks = self.parts.of(cells), self.features.blocks
        found, count = self.features.features(columns, present, labels), cells.shape[1]
        weights = np.full(count, 1 / count)
        goal = replace(self.goal, target=second_moments(found, weights) - self.error)
        marks = np.empty((0, len(blocks.moving)), np.uint8)
        marks = marks if present.all() else marks_of(present.T, len(labels))
        stop = Stop(LOCAL_PASSES, LOCAL_PASSES // 2, self._errors, self.settled, np.inf)
        own = self.stream.child(f"rows {rows.start}")
        exchange_towards(found, goal, Rows(weights, marks, blocks.moving), stop, own)
        out = columns.copy()
        for j, (column, there) in enumerate(zip(columns, map(np.flatnonzero, present), strict=True)):
            ranks = found[there, blocks.values + blocks.fixed + j]
            out[j, there[np.argsort(ranks, kind="stable")]] = np.sort(column[there])
        return np.vstack([out, *(block.levels_at(found, of) for block, of in zip(blocks.labels, labels, strict=True))])

    def _errors(self, error: Array) -> Array:
        """The largest error of each layer and of single moments, in units of what counts as none."""
        return self.goal.by_part(np.abs(error) * self.unit, np.max)


@dataclass(frozen=True, repr=False)
class Aim:
    """What rows are arranged towards: moments of features, which a sample has told and all rows have been asked for.

    `scale` is one over what counts as an error, 0 for moments that no exchange changes; `start` makes values of
    perturbed rows.
    """

    search: ExchangeSearch
    start: Mapped
    features: FeatureCurves
    goal: Goal
    scale: Array

    @classmethod
    def of(
        cls,
        step: Marginals,
        original: SparkTable,
        table: SparkTable,
        perturbed: RowMap,
        before: RowParts,
        stream: Stream,
    ) -> Aim:
        """That of a `table`.

        Args:
            step: how distributions come back.
            original: the table before.
            table: the same with what the release is made of.
            perturbed: makes perturbed columns of its rows.
            before: where the parts of a row are.
            stream: of random numbers.
        """
        count, public = original.count, original.public
        rows = np.arange(count)
        if count > MOST_SAMPLED:
            rows = np.sort(stream.child("sample").generator().choice(count, MOST_SAMPLED, replace=False, shuffle=False))
        cells, new = np.split(table.sampled(partial(_beside, perturbed), rows), [len(table.names)])
        columns, present, codes = before.of(cells)
        values, names = Matrix([*cells[:public], *columns]), table.names[: public + len(columns)]
        sample = Microdata(values, names, public, labels=replace(original.labels, codes=tuple(codes)))
        start = _mapped(step, columns, present, new, perturbed, stream)
        search = ExchangeSearch(sample, None if present.all() else np.ascontiguousarray(present.T))
        blocks = _with_all_levels(search.blocks, [len(levels) for levels in original.labels.levels])
        staying = Staying.of(search, blocks, sample, present)
        seen = [column[there] for column, there in zip(columns, present, strict=True)]
        after = [values.values for values, _ in start.quantiles]
        measured = FeatureCurves.of(seen, search.limits, blocks, staying)
        target = table.total(partial(measured.products, before)) / count
        ridge = RIDGE * np.eye(blocks.values)
        inverse = np.array([np.linalg.inv(target[own, own] + ridge) for own in blocks.layers])
        more = np.ones(blocks.width)  # group means need more, where a column has lost spread at its ends
        for j, (old, new_values, limits) in enumerate(zip(seen, after, search.limits, strict=True)):
            spread, now = (within(column, limits).std() for column in (old, new_values))
            more[blocks.fixed + j] = max(spread / now, 1.0) if now > 0 else 1.0
        target *= np.where(search.means, np.outer(more, more), 1.0)
        goal = replace(search.goal, target=target, inverse=inverse)
        scale = np.where(staying.can_change(blocks), 1 / search.unit, 0.0)
        return cls(search, start, FeatureCurves.of(after, search.limits, blocks, staying), goal, scale)

    def error(self, table: SparkTable, parts: RowParts) -> Array:
        """How far the moments of all rows are off."""
        error = self.goal.error(table.total(partial(self.features.products, parts)) / table.count)
        return np.where(self.scale > 0, error, 0.0)


def arranged_on_spark(
    step: Marginals, original: SparkTable, found: RemoteOutcome, streams: Streams, tell: Progress
) -> RemoteOutcome:
    """The outcome with values of the original distributions, arranged between the rows where these are.

    `original` is the table before, in which cells may be missing, and `found` what came of its rows.
    """
    chosen, labels, count = list(found.released.chosen), original.labels.names, original.count
    if not isinstance(found.table, SparkTable):
        raise TypeError("this engine arranges tables on Spark")
    stream, width = streams.stream("marginals", 0), len(chosen)
    if not step.smooths(count) or (width + len(labels)) * ROWS_PER_COLUMN > count:
        raise DataError(
            f"{count} rows of {width + len(labels)} columns are too few for distributions to come back on Spark",
            "use `protect`",
        )
    tell("measuring moments", 0.6)
    # A row has what the release is made of, then the confidential columns as they were, and labels.
    own, first = original.values.columns[original.public :], len(found.table.names)
    table = found.table.with_further([*own, *original.labels.codes])
    numbers, codes = range(original.public, original.public + width), range(first + len(own), len(table.names))
    before = RowParts(numbers, [first + j for j in chosen], codes)
    perturbed = partial(_of_first, found.released.perturbed, first)
    aim = Aim.of(step, original, table, perturbed, before, stream)
    if len(original.cells.records.layout.rows) == 1:
        names = found.table.names[: original.public + width]
        whole = ArrangedWhole(step, perturbed, before, names, original.public, labels, stream)
        table = table.with_stored(whole, width + len(labels))
        after = _last(table, before)
        error = aim.error(table, after)
    else:
        if labels:
            own_streams = [stream.child(f"labels {name}") for name in labels]
            table = table.permuted(partial(stored_columns, codes.start, len(labels)), own_streams, lambda _: None)
        start = replace(
            aim.start, parts=replace(before, labels=range(len(table.names) - len(labels), len(table.names)))
        )
        table = table.with_stored(start, width + len(labels), drop=len(labels))
        after = _last(table, before)
        table, error = _exchanged(aim, table, after, stream, tell)
    released = replace(
        found.released,
        perturbed=partial(stored_columns, after.numbers.start, width),
        reads=None,
        stored=True,
        holes=None if found.filled is None else first,
    )
    settled = Settled(*aim.search.largest(error))
    new = partial(stored_columns, after.labels.start, len(labels)) if labels else None
    return replace(found, table=table, released=released, settled=settled, remark=_doubt(count), labels=new)


def _exchanged(
    aim: Aim, table: SparkTable, parts: RowParts, stream: Stream, tell: Progress
) -> tuple[SparkTable, Array]:
    """The `table` with values exchanged within its records, pass after pass; and how far moments are off then.

    Args:
        aim: what values are exchanged towards.
        table: its last columns change places.
        parts: where these are.
        stream: of random numbers.
        tell: hears of the progress.
    """
    width, best = len(parts.numbers) + len(parts.labels), table
    least, error = np.inf, aim.goal.target
    for number in range(PASSES):
        tell("arranging values", 0.7 + 0.1 * number / PASSES)
        now = aim.error(table, parts)
        loss, worst = float((aim.goal.gradient(now) * now).sum()), aim.goal.by_part(np.abs(now) * aim.scale, np.max)
        if loss < least:
            best, error = table, now
        settled = np.append(np.full(worst.size - 1, SETTLED[0]), SETTLED[1])
        if loss > NEARER * least or (worst <= settled).all():
            break
        least = loss
        own = stream.child(f"pass {number}")
        by = RecordExchange(aim.features, aim.goal, now, aim.scale, worst / FINER, own, parts)
        table = table.with_stored(by, width, drop=width, together=True)
    return best, error


def _last(table: SparkTable, before: RowParts) -> RowParts:
    """Where numbers and labels are, if they are the last columns; what they were is where it was `before`."""
    width, labels = len(before.numbers), len(before.labels)
    first = len(table.names) - width - labels
    return RowParts(range(first, first + width), before.as_they_were, range(first + width, first + width + labels))


def _of_first(of: RowMap, width: int, cells: Array, rows: slice) -> Array:
    """What is made of the first `width` columns of some rows."""
    return of(cells[:width], rows)


def _beside(of: RowMap, cells: Array, rows: slice) -> Array:
    """The cells of some rows, and what is made of them."""
    return np.vstack([cells, of(cells, rows)])


def _with_all_levels(blocks: FeatureBlocks, sizes: Sequence[int]) -> FeatureBlocks:
    """The blocks with all levels of labels, so many: those that a sample has not have no feature."""
    both = zip(blocks.labels, sizes, strict=True)
    more = (np.pad(block.levels, (0, size - block.levels.size), constant_values=-1) for block, size in both)
    labels = tuple(replace(block, levels=levels) for block, levels in zip(blocks.labels, more, strict=True))
    return replace(blocks, labels=labels)


def _mapped(step: Marginals, own: Array, present: Mask, perturbed: Array, first: RowMap, stream: Stream) -> Mapped:
    """How perturbed rows get values: as in memory (`restore.calibrate.calibrated`), found in a sample.

    Args:
        step: how distributions come back.
        own: the columns, without gaps: columns x rows, as all others.
        present: where there were no gaps.
        perturbed: the columns that get their values.
        first: makes perturbed columns of other rows.
        stream: of random numbers.
    """
    found = [step.of(*both, stream.child(f"smooth {j}")) for j, both in enumerate(zip(own, present, strict=True))]
    quantiles = [_sides(quantiles_of, of.values, of.unseen) for of in found]
    target, every = Matrix([within(column, limits_to_fit(column)) for column in own]), list(range(len(own)))
    steps: list[tuple[tuple[Array, Array] | None, Sequence[Sides]]] = []
    for number in range(ROUNDS + 1 if every else 0):
        linear = None
        if number:
            now = moments(Matrix(list(perturbed)).piece, own.shape[1])
            fix = correction(now, moments(target.piece, own.shape[1]), 0, every)
            if not np.isfinite(fix.condition):
                break
            linear = fix.matrix, fix.constant
            perturbed = linear[0].T @ perturbed + linear[1][:, None]
        both = zip(perturbed, present, strict=True)
        levels = [_sides(levels_of, column[there], column[~there]) for column, there in both]
        steps.append((linear, levels))
        perturbed = redistributed(perturbed, present, levels, quantiles)
    return Mapped(first, steps, quantiles, RowParts(range(0), (), range(0)))


def _sides(curve: Callable[[Array], Curve], seen: Array, unseen: Array | None) -> Sides:
    """The curves of cells that are there, and of those that are not; where there are none, of all."""
    first = curve(seen)
    return first, curve(unseen) if unseen is not None and unseen.size else first


def _doubt(count: int) -> str:
    if count <= MOST_SAMPLED:
        return ""
    return f"the distributions of the columns come from a sample of {MOST_SAMPLED:,} of their {count:,} rows"
