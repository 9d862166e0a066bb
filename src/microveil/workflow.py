"""From file to file: engine, policy, reports, recipe and registry, everything or nothing.

One function per job. The command line, `mv.protect_file` and `mv.run` translate into these.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from microveil.assess import assess_release, held_rows, quick_risk, read_policy
from microveil.assessment import measuring
from microveil.assessment.assessment import Assessment
from microveil.core.errors import DataError, MicroveilError, ParameterError, PolicyNotMet
from microveil.engines import Progress
from microveil.io.blocks import open_blocks
from microveil.io.files.formats import ReadOptions
from microveil.io.files.formula_injection import SPREADSHEETS, about_formulas, formula_cells, formulas_kept
from microveil.io.frames.reorder import manner_with_rows
from microveil.io.locations import Database, Place, file_of, own_file, place_from
from microveil.io.tables import check_target, pending_table, read_table, write_table
from microveil.measures.base import Measure
from microveil.methods import method_named
from microveil.options import MEMORY, Protect, ProtectFile, declared_by
from microveil.protection import checks
from microveil.protection.building import about_notes
from microveil.protection.in_blocks import protect_blocks
from microveil.protection.in_memory import READING, protect_table
from microveil.protection.on_spark import protect_on_spark, write_dataset
from microveil.release import recipe as recipes
from microveil.release.recipe import INFERRED, Output, Recipe, path_parameters
from microveil.release.registry import NewRelease
from microveil.release.release import Release
from microveil.release.secret import secret_key
from microveil.report.reporter import file_identity
from microveil.storage.atomic import atomic_targets, check_new, check_place, check_within
from microveil.storage.disk_columns import BYTES, memory_in_bytes

HELD = 12
"""Copies of a table that a run in memory may take, with those of the libraries that read and write it."""

WHOLE_TABLE = ("strata", "unit", "drop", "drop_identifiers", "keep", "keep_notes", "shuffle_rows")
"""Options that need all rows at once."""

OTHERS_REPORTS = (
    "no report was written: those that the recipe names are of its own output, and stay as they are; name others with "
    "--report and --public-report"
)

Risk = tuple[Measure, Measure]
Tell = Callable[[str, float | None], None]
"""Takes the name of a step and the share done, None where nobody knows it."""

Reader = Callable[[Place, ReadOptions], tuple[Any, Any]]


@dataclass(frozen=True, repr=False)
class Face:
    """What whoever starts a job wants to see of it while it runs."""

    progress: Tell = lambda *_: None
    read: Reader = read_table
    """Reads a table; it may say what was found out about the file."""

    began: Callable[[Any], None] = lambda _: None
    """Called with the table when everything has been checked and the long work begins."""

    quick_risk: bool = False
    """Whether linkage is measured even if no report is asked for."""

    committing: Callable[[], AbstractContextManager[None]] = nullcontext
    """Entered while finished files take their places."""


@dataclass(frozen=True, repr=False)
class ProtectedFile:
    """What came of a job: the release, what was measured of it, and the files that were written."""

    release: Release
    risk: Risk | None
    assessment: Assessment | None
    """Its verdict is that of the policy, if there is one."""

    written: list[Any]
    read_as: str = ""

    @property
    def failed(self) -> Assessment | None:
        """The assessment, if the policy is not met; then nothing was written."""
        judged = self.assessment
        return judged if judged is not None and judged.verdict is not None and not judged.verdict.met else None


@dataclass(frozen=True, repr=False)
class Job:
    """A file to protect: where it is, where the release goes, and how."""

    source: Place
    output: Place
    options: ProtectFile
    params: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    """Remarks that stand before the warnings of the release."""

    recipe: Path | None = None
    """The recipe that asks for it."""

    @property
    def reading(self) -> ReadOptions:
        """How the source is read."""
        return ReadOptions.of(self.options)

    @property
    def extras(self) -> list[Path]:
        """The files asked for in addition to the output."""
        from microveil.report import twin

        reports = [path for path in (self.options.report, self.options.public_report) if path is not None]
        pages = [file for path in reports for file in (path, twin(path))]
        return [*pages, *(Path(p) for p in (self.options.recipe, self.options.registry) if p is not None)]

    @property
    def private(self) -> list[Path]:
        """Those that hold the seed, or what confirms a guess, and are for their owner only."""
        from microveil.report import twin

        options = self.options
        secret = [] if options.report is None else [options.report, twin(options.report)]
        secret += [] if options.registry is None else [Path(options.registry)]
        return [*secret, options.recipe] if options.recipe is not None and options.include_seed else secret

    @property
    def inputs(self) -> list[Place]:
        """Everything that is read, and must not be overwritten."""
        options = self.options
        rules = None if options.rules in INFERRED or not isinstance(options.rules, str | Path) else options.rules
        own = [self.params.get(name) for name in path_parameters(options.method)]
        named = [self.recipe, rules, options.policy, options.secret, *own]
        return [self.source, *(place_from(place) for place in named if isinstance(place, str | Path))]


@declared_by(ProtectFile)
def protect_file(source: Any, output: Any, *, progress: Tell | None = None, **options: Any) -> Release:
    """Protect a file or a table of a database, into another; all that `microveil protect` does.

    Everything asked for is written, or nothing is. `release.data` is where the output is; `release.sample` has the
    rows before and after, some of them where the file was streamed.

    Args:
        source: a file, or the table of a database.
        output: where the protected file or table goes; it appears when it is complete.
        progress: called with the name of the step and the share done.
        **options: the options below, and the parameters of the method. With a policy that is not met, nothing is
            written and PolicyNotMet is raised.
    """
    given = {name: options.pop(name) for name in ProtectFile.model_fields if name in options}
    job = Job(place_from(source), place_from(output), ProtectFile.checked(given), options)
    return _finished(protect(job, Face(progress or (lambda *_: None))))


def _finished(found: ProtectedFile) -> Release:
    if found.failed is not None and found.failed.verdict is not None:
        raise PolicyNotMet(f"{found.failed.verdict.told}; nothing was written", "change the method or its parameters")
    return found.release


def protect(job: Job, face: Face) -> ProtectedFile:
    """Protect a file; either everything asked for is written, or nothing is."""
    read_policy(job.options.policy)
    _check_targets(job)
    engine = _engine(job)
    if engine in ("stream", "spark"):
        return _protect_elsewhere(job, engine, face)
    frame, file_format = face.read(job.source, job.reading)
    options = job.options
    check_target(job.output, frame=frame, replacing=options.overwrite)
    registry = NewRelease.of_table(options.registry, options.method, frame)
    alone = Protect(**{**options.only(Protect), "registry": None})
    release = registry.warned(protect_table(frame, alone, job.params, _beginning(face, frame)))
    formulas = _about_formulas(release, job.output, kept=options.keep_formulas)
    left_out = about_notes(file_format.has_notes, keep_notes=options.keep_notes)
    release = replace(release, warnings=[*job.notes, *release.warnings, *formulas, *left_out])
    measured = _measured(job, release, face)
    written: list[Any] = []
    if measured.met:
        face.progress("writing", None)
        written = _write_all(job, release, file_format, measured, registry, face)
    there = replace(release, data=_where(job.output), sample=(frame, release.data)) if written else release
    return ProtectedFile(there, measured.risk, measured.assessment, written, file_format.told)


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


@dataclass(frozen=True, repr=False)
class _Measured:
    """What was measured of a release: for the policy, for people, and for the reports with a word on it."""

    assessment: Assessment | None
    risk: Risk | None
    reported: Assessment | None = None
    remark: str = ""

    @property
    def met(self) -> bool:
        return self.assessment is None or self.assessment.met is not False


def _measured(job: Job, release: Release, face: Face) -> _Measured:
    """The figures that the policy, the reports and the terminal need, each measured once."""
    options, judged, reported, remark = job.options, None, None, ""
    if options.policy is not None:
        policy = {"policy": options.policy, "sanity": False}
        judged = assess_release(release, measures=(), progress=face.progress, **policy)
    if (options.report or options.public_report) and (judged is None or judged.met):
        cells = held_rows(release) * len(release.dose)
        ids, remark = measuring.for_report(cells, public_only=options.report is None)
        known = {} if judged is None else judged.figures
        try:
            reported = assess_release(release, known=known, measures=ids, policy=options.policy, progress=face.progress)
        except DataError as error:  # a report without figures is still a report
            remark = f"Nothing was measured: {error.problem}."
    risk = None
    if face.quick_risk:
        face.progress("linking records", None)
        measured = reported or judged
        risk = quick_risk(release, {} if measured is None else measured.figures)
    return _Measured(judged, risk, reported, remark)


def _write_all(
    job: Job, release: Release, file_format: Any, measured: _Measured, registry: NewRelease, face: Face
) -> list[Any]:
    """Write everything asked for, or nothing: a failure leaves what was there as it was.

    Args:
        job: what was asked for.
        release: the release in memory.
        file_format: how the source was written.
        measured: the figures for the reports.
        registry: the registry with this release.
        face: entered while the files take their places.
    """
    # The release takes its place last: while it is not there, nothing is.
    options, output, source = job.options, own_file(job.output), own_file(job.source)
    like = file_format if release.order is None else manner_with_rows(file_format, release.order)
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
        _write_extras(job, release, place, files, measured, registry)
    return [job.output, *job.extras]


def _write_extras(
    job: Job,
    release: Release,
    place: Mapping[Path, Path],
    files: Mapping[str, tuple[Path, str]],
    measured: _Measured,
    registry: NewRelease,
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
    words = [word for name in job.reading.said for word in (f"--{name}", getattr(job.reading, name))]
    words += ["--keep-formulas"] * options.keep_formulas + ["--overwrite"] * options.overwrite
    for path, audience in ((options.report, "internal"), (options.public_report, "public")):
        if path is not None:
            release.writer(
                release,
                place[path],
                audience,
                measured.reported,
                beside=place[twin(path)],
                files=known,
                measured=measured.remark,
                options=words,
            )
    if options.recipe is not None:
        file = place[options.recipe]
        file.write_text(recipes.text(recipes.read(_recipe(job, release)), file.parent), encoding="utf-8")


def _recipe(job: Job, release: Release) -> dict[str, Any]:
    """What asks for the same again."""
    options, source = job.options, own_file(job.source)
    hashed = {"sha256": recipes.file_hash(source)} if options.include_seed and source is not None else {}
    said = {name: getattr(job.reading, name) for name in job.reading.said}
    files = {"path": str(job.output), "report": options.report, "public_report": options.public_report}
    return {
        **release.recipe(options.include_seed),
        **({"memory": options.memory} if release.settings["engine"] == "stream" else {}),
        "policy": options.policy,
        "input": {"path": str(job.source), **said, **hashed},
        "output": {**files, "keep_formulas": options.keep_formulas},
    }


def _about_formulas(release: Release, target: Place, *, kept: bool) -> list[str]:
    """What a spreadsheet program would do with the text of a release, and what was done about it."""
    file = file_of(target)
    if file is None or file.suffix.lower() not in SPREADSHEETS:
        return []
    return about_formulas(formula_cells(release.data), release.data.columns, kept=kept)


def _check_targets(job: Job) -> None:
    """Before the long work: can everything asked for be written, and is it all different?"""
    options = job.options
    if options.include_seed and options.recipe is None:
        raise ParameterError("--include-seed: no recipe is asked for", "name one with --save-recipe FILE.toml")
    memory_in_bytes(options.memory)
    check_target(job.output, job.inputs, replacing=options.overwrite)
    read = [file for file in map(file_of, job.inputs) if file is not None]
    for path in job.extras:
        check_place(path, read)
    output = file_of(job.output)
    check_different([*([] if output is None else [output]), *job.extras])
    written = own_file(job.output)  # the file of a database is not replaced, only its table
    for path in [*job.extras, *([] if written is None else [written])]:
        check_new(path, overwrite=options.overwrite)


def check_different(targets: Sequence[Path]) -> None:
    """No output may overwrite another."""
    if len({path.resolve() for path in targets}) < len(targets):
        raise ParameterError("two outputs have the same name", "give each a name of its own")


# --- Files that may be larger than the memory


def _engine(job: Job) -> str:
    """The engine that was asked for, or that the size of the file asks for."""
    file, options = own_file(job.source), job.options
    if options.engine != "auto":
        return options.engine
    if file is None or not file.is_file() or own_file(job.output) is None or _needing_all_rows(options):
        return "memory"
    try:
        checks.check_streams(method_named(options.method).plan(job.params), options.rules)
        with closing(open_blocks(file, job.reading)) as blocks:
            cells = blocks.count * len(blocks.names)
    except MicroveilError:
        return "memory"
    return "stream" if cells * BYTES * HELD > _free_memory() else "memory"


def _needing_all_rows(options: ProtectFile) -> list[str]:
    """The options that were given and need all rows at once."""
    defaults = {name: ProtectFile.model_fields[name].get_default() for name in WHOLE_TABLE}
    return [name for name, default in defaults.items() if getattr(options, name) != default]


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
        registry = NewRelease.of_file(options.registry, options.method, source, job.reading)
        if engine == "spark":
            release = protect_on_spark(str(source), Protect(**options.only(Protect)), job.params, face.progress)
        else:
            release = protect_blocks(source, output, place[output], options, job.params, face.progress)
        shown = held_rows(release)
        sampled = [f"risk and utility are those of a sample of {shown:,} rows"] * (shown < release.rows)
        release = replace(registry.warned(release), warnings=[*job.notes, *registry.warned(release).warnings, *sampled])
        measured = _measured(job, release, face)
        measured = replace(measured, remark=f"{measured.remark} On a sample of rows.".strip())
        written: list[Any] = []
        if measured.met:
            files = {}
            if engine == "stream":
                files = {"original": (source, source.name), "released": (place[output], output.name)}
            _write_extras(job, release, place, files, measured, registry)
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
    if _needing_all_rows(options):
        raise ParameterError(
            f"engine: '{engine}' takes no strata, units, dropped columns, kept notes or shuffled rows",
            "use engine='memory'",
        )
    unused = [f"--{name}" for name in job.reading.said] + ["--keep-formulas"] * options.keep_formulas
    unused += ["--memory"] * (options.memory != MEMORY)
    unused += ["--registry"] * (options.registry is not None and engine == "spark")
    if engine == "spark" and unused:
        raise ParameterError(f"engine: 'spark' takes no {unused[0]}", "leave it out: Spark reads Parquet files")
    return source, output


# --- Recipes


def run(
    recipe: Recipe | Mapping[str, Any] | str | Path,
    data: Any = None,
    *,
    seed: int | None = None,
    progress: Progress | None = None,
    **params: Any,
) -> Release:
    """Protect as a recipe says, and give the release back; nothing is written.

    The release is that of `protect`. If the recipe has a policy that the release does not meet, or was written for
    another file, the warnings say so.

    Args:
        recipe: a TOML file, or a dict of the same shape, such as `release.recipe()`.
        data: a table as `protect` takes it; by default the recipe's input is read.
        seed: instead of the recipe's; without either each run differs.
        progress: called with the name of the step and the share done.
        **params: parameters of the method, or anything else that `protect` takes, instead of the recipe's.
    """
    asked = recipes.read(recipe)
    given = {**asked.settings_given(), **{n: params.pop(n) for n in Protect.model_fields if n in params}}
    if given["engine"] == "stream":
        given["engine"] = "memory"  # which gives the same release
    options = Protect.checked({**given, "seed": asked.seed if seed is None else seed})
    secret_key(asked.secret, made=False)
    notes = []
    if data is None:
        if asked.input.path is None:
            raise ParameterError("recipe: it names no input", "give the data too: run(recipe, data)")
        place = place_from(asked.input.path)
        data, _ = read_table(place, asked.input.reading)
        notes += recipes.differs(asked, place)
    release = protect_table(data, options, recipes.parameters(asked, params), progress)
    if asked.policy is not None:
        judged = assess_release(release, measures=(), policy=asked.policy, sanity=False)
        notes += [] if judged.verdict is None or judged.verdict.met else [judged.verdict.told]
    return replace(release, warnings=[*notes, *release.warnings])


def job_from_recipe(
    recipe: Path, options: Mapping[str, Any], source: Place | None = None, output: Place | None = None
) -> Job:
    """What a recipe asks for, as a job; `options`, source and output that are given go before what it says."""
    asked = recipes.read(recipe)
    secret_key(asked.secret, made=False)
    own_source = source or recipes.place(asked.input.path)
    own_output = output or recipes.place(asked.output.path)
    if own_source is None:
        raise ParameterError("the recipe names no input", "give --input FILE")
    if own_output is None:
        raise ParameterError("the recipe names no output", "give --output FILE")
    # Where the release goes elsewhere, the one of the recipe is still there, and so are the reports of it.
    kept = asked.output if _is_same(recipes.place(asked.output.path) or own_output, own_output) else Output()
    like = source is None or _alike(asked.input.path, own_source)
    said = {n: getattr(asked.input.reading, n) for n in asked.input.reading.said} if like else {}
    files = {name: None if path is None else Path(path) for name, path in kept.files.items()}
    policy = Path(asked.policy) if isinstance(asked.policy, str) else asked.policy
    memory = asked.memory or MEMORY
    params = recipes.parameters(asked, options.get("parameters") or {})
    given = {name: value for name, value in options.items() if value is not None and name != "parameters"}
    settings = {**asked.settings_given(), **said, **files, "policy": policy, "memory": memory, "seed": asked.seed}
    settings |= {"keep_formulas": asked.output.keep_formulas, **given}
    job = Job(own_source, own_output, ProtectFile.checked(settings), params, recipe=recipe)
    _check_own_places(job, named={*given, *(["output"] if output is not None else [])})
    file = own_file(job.source)
    notes = recipes.differs(asked, job.source) if file is None or file.is_file() else []
    reports = [job.options.report, job.options.public_report]
    notes += [OTHERS_REPORTS] * (any(asked.output.files.values()) and not any(reports))
    return replace(job, notes=notes)


def _check_own_places(job: Job, named: set[str]) -> None:
    """What the recipe itself says to write stays below its folder: it may have come from elsewhere."""
    from microveil.report import twin

    folder = Path(os.path.realpath(job.recipe or "")).parent
    places = {"output": job.output, "report": job.options.report, "public_report": job.options.public_report}
    for option, place in places.items():
        if place is None or option in named:
            continue
        hint = f"name the place yourself, with --{option.replace('_', '-')}"
        file = file_of(place)
        if file is None:
            raise ParameterError("the output of the recipe is no file below its folder", hint)
        for path in (file,) if option == "output" else (file, twin(file)):
            check_within(path, folder, hint)


def _is_same(one: Place, other: Place) -> bool:
    """Are two outputs one, as far as their names tell?"""
    files = [own_file(place) for place in (one, other)]
    if None in files:
        return str(one) == str(other)
    return len({os.path.realpath(file) for file in files if file is not None}) == 1


def _alike(text: str | None, source: Place) -> bool:
    """Is another input of the kind that the recipe's was, so that it is to be read alike?"""
    one, other = (None if place is None else own_file(place) for place in (recipes.place(text), source))
    return one is not None and other is not None and one.suffix.lower() == other.suffix.lower()
