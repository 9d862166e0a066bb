"""`microveil budget`: expected errors of a private release, and a dictionary to fill in."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from microveil.cli.shared import Screen
from microveil.cli.show.console import out
from microveil.core.errors import ParameterError
from microveil.io.files.formats import ReadOptions
from microveil.io.frames.dataframes import open_frame
from microveil.io.locations import Place
from microveil.io.tables import read_table
from microveil.options import Budget
from microveil.private.budget import ExpectedError, expected_error
from microveil.private.declared import dictionary_to_fill_in
from microveil.storage.atomic import atomic_targets, check_new

EPSILONS, FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0), (0.1, 1.0, 10.0)
"""What the table is of: epsilons, and as many rows as were given, fewer and more."""


def budget(asked: Budget, screen: Screen, source: Place | None) -> None:
    """Show what a release will be off by, or write a dictionary to fill in."""
    if asked.save is not None or source is not None:
        _write_dictionary(source, asked, screen)
        return
    if asked.rows is None:
        raise ParameterError("rows: nothing is known of the table", "give --rows, --amounts and --level-counts")
    found = _expected(asked)
    screen.answer(lambda: {"expected": [line.to_dict() for line in found]}, partial(_show, found))


def _show(found: list[ExpectedError]) -> None:
    """The figures as a table."""
    out("Standard deviations of the noise (-: not measured, as noise would drown it):")
    heads = ("epsilon", "rows", "rank corr.", "correlation", "table cell", "distribution")
    out("".join(f"{head:>13}" for head in heads))
    for line in found:
        figures = (line.rank_correlation, line.correlation, line.cell, line.distribution)
        shown = "".join(f"{'-':>13}" if figure is None else f"{figure:13.2g}" for figure in figures)
        out(f"{line.epsilon:13g}{line.rows:13,}{shown}")


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
    possible = [(e, n) for e, n in kinds if n >= 1 and asked.delta * n < 1] or kinds[:1]
    return [expected_error(count, asked.amounts, levels, epsilon=epsilon, **more) for epsilon, count in possible]


def _write_dictionary(source: Place | None, asked: Budget, screen: Screen) -> None:
    """Write a dictionary with the names of the columns and what to fill in; it holds no cell."""
    if source is None or asked.save is None:
        raise ParameterError("a dictionary needs INPUT and -o FILE.toml", "give both, or neither and --rows")
    check_new(asked.save, overwrite=asked.overwrite)
    frame = open_frame(read_table(source, ReadOptions.of(asked))[0])
    target = Path(asked.save)
    with atomic_targets([target]) as (temporary,):
        temporary.write_text(dictionary_to_fill_in(frame.names), encoding="utf-8")
    screen.answer(lambda: {"output": str(target)}, lambda: None, [target])
