"""The PostgreSQL server that the tests of databases share."""

from collections.abc import Iterator

import pytest
from postgres import binaries, server


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The address of a database on a real server."""
    if binaries() is None:
        pytest.skip("no PostgreSQL server on this machine (Debian: apt-get install postgresql)")
    with server() as address:
        yield address
