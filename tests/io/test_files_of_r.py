"""Files that R wrote (haven, foreign, write.csv): read as R means them, and given back as R would read them again."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_iris

import microveil as mv
from microveil.io.tables import read_table, write_table

FOLDER = Path(__file__).parent.parent / "golden" / "r"  # made by make.R, which lies there too
FILES = sorted(
    path.name for path in FOLDER.iterdir() if path.suffix in (".sav", ".zsav", ".dta", ".xpt", ".csv", ".tsv")
)
TABLES = [name for name in FILES if name != "values.csv"]


def values() -> pl.DataFrame:
    """The numbers as R printed them, to the last digit."""
    return pl.read_csv(FOLDER / "values.csv", null_values="NA")


@pytest.mark.parametrize("name", TABLES)
def test_the_numbers_and_labels_are_those_that_r_has(name: str) -> None:
    frame, _ = read_table(FOLDER / name)
    for column in ("size", "income", "tax"):
        assert frame[column].cast(pl.Float64).to_list() == values()[column].cast(pl.Float64).to_list()
    if frame["region"].dtype != pl.Float64:  # transport files have no labels
        assert frame["region"].cast(pl.String).to_list() == values()["region"].to_list()


@pytest.mark.parametrize("name", [name for name in TABLES if name.endswith((".csv", ".tsv"))])
def test_text_comes_back_byte_for_byte(name: str, tmp_path: Path) -> None:
    frame, manner = read_table(FOLDER / name)
    write_table(frame, tmp_path / name, manner)
    assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes()


@pytest.mark.parametrize("name", [name for name in TABLES if not name.endswith((".csv", ".tsv"))])
def test_what_is_written_reads_the_same_again(name: str, tmp_path: Path) -> None:
    frame, manner = read_table(FOLDER / name)
    write_table(frame, tmp_path / name, manner)
    again, told = read_table(tmp_path / name)
    assert again.equals(frame)
    assert told.description == manner.description


@pytest.mark.parametrize("name", TABLES)
def test_only_what_is_protected_changes(name: str, tmp_path: Path) -> None:
    frame, manner = read_table(FOLDER / name)
    release = mv.protect(frame, "ipso", confidential=["income", "tax"], keep="rest", seed=1)
    write_table(release.data, tmp_path / name, manner)
    again, _ = read_table(tmp_path / name)
    assert again.drop("income", "tax").equals(frame.drop("income", "tax"))
    assert again["income"].is_null().to_list() == frame["income"].is_null().to_list()
    assert not np.isclose(again["tax"].drop_nulls(), frame["tax"].drop_nulls()).any()


def test_a_file_of_sas_itself(tmp_path: Path) -> None:
    """SAS 9.4 wrote it; it comes with haven, and its data are known to everyone."""
    source, target = tmp_path / "iris.sas7bdat", tmp_path / "released.xpt"
    source.write_bytes(gzip.decompress((FOLDER / "iris.sas7bdat.gz").read_bytes()))
    frame, manner = read_table(source)
    known = load_iris()
    assert frame.columns == ["Sepal_Length", "Sepal_Width", "Petal_Length", "Petal_Width", "Species"]
    assert frame.drop("Species").to_numpy().tolist() == known.data.tolist()
    assert frame["Species"].to_list() == [known.target_names[kind][:6] for kind in known.target]  # as haven reads it
    write_table(frame, target, manner)
    assert read_table(target)[0].equals(frame)


COMPARE = """
library(haven)
for (name in commandArgs(TRUE)[-1]) {
  read <- switch(tools::file_ext(name), dta = read_dta, xpt = read_xpt, function(f) read_sav(f, user_na = TRUE))
  one <- read(file.path("FOLDER", name)); other <- read(file.path(commandArgs(TRUE)[1], name))
  said <- all.equal(one, other)
  if (!isTRUE(said)) { cat(name, said, sep = "\\n"); quit(status = 1) }
}
"""


def test_r_reads_the_same_from_what_we_wrote(tmp_path: Path) -> None:
    if shutil.which("Rscript") is None:
        pytest.skip("needs R with haven")
    if subprocess.run(["Rscript", "-e", "library(haven)"], capture_output=True, check=False).returncode:
        pytest.skip("needs R's haven")
    names = [name for name in TABLES if not name.endswith((".csv", ".tsv"))]
    for name in names:
        frame, manner = read_table(FOLDER / name)
        write_table(frame, tmp_path / name, manner)
    script = tmp_path / "compare.R"
    script.write_text(COMPARE.replace("FOLDER", str(FOLDER)))
    found = subprocess.run(["Rscript", script, tmp_path, *names], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
