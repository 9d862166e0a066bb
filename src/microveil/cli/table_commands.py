"""`microveil table suppress | fill | audit`, as typer reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import typer

from microveil.cli.declared import command
from microveil.cli.endings import NotMet, point_of_no_return
from microveil.cli.shared import Screen
from microveil.cli.show import releases as show
from microveil.measures.base import plain
from microveil.tables import workflow

app = typer.Typer(
    name="table",
    help="Suppressed tables: hide cells of a table, put decimals in their place, and attack what is left.",
    rich_markup_mode=None,
)

LARGE = 100_000
"""Bytes of a file from which on a progress bar is shown."""

HIERARCHIES = """\b
How codes add up, for --hierarchies (TOML or JSON), by dimension:
    region = ["county", "country"]       # columns with the coarser codes
    nace = [1, 3]                        # lengths of leading parts: C above C10 above C1089
    occupation = "isco.hrc"              # a file of tau-argus in the same folder
    [sector]                             # or in full
    industry = ["S1", "S2"]
    services = ["S3", "S4"]
"""


JOBS: dict[type[workflow.TableOptions], Callable[..., workflow.TableResult]] = {
    workflow.SuppressOptions: workflow.suppress_file,
    workflow.FillOptions: workflow.fill_file,
    workflow.AuditOptions: workflow.audit_file,
}
for model, job in JOBS.items():
    command(app, "table_commands.run", model, name=job.__name__.removesuffix("_file"), epilog=HIERARCHIES)


def run(asked: workflow.TableOptions, screen: Screen) -> None:
    """Do a job with a bar on standard error, where the file is large, and show what became of the table."""
    size = asked.source.stat().st_size if asked.source.is_file() else 0
    with replace(screen, quiet=screen.quiet or screen.as_json).progress(size, LARGE) as tell:
        result = JOBS[type(asked)](asked, tell, point_of_no_return())
    content = {**result.figures, "written": [str(path) for path in result.written]}
    screen.answer(lambda: plain(content), partial(show.suppressed_table, result.figures, result.written))
    if result.failure:
        raise NotMet(result.failure)
