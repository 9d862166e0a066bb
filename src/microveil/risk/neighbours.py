"""The one search behind every linkage: which released record is nearest, and is it the right one?

The search is exact. In few dimensions a tree finds the neighbours. In many, trees look at everything anyway (and heavy
tails defeat them in few ones too), so distances come from matrix products: |x - y|² = |x|² + |y|² - 2 x'y, in single
precision because that is twice as fast. Single precision alone would pick wrong neighbours; so every record that might
be the nearest, by a bound on the error of the product, is looked at again in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.threads import in_threads, single_threaded_blas, worker_count

TREE_DIMENSIONS = 8
"""Up to here the tree was faster or equal in every case tried, from there on the products."""

SAME = 1e-9
"""Distances (in standard deviations) that differ by less than this are equal: the rest is round-off."""

ROUND_OFF = 1e-11
"""Squared distances by products in double precision are off by less than this share of the squared lengths."""

QUERIES_PER_BLOCK = 256
RECORDS_PER_BLOCK = 16_384
PAIRS_AT_ONCE = 262_144

FIRST_RECORDS = 512
"""Records, evenly spaced, that bound the distances before the search for several neighbours begins."""

Index = NDArray[np.intp]
Single = NDArray[np.float32]
Found = tuple[Index, Array, Index]
"""Nearest record, its distance, and how many are as near."""


@dataclass(frozen=True, repr=False)
class _Table:
    """Records about their centre, in double and in single precision, which has no digits to spare for an offset."""

    centre: Array
    records: Array
    single: Single
    norms: Array

    @classmethod
    def of(cls, records: Array) -> _Table:
        centre = records.mean(axis=0)
        centred = records - centre
        single = np.ascontiguousarray(centred, dtype=np.float32)
        return cls(centre, centred, single, np.square(centred).sum(axis=1))

    def blocks(self) -> list[slice]:
        """The records in blocks that can be compared with a block of queries at once."""
        count = len(self.records)
        return [slice(start, min(start + RECORDS_PER_BLOCK, count)) for start in range(0, count, RECORDS_PER_BLOCK)]


@dataclass(frozen=True, repr=False)
class Links:
    """For each record tried: a released record that is nearest, and the chance that the intruder picks the right one.

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
    search = _by_tree if released.shape[1] <= TREE_DIMENSIONS else _by_products
    nearest, distance, rivals = search(queries, released, own)
    own_distance = np.sqrt(np.square(queries - released[own]).sum(axis=1))
    return Links(nearest, np.where(own_distance <= _reach(distance), 1 / np.maximum(rivals, 1), 0.0))


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

        told = cKDTree(records).query(queries, k=np.arange(1, found + 1), workers=worker_count())
        distance[:, :found], which[:, :found] = told
        return which, distance
    table = _Table.of(records)
    blocks = _query_blocks(len(queries))
    tasks = [partial(_nearest_of_block, queries[block] - table.centre, table, found) for block in blocks]
    with single_threaded_blas():
        told = in_threads(tasks, small=len(queries) * len(records) < PAIRS_AT_ONCE)
    for block, (best, far) in zip(blocks, told, strict=True):
        which[block, :found], distance[block, :found] = best, far
    return which, distance


