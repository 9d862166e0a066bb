"""Options as they are typed, turned into what the functions take."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from microveil.core.errors import ParameterError
from microveil.options import Options, ProtectFile


def from_typed(model: type[Options], typed: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the options of a model, from what was typed of them; by name."""
    return {name: _read(str(model.about(name).get("kind", "plain")), value) for name, value in typed.items()}


def _read(kind: str, value: Any) -> Any:
    return value if value is None or kind not in READERS else READERS[kind](value)


def names_in(text: str) -> list[str]:
    """`a,b` as names; one with a comma in it goes in double quotes."""
    try:
        names = next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error:
        raise ParameterError(
            "a list of columns cannot be read", "separate names by commas, quote those that have one"
        ) from None
    return [name for name in names if name.strip()]


def columns_or_formula(text: str) -> list[str] | str:
    """A formula, which begins with `~` and may have commas in its names, as it is; else columns."""
    return text if text.lstrip().startswith("~") else names_in(text)


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


def limits_in(texts: Sequence[str]) -> dict[str, float] | None:
    """`dbrl=0.02`, by the id of a measure; None without any."""
    found = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            raise ParameterError(f"--limit: '{text}' is not id=number", "write --limit dbrl=0.02") from None
    return found or None


def kinds_in(texts: Sequence[str]) -> dict[str, str] | None:
    """`icd10=category`, by the name of a column; None without any."""
    found = {}
    for text in texts:
        name, equals, kind = text.rpartition("=")
        if not equals or not name.strip():
            raise ParameterError(f"--kind: '{text}' is not COLUMN=KIND", "write --kind icd10=category")
        found[name.strip()] = kind.strip()
    return found or None


def bounds_in(texts: Sequence[str]) -> dict[str, list[Any]] | None:
    """`income=0:200000:1`, by the name of a column: numbers, or dates as they are; None without any."""
    found: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, ends = text.rpartition("=")
        parts = [_value(part.strip()) for part in ends.split(":")]
        if not equals or not name.strip() or len(parts) not in (2, 3):
            raise ParameterError("--bounds: something is not COLUMN=LOW:HIGH", "write --bounds income=0:200000:1")
        found[name.strip()] = parts
    return found or None


def levels_in(texts: Sequence[str]) -> dict[str, list[str]] | None:
    """`sex=f,m`, by the name of a column; None without any."""
    found = {}
    for text in texts:
        name, equals, labels = text.partition("=")
        if not equals or not name.strip():
            raise ParameterError("--levels: something is not COLUMN=A,B", "write --levels sex=f,m")
        found[name.strip()] = names_in(labels)
    return found or None


def measure_options_in(texts: Sequence[str]) -> dict[str, dict[str, Any]] | None:
    """`ssim.window=7`: options by the id of a measure; None without any."""
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        place, equals, value = text.partition("=")
        name, dot, key = place.strip().partition(".")
        if not (equals and name and dot and key):
            raise ParameterError(f"--measure-option: '{text}' is not ID.NAME=VALUE", "write ssim.window=7")
        if key in found.setdefault(name, {}):
            raise ParameterError(f"--measure-option: '{name}.{key}' is set twice", "set it once")
        found[name][key] = _value(value.strip())
    return found or None


def parameters(settings: Sequence[str]) -> dict[str, Any]:
    """`--set key=value` pairs; values are read as JSON where they are, as a list where they have commas."""
    found: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        key = key.strip()
        if not equals or not key:
            raise ParameterError(f"--set: '{setting}' is not KEY=VALUE", "for example --set components=3")
        if key in found:
            raise ParameterError(f"--set: '{key}' is set twice", "set it once")
        if key in ProtectFile.model_fields and ProtectFile.about(key).get("only") is None:
            raise ParameterError(f"--set: '{key}' is an option of its own", f"use --{key}")
        if key in (*ProtectFile.model_fields, "data", "options", "params", "progress"):
            raise ParameterError(f"--set: '{key}' is not a parameter of a method", "`microveil methods ID` lists them")
        found[key] = _value(value.strip())
    return found


def _value(text: str) -> Any:
    if text.startswith("~"):
        return text  # a formula, whose names may have commas
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return [_value(part.strip()) for part in text.split(",")] if "," in text else text


READERS: dict[str, Callable[[Any], Any]] = {
    "columns": names_in,
    "formula": columns_or_formula,
    "ids": names_in,
    "rules": lambda text: None if text == "none" else text,
    "pairs": parameters,
    "limits": limits_in,
    "kinds": kinds_in,
    "bounds": bounds_in,
    "levels": levels_in,
    "methods": methods_in,
    "settings": measure_options_in,
    "tables": lambda texts: [names_in(text) for text in texts] or None,
}
"""What reads an option of each kind; those of other kinds are taken as they are."""
