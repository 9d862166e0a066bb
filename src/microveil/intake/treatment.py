"""What becomes of every column: protected, numbered anew, left out, or released as it is because somebody said so."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from microveil.core.errors import DataError, ParameterError
from microveil.intake.intake import Rules, dictionary_for
from microveil.intake.kinds import LABELS, LEFT_OUT, NUMBERS, TIMES, ColumnKind, declared_kinds, find_kinds
from microveil.intake.roles import Choice, Roles, named
from microveil.intake.unit_rules import smallest_first
from microveil.io.frames.base import NumpyFrame
from microveil.io.frames.dataframes import Frame
from microveil.methods import Plan

REST = "rest"
"""As `keep`: all columns that have no other role."""


@dataclass(frozen=True)
class Treatment:
    """Columns by what happens to them, in addition to those that have a role."""

    kinds: Mapping[str, ColumnKind] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    """Left out on request."""

    left_out: tuple[str, ...] = ()
    """Left out by default: identifiers, free text."""

    renumbered: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    """Released as they are, on request."""

    computed: tuple[str, ...] = ()
    """Computed anew from protected columns, or from the units of the rows."""

    named: tuple[str, ...] = ()
    """Columns that the caller gave a role other than confidential: public, strata, weight, kept."""

    index: tuple[str, ...] = ()
    """Levels of a pandas index that are kept."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Columns that can be protected as labels."""
        gone = {*self.dropped, *self.left_out, *self.renumbered, *self.kept}
        return tuple(name for name, found in self.kinds.items() if found.kind in LABELS and name not in gone)

    @property
    def times(self) -> tuple[str, ...]:
        """Columns of dates and times that are in the release."""
        gone = {*self.dropped, *self.left_out}
        return tuple(name for name, found in self.kinds.items() if found.kind in TIMES and name not in gone)

    @property
    def no_role(self) -> tuple[str, ...]:
        """Columns that are not protected, whatever they hold."""
        return tuple(dict.fromkeys([*self.dropped, *self.left_out, *self.renumbered, *self.kept, *self.computed]))

    def without_roles(self, computed: Sequence[str]) -> Treatment:
        """The same, with some columns that are computed from others, and so neither protected nor in clear."""
        return replace(self, computed=tuple(computed), kept=tuple(n for n in self.kept if n not in computed))

    def remarks(self, labels: Collection[str], in_clear: Sequence[str], unique: float) -> list[str]:
        """Remarks on columns: those in clear first, then those that were not simply perturbed.

        `unique` is the share of rows that no other row is equal to in what is in clear.
        """
        said = [f"released as they are: {', '.join(in_clear)}"] if in_clear else []
        if unique > 0:
            said.append(
                f"{100 * unique:.1f} % of the rows are unique on the columns in clear: whoever knows these finds them"
            )
        said += [
            f"left out of the release: column '{name}' ({self.kinds[name].kind}: {self.kinds[name].reason}); keep "
            "releases it as it is"
            for name in self.left_out
        ]
        said += [
            f"column '{name}' is numbered anew, in a random order: rows that shared a number still do"
            for name in self.renumbered
        ]
        gone = {*self.no_role, *self.named}
        dates = [name for name in self.times if name not in gone]
        return said + [
            f"column '{name}' is protected as {'labels' if name in labels else 'dates'}: {found.reason}; say with "
            "kinds what it is, if not that"
            for name, found in self.kinds.items()
            if found.doubtful and (name in labels or name in dates)
        ]

    def units_of(self, frame: Frame, unit: Choice) -> list[str]:
        """The columns that tell which rows belong together, the smallest units first: patients, then their hospitals.

        The `unit` that was given comes first, whatever the others are.
        """
        given = named(frame.names, "unit", unit)
        if len(given) > 1:
            raise ParameterError("unit: takes one column", "name the column that holds the number of the unit")
        found = [name for name in self.renumbered if self.kinds[name].kind == "unit" and name not in given]
        return [*given, *smallest_first(frame, found)]

    def without_labels(self) -> Treatment:
        """The same for a method that knows no labels: numbers that may be codes are numbers to it."""
        kinds = {
            name: ColumnKind("count", found.reason) if found.kind == "category" and found.doubtful else found
            for name, found in self.kinds.items()
        }
        return replace(self, kinds=kinds)

    def as_labels(self, columns: Sequence[str]) -> Treatment:
        """The same for a method that knows labels only: columns that are named are labels to it, whatever they hold."""
        named = {name: ColumnKind("category", "named") for name in columns if self.kinds[name].kind not in LABELS}
        return replace(self, kinds={**self.kinds, **named})


