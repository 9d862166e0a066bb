"""Cases: a file, what was decided about it step by step, and the releases that were tried.

A decision makes a new state; going back and forth among states is undo and redo. Results are kept beside them, so that
a state that comes back brings its results with it.
"""

from __future__ import annotations

import re
import secrets
import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from microveil.app.panel import Panel
from microveil.app.work import Work
from microveil.options import DEFAULT_METHOD

ROLES = ("protect", "keep", "public", "strata", "weight", "unit", "drop")
"""What can become of a column; by default it is protected, or left out if it names or numbers the records."""

STEPS = ("data", "columns", "protect", "compare", "release")
PLACES = (*STEPS, "table")
SEED_BITS = 48

_ODD = re.compile(r"[^\w .()+=@-]|[\x00-\x1f]", re.UNICODE)


def safe_name(name: str) -> str:
    """The name of an uploaded file without folders, and without signs that mean something to a shell or an address."""
    last = re.split(r"[\\/]", name)[-1]
    stem, dot, extension = _ODD.sub("_", last).rpartition(".")
    return f"{stem[:80].strip(' .-') or 'table'}{dot}{extension[:10].strip() if stem else extension[:10]}"


@dataclass(frozen=True)
class Decisions:
    """Everything that was decided about a file."""

    reading: Mapping[str, Any] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    """Of columns that have another role than by default."""

    rules_off: tuple[str, ...] = ()
    method: str = DEFAULT_METHOD
    params: Mapping[str, Any] = field(default_factory=dict)
    seed: int = field(default_factory=lambda: secrets.randbits(SEED_BITS), repr=False)
    limit: float | None = None
    """What the worst attack may gain over chance; the policy, if there is one."""

    runs: tuple[str, ...] = ()
    chosen: str = ""
    table: str = ""
    """The table that was made of it."""

    def options(self, described: Mapping[str, Any]) -> dict[str, Any]:
        """The options of `protect_file` that say the same, but for files; `described` is what was found in the file."""
        by_role = {role: [n for n in described["names"] if self.roles.get(n) == role] for role in ROLES[1:]}
        one = {role: by_role.pop(role)[:1] for role in ("weight", "unit")}
        found: dict[str, Any] = {name: columns for name, columns in by_role.items() if columns}
        found |= {role: columns[0] for role, columns in one.items() if columns}
        found |= {"kinds": dict(self.kinds)} if self.kinds else {}
        return {"method": self.method, **found, "seed": self.seed, **self.reading}


@dataclass(frozen=True, repr=False)
class Candidate:
    """A release that was tried: where its files are, how it was made, and what the worker said of it."""

    id: str
    number: int
    folder: Path
    output: str
    choices: Decisions
    result: Mapping[str, Any]
    figures: Mapping[str, Any] = field(default_factory=dict)
    """The twin of its internal report."""


@dataclass(repr=False)
class Case:
    """A file on its way to a release."""

    id: str
    name: str
    source: Path
    folder: Path
    history: list[tuple[str, Decisions]] = field(default_factory=lambda: [("", Decisions())])
    at: int = 0
    moves: int = 0
    """Decisions so far, with those that were taken back."""

    described: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What was found in the file, by how it was read."""

    advice: dict[str, Any] | None = None
    grids: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The tables that were made of it."""

    runs: dict[str, Candidate] = field(default_factory=dict)
    work: Work | None = None
    notice: str = ""
    guard: threading.RLock = field(default_factory=threading.RLock)

    @property
    def choices(self) -> Decisions:
        """What holds now."""
        return self.history[self.at][1]

    @property
    def table(self) -> dict[str, Any] | None:
        """What was found in the file as it is read now."""
        return self.described.get(reading_key(self.choices.reading))

    @property
    def grid(self) -> dict[str, Any] | None:
        """The table that was made of it, as far as it is not undone."""
        return self.grids.get(self.choices.table)

    @property
    def candidates(self) -> list[Candidate]:
        """The releases that were tried, as far as they are not undone."""
        return [self.runs[run] for run in self.choices.runs if run in self.runs]

    @property
    def undoes(self) -> str | None:
        """What undo would take back."""
        return self.history[self.at][0] if self.at else None

    @property
    def redoes(self) -> str | None:
        """What redo would do again."""
        return self.history[self.at + 1][0] if self.at + 1 < len(self.history) else None

    @property
    def seen(self) -> str:
        """What a page saw of it: another, once something was decided, here or in another tab."""
        return f"{self.at}-{self.moves}"

    @property
    def busy(self) -> bool:
        """Is somebody working on it?"""
        return self.work is not None and not self.work.over

    def decide(self, what: str, **changes: Any) -> bool:
        """Change what was decided; `what` names it for undo. Says whether anything is different."""
        with self.guard:
            new = replace(self.choices, **changes)
            if new == self.choices:
                return False
            self.history[self.at + 1 :] = [(what, new)]
            self.at, self.moves = self.at + 1, self.moves + 1
            return True

    def move(self, step: int) -> None:
        """Undo (-1) or redo (1)."""
        with self.guard:
            self.at = min(max(self.at + step, 0), len(self.history) - 1)
            self.moves += 1

    def new_run_folder(self) -> tuple[str, Path]:
        """An id for a run, and a folder in which the file is beside what will be made of it."""
        run = secrets.token_hex(8)
        folder = self.folder / run
        folder.mkdir(mode=0o700)
        (folder / self.name).symlink_to(self.source.resolve())
        return run, folder

    def close(self) -> None:
        """Forget it, with all its files."""
        if self.work is not None:
            self.work.cancel()
        shutil.rmtree(self.folder, ignore_errors=True)


def reading_key(reading: Mapping[str, Any]) -> str:
    """How a file is read, as a key."""
    return "|".join(f"{name}={value}" for name, value in sorted(reading.items()))


class Desk:
    """All cases of a run of the app."""

    def __init__(self, folder: Path) -> None:
        """`folder` is private, and goes when the app ends."""
        self.folder = folder
        self.cases: dict[str, Case] = {}
        self.panels: dict[str, Panel] = {}

    def open(self, name: str, source: Path | None = None) -> Case:
        """A new case: for a file of this machine, which is read where it lies, or for one that is still to come."""
        key = secrets.token_hex(8)
        folder = self.folder / key
        folder.mkdir(mode=0o700)
        name = safe_name(name)
        case = Case(key, name, folder / name, folder)
        if source is not None:
            case.source.symlink_to(source.resolve())
        self.cases[key] = case
        return case

    def close(self, key: str) -> None:
        """Forget a case."""
        case = self.cases.pop(key, None)
        if case is not None:
            case.close()

    def close_panel(self, key: str) -> None:
        """Forget a panel."""
        panel = self.panels.pop(key, None)
        if panel is not None:
            panel.close()
