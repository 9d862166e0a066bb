"""What the commands do: read, call the api, write, show."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from microveil import api, large, mos, recipes, studies
from microveil.cli import show
from microveil.cli.endings import NotMet, point_of_no_return, say
from microveil.cli.shared import check_different, names_in, print_json, progress
from microveil.core.assessment import Assessment
from microveil.core.atomic import atomic_targets, check_place
from microveil.core.errors import DataError, MicroveilError, ParameterError
from microveil.core.measure import plain
from microveil.core.policy import Policy
from microveil.core.results import Release
from microveil.core.strict import toml_text

DEFAULT_METHOD, MEMORY = api.DEFAULT_METHOD, large.MEMORY
ELSEWHERE = ("stream", "spark")
LONG = 500_000
"""Cells from which on a progress bar is shown; and bytes of a file, while it is read."""

MOST_DESCRIBED = 20_000_000
"""Cells up to which a file is described before it is protected; `microveil describe` does it for any."""


@dataclass(frozen=True, repr=False)
class Columns:
    """The roles of columns, and the rules that they follow, as the functions of the api take them."""

    confidential: Any = None
    public: Any = None
    strata: Any = None
    weight: Any = None
    rules: Any = "infer"

    @property
    def protected(self) -> dict[str, Any]:
        """For what makes releases."""
        return {role.name: getattr(self, role.name) for role in fields(self)}

    @property
    def compared(self) -> dict[str, Any]:
        """For what holds two files against each other."""
        return {"confidential": self.confidential, "public": self.public, "rules": self.rules}


def columns(
    confidential: str | None = None,
    public: str | None = None,
    strata: str | None = None,
    weight: str | None = None,
    rules: str = "infer",
) -> Columns:
    """The roles as they are typed."""
    return Columns(
        _columns(confidential),
        _columns_or_formula(public),
        _columns(strata),
        weight,
        None if rules == "none" else rules,
    )


@dataclass(frozen=True, repr=False)
class Arrangement:
    """What becomes of rows and columns beside the protected cells."""

    unit: Any = None
    drop: Any = None
    drop_identifiers: bool = False
    shuffle_rows: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """As `api.protect` takes them."""
        return {option.name: getattr(self, option.name) for option in fields(self)}


def arrangement(unit: str | None, drop: str | None, drop_identifiers: bool, shuffle_rows: bool) -> Arrangement:
    """What was asked for, as it is typed."""
    return Arrangement(unit, _columns(drop), drop_identifiers, shuffle_rows)


@dataclass(frozen=True, repr=False)
class Request:
    """Everything `microveil protect` was asked for, by options or by a recipe."""

    source: api.Place
    output: api.Place
    method: str = DEFAULT_METHOD
    parameters: Mapping[str, Any] = field(default_factory=dict)
    columns: Columns = Columns()
    arrangement: Arrangement = Arrangement()
    keep_formulas: bool = False
    reading: api.Reading = field(default_factory=api.Reading)
    replacing: bool = False
    seed: int | None = None
    report: Path | None = None
    public_report: Path | None = None
    save_recipe: Path | None = None
    include_seed: bool = False
    policy: Path | Mapping[str, Any] | None = None
    engine: str = "auto"
    memory: str = MEMORY
    recipe: Path | None = None
    """The recipe that asks for it."""

    @property
    def extras(self) -> list[Path]:
        """The files asked for beside the output."""
        reports = [file for path in (self.report, self.public_report) if path for file in (path, api.report_twin(path))]
        return reports if self.save_recipe is None else [*reports, self.save_recipe]

    @property
    def private(self) -> list[Path]:
        """Those that hold the seed, and are for their owner only."""
        secret = [] if self.report is None else [self.report, api.report_twin(self.report)]
        return [*secret, self.save_recipe] if self.save_recipe is not None and self.include_seed else secret

    @property
    def typed(self) -> list[str]:
        """The options that say how the files are read and written."""
        words = [word for name in self.reading.said for word in (f"--{name}", getattr(self.reading, name))]
        return words + ["--keep-formulas"] * self.keep_formulas + ["--replace"] * self.replacing

    @property
    def inputs(self) -> list[api.Place]:
        """What must not be overwritten."""
        return [self.source] if self.recipe is None else [self.source, self.recipe]


@dataclass(frozen=True, repr=False)
class Inquiry:
    """Everything `microveil assess` was asked for."""

    original: api.Place
    released: api.Place
    measures: str = "default"
    columns: Columns = Columns()
    sensitive: str | None = None
    reading: api.Reading = field(default_factory=api.Reading)
    seed: int | None = None
    policy: Path | None = None
    engine: str = "memory"
    memory: str = MEMORY


def protect(request: Request, *, as_json: bool, quiet: bool, notes: Sequence[str] = ()) -> None:
    """Protect a file; either everything asked for is written, or nothing is. `notes` are told beside the warnings."""
    policy = None if request.policy is None else api.read_policy(request.policy)
    _check_targets(request)
    if (engine := _engine(request)) in ELSEWHERE:
        protect_elsewhere(request, engine, policy, as_json=as_json, quiet=quiet, notes=notes)
        return
    frame, file_format = _read(request.source, quiet, request.reading)
    api.check_target(request.output, frame=frame, replacing=request.replacing)
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
            engine=request.engine,
            progress=findings or tell,
            **request.parameters,
        )
        formulas = api.about_formulas(release, request.output, formulas=request.keep_formulas)
        release = replace(release, warnings=[*notes, *release.warnings, *formulas])
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
            written = _write_all(request, release, file_format, account)
    if as_json:
        told: dict[str, Any] = {} if judged is None else {"assessment": judged.to_dict()}
        told |= {} if findings is None else {"described": findings.described.to_dict()}
        told |= {"read_as": file_format.told}
        print_json({"output": str(request.output) if written else None, **show.as_dict(release, risk), **told})
    elif not quiet:
        show.release(release, risk, judged, written)
    _end(judged, "; nothing was written")


def _engine(request: Request) -> str:
    """The engine that was asked for, or that the size of the file asks for."""
    file = api.own_file(request.source)
    if request.engine != "auto":
        return request.engine
    whole = request.arrangement == Arrangement() and request.columns.strata is None
    if file is None or not whole or not file.is_file() or api.own_file(request.output) is None:
        return "memory"
    return large.engine_for(file, request.method, request.parameters, request.columns.rules)


def protect_elsewhere(
    request: Request, engine: str, policy: Policy | None, *, as_json: bool, quiet: bool, notes: Sequence[str]
) -> None:
    """The same for what may be larger than the memory; figures of risk come from a sample of its rows."""
    source, output = _in_blocks(request, engine)
    targets = [*request.extras, *([output] if engine == "stream" else [])]
    with ExitStack() as stack:
        place: dict[Path, Path] = {}
        if targets:
            writing = atomic_targets(targets, point_of_no_return(), request.private)
            place |= zip(targets, stack.enter_context(writing), strict=True)
        tell = stack.enter_context(progress(LONG, quiet, LONG))
        release = _released_elsewhere(request, engine, source, output, place, tell)
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
            _write_extras(request, release, place, files, (figures, f"{measured} On a sample of rows.".strip()))
            if engine == "spark":
                tell("writing", None)
                large.write_dataset(release, output)
            written = [output, *request.extras]
        _show(release, risk, judged, written, as_json, quiet)
        _end(judged, "; nothing was written")


def _released_elsewhere(
    request: Request, engine: str, source: Path, output: Path, place: Mapping[Path, Path], tell: show.Tell
) -> Release:
    """The release: of a stream it is written already, of Spark its rows are yet to be made."""
    roles = {name: value for name, value in request.columns.protected.items() if name != "strata"}
    options = {**roles, "seed": request.seed, "progress": tell, **request.parameters}
    if engine == "spark":
        return large.protect_spark(str(source), request.method, **options)
    return large.stream_file(
        source, output, request.method, into=place[output], reading=request.reading, memory=request.memory, **options
    )


def _in_blocks(request: Request, engine: str) -> tuple[Path, Path]:
    """The files, if nothing was asked for that needs all rows at once."""
    source, output = api.own_file(request.source), api.own_file(request.output)
    if source is None or output is None:
        raise ParameterError(f"engine: '{engine}' reads and writes files", "use engine='memory' for databases")
    if request.arrangement != Arrangement() or request.columns.strata is not None:
        raise ParameterError(
            f"engine: '{engine}' takes no strata, units, dropped columns or shuffled rows", "use engine='memory'"
        )
    return source, output


def _show(
    release: Release, risk: show.Risk | None, judged: Assessment | None, written: list[Any], as_json: bool, quiet: bool
) -> None:
    """What was done, for people or programs."""
    if as_json:
        told: dict[str, Any] = {} if judged is None else {"assessment": judged.to_dict()}
        print_json({"output": str(written[0]) if written else None, **show.as_dict(release, risk), **told})
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


@dataclass(frozen=True, repr=False)
class Replay:
    """Everything `microveil run` was asked for; what is given goes before what the recipe says."""

    recipe: Path
    source: api.Place | None = None
    output: api.Place | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None


def run(asked: Replay, *, as_json: bool, quiet: bool) -> None:
    """Protect a file as a recipe says."""
    recipe = recipes.read(asked.recipe)
    request = _request(asked, recipe)
    file = api.own_file(request.source)
    notes = recipes.differs(recipe, request.source) if file is None or file.is_file() else []
    protect(request, as_json=as_json, quiet=quiet, notes=notes)


def _request(asked: Replay, recipe: recipes.Recipe) -> Request:
    """What the recipe asks for."""
    source = asked.source or _place(recipe.input.path)
    output = asked.output or _place(recipe.output.path)
    if source is None:
        raise ParameterError("the recipe names no input", "give --input FILE")
    if output is None:
        raise ParameterError("the recipe names no output", "give --output FILE")
    return Request(
        source=source,
        output=output,
        method=recipe.method,
        parameters=recipes.parameters(recipe, asked.parameters),
        columns=Columns(**{role.name: getattr(recipe, role.name) for role in fields(Columns)}),
        arrangement=Arrangement(unit=recipe.unit, drop=recipe.drop, shuffle_rows=recipe.shuffle_rows),
        keep_formulas=recipe.output.keep_formulas,
        reading=recipe.input.reading if asked.source is None or _alike(recipe.input.path, source) else api.Reading(),
        replacing=recipe.output.replace,
        seed=recipe.seed if asked.seed is None else asked.seed,
        report=_path(recipe.output.report),
        public_report=_path(recipe.output.public_report),
        policy=_path(recipe.policy) if isinstance(recipe.policy, str) else recipe.policy,
        engine=recipe.engine,
        memory=recipe.memory or MEMORY,
        recipe=asked.recipe,
    )


def _alike(text: str | None, source: api.Place) -> bool:
    """Is another input of the kind that the recipe's was, so that it is to be read alike?"""
    one, other = (None if place is None else api.own_file(place) for place in (_place(text), source))
    return one is not None and other is not None and one.suffix.lower() == other.suffix.lower()


