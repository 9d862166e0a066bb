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
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from microveil.core.arrays import Array
from microveil.core.errors import DataError, ParameterError, did_you_mean
from microveil.core.table import Matrix
from microveil.io.config_files import Strict, checked, plain_data, read_toml_or_json
from microveil.io.frames.validation import LARGEST
from microveil.rules.column_rules import Rule
from microveil.rules.domain import Domain
from microveil.rules.linear_rules import LinearRule, in_order
from microveil.rules.orders import OrderRule
from microveil.rules.ratios import RatioRule, ratio_rule
from microveil.storage.atomic import shown

REPEATS = 3
"""A code is given to several records; a lone extreme value is a value."""

FAR = 2
"""How many times as far from zero as any value a code stands, where its sign alone does not set it apart."""

_NINES = re.compile("9{2,9}|9{3,8}[678]")
_LOW_CODE = re.compile("-(?:7{1,9}|8{1,9}|9{1,9}|9{3,8}[678])")

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
        """What is said of these columns; a rule of some of them and of others stays, and cannot be kept.

        What is said of labels, and what follows from others, is about two columns that are both there, or is not said.
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
        """Every column that is spoken of must exist."""
        rules: tuple[SumEntry | RatioEntry | OrderEntry | ImpossibleEntry, ...] = (
            *self.sums,
            *self.ratios,
            *self.orders,
        )
        spoken = [name for entry in (*rules, *self.impossible) for name in entry.columns]
        spoken += [name for entry in self.columns.values() for name in (entry.follows_from, entry.until) if name]
        for name in (*self.columns, *spoken):
            if name not in names:
                raise ParameterError(f"rules: there is no column {shown(name)}", did_you_mean(name, names))


def read_dictionary(rules: Mapping[str, Any] | str | Path) -> Dictionary:
    """A dictionary from a dict or from a TOML or JSON file."""
    content = rules if isinstance(rules, Mapping) else read_toml_or_json(Path(rules), HINT, what="rules")
    return checked(Dictionary, "rules", plain_data(content), HINT)


def find_codes(values: Matrix, column: int, minimum: float, maximum: float) -> tuple[float, ...]:
    """Numbers that look like codes, by what they are, how often they occur and how far from the rest they stand.

    The column is looked at from both ends, a pass or two for each code, wherever its rows are. So a column of which no
    extreme could be a code costs nothing. A column of codes only has no values to set apart from them.
    """
    low, least = _codes_from(values, column, minimum, _is_low_code, 1)
    high, largest = _codes_from(values, column, maximum, _is_nines, -1)
    if not (least <= largest):
        return ()
    # Below zero, codes are known by their sign; among other negative numbers, -9 is a number, and so is what is near.
    far = FAR * max(abs(least), abs(largest))
    below = [code for code in low if least >= 0 or (code < -far and _is_nines(-code))]
    above = [code for code in reversed(high) if code > far]
    return (*below, *above)


def _codes_from(
    values: Matrix, column: int, value: float, is_code: Callable[[float], bool], direction: int
) -> tuple[list[float], float]:
    """Codes from `value`, an end of a `column`, in a `direction` (1 up, -1 down); the first other value, or NaN."""
    codes: list[float] = []
    while is_code(value) and values.total(partial(_count, value), [column])[0] >= REPEATS:
        codes.append(value)
        value = -direction * float(values.largest(partial(_nearest_beyond, value, direction), [column])[0])
        value = value if np.isfinite(value) else float("nan")
    return codes, value


def _count(value: float, cells: Array, rows: slice) -> Array:  # noqa: ARG001 - a row map hears of its rows
    return np.array([float(np.count_nonzero(cells[0] == value))])


def _nearest_beyond(value: float, direction: int, cells: Array, rows: slice) -> Array:  # noqa: ARG001 - as above
    ascending = direction * cells[0]
    return np.array([np.max(-ascending[ascending > direction * value], initial=-np.inf)])


def _is_low_code(value: float) -> bool:
    """-7, -8, -9, -77, ..., -999, -9998, ..."""
    return _LOW_CODE.fullmatch(f"{value:.17g}") is not None


def _is_nines(value: float) -> bool:
    """99, 999, ...; from four digits on the last may be 6, 7 or 8."""
    return _NINES.fullmatch(f"{value:.17g}") is not None


def declared_rules(dictionary: Dictionary, names: Sequence[str], values: Matrix) -> list[LinearRule]:
    """The declared sums as rules between protected columns, after checking that they hold where all cells are.

    The protected columns are those of `values`, wherever its rows are, in the order of `names`.
    """
    kept = [entry for entry in dictionary.sums if entry.enforce and _is_protected(entry, "sum", names)]
    rules = [_sum_rule(entry, names, values) for entry in kept]
    for entry, rule in zip(kept, rules, strict=True):
        broken = rule.broken(values)
        _check_broken(f"{shown(entry.total)} is not the sum of its parts", broken, entry.exceptions, values)
    _check_no_circle(rules, names)
    return rules


def declared_orders(
    dictionary: Dictionary, names: Sequence[str], values: Matrix, *, enforce: bool | str = True
) -> list[OrderRule]:
    """The declared orders that say so of `enforce`, between protected columns, after checking that they hold."""
    kept = [entry for entry in dictionary.orders if entry.enforce == enforce and _is_protected(entry, "order", names)]
    rules = [_order_rule(entry, names) for entry in kept]
    for entry, rule in zip(kept, rules, strict=True):
        broken = rule.broken(values.columns)
        _check_broken(f"{shown(entry.lower)} is above {shown(entry.upper)}", broken, entry.exceptions, values)
    return rules


def watched_rules(dictionary: Dictionary, names: Sequence[str], values: Matrix) -> list[Rule]:
    """Rules that are not kept, but counted."""
    sums = [entry for entry in dictionary.sums if not entry.enforce and set(names) >= set(entry.columns)]
    orders = [entry for entry in dictionary.orders if entry.enforce is not True and set(names) >= set(entry.columns)]
    return [*(_sum_rule(entry, names, values) for entry in sums), *(_order_rule(entry, names) for entry in orders)]


def _is_protected(entry: SumEntry | OrderEntry | RatioEntry, kind: str, names: Sequence[str]) -> bool:
    """Are all columns of a rule protected? With none of them the rule holds as it did; some only cannot be."""
    outside = [name for name in entry.columns if name not in names]
    if outside and len(outside) < len(entry.columns):
        raise ParameterError(
            f"rules: the {kind} of {shown(entry.columns[0])} needs {shown(outside[0])}, which is not protected",
            f"protect all columns of a rule, or none{'' if kind == 'ratio' else ', or say enforce = false'}",
        )
    return not outside


def _sum_rule(entry: SumEntry, names: Sequence[str], values: Matrix) -> LinearRule:
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


def _size(cells: Array, rows: slice) -> Array:  # noqa: ARG001 - a row map hears of its rows
    return np.array([np.fmax.reduce(np.abs(cells[0]), initial=0.0)])


def _order_rule(entry: OrderEntry, names: Sequence[str]) -> OrderRule:
    if entry.lower == entry.upper:
        raise ParameterError(f"rules: {shown(entry.lower)} is below itself", "name two columns")
    return OrderRule(names.index(entry.lower), names.index(entry.upper))


def _check_broken(problem: str, broken: int, exceptions: int, values: Matrix) -> None:
    """What is declared must hold, or somebody must have said in how many rows it does not (the `exceptions`)."""
    rows = values.shape[0]
    found = f"rules: {problem} in {broken} of {rows} rows"
    if broken == rows:
        raise DataError(found, "correct the dictionary, or take the rule out")
    if broken > exceptions:
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
