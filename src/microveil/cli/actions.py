"""What the other commands do: read, call the api, write, show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from microveil import api, large, papers, studies
from microveil.cli import show
from microveil.cli.asked import Comparison, Consultation, Inquiry, columns_in, limits_in, methods_in, typed
from microveil.cli.endings import Stopped, point_of_no_return
from microveil.cli.shared import LONG, end, files_among, print_json, progress, read
from microveil.core.errors import ParameterError
from microveil.io.config_files import toml_text
from microveil.papers.reproduce import about
from microveil.papers.reproduce import reproduce as reproduced
from microveil.storage.atomic import atomic_targets, check_place, shown
from microveil.storage.disk_columns import memory_in_bytes


def _own_file(place: api.Place) -> Path:
    file = api.own_file(place)
    if file is None:
        raise ParameterError("engine: 'stream' reads files", "use engine='memory' for databases and sheets")
    return file


def assess(inquiry: Inquiry, *, as_json: bool, quiet: bool) -> None:
    """Hold a released file against the original."""
    memory_in_bytes(inquiry.memory)
    policy = None if inquiry.policy is None else api.read_policy(inquiry.policy)
    options: dict[str, Any] = {
        **inquiry.columns.compared,
        "measures": columns_in(inquiry.measures) or (),
        "sensitive": columns_in(inquiry.sensitive),
        "seed": inquiry.seed,
    }
    with progress(LONG, quiet, LONG) as tell:  # some attacks take a while on any file
        if inquiry.engine not in ("memory", "stream"):
            raise ParameterError(f"engine: '{inquiry.engine}' cannot assess", "use memory or stream")
        if inquiry.engine == "stream":
            if inquiry.holdout is not None:
                raise ParameterError("holdout: engine 'stream' has no room for a third file", "use engine='memory'")
            files = [_own_file(place) for place in (inquiry.original, inquiry.released)]
            options |= {"memory": inquiry.memory, "reading": inquiry.reading}
            judged = large.assess_files(files[0], files[1], **options, policy=policy, progress=tell)
        else:
            frames = [read(path, quiet, inquiry.reading)[0] for path in (inquiry.original, inquiry.released)]
            if inquiry.holdout is not None:
                options["holdout"] = read(inquiry.holdout, quiet, inquiry.reading)[0]
            judged = api.assess(*frames, **options, policy=policy, progress=tell)
    if as_json:
        print_json(judged.to_dict())
    elif not quiet:
        show.assessment(judged)
    end(judged)


@contextmanager
def _noted_in(store: Path | None) -> Iterator[None]:
    """Whoever stops a study is told that its finished releases are kept, if they are."""
    try:
        yield
    except Stopped:
        if store is None or not store.exists():
            raise
        raise Stopped(f"finished releases are in {store}: with the same --store the study goes on") from None


def compare(asked: Comparison, *, as_json: bool, quiet: bool) -> None:
    """Study several methods on a file."""
    limit, methods = limits_in(asked.limits), methods_in(asked.methods)
    measures = studies.measures_for(columns_in(asked.measures) or (), limit)
    if asked.store is not None:
        check_place(asked.store, files_among([asked.source]))
    pages = [] if asked.report is None else [asked.report, api.report_twin(asked.report)]
    for path in pages:
        check_place(path, files_among([asked.source, *([] if asked.store is None else [asked.store])]))
    frame, _ = read(asked.source, quiet, asked.reading)
    with _noted_in(asked.store), progress(LONG, quiet, LONG) as tell:
        study = studies.compare(
            frame,
            methods,
            repeats=asked.repeats,
            measures=measures,
            seed=asked.seed,
            **asked.columns.protected,
            sensitive=columns_in(asked.sensitive),
            store=asked.store,
            progress=tell,
        )
    best = study.best(limit) if limit else None
    if pages:
        with atomic_targets(pages, point_of_no_return()) as (page, twin):
            api.write_study_report(study, page, twin)
    if as_json:
        frontier = study.frontier() if study.has_map else []
        print_json({**study.to_dict(), "frontier": frontier, **({"best": best} if limit else {})})
    elif not quiet:
        show.study(study, limit, best)
        show.written(pages)


def reproduce(table: str | None, repeats: int | None, *, as_json: bool, quiet: bool) -> None:
    """Make a table of a paper again, or list those there are."""
    if table is None:
        if repeats is not None:
            raise ParameterError("--repeats: no table is named", "`microveil reproduce` alone lists them")
        known = [about(entry) for entry in papers.ENTRIES.values()]
        if as_json:
            print_json({"tables": known})
        elif not quiet:
            show.reproducible(known)
        return
    with progress(LONG, quiet, LONG) as tell:
        found = reproduced(table, repeats=repeats, progress=tell)
    if as_json:
        print_json(found.to_dict())
    elif not quiet:
        show.reproduction(found)


def recommend(asked: Consultation, *, as_json: bool, quiet: bool) -> None:
    """Advise on a method for a file."""
    limit = limits_in(asked.limits) or None
    if asked.store is not None:
        check_place(asked.store, files_among([asked.source]))
    frame, _ = read(asked.source, quiet, asked.reading)
    with _noted_in(asked.store), progress(LONG, quiet, LONG) as tell:
        advice = studies.recommend(
            frame,
            sensitive=columns_in(asked.sensitive),
            limit=limit,
            repeats=asked.repeats,
            seed=asked.seed,
            **asked.columns.protected,
            store=asked.store,
            progress=tell,
        )
    command = None if advice.method is None else typed(asked, advice.method, advice.params)
    if as_json:
        print_json({**advice.to_dict(), "command": command})
    elif not quiet:
        show.advice(advice, command)


def describe(source: api.Place, save: Path | None, reading: api.ReadOptions | None = None, *, as_json: bool) -> None:
    """Describe a file."""
    if save is not None:
        if save.suffix.lower() not in (".toml", ".json"):
            raise ParameterError(f"--save: {shown(save)} is neither TOML nor JSON", "name it ....toml or ....json")
        check_place(save, files_among([source]))
    frame, file_format = read(source, quiet=False, reading=reading)
    description = api.describe(frame)
    if save is not None:
        content = description.to_dictionary()
        text = f"{json.dumps(content, indent=2)}\n" if save.suffix.lower() == ".json" else toml_text(content)
        with atomic_targets([save], point_of_no_return()) as (temporary,):
            temporary.write_text(text, encoding="utf-8")
    if as_json:
        print_json({**description.to_dict(), "read_as": file_format.description})
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


def _without_test_parameters(details: dict[str, Any]) -> dict[str, Any]:
    """Arrays that only tests pass in cannot be given on the command line."""
    groups = [
        {**group, "parameters": [parameter for parameter in group["parameters"] if not parameter["for_tests"]]}
        for group in details["parameters"]
    ]
    return {**details, "parameters": groups}


def version() -> None:
    """Print the version."""
    from microveil import __version__

    print(__version__)
