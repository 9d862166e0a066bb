"""Pages for a panel of raters: one for the organiser, who sees how far everybody is and the scores; and theirs.

A machine that is handed over has the cookie of raters, with which nothing else can be asked for; the organiser comes
back by the address that was printed at the start. Raters are told neither which side is which nor what others said.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Route

from microveil.app.cases import Case, Desk
from microveil.app.panel import MARKS, SIDES, Panel
from microveil.app.work import Work, WorkerPool
from microveil.core.errors import MicroveilError

MOST_RATERS = 500
LARGEST_FORM = 2_000_000
NOT_KEPT = "Your marks could not be written. Please call the organiser."


Thing = TypeVar("Thing")


class Surroundings(Protocol):
    """What these pages need of the app that they are part of."""

    desk: Desk
    workers: WorkerPool
    home: str

    def page(self, request: Request, name: str, **content: Any) -> Response:
        """A page in the language of whoever asks."""

    def progress_of(self, request: Request, work: Work | None) -> Response:
        """How far some work is."""


def there(found: Thing | None) -> Thing:
    """What a request asks for; if there is no such thing, the page that says so."""
    if found is None:
        raise HTTPException(404)
    return found


async def form_of(request: Request) -> dict[str, str] | None:
    """What was typed into a form; None if it is too large."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_FORM:
            return None
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


class RatingPages:
    """What panels show, and what forms do to them."""

    def __init__(self, pages: Surroundings) -> None:
        """`pages` are those of the app, which these are part of."""
        self.pages, self.desk = pages, pages.desk

    def routes(self) -> list[Route]:
        """Their addresses."""
        panel = "/panel/{panel}"
        return [
            Route("/rate", self.rate),
            Route("/rate", self.mark, methods=["POST"]),
            Route("/rate/{action:str}", self.come_or_go, methods=["POST"]),
            Route("/rate/{place:int}/{side}", self.view),
            Route(panel, self.organiser),
            Route(f"{panel}/progress", self.progress),
            Route(f"{panel}/{{action:str}}", self.action, methods=["POST"]),
            Route(f"{panel}/{{file:str}}", self.file),
        ]

    # --- Sessions

    def open(self, session: Path, ratings: Path) -> Panel:
        """A session from its file; ratings go where they are told to."""
        panel = self._new(session.name, session, ratings)
        task = {"task": "panel", "session": str(session.resolve()), "ratings": str(ratings.resolve())}
        panel.work = self.pages.workers.begin("Preparing the pairs", task, panel.folder, panel.opened)
        return panel

    def make(self, case: Case, raters: int) -> Panel:
        """A session of the candidates of a case."""
        panel = self._new(case.name, Path("session.toml"), Path("ratings.csv"))
        panel.session, panel.ratings = panel.folder / panel.session, panel.folder / panel.ratings
        panel.case = case.id
        (panel.folder / case.name).symlink_to(case.source.resolve())
        written = [run for run in case.candidates if run.result["written"]]
        candidates = {f"candidate {run.number}": str(run.folder / run.output) for run in written}
        task = {"task": "session", "source": case.name, "reading": dict(case.choices.reading), "observers": raters}
        panel.work = self.pages.workers.begin(
            "Preparing the pairs", {**task, "candidates": candidates}, panel.folder, panel.opened
        )
        return panel

    def _new(self, name: str, session: Path, ratings: Path) -> Panel:
        key = secrets.token_hex(8)
        folder = self.desk.folder / key
        folder.mkdir(mode=0o700)
        self.desk.panels[key] = Panel(key, name, folder, session, ratings)
        return self.desk.panels[key]

    # --- For the organiser

    async def organiser(self, request: Request) -> Response:
        """How far everybody is, and what they said together."""
        panel = self._panel(request)
        return self.pages.page(request, "panel", panel=panel, busy=panel.busy)

    async def action(self, request: Request) -> Response:
        """Hand over, ask for scores, cancel, close."""
        panel, action = self._panel(request), request.path_params["action"]
        if action == "close":
            self.desk.close_panel(panel.id)
            self.pages.home = ""
            return RedirectResponse("/", 303)
        if action == "cancel" and panel.work is not None:
            panel.work.cancel()
        elif action == "hand-over" and panel.ready:
            panel.rater = ""
            guard = request.scope["guard"]
            answer: Response = guard.with_cookie(RedirectResponse("/rate", 303), guard.keys.for_raters(panel.id))
            return answer
        elif action == "scores" and panel.ready and not panel.busy:
            task = {"task": "scores", "session": str(panel.session.resolve()), "ratings": str(panel.ratings.resolve())}

            def done(found: dict[str, Any]) -> None:
                panel.scores = found

            panel.work = self.pages.workers.begin("Working the scores out", task, panel.folder, done)
        return RedirectResponse(f"/panel/{panel.id}", 303)

    async def progress(self, request: Request) -> Response:
        """How far the work on a panel is."""
        panel = self.desk.panels.get(request.path_params["panel"])
        return self.pages.progress_of(request, None if panel is None else panel.work)

    async def file(self, request: Request) -> Response:
        """The session or the ratings, to be kept."""
        panel = self._panel(request)
        files, wanted = {"session.toml": panel.session, "ratings.csv": panel.ratings}, request.path_params["file"]
        path = there(files.get(wanted) if files.get(wanted, Path()).is_file() else None)
        return FileResponse(path, filename=wanted, media_type="application/octet-stream")

    # --- For raters

    async def rate(self, request: Request) -> Response:
        """The next pair; or, if nobody is at it, who is next."""
        panel = self._handed_over(request)
        said, panel.said = panel.said, ""
        now = panel.now()
        if now is None:
            return self.pages.page(request, "raters", notice=said, left=panel.left(), thanks=panel.rater)
        who, place = now
        kinds = [view.suffix for side in SIDES if (view := panel.view(place, side)) is not None]
        content = {"place": place, "count": len(who["order"]), "marks": MARKS, "sides": SIDES, "rater": who["id"]}
        return self.pages.page(request, "rate", notice=said, picture=kinds == [".png"] * 2, **content)

    async def mark(self, request: Request) -> Response:
        """Keep two marks."""
        panel, form = self._handed_over(request), await form_of(request) or {}
        typed = [form.get(name, "") for name in ("place", *SIDES)]
        if all(text.isdecimal() and len(text) < 9 for text in typed):
            try:
                panel.rate(*map(int, typed))
            except (MicroveilError, OSError):
                panel.said = NOT_KEPT
        return RedirectResponse("/rate", 303)

    async def come_or_go(self, request: Request) -> Response:
        """Somebody begins, or leaves for now."""
        panel, form = self._handed_over(request), await form_of(request) or {}
        who = form.get("rater", "")
        panel.rater = who if request.path_params["action"] == "begin" and who in panel.left() else ""
        return RedirectResponse("/rate", 303)

    async def view(self, request: Request) -> Response:
        """One side of the pair that is shown: without a name, a date or a size on the disk."""
        panel = self._handed_over(request)
        path = there(panel.view(request.path_params["place"], request.path_params["side"]))
        kind = "image/png" if path.suffix == ".png" else "application/json"
        return Response(path.read_bytes(), media_type=kind)

    def _panel(self, request: Request) -> Panel:
        return there(self.desk.panels.get(request.path_params["panel"]))

    def _handed_over(self, request: Request) -> Panel:
        return there(self.desk.panels.get(request.scope.get("panel", "")))
