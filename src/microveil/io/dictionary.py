"""The dictionary of the columns: codes that are not values, the values a column can have, rules between columns.

Found in the data (`rules="infer"`) or declared by the user, as a dict or a TOML or JSON file:

    [columns.rd_spending]
    unit = "EUR 1,000"
    special_codes = [-9]
    minimum = 0
    step = 1

    [[sums]]
    total = "turnover_total"
    parts = ["turnover_domestic", "turnover_export"]

    [[sums]]
    total = "sales_total"
    parts = ["sales_home", "sales_other"]
    exceptions = 249      # rows of the original that may break it
    enforce = true        # yet in the release no row does

    [[ratios]]
    ratio = "turnover_per_head"
    numerator = "turnover_total"
    denominator = "employees"

    [[sums]]              # shares: the first is rebuilt as 1 less the others
    total = "share_food"
    parts = ["share_rent", "share_other"]
    coefficients = [-1, -1]
    constant = 1

    [[orders]]
    lower = "wages"
    upper = "turnover_total"

    [columns.region]
    follows_from = "stratum"           # a label of which each label of another column has one

    [columns.age]
    follows_from = "birth"             # dates, or the column of the units
    part = "completed years"
    until = "admitted"

    [[impossible]]                     # labels that no row has together
    columns = ["sex", "pregnant"]
    labels = ["m", "yes"]

A rule with `enforce = false` is not kept, but counted: in how many rows it does not hold, before and after. An order
with `enforce = "if_cheap"` is treated as one that was found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from microveil.core.arrays import Array
from microveil.core.errors import DataError, ParameterError, did_you_mean
from microveil.core.table import Matrix
from microveil.io.config_files import Strict, checked, plain_data, read_config
from microveil.io.frames.validation import LARGEST
from microveil.rules.column_rules import ColumnRules
from microveil.rules.domain import Domain
from microveil.rules.linear_rules import LinearRule, in_order
from microveil.rules.orders import OrderRule
from microveil.rules.ratios import RatioRule, ratio_rule
from microveil.storage.atomic import shown

REPEATS = 3
"""A code is given to several records; a lone extreme value is a value."""

FAR = 2
"""How many times as far from zero as any value a code is, where its sign alone does not set it apart."""

_NINES = re.compile("9{2,9}|9{3,8}[678]")
_LOW_CODE = re.compile("-(?:7{1,9}|8{1,9}|9{1,9}|9{3,8}[678])")
"""99, 999, ...; from four digits on the last may be 6, 7 or 8. And -7, -8, -9, -77, ..., -999, -9998, ..."""

HINT = "`microveil describe INPUT -o FILE.toml` writes one to start from"

Name = Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, int) else value)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class ColumnEntry(Strict):
    """What is known of one column."""

    kind: str | None = Field(None, description="amount, category, date, identifier, ...; by default found")
    unit: str = Field("", description="what its numbers count, for people")
    special_codes: tuple[Finite, ...] = Field(
        (), strict=False, description="numbers that stand for 'refused', 'not applicable', ..."
    )
    minimum: float | None = Field(None, allow_inf_nan=False, description="the least value the column can have")
    maximum: float | None = Field(None, allow_inf_nan=False, description="the largest value the column can have")
    step: float | None = Field(None, gt=0, allow_inf_nan=False, description="values are multiples of it: 1, 0.01, 100")
    levels: tuple[Any, ...] = Field((), strict=False, description="all labels that a category can have")
    missing: bool = Field(False, description="whether cells may be missing; with epsilon, others are never")
    zeros: bool = Field(False, description="zero is a value of its own, and its share of the rows is kept")
    follows_from: Name | None = Field(None, description="the column of labels, dates or units that it follows from")
    part: str | None = Field(None, description="what of dates or units it is: the year, completed years, the sum of")
    until: Name | None = Field(None, description="the other column that it is about: of dates, or of what is counted")
    exceptions: int = Field(0, ge=0, description="rows of the original in which a label may not follow")


class SumEntry(Strict):
    """A total that is the sum of its parts, in every row but for some exceptions."""

    total: Name
    parts: tuple[Name, ...] = Field(min_length=1, strict=False)
    coefficients: tuple[Finite, ...] | None = Field(None, strict=False, description="of the parts, if not all are 1")
    constant: Finite = Field(0.0, description="what is added to the sum: 1 for shares, with coefficients of -1")
    exceptions: int = Field(0, ge=0, description="rows of the original that may break it")
    enforce: bool = Field(True, description="whether it holds in every row of the release, or is only counted")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it is about."""
        return (self.total, *self.parts)


