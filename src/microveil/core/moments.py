"""Means and co-moments of rows that come in pieces, the same from complete pairs, and the profile of a table.

Plain sums of squares lose all digits when the mean is large against the spread; so a provisional shift (the
mean of the first piece) is taken off before anything is squared (`shifted` below), and corrected at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.threads import Room, in_threads, rows_per_piece, segments

Pieces = Callable[[slice], Array]
"""A table by pieces, whatever holds it: a slice of row numbers in, a *columns x rows* array out.

Columns run along memory, because almost everything here is done per column, and that is ten times faster so.
"""

FIRST_ROWS = 4_096
"""Rows whose mean serves as the provisional shift."""

WIDE = 500
"""Columns from which on, if there are fewer rows, rows take the place of a matrix of columns x columns."""

COLUMNS_AT_ONCE = 256
"""Columns whose covariances with all others are compared at once, where there are too many for one matrix."""


def is_wide(count: int, columns: int) -> bool:
    """Are there so many columns, and so few rows, that the rows are the smaller description of all products?"""
    return columns >= WIDE and count < columns


@dataclass(frozen=True, repr=False)
class Moments:
    """Total weight (the number of rows when unweighted), mean, and co-moment: the sum of w (x-mean)(x-mean)'.

    The mean is kept as `shift + offset`: where it is a million standard deviations away from zero, the sum has lost
    six digits that the small offset still has. Of a wide table the `deviations` w^½ (x-mean) of the rows, columns x
    rows, stand for the `products`, which are made of them where they are needed.
    """

    weight: float
    shift: Array
    offset: Array
    products: Array | None
    deviations: Array | None = None

    @property
    def comoment(self) -> Array:
        """The co-moment of all columns."""
        return self.between(slice(None), slice(None))

    def between(self, some: slice, others: slice) -> Array:
        """The co-moment of some columns with others."""
        if self.deviations is not None:
            return np.asarray(self.deviations[some] @ self.deviations[others].T, dtype=np.float64)
        if self.products is None:
            raise TypeError("moments have products or deviations")
        return self.products[some, others]

    @property
    def mean(self) -> Array:
        """The means."""
        return self.shift + self.offset

    @property
    def squares(self) -> Array:
        """The sum of the squared deviations of each column."""
        if self.deviations is not None:
            own: Array = np.einsum("ij,ij->i", self.deviations, self.deviations)
            return own
        return np.diagonal(self.comoment)

    @property
    def variance(self) -> Array:
        """Population variances (divisor: the total weight)."""
        return self.squares / self.weight

    @property
    def sd(self) -> Array:
        """Population standard deviations."""
        return np.sqrt(self.variance)

    @property
    def covariance(self) -> Array:
        """The population covariance matrix."""
        return self.comoment / self.weight

    @property
    def standardised(self) -> Array | None:
        """Where rows stand for products: columns x rows whose products with each other are the correlations."""
        return None if self.deviations is None else self.deviations / np.sqrt(self.squares)[:, None]

    def select(self, columns: list[int]) -> Moments:
        """The moments of some of the columns."""
        chosen = np.array(columns, dtype=np.intp)
        shift, offset = self.shift[chosen], self.offset[chosen]
        if self.deviations is not None:
            return Moments(self.weight, shift, offset, None, self.deviations[chosen])
        return Moments(self.weight, shift, offset, self.comoment[np.ix_(chosen, chosen)])


def moments(pieces_of: Pieces, count: int, *, weights: Array | None = None, shift: Array | None = None) -> Moments:
    """Mean and co-moment matrix of `count` rows, in one pass over what `pieces_of` gives (columns x rows).

    `weights` (rows) are survey weights; the `shift` (columns) is taken off before squaring, by default `first_mean`.
    """
    if shift is None:
        shift = first_mean(pieces_of, count)
    if is_wide(count, shift.size):
        return _wide_moments(pieces_of, count, weights, shift)

    def sums(pieces: list[slice]) -> tuple[float, Array, Array]:
        total, first, second = 0.0, np.zeros_like(shift), np.zeros((shift.size, shift.size))
        room = Room(shift.size, pieces)
        for piece in pieces:
            shifted = np.subtract(pieces_of(piece), shift[:, None], out=room.of(piece))
            weighted = shifted if weights is None else shifted * weights[piece]
            total += shifted.shape[1] if weights is None else float(weights[piece].sum())
            first += weighted.sum(axis=1)
            second += weighted @ shifted.T
        return total, first, second

    total, first, second = add_up([partial(sums, pieces) for pieces in segments(count, shift.size)])
    offset = first / total
    comoment = second - total * np.outer(offset, offset)
    return Moments(total, shift, offset, (comoment + comoment.T) / 2)


def _wide_moments(pieces_of: Pieces, count: int, weights: Array | None, shift: Array) -> Moments:
    """Moments of a wide table: all rows, which are few, stand for the products; arguments as in `moments`."""
    rows = np.empty((shift.size, count))
    for piece in (piece for pieces in segments(count, shift.size) for piece in pieces):
        np.subtract(pieces_of(piece), shift[:, None], out=rows[:, piece])
    weight = np.ones(count) if weights is None else weights
    total = float(weight.sum())
    offset = (rows * weight).sum(axis=1) / total
    rows -= offset[:, None]
    rows *= np.sqrt(weight)
    return Moments(total, shift, offset, None, rows)


def largest_gap(one: Moments, other: Moments, sd: Array) -> float:
    """The largest difference of two covariances, in standard deviations; those that are not finite count for nothing.

    A matrix of all of them would not fit into memory where columns are many, so they are compared some at a time.
    """
    worst = 0.0
    for start in range(0, sd.size, COLUMNS_AT_ONCE):
        some, others = slice(start, start + COLUMNS_AT_ONCE), slice(start, None)
        gap = one.between(some, others) / one.weight - other.between(some, others) / other.weight
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            gap = np.abs(gap, out=gap) / np.outer(sd[some], sd[others])
        worst = max(worst, float(gap[np.isfinite(gap)].max(initial=0.0)))
    return worst


def merged(parts: Sequence[Moments]) -> Moments:
    """The moments of all rows from those of some and others (Chan, Golub & LeVeque 1983), in the order given."""
    shift = parts[0].shift
    weight = np.array([part.weight for part in parts])
    # The shifts lie close together, so their differences have all the digits that the means have lost.
    offsets = np.array([(part.shift - shift) + part.offset for part in parts])
    total = float(weight.sum())
    offset = weight @ offsets / total
    apart = offsets - offset
    comoment = np.sum([part.comoment for part in parts], axis=0) + (apart.T * weight) @ apart
    return Moments(total, shift, offset, (comoment + comoment.T) / 2)


def first_mean(pieces_of: Pieces, count: int) -> Array:
    """The mean of the first piece: a provisional shift that any engine can find without a pass of its own."""
    # Contiguous, because numpy adds up in another order along strides, and the layout must not matter.
    mean: Array = np.ascontiguousarray(pieces_of(slice(0, min(count, FIRST_ROWS)))).mean(axis=1)
    return mean


def add_up(tasks: list[Callable[[], tuple[float, Array, Array]]]) -> tuple[float, Array, Array]:
    """Segments' sums, added in the order of the segments."""
    parts = in_threads(tasks)
    return (
        sum(part[0] for part in parts),
        np.sum([part[1] for part in parts], axis=0),
        np.sum([part[2] for part in parts], axis=0),
    )


