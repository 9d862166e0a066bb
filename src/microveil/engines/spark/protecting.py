"""A table on Spark protected: the steps that other engines go, and the rows compared with what became of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.errors import ParameterError
from microveil.core.rng import Streams
from microveil.core.table import RowMap
from microveil.core.threads import single_threaded_blas
from microveil.engines.block_writing import Written
from microveil.engines.out_of_core import (
    Released,
    RemoteOutcome,
    check_eligible,
    run_out_of_core,
    shown_rows,
    stored_columns,
    with_stored_digits,
)
from microveil.engines.pipeline import NO_COMPONENTS
from microveil.engines.release_check import LabelComparison, RemoteComparison
from microveil.engines.rows import Progress
from microveil.engines.spark.arranging import arranged_on_spark
from microveil.engines.spark.frames import SparkSource
from microveil.engines.spark.gaps import without_gaps
from microveil.engines.spark.table import SparkTable, forget
from microveil.intake.intake import Intake, Rules, take_in
from microveil.intake.roles import Roles
from microveil.methods import Plan
from microveil.rules.linear_rules import Dependence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, repr=False)
class SparkRelease:
    """A release on Spark. Its rows are made when they are read, from records that Spark keeps on its disks."""

    data: DataFrame
    intake: Intake
    outcome: RemoteOutcome
    written: Written
    seed: int

    def close(self) -> None:
        """Give the workers' disks back. The data can still be read, but everything is then done once more."""
        forget(spark_table(self.intake).cells.records.kept)


@dataclass(frozen=True, repr=False)
class SparkRequest:
    """How a table on Spark is to be protected, with a plan and roles."""

    rules: Rules = "infer"
    seed: int | None = None
    secret: bytes = b""
    sensitive: Sequence[str] = ()
    sampled: NDArray[np.intp] | None = None
    """Rows to be seen before and after, instead of random ones."""

    check: Callable[[Intake], None] = lambda _: None
    """Refuses a table that the method is not for."""

    draws: Callable[[int], int] = lambda _: 1
    """How often a table of so many rows is drawn at most, as long as somebody's record is in the release."""

    came_back: Callable[[Sequence[Array], Sequence[Array]], int] = lambda *_: 0
    """How many records there are, given columns before and after."""

    progress: Progress = lambda *_: None


def protect_spark(plan: Plan, source: SparkSource, roles: Roles, request: SparkRequest) -> SparkRelease:
    """Protect a table on Spark."""
    check_eligible(plan, "spark")
    progress = request.progress
    with single_threaded_blas(), _forgotten_if_it_fails(source):
        progress("gathering rows", 0.0)
        intake = take_in(source, roles, request.rules, progress, label_rules=False)
        table = spark_table(intake)
        request.check(intake)
        streams = Streams.from_seed(request.seed, intake.profile.fingerprint, request.secret)
        names = table.confidential_names
        if not set(request.sensitive) <= set(names):
            raise ParameterError("sensitive: a column is not confidential", "name protected columns only")
        sensitive = [names.index(name) for name in request.sensitive]
        outcome = _drawn(plan, intake, streams, sensitive, request)
        progress("comparing", 0.8)
        sampled = shown_rows(streams, table.count) if request.sampled is None else request.sampled
        written = compared(source, intake, outcome, sampled)
        return SparkRelease(source.released(table, outcome, streams), intake, outcome, written, streams.seed)


def _drawn(
    plan: Plan, intake: Intake, streams: Streams, sensitive: Sequence[int], request: SparkRequest
) -> RemoteOutcome:
    """What becomes of the rows, drawn again as a table in memory is; `sensitive` are columns by number."""
    table, tell = spark_table(intake), request.progress
    draws, rows = request.draws(table.count), np.arange(table.count)
    before = table.take(rows).confidential.columns if draws > 1 else ()
    found: list[tuple[int, RemoteOutcome]] = []
    while not found or (found[-1][0] and len(found) < draws):
        outcome = _one_draw(plan, intake, replace(streams, attempt=len(found)), sensitive, tell)
        if draws == 1 or not isinstance(outcome.table, SparkTable):
            return outcome
        after = outcome.table.sampled(outcome.released, rows)
        moved = outcome.released.chosen
        found.append((request.came_back([before[j] for j in moved], [after[j] for j in moved]), outcome))
    return min(found, key=lambda one: one[0])[1]


