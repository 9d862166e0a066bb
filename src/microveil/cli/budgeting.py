"""`microveil budget`: expected errors of a private release, and a dictionary to fill in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from microveil.cli.shared import print_json, read
from microveil.cli.show.console import open_console, print_written
from microveil.core.errors import ParameterError
from microveil.io.files.formats import ReadOptions
from microveil.io.frames.dataframes import open_frame
from microveil.io.locations import Place
from microveil.options import Budget
from microveil.private.declared import dictionary_to_fill_in
from microveil.private.expected import ExpectedError, expected_error
from microveil.storage.atomic import atomic_targets, check_new

EPSILONS, FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0), (0.1, 1.0, 10.0)
"""What the table is of: epsilons, and as many rows as were given, fewer and more."""


def budget(source: Place | None, options: Mapping[str, Any], *, as_json: bool) -> None:
    """Show what a release will be off by, or write a dictionary to fill in."""
    asked = Budget.checked(options)
    if asked.save is not None or source is not None:
        _write_dictionary(source, asked, as_json=as_json)
        return
    if asked.rows is None:
        raise ParameterError("rows: nothing is known of the table", "give --rows, --amounts and --level-counts")
    found = _expected(asked)
    if as_json:
        print_json({"expected": [line.to_dict() for line in found]})
        return
    console = open_console()
    console.print("Standard deviations of the noise (-: not measured, as noise would drown it):")
    heads = ("epsilon", "rows", "rank corr.", "correlation", "table cell", "distribution")
    console.print("".join(f"{head:>13}" for head in heads), highlight=False)
    for line in found:
        figures = (line.rank_correlation, line.correlation, line.cell, line.distribution)
        shown = "".join(f"{'-':>13}" if figure is None else f"{figure:13.2g}" for figure in figures)
        console.print(f"{line.epsilon:13g}{line.rows:13,}{shown}", highlight=False)


def _expected(asked: Budget) -> list[ExpectedError]:
    """The figures asked for: a table, or a line where epsilon is given."""
    try:
        levels = [int(size) for size in asked.level_counts or []]
    except ValueError:
        raise ParameterError("level_counts: they are whole numbers", "write --level-counts 2,5,3") from None
    rows = asked.rows or 0
    kinds = [(asked.epsilon, rows)] if asked.epsilon is not None else [
        (epsilon, round(rows * factor)) for epsilon in EPSILONS for factor in FACTORS
    ]  # fmt: skip
    more: dict[str, Any] = {"delta": asked.delta, "rows_per_unit": asked.rows_per_unit or 1}
    possible = [(e, n) for e, n in kinds if n >= 1 and asked.delta * n < more["rows_per_unit"]] or kinds[:1]
    return [expected_error(count, asked.amounts, levels, epsilon=epsilon, **more) for epsilon, count in possible]


def _write_dictionary(source: Place | None, asked: Budget, *, as_json: bool) -> None:
    """Names of columns, and what is to be said of each; nothing that is in them."""
    if source is None or asked.save is None:
        raise ParameterError("a dictionary needs INPUT and -o FILE.toml", "give both, or neither and --rows")
    check_new(asked.save, overwrite=asked.overwrite)
    frame = open_frame(read(source, True, ReadOptions.of(asked), findings=False)[0])
    target = Path(asked.save)
    with atomic_targets([target]) as (temporary,):
        temporary.write_text(dictionary_to_fill_in(frame.names), encoding="utf-8")
    if as_json:
        print_json({"output": str(target)})
    else:
        print_written([target], open_console())
