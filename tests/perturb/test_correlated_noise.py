"""Correlated noise: means and covariances come back on average, and sdcMicro's noises from its own draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from reference import golden, tarragona_834
from samples import close_on_average, wages

import microveil as mv
from microveil.core.rng import Streams
from microveil.errors import ParameterError
from microveil.methods import METHODS
from microveil.perturb import Columns
from microveil.perturb.noise import CorrelatedNoise

Array = NDArray[np.float64]
REPEATS = 400


def blurred(data: Array, seed: int, weights: Array | None = None, **parameters: Any) -> Array:
    columns = Columns(data.T, Streams(seed).stream("x"), np.empty((0, len(data))), weights)
    return CorrelatedNoise(**parameters).apply_together(columns).T


# --- The theorem


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_means_and_covariances_come_back_on_average(share: float) -> None:
    data = wages()
    new = [blurred(data, seed, noise_variance_share=share) for seed in range(REPEATS)]
    assert close_on_average(np.array([one.mean(axis=0) for one in new]), data.mean(axis=0))
    # Of n rows, the noise has n - 1 about its own mean.
    expected = np.cov(data.T, ddof=0) * (1 - share / len(data))
    assert close_on_average(np.array([np.cov(one.T, ddof=0) for one in new]), expected)


def test_independent_noise_keeps_variances_and_shrinks_covariances() -> None:
    data, share = wages(), 0.4
    new = [blurred(data, seed, noise_variance_share=share, noise_covariance="diagonal") for seed in range(REPEATS)]
    before = np.cov(data.T, ddof=0)
    expected = before * (1 - share)
    np.fill_diagonal(expected, np.diagonal(before) * (1 - share / len(data)))
    found = np.array([np.cov(one.T, ddof=0) for one in new])
    assert close_on_average(found, expected)
    assert not close_on_average(found, before)


def test_weighted_means_and_covariances_come_back_on_average() -> None:
    data, weights = wages(), np.random.default_rng(1).uniform(0.2, 5, 150)

    def moments(values: Array) -> Array:
        mean = np.average(values, axis=0, weights=weights)
        return np.vstack([mean, (weights[:, None] * (values - mean)).T @ (values - mean) / weights.sum()])

    found = np.array([moments(blurred(data, seed, weights)) for seed in range(REPEATS)])
    expected = moments(data)
    expected[1:] *= 1 - 0.2 * np.square(weights).sum() / weights.sum() ** 2
    assert close_on_average(found, expected)


@pytest.mark.slow
def test_covariances_with_public_columns_come_back_on_average() -> None:
    data = wages(rows=300, seed=2)
    found = [
        np.cov(mv.protect(data, "correlated_noise", public=0, seed=seed, rules=None).data.T, ddof=0)
        for seed in range(100)
    ]
    expected = np.cov(data.T, ddof=0)
    residual = expected[1:, 1:] - np.outer(expected[0, 1:], expected[0, 1:]) / expected[0, 0]
    expected[1:, 1:] -= residual * 0.2 / 300
    assert close_on_average(np.array(found)[:, 1:], expected[1:])


def test_every_column_keeps_the_correlation_that_is_told() -> None:
    data = wages(rows=2_000, seed=3)
    release = mv.protect(data, "correlated_noise", noise_variance_share=0.36, seed=1, rules=None)
    for dose in release.dose.values():
        assert dose.asked == pytest.approx(1 - 0.8)
        # The noise is uncorrelated with the column up to 1 / sqrt(n), of which its share counts.
        assert dose.achieved == pytest.approx(0.2, abs=4 * 0.6 / np.sqrt(2_000))


def test_what_comes_back_on_average_is_told() -> None:
    data = wages()
    both = mv.protect(data, "correlated_noise", seed=1, rules=None)
    means = mv.protect(data, "correlated_noise", noise_covariance="diagonal", seed=1, rules=None)
    assert (both.kept_on_average, means.kept_on_average) == (("mean", "covariance"), ("mean",))
    assert both.kept == means.kept == {}
    on_scores = {"perturb": "correlated_noise", "noise_covariance": "diagonal", "exact": False}
    scores = mv.protect(data, "pca", **on_scores, seed=1, rules=None)
    assert scores.kept_on_average == ("mean", "covariance")  # components are uncorrelated, and so may their noise be


@pytest.mark.slow
def test_correlated_components_keep_covariances_only_if_all_are_blurred_together() -> None:
    """Factor scores by regression are correlated with the rest of the columns."""
    rng = np.random.default_rng(9)
    data = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 5)) + 0.7 * rng.gamma(1, size=(200, 5))
    options = {"perturb": "correlated_noise", "scores": "regression", "factors": 2, "exact": False, "rules": None}
    releases = [mv.protect(data, "factor", **options, seed=seed) for seed in range(100)]
    assert releases[0].kept_on_average == ("mean", "covariance")
    found = np.array([np.cov(release.data.T, ddof=0) for release in releases])
    assert close_on_average(found, np.cov(data.T, ddof=0) * (1 - 0.2 / 200))
    plan = METHODS["factor"].plan({"perturb": "correlated_noise", "scores": "regression", "exact": False})
    assert not plan.covariance_on_average(untouched=1)


# --- How it relates to other noise


def test_independent_noise_is_the_noise_of_the_other_method_in_another_unit() -> None:
    data, draws = wages(), np.random.default_rng(4).standard_normal((150, 3))
    ratio = 0.5
    ours = mv.protect(
        data,
        "correlated_noise",
        noise_covariance="diagonal",
        noise_variance_share=ratio**2 / (1 + ratio**2),
        draws=draws,
        rules=None,
    )
    other = mv.protect(data, "noise", noise_sd_ratio=ratio, draws=draws, rules=None)
    assert np.allclose(ours.data, other.data, rtol=1e-13)
    assert CorrelatedNoise().noise_variance_share == pytest.approx(ratio**2 / (1 + ratio**2))  # and so by default


def sdcmicro_correlated2(data: Array, delta: float, draws: Array) -> Array:
    """Column by column x sqrt(1 - d²) + d N(mean, sd), its mean made to give that of x, sd with the divisor n - 1."""
    kept = np.sqrt(1 - delta**2)
    return data * kept + delta * ((1 - kept) / delta * data.mean(axis=0) + data.std(axis=0, ddof=1) * draws)


def of_sdcmicro(draws: Array) -> Array:
    """Draws for our divisor n, from those for the divisor n - 1."""
    return draws * np.sqrt(len(draws) / (len(draws) - 1))


def diagonal(data: Array, delta: float, draws: Array) -> Array:
    return mv.protect(
        data,
        "correlated_noise",
        noise_variance_share=delta**2,
        noise_covariance="diagonal",
        draws=of_sdcmicro(draws),
        rules=None,
    ).data


def test_correlated2_of_sdcmicro_comes_from_its_draws() -> None:
    _, data = tarragona_834()
    _, draws = golden("addnoise_draws_seed11.csv")
    _, expected = golden("addnoise_correlated2_Tarragona_delta0.1.csv")
    assert np.abs((diagonal(data, 0.1, draws) - expected) / data.std(axis=0)).max() < 1e-12


def test_the_formula_of_correlated2_on_our_own_data() -> None:
    data, draws = wages(seed=5), np.random.default_rng(6).standard_normal((150, 3))
    for delta in (0.1, 0.5):
        expected = sdcmicro_correlated2(data, delta, draws)
        assert np.abs((diagonal(data, delta, draws) - expected) / data.std(axis=0)).max() < 1e-12


def without_shrinking(data: Array, draws: Array, ratio: float) -> Array:
    """Our noise, stretched about the means to the variance that plain addition gives."""
    released = mv.protect(data, "noise", noise_sd_ratio=ratio, draws=of_sdcmicro(draws), rules=None).data
    return data.mean(axis=0) + (released - data.mean(axis=0)) * np.sqrt(1 + ratio**2)


def test_additive_noise_of_sdcmicro_is_ours_without_the_shrinking() -> None:
    _, data = tarragona_834()
    _, draws = golden("addnoise_draws_seed11.csv")
    _, expected = golden("addnoise_additive_Tarragona_noise50.csv")
    assert np.abs((without_shrinking(data, draws, 0.5) - expected) / data.std(axis=0)).max() < 1e-12


def test_additive_noise_on_our_own_data() -> None:
    data, draws = wages(seed=7), np.random.default_rng(8).standard_normal((150, 3))
    expected = data + 0.5 * data.std(axis=0, ddof=1) * draws
    assert np.abs((without_shrinking(data, draws, 0.5) - expected) / data.std(axis=0)).max() < 1e-12


# --- Parameters


def test_percentages_are_refused_with_advice() -> None:
    with pytest.raises(ParameterError, match=r"^noise_variance_share: 20 is not a fraction .* give 0\.2"):
        mv.protect(wages(), "correlated_noise", noise_variance_share=20)
    for bad in (0, 1, -0.1, 200):
        with pytest.raises(ParameterError, match=r"^noise_variance_share: .*above 0 and below 1"):
            mv.protect(wages(), "correlated_noise", noise_variance_share=bad)
