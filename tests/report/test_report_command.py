"""Reports of the command line."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from reported import SEED, people, strictly

from microveil.cli.main import main


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "people in.csv"
    people(120).write_csv(path)
    return path


def test_the_command_in_the_report_gives_the_same_file(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import hashlib

    out, page = tmp_path / "out.csv", tmp_path / "r.html"
    asked = ["--method", "pca", "--set", "components=0,1", "--set", "perturb=noise", "--public", "age"]
    assert run("protect", source, "-o", out, *asked, "--report", page, "--quiet") == 0
    told, first = strictly(tmp_path / "r.json"), out.read_bytes()
    assert told["identity"]["released"]["file"] == {"name": "out.csv", "sha256": hashlib.sha256(first).hexdigest()}
    expected = {"name": source.name, "sha256": hashlib.sha256(source.read_bytes()).hexdigest()}
    assert told["identity"]["original"]["file"] == expected
    assert {"dbrl", "pil", "outlier_risk", "score_2"} <= set(told["measures"])
    assert told["sanity"] == {"rows": 120, "of": 120}
    out.unlink()
    monkeypatch.chdir(tmp_path)
    assert run(*shlex.split(told["replay"]["command"])[1:], "--quiet") == 0
    assert out.read_bytes() == first


def test_large_files_have_what_is_fast(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("microveil.assessment.measuring.REPORT_CELLS", 100)
    out, page = tmp_path / "out.csv", tmp_path / "r.html"
    assert run("protect", source, "-o", out, "--method", "pca", "--report", page, "--quiet") == 0
    told = strictly(tmp_path / "r.json")
    assert {"dbrl", "interval_disclosure_own", "pil", "ks"} <= set(told["measures"])
    assert {"optimal_linkage", "classifier_auc", "score_2"}.isdisjoint(told["measures"])
    assert "only what is fast was measured" in page.read_text()


def test_the_public_report_of_the_command_line(source: Path, tmp_path: Path) -> None:
    page = tmp_path / "p.html"
    assert run("protect", source, "-o", tmp_path / "o.csv", "--public-report", page, "--seed", SEED, "--quiet") == 0
    told = strictly(tmp_path / "p.json")
    assert {"pil", "ks"} <= set(told["measures"])
    assert told["identity"]["file"]["name"] == "o.csv"
    assert source.name not in page.read_text()
    assert str(SEED) not in page.read_text() + json.dumps(told)


def test_reports_that_would_overwrite_each_other_are_refused(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["protect", source, "-o", tmp_path / "o.csv"]
    assert run(*asked, "--report", tmp_path / "r.html", "--public-report", tmp_path / "r.htm") == 2
    assert "two outputs have the same name" in capsys.readouterr().err
    assert run(*asked, "--report", tmp_path / "r.json") == 2
    assert "call the report .html" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [source.name]


@pytest.mark.slow
def test_a_comparison_has_a_report(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["compare", source, "--methods", "noise, shuffle", "--repeats", 2, "--measures", "dbrl,pil", "--seed", 1]
    assert run(*asked, "--report", tmp_path / "s.html") == 0
    assert f"Wrote {tmp_path / 's.html'}" in capsys.readouterr().out
    text, told = (tmp_path / "s.html").read_text(), strictly(tmp_path / "s.json")
    assert text.count("<svg") == 1
    assert set(told["study"]["frontier"]) | set(told["study"]["rejected"]) == {"noise", "shuffle"}
    assert {row["label"] for row in told["plots"]["ru_map"]["rows"]} == {"noise", "shuffle"}
    assert run(*asked, "--measures", "dbrl", "--report", tmp_path / "s.html", "--overwrite") == 0, (
        "half a map is no reason to fail"
    )
    assert "a measure of risk and one of loss" in (tmp_path / "s.html").read_text()


def test_labels_alone_have_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(6)
    columns = {name: rng.choice(["x", "y", "z"], 300) for name in ("area", "party", "trade")}
    pl.DataFrame(columns).write_csv(tmp_path / "in.csv")
    paths = [str(tmp_path / name) for name in ("in.csv", "out.csv", "r.html")]
    with pytest.raises(SystemExit) as ended:
        main(["protect", paths[0], "-o", paths[1], "--report", paths[2]])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "Protected 3 columns of 300 rows" in said
    assert "labels are others in" in said
    assert "come back as they were" not in said
    told = strictly(tmp_path / "r.json")
    assert told["dose"].keys() == columns.keys()
    assert [line["statistic"] for line in told["kept"]] == ["two-way tables"]
    assert next(iter(told["measures"])) == "mixed_linkage"
    assert re.search(r"Risk: \S+ % of records can be linked before, \d\.\d\d % after", said)
    assert not told["skipped"]
    assert told["plots"]["losses"]["absent"].endswith("only labels are protected, and this picture is of numbers")
    assert told["plots"]["two_way"]["rows"]


def test_reports_of_a_file_speak_the_command_line_and_say_what_is_not_kept_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    size, group = np.exp(1.5 * rng.normal(size=150)), rng.integers(0, 9, 150)
    coded = np.where(np.arange(150) % 10 == 0, -9.0, np.round(size * rng.gamma(3.0, 10, 150)))
    data = pl.DataFrame(
        {"group": [f"g{g}" for g in group], "size": np.round(size, 3), "coded": coded, "age": rng.integers(20, 70, 150)}
    )
    data.write_csv(tmp_path / "in.csv")
    pages = {name: tmp_path / f"{name}.html" for name in ("internal", "public")}
    asked = ["--report", pages["internal"], "--public-report", pages["public"], "--keep", "age", "--seed", 1, "--quiet"]
    assert run("protect", tmp_path / "in.csv", "-o", tmp_path / "out.csv", *asked) == 0
    internal, public = (page.read_text(encoding="utf-8") for page in pages.values())
    assert "--rules none" in internal
    assert "rules=None" not in internal
    assert "relations of age with the protected columns: it was released as in the original" in public
    assert "totals can be computed" not in public, "no rule of this table is a sum"
    told = strictly(tmp_path / "public.json")
    words = {line["statistic"]: line["kept"] for line in told["kept"]}
    far = {line["statistic"] for line in told["kept"] if line["difference"] > 0.25}
    assert "group means" in far
    assert {name for name, word in words.items() if word == "not"} == far
    rows = strictly(tmp_path / "internal.json")["records"]
    page = internal.partition("<h3>Records at highest risk</h3>")[2].partition("<h3>Outliers</h3>")[0]
    assert page.count("<tr>") - 1 == sum(row["risk"] >= 0.0001 for row in rows) < len(rows), "0 is no high risk"
    assert not any("group means" in said for said in told["not_kept"]), "means of groups are named as an analysis"
