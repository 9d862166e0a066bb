"""The row of a text file that has the names of its columns: where it is, and by which sign it is split."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final

from microveil.core.errors import FileError, one_of
from microveil.io.files.dialect import SAMPLED_BYTES, SEPARATORS
from microveil.io.files.formats import ReadOptions, check_names, looks_like_record
from microveil.io.files.layout import LOOKED_AT, find_header, is_filled
from microveil.storage.atomic import shown

_LINE: Final = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)?")
_INK: Final = re.compile(rb"\S")
_TRIED: Final = 100  # records by which separators that split the header alike are distinguished
NAMELESS: Final = "\x01column "
"""Begins what stands for the name of a column that has none, and must be empty."""

ROW_NAMES: Final = "row_names"
"""What a first column without a name is called: R and pandas write the names, or the numbers, of rows so."""

ROW_NAMES_SAID: Final = f"the first column has no name: it is called '{ROW_NAMES}'"


@dataclass(frozen=True)
class Header:
    """The line with the names of the columns."""

    names: list[str]
    separator: str
    line_ending: str
    start: int  # bytes up to the names
    end: int  # bytes up to the first record
    lines: int  # lines up to the first record
    row: int = 0  # rows above the names that are not of the table


def find_names(data: bytes, path: Path, separator: str | None, given: ReadOptions) -> Header:
    """The row with the names, split as the user says or by whichever separator gives the most of them.

    Args:
        data: the text of the file, or of its beginning.
        path: what errors call the file.
        separator: the sign that was said.
        given: what the user says of rows.
    """
    header = _read_header(data, path, separator, given)
    if given.header_row is not None or given.without_looking:
        return header
    # What was taken for the names may be a title: then the rows below have more cells.
    best, skipped = header, given.skip_rows or 0
    if len(header.names) > 1 and _fits(header, data) and not _title_rows(data, header.separator, skipped):
        return header
    for sign in SEPARATORS if given.delimiter is None else [header.separator]:
        titles = _title_rows(data, sign, skipped)
        if titles:
            below = replace(given, header_row=skipped + titles + 1, skip_rows=None)
            found = _split_header(data, sign, below, strict=True)
            if found and sum(map(is_filled, found.names)) > sum(map(is_filled, best.names)):
                best = found
    return best


def with_every_name(header: Header, path: Path) -> Header:
    """The header with a unique word in the place of each empty name; other bad names are refused."""
    names = header.names
    if all(name.strip() for name in names) or looks_like_record(names) or not any(name.strip() for name in names):
        check_names(names, path)
        return header
    check_names([name for name in names if name.strip()], path)
    return replace(header, names=[n if n.strip() else f"{NAMELESS}{place}" for place, n in enumerate(names)])


def _read_header(data: bytes, path: Path, separator: str | None, given: ReadOptions) -> Header:
    """The column names in the text `data` of the file at `path`, split by the `separator`, or if None by the best one.

    `given` is what the user says of rows.
    """
    if not _INK.search(data):
        raise FileError(f"{shown(path)} is empty", "check that it is the right file")
    # Loosely first: strictly, a quote that is not closed would rule out the right separator, and leave a wrong one.
    signs = [separator] if separator else SEPARATORS
    loose = [_split_header(data, sign, given, strict=False) for sign in signs]
    headers = [header for header in loose if header]
    if path.suffix.lower() == ".tsv":  # which says it, so a single tab will do
        tabs = [header for header in headers if header.separator == "\t" and len(header.names) > 1]
        headers = tabs or headers
    most = max((len(header.names) for header in headers), default=0)
    if not headers and (given.header_row or given.skip_rows) and None in loose:
        raise FileError(f"{shown(path)} has no row with names there", "check --header-row or --skip-rows")
    best = _decided([header for header in headers if len(header.names) == most], data, path) if headers else None
    # A separator without result ran into a name too long to be one, as a wrong one does in a wide header; but with
    # a quote left in the names, it was the right one.
    unclear = best is None or (None in loose and '"' in "".join(best.names))
    if best and not unclear and _split_header(data, best.separator, given, strict=True):
        return best
    raise FileError(
        f"{shown(path)} has a quote in its header line that is not closed, or is followed by text",
        'write quotes inside a name twice ("")',
    )


def _decided(headers: Sequence[Header], data: bytes, path: Path) -> Header:
    """The one separator of several that split the header alike by which the records have as many cells."""
    if len(headers) == 1 or len(headers[0].names) == 1:
        return headers[0]
    fitting = [header for header in headers if _fits(header, data)]
    if len(fitting) > 1:
        found = one_of(SEPARATORS[header.separator] for header in fitting)
        raise FileError(f"{shown(path)} can be split by {found}", "say which it is with --delimiter")
    return fitting[0] if fitting else headers[0]


def _fits(header: Header, data: bytes) -> bool:
    """Whether the first records have a cell for each name."""
    lines = io.StringIO(data[header.end : header.end + SAMPLED_BYTES].decode(errors="ignore"), newline="")
    reader = csv.reader(lines, delimiter=header.separator)
    try:
        records = [row for row in islice(reader, _TRIED) if row]
    except csv.Error:
        return False
    whole = records[:-1] if len(records) > 1 else records  # the last may be cut
    return all(len(row) == len(header.names) for row in whole)


def _title_rows(data: bytes, separator: str, skipped: int) -> int:
    """How many rows there are above the names, if any of them has something in it; some at the top do not count."""
    rows = [row for row, *_ in islice(_rows(data, separator), skipped, skipped + LOOKED_AT)]
    place = find_header(rows)
    return place if any(is_filled(cell) for row in rows[:place] for cell in row) else 0


def _rows(data: bytes, separator: str, *, strict: bool = False) -> Iterator[tuple[list[str], int, int, int]]:
    """Rows, empty lines among them: their cells, the bytes up to their beginning and their end, the lines so far.

    They end where quotes make no sense.
    """
    ends = [0]

    def lines() -> Iterator[str]:
        while (line := _LINE.match(data, ends[-1])) and line[0]:
            ends.append(line.end())
            yield line[0].decode()

    reader, start = csv.reader(lines(), delimiter=separator, strict=strict), 0
    with suppress(csv.Error):
        for row in reader:
            yield row, start, ends[-1], len(ends) - 1
            start = ends[-1]


def _split_header(data: bytes, separator: str, given: ReadOptions, *, strict: bool) -> Header | None:
    """The row of `data` that is `given` as that of the names, or the first that is not empty, split by a `separator`.

    None if its quotes make no sense, which `strict` decides more strictly.
    """
    first = (given.header_row or 1) - 1 + (given.skip_rows or 0)
    for number, (names, start, end, lines) in enumerate(_rows(data, separator, strict=strict)):
        if number >= first and names:
            ending = "\r\n" if data[:end].endswith(b"\r\n") else "\n"
            return Header(names, separator, ending, start, end, lines, first)
        if number >= first and given.header_row is not None:
            return None
    return None
