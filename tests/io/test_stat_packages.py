"""Files of SPSS, Stata and SAS come back with equal data, labels, types and order."""

import datetime as dt
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyreadstat
import pytest
from format_files import ROWS, SENTINEL, again, protected, refused, survey
from polars.testing import assert_frame_equal

from microveil.core.errors import FileError
from microveil.io.tables import check_target, read_table, write_table

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
