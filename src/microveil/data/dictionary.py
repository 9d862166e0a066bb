"""The dictionary of the columns: codes that are not values, the values a column can have, sums and ratios that hold.

Found in the data (`rules="infer"`) or declared by the user, as a dict or a TOML or JSON file:

    [columns.rd_spending]
    special_codes = [-9]
    minimum = 0
    step = 1

    [[sums]]
    total = "turnover_total"
    parts = ["turnover_domestic", "turnover_export"]

    [[ratios]]
    ratio = "turnover_per_head"
    numerator = "turnover_total"
    denominator = "employees"
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from microveil.core.arrays import Array
from microveil.core.dependence import LinearRule, in_order
from microveil.core.domain import Domain
from microveil.core.errors import DataError, FileError, ParameterError, did_you_mean
from microveil.core.ratios import RatioRule, ratio_rule

NEGATIVE_CODES = frozenset(
    {-7.0, -8.0, -9.0, -77.0, -88.0, -99.0, -777.0, -888.0, -999.0, -9999.0, -99999.0, -999999.0}
)
HIGH_CODES = frozenset({10.0**digits - 1 for digits in range(2, 9)} | {10.0**digits - 2 for digits in range(4, 9)})
"""99, 999, ... and 9998, 99998, ..."""

REPEATS = 3
"""A code is given to several records; a lone extreme value is a value."""

Name = Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, int) else value)]


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class ColumnEntry(_Entry):
    """What is known of one column."""

    special_codes: tuple[float, ...] = Field((), description="numbers that stand for 'refused', 'not applicable', ...")
    minimum: float | None = Field(None, allow_inf_nan=False, description="the least value the column can have")
    maximum: float | None = Field(None, allow_inf_nan=False, description="the largest value the column can have")
    step: float | None = Field(None, gt=0, allow_inf_nan=False, description="values are multiples of it: 1, 0.01, 100")
    zeros: bool = Field(False, description="zero is a value of its own, and its share of the rows is kept")


class SumEntry(_Entry):
    """A total that is the sum of its parts, in every row."""

    total: Name
    parts: tuple[Name, ...] = Field(min_length=1)


class RatioEntry(_Entry):
    """A column that is one column over another, in every row where the other is not zero."""

    ratio: Name
    numerator: Name
    denominator: Name


class Dictionary(_Entry):
    """What is known of the columns."""

    columns: dict[Name, ColumnEntry] = Field(default_factory=dict)
    sums: tuple[SumEntry, ...] = ()
    ratios: tuple[RatioEntry, ...] = ()

    def codes(self, name: str) -> tuple[float, ...]:
        """The special codes of a column."""
        return self.columns[name].special_codes if name in self.columns else ()

    def check_names(self, names: Sequence[str]) -> None:
        """Every column that is spoken of must exist."""
        sums = (name for entry in self.sums for name in (entry.total, *entry.parts))
        ratios = (name for entry in self.ratios for name in (entry.ratio, entry.numerator, entry.denominator))
        spoken = [*self.columns, *sums, *ratios]
        for name in spoken:
            if name not in names:
                raise ParameterError(f"rules: there is no column '{name}'", did_you_mean(name, names))


def read_dictionary(rules: Mapping[str, Any] | str | Path) -> Dictionary:
    """A dictionary from a dict or from a TOML or JSON file."""
    if not isinstance(rules, Mapping):
        rules = _load(Path(rules))
    try:
        return Dictionary.model_validate(dict(rules))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        problem = f"rules: {where}: {first['msg'].lower()}"
    raise ParameterError(problem, "`microveil describe INPUT --save FILE` writes one to start from")


def _load(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        return dict(json.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text))
    except OSError as error:
        raise FileError(f"rules: cannot read '{path}': {error.strerror}", "give a TOML or JSON file") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, json.JSONDecodeError, TypeError, ValueError):
        raise FileError(f"rules: '{path}' is not valid TOML or JSON", "check its syntax") from None


def find_codes(values: Array, minimum: float, maximum: float) -> tuple[float, ...]:
    """Numbers that look like codes, by what they are, how often they occur and how far from the rest they stand.

    Looked for only where an extreme of the column could be one, so a clean column costs nothing.
    """
    if minimum not in NEGATIVE_CODES and maximum not in HIGH_CODES:
        return ()
    present, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    found: list[int] = []
    below = np.flatnonzero(present < 0).tolist()
    # -9 among other negative numbers is a number, and a column of codes only has no values to set apart from them.
    if below and all(present[k] in NEGATIVE_CODES and counts[k] >= REPEATS for k in below) and present[-1] >= 0:
        found = below
    top = present.size - 1
    if maximum in HIGH_CODES and counts[top] >= REPEATS:
        rest = np.delete(present, [*found, top])
        if rest.size and maximum > 2 * np.abs(rest).max():
            found = [*found, top]
    return tuple(float(present[k]) for k in found)


def declared_rules(dictionary: Dictionary, columns: Mapping[str, Array]) -> list[LinearRule]:
    """The declared sums as rules between protected columns, after checking that they hold where all cells are."""
    place = {name: j for j, name in enumerate(columns)}
    rules = []
    for entry in dictionary.sums:
        members = (entry.total, *entry.parts)
        outside = [name for name in members if name not in place]
        if len(outside) == len(members):
            continue
        if outside:
            raise ParameterError(
                f"rules: the sum for '{entry.total}' needs '{outside[0]}', which is not protected",
                "protect all columns of a sum, or none",
            )
        if len(set(members)) < len(members):
            raise ParameterError(f"rules: the sum for '{entry.total}' names a column twice", "name each once")
        gap = columns[entry.total] - np.sum([columns[name] for name in entry.parts], axis=0)
        size = np.sum([np.abs(columns[name]) for name in members], axis=0)
        broken = int(np.count_nonzero(np.abs(gap) > 1e-9 * size))
        if broken:
            raise DataError(
                f"rules: '{entry.total}' is not the sum of its parts in {broken} of {gap.size} rows",
                "correct the rows or take the sum out of the rules",
            )
        rules.append(LinearRule(place[entry.total], {place[name]: 1.0 for name in entry.parts}))
    _check_no_circle(rules, list(columns))
    return rules


def declared_ratios(dictionary: Dictionary, columns: Mapping[str, Array]) -> list[RatioRule]:
    """The declared ratios as rules between protected columns, after checking that they hold."""
    place = {name: j for j, name in enumerate(columns)}
    values = list(columns.values())
    totals = {entry.total for entry in dictionary.sums}
    rules: list[RatioRule] = []
    for entry in dictionary.ratios:
        members = (entry.ratio, entry.numerator, entry.denominator)
        outside = [name for name in members if name not in place]
        if len(outside) == len(members):
            continue
        if outside:
            raise ParameterError(
                f"rules: the ratio '{entry.ratio}' needs '{outside[0]}', which is not protected",
                "protect all columns of a ratio, or none",
            )
        if len(set(members)) < len(members) or entry.ratio in totals:
            raise ParameterError(f"rules: the ratio '{entry.ratio}' is more than a ratio", "give each column one rule")
        rule = ratio_rule(values, *(place[name] for name in members))
        broken = rule.broken(values)
        if broken:
            raise DataError(
                f"rules: '{entry.ratio}' is not the ratio of its columns in {broken} of {values[0].size} rows",
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
    return domain.here(values)


def _check_no_circle(rules: Sequence[LinearRule], names: Sequence[str]) -> None:
    totals = {rule.column for rule in rules}
    if len(totals) < len(rules):
        raise ParameterError("rules: a total is declared twice", "declare each total once")
    _, circular = in_order(rules, set(range(len(names))) - totals)
    if circular:
        name = names[circular[0].column]
        raise ParameterError(f"rules: the sum for '{name}' goes round in a circle", "declare totals of parts")
