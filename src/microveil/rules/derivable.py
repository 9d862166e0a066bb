"""Confidential columns that follow from columns in clear: A, where A + B and B leave the house as they are.

Whoever has the release computes such a column, whatever a method does to it. A rule holds in every row, so it does in
some rows from all over the table: it is looked for in these, and confirmed on all. A rule that holds in most rows tells
most records; it has whole coefficients, or it would hold by accident.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from microveil.core.arrays import Array, Index, Mask
from microveil.core.table import Matrix
from microveil.core.tolerances import RANK_TOLERANCE, TEXT_ROUND_OFF
from microveil.rules.domain import step_of
from microveil.rules.linear_rules import ROWS_PER_COLUMN, LinearRule, dependence_among, fullest
from microveil.rules.near_rules import MANY, PLENTY, near_sum
from microveil.rules.ratios import MOST_COLUMNS, RatioRule, find_ratios

ROWS, NEAR_ROWS = 2_000, 500
"""Rows in which rules are looked for, and those for rules that hold in most rows only."""

TOGETHER = 100
"""Columns in clear that may be terms of one rule; of more, neighbours in the table are taken together."""

TRIFLE = 1e-5
"""Unexplained share of variance below which a column may follow but for its own rounding."""


@dataclass(frozen=True, repr=False)
class DerivableColumn:
    """A column that follows from others, by number, and how far off it may be in a row."""

    column: int
    by: tuple[int, ...]
    rule: LinearRule | RatioRule
    slack: float = 0.0
    closely: bool = False
    """Does it follow but for a trifle, and not to its last digit?"""

    def missed(self, columns: Mapping[int, Array]) -> tuple[int, int]:
        """In how many rows it does not follow, and how many rows have all the cells."""
        own = (self.column, *self.by)
        there = ~np.any([np.isnan(columns[j]) for j in own], axis=0)
        cells = {j: columns[j][there] for j in own}
        if isinstance(self.rule, RatioRule):
            misses = cells[self.column] - self.rule.solved(self.column, cells)
            size = np.abs(cells[self.column])
        else:
            misses, size = self.rule.misses(cells)
        broken = np.abs(misses) > self.slack + TEXT_ROUND_OFF * size
        return int(np.count_nonzero(broken)), int(np.count_nonzero(there))


def spread_rows(count: int, columns: int) -> Index:
    """Rows from all over a table in which rules of so many columns are looked for."""
    most = max(ROWS, 2 * ROWS_PER_COLUMN * min(columns, TOGETHER))
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.intp))


def derivable_columns(sample: Matrix, clear: int) -> list[DerivableColumn]:
    """What the rows of a sample say of the columns after the first `clear` ones, which are those in clear."""
    holes = np.isnan(np.array(sample.columns).T)
    varying = [j for j in range(sample.shape[1]) if _varies(sample.columns[j])]
    found: dict[int, DerivableColumn] = {}
    for group in _groups([j for j in varying if j < clear], sample.shape[0]):
        for alike in _alike([j for j in varying if j >= clear and j not in found], holes):
            found |= {one.column: one for one in _linear(sample, holes, group, alike)}
    if len(varying) <= MOST_COLUMNS:
        found = {**{one.column: one for one in _ratios(sample, varying, clear)}, **found}
    return list(found.values())


def _varies(column: Array) -> bool:
    present = column[~np.isnan(column)]
    return bool(present.size and present.min() < present.max())


def _groups(clear: list[int], rows: int) -> Iterator[list[int]]:
    """Columns in clear that are tried together: with few rows fewer, or everything would follow from everything."""
    most = int(np.clip(rows // ROWS_PER_COLUMN - 1, 1, TOGETHER))
    return (clear[start : start + most] for start in range(0, len(clear), most))


def _alike(columns: Sequence[int], holes: Mask) -> list[list[int]]:
    """Columns whose cells are missing in the same rows."""
    found: dict[bytes, list[int]] = {}
    for j in columns:
        found.setdefault(holes[:, j].tobytes(), []).append(j)
    return list(found.values())


def _linear(sample: Matrix, holes: Mask, group: list[int], columns: list[int]) -> list[DerivableColumn]:
    """Those of some columns, with holes in the same rows, that are linear combinations of a group in clear."""
    chosen = fullest([*group, columns[0]], holes, [LinearRule(columns[0], {})])
    clear = [j for j in chosen if j != columns[0]]
    complete = sample.take(np.flatnonzero(~holes[:, chosen].any(axis=1)))
    clear = [j for j in clear if _varies(complete.columns[j])]
    columns = [j for j in columns if _varies(complete.columns[j])]
    if not clear or not columns:
        return []
    design, targets = (_standard(complete, those) for those in (clear, columns))
    fitted = np.linalg.lstsq(design, targets, rcond=RANK_TOLERANCE)[0]
    left = np.square(targets - design @ fitted).mean(axis=0)
    found = []
    for j, share, slopes in zip(columns, left.tolist(), fitted.T, strict=True):
        if share <= TRIFLE:
            found.append(_follows(complete, clear, j, slopes))
        elif len(clear) <= MANY:
            rule = near_sum(np.array(complete.columns)[:, :: max(complete.shape[0] // NEAR_ROWS, 1)], clear, j)
            found += [] if rule is None else [DerivableColumn(j, tuple(rule.terms), rule)]
    return found


def _standard(values: Matrix, columns: Sequence[int]) -> Array:
    cells = np.array([values.columns[j] for j in columns])
    cells -= cells.mean(axis=1, keepdims=True)
    standard: Array = (cells / cells.std(axis=1, keepdims=True)).T
    return standard


def _follows(complete: Matrix, clear: list[int], column: int, slopes: Array) -> DerivableColumn:
    """The rule for a `column`: exact, by the rank rule, to the step that it is rounded to, or but for a trifle.

    `complete` has the rows without holes, and `slopes` a standardised coefficient for each of the columns in `clear`.
    """
    cells = complete.columns[column]
    spread = float(cells.std())
    rules = dependence_among(complete, [*clear, column], ordered=True).rules
    rule = next((rule for rule in rules if rule.column == column), None)
    if rule is not None:
        return DerivableColumn(column, tuple(rule.terms), rule, 0.0 if rule.exact else 10 * RANK_TOLERANCE * spread)
    scales = [spread / float(complete.columns[j].std()) for j in clear]
    terms = {j: float(c) * scale for j, c, scale in zip(clear, slopes, scales, strict=True) if abs(c) > TRIFLE}
    constant = float(cells.mean()) - sum(c * float(complete.columns[j].mean()) for j, c in terms.items())
    rule = LinearRule(column, terms, constant, exact=False)
    step = step_of(cells) or 0.0
    rounded = 0 < PLENTY * step <= np.subtract(*np.quantile(cells, [0.9, 0.1]))
    rounded &= np.abs(cells - rule.rebuilt(complete.columns)).max() <= step
    return DerivableColumn(
        column, tuple(terms), rule, step if rounded else 3 * TRIFLE**0.5 * spread, closely=not rounded
    )


def _ratios(sample: Matrix, among: Sequence[int], clear: int) -> list[DerivableColumn]:
    """Ratios, and what they are made of, of which all but one column are in clear."""
    found = []
    for rule in find_ratios(sample.select(among)):
        back = rule.renumbered(dict(enumerate(among)))
        own = (back.column, back.numerator, back.denominator)
        hidden = [j for j in own if j >= clear]
        if len(hidden) == 1:
            step = step_of(sample.columns[hidden[0]]) or 0.0
            found.append(DerivableColumn(hidden[0], tuple(j for j in own if j != hidden[0]), back, step))
    return found
