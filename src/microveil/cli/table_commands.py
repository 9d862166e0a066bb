"""`microveil table suppress | fill | audit`, as typer reads them, and what they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from microveil import tables
from microveil.cli.declared import Json, Quiet
from microveil.cli.endings import NotMet, point_of_no_return
from microveil.cli.shared import print_json, progress
from microveil.cli.show import releases as show
from microveil.cli.show.console import Tell
from microveil.cli.typed import names_in
from microveil.core.errors import ParameterError
from microveil.measures.base import plain
from microveil.report import twin
from microveil.storage.atomic import atomic_targets, check_place
from microveil.tables import workflow as tabling
from microveil.tables.audit import EXACT, NEAR
from microveil.workflow.job import check_different

app = typer.Typer(
    name="table",
    help="Suppressed tables: hide cells of a table, put decimals in their place, and attack what is left.",
    rich_markup_mode=None,
)

Seed = Annotated[int | None, typer.Option(metavar="N", help="For a result that can be repeated. Keep it secret.")]

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

Input = Annotated[Path, typer.Argument(metavar="INPUT", help="Cells or records (.csv, .parquet).", show_default=False)]
Dimensions = Annotated[str, typer.Option(metavar="A,B", help="The columns that make up the table.", show_default=False)]
Value = Annotated[
    str | None, typer.Option(metavar="V", help="The column of counts or amounts; without it, records are counted.")
]
Contributors = Annotated[
    str | None, typer.Option(metavar="C", help="The column that says who contributed; `rows`: each row is another.")
]
Counts = Annotated[
    str | None, typer.Option(metavar="K", help="The column with the number of records behind a cell of amounts.")
]
Hierarchies = Annotated[Path | None, typer.Option(metavar="FILE", help="How codes add up; see below.")]
Linked = Annotated[
    list[str] | None, typer.Option(metavar="A,B", help="One of several tables over the same rows, by its dimensions.")
]
Total = Annotated[str, typer.Option(help="What totals are called.")]
MinCount = Annotated[float | None, typer.Option(metavar="N", help="Hide counts below N.")]
Dominance = Annotated[
    list[str] | None, typer.Option(metavar="N:K", help="Hide cells of which the N largest contributors have K percent.")
]
PPercent = Annotated[
    float | None, typer.Option(metavar="P", help="Hide cells whose largest contribution is known to within P percent.")
]
MinContributors = Annotated[int | None, typer.Option(metavar="N", help="Hide cells with fewer contributors than N.")]
Zeros = Annotated[str | None, typer.Option(help="published, candidates or suppressed.")]
Singletons = Annotated[str | None, typer.Option(help="protected or ignored.")]
Priority = Annotated[
    str | None, typer.Option(metavar="C", help="The column of what cells are worth showing; inf: in any case.")
]
Pattern = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Hide the cells of this file that say so in the column `suppressed`: no rules."),
]
Report = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.html",
        help="Write the table as a picture, and FILE.json with it. They hold the hidden values: keep them inside.",
    ),
]


@app.command(epilog=HIERARCHIES)
def suppress(
    source: Input,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where the table goes.", show_default=False)],
    dimensions: Dimensions,
    value: Value = None,
    contributors: Contributors = None,
    counts: Counts = None,
    hierarchies: Hierarchies = None,
    linked: Linked = None,
    total: Total = "Total",
    min_count: MinCount = None,
    dominance: Dominance = None,
    p_percent: PPercent = None,
    min_contributors: MinContributors = None,
    zeros: Zeros = None,
    singletons: Singletons = None,
    priority: Priority = None,
    with_values: Annotated[
        bool, typer.Option("--with-values", help="Write hidden values, too, and which are primary. Keep that inside.")
    ] = False,
    report: Report = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Hide sensitive cells, and as many others as it takes that none can be worked out."""
    asked = _asked(**_of(locals()))
    _check_places([output], report, asked)
    with _progress(asked, quiet or json) as tell:
        tell("reading the table", None)
        table = tabling.read(asked)
        tell("choosing what is hidden", None)
        s = tabling.decide(table, asked)
    frame = s.cells if with_values else tabling.published(s)
    inside = [output] if with_values else []
    written = _write({output: frame}, report, lambda: tabling.report(s, asked), inside)
    _tell({**tabling.counts(s), "warnings": s.warnings}, written, as_json=json, quiet=quiet)


