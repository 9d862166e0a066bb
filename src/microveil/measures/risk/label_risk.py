"""Risk by labels: how many share what an intruder may know, what that gives away, whom few labels set apart.

The keys are the columns that `keys` names; by default all labels of the release, in clear or not. A key that is rare in
a sample may be common in the population, which the weights show.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations
from math import comb, factorial

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.errors import DataError
from microveil.core.keys import Codes, KeyCounts, grouped, key_counts
from microveil.core.table import Matrix
from microveil.measures.base import Estimate, gauge
from microveil.measures.labels import LABEL_KINDS, LabelPair

WHOLE = 1e-5
"""Share of the population of a key that is not in the sample, below which all of it is."""

SAMPLED = 0.01
"""Share of the population that is in the sample, as sdcMicro takes it."""

MOST_SETS = 5_000
"""Sets of columns that are looked at: of many columns, the small ones, which weigh most."""


def keys_of(labels: LabelPair) -> list[int]:
    """The columns that make the key: those that were named, or else all labels."""
    named = len(labels.keys) < len(labels.names)
    found = [j for j, kind in enumerate(labels.kinds) if (j in labels.keys if named else kind in LABEL_KINDS)]
    if not found:
        raise DataError("there are no labels, and no other column is named as a key", "name columns in keys")
    return found


@gauge("size of the smallest group of records with the same labels", better="high", range=(1, math.inf), needs="others")
def k_anonymity(original: Matrix, released: Matrix, *, labels: LabelPair) -> Estimate:  # noqa: ARG001 - of labels
    """An intruder knows the labels of somebody who is in the release: how many records can it be, at least?

    The keys of the released file are counted (Samarati and Sweeney 1998). A missing cell matches every label, as in
    sdcMicro; `level` among the parts is the figure where it is a level of its own, `below_3` the share of the records
    whose key fewer than three have. It says nothing of labels that were perturbed: their owners may be others.
    """
    codes = labels.released[:, keys_of(labels)]
    counts = key_counts(codes).sample
    level = key_counts(codes, missing="level").sample
    parts = {"level": float(level.min()), "below_3": float(np.mean(counts < 3))}
    return Estimate(float(counts.min()), parts=parts)


@gauge("share of the records that no other has the labels of", needs="others")
def sample_uniques(original: Matrix, released: Matrix, *, labels: LabelPair) -> Estimate:  # noqa: ARG001 - of labels
    """An intruder knows the labels of somebody who is in the release: how often do they point to one record?

    The share of the records of the released file whose key no other matches; a missing cell matches every label, and
    `level` is the share where it is a level of its own.
    """
    codes = labels.released[:, keys_of(labels)]
    unique = key_counts(codes).sample == 1
    parts = {"records": float(unique.sum()), "level": float(np.mean(key_counts(codes, missing="level").sample == 1))}
    return Estimate(float(unique.mean()), parts=parts)


@gauge("fewest sensitive labels that a group has", better="high", range=(1, math.inf), needs="others")
def l_diversity(original: Matrix, released: Matrix, *, labels: LabelPair) -> Estimate:  # noqa: ARG001 - of labels
    """An intruder finds the group that somebody is in: how many sensitive labels are left to guess from?

    The smallest number of different labels of a sensitive column among records with the same key, all else being the
    key (Machanavajjhala et al. 2007); a missing cell is a level of its own. `entropy` is the smallest exponential of
    the entropy, which counts rare labels less.
    """
    distinct, entropy = math.inf, math.inf
    for shares, _, _ in _shares_in_groups(labels):
        distinct = min(distinct, float((shares > 0).sum(axis=1).min()))
        logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
        entropy = min(entropy, float(np.exp(-(shares * logs).sum(axis=1)).min()))
    return Estimate(distinct, parts={"entropy": entropy})


@gauge("largest distance of the sensitive labels in a group from those of all", needs="others")
def t_closeness(original: Matrix, released: Matrix, *, labels: LabelPair) -> Estimate:  # noqa: ARG001 - of labels
    """An intruder finds the group that somebody is in: how much does that say of a sensitive column?

    The largest distance between the shares of its labels in a group with the same key and in the whole file (Li, Li and
    Venkatasubramanian 2007): total variation, and for ordered labels the work of moving the one to the other, in steps
    of the order. A missing cell is a level of its own.
    """
    largest = 0.0
    for shares, overall, ordered in _shares_in_groups(labels):
        apart = shares - overall
        steps = np.abs(np.cumsum(apart, axis=1)).sum(axis=1) / max(overall.size - 1, 1)
        largest = max(largest, float((steps if ordered else np.abs(apart).sum(axis=1) / 2).max()))
    return Estimate(largest)


def _shares_in_groups(labels: LabelPair) -> Iterator[tuple[Array, Array, bool]]:
    """For each sensitive column: shares of its levels (groups x levels), those in all, and whether it has an order."""
    if not labels.sensitive:
        raise DataError("no column of labels is sensitive", "name one in sensitive")
    keys = [j for j in keys_of(labels) if j not in labels.sensitive]
    if not keys:
        raise DataError("there is no key but the sensitive labels", "name columns that an intruder knows in keys")
    first, group = grouped(labels.released[:, keys])
    for column in labels.sensitive:
        codes: Codes = labels.released[:, column]
        present, level = np.unique(codes, return_inverse=True)
        cells = np.bincount(group * present.size + level.ravel(), minlength=first.size * present.size)
        counts = cells.reshape(first.size, present.size).astype(np.float64)
        shares = counts / counts.sum(axis=1, keepdims=True)
        yield shares, counts.sum(axis=0) / len(codes), labels.kinds[column] == "ordered"


@gauge("largest probability of a record to be found by its labels, by the weights", needs="others")
def individual_risk(original: Matrix, released: Matrix, *, labels: LabelPair) -> Estimate:  # noqa: ARG001 - of labels
    """An intruder finds a record with the labels of somebody in the population: how likely is it that person?

    The risk of Benedetti and Franconi (1998), as in sdcMicro: the mean of 1/F over what the frequency f of a key in the
    sample and the sum of its weights say of its frequency F in the population. Without weights the file is the
    population, and the risk is 1/f. `above_0.1` is the share of records with a larger one.
    """
    risk = individual_risks(_counts(labels))
    return Estimate(
        float(risk.max()), parts={"median": float(np.median(risk)), "above_0.1": float(np.mean(risk > 0.1))}
    )


@gauge("expected share of the records that are found by their labels, by the weights", needs="others")
def global_risk(original: Matrix, released: Matrix, *, labels: LabelPair) -> Estimate:  # noqa: ARG001 - of labels
    """An intruder tries to find all records of the release in the population: what share is right?

    The mean of the individual risks (sdcMicro's global risk); `records` is their sum, the number to be expected.
    """
    risk = individual_risks(_counts(labels))
    return Estimate(float(risk.mean()), parts={"records": float(risk.sum())})


def _counts(labels: LabelPair) -> KeyCounts:
    codes, weights = labels.released[:, keys_of(labels)], labels.weights
    if weights is not None and weights.size != len(codes):
        raise DataError("the weights are of other rows than the release", "give both files with the same rows")
    return key_counts(codes, weights)


def individual_risks(counts: KeyCounts) -> Array:
    """The risk of each record (Benedetti and Franconi 1998; Templ, Kowarik and Meindl 2015, §2.4).

    Exactly where one or two of the sample have its key, and to first order where more have.
    """
    f = counts.sample.astype(np.float64)
    share = np.minimum(f / counts.population, 1.0)
    out = np.maximum(1 - share, WHOLE)
    odds, logs = share / out, -np.log(share)
    risk = share / (f - (1 - share))
    partly = share < 1 - WHOLE
    risk = np.where((f == 1) & partly, odds * logs, risk)
    exact: Array = np.where((f == 2) & partly, odds - np.square(odds) * logs, risk)
    return exact


@gauge("largest probability of a match that few labels make to be right (DIS-SUDA)", cost="slow", needs="others")
def suda(original: Matrix, released: Matrix, *, labels: LabelPair) -> Estimate:  # noqa: ARG001 - of labels
    """An intruder knows a few labels of somebody: which records are unique on them already?

    Sets of labels that only one record has, and no part of which does (minimal sample uniques), count the more the
    smaller they are: a set of k out of m columns (m - k)!. The score is brought to a probability by the number of
    uniques and pairs (Elliot, Manning and Ford 2002; Manning, Haglin and Keane 2008; the scale as in sdcMicro, for a
    sample of 1 %). `records` have a score, `largest_score` is the largest.
    """
    codes = labels.released[:, keys_of(labels)]
    sets = np.cumsum([comb(codes.shape[1], size) for size in range(1, codes.shape[1] + 1)])
    depth = max(int(np.searchsorted(sets, MOST_SETS, side="right")), 1)
    scores = suda_scores(codes, depth)
    risks = dis_scores(scores, codes)
    note = "" if depth == codes.shape[1] else f"sets of at most {depth} columns"
    parts = {"records": float(np.count_nonzero(scores)), "largest_score": float(scores.max(initial=0.0))}
    return Estimate(float(risks.max(initial=0.0)), note=note, parts=parts)


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
