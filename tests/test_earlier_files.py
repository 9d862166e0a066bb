"""Recipes, policies and dictionaries that an earlier version wrote are read as they were meant."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from command import run

import microveil as mv

EARLIER = Path(__file__).parent / "golden" / "earlier"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of the earlier version, next to the survey that they are about."""
    shutil.copytree(EARLIER, tmp_path, dirs_exist_ok=True)
    shutil.copy(mv.example_file(), tmp_path / "survey.csv")
    return tmp_path


def test_a_recipe_with_its_seed_is_read(folder: Path) -> None:
    release = mv.run(folder / "private.toml")
    assert (release.method, release.seed) == ("pca", 20250301)
    assert release.settings["weight"] == "weight"
    assert release.settings["strata"] == ["region"]
    assert release.settings["rules"] == str(folder / "dictionary.toml")
    assert "industry" not in release.data.columns
    said = [warning for warning in release.warnings if "recipe" in warning or "policy" in warning]
    assert len(said) == 1
    assert "written by microveil 0.1.0" in said[0], "another version may draw otherwise"
    assert "another draw" in said[0]


def test_a_recipe_without_a_seed_gives_a_release_of_the_same_dose(folder: Path) -> None:
    survey = pl.read_csv(folder / "survey.csv")
    one, other = (mv.run(folder / "public.toml") for _ in range(2))
    assert one.settings["parameters"]["noise_sd_ratio"] == 0.5
    assert not one.data.equals(other.data)
    assert one.data.columns == survey.columns, "what had no role was released as it is"
    changed = {name for name in survey.columns if not one.data[name].equals(survey[name])}
    assert changed == {"wages", "employees"}


def test_a_recipe_runs_on_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "run", folder / "public.toml", "--seed", "1", "--quiet")
    assert code == 0, err
    assert pl.read_csv(folder / "released2.csv").height == 1_200


def test_a_policy_is_held_against_the_figures(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--method", "pca", "--keep", "rest", "--seed", "1", "--policy", folder / "policy.toml", "--json"]
    code, out, err = run(capsys, "protect", folder / "survey.csv", "-o", folder / "out.csv", *options)
    assert code == 0, err
    verdict = json.loads(out)["assessment"]["policy"]
    assert (verdict["name"], verdict["met"]) == ("research files", True)
    assert [(line["measure"], line["at_most"], line["use"]) for line in verdict["lines"]] == [
        ("dbrl", 0.5, "high"),
        ("ks", 0.9, "value"),
    ]


def test_a_dictionary_says_what_columns_hold(folder: Path) -> None:
    survey = pl.read_csv(folder / "survey.csv")
    declared = mv.protect(survey, "pca", keep="rest", rules=folder / "dictionary.toml", seed=1).data
    free = mv.protect(survey, "pca", keep="rest", rules=None, seed=1).data
    assert (
        (declared["rd_spending"] == -9).sum() == (survey["rd_spending"] == -9).sum() > (free["rd_spending"] == -9).sum()
    )
    assert declared["energy_cost"].min() >= 0 > free["energy_cost"].min()
    assert (declared["turnover_domestic"] + declared["turnover_export"] == declared["turnover_total"]).all()
    assert declared["employees"].dtype == pl.Int64
