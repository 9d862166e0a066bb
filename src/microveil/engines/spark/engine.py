"""The Spark engine: a Spark DataFrame or a Parquet dataset protected where its rows are, on the workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.errors import DataError, ParameterError
from microveil.core.profile import Scan
from microveil.core.rng import Streams
from microveil.core.table import RowMap
from microveil.core.threads import single_threaded_blas
from microveil.engines.memory import places_of
from microveil.engines.out_of_core import FarOutcome, check_eligible, run_far, shown_rows
from microveil.engines.out_of_core_checks import (
    check_columns,
    check_count,
    check_declares_sums,
    check_roles,
    public_codes,
)
from microveil.engines.pipeline import Progress
from microveil.engines.release_check import RemoteComparison
from microveil.engines.spark.frames import SparkSource
from microveil.engines.spark.table import SparkTable, as_they_are
from microveil.engines.stream import Written
from microveil.intake.intake import Intake, Rules, dictionary_for
from microveil.intake.roles import Roles
from microveil.io.dictionary import Dictionary
from microveil.methods import Plan
from microveil.rules.column_rules import ColumnRules
from microveil.rules.linear_rules import Dependence, LinearRule, find_dependence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HOLDS = 1e-9
"""Share of the sizes of its terms to which a declared sum must hold."""


@dataclass(frozen=True, repr=False)
class SparkRelease:
    """A release on Spark. Its rows are made when they are asked for, from records that Spark keeps on its disks."""

    data: DataFrame
    intake: Intake
    outcome: FarOutcome
    written: Written
    seed: int

    def close(self) -> None:
        """Give the workers' disks back. The data can still be read, but everything is then done once more."""
        spark_table(self.intake).far.here.forget()


def protect_spark(
    plan: Plan,
    source: SparkSource,
    roles: Roles,
    *,
    rules: Rules = "infer",
    seed: int | None = None,
    secret: bytes = b"",
    sensitive: Sequence[str] = (),
    sampled: NDArray[np.intp] | None = None,
    check: Callable[[Intake], None] = lambda _: None,
    progress: Progress = lambda *_: None,
) -> SparkRelease:
    """Protect a table on Spark; `sampled` are rows to be seen before and after, instead of random ones.

    `check` refuses a table that the method is not for.
    """
    check_eligible(plan, "spark")
    intake = take_in_spark(source, roles, rules, progress)
    table = spark_table(intake)
    with single_threaded_blas(), _forgotten_if_it_fails(table):
        check(intake)
        streams = Streams.from_seed(seed, intake.look.fingerprint, secret)
        dependence = dependence_on_spark(plan, table, intake.look, intake.known)
        names = table.confidential_names
        if not set(sensitive) <= set(names):
            raise ParameterError("sensitive: a column is not confidential", "name protected columns only")
        places = places_of([names.index(name) for name in sensitive], dependence, (), names)
        outcome = run_far(plan, table, intake.look, dependence, streams, sensitive=places, progress=progress)
        progress("comparing", 0.8)
        written = compared(source, intake, outcome, shown_rows(streams, table.count) if sampled is None else sampled)
        return SparkRelease(source.released(table, outcome), intake, outcome, written, streams.seed)


@contextmanager
def _forgotten_if_it_fails(table: SparkTable) -> Iterator[None]:
    """Records are kept for a release; without one, the workers get their disks back."""
    try:
        yield
    except BaseException:
        table.far.here.forget()
        raise


def take_in_spark(source: SparkSource, roles: Roles, rules: Rules, tell: Progress) -> Intake:
    """The rows gathered on the workers, and checked as those of a table in memory are."""
    check_roles(roles)
    _check_public(roles)
    tell("gathering rows", 0.0)
    table = source.table(roles.confidential, roles.public.columns, roles.weight)
    with _forgotten_if_it_fails(table):
        check_count(table.count)
        tell("measuring", 0.1)
        look = table.look()
        check_columns(table, look)
        _check_varying(table, look)
        dictionary, inferred = dictionary_for(rules, source.names)
        told = public_codes(table, look) if inferred else {}
        return Intake(table, look, {}, told, dict.fromkeys(roles.confidential), _known(dictionary, table))


def spark_table(intake: Intake) -> SparkTable:
    """The table that was taken in."""
    if not isinstance(intake.table, SparkTable):
        raise TypeError("this engine protects tables on Spark")
    return intake.table


def _check_public(roles: Roles) -> None:
    """Labels would be columns of 0 and 1, which the records do not have."""
    if any(product[0].labels for product in roles.public.products):
        raise ParameterError(
            "public: on Spark, only columns of numbers can be regressed on",
            "use engine='memory', or add columns of 0 and 1 to the table",
        )


