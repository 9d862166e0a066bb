"""The engine of whole columns: tables stratum by stratum, in memory or, a column at a time, on a disk.

Around the pipeline it sets aside what is not perturbed (constant columns, columns that follow from others, the
places of missing cells) and puts it back. Columns on a disk are read whole where a step needs that, one by one;
what else is done to rows is done piece by piece wherever they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Index, Mask
from microveil.core.errors import DataError, MicroveilError
from microveil.core.moments import Moments, Profile, moments, pair_moments
from microveil.core.rng import Streams
from microveil.core.table import Matrix, Microdata, rows_by_group
from microveil.decompose import Clustered
from microveil.engines.clusters import clustered
from microveil.engines.out_of_core import RemoteTable, perturbed_columns
from microveil.engines.pipeline import NO_COMPONENTS, Spectrum, joined_spectrum, labels_of, protected
from microveil.engines.restoring import Restored, restored
from microveil.engines.row_limits import close_orders, limited
from microveil.engines.rows import Progress, RunContext, check_holes, gridding
from microveil.engines.set_aside import SetAside, Totals, altered_variance, dependence_of, places_of, rebuild_map
from microveil.methods import Plan
from microveil.restore import (
    Arranged,
    Enforcement,
    arrange,
    calibrate,
    completed,
    enforced,
    outnumbered,
    recalibrated,
    with_means,
)
from microveil.rules.column_rules import NOTHING_KNOWN, ColumnRules
from microveil.rules.domain import Domain
from microveil.rules.linear_rules import LinearRule
from microveil.rules.orders import OrderRule
from microveil.rules.ratios import RatioRule


@dataclass(frozen=True, repr=False)
class Outcome:
    """Released columns and labels, and how they came about; numbers count the confidential columns.

    `altered` and `variance` are, per column, the variance in perturbed components and the whole (sums over rows).
    `untouched` is the number of components left as they are, `single` tells of records that have one component only.
    `levels` are those of columns of labels that have others than before. With strata the spectrum is that of the
    largest, and the other figures are the worst, or the sums, of all.
    """

    columns: list[Array]
    perturbed: list[int]
    rules: list[LinearRule]
    spectrum: Spectrum
    altered: Array
    variance: Array
    leverage: int = 0
    untouched: int = 0
    single: bool = False
    ratios: Sequence[RatioRule] = ()
    restored: Restored | None = None
    labels: Sequence[NDArray[np.intp]] = ()
    levels: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    enforcement: Enforcement | None = None
    odd: Array | None = None
    """Where they have been counted: released cells below zero, and released cells that are not whole, per column."""

    label_errors: Mapping[str, float] | None = None
    """Where they have been measured: how far two-way tables of labels, and means of their groups, are off."""

    shown: tuple[Matrix, Matrix] | None = None
    """Where the columns are too long to be held: some of the rows, before and after."""

    @property
    def rebuilt(self) -> set[int]:
        """Columns that were computed from others."""
        return {rule.column for rule in self.rules} | {rule.column for rule in self.ratios}

    def traded(self, places: Index, keep: Callable[[Array], Array]) -> Outcome:
        """The same with the cells of each row from another, given by `places`; `keep` puts a column where it stays."""
        columns = [keep(column[:][places]) for column in self.columns]
        return replace(self, columns=columns, labels=[codes[:][places] for codes in self.labels])

    @property
    def on_their_own(self) -> list[int]:
        """Perturbed columns that are no products of others: where those come back by chance, so do these."""
        products = () if self.restored is None else self.restored.products
        return [j for j in self.perturbed if j not in {rule.column for rule in products}]

    @property
    def constant(self) -> list[int]:
        """Columns that came through because they are constant."""
        moved = self.rebuilt.union(self.perturbed)
        return [j for j in range(len(self.columns)) if j not in moved]


def run(
    plan: Plan,
    table: Microdata,
    profile: Profile,
    streams: Streams,
    *,
    sensitive: Sequence[int] = (),
    known: ColumnRules = NOTHING_KNOWN,
    progress: Progress = lambda *_: None,
) -> Outcome:
    """Protect a table, stratum by stratum if it has strata.

    `profile` is that of the whole table, `sensitive` counts its confidential columns, and `known` are their rules.
    """
    context = RunContext(plan, streams, progress)
    progress("looking for rules", 0.1)
    rules = known.of_use(moments_first=plan.promises_moments)
    if table.strata is None:
        outcome = _run_stratum(context, table, profile, sensitive, rules)
        if outcome is None:
            raise DataError("confidential: every column is constant", "there is nothing to perturb; check the data")
        return outcome
    rules = replace(rules, sums=dependence_of(plan, table, profile, rules, _holes(table, profile)).rules)
    parts = []
    members = rows_by_group(table.strata)
    for number, rows in enumerate(members):
        part = table.take(rows)
        try:
            parts.append(_run_stratum(context.in_stratum(number), part, part.profile(), sensitive, rules))
        except MicroveilError as error:
            raise type(error)(f"in a stratum of {rows.size} rows: {error.problem}", error.hint) from None
        progress("protecting strata", (number + 1) / len(members))
    return _joined(table, profile, members, parts, rules)


def _joined(
    table: Microdata, profile: Profile, members: list[NDArray[np.intp]], parts: list[Outcome | None], rules: ColumnRules
) -> Outcome:
    """The strata in one: only rules of the whole table are reported, and a column is constant if it is everywhere.

    `members` has the rows of each stratum, and `parts` what came of it: None where nothing varies.
    """
    columns = [np.array(column) for column in table.confidential.columns]
    changed = [(rows, part) for rows, part in zip(members, parts, strict=True) if part is not None]
    if not changed:
        raise DataError("strata: every column is constant in every group", "use fewer strata")
    for rows, part in changed:
        for column, new in zip(columns, part.columns, strict=True):
            column[rows] = new
    labels = [np.array(codes) for codes in table.labels.codes]
    for rows, part in changed:
        for codes, new_codes in zip(labels, part.labels, strict=True):
            codes[rows] = new_codes
    outcomes = [part for _, part in changed]
    costs = [part.enforcement for part in outcomes if part.enforcement is not None]
    return Outcome(
        columns=columns,
        perturbed=sorted({j for part in outcomes for j in part.perturbed}),
        rules=list(rules.sums),
        spectrum=joined_spectrum([part.spectrum for part in outcomes], [rows.size for rows, _ in changed]),
        altered=np.sum([part.altered for part in outcomes], axis=0),
        variance=_variance(table, profile) * table.count,
        leverage=sum(part.leverage for part in outcomes),
        untouched=max(part.untouched for part in outcomes),
        single=any(part.single for part in outcomes),
        ratios=rules.ratios,
        restored=_worst([part.restored for part in outcomes]),
        labels=labels,
        levels=outcomes[0].levels,
        enforcement=reduce(Enforcement.combined, costs) if costs else None,
    )


def _run_stratum(
    context: RunContext, table: Microdata, profile: Profile, sensitive: Sequence[int], rules: ColumnRules
) -> Outcome | None:
    """Set aside, protect, put back; None if nothing varies.

    The `rules` hold in the whole table; a stratum may have other sums by accident. `profile` is that of this stratum.
    """
    plan, holes = context.plan, _holes(table, profile)
    dependence = dependence_of(plan, table, profile, rules, holes)
    aside, chosen = SetAside(table, dependence, rules, holes), dependence.independent
    if not chosen:
        return _labels_only(context, table, profile, dependence.rules) if table.labels.names else None
    places = places_of(sensitive, dependence, rules.ratios, table.confidential_names)
    core = table.keep(chosen)
    present = None if holes is None else ~holes[:, chosen]
    if present is None:
        summary = profile.moments.select([*range(table.public), *(table.public + j for j in chosen)])
    else:
        core = _filled(core, present, context)
        summary = moments(core.pieces, core.count, weights=core.weights)
    pipeline = _pipeline(context, core, summary, places, aside)
    place, spectra, mapping = {j: at for at, j in enumerate(chosen)}, [], None

    def perturbed() -> list[Array]:
        """The very same columns each time: mapping uses them up."""
        columns, spectrum = pipeline()
        spectra.append(spectrum)
        if plan.maps_values:
            context.progress("arranging values", 0.9)
        return columns

    if plan.maps_values:
        orders = _among((*rules.orders, *rules.found_orders), place)
        mapping = restored(
            plan.marginals,
            core,
            perturbed,
            lambda free: enforced(free, _domains(table, chosen, rules, mapped=False), present, core.weights, ())[0],
            present,
            context.stream("marginals"),
            close_orders(core, orders, present),
            orders,
        )
        if mapping is not None and not plan.exact:
            mapping = limited(mapping, aside, core, present, context.stream("limits"))
            rules = replace(rules, orders=(*rules.orders, *mapping.kept_orders))
            aside = replace(aside, rules=rules)
        mapping = mapping and mapping.renumbered(dict(enumerate(chosen)))
    columns = perturbed() if mapping is None else mapping.columns
    spectrum = spectra[0] if spectra else pipeline()[1]
    totals = None if holes is None else Totals.with_holes(table, dependence, holes)
    columns = _with_moments(plan, core, present, columns, totals, mapped=mapping is not None)
    if plan.rounded:
        extremes = core.profile()
        gridded = gridding(core, summary, extremes.minimum, extremes.maximum)
        columns, spectrum = gridded.of_columns(core, columns), spectrum.with_remark(gridded.remark)
    domains = _domains(table, chosen, rules, mapped=mapping is not None)
    keep = core.values.put_aside
    columns, cost = enforced(columns, domains, present, core.weights, _among(rules.orders, place), keep)
    released, further = aside.in_order(aside.put_back(columns, holes))
    cost = further if cost is None else cost if further is None else cost.combined(further)
    if holes is not None:
        released = [keep(np.where(hole, np.nan, column)) for column, hole in zip(released, holes.T, strict=True)]
    labels, _, spectrum = _masked(context, table, spectrum) if mapping is None else (mapping.labels, {}, spectrum)
    return Outcome(
        columns=[keep(column) if isinstance(column, np.ndarray) else column for column in released],
        perturbed=chosen,
        rules=dependence.rules,
        spectrum=spectrum,
        altered=altered_variance(spectrum, dependence, len(released)) * table.count,
        variance=_variance(table, profile) * table.count,
        leverage=spectrum.leverage,
        untouched=spectrum.untouched,
        single=spectrum.axes.count == 1,
        ratios=rules.ratios,
        restored=mapping and replace(mapping, columns=[]),  # nobody reads them again, and they take room
        labels=labels,
        enforcement=cost and replace(cost, columns=frozenset(chosen[j] for j in cost.columns)),
    )


def _pipeline(
    context: RunContext, core: Microdata, summary: Moments, places: list[int], aside: SetAside
) -> Callable[[], tuple[list[Array], Spectrum]]:
    """What perturbs the columns of the core, and tells the components behind them, wherever its rows are.

    `summary` has its moments, `places` are those of the sensitive columns, and `aside` is what is not perturbed.
    """
    if isinstance(context.plan.decompose, Clustered):
        return partial(clustered, context, core)
    if isinstance(core, RemoteTable):
        return partial(perturbed_columns, context, core, summary, places)
    later = partial(rebuild_map, aside.dependence, aside.table.confidential_names)
    return partial(protected, context, core, summary, places, later, aside.varying)


def _among(orders: Sequence[OrderRule], place: Mapping[int, int]) -> list[OrderRule]:
    """The orders between columns that have a place, by their places."""
    return [rule.renumbered(place) for rule in orders if {rule.lower, rule.upper} <= place.keys()]


def _labels_only(context: RunContext, table: Microdata, profile: Profile, rules: list[LinearRule]) -> Outcome:
    """The outcome where no column of numbers varies: nothing is decomposed, and labels are exchanged or masked."""
    found = _labels_arranged(context, table) if context.plan.maps_values else None
    masked = _masked(context, table, NO_COMPONENTS) if found is None else (found.labels, {}, NO_COMPONENTS)
    labels, levels, spectrum = masked
    return Outcome(
        columns=[np.array(column) for column in table.confidential.columns],
        perturbed=[],
        rules=rules,
        spectrum=spectrum,
        altered=np.zeros(len(table.confidential_names)),
        variance=_variance(table, profile) * table.count if table.confidential_names else np.zeros(0),
        restored=None if found is None else Restored([], found.settled, found.labels),
        labels=labels,
        levels=levels,
    )


def _labels_arranged(context: RunContext, table: Microdata) -> Arranged:
    """Labels exchanged by themselves, where no numbers are mapped: none varies, or rows are too few to smooth."""
    return arrange(list, [], table.keep([]), None, context.stream("marginals").child("arrange"))


def _masked(
    context: RunContext, table: Microdata, spectrum: Spectrum
) -> tuple[Sequence[NDArray[np.intp]], Mapping[str, Sequence[Any]], Spectrum]:
    """The labels as the method masks them, if it does: with the numbers, as the components know, or by themselves.

    Codes of each column, the levels of those that have others than before, and components with remarks on labels.
    """
    own, plan = table.labels, context.plan
    if own.names and plan.maps_values:
        return _labels_arranged(context, table).labels, {}, spectrum
    if not own.names or not (plan.masks_labels or plan.labels_only):
        return own.codes, {}, spectrum
    if spectrum.masked_labels is not None:
        return own.without_blanks(spectrum.masked_labels), {}, spectrum
    labels = labels_of(context, table)
    codes = own.without_blanks(plan.perturb.mask_labels(labels))
    said = replace(spectrum.with_remark("; ".join(labels.notes)), found={**spectrum.found, **labels.found})
    return codes, labels.new_levels, said


def _variance(table: Microdata, profile: Profile) -> Array:
    """The variance of each confidential column, over the cells present."""
    known = profile.moments.variance[table.public :].copy()
    for j in np.flatnonzero(np.isnan(known)).tolist():
        column = table.confidential.columns[j][:]
        present = ~np.isnan(column)
        known[j] = pair_moments(column[:, None], present[:, None], weights=table.weights).covariance[0, 0]
    return np.nan_to_num(known)


def _holes(table: Microdata, profile: Profile) -> Mask | None:
    """Where confidential cells are missing; None when none is (known from the profile, without another pass)."""
    if not profile.missing():
        return None
    check_holes(table)
    return np.column_stack([np.isnan(column) for column in table.confidential.columns])


def _filled(core: Microdata, present: Mask, context: RunContext) -> Microdata:
    """The perturbed columns without holes."""
    known = core.beside_public_cells(present)
    columns = completed(core.values, known, core.weights, context.streams, context.stratum)[core.public :]
    complete = core.with_confidential(columns)
    if core.other is None:
        return complete
    # What another masker says of a cell that is missing plays no part: it gets what the data got there.
    other = [np.where(*cells) for cells in zip(present.T, core.other.columns, columns, strict=True)]
    return replace(complete, other=Matrix(other))


def _with_moments(
    plan: Plan, core: Microdata, present: Mask | None, columns: list[Array], totals: Totals | None, *, mapped: bool
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
        sums = totals.after_public(core.public)
        restored = recalibrated(released, known, target, core.weights, core.public, sums)
    else:
        restored = with_means(released, known, target, core.weights)
    return list(np.ascontiguousarray(restored[:, core.public :].T))


def _calibrated(core: Microdata, columns: list[Array]) -> list[Array]:
    """Exact moments by a linear map, twice: the second takes away what the round-off of the first has left."""
    for _ in range(2):
        constant = any(column.min() == column.max() for column in columns)
        if constant or not calibrate(columns, core):
            raise DataError("exact moments cannot be reached: the columns are collinear", "use exact=False")
    return columns


def _domains(table: Microdata, chosen: Sequence[int], rules: ColumnRules, *, mapped: bool) -> list[Domain]:
    """The domains to enforce on the perturbed columns, with the share of zeros they have in this stratum."""
    domains = rules.domains(mapped=mapped)
    columns = table.confidential.columns
    return [domains[j].here(columns[j]) for j in chosen] if domains else [Domain()] * len(chosen)


def _worst(parts: Sequence[Restored | None]) -> Restored | None:
    """Of several strata the one whose correlations came back least, with sums of all; None if one was left free."""
    mapped = [part for part in parts if part is not None]
    if len(mapped) < len(parts):
        return None
    worst = max(mapped, key=lambda part: part.settled.correlation if part.settled else 0.0)
    in_all = [rule for rule in worst.near_rules if all(rule in part.near_rules for part in mapped)]
    products = [rule for rule in worst.products if all(any(map(rule.is_like, part.products)) for part in mapped)]
    costly = list(dict.fromkeys(rule for part in mapped for rule in part.costly_orders))
    kept = list(dict.fromkeys(rule for part in mapped for rule in part.kept_orders if rule not in costly))
    return replace(worst, near_rules=in_all, products=products, kept_orders=kept, costly_orders=costly)
