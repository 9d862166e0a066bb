"""How our figures are made: by `compare` where measures are taken, else by releases from which figures are read off."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from microveil import api
from microveil.core.results import Release
from microveil.core.rng import Streams
from microveil.studies.compare import compare
from microveil.studies.published.base import Asked, Found, Place

Methods = Mapping[str, tuple[str, Mapping[str, Any]]]


def measured(
    data: Any,
    methods: Methods,
    figures: Mapping[str, str],
    asked: Asked,
    *,
    sensitive: Sequence[int] | None = None,
    scale: float = 1.0,
) -> Found:
    """A study of the methods, by row; `figures` has the measure behind each printed figure, which may be rescaled."""
    study = compare(
        data,
        methods,
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


def releases(data: Any, method: str, asked: Asked, **parameters: Any) -> Iterator[Release]:
    """Releases one after the other, from seeds of their own."""
    streams = Streams.from_seed(asked.seed)
    for repeat in range(asked.repeats):
        seed = int(streams.stream("reproduce", repeat).generator().integers(2**63))
        yield api.protect(data, method, seed=seed, rules=None, **parameters)
        asked.progress(f"protecting by {method}", (repeat + 1) / asked.repeats)


def read_off(made: Iterable[Release], read: Callable[[Release], Mapping[Place, float]]) -> Found:
    """The same figures of every release."""
    values: dict[Place, list[float]] = {}
    for release in made:
        for place, value in read(release).items():
            values.setdefault(place, []).append(float(value))
    return Found(values)
