"""The papers' tables and figures compared with ours: what is printed, what we find, and a verdict on every figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from microveil.core.errors import ParameterError, did_you_mean
from microveil.papers import PublishedItem, published_items
from microveil.papers.page import Page, page_of
from microveil.papers.published import TEXT, Found, NotRunError, RunOptions
from microveil.papers.verdicts import Reproduction, line_of
from microveil.studies.compare import Progress

ALL = "all"
REPEATS = 20
SEED = 1
"""Nothing is protected here, and everybody ought to find the same: the seed is no secret."""


def reproduce(
    table: str | None = None,
    *,
    repeats: int | None = None,
    seed: int | None = SEED,
    workers: int | None = None,
    image: str | Path | None = None,
    progress: Progress | None = None,
) -> Any:
    """Make a table or figure of a paper again, and compare every figure with the printed one.

    Args:
        table: its id, or "all" for one page about all of them; without one, the ids and titles are given back.
        repeats: releases behind each figure, 20 by default; where nothing is drawn it is made once, with a note.
        seed: a whole number; by default always the same, so that everybody finds the same figures.
        workers: processes to work in; by default one for each core.
        image: the file of the picture that a table is about, if it is about one.
        progress: called with the name of the step and the share done.

    Returns:
        A `Reproduction`; of "all" a `Page`; without a table a dict.
    """
    known = published_items()
    if table is None:
        if repeats is not None or image is not None:
            asked = "repeats" if repeats is not None else "image"
            raise ParameterError(f"{asked}: no table is named", "reproduce() alone lists them")
        return {name: entry.title for name, entry in known.items()}
    options = RunOptions(
        REPEATS if repeats is None else repeats,
        seed,
        workers,
        progress or (lambda *_: None),
        None if image is None else Path(image),
    )
    if table == ALL:
        return _whole(options)
    entry = known.get(table)
    if entry is None:
        raise ParameterError(f"there is no table '{table}'", did_you_mean(table, [*known, ALL]))
    if image is not None and not entry.takes_image:
        raise ParameterError(f"image: {entry.id} is about no picture", "leave it out")
    least = entry.least_repeats
    if repeats is not None and entry.draws and repeats < least:
        why = ", whose spread it is judged by" if least > 1 else ""
        raise ParameterError(f"repeats: {repeats} asked, {entry.id} needs at least {least}{why}", "ask for more")
    idle = repeats is not None and not entry.draws
    return _made(entry, options, [f"nothing is drawn for {entry.id}: it was made once"] if idle else [])


def _whole(options: RunOptions) -> Page:
    """One page about every table and figure."""
    known = list(published_items().values())
    if options.repeats < max(entry.least_repeats for entry in known):
        raise ParameterError(f"repeats: {options.repeats} asked, too few for some of the tables", "ask for more")
    found = []
    with TemporaryDirectory() as folder:
        options = replace(options, store=Path(folder) / "releases")
        for number, entry in enumerate(known):

            def tell(step: str, share: float, entry: PublishedItem = entry, number: int = number) -> None:
                options.progress(f"{entry.id}: {step}", (number + share) / len(known))

            found.append(_made(entry, replace(options, progress=tell)))
    picture = "" if options.image is None else ", and with the picture that some are about"
    said = f"With {options.repeats} releases behind each figure that is drawn, from seed {options.seed}{picture}."
    return page_of(found, said)


def _made(entry: PublishedItem, options: RunOptions, notes: Sequence[str] = ()) -> Reproduction:
    """An item, line by line."""
    try:
        found = entry.run(replace(options, repeats=options.repeats if entry.draws else 1))
    except NotRunError as reason:
        found = Found({}, otherwise=str(reason))
    if found.claims:
        shown = {(TEXT, claim): [float(holds)] for claim, holds in zip(entry.claims, found.claims, strict=True)}
        found = replace(found, values={**found.values, **shown})
    return Reproduction(entry, [line_of(figure, found) for figure in entry.printed], [*entry.notes, *notes])
