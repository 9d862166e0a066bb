"""How our figures are made: by `compare` where measures are taken, else by releases from which figures are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from microveil.core.errors import ParameterError
from microveil.core.rng import Streams
from microveil.core.threads import worker_count
from microveil.methods import method_named
from microveil.papers.published import Found, Place, RunOptions
from microveil.papers.sources import SOURCES
from microveil.protection.in_memory import protect
from microveil.release.release import Release
from microveil.studies.compare import Methods, compare
from microveil.studies.workers import task_pool

Item = TypeVar("Item")
Made = TypeVar("Made")


def measured(
    options: RunOptions,
    *,
    data: Any,
    methods: Methods,
    measures: Mapping[str, str],
    sensitive: Sequence[int] | None = None,
    scales: Mapping[str, float] | None = None,
) -> Found:
    """A study of methods, by row. `data` is a table or the name of one of `SOURCES`.

    `measures` has the measure behind each column, `scales` what the columns are multiplied by that print another scale.
    """
    study = compare(
        SOURCES[data]() if isinstance(data, str) else data,
        {row: (name, as_printed(name, given)) for row, (name, given) in methods.items()},
        repeats=options.repeats,
        measures=list(dict.fromkeys(measures.values())),
        seed=options.seed,
        rules=None,
        sensitive=sensitive,
        workers=options.workers,
        store=options.store,
        progress=options.progress,
    )
    values = {
        (row, column): ((scales or {}).get(column, 1.0) * study.values(row, measure)).tolist()
        for row in study.figures
        for column, measure in measures.items()
    }
    return Found(values, study.failed)


def as_printed(method: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with which a method carries every score, as in the papers, those of dominating records too."""
    kept = {**parameters, "dominated": "keep"}
    try:
        method_named(method).plan(kept)
    except ParameterError:
        return dict(parameters)
    return kept


def releases(data: Any, method: str, options: RunOptions, **parameters: Any) -> Iterator[Release]:
    """Releases one after the other, from seeds of their own."""
    streams = Streams.from_seed(options.seed)
    for repeat in range(options.repeats):
        seed = int(streams.stream("reproduce", repeat).generator().integers(2**63))
        yield protect(data, method, seed=seed, rules=None, **as_printed(method, parameters))
        options.progress(f"protecting by {method}", (repeat + 1) / options.repeats)


def once(seed: int | None = 0) -> RunOptions:
    """For one release, in this process."""
    return RunOptions(1, seed, 1, lambda *_: None)


def collect(found: Iterable[Mapping[Place, float]]) -> dict[Place, list[float]]:
    """The same figures of every release."""
    values: dict[Place, list[float]] = {}
    for figures in found:
        for place, value in figures.items():
            values.setdefault(place, []).append(float(value))
    return values


def part_of(options: RunOptions, number: int, of: int) -> RunOptions:
    """The same for one part of the work, whose progress is a part of the whole."""
    return replace(options, progress=lambda step, share: options.progress(step, (number + share) / of))


InProcesses = Callable[[Callable[[Item], Made], Sequence[Item]], list[Made]]
"""Does the work on every item, and gives back what is made, in the order of the items."""


@contextmanager
def processes(options: RunOptions) -> Iterator[InProcesses[Any, Any]]:
    """For one piece of work after the other in the same processes, as many as the options say; here, if it is one."""
    with task_pool(_done, None, options.workers or worker_count()) as pool:

        def run(work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
            found: dict[int, Any] = {}

            def finished(number: int, made: Any) -> None:
                found[number] = made
                options.progress("protecting and measuring", len(found) / len(items))

            pool([partial(work, item) for item in items], finished)
            return [found[number] for number in range(len(items))]

        yield run


def _done(_: None, task: Callable[[], Made]) -> Made:
    return task()


def in_processes(work: Callable[[Item], Made], items: Sequence[Item], options: RunOptions) -> list[Made]:
    """The work on every item, in as many processes as the options say."""
    with processes(options) as run:
        return run(work, items)
