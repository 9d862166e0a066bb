"""The second and the third step: a random start, and exchanges of values towards the targets. Neither sees a record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.rng import Streams
from microveil.private.consistent import consistent, layers_of, normal_root, roots_of
from microveil.private.moments import CUT_OFF, RANKS, SHAPES, VALUES
from microveil.private.targets import Targets

PROPOSALS, MOST_PASSES, FEWEST_PASSES, STALLED, PATIENCE = 30_000_000, 150, 6, 0.98, 4
"""Exchanges tried at most, in passes over all cells; the search ends when so many passes did not bring the loss below
this share of what it was."""

CLOSE = 0.25
"""Largest error of a moment, in standard deviations of its noise or of sampling, at which nothing is left to do."""

BLOCK = 4_096
"""Rows that exchange values among themselves: their features fit in the cache."""

EMPHASIS = {"wave 1": 16.0, "value": 16.0, "wave 2": 4.0, "wave 3": 4.0}
"""How much the layers count beside single moments."""

RIDGE = 1e-3
"""Least share of variance of a direction that the search looks at; it grows with the noise."""


@dataclass(frozen=True, repr=False)
class Synthetic:
    """Columns of a release: amounts, and the levels of categories."""

    amounts: dict[str, Array]
    categories: dict[str, NDArray[np.intp]]


def synthesised(targets: Targets, rows: int, streams: Streams) -> Synthetic:
    """So many records with the distributions and the moments of the targets."""
    generator = streams.stream("values").generator()
    values = {name: found.drawn(rows, generator) for name, found in targets.distributions.items()}
    levels = {name: _stratified(share, rows, generator) for name, share in targets.shares.items()}
    started = _started(targets, values, generator)
    if not (targets.moments and rows > 1):
        return Synthetic(started, levels)
    search = _NoisySearch(targets, started, levels)
    search.run(streams)
    return search.found()


def _stratified(shares: Array, rows: int, generator: np.random.Generator) -> NDArray[np.intp]:
    """Levels with these shares, as nearly as whole numbers can be, in a random order."""
    at = (np.arange(rows) + generator.random()) / rows
    found = np.searchsorted(np.cumsum(shares)[:-1], at, side="right")
    return generator.permutation(found).astype(np.intp)


def _started(targets: Targets, values: dict[str, Array], generator: np.random.Generator) -> dict[str, Array]:
    """Amounts in the order of normal deviates that have the noisy rank correlations."""
    if RANKS not in targets.moments:
        return {name: generator.permutation(column) for name, column in values.items()}
    rows, root = len(next(iter(values.values()))), normal_root(targets)
    normal = generator.standard_normal((rows, len(values))) @ root.T
    found = {}
    for j, (name, column) in enumerate(values.items()):
        found[name] = np.empty(rows)
        found[name][np.argsort(normal[:, j], kind="stable")] = column
    return found


class _NoisySearch:
    """Exchanges of values between records of the release, until their moments are those of the targets."""

    def __init__(self, targets: Targets, amounts: dict[str, Array], levels: dict[str, NDArray[np.intp]]) -> None:
        self.targets, self.amounts, self.levels = targets, amounts, levels
        self.rows, self.width = len(next(iter([*amounts.values(), *levels.values()]))), len(amounts)
        self.layers = layers_of(targets)
        features, owner = self._features()
        within = np.where(owner[:, None] == owner, features.T @ features / self.rows, 0.0)
        goal = consistent(targets, within)
        own = [slice(k * self.width, (k + 1) * self.width) for k in range(len(self.layers))]
        self.target = goal.target
        self.weight = goal.weight.copy()
        self.close = np.where(goal.weight > 0, np.maximum(goal.noise, 1 / np.sqrt(self.rows)), np.inf)
        ridges = [max(RIDGE, 2 * noise * np.sqrt(self.width)) for noise in self._layer_noise()]
        self.inverse = np.zeros((len(own) + 1, self.width, self.width))
        for at, (layer, ridge) in enumerate(zip(own, ridges, strict=True)):
            self.inverse[at] = np.linalg.inv(goal.target[layer, layer] + ridge * np.eye(self.width))
            self.weight[layer, layer] = 0.0
        self.own = own
        self.emphasis = np.array([*(EMPHASIS[layer] for layer in self.layers), 0.0])
        self.features = self._with_places(features)

    def _layer_noise(self) -> list[float]:
        """The noise of the moments within each layer."""
        groups = {"wave 1": RANKS, "value": VALUES}
        return [self.targets.noise.get(groups.get(layer, SHAPES), 0.0) for layer in self.layers]

    def _features(self) -> tuple[Array, NDArray[np.intp]]:
        """Centred features of the release (layers of amounts, levels over their roots), and the column of each."""
        found, owner = [], []
        for layer in self.layers:
            for at, (name, values) in enumerate(self.amounts.items()):
                distribution = self.targets.distributions[name]
                if layer == "value":
                    mean, sd = distribution.mean_and_sd
                    found.append(np.clip((values - mean) / sd, -CUT_OFF, CUT_OFF))
                else:
                    ranks = distribution.ranks(distribution.scale.cells_of(values))
                    found.append(np.sqrt(2) * np.cos(np.pi * int(layer[-1]) * (1 - ranks)))
                owner.append(at)
        for at, codes in enumerate(self.levels.values(), self.width):
            share = list(self.targets.shares.values())[at - self.width]
            for level, root in enumerate(roots_of(share)):
                found.append((codes == level) / root)
                owner.append(at)
        features = np.column_stack(found)
        return features - features.mean(axis=0), np.array(owner, np.intp)

    def _with_places(self, features: Array) -> NDArray[np.float32]:
        """Features with a layer that tells where each value is, after the others of the amounts."""
        layered = len(self.layers) * self.width
        rows = np.repeat(np.arange(self.rows)[:, None], self.width, axis=1)
        return np.ascontiguousarray(np.hstack([features[:, :layered], rows, features[:, layered:]]), np.float32)

    def run(self, streams: Streams) -> None:
        """Pass after pass until the loss no longer falls, which is where the noise is."""
        from microveil.restore._arrange_kernels import exchange

        moving = self._moving()
        passes = int(np.clip(PROPOSALS // (self.rows * len(moving)), FEWEST_PASSES, MOST_PASSES))
        starts = np.append(np.arange(0, self.rows, BLOCK), self.rows).astype(np.int64)
        weights, marks = np.full(self.rows, 1 / self.rows), np.empty((0, len(moving)), np.uint8)
        layered, losses = len(self.layers) * self.width, []
        real = np.delete(np.arange(self.features.shape[1]), np.arange(layered, layered + self.width))
        singles = np.zeros((self.features.shape[1],) * 2)
        singles[np.ix_(real, real)] = self.weight
        for number in range(passes):
            error = self._second_moments(real) - self.target
            gradient = self.weight * error
            for at, own in enumerate(self.own):
                gradient[own, own] = self.emphasis[at] * self.inverse[at] @ error[own, own] @ self.inverse[at]
            losses.append(float((gradient * error).sum()))
            stalled = number >= PATIENCE and losses[-1] > STALLED * losses[-1 - PATIENCE]
            if stalled or (np.abs(error) <= CLOSE * self.close).all():
                break
            full = np.zeros_like(singles)
            full[np.ix_(real, real)] = gradient
            # Rows are cut into other blocks each time: what is far apart may meet.
            order = streams.stream("blocks", number).generator().permutation(self.rows)
            self.features = np.ascontiguousarray(self.features[order])
            seed = streams.stream("exchanges", number).generator().integers(2**63)
            exchange(self.features, weights, marks, moving, (self.inverse, full, singles, self.emphasis), starts, seed)
        self.losses = losses

    def _moving(self) -> NDArray[np.int64]:
        """Columns x (place in the layers, or -1; first and last level), for the compiled loop."""
        place = (len(self.layers) + 1) * self.width
        found = [[j, 0, 0] for j in range(self.width)]
        for share in self.targets.shares.values():
            found.append([-1, place, place + share.size])
            place += share.size
        return np.array(found, np.int64).reshape(-1, 3)

    def _second_moments(self, real: NDArray[np.intp]) -> Array:
        total = np.zeros((real.size, real.size))
        for start in range(0, self.rows, BLOCK):
            piece = self.features[start : start + BLOCK][:, real].astype(np.float64)
            total += piece.T @ piece
        return total / self.rows

    def found(self) -> Synthetic:
        """The values and the levels where their features are."""
        at = len(self.layers) * self.width
        amounts = {
            name: values[self.features[:, at + j].astype(np.intp)]
            for j, (name, values) in enumerate(self.amounts.items())
        }
        blocks = zip(self.levels, self._moving()[self.width :, 1:], strict=True)
        levels = {name: self.features[:, first:last].argmax(axis=1) for name, (first, last) in blocks}
        return Synthetic(amounts, levels)