def standing(queries: Array, released: Array, own: Index) -> tuple[Index, Index]:
    """How many released records are nearer to each query than its own, and how many as near (its own among them)."""
    table = _Table.of(released)
    blocks = _query_blocks(len(queries), QUERIES_PER_BLOCK // 4)  # in double precision, and several times over
    tasks = [partial(_standing_of_block, queries[block] - table.centre, table, own[block]) for block in blocks]
    with single_threaded_blas():
        told = in_threads(tasks, small=len(queries) * len(released) < PAIRS_AT_ONCE)
    nearer, equal = zip(*told, strict=True)
    return np.concatenate(nearer), np.concatenate(equal)


def _query_blocks(count: int, size: int | None = None) -> list[slice]:
    size = size or QUERIES_PER_BLOCK
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def _nearest_of_block(queries: Array, table: _Table, count: int) -> tuple[Index, Array]:
    """The nearest so far, block of records by block; a few records give a bound to start from."""
    rows = np.arange(len(queries))
    bound = _first_bound(queries, table, count)
    which, distance = np.zeros((len(queries), count), dtype=np.intp), np.full((len(queries), count), np.inf)
    for part in table.blocks():
        who, new = _below(queries, _lower_bounds(queries, table, part), bound)
        exact = _distances(queries, table.records[part], who, new)
        everyone = np.concatenate([np.repeat(rows, count), who])
        numbers = np.concatenate([which.ravel(), part.start + new])
        distances = np.concatenate([distance.ravel(), exact])
        order = np.lexsort((distances, everyone))
        first = np.searchsorted(everyone[order], rows)[:, None] + np.arange(count)
        which, distance = numbers[order][first], distances[order][first]
        np.minimum(bound, np.square(_reach(distance[:, -1])), out=bound)
    return which, distance


def _first_bound(queries: Array, table: _Table, count: int) -> Array:
    """Squared distances within which each query has so many of a few records, evenly spaced."""
    step = -(-len(table.records) // FIRST_RECORDS)
    few, norms = table.records[::step], table.norms[::step]
    if len(few) < count:
        return np.full(len(queries), np.inf)
    sizes = np.square(queries).sum(axis=1)[:, None] + norms
    bound: Array = np.partition(sizes * (1 + ROUND_OFF) - 2 * (queries @ few.T), count - 1, axis=1)[:, count - 1]
    return bound


def _standing_of_block(queries: Array, table: _Table, own: Index) -> tuple[Index, Index]:
    rows, sizes = np.arange(len(queries)), np.square(queries).sum(axis=1)
    reach = np.sqrt(np.square(queries - table.records[own]).sum(axis=1))
    nearer, equal = np.zeros(len(queries), dtype=np.intp), np.ones(len(queries), dtype=np.intp)
    for part in table.blocks():
        squares = sizes[:, None] + table.norms[part]
        unsure = ROUND_OFF * squares + (4 * SAME * (reach + SAME))[:, None]
        squares -= 2 * (queries @ table.records[part].T)
        squares -= np.square(reach)[:, None]
        here = (own >= part.start) & (own < part.stop)
        squares[rows[here], own[here] - part.start] = np.inf  # its own is counted already
        nearer += (squares < -unsure).sum(axis=1)
        # Where products cannot tell, the distances themselves do.
        who, which = np.nonzero(np.abs(squares) <= unsure)
        distance = _distances(queries, table.records[part], who, which)
        before = distance < reach[who] - SAME
        nearer += np.bincount(who[before], minlength=len(queries))
        equal += np.bincount(who[~before & (distance <= _reach(reach[who]))], minlength=len(queries))
    return nearer, equal


def _reach(distance: Array) -> Array:
    return distance * (1 + 1e-12) + SAME


def _by_tree(queries: Array, released: Array, own: Index) -> Found:
    """By a tree; those as near are counted only where the own record is among them."""
    from scipy.spatial import cKDTree

    tree = cKDTree(released)
    distance, nearest = tree.query(queries, k=1, workers=worker_count())
    reach = _reach(distance)
    rivals = np.ones(len(queries), dtype=np.intp)
    found = np.flatnonzero(np.sqrt(np.square(queries - released[own]).sum(axis=1)) <= reach)
    if found.size:
        rivals[found] = tree.query_ball_point(queries[found], reach[found], return_length=True, workers=worker_count())
    return nearest, distance, rivals


def _by_products(queries: Array, released: Array, own: Index) -> Found:  # noqa: ARG001 - one shape
    """By matrix products, block of queries by block of queries."""
    table = _Table.of(released)
    tasks = [partial(_search_block, queries[block] - table.centre, table) for block in _query_blocks(len(queries))]
    with single_threaded_blas():  # there is a thread for every block already
        found = in_threads(tasks, small=len(queries) * len(released) < PAIRS_AT_ONCE)
    nearest, distance, rivals = zip(*found, strict=True)
    return np.concatenate(nearest), np.concatenate(distance), np.concatenate(rivals)


def _search_block(queries: Array, table: _Table) -> Found:
    count = len(queries)
    nearest, rivals = np.zeros(count, dtype=np.intp), np.zeros(count, dtype=np.intp)
    distance, bound = np.full(count, np.inf), np.full(count, np.inf)
    for part in table.blocks():
        lower = _lower_bounds(queries, table, part)
        np.minimum(bound, _upper_bound(queries, table, part, lower), out=bound)
        who, which = _below(queries, lower, bound)
        exact = _distances(queries, table.records[part], who, which)
        best = distance.copy()
        np.minimum.at(best, who, exact)
        rivals[distance > _reach(best)] = 0  # those found before are no longer the nearest
        near = exact <= _reach(best)[who]
        rivals += np.bincount(who[near], minlength=count)
        first = near & (exact < distance[who])
        nearest[who[first][::-1]] = part.start + which[first][::-1]  # the first of equals is written last
        distance = best
    return nearest, distance, rivals


def _product_error(queries: Array) -> float:
    """The e for which |x|² + |y|² - 2 x'y, with a product of p terms in single precision, is off by e (|x|² + |y|²)."""
    error: float = (queries.shape[1] + 16) * float(np.finfo(np.float32).eps)
    return error


def _lower_bounds(queries: Array, table: _Table, part: slice) -> Single:
    """The products with their error taken off: no squared distance, less |x|² (1 - e), is smaller."""
    lower: Single = queries.astype(np.float32) @ table.single[part].T
    lower *= -2
    lower += ((1 - _product_error(queries)) * table.norms[part]).astype(np.float32)
    return lower


def _upper_bound(queries: Array, table: _Table, part: slice, lower: Single) -> Array:
    """What each query's smallest squared distance in this block cannot exceed: the best product, and its error."""
    best, own_norms = lower.argmin(axis=1), np.square(queries).sum(axis=1)
    error = 2 * _product_error(queries) * (own_norms + table.norms[part][best])
    upper = lower[np.arange(len(queries)), best] + error + own_norms
    return np.square(_reach(np.sqrt(np.maximum(upper, 0))))


def _below(queries: Array, lower: Single, bound: Array) -> tuple[Index, Index]:
    """Pairs (query, record) whose squared distance may be within the bound."""
    limit = bound - (1 - _product_error(queries)) * np.square(queries).sum(axis=1)
    limit = np.nextafter(limit.astype(np.float32), np.float32(np.inf))
    # One index for both is found ten times faster than two.
    who, which = np.divmod(np.flatnonzero(lower <= limit[:, None]), lower.shape[1])
    return who, which


def _distances(queries: Array, released: Array, who: Index, which: Index) -> Array:
    """Distances of the pairs, in double precision and without products; many equal records make many pairs."""
    out = np.empty(who.size)
    for start in range(0, who.size, PAIRS_AT_ONCE):
        part = slice(start, start + PAIRS_AT_ONCE)
        out[part] = np.sqrt(np.square(queries[who[part]] - released[which[part]]).sum(axis=1))
    return out
