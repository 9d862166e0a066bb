"""The tool itself tells nothing: values planted in every column are looked for in everything it writes.

Over runs that succeed and runs that fail, with --json and without: standard output and error, reports, recipes, the
folder for temporary files, caches. And the source has nothing that could run what it reads.
"""

from __future__ import annotations

import ast
import json
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest

import microveil
from microveil.cli.main import main

SOURCE = Path(microveil.__file__).parent

# Each column has a value of one record that stands nowhere else, in digits that no figure has by accident.
PLANTED = {
    "wages": "918273.64",
    "rent": "5647382.91",
    "age": "77616161",
    "town": "Zyxwvutown",
    "person_id": "4815162342",
    "email": "quokka@sentinel.example",
    "blank": "3141592.65",
    "coded": "2718281.82",
    "age_less": "-6622607015",
    "letter": "a",
    "coin": "h",
}


def planted_file(folder: Path, rows: int = 120) -> Path:
    """A file in which one record has nothing but planted values."""
    rng = np.random.default_rng(11)
    lines = [",".join(PLANTED)]
    for i in range(rows):
        wages, rent = rng.lognormal(7, 1), rng.lognormal(6, 1)
        blank, coded = (
            ("" if i % 5 == 0 else f"{rng.gamma(2, 9):.2f}"),
            ("-9" if i % 6 == 0 else f"{rng.gamma(2, 9):.2f}"),
        )
        cells = [f"{wages:.2f}", f"{rent:.2f}", str(rng.integers(18, 90)), "abc"[i % 3], str(i * 7919 % 100_003)]
        lines.append(",".join([*cells, f"p{i}@example.org", blank, coded, str(-i), "abc"[i % 3], "ht"[i % 2]]))
    lines[rows // 2] = ",".join(PLANTED.values())
    path = folder / "in.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def forms(value: str) -> set[str]:
    """A value as it is, rounded, without its decimals, and with signs of thousands."""
    if not value.replace(".", "").isdigit():
        return {value}
    number = float(value)
    return {value, f"{number:g}", f"{number:.6g}", f"{number:,.2f}", repr(number), str(int(number))} - {f"{number:.0e}"}


GIVEN = ("in.csv", "in.db", "in.duckdb")
SECRETS = {form for value in PLANTED.values() for form in forms(value) if len(form) >= 6}


def run(folder: Path, *arguments: object, compiles: bool = True) -> subprocess.CompletedProcess[str]:
    """The program in a process of its own, with its own folders for temporary files, caches and a home.

    Unless it `compiles` anew, which takes long, it has the loops that are compiled already.
    """
    names = ("TMPDIR", "XDG_CACHE_HOME", "HOME", *(["NUMBA_CACHE_DIR"] if compiles else []))
    private = {name: str(folder / name.lower()) for name in names}
    for place in private.values():
        Path(place).mkdir(exist_ok=True)
    command = [sys.executable, "-m", "microveil", *map(str, arguments)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, **private, "PYTHONDONTWRITEBYTECODE": "1"},
    )


def leaks(texts: Sequence[str]) -> set[str]:
    return {secret for secret in SECRETS for text in texts if secret in text}


