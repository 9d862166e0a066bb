"""How an option is declared, and what follows from it: flags, signatures and docstrings."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import Any, Final, Literal, Self, TypeVar

from pydantic import Field
from pydantic.fields import FieldInfo

from microveil.core.errors import ParameterError, did_you_mean
from microveil.core.parameters import Step, validated

METAVARS: Final[Mapping[str, str | None]] = {
    "argument": None,  # without a flag
    "bounds": "COLUMN=LOW:HIGH[:STEP]",  # repeatable
    "column": None,
    "columns": "A,B",
    "formula": "X,Y",  # or a formula
    "ids": "A,B",
    "kinds": "COLUMN=KIND",  # repeatable
    "levels": "COLUMN=A,B",  # repeatable
    "limits": "ID=VALUE",  # repeatable
    "methods": "'A, B KEY=VALUE'",
    "number": "N",
    "pairs": "KEY=VALUE",  # repeatable
    "path": "FILE",
    "place": "FILE",  # or a table of a database
    "plain": None,
    "rules": "FILE",  # or a word
    "settings": "ID.NAME=VALUE",  # repeatable
    "tables": "A,B",  # repeatable
}
"""The kinds of options: what stands for a value in the help, if the option says nothing else."""

REPEATABLE: Final = ("bounds", "kinds", "levels", "limits", "pairs", "settings", "tables")

F = TypeVar("F", bound=Callable[..., Any])


def option(
    default: Any,
    meaning: str,
    kind: str = "plain",
    *,
    metavar: str | None = None,
    flag: str | None = None,
    only: Literal["python", "command line"] | None = None,
    explained: str | None = None,
) -> Any:
    """A declared option.

    Args:
        default: what holds if it is not given; `...` if it must be given.
        meaning: the help line.
        kind: how it is typed, one of `METAVARS`.
        metavar: what stands for its value in the help, if not what its kind says.
        flag: the flags, separated by a blank, if not `--name`.
        only: where it exists, if not in Python and on the command line.
        explained: what the Python docstring says, if more than the help line.
    """
    extra = {"kind": kind, "metavar": metavar or METAVARS[kind], "flag": flag, "only": only, "explained": explained}
    return Field(default, description=meaning, json_schema_extra={k: v for k, v in extra.items() if v})


def same_as(model: type[Options], name: str) -> Any:
    """The option of another job, with its type, default and help line."""
    return copy(model.model_fields[name])


class Options(Step):
    """Base of the options of a job."""

    @classmethod
    def checked(cls, given: Mapping[str, Any]) -> Self:
        """The options with these values; an unknown name is refused with the nearest known one."""
        for name in given:
            if name not in cls.model_fields:
                raise ParameterError(f"there is no option '{name}'", did_you_mean(name, cls.model_fields))
        return validated(cls, given)

    @classmethod
    def about(cls, name: str) -> Mapping[str, Any]:
        """What is declared of an option in addition to its type and default."""
        found = cls.model_fields[name].json_schema_extra
        return found if isinstance(found, dict) else {}

    @classmethod
    def flags(cls, name: str) -> list[str]:
        """The flags of an option on the command line."""
        return str(cls.about(name).get("flag", f"--{name.replace('_', '-')}")).split()

    @classmethod
    def split(cls, given: Mapping[str, Any]) -> tuple[Self, dict[str, Any]]:
        """The options among keyword arguments, and the others: the parameters of a method."""
        own = {name for name in cls.model_fields if cls.about(name).get("only") != "command line"} & given.keys()
        return cls.checked({n: given[n] for n in own}), {n: value for n, value in given.items() if n not in own}

    def changed(self, names: Iterable[str]) -> dict[str, Any]:
        """Those of the named options that are not at their default."""
        found = {}
        for name in names:
            value, default = getattr(self, name), type(self).model_fields[name].default
            if value is not None if default is None else value != default:  # a frame cannot be compared with None
                found[name] = value
        return found

    def __repr__(self) -> str:
        """Without values: the seed is among them."""
        return f"<{type(self).__name__}: {', '.join(self.changed(type(self).model_fields)) or 'defaults'}>"

    __str__ = __repr__

    def only(self, kind: type[Options]) -> dict[str, Any]:
        """The values of those options that another model has, too."""
        return {name: getattr(self, name) for name in kind.model_fields if name in type(self).model_fields}


def declared_by(model: type[Options], *leave_out: str) -> Callable[[F], F]:
    """A decorator: the function's `**options` are those of the model, and its signature and docstring say so."""

    def declare(function: F) -> F:
        own = inspect.signature(function)
        names = [n for n in model.model_fields if n not in leave_out and n not in own.parameters]
        names = [name for name in names if model.about(name).get("only") != "command line"]
        keyword = inspect.Parameter.KEYWORD_ONLY
        added = [inspect.Parameter(n, keyword, default=model.model_fields[n].get_default()) for n in names]
        *first, last = own.parameters.values()
        plain = [p for p in first if p.kind is not keyword]
        function.__signature__ = own.replace(  # type: ignore[attr-defined]  # `inspect` reads it
            parameters=[*plain, *added, *(p for p in first if p.kind is keyword), last]
        )
        lines = [f"    {name}: {_sentence(model.model_fields[name], model.about(name))}" for name in names]
        function.__doc__ = "\n".join([inspect.cleandoc(function.__doc__ or ""), "", "Options:", *lines])
        return function

    return declare


def _sentence(field: FieldInfo, extra: Mapping[str, Any]) -> str:
    meaning = f"{field.description} {extra.get('explained', '')}".strip()
    return f"{meaning[:1].lower()}{meaning[1:]}"


def typed_value(text: str) -> Any:
    """A value as it is typed: JSON where it is, a list where it has commas, else a word; a formula as it is."""
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        listed = "," in text and not text.startswith("~")  # names in a formula may have commas
        return [typed_value(part.strip()) for part in text.split(",")] if listed else text
