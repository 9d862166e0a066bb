"""Files to be read by tests, and how refusals of them are looked at."""

import traceback
from pathlib import Path

import pytest

from microveil.core.errors import MicroveilError

SENTINEL = "SECRET81234"


def save(folder: Path, content: str | bytes, name: str = "in.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def refused(kind: type[MicroveilError], action) -> str:
    """The message of an error, which is one line, leads out and holds no data, not even in its traceback."""
    with pytest.raises(kind) as caught:
        action()
    error = caught.value
    assert "\n" not in str(error)
    assert error.hint
    assert SENTINEL not in "".join(traceback.format_exception(error))
    chain = error
    while chain := chain.__cause__ or chain.__context__:
        assert SENTINEL not in repr(chain)
    return str(error)
