"""D'Acquisto and Naldi's metrics when the largest principal components are removed: closed forms, and figures in print.

With columns standardised and λ the eigenvalues of the correlation matrix, every metric is known beforehand.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from reference import census
from samples import matrix

from microveil.errors import DataError, ParameterError
from microveil.measures.utility import MEASURES
from microveil.measures.utility.distances import (
    kl_gaussian,
    kl_ridge,
    norm_frobenius,
    norm_max_row,
    norm_sum,
    vector_correlation,
    wasserstein_gaussian,
)
from microveil.measures.utility.image import psnr, ssim
from microveil.measures.utility.spectrum import eigen_decay, fit_decay

Array = NDArray[np.float64]


def table(seed: int, rows: int = 200, columns: int = 6) -> Array:
    rng = np.random.default_rng(seed)
    return rng.lognormal(size=(rows, columns)) @ (np.eye(columns) + 0.4) * np.geomspace(1e-3, 1e4, columns) + 7


def removed(data: Array, k: int) -> tuple[Array, Array]:
    """The data without their k largest components, and the eigenvalues."""
    mean, sd = data.mean(axis=0), data.std(axis=0)
    z = (data - mean) / sd
    values, vectors = np.linalg.eigh(np.corrcoef(z.T))
    top = vectors[:, ::-1][:, :k]
    return mean + sd * (z - z @ top @ top.T), values[::-1]


@pytest.mark.parametrize("k", [1, 2, 5])
def test_closed_forms(k: int) -> None:
    data = table(1)
    released, eigenvalues = removed(data, k)
    n, p = data.shape
    gone = eigenvalues[:k]
    ratios = gone / 0.01
    pair = matrix(data), matrix(released)
    assert norm_frobenius(*pair).value == pytest.approx(np.sqrt(n * gone.sum()), rel=1e-10)
    assert vector_correlation(*pair).value == pytest.approx(np.sqrt(1 - gone.sum() / p), rel=1e-10)
    assert kl_ridge(*pair).value == pytest.approx((ratios - np.log1p(ratios)).sum() / 2, rel=1e-10)
    assert wasserstein_gaussian(*pair).value == pytest.approx(gone.sum(), rel=1e-7)  # square roots of round-off
    assert kl_gaussian(*pair).value == np.inf
    d = np.abs(data - released) / data.std(axis=0)
    assert norm_sum(*pair).value == pytest.approx(d.sum(), rel=1e-10)
    assert norm_max_row(*pair).value == pytest.approx(d.sum(axis=1).max(), rel=1e-10)
    assert norm_sum(*pair).parts["per cell"] == pytest.approx(d.mean(), rel=1e-10)
    released[::3, 0] = np.nan
    known = d[~np.isnan(released)]
    assert norm_sum(matrix(data), matrix(released)).parts["per cell"] == pytest.approx(known.mean(), rel=1e-10)
    mean_square = np.square(norm_frobenius(matrix(data), matrix(released)).parts["per cell"])
    assert mean_square == pytest.approx(np.square(known).mean(), rel=1e-10)


@pytest.mark.parametrize(
    ("k", "frobenius", "largest", "standardised", "raw", "ridge"),
    [
        (1, 90.78114, 21.7, 0.64267, 0.97356, 378.2184),
        (2, None, 36.1, 0.51831, 0.96902, 469.4425),
        (3, None, 35.2, 0.43609, 0.85641, 518.1280),
    ],
)
def test_figures_for_the_census(
    k: int, frobenius: float | None, largest: float, standardised: float, raw: float, ridge: float
) -> None:
    # An independent prototype's, which also compared the divergence by matrices with its closed form.
    _, data = census()
    pair = matrix(data), matrix(removed(data, k)[0])
    if frobenius:
        assert norm_frobenius(*pair).value == pytest.approx(frobenius, abs=5e-6)
        assert (ssim(*pair).value, ssim(*pair).parts["columns"]) == pytest.approx((0.706, 0.519), abs=5e-4)
    assert norm_max_row(*pair).value == pytest.approx(largest, abs=0.05)
    assert vector_correlation(*pair).value == pytest.approx(standardised, abs=5e-6)
    assert vector_correlation(*pair).parts["raw values"] == pytest.approx(raw, abs=5e-6)
    assert kl_ridge(*pair).value == pytest.approx(ridge, abs=5e-5)


def test_divergence_is_equation_8() -> None:
    rng = np.random.default_rng(2)
    data = table(2, 300, 4)
    released = data + rng.normal(size=data.shape) * data.std(axis=0) * 0.3 + 0.1 * data.std(axis=0)
    z, y = ((side - data.mean(axis=0)) / data.std(axis=0) for side in (data, released))
    a, b, shift = np.cov(z.T, bias=True), np.cov(y.T, bias=True), y.mean(axis=0)
    expected = np.trace(a @ np.linalg.inv(b)) - np.log(np.linalg.det(a) / np.linalg.det(b)) - 4
    expected += shift @ np.linalg.inv(b) @ shift
    assert kl_gaussian(matrix(data), matrix(released)).value == pytest.approx(expected / 2, rel=1e-9)
    ridge = 0.5 * np.eye(4)
    a, b = a + ridge, b + ridge
    expected = np.trace(a @ np.linalg.inv(b)) - np.log(np.linalg.det(a) / np.linalg.det(b)) - 4
    expected += shift @ np.linalg.inv(b) @ shift
    assert kl_ridge(matrix(data), matrix(released), ridge=0.5).value == pytest.approx(expected / 2, rel=1e-9)
    with pytest.raises(ParameterError, match="ridge"):
        kl_ridge(matrix(data), matrix(released), ridge=0)


def test_a_rule_both_files_obey_takes_no_divergence_and_one_that_is_broken_all() -> None:
    rng = np.random.default_rng(3)
    data = rng.normal(size=(200, 2))
    released = 1.1 * data
    ruled, kept = (np.column_stack([side, side.sum(axis=1)]) for side in (data, released))
    plain = kl_gaussian(matrix(data), matrix(released)).value
    assert kl_gaussian(matrix(ruled), matrix(kept)).value == pytest.approx(plain, rel=1e-9)
    broken = kept + [0, 0, 1] * rng.normal(size=(200, 1)) * 0.1
    assert kl_gaussian(matrix(ruled), matrix(broken)).value == np.inf
    assert kl_ridge(matrix(ruled), matrix(broken)).value < np.inf


def test_wasserstein_of_known_normals() -> None:
    # Diagonal covariances: Σ (σ_i - τ_i)², and the squared shift.
    raw = np.random.default_rng(4).normal(size=(50, 3))
    white = np.linalg.qr(raw - raw.mean(axis=0))[0] * np.sqrt(50)
    found = wasserstein_gaussian(matrix(white), matrix(white * [1, 2, 0.5] + [0, 0, 3]))
    assert found.value == pytest.approx(0 + 1 + 0.25 + 9)


def test_psnr_and_ssim_are_their_formulas() -> None:
    data = np.array([[0.0, 10.0], [1.0, 20.0], [2.0, 30.0]])
    released = np.array([[0.0, 15.0], [1.0, 20.0], [4.0, 30.0]])  # the 4 is clipped to 2
    f = np.array([[0, 0], [127.5, 127.5], [255, 255]])
    g = np.array([[0, 63.75], [127.5, 127.5], [255, 255]])
    found = psnr(matrix(data), matrix(released))
    assert found.value == pytest.approx(10 * np.log10(255**2 / np.square(f - g).mean()))
    assert found.parts["clipped"] == pytest.approx(1 / 6)
    c1, c2 = 2.55**2, 7.65**2
    covariance, sf, sg = np.cov(f.ravel(), g.ravel(), bias=True)[0, 1], f.std(), g.std()
    s = (covariance + c2 / 2) / (sf * sg + c2 / 2)
    l = (2 * f.mean() * g.mean() + c1) / (f.mean() ** 2 + g.mean() ** 2 + c1)  # noqa: E741 - the paper's letter
    c = (2 * sf * sg + c2) / (sf**2 + sg**2 + c2)
    assert ssim(matrix(data), matrix(released)).value == pytest.approx(s * l * c)
    assert ssim(matrix(data[:, :1]), matrix(data[::-1, :1])).value < 0  # against the paper's [0, 1]


def test_a_utility_falls_as_components_go() -> None:
    # What component removal does with a measure: distances are turned around.
    data = table(5)
    released = [removed(data, k)[0] for k in range(4)]
    for name in ("norm_frobenius", "vector_correlation", "kl_ridge", "wasserstein_gaussian", "pil", "correlation_bias"):
        path = [MEASURES[name](matrix(data), matrix(step)).utility for step in released]
        assert path[0] > path[1], name
        assert path[0] == max(path), name
        if name not in ("pil", "correlation_bias"):
            assert path == sorted(path, reverse=True), name


def test_the_sigmoid_is_found_again() -> None:
    x = np.arange(1.0, 16.0)
    curve = 0.02 + (1.3 - 0.02) / (1 + (x / 3.0) ** 2.2)
    fit = fit_decay(curve * 7)
    assert fit.b == pytest.approx(2.2, abs=1e-3)
    assert fit.c == pytest.approx(3.0, abs=1e-3)
    assert fit.r2 > 1 - 1e-9
    assert fit.at_bound == ()
    assert fit.identified


def test_fast_decay_is_flagged_and_too_few_are_refused() -> None:
    power = fit_decay(np.arange(1.0, 14.0) ** -2.5)  # a power law: the upper plateau lies out of sight
    assert "a" in power.at_bound
    assert not power.identified
    assert power.b == pytest.approx(2.5, abs=0.05)
    data = table(6)
    found = eigen_decay(matrix(data), matrix(data))
    assert found.parts["share"] == found.parts["released share"]
    assert "from 6 eigenvalues" in found.note
    with pytest.raises(DataError, match="too few"):
        eigen_decay(matrix(data[:, :4]), matrix(data[:, :4]))
