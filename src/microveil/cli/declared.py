"""Commands of the command line, made from the declarations of options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from annotated_types import Ge
from pydantic.fields import FieldInfo

from microveil.cli.typed import from_typed
from microveil.options import Options

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else there.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]


class Location:
    """What the help calls a file or the table of a database; typer takes no union of types."""


TYPED_AS: Mapping[str, Any] = {
    "path": Path | None,
    "pairs": list[str] | None,
    "limits": list[str] | None,
    "kinds": list[str] | None,
    "bounds": list[str] | None,
    "levels": list[str] | None,
    "settings": list[str] | None,
    "tables": list[str] | None,
    "number": int | None,
    "place": Location | None,
}
"""What typer makes of an option by its kind; text, if it is none of these."""


def place_from(text: str) -> Any:
    """Where a table is; the module that knows is loaded when one is named."""
    from microveil.io.locations import place_from as found

    return found(text)


def place(metavar: str, meaning: str, flags: tuple[str, ...] = (), *, needed: bool = True) -> Any:
    """The annotation of an argument, or of an option with flags, that says where a table is."""
    declare = typer.Option if flags else typer.Argument
    kind = Location if needed else Location | None
    return Annotated[kind, declare(*flags, metavar=metavar, parser=place_from, help=meaning, show_default=False)]


def command(
    app: typer.Typer, model: type[Options], arguments: Mapping[str, Any], epilog: str | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator that makes a command of a function.

    Args:
        app: what the command belongs to.
        model: its options.
        arguments: annotations of what is typed in addition, by name; those with `| None` need not be given.
        epilog: what stands below the help.

    The function is called with the arguments by name, and with `options`, what was typed of the model by name.
    """

    def declare(action: Callable[..., None]) -> Callable[..., None]:
        shown = [name for name in model.model_fields if model.about(name).get("only") != "python"]
        own = inspect.signature(action).parameters
        switches = {name: kind for name, kind in (("json", Json), ("quiet", Quiet)) if name in own}

        def run(**typed: Any) -> None:
            options = from_typed(model, {name: typed.pop(name) for name in shown})
            action(options=options, **typed)

        hints = {**arguments, **{name: _annotation(model, name) for name in shown}, **switches}
        defaults = {name: _default(model.model_fields[name]) for name in shown} | dict.fromkeys(switches, False)
        defaults |= {name: None for name, kind in arguments.items() if type(None) in get_args(get_args(kind)[0])}
        run.__name__, run.__doc__, run.__annotations__ = action.__name__, action.__doc__, hints
        keyword, none = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # typer reads it
            [
                inspect.Parameter(name, keyword, default=defaults.get(name, none), annotation=kind)
                for name, kind in hints.items()
            ]
        )
        app.command(epilog=epilog)(run)
        return run

    return declare


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
    if field.is_required() or field.get_default() is not None:
        typed = next((part for part in get_args(typed) if part is not type(None)), typed)
    if kind == "argument":
        return Annotated[typed, typer.Argument(**shape)]
    return Annotated[typed, typer.Option(*model.flags(name), **shape)]
