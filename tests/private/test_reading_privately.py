"""How cells are read under differential privacy: each by itself, so that no record changes how others are read."""

import contextlib
import sqlite3
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from test_protect_privately import DECLARED, ODD_FILE, people

import microveil as mv
from microveil.core.errors import ParameterError
from microveil.io.dictionary import Dictionary
from microveil.io.files.formats import ReadOptions
from microveil.io.frames.dataframes import open_frame
from microveil.io.locations import place_from
from microveil.io.tables import read_table, without_looking
from microveil.options import Protect
from microveil.private.declared import declared_columns, units_of


class Odd:
    """A cell that can be turned into nothing."""

    def __float__(self):
        raise RuntimeError("secret")

    __str__ = __int__ = __float__


def read_privately(table):
    """The cells of the only column of a table, as a category, an amount, a date and a unit."""
    frame = open_frame(table)
    declared = {"levels": {"c": ["1.5", "2", "3", "f", 1]}}, {"bounds": {"c": (0, 10, 0.25)}}, {"bounds": {"c": DAYS}}
    found = [
        declared_columns(frame, Protect(epsilon=1.0, **said), Dictionary()).read(frame, None)[0] for said in declared
    ]
    cells = [next(iter([*records.amounts.values(), *records.categories.values()]))[1] for records in found]
    return list(zip(*(part.tolist() for part in cells), units_of(frame, "c"), strict=True))


DAYS = ("1990-01-01", "2030-12-31")
OBJECTS = {
    "decimals": [Decimal("1.5"), Decimal(2), Decimal("3.0"), Decimal("-0.0")],
    "numbers": [1, 2.0, np.int8(3), np.float32(1.5)],
    "dates": [date(2000, 1, 1), datetime(2001, 1, 1, 5), pd.Timestamp("2002-01-01"), "2003-03-03"],
}
MORE = [
    Decimal("2.25"),
    Decimal("1e-30"),
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("Infinity"),
    "x",
    2.5,
    None,
    10**400,
]
MORE += [pd.NA, pd.NaT, date(1999, 1, 1), True, [1], b"\xff", complex(1, 1)]


@pytest.mark.parametrize("cells", OBJECTS.values(), ids=OBJECTS)
@pytest.mark.parametrize("more", MORE, ids=lambda cell: type(cell).__name__)
def test_no_object_changes_how_others_are_read(cells, more):
    """Decimals were once read with as many digits as the longest of them, so that 1.5 read 1.50."""
    alone = read_privately(pd.DataFrame({"c": pd.Series(cells, dtype=object)}))
    assert read_privately(pd.DataFrame({"c": pd.Series([*cells, more], dtype=object)}))[:-1] == alone
    assert read_privately(pd.DataFrame({"c": pd.Series([more, *cells], dtype=object)}))[1:] == alone


@pytest.mark.parametrize("kind", ["sav", "dta"])
@pytest.mark.parametrize("more", [9.0, 1.5, np.nan])
def test_no_record_of_a_statistics_package_changes_how_others_are_read(kind, more, tmp_path):
    """A labelled column was once one of labels if every value had one, and one of numbers else."""
    pyreadstat, found = pytest.importorskip("pyreadstat"), []
    for rows in ([1.0, 2.0, 2.0], [1.0, 2.0, 2.0, more]):
        path = tmp_path / f"in.{kind}"
        write = getattr(pyreadstat, f"write_{kind}")
        write(pd.DataFrame({"c": rows}), path, variable_value_labels={"c": {1: "f", 2: "m"}})
        found.append(read_privately(read_table(path, without_looking(path, ReadOptions()))[0]))
    assert found[0] == found[1][:3]
    assert found[0][0][:2] == (4, 4)  # the code, as a level and as an amount


@pytest.mark.parametrize("declared", ["", "REAL", "INTEGER", "TEXT"])
@pytest.mark.parametrize("more", ["oops", 1.5, None, b"\xff", 2**62])
def test_no_record_of_a_database_changes_how_others_are_read(declared, more, tmp_path):
    """In SQLite every cell has a type, and a column once that of all cells together."""
    found = []
    for number, rows in enumerate(
        [[1, 2.5, "NA", "3.0", 2**60 + 1, 1e18], [1, 2.5, "NA", "3.0", 2**60 + 1, 1e18, more]]
    ):
        with contextlib.closing(sqlite3.connect(tmp_path / f"{number}.sqlite")) as connection, connection:
            connection.execute(f"create table t (c {declared})")
            connection.executemany("insert into t values (?)", [(cell,) for cell in rows])
        place = place_from(f"sqlite:///{tmp_path}/{number}.sqlite#t")
        found.append(read_privately(read_table(place, without_looking(place, ReadOptions()))[0]))
    assert found[0] == found[1][:-1]
    assert found[0][0][:2] == (4, 4)


