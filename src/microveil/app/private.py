"""The folder of a run of the app: for its owner only, and gone at the end, be it that of a kill.

A run that is killed cannot clear up. But the system lets go of its lock, so the next start knows whose folder it was.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from microveil.core.errors import FileError

PREFIX, LOCK = "microveil-app-", "lock"


@contextmanager
def private_folder() -> Iterator[Path]:
    """A folder that nobody else can look into; what earlier runs left behind is removed first."""
    # As `temporary_folder` has it, whose room takes long to load.
    place = Path(os.environ.get("MICROVEIL_TEMPORARY", "").strip() or tempfile.gettempdir())
    if not place.is_dir():
        raise FileError(f"MICROVEIL_TEMPORARY: there is no folder '{place}'", "create it, or unset it")
    for left in place.glob(f"{PREFIX}*"):
        _sweep(left)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))  # mkdtemp lets only its owner in
    handle = _locked(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def _locked(folder: Path) -> int | None:
    """The lock of a folder, held; None if another process holds it."""
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(handle)
    except OSError:
        os.close(handle)
        return None
    return handle


def _lock(handle: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]  # on Windows only
    else:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _sweep(folder: Path) -> None:
    """Remove a folder that no process holds; one of another user, or a link, is left alone."""
    with suppress(OSError):
        info = folder.lstat()
        ours = not hasattr(os, "getuid") or info.st_uid == os.getuid()
        if not ours or folder.is_symlink() or not (folder / LOCK).is_file():
            return
        handle = _locked(folder)
        if handle is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(handle)
