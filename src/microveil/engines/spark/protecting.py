"""A table on Spark protected: the steps that other engines go, and the rows compared with what became of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.errors import ParameterError
from microveil.core.rng import Streams
from microveil.core.table import RowMap
from microveil.core.threads import single_threaded_blas
from microveil.engines.block_writing import Written
from microveil.engines.out_of_core import RemoteOutcome, check_eligible, run_out_of_core, shown_rows, with_stored_digits
from microveil.engines.release_check import RemoteComparison
from microveil.engines.rows import Progress
from microveil.engines.spark.arranging import arranged_on_spark
from microveil.engines.spark.frames import SparkSource
from microveil.engines.spark.table import SparkTable, forget
from microveil.intake.intake import Intake, Rules, take_in
from microveil.intake.roles import Roles
from microveil.methods import Plan

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
        intake = take_in(source, roles, request.rules, progress)
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
        again = replace(streams, attempt=len(found))
        outcome = run_out_of_core(
            plan, table, intake.profile, again, sensitive=sensitive, known=intake.known, progress=tell
        )
        if plan.arranges:
            outcome = arranged_on_spark(plan.marginals, table, outcome, again, tell)
        if draws == 1 or not isinstance(outcome.table, SparkTable):
            return outcome
        after = outcome.table.sampled(outcome.released, rows)
        moved = outcome.released.chosen
        found.append((request.came_back([before[j] for j in moved], [after[j] for j in moved]), outcome))
    return min(found, key=lambda one: one[0])[1]


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


def compared(source: SparkSource, intake: Intake, outcome: RemoteOutcome, sampled: NDArray[np.intp]) -> Written:
    """The released rows compared with the original ones, in a pass of its own; of both, rows that are `sampled`."""
    table, released = spark_table(intake), outcome.table
    if not isinstance(released, SparkTable):
        raise TypeError("this engine releases tables on Spark")
    single: dict[int, Any] = {j: np.float32 for j, n in enumerate(table.confidential_names) if n in source.single}
    single |= {j: np.round for j, name in enumerate(table.confidential_names) if name in source.times}
    both, stored = table.with_columns_of(released), partial(with_stored_digits, outcome.released, single)
    comparison = RemoteComparison(table, intake.profile.moments)
    proof, odd = comparison.conclusion(both.total(partial(_compared_sums, comparison, stored, len(table.names))))
    width = len(table.names)
    before, after, weights = np.empty((width, 0)), np.empty((width - table.public, 0)), np.empty((1, 0))
    if sampled.size:
        seen = both.sampled(partial(_before_and_after, stored, width, table.weights), sampled)
        before, after, weights = np.split(seen, [width, 2 * width - table.public])
    return Written(proof, odd, before, after, bool(single), None if table.weights is None else weights[0])


def _compared_sums(comparison: RemoteComparison, released: RowMap, width: int, cells: Array, rows: slice) -> Array:
    """Sums of a comparison; the first `width` columns of the cells are those of the original."""
    return comparison.sums(cells[:width], released(cells[width:], rows), rows)


def _before_and_after(released: RowMap, width: int, weights: Array | None, cells: Array, rows: slice) -> Array:
    """The original cells, the released ones and the weights, if any; see `_compared_sums`."""
    weight = [] if weights is None else [weights[rows]]
    return np.vstack([cells[:width], released(cells[width:], rows), *weight])
