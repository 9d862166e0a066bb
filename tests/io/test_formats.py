"""Files of every kind come back with equal data, labels, types and order, and read as pandas reads them."""

import datetime as dt
import re
import subprocess
import sys
import traceback
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pyreadstat
import pytest
from polars.testing import assert_frame_equal

import microveil as mv
from microveil.core.errors import DataError, FileError
from microveil.io.files import formats
from microveil.io.tables import EXTENSIONS, FileFormat, ReadOptions, check_target, read_table, write_table

SENTINEL = "SECRET81234"
ROWS = 40
TOLD = (  # of what pyreadstat finds, what must come back
    "column_names",
    "column_labels",
    "number_rows",
    "variable_value_labels",
    "original_variable_types",
    "readstat_variable_types",
    "missing_ranges",
    "missing_user_values",
    "variable_storage_width",
    "variable_display_width",
    "variable_measure",
    "variable_alignment",
)


def survey(rows: int = ROWS) -> pl.DataFrame:
    """Firms with amounts, categories, text and dates."""
    rng = np.random.default_rng(7)
    return pl.DataFrame(
        {
            "id": [f"firm {n}" for n in range(rows)],
            "turnover": rng.lognormal(5, 1, rows).round(2),
            "wages": rng.lognormal(4, 1, rows).round(2),
            "staff": rng.integers(1, 200, rows),
            "region": rng.choice([1, 2, 3], rows),
            "founded": [dt.date(1980, 1, 31) + dt.timedelta(days=int(n) * 37) for n in rng.integers(0, 400, rows)],
        }
    )


def again(path: Path) -> tuple[pl.DataFrame, Path]:
    """Read a file, write it without a change."""
    frame, form = read_table(path)
    target = path.with_name(f"again{path.suffix}")
    write_table(frame, target, form)
    return frame, target


def protected(path: Path, **options) -> tuple[pl.DataFrame, Path]:
    """Read a file, protect two columns, write it with all others."""
    frame, form = read_table(path)
    release = mv.protect(frame, "pca", confidential=["turnover", "wages"], keep="rest", seed=1, **options)
    target = path.with_name(f"released{path.suffix}")
    write_table(release.data, target, form)
    return release.data, target


def refused(kind, action) -> str:
    with pytest.raises(kind) as caught:
        action()
    chain = caught.value
    assert chain.hint
    message = str(chain)
    while chain is not None:
        assert SENTINEL not in "".join(traceback.format_exception_only(chain))
        chain = chain.__cause__ or chain.__context__
    return message


# Statistics packages


def spss_file(path: Path) -> pl.DataFrame:
    """As SPSS users keep a survey; in the manner of haven's write_sav, but not made by R."""
    frame = survey().with_columns(
        pl.when(pl.int_range(pl.len()) % 7 == 3).then(-9.0).otherwise(pl.col("wages")).alias("wages"),
        pl.when(pl.int_range(pl.len()) % 11 == 5).then(None).otherwise(pl.col("turnover")).alias("turnover"),
        pl.when(pl.int_range(pl.len()) % 13 == 6).then(99).otherwise(pl.col("region")).alias("region"),
        pl.Series("moment", [dt.datetime(2020, 1, 31, 12, 30, n) for n in range(ROWS)]),
    )
    pyreadstat.write_sav(
        frame,
        path,
        file_label="Firms",
        column_labels={"turnover": "Turnover in EUR", "region": "Where it is", "id": "Größe"},
        compress=path.suffix == ".zsav",
        row_compress=path.suffix == ".sav",
        note=["first note", "second note"],
        variable_value_labels={
            "region": {1: "north", 2: "south", 3: "Ärmelkanal", 99: "refused"},
            "wages": {-9.0: "no answer"},
        },
        missing_ranges={"wages": [-9.0], "region": [{"lo": 98, "hi": 99}]},
        variable_display_width={"turnover": 14},
        variable_measure={"turnover": "scale", "region": "nominal", "staff": "ordinal"},
        variable_format={"turnover": "F12.2", "staff": "F5.0", "founded": "EDATE10"},
    )
    return frame


def assert_same_sav(one: Path, other: Path, columns: list[str] | None = None) -> None:
    options = {"user_missing": True, "output_format": "polars"}
    (before, meta), (after, found) = (pyreadstat.read_sav(path, **options) for path in (one, other))
    columns = columns or before.columns
    assert_frame_equal(after.select(columns), before.select(columns), check_exact=True)
    assert after.columns == before.columns
    for word in TOLD:
        assert getattr(found, word) == getattr(meta, word), word