@dataclass(frozen=True, repr=False)
class PairMoments:
    """Moments of a matrix with holes: column means over the cells present, and for every pair of columns the
    covariance over the rows in which both are present (each with its mean *over those rows*, the definition of
    pandas and of R's `use="pairwise.complete.obs"`, divisor aside: here the pair's total weight).
    """

    weight: Array
    mean: Array
    covariance: Array

    @classmethod
    def of_sums(cls, sums: Array, shift: Array) -> PairMoments:
        """Those of all rows, from their sums, as `pair_sums` gives them with this `shift` (columns)."""
        counts, firsts, seconds = sums
        with np.errstate(invalid="ignore", divide="ignore"):
            covariance = (seconds - firsts * firsts.T / counts) / counts
            mean = shift + np.diagonal(firsts) / np.diagonal(counts)
        return cls(counts, mean, covariance)

    @property
    def sd(self) -> Array:
        """Population standard deviations over the cells present."""
        return np.sqrt(np.diagonal(self.covariance))


class RowsAndColumns(Protocol):
    """An array of rows x columns, or what is read like one: some rows at a time, and column by column."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""

    @property
    def T(self) -> Iterable[Array]:  # noqa: N802 - as of an array
        """The columns."""

    def __getitem__(self, rows: slice) -> Array:
        """Some rows."""


def pair_moments(values: RowsAndColumns, present: Mask, *, weights: Array | None = None) -> PairMoments:
    """Moments from complete pairs; cells that are not `present` may hold anything."""
    shift = np.array(
        [column[there].mean() if there.any() else 0.0 for column, there in zip(values.T, present.T, strict=True)]
    )

    def sums(pieces: list[slice]) -> tuple[float, Array, Array]:
        total = np.zeros((3, shift.size, shift.size))
        for piece in pieces:
            total += pair_sums(values[piece], present[piece], shift, None if weights is None else weights[piece])
        return 0.0, total, np.empty(0)

    return PairMoments.of_sums(add_up([partial(sums, pieces) for pieces in segments(*present.shape)])[1], shift)


def pair_sums(values: Array, present: Mask, shift: Array, weights: Array | None = None) -> Array:
    """What some rows (`values` and `present`, rows x columns; their `weights`) add to the sums over complete pairs.

    These are 3 x columns x columns: weights, values less the `shift` (columns), and products of these.
    """
    there = present.astype(np.float64)
    filled = np.where(present, values - shift, 0.0)
    w = 1.0 if weights is None else weights[:, None]
    return np.stack([(w * there).T @ there, (w * filled).T @ there, (w * filled).T @ filled])


_MULTIPLIER = 0x9E3779B97F4A7C15  # 2^64 / golden ratio, the usual odd constant for mixing


@dataclass(frozen=True, repr=False)
class Profile:
    """What one pass over the rows finds. Moments are NaN in columns with missing cells, extremes pass them over."""

    moments: Moments
    minimum: Array
    maximum: Array
    fingerprint: int

    def extremes(self, column: int) -> tuple[float, float]:
        """The least and the largest value of a column."""
        return float(self.minimum[column]), float(self.maximum[column])

    def missing(self) -> list[int]:
        """Columns with missing cells."""
        with np.errstate(invalid="ignore"):  # a mean too large to be had; extremes refuse the column by name
            return np.flatnonzero(np.isnan(self.moments.mean)).tolist()

    def varying(self) -> list[int]:
        """Columns that are not constant (by their extremes: a variance would be blurred by round-off)."""
        return np.flatnonzero(self.maximum > self.minimum).tolist()


class _Profiler:
    """Pieces of a table, of which extremes and hashes are taken as they are read."""

    def __init__(self, pieces_of: Pieces, count: int, columns: int) -> None:
        self.rows = rows_per_piece(columns)
        pieces = -(-count // self.rows)
        self.pieces_of = pieces_of
        self.minimum = np.empty((pieces, columns))
        self.maximum = np.empty((pieces, columns))
        self.hashes = np.empty(pieces, dtype=np.uint64)
        powers = [pow(_MULTIPLIER, j + 1, 2**64) for j in range(columns)]
        self.multipliers = np.array(powers, dtype=np.uint64)

    def __call__(self, piece: slice) -> Array:
        values = np.ascontiguousarray(self.pieces_of(piece))
        number = piece.start // self.rows
        np.fmin.reduce(values, axis=1, out=self.minimum[number])
        np.fmax.reduce(values, axis=1, out=self.maximum[number])
        self.hashes[number] = self._hash(values)
        return values

    def _hash(self, values: Array) -> np.uint64:
        """The sum of a hash of each whole record: no column on its own, nor its sorted values, gives it away."""
        # Equal values must count as equal: -0.0 becomes 0.0, and every NaN the same NaN.
        plain = values + 0.0
        np.copyto(plain, np.nan, where=np.isnan(plain))
        bits = plain.view(np.uint64)
        # The halves of each number are mixed first: a sign alone would be lost in the products.
        mixed = bits >> np.uint64(32)
        mixed ^= bits
        mixed *= self.multipliers[:, None]
        records = np.add.reduce(mixed, axis=0)
        records ^= records >> np.uint64(29)
        records *= np.uint64(_MULTIPLIER)
        records ^= records >> np.uint64(32)
        total: np.uint64 = np.add.reduce(records)  # wraps around, as it should
        return total


def profile_of(pieces_of: Pieces, count: int, columns: int, weights: Array | None = None) -> Profile:
    """The profile of `count` rows, which `pieces_of` gives in one pass; `weights` (rows) are for the moments."""
    profiler = _Profiler(pieces_of, count, columns)
    with np.errstate(over="ignore", invalid="ignore"):
        summary = moments(profiler, count, weights=weights, shift=first_mean(pieces_of, count))
        minimum, maximum = np.fmin.reduce(profiler.minimum), np.fmax.reduce(profiler.maximum)
    return Profile(summary, minimum, maximum, int(np.add.reduce(profiler.hashes)))
