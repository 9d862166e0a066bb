"""What is printed of comparisons, advice and the tables of papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from microveil.cli.show.console import better, digits, number, open_console
from microveil.papers.page import Page
from microveil.papers.verdicts import Reproduction
from microveil.studies import FEWEST, Advice, Study, Summary


def study(found: Study, limit: Mapping[str, float], best: str | None) -> None:
    """A study for a person: a block for each measure, a line for each method, the safest or most useful first."""
    console = open_console()
    summaries = found.summaries()
    width = max((len(row.label) for row in summaries), default=0)
    for measure in found.measures:
        rows = [row for row in summaries if row.measure == measure]
        if not rows:
            continue
        console.print()
        console.print(f"{measure} ({better(rows[0].better)}): mean{_lies(rows)}", style="bold", markup=False)
        for row in sorted(rows, key=lambda one: one.mean, reverse=rows[0].better == "high"):
            console.print(
                f"  {row.label:{width}}  {number(row.mean):>8}  {_interval(row)} of {row.repeats}", markup=False
            )
    console.print()
    for label, reason in found.failed.items():
        console.print(f"[yellow]No release:[/yellow] {escape(label)} ({escape(reason)})")
    for label, names in found.missing.items():
        console.print(f"[yellow]Infinite or missing:[/yellow] {escape(', '.join(names))} of {escape(label)}")
    for label, kept in found.unprotected.items():
        said = f"{label} (a sensitive column keeps a correlation of {kept:.2f} with its original)"
        console.print(f"[yellow]Not protected, in no ranking:[/yellow] {escape(said)}")
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
    return "-" if row.low is None else f"[{number(row.low)}, {number(row.high)}]"


def reproducible(known: Sequence[Mapping[str, Any]]) -> None:
    """The tables and figures of the papers that can be made again."""
    console = open_console()
    for entry in known:
        console.print(f"[bold]{entry['id']}[/bold]  {escape(entry['title'])}")
        console.print(f"    {entry['paper']}, {entry['place']}; needs {entry['needs']}", style="dim", markup=False)
    console.print("`microveil reproduce ID` makes one again, `microveil reproduce all` one page about all of them.")


def reproduction(found: Reproduction) -> None:
    """A paper's table and ours, line by line."""
    console, entry = open_console(), found.entry
    console.print(f"{entry.title}: {entry.paper}, {entry.place}", style="bold", markup=False)
    table = Table()
    for heading in ("row", "figure", "published", "ours", "difference", "allowed", "verdict"):
        right = heading in ("published", "ours", "difference", "allowed")
        table.add_column(heading, justify="right" if right else "left", overflow="fold")
    for line in found.lines:
        figures = (digits(line.published), digits(line.ours), number(line.difference), number(line.tolerance))
        verdict = f"{line.verdict} ({line.remark})" if line.remark else line.verdict
        table.add_row(*(escape(cell) for cell in (line.row, line.figure, *figures, verdict)))
    console.print(table)
    said = ", ".join(f"{count} {verdict}" for verdict, count in found.verdicts.items())
    console.print(f"[bold]{len(found.lines)} figures:[/bold] {said}")
    for note in found.notes:
        console.print(f"[yellow]Note:[/yellow] {escape(note)}")


def page(found: Page) -> None:
    """Every table and figure of the papers."""
    open_console().print(found.to_markdown(), markup=False, soft_wrap=True, highlight=False)


def advice(found: Advice, command: str | None) -> None:
    """A recommendation for a person: the method, what to expect, and why."""
    console = open_console()
    console.print(f"[bold]Recommended:[/bold] {escape(found.label or 'none of the candidates')}")
    console.print(escape(found.why))
    console.print()
    for reason in found.reasons:
        console.print(f"  - {escape(reason)}")
    if command is not None:
        console.print(f"[bold]Run:[/bold] {escape(command)}", soft_wrap=True)
    width = max((len(row.measure) for row in found.expected), default=0)
    if found.expected:
        console.print(f"[bold]Expect[/bold] (mean{_lies(found.expected)}):")
    for row in found.expected:
        console.print(f"  {row.measure:{width}}  {number(row.mean):>8}  {_interval(row)}", markup=False)
    if found.runners_up:
        console.print(f"[bold]Next:[/bold] {escape(', '.join(found.runners_up))}")
    doses = [f"{name}: {label or 'none'}" for name, label in found.smallest_dose.items()]
    console.print(f"[bold]Smallest dose within the limit:[/bold] {escape('; '.join(doses))}")
