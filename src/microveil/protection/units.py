"""Units with several rows: the persons of a household, the months of a firm, the visits of a patient.

A column that is the same in all rows of every unit (the rent of the household) belongs to the unit. Protected row by
row it would get several values, and a mean over them is nearer to the truth than any of them. So there are two tables:
one of the units, with a row for each, and one of the rows, with what differs within units.

The units are protected first, the rows are then arranged beside them: the moments between what is the unit's and what
is the row's (the rent and the wages, the sex of a patient and the diagnoses) are brought back with the released units.
The size of a unit and the place of a row in it stay, and others are arranged beside them, too. A method that does not
arrange values deals its rows out to the units by the pair of combinations, one of each table, that went together most
(the first canonical correlation).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microveil.assessment.pairing import codes_in
from microveil.core.arrays import Array, Index, Mask
from microveil.core.errors import ParameterError
from microveil.core.fewest_records import FEWEST_RECORDS, pulled_in
from microveil.core.linalg import first_canonical_pair
from microveil.core.rng import Streams
from microveil.core.table import Beside, Matrix
from microveil.intake.declared import flags_among
from microveil.intake.intake import Rules, rules_among
from microveil.intake.roles import Roles
from microveil.intake.unit_rules import Units, dates_in_order
from microveil.io.frames.dataframes import Frame, open_frame, table_like
from microveil.io.frames.reorder import with_blanks, with_columns_from, with_rows, without_columns
from microveil.protection.building import with_pairs_parted
from microveil.protection.trading import IN_UNITS, Trade, larger_with_columns, open_cells
from microveil.release.diagnostics import label_dose
from microveil.release.release import Dose, Release
from microveil.report.reporter import Reporter
from microveil.rules.orders import find_orders, of_one_measure

TELLING = 0.1
"""Change of a correlation between the two tables from which on it is pointed out."""

MOST_LEVELS = 20
"""Levels of a label of units that rows are arranged beside: the work for an exchange grows with the square of all."""

CANDIDATES = 4_096
"""Rows that are looked at for an exchange of records."""


@dataclass(frozen=True, repr=False)
class RowsInUnits:
    """The rows of a table, the unit that each belongs to, and what is known of both.

    `place` is the column that counts the rows of a unit, if there is one; `arranged` says whether the method arranges
    values, and `streams` gives the random numbers, which depend on the data.
    """

    frame: Frame
    unit: str
    units: Units
    roles: Roles
    place: str | None
    rules: Rules
    arranged: bool
    streams: Streams
    unmoved: Frame
    """The rows before some went to other units: which labels never meet is seen there."""

    larger: Sequence[str] = ()
    """Columns of larger units, as of the hospitals of patients."""

    filled: Mapping[str, Mask] = field(default_factory=dict)
    """Rows in which columns of units were missing, and are not here."""

    trades: bool = True
    """Do units trade their cells, so that gaps go elsewhere?"""

    computed_gaps: Mapping[str, Mask] = field(default_factory=dict)
    """Rows in which columns that will be computed anew are missing."""

    def in_larger_units(self, table: Any, columns: Sequence[str]) -> RowsInUnits | None:
        """The units as rows of a table of their own, in units that are larger, if these have columns of their own."""
        for name in self.larger:
            if self.frame.missing(name) or not self.units.is_constant(self.frame, name):
                continue
            frame = open_frame(table).with_times([time for time in self.frame.times if time in columns])
            units = Units.of(frame, name)
            others = [other for other in self.larger if other != name]
            roles = self.roles.among(columns)
            found = replace(
                self, frame=frame, unit=name, units=units, roles=roles, place=None, unmoved=frame, larger=others
            )
            if units.first.size < self.units.first.size and found.of_units():
                return found
        return None

    def of_units(self) -> list[str]:
        """The protected columns that are the units'; none if all of these are constant."""
        own = [column for column in self.roles.protected if self.units.is_constant(self.frame, column)]
        return own if any(np.ptp(self.frame.labels(column)) > 0 for column in own) else []


Orders = list[tuple[str, str]]
"""Pairs of columns, one of units and one of rows, the lower one first."""

ProtectColumns = Callable[[Frame, Roles, Rules, Beside], Release]
"""Protects columns of a table: `protect(frame, roles, rules, beside)`."""


