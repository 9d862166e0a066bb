"""Squared distances by matrix products, |x - y|² = |x|² + |y|² - 2 x'y, for many pairs of records at once.

In single precision this is the fastest way to look at every pair, and a wrong one: far from the centre all digits are
lost. So products only say which pairs *may* be near. By a bound on their error no near pair is missed, and those few
are looked at again by their differences, in double precision. The first look, at everything, keeps one number for
every query and block of records; the others return to the blocks that may hold what is sought.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.threads import in_threads, single_threaded_blas
from microveil.core.tolerances import LINKAGE_TIE

BLOCKS = 64
FEWEST_RECORDS, MOST_RECORDS = 256, 2_048
"""Of a block: with fewer the calls would cost more than the second looks save, more would not stay in the cache."""

QUERIES_PER_BLOCK = 256
QUERIES_AGAIN = 1_024
PAIRS_AT_ONCE = 262_144

CENTRE_ROWS = 250
LARGEST_SQUARE = 1e30
"""Squares of larger numbers might be too large for single precision; then everything is done in double."""

Index = NDArray[np.intp]
Factors = NDArray[np.floating[Any]]
Answer = TypeVar("Answer")


def reach(distance: Array) -> Array:
    """As far as records count as equally near."""
    return distance * (1 + 1e-12) + LINKAGE_TIE


def distances(queries: Array, records: Array, who: Index, which: Index) -> Array:
    """Distances of pairs, in double precision and without products; many equal records make many pairs.

    `who` are rows of the `queries` (m x k), `which` rows of the `records` (n x k), one for each pair.
    """
    out = np.empty(who.size)
    for start in range(0, who.size, PAIRS_AT_ONCE):
        part = slice(start, start + PAIRS_AT_ONCE)
        out[part] = np.sqrt(np.square(queries[who[part]] - records[which[part]]).sum(axis=1))
    return out


def blocks_of(count: int, size: int) -> list[slice]:
    """The rows 0 ... count-1 in blocks."""
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


@dataclass(frozen=True, repr=False)
class PreparedRecords:
    """Records, moved to a centre and ready to be multiplied.

    The `factors` are -2y and (1 - e) |y|². Beside them a query is x and 1, and their product is never larger than
    |x - y|² - (1 - e) |x|²: the error of p + 1 products and their sum, of rounding x and y, and of the squares is below
    e (|x|² + |y|²).
    """

    records: Array
    centre: Array
    factors: Factors
    error: float
    blocks: list[slice]

    @classmethod
    def of(cls, records: Array, queries: Array) -> PreparedRecords:
        """Choose the centre, the precision (for these queries, too) and the blocks."""
        count, columns = records.shape
        # Products have no digits to spare for an offset. Any centre will do, but a few records far out must not lead it
        # astray: so it is a median, and that of some records.
        centre = np.median(records[:: -(-count // CENTRE_ROWS)], axis=0)
        blocks = blocks_of(count, min(max(-(-count // BLOCKS), FEWEST_RECORDS), MOST_RECORDS))
        squares = np.concatenate([np.square(records[block] - centre).sum(axis=1) for block in blocks])
        largest = max(squares.max(), np.square(queries - centre).sum(axis=1).max(initial=0.0))
        precision = np.float32 if largest < LARGEST_SQUARE else np.float64
        error = (2 * columns + 16) * float(np.finfo(precision).eps)
        factors = np.empty((count, columns + 1), dtype=precision)
        for block in blocks:  # a copy of all records would take more room than anything else
            factors[block, :-1] = -2 * (records[block] - centre)
        factors[:, -1] = (1 - error) * squares
        return cls(records, centre, factors, error, blocks)


@dataclass(frozen=True, repr=False)
class Rivals:
    """Records that may be the nearest: for which query, how far away, how often there is one, and its number."""

    who: Index
    distance: Array
    copies: Index
    record: Index

    @classmethod
    def joined(cls, parts: Iterable[Rivals]) -> Rivals:
        """All of them, in the order of the parts."""
        none = np.empty(0, dtype=np.intp)
        all_parts = [cls(none, np.empty(0), none, none), *parts]
        names = ("who", "distance", "copies", "record")
        return cls(*(np.concatenate([getattr(part, name) for part in all_parts]) for name in names))

    @classmethod
    def from_array(cls, cells: Array) -> Rivals:
        """Those that `to_array` has given."""
        who, distance, copies, record = cells
        return cls(who.astype(np.intp), distance, copies.astype(np.intp), record.astype(np.intp))

    def to_array(self) -> Array:
        """All of them in one array, a column each: doubles hold these numbers."""
        return np.stack([self.who, self.distance, self.copies, self.record]).astype(np.float64)

    def within(self, bound: Array) -> Rivals:
        """Those within the bound of their query; those at one distance from it become one, the first of them."""
        near = np.flatnonzero(self.distance <= reach(bound[self.who]))
        near = near[np.lexsort((self.record[near], self.distance[near], self.who[near]))]
        who, distance = self.who[near], self.distance[near]
        new = np.ones(near.size, dtype=bool)
        new[1:] = (who[1:] != who[:-1]) | (distance[1:] != distance[:-1])
        copies = np.bincount(np.cumsum(new) - 1, self.copies[near], int(new.sum())).astype(np.intp)
        return Rivals(who[new], distance[new], copies, self.record[near[new]])

    def nearest(self, queries: int) -> tuple[Index, Array, Index]:
        """For each of so many queries the first of the nearest records, their distance, and how many there are."""
        distance = np.full(queries, np.inf)
        np.minimum.at(distance, self.who, self.distance)
        equal = self.distance <= reach(distance[self.who])
        first, count = np.full(queries, np.iinfo(np.intp).max), np.zeros(queries, dtype=np.intp)
        np.minimum.at(first, self.who[equal], self.record[equal])
        np.add.at(count, self.who[equal], self.copies[equal])
        return first, distance, count


class DistanceBounds:
    """Queries of a table, after the first look: `least` has a bound for each block of records and each query."""

    def __init__(self, table: PreparedRecords, queries: Array, *, threads: bool) -> None:
        self.table, self.queries, self.threads = table, queries, threads
        centred = queries - table.centre
        self.squares: Array = (1 - table.error) * np.square(centred).sum(axis=1)
        self.factors = np.ones((len(queries), centred.shape[1] + 1), dtype=table.factors.dtype)
        self.factors[:, :-1] = centred
        self.least = np.empty((len(table.blocks), len(queries)), dtype=table.factors.dtype)
        self._run([partial(self._first_look, part) for part in blocks_of(len(queries), QUERIES_PER_BLOCK)])

    def nearest(self, count: int, within: Array | None = None) -> tuple[Index, Array]:
        """The `count` nearest records of each query, nearest first and of equals the first; there must be so many.

        `within` has distances that the last of them does not exceed, if these are known.
        """
        bound = self._bound(count) if within is None else np.minimum(within, self._bound(count))
        which = np.zeros((len(self.queries), count), dtype=np.intp)
        distance = np.full((len(self.queries), count), np.inf)
        rows_of = self._blocks_within(bound)
        task = partial(self._nearest_of_block, count=count, limit=self._limit(bound))
        for rows, numbers, found in self._again(rows_of, task):
            both = np.hstack([distance[rows], found])
            first = np.argsort(both, axis=1, kind="stable")[:, :count]  # blocks come in the order of their records
            distance[rows] = np.take_along_axis(both, first, axis=1)
            which[rows] = np.take_along_axis(np.hstack([which[rows], numbers]), first, axis=1)
        return which, distance

    def rivals(self, within: Array, barred: Index | None = None) -> Rivals:
        """The nearest records of each query (of a block of records all that are equally near), none beyond `within`.

        `barred` names a record for each query that does not count, if it is one of these.
        """
        bound = np.minimum(within, self._bound(1 if barred is None else 2))
        task = partial(self._rivals_of_block, limit=self._limit(bound), barred=barred)
        return Rivals.joined(self._again(self._blocks_within(bound), task))

    def _first_look(self, part: slice) -> None:
        # With records as rows, the smallest of each column is found while they are still in the cache.
        queries = np.ascontiguousarray(self.factors[part].T)
        room = np.empty((self.table.blocks[0].stop, queries.shape[1]), dtype=queries.dtype)
        with np.errstate(invalid="ignore"):  # all factors are finite; what BLAS has beyond the last one need not be
            for number, block in enumerate(self.table.blocks):
                products = np.dot(self.table.factors[block], queries, out=room[: block.stop - block.start])
                products.min(axis=0, out=self.least[number, part])

    def _products(self, block: slice, rows: Index) -> Factors:
        return self.factors[rows] @ self.table.factors[block].T

    def _limit(self, distance: Array) -> Factors:
        """Products above this belong to records that are farther than that."""
        limit = np.square(reach(distance)) - self.squares
        kind = self.factors.dtype.type
        above: Factors = np.nextafter(limit.astype(kind), kind(np.inf))
        return above

    def _bound(self, count: int) -> Array:
        """Distances within which each query has so many records: those that look best, one of each of the best blocks.

        Where there are fewer blocks, of the best one.
        """
        blocks = len(self.table.blocks)
        each = 1 if count <= blocks else count
        best = np.argpartition(self.least, count - 1, axis=0)[:count] if 1 < count <= blocks else self.least.argmin(0)
        where = np.atleast_2d(best)
        bound = np.zeros(len(self.queries))
        rows_of = (np.flatnonzero((where == number).any(axis=0)) for number in range(blocks))
        for rows, found in self._again(rows_of, partial(self._bound_of_block, count=each)):
            bound[rows] = np.maximum(bound[rows], found)
        return bound

    def _bound_of_block(self, block: slice, rows: Index, *, count: int) -> tuple[Index, Array]:
        if count > block.stop - block.start:
            return rows, np.full(rows.size, np.inf)
        products = self._products(block, rows)
        best = products.argmin(axis=1) if count == 1 else np.argpartition(products, count - 1, axis=1)[:, :count]
        exact = distances(self.queries, self.table.records, np.repeat(rows, count), best.ravel() + block.start)
        return rows, exact.reshape(-1, count).max(axis=1)

    def _nearest_of_block(self, block: slice, rows: Index, *, count: int, limit: Factors) -> tuple[Index, Index, Array]:
        """Some queries (`rows`), the numbers of their nearest records in a block, and distances (rows x `count`)."""
        who, which, exact = self._near(block, rows, limit)
        order = np.lexsort((exact, who))
        place = np.arange(who.size) - np.searchsorted(who, who)  # among those of the same query
        order, place, kept = order[place < count], place[place < count], who[place < count]
        numbers, found = np.zeros((rows.size, count), dtype=np.intp), np.full((rows.size, count), np.inf)
        numbers[kept, place], found[kept, place] = which[order], exact[order]
        return rows, numbers, found

    def _rivals_of_block(self, block: slice, rows: Index, *, limit: Factors, barred: Index | None) -> Rivals:
        """The nearest records in a block of some queries (`rows`); `limit` and `barred` are of all queries."""
        who, which, exact = self._near(block, rows, limit)
        if barred is not None:
            allowed = which != barred[rows[who]]
            who, which, exact = who[allowed], which[allowed], exact[allowed]
        least = np.full(rows.size, np.inf)
        np.minimum.at(least, who, exact)
        near = exact <= reach(least[who])
        return Rivals(rows[who[near]], exact[near], np.ones(int(near.sum()), dtype=np.intp), which[near])

    def _near(self, block: slice, rows: Index, limit: Factors) -> tuple[Index, Index, Array]:
        """Pairs (place in `rows`, record) that may be within the limit, and their distances."""
        products = self._products(block, rows)
        # One index for both is found ten times faster than two.
        who, which = np.divmod(np.flatnonzero(products <= limit[rows, None]), products.shape[1])
        which += block.start
        return who, which, distances(self.queries, self.table.records, rows[who], which)

    def _blocks_within(self, distance: Array) -> Iterator[Index]:
        """For each block, the queries that may have a record there within the distance."""
        limit = self._limit(distance)
        return (np.flatnonzero(bounds <= limit) for bounds in self.least)

    def _again(self, rows_of: Iterable[Index], task: Callable[[slice, Index], Answer]) -> list[Answer]:
        """The task for each block of records and its queries, a limited number at a time."""
        return self._run(
            [
                partial(task, block, rows[part])
                for block, rows in zip(self.table.blocks, rows_of, strict=True)
                for part in blocks_of(rows.size, QUERIES_AGAIN)
            ]
        )

    def _run(self, tasks: list[Callable[[], Answer]]) -> list[Answer]:
        with single_threaded_blas():  # there is a thread for every task already
            return in_threads(tasks, small=not self.threads)
