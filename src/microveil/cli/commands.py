"""The commands and their options, as typer reads them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from microveil.cli import actions
from microveil.cli.mos import app as mos_app

app = typer.Typer(
    name="microveil",
    help="Release numeric microdata that keep their statistics and hide their records. Nothing leaves this machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # pretty tracebacks print local variables, and those are people's data
    rich_markup_mode=None,
)

app.add_typer(mos_app)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else there.")]
Input = Annotated[Path, typer.Argument(metavar="INPUT", help="A .csv or .parquet file.", show_default=False)]

Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]
Table = partial(typer.Argument, show_default=False)

# Options that several commands have.
Measures = Annotated[str, typer.Option(metavar="A,B", help="default, all, or ids; see `microveil measures`.")]
Confidential = Annotated[
    str | None, typer.Option(metavar="A,B", help="Columns to protect; by default all numeric ones.")
]
Strata = Annotated[str | None, typer.Option(metavar="G", help="Columns whose groups are protected one by one.")]
Weight = Annotated[str | None, typer.Option(metavar="W", help="The column of survey weights.")]
Rules = Annotated[str, typer.Option(metavar="FILE", help="infer, none, or a dictionary of the columns (TOML or JSON).")]
Store = Annotated[
    Path | None,
    typer.Option(metavar="FILE.jsonl", help="Note finished releases there; with it a killed study goes on."),
]

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
A dictionary of the columns, for --rules; --save writes what was found:
    [columns.rd_spending]
    special_codes = [-9]
    [[sums]]
    total = "turnover"
    parts = ["domestic", "export"]
"""


def _version(asked: bool) -> None:
    if asked:
        actions.version()
        raise typer.Exit


@app.callback()
def microveil(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of the program itself."""


@app.command()
def protect(
    source: Input,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where the protected file goes.", show_default=False)],
    method: Annotated[str, typer.Option(help="The method; see `microveil methods`.")] = actions.DEFAULT_METHOD,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A parameter of the method; see `microveil methods ID`."),
    ] = None,
    confidential: Confidential = None,
    public: Annotated[
        str | None,
        typer.Option(
            metavar="X,Y",
            help="Columns that stay, and whose relations to the others stay; or a formula such as '~ region*size'.",
        ),
    ] = None,
    strata: Strata = None,
    weight: Weight = None,
    rules: Rules = "infer",
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="For a result that can be repeated. Keep it secret.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write the internal report, and FILE.json with it.")
    ] = None,
    public_report: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Write the report for the users of the data, and FILE.json with it."),
    ] = None,
    save_recipe: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Write the settings, without the seed.")
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE.toml", help="Limits on the figures; if they are not met, nothing is written."),
    ] = None,
    engine: Annotated[str, typer.Option(help="auto or memory.")] = "auto",
    json: Json = False,
    quiet: Quiet = False,
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
        policy=policy,
        engine=engine,
    )
    actions.protect(request, as_json=json, quiet=quiet)


@app.command(epilog=POLICY)
def assess(
    original: Annotated[Path, Table(metavar="ORIGINAL", help="The file as it was (.csv or .parquet).")],
    released: Annotated[Path, Table(metavar="RELEASED", help="The file to judge, its rows in the same order.")],
    measures: Measures = "default",
    confidential: Annotated[
        str | None, typer.Option(metavar="A,B", help="Columns to compare; by default all numeric ones.")
    ] = None,
    public: Annotated[
        str | None, typer.Option(metavar="X,Y", help="Columns that were to stay: not compared, only checked.")
    ] = None,
    rules: Rules = "infer",
    seed: Annotated[int | None, typer.Option(metavar="N", help="For figures that can be repeated.")] = None,
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Limits on the figures; exit code 1 if they are not met.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure what a release gives away and what it is still good for."""
    inquiry = actions.Inquiry(
        original=original,
        released=released,
        measures=measures,
        confidential=confidential,
        public=public,
        rules=rules,
        seed=seed,
        policy=policy,
    )
    actions.assess(inquiry, as_json=json, quiet=quiet)


@app.command()
def compare(
    source: Input,
    methods: Annotated[
        str,
        typer.Option(
            metavar="'A, B KEY=VALUE'", help="Methods, by commas, each with what is to be set.", show_default=False
        ),
    ],
    repeats: Annotated[int, typer.Option(metavar="N", min=1, help="Releases of each method.")] = 20,
    measures: Measures = "default",
    limit: Annotated[
        list[str] | None,
        typer.Option(metavar="ID=VALUE", help="A limit on a measure: the best method that keeps all of them is named."),
    ] = None,
    confidential: Confidential = None,
    public: Annotated[str | None, typer.Option(metavar="X,Y", help="Columns that stay, or a formula.")] = None,
    strata: Strata = None,
    weight: Weight = None,
    rules: Rules = "infer",
    seed: Annotated[int | None, typer.Option(metavar="N", help="For a study that can be repeated.")] = None,
    store: Store = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write a report with the map of risk and loss.")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Protect a file with several methods many times, and compare risk and loss."""
    asked = actions.Comparison(
        source=source,
        methods=methods,
        repeats=repeats,
        measures=measures,
        limits=limit or [],
        confidential=confidential,
        public=public,
        strata=strata,
        weight=weight,
        rules=rules,
        seed=seed,
        store=store,
        report=report,
    )
    actions.compare(asked, as_json=json, quiet=quiet)


@app.command()
def reproduce(
    table: Annotated[
        str | None, typer.Argument(metavar="[TABLE]", help="A table or figure; without one they are listed.")
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Releases behind each figure; 20, where anything is drawn at random."),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make the papers' tables and figures again, and show them beside ours.

    Reference data that may not be shipped are looked for in the folder that MICROVEIL_REFERENCE_DATA names. The exit
    code is 0 also where a figure differs or could not be run: the verdicts say so.
    """
    actions.reproduce(table, repeats, as_json=json, quiet=quiet)


@app.command()
def recommend(
    source: Input,
    sensitive: Annotated[
        str | None, typer.Option(metavar="A,B", help="Columns that need protection, if not all numeric ones do.")
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(metavar="ID=VALUE", help="A limit on a measure; by default worst_attack=0.02 over chance."),
    ] = None,
    repeats: Annotated[int, typer.Option(metavar="N", min=1, help="Releases of each candidate.")] = 5,
    seed: Annotated[int | None, typer.Option(metavar="N", help="For advice that can be repeated.")] = None,
    store: Store = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Name the method that loses least within a limit on the attacks, measured on the file, with reasons."""
    actions.recommend(source, sensitive, limit or [], repeats, seed, store, as_json=json, quiet=quiet)


@app.command(epilog=DICTIONARY)
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
def measures(
    name: Annotated[str | None, typer.Argument(metavar="[ID]", help="A measure, to read its story.")] = None,
    json: Json = False,
) -> None:
    """List the measures, or tell all about one."""
    actions.measures(name, as_json=json)


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
