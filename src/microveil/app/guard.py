"""Who may talk to the app: only whoever has the address that was printed, from a page of the app itself.

Other pages in the same browser can send requests to this machine (cross-site posts, and by a name of their own that
leads here: DNS rebinding), and other users of the machine can reach its ports. So a request needs the right Host, a
cookie that only the first address gives, and, if it changes something, an Origin that is ours.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; sandbox"
"""For a report, which has its style in itself and no script."""

HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with none at all, a form of our own would be sent without its origin
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
FOR_RATERS = ("/rate/", "/static/", "/language/")
"""Addresses that raters may ask for: nothing of the files, of the session, or of what others said."""

GO_ON = '<!doctype html><html lang="en"><title>microveil</title><meta http-equiv="refresh" content="0;url={}">\n'
ASK_AGAIN = "This page needs the address that `microveil app` printed when it started: open that one.\n"


@dataclass(frozen=True, repr=False)
class Keys:
    """The secrets of one run of the app: the token of the first address, and what the cookie holds."""

    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    cookie: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    raters: dict[str, str] = field(default_factory=dict)
    """Panels by what the cookie of their raters holds."""

    def for_raters(self, panel: str) -> str:
        """A new cookie for the raters of a panel, who can do nothing else with it; those before count no more."""
        for known in [cookie for cookie, one in self.raters.items() if one == panel]:
            del self.raters[known]
        cookie = secrets.token_urlsafe(32)
        self.raters[cookie] = panel
        return cookie


class AccessGuard:
    """Lets requests through to the pages, or refuses them; and puts the same headers on every answer."""

    def __init__(
        self, pages: Callable[[Scope, Receive, Send], Awaitable[None]], keys: Keys, port: int, first: str = "/"
    ) -> None:
        """`pages` are what is guarded, `port` is that of the server, `first` the page to which the token leads."""
        self.pages, self.keys, self.first = pages, keys, first
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        # Cookies know no ports: two apps on one machine must not take each other's.
        self.cookie = f"microveil-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":  # there is nothing else here; and no start or end that pages wait for
            return

        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message.setdefault("headers", []))
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        scope["guard"] = self
        refusal = self.refusal(scope)
        await (refusal or self.pages)(scope, receive, with_headers)

    def refusal(self, scope: Scope) -> Response | None:
        """What is answered to a request that is not let through: a refusal, or the cookie for the right token."""
        headers = Headers(scope=scope)
        if headers.get("host") not in self.hosts:
            return PlainTextResponse("This app answers on this machine only.\n", 421)
        origin = headers.get("origin")
        safe = scope["method"] in ("GET", "HEAD")
        if (origin is None and not safe) or (origin is not None and origin.removeprefix("http://") not in self.hosts):
            return PlainTextResponse("A page of another site cannot do this.\n", 403)
        request, path = Request(scope), scope["path"]
        if path == "/" and safe and self._same(request.query_params.get("token"), self.keys.token):
            # So that the token is not what stands in the address bar. A browser that was sent here by another page, or
            # by the file that `serve` opens, gives a strict cookie back only to a page that leads on itself.
            led = headers.get("sec-fetch-site") == "cross-site"
            answer = HTMLResponse(GO_ON.format(self.first)) if led else RedirectResponse(self.first, 303)
            return self.with_cookie(answer, self.keys.cookie)
        given = request.cookies.get(self.cookie)
        owner = self._same(given, self.keys.cookie)
        panel = next((panel for cookie, panel in list(self.keys.raters.items()) if self._same(given, cookie)), None)
        if not owner and panel is None:
            return PlainTextResponse(ASK_AGAIN, 403)
        # Another page may lead here; but only to the start, where nothing is done.
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and path != "/":
            return PlainTextResponse("A page of another site cannot do this.\n", 403)
        if owner:
            return RedirectResponse("/", 303) if "token" in request.query_params or path.startswith("/rate") else None
        scope["panel"] = panel
        allowed = path == "/rate" or path.startswith(FOR_RATERS)
        return None if allowed else RedirectResponse("/rate", 303) if safe else PlainTextResponse(ASK_AGAIN, 403)

    def with_cookie(self, answer: Response, content: str) -> Response:
        """The answer, which gives the one cookie that lets somebody in."""
        answer.set_cookie(self.cookie, content, httponly=True, samesite="strict", path="/")
        return answer

    @staticmethod
    def _same(given: str | None, secret: str) -> bool:
        return given is not None and hmac.compare_digest(given.encode(), secret.encode())
