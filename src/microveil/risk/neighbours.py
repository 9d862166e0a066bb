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

QUERIES_PER_BLOCK = 256
RECORDS_PER_BLOCK = 16_384
PAIRS_AT_ONCE = 262_144

Index = NDArray[np.intp]
Single = NDArray[np.float32]
Found = tuple[Index, Array, Index]
"""Nearest record, its distance, and how many are as near."""


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
    centre = released.mean(axis=0)  # single precision has no digits to spare for an offset
    centred = released - centre
    single = np.ascontiguousarray(centred, dtype=np.float32)
    norms = np.square(centred).sum(axis=1)
    starts = range(0, len(queries), QUERIES_PER_BLOCK)
    tasks = [
        partial(_search_block, queries[start : start + QUERIES_PER_BLOCK] - centre, centred, single, norms)
        for start in starts
    ]
    with single_threaded_blas():  # there is a thread for every block already
        found = in_threads(tasks, small=len(queries) * len(released) < PAIRS_AT_ONCE)
    nearest, distance, rivals = zip(*found, strict=True)
    return np.concatenate(nearest), np.concatenate(distance), np.concatenate(rivals)


def _search_block(queries: Array, released: Array, single: Single, norms: Array) -> Found:
    count = len(queries)
    nearest, rivals = np.zeros(count, dtype=np.intp), np.zeros(count, dtype=np.intp)
    distance, bound = np.full(count, np.inf), np.full(count, np.inf)
    for start in range(0, len(released), RECORDS_PER_BLOCK):
        part = slice(start, start + RECORDS_PER_BLOCK)
        who, which = _candidates(queries, single[part], norms[part], bound)
        exact = _distances(queries, released[part], who, which)
        best = distance.copy()
        np.minimum.at(best, who, exact)
        rivals[distance > _reach(best)] = 0  # those found before are no longer the nearest
        near = exact <= _reach(best)[who]
        rivals += np.bincount(who[near], minlength=count)
        first = near & (exact < distance[who])
        nearest[who[first][::-1]] = start + which[first][::-1]  # the first of equals is written last
        distance = best
    return nearest, distance, rivals


def _candidates(queries: Array, single: Single, norms: Array, bound: Array) -> tuple[Index, Index]:
    """Pairs (query, record) whose distance may be the query's smallest so far; `bound` is updated.

    With e the relative error of a product of p terms, |x|² + |y|² - 2 x'y is off by less than e (|x|² + |y|²); so the
    products with that much taken off are lower bounds, and the best of them with twice as much added is an upper one.
    """
    error = (queries.shape[1] + 16) * float(np.finfo(np.float32).eps)
    own_norms = np.square(queries).sum(axis=1)
    lower = queries.astype(np.float32) @ single.T
    lower *= -2
    lower += ((1 - error) * norms).astype(np.float32)
    best = lower.argmin(axis=1)
    upper = lower[np.arange(len(queries)), best] + 2 * error * (own_norms + norms[best]) + own_norms
    np.minimum(bound, np.square(_reach(np.sqrt(np.maximum(upper, 0)))), out=bound)
    limit = np.nextafter((bound - (1 - error) * own_norms).astype(np.float32), np.float32(np.inf))
    # One index for both is found ten times faster than two.
    who, which = np.divmod(np.flatnonzero(lower <= limit[:, None]), len(single))
    return who, which


def _distances(queries: Array, released: Array, who: Index, which: Index) -> Array:
    """Distances of the pairs, in double precision and without products; many equal records make many pairs."""
    out = np.empty(who.size)
    for start in range(0, who.size, PAIRS_AT_ONCE):
        part = slice(start, start + PAIRS_AT_ONCE)
        out[part] = np.sqrt(np.square(queries[who[part]] - released[which[part]]).sum(axis=1))
    return out
