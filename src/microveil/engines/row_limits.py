"""What every row keeps where columns have their own values: orders of columns, and bounds of columns that are rebuilt.

All of it is linear in the columns that are exchanged (or in the gaps that stand for some), so that one search for
exchanges does it. An order that nobody declared is kept unless it costs too much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.rng import Stream
from microveil.core.sorted_columns import mid_ranks
from microveil.core.table import Microdata
from microveil.engines.restoring import Restored
from microveil.engines.set_aside import SetAside
from microveil.restore import Arrangement, Limits, within_limits
from microveil.rules.domain import Domain, heaped_ends
from microveil.rules.linear_rules import LinearRule, in_order
from microveil.rules.near_rules import gaps, gaps_beside_holes, without_gaps
from microveil.rules.orders import MOST_COST, OrderRule, implied_orders
from microveil.rules.product_rules import ProductRule

CLOSE = 0.02
"""Share of its variance by which a column differs from one that is never above it, at most, for the difference to be
worth more than the column: a length of stay, and not the day of discharge."""

MOST_LEFT = 0.05
"""Share of rows that exchanges may leave beyond an order that nobody declared: the ends of columns are drawn anew, and
what is left without a partner there is cut off."""

ROWS = 20_000
"""Rows on which rank correlations are compared, at most."""


def close_orders(table: Microdata, orders: Sequence[OrderRule], present: Mask | None) -> list[LinearRule]:
    """How columns follow from the nearest that is never above them, but for a small difference.

    `table` has the columns without holes, `orders` are between its columns, and `present` is rows x columns or None.
    The lower column must have a value wherever the upper one has.
    """
    columns = table.confidential.columns
    nearest: dict[int, tuple[float, int]] = {}
    for order in orders:
        low, high = order.lower, order.upper
        there = slice(None) if present is None else present[:, high]
        if present is None or present[there, low].all():
            apart = float(np.var(columns[high][there] - columns[low][there]))
            least = min(float(np.var(columns[j][there])) for j in (low, high))
            if apart <= CLOSE * least and apart < nearest.get(high, (np.inf, 0))[0]:
                nearest[high] = apart, low
    rules = [LinearRule(high, {low: 1.0}, exact=False) for high, (_, low) in nearest.items()]
    return in_order(rules, set(range(len(columns))) - nearest.keys())[0]


def limited(mapping: Restored, aside: SetAside, core: Microdata, present: Mask | None, stream: Stream) -> Restored:
    """The restored columns with values exchanged between rows, so that every row keeps what it can.

    Args:
        mapping: what the arrangement made of the columns.
        aside: the table, the columns that are rebuilt and the rules.
        core: the columns that were perturbed, without holes.
        present: where they have a value, rows x columns; None for everywhere.
        stream: of random numbers.
    """
    rows = _Rows(mapping, aside, core)
    limits, found = rows.limits()
    if limits.bounds.size == 0:
        return rows.with_orders_of_products(mapping)
    start = rows.columns
    wanted, present = gaps_beside_holes(core.confidential.columns, mapping.gap_rules, present, stream)
    broken, target = limits.broken(start), core.with_confidential(wanted)
    dropped: list[int] = []
    while True:
        left = limits.without(dropped)
        new = within_limits(Arrangement(start, mapping.labels), left, target, present, stream.generator())
        still = limits.broken(new)
        stuck = [at for at in found if at not in dropped and still[at] > MOST_LEFT * core.count]
        costly = (
            [at for at in found if at not in dropped and broken[at]]
            if broken.any() and rows.cost(new) > MOST_COST
            else []
        )
        if not stuck and not costly:
            break
        dropped.append(max(stuck or costly, key=lambda at: int((still if stuck else broken)[at])))
    made = replace(
        mapping,
        columns=without_gaps(new, mapping.gap_rules) if broken.any() else mapping.columns,
        kept_orders=[order for at, order in found.items() if at not in dropped],
        costly_orders=[found[at] for at in dropped],
    )
    return rows.with_orders_of_products(made)


@dataclass(frozen=True, repr=False)
class _Rows:
    """Rows of columns that are exchanged, and what is made of them."""

    mapping: Restored
    aside: SetAside
    core: Microdata

    @cached_property
    def columns(self) -> list[Array]:
        """The columns that are exchanged, with gaps in the place of those that are made of them."""
        return gaps(self.mapping.columns, self.mapping.gap_rules)

    @cached_property
    def made(self) -> Mapping[int, Array]:
        """How each column that varies is made of those that are exchanged: coefficients, then a constant."""
        chosen = self.aside.dependence.independent
        made = dict(zip(chosen, np.eye(len(chosen), len(chosen) + 1), strict=True))
        numbers = dict(enumerate(chosen))
        rules = self.mapping.gap_rules
        for rule in rules:
            if isinstance(rule, ProductRule):  # no sum of what is exchanged, nor is what is made of it
                del made[numbers[rule.column]]
        of_gaps = [rule.renumbered(numbers) for rule in rules if isinstance(rule, LinearRule)]
        for rule in (*of_gaps, *self.aside.dependence.ordered_rules):
            if made.keys() >= rule.terms.keys():
                total = np.sum([c * made[j] for j, c in rule.terms.items()], axis=0)
                total[-1] += rule.constant
                made[rule.column] = made[rule.column] + total if rule.column in made else total
        return made

    def with_orders_of_products(self, found: Restored) -> Restored:
        """What was found, with the orders that nobody declared of columns that are products.

        No exchange looks at these. They hold as long as the products do: those that few rows break are kept.
        """
        place = {j: at for at, j in enumerate(self.aside.dependence.independent)}
        pairs = [(order, {order.lower, order.upper}) for order in self.aside.rules.found_orders]
        orders = [order for order, pair in pairs if place.keys() >= pair and not self.made.keys() >= pair]
        broken = [order.renumbered(place).broken(found.columns) > MOST_LEFT * self.core.count for order in orders]
        kept = [order for order, lost in zip(orders, broken, strict=True) if not lost]
        costly = [order for order, lost in zip(orders, broken, strict=True) if lost]
        return replace(found, kept_orders=[*found.kept_orders, *kept], costly_orders=[*found.costly_orders, *costly])

    def limits(self) -> tuple[Limits, dict[int, OrderRule]]:
        """Everything that is kept, and which of it are orders that nobody declared."""
        aside, seen = self.aside, []
        lines: list[Array] = []
        found: dict[int, OrderRule] = {}
        implied = implied_orders(aside.table.confidential, aside.dependence.rules)
        for order in (*aside.rules.orders, *aside.rules.found_orders):
            if {order.lower, order.upper} <= self.made.keys() and (order.lower, order.upper) not in implied:
                if order not in aside.rules.orders:
                    found[len(lines)] = order
                lines.append(self.made[order.lower] - self.made[order.upper])
                seen.append([order.lower, order.upper])
        domains = aside.rules.domains(mapped=True)
        rebuilt = [rule.column for rule in aside.dependence.rules]
        rebuilt += [aside.dependence.independent[rule.column] for rule in self.mapping.gap_rules]
        for j in (j for j in rebuilt if domains and j in self.made):
            ends = heaped_ends(aside.table.confidential.columns[j]) if aside.rules.learnt else Domain()
            for sign, bound in zip((-1.0, 1.0), ends.over(domains[j]).bounds(), strict=True):
                if bound is not None:
                    lines.append(sign * self.made[j])
                    lines[-1][-1] -= sign * bound
                    seen.append([j])
        every = np.array(lines).reshape(len(lines), len(self.core.confidential_names) + 1)
        holes = aside.holes
        there = None if holes is None or not lines else np.array([~holes[:, those].any(axis=1) for those in seen])
        return Limits(every[:, :-1], 0.0 - every[:, -1], there), found

    def cost(self, columns: Sequence[Array]) -> float:
        """By how much the worst of the rank correlations gets worse if the exchanged columns become these."""
        before, after = (self._rank_errors(those) for those in (self.columns, columns))
        return float((after - before).max(initial=0.0))

    def _rank_errors(self, columns: Sequence[Array]) -> Array:
        """How far rank correlations of all columns that vary are off."""
        some = [column[self._some] for column in columns]
        made = [np.sum([c * some[at] for at, c in enumerate(of[:-1]) if c], axis=0) for of in self.made.values()]
        errors: Array = np.abs(self._rank_correlations(made) - self._original)
        return errors

    @cached_property
    def _original(self) -> Array:
        return self._rank_correlations([self.aside.table.confidential.columns[j][self._some] for j in self.made])

    @property
    def _some(self) -> slice:
        """Rows on which rank correlations are compared."""
        return slice(None, None, max(1, self.core.count // ROWS))

    def _rank_correlations(self, columns: Sequence[Array]) -> Array:
        """Spearman's, of some of the rows, which are given; cells that are missing in the original count as none."""
        holes, scores = self.aside.holes, []
        for j, column in zip(self.made, columns, strict=True):
            there = np.ones(column.size, dtype=bool) if holes is None else ~holes[self._some, j]
            score = np.zeros(there.size)
            ranks = mid_ranks(column[there])
            score[there] = ranks - ranks.mean() if ranks.size else 0.0
            size = np.sqrt(np.square(score).sum())
            scores.append(score / size if size else score)
        found: Array = np.array(scores) @ np.array(scores).T
        return found
