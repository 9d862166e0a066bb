"""What is printed of methods, measures and the columns of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from microveil.cli.show.console import better, open_console
from microveil.cli.show.releases import print_rules
from microveil.intake.describe import ColumnDescription, Description
from microveil.intake.kinds import NUMBERS


def description(found: Description, saved: Path | None) -> None:
    """The columns of a table, and the rules between them."""
    console = open_console()
    table = Table(title=f"{found.rows} rows", title_justify="left")
    for heading in ("column", "kind", "values", "missing", "zeros", "distinct", "codes", "remark"):
        right = heading in ("missing", "zeros", "distinct")
        table.add_column(heading, justify="right" if right else "left", overflow="fold", no_wrap=heading == "values")
    for column in found.columns:
        zeros = "" if column.zeros is None else f"{100 * column.zeros:.1f} %{' *' if column.zero_spike else ''}"
        codes = ", ".join(f"{code:g}" for code in column.special_codes)
        codes += f" ({column.coded} cells)" if codes else ""
        kind = f"{column.kind}{' ?' if column.doubtful else ''}"
        cells = (column.name, kind, _values(column), str(column.missing), zeros, str(column.distinct), codes)
        table.add_row(*(escape(cell) for cell in (*cells, _remark(column))))
    console.print(table)
    if any(column.zero_spike for column in found.columns):
        console.print("* zero is a value of its own there, and its share is kept")
    print_rules(console, found)
    if not found.rules:
        console.print("No exact sum or ratio between the numeric columns.")
    if saved is not None:
        console.print(f"Wrote {escape(str(saved))}")


def _values(column: ColumnDescription) -> str:
    """`0 or more, steps of 0.01 EUR`: what can be told of the values without any of them."""
    sign = "0 or more" if column.minimum == 0 else "0 or less" if column.maximum == 0 else ""
    step = "" if column.step is None or column.step == 1 else f"steps of {column.step:g}"
    said = ", ".join(part for part in (sign, step) if part)
    return f"{said} [{column.unit}]".strip() if column.unit else said


def _remark(column: ColumnDescription) -> str:
    heaps = [f"{100 * share:.0f} % at multiples of {base}" for base, share in column.heaping.items()]
    reason = [column.reason] if column.reason and column.kind not in NUMBERS else []
    return "; ".join([*reason, *heaps[-2:]])


def methods(known: dict[str, str]) -> None:
    """The list of methods."""
    console = open_console()
    for name, summary in known.items():
        console.print(f"[bold]{name}[/bold]  {escape(summary)}")
    console.print("`microveil methods ID` shows the parameters of one.")


def measures(known: dict[str, str]) -> None:
    """The list of measures."""
    console = open_console()
    for name, summary in known.items():
        console.print(f"[bold]{name}[/bold]  {escape(summary)}")
    console.print("`microveil measures ID` tells all about one.")


def measure(details: dict[str, Any]) -> None:
    """One measure with its story."""
    console = open_console()
    low, high = details["range"]
    console.print(f"[bold]{details['id']}[/bold] ({details['kind']})  {escape(details['summary'])}")
    console.print(f"From {low} to {high}; {better(details['better'])}; {details['cost']}.")
    if details["paired"]:
        console.print("Compares records one by one: both files must have their rows in the same order.")
    if details["parts"]:
        console.print(f"Made of: {', '.join(details['parts'])}.")
    if details["story"]:
        console.print()
        console.print(escape(details["story"]))


def method(details: dict[str, Any]) -> None:
    """The parameters of one method."""
    console = open_console()
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
