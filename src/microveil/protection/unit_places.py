"""Rows that are counted in their unit from the one with a label that every unit has once: a household has one head.

Where a table has a column of places (the number of the person) labels are arranged beside it, and never meet a place
where they never met one. Where it has none, such a label gives the places, and they are left out at the end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from microveil.intake.roles import named
from microveil.intake.treatment import Treatment
from microveil.intake.unit_rules import Units, once_in_each
from microveil.io.frames.dataframes import Frame, open_frame
from microveil.io.frames.reorder import with_column, without_columns
from microveil.methods import Plan
from microveil.options import Protect
from microveil.release.release import Release


class OwnPlaces(NamedTuple):
    """A column for the places of rows in their unit that the table did not have, and the table with it."""

    column: str
    unit: str
    label: str
    table: Any

    def left_out(self, release: Release) -> Release:
        """A release without the column, which nobody asked for; what it was there for is said."""
        rules = [rule for rule in release.rules if not rule.startswith(f"{self.column} follows")]
        said = f"{self.label}: a label that one row of each {self.unit} has"
        return replace(release, data=without_columns(release.data, [self.column]), rules=[*rules, said])


def place_by_label(frame: Frame, options: Protect, treatment: Treatment, plan: Plan) -> OwnPlaces | None:
    """The places by such a label; None if there is none.

    Args:
        frame: the table.
        options: those of the call.
        treatment: what becomes of its columns.
        plan: the method.
    """
    given = named(dict.fromkeys(frame.names, True), "unit", options.unit)
    unit = next(iter(treatment.units_of(frame, given)), None)
    if unit is None or frame.missing(unit) or options.rules in (None, "none") or not plan.protects_labels:
        return None
    units = Units.of(frame, unit)
    label, first = once_in_each(frame, units, [name for name in treatment.labels if name not in treatment.named])
    if label is None:
        return None
    places = units.places(units.by(np.where(first, -1, np.arange(frame.count)))).astype(np.int64) + 1
    name = f"place in {unit}"
    table = with_column(frame.source, name, places)
    return OwnPlaces(name, unit, label, table) if open_frame(table).names == [*frame.names, name] else None
