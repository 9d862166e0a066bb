"""What a table must have, and its values must be, before anything is done with them."""

from __future__ import annotations

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError

SMALLEST_TABLE = 3
"""Two records can only keep or exchange their values, which hides nothing."""

LARGEST, SMALLEST = 1e150, 1e-150
"""Values beyond have squares that a double cannot hold."""


def check_values(role: str, name: str, values: Array, low: float, high: float) -> None:
    """Infinite or unsquarable cells, by the name of the column and their count; `low` and `high` are the extremes."""
    if np.isnan(low):
        raise DataError(f"{role}: column '{name}' has no values", f"leave it out of {role}, or drop it")
    if np.isinf(low) or np.isinf(high):
        count = int(np.count_nonzero(np.isinf(values)))
        cells = "1 infinite cell" if count == 1 else f"{count} infinite cells"
        raise DataError(f"{role}: column '{name}' has {cells}", "make them missing or leave the column out")
    check_unit(role, name, low, high)


def can_be_squared(low: float, high: float) -> bool:
    """Are the squares of the values between these extremes, and of their differences, numbers too?"""
    return max(abs(low), abs(high)) <= LARGEST and not 0 < high - low < SMALLEST


def check_unit(role: str, name: str, low: float, high: float) -> None:
    """Refuse values between these extremes if they cannot be squared."""
    if not can_be_squared(low, high):
        raise DataError(
            f"{role}: column '{name}' is too large or too small in its unit to be squared", "give it in another unit"
        )
