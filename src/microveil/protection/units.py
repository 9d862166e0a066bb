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
from microveil.intake.intake import rules_among
from microveil.intake.roles import Roles
from microveil.intake.sources import FrameSource
from microveil.intake.treatment import REST
from microveil.io.frames.dataframes import Frame, open_frame, table_like
from microveil.io.frames.reorder import with_columns_from, with_rows, without_columns
from microveil.options import Protect
from microveil.release.release import Dose, Release
from microveil.release.secret import secret_key
from microveil.rules.label_rules import LabelRules, find_impossible_pairs, without_impossible_pairs

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
    frame: Frame,
    unit: str,
    roles: Roles,
    options: Protect,
    params: Mapping[str, Any],
    tell: Progress,
) -> Release:
    """Protect the columns of the units once per unit, and the others row by row.

    Args:
        protect: protects a table without units: `protect(table, options, params, tell)`.
        frame: the table, with the columns that are to be released.
        unit: the column that tells which rows belong together.
        roles: those of the other columns.
        options: those of the caller.
        params: the parameters of the method.
        tell: called with the name of the step and the share done.
    """
    units, data = _units(frame, unit), frame.source
    # Here, where all columns are together.
    rules = rules_among(options.rules, frame.names)
    mostly = check_not_derivable(FrameSource(frame), roles.confidential, rules)
    of_units = [column for column in roles.protected if units.is_constant(frame, column)]
    of_rows = [column for column in roles.protected if column not in of_units]
    seed = Streams.from_seed(options.seed).seed  # one for both
    alone = {"unit": None, "drop": None, "drop_identifiers": False, "keep": REST, "keep_notes": False}
    same = options.model_copy(update={**alone, "shuffle_rows": False, "registry": None, "seed": seed})

    def protect_columns(table: Any, names: Sequence[str]) -> Release:
        there = open_frame(table).names
        kinds = {name: kind for name, kind in (options.kinds or {}).items() if name in there}
        own = {"confidential": list(names), "kinds": kinds, "rules": rules_among(rules, there)}
        return protect(table, same.model_copy(update=own), params, tell)

    if not of_units or units.first.size == frame.count:
        release = protect_columns(data, roles.protected)
        return _with_unit(release, unit, ["unit: no column is the same in all rows of every unit that has several"])
    _check_shown(frame, units, roles)
    table = (
        table_like(frame, {n: data[:, j].tolist() for j, n in enumerate(frame.names)})
        if isinstance(data, np.ndarray)
        else data
    )
    others = [column for column in frame.names if column not in (*of_units, *roles.shown)]
    first = protect_columns(without_columns(with_rows(table, units.first), others), of_units)
    second = protect_columns(without_columns(table, of_units), of_rows) if of_rows else None
    numbers = {name: frame.numbers(name) for name in of_rows if name in roles.confidential}
    order = None
    if second is not None and first.dose and not roles.shown and not codes_in(numbers, rules, frame.names):
        order = _order_of_rows(frame, units, first, second, seed, secret_key(options.secret))
    whole = _joined(frame, unit, units, roles, first, second, order)
    return dataclasses.replace(whole, warnings=list(dict.fromkeys([*whole.warnings, *mostly])))


def can_be_unit(frame: Frame, name: str, roles: Roles) -> bool:
    """Whether a column that nobody named can tell units.

    Every row must have one, what is in clear must be the units' own, and no column of numbers may be alone in one of
    the two tables: it would be refused there.
    """
    if frame.missing(name):
        return False
    units = _units(frame, name)
    own = {column for column in roles.protected if units.is_constant(frame, column)}
    alone = [list(part) for part in (own, set(roles.protected) - own) if len(part) == 1]
    if any(column in roles.confidential for (column,) in alone):
        return False
    return all(units.is_constant(frame, column) for column in roles.shown)


def _units(frame: Frame, name: str) -> _Units:
    if frame.missing(name):
        raise DataError(
            f"unit: column '{name}' has missing cells", "give every row its unit, or name it in keep or drop"
        )
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