def _place(text: str | None) -> api.Place | None:
    return None if text is None else api.place_from(text)


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _own_file(place: api.Place) -> Path:
    file = api.own_file(place)
    if file is None:
        raise ParameterError("engine: 'stream' reads files", "use engine='memory' for databases and sheets")
    return file


def assess(inquiry: Inquiry, *, as_json: bool, quiet: bool) -> None:
    """Hold a released file against the original."""
    policy = None if inquiry.policy is None else api.read_policy(inquiry.policy)
    options: dict[str, Any] = {
        **inquiry.columns.compared,
        "measures": _columns(inquiry.measures) or (),
        "sensitive": _columns(inquiry.sensitive),
        "seed": inquiry.seed,
    }
    with progress(LONG, quiet, LONG) as tell:  # some attacks take a while on any file
        if inquiry.engine not in ("memory", "stream"):
            raise ParameterError(f"engine: '{inquiry.engine}' cannot assess", "use memory or stream")
        if inquiry.engine == "stream":
            files = [_own_file(place) for place in (inquiry.original, inquiry.released)]
            options |= {"memory": inquiry.memory, "reading": inquiry.reading}
            judged = large.assess_files(files[0], files[1], **options, policy=policy, progress=tell)
        else:
            frames = [_read(path, quiet, inquiry.reading)[0] for path in (inquiry.original, inquiry.released)]
            judged = api.assess(*frames, **options, policy=policy, progress=tell)
    if as_json:
        print_json(judged.to_dict())
    elif not quiet:
        show.assessment(judged)
    _end(judged)


