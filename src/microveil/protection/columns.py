"""What becomes of every column, decided once for tables in memory, in blocks and on Spark."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from microveil.core.errors import DisclosureWarning, ParameterError, check_column
from microveil.intake.declared import ComputedColumn, check_declared
from microveil.intake.from_dates import DateRule, date_rules_of, find_date_rules, find_dated_labels
from microveil.intake.from_values import find_value_rules
from microveil.intake.intake import Rules, dictionary_for, rules_among, with_values
from microveil.intake.kinds import NUMBERS
from microveil.intake.roles import Roles, named, regressed, resolve_roles
from microveil.intake.treatment import Treatment, check_protectable, keeps_rest, treat_columns
from microveil.intake.unit_rules import UnitRule, Units, find_unit_rules
from microveil.io.dictionary import read_dictionary
from microveil.io.frames.dataframes import Frame
from microveil.io.frames.surveyed import SurveyedFrame
from microveil.io.frames.times import TimeForm
from microveil.methods import Plan, method_named
from microveil.options import Protect
from microveil.protection import checks
from microveil.release.release import Release


def numeric_columns(frame: Frame) -> dict[str, bool]:
    """Which columns are numbers."""
    return {name: frame.is_numeric(name) for name in frame.names}


def treatment_of(frame: Frame, options: Protect, plan: Plan) -> Treatment:
    """What becomes of the columns that have no role."""
    numeric = numeric_columns(frame)
    by_method = plan.named_columns
    used = [*regressed(numeric, "public", options.public).columns]
    chosen = {"strata": options.strata, "weight": options.weight, **by_method.get("groups", {})}
    used += [name for role, choice in chosen.items() for name in named(numeric, role, choice)]
    for role, choice in by_method.get("regressors", {}).items():
        used += regressed(numeric, role, choice).columns
    given = {name: getattr(options, name) for name in ("confidential", "unit", "drop", "keep", "kinds", "rules")}
    treatment = treat_columns(frame, used, **given)
    if plan.labels_only:
        return treatment.as_labels(named(frame.names, "confidential", options.confidential))
    return treatment if plan.arranges else treatment.without_labels()


def roles_of(numeric: Mapping[str, bool], options: Protect, plan: Plan, treatment: Treatment) -> Roles:
    """The roles of the columns that are left; dates and times count as `numeric`."""
    numeric = {name: is_number or name in treatment.times for name, is_number in numeric.items()}
    columns: dict[str, Any] = {role: getattr(options, role) for role in ("confidential", "public", "strata", "weight")}
    columns |= plan.named_columns
    labels = [name for name in treatment.labels if name in numeric]
    taken = [*treatment.no_role, *named(numeric, "unit", options.unit)]
    roles = resolve_roles(numeric, **columns, labels=labels, taken_already=taken)
    check_protectable(plan, roles, treatment.kinds)
    return roles


def dates_and_numbers(
    names: Sequence[str], options: Protect, treatment: Treatment
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The dates that are protected, and the columns of numbers, without doubt, that nobody named."""
    by_name = {*named(names, "confidential", options.confidential), *treatment.named}
    found = {name: treatment.kinds[name] for name in names if name not in by_name}
    free = tuple(name for name, of in found.items() if of.kind in NUMBERS and not of.doubtful)
    dates = (name for name in treatment.times if name in names and name not in treatment.named)
    return tuple(name for name in dates if options.confidential is None or name in by_name), free


