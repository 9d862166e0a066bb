"""Columns that are linear combinations of others: found, left out, rebuilt.

A total that is the sum of its parts adds nothing to the components and must come back as the sum of the
released parts. Candidates come from the correlation matrix; whether one really holds is decided on the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from microveil.core.linalg import RANK_TOLERANCE
from microveil.core.moments import Array, Moments
from microveil.core.table import Matrix
from microveil.core.threads import segments

SUSPICIOUS = 1e-6
"""Unexplained share of variance below which a column is worth checking on the rows.

Cancellation leaves far more than round-off in a correlation matrix, so this is loose; the check is strict.
"""

EXACT = 1e-9
"""A rule with whole coefficients holds if it does in every row to this share of the sizes of its terms."""


@dataclass(frozen=True)
class LinearRule:
    """`column = constant + sum of coefficient * other column`, columns by number."""

    column: int
    terms: Mapping[int, float]
    constant: float = 0.0

    def rebuilt(self, columns: Mapping[int, Array] | Sequence[Array]) -> Array:
        """The column from the others."""
        parts = [coefficient * columns[j] for j, coefficient in self.terms.items()]
        total: Array = np.sum(parts, axis=0) + self.constant
        return total

    def renumbered(self, numbers: Mapping[int, int]) -> LinearRule:
        """The same rule where columns have other numbers."""
        return LinearRule(numbers[self.column], {numbers[j]: c for j, c in self.terms.items()}, self.constant)

    def worst_error(self, columns: Sequence[Array]) -> float:
        """The largest violation over the size of its terms, among rows where all are present."""
        return _largest_miss(Matrix(columns), self)

    def sentence(self, names: Sequence[str]) -> str:
        """`total = a + b`, as a person would write it; a constant that is no small whole number is not shown."""
        parts = []
        for j, coefficient in self.terms.items():
            sign = "-" if coefficient < 0 else "+"
            factor = "" if abs(coefficient) == 1 else f"{abs(coefficient):.6g} "
            parts.append(f"{sign} {factor}{names[j]}")
        if self.constant:
            parts.append("+ constant")
        text = " ".join(parts)
        return f"{names[self.column]} = {text.removeprefix('+ ')}"


@dataclass(frozen=True)
class Dependence:
    """Which columns stand for themselves, and the rules that rebuild the others."""

    independent: list[int]
    rules: list[LinearRule] = field(default_factory=list)


def find_dependence(values: Matrix, summary: Moments, declared: Sequence[LinearRule] = ()) -> Dependence:
    """Independent columns and rules. With no more rows than columns every column would depend on others by
    accident, so only declared rules are used there.
    """
    count, width = values.shape
    left_out = {rule.column for rule in declared}
    rules = list(declared)
    independent = [j for j in range(width) if j not in left_out]
    if count > width:
        found = _search(values, summary, independent)
        rules += found
        left_out |= {rule.column for rule in found}
    return Dependence([j for j in range(width) if j not in left_out], rules)


def _search(values: Matrix, summary: Moments, among: list[int]) -> list[LinearRule]:
    trusted: set[int] = set()  # suspicious columns that turned out to be independent
    while True:
        basis, suspects = _split(summary, among, trusted)
        rules = [rule for j in suspects if (rule := _confirmed(values, summary, basis, j)) is not None]
        refuted = set(suspects) - {rule.column for rule in rules}
        if not refuted:
            return rules
        # A refuted column joins the basis and may explain others: look again. Ends, as `trusted` only grows.
        trusted |= refuted


def _split(summary: Moments, among: list[int], trusted: set[int]) -> tuple[list[int], list[int]]:
    """Cholesky elimination in ascending order of spread, so that totals come out as sums of their parts."""
    order = sorted(among, key=lambda j: summary.sd[j])
    scale = summary.sd[order]
    left = summary.covariance[np.ix_(order, order)] / np.outer(scale, scale)
    basis, suspects = [], []
    for place, j in enumerate(order):
        unexplained = left[place, place]
        if unexplained <= SUSPICIOUS and j not in trusted:
            suspects.append(j)
            continue
        basis.append(j)
        if unexplained > 0:
            direction = left[:, place] / np.sqrt(unexplained)
            left = left - np.outer(direction, direction)
    return basis, suspects


def _confirmed(values: Matrix, summary: Moments, basis: list[int], column: int) -> LinearRule | None:
    """The rule for a suspicious column, if it holds on the rows: with whole coefficients first, then as fitted."""
    sd = summary.sd
    correlations = summary.covariance[np.ix_(basis, [*basis, column])] / np.outer(sd[basis], sd[[*basis, column]])
    weights = np.linalg.lstsq(correlations[:, :-1], correlations[:, -1], rcond=1e-14)[0]
    weights[np.abs(weights) < 1e-6] = 0.0
    coefficients = weights * sd[column] / sd[basis]
    whole = np.round(coefficients)
    if whole.any():
        rule = _rule(column, basis, whole, summary)
        if _largest_miss(values, rule) <= EXACT:
            # A rule between whole columns with a constant of round-off size has none.
            plain = LinearRule(column, rule.terms)
            return plain if _largest_miss(values, plain) <= EXACT else rule
    rule = _rule(column, basis, coefficients, summary)
    return rule if _residual_norm(values, rule) <= RANK_TOLERANCE * sd[column] * np.sqrt(values.shape[0]) else None


def _rule(column: int, basis: list[int], coefficients: NDArray[np.float64], summary: Moments) -> LinearRule:
    terms = {j: float(c) for j, c in sorted(zip(basis, coefficients, strict=True)) if c != 0}
    constant = summary.mean[column] - sum(c * summary.mean[j] for j, c in terms.items())
    return LinearRule(column, terms, float(constant))


def _misses(values: Matrix, rule: LinearRule, piece: slice) -> tuple[Array, Array]:
    """What the rule leaves unexplained in some rows, and how large its terms are there. NaN where a term is missing."""
    columns = {j: values.columns[j][piece] for j in (rule.column, *rule.terms)}
    size = np.abs(columns[rule.column]) + sum(abs(c) * np.abs(columns[j]) for j, c in rule.terms.items())
    return columns[rule.column] - rule.rebuilt(columns), size


def _largest_miss(values: Matrix, rule: LinearRule) -> float:
    largest, size = 0.0, 0.0
    for piece in (piece for pieces in segments(values.shape[0], len(rule.terms)) for piece in pieces):
        misses, sizes = _misses(values, rule, piece)
        present = np.isfinite(misses)
        if present.any():
            largest = max(largest, float(np.abs(misses[present]).max()))
            size = max(size, float(sizes[present].max()))
    return largest / size if size else np.inf


def _residual_norm(values: Matrix, rule: LinearRule) -> float:
    total = 0.0
    for piece in (piece for pieces in segments(values.shape[0], len(rule.terms)) for piece in pieces):
        misses, _ = _misses(values, rule, piece)
        total += float(np.square(misses[np.isfinite(misses)]).sum())
    return float(np.sqrt(total))
