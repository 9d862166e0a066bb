"""D'Acquisto and Naldi: Table I and Fig. 4, of a picture that nobody may ship; ours beside them are of another one."""

from __future__ import annotations

import importlib

import numpy as np

from microveil import api
from microveil.core.arrays import Array
from microveil.studies.published.base import Asked, Entry, Found, NotRunError, Place, Printed, Tolerance
from microveil.studies.published.runs import releases

PAPER = "D'Acquisto and Naldi"
LENA = "the paper's picture (Lena) is not available"
NEEDS = "Lena, which is not available; beside it a picture that scikit-image ships"
OTHER = Tolerance("another picture: there is nothing to agree with")
REMOVED = (1, 2, 5)
QUALITY = {1: (0.9335, 20.0081), 2: (0.9036, 17.9902), 5: (0.8614, 16.1854)}


def _camera() -> Array:
    """The cameraman, 512 x 512 shades from 0 to 255."""
    try:
        pictures = importlib.import_module("skimage.data")
    except ImportError:
        raise NotRunError("scikit-image is not installed; pip install scikit-image") from None
    return np.ascontiguousarray(pictures.camera(), dtype=np.float64)


def _beside(rows: list[str], values: dict[Place, list[float]], reason: str = "") -> Found:
    """Lena is never there; the rows of our picture may be."""
    absent = {row: LENA if row.startswith("Lena") else reason for row in rows}
    return Found(values, absent)


def _rows_1() -> list[str]:
    return [f"{picture}, {count} removed" for picture in ("Lena", "camera") for count in REMOVED]


def _run_1(asked: Asked) -> Found:
    try:
        picture = _camera()
    except NotRunError as reason:
        return _beside(_rows_1(), {}, str(reason))
    (whole,) = releases(picture, "pca", asked)
    values: dict[Place, list[float]] = {}
    for count in REMOVED:
        # The Frobenius norm of what is removed is the root of n times its eigenvalues: so exactly these go.
        norm = float(np.sqrt(len(picture) * whole.components.variance[:count].sum()))
        chosen = {"utility": "norm_frobenius", "threshold": norm * (1 + 1e-9)}
        (release,) = releases(picture, "component_removal", asked, **chosen)
        # As one column, the picture keeps its shades: those of a table are stretched column by column.
        pair = [side.reshape(-1, 1) for side in (picture, release.data)]
        judged = api.assess(*pair, measures=["ssim", "psnr"], rules=None, sanity=False)
        values |= {(f"camera, {count} removed", name.upper()): [judged[name].value] for name in ("ssim", "psnr")}
    return _beside(_rows_1(), values)


TABLE_1 = Entry(
    id="dacquisto-table1",
    title="quality of a picture after its largest components were removed",
    paper=PAPER,
    place="Table I",
    needs=NEEDS,
    printed=[
        Printed(f"{picture}, {count} removed", figure, value if picture == "Lena" else None, OTHER)
        for picture in ("Lena", "camera")
        for count in REMOVED
        for figure, value in zip(("SSIM", "PSNR"), QUALITY[count], strict=True)
    ],
    run=_run_1,
    least_repeats=0,
    notes=(
        "SSIM of a picture is ours over all cells (eq. 11); the printed figures have the size of a mean over windows",
        "components are those of columns in standard deviations, as the paper's metrics are",
        "the removal of each number of components takes half a minute",
    ),
)


def _run_4(asked: Asked) -> Found:
    rows = ["Lena", "camera"]
    try:
        picture = _camera()
    except NotRunError as reason:
        return _beside(rows, {}, str(reason))
    asked.progress("fitting the decay", 0.5)
    decay = api.assess(picture, picture, measures=["eigen_decay"], rules=None, sanity=False)["eigen_decay"]
    return _beside(rows, {("camera", "b"): [decay.value], ("camera", "R²"): [decay.parts["r2"]]})


FIGURE_4 = Entry(
    id="dacquisto-fig4",
    title="the sigmoid that the eigenvalues of a picture follow",
    paper=PAPER,
    place="Fig. 4 and eq. 12",
    needs=NEEDS,
    printed=[
        Printed("Lena", "b", 2.21, OTHER),
        Printed("Lena", "R²", 0.9993, OTHER),
        Printed("camera", "b", None, OTHER),
        Printed("camera", "R²", None, OTHER),
    ],
    run=_run_4,
    least_repeats=0,
    notes=("fitted to the first 20 eigenvalues; the paper does not say to how many, and b depends on it",),
)
