"""Noisy moments made consistent: blocks shrunk by their noise, the whole brought to what moments can be.

All of it is post-processing. The result is a matrix of second moments between centred features of the release: layers
of amounts first (each a feature of every amount), then the levels of the categories over the roots of their shares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.private.moments import MEANS, RANKS, SHAPES, SPREADS, TABLES, VALUES, WAVES
from microveil.private.targets import Targets

ROUNDS = 30
"""Alternating projections on positive semidefinite matrices and on the moments that are known."""

RAREST = 0.005
"""Levels count as if their share were so much at least, so that noise on rare ones does not rule the search."""

WAVE_IN_HERMITE = {1: 0.8995, 3: 0.0752, 5: 0.0171, 7: 0.0082}
"""Squares of the coefficients of the first wave, of a normal deviate's rank, in Hermite polynomials by order."""


@dataclass(frozen=True, repr=False)
class Consistent:
    """The targets of an arrangement.

    `target` and `weight` are features x features: the moments, and how much each counts (0: not measured).
    """

    target: Array
    weight: Array
    noise: Array
    """Standard deviation of the noise of each moment, features x features; infinite where nothing was measured."""


def layers_of(targets: Targets) -> tuple[str, ...]:
    """The features of an amount: the first wave always, others if they were measured."""
    found = ["wave 1"]
    found += ["value"] if {VALUES, SPREADS} & set(targets.moments) else []
    shaped = {SHAPES, SPREADS} & set(targets.moments)
    return (*found, *([f"wave {k}" for k in range(2, WAVES + 1)] if shaped else []))


def consistent(targets: Targets, within: Array) -> Consistent:
    """The targets from noisy moments; `within` has the moments that no arrangement changes, between features of one
    column of the release, and zeros elsewhere.
    """
    amounts, layers = len(targets.distributions), layers_of(targets)
    roots = tuple(roots_of(share) for share in targets.shares.values())
    width = within.shape[0]
    starts = np.cumsum([len(layers) * amounts, *(root.size for root in roots)])
    target, variance = within.copy(), np.full((width, width), np.inf)

    def put(rows: slice | int, columns: slice | int, block: Array | float, noise: Array | float) -> None:
        target[rows, columns], variance[rows, columns] = block, noise
        target[columns, rows] = np.transpose(block)
        variance[columns, rows] = np.transpose(noise)

    at = {layer: number * amounts for number, layer in enumerate(layers)}
    for group, layer in ((RANKS, "wave 1"), (VALUES, "value")):
        if group in targets.moments:
            own = slice(at[layer], at[layer] + amounts)
            put(own, own, _spiked(targets, group) + np.diag(np.diag(within[own, own])), targets.noise[group] ** 2)
    if SHAPES in targets.moments:
        _put_shapes(targets, at, target, variance)
    known = within.copy()
    for group, layer in ((RANKS, "wave 1"), (VALUES, "value")):
        for (a, b), moment in targets.near.get(group, {}).items():
            p, q = at[layer] + a, at[layer] + b
            target[p, q] = target[q, p] = moment
            if group == RANKS:  # values far out are lost when differences are cut off, ranks have none
                known[p, q] = known[q, p] = moment
    shares = list(targets.shares.values())
    by_level = {MEANS: ["wave 1"], SPREADS: [*(f"wave {k}" for k in range(2, WAVES + 1)), "value"]}
    for group, own_layers in by_level.items():
        for (a, b), part in targets.moments.get(group, {}).items():
            share, root, noise = shares[b - amounts], roots[b - amounts], targets.noise[group]
            for layer, line in zip(own_layers, part, strict=True):
                block = _shrunk((line - line.mean())[None], noise, share.size - 1)
                rows = slice(at[layer] + a, at[layer] + a + 1)
                levels = slice(starts[b - amounts], starts[b - amounts + 1])
                put(rows, levels, block / root, (noise / root[None, :]) ** 2)
    for (a, b), part in targets.moments.get(TABLES, {}).items():
        noise, (one, other) = targets.noise[TABLES], (shares[a - amounts], shares[b - amounts])
        inner = part - part.mean(axis=0) - part.mean(axis=1, keepdims=True) + part.mean()
        block = _shrunk(inner, noise, (one.size - 1) * (other.size - 1))
        scale = np.outer(roots[a - amounts], roots[b - amounts])
        first, second = (slice(starts[c - amounts], starts[c - amounts + 1]) for c in (a, b))
        put(first, second, block / scale, (noise / scale) ** 2)
    levels_of = (np.full(root.size, amounts + k) for k, root in enumerate(roots))
    owner = np.concatenate([*[np.arange(amounts)] * len(layers), *levels_of])
    fitted = np.isfinite(variance) & (within == 0) & (owner[:, None] != owner)  # features of different columns
    values = slice(at.get("value", 0), at.get("value", 0) + (amounts if "value" in at else 0))
    others = np.delete(np.arange(width), values)
    for those in (np.arange(width)[values], others):  # what was not measured between them is left open
        square = np.ix_(those, those)
        target[square] = _possible(target[square], known[square], fitted[square])
    weight = np.where(fitted, 1.0 / (1.0 + variance / np.maximum(variance[fitted].min(initial=1.0), 1e-12)), 0.0)
    return Consistent(target, weight, np.sqrt(variance))