def written(folder: Path, released: Sequence[str]) -> list[str]:
    """The names and contents of all files but the input and the released tables."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in (*GIVEN, *released)]
    return [str(path) + path.read_bytes().decode("latin-1") for path in files]


SUCCESS = {
    "describe": ["describe", "in.csv", "-o", "d.toml"],
    "describe as json": ["describe", "in.csv", "-o", "d.json", "--json"],
    "protect": ["protect", "in.csv", "-o", "out.csv", "--report", "r.html", "--public-report", "p.html",
                "--save-recipe", "recipe.toml", "--seed", "5"],
    "protect as json": ["protect", "in.csv", "-o", "out.csv", "--json", "--method", "pca", "--include-seed",
                        "--save-recipe", "recipe.toml", "--shuffle-rows", "--keep", "town,letter,coin"],
    "assess": ["assess", "in.csv", "in.csv", "--measures", "dbrl,pil"],
    "assess as json": ["assess", "in.csv", "in.csv", "--measures", "dbrl,pil", "--json"],
    "protect in blocks": ["protect", "in.csv", "-o", "out.csv", "--engine", "stream", "--method", "ipso",
                          "--confidential", "wages,rent", "--report", "r.html", "--public-report", "p.html"],
    "protect a database": ["protect", "sqlite:///in.db#people", "-o", "sqlite:///out.db#people",
                           "--confidential", "wages,rent", "--report", "r.html"],
    "compare": ["compare", "in.csv", "--methods", "noise, rank_swap", "--repeats", "1", "--measures", "dbrl,pil",
                "--confidential", "wages,rent", "--report", "s.html"],
    "suppress a table": ["table", "suppress", "in.csv", "-o", "out.csv", "--dimensions", "letter,coin",
                         "--value", "wages", "--contributors", "person_id", "--p-percent", "10"],
    "audit a table as json": ["table", "audit", "in.csv", "--dimensions", "letter,coin", "--value", "wages",
                              "--contributors", "person_id", "--p-percent", "10", "--json"],
}  # fmt: skip

COMPILING = ("protect", "assess", "suppress a table")
"""Between them they compile the loops that the others have, too."""

PROTECT = ["protect", "in.csv", "-o", "out.csv"]
TABLE = ["table", "suppress", "in.csv", "-o", "out.csv"]
FAILURE = {
    "an unknown column": [*PROTECT, "--confidential", "wages,nix"],
    "labels for a method of numbers": [*PROTECT, "--method", "pca", "--confidential", "wages,town"],
    "text as a number": [*PROTECT, "--kind", "town=amount"],
    "text as a date": [*PROTECT, "--kind", "town=date"],
    "text as weight": [*PROTECT, "--weight", "town"],
    "a weight below zero": [*PROTECT, "--weight", "coded", "--confidential", "wages,rent"],
    "too many labels": [*PROTECT, "--public", "email", "--method", "ipso", "--engine", "stream"],
    "holes in a public column": [*PROTECT, "--public", "blank", "--confidential", "wages,rent"],
    "an unknown method": [*PROTECT, "--method", "pcaa"],
    "a parameter out of range": [*PROTECT, "--method", "pca", "--set", "components=99"],
    "rules that are the data": [*PROTECT, "--rules", "in.csv"],
    "rules that do not hold": [*PROTECT, "--rules", "rules.toml"],
    "a recipe that is the data": ["run", "in.csv"],
    "a policy that is the data": [*PROTECT, "--policy", "in.csv"],
    "an output that is the input": ["protect", "in.csv", "-o", "in.csv"],
    "a list of columns that is a record": [*PROTECT, "--drop", "nobody"],
    "an unknown measure": ["assess", "in.csv", "in.csv", "--measures", "nix"],
    "blocks of another kind": [*PROTECT, "--engine", "stream", "--weight", "town"],
    "a table of texts": [*TABLE, "--dimensions", "town", "--value", "email", "--min-count", "4"],
    "a table with gaps": [*TABLE, "--dimensions", "town", "--value", "blank", "--min-count", "4"],
    "a table below zero": [*TABLE, "--dimensions", "town", "--value", "age_less", "--min-count", "4"],
    "cells that occur twice": [*TABLE, "--dimensions", "town", "--value", "age", "--min-count", "4"],
    "codes that are not known": [*TABLE, "--dimensions", "town", "--min-count", "4", "--hierarchies", "codes.toml"],
    "columns that do not nest": [*TABLE, "--dimensions", "town", "--min-count", "4", "--hierarchies", "levels.toml"],
    "a query that casts": ["protect", "duckdb:///in.duckdb", "-o", "out.csv", "--query",
                           "SELECT CAST(town AS INTEGER) AS x, wages FROM people"],
    "a query that writes": ["describe", "sqlite:///in.db", "--query", "VACUUM INTO 'copy.db'"],
    "a misspelt query": ["describe", "sqlite:///in.db", "--query", "SELECT wagse FROM people"],
    "a policy that is not met": [*PROTECT, "--policy", "policy.toml", "--report", "r.html"],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    planted_file(tmp_path)
    frame = pl.read_csv(tmp_path / "in.csv")
    with closing(sqlite3.connect(tmp_path / "in.db")) as database, database:
        database.execute("CREATE TABLE people (wages REAL, rent REAL, town TEXT, email TEXT)")
        rows = frame.select("wages", "rent", "town", "email").rows()
        database.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", rows)
    with duckdb.connect(str(tmp_path / "in.duckdb")) as other:
        other.execute("CREATE TABLE people (wages DOUBLE, town TEXT)")
        other.executemany("INSERT INTO people VALUES (?, ?)", frame.select("wages", "town").rows())
    (tmp_path / "codes.toml").write_text('[town]\nnorth = ["a", "b"]\nsouth = ["c"]\n')
    (tmp_path / "levels.toml").write_text('town = ["email"]\n')
    (tmp_path / "rules.toml").write_text('[[sums]]\ntotal = "wages"\nparts = ["rent", "age"]\n')
    (tmp_path / "policy.toml").write_text('[policy]\nname = "p"\nversion = 1\n[limits]\npil = {at_most = 0.0}\n')
    return tmp_path


def test_the_search_finds_what_is_there(folder: Path) -> None:
    assert leaks([(folder / "in.csv").read_text()]) >= {value for value in PLANTED.values() if len(value) >= 6}


@pytest.mark.quick("protect as json", "assess")
@pytest.mark.parametrize("case", SUCCESS)
def test_a_run_that_succeeds_tells_no_value(case: str, folder: Path) -> None:
    done = run(folder, *SUCCESS[case], compiles=case in COMPILING)
    assert done.returncode == 0, done.stderr
    if "as json" in case:
        json.loads(done.stdout)
    assert leaks([done.stdout, done.stderr, *written(folder, ["out.csv", "out.db"])]) == set()
    assert list((folder / "tmpdir").rglob("*")) == [], "nothing temporary is left"
    assert not list(folder.glob(".microveil-*"))


@pytest.mark.quick("*-False")
@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("case", FAILURE)
def test_a_run_that_fails_tells_no_value(
    case: str, as_json: bool, folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(folder / "tmp"))
    before = set(folder.rglob("*"))
    with pytest.raises(SystemExit) as ended:
        main([*FAILURE[case], *(["--json"] if as_json else [])])
    said = capfd.readouterr()
    assert ended.value.code in (1, 2), said.err
    assert leaks([said.out, said.err, *written(folder, [])]) == set()
    assert "Traceback" not in said.err
    assert set(folder.rglob("*")) == before, "nothing is left"


@pytest.mark.quick("microveil.workflow.protecting.protect_table")
@pytest.mark.parametrize(
    "place",
    [
        "microveil.workflow.protecting.protect_table",
        "microveil.cli.shared.read_table",
        "microveil.workflow.writing.write_table",
    ],
)
def test_a_fault_nobody_foresaw_tells_no_value(place: str, folder: Path) -> None:
    """Not its message, which may quote data, nor a traceback, nor a file of a crash."""
    module = place.rpartition(".")[0]
    broken = (
        f"import {module}, sys\n"
        f"def fail(*a, **k): raise ValueError('could not convert ' + ' '.join({sorted(PLANTED.values())!r}))\n"
        f"{place} = fail\n"
        "from microveil.cli.main import main\n"
        "main(sys.argv[1:])\n"
    )
    script = folder / "home-made.py"
    script.write_text(broken)
    environment = {**os.environ, "PYTHONFAULTHANDLER": "1", "TMPDIR": str(folder)}
    done = subprocess.run(
        [sys.executable, script, *PROTECT], capture_output=True, text=True, check=False, cwd=folder, env=environment
    )
    script.unlink()
    assert done.returncode == 3
    assert "internal fault: ValueError at" in done.stderr
    assert leaks([done.stdout, done.stderr, *written(folder, [])]) == set()


# --- What holds the seed is for its owner only


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_holds_the_seed_is_private(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    os.chmod(folder, 0o755)  # noqa: PTH101 - as a shared folder is
    (folder / "r.html").write_text("old, for all to read")
    (folder / "r.html").chmod(0o644)
    reports = ["--report", "r.html", "--public-report", "p.html", "--save-recipe", "recipe.toml", "--include-seed"]
    options = [*reports, "--seed", "20301", "--method", "pca", "--keep", "rest", "--overwrite"]
    with pytest.raises(SystemExit) as ended:
        main([*PROTECT, *options])
    assert not ended.value.code, capfd.readouterr().err
    with_seed = {path.name for path in folder.iterdir() if path.is_file() and b"20301" in path.read_bytes()}
    assert with_seed == {"r.html", "r.json", "recipe.toml"}
    assert {name: mode(folder / name) for name in with_seed} == dict.fromkeys(with_seed, 0o600)
    assert mode(folder / "p.html") == mode(folder / "out.csv") == 0o666 & ~_umask()


def test_reports_from_python_are_private_too(tmp_path: Path) -> None:
    data = np.random.default_rng(1).lognormal(size=(60, 3))
    release = microveil.protect(data, seed=1)
    for audience, expected in (("internal", 0o600), ("public", 0o666 & ~_umask())):
        release.report(tmp_path / f"{audience}.html", audience=audience)
        assert mode(tmp_path / f"{audience}.html") == mode(tmp_path / f"{audience}.json") == expected


@pytest.mark.slow
def test_the_report_of_a_study_is_private(folder: Path) -> None:
    os.chmod(folder, 0o755)  # noqa: PTH101 - as a shared folder is
    study = ["compare", "in.csv", "--methods", "noise, rank_swap", "--repeats", "1", "--measures", "dbrl,pil"]
    done = run(folder, *study, "--confidential", "wages,rent", "--report", "s.html", compiles=False)
    assert done.returncode == 0, done.stderr
    assert {mode(folder / name) for name in ("s.html", "s.json")} == {0o600}


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


# --- Nothing runs what it reads

FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "code", "codeop"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_OPTIONS = {"allow_pickle", "shell"}


def forbidden(tree: ast.AST) -> list[str]:
    found = []
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        found += [name for name in names if name.split(".")[0] in FORBIDDEN_MODULES]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
            found.append(node.func.id)
        if isinstance(node, ast.Call):
            switched_on = [
                key for key in node.keywords if not (isinstance(key.value, ast.Constant) and not key.value.value)
            ]
            found += [key.arg for key in switched_on if key.arg in FORBIDDEN_OPTIONS]
            attribute = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            found += [attribute] if attribute in ("read_pickle", "to_pickle", "eval", "system", "popen") else []
    return found


@pytest.mark.parametrize("text", ["import pickle", "eval('1')", "f.eval('x')", "np.load(f, allow_pickle=True)"])
def test_the_search_of_the_source_finds_what_is_there(text: str) -> None:
    assert forbidden(ast.parse(text)) != []


def test_the_source_evaluates_no_text_and_loads_no_pickle() -> None:
    bad = {str(path): found for path in SOURCE.rglob("*.py") if (found := forbidden(ast.parse(path.read_text())))}
    assert bad == {}
