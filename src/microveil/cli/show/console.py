"""The terminal: a console that survives its readers, the bar of progress, and how figures are written."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from microveil.cli.endings import let_go, printable, say

ROUND_OFF = 1e-15
"""What is left of a difference of nothing."""

SECONDS_A_LINE = 10.0
"""Between two lines of progress in a log."""

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


def out(what: Any = "", **how: Any) -> None:
    """Print a line or a table on standard output; where that is no terminal (a pipe, a log), tables get room.

    `how` is what rich's `print` takes: style, markup.
    """
    console = _PatientConsole(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console = _PatientConsole(highlight=False, soft_wrap=True, width=160)
    console.print(what, **how)


@contextmanager
def progress_bar(*, lines: bool = False) -> Iterator[Tell]:
    """A bar with the time left, on standard error; off a terminal nothing, or now and then one of the `lines`."""
    console = _PatientConsole(stderr=True)
    if not console.is_terminal:
        yield _lines() if lines else lambda *_: None
        return
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    bar = Progress(
        *columns,
        console=console,
        transient=True,
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


def _lines() -> Tell:
    """Progress for a log: nothing of what is soon done, then a line every so often."""
    last = time.monotonic()

    def tell(step: str, share: float | None) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_A_LINE:
            last = time.monotonic()
            say(step if share is None else f"{step} ({100 * min(share, 1.0):.0f} %)")

    return tell


def aligned_row(name: str, width: int, cells: Sequence[str], widths: Sequence[int]) -> str:
    """A line of figures: `name` in so many letters, and `cells` right-aligned in their widths."""
    figure, *rest = cells
    scale = " ".join(cell.rjust(room) for cell, room in zip(rest, widths[1:], strict=True))
    return f"{name:{width}} {figure:{widths[0]}} {scale}".rstrip()


def print_notes(notes: Iterable[str], word: str = "Note") -> None:
    """What somebody should know, a line each, after a word that stands out."""
    for note in notes:
        out(f"[yellow]{word}:[/yellow] {escape(note)}")


def print_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = (), **of: Any
) -> None:
    """A table: its headings, the cells of each row, the headings of numbers (`right`), and what rich takes `of` it."""
    table = Table(title_justify="left", **of)
    for heading in headings:
        justify: Literal["left", "right"] = "right" if heading in right else "left"
        table.add_column(heading, justify=justify, overflow="fold", no_wrap=heading == "values")
    for cells in rows:
        table.add_row(*map(escape, cells))
    out(table)


def number(figure: float | None, digits: int = 3) -> str:
    """So many digits, and no round-off."""
    return "-" if figure is None else f"{0.0 if abs(figure) < ROUND_OFF else figure:.{digits}g}"


def better(direction: str) -> str:
    """Which direction of a measure is better, in words."""
    return "neither direction is better" if direction == "neither" else f"{direction} is better"