@dataclass(frozen=True, repr=False)
class Comparison:
    """Everything `microveil compare` was asked for."""

    source: api.Place
    methods: str
    repeats: int
    measures: str = "default"
    limits: Sequence[str] = ()
    columns: Columns = Columns()
    sensitive: str | None = None
    reading: api.Reading = field(default_factory=api.Reading)
    seed: int | None = None
    store: Path | None = None
    report: Path | None = None


def compare(asked: Comparison, *, as_json: bool, quiet: bool) -> None:
    """Study several methods on a file."""
    limit = _limits(asked.limits)
    methods = _methods(asked.methods)
    if asked.store is not None:
        check_place(asked.store, _files([asked.source]))
    pages = [] if asked.report is None else [asked.report, api.report_twin(asked.report)]
    for path in pages:
        check_place(path, _files([asked.source, *([] if asked.store is None else [asked.store])]))
    frame, _ = _read(asked.source, quiet, asked.reading)
    with progress(LONG, quiet, LONG) as tell:
        study = studies.compare(
            frame,
            methods,
            repeats=asked.repeats,
            measures=_columns(asked.measures) or (),
            seed=asked.seed,
            **asked.columns.protected,
            sensitive=_columns(asked.sensitive),
            store=asked.store,
            progress=tell,
        )
    best = study.best(limit) if limit else None
    if pages:
        with atomic_targets(pages, point_of_no_return()) as (page, twin):
            api.write_study_report(study, page, twin)
    if as_json:
        print_json({**study.to_dict(), "frontier": study.frontier(), **({"best": best} if limit else {})})
    elif not quiet:
        show.study(study, limit, best)
        show.written(pages)


