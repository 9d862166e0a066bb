"""One page for all papers: what it counts, by which rules, and that the page in the docs is of this version."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from microveil.cli.main import main
from microveil.core.errors import ParameterError
from microveil.papers import published_items
from microveil.papers.page import CANNOT, LINES, MEANINGS, NOTHING, PROVEN, page_of
from microveil.papers.reproduce import reproduce

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reproduced.md"
QUICK = [
    *(f"calvino-table{number}" for number in (1, 2, 3)),
    *(f"langsrud-table{number}" for number in (1, 2, 3)),
    "hsu-chen-fig5",
    "hsu-chen-fig8",
]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few entries, quick ones, of three papers."""
    known = published_items()
    for name in [name for name in known if name not in (*QUICK, "dacquisto-fig4")]:
        monkeypatch.delitem(known, name)


@pytest.mark.usefixtures("few")
def test_every_table_has_a_verdict_counts_and_rules() -> None:
    page = reproduce("all", repeats=2)
    rows = {row.id: row for row in page.rows if row.id}
    assert list(rows) == [*QUICK[:3], "dacquisto-fig4", *QUICK[6:], *QUICK[3:6]]
    assert rows["calvino-table1"].verdict == "agrees"
    assert rows["calvino-table1"].counts == {"agrees": 51}
    assert rows["calvino-table2"].verdict == PROVEN
    assert rows["langsrud-table1"].verdict == rows["hsu-chen-fig8"].verdict == "differs"
    assert rows["dacquisto-fig4"].verdict == CANNOT
    assert "--image FILE" in rows["dacquisto-fig4"].missing[0]
    assert all(row.rules for row in rows.values() if row.verdict != CANNOT)
    others = [row for row in page.rows if not row.id]
    assert {row.verdict for row in others} == {CANNOT, NOTHING}
    assert all(row.missing for row in others)
    assert set(page.verdicts) <= set(MEANINGS)
    assert sum(page.verdicts.values()) == len(page.rows)
    assert page.lines["agrees"] == sum(row.counts.get("agrees", 0) for row in rows.values())
    text = page.to_markdown()
    assert "With 2 releases" in text
    for word in (*MEANINGS, *LINES):
        assert f"- **{word}**: " in text
    assert json.loads(json.dumps(page.to_dict()))["verdicts"] == page.verdicts


@pytest.mark.usefixtures("few")
def test_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, found in (([], "# The five papers on one page"), (["--json"], '"rows"')):
        with pytest.raises(SystemExit) as stopped:
            main(["reproduce", "all", "--repeats", "2", *arguments])
        assert not stopped.value.code
        assert found in capsys.readouterr().out


def test_too_few_releases_for_some_are_refused_before_anything_is_made() -> None:
    with pytest.raises(ParameterError, match="too few for some"):
        reproduce("all", repeats=1)
    with pytest.raises(ParameterError, match="no table is named"):
        reproduce(image="picture.png")


@pytest.mark.parametrize("table", QUICK)
def test_the_page_in_the_docs_is_what_is_found(table: str) -> None:
    row = page_of([reproduce(table)]).rows[0]
    (line,) = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if f"(`{table}`)" in line]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[2] == row.verdict
    assert cells[3:8] == [str(row.counts.get(word, "")) for word in LINES]


def test_the_page_in_the_docs_has_every_table_and_figure() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"(`{name}`)" in text for name in published_items())
