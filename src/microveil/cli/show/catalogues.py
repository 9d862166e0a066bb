"""What is printed of methods, measures and the columns of a table."""

from __future__ import annotations

from typing import Any

from rich.markup import escape

from microveil.cli.show.console import better, out, print_table
from microveil.cli.show.releases import print_rules
from microveil.intake.describe import ColumnDescription, Description
from microveil.intake.kinds import NOT_COMPUTED_WITH, NUMBERS


def description(found: Description) -> None:
    """The columns of a table, and the rules between them."""
    rows, counts = [], ("missing", "zeros", "distinct")
    for column in found.columns:
        values, zeros = ("", "") if column.kind in NOT_COMPUTED_WITH else (_values(column), _zeros(column))
        codes = ", ".join(f"{code:g}" for code in column.special_codes)
        codes += f" ({column.coded} cells)" if codes else ""
        kind = f"{column.kind}{' ?' if column.doubtful else ''}"
        cells = (column.name, kind, values, str(column.missing), zeros, str(column.distinct), codes)
        rows.append((*cells, _remark(column)))
    headings = ("column", "kind", "values", *counts, "codes", "remark")
    print_table(headings, rows, right=counts, title=f"{found.rows:,} rows")
    if any(column.zero_spike and column.kind not in NOT_COMPUTED_WITH for column in found.columns):
        out("* zero is a value of its own there, and its share is kept")
    print_rules(found)
    if not found.rules:
        out("No exact sum or ratio between the numeric columns.")


def _values(column: ColumnDescription) -> str:
    """`0 or more, steps of 0.01 EUR`: what describes the values without showing any."""
    sign = "0 or more" if column.minimum == 0 else "0 or less" if column.maximum == 0 else ""
    step = "" if column.step is None or column.step == 1 else f"steps of {column.step:g}"
    said = ", ".join(part for part in (sign, step) if part)
    return f"{said} [{column.unit}]".strip() if column.unit else said


def _zeros(column: ColumnDescription) -> str:
    return "" if column.zeros is None else f"{100 * column.zeros:.1f} %{' *' if column.zero_spike else ''}"


def _remark(column: ColumnDescription) -> str:
    heaps = [f"{100 * share:.0f} % at multiples of {base}" for base, share in column.heaping.items()]
    reason = [column.reason] if column.reason and column.kind not in NUMBERS else []
    return "; ".join([*reason, *heaps[-2:]])


def listed(known: dict[str, str], more: str) -> None:
    """Methods or measures, a line each, and what tells more of one."""
    for name, summary in known.items():
        out(f"[bold]{name}[/bold]  {escape(summary)}")
    out(more)


def measure(details: dict[str, Any]) -> None:
    """One measure with its story."""
    low, high = details["range"]
    out(f"[bold]{details['id']}[/bold] ({details['kind']})  {escape(details['summary'])}")
    out(f"From {low} to {high}; {better(details['better'])}; {details['cost']}.")
    if details["paired"]:
        out("Compares records one by one: both files must have their rows in the same order.")
    if details["parts"]:
        out(f"Made of: {', '.join(details['parts'])}.")
    if details["story"]:
        out()
        out(escape(details["story"]))


def method(details: dict[str, Any]) -> None:
    """The parameters of one method."""
    out(f"[bold]{details['id']}[/bold]  {escape(details['summary'])}")
    out(f"Reference: {escape(details['reference'])}")
    for group in details["parameters"]:
        title = "for every perturbation" if not group["perturb"] else f"perturb={group['perturb']}: {group['summary']}"
        out()
        out(escape(title))
        for parameter in group["parameters"]:
            out(
                f"  [bold]{parameter['name']}[/bold] ({escape(parameter['allowed'])}; default "
                f"{escape(str(parameter['default']))})"
            )
            out(f"      {escape(parameter['meaning'])}")
        if not group["parameters"]:
            out("  no parameters of its own")
