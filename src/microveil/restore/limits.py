"""Limits that every row keeps (one column is not above another, a rebuilt share is not below zero), by exchanges.

Each column has its values already; what is wrong is where some of them stand. A row that is beyond a limit exchanges
the value of a column with a row that can do with it. So distributions stay to the last digit, and a sum that is rebuilt
of the columns holds as before. Of the rows that would do, the one is taken that leaves the moments of values and of
ranks nearest to those of the original; then other exchanges, that break no limit, bring back what these have cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Mask
from microveil.core.fewest_records import FEWEST_RECORDS
from microveil.core.sorted_columns import mid_ranks
from microveil.core.table import Microdata
from microveil.core.tolerances import SUM_ROUND_OFF
from microveil.restore.features import standardised

CANDIDATES, MOST_CANDIDATES, TRIED = (16, 128), 8_192, 400_000
"""Rows that are tried as partners of each, least and most at first, by how many are tried in all; then four times as
many whenever nothing was found, up to the most."""

PASSES = 60
"""Rounds over all rows that are beyond a limit, at most: limits that build on each other take several."""

MENDINGS, PER_ROW, MOST = 30, 20, 200_000
"""Rounds of exchanges for the sake of moments, at most; how many are tried for each row in a round, and at most."""

MENDED = 0.5
"""Share of the squared errors of moments at which there is nothing left to mend."""

AT_ONCE = 2**18
"""Rows that are gone through at once, at most: all that is known of them is held."""

ROWS = 4_096
"""Rows whose moments are added up together."""


Places = NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class Limits:
    """`terms @ columns <= bounds` in each row: limits x columns, and limits. `seen` tells in which rows (limits x rows)
    somebody can see whether a limit is kept; None for all.
    """

    terms: Array
    bounds: Array
    seen: Mask | None = None

    @property
    def round_off(self) -> Array:
        """Share of the size of its terms by which each limit may be missed: a difference of two has the right sign."""
        plain = np.count_nonzero(self.terms, axis=1) + (self.bounds != 0) <= 2
        return np.where(plain, 0.0, SUM_ROUND_OFF)

    def excess(self, columns: Array) -> Array:
        """By how much rows of `columns` (columns x rows) are beyond each limit: limits x rows, 0 if they are not."""
        over = self.terms @ columns - self.bounds[:, None]
        sizes = np.abs(self.terms) @ np.abs(columns) + np.abs(self.bounds)[:, None]
        kept = over <= self.round_off[:, None] * sizes
        if self.seen is not None:
            kept |= ~self.seen
        return np.where(kept, 0.0, over)

    def broken(self, columns: Sequence[Array]) -> NDArray[np.intp]:
        """How many rows are beyond each limit."""
        counts = np.zeros(self.bounds.size, np.intp)
        for rows in _parts(len(columns[0])):
            here = self.of_rows(rows).excess(np.array([column[rows] for column in columns]))
            counts += np.count_nonzero(here, axis=1)
        return counts

    def of_rows(self, rows: slice) -> Limits:
        """The same for some of the rows."""
        return self if self.seen is None else replace(self, seen=self.seen[:, rows])

    def without(self, numbers: Sequence[int]) -> Limits:
        """All but some of the limits."""
        left = np.setdiff1d(np.arange(self.bounds.size), numbers)
        return Limits(self.terms[left], self.bounds[left], None if self.seen is None else self.seen[left])


@dataclass(frozen=True, repr=False)
class Arrangement:
    """Columns of values and columns of labels (rows each), of which the columns are to be brought within limits."""

    columns: Sequence[Array]
    labels: Sequence[NDArray[np.intp]]


def within_limits(
    now: Arrangement, limits: Limits, original: Microdata, present: Mask | None, generator: np.random.Generator
) -> list[Array]:
    """The columns with values exchanged between rows until every row is within the limits, or no exchange helps.

    `original` has the confidential columns and labels whose moments are the target, and public columns. Cells that are
    not `present` (rows x columns) stay. Many rows are gone through in parts: each exchanges its own values, and has the
    moments of its own rows for a target.
    """
    if not limits.broken(now.columns).any():
        return list(now.columns)
    parts = _parts(original.count)
    columns = [original.values.put_aside(column.copy()) for column in now.columns]
    for rows in parts:
        here = Arrangement([column[rows] for column in columns], [codes[rows] for codes in now.labels])
        whole = original if len(parts) == 1 else original.take(np.arange(rows.start, rows.stop))
        search = _LimitSearch(here, limits.of_rows(rows), whole, None if present is None else present[rows])
        if search.limits.broken(here.columns).any():
            search.run(generator, MOST // len(parts))
            for column, new in zip(columns, search.columns, strict=True):
                column[rows] = new
    return columns


def _parts(count: int) -> list[slice]:
    """So many rows in parts that are gone through at once."""
    return [slice(start, min(start + AT_ONCE, count)) for start in range(0, count, AT_ONCE)]


class _LimitSearch:
    """Exchanges that bring rows within limits; each is chosen by what it does to second moments."""

    def __init__(self, now: Arrangement, limits: Limits, original: Microdata, present: Mask | None) -> None:
        self.columns, self.limits = np.array(now.columns), limits
        self.width, self.count = self.columns.shape
        spread = (limits.terms @ self.columns).std(axis=1)
        scale = 1 / np.where(spread > 0, spread, 1.0)
        seen = np.empty((0, 0), np.uint8) if limits.seen is None else np.ascontiguousarray(limits.seen, np.uint8)
        self.kept = (np.ascontiguousarray(limits.terms), limits.bounds, limits.round_off, scale, seen)
        even = np.full(self.count, 1 / self.count)
        layers = _layers(now, original, present)
        target = _layers(Arrangement(original.confidential.columns, original.labels.codes), original, present)
        if original.weights is None:
            weights = [even, even]
        else:  # rank correlations that nobody weights are no target, but should not get worse either
            share = original.weights / original.weights.sum()
            layers, target, weights = [*layers, layers[1]], [*target, layers[1]], [share, share, even]
        error = [self._moments(*of) for of in zip(layers, weights, strict=True)]
        error = [now - self._moments(*of) for now, *of in zip(error, target, weights, strict=True)]
        self.moments = np.array(layers), np.array(weights), np.array(error)
        self.order = self._order(present)

    def _order(self, present: Mask | None) -> tuple[Places, Places, Places, Places]:
        """Columns that limits speak of: their rows in ascending order, places in it, sizes and numbers."""
        numbers = np.flatnonzero(np.any(self.limits.terms != 0, axis=0))
        rows, place = np.zeros((2, numbers.size, self.count), np.int64)
        place -= 1
        sizes = np.zeros(numbers.size, np.int64)
        for at, j in enumerate(numbers.tolist()):
            there = np.arange(self.count) if present is None else np.flatnonzero(present[:, j])
            sizes[at] = there.size
            rows[at, : there.size] = there[np.argsort(self.columns[j][there], kind="stable")]
            place[at, rows[at, : there.size]] = np.arange(there.size)
        return rows, place, sizes, numbers

    def _moments(self, layer: NDArray[np.float32], weights: Array) -> Array:
        """Second moments of the columns' own features with all of a layer: columns x features."""
        total = np.zeros((self.width, layer.shape[1]))
        for start in range(0, self.count, ROWS):
            piece = layer[start : start + ROWS].astype(np.float64)
            total += (piece[:, : self.width].T * weights[start : start + ROWS]) @ piece
        return total

    def run(self, generator: np.random.Generator, most: int) -> None:
        """Bring the rows within the limits, with more candidates where none was found, then the moments back.

        For these, `most` exchanges are tried in a round.
        """
        from microveil.restore._limit_kernels import mend, settle

        state, before, candidates = (self.columns, self.kept, self.moments, self.order), self._loss(), 0
        for _ in range(PASSES):
            rows = generator.permutation(np.flatnonzero(self.limits.excess(self.columns).any(axis=0)))
            if rows.size == 0 or candidates > MOST_CANDIDATES:
                break
            candidates = candidates or int(np.clip(TRIED // rows.size, *CANDIDATES))
            done = settle(*state, rows, candidates, generator.integers(2**63))
            candidates = candidates if done else 4 * candidates
        for _ in range(MENDINGS):
            if self._loss() <= MENDED * before:
                break
            mend(*state, min(PER_ROW * self.count, most), generator.integers(2**63))

    def _loss(self) -> float:
        return float(np.square(self.moments[2]).sum())


def _layers(now: Arrangement, original: Microdata, present: Mask | None) -> list[NDArray[np.float32]]:
    """Features of values and of ranks, rows x features each: of the columns, then of all that stays.

    That is a constant where weights make means move, public columns, and levels of labels. A missing cell has 0.
    """
    stay = [] if original.weights is None else [np.ones(original.count)]
    stay += [np.asarray(standardised(column)) for column in original.values.columns[: original.public]]
    for codes in now.labels:
        shares = np.bincount(codes) / codes.size
        stay += [
            ((codes == level) - shares[level]) / np.sqrt(shares[level])
            for level in np.flatnonzero(shares * codes.size >= FEWEST_RECORDS)
        ]
    layers = []
    for of in (np.asarray, mid_ranks):
        layer = np.zeros((original.count, len(now.columns) + len(stay)), np.float32)
        for j, column in enumerate(now.columns):
            there = slice(None) if present is None else present[:, j]
            layer[there, j] = standardised(of(column[there]))
            if of is np.asarray and original.weights is not None:  # variances move with weights: in units of the target
                layer[there, j] = _by_target(
                    column[there], original.confidential.columns[j][there], original.weights[there]
                )
        for at, feature in enumerate(stay, len(now.columns)):
            layer[:, at] = feature
        layers.append(layer)
    return layers


def _by_target(column: Array, target: Array, weights: Array) -> Array:
    """A column less the weighted mean of the target, over its weighted standard deviation."""
    mean = np.average(target, weights=weights)
    spread = np.sqrt(np.average(np.square(target - mean), weights=weights))
    return (column - mean) / (spread if spread > 0 else 1.0)
