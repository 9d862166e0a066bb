"""Tables come back as they went in, in the format they came in."""

import csv as standard_csv
import io
import math
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from saved_files import refused, save

from microveil.core.errors import FileError
from microveil.io.files import csv as csv_room
from microveil.io.files import formats as formats_room
from microveil.io.files import numerals
from microveil.io.files.formula_injection import formulas_kept
from microveil.io.tables import (
    EXTENSIONS,
    FileFormat,
    check_target,
    read_table,
    write_table,
)

HERE = {"suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]}


def column(folder: Path, *cells: str) -> pl.Series:
    """The cells of one column as the reader sees them, beside another so that empty cells are not empty lines."""
    frame, _ = read_table(save(folder, "x,other\n" + "".join(f"{cell},text\n" for cell in cells)))
    return frame["x"]


def again(folder: Path, content: str | bytes, name: str = "in.csv") -> bytes:
    """What an untouched file comes back as."""
    frame, form = read_table(save(folder, content, name))
    target = folder / f"out{Path(name).suffix}"
    write_table(frame, target, form)
    return target.read_bytes()


# Numbers and text


@pytest.mark.parametrize(
    ("cells", "kind", "values"),
    [
        (["1", "-2", "+5"], pl.Int64, [1, -2, 5]),
        (["1", " 12", "12 ", "\t7"], pl.Int64, [1, 12, 12, 7]),
        (["0", "-0", "10"], pl.Int64, [0, 0, 10]),
        (["1", "2.5"], pl.Float64, [1.0, 2.5]),
        (["1e5", "-3.2E-4", ".5", "5.", " 1.5 "], pl.Float64, [1e5, -3.2e-4, 0.5, 5.0, 1.5]),
        (["9223372036854775807", "-9223372036854775808"], pl.Int64, [2**63 - 1, -(2**63)]),
        (["9223372036854775808", "1"], pl.String, ["9223372036854775808", "1"]),  # more digits than a double has
        (["1e19", "1"], pl.Float64, [1e19, 1.0]),
        (["inf", "-Infinity", "1"], pl.Float64, [math.inf, -math.inf, 1.0]),
        (["0.5", "-0.25", "0"], pl.Float64, [0.5, -0.25, 0.0]),
    ],
)
def test_numbers_are_read_as_numbers(tmp_path, cells, kind, values):
    series = column(tmp_path, *cells)
    assert series.dtype == kind
    assert series.to_list() == values


@pytest.mark.parametrize(
    "cells",
    [
        ["007", "123"],
        ["1", "-05"],
        ["01.11", "52.10"],
        ["0x10", "5"],
        ["1_000", "5"],
        ["١٢", "5"],
        ["true", "false"],
        ["2024-01-31", "2024-02-29"],
        ["NA", "abc"],
        ["NAN", "1"],
        ["-nan", "1.5"],
        ["na", "1"],
        ["1 2", "3"],
        ["-", "3"],
        ["1.5e", "3"],
    ],
)
def test_anything_else_stays_text(tmp_path, cells):
    series = column(tmp_path, *cells)
    assert series.dtype == pl.String
    assert series.to_list() == cells


@pytest.mark.parametrize("token", numerals.MISSING)
def test_missing_cells_of_numbers_are_null_and_come_back(tmp_path, token):
    content = f"x,y\n1,a\n{token},b\n2.50,c\n{token},d\n"
    frame, form = read_table(save(tmp_path, content))
    assert frame["x"].to_list() == [1.0, None, 2.5, None]
    changed = frame.with_columns(pl.col("x") * 10)
    write_table(changed, tmp_path / "out.csv", form)
    assert (tmp_path / "out.csv").read_text() == f"x,y\n10,a\n{token},b\n25,c\n{token},d\n"


def test_several_missing_tokens_come_back_cell_by_cell(tmp_path):
    content = "x,count\n1,1\nNA,1\n,1\n., 1\n 2 ,NA\nNA,\n"
    frame, form = read_table(save(tmp_path, content))
    assert frame["x"].to_list() == [1, None, None, None, 2, None]
    write_table(frame.with_columns(pl.col("x") + 1, pl.col("count") * 3), tmp_path / "out.csv", form)
    assert (tmp_path / "out.csv").read_text() == "x,count\n2,3\nNA,3\n,3\n.,3\n3,NA\nNA,\n"


def test_newly_missing_cells_take_the_usual_token(tmp_path):
    frame, form = read_table(save(tmp_path, "x,y\n1.5,1\nNA,2\nNA,3\n.,4\n"))
    changed = frame.with_columns(
        pl.Series("x", [float("nan"), 7.0, None, None]),  # NaN is missing too
        pl.Series("y", [1, None, 3, 4]),  # a column that had no missing cell: empty
    )
    write_table(changed, tmp_path / "out.csv", form)
    assert (tmp_path / "out.csv").read_text() == "x,y\nNA,1\n7,\nNA,3\n.,4\n"


def test_fewer_rows_keep_the_usual_token(tmp_path):
    frame, form = read_table(save(tmp_path, "x,y\n1.50,a\nNA,b\n.,c\nNA,d\n"))
    write_table(frame[1:], tmp_path / "out.csv", form)
    assert (tmp_path / "out.csv").read_text() == "x,y\nNA,b\nNA,c\nNA,d\n"


def test_a_column_of_missing_cells_only_is_numbers_without_a_value(tmp_path):
    for cells in (["", ""], ["NA", ""]):
        series = column(tmp_path, *cells)
        assert series.dtype.is_numeric()
        assert series.null_count() == 2


def test_a_late_cell_decides(tmp_path):
    rows = 3 * numerals.FIRST_ROWS
    for last, kind in (("1.5", pl.Float64), ("x", pl.String), ("007", pl.String), ("", pl.Int64)):
        series = column(tmp_path, *["1"] * rows, last)
        assert series.dtype == kind
    series = column(tmp_path, *["NA"] * rows, "2")
    assert series.dtype == pl.Int64
    assert series.null_count() == rows


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=20))
@settings(**HERE)
def test_floats_are_read_and_written_to_the_last_bit(tmp_path, values):
    frame, form = read_table(save(tmp_path, "x\n" + "".join(f"{value!r}\n" for value in [*values, 0.5])))
    assert frame["x"].to_list() == [*values, 0.5]
    write_table(frame.reverse(), tmp_path / "out.csv", form)
    assert read_table(tmp_path / "out.csv")[0]["x"].to_list() == [0.5, *reversed(values)]


