"""Extremes: what a release tells about the largest and the smallest, whom everybody knows."""

from __future__ import annotations

import numpy as np

from microveil.core.arrays import Array
from microveil.core.measure import Reading
from microveil.core.table import Matrix
from microveil.risk.shares import attack, share_of

AT_EACH_END = 5
WITHIN = 0.05


@attack(
    "share of the five largest and five smallest values of each column that the release gives away within 5 % by their "
    "rank alone",
    cost="fast",
)
def extreme_disclosure(original: Matrix, released: Matrix) -> Reading:
    """Disclosure by rank.

    Everybody knows which firm is the largest, and who comes next. The intruder needs no linkage: the largest released
    value is taken for the largest firm's, the second largest for the second's, and so on at both ends of each column.
    It is a disclosure if that is within 5 % of the true value. A value that several records share does not belong to a
    known one and is not counted, nor are missing cells. A release that keeps the values of a column, in whatever order,
    scores 1. There is no chance level: what luck gives depends on the tails.
    """
    hits = tries = 0
    for j in range(original.shape[1]):
        true, told = original.in_order(j), released.in_order(j)
        count = min(AT_EACH_END, true.size // 2)  # of a short column, no more than half of its values are at an end
        largest = true[true.size - count - 1 : true.size][::-1], told[max(told.size - count, 0) : told.size][::-1]
        smallest = -true[: count + 1], -told[:count]
        for found, asked in (_given_away(*both) for both in (largest, smallest) if count):
            hits, tries = hits + found, tries + asked
    note = "" if tries else "every extreme value is shared by several records"
    return share_of(hits, tries, chance=None, note=note)


def _given_away(true: Array, told: Array) -> tuple[int, int]:
    """How many of the first few values are told within the tolerance, and how many were there to be told.

    Both come in descending order; of the true values there is one more, to see whether it equals the last.
    """
    apart = true[:-1] != true[1:]
    own = apart & np.concatenate([[True], apart[:-1]])
    near = np.zeros(own.size, dtype=bool)
    near[: told.size] = np.abs(told - true[: told.size]) <= WITHIN * np.abs(true[: told.size])
    return int((near & own).sum()), int(own.sum())
