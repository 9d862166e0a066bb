"""Separator, decimal sign, quotes and encoding are found, told and used again; where two are possible, we ask."""

import csv as standard_csv
import io
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import microveil as mv
from microveil.core.arrays import FIRST_ROWS
from microveil.core.errors import DataError, FileError, ParameterError
from microveil.io.files.formula_injection import formulas_kept
from microveil.io.tables import ReadOptions, read_table, write_table

HERE = {"suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]}


def save(folder, content: str | bytes, name="in.csv"):
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def again(folder, content: str | bytes, reading=None) -> tuple[pl.DataFrame, bytes, str]:
    """The table, what it comes back as, and what is told about the file."""
    frame, form = read_table(save(folder, content), reading)
    write_table(frame, folder / "out.csv", form)
    return frame, (folder / "out.csv").read_bytes(), form.description


# Decimals


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_decimal_commas_are_read_and_written(tmp_path, separator):
    content = "x;n;code;name\n1,50;1;007;a,b\n-0,25;NA;01,5;1,5 m\n.;3;9;\n1e3;4;1;c\n".replace(";", separator)
    frame, back, told = again(tmp_path, content)
    assert frame["x"].to_list() == [1.5, -0.25, None, 1000.0]
    assert frame["n"].to_list() == [1, None, 3, 4]
    assert frame.schema["code"] == frame.schema["name"] == pl.String
    assert back == content.encode()
    assert "decimal comma" in told
    form = read_table(tmp_path / "in.csv")[1]
    changed = frame.with_columns(pl.col("x") * 3, pl.col("n") / 4, new=pl.lit(0.5))
    write_table(changed, tmp_path / "out.csv", form)
    expected = "x;n;code;name;new\n4,5;0,25;007;a,b;0,5\n-0,75;NA;01,5;1,5 m;0,5\n.;0,75;9;;0,5\n3000;1;1;c;0,5\n"
    assert (tmp_path / "out.csv").read_text() == expected.replace(";", separator)


def test_decimal_commas_in_quotes_between_commas(tmp_path):
    content = 'x,y\n"1,5",a\n"2,25",b\n3,c\n'
    frame, back, told = again(tmp_path, content)
    assert frame["x"].to_list() == [1.5, 2.25, 3.0]
    assert back == content.encode()
    assert told == "comma, decimal comma, UTF-8"
    frame, form = read_table(tmp_path / "in.csv")
    write_table(frame.with_columns(pl.col("x") * 2), tmp_path / "out.csv", form)
    assert (tmp_path / "out.csv").read_text() == 'x,y\n3,a\n"4,5",b\n6,c\n'


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('x,y\n"1,234",a\n"5,678",b\n', ["'x'", "1,234", "--decimal comma"]),
        ("x;y\n1,234;a\n950;b\n", ["'x'", "1,234", "--decimal comma"]),
        ("x;y\n1.234;a\n950;b\n", ["'x'", "1.234", "--decimal point"]),
        ("x;y\n1.5;1,5\n2.5;2,5\n", ["points in column 'x'", "commas in column 'y'", "--decimal"]),
        ("x;y\n1.234;1,5\n2.345;2,5\n", ["points in column 'x'", "commas in column 'y'", "--decimal"]),
        ("x;y\n1.234,50;1.5\n950,25;2.5\n", ["'x' has thousands separators", "--decimal"]),
        ("x;y\n1.234,50;a\n1,234.50;b\n", ["'x' has thousands separators", "--decimal"]),
    ],
)
def test_what_can_be_read_in_two_ways_is_asked(tmp_path, content, words):
    with pytest.raises(DataError) as caught:
        read_table(save(tmp_path, content))
    assert all(word in str(caught.value) for word in [*words, "in.csv"])
    assert caught.value.hint


