"""Diagnostics of a release: what was kept, how much was changed, which components and rules are behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from microveil.core.arrays import Index
from microveil.core.moments import is_wide
from microveil.core.table import Matrix, Microdata
from microveil.engines import Outcome
from microveil.engines.release_check import (
    Evidence,
    LabelComparison,
    covariance_error_within,
    mean_error_within,
)
from microveil.intake.intake import Intake
from microveil.intake.roles import Roles
from microveil.io.frames.dataframes import Frame
from microveil.measures.base import scale_of, scales
from microveil.measures.risk.closest import leakage_distribution
from microveil.measures.utility.dependence import rank_correlation_difference
from microveil.measures.utility.moments import ks_distance
from microveil.methods import Plan
from microveil.perturb import LabelPerturbation
from microveil.release.release import CLOSELY, ComponentTable, Dose, Leakage
from microveil.rules.orders import implied_orders

KEPT = 1e-9
"""A promised statistic that is further off than this (in standard deviations) is pointed out."""


@dataclass(frozen=True, repr=False)
class EngineRun:
    """A finished run: the plan, the table that came in (its first rows, where there are many) and what came out."""

    plan: Plan
    frame: Frame
    roles: Roles
    intake: Intake
    outcome: Outcome


def component_table(outcome: Outcome) -> ComponentTable:
    """The components with their weights on the perturbed columns; with strata, of the largest stratum."""
    spectrum = outcome.spectrum
    return ComponentTable(
        columns=spectrum.columns,
        variance=spectrum.axes.variance,
        weights=spectrum.axes.weights,
        variance_shares=spectrum.shares.T,
        perturbed=tuple(spectrum.selected),
        notes=spectrum.notes,
        names=spectrum.names,
    )


def leakage(run: EngineRun) -> Leakage | None:
    """How many records come back whole when each component is swapped on its own (Hsu and Chen 2008).

    Components that stay are one more, as what they hold of a record stays together.
    """
    plan, intake, outcome = run.plan, run.intake, run.outcome
    swapped, untouched = len(outcome.spectrum.selected), outcome.untouched > 0
    if not plan.perturb.permutes or plan.maps_values or intake.table.strata is not None or swapped + untouched < 2:
        return None
    whole = leakage_distribution(intake.table.count, swapped + untouched)
    share = outcome.spectrum.left_near
    return Leakage(whole.mean, whole.risk, outcome.spectrum.near_returns, None if share is None else share * whole.mean)


def kept(run: EngineRun, proof: Evidence) -> dict[str, float]:
    """The statistics the method promises, with the error that was reached."""
    plan, intake, outcome = run.plan, run.intake, run.outcome
    statistics = {}
    mapped, knows_weights = outcome.restored is not None, intake.table.weights is None or plan.perturb.knows_weights
    arranged = outcome.restored is not None and outcome.restored.settled is not None
    if plan.exact or arranged or (plan.perturb.keeps_mean and knows_weights and not mapped):
        statistics["mean"] = proof.mean_error
    if plan.exact or arranged:
        statistics["covariance"] = proof.covariance_error
    untouched = intake.present is None and outcome.enforcement is None and not mapped
    if outcome.spectrum.clusters is not None and untouched:
        statistics |= _kept_within(intake, outcome)
    if mapped:
        original, released = outcome.shown or (intake.table.confidential, Matrix(outcome.columns))
    if mapped and outcome.perturbed:
        statistics["rank correlation"] = _rank_correlation_error(original, released, outcome)
        statistics["distribution"] = _largest_ks(original, released)
    if mapped and not plan.exact:
        statistics = {name: error for name, error in statistics.items() if error <= CLOSELY}
    if not intake.table.confidential_names:  # labels alone
        statistics = {}
    if intake.table.labels.names and arranged:
        statistics |= label_errors(intake.table, outcome)
    exact = [rule for rule in outcome.rules if rule.exact]
    if exact:
        statistics["linear rules"] = max(rule.worst_error(outcome.columns) for rule in exact)
    return statistics


def _largest_ks(original: Matrix, released: Matrix) -> float:
    """The largest difference of the distribution functions of a column. In order, one at a time takes room."""
    columns = ((original.select([j]), released.select([j])) for j in scales(original))
    return max((ks_distance(*(table.in_order(0) for table in both)) for both in columns), default=0.0)


def _rank_correlation_error(original: Matrix, released: Matrix, outcome: Outcome) -> float:
    """How far the rank correlations are off: where pairs are too many to be compared again, as the search has found."""
    found = outcome.restored and outcome.restored.settled
    if found and is_wide(*original.shape):
        return found.rank_correlation
    return rank_correlation_difference(original, released).value


def _kept_within(intake: Intake, outcome: Outcome) -> dict[str, float]:
    """What clusters keep of their own: their means, and their covariances where the method has room for these too."""
    clusters, pieces = outcome.spectrum.clusters, outcome.spectrum.pieces
    if clusters is None or pieces is None or not pieces.any() or intake.table.strata is not None:
        return {}
    both = intake.table.confidential.columns, outcome.columns
    covariance = covariance_error_within(clusters, *both)
    kept = {"mean in clusters": mean_error_within(pieces, *both)}
    return {**kept, "covariance in clusters": covariance} if covariance <= KEPT and clusters.any() else kept


def kept_on_average(run: EngineRun) -> tuple[str, ...]:
    """The statistics that come back on average over repeated releases, if not exactly."""
    plan, intake, outcome = run.plan, run.intake, run.outcome
    if plan.exact or outcome.restored is not None or outcome.enforcement is not None:
        return ()  # measured and reported with the figure that was reached, or no longer what the method alone gives
    if intake.table.weights is not None and not plan.perturb.knows_weights:
        return ()
    if intake.present is not None:
        return ()  # new values do not follow the pattern of the holes, so what is left has other moments
    if isinstance(plan.perturb, LabelPerturbation):
        return ("frequencies",) if plan.perturb.keeps_frequencies else ()
    statistics = () if plan.perturb.keeps_mean else ("mean",)
    return (*statistics, "covariance") if plan.covariance_on_average(outcome.untouched) else statistics


def doses(run: EngineRun, proof: Evidence) -> dict[str, Dose]:
    """Asked and achieved perturbation, column by column."""
    plan, intake, outcome = run.plan, run.intake, run.outcome
    retained, constant = plan.perturb.retained(), set(outcome.constant)
    known = {}
    if outcome.spectrum.retained is not None and intake.table.strata is None:
        known = dict(zip(outcome.perturbed, outcome.spectrum.retained.tolist(), strict=True))
    # A ratio has no share of its own, and columns whose factors and rest overlap have more than one.
    overlap = bool(outcome.spectrum.axes.rest_of) and not plan.decompose.uncorrelated
    vague = set(range(len(outcome.columns))) if overlap else {rule.column for rule in outcome.ratios}
    found = {}
    for j, name in enumerate(intake.table.confidential_names):
        asked, achieved = None, 0.0
        if j in constant:
            asked = 0.0
        else:
            achieved = float(np.clip(1 - proof.correlation[j], 0, 2))
            stays = known.get(j, retained)
            if stays is not None and outcome.variance[j] > 0 and j not in vague:
                asked = float(min(outcome.altered[j] / outcome.variance[j], 1.0) * (1 - stays))
        found[name] = Dose(asked, achieved, float(proof.changed[j]))
    return found


def label_errors(table: Microdata, outcome: Outcome) -> Mapping[str, float]:
    """How far two-way tables of labels are off (total variation), and means of groups (standard deviations).

    Both are weighted, where there are weights. Groups of fewer records than are fitted to are left out.
    """
    if outcome.label_errors is not None:
        return outcome.label_errors
    spreads, own = {}, table.confidential.columns
    for j in outcome.perturbed:
        if not np.isnan(own[j]).any() and (scale := scale_of(own[j])) is not None:
            spreads[j] = scale[1]
    compared = LabelComparison([int(codes.max()) + 1 for codes in table.labels.codes], spreads)
    return compared.errors(compared.sums(own, table.labels.codes, outcome.columns, outcome.labels, table.weights))


def label_doses(table: Microdata, outcome: Outcome) -> dict[str, Dose]:
    """How much labels were changed, column by column."""
    columns = zip(table.labels.names, table.labels.codes, outcome.labels, strict=True)
    return {name: label_dose(old, new) for name, old, new in columns}


def label_dose(old: Index, new: Index) -> Dose:
    """How much labels were changed: 1 less their agreement with the original beyond chance (Cohen's kappa)."""
    shares = np.bincount(old) / old.size
    same, chance = float(np.mean(old == new)), float(np.square(shares).sum())
    beyond = (same - chance) / (1 - chance) if chance < 1 else same
    return Dose(None, float(np.clip(1 - beyond, 0, 2)), 1 - same)


def rules(run: EngineRun) -> list[str]:
    """The rules between columns that the release keeps, as sentences."""
    names, outcome = run.intake.table.confidential_names, run.outcome
    restored = outcome.restored
    orders = [] if restored is None else [rule for rule in restored.kept_orders if not rule.broken(outcome.columns)]
    if restored is not None and orders:  # a part is not above a total, and needs no mention
        implied = implied_orders(run.intake.table.confidential, [*outcome.rules, *restored.near_rules])
        orders = [rule for rule in orders if (rule.lower, rule.upper) not in implied]
    return [
        *(rule.sentence(names) for rule in outcome.rules if rule.exact),
        *(rule.sentence(names) for rule in outcome.ratios),
        *(rule.sentence(names) for rule in orders),
        *(rule.sentence((*run.intake.flags, *run.roles.labels)) for rule in run.intake.labels.dependencies),
    ]
