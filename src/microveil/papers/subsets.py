"""Calviño, Aldeguer and Domingo-Ferrer (2017), Fig. 4: all subsets of components and of factors, and all group sizes.

A component that is swapped moves the table by the same amounts whatever else is swapped. So a release of a subset is
the table and what each of its components moves, and the releases of all subsets are sums of a few; and what a score
needs of the original is found once. Configurations are narrowed: all have a few releases, the best of them more, and
the figures of the best one are of releases that had no part in choosing it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from microveil.core.arrays import Array
from microveil.core.rng import Streams
from microveil.core.table import Matrix
from microveil.measures.risk.interval import PERCENTS
from microveil.measures.utility.information_loss import (
    QUANTILES,
    losses,
    quantile_variances,
    statistics_of,
    variances_of,
)
from microveil.measures.utility.moments import ColumnMoments
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

ROUND_OFF = 1e-10
"""Of squared distances, in variances of the columns."""


class Summaries:
    """The parts of the score `summary` (eq. 1) for many releases of one table of numbers, none of them missing.

    They are those of `assess`, without chance and intervals; what is the same for all releases is worked out once.
    """

    def __init__(self, data: Array) -> None:
        self.table, self.mean, self.sd = Matrix.from_array(data), data.mean(axis=0), data.std(axis=0)
        self.before = (data - self.mean) / self.sd
        old, ordered = ColumnMoments.of(self.before), np.sort(self.before, axis=0)
        self.statistics, self.variances = statistics_of(old, shape=True), dict(variances_of(old, shape=True))
        self.quantiles = np.quantile(ordered, QUANTILES, axis=0)
        of_columns = zip(ordered.T, self.quantiles.T, strict=True)
        self.quantile_variances = np.column_stack([quantile_variances(column, at) for column, at in of_columns])
        self.asking = np.column_stack([-2 * self.before, np.ones(len(data))])

    def quick(self, released: Array) -> float:
        """The sum of information loss, linkage and interval disclosure: the whole sum is not below it."""
        after = (released - self.mean) / self.sd
        return self.loss(after) + self.linked(after) + self.disclosed(after)

    def slow(self, released: Array) -> float:
        """The propensity, which takes longer than the other parts together."""
        return propensity_2(self.table, Matrix.from_array(released)).value

    def whole(self, released: Array) -> float:
        """The score."""
        return (self.quick(released) + self.slow(released)) / PARTS

    def loss(self, after: Array) -> float:
        """`pil7` of a release in standard deviations of the original."""
        moved = statistics_of(ColumnMoments.of(after), shape=True)
        groups = [losses(self.statistics[name], moved[name], variance) for name, variance in self.variances.items()]
        groups.append(losses(self.quantiles, np.quantile(after, QUANTILES, axis=0), self.quantile_variances))
        return float(np.mean([group.mean() for group in groups]))

    def linked(self, after: Array) -> float:
        """`dbrl`; of k records at the same distance each counts 1/k."""
        # Squared distances, but for what is the same for all released records.
        squares = self.asking @ np.column_stack([after, np.square(after).sum(axis=1)]).T
        limit = squares.min(axis=1) + ROUND_OFF
        right = np.flatnonzero(squares.diagonal() <= limit)
        tied = (squares[right] <= limit[right, None]).sum(axis=1)
        return float((1 / tied).sum() / len(after))

    def disclosed(self, after: Array) -> float:
        """`interval_disclosure_own`: by how many ranks an interval has to reach for the value to be in it."""
        count = len(after)
        reaches = np.array([int(count * percent / 100 + 1e-9) for percent in PERCENTS])
        hits = 0
        for values, released in zip(self.before.T, after.T, strict=True):
            order = np.argsort(released, kind="stable")
            rank = np.empty(count, dtype=np.intp)
            rank[order] = np.arange(count)
            below, upto = (np.searchsorted(released[order], values, side) for side in ("left", "right"))
            reach = np.maximum(rank - upto + 1, below - rank)
            reach[(upto == 0) | (below == count)] = count  # outside of all that is released
            hits += int(np.searchsorted(np.sort(reach), reaches, "right").sum())
        return hits / (len(PERCENTS) * after.size)


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
        """So many, for a stage of the search; those of another stage are others."""
        stream = Streams.from_seed(seed).stream("subsets", family.method, stage)
        return cls(data, family, [int(one) for one in stream.generator().integers(2**63, size=count)])

    def added_up(self) -> Releases:
        """The same, where components are swapped one by one; of group sizes nothing can be added up."""
        count = self.family.subsets_of
        if not count:
            return self
        orders = [Streams.from_seed(seed).stream("components").generator() for seed in self.seeds]
        seeds = [int(one) for order in orders for one in order.integers(2**63, size=count)]
        moves = [_moved(self.data, self.family, place % count, one) for place, one in enumerate(seeds)]
        amounts = np.array([amount for amount, _ in moves]).reshape(len(orders), count, -1)
        directions = np.array([direction for _, direction in moves[:count]])
        return replace(self, amounts=np.swapaxes(amounts, 1, 2), directions=directions)

    def of(self, configuration: int) -> list[Array]:
        """The releases of one configuration."""
        if self.amounts is not None and self.directions is not None:
            chosen = self.family.dose_of(configuration)
            return [self.data + amounts[:, chosen] @ self.directions[chosen] for amounts in self.amounts]
        return [_released(self.data, self.family, self.family.dose_of(configuration), seed) for seed in self.seeds]


def _released(data: Array, family: Family, dose: int | list[int], seed: int) -> Array:
    """One release, by the method itself."""
    given = {family.dose: dose, **family.fixed}
    return np.asarray(protect(data, family.method, seed=seed, rules=None, **given).data)


def _moved(data: Array, family: Family, component: int, seed: int) -> tuple[Array, Array]:
    """What a component that is swapped alone adds to each record (n), and in which direction (p)."""
    moved = _released(data, family, [component], seed) - data
    direction = moved[np.argmax(np.square(moved).sum(axis=1))]
    # The direction of the first order is that of all others: its sign and length are those of the loadings.
    direction = direction * np.sign(direction[np.argmax(np.abs(direction))]) / np.linalg.norm(direction)
    return moved @ direction, direction


def _scores(releases: Releases, part: str, configurations: Sequence[int]) -> list[list[float]]:
    """A `part` of the score, or the whole, of every release of these configurations."""
    score = getattr(Summaries(releases.data), part)
    return [[score(release) for release in releases.of(number)] for number in configurations]


def _scored(releases: Releases, part: str, configurations: Sequence[int], run: InProcesses[Any, Any]) -> Array:
    """The same in processes: configurations x releases."""
    tasks = [configurations[start : start + BATCH] for start in range(0, len(configurations), BATCH)]
    return np.array(list(chain.from_iterable(run(partial(_scores, releases, part), tasks))))


def least_means(releases: Releases, most: int, run: InProcesses[Any, Any]) -> list[int]:
    """The configurations with the least mean score of these releases, best first; exactly so many, if there are.

    Propensity is looked at in the order of what the other parts come to, until no rest can be among the best.
    """
    numbers = list(releases.family.configurations)
    quick = _scored(releases, "quick", numbers, run).mean(axis=1)
    order = np.argsort(quick, kind="stable").tolist()
    whole: dict[int, float] = {}
    for start in range(0, len(order), 8 * BATCH):
        batch, best = order[start : start + 8 * BATCH], sorted(whole.values())
        if len(best) >= most and quick[batch[0]] >= best[most - 1]:
            break
        slow = _scored(releases, "slow", [numbers[place] for place in batch], run).mean(axis=1)
        whole |= dict(zip(batch, (quick[batch] + slow).tolist(), strict=True))
    return [numbers[place] for place in sorted(whole, key=whole.__getitem__)[:most]]


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
    """The configuration with the smallest 97.5th percentile of the score, on a table (records x columns)."""

    def drawn(stage: str, count: int) -> Releases:
        return Releases.drawn(data, family, stage, count, seed)

    chosen = least_means(drawn("screened", stages.screened).added_up(), stages.kept, run)
    found = _scored(drawn("kept", stages.chosen_by).added_up(), "whole", chosen, run)
    high = np.percentile(found, PERCENTILES["97.5 %"], axis=1)
    best = chosen[int(np.argmin(high))]
    (scores,) = _scores(drawn("best", stages.released), "whole", [best])
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
