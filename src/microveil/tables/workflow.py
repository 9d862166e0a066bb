"""Suppressed tables from file to file: `microveil table suppress`, `fill` and `audit`, each as one function.

The options of a job are declared once, as the fields of a model; the command line makes its flags of them.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from microveil.core.errors import ParameterError
from microveil.io.config_files import read_config
from microveil.io.files.formats import FileFormat
from microveil.io.tables import check_target, read_table, write_table
from microveil.options import Options, option, same_as
from microveil.storage.atomic import atomic_targets, check_new, check_place, shown
from microveil.tables.audit import EXACT, NEAR, Intervals, Intruder, intervals
from microveil.tables.fill import Filled, ResidualOptions, fill, fitted
from microveil.tables.rules import Dominance, FewContributors, PPercent, Rule, SmallCount
from microveil.tables.suppress import Suppressed, from_frame, suppress
from microveil.tables.table import Cell, Layout, Table, frame_like

if TYPE_CHECKING:
    from microveil.report import ReportedTable

Tell = Callable[[str, float | None], None]
"""Called with the name of the step that begins, and with the share of it that is done."""

Shield = AbstractContextManager[None]
"""Surrounds the instant at which the files take their places."""


class _Source(Options):
    """Where a table is."""

    source: Path = option(..., "Cells or records (.csv, .parquet).", "argument", metavar="INPUT")
    output: Path | None = option(None, "Where the table goes.", flag="-o --output")
    dimensions: list[str] = option(..., "The columns that make up the table.", kind="columns")
    value: str | None = option(None, "The column of counts or amounts; without it, records are counted.", metavar="V")


class TableOptions(Layout, _Source):
    """Where a table is, how it is read, and which of its cells are hidden."""

    hierarchies: Path | None = option(None, "How codes add up; see below.", metavar="FILE")
    min_count: float | None = option(None, "Hide counts below N.", metavar="N")
    dominance: list[str] | None = option(
        None, "Hide cells of which the N largest contributors have K percent.", metavar="N:K"
    )
    p_percent: float | None = option(
        None, "Hide cells whose largest contribution is known to within P percent.", metavar="P"
    )
    min_contributors: int | None = option(None, "Hide cells with fewer contributors than N.", metavar="N")
    zeros: str | None = option(None, "published, candidates or suppressed.")
    singletons: str | None = option(None, "protected or ignored.")
    priority: str | None = option(None, "The column of what cells are worth showing; inf: in any case.", metavar="C")
    report: Path | None = option(
        None,
        "Write the table as a picture, and FILE.json with it. They hold the hidden values: keep them inside.",
        metavar="FILE.html",
    )
    overwrite: bool = option(False, "Replace files that exist already.", flag="--overwrite")

    @cached_property
    def codes(self) -> dict[str, Any]:
        """How codes add up, by dimension; a .hrc file is searched for in the folder of the file that names it."""
        if self.hierarchies is None:
            return {}
        hint, folder = "`microveil table suppress --help` shows one", self.hierarchies.parent
        content = read_config(self.hierarchies, hint, what="--hierarchies")
        return {name: folder / given if isinstance(given, str) else given for name, given in content.items()}

    @property
    def inputs(self) -> list[Path]:
        """The files that are read."""
        paths = (self.source, self.hierarchies, *self.codes.values())
        return [path for path in paths if isinstance(path, Path)]

    @property
    def pages(self) -> list[Path]:
        """The files of the report: the page and its JSON twin."""
        from microveil.report import twin

        return [] if self.report is None else [self.report, twin(self.report)]

    @property
    def rules(self) -> list[Rule]:
        """The rules that say which cells are sensitive."""
        rules: list[Rule | None] = [
            None if self.min_count is None else SmallCount(limit=self.min_count),
            *map(_dominance, self.dominance or ()),
            None if self.p_percent is None else PPercent(p=self.p_percent),
            None if self.min_contributors is None else FewContributors(least=self.min_contributors),
        ]
        return [rule for rule in rules if rule is not None]

    @property
    def choices(self) -> dict[str, str]:
        """The choices for `suppress` that were made."""
        made = {"zeros": self.zeros, "singletons": self.singletons, "priority": self.priority}
        return {name: choice for name, choice in made.items() if choice is not None}

    def reasons(self) -> list[str]:
        """How it is decided what is hidden, in words."""
        settings = {
            "counts below {:g} are hidden": self.min_count,
            "cells with fewer than {:g} contributors are hidden": self.min_contributors,
            "cells are hidden in which the largest contribution is known to within {:g} %": self.p_percent,
            "zeros: {}": self.zeros,
            "singletons: {}": self.singletons,
            "worth of cells: column {}": self.priority,
        }
        lines = [line.format(setting) for line, setting in settings.items() if setting is not None]
        rules = self.dominance or ()
        return lines + [f"cells that {rule} (contributors : percent) dominate are hidden" for rule in rules]

    def read(self, value: str | None) -> Table:
        """The table of this variable in the file."""
        columns_above = [name for given in self.codes.values() if isinstance(given, list) for name in given]
        frame = _with_text_codes(self.source, [*self.dimensions, *columns_above])
        if "suppressed" in frame.columns and value in frame.columns and frame[value].null_count():
            raise ParameterError(
                f"{shown(self.source)} is a published table: {frame[value].null_count()} of its cells are hidden",
                "name the table that it was made from, and this one as --pattern (for fill and audit)",
            )
        layout = {**self.only(Layout), "linked": self.linked or None}
        if self.contributors == "rows":
            layout["contributors"] = True
        return Table(frame, self.dimensions, value, self.codes, **layout)

    def suppressed(self, tell: Tell) -> Suppressed:
        """The table, and which of its cells are hidden."""
        tell("reading the table", None)
        table = self.read(self.value)
        tell("choosing what is hidden", None)
        return suppress(table, *self.rules, **self.choices)


class SuppressOptions(TableOptions):
    """Hide sensitive cells, and as many others as it takes that none can be worked out."""

    output: Path = option(..., "Where the table goes.", flag="-o --output")
    with_values: bool = option(False, "Write hidden values, too, and which are primary. Keep that inside.")


class _WithPattern(TableOptions):
    """A table that may be hidden as a file of other software says."""

    pattern: Path | None = option(
        None, "Hide the cells of this file that say so in the column `suppressed`: no rules.", metavar="FILE"
    )

    @property
    def inputs(self) -> list[Path]:
        """The files that are read."""
        return [*super().inputs, *([] if self.pattern is None else [self.pattern])]

    def reasons(self) -> list[str]:
        """How it is decided what is hidden, in words."""
        return super().reasons() if self.pattern is None else [f"hidden as the file {self.pattern.name} says"]

    def suppressed(self, tell: Tell) -> Suppressed:
        """The table, hidden by rules or by the pattern."""
        if self.pattern is None:
            return super().suppressed(tell)
        tell("reading the table", None)
        table = self.read(self.value)
        if self.rules or self.choices:
            raise ParameterError("--pattern: the file says what is hidden", "leave the rules out")
        return from_frame(table, _with_text_codes(self.pattern, self.dimensions))


class FillOptions(ResidualOptions, _WithPattern):
    """Put decimals that add up in the place of hidden cells. Exit code 1 if a hidden cell follows from the others."""

    output: Path = option(..., "Where the table goes.", flag="-o --output")
    also: list[str] | None = option(
        None, "Columns of further variables, filled together with the first.", metavar="V,W", kind="columns"
    )
    fitted: bool = option(False, "Fitted values, without residuals.")
    sums: list[str] | None = option(
        None, "A sum of cells: its value, and if it can be published.", metavar="'A,B + C,D'", flag="--sum"
    )


class AuditOptions(Intruder, _WithPattern):
    """Find the interval an intruder can derive for each hidden cell. Exit code 1 if one is exactly determined."""

    allow_negative: bool = option(False, "Cells may be negative, as far as an intruder knows.")
    known: list[str] | None = option(None, "A cell whose value he knows, by its codes.", metavar="A,B")
    at_least: float | None = same_as(Intruder, "at_least")
    at_most: float | None = same_as(Intruder, "at_most")
    output: Path | None = option(None, "Where the intervals go. Keep them inside.", flag="-o --output")


@dataclass(frozen=True, repr=False)
class TableResult:
    """What became of a table: figures by name, the files that were written, and what is wrong with it, if anything."""

    figures: dict[str, Any]
    written: list[Path]
    failure: str = ""


def suppress_file(options: SuppressOptions, tell: Tell, shield: Shield | None = None) -> TableResult:
    """Hide cells of the table in a file, and write it without them; and the report, if one is asked for."""
    _check_outputs(options)
    s = options.suppressed(tell)
    frame = s.cells if options.with_values else published(s)
    written = _write(options, frame, lambda: report(s, options), shield, private=options.with_values)
    return TableResult({**_counts(s), "warnings": s.warnings}, written)


def fill_file(options: FillOptions, tell: Tell, shield: Shield | None = None) -> TableResult:
    """Put decimals in the place of hidden cells. Nothing is written if one of these follows from the others."""
    _check_outputs(options)
    if options.fitted and (options.also or options.changed({*ResidualOptions.model_fields} - {"modulo"})):
        raise ParameterError(
            "--fitted: there are no residuals", "leave their options, further columns and the seed out"
        )
    s = options.suppressed(tell)
    tell("filling", None)
    if options.fitted:
        filled = fitted(s, options.modulo)
    else:
        filled = fill(s, others=[options.read(name) for name in options.also or ()], **options.only(ResidualOptions))
    summands = {text: [part.strip() for part in text.split(" + ")] for text in options.sums or ()}
    sums = {text: filled.sum_of(_cells(parts, options.dimensions)) for text, parts in summands.items()}
    figures = {
        **_counts(s),
        "determined": int(filled.determined.sum()),
        "sums": {text: {"value": found.value, "publishable": found.publishable} for text, found in sums.items()},
        "warnings": [*s.warnings, *filled.warnings],
    }
    if filled.determined.any():
        return TableResult(figures, [], "hidden cells follow from the published ones; nothing was written")
    return TableResult(figures, _write(options, filled.published, lambda: report(s, options, filled), shield))


def audit_file(options: AuditOptions, tell: Tell, shield: Shield | None = None) -> TableResult:
    """Find the interval an intruder can derive for each hidden cell; write these, and a report, where asked for."""
    _check_outputs(options)
    s = options.suppressed(tell)
    known = _cells(options.known or (), options.dimensions)
    asked = {**options.only(Intruder), "nonnegative": not options.allow_negative, "known": known}
    found = intervals(s, progress=tell, **asked)
    written = _write(options, found.to_frame(), lambda: report(s, options, found=found), shield, private=True)
    exact, near = found.count(EXACT), found.count(NEAR)
    figures = {
        **_counts(s),
        "exactly_determined": exact,
        "nearly_determined": near,
        "ends_not_searched": int((~found.ends_known).sum()),
        "named": {verdict: found.named(verdict) for verdict in (EXACT, NEAR)},
        "warnings": s.warnings,
    }
    return TableResult(figures, written, f"hidden cells that are exactly determined: {exact}" if exact else "")


def published(s: Suppressed) -> Any:
    """The table as it can leave: nothing in the place of hidden values, and not why they are hidden."""
    table, name = s.table, s.table.variable
    values = np.where(s.suppressed, np.nan, table.published_values)
    frame = frame_like(table.source, {**table.labels, name: values, "suppressed": s.suppressed})
    frame = frame.with_columns(frame[name].fill_nan(None))
    whole = bool((table.published_values == np.rint(table.published_values)).all())
    return frame.with_columns(frame[name].cast(int)) if whole else frame


def report(
    s: Suppressed, options: TableOptions, filled: Filled | None = None, found: Intervals | None = None
) -> ReportedTable:
    """What a report shows of a suppressed table `s`, of the decimals in it (`filled`), or of the intervals `found`."""
    from microveil.report import ReportedTable

    table = s.table
    codes = zip(*(column.tolist() for column in table.labels.values()), strict=True)
    states = np.where(s.primary, "primary", np.where(s.suppressed, "secondary", "published"))
    cells: list[dict[str, Any]] = [
        {"codes": list(each), "value": value, "state": str(state)}
        for each, value, state in zip(codes, table.published_values.tolist(), states, strict=True)
    ]
    if filled is not None:
        for row in np.flatnonzero(s.suppressed):
            cells[row]["filled"] = float(filled.values[row])
    if found is not None:
        ends = zip(found.rows, found.low, found.high, found.verdicts, found.ends_known, strict=True)
        for row, low, high, verdict, known in ends:
            cells[row] |= {"low": float(low), "high": float(high), "verdict": str(verdict), "ends_known": bool(known)}
    warnings = [*s.warnings, *([] if filled is None else filled.warnings)]
    return ReportedTable(table.dimensions, table.variable, cells, options.reasons(), warnings)


def _dominance(text: str) -> Dominance:
    """`1:75`: the largest contributor has 75 percent."""
    number, _, percent = text.partition(":")
    try:
        n, k = int(number), float(percent)
    except ValueError:
        raise ParameterError(f"--dominance: '{text}' is not CONTRIBUTORS:PERCENT", "for example 1:75") from None
    return Dominance(n=n, k=k)


def _with_text_codes(path: Path, columns: Sequence[Any]) -> Any:
    """The table in a file; codes as they were written, even if they look like numbers (01)."""
    frame, form = read_table(path)
    for name in columns:
        written = form.text_of(name) if name in frame.columns else None
        if written is not None:
            frame = frame.with_columns(written.str.strip_chars().alias(name))
    return frame


def _cells(texts: Sequence[str], dimensions: Sequence[str]) -> list[Cell]:
    """`row1,col1` as cells; a code with a comma in it goes in double quotes."""
    found: list[Cell] = []
    for text in texts:
        try:
            codes = next(csv.reader([text], skipinitialspace=True), [])
        except csv.Error:
            codes = []
        if len(codes) != len(dimensions):
            raise ParameterError(
                f"'{text}' is no cell: it has {len(codes)} codes", f"give one for each of {', '.join(dimensions)}"
            )
        found.append([code.strip() for code in codes])
    return found


def _counts(s: Suppressed) -> dict[str, int]:
    """How many cells there are, and are hidden."""
    hidden, primary = int(s.suppressed.sum()), int(s.primary.sum())
    secondary = hidden - primary
    inner = s.table.inner_count
    return {"cells": s.table.count, "inner": inner, "primary": primary, "secondary": secondary, "suppressed": hidden}


def _check_outputs(options: TableOptions) -> None:
    """Before the long work: can everything be written, and is it all different?"""
    outputs = [] if options.output is None else [options.output]
    for path in outputs:
        check_target(path, options.inputs)
    for path in options.pages:
        check_place(path, options.inputs)
    targets = [*outputs, *options.pages]
    for path in targets:
        check_new(path, overwrite=options.overwrite)
    if len({path.resolve() for path in targets}) < len(targets):
        raise ParameterError("two outputs have the same name", "give each a name of its own")


def _write(
    options: TableOptions,
    frame: Any,
    reported: Callable[[], ReportedTable],
    shield: Shield | None,
    private: bool = False,
) -> list[Path]:
    """Write the frame and what is reported: everything or nothing, and the frame takes its place last.

    Reports hold hidden values, and are for their owner only; so is the frame, if `private`. Gives the files that there
    are now, that of the frame first.
    """
    from microveil.report import table_texts, write_texts

    outputs = [] if options.output is None else [options.output]
    targets = [*options.pages, *outputs]
    if not targets:
        return []
    with atomic_targets(targets, shield, outputs if private else ()) as temporaries:
        if options.pages:
            write_texts(table_texts(reported()), *temporaries[:2], private=True)
        for path, temporary in zip(outputs, temporaries[-1:], strict=False):
            write_table(frame, path, FileFormat("csv", ".csv"), into=temporary)
    return [*outputs, *options.pages]
