"""What is known of the columns of a table that is elsewhere: some of its rows, and what was counted in all of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import narwhals as nw
import numpy as np

from microveil.core.arrays import Array, Index
from microveil.core.late import pa, pl
from microveil.io.frames.dataframes import Frame, NarwhalsFrame, open_frame
from microveil.io.frames.number_types import as_doubles
from microveil.io.frames.times import (
    FEWEST,
    NUMBER_FORMATS,
    Spans,
    TimeColumn,
    TimeSpan,
    as_series,
    joined_spans,
    spans,
    spans_of_numbers,
)


@dataclass(frozen=True)
class ColumnFacts:
    """What the cells of a part of a column, or of all of it, have in common."""

    rows: int
    missing: int
    low: float = np.nan
    high: float = np.nan
    whole: bool = True
    even: bool = True
    """Each number is above the one before by the same."""

    first: float = np.nan
    last: float = np.nan
    step: float | None = None
    times: Spans | None = None
    """None where no cell is there."""

    levels: int | None = None
    """Different values, where they were counted."""

    def joined(self, other: ColumnFacts) -> ColumnFacts:
        """Those of this part and the one after it; levels are counted otherwise."""
        steps = {step for step in (self.step, other.first - self.last, other.step) if step is not None}
        return ColumnFacts(
            self.rows + other.rows,
            self.missing + other.missing,
            float(np.fmin(self.low, other.low)),
            float(np.fmax(self.high, other.high)),
            self.whole and other.whole,
            self.even and other.even and len(steps) == 1,
            self.first,
            other.last,
            min(steps, default=None),
            joined_spans(self.times, other.times),
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> ColumnFacts:
        """Facts from plain data, as `to_dict` gives them."""
        times = found["times"]
        read = None if times is None else {form: TimeSpan(**span) for form, span in times.items()}
        return cls(**{**found, "times": read})


def facts_of(cells: pa.Array, *, numeric: bool) -> ColumnFacts:
    """What some cells of a column, one at least, have in common."""
    if not numeric:
        return ColumnFacts(len(cells), cells.null_count, times=spans(cells))
    values = np.asarray(as_doubles(cells).to_numpy(zero_copy_only=False), dtype=np.float64)
    there = values[~np.isnan(values)]
    steps = np.diff(values)
    return ColumnFacts(
        values.size,
        values.size - there.size,
        float(there.min(initial=np.inf)) if there.size else np.nan,
        float(there.max(initial=-np.inf)) if there.size else np.nan,
        bool((there == np.round(there)).all()),
        bool((steps == steps[:1]).all()),
        float(values[0]),
        float(values[-1]),
        float(steps[0]) if steps.size else None,
        spans_of_numbers(there),
    )


def plain_cells(cells: pa.Array) -> pa.Array:
    """Cells of a dictionary as what they stand for: the same value has other numbers in other parts of a file."""
    return cells.dictionary_decode() if pa.types.is_dictionary(cells.type) else cells


class SurveyedFrame(NarwhalsFrame):
    """The first rows of a table that is elsewhere, with the facts of all rows of those columns that need them.

    Args:
        head: the first rows.
        spread: cells from all over the table, of the columns that have facts.
        facts: by column; of others the first rows tell enough.
        numeric: the columns of numbers.
        hiding: those of the others that have numbers in them by their type.
    """

    def __init__(
        self,
        head: pl.DataFrame,
        spread: pl.DataFrame,
        facts: Mapping[str, ColumnFacts],
        numeric: Collection[str],
        hiding: Collection[str] = (),
    ) -> None:
        super().__init__(nw.from_native(head, eager_only=True))
        self.source, self.facts, self.numeric, self.hiding = head, facts, numeric, hiding
        self.count = max((found.rows for found in facts.values()), default=head.height)
        self.spread = open_frame(spread)

    def rows_all_over(self, times: Collection[str]) -> Frame:
        """Cells from all over the table, where some columns of dates and times count as numbers."""
        rows = open_frame(self.spread.source)
        rows.times = {name: found for name in times if (found := self.time_column(name, rows)) is not None}
        return rows

    def is_numeric(self, name: str) -> bool:
        return name in self.numeric or (name in self.facts and self._is_blank(name))

    def _is_blank(self, name: str) -> bool:
        return self.schema[name] == nw.Unknown and self.missing(name) == self.count

    def hides_numbers(self, name: str) -> bool:
        return not self.is_numeric(name) and (name in self.hiding or super().hides_numbers(name))

    def looks_numeric(self, name: str) -> bool:
        return name in self.facts and not self.is_numeric(name) and self.spread.looks_numeric(name)

    def time_column(self, name: str, rows: Frame | None = None) -> TimeColumn | None:
        found = self.facts.get(name)
        if found is None or not found.times:
            return None
        text, span = next(iter(found.times.items()))
        least = NUMBER_FORMATS[text][-1] if text in NUMBER_FORMATS else FEWEST
        if text and self.levels(name) < least:
            return None
        shown = self if rows is None else rows
        return span.form(text).column(as_series(nw.from_native(shown.source, eager_only=True)[name]))

    def missing(self, name: str) -> int:
        return self.facts[name].missing if name in self.facts else super().missing(name)

    def levels(self, name: str) -> int:
        found = self.facts.get(name)
        if found is None:
            return super().levels(name)
        uncounted = 1 if found.low == found.high else found.rows - found.missing  # what the first rows made unlikely
        return uncounted if found.levels is None else found.levels

    def is_unique(self, name: str) -> bool:
        return self.levels(name) == self.count

    def extent(self, name: str) -> tuple[int, float, float]:
        found = self.facts.get(name)
        return super().extent(name) if found is None else (found.rows - found.missing, found.low, found.high)

    def is_whole(self, name: str) -> bool:
        return self.facts[name].whole if name in self.facts else super().is_whole(name)

    def rises_evenly(self, name: str) -> bool:
        return self.facts[name].even if name in self.facts else super().rises_evenly(name)

    def numbers(self, name: str) -> Array:
        """The first rows."""
        return np.full(len(self.native), np.nan) if name not in self.numeric else super().numbers(name)

    def words(self, name: str, rows: Index) -> list[str]:
        """Cells of the first rows."""
        return super().words(name, rows[rows < len(self.native)])
