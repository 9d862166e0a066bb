"""The memory engine: whole tables, stratum by stratum.

Around the pipeline it sets aside what is not perturbed (constant columns, columns that follow from others, the
places of missing cells) and puts it back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Mask
from microveil.core.errors import DataError, MicroveilError
from microveil.core.moments import moments, pair_moments
from microveil.core.profile import Scan, scan
from microveil.core.rng import Streams
from microveil.core.table import Matrix, Microdata, rows_by_group
from microveil.decompose import Clustered
from microveil.engines.checks import check_holes
from microveil.engines.clusters import clustered
from microveil.engines.distributions import Restored, restored
from microveil.engines.gridding import gridding
from microveil.engines.mixing import RebuildMap
from microveil.engines.pipeline import Progress, Spectrum, protected
from microveil.methods import Plan
from microveil.restore import (
    Enforcement,
    Sums,
    calibrate,
    completed,
    cost_of,
    enforced,
    ordered,
    outnumbered,
    recalibrated,
    with_means,
)
from microveil.rules.column_rules import ColumnRules
from microveil.rules.domain import Domain
from microveil.rules.linear_rules import Dependence, LinearRule, dependence_among, in_order
from microveil.rules.ratios import RatioRule

NOTHING_KNOWN = ColumnRules()

ROUND_OFF = 1e-12
"""Distance from a column's step, over the size of the terms it is added up from, that is round-off."""


@dataclass(frozen=True, repr=False)
class Outcome:
    """Released columns and what happened on the way; numbers count the confidential columns.

    `altered` and `variance` are, per column, the variance in perturbed components and the whole (sums over rows).
    `untouched` is the number of components left as they are, `single` tells of records that have one component only.
    With strata the spectrum is that of the largest, and the other figures are the worst, or the sums, of all.
    """

    columns: list[Array]
    perturbed: list[int]
    rules: list[LinearRule]
    spectrum: Spectrum
    altered: Array
    variance: Array
    leverage: int
    untouched: int
    single: bool
    ratios: Sequence[RatioRule] = ()
    restored: Restored | None = None
    enforcement: Enforcement | None = None
    odd: Array | None = None
    """Where they have been counted: released cells below zero, and released cells that are not whole, per column."""

    shown: tuple[Matrix, Matrix] | None = None
    """Where the columns are too long to be held: some of the rows, before and after."""

    @property
    def rebuilt(self) -> set[int]:
        """Columns that were computed from others."""
        return {rule.column for rule in self.rules} | {rule.column for rule in self.ratios}

    @property
    def constant(self) -> list[int]:
        """Columns that came through because they are constant."""
        moved = self.rebuilt.union(self.perturbed)
        return [j for j in range(len(self.columns)) if j not in moved]


def run(
    plan: Plan,
    table: Microdata,
    look: Scan,
    streams: Streams,
    *,
    sensitive: Sequence[int] = (),
    known: ColumnRules = NOTHING_KNOWN,
    progress: Progress = lambda *_: None,
) -> Outcome:
    """Protect a table, stratum by stratum if it has strata. `look` is the scan of the whole table."""
    progress("looking for rules", 0.1)
    known = known.of_use(moments_first=plan.promises_moments)
    if table.strata is None:
        whole = _run_stratum(plan, table, look, streams, 0, sensitive, known, progress)
        if whole is None:
            raise DataError("confidential: every column is constant", "there is nothing to perturb; check the data")
        return whole
    known = replace(known, sums=_dependence(plan, table, look, _holes(table, look), known).rules)
    parts = []
    members = rows_by_group(table.strata)
    for number, rows in enumerate(members):
        part = table.take(rows)
        try:
            parts.append(_run_stratum(plan, part, scan(part), streams, number, sensitive, known, lambda *_: None))
        except MicroveilError as error:
            raise type(error)(f"in a stratum of {rows.size} rows: {error.problem}", error.hint) from None
        progress("protecting strata", (number + 1) / len(members))
    return _joined(table, look, members, parts, known)


