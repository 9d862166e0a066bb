"""Protecting a table in memory."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from microveil.core.arrays import Index, Mask
from microveil.core.errors import DataError, DisclosureWarning
from microveil.core.rng import Streams
from microveil.core.table import NOTHING_BESIDE, Beside, LabelColumns, Matrix
from microveil.core.threads import single_threaded_blas
from microveil.engines import Outcome, Progress, run
from microveil.engines.release_check import evidence
from microveil.intake.declared import ComputedColumn
from microveil.intake.derivable import check_labels_not_derivable, check_not_derivable
from microveil.intake.from_values import ValueRule, cells_of
from microveil.intake.intake import Intake, Rules, rules_among, take_in, with_values
from microveil.intake.roles import Roles, named
from microveil.intake.sources import FrameSource, check_count, share_unique
from microveil.intake.treatment import Treatment
from microveil.intake.unit_rules import PLACE, SIZE, UnitRule, Units
from microveil.io.frames.base import NumpyFrame
from microveil.io.frames.dataframes import Frame, fingerprint, open_frame
from microveil.io.frames.reorder import (
    IndexAndNotes,
    renumbered,
    set_apart,
    with_columns_from,
    with_rows,
    without_columns,
)
from microveil.io.frames.validation import check_unit
from microveil.io.tables import read_table
from microveil.methods import Plan, method_named
from microveil.options import DEFAULT_METHOD, Protect, declared_by
from microveil.perturb import LabelPerturbation
from microveil.protection import building, checks
from microveil.protection.columns import (
    about_missing_numbers,
    columns_in_clear,
    computed_columns,
    numeric_columns,
    roles_of,
    treatment_of,
)
from microveil.protection.privately import check_only_private, protect_privately
from microveil.protection.trading import Trade
from microveil.protection.unit_rows import Resized, place_by_label, with_common_sizes, with_gaps_filled
from microveil.protection.units import RowsInUnits, can_be_unit, protect_by_unit
from microveil.protection.weights import calibrated, without_weight
from microveil.release.diagnostics import EngineRun
from microveil.release.registry import Registry
from microveil.release.release import Release
from microveil.release.returned import giveaways, returned_records
from microveil.release.secret import secret_key
from microveil.report.reporter import Reporter

DRAWS, FEW_DRAWS, SMALL_FILE = 20, 3, 200
"""Draws of a release at most, if records come back in them: in files of so many rows, and in larger ones."""

READING = "reading columns"
"""The first step, in which everything is checked."""


@declared_by(Protect)
def protect(data: Any, method: str = DEFAULT_METHOD, *, progress: Progress | None = None, **options: Any) -> Release:
    """Protect the confidential columns of a table.

    Args:
        data: a numpy array, a pandas or polars DataFrame or a pyarrow Table; it is not changed.
        method: the id of a method; `methods()` lists them.
        progress: called with the name of the step and the share done.
        **options: the options below, and the parameters of the method; `microveil methods ID` lists those. Columns are
            given by name, those of arrays by number.
    """
    if options.get("drop_identifiers"):
        warnings.warn(checks.NO_EFFECT, DeprecationWarning, stacklevel=2)
    return protect_table(data, *Protect.split({**options, "method": method}), progress)


def protect_table(data: Any, options: Protect, params: Mapping[str, Any], progress: Progress | None = None) -> Release:
    """Protect a table as the options say, with the parameters of the method."""
    whole = open_frame(data)
    if options.epsilon is not None:
        return protect_privately(whole, options, params, progress or (lambda *_: None))
    check_only_private(options)
    registry = Registry.of_table(options.registry, options.method, whole)
    release, remarks = _protected(whole, options, params, progress or (lambda *_: None))
    if options.drop_identifiers:
        remarks.append(checks.NO_EFFECT)
    if release.in_clear:
        warnings.warn(f"released as they are: {', '.join(release.in_clear)}", DisclosureWarning, stacklevel=3)
    return registry.added(replace(release, warnings=[*remarks, *release.warnings]))


def _protected(whole: Frame, options: Protect, params: Mapping[str, Any], tell: Progress) -> tuple[Release, list[str]]:
    """The release of a table, and remarks on columns that were not perturbed."""
    seed = Streams.from_seed(checks.checked_seed(options.seed)).seed
    checks.check_engine_in_memory(options.engine)
    plan = method_named(options.method).plan(checks.with_groups_read(params))
    if isinstance(plan.perturb, LabelPerturbation):
        options = checks.label_options(plan.method, plan.perturb, options)
    key = secret_key(options.secret)
    options, calibrate = without_weight(whole, options, plan)
    treatment = treatment_of(whole, options, plan)
    if whole.names:
        check_count(whole.count)
    gone = [*treatment.dropped, *treatment.left_out]
    released, rest = set_apart(
        without_columns(whole.source, gone), treatment.index, keep_notes=options.keep_notes, names=whole.names
    )
    frame = _opened(whole, released, treatment)
    computed = computed_columns(frame, options, treatment, plan)
    place = next((rule.column for rule in computed if isinstance(rule, UnitRule) and rule.part == PLACE), None)
    own_place = None if place else place_by_label(frame, options, treatment, plan)
    if own_place is not None:
        place, released = own_place.column, own_place.table
        computed.append(UnitRule(place, own_place.unit, PLACE))
    if computed:
        treatment = treatment.without_roles([rule.column for rule in computed])
        left = [place, *(whole.names if isinstance(whole, NumpyFrame) else ())]  # arrays keep the places of columns
        frame = _opened(whole, without_columns(released, [n for n in treatment.computed if n not in left]), treatment)
    rules = rules_among(options.rules, frame.names) if gone or computed else options.rules
    roles = roles_of(numeric_columns(frame), options, plan, treatment)
    if options.confidential is None:
        shown = {*roles.shown, *treatment.no_role, *treatment.labels, *named(frame.names, "unit", options.unit)}
        checks.check_hidden_numbers(frame, shown)
    roles = with_values(frame, roles) if options.confidential is None else roles
    clear = columns_in_clear(frame.names, roles, treatment)
    said = [] if plan.labels_only else check_labels_not_derivable(frame, roles.labels, clear)
    said += about_missing_numbers(frame, treatment.renumbered)
    of_rows = [] if plan.labels_only else treatment.units_of(frame, options.unit)
    unit = of_rows[0] if of_rows else None
    one = _OneRelease(plan, whole, options, roles, seed, key, tell, computed)
    resized = Resized(frame.source)
    if unit is not None and (
        options.unit is not None or can_be_unit(frame, unit, roles, arranged=plan.protects_labels)
    ):
        release, resized = one.by_unit(frame, of_rows, place, rules, treatment)
        release = resized.known_to(release, released)
    else:
        if unit is not None and frame.missing(unit):
            said.append(f"column '{unit}' has missing cells: rows are protected one by one, not {unit} by {unit}")
        release = one.of_columns(frame, roles, rules, all_columns=True)
    release = building.with_computed_columns(release, released, one.bands, treatment.times, lambda: one.streams)
    if plan.protects_labels and any(rule.labels for rule in one.bands):
        release = one.without_odd_bands(release, _opened(whole, released, treatment), unit)
    others = [rule for rule in computed if not isinstance(rule, ValueRule)]
    release = building.with_computed_columns(release, released, others, treatment.times, lambda: one.streams)
    if own_place is not None:
        release = own_place.left_out(release)
    if calibrate is not None:
        writer = release.writer
        release = calibrated(release, whole, calibrate, writer.codes if isinstance(writer, Reporter) else {})
    release = _arranged(release, one, treatment, rest)
    tell("done", 1.0)
    true = {rule.column for rule in computed if isinstance(rule, UnitRule) and rule.part in (PLACE, SIZE)}
    clear = tuple(name for name in whole.names if name in {*clear, *true})
    unique = share_unique(open_frame(release.data) if resized.changed else whole, clear)
    release = replace(
        release,
        kinds={name: found.kind for name, found in treatment.kinds.items()},
        in_clear=clear,
        unique_in_clear=unique,
        warnings=list(dict.fromkeys([*release.warnings, *said])),
    )
    return release, treatment.remarks(roles.labels, clear, unique)


@dataclass(frozen=True, repr=False)
class _OneRelease:
    """What the tables that one release is made of have in common; `roles` are those of all its columns."""

    plan: Plan
    original: Frame
    options: Protect
    roles: Roles
    seed: int
    secret: bytes
    tell: Progress
    computed: Sequence[ComputedColumn]

    @property
    def bands(self) -> list[ValueRule]:
        """How columns follow from others by value."""
        return [rule for rule in self.computed if isinstance(rule, ValueRule)]

    @cached_property
    def streams(self) -> Streams:
        """The random numbers for what is done with all columns of a table."""
        return Streams(self.seed, int(fingerprint(self.original), 16), self.secret)

    def own_gaps(self) -> dict[str, Mask]:
        """The rows in which columns that are computed anew have missing cells."""
        found = [
            rule for rule in self.computed if not isinstance(rule, UnitRule) and self.original.missing(rule.column)
        ]
        return {rule.column: np.isnan(cells_of(self.original, rule.column, labels=rule.labels)) for rule in found}

    def of_columns(
        self, frame: Frame, roles: Roles, rules: Rules, beside: Beside = NOTHING_BESIDE, *, all_columns: bool = False
    ) -> Release:
        """The release of some columns, or of all.

        Args:
            frame: the table.
            roles: those of its columns.
            rules: the rules of its columns.
            beside: what the columns are arranged beside, rows as in the table.
            all_columns: whether it has all of them: those that follow from others in clear are looked for, and rows
                trade their gaps.
        """
        plan = self.plan
        with single_threaded_blas():
            self.tell(READING, 0.0)
            masker = plan.perturb if isinstance(plan.perturb, LabelPerturbation) else None
            pull_in = plan.maps_values and not plan.exact
            source = FrameSource(frame, pull_in, with_levels=masker is not None and masker.needs_levels)
            intake = take_in(source, roles, rules, label_rules=masker is None or masker.follows_rules)
            said = check_not_derivable(source, roles.confidential, rules) if all_columns else []
            bands = tuple(rule for rule in self.bands if rule.source in intake.table.confidential_names)
            table = replace(intake.table, beside=beside, bands=bands, rows_trade=all_columns)
            intake = replace(intake, table=table)
            checks.check_fits(plan, intake, has_others=len(roles.protected) < len(self.roles.protected))
            intake = _with_other(plan, intake)
            streams = Streams(self.seed, intake.profile.fingerprint, self.secret)
            outcome = drawn(plan, frame.names, intake, streams, self.tell)
            intake, outcome = with_all_labels(intake, outcome, roles.labels, streams)
            settings = building.settings_of(plan, self.roles, self.options)
            done = EngineRun(plan, frame, roles, intake, outcome)
            gaps = {**intake.gaps, **self.own_gaps()} if all_columns and plan.arranges else {}
            trade = Trade.of_rows(intake.table, streams.stream("places")) if gaps else None
            release = _release(done, self.original, settings, self.seed, None if trade is None else trade.places)
            said += trade.remarks(gaps) if trade else []
        return replace(release, warnings=[*release.warnings, *said])

    def by_unit(
        self, frame: Frame, units: Sequence[str], place: str | None, rules: Rules, treatment: Treatment
    ) -> tuple[Release, Resized]:
        """The release of rows that belong to units, and what was done to the units before.

        Args:
            frame: the table.
            units: the columns that name the units, the smallest ones first.
            place: the column that counts the rows of a unit, if there is one.
            rules: the rules of the columns.
            treatment: what becomes of columns without a role.
        """
        unit, roles, resized = units[0], self.roles, Resized(frame.source)
        apart = [*treatment.renumbered, *([] if place is None else [place])]
        said = check_not_derivable(FrameSource(frame), roles.confidential, rules, apart)
        filled = with_gaps_filled(frame, unit, roles)
        unmoved = frame = _opened(self.original, filled.table, treatment)
        if unit in treatment.renumbered and not (roles.shown or treatment.kept or rules in (None, "none")):
            resized = with_common_sizes(frame, unit, place, roles.labels)
            frame = _opened(self.original, resized.table, treatment)
        rows = RowsInUnits(
            frame,
            unit,
            Units.of(frame, unit),
            roles,
            place,
            rules,
            self.plan.protects_labels,
            self.streams,
            unmoved,
            larger=units[1:],
            filled=resized.rows_of(filled.gaps),
            trades=self.plan.arranges,
            computed_gaps=resized.rows_of(self.own_gaps()),
        )
        release = protect_by_unit(self.of_columns, rows)
        if filled.gaps:
            release = replace(release, writer=release.writer.compared_with(filled.before))
        return replace(release, warnings=[*release.warnings, *said]), resized

    def without_odd_bands(self, release: Release, before: Frame, unit: str | None) -> Release:
        """The release with labels that agree with those that were computed from numbers: no child in a ward of adults.

        Args:
            release: what was released.
            before: the original table.
            unit: the column of the units, whose labels stay.
        """
        units = None if unit is None else Units.of(before, unit)
        of_units = [name for name in release.labels if units is not None and units.is_constant(before, name)]
        columns = (
            [*of_units, *(rule.column for rule in self.bands if rule.labels)],
            [name for name in release.labels if name not in of_units],
        )
        data = building.with_pairs_parted(release.data, before, columns, self.options.rules, self.streams)
        return replace(release, data=data)


def _opened(whole: Frame, table: Any, treatment: Treatment) -> Frame:
    """A table with its dates as numbers; `whole` is the one that it came from, and may be it."""
    frame = whole if table is whole.source else open_frame(table)
    return frame.with_times([name for name in treatment.times if name in frame.names])


def _arranged(release: Release, one: _OneRelease, treatment: Treatment, rest: IndexAndNotes) -> Release:
    """The release with its index and notes, units numbered anew, its rows in a random order if asked for.

    Args:
        release: the release of the columns.
        one: what it was made of.
        treatment: what becomes of columns without a role.
        rest: its index and notes, as far as they are released.
    """
    remarks, settings, arranged = list(release.warnings), dict(release.settings), release.data
    order, ids = release.order, open_frame(arranged)
    if treatment.dropped:
        settings["drop"] = list(treatment.dropped)
        remarks.append(f"dropped, on request: {', '.join(treatment.dropped)}")
    for name in treatment.renumbered:
        arranged = renumbered(arranged, name, ids.labels(name), one.streams.stream(f"numbers of {name}"))
    if one.options.shuffle_rows:
        settings["shuffle_rows"] = True
        shuffled = one.streams.stream("order of rows").generator().permutation(release.rows)
        arranged, order = with_rows(arranged, shuffled), shuffled if order is None else order[shuffled]
        release = replace(release, places={name: rows[shuffled] for name, rows in release.places.items()})
        remarks.append("the rows are in a random order, on request")
    arranged = rest.put_back(arranged, order)
    return replace(release, data=arranged, warnings=[*remarks, *rest.warnings], settings=settings, order=order)


def most_draws(plan: Plan, count: int) -> int:
    """How often a table of so many rows is drawn at most, as long as somebody's record is in it."""
    if plan.given_draws or not plan.perturb.random:  # another draw would give the same release
        return 1
    return DRAWS if count <= SMALL_FILE else FEW_DRAWS


