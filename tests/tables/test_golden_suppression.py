"""Beside GaussSuppression on its own tables: the same sensitive cells, safe, and no more hidden."""

import json
from pathlib import Path

import polars as pl
import pytest
from patterns import known_cells

from microveil import tables
from microveil.tables import Dominance, PPercent, SmallCount

GOLDEN = Path(__file__).parent.parent / "golden" / "gauss"
COUNTY = {"region": ["county"]}
SECTOR = {"indA": ["S1", "S2"], "indB": ["S3", "S4"]}

# name: dimensions, value, hierarchies, contributors, rules, choices
CASES = {
    "G01_table1": (["row", "col"], "freq", None, None, [SmallCount(4)], {}),
    "G03_table1_secondaryZeros_nosingleton": (
        ["row", "col"], "freq", None, None, [SmallCount(4)], {"zeros": "candidates", "singletons": "ignored"},
    ),
    "G04_zeros_default": (["var1", "var2"], "values", None, None, [SmallCount(4)], {"zeros": "suppressed"}),
    "G05_zeros_published": (["var1", "var2"], "values", None, None, [SmallCount(4)], {"zeros": "candidates"}),
    "G07_twoway_8x6": (["region", "sector"], "freq", None, None, [SmallCount(3)], {"zeros": "suppressed"}),
    "G09_threeway_hier_dimVar": (["region", "sector", "size"], "freq", COUNTY, None, [SmallCount(3)], {}),
    "G10_threeway_hier": (
        ["region", "sector", "size"], "freq", {**COUNTY, "sector": SECTOR}, None, [SmallCount(3)], {},
    ),
    "G12_dominance_k80_99": (["sector4", "geo"], "value", None, "company", [Dominance(1, 80), Dominance(2, 99)], {}),
    "G13_ppercent10": (["sector4", "geo"], "value", None, "company", [PPercent(10)], {}),
    "G16_micro_dom_1_75_2_85": (
        ["region", "sector"], "turnover", None, "id", [Dominance(1, 75), Dominance(2, 85)], {},
    ),
}  # fmt: skip

# GaussSuppression also hides cells where it cannot be sure that no sum of ones is given away; here a linear program is
# sure, so fewer are hidden.
FEWER = {"G09_threeway_hier_dimVar", "G10_threeway_hier"}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    dimensions, value, hierarchies, contributors, rules, choices = CASES[request.param]
    frame = pl.read_csv(GOLDEN / f"{request.param}_input.csv")
    table = tables.Table(frame, dimensions, value, hierarchies, contributors=contributors)
    golden = pl.read_csv(GOLDEN / f"{request.param}_output.csv").with_columns(pl.col(dimensions).cast(pl.String))
    suppressed = tables.suppress(table, *rules, **choices)
    both = suppressed.cells.join(golden, on=dimensions, suffix="_theirs", validate="1:1")
    assert len(both) == len(golden) == table.count
    return request.param, suppressed, both


def test_same_cells_values_and_primary(case):
    name, suppressed, both = case
    value = suppressed.table.value
    assert both[value].to_numpy() == pytest.approx(both[f"{value}_theirs"].to_numpy(), rel=1e-12)
    assert both["primary"].equals(both["primary_theirs"], check_names=False)
    meta = json.loads((GOLDEN / f"{name}_meta.json").read_text())
    assert (suppressed.table.count, suppressed.primary.sum()) == (meta["n_cells"], meta["n_primary"])


@pytest.mark.quick("G0[1-8]*", "G1[1-6]*")
def test_nothing_hidden_can_be_worked_out(case):
    _, suppressed, _ = case
    assert not known_cells(suppressed.table, suppressed.suppressed).size


def test_the_same_pattern_or_a_smaller_one(case):
    name, suppressed, both = case
    theirs = both["suppressed_theirs"]
    if name in FEWER:
        assert suppressed.suppressed.sum() < theirs.sum()
    else:
        assert both["suppressed"].equals(theirs, check_names=False)
    assert not suppressed.warnings


def test_no_cell_is_exactly_determined_by_bounds(case):
    _, suppressed, _ = case
    found = tables.intervals(suppressed)
    assert not (found.low == found.high).any()
