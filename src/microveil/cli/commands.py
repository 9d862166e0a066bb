"""The commands and their options, as typer reads them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from microveil import api
from microveil.cli import actions, asked, protecting
from microveil.cli.mos import app as mos_app
from microveil.cli.shared import Json, Quiet, Seed
from microveil.cli.tables import app as table_app

app = typer.Typer(
    name="microveil",
    help="Release numeric microdata that keep their statistics and hide their records. Nothing leaves this machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # pretty tracebacks print local variables, and those are people's data
    rich_markup_mode=None,
)

app.add_typer(mos_app)
app.add_typer(table_app)

if TYPE_CHECKING:
    from microveil.api import Place
else:

    class Place:
        """What the help calls a file or the table of a database; typer takes no union of types."""


Input = Annotated[
    Place,
    typer.Argument(
        metavar="INPUT", parser=api.place_from, help="A file, or the table of a database.", show_default=False
    ),
]

Table = partial(typer.Argument, show_default=False)

# How a table is to be read.
Memory = Annotated[str, typer.Option(metavar="1GB", help="With --engine stream: about how much memory to take.")]
Delimiter = Annotated[
    str | None, typer.Option(metavar="SIGN", help="Of a text file: comma, semicolon, tab or bar; by default found.")
]
Decimal = Annotated[str | None, typer.Option(metavar="SIGN", help="Of a text file: point or comma; by default found.")]
Encoding = Annotated[
    str | None, typer.Option(metavar="NAME", help="Of a text file: utf-8, cp1252, utf-16 ...; by default found.")
]
SheetName = Annotated[
    str | None,
    typer.Option("--sheet", metavar="NAME", help="Of a workbook, as in firms.xlsx#NAME; by default the first."),
]
Query = Annotated[
    str | None, typer.Option(metavar="SQL", help="Of a database, instead of its #TABLE; it can only read.")
]

# Options that several commands have.
Sensitive = Annotated[
    str | None,
    typer.Option(metavar="A,B", help="Columns that are to be hidden, if not all: attacks are on these alone."),
]
Measures = Annotated[str, typer.Option(metavar="A,B", help="default, all, or ids; see `microveil measures`.")]
Confidential = Annotated[
    str | None, typer.Option(metavar="A,B", help="Columns to protect; by default all numeric ones.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A parameter of the method; see `microveil methods ID`."),
]
Strata = Annotated[str | None, typer.Option(metavar="G", help="Columns whose groups are protected one by one.")]
Weight = Annotated[str | None, typer.Option(metavar="W", help="The column of survey weights.")]
Rules = Annotated[str, typer.Option(metavar="FILE", help="infer, none, or a dictionary of the columns (TOML or JSON).")]
Register = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A private file of releases: tells of a second one of nearly the same data."),
]
Store = Annotated[
    Path | None,
    typer.Option(metavar="FILE.jsonl", help="Note finished releases there; with it a killed study goes on."),
]

Overwrite = Annotated[
    bool, typer.Option("--overwrite", "--replace", help="Replace files, or a table of a database, that exist already.")
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
A dictionary of the columns, for --rules; -o writes what was found:
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
    output: Annotated[
        Place,
        typer.Option(
            "-o",
            "--output",
            metavar="OUTPUT",
            parser=api.place_from,
            help="Where the protected file or table goes.",
            show_default=False,
        ),
    ],
    method: Annotated[str, typer.Option(help="The method; see `microveil methods`.")] = asked.DEFAULT_METHOD,
    settings: Settings = None,
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
    unit: Annotated[
        str | None,
        typer.Option(metavar="U", help="Column of the unit that rows belong to: what is its own is protected once."),
    ] = None,
    drop: Annotated[str | None, typer.Option(metavar="A,B", help="Columns that are left out of the release.")] = None,
    drop_identifiers: Annotated[
        bool,
        typer.Option("--drop-identifiers", help="Leave out the columns that `microveil describe` calls identifiers."),
    ] = False,
    shuffle_rows: Annotated[
        bool, typer.Option("--shuffle-rows", help="Write the rows in a random order; their number stays.")
    ] = False,
    keep_notes: Annotated[
        bool,
        typer.Option("--keep-notes", help="Release what is noted about the file, too: its label, comments, metadata."),
    ] = False,
    keep_formulas: Annotated[
        bool,
        typer.Option("--keep-formulas", help="Write text as it is where a spreadsheet would run it as a formula, too."),
    ] = False,
    rules: Rules = "infer",
    seed: Seed = None,
    secret: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file for its owner only that salts the seed, made if it is not there."),
    ] = None,
    register: Register = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write the internal report, and FILE.json with it.")
    ] = None,
    public_report: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Write the report for the users of the data, and FILE.json with it."),
    ] = None,
    save_recipe: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Write the settings, for `microveil run`; not the seed.")
    ] = None,
    include_seed: Annotated[
        bool,
        typer.Option("--include-seed", help="Put the seed into the recipe, for the same bytes again. Keep it secret."),
    ] = False,
    policy: Annotated[
        Path | None,
        typer.Option(metavar="FILE.toml", help="Limits on the figures; if they are not met, nothing is written."),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(help="memory, stream (block by block, for files larger than it), spark, or auto: by their size."),
    ] = "auto",
    memory: Memory = asked.MEMORY,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    sheet: SheetName = None,
    query: Query = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Protect the confidential columns of a file."""
    request = asked.Request(
        source=source,
        output=output,
        method=method,
        parameters=asked.parameters(settings or []),
        columns=asked.columns(confidential, public, strata, weight, rules),
        arrangement=asked.arrangement(unit, drop, drop_identifiers, shuffle_rows, keep_notes),
        keep_formulas=keep_formulas,
        reading=api.ReadOptions(delimiter, decimal, encoding, sheet, query),
        overwrite=overwrite,
        seed=seed,
        secret=secret,
        register=register,
        report=report,
        public_report=public_report,
        save_recipe=save_recipe,
        include_seed=include_seed,
        policy=policy,
        engine=engine,
        memory=memory,
    )
    protecting.protect(request, as_json=json, quiet=quiet)


