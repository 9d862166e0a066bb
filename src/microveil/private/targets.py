"""The first of the three steps: what is measured of the data, with noise. No other step sees a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.private.budget import COUNT_SHARE, split
from microveil.private.distributions import Distribution, amount_distribution, category_shares
from microveil.private.mechanism import Account
from microveil.private.moments import (
    MEANS,
    RANKS,
    SHAPES,
    TABLES,
    UNIT,
    VALUE_BOUND,
    VALUES,
    WAVE_BOUND,
    WAVES,
    Block,
    MomentGroup,
    level_bound,
    level_features,
    pairs_of,
    values_cut_off,
    waves,
)
from microveil.private.scale import Scale

LEAST_PRESENT = 0.05
"""Least share of records that are taken to have an amount."""


@dataclass(frozen=True, repr=False)
class Records:
    """The data as the mechanisms see them: cells of amounts (-1: missing), levels of categories (-1: none of them)."""

    rows: int
    amounts: Mapping[str, tuple[Scale, NDArray[np.int64]]]
    categories: Mapping[str, tuple[int, NDArray[np.intp]]]
    """By name the number of levels, and the level of each record."""

    absences: Mapping[str, str] = field(default_factory=dict)
    """By the name of an amount that of the category which tells where it is missing (level 1)."""


@dataclass(frozen=True, repr=False)
class Targets:
    """What is known after the measurements: nothing else about the data goes into a release.

    Moments are per record, by the places of two columns (amounts first, in their order), features x features. Those of
    `ranks` are a number for each pair.
    """

    count: float
    distributions: Mapping[str, Distribution]
    shares: Mapping[str, Array]
    moments: Mapping[str, Mapping[tuple[int, int], Array]]
    noise: Mapping[str, float]
    """The standard deviation of the noise of a moment, by group."""


def measured(records: Records, account: Account, check: Callable[[float], None] = lambda _: None) -> Targets:
    """All measurements: the number of records, the distributions, and then the moments by what these say.

    `check` is called with the noisy number of records before anything else is asked.
    """
    first = account.rho * COUNT_SHARE
    count = float(account.noisy("number of records", np.array([records.rows]), 1.0, first)[0])
    count = max(count, 1.0)
    check(count)
    sizes = [size for size, _ in records.categories.values()]
    budget = split(account.rho - first, count, len(records.amounts), sizes, account.contributions)
    paid = iter(budget.distributions)
    found = {
        name: amount_distribution(account, name, scale, cells, count=count, rho=next(paid))
        for name, (scale, cells) in records.amounts.items()
    }
    shares = {
        name: category_shares(account, name, codes, size, rho=next(paid))
        for name, (size, codes) in records.categories.items()
    }
    # Moments of an amount are over the records that have it; in the release all do, until cells are taken out.
    there = [1 - shares[records.absences[name]][1] if name in records.absences else 1.0 for name in found]
    there = [max(share, LEAST_PRESENT) for share in there] + [1.0] * len(shares)
    moments, noise = {}, {}
    for group in groups(records, found, list(budget.groups)):
        rho = budget.groups[group.name]
        answers = group.noisy(account, rho, count)
        moments[group.name] = {
            (one.column, other.column): part / (there[one.column] * there[other.column])
            for (one, other), part in zip(group.pairs, answers, strict=True)
        }
        noise[group.name] = account.noise_sd(group.sensitivity, rho) / (UNIT**2 * count)
    return Targets(count, found, shares, moments, noise)


def groups(records: Records, found: Mapping[str, Distribution], names: Sequence[str]) -> list[MomentGroup]:
    """The groups of queries with these names; their features depend on a record and on noisy distributions only."""
    first, shaped, valued = [], [], []
    for at, (name, (scale, cells)) in enumerate(records.amounts.items()):
        distribution = found[name]
        there = cells >= 0
        ranks = np.where(there, distribution.ranks(cells), np.nan)
        all_waves = np.column_stack([waves(ranks, order) for order in range(1, WAVES + 1)])
        first.append(Block(at, all_waves[:, :1], WAVE_BOUND**2))
        shaped.append(Block(at, all_waves, WAVES * WAVE_BOUND**2))
        if VALUES in names:
            values = np.where(there, scale.values_at(np.maximum(cells, 0) + 0.5), np.nan)
            valued.append(Block(at, values_cut_off(values, *distribution.mean_and_sd)[:, None], VALUE_BOUND**2))
    levels = []
    for at, (size, codes) in enumerate(records.categories.values(), len(records.amounts)):
        features = np.vstack([level_features(size), np.zeros(size)])[codes]
        levels.append(Block(at, features, level_bound(size)))
    crossed = [(one, other) for one in first for other in levels]
    pairs = {
        RANKS: pairs_of(first),
        VALUES: pairs_of(valued),
        SHAPES: pairs_of(shaped),
        MEANS: crossed,
        TABLES: list(combinations(levels, 2)),
    }
    return [MomentGroup(name, pairs[name]) for name in names]
