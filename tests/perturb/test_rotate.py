"""Rotation: a uniformly random direction of the same mean and length."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from microveil.core.rng import Streams
from microveil.perturb import Column
from microveil.perturb.redraw import Rotate

Array = NDArray[np.float64]


def rotated(values: Array, seed: int = 0, weights: Array | None = None) -> Array:
    return Rotate().apply(Column(values, Streams(seed).stream("rotate"), 0, weights))


def test_mean_and_length_come_back_exactly() -> None:
    values = np.random.default_rng(1).gamma(1.0, size=300) + 100
    for seed in range(5):
        new = rotated(values, seed)
        assert new.mean() == pytest.approx(values.mean(), rel=1e-14)
        assert new.std() == pytest.approx(values.std(), rel=1e-13)


def test_weighted_mean_and_length_come_back_exactly() -> None:
    rng = np.random.default_rng(2)
    values, weights = rng.normal(size=200) + 3, rng.uniform(0.2, 5, 200)
    new = rotated(values, 1, weights)
    mean, new_mean = np.average(values, weights=weights), np.average(new, weights=weights)
    assert new_mean == pytest.approx(mean, rel=1e-13)
    spread = np.average((values - mean) ** 2, weights=weights)
    assert np.average((new - mean) ** 2, weights=weights) == pytest.approx(spread, rel=1e-12)


def test_the_image_is_that_of_a_haar_map_that_fixes_the_mean() -> None:
    """Against orthogonal matrices drawn by scipy: the first coordinate and the cosine with the original agree."""
    rng = np.random.default_rng(3)
    n, draws = 6, 4000
    values = rng.gamma(1.0, size=n)
    basis = np.linalg.qr(np.column_stack([np.ones(n), rng.standard_normal((n, n - 1))]))[0][:, 1:]  # about the mean
    turns = stats.ortho_group.rvs(n - 1, draws, random_state=4)
    by_maps = values.mean() + np.array([basis @ turn @ basis.T @ values for turn in turns])
    ours = np.array([rotated(values, seed) for seed in range(draws)])
    assert np.allclose(by_maps.mean(axis=1), values.mean())
    centred = values - values.mean()
    for one, other in ((by_maps[:, 0], ours[:, 0]), (by_maps @ centred, ours @ centred)):
        assert stats.ks_2samp(one, other).pvalue > 1e-3
    cosines = (ours - values.mean()) @ centred / (centred @ centred)
    assert stats.kstest(cosines**2, stats.beta(0.5, (n - 2) / 2).cdf).pvalue > 1e-3


def test_given_deviates_are_used() -> None:
    values, draws = np.array([1.0, 2.0, 6.0]), np.array([[1.0], [0.0], [-1.0]])
    new = Rotate(draws=draws).apply(Column(values, Streams(1).stream("x")))
    assert new == pytest.approx(3 + values.std() * np.array([1, 0, -1]) / np.sqrt(2 / 3), rel=1e-14)
