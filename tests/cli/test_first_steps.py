"""What a newcomer types first, and what works without the extras."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import polars as pl
import pytest

from microveil.catalogue import example_file
from microveil.core.errors import FileError, as_typed
from microveil.core.late import EXTRAS
from microveil.io.files import csv
from microveil.io.tables import read_table

MICROVEIL = [sys.executable, "-m", "microveil"]


def run(folder: Path, *words: str, code: int = 0) -> str:
    done = subprocess.run([*MICROVEIL, *words], check=False, capture_output=True, text=True, cwd=folder, timeout=240)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_the_example_is_written_once_and_not_over_anything(tmp_path: Path) -> None:
    assert "Wrote firms.csv" in run(tmp_path, "example", "firms.csv")
    assert (tmp_path / "firms.csv").read_bytes() == example_file().read_bytes()
    assert "exists already" in run(tmp_path, "example", "firms.csv", code=2)
    assert "no .csv file" in run(tmp_path, "example", "firms.xlsx", code=2)


def test_the_doctor_tells_versions_extras_and_places(tmp_path: Path) -> None:
    found = json.loads(run(tmp_path, "doctor", "--json"))
    assert set(found["extras"]) == set(EXTRAS)
    assert found["cores"] >= 1


def test_extras_are_those_of_the_package() -> None:
    project = Path(__file__).parents[2] / "pyproject.toml"
    declared = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for extra, names in EXTRAS.items():
        packages = {line.partition(">")[0].partition("[")[0] for line in declared[extra]} - {"microveil"}
        assert packages == set(names)
    everything = declared["all"][0].removeprefix("microveil[").removesuffix("]").split(",")
    assert set(everything) >= set(EXTRAS)


WITHOUT = """
import sys

sys.modules.update(dict.fromkeys({blocked}))
import microveil as mv
from microveil.errors import MicroveilError
import polars as pl

data = pl.read_csv(mv.example_file()).head(100).select("employees", "wages", "materials")
data.write_csv("firms.csv")
mv.protect(data, "pca", seed=1)
mv.protect_file("firms.csv", "released.csv", method="pca", seed=1, report="report.html")
assert "microveil[report]" in open("report.html", encoding="utf-8").read()
data.write_parquet("firms.parquet")
for work in (
    lambda: mv.protect(data, "ipso", public="~ employees"),
    lambda: mv.protect_file("firms.parquet", "out.csv", method="pca"),
    lambda: mv.protect_file("firms.csv", "out.csv", method="pca", engine="stream"),
):
    try:
        work()
    except MicroveilError as error:
        print(error)
"""


def test_the_core_works_where_no_extra_is_installed(tmp_path: Path) -> None:
    blocked = {"altair", "vl_convert", "formulaic", "openpyxl", "defusedxml", "pyreadstat", "duckdb", "pyspark"}
    blocked |= {"adbc_driver_postgresql", "highspy", "pandas", "pyarrow", "opendp", "starlette", "uvicorn"}
    script = WITHOUT.replace("{blocked}", repr(blocked))
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "pip install 'microveil[formula]'" in done.stdout
    assert done.stdout.count("microveil[arrow]") == 2


PANDAS_ALONE = """
import sys
sys.modules["pyarrow"] = None
import pandas as pd
import microveil as mv
data = pd.read_csv("firms.csv", parse_dates=["day"])
release = mv.protect(data, seed=1)
assert (release.data.dtypes == data.dtypes).all(), release.data.dtypes
assert set(release.data["region"]) <= set(data["region"])
assert release.data["day"].dt.normalize().equals(release.data["day"])
release.write("released.csv")
"""


def test_pandas_does_without_arrow_and_a_file_is_read_alike(tmp_path: Path) -> None:
    days = [f"2020-{1 + n % 12:02d}-{1 + n % 28:02d}" for n in range(200)]
    table = pl.read_csv(example_file()).head(200).select("region", "employees", "wages")
    table = table.with_columns(day=pl.Series(days), said=pl.lit('a, "quoted"\nline'))
    table.drop("said").write_csv(tmp_path / "firms.csv")
    done = subprocess.run(
        [sys.executable, "-c", PANDAS_ALONE], check=False, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert pl.read_csv(tmp_path / "released.csv").shape == (200, 4)
    table.write_csv(tmp_path / "quoted.csv")
    with_arrow = read_table(str(tmp_path / "quoted.csv"))[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv, "has_arrow", lambda: False)
        assert read_table(str(tmp_path / "quoted.csv"))[0].equals(with_arrow)
        for broken in ("a,b\n1,2\n3\n", 'a,b\n1,"2\n3,4\n'):
            (tmp_path / "broken.csv").write_text(broken, encoding="utf-8")
            with pytest.raises(FileError, match="line"):
                read_table(str(tmp_path / "broken.csv"))


def test_advice_is_in_the_words_of_the_command_line() -> None:
    assert as_typed("codes (rules=None if it is a value)") == "codes (--rules none if it is a value)"
    assert as_typed("use rules='none' (--rules none)") == "use --rules none"
    assert as_typed("(if it is a value: rules=None)") == "(if it is a value: --rules none)"
    assert as_typed("as they are with keep, or out with drop") == "as they are with --keep, or out with --drop"
    assert "overwrite=True" not in as_typed("say --overwrite (overwrite=True)")
