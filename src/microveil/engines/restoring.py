"""Columns get their own distributions back, arranged between records, and within the limits that rows keep.

Where each column gets its own distribution again, columns are mapped one by one, which breaks a sum that holds in most
rows but not in all. Where there is such a sum, the gap is mapped in the place of the total. Which is better depends on
the data: how well a logistic regression tells the results from the original, and how much of its statistics is lost,
decides, and not the name of the data. Likewise an order of columns that are hardly apart (admission and discharge): the
difference is mapped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Mask
from microveil.core.moments import moments
from microveil.core.rng import Stream
from microveil.core.table import Matrix, Microdata
from microveil.measures.utility.information_loss import pil
from microveil.measures.utility.propensity import MOST_COLUMNS, propensity_3
from microveil.restore import Marginal, Marginals, Settled, arrange, mapped
from microveil.restore.hidden_clusters import MOST_CLUSTERS
from microveil.rules.linear_rules import LinearRule
from microveil.rules.near_rules import (
    FIRST_ROWS,
    HOLDS,
    GapRule,
    find_near_rules,
    gaps,
    gaps_beside_holes,
    is_sum,
    rows_to_search,
    rows_with_all_cells,
    share_met,
    without_gaps,
)
from microveil.rules.orders import OrderRule
from microveil.rules.product_rules import ProductRule, find_product_rules

UNSETTLED = 0.1
"""Difference of correlations from which on the columns may be better left free, which is then measured."""

MOST_FACTORS = 40
"""Columns up to which products are looked for: each is a regression on all others."""

OWED = 0.9
"""Share of rows from which on a sum is a rule with errors, and its users must find it again; below, it is a relation
like others, and worth what other measures say."""


@dataclass(frozen=True, repr=False)
class Restored:
    """Released columns and labels, how near their correlations came, and sums that hold in most rows and still do.

    Without exchanges nobody has looked how near they came.
    """

    columns: list[Array]
    settled: Settled | None
    labels: Sequence[NDArray[np.intp]] = ()
    near_rules: Sequence[LinearRule] = ()
    gap_rules: Sequence[GapRule] = ()
    """By which columns were made of their gaps."""

    products: Sequence[ProductRule] = ()
    """That hold but for rounding, and still do."""

    clusters: int = 1
    """In which they were arranged."""

    kept_orders: Sequence[OrderRule] = ()
    """Of those that were found, by the numbers of the confidential columns; and those that would have cost too much."""

    costly_orders: Sequence[OrderRule] = ()

    def renumbered(self, numbers: Mapping[int, int]) -> Restored:
        """The same, with rules of columns that have other numbers elsewhere."""
        products = [rule.renumbered(numbers) for rule in self.products]
        return replace(self, near_rules=[rule.renumbered(numbers) for rule in self.near_rules], products=products)


def restored(
    step: Marginals,
    table: Microdata,
    perturbed: Callable[[], list[Array]],
    allowed: Callable[[list[Array]], list[Array]],
    present: Mask | None,
    stream: Stream,
    close: Sequence[LinearRule] = (),
    orders: Sequence[OrderRule] = (),
) -> Restored | None:
    """The columns with their distributions given back, as well as it can be done; None if they are better left free.

    Args:
        step: how distributions come back.
        table: the columns without holes.
        perturbed: gives the perturbed columns, the same at each call: each attempt uses them up.
        allowed: gives columns that are left free the values they can have.
        present: rows x columns, or None.
        stream: of random numbers.
        close: how columns follow from others but for a difference that is not below zero.
        orders: of the columns, which rows are made to keep afterwards.
    """
    if step.marginals == "smoothed" and not step.smooths(table.count):
        return None
    if not step.exchange:
        return Restored(mapped(perturbed(), _marginals(step, table, present, stream)), None)
    whole = table.confidential if present is None else table.confidential.take(np.flatnonzero(present.all(axis=1)))
    rules, products = _rules_of_gaps(whole, close, orders, stream)
    if present is not None:  # where many gaps would have to be made up, the column itself is worth more
        rules = [rule for rule in rules if rows_with_all_cells(rule, present).mean() >= OWED]
        products = [rule for rule in products if rows_with_all_cells(rule, present).mean() >= OWED]
    plain = mapped_back(step, table, perturbed, present, stream, close)
    # With so many columns every regression tells the files apart, so that nothing could be compared.
    many = table.confidential.shape[1] > MOST_COLUMNS
    labelled = bool(table.labels.names or table.beside.before)  # whose relations come back by exchanges only
    if step.marginals == "original" or many or not (rules or products or (_unsettled(plain) and not labelled)):
        return plain
    sums = [rule for rule in rules if is_sum(rule)]
    found: list[GapRule] = [*sums, *products]
    owed = [rule for rule in found if share_met(whole.columns, rule) >= OWED]
    tried: list[list[GapRule]] = [[*close, *rules, *products]] if rules or products else []
    # A gap hides no more clusters than its column: with more, the release would be fitted to more than records hide.
    attempts = [plain, *(mapped_back(step, table, perturbed, present, stream, each, plain.clusters) for each in tried)]
    losses = [_loss(table, attempt.columns, owed, present) for attempt in attempts]
    best = attempts[int(np.argmin(losses))]
    # Swapped components know nothing of weights: left free, the columns would keep no moment at all.
    if table.weights is None and not labelled and min(losses) > _loss(table, allowed(perturbed()), owed, present):
        return None
    still = [rule for rule in sums if min(_shares_met(table, best.columns, rule, present)) >= HOLDS]
    products = [rule for rule in products if rule in best.gap_rules]
    products = [rule for rule in products if _shares_met(table, best.columns, rule, present)[1] >= OWED]
    return replace(best, near_rules=still, products=products)


def _rules_of_gaps(
    values: Matrix, close: Sequence[LinearRule], orders: Sequence[OrderRule], stream: Stream
) -> tuple[list[LinearRule], list[ProductRule]]:
    """How columns are sums or products of others but for a gap; none that has a rule, or that another is made of.

    Args:
        values: the rows without missing cells.
        close: the rules that there are.
        orders: those that rows are to keep.
        stream: of random numbers.
    """
    count, width = values.shape
    if count <= 2 * width:
        return [], []
    near = find_near_rules(values, moments(values.piece, count), stream.child("rules"))
    taken = {j for rule in close for j in (rule.column, *rule.terms)}
    near = [rule for rule in near if rule.column not in taken]
    if width > MOST_FACTORS:
        return near, []
    taken |= {j for rule in near for j in (rule.column, *rule.terms)}
    in_orders = {j for order in orders for j in (order.lower, order.upper)}
    found = find_product_rules(rows_to_search(values, stream.child("products"), FIRST_ROWS), taken, in_orders)
    return near, [rule.within_its_ends(values.columns) for rule in found if rule.explains(values.columns)]


def mapped_back(
    step: Marginals,
    table: Microdata,
    perturbed: Callable[[], list[Array]],
    present: Mask | None,
    stream: Stream,
    rules: Sequence[GapRule] = (),
    most_clusters: int = MOST_CLUSTERS,
) -> Restored:
    """Values by rank, then exchanges; with gaps in the place of columns that have a rule (`rules`).

    They are exchanged in clusters first, `most_clusters` at most. The other arguments are those of `restored`.
    """
    target, present = gaps_beside_holes(table.confidential.columns, rules, present, stream)
    original = table.with_confidential(target)
    made = {table.confidential_names[rule.column] for rule in rules}
    original = replace(original, bands=tuple(bands for bands in table.bands if bands.source not in made))
    marginals = _marginals(step, original, present, stream)
    own = stream.child("arrange")
    found = arrange(lambda: gaps(perturbed(), rules), marginals, original, present, own, most_clusters)
    columns = without_gaps(found.columns, rules)
    return Restored(columns, found.settled, found.labels, gap_rules=rules, clusters=found.clusters)


def _marginals(step: Marginals, table: Microdata, present: Mask | None, stream: Stream) -> list[Marginal]:
    """The values each released column will have."""
    return [
        step.of(
            column,
            None if present is None else present[:, j],
            stream.child(f"smooth {j}"),
            table.values.made_when_read,
        )
        for j, column in enumerate(table.confidential.columns)
    ]


def _unsettled(mapped: Restored) -> bool:
    return mapped.settled is not None and max(mapped.settled.correlation, mapped.settled.rank_correlation) > UNSETTLED


def _loss(table: Microdata, columns: Sequence[Array], owed: Sequence[GapRule], present: Mask | None) -> float:
    """How well the files can be told apart, what is lost, and the rows in which a rule no longer holds; from 0 to 3."""
    original, released = table.confidential, table.confidential.with_columns(columns)
    propensity, lost = propensity_3(original, released, seed=0).value, pil(original, released).value
    shares = (_shares_met(table, columns, rule, present) for rule in owed)
    return propensity + lost + max((before - after for before, after in shares), default=0.0)


def _shares_met(table: Microdata, columns: Sequence[Array], rule: GapRule, present: Mask | None) -> tuple[float, float]:
    """In what share of the rows that have all its cells a rule holds, before and after."""
    rows = slice(None) if present is None else rows_with_all_cells(rule, present)
    both = (table.confidential.columns, columns)
    sides = ({j: side[j][:][rows] for j in (rule.column, *rule.terms)} for side in both)
    before, after = (share_met(side, rule) for side in sides)
    return before, after
