"""Starting the app: a socket that only this machine reaches, the address with its token, and pages behind the guard."""

from __future__ import annotations

import os
import socket
import sys
import warnings
from pathlib import Path

from microveil.core.errors import FileError, ParameterError

BACKLOG = 64


def serve(
    file: Path | None = None,
    port: int = 0,
    *,
    browser: bool = True,
    folder: Path | None = None,
    ratings: Path | None = None,
) -> None:
    """Run the app until it is stopped; the first line that is printed is the address to open.

    Args:
        file: a table to begin with, read where it lies; or the file of a session for raters.
        port: where to listen on 127.0.0.1; 0 for any that is free.
        browser: whether to open the address.
        folder: a folder whose files can be opened without being uploaded; nothing is written there.
        ratings: where ratings go, if `file` is a session.
    """
    for place, known in ((file, file is None or file.is_file()), (folder, folder is None or folder.is_dir())):
        if not known:
            raise FileError(f"there is no '{place}'", "check the path")
    listening = _socket(port)
    try:
        import uvicorn

        from microveil.app.guard import AccessGuard, Keys
    except ImportError:
        listening.close()
        raise ParameterError("the app needs packages that are not installed", "pip install 'microveil[app]'") from None
    from microveil.app.cases import Desk
    from microveil.app.pages import Pages
    from microveil.app.private import private_folder
    from microveil.app.work import WorkerPool

    workers, keys = WorkerPool(), Keys()
    number = listening.getsockname()[1]
    with private_folder() as private:
        pages = Pages(Desk(private), workers, folder)
        first = "/"
        if file is not None:
            if ratings is None:
                first = pages.opened(file).headers["location"]
            else:
                pages.home = f"/panel/{pages.rating.open(file, ratings).id}"
        address = f"http://127.0.0.1:{number}/?token={keys.token}"
        config = uvicorn.Config(
            AccessGuard(pages.app, keys, number, first),
            log_config=None,
            log_level="critical",  # addresses and errors may hold what nobody is to read
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        # Stopped before it began to serve, it ends as quietly as afterwards.
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
        try:
            print(address, flush=True)
            if browser:
                _open(address, private)
            uvicorn.Server(config).run(sockets=[listening])
        except KeyboardInterrupt:
            pass
        finally:
            workers.stop()


def _socket(port: int) -> socket.socket:
    """A socket that listens on this machine alone; a page that is asked for at once waits until it can be served."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if sys.platform != "win32":
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
        listening.listen(BACKLOG)
    except (OSError, OverflowError):
        listening.close()
        raise ParameterError(f"--port: {port} is taken or cannot be used", "leave it out for a free one") from None
    return listening


def _open(address: str, private: Path) -> None:
    """Open the address by a file that only its owner reads: what a browser is started with, every user can see."""
    import webbrowser

    page = private / "open.html"
    with os.fdopen(os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f'<!doctype html><title>microveil</title><meta http-equiv="refresh" content="0;url={address}">\n')
    webbrowser.open(page.as_uri())
