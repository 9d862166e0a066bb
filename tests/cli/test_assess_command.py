"""`microveil assess`, `measures` and `protect --policy` as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from command import run

import microveil as mv
from microveil.assessment.measuring import NOT_IN_ALL

SENTINEL = 86420.97531
FEW = "dbrl,pil,ks"
POLICY = """
[policy]
name = "files for research"
version = 1
[limits]
dbrl = {{at_most = {limit}, use = "high"}}
ks = {{at_most = 0.9}}
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """An original with a code and a missing cell, and a release in another format with its columns turned round."""
    rng = np.random.default_rng(1)
    values = rng.lognormal(size=(120, 3))
    values[3, 0] = SENTINEL
    original = pl.DataFrame(values, schema=["a", "b", "c d"]).with_columns(text=pl.lit("x"))
    noise = pl.DataFrame(rng.normal(size=(120, 3)), schema=["a", "b", "c d"])
    released = original.with_columns(*(original[name] + 0.2 * noise[name] for name in noise.columns))
    code = pl.int_range(pl.len()) < 5
    coded = [frame.with_columns(b=pl.when(code).then(-9.0).otherwise("b")) for frame in (original, released)]
    paths = tmp_path / "original.csv", tmp_path / "released.parquet"
    coded[0].write_csv(paths[0])
    coded[1].select("text", "c d", "b", "a").write_parquet(paths[1])
    return paths


