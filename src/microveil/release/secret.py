"""A file for its owner only that salts the seed: who knows the seed, and all of the data but a cell, learns nothing.

The streams of a seed follow from the seed and the data. So an intruder who knows both, but for one cell, can
try what the cell may be: the truth gives the release to the last bit. With a secret added to the seed, every try gives
another release.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from pathlib import Path

from microveil.core.errors import FileError, ParameterError
from microveil.storage.atomic import atomic_targets, shown, system_errors

BYTES = 32
PrivatePath = str | Path | None


def secret_key(path: PrivatePath, *, made: bool = True) -> bytes:
    """The key in a file of one's own; nothing without a file. A file that is not there is `made`, or missed by name."""
    if path is None:
        return b""
    file = as_path(path, "secret")
    if not file.exists():
        if not made:
            raise FileError(f"secret: there is no file {shown(file)}", "without it the release cannot be repeated")
        with atomic_targets([file], private=[file]) as (temporary,):
            temporary.write_text(secrets.token_hex(BYTES) + "\n", encoding="ascii")
    text = private_text(file, "secret", most=256)
    if re.fullmatch(rf"[0-9a-f]{{{2 * BYTES}}}\s*", text) is None:
        raise FileError(f"secret: {shown(file)} is no secret of microveil", "name a new file, and it will be made")
    return bytes.fromhex(text.strip())


def private_text(path: Path, what: str, most: int) -> str:
    """The text of a file that nobody else may read or write; nothing of it is in an error."""
    with system_errors("read", path), path.open("rb") as stream:
        mode = os.fstat(stream.fileno()).st_mode
        if not stat.S_ISREG(mode):
            raise FileError(f"{what}: {shown(path)} is no ordinary file", "name another")
        if os.name == "posix" and mode & 0o077:
            raise FileError(f"{what}: others may read or write {shown(path)}", "chmod 600 it, if they have not yet")
        content = stream.read(most + 1)
    return "" if len(content) > most else content.decode("utf-8", errors="replace")


def as_path(path: str | Path, what: str) -> Path:
    """The path of a private file."""
    if not isinstance(path, str | Path) or not str(path):
        raise ParameterError(f"{what}: takes the path of a file", "name one for its owner only")
    return Path(path)
