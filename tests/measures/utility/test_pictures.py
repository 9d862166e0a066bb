"""PSNR and SSIM beside scikit-image, on tables whose shades are those of the picture."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from samples import matrix

from microveil.errors import ParameterError
from microveil.measures.utility.image import psnr, ssim

Array = NDArray[np.float64]


def picture(rows: int, columns: int, seed: int = 1) -> tuple[Array, Array]:
    """A smooth picture whose columns all go from 0 to 255, and a noisy one; so tables and pictures are the same."""
    rng = np.random.default_rng(seed)
    values = np.cumsum(rng.normal(size=(rows, columns)), axis=0)
    values = (values - values.min(axis=0)) / np.ptp(values, axis=0) * 255
    return values, np.clip(values + 40 * rng.normal(size=values.shape), 0, 255)


def by_hand(f: Array, g: Array, window: int) -> float:
    """Eq. 11 in each window, and the mean."""
    c1, c2, found = 2.55**2, 7.65**2, []
    for i in range(f.shape[0] - window + 1):
        for j in range(f.shape[1] - window + 1):
            x, y = (side[i : i + window, j : j + window] for side in (f, g))
            light = (2 * x.mean() * y.mean() + c1) / (x.mean() ** 2 + y.mean() ** 2 + c1)
            found.append(light * (2 * np.cov(x.ravel(), y.ravel(), bias=True)[0, 1] + c2) / (x.var() + y.var() + c2))
    return float(np.mean(found))


@pytest.mark.parametrize("window", [3, 7])
def test_the_windowed_similarity_is_the_mean_over_windows(window: int) -> None:
    before, after = picture(20, 9)
    found = ssim(matrix(before), matrix(after), window=window)
    assert found.value == pytest.approx(by_hand(before, after, window), rel=1e-9)
    assert ssim(matrix(before), matrix(before), window=window).value == pytest.approx(1)


def test_one_window_over_all_is_the_similarity_of_all_cells() -> None:
    before, after = picture(11, 11)
    assert ssim(matrix(before), matrix(after), window=11).value == pytest.approx(
        ssim(matrix(before), matrix(after)).value
    )


def test_only_windows_depend_on_the_order_of_the_records() -> None:
    before, after = picture(40, 9)
    order = np.random.default_rng(2).permutation(40)
    plain, shuffled = (matrix(before), matrix(after)), (matrix(before[order]), matrix(after[order]))
    assert ssim(*shuffled).value == pytest.approx(ssim(*plain).value)
    assert abs(ssim(*shuffled, window=7).value - ssim(*plain, window=7).value) > 0.01


@pytest.mark.parametrize("window", [1, 4, 11])
def test_windows_that_do_not_fit_are_refused(window: int) -> None:
    before, after = picture(20, 9)
    with pytest.raises(ParameterError, match="from 3 to 9"):
        ssim(matrix(before), matrix(after), window=window)


def test_scikit_image_has_the_same_figures() -> None:
    metrics = pytest.importorskip("skimage.metrics", reason="scikit-image is not installed")
    before, after = picture(60, 25, seed=3)
    pair = matrix(before), matrix(after)
    assert psnr(*pair).value == pytest.approx(metrics.peak_signal_noise_ratio(before, after, data_range=255), rel=1e-9)
    for window in (3, 7, 25):
        expected = metrics.structural_similarity(
            before, after, win_size=window, data_range=255, use_sample_covariance=False
        )
        assert ssim(*pair, window=window).value == pytest.approx(expected, rel=1e-9)
    square = tuple(side[:25] for side in (before, after))
    shades = [(side - square[0].min(axis=0)) / np.ptp(square[0], axis=0) * 255 for side in square]
    shades[1] = np.clip(shades[1], 0, 255)
    whole = metrics.structural_similarity(*shades, win_size=25, data_range=255, use_sample_covariance=False)
    assert ssim(matrix(square[0]), matrix(square[1])).value == pytest.approx(whole, rel=1e-9)
