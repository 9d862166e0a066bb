"""The package as a whole: what importing it costs, and the rules between its rooms."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import checkout
import pytest

import microveil as mv

LOOK = """
import json, sys, time
try:
    {what}
except SystemExit:
    pass
print(json.dumps([time.process_time(), sorted(name for name in sys.modules if "." not in name)]))
"""
HELP = "sys.argv = ['microveil', '--help']; from microveil.cli.main import main; main()"
HEAVY = {"sklearn", "scipy", "numba", "numpy", "polars", "pandas", "pyarrow", "altair", "jinja2", "formulaic", "rich"}


@pytest.mark.parametrize(("what", "not_loaded"), [("import microveil", {*HEAVY, "typer", "pydantic"}), (HELP, HEAVY)])
def test_importing_and_the_help_are_fast_and_load_nothing_heavy(what: str, not_loaded: set[str]) -> None:
    code = [sys.executable, "-c", LOOK.format(what=what)]
    shown = [subprocess.run(code, check=True, capture_output=True, text=True).stdout for _ in range(3)]
    looks = [json.loads(text.splitlines()[-1]) for text in shown]
    assert min(seconds for seconds, _ in looks) < 0.4  # of the whole process; less than 0.3 is usual
    assert not_loaded.isdisjoint(looks[0][1])


def test_public_names_win_over_submodules_of_the_same_name() -> None:
    code = "import microveil.methods, microveil as mv; mv.protect; assert 'veil' in mv.methods(); dir(mv); mv.compare"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        mv.nonsense  # noqa: B018


@pytest.fixture
def checker() -> ModuleType:
    return checkout.script("check_imports")


@pytest.mark.slow
def test_no_room_imports_an_outer_one(checker: ModuleType) -> None:
    assert checker.main() == 0


@pytest.mark.parametrize(
    ("room", "line", "expected"),
    [
        ("core", "from microveil.io import frames", "core must not import io"),
        ("perturb", "import microveil.assess", "perturb must not import assess"),
        ("perturb", "from microveil import workflow", "perturb must not import workflow"),
        ("report", "from microveil.cli import main", "report must not import cli"),
        ("restore", "import scipy.linalg", "import scipy inside the function"),
    ],
)
def test_the_check_sees_a_breach(
    room: str, line: str, expected: str, checker: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / room).mkdir()
    breach = tmp_path / room / "new.py"
    breach.write_text(f"{line}\n")
    monkeypatch.setattr(checker, "SOURCE", tmp_path)
    assert any(expected in problem for problem in checker.problems_in(breach))
    allowed = tmp_path / room / "good.py"
    allowed.write_text("from microveil.core.errors import DataError\n\n\ndef late():\n    import scipy\n")
    assert checker.problems_in(allowed) == []


def test_the_check_sees_files_that_import_each_other(
    checker: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "core").mkdir()
    one, two = tmp_path / "core" / "one.py", tmp_path / "core" / "two.py"
    one.write_text("from microveil.core import two\n")
    two.write_text("def late():\n    from microveil.core.one import name\n")
    monkeypatch.setattr(checker, "SOURCE", tmp_path)
    assert "microveil.core.two -> microveil.core.one" in checker.rings([one, two])[0]
    assert checker.rings([one]) == []


def test_rooms_files_and_functions_can_be_read_in_one_sitting() -> None:
    source = Path(mv.__file__).parent
    assert len(list(source.glob("*.py"))) <= 8, "the public names, and seven modules"
    nodes = []
    for folder in {file.parent for file in source.rglob("*.py")}:
        files = list(folder.glob("*.py"))
        assert len(files) <= 20, folder.name
        texts = {file.name: file.read_text(encoding="utf-8") for file in files}
        assert {name: len(text.splitlines()) for name, text in texts.items() if len(text.splitlines()) > 450} == {}
        nodes += [node for text in texts.values() for node in ast.walk(ast.parse(text))]
    classes = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    assert [name for name, times in classes.items() if times > 1] == [], "one name for one thing"
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    assert [f.name for f in functions if (f.end_lineno or 0) - f.lineno >= 80] == []
    parameters = [[a.arg for a in (*f.args.posonlyargs, *f.args.args, *f.args.kwonlyargs)] for f in functions]
    assert sum(len(set(names) - {"self", "cls"}) >= 8 for names in parameters) <= 15


def test_the_project_names_its_license_and_is_typed() -> None:
    import microveil

    assert (Path(microveil.__file__).parent / "py.typed").exists()
