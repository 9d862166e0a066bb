"""What is known of the columns when the work begins: rules between them, and the values each can have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from microveil.rules.domain import Domain
from microveil.rules.linear_rules import LinearRule
from microveil.rules.orders import OrderRule
from microveil.rules.ratios import RatioRule

Rule = LinearRule | RatioRule | OrderRule


@dataclass(frozen=True, repr=False)
class ColumnRules:
    """Rules among the confidential columns, and their domains; columns by number.

    `learnt` domains, `found_ratios` and `found_orders` are what the data look like, `declared` domains, `sums`,
    `ratios` and `orders` what the user says must hold, `watched` rules what is only counted. Domains have an entry per
    column, or none.
    """

    sums: Sequence[LinearRule] = ()
    ratios: Sequence[RatioRule] = ()
    found_ratios: Sequence[RatioRule] = ()
    learnt: Sequence[Domain] = ()
    declared: Sequence[Domain] = ()
    orders: Sequence[OrderRule] = ()
    found_orders: Sequence[OrderRule] = ()
    watched: Sequence[Rule] = ()

    def of_use(self, *, moments_first: bool) -> ColumnRules:
        """What was declared always, what the data look like unless moments are promised exactly."""
        if moments_first:
            return replace(self, learnt=(), found_ratios=(), found_orders=())
        return replace(self, ratios=(*self.ratios, *self.found_ratios), found_ratios=())

    def domains(self, *, mapped: bool) -> list[Domain]:
        """The domains to enforce; none where nothing is known.

        Values that were `mapped` back to a column have as many zeros as it allows; smoothing may have taken some.
        """
        learnt = [replace(looks, zeros=None) for looks in self.learnt] if mapped else list(self.learnt)
        if not learnt:
            return list(self.declared)
        if not self.declared:
            return learnt
        return [says.over(looks) for says, looks in zip(self.declared, learnt, strict=True)]


NOTHING_KNOWN = ColumnRules()
