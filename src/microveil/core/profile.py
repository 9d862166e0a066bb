"""The profile of a table: moments, extremes and a fingerprint, in one pass over the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from microveil.core.arrays import Array
from microveil.core.moments import Moments, Pieces, first_mean, moments
from microveil.core.threads import rows_per_piece

_MULTIPLIER = 0x9E3779B97F4A7C15  # 2^64 / golden ratio, the usual odd constant for mixing


@dataclass(frozen=True, repr=False)
class Profile:
    """What one pass over the rows tells. Moments are NaN in columns with missing cells, extremes pass them over."""

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
    """The profile of so many rows and columns, which are read in one pass; `weights` (rows) are for the moments."""
    profiler = _Profiler(pieces_of, count, columns)
    with np.errstate(over="ignore", invalid="ignore"):
        shift = first_mean(pieces_of, count)
        summary = moments(profiler, count, weights=weights, shift=shift)
        minimum, maximum = np.fmin.reduce(profiler.minimum), np.fmax.reduce(profiler.maximum)
    return Profile(summary, minimum, maximum, int(np.add.reduce(profiler.hashes)))
