"""Where the table is among the rows of a sheet or a text file: below titles, between empty columns, above a total."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from microveil.core.errors import ParameterError
from microveil.core.late import pl
from microveil.io.files.formats import MISSING, ReadOptions, looks_like_record

Rows = TypeVar("Rows", bound=Any)
Typed = TypeVar("Typed", bound=tuple[Any, ...])

LOOKED_AT: Final = 60
"""Rows among which the names of the columns are looked for."""

FEWEST_SUMMED: Final = 3
"""Records of which a last row can be the total."""

NEARLY, EXACTLY = 1e-3, 1e-9
"""How far a total may be off, as a share of what it sums: totals are often of numbers that were rounded afterwards."""

_TOTAL: Final = re.compile(
    r"total[set]?|totaal|sums?|summ?[ae]|soma|somme|(ins)?gesamt(summe)?|zusammen|overall|ensemble|razem"
)


def is_filled(cell: Any) -> bool:
    """Whether there is something in a cell that can be seen."""
    return cell is not None and not (isinstance(cell, str) and not cell.strip())


def check_given(read_options: ReadOptions) -> None:
    """Refuse rows that are none, or that are given twice."""
    row, skipped = read_options.header_row, read_options.skip_rows
    if row is not None and row < 1:
        raise ParameterError("--header-row: rows are counted from 1", "name the row with the names of the columns")
    if skipped is not None and skipped < 0:
        raise ParameterError("--skip-rows: cannot be below 0", "say how many rows at the top are to be left out")
    if row is not None and skipped is not None:
        raise ParameterError("--skip-rows: --header-row says where the table begins", "give one of them")


def find_header(rows: Sequence[Sequence[Any]]) -> int:
    """The place of the first row that has a name for every column with cells below it.

    What stands above it must look like titles: a few cells, the first not to the right of the table; and what it has
    must look like names. Where there is no such row, the first one that is not empty is meant.
    """
    filled = [{place for place, cell in enumerate(row) if is_filled(cell)} for row in rows]
    first = next((place for place, cells in enumerate(filled) if cells), 0)
    below: set[int] = set()
    covering = []
    for place in range(len(rows) - 1, first - 1, -1):
        if filled[place] and filled[place] >= below:
            covering.append(place)
        below |= filled[place]
    if first in covering:
        return first
    place = covering[-1] if covering else first
    titles = [cells for cells in filled[first:place] if cells]
    fits = all(2 * len(cells) <= len(filled[place]) and min(cells) <= min(filled[place]) for cells in titles)
    return place if titles and fits and _has_names(rows, place, apart=not filled[place - 1]) else first


def _has_names(rows: Sequence[Sequence[Any]], place: int, *, apart: bool) -> bool:
    """Whether a row is one of names, not a record: different texts, `apart` from what is above, or above numbers."""
    cells = [cell for cell in rows[place] if is_filled(cell)]
    names = [str(cell).strip() for cell in cells]
    years = [name for name in names if name.isdecimal()]
    if len(set(names)) < len(names) or looks_like_record(names) or place == len(rows) - 1:
        return False
    if years and not (len(years) > 1 and all(1900 <= int(year) <= 2100 for year in years)):
        return False
    if not all(isinstance(cell, str | int) and not isinstance(cell, bool) for cell in cells):
        return False
    return apart or any(_is_number(cell) for row in rows[place + 1 :] for cell in row)


def _is_number(cell: Any) -> bool:
    """Whether a cell is a number, or a text of one."""
    if isinstance(cell, str):
        return looks_like_record([cell.strip().replace(",", "."), "x"]) or cell.strip().isdecimal()
    return is_filled(cell)


def notes_below(rows: Sequence[Sequence[Any]], width: int, first_blank: int | None) -> int:
    """How many of the last rows are notes: a single text each, below a row that is empty, in a table of 3 columns.

    `first_blank` is the number of records above the last empty row.
    """
    if first_blank is None or width < 3 or not 0 < first_blank < len(rows):
        return 0
    below = rows[first_blank:]
    lone = all([isinstance(cell, str) for cell in row if is_filled(cell)] == [True] for row in below)
    return len(below) if lone else 0


def is_called_total(last: Sequence[Any]) -> bool:
    """Whether a cell of a row says that it is a total."""
    words = [cell.strip().rstrip(":").lower().split() for cell in last if isinstance(cell, str)]
    return any(0 < len(cell) < 4 and any(map(_TOTAL.fullmatch, (cell[0], cell[-1]))) for cell in words)


def is_total(last: Sequence[Any], above: pl.DataFrame, whole: pl.DataFrame) -> bool:
    """Whether the `last` row has the sums of the records `above`; `whole` is the table with that row.

    One that is called a total has the sums of at least half of its numbers. One that has no name must have nothing but
    sums, and be the only row that is empty in a column.
    """
    if above.height < FEWEST_SUMMED:
        return False
    called = is_called_total(last)
    summed = gaps = others = 0
    beyond = False
    for name, cell in zip(above.columns, last, strict=True):
        column = above[name]
        blank = not is_filled(cell) or (isinstance(cell, str) and cell.strip() in MISSING)
        if blank:
            gaps += column.null_count() == 0
            continue
        if not (column.dtype.is_numeric() and whole[name].dtype.is_numeric()):
            others += not is_called_total([cell])
            continue
        values, total = column.cast(pl.Float64), float(whole[name][-1])
        size = float(values.abs().sum())
        right = abs(float(values.sum()) - total) <= (NEARLY if called else EXACTLY) * size
        summed, others = summed + right, others + (not right)
        largest = values.abs().max()
        beyond |= right and isinstance(largest, float) and abs(total) > largest * (1 + NEARLY)
    return bool(beyond and (summed >= others if called else gaps and not others))


def without_total(last: Sequence[Any], rows: Rows, typed: Callable[[Rows], Typed]) -> tuple[Typed, list[str]]:
    """The table without a last row that is the total of the others, and findings about that row.

    Args:
        last: the cells of the last row.
        rows: all rows of the table as they were read; they can be cut.
        typed: makes a table of rows in which columns have types, which is its first part.
    """
    whole = typed(rows)
    frame, called = whole[0], is_called_total(last)
    if frame.height <= FEWEST_SUMMED or not (called or 0 < sum(map(is_filled, last)) < len(last)):
        return whole, []
    if not called and not is_total(last, frame.head(-1), frame):
        return whole, []
    above = typed(rows[:-1])
    if is_total(last, above[0], frame):
        return above, [TOTAL_LEFT_OUT]
    return whole, [TOTAL_STAYS] if called else []


def said_of_rows(header: int, empty_rows: int, empty_columns: int, notes: int = 0) -> list[str]:
    """Sentences on rows and columns that are not of the table.

    `header` is the place of the names; `empty_rows`, `empty_columns` and `notes` below the table are counts.
    """
    said = [f"the names of the columns are in row {header + 1}: what stands above is left out"] if header else []
    parts = {"empty column": empty_columns, "empty row": empty_rows, "row of notes below the table": notes}
    plural = {"empty column": "empty columns", "empty row": "empty rows"}
    for what, count in parts.items():
        if count:
            many = plural.get(what, "rows of notes below the table")
            said.append(f"{count} {many} are left out" if count > 1 else f"1 {what} is left out")
    return said


TOTAL_LEFT_OUT: Final = "the last row is the total of the others, and is left out"
TOTAL_STAYS: Final = "the last row is called a total, but is not the sum of the others: it stays, as a record"
