"""The kinds of array that are passed around everywhere, how many rows are looked at first, and the memory of arrays."""

import ctypes
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Index = NDArray[np.intp]
"""Numbers of rows, of groups or of levels."""

FIRST_ROWS = 1_000
"""Rows that settle for most columns what all rows would: of which type they are, whether they vary."""

try:
    _trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
except (AttributeError, OSError, TypeError):  # not the C library of GNU

    def _trim(pad: int) -> int:
        return pad


def give_memory_back() -> None:
    """Give the system what arrays have left free: else they hold it beside what larger ones ask the system for."""
    _trim(0)