@app.command(epilog=HIERARCHIES)
def fill(
    source: Input,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where the table goes.", show_default=False)],
    dimensions: Dimensions,
    value: Value = None,
    contributors: Contributors = None,
    counts: Counts = None,
    hierarchies: Hierarchies = None,
    linked: Linked = None,
    total: Total = "Total",
    min_count: MinCount = None,
    dominance: Dominance = None,
    p_percent: PPercent = None,
    min_contributors: MinContributors = None,
    zeros: Zeros = None,
    singletons: Singletons = None,
    priority: Priority = None,
    pattern: Pattern = None,
    also: Annotated[
        str | None, typer.Option(metavar="V,W", help="Columns of further variables, filled together with the first.")
    ] = None,
    fitted: Annotated[bool, typer.Option("--fitted", help="Fitted values, without residuals.")] = False,
    modulo: Annotated[
        float | None, typer.Option(metavar="D", help="Take only remainders of D to be secret. Mind the warning.")
    ] = None,
    residual_scale: Annotated[float, typer.Option(metavar="F", help="What residuals are multiplied by.")] = 1.0,
    residual_sd: Annotated[float | None, typer.Option(metavar="S", help="Their standard deviation instead.")] = None,
    keep_variance: Annotated[bool, typer.Option("--keep-variance", help="Keep the sum of squares with --modulo.")] = (
        False
    ),
    sums: Annotated[
        list[str] | None,
        typer.Option("--sum", metavar="'A,B + C,D'", help="A sum of cells: its value, and if it can be published."),
    ] = None,
    seed: Seed = None,
    report: Report = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Put decimals that add up in the place of hidden cells. Exit code 1 if a hidden cell follows from the others."""
    asked = _asked(**_of(locals()))
    _check_places([output], report, asked)
    others = [] if also is None else names_in(also)
    if fitted and (others or residual_scale != 1 or residual_sd is not None or keep_variance or seed is not None):
        raise ParameterError(
            "--fitted: there are no residuals", "leave their options, further columns and the seed out"
        )
    with _progress(asked, quiet or json) as tell:
        tell("reading the table", None)
        s = tabling.decide(tabling.read(asked), asked)
        tell("filling", None)
        filled = (
            tables.fitted(s, modulo)
            if fitted
            else tables.fill(
                s,
                modulo=modulo,
                residual_scale=residual_scale,
                residual_sd=residual_sd,
                keep_variance=keep_variance,
                others=[tabling.read(replace(asked, value=name)) for name in others],
                seed=seed,
            )
        )
    asked_sums = {text: filled.sum_of(_summands(text, asked)) for text in sums or []}
    told = {
        **tabling.counts(s),
        "determined": int(filled.determined.sum()),
        "sums": {text: {"value": found.value, "publishable": found.publishable} for text, found in asked_sums.items()},
        "warnings": [*s.warnings, *filled.warnings],
    }
    failed = bool(filled.determined.any())
    written = []
    if not failed:
        written = _write({output: filled.published}, report, lambda: tabling.report(s, asked, filled))
    _tell(told, written, as_json=json, quiet=quiet)
    if failed:
        raise NotMet("hidden cells follow from the published ones; nothing was written")


@app.command(epilog=HIERARCHIES)
def audit(
    source: Input,
    dimensions: Dimensions,
    value: Value = None,
    contributors: Contributors = None,
    counts: Counts = None,
    hierarchies: Hierarchies = None,
    linked: Linked = None,
    total: Total = "Total",
    min_count: MinCount = None,
    dominance: Dominance = None,
    p_percent: PPercent = None,
    min_contributors: MinContributors = None,
    zeros: Zeros = None,
    singletons: Singletons = None,
    priority: Priority = None,
    pattern: Pattern = None,
    allow_negative: Annotated[
        bool, typer.Option("--allow-negative", help="Cells may be negative, as far as an intruder knows.")
    ] = False,
    whole: Annotated[bool, typer.Option("--whole", help="He knows that cells are whole numbers.")] = False,
    known: Annotated[
        list[str] | None, typer.Option(metavar="A,B", help="A cell whose value he knows, by its codes.")
    ] = None,
    at_least: Annotated[float | None, typer.Option(metavar="L", help="He knows that no inner cell is below L.")] = None,
    at_most: Annotated[float | None, typer.Option(metavar="U", help="He knows that no inner cell is above U.")] = None,
    within_percent: Annotated[
        float | None, typer.Option(metavar="P", help="He knows every inner cell to within P percent.")
    ] = None,
    protection: Annotated[
        float, typer.Option(metavar="P", help="Percent of its value that the interval of a cell must be wide.")
    ] = 10.0,
    sides: Annotated[str, typer.Option(help="sliding (the whole width), or each side of the value.")] = "sliding",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where the intervals go. Keep them inside.")
    ] = None,
    report: Report = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the interval an intruder can derive for each hidden cell. Exit code 1 if one is exactly determined."""
    asked = _asked(**_of(locals()))
    _check_places([] if output is None else [output], report, asked)
    with _progress(asked, quiet or json) as tell:
        tell("reading the table", None)
        s = tabling.decide(tabling.read(asked), asked)
        found = tables.intervals(
            s,
            nonnegative=not allow_negative,
            whole=whole,
            protection=protection,
            sides=sides,  # type: ignore[arg-type]  # any text is typed here, and checked there
            known=tabling.cells_from(known or [], asked.dimensions),
            at_least=at_least,
            at_most=at_most,
            within_percent=within_percent,
            progress=tell,
        )
    frames = {} if output is None else {output: found.to_frame()}
    written = _write(frames, report, lambda: tabling.report(s, asked, found=found), list(frames))
    told = {
        **tabling.counts(s),
        "exactly_determined": found.count(EXACT),
        "nearly_determined": found.count(NEAR),
        "named": {verdict: found.named(verdict) for verdict in (EXACT, NEAR)},
        "warnings": s.warnings,
    }
    _tell(told, written, as_json=json, quiet=quiet)
    if found.count(EXACT):
        raise NotMet(f"hidden cells that are exactly determined: {found.count(EXACT)}")


def _of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that say where the table is and what is hidden."""
    return {name: given[name] for name in tabling.TableRequest.__dataclass_fields__ if name in given}


def _asked(**given: Any) -> tabling.TableRequest:
    linked, contributors = given["linked"], given["contributors"]
    return tabling.TableRequest(
        **{
            **given,
            "dimensions": names_in(given["dimensions"]),
            "linked": None if not linked else [names_in(text) for text in linked],
            "contributors": True if contributors == "rows" else contributors,
            "dominance": given["dominance"] or [],
        }
    )


def _summands(text: str, asked: tabling.TableRequest) -> list[Any]:
    return list(tabling.cells_from([part.strip() for part in text.split(" + ")], asked.dimensions))


def _check_places(outputs: list[Path], report: Path | None, asked: tabling.TableRequest) -> None:
    """Before the long work: can everything asked for be written, and is it all different?"""
    for path in outputs:
        tabling.check_output(path, asked)
    reports = [] if report is None else [report, twin(report)]
    for path in reports:
        check_place(path, asked.inputs)
    check_different([*outputs, *reports])


def _write(frames: Mapping[Path, Any], report: Path | None, reported: Any, private: Sequence[Path] = ()) -> list[Path]:
    """Everything or nothing; the table takes its place last. What there is now, the table first."""
    reports = [] if report is None else [report, twin(report)]
    targets = [*reports, *frames]
    if not targets:
        return []
    with atomic_targets(targets, point_of_no_return(), private) as temporaries:
        place = dict(zip(targets, temporaries, strict=True))
        if report is not None:
            tabling.write_report(reported(), place[report], place[twin(report)])
        for path, frame in frames.items():
            tabling.write(frame, path, place[path])
    return [*frames, *reports]


def _tell(told: Mapping[str, Any], written: list[Path], *, as_json: bool, quiet: bool) -> None:
    if as_json:
        print_json(plain({**told, "written": [str(path) for path in written]}))
    elif not quiet:
        show.suppressed_table(told, written)


def _progress(asked: tabling.TableRequest, quiet: bool) -> AbstractContextManager[Tell]:
    """A bar on standard error, where the file is large."""
    size = asked.source.stat().st_size if asked.source.is_file() else 0
    return progress(quiet, size, LARGE)