def reproduce(table: str | None, repeats: int | None, *, as_json: bool, quiet: bool) -> None:
    """Make a table of a paper again, or list those there are."""
    if table is None:
        if repeats is not None:
            raise ParameterError("--repeats: no table is named", "`microveil reproduce` alone lists them")
        known = [studies.about(entry) for entry in studies.ENTRIES.values()]
        if as_json:
            print_json({"tables": known})
        elif not quiet:
            show.reproducible(known)
        return
    with progress(LONG, quiet, LONG) as tell:
        found = studies.reproduce(table, repeats=repeats, progress=tell)
    if as_json:
        print_json(found.to_dict())
    elif not quiet:
        show.reproduction(found)


def recommend(
    source: api.Place,
    sensitive: str | None,
    limits: Sequence[str],
    repeats: int,
    seed: int | None,
    store: Path | None,
    reading: api.Reading | None = None,
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    """Advise on a method for a file."""
    limit = _limits(limits) or None
    if store is not None:
        check_place(store, _files([source]))
    frame, _ = _read(source, quiet, reading)
    with progress(LONG, quiet, LONG) as tell:
        advice = studies.recommend(
            frame,
            sensitive=_columns(sensitive),
            limit=limit,
            repeats=repeats,
            seed=seed,
            store=store,
            progress=tell,
        )
    if as_json:
        print_json(advice.to_dict())
    elif not quiet:
        show.advice(advice)


def _methods(text: str) -> list[tuple[str, dict[str, Any]]]:
    """`pca, score_mix correlation=0.5`: methods with what is set of each, by commas."""
    entries = [entry.split() for entry in text.split(",") if entry.strip()]
    return [(method, parameters(settings)) for method, *settings in entries]


def _limits(texts: Sequence[str]) -> dict[str, float]:
    """`dbrl=0.02`, by the id of a measure."""
    found = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            raise ParameterError(f"--limit: '{text}' is not id=number", "write --limit dbrl=0.02") from None
    return found


def _end(judged: Assessment | None, consequence: str = "") -> None:
    """A policy that is not met has an exit code of its own."""
    verdict = None if judged is None else judged.verdict
    if verdict is not None and not verdict.met:
        raise NotMet(f"{verdict.told}{consequence}")


def describe(source: api.Place, save: Path | None, reading: api.Reading | None = None, *, as_json: bool) -> None:
    """Describe a file."""
    if save is not None:
        check_place(save, _files([source]))
    frame, file_format = _read(source, quiet=False, reading=reading)
    description = api.describe(frame)
    if save is not None:
        content = description.to_dictionary()
        text = f"{json.dumps(content, indent=2)}\n" if save.suffix.lower() == ".json" else toml_text(content)
        with atomic_targets([save], point_of_no_return()) as (temporary,):
            temporary.write_text(text, encoding="utf-8")
    if as_json:
        print_json({**description.to_dict(), "read_as": file_format.told})
    else:
        show.description(description, save)


def methods(name: str | None, *, as_json: bool) -> None:
    """List methods or parameters."""
    if name is None:
        if as_json:
            print_json(api.methods())
        else:
            show.methods(api.methods())
        return
    details = _without_test_parameters(api.method_details(name))
    if as_json:
        print_json(details)
    else:
        show.method(details)


def measures(name: str | None, *, as_json: bool) -> None:
    """List measures, or tell of one."""
    if name is None:
        if as_json:
            print_json(api.measures())
        else:
            show.measures(api.measures())
        return
    details = api.measure_details(name)
    if as_json:
        print_json(details)
    else:
        show.measure(details)


def mos_session(
    stimuli: Path, output: Path, observers: str, name: str, *, simulated: bool, seed: int | None, as_json: bool
) -> None:
    """Write a session."""
    check_place(output, [stimuli])
    people = int(observers) if observers.strip().isdecimal() else _columns(observers) or []
    session = mos.make_session(mos.read_stimuli(stimuli), people, seed=seed, name=name, simulated=simulated)
    with atomic_targets([output], point_of_no_return()) as (temporary,):
        mos.write(session, temporary)
    if as_json:
        print_json(plain(session.to_dict()))
    else:
        show.session(session, output)


def mos_score(session: Path, ratings: Path, kind: str | None, *, screening: bool, as_json: bool) -> None:
    """Show mean opinion scores."""
    scores = mos.score(mos.read_ratings(ratings, session), kind=kind, screening=screening)
    if as_json:
        print_json(scores.to_dict())
    else:
        show.opinion_scores(scores)


def mos_fit(
    session: Path, ratings: Path, output: Path, predictor: str, kind: str | None, *, screening: bool, as_json: bool
) -> None:
    """Write a link."""
    check_place(output, [session, ratings])
    scores = mos.score(mos.read_ratings(ratings, session), kind=kind, screening=screening)
    link = mos.fit_link(scores, predictor)
    with atomic_targets([output], point_of_no_return()) as (temporary,):
        mos.write(link, temporary)
    if as_json:
        print_json({**link.to_dict(), "caveats": link.caveats, "scores": scores.to_dict()})
    else:
        show.link(link, scores, output)


def mos_predict(original: Path, released: Path, link: Path, confidential: str | None, *, as_json: bool) -> None:
    """Show a predicted score."""
    curve = mos.read_link(link)
    before, after = (_read(path, quiet=as_json)[0] for path in (original, released))
    found = mos.predict(before, after, curve, confidential=_columns(confidential))
    if as_json:
        print_json({"measures": {found.id: found.to_dict()}})
    else:
        show.predicted(found)


def _without_test_parameters(details: dict[str, Any]) -> dict[str, Any]:
    """Arrays that only tests pass in cannot be given on the command line."""
    groups = [
        {**group, "parameters": [parameter for parameter in group["parameters"] if not parameter["for_tests"]]}
        for group in details["parameters"]
    ]
    return {**details, "parameters": groups}


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
    )
    show.demo_begins(api.example_file())
    protect(request, as_json=False, quiet=False)


