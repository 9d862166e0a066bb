"""From what an engine made of a table to the release: measured, diagnosed, with its settings and its report writer.

Columns that follow from others are computed anew. Labels that never meet are kept apart where some are not arranged
with the others: those of units, bands of ages.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from microveil.core.arrays import Array
from microveil.core.rng import Streams
from microveil.engines.release_check import Evidence
from microveil.intake.declared import ComputedColumn, rules_of_labels
from microveil.intake.from_dates import DateRule, days_in
from microveil.intake.from_values import cells_of, words_for_gaps
from microveil.intake.intake import Rules, dictionary_for, rules_among
from microveil.intake.roles import Roles
from microveil.intake.unit_rules import UnitRule
from microveil.io.frames.dataframes import Frame, open_frame
from microveil.io.frames.reorder import with_columns_from
from microveil.methods import METHODS, Plan
from microveil.options import Settings
from microveil.release import diagnostics
from microveil.release.diagnostics import EngineRun
from microveil.release.release import Release
from microveil.release.remarks import remarks
from microveil.report.reporter import Reporter
from microveil.rules.column_rules import Rule


def build_release(
    run: EngineRun, proof: Evidence, data: Any, *, settings: dict[str, Any], seed: int, original: Any, rounded: bool
) -> Release:
    """The release of a run.

    Args:
        run: the plan, the table that came in and what the engine made of it.
        proof: what was measured on the released values.
        data: the released table, or where it is.
        settings: what a recipe of it holds.
        seed: the master seed.
        original: what its reports compare it with.
        rounded: whether a column's type holds fewer digits than the values had.
    """
    kept = diagnostics.kept(run, proof)
    dose = diagnostics.doses(run, proof)
    return Release(
        data=data,
        method=run.plan.method,
        release_type=run.plan.kind(run.outcome.untouched),
        kept=kept,
        kept_on_average=diagnostics.kept_on_average(run),
        dose=dose,
        warnings=remarks(run, kept, dose, proof.same_records, rounded=rounded),
        rules=diagnostics.rules(run),
        components=diagnostics.component_table(run.outcome),
        rows=run.intake.table.count,
        leakage=diagnostics.leakage(run),
        settings=settings,
        seed=seed,
        writer=reporter_of(run, original),
        labels=diagnostics.label_doses(run.intake.table, run.outcome),
        found=run.outcome.spectrum.found,
    )


def settings_of(plan: Plan, roles: Roles, options: Settings) -> dict[str, Any]:
    """What a recipe holds: every option that is not at its default, the columns by role, and all parameters."""
    rules = options.rules
    resolved = {
        "method": plan.method,
        "confidential": list(roles.protected),
        "public": roles.public.setting,
        "strata": list(roles.strata),
        "weight": roles.weight,
        "rules": "none" if rules is None else str(rules) if isinstance(rules, Path) else copy.deepcopy(rules),
        "engine": options.engine,
        "parameters": {name: list(v) if isinstance(v, tuple) else v for name, v in plan.parameters.items()},
        **({"needs": list(plan.needs)} if plan.needs else {}),
    }
    secret = {} if options.secret is None else {"secret": str(options.secret)}
    found = {**options.settings(), **resolved, **secret}
    ordered = [name for name in Settings.model_fields if name in found]
    return {name: found[name] for name in dict.fromkeys([*ordered, *found])}


def reporter_of(run: EngineRun, original: Any) -> Reporter:
    """What writes the reports of a release; it audits every rule that was found or declared, kept or not."""
    method, known, outcome = METHODS[run.plan.method], run.intake.known, run.outcome
    near = () if outcome.restored is None else outcome.restored.near_rules
    ratios = dict.fromkeys([*outcome.ratios, *known.ratios, *known.found_ratios])
    rules: list[Rule] = [*outcome.rules, *near, *ratios, *known.orders, *known.watched]
    return Reporter(original, method.summary, method.reference, rules, known.domains(mapped=False), run.intake.codes)


def with_computed_columns(
    release: Release, original: Any, found: Sequence[ComputedColumn], times: Sequence[str], luck: Callable[[], Streams]
) -> Release:
    """The release with columns computed anew from others, in the places they have in the `original` table.

    `found` are the rules by which they follow, and `times` all columns of dates and times. Gaps of their own have gone
    with those of protected cells. What follows from a gap is what follows in any row (by some `luck`).
    """
    if not found:
        return release
    names, rows = open_frame(release.data).names, np.arange(release.rows)
    there = rows if release.order is None else release.order
    alone = [rule.column for rule in found if not isinstance(rule, UnitRule)]
    places = dict.fromkeys(alone, next(iter(release.places.values()), there))
    kept = {name: (release.data, rows) for name in names if name not in places}  # arrays have all columns
    data = with_columns_from(original, {**kept, **{name: (original, own) for name, own in places.items()}})
    for rule in found:
        frame = open_frame(data).with_times([name for name in times if name in names or name == rule.column])
        values = rule.computed(partial(days_in, frame)) if isinstance(rule, DateRule) else rule.computed(frame)
        if not isinstance(rule, UnitRule):
            values = _with_own_gaps(values, cells_of(frame, rule.column, labels=rule.labels), rule.column, luck)
        if rule.labels:
            data = frame.rebuilt({}, {}, {rule.column: np.nan_to_num(values, nan=-1).astype(np.intp)})
        else:
            data = frame.rebuilt({rule.column: values}, {rule.column: ~np.isnan(values)})
    return replace(
        release,
        data=data,
        rules=[*release.rules, *(rule.sentence for rule in found)],
        computed=(*release.computed, *(rule.column for rule in found)),
        places={**release.places, **places} if release.places else {},
    )


def _with_own_gaps(values: Array, cells: Array, name: str, luck: Callable[[], Streams]) -> Array:
    """Computed values, missing where `cells` are, and drawn from all where only what they follow from is missing.

    A cell that stands for such a gap, and nowhere else, goes with it.
    """
    there, unknown = ~np.isnan(cells), np.isnan(values)
    words = words_for_gaps(cells[unknown & there], values)
    if words.size:
        values = np.where(unknown, words[0], values)
    elif (unknown & there).any():
        generator = luck().stream("computed", name).generator()
        values = np.where(unknown, generator.choice(values[~unknown], values.size), values)
    return np.where(there, values, np.nan)


def about_decimals(before: Frame, names: Sequence[str], after: Frame | None = None) -> list[str]:
    """Columns of decimals that are of doubles now; those that are written block by block always are."""
    doubles = [name for name in names if before.is_decimal(name) and (after is None or not after.is_decimal(name))]
    reason = "in blocks" if after is None else "as they have more digits now"
    return [f"decimals that come back as float64, {reason}: {', '.join(doubles)}"] if doubles else []


def about_notes(has_notes: bool, *, keep_notes: bool) -> list[str]:
    """What became of notes on a file (its label, comments, metadata), if it has some."""
    word = "are released as they are, on request" if keep_notes else "are left out of the release (--keep-notes)"
    return [f"notes on the file (its label, comments, metadata) {word}"] if has_notes else []


def with_pairs_parted(
    table: Any, before: Frame, columns: tuple[Sequence[str], Sequence[str]], rules: Rules, streams: Streams
) -> Any:
    """A released table without pairs of labels that cannot be.

    Args:
        table: what was released.
        before: the original, in which it is seen which labels never meet.
        columns: those that stay, and those that records exchange; what follows from these follows again.
        rules: the rules of the columns, as the caller gave them.
        streams: the randomness of the release.
    """
    stay, moving = columns
    if not moving:
        return table
    names, after = [*stay, *moving], open_frame(table)
    new = [after.labels(name) for name in names]
    if not all(_has_the_levels(before, after, name) for name in names):
        return table
    dictionary, inferred = dictionary_for(rules_among(rules, before.names), before.names)
    found = rules_of_labels(before, names, dictionary, inferred=inferred, stay=range(len(stay)))
    if not found.pairs:
        return table
    fixed = found.restored([new[j] for j in found.independent], streams.stream("pairs of labels").generator())
    return after.rebuilt({}, {}, dict(zip(moving, fixed[len(stay) :], strict=True)))


def _has_the_levels(before: Frame, after: Frame, name: str) -> bool:
    """Are the levels of a column numbered alike in both tables? The last places in a unit may be gone."""
    last = [int(frame.labels(name).max(initial=0)) for frame in (before, after)]
    if last[0] == last[1]:
        return True
    if not before.is_numeric(name) or last[1] > last[0]:
        return False
    some = np.unique(before.numbers(name))[: last[1] + 1]
    return bool(np.array_equal(some, np.unique(after.numbers(name))))
