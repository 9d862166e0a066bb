"""Sums that hold in most rows but not in all, and columns that follow from others but for a trifle.

A total may have rounding differences, or errors in some records; a cost may follow from two others to four digits. A
rule that holds in every row has its column left out and rebuilt. Here the gap between the column and what the rule
says is a column of its own: a method that perturbs the gap instead of the column keeps the rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.linalg import regression_slopes
from microveil.core.moments import Moments
from microveil.core.rng import Stream
from microveil.core.table import Matrix
from microveil.core.tolerances import TEXT_ROUND_OFF
from microveil.rules.domain import step_of
from microveil.rules.linear_rules import Columns, LinearRule, searched_columns
from microveil.rules.product_rules import ProductRule

GapRule = LinearRule | ProductRule
"""How a column is made of others but for a gap."""

HOLDS = 0.5
"""Share of rows from which on a sum is a rule with exceptions, and not a coincidence."""

TIED = 1e-3
"""Share of a column's variance that the others leave unexplained at most, for it to follow from them but for a trifle.

Below this share, nobody who arranges the columns one by one can hit it (see `RIDGE` of the arrangement).
"""

LIKELY, MANY = 0.01, 40
"""Unexplained share from which on a sum is not looked for among so many columns: each search is a regression."""

DISTINCT = 20
"""Values from which on a column may be a total; equal flags are no sum of each other."""

PLENTY = 100
"""How many times the rounding differences a total must vary, if these are to count as none."""

ROWS, FIRST_ROWS = 20_000, 2_000
"""Rows on which a sum is looked for, in the first of them, and counted: a share of one half is plain to see."""

TRIMMED, REFITS = 0.6, 4
"""Share of rows that fit best, on which the fit is repeated: gross errors in some rows must not bend it."""


def find_near_rules(values: Matrix, summary: Moments, stream: Stream) -> list[LinearRule]:
    """A rule for each column that has one, in terms of columns that have none: with whole coefficients, or fitted."""
    width = values.shape[1]
    if values.shape[0] <= 2 * width:
        return []
    sample = rows_to_search(values, stream)
    found: list[LinearRule] = []
    basis: list[int] = []
    for j in sorted(range(width), key=lambda j: summary.sd[j]):  # a total varies more than its parts
        fitted, unexplained = _fitted(summary, basis, j)
        likely = basis and (width <= MANY or unexplained <= LIKELY)
        rule = near_sum(sample, sorted(basis), j) if likely else None
        if rule is None and unexplained <= TIED:
            rule = _whole(sample, fitted) or fitted
        if rule is None:
            basis.append(j)
        else:
            found.append(rule)
    return _right_way_round(found, summary)


def rows_to_search(values: Matrix, stream: Stream, most: int = ROWS) -> Array:
    """The rows in which rules are looked for, columns x rows; of more than `most`, some from all over the table."""
    count = values.shape[0]
    rows = np.unique(stream.generator().integers(count, size=most)) if count > most else np.arange(count)
    return np.array([column[rows] for column in values.columns])


def _whole(sample: Array, fitted: LinearRule) -> LinearRule | None:
    """The fitted rule with whole coefficients, if the column still follows but for a trifle: shares of about one."""
    rule = LinearRule(fitted.column, {j: float(round(c)) for j, c in fitted.terms.items() if round(c)}, exact=False)
    if not rule.terms:
        return None
    gap, column = rule.misses(sample)[0], sample[rule.column]
    return rule if gap.var() <= TIED * column.var() else None


def _right_way_round(rules: list[LinearRule], summary: Moments) -> list[LinearRule]:
    """The rules with totals made of their parts, where no other rule has the total for a term."""
    for at, rule in enumerate(rules):
        total = rule.total(summary) if is_sum(rule) else rule.column
        others = [*rules[:at], *rules[at + 1 :]]
        if total != rule.column and not any(total in (each.column, *each.terms) for each in others):
            rules = [*rules[:at], rule.solved_for(total), *rules[at + 1 :]]
    return rules


@dataclass(frozen=True, repr=False)
class NearSum:
    """A sum with the number of rows that break it, of those that tell."""

    rule: LinearRule
    exceptions: int
    rows: int


def find_near_sums(values: Matrix, among: Sequence[int], holes: Mask | None, stream: Stream) -> list[NearSum]:
    """Sums that hold in most rows of columns `among`, not in all; with `holes`, the fullest. `stream` picks rows."""
    searched, _, complete = searched_columns(values, among, holes)
    if complete.shape[0] <= 2 * len(searched):
        return []
    rules = find_near_rules(complete, complete.measure(), stream)
    back = dict(enumerate(searched))
    counted = [_counted(values, rule.renumbered(back)) for rule in rules if is_sum(rule)]
    # What holds in most rows only to the rounding of the columns has too many exceptions to be reported as a rule.
    return [near for near in counted if near.exceptions <= (1 - HOLDS) * near.rows]


def _counted(values: Matrix, rule: LinearRule) -> NearSum:
    misses, _ = rule.misses(values.columns)
    return NearSum(rule, rule.broken(values.columns), int(np.count_nonzero(~np.isnan(misses))))


def is_sum(rule: LinearRule) -> bool:
    """Does it have whole coefficients, as sums and differences have?"""
    return all(c == round(c) for c in rule.terms.values())


def share_met(columns: Columns, rule: GapRule, slack: float = 0.0) -> float:
    """The share of rows in which a rule holds to round-off and a `slack`; rows of nothing but zeros say nothing."""
    misses, size = rule.misses(columns)
    telling = size > slack
    met = np.abs(misses[telling]) <= slack + TEXT_ROUND_OFF * size[telling]
    return float(np.mean(met)) if telling.any() else 0.0


def gaps(columns: Sequence[Array], rules: Sequence[GapRule]) -> list[Array]:
    """The columns with the gap in the place of each column that has a rule."""
    out = list(columns)
    for rule in rules:
        out[rule.column] = columns[rule.column] - rule.rebuilt(columns)
    return out


def rows_with_all_cells(rule: GapRule, present: Mask) -> Mask:
    """The rows that have all cells of a rule; `present` is rows x columns."""
    found: Mask = np.logical_and.reduce(present[:, [rule.column, *rule.terms]], axis=1)
    return found


def gaps_beside_holes(
    columns: Sequence[Array], rules: Sequence[GapRule], present: Mask | None, stream: Stream
) -> tuple[list[Array], Mask | None]:
    """The same where cells are missing (not `present`, rows x columns), and where gaps are known.

    A gap is known where all cells of its rule are there; elsewhere it is drawn from those that are.
    """
    out = gaps(columns, rules)
    if present is None:
        return out, None
    there = present.copy()
    for rule in rules:
        known = rows_with_all_cells(rule, present)
        if known.any() and not np.array_equal(known, present[:, rule.column]):
            there[:, rule.column] = known
            gap, luck = out[rule.column], stream.child(f"gap {rule.column}").generator()
            gap[~known] = luck.choice(gap[known], np.count_nonzero(~known))
    return out, there


def without_gaps(columns: Sequence[Array], rules: Sequence[GapRule]) -> list[Array]:
    """The columns from their gaps; a column may be made of one that an earlier rule has made."""
    out = list(columns)
    for rule in rules:
        out[rule.column] = rule.with_gap(columns[rule.column], out)
    return out


def _fitted(summary: Moments, others: list[int], column: int) -> tuple[LinearRule, float]:
    """The regression of a column on others, and the share of its variance that they leave, from the moments."""
    cross = summary.covariance[np.ix_(others, [column])]
    slopes = regression_slopes(summary.covariance[np.ix_(others, others)], cross)
    variance = summary.variance[column]
    unexplained = float(1 - (cross.T @ slopes)[0, 0] / variance) if variance > 0 else 1.0
    return LinearRule(column, dict(zip(others, slopes[:, 0].tolist(), strict=True)), exact=False), unexplained


def near_sum(sample: Array, others: list[int], column: int) -> LinearRule | None:
    """Whole coefficients that fit most rows to the last digit, or to the rounding of the columns.

    Every row counts by its own size: one in which the total is wrong weighs no more than any other.
    """
    first = sample[:, :FIRST_ROWS]
    size = np.abs(first[[*others, column]]).sum(axis=0)
    rows = size > 0
    if np.unique(first[column, rows]).size < DISTINCT:
        return None
    design, target = (first[others] / np.where(rows, size, 1.0)).T, first[column] / np.where(rows, size, 1.0)
    for _ in range(REFITS):
        fitted: Array = np.linalg.lstsq(design[rows], target[rows], rcond=1e-10)[0]
        terms = {j: round(c) for j, c in zip(others, fitted.tolist(), strict=True) if round(c)}
        rule = LinearRule(column, terms, exact=False)
        if terms and max(share_met(sample, rule, slack) for slack in (0.0, _rounding(sample, rule))) >= HOLDS:
            return rule
        misses = np.abs(target - design @ fitted)
        rows = (size > 0) & (misses <= max(float(np.quantile(misses[size > 0], TRIMMED)), TEXT_ROUND_OFF))
    return None


def _rounding(sample: Array, rule: LinearRule) -> float:
    """How far rounded columns may be from their sum; 0 where that is no trifle."""
    steps = [abs(c) * (step_of(sample[j]) or 0.0) for j, c in {rule.column: 1.0, **rule.terms}.items()]
    slack = sum(steps) / 2
    low, high = np.quantile(sample[rule.column], [0.1, 0.9])
    return slack if PLENTY * slack <= high - low else 0.0