class RatioEntry(Strict):
    """A column that is one column over another, in every row where the other is not zero."""

    ratio: Name
    numerator: Name
    denominator: Name

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it is about."""
        return self.ratio, self.numerator, self.denominator


class OrderEntry(Strict):
    """A column that is never above another, in every row but for some exceptions."""

    lower: Name
    upper: Name
    exceptions: int = Field(0, ge=0, description="rows of the original that may break it")
    enforce: bool | Literal["if_cheap"] = Field(
        True, description="whether it holds in every row of the release, is only counted, or kept if it costs little"
    )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it is about."""
        return self.lower, self.upper


class ImpossibleEntry(Strict):
    """Two labels of two columns that no row has together."""

    columns: tuple[Name, Name] = Field(strict=False)
    labels: tuple[Name, Name] = Field(strict=False)


class Dictionary(Strict):
    """What is known of the columns."""

    columns: dict[Name, ColumnEntry] = Field(default_factory=dict)
    sums: tuple[SumEntry, ...] = Field(default=(), strict=False)
    ratios: tuple[RatioEntry, ...] = Field(default=(), strict=False)
    orders: tuple[OrderEntry, ...] = Field(default=(), strict=False)
    impossible: tuple[ImpossibleEntry, ...] = Field(default=(), strict=False)

    @property
    def computed(self) -> dict[str, ColumnEntry]:
        """The columns that follow from dates or units."""
        return {name: entry for name, entry in self.columns.items() if entry.follows_from and entry.part}

    def codes(self, name: str) -> tuple[float, ...]:
        """The special codes of a column."""
        return self.columns[name].special_codes if name in self.columns else ()

    def among(self, names: Sequence[str]) -> Dictionary:
        """The entries of these columns. A rule of one of them with another column stays, and will be refused.

        Entries of labels, and of columns that follow from others, stay only if both columns are among these.
        """
        nothing = {"follows_from": None, "part": None, "until": None}
        own = {name: entry for name, entry in self.columns.items() if name in names}
        return Dictionary(
            columns={
                name: entry if entry.follows_from in (None, *names) else entry.model_copy(update=nothing)
                for name, entry in own.items()
            },
            impossible=tuple(entry for entry in self.impossible if {*entry.columns} <= {*names}),
            sums=tuple(entry for entry in self.sums if {*entry.columns} & {*names}),
            ratios=tuple(entry for entry in self.ratios if {*entry.columns} & {*names}),
            orders=tuple(entry for entry in self.orders if {*entry.columns} & {*names}),
        )

    def check_names(self, names: Sequence[str]) -> None:
        """Refuse names of columns that do not exist."""
        entries: list[Any] = [*self.sums, *self.ratios, *self.orders, *self.impossible]
        spoken = [name for entry in entries for name in entry.columns]
        spoken += [name for entry in self.columns.values() for name in (entry.follows_from, entry.until) if name]
        for name in (*self.columns, *spoken):
            if name not in names:
                raise ParameterError(f"rules: there is no column {shown(name)}", did_you_mean(name, names))


def read_dictionary(rules: Mapping[str, Any] | str | Path) -> Dictionary:
    """A dictionary from a dict or from a TOML or JSON file."""
    content = rules if isinstance(rules, Mapping) else read_config(Path(rules), HINT, what="rules")
    return checked(Dictionary, "rules", plain_data(content), HINT)


def find_codes(values: Matrix, column: int, minimum: float, maximum: float) -> tuple[float, ...]:
    """Numbers that look like codes, by what they are, how often they occur and how far they are from the rest.

    The column of `values` with this number is looked at from both ends, its `minimum` and its `maximum`, a pass or two
    for each code, wherever its rows are. So a column of which no extreme could be a code costs nothing. A column of
    codes only has no values to set apart from them.
    """
    low, least = _codes_from(values, column, minimum, _LOW_CODE, 1)
    high, largest = _codes_from(values, column, maximum, _NINES, -1)
    if not (least <= largest):
        return ()
    # Below zero, codes are known by their sign; among other negative numbers, -9 is a number, and so is what is near.
    far = FAR * max(abs(least), abs(largest))
    below = [code for code in low if least >= 0 or (code < -far and _is_one(_NINES, -code))]
    above = [code for code in reversed(high) if code > far]
    return (*below, *above)


