"""Tables of databases come back as they were; a failure in the middle leaves everything as it was."""

import datetime as dt
import os
import sqlite3
import stat
import traceback
from decimal import Decimal
from pathlib import Path
from urllib.parse import quote

import duckdb
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from postgres import PASSWORD, USER, name

from microveil.core.errors import DataError, FileError, ParameterError
from microveil.io.locations import Database, place_from
from microveil.io.tables import FileFormat, ReadOptions, check_target, pending_table, read_table, write_table
from microveil.release import recipe as recipes

SENTINEL = "SECRET81234"
ROWS = [
    (1, 1500.5, "Ann", "10.50", True, dt.date(2020, 1, 31)),
    (2, None, "Bé", "0.05", False, None),
    (3, -2.25, None, None, None, dt.date(1999, 12, 31)),
    (4, 0.1, "", "12345678.90", True, dt.date(2024, 2, 29)),
    (5, 7.0, SENTINEL, "3.00", False, dt.date(2024, 3, 1)),
]
COLUMNS = {
    "id": "integer",
    "income": "double precision",
    "na me": "text",
    "price": "numeric(10,2)",
    "ok": "boolean",
    "day": "date",
}


class Sqlite:
    """A file of SQLite, by its own driver."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "firms.db"
        self.address = f"sqlite:///{self.file}"

    def run(self, statement: str, rows=()):
        with sqlite3.connect(self.file) as connection:
            cells = [[cell.isoformat() if isinstance(cell, dt.date) else cell for cell in row] for row in rows]
            found = connection.executemany(statement, cells) if rows else connection.execute(statement)
            result = found.fetchall()
        connection.close()
        return result

    def types(self, table: str) -> list[tuple[str, str]]:
        return [(name, kind) for _, name, kind, *_ in self.run(f'PRAGMA table_info("{table}")')]


class DuckDb:
    """A file of DuckDB, by its own driver."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "firms.duckdb"
        self.address = f"duckdb:///{self.file}"

    def run(self, statement: str, rows=()):
        with duckdb.connect(str(self.file)) as connection:
            if rows:
                connection.executemany(statement, [list(row) for row in rows])
                return []
            return connection.execute(statement).fetchall()

    def types(self, table: str) -> list[tuple[str, str]]:
        return [(name, kind) for name, kind, *_ in self.run(f'DESCRIBE "{table}"')]


