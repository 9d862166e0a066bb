"""What a release under differential privacy will be off by, before any of the budget is spent: no data are needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from microveil.core.errors import ParameterError
from microveil.private.budget import COUNT_SHARE, sensitivities, split
from microveil.private.distributions import EXPLORING
from microveil.private.mechanism import Account
from microveil.private.moments import MEANS, RANKS, TABLES
from microveil.private.moments import VALUES as PEARSON


@dataclass(frozen=True)
class ExpectedError:
    """Standard deviations of the noise on what is measured; None for what is not, as noise would drown it.

    `rank_correlation` and `correlation` are those of one pair of amounts, `cell` that of one cell of a two-way table
    (as a share of the records), `group_mean` that of the mean rank score of a level, times the share of the level, and
    `distribution` that of the share of records below a middle value.
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

    What it does not tell is what is lost where relations are not those of pairs of columns, and by cutting values off.

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
    if not 0 < epsilon < math.inf or not 0 < delta < 1 or delta * rows >= rows_per_unit:
        raise ParameterError("expected_error: epsilon is above 0, and delta below 1 / rows", "try 1 and 1e-6")
    account = Account(epsilon, delta, rows_per_unit)
    budget = split(account.rho * (1 - COUNT_SHARE), rows, amounts, list(levels), rows_per_unit)
    sizes = sensitivities(amounts, list(levels), budget.cut_off)
    noise = {name: account.noise_sd(sizes[name], rho) / rows for name, rho in budget.groups.items()}
    # Half of the runs are below the middle; their noise adds up, less what whole counts of the exploration know better.
    leaf = account.noise_sd(1.0, budget.distributions[0] * ((1 - EXPLORING) if amounts else 1.0))
    return ExpectedError(
        epsilon,
        delta,
        rows,
        noise.get(RANKS),
        noise.get(PEARSON),
        noise.get(MEANS),
        noise.get(TABLES),
        2 * leaf / rows,
    )
