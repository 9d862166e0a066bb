"""The command line: `microveil protect | describe | methods | demo | version`.

Nothing is decided here: commands read files, call the api and show what it says. Results go to standard output,
progress and messages to standard error. Exit codes: 0 done, 2 bad input or usage, 3 an internal fault.
"""

from __future__ import annotations

import signal
import sys
import traceback
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from microveil.cli import actions
from microveil.core.errors import MicroveilError

BAD_INPUT, FAULT, INTERRUPTED = 2, 3, 130

app = typer.Typer(
    name="microveil",
    help="Release numeric microdata that keep their statistics and hide their records. Nothing leaves this machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # pretty tracebacks print local variables, and those are people's data
    rich_markup_mode=None,
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else there.")]
Input = Annotated[Path, typer.Argument(metavar="INPUT", help="A .csv or .parquet file.", show_default=False)]


@app.command()
def protect(
    source: Input,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where the protected file goes.", show_default=False)],
    method: Annotated[str, typer.Option(help="The method; see `microveil methods`.")] = actions.DEFAULT_METHOD,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A parameter of the method; see `microveil methods ID`."),
    ] = None,
    confidential: Annotated[
        str | None, typer.Option(metavar="A,B", help="Columns to protect; by default all numeric ones.")
    ] = None,
    public: Annotated[
        str | None, typer.Option(metavar="X,Y", help="Columns that stay, and whose relations to the others stay.")
    ] = None,
    strata: Annotated[
        str | None, typer.Option(metavar="G", help="Columns whose groups are protected one by one.")
    ] = None,
    weight: Annotated[str | None, typer.Option(metavar="W", help="The column of survey weights.")] = None,
    rules: Annotated[
        str, typer.Option(metavar="FILE", help="infer, none, or a dictionary of the columns (TOML or JSON).")
    ] = "infer",
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="For a result that can be repeated. Keep it secret.")
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Write the internal report.")] = None,
    public_report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write the report for the users of the data.")
    ] = None,
    save_recipe: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Write the settings, without the seed.")
    ] = None,
    engine: Annotated[str, typer.Option(help="auto or memory.")] = "auto",
    json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Protect the confidential columns of a file."""
    request = actions.Request(
        source=source,
        output=output,
        method=method,
        settings=settings or [],
        confidential=confidential,
        public=public,
        strata=strata,
        weight=weight,
        rules=rules,
        seed=seed,
        report=report,
        public_report=public_report,
        recipe=save_recipe,
        engine=engine,
    )
    actions.protect(request, as_json=json, quiet=quiet)


@app.command()
def describe(
    source: Input,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE.toml", help="Write codes and sums as a dictionary to edit and pass to --rules."),
    ] = None,
    json: Json = False,
) -> None:
    """Show columns, domains, special codes and the rules found, without any value."""
    actions.describe(source, save, as_json=json)


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(metavar="[ID]", help="A method, to see its parameters.")] = None,
    json: Json = False,
) -> None:
    """List the methods, or the parameters of one."""
    actions.methods(name, as_json=json)


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="Where the files go.")] = Path("demo-output"),
) -> None:
    """Protect a bundled business survey and show what was kept and what was hidden."""
    actions.demo(folder)


@app.command()
def version() -> None:
    """Print the version."""
    actions.version()


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run, and turn whatever goes wrong into one line and an exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    # A polite kill ends like Ctrl-C: temporary files are removed on the way out.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        code = app(given or ["--help"], prog_name="microveil", standalone_mode=False)
    except MicroveilError as error:
        fail(str(error), BAD_INPUT)
    except KeyboardInterrupt:
        fail("stopped; nothing was written", INTERRUPTED)
    except BrokenPipeError:
        fail("the reader of the output went away", BAD_INPUT)
    except MemoryError:
        fail("not enough memory; use fewer columns or a machine with more", BAD_INPUT)
    except Exception as error:
        if callable(usage := getattr(error, "format_message", None)):  # typer's own family, whatever its version
            fail(f"{usage().rstrip('.')}; see `microveil --help`", BAD_INPUT)
        # The message of an unforeseen error may quote data, so only its kind and place are shown.
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        fail(f"internal fault: {type(error).__name__} at {where}; please report it with the command you ran", FAULT)
    sys.exit(code if isinstance(code, int) else 0)


def fail(message: str, code: int) -> NoReturn:
    """One line on standard error, and out."""
    line = " ".join(message.split())
    print(f"microveil: {line}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
