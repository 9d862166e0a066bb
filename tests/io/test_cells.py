"""Text that a spreadsheet would run: made harmless on its way into files, and counted."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from microveil.cli.main import main
from microveil.io.files.formula_injection import formula_cells, formulas_kept, text_cells

FORMULAS = [
    "=1+1",
    "=cmd|' /C calc'!A0",
    "+SUM(A1)",
    "-foo",
    "@SUM(1)",
    "\t=1",
    "\r=1",
    "-1+cmd|x",
    "\uff1d1",
    "=5",
    "+1e5x",
]
HARMLESS = ["-5", "+5", "-5.25", "+49 30 123", "-1 %", "-", "+", "-1e5", "a=b", "", "x", " =1", "'=1", "5", "-(3)"]


@pytest.mark.parametrize("cell", FORMULAS)
def test_what_begins_as_a_formula_gets_an_apostrophe(cell: str) -> None:
    assert text_cells(pl.Series("t", [cell, "x", None])).to_list() == ["'" + cell, "x", None]


@pytest.mark.parametrize("cell", HARMLESS)
def test_what_cannot_call_anything_stays(cell: str) -> None:
    assert text_cells(pl.Series("t", [cell, None])).to_list() == [cell, None]


def test_categories_and_other_types() -> None:
    categories = pl.Series("t", ["=a", "b", None], pl.Categorical)
    assert text_cells(categories).to_list() == ["'=a", "b", None]
    for column in (pl.Series([-1, 2]), pl.Series([True]), pl.Series([None], dtype=pl.Date)):
        assert text_cells(column) is column


def test_they_can_be_kept_and_are_counted() -> None:
    column = pl.Series("t", [*FORMULAS, *HARMLESS])
    with formulas_kept():
        assert text_cells(column).to_list() == column.to_list()
    assert text_cells(column).to_list() != column.to_list()
    assert formula_cells(pl.DataFrame([column, pl.Series("n", [-1] * len(column))])) == len(FORMULAS)


def protected(folder: Path, *options: str) -> tuple[list[str], str]:
    """The text of a released file, and what was said."""
    source, target = folder / "in.csv", folder / "out.csv"
    cells = ["=1+1", "-5", "@x", "plain"] * 3
    source.write_text("note,a,b\n" + "".join(f"{cell},{i * i % 7},{i % 5}\n" for i, cell in enumerate(cells)))
    chosen = ["--seed", "1", "--method", "pca", "--keep", "note", "--overwrite", *options]
    with pytest.raises(SystemExit) as ended:
        main(["protect", str(source), "-o", str(target), *chosen])
    assert ended.value.code == 0
    return [line.split(",")[0] for line in target.read_text().splitlines()[1:]], ""


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells, _ = protected(tmp_path)
    assert cells == ["'=1+1", "-5", "'@x", "plain"] * 3
    assert "6 cells of text begin as formulas do" in capsys.readouterr().out
    cells, _ = protected(tmp_path, "--keep-formulas")
    assert cells == ["=1+1", "-5", "@x", "plain"] * 3
    assert "they are written as they are" in capsys.readouterr().out
