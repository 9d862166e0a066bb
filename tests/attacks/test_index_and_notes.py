"""The attacker looks beside the columns.

A table of persons is often indexed by their names, and files carry notes of those who made them: attributes of pandas,
metadata of Arrow and Parquet, the label and the documents of an SPSS file. None of this is a column, so no one
looks at it, and all of it would be released as it is. It stays behind unless it is asked for, and the release says so.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from command import run
from pyarrow import parquet

import microveil as mv
from microveil.errors import ParameterError

pytestmark = pytest.mark.usefixtures("few_exchanges")

ROWS = 60
SECRET = "Mr Smith of Mill Lane"


def amounts() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    values = rng.lognormal(3, 1, (ROWS, 3)).round(1)
    return {name: values[:, j] for j, name in enumerate("abc")}


def people(index: Any = None) -> pd.DataFrame:
    return pd.DataFrame(amounts(), index=index)


NAMES = [f"person {i}" for i in range(ROWS)]
INDEXES = {
    "names": (lambda: pd.Index(NAMES, name="who"), ["who"]),
    "without a name": (lambda: pd.Index(NAMES), ["index"]),
    "row numbers of a selection": (lambda: pd.RangeIndex(7, ROWS + 7), ["index"]),
    "sorted by an amount": (lambda: pd.Index(np.argsort(amounts()["a"])), ["index"]),
    "levels": (lambda: pd.MultiIndex.from_arrays([NAMES, range(ROWS)], names=["who", None]), ["who", "level_1"]),
    "days": (lambda: pd.date_range("2024-01-01", periods=ROWS, name="day"), ["day"]),
    "a number as its name": (lambda: pd.Index(NAMES, name=2024), ["2024"]),
}


@pytest.mark.parametrize("case", INDEXES)
def test_the_index_is_left_out_and_it_is_said(case: str) -> None:
    make, levels = INDEXES[case]
    data = people(make())
    release = mv.protect(data, seed=1)
    assert release.data.index.equals(pd.RangeIndex(ROWS))
    assert release.data.index.names == [None]
    said = [warning for warning in release.warnings if "index" in warning]
    assert said == [f"the index is left out of the release: {', '.join(levels)}; name what is to stay with keep"]
    pd.testing.assert_frame_equal(release.data, mv.protect(people(), seed=1).data)
    assert data.index.equals(make()), "the data are not changed"


@pytest.mark.parametrize("case", INDEXES)
def test_levels_that_are_kept_come_back_and_it_is_said(case: str) -> None:
    make, levels = INDEXES[case]
    release = mv.protect(people(make()), keep=levels, seed=1)
    assert release.data.index.equals(make())
    assert release.data.index.names == make().names
    said = [warning for warning in release.warnings if "index" in warning]
    assert said == [f"the index is released as it is, on request: {', '.join(levels)}"]
    assert release.recipe()["keep"] == levels
    again = mv.run({**release.recipe(), "seed": release.seed}, people(make()))
    pd.testing.assert_frame_equal(again.data, release.data)


def test_rows_that_are_only_counted_say_nothing() -> None:
    for index in (None, pd.RangeIndex(ROWS), pd.Index(list(range(ROWS)))):
        release = mv.protect(people(index), seed=1)
        assert not any("index" in warning for warning in release.warnings)


def test_one_level_of_several_can_be_kept() -> None:
    index = pd.MultiIndex.from_arrays([NAMES, ["x", "y"] * (ROWS // 2)], names=["who", "group"])
    release = mv.protect(people(index), keep="group", seed=1)
    assert list(release.data.index) == ["x", "y"] * (ROWS // 2)
    assert release.data.index.name == "group"
    assert "the index is left out of the release: who; name what is to stay with keep" in release.warnings
    assert "person" not in release.data.to_csv()


def test_what_is_no_level_cannot_be_kept() -> None:
    with pytest.raises(ParameterError, match="keep: there is no column 'hwo'; did you mean 'who'"):
        mv.protect(people(pd.Index(NAMES, name="who")), keep=["hwo"])
    for data in (people(), pl.DataFrame(amounts()), np.column_stack(list(amounts().values()))):
        with pytest.raises(ParameterError, match="keep: there is no column 'who'"):
            mv.protect(data, keep="who")


def test_a_column_is_no_name_and_its_cells_are_in_no_message() -> None:
    data = people(pd.Index(NAMES, name="who"))
    for keep in (data["a"], [data["a"]], {"who": 1}):
        with pytest.raises(ParameterError, match="keep: takes the names of columns, not"):
            mv.protect(data, keep=keep)


def test_a_kept_index_goes_with_its_row_when_rows_change_places() -> None:
    data = people(pd.Index(NAMES, name="who"))
    plain, shuffled = (mv.protect(data, keep="who", seed=1, shuffle_rows=wish).data for wish in (False, True))
    assert list(shuffled.index) != list(plain.index)
    pd.testing.assert_frame_equal(shuffled.loc[NAMES], plain)


def test_units_with_an_index() -> None:
    data = people(pd.Index(NAMES, name="who")).assign(house=np.arange(ROWS) // 2)
    data["rent"] = data.groupby("house")["a"].transform("max")
    data["size"] = data.groupby("house")["b"].transform("min")
    release = mv.protect(data, unit="house", seed=1)
    assert release.data.index.equals(pd.RangeIndex(ROWS))
    assert [warning for warning in release.warnings if "index" in warning] == [
        "the index is left out of the release: who; name what is to stay with keep"
    ]
    kept = mv.protect(data, unit="house", keep=["who"], seed=1).data
    assert list(kept.index) == NAMES
    pd.testing.assert_frame_equal(kept.reset_index(drop=True), release.data)


def test_files_with_different_indexes_are_compared_by_their_rows() -> None:
    data = people(pd.Index(NAMES, name="who"))
    release = mv.protect(data, "noise", seed=1)
    figures = [
        mv.assess(original, released, measures=["dbrl"], seed=1, sanity=False)["dbrl"].value
        for original in (data, data.reset_index(drop=True))
        for released in (release, release.data, release.data.set_axis(NAMES[::-1]))
    ]
    assert len(set(figures)) == 1


# Notes


def noted() -> pa.Table:
    fields = [pa.field(name, pa.float64(), metadata={"asked by": SECRET}) for name in "abc"]
    return pa.table(amounts(), schema=pa.schema(fields, metadata={"made by": SECRET}))


def from_pandas() -> pa.Table:
    data = people()
    data.attrs = {"made by": SECRET}
    return pa.Table.from_pandas(data)


@pytest.mark.parametrize("make", [noted, from_pandas])
def test_metadata_of_arrow_stay_behind_unless_asked_for(make: Any) -> None:
    release = mv.protect(make(), seed=1)
    assert SECRET not in str(release.data.schema.metadata)
    assert all(field.metadata is None for field in release.data.schema)
    assert any("notes on the table" in warning and "left out" in warning for warning in release.warnings)
    kept = mv.protect(make(), keep_notes=True, seed=1)
    assert kept.data.schema.equals(make().schema, check_metadata=True)
    assert any("notes on the table" in warning and "released as they are" in warning for warning in kept.warnings)
    assert kept.recipe()["keep_notes"] is True


def test_what_pandas_notes_about_its_types_stays() -> None:
    table = pa.Table.from_pandas(people(pd.Index(NAMES, name="who")))
    release = mv.protect(table, keep=["who"], seed=1)
    assert release.data.to_pandas().index.name == "who", "a column, as any other is"
    assert not any("notes on the table" in warning for warning in release.warnings)
    release = mv.protect(table, seed=1)
    assert release.data.column_names == [*amounts()], "and an identifier"
    assert release.data.to_pandas().index.equals(pd.RangeIndex(ROWS))
    assert "person" not in str(release.data.schema.metadata)
    assert not any("notes on the table" in warning for warning in release.warnings)


def test_attributes_of_pandas_stay_behind_unless_asked_for() -> None:
    data = people()
    data.attrs = {"made by": SECRET}
    release = mv.protect(data, seed=1)
    assert release.data.attrs == {}
    assert any("notes on the table" in warning and "left out" in warning for warning in release.warnings)
    assert mv.protect(data, keep_notes=True, seed=1).data.attrs == data.attrs
    assert data.attrs == {"made by": SECRET}


def noted_file(path: Path) -> Path:
    """A file with notes in it, as its format has them."""
    data = pl.DataFrame(amounts())
    if path.suffix == ".sav":
        pyreadstat = pytest.importorskip("pyreadstat")
        pyreadstat.write_sav(data, path, file_label=SECRET, note=[SECRET, "second"], column_labels=["A", "B", "C"])
    elif path.suffix == ".dta":
        pyreadstat = pytest.importorskip("pyreadstat")
        pyreadstat.write_dta(data, path, file_label=SECRET, column_labels=["A", "B", "C"])
    elif path.suffix == ".xpt":
        pyreadstat = pytest.importorskip("pyreadstat")
        pyreadstat.write_xport(data, path, file_label=SECRET, column_labels=["A", "B", "C"])
    elif path.suffix == ".parquet":
        parquet.write_table(noted(), path)
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, noted().schema) as writer:
            writer.write_table(noted())
    return path


@pytest.mark.parametrize("extension", [".sav", ".dta", ".xpt", ".parquet", ".arrow"])
def test_notes_on_a_file_stay_behind_unless_asked_for(
    extension: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = noted_file(tmp_path / f"in{extension}")
    assert SECRET.encode() in source.read_bytes()
    plain, kept = tmp_path / f"plain{extension}", tmp_path / f"kept{extension}"
    code, out, _ = run(capsys, "protect", source, "-o", plain, "--seed", 1, "--json")
    assert code == 0
    assert SECRET.encode() not in plain.read_bytes()
    told = "notes on the file (its label, comments, metadata) are "
    assert f"{told}left out of the release (--keep-notes)" in json.loads(out)["warnings"]
    saved = tmp_path / "recipe.toml"
    code, out, _ = run(
        capsys, "protect", source, "-o", kept, "--keep-notes", "--seed", 1, "--json", "--save-recipe", saved
    )
    assert code == 0
    assert SECRET.encode() in kept.read_bytes()
    assert f"{told}released as they are, on request" in json.loads(out)["warnings"]
    again = tmp_path / f"again{extension}"
    assert run(capsys, "run", saved, "-o", again, "--seed", 1)[0] == 0
    assert SECRET.encode() in again.read_bytes()
    if extension in (".sav", ".dta", ".xpt"):
        import pyreadstat

        reader = {".sav": pyreadstat.read_sav, ".dta": pyreadstat.read_dta, ".xpt": pyreadstat.read_xport}[extension]
        _, about = reader(plain, metadataonly=True)
        assert about.column_labels == ["A", "B", "C"], "labels describe columns, and stay"
        assert not about.notes
        if extension == ".sav":
            assert reader(kept, metadataonly=True)[1].notes == [SECRET, "second"]


def test_notes_do_not_pass_block_by_block(tmp_path: Path) -> None:
    source = noted_file(tmp_path / "in.parquet")
    release = mv.protect_file(source, tmp_path / "out.parquet", "pca", rules=None, engine="stream")
    assert SECRET.encode() not in (tmp_path / "out.parquet").read_bytes()
    assert any(warning.startswith("notes on the file") for warning in release.warnings)


def test_a_file_without_notes_is_not_talked_about(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for extension in (".parquet", ".csv"):
        source = tmp_path / f"in{extension}"
        getattr(pl.DataFrame(amounts()), f"write_{extension[1:]}")(source)
        code, out, _ = run(capsys, "protect", source, "-o", tmp_path / f"out{extension}", "--seed", 1, "--json")
        assert code == 0
        assert "notes on" not in out
