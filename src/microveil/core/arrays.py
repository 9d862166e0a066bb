"""The kinds of array that are passed around everywhere, and how many rows are looked at first."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Index = NDArray[np.intp]
"""Numbers of rows, of groups or of levels."""

FIRST_ROWS = 1_000
"""Rows that settle for most columns what all rows would: of which type they are, whether they vary."""