def protect_by_unit(protect: ProtectColumns, rows: RowsInUnits) -> Release:
    """Protect the columns of the units once per unit, and the others row by row, beside them; gaps go elsewhere."""
    release = _protected(protect, rows)
    codes = release.writer.codes if isinstance(release.writer, Reporter) else {}
    gaps = {**open_cells(rows.frame, list(release.dose), codes), **rows.filled, **rows.computed_gaps}
    if rows.trades and gaps:
        return _with_gaps_traded(rows, release, gaps)
    return replace(release, data=with_blanks(release.data, rows.filled))


def _with_gaps_traded(rows: RowsInUnits, release: Release, gaps: Mapping[str, Mask]) -> Release:
    """A release with the protected cells of each unit from another, so that `gaps` are no longer where they were."""
    frame, protected = rows.frame, rows.roles.protected
    larger = larger_with_columns(frame, rows.units, rows.larger, protected)
    trade = Trade.of_units(frame, rows.units, rows.place, [*larger, *rows.roles.shown], rows.streams.stream("places"))
    places = trade.places
    data = with_columns_from(release.data, dict.fromkeys(protected, (release.data, places)))
    data = with_blanks(data, {name: blank[places] for name, blank in rows.filled.items()})
    after = _released(frame, replace(release, data=data))
    return replace(
        release,
        data=data,
        dose={name: _dose(of, frame.numbers(name), after.numbers(name)) for name, of in release.dose.items()},
        labels={name: label_dose(frame.labels(name), after.labels(name)) for name in release.labels},
        places=dict.fromkeys(protected, places),
        warnings=[*release.warnings, *trade.remarks(gaps, IN_UNITS, larger.values())],
    )


def _protected(protect: ProtectColumns, rows: RowsInUnits) -> Release:
    """The same with gaps where they were."""
    frame, units, roles, rules = rows.frame, rows.units, rows.roles, rows.rules
    of_units = rows.of_units()
    of_rows = [column for column in roles.protected if column not in of_units]

    def protect_columns(table: Any, names: Sequence[str], beside: Beside) -> Release:
        opened = open_frame(table).with_times([name for name in frame.times if name in names])
        return protect(opened, roles.among(names), rules_among(rules, opened.names), beside)

    if not of_units or units.first.size == frame.count:
        release = protect_columns(frame.source, roles.protected, Beside())
        return _with_unit(
            release, rows.unit, ["unit: no column is the same in all rows of every unit that has several"]
        )
    _check_shown(frame, units, roles)
    table, data = frame.source, frame.source
    if isinstance(data, np.ndarray):
        table = table_like(frame, {name: data[:, j].tolist() for j, name in enumerate(frame.names)})
    others = [column for column in frame.names if column not in (*of_units, *roles.shown, *rows.larger)]
    unit_table = without_columns(with_rows(table, units.first), others)
    size = _shared([units.sizes]) if rows.arranged else []
    nested = rows.in_larger_units(unit_table, of_units)
    if nested is None:
        first = protect_columns(without_columns(unit_table, rows.larger), of_units, Beside(size, size))
    else:
        first = _protected(protect, nested)
    second, order = None, None
    orders: Orders = []
    if of_rows:
        beside = _beside(rows, of_units, _released(frame, first)) if rows.arranged else Beside()
        second = protect_columns(without_columns(table, of_units), of_rows, beside)
        own = [name for name in of_rows if name in roles.confidential]
        orders = _cross_orders(rows, list(first.dose), list(second.dose))
        order = _by_date(rows, second, _within_orders(rows, first, second, orders)) if rows.arranged else None
        if not rows.arranged and first.dose and not roles.shown:
            numbers = Matrix([frame.numbers(name) for name in own])
            order = None if codes_in(own, numbers, rules, frame.names) else _order_of_rows(rows, first, second)
    return _with_unit(_joined(rows, first, second, order, orders), rows.unit, _about_sizes(units))


