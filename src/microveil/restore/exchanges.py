"""The search: rows exchange their values, pass after pass, until the second moments of features are those of a goal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Mask
from microveil.core.rng import Stream

BLOCK = SMALL = 4_096
"""Rows that exchange values among themselves: their features fit in the cache. And rows of a small table."""

FAST = 0.5
"""To which share of itself a loss has to fall where errors are small already."""


class RemoteFeatures(Protocol):
    """Features of rows that are too many to be held (rows x features): read in parts."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and features."""

    def parts(self, starts: NDArray[np.int64] | None = None) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """The first row of each part, and its features.

        With the `starts` of blocks, parts are of whole blocks, whose features may change, and are kept so.
        """

    def __getitem__(self, where: tuple[slice, int]) -> NDArray[np.float32]:
        """A feature of all rows."""

    def __setitem__(self, where: tuple[slice, int], values: Array | NDArray[np.float32] | float) -> None:
        """Put a feature of all rows into its place."""

    def shorten(self, width: int) -> None:
        """Give back the room of all features but so many, the first ones."""


Features = NDArray[np.float32] | RemoteFeatures
"""Rows x features, held or not."""


@dataclass(frozen=True, repr=False)
class Goal:
    """Second moments between features (all features x features), and how much each counts.

    Within the `layers` (one feature of all numbers) errors count in units of the target, by `inverse` (layers x values
    x values) and `emphasis`; others, as `weight` says. Only moments that are `fitted` count at all.
    """

    target: Array
    fitted: Mask
    weight: Array
    layers: Sequence[slice]
    inverse: Array
    emphasis: Array

    def error(self, moments: Array) -> Array:
        """How far second moments are off, where they are fitted to: features x features."""
        return np.where(self.fitted, moments - self.target, 0.0)

    def gradient(self, error: Array) -> Array:
        """Of the loss by the second moments: whitened within layers, plain elsewhere."""
        gradient = self.weight * error
        for layer, own in enumerate(self.layers):
            gradient[own, own] = self.emphasis[layer] * self.inverse[layer] @ error[own, own] @ self.inverse[layer]
        return gradient

    def by_part(self, values: Array, how: Callable[[Array], float]) -> Array:
        """A figure of the values (features x features) within each layer, and one of the single moments."""
        single = values[self.weight > 0]
        return np.array([*(how(values[own, own]) for own in self.layers), how(single) if single.size else 0.0])


@dataclass(frozen=True, repr=False)
class Rows:
    """Rows that exchange values: their weights, marks and columns that move, as the compiled loop takes them, and
    borders that no exchange crosses; `mixed` rows are put into another order in each pass, so that what is far apart
    may meet.
    """

    weights: Array
    marks: NDArray[np.uint8]
    moving: NDArray[np.int64]
    borders: Sequence[int] = ()
    mixed: bool = False


@dataclass(frozen=True, repr=False)
class Stop:
    """When a search ends: after so many passes, or when no layer, nor the single moments, are worth another pass.

    They are, while their largest error (`errors` of the errors of all moments, one for each layer and one for single
    moments) is above `settled` and their loss falls: in `patience` passes to the share `slowly`, if the error is above
    `large`, else to a half.
    """

    passes: int
    patience: int
    errors: Callable[[Array], Array]
    settled: Array | float
    large: Array | float
    slowly: float = 0.9

    def reached(self, losses: Sequence[Array], errors: Array) -> bool:
        """Given the losses of each layer and of single moments after each pass, and their largest errors now."""
        open_parts = errors > self.settled
        if len(losses) > self.patience:
            enough = np.where(errors > self.large, self.slowly, FAST)
            open_parts &= losses[-1] < enough * losses[-1 - self.patience]
        return not open_parts.any()


