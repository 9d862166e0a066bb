"""Recipes: what is asked for goes into a file, and comes out of it as it was."""

from __future__ import annotations

import inspect
import io
import json
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pytest
from command import run
from recipe_tables import SEED, STRANGE, table

import microveil as mv
from microveil.core.errors import FileError, ParameterError
from microveil.io.files.formats import ReadOptions
from microveil.options import Settings
from microveil.release import recipe as recipes

pytestmark = pytest.mark.usefixtures("few_exchanges")


def test_what_a_rule_does_not_say_is_left_out(tmp_path: Path) -> None:
    rules = {"sums": [{"total": "t", "parts": ["a", "b"], "coefficients": None}]}
    data = pl.DataFrame({"a": [1.0, 5.0, 2.0, 7.0], "b": [4.0, 1.0, 3.0, 3.0], "t": [5.0, 6.0, 5.0, 10.0]})
    release = mv.protect(data, "pca", rules=rules, seed=SEED)
    recipes.write(release.recipe(include_seed=True), tmp_path / "recipe.toml")
    assert mv.run(tmp_path / "recipe.toml", data).data.equals(release.data)


def test_arrays_have_their_columns_by_number() -> None:
    data = table().to_numpy()
    release = mv.protect(data, "pca", confidential=[3, 1], public=0, seed=1)
    assert np.array_equal(mv.run(release.recipe(include_seed=True), data).data, release.data)


def test_whatever_protect_takes_has_a_place_in_a_recipe() -> None:
    taken = set(inspect.signature(mv.protect).parameters) - {"data", "progress", "options", "drop_identifiers"}
    taken -= {"registry"}  # which is written: a recipe that came from elsewhere names none
    assert taken - {"seed"} == set(Settings.model_fields)
    assert taken <= set(recipes.Recipe.model_fields)


def test_however_a_table_is_read_has_a_place_in_a_recipe() -> None:
    options = {option.name for option in fields(ReadOptions)} - {"without_looking"}  # for which epsilon asks
    assert options == set(recipes.Input.model_fields) - {"path", "sha256"}
    given = {name: 1 if name.endswith(("_row", "_rows")) else name for name in options}
    assert recipes.Input(**given).reading == ReadOptions(**given)


def test_an_address_without_a_file_stays_and_never_has_a_password(tmp_path: Path) -> None:
    address, path = "postgresql://me@host:5432/db#survey", tmp_path / "r.toml"
    for given in (address, address.replace("me@", "me:secret@")):
        recipes.write({"recipe": 1, "method": "pca", "input": {"path": given}, "output": {"path": given}}, path)
        read = recipes.read(path)
        assert read.input.path == read.output.path == address


# --- Tables that no recipe holds


def test_tables_among_the_parameters_are_named_and_never_held(tmp_path: Path) -> None:
    data, path = table(), tmp_path / "recipe.toml"
    other = mv.protect(data, "noise", seed=1).data
    draws = np.random.default_rng(1).standard_normal((80, 6))
    order = np.column_stack([np.random.default_rng(j).permutation(80) for j in range(6)])
    for method, given in (("correct", {"other": other}), ("ipso", {"draws": draws}), ("pca", {"permutations": order})):
        release = mv.protect(data, method, seed=3, **given)
        (name,) = given
        recipes.write(release.recipe(include_seed=True), path)
        told = tomllib.loads(path.read_text(encoding="utf-8"))
        assert told["needs"] == [name]
        assert name not in told["parameters"]
        assert path.stat().st_size < 2_000
        with pytest.raises(ParameterError, match=f"made with '{name}', a table that no recipe holds"):
            mv.run(path, data)
        assert mv.run(path, data, **given).data.equals(release.data)