# Verbatim


@pytest.mark.parametrize(
    "content",
    [
        "x,y\n1.50,a\n2.00,b\n",
        "x;y\n1,5;a\n2,0;b\n",
        "x\ty\n1\ta b\n",
        "x|y\n+1|,\n",
        "x,y\r\n1,a\r\n2,b\r\n",
        "\ufeffx,y\n1,a\n",
        "\ufeffx;y\r\n1e5;ä€\r\n",
        "x,y\n1,\n,b\n",
        'x,y\n1,"a,b"\n2,"say ""hi"""\n3,"two\nlines"\n4,"cr\rhere"\n',
        '"a,b","two\nlines"\n1,2\n',
        "x,y\n007, padded \n010,NA\n",
        "x,y\n1,true\n0,2024-01-31\n",
        'x\n1\n""\nNA\n2\n',
        "x\nonly text\n",
        "2019,2020,2021\n1,2,3\n",
    ],
)
def test_an_untouched_file_comes_back_byte_by_byte(tmp_path, content):
    assert again(tmp_path, content) == content.encode()


def test_a_changed_column_leaves_the_others_verbatim(tmp_path):
    frame, form = read_table(save(tmp_path, "a,b,c\n1.50,2.50,x\n+3,0.10,NA\n"))
    write_table(frame.with_columns(pl.col("a") * 2), tmp_path / "out.csv", form)
    assert (tmp_path / "out.csv").read_text() == "a,b,c\n3,2.50,x\n6,0.10,NA\n"


def test_columns_may_go_come_and_change_places(tmp_path):
    frame, form = read_table(save(tmp_path, "a,b\n1.50,x\n2.50,y\n"))
    moved = frame.select(pl.col("b"), pl.lit(0.1).alias("new"), pl.col("a"))
    write_table(moved, tmp_path / "out.csv", form)
    assert (tmp_path / "out.csv").read_text() == "b,new,a\nx,0.1,1.50\ny,0.1,2.50\n"


def test_empty_lines_are_no_rows_but_in_a_single_column(tmp_path):
    assert again(tmp_path, "\n\nx,y\n1,a\n\n2,b\n\n") == b"x,y\n1,a\n2,b\n"
    assert again(tmp_path, "x\n1\n\n2\n") == b'x\n1\n""\n2\n'


def test_the_last_line_may_lack_its_end(tmp_path):
    assert again(tmp_path, "x,y\n1,a\n2,b") == b"x,y\n1,a\n2,b\n"
    assert again(tmp_path, 'x,y\n1,a\n2,"b,"') == b'x,y\n1,a\n2,"b,"\n'


