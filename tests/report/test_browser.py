"""Reports in a real browser: quiet, offline, and with pictures that show something."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import microveil as mv


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    rng = np.random.default_rng(1)
    data = np.exp(rng.normal(size=(300, 4)) @ rng.normal(size=(4, 4)) / 2)
    release = mv.protect(data, "pca", seed=1, components=2)
    study = mv.compare(data, ["noise", "ipso"], repeats=2, measures=["dbrl", "pil"], seed=1, workers=1)
    found = mv.assess(data, release.data, measures=["dbrl", "pil", "ks"], seed=1)
    pages = {audience: folder / f"{audience}.html" for audience in ("internal", "public")}
    for audience, page in pages.items():
        release.report(page, audience, assessment=found, study=study)
    return pages


def colours(png: bytes) -> int:
    """How many different colours a picture has; a blank one has one."""
    width, height, depth, kind = struct.unpack(">IIBB", png[16:26])
    assert depth == 8
    channels = {2: 3, 6: 4}[kind]
    body, place = b"", 8
    while place < len(png):
        (size,), name = struct.unpack(">I", png[place : place + 4]), png[place + 4 : place + 8]
        body += png[place + 8 : place + 8 + size] if name == b"IDAT" else b""
        place += size + 12
    lines = np.frombuffer(zlib.decompress(body), np.uint8).reshape(height, 1 + width * channels)
    # Filters tell a pixel by its neighbours: where every line is nothing but a repetition, nothing is drawn.
    return len(np.unique(lines[:, 1:].reshape(-1, channels), axis=0))


@pytest.mark.parametrize(("audience", "pictures"), [("internal", 9), ("public", 3)])
def test_a_report_in_a_browser(browser: Any, reports: dict[str, Path], audience: str, pictures: int) -> None:
    page = browser.new_page(viewport={"width": 1000, "height": 1400})
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(reports[audience].as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert asked == [reports[audience].as_uri()], "nothing else is loaded"
    assert said == []
    drawn = page.query_selector_all("figure svg")
    assert len(drawn) == pictures
    for picture in drawn:
        box = picture.bounding_box()
        assert 50 < box["width"] <= 1000
        assert box["height"] > 50
        assert colours(picture.screenshot()) > 20
    page.close()


def test_a_blank_picture_is_told(browser: Any) -> None:
    page = browser.new_page()
    page.set_content('<svg width="300" height="200"><rect width="300" height="200" fill="#fafafa"/></svg>')
    assert colours(page.query_selector("svg").screenshot()) <= 4
    page.close()


def test_it_prints_on_a4(browser: Any, reports: dict[str, Path]) -> None:
    page = browser.new_page()
    page.goto(reports["internal"].as_uri())
    printed = page.pdf(prefer_css_page_size=True)
    assert 1 <= printed.count(b"/Type /Page\n") <= 4
    assert printed.startswith(b"%PDF")
    assert b"/MediaBox [0 0 594.95996 841.91998]" in printed or b"/MediaBox [0 0 595" in printed
    page.set_viewport_size({"width": 673, "height": 1000})  # what A4 leaves between its margins
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 673, "nothing is cut off at the right"
    page.close()
