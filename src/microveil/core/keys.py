"""Counting keys: how many records share a combination of labels, in the sample and, by weights, in the population.

Labels are codes, records x columns, from 0 on; -1 is a missing cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Index, Mask

Codes = NDArray[np.int64]
"""Labels by number, -1 where a cell is missing: records x columns, or the records of one column."""

Missing = Literal["matches", "level"]
"""What a missing cell is equal to: to every label, as in sdcMicro, or to missing cells only, a level of its own."""

MISSING = -1

ROOM = 2**62
"""Combinations that whole numbers can count."""


@dataclass(frozen=True, repr=False)
class KeyCounts:
    """For each record, the records that have its key: in the sample (itself among them) and in the population.

    The population is the sum of the survey weights; without weights, the sample.
    """

    sample: NDArray[np.int64]
    population: Array


def numbered(codes: Codes) -> NDArray[np.int64]:
    """A number for each record, the same for records with the same codes; missing cells are a level of their own."""
    numbers = np.zeros(len(codes), dtype=np.int64)
    size = 1
    for column in codes.T:
        width = int(column.max(initial=0)) + 2
        if size > ROOM // width:
            numbers = np.unique(numbers, return_inverse=True)[1].ravel()
            size = int(numbers.max(initial=0)) + 1
        numbers = numbers * width + (column + 1)
        size *= width
    return numbers


def grouped(codes: Codes) -> tuple[Index, Index]:
    """The first record with each key, and for each record the number of its key among these."""
    _, first, inverse = np.unique(numbered(codes), return_index=True, return_inverse=True)
    return first, inverse.ravel()


def key_counts(codes: Codes, weights: Array | None = None, missing: Missing = "matches") -> KeyCounts:
    """How many records share the key of each record.

    Args:
        codes: records x columns, -1 where a cell is missing.
        weights: survey weights of the records, if any.
        missing: what a missing cell is equal to.
    """
    first, group = grouped(codes)
    sizes = np.bincount(group, minlength=first.size).astype(np.float64)
    totals = sizes if weights is None else np.bincount(group, weights, first.size)
    sums: Array = np.stack([sizes, totals])
    keys = codes[first]
    holes = keys < 0
    if missing == "matches" and holes.any():
        sums = _with_matches(keys, holes, sums)
    return KeyCounts(np.rint(sums[0]).astype(np.int64)[group], sums[1][group])


def _with_matches(keys: Codes, holes: Mask, sums: Array) -> Array:
    """Sums over all keys that each key matches, where missing cells match everything.

    Keys with the same pattern of missing cells are compared with those of every other pattern in the columns that both
    have, all at once: as many comparisons as there are pairs of patterns, and not of keys.
    """
    first, pattern = grouped(holes.astype(np.int64))
    rows = [np.flatnonzero(pattern == number) for number in range(first.size)]
    out = np.zeros_like(sums)
    for number, own in enumerate(rows):
        seen: dict[bytes, list[Index]] = {}  # keys of other patterns by the columns that can be compared
        for other in range(first.size):
            both = ~(holes[first[number]] | holes[first[other]])
            seen.setdefault(both.tobytes(), []).append(rows[other])
        for columns, parts in seen.items():
            others, both = np.concatenate(parts), np.frombuffer(columns, dtype=bool)
            numbers = numbered(np.concatenate([keys[own], keys[others]])[:, both])
            labels, place = np.unique(numbers, return_inverse=True)
            place = place.ravel()
            mine, theirs = place[: own.size], place[own.size :]
            for total, added in zip(out, sums, strict=True):
                total[own] += np.bincount(theirs, added[others], labels.size)[mine]
    return out
