"""A panel of raters: who sees which pair next and on which side, and the marks they gave.

Steps 2 and 3 of D'Acquisto and Naldi (§IV): people see the original and what is left of it side by side, and say how
good each is. Marks from 1 to 5 become ratings from 0 to 100, in the file that `microveil mos score` reads.
"""

from __future__ import annotations

import csv
import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from microveil.app.work import Work

MARKS = (5, 4, 3, 2, 1)
SIDES = ("left", "right")


@dataclass(repr=False)
class Panel:
    """A session that is shown on this machine; `case` is where it was made, if it was made here."""

    id: str
    name: str
    folder: Path
    session: Path
    ratings: Path
    case: str = ""
    stimuli: list[str] = field(default_factory=list)
    observers: list[Mapping[str, Any]] = field(default_factory=list)
    marks: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    """Ratings of reference and processed, by observer and stimulus."""

    rater: str = ""
    """Who is rating now."""

    said: str = ""
    """What the rater is to read once."""

    scores: dict[str, Any] | None = None
    work: Work | None = None
    guard: threading.RLock = field(default_factory=threading.RLock)

    @property
    def busy(self) -> bool:
        """Is somebody working on it?"""
        return self.work is not None and not self.work.over

    @property
    def ready(self) -> bool:
        """Can it be shown?"""
        return bool(self.observers)

    def opened(self, session: Mapping[str, Any]) -> None:
        """Take what the worker says of the session."""
        with self.guard:
            self.name, self.stimuli = session["name"], session["stimuli"]
            self.marks = {(who, what): (first, second) for who, what, first, second in session["marks"]}
            self.observers = session["observers"]

    def given(self, observer: Mapping[str, Any]) -> int:
        """How many pairs somebody has rated."""
        return sum((observer["id"], stimulus) in self.marks for stimulus in observer["order"])

    def left(self) -> list[str]:
        """Who has something to rate still."""
        return [one["id"] for one in self.observers if self.given(one) < len(one["order"])]

    def now(self) -> tuple[Mapping[str, Any], int] | None:
        """Who is rating, and the number of the pair that is next."""
        who = next((one for one in self.observers if one["id"] == self.rater), None)
        if who is None:
            return None
        open_ = [place for place, stimulus in enumerate(who["order"]) if (who["id"], stimulus) not in self.marks]
        return (who, open_[0]) if open_ else None

    def view(self, place: int, side: str) -> Path | None:
        """The file of one side of the pair that is shown now; no other pair can be asked for."""
        now = self.now()
        if now is None or now[1] != place or side not in SIDES:
            return None
        who, _ = now
        what = "reference" if who["reference"][place] == side else "processed"
        number = self.stimuli.index(who["order"][place])
        found = (self.folder / f"{number}-{what}.{kind}" for kind in ("png", "json"))
        return next((path for path in found if path.is_file()), None)

    def rate(self, place: int, left: int, right: int) -> None:
        """Keep the marks of the pair that is shown; those of a page that is older change nothing."""
        with self.guard:
            now = self.now()
            if now is None or now[1] != place or left not in MARKS or right not in MARKS:
                return
            who, _ = now
            both = (left, right) if who["reference"][place] == "left" else (right, left)
            key = who["id"], who["order"][place]
            first, second = ((mark - min(MARKS)) * 100 / (max(MARKS) - min(MARKS)) for mark in both)
            self.marks[key] = first, second
            try:
                self._write()
            except BaseException:  # what is not on the disk was not rated
                del self.marks[key]
                raise
            self.scores = None

    def _write(self) -> None:
        from microveil.storage.atomic import atomic_targets

        given = [
            (who["id"], what) for who in self.observers for what in who["order"] if (who["id"], what) in self.marks
        ]
        with (
            atomic_targets([self.ratings], private=[self.ratings]) as (temporary,),
            temporary.open("w", encoding="utf-8", newline="") as file,
        ):
            rows = csv.writer(file)
            rows.writerow(["observer", "stimulus", "reference", "processed"])
            rows.writerows([*pair, *(f"{mark:g}" for mark in self.marks[pair])] for pair in given)

    def close(self) -> None:
        """Forget it, with its files; ratings that go elsewhere stay there."""
        if self.work is not None:
            self.work.cancel()
        shutil.rmtree(self.folder, ignore_errors=True)
