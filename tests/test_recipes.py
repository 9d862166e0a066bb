"""Recipes: what is asked for goes into a file, and comes out of it as it was."""

from __future__ import annotations

import inspect
import io
import json
import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pytest
from annotated_types import Ge, Gt, Le, Lt
from command import run

import microveil as mv
from microveil.core.errors import FileError, MicroveilError, ParameterError
from microveil.io.config_files import toml_text
from microveil.io.files.formats import ReadOptions
from microveil.methods import METHODS, Method, Plan
from microveil.options import Settings
from microveil.perturb import PERTURBATIONS
from microveil.release import recipe as recipes

pytestmark = pytest.mark.usefixtures("few_exchanges")

SEED = 918_273_645_546_372_819_918_273_645_546_372_819
STRANGE = ['net "income"', "Größe in m², €", "a = b # c", "[out\\put]", "  spaces ", "x.y"]
FOUND_BY_CHANCE = {"outlier_split"}
"""Methods whose groups of records are found from random starts: what is asked for is the same, its share is not."""

every_method = pytest.mark.parametrize("method", [name for name, found in METHODS.items() if not found.labels_only])


def table(rows: int = 80) -> pl.DataFrame:
    rng = np.random.default_rng(5)
    values = rng.gamma(1.5, size=(rows, 6)) @ rng.standard_normal((6, 6)) + 10
    return pl.DataFrame(values, schema=STRANGE)


def beside(method: str) -> dict[str, Any]:
    """A table for methods that start from another masker's output."""
    starts = any(step.from_other for step in METHODS[method].perturbations.values())
    return {"other": mv.protect(table(), "noise", seed=1).data} if starts and METHODS[method].fixed else {}


# --- Every method, every parameter


@pytest.mark.quick("pca", "noise", "cluster_hybrid", "correct")
@every_method
def test_a_file_with_the_seed_gives_the_same_bytes_and_one_without_the_same_doses(method: str, tmp_path: Path) -> None:
    data, also, path = table(), beside(method), tmp_path / "recipe.toml"
    release = mv.protect(data, method, seed=SEED, **also)
    recipes.write(release.recipe(include_seed=True), path)
    again = mv.run(path, data, **also)
    assert again.data.equals(release.data)
    assert again.recipe(include_seed=True) == release.recipe(include_seed=True)
    recipes.write(release.recipe(), path)
    fresh = mv.run(path, data, **also)
    drawn = bool(release.components.perturbed) and METHODS[method].plan({**also}).perturb.random
    assert fresh.data.equals(release.data) != drawn
    assert fresh.recipe() == release.recipe()
    for name, dose in release.dose.items() if method not in FOUND_BY_CHANCE else ():
        assert fresh.dose[name].asked == (dose.asked if dose.asked is None else pytest.approx(dose.asked, rel=1e-9))


WORDS = {"perturb": PERTURBATIONS, "utility": ["spectral_utility", "psnr", "ssim"]}
"""What parameters of text may be; any other is the name of a column, or a formula."""

TOGETHER: dict[str, dict[str, Any]] = {
    "components": {"sensitive": STRANGE[:2]},
    "sensitive": {"components": "sensitive", "select": "loads_on_sensitive"},
    "sensitive_share": {"components": "sensitive", "sensitive": STRANGE[:2]},
    "sensitive_loading": {"components": "sensitive", "sensitive": STRANGE[:2]},
    "select": {"sensitive": STRANGE[:1]},
    "threshold": {"select": "loads_on_sensitive", "sensitive": STRANGE[:1]},
    "rotation": {"sensitive": STRANGE[:1]},
    "rest": {"sensitive": STRANGE[:1], "sources": 3},
    "root": {"exact": True},
    "exchange": {"marginals": "smoothed"},
    "tail_group": {"marginals": "smoothed"},
    "window": {"marginals": "smoothed"},
    "sizes": {"grouping": "univariate"},
    "utility": {"threshold": 0.4},
    "modification": {"clusters": STRANGE[:1]},
    "alpha": {"modification": "b"},
    "pieces": {"clusters": STRANGE[:1]},
    "local_pieces": {"pieces": STRANGE[:1]},
    "groups": {"clusters": STRANGE[1:2], "grouped": STRANGE[2:3]},
    "grouped": {"clusters": STRANGE[1:2], "groups": STRANGE[:1]},
}
"""What some parameters cannot be without."""


