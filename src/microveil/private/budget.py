"""How the budget is split, and what a release will be off by: neither needs any data.

The split goes by the (noisy) number of records, the columns as declared, and epsilon alone. The error of a group of
queries falls with the root of its cost, so that the weighted sum of all errors is least when costs go by (importance x
sensitivity) ^ (2/3). Groups whose noise would be larger than what they can tell are left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from microveil.core.errors import ParameterError
from microveil.private import moments
from microveil.private.distributions import EXPLORING
from microveil.private.mechanism import Account

COUNT_SHARE = 0.03
"""Share of the budget for the number of records, by which all sums are divided: in a table of three columns, the error
that this leaves in a correlation of one half is about as large as the noise on its sum."""

DISTRIBUTIONS, MORE_DISTRIBUTIONS, COARSE = 0.2, 0.4, 0.02
"""Share of the rest for the distributions of the columns; and where records are so few that the noise on a count would
be more than the last, as a share of them."""

NEAR_SHARE = 0.03
"""Share of what the moments get for differences of amounts that are nearly alike: it leaves them little noise."""

IMPORTANCE = {"ranks": 1.0, "values": 0.5, "shapes": 0.25, "means": 1.0, "tables": 2.5, "spreads": 0.25}
"""How much the error of a moment counts: tables are shares of cells, which are small."""

LIMIT = {"values": 0.04, "shapes": 0.04, "spreads": 0.005}
"""Standard deviation of the noise of a moment above which a group is left out."""

NO_NOISE = 0.002
"""Standard deviation of the noise of a correlation that does no harm: what is below it is used to cut off less."""


@dataclass(frozen=True)
class BudgetSplit:
    """What may be spent (zCDP) on each distribution, by the place of its column, on each group of moments, and on
    differences of amounts that are nearly alike; and at how many standard deviations values are cut off.
    """

    distributions: tuple[float, ...]
    groups: dict[str, float]
    near: float
    cut_off: float = moments.CUT_OFF


def sensitivities(amounts: int, levels: Sequence[int], cut_off: float = moments.CUT_OFF) -> dict[str, float]:
    """The L2 sensitivity of each group of moments, in units of a feature; without groups that have no pairs."""
    squares = [moments.level_bound(size) for size in levels]
    amount_pairs, value = math.comb(amounts, 2), moments.value_bound(cut_off) ** 2
    bounds = {
        moments.RANKS: [(moments.WAVE_BOUND**2, moments.WAVE_BOUND**2)] * amount_pairs,
        moments.VALUES: [(value, value)] * amount_pairs,
        moments.SHAPES: [(moments.WAVES * moments.WAVE_BOUND**2, moments.WAVES * moments.WAVE_BOUND**2)] * amount_pairs,
        moments.MEANS: [(moments.WAVE_BOUND**2, square) for square in squares] * amounts,
        moments.TABLES: list(combinations(squares, 2)),
        moments.SPREADS: [(moments.spread_bound(cut_off), square) for square in squares] * amounts,
    }
    return {name: moments.group_sensitivity(pairs) / moments.UNIT**2 for name, pairs in bounds.items() if pairs}


def split(rho: float, count: float, amounts: int, levels: Sequence[int], contributions: int = 1) -> BudgetSplit:
    """The split of what is left after the number of records has been counted.

    Args:
        rho: what there is to spend.
        count: records, about.
        amounts: columns of amounts.
        levels: the number of levels of each category.
        contributions: rows that a unit has at most.
    """
    columns = amounts + len(levels)
    coarse = contributions / math.sqrt(2 * rho * DISTRIBUTIONS / columns) > COARSE * count
    left = 1 - (MORE_DISTRIBUTIONS if coarse else DISTRIBUTIONS) if amounts + len(levels) > 1 else 0.0
    near = NEAR_SHARE * left if amounts > 1 else 0.0

    def chosen(cut_off: float) -> tuple[dict[str, float], dict[str, float]]:
        """What each group gets, and the noise of its moments."""
        sizes = sensitivities(amounts, levels, cut_off)
        while True:
            pull = {name: (IMPORTANCE[name] * size) ** (2 / 3) for name, size in sizes.items()}
            groups = {name: rho * ((left - near) * part / sum(pull.values())) for name, part in pull.items()}
            noise = {name: contributions * sizes[name] / math.sqrt(2 * groups[name]) / count for name in groups}
            poor = [name for name in noise if noise[name] > LIMIT.get(name, math.inf)]
            if not poor:
                return groups, noise
            del sizes[max(poor, key=lambda name: noise[name] / LIMIT[name])]

    groups, noise = chosen(moments.CUT_OFF)
    cut_off = moments.CUT_OFF
    if noise.get(moments.VALUES, math.inf) < NO_NOISE:
        cut_off = min(moments.CUT_OFF * math.sqrt(NO_NOISE / max(noise[moments.VALUES], 1e-9)), moments.MOST_CUT_OFF)
        groups, noise = chosen(cut_off)
    return BudgetSplit((rho * ((1 - left) / columns),) * columns, groups, rho * near, cut_off)


@dataclass(frozen=True)
class ExpectedError:
    """Standard deviations of the noise on what is measured; None for what is not, as noise would drown it.

    `rank_correlation` and `correlation` are those of one pair of amounts whose correlation is one half, `cell` that of
    one cell of a two-way table (as a share of the records), `group_mean` that of the mean rank score of a level, times
    the share of the level, and `distribution` that of the share of records below a middle value.
    """

    epsilon: float
    delta: float
    rows: int
    rank_correlation: float | None
    correlation: float | None
    group_mean: float | None
    cell: float | None
    distribution: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return dict(vars(self))


def expected_error(
    rows: int,
    amounts: int,
    levels: Sequence[int] = (),
    *,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    rows_per_unit: int = 1,
) -> ExpectedError:
    """How far off a release will be, by the mechanism alone: look before you spend.

    What it does not tell is what is lost where relations are not those of pairs of columns, by cutting values off, and
    by noise on the spread of a distribution, which can double the error of `correlation`.

    Args:
        rows: records, about.
        amounts: columns of amounts.
        levels: for each category how many levels it has.
        epsilon: the loss of privacy that is allowed.
        delta: the chance that the promise may fail by.
        rows_per_unit: rows of a unit that are used at most, where the promise is to units.
    """
    if rows < 1 or amounts < 0 or rows_per_unit < 1 or min(levels, default=1) < 1 or not (amounts or levels):
        raise ParameterError("expected_error: rows, columns, levels and rows_per_unit are counts", "give 1 at least")
    if not 0 < epsilon < math.inf or not 0 < delta < 1 or delta * rows >= 1:
        raise ParameterError("expected_error: epsilon is above 0, and delta below 1 / rows", "try 1 and 1e-6")
    account = Account(epsilon, delta, rows_per_unit)
    budget = split(account.rho * (1 - COUNT_SHARE), rows, amounts, list(levels), rows_per_unit)
    sizes = sensitivities(amounts, list(levels), budget.cut_off)
    noise = {name: account.noise_sd(sizes[name], rho) / rows for name, rho in budget.groups.items()}
    count = account.noise_sd(1.0, account.rho * COUNT_SHARE) / rows / 2  # sums are divided by a noisy count
    noise |= {name: math.hypot(noise[name], count) for name in (moments.RANKS, moments.VALUES) if name in noise}
    # Half of the runs are below the middle; their noise adds up, less what whole counts of the exploration know better.
    leaf = account.noise_sd(1.0, budget.distributions[0] * ((1 - EXPLORING) if amounts else 1.0))
    return ExpectedError(
        epsilon,
        delta,
        rows,
        noise.get(moments.RANKS),
        noise.get(moments.VALUES),
        noise.get(moments.MEANS),
        noise.get(moments.TABLES),
        2 * leaf / rows,
    )
