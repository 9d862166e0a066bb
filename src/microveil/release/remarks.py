"""Remarks on a release: what its owner must know before it leaves; none of it tells a confidential value."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from microveil.core.arrays import FIRST_ROWS, Array
from microveil.core.errors import some_of
from microveil.core.fewest_records import FEWEST_RECORDS
from microveil.engines import Outcome
from microveil.engines.pipeline import DOMINATED
from microveil.intake.intake import Intake
from microveil.methods import Plan
from microveil.release.diagnostics import KEPT, EngineRun, label_doses
from microveil.release.release import CLOSELY, Dose
from microveil.rules.linear_rules import ROWS_PER_COLUMN
from microveil.rules.orders import MOST_COST

NO_EFFECT, HALF = 0.01, 0.5
ENOUGH_ROWS = 100
"""Rows from which on a correlation by accident is no reason for a small dose."""

BY_CHANCE = 1e-6
"""Share of cells that drawn values meet by accident, at most."""

SAME_RECORDS = 0.01
"""Share of records that may come back by accident, as columns with few values make them."""

NAMED = 6
"""Columns that a remark names."""

SMALL_STRATUM = 10
AT_ONCE = 2**20
"""Rows of a column that are looked at together: the column may be on a disk."""

NEGATIVE_SAID, DECIMALS_SAID = "negative values where there were none", "decimals where there were whole numbers"
"""What a method did to the values of columns, where it did."""


def remarks(
    run: EngineRun, kept: Mapping[str, float], dose: Mapping[str, Dose], same_records: float, *, rounded: bool
) -> list[str]:
    """What the owner must know before releasing; none of it tells a confidential value.

    `kept` are the errors of the statistics that were promised, `dose` the change of each column, `same_records` the
    share of records that came back, and `rounded` says that a column's type holds fewer digits than the values had.
    """
    plan, said = run.plan, []
    if dose and same_records > SAME_RECORDS:
        said.append(f"{same_records:.2%} of the records come back as they were, in all protected columns")
    return [
        *_about_others(run),
        *_about_components(plan, run.outcome),
        *_about_columns(run.intake, run.outcome),
        *_about_holes(run.plan, run.intake, run.outcome),
        *_about_domains(run),
        *(_about_distributions(run, kept) if dose else []),
        *(_about_grid(kept) if plan.rounded else []),
        *(_about_exactness(run, kept, rounded) if plan.promises_moments and not plan.rounded else []),
        *_about_doses(run, dose),
        *_about_cells(run, dose),
        *said,
    ]


def _about_doses(run: EngineRun, dose: Mapping[str, Dose]) -> list[str]:
    """Columns on which the method had no effect, or much less than it set out for.

    A method that exchanges values sets out to leave no label with its record but by chance.
    """
    table, own = run.intake.table, run.intake.table.labels
    constant = {table.confidential_names[j] for j in run.outcome.constant}
    others = {name: found for name, found in dose.items() if name not in constant}
    said = [
        f"column '{name}' hardly changed (1 - correlation with the original is {found.achieved:.3f})"
        for name, found in others.items()
        if found.achieved < NO_EFFECT
    ]
    less = [
        f"{name} ({100 * found.achieved:.0f} of {100 * found.asked:.0f} %)"
        for name, found in others.items()
        if found.asked is not None and NO_EFFECT <= found.achieved < found.asked / 2
    ]
    if run.plan.maps_values:
        varying = [name for name, codes in zip(own.names, own.codes, strict=True) if np.ptp(codes) > 0]
        labels = label_doses(table, run.outcome)
        less += [f"{n} ({100 * labels[n].achieved:.0f} of 100 %)" for n in varying if labels[n].achieved < HALF]
    if less and table.count >= ENOUGH_ROWS:
        reason = ", as they follow the weight" if table.weights is not None else ""
        said.append(
            f"changed less than half as much as asked{reason} (0 %: untouched, 100 %: unrelated to the original): "
            + some_of(less, NAMED)
            + ("; protect the weight as well (protected_weight)" if reason else "")
        )
    return said


def _about_cells(run: EngineRun, dose: Mapping[str, Dose]) -> list[str]:
    """Cells that came through as they were, though the method draws, blurs or multiplies every one of them."""
    plan, table, outcome = run.plan, run.intake.table, run.outcome
    if outcome.restored is not None:
        return []
    if plan.perturb.keeps_zeros and not plan.exact:
        reason, columns = "zeros stay zero", zip(table.confidential_names, table.confidential.columns, strict=True)
        same = {name: float(np.mean(values == 0)) for name, values in columns}
    elif not plan.perturb.keeps_mean and outcome.enforcement is None:
        reason, same = "nothing of them was left to replace", {name: 1 - dose[name].cells_changed for name in dose}
    else:
        return []
    constant = {table.confidential_names[j] for j in outcome.constant}
    shares = [f"{name} ({share:.2%})" for name, share in same.items() if share > BY_CHANCE and name not in constant]
    return [f"cells that come back as they were, as {reason}: {some_of(shares, NAMED)}"] if shares else []


def _about_others(run: EngineRun) -> list[str]:
    """Columns that have no values. If the frame holds the first rows only, a column without one there may have some."""
    frame = run.frame
    if frame.count != run.intake.table.count:
        return []
    others = [name for name in frame.names if name not in {*run.roles.protected, *run.roles.shown}]
    empty = [name for name in others if frame.is_numeric(name) and frame.missing(name) == frame.count]
    return [f"column '{name}' has no values, and passes through as it is" for name in empty]


def _about_components(plan: Plan, outcome: Outcome) -> list[str]:
    spectrum = outcome.spectrum
    axes = spectrum.axes
    said = [axes.remark] if axes.remark else []
    if outcome.untouched and not spectrum.names:  # a selection of factors has a remark of its own
        of = f" of {axes.count}" if outcome.untouched == outcome.spectrum.untouched else ""
        said.append(
            f"{outcome.untouched}{of} components are untouched: an intruder can estimate them from the release alone "
            "and link records through them; perturb all components unless the receivers are trusted"
        )
    dominated = sum(DOMINATED in note for note in spectrum.notes.values())
    if dominated and outcome.restored is None:
        said.append(
            f"{dominated} of {axes.count} components have most of their variance from a few records, and were drawn "
            "anew; carried to another record, such a component brings the first one back whole"
        )
    drawn_anew = plan.perturb.replaces or plan.perturb.mixes or plan.marginals.marginals in ("smoothed", "stratified")
    if outcome.single and not drawn_anew:
        said.append(
            "all protected columns follow one component: each column's values come back, and every record stays whole"
        )
    return said


def _about_rare(rare: Mapping[str, int]) -> list[str]:
    """What few records have in common, and is not kept apart for them: sums over few records tell these."""
    said = [
        f"{few} of the groups by {role} have too few records (about {FEWEST_RECORDS} are needed): they are pooled, "
        "and what is special about them is not kept"
        for role, few in rare.items()
        if role not in ("far", "heavy")
    ]
    if "heavy" in rare:
        said.append(
            f"{rare['heavy']} records have a weight so unlike all others that weighted sums would tell their values: "
            "where values are arranged, they count with a weight that is nearer to the others'"
        )
    if "far" in rare:
        said.append(
            f"{rare['far']} records stand so far out in the public columns that a regression would follow them: their "
            "part in it is limited, so relations to the public columns are kept but for theirs"
        )
    return said


def _about_columns(intake: Intake, outcome: Outcome) -> list[str]:
    names = intake.table.confidential_names
    said = [f"column '{names[j]}' is constant and passes through as it is" for j in outcome.constant]
    said += [
        f"column '{names[j]}' has one value in the release: too few records have another one to release these"
        for j in outcome.perturbed
        if outcome.restored is not None and outcome.odd is None and np.ptp(outcome.columns[j]) == 0
    ]
    if outcome.leverage:
        said.append(
            f"{outcome.leverage} records stand so far out in the public columns that these all but tell their values"
        )
    said += _about_rare(intake.rare)
    said += [
        f"public column '{name}': {', '.join(f'{code:g}' for code in codes)} looks like a code, but is regressed on as "
        "a value; leave the column out of public, or recode it"
        for name, codes in intake.public_codes.items()
    ]
    if intake.table.strata is not None:
        small = int(np.count_nonzero(np.bincount(intake.table.strata) < SMALL_STRATUM))
        if small:
            said.append(
                f"{small} strata have fewer than {SMALL_STRATUM} rows; their statistics are kept, and so disclosed"
            )
    found = outcome.spectrum.found
    fewest = min(found.get(name, np.inf) for name in ("smallest_cluster", "smallest_piece"))
    if fewest < SMALL_STRATUM and outcome.restored is None and outcome.enforcement is None:
        said.append(f"the means of clusters are kept, and so disclosed; the smallest has {fewest:.0f} records")
    if intake.table.count <= len(names):
        said.append("there are no more rows than columns: the statistics that are kept describe nearly every record")
    return said


def _about_holes(plan: Plan, intake: Intake, outcome: Outcome) -> list[str]:
    said = [
        f"column '{name}': {', '.join(f'{code:g}' for code in codes)} taken for a code, not a value; such cells enter "
        "no statistic (if it is a value: rules=None)"
        for name, codes in intake.codes.items()
    ]
    if intake.present is not None:
        whole = int(intake.present.all(axis=1).sum())
        if whole <= ROWS_PER_COLUMN * intake.present.shape[1]:
            said.append(
                f"only {whole} rows have no missing cell: sums were looked for among the fullest columns only; declare "
                "others in rules, or they are not kept"
            )
    pieces = outcome.spectrum.pieces
    if intake.present is not None and pieces is not None and pieces.any():
        said.append("cells are missing: the sums of clusters are kept only nearly")
    missing = [name for name, holes in intake.holes.items() if holes is not None and name not in intake.codes]
    if (missing or intake.codes) and not plan.arranges:  # where they go is said by those who know who trades with whom
        said.append(
            f"{len(missing) + len(intake.codes)} columns have cells that are missing or coded; they stay in their "
            "places, and the pattern itself can point to a record (shuffle_rows: rows come in a random order)"
        )
    return said


def _about_distributions(run: EngineRun, kept: Mapping[str, float]) -> list[str]:
    """What became of the wish for the columns' own distributions."""
    plan, outcome, names = run.plan, run.outcome, run.intake.table.confidential_names
    if not plan.maps_values:
        return []
    if outcome.restored is None:
        reason = "there are too few rows to smooth, or it would have cost more than it brings (measured)"
        return [f"the columns did not get their own distributions back: {reason}"]
    rules = [f"holds in most rows, before and after: {rule.sentence(names)}" for rule in outcome.restored.near_rules]
    rules += [
        f"holds but for rounding and a constant factor, before and after: {rule.sentence(names)}"
        for rule in outcome.restored.products
    ]
    rules += [
        f"not kept, as that would cost more than {MOST_COST:g} of a rank correlation, or change many values: "
        f"{order.sentence(names)} (declare it in rules to have it in every row)"
        for order in outcome.restored.costly_orders
    ]
    sought = ("mean", "covariance", "rank correlation") if outcome.restored.settled else ("rank correlation",)
    lost = [name for name in sought if name not in kept]
    if plan.marginals.exchange and outcome.restored.settled is None:
        rules.append("too many columns for so few rows: values were not exchanged until correlations return")
    where = " in some stratum" if run.intake.table.strata is not None else ""
    return [*rules, *(f"{name}: did not come back{where}, it is off by more than {CLOSELY}" for name in lost)]


