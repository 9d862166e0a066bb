"""A description of the columns of a table that shows none of its values, except labels that never meet.

It is what `protect` finds by itself, by the same searches: codes, domains, rules; and what it does not act on: sums
with exceptions, heaps at round numbers, columns that look like identifiers. Relations are between columns that are no
plain amounts: labels that follow from labels, columns that follow from dates, numbers and units, pairs that never meet.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from microveil.core.arrays import Array
from microveil.core.displayed import Displayed
from microveil.core.rng import Streams
from microveil.core.table import Matrix
from microveil.core.threads import single_threaded_blas
from microveil.intake.declared import entry_of, flags_among, level_words
from microveil.intake.from_dates import YEARS, find_date_rules, find_dated_labels
from microveil.intake.from_values import find_value_rules
from microveil.intake.kinds import LABELS, LEFT_OUT, NUMBERS, TIMES, ColumnKind, find_kinds
from microveil.intake.unit_rules import PLACE, SIZE, UnitRule, find_unit_rules, smallest_first
from microveil.io.dictionary import codes_of
from microveil.io.frames.dataframes import Frame
from microveil.io.frames.validation import can_be_squared
from microveil.rules.domain import heaping, learnt_domain
from microveil.rules.label_rules import LabelRules
from microveil.rules.linear_rules import LinearRule, dependence_among
from microveil.rules.near_rules import NearSum, find_near_sums
from microveil.rules.orders import MOST_COST, OrderRule, find_orders, implied_orders, of_one_measure
from microveil.rules.ratios import RatioRule, find_ratios


@dataclass(frozen=True)
class Relations:
    """Columns that follow from others, and labels that never meet, as the dictionary of the columns says it.

    What follows has the `column`, what it `follows_from`, the rows (of the size of units: the units) that are
    `exceptions`, and of dates and units the `part` that it is.
    """

    follows: list[dict[str, Any]] = field(default_factory=list)
    impossible: list[dict[str, list[str]]] = field(default_factory=list)

    @property
    def sentences(self) -> list[str]:
        """What follows, as a person would say it."""
        said = []
        for entry in self.follows:
            how = f": {entry['part']}" if entry.get("part") else ""
            link = " until" if entry.get("part") == YEARS else ""
            other = f"{link} {entry['until']}" if entry.get("until") else ""
            units = "units" if entry.get("part") == SIZE else "rows"
            but = f" (but for {entry['exceptions']} {units})" if entry["exceptions"] else ""
            said.append(f"{entry['column']} follows from {entry['follows_from']}{how}{other}{but}")
        return said

    @property
    def pairs(self) -> list[str]:
        """Labels that never meet, likewise."""
        return [
            " and ".join(f"{c} = {label}" for c, label in zip(entry["columns"], entry["labels"], strict=True))
            for entry in self.impossible
        ]

    def entries(self) -> dict[str, dict[str, Any]]:
        """What the dictionary says of columns that follow: what is kept, so not sizes that have exceptions."""
        kept = [entry for entry in self.follows if not (entry.get("part") and entry["exceptions"])]
        return {
            entry["column"]: {key: value for key, value in entry.items() if key != "column" and value} for entry in kept
        }


def find_relations(frame: Frame, kinds: Mapping[str, ColumnKind]) -> Relations:
    """The relations of the columns of a table whose dates count as numbers."""
    numbers = [name for name, found in kinds.items() if found.kind in NUMBERS and frame.is_numeric(name)]
    labels = [name for name, found in kinds.items() if found.kind in LABELS]
    of_dates = [*find_date_rules(frame, numbers), *find_dated_labels(frame, labels)] if frame.times else []
    of_units: list[UnitRule] = []
    unit = next(iter(smallest_first(frame, [name for name, found in kinds.items() if found.kind == "unit"])), None)
    if unit is not None and not frame.missing(unit):
        left = [name for name in (*numbers, *frame.times, *labels) if name not in {rule.column for rule in of_dates}]
        of_units = find_unit_rules(frame, unit, left, numbers, labels)
    computed = {rule.column for rule in of_dates} | {rule.column for rule in of_units}
    left = [name for name in numbers if name not in computed]
    labels = [name for name in labels if name not in computed]
    of_values = find_value_rules(frame, left, dict.fromkeys(left, False) | dict.fromkeys(labels, True))
    computed |= {rule.column for rule in of_values}
    labels = [name for name in labels if name not in computed]
    stay = [rule.column for rule in of_units if rule.part == PLACE][:1] if labels else []
    stay += flags_among(frame.numbers, [name for name in numbers if name not in computed]) if labels else []
    labels = [*stay, *labels]
    rules = LabelRules.among([frame.labels(name) for name in labels], range(len(stay)))
    follows: list[dict[str, Any]] = [
        {"column": labels[rule.column], "follows_from": labels[rule.source], "exceptions": rule.exceptions}
        for rule in rules.dependencies
    ]
    follows += [{"column": rule.column, **entry_of(rule), "exceptions": 0} for rule in of_dates]
    follows += [{"column": rule.column, **entry_of(rule), "exceptions": 0} for rule in of_values]
    follows += [{"column": rule.column, **entry_of(rule), "exceptions": rule.exceptions} for rule in of_units]
    words = {j: level_words(frame, labels[j]) for pair in rules.pairs for j in pair.columns}
    impossible = [
        {
            "columns": [labels[j] for j in pair.columns],
            "labels": [words[j][level] for j, level in zip(pair.columns, pair.levels, strict=True)],
        }
        for pair in rules.pairs
    ]
    return Relations(follows, impossible)


_UNIT = re.compile(r"[(\[]\s*([^()\[\]]{1,20}?)\s*[)\]]\s*$")
UNITS = {"pct": "%", "percent": "%", "eur": "EUR", "usd": "USD", "gbp": "GBP", "kg": "kg", "km": "km", "kwh": "kWh"}
"""Last words of a column's name that are units."""

