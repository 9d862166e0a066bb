"""Columns that are a product of powers of others but for their rounding: the body mass index, a volume, a sum insured.

As with sums that hold in most rows (see near_rules), the gap between the column and its product is a column of its own:
a method that perturbs the gap in its place keeps the rule.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.fewest_records import FEWEST_RECORDS
from microveil.core.linalg import regression_slopes
from microveil.core.tolerances import FINE_ROUND_OFF, TEXT_ROUND_OFF
from microveil.rules.domain import Domain, step_of
from microveil.rules.linear_rules import Columns

TIED = 1e-3
"""Share of the variance of a column's logarithm that the product leaves unexplained at most, for it to be a rule."""

POSITIVE = 0.99
"""Share of rows in which a column must be above zero to have a logarithm worth looking at."""

DISTINCT = 20
"""Values from which on a column may be a factor or a product."""

ROWS_PER_COLUMN = 20
"""Rows for each column that products are looked for among: fewer are fitted by chance."""

TRUSTED, REFITS = 0.9, 4
"""Share of rows that fit best, on which the fit is repeated and measured: gross errors in some must not bend it."""

HOLDS = 0.9
"""Share of rows in which the columns' rounding must explain the gap: what is larger has reasons of its own, and the
column has a distribution of its own."""

AS_GOOD = 2.0
"""How many times as much may stay unexplained by fewer factors, or by powers that are half a whole number."""

OUTWARD = 0.9
"""How far a column that is made may go from where enough records are to where the farthest is."""

FEWEST_TERMS, MOST_TERMS = 2, 6
"""Factors of a product: what follows from one column alone is a matter of ranks, what needs many is no definition."""


@dataclass(frozen=True, repr=False)
class ProductRule:
    """`column = scale * product of other column ** power`, columns by number, but for the rounding to their `steps`."""

    column: int
    powers: Mapping[int, float]
    scale: float
    steps: Mapping[int, float]
    above_zero: bool = False
    """Is the column above zero in every row?"""

    ends: tuple[float, float] = (-np.inf, np.inf)
    """Where the column that is made ends: a product of values that never met may be beyond all that there were."""

    @property
    def terms(self) -> Mapping[int, float]:
        """The factors, each with its power."""
        return self.powers

    def renumbered(self, numbers: Mapping[int, int]) -> ProductRule:
        """The same rule where columns have other numbers."""
        powers, steps = ({numbers[j]: value for j, value in those.items()} for those in (self.powers, self.steps))
        return replace(self, column=numbers[self.column], powers=powers, steps=steps)

    def is_like(self, other: ProductRule) -> bool:
        """Is it the same product, whatever its scale?"""
        return (self.column, self.powers) == (other.column, other.powers)

    def sentence(self, names: Sequence[str]) -> str:
        """`bmi ~ weight * height^-2`, as a person would write it; the scale, which is from the data, is not shown."""
        parts = [names[j] if power == 1 else f"{names[j]}^{power:.3g}" for j, power in self.powers.items()]
        return f"{names[self.column]} ~ {' * '.join(parts)}"

    def rebuilt(self, columns: Columns) -> Array:
        """The column from the others: 0 where there is no such product."""
        with np.errstate(all="ignore"):
            powers = [np.power(columns[j][:], power) for j, power in self.powers.items()]
            product = self.scale * np.prod(powers, axis=0)
        found: Array = np.where(np.isfinite(product), product, 0.0)
        return found

    def with_gap(self, gap: Array, columns: Columns) -> Array:
        """The column from its gap and the others, rounded; no gap takes one below zero that is above it everywhere."""
        domain, product = Domain(step=self.steps[self.column] or None), self.rebuilt(columns)
        made, plain = (domain.rounded(np.clip(values, *self.ends)) for values in (gap + product, product))
        return np.where(made > 0, made, plain) if self.above_zero else made

    def misses(self, columns: Columns) -> tuple[Array, Array]:
        """What rounding leaves unexplained in each row, and how large the product is there."""
        product = self.rebuilt(columns)
        with np.errstate(all="ignore"):
            parts = [abs(power) * self.steps[j] / np.abs(columns[j][:]) for j, power in self.powers.items()]
            rounding = (self.steps[self.column] + np.abs(product) * np.sum(parts, axis=0)) / 2
        gap = np.abs(columns[self.column][:] - product) - np.where(np.isfinite(rounding), rounding, 0.0)
        return np.maximum(gap, 0.0), np.abs(product)

    def within_its_ends(self, columns: Columns) -> ProductRule:
        """The same, with a column that is made not quite as far out as the farthest record, which cells would tell."""
        ascending = np.sort(columns[self.column][:])
        enough = min(FEWEST_RECORDS, ascending.size) - 1
        low, high = (
            ascending[at] + OUTWARD * (ascending[end] - ascending[at]) for at, end in ((enough, 0), (-1 - enough, -1))
        )
        return replace(self, ends=(float(low), float(high)))

    def explains(self, columns: Columns) -> bool:
        """Is it a rule: rounding explains nearly all rows, and the gaps of the others vary less than the column?"""
        misses, size = self.misses(columns)
        column = columns[self.column][:]
        holds = float(np.mean(misses <= TEXT_ROUND_OFF * size)) >= HOLDS
        return holds and bool(np.var(column - self.rebuilt(columns)) < np.var(column))


