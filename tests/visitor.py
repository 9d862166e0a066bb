"""Somebody who visits the app without a browser."""

from __future__ import annotations

import time
import warnings
from typing import Any

with warnings.catch_warnings():  # its newest version wants another httpx
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

from microveil.app.cases import Case
from microveil.app.guard import AccessGuard, Keys
from microveil.app.pages import Pages

PORT = 8123
HOME = f"http://127.0.0.1:{PORT}"
OURS = {"origin": HOME}


class Visitor:
    """Somebody with a browser: requests with the cookie, forms as the pages send them."""

    def __init__(self, pages: Pages, keys: Keys, *, known: bool = True, first: str = "/") -> None:
        self.pages, self.keys = pages, keys
        self.http = TestClient(AccessGuard(pages.app, keys, PORT, first), base_url=HOME, follow_redirects=False)
        if known:
            self.http.get("/", params={"token": keys.token})

    @property
    def case(self) -> Case:
        return next(reversed(self.pages.desk.cases.values()))

    def send(self, name: str, content: bytes) -> Any:
        return self.http.put("/upload", params={"name": name}, content=content, headers=OURS)

    def page(self, step: str) -> str:
        answer = self.http.get(f"/case/{self.case.id}/{step}", follow_redirects=True)
        assert answer.status_code == 200, answer.text
        return str(answer.text)

    def do(self, deed: str, **form: str) -> str:
        """Send a form; where it leads to."""
        case = self.case
        form = {"seen": case.seen, "step": deed, **{name.replace("__", ":"): value for name, value in form.items()}}
        answer = self.http.post(f"/case/{case.id}/{deed}", data=form, headers=OURS)
        assert answer.status_code == 303, answer.text
        return str(answer.headers["location"]).rpartition("/")[2]

    def wait(self, seconds: float = 120) -> None:
        end = time.monotonic() + seconds
        while self.case.busy:
            assert time.monotonic() < end, "it takes too long"
            time.sleep(0.05)