def _about_domains(run: EngineRun) -> list[str]:
    """Values the columns could not have before."""
    intake, outcome, table = run.intake, run.outcome, run.intake.table
    minimum = intake.profile.minimum[table.public :]
    negative, decimals = [], []
    for j, (name, before, after) in enumerate(
        zip(table.confidential_names, table.confidential.columns, outcome.columns, strict=True)
    ):
        below, broken = (None, None) if outcome.odd is None else outcome.odd[:, j]
        if minimum[j] >= 0 and (np.nanmin(after) < 0 if below is None else below):
            negative.append(name)
        if (run.frame.is_integer(name) or is_whole(before)) and (not is_whole(after) if broken is None else broken):
            decimals.append(name)
    said = []
    if negative:
        said.append(f"{NEGATIVE_SAID}: {some_of(negative, NAMED)}")
    if decimals:
        said.append(f"{DECIMALS_SAID}: {some_of(decimals, NAMED)}")
    if said and run.plan.promises_moments:
        said[-1] += "; exact moments come first, unless the dictionary of the columns declares what values are allowed"
    if outcome.enforcement is not None:
        cost = outcome.enforcement
        moved = [table.confidential_names[j] for j in sorted(cost.columns)]
        said.append(
            f"{cost.cells} cells of {some_of(moved, NAMED)} were moved "
            f"to values the columns can have; that moved means by at most {cost.mean:.4f} and covariances by "
            f"{cost.covariance:.4f} standard deviations"
        )
    said += [
        f"held before, and no longer does: {rule.sentence(table.confidential_names)}; exact moments come first, unless "
        "the dictionary of the columns declares the ratio"
        for rule in intake.known.found_ratios
        if rule not in outcome.ratios
    ]
    return said + _about_declared(intake, outcome)


