"""`microveil run`: what `protect` did, again, from the recipe that it wrote."""

from __future__ import annotations

import json
import shlex
import sqlite3
import stat
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from command import run

import microveil as mv

SEED = 918273645546372819
STRANGE = ['net "income"', "Größe, in m²", "tax", "debt"]


def people() -> pl.DataFrame:
    rng = np.random.default_rng(3)
    frame = pl.DataFrame(rng.gamma(2, size=(150, 4)) @ rng.standard_normal((4, 4)) + 9, schema=STRANGE)
    return frame.with_columns(pl.Series("group", ["é", "b", "c"] * 50), pl.Series("weight", np.arange(150) % 7 + 1.5))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    people().write_csv(tmp_path / "data" / "people in.csv")
    return tmp_path / "data" / "people in.csv"


def quoted(names: list[str]) -> str:
    return ",".join('"' + name.replace('"', '""') + '"' for name in names)


POLICY = '[policy]\nname = "ours"\nversion = 1\n[limits]\npil = {{at_most = {}}}\n'
RULES = "[columns.tax]\nminimum = -1000.0\n"


@pytest.mark.slow
def test_a_private_recipe_gives_every_file_again(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "limits.toml").write_text(POLICY.format(1.0))
    (tmp_path / "rules.toml").write_text(RULES)
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path)
    asked = [
        "protect", "data/people in.csv", "-o", "out/o.csv", "--method", "pca", "--set", "perturb=noise",
        "--set", "components=0,2", "--confidential", quoted(STRANGE), "--public", "~ group", "--weight", "weight",
        "--rules", "rules.toml", "--policy", "limits.toml", "--report", "out/r.html", "--public-report", "out/p.html",
        "--save-recipe", "recipe.toml", "--include-seed", "--json",
    ]  # fmt: skip
    code, printed, err = run(capsys, *asked)
    assert (code, err) == (0, "")
    made = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert set(made) == {"o.csv", "r.html", "r.json", "p.html", "p.json"}
    recipe = tmp_path / "recipe.toml"
    assert stat.S_IMODE(recipe.stat().st_mode) == 0o600
    told = tomllib.loads(recipe.read_text())
    assert told["input"]["path"] == "data/people in.csv"
    assert told["confidential"] == STRANGE
    assert told["public"] == "~ group"
    assert (told["rules"], told["policy"]) == ("rules.toml", "limits.toml")
    for path in (tmp_path / "out").iterdir():
        path.unlink()
    monkeypatch.chdir("/")
    code, again, err = run(capsys, "run", recipe, "--json")
    assert (code, err) == (0, "")
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(made)
    assert (tmp_path / "out" / "o.csv").read_bytes() == made["o.csv"]
    first, second = json.loads(printed), json.loads(again)
    assert {**first, "output": None} == {**second, "output": None}
    reports = [json.loads(text) for text in (made["r.json"], (tmp_path / "out" / "r.json").read_bytes())]
    assert reports[0]["measures"] == reports[1]["measures"]
    assert reports[0]["policy"] == reports[1]["policy"]


