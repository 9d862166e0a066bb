"""How a CSV file was written: its separator and decimal sign, its encoding, and which cells are in quotes.

The encoding is found where the bytes prove it, said otherwise.

A file that is not UTF-8 and has no mark in front is read as cp1252, of which Latin-1 is a part. Where the bytes are
in another one-byte code page, names may look odd, but every byte comes back as it was. Libraries that guess the code
page by the letters take a few Western names for cp1250 or worse, and need seconds for a file of some megabytes.

In quotes are the cells that must be, all cells, or all text, as R writes it: the records show what a file does, and the
release does the same.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from microveil.core.errors import FileError, ParameterError
from microveil.core.late import pl
from microveil.io.files.formats import MISSING, FileFormat
from microveil.storage.atomic import shown

SEPARATORS: Final = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}
_MARKS: Final = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_UTF8_LETTER: Final = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_NOT_IN_CP1252: Final = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")
_SAY: Final = "say which encoding it is with --encoding, or save it again as 'CSV UTF-8'"
_NULLS: Final = "if it is UTF-16, say --encoding utf-16; else export it again, it may be damaged"


@dataclass(frozen=True)
class Encoding:
    """How text became bytes; `bom`: whether a mark in front says so, as Windows programs write it."""

    name: str = "utf-8"
    bom: bool = False

    @property
    def description(self) -> str:
        """`UTF-8 with a mark`, for people."""
        name = self.name.upper() if self.name.startswith("utf") else self.name
        return f"{name} with a mark" if self.bom else name

    @property
    def mark(self) -> bytes:
        """The bytes in front."""
        return next((mark for mark, name in _MARKS.items() if self.bom and name == self.name), b"")

    def bytes_of(self, text: bytes, path: Path) -> bytes:
        """UTF-8 text in this encoding, with its mark."""
        failed = False
        try:
            text = text.decode().encode(self.name)
        except UnicodeEncodeError:
            failed = True  # raised out here: the codec's own error holds the text
        if failed:
            problem = f"{shown(path)} cannot be written: a character has no place in {self.name}"
            raise FileError(problem, "write a .parquet file, or read the source with --encoding utf-8")
        return self.mark + text


def known_encoding(name: str) -> str:
    """The plain name of an encoding that the user gave."""
    try:
        found = codecs.lookup(name)
    except (LookupError, ValueError):  # ValueError: a null character
        found = None
    if found is None or not getattr(found, "_is_text_encoding", True):
        problem = f"encoding: {shown(name)} is not known"
        raise ParameterError(problem, "for example utf-8, cp1252, latin-1, utf-16 or cp1250")
    return {"iso8859-1": "latin-1", "utf-8-sig": "utf-8", "utf-16": "utf-16-le"}.get(found.name, found.name)


def as_utf8(data: bytes, path: Path, encoding: str | None) -> tuple[bytes, Encoding]:
    """The bytes of a text as UTF-8 without a mark (no copy where they are that already), and what they were."""
    mark = next((mark for mark in _MARKS if data.startswith(mark)), b"")
    given = None if encoding is None else known_encoding(encoding)
    if mark and given is not None and _MARKS[mark][:6] != given[:6]:
        mark = b""  # the user knows better
    name = _MARKS[mark] if mark else given or _found(data, path)
    text = data[len(mark) :] if mark else data
    bad = _first_undecodable(text, name) if mark or given else None
    if bad is not None:
        raise FileError(f"{shown(path)} is not {Encoding(name).description} text (line {_line(text, bad)})", _SAY)
    if name != "utf-8":
        text = text.decode(name).encode()
    null = text.find(b"\0")
    if null >= 0:
        raise FileError(f"{shown(path)} has a null byte on line {_line(text, null)}", _NULLS)
    return text, Encoding(name, bool(mark))


def _found(data: bytes, path: Path) -> str:
    """What text without a mark is in; an error where its bytes contradict each other."""
    bad = _first_undecodable(data, "utf-8")
    if bad is None:
        return "utf-8"
    line = _line(data, bad)
    if b"\0" in data:
        raise FileError(f"{shown(path)} is not UTF-8 text (line {line}), and has null bytes", _NULLS)
    if _UTF8_LETTER.search(data):
        raise FileError(f"{shown(path)} is UTF-8 in some lines, but is not UTF-8 text in line {line}", _SAY)
    if _NOT_IN_CP1252.search(data):
        raise FileError(f"{shown(path)} is not UTF-8 text (line {line}), nor cp1252", _SAY)
    return "cp1252"


def _line(data: bytes, position: int) -> int:
    return data.count(b"\n", 0, position) + 1


def _first_undecodable(data: bytes, name: str) -> int | None:
    """Where the text stops being what it should. The decoder's own error holds the data, so it does not get out."""
    if name == "utf-8" and data.isascii():
        return None
    decoder = codecs.getincrementaldecoder(name)()
    size = 2**24  # in pieces: the whole text would take up to four times the file
    for start in range(0, len(data), size):
        held = len(decoder.getstate()[0])
        try:
            decoder.decode(data[start : start + size], final=start + size >= len(data))
        except UnicodeDecodeError as error:
            return start - held + error.start
    return None


