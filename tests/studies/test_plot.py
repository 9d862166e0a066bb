"""The map of a study: what notebooks show, and what is written to files."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import microveil as mv
from microveil.core.errors import ParameterError
from microveil.report import study_texts, write_texts
from microveil.report.plots import BLUE, GREY
from microveil.studies import Study

FRONTIER = ["safe & sound", "middle", "useful"]


def study() -> Study:
    figures = {
        "safe & sound": [{"dbrl": 0.01, "pil": 0.40, "ks": 0.2}, {"dbrl": 0.03, "pil": 0.44, "ks": 0.2}],
        "middle": [{"dbrl": 0.05, "pil": 0.20, "ks": 0.3}, {"dbrl": 0.11, "pil": 0.24, "ks": 0.3}],
        "useful": [{"dbrl": 0.20, "pil": 0.10, "ks": 0.4}, {"dbrl": 0.24, "pil": 0.12, "ks": 0.4}],
        "beaten": [{"dbrl": 0.20, "pil": 0.30}, {"dbrl": 0.22, "pil": 0.34}],
    }
    return Study({label: ("noise", {}) for label in figures}, figures, {}, {})


def points(svg: str) -> dict[str, int]:
    """How many dots have which colour, without those of the legend."""
    groups = [one for one in ET.fromstring(svg).iter() if "mark-symbol role-mark" in one.get("class", "")]
    colours = [path.get("fill") for group in groups for path in group.iter() if path.get("fill")]
    return {colour: colours.count(colour) for colour in colours}


def test_the_map_is_a_chart_with_the_frontier_marked() -> None:
    chart = study().plot(risk="dbrl", loss="pil")
    told = chart.to_dict()
    rows = {row["label"]: row for layer in told["layer"] for row in layer.get("data", told["data"])["values"]}
    assert {label: row["place"] for label, row in rows.items()} == {
        **dict.fromkeys(FRONTIER, "on the frontier"),
        "beaten": "beaten by another",
    }
    assert rows["middle"]["risk"] == pytest.approx(0.08)
    assert rows["middle"]["loss"] == pytest.approx(0.22)
    assert "$schema" in told
    assert callable(chart._repr_mimebundle_), "which is what notebooks show"


def test_a_picture_of_it_is_not_blank(tmp_path: Path) -> None:
    import vl_convert

    image = pytest.importorskip("PIL.Image", reason="pictures are looked at with Pillow")
    study().plot(tmp_path / "map.svg", risk="dbrl", loss="pil")
    svg = (tmp_path / "map.svg").read_text(encoding="utf-8")
    for label in ("safe &amp; sound", "middle", "useful", "beaten", "risk: dbrl", "loss: pil"):
        assert f">{label}</text>" in svg
    assert points(svg) == {BLUE: 3, GREY: 1}, "three are on the frontier, one is not"
    seen = np.asarray(image.open(io.BytesIO(vl_convert.svg_to_png(svg))).convert("RGB"), dtype=int).reshape(-1, 3)
    blue = seen[:, 2] - seen[:, 0] > 60  # the dots have some transparency
    assert np.count_nonzero(blue) > 3 * 20, "three dots of 60 square points, half of which could be hidden by rules"
    assert len(np.unique(seen, axis=0)) > 20


def test_a_page_needs_nothing_from_anywhere(tmp_path: Path) -> None:
    study().plot(tmp_path / "map.html", risk="dbrl")
    text = (tmp_path / "map.html").read_text(encoding="utf-8")
    assert text.count("<svg") == 1
    assert ">safe &amp; sound</text>" in text
    assert "Not drawn" not in text
    assert not re.search(r"https?:|<script|<link|src=", text)
    assert [path.name for path in tmp_path.iterdir()] == ["map.html"]


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("map.png", {"risk": "dbrl", "loss": "pil"}, r"cannot be a '.png' file; name one .svg or .html"),
        ("map", {"risk": "dbrl", "loss": "pil"}, r"cannot be a '' file"),
        ("map.svg", {"risk": "dblr", "loss": "pil"}, r"'dblr' was not measured of every method; did you mean 'dbrl'"),
        ("map.svg", {"risk": "dbrl", "loss": "ks"}, r"'ks' was not measured of every method"),
        ("map.svg", {"loss": "pil"}, r"there is no map: a measure of risk and one of loss"),
    ],
)
def test_what_cannot_be_drawn_is_told_and_nothing_is_written(
    name: str, options: dict[str, str], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(ParameterError, match=problem):
        study().plot(tmp_path / name, **options)
    assert list(tmp_path.iterdir()) == []


def test_a_study_that_was_run_draws_itself() -> None:
    data = np.exp(np.random.default_rng(1).standard_normal((60, 3)))
    found = mv.compare(data, ["noise", "shuffle"], repeats=2, measures=["dbrl", "pil"], seed=1, workers=1)
    told = found.plot().to_dict()
    axes = {layer["encoding"][axis].get("title") for layer in told["layer"] for axis in "xy"}
    assert {"risk: worst_attack", "loss: pil"} <= axes


def test_the_list_of_what_can_be_reproduced() -> None:
    known = mv.reproduce()
    assert known["calvino-table4"] == "risk and utility of PCA, microaggregation plus noise and rank swapping"
    assert repr(mv.reproduce("calvino-table2")).startswith("<Reproduction of calvino-table2")
    with pytest.raises(ParameterError, match="no table is named"):
        mv.reproduce(repeats=3)  # type: ignore[call-overload]


def test_a_report_shows_no_interval_of_few_releases_and_names_what_is_missing(tmp_path: Path) -> None:
    write_texts(study_texts(study()), tmp_path / "few.html", tmp_path / "few.json", private=True)
    page = (tmp_path / "few.html").read_text(encoding="utf-8")
    assert "too few" in page
    assert "None" not in page
    assert "in releases by beaten: ks." in page
    enough = replace(study(), figures={label: [*found] * 3 for label, found in study().figures.items()})
    write_texts(study_texts(enough), tmp_path / "enough.html", tmp_path / "enough.json", private=True)
    page = (tmp_path / "enough.html").read_text(encoding="utf-8")
    assert "too few" not in page
    assert "0.2 to 0.24" in page