def test_without_the_seed_the_doses_are_the_same_and_the_bytes_are_not(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, recipe = tmp_path / "o.csv", tmp_path / "recipe.toml"
    asked = ["protect", source, "-o", out, "--method", "noise", "--seed", SEED, "--save-recipe", recipe, "--json"]
    asked += ["--keep", "group"]
    first = json.loads(run(capsys, *asked)[1])
    text = recipe.read_text()
    assert str(SEED) not in text
    assert "sha256" not in text, "whoever has a guess at the whole file could confirm it"
    before = out.read_bytes()
    second = json.loads(run(capsys, "run", recipe, "--overwrite", "--json")[1])
    assert out.read_bytes() != before
    doses = [{name: dose["asked"] for name, dose in told["dose"].items()} for told in (first, second)]
    assert doses[0] == doses[1]
    assert run(capsys, "run", recipe, "--seed", SEED, "--overwrite", "--quiet") == (0, "", "")
    assert out.read_bytes() == before


def test_options_go_before_the_recipe(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe, other, out = tmp_path / "recipe.toml", tmp_path / "other.csv", tmp_path / "new.parquet"
    people()[:100].write_csv(other)
    asked = ["--method", "noise", "--keep", "group", "--set", "noise_sd_ratio=0.1", "--save-recipe", recipe, "--quiet"]
    assert run(capsys, "protect", source, "-o", tmp_path / "o.csv", *asked)[0] == 0
    given = ["--input", other, "--output", out, "--seed", 5, "--set", "noise_sd_ratio=0.9"]
    assert run(capsys, "run", recipe, *given, "--quiet") == (0, "", "")
    expected = tmp_path / "expected.parquet"
    again = ["--method", "noise", "--keep", "group", "--set", "noise_sd_ratio=0.9", "--seed", 5, "--quiet"]
    assert run(capsys, "protect", other, "-o", expected, *again)[0] == 0
    assert pl.read_parquet(out).equals(pl.read_parquet(expected))


@pytest.mark.slow
def test_another_output_leaves_the_reports_of_the_first_alone(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, report, public = tmp_path / "recipe.toml", tmp_path / "r.html", tmp_path / "p.html"
    asked = ["--method", "noise", "--save-recipe", recipe, "--report", report, "--public-report", public, "--quiet"]
    asked += ["--keep", "rest"]
    assert run(capsys, "protect", source, "-o", tmp_path / "o.csv", *asked) == (0, "", "")
    kept = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    code, printed, err = run(capsys, "run", recipe, "-o", tmp_path / "other.csv")
    assert (code, err) == (0, "")
    assert "Note: no report was written: those that the recipe names are of its own output" in printed
    assert {path: path.read_bytes() for path in kept} == kept
    named = ["--report", tmp_path / "r2.html", "--public-report", tmp_path / "p2.html"]
    code, printed, _ = run(capsys, "run", recipe, "-o", tmp_path / "other.csv", *named, "--overwrite")
    assert (code, "no report was written" in printed) == (0, False)
    assert {path: path.read_bytes() for path in kept} == kept
    new = {path.name for path in tmp_path.iterdir() if path.is_file() and path not in kept}
    assert new == {"other.csv", "r2.html", "r2.json", "p2.html", "p2.json"}
    code, printed, _ = run(capsys, "run", recipe, "-o", tmp_path / "data" / ".." / "o.csv", "--overwrite")
    assert (code, "no report was written" in printed) == (0, False)
    assert all(path.read_bytes() != kept[path] for path in (tmp_path / "o.csv", report, public)), "they are of this one"


def test_another_input_is_told_and_no_failure(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "recipe.toml"
    asked = ["--method", "noise", "--keep", "rest", "--save-recipe", recipe, "--include-seed", "--quiet"]
    assert run(capsys, "protect", source, "-o", tmp_path / "o.csv", *asked)[0] == 0
    told = "the input is not the file that the recipe was written for"
    assert told not in run(capsys, "run", recipe, "--overwrite")[1]
    source.write_text(source.read_text().replace("é", "e"))
    code, printed, err = run(capsys, "run", recipe, "--overwrite")
    assert (code, err) == (0, "")
    assert f"Note: {told}" in printed
    assert told in json.loads(run(capsys, "run", recipe, "--overwrite", "--json")[1])["warnings"][0]
    assert run(capsys, "run", recipe, "--overwrite", "--quiet") == (0, "", "")


def test_a_policy_in_the_recipe_holds(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe, out = tmp_path / "recipe.toml", tmp_path / "o.csv"
    text = 'recipe = 1\nmethod = "noise"\n[input]\npath = "data/people in.csv"\n[output]\npath = "o.csv"\n'
    inline = "[policy.policy]\nname = 'ours'\nversion = 1\n[policy.limits.pil]\nat_most = {}\n"
    for limit, code in ((0.0, 1), (1.0, 0)):
        recipe.write_text(text + inline.format(limit))
        found, _, err = run(capsys, "run", recipe, "--quiet")
        assert found == code
        assert out.exists() == (code == 0)
        assert ("policy 'ours' is not met (pil); nothing was written" in err) == (code == 1)


@pytest.mark.slow
def test_how_the_input_is_read_and_the_output_written_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out, recipe = tmp_path / "in.csv", tmp_path / "o.csv", tmp_path / "recipe.toml"
    numbers = (
        people().select(STRANGE[2:]).with_columns(pl.all().round(3).cast(pl.String).str.replace(".", ",", literal=True))
    )
    numbers.with_columns(name=pl.lit("=Müller")).write_csv(source, separator=";")
    source.write_bytes(source.read_text().encode("cp1252"))
    asked = ["--delimiter", ";", "--decimal", ",", "--encoding", "cp1252", "--keep-formulas", "--method", "noise"]
    asked += ["--report", tmp_path / "r.html", "--save-recipe", recipe, "--include-seed"]
    assert run(capsys, "protect", source, "-o", out, *asked)[0] == 0
    first = out.read_bytes()
    assert b";=M\xfcller" in first
    told = tomllib.loads(recipe.read_text())
    assert (told["input"]["delimiter"], told["input"]["decimal"], told["input"]["encoding"]) == (";", ",", "cp1252")
    assert told["output"]["keep_formulas"] is True
    assert run(capsys, "run", recipe, "--overwrite")[0] == 0
    assert out.read_bytes() == first
    words = shlex.split(json.loads((tmp_path / "r.json").read_text())["replay"]["command"])[1:]
    out.unlink()
    (tmp_path / "r.html").unlink()
    monkeypatch.chdir(tmp_path)
    assert run(capsys, *words)[0] == 0
    assert out.read_bytes() == first, "the command in the report says so, too"
    other = tmp_path / "new.parquet"
    people().select(STRANGE[2:]).write_parquet(other)
    assert run(capsys, "run", recipe, "--input", other, "--overwrite")[0] == 0, (
        "a file of another kind has ways of its own"
    )


def test_a_database_is_found_from_the_recipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("data", "kept"):
        (tmp_path / name).mkdir()
    with closing(sqlite3.connect(tmp_path / "data" / "a b.db")) as database, database:
        database.execute("create table survey (tax real, debt real)")
        database.executemany("insert into survey values (?, ?)", people().select(STRANGE[2:]).rows())
    monkeypatch.chdir(tmp_path)
    asked = ["--method", "noise", "--save-recipe", "kept/recipe.toml", "--include-seed", "--quiet"]
    assert run(capsys, "protect", "sqlite:///data/a%20b.db#survey", "-o", "o.parquet", *asked) == (0, "", "")
    first = pl.read_parquet("o.parquet")
    assert tomllib.loads(Path("kept/recipe.toml").read_text())["input"] == {"path": "sqlite:///../data/a%20b.db#survey"}
    monkeypatch.chdir("/")
    assert run(capsys, "run", tmp_path / "kept" / "recipe.toml", "-o", tmp_path / "again.parquet", "--quiet") == (
        0,
        "",
        "",
    )
    assert pl.read_parquet(tmp_path / "again.parquet").equals(first)


BARE = 'recipe = 1\nmethod = "noise"\n'
WHOLE = BARE + '[input]\npath = "data/people in.csv"\n[output]\npath = "o.csv"\n'


@pytest.mark.parametrize(
    ("text", "options", "problem"),
    [
        (BARE, [], "the recipe names no input; give --input FILE"),
        (BARE + '[input]\npath = "data/people in.csv"\n', [], "the recipe names no output; give --output FILE"),
        (WHOLE.replace("recipe = 1", "recipe = 3"), [], "is no recipe file: it is of version 3"),
        (WHOLE.replace("recipe = 1", "recipe = 2"), [], "noise cannot protect labels, and column 'group' has some"),
        (WHOLE.replace("method", "metod"), [], "is no recipe file"),
        (WHOLE.replace("noise", "noize"), [], "there is no method 'noize'; did you mean 'noise'?"),
        (WHOLE.replace("people in", "nobody"), [], "there is no file"),
        ("recipe = \n", [], "is not valid TOML (line 1)"),
        (WHOLE, ["--set", "seed=3"], "'seed' is an option of its own; use --seed"),
        (WHOLE, ["--set", "public=tax"], "'public' is an option of its own"),
        (WHOLE, ["--set", "window=3"], "window"),
        (WHOLE, ["--output", "recipe.toml"], "recipe.toml"),
        (WHOLE.replace("o.csv", "data/people in.csv"), [], "is one of the inputs"),
        (WHOLE + 'report = "recipe.toml"\n', [], "is one of the inputs"),
    ],
)
def test_what_cannot_be_run_is_told_in_one_line(
    text: str,
    options: list[str],
    problem: str,
    source: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipe.toml").write_text(text)
    before = sorted(tmp_path.rglob("*"))
    code, _, err = run(capsys, "run", "recipe.toml", *options)
    assert code == 2
    assert problem in err
    assert err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "recipe.toml").read_text() == text


def test_the_seed_needs_a_recipe_to_go_to(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "protect", source, "-o", tmp_path / "o.csv", "--include-seed")
    assert code == 2
    assert "--include-seed: no recipe is asked for" in err


@pytest.mark.quick("method,components,exact")
@pytest.mark.parametrize(
    "options",
    [
        {"method": "pca", "components": [0, 1], "exact": False},
        {"method": "score_mix", "correlation": [0.5, None, 1.0, 0.25]},
        {"method": "microhybrid", "clusters": ["group"], "rules": None},
        {"method": "pca", "components": "sensitive", "sensitive": STRANGE[:2]},
        {"method": "ipso", "public": f"~ group + `{STRANGE[1]}`", "confidential": ["tax", STRANGE[0]]},
        {"method": "pca", "strata": "group", "weight": "weight"},
        {"method": "noise", "confidential": ["tax"], "drop": [STRANGE[0], "debt"], "shuffle_rows": True},
        {"method": "pca", "rules": {"columns": {STRANGE[0]: {"special_codes": [-9]}}}},
        {"method": "veil", "kinds": {"group": "ordered", STRANGE[0]: "amount"}, "confidential": [*STRANGE, "group"]},
        {"method": "noise", "keep": ["group", STRANGE[0]], "weight": "weight"},
        {"method": "noise", "keep": "rest", "weight": "weight"},
    ],
    ids=lambda options: ",".join(options),
)
def test_the_command_in_a_report_makes_the_same_release(
    options: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    roles = {} if {"confidential", "weight"} & set(options) else {"confidential": STRANGE}
    data = people()
    data.write_parquet("INPUT.parquet")
    release = mv.protect(data, seed=SEED, **roles, **options)
    release.report(tmp_path / "r.html")
    told = json.loads((tmp_path / "r.json").read_text())["replay"]
    if told["file"]:
        (tmp_path / "recipe.toml").write_text(told["file"])
    places = {"INPUT": "INPUT.parquet", "OUTPUT": "OUTPUT.parquet"}
    words = [places.get(word, word) for word in shlex.split(told["command"])[1:]]
    assert run(capsys, *words, "--quiet") == (0, "", "")
    assert pl.read_parquet("OUTPUT.parquet").equals(release.data)
