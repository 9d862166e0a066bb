"""Special uniques: records that few of their labels set apart already (SUDA)."""

from __future__ import annotations

from itertools import combinations
from math import comb, factorial

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.keys import Codes, key_counts
from microveil.core.table import Matrix
from microveil.measures.base import Estimate, gauge
from microveil.measures.labels import LabelPair
from microveil.measures.risk.anonymity import keys_of

SAMPLED = 0.01
"""Share of the population that is in the sample, as sdcMicro takes it."""

MOST_SETS = 5_000
"""Sets of columns that are looked at: of many columns, the small ones, which weigh most."""


@gauge("largest probability of a match that few labels make to be right (DIS-SUDA)", cost="slow", needs="others")
def suda(original: Matrix, released: Matrix, *, labels: LabelPair) -> Estimate:  # noqa: ARG001 - of labels
    """An intruder knows a few labels of somebody: which records are unique on them already?

    Sets of labels that only one record has, and no part of which does (minimal sample uniques), count the more the
    smaller they are: a set of k out of m columns (m - k)!. The score is brought to a probability by the number of
    uniques and pairs (Elliot, Manning and Ford 2002; Manning, Haglin and Keane 2008; the scale as in sdcMicro, for a
    sample of 1 %). `records` have a score, `largest_score` is the largest.
    """
    codes = labels.released[:, keys_of(labels)]
    depth = _depth(codes.shape[1])
    scores = suda_scores(codes, depth)
    risks = dis_scores(scores, codes)
    note = "" if depth == codes.shape[1] else f"sets of at most {depth} columns"
    parts = {"records": float(np.count_nonzero(scores)), "largest_score": float(scores.max(initial=0.0))}
    return Estimate(float(risks.max(initial=0.0)), note=note, parts=parts)


def _depth(width: int) -> int:
    """Up to which size sets of columns are looked at."""
    sets = np.cumsum([comb(width, size) for size in range(1, width + 1)])
    return max(int(np.searchsorted(sets, MOST_SETS, side="right")), 1)


def suda_scores(codes: Codes, depth: int | None = None) -> Array:
    """The score of each record (codes are records x columns): the sum of (m - k)! over its minimal sample uniques.

    A missing cell is in no such set. Sets of more than `depth` columns are not looked at.
    """
    rows, width = codes.shape
    scores = np.zeros(rows)
    smaller: dict[tuple[int, ...], Mask] = {(): np.zeros(rows, dtype=bool)}
    for size in range(1, (depth or width) + 1):
        now: dict[tuple[int, ...], Mask] = {}
        for columns in combinations(range(width), size):
            part = codes[:, columns]
            unique = (key_counts(part, missing="level").sample == 1) & (part >= 0).all(axis=1)
            minimal = unique.copy()
            for at in range(size):
                minimal &= ~smaller[columns[:at] + columns[at + 1 :]]
            scores[minimal] += factorial(width - size)
            now[columns] = unique
        smaller = now
    return scores


def dis_scores(scores: Array, codes: Codes, sampled: float = SAMPLED) -> Array:
    """Scores as probabilities that a match on what makes a record unique is right.

    Args:
        scores: of the records.
        codes: records x columns.
        sampled: the share of the population that is in the sample.
    """
    sizes = key_counts(codes, missing="level").sample
    uniques, paired = float(np.count_nonzero(sizes == 1)), float(np.count_nonzero(sizes == 2))
    found = scores > 0
    if not found.any():
        return np.zeros_like(scores)
    right = uniques * sampled / (uniques * sampled + paired * (1 - sampled))
    power = np.power(scores[found], 1 + (8 - codes.shape[1]) / 20)
    risks = np.zeros_like(scores)
    risks[found] = 1 / (1 + (uniques / right - uniques) / (power * (1 / power).sum()))
    return risks
