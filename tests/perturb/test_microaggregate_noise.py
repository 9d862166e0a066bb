"""Microaggregation with noise: the noise has the covariance that the means of groups have lost."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from reference import tarragona
from samples import close_on_average, wages, weighted_moments

import microveil as mv
from microveil.core.rng import Streams
from microveil.errors import ParameterError
from microveil.perturb import Columns
from microveil.perturb.microaggregate import MicroaggregateNoise, group_means, similar_records

Array = NDArray[np.float64]
REPEATS = 400


def masked(
    data: Array, seed: int = 0, weights: Array | None = None, size: int = 5, draws: Array | None = None
) -> Array:
    columns = Columns(data.T, Streams(seed).stream("x"), np.empty((0, len(data))), weights)
    return MicroaggregateNoise(group_size=size, draws=draws).apply_together(columns).T


def test_means_and_covariances_come_back_on_average() -> None:
    data = wages()
    new = [masked(data, seed) for seed in range(REPEATS)]
    assert close_on_average(np.array([one.mean(axis=0) for one in new]), data.mean(axis=0))
    covariances = np.array([np.cov(one.T) for one in new])
    assert close_on_average(covariances, np.cov(data.T))
    means = group_means(data.T, similar_records(data.T, 5), None)
    assert not close_on_average(covariances, np.cov(means))  # what would come out without the noise


def test_weighted_means_and_covariances_come_back_on_average() -> None:
    data, weights = wages(), np.random.default_rng(1).uniform(0.2, 5, 150)
    found = np.array([weighted_moments(masked(data, seed, weights), weights) for seed in range(REPEATS)])
    assert close_on_average(found, weighted_moments(data, weights))


@pytest.mark.parametrize("size", [3, 20])
@pytest.mark.parametrize("heaviest", [1, 50])
def test_given_draws_become_noise_of_the_covariance_lost(size: int, heaviest: float) -> None:
    data, draws = wages(80), np.random.default_rng(2).standard_normal((80, 3))
    weights = np.geomspace(1, heaviest, 80)
    means = group_means(data.T, similar_records(data.T, size), weights).T
    lost = weighted_moments(data, weights)[1:] - weighted_moments(means, weights)[1:]
    # Independent draws vary about their own mean by less than about zero. Given draws that have exactly what is
    # expected of independent ones, the noise has exactly the covariance that was lost.
    expected = 1 - np.square(weights).sum() / weights.sum() ** 2
    mean, *covariance = weighted_moments(draws, weights)
    draws = (draws - mean) @ np.linalg.inv(np.linalg.cholesky(np.array(covariance) / expected).T)
    noise = masked(data, 0, weights, size, draws) - means
    assert weighted_moments(noise, weights)[1:] == pytest.approx(lost, rel=1e-9)
    assert masked(data, 0, weights, size, np.zeros((80, 3))) == pytest.approx(means, rel=1e-15)
    # The noise is not recentred: draws with a mean of one shift every column.
    shifted = masked(data, 0, weights, size, draws + 1) - means
    assert (np.abs(np.average(shifted, axis=0, weights=weights)) > 0.1 * np.sqrt(np.diagonal(lost))).any()


def test_the_noise_does_not_depend_on_units() -> None:
    data, draws, units = wages(), np.random.default_rng(3).standard_normal((150, 3)), np.array([1e-90, 1, 1e90])
    expected = masked(data, draws=draws)
    assert masked(data * units, draws=draws) / units == pytest.approx(expected, rel=1e-12)


def test_a_column_that_does_not_vary_within_groups_gets_no_noise() -> None:
    data = np.column_stack([np.repeat([0.0, 1.0], 30), np.repeat([5.0, 7.0], 30)])
    assert np.array_equal(masked(data, size=3), data)


def test_what_comes_back_on_average_is_told_and_exact_moments_can_be_asked_for() -> None:
    data = wages(400)
    release = mv.protect(data, "microaggregate_noise", seed=1, rules=None)
    assert (release.release_type, release.kept, release.kept_on_average) == ("masked", {}, ("mean", "covariance"))
    exact = mv.protect(data, "microaggregate_noise", exact=True, seed=1, rules=None)
    assert max(exact.kept["mean"], exact.kept["covariance"]) < 1e-12


def test_groups_and_draws_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"^group_size: 9 records asked"):
        MicroaggregateNoise(group_size=9).check(8, 2)
    with pytest.raises(ParameterError, match=r"^draws: is 8 x 3"):
        MicroaggregateNoise(draws=np.zeros((8, 3))).check(8, 2)


def biases(data: Array, size: int) -> tuple[float, float]:
    """The mean relative changes of skewness and kurtosis."""

    def shape(values: Array) -> Array:
        z = (values - values.mean(axis=0)) / values.std(axis=0)
        return np.array([(z**3).mean(axis=0), (z**4).mean(axis=0)])

    before = shape(data)
    after = [
        shape(mv.protect(data, "microaggregate_noise", group_size=size, rules=None, seed=s).data) for s in range(10)
    ]
    skewness, kurtosis = np.mean(np.abs(np.array(after) - before) / np.abs(before), axis=(0, 2))
    return float(skewness), float(kurtosis)


@pytest.mark.quick("3-0.3615-0.5154")
@pytest.mark.parametrize(("size", "skewness", "kurtosis"), [(3, 0.3615, 0.5154), (10, 0.6124, 0.7665)])
def test_skewness_and_kurtosis_of_tarragona_are_biased_as_in_table_4(
    size: int, skewness: float, kurtosis: float
) -> None:
    """Calviño (2017), Table 4, rows of microaggregation and noise."""
    _, data = tarragona()
    found = biases(data, size)
    assert found == (pytest.approx(skewness, abs=0.01), pytest.approx(kurtosis, abs=0.01))


def test_skewness_and_kurtosis_of_our_own_data_lose_more_in_larger_groups() -> None:
    data = wages(400)
    small, large = biases(data, 3), biases(data, 25)
    assert 0.02 < small[0] < large[0]
    assert small[1] < large[1] < 1
