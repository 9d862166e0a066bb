"""Probabilistic information loss: groups, standard errors, and what is kept loses nothing."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from samples import matrix
from scipy.stats import gaussian_kde

import microveil as mv
from microveil.measures.utility.information_loss import (
    QUANTILES,
    _density,
    pil,
    pil7,
    quantile_variances,
    statistics_of,
    variances_of,
)
from microveil.measures.utility.moments import ColumnMoments

Array = NDArray[np.float64]


def gamma(rng: np.random.Generator, rows: int) -> Array:
    """Two skewed columns that go together."""
    common = rng.gamma(2.0, size=rows)
    return np.column_stack([common + rng.gamma(3.0, size=rows), common + rng.gamma(4.0, size=rows)])


def test_groups_count_alike_whatever_their_number_of_statistics() -> None:
    rng = np.random.default_rng(1)
    data = rng.lognormal(size=(300, 6))
    released = data + rng.normal(size=data.shape)
    five, seven = pil(matrix(data), matrix(released)), pil7(matrix(data), matrix(released))
    assert list(five.parts) == ["means", "variances", "covariances", "correlations", "quantiles"]
    assert five.value == pytest.approx(np.mean(list(five.parts.values())))
    assert seven.value == pytest.approx(np.mean(list(seven.parts.values())))
    assert {name: seven.parts[name] for name in five.parts} == five.parts
    assert set(seven.parts) - set(five.parts) == {"skewness", "kurtosis"}


def test_what_is_kept_loses_nothing() -> None:
    data = np.random.default_rng(2).lognormal(size=(400, 4)) * [1, 1e3, 1e-6, 1e9] + [0, 1e6, 0, 0]
    exact = mv.protect(data, "pca", exact=True, seed=1, rules=None).data
    parts = pil(matrix(data), matrix(exact)).parts
    assert [parts[name] for name in ("means", "variances", "covariances", "correlations")] == [0, 0, 0, 0]
    assert parts["quantiles"] > 0.3
    rng = np.random.default_rng(3)
    shuffled = np.column_stack([rng.permutation(column) for column in data.T])
    lost = pil(matrix(data), matrix(shuffled)).parts
    assert lost["means"] == lost["variances"] == lost["quantiles"] == 0
    own = pil7(matrix(data), matrix(shuffled)).parts
    assert own["skewness"] == own["kurtosis"] == 0


def test_one_mean_by_hand() -> None:
    # d = 0.1 sd over sd / sqrt(100) is one standard error: 2 Φ(1) - 1 = .6827.
    data = np.random.default_rng(4).normal(size=(100, 1))
    released = data + 0.1 * data.std()
    found = pil(matrix(data), matrix(released))
    assert found.parts["means"] == pytest.approx(0.6826894921, abs=1e-9)
    assert found.parts["variances"] == 0
    assert "covariances" not in found.parts  # there are no pairs


@pytest.mark.slow
def test_two_samples_of_one_population_score_chance() -> None:
    # If all standard errors are right, every group's mean is 2/π arctan √2 = .608; with a variance twice too large it
    # would be .5, with half of it .705. Errors of high moments are themselves estimated from heavy tails.
    rng = np.random.default_rng(5)
    found = [pil7(matrix(gamma(rng, 3000)), matrix(gamma(rng, 3000))) for _ in range(200)]
    assert found[0].chance == pytest.approx(0.6082, abs=5e-5)
    for name in found[0].parts:
        tolerance = 0.08 if name in ("skewness", "kurtosis") else 0.04
        assert np.mean([measure.parts[name] for measure in found]) == pytest.approx(0.6082, abs=tolerance), name


def test_density_is_the_kernel_estimate_with_bw_nrd0() -> None:
    values = np.sort(np.random.default_rng(6).lognormal(size=200))
    q75, q25 = np.percentile(values, [75, 25])
    width = 0.9 * min(values.std(ddof=1), (q75 - q25) / 1.34) * 200**-0.2
    at = np.quantile(values, QUANTILES)
    assert _density(values, at) == pytest.approx(gaussian_kde(values, bw_method=width / values.std(ddof=1))(at))


def test_statistics_without_variance_are_lost_or_kept() -> None:
    # A two-valued column with equal shares: its variance cannot be estimated to vary (μ4 = μ2²), yet it moved.
    data = np.repeat([0.0, 1.0], 50)[:, None]
    parts = pil(matrix(data), matrix(data * 2)).parts
    assert parts["variances"] == 1
    assert pil(matrix(data), matrix(data)).value == 0


def test_missing_cells_are_left_out() -> None:
    rng = np.random.default_rng(7)
    data = gamma(rng, 500)
    released = data + 0.2 * rng.normal(size=data.shape)
    holes, gone = data.copy(), released.copy()
    holes[400:] = gone[400:] = np.nan
    assert pil7(matrix(holes), matrix(gone)).value == pytest.approx(
        pil7(matrix(data[:400]), matrix(released[:400])).value
    )
    some = np.where(rng.random(data.shape) < 0.2, np.nan, data)
    assert pil7(matrix(some), matrix(some)).value == 0


@pytest.mark.slow
def test_every_variance_is_that_of_many_samples() -> None:
    # Variances from one very large sample, beside those of the statistics of many small ones. The variance of a nearly
    # normal statistic over 1,500 samples has a standard error of sqrt(2 / 1500) = 3.7 %; four of them are allowed.
    rng = np.random.default_rng(8)
    rows, samples = 4_000, 1_500
    large = gamma(rng, 1_000_000)
    mean, sd = large.mean(axis=0), large.std(axis=0)
    population = (large - mean) / sd  # variances are worked out for columns of unit variance
    expected = dict(variances_of(ColumnMoments.of(population), shape=True))
    at = np.quantile(population[:, 0], QUANTILES)
    expected["quantiles"] = quantile_variances(np.sort(population[:, 0]), at)
    found: dict[str, list[Array]] = {name: [] for name in expected}
    for _ in range(samples):
        sample = (gamma(rng, rows) - mean) / sd
        for name, values in statistics_of(ColumnMoments.of(sample), shape=True).items():
            found[name].append(values)
        found["quantiles"].append(np.quantile(sample[:, 0], QUANTILES))
    assert set(expected) == {"means", "variances", "covariances", "correlations", "quantiles", "skewness", "kurtosis"}
    for name, variances in expected.items():
        ratio = np.var(found[name], axis=0) * rows / (variances * 1_000_000)
        assert ratio == pytest.approx(np.ones(ratio.size), abs=4 * np.sqrt(2 / samples)), name
