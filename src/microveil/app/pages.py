"""The pages: they show a case and take what is decided about it. Nothing is computed here."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from microveil.app import actions
from microveil.app.cases import PLACES, STEPS, Candidate, Case, Desk
from microveil.app.guard import REPORT_POLICY
from microveil.app.rating import MOST_RATERS, RatingPages, form_of, there
from microveil.app.words import LANGUAGES, as_chosen, language_of, translator
from microveil.app.work import Work, WorkerPool
from microveil.core.errors import MicroveilError

HERE = Path(__file__).parent
LARGEST_UPLOAD = 1_000_000_000
"""Bytes; a larger file is opened where it lies: `microveil app FILE`, or --read-only-folder."""

EXTENSIONS = (
    *(".csv", ".tsv", ".txt", ".parquet", ".pq", ".arrow", ".feather", ".xlsx", ".sav", ".zsav", ".dta", ".xpt"),
    ".sas7bdat",
)
"""As in `io.tables.FORMATS`, which takes long to load."""

MOST_LISTED = 500
WRONG_KIND = "Files of this kind cannot be read. Use one of %(kinds)s."
TOO_LARGE = (
    "The file is larger than %(size)s GB. Open it where it lies: microveil app FILE, or microveil app "
    "--read-only-folder FOLDER."
)
NO_ROOM = "The file cannot be kept: the disk may be full."
EMPTY = "The file is empty: check that it is the right one."
BUSY = "Something is still being worked on: wait for it, or cancel it."
OLDER = "This was changed in another tab since you looked at it. Look again, then decide."
Endpoint = Callable[[Request], Awaitable[Response]]


class Pages:
    """The app behind the guard: its cases, those who work for it, and a page for each address."""

    def __init__(self, desk: Desk, workers: WorkerPool, folder: Path | None = None) -> None:
        """`folder` has files that can be opened without being uploaded; nothing is written there."""
        import jinja2

        self.desk, self.workers, self.folder, self.home = desk, workers, folder, ""
        loader = jinja2.FileSystemLoader(HERE / "templates")
        self.templates = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
        self.templates.filters |= {"percent": _percent, "bound": _bound}
        self.templates.filters |= {"figure": "{:.3g}".format, "code": "{:g}".format, "chosen": as_chosen}
        self.rating = RatingPages(self)
        case, run = "/case/{case}", "/case/{case}/run/{run}"
        routes = [
            Route("/", self.start),
            Route("/language/{language}", self.language, methods=["POST"]),
            Route("/example", self.example, methods=["POST"]),
            Route("/upload", self.upload, methods=["PUT"]),
            Route("/open", self.open, methods=["POST"]),
            Route(case, self.case_start),
            Route(f"{case}/progress", self.progress),
            Route(f"{case}/table.{{file}}", self.table),
            Route(f"{case}/panel", self.make_panel, methods=["POST"]),
            Route(f"{case}/{{action:str}}", self.step),
            Route(f"{case}/{{action:str}}", self.action, methods=["POST"]),
            Route(f"{run}/pictures.json", self.pictures),
            Route(f"{run}/points.json", self.points),
            Route(f"{run}/{{file}}", self.file),
            *self.rating.routes(),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ]
        self.app = Starlette(routes=routes, exception_handlers={Exception: _fault, 404: _lost})

    # --- Pages

    async def start(self, request: Request) -> Response:
        """What is open, and how to open more."""
        if self.home:
            return RedirectResponse(self.home, 303)
        threading.Thread(target=self._get_ready, daemon=True).start()
        return self.page(request, "start", files=self._files(), extensions=EXTENSIONS, limit=LARGEST_UPLOAD)

    def _get_ready(self) -> None:
        """While somebody looks at the first page: what the others need."""
        self.workers.warm()
        import microveil.app.shown  # noqa: F401 - only to have it loaded

    async def case_start(self, request: Request) -> Response:
        """The step at which a case is."""
        case = self.desk.cases.get(request.path_params["case"])
        return RedirectResponse("/" if case is None else f"/case/{case.id}/{actions.step_of(case)}", 303)

    async def step(self, request: Request) -> Response:
        """One of the five steps."""
        from microveil.app import shown

        case, step = self._case(request), request.path_params["action"]
        if step not in PLACES:
            raise HTTPException(404)
        busy = case.busy  # asked once: work that ends while the page is made must not leave it without its content
        ready = case.table is not None and (step not in ("compare", "release") or case.candidates)
        if step != "data" and not ready and not busy:
            return RedirectResponse(f"/case/{case.id}/{'data' if case.table is None else 'protect'}", 303)
        notice, case.notice = case.notice, ""
        if case.work is not None and case.work.failed and case.table is not None:  # told once; the table is there still
            notice, case.work = case.work.failed, None
        content = {} if busy or case.table is None else shown.PAGES[step](case, request.query_params)
        return self.page(request, step, case=case, busy=busy, notice=notice, steps=STEPS, **content)

    async def action(self, request: Request) -> Response:
        """Do what a form says, and show what came of it."""
        case, action = self._case(request), request.path_params["action"]
        if action not in actions.ACTIONS:
            raise HTTPException(404)
        form = await form_of(request)
        if form is None:
            return PlainTextResponse("The form is too large.\n", 413)
        go = actions.step_of(case)
        if action == "close":
            self.desk.close(case.id)
            return RedirectResponse("/", 303)
        if case.busy and action != "cancel":
            case.notice = BUSY
        elif action != "cancel" and form.get("seen") != case.seen:
            case.notice = OLDER
            go = form.get("step", go)
        else:
            try:
                go = actions.ACTIONS[action](case, form, self.workers)
            except MicroveilError as error:
                case.notice, go = str(error), form.get("step", go)
        return RedirectResponse(f"/case/{case.id}/{go if go in PLACES else 'data'}", 303)

    async def make_panel(self, request: Request) -> Response:
        """A session for raters, of the candidates of a case."""
        case, form = self._case(request), await form_of(request) or {}
        if case.busy or not any(run.result["written"] for run in case.candidates):
            raise HTTPException(404)
        raters = form.get("raters", "").strip()
        if not raters.isdecimal() or not 1 <= int(raters[:9]) <= MOST_RATERS:
            case.notice = f"Say how many raters there are: 1 to {MOST_RATERS}."
            return RedirectResponse(f"/case/{case.id}/compare", 303)
        return RedirectResponse(f"/panel/{self.rating.make(case, int(raters)).id}", 303)

    # --- Opening files

    async def example(self, request: Request) -> Response:
        """The bundled survey."""
        from microveil.catalogue import example_file

        return self.opened(example_file())

    async def open(self, request: Request) -> Response:
        """A file of the folder, by its place in the list: no path comes from a page."""
        form, files = await form_of(request) or {}, self._files()
        number = form.get("file", "")
        if not number.isdecimal() or int(number) >= len(files):
            return RedirectResponse("/", 303)
        return self.opened(files[int(number)])

    def opened(self, file: Path) -> Response:
        """A case for a file of this machine."""
        case = self.desk.open(file.name, file)
        actions.describe(case, self.workers)
        return RedirectResponse(f"/case/{case.id}/data", 303)

    async def upload(self, request: Request) -> Response:
        """A file, as it comes, into a private file; what is too large is refused as soon as that is known."""
        name, _ = request.query_params.get("name", ""), self._words(request)[1]
        if not name.lower().endswith(EXTENSIONS):
            return _refused(_(WRONG_KIND, kinds=", ".join(EXTENSIONS)))
        too_large = _(TOO_LARGE, size=f"{LARGEST_UPLOAD / 1e9:g}")
        announced = request.headers.get("content-length", "0")
        if not announced.isdecimal() or int(announced) > LARGEST_UPLOAD:
            return _refused(too_large, 413)
        case = self.desk.open(name)
        size = 0
        try:
            with _private_file(case.source) as file:
                async for part in request.stream():
                    size += len(part)
                    if size > LARGEST_UPLOAD:
                        break
                    file.write(part)
        except BaseException as error:  # a page that was closed half-way, a full disk
            self.desk.close(case.id)
            if isinstance(error, OSError):
                return _refused(_(NO_ROOM), 507)
            raise
        if size == 0 or size > LARGEST_UPLOAD:
            self.desk.close(case.id)
            return _refused(_(EMPTY) if size == 0 else too_large, 413)
        actions.describe(case, self.workers)
        return JSONResponse({"go": f"/case/{case.id}/data"})

    # --- What pages ask for

    async def progress(self, request: Request) -> Response:
        """How far the work on a case is."""
        case = self.desk.cases.get(request.path_params["case"])
        return self.progress_of(request, None if case is None else case.work)

    def progress_of(self, request: Request, work: Work | None) -> Response:
        """How far some work is, in the language of whoever asks."""
        if work is None:
            return JSONResponse({"over": True})
        state = work.to_dict()
        return JSONResponse({**state, "step": self._words(request)[1](state["step"])})

    async def pictures(self, request: Request) -> Response:
        """The pictures of a run."""
        from microveil.app import views

        return JSONResponse(views.pictures(self._run(request)))

    async def points(self, request: Request) -> Response:
        """Records before and after, for the scatter plot."""
        return JSONResponse(dict(self._run(request).result["points"]))

    async def file(self, request: Request) -> Response:
        """A file of a run, to be kept; or a report, to be looked at."""
        from microveil.app import shown

        run, wanted = self._run(request), request.path_params["file"]
        if wanted == "everything.zip":
            headers = _kept_as(f"{Path(run.output).stem}.zip")
            return Response(shown.everything(run), media_type="application/zip", headers=headers)
        path = shown.files(run).get(wanted)
        view = "view" in request.query_params and path is not None and path.suffix == ".html"
        return _of_file(path, view=view, kind="application/octet-stream")

    async def table(self, request: Request) -> Response:
        """The table, to be kept; or its report, to be looked at."""
        case, wanted = self._case(request), request.path_params["file"]
        file = None if case.grid is None else case.grid.get("file" if wanted == "csv" else "report")
        return _of_file(file, view=wanted == "html")

    async def language(self, request: Request) -> Response:
        """Another language from here on."""
        form = await form_of(request) or {}
        back = form.get("back", "/")
        answer = RedirectResponse(back if back.startswith("/") and back[1:2] not in ("/", "\\") else "/", 303)
        language = request.path_params["language"]
        if language in LANGUAGES:
            answer.set_cookie("microveil-language", language, httponly=True, samesite="strict", path="/")
        return answer

    def page(self, request: Request, name: str, **content: Any) -> Response:
        """A page in the language of whoever asks."""
        language, words = self._words(request)
        known = {"_": words, "language": language, "languages": LANGUAGES, "desk": self.desk}
        text = self.templates.get_template(f"{name}.html.j2").render(
            **known, page=name, path=request.url.path, **content
        )
        return HTMLResponse(text)

    def _words(self, request: Request) -> tuple[str, Callable[..., str]]:
        language = language_of(request.cookies.get("microveil-language"), request.headers.get("accept-language", ""))
        return language, translator(language)

    def _case(self, request: Request) -> Case:
        return there(self.desk.cases.get(request.path_params["case"]))

    def _run(self, request: Request) -> Candidate:
        return there(self._case(request).runs.get(request.path_params["run"]))

    def _files(self) -> list[Path]:
        """What can be opened in the folder, and in folders below it."""
        if self.folder is None:
            return []
        found = (path for path in sorted(self.folder.rglob("*")) if path.suffix.lower() in EXTENSIONS)
        inside = (path for path in found if path.is_file() and path.resolve().is_relative_to(self.folder.resolve()))
        return [path for path, _ in zip(inside, range(MOST_LISTED), strict=False)]


def _bound(end: Any) -> str:
    """An end of an interval; there may be none."""
    return "∞" if isinstance(end, str) or end is None else f"{end:,.6g}"


def _percent(share: float) -> str:
    """0.0312 as 3.1 %."""
    return f"{100 * share:.2g} %" if 0 < share < 0.1 else f"{100 * share:.0f} %"


def _private_file(path: Path) -> BinaryIO:
    """A new file that only its owner can read."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _of_file(path: Path | None, *, view: bool, kind: str | None = None) -> Response:
    """A file to be kept; or a report to be looked at (`view`)."""
    if path is None or not path.is_file():
        raise HTTPException(404)
    if view:
        return HTMLResponse(path.read_text(encoding="utf-8"), headers={"content-security-policy": REPORT_POLICY})
    return FileResponse(path, media_type=kind, headers=_kept_as(path.name))


def _kept_as(name: str) -> dict[str, str]:
    return {"content-disposition": f"attachment; filename*=UTF-8''{quote(name)}"}


def _refused(sentence: str, code: int = 400) -> Response:
    return JSONResponse({"failed": sentence}, code)


async def _lost(request: Request, error: Exception | None) -> Response:
    return PlainTextResponse("There is no such page. It may have been closed: go back to the start.\n", 404)


async def _fault(request: Request, error: Exception) -> Response:
    """The message of an unforeseen error may quote data: only its kind and place are shown, and nothing is logged."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    return PlainTextResponse(f"internal fault: {type(error).__name__} at {where}; please report it\n", 500)