@pytest.mark.parametrize(
    ("content", "decimal", "values"),
    [
        ('x,y\n"1,234",a\n"5,678",b\n', "comma", [1.234, 5.678]),
        ('x,y\n"1,234",a\n"5,678",b\n', "point", ["1,234", "5,678"]),
        ("x;y\n1.234;a\n950;b\n", "point", [1.234, 950.0]),
        ("x;y\n1.5;1,5\n2.5;2,5\n", ",", ["1.5", "2.5"]),
        ("x;y\n1.5;1,5\n2.5;2,5\n", ".", [1.5, 2.5]),
        ("x;y\n5;a\n7;b\n", "comma", [5, 7]),
    ],
)
def test_what_the_user_says_is_done(tmp_path, content, decimal, values):
    frame, back, _ = again(tmp_path, content, ReadOptions(decimal=decimal))
    assert frame["x"].to_list() == values
    assert back == content.encode()


@pytest.mark.parametrize(
    ("content", "values", "doubled", "unit"),
    [
        ('x,y\n"1,234,567",a\n950,b\n', [1234567, 950], ["2469134", "1900"], ""),
        ("x;y\n1.234,50;a\n950,25;b\n", [1234.5, 950.25], ["2469,00", "1900,50"], ""),
        ('x,y\n"1,234.50",a\n1.25,b\n', [1234.5, 1.25], ["2469.00", "2.50"], ""),
        ("x,y\n1 234,a\n950,b\n", [1234, 950], ["2468", "1900"], ""),
        ("x,y\n1'234.5,a\n950,b\n", [1234.5, 950], ["2469", "1900"], ""),
        ("x,y\n12\u202f234,a\n950,b\n", [12234, 950], ["24468", "1900"], ""),
        ("x;y\n1.234,50 €;a\n950,00 €;b\n", [1234.5, 950], ["2469,00 €", "1900,00 €"], "€"),
        ("x;y\n45 %;a\n7 %;b\n", [45, 7], ["90 %", "14 %"], "%"),
        ("x;y\n$12.5;a\n$7.5;b\n", [12.5, 7.5], ["$25.0", "$15.0"], "$"),
        ("x;y\n1,5 m²;a\nNA;b\n7,5m²;c\n8 m²;\n", [1.5, None, 7.5, 8], ["3 m²", "NA", "15 m²", "16 m²"], "m²"),
    ],
)  # fmt: skip
def test_units_and_thousands_are_read_and_units_come_back(tmp_path, content, values, doubled, unit):
    frame, back, _ = again(tmp_path, content)
    assert frame["x"].to_list() == values
    assert back == content.encode()
    frame, form = read_table(tmp_path / "in.csv")
    finding = f"column 'x' has the unit {unit} in its cells"
    assert form.findings == [finding if unit else "column 'x' has thousands separators, which are not written again"]
    write_table(frame.with_columns(pl.col("x") * 2), tmp_path / "out.csv", form)
    lines = (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert [line.rpartition(form.separator)[0].strip('"') for line in lines] == doubled


@pytest.mark.parametrize(
    "cells", ["K50 K51 K7", "12A 13A 14A", "4d 5d 6d", "4a 5a 6a", "12_kg 13 14", "EUR12kg EUR13kg EUR14kg"]
)
def test_codes_and_units_that_not_all_cells_share_stay_text(tmp_path, cells):
    text = "x;y\n" + "".join(f"{cell.replace('_', ' ')};1\n" for cell in cells.split())
    frame, back, _ = again(tmp_path, text)
    assert (frame.schema["x"], back) == (pl.String, text.encode())


def test_one_cell_settles_what_a_sign_means(tmp_path):
    rows = 2 * FIRST_ROWS
    for last, first in (("0,5", 1.234), ("12,75", 1.234), ("1234,567", 1.234)):
        content = "x;y\n" + "1,234;a\n" * rows + f"{last};b\n"
        assert read_table(save(tmp_path, content))[0]["x"][0] == first
    content = "x;y\n" + "1.234;a\n" * rows + "0.5;b\n"
    assert read_table(save(tmp_path, content))[0]["x"][0] == 1.234


def test_codes_that_look_like_thousands_stay_text(tmp_path):
    content = "phone;version\n123 456;1.234.567\n789 012;2.345.678\n"
    frame, back, _ = again(tmp_path, content)
    assert set(frame.schema.values()) == {pl.String}
    assert back == content.encode()


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
@settings(**HERE)
def test_fractions_with_commas_are_read_to_the_last_bit(tmp_path, values):
    texts = [repr(value).replace(".", ",") for value in [*values, 0.5]]
    frame, form = read_table(save(tmp_path, "x;y\n" + "".join(f"{text};a\n" for text in texts)))
    assert frame["x"].to_list() == [*values, 0.5]
    write_table(frame.reverse(), tmp_path / "out.csv", form)
    assert read_table(tmp_path / "out.csv")[0]["x"].to_list() == [0.5, *reversed(values)]


# Encodings


@pytest.mark.parametrize(
    ("encoding", "mark", "told"),
    [
        ("utf-8", "", "UTF-8"),
        ("utf-8", "\ufeff", "UTF-8 with a mark"),
        ("cp1252", "", "cp1252"),
        ("utf-16-le", "\ufeff", "UTF-16-LE with a mark"),
        ("utf-16-be", "\ufeff", "UTF-16-BE with a mark"),
    ],
)
def test_encodings_are_found_and_come_back(tmp_path, encoding, mark, told):
    content = f"{mark}größe;ort\r\n1,5;Zürich\r\n2,5;Café € ß\r\n".encode(encoding)
    frame, back, said = again(tmp_path, content)
    assert frame.columns == ["größe", "ort"]
    assert frame["ort"].to_list() == ["Zürich", "Café € ß"]
    assert back == content
    assert said == f"semicolon, decimal comma, {told}"


@pytest.mark.parametrize(
    ("text", "encoding", "said"),
    [
        ("Łódź,Kraków\n1,2\n3,4\n", "cp1250", "cp1250"),
        ("Москва,x\n1,2\n3,4\n", "cp1251", "windows-1251"),
        ("é,x\n1,2\n3,4\n", "latin-1", "ISO-8859-1"),
        ("é,x\n1,2\n3,4\n", "utf-16-le", "utf-16"),
        ("東京,x\n1,2\n3,4\n", "shift_jis", "shift_jis"),
        ("é,x\n1,2\n3,4\n", "cp1252", "cp1252"),
    ],
)
def test_the_user_may_say_the_encoding(tmp_path, text, encoding, said):
    frame, back, _ = again(tmp_path, text.encode(encoding), ReadOptions(encoding=said))
    assert frame.columns == text.splitlines()[0].split(",")
    assert back == text.encode(encoding)


def test_every_byte_of_another_code_page_comes_back(tmp_path):
    names = bytes(byte for byte in range(0xA0, 0x100))
    content = b"name,x\n" + names + b",1\nb,2\n"
    assert again(tmp_path, content)[1] == content


def test_a_character_without_a_place_is_told(tmp_path):
    frame, form = read_table(save(tmp_path, "é,x\n1,2\n3,4\n".encode("cp1252")))
    with pytest.raises(FileError, match="has no place in cp1252"):
        write_table(frame.rename({"x": "Ł"}), tmp_path / "out.csv", form)
    assert not (tmp_path / "out.csv").exists()


# Quotes


@pytest.mark.parametrize("quoting", ["QUOTE_ALL", "QUOTE_MINIMAL", "QUOTE_NONNUMERIC"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("decimal", [".", ","])
def test_files_of_pandas_come_back_byte_by_byte(tmp_path, quoting, separator, decimal):
    frame = pd.DataFrame(
        {"x": [1.5, None, -2.25], "n": [1, 2, 3], "s": ["a", 'say "hi"', "b;c,d"], "t": ["u", None, "w"]}
    )
    frame.to_csv(
        tmp_path / "in.csv", index=False, quoting=getattr(standard_csv, quoting), sep=separator, decimal=decimal
    )
    content = (tmp_path / "in.csv").read_bytes()
    ours, back, told = again(tmp_path, content)
    assert back == content
    assert ours["x"].to_list() == [1.5, None, -2.25]
    assert ours["n"].to_list() == [1, 2, 3]
    assert ("all cells quoted" in told) == (quoting == "QUOTE_ALL")


def test_files_in_the_manner_of_r_come_back_byte_by_byte(tmp_path):
    # As write.csv(row.names = FALSE) and write.csv2 write them: names and text quoted, NA bare. No R made these bytes.
    content = '"name","income","region"\n"Ann",1500.5,"north"\n"Bob",NA,NA\n"NA, or so",2e+05,"south"\n'
    frame, back, told = again(tmp_path, content)
    assert back == content.encode()
    assert frame["income"].to_list() == [1500.5, None, 2e5]
    assert told == "comma, decimal point, UTF-8, text quoted"
    content = '"name";"income"\n"Ann";1500,5\n"Bob";NA\n'
    frame, back, told = again(tmp_path, content)
    assert back == content.encode()
    assert frame["income"].to_list() == [1500.5, None]
    content = '"x","y"\n1,2.5\n3,NA\n'  # numbers only: the names are quoted all the same
    assert again(tmp_path, content)[1] == content.encode()


def test_new_numbers_among_quoted_cells(tmp_path):
    for content, expected in (
        ('"x","s"\n"1.50","a"\n"","b"\n', '"x","s"\n"3.00","a"\n"","b"\n'),
        ('"x","s"\n1.50,"a"\nNA,"b"\n', '"x","s"\n3.00,"a"\nNA,"b"\n'),
        ('"x";"s"\n1,50;"a"\nNA;"b"\n', '"x";"s"\n3,00;"a"\nNA;"b"\n'),
    ):
        frame, form = read_table(save(tmp_path, content))
        write_table(frame.with_columns(pl.col("x") * 2), tmp_path / "out.csv", form)
        assert (tmp_path / "out.csv").read_text() == expected


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=4)  # too short for thousands


@given(
    rows=st.lists(st.tuples(CELLS, CELLS, st.floats(allow_nan=False, allow_infinity=False)), min_size=1, max_size=5),
    quoting=st.sampled_from([standard_csv.QUOTE_ALL, standard_csv.QUOTE_MINIMAL, standard_csv.QUOTE_NONNUMERIC]),
)
@settings(**HERE)
def test_cells_are_the_same_whatever_is_quoted(tmp_path, rows, quoting):
    buffer = io.StringIO(newline="")
    writer = standard_csv.writer(buffer, delimiter="\t", quoting=quoting, lineterminator="\n")
    writer.writerows([["a", "b", "x"], *rows])
    reading = ReadOptions(decimal="point")
    path = save(tmp_path, buffer.getvalue(), "in.tsv")
    frame, form = read_table(path, reading)
    with formulas_kept():
        write_table(frame, tmp_path / "out.tsv", form)
    with (tmp_path / "out.tsv").open(newline="", encoding="utf-8") as file:
        found = list(standard_csv.reader(file, delimiter="\t"))
    assert found == [["a", "b", "x"], *([str(cell) for cell in row] for row in rows)]


# Separators


def test_separators_that_split_alike_are_told_apart_by_the_records(tmp_path):
    assert read_table(save(tmp_path, "a,b;c\n1,2\n3,4\n"))[0].columns == ["a", "b;c"]
    assert read_table(save(tmp_path, "a,b;c\n1;2\n3;4\n"))[0].columns == ["a,b", "c"]
    with pytest.raises(FileError, match=r"can be split by a comma or a semicolon; say which .* --delimiter"):
        read_table(save(tmp_path, "a,b;c\n1,2;3\n4,5;6\n"))
    assert read_table(tmp_path / "in.csv", ReadOptions(delimiter=";", decimal="comma"))[0]["c"].to_list() == [3, 6]
    assert read_table(tmp_path / "in.csv", ReadOptions(delimiter="comma"))[0].columns == ["a", "b;c"]


@pytest.mark.parametrize(
    ("reading", "words"),
    [
        (ReadOptions(delimiter="space"), "--delimiter: 'space' is not known; it is comma, semicolon, tab, bar or pipe"),
        (ReadOptions(decimal="!"), "--decimal: '!' is not known; it is point, dot or comma"),
        (ReadOptions(encoding="klingon"), "encoding: 'klingon' is not known"),
        (ReadOptions(encoding="base64"), "encoding: 'base64' is not known"),
        (ReadOptions(sheet="A"), "--sheet: means nothing for .csv files"),
        (ReadOptions(query="SELECT 1"), "--query: means nothing for .csv files"),
    ],
)
def test_options_that_mean_nothing_are_refused(tmp_path, reading, words):
    with pytest.raises(ParameterError) as caught:
        read_table(save(tmp_path, "x,y\n1,2\n"), reading)
    assert words in str(caught.value)


def test_what_pandas_reads_is_what_we_read(tmp_path):
    frame = pd.DataFrame({"x": [1.5, math.nan, 1e300], "n": [1, -2, 3], "s": ["ä", "b", "c"]})
    for options in (
        {"sep": ";", "decimal": ",", "encoding": "cp1252"},
        {"sep": "\t", "encoding": "utf-16"},
        {"encoding": "utf-8-sig", "lineterminator": "\r\n"},
        {"sep": "|", "na_rep": "NA"},
    ):
        frame.to_csv(tmp_path / "in.csv", index=False, **options)
        ours, form = read_table(tmp_path / "in.csv")
        assert_frame_equal(ours, pl.from_pandas(frame))
        write_table(ours, tmp_path / "out.csv", form)
        options.pop("lineterminator", None)
        options.pop("na_rep", None)
        pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "out.csv", **options), frame)


