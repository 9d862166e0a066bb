"""Session and link files, read strictly: what is misspelt would be left out of the account, and nobody would notice.

They are TOML. Errors name the file, the entry and the key, and never what stands there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field, ValidationError

from microveil.core.atomic import shown
from microveil.core.errors import FileError, ParameterError, did_you_mean
from microveil.core.strict import Strict, read_toml

M = TypeVar("M", bound=Strict)


def _one_word(value: str) -> str:
    if not value.isprintable() or value != value.strip():
        raise ValueError("must be printable, without spaces around it")
    return value


Id = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_one_word)]
"""What a person or a stimulus is called, here and in the ratings."""


def read_strictly(kind: type[M], what: str, source: Mapping[str, Any] | str | Path, hint: str) -> M:
    """A file or a dict of the same shape; `what` it is, is said in front of what is wrong with a dict."""
    if isinstance(source, Mapping):
        return checked(kind, what, dict(source), hint)
    path = Path(source)
    content = read_toml(path, hint)
    try:
        return checked(kind, what, content, hint)
    except ParameterError as error:
        problem, better_hint = error.problem.removeprefix(f"{what}: "), error.hint
    raise FileError(f"{shown(path)} is no {what} file: {problem}", better_hint)


def checked(kind: type[M], what: str, content: Mapping[str, Any], hint: str) -> M:
    """The content, or an error that names the entry and the key."""
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
    message = str(first["msg"]).removeprefix("Value error, ")
    named = ".".join([*where, *(part for part in place[-1:] if isinstance(part, str))])
    raise ParameterError(f"{what}: {f'{named}: ' if named else ''}{message[:1].lower()}{message[1:]}", hint)


def _where(place: Sequence[int | str], content: Any) -> list[str]:
    """The way to the entry that is wrong: `stimuli 3 ('camera-5')`, counted from 1."""
    found: list[str] = []
    for part in place[:-1] if place and isinstance(place[-1], str) else place:
        content = _inner(content, part)
        if isinstance(part, str):
            found.append(part)
        elif found:
            name = content.get("id") if isinstance(content, Mapping) else None
            found[-1] += f" {part + 1}" + (f" ({shown(name)})" if isinstance(name, str) and len(name) <= 100 else "")
    return found


def _inner(content: Any, part: int | str) -> Any:
    if isinstance(content, Mapping):
        return content.get(part)
    return content[part] if isinstance(content, list | tuple) and isinstance(part, int) else None


def _inside(where: Sequence[str]) -> str:
    return f" in {'.'.join(where)}" if where else ""


def _keys(kind: type[Strict], place: Sequence[int | str]) -> list[str]:
    """The keys that there are at a place."""
    for part in place:
        if isinstance(part, str):
            inner = kind.model_fields[part].annotation
            kinds = [inner, *getattr(inner, "__args__", ())]
            kind = next(found for found in kinds if isinstance(found, type) and issubclass(found, Strict))
    return list(kind.model_fields)
