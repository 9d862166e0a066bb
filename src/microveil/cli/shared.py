"""What the commands share: JSON, progress, how files are read, and how work ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from microveil.assessment.assessment import Assessment
from microveil.cli.endings import NotMet, say
from microveil.cli.show.console import Tell, progress_bar
from microveil.io.files.formats import ReadOptions
from microveil.io.locations import Place, file_of
from microveil.io.tables import read_table

LONG = 500_000
"""Cells from which on a progress bar is shown; and bytes of a file, while it is read."""


def print_json(content: Any) -> None:
    """One object on standard output."""
    print(json.dumps(content, indent=2, allow_nan=False))


def answer(content: Callable[[], Any], show: Callable[[], None], *, as_json: bool, quiet: bool = False) -> None:
    """The answer of a command: one object on standard output, or what people read of it, or nothing."""
    if as_json:
        print_json(content())
    elif not quiet:
        show()


@contextmanager
def progress(quiet: bool, size: int = LONG, least: int = LONG, *, lines: bool = False) -> Iterator[Tell]:
    """A bar on standard error for work of at least so much size; nothing for the rest. In a log, `lines` if asked."""
    if quiet or size < least:
        yield lambda *_: None
        return
    with progress_bar(lines=lines) as tell:
        yield tell


def read(source: Place, quiet: bool, reading: ReadOptions | None = None, *, findings: bool = True) -> tuple[Any, Any]:
    """The table in a file or database, and its format; what was found out about that is said.

    Those `findings` that are also warnings of a release need not be said here.
    """
    file = file_of(source)
    size = file.stat().st_size if file is not None and file.is_file() else 0
    with progress(quiet, size) as tell:
        tell("reading the file", None)
        frame, file_format = read_table(source, reading)
    if not quiet and not file_format.source_format.is_plain:
        say(f"{source} read as: {file_format.description}")
    for finding in file_format.source_format.findings if findings and not quiet else ():
        say(f"{source}: {finding}")
    return frame, file_format


def end(judged: Assessment | None, consequence: str = "") -> None:
    """A policy that is not met has an exit code of its own."""
    verdict = None if judged is None else judged.verdict
    if verdict is not None and not verdict.met:
        raise NotMet(f"{verdict}{consequence}")
