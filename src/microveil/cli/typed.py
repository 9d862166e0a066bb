"""Options as they are typed, turned into what the functions take."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from microveil.core.errors import ParameterError
from microveil.options import Options, ProtectFile
from microveil.options.declaring import typed_value


def from_typed(model: type[Options], typed: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the options of a model, from what was typed of them; by name."""
    readers = {name: READERS.get(str(model.about(name).get("kind"))) for name in typed}
    return {name: value if value is None or not (of := readers[name]) else of(value) for name, value in typed.items()}


def names_in(text: str) -> list[str]:
    """`a,b` as names; one with a comma in it goes in double quotes."""
    try:
        names = next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error:
        raise ParameterError(
            "a list of columns cannot be read", "separate names by commas, quote those that have one"
        ) from None
    return [name for name in names if name.strip()]


def methods_in(text: str) -> list[tuple[str, dict[str, Any]]]:
    """`pca components=[0,2], score_mix correlation=0.5`: methods with what is set of each, by commas."""
    entries = [_parted(entry, " ") for entry in _parted(text, ",")]
    return [(method, parameters(settings)) for method, *settings in entries]


def _parted(text: str, sign: str) -> list[str]:
    """What stands between the signs that are in no brackets and in no double quotes; nothing is left out."""
    parts, depth, quoted = [""], 0, False
    for place, letter in enumerate(text):
        quoted ^= letter == '"' and text[place - 1 : place] != "\\"
        depth += 0 if quoted else (letter in "[{(") - (letter in "]})")
        if letter == sign and depth <= 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    if quoted or depth:
        raise ParameterError("--methods: a quote or a bracket is left open", "close it")
    return [part.strip() for part in parts if part.strip()]


def by_name(
    texts: Sequence[str], value_of: Callable[[str], Any], shape: str, example: str, *, last: bool = False
) -> dict[str, Any] | None:
    """`name=value` pairs, each name once; None without any.

    Args:
        texts: the pairs, as they are typed.
        value_of: reads a value; its ValueError, like a pair without a name, is answered with the `example`.
        shape: the flag, and what is wrong; it does not quote values of the data.
        example: how to write it.
        last: names may have the sign `=` in them, values may not.
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.rpartition("=") if last else text.partition("=")
        name = name.strip()
        if name in found:
            raise ParameterError(f"{shape.partition(':')[0]}: '{name}' is set twice", "set it once")
        try:
            if not equals or not name:
                raise ValueError
            found[name] = value_of(value.strip())
        except ParameterError:
            raise
        except ValueError:
            raise ParameterError(shape.format(text), f"write {example}") from None
    return found or None


def _bounds(text: str) -> list[Any]:
    """`0:200000:1`: numbers, or dates as they are."""
    parts = [typed_value(part.strip()) for part in text.split(":")]
    if len(parts) not in (2, 3):
        raise ValueError
    return parts


def measure_options_in(texts: Sequence[str]) -> dict[str, dict[str, Any]] | None:
    """`ssim.window=7`: options by the id of a measure; None without any."""
    shape, example = "--measure-option: '{}' is not ID.NAME=VALUE", "ssim.window=7"
    found: dict[str, dict[str, Any]] = {}
    for place, value in (by_name(texts, typed_value, shape, example) or {}).items():
        name, _, key = place.partition(".")
        if not name or not key:
            raise ParameterError(shape.format(place), f"write {example}")
        found.setdefault(name, {})[key] = value
    return found or None


def parameters(settings: Sequence[str]) -> dict[str, Any]:
    """`--set key=value` pairs; values are read as JSON where they are, as a list where they have commas."""
    found = by_name(settings, typed_value, "--set: '{}' is not KEY=VALUE", "for example --set components=3") or {}
    for key in found:
        if key in ProtectFile.model_fields and ProtectFile.about(key).get("only") is None:
            raise ParameterError(f"--set: '{key}' is an option of its own", f"use --{key}")
        if key in (*ProtectFile.model_fields, "data", "options", "params", "progress"):
            raise ParameterError(f"--set: '{key}' is not a parameter of a method", "`microveil methods ID` lists them")
    return found


READERS: dict[str, Callable[[Any], Any]] = {
    "columns": names_in,
    "formula": lambda text: text if text.lstrip().startswith("~") else names_in(text),  # its names may have commas
    "ids": names_in,
    "rules": lambda text: None if text == "none" else text,
    "pairs": parameters,
    "limits": lambda texts: by_name(texts, float, "--limit: '{}' is not id=number", "--limit dbrl=0.02"),
    "kinds": lambda texts: by_name(texts, str, "--kind: '{}' is not COLUMN=KIND", "--kind icd10=category", last=True),
    "bounds": lambda texts: by_name(
        texts, _bounds, "--bounds: something is not COLUMN=LOW:HIGH", "--bounds income=0:200000:1", last=True
    ),
    "levels": lambda texts: by_name(texts, names_in, "--levels: something is not COLUMN=A,B", "--levels sex=f,m"),
    "methods": methods_in,
    "settings": measure_options_in,
    "tables": lambda texts: [names_in(text) for text in texts] or None,
}
"""What reads an option of each kind; those of other kinds are taken as they are."""
