"""What is set aside before a method runs (constant columns, columns that follow from others), and put back after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.errors import DataError
from microveil.core.moments import Profile
from microveil.core.table import Matrix, Microdata
from microveil.core.tolerances import SUM_ROUND_OFF
from microveil.engines.pipeline import Spectrum
from microveil.engines.scores import RebuildMap
from microveil.methods import Plan
from microveil.restore import Enforcement, Sums, cost_of, ordered
from microveil.rules.column_rules import ColumnRules
from microveil.rules.domain import Domain
from microveil.rules.linear_rules import Dependence, LinearRule, dependence_among
from microveil.rules.ratios import RatioRule


def dependence_of(
    plan: Plan, table: Microdata, profile: Profile, rules: ColumnRules, holes: Mask | None = None
) -> Dependence:
    """Columns that vary and stand for themselves, and rules for those that follow from them by a sum.

    It serves every engine: `profile` is that of the table, `holes` (rows x confidential columns) tells where cells are
    missing, None if nowhere.
    """
    ratios = {rule.column for rule in rules.ratios}
    varying = [j - table.public for j in profile.varying() if j >= table.public and j - table.public not in ratios]
    # A rule is about rows: each counts once, so weighted moments do not serve.
    summary = profile.moments.select([table.public + j for j in varying]) if table.weights is None else None
    ordered_columns = plan.decompose.ordered
    return dependence_among(table.confidential, varying, holes, rules.sums, summary=summary, ordered=ordered_columns)


def places_of(
    sensitive: Sequence[int], dependence: Dependence, ratios: Sequence[RatioRule], names: Sequence[str]
) -> list[int]:
    """Sensitive columns by their place among the perturbed ones; a rebuilt column stands for what it is made of.

    `sensitive` counts the confidential columns, whose `names` are for the message.
    """
    terms = {rule.column: list(rule.terms) for rule in dependence.rules}
    terms |= {rule.column: [rule.numerator, rule.denominator] for rule in ratios}
    wanted = list(sensitive)
    while any(j in terms for j in wanted):
        wanted = [k for j in wanted for k in terms.get(j, [j])]
    place = {j: at for at, j in enumerate(dependence.independent)}
    for j in wanted:
        if j not in place:
            raise DataError(f"sensitive: column '{names[j]}' is constant", "leave it out of sensitive")
    return [place[j] for j in dict.fromkeys(wanted)]


def rebuild_map(dependence: Dependence, names: Sequence[str]) -> RebuildMap:
    """All columns that vary, in the order of the table, as combinations of those that are perturbed."""
    made = dependence.combined(np.eye(len(dependence.independent)))
    order = sorted(made)
    places = [order.index(j) for j in dependence.independent]
    return RebuildMap(tuple(names[j] for j in order), np.column_stack([made[j] for j in order]), places)


def altered_variance(spectrum: Spectrum, dependence: Dependence, width: int) -> Array:
    """The variance of each column in the perturbed components; a rebuilt column has what its terms add up to."""
    chosen = spectrum.selected
    altered = np.zeros(width)
    for j, loading in dependence.combined(spectrum.axes.loadings.T).items():
        altered[j] = np.square(loading[chosen]) @ spectrum.axes.variance[chosen]
    return altered


@dataclass(frozen=True, repr=False)
class Totals:
    """Columns that are rebuilt of the perturbed ones: their cells, which are there, and what they are made of.

    `cells` and `present` are rows x totals, `matrix` is perturbed columns x totals.
    """

    cells: Array
    present: Mask
    matrix: Array
    constant: Array

    @classmethod
    def with_holes(cls, table: Microdata, dependence: Dependence, holes: Mask) -> Totals:
        """The totals of which cells, or cells of what they are made of, are missing (`holes`: rows x columns)."""
        chosen = np.array(dependence.independent)
        made = dependence.combined(np.eye(chosen.size))
        constant = dict.fromkeys(dependence.independent, np.zeros(()))
        found = []
        for rule in dependence.ordered_rules:
            constant[rule.column] = rule.rebuilt(constant)
            if holes[:, [rule.column, *chosen[made[rule.column] != 0]]].any():
                found.append(rule.column)
        return cls(
            np.column_stack([np.empty((table.count, 0)), *(table.confidential.columns[j] for j in found)]),
            ~holes[:, found],
            np.array([made[j] for j in found]).reshape(-1, chosen.size).T,
            np.array([float(constant[j]) for j in found]),
        )

    def after_public(self, public: int) -> Sums:
        """What they are made of, where so many public columns stand before the perturbed ones."""
        return Sums(np.vstack([np.zeros((public, self.constant.size)), self.matrix]), self.constant)


@dataclass(frozen=True, repr=False)
class SetAside:
    """The columns of a table that are not perturbed, and the rules that they come back by."""

    table: Microdata
    dependence: Dependence
    rules: ColumnRules
    holes: Mask | None
    """Where confidential cells are missing, rows x columns; None if nowhere."""

    def put_back(self, columns: Sequence[Array], holes: Mask | None) -> list[Array]:
        """Perturbed (the `columns`), rebuilt and constant columns in the order of the table."""
        new = dict(zip(self.dependence.independent, columns, strict=True))
        domains = self.rules.domains(mapped=True)
        for rule in self.dependence.ordered_rules:
            new[rule.column] = _rebuilt(rule, new, domains[rule.column] if domains else Domain(), holes)
        original = self.table.confidential.columns
        known = {**dict(enumerate(original)), **new}
        new |= {rule.column: rule.rebuilt(known) for rule in self.rules.ratios}
        return [new[j] if j in new else np.array(column) for j, column in enumerate(original)]

    def varying(self, columns: Sequence[Array]) -> Matrix:
        """Perturbed and rebuilt columns, as a release would have them if it had no holes."""
        rebuilt = {rule.column for rule in self.dependence.rules} | {rule.column for rule in self.rules.ratios}
        released = self.put_back(columns, None)
        return Matrix([released[j] for j in sorted(rebuilt.union(self.dependence.independent))])

    def in_order(self, released: list[Array]) -> tuple[list[Array], Enforcement | None]:
        """Orders with a column that was rebuilt: kept by the other, unless something was made of it, too; the cost."""
        chosen, orders = self.dependence.independent, self.rules.orders
        used = {j for rule in self.dependence.rules for j in rule.terms}
        used |= {j for rule in self.rules.ratios for j in (rule.numerator, rule.denominator)}
        if all({rule.lower, rule.upper} <= set(chosen) for rule in orders):
            return released, None
        domains = self.rules.domains(mapped=True) or [Domain()] * len(released)
        present = None if self.holes is None else ~self.holes
        new = ordered(released, domains, orders, set(chosen) - used, present)
        return new, cost_of([released[j] for j in chosen], [new[j] for j in chosen], self.table.weights)


def _rebuilt(rule: LinearRule, columns: Mapping[int, Array], domain: Domain, holes: Mask | None) -> Array:
    """A column from the others, with values of its domain as far as the rule lets it (`holes`: rows x columns)."""
    values = rule.rebuilt(columns)
    if domain.step is not None:
        # 0.1 + 0.2 is not the double that '0.3' is read as, and no cell of the column had it before.
        size = np.sum([np.abs(coefficient * columns[j]) for j, coefficient in rule.terms.items()], axis=0)
        rounded = domain.rounded(values)
        values = np.where(np.abs(rounded - values) <= SUM_ROUND_OFF * size, rounded, values)
    if holes is not None:
        # Where a term is missing it was filled in with any number, and nobody can see whether the rule holds.
        free = holes[:, list(rule.terms)].any(axis=1)
        values[free] = domain.allowed(values[free])
    return values
