"""Linkage on all columns of a file, whatever their kind, and what the columns in clear give away by themselves."""

from __future__ import annotations

from functools import partial

import numpy as np

from microveil.core.arrays import Array
from microveil.core.keys import grouped
from microveil.core.rng import Streams
from microveil.core.table import Matrix
from microveil.core.threads import in_threads, worker_count
from microveil.core.tolerances import LINKAGE_TIE
from microveil.measures.base import Estimate
from microveil.measures.labels import MISSING, LabelPair
from microveil.measures.risk.proportions import PAIRS, attack, paired_attack, sampled_rows, share_of


@attack(
    "share of records that no other record is equal to in the columns that are released as they are",
    needs="clear",
    default=True,
)
def clear_uniques(original: Matrix, released: Matrix, *, labels: LabelPair) -> Estimate:  # noqa: ARG001 - of any kind
    """Uniqueness on what is in clear.

    Columns that are kept, public, strata or weights, or that came out as they were, are true. An intruder who knows
    somebody's values in them needs no distance: a record that is alone with its values is that person's, with all
    else that the release says of it. The part "smallest group" is k of k-anonymity in these columns. Luck finds nobody.
    """
    sizes = np.bincount(grouped(labels.of_clear.released)[1])
    alone = float((sizes == 1).sum()) / sizes.sum()
    note = f"in clear: {', '.join(labels.of_clear.names)}"
    return Estimate(alone, chance=0.0, note=note, parts={"smallest group": float(sizes.min())})


@paired_attack(
    "share of records whose nearest released record is their own, for an intruder who knows all columns, labels too",
    needs="others",
)
def mixed_linkage(
    original: Matrix, released: Matrix, *, labels: LabelPair, seed: int | None = None, pairs: int = PAIRS
) -> Estimate:
    """Distance-based linkage on columns of all kinds (Gower 1971, with ranks as Podani 1999 has it).

    The intruder has a record with its labels, dates and numbers, and takes the released record that differs least: by
    the mean over the columns of 0 or 1 for a label that is the same or another, and of the difference of ranks, as a
    share of all, for numbers, dates and ordered labels. Missing is a label. Columns in clear the intruder trusts:
    records that differ in these come after all that do not, and the part "in clear" is what these alone give, by luck
    among equal records. Of k records at the same distance each counts 1/k. With more pairs of records than `pairs` a
    sample of the originals is tried.
    """
    from microveil.measures.nearest._mixed_kernels import linked

    hidden = labels if labels.sensitive is None else labels.select(labels.sensitive)
    count = len(labels.original)
    tried = sampled_rows(count, seed, pairs=pairs)
    columns = [
        *(_by_label(hidden, j) for j in range(len(hidden.names))),
        *(_by_rank(*both) for both in zip(original.columns, released.columns, strict=True)),
    ]
    # More than all others together: whoever differs in clear is somebody else. And first, as it settles most pairs.
    clear = np.zeros(len(columns), dtype=bool)
    clear[: len(hidden.names)] = hidden.in_clear
    first = np.argsort(~clear, kind="stable")
    weights = np.where(clear, len(columns) + 1.0, 1.0)[first]
    before, after = (np.column_stack([columns[j][side] for j in first]) for side in (0, 1))
    by_gap = np.array([columns[j][2] for j in first], dtype=np.uint8)
    order = Streams.from_seed(seed).stream("rivals").generator().permutation(count)
    parts = np.array_split(tried, min(worker_count(), tried.size))
    tasks = [partial(linked, before, after, by_gap, weights, part, order, LINKAGE_TIE) for part in parts]
    hits = float(np.concatenate(in_threads(tasks)).sum())
    alone = grouped(hidden.of_clear.released)[0].size / count
    hits = max(hits, alone * tried.size)  # an intruder may leave it at these
    note = f"by the columns in clear alone {alone:.4g}" if clear.any() else ""
    return share_of(hits, tried.size, chance=1 / count, of=count, note=note, parts={"in clear": alone})


def _by_rank(before: Array, after: Array) -> tuple[Array, Array, bool]:
    """A column of numbers by the place of each value among those of the original, from 0 to 1."""
    present = np.sort(before[~np.isnan(before)])
    sides = [(np.searchsorted(present, v, "left") + np.searchsorted(present, v, "right")) / 2 for v in (before, after)]
    old, new = (
        np.where(np.isnan(v), np.nan, side / max(present.size, 1))
        for v, side in zip((before, after), sides, strict=True)
    )
    return old, new, True


def _by_label(labels: LabelPair, j: int) -> tuple[Array, Array, bool]:
    """A column of labels by their numbers, or by their ranks, if they have an order."""
    old, new = (side[:, j].astype(np.float64) for side in (labels.original, labels.released))
    if labels.kinds[j] == "ordered" and not labels.in_clear[j]:
        return _by_rank(*(np.where(side == MISSING, np.nan, side) for side in (old, new)))
    return old, new, False