def can_be_unit(frame: Frame, name: str, roles: Roles, *, arranged: bool) -> bool:
    """Whether a column that nobody named can tell units.

    Every row must have one, what is in clear must be the units' own, and, for a method that does not arrange values
    beside others, no column of numbers may be alone in one of the two tables: it would be refused there.
    """
    if frame.missing(name):
        return False
    units = Units.of(frame, name)
    own = {column for column in roles.protected if units.is_constant(frame, column)}
    alone = [list(part) for part in (own, set(roles.protected) - own) if len(part) == 1]
    if not arranged and any(column in roles.confidential for (column,) in alone):
        return False
    return all(units.is_constant(frame, column) for column in roles.shown)


def _check_shown(frame: Frame, units: Units, roles: Roles) -> None:
    """What units are protected with must be theirs."""
    for name in roles.shown:
        if not units.is_constant(frame, name):
            raise ParameterError(
                f"unit: column '{name}', which is public, a weight or a stratum, differs within units",
                "leave it without a role, or protect without unit",
            )


def _beside(rows: RowsInUnits, of_units: Sequence[str], released: Frame) -> Beside:
    """What the rows are arranged beside: the columns of their units, before and after, their size and the place.

    Of labels there is an indicator for each level that enough units have, but for the commonest, which follows from the
    others.
    """
    units, frame = rows.units, rows.frame
    before: list[Array] = []
    after: list[Array] = []
    for name in of_units:
        new: NDArray[Any]
        if name in rows.roles.confidential:
            old, new = frame.numbers(name)[units.first], released.numbers(name)
            holes = np.isnan(old)
            if min(old.size - holes.sum(), holes.sum()) >= FEWEST_RECORDS:
                before.append(holes.astype(float))
                after.append(holes.astype(float))
            before.append(np.where(holes, np.nanmean(old), old))
            after.append(np.where(holes, np.nanmean(new), new))
            continue
        old_levels, new_levels = frame.labels(name)[units.first], released.labels(name)
        counts = np.bincount(old_levels)
        common = np.argsort(-counts, kind="stable")[: min(MOST_LEVELS, int((counts >= FEWEST_RECORDS).sum()))]
        if old_levels.max() != new_levels.max():
            continue
        for level in common[1:].tolist():
            before.append((old_levels == level).astype(float))
            after.append((new_levels == level).astype(float))
    stay = _shared([units.sizes])
    # A unit is one record, however many rows it has: all of them together must not pull the others along.
    parts = (pulled_in([*columns, *stay], units.sizes.astype(float))[0] for columns in (before, after))
    before, after = ([column[units.of_rows] for column in part] for part in parts)
    places: list[Array] = []
    if rows.place is not None:
        place = frame.numbers(rows.place)
        places = _shared([place, *((place == level).astype(float) for level in np.unique(place)[:3])])
    return Beside([*before, *places], [*after, *places])


def _shared(columns: Sequence[NDArray[Any]]) -> list[Array]:
    """Columns that are known to everybody, with what fewer than enough records reach as what enough of them reach.

    The largest household of all is found by its size: arranged beside that, its rows would tell of themselves.
    """
    found = []
    for column in columns:
        ascending = np.sort(column)
        enough = min(FEWEST_RECORDS, ascending.size) - 1
        found.append(np.clip(column, ascending[enough], ascending[-1 - enough]).astype(float))
    return [column for column in found if np.ptp(column) > 0]


def _cross_orders(rows: RowsInUnits, of_units: Sequence[str], of_rows: Sequence[str]) -> Orders:
    """Pairs of a column of units and one of rows, the lower one first, that are in this order in every row."""
    names = [name for name in (*of_units, *of_rows) if not rows.unmoved.missing(name)]
    if rows.rules in (None, "none") or len(names) < 2:
        return []
    before = Matrix([rows.unmoved.numbers(name) for name in names])
    found = [(names[rule.lower], names[rule.upper]) for rule in of_one_measure(before, find_orders(before), names)]
    return [(low, high) for low, high in found if (low in of_units) != (high in of_units)]


