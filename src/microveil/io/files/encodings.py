"""In which encoding a text file was written: found where the bytes prove it, said otherwise.

A file that is not UTF-8 and has no mark in front is read as cp1252, of which Latin-1 is a part. Where the bytes are
in another one-byte code page, names may look odd, but every byte comes back as it was. Libraries that guess the code
page by the letters take a few Western names for cp1250 or worse, and need seconds for a file of some megabytes.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from microveil.core.errors import FileError, ParameterError
from microveil.storage.atomic import shown

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
