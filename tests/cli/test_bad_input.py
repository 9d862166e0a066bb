"""Bad input on the command line: one line that names the column or option, exit code 2, nothing written or shown."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from command import run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from properties import examples

from microveil.cli.endings import Stopped

SENTINEL = "86420.97531"
GOOD = f"a,b,t\n1,2.5,x\n3,4,y\n5,{SENTINEL},z\n7,7,w\n9,1,v\n"


def refused(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: object) -> str:
    """Run `protect`, which must refuse as promised; the message."""
    before = {path.name for path in folder.iterdir()}
    code, out, err = run(capsys, "protect", *arguments)
    assert code == 2
    assert out == "" or out.startswith("Found in "), "what was found is shown when the work begins, and nothing else"
    assert err.count("\n") == 1, "one line"
    assert err.startswith("microveil: ")
    assert "; " in err, "a way out"
    assert SENTINEL not in err + out
    assert {path.name for path in folder.iterdir()} == before, "no output and no temporary file is left"
    return err


FILES = {
    "empty file": ("", "is empty"),
    "header only": ("a,b\n", "no rows"),
    "one row": (f"a,b\n1,{SENTINEL}\n", "1 row"),
    "two rows": (f"a,b\n1,{SENTINEL}\n2,3\n", "2 rows"),
    "one column": (f"a\n1\n{SENTINEL}\n3\n4\n", "'a'"),
    "one column that varies": (f"a,t\n1,x\n{SENTINEL},x\n3,x\n4,x\n", "'a'"),
    "texts that are all the same": ("s,t\nu,x\nu,x\nu,x\n", "no column to protect"),
    "all constant": (f"a,b\n1,{SENTINEL}\n1,{SENTINEL}\n1,{SENTINEL}\n", "constant"),
    "nothing but missing cells": (f"a,b,s\n,,{SENTINEL}x\n,,u\n,,v\n,,w\n", "'a'"),
    "infinite cell": (f"a,b\n1,{SENTINEL}\n3,inf\n5,1\n7,7\n", "'b' has 1 infinite cell;"),
    "minus infinity": (f"a,b\n-inf,{SENTINEL}\n3,2\n-inf,1\n7,7\n", "'a' has 2 infinite cells"),
    "duplicate names": (f"a,a\n1,{SENTINEL}\n3,4\n5,1\n7,7\n", "'a'"),
    "ragged rows": (f"a,b\n1,2\n3,4,{SENTINEL}\n5,1\n7,7\n", "line 3"),
    "a record for a header": (f"Smith,{SENTINEL},7.5\nJones,2.25,3\nMiller,4,5.5\nBrown,1,2\n", "numbers in place"),
    "too large to square": (f"a,b\n1e200,{SENTINEL}\n3,2\n5,1\n7,7\n", "'a'"),
}


@pytest.mark.parametrize("case", FILES)
def test_a_bad_file_is_refused(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content, expected = FILES[case]
    source = tmp_path / "in.csv"
    source.write_text(content)
    assert expected in refused(capsys, tmp_path, source, "-o", tmp_path / "out.csv")


PCA = ["--method", "pca"]
PCA_OF_NUMBERS = [*PCA, "--keep", "rest"]
OPTIONS = {
    "unknown column": (["--confidential", "a,nix"], "confidential: there is no column 'nix'"),
    "text for a method of numbers": ([*PCA, "--confidential", "a,t"], "pca cannot protect labels, and column 't' has"),
    "text for a method of numbers, by default": (PCA, "pca cannot protect labels, and column 't' has some; use veil"),
    "text as a number": (["--kind", "t=amount"], "kinds: column 't' has no numbers"),
    "text as a date": (["--kind", "t=date"], "kinds: column 't' has no dates"),
    "unknown kind": (["--kind", "t=nix"], "kinds: 't' cannot be 'nix'"),
    "a kind of no column": (["--kind", "tt=amount"], "kinds: there is no column 'tt'"),
    "no kind": (["--kind", "t"], "--kind"),
    "text as weight": (["--weight", "t"], "'t' is not numeric"),
    "weight not positive": (["--weight", "z", "--confidential", "a,b"], "weight"),
    "two roles": (["--confidential", "a,b", "--public", "a"], "'a' is named twice"),
    "no column named": (["--confidential", ","], "confidential"),
    "unknown method": (["--method", "pcaa"], "did you mean 'pca'"),
    "unknown parameter": (["--set", "componets=2"], "did you mean 'components'"),
    "too many components": ([*PCA_OF_NUMBERS, "--set", "components=9"], "components: 9 asked"),
    "component 0 asked": ([*PCA, "--set", "components=0"], "components"),
    "component out of range": ([*PCA_OF_NUMBERS, "--set", "components=[5]"], "no component 5"),
    "component twice": ([*PCA_OF_NUMBERS, "--set", "components=[0,0]"], "listed twice"),
    "empty component list": ([*PCA_OF_NUMBERS, "--set", "components=[]"], "empty"),
    "sensitive without components": ([*PCA_OF_NUMBERS, "--set", "sensitive=a"], "sensitive"),
    "parameter of another perturbation": ([*PCA, "--set", "noise_sd_ratio=1"], "perturb='noise'"),
    "ratio out of range": ([*PCA, "--set", "perturb=noise", "--set", "noise_sd_ratio=-1"], "noise_sd_ratio"),
    "unknown perturbation": ([*PCA, "--set", "perturb=swop"], "did you mean 'swap'"),
    "what the default fixes": (["--set", "components=1"], "components: veil has it fixed at 'all'"),
    "not a pair": (["--set", "components"], "--set"),
    "set twice": (["--set", "components=1", "--set", "components=2"], "twice"),
    "an option as a parameter": (["--set", "seed=3"], "--set: 'seed' is an option of its own; use --seed"),
    "a role as a parameter": (["--set", "confidential=a"], "--set: 'confidential' is an option of its own"),
    "the method as a parameter": (["--set", "method=pca"], "use --method"),
    "the table as a parameter": (["--set", "data=1"], "--set: 'data' is not a parameter of a method"),
    "the progress as a parameter": (["--set", "progress=1"], "--set: 'progress' is not a parameter"),
    "the rest as a parameter": (["--set", "params=1"], "--set: 'params' is not a parameter"),
    "a table that is needed": (
        ["--method", "synthetic_addition"],
        "other: is needed; give it: other=..., or --set other=FILE",
    ),
    "an option that there is not": (["--nix"], "see `microveil protect --help`"),
    "negative seed": (["--seed", "-1"], "seed"),
    "seed not a number": (["--seed", "x"], "--seed"),
    "unknown engine": (["--engine", "warp"], "engine"),
    "unknown rules file": (["--rules", "nix.toml"], "nix.toml"),
    "public with holes": (["--public", "h", "--confidential", "a,b"], "'h' has missing cells"),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_a_bad_option_is_refused(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, expected = OPTIONS[case]
    source = tmp_path / "in.csv"
    frame = pl.read_csv(GOOD.encode()).with_columns(z=pl.Series([1, 2, 0, 1, 1]), h=pl.Series([1, None, 3, 4, 6]))
    frame.write_csv(source)
    assert expected in refused(capsys, tmp_path, source, "-o", tmp_path / "out.csv", *arguments)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    source = tmp_path / "in.csv"
    source.write_text(GOOD)
    return source


def test_files_that_cannot_be_read_or_written(good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.csv"
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 not really" * 9)
    assert "nix.csv" in refused(capsys, tmp_path, tmp_path / "nix.csv", "-o", out)
    (tmp_path / "folder.csv").mkdir()
    assert "directory" in refused(capsys, tmp_path, tmp_path / "folder.csv", "-o", out)
    assert "bad.parquet" in refused(capsys, tmp_path, tmp_path / "bad.parquet", "-o", out)
    assert "no folder" in refused(capsys, tmp_path, good, "-o", tmp_path / "nowhere" / "out.csv")
    assert "extension" in refused(capsys, tmp_path, good, "-o", tmp_path / "out.docx")
    assert "inputs" in refused(capsys, tmp_path, good, "-o", good)
    assert "no folder" in refused(capsys, tmp_path, good, "-o", out, "--report", tmp_path / "nowhere" / "r.html")
    assert "inputs" in refused(capsys, tmp_path, good, "-o", out, "--report", good)
    assert "same name" in refused(capsys, tmp_path, good, "-o", out, "--save-recipe", out)
    assert good.read_text() == GOOD


ALL_THAT_IS_READ = {
    "the dictionary, by a recipe": ("d.toml", ["-o", "out.csv", "--rules", "d.toml", "--save-recipe", "d.toml"]),
    "the dictionary, by the twin of a report": ("d.json", ["-o", "out.csv", "--rules", "d.json", "--report", "d.html"]),
    "the policy": ("d.toml", ["-o", "out.csv", "--policy", "d.toml", "--save-recipe", "d.toml"]),
    "the table of a parameter": ("o.csv", ["-o", "o.csv", "--method", "synthetic_addition", "--set", "other=o.csv"]),
    "the link of a parameter": (
        "d.toml",
        ["-o", "out.csv", "--method", "component_removal", "--set", "link=d.toml", "--save-recipe", "d.toml"],
    ),
}


@pytest.mark.parametrize("case", ALL_THAT_IS_READ)
def test_nothing_that_is_read_is_overwritten(
    case: str, good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, arguments = ALL_THAT_IS_READ[case]
    content = {
        "d.toml": '[policy]\nname = "p"\nversion = 1\n[limits]\npil = {at_most = 1.0}\n',
        "d.json": '{"columns": {"a": {"minimum": 0}}}',
        "o.csv": GOOD,
    }[name]
    (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    assert f"'{name}' is one of the inputs" in refused(capsys, tmp_path, good, *arguments)
    assert (tmp_path / name).read_text() == content


def test_names_do_not_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A title of the window, colours, a cleared line, text that runs backwards."""
    names = ["\x1b]0;owned\x07a", "\x1b[31mb", "c\x9b2K", "d\u202e"]
    source = tmp_path / "in.csv"
    pl.DataFrame({name: [float(i * (j + 3) % 7) for i in range(40)] for j, name in enumerate(names)}).write_csv(source)
    told = run(capsys, "describe", source)[1]
    assert "[31mb" in told
    told += run(capsys, "protect", source, "-o", tmp_path / "o.csv", "--method", "noise")[1]
    told += refused(capsys, tmp_path, source, "-o", tmp_path / "o.csv", "--confidential", f"{names[1]}x")
    assert not set(told) & {"\x1b", "\x07", "\x9b", "\u202e"}


