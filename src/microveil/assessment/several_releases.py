"""The original and several releases of it: an intruder may have kept all of them.

Attacks that need no pairs search all released records at once; attacks on pairs go by the mean of a record's releases,
in which independent errors cancel out; and sums that were kept exactly tell, by their difference, the record that is in
one file and not in the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from microveil.assessment.pairing import Pair
from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.core.table import Matrix
from microveil.measures.base import scales

EXACT = 1e-6
"""Standard deviations within which the difference of two sums is a record of the original."""


def combined(pairs: Sequence[Pair]) -> Pair:
    """The original with all its releases: the first by itself, all records together, and the mean of each record."""
    first, original = pairs[0], pairs[0].original
    differing = [name for pair in pairs for name in sorted({*pair.names} ^ {*first.names})]
    if differing:
        raise DataError(
            f"column '{differing[0]}' is not compared as numbers in every release",
            "name columns that are with confidential",
        )
    releases = [pair.released for pair in pairs]
    disclosed = _differences(original, releases)
    by_column = list(zip(*(table.columns for table in releases), strict=True))
    union = Matrix([np.concatenate([*cells, disclosed[:, j]]) for j, cells in enumerate(by_column)])
    alike = all(pair.rows[1] == first.rows[0] and not pair.reordered for pair in pairs)
    notes = [f"{len(pairs)} releases: attacks have all of them, what a release is good for is that of the first"]
    notes += [f"shared by releases: {_shared(releases):.1%} of the values of the first stand in another one too"]
    if len(disclosed):
        notes.append(
            f"sums of two releases differ by a record of the original, which is given away: {len(disclosed)} of them"
        )
    if first.labels is not None:
        notes.append("labels and columns in clear are those of the first release")
    return replace(
        first,
        notes=[*notes, *first.notes],
        union=union,
        mean=Matrix([np.mean(cells, axis=0) for cells in by_column]) if alike else None,
        order_known=all(pair.order_known for pair in pairs),
    )


def _shared(releases: Sequence[Matrix]) -> float:
    """The share of values of the first release that stand in another one too."""
    hits = [
        np.isin(column[~np.isnan(column)], np.concatenate([other.columns[j] for other in releases[1:]]))
        for j, column in enumerate(releases[0].columns)
    ]
    return float(np.concatenate(hits).mean()) if hits else 0.0


def _differences(original: Matrix, releases: Sequence[Matrix]) -> Array:
    """Records of the original that are the difference of the sums of two releases, whose rows differ by one."""
    found = scales(original)
    records = np.column_stack(original.columns)
    found_records = []
    for pair in combinations(releases, 2):
        small, large = sorted(pair, key=lambda table: table.shape[0])
        if large.shape[0] - small.shape[0] == 1:
            gap = np.array([new.sum() - old.sum() for new, old in zip(large.columns, small.columns, strict=True)])
            near = [np.abs(records[:, j] - gap[j]) <= EXACT * sd * len(records) for j, (_, sd) in found.items()]
            found_records += [gap] if near and np.all(near, axis=0).any() else []
    return np.array(found_records).reshape(len(found_records), original.shape[1])
