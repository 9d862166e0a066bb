"""Protecting a table on Spark, where its rows are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from microveil.core.errors import ParameterError
from microveil.core.late import pl
from microveil.core.table import Matrix, Microdata
from microveil.engines import Progress
from microveil.intake.derivable import check_not_derivable
from microveil.methods import Plan, method_named
from microveil.options import DEFAULT_METHOD, Protect, declared_by
from microveil.protection import checks
from microveil.protection.columns import about_missing_numbers, remote_columns, with_columns_said
from microveil.protection.in_blocks import outcome_of, remote_release
from microveil.protection.in_memory import most_draws
from microveil.protection.trading import WENT, about_gaps
from microveil.release import diagnostics
from microveil.release.diagnostics import EngineRun
from microveil.release.release import Release
from microveil.release.returned import MOST_ROWS, giveaways, returned_records
from microveil.release.secret import secret_key

NOT_ON_SPARK = (*checks.NEED_ALL_ROWS, "registry")
"""Options that need all rows at once, or a table that is held here."""


@declared_by(Protect, *NOT_ON_SPARK, "engine")
def protect_spark(
    data: Any, method: str = DEFAULT_METHOD, *, progress: Progress | None = None, **options: Any
) -> Release:
    """Protect a table on Spark: a DataFrame, or a Parquet file or folder that Spark can read.

    The release is the same as that of `protect` with the same seed, up to the last digits; that of `veil` has the same
    statistics, within the errors that `kept` tells, as its distributions come from a sample. `release.data` is a Spark
    DataFrame with the columns of the data; its rows are made when they are asked for, and never come to the driver.
    `release.close()` gives the workers' disks back when they have been written.

    Args:
        data: a Spark DataFrame, or the path of a Parquet file or folder.
        method: the id of a method that can go through rows one by one; others say why not.
        progress: called with the name of the step and the share done.
        **options: the options below, and the parameters of the method.
    """
    asked, params = Protect.split({**options, "method": method})
    for name in asked.changed(NOT_ON_SPARK):
        raise ParameterError(f"{name}: does not go with Spark", "leave it out, or use protect")
    return protect_on_spark(data, asked, params, progress or (lambda *_: None))


def protect_on_spark(data: Any, options: Protect, params: Mapping[str, Any], tell: Progress) -> Release:
    """Protect a table on Spark as the options say, with the parameters of the method."""
    from microveil.engines.spark import protecting as spark
    from microveil.engines.spark.frames import SparkSource
    from microveil.engines.spark.survey import rules_that_hold, share_unique, survey_spark

    seed = checks.checked_seed(options.seed)
    plan = method_named(options.method).plan(params)
    checks.check_streams(plan, options.rules, "spark")
    key = secret_key(options.secret)
    for name in ("public", "weight") if plan.arranges else ():
        if getattr(options, name) is not None:
            raise ParameterError(
                f"{name}: {plan.method} exchanges values on Spark without regard to it",
                "use pca or ipso, or protect_file with engine='stream'",
            )
    source = SparkSource.opened(data)
    tell("looking at the columns", 0.0)
    head = survey_spark(source)
    chosen = remote_columns(head, options, plan, partial(rules_that_hold, source))
    roles, treatment = chosen.roles, chosen.treatment
    unique = share_unique(source, chosen.in_clear)
    source = replace(
        source,
        chosen=chosen.names,
        times=chosen.times,
        renumbered=treatment.renumbered,
        from_dates=chosen.from_dates,
        takes_gaps=plan.arranges,
    )
    mostly = check_not_derivable(source, roles.confidential, chosen.rules, roles.labels)
    names = source.names
    sensitive = [names[name] if isinstance(name, int) else name for name in plan.select.sensitive_columns]
    fits = partial(checks.check_fits, plan)
    asked: dict[str, Any] = {"rules": chosen.rules, "seed": seed, "secret": key, "sensitive": sensitive}
    asked |= {"draws": partial(_draws, plan), "came_back": returned_records}
    found = spark.protect_spark(plan, source, roles, spark.SparkRequest(**asked, check=fits, progress=tell))
    # The diagnosis is made on the rows that are shown; what it says of all rows has been measured on all of them.
    table = found.intake.table
    written, own = found.written, table.labels
    levels: Any = own.levels
    labels = replace(own, codes=tuple(written.labels[0].astype(np.intp)))
    rows = Microdata(Matrix(list(written.before)), table.names, table.public, written.weights, labels=labels)
    outcome = outcome_of(plan, found.intake, found.outcome, written)
    missing = {table.names[j] for j in found.intake.profile.missing()}
    cells = dict(zip(table.confidential_names, written.before[table.public :], strict=True))
    holes = {name: np.isnan(of) if name in missing else None for name, of in cells.items()}
    seen = replace(found.intake, table=rows, holes=holes)
    done = EngineRun(plan, head, roles, seen, replace(outcome, columns=list(written.after)))
    options = options.model_copy(update={"engine": "spark"})
    shown = [
        {n: pl.Series(n, of.take(codes.astype(np.int64))) for n, of, codes in zip(own.names, levels, side, strict=True)}
        for side in written.labels
    ]
    release = remote_release(done, table, written, found.data, options, found.seed, (shown[0], shown[1]))
    tell("done", 1.0)
    leakage = diagnostics.leakage(replace(done, intake=found.intake, outcome=outcome))
    release = replace(release, rows=table.count, leakage=leakage, forget=found.close)
    remarks = [checks.NO_EFFECT] if options.drop_identifiers else []
    remarks += about_missing_numbers(head, treatment.renumbered)
    remarks += [found.outcome.remark] if found.outcome.remark else []
    if plan.arranges and missing:
        within = "; on Spark, rows trade with those only that a worker has at once"
        remarks.append(about_gaps(len(missing), WENT + within))
    if written.after.shape[1] == table.count:  # all rows were shown
        before = written.before[table.public :]
        moved = outcome.perturbed
        remarks += giveaways([before[j] for j in moved], [written.after[j] for j in moved], exact=plan.exact)
    return with_columns_said(release, chosen, unique, [*mostly, *remarks])


def _draws(plan: Plan, count: int) -> int:
    """How often a table of so many rows is drawn at most, as in memory: records of larger ones do not meet again."""
    return 1 if count > MOST_ROWS else most_draws(plan, count)


def write_dataset(release: Release, output: Path) -> None:
    """Write a release on Spark as a folder of Parquet files, which appears when it is complete."""
    from microveil.engines.spark.frames import write_dataset as write

    write(release.data, str(output))
