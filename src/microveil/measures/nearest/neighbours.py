"""The one search behind every linkage: which released record is nearest, and is it the right one?

The search is exact, and goes one of two ways. A tree finds a near neighbour in microseconds; where the nearest is about
as far as all others (strong masking), or long tails crowd most records into one corner, it looks at nearly everything,
one by one. Matrix products look at everything, too, but at many at once (`distances`). The shape of the data does not
show which way is faster: a few queries are tried both ways. Both find the same, so only the time depends on the choice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from microveil.core.arrays import Array
from microveil.core.table import Matrix, RowMap
from microveil.core.threads import in_threads, single_threaded_blas, worker_count
from microveil.core.tolerances import LINKAGE_TIE
from microveil.measures.nearest.distances import (
    PAIRS_AT_ONCE,
    DistanceBounds,
    Index,
    PreparedRecords,
    Rivals,
    blocks_of,
    distances,
    reach,
)

TREE_DIMENSIONS = 6
"""Small searches go by tree up to here: the two ways were equally fast there, over data of all kinds."""

PILOT_PAIRS = 1_000_000_000
"""From so many pairs (query, record) on, which products take a second for, a few queries are tried both ways."""

PILOT_RUNS, PILOT_RUN, PILOT_SHARE = 32, 16, 32
"""Queries tried: some runs of neighbours, because neighbours find the tree in the cache, and one of 32 at most."""

GROUPS, FEWEST_IN_GROUP = 32, 256
"""Queries go to the tree in groups with about the same distance to their own record."""

FEWEST_FOR_THREADS = 1_024
PAIRS_FOR_THREADS = 4_000_000
"""Threads are not worth their start for smaller groups, or for products of fewer pairs."""

STAGES = (512, 16)
"""Of released records every so manieth is looked at first, as one that is nearer settles it."""

PIECE_ROWS, PIECE_CELLS = 2**17, 2**23
"""Records that are searched together where they come in pieces; with many columns or threads fewer, as they take some
copies of their cells and all threads together no more than that."""

Found = tuple[Index, Array, Index]
"""The first of the nearest records, their distance, and how many there are."""


@dataclass(frozen=True, repr=False)
class Links:
    """For each record tried: the first of the nearest released records, and the chance that the intruder is right.

    The credit is 0 if another released record is nearer than the record's own, and 1/k if k are equally near, its own
    among them: the intruder has to guess.
    """

    nearest: Index
    credit: Array

    @property
    def hits(self) -> float:
        """Expected number of right links."""
        return float(self.credit.sum())


def link(queries: Array, released: Array, own: Index) -> Links:
    """Link each query to its nearest released record; `own` says which one is right."""
    search = _NearestSearch.of(queries, released, own)
    if not search.own_distance.any() and _lie_apart(search.records):
        return Links(search.rows[search.own], 1 / search.copies[search.own])
    by_tree = _tree_is_faster(search)
    everyone = np.arange(len(queries))
    nearest, distance, rivals = (search.by_tree if by_tree else search.by_products)(everyone, worker_count())
    return Links(search.rows[nearest], _credit(search.own_distance, distance, rivals))


def credit_by_stages(queries: Array, released: Array, own: Index, way: Callable[[Array], Array]) -> Array:
    """The credit of `link` for a few queries, without the nearest: who loses against a few records needs no others.

    Args:
        queries: the records sought (m x k), as the `way` has them.
        released: all released records.
        own: rows of the release that are the queries' own.
        way: what the intruder sees of released records: some columns, or directions.
    """
    everyone = np.arange(len(queries))
    own_distance = distances(queries, way(released[own]), everyone, everyone)
    left = everyone
    for step in STAGES:
        if left.size:
            least = nearest(queries[left], way(released[::step]), 1)[1][:, 0]
            left = left[own_distance[left] <= reach(least)]
    credit = np.zeros(len(queries))
    if left.size:
        credit[left] = link(queries[left], way(released), own[left]).credit
    return credit


def _credit(own_distance: Array, distance: Array, rivals: Index) -> Array:
    """Among equally near records the intruder has to guess."""
    return np.where(own_distance <= reach(distance), 1 / np.maximum(rivals, 1), 0.0)


def link_pieces(
    queries: Array, own: Array | None, count: int, piece_of: Callable[[slice], Array], barred: Index | None = None
) -> Links:
    """`link` where the released records are not in memory: some queries are held, and all records pass by.

    Args:
        queries: the records sought (m x k).
        own: their own released records (m x k); None if nobody has one.
        count: the number of released records.
        piece_of: gives some released records in a row (rows x k).
        barred: for each query the number of a record that it must not be linked to; None if there are none.
    """
    everyone, at_once = np.arange(len(queries)), worker_count()
    own_distance = np.full(len(queries), np.inf) if own is None else distances(queries, own, everyone, everyone)
    bound, found = own_distance, Rivals.joined([])
    pieces = blocks_of(count, max(min(PIECE_ROWS, PIECE_CELLS // (at_once * queries.shape[1])), 1))

    def search(piece: slice, within: Array) -> Rivals:
        records = piece_of(piece)
        look = DistanceBounds(PreparedRecords.of(records, queries), queries, threads=False)
        rivals = look.rivals(within, None if barred is None else barred - piece.start)
        return replace(rivals, record=rivals.record + piece.start)

    with single_threaded_blas():
        for start in range(0, len(pieces), at_once):
            tasks = [partial(search, piece, bound) for piece in pieces[start : start + at_once]]
            found = Rivals.joined([found, *in_threads(tasks)])
            bound = np.minimum(bound, found.nearest(len(queries))[1])
            found = found.within(bound)
    nearest, distance, rivals = found.nearest(len(queries))
    return Links(nearest, _credit(own_distance, distance, rivals))


def link_distant(queries: Array, own: Array, released: Matrix, to_axes: RowMap) -> Links:
    """`link` where the released records are far away: the queries go there, and their nearest records come back.

    Args:
        queries: the records sought (m x k).
        own: their own released records (m x k).
        released: all released records.
        to_axes: makes rows of them as the queries are (rows x k).
    """
    everyone = np.arange(len(queries))
    own_distance = distances(queries, own, everyone, everyone)
    search = partial(_rivals_among, queries, own_distance, to_axes)
    found = released.folded(search, range(released.shape[1]), partial(_nearest_rivals, own_distance))
    nearest, distance, rivals = Rivals.from_array(found).nearest(len(queries))
    return Links(nearest, _credit(own_distance, distance, rivals))


def _rivals_among(queries: Array, within: Array, to_axes: RowMap, cells: Array, rows: slice) -> Array:
    """The rivals of some released records, by their numbers in the file: a row map; see `link_distant`."""
    records = to_axes(cells, rows)
    found = DistanceBounds(PreparedRecords.of(records, queries), queries, threads=False).rivals(within)
    return _nearest_rivals(within, [replace(found, record=found.record + rows.start).to_array()])


def _nearest_rivals(within: Array, parts: list[Array]) -> Array:
    """Those of several parts that are nearest, and not beyond `within`."""
    found = Rivals.joined(map(Rivals.from_array, parts))
    return found.within(np.minimum(within, found.nearest(within.size)[1])).to_array()


@dataclass(frozen=True, repr=False)
class _NearestSearch:
    """Queries, and the released records without their copies, which would all be looked at to no end.

    Attributes:
        queries: the records sought.
        records: different released records, in the order of the file.
        rows: where each of them stands first in the file.
        copies: how often it stands there.
        own: which of them is each query's own.
        own_distance: how far it is from the query.
    """

    queries: Array
    records: Array
    rows: Index
    copies: Index
    own: Index
    own_distance: Array

    @classmethod
    def of(cls, queries: Array, released: Array, own: Index) -> _NearestSearch:
        rows, copies, place = _distinct(released)
        records = released if len(rows) == len(released) else released[rows]
        own = place[own]
        return cls(queries, records, rows, copies, own, distances(queries, records, np.arange(len(queries)), own))

    @cached_property
    def tree(self) -> Any:
        from scipy.spatial import cKDTree

        # Halves of the extent, not of the records: on skewed columns, a search goes through a third of it.
        return cKDTree(self.records, balanced_tree=False)

    @cached_property
    def leaf(self) -> Index:
        """The place of each record in the tree, where neighbours stand together."""
        return np.argsort(self.tree.indices)

    @cached_property
    def table(self) -> PreparedRecords:
        return PreparedRecords.of(self.records, self.queries)

    def by_tree(self, some: Index, workers: int) -> Found:
        """The search for some of the queries by the tree.

        The own record is near enough to look no farther; the tree takes one such bound for all it is asked at once. It
        is asked for two records, to see whether the second is as near. Where it is, products count them.
        """
        nearest, gap = self.own[some], np.empty(some.size)
        order = np.argsort(self.own_distance[some], kind="stable")
        size = max(-(-some.size // GROUPS), FEWEST_IN_GROUP)
        workers = workers if size >= FEWEST_FOR_THREADS else 1
        for part in blocks_of(some.size, size):
            group = order[part]
            bound = self.own_distance[some[group[-1]]] * (1 + LINKAGE_TIE) + 4 * LINKAGE_TIE
            group = group[np.argsort(self.leaf[nearest[group]])]
            far, which = self.tree.query(self.queries[some[group]], k=2, distance_upper_bound=bound, workers=workers)
            found = which[:, 0] < len(self.records)  # not, if distances are too large to be squared
            nearest[group[found]] = which[found, 0]
            gap[group] = far[:, 1] - far[:, 0] * (1 + LINKAGE_TIE)
        distance, rivals = distances(self.queries, self.records, some, nearest), self.copies[nearest]
        unsure = np.flatnonzero(~(gap > 2 * LINKAGE_TIE))
        if unsure.size:
            nearest[unsure], distance[unsure], rivals[unsure] = self.by_products(some[unsure], workers)
        return nearest, distance, rivals

    def by_products(self, some: Index, workers: int) -> Found:
        """The search for some of the queries by products."""
        threads = workers > 1 and some.size * len(self.records) >= PAIRS_FOR_THREADS
        found = DistanceBounds(self.table, self.queries[some], threads=threads).rivals(self.own_distance[some])
        return replace(found, copies=self.copies[found.record]).nearest(some.size)


def _distinct(records: Array) -> tuple[Index, Index, Index]:
    """Rows where a record stands for the first time, its copies, and for each row of the file the number of its record.

    Equal records have equal keys. Should others have the same key by accident, equal ones may be taken for different
    ones, which costs time and nothing else.
    """
    keys = _keys(records)
    if np.diff(np.sort(keys)).all():
        everyone = np.arange(len(records))
        return everyone, np.ones_like(everyone), everyone
    order = np.argsort(keys, kind="stable")
    alike = np.flatnonzero(keys[order[1:]] == keys[order[:-1]])
    alike = alike[(records[order[alike]] == records[order[alike + 1]]).all(axis=1)]
    new = np.ones(order.size, dtype=bool)
    new[alike + 1] = False
    group = np.cumsum(new) - 1
    in_file = np.argsort(order[new])
    place = np.empty_like(order)
    place[order] = np.argsort(in_file)[group]
    return order[new][in_file], np.bincount(group)[in_file], place


def _keys(records: Array) -> Array:
    """A number for each record: a sum of its cells, each times the root of another whole number."""
    keys = np.zeros(len(records))
    for number, column in enumerate(records.T):
        keys += np.sqrt(number + 2) * column
    return keys


def _lie_apart(records: Array) -> bool:
    """Is no record as near to another as to itself? Records whose keys differ by much do, too (Cauchy and Schwarz)."""
    columns, keys = records.shape[1], np.sort(_keys(records))
    length = np.sqrt(columns * (columns + 3) / 2)  # of the vector (root of 2, root of 3, ...)
    round_off = (columns + 4) * np.finfo(float).eps * length * np.abs(records).max() * np.sqrt(columns)
    return bool((np.diff(keys) > length * 2 * LINKAGE_TIE + round_off).all())


def _tree_is_faster(search: _NearestSearch) -> bool:
    """By the number of columns if there is little to do; else by the time that both ways take for a few queries."""
    if len(search.queries) * len(search.records) < PILOT_PAIRS:
        return bool(search.records.shape[1] <= TREE_DIMENSIONS)
    order = np.argsort(search.leaf[search.own], kind="stable")
    every = max(order.size // (PILOT_RUNS * PILOT_RUN), PILOT_SHARE)
    some = order[np.arange(order.size) // PILOT_RUN % every == 0]
    _ = search.table  # like the tree, it is made once and no part of the trial
    seconds = []
    for way in (search.by_tree, search.by_products):
        start = time.thread_time()
        way(some, 1)
        seconds.append(time.thread_time() - start)
    return seconds[0] < seconds[1]


def nearest(queries: Array, records: Array, count: int) -> tuple[Index, Array]:
    """The `count` nearest records of each query, nearest first, and their distances.

    Where there are fewer records, the rest are at an infinite distance (and the number means nothing).
    """
    which = np.zeros((len(queries), count), dtype=np.intp)
    distance = np.full((len(queries), count), np.inf)
    found = min(count, len(records))
    if not found:
        return which, distance
    if records.shape[1] <= TREE_DIMENSIONS:
        from scipy.spatial import cKDTree

        found_by_tree = cKDTree(records).query(queries, k=np.arange(1, found + 1), workers=worker_count())
        distance[:, :found], which[:, :found] = found_by_tree
        return which, distance
    threads = len(queries) * len(records) >= PAIRS_FOR_THREADS
    which[:, :found], distance[:, :found] = DistanceBounds(
        PreparedRecords.of(records, queries), queries, threads=threads
    ).nearest(found)
    return which, distance


def standing(queries: Array, released: Array, own: Index) -> tuple[Index, Index]:
    """How many released records are nearer to each query than its own, and how many as near (its own among them)."""
    from scipy.spatial.distance import cdist

    def counts(part: slice) -> Array:
        every, rows = cdist(queries[part], released), np.arange(part.stop - part.start)
        own_distance = every[rows, own[part], None]
        return np.array([(every < own_distance - LINKAGE_TIE).sum(axis=1), (every <= reach(own_distance)).sum(axis=1)])

    parts = blocks_of(len(queries), max(PAIRS_AT_ONCE // len(released), 1))
    small = len(queries) * len(released) < PAIRS_FOR_THREADS
    nearer, within = np.hstack(in_threads([partial(counts, part) for part in parts], small=small))
    return nearer, within - nearer
