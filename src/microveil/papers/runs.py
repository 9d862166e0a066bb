"""How our figures are made: by `compare` where measures are taken, else by releases from which figures are read off."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from microveil import api
from microveil.core.errors import ParameterError
from microveil.core.rng import Streams
from microveil.core.threads import worker_count
from microveil.papers.base import Found, Place, RunOptions, Tolerance
from microveil.release.release import Release
from microveil.studies.compare import compare
from microveil.studies.workers import begin_worker, worker_pool

Item = TypeVar("Item")
Made = TypeVar("Made")
Methods = Mapping[str, tuple[str, Mapping[str, Any]]]

TEXT = "the text"
"""The row of what a paper says of a picture."""

SAYS = Tolerance("the text says so (1), and ours show it (1) or not (0)")
SHOWN = Tolerance("the figure has no numbers")


def measured(
    data: Any,
    methods: Methods,
    figures: Mapping[str, str],
    asked: RunOptions,
    *,
    sensitive: Sequence[int] | None = None,
    scale: float = 1.0,
) -> Found:
    """A study of the methods, by row; `figures` has the measure behind each printed figure, which may be rescaled."""
    study = compare(
        data,
        {row: (name, as_printed(name, given)) for row, (name, given) in methods.items()},
        repeats=asked.repeats,
        measures=list(dict.fromkeys(figures.values())),
        seed=asked.seed,
        rules=None,
        sensitive=sensitive,
        workers=asked.workers,
        progress=asked.progress,
    )
    values = {
        (row, figure): (scale * study.values(row, measure)).tolist()
        for row in study.figures
        for figure, measure in figures.items()
    }
    return Found(values, study.failed)


def as_printed(method: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with which a method carries every score, as in the papers, those of dominating records too."""
    kept = {**parameters, "dominated": "keep"}
    try:
        api.check_method(method, kept)
    except ParameterError:
        return dict(parameters)
    return kept


def releases(data: Any, method: str, asked: RunOptions, **parameters: Any) -> Iterator[Release]:
    """Releases one after the other, from seeds of their own."""
    streams = Streams.from_seed(asked.seed)
    for repeat in range(asked.repeats):
        seed = int(streams.stream("reproduce", repeat).generator().integers(2**63))
        yield api.protect(data, method, seed=seed, rules=None, **as_printed(method, parameters))
        asked.progress(f"protecting by {method}", (repeat + 1) / asked.repeats)


def read_off(made: Iterable[Release], read: Callable[[Release], Mapping[Place, float]]) -> Found:
    """The same figures of every release."""
    values: dict[Place, list[float]] = {}
    for release in made:
        for place, value in read(release).items():
            values.setdefault(place, []).append(float(value))
    return Found(values)


def said(claims: Mapping[str, bool]) -> dict[Place, list[float]]:
    """What a text says, as figures: 1 where ours show it, 0 where they do not."""
    return {(TEXT, claim): [float(holds)] for claim, holds in claims.items()}


def part_of(asked: RunOptions, number: int, of: int) -> RunOptions:
    """The same for one part of the work, whose progress is a part of the whole."""
    return replace(asked, progress=lambda step, share: asked.progress(step, (number + share) / of))


def in_processes(work: Callable[[Item], Made], items: Sequence[Item], asked: RunOptions) -> list[Made]:
    """The work on every item, in as many processes as are asked for; in this one, if it is one."""
    workers = min(asked.workers or worker_count(), len(items))
    if workers == 1:
        return _told(map(work, items), len(items), asked)
    with worker_pool(workers, begin_worker, os.getpid()) as pool:
        return _told(pool.map(work, items), len(items), asked)


def _told(made: Iterable[Made], count: int, asked: RunOptions) -> list[Made]:
    found = []
    for done, one in enumerate(made, start=1):
        found.append(one)
        asked.progress("protecting and measuring", done / count)
    return found
