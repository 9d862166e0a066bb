"""A run as it is typed: the command whose options say the same as settings do."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from typing import Any


def protect_words(source: str, output: str, settings: Mapping[str, Any]) -> list[str]:
    """`microveil protect` with a method, its parameters, the roles of columns and a file of rules."""
    words = ["microveil", "protect", source, "-o", output, "--method", settings["method"]]
    for name, value in settings["parameters"].items():
        if value is not None:
            words += ["--set", f"{name}={_typed(value)}"]
    for role in ("confidential", "public", "strata", "weight", "unit", "drop"):
        those = settings.get(role)
        if those:  # a text is a formula, or the one column that there can be
            words += [f"--{role}", those if isinstance(those, str) else _listed(those)]
    words += ["--shuffle-rows"] if settings.get("shuffle_rows") else []
    words += ["--keep-notes"] if settings.get("keep_notes") else []
    words += ["--secret", settings["secret"]] if settings.get("secret") else []
    rules = settings.get("rules", "infer")
    return words if rules == "infer" else [*words, "--rules", rules]


def _typed(value: Any) -> str:
    """A value as `--set` reads it: JSON, but for a formula or a word, which is taken as it is."""
    word = isinstance(value, str) and (value.isidentifier() or value.startswith("~"))
    return value if word and value not in ("true", "false", "null", "NaN", "Infinity") else json.dumps(value)


def _listed(names: list[str]) -> str:
    """Names by commas; those that have one in quotes."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()
