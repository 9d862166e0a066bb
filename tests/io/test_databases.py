"""Tables of databases come back as they were, and what is no table is refused."""

import datetime as dt
from urllib.parse import quote

import polars as pl
from polars.testing import assert_frame_equal
from postgres import PASSWORD, USER, name
from table_bases import COLUMNS, ROWS, SENTINEL, refused, table

from microveil.core.errors import DataError, FileError, ParameterError
from microveil.io.locations import Database, place_from
from microveil.io.tables import FileFormat, ReadOptions, check_target, read_table, write_table
from microveil.release import recipe as recipes


def test_a_table_comes_back_as_it_was(base):
    source, target = table(base), name()
    frame, like = read_table(f"{base.address}#{source}")
    assert frame.columns == list(COLUMNS)
    assert frame["income"].to_list() == [row[1] for row in ROWS]
    assert frame["price"].to_list() == [10.5, 0.05, None, 12345678.9, 3.0]
    write_table(frame, f"{base.address}#{target}", like)
    assert base.run(f'SELECT * FROM "{target}"') == base.run(f'SELECT * FROM "{source}"')
    assert base.types(target) == base.types(source)


def test_a_changed_column_leaves_the_others_as_they_were(base):
    source, target = table(base), name()
    frame, like = read_table(f"{base.address}#{source}")
    write_table(frame.with_columns(pl.col("income") * 2, pl.col("price") * 3), f"{base.address}#{target}", like)
    assert base.types(target)[:3] == base.types(source)[:3]
    rest = 'SELECT id, "na me", ok, day FROM'
    assert base.run(f'{rest} "{target}"') == base.run(f'{rest} "{source}"')
    found = base.run(f'SELECT income, price FROM "{target}"')
    assert [income for income, _ in found] == [None if row[1] is None else 2 * row[1] for row in ROWS]
    tripled = [None if row[3] is None else 3 * float(row[3]) for row in ROWS]
    assert [None if price is None else float(price) for _, price in found] == tripled


def test_digits_that_a_type_would_cut_are_kept_by_another(base):
    source, target = table(base), name()
    frame, like = read_table(f"{base.address}#{source}")
    thirds = frame.with_columns(pl.col("price") / 3)
    write_table(thirds, f"{base.address}#{target}", like)
    back, _ = read_table(f"{base.address}#{target}")
    assert_frame_equal(back.select("price"), thirds.select("price"), check_exact=True)


def test_whole_numbers_that_become_fractions_get_their_type(base):
    source, target = table(base), name()
    frame, like = read_table(f"{base.address}#{source}")
    halves = frame.with_columns(pl.col("id") / 4)
    write_table(halves, f"{base.address}#{target}", like)
    assert read_table(f"{base.address}#{target}")[0]["id"].to_list() == [0.25, 0.5, 0.75, 1.0, 1.25]


def test_rows_keep_their_order_over_many_batches(base, monkeypatch):
    for module in ("base", "sqlite"):
        monkeypatch.setattr(f"microveil.io.databases.{module}.ROWS", 7)
    frame = pl.DataFrame({"i": range(1000), "x": [n * 0.1 for n in range(1000)]})
    made = name()
    write_table(frame, f"{base.address}#{made}", FileFormat("csv"))
    back, _ = read_table(f"{base.address}#{made}")
    assert_frame_equal(back, frame, check_exact=True)


def test_a_query_is_read_and_may_only_read(base):
    source = table(base)
    query = ReadOptions(
        query=f'SELECT income AS x, price FROM "{source}" WHERE income IS NOT NULL ORDER BY income DESC'
    )
    frame, like = read_table(base.address, query)
    assert frame["x"].to_list() == [1500.5, 7.0, 0.1, -2.25]
    target = name()
    write_table(frame, f"{base.address}#{target}", like)
    assert_frame_equal(read_table(f"{base.address}#{target}")[0], frame)
    for statement in (f'DROP TABLE "{source}"', f'DELETE FROM "{source}"', f"SELECT {SENTINEL} FROM nowhere"):
        refused(FileError, lambda statement=statement: read_table(base.address, ReadOptions(query=statement)))
    assert len(base.run(f'SELECT * FROM "{source}"')) == len(ROWS)


def test_files_go_into_databases_and_back(base, tmp_path):
    frame = pl.DataFrame(
        {
            "i": pl.Series([1, None, 3], dtype=pl.Int16),
            "x": [0.5, 1.5, float("nan")],
            "s": pl.Series(["a", None, "b"], dtype=pl.Categorical),
            "b": [True, None, False],
            "d": [dt.date(2020, 1, 31), None, dt.date(1999, 1, 1)],
            "t": [dt.datetime(2020, 1, 31, 12, 30), None, dt.datetime(1999, 1, 1)],
            "u": pl.Series([1, None, 200], dtype=pl.UInt8),
            "w": pl.Series([1, None, 2**53 + 1], dtype=pl.UInt64),
            "c": [dt.time(12, 30), None, dt.time(1, 2, 3)],
            "e": pl.Series([1, None, 2], dtype=pl.Decimal(9, 2)),
            "r": [b"\x01\xff", None, b""],
        }
    )
    frame.write_parquet(tmp_path / "in.parquet")
    source, like = read_table(tmp_path / "in.parquet")
    made = name()
    check_target(f"{base.address}#{made}", frame=source)
    write_table(source, f"{base.address}#{made}", like)
    back, form = read_table(f"{base.address}#{made}")
    assert back["i"].to_list() == [1, None, 3]
    assert back["x"].to_list() == [0.5, 1.5, None]
    assert back["s"].to_list() == ["a", None, "b"]
    assert [None if cell is None else str(cell) for cell in back["d"]] == ["2020-01-31", None, "1999-01-01"]
    assert back["u"].to_list() == [1, None, 200]
    assert back["w"].to_list() == [1, None, 2**53 + 1]
    assert [None if cell is None else str(cell)[:8] for cell in back["c"]] == ["12:30:00", None, "01:02:03"]
    assert back["e"].to_list() == [1, None, 2]
    assert back["r"].to_list() == [b"\x01\xff", None, b""]
    write_table(back.drop("r"), tmp_path / "out.csv", form)
    assert (tmp_path / "out.csv").read_text().startswith("i,x,s,b,d,t,u,w,c,e\n1,0.5,a,")
    lists = pl.DataFrame({"x": [[1]]})
    assert "cannot hold column 'x'" in refused(FileError, lambda: check_target(f"{base.address}#{made}x", frame=lists))


