"""Tables as people make them: titles above, totals below, empty columns, units in cells; as sheets and as text."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import messy_workbook
import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pytest
from command import run

import microveil as mv
from microveil.errors import DataError, FileError, MicroveilError, ParameterError
from microveil.io.files.formats import ReadOptions
from microveil.io.files.layout import TOTAL_LEFT_OUT, TOTAL_STAYS, find_header
from microveil.io.tables import open_blocks, read_table, write_table

ROWS = [["a", "b", "c"], ["x", 1, 2.5], ["y", 2, 3.5], ["z", 4, 4.5], ["w", 8, 5.5]]


def sheet(path: Path, rows: list[list[Any]]) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


def text(path: Path, rows: list[list[Any]]) -> Path:
    path.write_text("".join(";".join("" if cell is None else str(cell) for cell in row) + "\n" for row in rows))
    return path


def written(folder: Path, rows: list[list[Any]], kind: str) -> Path:
    return sheet(folder / "t.xlsx", rows) if kind == "xlsx" else text(folder / "t.csv", rows)


KINDS = pytest.mark.parametrize("kind", ["xlsx", "csv"])


# --- Where the names are


@pytest.mark.parametrize(
    ("above", "place"),
    [
        ([["Report 2024"]], 1),
        ([["Report 2024", None, None], [None, None, None]], 2),
        ([[], ["Report"], ["of 2024"], []], 4),
        ([["Report", None, 2024]], 0),  # too many cells for a title
        ([[None, None, "page 1"]], 0),  # to the right of where the table begins
    ],
)
def test_names_are_found_below_titles(above: list[list[Any]], place: int) -> None:
    found = find_header([*above, *ROWS])
    assert found == (place or next(j for j, row in enumerate(above) if row))


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        [["a"], ["x"], ["y"]],
        [["a", "b"], ["x", 1, 2]],  # a cell beyond the last name
        [[None, "a", "b"], [1, "x", "y"], [2, "z", "w"]],  # as R writes it: no name for the numbers of the rows
        [["Ann", None, None], ["Bob", "x", "y"], ["Cem", "z", "w"]],  # records without names
        [["a"], ["x", 1], ["y", 2]],  # as a record has 1 in it
        [["a"], [1.5, 2], [3, 4]],
    ],
)
def test_a_record_is_never_taken_for_names(rows: list[list[Any]]) -> None:
    assert find_header(rows) == 0


@KINDS
def test_titles_and_empty_columns_are_left_out_and_said(tmp_path: Path, kind: str) -> None:
    rows = [["Report 2024"], [], *([None, *row[:1], None, *row[1:], None] for row in ROWS)]
    if kind == "csv":
        rows[0] += [None] * 5
    frame, form = read_table(written(tmp_path, rows, kind))
    assert frame.columns == ["a", "b", "c"]
    assert frame.rows() == [tuple(row) for row in ROWS[1:]]
    said = form.findings
    assert said[0] == "the names of the columns are in row 3: what stands above is left out"
    assert said[1] == f"{2 if kind == 'xlsx' else 3} empty columns are left out"
    assert "2024" not in " ".join(said)
    target = tmp_path / f"out.{kind}"
    write_table(frame, target, form)
    again, clean = read_table(target)
    assert again.equals(frame)
    assert not clean.findings


@KINDS
def test_titles_without_separators(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, [["Sales by region, 2024"], ["in EUR, rounded"], *ROWS], kind)
    assert read_table(path)[0].columns == ["a", "b", "c"]


@KINDS
def test_what_the_user_says_of_rows_is_done(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, [["one", "two", "three"], ["m", "n", "o"], *ROWS], kind)
    assert read_table(path)[0].columns == ["one", "two", "three"]
    for given in (ReadOptions(header_row=3), ReadOptions(skip_rows=2)):
        frame, form = read_table(path, given)
        assert frame.rows() == [tuple(row) for row in ROWS[1:]]
        assert "row 3" in form.findings[0]
    for options, words in (
        (ReadOptions(header_row=0), "counted from 1"),
        (ReadOptions(skip_rows=-1), "below 0"),
        (ReadOptions(header_row=1, skip_rows=1), "give one of them"),
    ):
        with pytest.raises(ParameterError) as caught:
            read_table(path, options)
        assert words in str(caught.value)
    with pytest.raises(DataError, match="numbers in place of column names"):
        read_table(
            text(tmp_path / "t.csv", [["a", "b", "c"], ["6,5", "x", "z"], ["7,5", "y", "w"]]), ReadOptions(header_row=2)
        )
    for options in (ReadOptions(header_row=99), ReadOptions(skip_rows=99)):
        with pytest.raises(MicroveilError) as caught:
            read_table(path, options)
        assert "--header-row" in str(caught.value)
    pl.DataFrame({"x": [1]}).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(ParameterError, match="--header-row: means nothing"):
        read_table(tmp_path / "t.parquet", ReadOptions(header_row=1))


# --- The total


@KINDS
@pytest.mark.parametrize(
    ("last", "left_out", "said"),
    [
        (["Total", 15, 16.0], True, True),
        (["Summe:", 15, None], True, True),
        (["grand total", 15, 4.0], True, True),  # one column is a mean
        ([None, 15, 16.0], True, True),
        ([None, 15, None], True, True),
        (["Total", 14, 9.0], False, True),
        ([None, 14, 16.0], False, False),
        ([None, 15, 4.0], False, False),
        (["v", 15, 16.0], False, False),  # a record with a label of its own
        (["Totalschaden", 15, 16.0], False, False),
    ],
)
def test_a_total_is_left_out_only_if_it_is_one(
    tmp_path: Path, kind: str, last: list[Any], left_out: bool, said: bool
) -> None:
    frame, form = read_table(written(tmp_path, [*ROWS, last], kind))
    assert frame.height == 4 + (not left_out)
    assert form.findings == ([TOTAL_LEFT_OUT if left_out else TOTAL_STAYS] if said else [])
    if left_out:
        assert [str(t) for t in frame.dtypes] == ["String", "Int64", "Float64"]


def test_a_total_in_a_column_of_numbers(tmp_path: Path) -> None:
    rows = [["id", "x"], *([j, 2.5 * j] for j in range(1, 9)), ["Total", 90.0]]
    frame, form = read_table(sheet(tmp_path / "t.xlsx", rows))
    assert frame.schema == {"id": pl.Int64, "x": pl.Float64}
    assert form.findings == [TOTAL_LEFT_OUT]


@pytest.mark.parametrize("seed", range(20))
def test_no_total_is_found_where_there_is_none(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = [rng.choice(["x", "y", None]) for _ in range(30)]
    rows = [["g", "flag", "n"], *([g, int(rng.integers(0, 2)), int(rng.integers(0, 3))] for g in labels)]
    assert read_table(written(tmp_path, rows, "csv"))[0].height == 30


# --- Cells


def test_texts_of_numbers_are_numbers_and_come_back_with_their_unit(tmp_path: Path) -> None:
    prices = ["1.234,50 €", "99,00 €", "0,50 €", "12,25 €"]
    rows = [["a", "price", "typed", "share", "code"]]
    rows += [
        [j, price, text, 0.5, f"0{j}"] for j, (price, text) in enumerate(zip(prices, ["1", 2, "3", 4.5], strict=True))
    ]
    frame, form = read_table(sheet(tmp_path / "t.xlsx", rows))
    assert frame["price"].to_list() == [1234.5, 99, 0.5, 12.25]
    assert frame["typed"].to_list() == [1, 2, 3, 4.5]
    assert frame.schema["code"] == pl.String
    write_table(frame.with_columns(pl.col("price") * 2), tmp_path / "out.xlsx", form)
    cells = openpyxl.load_workbook(tmp_path / "out.xlsx").active
    assert [cell.value for cell in cells["B"]][1:] == [2469, 198, 1, 24.5]
    assert cells["B2"].number_format == '0.00" €"'
    assert [cell.value for cell in cells["C"]][1:] == ["1", 2, "3", 4.5]  # nothing has changed there


def test_numbers_beside_numbers_with_a_unit_are_not_guessed(tmp_path: Path) -> None:
    rows = [["a", "share"], [1, "45 %"], [2, 0.45], [3, "12 %"]]
    assert read_table(sheet(tmp_path / "t.xlsx", rows))[0].schema["share"] == pl.String


def test_dates_of_three_kinds_are_dates(tmp_path: Path) -> None:
    day = dt.datetime(2021, 3, 4)
    rows = [["a", "seen"], [1, day], [2, "05.03.2021"], [3, 44261], [4, day], [5, day], [6, None]]
    frame, _ = read_table(sheet(tmp_path / "t.xlsx", rows))
    assert frame["seen"].to_list() == [day, dt.datetime(2021, 3, 5), dt.datetime(2021, 3, 6), day, day, None]
    rows[2][1] = "soon"
    assert read_table(sheet(tmp_path / "t.xlsx", rows))[0].schema["seen"] == pl.String


def test_block_by_block_what_needs_the_whole_file_is_refused(tmp_path: Path) -> None:
    rows = [["Report"], *ROWS]
    source = open_blocks(text(tmp_path / "t.csv", rows))
    assert source.names == ["a", "b", "c"]
    assert "row 2" in source.findings[0]
    assert sum(batch.num_rows for batch in source.batches(["a", "c"], 2)) == 4
    with pytest.raises(FileError, match="row of totals"):
        open_blocks(text(tmp_path / "t.csv", [*ROWS, ["Total", 15, 16.0]]))
    with pytest.raises(FileError, match="units or thousands separators in column 'c'"):
        open_blocks(text(tmp_path / "t.csv", [row if row[0] == "a" else [*row[:2], f"{row[2]} kg"] for row in ROWS]))


# --- The messy workbook


@pytest.fixture
def messy(tmp_path: Path) -> Path:
    return messy_workbook.write(tmp_path / "messy.xlsx")


def test_a_messy_workbook_is_read_as_it_is_meant(messy: Path) -> None:
    frame, form = read_table(messy)
    assert frame.to_dict(as_series=False) == messy_workbook.records()
    assert len(form.findings) == 8
    assert form.findings[:1] == ["the names of the columns are in row 4: what stands above is left out"]


def test_a_messy_workbook_is_protected_without_options(messy: Path, tmp_path: Path) -> None:
    target = tmp_path / "released.xlsx"
    release = mv.protect_file(messy, target, seed=5)
    before, (after, form) = pl.DataFrame(messy_workbook.records()), read_table(target)
    kept = [name for name in before.columns if name not in ("Personal-ID", "Name", "Bemerkung")]
    assert after.columns == kept
    assert after.schema == before.select(kept).schema
    assert after.height == before.height
    assert (release.in_clear, release.unique_in_clear) == ((), 0)
    # No real id, no name, no title, no other sheet, no row that was there.
    cells = {cell for row in openpyxl.load_workbook(target).active.values for cell in row if isinstance(cell, str)}
    assert cells == {*kept, *before["Abteilung"], *before["Geschlecht"]}
    assert not set(after.rows()) & set(before.select(kept).rows())
    # Precision: days, cents, half hours, whole percents.
    assert all(moment.hour == 0 for moment in after["Eintritt"])
    assert after["Vertrag bis"].cast(pl.String).str.strptime(pl.Date, "%Y%m%d").null_count() == 0
    assert after["Geburtsjahr"].is_between(before["Geburtsjahr"].min(), before["Geburtsjahr"].max()).all()
    for name, decimals in (("Gehalt", 2), ("Stunden", 1), ("Gewicht", 1)):
        assert (after[name] - after[name].round(decimals)).abs().max() < 1e-9
    # A clean sheet: what was found is said, and there is nothing to find any more.
    assert not form.findings
    assert any("total of the others" in said for said in release.warnings)


def test_rows_and_recipes_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    rows = [["one", "two"], ["a", "b"], *([float(x), float(y)] for x, y in rng.normal(size=(60, 2)))]
    source = sheet(tmp_path / "t.xlsx", rows)
    recipe = tmp_path / "r.toml"
    code, _, err = run(
        capsys, "protect", source, "-o", tmp_path / "a.xlsx", "--header-row", 2, "--save-recipe", recipe,
        "--include-seed", "--seed", 4,
    )  # fmt: skip
    assert code == 0
    assert "header_row = 2" in recipe.read_text()
    code, out, _ = run(capsys, "run", recipe, "--output", tmp_path / "b.xlsx", "--json")
    assert code == 0
    assert "what stands above is left out" in out
    values = [list(openpyxl.load_workbook(tmp_path / name).active.values) for name in ("a.xlsx", "b.xlsx")]
    assert values[0] == values[1]
    assert values[0][0] == ("a", "b")
    code, _, err = run(capsys, "describe", source, "--skip-rows", 1)
    assert (code, "row 2" in err) == (0, True)
    with pytest.raises(DataError):
        read_table(source, ReadOptions(header_row=3))  # a record is no row of names


def test_there_is_nothing_to_find_in_a_clean_file() -> None:
    frame, form = read_table(mv.example_file())
    assert frame.height == 1_200
    assert not form.findings


@pytest.mark.parametrize(("ending", "engine"), [(".csv", "memory"), (".csv", "stream"), (".xlsx", "memory")])
def test_names_of_rows_as_r_and_pandas_write_them(tmp_path: Path, ending: str, engine: str) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.lognormal(size=(120, 3)).round(2), columns=["a", "b", "c"])
    source, target = tmp_path / f"in{ending}", tmp_path / f"out{ending}"
    frame.to_csv(source) if ending == ".csv" else frame.to_excel(source)
    release = mv.protect_file(source, target, "pca", engine=engine, seed=1)
    assert release.kinds["row_names"] == "identifier"
    assert list(read_table(target)[0].columns) == ["a", "b", "c"]
    assert "the first column has no name: it is called 'row_names'" in release.warnings
    frame.index = [f"R{number % 4}" for number in range(120)]
    frame.to_csv(source) if ending == ".csv" else frame.to_excel(source)
    assert read_table(source)[0]["row_names"].to_list() == frame.index.to_list()