def version() -> None:
    """Print the version."""
    from microveil import __version__

    print(__version__)


def _check_targets(request: Request) -> None:
    """Before the long work: can everything asked for be written, and is it all different?"""
    if request.include_seed and request.save_recipe is None:
        raise ParameterError("--include-seed: no recipe is asked for", "name one with --save-recipe FILE.toml")
    api.check_target(request.output, request.inputs, replacing=request.replacing)
    targets = [*_files([request.output]), *request.extras]
    for path in request.extras:
        check_place(path, _files(request.inputs))
    check_different(targets)


def _files(places: Sequence[api.Place]) -> list[Path]:
    """The files among places."""
    return [file for file in map(api.file_of, places) if file is not None]


def _read(source: api.Place, quiet: bool, reading: api.Reading | None = None) -> tuple[Any, Any]:
    """The table in a file or database, and its format; what was found out about that is told."""
    file = api.file_of(source)
    size = file.stat().st_size if file is not None and file.is_file() else 0
    with progress(size, quiet, LONG) as tell:
        tell("reading the file", None)
        frame, file_format = api.read_table(source, reading)
    if not quiet and not file_format.manner.is_plain:
        say(f"{source} read as: {file_format.told}")
    return frame, file_format


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
    request: Request, release: Release, file_format: Any, account: tuple[Assessment | None, str]
) -> list[Any]:
    """Write everything asked for, or nothing: a failure leaves what was there as it was."""
    # The release takes its place last: while it is not there, nothing is.
    output, source = api.own_file(request.output), api.own_file(request.source)
    targets = [*request.extras, *([] if output is None else [output])]
    with ExitStack() as stack:
        if output is None:
            pending = api.pending_release(release, request.output, file_format, replacing=request.replacing)
            stack.enter_context(pending)
        place: dict[Path, Path] = {}
        if targets:
            writing = atomic_targets(targets, point_of_no_return(), request.private)
            place |= zip(targets, stack.enter_context(writing), strict=True)
        files = {} if source is None else {"original": (source, request.source.name)}
        if output is not None:
            into = place[output]
            api.write_release(release, request.output, file_format, formulas=request.keep_formulas, into=into)
            files["released"] = (into, request.output.name)
        _write_extras(request, release, place, files, account)
    return [request.output, *request.extras]


