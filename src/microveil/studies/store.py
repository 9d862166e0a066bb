"""Where a study keeps what it has finished: a line of JSON for each release, so that a killed study goes on.

The file holds figures and the names of methods; no value of the data, and no seed. Only its owner may read it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from microveil.core.errors import DataError, FileError

VERSION = 1

BEGIN = f'{{"study": {VERSION}, "key": "'
"""How every line begins."""


class Store:
    """The results of finished releases by their key; without a path they are only remembered."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.results: dict[str, dict[str, Any]] = {} if path is None else _read(path)
        self._lines: IO[str] | None = None

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Meanwhile results are added to the file, too."""
        if self.path is None:
            yield
            return
        with _for_its_owner(self.path) as self._lines:
            if _ends_within_a_line(self.path):
                self._lines.write("\n")
            yield

    def add(self, key: str, result: dict[str, Any]) -> None:
        """Remember a result; once this returns, a kill does not lose it."""
        self.results[key] = result
        if self._lines is not None:
            self._lines.write(json.dumps({"study": VERSION, "key": key, **result}, allow_nan=False) + "\n")
            self._lines.flush()
            os.fsync(self._lines.fileno())


def _for_its_owner(path: Path) -> IO[str]:
    """The file, to add to it; one that others may read is for its owner from now on."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        path.chmod(0o600)
    except OSError as error:
        raise _cannot("written", path, error) from None
    return os.fdopen(descriptor, "a", encoding="utf-8")


def _read(path: Path) -> dict[str, dict[str, Any]]:
    """All finished results. A kill may have cut off a line, which is then not finished; nothing else is passed over."""
    if not path.exists():
        return {}
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        raise _cannot("read", path, error) from None
    found = {}
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line) if line.strip() else None
        except json.JSONDecodeError:
            entry = None if line.startswith(BEGIN) or BEGIN.startswith(line) else {}
        if entry is None:
            continue
        if not isinstance(entry, dict) or entry.pop("study", None) != VERSION or not isinstance(entry.get("key"), str):
            raise DataError(f"store: line {number} of {path} is not of a study", "give another file, or none")
        found[entry.pop("key")] = entry
    return found


def _cannot(verb: str, path: Path, error: OSError) -> FileError:
    why = (error.strerror or "unknown").lower()
    return FileError(f"store: {path} cannot be {verb} ({why})", "give another file, or none")


def _ends_within_a_line(path: Path) -> bool:
    """Was the last line cut off?"""
    with path.open("rb") as stored:
        if not stored.seek(0, os.SEEK_END):
            return False
        stored.seek(-1, os.SEEK_END)
        return stored.read(1) != b"\n"
