"""Parameters, declared once.

A step is a frozen pydantic model: its fields are its parameters, each with a type, a range and a sentence.
Validation messages, the command line's `--set`, `microveil methods ID` and the docs all read this declaration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, get_args

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from microveil.core.errors import ParameterError, one_of


class Step(BaseModel):
    """Base of everything that has parameters."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        arbitrary_types_allowed=True,
        hide_input_in_errors=True,
        defer_build=True,  # what validates a step is made when it is first used: of most, never
    )

    reference: ClassVar[str] = ""

    @field_validator("*", mode="before")
    @classmethod
    def _true_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Python counts true as 1; a person who writes it did not mean a number. numpy's bool has the name, too."""
        kind = cls.model_fields[info.field_name or ""].annotation
        kinds = {kind, *get_args(kind)}
        if type(value).__name__ == "bool" and kinds & {int, float} and bool not in kinds:
            raise ValueError("true and false are not numbers")
        return value

    @classmethod
    def summary(cls) -> str:
        """The first line of the docstring."""
        return (cls.__doc__ or "").strip().splitlines()[0]


S = TypeVar("S", bound=Step)


@dataclass(frozen=True)
class Parameter:
    """One declared parameter, ready to be shown to a person."""

    name: str
    meaning: str
    allowed: str
    default: Any
    for_tests: bool = False
    is_data: bool = False
    """True for a table that comes with the data, which no recipe holds; a recipe can hold the path of one."""

    is_path: bool = False
    """True where a text is the path of a file, which a recipe gives as seen from its own place."""


def parameters_of(step: type[Step]) -> list[Parameter]:
    """The declared parameters of a step, in the order of their declaration."""
    return [_shown(name, field) for name, field in step.model_fields.items()]


def built(step: type[S], given: Mapping[str, Any]) -> S:
    """The step with those of the given parameters that are its own."""
    return validated(step, {name: given[name] for name in step.model_fields if name in given})


def validated(step: type[S], values: Mapping[str, Any]) -> S:
    """The step with these parameters, or one line that says which is wrong and what is allowed."""
    try:
        return step(**values)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        name = str(first["loc"][0]) if first["loc"] else next(iter(values), step.__name__)
        reason = plain_reason(first)
    # Outside the handler, so that the report of this error does not drag pydantic's along.
    field = step.model_fields.get(name)
    if first["type"] == "missing" and field is not None:
        what = "FILE" if _shown(name, field).is_path else "VALUE"
        raise ParameterError(f"{name}: is needed", f"give it: {name}=..., or --set {name}={what}")
    allowed = f"allowed: {_shown(name, field).allowed}" if field is not None else ""
    raise ParameterError(f"{name}: {reason}", allowed)


REASONS = {
    "int": "is not a whole number",
    "float": "is not a number",
    "string": "is not text",
    "string_too_short": "is too short",
    "string_pattern_mismatch": "is not written as it has to be",
    "finite_number": "is not a finite number",
    "bool": "is neither true nor false",
    "dict": "is not a table of settings",
    "mapping": "is not a table of settings",
    "list": "is not a list",
    "tuple": "is not a list",
    "too_short": "has fewer entries than {min_length}",
    "too_long": "has more entries than {max_length}",
    "path": "is not the name of a file",
    "literal": "is none of the words that are allowed",
    "greater_than_equal": "is below {ge:g}",
    "greater_than": "is not above {gt:g}",
    "less_than_equal": "is above {le:g}",
    "less_than": "is not below {lt:g}",
}
"""What is wrong with a value, by the first part of what pydantic calls it."""


def plain_reason(error: Mapping[str, Any]) -> str:
    """What is wrong, in our words; what our own checks say, as they say it."""
    kind = str(error["type"])
    if kind in ("value_error", "assertion_error"):
        message = str(error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
        return message[:1].lower() + message[1:]
    name = max((name for name in REASONS if kind.startswith(name)), key=len, default="")
    return REASONS.get(name, "cannot be used here").format(**error.get("ctx", {}))


def _shown(name: str, field: FieldInfo) -> Parameter:
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    allowed = str(extra.get("allowed", "")) or _allowed(field)
    default = None if field.is_required() else field.get_default()
    flags = (bool(extra.get(flag)) for flag in ("for_tests", "data", "path"))
    return Parameter(name, field.description or "", allowed, default, *flags)


def _allowed(field: FieldInfo) -> str:
    """The type and range of a field in words."""
    kind = field.annotation
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    if kind not in words:
        return one_of(get_args(kind)) if get_args(kind) else str(kind)
    signs = {Gt: "above", Ge: "at least", Lt: "below", Le: "at most"}
    bounds = [
        f"{word} {getattr(limit, attribute):g}"
        for limit in field.metadata
        for (sort, word), attribute in zip(signs.items(), ("gt", "ge", "lt", "le"), strict=True)
        if isinstance(limit, sort)
    ]
    return words[kind] + (" " + " and ".join(bounds) if bounds else "")
