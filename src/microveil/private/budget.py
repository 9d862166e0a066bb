"""How the budget is split: by the (noisy) number of records, the columns as declared, and epsilon alone.

The error of a group of queries falls with the root of its cost, so that the weighted sum of all errors is least when
costs go by (importance x sensitivity) ^ (2/3). Groups whose noise would be larger than what they can tell are left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from microveil.private.moments import (
    CUT_OFF,
    MEANS,
    MOST_CUT_OFF,
    RANKS,
    SHAPES,
    SPREADS,
    TABLES,
    UNIT,
    VALUES,
    WAVE_BOUND,
    WAVES,
    group_sensitivity,
    level_bound,
    spread_bound,
    value_bound,
)

COUNT_SHARE = 0.01
"""Share of the budget for the number of records."""

DISTRIBUTIONS, MORE_DISTRIBUTIONS, COARSE = 0.2, 0.4, 0.02
"""Share of the rest for the distributions of the columns; and where records are so few that the noise on a count would
be more than the last, as a share of them."""

IMPORTANCE = {"ranks": 1.0, "values": 0.5, "shapes": 0.25, "means": 1.0, "tables": 2.5, "spreads": 0.25}
"""How much the error of a moment counts: tables are shares of cells, which are small."""

LIMIT = {"values": 0.04, "shapes": 0.04, "spreads": 0.005}
"""Standard deviation of the noise of a moment above which a group is left out."""


NO_NOISE = 0.002
"""Standard deviation of the noise of a correlation that does no harm: what is below it is used to cut off less."""


@dataclass(frozen=True)
class BudgetSplit:
    """What may be spent (zCDP) on each distribution, by the place of its column, and on each group of moments; and at
    how many standard deviations values are cut off.
    """

    distributions: tuple[float, ...]
    groups: dict[str, float]
    cut_off: float = CUT_OFF


def sensitivities(amounts: int, levels: Sequence[int], cut_off: float = CUT_OFF) -> dict[str, float]:
    """The L2 sensitivity of each group of moments, in units of a feature; without groups that have no pairs."""
    squares = [level_bound(size) for size in levels]
    amount_pairs, value = math.comb(amounts, 2), value_bound(cut_off) ** 2
    bounds = {
        RANKS: [(WAVE_BOUND**2, WAVE_BOUND**2)] * amount_pairs,
        VALUES: [(value, value)] * amount_pairs,
        SHAPES: [(WAVES * WAVE_BOUND**2, WAVES * WAVE_BOUND**2)] * amount_pairs,
        MEANS: [(WAVE_BOUND**2, square) for square in squares] * amounts,
        TABLES: list(combinations(squares, 2)),
        SPREADS: [(spread_bound(cut_off), square) for square in squares] * amounts,
    }
    return {name: group_sensitivity(pairs) / UNIT**2 for name, pairs in bounds.items() if pairs}


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

    def chosen(cut_off: float) -> tuple[dict[str, float], dict[str, float]]:
        """What each group gets, and the noise of its moments."""
        sizes = sensitivities(amounts, levels, cut_off)
        while True:
            pull = {name: (IMPORTANCE[name] * size) ** (2 / 3) for name, size in sizes.items()}
            groups = {name: rho * (left * part / sum(pull.values())) for name, part in pull.items()}
            noise = {name: contributions * sizes[name] / math.sqrt(2 * groups[name]) / count for name in groups}
            poor = [name for name in noise if noise[name] > LIMIT.get(name, math.inf)]
            if not poor:
                return groups, noise
            del sizes[max(poor, key=lambda name: noise[name] / LIMIT[name])]

    groups, noise = chosen(CUT_OFF)
    cut_off = CUT_OFF
    if noise.get(VALUES, math.inf) < NO_NOISE:
        cut_off = min(CUT_OFF * math.sqrt(NO_NOISE / max(noise[VALUES], 1e-9)), MOST_CUT_OFF)
        groups, noise = chosen(cut_off)
    return BudgetSplit((rho * ((1 - left) / columns),) * columns, groups, cut_off)