def computed_columns(frame: Frame, options: Protect, treatment: Treatment, plan: Plan) -> list[ComputedColumn]:
    """How columns that nobody named follow from protected dates or numbers, or from the units of the rows."""
    dictionary, inferred = dictionary_for(rules_among(options.rules, frame.names), frame.names)
    if (not inferred and not dictionary.computed) or keeps_rest(options.keep):
        return []
    dates, free = dates_and_numbers(frame.names, options, treatment)
    by_name = {*named(frame.names, "confidential", options.confidential), *treatment.named}
    numeric = [name for name, of in treatment.kinds.items() if of.kind in NUMBERS and not of.doubtful]
    numeric = [name for name in frame.names if name in numeric and frame.is_numeric(name)]
    hidden = [n for n in frame.names if n not in treatment.named]
    if options.confidential is not None:
        hidden = [n for n in hidden if n in by_name or n in free]
    found: list[ComputedColumn] = []
    unit = next(iter(treatment.units_of(frame, options.unit)), None)
    gaps = plan.arranges  # of their own, which go to other rows
    wanted = [name for name in free if name in numeric and (inferred or name in dictionary.computed)]
    free_labels = [name for name in treatment.labels if name in hidden and name not in by_name]
    if dates:
        dated = frame.with_times(dates)
        found += find_date_rules(dated, wanted, gaps=gaps)
        if plan.protects_labels:
            own = [name for name in free_labels if inferred or name in dictionary.computed]
            found += find_dated_labels(dated, own, gaps=gaps)
    if unit is not None and not frame.missing(unit):
        may = (*wanted, *dates, *(free_labels if plan.protects_labels else ()))
        left = [name for name in may if name not in {*by_name, *(rule.column for rule in found)}]
        labels = [name for name in treatment.labels if name in hidden]
        of_units = find_unit_rules(frame, unit, left, [name for name in numeric if name in hidden], labels)
        of_units = [rule for rule in of_units if not rule.exceptions]
        first = [rule for rule in of_units if rule.column in dates]  # others may follow from the first of the dates
        found = [*first, *found, *(rule for rule in of_units if rule not in first)]
    if plan.maps_values and not plan.exact:  # numbers that are left free or moved a little are between the bands
        done = {rule.column for rule in found}
        follow = dict.fromkeys([name for name in wanted if name not in done], False)
        follow |= dict.fromkeys([name for name in free_labels if name not in done], True)
        sources = [name for name in numeric if name in hidden and name not in done]
        of_values = find_value_rules(frame, sources, follow, gaps=gaps)
        to_perturb = {*sources, *follow} - {rule.column for rule in of_values}
        found += of_values if len(to_perturb) >= method_named(plan.method).minimum_columns else []
    if unit is not None and not frame.missing(unit):
        units = Units.of(frame, unit)
        found = [rule for rule in found if not _drawn_within_units(frame, units, rule)]
    return found if inferred else check_declared(dictionary, found)


def _drawn_within_units(frame: Frame, units: Units, rule: ComputedColumn) -> bool:
    """Would some rows of a unit get other cells of a column that is the same in all of them?

    They would where what it follows from is missing, and cells are drawn.
    """
    if isinstance(rule, UnitRule):
        return False
    sources = rule.dates if isinstance(rule, DateRule) else (rule.source,)
    return any(map(frame.missing, sources)) and units.is_constant(frame, rule.column)


def about_missing_numbers(frame: Frame, renumbered: Sequence[str]) -> list[str]:
    """Rows that belong to nobody, as everybody can see: who has no employer, no spouse."""
    return [
        f"column '{name}' is missing in {frame.missing(name)} rows, and still is in these: that is released as it is"
        for name in renumbered
        if frame.missing(name)
    ]


def columns_in_clear(names: Sequence[str], roles: Roles, treatment: Treatment) -> tuple[str, ...]:
    """Columns that are released as they are; those that are the same in all rows tell nothing."""
    constant = {name for name, found in treatment.kinds.items() if found.kind == "constant"}
    return tuple(name for name in names if name in {*roles.shown, *treatment.kept} - constant)


@dataclass(frozen=True, repr=False)
class RemoteColumns:
    """What becomes of the columns of a table whose rows are elsewhere."""

    names: tuple[str, ...]
    """The columns of the release."""

    roles: Roles
    treatment: Treatment
    times: Mapping[str, TimeForm]
    """Columns of dates and times that are used, and how they are numbers."""

    from_dates: tuple[DateRule, ...]
    rules: Rules

    @property
    def read(self) -> tuple[str, ...]:
        """The columns of the release that are not computed anew."""
        return tuple(name for name in self.names if name not in self.treatment.computed)

    @property
    def in_clear(self) -> tuple[str, ...]:
        """Columns that are released as they are."""
        return columns_in_clear(self.names, self.roles, self.treatment)

    @property
    def kinds(self) -> dict[str, str]:
        """What each column of the original was taken for."""
        return {name: found.kind for name, found in self.treatment.kinds.items()}


