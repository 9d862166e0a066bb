"""The survey of a table on Spark: what all its rows say of the kinds of columns, counted on the workers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np

from microveil.core.late import pa, pl, sf, spark_types
from microveil.engines.spark.columns import quoted_column
from microveil.engines.spark.frames import SparkSource
from microveil.engines.spark.rows import Batches, numbers_in
from microveil.engines.spark.table import on_workers
from microveil.engines.survey import SPREAD, open_questions
from microveil.intake.from_dates import DateRule, as_days
from microveil.io.frames.surveyed import ColumnFacts, SurveyedFrame, facts_of
from microveil.io.frames.times import TimeForm


def survey_spark(source: SparkSource) -> SurveyedFrame:
    """A table on Spark, by the columns that its first rows leave open."""
    head = source.head()
    numeric = {name for name, is_number in source.numeric.items() if is_number}
    doubtful, counted = open_questions(SurveyedFrame(head, head, {}, numeric))
    if not doubtful:
        return SurveyedFrame(head, head.clear(), {}, numeric)
    cells = source.frame.select(*(quoted_column(name).alias(f"cell{j}") for j, name in enumerate(doubtful)))
    looking = partial(_facts, [name in numeric for name in doubtful])
    parts = [json.loads(row["facts"]) for row in on_workers(cells, looking, "facts string").collect()]
    found = [[ColumnFacts.from_dict(column) for column in part] for part in parts]
    facts = {name: _evenly(reduce(_joined, [part[j] for part in found])) for j, name in enumerate(doubtful)}
    if counted:
        levels = source.frame.agg(*(sf.count_distinct(_comparable(source, name)) for name in counted)).first()
        facts |= {name: replace(facts[name], levels=count) for name, count in zip(counted, levels or (), strict=True)}
    rows = max(facts[doubtful[0]].rows, 1)
    some = cells.sample(withReplacement=False, fraction=min(2 * SPREAD / rows, 1.0), seed=0).limit(SPREAD).toArrow()
    spread = pl.DataFrame(pl.from_arrow(some.rename_columns(doubtful)))
    return SurveyedFrame(head, spread, facts, numeric)


def _facts(numeric: Sequence[bool], batches: Batches) -> Batches:
    """The facts of all columns in the rows of a partition, on a worker."""
    found: list[ColumnFacts] = []
    for batch in batches:
        if batch.num_rows:
            own = [facts_of(batch.column(j), numeric=is_number) for j, is_number in enumerate(numeric)]
            found = [_joined(*both) for both in zip(found, own, strict=True)] if found else own
    if found:
        yield pa.RecordBatch.from_pydict({"facts": [json.dumps([facts.to_dict() for facts in found])]})


def _joined(one: ColumnFacts, other: ColumnFacts) -> ColumnFacts:
    """Facts of two parts, of which nobody knows which comes first: they rise evenly if both do by the same."""
    even = one.even and other.even and (one.step == other.step or None in (one.step, other.step))
    return replace(one.joined(other), even=even, step=other.step if one.step is None else one.step)


def _evenly(facts: ColumnFacts) -> ColumnFacts:
    """Parts that rise evenly are one run if they are as long together as their extremes are apart."""
    apart = abs(facts.step or 0) * (facts.rows - 1)
    return replace(facts, even=facts.even and facts.high - facts.low == apart)


def _comparable(source: SparkSource, name: str) -> Any:
    """A column of which equal cells can be counted."""
    nested = spark_types.MapType | spark_types.ArrayType | spark_types.StructType
    column, kind = quoted_column(name), source.frame.schema[name].dataType
    return column.cast("string") if isinstance(kind, nested) else column


def share_unique(source: SparkSource, names: Sequence[str]) -> float:
    """The share of the rows that no other is equal to in some columns."""
    if not names:
        return 0.0
    cells = source.frame.select(*(_comparable(source, name).alias(f"cell{j}") for j, name in enumerate(names)))
    groups = cells.groupBy(*cells.columns).agg(sf.count(sf.lit(1)).alias("rows"))
    return groups.filter(sf.col("rows") == 1).count() / max(source.count, 1)


def rules_that_hold(source: SparkSource, rules: Sequence[DateRule], forms: Mapping[str, TimeForm]) -> list[DateRule]:
    """Those of some `rules` between dates, which have these `forms`, and other columns that hold in all rows."""
    names = list(dict.fromkeys(name for rule in rules for name in (rule.column, *rule.dates)))
    opened = replace(source, times=forms)
    broken = on_workers(opened.cells(names), partial(_broken, rules, names, forms), "rule int").distinct().collect()
    numbers = {row["rule"] for row in broken}
    return [rule for number, rule in enumerate(rules) if number not in numbers]


def _broken(
    rules: Sequence[DateRule], names: Sequence[str], forms: Mapping[str, TimeForm], batches: Batches
) -> Batches:
    """The numbers of rules that do not hold in some rows, on a worker; `batches` have the columns of these names."""
    for batch in batches:
        cells = {name: numbers_in(batch.column(j), forms.get(name)) for j, name in enumerate(names)}
        days = {name: as_days(forms[name], cells[name]) for name in names if name in forms}
        broken = [n for n, rule in enumerate(rules) if not rule.holds(days.__getitem__, cells[rule.column])]
        yield pa.RecordBatch.from_pydict({"rule": pa.array(np.array(broken, dtype=np.int32))})