def codes_of(cells: Array) -> tuple[float, ...]:
    """The special codes of a column in memory; cells that are missing or infinite are none."""
    present = cells[np.isfinite(cells)]
    return find_codes(Matrix([present]), 0, float(present.min()), float(present.max())) if present.size else ()


def _codes_from(
    values: Matrix, column: int, value: float, form: re.Pattern[str], direction: int
) -> tuple[list[float], float]:
    """Codes of a `form` from `value`, an end of a `column` of `values`, in a `direction` (1, -1); the next value."""
    codes: list[float] = []
    while _is_one(form, value) and values.total(partial(_count, value), [column])[0] >= REPEATS:
        codes.append(value)
        value = -direction * float(values.largest(partial(_nearest_beyond, value, direction), [column])[0])
        value = value if np.isfinite(value) else float("nan")
    return codes, value


def _count(value: float, cells: Array, rows: slice) -> Array:  # noqa: ARG001 - every row map is given its rows
    return np.array([float(np.count_nonzero(cells[0] == value))])


def _nearest_beyond(value: float, direction: int, cells: Array, rows: slice) -> Array:  # noqa: ARG001 - as above
    """The least of the `cells` (1 x rows) above the `value`, negated; in `direction` -1, the largest below it."""
    ascending = direction * cells[0]
    return np.array([np.max(-ascending[ascending > direction * value], initial=-np.inf)])


def _is_one(form: re.Pattern[str], value: float) -> bool:
    return form.fullmatch(f"{value:.17g}") is not None


def declared_column_rules(dictionary: Dictionary, names: Sequence[str], values: Matrix) -> ColumnRules:
    """What is declared of the protected columns (`values`, called by `names`), after checking that it holds."""
    columns = zip(names, values.columns, strict=True)
    declared = [declared_domain(name, dictionary.columns.get(name), column) for name, column in columns]
    sums = _kept([entry for entry in dictionary.sums if entry.enforce], names, values)
    _check_no_circle(sums, names)
    entries: list[SumEntry | OrderEntry] = [*dictionary.sums, *dictionary.orders]
    watched = [entry for entry in entries if entry.enforce is not True]
    return ColumnRules(
        sums=sums,
        ratios=declared_ratios(dictionary, names, values),
        declared=declared if any(domain != Domain() for domain in declared) else (),
        orders=_kept([entry for entry in dictionary.orders if entry.enforce is True], names, values),
        found_orders=_kept([entry for entry in dictionary.orders if entry.enforce == "if_cheap"], names, values),
        watched=[_rule(entry, names, values) for entry in watched if {*entry.columns} <= {*names}],
    )


def _kept(entries: Sequence[SumEntry | OrderEntry], names: Sequence[str], values: Matrix) -> list[Any]:
    """The rules of some entries between protected columns, after checking that they hold where all cells are."""
    rules = []
    for entry in entries:
        if _is_protected(entry, "sum" if isinstance(entry, SumEntry) else "order", names):
            rule = _rule(entry, names, values)
            broken = rule.broken(values) if isinstance(rule, LinearRule) else rule.broken(values.columns)
            _check_broken(entry, broken, values)
            rules.append(rule)
    return rules


def _is_protected(entry: SumEntry | OrderEntry | RatioEntry, kind: str, names: Sequence[str]) -> bool:
    """Are all columns of a rule protected? With none of them the rule holds as it did; some only cannot be."""
    outside = [name for name in entry.columns if name not in names]
    if outside and len(outside) < len(entry.columns):
        raise ParameterError(
            f"rules: the {kind} of {shown(entry.columns[0])} needs {shown(outside[0])}, which is not protected",
            f"protect all columns of a rule, or none{'' if kind == 'ratio' else ', or say enforce = false'}",
        )
    return not outside


def _rule(entry: SumEntry | OrderEntry, names: Sequence[str], values: Matrix) -> LinearRule | OrderRule:
    """The rule of an entry, between columns by number."""
    if isinstance(entry, OrderEntry):
        if entry.lower == entry.upper:
            raise ParameterError(f"rules: {shown(entry.lower)} is below itself", "name two columns")
        return OrderRule(names.index(entry.lower), names.index(entry.upper))
    if len(set(entry.columns)) < len(entry.columns):
        raise ParameterError(f"rules: the sum for {shown(entry.total)} names a column twice", "name each once")
    coefficients = entry.coefficients or (1.0,) * len(entry.parts)
    if len(coefficients) != len(entry.parts) or 0 in coefficients:
        raise ParameterError(
            f"rules: the coefficients of {shown(entry.total)} do not fit its parts", "give each part one other than 0"
        )
    terms = {names.index(part): factor for part, factor in zip(entry.parts, coefficients, strict=True)}
    for (j, factor), part in zip(terms.items(), entry.parts, strict=True):
        if values.largest(_size, [j])[0] > LARGEST / max(abs(factor), 1.0):
            raise ParameterError(
                f"rules: the coefficient of {shown(part)} in {shown(entry.total)} makes it too large to be squared",
                "correct it",
            )
    return LinearRule(names.index(entry.total), terms, entry.constant)


