"""The app in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOURCE = str(Path(__file__).resolve().parents[1] / "src")


def start(place: Path, *words: object) -> tuple[subprocess.Popen[str], str]:
    """`microveil app`, or what `words` say, with its private files in a folder; the process and its address."""
    env = {**os.environ, "MICROVEIL_TEMPORARY": str(place), "PYTHONPATH": SOURCE}
    command = [sys.executable, "-m", "microveil", *map(str, words or ["app"]), "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


@contextmanager
def running(folder: Path, *words: object) -> Iterator[str]:
    """The address of the app while it runs; it says nothing else, and leaves nothing behind."""
    place = folder / "temporary"
    place.mkdir()
    app, address = start(place, *words)
    try:
        yield address
    finally:
        app.terminate()
        said = app.communicate(timeout=20)
    assert said == ("", "")
    assert list(place.iterdir()) == []
