"""Ratings: what each observer gave to each stimulus, from 0 to 100, and the opinion that follows from it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError, ParameterError, did_you_mean, one_of
from microveil.opinion.session import Session
from microveil.storage.atomic import shown

SCALE = 100.0
"""Ratings go from 0 to this."""

Kind = Literal["difference", "processed"]
KINDS: tuple[Kind, ...] = ("difference", "processed")

DOUBLE, SINGLE = ("reference", "processed"), ("score",)
"""The columns of scores: of both pictures of a pair, or of the processed one alone."""

NAMED = 5
"""Missing ratings that are named; the others are counted."""


@dataclass(frozen=True, repr=False)
class Ratings:
    """Scores of the processed pictures and, of a double stimulus, of the references: observers x stimuli.

    A rating that is missing is NaN.
    """

    session: Session
    processed: Array
    reference: Array | None = None

    def __repr__(self) -> str:
        """A summary without a score: what one person said of one picture is theirs."""
        given = int(np.count_nonzero(~np.isnan(self.given)))
        return f"<Ratings: {given} of {self.given.size}, of {self.session!r}>"

    @property
    def given(self) -> Array:
        """A number where there is a rating, NaN where it is missing."""
        return self.processed if self.reference is None else self.processed - self.reference

    @property
    def absent(self) -> list[str]:
        """Observers who rated nothing."""
        rows = zip(self.session.observers, self.given, strict=True)
        return [observer.id for observer, row in rows if np.isnan(row).all()]

    @property
    def missing(self) -> list[tuple[str, str]]:
        """Observer and stimulus of each rating that is missing, of those who rated something."""
        people, stimuli = self.session.observers, self.session.stimuli
        absent = set(self.absent)
        pairs = zip(*(places.tolist() for places in np.nonzero(np.isnan(self.given))), strict=True)
        return [(people[i].id, stimuli[j].id) for i, j in pairs if people[i].id not in absent]

    def kind(self, given: str | None = None) -> Kind:
        """The kind of opinion that is named, else "difference" where both pictures have a score."""
        if given is None:
            return "processed" if self.reference is None else "difference"
        found = next((kind for kind in KINDS if kind == given), None)
        if found is None:
            raise ParameterError(f"kind: '{given}' is unknown", f"it is {one_of(KINDS)}")
        if found == "difference" and self.reference is None:
            raise ParameterError(
                "kind: a difference needs scores of both pictures", f"give the columns {' and '.join(DOUBLE)}"
            )
        return found

    def opinions(self, kind: Kind) -> Array:
        """Opinions of what was processed, from 0 to 100, observers x stimuli.

        "difference": 100 - (reference - processed), and 100 where the processed picture was liked better, as it cannot
        be nearer to the reference than the reference; "processed": the score of the processed picture as it is.
        """
        if kind == "processed" or self.reference is None:
            return self.processed
        return np.clip(SCALE - (self.reference - self.processed), 0.0, SCALE)

    def notes(self) -> list[str]:
        """What is missing, counted and named."""
        pairs = [f"{shown(stimulus)} by {shown(observer)}" for observer, stimulus in self.missing]
        found = (("observer", "rated nothing", self.absent), ("rating", "missing", pairs))
        return [_listed(*one) for one in found if one[2]]


def ratings_from(columns: Mapping[str, Sequence[Any]], session: Session) -> Ratings:
    """Ratings from columns: observer, stimulus, and scores (of reference and processed, or one score), row by row."""
    names = _score_columns(list(columns))
    places = _places(columns["observer"], columns["stimulus"], session)
    shape = len(session.observers), len(session.stimuli)
    tables = {name: np.full(shape, np.nan) for name in names}
    for name, table in tables.items():
        for (i, j), cell in zip(places, columns[name], strict=True):
            table[i, j] = _score(cell, name, session.observers[i].id, session.stimuli[j].id)
    if names == SINGLE:
        return Ratings(session, tables["score"])
    # A pair with one score of two is no rating.
    half = np.isnan(tables["reference"]) | np.isnan(tables["processed"])
    processed, reference = (np.where(half, np.nan, tables[name]) for name in ("processed", "reference"))
    return Ratings(session, processed, reference)


def _score_columns(names: Sequence[str]) -> tuple[str, ...]:
    wanted = SINGLE if "score" in names else DOUBLE
    known = ("observer", "stimulus", *wanted)
    for name in known:
        if name not in names:
            hint = f"the columns are {', '.join(known)}; or observer, stimulus, score"
            raise DataError(f"ratings: there is no column '{name}'", hint)
    for name in names:
        if name not in known:
            raise DataError(f"ratings: column {shown(name)} is not known", did_you_mean(name, known))
    return wanted


def _places(observers: Sequence[Any], stimuli: Sequence[Any], session: Session) -> list[tuple[int, int]]:
    """The observer and the stimulus of each row, by number; each pair once."""
    people = {observer.id: i for i, observer in enumerate(session.observers)}
    shown_ones = {stimulus.id: j for j, stimulus in enumerate(session.stimuli)}
    found: dict[tuple[int, int], None] = {}
    for number, (observer, stimulus) in enumerate(zip(observers, stimuli, strict=True), start=1):
        for kind, name, known in (("observer", observer, people), ("stimulus", stimulus, shown_ones)):
            if name is None:
                raise DataError(f"ratings: row {number} has no {kind}", "complete it, or leave the row out")
            if name not in known:
                raise DataError(
                    f"ratings: row {number}: {kind} {shown(name)} is not in the session",
                    did_you_mean(name, known, limit=5),
                )
        place = people[observer], shown_ones[stimulus]
        if place in found:
            raise DataError(
                f"ratings: observer {shown(observer)} rated stimulus {shown(stimulus)} twice (again in row {number})",
                "keep one of the two",
            )
        found[place] = None
    return list(found)


def _score(cell: Any, column: str, observer: str, stimulus: str) -> float:
    """A number from 0 to 100, or NaN for an empty cell.

    An error names the column, the stimulus and the observer, and does not quote the cell.
    """
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return math.nan
    try:
        value = None if isinstance(cell, bool) else float(cell)
    except (TypeError, ValueError):
        value = None
    if value is None or not 0 <= value <= SCALE:
        where = f"ratings: {column} of stimulus {shown(stimulus)} by observer {shown(observer)}"
        wrong = "is not a number" if value is None else "is outside of 0 to 100"
        raise DataError(f"{where} {wrong}", "give a number from 0 to 100, or leave the cell empty")
    return value


def _listed(kind: str, what: str, names: Sequence[str]) -> str:
    """`2 ratings missing: a by b, c by d`; of many, only the first are named."""
    count = f"{len(names)} {kind}{'' if len(names) == 1 else 's'}"
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{count} {what}: {', '.join(names[:NAMED])}{more}"