def exchange_towards(features: Features, goal: Goal, rows: Rows, stop: Stop, stream: Stream) -> Array:
    """Exchange values between rows, in their place, towards the goal; the second moments that come of it.

    Blocks start elsewhere in each pass, so that rows exchange with others than before.
    """
    losses: list[Array] = []
    moments = second_moments(features, rows.weights)
    for number in range(stop.passes):
        error = goal.error(moments)
        gradient = goal.gradient(error)
        losses.append(goal.by_part(gradient * error, np.sum))
        if stop.reached(losses, stop.errors(error)):
            break
        drawn, shift = stream.child("blocks").generator(number), 0
        if rows.mixed and isinstance(features, np.ndarray):
            features[:] = features[drawn.permutation(len(features))]
        else:
            shift = int(drawn.integers(BLOCK))
        starts = block_starts(features.shape[0], rows.borders, shift)
        seeds = stream.generator(number).integers(2**63, size=starts.size - 1, dtype=np.uint64)
        loss = (goal.inverse, gradient, goal.weight, goal.emphasis)
        moments = _one_pass(features, rows, loss, starts, seeds)
    return moments


def _one_pass(
    features: Features,
    rows: Rows,
    loss: tuple[Array, Array, Array, Array],
    starts: NDArray[np.int64],
    seeds: NDArray[np.uint64],
) -> Array:
    """Exchanges in all blocks, part by part, with the gradient of the whole carried along.

    Args:
        features: rows x features, which change.
        rows: what else is known of the rows.
        loss: as in `exchange`.
        starts: where blocks start, and the number of rows.
        seeds: one for each block.

    Returns the second moments then, features x features.
    """
    from microveil.restore._arrange_kernels import exchange

    total, small = np.zeros((features.shape[1],) * 2), features.shape[0] <= SMALL
    for first, part in parts_of(features, starts):
        here = slice(first, first + len(part))
        own = slice(*np.searchsorted(starts, [here.start, here.stop]))
        blocks = np.ascontiguousarray(starts[own.start : own.stop + 1] - first)
        weights = np.ascontiguousarray(rows.weights[here])
        exchange(part, weights, rows.marks[here], rows.moving, loss, blocks, seeds[own], small)
        _add_moments(total, part, weights, blocks)
    return (total + total.T) / 2


def block_starts(count: int, borders: Sequence[int], shift: int) -> NDArray[np.int64]:
    """Where blocks of so many rows start, none of which crosses a border, and the number of rows.

    All but the first start later by `shift` rows, less than a block. Short ends go with the blocks beside them: few
    rows cannot be brought to all the moments by themselves.
    """
    second = shift + BLOCK if shift < BLOCK // 2 or count <= BLOCK + BLOCK // 2 else shift
    return np.union1d(np.arange(second, count - BLOCK // 2, BLOCK), [0, *borders, count]).astype(np.int64)


def parts_of(features: Features, starts: NDArray[np.int64] | None = None) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """The first row of each part of the rows, and its features; those that are held are one part."""
    return iter([(0, features)]) if isinstance(features, np.ndarray) else features.parts(starts)


def blocks_of(features: Features) -> Iterator[NDArray[np.float32]]:
    """The features, a block of rows at a time."""
    for _, part in parts_of(features):
        for start in range(0, len(part), BLOCK):
            yield part[start : start + BLOCK]


def second_moments(features: Features, weights: Array) -> Array:
    """Features x features: blocks in single precision, added up in double."""
    total = np.zeros((features.shape[1],) * 2)
    for first, part in parts_of(features):
        blocks = np.append(np.arange(0, len(part), BLOCK), len(part))
        _add_moments(total, part, weights[first : first + len(part)], blocks)
    return (total + total.T) / 2


def _add_moments(total: Array, part: NDArray[np.float32], weights: Array, starts: NDArray[np.int64]) -> None:
    """Add the products of some rows to a total (features x features), block by block; `starts` has their end, too."""
    for start, stop in pairwise(starts.tolist()):
        piece = part[start:stop]
        total += (piece * weights[start:stop, None].astype(np.float32)).T @ piece


def power_sums(features: Features, own: slice) -> Array:
    """The sums of squares and of fourth powers of some features: 2 x features."""
    total = np.zeros((2, len(range(*own.indices(features.shape[1])))))
    for block in blocks_of(features):
        squares = np.square(block[:, own].astype(np.float64))
        total += squares.sum(axis=0), np.square(squares).sum(axis=0)
    return total
