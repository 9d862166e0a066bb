"""Columns that look as if they named or numbered the records: reported, and dropped only when somebody asks for it."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from microveil.io.frames.dataframes import Frame

FEWEST_ROWS = 10
"""Rows from which on it says something that all cells of a column differ, or rise by the same number."""

MOSTLY = 0.5
"""Share of cells that look like an address."""

SAMPLE = 1_000

MISSING: Final = ("", "None", "nan", "NaT", "<NA>")
"""How the libraries write cells that are missing."""

# Words of a column's name, whatever separates them: personId, person_id, "Person ID".
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
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
        return _of_numbers(frame, name)
    if frame.hides_numbers(name):  # it is refused by name later, and some libraries cannot read its cells
        return ""
    if kind := _kind_of_address(frame, name):
        return f"its cells look like {kind}"
    if _is_called_so(name) or _tells_who(frame, name):
        return "its name says so"
    if frame.count >= FEWEST_ROWS and frame.is_unique(name):
        return "its text is different in every row"
    return ""


def _of_numbers(frame: Frame, name: str) -> str:
    """Amounts may be different in every row, too: numbers are known by the column's name, or by counting the rows.

    The caller knows that they are whole, as far as they are there.
    """
    if frame.count < FEWEST_ROWS:
        return ""
    steps = np.diff(frame.numbers(name)[:SAMPLE])  # NaN beside a missing cell, and equal to nothing
    if steps[0] != 0 and (steps == steps[0]).all() and frame.rises_evenly(name):
        return "it numbers the rows"
    return "its name says so" if _is_called_so(name) or _tells_who(frame, name) else ""


def _is_called_so(name: str) -> bool:
    words = [word.lower() for word in _WORDS.findall(name)]
    return any(_NAMES.fullmatch(word) for word in words) or _JOINED.fullmatch("".join(words)) is not None


def _tells_who(frame: Frame, name: str) -> bool:
    """Is a column called like those whom it numbers, and are there many of them?"""
    if _WHO.fullmatch("".join(_WORDS.findall(name)).lower()) is None:
        return False
    levels = frame.levels(name)
    if levels < WHO_LEVELS or levels * WHO_ROWS < frame.count:
        return False
    rows = np.arange(min(frame.count, SAMPLE))
    cells = frame.numbers(name)[: rows.size] if frame.is_numeric(name) else np.array(frame.words(name, rows))
    counts = np.unique(cells, return_counts=True)[1]
    return bool(counts.max() <= WHO_EVENLY * (1 + counts.mean()))


def _kind_of_address(frame: Frame, name: str) -> str:
    """What most of the first cells that are there look like."""
    rows = np.arange(min(frame.count, SAMPLE))
    cells = [cell.strip() for cell in frame.words(name, rows) if cell not in MISSING]
    for kind, form in _ADDRESSES.items():
        if cells and sum(form.fullmatch(cell) is not None for cell in cells) > MOSTLY * len(cells):
            return kind
    return ""
