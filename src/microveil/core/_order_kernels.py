"""Compiled loops that shuffle a column or put it in order. Importing this module compiles or loads them, and numba.

The signatures are spelled out, so that compilation happens at import and is cached on disk, never in the
middle of the work. Inputs are declared read-only because columns that come from Arrow are.
Indices are unsigned: numba then leaves out the test for negative ones.
numpy compares values to sort them; with a million of them, counting their leading bits is three times as fast (a radix
sort).
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
_order = types.int64[::1]

PASSES, DIGIT = 4, 11
"""Passes over the values, and bits that each of them counts."""

MOST_MOVES = 4
"""Values alike in all counted bits change places one by one, so often on average at most."""


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


@compiled(types.boolean(_readonly_values, types.uint64, _order))
def stable_order(values: NDArray[np.float64], low: int, order: NDArray[np.int64]) -> bool:
    """Fill `order` with the rows from the lowest value to the highest, equal ones as they come, missing ones last.

    False if it gave up, as too many values are alike in their leading bits.
    A word has the leading bits of a value, such that words compare as values do, and then the number of its row in the
    `low` last bits, at least 20. Words change places with the room of `order`, back to their own after an even number
    of passes.
    """
    count, bits = len(values), values.view(np.uint64)
    sign, rows = np.uint64(1) << np.uint64(63), (np.uint64(1) << low) - np.uint64(1)
    words, turned = np.empty(count, np.uint64), order.view(np.uint64)
    sizes = np.zeros((PASSES, 1 << DIGIT), np.int64)
    mask = np.uint64((1 << DIGIT) - 1)
    for row in range(count):
        word = bits[row]
        if values[row] == 0.0:
            word = np.uint64(0)  # -0.0 is no less than 0.0
        word = ~word if word & sign else word | sign
        if np.isnan(values[row]):
            word = ~np.uint64(0)
        words[row] = (word & ~rows) | np.uint64(row)
        for at in range(PASSES):
            sizes[at, (word >> (low + np.uint64(at * DIGIT))) & mask] += 1
    for at in range(PASSES):
        place = np.int64(0)
        for digit in range(1 << DIGIT):
            size = sizes[at, digit]
            sizes[at, digit] = place
            place += size
        shift = low + np.uint64(at * DIGIT)
        for row in range(count):
            word = words[row]
            digit = (word >> shift) & mask
            turned[sizes[at, digit]] = word
            sizes[at, digit] += 1
        words, turned = turned, words
    for row in range(count):
        order[row] = np.int64(words[row] & rows)
    moves = 0
    for at in range(1, count):
        if (words[at] ^ words[at - 1]) & ~rows:
            continue
        row, back = order[at], at  # alike in all counted bits: neighbours now, and mostly few
        while back > 0 and values[order[back - 1]] > values[row]:
            order[back] = order[back - 1]
            back -= 1
        order[back] = row
        moves += at - back
        if moves > MOST_MOVES * count:
            return False
    return True


@compiled(types.void(_readonly_values, types.Array(types.int64, 1, "C", readonly=True), types.float64[::1]))
def shared_ranks(values: NDArray[np.float64], order: NDArray[np.int64], ranks: NDArray[np.float64]) -> None:
    """Fill `ranks` with those of the values, from 1, whose `order` is known; equal values share the mean of theirs."""
    count, start = len(values), 0
    while start < count:
        value, stop = values[order[start]], start + 1
        while stop < count and values[order[stop]] == value:
            stop += 1
        for at in range(start, stop):
            ranks[order[at]] = 0.5 * (start + 1 + stop)
        start = stop


@compiled(types.float64(_readonly_values, _readonly_values, types.int64, types.int64, types.int64, types.int64))
def farthest_apart(
    old: NDArray[np.float64], new: NDArray[np.float64], passed: int, released: int, size: int, new_size: int
) -> float:
    """The largest difference between two distribution functions, at the next values in ascending order of both columns.

    `passed` and `released` values of the `size` and `new_size` came before.
    """
    here, there, worst = 0, 0, 0.0
    while here < old.size or there < new.size:
        value = old[here] if there == new.size or (here < old.size and old[here] < new[there]) else new[there]
        while here < old.size and old[here] == value:
            here += 1
        while there < new.size and new[there] == value:
            there += 1
        worst = max(worst, abs((passed + here) / size - (released + there) / new_size))
    return worst
