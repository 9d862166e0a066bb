"""The one place that text passes on its way into CSV and Excel files, which spreadsheet programs open.

A cell that begins with `=`, `+`, `-`, `@`, a tab or a carriage return is a formula to these programs: an
answer to a survey could run on the machine of anybody who opens the release. An apostrophe in front makes it text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from microveil.core.late import pl

T = TypeVar("T")

MARK: Final = "'"
# The wide forms of the signs are the same to some versions of these programs.
_FORMULA: Final = "^[=+\\-@\\t\\r＝＋－＠]"  # noqa: RUF001 - meant
# What has neither letters nor signs of functions cannot call anything: -5, +49 30 123, -1.5 %, and a lone dash.
_HARMLESS: Final = r"^[+-][0-9 .,'%()/+-]*(?:[eE][+-]?[0-9]+)?$"

SPREADSHEETS: Final = (".csv", ".tsv", ".txt", ".xlsx", ".xlsm", ".xls", ".ods")
"""Files that spreadsheet programs open."""

_kept: ContextVar[bool] = ContextVar("formulas are kept", default=False)
_tally: ContextVar[list[int] | None] = ContextVar("formulas are counted", default=None)


@contextmanager
def _within(variable: ContextVar[Any], value: T) -> Iterator[T]:
    """Inside the block the variable has this value."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)


def formulas_kept() -> AbstractContextManager[bool]:
    """Inside the block text is written as it is."""
    return _within(_kept, True)


def formulas_counted() -> AbstractContextManager[list[int]]:
    """How many cells the columns that are written inside the block have that a spreadsheet would take for formulas."""
    return _within(_tally, [])


def text_cells(column: pl.Series) -> pl.Series:
    """A column of text as it is written: with an apostrophe before what a spreadsheet would take for a formula."""
    kept, tally = _kept.get(), _tally.get()
    if not _is_text(column) or (kept and tally is None):
        return column
    text = column.cast(pl.String)
    formulas = _formulas(text)
    if tally is not None:
        tally.append(int(formulas.sum()))
    if kept or not formulas.any():
        return column
    return (MARK + text).zip_with(formulas, text).alias(column.name)


def formula_cells(frame: pl.DataFrame) -> int:
    """How many cells of text a spreadsheet would take for formulas."""
    texts = (column.cast(pl.String) for column in frame.get_columns() if _is_text(column))
    return sum(int(_formulas(text).sum()) for text in texts)


def _is_text(column: pl.Series) -> bool:
    return column.dtype == pl.String or isinstance(column.dtype, pl.Categorical | pl.Enum)


def _formulas(text: pl.Series) -> pl.Series:
    return (text.str.contains(_FORMULA) & ~text.str.contains(_HARMLESS)).fill_null(False)


def about_formulas(count: int, columns: Sequence[str], *, kept: bool) -> list[str]:
    """Warnings of so many cells, and of names of columns, that a spreadsheet would run; `kept` if they stay."""
    names = [name for name in columns if name.startswith(("=", "+", "-", "@", "\t", "\r"))]
    said = [f"columns whose names a spreadsheet would take for formulas: {len(names)}; rename them"] if names else []
    if not count:
        return said
    cells = f"{count} cells of text begin as formulas do"
    done = "they are written as they are" if kept else "written with an apostrophe in front (--keep-formulas)"
    return [*said, f"{cells}, which spreadsheets would run; {done}"]
