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
    for old, new in zip(original.columns, released.columns, strict=True):
        true, told = (np.sort(column[~np.isnan(column)]) for column in (old, new))
        for found, asked in (_given_away(true[::-1], told[::-1]), _given_away(-true, -told)):
            hits, tries = hits + found, tries + asked
    note = "" if tries else "every extreme value is shared by several records"
    return share_of(hits, tries, chance=None, note=note)


def _given_away(true: Array, told: Array) -> tuple[int, int]:
    """How many of the first few values are told within the tolerance, and how many were there to be told.

    Both come in descending order. A column shorter than two handfuls has no more than half of its values at each end.
    """
    count = min(AT_EACH_END, true.size // 2)
    own = np.array([np.count_nonzero(true == value) == 1 for value in true[:count]], dtype=bool)
    guesses = told[:count]
    near = np.zeros(count, dtype=bool)
    near[: guesses.size] = np.abs(guesses - true[: guesses.size]) <= WITHIN * np.abs(true[: guesses.size])
    return int((near & own).sum()), int(own.sum())