SAMPLED_BYTES: Final = 2**16
"""Bytes of a file by which its quoting is judged."""

_TOKENS: Final = {token.encode() for token in MISSING}


@dataclass(frozen=True)
class Quoting:
    """Which columns are quoted, by name; whether the names are; whether an empty cell is `""`; whether NA is bare."""

    columns: Mapping[str, bool] = field(default_factory=dict)
    names: bool = False
    empty: bool = False
    bare_missing: bool = False

    @property
    def description(self) -> str:
        """`all cells quoted`; nothing for what is usual."""
        if not any(self.columns.values()):
            return ""
        return "all cells quoted" if all(self.columns.values()) else "text quoted"

    def wants(self, name: str, *, text: bool) -> bool:
        """Whether all cells of a column are in quotes; a column that is new does as the others of its kind."""
        usual = any(self.columns.values()) and (text or all(self.columns.values()))
        return self.columns.get(name, usual)


def find_quoting(names: Sequence[str], header: bytes, records: bytes, separator: str) -> Quoting:
    """How a file quotes, by the bytes of its `header` and of its first `records`; `names` are those of its columns."""
    if b'"' not in header and b'"' not in records:
        return Quoting()
    quoted_names = all(cell.startswith(b'"') for cell in _cells(header, separator))
    cells = _cells(records, separator)
    del cells[len(cells) - len(cells) % len(names) :]
    if len(records) == SAMPLED_BYTES:
        del cells[-len(names) :]  # which may be cut
    columns = {name: cells[place :: len(names)] for place, name in enumerate(names)}
    flat = [cell for cell in cells if cell != b'""']
    if not any(cell.startswith(b'"') and _needless(cell, separator) for cell in flat):  # the others had to be
        return Quoting(names=quoted_names and any(_needless(cell, separator) for cell in _cells(header, separator)))
    return Quoting(
        {name: _is_quoted(column) for name, column in columns.items()},
        quoted_names,
        b'""' in cells,
        any(cell and cell in _TOKENS for cell in cells),
    )


def _is_quoted(cells: Sequence[bytes]) -> bool:
    """Whether every cell of a column is, but for empty ones and words for missing."""
    bare = [cell for cell in cells if not cell.startswith(b'"')]
    return any(cell.startswith(b'"') and cell != b'""' for cell in cells) and all(c.strip() in _TOKENS for c in bare)


def _cells(text: bytes, separator: str) -> list[bytes]:
    """Raw cells with their quotes. Empty lines are none."""
    mark = re.escape(separator.encode())
    plain = rb"[^" + mark + rb"\r\n]*"
    pattern = re.compile(rb'("(?:[^"]|"")*"?' + plain + rb"|" + plain + rb")(" + mark + rb"|\r\n|\r|\n|$)")
    found, position, ended = [], 0, True
    while position < len(text):
        match = pattern.match(text, position)
        if match is None:
            break
        position = match.end()
        ends = match[2] != separator.encode()
        if match[1] or not (ended and ends):
            found.append(match[1])
        ended = ends
    return found


def _needless(cell: bytes, separator: str) -> bool:
    return not any(mark in cell[1:-1] for mark in (separator.encode(), b'"', b"\n", b"\r"))


def quoted_cells(cells: pl.DataFrame, numbers: Collection[str], quoting: Quoting, separator: str) -> pl.DataFrame:
    """The `cells` as text, in quotes as `quoting` says or a `separator` asks; `numbers` are columns of numbers."""

    def quoted(name: str) -> pl.Expr:
        text = pl.selectors.by_name(name).as_expr().cast(pl.String)  # pl.col takes names such as * for patterns
        needed = text.str.contains_any([separator, '"', "\n", "\r"])
        wanted = needed
        if quoting.wants(name, text=name not in numbers):
            is_word = text.is_in([token for token in MISSING if token])
            wanted = needed | ~is_word if quoting.bare_missing else pl.lit(value=True)
        within = pl.format('"{}"', text.str.replace_all('"', '""', literal=True))
        empty = '""' if quoting.empty or cells.width == 1 else ""
        return pl.when(wanted).then(within).otherwise(text).fill_null(empty).alias(name)

    return cells.select(quoted(name) for name in cells.columns)


@dataclass(frozen=True, kw_only=True)
class Dialect(FileFormat):
    """How a CSV file was written. Of columns of numbers the text is kept (`Original`)."""

    separator: str = ","
    line_ending: str = "\n"
    decimal: str = "."
    encoding: Encoding = field(default_factory=Encoding)
    quoting: Quoting = field(default_factory=Quoting)

    @property
    def description(self) -> str:
        """`semicolon, decimal comma, cp1252`."""
        quotes = f", {self.quoting.description}" if self.quoting.description else ""
        word = {".": "point", ",": "comma"}[self.decimal]
        return f"{SEPARATORS[self.separator][2:]}, decimal {word}, {self.encoding.description}{quotes}"

    @property
    def is_plain(self) -> bool:
        """Whether it is what everybody expects, so that nothing has to be said."""
        return (self.separator, self.decimal, self.encoding.name) == (",", ".", "utf-8")

    def text_of(self, name: str) -> pl.Series | None:
        """The cells of a column of numbers as they were written."""
        return self.columns[name].text if name in self.columns else None
