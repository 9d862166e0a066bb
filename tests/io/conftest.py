"""The PostgreSQL server that the tests of databases share."""

from collections.abc import Iterator

import pytest
from postgres import binaries, server
from table_bases import DuckDb, PostgreSql, Sqlite


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The address of a database on a real server."""
    if binaries() is None:
        pytest.skip("no PostgreSQL server on this machine (Debian: apt-get install postgresql)")
    with server() as address:
        yield address


@pytest.fixture(params=["sqlite", "duckdb", "postgresql"])
def base(request, tmp_path):
    if request.param == "sqlite":
        return Sqlite(tmp_path)
    return DuckDb(tmp_path) if request.param == "duckdb" else PostgreSql(request.getfixturevalue("postgresql"))
