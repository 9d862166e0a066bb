"""Heaping: values at round numbers more often than the others let expect, as people round what they tell."""

from __future__ import annotations

import numpy as np

from microveil.core.arrays import Array

BASES = (5, 10, 50, 100, 500, 1_000, 10_000, 100_000, 1_000_000)
"""Round numbers, in steps of the column."""

TIMES = 1.5
"""How many times as often as expected makes a heap."""

LEAST = 0.05
"""Share of the values from which on there is a heap to speak of."""

SURE = 5
"""Standard errors by which a share must be above what is expected."""

WIDE = 4
"""Multiples of a round number that the middle of the column must span for its share to tell anything."""


def heaping(values: Array, step: float | None) -> dict[int, float]:
    """The share of the values other than zero that are multiples of a round number, for those at which there is a heap.

    Without heaping, one in `base / step` values is a multiple of a base. Of a base that is the multiple of another
    only what goes beyond the other is a heap of its own: nobody rounds to 50 where all that are round are round to 5.
    """
    present = values[~np.isnan(values) & (values != 0)]
    if step is None or step > 1 or present.size == 0:
        return {}
    low, high = np.quantile(present, [0.05, 0.95])
    found: dict[int, float] = {}
    finer, share_finer = step, 1.0
    for base in BASES:
        if high - low < WIDE * base:
            break
        share = float(np.mean(present == base * np.round(present / base)))
        expected = share_finer * min(1.0, finer / base)
        if share > max(LEAST, TIMES * expected) and share - expected > SURE * np.sqrt(expected / present.size):
            found[base], finer, share_finer = share, base, share
    return found
