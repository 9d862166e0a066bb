"""Protected cells by witnesses: the verdicts are those of full linear programs, and no witness is impossible."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from test_audit_golden import Case, theirs
from test_fill import cell, random_table, table_1
from test_golden_suppression import case  # noqa: F401 - a fixture

from microveil import tables
from microveil.tables import bounds
from microveil.tables.audit import EXACT, FEW, SAFE

INTRUDERS: list[dict[str, Any]] = [
    {},
    {"sides": "each"},
    {"protection": 60.0},
    {"nonnegative": False},
    {"within_percent": 40.0},
    {"at_most": 1e6, "at_least": 0.0},
    {"sides": "each", "protection": 30.0, "within_percent": 80.0},
]


def same_verdicts(s: tables.Suppressed, **options: Any) -> tables.Intervals:
    """Both ways: the verdicts agree, cells that are not protected have their ends, the others lie inside of them."""
    full = tables.intervals(s, exact_intervals=True, **options)
    found = tables.intervals(s, exact_intervals=False, **options)
    assert found.verdicts.tolist() == full.verdicts.tolist()
    size = np.maximum(1.0, np.abs(full.value)) * 1e-6
    assert (found.low >= full.low - size).all()
    assert (found.high <= full.high + size).all()
    assert full.ends_known.all()
    assert found.ends_known[found.verdicts != SAFE].all()
    known = found.ends_known & np.isfinite(full.high) & np.isfinite(full.low)
    np.testing.assert_allclose(found.low[known], full.low[known], atol=1e-6 * max(1.0, np.abs(full.value).max()))
    np.testing.assert_allclose(found.high[known], full.high[known], atol=1e-6 * max(1.0, np.abs(full.value).max()))
    return found


@pytest.mark.quick("40")
@pytest.mark.parametrize("count", [40, 200])
def test_verdicts_of_random_tables_are_those_of_full_programs(count: int) -> None:
    shapes = [(5, 4), (4, 4, 3), (3, 3, 3), (8, 6), (12,)]
    seen = set()
    for seed in range(count):
        kind = "counts" if seed % 3 else "amounts"
        s = random_table(shapes[seed % len(shapes)], seed, 0.3 + 0.4 * (seed % 4) / 3, kind)
        options = dict(INTRUDERS[seed % len(INTRUDERS)])
        if kind == "counts" and seed % 2:
            options["whole"] = True
        seen |= set(same_verdicts(s, **options).verdicts.tolist())
    assert len(seen) == 3


def test_verdicts_of_golden_tables_are_those_of_full_programs(case: Case) -> None:  # noqa: F811
    for s in (case[1], theirs(case)):
        same_verdicts(s)
        same_verdicts(s, sides="each", protection=25.0)


def test_bounds_of_sums_hold_for_witnesses() -> None:
    s = tables.as_suppressed(table_1(), [cell(i, j) for i in (1, 2, 3) for j in (1, 2, 3)])
    at_most = {cell(1, 1): 3.0, cell(2, 2): 9.5}
    same_verdicts(s, at_most=at_most, at_least={cell(3, 3): 1.5})


def test_zeros_leave_their_bound_together() -> None:
    """Cells of zero have no room to one side; those that can grow are still seen to, and those that cannot are not."""
    rng, protected = np.random.default_rng(5), 0
    for seed in range(6):
        counts = rng.poisson(1.5, (6, 5, 4))
        places = np.indices(counts.shape).reshape(3, -1)
        table = tables.Table(pl.DataFrame(dict(zip("abc", places, strict=True)) | {"n": counts.ravel()}), list("abc"))
        names = list(zip(*table.labels.values(), strict=True))
        hidden = np.flatnonzero(np.random.default_rng(seed).random(table.count) < 0.5)
        found = same_verdicts(tables.as_suppressed(table, [tuple(map(str, names[row])) for row in hidden]))
        protected += found.count(SAFE)
    assert protected > 20


@pytest.mark.slow
def test_large_tables_need_hardly_any_program(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    least = bounds.RepeatedProgram.least

    def counted(self: Any, *args: Any) -> Any:
        asked.append(1)
        return least(self, *args)

    monkeypatch.setattr(bounds, "program", bounds.RepeatedProgram)
    monkeypatch.setattr(bounds.RepeatedProgram, "least", counted)
    s = random_table((12, 12, 12), 2, 0.35)
    found = tables.intervals(s)
    assert found.rows.size > FEW
    assert len(asked) < found.rows.size / 10
    assert "ends_known" in tables.audit(s).columns
    assert found.count(EXACT) + found.count(SAFE) > 0.9 * found.rows.size


def test_progress_names_both_searches() -> None:
    told = []
    s = random_table((6, 5, 4), 1, 0.5)
    tables.intervals(s, exact_intervals=False, progress=lambda step, _: told.append(step))
    assert {"searching for possible tables", "solving linear programs"} >= set(told)
    assert told