def _write_extras(
    request: Request,
    release: Release,
    place: Mapping[Path, Path],
    files: Mapping[str, tuple[Path, str]],
    account: tuple[Assessment | None, str],
) -> None:
    """The reports and the recipe, into their temporary files."""
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
        "output": {**files, "keep_formulas": request.keep_formulas, "replace": request.replacing},
    }


def _columns(text: str | None) -> list[str] | None:
    """`a,b` as columns, if there are any."""
    return None if text is None else names_in(text)


def _columns_or_formula(text: str | None) -> list[str] | str | None:
    """A formula, which begins with `~` and may have commas in its names, as it is; else columns."""
    return text if text is not None and text.lstrip().startswith("~") else _columns(text)


def parameters(settings: Sequence[str]) -> dict[str, Any]:
    """`--set key=value` pairs; values are read as JSON where they are, as a list where they have commas."""
    found: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise ParameterError(f"--set: '{setting}' is not KEY=VALUE", "for example --set components=3")
        if key.strip() in found:
            raise ParameterError(f"--set: '{key.strip()}' is set twice", "set it once")
        if key.strip() in inspect.signature(api.protect).parameters:
            raise _no_parameter(key.strip())
        found[key.strip()] = _value(value.strip())
    return found


def _no_parameter(key: str) -> ParameterError:
    """What `api.protect` takes beside the parameters of the method cannot be set as one of them."""
    if key in {option.name for option in (*fields(Request), *fields(Columns))}:
        return ParameterError(f"--set: '{key}' is an option of its own", f"use --{key}")
    return ParameterError(f"--set: '{key}' is not a parameter of a method", "`microveil methods ID` lists them")


def _value(text: str) -> Any:
    if text.startswith("~"):
        return text  # a formula, whose names may have commas
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return [_value(part.strip()) for part in text.split(",")] if "," in text else text
