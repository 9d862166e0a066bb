"""From a file to a release through the pages, without a browser."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import run as typed
from visitor import Visitor

from microveil.app import views
from microveil.app.forms import STRENGTHS, controls
from microveil.app.forms import typed as from_form
from microveil.core.errors import ParameterError
from microveil.methods import METHODS

NEED_MORE = ("recode", "correct", "synthetic_addition")
"""Methods that need columns or another table before they do anything."""


def wages(rows: int = 90) -> bytes:
    rng = np.random.default_rng(3)
    hours = rng.integers(10, 40, rows)
    pay = np.round(hours * rng.lognormal(3, 0.3, rows), 2)
    lines = [
        f"P-{k:04d},{rng.choice(['n', 's'])},{h},{p},{h + p:.2f}"
        for k, (h, p) in enumerate(zip(hours, pay, strict=True))
    ]
    return "\n".join(["person_id,<b>side</b>,hours,pay,both", *lines, ""]).encode()


def made(visitor: Visitor, case: Any) -> tuple[str, str, Path]:
    """The printed Python, the printed command, and the released file."""
    run = case.runs[case.choices.chosen]
    return views.python_code(case, run), views.shell_command(case, run), run.folder / run.output


@pytest.mark.slow
def test_from_upload_to_the_same_bytes(
    visitor: Visitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    visitor.send("wages & more.csv", wages())
    visitor.wait()
    case = visitor.case
    page = visitor.page("data")
    assert "&lt;b&gt;side&lt;/b&gt;" in page
    assert "<b>side" not in page, "labels are text, never markup"
    assert "person_id" in page
    columns = {f"kind__{n}": c["kind"] for n, c in enumerate(case.table["columns"])}
    rules = {f"rule__{key}": "on" for key in views.rule_sentences(case.table["dictionary"]) if key.startswith("sums")}
    assert rules, "a sum is found"
    roles = {"role__0": "drop", "role__1": "keep", **{f"role__{n}": "protect" for n in (2, 3, 4)}}
    assert visitor.do("columns", rules="on", next="1", **columns, **roles, **rules) == "protect"
    assert visitor.do("protect", action="choose", method="noise") == "protect"
    assert "noise sd ratio" in visitor.page("protect")
    where = visitor.do("protect", action="run", method="noise", seed="7", param__noise_sd_ratio="0.4")
    assert where == "compare"
    assert "/progress" in visitor.page("compare"), "the first thing to see is that it has begun"
    visitor.wait()
    assert case.work is not None
    assert case.work.failed == ""
    page = visitor.page("compare")
    assert "noise sd ratio 0.4" in page
    in_python, in_shell, file = made(visitor, case)
    assert "noise_sd_ratio" in in_python
    assert stat_is_private(case.folder)
    recipe = (file.parent / views.RECIPE).read_text(encoding="utf-8")
    assert f'path = "{case.name}"' in recipe, "its paths are those that its owner knows"
    assert str(tmp_path) not in recipe
    (tmp_path / case.name).write_bytes(wages())
    rules_file = file.parent / views.RULES
    if case.choices.rules_off:
        (tmp_path / views.RULES).write_bytes(rules_file.read_bytes())
    monkeypatch.chdir(tmp_path)
    exec(in_python, {})
    released = tmp_path / file.name
    assert released.read_bytes() == file.read_bytes()
    released.unlink()
    assert typed(capsys, *shlex.split(in_shell)[1:], "--quiet")[0] == 0
    assert released.read_bytes() == file.read_bytes()
    answer = visitor.http.get(f"/case/{case.id}/run/{case.choices.chosen}/{file.name}")
    assert answer.content == file.read_bytes()
    report = visitor.http.get(f"/case/{case.id}/run/{case.choices.chosen}/report-public.html?view")
    assert "sandbox" in report.headers["content-security-policy"]
    undo_and_redo(visitor, case)


def stat_is_private(folder: Path) -> bool:
    """Can nobody else look into any file below?"""
    return all(path.stat().st_mode & 0o077 == 0 for path in [folder, *folder.iterdir()] if path.is_dir())


def undo_and_redo(visitor: Visitor, case: Any) -> None:
    """Every decision is taken back, one by one, and made again."""
    states = [choices for _, choices in case.history]
    assert len(states) >= 5
    for state in reversed(states[:-1]):
        visitor.do("undo")
        assert case.choices == state
    assert case.candidates == []
    for state in states[1:]:
        visitor.do("redo")
        assert case.choices == state
    assert len(case.candidates) == 1


def test_units_are_numbered_anew_and_labels_counted_once(visitor: Visitor) -> None:
    lines = [
        f"{n // 2},2020-{1 + n % 12:02d}-07,{'abc'[n % 3]},{n % 7 + n / 10},{n % 5},{1 + n % 2}" for n in range(60)
    ]
    visitor.send("visits.csv", "\n".join(["patient_id,day,ward,dose,visits,nth", *lines, ""]).encode())
    visitor.wait()
    assert {c["name"]: c["kind"] for c in visitor.case.table["columns"]}["patient_id"] == "unit"
    page = visitor.page("columns")
    assert page.count("Number anew") == 1
    assert page.count("Count anew: in clear") == 1, "the place of a visit among those of its patient"
    assert "3 labels</td>" in page
    assert "written as YYYY-MM-DD" in page
    visitor.do("protect", action="run", method="noise", seed="7")
    visitor.wait()
    assert "as they are under Columns, or leave them out there" in visitor.page("protect")
    visitor.do("protect", action="run", method="veil", seed="7")
    visitor.wait()
    assert visitor.case.work is not None
    assert visitor.case.work.failed == ""
    across = visitor.page("compare").partition('id="across">')[2].partition("</select>")[0]
    assert re.findall("<option>(.*?)</option>", across) == ["dose", "visits", "nth"], "nobody plots numbers of persons"


def test_methods_that_would_be_refused_say_so_and_are_not_offered_first(visitor: Visitor) -> None:
    visitor.send("wages.csv", wages())
    visitor.wait()
    shown_first = visitor.page("protect").partition("more methods")[0]
    assert 'value="veil"' in shown_first
    assert 'value="rank_swap"' not in shown_first
    page = visitor.page("protect").partition('value="rank_swap"')[2].partition("</label>")[0]
    assert "has no order" in page
    assert "methods that refuse this file" in visitor.page("protect").partition('value="rank_swap"')[0]
    kinds = {f"kind__{n}": c["kind"] for n, c in enumerate(visitor.case.table["columns"])}
    visitor.do("columns", rules="on", **kinds, role__0="drop", role__1="keep")
    assert 'value="rank_swap"' in visitor.page("protect").partition("more methods")[0]


def test_a_page_that_is_older_than_the_case_changes_nothing(visitor: Visitor) -> None:
    visitor.send("a.csv", wages())
    visitor.do("cancel")
    visitor.do("protect", action="choose", method="noise")
    visitor.do("protect", seen="0-0", action="choose", method="veil")
    assert visitor.case.choices.method == "noise"
    assert "another tab" in visitor.page("data")


BAD = {"a.xlsx": b"no workbook", "a.parquet": b"PAR1 no", "a.csv": b"1.5,2.5\n3,4\n5,6\n", "b.csv": b"\x00\xff" * 99}


@pytest.mark.slow
def test_bad_files_get_a_sentence_and_two_cases_stay_apart(visitor: Visitor) -> None:
    visitor.send("planted.csv", b"x,secret_9137\n" + b"planted_4711,2\n" * 3)
    visitor.wait()
    assert "planted_4711" in visitor.page("data")
    for name, content in BAD.items():
        visitor.send(name, content)
        visitor.wait()
        page = visitor.page("data")
        assert "could not be read" in page
        assert f"&#39;{name}&#39;" in page, "what is wrong, with the name that the file has for its owner"
        assert str(visitor.case.folder) not in page
        assert "planted_4711" not in page


def test_work_that_ends_while_a_page_is_made_leaves_it_whole(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """It said that the file could not be read, and nothing loaded the page again."""
    visitor.send("wages.csv", wages())
    visitor.wait()
    page = visitor.pages.page

    def ended_meanwhile(*args: Any, **content: Any) -> Any:
        content["case"].work.over = True
        return page(*args, **content)

    work = visitor.case.work
    assert work is not None
    work.over = False
    monkeypatch.setattr(visitor.pages, "page", ended_meanwhile)
    assert 'id="work"' in visitor.page("data"), "which asks how far it is, and loads itself again"
    assert 'class="data"' in visitor.page("data")


def test_a_worker_that_dies_is_a_message_and_cancelling_too(visitor: Visitor) -> None:
    visitor.send("a.csv", wages())
    visitor.wait()
    for end, word in (("kill", "ended unexpectedly"), ("cancel", "cancelled")):
        visitor.do("protect", action="run", method="veil")
        work = visitor.case.work
        assert work is not None
        if end == "kill":
            process = work.process
            assert process is not None
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        else:
            visitor.do("cancel")
        visitor.wait(20)
        assert word in visitor.page("protect")
        assert word not in visitor.page("protect"), "it is said once"
        assert visitor.case.candidates == []
    assert visitor.http.get("/").status_code == 200


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_form_from_its_declaration(method: str) -> None:
    strength, others = controls(method, {})
    every = [*([strength] if strength else []), *others]
    assert all(control.help for control in every)
    assert (strength is not None) == (method in STRENGTHS)
    if method not in NEED_MORE:
        assert from_form(method, {f"param:{c.name}": c.value for c in every if not c.perturb}) == {}


def test_a_form_is_checked_as_protect_checks() -> None:
    assert from_form("pca", {"param:perturb": "noise", "param:noise_sd_ratio": "0.3", "param:rank_window": "9"}) == {
        "perturb": "noise",
        "noise_sd_ratio": 0.3,
    }
    with pytest.raises(ParameterError, match="window"):
        from_form("veil", {"param:window": "1"})


@pytest.mark.slow
def test_a_table_with_small_cells_hidden(
    visitor: Visitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(5)
    rows = [
        f"{rng.choice(list('abc'), p=[0.6, 0.3, 0.1])},{rng.choice(list('xyz'), p=[0.6, 0.3, 0.1])},{k}"
        for k in range(80)
    ]
    content = "\n".join(["side,size,pay", *rows, ""]).encode()
    visitor.send("table.csv", content)
    visitor.wait()
    assert "/table" in visitor.page("data")
    assert visitor.do("table", down="side", across="size", least="4") == "table"
    visitor.wait()
    case = visitor.case
    assert case.work is not None
    assert case.work.failed == ""
    page = visitor.page("table")
    assert 'class="hole primary protected"' in page
    assert "between" in page
    assert case.grid is not None
    made = case.grid["file"].read_bytes()
    assert visitor.http.get(f"/case/{case.id}/table.csv").content == made
    (tmp_path / "table.csv").write_bytes(content)
    monkeypatch.chdir(tmp_path)
    commands = views.table_commands(case)
    for command in commands:
        assert typed(capsys, *shlex.split(command)[1:], "--quiet")[0] == 0
    assert (tmp_path / "table-table.csv").read_bytes() == made
    assert "Keep this file inside" in visitor.http.get(f"/case/{case.id}/table.html").text
    assert visitor.do("table", down="side", across="size", least="4", holes="fill", whole="1") == "table"
    visitor.wait()
    filled = visitor.page("table")
    assert re.search(r'class="hole primary[^>]*>● [\d.-]+<', filled), "decimals stand in the place of hidden cells"
    visitor.do("undo")
    assert case.grid["file"].read_bytes() == made
    assert grid_of(visitor.page("table")) == grid_of(page)
    visitor.do("redo")
    assert case.grid["asked"]["fill"]
    visitor.do("undo")
    visitor.do("undo")
    assert case.grid is None


def grid_of(page: str) -> str:
    """The table that a page shows."""
    return page.partition('<table class="data cells">')[2].partition("</table>")[0]
