"""`microveil protect --engine stream`: the same bytes as from memory, with everything that goes with a release."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from command import run

from microveil.core.errors import FileError
from microveil.io.files.formats import ReadOptions
from microveil.workflow import protecting


@pytest.fixture
def source(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    amounts = rng.lognormal(2, 0.6, (12_000, 3)) @ np.array([[1, 0.3, 0], [0, 1, 0.2], [0, 0, 1]])
    frame = pl.DataFrame(amounts, schema=["sales", "costs", "wages"]).with_columns(
        region=pl.Series(rng.choice(["north", "south"], 12_000))
    )
    frame.write_parquet(tmp_path / "in.parquet")
    return tmp_path / "in.parquet"


OPTIONS = ("--method", "ipso", "--public", "region", "--seed", "5")


@pytest.mark.parametrize("options", [OPTIONS, ("--method", "veil", "--seed", "5")], ids=["ipso", "veil"])
def test_it_writes_what_memory_writes(
    source: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    found = {}
    for engine in ("memory", "stream"):
        output = source.with_name(f"{engine}.parquet")
        code, printed, _ = run(capsys, "protect", source, "-o", output, *options, "--engine", engine, "--json")
        assert code == 0
        found[engine] = json.loads(printed)
    one, other = (pl.read_parquet(source.with_name(f"{engine}.parquet")) for engine in found)
    assert one.equals(other)
    assert found["stream"]["kept"].keys() == found["memory"]["kept"].keys()
    assert any("sample of 10,000 rows" in said for said in found["stream"]["warnings"])
    if "veil" in options:
        linked = {figures["risk"]["after"]["id"] for figures in found.values()}
        assert linked == {"mixed_linkage"}, "labels are in the sample, too"


@pytest.mark.slow
def test_reports_and_a_recipe_that_runs(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = source.parent
    files = ("--report", folder / "r.html", "--public-report", folder / "p.html", "--save-recipe", folder / "r.toml")
    stream = ("--engine", "stream", "--memory", "150MB")
    code, _, said = run(
        capsys, "protect", source, "-o", folder / "one.parquet", *OPTIONS, *stream, *files, "--include-seed", "--quiet"
    )
    assert (code, said) == (0, "")
    assert 'engine = "stream"' in (folder / "r.toml").read_text()
    assert 'memory = "150MB"' in (folder / "r.toml").read_text()
    assert "On a sample of rows" in json.loads((folder / "r.json").read_text())["measured"]
    public = (folder / "p.html").read_text()
    original = pl.read_parquet(source)
    assert not any(repr(value) in public for name in ("sales", "costs") for value in original[name].top_k(3).to_list())
    code, _, _ = run(capsys, "run", folder / "r.toml", "--output", folder / "two.parquet", "--quiet")
    assert code == 0
    assert (folder / "one.parquet").read_bytes() == (folder / "two.parquet").read_bytes()


def test_a_policy_that_is_not_met_leaves_nothing(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = source.with_name("policy.toml")
    policy.write_text('[policy]\nname = "ours"\nversion = 1\n[limits]\npil = {at_most = 0.0}\n')
    before = {path.name for path in source.parent.iterdir()}
    code, _, said = run(
        capsys, "protect", source, "-o", source.with_name("out.parquet"), *OPTIONS, "--engine", "stream",
        "--policy", policy, "--report", source.with_name("r.html"),
    )  # fmt: skip
    assert code == 1
    assert "nothing was written" in said
    assert {path.name for path in source.parent.iterdir()} == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ("--method", "ipso"),
            "ipso cannot protect labels, and column 'region' has some; use veil, release",
        ),
        (("--method", "ipso", "--strata", "region"), "takes no strata"),
        (("--method", "ipso", "--shuffle-rows"), "takes no strata"),
        (("--method", "ipso", "--memory", "1"), "at least 100MB"),
        (("--method", "ipso", "--delimiter", ";"), "means nothing for Parquet"),
    ],
)
def test_what_it_cannot_do_is_said(
    source: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], words: str
) -> None:
    output = source.with_name("out.parquet")
    code, _, said = run(capsys, "protect", source, "-o", output, "--engine", "stream", *options)
    assert code == 2
    assert words in " ".join(said.split())
    assert not output.exists()


@pytest.mark.quick("1000000-ipso-parquet-1", "1000000-ipso-csv-0")
@pytest.mark.parametrize(
    ("free", "method", "kind", "sampled"),
    [
        (10**6, "ipso", "parquet", 1),
        (10**6, "ipso", "csv", 0),  # blocks are written as they are read
        (10**12, "ipso", "parquet", 0),
        (10**6, "shuffle", "parquet", 0),
    ],
)
def test_auto_streams_what_does_not_fit(
    source: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    free: int,
    method: str,
    kind: str,
    sampled: int,
) -> None:
    monkeypatch.setattr(protecting, "_free_memory", lambda: free)
    asked = ["--method", method, "--keep", "region", "--json"]
    code, printed, _ = run(capsys, "protect", source, "-o", source.with_name(f"out.{kind}"), *asked)
    assert code == 0
    assert sum("a sample of 10,000 rows" in said for said in json.loads(printed)["warnings"]) == sampled


def formulas(folder: Path) -> Path:
    rng = np.random.default_rng(4)
    frame = pl.DataFrame(rng.lognormal(2, 0.6, (300, 3)), schema=["sales", "costs", "wages"])
    frame.with_columns(name=pl.Series(["=1+1", "a", "-3"] * 100)).write_csv(folder / "in.csv")
    return folder / "in.csv"


def test_formulas_are_told_and_kept_as_from_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = formulas(tmp_path)
    for option in ([], ["--keep-formulas"]):
        found = {}
        for engine in ("memory", "stream"):
            output = tmp_path / f"{engine}.csv"
            asked = ["--method", "ipso", "--seed", "5", "--engine", engine, "--json", "--overwrite", *option]
            asked += ["--keep", "name"]
            code, printed, err = run(capsys, "protect", source, "-o", output, *asked)
            assert code == 0, err
            said = [line for line in json.loads(printed)["warnings"] if "100 cells of text begin as formulas" in line]
            found[engine] = (said, output.read_bytes())
        assert found["stream"] == found["memory"]
        assert len(found["stream"][0]) == 1
        assert (b",'=1+1" in found["stream"][1]) is not bool(option)


def test_a_result_that_cannot_be_printed_is_written_all_the_same(tmp_path: Path) -> None:
    source, output = formulas(tmp_path), tmp_path / "out.csv"
    command = [sys.executable, "-m", "microveil", "protect", source, "-o", output, "--engine", "stream"]
    with Path("/dev/full").open("w") as full:
        asked = [*map(str, command), "--method", "ipso", "--keep", "name"]
        done = subprocess.run(asked, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert "the result cannot be printed" in done.stderr
    assert output.exists()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--memory", "banana"], "memory: must be at least 100MB"),
        (["--engine", "memory", "--memory", "banana"], "memory: must be at least 100MB"),
        (["--engine", "spark", "--memory", "2GB"], "'spark' takes no --memory"),
        (["--engine", "spark", "--delimiter", ";"], "'spark' takes no --delimiter"),
        (["--engine", "spark", "--keep-formulas"], "'spark' takes no --keep-formulas"),
    ],
)
def test_no_option_is_ignored(
    options: list[str], problem: str, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, "protect", source, "-o", source.with_name("out.parquet"), *options)
    assert (code, problem in err) == (2, True)


def test_the_engine_is_found_for_the_file_as_it_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = []

    def look(_: Path, reading: ReadOptions | None = None) -> None:
        said.append(reading)
        raise FileError("it cannot be opened", "the engine is the memory then")

    monkeypatch.setattr(protecting, "open_blocks", look)
    asked = ["--method", "ipso", "--delimiter", ",", "--quiet"]
    assert run(capsys, "protect", formulas(tmp_path), "-o", tmp_path / "out.csv", *asked)[0] == 0
    assert said == [ReadOptions(delimiter=",")]