def roots_of(shares: Array) -> Array:
    """What the indicators of levels are divided by."""
    return np.sqrt(np.maximum(shares, RAREST))


def normal_root(targets: Targets) -> Array:
    """A root of the correlations of normal deviates whose rank correlations are the noisy ones.

    Of a normal pair with correlation r the moment of the first waves is the sum of a_k^2 r^k, with a_k the coefficients
    of the wave in (normalised) Hermite polynomials of the deviate.
    """
    amounts = len(targets.distributions)
    grid = np.linspace(-1.0, 1.0, 401)
    moments = sum(square * grid**order for order, square in WAVE_IN_HERMITE.items())
    normal = np.interp(_spiked(targets, RANKS), moments, grid) + np.eye(amounts)
    np.fill_diagonal(normal, 1.0)
    values, vectors = np.linalg.eigh(normal)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    unit: Array = root / np.sqrt(np.maximum(np.square(root).sum(axis=1, keepdims=True), 1e-12))
    return unit


def _put_shapes(targets: Targets, at: Mapping[str, int], target: Array, variance: Array) -> None:
    """The moments between all waves of two amounts; those of the first two waves are averaged with the ranks'."""
    noise = targets.noise[SHAPES] ** 2
    for (a, b), part in targets.moments[SHAPES].items():
        for k in range(WAVES):
            for h in range(WAVES):
                p, q = at[f"wave {k + 1}"] + a, at[f"wave {h + 1}"] + b
                known = 0 < variance[p, q] < np.inf
                trust = variance[p, q] / (variance[p, q] + noise) if known else 1.0
                target[p, q] = target[q, p] = trust * part[k, h] + (1 - trust) * target[p, q]
                variance[p, q] = variance[q, p] = trust * noise


def _spiked(targets: Targets, group: str) -> Array:
    """The moments of a group with one for each pair of amounts, amounts x amounts, without what is noise: eigenvalues
    shrunk as is best for a few strong directions among independent noise (Gavish and Donoho 2017, for symmetric
    matrices). Those of amounts that are nearly alike are as they were found.
    """
    full = np.zeros((len(targets.distributions),) * 2)
    for (a, b), part in targets.moments[group].items():
        full[a, b] = full[b, a] = part[0, 0]
    values, vectors = np.linalg.eigh(full)
    edge = 2 * targets.noise[group] * np.sqrt(len(full))
    kept = np.sign(values) * np.sqrt(np.maximum(values**2 - edge**2, 0.0))
    smooth: Array = (vectors * kept) @ vectors.T
    np.fill_diagonal(smooth, 0.0)
    for (a, b), moment in targets.near.get(group, {}).items():
        smooth[a, b] = smooth[b, a] = moment
    return smooth


def _shrunk(block: Array, noise: float, freedom: int) -> Array:
    """A block of moments that are 0 if two columns have nothing to do with each other, shrunk by its noise (James and
    Stein's estimator, its positive part).
    """
    square = float(np.square(block).sum())
    return block * max(0.0, 1.0 - freedom * noise**2 / square) if square > 0 else block


def _possible(target: Array, known: Array, fitted: Mask) -> Array:
    """Moments brought near to a positive semidefinite matrix that has the known ones, which are not 0: those within
    columns, and of amounts that are nearly alike.
    """
    stay = (known != 0) | np.eye(len(known), dtype=bool)
    for _ in range(ROUNDS):
        values, vectors = np.linalg.eigh(target)
        if not values.size or values[0] >= -1e-9:
            break
        nearest = (vectors * np.maximum(values, 0.0)) @ vectors.T
        target = np.where(stay, known, np.where(fitted, nearest, 0.0))
    else:  # what is known of it contradicts itself a little
        target = nearest
    return target
