"""Kinds of columns: what a column is decides what happens to it. This is the one place that finds it out.

amount, count            numbers: perturbed
date, datetime, time     amounts on the line of time, or spans of it: perturbed, in the precision they have; whole
                         numbers that are all dates (20260131, 202601) are dates, too, but years alone are counts
category, ordered        labels, or numbers that stand for labels: perturbed by methods that can
identifier, free text    left out of the release
unit                     an identifier that several rows share: numbered anew, in a secret order
constant                 one value, or none: it stays
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np

from microveil.core.errors import DataError, ParameterError, did_you_mean, one_of
from microveil.intake.identifiers import FEWEST_ROWS, MISSING, SAMPLE, identifier_reason
from microveil.io.frames.dataframes import Frame
from microveil.io.frames.validation import SMALLEST_TABLE

Kind = Literal[
    "amount",
    "count",
    "date",
    "datetime",
    "time",
    "category",
    "ordered",
    "identifier",
    "free text",
    "unit",
    "constant",
]
KINDS: Final[tuple[str, ...]] = get_args(Kind)
NUMBERS: Final = ("amount", "count")
TIMES: Final = ("date", "datetime", "time")
LABELS: Final = ("category", "ordered")
LEFT_OUT: Final = ("identifier", "free text")

FEW_LEVELS, MANY_CODES, ROWS_PER_LEVEL = 50, 500, 5
"""An identifier of at most so many different values is a label; whole numbers that are called codes are, too, with at
most so many, each of at least so many rows on average."""

EXAMPLES: Final = {"day": "20260131", "month": "202601"}

SURELY_NUMBERED = 50
"""Rows from which on it is no accident that a column has every number between two once."""

NEARLY_UNIQUE = 0.9
"""Share of different texts among the rows from which on they name the records."""

SHARED_BY = 20
"""Rows that have an identifier in common, on average, up to which it is one of a person or household."""

WORDS, LENGTH = 4, 40
"""A text of so many words, or so many characters, on average, is free text if hardly two are the same."""

_CODE_NAMES: Final = re.compile(
    r"""sex | gender | region | province | state | county | district | municipality | nuts\d? | country | nationality
        | citizenship | race | ethnic(ity)? | religion | marital | civil | status | occupation | profession | isco\w*
        | nace\w* | naics | sic | industry | sector | branch | type | kind | class | category | cat | code | icd\w*
        | drg | diagnosis | ward | department | dept | zip | zipcode | postcode | plz | stratum | party | language""",
    re.VERBOSE,
)
_DATE_NAMES: Final = re.compile(r"date|dates|datum|day|dat|dob|birth|born|month|period|geb|ym|ymd|yyyymm(dd)?")
_YEAR_NAMES: Final = re.compile(r"years?|yr|jahr(gang)?|geburtsjahr|ann[oé]e?|año|anno|vintage|cohort")
YEARS: Final = (1900, 2100)
CERTAIN_DATES: Final = 10
"""Different numbers such as 20260131 from which on they are dates whatever the column is called."""

_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+\d*|\d+")


@dataclass(frozen=True)
class ColumnKind:
    """The kind of a column, why it is taken for that, and whether that is in doubt."""

    kind: Kind
    reason: str = ""
    doubtful: bool = False


def find_kinds(frame: Frame, declared: Mapping[str, str]) -> dict[str, ColumnKind]:
    """The kind of every column of a table; those that are `declared` are checked, the others found."""
    for name, kind in declared.items():
        if name not in frame.names:
            raise ParameterError(f"kinds: there is no column '{name}'", did_you_mean(name, frame.names))
        if kind not in KINDS:
            raise ParameterError(f"kinds: '{name}' cannot be '{kind}'", f"it is {one_of(KINDS)}")
    return {
        name: _declared(frame, name, declared[name]) if name in declared else _found(frame, name)
        for name in frame.names
    }


def declared_kinds(kinds: Any) -> dict[str, str]:
    """The option `kinds`, as a dict of names."""
    if kinds is None:
        return {}
    if not isinstance(kinds, Mapping):
        raise ParameterError(f"kinds: takes a kind for each of some columns, not {type(kinds).__name__}", "give a dict")
    return {str(name): str(kind) for name, kind in kinds.items()}


def _declared(frame: Frame, name: str, kind: str) -> ColumnKind:
    if kind in NUMBERS and not frame.is_numeric(name):
        raise DataError(f"kinds: column '{name}' has no numbers", "turn its cells into numbers first")
    if kind in TIMES and frame.time_column(name) is None:
        raise DataError(
            f"kinds: column '{name}' has no dates or times that can be read",
            "turn its cells into dates first, or write them as 2026-01-31 or 31.01.2026",
        )
    return ColumnKind(kind, "declared")  # type: ignore[arg-type]  # checked by the caller


def _found(frame: Frame, name: str) -> ColumnKind:
    if frame.is_numeric(name):
        return _of_numbers(frame, name)
    if frame.looks_numeric(name) or frame.hides_numbers(name):
        reason = identifier_reason(frame, name)
        if reason.startswith(("its cells", "its name")):  # telephone numbers; amounts may all be different, too
            return _identifier(frame, name, reason)
        return ColumnKind("amount", "most of its cells look like numbers", doubtful=True)
    times = frame.time_column(name)
    if times is not None:
        if times.kind == "duration":
            return ColumnKind("time", f"spans of time, to the {times.unit}")
        written = f", written as {times.text}" if times.text else ""
        return ColumnKind(times.kind, f"to the {times.unit}{written}")
    return _of_text(frame, name)


def _of_numbers(frame: Frame, name: str) -> ColumnKind:
    first = frame.numbers(name)[:SAMPLE]
    first = first[~np.isnan(first)]
    if first.size >= SMALLEST_TABLE and first.min() < first.max() and (first != np.round(first)).any():
        return ColumnKind("amount")  # as most are: the others need not be looked at
    present, low, high = frame.extent(name)
    if present == 0:
        return ColumnKind("constant", "no values")
    few = present < SMALLEST_TABLE  # one or two answers are no constant
    if not few and low == high and frame.levels(name) == 1:  # long numbers, too, not only doubles
        return ColumnKind("constant", "one value")
    if not frame.is_whole(name):
        return ColumnKind("amount")
    times = frame.time_column(name)
    if times is not None:
        doubtful = frame.levels(name) < CERTAIN_DATES and not _is_called(name, _DATE_NAMES)
        return ColumnKind("date", f"to the {times.unit}, in numbers such as {EXAMPLES[times.unit]}", doubtful)
    if reason := identifier_reason(frame, name):
        return _identifier(frame, name, reason)
    gapless = present == frame.count >= SURELY_NUMBERED and high - low == present - 1
    if gapless and low > 1 and frame.levels(name) == present:  # from 1 on they may be ranks, and tell nobody apart
        return ColumnKind("identifier", "it has every number between two once")
    years = YEARS[0] <= low and high <= YEARS[1]
    if years and (_is_called(name, _YEAR_NAMES) or not _is_called(name, _CODE_NAMES)):
        return ColumnKind("count", "numbers that can be years: whole steps on their line, not labels")
    if _is_called(name, _CODE_NAMES):
        levels = frame.levels(name)
        if levels <= MANY_CODES and levels * ROWS_PER_LEVEL <= present:
            return ColumnKind(
                "category", f"{levels} whole numbers, and its name says that they are codes", doubtful=True
            )
    return ColumnKind("count" if low >= 0 else "amount")


def _of_text(frame: Frame, name: str) -> ColumnKind:
    levels = frame.levels(name)
    if levels == 0 or (levels == 1 and not frame.missing(name)):  # who has an answer at all is an answer
        return ColumnKind("constant", "one value" if levels else "no values")
    if frame.has_order(name):
        return ColumnKind("ordered", "its type has an order")
    blank = _blank(frame, name)
    levels, present = levels - (blank > 0), frame.count - frame.missing(name) - blank
    if present >= FEWEST_ROWS and levels > present / 2 and _is_free(frame, name):
        return ColumnKind("free text", "long texts that hardly repeat")
    if reason := identifier_reason(frame, name):
        return _identifier(frame, name, reason)
    if present >= FEWEST_ROWS and levels >= NEARLY_UNIQUE * present:
        return ColumnKind("identifier", "its text is different in nearly every row")
    return ColumnKind("category", f"{levels} labels")


def _identifier(frame: Frame, name: str, reason: str) -> ColumnKind:
    """An identifier of the rows, or one that some share; labels of many rows are categories, whatever their name."""
    levels, present = frame.levels(name), frame.count - frame.missing(name)
    rows = present / max(levels, 1)
    if levels >= NEARLY_UNIQUE * present:
        return ColumnKind("identifier", reason)
    if rows > SHARED_BY and levels <= FEW_LEVELS and not reason.startswith("its cells"):
        return ColumnKind("category", f"{levels} labels, called like an identifier", doubtful=True)
    return ColumnKind("unit", f"{reason}, and rows share it")


def _is_free(frame: Frame, name: str) -> bool:
    cells = [cell for cell in frame.words(name, np.arange(min(frame.count, SAMPLE))) if cell not in MISSING]
    words = np.mean([len(cell.split()) for cell in cells] or [0])
    return bool(words >= WORDS or np.mean([len(cell) for cell in cells] or [0]) >= LENGTH)


def _blank(frame: Frame, name: str) -> int:
    """The number of cells that are there, and empty: remarks, which few have, are remarks all the same."""
    rows = np.arange(min(frame.count, SAMPLE))
    empty = next((row for row, cell in enumerate(frame.words(name, rows)) if not cell.strip()), None)
    if empty is None:
        return 0
    labels = frame.labels(name)
    return int(np.count_nonzero(labels == labels[empty]))


def _is_called(name: str, words: re.Pattern[str]) -> bool:
    return any(words.fullmatch(word.lower()) for word in _WORDS.findall(name))
