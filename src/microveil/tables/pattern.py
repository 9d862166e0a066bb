"""A suppression that was decided elsewhere, by hand or by other software: to be filled and audited like our own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from microveil.core.arrays import Mask
from microveil.core.errors import DataError, ParameterError, did_you_mean
from microveil.io.frames.dataframes import open_frame
from microveil.tables.fill import Cell, rows_of
from microveil.tables.suppress import Suppressed
from microveil.tables.table import Table

GIVEN = "given"
TRUE = frozenset({"true", "yes", "t", "1", "1.0"})
FALSE = frozenset({"false", "no", "f", "0", "0.0", ""})


def as_suppressed(table: Table, cells: Iterable[Cell], primary: Iterable[Cell] = ()) -> Suppressed:
    """A table of which these cells are hidden, the `primary` ones among them for their own sake."""
    first, hidden = np.zeros(table.count, dtype=bool), np.zeros(table.count, dtype=bool)
    first[rows_of(table, primary)] = True
    hidden[rows_of(table, cells)] = True
    return _given(table, first, hidden | first)


def from_frame(table: Table, frame: Any) -> Suppressed:
    """A table hidden as a frame of its cells says: the dimensions, `suppressed` and, if it is there, `primary`.

    Cells that the frame does not have are published.
    """
    source = open_frame(frame)
    for name in (*table.dimensions, "suppressed"):
        if name not in source.names:
            raise ParameterError(f"pattern: no column '{name}'", did_you_mean(name, source.names))
    place = table.rows_of(source)
    marks = {}
    for name in ("suppressed", "primary"):
        marks[name] = np.zeros(table.count, dtype=bool)
        if name in source.names:
            marks[name][place] = _booleans(source, name)
    return _given(table, marks["primary"], marks["suppressed"] | marks["primary"])


def _booleans(source: Any, name: str) -> Mask:
    texts = [word.strip().lower() for word in source.words(name, np.arange(source.count))]
    if not set(texts) <= TRUE | FALSE:
        raise DataError(f"pattern: column '{name}' holds neither true nor false in every row", "write true or false")
    return np.array([text in TRUE for text in texts])


def _given(table: Table, primary: Mask, hidden: Mask) -> Suppressed:
    reasons = np.full(table.count, "", dtype=object)
    reasons[hidden] = "secondary"
    reasons[primary] = GIVEN
    return Suppressed(table, primary, hidden, reasons)
