"""Protecting a file that may be larger than the memory.

It is read once onto a disk, protected there, and written batch by batch. Reports show a sample of its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.errors import FileError
from microveil.core.late import pl
from microveil.core.rng import Streams
from microveil.core.table import Matrix, Microdata
from microveil.core.threads import single_threaded_blas
from microveil.engines import Outcome, Progress, block_writing, stream
from microveil.engines.block_writing import OtherColumns, Written
from microveil.engines.out_of_core import (
    Released,
    RemoteOutcome,
    made_columns,
    run_out_of_core,
    shown_rows,
    stored_columns,
)
from microveil.engines.release_check import evidence
from microveil.engines.renumbering import numbered_anew
from microveil.engines.restoring import Restored
from microveil.engines.set_aside import altered_variance
from microveil.engines.survey import survey_blocks
from microveil.intake.derivable import check_not_derivable
from microveil.intake.from_dates import DateRule, as_days
from microveil.intake.intake import Intake, take_in
from microveil.io.blocks import BlockSource
from microveil.io.files.formats import ReadOptions
from microveil.io.files.formula_injection import SPREADSHEETS, about_formulas, formulas_counted, formulas_kept
from microveil.io.frames.times import TimeForm
from microveil.io.tables import open_blocks
from microveil.methods import Plan, method_named
from microveil.options import Protect, ProtectFile
from microveil.protection import checks
from microveil.protection.building import about_decimals, about_notes, build_release, settings_of
from microveil.protection.columns import about_missing_numbers, remote_columns, with_columns_said
from microveil.protection.in_memory import drawn, with_all_labels
from microveil.protection.trading import Trade
from microveil.release.diagnostics import EngineRun
from microveil.release.release import Release
from microveil.release.remarks import is_whole
from microveil.release.returned import giveaways
from microveil.release.secret import secret_key
from microveil.rules.linear_rules import Dependence
from microveil.storage.atomic import shown
from microveil.storage.disk_columns import Shelf, memory_in_bytes, temporary_folder


def protect_blocks(
    source: Path, target: Path, into: Path, options: ProtectFile, params: Mapping[str, Any], tell: Progress
) -> Release:
    """Protect a file into another of the same kind.

    Args:
        source: a Parquet or CSV file.
        target: where the release goes, of the same kind.
        into: the caller's temporary file, which is going to take the place of the target.
        options: how it is read and protected.
        params: the parameters of the method.
        tell: called with the name of the step and the share done.
    """
    seed = checks.checked_seed(options.seed)
    plan = method_named(options.method).plan(params)
    checks.check_streams(plan, options.rules)
    key = secret_key(options.secret)
    size = memory_in_bytes(options.memory)
    _check_kind(source, target)
    with (
        single_threaded_blas(),
        closing(open_blocks(source, ReadOptions.of(options))) as file,
        Shelf(temporary_folder(target), size) as shelf,
    ):
        rows = stream.batch_rows(len(file.names), size)
        tell("looking at the columns", 0.0)
        head = survey_blocks(file, shelf, rows)
        chosen = remote_columns(head, options, plan, partial(_rules_that_hold, file, rows), file.broken)
        roles, treatment = chosen.roles, chosen.treatment
        numbered = treatment.renumbered
        file = file.only(chosen.names, chosen.times)
        read = file.only([n for n in chosen.read if n not in numbered], chosen.times)
        pull_in = plan.needs_columns and not plan.exact
        columns = stream.FileSource(read, shelf, tell, pull_in, whole_columns=plan.needs_columns)
        intake = take_in(columns, roles, chosen.rules, tell)
        mostly = check_not_derivable(columns, roles.confidential, chosen.rules)
        checks.check_fits(plan, intake)
        streams = Streams.from_seed(seed, intake.profile.fingerprint, key)
        anew = {name: numbered_anew(file, name, streams, shelf, rows) for name in numbered}
        others = OtherColumns(chosen.in_clear, anew, chosen.from_dates)
        if plan.needs_columns:
            intake = replace(intake, table=replace(intake.table, rows_trade=True))
            outcome = drawn(plan, chosen.read, intake, streams, tell)
            intake, outcome = with_all_labels(intake, outcome, roles.labels, streams)
            trade = Trade.of_rows(intake.table, streams.stream("places")) if intake.gaps and plan.arranges else None
            if trade is not None:
                outcome = outcome.traded(trade.places, intake.table.values.put_aside)
                mostly += trade.remarks(intake.gaps)
            found, others = _stored(intake, outcome, columns, others, trade)
        else:
            sensitive = checks.sensitive_columns(plan, chosen.read, intake)
            found = _protected(plan, intake, sensitive, streams, tell)
        keeping = formulas_kept() if options.keep_formulas else nullcontext()
        with into.open("wb") as out, keeping, formulas_counted() as counted:
            shown = shown_rows(streams, intake.table.count)
            written = block_writing.write_blocks(replace(columns, opened=file), intake, found, others, shown, out)
        if plan.needs_columns:
            outcome, written = _seen(intake, outcome, written)
            mostly += giveaways(*_perturbed(intake, outcome), exact=plan.exact)
        else:
            outcome = outcome_of(plan, intake, found, written)
        done = EngineRun(plan, head, roles, intake, outcome)
        options = options.model_copy(update={"engine": "stream"})
        labels = _labels_of(intake, others, shown)
        release = remote_release(done, intake.table, written, target, options, streams.seed, labels)
        remarks = [*mostly, *about_decimals(head, roles.confidential), *([found.remark] if found.remark else [])]
        remarks += [*file.findings, *([checks.NO_EFFECT] if options.drop_identifiers else [])]
        remarks += [*about_notes(file.has_notes, keep_notes=False), *about_missing_numbers(head, numbered)]
        if target.suffix.lower() in SPREADSHEETS:
            remarks += about_formulas(sum(counted), file.names, kept=options.keep_formulas)
    tell("done", 1.0)
    return with_columns_said(release, chosen, written.unique, remarks)


def _rules_that_hold(
    file: BlockSource, rows: int, rules: Sequence[DateRule], forms: Mapping[str, TimeForm]
) -> list[DateRule]:
    """Those of some `rules` between dates, which have these `forms`, and other columns that hold in all rows."""
    left = list(rules)
    names = dict.fromkeys(name for rule in rules for name in (rule.column, *rule.dates))
    opened = file.only(list(names), forms)
    for batch in opened.batches(list(names), rows):
        cells = {name: opened.numbers(name, batch.column(name))[0] for name in names}
        days = {name: as_days(form, cells[name]) for name, form in forms.items() if name in cells}
        left = [rule for rule in left if rule.holds(days.__getitem__, cells[rule.column])]
    return left


def _check_kind(source: Path, target: Path) -> None:
    if source.suffix.lower() != target.suffix.lower():
        raise FileError(
            f"{shown(target)} is not of the kind of {shown(source)}, and blocks are written as they are read",
            f"name it ...{source.suffix}, or use engine='memory'",
        )


def _protected(plan: Plan, intake: Intake, sensitive: list[int], streams: Streams, tell: Progress) -> RemoteOutcome:
    """What to make of the rows; `sensitive` are columns by number."""
    table = intake.table
    if not isinstance(table, stream.DiskTable):
        raise TypeError("rows in blocks go onto a disk")
    tell("looking for rules", 0.18)
    found = run_out_of_core(
        plan, table, intake.profile, streams, sensitive=sensitive, known=intake.known, progress=tell
    )
    return stream.with_marginals(plan.marginals, table, found, streams, tell) if plan.maps_values else found


def _stored(
    intake: Intake, outcome: Outcome, source: stream.FileSource, others: OtherColumns, trade: Trade | None
) -> tuple[RemoteOutcome, OtherColumns]:
    """Released columns that are on the disk, to be written as they are; and labels, holes and whole numbers.

    Args:
        intake: the table as it was taken in.
        outcome: what came of it.
        source: the file.
        others: the columns that are not protected.
        trade: of the rows, if they traded their protected cells.
    """
    table, file = intake.table, source.opened
    if not isinstance(table, stream.DiskTable):
        raise TypeError("rows in blocks go onto a disk")
    width = len(table.confidential_names)
    rows = partial(stored_columns, len(table.names), width)
    columns = table.with_columns(outcome.columns)
    released = Released(rows, None, None, range(width), (), {}, stored=True)
    names = table.labels.names
    cells = source.cells_of_labels(names, dict(zip(names, table.labels.codes, strict=True)))
    whole = [
        name
        for name, column in zip(table.confidential_names, outcome.columns, strict=True)
        if name not in file.times and file.is_integer(name) and is_whole(column)
    ]
    others = replace(
        others,
        labels={name: (cells[name], codes) for name, codes in zip(names, outcome.labels, strict=True)},
        holes=list(intake.gaps),
        codes=_codes_of_rows(intake, source, trade),
        whole=whole,
    )
    return RemoteOutcome(columns, released, Dependence([]), outcome.spectrum), others


def _codes_of_rows(
    intake: Intake, source: stream.FileSource, trade: Trade | None
) -> dict[str, tuple[Array, NDArray[np.uint8]]]:
    """For columns that have special codes: NaN and the codes, and which of these each released row has."""
    which = {name: np.empty(intake.table.count, np.uint8) for name in intake.codes}
    start = 0
    for cells in source.number_batches(list(which)) if which else ():
        for name, numbers in cells.items():
            which[name][start : start + numbers.size] = sum(
                (numbers == code) * number for number, code in enumerate(intake.codes[name], 1)
            )
        start += numbers.size
    return {
        name: (np.array([np.nan, *intake.codes[name]]), rows if trade is None else rows[trade.places])
        for name, rows in which.items()
    }


def _seen(intake: Intake, outcome: Outcome, written: Written) -> tuple[Outcome, Written]:
    """What was found, with the columns that figures are taken from: all rows, on the disk."""
    table = intake.table
    if intake.present is not None:
        written = replace(written, proof=evidence(table, outcome.columns, intake.present, intake.profile.moments))
    shown = table.confidential, table.confidential.with_columns(outcome.columns)
    return replace(outcome, odd=written.odd, shown=shown), written


def _perturbed(intake: Intake, outcome: Outcome) -> tuple[list[Array], list[Array]]:
    """The perturbed columns, before and after; none that follow from others."""
    own = intake.table.confidential.columns
    return [own[j] for j in outcome.on_their_own], [outcome.columns[j] for j in outcome.on_their_own]


def _labels_of(
    intake: Intake, others: OtherColumns, rows: NDArray[np.intp]
) -> tuple[dict[str, pl.Series], dict[str, pl.Series]]:
    """Labels of some rows, before and after, where labels were exchanged."""
    own = dict(zip(intake.table.labels.names, intake.table.labels.codes, strict=True))
    both: tuple[dict[str, pl.Series], dict[str, pl.Series]] = {}, {}
    for name, (cells, codes) in others.labels.items():
        for column, of in zip(both, (own[name], codes), strict=True):
            column[name] = pl.Series(name, cells.take(np.asarray(of[:])[rows].astype(np.int64)))
    return both


def remote_release(
    run: EngineRun,
    table: Microdata,
    written: Written,
    data: Any,
    options: Protect,
    seed: int,
    labels: tuple[Mapping[str, pl.Series], Mapping[str, pl.Series]] = ({}, {}),
) -> Release:
    """The release of rows that are elsewhere, with a sample of them before and after, which its reports show.

    Args:
        run: the plan, what came in and what the engine made of it.
        table: the whole table.
        written: what was measured, and kept of the sample, while rows were written.
        data: where the release is.
        options: those of the call.
        seed: the master seed.
        labels: those of the sample, before and after.
    """
    after = np.vstack([written.before[: table.public], written.after])
    first, second = (
        pl.DataFrame({**dict(zip(table.names, cells, strict=True)), **own})
        for cells, own in zip((written.before, after), labels, strict=True)
    )
    settings = settings_of(run.plan, run.roles, options)
    release = build_release(
        run, written.proof, data, settings=settings, seed=seed, original=first, rounded=written.rounded
    )
    return replace(release, sample=(first, second))


def outcome_of(plan: Plan, intake: Intake, found: RemoteOutcome, written: Written) -> Outcome:
    """What happened on the way, as of a table in memory; the released columns are made again where they are needed."""
    table, spectrum, dependence = intake.table, found.spectrum, found.dependence
    width = len(table.confidential_names)
    columns = made_columns(found.table, found.released, width)
    mapped = found.released.stored and plan.maps_values
    return Outcome(
        columns=columns,
        perturbed=dependence.independent,
        rules=dependence.rules,
        spectrum=spectrum,
        altered=altered_variance(spectrum, dependence, width) * table.count,
        variance=(found.filled or intake.profile.moments).variance[table.public :] * table.count,
        leverage=spectrum.leverage,
        untouched=spectrum.untouched,
        single=spectrum.axes.count == 1,
        restored=Restored(columns, found.settled) if mapped else None,
        labels=tuple(written.labels[1].astype(np.intp)),
        label_errors=written.label_errors,
        odd=written.odd,
        shown=(Matrix(list(written.before[table.public :])), Matrix(list(written.after))),
    )
