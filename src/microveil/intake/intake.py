"""From a frame with roles to the table the engines work on, with everything checked on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Mask
from microveil.core.errors import DataError, ParameterError
from microveil.core.fewest_records import pooled, pulled_in
from microveil.core.profile import Scan, scan
from microveil.core.table import Clustering, Groups, Matrix, Microdata
from microveil.intake.model_matrix import check_plain, model_matrix
from microveil.intake.roles import Roles
from microveil.io.dictionary import (
    Dictionary,
    declared_domain,
    declared_orders,
    declared_ratios,
    declared_rules,
    find_codes,
    read_dictionary,
    watched_rules,
)
from microveil.io.frames.dataframes import Frame
from microveil.io.frames.number_types import check_held
from microveil.io.frames.validation import SMALLEST_TABLE, check_values
from microveil.rules.column_rules import ColumnRules
from microveil.rules.domain import Domain, learnt_domain
from microveil.rules.ratios import find_ratios

Rules = str | Path | Mapping[str, Any] | None


@dataclass(frozen=True, repr=False)
class Intake:
    """The table, its first scan, and what was set apart cell by cell."""

    table: Microdata
    look: Scan
    codes: dict[str, tuple[float, ...]]
    public_codes: dict[str, tuple[float, ...]]
    holes: dict[str, Mask | None]
    known: ColumnRules
    rare: Mapping[str, int] = field(default_factory=dict)
    """How many labels, combinations of labels or strata were pooled, because few records have them, by role; and how
    many records were pulled in (`far`) because a regression on public columns would follow them."""

    @cached_property
    def present(self) -> Mask | None:
        """Where confidential cells have a value, rows x columns; None when all have."""
        if all(hole is None for hole in self.holes.values()):
            return None
        full = np.zeros(self.table.count, dtype=bool)
        return ~np.column_stack([full if hole is None else hole for hole in self.holes.values()])


def with_values(frame: Frame, roles: Roles) -> Roles:
    """The roles without confidential columns that nobody named and that have not a single value to protect."""
    full = tuple(name for name in roles.confidential if frame.missing(name) < frame.count)
    return replace(roles, confidential=full or roles.confidential)


def take_in(frame: Frame, roles: Roles, rules: Rules, *, pull_in: bool = False) -> Intake:
    """Check the columns, find or read the special codes, and build the table.

    With `pull_in`, records far out in public columns are pulled in: a method that keeps moments exactly promises those
    with the columns as they are.
    """
    if frame.count < SMALLEST_TABLE:
        rows = "no rows" if frame.count == 0 else f"{frame.count} row{'s' if frame.count > 1 else ''}"
        raise DataError(f"data: has {rows}", f"at least {SMALLEST_TABLE} are needed to hide one among others")
    table, plain, crossed, rare = _table(frame, roles, pull_in=pull_in)
    look = scan(table)
    missing = set(look.missing())
    for number, (role, name) in plain.items():
        extremes = float(look.minimum[number]), float(look.maximum[number])
        check_plain(role, name, table.values.columns[number], *extremes, missing=number in missing)
    for number in _confidential(table):
        extremes = float(look.minimum[number]), float(look.maximum[number])
        check_values("confidential", table.names[number], table.values.columns[number], *extremes)
    dictionary, inferred = dictionary_for(rules, frame.names)
    codes = {}
    for number in _confidential(table):
        name = table.names[number]
        found = _codes_in(table, look, number) if inferred else dictionary.codes(name)
        if found:
            codes[name] = found
    for role, name in (*plain.values(), *crossed):
        if dictionary.codes(name):
            raise ParameterError(
                f"rules: {role} column '{name}' has special codes", f"leave it out of {role}, or recode them first"
            )
    public_codes = {}
    if inferred:
        public_codes = {name: _codes_in(table, look, number) for number, (_, name) in plain.items()}
        public_codes |= {name: find_codes(x, float(x.min()), float(x.max())) for (_, name), x in crossed.items()}
    if codes:
        table = _without_codes(table, codes)
        look = scan(table)
        missing = set(look.missing())
    holes = {table.names[j]: np.isnan(table.values.columns[j]) if j in missing else None for j in _confidential(table)}
    _check_answers(holes, table.strata)
    protected = dict(zip(table.confidential_names, table.confidential.columns, strict=True))
    told = {name: found for name, found in public_codes.items() if found}
    return Intake(table, look, codes, told, holes, _known(dictionary, protected, look, inferred=inferred), rare)


def _known(dictionary: Dictionary, columns: Mapping[str, Array], look: Scan, *, inferred: bool) -> ColumnRules:
    """Rules and domains: found in the data, or as the dictionary says."""
    if inferred:
        public = look.minimum.size - len(columns)
        extremes = zip(look.minimum[public:].tolist(), look.maximum[public:].tolist(), strict=True)
        learnt = [learnt_domain(column, *both) for column, both in zip(columns.values(), extremes, strict=True)]
        return ColumnRules(found_ratios=find_ratios(Matrix(list(columns.values()))), learnt=learnt)
    declared = [declared_domain(name, dictionary.columns.get(name), column) for name, column in columns.items()]
    return ColumnRules(
        sums=declared_rules(dictionary, columns),
        ratios=declared_ratios(dictionary, columns),
        declared=declared if any(domain != Domain() for domain in declared) else (),
        orders=declared_orders(dictionary, columns),
        watched=watched_rules(dictionary, columns),
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


def _confidential(table: Microdata) -> range:
    return range(table.public, len(table.names))


Plain = dict[int, tuple[str, str]]
"""Which columns of a table are plain ones of the frame to regress on, with their role and name."""

Crossed = dict[tuple[str, str], Array]
"""By role and name, the columns of numbers that are regressed on in products only."""


def _table(frame: Frame, roles: Roles, *, pull_in: bool) -> tuple[Microdata, Plain, Crossed, dict[str, int]]:
    """The table, what there is to say of its columns, and how many rare labels and strata were pooled."""
    for name in roles.confidential:
        check_held(name, frame.is_held(name))
    weights = None if roles.weight is None else _weights(frame, roles.weight)
    rare: dict[str, int] = {}
    strata = None
    if roles.strata:
        strata, few = pooled(group_numbers(frame, roles.strata))
        rare |= {"strata": few} if few else {}
    block = frame.block()
    if block is not None and not roles.shown and list(roles.confidential) == frame.names:
        return Microdata(Matrix.from_array(block), roles.confidential, 0, weights, strata), {}, {}, rare
    names: list[str] = []
    columns: list[Array] = []
    plain: dict[int, tuple[str, str]] = {}
    crossed: dict[tuple[str, str], Array] = {}
    places: dict[str, tuple[int, ...]] = {}
    for role, terms in {"public": roles.public, **roles.regressors}.items():
        matrix = model_matrix(frame, terms, role)
        plain |= {len(names) + number: (role, name) for number, name in matrix.plain.items()}
        crossed |= {(role, name): values for name, values in matrix.crossed.items()}
        rare |= {f"{role} '{name}'": few for name, few in matrix.rare.items()}
        places[role] = tuple(range(len(names), len(names) + len(matrix.names)))
        names += matrix.names
        columns += matrix.columns
    groups = {role: _groups(frame, chosen) for role, chosen in roles.groups.items()}
    clustering = Clustering(
        groups.get("clusters"),
        groups.get("pieces"),
        groups.get("groups"),
        *(places.get(role, ()) for role in ("local", "local_pieces", "grouped")),
    )
    if pull_in and np.isfinite(columns).all():  # what is not is told of later
        columns, far = pulled_in(columns, weights)
        rare |= {"far": far} if far else {}
    values = Matrix([*columns, *(frame.numbers(name) for name in roles.confidential)])
    table = Microdata(values, (*names, *roles.confidential), len(names), weights, strata, clustering=clustering)
    _check_room(table, roles)
    return table, plain, crossed, rare


def _groups(frame: Frame, chosen: Sequence[str]) -> Groups | None:
    """Groups of records with the same cells in some columns, called by these."""
    if not chosen:
        return None
    numbers = group_numbers(frame, chosen)
    first = np.unique(numbers, return_index=True)[1]
    parts = [frame.words(name, first) for name in chosen]
    return Groups(numbers, tuple(", ".join(cells) for cells in zip(*parts, strict=True)))


def _weights(frame: Frame, name: str) -> Array:
    weights = frame.numbers(name)
    if not np.isfinite(weights).all() or (weights <= 0).any():
        raise DataError(f"weight: column '{name}' has cells that are missing or not above 0", "give every row a weight")
    scaled: Array = weights / weights.mean()  # only their ratios matter, and sums stay in range
    return scaled


def group_numbers(frame: Frame, names: Sequence[str]) -> NDArray[np.intp]:
    """The number of the group of each record: those with the same cells in some columns are one."""
    labels = np.column_stack([frame.labels(name) for name in names])
    codes: NDArray[np.intp] = np.unique(labels, axis=0, return_inverse=True)[1].ravel()
    return codes


def _check_room(table: Microdata, roles: Roles) -> None:
    """Each public column ties the residuals down once; as many rows more are needed, in every stratum."""
    if table.strata is None:
        return
    needed = SMALLEST_TABLE + table.public
    small = int(np.count_nonzero(np.bincount(table.strata) < needed))
    if small:
        raise DataError(
            f"strata: {small} of the groups by {', '.join(roles.strata)} have fewer than {needed} rows",
            "merge small groups, or use fewer columns",
        )


def dictionary_for(rules: Rules, names: Sequence[str]) -> tuple[Dictionary, bool]:
    """The dictionary of these columns, and whether codes and rules are to be looked for instead."""
    if rules is None or rules == "none":
        return Dictionary(), False
    if rules == "infer":
        return Dictionary(), True
    if not isinstance(rules, str | Path | Mapping):
        raise ParameterError(f"rules: cannot be {type(rules).__name__}", "use 'infer', None, a dict or a file")
    dictionary = read_dictionary(rules)
    dictionary.check_names(names)
    return dictionary, False


def _codes_in(table: Microdata, look: Scan, number: int) -> tuple[float, ...]:
    return find_codes(table.values.columns[number], float(look.minimum[number]), float(look.maximum[number]))


def _without_codes(table: Microdata, codes: Mapping[str, tuple[float, ...]]) -> Microdata:
    """Cells with a special code count as missing."""
    columns = list(table.values.columns)
    for number in _confidential(table):
        if table.names[number] in codes:
            values = columns[number]
            columns[number] = np.where(np.isin(values, codes[table.names[number]]), np.nan, values)
    return replace(table, values=Matrix(columns))