def _check_varying(table: SparkTable, look: Scan) -> None:
    """A public column that is constant says nothing, and would stand in the way of a regression."""
    for number in range(table.public):
        if look.minimum[number] == look.maximum[number]:
            raise DataError(f"public: column '{table.names[number]}' is constant", "leave it out of public")


def _known(dictionary: Dictionary, table: SparkTable) -> ColumnRules:
    """Sums that were declared; what else a dictionary can declare needs whole columns."""
    check_declares_sums(dictionary)
    place = {name: j for j, name in enumerate(table.confidential_names)}
    rules = []
    for entry in dictionary.sums:
        if not {entry.total, *entry.parts} <= place.keys():
            raise ParameterError(
                f"rules: the sum for '{entry.total}' has columns that are not protected", "protect all of them, or none"
            )
        if entry.exceptions or not entry.enforce:
            raise ParameterError(
                f"rules: on Spark, the sum for '{entry.total}' must hold in every row and be kept",
                "use engine='memory'",
            )
        coefficients = entry.coefficients or (1.0,) * len(entry.parts)
        terms = {place[name]: factor for name, factor in zip(entry.parts, coefficients, strict=True)}
        rule = LinearRule(place[entry.total], terms)
        if table.confidential.largest(partial(_missed, rule), range(len(place)))[0] > HOLDS:
            raise DataError(
                f"rules: '{entry.total}' is not the sum of its parts in every row", "correct the rows or the rules"
            )
        rules.append(rule)
    return ColumnRules(sums=rules)


def _missed(rule: LinearRule, cells: Array, rows: slice) -> Array:  # noqa: ARG001 - a row map hears of its rows
    return np.array([rule.worst_error(list(cells))])


def dependence_on_spark(plan: Plan, table: SparkTable, look: Scan, known: ColumnRules) -> Dependence:
    """Columns that vary and stand for themselves, and rules for those that follow from them by a sum."""
    varying = [j - table.public for j in look.varying() if j >= table.public]
    values = table.confidential.select(varying)
    summary = look.moments.select([table.public + j for j in varying])
    if table.weights is not None:
        # A rule is about rows: each counts once.
        names = tuple(table.confidential_names[j] for j in varying)
        summary = replace(table, values=values, names=names, public=0, weights=None).measure(as_they_are)
    place, back = {j: at for at, j in enumerate(varying)}, dict(enumerate(varying))
    declared = [rule.renumbered(place) for rule in known.sums if {rule.column, *rule.terms} <= place.keys()]
    found = find_dependence(values, summary, declared, ordered=plan.decompose.ordered)
    return Dependence([back[j] for j in found.independent], [rule.renumbered(back) for rule in found.rules])


@dataclass(frozen=True, repr=False)
class StoredDigits:
    """Released columns with the digits that they are stored with."""

    released: RowMap
    single: Sequence[int]

    def __call__(self, cells: Array, rows: slice) -> Array:
        """The released columns of some rows."""
        values = self.released(cells, rows)
        for number in self.single:
            values[number] = values[number].astype(np.float32)
        return values


def compared(source: SparkSource, intake: Intake, outcome: FarOutcome, sampled: NDArray[np.intp]) -> Written:
    """The released rows beside the original ones, in a pass of its own, and a sample of both."""
    table, far = spark_table(intake), outcome.table
    if not isinstance(far, SparkTable):
        raise TypeError("this engine releases tables on Spark")
    single = [j for j, name in enumerate(table.confidential_names) if name in source.single]
    both, stored = table.beside(far), StoredDigits(outcome.released, single)
    comparison = RemoteComparison(table, intake.look.moments)
    proof, odd = comparison.conclusion(both.total(partial(_beside, comparison, stored, len(table.names))))
    width = len(table.names)
    before, after, weights = np.empty((width, 0)), np.empty((width - table.public, 0)), np.empty((1, 0))
    if sampled.size:
        seen = both.sampled(partial(_seen, stored, width, table.weights), sampled)
        before, after, weights = np.split(seen, [width, 2 * width - table.public])
    return Written(proof, odd, before, after, bool(single), None if table.weights is None else weights[0])


def _beside(comparison: RemoteComparison, released: RowMap, width: int, cells: Array, rows: slice) -> Array:
    return comparison.sums(cells[:width], released(cells[width:], rows), rows)


def _seen(released: RowMap, width: int, weights: Array | None, cells: Array, rows: slice) -> Array:
    beside = [] if weights is None else [weights[rows]]
    return np.vstack([cells[:width], released(cells[width:], rows), *beside])