ORDERS_ARE = f"kept by veil, unless that costs more than {MOST_COST:g} of a rank correlation; counted by other methods"


@dataclass(frozen=True)
class ColumnDescription:
    """One column. Shares are of the cells with a value; what only numbers have is None for text.

    `minimum` and `maximum` are bounds that all values keep (a sign), never extremes, which are values of records.
    """

    name: str
    content: str
    """number, whole, flag, constant, text, or what keeps numbers from being used: empty, infinite, ..."""

    missing: int
    distinct: int
    kind: str = ""
    reason: str = ""
    doubtful: bool = False
    unit: str = ""
    integer: bool | None = None
    step: float | None = None
    decimals: int | None = None
    minimum: float | None = None
    maximum: float | None = None
    zeros: float | None = None
    zero_spike: bool = False
    special_codes: tuple[float, ...] = ()
    coded: int = 0
    heaping: Mapping[int, float] = field(default_factory=dict)

    @property
    def numeric(self) -> bool:
        """Whether it holds numbers."""
        return self.content != "text"

    def to_entry(self) -> dict[str, Any]:
        """What the dictionary of the columns says of this one: nothing, if there is nothing to say of its values."""
        kind = {} if self.kind in (*NUMBERS, "constant") else {"kind": self.kind}
        if self.content not in ("number", "whole", "flag") or self.kind not in NUMBERS:
            return kind
        entry = {
            "unit": self.unit or None,
            "special_codes": list(self.special_codes) or None,
            "minimum": self.minimum,
            "maximum": self.maximum,
            "step": self.step,
            "zeros": self.zero_spike or None,
        }
        return {key: value for key, value in entry.items() if value is not None}