class PostgreSql:
    """A real server, asked by statements of our own."""

    def __init__(self, address: str) -> None:
        self.address = address

    def run(self, statement: str, rows=()):
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(self.address) as connection, connection.cursor() as cursor:
            for row in rows or [None]:
                cursor.execute(statement if row is None else _filled(statement, row))
            found = cursor.fetchall() if cursor.description else []
            connection.commit()
        return found

    def types(self, table: str) -> list[tuple[str, str]]:
        return self.run(
            "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute "
            f"WHERE attrelid = to_regclass('\"{table}\"') AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        )


def _filled(statement: str, row) -> str:
    def literal(cell) -> str:
        return "NULL" if cell is None else "'" + str(cell).replace("'", "''") + "'"

    return statement[: statement.index("VALUES")] + f"VALUES ({', '.join(map(literal, row))})"


@pytest.fixture(params=["sqlite", "duckdb", "postgresql"])
def base(request, tmp_path):
    if request.param == "sqlite":
        return Sqlite(tmp_path)
    return DuckDb(tmp_path) if request.param == "duckdb" else PostgreSql(request.getfixturevalue("postgresql"))


def table(base, rows=ROWS) -> str:
    """A new table with the rows."""
    made = name()
    base.run(f'CREATE TABLE "{made}" ({", ".join(f"{quoted(n)} {kind}" for n, kind in COLUMNS.items())})')
    base.run(f'INSERT INTO "{made}" VALUES (?, ?, ?, ?, ?, ?)', rows)
    return made


def quoted(text: str) -> str:
    return f'"{text}"'


def refused(kind, action) -> str:
    """The message of an error, which holds no data and no password, not even in its traceback."""
    with pytest.raises(kind) as caught:
        action()
    error = caught.value
    assert "\n" not in str(error)
    assert error.hint
    chain = error
    while chain is not None:
        assert SENTINEL not in "".join(traceback.format_exception_only(chain))
        assert PASSWORD not in "".join(traceback.format_exception_only(chain))
        chain = chain.__cause__ or chain.__context__
    return str(error)


# There and back


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


# All or nothing


def test_an_existing_table_is_replaced_only_if_asked(base):
    source, target = table(base), table(base, ROWS[:2])
    frame, like = read_table(f"{base.address}#{source}")
    where = f"{base.address}#{target}"
    for action in (lambda: write_table(frame, where, like), lambda: check_target(where)):
        assert "exists already; name another table, or say --overwrite" in refused(FileError, action)
    assert len(base.run(f'SELECT * FROM "{target}"')) == 2
    check_target(where, replacing=True)
    write_table(frame, where, like, replacing=True)
    assert len(base.run(f'SELECT * FROM "{target}"')) == len(ROWS)


def test_the_source_is_no_target(base):
    source = table(base)
    where = place_from(f"{base.address}#{source}")
    assert "one of the inputs" in refused(FileError, lambda: check_target(where, [where], replacing=True))


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_failure_before_the_end_leaves_the_target_as_it_was(base, error):
    source, target = table(base), table(base, ROWS[:2])
    before = base.run(f'SELECT * FROM "{target}"')
    frame, like = read_table(f"{base.address}#{source}")

    def fail() -> None:
        with pending_table(frame, place_from(f"{base.address}#{target}"), like, replacing=True):
            raise error

    with pytest.raises(error):
        fail()
    assert base.run(f'SELECT * FROM "{target}"') == before
    assert base.types(target) == [(n, kind) for n, kind in base.types(source)]


def test_a_failure_in_the_middle_of_the_batches_leaves_the_target_as_it_was(base, monkeypatch):
    for module in ("base", "sqlite"):
        monkeypatch.setattr(f"microveil.io.databases.{module}.ROWS", 2)
    source, target = table(base), table(base, ROWS[:2])
    before = base.run(f'SELECT * FROM "{target}"')
    frame, like = read_table(f"{base.address}#{source}")
    plain, taken = pl.DataFrame.to_arrow, []

    def breaks(self, *args, **options):
        taken.append(self.height)
        if taken.count(2) == 2:  # the second batch
            raise RuntimeError
        return plain(self, *args, **options)

    class Cells(list):
        def __getitem__(self, place):
            if isinstance(place, slice) and place.start == 2:
                raise RuntimeError
            return super().__getitem__(place)

    monkeypatch.setattr(pl.DataFrame, "to_arrow", breaks)
    monkeypatch.setattr("microveil.io.databases.sqlite._cells", lambda column, _: Cells(column.to_list()))
    with pytest.raises((RuntimeError, FileError)):
        write_table(frame, f"{base.address}#{target}", like, replacing=True)
    monkeypatch.undo()
    assert base.run(f'SELECT * FROM "{target}"') == before
    refused(FileError, lambda: write_table(frame, f"{base.address}#{target}", like))  # it can still be reached


def test_a_file_that_is_new_is_private_until_it_is_whole_and_gone_if_it_fails(tmp_path):
    frame = pl.DataFrame({"x": [1.5, 2.5]})
    for kind in ("sqlite", "duckdb"):
        file = tmp_path / f"new.{kind}"
        where = Database(kind, f"{kind}:///{file}", "made")

        def fail(where=where, file=file) -> None:
            with pending_table(frame, where, FileFormat("csv")):
                assert stat.S_IMODE(file.stat().st_mode) == 0o600
                raise RuntimeError

        with pytest.raises(RuntimeError):
            fail()
        assert list(tmp_path.iterdir()) == []
        mask = os.umask(0o027)
        write_table(frame, where, FileFormat("csv"))
        os.umask(mask)
        assert stat.S_IMODE(file.stat().st_mode) == 0o640
        assert [path.name for path in tmp_path.iterdir()] == [file.name]
        file.unlink()


# Refusals


def test_tables_that_are_not_there(base):
    made = table(base)
    message = refused(FileError, lambda: read_table(f"{base.address}#{made}x"))
    assert "there is no table" in message
    assert f"did you mean '{made}'" in message
    message = refused(FileError, lambda: read_table(base.address))
    assert "names no table" in message
    query = ReadOptions(query="SELECT 1 AS x")
    assert "beside the query" in refused(FileError, lambda: read_table(f"{base.address}#{made}", query))
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


# The server itself


def test_postgresql_refuses_in_our_words(postgresql):
    wrong = postgresql.replace(PASSWORD, "wr0ng" + PASSWORD)
    message = refused(FileError, lambda: read_table(f"{wrong}#firms"))
    assert "password" in message
    assert "wr0ng" not in message
    nowhere = postgresql.replace("host=/tmp", "host=/nowhere")
    assert "cannot be reached" in refused(FileError, lambda: read_table(f"{nowhere}#firms"))
    missing = postgresql.replace("/postgres?", "/nix?")
    refused(FileError, lambda: read_table(f"{missing}#firms"))


def test_types_of_postgresql_that_arrow_does_not_have_come_back(postgresql):
    base, source, target = PostgreSql(postgresql), name(), name()
    base.run(f"CREATE TYPE size_{source} AS ENUM ('small', 'large')")
    base.run(
        f"CREATE TABLE {source} AS SELECT 'small'::size_{source} AS size, 12.345::numeric AS n, 7::numeric(5,0) AS m, "
        "'{\"a\": 1}'::jsonb AS j, '{1,2}'::int[] AS l, '1 day 2:03'::interval AS i, '10:30'::time AS t, "
        "'2020-01-31 12:00+02'::timestamptz AS z, 'abc'::varchar(7) AS v, 'x'::char(3) AS c, 1.5::real AS r, "
        "'7d444840-9dc0-11d1-b245-5ffdce74fad2'::uuid AS u, '\\x01ff'::bytea AS b, 12::smallint AS k"
    )
    frame, like = read_table(f"{postgresql}#{source}")
    assert frame["n"].to_list() == [12.345]
    assert frame["m"].to_list() == [7]
    write_table(frame, f"{postgresql}#{target}", like)
    assert base.types(target) == base.types(source)
    assert base.run(f"SELECT count(*) FROM {source} JOIN {target} USING (size, n, m, j, l, i, t, z, v, c, r, u, b, k)")[
        0
    ] == (1,)


def test_a_value_that_the_server_refuses_leaves_the_old_table(postgresql):
    base, source, target = (
        PostgreSql(postgresql),
        table(PostgreSql(postgresql)),
        table(PostgreSql(postgresql), ROWS[:2]),
    )
    frame, like = read_table(f"{postgresql}#{source}")
    dates = frame.with_columns(pl.Series("day", [dt.date(2020, 1, 1)] * 4 + [None]))
    broken = like.source_format.columns["day"]
    kinds = {
        **like.source_format.columns,
        "day": type(broken)("integer", broken.seen, None),
    }  # no cast from date to integer
    like = FileFormat(like.name, "", type(like.source_format)(kinds))
    message = refused(FileError, lambda: write_table(dates, f"{postgresql}#{target}", like, replacing=True))
    assert "cannot be written" in message
    assert len(base.run(f'SELECT * FROM "{target}"')) == 2


def test_a_connection_that_is_cut_leaves_the_old_table(postgresql):
    base, source = PostgreSql(postgresql), table(PostgreSql(postgresql))
    target = table(base, ROWS[:2])
    frame, like = read_table(f"{postgresql}#{source}")

    def cut() -> None:
        with pending_table(frame, place_from(f"{postgresql}#{target}"), like, replacing=True):
            base.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'")

    assert "cannot be written" in refused(FileError, cut)
    assert len(base.run(f'SELECT * FROM "{target}"')) == 2


def test_a_view_that_depends_on_the_target_is_respected(postgresql):
    base, source, target = PostgreSql(postgresql), table(PostgreSql(postgresql)), name()
    base.run(f"CREATE TABLE {target} AS SELECT 1 AS x")
    base.run(f"CREATE VIEW v_{target} AS SELECT * FROM {target}")
    frame, like = read_table(f"{postgresql}#{source}")
    message = refused(FileError, lambda: write_table(frame, f"{postgresql}#{target}", like, replacing=True))
    assert "depend on the table" in message
    assert base.run(f"SELECT * FROM v_{target}") == [(1,)]


def test_decimals_of_duckdb_are_exact(tmp_path):
    base = DuckDb(tmp_path)
    base.run("CREATE TABLE a AS SELECT 12345678901234567.89::DECIMAL(19,2) AS d, 2::HUGEINT AS h, [1, 2] AS l")
    frame, like = read_table(f"{base.address}#a")
    write_table(frame, f"{base.address}#b", like)
    assert base.run("SELECT * FROM b") == [(Decimal("12345678901234567.89"), 2, [1, 2])]
    assert base.types("a") == base.types("b")


def test_a_query_of_duckdb_reaches_no_other_file(tmp_path):
    base = DuckDb(tmp_path)
    base.run("CREATE TABLE a AS SELECT 1 AS x")
    (tmp_path / "other.csv").write_text(f"x\n{SENTINEL}\n")
    query = ReadOptions(query=f"SELECT * FROM read_csv('{tmp_path}/other.csv')")
    refused(FileError, lambda: read_table(base.address, query))


@pytest.mark.parametrize("bad", [2, 300_000])
def test_a_cell_that_a_query_of_duckdb_cannot_convert_is_not_quoted(bad, tmp_path):
    """Neither in the first rows nor in later ones, which come by way of Arrow."""
    base = DuckDb(tmp_path)
    words = f"CASE WHEN i = {bad} THEN '{SENTINEL}' ELSE '7' END AS word"
    base.run(f"CREATE TABLE a AS SELECT {words} FROM range({bad + 10}) t(i)")
    query = ReadOptions(query="SELECT CAST(word AS INTEGER) AS x FROM a")
    assert "a cell is not of the type" in refused(FileError, lambda: read_table(base.address, query))
    assert "a column that is not there" in refused(
        FileError, lambda: read_table(base.address, ReadOptions(query="SELECT nix FROM a"))
    )


def test_a_query_of_sqlite_writes_nothing_at_all(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base = Sqlite(tmp_path)
    base.run("CREATE TABLE a (word TEXT)")
    base.run("INSERT INTO a VALUES (?)", [(SENTINEL,), ("b",)])
    for statement in (
        "VACUUM INTO 'copy.db'",
        "ATTACH 'new.db' AS n",
        "DELETE FROM a",
        "PRAGMA journal_mode = WAL",
        "CREATE TEMP TABLE b AS SELECT * FROM a",
        "SELECT load_extension('x.so')",
    ):
        message = refused(FileError, lambda statement=statement: read_table(base.address, ReadOptions(query=statement)))
        assert "only reading is allowed" in message
    assert [path.name for path in tmp_path.iterdir()] == ["firms.db"]
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3)"
    query = ReadOptions(query=f"{numbers} SELECT i, upper(word) AS w FROM n, a")
    assert read_table(base.address, query)[0].height == 6


def test_sqlite_says_in_our_words_what_is_wrong_with_a_query(tmp_path):
    base = Sqlite(tmp_path)
    base.run("CREATE TABLE a (word TEXT)")
    base.run("INSERT INTO a VALUES (?)", [(SENTINEL,)])
    said = {
        "SELECT wrod FROM a": "names a column that is not there",
        "SELECT word FROM b": "names a table that is not there",
        "SELECT nix(word) FROM a": "uses a function that is not there",
        "SELEC word FROM a": "is not valid SQL",
        "SELECT word FROM a; SELECT 1": "a query is one statement",
    }
    for statement, expected in said.items():
        query = ReadOptions(query=statement)
        assert expected in refused(FileError, lambda query=query: read_table(base.address, query))


@pytest.mark.parametrize("declared", ["TEXT, evil TEXT", "TEXT DEFAULT 5", "INTEGER PRIMARY KEY", "x) AS SELECT (1"])
def test_what_is_declared_in_sqlite_is_taken_for_a_type_only_if_it_is_one(declared, tmp_path):
    base = Sqlite(tmp_path)
    base.run(f'CREATE TABLE a (n "{declared}", m UNSIGNED BIG INT, d DECIMAL(10, 2))')
    base.run("INSERT INTO a VALUES (?, ?, ?)", [("b", 1, 2.5), ("b", 2, 1.5)])
    frame, like = read_table(f"{base.address}#a")
    write_table(frame, f"{base.address}#b", like)
    assert base.types("b") == [("n", "TEXT"), ("m", "UNSIGNED BIG INT"), ("d", "DECIMAL(10, 2)")]
    assert base.run("SELECT * FROM a") == base.run("SELECT * FROM b")


def test_cells_of_sqlite_keep_the_types_of_their_own(tmp_path):
    base = Sqlite(tmp_path)
    base.run("CREATE TABLE a (x, y INTEGER, z TEXT)")
    base.run("INSERT INTO a VALUES (?, ?, ?)", [(1, 1, "a"), (2.5, "NA", None), ("", 3, "1"), (None, 2**60, "")])
    frame, like = read_table(f"{base.address}#a")
    assert frame["x"].to_list() == [1.0, 2.5, None, None]
    assert frame["y"].to_list() == [1, None, 3, 2**60]
    write_table(frame, f"{base.address}#b", like)
    assert base.run("SELECT *, typeof(x), typeof(y) FROM a") == base.run("SELECT *, typeof(x), typeof(y) FROM b")
    write_table(frame.with_columns(pl.col("y") + 1), f"{base.address}#c", like)
    assert base.run("SELECT y FROM c") == [(2,), ("NA",), (4,), (2**60 + 1,)]


@pytest.mark.slow
def test_the_command_line_from_server_to_server_shows_no_password(postgresql, tmp_path, capsys):
    from microveil.cli.main import main

    base, source, target = PostgreSql(postgresql), name(), name()
    base.run(
        f"CREATE TABLE {source} AS SELECT n AS id, (100 + 10 * sin(n * n))::numeric(10,4) AS wages, "
        "(200 + 20 * cos(n * 3 + sin(n)))::double precision AS turnover FROM generate_series(1, 80) AS n"
    )
    files = {word: tmp_path / word for word in ("internal.html", "public.html", "recipe.toml")}
    command = ["protect", f"{postgresql}#{source}", "-o", f"{postgresql}#{target}", "--method", "pca"]
    command += ["--confidential", "wages,turnover", "--keep", "id", "--report", str(files["internal.html"])]
    command += ["--public-report", str(files["public.html"]), "--save-recipe", str(files["recipe.toml"])]
    with pytest.raises(SystemExit) as ended:
        main(command)
    printed = capsys.readouterr()
    assert ended.value.code == 0, printed.err
    assert base.run(f"SELECT id FROM {target}") == [(n,) for n in range(1, 81)]
    means = f"SELECT avg(turnover), avg(wages)::double precision FROM {source}"
    assert base.run(means.replace(source, target))[0] == pytest.approx(base.run(means)[0], rel=1e-12)
    assert PASSWORD not in printed.out + printed.err
    written = list(tmp_path.iterdir())
    assert len(written) == 5
    assert not [path for path in written if PASSWORD in path.read_text(encoding="utf-8")]
