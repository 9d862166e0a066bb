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
    MEANS,
    RANKS,
    SHAPES,
    TABLES,
    UNIT,
    VALUE_BOUND,
    VALUES,
    WAVE_BOUND,
    WAVES,
    group_sensitivity,
    level_bound,
)

COUNT_SHARE = 0.01
"""Share of the budget for the number of records."""

DISTRIBUTIONS, MORE_DISTRIBUTIONS, COARSE = 0.2, 0.4, 0.02
"""Share of the rest for the distributions of the columns; and where records are so few that the noise on a count would
be more than the last, as a share of them."""

IMPORTANCE = {"ranks": 1.0, "values": 0.5, "shapes": 0.25, "means": 1.0, "tables": 2.5}
"""How much the error of a moment counts: tables are shares of cells, which are small."""

LIMIT = {"values": 0.04, "shapes": 0.04}
"""Standard deviation of the noise of a moment above which a group is left out."""


@dataclass(frozen=True)
class BudgetSplit:
    """What may be spent (zCDP) on each distribution, by the place of its column, and on each group of moments."""

    distributions: tuple[float, ...]
    groups: dict[str, float]


def sensitivities(amounts: int, levels: Sequence[int]) -> dict[str, float]:
    """The L2 sensitivity of each group of moments, in units of a feature; without groups that have no pairs."""
    squares = [level_bound(size) for size in levels]
    amount_pairs = math.comb(amounts, 2)
    bounds = {
        RANKS: [(WAVE_BOUND**2, WAVE_BOUND**2)] * amount_pairs,
        VALUES: [(VALUE_BOUND**2, VALUE_BOUND**2)] * amount_pairs,
        SHAPES: [(WAVES * WAVE_BOUND**2, WAVES * WAVE_BOUND**2)] * amount_pairs,
        MEANS: [(WAVE_BOUND**2, square) for square in squares] * amounts,
        TABLES: list(combinations(squares, 2)),
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
    sizes = sensitivities(amounts, levels)
    coarse = contributions / math.sqrt(2 * rho * DISTRIBUTIONS / columns) > COARSE * count
    left = rho * (1 - (MORE_DISTRIBUTIONS if coarse else DISTRIBUTIONS)) if sizes else 0.0
    chosen = dict(sizes)
    while True:
        pull = {name: (IMPORTANCE[name] * size) ** (2 / 3) for name, size in chosen.items()}
        groups = {name: left * part / sum(pull.values()) for name, part in pull.items()}
        noise = {name: contributions * sizes[name] / math.sqrt(2 * groups[name]) / count for name in groups}
        poor = [name for name in noise if noise[name] > LIMIT.get(name, math.inf)]
        if not poor:
            break
        del chosen[max(poor, key=lambda name: noise[name] / LIMIT[name])]
    return BudgetSplit(((rho - left) / columns,) * columns, groups)
