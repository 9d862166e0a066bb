"""Columns that are the ratio of two others: a price, a rate, output per head. Found, set aside, computed anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.table import Matrix
from microveil.core.tolerances import TEXT_ROUND_OFF
from microveil.rules.domain import Domain, step_of

MOST_COLUMNS = 40
"""Columns up to which ratios are looked for: all triples are tried."""

SPREAD_ROWS = 2_000
"""Rows from all over the table that a candidate must pass before all rows are looked at."""

FIRST_ROWS, FEW_ROWS = 50, 6
"""Rows that tell whether a column could be a ratio, and those that refute nearly every pair it could be one of."""

SHARED = 3
"""Records that have a value where the ratio is undefined, for it to be a custom of the file."""

COARSEST = 0.1
"""The largest step of a column that could be a rounded ratio: whole numbers are not looked at."""


@dataclass(frozen=True)
class RatioRule:
    """`column = numerator / denominator`, columns by number, rounded to `step` if there is one.

    Where the denominator is zero the ratio says nothing, and the column has the value `otherwise` (NaN for a hole).
    """

    column: int
    numerator: int
    denominator: int
    step: float | None = None
    otherwise: float = field(default=0.0, repr=False)  # of the data

    def rebuilt(self, columns: Mapping[int, Array] | Sequence[Array]) -> Array:
        """The column from the other two."""
        return Domain(step=self.step).rounded(self._quotient(columns))

    def solved(self, column: int, columns: Mapping[int, Array]) -> Array:
        """One of the three columns from the other two."""
        if column == self.column:
            return self.rebuilt(columns)
        with np.errstate(divide="ignore", invalid="ignore"):
            if column == self.numerator:
                return columns[self.column] * columns[self.denominator]
            return np.nan_to_num(columns[self.numerator] / columns[self.column], nan=np.inf)

    def renumbered(self, numbers: Mapping[int, int]) -> RatioRule:
        """The same rule where columns have other numbers."""
        return RatioRule(
            numbers[self.column], numbers[self.numerator], numbers[self.denominator], self.step, self.otherwise
        )

    def broken(self, columns: Sequence[Array]) -> int:
        """In how many rows, of those where the column is present, the rule does not hold."""
        return int(np.count_nonzero(self._misses(columns)))

    def sentence(self, names: Sequence[str]) -> str:
        """`price = revenue / quantity`."""
        return f"{names[self.column]} = {names[self.numerator]} / {names[self.denominator]}"

    def _quotient(self, columns: Mapping[int, Array] | Sequence[Array]) -> Array:
        below = columns[self.denominator]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(below == 0, self.otherwise, columns[self.numerator] / below)

    def _misses(self, columns: Sequence[Array]) -> Mask:
        # Compared with the quotient before rounding: 0.125 becomes 0.13 in one program and 0.12 in another.
        value, expected = columns[self.column], self._quotient(columns)
        slack = TEXT_ROUND_OFF * np.abs(expected) + (0.0 if self.step is None else self.step * (1 + TEXT_ROUND_OFF) / 2)
        # A ratio that is known while one of its two columns is not cannot be computed anew.
        unknown = np.isnan(expected)
        misses: Mask = ~np.isnan(value) & (
            unknown | (np.abs(value - np.where(unknown, 0.0, expected)) > np.where(unknown, 0.0, slack))
        )
        return misses


def find_ratios(values: Matrix) -> list[RatioRule]:
    """Columns that are ratios of two others in every row, each column in one rule at most."""
    count, width = values.shape
    if not 3 <= width <= MOST_COLUMNS or count <= 2 * width:
        return []
    head = np.array([column[:FIRST_ROWS] for column in values.columns])
    few = head[:, :FEW_ROWS]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        quotients = few[:, None] / np.where(few == 0, np.nan, few)
    found: list[RatioRule] = []
    for column in _possible(few, quotients):
        taken = {j for rule in found for j in (rule.column, rule.numerator, rule.denominator)}
        if column not in taken:
            made_of = {column, *(rule.column for rule in found)}
            found += _ratio(values, column, _candidates(head, quotients, column), made_of)
    return found


def _possible(few: Array, quotients: Array) -> list[int]:
    """Columns that some quotient fits to the coarsest step there is; mostly none, and the search ends here."""
    with np.errstate(invalid="ignore"):
        far = [
            (np.abs(quotients - value) > COARSEST + 2 * TEXT_ROUND_OFF * np.abs(value)).any(axis=2).all()
            for value in few
        ]
    return [column for column, refuted in enumerate(far) if not refuted]


def _candidates(head: Array, quotients: Array, column: int) -> list[tuple[int, int]]:
    """Pairs whose quotient the first rows do not refute as the column; undefined quotients refute nothing."""
    value = head[column]
    present = value[~np.isnan(value)]
    if np.unique(present).size < FIRST_ROWS // 5:
        return []  # few different values: too easily met by chance
    step = step_of(present)
    if step is not None and step >= 1:
        return []  # whole numbers are counts or amounts; a rounded quotient would fit by accident
    with np.errstate(invalid="ignore"):
        few = value[:FEW_ROWS]
        slack = 2 * TEXT_ROUND_OFF * np.abs(few) + (0.0 if step is None else step)
        refuted = (np.abs(quotients - few) > slack).any(axis=2)
    return [(int(a), int(b)) for a, b in np.argwhere(~refuted) if a != b]


def ratio_rule(columns: Sequence[Array], column: int, numerator: int, denominator: int) -> RatioRule:
    """The rule that a `column` is the `numerator` over the `denominator`, by number, whether it holds or not."""
    value = columns[column]
    # Where the ratio is undefined, the first such cell stands for all (checking the rule checks the others), unless
    # they are so few that it would disclose a record.
    undefined = value[columns[denominator] == 0]
    otherwise = float(undefined[0]) if undefined.size >= SHARED or np.isnan(undefined).any() else 0.0
    return RatioRule(column, numerator, denominator, step_of(value[~np.isnan(value)]), otherwise)


def _ratio(values: Matrix, column: int, candidates: Sequence[tuple[int, int]], made_of: set[int]) -> list[RatioRule]:
    """The first of the `candidates` that all rows confirm; no ratio is `made_of` itself, or of other ratios."""
    some = slice(None, None, max(1, values.shape[0] // SPREAD_ROWS))
    for pair in candidates:
        if made_of.isdisjoint(pair) and not _refuted(*(values.columns[j][some] for j in (column, *pair))):
            rule = ratio_rule(values.columns, column, *pair)
            if _says_much(values, rule) and not rule.broken(values.columns):
                return [rule]
    return []


def _refuted(value: Array, numerator: Array, denominator: Array) -> bool:
    """Do some rows from all over the table say no? Most candidates are columns that are zero in the first rows."""
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.abs(value - numerator / np.where(denominator == 0, np.nan, denominator))
        return bool((gap > COARSEST + 2 * TEXT_ROUND_OFF * np.abs(value)).any())


def _says_much(values: Matrix, rule: RatioRule) -> bool:
    """Most rows must speak for the rule: a column of holes and zeros refutes nothing."""
    telling = ~np.isnan(values.columns[rule.column]) & (values.columns[rule.denominator] != 0)
    varies = np.nanmin(values.columns[rule.denominator]) < np.nanmax(values.columns[rule.denominator])
    return bool(varies and np.count_nonzero(telling) * 2 > telling.size)
