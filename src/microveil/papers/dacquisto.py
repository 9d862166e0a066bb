"""D'Acquisto and Naldi: Table I and Fig. 4, of a picture that nobody may ship; ours are of other ones."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from microveil.assess import assess
from microveil.core.arrays import Array
from microveil.papers.published import Found, NotRunError, Place, RunOptions
from microveil.papers.runs import part_of, releases

LENA = "the paper's picture (Lena) is not available"
REMOVED = (1, 2, 5)
PICTURES = ("camera", "chelsea", "rocket", "coins", "coffee")
WINDOW = 7
PEAK = 255.0


def picture_quality(options: RunOptions) -> Found:
    """Quality after the largest components were removed (Table I)."""

    def figures(name: str, picture: Array, part: RunOptions) -> dict[Place, float]:
        (whole,) = releases(picture, "pca", part)
        return {
            (f"{name}, {count} removed", word): value
            for count in REMOVED
            for word, value in _quality(picture, without_largest(picture, whole.components.weights, count)).items()
        }

    def falls(values: Mapping[Place, Sequence[float]]) -> bool:
        return all(
            values[f"{name}, {few} removed", word][0] > values[f"{name}, {more} removed", word][0]
            for name in PICTURES
            for few, more in pairwise(REMOVED)
            for word in ("SSIM", "PSNR")
        )

    found = _of_pictures(figures, options, [f"Lena, {count} removed" for count in REMOVED])
    return replace(found, claims=[falls(found.values)]) if found.values else found


def picture_eigenvalues(options: RunOptions) -> Found:
    """The fall of the eigenvalues (Fig. 4)."""

    def figures(name: str, picture: Array, part: RunOptions) -> dict[Place, float]:
        part.progress(f"fitting the decay of {name}", 0.0)
        decay = assess(picture, picture, measures=["eigen_decay"], rules=None, sanity=False)["eigen_decay"]
        return {(name, "b"): decay.value, (name, "R²"): decay.parts["r2"]}

    return _of_pictures(figures, options, ["Lena"])


def _of_pictures(
    figures: Callable[[str, Array, RunOptions], Mapping[Place, float]], options: RunOptions, lena: Sequence[str]
) -> Found:
    """The figures of all our pictures; `lena` has the rows of the one that is never there."""
    absent = dict.fromkeys(lena, LENA)
    values: dict[Place, list[float]] = {}
    for number, name in enumerate(PICTURES):
        try:
            picture = _picture(name)
        except NotRunError as reason:
            return Found({}, absent, otherwise=str(reason))
        part = part_of(options, number, len(PICTURES))
        values |= {place: [value] for place, value in figures(name, picture, part).items()}
    return Found(values, absent)


def _picture(name: str) -> Array:
    """A picture in grey shades from 0 to 255, turned if it lies, so that there are more records than columns."""
    try:
        shades = getattr(importlib.import_module("skimage.data"), name)()
        grey = importlib.import_module("skimage.color").rgb2gray(shades) * PEAK if shades.ndim == 3 else shades
    except ImportError:
        raise NotRunError("scikit-image is not installed; pip install scikit-image") from None
    standing = grey.T if grey.shape[1] > grey.shape[0] else grey
    return np.ascontiguousarray(standing, dtype=np.float64)


def without_largest(picture: Array, weights: Array, count: int) -> Array:
    """The table without its largest components, as `component_removal` releases it: without measuring every step."""
    mean, sd = picture.mean(axis=0), picture.std(axis=0)
    standard = (picture - mean) / np.where(sd > 0, sd, 1.0)
    left: Array = picture - standard @ weights[:, :count] @ weights[:, :count].T * sd
    return left


def _quality(picture: Array, left: Array) -> dict[str, float]:
    """Table I's indices; the mean over windows is scikit-image's, of shades that are cut off where a picture ends."""
    windowed = importlib.import_module("skimage.metrics").structural_similarity
    # A table's shades are stretched to each column's extremes. So the picture is one column here, and has one cell more
    # of black and one of white; that moves PSNR in its fifth decimal.
    pair = [np.concatenate([side.ravel(), [0.0, PEAK]]).reshape(-1, 1) for side in (picture, left)]
    judged = assess(*pair, measures=["ssim", "psnr"], rules=None, sanity=False)
    return {
        "SSIM": float(windowed(picture, np.clip(left, 0, PEAK), win_size=WINDOW, data_range=PEAK)),
        "SSIM of all cells": judged["ssim"].value,
        "PSNR": judged["psnr"].value,
    }