def _within_orders(rows: RowsInUnits, first: Release, second: Release, orders: Orders) -> Index | None:
    """Which released record each row gets so that no visit is before the birth; None if they stay.

    Rows that are beyond an order exchange their whole records with others, so that all that is in one record stays
    together: of those that would do, with the one whose unit is nearest in the columns that the orders speak of.

    Args:
        rows: the rows in their units.
        first: the release of the units.
        second: the release of what differs within units.
        orders: the pairs of columns that are to be in order.
    """
    if not orders:
        return None
    of_units, of_rows = _released(rows.frame, first), _released(rows.frame, second)
    slots = np.array([of_units.numbers(low if low in first.dose else high) for low, high in orders])[
        :, rows.units.of_rows
    ]
    cells = np.array([of_rows.numbers(high if low in first.dose else low) for low, high in orders])
    sign = np.array([1.0 if low in first.dose else -1.0 for low, _ in orders])[:, None]
    slots, cells = sign * slots, sign * cells  # a slot is never above its cell
    scale = np.maximum(slots.std(axis=1), 1e-300)[:, None]
    generator, source = rows.streams.stream("orders of units").generator(), np.arange(rows.frame.count)
    for row in generator.permutation(np.flatnonzero((slots > cells).any(axis=0))).tolist():
        if (slots[:, row] <= cells[:, source[row]]).all():
            continue  # the partner of an earlier one
        others = generator.permutation(source.size)[:CANDIDATES]
        fits = (slots[:, [row]] <= cells[:, source[others]]) & (slots[:, others] <= cells[:, [source[row]]])
        others = others[fits.all(axis=0)]
        if others.size:
            other = others[np.argmin((np.abs(slots[:, others] - slots[:, [row]]) / scale).sum(axis=0))]
            source[row], source[other] = source[other], source[row]
    return source


def _by_date(rows: RowsInUnits, second: Release, source: Index | None) -> Index | None:
    """Which released record each row gets so that the days rise within units, if they did; None if they stay.

    `source` tells which records the rows of a unit have, in any order; None for their own.
    """
    frame, units = rows.frame, rows.units
    if rows.rules in (None, "none"):
        return source
    dates = [name for name in frame.times if name in second.dose and not frame.missing(name)]
    date = dates_in_order(frame, units, rows.place, dates)
    if date is None:
        return source
    records = np.arange(frame.count) if source is None else source
    place = np.arange(frame.count, dtype=float) if rows.place is None else frame.numbers(rows.place)
    order = np.empty(frame.count, dtype=np.intp)
    order[units.by(place)] = records[units.by(_released(frame, second).numbers(date)[records])]
    return order


def _order_of_rows(rows: RowsInUnits, first: Release, second: Release) -> Index | None:
    """Which released record each row gets; None if they stay where they are.

    Rows are ranked by what their unit lets expect of them, blurred as it was in the original, and get the records in
    the order of what these have. Where cells are missing the records stay, as the pattern of the holes does.
    """
    frame, units = rows.frame, rows.units
    of_units, of_rows = _released(frame, first), _released(frame, second)
    if not second.dose:
        return None
    unit_level = [np.column_stack([of.numbers(name) for name in first.dose]) for of in (frame, of_units)]
    row_level = [np.column_stack([of.numbers(name) for name in second.dose]) for of in (frame, of_rows)]
    if not (np.isfinite(unit_level[0]).all() and np.isfinite(row_level[0]).all()):
        return None
    pair = first_canonical_pair(unit_level[0], row_level[0])
    stream = rows.streams.stream("units")
    expected = _standard(unit_level[1][units.of_rows] @ pair.left)
    blurred = pair.correlation * expected + np.sqrt(1 - pair.correlation**2) * stream.normal(frame.count)
    source = np.empty(frame.count, dtype=np.intp)
    source[np.argsort(blurred, kind="stable")] = np.argsort(row_level[1] @ pair.right, kind="stable")
    return source


def _released(frame: Frame, release: Release) -> Frame:
    """A released table, with the dates and times of the original as numbers."""
    found = open_frame(release.data)
    return found.with_times([name for name in frame.times if name in found.names])


def _dose(dose: Dose, before: Array, after: Array) -> Dose:
    known = ~np.isnan(before)
    achieved = float(np.clip(1 - _correlation(before, after), 0, 2)) if np.ptp(before[known]) > 0 else 0.0
    return Dose(dose.asked, achieved, float(np.mean((before != after)[known])))


def _standard(values: Array) -> Array:
    spread = float(values.std())
    standard: Array = (values - values.mean()) / (spread if spread > 0 else 1.0)
    return standard


