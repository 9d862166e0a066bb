"""A PostgreSQL server of our own: made in a temporary directory, reached by a socket in it, gone after the tests."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

USER, PASSWORD, DATABASE = "veil", "Tr0ub4dor", "postgres"


def binaries() -> Path | None:
    """Where the programs of the newest server on this machine are."""
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    return places[-1].parent if places else None


def _unprivileged() -> tuple[list[str], pwd.struct_passwd | None]:
    """How to run a program that refuses to be run by root, and as whom."""
    if os.geteuid() != 0:
        return [], None
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    user = names.get("postgres") or names["nobody"]
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"], user


@contextmanager
def server() -> Iterator[str]:
    """The address of a database on a running server, with its password in it."""
    programs = binaries()
    assert programs is not None
    prefix, user = _unprivileged()
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))  # short: the path of a socket has 107 characters
    try:
        (folder / "password").write_text(PASSWORD)
        if user is not None:
            for path in (folder, folder / "password"):
                os.chown(path, user.pw_uid, user.pw_gid)
        data = folder / "data"
        make = ["initdb", "-D", data, "-U", USER, "-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync"]
        _run([*prefix, programs / make[0], *make[1:], f"--pwfile={folder / 'password'}"])
        settings = ["-c", "listen_addresses=", "-c", "fsync=off", "-c", f"unix_socket_directories={folder}"]
        with (folder / "log").open("wb") as log:
            command = [*prefix, programs / "postgres", "-D", data, *settings]
            process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log, cwd=folder)
        try:
            _wait_for(data / "postmaster.pid", process)
            yield f"postgresql://{USER}:{PASSWORD}@/{DATABASE}?host={folder}"
        finally:
            process.terminate()
            process.wait(60)
    finally:
        shutil.rmtree(folder)


def _run(command: list[object]) -> None:
    subprocess.run([str(part) for part in command], check=True, capture_output=True, cwd="/")


def _wait_for(state: Path, process: subprocess.Popen[bytes]) -> None:
    """Until it takes connections, which may be a while after it made its socket on a busy machine."""
    for _ in range(600):
        if process.poll() is not None:
            raise RuntimeError("the server ended at once")
        if state.exists() and "ready" in state.read_text().split():
            return
        time.sleep(0.1)
    raise TimeoutError("the server does not answer")


def name() -> str:
    """A name for a table that no other test has."""
    return f"t_{secrets.token_hex(6)}"