@pytest.mark.parametrize("extension", [".sav", ".zsav"])
def test_spss_comes_back(tmp_path, extension):
    source = tmp_path / f"firms{extension}"
    spss_file(source)
    frame, target = again(source)
    assert_same_sav(source, target)
    assert frame["wages"].null_count() == sum(n % 7 == 3 for n in range(ROWS)), "a user-missing code is a missing cell"
    assert frame["region"].dtype == pl.Enum(["north", "south", "Ärmelkanal", "refused"])
    assert frame["region"].null_count() == sum(n % 13 == 6 for n in range(ROWS))
    assert frame["founded"].dtype == pl.Date
    told = read_table(source)[1].description
    assert told == "SPSS; labelled, so taken as categories: region; user-missing codes in wages, region"


def test_a_protected_spss_file_keeps_codes_labels_and_the_other_columns(tmp_path):
    source = tmp_path / "firms.sav"
    original = spss_file(source)
    released, target = protected(source)
    assert_same_sav(source, target, ["id", "staff", "region", "founded", "moment"])
    after, _ = pyreadstat.read_sav(target, user_missing=True, output_format="polars")
    coded = original["wages"] == -9.0
    assert (after["wages"].filter(coded) == -9.0).all()
    assert (after["wages"].filter(~coded) != original["wages"].filter(~coded)).all()
    assert_frame_equal(released.select("turnover"), after.select("turnover"), check_exact=True)


def stata_file(path: Path, version: int) -> pd.DataFrame:
    """By pandas, which writes every storage type."""
    frame = survey()
    table = pd.DataFrame(
        {
            "id": frame["id"].to_list(),
            "turnover": frame["turnover"].to_numpy(),
            "wages": frame["wages"].to_numpy().astype(np.float32),
            "staff": frame["staff"].to_numpy().astype(np.int16),
            "region": frame["region"].to_numpy().astype(np.int8),
            "big": np.arange(ROWS, dtype=np.int32) * 50_000_000,
            "founded": pd.to_datetime(frame["founded"].to_list()),
            "moment": pd.to_datetime(["2020-01-31 12:30"] * ROWS),
        }
    )
    table.loc[3, ["turnover", "founded"]] = None
    table.to_stata(
        path,
        version=version,
        write_index=False,
        data_label="Firms",
        variable_labels={"turnover": "Turnover in EUR"},
        value_labels={"region": {1: "north", 2: "south", 3: "west"}},
        convert_dates={"founded": "td", "moment": "tc"},
    )
    return table


@pytest.mark.parametrize("version", [114, 117, 118])
def test_stata_files_of_pandas_come_back(tmp_path, version):
    source = tmp_path / "firms.dta"
    stata_file(source, version)
    frame, target = again(source)
    pd.testing.assert_frame_equal(pd.read_stata(target), pd.read_stata(source))
    meta, found = (pyreadstat.read_dta(path, user_missing=True)[1] for path in (source, target))
    for word in TOLD:
        assert getattr(found, word) == getattr(meta, word), word
    start = source.read_bytes()[:40]
    assert target.read_bytes().startswith(start[:1] if version == 114 else start), "the same release of the format"
    kinds = [pl.String, pl.Float64, pl.Float32, pl.Int16, pl.Enum, pl.Int32, pl.Date, pl.Datetime]
    assert [kind.base_type() for kind in frame.schema.values()] == kinds
    assert frame["turnover"][3] is frame["founded"][3] is None
    _, released = protected(source)
    before, after = pd.read_stata(source), pd.read_stata(released)
    rest = ["id", "staff", "region", "big", "founded", "moment"]
    pd.testing.assert_frame_equal(after[rest], before[rest])
    pd.testing.assert_series_equal(after.dtypes, before.dtypes)
    assert after["turnover"].isna().tolist() == before["turnover"].isna().tolist()


def test_extended_missing_values_of_stata_come_back(tmp_path):
    source = tmp_path / "firms.dta"
    wages = [float(n) if n % 5 else "a" if n % 2 else "z" for n in range(ROWS)]
    table = pd.DataFrame({"wages": pd.Series(wages, dtype=object), "turnover": survey()["turnover"].to_numpy()})
    pyreadstat.write_dta(
        table,
        source,
        version=14,
        missing_user_values={"wages": ["a", "z"]},
        variable_value_labels={"wages": {"a": "refused", "z": "not asked"}},
    )
    frame, target = again(source)
    assert frame["wages"].null_count() == ROWS // 5
    _, released = protected(source)
    for path in (target, released):
        cells, meta = pyreadstat.read_dta(path, user_missing=True, output_format="dict")
        assert [cell if isinstance(cell, str) else None for cell in cells["wages"]] == [
            cell if isinstance(cell, str) else None for cell in wages
        ]
        assert meta.variable_value_labels == {"wages": {"a": "refused", "z": "not asked"}}
        assert sorted(meta.missing_user_values["wages"]) == ["a", "z"]