def treat_columns(
    frame: Frame,
    roles: Collection[str],
    *,
    confidential: Choice = None,
    unit: Choice = None,
    drop: Choice = None,
    keep: Choice = None,
    kinds: Any = None,
    rules: Rules = "infer",
) -> Treatment:
    """What becomes of the columns of a table that have no role.

    `roles` are the names of the columns that have one: public, strata, weight and those of the method. The others are
    the options of `protect`.
    """
    dictionary, _ = dictionary_for(rules, frame.names)
    declared = {name: entry.kind for name, entry in dictionary.columns.items() if entry.kind is not None}
    declared |= declared_kinds(kinds)
    found = find_kinds(frame, declared)
    if isinstance(frame, NumpyFrame):  # an array has no place for columns that are left out: all are protected
        found = {
            name: ColumnKind("count") if of.kind in ("identifier", "unit") and name not in declared else of
            for name, of in found.items()
        }
    dropped = tuple(dict.fromkeys(named(frame.names, "drop", drop)))
    asked, index = _kept(frame, keep)
    units = named(frame.names, "unit", unit)
    protected = named(frame.names, "confidential", confidential)
    by_name = {*roles, *dropped, *asked, *units}
    for name in asked:
        if name in protected:
            raise ParameterError(f"column '{name}' is named twice", "give each column one role, once")
    explicit = {*by_name, *protected}
    left_out = tuple(name for name, of in found.items() if of.kind in LEFT_OUT and name not in explicit)
    shared = [name for name, of in found.items() if of.kind == "unit" and name not in explicit]
    renumbered = tuple(dict.fromkeys([*(name for name in units if name not in asked), *shared]))
    constant = {name for name, of in found.items() if of.kind == "constant"}
    rest = [name for name in frame.names if name not in {*explicit, *left_out, *renumbered, *constant}]
    if confidential is None:  # numbers are protected
        rest = [name for name in rest if found[name].kind not in NUMBERS and not frame.is_numeric(name)]
    kept = asked
    if keeps_rest(keep):
        kept = (*asked, *rest, *left_out, *shared)
        left_out, renumbered = (), tuple(name for name in renumbered if name in units)
    elif confidential is not None:  # the caller has named what is protected, and so what is not; a warning says it
        kept = (*asked, *rest)
    return Treatment(found, dropped, left_out, renumbered, kept, named=tuple(by_name), index=index)


def check_protectable(plan: Plan, roles: Roles, kinds: Mapping[str, ColumnKind]) -> None:
    """Refuse columns that a method cannot protect: nothing is released as it is without a word."""
    unordered = [name for name in roles.labels if kinds[name].kind != "ordered"]
    refused = [
        (
            not plan.protects_labels and roles.labels,
            "cannot protect labels, and {} some",
            "use veil, release them as they are with keep, or leave them out with drop",
        ),
        (
            plan.masks_labels and plan.perturb.needs_order and unordered,
            "exchanges labels of nearly the same rank, and {} no order",
            "say with kinds that they are ordered, use veil, or name them in keep or drop",
        ),
        (
            plan.labels_only and roles.confidential,
            "protects labels, and {} numbers",
            "name the columns to treat with confidential (numbers among them count as labels), release numbers as they "
            "are with keep, or protect them first by another method, such as veil",
        ),
    ]
    for names, problem, hint in refused:
        if names:
            raise DataError(f"{plan.method} {problem.format(_listed(names))}", hint)


def _listed(names: Sequence[str], most: int = 8) -> str:
    """`column 'a' has`, or `columns 'a', 'b' have`."""
    names_shown = ", ".join(f"'{name}'" for name in names[:most]) + (", ..." if len(names) > most else "")
    return f"columns {names_shown} have" if len(names) > 1 else f"column {names_shown} has"


def keeps_rest(keep: Choice) -> bool:
    """Are all columns that have no other role to be released as they are?"""
    return keep == REST or (isinstance(keep, list | tuple) and REST in keep)


def _kept(frame: Frame, keep: Choice) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Columns that are kept, and levels of the index; numbers may be names, and those of an array are places."""
    if keep is None:
        return (), ()
    given = keep if isinstance(keep, list | tuple) else [keep]
    for name in given:
        if not isinstance(name, str | int | np.integer):
            # A Series is the column itself, and its cells must not end up in a message.
            raise ParameterError(f"keep: takes the names of columns, not {type(name).__name__}", "give names")
    names = dict.fromkeys(str(name) for name in given if name != REST or REST in frame.names)
    columns = tuple(name for name in names if name in frame.names)
    return columns, tuple(name for name in names if name not in columns)
