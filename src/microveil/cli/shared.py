"""What the commands share: JSON, progress, how files are read, and how work ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.markup import escape

from microveil.assessment.assessment import Assessment
from microveil.cli.endings import NotMet, say
from microveil.cli.show.console import Tell, out, progress_bar
from microveil.io.files.formats import ReadOptions
from microveil.io.locations import Place, file_of
from microveil.io.tables import read_table

LONG = 500_000
"""Cells from which on a progress bar is shown; and bytes of a file, while it is read."""


@dataclass(frozen=True)
class Screen:
    """What a command shows: one JSON object on standard output (`as_json`), or text, or with `quiet` nothing."""

    as_json: bool = False
    quiet: bool = False

    def answer(self, content: Callable[[], Any], show: Callable[[], None], written: Iterable[Any] = ()) -> None:
        """Print what came of the work: its `content` as JSON, or what `show` prints and what was `written`."""
        if self.as_json:
            print(json.dumps(content(), indent=2, allow_nan=False))
        elif not self.quiet:
            show()
            for path in written:
                out(f"Wrote {escape(str(path))}")

    @contextmanager
    def progress(self, size: int = LONG, least: int = LONG, *, lines: bool = False) -> Iterator[Tell]:
        """A bar on standard error for work of at least the `least` size. In a log, `lines` if asked."""
        if self.quiet or size < least:
            yield lambda *_: None
            return
        with progress_bar(lines=lines) as tell:
            yield tell

    def read(self, source: Place, reading: ReadOptions | None = None, *, findings: bool = True) -> tuple[Any, Any]:
        """The table in a file or database, and its format; prints what was found out about the format.

        Without `findings`, those that are also warnings of a release are not printed here.
        """
        file = file_of(source)
        size = file.stat().st_size if file is not None and file.is_file() else 0
        with self.progress(size) as tell:
            tell("reading the file", None)
            frame, file_format = read_table(source, reading)
        if not self.quiet and not file_format.is_plain:
            say(f"{source} read as: {file_format.description}")
        for finding in file_format.findings if findings and not self.quiet else ():
            say(f"{source}: {finding}")
        return frame, file_format


def end(judged: Assessment | None, consequence: str = "") -> None:
    """A policy that is not met has an exit code of its own."""
    verdict = None if judged is None else judged.verdict
    if verdict is not None and not verdict.met:
        raise NotMet(f"{verdict}{consequence}")