@pytest.mark.parametrize("kind", [pl.Int128, pl.UInt128, pl.Int64, pl.Float64])
@pytest.mark.parametrize("gap", [[], [None]])
def test_whole_numbers_of_any_width_are_read_alike(kind, gap):
    cells = pl.Series([0, 7, 2**62, *gap], dtype=kind)
    frame = open_frame(pl.DataFrame({"x": cells, "c": cells}))
    asked = Protect(epsilon=1.0, bounds={"x": (0, 100, 1)}, levels={"c": [7, 2**62]})
    records, _ = declared_columns(frame, asked, Dictionary()).read(frame, None)
    assert records.amounts["x"][1].tolist() == [0, 7, 100, *[-1] * len(gap)]
    assert records.categories["c"][1].tolist() == [-1, 0, 1, *[-1] * len(gap)]
    assert units_of(frame, "c") == ["0", "7", str(2**62), *[""] * len(gap)]


FAR = [
    pl.DataFrame({"day": pl.Series([1, 2**31 - 1] * 20, dtype=pl.Int32).cast(pl.Date)}),
    pl.DataFrame({"day": pl.Series([86_400_000_000, 2**62] * 20).cast(pl.Datetime("us"))}),
    pa.table({"day": pa.array([1, 2**31 - 1] * 20, pa.date32())}),
]


def test_a_list_with_a_date_that_python_has_not_changes_no_other():
    days = pl.Series([[1], [2], [2**31 - 1]]).cast(pl.List(pl.Int32)).cast(pl.List(pl.Date))
    found = [units_of(open_frame(pl.DataFrame({"day": days[:rows]})), "day") for rows in (2, 3)]
    assert found[0] == found[1][:2]
    assert len({*found[0]}) == 2


@pytest.mark.parametrize("table", FAR)
def test_a_date_that_python_has_not_is_missing_and_changes_no_other(table):
    assert len(mv.protect(table, epsilon=1.0, levels={"day": ["a", "b"]}, rows=5).data) == 5
    asked = Protect(epsilon=1.0, bounds={"day": ("1970-01-01", "2030-12-31")})
    frame = open_frame(table)
    records, unfit = declared_columns(frame, asked, Dictionary()).read(frame, None)
    assert records.amounts["day"][1].tolist() == [1, -1] * 20
    assert unfit == {"day": 20}
    assert units_of(frame, "day") == [units_of(frame, "day")[0], ""] * 20


@pytest.mark.parametrize("more", ["5,1,2,", ",1,2,9", "5,1,2,9"])
def test_a_column_without_a_name_is_left_out_whatever_is_in_it(more, tmp_path):
    """It was once a column if any cell of it was filled, and else none."""
    found = []
    for number, lines in enumerate([[",1,2,", ",3,4,"], [",1,2,", ",3,4,", more]]):
        path = tmp_path / f"{number}.csv"
        path.write_text("\n".join([",a,b,", *lines]))
        found.append(read_table(path, without_looking(path, ReadOptions()))[0])
    assert found[0].equals(found[1][:2])
    assert found[0].columns == ["a", "b"]


def test_names_are_in_the_row_that_is_said_whatever_is_below(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("made by us\na title,\nu,v\n1,2\n3,4\n")
    frame, _ = read_table(path, without_looking(path, ReadOptions(skip_rows=1, delimiter=",")))
    assert frame.height == 3
    assert frame.columns == ["a title"]


def test_no_cell_of_a_file_changes_how_others_are_read(tmp_path):
    lines = people(40).to_csv(index=False)
    asked = Protect(**DECLARED)
    found = []
    for number, more in enumerate(["", *(f"{line}\n" for line in ODD_FILE.splitlines()[1:])]):
        path = tmp_path / f"{number}.csv"
        path.write_text(lines + more)
        frame = open_frame(read_table(path, without_looking(path, ReadOptions()))[0])
        records, _ = declared_columns(frame, asked, Dictionary()).read(frame, None)
        assert records.rows == 40 + bool(more)
        columns = [part[1][:40] for part in (*records.amounts.values(), *records.categories.values())]
        found.append(np.column_stack(columns))
        assert (found[-1] == found[0]).all()
    assert (found[0] >= 0).all()
    path = tmp_path / "comma.txt"
    path.write_text("a;b\n1,5;x\n-2,25;y,z\n")
    frame, _ = read_table(path, without_looking(path, ReadOptions(delimiter=";", decimal=",")))
    assert frame.rows() == [("1.5", "x"), ("-2.25", "y,z")]
    with pytest.raises(ParameterError, match="spreadsheet"):
        mv.protect_file(tmp_path / "t.xlsx", tmp_path / "o.csv", **DECLARED)


def test_no_cell_is_an_error():
    table = people(30).astype(object)
    cells = [10**400, 10**5000, b"\xff", [1], {}, complex(1, 2), float("-inf"), Odd()]
    for name in table:
        table[name] = [*cells, *table[name][len(cells) :]]
    assert mv.protect(table, **DECLARED, rows=5).data.shape == (5, 5)
    for unit in ([Odd()] * 30, [Decimal("sNaN"), Decimal(1), [2]] * 10):
        units = table.assign(unit=pd.Series(unit, dtype=object))
        assert len(mv.protect(units, **DECLARED, unit="unit", rows_per_unit=2, rows=5).data) == 5
        assert len(mv.protect(units, **DECLARED, drop="unit", rows=5).data) == 5


def test_a_unit_is_what_its_label_reads():
    table = pd.DataFrame({"unit": [1, "1", 1.0, None, "a", Odd(), "A", 2]})
    assert units_of(open_frame(table), "unit") == ["1", "1", "1", "", "a", "", "A", "2"]