@dataclass(frozen=True)
class Description(Displayed):
    """A table: its columns, and the rules between them.

    `rules` hold in every row, `near_rules` but for some rows, and `orders` say which column is never above which.
    `treatments` tells what `protect` does with each of them.
    """

    rows: int
    columns: list[ColumnDescription]
    rules: list[str]
    near_rules: list[dict[str, Any]]
    orders: list[dict[str, Any]]
    sums: list[dict[str, Any]]
    ratios: list[dict[str, str]]
    relations: Relations = field(default_factory=Relations)
    """Columns that follow from labels, dates or units, and labels that never meet."""
    treatments: dict[str, str] = field(default_factory=dict)

    @property
    def identifiers(self) -> dict[str, str]:
        """The columns that name or number the records, or units of them, and why."""
        return {column.name: column.reason for column in self.columns if column.kind in ("identifier", "unit")}

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        plain = asdict(self)
        for column, found in zip(plain["columns"], self.columns, strict=True):
            column["numeric"] = found.numeric
            column["heaping"] = {str(base): share for base, share in found.heaping.items()}
        return plain

    def to_dictionary(self) -> dict[str, Any]:
        """The part that `protect(rules=...)` takes back, for a user to edit. What has exceptions is not enforced.

        A column is made by one rule: one of a sum or a ratio does not follow from another column, and one that follows
        is in no order.
        """
        sums = [entry for entry in self.sums if entry.get("enforce", True)]
        made = {name for entry in sums for name in (entry["total"], *entry["parts"])}
        made |= {name for entry in self.ratios for name in entry.values()}
        follows = {name: entry for name, entry in self.relations.entries().items() if name not in made}
        counted = [
            entry for entry in self.sums if entry not in sums and not {entry["total"], *entry["parts"]} & {*follows}
        ]
        orders = [entry for entry in self.orders if not {entry["lower"], entry["upper"]} & {*follows}]
        entries = {
            column.name: entry
            for column in self.columns
            if (entry := {**column.to_entry(), **follows.get(column.name, {})})
        }
        rules = {"sums": [*sums, *counted], "ratios": self.ratios, "orders": orders}
        pairs = {"impossible": self.relations.impossible} if self.relations.impossible else {}
        return {"columns": entries, **rules, **pairs}


def describe_table(frame: Frame) -> Description:
    """Look at every column, then for rules between the numeric ones."""
    columns, numbers = [], {}
    kinds = find_kinds(frame, {})
    frame = frame.with_times([name for name, found in kinds.items() if found.kind in TIMES])
    for name in frame.names:
        of = kinds[name]
        if frame.is_numeric(name):
            described, clean = _number_column(frame, name)
            # a rule with a column that does not leave as it is would not hold in the release
            if described.content in ("number", "whole", "flag") and of.kind not in (*LEFT_OUT, "unit"):
                numbers[name] = clean
        else:
            described = ColumnDescription(name, "text", frame.missing(name), frame.levels(name))
        columns.append(replace(described, kind=of.kind, reason=of.reason, doubtful=of.doubtful))
    names = list(numbers)
    no_amounts = {column.name for column in columns if column.kind not in (*NUMBERS, *TIMES)}
    identifiers = {names.index(name) for name in no_amounts if name in numbers}
    found = _Rules.among(Matrix(list(numbers.values())), identifiers, names)
    relations = find_relations(frame, kinds)
    return Description(
        rows=frame.count,
        columns=columns,
        rules=[*(rule.sentence(names) for rule in found.exact), *(ratio.sentence(names) for ratio in found.ratios)],
        near_rules=[
            {"rule": near.rule.sentence(names), "exceptions": near.exceptions, "rows": near.rows} for near in found.near
        ],
        orders=[{"lower": names[o.lower], "upper": names[o.upper], "enforce": "if_cheap"} for o in found.orders],
        sums=[
            *(_as_sum(rule, names) for rule in found.exact if rule.round_constant is not None),
            *({**_as_sum(n.rule, names), "exceptions": n.exceptions, "enforce": False} for n in found.near),
        ],
        ratios=[
            {"ratio": names[r.column], "numerator": names[r.numerator], "denominator": names[r.denominator]}
            for r in found.ratios
        ],
        relations=relations,
        treatments=found.treatments(names, {entry["column"] for entry in relations.follows}),
    )