@pytest.mark.parametrize("method", ["rank_swap", "shuffle", "veil"])
def test_no_text_tells_which_cells_are_true(tmp_path, method):
    """Prices of 12.50 and 3.00, of which many come back; how a cell looks follows from its value alone."""
    rng = np.random.default_rng(3)
    prices = np.round(rng.lognormal(2, 0.3, (400, 3)), 1)
    lines = [",".join(f"{price:.2f}" for price in row) for row in prices]
    (tmp_path / "in.csv").write_text("\n".join(["a,b,c", *lines]) + "\n")
    frame, form = read_table(tmp_path / "in.csv")
    release = mv.protect(frame, method, seed=1)
    write_table(release.data, tmp_path / "out.csv", form)
    cells = [line.split(",") for line in (tmp_path / "out.csv").read_text().splitlines()[1:]]
    written = np.array(cells, dtype=float)
    assert (written == prices).any(), "otherwise nothing was tried"
    assert {len(cell.partition(".")[2]) for row in cells for cell in row} == {2}
    assert written.tolist() == release.data.to_numpy().tolist()


def test_codes_keep_their_text_and_signs_do_not(tmp_path):
    (tmp_path / "in.csv").write_text("x\n-9\n-9\n-9\n+1.50\n2.50\n 3.00\n")
    frame, form = read_table(tmp_path / "in.csv")
    write_table(frame.with_columns(x=pl.Series([-9.0, -9.0, -9.0, 1.5, 3.0, 3.0])), tmp_path / "out.csv", form)
    assert (tmp_path / "out.csv").read_text() == "x\n-9\n-9\n-9\n1.5\n3\n3\n"
