"""Who is nearest to some originals, in the release and among the other originals: searched once for all who ask.

Linkage, matches, membership and intervals ask for the same neighbours. Of a large file they try the same records, and
the first that asks searches for all.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.table import Matrix
from microveil.measures.base import over_rows, without_holes
from microveil.measures.nearest.distances import Index, distances, reach
from microveil.measures.nearest.neighbours import nearest
from microveil.measures.nearest.standardisation import VIEWS, StandardisedPair

OUTLYING = 120
"""Records of each kind that are looked for in any case: the most remote, the first at either end of each column (all
columns together, but at least one each), and those that are nearest to their own release."""


@dataclass(frozen=True, repr=False)
class NearestRecords:
    """The nearest records of some originals (rows of each array), nearest first, and how far they are.

    `released` are two released records, and `own` says whose own is as near as the first; `others` are three originals,
    mostly the record itself first, or none if nobody asked for them. `known` are those with a cell that both files
    have.
    """

    released: Index
    released_at: Array
    own: Mask
    known: Mask
    others: Index
    others_at: Array

    def strangers(self, tried: Index) -> Index:
        """For each the nearest original that it is not itself."""
        return np.where(self.others[:, 1] == tried, self.others[:, 0], self.others[:, 1])

    def first(self, count: int) -> NearestRecords:
        """Those of the first originals alone."""
        return NearestRecords(*(getattr(self, one.name)[:count] for one in fields(self)))


def nearest_records(
    name: str, original: Matrix, released: Matrix, tried: Index, *, others: bool = True
) -> NearestRecords:
    """The neighbours of the originals `tried` (rows) in the view that a linkage (`name`) has of both files.

    Only with `others` the other originals are searched, too.
    """

    @cache
    def view() -> StandardisedPair:
        return VIEWS[name](original, released)

    def among_released() -> tuple[Index, Array, Mask, Mask]:
        records, after = view().before[tried], view().after
        which, at = nearest(records, after, 2)
        own = np.zeros(tried.size, dtype=bool)
        if released.shape[0] == original.shape[0]:  # else there is no own row
            own = distances(records, after, np.arange(tried.size), tried) <= reach(at[:, 0])
        return which, at, own, view().known[tried]

    def among_others() -> tuple[Index, Array]:
        return nearest(view().before[tried], view().before, 3)

    near = original.remember(("released", name, tried.tobytes()), among_released, released)
    far = np.empty((tried.size, 0), dtype=np.intp), np.empty((tried.size, 0))
    if others:
        far = original.remember(("others", name, tried.tobytes()), among_others, released)
    return NearestRecords(*near, *far)


def outlying(original: Matrix, released: Matrix) -> Index:
    """Rows whom a random sample must not miss: who stands apart, and who hardly changed."""
    return original.remember("outlying", lambda: _outlying(original, released), released)


def _outlying(original: Matrix, released: Matrix) -> Index:
    paired, columns = original.shape[0] == released.shape[0], original.shape[1]

    def looks(before: Array, after: Array) -> Array:
        """How remote each record is, and how far from its own release for its remoteness."""
        gaps = after - before
        remote, moved = (np.sqrt(np.square(without_holes(cells)).sum(axis=0)) for cells in (before, gaps))
        return np.array([remote, np.where(np.isnan(gaps).all(axis=0), np.inf, moved / (1 + remote))])

    remote, moved = np.hstack(over_rows(original, released if paired else original, looks))
    ends = max(OUTLYING // (2 * columns), 1)
    found = [_least(-remote, OUTLYING), *(_least(moved, OUTLYING) for _ in range(paired))]
    found += [_least(sign * column, ends) for column in original.columns for sign in (-1, 1)]
    return np.unique(np.concatenate(found))


def _least(values: Array, count: int) -> Index:
    """The rows of the least values; missing ones come last."""
    return np.argpartition(values, min(count, values.size) - 1)[:count]