def _number_column(frame: Frame, name: str) -> tuple[ColumnDescription, Array]:
    """The description, and the column without its codes."""
    values = frame.numbers(name)
    if not frame.is_held(name):
        return ColumnDescription(name, "beyond float64", frame.missing(name), frame.levels(name)), values
    present = values[~np.isnan(values)]
    missing = values.size - present.size
    if present.size == 0 or np.isinf(present).any():
        return ColumnDescription(name, "infinite" if present.size else "empty", missing, 0), values
    codes = frame.found_codes[name] if name in frame.found_codes else codes_of(present)
    clean = np.where(np.isin(values, codes), np.nan, values) if codes else values
    real = clean[~np.isnan(clean)]
    distinct = int(np.unique(real).size)
    if not can_be_squared(float(real.min()), float(real.max())):
        return ColumnDescription(name, "beyond squaring", missing, distinct, special_codes=codes), clean
    if distinct == 1:  # its step would be its value
        return ColumnDescription(name, "constant", missing, 1, special_codes=codes), clean
    domain = learnt_domain(clean, float(real.min()), float(real.max()))
    integer = domain.step is not None and domain.step >= 1
    described = ColumnDescription(
        name,
        "flag" if distinct == 2 else "whole" if integer else "number",
        missing,
        distinct,
        unit=_unit(name),
        integer=integer,
        step=domain.step,
        decimals=None if domain.step is None else max(0, -round(np.log10(min(domain.step, 1.0)))),
        minimum=domain.minimum,
        maximum=domain.maximum,
        zeros=float(np.count_nonzero(real == 0) / real.size),
        zero_spike=domain.zeros is not None,
        special_codes=codes,
        coded=present.size - real.size,
        heaping=heaping(real, domain.step),
    )
    return described, clean


def _unit(name: str) -> str:
    """The text in brackets at the end of a name, or is a last word that is a unit."""
    if found := _UNIT.search(name):
        return found[1]
    words = re.findall(r"[A-Za-z]+", name)
    return UNITS.get(words[-1].lower(), "") if len(words) > 1 else ""


def _as_sum(rule: LinearRule, names: Sequence[str]) -> dict[str, Any]:
    entry: dict[str, Any] = {"total": names[rule.column], "parts": [names[j] for j in rule.terms]}
    if set(rule.terms.values()) != {1.0}:
        entry["coefficients"] = [float(c) for c in rule.terms.values()]
    return {**entry, "constant": rule.constant} if rule.constant else entry


@dataclass(frozen=True, repr=False)
class _Rules:
    """The rules between columns of numbers, by their places."""

    exact: Sequence[LinearRule] = ()
    near: Sequence[NearSum] = ()
    ratios: Sequence[RatioRule] = ()
    orders: Sequence[OrderRule] = ()

    def treatments(self, names: Sequence[str], following: Collection[str]) -> dict[str, str]:
        """What `protect` does with each rule, by its sentence; columns `following` from one other are made of that."""
        declared = "kept only if the dictionary of the columns says so"
        done = {}
        for rule in self.exact:
            first = next((names[j] for j in (*rule.terms, rule.column) if names[j] in following), "")
            said = f"kept: {first or names[rule.column]} is computed from the others"
            if first and len(rule.terms) > 1:  # what follows from a column follows from its multiple
                said = f"by veil {declared}, as {first} follows from one column"
            done[rule.sentence(names)] = said
        done |= {near.rule.sentence(names): declared for near in self.near}
        done |= {
            ratio.sentence(names): f"kept: {names[ratio.column]} is computed from the others, where no moment is "
            "promised exactly"
            for ratio in self.ratios
        }
        return done | {order.sentence(names): ORDERS_ARE for order in self.orders}

    @classmethod
    def among(cls, values: Matrix, identifiers: Collection[int], names: Sequence[str]) -> _Rules:
        """Ratios first, then exact sums of what is no ratio, then sums with exceptions of what is no total.

        What numbers the records is in no order with amounts, and nearly a sum of them by accident only.
        """
        count, width = values.shape
        if width < 2 or count <= width:
            return cls()
        holes = np.isnan(np.column_stack(values.columns))
        missing = holes if holes.any() else None
        with single_threaded_blas():
            ratios = find_ratios(values)
            made = {ratio.column for ratio in ratios}
            found = dependence_among(values, [j for j in range(width) if j not in made], missing)
            stream = Streams.from_seed(0).stream("describe")  # picks the rows of large tables, the same each time
            amounts = [j for j in found.independent if j not in identifiers]
            near = find_near_sums(values, amounts, missing, stream)
        exact = [rule for rule in found.rules if rule.exact]
        orders = find_orders(values, implied_orders(values, [*exact, *(sum_.rule for sum_ in near)]))
        between_amounts = [order for order in orders if not {order.lower, order.upper} & set(identifiers)]
        return cls(exact, near, ratios, of_one_measure(values, between_amounts, names))
