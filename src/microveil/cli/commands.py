"""The commands: their arguments, and what each does. Their options are declared in `microveil.options`.

What does the work is imported when a command runs: `microveil --help` needs none of it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from microveil import options as declared
from microveil.cli.declared import Json, Quiet, command, place
from microveil.core.version import __version__

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
        version(json=False)
        raise typer.Exit


@app.callback()
def microveil(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of the program itself."""


@command(
    app,
    declared.ProtectFile,
    {"source": SOURCE, "output": place("OUTPUT", "Where the protected file or table goes.", OUTPUT)},
)
def protect(source: Any, output: Any, options: dict[str, Any], json: bool, quiet: bool) -> None:
    """Protect the confidential columns of a file."""
    from microveil.cli import protecting

    protecting.protect(source, output, options, as_json=json, quiet=quiet)


@command(
    app,
    declared.Run,
    {
        "recipe": Annotated[Path, typer.Argument(metavar="RECIPE.toml", help="What `protect --save-recipe` wrote.")],
        "source": place("FILE", "Protect this file or table instead of the recipe's.", ("--input",), needed=False),
        "output": place("FILE", "Where the file or table goes, instead of the recipe's.", OUTPUT, needed=False),
    },
)
def run(recipe: Path, source: Any, output: Any, options: dict[str, Any], json: bool, quiet: bool) -> None:
    """Protect a file again as a recipe says.

    Paths in a recipe are relative to it. Without a seed, in the recipe or given here, the release is another one of the
    same doses. A note tells where the recipe has the hash of its input, and the file has another. With another output
    than the recipe's, its reports are those of another release and stay as they are: name new ones. A recipe writes
    below its own folder only, and through no link; files elsewhere are to be named here.
    """
    from microveil.cli import protecting

    protecting.run(recipe, source, output, options, as_json=json, quiet=quiet)


@command(
    app,
    declared.AssessFiles,
    {
        "original": place("ORIGINAL", "The file or table as it was."),
        "released": place("RELEASED", "The one to judge, its rows in the same order."),
    },
    epilog=POLICY,
)
def assess(original: Any, released: Any, options: dict[str, Any], json: bool, quiet: bool) -> None:
    """Measure what a release gives away and what it is still good for."""
    from microveil.cli import actions

    actions.assess(original, released, options, as_json=json, quiet=quiet)


@command(app, declared.CompareFile, {"source": SOURCE})
def compare(source: Any, options: dict[str, Any], json: bool, quiet: bool) -> None:
    """Protect a file with several methods many times, and compare risk and loss."""
    from microveil.cli import actions

    actions.compare(source, options, as_json=json, quiet=quiet)


@app.command()
def reproduce(
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="[TABLE]", help="A table or figure, or `all` for one page; without one they are listed."
        ),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Releases behind each figure; 20, where anything is drawn at random."),
    ] = None,
    image: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The picture that a table is about, if it is about one.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make the papers' tables and figures again, and compare them with ours.

    Reference data that may not be shipped are looked for in the folder that MICROVEIL_REFERENCE_DATA names. The exit
    code is 0 also where a figure differs or could not be run: the verdicts say so.
    """
    from microveil.cli import actions

    actions.reproduce(table, repeats, image, as_json=json, quiet=quiet)


@command(app, declared.RecommendFile, {"source": SOURCE})
def recommend(source: Any, options: dict[str, Any], json: bool, quiet: bool) -> None:
    """Name the method that loses least within a limit on the attacks, measured on the file, with reasons."""
    from microveil.cli import actions

    actions.recommend(source, options, as_json=json, quiet=quiet)


@command(app, declared.Describe, {"source": SOURCE}, epilog=DICTIONARY)
def describe(source: Any, options: dict[str, Any], json: bool, quiet: bool) -> None:
    """Show columns, domains, special codes and the rules found, without any value."""
    from microveil.cli import actions

    actions.describe(source, options, as_json=json, quiet=quiet)


@command(app, declared.Budget, {"source": place("[INPUT]", "A file, for -o.", needed=False)})
def budget(source: Any, options: dict[str, Any], json: bool) -> None:
    """What a release under differential privacy will be off by, before you spend any of it; no data are needed.

    Prints standard deviations of the noise on a correlation, a cell of a two-way table and a distribution.
    """
    from microveil.cli import budgeting

    budgeting.budget(source, options, as_json=json)


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(metavar="[ID]", help="A method, to see its parameters.")] = None,
    json: Json = False,
) -> None:
    """List the methods, or the parameters of one."""
    from microveil.cli import actions

    actions.methods(name, as_json=json)


@app.command()
def measures(
    name: Annotated[str | None, typer.Argument(metavar="[ID]", help="A measure, to read its story.")] = None,
    json: Json = False,
) -> None:
    """List the measures, or tell all about one."""
    from microveil.cli import actions

    actions.measures(name, as_json=json)


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="Where the files go.")] = Path("demo-output"),
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Protect a bundled business survey and show what was kept and what was hidden."""
    from microveil.cli import protecting

    protecting.demo(folder, as_json=json, quiet=quiet)


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


@app.command()
def example(
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="Where the bundled survey of 1,200 firms goes.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that exists already.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write the bundled business survey, which is invented, to try things on."""
    from microveil.cli import first_steps

    first_steps.example(file, overwrite=overwrite, as_json=json, quiet=quiet)


@app.command()
def doctor(json: Json = False) -> None:
    """Show what is installed and what is not, the cores and the memory there are, and where files go."""
    from microveil.cli import first_steps

    first_steps.doctor(as_json=json)


@app.command()
def version(json: Json = False) -> None:
    """Print the version."""
    print(f'{{"version": "{__version__}"}}' if json else __version__)


GROUPS = {
    "mos": "Mean opinion scores: what people say of a release that they see as a picture.",
    "table": "Suppressed tables: hide cells of a table, put decimals in their place, and attack what is left.",
}
"""Groups of commands. A group is a module of this folder, which is loaded when one of its commands is called."""


def app_for(arguments: list[str]) -> typer.Typer:
    """The program, with the commands of the group that is called; of the others only the name and a line of help."""
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
