"""The attacker sends a small file.

A workbook of a kilobyte can have its one cell in the last corner of the sheet, a text file a header of two hundred
thousand names, and a packed file can hold a million times what it weighs. Whoever opens them fills the memory of the
machine, or waits for ever. Limits are checked before anything is read; the environment raises them.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

import microveil as mv
from microveil.errors import DataError, FileError
from microveil.io.tables import read_table

COLUMNS = "MICROVEIL_MAX_COLUMNS"
CELLS = "MICROVEIL_MAX_CELLS"

MEASURED = """
import resource, sys, time
import microveil.cli.main as cli
import openpyxl, polars, pyarrow.csv  # what has to be loaded is not what is measured
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.process_time()
code = 0
try:
    cli.main(["protect", sys.argv[1], "-o", sys.argv[2], "--quiet"])
except SystemExit as stopped:
    code = stopped.code
used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
print(code, used, round(time.process_time() - start, 1))
"""


def measured(source: Path, output: Path) -> tuple[int, int, float, str]:
    """Exit code, megabytes, CPU seconds and the message of `microveil protect`."""
    pytest.importorskip("resource")
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(source), str(output)], capture_output=True, text=True, timeout=300
    )
    code, used, seconds = done.stdout.split()
    return int(code), int(used), float(seconds), done.stderr


def workbook(path: Path, cells: dict[str, float | str], padding: str = "") -> Path:
    """A workbook by hand, with cells where they are put and nowhere else."""
    rows: dict[int, str] = {}
    for place, value in cells.items():
        number = int(place.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
        text = f'<c r="{place}" t="inlineStr"><is><t>{value}</t></is></c>' if isinstance(value, str) else ""
        rows[number] = rows.get(number, "") + (text or f'<c r="{place}"><v>{value}</v></c>')
    data = "".join(f'<row r="{number}">{row}</row>' for number, row in rows.items())
    main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    types = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{package}/content-types"><Default Extension="rels" '
            'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Override PartName="/xl/workbook.xml" ContentType="{types}.sheet.main+xml"/>'
            f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{types}.worksheet+xml"/></Types>',
        )
        relation = (
            f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" Type="{kind}/%s" Target="%s"/>'
        )
        archive.writestr("_rels/.rels", relation % ("officeDocument", "xl/workbook.xml") + "</Relationships>")
        archive.writestr(
            "xl/_rels/workbook.xml.rels", relation % ("worksheet", "worksheets/sheet1.xml") + "</Relationships>"
        )
        archive.writestr(
            "xl/workbook.xml",
            f'<workbook {main} xmlns:r="{kind}"><sheets><sheet name="S" sheetId="1" r:id="r1"/></sheets></workbook>',
        )
        sheet = f"<worksheet {main}><sheetData>{data}</sheetData>{padding}</worksheet>"
        archive.writestr("xl/worksheets/sheet1.xml", sheet)
    return path


def letters(number: int) -> str:
    return (letters((number - 1) // 26) if number > 26 else "") + chr(65 + (number - 1) % 26)


@pytest.mark.slow
def test_one_cell_in_the_last_corner_of_a_sheet(tmp_path: Path) -> None:
    source = workbook(tmp_path / "far.xlsx", {"A1": "a", "A2": 1.0, "XFD1048576": 1.0})
    assert source.stat().st_size < 3000
    code, used, seconds, said = measured(source, tmp_path / "out.csv")
    assert (code, used < 500, seconds < 60) == (2, True, True), (code, used, seconds)
    assert "beyond its last column name" in said


@pytest.mark.slow
def test_a_wide_header_and_one_cell_far_below(tmp_path: Path) -> None:
    header: dict[str, float | str] = {f"{letters(number)}1": f"n{number}" for number in range(1, 16_385)}
    source = workbook(tmp_path / "far.xlsx", header | {"XFD1048576": 1.0})
    code, used, seconds, said = measured(source, tmp_path / "out.csv")
    assert (code, used < 500, seconds < 60) == (2, True, True), (code, used, seconds)
    assert "17,179,852,800 cells, and at most 25,000,000 are read" in said
    assert CELLS in said


def test_empty_rows_above_a_cell_far_below_are_no_records(tmp_path: Path) -> None:
    source = workbook(tmp_path / "far.xlsx", {"A1": "a", "B1": "b", "A2": 1.0, "B2": 2.0, "A30000": 3.0})
    frame, form = read_table(source)
    assert frame.rows() == [(1, 2), (3, None)]
    assert form.findings == ["29997 empty rows are left out"]


@pytest.mark.slow
def test_a_row_that_no_sheet_has(tmp_path: Path) -> None:
    source = workbook(tmp_path / "far.xlsx", {"A1": "a", "A3000000": 3.0})
    with pytest.raises(FileError, match="more rows than a sheet can have"):
        read_table(source)


def test_the_limit_on_cells_can_be_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = workbook(tmp_path / "book.xlsx", {"A1": "a", "B1": "b", "A2": 1.0, "B101": 2.0})
    monkeypatch.setenv(CELLS, "199")
    with pytest.raises(FileError, match=f"has room for 200 cells, and at most 199 are read; .* {CELLS}"):
        read_table(source)
    monkeypatch.setenv(CELLS, "200")
    assert read_table(source)[0].rows() == [(1, None), (None, 2)]
    monkeypatch.setenv(CELLS, "many")
    with pytest.raises(FileError, match=f"{CELLS}: must be a whole number"):
        read_table(source)


def test_a_workbook_that_is_packed_too_tightly(tmp_path: Path) -> None:
    source = workbook(tmp_path / "bomb.xlsx", {"A1": "a", "A2": 1.0}, padding=" " * 150_000_000)
    assert source.stat().st_size < 200_000
    code, used, seconds, said = measured(source, tmp_path / "out.csv")
    assert (code, used < 200, seconds < 30) == (2, True, True), (code, used, seconds)
    assert "times its size, which no table does" in said


@pytest.mark.slow
def test_a_header_of_200_000_names(tmp_path: Path) -> None:
    source = tmp_path / "wide.csv"
    row = ",".join(["1.5"] * 200_000)
    names = ",".join(f"n{number}" for number in range(200_000))
    source.write_text("\n".join([names, *[row] * 20]))
    code, used, seconds, said = measured(source, tmp_path / "out.csv")
    assert (code, used < 800, seconds < 20) == (2, True, True), (code, used, seconds)
    assert f"'{source}' has 200,000 columns, and at most 20,000 are read" in said
    assert COLUMNS in said
    with pytest.raises(FileError, match=COLUMNS):
        mv.protect_file(source, tmp_path / "out.csv", "pca", rules=None, engine="stream")


@pytest.mark.parametrize(
    "extension", [".csv", ".parquet", ".arrow", ".feather", ".xlsx", ".sav", ".dta", ".xpt", "sqlite", "duckdb"]
)
def test_every_kind_of_file_has_the_limit_on_columns(
    extension: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from microveil.io.tables import FileFormat, write_table

    file = tmp_path / f"wide{extension}"
    place = str(file) if extension.startswith(".") else f"{extension}:///{file}.db#t"
    write_table(pl.DataFrame({f"n{j}": np.arange(5.0) + j for j in range(12)}), place, FileFormat("csv"))
    assert read_table(place)[0].width == 12
    monkeypatch.setenv(COLUMNS, "11")
    with pytest.raises(FileError, match=f"has 12 columns, and at most 11 are read; .* {COLUMNS}"):
        read_table(place)


def test_a_packed_file_of_sixty_million_equal_cells(tmp_path: Path) -> None:
    source = tmp_path / "equal.parquet"
    rows = pa.table({"a": pa.array(np.zeros(5_000_000)), "b": pa.array(np.zeros(5_000_000))})
    with parquet.ParquetWriter(source, rows.schema, compression="zstd") as writer:
        for _ in range(6):
            writer.write_table(rows)
    assert 100 * source.stat().st_size < 60_000_000
    with pytest.raises(FileError, match="has room for 60,000,000 cells, and at most 25,000,000 are read"):
        read_table(source)


def test_a_large_file_of_real_numbers_has_no_such_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CELLS, "100")
    pl.DataFrame(np.random.default_rng(1).normal(size=(200, 3))).write_parquet(tmp_path / "in.parquet")
    assert read_table(tmp_path / "in.parquet")[0].shape == (200, 3)


def test_numbers_in_text_that_a_double_cannot_hold_are_not_lost(tmp_path: Path) -> None:
    """20 digits are no whole number of 64 bits, and used to become the nearest decimal number."""
    rows = [f"{10**24 + 7 * number},{number % 7}.5,{number % 5}" for number in range(40)]
    (tmp_path / "in.csv").write_text("\n".join(["a,b,c", *rows]))
    frame, _ = read_table(tmp_path / "in.csv")
    assert frame["a"].to_list() == [str(10**24 + 7 * number) for number in range(40)]
    with pytest.raises(DataError, match="column 'a' is text, but most of its cells look like numbers"):
        mv.protect(frame)
    small = tmp_path / "small.csv"
    small.write_text("a\n1e300\n2.5\n17\n")
    assert read_table(small)[0]["a"].to_list() == [1e300, 2.5, 17.0]
