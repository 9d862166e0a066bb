"""What a newcomer types first, and what works without the extras."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from microveil.catalogue import example_file
from microveil.cli.endings import as_typed
from microveil.core.late import EXTRAS

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

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocked())
import microveil as mv
from microveil.errors import MicroveilError
import polars as pl

data = pl.read_csv(mv.example_file()).head(100).select("employees", "wages", "materials")
data.write_csv("firms.csv")
mv.protect(data, "pca", seed=1)
mv.protect_file("firms.csv", "released.csv", method="pca", seed=1, report="report.html")
assert "microveil[report]" in open("report.html", encoding="utf-8").read()
for options in (dict(public="~ employees"), ):
    try:
        mv.protect(data, "ipso", **options)
    except MicroveilError as error:
        print(error)
"""


def test_the_core_works_where_no_extra_is_installed(tmp_path: Path) -> None:
    blocked = {"altair", "vl_convert", "formulaic", "openpyxl", "defusedxml", "pyreadstat", "duckdb", "pyspark"}
    blocked |= {"adbc_driver_postgresql", "highspy", "pandas"}
    script = WITHOUT.replace("{blocked}", repr(blocked))
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "pip install 'microveil[formula]'" in done.stdout


def test_advice_is_in_the_words_of_the_command_line() -> None:
    assert as_typed("codes (rules=None if it is a value)") == "codes (--rules none if it is a value)"
    assert as_typed("use rules='none' (--rules none)") == "use --rules none"
    assert "overwrite=True" not in as_typed("say --overwrite (overwrite=True)")


@pytest.mark.slow
def test_the_first_hour(tmp_path: Path) -> None:
    """Each step as the README has it, in an empty folder; none takes 90 s on two cores that are free."""
    run(tmp_path, "example", "firms.csv")
    run(tmp_path, "describe", "firms.csv", "-o", "dictionary.toml")
    protect = ["protect", "firms.csv", "-o", "released.csv", "--protected-weight", "weight"]
    run(tmp_path, *protect, "--report", "internal.html", "--public-report", "public.html", "--save-recipe", "r.toml")
    run(tmp_path, "assess", "firms.csv", "released.csv", "--measures", "dbrl,pil", "--report", "assessed.html")
    advice = json.loads(run(tmp_path, "recommend", "firms.csv", "--weight", "weight", "--time", "20", "--json",
                            "--quiet"))  # fmt: skip
    assert advice["method"] == "veil"
    assert advice["parameters"]["protected_weight"] == "weight"
    run(tmp_path, "run", "r.toml", "--overwrite", "--quiet")
    (tmp_path / "policy.toml").write_text(
        '[policy]\nname = "research"\nversion = 1\n[limits]\ndbrl = {at_most = 0.05}\n', encoding="utf-8"
    )
    run(tmp_path, "assess", "firms.csv", "released.csv", "--measures", "dbrl", "--policy", "policy.toml")
    for page in ("internal.html", "public.html", "assessed.html"):
        assert (tmp_path / page).stat().st_size > 1_000
