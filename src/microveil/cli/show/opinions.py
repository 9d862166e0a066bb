"""What is printed of mean opinion scores."""

from __future__ import annotations

from pathlib import Path

from rich.markup import escape
from rich.table import Table

from microveil.assessment import mos
from microveil.cli.show.console import better, number, open_console
from microveil.measures.base import Measure


def session(made: mos.Session, written: Path) -> None:
    """What a session holds; not who sees what."""
    console = open_console()
    hidden = sum(stimulus.hidden for stimulus in made.stimuli)
    who = "simulated observers" if made.simulated else "observers"
    console.print(
        f"{len(made.stimuli) - hidden} stimuli and {hidden} hidden references for {len(made.observers)} {who}, each "
        "in an order and with sides of their own."
    )
    console.print(f"Wrote {escape(str(written))}")


def opinion_scores(scores: mos.OpinionScores) -> None:
    """Mean opinion scores with their intervals, hidden references below."""
    console = open_console()
    table = Table(title=f"Mean opinion scores ({scores.kind}, 95 % intervals)", title_justify="left")
    for heading in ("stimulus", "source", "removed", "ssim", "psnr", "observers", "mos", "interval"):
        table.add_column(heading, justify="left" if heading in ("stimulus", "source") else "right")
    for opinion in (*scores.opinions, *scores.control):
        stimulus = opinion.stimulus
        interval = "-" if opinion.low is None else f"[{number(opinion.low)}, {number(opinion.high)}]"
        figures = (stimulus.ssim, stimulus.psnr, float(opinion.observers), opinion.mos)
        name = f"{stimulus.id} (hidden reference)" if stimulus.hidden else stimulus.id
        cells = (name, stimulus.source, str(stimulus.removed), *map(number, figures), interval)
        table.add_row(*(escape(cell) for cell in cells))
    console.print(table)
    who = "simulated observers, not people" if scores.simulated else "observers"
    console.print(f"Measured on {scores.observers} {who}.")
    for name, reason in scores.rejected.items():
        console.print(f"[yellow]Rejected:[/yellow] {escape(name)} ({escape(reason)})")
    for note in scores.notes:
        console.print(f"[yellow]Note:[/yellow] {escape(note)}")


def link(fitted: mos.Link, scores: mos.OpinionScores, written: Path) -> None:
    """A fitted curve, below the scores that it was fitted to."""
    opinion_scores(scores)
    console = open_console()
    console.print(
        f"[bold]Link:[/bold] {fitted.bottom:.4g} + {fitted.top - fitted.bottom:.4g} / (1 + exp(-{fitted.slope:.4g} "
        f"({fitted.predictor} - {fitted.middle:.4g}))), fitted on {fitted.predictor} from {fitted.lowest:.4g} to "
        f"{fitted.highest:.4g}; R² {fitted.r2:.3f}, residual standard deviation {fitted.residual_sd:.2f}"
    )
    console.print("What it says of other releases is predicted, not measured.")
    for caveat in fitted.caveats:
        console.print(f"[yellow]Note:[/yellow] {escape(caveat)}")
    console.print(f"Wrote {escape(str(written))}")


def predicted(found: Measure) -> None:
    """A predicted score, said to be one."""
    console = open_console()
    console.print(f"[bold]{found.id}[/bold] {number(found.value)} [{number(found.low)}, {number(found.high)}]")
    console.print(f"  {better(found.better)}: {escape(found.meaning)}")
    console.print(f"[yellow]Note:[/yellow] {escape(found.note)}")


def library(found: mos.Library, written: Path) -> None:
    """Classes of spectra with what they can spare, and how far such answers are off."""
    console = open_console()
    table = Table(title=f"Components that can go while the predicted opinion is {found.limit:g} or more")
    for heading in ("share of the dominant eigenvalue", "files", "components", "fewest", "most"):
        table.add_column(heading, justify="right")
    for one in found.classes:
        counts = (one.members, one.components, one.fewest, one.most)
        table.add_row(f"{one.low:.3f} to {one.high:.3f}", *map(str, counts))
    console.print(table)
    console.print(
        f"Of a file that was left out, the answer of its class is off by {found.error:.2f} components on average; one "
        f"answer for all files, by {found.error_without_classes:.2f}."
    )
    for note in (*found.notes, *([] if found.helps else ["the classes tell no more than one answer for all"])):
        console.print(f"[yellow]Note:[/yellow] {escape(note)}")
    console.print(f"Wrote {escape(str(written))}")
