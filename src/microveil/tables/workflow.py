"""Suppressed tables from files to files: what `microveil table` wires together of tables, files and reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from microveil.core.errors import ParameterError
from microveil.io.config_files import read_toml_or_json
from microveil.io.tables import FileFormat, check_target, read_table, write_table
from microveil.storage.atomic import shown
from microveil.tables import (
    Dominance,
    FewContributors,
    Filled,
    Intervals,
    PPercent,
    SmallCount,
    Suppressed,
    Table,
    suppress,
)
from microveil.tables.fill import Cell
from microveil.tables.pattern import from_frame
from microveil.tables.table import frame_like

if TYPE_CHECKING:
    from microveil.report import ReportedTable

HIERARCHIES = "`microveil table suppress --help` shows one"


@dataclass(frozen=True, repr=False)
class TableRequest:
    """Where a table is, how it is read, and how it is decided what is hidden."""

    source: Path
    dimensions: Sequence[str]
    value: str | None = "n"
    contributors: str | bool | None = None
    counts: str | None = None
    hierarchies: Path | None = None
    linked: Sequence[Sequence[str]] | None = None
    total: str = "Total"
    min_count: float | None = None
    dominance: Sequence[str] = ()
    p_percent: float | None = None
    min_contributors: int | None = None
    zeros: str | None = None
    singletons: str | None = None
    priority: str | None = None
    pattern: Path | None = None

    @property
    def inputs(self) -> list[Path]:
        """The files that are read."""
        codes = [given for given in (_hierarchies(self) or {}).values() if isinstance(given, Path)]
        return [path for path in (self.source, self.hierarchies, self.pattern, *codes) if path is not None]

    @property
    def decided(self) -> list[str]:
        """How it was decided, in words."""
        said = {
            "counts below {} are hidden": self.min_count,
            "cells with fewer than {} contributors are hidden": self.min_contributors,
            "cells are hidden in which the largest contribution is known to within {} %": self.p_percent,
            "zeros: {}": self.zeros,
            "singletons: {}": self.singletons,
            "worth of cells: column {}": self.priority,
            "hidden as the file {} says": None if self.pattern is None else self.pattern.name,
        }
        lines = [
            line.format(setting if isinstance(setting, str) else f"{setting:g}")
            for line, setting in said.items()
            if setting is not None
        ]
        return lines + [f"cells that {rule} (contributors : percent) dominate are hidden" for rule in self.dominance]


def read(asked: TableRequest) -> Table:
    """The table in the file."""
    frame = _with_text_codes(asked.source, [*asked.dimensions, *_columns_above(asked)])
    if "suppressed" in frame.columns and asked.value in frame.columns and frame[asked.value].null_count():
        raise ParameterError(
            f"{shown(asked.source)} is a published table: {frame[asked.value].null_count()} of its cells are hidden",
            "name the table that it was made from, and this one as --pattern (for fill and audit)",
        )
    return Table(
        frame,
        asked.dimensions,
        asked.value,
        _hierarchies(asked),
        contributors=asked.contributors,
        counts=asked.counts,
        linked=asked.linked,
        total=asked.total,
    )


def decide(table: Table, asked: TableRequest) -> Suppressed:
    """Which cells are hidden: by rules, or as a file of other software says."""
    rules = [rule for rule in (_small(asked), *map(_dominance, asked.dominance), *_contributor_rules(asked)) if rule]
    choices = {
        name: getattr(asked, name) for name in ("zeros", "singletons", "priority") if getattr(asked, name) is not None
    }
    if asked.pattern is None:
        return suppress(table, *rules, **choices)
    if rules or choices:
        raise ParameterError("--pattern: the file says what is hidden", "leave the rules out")
    return from_frame(table, _with_text_codes(asked.pattern, asked.dimensions))


def _small(asked: TableRequest) -> SmallCount | None:
    return None if asked.min_count is None else SmallCount(limit=asked.min_count)


def _contributor_rules(asked: TableRequest) -> list[PPercent | FewContributors]:
    rules: list[PPercent | FewContributors] = []
    if asked.p_percent is not None:
        rules.append(PPercent(p=asked.p_percent))
    if asked.min_contributors is not None:
        rules.append(FewContributors(least=asked.min_contributors))
    return rules


def _dominance(text: str) -> Dominance:
    """`1:75`: the largest contributor has 75 percent."""
    number, _, percent = text.partition(":")
    try:
        n, k = int(number), float(percent)
    except ValueError:
        raise ParameterError(f"--dominance: '{text}' is not CONTRIBUTORS:PERCENT", "for example 1:75") from None
    return Dominance(n=n, k=k)


def _hierarchies(asked: TableRequest) -> dict[str, Any] | None:
    """How codes add up, by dimension; a name of a .hrc file is looked for beside the file."""
    if asked.hierarchies is None:
        return None
    content = read_toml_or_json(asked.hierarchies, HIERARCHIES, what="--hierarchies")
    folder = asked.hierarchies.parent
    return {name: folder / given if isinstance(given, str) else given for name, given in content.items()}


def _columns_above(asked: TableRequest) -> list[str]:
    """Columns with coarser codes, which the hierarchies name."""
    lists = [given for given in (_hierarchies(asked) or {}).values() if isinstance(given, list)]
    return [name for given in lists for name in given if isinstance(name, str)]


def _with_text_codes(path: Path, columns: Sequence[str]) -> Any:
    """The table in a file; codes as they were written, even if they look like numbers (01)."""
    frame, form = read_table(path)
    for name in columns:
        written = form.dialect.originals.get(name) if name in frame.columns else None
        if written is not None:
            frame = frame.with_columns(written.text.str.strip_chars().alias(name))
    return frame


def check_output(path: Path, asked: TableRequest) -> None:
    """Before the long work: can this file be written?"""
    check_target(path, asked.inputs)


def write(frame: Any, path: Path, into: Path) -> None:
    """A frame in the format of a file's name."""
    write_table(frame, path, FileFormat("csv", ".csv"), into=into)