@app.command()
def run(
    recipe: Annotated[Path, Table(metavar="RECIPE.toml", help="What `protect --save-recipe` wrote.")],
    source: Annotated[
        Place | None,
        typer.Option(
            "--input", metavar="FILE", parser=api.place_from, help="Protect this file or table instead of the recipe's."
        ),
    ] = None,
    output: Annotated[
        Place | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            parser=api.place_from,
            help="Where the file or table goes, instead of the recipe's.",
        ),
    ] = None,
    settings: Settings = None,
    seed: Seed = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Where the internal report goes, instead of the recipe's.")
    ] = None,
    public_report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Where the public report goes, instead of the recipe's.")
    ] = None,
    overwrite: Overwrite = False,
    register: Register = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Protect a file again as a recipe says.

    Paths in a recipe are relative to it. Without a seed, in the recipe or given here, the release is another one of the
    same doses. A note tells where the recipe has the hash of its input, and the file has another. With another output
    than the recipe's, its reports are those of another release and stay as they are: name new ones. A recipe writes
    below its own folder only, and through no link; files elsewhere are to be named here.
    """
    given = asked.parameters(settings or [])
    replay = asked.Replay(recipe, source, output, given, seed, report, public_report, overwrite, register)
    protecting.run(replay, as_json=json, quiet=quiet)


@app.command(epilog=POLICY)
def assess(
    original: Annotated[Place, Table(metavar="ORIGINAL", parser=api.place_from, help="The file or table as it was.")],
    released: Annotated[
        Place, Table(metavar="RELEASED", parser=api.place_from, help="The one to judge, its rows in the same order.")
    ],
    measures: Measures = "default",
    confidential: Annotated[
        str | None, typer.Option(metavar="A,B", help="Columns to compare; by default all numeric ones.")
    ] = None,
    public: Annotated[
        str | None, typer.Option(metavar="X,Y", help="Columns that were to stay: not compared, only checked.")
    ] = None,
    sensitive: Sensitive = None,
    rules: Rules = "infer",
    seed: Annotated[int | None, typer.Option(metavar="N", help="For figures that can be repeated.")] = None,
    holdout: Annotated[
        Place | None,
        typer.Option(
            metavar="FILE",
            parser=api.place_from,
            help="Records of the same population that are not in the original, as strangers for `membership`.",
        ),
    ] = None,
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Limits on the figures; exit code 1 if they are not met.")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="memory, or stream: block by block, for files larger than the memory.")
    ] = "memory",
    memory: Memory = asked.MEMORY,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure what a release gives away and what it is still good for."""
    inquiry = asked.Inquiry(
        original=original,
        released=released,
        holdout=holdout,
        measures=measures,
        columns=asked.columns(confidential, public, rules=rules),
        sensitive=sensitive,
        reading=api.ReadOptions(delimiter, decimal, encoding),
        seed=seed,
        policy=policy,
        engine=engine,
        memory=memory,
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
    sensitive: Sensitive = None,
    rules: Rules = "infer",
    seed: Annotated[int | None, typer.Option(metavar="N", help="For a study that can be repeated.")] = None,
    store: Store = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write a report with the map of risk and loss.")
    ] = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    sheet: SheetName = None,
    query: Query = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Protect a file with several methods many times, and compare risk and loss."""
    comparison = asked.Comparison(
        source=source,
        methods=methods,
        repeats=repeats,
        measures=measures,
        limits=limit or [],
        columns=asked.columns(confidential, public, strata, weight, rules),
        sensitive=sensitive,
        reading=api.ReadOptions(delimiter, decimal, encoding, sheet, query),
        seed=seed,
        store=store,
        report=report,
    )
    actions.compare(comparison, as_json=json, quiet=quiet)


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
        typer.Option(
            metavar="ID=VALUE",
            help="A limit on a measure; by default worst_attack=0.02: what the best of the attacks gains over chance "
            "(of those that `assess` measures by default).",
        ),
    ] = None,
    repeats: Annotated[int, typer.Option(metavar="N", min=1, help="Releases of each candidate.")] = 5,
    confidential: Confidential = None,
    public: Annotated[str | None, typer.Option(metavar="X,Y", help="Columns that stay, or a formula.")] = None,
    strata: Strata = None,
    weight: Weight = None,
    rules: Rules = "infer",
    seed: Annotated[int | None, typer.Option(metavar="N", help="For advice that can be repeated.")] = None,
    store: Store = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    sheet: SheetName = None,
    query: Query = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Name the method that loses least within a limit on the attacks, measured on the file, with reasons."""
    consultation = asked.Consultation(
        source=source,
        repeats=repeats,
        limits=limit or [],
        columns=asked.columns(confidential, public, strata, weight, rules),
        sensitive=sensitive,
        reading=api.ReadOptions(delimiter, decimal, encoding, sheet, query),
        seed=seed,
        store=store,
    )
    actions.recommend(consultation, as_json=json, quiet=quiet)


@app.command(epilog=DICTIONARY)
def describe(
    source: Input,
    save: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--save",
            metavar="FILE.toml",
            help="Write what was found as a dictionary (TOML, or JSON by its name) to edit and pass to --rules.",
        ),
    ] = None,
    delimiter: Delimiter = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    sheet: SheetName = None,
    query: Query = None,
    json: Json = False,
) -> None:
    """Show columns, domains, special codes and the rules found, without any value."""
    reading = api.ReadOptions(delimiter, decimal, encoding, sheet, query)
    actions.describe(source, save, reading, as_json=json)


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
    protecting.demo(folder)


@app.command()
def version() -> None:
    """Print the version."""
    actions.version()