def _size(cells: Array, rows: slice) -> Array:  # noqa: ARG001 - every row map is given its rows
    return np.array([np.fmax.reduce(np.abs(cells[0]), initial=0.0)])


def _check_broken(entry: SumEntry | OrderEntry, broken: int, values: Matrix) -> None:
    """What is declared must hold, or somebody must have said in how many rows it does not."""
    problem, rows = f"{shown(entry.columns[0])} is not the sum of its parts", values.shape[0]
    if isinstance(entry, OrderEntry):
        problem = f"{shown(entry.lower)} is above {shown(entry.upper)}"
    found = f"rules: {problem} in {broken} of {rows} rows"
    if broken == rows:
        raise DataError(found, "correct the dictionary, or take the rule out")
    if broken > entry.exceptions:
        raise DataError(
            found,
            f"correct them, take the rule out, say exceptions = {broken} to have it in every row of the release, or "
            "enforce = false to have it counted only",
        )


def declared_ratios(dictionary: Dictionary, names: Sequence[str], values: Matrix) -> list[RatioRule]:
    """The declared ratios as rules between protected columns, after checking that they hold."""
    place = {name: j for j, name in enumerate(names)}
    totals = {entry.total for entry in dictionary.sums}
    rules: list[RatioRule] = []
    for entry in dictionary.ratios:
        members = entry.columns
        if not _is_protected(entry, "ratio", names):
            continue
        if len(set(members)) < len(members) or entry.ratio in totals:
            raise ParameterError(f"rules: the ratio '{entry.ratio}' is more than a ratio", "give each column one rule")
        rule = ratio_rule(values.columns, *(place[name] for name in members))
        broken = rule.broken(values.columns)
        if broken:
            raise DataError(
                f"rules: '{entry.ratio}' is not the ratio of its columns in {broken} of {values.shape[0]} rows",
                "correct the rows or take the ratio out of the rules",
            )
        rules.append(rule)
    ratios = {rule.column for rule in rules}
    if ratios & {j for rule in rules for j in (rule.numerator, rule.denominator)}:
        raise ParameterError("rules: a ratio is made of another ratio", "declare it in terms of plain columns")
    if len(ratios) < len(rules):
        raise ParameterError("rules: a ratio is declared twice", "declare each ratio once")
    if ratios & {place.get(part) for entry in dictionary.sums for part in entry.parts}:
        raise ParameterError("rules: a ratio is part of a sum", "declare the sum in terms of plain columns")
    return rules


def declared_domain(name: str, entry: ColumnEntry | None, values: Array) -> Domain:
    """What an entry says of a column's values; where zeros are to be kept, their share is that of the data."""
    if entry is None:
        return Domain()
    domain = Domain(entry.minimum, entry.maximum, entry.step, 1.0 if entry.zeros else None)
    least, largest = domain.bounds()
    if least is not None and largest is not None and least > largest:
        raise ParameterError(
            f"rules: no value of column '{name}' is between its minimum and maximum (and a multiple of its step)",
            "correct the dictionary",
        )
    if entry.zeros and ((least is not None and least > 0) or (largest is not None and largest < 0)):
        raise ParameterError(f"rules: column '{name}' has zeros, but its bounds exclude zero", "correct the dictionary")
    bounded = Domain(entry.minimum, entry.maximum)
    if bounded.outside(values) == np.count_nonzero(~np.isnan(values)):
        raise DataError(
            f"rules: every value of column '{name}' is outside its minimum and maximum",
            "correct the dictionary; its unit may be another than that of the data",
        )
    return domain.here(values)


def _check_no_circle(rules: Sequence[LinearRule], names: Sequence[str]) -> None:
    totals = {rule.column for rule in rules}
    if len(totals) < len(rules):
        raise ParameterError("rules: a total is declared twice", "declare each total once")
    _, circular = in_order(rules, set(range(len(names))) - totals)
    if circular:
        name = names[circular[0].column]
        raise ParameterError(f"rules: the sum for '{name}' goes round in a circle", "declare totals of parts")
