"""Tables come back as they went in; targets are whole or absent; messages are one line and hold no data."""

import csv as standard_csv
import errno
import io
import math
import os
import stat
import subprocess
import sys
import textwrap
import traceback
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from microveil.core.errors import DataError, FileError, MicroveilError
from microveil.io.files import csv as csv_room
from microveil.io.files import formats as formats_room
from microveil.io.files import numerals
from microveil.io.files.formula_injection import formulas_kept
from microveil.io.tables import (
    EXTENSIONS,
    FileFormat,
    atomic_target,
    check_place,
    check_target,
    read_table,
    write_table,
)
from microveil.storage.atomic import atomic_targets

SENTINEL = "SECRET81234"
HERE = {"suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]}


def save(folder: Path, content: str | bytes, name: str = "in.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


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


def refused(kind: type[MicroveilError], action) -> str:
    """The message of an error, which is one line, leads out and holds no data, not even in its traceback."""
    with pytest.raises(kind) as caught:
        action()
    error = caught.value
    assert "\n" not in str(error)
    assert error.hint
    assert SENTINEL not in "".join(traceback.format_exception(error))
    chain = error
    while chain := chain.__cause__ or chain.__context__:
        assert SENTINEL not in repr(chain)
    return str(error)


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
    rows = 3 * numerals.SAMPLE
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
    assert form.dialect.separator == separator
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
        assert form.dialect.separator == separator
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
    assert "81234" not in repr(form.dialect.originals)


# Files that cannot be read


@pytest.mark.parametrize(
    ("content", "kind", "words"),
    [
        (b"", FileError, ["is empty"]),
        (b"\xef\xbb\xbf", FileError, ["is empty"]),
        (b" \n\n", FileError, ["is empty"]),
        (b"x,y\n", DataError, ["has no rows"]),
        (b"x,y", DataError, ["has no rows"]),
        (b"x,y\n\n\n", DataError, ["has no rows"]),
        (f"x,y\nä,2\n{SENTINEL},".encode() + b"\xff\n", FileError, ["not UTF-8", "line 3", "--encoding"]),
        (f"x,y\n1,2\n{SENTINEL},\x81\n".encode("latin-1"), FileError, ["not UTF-8", "line 3", "nor cp1252"]),
        (f"x,y\n1,{SENTINEL}\n".encode("utf-16-le"), FileError, ["null byte", "--encoding utf-16"]),
        (f"\ufeffx,y\n1,{SENTINEL}".encode() + b"\xff\n", FileError, ["not UTF-8 text (line 2)", "--encoding"]),
        (f"x,y\n\xff,{SENTINEL}\0\n".encode("latin-1"), FileError, ["null bytes", "--encoding utf-16"]),
        (f"\ufeffx,y\n1,{SENTINEL}\n".encode("utf-16-le") + b"x", FileError, ["not UTF-16-LE text"]),
        (f"x,y\n1,2\n{SENTINEL},\0\n".encode(), FileError, ["null byte", "line 3"]),
        (f"x,y\n1,2\n{SENTINEL}\n3,4\n".encode(), FileError, ["1 cells on line 3", "header has 2"]),
        (f"x,y\n1,2\n\n3,{SENTINEL},5\n".encode(), FileError, ["3 cells on line 4", "a comma"]),
        (f'x;y\n"a\nb";2\n3;{SENTINEL};5\n'.encode(), FileError, ["3 cells on line 4", "a semicolon"]),
        (f'x,y\n1,2\n3,"{SENTINEL}\n5,6\n'.encode(), FileError, ["quote on line 3", "not closed"]),
        (f'x,y\n1,2\n3,"{SENTINEL}'.encode(), FileError, ["quote on line 3", "not closed"]),
        (f'x,y\n1,2\n"{SENTINEL},3\n5,6\n'.encode(), FileError, ["quote on line 3", "not closed"]),
        (f'x\n1\n"{SENTINEL}\n'.encode(), FileError, ["quote on line 3", "not closed"]),
        (f'x,y\n1,2\n3,"{SENTINEL}""\n'.encode(), FileError, ["quote on line 3", "not closed"]),
        (f'x,"y\n1,{SENTINEL}\n'.encode(), FileError, ["quote in its header", "not closed"]),
        (f'x,"y\n1,{SENTINEL * 20_000}\n'.encode(), FileError, ["quote in its header", "not closed"]),
        (f'"x"y,z\n1,{SENTINEL}\n'.encode(), FileError, ["quote in its header", "followed by text"]),
        (f'x,y\n1,2\n3,"{SENTINEL}{"5,6 " * 3_000_000}\n'.encode(), FileError, ["quote on line 3", "not closed"]),
        (f"x,,z\n1,{SENTINEL},3\n".encode(), DataError, ["no name for column 2 of 3"]),
        (f'"","x"\n"1",{SENTINEL}\n'.encode(), DataError, ["no name for column 1 of 2"]),
        (f"x,y,x,y,z\n{SENTINEL},2,3,4,5\n".encode(), DataError, ["'x' (columns 1, 3); 'y' (columns 2, 4)"]),
        (f'"a,\nb",y,"a,\nb"\n{SENTINEL},2,3\n'.encode(), DataError, [r"'a,\nb' (columns 1, 3)"]),
    ],
)
def test_malformed_csv(tmp_path, content, kind, words):
    path = save(tmp_path, content)
    message = refused(kind, lambda: read_table(path))
    for word in [*words, str(path)]:
        assert word in message


def test_a_record_in_place_of_the_header_is_refused_unseen(tmp_path):
    for content in (b"81234.5,3\n1,2\n", b"81234,81234,5\n1,2,3\n", b"81234,NA\n1,2\n", b"5,81234\n1,2\n"):
        message = refused(DataError, lambda content=content: read_table(save(tmp_path, content)))
        assert "column names" in message
        assert "81234" not in message
    for content in (b"Ann,81234,81234\n1,2,3\n", b"Ann,7,81234\n1,2,3\n", b"Ann,81234.5\n1,2\n"):
        message = refused(DataError, lambda content=content: read_table(save(tmp_path, content)))
        assert "numbers in place of column names" in message
        assert "81234" not in message
    assert read_table(save(tmp_path, b"region,2019,2020\n1,2,3\n"))[0].columns == ["region", "2019", "2020"]


def test_missing_file_names_its_neighbour(tmp_path):
    save(tmp_path, "x\n1\n", "firms.csv")
    message = refused(FileError, lambda: read_table(tmp_path / "firm.csv"))
    assert "no file" in message
    assert "'firms.csv'" in message
    assert "check the path" in refused(FileError, lambda: read_table(tmp_path / "no" / "firms.csv"))
    assert "no file" in refused(FileError, lambda: read_table(tmp_path / "firms.csv" / "x.csv"))
    refused(FileError, lambda: read_table(tmp_path / "null\0.csv"))
    refused(FileError, lambda: read_table(tmp_path / ("long" * 100 + ".csv")))


def test_names_with_line_ends_keep_the_message_on_one_line(tmp_path):
    refused(FileError, lambda: read_table(tmp_path / "two\nlines.csv"))
    refused(FileError, lambda: read_table(Path(os.fsdecode(b"odd\xff.csv"))))


def test_what_is_not_a_file_is_refused(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    assert "is a directory" in refused(FileError, lambda: read_table(tmp_path / "folder.csv"))
    os.mkfifo(tmp_path / "pipe.csv")
    assert "a pipe" in refused(FileError, lambda: read_table(tmp_path / "pipe.csv"))


@pytest.mark.parametrize("name", ["table.xls", "table", "table.csv.gz", ".csv"])
def test_unknown_extensions_list_the_known(tmp_path, name):
    path = save(tmp_path, "x\n1\n", name)
    written = [extension for extension in EXTENSIONS if extension != ".sas7bdat"]  # which only SAS writes
    for action, known in (
        (lambda: read_table(path), EXTENSIONS),
        (lambda: check_target(path), written),
        (lambda: write_table(pl.DataFrame({"x": [1]}), path, FileFormat("csv", ".csv")), written),
    ):
        message = refused(FileError, action)
        assert "extension" in message
        assert all(extension in message for extension in known)
        assert (".sas7bdat" in message) == (known is EXTENSIONS)


@pytest.mark.parametrize("extension", [".csv", ".parquet"])
def test_no_permission_to_read(tmp_path, monkeypatch, extension):
    # Root may read everything, so the refusal is staged where both readers open the file.
    path = save(tmp_path, "x\n1\n", f"in{extension}")

    def forbid(*_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", forbid)
    monkeypatch.setattr(Path, "read_bytes", forbid)
    message = refused(FileError, lambda: read_table(path))
    assert "cannot be read (permission denied)" in message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_real_permissions(tmp_path):
    path = save(tmp_path, "x\n1\n")
    path.chmod(0o000)
    assert "permission denied" in refused(FileError, lambda: read_table(path))
    path.chmod(0o444)
    assert "write-protected" in refused(FileError, lambda: check_target(path))
    path.unlink()
    tmp_path.chmod(0o555)
    assert "permission denied" in refused(FileError, lambda: check_target(path))
    tmp_path.chmod(0o755)


def test_not_parquet(tmp_path):
    frame = pl.DataFrame({"x": [SENTINEL] * 50})
    frame.write_parquet(tmp_path / "good.parquet")
    good = (tmp_path / "good.parquet").read_bytes()
    for content in (SENTINEL.encode() * 9, b"PAR1" + SENTINEL.encode() + b"PAR1", good[:-9], b"P"):
        path = save(tmp_path, content, "bad.parquet")
        message = refused(FileError, lambda path=path: read_table(path))
        assert "is not a Parquet file" in message
        assert str(path) in message
    frame.clear().write_parquet(path)
    assert "has no rows" in refused(DataError, lambda: read_table(path))
    repeated = pa.table([pa.array([SENTINEL])] * 3, names=["x", "y", "x"])
    pq.write_table(repeated, path)
    assert "repeats column names: 'x'" in refused(DataError, lambda: read_table(path))


# Targets


def test_a_good_target_passes_and_nothing_is_left(tmp_path):
    source = save(tmp_path, "x\n1\n")
    check_target(tmp_path / "out.csv", [source])
    check_place(tmp_path / "report.html", [source])
    check_target(source)  # an existing file may be replaced
    assert list(tmp_path.iterdir()) == [source]


def test_an_input_is_no_target(tmp_path):
    source = save(tmp_path, "x\n1\n")
    (tmp_path / "soft.csv").symlink_to(source)
    (tmp_path / "hard.csv").hardlink_to(source)
    for target in (source, tmp_path / "soft.csv", tmp_path / "hard.csv", tmp_path / ".." / tmp_path.name / "in.csv"):
        message = refused(FileError, lambda target=target: check_target(target, [source]))
        assert "one of the inputs" in message
    missing = tmp_path / "missing.csv"
    assert "inputs" in refused(
        FileError, lambda: check_target(missing, [tmp_path / ".." / tmp_path.name / "missing.csv"])
    )


def test_targets_without_a_place(tmp_path):
    save(tmp_path, "x\n1\n")
    (tmp_path / "folder.csv").mkdir()
    for target, words in (
        (tmp_path / "no" / "out.csv", "no folder"),
        (tmp_path / "in.csv" / "out.csv", "not a directory"),
        (tmp_path / "folder.csv", "is a directory"),
        (tmp_path / ("long" * 100 + ".csv"), "too long"),
        (tmp_path / "null\0.csv", "cannot be written"),
        (Path("/proc/self/out.csv"), "cannot be written"),  # a folder where not even root can make a file
    ):
        message = refused(FileError, lambda target=target: check_target(target))
        assert words in message
        refused(
            FileError, lambda target=target: write_table(pl.DataFrame({"x": [1]}), target, FileFormat("csv", ".csv"))
        )


def test_devices_and_pipes_are_never_replaced(tmp_path):
    full = Path("/dev/full")
    (tmp_path / "link.csv").symlink_to(full)
    os.mkfifo(tmp_path / "pipe.csv")

    def write(path: Path) -> None:
        with atomic_target(path) as temporary:
            temporary.write_text("never")

    for path in (full, tmp_path / "link.csv", tmp_path / "pipe.csv"):
        assert "a device or a pipe" in refused(FileError, lambda path=path: check_place(path))
        assert "a device or a pipe" in refused(FileError, lambda path=path: write(path))
    assert "a device" in refused(FileError, lambda: check_target(tmp_path / "link.csv"))
    assert stat.S_ISCHR(full.stat().st_mode)
    assert stat.S_ISFIFO((tmp_path / "pipe.csv").stat().st_mode)


@pytest.fixture
def umask():
    old = os.umask(0o027)
    yield 0o027
    os.umask(old)


def test_the_temporary_file_is_private_and_the_target_follows_the_umask(tmp_path, umask):
    path = tmp_path / "report.html"
    with atomic_target(path) as temporary:
        assert temporary.parent == tmp_path
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600
        temporary.write_text("done")
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600
        assert not path.exists()
    assert path.read_text() == "done"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_replaced_file_keeps_its_permissions_and_its_link(tmp_path, umask):
    real = tmp_path / "real.csv"
    for mode in (0o600, 0o666):
        real.write_text("old")
        real.chmod(mode)
        link = tmp_path / "link.csv"
        link.unlink(missing_ok=True)
        link.symlink_to(real)
        write_table(pl.DataFrame({"x": [1, 2]}), link, FileFormat("csv", ".csv"))
        assert link.is_symlink()
        assert real.read_text() == "x\n1\n2\n"
        assert stat.S_IMODE(real.stat().st_mode) == mode


def test_the_group_loses_its_rights_when_it_would_be_another_group(tmp_path, monkeypatch):
    path = tmp_path / "x.csv"
    path.write_text("old")
    path.chmod(0o664)

    def forbid(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", forbid)
    with atomic_target(path) as temporary:
        temporary.write_text("new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RuntimeError, MemoryError])
@pytest.mark.parametrize("exists", [True, False])
def test_any_failure_leaves_things_as_they_were(tmp_path, error, exists):
    path = tmp_path / "x.json"
    if exists:
        path.write_text("old")

    def fail() -> None:
        with atomic_target(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert [(file, file.read_text()) for file in tmp_path.iterdir()] == ([(path, "old")] if exists else [])


def test_files_that_belong_together_appear_together(tmp_path):
    paths = [tmp_path / name for name in ("report.html", "out.csv")]
    paths[0].write_text("old")
    with atomic_targets(paths) as temporaries:
        for temporary in temporaries:
            temporary.write_text("new")
        assert paths[0].read_text() == "old"
        assert not paths[1].exists()
    assert [path.read_text() for path in paths] == ["new", "new"]
    assert sorted(tmp_path.iterdir()) == sorted(paths)


def test_no_file_is_replaced_before_all_are_on_the_disk(tmp_path, monkeypatch):
    paths = [tmp_path / name for name in ("report.html", "out.csv")]
    for path in paths:
        path.write_text("old")
    calls = []

    def full(path, _):
        calls.append(path)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("microveil.storage.atomic._sync", full)

    def write() -> None:
        with atomic_targets(paths):
            pass

    assert str(paths[1]) in refused(FileError, write)
    assert {path: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(paths, "old")


def test_what_its_writer_calls_private_stays_so(tmp_path, umask):
    paths = [tmp_path / name for name in ("a.html", "b.html")]
    with atomic_targets(paths) as (first, second), atomic_targets([first, second], private=[second]):
        pass
    assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o640, 0o600]


def test_without_locks_the_file_of_another_run_is_not_swept(tmp_path, monkeypatch):
    """Some network file systems have none (ENOLCK), and then nobody can tell whether a file was left behind."""

    def no_locks(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    others = tmp_path / ".microveil-other.tmp"
    others.write_text("being written")
    with atomic_target(tmp_path / "x.csv") as temporary:
        temporary.write_text("new")
    assert others.read_text() == "being written"
    assert (tmp_path / "x.csv").read_text() == "new"


def test_an_error_about_a_temporary_file_names_the_target(tmp_path):
    paths = [tmp_path / name for name in ("a.html", "b.html")]

    def fail() -> None:
        with atomic_targets(paths) as (_, second), atomic_target(second):
            raise OSError(28, "No space left on device")

    assert refused(FileError, fail).startswith(f"'{paths[1]}' cannot be written")
    assert list(tmp_path.iterdir()) == []


def test_a_table_goes_into_a_given_file_in_the_format_of_its_target(tmp_path):
    frame = pl.DataFrame({"x": [1, 2]})
    place = tmp_path / "given.tmp"
    for name in ("out.csv", "out.tsv", "out.parquet"):
        write_table(frame, tmp_path / name, FileFormat("csv", ".csv"))
        write_table(frame, tmp_path / "other" / name, FileFormat("csv", ".csv"), into=place)
        assert place.read_bytes() == (tmp_path / name).read_bytes()
    missing = tmp_path / "nowhere" / "given.tmp"
    message = refused(
        FileError, lambda: write_table(frame, tmp_path / "o.csv", FileFormat("csv", ".csv"), into=missing)
    )
    assert message.startswith(f"'{tmp_path / 'o.csv'}' cannot be written")


def test_a_target_that_cannot_hold_the_table_is_refused_in_time(tmp_path):
    frame = pl.DataFrame({"x": [[1]]})
    check_target(tmp_path / "o.parquet", frame=frame)
    assert "'x'" in refused(FileError, lambda: check_target(tmp_path / "o.csv", frame=frame))


@pytest.mark.parametrize(("name", "method"), [("out.csv", "write_csv"), ("out.parquet", "write_parquet")])
def test_ctrl_c_while_writing_leaves_nothing(tmp_path, monkeypatch, name, method):
    modes = []

    def interrupted(self, file, **_):
        file.write(b"half")
        modes.extend(stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir())
        raise KeyboardInterrupt

    monkeypatch.setattr(pl.DataFrame, method, interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_table(pl.DataFrame({"x": [1]}), tmp_path / name, FileFormat("csv", ".csv"))
    assert modes == [0o600]
    assert list(tmp_path.iterdir()) == []


def test_a_failure_of_polars_is_told_without_its_words(tmp_path, monkeypatch):
    def fail(self, file, **_):
        raise pl.exceptions.ComputeError(f"cannot convert {SENTINEL}")

    monkeypatch.setattr(pl.DataFrame, "write_csv", fail)
    path = tmp_path / "out.csv"
    message = refused(FileError, lambda: write_table(pl.DataFrame({"x": [1]}), path, FileFormat("csv", ".csv")))
    assert str(path) in message
    assert list(tmp_path.iterdir()) == []


def test_a_failure_of_the_system_is_named(tmp_path):
    def fail() -> None:
        with atomic_target(tmp_path / "x.html"):
            raise OSError(28, "No space left on device")

    message = refused(FileError, fail)
    assert "x.html' cannot be written (no space left on device); free some space" in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_a_full_disk_for_real(tmp_path, name):
    path = save(tmp_path, "old", name)
    script = f"""
        import resource
        from pathlib import Path
        import numpy as np, polars as pl
        from microveil.core.errors import FileError
        from microveil.io.tables import FileFormat, write_table

        frame = pl.DataFrame({{"x": np.random.default_rng(1).normal(size=200_000)}})
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        try:
            write_table(frame, Path({str(path)!r}), FileFormat("csv", ".csv"))
        except FileError as error:
            print(error)
    """
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )
    assert run.stdout == f"'{path}' cannot be written (file too large); free some space, or choose another disk\n"
    assert run.stderr == ""
    assert [(file, file.read_text()) for file in tmp_path.iterdir()] == [(path, "old")]


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