def test_old_mac_line_ends_are_read(tmp_path):
    frame, _ = read_table(save(tmp_path, "x,y\r1,a\r2,b\r"))
    assert frame.rows() == [(1, "a"), (2, "b")]


def test_quotes_inside_a_cell_are_text(tmp_path):
    frame, _ = read_table(save(tmp_path, 'x,y\n1,5" pipe\n2,3" pipe\n'))
    assert frame["y"].to_list() == ['5" pipe', '3" pipe']


def test_a_cell_like_the_end_mark_is_kept(tmp_path):
    frame, _ = read_table(save(tmp_path, "x,y\nend,end\nend,end\n"))
    assert frame.rows() == [("end", "end")] * 2


@pytest.mark.slow
def test_wide_and_long_rows(tmp_path):
    names = [f"column{i}" for i in range(3_000)]
    frame, _ = read_table(save(tmp_path, ",".join(names) + "\n" + ",".join(["1.25"] * 3_000) + "\n"))
    assert frame.shape == (1, 3_000)
    quoted = ";".join(f'"{name}"' for name in names) + "\n" + ";".join(["1.25"] * 3_000) + "\n"
    assert read_table(save(tmp_path, quoted))[0].columns == names
    long = "word " * 100_000
    assert column(tmp_path, long).to_list() == [long]


NUMBERS = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.floats(allow_nan=False).map(repr),
    st.sampled_from(["+5", " 12", "1.50", "-0", "1e5", "12 "]),
)
TOKENS = st.sampled_from([token for token in numerals.MISSING if token])
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
CELLS = st.one_of(
    st.tuples(*[st.one_of(NUMBERS, TOKENS, st.just(""))] * 4),
    st.tuples(*[st.one_of(WORDS, NUMBERS, TOKENS)] * 4),
)


@given(
    columns=st.lists(CELLS, min_size=1, max_size=4),
    separator=st.sampled_from(list(csv_room.SEPARATORS)),
    ending=st.sampled_from(["\n", "\r\n"]),
)
@settings(**HERE)
def test_whatever_the_standard_library_writes_comes_back(tmp_path, columns, separator, ending):
    if len(columns) == 1:
        separator = ","  # nothing in the file would tell another
    if ending == "\n":  # with which the standard library forgets to quote the other one
        columns = [tuple(cell.replace("\r", "") for cell in cells) for cells in columns]
    names = [f"v{i}" for i in range(len(columns))]
    buffer = io.StringIO(newline="")
    writer = standard_csv.writer(buffer, delimiter=separator, lineterminator=ending)
    writer.writerows([names, *zip(*columns, strict=True)])
    content = buffer.getvalue().encode()

    frame, form = read_table(save(tmp_path, content))
    assert frame.height == 4
    assert form.separator == separator
    for name, cells in zip(names, columns, strict=True):
        if frame[name].dtype == pl.String:
            assert frame[name].to_list() == [cell or None for cell in cells]
        else:
            expected = [None if cell.strip() in numerals.MISSING else float(cell) for cell in cells]
            assert frame[name].cast(pl.Float64).to_list() == expected
    with formulas_kept():
        write_table(frame, tmp_path / "out.csv", form)
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        rows = list(standard_csv.reader(file, delimiter=separator))
    assert rows == [names, *(list(row) for row in zip(*columns, strict=True))]

    # Changed numbers leave every missing cell as it was, and nothing of the others.
    numeric = [name for name in names if frame[name].dtype != pl.String]
    masked = frame.with_columns(pl.when(pl.col(name).is_not_null()).then(0.1234567).alias(name) for name in numeric)
    with formulas_kept():
        write_table(masked, tmp_path / "out.csv", form)
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        written = dict(
            zip(names, zip(*list(standard_csv.reader(file, delimiter=separator))[1:], strict=True), strict=True)
        )
    for name, cells in zip(names, columns, strict=True):
        if name in numeric:
            cells = tuple(cell if cell.strip() in numerals.MISSING else "0.1234567" for cell in cells)
        assert written[name] == cells


@given(st.lists(WORDS.filter(lambda name: name.strip()), min_size=2, max_size=5, unique=True))
@settings(**HERE)
def test_any_column_names_come_back(tmp_path, names):
    assume("plain" not in names)  # which is the name of the first column
    assume(not formats_room.looks_like_record(["plain", *names]))  # numbers for names are refused
    assume(not any(name.startswith("^") and name.endswith("$") for name in names))  # and so are patterns
    buffer = io.StringIO(newline="")
    writer = standard_csv.writer(buffer, delimiter="\t", lineterminator="\r\n")
    writer.writerows([["plain", *names], ["1.50"] * (len(names) + 1)])
    frame, form = read_table(save(tmp_path, buffer.getvalue(), "in.tsv"))  # where names full of commas do not matter
    assert frame.columns == ["plain", *names]
    with formulas_kept():
        write_table(frame, tmp_path / "out.tsv", form)
    assert_frame_equal(read_table(tmp_path / "out.tsv")[0], frame)


