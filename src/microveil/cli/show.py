"""What the commands print."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from microveil import api
from microveil.assessment import mos
from microveil.assessment.assessment import Assessment
from microveil.assessment.policy import Verdict
from microveil.cli.endings import let_go, printable
from microveil.measures.base import Kind, Measure, plain
from microveil.papers.reproduce import Reproduction
from microveil.release.release import Release
from microveil.studies import FEWEST, Advice, Study, Summary

Risk = tuple[Measure, Measure]

ROUND_OFF = 1e-15
"""What is left of a difference of nothing."""

SMALLEST_TOLD = 1e-16
"""Errors below are told as this."""

NO_DIGIT = 1e-9
"""What a division leaves over a whole number, which is no reason to round up."""

MOST_RULES = 6
"""Broken rules that are shown one by one."""

Tell = Callable[[str, float | None], None]
"""Takes the name of a step and the share done, None where nobody knows it."""


class _PatientConsole(Console):
    """A console whose reader may go away (`| head`): the work goes on, and what is left to say is not said."""

    def render_str(self, text: str, **options: Any) -> Text:
        """All text goes this way, without what would steer the terminal."""
        return super().render_str(printable(text), **options)

    def on_broken_pipe(self) -> None:
        self.quiet = True
        let_go(sys.stderr if self.stderr else sys.stdout)


def _console() -> Console:
    """Standard output; where it is no terminal (a pipe, a log), tables get the room they need."""
    console = _PatientConsole(highlight=False, soft_wrap=True)
    return console if console.is_terminal else _PatientConsole(highlight=False, soft_wrap=True, width=160)


@contextmanager
def progress_bar() -> Iterator[Tell]:
    """A bar with the time left, on standard error."""
    console = _PatientConsole(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    bar = Progress(
        *columns,
        console=console,
        transient=True,
        disable=not console.is_terminal,  # in a log or a pipe it would leave nothing but empty lines
        redirect_stdout=False,  # the line that says "stopped" has to come out as it is
        redirect_stderr=False,
    )
    with bar:
        task = bar.add_task("starting", total=None)

        def tell(step: str, share: float | None) -> None:
            new = bar.tasks[0].description != step
            total = None if share is None else 1.0
            bar.update(task, description=step, total=total, completed=share or 0.0, refresh=new)

        yield tell


def as_dict(release: Release, risk: Risk | None) -> dict[str, Any]:
    """The account of a release as plain data: no seed, no value."""
    return {
        "method": release.method,
        "kind": release.kind,
        "rows": release.rows,
        "kept": dict(release.kept),
        "kept_on_average": list(release.kept_on_average),
        "rules": release.rules,
        "audit": None if (audit := release.audit) is None else [dataclasses.asdict(line) for line in audit],
        "dose": {name: dataclasses.asdict(dose) for name, dose in release.dose.items()},
        "altered_variance": release.components.altered_variance,
        "components": release.components.to_rows(),
        "untouched_variance": release.components.untouched_variance,
        "found": {name: plain(value) for name, value in release.found.items()},
        "leakage": None if release.leakage is None else dataclasses.asdict(release.leakage),
        "warnings": release.warnings,
        "risk": None if risk is None else {"before": risk[0].to_dict(), "after": risk[1].to_dict()},
    }


def release(result: Release, risk: Risk | None, judged: Assessment | None, written: list[Path]) -> None:
    """The account of a release for a person."""
    console = _console()
    console.print(
        f"Protected {len(result.dose)} columns of {result.rows} rows with [bold]{result.method}[/bold] "
        f"({result.settings['parameters']['perturb']}); the result is {result.kind}."
    )
    console.print(f"[bold]Dose:[/bold] {_dose(result)}")
    weighted = "weighted " if result.settings["weight"] else ""
    words = {
        "mean": f"{weighted}means",
        "covariance": f"{weighted}covariances",
        "rank correlation": "rank correlations",
        "distribution": "distributions",
        "mean in clusters": "means in clusters",
        "covariance in clusters": "covariances in clusters",
    }
    groups = {"Kept exactly": result.kept_exactly, "Kept closely": result.kept_closely, "Not kept": result.not_kept}
    for title, those in groups.items():
        near = "off by" if title == "Not kept" else "to"
        kept = ", ".join(f"{words.get(name, name)} ({near} {_bound(error)})" for name, error in those.items())
        if kept and title == "Kept exactly" and result.settings["strata"]:
            kept += ", in every stratum"
        if kept:
            console.print(f"[bold]{title}:[/bold] {kept}")
    if result.kept_on_average:
        console.print(f"[bold]Kept on average:[/bold] {', '.join(words[name] for name in result.kept_on_average)}")
    if result.found:
        found = ", ".join(f"{name.replace('_', ' ')} {value:.6g}" for name, value in result.found.items())
        console.print(f"[bold]Found:[/bold] {found}")
    for rule in result.rules:
        console.print(f"  holds in every row: {escape(rule)}")
    _audit(console, result)
    if risk is not None:
        before, after = risk
        console.print(
            f"[bold]Risk:[/bold] {100 * before.value:.1f} % of records can be linked before, "
            f"{100 * after.value:.2f} % after (95 % interval {100 * after.low:.2f} to {100 * after.high:.2f} %, "
            f"chance {100 * (after.chance or 0):.2f} %; lower is better)"
        )
        console.print(f"  {after.id}: {after.meaning}")
    for warning in result.warnings:
        console.print(f"[yellow]Note:[/yellow] {escape(warning)}")
    if judged is not None and judged.verdict is not None:
        _verdict(console, judged.verdict)
    _written(console, written)


def _dose(result: Release) -> str:
    """How far the columns are from the originals: what was reached, as what was set out for need not be."""
    reached = [dose.achieved for dose in result.dose.values() if dose.asked != 0]
    if not reached:
        return "nothing was to be changed"
    mean = sum(reached) / len(reached)
    return f"1 - correlation with the original is {mean:.2f}, from {min(reached):.2f} to {max(reached):.2f} by column"


def _bound(error: float) -> str:
    """Two digits, rounded up: what is kept to this is kept."""
    error = max(error, SMALLEST_TOLD)
    if not math.isfinite(error):
        return f"{error}"
    unit = 10.0 ** (math.floor(math.log10(error)) - 1)
    return f"{math.ceil(error / unit - NO_DIGIT) * unit:.1e}"


def _audit(console: Console, result: Release) -> None:
    """How many rules were broken, before and after, and which."""
    lines = result.audit or []
    if not lines:
        return
    before, after = (sum(getattr(line, when) > 0 for line in lines) for when in ("before", "after"))
    console.print(f"[bold]Rules:[/bold] of {len(lines)}, {before} were broken before and {after} are after")
    broken = [line for line in lines if line.before or line.after]
    for line in broken[:MOST_RULES]:
        console.print(f"  {escape(line.rule)}: {line.before} times before, {line.after} times after")
    if len(broken) > MOST_RULES:
        console.print(f"  and {len(broken) - MOST_RULES} more: --json and the internal report have all")
    if any(" <= " in line.rule and line.after > line.before for line in broken):
        console.print("  Orders are kept where the dictionary of the columns declares them: describe FILE -o, --rules")


def written(paths: list[Path]) -> None:
    """Where the files are."""
    _written(_console(), paths)


def _written(console: Console, paths: list[Path]) -> None:
    for path in paths:
        console.print(f"Wrote {escape(str(path))}")


TITLES: dict[Kind, str] = {"risk": "Risk", "utility": "Utility", "score": "Scores"}
HEADINGS = ("figure [95 % interval]", "chance", "identity", "shuffle")


def assessment(judged: Assessment) -> None:
    """The figures for a person: each with its interval, its chance level, and what the two known releases give."""
    console = _console()
    original, released = judged.rows
    rows = f"{released} rows" if original == released else f"{original} original and {released} released rows"
    console.print(f"{len(judged.columns)} columns, {rows}")
    cells = {name: _cells(judged, measure) for name, measure in judged.items()}
    widths = [max(map(len, column)) for column in zip(HEADINGS, *cells.values(), strict=True)]
    first = max(map(len, judged))
    for kind, title in TITLES.items():
        measures = judged.of_kind(kind)
        if measures:
            console.print()
            console.print(_row(title, first, HEADINGS, widths), style="bold", markup=False)
        for name, measure in measures.items():
            note = f" [{measure.note}]" if measure.note else ""
            console.print(_row(name, first, cells[name], widths), markup=False)
            console.print(f"    {_better(measure.better)}: {measure.meaning}{note}", style="dim", markup=False)
    console.print()
    _remarks(console, judged)
    if judged.verdict is not None:
        _verdict(console, judged.verdict)


def _remarks(console: Console, judged: Assessment) -> None:
    if judged.sanity is not None:
        console.print(
            "identity: the originals released as they are; shuffle: each of their columns shuffled on its own; both "
            f"measured on {judged.sanity.rows} of {judged.sanity.of} records"
        )
    worst = judged.worst_attack
    if worst is not None:
        gain = f"a gain of {_number(judged.worst_gain or 0.0)} of what was to be gained"
        console.print(f"[bold]Gains most over chance:[/bold] {worst.id}, {_number(worst.value)}: {gain}")
    for name, reason in judged.skipped.items():
        console.print(f"[yellow]Not measured:[/yellow] {name} ({escape(reason)})")
    for note in judged.notes:
        console.print(f"[yellow]Note:[/yellow] {escape(note)}")


def _cells(judged: Assessment, measure: Measure) -> tuple[str, ...]:
    interval = f" [{_number(measure.low)}, {_number(measure.high)}]" if measure.low < measure.high else ""
    known = (measure.chance, *judged.known(measure.id))
    return f"{_number(measure.value)}{interval}", *(_number(figure) for figure in known)


def _row(name: str, width: int, cells: Sequence[str], widths: Sequence[int]) -> str:
    figure, *rest = cells
    scale = " ".join(cell.rjust(room) for cell, room in zip(rest, widths[1:], strict=True))
    return f"{name:{width}} {figure:{widths[0]}} {scale}".rstrip()


def _number(figure: float | None) -> str:
    """Three digits, and no round-off."""
    return "-" if figure is None else f"{0.0 if abs(figure) < ROUND_OFF else figure:.3g}"


def _better(direction: str) -> str:
    return "neither direction is better" if direction == "neither" else f"{direction} is better"


def _verdict(console: Console, verdict: Verdict) -> None:
    console.print(f"[bold]Policy {escape(verdict.policy)}:[/bold] {'met' if verdict.met else 'not met'}")
    for line in verdict.lines:
        said = f"{_number(line.figure)}, {line.limit}" if line.met else line.reason
        console.print(f"  {'met    ' if line.met else 'NOT MET'}  {line.limit.measure}: {escape(said)}")


def demo_begins(source: Path) -> None:
    """What the demo is about to do."""
    console = _console()
    console.print(f"An invented survey of 1,200 firms ships with microveil: {escape(str(source))}")
    console.print("Now: microveil protect business_survey.csv -o released.csv --weight weight")
    console.print()


def description(found: api.Description, saved: Path | None) -> None:
    """The columns of a table, and the rules between them."""
    console = _console()
    table = Table(title=f"{found.rows} rows", title_justify="left")
    for heading in ("column", "kind", "values", "missing", "zeros", "distinct", "codes", "remark"):
        right = heading in ("missing", "zeros", "distinct")
        table.add_column(heading, justify="right" if right else "left", overflow="fold", no_wrap=heading == "values")
    for column in found.columns:
        zeros = "" if column.zeros is None else f"{100 * column.zeros:.1f} %{' *' if column.zero_spike else ''}"
        codes = ", ".join(f"{code:g}" for code in column.special_codes)
        codes += f" ({column.coded} cells)" if codes else ""
        cells = (column.name, column.kind, _values(column), str(column.missing), zeros, str(column.distinct), codes)
        table.add_row(*(escape(cell) for cell in (*cells, _remark(column))))
    console.print(table)
    if any(column.zero_spike for column in found.columns):
        console.print("* zero is a value of its own there, and its share is kept")
    _rules_found(console, found)
    if not found.rules:
        console.print("No exact sum or ratio between the numeric columns.")
    if saved is not None:
        console.print(f"Wrote {escape(str(saved))}")


def findings(found: api.Description) -> None:
    """What was found in a file, in a few lines, before it is protected."""
    console = _console()
    numeric = [column for column in found.columns if column.numeric]
    lists = {
        "whole numbers": [column.name for column in numeric if column.integer],
        "zero is a value of its own": [column.name for column in numeric if column.zero_spike],
        "codes, not values": [
            f"{column.name} ({', '.join(f'{code:g}' for code in column.special_codes)})"
            for column in numeric
            if column.special_codes
        ],
        "cells missing": [column.name for column in found.columns if column.missing],
        "looks like an identifier": [f"{name} ({reason})" for name, reason in found.identifiers.items()],
    }
    console.print(f"[bold]Found[/bold] in {found.rows} rows and {len(numeric)} columns of numbers:")
    for title, names in lists.items():
        if names:
            console.print(f"  {title}: {escape(_some(names))}")
    _rules_found(console, found, "  ")


def _rules_found(console: Console, found: api.Description, indent: str = "") -> None:
    for rule in found.rules:
        console.print(f"{indent}Holds in every row: {escape(rule)}")
    for near in found.near_rules:
        share = 100 * (1 - near["exceptions"] / near["rows"])
        console.print(
            f"{indent}Holds in {share:.1f} % of the rows: {escape(near['rule'])} ({near['exceptions']} exceptions; "
            "kept only if the dictionary of the columns says so)"
        )
    if found.orders:
        orders = [f"{order['lower']} <= {order['upper']}" for order in found.orders]
        console.print(f"{indent}Never above: {escape(_some(orders))}")


def _some(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _values(column: api.ColumnDescription) -> str:
    """`0 or more, steps of 0.01 EUR`: what can be told of the values without any of them."""
    sign = "0 or more" if column.minimum == 0 else "0 or less" if column.maximum == 0 else ""
    step = "" if column.step is None or column.step == 1 else f"steps of {column.step:g}"
    said = ", ".join(part for part in (sign, step) if part)
    return f"{said} [{column.unit}]".strip() if column.unit else said


def _remark(column: api.ColumnDescription) -> str:
    heaps = [f"{100 * share:.0f} % at multiples of {base}" for base, share in column.heaping.items()]
    identifier = [f"identifier? {column.identifier}"] if column.identifier else []
    return "; ".join([*identifier, *heaps[-2:]])


def methods(known: dict[str, str]) -> None:
    """The list of methods."""
    console = _console()
    for name, summary in known.items():
        console.print(f"[bold]{name}[/bold]  {escape(summary)}")
    console.print("`microveil methods ID` shows the parameters of one.")


def measures(known: dict[str, str]) -> None:
    """The list of measures."""
    console = _console()
    for name, summary in known.items():
        console.print(f"[bold]{name}[/bold]  {escape(summary)}")
    console.print("`microveil measures ID` tells all about one.")


def measure(details: dict[str, Any]) -> None:
    """One measure with its story."""
    console = _console()
    low, high = details["range"]
    console.print(f"[bold]{details['id']}[/bold] ({details['kind']})  {escape(details['summary'])}")
    console.print(f"From {low} to {high}; {_better(details['better'])}; {details['cost']}.")
    if details["paired"]:
        console.print("Compares records one by one: both files must have their rows in the same order.")
    if details["parts"]:
        console.print(f"Made of: {', '.join(details['parts'])}.")
    if details["story"]:
        console.print()
        console.print(escape(details["story"]))


def method(details: dict[str, Any]) -> None:
    """The parameters of one method."""
    console = _console()
    console.print(f"[bold]{details['id']}[/bold]  {escape(details['summary'])}")
    console.print(f"Reference: {escape(details['reference'])}")
    for group in details["parameters"]:
        title = "for every perturbation" if not group["perturb"] else f"perturb={group['perturb']}: {group['summary']}"
        console.print()
        console.print(escape(title))
        for parameter in group["parameters"]:
            console.print(
                f"  [bold]{parameter['name']}[/bold] ({escape(parameter['allowed'])}; default "
                f"{escape(str(parameter['default']))})"
            )
            console.print(f"      {escape(parameter['meaning'])}")
        if not group["parameters"]:
            console.print("  no parameters of its own")


def session(made: mos.Session, written: Path) -> None:
    """What a session holds; not who sees what."""
    console = _console()
    hidden = sum(stimulus.hidden for stimulus in made.stimuli)
    who = "simulated observers" if made.simulated else "observers"
    console.print(
        f"{len(made.stimuli) - hidden} stimuli and {hidden} hidden references for {len(made.observers)} {who}, each "
        "in an order and with sides of their own."
    )
    console.print(f"Wrote {escape(str(written))}")


def opinion_scores(scores: mos.OpinionScores) -> None:
    """Mean opinion scores with their intervals, hidden references below."""
    console = _console()
    table = Table(title=f"Mean opinion scores ({scores.kind}, 95 % intervals)", title_justify="left")
    for heading in ("stimulus", "source", "removed", "ssim", "psnr", "observers", "mos", "interval"):
        table.add_column(heading, justify="left" if heading in ("stimulus", "source") else "right")
    for opinion in (*scores.opinions, *scores.control):
        stimulus = opinion.stimulus
        interval = "-" if opinion.low is None else f"[{_number(opinion.low)}, {_number(opinion.high)}]"
        figures = (stimulus.ssim, stimulus.psnr, float(opinion.observers), opinion.mos)
        name = f"{stimulus.id} (hidden reference)" if stimulus.hidden else stimulus.id
        cells = (name, stimulus.source, str(stimulus.removed), *map(_number, figures), interval)
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
    console = _console()
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
    console = _console()
    console.print(f"[bold]{found.id}[/bold] {_number(found.value)} [{_number(found.low)}, {_number(found.high)}]")
    console.print(f"  {_better(found.better)}: {escape(found.meaning)}")
    console.print(f"[yellow]Note:[/yellow] {escape(found.note)}")


def study(found: Study, limit: Mapping[str, float], best: str | None) -> None:
    """A study for a person: a block for each measure, a line for each method, the safest or most useful first."""
    console = _console()
    summaries = found.summaries()
    width = max((len(row.label) for row in summaries), default=0)
    for measure in found.measures:
        rows = [row for row in summaries if row.measure == measure]
        if not rows:
            continue
        console.print()
        console.print(f"{measure} ({_better(rows[0].better)}): mean{_lies(rows)}", style="bold", markup=False)
        for row in sorted(rows, key=lambda one: one.mean, reverse=rows[0].better == "high"):
            console.print(
                f"  {row.label:{width}}  {_number(row.mean):>8}  {_interval(row)} of {row.repeats}", markup=False
            )
    console.print()
    for label, reason in found.failed.items():
        console.print(f"[yellow]No release:[/yellow] {escape(label)} ({escape(reason)})")
    for label, names in found.missing.items():
        console.print(f"[yellow]Infinite or missing:[/yellow] {escape(', '.join(names))} of {escape(label)}")
    if found.has_map:
        console.print(f"[bold]Beaten by no other in risk and loss:[/bold] {escape(', '.join(found.frontier()))}")
    if limit:
        asked = ", ".join(f"{name} {most:g}" for name, most in limit.items())
        console.print(f"[bold]Least loss within {asked}:[/bold] {escape(best or 'none of them')}")


def _lies(rows: Sequence[Summary]) -> str:
    """What stands behind the means: an interval, or why there is none."""
    few = [row.repeats for row in rows if row.low is None]
    word = f"; from {FEWEST} releases on it is said where 95 % of them lie"
    return (", and where 95 % of releases lie" if len(few) < len(rows) else "") + (word if few else "")


def _interval(row: Summary) -> str:
    return "-" if row.low is None else f"[{_number(row.low)}, {_number(row.high)}]"


def reproducible(known: Sequence[Mapping[str, Any]]) -> None:
    """The tables and figures of the papers that can be made again."""
    console = _console()
    for entry in known:
        console.print(f"[bold]{entry['id']}[/bold]  {escape(entry['title'])}")
        console.print(f"    {entry['paper']}, {entry['place']}; needs {entry['needs']}", style="dim", markup=False)
    console.print("`microveil reproduce ID` makes one again.")


def reproduction(found: Reproduction) -> None:
    """A paper's table beside ours, line by line."""
    console, entry = _console(), found.entry
    console.print(f"{entry.title}: {entry.paper}, {entry.place}", style="bold", markup=False)
    table = Table()
    for heading in ("row", "figure", "published", "ours", "difference", "allowed", "verdict"):
        right = heading in ("published", "ours", "difference", "allowed")
        table.add_column(heading, justify="right" if right else "left", overflow="fold")
    for line in found.lines:
        figures = (_digits(line.published), _digits(line.ours), _number(line.difference), _number(line.tolerance))
        verdict = f"{line.verdict} ({line.remark})" if line.remark else line.verdict
        table.add_row(*(escape(cell) for cell in (line.row, line.figure, *figures, verdict)))
    console.print(table)
    said = ", ".join(f"{count} {verdict}" for verdict, count in found.verdicts.items())
    console.print(f"[bold]{len(found.lines)} figures:[/bold] {said}")
    for note in found.notes:
        console.print(f"[yellow]Note:[/yellow] {escape(note)}")


