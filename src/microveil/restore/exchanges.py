"""The search: rows exchange their values, pass after pass, until the second moments of features are those of a goal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Mask
from microveil.core.rng import Stream

BLOCK = 4_096
"""Rows that exchange values among themselves: their features fit in the cache."""


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

    def error(self, features: NDArray[np.float32], weights: Array) -> Array:
        """How far the second moments that are fitted to are off: features x features."""
        return np.where(self.fitted, second_moments(features, weights) - self.target, 0.0)

    def gradient(self, error: Array) -> Array:
        """Of the loss by the second moments: whitened within layers, plain elsewhere."""
        gradient = self.weight * error
        for layer, own in enumerate(self.layers):
            gradient[own, own] = self.emphasis[layer] * self.inverse[layer] @ error[own, own] @ self.inverse[layer]
        return gradient

    def losses(self, gradient: Array, error: Array) -> Array:
        """The loss of each layer, and of everything else."""
        product = gradient * error
        layers = [float(product[own, own].sum()) for own in self.layers]
        return np.array([*layers, float((product * self.weight).sum())])


@dataclass(frozen=True, repr=False)
class Rows:
    """Rows that exchange values: their weights, marks and columns that move, and where blocks start, as the compiled
    loop takes them; `mixed` rows are cut into other blocks in each pass, so that what is far apart may meet.
    """

    weights: Array
    marks: NDArray[np.uint8]
    moving: NDArray[np.int64]
    starts: NDArray[np.int64]
    mixed: bool = False


@dataclass(frozen=True, repr=False)
class Stop:
    """A search ends after so many passes, when its error is `settled`, or if no layer's loss is below the share
    `stalled` of what it was `patience` passes ago.
    """

    passes: int
    stalled: float
    patience: int
    settled: Callable[[Array], bool]


def exchange_towards(features: NDArray[np.float32], goal: Goal, rows: Rows, stop: Stop, stream: Stream) -> None:
    """Exchange values between rows (of rows x features), in their place, towards the goal."""
    from microveil.restore._arrange_kernels import exchange

    losses: list[Array] = []
    for number in range(stop.passes):
        error = goal.error(features, rows.weights)
        gradient = goal.gradient(error)
        losses.append(goal.losses(gradient, error))
        late = number >= stop.patience
        if (late and (losses[-1] > stop.stalled * losses[-1 - stop.patience]).all()) or stop.settled(error):
            break
        if rows.mixed:
            features[:] = features[stream.child("blocks").generator(number).permutation(len(features))]
        seed = stream.generator(number).integers(2**63)
        loss = (goal.inverse, gradient, goal.weight, goal.emphasis)
        exchange(features, rows.weights, rows.marks, rows.moving, loss, rows.starts, seed)


def second_moments(features: NDArray[np.float32], weights: Array) -> Array:
    """Features x features, added up in double precision."""
    total = np.zeros((features.shape[1],) * 2)
    for start in range(0, len(features), BLOCK):
        piece = features[start : start + BLOCK].astype(np.float64).T
        total += (piece * weights[start : start + BLOCK]) @ piece.T
    return total
