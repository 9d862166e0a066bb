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

from microveil.core.arrays import FIRST_ROWS
from microveil.core.errors import DataError, ParameterError, check_column, one_of
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
NOT_COMPUTED_WITH: Final = (*TIMES, *LEFT_OUT, "unit")
"""Kinds whose numbers, if they are numbers, have no sign and no zero that means anything."""

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
        check_column("kinds", name, frame.names)
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
        written = f", written as {_in_letters(times.text)}" if times.text else ""
        return ColumnKind(times.kind, f"to the {times.unit}{written}")
    return _of_text(frame, name)


def _in_letters(form: str) -> str:
    """`YYYY-MM-DD` for `%Y-%m-%d`."""
    for code, letters in {"%Y": "YYYY", "%m": "MM", "%d": "DD", "%H": "hh", "%M": "mm", "%S": "ss"}.items():
        form = form.replace(code, letters)
    return form


def _of_numbers(frame: Frame, name: str) -> ColumnKind:
    first = frame.numbers(name)[:FIRST_ROWS]
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
    if frame.level_order(name):
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
    cells = [cell for cell in _first_words(frame, name) if cell not in MISSING]
    words = np.mean([len(cell.split()) for cell in cells] or [0])
    return bool(words >= WORDS or np.mean([len(cell) for cell in cells] or [0]) >= LENGTH)


def _blank(frame: Frame, name: str) -> int:
    """The number of cells that are there, and empty: remarks, which few have, are remarks all the same."""
    empty = next((row for row, cell in enumerate(_first_words(frame, name)) if not cell.strip()), None)
    if empty is None:
        return 0
    labels = frame.labels(name)
    return int(np.count_nonzero(labels == labels[empty]))


def _first_words(frame: Frame, name: str) -> list[str]:
    """The first cells of a column, as text."""
    return frame.words(name, np.arange(min(frame.count, FIRST_ROWS)))


def _is_called(name: str, words: re.Pattern[str]) -> bool:
    return any(words.fullmatch(word.lower()) for word in _WORDS.findall(name))


# Columns that name or number the records, or look as if they did

FEWEST_ROWS = 10
"""Rows from which on it says something that all cells of a column differ, or rise by the same number."""

MOSTLY = 0.5
"""Share of cells that look like an address."""

MISSING: Final = ("", "None", "nan", "NaT", "<NA>")
"""How the libraries write cells that are missing."""

# Words of a column's name, whatever separates them: personId, person_id, "Person ID".
_NAME_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NAMES: Final = re.compile(
    r"""ids? | [ug]uid | ssn | nif | nie | dni | siren | siret | iban | bic | vat | tin | passport | licen[cs]e | e?mail
        | plate | (tele)?phone | mobile | fax | (sur|last|first|fore|full)?names? | address | street""",
    re.VERBOSE,
)
_JOINED: Final = re.compile(
    r"""(user|person|household|hh|home|family|firm|company|plant|farm|bank|shop|store|patient|subject|student|pupil|teacher
        |school|class|hospital|doctor|record|resp|customer|client|member|account|employee|worker|utility|case|town|village
        |county|site|station|cluster|psu|panel|order|visit|claim|policy|contract)id | nr | .*name""",
    re.VERBOSE,
)
_WHO: Final = re.compile(
    r"""(patient|pat|subject|subj|participant|respondent|person|household|family|pupil|student|employee|customer|client|member
        |case|firm|company|school|doctor|kunden?|personal|patienten?|invoice|nhs|account)(no|nr|num|number|nummer|code|key)?
        | mrn | codicefiscale | steuernummer | matrikelnummer""",
    re.VERBOSE,
)
WHO_LEVELS, WHO_ROWS, WHO_EVENLY = 15, 50, 4
"""A column that is called like a person or a firm names them if it has so many values, each in so few rows on average,
and none in that many times more: `student` may be yes or no, `person` the second of four, `doctor` visits to one."""

_ADDRESSES: Final = {
    "e-mail addresses": re.compile(r"[^@\s]+@[^@\s]+\.[A-Za-z]{2,}"),
    "telephone numbers": re.compile(r"\+\d[\d ()/.-]{6,}\d"),
    "bank accounts": re.compile(r"[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?"),
    "universal identifiers": re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"),
}


def identifier_reason(frame: Frame, name: str) -> str:
    """Why a column looks like a direct identifier; an empty text if it does not."""
    if frame.is_numeric(name):
        return _reason_of_numbers(frame, name)
    if frame.hides_numbers(name):  # it is refused by name later, and some libraries cannot read its cells
        return ""
    if kind := _kind_of_address(frame, name):
        return f"its cells look like {kind}"
    if _is_called_so(name) or _tells_who(frame, name):
        return "its name says so"
    if frame.count >= FEWEST_ROWS and frame.is_unique(name):
        return "its text is different in every row"
    return ""


def _reason_of_numbers(frame: Frame, name: str) -> str:
    """Amounts may be different in every row, too: numbers are known by the column's name, or by counting the rows.

    The caller knows that they are whole, as far as they are there.
    """
    if frame.count < FEWEST_ROWS:
        return ""
    steps = np.diff(frame.numbers(name)[:FIRST_ROWS])  # NaN next to a missing cell, and equal to nothing
    if steps[0] != 0 and (steps == steps[0]).all() and frame.rises_evenly(name):
        return "it numbers the rows"
    return "its name says so" if _is_called_so(name) or _tells_who(frame, name) else ""


def _is_called_so(name: str) -> bool:
    words = [word.lower() for word in _NAME_WORDS.findall(name)]
    return any(_NAMES.fullmatch(word) for word in words) or _JOINED.fullmatch("".join(words)) is not None


def _tells_who(frame: Frame, name: str) -> bool:
    """Is a column called like those whom it numbers, and are there many of them?"""
    if _WHO.fullmatch("".join(_NAME_WORDS.findall(name)).lower()) is None:
        return False
    levels = frame.levels(name)
    if levels < WHO_LEVELS or levels * WHO_ROWS < frame.count:
        return False
    cells = frame.numbers(name)[:FIRST_ROWS] if frame.is_numeric(name) else np.array(_first_words(frame, name))
    counts = np.unique(cells, return_counts=True)[1]
    return bool(counts.max() <= WHO_EVENLY * (1 + counts.mean()))


def _kind_of_address(frame: Frame, name: str) -> str:
    """What most of the first cells that are there look like."""
    cells = [cell.strip() for cell in _first_words(frame, name) if cell not in MISSING]
    for kind, form in _ADDRESSES.items():
        if cells and sum(form.fullmatch(cell) is not None for cell in cells) > MOSTLY * len(cells):
            return kind
    return ""
