"""`microveil protect`, `run` and `demo`: read, protect, write everything or nothing, show."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from microveil import api, large
from microveil.assessment.assessment import Assessment
from microveil.assessment.policy import Policy
from microveil.cli import show
from microveil.cli.asked import MEMORY, Arrangement, Columns, Replay, Request
from microveil.cli.endings import NotMet, point_of_no_return
from microveil.cli.shared import LONG, check_different, end, files_among, print_json, progress, read
from microveil.core.errors import DataError, MicroveilError, ParameterError
from microveil.release import recipe as recipes
from microveil.release.release import Release
from microveil.release.secret import secret_key
from microveil.storage.atomic import atomic_targets, check_new, check_place, check_within
from microveil.storage.disk_columns import memory_in_bytes

ELSEWHERE = ("stream", "spark")
MOST_DESCRIBED = 20_000_000
"""Cells up to which a file is described before it is protected; `microveil describe` does it for any."""

OTHERS_REPORTS = (
    "no report was written: those that the recipe names are of its own output, and stay as they are; name others with "
    "--report and --public-report"
)


def protect(request: Request, *, as_json: bool, quiet: bool, notes: Sequence[str] = ()) -> None:
    """Protect a file; either everything asked for is written, or nothing is. `notes` are told beside the warnings."""
    policy = None if request.policy is None else api.read_policy(request.policy)
    _check_targets(request)
    if (engine := _engine(request)) in ELSEWHERE:
        protect_elsewhere(request, engine, policy, as_json=as_json, quiet=quiet, notes=notes)
        return
    frame, file_format = read(request.source, quiet, request.reading)
    api.check_target(request.output, frame=frame, replacing=request.overwrite)
    noted = api.Noted.of_table(request.register, request.method, frame)
    size = frame.height * frame.width
    described = not quiet and request.columns.rules == "infer" and size <= MOST_DESCRIBED
    with progress(size, quiet, LONG) as tell:
        findings = _Findings(frame, tell, shown=not as_json) if described else None
        release = api.protect(
            frame,
            request.method,
            **request.columns.protected,
            **request.arrangement.options,
            seed=request.seed,
            secret=request.secret,
            engine=request.engine,
            progress=findings or tell,
            **request.parameters,
        )
        release = noted.warned(release)
        formulas = api.about_formulas(release, request.output, formulas=request.keep_formulas)
        left_out = api.about_notes(file_format.has_notes, keep_notes=request.arrangement.keep_notes)
        release = replace(release, warnings=[*notes, *release.warnings, *formulas, *left_out])
        risk = None
        if not quiet:
            tell("linking records", None)
            risk = api.quick_risk(frame, release)
        judged = None
        if policy is not None:
            judged = api.assess_release(frame, release, measures=(), policy=policy, sanity=False, progress=tell)
        written = []
        if judged is None or judged.met:
            account = _account(request, frame, release, policy, tell)
            tell("writing", None)
            written = _write_all(request, release, file_format, account, noted)
    seen = {} if findings is None or not as_json else {"described": findings.described.to_dict()}
    _show(release, risk, judged, written, as_json, quiet, **seen, read_as=file_format.description)
    end(judged, "; nothing was written")


def _engine(request: Request) -> str:
    """The engine that was asked for, or that the size of the file asks for."""
    file = api.own_file(request.source)
    if request.engine != "auto":
        return request.engine
    whole = request.arrangement == Arrangement() and request.columns.strata is None
    if file is None or not whole or not file.is_file() or api.own_file(request.output) is None:
        return "memory"
    return large.engine_for(file, request.method, request.parameters, request.columns.rules, request.reading)


def protect_elsewhere(
    request: Request, engine: str, policy: Policy | None, *, as_json: bool, quiet: bool, notes: Sequence[str]
) -> None:
    """The same for what may be larger than the memory; figures of risk come from a sample of its rows."""
    source, output = _in_blocks(request, engine)
    targets = [*request.extras, *([output] if engine == "stream" else [])]
    with suppress(NotMet), ExitStack() as stack:
        place: dict[Path, Path] = {}
        if targets:
            writing = atomic_targets(targets, point_of_no_return(), request.private)
            place |= zip(targets, stack.enter_context(writing), strict=True)
        tell = stack.enter_context(progress(LONG, quiet, LONG))
        noted = large.noted_file(request.register, request.method, source, request.reading)
        release = noted.warned(_released_elsewhere(request, engine, source, output, place, tell))
        frame, shown = large.of_sample(release)
        sampled = [f"risk and utility are those of a sample of {shown.rows:,} rows"] * (shown.rows < release.rows)
        release = replace(release, warnings=[*notes, *release.warnings, *sampled])
        risk = None if quiet else api.quick_risk(frame, shown)
        judged = None
        if policy is not None:
            judged = api.assess_release(frame, shown, measures=(), policy=policy, sanity=False, progress=tell)
        written: list[Any] = []
        if judged is None or judged.met:
            figures, measured = _account(request, frame, shown, policy, tell)
            files = (
                {"original": (source, source.name), "released": (place[output], output.name)}
                if engine == "stream"
                else {}
            )
            _write_extras(request, release, place, files, (figures, f"{measured} On a sample of rows.".strip()), noted)
            if engine == "spark":
                tell("writing", None)
                large.write_dataset(release, output)
            written = [output, *request.extras]
        end(judged)  # which leaves everything as it was
    # Only now: what cannot be printed must not undo what has been written.
    _show(release, risk, judged, written, as_json, quiet)
    end(judged, "; nothing was written")


def _released_elsewhere(
    request: Request, engine: str, source: Path, output: Path, place: Mapping[Path, Path], tell: show.Tell
) -> Release:
    """The release: of a stream it is written already, of Spark its rows are yet to be made."""
    roles = {name: value for name, value in request.columns.protected.items() if name != "strata"}
    options = {**roles, "seed": request.seed, "secret": request.secret, "progress": tell, **request.parameters}
    if engine == "spark":
        return large.protect_spark(str(source), request.method, **options)
    asked: dict[str, Any] = {"reading": request.reading, "formulas": request.keep_formulas, "memory": request.memory}
    return large.stream_file(source, output, request.method, into=place[output], **asked, **options)


def _in_blocks(request: Request, engine: str) -> tuple[Path, Path]:
    """The files, if nothing was asked for that needs all rows at once."""
    source, output = api.own_file(request.source), api.own_file(request.output)
    if source is None or output is None:
        raise ParameterError(f"engine: '{engine}' reads and writes files", "use engine='memory' for databases")
    if request.arrangement != Arrangement() or request.columns.strata is not None:
        raise ParameterError(
            f"engine: '{engine}' takes no strata, units, dropped columns, kept notes or shuffled rows",
            "use engine='memory'",
        )
    unused = [f"--{name}" for name in request.reading.said] + ["--keep-formulas"] * request.keep_formulas
    unused += ["--memory"] * (request.memory != MEMORY)
    unused += ["--register"] * (request.register is not None and engine == "spark")
    if engine == "spark" and unused:
        raise ParameterError(f"engine: 'spark' takes no {unused[0]}", "leave it out: Spark reads Parquet files")
    return source, output


def _show(
    release: Release,
    risk: show.Risk | None,
    judged: Assessment | None,
    written: list[Any],
    as_json: bool,
    quiet: bool,
    **seen: Any,
) -> None:
    """What was done, for people or programs, which are told more of what was `seen`."""
    if as_json:
        told: dict[str, Any] = {} if judged is None else {"assessment": judged.to_dict()}
        print_json({"output": str(written[0]) if written else None, **show.as_dict(release, risk), **told, **seen})
    elif not quiet:
        show.release(release, risk, judged, written)


class _Findings:
    """Progress that describes the file when all has been checked and the work is about to begin, and shows it."""

    def __init__(self, frame: Any, tell: show.Tell, *, shown: bool) -> None:
        self.frame, self.tell, self.shown = frame, tell, shown
        self.begun = False

    @cached_property
    def described(self) -> api.Description:
        """What was found."""
        return api.describe(self.frame)

    def __call__(self, step: str, share: float | None) -> None:
        self.tell(step, share)
        if step != api.READING and not self.begun:
            self.begun = True
            if self.shown:
                show.findings(self.described)


def run(asked: Replay, *, as_json: bool, quiet: bool) -> None:
    """Protect a file as a recipe says."""
    recipe = recipes.read(asked.recipe)
    secret_key(recipe.secret, made=False)
    request = _request(asked, recipe)
    _check_own_places(asked, request)
    file = api.own_file(request.source)
    notes = recipes.differs(recipe, request.source) if file is None or file.is_file() else []
    notes += [OTHERS_REPORTS] * (_has_report(recipe.output) and not _has_report(request))
    protect(request, as_json=as_json, quiet=quiet, notes=notes)


def _request(asked: Replay, recipe: recipes.Recipe) -> Request:
    """What the recipe asks for."""
    source = asked.source or _place(recipe.input.path)
    output = asked.output or _place(recipe.output.path)
    if source is None:
        raise ParameterError("the recipe names no input", "give --input FILE")
    if output is None:
        raise ParameterError("the recipe names no output", "give --output FILE")
    # Where the release goes elsewhere, the one of the recipe is still there, and so are the reports of it.
    kept = recipe.output if _is_same(_place(recipe.output.path) or output, output) else recipes.Output()
    return Request(
        source=source,
        output=output,
        method=recipe.method,
        parameters=recipes.parameters(recipe, asked.parameters),
        columns=Columns(**{role.name: getattr(recipe, role.name) for role in fields(Columns)}),
        arrangement=Arrangement(
            recipe.unit, recipe.drop, shuffle_rows=recipe.shuffle_rows, keep=recipe.keep, keep_notes=recipe.keep_notes
        ),
        keep_formulas=recipe.output.keep_formulas,
        reading=recipe.input.reading
        if asked.source is None or _alike(recipe.input.path, source)
        else api.ReadOptions(),
        overwrite=asked.overwrite,
        seed=recipe.seed if asked.seed is None else asked.seed,
        secret=_path(recipe.secret),
        register=asked.register,
        report=asked.report or _path(kept.report),
        public_report=asked.public_report or _path(kept.public_report),
        policy=_path(recipe.policy) if isinstance(recipe.policy, str) else recipe.policy,
        engine=recipe.engine,
        memory=recipe.memory or MEMORY,
        recipe=asked.recipe,
    )


def _check_own_places(asked: Replay, request: Request) -> None:
    """What the recipe itself says to write stays below its folder: it may have come from elsewhere."""
    folder = Path(os.path.realpath(asked.recipe)).parent
    for option in ("output", "report", "public_report"):
        place = getattr(request, option)
        if place is None or getattr(asked, option) is not None:
            continue
        hint = f"name the place yourself, with --{option.replace('_', '-')}"
        file = api.file_of(place)
        if file is None:
            raise ParameterError("the output of the recipe is no file below its folder", hint)
        for path in (file,) if option == "output" else (file, api.report_twin(file)):
            check_within(path, folder, hint)


def _has_report(asked: Request | recipes.Output) -> bool:
    return asked.report is not None or asked.public_report is not None


def _is_same(one: api.Place, other: api.Place) -> bool:
    """Are two outputs one, as far as their names tell?"""
    files = [api.own_file(place) for place in (one, other)]
    if None in files:
        return str(one) == str(other)
    return len({os.path.realpath(file) for file in files if file is not None}) == 1


def _alike(text: str | None, source: api.Place) -> bool:
    """Is another input of the kind that the recipe's was, so that it is to be read alike?"""
    one, other = (None if place is None else api.own_file(place) for place in (_place(text), source))
    return one is not None and other is not None and one.suffix.lower() == other.suffix.lower()


