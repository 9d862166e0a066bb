"""Units with several rows: the persons of a household, the months of a firm.

A column that is the same in all rows of every unit (the rent of the household) belongs to the unit. Protected row by
row it would get several values, and a mean over them is nearer to the truth than any of them. So there are two tables:
one of the units, with a row for each, and one of the rows, with what differs within units; each is protected by itself.
Then the released rows are dealt out to the released units so that what belonged together (the rent and the wages) does
so again, by the pair of combinations, one of each table, that went together most (the first canonical correlation).
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microveil.assessment.pairing import codes_in
from microveil.core.arrays import Array
from microveil.core.errors import DataError, ParameterError
from microveil.core.linalg import first_canonical_pair
from microveil.core.rng import Streams
from microveil.engines import Progress
from microveil.intake.derivable import check_not_derivable
from microveil.intake.intake import with_values
from microveil.intake.roles import Roles, named, resolve_roles
from microveil.intake.sources import FrameSource
from microveil.io.frames.dataframes import Frame, open_frame, table_like
from microveil.io.frames.reorder import with_rows, without_columns
from microveil.options import Protect
from microveil.release.release import Dose, Release
from microveil.release.secret import secret_key

TELLING = 0.1
"""Change of a correlation between the two tables from which on it is pointed out."""


@dataclasses.dataclass(frozen=True, repr=False)
class _Units:
    """Which unit each row belongs to, and the first row of each."""

    of_rows: NDArray[np.intp]
    first: NDArray[np.intp]

    def is_constant(self, frame: Frame, name: str) -> bool:
        """Is the column the same in all rows of every unit, holes included?"""
        labels = frame.labels(name)
        return bool((labels == labels[self.first][self.of_rows]).all())


def protect_by_unit(
    protect: Callable[..., Release],
    data: Any,
    options: Protect,
    params: Mapping[str, Any],
    by_method: Mapping[str, Any],
    tell: Progress,
) -> Release:
    """Protect the columns of the units once per unit, and the others row by row.

    Args:
        protect: protects a table without units: `protect(table, options, params, tell)`.
        data: the table.
        options: those of the caller, with the column of the units.
        params: the parameters of the method.
        by_method: columns that these parameters name.
        tell: called with the name of the step and the share done.
    """
    frame = open_frame(data)
    numeric = {name: frame.is_numeric(name) for name in frame.names}
    found = named(numeric, "unit", options.unit)
    if len(found) != 1:
        raise ParameterError("unit: takes one column", "name the column that holds the number of the unit")
    name = found[0]
    units = _units(frame, name)
    roles = {role: getattr(options, role) for role in ("confidential", "public", "strata", "weight")}
    chosen = resolve_roles({other: kind for other, kind in numeric.items() if other != name}, **roles, **by_method)
    chosen = with_values(frame, chosen) if options.confidential is None else chosen
    # Here, where all columns are together.
    mostly = check_not_derivable(FrameSource(frame), chosen.confidential, options.rules)
    of_units = [column for column in chosen.confidential if units.is_constant(frame, column)]
    of_rows = [column for column in chosen.confidential if column not in of_units]
    seed = Streams.from_seed(options.seed).seed  # one for both
    alone = {"unit": None, "drop": None, "drop_identifiers": False, "keep": None, "keep_notes": False}
    same = options.model_copy(update={**alone, "shuffle_rows": False, "registry": None, "seed": seed})

    def protect_columns(table: Any, names: Sequence[str]) -> Release:
        return protect(table, same.model_copy(update={"confidential": list(names)}), params, tell)

    if not of_units or units.first.size == frame.count:
        release = protect_columns(data, chosen.confidential)
        return _with_unit(release, name, ["unit: no column is the same in all rows of every unit that has several"])
    _check_shown(frame, units, chosen)
    table = (
        table_like(frame, {n: data[:, j].tolist() for j, n in enumerate(frame.names)})
        if isinstance(data, np.ndarray)
        else data
    )
    others = [column for column in frame.names if column not in (*of_units, *chosen.shown)]
    first = protect_columns(without_columns(with_rows(table, units.first), others), of_units)
    second = protect_columns(without_columns(table, of_units), of_rows) if of_rows else None
    numbers = {name: frame.numbers(name) for name in of_rows}
    if second is not None and not chosen.shown and not codes_in(numbers, options.rules, frame.names):
        second = _dealt_out(frame, units, first, second, seed, secret_key(options.secret))
    whole = _joined(data, frame, name, units, chosen.confidential, first, second)
    return dataclasses.replace(whole, warnings=list(dict.fromkeys([*whole.warnings, *mostly])))


def _units(frame: Frame, name: str) -> _Units:
    if frame.missing(name):
        raise DataError(f"unit: column '{name}' has missing cells", "give every row its unit")
    _, first, numbers = np.unique(frame.labels(name), return_index=True, return_inverse=True)
    return _Units(numbers.ravel(), first)


def _check_shown(frame: Frame, units: _Units, roles: Roles) -> None:
    """What units are protected with must be theirs."""
    for name in roles.shown:
        if not units.is_constant(frame, name):
            raise ParameterError(
                f"unit: column '{name}', which is public, a weight or a stratum, differs within units",
                "leave it without a role, or protect without unit",
            )


def _dealt_out(frame: Frame, units: _Units, first: Release, second: Release, seed: int, secret: bytes) -> Release:
    """The release of the rows with its records in other rows, whole as they are.

    Rows are ranked by what their unit lets expect of them, blurred as it was in the original, and get the records in
    the order of what these have. Where cells are missing the records stay, as the pattern of the holes does.
    """
    of_units, of_rows = open_frame(first.data), open_frame(second.data)
    unit_level = [np.column_stack([of.numbers(name) for name in first.dose]) for of in (frame, of_units)]
    row_level = [np.column_stack([of.numbers(name) for name in second.dose]) for of in (frame, of_rows)]
    if not (np.isfinite(unit_level[0]).all() and np.isfinite(row_level[0]).all()):
        return second
    pair = first_canonical_pair(unit_level[0], row_level[0])
    records = int.from_bytes(hashlib.blake2b(row_level[0].tobytes(), digest_size=16).digest())
    stream = Streams(seed, records, secret).stream("units")
    expected = _standard(unit_level[1][units.of_rows] @ pair.left)
    blurred = pair.correlation * expected + np.sqrt(1 - pair.correlation**2) * stream.normal(frame.count)
    source = np.empty(frame.count, dtype=np.intp)
    source[np.argsort(blurred, kind="stable")] = np.argsort(row_level[1] @ pair.right, kind="stable")
    columns = {name: row_level[1][source, j] for j, name in enumerate(second.dose)}
    doses = {name: _dose(dose, frame.numbers(name), columns[name]) for name, dose in second.dose.items()}
    return dataclasses.replace(second, data=of_rows.rebuilt(columns, dict.fromkeys(columns)), dose=doses)


def _dose(dose: Dose, before: Array, after: Array) -> Dose:
    achieved = float(np.clip(1 - _correlation(before, after), 0, 2)) if np.ptp(before) > 0 else 0.0
    return Dose(dose.asked, achieved, float(np.mean(before != after)))


def _standard(values: Array) -> Array:
    spread = float(values.std())
    standard: Array = (values - values.mean()) / (spread if spread > 0 else 1.0)
    return standard


def _joined(
    data: Any,
    frame: Frame,
    name: str,
    units: _Units,
    confidential: Sequence[str],
    first: Release,
    second: Release | None,
) -> Release:
    """The two releases in one: every row with the values of its unit."""
    released = open_frame(first.data)
    columns = {column: released.numbers(column)[units.of_rows] for column in first.dose}
    if second is not None:
        columns |= {column: open_frame(second.data).numbers(column) for column in second.dose}
    holes = {column: np.isnan(values) for column, values in columns.items()}
    present = {column: ~hole if hole.any() else None for column, hole in holes.items()}
    base = second or first
    whole = frame.rebuilt(columns, present)
    warnings = [f"{units.first.size} units: {warning}" for warning in first.warnings]
    kept = {f"{statistic} of units": error for statistic, error in first.kept.items()}
    doses = {**first.dose, **({} if second is None else second.dose)}
    release = dataclasses.replace(
        base,
        data=whole,
        kept={**kept, **({} if second is None else second.kept)},
        kept_on_average=() if second is None else second.kept_on_average,
        dose={column: doses[column] for column in confidential},
        warnings=[*warnings, *([] if second is None else second.warnings)],
        rules=[*first.rules, *([] if second is None else second.rules)],
        rows=frame.count,
        settings={**base.settings, "confidential": list(confidential)},
        writer=base.writer.of_both(data, confidential, first, second),
    )
    apart = [] if second is None else _about_relations(frame, open_frame(whole), list(first.dose), list(second.dose))
    return _with_unit(release, name, apart)


def _with_unit(release: Release, unit: str, warnings: list[str]) -> Release:
    return dataclasses.replace(
        release, settings={**release.settings, "unit": unit}, warnings=[*warnings, *release.warnings]
    )


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


def _correlation(a: Array, b: Array) -> float:
    both = ~(np.isnan(a) | np.isnan(b))
    if np.count_nonzero(both) < 2 or np.ptp(a[both]) == 0 or np.ptp(b[both]) == 0:
        return 0.0
    return float(np.corrcoef(a[both], b[both])[0, 1])
