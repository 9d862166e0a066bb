"""Odd tables, of every kind and on every way in: a right result or a clear error, never a traceback, never a value."""

from __future__ import annotations

import csv
import datetime as dt
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from command import run
from odd_tables import MANY_LABELS, ODD, ROWS, SECRET, Columns

import microveil as mv
from microveil.errors import DisclosureWarning, MicroveilError

pytestmark = pytest.mark.usefixtures("few_exchanges")

REFUSED = {
    "one column of numbers", "one column of identifiers", "only identifiers", "only free text",
    "a constant and an amount", "constants only", "all columns missing", "no rows", "one row", "two rows",
    "rows that are all the same", "one answer", "infinite cells", "huge numbers", "long whole numbers",
    "blurred numbers",
}  # fmt: skip
"""Refused however they come."""

NOT_IN_FILES = {"a name that is a pattern", "blank strings"}
NOT_IN_FRAMES = {"numbers as text"}  # which a file has no other way to write
PATTERN = {"a name that is a pattern"}

LEFT_OUT = {"id", "email", "note"}
AMOUNTS = ODD["booleans"]["b"]
LABELS = [f"{SECRET}{place % 2}" for place in range(ROWS)]


def made(kind: str, columns: Columns) -> Any:
    if kind == "pandas":
        return pd.DataFrame(columns)
    if kind == "polars":
        return pl.DataFrame(columns, strict=False)
    return pa.table({name: pa.array(cells) for name, cells in columns.items()})


def cells(table: Any) -> dict[str, list[Any]]:
    """Columns of a table as text; None where a cell is missing."""
    frame = table if isinstance(table, pl.DataFrame) else pl.from_arrow(pa.table(table))
    return {name: frame[name].cast(pl.String).to_list() for name in frame.columns}


def refused(table: Any) -> str:
    """The message of the error that a table is refused with, which has a hint and no value."""
    with pytest.raises(MicroveilError) as caught:
        mv.protect(table, seed=1)
    assert caught.value.hint
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    return str(caught.value)


