"""Linkage with released records that pass by: some originals are held, and all released records compete for them.

The search is exact, and gives what `neighbours` would. Space is cut into cells, between quantiles of the columns. What
is nearest so far (the own record, to begin with) bounds the search: only queries that are nearer to a cell than that
can have a rival in it, and these few are multiplied with its records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.rng import Streams
from microveil.core.table import Matrix
from microveil.core.threads import in_threads, single_threaded_blas, worker_count
from microveil.measures.base import Estimate, over_rows, scales, standardised
from microveil.measures.nearest.distances import Index, blocks_of, distances, reach
from microveil.measures.nearest.neighbours import ROUND_OFF, Links
from microveil.measures.nearest.standardisation import axes_of, known_together
from microveil.measures.risk.interval import evenly, reading, strangers, told, told_by_own
from microveil.measures.risk.proportions import sampled_rows, share_of

BITS = 10
"""Cells are two to this power: with more, calls would cost more than they save."""

ROWS, CELLS = 2**18, 2**23
"""Released records that are looked at together; with many columns or threads fewer, as they take three copies of their
cells and all threads no more than three times so many."""

FIRST = 2**14
"""Released records, drawn at random, that borders and first bounds are taken from."""

MOST_BOUNDS = 2**24
"""Pairs (query, cell) at most, whose distances are held."""

AT_ONCE = 256
"""Queries that are multiplied at once."""

NOBODY = np.empty(0, dtype=np.intp)


def linked(
    original: Matrix, released: Matrix, *, seed: int | None, sample: int, axes: Array | None = None
) -> tuple[Index, Links]:
    """Some originals drawn at random (all, if there are no more), and what each is linked to.

    Distances are in standard deviations of the original, or along `axes` of columns in these units.
    """
    tried = sampled_rows(original.shape[0], seed, pairs=0, fewest=sample)
    before, own = standardised(original, released, tried)
    search = LinkageSearch.of(
        _turned(before, axes), _turned(own, axes), ReleasedRecords.of(original, released, axes), seed
    )
    with single_threaded_blas():
        found = search.run()
    return tried, Links(found.nearest, np.where(known_together(before, own), found.credit, 0.0))


def dbrl(original: Matrix, released: Matrix, *, seed: int | None = None, sample: int) -> Estimate:
    """`dbrl` of some of the originals."""
    tried, links = linked(original, released, seed=seed, sample=sample)
    return _share(original, tried, links)


def mahalanobis_linkage(original: Matrix, released: Matrix, *, seed: int | None = None, sample: int) -> Estimate:
    """`mahalanobis_linkage` of some of the originals."""
    tried, links = linked(original, released, seed=seed, sample=sample, axes=_whitening(original))
    return _share(original, tried, links)


def interval_disclosure(original: Matrix, released: Matrix, *, seed: int | None = None, sample: int) -> Estimate:
    """`interval_disclosure` of some of the originals."""
    tried, links = linked(original, released, seed=seed, sample=sample)
    some, others = evenly(tried), strangers(original, released)
    chance = told(original, others, some, _nearest_others(original, others, some, seed), among=True)
    return reading(original, tried, told(original, released, tried, links.nearest), chance)


def interval_disclosure_own(original: Matrix, released: Matrix, *, seed: int | None = None, sample: int) -> Estimate:
    """`interval_disclosure_own` of some of the originals."""
    tried = sampled_rows(original.shape[0], seed, pairs=0, fewest=sample)
    return told_by_own(original, released, tried)


ATTACKS: dict[str, Callable[..., Estimate]] = {
    "dbrl": dbrl,
    "mahalanobis_linkage": mahalanobis_linkage,
    "interval_disclosure": interval_disclosure,
    "interval_disclosure_own": interval_disclosure_own,
}
"""The attacks of these ids, on records that pass by."""


def _nearest_others(original: Matrix, others: Matrix, some: Index, seed: int | None) -> Index:
    """The nearest of the others to some of the originals, which stand among them: none is linked to itself."""
    queries = _turned(standardised(original, others, some)[0], None)
    search = LinkageSearch.of(queries, None, ReleasedRecords.of(original, others, None), seed, barred=some)
    with single_threaded_blas():
        return search.run().nearest


def _share(original: Matrix, tried: Index, links: Links) -> Estimate:
    count = original.shape[0]
    return share_of(links.hits, tried.size, chance=1 / count, of=count)


def _whitening(original: Matrix) -> Array:
    """The axes of the original on which columns have unit variance and no correlation."""

    def products(cells: Array, _: Array) -> Array:
        there = np.nan_to_num(cells)
        return there @ there.T

    total: Array = np.sum(over_rows(original, original, products), axis=0)
    return axes_of(total / original.shape[0])


def _turned(values: Array, axes: Array | None) -> Array:
    """Missing cells in the middle, and turned onto the axes if there are any."""
    filled = np.nan_to_num(values)
    return filled if axes is None else filled @ axes


@dataclass(frozen=True, repr=False)
class ReleasedRecords:
    """Released records in the units of the search, piece by piece."""

    table: Matrix
    mean: Array
    sd: Array
    axes: Array | None

    @classmethod
    def of(cls, original: Matrix, released: Matrix, axes: Array | None) -> ReleasedRecords:
        """In standard deviations of the original."""
        units = scales(original, needed=True)
        mean, sd = (np.array(values) for values in zip(*units.values(), strict=True))
        return cls(released.select(list(units)), mean, sd, axes)

    @property
    def count(self) -> int:
        """The number of records."""
        return self.table.shape[0]

    def cells(self, rows: slice) -> Array:
        """Some of them in a row, columns x rows."""
        values = self.table.piece(rows) - self.mean[:, None]
        values /= self.sd[:, None]
        holes = np.isnan(values)
        if holes.any():
            values[holes] = 0.0
        return values if self.axes is None else self.axes.T @ values

    def rows(self, which: Index) -> Array:
        """Some of them from all over the file, rows x columns."""
        return _turned((np.column_stack([c[which] for c in self.table.columns]) - self.mean) / self.sd, self.axes)


@dataclass(frozen=True, repr=False)
class QuantileGrid:
    """Space cut between quantiles: borders of some columns, and how many digits of a cell's number each makes."""

    columns: list[int]
    borders: list[Array]
    bits: list[int]

    @classmethod
    def between(cls, some: Array, bits: int) -> QuantileGrid:
        """Cells with about as many of these records in each; columns that vary most come first."""
        width = min(some.shape[1], bits)
        columns = np.argsort(-some.var(axis=0), kind="stable")[:width].tolist()
        each = [bits // width + (place < bits % width) for place in range(width)]
        shares = [np.arange(1, 2**bit) / 2**bit for bit in each]
        borders = [np.quantile(some[:, j], share) for j, share in zip(columns, shares, strict=True)]
        return cls(columns, borders, each)

    @property
    def count(self) -> int:
        """The number of cells."""
        return int(2 ** sum(self.bits))

    def of(self, records: Array) -> NDArray[np.uint16]:
        """The cell of each record; these come as columns x rows."""
        codes = np.zeros(records.shape[1], dtype=np.uint16)
        for j, borders, bit in zip(self.columns, self.borders, self.bits, strict=True):
            codes <<= bit
            if bit == 1:  # which is all there is, with ten columns or more
                codes += records[j] >= borders[0]
            else:
                codes += np.searchsorted(borders, records[j], "right").astype(np.uint16)
        return codes

    def least(self, queries: Array) -> Array:
        """Squares of the distances of queries to cells, cells x queries."""
        total = np.zeros((len(queries), 1))
        for j, borders in zip(self.columns, self.borders, strict=True):
            low, high = np.concatenate([[-np.inf], borders]), np.concatenate([borders, [np.inf]])
            at = queries[:, [j]]
            squares = np.square(np.maximum(np.maximum(low - at, at - high), 0.0))
            total = (total[:, :, None] + squares[:, None, :]).reshape(len(queries), -1)
        return np.ascontiguousarray(total.T)


@dataclass(frozen=True, repr=False)
class Rivals:
    """Released records that may be nearest: for which query, how far away, how many so far, and the first of them."""

    who: Index
    distance: Array
    copies: Index
    row: Index

    @classmethod
    def joined(cls, parts: list[Rivals], bound: Array) -> Rivals:
        """All that are within the bound of their query; those at the same distance are counted together."""
        who, distance, copies, row = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("who", "distance", "copies", "row")
        )
        near = distance <= reach(bound[who])
        who, distance, copies, row = who[near], distance[near], copies[near], row[near]
        order = np.lexsort((row, distance, who))
        who, distance, copies, row = who[order], distance[order], copies[order], row[order]
        new = np.ones(who.size, dtype=bool)
        new[1:] = (who[1:] != who[:-1]) | (distance[1:] != distance[:-1])
        group = np.cumsum(new) - 1
        return cls(who[new], distance[new], np.bincount(group, copies, int(new.sum())).astype(np.intp), row[new])


