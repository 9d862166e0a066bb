"""Noise that ignores the correlations is filtered out; noise that knows them, and swaps, are not."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from samples import matrix

import microveil as mv
from microveil.errors import ParameterError
from microveil.measures.risk.reconstruction import spectral_filtering

Array = NDArray[np.float64]


def factors(seed: int, rows: int = 2000, columns: int = 10, rest: float = 0.02) -> Array:
    """Ten columns of two factors, and very little of their own."""
    rng = np.random.default_rng(seed)
    loadings = rng.uniform(0.5, 1, size=(2, columns)) * rng.choice([-1, 1], size=(2, columns))
    data = rng.normal(size=(rows, 2)) @ loadings + rest * rng.normal(size=(rows, columns))
    return data / data.std(axis=0)


@pytest.mark.parametrize("ratio", [None, 0.5])
def test_independent_noise_is_removed_but_for_the_share_of_the_leading_components(ratio: float | None) -> None:
    # The noise in two of ten directions stays, 1/5 of its variance. A noise of s² leaves s² / (1 + s²) unexplained.
    data = factors(1)
    released = data + 0.5 * np.random.default_rng(2).normal(size=data.shape)
    found = spectral_filtering(matrix(data), matrix(released), noise_sd_ratio=ratio, seed=1)
    assert found.parts["projected"] == pytest.approx(1 - (0.05 / 1.05) / (0.25 / 1.25), abs=0.01)
    assert found.value >= found.parts["projected"]
    assert 0.7 < found.low < found.value < found.high < 0.8
    assert found.chance < 0.01
    assert found.note == ""


def test_the_figure_by_hand() -> None:
    # Projected on the two leading axes: 1 - unexplained after / unexplained before, by regressions column by column.
    data = factors(3, rows=500)
    released = data + 0.5 * np.random.default_rng(4).normal(size=data.shape)
    y = (released - released.mean(axis=0)) / released.std(axis=0)
    top = np.linalg.eigh(y.T @ y)[1][:, -2:]
    filtered = y @ top @ top.T

    def unexplained(guess: Array) -> float:
        r2 = np.array([np.corrcoef(x, g)[0, 1] ** 2 for x, g in zip(data.T, guess.T, strict=True)])
        return float(((1 - r2) * data.var(axis=0) / released.var(axis=0)).sum())

    found = spectral_filtering(matrix(data), matrix(released), noise_sd_ratio=0.5, seed=1)
    assert found.parts["projected"] == pytest.approx(1 - unexplained(filtered) / unexplained(released), rel=1e-9)


def test_noise_with_the_correlations_of_the_data_cannot_be_filtered() -> None:
    data = factors(5, rest=0.3)
    noise = np.random.default_rng(6).multivariate_normal(np.zeros(10), np.cov(data.T), size=2000)
    found = spectral_filtering(matrix(data), matrix(data + 0.5 * noise), seed=1)
    assert found.value < 0.02


def test_swapped_records_have_nothing_to_filter() -> None:
    data = factors(7, rest=0.3)
    rng = np.random.default_rng(8)
    shuffled = np.column_stack([rng.permutation(column) for column in data.T])
    swapped = mv.protect(data, "pca", seed=1, rules=None).data
    for released in (shuffled, swapped, swapped * 0.1):  # shrinking towards the mean gains nothing either
        found = spectral_filtering(matrix(data), matrix(released), seed=1)
        assert found.value < 0.01
        assert "no power" in found.note


def test_perturbed_trailing_components_are_thrown_away() -> None:
    data = factors(9, rest=0.2)
    released = mv.protect(data, "pca", components=list(range(2, 10)), exact=False, seed=1, rules=None).data
    assert spectral_filtering(matrix(data), matrix(released), noise_sd_ratio=0.3, seed=1).low > 0.2


def test_odd_releases() -> None:
    data = factors(10, rows=50)
    assert spectral_filtering(matrix(data), matrix(3 * data + 1), seed=1).value == 1
    assert "constant" in spectral_filtering(matrix(data), matrix(np.ones_like(data)), seed=1).note
    with pytest.raises(ParameterError, match="noise_sd_ratio"):
        spectral_filtering(matrix(data), matrix(data), noise_sd_ratio=0.0)
