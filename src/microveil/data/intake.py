"""From a frame with roles to the table the engines work on, with everything checked on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Mask
from microveil.core.domain import Domain, learnt_domain
from microveil.core.errors import DataError, ParameterError
from microveil.core.knowledge import Knowledge
from microveil.core.ratios import find_ratios
from microveil.core.roles import Roles
from microveil.core.scan import Scan, scan
from microveil.core.table import Matrix, Table
from microveil.data.dictionary import (
    Dictionary,
    declared_domain,
    declared_ratios,
    declared_rules,
    find_codes,
    read_dictionary,
)
from microveil.data.frames import Frame

Rules = str | Path | Mapping[str, Any] | None

SMALLEST_TABLE = 3
"""Two records can only keep or exchange their values, which hides nothing."""

LARGEST, SMALLEST = 1e150, 1e-150
"""Values beyond have squares that a double cannot hold."""

MOST_LEVELS = 200
"""Distinct labels of a public text column; more would be a name or a key, and a regression on it fits everything."""


@dataclass(frozen=True, repr=False)
class Intake:
    """The table, its first scan, and what was set apart cell by cell."""

    table: Table
    look: Scan
    codes: dict[str, tuple[float, ...]]
    public_codes: dict[str, tuple[float, ...]]
    holes: dict[str, Mask | None]
    known: Knowledge

    @cached_property
    def present(self) -> Mask | None:
        """Where confidential cells have a value, rows x columns; None when all have."""
        if all(hole is None for hole in self.holes.values()):
            return None
        full = np.zeros(self.table.count, dtype=bool)
        return ~np.column_stack([full if hole is None else hole for hole in self.holes.values()])


def take_in(frame: Frame, roles: Roles, rules: Rules) -> Intake:
    """Check the columns, find or read the special codes, and build the table."""
    if frame.count < SMALLEST_TABLE:
        rows = "no rows" if frame.count == 0 else f"{frame.count} row{'s' if frame.count > 1 else ''}"
        raise DataError(f"data: has {rows}", f"at least {SMALLEST_TABLE} are needed to hide one among others")
    table = _table(frame, roles)
    _check_room(table, roles)
    look = scan(table)
    for role, number in [*(("public", j) for j in range(table.public)), *_confidential(table)]:
        _check_values(role, table.names[number], table.values.columns[number], look, number)
    dictionary, inferred = _dictionary(rules, frame.names)
    codes = {}
    for _, number in _confidential(table):
        name = table.names[number]
        found = _codes_in(table, look, number) if inferred else dictionary.codes(name)
        if found:
            codes[name] = found
    for name in table.names[: table.public]:
        if dictionary.codes(name):
            raise ParameterError(
                f"rules: public column '{name}' has special codes", "leave it out of public, or recode them first"
            )
    public_codes = {table.names[j]: _codes_in(table, look, j) for j in range(table.public)} if inferred else {}
    if codes:
        table = _without_codes(table, codes)
        look = scan(table)
    missing = set(look.missing())
    holes = {
        table.names[j]: np.isnan(table.values.columns[j]) if j in missing else None for _, j in _confidential(table)
    }
    _check_answers(holes, table.strata)
    protected = dict(zip(table.confidential_names, table.confidential.columns, strict=True))
    told = {name: found for name, found in public_codes.items() if found}
    return Intake(table, look, codes, told, holes, _known(dictionary, protected, look, inferred=inferred))


def _known(dictionary: Dictionary, columns: Mapping[str, Array], look: Scan, *, inferred: bool) -> Knowledge:
    """Rules and domains: found in the data, or as the dictionary says."""
    if inferred:
        public = look.minimum.size - len(columns)
        extremes = zip(look.minimum[public:].tolist(), look.maximum[public:].tolist(), strict=True)
        learnt = [learnt_domain(column, *both) for column, both in zip(columns.values(), extremes, strict=True)]
        return Knowledge(found_ratios=find_ratios(Matrix(list(columns.values()))), learnt=learnt)
    declared = [declared_domain(name, dictionary.columns.get(name), column) for name, column in columns.items()]
    return Knowledge(
        sums=declared_rules(dictionary, columns),
        ratios=declared_ratios(dictionary, columns),
        declared=declared if any(domain != Domain() for domain in declared) else (),
    )


def _check_answers(holes: Mapping[str, Mask | None], strata: NDArray[np.intp] | None) -> None:
    """One or two answers would be released as they are: their mean and variance are kept."""
    for name, hole in holes.items():
        if hole is None:
            continue
        present = np.bincount(np.zeros(hole.size, dtype=np.intp) if strata is None else strata, weights=~hole)
        few = int(np.count_nonzero((present > 0) & (present < SMALLEST_TABLE)))
        if not present.any():
            raise DataError(f"column '{name}' holds nothing but special codes", "leave it out, or use rules=None")
        if few and strata is None:
            raise DataError(f"column '{name}' has fewer than {SMALLEST_TABLE} values", "leave it out of confidential")
        if few:
            raise DataError(
                f"strata: column '{name}' has fewer than {SMALLEST_TABLE} values in {few} of the groups",
                "merge groups, or leave the column out of confidential",
            )


def _confidential(table: Table) -> list[tuple[str, int]]:
    return [("confidential", j) for j in range(table.public, len(table.names))]


def _table(frame: Frame, roles: Roles) -> Table:
    public = [pair for name in roles.public for pair in _public_columns(frame, name)]
    weights = None if roles.weight is None else _weights(frame, roles.weight)
    strata = None if not roles.strata else _strata(frame, roles.strata)
    block = frame.block()
    if block is not None and not public and list(roles.confidential) == frame.names:
        return Table(Matrix.from_array(block), roles.confidential, 0, weights, strata)
    columns = [*(values for _, values in public), *(frame.numbers(name) for name in roles.confidential)]
    names = (*(name for name, _ in public), *roles.confidential)
    return Table(Matrix(columns), names, len(public), weights, strata)


def _public_columns(frame: Frame, name: str) -> list[tuple[str, Array]]:
    """A public column as regressors: itself if numeric, one indicator per label (but the first) if not."""
    if frame.is_numeric(name):
        values = frame.numbers(name)
        if np.isnan(values).any():
            raise DataError(f"public: column '{name}' has missing cells", "fill them or leave the column out of public")
        return [(name, values)]
    labels = frame.labels(name)
    levels = int(labels.max()) + 1
    if levels > MOST_LEVELS:
        raise DataError(
            f"public: column '{name}' has {levels} different labels, more than {MOST_LEVELS}",
            "group them, or leave the column out of public",
        )
    rare = int(np.count_nonzero(np.bincount(labels) < SMALLEST_TABLE))
    if rare:
        # The residuals of a label add up to zero: a record alone in it has none, and would be released as it is.
        raise DataError(
            f"public: {rare} labels of column '{name}' have fewer than {SMALLEST_TABLE} rows",
            "group them, or leave the column out of public",
        )
    return [(name, (labels == level).astype(np.float64)) for level in range(1, levels)]


def _weights(frame: Frame, name: str) -> Array:
    weights = frame.numbers(name)
    if not np.isfinite(weights).all() or (weights <= 0).any():
        raise DataError(f"weight: column '{name}' has cells that are missing or not above 0", "give every row a weight")
    scaled: Array = weights / weights.mean()  # only their ratios matter, and sums stay in range
    return scaled


def _strata(frame: Frame, names: Sequence[str]) -> NDArray[np.intp]:
    labels = np.column_stack([frame.labels(name) for name in names])
    codes: NDArray[np.intp] = np.unique(labels, axis=0, return_inverse=True)[1].ravel()
    return codes


def _check_room(table: Table, roles: Roles) -> None:
    """Each public column ties the residuals down once; as many rows more are needed, in every stratum."""
    needed = SMALLEST_TABLE + table.public
    if table.strata is not None:
        small = int(np.count_nonzero(np.bincount(table.strata) < needed))
        if small:
            raise DataError(
                f"strata: {small} of the groups by {', '.join(roles.strata)} have fewer than {needed} rows",
                "merge small groups, or use fewer columns",
            )
    elif table.count < needed:
        raise DataError(
            f"public: {table.count} rows are too few for these columns, at least {needed} are needed",
            "use fewer public columns, or group the labels of text columns",
        )


def _check_values(role: str, name: str, values: Array, look: Scan, number: int) -> None:
    """Infinite or unsquarable cells, by the name of the column and their count."""
    low, high = look.minimum[number], look.maximum[number]
    if np.isnan(low):
        raise DataError(f"{role}: column '{name}' has no values", f"leave it out of {role}, or drop it")
    if np.isinf(low) or np.isinf(high):
        count = int(np.count_nonzero(np.isinf(values)))
        cells = "1 infinite cell" if count == 1 else f"{count} infinite cells"
        raise DataError(f"{role}: column '{name}' has {cells}", "make them missing or leave the column out")
    spread = high - low
    if max(abs(low), abs(high)) > LARGEST or 0 < spread < SMALLEST:
        raise DataError(
            f"{role}: column '{name}' is too large or too small in its unit to be squared", "give it in another unit"
        )


def _dictionary(rules: Rules, names: Sequence[str]) -> tuple[Dictionary, bool]:
    if rules is None or rules == "none":
        return Dictionary(), False
    if rules == "infer":
        return Dictionary(), True
    if not isinstance(rules, str | Path | Mapping):
        raise ParameterError(f"rules: cannot be {type(rules).__name__}", "use 'infer', None, a dict or a file")
    dictionary = read_dictionary(rules)
    dictionary.check_names(names)
    return dictionary, False


def _codes_in(table: Table, look: Scan, number: int) -> tuple[float, ...]:
    return find_codes(table.values.columns[number], float(look.minimum[number]), float(look.maximum[number]))


def _without_codes(table: Table, codes: Mapping[str, tuple[float, ...]]) -> Table:
    """Cells with a special code count as missing."""
    columns = list(table.values.columns)
    for _, number in _confidential(table):
        if table.names[number] in codes:
            values = columns[number]
            columns[number] = np.where(np.isin(values, codes[table.names[number]]), np.nan, values)
    return replace(table, values=Matrix(columns))
