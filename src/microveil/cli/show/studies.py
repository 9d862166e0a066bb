"""What is printed of comparisons, advice and the tables of papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.markup import escape

from microveil.cli.show.console import better, number, out, print_notes, print_table
from microveil.papers.page import Page
from microveil.papers.verdicts import Reproduction
from microveil.studies import FEWEST, Advice, Study, Summary


def study(found: Study, limit: Mapping[str, float], best: str | None) -> None:
    """A study for a person: a block for each measure, a line for each method, the safest or most useful first."""
    summaries = found.summaries()
    width = max((len(row.label) for row in summaries), default=0)
    for measure in found.measures:
        rows = [row for row in summaries if row.measure == measure]
        if not rows:
            continue
        out()
        out(f"{measure} ({better(rows[0].better)}): mean{_lies(rows)}", style="bold", markup=False)
        for row in sorted(rows, key=lambda one: one.mean, reverse=rows[0].better == "high"):
            out(f"  {row.label:{width}}  {number(row.mean):>8}  {_interval(row)} of {row.repeats}", markup=False)
    out()
    print_notes((f"{label} ({reason})" for label, reason in found.failed.items()), "No release")
    missing = (f"{', '.join(names)} of {label}" for label, names in found.missing.items())
    print_notes(missing, "Infinite or missing")
    kept = "{} (a sensitive column keeps a correlation of {:.2f} with its original)"
    print_notes((kept.format(*one) for one in found.unprotected.items()), "Not protected, in no ranking")
    if found.has_map:
        out(f"[bold]Beaten by no other in risk and loss:[/bold] {escape(', '.join(found.frontier()))}")
    if limit:
        asked = ", ".join(f"{name} {most:g}" for name, most in limit.items())
        out(f"[bold]Least loss within {asked}:[/bold] {escape(best or 'none of them')}")


def _lies(rows: Sequence[Summary]) -> str:
    """What stands behind the means: an interval, or why there is none."""
    few = [row.repeats for row in rows if row.low is None]
    word = f"; from {FEWEST} releases on it is said where 95 % of them lie"
    return (", and where 95 % of releases lie" if len(few) < len(rows) else "") + (word if few else "")


def _interval(row: Summary) -> str:
    return "-" if row.low is None else f"[{number(row.low)}, {number(row.high)}]"


def reproducible(known: Sequence[Mapping[str, Any]]) -> None:
    """The tables and figures of the papers that can be made again."""
    for entry in known:
        out(f"[bold]{entry['id']}[/bold]  {escape(entry['title'])}")
        out(f"    {entry['paper']}, {entry['place']}; needs {entry['needs']}", style="dim", markup=False)
    out("`microveil reproduce ID` makes one again, `microveil reproduce all` one page about all of them.")


def reproduction(found: Reproduction) -> None:
    """A paper's table and ours, line by line."""
    entry = found.entry
    out(f"{entry.title}: {entry.paper}, {entry.place}", style="bold", markup=False)
    figures = ("published", "ours", "difference", "allowed")
    rows = [
        (
            *(line.row, line.figure, number(line.published, 5), number(line.ours, 5)),  # digits to compare with print
            *(number(line.difference), number(line.tolerance)),
            f"{line.verdict} ({line.remark})" if line.remark else line.verdict,
        )
        for line in found.lines
    ]
    print_table(("row", "figure", *figures, "verdict"), rows, right=figures)
    said = ", ".join(f"{count} {verdict}" for verdict, count in found.verdicts.items())
    out(f"[bold]{len(found.lines)} figures:[/bold] {said}")
    print_notes(found.notes)


def page(found: Page) -> None:
    """Every table and figure of the papers."""
    out(found.to_markdown(), markup=False)


def advice(found: Advice, command: str | None) -> None:
    """A recommendation for a person: the method, what to expect, and why."""
    out(f"[bold]Recommended:[/bold] {escape(found.label or 'none of the candidates')}")
    out(escape(found.why))
    out()
    for reason in found.reasons:
        out(f"  - {escape(reason)}")
    if command is not None:
        out(f"[bold]Run:[/bold] {escape(command)}")
    width = max((len(row.measure) for row in found.expected), default=0)
    if found.expected:
        out(f"[bold]Expect[/bold] (mean{_lies(found.expected)}):")
    for row in found.expected:
        out(f"  {row.measure:{width}}  {number(row.mean):>8}  {_interval(row)}", markup=False)
    if found.runners_up:
        out(f"[bold]Next:[/bold] {escape(', '.join(found.runners_up))}")
    doses = [f"{name}: {label or 'none'}" for name, label in found.smallest_dose.items()]
    out(f"[bold]Smallest dose within the limit:[/bold] {escape('; '.join(doses))}")
