"""What is printed of mean opinion scores."""

from __future__ import annotations

from rich.markup import escape

from microveil.assessment import mos
from microveil.cli.show.console import better, number, out, print_notes, print_table
from microveil.measures.base import Measure


def session(made: mos.Session) -> None:
    """What a session holds; not who sees what."""
    hidden = sum(stimulus.hidden for stimulus in made.stimuli)
    who = "simulated observers" if made.simulated else "observers"
    out(
        f"{len(made.stimuli) - hidden} stimuli and {hidden} hidden references for {len(made.observers)} {who}, each "
        "in an order and with sides of their own."
    )


def opinion_scores(scores: mos.OpinionScores) -> None:
    """Mean opinion scores with their intervals, hidden references below."""
    figures_of = ("removed", "ssim", "psnr", "observers", "mos", "interval")
    rows = []
    for opinion in (*scores.opinions, *scores.control):
        stimulus = opinion.stimulus
        interval = "-" if opinion.low is None else f"[{number(opinion.low)}, {number(opinion.high)}]"
        figures = (stimulus.ssim, stimulus.psnr, float(opinion.observers), opinion.mos)
        name = f"{stimulus.id} (hidden reference)" if stimulus.hidden else stimulus.id
        rows.append((name, stimulus.source, str(stimulus.removed), *map(number, figures), interval))
    title = f"Mean opinion scores ({scores.kind}, 95 % intervals)"
    print_table(("stimulus", "source", *figures_of), rows, right=figures_of, title=title)
    who = "simulated observers, not people" if scores.simulated else "observers"
    out(f"Measured on {scores.observers} {who}.")
    print_notes((f"{name} ({reason})" for name, reason in scores.rejected.items()), "Rejected")
    print_notes(scores.notes)


def link(fitted: mos.Link, scores: mos.OpinionScores) -> None:
    """A fitted curve, below the scores that it was fitted to."""
    opinion_scores(scores)
    out(
        f"[bold]Link:[/bold] {fitted.bottom:.4g} + {fitted.top - fitted.bottom:.4g} / (1 + exp(-{fitted.slope:.4g} "
        f"({fitted.predictor} - {fitted.middle:.4g}))), fitted on {fitted.predictor} from {fitted.lowest:.4g} to "
        f"{fitted.highest:.4g}; R² {fitted.r2:.3f}, residual standard deviation {fitted.residual_sd:.2f}"
    )
    out("What it says of other releases is predicted, not measured.")
    print_notes(fitted.caveats)


def predicted(found: Measure) -> None:
    """A predicted score, said to be one."""
    out(f"[bold]{found.id}[/bold] {number(found.value)} [{number(found.low)}, {number(found.high)}]")
    out(f"  {better(found.better)}: {escape(found.meaning)}")
    print_notes([found.note])


def library(found: mos.Library) -> None:
    """Classes of spectra with what they can spare, and how far such answers are off."""
    headings = ("share of the dominant eigenvalue", "files", "components", "fewest", "most")
    rows = [
        (f"{one.low:.3f} to {one.high:.3f}", *map(str, (one.members, one.components, one.fewest, one.most)))
        for one in found.classes
    ]
    title = f"Components that can go while the predicted opinion is {found.limit:g} or more"
    print_table(headings, rows, right=headings, title=title)
    out(
        f"Of a file that was left out, the answer of its class is off by {found.error:.2f} components on average; one "
        f"answer for all files, by {found.error_without_classes:.2f}."
    )
    print_notes([*found.notes, *(["the classes tell no more than one answer for all"] * (not found.helps))])
