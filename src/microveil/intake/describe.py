"""What can be said of the columns of a table without giving any of its values away, but for labels that never meet.

It is what `protect` finds by itself, by the same searches: codes, domains, rules; and what it does not act on: sums
with exceptions, heaps at round numbers, columns that look like identifiers.
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
from microveil.intake.kinds import NUMBERS, TIMES, find_kinds
from microveil.intake.relations import Relations, find_relations
from microveil.io.dictionary import find_codes
from microveil.io.frames.dataframes import Frame
from microveil.io.frames.validation import can_be_squared
from microveil.rules.domain import Domain, learnt_domain
from microveil.rules.heaping import heaping
from microveil.rules.linear_rules import LinearRule, dependence_among
from microveil.rules.near_rules import NearSum, find_near_sums
from microveil.rules.orders import MOST_COST, OrderRule, find_orders, implied_orders, of_one_measure
from microveil.rules.ratios import RatioRule, find_ratios

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
        """The part that `protect(rules=...)` takes back, for a user to edit. What has exceptions is not enforced."""
        follows = self.relations.entries()
        entries = {
            column.name: entry
            for column in self.columns
            if (entry := {**column.to_entry(), **follows.get(column.name, {})})
        }
        rules = {"sums": self.sums, "ratios": self.ratios, "orders": self.orders}
        pairs = {"impossible": self.relations.impossible} if self.relations.impossible else {}
        return {"columns": entries, **rules, **pairs}


def describe_table(frame: Frame) -> Description:
    """Look at every column, then for rules between the numeric ones."""
    columns, numbers = [], {}
    kinds = find_kinds(frame, {})
    frame = frame.with_times([name for name, found in kinds.items() if found.kind in TIMES])
    for name in frame.names:
        if frame.is_numeric(name):
            described, clean = _number_column(frame, name)
            if described.content in ("number", "whole", "flag"):
                numbers[name] = clean
        else:
            described = _text_column(frame, name)
        of = kinds[name]
        columns.append(replace(described, kind=of.kind, reason=of.reason, doubtful=of.doubtful))
    names = list(numbers)
    no_amounts = {column.name for column in columns if column.kind not in (*NUMBERS, *TIMES)}
    identifiers = {names.index(name) for name in no_amounts if name in numbers}
    found = _Rules.among(Matrix(list(numbers.values())), identifiers, names)
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
        relations=find_relations(frame, kinds),
        treatments=found.treatments(names),
    )


def _text_column(frame: Frame, name: str) -> ColumnDescription:
    return ColumnDescription(name, "text", frame.missing(name), frame.levels(name))


def _number_column(frame: Frame, name: str) -> tuple[ColumnDescription, Array]:
    """The description, and the column without its codes."""
    values = frame.numbers(name)
    if not frame.is_held(name):
        return ColumnDescription(name, "beyond float64", frame.missing(name), frame.levels(name)), values
    present = values[~np.isnan(values)]
    missing = values.size - present.size
    if present.size == 0 or np.isinf(present).any():
        return ColumnDescription(name, "infinite" if present.size else "empty", missing, 0), values
    codes = frame.found_codes.get(name)
    if codes is None:
        codes = find_codes(Matrix([values]), 0, float(present.min()), float(present.max()))
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
        decimals=_decimals(domain),
        minimum=domain.minimum,
        maximum=domain.maximum,
        zeros=float(np.count_nonzero(real == 0) / real.size),
        zero_spike=domain.zeros is not None,
        special_codes=codes,
        coded=present.size - real.size,
        heaping=heaping(real, domain.step),
    )
    return described, clean


def _decimals(domain: Domain) -> int | None:
    """Digits behind the point; None where no step is seen."""
    return None if domain.step is None else max(0, -round(np.log10(min(domain.step, 1.0))))


def _unit(name: str) -> str:
    """What stands in brackets at the end of a name, or is a last word that is a unit."""
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

    def treatments(self, names: Sequence[str]) -> dict[str, str]:
        """What `protect` does with each rule, by its sentence."""
        told = {rule.sentence(names): f"kept: {names[rule.column]} is computed from the others" for rule in self.exact}
        told |= {near.rule.sentence(names): "kept only if the dictionary of the columns says so" for near in self.near}
        told |= {
            ratio.sentence(names): f"kept: {names[ratio.column]} is computed from the others, where no moment is "
            "promised exactly"
            for ratio in self.ratios
        }
        return told | {order.sentence(names): ORDERS_ARE for order in self.orders}

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
            plain = [j for j in range(width) if j not in made]
            found = dependence_among(values, plain, missing)
            stream = Streams.from_seed(0).stream("describe")  # picks the rows of large tables, the same each time
            amounts = [j for j in found.independent if j not in identifiers]
            near = find_near_sums(values, amounts, missing, stream)
        exact = [rule for rule in found.rules if rule.exact]
        orders = find_orders(values, implied_orders(values, [*exact, *(sum_.rule for sum_ in near)]))
        between_amounts = [order for order in orders if not {order.lower, order.upper} & set(identifiers)]
        return cls(exact, near, ratios, of_one_measure(values, between_amounts, names))
