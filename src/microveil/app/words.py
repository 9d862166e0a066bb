"""The words of the pages in several languages, from catalogues as gettext has them (.po)."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

LANGUAGES = {"en": "English", "de": "Deutsch", "es": "Español"}
PLACE = re.compile(r"%\((\w+)\)s")
FOLDER = Path(__file__).parent / "locale"

CHOSEN = {
    "rules=None": "switch the rules off under Columns",
    "or use switch": "or switch",
    "keep releases it as it is": "choose 'Release as it is' under Columns to keep it",
    "say with kinds": "say under Columns",
    "with keep": "under Columns",
    "with drop": "there",
    "name them in keep or drop": "release them as they are or leave them out there",
    " (protected_weight)": "",
    " (shuffle_rows: rows come in a random order)": "",
}


def as_chosen(text: str) -> str:
    """Advice in the words of the pages: where to choose what is an option in Python."""
    for python, chosen in CHOSEN.items():
        text = text.replace(python, chosen)
    return text


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
        translated = known.get(text)
        if translated is None and not values:
            return _finished(language, text)
        translated = text if translated is None else translated
        return translated % values if values else translated

    return translate


def _finished(language: str, text: str) -> str:
    """A sentence that came with its names filled in, from the worker or from a list of decisions."""
    for pattern, translated in _patterns(language):
        found = pattern.fullmatch(text)
        if found:
            return translated % found.groupdict()
    return text


@cache
def _patterns(language: str) -> list[tuple[re.Pattern[str], str]]:
    """Texts with places for names as patterns, those with most words first."""
    made = []
    for text, translated in sorted(catalogue(language).items(), key=lambda entry: -len(entry[0])):
        if PLACE.search(text) and PLACE.sub("", text).strip():
            parts = PLACE.split(text)  # words and names by turns
            words = [re.escape(part) if place % 2 == 0 else f"(?P<{part}>.+)" for place, part in enumerate(parts)]
            made.append((re.compile("".join(words)), translated))
    return made


def language_of(chosen: str | None, accepted: str) -> str:
    """The language that was chosen, or the first of those that a browser asks for that there is."""
    asked = [chosen or "", *(part.split(";")[0].strip()[:2].lower() for part in accepted.split(","))]
    return next((language for language in asked if language in LANGUAGES), "en")
