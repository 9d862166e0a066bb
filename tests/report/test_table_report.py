"""The report of a suppressed table: the picture, what is said aloud, and large or odd tables."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from test_browser import colours

from microveil.report import ReportedTable, table_texts
from microveil.report.tables import FURTHER, MOST_CELLS, MOST_INTERVALS, table_report

FRAMES = {"exactly determined": "exactly", "nearly determined": "nearly", "protected": "protected"}


def cell(*codes: str, value: float = 5.0, state: str = "published", **more: Any) -> dict[str, Any]:
    return {"codes": list(codes), "value": value, "state": state, **more}


def some() -> ReportedTable:
    verdicts = list(FRAMES)
    hidden = [
        cell(f"r{k}", "x", value=3 + k, state="primary" if k else "secondary", filled=2.5 + k, low=0, high=4 + 5 * k,
             verdict=verdicts[k])
        for k in range(3)
    ]  # fmt: skip
    return ReportedTable(
        ["row", "col"], "n", [cell("Total", "x"), *hidden, cell("r1", "y", value=7.25)], ["counts below 4 are hidden"],
        ["a warning & its <tags>"],
    )  # fmt: skip


def test_the_page_and_its_twin_say_the_same() -> None:
    texts = table_texts(some())
    told = json.loads(texts.json)
    assert told["table"]["counts"] == {"cells": 5, "published": 2, "secondary": 1, "primary": 2}
    assert told["table"]["verdicts"] == dict.fromkeys(sorted(FRAMES), 1)
    assert "counts below 4 are hidden" in texts.html
    assert "a warning &amp; its &lt;tags&gt;" in texts.html
    assert "5 cells of n by row, col: 2 published" in texts.html


def test_every_state_has_a_sign_a_colour_and_words() -> None:
    page = table_texts(some()).html
    for state, sign in (("primary", "●"), ("secondary", "○")):
        assert f'<td class="{state} ' in page
        assert f"table.cells td.{state} {{ background: #" in page
        assert f'<span aria-hidden="true">{sign}</span>' in page
    for verdict, word in FRAMES.items():
        assert re.search(rf'<td class="(primary|secondary) {word}">.*hidden, \w+, {verdict}: ', page)
    assert page.count('scope="col"') >= 5
    assert '<td><span class="spoken">not shown</span></td>' in page  # (Total, y) is not there


def test_numbers_are_shown_shortly() -> None:
    page = table_texts(
        ReportedTable(["a"], "n", [cell("x", value=1234567.0), cell("y", value=2 / 3, state="primary")], [])
    ).html
    assert "<td>1234567</td>" in page
    assert "(0.6667)" in page


def test_infinite_ends_are_told_and_not_drawn() -> None:
    endless = cell("x", state="primary", low=-float("inf"), high=float("inf"), verdict="protected")
    texts = table_texts(ReportedTable(["a"], "n", [cell("Total"), endless], []))
    told = json.loads(texts.json, parse_constant=pytest.fail)["table"]["cells"][1]
    assert (told["low"], told["high"]) == ("-Infinity", "Infinity")
    assert "Not drawn" in texts.html


def test_large_tables_are_counted_and_not_shown() -> None:
    cells = [cell(str(k), "x", state="primary", low=0, high=k, verdict="protected") for k in range(MOST_CELLS + 1)]
    texts = table_texts(ReportedTable(["row", "col"], "n", cells, []))
    assert "more than the 3,000 that a picture can show" in texts.html
    assert len(json.loads(texts.json)["table"]["cells"]) == MOST_CELLS + 1
    assert f"Shown are the {MOST_INTERVALS} narrowest of {MOST_CELLS + 1}" in texts.html


def test_names_are_escaped() -> None:
    page = table_texts(ReportedTable(["<b>"], "n", [cell("<script>alert(1)</script>")], [])).html
    assert "<script" not in page
    assert "<b>" not in page


def test_in_a_browser(browser: Any, tmp_path: Path) -> None:
    place = tmp_path / "table.html"
    place.write_text(table_texts(some()).html, encoding="utf-8")
    page = browser.new_page(viewport={"width": 1000, "height": 1200})
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(place.as_uri())
    assert said == []
    assert asked == [place.as_uri()], "nothing else is loaded"
    (drawn,) = page.query_selector_all("figure svg")
    assert colours(drawn.screenshot()) > 20
    backgrounds = {
        page.evaluate("cell => getComputedStyle(cell).backgroundColor", page.query_selector(f"td.{state}"))
        for state in ("primary", "secondary")
    }
    assert len(backgrounds) == 2
    heard = page.query_selector("td.primary").inner_text()
    assert "hidden, primary" in heard
    page.close()


def test_an_end_that_is_a_witness_is_told_from_one_that_is_exact() -> None:
    hidden = {"state": "primary", "low": 0.0, "high": 9.0, "verdict": "protected"}
    cells = [
        {"codes": ["a", "x"], "value": 4.0, "ends_known": False, **hidden},
        {"codes": ["a", "y"], "value": 5.0, "ends_known": True, **hidden},
    ]
    told = table_report(ReportedTable(["one", "other"], "n", cells, []))
    assert told["table"]["ends_not_searched"] == 1
    assert f"1 cells {FURTHER}" in told["plots"]["intervals"]["description"]
    assert [cell["ends_known"] for cell in told["grid"]["rows"][0]["cells"]] == [False, True]
    exact = table_report(ReportedTable(["one", "other"], "n", cells[1:], []))
    assert FURTHER not in exact["plots"]["intervals"]["description"]
