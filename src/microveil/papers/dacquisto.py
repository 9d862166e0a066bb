"""D'Acquisto and Naldi: Table I and Fig. 4, of a picture that may not be shipped, and of one that is drawn here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from microveil.core.arrays import Array
from microveil.io.pictures import read_picture
from microveil.measures.utility.image import PEAK, windowed_similarity
from microveil.measures.utility.spectrum import fit_decay
from microveil.papers.published import TEXT, Found, Place, RunOptions
from microveil.papers.runs import once, releases

LENA, DRAWN = "Lena", "drawn picture"
HOW = "the picture may not be shipped: give your copy of it, `microveil reproduce {} --image FILE` (grey, 512 x 512)"
REMOVED = (1, 2, 5)
FITTED = 5
"""Eigenvalues that the sigmoid is fitted to: with five, b and R² are the printed ones."""

SIDE = 160


def picture_quality(options: RunOptions) -> Found:
    """Quality after the largest components were removed (Table I)."""

    def figures(name: str, picture: Array) -> dict[Place, float]:
        return {
            (f"{name}, {count} removed", word): value
            for count in REMOVED
            for word, value in _quality(picture, without_largest(picture, _components(picture)[0], count)).items()
        }

    def falls(values: Mapping[Place, Sequence[float]], name: str) -> bool:
        return all(
            values[f"{name}, {few} removed", word][0] > values[f"{name}, {more} removed", word][0]
            for few, more in pairwise(REMOVED)
            for word in ("SSIM", "PSNR")
        )

    rows = [f"{LENA}, {count} removed" for count in REMOVED]
    found = _of_pictures(figures, options, "dacquisto-table1", [*rows, TEXT])
    return found if options.image is None else replace(found, claims=[falls(found.values, LENA)])


def picture_eigenvalues(options: RunOptions) -> Found:
    """The fall of the eigenvalues (Fig. 4)."""

    def figures(name: str, picture: Array) -> dict[Place, float]:
        decay = fit_decay(_components(picture)[1][:FITTED])
        return {(name, "b"): decay.b, (name, "R²"): decay.r2}

    return _of_pictures(figures, options, "dacquisto-fig4", [LENA])


def _of_pictures(
    figures: Callable[[str, Array], Mapping[Place, float]], options: RunOptions, table: str, lena: Sequence[str]
) -> Found:
    """The figures of the picture that was given, if one was, and of the drawn one.

    `figures` makes them from a name and a picture; `table` is the item, and `lena` its rows of the paper's picture.
    """
    options.progress("removing components", 0.5)
    values = dict(figures(DRAWN, drawn_picture()))
    if options.image is not None:
        values |= figures(LENA, read_picture(options.image))
    absent = dict.fromkeys(lena, HOW.format(table)) if options.image is None else {}
    return Found({place: [value] for place, value in values.items()}, absent)


def drawn_picture() -> Array:
    """A picture of our own in grey shades: a sky with discs over stripes, with some grain."""
    y, x = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    shades = 90 + 80 * y + 25 * np.sin(9 * x + 4 * y)
    for across, down, size, shade in ((0.3, 0.35, 0.2, 200), (0.7, 0.6, 0.15, 40), (0.55, 0.2, 0.08, 230)):
        shades = np.where(np.hypot(x - across, y - down) < size, shade, shades)
    stripes = (x * 16).astype(int) % 2 * 60.0
    shades = np.where(y > 0.8, 60 + stripes, shades)
    grain = np.random.default_rng(1).normal(0, 4, shades.shape)
    return np.asarray(np.clip(shades + grain, 0, PEAK), dtype=np.float64)


def _components(picture: Array) -> tuple[Array, Array]:
    """Weights (columns x components) and variances of the transposed picture's components, centred and in one unit."""
    (whole,) = releases(np.ascontiguousarray(picture.T), "pca", once(), standardise=False)
    return whole.components.weights, whole.components.variance


def without_largest(picture: Array, weights: Array, count: int) -> Array:
    """The picture without its largest components, as `component_removal` releases it, turned back.

    `weights` are those of the components of the transposed picture.
    """
    turned = picture.T
    centred = turned - turned.mean(axis=0)
    left: Array = turned - centred @ weights[:, :count] @ weights[:, :count].T
    return left.T


def _quality(picture: Array, left: Array) -> dict[str, float]:
    """Table I's indices, of shades as they come out: they are not cut off where a picture ends."""
    return {
        "SSIM": windowed_similarity(picture, left, "gaussian"),
        "PSNR": float(10 * np.log10(PEAK**2 / np.square(picture - left).mean())),
    }
