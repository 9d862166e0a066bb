"""The pages in other languages: every text of the five steps is there, with the same places for names."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from microveil.app import pages, rating, work
from microveil.app.words import LANGUAGES, as_chosen, catalogue, language_of, translator
from microveil.catalogue import methods
from microveil.intake.kinds import Kind

TEXT = re.compile(r"""_\("([^"]*)"|_\('([^']*)'""")


@pytest.mark.parametrize("language", sorted(set(LANGUAGES) - {"en"}))
def test_a_language_is_complete(language: str) -> None:
    templates = (pages.HERE / "templates").glob("*.j2")
    used = {one or other for file in templates for one, other in TEXT.findall(file.read_text(encoding="utf-8"))}
    used |= {*get_args(Kind), work.CRASHED, work.CANCELLED, *methods().values(), *said_by_workers()}
    used |= {pages.WRONG_KIND, pages.TOO_LARGE, pages.NO_ROOM, pages.EMPTY, pages.BUSY, pages.OLDER, rating.NOT_KEPT}
    known = catalogue(language)
    assert len(used) > 100
    assert used - known.keys() == set()
    for text in used:
        places = re.compile(r"%\(\w+\)s|%s|%%")
        assert sorted(places.findall(text)) == sorted(places.findall(known[text])), text


STEP = re.compile(r"""(?:tell|progress|begin|decide)\(\s*f?"([^"]+)\"""")
ROOMS = ("app", "assessment", "engines", "protection", "studies", "tables", "workflow")
"""Where work says how far it is; and where decisions get a name."""


def said_by_workers() -> set[str]:
    """What progress and undo say, as far as it stands in the code; names in it as in the catalogues."""
    source = pages.HERE.parent
    files = [path for room in ROOMS for path in (source / room).glob("*.py")]
    found = {text for file in files for text in STEP.findall(file.read_text(encoding="utf-8"))}
    assert len(found) > 40
    return {text for text in found if "{" not in text and text not in ELSEWHERE}


ELSEWHERE = {"done", "measuring with noise"}
"""Said only to the command line: the first is no step, the second belongs to a method that the app does not offer."""


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("measuring dbrl", "gemessen wird: dbrl"),
        ("settings of noise", "Einstellungen von noise"),
        ("4 labels, called like an identifier", "4 Bezeichnungen, benannt wie ein Schlüssel"),
        ("4 labels", "4 Bezeichnungen"),
        ("100 %(x)s %d <b>", "100 %(x)s %d <b>"),
        ("", ""),
    ],
)
def test_what_comes_with_its_names_filled_in_is_translated(said: str, told: str) -> None:
    assert translator("de")(said) == told


def test_the_language_of_a_page() -> None:
    assert language_of(None, "de-AT,de;q=0.9,en;q=0.8") == "de"
    assert language_of("es", "de") == "es"
    assert language_of("xx", "fr,it") == "en"
    assert translator("de")("%(count)s missing", count=3) == "3 fehlen"
    assert translator("en")("anything") == "anything"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("not a value (if it is a value: rules=None)", "(if it is a value: switch the rules off under Columns)"),
        ("leave it out, or use rules=None", "leave it out, or switch the rules off under Columns"),
        ("as they are with keep, or leave them out with drop", "as they are under Columns, or leave them out there"),
        ("(identifier); keep releases it as it is", "choose 'Release as it is' under Columns to keep it"),
    ],
)
def test_advice_is_in_the_words_of_the_pages(said: str, shown: str) -> None:
    assert as_chosen(said).endswith(shown)