def _joined(
    table: Microdata, look: Scan, members: list[NDArray[np.intp]], parts: list[Outcome | None], known: ColumnRules
) -> Outcome:
    """The strata in one: only rules of the whole table are told of, and a column is constant if it is everywhere."""
    columns = [np.array(column) for column in table.confidential.columns]
    changed = [(rows, part) for rows, part in zip(members, parts, strict=True) if part is not None]
    if not changed:
        raise DataError("strata: every column is constant in every group", "use fewer strata")
    for rows, part in changed:
        for column, new in zip(columns, part.columns, strict=True):
            column[rows] = new
    outcomes = [part for _, part in changed]
    costs = [part.enforcement for part in outcomes if part.enforcement is not None]
    return Outcome(
        columns=columns,
        perturbed=sorted({j for part in outcomes for j in part.perturbed}),
        rules=list(known.sums),
        spectrum=_spectrum([part.spectrum for part in outcomes], [rows.size for rows, _ in changed]),
        altered=np.sum([part.altered for part in outcomes], axis=0),
        variance=_variance(table, look) * table.count,
        leverage=sum(part.leverage for part in outcomes),
        untouched=max(part.untouched for part in outcomes),
        single=any(part.single for part in outcomes),
        ratios=known.ratios,
        restored=_worst([part.restored for part in outcomes]),
        enforcement=reduce(Enforcement.combined, costs) if costs else None,
    )


def _spectrum(parts: Sequence[Spectrum], sizes: Sequence[int]) -> Spectrum:
    """The components of the largest stratum, with the figures that were found and remarks of the worst of all."""
    largest = parts[int(np.argmax(sizes))]
    if not largest.found:
        return largest
    worst = min(parts, key=lambda part: part.found.get("alpha", 1.0))
    found = {name: min(part.found[name] for part in parts) for name in largest.found}
    if "clusters" in found:
        found["clusters"] = sum(part.found["clusters"] for part in parts)
    remark = worst.axes.remark and f"in a stratum, the worst of all: {worst.axes.remark}"
    return replace(largest, found=found, axes=replace(largest.axes, remark=remark))


def _run_stratum(
    plan: Plan,
    table: Microdata,
    look: Scan,
    streams: Streams,
    stratum: int,
    sensitive: Sequence[int],
    known: ColumnRules,
    progress: Progress,
) -> Outcome | None:
    """Set aside, protect, put back; None if nothing varies.

    What is `known` holds in the whole table; a stratum may have other sums by accident.
    """
    holes = _holes(table, look)
    dependence = _dependence(plan, table, look, holes, known)
    chosen = dependence.independent
    if not chosen:
        return None
    places = places_of(sensitive, dependence, known.ratios, table.confidential_names)
    core = table.keep(chosen)
    present = None if holes is None else ~holes[:, chosen]
    if present is None:
        summary = look.moments.select([*range(table.public), *(table.public + j for j in chosen)])
    else:
        core = _filled(core, present, streams, stratum)
        summary = moments(core.pieces, core.count, weights=core.weights)
    whole = partial(_whole, dependence, table.confidential_names)
    put_back = partial(_varying, table, dependence, known)
    pipeline = (
        partial(clustered, plan, core, streams, stratum, progress)
        if isinstance(plan.decompose, Clustered)
        else partial(protected, plan, core, summary, places, streams, stratum, progress, whole, put_back)
    )
    columns, spectrum = pipeline()
    way = None
    if plan.maps_values:
        progress("arranging values", 0.9)
        # Mapping uses the columns up; where several ways are tried, the pipeline gives the very same ones again.
        ready = [columns]
        del columns
        way = restored(
            plan.marginals,
            core,
            lambda: ready.pop() if ready else pipeline()[0],
            lambda free: enforced(free, _domains(table, chosen, known, mapped=False), present, core.weights, ())[0],
            present,
            streams.stream("marginals", stratum),
        )
        columns = pipeline()[0] if way is None else way.columns
        way = way and way.renumbered(dict(enumerate(chosen)))
    totals = None if holes is None else _totals(table, dependence, holes)
    columns = _with_moments(plan, core, present, columns, totals, mapped=way is not None)
    if plan.rounded:
        gridded = gridding(core, summary, *_extremes(core))
        columns, spectrum = gridded.of_columns(core, columns), spectrum.with_remark(gridded.remark)
    domains = _domains(table, chosen, known, mapped=way is not None)
    place = {j: at for at, j in enumerate(chosen)}
    among = [rule.renumbered(place) for rule in known.orders if {rule.lower, rule.upper} <= place.keys()]
    columns, cost = enforced(columns, domains, present, core.weights, among)
    released = _put_back(table, dependence, known, columns, holes)
    released, further = _in_order(released, dependence, known, holes, core.weights)
    cost = further if cost is None else cost if further is None else cost.combined(further)
    if holes is not None:
        for column, hole in zip(released, holes.T, strict=True):
            column[hole] = np.nan
    return Outcome(
        columns=released,
        perturbed=chosen,
        rules=dependence.rules,
        spectrum=spectrum,
        altered=altered_variance(spectrum, dependence, len(released)) * table.count,
        variance=_variance(table, look) * table.count,
        leverage=spectrum.leverage,
        untouched=spectrum.untouched,
        single=spectrum.axes.count == 1,
        ratios=known.ratios,
        restored=way,
        enforcement=cost and replace(cost, columns=frozenset(chosen[j] for j in cost.columns)),
    )


