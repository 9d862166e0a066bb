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
from microveil.assess import assess_files, assess_on_spark, read_policy
from microveil.cli.endings import Stopped, point_of_no_return
from microveil.cli.shared import Screen, end
from microveil.cli.show import catalogues, releases
from microveil.cli.show import studies as shown_studies
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


def assess(asked: AssessFiles, screen: Screen, original: Place, released: Place) -> None:
    """Compare a released file with the original, as `asked`."""
    memory_in_bytes(asked.memory)
    read_policy(asked.policy)
    reading = ReadOptions.of(asked)
    given = asked.only(Assess)
    pages = _new_pages(asked, original, released)
    with screen.progress() as tell:  # some attacks take a while on any file
        if asked.engine not in ("memory", "stream", "spark"):
            raise ParameterError(f"engine: '{asked.engine}' cannot assess", "use memory, stream or spark")
        if asked.engine == "spark":
            judged = assess_on_spark(str(original), str(released), Assess.checked(given), tell)
        elif asked.engine == "stream":
            if given.pop("holdout") is not None:
                raise ParameterError("holdout: engine 'stream' has no room for a third file", "use engine='memory'")
            files = [_own_file(place) for place in (original, released)]
            judged = assess_files(*files, reading=reading, memory=asked.memory, **given, progress=tell)
        else:
            frames = [screen.read(path, reading)[0] for path in (original, released)]
            if asked.holdout is not None:
                given["holdout"] = screen.read(asked.holdout, reading)[0]
            judged = assess_tables(*frames, **given, progress=tell)
    if pages:
        _write(pages, assessment_texts(judged))
    screen.answer(judged.to_dict, partial(releases.assessment, judged), pages)
    end(judged)


@contextmanager
def _noted_in(store: Path | None) -> Iterator[None]:
    """Say, when a study is stopped, that its finished releases are kept, if they are."""
    try:
        yield
    except Stopped:
        if store is None or not store.exists():
            raise
        raise Stopped(f"finished releases are in {store}: with the same --store the study goes on") from None


def _files(*places: Place | None) -> list[Path]:
    return [file for place in places if place is not None and (file := file_of(place)) is not None]


def compare(asked: CompareFile, screen: Screen, source: Place) -> None:
    """Study several methods on a file."""
    limit = asked.limit or {}
    measures = studies.measures_for(asked.measures or (), limit)
    pages = _pages(asked, source)
    frame, _ = screen.read(source, ReadOptions.of(asked))
    with _noted_in(asked.store), screen.progress(lines=True) as tell:
        study = studies.compare(frame, **{**asked.only(Compare), "measures": measures}, progress=tell)
    best = study.best(limit) if limit else None
    if pages:
        _write(pages, study_texts(study))
    found = {"frontier": study.frontier() if study.has_map else [], **({"best": best} if limit else {})}
    screen.answer(lambda: {**study.to_dict(), **found}, partial(shown_studies.study, study, limit, best), pages)


def recommend(asked: RecommendFile, screen: Screen, source: Place) -> None:
    """Advise on a method for a file."""
    pages = _pages(asked, source)
    frame, _ = screen.read(source, ReadOptions.of(asked))
    with _noted_in(asked.store), screen.progress(lines=True) as tell:
        advice = studies.recommend(frame, **asked.only(Recommend), progress=tell)
    command = None if advice.method is None else _typed(source, asked, advice.method, advice.params)
    if pages:
        _write(pages, study_texts(advice.study))
    show = partial(shown_studies.advice, advice, command)
    screen.answer(lambda: {**advice.to_dict(), "command": command}, show, pages)


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
    """The command that releases the `source`, read as `asked`, by the advised `method` with what is `given` of it."""
    roles = {name: value for name, value in given.items() if name in Settings.model_fields}
    params = {name: value for name, value in given.items() if name not in roles}
    if "rules" in roles:
        roles["rules"] = roles["rules"] or "none"
    words = protect_words(str(source), "OUTPUT", {"method": method, "parameters": params, **roles})
    return shlex.join([*words, *ReadOptions.of(asked).words])


def reproduce(asked: Any, screen: Screen) -> None:
    """Make a table of a paper again, or all, or list those there are."""
    with screen.progress() as tell:
        found = reproduced(asked.table, repeats=asked.repeats, image=asked.image, progress=tell)
    if asked.table is None:
        known = [about(entry) for entry in papers.published_items().values()]
        screen.answer(lambda: {"tables": known}, partial(shown_studies.reproducible, known))
        return
    show = shown_studies.page if isinstance(found, Page) else shown_studies.reproduction
    screen.answer(found.to_dict, partial(show, found))


def describe(asked: Describe, screen: Screen, source: Place) -> None:
    """Describe a file."""
    save = asked.save
    if save is not None:
        if save.suffix.lower() not in (".toml", ".json"):
            raise ParameterError(f"--save: {shown(save)} is neither TOML nor JSON", "name it ....toml or ....json")
        check_place(save, _files(source))
        check_new(save, overwrite=asked.overwrite)
    frame, file_format = screen.read(source, ReadOptions.of(asked))
    description = catalogue.describe(frame)
    if save is not None:
        content = description.to_dictionary()
        text = f"{json.dumps(content, indent=2)}\n" if save.suffix.lower() == ".json" else toml_text(content)
        with atomic_targets([save], point_of_no_return()) as (temporary,):
            temporary.write_text(text, encoding="utf-8")
    read_as = file_format.description
    show = partial(catalogues.description, description)
    screen.answer(lambda: {**description.to_dict(), "read_as": read_as}, show, [] if save is None else [save])


def methods(asked: Any, screen: Screen) -> None:
    """List methods, or the parameters of one: without arrays that only tests pass in."""
    if asked.name is None:
        _list(screen, catalogue.methods(), "`microveil methods ID` shows the parameters of one.")
        return
    found = catalogue.method_details(asked.name)
    for group in found["parameters"]:
        group["parameters"] = [parameter for parameter in group["parameters"] if not parameter["for_tests"]]
    screen.answer(lambda: found, partial(catalogues.method, found))


def measures(asked: Any, screen: Screen) -> None:
    """List measures, or tell all about one."""
    if asked.name is None:
        _list(screen, catalogue.measures(), "`microveil measures ID` tells all about one.")
        return
    found = catalogue.measure_details(asked.name)
    screen.answer(lambda: found, partial(catalogues.measure, found))


def _list(screen: Screen, known: dict[str, str], more: str) -> None:
    screen.answer(lambda: known, partial(catalogues.listed, known, more))
