"""Every command reads through one door, tells what it found, and gives back a table of the same kind."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import numpy as np
import openpyxl
import polars as pl
import pyreadstat
import pytest
from command import run

PASSWORD = "Tr0ub4dor"


def firms() -> pl.DataFrame:
    rng = np.random.default_rng(11)
    table = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 3)) * 100 + 1000
    return pl.DataFrame(table.round(2), ["turnover", "wages", "costs"]).with_columns(
        name=pl.Series([f"Größe {n}" for n in range(60)])
    )


@pytest.fixture
def german(tmp_path: Path) -> Path:
    path = tmp_path / "firms.csv"
    text = firms().write_csv(separator=";").replace(".", ",")
    path.write_bytes(text.encode("cp1252"))
    return path


def test_a_file_of_another_country_is_told_and_comes_back_so(
    german: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "released.csv"
    code, _, err = run(capsys, "protect", german, "-o", out, "--method", "pca", "--keep", "name")
    assert (code, err) == (0, f"microveil: {german} read as: semicolon, decimal comma, cp1252\n")
    lines = out.read_bytes().decode("cp1252").splitlines()
    assert lines[0] == "turnover;wages;costs;name"
    assert len(lines) == 61
    cells = [line.split(";") for line in lines[1:]]
    assert [row[3] for row in cells] == firms()["name"].to_list()
    assert all("," in row[0] and "." not in row[0] for row in cells)
    assert np.isclose(np.mean([float(row[0].replace(",", ".")) for row in cells]), firms()["turnover"].mean())
    code, printed, err = run(
        capsys, "protect", german, "-o", out, "--overwrite", "--method", "pca", "--keep", "name", "--json", "--quiet"
    )
    assert json.loads(printed)["read_as"] == "semicolon, decimal comma, cp1252"
    assert err == ""
    for command in (
        ["describe", german, "--json"],
        ["assess", german, out, "--measures", "pil", "--json"],
        ["compare", german, "--methods", "pca", "--repeats", 1, "--json"],
    ):
        code, printed, err = run(capsys, *command)
        assert code == 0
        assert json.loads(printed)
        assert "read as: semicolon, decimal comma, cp1252" in err


def test_what_the_user_says_goes_before_what_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "in.csv"
    source.write_text('x,y\n"1,234","2,345"\n"3,456","5,678"\n"7,891","1,111"\n')
    code, _, err = run(capsys, "describe", source)
    assert code == 2
    assert "--decimal comma" in err
    code, printed, _ = run(capsys, "describe", source, "--decimal", "comma", "--json")
    assert code == 0
    assert json.loads(printed)["rows"] == 3
    code, _, err = run(capsys, "describe", source, "--sheet", "A")
    assert (code, "--sheet: means nothing" in err) == (2, True)


def test_labels_and_sheets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = firms().with_columns(region=pl.Series([1.0, 2.0] * 30))
    pyreadstat.write_sav(frame, tmp_path / "in.sav", variable_value_labels={"region": {1.0: "north", 2.0: "south"}})
    for options, same in ((["--method", "pca", "--keep", "region"], True), (["--overwrite"], False)):
        code, _, err = run(capsys, "protect", tmp_path / "in.sav", "-o", tmp_path / "out.sav", *options)
        assert code == 0
        assert "labelled, so taken as categories: region" in err
        after, meta = pyreadstat.read_sav(tmp_path / "out.sav", output_format="polars")
        assert (after["region"].to_list() == frame["region"].to_list()) is same
        assert sorted(after["region"].to_list()) == sorted(frame["region"].to_list())
        assert meta.variable_value_labels == {"region": {1.0: "north", 2.0: "south"}}
        assert "name" not in after.columns, "it names the records"
    frame.write_parquet(tmp_path / "in.parquet")
    target = f"{tmp_path / 'out.xlsx'}#Released"
    code, _, _ = run(capsys, "protect", tmp_path / "in.parquet", "-o", target, "--method", "pca", "--quiet")
    assert code == 0
    assert openpyxl.load_workbook(tmp_path / "out.xlsx").sheetnames == ["Released"]


def test_from_table_to_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with sqlite3.connect(tmp_path / "firms.db") as connection:
        connection.execute("CREATE TABLE firms (turnover REAL, wages REAL, costs REAL, name TEXT)")
        connection.executemany("INSERT INTO firms VALUES (?, ?, ?, ?)", firms().rows())
    connection.close()
    address = f"sqlite:///{tmp_path / 'firms.db'}"
    report, recipe = tmp_path / "report.html", tmp_path / "recipe.toml"
    options = ["--method", "pca", "--keep", "name", "--quiet"]
    extras = ["--report", report, "--save-recipe", recipe]
    target = f"{address}#released"
    assert run(capsys, "protect", f"{address}#firms", "-o", target, *options, *extras)[0] == 0
    assert report.exists()
    assert "sqlite:///firms.db#firms" in recipe.read_text(), "told from where the recipe is"
    before = _rows(tmp_path)
    assert len(before) == 60
    code, _, err = run(capsys, "protect", f"{address}#firms", "-o", target, *options)
    assert (code, "exists already" in err) == (2, True)
    assert _rows(tmp_path) == before
    assert run(capsys, "protect", f"{address}#firms", "-o", target, *options, "--overwrite")[0] == 0
    assert _rows(tmp_path) != before
    assert [row[3] for row in _rows(tmp_path)] == firms()["name"].to_list()
    code, printed, _ = run(capsys, "assess", f"{address}#firms", target, "--measures", "pil", "--json")
    assert code == 0
    assert "pil" in json.loads(printed)["measures"]
    code, printed, _ = run(capsys, "describe", address, "--query", "SELECT wages, costs FROM firms", "--json")
    assert (code, json.loads(printed)["rows"]) == (0, 60)
    code, _, err = run(capsys, "protect", f"{address}#firms", "-o", f"{address}#firms", *options, "--replace")
    assert (code, "one of the inputs" in err) == (2, True)


def _rows(folder: Path) -> list[tuple[object, ...]]:
    with sqlite3.connect(folder / "firms.db") as connection:
        found = connection.execute("SELECT * FROM released").fetchall()
    connection.close()
    return found


def test_a_failing_report_leaves_no_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    firms().write_csv(tmp_path / "in.csv")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("microveil.report.reporter.Reporter.__call__", fail)
    target = f"sqlite:///{tmp_path / 'new.db'}#released"
    options = ["--method", "pca", "--report", tmp_path / "report.html"]
    code, _, err = run(capsys, "protect", tmp_path / "in.csv", "-o", target, *options)
    assert code == 2
    assert "no space left" in err
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_a_password_stays_where_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    address = f"postgresql://veil:{PASSWORD}@/survey?host=/nowhere#firms"
    firms().write_csv(tmp_path / "in.csv")
    for command in (
        ["describe", address],
        ["protect", tmp_path / "in.csv", "-o", address],
        ["protect", address, "-o", tmp_path / "out.csv", "--save-recipe", tmp_path / "recipe.toml"],
    ):
        code, out, err = run(capsys, *command)
        assert code == 2
        assert "cannot be read" in err
        assert PASSWORD not in out + err
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]
