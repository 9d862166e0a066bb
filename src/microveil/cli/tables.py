"""`microveil table suppress | fill | audit`, as typer reads them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer

from microveil.cli import show
from microveil.cli.endings import NotMet, point_of_no_return
from microveil.cli.shared import Json, Quiet, names_in, print_json, progress
from microveil.core.parameters import Step
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

Options = TypeVar("Options", bound=Step)


def command_from(model: type[Options]) -> Callable[[Callable[[Options, bool, bool], None]], Callable[..., None]]:
    """A decorator: the command has an argument or option for each field of the model, --json and --quiet.

    The function gets the model, and whether JSON is to be printed, and nothing. Of a field, `metavar` and `flag` say
    how its option looks; where its `kind` is "columns", names are typed as A,B (of a list of lists, one at a time).
    """
    fields = model.model_fields

    def extra(name: str) -> dict[str, Any]:
        found = fields[name].json_schema_extra
        return dict(found) if isinstance(found, dict) else {}

    def parameter(name: str) -> inspect.Parameter:
        field, about = fields[name], extra(name)
        kind: Any = field.annotation
        if about.get("kind") == "columns":
            kind = list[str] | None if "list[list" in str(kind) else str if field.is_required() else str | None
        default = inspect.Parameter.empty if field.is_required() else field.default
        if name == "source":
            shown: Any = typer.Argument(metavar=about.get("metavar"), help=field.description, show_default=False)
        else:
            flags = str(about.get("flag") or (f"--{name.replace('_', '-')}" if kind is bool else "")).split()
            shown = typer.Option(*flags, metavar=about.get("metavar"), help=field.description)
        return inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, shown]
        )

    def parsed(name: str, given: Any) -> Any:
        if given is None or extra(name).get("kind") != "columns":
            return given
        return [names_in(text) for text in given] if isinstance(given, list) else names_in(given)

    def declare(function: Callable[[Options, bool, bool], None]) -> Callable[..., None]:
        def command(json: bool, quiet: bool, **given: Any) -> None:
            function(model(**{name: parsed(name, value) for name, value in given.items()}), json, quiet)

        both = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
            for name, kind in (("json", Json), ("quiet", Quiet))
        ]
        parameters = [*map(parameter, fields), *both]
        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        return command

    return declare


@app.command(epilog=HIERARCHIES)
@command_from(workflow.SuppressOptions)
def suppress(options: workflow.SuppressOptions, as_json: bool, quiet: bool) -> None:
    """Hide sensitive cells, and as many others as it takes that none can be worked out."""
    _run(workflow.suppress_file, options, as_json, quiet)


@app.command(epilog=HIERARCHIES)
@command_from(workflow.FillOptions)
def fill(options: workflow.FillOptions, as_json: bool, quiet: bool) -> None:
    """Put decimals that add up in the place of hidden cells. Exit code 1 if a hidden cell follows from the others."""
    _run(workflow.fill_file, options, as_json, quiet)


@app.command(epilog=HIERARCHIES)
@command_from(workflow.AuditOptions)
def audit(options: workflow.AuditOptions, as_json: bool, quiet: bool) -> None:
    """Find the interval an intruder can derive for each hidden cell. Exit code 1 if one is exactly determined."""
    _run(workflow.audit_file, options, as_json, quiet)


def _run(job: Callable[..., workflow.TableResult], options: workflow.TableOptions, as_json: bool, quiet: bool) -> None:
    """Do the job with a bar on standard error, where the file is large, and show what became of the table."""
    size = options.source.stat().st_size if options.source.is_file() else 0
    with progress(size, quiet or as_json, LARGE) as tell:
        result = job(options, tell, point_of_no_return())
    if as_json:
        print_json(plain({**result.figures, "written": [str(path) for path in result.written]}))
    elif not quiet:
        show.suppressed_table(result.figures, result.written)
    if result.failure:
        raise NotMet(result.failure)
