"""A panel of raters in a real browser: what they see, what they never see, and what becomes of their marks."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_process import running
from command import run as typed
from PIL import Image
from surfer import check_accessible, opened

from microveil.core.errors import FileError

pytestmark = pytest.mark.slow
KINDS = {"a": "picture", "b": "table"}


def picture(path: Path, removed: int) -> str:
    """Stripes, and noise on them: the more, the more was removed."""
    rng = np.random.default_rng(removed)
    shades = 128 + 90 * np.sin(np.arange(64) / 5)[:, None] * np.ones(64) + 25 * removed * rng.normal(size=(64, 64))
    Image.fromarray(np.clip(shades, 0, 255).astype(np.uint8)).save(path)
    return path.name


def table(path: Path, noise: float) -> str:
    rng = np.random.default_rng(3)
    base = rng.lognormal(3, 0.5, (80, 3)) + noise * rng.normal(size=(80, 3))
    lines = [f"{a:.2f},{b:.2f},{c:.2f},{'north' if a > 20 else 'south'}" for a, b, c in base]
    path.write_text("\n".join(["alpha,beta,gamma,<i>side</i>", *lines, ""]), encoding="utf-8")
    return path.name


@pytest.fixture
def session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """Two sources, a picture and a table, and two raters."""
    files = tmp_path / "files"
    files.mkdir()
    rows = [
        ["plain-p1", "p", picture(files / "p.png", 0), picture(files / "planted-p1.png", 1)],
        ["plain-t1", "t", table(files / "t.csv", 0), table(files / "planted-t1.csv", 9)],
    ]
    with (files / "stimuli.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["id", "source", "original", "processed"], *rows])
    made = tmp_path / "session.toml"
    asked = ["mos", "session", files / "stimuli.csv", "-o", made, "--observers", "ann,bob", "--seed", 4]
    assert typed(capsys, *asked)[0] == 0
    assert 'original = "files/p.png"' in made.read_text()
    return made


def rate_all(page: Any, mark: Any) -> int:
    """Rate pair after pair by the keyboard; how many there were."""
    count = 0
    page.wait_for_selector("#rate[data-ready]")
    while page.locator("#rate").count():
        page.wait_for_load_state("networkidle")  # nobody rates what is not to be seen yet
        for side in ("left", "right"):
            page.keyboard.press(mark(page, side))
        with page.expect_navigation():
            page.keyboard.press("Enter")
        count += 1
    return count


def test_two_raters_one_after_another(
    browser: Any, session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ratings = tmp_path / "ratings.csv"
    with running(tmp_path, "mos", "panel", session, "-o", ratings) as address, opened(browser, address) as page:
        page.wait_for_selector("text=Hand over", timeout=60_000)
        check_accessible(page)
        organiser = page.url
        page.click("text=Hand over")
        page.wait_for_url("**/rate")
        check_accessible(page)
        refused_to_raters(page, organiser)
        page.select_option("select[name=rater]", "ann")
        page.click("text=Begin")
        seen = look_at_a_pair(page)
        page.reload()
        assert look_at_a_pair(page) == seen, "a reload shows the same pair again"
        page.keyboard.press("3")
        page.keyboard.press("Backspace")
        assert page.locator("#rate input:checked").count() == 0
        page.keyboard.press("Enter")
        assert page.locator("h1").inner_text() == "Pair 1 of 4", "without marks nothing is sent"
        check_accessible(page)
        assert rate_all(page, lambda page, side: "5" if side == "left" else "2") == 4
        assert "Thank you" in page.inner_text("h1")
        assert page.locator("option").all_inner_texts() == ["bob"]
        page.click("text=Begin")
        assert rate_all(page, lambda page, side: "4" if side == "left" else "3") == 4
        assert "Everybody" in page.inner_text("main")
        page.goto(address)
        page.click("text=Work the scores out")
        page.wait_for_selector("#scores", timeout=60_000)
        check_accessible(page)
        shown = page.inner_text("#scores")
        assert page.said == []
    compare_with_the_file(session, ratings, shown, capsys)


def look_at_a_pair(page: Any) -> list[str]:
    """Both sides as they come: drawn, and without a word that tells which is which."""
    page.locator(".pair img, .views[data-drawn]").nth(1).wait_for()
    sides = [page.request.get(f"{page.url}/0/{side}") for side in ("left", "right")]
    names = [sorted(set(side.headers) - {"content-length"}) for side in sides]
    assert names[0] == names[1]
    texts = [side.body().decode("latin-1") for side in sides]
    told = page.content() + "".join(texts)
    for word in ("plain", "planted", "original", "released", "processed", "reference", "hidden", "bob", "ssim"):
        assert not re.search(rf"\b{word}\b", re.sub(r"<(script|link)[^>]*>|type=\"hidden\"|class=\"hidden\"", "", told))
    assert page.request.get(f"{page.url}/1/left").status == 404, "no other pair than the one that is shown"
    if texts[0].startswith("{"):
        first, second = (json.loads(text) for text in texts)
        assert [chart["title"] for chart in first["charts"]] == [chart["title"] for chart in second["charts"]]
    return texts


def refused_to_raters(page: Any, organiser: str) -> None:
    """What a rater types into the address bar, and the way back, lead to the pairs only."""
    home = organiser.partition("/panel")[0]
    for path in ("/", "/panel/x", organiser.removeprefix(home), "/static/../panel", "/?token=wrong"):
        page.goto(home + path)
        assert page.url == f"{home}/rate"
    for name in ("session.toml", "ratings.csv", "progress"):
        assert page.request.get(f"{organiser}/{name}", max_redirects=0).status == 303
    origin = {"origin": home}
    assert page.request.post(f"{organiser}/scores", headers=origin, max_redirects=0).status == 403
    page.go_back()
    assert "Work the scores out" not in page.content()
    page.goto(f"{home}/rate")


def compare_with_the_file(session: Path, ratings: Path, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The file has what was pressed, on the right sides, and `microveil mos score` says what the organiser saw."""
    from microveil.assessment import mos

    known = mos.read_session(session)
    rows = list(csv.DictReader(ratings.read_text().splitlines()))
    assert len(rows) == 8
    assert ratings.stat().st_mode & 0o077 == 0
    pressed = {"ann": (100.0, 25.0), "bob": (75.0, 50.0)}
    for who in known.observers:
        for what, side in zip(who.order, who.reference, strict=True):
            row = next(row for row in rows if (row["observer"], row["stimulus"]) == (who.id, what))
            left, right = pressed[who.id]
            expected = (left, right) if side == "left" else (right, left)
            assert (float(row["reference"]), float(row["processed"])) == expected
    code, out, _ = typed(capsys, "mos", "score", session, ratings, "--json")
    assert code == 0
    found = json.loads(out)
    for one in [*found["stimuli"], *found["control"]]:
        assert re.search(rf"{one['id']}.*\s{one['mos']:.0f}\s", shown)


