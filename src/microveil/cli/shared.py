"""What the commands share: options that several have, lists of names, how files are read, and how work ends."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from microveil import api
from microveil.assessment.assessment import Assessment
from microveil.cli import show
from microveil.cli.endings import NotMet, say
from microveil.core.errors import ParameterError

LONG = 500_000
"""Cells from which on a progress bar is shown; and bytes of a file, while it is read."""

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else there.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]
Seed = Annotated[int | None, typer.Option(metavar="N", help="For a result that can be repeated. Keep it secret.")]


def names_in(text: str) -> list[str]:
    """`a,b` as names; one with a comma in it goes in double quotes."""
    import csv

    try:
        names = next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error:
        raise ParameterError(
            "a list of columns cannot be read", "separate names by commas, quote those that have one"
        ) from None
    return [name for name in names if name.strip()]


def check_different(targets: Sequence[Path]) -> None:
    """No output may overwrite another."""
    if len({path.resolve() for path in targets}) < len(targets):
        raise ParameterError("two outputs have the same name", "give each a name of its own")


def print_json(content: Any) -> None:
    """One object on standard output."""
    print(json.dumps(content, indent=2, allow_nan=False))


@contextmanager
def progress(size: int, quiet: bool, least: int) -> Iterator[show.Tell]:
    """A bar on standard error for work of at least so much size; nothing for the rest."""
    if quiet or size < least:
        yield lambda *_: None
        return
    with show.progress_bar() as tell:
        yield tell


def files_among(places: Sequence[api.Place]) -> list[Path]:
    """The files among places."""
    return [file for file in map(api.file_of, places) if file is not None]


def read(source: api.Place, quiet: bool, reading: api.ReadOptions | None = None) -> tuple[Any, Any]:
    """The table in a file or database, and its format; what was found out about that is told."""
    file = api.file_of(source)
    size = file.stat().st_size if file is not None and file.is_file() else 0
    with progress(size, quiet, LONG) as tell:
        tell("reading the file", None)
        frame, file_format = api.read_table(source, reading)
    if not quiet and not file_format.manner.is_plain:
        say(f"{source} read as: {file_format.told}")
    return frame, file_format


def end(judged: Assessment | None, consequence: str = "") -> None:
    """A policy that is not met has an exit code of its own."""
    verdict = None if judged is None else judged.verdict
    if verdict is not None and not verdict.met:
        raise NotMet(f"{verdict}{consequence}")