def published(s: Suppressed) -> Any:
    """The table as it can leave: nothing in the place of hidden values, and not why they are hidden."""
    table = s.table
    values = np.where(s.suppressed, np.nan, table.published_values)
    frame = frame_like(table.source, {**table.labels, table.value or "n": values, "suppressed": s.suppressed})
    name = table.value or "n"
    frame = frame.with_columns(frame[name].fill_nan(None))
    whole = bool((table.published_values == np.rint(table.published_values)).all())
    return frame.with_columns(frame[name].cast(int)) if whole else frame


def cells_from(texts: Sequence[str], dimensions: Sequence[str]) -> list[Cell]:
    """`row1,col1` as cells; a code with a comma in it goes in double quotes."""
    import csv

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


def counts(s: Suppressed) -> dict[str, int]:
    """How many cells there are, and are hidden."""
    hidden, primary = int(s.suppressed.sum()), int(s.primary.sum())
    return {
        "cells": s.table.count,
        "inner": s.table.inner_count,
        "primary": primary,
        "secondary": hidden - primary,
        "suppressed": hidden,
    }


def report(
    s: Suppressed, asked: TableRequest, filled: Filled | None = None, found: Intervals | None = None
) -> ReportedTable:
    """What a report shows."""
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
        for row, low, high, verdict in zip(found.rows, found.low, found.high, found.verdicts, strict=True):
            cells[row] |= {"low": float(low), "high": float(high), "verdict": str(verdict)}
    warnings = [*s.warnings, *([] if filled is None else filled.warnings)]
    return ReportedTable(table.dimensions, table.value or "n", cells, asked.decided, warnings)


def write_report(reported: ReportedTable, page: Path, beside: Path) -> None:
    """Write a report and its twin, for their owner only: they hold what is hidden."""
    from microveil.report import table_texts, write_texts

    write_texts(table_texts(reported), page, beside, private=True)
