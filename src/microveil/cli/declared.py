"""Commands of the command line, made from the declarations of options."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, get_args

import typer
from annotated_types import Ge
from pydantic.fields import FieldInfo

from microveil.cli.typed import from_typed
from microveil.options import Options
from microveil.options.declaring import REPEATABLE

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else there.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]


class Location:
    """What the help calls a file or the table of a database; typer takes no union of types."""


TYPED_AS: Mapping[str, Any] = {
    **dict.fromkeys(REPEATABLE, list[str] | None),
    "path": Path | None,
    "number": int | None,
    "place": Location | None,
}
"""What typer makes of an option by its kind; text, if it is none of these."""


def place_from(text: str) -> Any:
    """Where a table is; the module that knows is loaded when one is named."""
    from microveil.io.locations import place_from as found

    return found(text)


def place(metavar: str, meaning: str, flags: tuple[str, ...] = (), *, needed: bool = True) -> Any:
    """The annotation of an argument, or with `flags` an option, that says where a table is; `meaning` is its help."""
    declare = typer.Option if flags else typer.Argument
    kind = Location if needed else Location | None
    return Annotated[kind, declare(*flags, metavar=metavar, parser=place_from, help=meaning, show_default=False)]


def command(
    app: typer.Typer,
    action: str,
    model: type[Options],
    arguments: Mapping[str, Any] = MappingProxyType({}),
    *,
    name: str | None = None,
    epilog: str | None = None,
) -> None:
    """Add a command to the program.

    Args:
        app: what the command belongs to.
        action: the module of this folder and the function in it that do the work; they are imported when it is called.
        model: its options; its docstring is the help.
        arguments: annotations of what is typed in addition, by name; those with `| None` need not be given.
        name: what the command is called, if not as the function.
        epilog: what stands below the help.

    The function is called with the options, the `Screen` and the arguments by name.
    """
    module, _, function = action.partition(".")
    shown = [name for name in model.model_fields if model.about(name).get("only") != "python"]
    hints = {**arguments, **{name: _annotation(model, name) for name in shown}, "json": Json, "quiet": Quiet}
    defaults = {name: _default(model.model_fields[name]) for name in shown} | {"json": False, "quiet": False}
    defaults |= {name: None for name, kind in arguments.items() if type(None) in get_args(get_args(kind)[0])}

    def run(json: bool, quiet: bool, **typed: Any) -> None:
        from microveil.cli.shared import Screen

        asked = model.checked(from_typed(model, {name: typed.pop(name) for name in shown}))
        work = getattr(import_module(f"microveil.cli.{module}"), function)
        work(asked, Screen(as_json=json, quiet=quiet), **typed)

    keyword, none = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty
    run.__annotations__ = hints
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # typer reads it
        [inspect.Parameter(n, keyword, default=defaults.get(n, none), annotation=kind) for n, kind in hints.items()]
    )
    app.command(name or function, help=inspect.cleandoc(model.__doc__ or ""), epilog=epilog)(run)


def _default(field: FieldInfo) -> Any:
    return inspect.Parameter.empty if field.is_required() else field.get_default()


def _annotation(model: type[Options], name: str) -> Any:
    """The option as typer reads it."""
    field, about = model.model_fields[name], model.about(name)
    kind = about.get("kind", "plain")
    least = next((limit.ge for limit in field.metadata if isinstance(limit, Ge)), None)
    shape: dict[str, Any] = {"metavar": about.get("metavar"), "help": field.description, "min": least}
    if kind == "place":
        shape["parser"] = place_from
    if field.is_required():
        shape["show_default"] = False
    shape = {key: value for key, value in shape.items() if value is not None}
    own = kind in ("plain", "argument") and field.annotation is not Any  # its type says how it is typed
    typed: Any = field.annotation if own else TYPED_AS.get(kind, str | None)
    if (field.is_required() or field.get_default() is not None) and type(None) in get_args(typed):
        typed = next(part for part in get_args(typed) if part is not type(None))
    if kind == "argument":
        return Annotated[typed, typer.Argument(**shape)]
    return Annotated[typed, typer.Option(*model.flags(name), **shape)]
