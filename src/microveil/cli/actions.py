"""What the other commands do: call the function, write, show."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from microveil import catalogue, papers, studies
from microveil.assess import assess as assess_tables
from microveil.assess import assess_files, read_policy
from microveil.cli.endings import Stopped, point_of_no_return
from microveil.cli.shared import answer, end, print_json, progress, read
from microveil.cli.show import catalogues, releases
from microveil.cli.show import studies as shown_studies
from microveil.cli.show.console import print_written
from microveil.core.errors import ParameterError
from microveil.io.config_files import toml_text
from microveil.io.files.formats import ReadOptions
from microveil.io.locations import Place, file_of, own_file
from microveil.options import (
    Assess,
    AssessFiles,
    Compare,
    CompareFile,
    Describe,
    Options,
    Recommend,
    RecommendFile,
    Settings,
)
from microveil.papers.page import Page
from microveil.papers.reproduce import reproduce as reproduced
from microveil.papers.verdicts import about
from microveil.report import Texts, assessment_texts, study_texts, twin, write_texts
from microveil.report.command_line import protect_words
from microveil.storage.atomic import atomic_targets, check_new, check_place, shown
from microveil.storage.disk_columns import memory_in_bytes


def _own_file(place: Place) -> Path:
    file = own_file(place)
    if file is None:
        raise ParameterError("engine: 'stream' reads files", "use engine='memory' for databases and sheets")
    return file


def assess(original: Place, released: Place, options: Mapping[str, Any], *, as_json: bool, quiet: bool) -> None:
    """Compare a released file with the original."""
    asked = AssessFiles.checked(options)
    memory_in_bytes(asked.memory)
    read_policy(asked.policy)
    reading = ReadOptions.of(asked)
    given = asked.only(Assess)
    pages = _new_pages(asked, original, released)
    with progress(quiet) as tell:  # some attacks take a while on any file
        if asked.engine not in ("memory", "stream"):
            raise ParameterError(f"engine: '{asked.engine}' cannot assess", "use memory or stream")
        if asked.engine == "stream":
            if given.pop("holdout") is not None:
                raise ParameterError("holdout: engine 'stream' has no room for a third file", "use engine='memory'")
            files = [_own_file(place) for place in (original, released)]
            judged = assess_files(*files, reading=reading, memory=asked.memory, **given, progress=tell)
        else:
            frames = [read(path, quiet, reading)[0] for path in (original, released)]
            if asked.holdout is not None:
                given["holdout"] = read(asked.holdout, quiet, reading)[0]
            judged = assess_tables(*frames, **given, progress=tell)
    if pages:
        _write(pages, assessment_texts(judged))
    answer(judged.to_dict, partial(releases.assessment, judged), as_json=as_json, quiet=quiet)
    if not as_json and not quiet:
        print_written(pages)
    end(judged)


@contextmanager
def _noted_in(store: Path | None) -> Iterator[None]:
    """Tell whoever stops a study that its finished releases are kept, if they are."""
    try:
        yield
    except Stopped:
        if store is None or not store.exists():
            raise
        raise Stopped(f"finished releases are in {store}: with the same --store the study goes on") from None


def _files(*places: Place | None) -> list[Path]:
    return [file for place in places if place is not None and (file := file_of(place)) is not None]


def compare(source: Place, options: Mapping[str, Any], *, as_json: bool, quiet: bool) -> None:
    """Study several methods on a file."""
    asked = CompareFile.checked(options)
    limit = asked.limit or {}
    measures = studies.measures_for(asked.measures or (), limit)
    pages = _pages(asked, source)
    frame, _ = read(source, quiet, ReadOptions.of(asked))
    with _noted_in(asked.store), progress(quiet, lines=True) as tell:
        study = studies.compare(frame, **{**asked.only(Compare), "measures": measures}, progress=tell)
    best = study.best(limit) if limit else None
    if pages:
        _write(pages, study_texts(study))
    if as_json:
        frontier = study.frontier() if study.has_map else []
        print_json({**study.to_dict(), "frontier": frontier, **({"best": best} if limit else {})})
    elif not quiet:
        shown_studies.study(study, limit, best)
        print_written(pages)


def recommend(source: Place, options: Mapping[str, Any], *, as_json: bool, quiet: bool) -> None:
    """Advise on a method for a file."""
    asked = RecommendFile.checked(options)
    pages = _pages(asked, source)
    frame, _ = read(source, quiet, ReadOptions.of(asked))
    with _noted_in(asked.store), progress(quiet, lines=True) as tell:
        advice = studies.recommend(frame, **asked.only(Recommend), progress=tell)
    command = None if advice.method is None else _typed(source, asked, advice.method, advice.params)
    if pages:
        _write(pages, study_texts(advice.study))
    content, show = lambda: {**advice.to_dict(), "command": command}, partial(shown_studies.advice, advice, command)
    answer(content, show, as_json=as_json, quiet=quiet)
    if not as_json and not quiet:
        print_written(pages)


def _pages(asked: Any, source: Place) -> list[Path]:
    """Where the report of a study and its twin go, if one is asked for; places that cannot be written are refused."""
    if asked.store is not None:
        check_place(asked.store, _files(source))
    return _new_pages(asked, source, asked.store)


def _new_pages(asked: Any, *others: Place | None) -> list[Path]:
    pages = [] if asked.report is None else [asked.report, twin(asked.report)]
    for path in pages:
        check_place(path, _files(*others))
        check_new(path, overwrite=asked.overwrite)
    return pages


def _write(pages: Sequence[Path], texts: Texts) -> None:
    with atomic_targets(list(pages), point_of_no_return()) as (page, data):
        write_texts(texts, page, data, private=True)


def _typed(source: Place, asked: Options, method: str, given: Mapping[str, Any]) -> str:
    """The command that makes a release as it was advised."""
    roles = {name: value for name, value in given.items() if name in Settings.model_fields}
    params = {name: value for name, value in given.items() if name not in roles}
    if "rules" in roles:
        roles["rules"] = roles["rules"] or "none"
    words = protect_words(str(source), "OUTPUT", {"method": method, "parameters": params, **roles})
    return shlex.join([*words, *ReadOptions.of(asked).words])


def reproduce(table: str | None, repeats: int | None, image: Path | None, *, as_json: bool, quiet: bool) -> None:
    """Make a table of a paper again, or all, or list those there are."""
    with progress(quiet) as tell:
        found = reproduced(table, repeats=repeats, image=image, progress=tell)
    if table is None:
        known = [about(entry) for entry in papers.published_items().values()]
        answer(lambda: {"tables": known}, partial(shown_studies.reproducible, known), as_json=as_json, quiet=quiet)
        return
    show = shown_studies.page if isinstance(found, Page) else shown_studies.reproduction
    answer(found.to_dict, partial(show, found), as_json=as_json, quiet=quiet)


def describe(source: Place, options: Mapping[str, Any], *, as_json: bool, quiet: bool = False) -> None:
    """Describe a file."""
    asked = Describe.checked(options)
    save = asked.save
    if save is not None:
        if save.suffix.lower() not in (".toml", ".json"):
            raise ParameterError(f"--save: {shown(save)} is neither TOML nor JSON", "name it ....toml or ....json")
        check_place(save, _files(source))
        check_new(save, overwrite=asked.overwrite)
    frame, file_format = read(source, quiet, ReadOptions.of(asked))
    description = catalogue.describe(frame)
    if save is not None:
        content = description.to_dictionary()
        text = f"{json.dumps(content, indent=2)}\n" if save.suffix.lower() == ".json" else toml_text(content)
        with atomic_targets([save], point_of_no_return()) as (temporary,):
            temporary.write_text(text, encoding="utf-8")
    read_as = file_format.description
    show = partial(catalogues.description, description, save)
    answer(lambda: {**description.to_dict(), "read_as": read_as}, show, as_json=as_json, quiet=quiet)


def methods(name: str | None, *, as_json: bool) -> None:
    """List methods, or the parameters of one: without arrays that only tests pass in."""
    if name is None:
        found: dict[str, Any] = catalogue.methods()
    else:
        found = catalogue.method_details(name)
        for group in found["parameters"]:
            group["parameters"] = [parameter for parameter in group["parameters"] if not parameter["for_tests"]]
    show = catalogues.methods if name is None else catalogues.method
    answer(lambda: found, lambda: show(found), as_json=as_json)


def measures(name: str | None, *, as_json: bool) -> None:
    """List measures, or tell all about one."""
    found = catalogue.measures() if name is None else catalogue.measure_details(name)
    show = catalogues.measures if name is None else catalogues.measure
    answer(lambda: found, lambda: show(found), as_json=as_json)