def test_candidates_from_compare_are_rated_to_the_end(browser: Any, tmp_path: Path) -> None:
    table(tmp_path / "t.csv", 0)
    with running(tmp_path, "app", tmp_path / "t.csv") as address, opened(browser, address) as page:
        page.wait_for_selector("table.data", timeout=60_000)
        assert page.url.endswith("/data"), "the file that was named is open"
        case = page.url.rpartition("/")[0]
        for _ in range(2):
            page.goto(f"{case}/protect")
            page.click("button[value=run]")
            page.wait_for_selector("#pictures[data-drawn]", timeout=60_000)
            page.wait_for_load_state("networkidle")  # the scatter plot, which leaving the page would cut off
        assert page.locator(".candidates .lamp").count() == 2
        page.fill("input[name=raters]", "2")
        page.click("text=Make a session")
        page.wait_for_selector("text=Hand over", timeout=60_000)
        check_accessible(page)
        page.click("text=Hand over")
        for _ in range(2):
            page.click("text=Begin")
            page.locator(".views[data-drawn]").nth(1).wait_for()
            assert "candidate" not in page.content()
            assert rate_all(page, lambda page, side: "4" if side == "left" else "2") == 3
        assert "Everybody" in page.inner_text("main")
        page.goto(address)
        page.goto(case.partition("/case")[0])
        page.click("text=Panel of raters")
        page.click("text=Work the scores out")
        page.wait_for_selector("#scores", timeout=60_000)
        shown = page.inner_text("#scores")
        assert re.search("candidate 1", shown)
        assert re.search("candidate 2", shown)
        assert page.said == []


def test_a_session_of_candidates_is_made_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from microveil.app import stimuli
    from microveil.app.panel import Panel

    monkeypatch.chdir(tmp_path)
    candidates = {f"candidate {k}": table(tmp_path / f"{k}.csv", 3.0 * k) for k in (1, 2)}
    task = {"source": table(tmp_path / "t.csv", 0), "reading": {}, "observers": 2, "candidates": candidates}
    panel = Panel("x", "t", tmp_path, tmp_path / "session.toml", tmp_path / "ratings.csv")
    panel.opened(stimuli.make_session(task, lambda *_: None))
    assert panel.stimuli == ["candidate 1", "candidate 2", "t-reference"]
    panel.rater = panel.left()[0]
    assert [panel.view(0, side) is not None for side in ("left", "right", "both")] == [True, True, False]
    panel.rate(1, 5, 5)
    panel.rate(0, 6, 1)
    assert panel.marks == {}, "another pair than the one that is shown, and a mark that there is not"
    for place in range(3):
        panel.rate(place, 4, 2)
    assert panel.left() == [panel.observers[1]["id"]]
    (tmp_path / "ratings.csv").unlink()
    (tmp_path / "ratings.csv").mkdir()
    panel.rater = panel.left()[0]
    with pytest.raises(FileError):
        panel.rate(0, 4, 2)
    assert panel.given(panel.observers[1]) == 0, "what is not on the disk was not rated"