ODD = ["*", "a b", "a,b", "a;b", "a.b", "0", "select", 'q"q', "`x`", " pad", "%s", "{x}", "[1]", "ä"]


def test_columns_may_have_odd_names(base, tmp_path):
    counts = pl.Series("*", [1, 2, 200], dtype=pl.UInt8)
    frame = pl.DataFrame([counts, *(pl.Series(name, [0.1, 2.5, 1 / 3]) for name in ODD[1:])])
    frame.write_parquet(tmp_path / "in.parquet")
    source, like = read_table(tmp_path / "in.parquet")
    made = name()
    write_table(source, f"{base.address}#{made}", like)
    back, _ = read_table(f"{base.address}#{made}")
    assert back.columns == ODD
    assert back["*"].to_list() == [1, 2, 200]
    assert [back[name].to_list() for name in ODD[1:]] == [[0.1, 2.5, 1 / 3]] * (len(ODD) - 1)
    base.run('CREATE TABLE "empty" (x integer)')
    assert "has no rows" in refused(DataError, lambda: read_table(f"{base.address}#empty"))
    base.run('DROP TABLE "empty"')
    base.run('CREATE TABLE "patterns" ("^x$" integer)')
    base.run('INSERT INTO "patterns" VALUES (1)')
    said = refused(DataError, lambda: read_table(f"{base.address}#patterns"))
    base.run('DROP TABLE "patterns"')
    assert "'^x$' has a name that polars takes for a pattern; rename it" in said


def test_tables_that_are_not_there(base):
    made = table(base)
    message = refused(FileError, lambda: read_table(f"{base.address}#{made}x"))
    assert "there is no table" in message
    assert f"did you mean '{made}'" in message
    message = refused(FileError, lambda: read_table(base.address))
    assert "names no table" in message
    query = ReadOptions(query="SELECT 1 AS x")
    assert "and there is a query" in refused(FileError, lambda: read_table(f"{base.address}#{made}", query))
    assert "--delimiter" in refused(
        ParameterError, lambda: read_table(f"{base.address}#{made}", ReadOptions(delimiter=","))
    )
    assert "names no table" in refused(FileError, lambda: check_target(base.address))


def test_what_is_no_database(tmp_path):
    (tmp_path / "bad.db").write_text(SENTINEL * 99)
    for kind in ("sqlite", "duckdb"):
        assert "it is no database of" in refused(
            FileError, lambda kind=kind: read_table(f"{kind}:///{tmp_path}/bad.db#t")
        )
        assert "no file" in refused(FileError, lambda kind=kind: read_table(f"{kind}:///{tmp_path}/no.db#t"))
        assert "no folder" in refused(FileError, lambda kind=kind: check_target(f"{kind}:///{tmp_path}/no/no.db#t"))
    assert "three slashes" in refused(FileError, lambda: place_from("sqlite://firms.db#t"))
    assert "'mysql://' are not known" in refused(FileError, lambda: place_from("mysql://a:b@c/d#t"))


def test_a_password_is_never_shown():
    for address in (
        f"postgresql://{USER}:{PASSWORD}@localhost:5432/survey?sslmode=require#firms",
        f"postgres://{USER}:{quote(PASSWORD + '@#/')}@localhost/survey#firms",
        f"postgresql://localhost/survey?user={USER}&password={PASSWORD}&sslpassword={PASSWORD}#firms",
        f"postgresql://localhost/survey?password=x@{PASSWORD}#firms",
        f"postgresql://{USER}:x?{PASSWORD}@localhost/survey#firms",
        f"postgresql://{USER}:x/{PASSWORD}@localhost/survey#firms",
    ):
        place = place_from(address)
        assert isinstance(place, Database)
        assert place.table == "firms"
        for shown in (str(place), repr(place), place.name, f"{place}", repr({"a": place}), str(FileFormat("x"))):
            assert PASSWORD not in shown
        assert str(place).endswith("#firms")
    for address in (
        f"postgresql://{USER}:pa#{PASSWORD}@localhost/survey",
        f"postgres://{USER}:{PASSWORD}#x@localhost/s",
    ):
        place = place_from(address)
        for shown in (str(place), repr(place), place.name):
            assert PASSWORD not in shown, "a # that is not escaped ends the address there"
        asked = recipes.read({"recipe": 1, "method": "noise", "input": {"path": address}, "output": {"path": address}})
        assert PASSWORD not in repr(asked)
    assert str(place_from(f"postgresql://{USER}:x@host:1/db#t")) == f"postgresql://{USER}@host:1/db#t"


def test_schemas_and_odd_names():
    for text, expected in (
        ("firms", (None, "firms")),
        ("survey.firms", ("survey", "firms")),
        ('"a.b"', (None, "a.b")),
        ('"s x"."a""b"', ("s x", 'a"b')),
    ):
        assert place_from(f"postgresql://host/db#{quote(text)}").schema_and_name == expected
