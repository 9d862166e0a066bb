"""Forms of the parameters of a method, made from their declarations, and what was typed into them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from microveil.core.errors import ParameterError
from microveil.core.parameters import Parameter
from microveil.methods import method_named
from microveil.methods.base import Method
from microveil.options.declaring import typed_value
from microveil.studies.recommend import DOSES

STRENGTHS: dict[str, tuple[str, list[Any]]] = {
    "veil": ("window", [10, 20, 40, 80]),
    "microaggregate": ("group_size", [3, 5, 10, 25]),
} | {
    name: (next(iter(ladder[0][1])), [params[next(iter(ladder[0][1]))] for _, params in ladder if params])
    for name, ladder in DOSES.items()
    if ladder[0][1]
}
"""The parameter that says how strongly a method protects, with values from lighter to stronger."""


@dataclass(frozen=True)
class Control:
    """One parameter as a part of a form."""

    name: str
    help: str
    allowed: str
    widget: Literal["switch", "choice", "number", "text"]
    value: str
    default: str
    choices: Sequence[str] = ()
    least: float | None = None
    most: float | None = None
    perturb: str = ""
    """The perturbation that it belongs to, if not to all."""

    ladder: Sequence[str] = ()
    """Values from lighter to stronger, of the main control."""


def controls(method: str, params: Mapping[str, Any]) -> tuple[Control | None, list[Control]]:
    """The control of the strength, if there is one, and the others, with the values that they have."""
    found, main = method_named(method), STRENGTHS.get(method)
    fields = _fields(found)
    made = [
        _control(parameter, fields[parameter.name], group.perturb, params)
        for group in found.parameters()
        for parameter in group.parameters
        if not (parameter.for_tests or parameter.is_data or parameter.is_path)
    ]
    once = list({(control.name, control.perturb): control for control in made}.values())
    if main is None:
        return None, once
    ladder = [_text(value) for value in main[1]]
    strength = next((Control(**{**vars(c), "ladder": ladder}) for c in once if c.name == main[0]), None)
    return strength, [control for control in once if control.name != main[0]]


def typed(method: str, form: Mapping[str, str]) -> dict[str, Any]:
    """The parameters that a form sets to something else than their default; checked, as `protect` checks them."""
    found = method_named(method)
    perturb = form.get("param:perturb", str(found.fixed.get("perturb", "")))
    given: dict[str, Any] = {}
    for group in found.parameters():
        if group.perturb in ("", perturb):
            for parameter in group.parameters:
                text = form.get(f"param:{parameter.name}", "").strip()
                if text and text != _text(parameter.default):
                    given[parameter.name] = typed_value(text)
    found.plan(given)
    return given


def reading_options(form: Mapping[str, str]) -> dict[str, Any]:
    """How a file is to be read, from what was typed; what is empty is found."""
    given: dict[str, Any] = {n: form[n].strip() for n in ("sheet", "delimiter", "decimal", "encoding") if form.get(n)}
    for name in ("header_row", "skip_rows"):
        if form.get(name, "").strip():
            try:
                given[name] = int(form[name])
            except ValueError:
                raise ParameterError(f"{name}: must be a whole number", "leave it empty to have it found") from None
    return {name: value for name, value in given.items() if value != ""}


def _fields(method: Method) -> dict[str, FieldInfo]:
    steps = (*method.perturbations.values(), *method.shared_steps)
    return {name: field for step in steps for name, field in step.model_fields.items()}


def _control(parameter: Parameter, field: FieldInfo, perturb: str, params: Mapping[str, Any]) -> Control:
    """The widget that its type asks for."""
    kind: Any = field.annotation
    choices: tuple[str, ...] = ()
    widget: Literal["switch", "choice", "number", "text"] = "text"
    if kind is bool:
        widget, choices = "switch", ("true", "false")
    elif parameter.name == "perturb":
        widget, choices = "choice", tuple(parameter.allowed.split(", "))
    elif _words(kind):
        widget, choices = "choice", _words(kind)
    elif kind in (int, float):
        widget = "number"
    limits = {type(limit): limit for limit in field.metadata}
    least = next((getattr(limits[sort], name) for sort, name in ((Ge, "ge"), (Gt, "gt")) if sort in limits), None)
    most = next((getattr(limits[sort], name) for sort, name in ((Le, "le"), (Lt, "lt")) if sort in limits), None)
    value = params.get(parameter.name, parameter.default)
    return Control(
        parameter.name,
        parameter.meaning,
        parameter.allowed,
        widget,
        _text(value),
        _text(parameter.default),
        choices,
        None if least is None else float(least),
        None if most is None else float(most),
        perturb,
    )


def _words(kind: Any) -> tuple[str, ...]:
    """The words that a parameter can be, if it can be nothing else: of `bool | Literal["rounded"]`, three."""
    if get_origin(kind) is Literal:
        return tuple(_text(word) for word in get_args(kind))
    parts = get_args(kind)
    if parts and all(part is bool or get_origin(part) is Literal for part in parts):
        return tuple(word for part in parts for word in (("true", "false") if part is bool else _words(part)))
    return ()


def _text(value: Any) -> str:
    """A value as it is typed."""
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, default=list)
