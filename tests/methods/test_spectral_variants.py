"""Spectral anonymisation by rotation and by bootstrap: what comes back, exactly and on average."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial import cKDTree

import microveil as mv
from microveil.assess import quick_risk
from microveil.errors import ParameterError

Array = NDArray[np.float64]
VARIANTS = ["spectral_rotation", "spectral_bootstrap"]
every_variant = pytest.mark.parametrize("method", VARIANTS)


def skewed(seed: int = 0, rows: int = 150, columns: int = 4) -> Array:
    rng = np.random.default_rng(seed)
    return rng.gamma(1.5, size=(rows, columns)) @ rng.standard_normal((columns, columns)) + 10


def scores(data: Array, of: Array) -> Array:
    """Principal component scores of a table on the axes of another."""
    vectors = np.linalg.eigh(np.corrcoef(of.T))[1]
    return (data - of.mean(axis=0)) / of.std(axis=0) @ vectors


def nearest(data: Array, released: Array) -> float:
    """The least distance of a released record from any original one, in standard deviations."""
    sd = data.std(axis=0)
    return float(cKDTree(data / sd).query(released / sd)[0].min())


# --- Rotation (O-variant)


def test_no_record_and_no_score_comes_back() -> None:
    data = skewed(1, 30, 2)
    rotated = [mv.protect(data, "spectral_rotation", seed=seed).data for seed in range(40)]
    assert min(nearest(data, released) for released in rotated) > 1e-6
    for released in rotated:
        for before, after in zip(scores(data, data).T, scores(released, data).T, strict=True):
            assert np.abs(before[:, None] - after).min() > 1e-9


def test_rotation_keeps_means_and_score_variances_exactly() -> None:
    data = skewed(2)
    release = mv.protect(data, "spectral_rotation", seed=1)
    assert release.kept.keys() == {"mean"}
    assert release.kept["mean"] < 1e-13
    assert release.kept_on_average == ("covariance",)
    assert scores(release.data, data).var(axis=0) == pytest.approx(scores(data, data).var(axis=0), rel=1e-11)


# --- Bootstrap


def test_every_bootstrapped_score_is_an_old_one() -> None:
    data = skewed(3)
    released = mv.protect(data, "spectral_bootstrap", seed=1).data
    for before, after in zip(scores(data, data).T, scores(released, data).T, strict=True):
        assert np.abs(before[:, None] - after).min(axis=0).max() < 1e-11
        assert np.unique(np.abs(before[:, None] - after).argmin(axis=0)).size < 120  # some twice, some not at all


@pytest.mark.slow
def test_the_released_mean_is_as_good_as_that_of_a_new_sample() -> None:
    """Its variance about the original mean is sigma²/n, in every column and between them."""
    data, draws = skewed(4), 600
    means = np.array([mv.protect(data, "spectral_bootstrap", seed=seed).data.mean(axis=0) for seed in range(draws)])
    spread = np.cov(data.T, ddof=0) / len(data)
    sd = np.sqrt(np.diagonal(spread))
    assert np.abs((means.mean(axis=0) - data.mean(axis=0)) / sd).max() < 4 / np.sqrt(draws)
    found = np.cov((means / sd).T)
    assert np.abs(found - spread / np.outer(sd, sd)).max() < 4 * np.sqrt(2 / draws)


# --- Both


@pytest.mark.slow
@every_variant
def test_covariances_come_back_on_average(method: str) -> None:
    data, draws = skewed(5), 300
    found = np.array([np.cov(mv.protect(data, method, seed=seed).data.T, ddof=0) for seed in range(draws)])
    sd = data.std(axis=0)
    # A bootstrap sample has a variance smaller by 1/n on average.
    expected = np.cov(data.T, ddof=0) * (1 - 1 / len(data) if method == "spectral_bootstrap" else 1)
    error = found.std(axis=0, ddof=1) / np.sqrt(draws)
    assert (np.abs(found.mean(axis=0) - expected) <= 4 * error + 1e-12).all()
    assert (error / np.outer(sd, sd)).max() < 0.02  # the test could fail


@every_variant
def test_exact_moments_can_be_asked_for(method: str) -> None:
    data = skewed(6)
    release = mv.protect(data, method, exact=True, seed=1)
    assert max(release.kept.values()) < 1e-12
    assert release.kept.keys() == {"mean", "covariance"}


@every_variant
def test_both_are_synthetic_and_link_no_more_than_chance(method: str) -> None:
    data = skewed(7, 800)
    release = mv.protect(data, method, seed=1)
    assert release.release_type == "synthetic"
    assert release.components.perturbed == (0, 1, 2, 3)
    assert quick_risk(release, {})[1].value < 0.01


@every_variant
def test_axes_of_the_covariance_matrix_can_be_asked_for(method: str) -> None:
    data = skewed(8) * [1, 1, 30, 1]
    weights = mv.protect(data, method, standardise=False, seed=1).components.weights
    found = weights.T @ np.cov(data.T) @ weights
    assert np.abs(found - np.diag(np.diagonal(found))).max() < 1e-9 * found.max()
    with pytest.raises(ParameterError, match=rf"^components: {method} has it fixed"):
        mv.protect(data, method, components=1)


@pytest.mark.slow
@every_variant
def test_weighted_means_come_back_exactly_or_on_average(method: str) -> None:
    rng = np.random.default_rng(9)
    data = np.column_stack([skewed(9), rng.uniform(1, 9, 150)])
    weights, sd = data[:, 4], data[:, :4].std(axis=0)
    before = np.average(data[:, :4], axis=0, weights=weights)
    gaps = [
        (np.average(mv.protect(data, method, weight=4, seed=seed).data[:, :4], axis=0, weights=weights) - before) / sd
        for seed in range(200)
    ]
    if method == "spectral_rotation":
        assert np.abs(gaps).max() < 1e-12
    else:
        effective = weights.sum() ** 2 / (weights**2).sum()
        assert np.abs(np.mean(gaps, axis=0)).max() < 4 / np.sqrt(effective * 200)
