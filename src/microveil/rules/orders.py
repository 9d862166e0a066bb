"""Columns of which one is never above another: taxable and gross income, hours worked and hours paid."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.table import Matrix
from microveil.rules.linear_rules import LinearRule

MOST_COLUMNS = 60
"""Columns up to which orders are looked for: all pairs are tried."""

FIRST_ROWS = 50
"""Rows that refute most pairs."""

SAMPLE = 2_000
"""Rows from all over the table on which is measured how often unrelated columns would break the order."""

OVERLAP = 0.1
"""Share of rows, paired at random, in which the order is broken; where it is less, the sizes of the columns differ."""

MOST_COST = 0.02
"""By how much a rank correlation may get worse for the sake of an order that nobody declared."""

MEASURES = {
    "hours": "hours? hrs",
    "days": "days?",
    "weeks": "weeks? wks",
    "years": "years? yrs age ages",
    "persons": "employees? persons? people staff workers? members?",
    "share": "pct percent share rate ratio",
    "mass": "kg tons? tonnes?",
    "length": "km cm mm miles?",
    "energy": "kwh mwh gwh",
    "money": "eur usd gbp euros? dollars? pounds?",
}
"""What a column measures, by a word of its name."""

TOUCH, CLOSE = 0.01, 0.01
"""Share of rows in which columns of different measures must be equal, but for so much, for an order to be a rule."""

BY_CHANCE = 1e-6
"""Probability, over all pairs, of an order between columns that have nothing to do with each other."""


@dataclass(frozen=True)
class OrderRule:
    """`lower <= upper` in every row in which both are present, columns by number."""

    lower: int
    upper: int

    def renumbered(self, numbers: Mapping[int, int]) -> OrderRule:
        """The same rule where columns have other numbers."""
        return OrderRule(numbers[self.lower], numbers[self.upper])

    def broken_rows(self, columns: Sequence[Array]) -> Mask:
        """The rows in which it does not hold; never where a cell is missing."""
        return columns[self.lower] > columns[self.upper]

    def broken(self, columns: Sequence[Array]) -> int:
        """In how many rows it does not hold."""
        return int(np.count_nonzero(self.broken_rows(columns)))

    def sentence(self, names: Sequence[str]) -> str:
        """`part <= whole`."""
        return f"{names[self.lower]} <= {names[self.upper]}"


def find_orders(values: Matrix, implied: Collection[tuple[int, int]] = ()) -> list[OrderRule]:
    """Orders that hold in every row and would not by accident; those that follow from others are left out.

    `implied` are pairs that need no mention, as another rule implies them: a part of a sum is not above it.
    """
    count, width = values.shape
    if not 2 <= width <= MOST_COLUMNS:
        return []
    head = np.array([column[:FIRST_ROWS] for column in values.columns])
    refuted: Mask = np.any(head[:, None] > head[None, :], axis=2)
    some = slice(None, None, max(1, count // SAMPLE))
    needed = np.log(BY_CHANCE / (width * width))
    found = set()
    for low, high in permutations(range(width), 2):
        if refuted[low, high] or (low, high) in implied:
            continue
        rule = OrderRule(low, high)
        if rule.broken(values.columns) == 0 and _says_much(values, rule, some, float(needed)):
            found.add((low, high))
    return [OrderRule(low, high) for low, high in sorted(found) if not _follows(found, low, high)]


def of_one_measure(values: Matrix, orders: Sequence[OrderRule], names: Sequence[str]) -> list[OrderRule]:
    """The orders that may be rules: hours are below an amount of money by their size only, unless some rows are equal.

    `names` are those of the columns; where none of two names says what is measured, it may be the same.
    """
    return [
        rule for rule in orders if _measure(names[rule.lower]) == _measure(names[rule.upper]) or _touch(values, rule)
    ]


def _measure(name: str) -> str:
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]
    forms = ((measure, form) for measure, all_forms in MEASURES.items() for form in all_forms.split())
    return next((measure for measure, form in forms if any(re.fullmatch(form, word) for word in words)), "")


def _touch(values: Matrix, rule: OrderRule) -> bool:
    low, high = values.columns[rule.lower], values.columns[rule.upper]
    there = ~(np.isnan(low) | np.isnan(high))
    return bool(np.mean(high[there] - low[there] <= CLOSE * np.abs(high[there])) >= TOUCH)


def implied_orders(values: Matrix, rules: Sequence[LinearRule]) -> set[tuple[int, int]]:
    """A part of a sum is not above the total, where all parts are at least 0."""
    least = [float(np.nanmin(column)) for column in values.columns]
    return {
        (part, rule.column)
        for rule in rules
        if all(least[j] >= 0 and c >= 1 for j, c in rule.terms.items())
        for part in rule.terms
    }


def _says_much(values: Matrix, rule: OrderRule, some: slice, needed: float) -> bool:
    """Would unrelated columns with these values, judged by `some` rows, break the `rule` too often for an accident?"""
    low, high = values.columns[rule.lower], values.columns[rule.upper]
    both = ~(np.isnan(low) | np.isnan(high))
    few_low, few_high = np.sort(low[some][both[some]]), high[some][both[some]]
    if few_low.size == 0 or (low[both] == high[both]).all():
        return False
    broken = 1 - float(np.searchsorted(few_low, few_high, side="right").mean()) / few_low.size
    return broken >= OVERLAP and np.count_nonzero(both) * np.log1p(-min(broken, 0.999)) < needed


def _follows(found: Collection[tuple[int, int]], low: int, high: int) -> bool:
    """Is there a column between the two? Equal columns are none: each would be between the other and itself."""
    between = {middle for least, middle in found if least == low and middle != high}
    return any((middle, high) in found and (middle, low) not in found for middle in between)
