"""What the commands share: options that several have, lists of names, and what goes to the screen."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from microveil.cli import show
from microveil.core.errors import ParameterError

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
