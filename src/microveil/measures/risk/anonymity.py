"""Anonymity of labels: with how many others a record shares what an intruder may know, and what that tells of it.

The keys are the columns that `keys` names; by default all labels of the release, in clear or not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.core.keys import Codes, grouped, key_counts
from microveil.core.table import Matrix
from microveil.measures.base import Estimate, gauge
from microveil.measures.labels import LABEL_KINDS, LabelPair


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
    """An intruder finds the group that somebody is in: how much does that tell of a sensitive column?

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
        raise DataError("there is no key beside the sensitive labels", "name columns that an intruder knows in keys")
    first, group = grouped(labels.released[:, keys])
    for column in labels.sensitive:
        codes: Codes = labels.released[:, column]
        present, level = np.unique(codes, return_inverse=True)
        cells = np.bincount(group * present.size + level.ravel(), minlength=first.size * present.size)
        counts = cells.reshape(first.size, present.size).astype(np.float64)
        shares = counts / counts.sum(axis=1, keepdims=True)
        yield shares, counts.sum(axis=0) / len(codes), labels.kinds[column] == "ordered"
