"""GaussSuppression's tables, attacked and filled: our patterns and its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from test_fill import GOLDEN, cell, table_1
from test_golden_suppression import case  # noqa: F401 - a fixture

from microveil import tables
from microveil.tables.audit import EXACT

Case = tuple[str, tables.Suppressed, pl.DataFrame]


def theirs(found: Case) -> tables.Suppressed:
    """The same table with the pattern of GaussSuppression."""
    _, ours, both = found
    dimensions = ours.table.dimensions
    hidden = both.filter(pl.col("suppressed_theirs")).select(dimensions)
    primary = both.filter(pl.col("primary_theirs")).select(dimensions)
    return tables.as_suppressed(ours.table, hidden.iter_rows(), primary.iter_rows())


@pytest.mark.parametrize("whole", [False, True])
def test_no_cell_of_either_pattern_is_exactly_determined(case: Case, whole: bool) -> None:  # noqa: F811
    for s in (case[1], theirs(case)):
        if whole and not (s.table.inner_values == np.rint(s.table.inner_values)).all():
            continue
        found = tables.intervals(s, whole=whole)
        assert found.count(EXACT) == 0, found.named(EXACT)
        assert found.rows.size == s.suppressed.sum()
        assert ((found.low <= found.value + 1e-9) & (found.value <= found.high + 1e-9)).all()


def test_both_patterns_can_be_filled(case: Case) -> None:  # noqa: F811
    for s in (case[1], theirs(case)):
        found = tables.fill(s, seed=1)
        assert found.warnings == []
        sums = s.table.matrix.astype(float) @ found.inner
        size = np.maximum(1.0, np.abs(s.table.published_values))
        assert (np.abs(sums - s.table.published_values) / size)[~s.suppressed].max() <= 1e-9


def test_decimals_of_gausssuppression_are_a_draw_of_ours() -> None:
    """Its draws are not known, but its residuals have a standard deviation of pi/3 and move no published cell."""
    decimals = pl.read_csv(GOLDEN / "G18_GaussSuppressDec_table1_output.csv")
    hidden = decimals.filter(pl.col("suppressed").cast(pl.String).str.to_lowercase() == "true")
    s = tables.as_suppressed(table_1(), hidden.select("row", "col").iter_rows())
    values: dict[Any, float] = dict(
        zip(decimals.select("row", "col").iter_rows(), decimals["freqDec"].to_list(), strict=True)
    )
    inner = np.array([values[cell(i, j)] for i in range(1, 5) for j in range(1, 5)])
    fit = tables.fitted(s).inner
    ours = tables.fill(s, residual_sd=np.pi / 3, seed=1).inner
    for draw in (inner, ours):
        assert np.abs((s.table.matrix.astype(float) @ (draw - fit))[~s.suppressed]).max() < 1e-9
        assert np.linalg.norm(draw - fit) == pytest.approx(np.pi / 3 * np.sqrt(2), rel=1e-9)  # two directions are free
