"""Section 7 of Langsrud (2019) beside ours, by `reproduce`."""

from __future__ import annotations

import json

import numpy as np
import pytest

from microveil import tables
from microveil.cli.main import main
from microveil.papers import published_items
from microveil.papers.langsrud import paper_pattern, printed_cells
from microveil.papers.reproduce import reproduce

ENTRIES = published_items()
CELLS = printed_cells()
COUNTS, DRAWN, SCALED = (CELLS[name].to_numpy().reshape(4, 4) for name in ("n", "table 2 Y*", "table 3"))


def printed(table: str) -> dict[tuple[str, str], float]:
    return {(figure.row, figure.figure): figure.value for figure in ENTRIES[table].printed}


def fitted(column: str) -> np.ndarray:
    """Table 1 with what Table 2 prints in the place of its suppressed cells."""
    found = COUNTS.astype(float)
    for (row, figure), value in printed("langsrud-table2").items():
        if figure == column:
            found[int(row[1]) - 1, int(row[3]) - 1] = value
    return found


@pytest.mark.parametrize(
    ("table", "verdicts"),
    [
        ("langsrud-table1", {"agrees": 10, "differs": 1, "not printed": 1}),
        ("langsrud-table2", {"agrees": 30}),
        ("langsrud-table3", {"agrees": 9}),
    ],
)
def test_the_tables_are_found_again(table: str, verdicts: dict[str, int]) -> None:
    assert reproduce(table).verdicts == verdicts


def test_the_difference_is_named() -> None:
    (line,) = [line for line in reproduce("langsrud-table1").lines if line.verdict == "differs"]
    assert (line.figure, line.published, line.ours) == ("secondary", 4.0, 3.0)
    assert "three suffice" in line.remark


def test_ours_are_fits_and_not_copies() -> None:
    inner = tables.fitted(paper_pattern(), 10).inner.reshape(4, 4)
    lines = {(line.row, line.figure): line for line in reproduce("langsrud-table2", repeats=1).lines}
    line = lines["(2,1)", "Ŷ mod 10"]
    assert line.ours == inner[1, 0]
    assert line.ours != line.published


def test_what_is_printed_adds_up() -> None:
    """A slip in copying the tables would show here."""
    totals = printed("langsrud-table1")
    assert COUNTS.sum(axis=1).tolist() == [totals["totals", f"row{i}"] for i in range(1, 5)]
    assert COUNTS.sum(axis=0).tolist() == [totals["totals", f"col{j}"] for j in range(1, 5)]
    for table in (DRAWN, SCALED, *map(fitted, ("Ŷ", "Ŷ mod 4", "Ŷ mod 10"))):
        assert np.abs(table.sum(axis=0) - COUNTS.sum(axis=0)).max() < 4 * 0.00005 + 1e-9
        assert np.abs(table.sum(axis=1) - COUNTS.sum(axis=1)).max() < 4 * 0.00005 + 1e-9


def test_what_all_draws_share_is_that_of_the_printed_cells() -> None:
    hidden = CELLS["suppressed"].is_not_null().to_numpy().reshape(4, 4)
    table_2, table_3 = printed("langsrud-table2"), printed("langsrud-table3")
    squares, residuals = np.square(DRAWN), np.square(DRAWN - fitted("Ŷ"))
    assert table_2["Y*", "sum of squares of the table"] == pytest.approx(squares.sum(), rel=1e-14)
    assert table_2["Y*", "squared length of the residuals"] == pytest.approx(residuals.sum(), rel=1e-14)
    assert table_2["Y*", "sum of the suppressed cells"] == pytest.approx(DRAWN[hidden].sum(), rel=1e-14)
    for i in range(4):
        assert table_3["sums", f"row{i + 1}"] == pytest.approx(SCALED[i].sum(), rel=1e-14)
        assert table_3["sums", f"col{i + 1}"] == pytest.approx(SCALED[:, i].sum(), rel=1e-14)
    length = np.linalg.norm(SCALED - fitted("Ŷ mod 10"))
    assert table_3["residuals", "length"] == pytest.approx(length, rel=1e-14)
    allowed = {figure.figure: figure.tolerance.absolute for figure in ENTRIES["langsrud-table2"].printed}
    moved = 0.00005 * 2 * np.abs(DRAWN)[hidden] + 0.00005**2
    apart = 0.00005 * 2 * np.abs(DRAWN - fitted("Ŷ"))[hidden] + 0.00005**2
    assert allowed["sum of squares of the table"] == pytest.approx(moved.sum(), rel=1e-12)
    assert allowed["squared length of the residuals"] == pytest.approx(2 * apart.sum(), rel=1e-12)


def test_a_wrong_scale_would_be_seen() -> None:
    """The residuals of Table 3 are a tenth of those of the remainders, not of those of the table."""
    (printed,) = [figure for figure in ENTRIES["langsrud-table3"].printed if figure.figure == "length"]
    fit, y = tables.fitted(paper_pattern()).inner, paper_pattern().table.inner_values
    other = 0.1 * float(np.linalg.norm(y - fit))
    assert other == pytest.approx(1.126, abs=5e-4)
    assert abs(other - printed.value) > 100 * printed.tolerance.absolute


def test_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["reproduce", "langsrud-table2", "--repeats", "2", "--json"])
    assert not stopped.value.code
    assert json.loads(capsys.readouterr().out)["verdicts"] == {"agrees": 30}
