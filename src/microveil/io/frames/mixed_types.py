"""Columns whose cells have types of their own, as in Excel and SQLite: what the methods see, and the way back."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from microveil.core.late import pl
from microveil.io.files.formats import MISSING, same_cells
from microveil.io.frames.times import read_texts

LARGEST = 2**63
"""Whole numbers from here on have no type of their own."""

DAY_0, SERIALS = dt.datetime(1899, 12, 30), (367, 80_000)
"""The day from which spreadsheets count, and the numbers that are taken for days: of 1901 to 2119."""


@dataclass(frozen=True, repr=False)
class MixedColumn:
    """A column as the methods see it, and its cells where that does not say all; None where it does."""

    seen: pl.Series
    cells: list[Any] | None

    @classmethod
    def read(cls, name: str, cells: list[Any]) -> MixedColumn:
        """Cells of one kind in the type for it; words for missing are missing among numbers; the rest is text."""
        missing = [cell is None or (isinstance(cell, str) and cell.strip() in MISSING) for cell in cells]
        kinds = {type(cell) for cell, hole in zip(cells, missing, strict=True) if not hole}
        words = any(cell is not None for cell, hole in zip(cells, missing, strict=True) if hole)
        if kinds == {int} and any(abs(cell) >= LARGEST for cell in cells if isinstance(cell, int)):
            kinds = {int, float}
        for allowed, dtype in (
            ({int}, pl.Int64),
            ({int, float}, pl.Float64),
            ({bool}, pl.Boolean),
            ({dt.datetime}, pl.Datetime("us")),
            ({dt.date}, pl.Date),
            ({dt.time}, pl.Time),
            ({dt.timedelta}, pl.Duration("us")),
            ({bytes}, pl.Binary),
        ):
            if kinds <= allowed:
                known = [None if hole else cell for cell, hole in zip(cells, missing, strict=True)]
                return cls(pl.Series(name, known, dtype, strict=False), None if len(kinds) < 2 and not words else cells)
        text = [None if cell is None else str(cell) for cell in cells]
        return cls(pl.Series(name, text, pl.String), None if kinds <= {str} else cells)

    @classmethod
    def of_numbers(cls, name: str, numbers: list[Any], cells: list[Any]) -> MixedColumn:
        """Numbers, and the cells they were in: some of them texts."""
        whole = all(number is None or isinstance(number, int) for number in numbers)
        return cls(pl.Series(name, numbers, pl.Int64 if whole else pl.Float64, strict=False), cells)

    def back(self, column: pl.Series) -> list[Any]:
        """The cells to write: as they were if nothing has changed; missing ones as they were in any case."""
        if self.cells is None:
            return to_cells(column)
        if same_cells(column, self.seen):
            return self.cells
        cells = to_cells(column)
        if len(cells) != len(self.cells):
            return cells
        pairs = zip(cells, self.cells, strict=True)
        return [old if new is None and isinstance(old, str) else new for new, old in pairs]


def as_dates(cells: list[Any]) -> list[Any] | None:
    """Cells that are mostly dates, all of them as dates: texts of one writing, and days as spreadsheets number them.

    None where there is nothing to do, or where it cannot be done.
    """
    known = [cell for cell in cells if cell is not None and not (isinstance(cell, str) and cell.strip() in MISSING)]
    dates = sum(isinstance(cell, dt.datetime) for cell in known)
    others = [cell for cell in known if not isinstance(cell, dt.datetime)]
    if not others or 2 * dates < len(known):
        return None
    if not all(isinstance(c, str) or (type(c) in (int, float) and SERIALS[0] <= c <= SERIALS[1]) for c in others):
        return None
    texts = dict.fromkeys(cell.strip() for cell in others if isinstance(cell, str))
    read = read_texts(pl.Series(list(texts), dtype=pl.String)) if texts else []
    if read is None:
        return None
    known_texts = dict(zip(texts, read, strict=True))

    def date(cell: Any) -> Any:
        if isinstance(cell, str):
            return known_texts.get(cell.strip(), cell)
        return DAY_0 + dt.timedelta(days=cell) if isinstance(cell, int | float) else cell

    return [date(cell) for cell in cells]


def to_cells(column: pl.Series) -> list[Any]:
    """A column of any type as cells that Excel and SQLite know: whole numbers, fractions, text, dates."""
    if column.dtype.is_float():
        column = column.fill_nan(None)
    elif column.dtype.is_decimal():
        column = column.cast(pl.Float64)
    elif isinstance(column.dtype, pl.Enum | pl.Categorical):
        column = column.cast(pl.String)
    return column.to_list()
