"""Means and co-moments of rows that come in pieces, and the same from complete pairs.

Plain sums of squares lose all digits when the mean is large against the spread; so a provisional shift (the
mean of the first piece) is taken off before anything is squared (`shifted` below), and corrected at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.threads import in_threads, segments

Pieces = Callable[[slice], Array]
"""A table by pieces, whatever holds it: a slice of row numbers in, a *columns x rows* array out.

Columns run along memory, because almost everything here is done per column, and that is ten times faster so.
"""


FIRST_ROWS = 4_096
"""Rows whose mean serves as the provisional shift."""


class Room:
    """Memory for one piece, used again for the next: asking the system for it each time costs more than the sums."""

    def __init__(self, columns: int, pieces: list[slice]) -> None:
        longest = pieces[0].stop - pieces[0].start
        self.values = np.empty((columns, longest))

    def of(self, piece: slice) -> Array:
        """As many rows of it as the piece has."""
        return self.values[:, : piece.stop - piece.start]


@dataclass(frozen=True, repr=False)
class Moments:
    """Total weight (the number of rows when unweighted), mean, and co-moment: the sum of w (x-mean)(x-mean)'.

    The mean is kept as `shift + offset`: where it is a million standard deviations away from zero, the sum has lost
    six digits that the small offset still has.
    """

    weight: float
    shift: Array
    offset: Array
    comoment: Array

    @property
    def mean(self) -> Array:
        """The means."""
        return self.shift + self.offset

    @property
    def variance(self) -> Array:
        """Population variances (divisor: the total weight)."""
        return np.diagonal(self.comoment) / self.weight

    @property
    def sd(self) -> Array:
        """Population standard deviations."""
        return np.sqrt(self.variance)

    @property
    def covariance(self) -> Array:
        """The population covariance matrix."""
        return self.comoment / self.weight

    def select(self, columns: list[int]) -> Moments:
        """The moments of some of the columns."""
        chosen = np.array(columns, dtype=np.intp)
        comoment = self.comoment[np.ix_(chosen, chosen)]
        return Moments(self.weight, self.shift[chosen], self.offset[chosen], comoment)


def moments(pieces_of: Pieces, count: int, *, weights: Array | None = None, shift: Array | None = None) -> Moments:
    """Mean and co-moment matrix of `count` rows, in one pass."""
    if shift is None:
        shift = first_mean(pieces_of, count)

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

    @property
    def sd(self) -> Array:
        """Population standard deviations over the cells present."""
        return np.sqrt(np.diagonal(self.covariance))


def pair_moments(values: Array, present: NDArray[np.bool_], *, weights: Array | None = None) -> PairMoments:
    """Moments from complete pairs; cells that are not `present` may hold anything."""
    shift = np.array(
        [column[there].mean() if there.any() else 0.0 for column, there in zip(values.T, present.T, strict=True)]
    )

    def sums(pieces: list[slice]) -> tuple[float, Array, Array]:
        m = shift.size
        counts, firsts, seconds = np.zeros((m, m)), np.zeros((m, m)), np.zeros((m, m))
        for piece in pieces:
            there = present[piece].astype(np.float64)
            filled = np.where(present[piece], values[piece] - shift, 0.0)
            w = 1.0 if weights is None else weights[piece, None]
            counts += (w * there).T @ there
            firsts += (w * filled).T @ there
            seconds += (w * filled).T @ filled
        return 0.0, counts, np.stack([firsts, seconds])

    _, counts, both = add_up([partial(sums, pieces) for pieces in segments(*values.shape)])
    firsts, seconds = both
    with np.errstate(invalid="ignore", divide="ignore"):
        covariance = (seconds - firsts * firsts.T / counts) / counts
        mean = shift + np.diagonal(firsts) / np.diagonal(counts)
    return PairMoments(counts, mean, covariance)