def _digits(figure: float | None) -> str:
    """Enough digits to compare with print."""
    return "-" if figure is None else f"{0.0 if abs(figure) < ROUND_OFF else figure:.5g}"


def advice(found: Advice, command: str | None) -> None:
    """A recommendation for a person: the method, what to expect, and why."""
    console = _console()
    console.print(f"[bold]Recommended:[/bold] {escape(found.label or 'none of the candidates')}")
    for reason in found.reasons:
        console.print(f"  - {escape(reason)}")
    if command is not None:
        console.print(f"[bold]Run:[/bold] {escape(command)}", soft_wrap=True)
    width = max((len(row.measure) for row in found.expected), default=0)
    if found.expected:
        console.print(f"[bold]Expect[/bold] (mean{_lies(found.expected)}):")
    for row in found.expected:
        console.print(f"  {row.measure:{width}}  {_number(row.mean):>8}  {_interval(row)}", markup=False)
    if found.runners_up:
        console.print(f"[bold]Next:[/bold] {escape(', '.join(found.runners_up))}")
    doses = [f"{name}: {label or 'none'}" for name, label in found.smallest_dose.items()]
    console.print(f"[bold]Smallest dose within the limit:[/bold] {escape('; '.join(doses))}")


def suppressed_table(told: Mapping[str, Any], written: Sequence[Path]) -> None:
    """What became of a table: counts, sums that were asked for, verdicts, warnings."""
    console = _console()
    why = f", {told['primary']:,} of them for their own sake and {told['secondary']:,} to protect them"
    known = why if told["primary"] else ""  # a pattern need not say why cells are hidden
    console.print(f"{told['cells']:,} cells: {told['suppressed']:,} hidden{known}")
    for text, found in told.get("sums", {}).items():
        word = "can be published" if found["publishable"] else "must not be published: it has decimals"
        console.print(escape(f"  {text} = {found['value']:.10g} {word}"))
    if "exactly_determined" in told:
        console.print(
            f"exactly determined: {told['exactly_determined']:,}; nearly determined: {told['nearly_determined']:,}"
        )
        for verdict, names in told["named"].items():
            for name in names[:MOST_RULES]:
                console.print(escape(f"  {verdict}: {name}"))
            if len(names) > MOST_RULES:
                console.print(f"  and {len(names) - MOST_RULES:,} others {verdict}")
    for warning in told["warnings"]:
        console.print(escape(f"warning: {warning}"))
    for path in written:
        console.print(escape(f"written: {path}"))