def _order_of_rows(
    frame: Frame, units: _Units, first: Release, second: Release, seed: int, secret: bytes
) -> NDArray[np.intp] | None:
    """Which released record each row gets; None if they stay where they are.

    Rows are ranked by what their unit lets expect of them, blurred as it was in the original, and get the records in
    the order of what these have. Where cells are missing the records stay, as the pattern of the holes does.
    """
    of_units, of_rows = _released(frame, first), _released(frame, second)
    if not second.dose:
        return None
    unit_level = [np.column_stack([of.numbers(name) for name in first.dose]) for of in (frame, of_units)]
    row_level = [np.column_stack([of.numbers(name) for name in second.dose]) for of in (frame, of_rows)]
    if not (np.isfinite(unit_level[0]).all() and np.isfinite(row_level[0]).all()):
        return None
    pair = first_canonical_pair(unit_level[0], row_level[0])
    records = int.from_bytes(hashlib.blake2b(row_level[0].tobytes(), digest_size=16).digest())
    stream = Streams(seed, records, secret).stream("units")
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
    achieved = float(np.clip(1 - _correlation(before, after), 0, 2)) if np.ptp(before) > 0 else 0.0
    return Dose(dose.asked, achieved, float(np.mean(before != after)))


def _standard(values: Array) -> Array:
    spread = float(values.std())
    standard: Array = (values - values.mean()) / (spread if spread > 0 else 1.0)
    return standard


def _joined(
    frame: Frame,
    name: str,
    units: _Units,
    roles: Roles,
    first: Release,
    second: Release | None,
    order: NDArray[np.intp] | None,
) -> Release:
    """The two releases in one: every row with the values of its unit.

    Args:
        frame: the original.
        name: the column of the units.
        units: which unit each row belongs to.
        roles: those of the other columns.
        first: the release of the units, a row for each.
        second: the release of what differs within units.
        order: which of its records each row gets, if they do not stay where they are.
    """
    taken = dict.fromkeys((*first.dose, *first.labels), (first.data, units.of_rows))
    doses = {**first.dose, **({} if second is None else second.dose)}
    if second is not None:
        rows = np.arange(frame.count) if order is None else order
        taken |= dict.fromkeys((*second.dose, *second.labels), (second.data, rows))
    whole = with_columns_from(frame.source, taken)
    if second is not None and first.labels and second.labels:
        whole = _without_impossible_pairs(frame, whole, list(first.labels), list(second.labels), second.seed or 0)
    if second is not None and order is not None:
        after = open_frame(whole).with_times(list(frame.times))
        doses |= {c: _dose(doses[c], frame.numbers(c), after.numbers(c)) for c in second.dose}
    base = second or first
    warnings = [f"{units.first.size} units: {warning}" for warning in first.warnings]
    kept = {f"{statistic} of units": error for statistic, error in first.kept.items()}
    release = dataclasses.replace(
        base,
        data=whole,
        kept={**kept, **({} if second is None else second.kept)},
        kept_on_average=() if second is None else second.kept_on_average,
        dose={column: doses[column] for column in roles.confidential if column in doses},
        labels={**first.labels, **({} if second is None else second.labels)},
        warnings=[*warnings, *([] if second is None else second.warnings)],
        rules=[*first.rules, *([] if second is None else second.rules)],
        rows=frame.count,
        settings={**base.settings, "confidential": list(roles.protected)},
        writer=base.writer.of_both(frame.source, roles.confidential, first, second),
    )
    apart = []
    if second is not None:
        after = open_frame(whole).with_times(list(frame.times))
        apart = _about_relations(frame, after, list(first.dose), list(second.dose))
    return _with_unit(release, name, apart)


def _without_impossible_pairs(
    before: Frame, whole: Any, of_units: Sequence[str], of_rows: Sequence[str], seed: int
) -> Any:
    """The released table (`whole`) without pairs of labels, of units and of rows, that cannot be.

    Rows exchange their labels; what follows from these follows again.
    """
    after = open_frame(whole)
    old, new = ([frame.labels(name) for name in (*of_units, *of_rows)] for frame in (before, after))
    if any(int(a.max()) != int(b.max()) for a, b in zip(old, new, strict=True)):
        return whole
    units = len(of_units)
    rules = LabelRules.among(old[units:])
    free = [*range(units), *(units + j for j in rules.independent)]
    pairs = find_impossible_pairs([old[j] for j in free])
    if not pairs:
        return whole
    generator = Streams.from_seed(seed).stream("pairs of labels").generator()
    fixed = without_impossible_pairs([new[j] for j in free], pairs, generator, range(units))
    rows = LabelRules(rules.columns, rules.dependencies).restored(fixed[units:], generator)
    return after.rebuilt({}, {}, dict(zip(of_rows, rows, strict=True)))


def _with_unit(release: Release, unit: str, warnings: list[str]) -> Release:
    settings = {key: value for key, value in release.settings.items() if key != "keep"}
    return dataclasses.replace(release, settings={**settings, "unit": unit}, warnings=[*warnings, *release.warnings])


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
