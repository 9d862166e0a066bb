"""The table as a picture (D'Acquisto and Naldi): each column in shades from 0 to 255 by the original's extremes."""

from __future__ import annotations

from typing import Literal

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import ParameterError
from microveil.core.table import Matrix
from microveil.measures.base import Estimate, gauge, standardised

PEAK = 255.0
C1 = (0.01 * PEAK) ** 2
C2 = (0.03 * PEAK) ** 2

GAUSSIAN_SD, GAUSSIAN_SIZE = 1.5, 11

Window = int | Literal["gaussian"] | None


def _shades(original: Matrix, released: Matrix) -> tuple[Array, Array, float]:
    """Both files in shades, cells that are missing in either blank in both, and the share of released cells clipped."""
    before, after = standardised(original, released)
    low, high = np.nanmin(before, axis=0), np.nanmax(before, axis=0)
    before, after = ((side - low) / (high - low) * PEAK for side in (before, after))
    blank = np.isnan(before) | np.isnan(after)
    clipped = np.clip(after, 0, PEAK)
    share = float((np.abs(clipped - after)[~blank] > 1e-9 * PEAK).mean()) if not blank.all() else 0.0
    return np.where(blank, np.nan, before), np.where(blank, np.nan, clipped), share


@gauge(
    "peak signal-to-noise ratio of the table seen as a picture, in decibels",
    better="high",
    range=(0, np.inf),
    paired=True,
)
def psnr(original: Matrix, released: Matrix) -> Estimate:
    """10 log10(255² / MSE) (D'Acquisto and Naldi, eq. 9 and 10); infinite for the same picture.

    Shades outside of the original's are clipped, else it could be negative; the share of those cells is in the parts.
    No sampling is involved.
    """
    before, after, clipped = _shades(original, released)
    known = ~np.isnan(before)
    error = float(np.square(before[known] - after[known]).mean()) if known.any() else PEAK**2
    value = 10 * np.log10(PEAK**2 / error) if error > 0 else np.inf
    return Estimate(float(value), parts={"mean squared error": error, "clipped": clipped})


@gauge(
    "structural similarity of the table and its release seen as pictures, over all cells at once",
    better="high",
    range=(-1, 1),
    paired=True,
)
def ssim(original: Matrix, released: Matrix, *, window: Window = None) -> Estimate:
    """SSIM = correlation x luminance x contrast (D'Acquisto and Naldi, eq. 11), over all cells; 1 for the same picture.

    The part "columns" is its mean over the columns. Both do not depend on the order of the records. With `window` (an
    odd number) the figure is the mean over all windows of so many rows and columns, as in image processing; with
    "gaussian" over windows of 11 x 11 that fade out, as in the paper's Table I. It then depends on the order of the
    records, and records have none: that is for pictures. It can be negative, unlike the paper says. No sampling is
    involved.
    """
    before, after, clipped = _shades(original, released)
    columns = [_similarity(old, new) for old, new in zip(before.T, after.T, strict=True)]
    value = _similarity(before.ravel(), after.ravel()) if window is None else windowed_similarity(before, after, window)
    return Estimate(value, parts={"columns": float(np.mean(columns)), "clipped": clipped})


def _similarity(before: Array, after: Array) -> float:
    """Eq. 11 with C3 = C2 / 2, where correlation and contrast join to (2 σ_fg + C2) / (σ_f² + σ_g² + C2)."""
    known = ~np.isnan(before)
    if not known.any():
        return 0.0
    f, g = before[known], after[known]
    mean_f, mean_g = f.mean(), g.mean()
    covariance = ((f - mean_f) * (g - mean_g)).mean()
    luminance = (2 * mean_f * mean_g + C1) / (mean_f**2 + mean_g**2 + C1)
    return float(luminance * (2 * covariance + C2) / (f.var() + g.var() + C2))


def windowed_similarity(before: Array, after: Array, window: int | str) -> float:
    """The mean of eq. 11 over all windows inside the picture; a cell that is missing is black in both.

    Args:
        before: the picture, rows x columns, in shades up to 255.
        after: another one of this shape.
        window: rows and columns of a window, an odd number; or "gaussian" (Wang et al. 2004): 11, with weights.
    """
    from scipy.ndimage import gaussian_filter, uniform_filter

    size = GAUSSIAN_SIZE if window == "gaussian" else window
    if not isinstance(size, int) or size % 2 == 0 or not 1 < size <= min(before.shape):
        raise ParameterError(
            f"window: must be an odd number from 3 to {min(before.shape)}, the shorter side of the table, or "
            f"'gaussian', which takes {GAUSSIAN_SIZE}",
            "leave it out to compare all cells at once",
        )

    def mean(image: Array) -> Array:
        """The means of all windows; Gaussian weights are cut off where a window ends, 5 cells from its middle."""
        smooth = window == "gaussian"
        found = gaussian_filter(image, GAUSSIAN_SD, radius=size // 2) if smooth else uniform_filter(image, size)
        return np.asarray(found, dtype=np.float64)

    f, g = np.nan_to_num(before), np.nan_to_num(after)
    inside = tuple(slice(size // 2, side - size // 2) for side in f.shape)
    mean_f, mean_g, ff, gg, fg = (mean(image)[inside] for image in (f, g, f * f, g * g, f * g))
    luminance = (2 * mean_f * mean_g + C1) / (mean_f**2 + mean_g**2 + C1)
    rest = (2 * (fg - mean_f * mean_g) + C2) / (ff - mean_f**2 + gg - mean_g**2 + C2)
    return float((luminance * rest).mean())
