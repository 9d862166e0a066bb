"""Files that appear whole or not at all, and stay private until they are whole.

Everything microveil writes (tables, reports, recipes) goes through `atomic_target`, and what belongs together through
`atomic_targets`. A half-written release is worse than none, and a temporary file that others can read is a disclosure.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

from microveil.core.errors import FileError

# What "the disk is full" is called: the disk itself, the user's quota, the limit on a file's size.
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

PREFIX, SUFFIX = ".microveil-", ".tmp"
"""What temporary files are called."""

_at_work: set[Path] = set()
"""Temporary files of this process that have not become their targets yet."""

_for_owner: set[Path] = set()
"""Temporary files that their writers have called private."""


def shown(name: object) -> str:
    """A file or column name in quotes, on one line whatever characters it holds."""
    text = str(name)
    return f"'{text}'" if text.isprintable() else repr(text)


def error_code(error: BaseException) -> int | None:
    """The number the operating system gave. Polars leaves `errno` empty and writes it as `(os error 28)`."""
    code = getattr(error, "errno", None)
    if isinstance(code, int):
        return code
    found = re.search(r"\(os error (\d+)\)", str(error))
    return int(found[1]) if found else None


def cannot(verb: str, path: Path, error: BaseException) -> FileError:
    """The error for a file that cannot be read or written: the system's own word for why, and nothing else.

    The text of `error` is never shown, because libraries quote the data in theirs.
    """
    code = error_code(error)
    why = f" ({os.strerror(code).lower()})" if code is not None else ""
    if code in NO_SPACE:
        hint = "free some space, or choose another disk"
    elif code in (errno.EACCES, errno.EPERM, errno.EROFS):
        hint = "ask for the permission, or choose another place"
    else:
        hint = "check the path"
    return FileError(f"{shown(path)} cannot be {verb}{why}", hint)


@contextmanager
def system_errors(verb: str, path: Path) -> Iterator[None]:
    """Inside the block an error of the system is one of ours: that the file cannot be read, or written."""
    try:
        yield
    except OSError as error:
        raise cannot(verb, path, error) from None


def check_place(path: Path, inputs: Iterable[Path] = ()) -> None:
    """Refuse a target that could not be written, or that would overwrite an input, whatever its extension.

    The folder is tried with a real file: permissions alone do not tell about read-only or virtual file systems.
    """
    _check_existing(path)
    for source in inputs:
        if _is_same(path, source):
            raise FileError(f"{shown(path)} is one of the inputs", "give the output another name")
    folder = _real(path).parent
    if not folder.is_dir():
        raise FileError(f"{shown(path)} cannot be written: there is no folder {shown(folder)}", "create it first")
    with system_errors("written", path):
        path_tried, handle = _create(folder)
        path_tried.unlink()
        if handle is not None:
            os.close(handle)


def check_new(path: Path, *, overwrite: bool) -> None:
    """Refuse a target that exists, be it a link that leads nowhere, unless it was asked to be replaced."""
    if not overwrite and os.path.lexists(path):
        raise FileError(f"{shown(path)} exists already", "name another, or say --overwrite (overwrite=True)")


def check_within(path: Path, folder: Path, hint: str) -> None:
    """Refuse a target that is not below a folder, or to which a link leads on the way from there."""
    target, root = os.path.normpath(path.absolute()), os.path.realpath(folder)
    if not Path(target).is_relative_to(root):
        raise FileError(f"{shown(path)} is not below the folder of the recipe", hint)
    if os.path.realpath(path) != target:
        raise FileError(f"{shown(path)} is reached by a symbolic link", hint)


@contextmanager
def atomic_target(path: Path) -> Iterator[Path]:
    """A temporary file to write to, beside `path`, that takes the place of `path` when the block ends well.

    It is readable by its owner only until it is complete. On any failure, Ctrl-C included, it is removed and what
    was at `path` is untouched. A target that is a symbolic link is followed: the link stays.
    """
    with atomic_targets([path]) as (temporary,):
        yield temporary


@contextmanager
def atomic_targets(
    paths: Sequence[Path], shield: AbstractContextManager[None] | None = None, private: Collection[Path] = ()
) -> Iterator[tuple[Path, ...]]:
    """Temporary files that take the places of `paths`, in that order, once the block has written all of them.

    Nothing is replaced before every file is complete and on the disk, so a failure leaves all that was there as it
    was. `shield` surrounds the instant of the replacing, which should not be interrupted half-way. Those of `paths`
    that are `private` stay readable by their owner only. A path that is itself such a temporary file is written to as
    it is: it becomes visible with its own target, and private if it is here.
    """
    for path in paths:
        check_place(path)
    targets = [_real(path) for path in paths]
    if paths and all(target in _at_work for target in targets):
        _for_owner.update(_real(path) for path in private)
        with system_errors("written", paths[0]):
            yield tuple(targets)
        return
    temporaries: list[Path] = []
    handles: list[int] = []
    for folder in {target.parent for target in targets}:
        _sweep(folder)
    try:
        for path, target in zip(paths, targets, strict=True):
            with system_errors("written", path):
                temporary, handle = _create(target.parent)
                temporaries.append(temporary)
                handles += [] if handle is None else [handle]
                _at_work.add(temporary)
        with system_errors("written", paths[0]):  # of several, the writers tell their own errors
            yield tuple(temporaries)
        files = list(zip(paths, temporaries, targets, strict=True))
        for path, temporary, target in files:
            with system_errors("written", path):
                _sync(temporary, os.O_RDWR)  # or a crash could leave an empty target
                secret = path in private or temporary in _for_owner
                temporary.chmod(0o600 if secret else _permissions(temporary, target))
        with shield or nullcontext():
            for path, temporary, target in files:
                with system_errors("written", path):
                    temporary.replace(target)
        for target in targets:
            with suppress(OSError):  # the new names too, where folders can be synchronised
                _sync(target.parent, os.O_RDONLY)
    except FileError as error:
        raise _by_real_name(error, paths, temporaries) from None
    finally:
        for temporary in temporaries:
            _at_work.discard(temporary)
            _for_owner.discard(temporary)
            temporary.unlink(missing_ok=True)  # already gone when all went well: it has become the target
        for handle in handles:
            os.close(handle)


def _by_real_name(error: FileError, paths: Sequence[Path], temporaries: Sequence[Path]) -> FileError:
    """The error of a writer that knew only the temporary name, which says nothing to the user."""
    problem = error.problem
    for path, temporary in zip(paths, temporaries, strict=False):  # the last may not have been made
        problem = problem.replace(shown(temporary), shown(path))
    return error if problem == error.problem else FileError(problem, error.hint)


def _check_existing(path: Path) -> None:
    """Refuse to replace anything but a regular file that we may write."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        raise cannot("written", path, error) from None
    if stat.S_ISDIR(mode):
        raise FileError(f"{shown(path)} is a directory", "add a file name")
    if not stat.S_ISREG(mode):
        # Renaming over /dev/null or /dev/full would replace the device for every program on the machine.
        raise FileError(f"{shown(path)} is a device or a pipe", "write to an ordinary file")
    if not os.access(path, os.W_OK):
        raise FileError(f"{shown(path)} exists and is write-protected", "give the output another name")


