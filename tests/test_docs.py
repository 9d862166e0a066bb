"""The pages: a README that can be read in one go, and every page behind one of four doors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOORS = ("tutorial", "howto", "explanation", "reference")

pytestmark = pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="the pages are not beside the tests")


def test_the_readme_is_one_page() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120
    assert len(re.findall(r"!\[", text)) == 1
    assert "make demo" in text
    assert "make test" in text
    for target in re.findall(r"\]\(([^)#:]+)", text):
        assert (ROOT / target).exists(), target


def test_every_page_stands_behind_a_door() -> None:
    behind = [name for door in DOORS for name in _listed(door)]
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index", *DOORS}
    assert sorted(behind) == sorted(pages), "each once"


def _listed(door: str) -> list[str]:
    text = (ROOT / "docs" / f"{door}.md").read_text(encoding="utf-8")
    block = re.search(r"```\{toctree\}(.*?)```", text, flags=re.DOTALL)
    return [] if block is None else [line for line in block[1].splitlines() if line and not line.startswith(":")]
