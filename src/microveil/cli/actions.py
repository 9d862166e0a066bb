"""What the commands do: read, call the api, write, show."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from microveil import api, mos, studies
from microveil.cli import show
from microveil.cli.endings import NotMet, point_of_no_return
from microveil.core.assessment import Assessment
from microveil.core.atomic import atomic_target, atomic_targets, check_place
from microveil.core.errors import DataError, MicroveilError, ParameterError
from microveil.core.measure import plain
from microveil.core.policy import Policy
from microveil.core.results import Release

DEFAULT_METHOD = api.DEFAULT_METHOD
LONG = 500_000
"""Cells from which on a progress bar is shown; and bytes of a file, while it is read."""


@dataclass(frozen=True, repr=False)
class Request:
    """Everything `microveil protect` was asked for."""

    source: Path
    output: Path
    method: str = DEFAULT_METHOD
    settings: Sequence[str] = ()
    confidential: str | None = None
    public: str | None = None
    strata: str | None = None
    weight: str | None = None
    rules: str = "infer"
    seed: int | None = None
    report: Path | None = None
    public_report: Path | None = None
    recipe: Path | None = None
    policy: Path | None = None
    engine: str = "auto"

    @property
    def extras(self) -> list[Path]:
        """The files asked for beside the output."""
        reports = [file for path in (self.report, self.public_report) if path for file in (path, api.report_twin(path))]
        return reports if self.recipe is None else [*reports, self.recipe]


@dataclass(frozen=True, repr=False)
class Inquiry:
    """Everything `microveil assess` was asked for."""

    original: Path
    released: Path
    measures: str = "default"
    confidential: str | None = None
    public: str | None = None
    rules: str = "infer"
    seed: int | None = None
    policy: Path | None = None


def protect(request: Request, *, as_json: bool, quiet: bool) -> None:
    """Protect a file; either everything asked for is written, or nothing is."""
    parameters = _parameters(request.settings)
    policy = None if request.policy is None else api.read_policy(request.policy)
    _check_targets(request)
    frame, file_format = _read(request.source, quiet)
    api.check_target(request.output, frame=frame)
    with _progress(frame.height * frame.width, quiet) as tell:
        release = api.protect(
            frame,
            request.method,
            confidential=_columns(request.confidential),
            public=_columns_or_formula(request.public),
            strata=_columns(request.strata),
            weight=request.weight,
            seed=request.seed,
            rules=None if request.rules == "none" else request.rules,
            engine=request.engine,
            progress=tell,
            **parameters,
        )
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
        told = {} if judged is None else {"assessment": judged.to_dict()}
        _print_json({"output": str(request.output) if written else None, **show.as_dict(release, risk), **told})
    elif not quiet:
        show.release(release, risk, judged, written)
    _end(judged, "; nothing was written")


def assess(inquiry: Inquiry, *, as_json: bool, quiet: bool) -> None:
    """Hold a released file against the original."""
    policy = None if inquiry.policy is None else api.read_policy(inquiry.policy)
    frames = [_read(path, quiet)[0] for path in (inquiry.original, inquiry.released)]
    with _progress(LONG, quiet) as tell:  # some attacks take a while on any file
        judged = api.assess(
            *frames,
            confidential=_columns(inquiry.confidential),
            public=_columns_or_formula(inquiry.public),
            measures=_columns(inquiry.measures) or (),
            seed=inquiry.seed,
            rules=None if inquiry.rules == "none" else inquiry.rules,
            policy=policy,
            progress=tell,
        )
    if as_json:
        _print_json(judged.to_dict())
    elif not quiet:
        show.assessment(judged)
    _end(judged)


@dataclass(frozen=True, repr=False)
class Comparison:
    """Everything `microveil compare` was asked for."""

    source: Path
    methods: str
    repeats: int
    measures: str = "default"
    limits: Sequence[str] = ()
    confidential: str | None = None
    public: str | None = None
    strata: str | None = None
    weight: str | None = None
    rules: str = "infer"
    seed: int | None = None
    store: Path | None = None
    report: Path | None = None


def compare(asked: Comparison, *, as_json: bool, quiet: bool) -> None:
    """Study several methods on a file."""
    limit = _limits(asked.limits)
    methods = _methods(asked.methods)
    if asked.store is not None:
        check_place(asked.store, [asked.source])
    pages = [] if asked.report is None else [asked.report, api.report_twin(asked.report)]
    for path in pages:
        check_place(path, [asked.source, *([] if asked.store is None else [asked.store])])
    frame, _ = _read(asked.source, quiet)
    with _progress(LONG, quiet) as tell:
        study = studies.compare(
            frame,
            methods,
            repeats=asked.repeats,
            measures=_columns(asked.measures) or (),
            seed=asked.seed,
            confidential=_columns(asked.confidential),
            public=_columns_or_formula(asked.public),
            strata=_columns(asked.strata),
            weight=asked.weight,
            rules=None if asked.rules == "none" else asked.rules,
            store=asked.store,
            progress=tell,
        )
    best = study.best(limit) if limit else None
    if pages:
        with atomic_targets(pages, point_of_no_return()) as (page, twin):
            api.write_study_report(study, page, twin)
    if as_json:
        _print_json({**study.to_dict(), "frontier": study.frontier(), **({"best": best} if limit else {})})
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
            _print_json({"tables": known})
        elif not quiet:
            show.reproducible(known)
        return
    with _progress(LONG, quiet) as tell:
        found = studies.reproduce(table, repeats=repeats, progress=tell)
    if as_json:
        _print_json(found.to_dict())
    elif not quiet:
        show.reproduction(found)


def recommend(
    source: Path,
    sensitive: str | None,
    limits: Sequence[str],
    repeats: int,
    seed: int | None,
    store: Path | None,
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    """Advise on a method for a file."""
    limit = _limits(limits) or None
    if store is not None:
        check_place(store, [source])
    frame, _ = _read(source, quiet)
    with _progress(LONG, quiet) as tell:
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
        _print_json(advice.to_dict())
    elif not quiet:
        show.advice(advice)


def _methods(text: str) -> list[tuple[str, dict[str, Any]]]:
    """`pca, score_mix correlation=0.5`: methods with what is set of each, by commas."""
    entries = [entry.split() for entry in text.split(",") if entry.strip()]
    return [(method, _parameters(settings)) for method, *settings in entries]


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
        raise NotMet(f"policy '{verdict.policy}' is not met ({', '.join(verdict.failed)}){consequence}")


def describe(source: Path, save: Path | None, *, as_json: bool) -> None:
    """Describe a file."""
    if save is not None:
        check_place(save, [source])
    frame, _ = _read(source, quiet=False)
    description = api.describe(frame)
    if save is not None:
        with atomic_targets([save], point_of_no_return()) as (temporary,):
            _write_toml(temporary, description.to_dictionary())
    if as_json:
        _print_json(description.to_dict())
    else:
        show.description(description, save)


def methods(name: str | None, *, as_json: bool) -> None:
    """List methods or parameters."""
    if name is None:
        if as_json:
            _print_json(api.methods())
        else:
            show.methods(api.methods())
        return
    details = _without_test_parameters(api.method_details(name))
    if as_json:
        _print_json(details)
    else:
        show.method(details)


def measures(name: str | None, *, as_json: bool) -> None:
    """List measures, or tell of one."""
    if name is None:
        if as_json:
            _print_json(api.measures())
        else:
            show.measures(api.measures())
        return
    details = api.measure_details(name)
    if as_json:
        _print_json(details)
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
        _print_json(plain(session.to_dict()))
    else:
        show.session(session, output)


def mos_score(session: Path, ratings: Path, kind: str | None, *, screening: bool, as_json: bool) -> None:
    """Show mean opinion scores."""
    scores = mos.score(mos.read_ratings(ratings, session), kind=kind, screening=screening)
    if as_json:
        _print_json(scores.to_dict())
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
        _print_json({**link.to_dict(), "caveats": link.caveats, "scores": scores.to_dict()})
    else:
        show.link(link, scores, output)


def mos_predict(original: Path, released: Path, link: Path, confidential: str | None, *, as_json: bool) -> None:
    """Show a predicted score."""
    curve = mos.read_link(link)
    before, after = (_read(path, quiet=as_json)[0] for path in (original, released))
    found = mos.predict(before, after, curve, confidential=_columns(confidential))
    if as_json:
        _print_json({"measures": {found.id: found.to_dict()}})
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
        weight="weight",
        report=folder / "report-internal.html",
        public_report=folder / "report-public.html",
        recipe=folder / "recipe.toml",
    )
    show.demo_begins(request.source)
    protect(request, as_json=False, quiet=False)


def version() -> None:
    """Print the version."""
    from microveil import __version__

    print(__version__)


def _check_targets(request: Request) -> None:
    """Before the long work: can everything asked for be written, and is it all different?"""
    api.check_target(request.output, [request.source])
    targets = [request.output, *request.extras]
    for path in request.extras:
        check_place(path, [request.source])
    if len({path.resolve() for path in targets}) < len(targets):
        raise ParameterError("two outputs have the same name", "give each a name of its own")


def _read(source: Path, quiet: bool) -> tuple[Any, Any]:
    """The table in a file, and its format."""
    size = source.stat().st_size if source.is_file() else 0
    with _progress(size, quiet) as tell:
        tell("reading the file", None)
        return api.read_table(source)


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
) -> list[Path]:
    """Write everything asked for, or nothing: a failure leaves what was there as it was."""
    targets = [*request.extras, request.output]  # the release takes its place last: while it is not there, nothing is
    with atomic_targets(targets, point_of_no_return()) as temporaries:
        place = dict(zip(targets, temporaries, strict=True))
        api.write_table(release.data, request.output, file_format, into=place[request.output])
        files = {
            "original": (request.source, request.source.name),
            "released": (place[request.output], request.output.name),
        }
        for path, audience in ((request.report, "internal"), (request.public_report, "public")):
            if path is not None:
                page, twin = place[path], place[api.report_twin(path)]
                figures, word = account
                api.write_report(release, page, twin, audience, assessment=figures, measured=word, files=files)
        if request.recipe is not None:
            _write_toml(place[request.recipe], _without_none(release.recipe()))
    return [request.output, *request.extras]


def _columns(text: str | None) -> list[str] | None:
    """`a,b` as columns; a name with a comma in it goes in double quotes."""
    if text is None:
        return None
    import csv

    try:
        names = next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error:
        raise ParameterError(
            "a list of columns cannot be read", "separate names by commas, quote those that have one"
        ) from None
    return [name for name in names if name.strip()]


def _columns_or_formula(text: str | None) -> list[str] | str | None:
    """A formula, which begins with `~` and may have commas in its names, as it is; else columns."""
    return text if text is not None and text.lstrip().startswith("~") else _columns(text)


def _parameters(settings: Sequence[str]) -> dict[str, Any]:
    """`--set key=value` pairs; values are read as JSON where they are, as a list where they have commas."""
    parameters: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise ParameterError(f"--set: '{setting}' is not KEY=VALUE", "for example --set components=3")
        if key.strip() in parameters:
            raise ParameterError(f"--set: '{key.strip()}' is set twice", "set it once")
        if key.strip() in inspect.signature(api.protect).parameters:
            raise _no_parameter(key.strip())
        parameters[key.strip()] = _value(value.strip())
    return parameters


def _no_parameter(key: str) -> ParameterError:
    """What `api.protect` takes beside the parameters of the method cannot be set as one of them."""
    if key in {option.name for option in fields(Request)}:
        return ParameterError(f"--set: '{key}' is an option of its own", f"use --{key}")
    return ParameterError(f"--set: '{key}' is not a parameter of a method", "`microveil methods ID` lists them")


def _value(text: str) -> Any:
    if text.startswith("~"):
        return text  # a formula, whose names may have commas
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return [_value(part.strip()) for part in text.split(",")] if "," in text else text


def _without_none(recipe: dict[str, Any]) -> dict[str, Any]:
    """TOML has no empty value: what is not set is left out."""
    return {
        name: _without_none(value) if isinstance(value, dict) else value
        for name, value in recipe.items()
        if value is not None
    }


def _write_toml(path: Path, content: dict[str, Any]) -> None:
    import tomli_w

    with atomic_target(path) as temporary:
        temporary.write_text(tomli_w.dumps(content), encoding="utf-8")


def _print_json(content: Any) -> None:
    print(json.dumps(content, indent=2, allow_nan=False))


@contextmanager
def _progress(size: int, quiet: bool) -> Iterator[show.Tell]:
    """A bar on standard error for work that takes a while; nothing for the rest."""
    if quiet or size < LONG:
        yield lambda *_: None
        return
    with show.progress_bar() as tell:
        yield tell
