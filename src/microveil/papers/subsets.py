"""Calviño, Aldeguer and Domingo-Ferrer (2017), Fig. 4: all subsets of components and of factors, and all group sizes.

A component that is swapped moves the table by the same amounts whatever else is swapped. So a release of a subset is
the table and what each of its components moves, and the releases of all subsets are sums of a few. Configurations are
narrowed: all have a few releases, the best of them more, and the figures of the best one are of releases that had no
part in choosing it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from microveil.core.arrays import Array
from microveil.core.rng import Streams
from microveil.core.table import Matrix
from microveil.measures.risk.interval import interval_disclosure_own
from microveil.measures.risk.linkage import dbrl
from microveil.measures.utility.information_loss import pil7
from microveil.measures.utility.propensity import propensity_2
from microveil.papers.published import Found, Place, RunOptions
from microveil.papers.runs import InProcesses, as_printed, processes
from microveil.papers.sources import tarragona
from microveil.protection.in_memory import protect

PERCENTILES = {"2.5 %": 2.5, "median": 50.0, "97.5 %": 97.5}
PARTS = 4
"""Of the score `summary` (eq. 1), which is their mean."""

BATCH = 32
"""Configurations that a process scores at a time."""

Score = Callable[[Array, Array], float]
"""A figure of an original and its release, both records x columns."""


def quick(data: Array, released: Array) -> float:
    """The sum of information loss, linkage and interval disclosure: that of all parts is not below it."""
    before, after = Matrix.from_array(data), Matrix.from_array(released)
    return sum(part(before, after, **part.seeded(0)).value for part in (pil7, dbrl, interval_disclosure_own))


def slow(data: Array, released: Array) -> float:
    """The propensity, which takes about as long as the other parts together."""
    return propensity_2(Matrix.from_array(data), Matrix.from_array(released), seed=0).value


def whole(data: Array, released: Array) -> float:
    """The score `summary` (eq. 1), without its interval."""
    return (quick(data, released) + slow(data, released)) / PARTS


@dataclass(frozen=True)
class Family:
    """A method whose `dose` is what configurations differ in: subsets of so many components, or group sizes.

    `subsets_of` is the number of components; without it, `doses` has the first and the last whole number to try.
    """

    method: str
    dose: str
    fixed: Mapping[str, Any]
    subsets_of: int = 0
    doses: Sequence[int] = ()

    @classmethod
    def given(cls, method: str, dose: str, subsets_of: int = 0, doses: Sequence[int] = (), **fixed: Any) -> Family:
        """As an item has it: what is not named here are parameters of the method."""
        return cls(method, dose, as_printed(method, fixed), subsets_of, doses)

    @property
    def configurations(self) -> range:
        """Their numbers: bits say which components are in a subset; a group size is its own."""
        return range(1, 2**self.subsets_of) if self.subsets_of else range(self.doses[0], self.doses[1] + 1)

    def dose_of(self, configuration: int) -> Any:
        """The components of a subset (from 0), or the group size."""
        components = [number for number in range(self.subsets_of) if configuration >> number & 1]
        return components if self.subsets_of else configuration


@dataclass(frozen=True, repr=False)
class Releases:
    """Releases of every configuration of a family, from as many `seeds`, as the method makes them one by one.

    Those of subsets can be sums: a swapped component adds `amounts` (releases x records x components) to the records,
    along its `directions` (components x columns).
    """

    data: Array
    family: Family
    seeds: Sequence[int]
    amounts: Array | None = None
    directions: Array | None = None

    @classmethod
    def drawn(cls, data: Array, family: Family, stage: str, count: int, seed: int | None) -> Releases:
        """So many releases (`count`) of a table (records x columns), for a `stage` of the search."""
        stream = Streams.from_seed(seed).stream("subsets", family.method, stage)
        return cls(data, family, [int(one) for one in stream.generator().integers(2**63, size=count)])

    def added_up(self) -> Releases:
        """The same, where components are swapped one by one; of group sizes nothing can be added up."""
        count = self.family.subsets_of
        if not count:
            return self
        orders = [Streams.from_seed(seed).stream("components").generator() for seed in self.seeds]
        seeds = [int(one) for order in orders for one in order.integers(2**63, size=count)]
        moves = [self._moved(place % count, one) for place, one in enumerate(seeds)]
        amounts = np.array([amount for amount, _ in moves]).reshape(len(orders), count, -1)
        directions = np.array([direction for _, direction in moves[:count]])
        return replace(self, amounts=np.swapaxes(amounts, 1, 2), directions=directions)

    def of(self, configuration: int) -> list[Array]:
        """The releases of one configuration."""
        if self.amounts is not None and self.directions is not None:
            chosen = self.family.dose_of(configuration)
            return [self.data + amounts[:, chosen] @ self.directions[chosen] for amounts in self.amounts]
        return [self._released(self.family.dose_of(configuration), seed) for seed in self.seeds]

    def _released(self, dose: int | list[int], seed: int) -> Array:
        """One release, by the method itself."""
        given = {self.family.dose: dose, **self.family.fixed}
        return np.asarray(protect(self.data, self.family.method, seed=seed, rules=None, **given).data)

    def _moved(self, component: int, seed: int) -> tuple[Array, Array]:
        """What a component that is swapped alone adds to each record (n), and in which direction (p)."""
        moved = self._released([component], seed) - self.data
        direction = moved[np.argmax(np.square(moved).sum(axis=1))]
        # The direction of the first order is that of all others: its sign and length are those of the loadings.
        direction = direction * np.sign(direction[np.argmax(np.abs(direction))]) / np.linalg.norm(direction)
        return moved @ direction, direction


def _scores(releases: Releases, score: Score, configurations: Sequence[int]) -> list[list[float]]:
    """The score, or a part of it, of every release of these configurations."""
    return [[score(releases.data, release) for release in releases.of(number)] for number in configurations]


def _scored(releases: Releases, score: Score, configurations: Sequence[int], run: InProcesses[Any, Any]) -> Array:
    """The same in processes (`run`): configurations x releases."""
    tasks = [configurations[start : start + BATCH] for start in range(0, len(configurations), BATCH)]
    return np.array(list(chain.from_iterable(run(partial(_scores, releases, score), tasks))))


def least_means(releases: Releases, most: int, run: InProcesses[Any, Any]) -> list[int]:
    """The configurations with the least mean score of these releases, best first; exactly so many, if there are.

    Propensity is looked at in the order of what the other parts come to, until no rest can be among the best.
    """
    numbers = list(releases.family.configurations)
    least = _scored(releases, quick, numbers, run).mean(axis=1)
    order = np.argsort(least, kind="stable").tolist()
    found: dict[int, float] = {}
    for start in range(0, len(order), 8 * BATCH):
        batch, best = order[start : start + 8 * BATCH], sorted(found.values())
        if len(best) >= most and least[batch[0]] >= best[most - 1]:
            break
        rest = _scored(releases, slow, [numbers[place] for place in batch], run).mean(axis=1)
        found |= dict(zip(batch, (least[batch] + rest).tolist(), strict=True))
    return [numbers[place] for place in sorted(found, key=found.__getitem__)[:most]]


class Stages(NamedTuple):
    """Releases of all configurations, by whose mean so many are `kept`; releases they are chosen by; of the best."""

    screened: int
    kept: int
    chosen_by: int
    released: int


class Best(NamedTuple):
    """What a family comes to: scores of new releases of its best configuration, and how many there were."""

    scores: Sequence[float]
    configuration: int
    tried: int
    last_high: float
    """The 97.5th percentile of the last of those that were kept."""


def best_of(data: Array, family: Family, stages: Stages, seed: int | None, run: InProcesses[Any, Any]) -> Best:
    """The configuration with the smallest 97.5th percentile of the score, on a table (records x columns).

    The `stages` say how many releases there are, which the `seed` draws; `run` does the work in processes.
    """

    def drawn(stage: str, count: int) -> Releases:
        return Releases.drawn(data, family, stage, count, seed)

    chosen = least_means(drawn("screened", stages.screened).added_up(), stages.kept, run)
    found = _scored(drawn("kept", stages.chosen_by).added_up(), whole, chosen, run)
    high = np.percentile(found, PERCENTILES["97.5 %"], axis=1)
    best = chosen[int(np.argmin(high))]
    (scores,) = _scores(drawn("best", stages.released), whole, [best])
    return Best(scores, best, len(family.configurations), float(high.max()))


def best_configurations(
    options: RunOptions, *, families: Mapping[str, Mapping[str, Any]], screened: int, kept: int, released: int
) -> Found:
    """Of each family the configuration with the smallest 97.5th percentile of the score `summary`, on Tarragona.

    Args:
        options: seed, releases of those that are kept, and processes.
        families: by name, a `method`, its `dose`, what there is to try (see `Family`), and other parameters.
        screened: releases of all configurations.
        kept: configurations left after that.
        released: releases of the best one.
    """
    data, stages = tarragona(), Stages(screened, kept, options.repeats, released)
    values: dict[Place, list[float]] = {}
    best: dict[str, Array] = {}
    with processes(options) as run:
        for name, given in families.items():
            found = best_of(data, Family.given(**given), stages, options.seed, run)
            best[name] = np.percentile(found.scores, list(PERCENTILES.values()))
            values |= {(name, word): [float(end)] for word, end in zip(PERCENTILES, best[name], strict=True)}
            values[name, "configurations"] = [float(found.tried)]
            values[name, "components, or group size"] = [float(_size(found.configuration, given))]
            values[name, f"97.5 % of number {kept}"] = [found.last_high]
    return Found(values, claims=claims_of_best(best))


def _size(configuration: int, given: Mapping[str, Any]) -> int:
    return configuration.bit_count() if "subsets_of" in given else configuration


def claims_of_best(best: Mapping[str, Array]) -> list[bool]:
    """Does what the text says hold of the best configurations: 2.5th percentile, median and 97.5th of each family?"""
    low, median, high = (dict(zip(best, ends, strict=True)) for ends in zip(*best.values(), strict=True))
    return [
        bool(median["PCA"] < median["FA"]),
        bool(median["FA"] < median["M-AGG"]),
        bool(high["PCA"] < low["FA"]),
        bool(high["FA"] < low["M-AGG"]),
    ]
