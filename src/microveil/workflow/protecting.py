"""Protecting a file: engine, policy, measures, everything or nothing."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from microveil.assess import assess_release, held_rows, quick_risk, read_policy
from microveil.assessment import measuring
from microveil.core.errors import DataError, MicroveilError, ParameterError, PolicyNotMet
from microveil.io.files.formats import FileFormat
from microveil.io.files.formula_injection import SPREADSHEETS, about_formulas, formula_cells
from microveil.io.frames.dataframes import open_frame
from microveil.io.locations import Place, file_of, own_file, place_from
from microveil.io.tables import check_target, open_blocks, without_looking
from microveil.methods import method_named
from microveil.options import DEFAULT_METHOD, MEMORY, Protect, ProtectFile, declared_by
from microveil.protection import checks
from microveil.protection.building import about_notes
from microveil.protection.in_blocks import protect_blocks
from microveil.protection.in_memory import READING, protect_table
from microveil.protection.on_spark import protect_on_spark, write_dataset
from microveil.protection.privately import check_private_file
from microveil.release.registry import Registry
from microveil.release.release import Release
from microveil.report.reporter import pair_of
from microveil.storage.atomic import atomic_targets
from microveil.storage.disk_columns import BYTES
from microveil.workflow.job import Face, Job, Measured, ProtectedFile, Tell, check_targets
from microveil.workflow.writing import write_all, write_extras

HELD = 12
"""Copies of a table that a run in memory may take, with those of the libraries that read and write it."""


@declared_by(ProtectFile)
def protect_file(
    source: Any, output: Any, method: str = DEFAULT_METHOD, *, progress: Tell | None = None, **options: Any
) -> Release:
    """Protect a file or a table of a database, into another; all that `microveil protect` does.

    Everything asked for is written, or nothing is. `release.data` is where the output is; `release.sample` has the
    rows before and after, some of them where the file was streamed.

    Args:
        source: a file, or the table of a database.
        output: where the protected file or table goes; it appears when it is complete.
        method: the id of a method; `methods()` lists them.
        progress: called with the name of the step and the share done.
        **options: the options below, and the parameters of the method. With a policy that is not met, nothing is
            written and PolicyNotMet is raised.
    """
    job = Job(place_from(source), place_from(output), *ProtectFile.split({**options, "method": method}))
    return _finished(job, protect(job, Face(progress or (lambda *_: None))))


def _finished(job: Job, found: ProtectedFile) -> Release:
    """The release of a finished job, whose table is where it was written."""
    if found.broken is not None:
        raise PolicyNotMet(f"{found.broken}; nothing was written", "change the method or its parameters")
    if found.original is None:
        return found.release
    original = None if found.release.ledger is not None else found.original  # no part of what is promised about
    return replace(found.release, data=_where(job.output), sample=(original, found.release.data))


def protect(job: Job, face: Face) -> ProtectedFile:
    """Protect a file; either everything asked for is written, or nothing is."""
    if job.options.epsilon is not None:
        check_private_file(job.options)
    read_policy(job.options.policy)
    check_targets(job)
    engine = _engine(job)
    if engine in ("stream", "spark"):
        return _protect_elsewhere(job, engine, face)
    private = job.options.epsilon is not None
    frame, file_format = face.read(job.source, without_looking(job.source, job.reading) if private else job.reading)
    options = job.options
    check_target(job.output, frame=frame.head(0) if private else frame, replacing=options.overwrite)
    opened = open_frame(frame)
    registry = Registry.of_table(options.registry, options.method, opened)
    alone = Protect(**{**options.only(Protect), "registry": None})
    release = registry.warned(protect_table(opened, alone, job.params, _beginning(face, opened)))
    if release.ledger is not None:  # how the file was written, and what was found on reading it, stays secret
        measured, file_format = Measured(None, None), FileFormat(file_format.name)
        files = write_all(job, release, file_format, measured, registry, face)
        return ProtectedFile(release, None, None, files, "", frame)
    formulas = _about_formulas(release, job.output, kept=options.keep_formulas)
    left_out = about_notes(bool(file_format.notes), keep_notes=options.keep_notes)
    read = file_format.findings
    release = replace(release, warnings=[*job.notes, *read, *release.warnings, *formulas, *left_out])
    measured = _measured(job, release, face)
    written: list[Any] = []
    if measured.met:
        face.progress("writing", None)
        written = write_all(job, release, file_format, measured, registry, face)
    return ProtectedFile(release, measured.risk, measured.assessment, written, file_format.description, frame)


def _where(place: Place) -> Any:
    """Where an output is, for the release."""
    return place if isinstance(place, Path) else str(place)


def _beginning(face: Face, frame: Any) -> Tell:
    """Progress that calls `began` when all has been checked and the work is about to begin."""
    begun = False

    def tell(step: str, share: float | None) -> None:
        nonlocal begun
        face.progress(step, share)
        if step != READING and not begun:
            begun = True
            face.began(frame)

    return tell


def _measured(job: Job, release: Release, face: Face) -> Measured:
    """The figures that the policy, the reports and the terminal need, each measured once."""
    options, judged, reported, remark = job.options, None, None, ""
    if options.policy is not None:
        policy = {"policy": options.policy, "sanity": False}
        judged = assess_release(release, measures=(), progress=face.progress, **policy)
    if (options.report or options.public_report) and (judged is None or judged.met):
        known = {} if judged is None else judged.figures
        try:
            ids, remark = measuring.for_report(pair_of(release)[0], public_only=options.report is None)
            reported = assess_release(release, known=known, measures=ids, policy=options.policy, progress=face.progress)
        except DataError as error:  # a report without figures is still a report
            remark = f"Nothing was measured: {error.problem}."
    risk = None
    if face.quick_risk and (release.dose or release.labels):
        face.progress("linking records", None)
        measured = reported or judged
        risk = quick_risk(release, {} if measured is None else measured.figures)
    return Measured(judged, risk, reported, remark)


def _about_formulas(release: Release, target: Place, *, kept: bool) -> list[str]:
    """What a spreadsheet program would do with the text of a release, and what was done about it."""
    file = file_of(target)
    if file is None or file.suffix.lower() not in SPREADSHEETS:
        return []
    return about_formulas(formula_cells(release.data), release.data.columns, kept=kept)


# --- Files that may be larger than the memory


def _engine(job: Job) -> str:
    """The engine that was asked for, or that the size of the file asks for."""
    file, output, options = own_file(job.source), own_file(job.output), job.options
    if options.engine != "auto":
        return options.engine
    if file is None or not file.is_file() or output is None or output.suffix.lower() != file.suffix.lower():
        return "memory"
    if options.changed(checks.NEED_ALL_ROWS):
        return "memory"
    try:
        checks.check_streams(method_named(options.method).plan(job.params), options.rules)
        with closing(open_blocks(file, job.reading)) as blocks:
            cells = blocks.count * len(blocks.names)
    except MicroveilError:
        return "memory"
    return "stream" if cells * BYTES * HELD > _free_memory() else "memory"


def _free_memory() -> int:
    """Bytes that are free; a machine that does not tell is taken for one with 8 GB."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 8 * 10**9


