"""Somebody with a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

AXE = Path(__file__).parent / "app" / "axe.min.js"


@contextmanager
def opened(browser: Any, address: str, **how: Any) -> Iterator[Any]:
    """The first page, in a browser of its own; every error in it is noted, and it asks nobody else for anything."""
    size = {"width": 1280, "height": 900}
    context = browser.new_context(**{"viewport": size, "accept_downloads": True, "locale": "en-GB", **how})
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
