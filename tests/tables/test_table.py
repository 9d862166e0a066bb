"""Tables from cells and from records, hierarchies in all their forms, rules, and what is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from microveil import tables
from microveil.core.errors import DataError, FileError, ParameterError
from microveil.tables import Dominance, FewContributors, PPercent, SmallCount, Table
from microveil.tables.argus import read_apriori, read_hrc, write_hrc

CELLS = {"region": ["r1", "r1", "r2", "r2", "r3", "r3"], "sector": ["s", "t"] * 3, "n": [3, 4, 5, 6, 7, 8]}
NESTED = {"north": ["r1", "r2"], "south": ["r3"]}


def cells(**changed):
    return pl.DataFrame(CELLS | changed)


def rows(table):
    """The published cells as a dictionary from their codes to their values."""
    return dict(zip(zip(*table.labels.values(), strict=True), table.published_values.tolist(), strict=True))


def test_sums_over_crossed_dimensions():
    table = Table(cells(), ["region", "sector"])
    assert table.matrix.shape == (12, 6)
    assert rows(table)["Total", "Total"] == 33
    assert rows(table)["r2", "Total"] == 11
    assert rows(table)["Total", "t"] == 18
    assert np.array_equal(table.published_values, table.matrix @ table.inner_values)
    assert repr(table) == "Table(region x sector: 12 cells, 6 of them inner)"


def test_missing_combinations_are_cells_with_zero():
    table = Table(cells()[:-1], ["region", "sector"])
    assert rows(table)["r3", "t"] == 0


@pytest.mark.parametrize(
    "hierarchy",
    [
        NESTED,
        {"Total": NESTED},
        {"north": {"r1": [], "r2": None}, "south": "r3"},
        {"r1": "north", "r2": "north", "r3": "south"},
        {"r1": "north", "r2": "north", "r3": "south", "north": "Total", "south": "Total"},
        pd.DataFrame({"child": ["r1", "r2", "r3"], "parent": ["north", "north", "south"]}),
        pa.table({"child": ["r3", "r1", "r2"], "parent": ["south", "north", "north"]}),
        ["half"],
    ],
)
def test_forms_of_a_hierarchy(hierarchy):
    frame = cells(half=["north"] * 4 + ["south"] * 2)
    table = Table(frame, ["region", "sector"], hierarchies={"region": hierarchy})
    assert rows(table)["north", "Total"] == 18
    assert rows(table)["south", "t"] == 8
    assert table.count == 6 * 3


def test_a_hierarchy_of_leading_parts():
    frame = pl.DataFrame({"nace": ["C101", "C102", "C11", "D3"], "n": [1, 2, 3, 4]})
    table = Table(frame, ["nace"], hierarchies={"nace": [1, 3]})
    assert rows(table) == {
        ("Total",): 10, ("C",): 6, ("C10",): 3, ("C101",): 1, ("C102",): 2, ("C11",): 3, ("D",): 4, ("D3",): 4,
    }  # fmt: skip


def test_hierarchies_of_argus_go_through_a_file(tmp_path):
    path = tmp_path / "region.hrc"
    path.write_text("north\n@r1\n@r2\nsouth\n@r3\n")
    assert read_hrc(path) == {"north": {"r1": {}, "r2": {}}, "south": {"r3": {}}}
    table = Table(cells(), ["region", "sector"], hierarchies={"region": str(path)})
    assert rows(table)["north", "Total"] == 18
    write_hrc(table.hierarchies[0], tmp_path / "again.hrc")
    assert (tmp_path / "again.hrc").read_text() == path.read_text()
    path.write_text("north\n@@r1\n")
    with pytest.raises(DataError, match="line 2"):
        read_hrc(path)
    with pytest.raises(FileError, match=r"none\.hrc"):
        read_hrc(tmp_path / "none.hrc")


def test_apriori_files_say_what_to_keep(tmp_path):
    path = tmp_path / "keep.hst"
    path.write_text("r1,t,p\n")
    table = Table(cells(), ["region", "sector"])
    hidden = tables.suppress(table, SmallCount(4), priority=read_apriori(path, table.dimensions))
    assert tables.suppress(table, SmallCount(4)).suppressed[table.row_of(np.array([[1, 2]]))[0]]
    assert not hidden.suppressed[table.row_of(np.array([[1, 2]]))[0]]
    path.write_text("r1,t,u\n")
    with pytest.raises(DataError, match="line 1"):
        read_apriori(path, table.dimensions)


@pytest.mark.parametrize("hierarchy", [None, NESTED, ["half"]])
def test_sums_among_the_cells_are_checked_and_not_counted_twice(hierarchy):
    names = [*CELLS["region"], "Total", "r1"], [*CELLS["sector"], "Total", "Total"]
    half = ["north"] * 4 + ["south"] * 2 + ["Total", "north"]
    frame = pl.DataFrame({"region": names[0], "sector": names[1], "half": half, "n": [*CELLS["n"], 33, 7]})
    table = Table(frame, ["region", "sector"], hierarchies={"region": hierarchy})
    assert table.inner_values.sum() == 33
    wrong = frame.with_columns(n=pl.Series([*CELLS["n"], 33, 8]))
    with pytest.raises(DataError, match=r"1 sums are not those of their parts \(the first in row 8\)"):
        Table(wrong, ["region", "sector"], hierarchies={"region": hierarchy})


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"n": [3, None, 5, 6, 7, 8]}, r"column 'n': missing in 1 rows \(the first in row 2\)"),
        ({"n": [3, -4, 5, 6, 7, 8]}, r"1 counts are negative \(the first in row 2\)"),
        ({"n": [3.0, np.inf, 5, 6, 7, 8]}, "column 'n': infinite"),
        ({"n": ["a"] * 6}, "does not hold numbers"),
        ({"region": ["r1", "r1", "r2", "r2", "r3", "r9"]}, "1 codes are not in its hierarchy \\(the first in row 6\\)"),
        (
            {"region": ["r1", "r1", "r1", "r2", "r3", "r3"]},
            r"1 cells occur more than once \(the first in row 1\)",
        ),
        ({"region": ["r1", "r1", None, "r2", "r3", "r3"]}, "1 rows without a code"),
    ],
)
def test_bad_cells_are_refused_by_their_row(changed, problem):
    with pytest.raises(DataError, match=problem) as caught:
        Table(cells(**changed), ["region", "sector"], hierarchies={"region": NESTED})
    assert "-4" not in str(caught.value)


def test_a_hierarchy_whose_columns_do_not_nest_is_refused():
    frame = cells(half=["north", "south", "north", "north", "south", "south"])
    with pytest.raises(DataError, match="columns 'region' and 'half' do not nest: 1 codes lie below two others"):
        Table(frame, ["region", "sector"], hierarchies={"region": ["half"]})


@pytest.mark.parametrize(
    ("hierarchy", "problem"),
    [
        ({"a": ["r1", "r2"], "b": ["r1", "r3"]}, "'r1' lies below two others"),
        ({"r1": "r2", "r2": "r1", "r3": "x"}, "2 codes lie below themselves"),
        ({"x": "Total", "Total": "y", "r1": "x", "r2": "x", "r3": "z"}, "'Total' is the name of its total"),
        (pl.DataFrame({"a": ["r1", "r1"], "b": ["x", "y"]}), "a code lies below two others"),
    ],
)
def test_hierarchies_that_are_none(hierarchy, problem):
    with pytest.raises(DataError, match=problem):
        Table(cells(), ["region", "sector"], hierarchies={"region": hierarchy})


def test_a_sum_of_one_part_with_the_same_name_is_that_part():
    frame = pl.DataFrame({"region": ["Oslo", "b", "c"], "county": ["Oslo", "X", "X"], "n": [1, 2, 3]})
    assert rows(Table(frame, ["region"], hierarchies={"region": ["county"]})) == {
        ("Total",): 6, ("Oslo",): 1, ("X",): 5, ("b",): 2, ("c",): 3,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"dimensions": ["nowhere"]}, "no column 'nowhere'"),
        ({"dimensions": []}, "at least one column"),
        ({"dimensions": ["region", "region"]}, "named twice"),
        ({"dimensions": ["region"], "value": "m"}, "value: there is no column 'm'"),
        ({"dimensions": ["region"], "value": "region"}, "is a dimension already"),
        ({"dimensions": ["region"], "contributors": False}, "contributors"),
        ({"dimensions": ["region"], "counts": "n", "contributors": True}, "counts"),
        ({"dimensions": ["region"], "hierarchies": {"sector": NESTED}}, "'sector' is not among the dimensions"),
        ({"dimensions": ["region"], "hierarchies": {"region": ["half"]}}, "no column 'half'"),
        ({"dimensions": ["region"], "hierarchies": {"region": [1.5]}}, "cannot be read"),
        ({"dimensions": ["region", "sector"], "linked": [["region"]]}, "no table has the dimension 'sector'"),
        ({"dimensions": ["region"], "linked": [["sector"]]}, "'sector' is not among the dimensions"),
    ],
)
def test_bad_options_are_refused(options, problem):
    with pytest.raises(ParameterError, match=problem):
        Table(cells(), **options)


def test_no_rows():
    with pytest.raises(DataError, match="no rows"):
        Table(cells()[:0], ["region"])


RECORDS = {
    "region": ["x", "x", "x", "x", "y", "y", "y", "z"],
    "firm": ["A", "A", "B", "C", "A", "B", "C", "D"],
    "amount": [40.0, 40.0, 15.0, 5.0, 50.0, 45.0, 5.0, 10.0],
}


def test_records_are_counted():
    table = Table(pl.DataFrame(RECORDS), ["region"], None)
    assert rows(table) == {("Total",): 8, ("x",): 4, ("y",): 3, ("z",): 1}
    assert SmallCount(4).primary(table).tolist() == [False, False, True, True]


def test_records_with_the_code_of_a_sum_are_refused():
    frame = pl.DataFrame(RECORDS | {"region": ["x", "x", "x", "x", "y", "y", "y", "all"]})
    with pytest.raises(DataError, match=r"1 records have the code of a sum \(the first in row 8\)"):
        Table(frame, ["region"], None, {"region": {"all": ["x", "y"]}})


def test_contributions_of_one_contributor_count_as_one():
    """Firm A has 80 of 100 in x by two records: dominant as one contributor, not as two."""
    frame = pl.DataFrame(RECORDS)
    by_firm = Table(frame, ["region"], "amount", contributors="firm")
    by_row = Table(frame, ["region"], "amount", contributors=True)
    assert Dominance(1, 75).primary(by_firm).tolist() == [False, True, False, True]
    assert Dominance(1, 75).primary(by_row).tolist() == [False, False, False, True]
    assert Dominance(1, 80).primary(by_firm).tolist() == [False, True, False, True]  # 80 percent is k percent or more
    assert FewContributors(3).primary(by_firm).tolist() == [False, False, False, True]
    assert PPercent(11).primary(by_firm).tolist() == [False, True, True, True]  # 5 is less than 11 percent of 50
    assert PPercent(10).primary(by_firm).tolist() == [False, True, False, True]  # and not less than 10
    assert SmallCount(4).primary(by_firm).tolist() == [False, False, True, True]  # records


def test_contributions_that_cancel_out_are_looked_at_without_their_sign():
    frame = pl.DataFrame({"a": ["x"] * 3, "who": ["A", "B", "C"], "amount": [100.0, -90.0, 1.0]})
    table = Table(frame, ["a"], "amount", contributors="who")
    assert not Dominance(1, 60).primary(table).any()
    assert Dominance(1, 52).primary(table).all()


def test_amounts_as_cells_with_the_number_of_records():
    frame = pl.DataFrame({"a": ["x", "y"], "amount": [-5.0, 8.0], "records": [2, 9]})
    table = Table(frame, ["a"], "amount", counts="records")
    assert SmallCount(4).primary(table).tolist() == [False, True, False]
    with pytest.raises(ParameterError, match="Dominance must know who contributed"):
        Dominance(1, 75).primary(table)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: SmallCount(0), "SmallCount: limit"),
        (lambda: SmallCount(True), "true and false are not numbers"),
        (lambda: SmallCount(), "limit"),
        (lambda: SmallCount(3, 4), "has 1 parameters, 2 were given"),
        (lambda: Dominance(0, 75), "Dominance: n"),
        (lambda: Dominance(1, 101), "Dominance: k"),
        (lambda: Dominance(1, 75, limit=3), "there are: n, k"),
        (lambda: PPercent(-1), "PPercent: p"),
        (lambda: FewContributors(1), "FewContributors: least"),
    ],
)
def test_parameters_of_rules_are_checked(make, problem):
    with pytest.raises(ParameterError, match=problem):
        make()


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_come_back_as_the_kind_they_were(kind):
    table = Table(kind(CELLS), ["region", "sector"])
    shown = tables.suppress(table, SmallCount(4)).cells
    assert isinstance(shown, pa.Table if kind is pa.table else kind)
    names = shown.column_names if kind is pa.table else list(shown.columns)
    assert names == ["region", "sector", "n", "primary", "suppressed"]
    first = shown.to_pylist()[0] if kind is pa.table else pl.DataFrame(shown).row(0, named=True)
    assert first == {"region": "Total", "sector": "Total", "n": 33, "primary": False, "suppressed": False}


def test_codes_that_are_numbers_read_as_people_write_them():
    frame = pd.DataFrame({"a": [1234567, 2.0], "n": [3, 4]})
    assert Table(frame, ["a"]).labels["a"].tolist() == ["Total", "2", "1234567"]


def test_linked_tables_show_their_own_cells_only():
    frame = pl.DataFrame({"a": ["x", "x", "y"], "b": ["u", "v", "v"], "c": ["p", "q", "q"]})
    table = Table(frame, ["a", "b", "c"], None, linked=[["a", "b"], ["c"]])
    assert rows(table) == {
        ("Total", "Total", "Total"): 3, ("Total", "Total", "p"): 1, ("Total", "Total", "q"): 2,
        ("Total", "u", "Total"): 1, ("Total", "v", "Total"): 2, ("x", "Total", "Total"): 2, ("x", "u", "Total"): 1,
        ("x", "v", "Total"): 1, ("y", "Total", "Total"): 1, ("y", "u", "Total"): 0, ("y", "v", "Total"): 1,
    }  # fmt: skip