def test_the_path_of_a_table_is_held_and_seen_from_the_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inside").mkdir()
    data = table()
    mv.protect(data, "noise", seed=1).data.write_csv(tmp_path / "other.csv")
    monkeypatch.chdir(tmp_path)
    release = mv.protect(data, "correct", other="other.csv", seed=2)
    recipes.write(release.recipe(include_seed=True), "inside/recipe.toml")
    assert tomllib.loads(Path("inside/recipe.toml").read_text())["parameters"]["other"] == "../other.csv"
    monkeypatch.chdir("/")
    assert mv.run(tmp_path / "inside" / "recipe.toml", data).data.equals(release.data)


# --- The file


def test_whatever_is_a_path_is_seen_from_the_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    content = {
        "recipe": 1,
        "method": "component_removal",
        "rules": "rules.toml",
        "policy": Path("limits.toml"),
        "parameters": {"link": "link.toml"},
        "input": {"path": "data.csv"},
        "output": {"path": "../there/out.csv", "report": str(tmp_path / "r.html")},
    }
    recipes.write(content, tmp_path / "there" / "recipe.toml")
    told = tomllib.loads((tmp_path / "there" / "recipe.toml").read_text())
    assert told["rules"] == "../here/rules.toml"
    assert told["policy"] == "../here/limits.toml"
    assert told["parameters"]["link"] == "../here/link.toml"
    assert told["input"] == {"path": "../here/data.csv"}
    assert told["output"] == {"path": "out.csv", "report": "../r.html"}
    monkeypatch.chdir("/")
    read = recipes.read(tmp_path / "there" / "recipe.toml")
    assert os.path.realpath(read.rules) == str(tmp_path / "here" / "rules.toml")
    assert os.path.realpath(read.output.path) == str(tmp_path / "there" / "out.csv")


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "2024.csv").touch()
    (tmp_path / "current.csv").symlink_to("2024.csv")
    recipes.write({"recipe": 1, "method": "pca", "input": {"path": tmp_path / "current.csv"}}, tmp_path / "r.toml")
    assert tomllib.loads((tmp_path / "r.toml").read_text())["input"]["path"] == "current.csv"


def test_rules_that_are_words_are_no_paths(tmp_path: Path) -> None:
    for rules in ("infer", "none"):
        recipes.write({"recipe": 1, "method": "pca", "rules": rules}, tmp_path / "r.toml")
        assert recipes.read(tmp_path / "r.toml").rules == rules


