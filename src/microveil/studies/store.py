"""Where a study keeps what it has finished: a line of JSON for each cell, so that a killed study goes on.

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
    """Finished cells by their key; without a path they are only remembered."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.cells: dict[str, dict[str, Any]] = {} if path is None else _read(path)

    @contextmanager
    def open(self) -> Iterator[StoreWriter]:
        """For adding cells."""
        if self.path is None:
            yield StoreWriter(self.cells, None)
            return
        with _for_its_owner(self.path) as lines:
            if _ends_within_a_line(self.path):
                lines.write("\n")
            yield StoreWriter(self.cells, lines)


class StoreWriter:
    """Adds cells to what is remembered, and to the file as soon as each is finished."""

    def __init__(self, cells: dict[str, dict[str, Any]], lines: IO[str] | None) -> None:
        self.cells = cells
        self.lines = lines

    def add(self, key: str, cell: dict[str, Any]) -> None:
        """Remember a cell; once this returns, a kill does not lose it."""
        self.cells[key] = cell
        if self.lines is not None:
            self.lines.write(json.dumps({"study": VERSION, "key": key, **cell}, allow_nan=False) + "\n")
            self.lines.flush()
            os.fsync(self.lines.fileno())


def _for_its_owner(path: Path) -> IO[str]:
    """The file, to add to it; one that others may read is for its owner from now on."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        path.chmod(0o600)
    except OSError as error:
        why = (error.strerror or "unknown").lower()
        raise FileError(f"store: {path} cannot be written ({why})", "give another file, or none") from None
    return os.fdopen(descriptor, "a", encoding="utf-8")


def _read(path: Path) -> dict[str, dict[str, Any]]:
    """All finished cells. A kill may have cut off a line, which is then not finished; nothing else is passed over."""
    if not path.exists():
        return {}
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        why = (error.strerror or "unknown").lower()
        raise FileError(f"store: {path} cannot be read ({why})", "give another file, or none") from None
    found = {}
    for number, line in enumerate(lines, start=1):
        try:
            cell = json.loads(line) if line.strip() else None
        except json.JSONDecodeError:
            cell = None if line.startswith(BEGIN) or BEGIN.startswith(line) else {}
        if cell is None:
            continue
        if not isinstance(cell, dict) or cell.pop("study", None) != VERSION or not isinstance(cell.get("key"), str):
            raise DataError(f"store: line {number} of {path} is not of a study", "give another file, or none")
        found[cell.pop("key")] = cell
    return found


def _ends_within_a_line(path: Path) -> bool:
    size = path.stat().st_size
    if size == 0:
        return False
    with path.open("rb") as stored:
        stored.seek(size - 1)
        return stored.read(1) != b"\n"
