"""Biases of moments, Kolmogorov-Smirnov and IL1s beside scipy, sdcMicro and figures worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from reference import reference_file
from samples import matrix
from scipy.stats import ks_2samp, kurtosis, skew, wasserstein_distance

from microveil.measures.utility.moments import (
    il1s,
    ks,
    kurtosis_bias,
    marginal_distance,
    mean_bias,
    skewness_bias,
    variance_bias,
)

Array = NDArray[np.float64]


def pair(seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    data = rng.lognormal(size=(200, 3)) + np.array([5, 0, -9])
    return data, data + rng.normal(size=data.shape)


def test_biases_are_relative_changes_of_textbook_moments() -> None:
    data, released = pair(1)
    for measure, moment in (
        (mean_bias, lambda x: x.mean(axis=0)),
        (variance_bias, lambda x: x.var(axis=0)),
        (skewness_bias, lambda x: skew(x, axis=0)),
        (kurtosis_bias, lambda x: kurtosis(x, axis=0, fisher=False)),
    ):
        old, new = moment(data), moment(released)
        expected = np.mean(np.abs(new - old) / np.abs(old))
        assert measure(matrix(data), matrix(released)).value == pytest.approx(expected, rel=1e-10), measure.id


def test_versions_of_the_mean_bias_are_in_standard_deviations() -> None:
    data = np.array([[-1.0, 9.0], [1.0, 11.0]])  # means 0 and 10, standard deviations 1
    found = mean_bias(matrix(data), matrix(data + 0.5))
    assert found.value == np.inf  # a mean of zero has no relative change
    assert found.parts["absolute"] == found.parts["largest"] == pytest.approx(0.5)
    assert found.parts["floored"] == pytest.approx((0.5 / 0.05 + 0.5 / 10) / 2)
    assert mean_bias(matrix(data), matrix(data)).value == 0


def test_ks_is_scipys() -> None:
    data, released = pair(2)
    data[:, 1], released[:, 1] = np.round(data[:, 1]), np.round(released[:, 1])
    expected = [ks_2samp(old, new).statistic for old, new in zip(data.T, released[:150].T, strict=True)]
    found = ks(matrix(data), matrix(released[:150]))
    assert found.value == pytest.approx(np.mean(expected))
    assert found.parts["largest"] == pytest.approx(max(expected))
    assert f"in column {int(np.argmax(expected))}" in found.note


@pytest.mark.parametrize("sizes", [(300_000, 280_000), (40_000, 1), (2, 70_000)])
def test_ks_of_long_columns_is_scipys(sizes: tuple[int, int]) -> None:
    """They are read in pieces, and compared by a compiled loop."""
    rng = np.random.default_rng(6)
    old, new = (np.column_stack([rng.normal(size=size), np.round(rng.normal(0.1, 2, size=size))]) for size in sizes)
    expected = [ks_2samp(a, b, method="asymp").statistic for a, b in zip(old.T, new.T, strict=True)]
    assert ks(matrix(old), matrix(new)).value == pytest.approx(np.mean(expected), abs=1e-15)


def test_chance_of_ks_is_that_of_two_samples() -> None:
    rng = np.random.default_rng(3)
    found = [ks(*(matrix(rng.normal(size=(1000, 4))) for _ in range(2))) for _ in range(50)]
    # The limit is approached from below: the distance of finite samples takes steps.
    assert np.mean([measure.value for measure in found]) == pytest.approx(found[0].chance, rel=0.06)


def test_missing_cells_are_no_cells_of_either_sample() -> None:
    rng = np.random.default_rng(13)
    found = []
    for _ in range(100):
        pair = [rng.normal(size=(600, 3)) for _ in range(2)]
        for values in pair:
            values[rng.random(values.shape) < 0.5] = np.nan
        found.append(ks(*map(matrix, pair)))
    values, chance = (np.array([getattr(measure, name) for measure in found]) for name in ("value", "chance"))
    assert values.mean() == pytest.approx(chance.mean(), rel=0.06)


def test_marginal_distance_is_scipys() -> None:
    data, released = pair(4)
    data[:, 1], released[:, 1] = np.round(data[:, 1]), np.round(released[:, 1])
    data[5, 2] = released[7, 2] = np.nan
    expected = [
        wasserstein_distance(old[~np.isnan(old)], new[~np.isnan(new)]) / np.nanstd(old)
        for old, new in zip(data.T, released[:150].T, strict=True)
    ]
    found = marginal_distance(matrix(data), matrix(released[:150]))
    assert found.value == pytest.approx(np.mean(expected))
    assert found.parts["largest"] == pytest.approx(max(expected))
    assert f"in column {int(np.argmax(expected))}" in found.note
    shifted = marginal_distance(matrix(data), matrix(data + 2 * np.nanstd(data, axis=0)))
    assert shifted.value == pytest.approx(2)
    gone = released.copy()
    gone[:, 0] = np.nan
    assert marginal_distance(matrix(data), matrix(gone)).value == np.inf


def test_chance_of_marginal_distance_is_that_of_two_samples() -> None:
    rng = np.random.default_rng(5)
    found = [
        marginal_distance(matrix(rng.gamma(2.0, size=(1000, 3))), matrix(rng.gamma(2.0, size=(500, 3))))
        for _ in range(100)
    ]
    values, chance = (np.array([getattr(measure, name) for measure in found]) for name in ("value", "chance"))
    assert values.mean() == pytest.approx(chance.mean(), abs=4 * values.std() / np.sqrt(100))


def test_il1s_by_hand() -> None:
    data = np.array([[0.0, 0.0], [2.0, 20.0], [4.0, 40.0]])  # s = 2 and 20
    released = data + np.array([[1.0, 0.0], [0.0, -10.0], [0.0, 0.0]])
    assert il1s(matrix(data), matrix(released)).value == pytest.approx((0.5 + 0.5) / np.sqrt(2) / 6)
    holes = data.copy()
    holes[0, 0] = np.nan  # of the five cells left one moved; s of the first column is now √2
    assert il1s(matrix(holes), matrix(released)).value == pytest.approx(0.5 / np.sqrt(2) / 5)


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("mdav_Tarragona_k3.csv", 0.10072832374706078),
        ("addnoise_correlated2_Tarragona_delta0.1.csv", 0.056219307121005237),
        ("addnoise_additive_Tarragona_noise50.csv", 0.28081541433377533),
    ],
)
def test_il1s_is_that_of_sdcmicro(file: str, expected: float) -> None:
    # sdcMicro 5.8.1; its "IL1s" lacks the factor 1/(np), which the figures here have.
    data = np.loadtxt(reference_file("Tarragona.csv"), delimiter=",", skiprows=1)
    released = np.loadtxt(reference_file(f"../golden/sdcmicro/{file}"), delimiter=",", skiprows=1)[:, -13:]
    assert il1s(matrix(data), matrix(released)).value == pytest.approx(expected, rel=1e-12)
