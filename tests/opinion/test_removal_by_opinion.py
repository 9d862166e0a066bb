"""`component_removal` by predicted opinions: where it stops, and what the release says. The observers are simulated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import observers
import pytest
from numpy.typing import NDArray

import microveil as mv
from microveil.assessment import mos
from microveil.errors import FileError, ParameterError

Array = NDArray[np.float64]


def link(**changed: Any) -> mos.Link:
    fitted = {
        "predictor": "psnr", "bottom": 5.0, "top": 95.0, "middle": 22.0, "slope": 0.5, "lowest": 10.0, "highest": 60.0,
        "r2": 0.9, "residual_sd": 4.0, "stimuli": 14, "observers": 20, "scores": "difference", "simulated": True,
    }  # fmt: skip
    return mos.read_link({"link": {**fitted, **changed}})


def framed(seed: int = 0, rows: int = 400, columns: int = 6) -> tuple[Array, float]:
    """Columns with one range, in standard deviations, that no removal leads out of; and that range.

    Two far records for each column set its range, and have nothing in the others: what is left of them is shorter, and
    all other records are shorter still.
    """
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(rows, columns)) @ rng.normal(size=(columns, columns))
    z = (mixed - mixed.mean(axis=0)) / mixed.std(axis=0)
    far = 1.01 * np.linalg.norm(z, axis=1).max()
    data = np.vstack([z, far * np.eye(columns), -far * np.eye(columns)])
    assert np.ptp(data.std(axis=0)) < 1e-12
    return data, 2 * far / float(data.std(axis=0)[0])


@pytest.mark.parametrize("threshold", [20.0, 40.0, 50.0, 60.0, 80.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_stops_where_the_closed_form_says(seed: int, threshold: float) -> None:
    """PSNR without k components is 10 log10(range² p / Σ λ), and the link rises: both can be turned round."""
    data, span = framed(seed)
    curve = link()
    eigenvalues = np.linalg.eigvalsh(np.corrcoef(data.T))[::-1]
    psnr = 10 * np.log10(span**2 * data.shape[1] / np.cumsum(eigenvalues)[:-1])
    needed = curve.middle - np.log((curve.top - curve.bottom) / (threshold - curve.bottom) - 1) / curve.slope
    expected = int(np.count_nonzero(psnr >= needed))
    release = mv.protect(data, "component_removal", utility="mos", link=curve, threshold=threshold)
    assert release.components.perturbed == tuple(range(expected))
    for component, value in enumerate(psnr):
        note = f"mos_predicted {curve.predict(value):.4g} without the components up to this one"
        assert release.components.notes[component] == note


def test_the_closed_form_is_not_always_the_same_answer() -> None:
    data, _ = framed()
    counts = {
        len(mv.protect(data, "component_removal", utility="mos", link=link(), threshold=limit).components.perturbed)
        for limit in (20.0, 60.0, 80.0, 90.0)
    }
    assert len(counts) >= 3


@pytest.mark.parametrize(("predictor", "middle", "slope"), [("ssim", 0.6, 8.0), ("psnr", 20.0, 0.6)])
def test_it_is_the_loop_on_the_predictor_at_the_value_that_the_link_asks_for(
    predictor: str, middle: float, slope: float
) -> None:
    rng = np.random.default_rng(3)
    data = rng.gamma(1.5, size=(300, 6)) @ rng.normal(size=(6, 6))
    curve = link(predictor=predictor, middle=middle, slope=slope, lowest=-1.0)
    for threshold in (20.0, 35.0, 50.0, 65.0, 80.0):
        needed = curve.middle - np.log((curve.top - curve.bottom) / (threshold - curve.bottom) - 1) / curve.slope
        plain = mv.protect(data, "component_removal", utility=predictor, threshold=float(needed))
        predicted = mv.protect(data, "component_removal", utility="mos", link=curve, threshold=threshold)
        assert predicted.components.perturbed == plain.components.perturbed
        assert np.array_equal(predicted.data, plain.data)


def test_the_release_says_that_opinions_are_predicted() -> None:
    data, _ = framed()
    release = mv.protect(data, "component_removal", utility="mos", link=link(), threshold=50.0)
    told = " ".join(release.warnings)
    assert "predicted from psnr, by a link fitted to 14 stimuli rated by 20 simulated observers (R² 0.90" in told
    assert "not measured: nobody has rated this release" in told
    assert "the observers were simulated: it says nothing about people" in told
    assert "does not protect records" in told
    assert "outside of the range" not in told
    assert all(note.startswith("mos_predicted ") for note in release.components.notes.values())
    nothing = mv.protect(data, "component_removal", utility="mos", link=link(), threshold=94.99)
    assert nothing.components.perturbed == ()
    assert "not measured" in " ".join(nothing.warnings)


def test_predictions_outside_of_the_fitted_range_are_counted() -> None:
    data, _ = framed()
    whole = mv.protect(data, "component_removal", utility="mos", link=link(), threshold=50.0)
    used = min(len(whole.components.perturbed) + 1, 5)
    narrow = mv.protect(data, "component_removal", utility="mos", link=link(lowest=59.0), threshold=50.0)
    assert np.array_equal(narrow.data, whole.data)
    expected = f"{used} of the {used} predictions that decided how many components are removed have a psnr outside"
    assert any(expected in warning for warning in narrow.warnings)


def test_a_link_from_a_file_an_object_or_a_recipe_is_the_same(tmp_path: Path) -> None:
    data, _ = framed()
    mos.write(link(), tmp_path / "link.toml")
    given = [link(), tmp_path / "link.toml", str(tmp_path / "link.toml"), link().to_dict()["link"]]
    releases = [mv.protect(data, "component_removal", utility="mos", link=one, threshold=50.0) for one in given]
    assert all(np.array_equal(release.data, releases[0].data) for release in releases)
    (tmp_path / "link.toml").unlink()
    recipe = json.loads(json.dumps(releases[1].recipe()))
    again = mv.protect(data, recipe["method"], **recipe["parameters"])
    assert np.array_equal(again.data, releases[0].data), "the recipe holds the link, and not where it was"


def test_other_measures_are_as_they_were() -> None:
    data, _ = framed()
    release = mv.protect(data, "component_removal")
    assert release.settings["parameters"]["link"] is None
    assert "predicted" not in " ".join(release.warnings)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"utility": "mos", "threshold": 50}, "mos can only be predicted here, and needs a link"),
        ({"utility": "mos", "link": link()}, "mos has a unit of its own; give a threshold"),
        ({"link": link()}, "a link goes with utility='mos' only"),
        ({"utility": "ssim", "threshold": 0.5, "link": link()}, "a link goes with utility='mos' only"),
        ({"utility": "mos", "threshold": 5, "link": link()}, "the link never leaves 5 to 95; the threshold must be"),
        ({"utility": "mos", "threshold": 95, "link": link()}, "the link never leaves 5 to 95"),
        ({"utility": "moss", "threshold": 50, "link": link()}, "^utility: .*did you mean 'mos'"),
        ({"utility": "mos", "threshold": 50, "link": 7}, "^link: "),
        ({"utility": "mos", "threshold": 50, "link": {"slope": 1}}, "^link: "),
    ],
    ids=["no link", "no threshold", "link alone", "other measure", "low", "high", "typo", "number", "half a link"],
)
def test_bad_parameters_are_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        mv.protect(framed()[0], "component_removal", **params)


def test_a_link_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    data, _ = framed()
    for name, text in (("none.toml", None), ("bad.toml", "[link]\nslope = 1\n")):
        path = tmp_path / name
        if text is not None:
            path.write_text(text)
        with pytest.raises(FileError, match=name):
            mv.protect(data, "component_removal", utility="mos", link=path, threshold=50)


def test_from_simulated_observers_to_a_release() -> None:
    shown = observers.session()
    fitted = mos.fit_link(mos.score(observers.ratings(shown)))
    rng = np.random.default_rng(6)
    data = rng.gamma(1.5, size=(300, 6)) @ rng.normal(size=(6, 6))
    release = mv.protect(data, "component_removal", utility="mos", link=fitted, threshold=60.0)
    left = mos.predict(data, release.data, fitted)
    assert 0 < len(release.components.perturbed) < 5
    assert left.value >= 60
