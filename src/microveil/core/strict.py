"""Files that are read strictly: what is misspelt would be left out, and nobody would notice."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from microveil.core.atomic import cannot, shown
from microveil.core.errors import FileError


class Strict(BaseModel):
    """Base of what these files hold: no key too many, no text for a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)


def read_toml(path: Path, hint: str, *, what: str = "") -> dict[str, Any]:
    """The content of a TOML file; `what` it should be is said in front of an error."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise cannot("read", path, error) from None
    except tomllib.TOMLDecodeError as error:
        # Its message may quote the file, which may be the wrong one; only the line is told.
        line = re.search(r"line (\d+)", str(error))
        where = f" (line {line[1]})" if line else ""
    except (UnicodeDecodeError, ValueError, RecursionError):  # ValueError: a null character in the path
        where = ""
    raise FileError(f"{what}{': ' if what else ''}{shown(path)} is not valid TOML{where}", hint)
