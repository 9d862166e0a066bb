"""The app in a real browser, from a file to a release; bad files, tabs, crashes, and the keyboard alone."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from app_process import start
from command import run as typed
from fixtures.make_tables import hospital_visits
from messy_workbook import write as write_workbook
from surfer import check_accessible, opened

from microveil import example_file

pytestmark = pytest.mark.slow
SOON = 120_000
"""Milliseconds in which work on a small file is done, on a machine that has other things to do."""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, str, Path]]:
    """The number of the process, the address, and the folder of its private files: one app for all of these tests."""
    place = tmp_path_factory.mktemp("temporary")
    process, address = start(place)
    yield process.pid, address, place
    process.terminate()
    assert process.communicate(timeout=20) == ("", ""), "nothing is printed or logged, whatever was planted"
    assert list(place.iterdir()) == []


@pytest.fixture
def page(browser: Any, app: tuple[int, str, Path]) -> Iterator[Any]:
    with opened(browser, app[1]) as page:
        yield page


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
    page.wait_for_selector("table.data", timeout=SOON)
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
    page.wait_for_selector(".candidates", timeout=SOON)
    page.wait_for_selector("#pictures[data-drawn]")
    page.wait_for_selector("figure svg")
    check_accessible(page)
    assert page.inner_text(".risk .lamp") in ("Low risk", "Raised risk", "High risk", "Not told apart from luck")
    page.click("button[value=release]")
    page.wait_for_selector("#in-python")
    check_accessible(page)
    with page.expect_download() as downloaded:
        page.click(".heading a.button.main")
    content = Path(downloaded.value.path()).read_bytes()
    released = tmp_path / downloaded.value.suggested_filename
    in_python, in_shell = page.text_content("#in-python"), page.text_content("#in-the-shell")
    monkeypatch.chdir(tmp_path)
    exec(in_python, {})
    assert released.read_bytes() == content
    released.unlink()
    assert typed(capsys, *shlex.split(in_shell)[1:], "--quiet")[0] == 0
    assert released.read_bytes() == content
    page.click("text=Undo")
    page.wait_for_selector(".candidates, #protect")
    page.click("text=Redo")
    page.wait_for_selector(".steps a[href$='/release']")
    if make is survey:
        tables_in_the_browser(page)
        two_tabs(page)
    assert page.said == []


def tables_in_the_browser(page: Any) -> None:
    """The interval of a hidden cell shows where the mouse or the focus is; what was made is undone and made again."""
    page.goto(page.url.rpartition("/")[0] + "/table")
    page.select_option("select[name=down]", index=0)
    page.fill("input[name=least]", "40")
    page.click("button.main")
    page.wait_for_selector(".hole", timeout=SOON)
    check_accessible(page)
    tip = page.locator(".hole .tip").first
    opacity = "tip => getComputedStyle(tip).opacity"
    assert tip.evaluate(opacity) == "0"
    page.locator(".hole").first.focus()
    assert tip.evaluate(opacity) == "1"
    assert "between" in tip.inner_text()
    page.click("text=Undo")
    page.wait_for_selector(".hole", state="detached")
    page.click("text=Redo")
    page.wait_for_selector(".hole")


def two_tabs(page: Any) -> None:
    """A tab that is older than what was decided in another says so, and changes nothing."""
    old = page.context.new_page()
    for tab in (old, page):
        tab.goto(page.url.rpartition("/")[0] + "/protect")
    page.click("summary:has-text('refuse this file')")
    with page.expect_navigation():  # the choice is kept before the other tab makes its own
        page.click("input[name=method][value=noise]")
    page.wait_for_selector("input[name='param:noise_sd_ratio']", state="attached")
    with old.expect_navigation():
        old.click("input[name=method][value=veil]")  # `check` would try again on the page that comes
    old.wait_for_selector("[role=alert]")
    assert "another tab" in old.inner_text("[role=alert]")
    assert old.is_checked("input[name=method][value=noise]")
    old.close()


def bad_files(folder: Path) -> dict[Path, str]:
    """Files that are none, or are too much; and a word of the sentence that each gets."""
    (folder / "a.exe").write_bytes(b"MZ")
    (folder / "empty.csv").write_bytes(b"")
    with (folder / "huge.csv").open("wb") as file:
        file.truncate(2 * 10**9)  # it takes no room
    (folder / "wrong.xlsx").write_bytes(b"planted_4711")
    (folder / "wrong.parquet").write_bytes(b"PAR1 planted_4711")
    book = openpyxl.Workbook()
    book.save(folder / "bomb.xlsx")
    with zipfile.ZipFile(folder / "bomb.xlsx", "a", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("xl/worksheets/more.xml", b" " * 700_000_000)
    words = ("cannot be read", "is empty", "too large", "wrong.xlsx", "wrong.parquet", "bomb.xlsx")
    names = ("a.exe", "empty.csv", "huge.csv", "wrong.xlsx", "wrong.parquet", "bomb.xlsx")
    return {folder / name: word for name, word in zip(names, words, strict=True)}


def test_bad_files_get_a_sentence_and_leave_nothing(page: Any, tmp_path: Path, app: tuple[int, str, Path]) -> None:
    home, (_, _, place) = page.url, app
    for file, word in bad_files(tmp_path).items():
        page.goto(home)
        page.set_input_files("#upload", file)
        page.wait_for_selector("[role=alert]:visible", timeout=SOON)
        said = page.inner_text("[role=alert]:visible")
        assert word in said
        for never in ("Traceback", "Error:", "planted_4711", str(place)):
            assert never not in page.content()
    close_all(page, home)
    assert [path.name for path in place.rglob("*") if path.is_file()] == ["lock"]
    page.said.clear()  # the browser notes answers that refuse


def close_all(page: Any, home: str) -> None:
    page.goto(home)
    while page.locator("form[action$='/close'] button").count():
        page.locator("form[action$='/close'] button").first.click()
        page.wait_for_load_state()


BAD = "<script>alert(1)</script>"


def text_with_signs(folder: Path) -> Path:
    lines = "".join(f'{k},"<img src=x onerror=alert(2)>","=cmd|\'/C calc\'!A1"\n' for k in range(1, 60))
    path = folder / "<b onclick=alert(3)>x.csv"
    path.write_text(f'n,"{BAD}","=1+1"\n{lines}', encoding="utf-8")
    return path


def workbook_with_signs(folder: Path) -> Path:
    book = openpyxl.Workbook()
    book.create_sheet('<img src=x onerror="alert(4)">'[:31])
    for sheet in book.worksheets:
        sheet.append(["n", BAD, "{{7*7}}"])
        for k in range(1, 60):
            sheet.append([k * 1.5, "'\"><svg onload=alert(5)>", "=HYPERLINK(1)" if k % 2 else "${7*7}"])
            sheet.cell(k + 1, 3).data_type = "s"  # text, and no formula
    book.save(folder / "signs.xlsx")
    return folder / "signs.xlsx"


@pytest.mark.parametrize("make", [text_with_signs, workbook_with_signs], ids=lambda make: make.__name__)
def test_what_would_run_is_text(page: Any, tmp_path: Path, make: Any) -> None:
    page.set_input_files("#upload", make(tmp_path))
    page.wait_for_selector("table.data", timeout=SOON)
    assert BAD in page.text_content("table.data thead")
    page.click("a.button.main")
    page.wait_for_selector("table.columns")
    page.click(".heading button.main")
    page.wait_for_selector("#protect")
    page.goto(page.url.rpartition("/")[0] + "/table")
    assert page.locator("img[src=x], svg[onload], b[onclick]").count() == 0
    assert "49" not in page.text_content("main").split()
    assert page.said == []


def many_rows(folder: Path) -> Path:
    """A file whose reading takes long enough to be cancelled."""
    head, *rows = survey(folder).read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "many.csv").write_text(head + "".join(rows) * 100, encoding="utf-8")
    return folder / "many.csv"


def test_cancelling_and_a_crash_are_messages(page: Any, tmp_path: Path, app: tuple[int, str, Path]) -> None:
    page.set_input_files("#upload", many_rows(tmp_path))
    page.wait_for_selector("#work")
    page.click("text=Cancel")
    page.wait_for_selector("[role=alert]")
    assert "cancelled" in page.inner_text("[role=alert]")
    page.click("text=Read it again")
    page.wait_for_selector("table.data", timeout=SOON)
    page.goto(page.url.rpartition("/")[0] + "/protect")
    page.click("button[value=run]")
    page.wait_for_selector("#work")
    for child in children(app[0]):
        os.kill(child, signal.SIGKILL)
    page.wait_for_selector("[role=alert]", timeout=SOON)
    assert "ended unexpectedly" in page.inner_text("[role=alert]")
    page.wait_for_selector("#protect")
    assert page.said == []


def children(parent: int) -> list[int]:
    """The processes that a process has started."""
    stats = {
        int(path.parent.name): path.read_text().rpartition(")")[2].split() for path in Path("/proc").glob("[0-9]*/stat")
    }
    return [process for process, stat in stats.items() if int(stat[1]) == parent]


def test_the_five_steps_by_the_keyboard_alone(page: Any) -> None:
    go(page, "form[action='/example'] button")
    page.wait_for_selector("table.data", timeout=SOON)
    go(page, "a.button.main")
    page.wait_for_selector("table.columns")
    for column in (0, 1):  # labels, which the method below would refuse
        go(page, f"select[name='role:{column}']", "l")
        assert page.input_value(f"select[name='role:{column}']") == "drop"
    go(page, ".heading button.main")
    page.wait_for_selector("#protect")
    go(page, "input[name=method]", "ArrowDown")
    assert page.is_checked("input[name=method][value=rank_swap]"), "the arrow keys go through the methods"
    go(page, "#choose")
    page.wait_for_selector("text=More settings of rank_swap")
    go(page, "input[type=range]", "ArrowRight")
    go(page, "button[value=run]")
    page.wait_for_selector(".candidates", timeout=SOON)
    go(page, "button[value=release]")
    page.wait_for_selector("#in-python")
    with page.expect_download():
        go(page, ".heading a.button.main")
    go(page, "form[action$='/undo'] button")
    page.wait_for_selector(".candidates, #protect")
    assert page.said == []


def go(page: Any, selector: str, key: str | None = "Enter") -> None:
    """Press Tab until an element has the focus, which must be seen; then a key."""
    for _ in range(150):
        if page.evaluate("s => document.activeElement?.matches(s)", selector):
            break
        page.keyboard.press("Tab")
    else:
        raise AssertionError(f"the Tab key never comes to {selector}")
    outline = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none", selector
    if key:
        page.keyboard.press(key)
