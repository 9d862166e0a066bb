"""From a source of columns, with roles, to the table the engines work on, with everything checked on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from microveil.core.arrays import Index, Mask
from microveil.core.errors import DataError, ParameterError
from microveil.core.moments import Profile
from microveil.core.table import Microdata
from microveil.intake.declared import flags_among, rules_of_labels
from microveil.intake.model_matrix import missing_cells
from microveil.intake.roles import Roles
from microveil.intake.sources import FrameSource, IntakeSource, ReadTable, has_missing
from microveil.io.dictionary import Dictionary, codes_of, declared_column_rules, find_codes, read_dictionary
from microveil.io.frames.dataframes import Frame
from microveil.io.frames.validation import SMALLEST_TABLE, check_values
from microveil.rules.column_rules import ColumnRules
from microveil.rules.domain import learnt_domain
from microveil.rules.label_rules import LabelRules
from microveil.rules.orders import find_orders, of_one_measure
from microveil.rules.ratios import find_ratios

Rules = str | Path | Mapping[str, Any] | None

Codes = dict[str, tuple[float, ...]]
"""The special codes of columns that have any."""


@dataclass(frozen=True, repr=False)
class Intake:
    """The table, its profile, and what was set apart cell by cell."""

    table: Microdata
    profile: Profile
    codes: Codes
    public_codes: Codes
    holes: dict[str, Mask | None]
    known: ColumnRules
    labels: LabelRules = field(default_factory=LabelRules)
    """Rules between columns of labels, after those of `flags`; the table has only those that follow from no other."""

    flags: tuple[str, ...] = ()
    """Confidential columns of two numbers, which labels may follow from."""

    rare: Mapping[str, int] = field(default_factory=dict)
    """How many labels, combinations of labels or strata were pooled, because few records have them, by role; and how
    many records were pulled in (`far`) because a regression on public columns would follow them."""

    @property
    def gaps(self) -> dict[str, Mask]:
        """The rows in which confidential columns of numbers have none, for those that have such."""
        return {name: hole for name, hole in self.holes.items() if hole is not None}

    @cached_property
    def present(self) -> Mask | None:
        """Where confidential cells have a value, rows x columns; None when all have."""
        if not self.gaps:
            return None
        full = np.zeros(self.table.count, dtype=bool)
        return ~np.column_stack([full if hole is None else hole for hole in self.holes.values()])


def with_values(frame: Frame, roles: Roles) -> Roles:
    """The roles without confidential columns that nobody named and that have not a single value to protect."""
    full = tuple(name for name in roles.confidential if frame.missing(name) < frame.count)
    return replace(roles, confidential=full or roles.confidential)


def take_in(
    source: IntakeSource,
    roles: Roles,
    rules: Rules,
    progress: Callable[[str, float], None] = lambda *_: None,
    *,
    label_rules: bool = True,
) -> Intake:
    """Read the columns, check them, find or read the special codes and the rules, and build the table.

    Args:
        source: the columns.
        roles: what each is for.
        rules: "infer", None, or a dictionary of the columns (a dict or a file).
        progress: called with the name of the step and the share of the work that is done.
        label_rules: whether rules between labels are looked for, which a method may be free of.
    """
    read = source.read(roles)
    progress("measuring", 0.15)
    table, profile = read.table, read.table.profile()
    confidential = {number: ("confidential", table.names[number]) for number in range(table.public, len(table.names))}
    _check_columns(table, profile, {**read.plain, **confidential}, gaps=source.takes_gaps)
    dictionary, inferred = dictionary_for(rules, source.names)
    source.check_dictionary(dictionary)
    for role, name in (*read.plain.values(), *read.crossed):
        if dictionary.codes(name):
            raise ParameterError(
                f"rules: {role} column '{name}' has special codes", f"leave it out of {role}, or recode them first"
            )
    public_codes = _public_codes(read, profile) if inferred else {}
    codes: Codes = {}
    for number, (_, name) in confidential.items():
        found = _codes_of(table, profile, number) if inferred else dictionary.codes(name)
        if found:
            codes[name] = found
    if inferred and isinstance(source, FrameSource):
        source.opened.found_codes.update({name: codes.get(name, ()) for _, name in confidential.values()})
    if codes and not source.takes_gaps:
        raise _has_codes(codes)
    if codes:  # which count as missing
        numbers = {number: codes[name] for number, (_, name) in confidential.items() if name in codes}
        table = replace(table, values=table.values.blanked(numbers))
        profile = table.profile()
    missing = set() if table.values.distant else set(profile.missing())  # far rows have their gaps with them
    holes = {
        name: np.isnan(table.values.columns[number]) if number in missing else None
        for number, (_, name) in confidential.items()
    }
    _check_answers(holes, table.strata)
    known = (
        _found_rules(table, profile)
        if inferred and source.in_memory
        else declared_column_rules(dictionary, table.confidential_names, table.confidential)
    )
    labels, flags = LabelRules(table.labels.codes), []
    if label_rules and labels.columns:
        columns = dict(zip(table.confidential_names, table.confidential.columns, strict=True))
        flags = flags_among(columns.__getitem__, roles.confidential)
        names = [*flags, *table.labels.names]
        if isinstance(source, FrameSource):
            labels = rules_of_labels(source.opened, names, dictionary, inferred=inferred, stay=range(len(flags)))
        else:
            codes_of_flags = [np.unique(columns[name], return_inverse=True)[1].ravel() for name in flags]
            every, stay = (*codes_of_flags, *labels.columns), range(len(flags))
            labels = LabelRules.among(every, stay) if inferred else LabelRules(every, stay=stay)
        free = [j - len(flags) for j in labels.independent if j >= len(flags)]
        table = replace(table, labels=table.labels.select(free))
    return Intake(table, profile, codes, public_codes, holes, known, labels, tuple(flags), read.rare)


def _check_columns(table: Microdata, profile: Profile, columns: Mapping[int, tuple[str, str]], *, gaps: bool) -> None:
    """Refuse columns of a `table` with cells that a method cannot use; its `profile` has their extremes.

    `columns` has the role and name of each, by number; `gaps` tells whether cells may be missing.
    """
    missing = set(profile.missing())
    for number, (role, name) in columns.items():
        low, high = profile.extremes(number)
        check_values(role, name, table.values, number, low, high)
        if number in missing and not gaps:
            raise has_missing(name)
        if number in missing and role != "confidential":
            raise missing_cells(role, name)
        if role != "confidential" and low == high:  # a source in memory has left these out
            raise DataError(f"{role}: column '{name}' is constant", f"leave it out of {role}")


def _found_rules(table: Microdata, profile: Profile) -> ColumnRules:
    """Rules and domains that the data look like."""
    columns = table.confidential.columns
    learnt = [learnt_domain(column, *profile.extremes(table.public + j)) for j, column in enumerate(columns)]
    values = table.confidential
    orders = of_one_measure(values, find_orders(values), table.confidential_names)
    return ColumnRules(found_ratios=find_ratios(values), learnt=learnt, found_orders=orders)


def _check_answers(holes: Mapping[str, Mask | None], strata: Index | None) -> None:
    """One or two answers would be released as they are: their mean and variance are kept."""
    for name, hole in holes.items():
        if hole is None:
            continue
        present = np.bincount(np.zeros(hole.size, dtype=np.intp) if strata is None else strata, weights=~hole)
        few = int(np.count_nonzero((present > 0) & (present < SMALLEST_TABLE)))
        if few == 0 or strata is None:
            check_answered(name, int(present.sum()))
        if few:
            raise DataError(
                f"strata: column '{name}' has fewer than {SMALLEST_TABLE} values in {few} of the groups",
                "merge groups, or leave the column out of confidential",
            )


def check_answered(name: str, count: int) -> None:
    """Refuse a column that has so few values that these would be released as they are."""
    if count == 0:
        raise DataError(f"column '{name}' holds nothing but special codes", "leave it out, or use rules=None")
    if count < SMALLEST_TABLE:
        raise DataError(f"column '{name}' has fewer than {SMALLEST_TABLE} values", "leave it out of confidential")


def dictionary_for(rules: Rules, names: Sequence[str]) -> tuple[Dictionary, bool]:
    """The dictionary of these columns, and whether codes and rules are to be found in the data instead."""
    if rules is None or rules == "none":
        return Dictionary(), False
    if rules == "infer":
        return Dictionary(), True
    if not isinstance(rules, str | Path | Mapping):
        raise ParameterError(f"rules: cannot be {type(rules).__name__}", "use 'infer', None, a dict or a file")
    dictionary = read_dictionary(rules)
    dictionary.check_names(names)
    return dictionary, False


def rules_among(rules: Rules, names: Sequence[str]) -> Rules:
    """The same rules for a table that has these columns only."""
    if not isinstance(rules, str | Path | Mapping) or rules in ("infer", "none"):
        return rules
    return read_dictionary(rules).among(names).model_dump(exclude_unset=True)


def _codes_of(table: Microdata, profile: Profile, number: int) -> tuple[float, ...]:
    return find_codes(table.values, number, *profile.extremes(number))


def _public_codes(read: ReadTable, profile: Profile) -> Codes:
    """Special codes of the columns that are regressed on: they stay values, and a warning names them."""
    codes = {name: _codes_of(read.table, profile, number) for number, (_, name) in read.plain.items()}
    codes |= {name: codes_of(values) for (_, name), values in read.crossed.items()}
    return {name: found for name, found in codes.items() if found}


def _has_codes(codes: Codes) -> DataError:
    """The error for codes, which count as missing, in rows that are not in memory."""
    name, found = next(iter(codes.items()))
    return DataError(
        f"column '{name}': {', '.join(f'{code:g}' for code in found)} looks like a code for missing, and rows that are "
        "not in memory must be whole",
        "use engine='memory', or rules='none' if it is a value",
    )