def _about_declared(intake: Intake, outcome: Outcome) -> list[str]:
    """Declared domains that the original breaks (a slip in the dictionary would cut a column off), or the release.

    The latter where columns are made of others: a sum of allowed values need not be an allowed one.
    """
    names, declared = intake.table.confidential_names, intake.known.declared
    before = [domain.outside(cells) for domain, cells in zip(declared, intake.table.confidential.columns, strict=False)]
    after = {j: declared[j].outside(outcome.columns[j]) for j in sorted(outcome.rebuilt) if declared}
    declares = "are outside what the dictionary of the columns declares"
    return [
        *(
            f"{count} cells of the original '{name}' {declares}: check it, unless that is meant"
            for name, count in zip(names, before, strict=False)
            if count
        ),
        *(
            f"{count} cells of '{names[j]}' {declares}: the column is made of others, and that comes first"
            for j, count in after.items()
            if count
        ),
    ]


def is_whole(values: Array) -> bool:
    """Are all values whole numbers? The first rows settle it for most columns that are not."""
    starts = [0, *range(FIRST_ROWS, len(values), AT_ONCE)]
    parts = (values[start:stop] for start, stop in pairwise([*starts, len(values)]))
    return all(bool((cells == np.round(cells))[~np.isnan(cells)].all()) for cells in parts)


def _about_grid(kept: Mapping[str, float]) -> list[str]:
    """How near rounded moments are to those of the data."""
    off = [f"{name}s by up to {kept[name]:.1g}" for name in ("mean", "covariance") if name in kept]
    return [
        f"rounded to a grid, so that one record more or less does not show: {' and '.join(off)} standard deviations "
        "off the data's"
    ]


def _about_exactness(run: EngineRun, kept: Mapping[str, float], rounded: bool) -> list[str]:
    intake, outcome = run.intake, run.outcome
    reason = "cells are missing" if intake.present is not None else "the columns or the weights span too many digits"
    if rounded:
        reason = "a column is stored with fewer digits than it was computed with"
    protected = intake.table.confidential.columns
    if outcome.enforcement is not None or outcome.ratios or any(rule.broken(protected) for rule in intake.known.sums):
        reason = "declared rules come first"
    promised = {name: error for name, error in kept.items() if name not in ("rank correlation", "distribution")}
    return [
        f"{name}: kept to {max(0, int(-np.log10(min(error, 1.0))))} digits only, because {reason}"
        for name, error in promised.items()
        if error > KEPT
    ]