def _variance(table: Microdata, look: Scan) -> Array:
    """The variance of each confidential column, over the cells present."""
    known = look.moments.variance[table.public :].copy()
    for j in np.flatnonzero(np.isnan(known)).tolist():
        column = table.confidential.columns[j]
        present = ~np.isnan(column)
        known[j] = pair_moments(column[:, None], present[:, None], weights=table.weights).covariance[0, 0]
    return np.nan_to_num(known)


def _whole(dependence: Dependence, names: Sequence[str]) -> RebuildMap:
    """All columns that vary, in the order of the table, as combinations of those that are perturbed."""
    made = dict(zip(dependence.independent, np.eye(len(dependence.independent)), strict=True))
    for rule in in_order(dependence.rules, made.keys())[0]:
        made[rule.column] = np.sum([c * made[j] for j, c in rule.terms.items()], axis=0)
    order = sorted(made)
    here = [order.index(j) for j in dependence.independent]
    return RebuildMap(tuple(names[j] for j in order), np.column_stack([made[j] for j in order]), here)


def altered_variance(spectrum: Spectrum, dependence: Dependence, width: int) -> Array:
    """The variance of each column in the perturbed components; a rebuilt column has what its terms add up to."""
    loadings = dict(zip(dependence.independent, spectrum.axes.loadings.T, strict=True))
    for rule in in_order(dependence.rules, loadings.keys())[0]:
        loadings[rule.column] = np.sum([c * loadings[j] for j, c in rule.terms.items()], axis=0)
    chosen = spectrum.selected
    altered = np.zeros(width)
    for j, loading in loadings.items():
        altered[j] = np.square(loading[chosen]) @ spectrum.axes.variance[chosen]
    return altered


def _holes(table: Microdata, look: Scan) -> Mask | None:
    """Where confidential cells are missing; None when none is (known from the scan, without another pass)."""
    if not look.missing():
        return None
    check_holes(table)
    return np.isnan(np.column_stack(table.confidential.columns))


def _dependence(plan: Plan, table: Microdata, look: Scan, holes: Mask | None, known: ColumnRules) -> Dependence:
    """Columns that vary and stand for themselves, and rules for those that follow from them by a sum."""
    ratios = {rule.column for rule in known.ratios}
    varying = [j - table.public for j in look.varying() if j >= table.public and j - table.public not in ratios]
    # A rule is about rows: each counts once, so weighted moments do not serve.
    summary = look.moments.select([table.public + j for j in varying]) if table.weights is None else None
    return dependence_among(
        table.confidential, varying, holes, known.sums, summary=summary, ordered=plan.decompose.ordered
    )


