"""What a table must have, and its values must be, before anything is done with them; and how large a file may be."""

from __future__ import annotations

import os
from typing import Final

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError, FileError
from microveil.core.table import Matrix
from microveil.storage.atomic import shown

SMALLEST_TABLE = 3
"""Two records can only keep or exchange their values, which hides nothing."""

LARGEST, SMALLEST = 1e150, 1e-150
"""Values beyond have squares that a double cannot hold."""

MAX_COLUMNS, MAX_CELLS = "MICROVEIL_MAX_COLUMNS", "MICROVEIL_MAX_CELLS"
"""Variables of the environment that raise the limits on what is read."""

USUAL_LIMITS: Final = {MAX_COLUMNS: 20_000, MAX_CELLS: 25_000_000}
"""Columns of any file, and cells of a sheet, which a program keeps one by one: 25 million take about 3 GB."""

CELLS_PER_BYTE: Final = 100
"""What no real table comes to when it is packed: a file with more cells for its size was made to fill the memory."""


def limit_of(variable: str) -> int:
    """A limit: the usual one, or what the environment says."""
    limit = os.environ.get(variable, "").strip()
    if not limit:
        return USUAL_LIMITS[variable]
    if not limit.isdecimal() or int(limit) < 1:
        raise FileError(f"{variable}: must be a whole number of at least 1", "or leave it out for the usual limit")
    return int(limit)


def check_shape(what: object, columns: int, cells: int = 0, *, size: int = 0) -> None:
    """Refuse, before they are read, more `columns` or `cells` of a file than the limits allow.

    `size` is that of a packed file in bytes: one with a byte for every hundred cells may have as many as it likes.
    """
    for count, variable, word in ((columns, MAX_COLUMNS, "columns"), (cells, MAX_CELLS, "cells")):
        most = limit_of(variable)
        if count > most and not (word == "cells" and cells <= size * CELLS_PER_BYTE):
            raise FileError(
                f"{shown(what)} has {'' if word == 'columns' else 'room for '}{count:,} {word}, and at most {most:,} "
                "are read",
                f"leave out what is not needed, or set the environment variable {variable} to raise the limit",
            )


def check_values(role: str, name: str, values: Matrix, column: int, low: float, high: float) -> None:
    """Refuse a `column` of `values` without any, or with cells that are infinite (counted) or cannot be squared.

    `role` and `name` are for the message, `low` and `high` its extremes.
    """
    if np.isnan(low):
        raise DataError(f"{role}: column '{name}' has no values", f"leave it out of {role}, or drop it")
    if np.isinf(low) or np.isinf(high):
        count = int(values.total(_count_infinite, [column])[0])
        cells = "1 infinite cell" if count == 1 else f"{count} infinite cells"
        raise DataError(f"{role}: column '{name}' has {cells}", "make them numbers or missing, or leave the column out")
    check_unit(role, name, low, high)


def _count_infinite(cells: Array, rows: slice) -> Array:  # noqa: ARG001 - every row map is given its rows
    return np.array([np.count_nonzero(np.isinf(cells))])


def can_be_squared(low: float, high: float) -> bool:
    """Are the squares of the values between these extremes, and of their differences, numbers too?"""
    return max(abs(low), abs(high)) <= LARGEST and not 0 < high - low < SMALLEST


def check_unit(role: str, name: str, low: float, high: float) -> None:
    """Refuse values of column `name` between the extremes `low` and `high` if they cannot be squared."""
    if not can_be_squared(low, high):
        raise DataError(
            f"{role}: column '{name}' is too large or too small in its unit to be squared", "give it in another unit"
        )