def _place(text: str | None) -> api.Place | None:
    return None if text is None else api.place_from(text)


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def demo(folder: Path) -> None:
    """Protect the bundled survey."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MicroveilError(f"--folder: '{folder}' cannot be made ({error.strerror})", "name another") from None
    request = Request(
        source=api.example_file(),
        output=folder / "released.csv",
        columns=Columns(weight="weight"),
        report=folder / "report-internal.html",
        public_report=folder / "report-public.html",
        save_recipe=folder / "recipe.toml",
        overwrite=True,
    )
    show.demo_begins(api.example_file())
    protect(request, as_json=False, quiet=False)


def _check_targets(request: Request) -> None:
    """Before the long work: can everything asked for be written, and is it all different?"""
    if request.include_seed and request.save_recipe is None:
        raise ParameterError("--include-seed: no recipe is asked for", "name one with --save-recipe FILE.toml")
    memory_in_bytes(request.memory)
    api.check_target(request.output, request.inputs, replacing=request.overwrite)
    targets = [*files_among([request.output]), *request.extras]
    for path in request.extras:
        check_place(path, files_among(request.inputs))
    check_different(targets)
    written = api.own_file(request.output)  # the file of a database is not replaced, only its table
    for path in [*request.extras, *([] if written is None else [written])]:
        check_new(path, overwrite=request.overwrite)


def _account(
    request: Request, frame: Any, release: Release, policy: Policy | None, tell: show.Tell
) -> tuple[Assessment | None, str]:
    """The figures for the reports, and a word on what was measured; a report without figures is still a report."""
    if request.report is None and request.public_report is None:
        return None, ""
    ids, word = api.report_measures(frame.height * len(release.dose), public_only=request.report is None)
    try:
        return api.assess_release(frame, release, measures=ids, policy=policy, progress=tell), word
    except DataError as error:
        return None, f"Nothing was measured: {error.problem}."


def _write_all(
    request: Request, release: Release, file_format: Any, account: tuple[Assessment | None, str], noted: api.Noted
) -> list[Any]:
    """Write everything asked for, or nothing: a failure leaves what was there as it was."""
    # The release takes its place last: while it is not there, nothing is.
    output, source = api.own_file(request.output), api.own_file(request.source)
    targets = [*request.extras, *([] if output is None else [output])]
    with ExitStack() as stack:
        if output is None:
            pending = api.pending_release(release, request.output, file_format, replacing=request.overwrite)
            stack.enter_context(pending)
        place: dict[Path, Path] = {}
        if targets:
            writing = atomic_targets(targets, point_of_no_return(), request.private)
            place |= zip(targets, stack.enter_context(writing), strict=True)
        files = {} if source is None else {"original": (source, request.source.name)}
        if output is not None:
            into = place[output]
            asked = {"formulas": request.keep_formulas, "keep_notes": request.arrangement.keep_notes}
            api.write_release(release, request.output, file_format, into=into, **asked)
            files["released"] = (into, request.output.name)
        _write_extras(request, release, place, files, account, noted)
    return [request.output, *request.extras]


def _write_extras(
    request: Request,
    release: Release,
    place: Mapping[Path, Path],
    files: Mapping[str, tuple[Path, str]],
    account: tuple[Assessment | None, str],
    noted: api.Noted,
) -> None:
    """The reports, the recipe and the register, into their temporary files."""
    if request.register is not None:
        place[request.register].write_text(noted.text, encoding="utf-8")
    for path, audience in ((request.report, "internal"), (request.public_report, "public")):
        if path is not None:
            page, twin = place[path], place[api.report_twin(path)]
            figures, word = account
            told: dict[str, Any] = {"assessment": figures, "measured": word, "files": files}
            api.write_report(release, page, twin, audience, **told, options=request.typed)
    if request.save_recipe is not None:
        file = place[request.save_recipe]
        file.write_text(recipes.text(recipes.read(_recipe(request, release)), file.parent), encoding="utf-8")


def _recipe(request: Request, release: Release) -> dict[str, Any]:
    """What asks for the same again."""
    source = api.own_file(request.source)
    hashed = {"sha256": recipes.fingerprint(source)} if request.include_seed and source is not None else {}
    said = {name: getattr(request.reading, name) for name in request.reading.said}
    files = {"path": str(request.output), "report": request.report, "public_report": request.public_report}
    return {
        **release.recipe(request.include_seed),
        **({"memory": request.memory} if release.settings["engine"] == "stream" else {}),
        "policy": request.policy,
        "input": {"path": str(request.source), **said, **hashed},
        "output": {**files, "keep_formulas": request.keep_formulas},
    }