def places_of(
    sensitive: Sequence[int], dependence: Dependence, ratios: Sequence[RatioRule], names: Sequence[str]
) -> list[int]:
    """Sensitive columns by their place among the perturbed ones; a rebuilt column stands for what it is made of."""
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


def _filled(core: Microdata, present: Mask, streams: Streams, stratum: int) -> Microdata:
    """The perturbed columns without holes."""
    values, known = core.beside_public(core.confidential.columns, present)
    filled = completed(values, known, core.weights, streams, stratum)
    columns = list(filled[:, core.public :].T)
    whole = core.with_confidential(columns)
    if core.other is None:
        return whole
    # What another masker says of a cell that is missing plays no part: it gets what the data got there.
    beside = [np.where(*cells) for cells in zip(present.T, core.other.columns, columns, strict=True)]
    return replace(whole, other=Matrix(beside))


@dataclass(frozen=True, repr=False)
class _Totals:
    """Columns that are rebuilt of the perturbed ones: their cells, which are there, and what they are made of."""

    cells: Array
    present: Mask
    matrix: Array
    constant: Array

    def beside(self, public: int) -> Sums:
        """What they are made of, where public columns stand before the perturbed ones."""
        return Sums(np.vstack([np.zeros((public, self.constant.size)), self.matrix]), self.constant)


def _totals(table: Microdata, dependence: Dependence, holes: Mask) -> _Totals:
    """The columns that are rebuilt, where cells of theirs or of what they are made of are missing."""
    chosen = dependence.independent
    made = dict(zip(chosen, np.eye(len(chosen)), strict=True))
    constant = dict.fromkeys(chosen, 0.0)
    found = []
    for rule in in_order(dependence.rules, made.keys())[0]:
        made[rule.column] = np.sum([c * made[j] for j, c in rule.terms.items()], axis=0)
        constant[rule.column] = rule.constant + sum(c * constant[j] for j, c in rule.terms.items())
        if holes[:, [rule.column, *np.array(chosen)[made[rule.column] != 0]]].any():
            found.append(rule.column)
    cells = [table.confidential.columns[j] for j in found]
    return _Totals(
        np.column_stack(cells) if found else np.empty((table.count, 0)),
        ~holes[:, found],
        np.array([made[j] for j in found]).reshape(-1, len(chosen)).T,
        np.array([constant[j] for j in found]),
    )


def _with_moments(
    plan: Plan, core: Microdata, present: Mask | None, columns: list[Array], totals: _Totals | None, *, mapped: bool
) -> list[Array]:
    """The released columns with the moments that are promised, where the pipeline has not given them yet.

    Mapped values have only nearly the moments of the original. Where cells are missing, the moments are those of the
    cells present, among themselves and with public columns.
    """
    if mapped and not plan.exact:
        return columns
    if present is None or totals is None or plan.rounded:
        return _calibrated(core, columns) if mapped else columns
    if not (plan.exact or plan.perturb.keeps_mean):
        return columns
    original, known = core.beside_public(core.confidential.columns, present)
    released, _ = core.beside_public(columns, present)
    exact = plan.exact and not outnumbered(present)
    if exact:
        original, known = np.hstack([original, totals.cells]), np.hstack([known, totals.present])
    target = pair_moments(original, known, weights=core.weights)
    if exact:
        sums = totals.beside(core.public)
        restored = recalibrated(released, known, target, core.weights, core.public, sums)
    else:
        restored = with_means(released, known, target, core.weights)
    return list(np.ascontiguousarray(restored[:, core.public :].T))


def _extremes(core: Microdata) -> tuple[Array, Array]:
    """The least and the largest value of each column."""
    both = [(column.min(), column.max()) for column in core.values.columns]
    lowest, highest = np.array(both).T
    return lowest, highest


