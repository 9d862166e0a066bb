"""Columns that are linear combinations of others: found, left out, rebuilt.

A total that is the sum of its parts adds nothing to the components and must come back as the sum of the
released parts. Candidates come from the correlation matrix; whether one really holds is decided on the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.moments import Moments
from microveil.core.table import Matrix
from microveil.core.tolerances import FINE_ROUND_OFF, RANK_TOLERANCE, SUM_ROUND_OFF, TEXT_ROUND_OFF

Columns = Mapping[int, Array] | Sequence[Array] | Array
"""Columns by number: arrays of one length, or an array of columns x rows."""

SUSPICIOUS = 1e-6
"""Unexplained share of variance below which a column is worth checking on the rows.

Cancellation leaves far more than round-off in a correlation matrix, so this is loose; the check is strict.
"""

ROWS_PER_COLUMN = 3
"""Rows without holes for each column that rules are looked for among."""

REFITS = 3
"""Fits of what earlier fits left: each reaches another six digits down."""


@dataclass(frozen=True, repr=False)
class LinearRule:
    """`column = constant + sum of coefficient * other column`, columns by number.

    An exact rule holds in every row. One that is not only says that the column is, to double precision, a linear
    combination of the others; it serves to rebuild the column, but no report mentions it.
    """

    column: int
    terms: Mapping[int, float]
    constant: float = 0.0
    exact: bool = True

    def rebuilt(self, columns: Columns) -> Array:
        """The column from the others."""
        parts = [coefficient * columns[j] for j, coefficient in self.terms.items()]
        total: Array = np.sum(parts, axis=0) + self.constant
        return total

    def with_gap(self, gap: Array, columns: Columns) -> Array:
        """The column from its gap and the others."""
        return gap + self.rebuilt(columns)

    def renumbered(self, numbers: Mapping[int, int]) -> LinearRule:
        """The same rule where columns have other numbers."""
        terms = {numbers[j]: c for j, c in self.terms.items()}
        return LinearRule(numbers[self.column], terms, self.constant, self.exact)

    def solved_for(self, column: int) -> LinearRule:
        """The same rule, by which one of its terms is rebuilt."""
        factor = self.terms[column]
        terms = {j: -c / factor for j, c in self.terms.items() if j != column}
        terms = dict(sorted({**terms, self.column: 1 / factor}.items()))
        return LinearRule(column, terms, -self.constant / factor + 0.0, self.exact)

    def total(self, summary: Moments) -> int:
        """The column of it that is the total, and so the one to rebuild.

        It stands alone on its side of the equation: a part that was rebuilt could be less than zero. Where several
        stand on both sides, it is the one that was found, which varies most. Where all stand on one side, as shares do
        that add up to one, it is the one that is farthest from zero for its spread, and so stays above it.
        `summary` has the moments of the columns.
        """
        sides: dict[bool, list[int]] = {True: [self.column], False: []}
        for j, coefficient in self.terms.items():
            sides[coefficient < 0].append(j)
        alone = [side[0] for side in sides.values() if len(side) == 1]
        if len(self.terms) == 1:
            return self.column
        if not sides[False]:
            alone = [max(sides[True], key=lambda j: abs(summary.mean[j]) / summary.sd[j])]
        chosen = alone[0] if alone else self.column
        # By a term of another size, whole numbers would come back as fractions.
        return chosen if chosen == self.column or abs(self.terms[chosen]) == 1 else self.column

    def misses(self, columns: Columns) -> tuple[Array, Array]:
        """What the rule leaves unexplained in each row, and how large its terms are there. NaN where one is missing."""
        size = abs(self.constant) + np.abs(columns[self.column])
        for j, coefficient in self.terms.items():
            size = size + abs(coefficient) * np.abs(columns[j])
        return columns[self.column] - self.rebuilt(columns), size

    def broken_rows(self, columns: Columns) -> Mask:
        """The rows in which it does not hold; never where a cell is missing."""
        misses, sizes = self.misses(columns)
        return np.abs(misses) > TEXT_ROUND_OFF * sizes

    def broken(self, columns: Sequence[Array] | Matrix) -> int:
        """In how many rows it does not hold, wherever the rows are."""
        return int(self._over_rows(_as_matrix(columns).total, _count_broken))

    def worst_error(self, columns: Sequence[Array] | Matrix) -> float:
        """The largest violation over the size of its terms in that row, among rows where all are present.

        A slip in a small record counts as much as in a large one.
        """
        return self._over_rows(_as_matrix(columns).largest, _worst_share)

    def residual_norm(self, values: Matrix) -> float:
        """The root of the sum of squares of what it leaves, over rows where all are present."""
        return float(np.sqrt(self._over_rows(values.total, _sum_of_squares)))

    def _over_rows(self, reduce: Callable[..., Array], of: Callable[[LinearRule, Array, slice], Array]) -> float:
        """A figure of the rule over all rows, of which only its own columns are read."""
        own = [self.column, *self.terms]
        return float(reduce(partial(of, self.renumbered({j: at for at, j in enumerate(own)})), own)[0])

    def sentence(self, names: Sequence[str]) -> str:
        """`total = a + b`, as a person would write it; a constant that comes from the data is not shown."""
        parts = []
        for j, coefficient in self.terms.items():
            sign = "-" if coefficient < 0 else "+"
            factor = "" if abs(coefficient) == 1 else f"{abs(coefficient):.6g} "
            parts.append(f"{sign} {factor}{names[j]}")
        if self.constant and self.round_constant is None:
            parts.append("+ constant")
        elif self.constant:
            parts.insert(0, f"{'-' if self.constant < 0 else '+'} {abs(self.constant):g}")
        return f"{names[self.column]} = {' '.join(parts).removeprefix('+ ')}"

    @property
    def round_constant(self) -> float | None:
        """The constant if it tells nothing of the data: 0, or what shares add up to, 1 or 100; else None."""
        return self.constant if abs(self.constant) in (0.0, 1.0, 100.0) else None


@dataclass(frozen=True, repr=False)
class Dependence:
    """Which columns stand for themselves, and the rules that rebuild the others."""

    independent: list[int]
    rules: list[LinearRule] = field(default_factory=list)

    @property
    def ordered_rules(self) -> list[LinearRule]:
        """The rules so that none comes before its terms."""
        return in_order(self.rules, self.independent)[0]

    def combined(self, basis: Array) -> dict[int, Array]:
        """What a linear map makes of each column: `basis` has a row for each independent one."""
        made = dict(zip(self.independent, basis, strict=True))
        for rule in self.ordered_rules:
            made[rule.column] = np.sum([c * made[j] for j, c in rule.terms.items()], axis=0)
        return made


def in_order(rules: Sequence[LinearRule], known: Collection[int]) -> tuple[list[LinearRule], list[LinearRule]]:
    """The rules so that none comes before its terms (a total may be the sum of totals), and those in a circle."""
    available, ordered, pending = set(known), [], list(rules)
    while ready := [rule for rule in pending if rule.terms.keys() <= available]:
        ordered += ready
        available |= {rule.column for rule in ready}
        pending = [rule for rule in pending if rule not in ready]
    return ordered, pending


def dependence_among(
    values: Matrix,
    among: Sequence[int],
    holes: Mask | None = None,
    declared: Sequence[LinearRule] = (),
    *,
    summary: Moments | None = None,
    ordered: bool = False,
) -> Dependence:
    """Independent columns and rules among some columns of the table `values`, which keep their numbers.

    Rules that are `declared` are taken as they are. Columns that vary most are made of others, or, if `ordered`,
    the last ones are. `holes` (rows x columns) tells where cells are missing (None: nowhere); the rules are then
    looked for among the fullest columns, fitted on the rows without holes and confirmed on all. `summary` has the
    moments of these columns over all rows, each counted once, where they are known already.
    """
    searched, chosen, complete = searched_columns(values, among, holes, declared)
    place = {j: at for at, j in enumerate(searched)}
    rules = [rule.renumbered(place) for rule in declared if {rule.column, *rule.terms} <= place.keys()]
    count, width = complete.shape
    # With no more complete rows than columns every column would depend on others by accident.
    if count > width:
        if holes is not None or summary is None:
            summary = complete.measure()
        by_declaration = {rule.column for rule in rules}
        # A column may be constant in the rows without holes, and then nothing can be learnt about it there.
        varying = [j for j in range(width) if j not in by_declaration and complete.varies(j)]
        found = _Search(chosen, complete, summary).rules(varying, ordered=ordered)
        rules += found if ordered else _right_way_round(found, rules, summary)
    rules = [rule.renumbered(dict(enumerate(searched))) for rule in rules]
    rebuilt = {rule.column for rule in rules}
    return Dependence([j for j in among if j not in rebuilt], rules)


def searched_columns(
    values: Matrix, among: Sequence[int], holes: Mask | None, declared: Sequence[LinearRule] = ()
) -> tuple[list[int], Matrix, Matrix]:
    """Which columns of `values` are searched for rules: their numbers, all rows, and the rows without holes.

    They are those `among` which is searched; with `holes`, the fullest of them and those of `declared` rules.
    """
    if holes is None:
        return list(among), values.select(among), values.select(among)
    searched = fullest(among, holes, declared)
    chosen = values.select(searched)
    return searched, chosen, chosen.take(np.flatnonzero(~holes[:, searched].any(axis=1)))


def fullest(among: Sequence[int], holes: Mask, declared: Sequence[LinearRule] = ()) -> list[int]:
    """Columns to search for rules: those with the fewest holes, as long as enough rows are complete in all of them."""
    chosen = sorted({j for rule in declared for j in (rule.column, *rule.terms)} & set(among))
    broken = holes[:, chosen].any(axis=1)
    for j in sorted(among, key=lambda j: int(holes[:, j].sum())):
        wider = broken | holes[:, j]
        if j not in chosen and np.count_nonzero(~wider) > ROWS_PER_COLUMN * (len(chosen) + 1):
            chosen, broken = [*chosen, j], wider
    return sorted(chosen)


def _right_way_round(rules: list[LinearRule], declared: Sequence[LinearRule], summary: Moments) -> list[LinearRule]:
    """The rules with totals rebuilt, and not parts, as far as each column has one rule and none goes in a circle.

    `declared` rules stay as they are, and `summary` has the moments of the columns.
    """
    for at, rule in enumerate(rules):
        total = rule.total(summary) if rule.exact else rule.column
        turned = [*rules[:at], rule.solved_for(total), *rules[at + 1 :]] if total != rule.column else rules
        made = [each.column for each in (*declared, *turned)]
        others = set(range(summary.mean.size)) - set(made)
        if len(set(made)) == len(made) and not in_order([*declared, *turned], others)[1]:
            rules = turned
    return rules


@dataclass(frozen=True, repr=False)
class _Search:
    """A search for rules: the columns with all rows (`values`), their rows without holes, and the moments of these."""

    values: Matrix
    complete: Matrix
    summary: Moments

    def rules(self, among: list[int], *, ordered: bool) -> list[LinearRule]:
        """The rules among some columns; `ordered` as in `dependence_among`."""
        trusted: set[int] = set()  # suspicious columns that turned out to be independent
        order = list(among) if ordered else sorted(among, key=lambda j: self.summary.sd[j])
        while True:
            basis, suspects = self._split(order, trusted)
            rules = [rule for j in suspects if (rule := self._confirmed(basis, j))]
            refuted = set(suspects) - {rule.column for rule in rules}
            if not refuted:
                return rules
            # A refuted column joins the basis and may explain others: look again. Ends, as `trusted` only grows.
            trusted |= refuted

    def _split(self, order: list[int], trusted: set[int]) -> tuple[list[int], list[int]]:
        """Cholesky elimination in ascending order of spread, so that totals come out as sums of their parts."""
        scale = self.summary.sd[order]
        left = self.summary.covariance[np.ix_(order, order)] / np.outer(scale, scale)
        basis, suspects = [], []
        for place, j in enumerate(order):
            unexplained = left[place, place]
            if unexplained <= SUSPICIOUS and j not in trusted:
                suspects.append(j)
                continue
            basis.append(j)
            if unexplained > 0:
                # What comes before is done with.
                direction = left[place + 1 :, place] / np.sqrt(unexplained)
                left[place + 1 :, place + 1 :] -= np.outer(direction, direction)
        return basis, suspects

    def _confirmed(self, basis: list[int], column: int) -> LinearRule | None:
        """The rule for a suspicious column, if it holds on the rows: with whole coefficients first, then as fitted.

        A fit only sees terms down to a millionth of the largest; what it leaves is fitted again, so that a small part
        of a large total is found too.
        """
        coefficients = np.zeros(len(basis))
        for _ in range(REFITS):
            coefficients = coefficients + self._fitted(basis, column, coefficients)
            for candidate in (np.round(coefficients), coefficients):
                for rule in self._with_terms(basis, column, candidate):
                    if rule.terms and rule.worst_error(self.values) <= SUM_ROUND_OFF:
                        return rule
        _, rule = self._with_terms(basis, column, coefficients)
        tolerance = RANK_TOLERANCE * self.summary.sd[column] * np.sqrt(self.values.shape[0])
        return replace(rule, exact=False) if rule.terms and rule.residual_norm(self.values) <= tolerance else None

    def _fitted(self, basis: list[int], column: int, so_far: Array) -> Array:
        """Coefficients of what `so_far` leaves of the column, without those that are round-off of the fit."""
        summary, sd = self.summary, self.summary.sd[basis]
        correlations = summary.covariance[np.ix_(basis, basis)] / np.outer(sd, sd)
        left = LinearRule(column, dict(zip(basis, so_far.tolist(), strict=True)))
        own = left.renumbered({j: at for at, j in enumerate([column, *basis])})
        constant = float(summary.mean[column] - so_far @ summary.mean[basis])
        sums = self.complete.total(partial(_explained, own, summary.mean[basis], sd, constant), [column, *basis])
        cross, spread, round_off = sums[2:], float(sums[0]), float(sums[1])
        if spread <= round_off:
            return np.zeros(len(basis))
        weights = np.linalg.lstsq(correlations, cross / summary.weight, rcond=FINE_ROUND_OFF)[0]
        weights[np.abs(weights) < 1e-6 * np.sqrt(spread / summary.weight)] = 0.0
        return weights / sd

    def _with_terms(self, basis: list[int], column: int, coefficients: Array) -> list[LinearRule]:
        """The rule with these coefficients without a constant, and with the one that the means ask for."""
        # A term that moves the column by less than its last digit is round-off, and its holes would hide broken rows.
        mean, sd = self.summary.mean, self.summary.sd
        pairs = sorted(zip(basis, coefficients.tolist(), strict=True))
        terms = {j: c for j, c in pairs if abs(c) * sd[j] > FINE_ROUND_OFF * sd[column]}
        constant = float(mean[column] - sum(c * mean[j] for j, c in terms.items()))
        shares = [total for total in (1.0, 100.0) if abs(abs(constant) - total) <= TEXT_ROUND_OFF * total]
        known = float(np.copysign(shares[0], constant)) if shares else constant
        return [LinearRule(column, terms), LinearRule(column, terms, known)]


def _explained(left: LinearRule, means: Array, sd: Array, constant: float, cells: Array, rows: slice) -> Array:  # noqa: ARG001 - every row map is given its rows
    """Squares of what a rule leaves of the first column, those of its round-off, and products with the others.

    `means` and `sd` are those of the others, the `constant` is that of the rule, `cells` are columns x rows.
    """
    misses, sizes = left.misses(cells)
    misses = misses - constant
    centred = (cells[1:] - means[:, None]) / sd[:, None]
    squares = [np.square(misses).sum(), np.square(8 * np.finfo(float).eps * sizes).sum()]
    return np.array([*squares, *(centred @ misses)])


def _as_matrix(columns: Sequence[Array] | Matrix) -> Matrix:
    return columns if isinstance(columns, Matrix) else Matrix(columns)


def _count_broken(rule: LinearRule, cells: Array, rows: slice) -> Array:  # noqa: ARG001 - every row map is given its rows
    return np.array([np.count_nonzero(rule.broken_rows(cells))])


def _worst_share(rule: LinearRule, cells: Array, rows: slice) -> Array:  # noqa: ARG001 - as above
    misses, sizes = rule.misses(cells)
    present = np.isfinite(misses) & (sizes > 0)
    return np.array([(np.abs(misses[present]) / sizes[present]).max(initial=0.0)])


def _sum_of_squares(rule: LinearRule, cells: Array, rows: slice) -> Array:  # noqa: ARG001 - as above
    misses, _ = rule.misses(cells)
    return np.array([np.square(misses[np.isfinite(misses)]).sum()])
