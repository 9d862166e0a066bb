"""Compiled loops of the bucket shuffle. Importing this module imports numba and compiles or loads the loops.

The signatures are spelled out, so that compilation happens at import and is cached on disk, never in the
middle of the work. Inputs are declared read-only because columns that come from Arrow are.
Indices are unsigned: numba then leaves out the test for negative ones.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numpy.typing import NDArray

from microveil.core.compiled import compiled

_readonly_values = types.Array(types.float64, 1, "C", readonly=True)
_readonly_digits = types.Array(types.uint16, 1, "C", readonly=True)
_readonly_draws = types.Array(types.uint32, 1, "C", readonly=True)
_values = types.float64[::1]
_positions = types.uint64[::1]


@compiled(types.void(_readonly_digits, _positions))
def count(digits: NDArray[np.uint16], sizes: NDArray[np.uint64]) -> None:
    """Add the number of rows of each bucket to `sizes`."""
    for digit in digits:
        sizes[digit] += np.uint64(1)


@compiled(types.void(_readonly_values, _readonly_digits, _positions, _values))
def scatter(
    values: NDArray[np.float64], digits: NDArray[np.uint16], next_free: NDArray[np.uint64], out: NDArray[np.float64]
) -> None:
    """Append each value to its bucket in `out`, in row order; `next_free` moves along."""
    for row in range(len(values)):
        digit = digits[row]
        position = next_free[digit]
        out[position] = values[row]
        next_free[digit] = position + np.uint64(1)


@compiled(types.uint64(_values, _readonly_draws, types.uint64))
def fisher_yates(values: NDArray[np.float64], draws: NDArray[np.uint32], unplaced: int) -> int:
    """Fill the places below `unplaced` from the last to the first, one draw each; return how many are left.

    A draw becomes a choice among the values left by Lemire's multiplication (2019, Algorithm 5). Of the 2**32
    draws, some choices would get one more than others; that one is passed over, so all are equally likely.
    """
    bound = np.uint64(unplaced)
    for draw in draws:
        if bound < 2:
            break
        product = np.uint64(draw) * bound
        fraction = product & np.uint64(0xFFFF_FFFF)
        # The first comparison spares us the division, except once in 2**32 / bound draws.
        if fraction < bound and fraction < (np.uint64(0x1_0000_0000) - bound) % bound:
            continue
        chosen = product >> np.uint64(32)
        bound -= np.uint64(1)
        values[chosen], values[bound] = values[bound], values[chosen]
    return int(bound)