@pytest.mark.parametrize("sheet", ["a/b", "x" * 40, "", "a:b", "'a"])
def test_names_that_no_sheet_can_have_are_refused_before_the_work(
    sheet: str, good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "is no name of a sheet; use up to 31 signs" in refused(
        capsys, tmp_path, good, "-o", f"{tmp_path}/out.xlsx#{sheet}"
    )


def test_no_format_is_offered_that_cannot_be_written(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ".sas7bdat" not in refused(capsys, tmp_path, good, "-o", tmp_path / "out.docx")
    (tmp_path / "in.docx").write_text("x")
    assert ".sas7bdat" in refused(capsys, tmp_path, tmp_path / "in.docx", "-o", tmp_path / "out.csv")


def test_a_device_is_never_a_target(good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    link = tmp_path / "full.csv"
    link.symlink_to("/dev/full")
    assert "device" in refused(capsys, tmp_path, good, "-o", link)
    assert Path("/dev/full").is_char_device()


@pytest.mark.slow
@pytest.mark.parametrize("extension", ["csv", "parquet"])
def test_a_full_disk_leaves_nothing_behind(extension: str, tmp_path: Path) -> None:
    source, folder = tmp_path / "in.csv", tmp_path / "out"
    folder.mkdir()
    numbers = [(i * 7919) % 10007 / 7 for i in range(4000)]
    pl.DataFrame({"a": numbers, "b": numbers[::-1], "c": [x * x for x in numbers]}).write_csv(source)

    def small_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "microveil",
            "protect",
            source,
            "-o",
            folder / f"o.{extension}",
            "--report",
            folder / "r.html",
        ],
        capture_output=True,
        text=True,
        preexec_fn=small_disk,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert result.returncode == 2
    assert result.stderr.startswith("microveil: ")
    assert result.stderr.count("\n") == 1
    assert "space" in result.stderr
    assert list(folder.iterdir()) == [], "the report written before is taken back"


def test_an_existing_output_survives_a_failure(good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.csv"
    out.write_text("precious")
    assert "components: 9 asked" in refused(
        capsys, tmp_path, good, "-o", out, "--overwrite", *PCA_OF_NUMBERS, "--set", "components=9"
    )
    assert out.read_text() == "precious"


@pytest.mark.quick("sync-True", "report-False")
@pytest.mark.parametrize("existing", [True, False])
@pytest.mark.parametrize("fault", ["polars", "report", "sync", "stopped"])
def test_a_failing_run_leaves_reports_and_recipes_as_they_were(
    existing: bool,
    fault: str,
    good: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("out.csv", "internal.html", "public.html", "recipe.toml")
    targets = [tmp_path / "out" / name for name in names]
    targets[0].parent.mkdir()
    for path in targets if existing else []:
        path.write_bytes(b"old\0" + path.name.encode())

    def fail(*_: object, **__: object) -> None:
        raise {
            "polars": pl.exceptions.ComputeError(f"cannot convert {SENTINEL}"),
            "report": OSError(errno.ENOSPC, "No space left on device"),
            "sync": OSError(errno.EDQUOT, "Disk quota exceeded"),
            "stopped": Stopped(),
        }[fault]

    place = {"report": "pathlib.Path.write_text", "sync": "microveil.storage.atomic._sync"}
    monkeypatch.setattr(place.get(fault, "polars.DataFrame.write_csv"), fail)
    code, out, err = run(
        capsys, "protect", good, "-o", targets[0], "--report", targets[1], "--public-report", targets[2],
        "--save-recipe", targets[3], "--set", "perturb=swap", *(["--overwrite"] * existing),
    )  # fmt: skip
    assert code == (130 if fault == "stopped" else 2)
    assert out == "" or out.startswith("Found in "), "what was found is shown when the work begins, and nothing else"
    assert err.count("\n") == 1
    assert ".tmp" not in err, "the user knows no temporary file"
    if fault == "report":
        assert f"'{targets[1]}' cannot be written (no space left on device); free some space" in err
    left = {path.name: path.read_bytes() for path in targets[0].parent.iterdir()}
    assert left == ({name: b"old\0" + name.encode() for name in names} if existing else {})


def test_lists_and_bytes_are_refused_for_csv_before_the_long_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "in.parquet"
    pl.DataFrame({"a": [1.0, 2, 4], "b": [3.0, 1, 9], "tags": [[1], [2], [3]]}).write_parquet(source)
    monkeypatch.setattr(
        "microveil.workflow.protecting.protect_table", lambda *_, **__: pytest.fail("the long work was begun")
    )
    assert "cannot hold column 'tags'" in refused(capsys, tmp_path, source, "-o", tmp_path / "out.csv")


def test_an_unforeseen_fault_shows_no_value(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError(f"could not handle {SENTINEL}")

    monkeypatch.setattr("microveil.workflow.protecting.protect_table", broken)
    code, out, err = run(capsys, "protect", good, "-o", tmp_path / "out.csv")
    assert code == 3
    assert out == ""
    assert "RuntimeError" in err
    assert SENTINEL not in err
    assert not (tmp_path / "out.csv").exists()


CELLS = st.one_of(
    st.sampled_from(["", "NA", "inf", "-inf", "nan", "x", SENTINEL, "0", "-9", "1e308", "1e-308", '"q"', "007", " 5 "]),
    st.integers(-99, 99).map(str),
)


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(rows=st.integers(1, 4).flatmap(lambda m: st.lists(st.lists(CELLS, min_size=m, max_size=m), max_size=8)))
def test_whatever_is_in_the_file_it_is_protected_or_refused_in_one_line(
    rows: list[list[str]], tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    source, out = folder / "in.csv", folder / "out.csv"
    width = len(rows[0]) if rows else 2
    source.write_text("\n".join(",".join(row) for row in [[f"c{j}" for j in range(width)], *rows]) + "\n")
    code, _, err = run(capsys, "protect", source, "-o", out, "--seed", 1, "--quiet")
    assert code in (0, 2), err
    assert out.exists() == (code == 0)
    assert SENTINEL not in err
    assert err.count("\n") == (0 if code == 0 else 1)
