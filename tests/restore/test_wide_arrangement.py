"""The arrangement of wide tables: what is kept up to date, and what the loss is, against plain matrices."""

from __future__ import annotations

import numpy as np

from microveil.core.rng import Streams
from microveil.restore._wide_kernels import exchange_by_rows
from microveil.restore.arrange_wide import WideSearch, _by_layer, _turned

ROWS, WIDTH, FIXED, RIDGE = 12, 30, 2, 1e-2
EMPHASIS = np.array([6.0, 1.0, 1.0, 1.0])


def features(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(ROWS, 4, WIDTH)).astype(np.float32)


def shuffled(original: np.ndarray, seed: int) -> np.ndarray:
    """Every column but the fixed ones in an order of its own."""
    rng, out = np.random.default_rng(seed), original.copy()
    for column in range(FIXED, WIDTH):
        out[:, :, column] = original[rng.permutation(ROWS), :, column]
    return out


def loss(now: np.ndarray, original: np.ndarray, weights: np.ndarray) -> float:
    """The sum over layers of trace(R^-1 E R^-1 E), from matrices of columns x columns."""
    total = 0.0
    for layer in range(4):
        x, y = now[:, layer].astype(float), original[:, layer].astype(float)
        target = y.T @ (weights[:, None] * y)
        error = x.T @ (weights[:, None] * x) - target
        inverse = np.linalg.inv(target + RIDGE * np.eye(WIDTH))
        total += EMPHASIS[layer] * np.trace(inverse @ error @ inverse @ error)
    return total


def test_every_exchange_lowers_the_loss_of_the_matrices() -> None:
    original = features(0)
    weights = np.random.default_rng(1).uniform(size=ROWS)
    weights /= weights.sum()
    search = WideSearch(original, weights, np.empty((0, WIDTH), np.uint8), FIXED, RIDGE, EMPHASIS)
    target, cells = _by_layer(original), _by_layer(shuffled(original, 2))
    axes = search._axes(target)
    own = (target - axes @ _turned(axes, target)) / RIDGE
    for seed in range(3):
        before = loss(cells.transpose(2, 0, 1), original, weights)
        onto = _turned(axes, cells)
        now, across = (_turned(cells, cells) - _turned(onto, onto)) / RIDGE, _turned(own, cells)
        found = search._squares(now) - 2 * search._squares(across) + search._squares(_turned(own, target))
        np.testing.assert_allclose(found, before, rtol=1e-9)
        matrices = (axes, own, RIDGE, onto, now, across)
        assert exchange_by_rows(cells, weights, search.marks, FIXED, *matrices, EMPHASIS, seed)
        assert loss(cells.transpose(2, 0, 1), original, weights) < before
        np.testing.assert_allclose(onto, _turned(axes, cells), atol=1e-9)
        np.testing.assert_allclose(now, (_turned(cells, cells) - _turned(onto, onto)) / RIDGE, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(across, _turned(own, cells), atol=1e-7)


def test_values_stay_in_their_columns_and_marks() -> None:
    original = features(0)
    start = shuffled(original, 1)
    marks = (np.arange(ROWS)[:, None] < 4).astype(np.uint8) * np.ones((1, WIDTH - FIXED), np.uint8)
    search = WideSearch(original, np.full(ROWS, 1 / ROWS), marks, FIXED, RIDGE, EMPHASIS)
    after = start.copy()
    worst = search.run(after, Streams.from_seed(1).stream("arrange"))
    assert not np.array_equal(after, start)
    np.testing.assert_array_equal(after[:, :, :FIXED], start[:, :, :FIXED])
    for rows in (slice(0, 4), slice(4, None)):
        np.testing.assert_array_equal(np.sort(after[rows], axis=0), np.sort(start[rows], axis=0))
    now, then = after[:, 0].astype(float), original[:, 0].astype(float)
    error = np.abs(now.T @ now - then.T @ then) / ROWS
    np.fill_diagonal(error, 0.0)
    np.testing.assert_allclose(worst[0], error[FIXED:].max())
