"""The app in a real browser, from a file to a release."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import run as typed
from fixtures.make_tables import hospital_visits
from messy_workbook import write as write_workbook

from microveil import example_file

AXE = Path(__file__).parent / "axe.min.js"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    place = tmp_path_factory.mktemp("temporary")
    env = {
        **os.environ,
        "MICROVEIL_TEMPORARY": str(place),
        "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src"),
    }
    command = [sys.executable, "-m", "microveil", "app", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as app:
        assert app.stdout is not None
        yield app.stdout.readline().strip()
        app.terminate()
    assert list(place.iterdir()) == []


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True, locale="en-GB")
    page = context.new_page()
    page.said, page.asked = [], []
    page.on("console", lambda message: page.said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: page.said.append(str(error)))
    page.on("dialog", lambda dialog: page.said.append("a dialog"))
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto(address)
    yield page
    home = address.partition("/?")[0]
    assert [url for url in page.asked if not url.startswith((home, "data:", "blob:"))] == [], "no request elsewhere"
    context.close()


def check_accessible(page: Any) -> None:
    """axe-core finds nothing serious; it is let in past the policy of the page by the driver alone."""
    page.evaluate(AXE.read_text(encoding="utf-8") + "\n;0")
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        found = page.evaluate("async () => (await axe.run()).violations.map(v => [v.id, v.impact, v.nodes[0].html])")
        assert [one for one in found if one[1] in ("serious", "critical")] == []


def messy(folder: Path) -> Path:
    return write_workbook(folder / "staff.xlsx")


def hospital(folder: Path) -> Path:
    hospital_visits(patients=120).to_csv(folder / "visits.csv", index=False)
    return folder / "visits.csv"


def survey(folder: Path) -> Path:
    return Path(shutil.copy(example_file(), folder / "survey.csv"))


@pytest.mark.parametrize("make", [survey, hospital, messy], ids=lambda make: make.__name__)
def test_from_file_to_release(
    page: Any, make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = make(tmp_path)
    check_accessible(page)
    page.set_input_files("#upload", file)
    page.wait_for_selector("table.data", timeout=60_000)
    check_accessible(page)
    page.click("a.button.main")
    check_accessible(page)
    page.click(".heading button.main")
    page.wait_for_selector("#protect")
    check_accessible(page)
    if make is survey:  # the others with the method that is recommended
        with page.expect_navigation():
            page.click("summary:has-text('more methods')")
            page.check("input[name=method][value=swap]")
    page.click("button[value=run]")
    page.wait_for_selector("#work")
    page.reload()  # in the middle
    page.wait_for_selector(".candidates", timeout=180_000)
    page.wait_for_selector("#pictures[data-drawn]")
    page.wait_for_selector("figure svg")
    check_accessible(page)
    assert page.inner_text(".risk .lamp") in ("Low risk", "Raised risk", "High risk")
    page.click("button[value=release]")
    page.wait_for_selector("#in-python")
    check_accessible(page)
    with page.expect_download() as downloaded:
        page.click(".heading a.button.main")
    content = Path(downloaded.value.path()).read_bytes()
    name = downloaded.value.suggested_filename
    in_python, in_shell = page.text_content("#in-python"), page.text_content("#in-the-shell")
    monkeypatch.chdir(tmp_path)
    if make is survey:
        exec(in_python, {})
    else:
        assert typed(capsys, *shlex.split(in_shell)[1:], "--quiet")[0] == 0
    assert (tmp_path / name).read_bytes() == content
    page.click("text=Undo")
    assert page.locator(".candidates, #protect").count() == 1
    page.click("text=Redo")
    if make is survey:
        page.goto(page.url.rpartition("/")[0] + "/table")
        page.click("button.main")
        page.wait_for_selector(".hole", timeout=60_000)
        check_accessible(page)
    assert page.said == []


def test_cells_that_would_run_are_text(page: Any, tmp_path: Path) -> None:
    bad = "<script>alert(1)</script>"
    lines = "".join(f'{k},"<img src=x onerror=alert(2)>","=cmd|\'/C calc\'!A1"\n' for k in range(1, 60))
    (tmp_path / "x.csv").write_text(f'n,"{bad}","=1+1"\n{lines}', encoding="utf-8")
    page.set_input_files("#upload", tmp_path / "x.csv")
    page.wait_for_selector("table.data", timeout=60_000)
    assert bad in page.inner_text("table.data thead") or bad.upper() in page.inner_text("table.data thead").upper()
    page.click("a.button.main")
    page.wait_for_selector("table.columns")
    assert page.locator("img[src=x]").count() == 0
    assert page.said == []


def test_cancelling_in_the_browser(page: Any, tmp_path: Path) -> None:
    page.set_input_files("#upload", survey(tmp_path))
    page.wait_for_selector("#work")
    page.click("text=Cancel")
    page.wait_for_selector("[role=alert]")
    assert "cancelled" in page.inner_text("[role=alert]")
