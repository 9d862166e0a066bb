"""The words of the pages in several languages, from catalogues as gettext has them (.po)."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from pathlib import Path

LANGUAGES = {"en": "English", "de": "Deutsch", "es": "Español"}
FOLDER = Path(__file__).parent / "locale"


@cache
def catalogue(language: str) -> dict[str, str]:
    """The texts of a language by the English ones; those that are not there stay English."""
    file = FOLDER / f"{language}.po"
    found: dict[str, str] = {}
    if not file.is_file():
        return found
    parts = {"msgid": "", "msgstr": ""}
    now = ""
    for line in [*file.read_text(encoding="utf-8").splitlines(), 'msgid ""']:
        word, _, text = line.partition(" ")
        if word == "msgid" and parts["msgid"] and parts["msgstr"]:
            found[parts["msgid"]] = parts["msgstr"]
        if word in parts:
            now, parts[word] = word, ast.literal_eval(text)
            parts |= {"msgstr": ""} if word == "msgid" else {}
        elif line.startswith('"'):
            parts[now] += ast.literal_eval(line)
    return found


def translator(language: str) -> Callable[..., str]:
    """What turns an English text into the language; names in it are filled in as `%(name)s`."""
    known = catalogue(language)

    def translate(text: str, **values: object) -> str:
        told = known.get(text, text)
        return told % values if values else told

    return translate


def language_of(chosen: str | None, accepted: str) -> str:
    """The language that was chosen, or the first of those that a browser asks for that there is."""
    asked = [chosen or "", *(part.split(";")[0].strip()[:2].lower() for part in accepted.split(","))]
    return next((language for language in asked if language in LANGUAGES), "en")
