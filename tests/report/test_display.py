"""What notebooks show: the first screen of reports, pictures, and warnings in the text."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from reported import SEED, Case, Page, people

import microveil as mv
from microveil.errors import ParameterError
from microveil.measures.base import Measure
from microveil.report.verdict import risk_light


def test_everything_has_a_first_screen_without_a_value_or_a_script(case: Case) -> None:
    shown = [case.release, case.assessment, case.study, mv.describe(case.data)]
    for one in shown:
        html = one._repr_html_()
        page = Page()
        page.feed(html)
        assert "section" in page.tags
        assert "script" not in page.tags
        assert str(SEED) not in html
        assert not re.search(r"\[\]|\bNone\b|\de-\d\d", html)
        for value in case.data["wages"].to_list():
            assert str(value) not in html
    assert "not measured" in case.release._repr_html_(), "nobody has tried to break it"
    assert all(rule in mv.describe(case.data)._repr_html_() for rule in case.release.rules)


def test_advice_has_a_first_screen(case: Case) -> None:
    from microveil.studies.recommend import Advice

    advice = Advice("ipso", "ipso", {}, {"dbrl": 0.1}, [], [], {}, "", ["it keeps the limit"], case.study)
    assert "it keeps the limit" in advice._repr_html_()
    assert advice.plot().to_dict()["data"]


def test_hostile_names_stay_text() -> None:
    data = pl.DataFrame(np.random.default_rng(1).normal(size=(60, 2)), schema=["<script>x</script>", "b"])
    for one in (mv.protect(data, "pca", seed=1), mv.describe(data)):
        assert "<script" not in one._repr_html_()


def test_pictures_are_charts(case: Case) -> None:
    for one in (case.release, case.assessment, case.study, mv.describe(case.data)):
        assert type(one.plot()).__module__.startswith("altair")
    for name in ("distributions", "correlations", "losses", "components"):
        assert case.release.plot(name).to_dict()["data"]["values"]
    with pytest.raises(ParameterError, match="distributions"):
        case.release.plot("pie")


def test_the_text_lists_the_warnings_themselves(case: Case) -> None:
    said = repr(case.release)
    assert case.release.warnings
    assert all(warning in said for warning in case.release.warnings)
    assert str(SEED) not in said


@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame, lambda columns: np.column_stack(list(columns.values()))])
def test_a_release_is_written_from_any_table(make: Any, tmp_path: Path) -> None:
    data = make({name: people(60)[name].to_numpy() for name in ("wages", "age")})
    release = mv.protect(data, "pca", seed=1)
    release.write(tmp_path / "out.parquet")
    release.to_csv(tmp_path / "out.csv")
    back = pl.read_parquet(tmp_path / "out.parquet")
    assert np.array_equal(back.to_numpy(), np.asarray(release.data))
    assert pl.read_csv(tmp_path / "out.csv").shape == (60, 2)
    before = (tmp_path / "out.csv").read_bytes()
    with pytest.raises(ParameterError, match="overwrite"):
        release.write(tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == before
    release.write(tmp_path / "out.csv", overwrite=True)
    with pytest.raises(ParameterError, match=r"\.csv"):
        release.to_csv(tmp_path / "out.xlsx")


@pytest.mark.parametrize("method", ["noise", "microaggregate_noise"])
def test_warnings_have_no_powers_of_ten(method: str) -> None:
    data = pl.DataFrame(
        {"a": np.random.default_rng(1).integers(0, 9, 90), "b": np.random.default_rng(2).normal(size=90)}
    )
    release = mv.protect(data, method, seed=1)
    assert any("moved means" in warning for warning in release.warnings)
    assert not re.search(r"\de[-+]\d", release._repr_html_())


def test_exact_moments_do_not_hide_that_distributions_bend() -> None:
    release = mv.protect(
        pl.DataFrame(np.random.default_rng(1).lognormal(0, 2, size=(300, 3)), schema=list("abc")), "pca", seed=1
    )
    assert max(release.kept.values()) < 1e-9
    assert "distribution is off most" in release._repr_html_()


@pytest.mark.parametrize(("low", "colour"), [(0.9, "red"), (0.7, "amber")])
def test_what_luck_does_as_well_is_no_red_light(low: float, colour: str) -> None:
    attack = Measure("extreme_disclosure", 0.95, low, 0.99, 0.8, "low", (0.0, 1.0), "")
    light = risk_light(SimpleNamespace(worst_attack=attack, worst_gain=0.75))
    assert light.colour == colour
    below = replace(attack, value=0.5)
    assert risk_light(SimpleNamespace(worst_attack=below, worst_gain=0.0)).colour == "green"
