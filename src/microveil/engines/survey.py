"""The survey of a file that is read in blocks: what all its rows say of the kinds of columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from microveil.core.late import pa, pl
from microveil.intake.kinds import NUMBERS, find_kinds
from microveil.io.blocks import BlockSource
from microveil.io.frames.surveyed import ColumnFacts, SurveyedFrame, facts_of, plain_cells
from microveil.io.frames.times import can_be_numbered_dates
from microveil.storage.disk_columns import Shelf
from microveil.storage.distinct import DistinctCounter

if TYPE_CHECKING:
    from microveil.io.frames.dataframes import Frame

SPREAD = 10_000
"""Rows from all over a table, at most, in which rules between columns are looked for."""

SHARE = 4
"""Of the memory allowed, what is counted takes one part in so many."""


def open_questions(head: Frame) -> tuple[list[str], list[str]]:
    """The columns of which the first rows do not settle the kind, and those whose levels have to be counted."""
    kinds = find_kinds(head, {})
    doubtful = [name for name in head.names if not head.is_numeric(name) or head.is_whole(name)]
    numbers = {name for name in doubtful if head.is_numeric(name) and kinds[name].kind in NUMBERS}
    return doubtful, [n for n in doubtful if n not in numbers or can_be_numbered_dates(*head.extent(n)[1:])]


def survey_blocks(source: BlockSource, shelf: Shelf, rows: int) -> SurveyedFrame:
    """A file in one pass over the columns that the first rows leave open, so many rows at a time."""
    head = source.head()
    doubtful, counted = open_questions(SurveyedFrame(head, head, {}, source.numeric, source.hiding))
    room = shelf.memory // SHARE // max(len(counted), 1)
    counters = {name: DistinctCounter(shelf, source.count, room) for name in counted}
    facts: dict[str, ColumnFacts] = {}
    some, start, apart = [], 0, max(-(-source.count // SPREAD), 1)
    other_types: set[str] = set()
    for batch in source.batches(doubtful, rows) if doubtful else ():
        columns = {}
        for name in (name for name in doubtful if name not in other_types):
            cells = source.typed(name, batch.column(name))
            if cells is None:
                other_types.add(name)
                continue
            columns[name] = plain_cells(cells)
            found = facts_of(columns[name], numeric=source.is_numeric(name))
            facts[name] = facts[name].joined(found) if name in facts else found
            if name in counters:
                counters[name].add(_hashable(columns[name]).drop_nulls().to_frame())
        taken = pa.array(np.arange(-start % apart, batch.num_rows, apart))
        some.append(pl.DataFrame({name: pl.Series(cells.take(taken)) for name, cells in columns.items()}))
        start += batch.num_rows
    if other_types:  # than their beginnings, which the source knows by now
        return survey_blocks(source, shelf, rows)
    for name, counter in counters.items():
        facts[name] = replace(facts[name], levels=counter.counts()[0])
    spread = pl.concat(some, how="vertical_relaxed") if some else head.clear()
    return SurveyedFrame(head, spread, facts, source.numeric, source.hiding)


def _hashable(cells: pa.Array) -> pl.Series:
    """A column, with texts in the place of what polars cannot compare; what is no number is missing."""
    series = pl.Series("cells", cells)
    if series.dtype.is_nested():
        return pl.Series("cells", [str(cell) for cell in series.to_list()], dtype=pl.String)
    return series.fill_nan(None) if series.dtype.is_float() else series


def comparable(source: BlockSource, batch: pa.RecordBatch, names: Sequence[str]) -> pl.DataFrame:
    """The cells of some columns of some rows, so that equal ones are equal whatever part of the file they are in."""
    typed = {name: source.typed(name, batch.column(name)) for name in names}
    columns = [
        _hashable(plain_cells(batch.column(name) if cells is None else cells)).alias(str(place))
        for place, (name, cells) in enumerate(typed.items())
    ]
    return pl.DataFrame(columns)
