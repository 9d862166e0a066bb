"""A run as it is typed: the command whose options say the same as settings do."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from typing import Any

from microveil.options import Settings

NOT_TYPED = ("method", "engine")
"""Settings that are typed in another way, or found by `auto`."""


def protect_words(source: str, output: str, settings: Mapping[str, Any]) -> list[str]:
    """`microveil protect` with a method, its parameters, the roles of columns and every other setting."""
    words = ["microveil", "protect", source, "-o", output, "--method", settings["method"]]
    for name, value in settings["parameters"].items():
        if value is not None:
            words += ["--set", f"{name}={_typed(value)}"]
    for name, field in Settings.model_fields.items():
        value = settings.get(name, field.get_default())
        if name in NOT_TYPED or Settings.about(name).get("only") or value in (None, [], field.get_default()):
            continue
        flag = Settings.flags(name)[0]
        if isinstance(value, Mapping):  # what is said of columns, each by itself
            words += [word for column, said in value.items() for word in (flag, f"{column}={_said(name, said)}")]
            continue
        if isinstance(value, int | float) and value is not True:
            words += [flag, f"{value:g}" if isinstance(value, float) else str(value)]
            continue
        # A text is a formula, a file, or the one column that there can be.
        words += [flag] if value is True else [flag, value if isinstance(value, str) else _listed(value)]
    return words


def _said(name: str, value: Any) -> str:
    """What is said of a column: bounds with colons, levels with commas, or a word."""
    if name == "bounds":
        return ":".join(str(part) for part in value)
    return value if isinstance(value, str) else _listed([str(part) for part in value])


def _typed(value: Any) -> str:
    """A value as `--set` reads it: JSON, but for a formula or a word, which is taken as it is."""
    word = isinstance(value, str) and (value.isidentifier() or value.startswith("~"))
    return value if word and value not in ("true", "false", "null", "NaN", "Infinity") else json.dumps(value)


def _listed(names: list[str]) -> str:
    """Names by commas; those that have one in quotes."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()