@pytest.mark.parametrize("version", [5, 8])
def test_transport_files_come_back(tmp_path, version):
    source = tmp_path / "firms.xpt"
    pyreadstat.write_xport(
        survey().with_columns(pl.when(pl.int_range(pl.len()) != 4).then(pl.col("turnover")).alias("turnover")),
        source,
        file_label="Firms",
        table_name="FIRMS",
        column_labels={"turnover": "Turnover in EUR"},
        file_format_version=version,
        variable_format={"turnover": "BEST12.", "founded": "DATE9."},
    )
    frame, target = again(source)
    (before, meta), (after, found) = (pyreadstat.read_xport(path) for path in (source, target))
    pd.testing.assert_frame_equal(after, before)
    if version == 5:  # pandas reads no other
        one, other = (pd.read_sas(path, encoding="utf-8") for path in (source, target))
        pd.testing.assert_frame_equal(other, one)
    for word in (*TOLD, "table_name"):
        assert getattr(found, word) == getattr(meta, word), word
    assert frame["founded"].dtype == pl.Date
    assert frame["turnover"].null_count() == 1
    _, released = protected(source)
    rest = [name for name in before.columns if name not in ("turnover", "wages")]
    pd.testing.assert_frame_equal(pyreadstat.read_xport(released)[0][rest], before[rest])


def test_a_partly_labelled_column_is_one_of_amounts(tmp_path):
    source = tmp_path / "a.sav"
    frame = pl.DataFrame({"x": [0.0, 1.5, 2.5], "same": [1.0, 2.0, 1.0]})
    pyreadstat.write_sav(frame, source, variable_value_labels={"x": {0.0: "none"}, "same": {1.0: "yes", 2.0: "yes"}})
    assert read_table(source)[0].schema == {"x": pl.Float64, "same": pl.Float64}
    assert_same_sav(source, again(source)[1])


def test_rows_in_another_order_take_their_codes_and_labels_along(tmp_path):
    source = tmp_path / "firms.sav"
    spss_file(source)
    frame, form = read_table(source)
    write_table(frame.reverse(), tmp_path / "b.sav", form)
    before, after = (pyreadstat.read_sav(path, output_format="polars")[0] for path in (source, tmp_path / "b.sav"))
    assert_frame_equal(after, before.reverse())


def test_other_files_become_those_of_statistics_packages_and_back(tmp_path):
    frame = survey().with_columns(pl.col("region").cast(pl.String).cast(pl.Categorical))
    frame.write_parquet(tmp_path / "firms.parquet")
    source, form = read_table(tmp_path / "firms.parquet")
    for extension in (".sav", ".zsav", ".dta", ".xpt", ".xlsx", ".arrow", ".csv"):
        write_table(source, tmp_path / f"firms{extension}", form)
        back, _ = read_table(tmp_path / f"firms{extension}")
        assert back.columns == frame.columns
        for name in ("turnover", "wages", "staff"):
            assert back[name].cast(pl.Float64).to_list() == frame[name].cast(pl.Float64).to_list()
        assert [str(cell)[:10] for cell in back["founded"]] == [str(cell) for cell in frame["founded"]]
        assert [str(cell) for cell in back["id"]] == frame["id"].to_list()


@pytest.mark.parametrize("extension", [".sav", ".dta", ".xpt"])
def test_names_that_a_package_does_not_know_are_refused_in_time(tmp_path, extension):
    for name in ("two words", "1st", "", "x" * 80):
        message = refused(
            FileError,
            lambda name=name: check_target(tmp_path / f"o{extension}", frame=pl.DataFrame({name: [1.5]})),
        )
        assert "cannot have a column called" in message


@pytest.mark.parametrize("extension", [".sav", ".dta", ".xpt", ".sas7bdat", ".xlsx", ".arrow", ".feather"])
def test_what_is_no_such_file_is_refused_without_its_words(tmp_path, extension):
    for content in (SENTINEL.encode() * 50, b"$FL2" + SENTINEL.encode() * 50, b"PK\x03\x04" + SENTINEL.encode()):
        path = tmp_path / f"bad{extension}"
        path.write_bytes(content)
        assert "is damaged" in refused(FileError, lambda path=path: read_table(path))


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
