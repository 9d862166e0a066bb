"""The pages in other languages: every text of the five steps is there, with the same places for names."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from microveil.app import pages, work
from microveil.app.words import LANGUAGES, catalogue, language_of, translator
from microveil.intake.kinds import Kind

TEXT = re.compile(r"""_\("([^"]*)"|_\('([^']*)'""")


@pytest.mark.parametrize("language", sorted(set(LANGUAGES) - {"en"}))
def test_a_language_is_complete(language: str) -> None:
    templates = (pages.HERE / "templates").glob("*.j2")
    used = {one or other for file in templates for one, other in TEXT.findall(file.read_text(encoding="utf-8"))}
    used |= {*get_args(Kind), work.CRASHED, work.CANCELLED}
    known = catalogue(language)
    assert len(used) > 100
    assert used - known.keys() == set()
    for text in used:
        places = re.compile(r"%\(\w+\)s|%s|%%")
        assert sorted(places.findall(text)) == sorted(places.findall(known[text])), text


def test_the_language_of_a_page() -> None:
    assert language_of(None, "de-AT,de;q=0.9,en;q=0.8") == "de"
    assert language_of("es", "de") == "es"
    assert language_of("xx", "fr,it") == "en"
    assert translator("de")("%(count)s missing", count=3) == "3 fehlen"
    assert translator("en")("anything") == "anything"
