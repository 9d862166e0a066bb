"""`microveil table suppress | fill | audit`, as typer reads them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import typer

from microveil.cli.declared import command
from microveil.cli.endings import NotMet, point_of_no_return
from microveil.cli.shared import answer, progress
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
    occupation = "isco.hrc"              # a file of tau-argus, beside this one
    [sector]                             # or in full
    industry = ["S1", "S2"]
    services = ["S3", "S4"]
"""


@command(app, workflow.SuppressOptions, {}, epilog=HIERARCHIES)
def suppress(options: dict[str, Any], json: bool, quiet: bool) -> None:
    """Hide sensitive cells, and as many others as it takes that none can be worked out."""
    _run(workflow.suppress_file, workflow.SuppressOptions.checked(options), json, quiet)


@command(app, workflow.FillOptions, {}, epilog=HIERARCHIES)
def fill(options: dict[str, Any], json: bool, quiet: bool) -> None:
    """Put decimals that add up in the place of hidden cells. Exit code 1 if a hidden cell follows from the others."""
    _run(workflow.fill_file, workflow.FillOptions.checked(options), json, quiet)


@command(app, workflow.AuditOptions, {}, epilog=HIERARCHIES)
def audit(options: dict[str, Any], json: bool, quiet: bool) -> None:
    """Find the interval an intruder can derive for each hidden cell. Exit code 1 if one is exactly determined."""
    _run(workflow.audit_file, workflow.AuditOptions.checked(options), json, quiet)


def _run(job: Callable[..., workflow.TableResult], options: workflow.TableOptions, as_json: bool, quiet: bool) -> None:
    """Do the job with a bar on standard error, where the file is large, and show what became of the table."""
    size = options.source.stat().st_size if options.source.is_file() else 0
    with progress(quiet or as_json, size, LARGE) as tell:
        result = job(options, tell, point_of_no_return())
    content = {**result.figures, "written": [str(path) for path in result.written]}
    shown = partial(show.suppressed_table, result.figures, result.written)
    answer(lambda: plain(content), shown, as_json=as_json, quiet=quiet)
    if result.failure:
        raise NotMet(result.failure)
