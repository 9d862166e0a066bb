"""The first of the three steps: what is measured of the data, with noise. No other step sees a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Index
from microveil.private import moments
from microveil.private.budget import COUNT_SHARE, split
from microveil.private.differences import near_moments
from microveil.private.distributions import Distribution, Scale, amount_distribution, category_shares
from microveil.private.mechanism import Account
from microveil.private.moments import CUT_OFF

LEAST_PRESENT = 0.05
"""Least share of records that are taken to have an amount."""


@dataclass(frozen=True, repr=False)
class Records:
    """The data as the mechanisms see them: cells of amounts (-1: missing), levels of categories (-1: none of them)."""

    rows: int
    amounts: Mapping[str, tuple[Scale, NDArray[np.int64]]]
    categories: Mapping[str, tuple[int, Index]]
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

    near: Mapping[str, Mapping[tuple[int, int], float]] = field(default_factory=dict)
    """Moments of amounts that are nearly alike, by group: better known than others, as their differences were asked."""


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
    by_group, noise = {}, {}
    asked = groups(records, found, shares, list(budget.groups), budget.cut_off)
    for group in asked:
        rho = budget.groups[group.name]
        answers = group.noisy(account, rho, count)
        # Where values are heaped, the means of waves are not 0.
        by_group[group.name] = {
            (a.column, b.column): part / (there[a.column] * there[b.column]) - np.outer(a.means, b.means)
            for (a, b), part in zip(group.pairs, answers, strict=True)
        }
        for name, absence in records.absences.items():  # of cells that are not there nothing is known
            own = list(found).index(name), len(found) + list(shares).index(absence)
            if own in by_group[group.name]:
                by_group[group.name][own] = np.zeros_like(by_group[group.name][own])
        noise[group.name] = account.noise_sd(group.sensitivity, rho) / (moments.UNIT**2 * count)
    single = [group for group in asked if group.name in (moments.RANKS, moments.VALUES)]
    near = near_moments(single, by_group, noise, account, budget.near, count * np.outer(there, there))
    return Targets(count, found, shares, by_group, noise, budget.cut_off, near)


def amount_features(distribution: Distribution, cut_off: float) -> moments.Features:
    """The waves and the value of every cell of an amount; the last row, of no cell, is that of a missing one."""
    cells = np.arange(distribution.scale.cells)
    ranks, values = distribution.ranks(cells), distribution.scale.values_at(cells.astype(np.float64) + 0.5)
    found = [moments.waves(ranks, order) for order in range(1, moments.WAVES + 1)]
    found.append(moments.values_cut_off(values, *distribution.mean_and_sd, cut_off))
    return np.vstack([np.column_stack(found), np.zeros(len(found))])


def groups(
    records: Records,
    found: Mapping[str, Distribution],
    shares: Mapping[str, Array],
    names: Sequence[str],
    cut_off: float = CUT_OFF,
) -> list[moments.MomentGroup]:
    """The groups of queries with these names; their features depend on a record and on noisy distributions only."""
    first, shaped, valued, spread = [], [], [], []
    wave, value, count = moments.WAVE_BOUND**2, moments.value_bound(cut_off) ** 2, moments.WAVES
    for at, (name, (scale, cells)) in enumerate(records.amounts.items()):
        by_cell = amount_features(found[name], cut_off)
        own, even = by_cell[cells], by_cell[scale.cells_of(found[name].even)] / moments.UNIT
        means, squares = even.mean(axis=0), np.square(even).mean(axis=0)
        first.append(moments.Block(at, own[:, :1], wave, means[:1], squares[:1]))
        shaped.append(moments.Block(at, own[:, :count], count * wave, means[:count]))
        valued.append(moments.Block(at, own[:, count:], value, means[count:], squares[count:]))
        spread.append(moments.Block(at, own[:, 1:], moments.spread_bound(cut_off), means[1:]))
    levels = []
    for at, (name, (size, codes)) in enumerate(records.categories.items(), len(records.amounts)):
        by_level = np.vstack([moments.level_features(size), np.zeros(size)])
        means = shares[name] @ by_level[:-1] / moments.UNIT
        levels.append(moments.Block(at, by_level[codes], moments.level_bound(size), means))
    pairs = {
        moments.RANKS: list(combinations(first, 2)),
        moments.VALUES: list(combinations(valued, 2)),
        moments.SHAPES: list(combinations(shaped, 2)),
        moments.MEANS: list(product(first, levels)),
        moments.TABLES: list(combinations(levels, 2)),
        moments.SPREADS: list(product(spread, levels)),
    }
    return [moments.MomentGroup(name, pairs[name]) for name in names]