def _one_draw(plan: Plan, intake: Intake, streams: Streams, sensitive: Sequence[int], tell: Progress) -> RemoteOutcome:
    """What becomes of the rows in one draw, by its `streams`; the others as in `_drawn`."""
    table, profile = spark_table(intake), intake.profile
    complete, filled = table, None
    if profile.missing():
        complete = without_gaps(table, profile, streams)
        profile = complete.profile()
        filled = profile.moments
    if any(j >= table.public for j in profile.varying()):
        outcome = run_out_of_core(
            plan, complete, profile, streams, sensitive=sensitive, known=intake.known, progress=tell
        )
    else:  # labels alone
        constants = dict(enumerate(profile.minimum[table.public :].tolist()))
        released = Released(partial(stored_columns, 0, 0), None, None, (), (), constants)
        outcome = RemoteOutcome(cast(SparkTable, table.keep(())), released, Dependence([]), NO_COMPONENTS)
    outcome = replace(outcome, filled=filled)
    return arranged_on_spark(plan.marginals, table, outcome, streams, tell) if plan.arranges else outcome


@contextmanager
def _forgotten_if_it_fails(source: SparkSource) -> Iterator[None]:
    """Records are kept for a release; without one, the workers get their disks back."""
    try:
        yield
    except BaseException:
        forget(source.kept)
        raise


def spark_table(intake: Intake) -> SparkTable:
    """The table that was taken in."""
    if not isinstance(intake.table, SparkTable):
        raise TypeError("this engine protects tables on Spark")
    return intake.table


Parts = Callable[[Array, slice], tuple[Array, Array, Array, Array]]
"""Cells and labels of some rows before, and after: columns x rows each."""


def compared(source: SparkSource, intake: Intake, outcome: RemoteOutcome, sampled: NDArray[np.intp]) -> Written:
    """The released rows compared with the original ones, in a pass of its own; of both, rows that are `sampled`."""
    table, released = spark_table(intake), outcome.table
    if not isinstance(released, SparkTable):
        raise TypeError("this engine releases tables on Spark")
    single: dict[int, Any] = {j: np.float32 for j, n in enumerate(table.confidential_names) if n in source.single}
    single |= {j: np.round for j, name in enumerate(table.confidential_names) if name in source.times}
    stored, width, labels = partial(with_stored_digits, outcome.released, single), len(table.names), table.labels
    # What was read, the numbers of labels before and after, and what the release is made of.
    before = table.with_further(labels.codes)
    both, first = before.with_columns_of(released), len(before.names)
    parts = partial(_before_and_after, stored, outcome.labels, (width, first))
    comparison = RemoteComparison(table, outcome.filled or intake.profile.moments, gaps=outcome.filled is not None)
    proof, odd = comparison.conclusion(both.total(partial(_compared_sums, comparison, parts)))
    errors = None if outcome.labels is None else _label_errors(intake, outcome, both, parts)
    counts = [width, len(labels.names), width - table.public, len(labels.names)]
    seen = [np.empty((count, 0)) for count in counts]
    weights = None if table.weights is None else np.empty(0)
    if sampled.size:
        found = both.sampled(partial(_in_one, parts, table.weights), sampled)
        *seen, weight = np.split(found, np.cumsum(counts))
        weights = weight[0] if len(weight) else None
    cells, old, new, new_labels = seen
    return Written(proof, odd, cells, new, bool(single), weights, labels=(old, new_labels), label_errors=errors)


def _label_errors(intake: Intake, outcome: RemoteOutcome, both: SparkTable, parts: Parts) -> dict[str, float]:
    """How far two-way tables and group means of all rows are off; `both` has the `parts` of rows before and after."""
    table, gaps = intake.table, intake.profile.missing()
    sd = (outcome.filled or intake.profile.moments).sd
    spreads = {j: float(sd[table.public + j]) for j in outcome.released.chosen if table.public + j not in gaps}
    compared = LabelComparison([len(levels) for levels in table.labels.levels], spreads)
    return compared.errors(both.total(partial(_label_sums, compared, table.public, parts)))


def _before_and_after(
    released: RowMap, labels: RowMap | None, widths: tuple[int, int], cells: Array, rows: slice
) -> tuple[Array, Array, Array, Array]:
    """Cells and labels of some rows before and after.

    `widths` has how many cells of the original come first, and how many with its labels; what is released, and the
    `labels`, are made of the others.
    """
    before, old, own = np.split(cells, widths)
    return before, old, released(own, rows), old[:0] if labels is None else labels(own, rows)


def _compared_sums(comparison: RemoteComparison, parts: Parts, cells: Array, rows: slice) -> Array:
    """Sums of a comparison of numbers."""
    before, _, after, _ = parts(cells, rows)
    return comparison.sums(before, after, rows)


def _label_sums(comparison: LabelComparison, public: int, parts: Parts, cells: Array, rows: slice) -> Array:
    """Sums of a comparison of labels; so many columns are public."""
    before, *others = parts(cells, rows)
    return comparison.sums(before[public:], *others)


def _in_one(parts: Parts, weights: Array | None, cells: Array, rows: slice) -> Array:
    """All parts of some rows, and their weights, if any."""
    return np.vstack([*parts(cells, rows), *([] if weights is None else [weights[rows]])])
