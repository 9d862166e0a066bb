"""The simulation baselines of Hsu and Chen (2008): what the Cholesky method and the multivariate normal keep."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from reference import census
from samples import moment_errors, skewed
from scipy import stats

import microveil as mv
from microveil.core.linalg import triangular_root
from microveil.core.moments import Moments, moments
from microveil.core.rng import Streams
from microveil.decompose.axes import Cholesky, generalised_cholesky
from microveil.errors import ParameterError
from microveil.restore import correction

Array = NDArray[np.float64]


def summary(values: Array) -> Moments:
    return moments(lambda rows: np.ascontiguousarray(values[rows].T), len(values))


# --- The generalised Cholesky factor


def test_the_factor_is_numpys_where_there_is_one() -> None:
    correlation = np.corrcoef(skewed(columns=6).T)
    factor, pivots = generalised_cholesky(correlation)
    assert pivots == list(range(6))
    assert np.allclose(factor, np.linalg.cholesky(correlation), atol=1e-13)


def test_dependent_columns_get_no_pivot_but_keep_their_row() -> None:
    data = skewed(1)
    data = np.column_stack([data[:, 0], 2 * data[:, 0], data[:, 1], data[:, 0] - data[:, 1], data[:, 2:]])
    correlation = np.corrcoef(data.T)
    factor, pivots = generalised_cholesky(correlation)
    assert pivots == [0, 2, 4, 5]
    assert np.abs(factor @ factor.T - correlation).max() < 1e-13
    assert (np.diagonal(factor[pivots]) > 0).all()


def test_scores_and_loadings_of_the_triangular_axes_give_the_data_back() -> None:
    data = skewed(2)
    data = np.column_stack([data, data @ [1, 2, 0, 0]]) * [1, 1e6, 1e-6, 1, 1]
    axes = Cholesky().fit(summary(data), lambda most: data[:most], Streams(1).stream("unused"))
    centred = data - data.mean(axis=0)
    scores = centred @ axes.projection
    assert axes.count == 4
    assert np.abs(np.cov(scores.T, ddof=0) - np.eye(4)).max() < 1e-12
    assert np.abs((scores @ axes.loadings - centred) / data.std(axis=0)).max() < 1e-12
    assert np.abs(np.tril(axes.loadings, -1)[:, :4]).max() == 0  # a component has no part in the columns before it


# --- Exact moments by Gram-Schmidt


def test_the_triangular_root_is_numpys_and_goes_on_where_numpys_gives_up() -> None:
    covariance = np.cov(skewed(3).T)
    assert np.allclose(triangular_root(covariance), np.linalg.cholesky(covariance).T, rtol=1e-11)
    singular = np.outer([1.0, 2.0, 0.5], [1.0, 2.0, 0.5])
    root = triangular_root(singular)
    assert np.abs(root.T @ root - singular).max() < 1e-14
    assert np.abs(np.tril(root, -1)).max() == 0


def test_the_triangular_correction_is_gram_schmidt() -> None:
    rng = np.random.default_rng(3)
    seeds = rng.random((200, 4))
    target = Moments(200.0, np.zeros(4), np.zeros(4), 200 * np.eye(4))
    fix = correction(summary(seeds), target, 0, [0, 1, 2, 3], "triangular")
    orthonormal = seeds @ fix.matrix + fix.constant
    expected, upper = np.linalg.qr(seeds - seeds.mean(axis=0))
    expected = expected * np.sign(np.diagonal(upper)) * np.sqrt(200)
    assert np.abs(orthonormal - expected).max() < 1e-11


def test_the_symmetric_correction_moves_less_also_for_correlated_targets() -> None:
    rng = np.random.default_rng(4)
    before = skewed(4)
    now = before + 0.5 * rng.standard_normal(before.shape) * before.std(axis=0)
    scale = before.std(axis=0)

    def moved(root: str) -> float:
        fix = correction(summary(now), summary(before), 0, [0, 1, 2, 3], root)
        after = now @ fix.matrix + fix.constant
        assert moment_errors(before, after)[1] < 1e-12
        return float(np.square((after - now) / scale).sum())

    least = moved("symmetric")
    assert least < moved("triangular")
    # Any other map to the same covariance is the least one after a rotation; none of them moves less.
    fix = correction(summary(now), summary(before), 0, [0, 1, 2, 3], "symmetric")
    after = (now @ fix.matrix + fix.constant - before.mean(axis=0)) / scale
    values, vectors = np.linalg.eigh(np.cov(after.T, ddof=0))
    half, back = (vectors * np.sqrt(values)) @ vectors.T, (vectors / np.sqrt(values)) @ vectors.T
    start = (now - before.mean(axis=0)) / scale
    for turn in stats.ortho_group.rvs(4, 50, random_state=5):
        assert np.square(after @ back @ turn @ half - start).sum() > least


@pytest.mark.parametrize("perturb", ["swap", "normal", "noise"])
def test_root_can_be_chosen_for_any_exact_release(perturb: str) -> None:
    data = skewed(5)
    release = mv.protect(data, "pca", perturb=perturb, root="triangular", seed=1, public=[0])
    assert max(moment_errors(data, release.data)) < 1e-12
    assert not np.array_equal(release.data, mv.protect(data, "pca", perturb=perturb, seed=1, public=[0]).data)
    with pytest.raises(ParameterError, match="root goes with exact=True or 'rounded' only"):
        mv.protect(data, "pca", perturb=perturb, root="triangular", exact=False)


# --- The Cholesky method (Table 3)


def test_cholesky_is_uniform_seeds_orthonormalised_times_the_factor() -> None:
    data = skewed(6, 2000)
    released = mv.protect(data, "cholesky", seed=1).data
    factor = np.linalg.cholesky(np.cov(data.T, ddof=0))
    seeds = np.linalg.solve(factor, (released - data.mean(axis=0)).T).T
    # Theorem 4: the seeds have the identity for their covariance. The first one is a stretched uniform sample.
    assert np.abs(np.cov(seeds.T, ddof=0) - np.eye(4)).max() < 1e-11
    assert stats.kstest(seeds[:, 0], stats.uniform(-np.sqrt(3), np.sqrt(12)).cdf).pvalue > 1e-3
    assert stats.kstest(seeds[:, 0], "norm").pvalue < 1e-6


@pytest.mark.parametrize("scales", [(1, 1, 1, 1), (1e-6, 1, 1e3, 1e9)])
def test_cholesky_covariance_is_exact_also_with_dependent_columns(scales: tuple[float, ...]) -> None:
    data = skewed(7) * scales
    data = np.column_stack([data, data[:, 0] + data[:, 1], 3 * data[:, 2] - data[:, 3]])
    release = mv.protect(data, "cholesky", seed=2)
    assert release.release_type == "synthetic"
    assert max(moment_errors(data, release.data)) < 1e-10
    assert max(release.kept.values()) < 1e-10


def test_cholesky_is_exact_on_the_rank_deficient_census() -> None:
    # Published: off by 2.4e-4, as the plain Cholesky factor of a singular matrix is.
    _, data = census()
    for seed in range(3):
        assert max(moment_errors(data, mv.protect(data, "cholesky", seed=seed).data)) < 1e-10


def test_cholesky_is_exact_within_strata_beside_public_columns_and_with_weights() -> None:
    rng = np.random.default_rng(8)
    data = np.column_stack([skewed(8), rng.normal(size=300), np.repeat([0, 1, 2], 100), rng.uniform(1, 5, 300)])
    release = mv.protect(data, "cholesky", public=4, strata=5, weight=6, seed=1)
    assert max(release.kept.values()) < 1e-11
    assert np.array_equal(release.data[:, 4:], data[:, 4:])


def test_cholesky_and_normal_take_one_column() -> None:
    data = skewed()[:, :1]
    for method in ("cholesky", "normal"):
        after = mv.protect(data, method, seed=1).data
        assert not np.isin(after, data).any()
    after = mv.protect(data, "cholesky", seed=1).data
    assert after.mean() == pytest.approx(data.mean(), rel=1e-12)
    assert after.std() == pytest.approx(data.std(), rel=1e-12)


# --- The multivariate normal (MN)


@pytest.mark.slow
def test_normal_has_the_means_and_covariances_on_average() -> None:
    data = skewed(9, 200)
    sd = data.std(axis=0)
    releases = [mv.protect(data, "normal", seed=seed) for seed in range(300)]
    means = np.array([(release.data.mean(axis=0) - data.mean(axis=0)) / sd for release in releases])
    assert np.abs(means.mean(axis=0)).max() < 4 / np.sqrt(200 * 300)
    assert means.var(axis=0) == pytest.approx(np.full(4, 1 / 200), rel=4 * np.sqrt(2 / 300))
    covariances = np.mean([np.cov(release.data.T) for release in releases], axis=0)
    gap = np.abs(covariances - np.cov(data.T, ddof=0)) / np.outer(sd, sd)
    assert gap.max() < 4 * np.sqrt(2 / (200 * 300))
    assert releases[0].kept == {}
    assert releases[0].kept_on_average == ("mean", "covariance")
    assert releases[0].release_type == "synthetic"


def test_normal_is_normal_whatever_the_data_are() -> None:
    data = skewed(10, 5000)
    released = mv.protect(data, "normal", seed=1).data
    for j in range(4):
        assert stats.kstest(released[:, j], stats.norm(data[:, j].mean(), data[:, j].std()).cdf).pvalue > 1e-3
    white = np.linalg.solve(np.linalg.cholesky(np.cov(data.T)), (released - data.mean(axis=0)).T)
    assert stats.kstest(np.square(white).sum(axis=0), stats.chi2(4).cdf).pvalue > 1e-3


def test_normal_takes_given_deviates() -> None:
    data = skewed(11, 50)
    draws = np.random.default_rng(1).standard_normal((50, 4))
    released = mv.protect(data, "normal", draws=draws, rules=None).data
    values, vectors = np.linalg.eigh(np.corrcoef(data.T))
    vectors = vectors[:, ::-1] * np.sign(vectors[:, ::-1][np.abs(vectors[:, ::-1]).argmax(axis=0), np.arange(4)])
    expected = draws * np.sqrt(values[::-1]) @ vectors.T * data.std(axis=0) + data.mean(axis=0)
    assert np.abs((released - expected) / data.std(axis=0)).max() < 1e-11
