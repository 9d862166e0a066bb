"""What PostgreSQL, DuckDB and SQLite have each for itself."""

import datetime as dt
from dataclasses import replace
from decimal import Decimal

import polars as pl
import pytest
from postgres import PASSWORD, name
from table_bases import ROWS, SENTINEL, DuckDb, PostgreSql, Sqlite, refused, table

from microveil.core.errors import FileError
from microveil.io.locations import place_from
from microveil.io.tables import ReadOptions, pending_table, read_table, write_table


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
    broken = like.columns["day"]
    kinds = {
        **like.columns,
        "day": type(broken)("integer", broken.seen, None),
    }  # no cast from date to integer
    like = replace(like, columns=kinds)
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
