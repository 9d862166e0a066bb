"""Doing what a recipe says."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from microveil.assess import assess_release, read_policy
from microveil.core.errors import ParameterError
from microveil.engines import Progress
from microveil.io.locations import Place, file_of, own_file, place_from
from microveil.io.tables import read_table, without_looking
from microveil.options import MEMORY, Protect, ProtectFile
from microveil.protection.in_memory import protect_table
from microveil.protection.privately import check_private_file
from microveil.release import recipe as recipes
from microveil.release.recipe import Output, Recipe
from microveil.release.release import Release
from microveil.release.secret import secret_key
from microveil.storage.atomic import check_within
from microveil.workflow.job import Job

OTHERS_REPORTS = (
    "no report was written: those that the recipe names are of its own output, and stay as they are; name others with "
    "--report and --public-report"
)


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
    seed = asked.seed if seed is None else seed
    options, params = Protect.split({**asked.settings_given(), **params, "seed": seed})
    if options.engine == "stream":
        options = options.model_copy(update={"engine": "memory"})  # which gives the same release
    if options.epsilon is not None:
        check_private_file(ProtectFile(policy=asked.policy))
    policy = read_policy(asked.policy)  # before the work
    secret_key(asked.secret, made=False)
    notes: list[str] = []
    if data is None:
        if asked.input.path is None:
            raise ParameterError("recipe: it names no input", "give the data too: run(recipe, data)")
        place = place_from(asked.input.path)
        reading = asked.input.reading
        data, file_format = read_table(
            place, without_looking(place, reading) if options.epsilon is not None else reading
        )
        notes += file_format.findings
        notes += recipes.differs(asked, place)
    params = recipes.parameters(asked, params)
    notes += recipes.about_draw(asked, options.seed, params)
    release = protect_table(data, options, params, progress)
    if release.ledger is not None:  # how the file was written, and whether it is that of the recipe, stays secret
        return release
    if policy is not None:
        judged = assess_release(release, measures=(), policy=policy, sanity=False)
        notes += [] if judged.verdict is None or judged.verdict.met else [str(judged.verdict)]
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
    said = asked.input.reading.given if like else {}
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
    notes += recipes.about_draw(asked, job.options.seed, params)
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