def _joined(rows: RowsInUnits, first: Release, second: Release | None, order: Index | None, orders: Orders) -> Release:
    """The two releases in one: every row with the values of its unit.

    `first` is the release of the units, a row for each, `second` that of what differs within units, and `order` tells
    which of its records each row gets, if they do not stay where they are; `orders` are those that are to hold.
    """
    frame, units, roles = rows.frame, rows.units, rows.roles
    nothing: dict[str, Any] = {"kept": {}, "kept_on_average": (), "dose": {}, "labels": {}, "warnings": [], "rules": []}
    rest = second or replace(first, **nothing)
    taken = dict.fromkeys((*first.dose, *first.labels), (first.data, units.of_rows))
    taken |= dict.fromkeys((*rest.dose, *rest.labels), (rest.data, np.arange(frame.count) if order is None else order))
    whole = with_columns_from(frame.source, taken)
    doses = {**first.dose, **rest.dose}
    apart: list[str] = []
    if second is not None:
        place = [] if rows.place is None else [rows.place]
        stay = [*first.labels, *flags_among(frame.numbers, [*first.dose, *second.dose]), *place]
        whole = with_pairs_parted(whole, rows.unmoved, (stay, list(second.labels)), rows.rules, rows.streams)
        after = open_frame(whole).with_times(list(frame.times))
        apart = _about_relations(frame, after, list(first.dose), list(second.dose))
        apart += _about_orders(after, orders)
        if order is not None:
            doses |= {c: _dose(doses[c], frame.numbers(c), after.numbers(c)) for c in second.dose}
    of_units = [f"{units.first.size} units: {warning}" for warning in first.warnings]
    kept = {f"{statistic} of units": error for statistic, error in first.kept.items()}
    return replace(
        rest,
        data=whole,
        kept={**kept, **rest.kept},
        dose={column: doses[column] for column in roles.confidential if column in doses},
        labels={**first.labels, **rest.labels},
        warnings=[*apart, *of_units, *rest.warnings],
        rules=[*first.rules, *rest.rules],
        rows=frame.count,
        writer=rest.writer.of_both(frame.source, roles.confidential, first, second),
    )


def _with_unit(release: Release, unit: str, warnings: list[str]) -> Release:
    return replace(release, settings={**release.settings, "unit": unit}, warnings=[*warnings, *release.warnings])


def _about_sizes(units: Units) -> list[str]:
    """Sizes of units are released as they are: a size that few units have points to them."""
    of_a_size = np.bincount(units.sizes)
    few = int(of_a_size[of_a_size < FEWEST_RECORDS].sum())
    if not few:
        return []
    return [
        f"unit: {few} of {units.first.size} units have a number of rows that fewer than {FEWEST_RECORDS} units have; "
        "whoever knows it finds them: drop the column of the units, or leave out their last rows"
    ]


def _about_relations(before: Frame, after: Frame, of_units: Sequence[str], of_rows: Sequence[str]) -> list[str]:
    """Relations between the two tables, which neither of them knows of."""
    worst = 0.0
    for a in of_units:
        for b in of_rows:
            changes = [_correlation(frame.numbers(a), frame.numbers(b)) for frame in (before, after)]
            worst = max(worst, abs(changes[0] - changes[1]))
    if worst < TELLING:
        return []
    return [
        "columns of units and columns of rows are protected apart: correlations between them change by up to "
        f"{worst:.2f}"
    ]


def _about_orders(after: Frame, orders: Orders) -> list[str]:
    """Columns of units that were never above one of rows, or below, and are now in some."""
    lost = []
    for low, high in orders:
        broken = int(np.count_nonzero(after.numbers(low) > after.numbers(high)))
        if broken:
            lost.append(f"{low} <= {high} (broken in {broken} rows)")
    return [f"not kept between columns of units and of rows, although it held: {', '.join(lost)}"] if lost else []


def _correlation(a: Array, b: Array) -> float:
    both = ~(np.isnan(a) | np.isnan(b))
    if np.count_nonzero(both) < 2 or np.ptp(a[both]) == 0 or np.ptp(b[both]) == 0:
        return 0.0
    return float(np.corrcoef(a[both], b[both])[0, 1])
