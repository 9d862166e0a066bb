"""Files that are larger than the memory: the wiring of the streaming engine.

A file is protected into another without ever being held: read once onto a disk, protected there, and written batch by
batch. What is shown of it in reports comes from a sample of its rows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from microveil import api
from microveil.assessment import measuring, measuring_blocks
from microveil.assessment.assessment import Assessment
from microveil.assessment.policy import Policy
from microveil.core.errors import FileError, MicroveilError, ParameterError
from microveil.core.rng import ROWS_PER_BLOCK, Streams
from microveil.core.table import Matrix, Microdata
from microveil.core.threads import single_threaded_blas
from microveil.engines import Outcome, Progress
from microveil.engines.disk import DiskTable
from microveil.engines.disk_marginals import with_marginals
from microveil.engines.distributions import Restored
from microveil.engines.out_of_core import (
    MadeRows,
    RemoteOutcome,
    StoredColumns,
    check_eligible,
    run_out_of_core,
    shown_rows,
)
from microveil.engines.set_aside import altered_variance
from microveil.engines.stream import FileSource, Written, write_blocks
from microveil.intake.derivable import check_not_derivable
from microveil.intake.intake import Intake, Rules, take_in
from microveil.intake.roles import Choice, ColumnId, resolve_roles
from microveil.io.blocks import open_blocks
from microveil.io.files.formats import ReadOptions
from microveil.io.files.formula_injection import formulas_counted, formulas_kept
from microveil.io.frames.dataframes import open_frame
from microveil.methods import DEFAULT_METHOD, METHODS, Plan, method_named
from microveil.release import diagnostics as account
from microveil.release.register import Register
from microveil.release.release import Release
from microveil.release.secret import secret_key
from microveil.storage.atomic import atomic_target, check_new, shown
from microveil.storage.disk_columns import BYTES, Shelf, memory_in_bytes, temporary_folder

if TYPE_CHECKING:
    import polars as pl

MEMORY = "1GB"

HELD = 12
"""Copies of a table that a run in memory may take, with those of the libraries that read and write it."""


def protect_file(
    source: str | Path,
    output: str | Path,
    method: str = DEFAULT_METHOD,
    *,
    confidential: Choice = None,
    public: Choice = None,
    weight: ColumnId | None = None,
    seed: int | None = None,
    secret: str | Path | None = None,
    register: str | Path | None = None,
    rules: Rules = "infer",
    memory: int | str = MEMORY,
    overwrite: bool = False,
    progress: Progress | None = None,
    **params: Any,
) -> Release:
    """Protect a file that may be larger than the memory, into another of the same kind.

    The release is the same as that of `protect` with the same seed, to the last bit. `release.data` is the path of the
    output, and `release.sample` has some of the rows, before and after.

    Args:
        source: a Parquet or CSV file.
        output: the file to write; it appears when it is complete.
        method: the id of a method that can go through rows block by block; others say so.
        confidential: columns to protect; by default all numeric columns.
        public: columns of numbers that stay as they are and are regressed on.
        weight: the column of survey weights.
        seed: a whole number for a result that can be repeated. Keep it secret.
        secret: a file for its owner only that salts the seed, made if it is not there.
        register: a private file of releases, made if it is not there; a warning tells if nearly the same data were
            released before, and this release is added.
        rules: as for `protect`; a dictionary of the columns may declare sums.
        memory: how much memory to take, about: "1GB".
        overwrite: whether an output that exists is replaced.
        progress: called with the name of the step and the share done.
        **params: the method's parameters.
    """
    target = Path(output)
    check_new(target, overwrite=overwrite)
    noted = noted_file(register, method, Path(source))
    with atomic_target(target) as temporary:
        release = stream_file(
            Path(source),
            target,
            method,
            into=temporary,
            confidential=confidential,
            public=public,
            weight=weight,
            seed=seed,
            secret=secret,
            rules=rules,
            memory=memory,
            progress=progress,
            **params,
        )
    return noted.kept(release)


def noted_file(register: str | Path | None, method: str, source: Path, reading: ReadOptions | None = None) -> api.Noted:
    """What a register is told of a file, which is read for it once more."""
    opened = Register.opened(register)
    if opened is None:
        return api.Noted()
    with closing(open_blocks(source, reading)) as file:
        names = [name for name in file.names if file.is_numeric(name)]
        batches = file.batches(names, ROWS_PER_BLOCK) if names else iter(())
        pieces = ({name: file.numbers(name, batch.column(name))[0] for name in names} for batch in batches)
        return api.Noted(opened, opened.entry(method, pieces))


def stream_file(
    source: Path,
    target: Path,
    method: str,
    *,
    into: Path,
    confidential: Choice,
    public: Choice,
    weight: ColumnId | None,
    seed: int | None,
    secret: str | Path | None = None,
    rules: Rules,
    memory: int | str,
    progress: Progress | None,
    reading: ReadOptions | None = None,
    formulas: bool = False,
    **params: Any,
) -> Release:
    """The same, into the caller's temporary file, which is going to take the place of the target.

    `formulas` says to leave text as it is that a spreadsheet would take for a formula.
    """
    api.check_seed(seed)
    plan = method_named(method).plan(params)
    check_streams(plan, rules)
    key = secret_key(secret)
    size, tell = memory_in_bytes(memory), progress or (lambda *_: None)
    _check_kind(source, target)
    with (
        single_threaded_blas(),
        closing(open_blocks(source, reading)) as file,
        Shelf(temporary_folder(target), size) as shelf,
    ):
        head = open_frame(file.head())
        numeric = {name: file.is_numeric(name) for name in file.names}
        roles = resolve_roles(numeric, confidential=confidential, public=public, strata=None, weight=weight)
        if confidential is None:
            api.check_nothing_slips_through(head)
            api.check_no_hidden_numbers(file, roles.shown)
        columns = FileSource(file, shelf, tell)
        intake = take_in(columns, roles, rules, tell)
        mostly = check_not_derivable(columns, roles.confidential, rules)
        api.check_fits(plan, intake)
        streams = Streams.from_seed(None if seed is None else int(seed), intake.profile.fingerprint, key)
        sensitive = api.sensitive_columns(plan, file.names, intake)
        found = _protected(plan, intake, sensitive, streams, tell)
        keeping = formulas_kept() if formulas else nullcontext()
        with into.open("wb") as out, keeping, formulas_counted() as counted:
            written = write_blocks(columns, intake, found, shown_rows(streams, intake.table.count), out)
        if confidential is None:
            _check_words(written)
        outcome = outcome_of(plan, intake, found, written)
        settings = api.settings_of(plan, roles, rules, "stream", secret)
        before, after = _shown(intake.table, written)
        writer = api.reporter_of(plan, before, intake, outcome)
        about = (intake, outcome, written.proof, settings, streams.seed, target, writer)
        release = api.told(plan, head, roles, *about, rounded=written.rounded)
        remarks = [*mostly, *api.about_decimals(head, roles.confidential), *([found.remark] if found.remark else [])]
        remarks += api.about_notes(file.has_notes, keep_notes=False)
        if target.suffix.lower() in api.SPREADSHEETS:
            remarks += api.told_formulas(sum(counted), file.names, formulas=formulas)
    tell("done", 1.0)
    return replace(release, sample=(before, after), warnings=[*release.warnings, *remarks])


def protect_spark(
    data: Any,
    method: str = DEFAULT_METHOD,
    *,
    confidential: Choice = None,
    public: Choice = None,
    weight: ColumnId | None = None,
    seed: int | None = None,
    secret: str | Path | None = None,
    rules: Rules = "infer",
    progress: Progress | None = None,
    **params: Any,
) -> Release:
    """Protect a table on Spark: a DataFrame, or a Parquet file or folder that Spark can read.

    The release is the same as that of `protect` with the same seed, up to the last digits. `release.data` is a Spark
    DataFrame with the columns of the data; its rows are made when they are asked for, and never come to the driver.
    `release.close()` gives the workers' disks back when they have been written.

    Args:
        data: a Spark DataFrame, or the path of a Parquet file or folder.
        method: the id of a method that can go through rows one by one; others say so.
        confidential: columns to protect; by default all numeric columns.
        public: columns of numbers that stay as they are and are regressed on.
        weight: the column of survey weights.
        seed: a whole number for a result that can be repeated. Keep it secret.
        secret: a file for its owner only that salts the seed, made if it is not there.
        rules: as for `protect`; a dictionary of the columns may declare sums.
        progress: called with the name of the step and the share done.
        **params: the method's parameters.
    """
    from microveil.engines.spark import engine as spark
    from microveil.engines.spark.frames import SparkSource

    api.check_seed(seed)
    plan = method_named(method).plan(params)
    check_streams(plan, rules, "spark")
    key = secret_key(secret)
    source = SparkSource.opened(data)
    roles = resolve_roles(source.numeric, confidential=confidential, public=public, strata=None, weight=weight)
    if confidential is None:
        head = open_frame(source.head())
        api.check_nothing_slips_through(head)
        api.check_no_hidden_numbers(head, roles.shown)
    mostly = check_not_derivable(source, roles.confidential, rules)
    names = source.names
    sensitive = [names[name] if isinstance(name, int) else name for name in plan.select.sensitive_columns]
    tell = progress or (lambda *_: None)
    fits = partial(api.check_fits, plan)
    request = spark.SparkRequest(rules=rules, seed=seed, secret=key, sensitive=sensitive, check=fits, progress=tell)
    found = spark.protect_spark(plan, source, roles, request)
    # The account is taken on the rows that are shown; what it says of all rows has been measured on all of them.
    before, after = _shown(found.intake.table, found.written)
    table = found.intake.table
    rows = Microdata(Matrix(list(found.written.before)), table.names, table.public, found.written.weights)
    seen = replace(found.intake, table=rows)
    outcome = outcome_of(plan, found.intake, found.outcome, found.written)
    outcome = replace(outcome, columns=list(found.written.after))
    settings = api.settings_of(plan, roles, rules, "spark", secret)
    writer = api.reporter_of(plan, before, seen, outcome)
    about = (seen, outcome, found.written.proof, settings, found.seed, found.data, writer)
    release = api.told(plan, open_frame(source.head()), roles, *about, rounded=found.written.rounded)
    tell("done", 1.0)
    leakage = account.leakage(plan, found.intake, outcome)
    release = replace(release, warnings=[*release.warnings, *mostly])
    return replace(release, rows=table.count, leakage=leakage, sample=(before, after), forget=found.close)


def write_dataset(release: Release, output: Path) -> None:
    """Write a release on Spark as a folder of Parquet files, which appears when it is complete."""
    from microveil.engines.spark.frames import write_dataset as write

    write(release.data, str(output))


def assess_files(
    original: str | Path,
    released: str | Path,
    *,
    policy: Policy | Mapping[str, Any] | str | Path | None = None,
    measures: str | Sequence[str] = "default",
    seed: int | None = None,
    **options: Any,
) -> Assessment:
    """`assess` for files that may be larger than the memory.

    Measures that are sums over rows, or need columns in order, are exact; linkages try a sample of originals against
    all released records; what can only be had from a sample of rows says so, and what cannot be had is skipped with
    the reason. The options are `confidential`, `public`, `rules`, `sensitive`, `sanity` and `progress`, as for
    `assess`, `memory` ("1GB"), `sample` (the originals that linkages try) and `reading`.
    """
    api.check_seed(seed)
    limits = policy if policy is None or isinstance(policy, Policy) else api.read_policy(policy)
    ids = measuring.chosen(measures, also=limits.measures if limits else ())
    with single_threaded_blas():
        found = measuring_blocks.assess_files(original, released, measures=ids, seed=seed, **options)
    return found if limits is None else replace(found, verdict=limits.check(found))


def check_streams(plan: Plan, rules: Rules, engine: str = "stream") -> None:
    """Refuse what needs all rows at once."""
    check_eligible(plan, engine)
    if rules is not None and rules != "none" and not plan.promises_moments:
        exact = "" if "exact" in METHODS[plan.method].fixed else "exact=True (--set exact=true), "
        raise ParameterError(
            f"engine: '{engine}' cannot run {plan.method} with rules: values that a column cannot have are looked for "
            "in whole columns",
            f"use rules='none' (--rules none), {exact}or engine='memory' (--engine memory)",
        )


def of_sample(release: Release) -> tuple[Any, Release]:
    """The rows that are kept of a file, and the release of these alone."""
    if release.sample is None:
        raise TypeError("a release in memory is there whole")
    before, after = release.sample
    return before, replace(release, data=after, rows=after.height, sample=None)


def engine_for(
    path: Path, method: str, parameters: Mapping[str, Any], rules: Rules, reading: ReadOptions | None = None
) -> str:
    """The engine that `auto` stands for: streaming where the table would not fit into the memory."""
    try:
        check_streams(method_named(method).plan(parameters), rules)
        with closing(open_blocks(path, reading)) as file:
            cells = file.count * len(file.names)
    except MicroveilError:
        return "memory"
    return "stream" if cells * BYTES * HELD > _free_memory() else "memory"


def _free_memory() -> int:
    """Bytes that are free; a machine that does not tell is taken for one with 8 GB."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 8 * 10**9