def _is_same(path: Path, other: Path) -> bool:
    """Whether two paths lead to one file, by links or by another spelling."""
    try:
        return path.samefile(other)
    except OSError:
        return _real(path) == _real(other)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _create(folder: Path) -> tuple[Path, int | None]:
    """A new empty file, mode 0600 from the start, and a handle that holds its lock as long as this process lives.

    Its name is short: the target's may be as long as a name can be. Where there are no locks it is not held open:
    Windows renames no open file.
    """
    while True:
        handle, name = tempfile.mkstemp(prefix=PREFIX, suffix=SUFFIX, dir=os.path.realpath(folder))
        # Between making and locking it, another process may have taken it for one that was left behind.
        lock = _locked(handle)
        if lock and Path(name).exists():
            return Path(name), handle
        os.close(handle)
        if lock is None:
            return Path(name), None


def _sweep(folder: Path) -> None:
    """Remove what a process that was killed has left behind: files of ours whose lock nobody holds any more."""
    left: list[Path] = []
    with suppress(OSError):
        left = list(folder.glob(f"{PREFIX}*{SUFFIX}"))
    for path in left:
        with suppress(OSError):
            handle = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
            try:
                if hasattr(os, "getuid") and os.fstat(handle).st_uid == os.getuid() and _locked(handle) is True:
                    path.unlink()
            finally:
                os.close(handle)


def _locked(handle: int) -> bool | None:
    """Take the lock of a file: False if somebody has it. None where files have no locks: there nothing is swept."""
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    return True


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _permissions(temporary: Path, target: Path) -> int:
    """The mode of the finished file: that of the file it replaces, else what the umask says."""
    try:
        old = target.stat()
    except FileNotFoundError:
        # The mask can only be read by setting it. For that instant files of other threads are private, never open.
        mask = os.umask(0o077)
        os.umask(mask)
        return 0o666 & ~mask
    mode = old.st_mode & 0o777
    if not hasattr(os, "chown"):  # Windows
        return mode
    for owner in (old.st_uid, -1):
        with suppress(OSError):
            os.chown(temporary, owner, old.st_gid)
            return mode
    return mode & ~0o070  # the group's rights were meant for another group than ours
