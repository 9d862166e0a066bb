"""Pictures of D'Acquisto and Naldi: what is removed, how quality is measured, pictures that users give."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import microveil as mv
from microveil.core.errors import FileError, ParameterError
from microveil.io.pictures import read_picture
from microveil.papers import dacquisto
from microveil.papers.reproduce import reproduce


def test_removal_is_that_of_the_method() -> None:
    rng = np.random.default_rng(3)
    picture = (rng.normal(100, [20, 10, 5, 2], (60, 4)) @ rng.standard_normal((4, 4))).T
    weights, variance = dacquisto._components(picture)
    norm = float(np.linalg.norm((picture - picture.mean(axis=1, keepdims=True)).T @ weights[:, :2]))
    left = dacquisto.without_largest(picture, weights, 2)
    assert np.linalg.norm(picture - left) == pytest.approx(norm)
    assert norm**2 == pytest.approx(60 * variance[:2].sum())
    options = {"utility": "norm_frobenius", "threshold": 1e-9, "literal": True, "standardise": False, "rules": None}
    released = mv.protect(np.ascontiguousarray(picture.T), "component_removal", **options).data
    assert pytest.approx(released, rel=1e-9) == dacquisto.without_largest(picture, weights, 1).T


def test_the_quality_of_a_picture_is_that_of_image_processing() -> None:
    metrics = pytest.importorskip("skimage.metrics", reason="scikit-image is not installed")
    rng = np.random.default_rng(4)
    picture = rng.uniform(60, 200, (40, 30))  # neither black nor white: nothing may be stretched
    left = picture + rng.normal(0, 20, picture.shape)
    found = dacquisto._quality(picture, left)
    assert found["PSNR"] == pytest.approx(metrics.peak_signal_noise_ratio(picture, left, data_range=255), rel=1e-12)
    gaussian = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False, "data_range": 255}
    assert found["SSIM"] == pytest.approx(metrics.structural_similarity(picture, left, **gaussian), rel=1e-9)


def saved(tmp_path: Path, shades: np.ndarray) -> Path:
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    path = tmp_path / "picture.png"
    image.fromarray(shades.astype(np.uint8)).save(path)
    return path


@pytest.mark.slow
def test_a_picture_that_the_user_has_is_judged_and_the_drawn_one_is_not(tmp_path: Path) -> None:
    """With a picture that is not the paper's, figures differ: nothing agrees by itself."""
    path = saved(tmp_path, dacquisto.drawn_picture())
    for table, lines in (("dacquisto-table1", 6), ("dacquisto-fig4", 2)):
        found = reproduce(table, image=path)
        assert found.verdicts["differs"] == lines
        assert {line.verdict for line in found.lines if line.row.startswith("drawn")} == {"not printed"}
    text = [line for line in reproduce("dacquisto-table1", image=path).lines if line.row == "the text"]
    assert [(line.figure, line.verdict) for line in text] == [
        ("the indices fall as more components are removed", "agrees")
    ]


def test_without_a_picture_it_is_said_how_to_give_one() -> None:
    for table in ("dacquisto-table1", "dacquisto-fig4"):
        found = reproduce(table)
        assert set(found.verdicts) == {"not run", "not printed"}
        (said,) = {line.verdict for line in found.lines if line.ours is None}
        assert f"`microveil reproduce {table} --image FILE`" in said


def test_what_is_no_picture_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "text.png"
    path.write_text("no picture", encoding="utf-8")
    with pytest.raises(FileError, match="cannot be read as a picture"):
        reproduce("dacquisto-fig4", image=path)
    with pytest.raises(FileError, match="cannot be read as a picture"):
        reproduce("dacquisto-fig4", image=tmp_path / "missing.png")
    with pytest.raises(FileError, match="of one shade"):
        reproduce("dacquisto-fig4", image=saved(tmp_path, np.full((40, 40), 7)))
    with pytest.raises(ParameterError, match="is about no picture"):
        reproduce("calvino-table1", image=path)


def test_a_colour_picture_becomes_grey(tmp_path: Path) -> None:
    shades = np.repeat(dacquisto.drawn_picture()[:, :, None], 3, axis=2)
    assert read_picture(saved(tmp_path, shades)).shape == (dacquisto.SIDE, dacquisto.SIDE)


@pytest.mark.parametrize(
    ("table", "figures"),
    [
        ("dacquisto-table1", {"Lena, 1 removed": [0.9330, 20.023], "Lena, 5 removed": [0.8409, 16.202]}),
        ("dacquisto-fig4", {"Lena": [2.214, 0.9993]}),
    ],
)
def test_the_papers_picture_gives_what_the_page_says(table: str, figures: dict[str, list[float]]) -> None:
    path = os.environ.get("MICROVEIL_LENA")
    if not path:
        pytest.skip("the paper's picture may not be shipped; MICROVEIL_LENA names the file of a copy")
    lines = reproduce(table, image=path).lines
    for row, values in figures.items():
        ours = [line.ours for line in lines if line.row == row]
        assert ours == pytest.approx(values, abs=6e-4)
