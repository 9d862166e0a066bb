"""`microveil mos session | panel | score | fit | predict | library`."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from annotated_types import Ge

from microveil.assessment import mos
from microveil.cli.declared import command
from microveil.cli.endings import point_of_no_return
from microveil.cli.shared import Screen
from microveil.cli.show import opinions as show
from microveil.cli.typed import names_in
from microveil.measures.base import plain
from microveil.options import Options, option
from microveil.storage.atomic import atomic_targets, check_new, check_place

app = typer.Typer(
    name="mos",
    help="Mean opinion scores: what people say of a release that they see as a picture.",
    rich_markup_mode=None,
)

OVERWRITE = "Replace a file that exists already."


class SessionOptions(Options):
    """Decide who sees what, in which order and on which side; hidden references are added."""

    stimuli: Path = option(
        ...,
        "A table with the columns id, source, removed, ssim, psnr; or id, source, original, processed: files.",
        "argument",
        metavar="STIMULI",
    )
    output: Path = option(..., "Where the session goes.", metavar="FILE.toml", flag="-o --output")
    observers: str = option(..., "How many observers, or their names: A,B,C.", metavar="N")
    name: str = option("session", "What the session is called.")
    simulated: bool = option(False, "The observers are simulated, and not people.", flag="--simulated")
    seed: int | None = option(None, "For a session that can be repeated.", metavar="N")
    overwrite: bool = option(False, OVERWRITE, flag="--overwrite")


class ScoreOptions(Options):
    """Screen the observers, and print the mean opinion score of every stimulus."""

    session: Path = option(..., "What `mos session` wrote.", "argument", metavar="SESSION")
    ratings: Path = option(
        ...,
        "A table with the columns observer, stimulus, reference, processed; or observer, stimulus, score.",
        "argument",
        metavar="RATINGS",
    )
    kind: str | None = option(
        None, "difference or processed; by default difference, if there are both scores.", metavar="KIND"
    )
    no_screening: bool = option(False, "Let every observer count.", flag="--no-screening")


class FitOptions(ScoreOptions):
    """Fit a link, by which `protect --method component_removal --set utility=mos --set link=FILE` predicts scores."""

    output: Path = option(..., "Where the link goes.", metavar="FILE.toml", flag="-o --output")
    predictor: str = option("ssim", "The measure to predict from: ssim or psnr.")
    overwrite: bool = option(False, OVERWRITE, flag="--overwrite")


class PredictOptions(Options):
    """Predict the mean opinion score of a release. It is not measured: nobody is asked."""

    original: Path = option(..., "The file as it was.", "argument", metavar="ORIGINAL")
    released: Path = option(..., "The file to judge, its rows in the same order.", "argument", metavar="RELEASED")
    link: Path = option(..., "What `mos fit` wrote.", metavar="FILE.toml")
    confidential: Any = option(None, "Columns to compare; by default all numeric ones.", "columns")


class LibraryOptions(Options):
    """Say for classes of spectra how many components can go before the predicted opinion falls below a limit."""

    files: list[Path] = option(..., "Tables and pictures, nine or more.", "argument", metavar="FILES")
    link: Path = option(..., "What `mos fit` wrote.", metavar="FILE.toml")
    limit: float = option(..., "Opinion (0 to 100) that must be left.", metavar="N")
    output: Path = option(..., "Where the library goes.", metavar="FILE.toml", flag="-o --output")
    classes: Annotated[int, Ge(1)] = option(3, "Classes of alike spectra.", metavar="N")


def session(asked: SessionOptions, screen: Screen) -> None:
    """Write a session."""
    check_place(asked.output, [asked.stimuli])
    check_new(asked.output, overwrite=asked.overwrite)
    people = int(asked.observers) if asked.observers.strip().isdecimal() else names_in(asked.observers) or []
    listed = [_seen_from(asked.output, asked.stimuli, entry) for entry in mos.read_stimuli(asked.stimuli)]
    made = mos.make_session(listed, people, seed=asked.seed, name=asked.name, simulated=asked.simulated)
    _write(made, asked.output)
    screen.answer(lambda: plain(made.to_dict()), partial(show.session, made), [asked.output])


def _write(content: mos.Session | mos.Link | mos.Library, path: Path) -> None:
    with atomic_targets([path], point_of_no_return()) as (temporary,):
        mos.write(content, temporary)


def _seen_from(session: Path, table: Path, entry: dict[str, Any]) -> dict[str, Any]:
    """A stimulus whose files are seen from the session, and not from the table that named them."""
    files = {name: table.parent / entry[name] for name in ("original", "processed") if entry.get(name)}
    here = session.resolve().parent
    return {**entry, **{name: os.path.relpath(path.resolve(), here) for name, path in files.items()}}


def score(asked: ScoreOptions, screen: Screen) -> None:
    """Print the scores of a session."""
    scores = _scores(asked)
    screen.answer(scores.to_dict, partial(show.opinion_scores, scores))


def _scores(asked: ScoreOptions) -> mos.OpinionScores:
    return mos.score(mos.read_ratings(asked.ratings, asked.session), kind=asked.kind, screening=not asked.no_screening)


def fit(asked: FitOptions, screen: Screen) -> None:
    """Write a link from a measure to opinions."""
    check_place(asked.output, [asked.session, asked.ratings])
    check_new(asked.output, overwrite=asked.overwrite)
    scores = _scores(asked)
    link = mos.fit_link(scores, asked.predictor)
    _write(link, asked.output)
    content = {**link.to_dict(), "caveats": link.caveats, "scores": scores.to_dict()}
    screen.answer(lambda: content, partial(show.link, link, scores), [asked.output])


def predict(asked: PredictOptions, screen: Screen) -> None:
    """Print what a link predicts of a release."""
    curve = mos.read_link(asked.link)
    reader = replace(screen, quiet=screen.quiet or screen.as_json)
    before, after = (reader.read(path)[0] for path in (asked.original, asked.released))
    found = mos.predict(before, after, curve, confidential=asked.confidential)
    screen.answer(lambda: {"measures": {found.id: found.to_dict()}}, partial(show.predicted, found))


def library(asked: LibraryOptions, screen: Screen) -> None:
    """Write how many components classes of spectra can spare."""
    check_place(asked.output, [asked.link, *asked.files])
    found, members = mos.library(asked.files, asked.link, asked.limit, classes=asked.classes)
    _write(found, asked.output)
    everything = {**found.to_dict(), "members": [asdict(one) for one in members]}
    screen.answer(lambda: everything, partial(show.library, found), [asked.output])


command(app, "mos_commands.session", SessionOptions)


@app.command()
def panel(
    session: Annotated[Path, typer.Argument(metavar="SESSION", help="What `mos session` wrote.", show_default=False)],
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="RATINGS.csv", help="Where ratings go; those in it count.", show_default=False
        ),
    ],
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="Where to listen; 0 for a free one.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
) -> None:
    """Show the pairs of a session in a browser of this machine, to one rater after another, and keep what they say.

    The first line that is printed is the address of the organiser, who hands over to the raters: keep it from them.
    """
    from microveil.app.server import serve
    from microveil.cli.endings import Stopped

    check_place(output, [session])
    with suppress(Stopped):
        serve(session, port, browser=not no_browser, ratings=output)


command(app, "mos_commands.score", ScoreOptions)
command(app, "mos_commands.fit", FitOptions)
command(app, "mos_commands.predict", PredictOptions)
command(app, "mos_commands.library", LibraryOptions)