Confirm = Callable[[Sequence[DateRule], Mapping[str, TimeForm]], Sequence[DateRule]]
"""Those of some rules between dates and other columns that hold in all rows."""


def remote_columns(
    frame: SurveyedFrame, options: Protect, plan: Plan, confirm: Confirm, broken: Collection[str] = ()
) -> RemoteColumns:
    """What becomes of the columns of a table whose rows are elsewhere, by what a survey of all rows has found.

    Args:
        frame: the survey.
        options: how it is protected.
        plan: the method with its parameters.
        confirm: tells which rules hold in all rows.
        broken: columns that begin as numbers and go on as something else.
    """
    if options.protected_weight is not None:
        raise ParameterError("protected_weight: is calibrated in memory only", "use engine='memory', or weight")
    treatment = treatment_of(frame, options, plan)
    for name in treatment.index:
        check_column("keep", name, frame.names)
    gone = {*treatment.dropped, *treatment.left_out}
    names = tuple(name for name in frame.names if name not in gone)
    forms = {n: f for n in treatment.times if n in names and (f := frame.time_column(n)) is not None}
    dates, free = dates_and_numbers(names, options, treatment)
    candidates = []
    if dates and free and options.rules == "infer" and not keeps_rest(options.keep):
        rows = frame.rows_all_over(dates)
        candidates = [rule for column in free if column in rows.names for rule in date_rules_of(rows, column)]
    found: dict[str, DateRule] = {}
    for rule in confirm(candidates, forms) if candidates else ():
        found.setdefault(rule.column, rule)
    treatment = treatment.without_roles(tuple(found))
    numeric = {name: frame.is_numeric(name) for name in names if name not in found}
    checks.check_not_broken(broken, {*gone, *treatment.kept, *treatment.renumbered})
    roles = roles_of(numeric, options, plan, treatment)
    if options.confidential is None:
        checks.check_hidden_numbers(frame, ({*roles.shown, *treatment.no_role, *treatment.labels}))
        roles = with_values(frame, roles)
    used = {*roles.confidential, *roles.shown}
    times = {name: form for name, form in forms.items() if name in used}
    rules = _without_kinds(rules_among(options.rules, names) if gone else options.rules)
    return RemoteColumns(names, roles, treatment, times, tuple(found.values()), rules)


def _without_kinds(rules: Rules) -> Rules:
    """The same rules without the kinds that they declare, which have been heeded."""
    if not isinstance(rules, str | Path | Mapping) or rules in ("infer", "none"):
        return rules
    dictionary = read_dictionary(rules)
    declared = {name: entry.model_dump(exclude_defaults=True).keys() for name, entry in dictionary.columns.items()}
    more = {name: entry for name, entry in dictionary.columns.items() if declared[name] - {"kind"}}
    return dictionary.model_copy(update={"columns": more}).model_dump(exclude_unset=True)


def with_columns_said(release: Release, chosen: RemoteColumns, unique: float, remarks: Sequence[str] = ()) -> Release:
    """A release of rows that are elsewhere, with remarks on its columns.

    `unique` is the share of rows that are unique on what is in clear, and `remarks` come after those of the release.
    """
    treatment, clear = chosen.treatment, chosen.in_clear
    settings = dict(release.settings)
    said = treatment.remarks((), clear, unique)
    said += [
        f"how many rows share a number of '{name}' is released as it is, and tells whoever has unusually many; in "
        "memory such units are made larger or smaller"
        for name in treatment.renumbered
    ]
    if treatment.dropped:
        settings["drop"] = list(treatment.dropped)
        said.append(f"dropped, on request: {', '.join(treatment.dropped)}")
    if clear:
        warnings.warn(f"released as they are: {', '.join(clear)}", DisclosureWarning, stacklevel=3)
    return replace(
        release,
        kinds=chosen.kinds,
        in_clear=clear,
        unique_in_clear=unique,
        rules=[*release.rules, *(rule.sentence for rule in chosen.from_dates)],
        computed=tuple(rule.column for rule in chosen.from_dates),
        settings=settings,
        warnings=[*said, *release.warnings, *remarks],
    )
