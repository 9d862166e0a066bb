"""The second and the third step: a random start, and exchanges of values towards the targets. Neither sees a record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Index
from microveil.core.rng import Stream, Streams
from microveil.private.consistent import consistent, layers_of, normal_root, roots_of
from microveil.private.moments import RANKS, SHAPES, VALUES
from microveil.private.targets import Targets
from microveil.restore.exchanges import Goal, Rows, Stop, exchange_towards

PROPOSALS, MOST_PASSES, FEWEST_PASSES, STALLED, PATIENCE = 30_000_000, 150, 6, 0.98, 4
"""Exchanges tried at most, in passes over all cells; the search ends when so many passes brought no loss below this
share of what it was: that is where the noise is."""

CLOSE = 0.25
"""Largest error of a moment, in standard deviations of its noise or of sampling, at which nothing is left to do."""

EMPHASIS = {"wave 1": 16.0, "value": 16.0, "wave 2": 4.0, "wave 3": 4.0}
"""How much the layers count, where a single moment counts 1."""

RIDGE = 1e-3
"""Least share of variance of a direction that the search looks at; it grows with the noise."""


@dataclass(frozen=True, repr=False)
class Synthetic:
    """Columns of a release: amounts, and the levels of categories."""

    amounts: dict[str, Array]
    categories: dict[str, Index]


def synthesised(targets: Targets, rows: int, streams: Streams) -> Synthetic:
    """So many records with the distributions and the moments of the targets."""
    generator = streams.stream("values").generator()
    values = {name: found.drawn(rows, generator) for name, found in targets.distributions.items()}
    levels = {name: _stratified(share, rows, generator) for name, share in targets.shares.items()}
    started = _started(targets, values, generator)
    if not (targets.moments and rows > 1):
        return Synthetic(started, levels)
    return _NoisySearch(targets, started, levels).found(streams.stream("exchanges"))


def _stratified(shares: Array, rows: int, generator: np.random.Generator) -> Index:
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

    def __init__(self, targets: Targets, amounts: dict[str, Array], levels: dict[str, Index]) -> None:
        self.targets, self.amounts, self.levels = targets, amounts, levels
        self.rows, width = len(next(iter([*amounts.values(), *levels.values()]))), len(amounts)
        self.layers = layers_of(targets)
        features, owner = self._features()
        within = np.where(owner[:, None] == owner, features.T @ features / self.rows, 0.0)
        found = consistent(targets, within)
        self.close = np.where(found.weight > 0, np.maximum(found.noise, 1 / np.sqrt(self.rows)), np.inf)
        weight, inverse = found.weight.copy(), np.zeros((len(self.layers), width, width))
        own = [slice(k * width, (k + 1) * width) for k in range(len(self.layers))]
        groups = {"wave 1": RANKS, "value": VALUES}
        for at, (name, layer) in enumerate(zip(self.layers, own, strict=True)):
            ridge = max(RIDGE, 2 * targets.noise.get(groups.get(name, SHAPES), 0.0) * np.sqrt(width))
            inverse[at] = np.linalg.inv(found.target[layer, layer] + ridge * np.eye(width))
            weight[layer, layer] = 0.0
        emphasis = np.array([EMPHASIS[layer] for layer in self.layers])
        self.goal = Goal(found.target, found.weight > 0, weight, own, inverse, emphasis)
        self.features = np.ascontiguousarray(features, np.float32)

    def _features(self) -> tuple[Array, Index]:
        """Centred features of the release (layers of amounts, levels over their roots), and the column of each."""
        found, owner = [], []
        for layer in self.layers:
            for at, (name, values) in enumerate(self.amounts.items()):
                distribution = self.targets.distributions[name]
                if layer == "value":
                    mean, sd = distribution.mean_and_sd
                    found.append(np.clip((values - mean) / sd, -self.targets.cut_off, self.targets.cut_off))
                else:
                    ranks = distribution.ranks(distribution.scale.cells_of(values))
                    found.append(np.sqrt(2) * np.cos(np.pi * int(layer[-1]) * (1 - ranks)))
                owner.append(at)
        for at, (codes, share) in enumerate(zip(self.levels.values(), self.targets.shares.values(), strict=True)):
            for level, root in enumerate(roots_of(share)):
                found.append((codes == level) / root)
                owner.append(len(self.amounts) + at)
        features = np.column_stack(found)
        return features - features.mean(axis=0), np.array(owner, np.intp)

    @property
    def _moving(self) -> NDArray[np.int64]:
        """Columns x (place in the layers, or -1; first and last level), for the compiled loop."""
        found, place = [[j, 0, 0] for j in range(len(self.amounts))], len(self.layers) * len(self.amounts)
        for share in self.targets.shares.values():
            found.append([-1, place, place + share.size])
            place += share.size
        return np.array(found, np.int64).reshape(-1, 3)

    def _errors(self, error: Array) -> Array:
        """The largest error of a moment in each layer, and of a single one, in units of the noise."""
        return self.goal.by_part(np.abs(error) / self.close, np.max)

    def found(self, stream: Stream) -> Synthetic:
        """The values and the levels where the exchanges bring their features: pass after pass, until the moments are
        near, or the loss no longer falls.
        """
        moving = self._moving
        weights, marks = np.full(self.rows, 1 / self.rows), np.empty((0, len(moving)), np.uint8)
        passes = int(np.clip(PROPOSALS // (self.rows * len(moving)), FEWEST_PASSES, MOST_PASSES))
        stop = Stop(passes, PATIENCE, self._errors, settled=CLOSE, large=CLOSE, slowly=STALLED)
        exchange_towards(self.features, self.goal, Rows(weights, marks, moving, mixed=True), stop, stream)
        amounts = {}
        for j, (name, values) in enumerate(self.amounts.items()):  # the first wave rises with the value
            amounts[name] = np.empty_like(values)
            amounts[name][np.argsort(self.features[:, j], kind="stable")] = np.sort(values)
        blocks = zip(self.levels, moving[len(amounts) :, 1:], strict=True)
        levels = {name: self.features[:, first:last].argmax(axis=1) for name, (first, last) in blocks}
        return Synthetic(amounts, levels)
