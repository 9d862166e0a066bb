"""Methods x parameters x repeated seeds x measures, in parallel processes; a killed study goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from microveil import api
from microveil.assessment.assessment import Assessment
from microveil.core.errors import MicroveilError, ParameterError, did_you_mean
from microveil.core.rng import Streams
from microveil.core.threads import worker_count
from microveil.release.release import Release
from microveil.studies.store import Store, StoreWriter
from microveil.studies.study import LOSS, WORST, Study, is_table
from microveil.studies.workers import begin_worker, worker_pool

Progress = Callable[[str, float], None]
Given = Sequence[str | tuple[str, Mapping[str, Any]]] | Mapping[str, str | tuple[str, Mapping[str, Any]]]

REPEATS = 20
ROLES = {"confidential", "public", "strata", "weight"}

PLAIN = (str, int, float, np.number, Path, type(None))
"""What is shown of settings in labels."""

FILES = {"other", "rules"}
"""Settings that may name a file: another content is other work."""


@dataclass(frozen=True)
class Cell:
    """One release to make and to measure. Its key is the same for the same work, whatever the method is called."""

    label: str
    method: str
    parameters: Mapping[str, Any]
    repeat: int
    key: str
    seed: int | None = field(repr=False)


@dataclass(frozen=True, repr=False)
class StudyPlan:
    """What all cells share."""

    data: Any
    roles: Mapping[str, Any]
    measures: Sequence[str]
    sensitive: Sequence[str | int] | None = None


def compare(
    data: Any,
    methods: Given,
    *,
    repeats: int = REPEATS,
    measures: str | Sequence[str] = "default",
    seed: int | None = None,
    confidential: Any = None,
    public: Any = None,
    strata: Any = None,
    weight: Any = None,
    rules: Any = "infer",
    sensitive: Sequence[str | int] | None = None,
    store: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Study:
    """Protect a table with several methods many times, measure every release, and sum up.

    Args:
        data: any table that `protect` takes.
        methods: ids, (id, parameters) pairs, or either of them by a label of your own.
        repeats: releases of each method; one that draws nothing is released once.
        measures: as for `assess`: "default", "all", or ids.
        seed: a whole number for a study that can be repeated.
        confidential: as for `protect`, like the next four.
        public: what is regressed on.
        strata: what is protected one by one.
        weight: survey weights.
        rules: codes and rules of the columns.
        sensitive: columns that risk is about, where not all are protected: attacks are measured on these alone, what a
            release is good for on all. A method's own parameters may then say which columns it protects.
        store: a file that finished releases are noted in; with the same file a killed study goes on.
        workers: processes to work in; by default one for each core.
        progress: called with the name of the step and the share done.
    """
    if repeats < 1:
        raise ParameterError(f"repeats: {repeats} releases asked", "ask for at least one")
    planned = _labelled(methods)
    ids = api.chosen_measures(measures)
    roles = {"confidential": confidential, "public": public, "strata": strata, "weight": weight, "rules": rules}
    work = StudyPlan(data, roles, ids, sensitive)
    study_key = _hash(api.fingerprint(data), json.dumps(_told([roles, sensitive])), sorted(ids))
    cells = [
        _cell(label, method, parameters, repeat, study_key, seed)
        for label, (method, parameters) in planned.items()
        for repeat in range(repeats if api.draws_at_random(method, _own(parameters)) else 1)
    ]
    kept = Store(None if store is None else Path(store))
    waiting = [cell for cell in cells if cell.key not in kept.cells]
    tell = progress or (lambda *_: None)
    with kept.open() as writer:
        _run(work, waiting, writer, workers or worker_count(), _counted(tell, len(cells) - len(waiting), len(cells)))
    return _study(data, planned, ids, [(cell.label, kept.cells[cell.key]) for cell in cells])


def measures_for(measures: str | Sequence[str], limit: Mapping[str, float]) -> list[str]:
    """The measures asked for, and those that a choice within the limits needs, too."""
    known = api.measure_entries()
    for name in limit:
        if name != WORST and name not in known:
            raise ParameterError(f"limit: there is no measure '{name}'", did_you_mean(name, [WORST, *known]))
    ids = api.chosen_measures(measures)
    if limit:
        ids = list(dict.fromkeys([*ids, *(name for name in limit if name != WORST), LOSS]))
    if WORST in limit and not any(known[name].kind == "risk" for name in ids if name != WORST):
        raise ParameterError(f"limit: {WORST} is the worst of the attacks, and none is measured", "measure some")
    return ids


def _labelled(methods: Given) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Method and parameters by label; without one, a method is called by its id and what was set."""
    if isinstance(methods, str) or not isinstance(methods, Mapping | Sequence) or not methods:
        raise ParameterError("methods: takes ids or (id, parameters) pairs", "give a list, or a dict of labels")
    entries = methods.items() if isinstance(methods, Mapping) else [(None, entry) for entry in methods]
    planned: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for given, entry in entries:
        method, parameters = (entry, {}) if isinstance(entry, str) else entry
        api.check_method(method, _own(parameters))
        label = given or " ".join([method, *map(_setting, parameters.items())])
        if label in planned:
            raise ParameterError(f"methods: '{label}' is there twice", "give them labels of their own")
        planned[label] = (method, parameters)
    return planned


def _setting(given: tuple[str, Any]) -> str:
    """`group_size=4`; of a table or an array only the name, for labels are shown and stored."""
    name, value = given
    shown = value if isinstance(value, list | tuple) else [value]
    return f"{name}={value}" if all(isinstance(one, PLAIN) for one in shown) else name