def _check_kind(source: Path, target: Path) -> None:
    if source.suffix.lower() != target.suffix.lower():
        raise FileError(
            f"{shown(target)} is not of the kind of {shown(source)}, and blocks are written as they are read",
            f"name it ...{source.suffix}, or use engine='memory'",
        )


def _protected(plan: Plan, intake: Intake, sensitive: list[int], streams: Streams, tell: Progress) -> RemoteOutcome:
    """What to make of the rows."""
    table = intake.table
    if not isinstance(table, DiskTable):
        raise TypeError("rows in blocks go onto a disk")
    tell("looking for rules", 0.18)
    found = run_out_of_core(
        plan, table, intake.profile, streams, sensitive=sensitive, known=intake.known, progress=tell
    )
    return with_marginals(plan.marginals, table, found, streams, tell) if plan.maps_values else found


def _check_words(written: Written) -> None:
    """Columns of text by cells from all over the file; the beginning has been seen before the work."""
    import pyarrow as pa

    if written.words:
        api.check_nothing_slips_through(open_frame(pa.Table.from_batches(written.words)))


def _shown(table: Microdata, written: Written) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of the sample, before and after."""
    import polars as pl

    after = np.vstack([written.before[: table.public], written.after])
    first, second = (pl.DataFrame(dict(zip(table.names, cells, strict=True))) for cells in (written.before, after))
    return first, second


def outcome_of(plan: Plan, intake: Intake, found: RemoteOutcome, written: Written) -> Outcome:
    """What happened on the way, as of a table in memory; the released columns are made again where they are needed."""
    table, spectrum, dependence = intake.table, found.spectrum, found.dependence
    width = len(table.confidential_names)
    columns = list(MadeRows(found.table, found.released).columns(width))
    mapped = isinstance(found.released.perturbed, StoredColumns) and plan.maps_values
    return Outcome(
        columns=columns,
        perturbed=dependence.independent,
        rules=dependence.rules,
        spectrum=spectrum,
        altered=altered_variance(spectrum, dependence, width) * table.count,
        variance=intake.profile.moments.variance[table.public :] * table.count,
        leverage=spectrum.leverage,
        untouched=spectrum.untouched,
        single=spectrum.axes.count == 1,
        restored=Restored(columns, None) if mapped else None,
        odd=written.odd,
        shown=(Matrix(list(written.before[table.public :])), Matrix(list(written.after))),
    )
