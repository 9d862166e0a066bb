"""Writing a release with its reports, recipe and registry: everything or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

from microveil.core.errors import ParameterError
from microveil.io.files.formula_injection import formulas_kept
from microveil.io.frames.reorder import format_of_released
from microveil.io.locations import Database, own_file
from microveil.io.tables import pending_table, write_table
from microveil.release import recipe as recipes
from microveil.release.registry import Registry
from microveil.release.release import Release
from microveil.report.reporter import file_identity
from microveil.storage.atomic import atomic_targets
from microveil.workflow.job import Face, Job, Measured


def write_all(
    job: Job, release: Release, file_format: Any, measured: Measured, registry: Registry, face: Face
) -> list[Any]:
    """Write everything asked for, or nothing: a failure leaves what was there as it was.

    Args:
        job: what was asked for.
        release: the release in memory.
        file_format: how the source was written.
        measured: the figures for the reports.
        registry: the registry with this release, if there is one.
        face: entered while the files take their places.
    """
    # The release takes its place last: while it is not there, nothing is.
    options, output, source = job.options, own_file(job.output), own_file(job.source)
    like = format_of_released(file_format, release.order, release.places)
    targets = [*job.extras, *([] if output is None else [output])]
    with ExitStack() as stack:
        if output is None:
            if not isinstance(job.output, Database):
                raise ParameterError("output: is no table of a database", "write it as a file")
            stack.enter_context(pending_table(release.data, job.output, like, replacing=options.overwrite))
        place: dict[Path, Path] = {}
        if targets:
            writing = atomic_targets(targets, face.committing(), job.private)
            place |= zip(targets, stack.enter_context(writing), strict=True)
        files = {} if source is None else {"original": (source, job.source.name)}
        if output is not None:
            with formulas_kept() if options.keep_formulas else nullcontext():
                write_table(release.data, job.output, like, into=place[output], keep_notes=options.keep_notes)
            files["released"] = (place[output], job.output.name)
        write_extras(job, release, place, files, measured, registry)
    return [job.output, *job.extras]


def write_extras(
    job: Job,
    release: Release,
    place: Mapping[Path, Path],
    files: Mapping[str, tuple[Path, str]],
    measured: Measured,
    registry: Registry,
) -> None:
    """The reports, the recipe and the registry, into their temporary files.

    Args:
        job: what was asked for.
        release: the release.
        place: the temporary file of each file.
        files: the file of the original and of the release, and what each is to be called.
        measured: the figures for the reports.
        registry: the registry with this release.
    """
    from microveil.report import twin

    options = job.options
    if options.registry is not None:
        place[Path(options.registry)].write_text(registry.text, encoding="utf-8")
    known = {which: file_identity(path, name) for which, (path, name) in files.items()}
    words = job.reading.words + ["--keep-formulas"] * options.keep_formulas + ["--overwrite"] * options.overwrite
    wanted = {"internal": options.report, "public": options.public_report}
    pages = {audience: (place[path], place[twin(path)]) for audience, path in wanted.items() if path is not None}
    if pages:
        extras = {"assessment": measured.reported, "measured": measured.remark, "files": known, "options": words}
        release.writer(release, pages, **extras)
    if options.recipe is not None:
        file = place[options.recipe]
        file.write_text(recipes.text(recipes.read(_recipe(job, release)), file.parent), encoding="utf-8")


def _recipe(job: Job, release: Release) -> dict[str, Any]:
    """What asks for the same again."""
    options, source = job.options, own_file(job.source)
    hashed = {"sha256": recipes.file_hash(source)} if options.include_seed and source is not None else {}
    files = {"path": str(job.output), "report": options.report, "public_report": options.public_report}
    return {
        **release.recipe(options.include_seed),
        **({"memory": options.memory} if release.settings["engine"] == "stream" else {}),
        "policy": options.policy,
        "input": {"path": str(job.source), **job.reading.given, **hashed},
        "output": {**files, "keep_formulas": options.keep_formulas},
    }