def _calibrated(core: Microdata, columns: list[Array]) -> list[Array]:
    """Exact moments by a linear map, twice: the second takes away what the round-off of the first has left."""
    for _ in range(2):
        if not calibrate(columns, core):
            raise DataError("exact moments cannot be reached: the columns are collinear", "use exact=False")
    return columns


def _domains(table: Microdata, chosen: Sequence[int], known: ColumnRules, *, mapped: bool) -> list[Domain]:
    """The domains to enforce on the perturbed columns, with the share of zeros they have in this stratum."""
    domains = known.domains(mapped=mapped)
    columns = table.confidential.columns
    return [domains[j].here(columns[j]) for j in chosen] if domains else [Domain()] * len(chosen)


def _in_order(
    released: list[Array], dependence: Dependence, known: ColumnRules, holes: Mask | None, weights: Array | None
) -> tuple[list[Array], Enforcement | None]:
    """Orders with a column that was rebuilt: kept by the other one, unless something was made of it, too; the cost."""
    chosen = dependence.independent
    used = {j for rule in dependence.rules for j in rule.terms}
    used |= {j for rule in known.ratios for j in (rule.numerator, rule.denominator)}
    if all({rule.lower, rule.upper} <= set(chosen) for rule in known.orders):
        return released, None
    domains = known.domains(mapped=True) or [Domain()] * len(released)
    new = ordered(released, domains, known.orders, set(chosen) - used, None if holes is None else ~holes)
    return new, cost_of([released[j] for j in chosen], [new[j] for j in chosen], weights)


def _worst(ways: Sequence[Restored | None]) -> Restored | None:
    """Of several strata the one whose correlations came back least, with sums of all; None if one was left free."""
    known = [way for way in ways if way is not None]
    if len(known) < len(ways):
        return None
    worst = max(known, key=lambda way: way.settled.correlation if way.settled else 0.0)
    in_all = [rule for rule in worst.near_rules if all(rule in way.near_rules for way in known)]
    return replace(worst, near_rules=in_all)


def _put_back(
    table: Microdata, dependence: Dependence, known: ColumnRules, columns: list[Array], holes: Mask | None
) -> list[Array]:
    """Perturbed, rebuilt and constant columns in the order of the table."""
    new = dict(zip(dependence.independent, columns, strict=True))
    domains = known.domains(mapped=True)
    for rule in in_order(dependence.rules, new.keys())[0]:
        new[rule.column] = _rebuilt(rule, new, domains[rule.column] if domains else Domain(), holes)
    told = {**dict(enumerate(table.confidential.columns)), **new}
    new |= {rule.column: rule.rebuilt(told) for rule in known.ratios}
    return [new[j] if j in new else np.array(column) for j, column in enumerate(table.confidential.columns)]


def _varying(table: Microdata, dependence: Dependence, known: ColumnRules, columns: list[Array]) -> Matrix:
    """Perturbed and rebuilt columns, as a release would have them if it had no holes."""
    rebuilt = {rule.column for rule in dependence.rules} | {rule.column for rule in known.ratios}
    whole = _put_back(table, dependence, known, columns, None)
    return Matrix([whole[j] for j in sorted(rebuilt.union(dependence.independent))])


def _rebuilt(rule: LinearRule, columns: Mapping[int, Array], domain: Domain, holes: Mask | None) -> Array:
    """A column from the others, with values of its domain as far as the rule lets it."""
    values = rule.rebuilt(columns)
    if domain.step is not None:
        # 0.1 + 0.2 is not the double that '0.3' is read as, and no cell of the column had it before.
        size = np.sum([np.abs(coefficient * columns[j]) for j, coefficient in rule.terms.items()], axis=0)
        rounded = domain.rounded(values)
        values = np.where(np.abs(rounded - values) <= ROUND_OFF * size, rounded, values)
    if holes is not None:
        # Where a term is missing it was filled in with any number, and nobody can see whether the rule holds.
        free = holes[:, list(rule.terms)].any(axis=1)
        values[free] = domain.allowed(values[free])
    return values
