"""Files that are read strictly: what is misspelt would be left out, and nobody would notice.

They are TOML, or JSON if their names end so. Errors name the file, the entry and the key, and never the value.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_origin

import numpy as np
import tomli_w
from pydantic import BaseModel, ConfigDict, ValidationError

from microveil.core.errors import FileError, ParameterError, did_you_mean
from microveil.core.parameters import plain_reason
from microveil.storage.atomic import cannot, shown


class Strict(BaseModel):
    """Base of what these files hold: no key too many, no text for a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)


M = TypeVar("M", bound=Strict)


def read_config(path: Path, hint: str, *, what: str = "") -> dict[str, Any]:
    """The content of a JSON file, if its name ends so, else of a TOML file.

    Errors begin with `what` it should be, and end with the `hint`.
    """
    form, where = "JSON" if path.suffix.lower() == ".json" else "TOML", ""
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if form == "JSON" else tomllib.loads(text)
        if isinstance(content, dict):
            return content
    except OSError as error:
        raise cannot("read", path, error) from None
    except (tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        # Its message may quote the file, which may be the wrong one; only the line is shown.
        line = re.search(r"line (\d+)", str(error))
        where = f" (line {line[1]})" if line else ""
    except (UnicodeDecodeError, ValueError, RecursionError):  # ValueError: a null character in the path
        pass
    raise FileError(f"{what}{': ' if what else ''}{shown(path)} is not valid {form}{where}", hint)


def toml_text(content: Mapping[str, Any]) -> str:
    """The content as TOML, which has no empty value: what is not set is left out."""
    return tomli_w.dumps(_without_none(plain_data(content)))


def plain_data(value: Any) -> Any:
    """The value as files hold it: lists for tuples, text for paths and Python's numbers for numpy's."""
    if isinstance(value, Mapping):
        return {str(name): plain_data(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_data(item) for item in value]
    if isinstance(value, np.generic | np.ndarray):
        return plain_data(value.tolist())
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _without_none(content: Any) -> Any:
    """Leave out entries that are None: TOML has no such value."""
    if isinstance(content, Mapping):
        return {name: _without_none(value) for name, value in content.items() if value is not None}
    return [_without_none(value) for value in content] if isinstance(content, list) else content


def read_strictly(
    kind: type[M],
    what: str,
    source: Mapping[str, Any] | str | Path,
    hint: str,
    prepared: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> M:
    """The content of the `source`, a file or a dict of the same shape, as a `kind`.

    Errors about a dict begin with `what` it is, and end with the `hint`. `prepared` makes what this version reads of
    what an older one wrote.
    """
    if isinstance(source, Mapping):
        return checked(kind, what, prepared(dict(source)), hint)
    path = Path(source)
    content = read_config(path, hint)
    try:
        return checked(kind, what, prepared(content), hint)
    except ParameterError as error:
        problem, better_hint = error.problem.removeprefix(f"{what}: "), error.hint
    raise FileError(f"{shown(path)} is no {what} file: {problem}", better_hint)


def checked(kind: type[M], what: str, content: Mapping[str, Any], hint: str) -> M:
    """The `content` as a `kind`, or an error that names `what` it is, the entry and the key, and gives a `hint`."""
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
    # Outside the handler, so that the report of this error does not drag pydantic's along.
    place = first["loc"]
    where = _where(place, content)
    if first["type"] == "extra_forbidden":
        key, others = str(place[-1]), _keys(kind, place[:-1])
        raise ParameterError(f"{what}: there is no key {shown(key)}{_inside(where)}", did_you_mean(key, others))
    if first["type"] == "missing":
        raise ParameterError(f"{what}: '{place[-1]}' is missing{_inside(where)}", hint)
    message = plain_reason(first)
    named = ".".join([*where, *(part for part in place[-1:] if isinstance(part, str))])
    raise ParameterError(f"{what}: {f'{named}: ' if named else ''}{message}", hint)


def _where(place: Sequence[int | str], content: Any) -> list[str]:
    """The way to the entry that is wrong: `stimuli 3 ('camera-5')`, counted from 1."""
    found: list[str] = []
    for part in place[:-1] if place and isinstance(place[-1], str) else place:
        if isinstance(content, list | tuple):
            content = content[part] if isinstance(part, int) else None
        else:
            content = content.get(part) if isinstance(content, Mapping) else None
        if isinstance(part, str):
            found.append(part)
        elif found:
            name = content.get("id") if isinstance(content, Mapping) else None
            found[-1] += f" {part + 1}" + (f" ({shown(name)})" if isinstance(name, str) and len(name) <= 100 else "")
    return found


def _inside(where: Sequence[str]) -> str:
    return f" in {'.'.join(where)}" if where else ""


def _keys(kind: type[Strict], place: Sequence[int | str]) -> list[str]:
    """The keys that there are at a place."""
    chosen = False  # a key that the user chose may be called as one of ours
    for part in place:
        if chosen or not isinstance(part, str) or part not in kind.model_fields:
            chosen = False
            continue
        inner = kind.model_fields[part].annotation
        kinds = [inner, *getattr(inner, "__args__", ())]
        kind = next((found for found in kinds if isinstance(found, type) and issubclass(found, Strict)), kind)
        chosen = get_origin(inner) is dict
    return list(kind.model_fields)