def _told(value: Any, name: str = "") -> Any:
    """What the key of a release is made of: all of a setting; of tables and files what tells them from others."""
    if isinstance(value, str | Path) and name in FILES and Path(value).is_file():
        return hashlib.blake2b(Path(value).read_bytes(), digest_size=16).hexdigest()
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, Mapping):
        return {str(key): _told(one, key) for key, one in value.items()}
    if is_table(value):
        return api.fingerprint(value)
    if isinstance(value, Iterable) and not isinstance(value, Iterator):
        return [_told(one) for one in value]
    return str(value)


def _own(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of the method itself, without the roles of columns."""
    return {name: value for name, value in parameters.items() if name not in ROLES}


def _cell(
    label: str, method: str, parameters: Mapping[str, Any], repeat: int, study_key: str, seed: int | None
) -> Cell:
    what = _hash(study_key, method, json.dumps(_told(parameters), sort_keys=True), repeat)
    if seed is None:
        return Cell(label, method, parameters, repeat, what, None)
    own = int(Streams.from_seed(seed).stream("study", what).generator().integers(2**63))
    return Cell(label, method, parameters, repeat, _hash(what, own), own)


def _hash(*parts: object) -> str:
    return hashlib.blake2b(json.dumps([str(part) for part in parts]).encode(), digest_size=16).hexdigest()


def _counted(tell: Progress, done: int, of: int) -> Callable[[Cell], None]:
    """Tells of each finished cell; those of an earlier run count too."""
    finished = iter(range(done + 1, of + 1))
    return lambda cell: tell(f"measuring {cell.label}", next(finished) / of)


def _run(
    work: StudyPlan, cells: Sequence[Cell], writer: StoreWriter, workers: int, told: Callable[[Cell], None]
) -> None:
    """Every cell, in processes of its own or, where that is not worth it, here."""
    if workers == 1 or len(cells) < 2:
        for cell in cells:
            writer.add(cell.key, _measured(work, cell))
            told(cell)
        return
    workers = min(workers, len(cells))
    with worker_pool(workers, _start, work, os.getpid()) as pool:
        for cell, found in _finished(pool, cells, 2 * workers):
            writer.add(cell.key, found)
            told(cell)


def _finished(pool: ProcessPoolExecutor, cells: Sequence[Cell], at_once: int) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Cells as they are finished, with only a few waiting in the pool: what is not begun need not be called back."""
    rest = iter(cells)
    running: dict[Future[dict[str, Any]], Cell] = {}
    while True:
        for cell in rest:
            running[pool.submit(_measured_here, cell)] = cell
            if len(running) >= at_once:
                break
        if not running:
            return
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            yield running.pop(future), future.result()


_work: StudyPlan | None = None
"""What this process works on, if it was started for a study."""


def _start(work: StudyPlan, parent: int) -> None:
    """Begin a worker of a study."""
    global _work
    _work = work
    begin_worker(parent)


def _measured_here(cell: Cell) -> dict[str, Any]:
    if _work is None:
        raise RuntimeError("this process was not started for a study")
    return _measured(_work, cell)


def _measured(work: StudyPlan, cell: Cell) -> dict[str, Any]:
    """The figures of one release, or why there is none."""
    told = {"label": cell.label, "method": cell.method, "repeat": cell.repeat}
    try:
        release = api.protect(work.data, cell.method, seed=cell.seed, **{**work.roles, **cell.parameters})
        judged = _judged(work, release)
    except MicroveilError as error:
        return {**told, "failed": str(error)}
    figures = {name: measure.value for name, measure in judged.items()}
    if judged.worst_gain is not None:
        figures = {**{name: value for name, value in figures.items() if name != WORST}, WORST: judged.worst_gain}
    chances = {name: measure.chance for name, measure in judged.items() if measure.chance is not None}
    return {**told, "figures": _finite(figures), "chances": chances}


def _judged(work: StudyPlan, release: Release) -> Assessment:
    """The release measured on the columns that were protected; or risk on the sensitive ones, and the rest on all."""
    if work.sensitive is None:
        return api.assess_release(work.data, release, measures=list(work.measures), sanity=False)
    beside = {name: work.roles[name] for name in ("confidential", "strata", "weight")}
    compared = list(api.columns_by_role(work.data, {**beside, "public": None}).confidential)
    options = {"rules": work.roles["rules"], "sensitive": list(work.sensitive), "seed": release.seed, "sanity": False}
    return api.assess(work.data, release, confidential=compared, measures=list(work.measures), **options)


def _finite(figures: Mapping[str, float]) -> dict[str, float]:
    """JSON has no infinity; a figure that is infinite (a divergence of singular matrices) is a missing one."""
    return {name: value for name, value in figures.items() if abs(value) < float("inf")}


def _study(
    data: Any,
    planned: Mapping[str, tuple[str, Mapping[str, Any]]],
    ids: Sequence[str],
    cells: Sequence[tuple[str, Mapping[str, Any]]],
) -> Study:
    figures: dict[str, list[Mapping[str, float]]] = {}
    chances: dict[str, Mapping[str, float]] = {}
    failed: dict[str, str] = {}
    for label, cell in cells:
        if "failed" in cell:
            failed.setdefault(label, cell["failed"])
            continue
        figures.setdefault(label, []).append(cell["figures"])
        chances.setdefault(label, cell["chances"])
    for label in failed:
        figures.pop(label, None)  # a mean over those that happened to succeed would flatter it
    fixed = {label for label, (method, given) in planned.items() if not api.draws_at_random(method, _own(given))}
    return Study(planned, figures, chances, api.measure_entries(), failed, api.frame_maker(data), ids, fixed)
