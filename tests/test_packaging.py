"""What is built of the repository: a wheel, a recipe for conda-forge, an image; and the first hour with it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tomllib
from itertools import takewhile
from pathlib import Path

import jinja2
import messy_workbook
import pytest
import yaml
from fixtures.make_tables import TABLES

from microveil.core.version import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def instructions() -> list[tuple[str, str]]:
    """Of the Dockerfile, each with what it says."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    return [(line.split()[0], line.partition(" ")[2]) for line in lines if line and not line.startswith("#")]


def test_the_recipe_asks_for_what_the_package_asks_for() -> None:
    text = (ROOT / "recipe" / "meta.yaml").read_text(encoding="utf-8")
    recipe = yaml.safe_load(jinja2.Template(text, undefined=jinja2.StrictUndefined).render(PYTHON="python"))
    assert recipe["package"] == {"name": PROJECT["name"], "version": __version__}
    python, *needed = recipe["requirements"]["run"]
    assert python == f"python {PROJECT['requires-python']}"
    assert [line.replace(" ", "") for line in needed] == PROJECT["dependencies"]
    assert recipe["build"]["entry_points"] == [f"microveil = {PROJECT['scripts']['microveil']}"]
    assert recipe["about"]["summary"] == PROJECT["description"]
    assert (ROOT / recipe["about"]["license_file"]).exists()


def test_the_image_is_made_without_a_network_for_a_python_that_is_supported() -> None:
    said = instructions()
    (image,) = [words for name, words in said if name == "FROM"]
    version = re.fullmatch(r"python:(\d+\.\d+)-slim", image)
    assert version is not None
    assert f"Programming Language :: Python :: {version[1]}" in PROJECT["classifiers"]
    installs = [words for name, words in said if name == "RUN" and " pip " in words]
    assert installs
    assert all("--no-index --find-links /wheels" in words for words in installs)
    assert ("USER", "user") in said, "nothing runs as root"
    assert (ROOT / ".dockerignore").read_text(encoding="utf-8").split() == ["*", "!wheels"], "no data go into it"


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program as the README installs it, from a wheel, as in the Dockerfile; other packages are those at hand."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    isolated = ["--no-deps", "--no-build-isolation"]
    quiet = {"check": True, "cwd": ROOT, "capture_output": True}
    subprocess.run([*pip, "wheel", *isolated, "--wheel-dir", str(folder / "wheels"), "."], **quiet)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "env")], **quiet)
    paths = {"base": str(folder / "env"), "platbase": str(folder / "env")}
    scheme = "venv" if "venv" in sysconfig.get_scheme_names() else None
    site = Path(sysconfig.get_path("purelib", scheme or "posix_prefix", paths))
    python = Path(sysconfig.get_path("scripts", scheme or "posix_prefix", paths)) / Path(sys.executable).name
    (install,) = [words for name, words in instructions() if name == "RUN" and " pip " in words]
    words = install.replace("/wheels", str(folder / "wheels")).replace("'", "").split()
    assert words[:4] == ["python", "-m", "pip", "install"]
    subprocess.run([*pip, "--python", str(python), *words[3:], "--no-deps"], **quiet)
    (site / "at_hand.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python.parent / "microveil"


@pytest.mark.slow
def test_the_program_of_the_wheel_completes_what_is_typed(installed: Path, tmp_path: Path) -> None:
    def told(*words: str) -> list[str]:
        asked = {"_MICROVEIL_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words)}
        asked["COMP_CWORD"] = str(len(words) - 1)
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run([installed], env=env | asked, capture_output=True, text=True, check=False, cwd=tmp_path)
        return done.stdout.split()

    assert told("microveil", "prot") == ["protect"]
    assert told("microveil", "protect", "--public-r") == ["--public-report"]
    assert told("microveil", "table", "au") == ["audit"]


SECONDS = 90
"""What no step may take on two cores; counted in CPU seconds of both, as other tests run at the same time."""


class Hour:
    """An empty folder, and the installed program in it."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.program, self.folder = program, folder

    def step(self, words: str) -> str:
        env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "COLUMNS")}
        before = sum(os.times()[2:4])
        done = subprocess.run(
            [self.program, *shlex.split(words)[1:]],
            env=env,
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
        )
        assert done.returncode == 0, f"{words}: {done.stderr}"
        assert "internal fault" not in done.stderr
        assert sum(os.times()[2:4]) - before < 2 * SECONDS, words
        return done.stdout + done.stderr


def commands() -> list[str]:
    """Those of the README's first hour, in their order."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("The first hour")[2].split("```")[1]
    return [line.strip() for line in text.replace("\\\n", " ").splitlines() if line.startswith("microveil ")]


def a_policy(told: str) -> str:
    """What the help shows of one."""
    lines = told[told.index("[policy]") :].splitlines()
    return "\n".join(takewhile(bool, (line.strip() for line in lines)))


@pytest.mark.slow
def test_the_first_hour_is_what_the_readme_says(installed: Path, tmp_path: Path) -> None:
    hour = Hour(installed, tmp_path)
    jobs = {line.split()[1]: line.partition("#")[0] for line in commands()}
    assert list(jobs) == ["example", "describe", "protect", "assess", "recommend", "run"]
    (tmp_path / "policy.toml").write_text(a_policy(hour.step("microveil assess --help")), encoding="utf-8")
    for line in commands():
        line = line.partition("#")[0]
        told = hour.step(line + (" --time 15 --json --quiet" if " recommend " in line else ""))
        if " recommend " in line:
            advice = json.loads(told)
            assert advice["method"] == "veil"
            assert advice["parameters"]["protected_weight"] == "weight"
    for page in ("internal.html", "public.html"):
        assert "<svg" in (tmp_path / page).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hospital_visits.csv", "household_survey.csv", "workbook.xlsx"])
def test_the_first_hour_with_files_of_ones_own(name: str, installed: Path, tmp_path: Path) -> None:
    hour, kind = Hour(installed, tmp_path), Path(name).suffix
    if kind == ".csv":
        TABLES[Path(name).stem]().to_csv(tmp_path / name, index=False)
    else:
        messy_workbook.write(tmp_path / name)
    hour.step(f"microveil describe {name}")
    told = hour.step(
        f"microveil protect {name} -o out{kind} --report r.html --public-report p.html --save-recipe r.toml"
    )
    assert "released as they are" in told or kind == ".xlsx"
    hour.step(f"microveil assess {name} out{kind} --measures dbrl,pil --report a.html")
    said = hour.step(f"microveil recommend {name} --methods veil --time 5 --json --quiet")
    advice = json.JSONDecoder().raw_decode(said)[0]  # what follows it are warnings, on standard error
    assert advice["seconds"] < SECONDS
    hour.step("microveil run r.toml --overwrite --quiet")
    assert all((tmp_path / page).stat().st_size > 1_000 for page in ("r.html", "p.html", "a.html"))
