"""Rows of units before anything is protected: their places in the unit, and sizes of units that enough others have.

The ids of units are numbered anew, but how many rows a unit has is for everybody to see: the one patient of eight
visits is found by it. So each size is one that enough units have: the last rows of others go to another unit.

Where a table has a column of places (the number of the person) labels are arranged beside it, and never meet a place
where they never met one. Where it has none, a label that every unit has once (a household has one head) gives the
places, and they are left out at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from microveil.core.arrays import Index, Mask
from microveil.core.fewest_records import FEWEST_RECORDS
from microveil.intake.from_values import MADE_UP, cells_of
from microveil.intake.roles import Roles
from microveil.intake.treatment import Treatment
from microveil.intake.unit_rules import Units, dates_in_order, once_in_each
from microveil.io.frames.dataframes import Frame, open_frame
from microveil.io.frames.reorder import with_column, with_columns_from, with_rows, without_columns
from microveil.methods import Plan
from microveil.options import Protect
from microveil.release.release import Release

MOST_TO_MOVE = 0.05
"""Share of the rows up to which they may change their unit; what needs most of them is left then, and said."""


class Resized(NamedTuple):
    """A table with units of common sizes, how many rows changed theirs, and where each row was, if some moved."""

    table: Any
    changed: int = 0
    order: Index | None = None

    def known_to(self, release: Release, original: Any) -> Release:
        """A release of the table that knows what was done, and is compared with the `original` one."""
        if not self.changed:
            return release
        said = (
            f"{self.changed} rows went to another unit, as too few units had as many rows as theirs: `assess` of the "
            "two files alone cannot know which, and its figures of linkage are not these"
        )
        writer = release.writer.compared_with(original)
        were = np.arange(release.rows) if self.order is None else self.order
        places = {name: were[rows] for name, rows in release.places.items()}
        return replace(release, order=self.order, places=places, writer=writer, warnings=[*release.warnings, said])

    def rows_of(self, masks: Mapping[str, Mask]) -> Mapping[str, Mask]:
        """Which rows it is, where they were picked from the table before."""
        return masks if self.order is None else {name: rows[self.order] for name, rows in masks.items()}


class FilledUnits(NamedTuple):
    """A table with some gaps filled, what it was `before`, and the rows in which columns had them."""

    table: Any
    before: Any
    gaps: Mapping[str, Mask]


def with_gaps_filled(frame: Frame, unit: str, roles: Roles) -> FilledUnits:
    """The table with what is a unit's own in all its rows, although it is missing in some.

    A column is the units' own if it never differs within one, where it is there, and few of its gaps are beside a
    value: what only one row of each unit has is not.
    """
    units, every = Units.of(frame, unit), np.arange(frame.count)
    taken, gaps = {}, {}
    for name in roles.protected if units.first.size < frame.count else ():
        if not frame.missing(name) or units.is_constant(frame, name):
            continue
        missing = np.isnan(cells_of(frame, name, labels=name in roles.labels))
        known = np.flatnonzero(~missing)
        giver = np.full(units.first.size, -1)
        giver[units.of_rows[known[::-1]]] = known[::-1]
        source = np.where(missing & (giver[units.of_rows] >= 0), giver[units.of_rows], every)
        labels = frame.labels(name)[source]
        several = np.count_nonzero(np.bincount(units.of_rows[known]) > 1)
        own = np.count_nonzero(source != every) <= MADE_UP * frame.count and several >= FEWEST_RECORDS
        if own and (labels == labels[units.first][units.of_rows]).all():
            taken[name], gaps[name] = (frame.source, source), source != every
    return FilledUnits(with_columns_from(frame.source, taken) if taken else frame.source, frame.source, gaps)


def with_common_sizes(frame: Frame, unit: str, place: str | None, labels: Sequence[str]) -> Resized:
    """The table with every unit of a size that enough others have.

    A row that moves takes over everything that is the same in all rows of its new unit, and the place in it that its
    date gives it, or the next. Where the rows of a unit stand together it stands with them: among those of its old unit
    it would tell how many they were.

    Args:
        frame: the table.
        unit: the column of the units.
        place: the column that counts the rows of a unit, if there is one.
        labels: columns of labels; those of the unit should be the same for a row in its new one.
    """
    units = Units.of(frame, unit)
    in_file = np.argsort(units.first)
    of_units = [frame.labels(name)[units.first[in_file]] for name in labels if units.is_constant(frame, name)]
    most = int(MOST_TO_MOVE * frame.count)
    moves = [(in_file[giver], in_file[taker]) for giver, taker in _moves(units.sizes[in_file], of_units, most)]
    if not moves:
        return Resized(frame.source)
    of_file = np.arange(frame.count)
    counted = of_file.astype(float) if place is None else frame.numbers(place)
    by_place, source, sizes = units.by(counted), of_file.copy(), units.sizes.copy()
    for giver, taker in moves:
        sizes[giver] -= 1
        source[by_place[units.starts[giver] + sizes[giver]]] = units.first[taker]
    new = Units(units.of_rows[source], units.first)
    date = dates_in_order(frame, units, place, [name for name in frame.times if not frame.missing(name)])
    moved = np.where(source != of_file, frame.count, 0)  # behind the rows of the unit, unless a date says otherwise
    day = np.zeros(frame.count) if date is None else frame.numbers(date)
    places = new.places(np.lexsort((counted + moved, day, new.of_rows)))
    own = [name for name in frame.names if name != place and units.is_constant(frame, name)]
    taken = dict.fromkeys(own, (frame.source, source))
    if place is not None:  # the cells come from a unit that has every place there is
        of_largest = by_place[units.starts[np.argmax(units.sizes)] :]
        taken[place] = (frame.source, of_largest[places.astype(np.intp)])
    table, order = with_columns_from(frame.source, taken), None
    if np.count_nonzero(np.diff(units.of_rows)) == units.first.size - 1:
        in_order = np.array_equal(units.by(of_file.astype(float)), by_place)
        order = np.lexsort((places if in_order else of_file, units.first[new.of_rows]))
        table = with_rows(table, order)
    return Resized(table, len(moves), order)


def _moves(sizes: Index, labels: Sequence[Index], most: int) -> list[tuple[int, int]]:
    """At most so many pairs of units, one that gives its last row and one that takes it, so that sizes are common.

    `sizes` and `labels` are those of the units as they stand in the file. Units of a rare size give what they have
    beyond the next common one, or take what they lack, those first that need the fewest rows. The others are units of a
    common size, to which one more (or less) is common, too: those that have most labels in common with it, so that no
    birth becomes a man's, and of these the nearest, so that few rows change places.
    """
    counts = np.bincount(sizes)
    common = np.flatnonzero(counts >= FEWEST_RECORDS)
    rare = np.flatnonzero(counts[sizes] < FEWEST_RECORDS)
    moves: list[tuple[int, int]] = []
    if not rare.size or not common.size:
        return moves
    spare = np.where(counts >= FEWEST_RECORDS, counts - FEWEST_RECORDS, 0)
    below = np.searchsorted(common, sizes[rare]) - 1
    change = np.where(below < 0, common[0], common[below]) - sizes[rare]
    free = np.ones(sizes.size, dtype=bool)
    for one, rows in sorted(zip(rare.tolist(), change.tolist(), strict=True), key=lambda pair: abs(pair[1])):
        if len(moves) + abs(rows) > most:
            break
        taken: list[int] = []
        while len(taken) < abs(rows):
            others = np.flatnonzero(free & (spare[sizes] > 0) & np.isin(sizes - np.sign(rows), common))
            if not others.size:
                break
            alike = np.sum([own[others] == own[one] for own in labels], axis=0) if labels else np.zeros(others.size)
            taken.append(int(others[np.lexsort((np.abs(others - one), -alike))[0]]))
            free[taken[-1]], spare[sizes[taken[-1]]] = False, spare[sizes[taken[-1]]] - 1
        if len(taken) == abs(rows):
            moves += [(other, one) if rows > 0 else (one, other) for other in taken]
        else:
            np.add.at(spare, sizes[taken], 1)
    return moves


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
    unit = next(iter(treatment.units_of(frame, options.unit)), None)
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