def test_a_recipe_with_the_seed_is_for_its_owner_only(tmp_path: Path) -> None:
    release = mv.protect(table(), "pca", seed=SEED)
    path = tmp_path / "recipe.toml"
    path.touch(mode=0o644)
    recipes.write(release.recipe(), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert str(SEED) not in path.read_text()
    recipes.write(release.recipe(include_seed=True), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert str(SEED) in path.read_text()
    read = recipes.read(path)
    assert str(SEED) not in repr(read) + str(read)


def test_a_recipe_says_which_version_wrote_it(tmp_path: Path) -> None:
    recipes.write({"recipe": 1, "method": "pca", "microveil": "0.0.1"}, tmp_path / "r.toml")
    assert recipes.read(tmp_path / "r.toml").microveil == mv.__version__


# --- Versions


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"of version 3, and this microveil reads 2; use a newer microveil"):
        recipes.read({"recipe": 3, "method": "pca", "something": "new"})
    (tmp_path / "r.toml").write_text('recipe = 3\nmethod = "pca"\n')
    with pytest.raises(FileError, match=r"r\.toml' is no recipe file: it is of version 3"):
        recipes.read(tmp_path / "r.toml")


@pytest.mark.parametrize("version", [None, 0, -1, True, "1", 1.0])
def test_a_version_has_to_be_there(version: Any) -> None:
    with pytest.raises(ParameterError, match="does not say its version"):
        recipes.read({"recipe": version, "method": "pca"})


def test_an_older_version_is_made_one_of_today_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def from_one(content: dict[str, Any]) -> dict[str, Any]:
        assert content["recipe"] == 1
        return {**{name: value for name, value in content.items() if name != "masker"}, "method": content["masker"]}

    def from_two(content: dict[str, Any]) -> dict[str, Any]:
        assert content["recipe"] == 2
        return {**content, "engine": "memory"}

    monkeypatch.setattr(recipes, "RECIPE_VERSION", 3)
    monkeypatch.setattr(recipes, "UPGRADES", {1: from_one, 2: from_two})
    found = recipes.read({"recipe": 1, "masker": "pca"})
    assert (found.recipe, found.method, found.engine) == (3, "pca", "memory")
    assert recipes.read({"recipe": 3, "method": "pca"}).engine == "auto"


def test_every_version_there_has_been_can_be_upgraded() -> None:
    assert set(recipes.UPGRADES) == set(range(1, recipes.RECIPE_VERSION))


# --- Strictly read


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"confidental": ["a"]}, "there is no key 'confidental'.*did you mean 'confidential'"),
        ({"input": {"file": "secret"}}, "there is no key 'file' in input"),
        ({"output": {"path": "o.csv", "raport": "secret"}}, "there is no key 'raport' in output.*'report'"),
        ({"input": {"path": 3}}, "input.path: is not text"),
        ({"input": {"path": ""}}, "input.path: is too short"),
        ({"input": {"path": "a.csv", "sha256": "secret"}}, "input.sha256: is not written as it has to be"),
        ({"confidential": [1.5]}, "confidential: takes names of columns"),
        ({"weight": ["a"]}, "weight: takes names of columns"),
        ({"strata": True}, "strata: takes names of columns"),
        ({"rules": 3}, "rules: takes the path of a file"),
        ({"policy": ["secret"]}, "policy: takes the path of a file"),
        ({"seed": -1}, "seed: is below 0"),
        ({"seed": "secret"}, "seed: is not a whole number"),
        ({"parameters": {"weight": "secret"}}, "parameters: 'weight' is no parameter of a method"),
        ({"parameters": 3}, "parameters: is not a table of settings"),
        ({"method": 3}, "method: is not text"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, Mapping) else "",
)
def test_what_is_wrong_is_told_and_never_shown(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(ParameterError, match=problem) as caught:
        recipes.read({"recipe": 1, "method": "pca", **change})
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_method_has_to_be_there_and_to_exist() -> None:
    with pytest.raises(ParameterError, match="'method' is missing"):
        recipes.read({"recipe": 1})
    with pytest.raises(ParameterError, match="there is no method 'pcb'"):
        mv.run({"recipe": 1, "method": "pcb"}, table())
    with pytest.raises(ParameterError, match="componets"):
        mv.run({"recipe": 1, "method": "pca", "parameters": {"componets": 2}}, table())


# --- Running in Python


def test_what_is_given_goes_before_the_recipe() -> None:
    data = table()
    recipe = mv.protect(data, "pca", components=2, seed=1).recipe(include_seed=True)
    expected = mv.protect(data, "pca", components=3, confidential=STRANGE[:4], seed=2)
    assert mv.run(recipe, data, seed=2, components=3, confidential=STRANGE[:4]).data.equals(expected.data)
    assert mv.run(recipe, data).data.equals(mv.protect(data, "pca", components=2, seed=1).data)


def test_without_data_the_input_is_read_and_nothing_is_written(tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    plain = table().rename(dict(zip(STRANGE, "abcdef", strict=True)))
    plain.write_csv(source)
    content = {"recipe": 1, "method": "pca", "seed": 4, "input": {"path": "in.csv"}, "output": {"path": "out.csv"}}
    text = recipes.text(recipes.read(content), Path.cwd())
    (tmp_path / "r.toml").write_text(text, encoding="utf-8")
    release = mv.run(tmp_path / "r.toml")
    assert release.data.equals(mv.protect(plain, "pca", seed=4).data)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "r.toml"]
    with pytest.raises(ParameterError, match="names no input"):
        mv.run({"recipe": 1, "method": "pca"})


def test_another_file_than_the_recipe_was_written_for_is_told(tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    table().write_csv(source)
    given = {"path": str(source), "sha256": recipes.file_hash(source)}
    recipe = {"recipe": 1, "method": "pca", "seed": 4, "input": given}
    told = "the input is not the file that the recipe was written for"
    assert not any(told in warning for warning in mv.run(recipe).warnings)
    table(90).write_csv(source)
    assert told in mv.run(recipe).warnings[0]


@pytest.mark.parametrize(
    ("changes", "given", "said"),
    [
        ({"seed": 4}, {}, ""),
        ({"seed": 4, "microveil": mv.__version__}, {}, ""),
        ({"seed": 4, "microveil": "0.1.0"}, {}, "written by microveil 0.1.0"),
        ({}, {"seed": 4}, ""),
        ({}, {}, "this is another draw"),
        ({"microveil": "0.1.0"}, {}, "this is another draw"),
        ({"method": "microaggregate"}, {}, ""),  # which draws nothing
    ],
)
def test_another_draw_and_another_version_are_told(changes: dict[str, Any], given: dict[str, Any], said: str) -> None:
    release = mv.run({"recipe": 2, "method": "veil", **changes}, table(), **given)
    told = [warning for warning in release.warnings if "draw" in warning]
    assert len(told) == bool(said)
    assert all(said in warning for warning in told)


def people(rows: int = 300) -> pd.DataFrame:
    """Persons in households: labels, dates, flags, identifiers, a missing cell."""
    rng = np.random.default_rng(2)
    born = pd.Timestamp("1960-01-01") + pd.to_timedelta(rng.integers(0, 15_000, rows), unit="D")
    table = pd.DataFrame(
        {
            "person_id": rng.permutation(rows) + 10_000,
            "household_id": rng.permutation(np.repeat(np.arange(rows // 3), 3)),
            "sex": rng.choice(["f", "m"], rows),
            "born": born.strftime("%d.%m.%Y"),
            "seen": born.strftime("%Y%m%d").astype(int) + 200_000,
            "wage": np.round(rng.lognormal(7, 0.5, rows), 2),
            "hours": rng.integers(0, 50, rows),
        }
    )
    table.loc[5, "wage"] = np.nan
    return table


@pytest.mark.quick("False-csv", "True-xlsx", "True-parquet")
@pytest.mark.parametrize("extension", ["csv", "xlsx", "parquet"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_a_private_recipe_gives_the_same_bytes_of_a_table_of_every_kind(
    extension: str, shuffled: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out, recipe = tmp_path / f"in.{extension}", tmp_path / f"out.{extension}", tmp_path / "recipe.toml"
    writers = {"csv": people().to_csv, "xlsx": people().to_excel, "parquet": people().to_parquet}
    writers[extension](source, index=False)
    options = ["--include-seed", "--save-recipe", recipe, *(["--shuffle-rows"] if shuffled else [])]
    assert run(capsys, "protect", source, "-o", out, *options, "--quiet")[0] == 0
    before = out.read_bytes()
    assert run(capsys, "run", recipe)[0] == 2, "nothing is replaced"
    assert out.read_bytes() == before
    code, printed, _ = run(capsys, "run", recipe, "--overwrite", "--json")
    assert (code, "draw" in printed) == (0, False)
    if extension == "xlsx":  # a workbook notes when it was written
        again, first = (list(openpyxl.load_workbook(io.BytesIO(b)).active.values) for b in (out.read_bytes(), before))
        assert again == first
    else:
        assert out.read_bytes() == before
    recipe.write_text(re.sub(r"(?m)^(seed|sha256) = .*$", "", recipe.read_text()))
    code, printed, _ = run(capsys, "run", recipe, "--overwrite", "--json")
    assert (code, "this is another draw" in printed) == (0, True)
    assert out.read_bytes() != before


def test_a_policy_that_is_not_met_is_told() -> None:
    data = table()
    for limit, met in ((1.0, True), (0.0, False)):
        policy = {"policy": {"name": "ours", "version": 1}, "limits": {"pil": {"at_most": limit}}}
        release = mv.run({"recipe": 1, "method": "noise", "seed": 1, "policy": policy}, data)
        assert ("policy 'ours' is not met (pil)" in release.warnings) != met
