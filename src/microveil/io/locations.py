"""Where tables are: a path, a sheet of a workbook, a table of a database. A password is never shown."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlencode

from microveil.core.errors import FileError, one_of

SCHEMES: Final = {"sqlite": "sqlite", "duckdb": "duckdb", "postgresql": "postgresql", "postgres": "postgresql"}
"""How addresses of databases begin, and what is behind it."""

WORKBOOKS: Final = (".xlsx",)

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


@dataclass(frozen=True)
class Database:
    """A table of a database: `sqlite:///firms.db#survey`. Its printed form has no password."""

    kind: str
    address: str = field(repr=False)
    table: str = field(repr=False)

    @property
    def file(self) -> Path | None:
        """The file of an embedded database: relative after three slashes, absolute after four."""
        return None if self.kind == "postgresql" else Path(unquote(self.address.partition("://")[2][1:]))

    @property
    def schema_and_name(self) -> tuple[str | None, str]:
        """`schema.table` in its parts; a name in double quotes may have a point in it."""
        parts = re.findall(r'"((?:[^"]|"")+)"|([^".]+)', self.table)
        names = [quoted.replace('""', '"') or plain for quoted, plain in parts]
        return (names[0], names[1]) if len(names) == 2 else (None, names[0] if len(names) == 1 else self.table)

    @property
    def name(self) -> str:
        """What reports call it."""
        return str(self)

    def __str__(self) -> str:
        if self.kind != "postgresql":
            return f"{self.address}#{self.table}" if self.table else self.address
        if "@" in self.table:  # what was taken for the table is the end of a password with a # in it, and a server
            return f"{self.address.partition('://')[0]}://..."
        address = _without_password(self.address)
        return f"{address}#{self.table}" if self.table else address


def _without_password(address: str) -> str:
    """The address of a server for people. All before the last @ goes but for the user: a password may hold anything."""
    scheme, _, rest = address.partition("://")
    before, _, options = rest.partition("?")
    user, at, host = before.rpartition("@")
    if not at and "@" in options:  # either of the two may have the password in it
        return f"{scheme}://..."
    said = [(key, value) for key, value in parse_qsl(options) if "password" not in key.lower()]
    user = re.split("[:/]", user)[0]
    return f"{scheme}://{user}{at}{host}" + (f"?{urlencode(said, safe='/')}" if said else "")


@dataclass(frozen=True)
class Sheet:
    """A sheet of a workbook: `firms.xlsx#Survey`."""

    path: Path
    sheet: str

    @property
    def name(self) -> str:
        """What reports call it."""
        return f"{self.path.name}#{self.sheet}"

    def __str__(self) -> str:
        return f"{self.path}#{self.sheet}"


Place = Path | Sheet | Database


def place_from(text: str | Place) -> Place:
    """A path, a sheet of a workbook, or a database where the text begins like an address."""
    if isinstance(text, Path | Sheet | Database):
        return text
    found = _SCHEME.match(text)
    if found is None:
        book, hash_, sheet = text.rpartition("#")
        return Sheet(Path(book), sheet) if hash_ and Path(book).suffix.lower() in WORKBOOKS else Path(text)
    scheme = found[1].lower()
    if scheme not in SCHEMES:
        raise FileError(f"addresses that begin with '{scheme}://' are not known", f"use a file, or {one_of(SCHEMES)}")
    address, _, table = text.rpartition("#") if "#" in text else (text, "", "")
    if SCHEMES[scheme] != "postgresql" and not address.partition("://")[2].startswith("/"):
        hint = f"write {scheme}:///folder/file.db#table, with three slashes"
        raise FileError(f"an address of {scheme} has no file", hint)
    return Database(SCHEMES[scheme], address, unquote(table))


def own_file(place: Place) -> Path | None:
    """The file that is this table and nothing else; none for a table in a database."""
    return None if isinstance(place, Database) else file_of(place)


def file_of(place: Place) -> Path | None:
    """The file on this machine in which the table is."""
    if isinstance(place, Database):
        return place.file
    return place.path if isinstance(place, Sheet) else place