def policy(folder: Path, limit: float) -> Path:
    path = folder / "policy.toml"
    path.write_text(POLICY.format(limit=limit))
    return path


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_attacks_on_some_columns(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str], engine: str) -> None:
    released = files[1].with_suffix(".csv")
    pl.read_parquet(files[1]).write_csv(released)
    asked = ["--measures", "dbrl", "--sensitive", "a,c d", "--engine", engine, "--json", "--seed", 5]
    code, printed, _ = run(capsys, "assess", files[0], released, *asked)
    assert code == 0
    expected = mv.assess(pl.read_csv(files[0]), pl.read_csv(released), measures="dbrl", sensitive=["a", "c d"], seed=5)
    assert json.loads(printed)["measures"]["dbrl"]["value"] == expected["dbrl"].value
    assert json.loads(printed)["notes"][0].startswith("risk is that of a, c d alone")


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_options_of_measures_and_weights_of_scores(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    released = files[1].with_suffix(".csv")
    pl.read_parquet(files[1]).write_csv(released)
    asked = ["--measures", "kl_ridge,summary", "--engine", engine, "--json", "--seed", 5]
    given = ["--measure-option", "kl_ridge.ridge=0.5", "--measure-option", "summary.dbrl=2"]
    code, printed, _ = run(capsys, "assess", files[0], released, *asked, *given)
    assert code == 0
    told = json.loads(printed)["measures"]
    options = {"kl_ridge": {"ridge": 0.5}, "summary": {"dbrl": 2}}
    frames = pl.read_csv(files[0]), pl.read_csv(released)
    expected = mv.assess(*frames, measures=["kl_ridge", "summary"], seed=5, measure_options=options)
    for name, figure in told.items():
        assert figure["value"] == pytest.approx(expected[name].value, rel=1e-9)
        assert figure["note"].startswith("with ")
    for wrong, problem in (("ridge=1", "ID.NAME=VALUE"), ("kl_ridge.ridg=1", "did you mean 'ridge'")):
        code, printed, err = run(capsys, "assess", *files, "--measures", "kl_ridge", "--measure-option", wrong)
        assert (code, printed) == (2, "")
        assert problem in err


def test_a_comparison_names_what_does_not_protect(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    asked = [
        "--methods",
        "noise noise_sd_ratio=0.01, ipso",
        "--sensitive",
        "a",
        "--measures",
        "dbrl,pil",
        "--repeats",
        2,
    ]
    code, printed, _ = run(capsys, "compare", files[0], *asked, "--seed", 1, "--limit", "dbrl=1")
    assert code == 0
    told = " ".join(printed.split())
    assert "Not protected, in no ranking: noise noise_sd_ratio=0.01 (a sensitive column keeps a correlation" in told
    assert "Least loss within dbrl 1: ipso" in told


def test_a_table_for_people(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, err = run(capsys, "assess", *files, "--measures", FEW, "--seed", 5)
    assert (code, err) == (0, "")
    lines = printed.splitlines()
    assert lines[0] == "3 columns, 120 rows"
    heading = next(line for line in lines if line.startswith("Risk"))
    assert heading.split() == ["Risk", "figure", "[95", "%", "interval]", "chance", "identity", "shuffle"]
    found = mv.assess(pl.read_csv(files[0]), pl.read_parquet(files[1]), measures=FEW.split(","), seed=5)
    place = next(number for number, line in enumerate(lines) if line.startswith("dbrl "))
    share = found["dbrl"]
    assert lines[place].split() == [
        "dbrl", f"{share.value:.3g}", f"[{share.low:.3g},", f"{share.high:.3g}]", f"{share.chance:.3g}",
        *(f"{known:.3g}" for known in found.known("dbrl")),
    ]  # fmt: skip
    assert lines[place + 1].strip() == f"low is better: {share.meaning}"
    assert "measured on 120 of 120 records" in printed
    gain = (share.value - share.chance) / (1 - share.chance)
    found = f"dbrl, {share.value:.3g} (chance {share.chance:.3g})"
    luck = "" if share.low > share.chance else ", which cannot be told from luck"
    told = f"Gains most over chance: {found}: a gain of {gain:.3g} of what was to be gained{luck}"
    assert told in " ".join(printed.split())
    assert "Note: column 'b': -9 taken for a code" in printed
    assert "86420" not in printed


def test_json_is_the_contract(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, err = run(capsys, "assess", *files, "--measures", "dbrl,psnr", "--seed", 5, "--json")
    assert (code, err) == (0, "")
    told = json.loads(printed)
    assert list(told["measures"]) == ["dbrl", "psnr"]
    for measure in told["measures"].values():
        assert {"value", "low", "high", "chance", "better", "range", "meaning"} <= measure.keys()
    assert told["measures"]["dbrl"]["range"] == [0, 1]
    assert told["measures"]["psnr"]["range"] == [0, "Infinity"]
    assert told["sanity"]["identity"]["dbrl"]["value"] == 1
    assert "86420" not in printed
    found = mv.assess(pl.read_csv(files[0]), pl.read_parquet(files[1]), measures=["dbrl", "psnr"], seed=5)
    assert told == json.loads(found.to_json())


@pytest.mark.slow
def test_default_and_all(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    by_default = json.loads(run(capsys, "assess", *files, "--json", "--seed", 1)[1])["measures"]
    assert {"dbrl", "subspace_linkage", "interval_disclosure", "pil", "classifier_auc", "score_2"} <= by_default.keys()
    everything = json.loads(run(capsys, "assess", *files, "--json", "--seed", 1, "--measures", "all")[1])
    assert everything["measures"].keys() | everything["skipped"].keys() == mv.measures().keys() - NOT_IN_ALL
    assert list(everything["skipped"]) == ["eigen_decay"], "three columns are too few to fit a decay"
    worst = by_default.pop("worst_attack")
    assert {name: everything["measures"][name] for name in by_default} == by_default
    assert worst["value"] <= everything["measures"]["worst_attack"]["value"], "the worst of more attacks"


def test_the_policy_decides_the_exit_code(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["assess", *files, "--measures", "ks", "--seed", 5, "--policy"]
    code, printed, err = run(capsys, *asked, policy(tmp_path, 1.0))
    assert (code, err) == (0, "")
    assert "Policy files for research: met" in printed
    assert "  met      dbrl: " in printed
    assert "at most 1 (high end of the interval)" in printed
    code, printed, err = run(capsys, *asked, policy(tmp_path, 0.1))
    assert code == 1
    assert err == "microveil: policy 'files for research' is not met (dbrl)\n"
    assert "Policy files for research: not met" in printed
    assert "  NOT MET  dbrl: " in printed
    assert "  met      ks: " in printed
    code, printed, err = run(capsys, *asked, policy(tmp_path, 0.1), "--json")
    assert code == 1
    assert err.count("\n") == 1
    told = json.loads(printed)["policy"]
    assert (told["name"], told["met"]) == ("files for research", False)
    assert [line["met"] for line in told["lines"]] == [False, True]
    code, printed, err = run(capsys, *asked, policy(tmp_path, 0.1), "--quiet")
    assert (code, printed) == (1, "")
    assert "is not met" in err


def test_what_could_not_be_measured_fails_the_policy(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shorter = tmp_path / "shorter.parquet"
    pl.read_parquet(files[1]).head(100).write_parquet(shorter)
    code, printed, _ = run(capsys, "assess", files[0], shorter, "--measures", "ks", "--policy", policy(tmp_path, 1.0))
    assert code == 1
    assert "Not measured: dbrl (the files have 120 and 100 rows" in printed
    assert "NOT MET  dbrl: not measured: the files have 120 and 100 rows" in printed
    assert "120 original and 100 released rows" in printed


def test_columns_can_be_chosen(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["assess", *files, "--measures", "ks", "--json"]
    assert json.loads(run(capsys, *asked, "--confidential", "c d,a")[1])["columns"] == ["c d", "a"]
    told = json.loads(run(capsys, *asked, "--public", "b")[1])
    assert told["columns"] == ["a", "c d"]
    assert told["notes"] == ["public, but not the same in both files: b; are the rows in the same order?"]
    assert json.loads(run(capsys, *asked, "--rules", "none")[1])["notes"] == []


BAD = {
    "unknown measure": (["--measures", "dbrll"], "did you mean 'dbrl'"),
    "no measure": (["--measures", ","], "measures: none is named"),
    "unknown column": (["--confidential", "nix"], "there is no column 'nix'"),
    "text": (["--confidential", "text"], "'text' of the original file is not numeric"),
    "policy that is not there": (["--policy", "no-such.toml"], "'no-such.toml' cannot be read"),
    "negative seed": (["--seed", "-1"], "seed"),
    "rules that are not there": (["--rules", "no-such.toml"], "no-such.toml"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_exit_code_2(
    case: str, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    options, expected = BAD[case]
    code, printed, err = run(capsys, "assess", *files, *options)
    assert (code, printed) == (2, "")
    assert err.count("\n") == 1
    assert expected in err
    assert "; " in err
    assert "86420" not in err


def test_a_bad_policy_is_refused_before_anything_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "policy.toml"
    bad.write_text('[policy]\nname = "p"\nversion = 1\n[limits]\ndbrl = {at_mst = 0.1}\n')
    for command in (["assess", "no.csv", "none.csv"], ["protect", "no.csv", "-o", tmp_path / "out.csv"]):
        code, printed, err = run(capsys, *command, "--policy", bad)
        assert (code, printed) == (2, "")
        assert "no key 'at_mst' in limits.dbrl; did you mean 'at_most'" in err


def test_protect_writes_only_what_meets_the_policy(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    asked = ["protect", files[0], "-o", folder / "o.csv", "--method", "pca", "--seed", 3, "--report", folder / "r.html"]
    code, printed, err = run(capsys, *asked, "--policy", policy(tmp_path, 0.0))
    assert code == 1
    assert err == "microveil: policy 'files for research' is not met (dbrl); nothing was written\n"
    assert "NOT MET  dbrl: " in printed
    assert "Wrote" not in printed
    code, printed, _ = run(capsys, *asked, "--policy", policy(tmp_path, 0.0), "--json")
    assert code == 1
    assert json.loads(printed)["output"] is None
    assert list(folder.iterdir()) == [], "nothing was written, not even in part"
    code, printed, err = run(capsys, *asked, "--policy", policy(tmp_path, 1.0))
    assert (code, err) == (0, "")
    assert "Policy files for research: met" in printed
    assert {path.name for path in folder.iterdir()} == {"o.csv", "r.html", "r.json"}
    told = json.loads(run(capsys, *asked, "--policy", policy(tmp_path, 1.0), "--overwrite", "--json")[1])
    assert told["assessment"]["policy"]["met"] is True
    assert list(told["assessment"]["measures"]) == ["dbrl", "ks"]
    assert told["output"] == str(folder / "o.csv")


def test_an_output_that_was_there_stays_when_the_policy_is_not_met(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "o.csv"
    out.write_text("an older release")
    assert (
        run(capsys, "protect", files[0], "-o", out, "--overwrite", "--policy", policy(tmp_path, 0.0), "--quiet")[0] == 1
    )
    assert out.read_text() == "an older release"


def test_measures_lists_and_explains(capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, err = run(capsys, "measures")
    assert (code, err) == (0, "")
    for name, summary in mv.measures().items():
        assert f"{name}  {summary}" in printed
    printed = run(capsys, "measures", "dbrl")[1]
    for words in ("dbrl (risk)", "low is better", "one by one", "Pagliuca and Seri", "From 0.0 to 1.0"):
        assert words in printed
    assert "Made of: propensity_2, pil, dbrl, interval_disclosure." in run(capsys, "measures", "score_2")[1]
    assert json.loads(run(capsys, "measures", "--json")[1]) == mv.measures()
    details = json.loads(run(capsys, "measures", "psnr", "--json")[1])
    assert (details["id"], details["kind"], details["better"]) == ("psnr", "utility", "high")
    assert details["range"] == [0, "Infinity"]
    code, _, err = run(capsys, "measures", "dbrll")
    assert code == 2
    assert "did you mean 'dbrl'" in err


def test_help_names_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    printed = run(capsys, "assess", "--help")[1]
    for option in (
        "ORIGINAL",
        "RELEASED",
        "--measures",
        "--confidential",
        "--public",
        "--policy",
        "--json",
        "[limits]",
    ):
        assert option in printed
    assert "--policy" in run(capsys, "protect", "--help")[1]