def drawn(plan: Plan, names: Sequence[str], intake: Intake, streams: Streams, tell: Progress) -> Outcome:
    """What the engine makes of the table, drawn again as long as somebody's record is in it.

    `names` are those of all columns.
    """
    sensitive, original = checks.sensitive_columns(plan, names, intake), intake.table.confidential.columns
    fewest, best = np.inf, None
    for attempt in range(most_draws(plan, intake.table.count)):
        again = replace(streams, attempt=attempt)
        outcome = run(plan, intake.table, intake.profile, again, sensitive=sensitive, known=intake.known, progress=tell)
        changed = outcome.on_their_own
        back = returned_records([original[j] for j in changed], [outcome.columns[j] for j in changed])
        fewest, best = (back, outcome) if best is None or back < fewest else (fewest, best)
        if not back:
            break
    return best or outcome


def with_all_labels(
    intake: Intake, outcome: Outcome, names: tuple[str, ...], streams: Streams
) -> tuple[Intake, Outcome]:
    """Both with all columns of labels (`names`), those that follow from others included, and no pair that cannot be."""
    generator, flags, table = streams.stream("pairs of labels").generator(), [], intake.table
    for name in intake.flags:
        place = table.confidential_names.index(name)
        levels = np.unique(table.confidential.columns[place])
        at = np.searchsorted(levels, outcome.columns[place]).clip(max=levels.size - 1)
        flags.append(at.astype(np.intp))
    labels = intake.labels.restored([*flags, *outcome.labels], generator)[len(flags) :]
    table = replace(table, labels=LabelColumns(names, intake.labels.columns[len(flags) :]))
    return replace(intake, table=table), replace(outcome, labels=labels)


