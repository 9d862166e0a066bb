"""The first of the three steps: what is measured of the data, with noise. No other step sees a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.private.budget import COUNT_SHARE, split
from microveil.private.distributions import EVEN, Distribution, amount_distribution, category_shares
from microveil.private.mechanism import Account
from microveil.private.moments import (
    CUT_OFF,
    MEANS,
    RANKS,
    SHAPES,
    SPREADS,
    TABLES,
    UNIT,
    VALUES,
    WAVE_BOUND,
    WAVES,
    Block,
    MomentGroup,
    level_bound,
    level_features,
    pairs_of,
    spread_bound,
    value_bound,
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

    Moments are centred and per record, by the places of two columns (amounts first, in their order), features x
    features. Those of `ranks` are a number for each pair.
    """

    count: float
    distributions: Mapping[str, Distribution]
    shares: Mapping[str, Array]
    moments: Mapping[str, Mapping[tuple[int, int], Array]]
    noise: Mapping[str, float]
    """The standard deviation of the noise of a moment, by group."""

    cut_off: float = CUT_OFF
    """Standard deviations at which values were cut off."""


def measured(records: Records, account: Account, check: Callable[[float], None] = lambda _: None) -> Targets:
    """All measurements: the number of records, the distributions, and then the moments by what these say.

    `check` is called with the noisy number of records before anything else is asked.
    """
    first = account.rho * COUNT_SHARE
    count = float(account.noisy("number of records", np.array([records.rows]), 1.0, first)[0])
    count = max(count, 1.0)
    check(count)
    sizes = [size for size, _ in records.categories.values()]
    budget = split(account.rho * (1 - COUNT_SHARE), count, len(records.amounts), sizes, account.contributions)
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
    names, even = list(budget.groups), _even_records(found, shares)
    asked = (groups(those, found, names, budget.cut_off) for those in (records, even))
    for group, evenly in zip(*asked, strict=True):
        rho = budget.groups[group.name]
        answers = group.noisy(account, rho, count)
        # Where values are heaped, the means of waves are not 0.
        moments[group.name] = {
            (one.column, other.column): part / (there[one.column] * there[other.column]) - np.outer(*means)
            for (one, other), part, means in zip(group.pairs, answers, evenly.means, strict=True)
        }
        for name, absence in records.absences.items():  # of cells that are not there nothing is known
            own = list(found).index(name), len(found) + list(shares).index(absence)
            if own in moments[group.name]:
                moments[group.name][own] = np.zeros_like(moments[group.name][own])
        noise[group.name] = account.noise_sd(group.sensitivity, rho) / (UNIT**2 * count)
    return Targets(count, found, shares, moments, noise, budget.cut_off)


def _even_records(found: Mapping[str, Distribution], shares: Mapping[str, Array]) -> Records:
    """Records that have the noisy distributions, column by column."""
    at = (np.arange(EVEN) + 0.5) / EVEN
    amounts = {name: (one.scale, one.scale.cells_of(one.even)) for name, one in found.items()}
    levels = {name: (share.size, np.searchsorted(np.cumsum(share)[:-1], at)) for name, share in shares.items()}
    return Records(EVEN, amounts, levels)


def groups(
    records: Records, found: Mapping[str, Distribution], names: Sequence[str], cut_off: float = CUT_OFF
) -> list[MomentGroup]:
    """The groups of queries with these names; their features depend on a record and on noisy distributions only."""
    first, shaped, valued, spread = [], [], [], []
    for at, (name, (scale, cells)) in enumerate(records.amounts.items()):
        distribution = found[name]
        there = cells >= 0
        ranks = np.where(there, distribution.ranks(cells), np.nan)
        all_waves = np.column_stack([waves(ranks, order) for order in range(1, WAVES + 1)])
        first.append(Block(at, all_waves[:, :1], WAVE_BOUND**2))
        shaped.append(Block(at, all_waves, WAVES * WAVE_BOUND**2))
        values = np.where(there, scale.values_at(np.maximum(cells, 0) + 0.5), np.nan)
        cut = values_cut_off(values, *distribution.mean_and_sd, cut_off)[:, None]
        valued.append(Block(at, cut, value_bound(cut_off) ** 2))
        spread.append(Block(at, np.hstack([cut, all_waves[:, 1:]]), spread_bound(cut_off)))
    levels = []
    for at, (size, codes) in enumerate(records.categories.values(), len(records.amounts)):
        features = np.vstack([level_features(size), np.zeros(size)])[codes]
        levels.append(Block(at, features, level_bound(size)))
    pairs = {
        RANKS: pairs_of(first),
        VALUES: pairs_of(valued),
        SHAPES: pairs_of(shaped),
        MEANS: list(product(first, levels)),
        TABLES: list(combinations(levels, 2)),
        SPREADS: list(product(spread, levels)),
    }
    return [MomentGroup(name, pairs[name]) for name in names]
