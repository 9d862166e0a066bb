"""`microveil mos session | panel | score | fit | predict | library`."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from microveil.assessment import mos
from microveil.cli.declared import Json
from microveil.cli.endings import point_of_no_return
from microveil.cli.shared import answer, read
from microveil.cli.show import opinions as show
from microveil.cli.typed import names_in
from microveil.measures.base import plain
from microveil.storage.atomic import atomic_targets, check_new, check_place

app = typer.Typer(
    name="mos",
    help="Mean opinion scores: what people say of a release that they see as a picture.",
    rich_markup_mode=None,
)

SessionFile = Annotated[Path, typer.Argument(metavar="SESSION", help="What `mos session` wrote.", show_default=False)]
RatingsFile = Annotated[
    Path,
    typer.Argument(
        metavar="RATINGS",
        help="A table with the columns observer, stimulus, reference, processed; or observer, stimulus, score.",
        show_default=False,
    ),
]
Kind = Annotated[
    str | None,
    typer.Option(metavar="KIND", help="difference or processed; by default difference, if there are both scores."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a file that exists already.")]
NoScreening = Annotated[bool, typer.Option("--no-screening", help="Let every observer count.")]


@app.command()
def session(
    stimuli: Annotated[
        Path,
        typer.Argument(
            metavar="STIMULI",
            help="A table with the columns id, source, removed, ssim, psnr; or id, source, original, processed: files.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE.toml", help="Where the session goes.", show_default=False)
    ],
    observers: Annotated[
        str, typer.Option(metavar="N", help="How many observers, or their names: A,B,C.", show_default=False)
    ],
    name: Annotated[str, typer.Option(help="What the session is called.")] = "session",
    simulated: Annotated[bool, typer.Option("--simulated", help="The observers are simulated, and not people.")] = (
        False
    ),
    seed: Annotated[int | None, typer.Option(metavar="N", help="For a session that can be repeated.")] = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Decide who sees what, in which order and on which side; hidden references are added."""
    check_place(output, [stimuli])
    check_new(output, overwrite=overwrite)
    people = int(observers) if observers.strip().isdecimal() else names_in(observers) or []
    listed = [_seen_from(output, stimuli, entry) for entry in mos.read_stimuli(stimuli)]
    session = mos.make_session(listed, people, seed=seed, name=name, simulated=simulated)
    with atomic_targets([output], point_of_no_return()) as (temporary,):
        mos.write(session, temporary)
    answer(lambda: plain(session.to_dict()), partial(show.session, session, output), as_json=json)


def _seen_from(session: Path, table: Path, entry: dict[str, Any]) -> dict[str, Any]:
    """A stimulus whose files are seen from the session, and not from the table that named them."""
    files = {name: table.parent / entry[name] for name in ("original", "processed") if entry.get(name)}
    here = session.resolve().parent
    return {**entry, **{name: os.path.relpath(path.resolve(), here) for name, path in files.items()}}


@app.command()
def panel(
    session: SessionFile,
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


@app.command()
def score(
    session: SessionFile,
    ratings: RatingsFile,
    kind: Kind = None,
    no_screening: NoScreening = False,
    json: Json = False,
) -> None:
    """Screen the observers, and print the mean opinion score of every stimulus."""
    scores = mos.score(mos.read_ratings(ratings, session), kind=kind, screening=not no_screening)
    answer(scores.to_dict, partial(show.opinion_scores, scores), as_json=json)


@app.command()
def fit(
    session: SessionFile,
    ratings: RatingsFile,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE.toml", help="Where the link goes.", show_default=False)
    ],
    predictor: Annotated[str, typer.Option(help="The measure to predict from: ssim or psnr.")] = "ssim",
    kind: Kind = None,
    no_screening: NoScreening = False,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Fit a link, by which `protect --method component_removal --set utility=mos --set link=FILE` predicts scores."""
    check_place(output, [session, ratings])
    check_new(output, overwrite=overwrite)
    scores = mos.score(mos.read_ratings(ratings, session), kind=kind, screening=not no_screening)
    link = mos.fit_link(scores, predictor)
    with atomic_targets([output], point_of_no_return()) as (temporary,):
        mos.write(link, temporary)
    content = {**link.to_dict(), "caveats": link.caveats, "scores": scores.to_dict()}
    answer(lambda: content, partial(show.link, link, scores, output), as_json=json)


@app.command()
def predict(
    original: Annotated[Path, typer.Argument(metavar="ORIGINAL", help="The file as it was.", show_default=False)],
    released: Annotated[
        Path,
        typer.Argument(metavar="RELEASED", help="The file to judge, its rows in the same order.", show_default=False),
    ],
    link: Annotated[Path, typer.Option(metavar="FILE.toml", help="What `mos fit` wrote.", show_default=False)],
    confidential: Annotated[
        str | None, typer.Option(metavar="A,B", help="Columns to compare; by default all numeric ones.")
    ] = None,
    json: Json = False,
) -> None:
    """Predict the mean opinion score of a release. It is not measured: nobody is asked."""
    curve = mos.read_link(link)
    before, after = (read(path, quiet=json)[0] for path in (original, released))
    found = mos.predict(before, after, curve, confidential=None if confidential is None else names_in(confidential))
    answer(lambda: {"measures": {found.id: found.to_dict()}}, partial(show.predicted, found), as_json=json)


@app.command()
def library(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILES", help="Tables and pictures, nine or more.", show_default=False)
    ],
    link: Annotated[Path, typer.Option(metavar="FILE.toml", help="What `mos fit` wrote.", show_default=False)],
    limit: Annotated[
        float, typer.Option(metavar="N", help="Opinion (0 to 100) that must be left.", show_default=False)
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE.toml", help="Where the library goes.", show_default=False)
    ],
    classes: Annotated[int, typer.Option(metavar="N", min=1, help="Classes of alike spectra.")] = 3,
    json: Json = False,
) -> None:
    """Say for classes of spectra how many components can go before the predicted opinion falls below a limit."""
    check_place(output, [link, *files])
    found, members = mos.library(files, link, limit, classes=classes)
    with atomic_targets([output], point_of_no_return()) as (temporary,):
        mos.write(found, temporary)
    everything = {**found.to_dict(), "members": [asdict(one) for one in members]}
    answer(lambda: everything, partial(show.library, found, output), as_json=json)