@dataclass(frozen=True, repr=False)
class LinkageSearch:
    """Queries, how far their own records are, and what nearest one is known of already.

    One record may be barred for each query: -1 for none.
    """

    queries: Array
    own_distance: Array
    bound: Array
    cells: QuantileGrid
    least: Array
    records: ReleasedRecords
    barred: Index

    @classmethod
    def of(
        cls,
        queries: Array,
        own: Array | None,
        records: ReleasedRecords,
        seed: int | None,
        *,
        barred: Index | None = None,
    ) -> LinkageSearch:
        """Cells and first bounds are taken from some released records."""
        everyone = np.arange(len(queries))
        barred = np.full(len(queries), -1) if barred is None else barred
        own_distance = np.full(len(queries), np.inf) if own is None else distances(queries, own, everyone, everyone)
        generator = Streams.from_seed(seed).stream("records for bounds").generator()
        drawn = np.sort(generator.integers(records.count, size=min(FIRST, records.count)))
        some = records.rows(drawn)
        bits = min(BITS, max(MOST_BOUNDS // len(queries), 1).bit_length() - 1, max(records.count // 64, 1).bit_length())
        cells = QuantileGrid.between(some, max(bits, 1))
        bound = np.minimum(own_distance, _nearest_distance(queries, some, drawn, barred))
        return cls(queries, own_distance, bound, cells, cells.least(queries), records, barred)

    def run(self) -> Links:
        """The nearest of all records, in pieces; the bound falls as they pass."""
        bound, at_once = self.bound, worker_count()
        rows = blocks_of(self.records.count, min(ROWS, max(CELLS // (at_once * self.queries.shape[1]), 1)))
        found = Rivals(NOBODY, np.empty(0), NOBODY, NOBODY)
        for start in range(0, len(rows), at_once):
            tasks = [partial(self._look, some, bound) for some in rows[start : start + at_once]]
            told = in_threads(tasks)
            bound = np.min([bound, *(part[1] for part in told)], axis=0)
            found = Rivals.joined([found, *(rivals for part in told for rivals in part[0])], bound)
        return self._concluded(found)

    def _concluded(self, found: Rivals) -> Links:
        """Among equally near records the intruder has to guess."""
        count = len(self.queries)
        nearest = np.full(count, np.inf)
        np.minimum.at(nearest, found.who, found.distance)
        equal = found.distance <= reach(nearest[found.who])
        first, rivals = np.full(count, self.records.count, dtype=np.intp), np.zeros(count)
        np.minimum.at(first, found.who[equal], found.row[equal])
        np.add.at(rivals, found.who[equal], found.copies[equal])
        right = self.own_distance <= reach(nearest)
        return Links(first, np.where(right, 1 / np.maximum(rivals, 1), 0.0))

    def _look(self, rows: slice, known: Array) -> tuple[list[Rivals], Array]:
        """Rivals among some rows, cell by cell, and what bounds the search after them."""
        bound, records = known.copy(), self.records.cells(rows)
        codes = self.cells.of(records)
        order = np.argsort(codes, kind="stable")
        factors, (sought, sizes) = _factors(records, order), _sought(self.queries)
        near = self.least <= np.square(reach(bound))
        found, start = [], 0
        for cell, stop in enumerate(np.cumsum(np.bincount(codes, minlength=self.cells.count)).tolist()):
            asked = np.flatnonzero(near[cell]) if stop > start else NOBODY
            for part in blocks_of(asked.size, AT_ONCE):
                who = asked[part]
                limit = np.square(reach(bound[who])) - sizes[who]
                hits = np.flatnonzero(sought[who] @ factors[:, start:stop] <= limit[:, None])
                if hits.size:
                    pair, which = np.divmod(hits, stop - start)
                    who, which = who[pair], order[start + which]
                    allowed = rows.start + which != self.barred[who]
                    who, which = who[allowed], which[allowed]
                    distance = distances(self.queries, records.T, who, which)
                    np.minimum.at(bound, who, distance)
                    found.append(Rivals(who, distance, np.ones_like(who), rows.start + which))
            start = stop
        return [Rivals.joined(found, bound)] if found else [], bound


def _factors(records: Array, order: Index) -> Array:
    """Of records (columns x rows) in some order: what makes |y|² - 2 x'y with a query, less what round-off may add."""
    width = len(records)
    factors = np.empty((width + 1, order.size))
    for column, target in zip(records, factors, strict=False):
        np.take(column, order, out=target)
    np.einsum("ij,ij->j", factors[:width], factors[:width], out=factors[width])
    factors[width] *= 1 - ROUND_OFF
    factors[:width] *= -2
    return factors


def _sought(queries: Array) -> tuple[Array, Array]:
    """Queries as they are multiplied, and |x|² to be set against the product."""
    sizes: Array = (1 - ROUND_OFF) * np.square(queries).sum(axis=1)
    return np.hstack([queries, np.ones((len(queries), 1))]), sizes


def _nearest_distance(queries: Array, records: Array, drawn: Index, barred: Index) -> Array:
    """How far the nearest of a few records is from each query, or a little more; these are the rows drawn."""
    factors, (sought, _) = _factors(records.T, np.arange(len(records))), _sought(queries)
    nearest, found = np.zeros(len(queries), dtype=np.intp), np.zeros(len(queries), dtype=bool)
    for part in blocks_of(len(queries), AT_ONCE):
        products = np.where(drawn == barred[part, None], np.inf, sought[part] @ factors)
        nearest[part], found[part] = products.argmin(axis=1), np.isfinite(products).any(axis=1)
    return np.where(found, distances(queries, records, np.arange(len(queries)), nearest), np.inf)