def find_product_rules(sample: Array, taken: Collection[int], in_orders: Collection[int] = ()) -> list[ProductRule]:
    """Rules for columns of a sample (columns x rows) in terms of columns that have none; none for those `taken`.

    Of the columns of a product, the one is rebuilt of which the others leave the least unexplained, gross errors
    included: any error of the others is small beside its own spread. One that keeps an order (`in_orders`) is rebuilt
    only if no other can be: no exchange would see to the order.
    """
    usable = [j for j, column in enumerate(sample) if _usable(column)]
    rows = (sample[usable] > 0).all(axis=0)
    if len(usable) <= FEWEST_TERMS or np.count_nonzero(rows) < ROWS_PER_COLUMN * len(usable):
        return []
    logs = np.log(sample[usable][:, rows])
    found: list[ProductRule] = []
    free = set(range(len(usable)))
    possible = {at for at in free if usable[at] not in taken}
    fits: dict[int, _Fit] = {}
    while True:
        for at in sorted(possible - fits.keys()):
            fit = _fitted(logs, at, sorted(free - {at}))
            if fit is not None and _rule(sample, usable, at, fit).explains(sample):
                fits[at] = fit
        possible = set(fits)  # what does not follow from all columns does not follow from fewer
        if not fits:
            return found
        best = min(fits, key=lambda at: (usable[at] in in_orders, fits[at].overall))
        found.append(_rule(sample, usable, best, fits[best]))
        free.remove(best)
        possible -= {best, *fits[best].powers}
        fits = {at: fit for at, fit in fits.items() if at in possible and best not in fit.powers}


def _rule(sample: Array, usable: Sequence[int], at: int, fit: _Fit) -> ProductRule:
    """The rule of a fit, in the numbers of the columns that it was found among (`usable`)."""
    powers = {usable[k]: power for k, power in fit.powers.items()}
    steps = {j: step_of(sample[j]) or 0.0 for j in (usable[at], *powers)}
    with np.errstate(over="ignore"):  # of a scale that no double can hold nothing follows
        scale = float(np.exp(fit.constant))
    return ProductRule(usable[at], powers, scale, steps, bool((sample[usable[at]] > 0).all()))


def _usable(column: Array) -> bool:
    """Is a column of amounts above zero, of many values?"""
    return bool(np.mean(column > 0) >= POSITIVE) and np.unique(column).size >= DISTINCT


@dataclass(frozen=True, repr=False)
class _Fit:
    """Powers and the logarithm of the scale; the variance left in the `kept` rows, which fit best, and `overall`."""

    powers: Mapping[int, float]
    constant: float
    unexplained: float
    overall: float
    kept: Mask


def _fitted(logs: Array, column: int, others: list[int]) -> _Fit | None:
    """The product of fewest factors that a column is, if it is one; powers are half whole numbers where these do."""
    fit = _trimmed(logs, column, others)
    if fit.unexplained > TIED:
        return None
    most = min(max(AS_GOOD * fit.unexplained, FINE_ROUND_OFF), TIED)
    while len(fit.powers) > 1:
        fewer = _trimmed(logs, column, _without_the_least(logs, column, fit))
        if fewer.unexplained > most:
            break
        fit = fewer
    if not FEWEST_TERMS <= len(fit.powers) <= MOST_TERMS:
        return None
    simple = _measured(logs, column, {k: round(2 * power) / 2 for k, power in fit.powers.items()})
    return simple if simple.unexplained <= most and all(simple.powers.values()) else fit


def _without_the_least(logs: Array, column: int, fit: _Fit) -> list[int]:
    """The factors but for the one without which least is lost, in the rows that fit best."""
    factors = list(fit.powers)
    covariance = np.cov(logs[[*factors, column]][:, fit.kept])
    fewer = [[at for at in range(len(factors)) if at != left_out] for left_out in range(len(factors))]
    crosses = [covariance[those, -1:] for those in fewer]
    explained = [
        (cross.T @ regression_slopes(covariance[np.ix_(those, those)], cross))[0, 0]
        for those, cross in zip(fewer, crosses, strict=True)
    ]
    return [factors[at] for at in fewer[int(np.argmax(explained))]]


def _trimmed(logs: Array, column: int, others: list[int]) -> _Fit:
    """The fit of the rows that fit best."""
    both = logs[[*others, column]]
    kept = np.ones(logs.shape[1], dtype=bool)
    slopes = np.zeros((len(others), 1))
    for _ in range(REFITS):
        covariance = np.cov(both[:, kept])
        slopes = regression_slopes(covariance[:-1, :-1], covariance[:-1, -1:])
        misses = both[-1] - slopes[:, 0] @ both[:-1]
        misses = np.abs(misses - np.median(misses))
        kept = misses <= np.quantile(misses, TRUSTED)
    return _measured(logs, column, dict(zip(others, slopes[:, 0].tolist(), strict=True)))


def _measured(logs: Array, column: int, powers: Mapping[int, float]) -> _Fit:
    """A product with its constant, and what it leaves in the rows that fit best, of what the column varies there."""
    misses = logs[column] - np.sum([power * logs[k] for k, power in powers.items()], axis=0)
    constant = float(np.median(misses))
    kept = np.abs(misses - constant) <= np.quantile(np.abs(misses - constant), TRUSTED)
    left, overall = (_share(misses, logs[column], rows) for rows in (kept, slice(None)))
    return _Fit(powers, constant, left, overall, kept)


def _share(misses: Array, column: Array, rows: Mask | slice) -> float:
    """Of the variance of a column in some rows, what is missed of it; 1 where there is none."""
    variance = float(column[rows].var())
    return float(misses[rows].var()) / variance if variance > 0 else 1.0
