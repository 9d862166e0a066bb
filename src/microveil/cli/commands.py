"""The commands: their arguments, and what each does. Their options are declared in `microveil.options`.

What does the work is imported when a command runs: `microveil --help` needs none of it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer
from annotated_types import Ge

from microveil import options as declared
from microveil.cli.declared import Json, Quiet, command, place
from microveil.core.version import __version__
from microveil.options import Options, option

app = typer.Typer(
    name="microveil",
    help="Release microdata that keep their statistics and hide their records. Nothing leaves this machine.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,  # pretty tracebacks print local variables, and those are people's data
    rich_markup_mode=None,
)

SOURCE = place("INPUT", "A file, or the table of a database.")
OUTPUT = ("-o", "--output")

# \b keeps the lines as they are.
POLICY = """\b
A policy, for --policy; `use` holds an end of the interval against the limit:
    [policy]
    name = "research files"
    version = 1
    [limits]
    dbrl = {at_most = 0.02, use = "high"}
    pil = {at_most = 0.3}
"""

DICTIONARY = """\b
A dictionary of the columns, for --rules; -o writes what was found:
    [columns.rd_spending]
    special_codes = [-9]
    [[sums]]
    total = "turnover"
    parts = ["domestic", "export"]
"""


def _version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback()
def microveil(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of the program itself."""


class Reproduce(Options):
    """Make the papers' tables and figures again, and compare them with ours.

    Reference data that may not be shipped are looked for in the folder that MICROVEIL_REFERENCE_DATA names. The exit
    code is 0 also where a figure differs or could not be run: the verdicts say so.
    """

    table: str | None = option(
        None, "A table or figure, or `all` for one page; without one they are listed.", "argument", metavar="[TABLE]"
    )
    repeats: Annotated[int | None, Ge(1)] = option(
        None, "Releases behind each figure; 20, where anything is drawn at random.", "number"
    )
    image: Path | None = option(None, "The picture that a table is about, if it is about one.", "path")


class OneMethod(Options):
    """List the methods, or the parameters of one."""

    name: str | None = option(None, "A method, to see its parameters.", "argument", metavar="[ID]")


class OneMeasure(Options):
    """List the measures, or tell all about one."""

    name: str | None = option(None, "A measure, to read its story.", "argument", metavar="[ID]")


class Demo(Options):
    """Protect a bundled business survey and show what was kept and what was hidden."""

    folder: Path = option(Path("demo-output"), "Where the files go.")


class Example(Options):
    """Write the bundled business survey, which is invented, to try things on."""

    file: Path = option(..., "Where the bundled survey of 1,200 firms goes.", "argument", metavar="FILE.csv")
    overwrite: bool = option(False, "Replace a file that exists already.", flag="--overwrite")


class Doctor(Options):
    """Show what is installed and what is not, the cores and the memory there are, and where files go."""


RECIPE = Annotated[Path, typer.Argument(metavar="RECIPE.toml", help="What `protect --save-recipe` wrote.")]
PROTECTED = {"source": SOURCE, "output": place("OUTPUT", "Where the protected file or table goes.", OUTPUT)}
AGAIN = {
    "recipe": RECIPE,
    "source": place("FILE", "Protect this file or table instead of the recipe's.", ("--input",), needed=False),
    "output": place("FILE", "Where the file or table goes, instead of the recipe's.", OUTPUT, needed=False),
}
ASSESSED = {
    "original": place("ORIGINAL", "The file or table as it was."),
    "released": place("RELEASED", "The one to judge, its rows in the same order."),
}

command(app, "protecting.protect", declared.ProtectFile, PROTECTED)
command(app, "protecting.run", declared.Run, AGAIN)
command(app, "actions.assess", declared.AssessFiles, ASSESSED, epilog=POLICY)
command(app, "actions.compare", declared.CompareFile, {"source": SOURCE})
command(app, "actions.reproduce", Reproduce)
command(app, "actions.recommend", declared.RecommendFile, {"source": SOURCE})
command(app, "actions.describe", declared.Describe, {"source": SOURCE}, epilog=DICTIONARY)
command(app, "budgeting.budget", declared.Budget, {"source": place("[INPUT]", "A file, for -o.", needed=False)})
command(app, "actions.methods", OneMethod)
command(app, "actions.measures", OneMeasure)
command(app, "protecting.demo", Demo)


@app.command("app")
def open_app(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="A table to begin with.")] = None,
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="Where to listen; 0 for a free one.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
    read_only_folder: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A folder of files that can be opened without uploading.")
    ] = None,
) -> None:
    """Do the whole job in a browser: from a file to a release with its reports. Nothing leaves this machine.

    The first line that is printed is the address to open. Ctrl-C ends the app, and what was opened in it is removed.
    """
    from microveil.app.server import serve
    from microveil.cli.endings import Stopped

    with suppress(Stopped):
        serve(file, port, browser=not no_browser, folder=read_only_folder)


command(app, "first_steps.example", Example)
command(app, "first_steps.doctor", Doctor)


@app.command()
def version(json: Json = False, quiet: Quiet = False) -> None:
    """Print the version."""
    if json or not quiet:
        print(f'{{"version": "{__version__}"}}' if json else __version__)


GROUPS = {
    "mos": "Mean opinion scores: what people say of a release that they see as a picture.",
    "table": "Suppressed tables: hide cells of a table, put decimals in their place, and attack what is left.",
}
"""Groups of commands. A group is a module of this folder, which is loaded when one of its commands is called."""


def app_for(arguments: list[str]) -> typer.Typer:
    """The program, with the commands of the group that is called; of the others only the name and a line of help."""
    app.registered_groups.clear()  # those of an earlier call in this process
    for name, meaning in GROUPS.items():
        if arguments[:1] == [name] or "_MICROVEIL_COMPLETE" in os.environ:  # a shell asks for all of them
            app.add_typer(import_module(f"microveil.cli.{name}_commands").app, name=name)
        else:
            app.add_typer(_placeholder(meaning), name=name)
    return app


def _placeholder(meaning: str) -> typer.Typer:
    group = typer.Typer(help=meaning, rich_markup_mode=None)
    group.command()(lambda: None)
    return group