def _with_other(plan: Plan, intake: Intake) -> Intake:
    """The table with another masker's output, where the method starts from one."""
    if not plan.perturb.from_other:
        return intake
    given, table = plan.other, intake.table
    frame = open_frame(read_table(Path(given))[0] if isinstance(given, str) else given)
    names = table.confidential_names
    numbered = isinstance(given, np.ndarray) and len(frame.names) == len(names)
    missing = [] if numbered else [name for name in names if name not in frame.names]
    if frame.count != table.count or missing:
        lacks = f"no column '{missing[0]}'" if missing else f"{frame.count} rows, the data {table.count}"
        raise DataError(f"other: has {lacks}", "give every protected column, and a row for each record in their order")
    columns = [np.array(frame.numbers(name)) for name in (frame.names if numbered else names)]
    for name, column in zip(names, columns, strict=True):
        hole = intake.holes[name]
        if hole is not None:
            column[hole] = np.nan
        there = column if hole is None else column[~hole]
        if not np.isfinite(there).all():
            raise DataError(f"other: column '{name}' has missing or infinite cells", "fill them first")
        check_unit("other", name, float(there.min()), float(there.max()))
    return replace(intake, table=replace(table, other=Matrix(columns)))


def _release(
    done: EngineRun, original: Frame, settings: dict[str, Any], seed: int, places: Index | None = None
) -> Release:
    """Measure what came out, and put it into a frame of the kind that came in.

    Args:
        done: what the engine made of the table.
        original: the table as it came.
        settings: what a recipe holds.
        seed: the master seed.
        places: the row that each gets its protected cells from, if rows trade them.
    """
    plan, frame, intake, outcome = done.plan, done.frame, done.intake, done.outcome
    table = intake.table
    names = table.confidential_names
    stored = [frame.as_stored(name, column) for name, column in zip(names, outcome.columns, strict=True)]
    rounded = any(new is not old for new, old in zip(stored, outcome.columns, strict=True))
    for name, column in zip(names, stored if rounded else (), strict=rounded):
        if np.isinf(column).any():
            raise DataError(f"column '{name}' does not fit its type after protection", "convert it to float64 first")
    changed = {name: None if hole is None else ~hole for name, hole in intake.holes.items()}
    labels = dict(zip(table.labels.names, outcome.labels, strict=True))
    data = frame.rebuilt(dict(zip(names, stored, strict=True)), changed, labels, outcome.levels)
    outcome = replace(outcome, columns=stored)
    if places is not None:  # with what is in the gaps, which is no value
        data = with_columns_from(data, dict.fromkeys(done.roles.protected, (data, places)))
        outcome = outcome.traded(places, table.values.put_aside)
    stored, done = outcome.columns, replace(done, outcome=outcome)
    proof = evidence(table, stored, intake.present, intake.profile.moments)
    release = building.build_release(
        done, proof, data, settings=settings, seed=seed, original=original, rounded=rounded
    )
    own = table.confidential.columns
    before, after = ([columns[j] for j in outcome.on_their_own] for columns in (own, stored))
    seen = giveaways(before, after, exact=plan.exact and not plan.rounded)
    return replace(
        release,
        places={} if places is None else dict.fromkeys(done.roles.protected, places),
        warnings=[*release.warnings, *building.about_decimals(frame, names, open_frame(data)), *seen],
    )
