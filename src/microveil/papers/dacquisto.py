"""D'Acquisto and Naldi: Table I and Fig. 4, of a picture that nobody may ship; ours beside them are of other ones."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from microveil import api
from microveil.core.arrays import Array
from microveil.papers.base import Found, NotRunError, Place, Printed, PublishedItem, RunOptions, Tolerance
from microveil.papers.runs import SAYS, TEXT, part_of, releases, said

PAPER = "D'Acquisto and Naldi"
LENA = "the paper's picture (Lena) is not available"
NEEDS = "Lena, which is not available; beside it pictures that scikit-image ships"
OTHER = Tolerance("another picture: there is nothing to agree with")
REMOVED = (1, 2, 5)
QUALITY = {1: (0.9335, 20.0081), 2: (0.9036, 17.9902), 5: (0.8614, 16.1854)}
PICTURES = ("camera", "chelsea", "rocket", "coins", "coffee")
WINDOW = 7
PEAK = 255.0


def _picture(name: str) -> Array:
    """A picture in grey shades from 0 to 255, turned if it lies, so that there are more records than columns."""
    try:
        shades = getattr(importlib.import_module("skimage.data"), name)()
        grey = importlib.import_module("skimage.color").rgb2gray(shades) * PEAK if shades.ndim == 3 else shades
    except ImportError:
        raise NotRunError("scikit-image is not installed; pip install scikit-image") from None
    standing = grey.T if grey.shape[1] > grey.shape[0] else grey
    return np.ascontiguousarray(standing, dtype=np.float64)


def _beside(rows: Sequence[str], values: dict[Place, list[float]], reason: str = "") -> Found:
    """Lena is never there; the rows of our pictures may be."""
    absent = {row: LENA if row.startswith("Lena") else reason for row in rows}
    return Found(values, absent)


# --- Table I: quality after the largest components were removed

WINDOWED, GLOBAL, PSNR = "SSIM", "SSIM of all cells", "PSNR"
FALLS = "the indices fall as more components are removed"


def _row(picture: str, count: int) -> str:
    return f"{picture}, {count} removed"


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
    judged = api.assess(*pair, measures=["ssim", "psnr"], rules=None, sanity=False)
    return {
        WINDOWED: float(windowed(picture, np.clip(left, 0, PEAK), win_size=WINDOW, data_range=PEAK)),
        GLOBAL: judged["ssim"].value,
        PSNR: judged["psnr"].value,
    }


def _run_1(asked: RunOptions) -> Found:
    rows = [_row(name, count) for name in ("Lena", *PICTURES) for count in REMOVED]
    values: dict[Place, list[float]] = {}
    for number, name in enumerate(PICTURES):
        try:
            picture = _picture(name)
        except NotRunError as reason:
            return _beside([*rows, TEXT], {}, str(reason))
        (whole,) = releases(picture, "pca", part_of(asked, number, len(PICTURES)))
        for count in REMOVED:
            left = without_largest(picture, whole.components.weights, count)
            values |= {(_row(name, count), word): [value] for word, value in _quality(picture, left).items()}
    falls = all(
        values[_row(name, few), word] > values[_row(name, more), word]
        for name in PICTURES
        for few, more in pairwise(REMOVED)
        for word in (WINDOWED, PSNR)
    )
    return _beside(rows, {**values, **said({FALLS: falls})})


TABLE_1 = PublishedItem(
    id="dacquisto-table1",
    title="quality of pictures after their largest components were removed",
    paper=PAPER,
    place="Table I",
    needs=NEEDS,
    printed=[
        *(
            Printed(_row("Lena", count), word, value, OTHER)
            for count in REMOVED
            for word, value in zip((WINDOWED, PSNR), QUALITY[count], strict=True)
        ),
        *(
            Printed(_row(name, count), word, None, OTHER)
            for name in PICTURES
            for count in REMOVED
            for word in (WINDOWED, GLOBAL, PSNR)
        ),
        Printed(TEXT, FALLS, 1, SAYS),
    ],
    run=_run_1,
    least_repeats=0,
    notes=(
        "SSIM is the mean over windows of 7 x 7 shades: the printed figures have its size, and not that of eq. 11 over "
        "all cells, which is beside it",
        "components are those of columns in standard deviations, as the paper's metrics are; of the shades as they "
        "are, PSNR is up to 1 dB lower",
        "lying pictures are turned, so that there are more records than columns",
    ),
)

# --- Fig. 4: the fall of the eigenvalues


def _run_4(asked: RunOptions) -> Found:
    rows = ["Lena", *PICTURES]
    values: dict[Place, list[float]] = {}
    for number, name in enumerate(PICTURES):
        try:
            picture = _picture(name)
        except NotRunError as reason:
            return _beside(rows, {}, str(reason))
        asked.progress(f"fitting the decay of {name}", number / len(PICTURES))
        decay = api.assess(picture, picture, measures=["eigen_decay"], rules=None, sanity=False)["eigen_decay"]
        values |= {(name, "b"): [decay.value], (name, "R²"): [decay.parts["r2"]]}
    return _beside(rows, values)


FIGURE_4 = PublishedItem(
    id="dacquisto-fig4",
    title="the sigmoid that the eigenvalues of pictures follow",
    paper=PAPER,
    place="Fig. 4 and eq. 12",
    needs=NEEDS,
    printed=[
        Printed("Lena", "b", 2.21, OTHER),
        Printed("Lena", "R²", 0.9993, OTHER),
        *(Printed(name, word, None, OTHER) for name in PICTURES for word in ("b", "R²")),
    ],
    run=_run_4,
    least_repeats=0,
    notes=("fitted to the first 20 eigenvalues; the paper does not say to how many, and b depends on it",),
)