def _protect_elsewhere(job: Job, engine: str, face: Face) -> ProtectedFile:
    """Protect a file in blocks or on Spark; figures of risk come from a sample of its rows."""
    source, output = _in_blocks(job, engine)
    options = job.options
    targets = [*job.extras, *([output] if engine == "stream" else [])]
    with suppress(_Undone), ExitStack() as stack:
        place: dict[Path, Path] = {}
        if targets:
            writing = atomic_targets(targets, face.committing(), job.private)
            place |= zip(targets, stack.enter_context(writing), strict=True)
        registry = Registry.of_file(options.registry, options.method, source, job.reading)
        if engine == "spark":
            release = protect_on_spark(str(source), Protect(**options.only(Protect)), job.params, face.progress)
        else:
            release = protect_blocks(source, output, place[output], options, job.params, face.progress)
        shown = held_rows(release)
        sampled = []
        if shown < release.rows and (face.quick_risk or options.policy or options.report or options.public_report):
            sampled = [f"risk and utility are those of a sample of {shown:,} rows"]
        release = registry.warned(release)
        release = replace(release, warnings=[*job.notes, *release.warnings, *sampled])
        measured = _measured(job, release, face)
        measured = replace(measured, remark=f"{measured.remark} On a sample of rows.".strip())
        written: list[Any] = []
        if measured.met:
            files = {}
            if engine == "stream":
                files = {"original": (source, source.name), "released": (place[output], output.name)}
            write_extras(job, release, place, files, measured, registry)
            if engine == "spark":
                face.progress("writing", None)
                write_dataset(release, output)
            written = [output, *job.extras]
        else:
            raise _Undone
    return ProtectedFile(release, measured.risk, measured.assessment, written)


class _Undone(Exception):  # noqa: N818 - not an error
    """Leaves the block that writes, so that everything is as it was."""


def _in_blocks(job: Job, engine: str) -> tuple[Path, Path]:
    """The files, if nothing was asked for that needs all rows at once."""
    source, output, options = own_file(job.source), own_file(job.output), job.options
    if source is None or output is None:
        raise ParameterError(f"engine: '{engine}' reads and writes files", "use engine='memory' for databases")
    if options.changed(checks.NEED_ALL_ROWS):
        raise ParameterError(
            f"engine: '{engine}' takes no strata, units, kept notes, shuffled rows or epsilon",
            "use engine='memory'",
        )
    unused = job.reading.words[::2] + ["--keep-formulas"] * options.keep_formulas
    unused += ["--memory"] * (options.memory != MEMORY)
    unused += ["--registry"] * (options.registry is not None and engine == "spark")
    if engine == "spark" and unused:
        raise ParameterError(f"engine: 'spark' takes no {unused[0]}", "leave it out: Spark reads Parquet files")
    return source, output
