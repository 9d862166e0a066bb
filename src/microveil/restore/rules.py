"""Rules of single columns, enforced on the release: bounds, step, and the share of zeros; and orders of two columns.

What is learnt from the data gives way to statistics that the method keeps exactly; what the user declares does not.
Either way the cost shows: the moments of the release are measured after this step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.moments import largest_gap, moments
from microveil.core.table import Matrix
from microveil.core.tolerances import SUM_ROUND_OFF
from microveil.rules.domain import Domain
from microveil.rules.orders import OrderRule


@dataclass(frozen=True)
class Enforcement:
    """What rules have cost: columns that were changed, and how far that moved means and covariances (in sd)."""

    columns: frozenset[int]
    cells: int
    mean: float
    covariance: float

    def combined(self, other: Enforcement) -> Enforcement:
        """Both, of two strata: cells add up, and the worse cost counts."""
        return Enforcement(
            self.columns | other.columns,
            self.cells + other.cells,
            max(self.mean, other.mean),
            max(self.covariance, other.covariance),
        )


def enforced(
    columns: Sequence[Array],
    domains: Sequence[Domain],
    present: Mask | None,
    weights: Array | None,
    orders: Sequence[OrderRule] = (),
    keep: Callable[[Array], Array] = lambda column: column,
) -> tuple[list[Array], Enforcement | None]:
    """The columns with values that their domains allow: rounded, cut off, and with as many zeros as there were.

    `columns` (rows each) and `domains` go together; `present` is rows x columns or None, `weights` (rows) or None.
    Then, where `orders` say so, one column is not above another. With it comes the cost, or None if all values were
    allowed already. Cells that are not `present` are left alone. Each new column is kept where `keep` puts it.
    """
    if not orders and all(domain == Domain() for domain in domains):
        return list(columns), None
    there = [None] * len(columns) if present is None else list(present.T)
    new = [_where_there(*those, keep) for those in zip(columns, domains, there, strict=True)]
    new = ordered(new, domains, orders, range(len(columns)), present)
    return new, cost_of(columns, new, weights)


def cost_of(columns: Sequence[Array], new: Sequence[Array], weights: Array | None) -> Enforcement | None:
    """What it cost to turn the columns into the new ones, without holes in either; None if nothing moved."""
    moved = [
        int(np.count_nonzero(np.abs(after - before) > SUM_ROUND_OFF * np.abs(after)))
        for before, after in zip(columns, new, strict=True)
    ]
    if not any(moved):
        return None
    count = columns[0].size
    old_moments, new_moments = (moments(Matrix(those).piece, count, weights=weights) for those in (columns, new))
    sd = np.where(old_moments.sd > 0, old_moments.sd, 1.0)
    return Enforcement(
        columns=frozenset(np.flatnonzero(moved).tolist()),
        cells=sum(moved),
        mean=float(np.abs((new_moments.mean - old_moments.mean) / sd).max()),
        covariance=largest_gap(new_moments, old_moments, sd),
    )


def ordered(
    columns: Sequence[Array],
    domains: Sequence[Domain],
    orders: Sequence[OrderRule],
    free: Collection[int],
    present: Mask | None = None,
) -> list[Array]:
    """The columns with every order kept that `free` columns can keep: the lower is cut down to the upper.

    Where its own domain ends above it, or only the upper is free, the upper is raised. Orders that build on each other
    take as many rounds as there are links.
    """
    new = list(columns)
    for _ in range(len(orders) + 1):
        before = list(new)
        for rule in orders:
            low, high = rule.lower, rule.upper
            rows = rule.broken_rows(new)
            if present is not None:
                rows &= present[:, low] & present[:, high]
            if rows.any() and low in free:
                new[low] = _replaced(new[low], rows, _at_most(new[high][rows], domains[low]))
                rows &= rule.broken_rows(new)
            if rows.any() and high in free:
                new[high] = _replaced(new[high], rows, _at_least(new[low][rows], domains[high]))
        if all(old is column for old, column in zip(before, new, strict=True)):
            break
    return new


def _replaced(column: Array, rows: Mask, values: Array) -> Array:
    out = column.copy()
    out[rows] = values
    return out


def _at_most(limits: Array, domain: Domain) -> Array:
    """The largest value of the domain that is not above each limit; its least value where there is none."""
    values = domain.allowed(limits)
    return values if domain.step is None else np.where(values > limits, domain.allowed(values - domain.step), values)


def _at_least(limits: Array, domain: Domain) -> Array:
    values = domain.allowed(limits)
    return values if domain.step is None else np.where(values < limits, domain.allowed(values + domain.step), values)


def _where_there(column: Array, domain: Domain, there: Mask | None, keep: Callable[[Array], Array]) -> Array:
    if domain == Domain():
        return column
    if there is None or there.all():
        return keep(_enforced(column[:], domain))
    out = column.copy()
    out[there] = _enforced(out[there], domain)
    return keep(out)


def _enforced(column: Array, domain: Domain) -> Array:
    values = domain.allowed(column)
    return values if domain.zeros is None else _with_zeros(column, values, domain, domain.zeros)


def _with_zeros(column: Array, values: Array, domain: Domain, share: float) -> Array:
    """The cells nearest to zero become zero, until there are as many as before; other zeros get the next value.

    Where zero is the least value of the column, what a method has put below it comes first.
    """
    distance = column if domain.minimum == 0 else -column if domain.maximum == 0 else np.abs(column)
    order = np.argsort(distance, kind="stable")
    wanted = round(share * column.size)
    out = values.copy()
    out[order[:wanted]] = 0.0
    excess = order[wanted:][out[order[wanted:]] == 0]
    nearest = np.abs(out[out != 0]).min(initial=np.inf) if domain.step is None else domain.step
    if excess.size and np.isfinite(nearest):
        below, above = domain.allowed(np.array([-nearest, nearest]))  # zero where the column ends at it
        out[excess] = np.where((column[excess] < 0) & (below != 0) | (above == 0), below, above)
    return out