def possible(kind: Any, name: str, limits: list[Any]) -> Iterator[Any]:
    """Values of a declared type, within its limits."""
    if get_origin(kind) is Annotated:
        kind, *inside = get_args(kind)
        found = [limit for part in inside for limit in getattr(part, "metadata", [part])]
        yield from possible(kind, name, [*limits, *found])
    elif get_origin(kind) in (Union, UnionType):
        for one in get_args(kind):
            yield from possible(one, name, limits)
    elif get_origin(kind) is Literal:
        yield from get_args(kind)
    elif get_origin(kind) is tuple:
        yield from ((one,) for one in possible(get_args(kind)[0], name, []))
    elif kind is bool:
        yield from (True, False)
    elif kind is str:
        yield from WORDS.get(name, [STRANGE[0], f"~ `{STRANGE[5]}` * g"])
    elif kind in (int, float):
        low = max(
            (getattr(limit, "ge", getattr(limit, "gt", 0)) for limit in limits if isinstance(limit, Ge | Gt)), default=0
        )
        high = min(
            (getattr(limit, "le", getattr(limit, "lt", 9)) for limit in limits if isinstance(limit, Le | Lt)), default=9
        )
        yield int(low) + 4 if kind is int else low + 0.3712345678901234 * (high - low)
    elif kind is NoneType:
        yield None


def plans(method: Method, name: str, perturb: str, values: Iterator[Any]) -> Iterator[Plan]:
    """The method with the parameter set to each value that it takes."""
    step = method.perturbations[perturb]
    also = {"perturb": perturb, **({"other": "other.csv"} if step.from_other else {})}
    for value in values:
        whole = TOGETHER.get(name, {})
        for further in (whole, *({key: one} for key, one in whole.items()), {}):
            known = {
                key: one for key, one in further.items() if any(key in s.model_fields for s in method.shared_steps)
            }
            try:
                yield method.plan({**method.fixed, **also, **known, name: value})
                break
            except MicroveilError:
                continue


def settled(plan: Plan) -> dict[str, Any]:
    """What a method was told, all but a file."""
    return {name: value for name, value in plan.parameters.items() if name != "other"}


def round_trip(plan: Plan) -> dict[str, Any]:
    recipe = recipes.read({"recipe": 1, "method": plan.method, "parameters": plan.parameters})
    again = recipes.read(tomllib.loads(recipes.text(recipe, Path.cwd())))
    return settled(METHODS[plan.method].plan(again.parameters))


@pytest.mark.quick("pca", "veil", "noise", "cluster_hybrid", "microaggregate")
@every_method
def test_every_parameter_comes_back_with_every_kind_of_value(method: str) -> None:
    found = METHODS[method]
    open_parameters: set[str] = set()
    tried: set[str] = set()
    for group, (perturb, step) in zip(found.parameters()[1:], found.perturbations.items(), strict=True):
        declared = {
            parameter.name
            for parameter in [*found.parameters()[0].parameters, *group.parameters]
            if not parameter.for_tests
        }
        for kind in (step,) if open_parameters else (*found.shared_steps, step):  # the shared ones need it once
            for name, field in kind.model_fields.items():
                if name not in declared or name in ("other", "link"):  # files, and tested as such
                    continue
                open_parameters.add(name)
                for plan in plans(found, name, perturb, possible(field.annotation, name, field.metadata)):
                    assert round_trip(plan) == settled(plan), name
                    if plan.parameters[name] != next(p for p in found._own(kind) if p.name == name).default:
                        tried.add(name)
    assert tried == open_parameters


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("pca", {"components": np.int64(2), "exact": np.bool_(False)}),
        ("pca", {"components": np.array([0, 2]), "perturb": "noise", "noise_sd_ratio": np.float64(0.25)}),
        ("pca", {"components": (0, 1), "perturb": np.str_("normal")}),
        ("score_mix", {"correlation": np.float32(0.5)}),
        ("score_mix", {"correlation": [0.5, None, None, 0.25, 1, 0]}),
        ("score_mix", {"correlation": None}),
        ("romm", {"noise": None, "target_correlation": np.float64(0.7)}),
        ("microhybrid", {"group_size": np.int32(20)}),
        ("factor", {"select": "loads_on_sensitive", "sensitive": (STRANGE[1],), "factors": 2}),
        ("ipso", {"public": STRANGE[:2], "confidential": tuple(STRANGE[2:])}),
        ("ipso", {"public": f"~ `{STRANGE[0]}` * `{STRANGE[5]}`"}),
        ("pca", {"strata": "g", "weight": "w", "rules": None}),
        ("pca", {"rules": {"columns": {STRANGE[0]: {"special_codes": (np.int64(-9),), "minimum": None}}}}),
    ],
    ids=lambda value: value if isinstance(value, str) else ",".join(value),
)
def test_numpy_none_tuples_and_strange_names_come_back(method: str, params: dict[str, Any], tmp_path: Path) -> None:
    data = table().to_pandas() if "weight" in params else table()
    if "weight" in params:
        data["g"], data["w"] = np.repeat(['é, "1"', "two"], 40), np.arange(80) + 1.0
    release = mv.protect(data, method, seed=np.int64(7), **params)
    path = tmp_path / "recipe.toml"
    recipes.write(release.recipe(include_seed=True), path)
    again = mv.run(path, data)
    assert pd.DataFrame(again.data).equals(pd.DataFrame(release.data))
    assert toml_text(again.recipe()) == toml_text(release.recipe())
    assert json.loads(json.dumps(release.recipe())) == release.recipe()


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
    options = {option.name for option in fields(ReadOptions)}
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