# Formats


def test_the_separator_is_the_one_that_gives_most_names(tmp_path):
    for content, separator in (
        ("a;b,c;d\n1;2;3\n", ";"),
        ('"a;b;c",d\n1,2\n', ","),
        ("a,b;c\n1,2\n", ","),
        ("a\n1\n", ","),
    ):
        _, form = read_table(save(tmp_path, content))
        assert form.separator == separator
    assert read_table(save(tmp_path, "a,b\tc\n1\t2\n", "x.tsv"))[0].columns == ["a,b", "c"]


@pytest.mark.parametrize(("extension", "kind"), EXTENSIONS.items())
def test_extensions_are_known_in_any_case(tmp_path, extension, kind):
    frame = pl.DataFrame({"x": [1.5, 2.0], "y": ["a", "b"]})
    path = tmp_path / f"table{extension.upper()}"
    if extension == ".sas7bdat":
        for action in (
            lambda: check_target(path, frame=frame),
            lambda: write_table(frame, path, FileFormat("csv", ".csv")),
        ):
            assert "only SAS writes such files" in refused(FileError, action)
        return
    write_table(frame, path, FileFormat("parquet", ".parquet"))
    back, form = read_table(path)
    assert form.name == kind
    assert_frame_equal(back, frame)


def test_the_separator_follows_the_extension_when_that_changes(tmp_path):
    frame, form = read_table(save(tmp_path, "x\ty\n1.50\ta\n", "in.tsv"))
    write_table(frame, tmp_path / "out.csv", form)
    assert (tmp_path / "out.csv").read_text() == "x,y\n1.50,a\n"
    frame, form = read_table(save(tmp_path, "x;y\n1.50;a\n"))
    write_table(frame, tmp_path / "out.tsv", form)
    assert (tmp_path / "out.tsv").read_text() == "x\ty\n1.50\ta\n"
    write_table(frame, tmp_path / "out.txt", form)
    assert (tmp_path / "out.txt").read_text() == "x;y\n1.50;a\n"


def test_csv_to_parquet_and_back(tmp_path):
    frame, form = read_table(save(tmp_path, "x,y,z\n1.50,NA,a\n.,2,\n"))
    write_table(frame, tmp_path / "out.parquet", form)
    back, parquet = read_table(tmp_path / "out.parquet")
    assert parquet.name == "parquet"
    assert_frame_equal(back, frame)
    write_table(back, tmp_path / "out.csv", parquet)
    assert (tmp_path / "out.csv").read_text() == "x,y,z\n1.5,,a\n,2,\n"


def test_nested_columns_pass_in_parquet_but_not_in_csv(tmp_path):
    frame = pl.DataFrame({"x": [1, 2], "items": [[1], [2, 3]]})
    frame.write_parquet(tmp_path / "in [1].parquet")
    back, form = read_table(tmp_path / "in [1].parquet")
    assert_frame_equal(back, frame)
    write_table(back, tmp_path / "out.pq", form)
    assert_frame_equal(pl.read_parquet(tmp_path / "out.pq"), frame)
    message = refused(FileError, lambda: write_table(back, tmp_path / "out.csv", form))
    assert "'items'" in message
    assert ".parquet" in message
    assert not (tmp_path / "out.csv").exists()


def test_a_format_does_not_print_the_data(tmp_path):
    _, form = read_table(save(tmp_path, "x,y\n81234,81234\n"))
    assert "81234" not in repr(form)
    assert "81234" not in repr(form.columns)


def test_polars_is_not_loaded_with_the_room():
    script = "import sys, microveil.io.tables; print({'polars', 'pyarrow'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"


def test_cells_that_keep_their_value_keep_their_text_in_a_changed_column(tmp_path):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("x,y\n-9,1\n5.50,2\n-9,3\nNA,4\n")
    frame, file_format = read_table(source)
    changed = frame.with_columns(x=pl.Series([-9.0, 7.25, -9.0, None]))
    write_table(changed, target, file_format)
    assert target.read_text() == "x,y\n-9,1\n7.25,2\n-9,3\nNA,4\n"
