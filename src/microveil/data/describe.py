"""What can be told about the columns of a table without telling any of its values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from microveil.core.dependence import find_dependence
from microveil.core.domain import SPIKE, step_of
from microveil.core.moments import moments
from microveil.core.ratios import find_ratios
from microveil.core.table import Matrix
from microveil.core.threads import single_threaded_blas
from microveil.data.dictionary import find_codes
from microveil.data.frames import Frame


@dataclass(frozen=True)
class ColumnDescription:
    """One column. Shares are of all rows; figures of numeric columns are None for text."""

    name: str
    numeric: bool
    whole_numbers: bool | None
    sign: str | None
    missing: int
    zeros: float | None
    distinct: int
    special_codes: tuple[float, ...] = ()
    remark: str = ""
    step: float | None = None

    def to_entry(self) -> dict[str, Any]:
        """What the dictionary of the columns says of this one: nothing, if there is nothing to say."""
        if not self.numeric or self.remark:
            return {}
        entry: dict[str, Any] = {"special_codes": list(self.special_codes)} if self.special_codes else {}
        if self.sign in ("above 0", "0 or above"):
            entry["minimum"] = 0.0
        if self.sign == "0 or below":
            entry["maximum"] = 0.0
        if self.step is not None:
            entry["step"] = self.step
        if self.zeros is not None and self.zeros >= SPIKE:
            entry["zeros"] = True
        return entry


@dataclass(frozen=True)
class Description:
    """A table: its columns, and the linear rules and ratios that hold in every row."""

    rows: int
    columns: list[ColumnDescription]
    rules: list[str]
    sums: list[dict[str, Any]]
    ratios: list[dict[str, str]]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)

    def to_dictionary(self) -> dict[str, Any]:
        """The part that `protect(rules=...)` takes back, for a user to edit."""
        entries = {column.name: entry for column in self.columns if (entry := column.to_entry())}
        return {"columns": entries, "sums": self.sums, "ratios": self.ratios}


def describe_table(frame: Frame) -> Description:
    """Look at every column, then for rules between the numeric ones."""
    columns, numbers = [], {}
    for name in frame.names:
        if not frame.is_numeric(name):
            missing = frame.missing(name)
            # The missing cells are one of the labels, but none of the values.
            distinct = int(frame.labels(name).max(initial=-1)) + 1 - (missing > 0)
            columns.append(ColumnDescription(name, False, None, None, missing, None, distinct))
            continue
        values = frame.numbers(name)
        description, clean = _number_column(name, values)
        columns.append(description)
        if clean.size and not description.remark:
            numbers[name] = clean
    ratios = find_ratios(Matrix(list(numbers.values())))
    names = list(numbers)
    made = {names[ratio.column] for ratio in ratios}
    rules, sums = _rules({name: values for name, values in numbers.items() if name not in made})
    return Description(
        rows=frame.count,
        columns=columns,
        rules=[*rules, *(ratio.sentence(names) for ratio in ratios)],
        sums=sums,
        ratios=[
            {
                "ratio": names[ratio.column],
                "numerator": names[ratio.numerator],
                "denominator": names[ratio.denominator],
            }
            for ratio in ratios
        ],
    )


def _number_column(name: str, values: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[ColumnDescription, Any]:
    present = values[~np.isnan(values)]
    missing = values.size - present.size
    if present.size == 0:
        return ColumnDescription(name, True, None, None, missing, None, 0, (), "no values"), present
    if np.isinf(present).any():
        return ColumnDescription(name, True, None, None, missing, None, 0, (), "infinite cells"), present
    codes = find_codes(present, float(present.min()), float(present.max()))
    clean = np.where(np.isin(values, codes), np.nan, values)
    real = clean[~np.isnan(clean)]
    distinct = int(np.unique(real).size)
    remark = "constant" if distinct == 1 else ""
    return (
        ColumnDescription(
            name=name,
            numeric=True,
            whole_numbers=bool((real == np.round(real)).all()),
            sign=_sign(real),
            missing=missing,
            zeros=float(np.count_nonzero(real == 0) / values.size),
            distinct=distinct,
            special_codes=codes,
            remark=remark,
            step=step_of(real),
        ),
        clean,
    )


def _sign(values: np.ndarray[Any, np.dtype[np.float64]]) -> str:
    low, high = values.min(), values.max()
    if low > 0:
        return "above 0"
    if low >= 0:
        return "0 or above"
    return "any sign" if high > 0 else "0 or below"


def _rules(numbers: dict[str, Any]) -> tuple[list[str], list[dict[str, Any]]]:
    names: Sequence[str] = list(numbers)
    if len(names) < 2:
        return [], []
    values = Matrix(list(numbers.values()))
    whole = np.flatnonzero(~np.isnan(np.column_stack(values.columns)).any(axis=1))
    if whole.size <= len(names):
        return [], []
    with single_threaded_blas():
        summary = moments(values.take(whole).piece, whole.size)
        varying = np.flatnonzero(summary.sd > 0).tolist()
        rows = values.take(whole).select(varying)
        found = find_dependence(values.select(varying), summary.select(varying), whole=rows).rules
    shown = [names[j] for j in varying]
    sums = [
        {"total": shown[rule.column], "parts": [shown[j] for j in rule.terms]}
        for rule in found
        if rule.exact and rule.constant == 0 and set(rule.terms.values()) == {1.0}
    ]
    return [rule.sentence(shown) for rule in found if rule.exact], sums
