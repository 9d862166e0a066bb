"""Section 7 of Langsrud (2019) beside ours, by `reproduce`."""

from __future__ import annotations

import json

import numpy as np
import pytest

from microveil import tables
from microveil.cli.main import main
from microveil.papers import ENTRIES, reproduce
from microveil.papers.langsrud_tables import COUNTS, DRAWN, FITTED, SCALED, TOTALS, paper_pattern


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
    assert COUNTS.sum(axis=1).tolist() == [TOTALS[f"row{i}"] for i in range(1, 5)]
    assert COUNTS.sum(axis=0).tolist() == [TOTALS[f"col{j}"] for j in range(1, 5)]
    for printed in (DRAWN, *(values for _, values in FITTED.values())):
        table = COUNTS.astype(float)
        for (i, j), value in printed.items():
            table[i - 1, j - 1] = value
        assert np.abs(table.sum(axis=0) - COUNTS.sum(axis=0)).max() < 4 * 0.00005 + 1e-9
        assert np.abs(table.sum(axis=1) - COUNTS.sum(axis=1)).max() < 4 * 0.00005 + 1e-9
    assert np.abs(SCALED.sum(axis=0) - COUNTS.sum(axis=0)).max() < 4 * 0.00005 + 1e-9


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