def released(table: Any) -> Any:
    """The release of a table, which says no value."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DisclosureWarning)  # nothing is in clear without a word from the user
        release = mv.protect(table, seed=1)
    assert not [said for said in release.warnings if SECRET in said]
    assert (release.in_clear, release.unique_in_clear) == ((), 0)
    return release.data


def check_release(before: Columns, after: Columns) -> None:
    """The same columns and rows; no label that was not there; missing cells in number as they were."""
    assert list(after) == [name for name in before if name not in LEFT_OUT]
    for name, column in after.items():
        assert len(column) == len(before[name])
        assert [column.count(none) for none in (None, "")] == [before[name].count(none) for none in (None, "")]
        if any(SECRET in str(cell) for cell in before[name]):
            assert set(column) == set(before[name])


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
@pytest.mark.parametrize("name", ODD)
def test_frames(name: str, kind: str) -> None:
    table = made(kind, ODD[name])
    if name in REFUSED | NOT_IN_FRAMES | (PATTERN if kind == "polars" else set()):
        refused(table)
        return
    data = released(table)
    assert type(data) is type(table)
    if kind == "arrow":
        assert data.schema.equals(table.schema)
    else:
        assert list(data.dtypes) == list(table.dtypes)
    check_release(cells(table), cells(data))


@pytest.mark.parametrize("name", ODD)
def test_text_files_on_the_command_line(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target, columns = tmp_path / "in.csv", tmp_path / "out.csv", ODD[name]
    with source.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    code, out, err = run(capsys, "protect", source, "-o", target, "--seed", 1)
    assert "Traceback" not in out + err
    assert SECRET not in out + err
    if name in REFUSED | NOT_IN_FILES:
        assert (code, target.exists()) == (2, False)
        assert "; " in err  # what is wrong, and what to do
        return
    assert code == 0, err
    rows = [list(csv.reader(path.read_text(encoding="utf-8").splitlines())) for path in (source, target)]
    tables = (
        {name.strip() or "row_names": list(column) for name, *column in zip(*lines, strict=True)} for lines in rows
    )
    before, after = tables
    check_release(before, after)


def typed(values: list[Any], dtype: Any) -> pd.DataFrame:
    return pd.DataFrame({"a": pd.Series(values, dtype=dtype), "b": AMOUNTS})


LEVELS = [f"{SECRET}0", f"{SECRET}1", f"{SECRET}unused"]
GAPS = [None if place % 5 == 0 else place % 2 for place in range(ROWS)]
FLAGS = [None if number is None else bool(number) for number in GAPS]

RIGHT: dict[str, Any] = {
    "unused levels": typed(LABELS, pd.CategoricalDtype(LEVELS)),
    "unused levels with an order": typed(LABELS, pd.CategoricalDtype(LEVELS, ordered=True)),
    "unused levels of polars": pl.DataFrame({"a": pl.Series(LABELS, dtype=pl.Enum(LEVELS)), "b": AMOUNTS}),
    "categories of polars": pl.DataFrame({"a": pl.Series(LABELS, dtype=pl.Categorical), "b": AMOUNTS}),
    "unused levels of Arrow": pa.table(
        {"a": pa.DictionaryArray.from_arrays(pa.array(GAPS, pa.int32()), LEVELS), "b": AMOUNTS}
    ),
    "levels of flags": typed(FLAGS, "category"),
    "flags with gaps": typed(FLAGS, "boolean"),
    "flags with gaps as objects": typed(FLAGS, object),
    "labels and dates": typed([LABELS[0], dt.date(2020, 1, 1), None] * 20, object),
    "missing cells of pandas": typed([pd.NA if flag is None else LEVELS[flag] for flag in GAPS], object),
    "half of a letter": typed(["\ud800", "b"] * 30, object),
    "bytes": typed([b"x", b"y"] * 30, object),
    "a name that is none": pd.DataFrame({None: AMOUNTS, "b": AMOUNTS[::-1]}),
    "names that are numbers": pd.DataFrame({0: AMOUNTS, 1: AMOUNTS[::-1]}),
    "names of two levels": pd.DataFrame({("x", "y"): AMOUNTS, ("x", "z"): AMOUNTS[::-1]}),
    "an index of labels": pd.DataFrame({"a": AMOUNTS, "b": AMOUNTS[::-1]}, index=LABELS),
    "no type": pa.table({"a": pa.nulls(ROWS), "b": AMOUNTS, "c": AMOUNTS[::-1]}),
    "no dates": typed([pd.NaT] * ROWS, "datetime64[us]").assign(c=AMOUNTS[::-1]),
}

WRONG: dict[str, Any] = {
    "labels and numbers": typed([LABELS[0], 1, 2.5] * 20, object),
    "numbers and a few labels": typed([LABELS[0] if j % 9 == 0 else j * 1.5 for j in range(ROWS)], object),
    "objects of polars": pl.DataFrame({"a": pl.Series([LABELS[0], 1, 2.5] * 20, dtype=pl.Object), "b": AMOUNTS}),
    "lists of numbers": pl.DataFrame({"a": [[1, 2], [3]] * 30, "b": AMOUNTS}),
    "records": pl.DataFrame({"a": [{SECRET: j % 3} for j in range(ROWS)], "b": AMOUNTS}),
    "dicts": typed([{SECRET: 1}] * ROWS, object),
    "levels of numbers": typed([1, 2, 3] * 20, "category"),
    "numbers too long for any type": typed([10**30 + j for j in range(ROWS)], object),
    "complex numbers": typed([1j * j for j in range(ROWS)], None),
    "a name twice": pd.DataFrame(np.c_[AMOUNTS, AMOUNTS], columns=["a", "a"]),
    "a name twice in Arrow": pa.Table.from_arrays([pa.array(AMOUNTS)] * 2, names=["a", "a"]),
    "no columns": pd.DataFrame(index=range(ROWS)),
    "no columns of polars": pl.DataFrame(),
    "no table": {"a": AMOUNTS},
    "a column": pd.Series(AMOUNTS),
    "nothing": None,
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_odd_types_come_back(name: str) -> None:
    table = RIGHT[name]
    data = released(table)
    assert type(data) is type(table)
    assert data.shape == table.shape
    if isinstance(table, pd.DataFrame):
        assert list(data.columns) == list(table.columns) or name == "a name that is none"
        pd.testing.assert_series_equal(data.dtypes, table.dtypes)
        if "a" in table and name != "an index of labels":  # what there was, and nothing else
            assert set(data["a"].dropna()) <= set(table["a"].dropna())
            assert data["a"].isna().sum() == table["a"].isna().sum()
    else:
        assert data.schema == table.schema
    assert SECRET not in "".join(map(str, getattr(data, "index", []))) or not name.startswith("an index")


@pytest.mark.parametrize("name", WRONG)
def test_odd_types_are_refused(name: str) -> None:
    refused(WRONG[name])


def test_ten_thousand_labels() -> None:
    table = pl.DataFrame(MANY_LABELS)
    assert table["a"].n_unique() > 8_000
    data = released(table)
    assert data["a"].sort().equals(table["a"].sort())
    assert len(set(data.rows()) & set(table.rows())) < 0.002 * table.height
    assert (data["a"] == table["a"]).mean() < 0.01


def test_that_records_stay_whole_is_said_only_where_they_do() -> None:
    table = pl.DataFrame({"a": AMOUNTS, "b": [2 * amount for amount in AMOUNTS]})
    for options, whole in (({}, False), ({"method": "pca", "marginals": "original"}, True)):
        release = mv.protect(table, seed=1, **options)
        assert any("every record stays whole" in said for said in release.warnings) == whole
        assert (len(set(release.data.rows()) & set(table.rows())) == ROWS) == whole
