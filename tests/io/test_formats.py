"""Files of every kind come back with equal data, labels, types and order, and read as pandas reads them."""

import datetime as dt
import re
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from format_files import ROWS, SENTINEL, again, protected, refused, survey

import microveil as mv
from microveil.core.errors import DataError, FileError
from microveil.io.files import formats
from microveil.io.tables import EXTENSIONS, FileFormat, ReadOptions, check_target, read_table, write_table

# Arrow and Parquet


def arrow_table() -> pa.Table:
    frame = survey()
    return pa.table(
        {
            "turnover": frame["turnover"].to_arrow(),
            "wages": frame["wages"].to_arrow(),
            "text": pa.array(["a", None] * (ROWS // 2), pa.string()),
            "kind": pa.array(["x", "y"] * (ROWS // 2)).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())),
            "second": pa.array(range(ROWS), pa.timestamp("s", "Europe/Oslo")),
            "date": pa.array(range(ROWS), pa.date32()),
            "small": pa.array(range(ROWS), pa.uint8()),
            "exact": pa.array([None, *range(ROWS - 1)], pa.decimal128(12, 2)),
            "items": pa.array([[1], []] * (ROWS // 2), pa.list_(pa.int16())),
        },
        metadata={"pandas": '{"index_columns": []}', "secret": SENTINEL},
    ).cast(
        pa.schema(
            [
                pa.field("turnover", pa.float64(), metadata={"label": "Turnover in EUR"}),
                pa.field("wages", pa.float64()),
                pa.field("text", pa.string()),
                pa.field("kind", pa.dictionary(pa.int8(), pa.string())),
                pa.field("second", pa.timestamp("s", "Europe/Oslo")),
                pa.field("date", pa.date32(), nullable=False),
                pa.field("small", pa.uint8()),
                pa.field("exact", pa.decimal128(12, 2)),
                pa.field("items", pa.list_(pa.int16())),
            ],
            metadata={"pandas": '{"index_columns": []}', "secret": SENTINEL},
        )
    )


@pytest.mark.parametrize("extension", [".arrow", ".feather"])
def test_arrow_comes_back_with_its_types_and_labels(tmp_path, extension):
    source = tmp_path / f"firms{extension}"
    table = arrow_table()
    with pa.ipc.new_file(source, table.schema) as writer:
        writer.write_table(table)
    _, target = again(source)
    back = pa.ipc.open_file(target).read_all()
    assert back.schema.equals(table.schema)
    assert all(field.metadata is None for field in back.schema)
    assert back.equals(table)
    assert back.schema.metadata == {b"pandas": b'{"index_columns": []}'}, "nobody has looked at the rest"
    assert SENTINEL.encode() not in target.read_bytes()
    _, released = protected(source)
    back = pa.ipc.open_file(released).read_all()
    assert back.schema.equals(table.schema)
    assert all(field.metadata is None for field in back.schema)
    rest = [name for name in table.column_names if name not in ("turnover", "wages")]
    assert back.select(rest).equals(table.select(rest))
    assert back["turnover"] != table["turnover"]


def test_a_stream_of_arrow_is_read_too(tmp_path):
    table = arrow_table()
    with pa.ipc.new_stream(tmp_path / "s.arrow", table.schema) as writer:
        writer.write_table(table)
    assert read_table(tmp_path / "s.arrow")[0].height == ROWS
    pd.DataFrame({"x": [1.5, 2.5], "s": ["a", "b"]}).to_feather(tmp_path / "p.feather")
    _, target = again(tmp_path / "p.feather")
    pd.testing.assert_frame_equal(pd.read_feather(target), pd.read_feather(tmp_path / "p.feather"))


def test_parquet_files_of_pandas_come_back_with_their_index(tmp_path):
    table = survey().to_pandas()
    table["kind"] = pd.Categorical(["x", "y"] * (ROWS // 2))
    table["whole"] = pd.array([1, None] * (ROWS // 2), dtype="Int32")
    table["zone"] = pd.to_datetime(["2020-01-31"] * ROWS).tz_localize("Europe/Oslo")
    table = table.set_index("id")
    table.to_parquet(tmp_path / "firms.parquet")
    _, target = again(tmp_path / "firms.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(target), pd.read_parquet(tmp_path / "firms.parquet"))
    _, released = protected(tmp_path / "firms.parquet")
    rest = [name for name in table.columns if name not in ("turnover", "wages")]
    pd.testing.assert_frame_equal(pd.read_parquet(released)[rest], table[rest])
    assert pq.read_schema(target).names == pq.read_schema(tmp_path / "firms.parquet").names


ODD = ["*", "a b", "a,b", "a;b", "a.b", "select", 'q"q', "`x`", " pad", "%s", "{x}", "[1]", "ä"]


@pytest.mark.parametrize("extension", [".csv", ".tsv", ".txt", ".parquet", ".arrow", ".feather", ".xlsx"])
def test_names_may_be_odd_and_numbers_long(tmp_path, extension):
    numbers = np.random.default_rng(8).lognormal(size=(ROWS, len(ODD)))
    table = pl.DataFrame(numbers, schema=ODD).with_columns(text=pl.lit("=x"), whole=pl.lit(7))
    source, target = tmp_path / f"in{extension}", tmp_path / f"out{extension}"
    write_table(table, source, FileFormat("none"))
    frame, like = read_table(source)
    assert frame.columns == [*ODD, "text", "whole"]
    assert frame[:, : len(ODD)].to_numpy().tolist() == numbers.tolist()
    release = mv.protect(frame, "ipso", confidential=ODD[:3], seed=1)
    write_table(release.data, target, like)
    back, _ = read_table(target)
    assert back.columns == frame.columns
    for name in frame.columns:
        assert back[name].to_list() == release.data[name].to_list()
        assert (back[name].to_list() == frame[name].to_list()) == (name not in ODD[:3])


def test_a_name_that_is_a_pattern_to_polars_is_refused_in_words(tmp_path):
    said = r"column '\^a\.\*\$' has a name that polars takes for a pattern; rename it"
    table = pd.DataFrame({"^a.*$": [1.0, 2.5, 4.0], "b": [3.0, 1.5, 2.0]})
    table.to_csv(tmp_path / "in.csv", index=False)
    table.to_excel(tmp_path / "in.xlsx", index=False)
    for name in ("in.csv", "in.xlsx"):
        with pytest.raises(DataError, match=said):
            read_table(tmp_path / name)
    with pytest.raises(DataError, match=said):
        mv.protect(pl.from_pandas(table))
    assert list(mv.protect(table, "pca", seed=1).data.columns) == ["^a.*$", "b"]


# Excel


def test_excel_files_of_pandas_come_back(tmp_path):
    table = survey().to_pandas().assign(flag=[True, False] * (ROWS // 2), note=["x", None] * (ROWS // 2))
    table["founded"] = pd.to_datetime(table["founded"])
    table.loc[3, ["turnover", "founded"]] = None
    source = tmp_path / "firms.xlsx"
    table.to_excel(source, index=False, sheet_name="Survey")
    frame, target = again(source)
    pd.testing.assert_frame_equal(pd.read_excel(target, sheet_name="Survey"), pd.read_excel(source))
    kinds = [pl.String, pl.Float64, pl.Float64, pl.Int64, pl.Int64, pl.Datetime, pl.Boolean, pl.String]
    assert [kind.base_type() for kind in frame.schema.values()] == kinds
    _, released = protected(source)
    rest = [name for name in table.columns if name not in ("turnover", "wages")]
    pd.testing.assert_frame_equal(pd.read_excel(released)[rest], pd.read_excel(source)[rest])
    before, after = (openpyxl.load_workbook(path).active for path in (source, released))
    assert [cell.number_format for cell in after[2]] == [cell.number_format for cell in before[2]]


def workbook(path: Path, *rows, sheet="Sheet") -> Path:
    book = openpyxl.Workbook()
    book.active.title = sheet
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


def test_one_sheet_is_read_and_no_other_is_released(tmp_path):
    source = workbook(tmp_path / "a.xlsx", ["x", 2019, 2020], [1.5, 2, 3], [2.5, "NA", 4])
    book = openpyxl.load_workbook(source)
    book.create_sheet("Other").append([SENTINEL])
    book.create_sheet("Third").append(["z"])
    book["Third"].append([5])
    book["Sheet"]["A2"].number_format = "0.00"
    book["Sheet"]["A3"].number_format = "0.00"
    book.save(source)
    frame, form = read_table(source)
    assert form.description == "sheet 'Sheet' (of 3; the others are not released)"
    assert frame["2019"].to_list() == [2, None]
    write_table(frame, tmp_path / "b.xlsx", form)
    back = openpyxl.load_workbook(tmp_path / "b.xlsx")
    assert back.sheetnames == ["Sheet"]
    assert list(back["Sheet"].values) == [("x", 2019, 2020), (1.5, 2, 3), (2.5, "NA", 4)]
    assert back["Sheet"]["A2"].number_format == "0.00"
    assert read_table(f"{source}#Third")[0]["z"].to_list() == [5]
    assert read_table(source, ReadOptions(sheet="Third"))[0]["z"].to_list() == [5]
    assert "did you mean 'Third'" in refused(FileError, lambda: read_table(f"{source}#Thrid"))
    write_table(frame, f"{tmp_path}/c.xlsx#Named", form)
    assert openpyxl.load_workbook(tmp_path / "c.xlsx").sheetnames == ["Named"]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "sheet is empty"),
        ([["x", "y"]], "no rows"),
        ([["x", "x"], [1, 2]], "repeats column names"),
        ([["x", None, "y"], [1, 2, 3]], "no name for column 2"),
        ([["x"], [1, 2]], "beyond its last column name"),
        ([[1.5, 2.5], [3.5, 4.5]], "numbers in place of column names"),
        ([["x", "y"], [1, "=A2*2"]], "formulas without a result"),
    ],
)
def test_sheets_that_are_no_table(tmp_path, rows, words):
    path = workbook(tmp_path / "a.xlsx", *rows)
    assert words in refused(DataError, lambda: read_table(path))


def test_mixed_cells_come_back_as_they_were(tmp_path):
    rows = [["x", "mixed", "big"], [1.5, 1, 10**20], [2.5, "two", 5], [3.5, dt.datetime(2020, 1, 31), 6]]
    frame, target = again(workbook(tmp_path / "a.xlsx", *rows))
    assert frame["mixed"].to_list() == ["1", "two", "2020-01-31 00:00:00"]
    assert frame["big"].to_list() == [1e20, 5, 6]
    assert [list(row) for row in openpyxl.load_workbook(target).active.values] == rows


def test_a_sheet_has_only_so_many_rows(tmp_path):
    tall = pl.DataFrame({"x": pl.int_range(0, 1_048_576, eager=True)})
    assert "1,048,575 rows" in refused(FileError, lambda: check_target(tmp_path / "a.xlsx", frame=tall))


# What is not installed


@pytest.mark.parametrize(
    ("place", "package", "extra"),
    [
        ("a.sav", "pyreadstat", "stat"),
        ("a.dta", "pyreadstat", "stat"),
        ("a.xlsx", "openpyxl", "excel"),
        ("duckdb:///a.duckdb#t", "duckdb", "db"),
    ],
)
def test_a_missing_package_is_named(tmp_path, monkeypatch, place, package, extra):
    monkeypatch.chdir(tmp_path)
    frame, like = pl.DataFrame({"x": [1.5]}), FileFormat("csv")
    write_table(frame, place, like)
    find = formats.importlib.util.find_spec
    monkeypatch.setattr(formats.importlib.util, "find_spec", lambda name: None if name == package else find(name))
    for action in (lambda: read_table(place), lambda: write_table(frame, place, like, replacing=True)):
        assert f'pip install "microveil[{extra}]"' in refused(FileError, action)


def test_no_library_is_loaded_before_it_is_needed():
    libraries = {"pyreadstat", "openpyxl", "duckdb", "adbc_driver_postgresql", "sqlite3", "pandas"} - {"sqlite3"}
    script = f"import sys, microveil.io.tables; print({libraries!r} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"


def test_every_extension_is_in_the_docs():
    text = (Path(__file__).parents[2] / "docs" / "files.md").read_text(encoding="utf-8")
    for extension in EXTENSIONS:
        assert re.search(rf"`{re.escape(extension)}`", text), extension


def test_the_same_table_gives_the_same_workbook_whenever_it_is_written(tmp_path: Path) -> None:
    for name in ("one.xlsx", "two.xlsx"):
        write_table(pl.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]}), tmp_path / name, FileFormat("excel", ".xlsx"))
    assert (tmp_path / "one.xlsx").read_bytes() == (tmp_path / "two.xlsx").read_bytes()
    with ZipFile(tmp_path / "one.xlsx") as book:
        assert {part.date_time for part in book.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert b"1980-01-01" in book.read("docProps/core.xml")
