"""CSV in and out, so that what was not changed comes back as it was written.

A file is read as text first, and a column becomes numbers only when all of it can. The text is kept: '1.50', 'NA'
and '007' are decisions of whoever wrote the file, and a released file has to show them again.

Rows are split by Arrow rather than by polars: it refuses rows that are too short instead of filling them up, and takes
quotes inside a cell literally, as the standard library does.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from microveil.core.atomic import shown
from microveil.core.errors import DataError, FileError

if TYPE_CHECKING:
    import polars as pl

SEPARATORS: Final = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}
MISSING: Final = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", ".")
"""Cells that count as missing in a column of numbers, with or without spaces around."""

_SPACES: Final = " \t"
# '007' and '01.11' are codes (a post code, an activity) that a number would cut short.
_LEADING_ZERO: Final = r"^[ \t]*[+-]?0[0-9]"
_NUMBER: Final = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)
_LINE: Final = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)?")
_INK: Final = re.compile(rb"\S")
_SAMPLE: Final = 1000  # cells that settle the type of most columns of text
_BLOCK: Final = 2**22  # bytes Arrow splits at a time, and so the longest row; more than fits a cache is slower
_END: Final = "end"


@dataclass(frozen=True, repr=False)
class Original:
    """A column of numbers as it was read, and the text it was read from (null where the cell was empty)."""

    text: pl.Series
    numbers: pl.Series


@dataclass(frozen=True)
class Dialect:
    """How a CSV file was written. The originals are confidential, so they stay out of its printed form."""

    separator: str = ","
    line_ending: str = "\n"
    bom: bool = False
    originals: Mapping[str, Original] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class _Header:
    names: list[str]
    separator: str
    line_ending: str
    end: int  # bytes up to the first record
    lines: int  # lines up to the first record


def read_csv(path: Path) -> tuple[pl.DataFrame, Dialect]:
    """The table, and how to write one like it. Numbers are Int64 or Float64; the rest is text, empty cells null."""
    data = path.read_bytes()
    _check_bytes(data, path)
    header = _read_header(data, path)
    _check_names(header.names, path)
    bom = _start(data) > 0
    # One more record, of words, ends the file: a quote that is never closed swallows it, and so gives itself away.
    last = header.separator.join([_END] * len(header.names)).encode()
    data = b"".join((memoryview(data)[header.end :], b"" if data.endswith((b"\n", b"\r")) else b"\n", last, b"\n"))
    text = _read_text(data, header, path)

    with ThreadPoolExecutor() as pool:  # polars works on one column with one thread
        columns = list(pool.map(to_numbers, text.get_columns()))
    originals = {
        name: Original(text[name], numbers)
        for name, numbers in zip(text.columns, columns, strict=True)
        if numbers is not None
    }
    frame = text.with_columns(original.numbers for original in originals.values())
    return frame, Dialect(header.separator, header.line_ending, bom, originals)


def write_csv(frame: pl.DataFrame, file: IO[bytes], like: Dialect) -> None:
    """Write with the separator, line endings, missing cells and unchanged columns of the file it came from."""
    import polars as pl

    cells = frame.with_columns(
        written_as(frame[name], original) for name, original in like.originals.items() if name in frame.columns
    )
    if cells.width == 1:
        # An empty cell alone would be an empty line, which other programs skip.
        cells = cells.select(pl.all().cast(pl.String).fill_null(""))
    cells.write_csv(
        file,
        separator=like.separator,
        line_terminator=like.line_ending,
        include_bom=like.bom,
        quote_style="necessary",
    )


def no_place_in_csv(frame: pl.DataFrame) -> list[str]:
    """The columns that hold lists, records or raw bytes."""
    import polars as pl

    return [name for name, kind in frame.schema.items() if kind.is_nested() or kind in (pl.Binary, pl.Object)]


# Numbers


def to_numbers(text: pl.Series) -> pl.Series | None:
    """A column of text as numbers, missing cells null; nothing when a cell is no number.

    A column without a single value counts as numbers too: passing it on as text would hide that it is empty.
    """
    import polars as pl

    # A sample rules out most columns of text, and whole numbers where there are fractions.
    sample = _parsed(text.head(_SAMPLE), (pl.Int64, pl.Float64))
    if sample is None:
        return None
    kinds = (pl.Int64, pl.Float64) if sample.dtype == pl.Int64 else (pl.Float64,)
    return _parsed(text, kinds)


def _parsed(text: pl.Series, kinds: tuple[type[pl.Int64 | pl.Float64], ...]) -> pl.Series | None:
    """The column as the first of `kinds` that takes all its cells."""
    if text.str.contains(_LEADING_ZERO).any():
        return None
    for kind in kinds:
        numbers = text.cast(kind, strict=False).fill_nan(None)  # polars takes 'NAN' and '-nan' too; we do not
        left = text.filter(numbers.is_null() & text.is_not_null()).str.strip_chars(_SPACES)
        padded = left.filter(~left.is_in(list(MISSING)))
        if padded.is_empty():
            return numbers
        if padded.cast(kind, strict=False).fill_nan(None).null_count() == 0:
            return text.str.strip_chars(_SPACES).cast(kind, strict=False).fill_nan(None)
    return None


def written_as(column: pl.Series, original: Original) -> pl.Series:
    """The cells of a column of numbers, as text where they cannot be left to polars.

    An unchanged column is its original text. In a changed one the missing cells are, and those that have the value
    they had (special codes); cells that were not missing before look as most of the column's missing cells do.
    """
    import polars as pl

    was = original.numbers
    if column.dtype == was.dtype and column.equals(was, null_equal=True):
        return original.text
    if column.dtype.is_float():
        column = column.fill_nan(None)
    same_rows = len(column) == len(was)
    kept = same_rows and bool((column == was).any())
    if column.null_count() == 0 and not kept:
        return column
    missing = pl.lit(_usual(original.text.filter(was.is_null())), pl.String)
    cells = pl.lit(column.cast(pl.String))
    if same_rows:
        missing = pl.when(was.is_null()).then(original.text).otherwise(missing)
        cells = pl.when(column == was).then(original.text).otherwise(cells)
    return pl.select(pl.coalesce(cells, missing).alias(column.name)).to_series()


def _usual(tokens: pl.Series) -> str | None:
    """The commonest of a column's missing cells, the first in the alphabet of equals; none for empty cells."""
    counts = tokens.alias("token").value_counts(name="cells").sort("cells", "token", descending=[True, False])
    return None if counts.is_empty() else counts[0, "token"]


# Rows


def _check_bytes(data: bytes, path: Path) -> None:
    """Refuse what is not UTF-8 text, by line."""
    bad = _first_not_utf8(data)
    if bad is not None:
        line = data.count(b"\n", 0, bad) + 1
        raise FileError(f"{shown(path)} is not UTF-8 text (line {line})", "save it again as 'CSV UTF-8'")
    null = data.find(b"\0")
    if null >= 0:
        line = data.count(b"\n", 0, null) + 1
        raise FileError(f"{shown(path)} has a null byte on line {line}", "export it again; the file may be damaged")


def _first_not_utf8(data: bytes) -> int | None:
    """Where the text stops being UTF-8. The decoder's own error holds the data, so it does not leave this function."""
    if data.isascii():
        return None
    decoder = codecs.getincrementaldecoder("utf-8")()
    size = 2**24  # in pieces: the whole text would take up to four times the file
    for start in range(0, len(data), size):
        held = len(decoder.getstate()[0])
        try:
            decoder.decode(data[start : start + size], final=start + size >= len(data))
        except UnicodeDecodeError as error:
            return start - held + error.start
    return None


def _read_header(data: bytes, path: Path) -> _Header:
    """The column names, split by whichever separator gives the most of them."""
    if not _INK.search(data, _start(data)):
        raise FileError(f"{shown(path)} is empty", "check that it is the right file")
    # Loosely first: strictly, a quote that is not closed would rule out the right separator, and leave a wrong one.
    loose = [_split_header(data, separator, strict=False) for separator in SEPARATORS]
    headers = [header for header in loose if header]
    best = max(headers, key=lambda header: len(header.names), default=None)  # the first of equals
    if path.suffix.lower() == ".tsv":  # which says it, so a single tab will do
        best = next((header for header in headers if header.separator == "\t" and len(header.names) > 1), best)
    # A separator without result ran into a name too long to be one, as a wrong one does in a wide header; but with
    # a quote left in the names, it was the right one.
    if best and not (None in loose and '"' in "".join(best.names)) and _split_header(data, best.separator, strict=True):
        return best
    raise FileError(
        f"{shown(path)} has a quote in its header line that is not closed, or is followed by text",
        'write quotes inside a name twice ("")',
    )


def _start(data: bytes) -> int:
    """Where the text begins, behind the mark that Windows programs put in front of UTF-8."""
    return len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0


def _split_header(data: bytes, separator: str, *, strict: bool) -> _Header | None:
    """The first record that is not an empty line; nothing when its quotes make no sense."""
    ends: list[int] = []

    def lines() -> Iterator[str]:
        position = _start(data)
        while (line := _LINE.match(data, position)) and line[0]:
            position = line.end()
            ends.append(position)
            yield line[0].decode()

    reader = csv.reader(lines(), delimiter=separator, strict=strict)
    try:
        names = next((row for row in reader if row), None)
    except csv.Error:
        return None
    if names is None:
        return None
    end = ends[-1]
    return _Header(names, separator, "\r\n" if data[:end].endswith(b"\r\n") else "\n", end, len(ends))


def _check_names(names: list[str], path: Path) -> None:
    """Refuse a header with empty or repeated names, or that is a record."""
    if _looks_like_record(names):
        # Taken for names, the numbers of the first record would be released as they are.
        raise DataError(f"{shown(path)} has numbers in place of column names", "add a first line with the names")
    nameless = [position for position, name in enumerate(names, 1) if not name.strip()]
    if nameless:
        hint = "name it, or leave it out if it only numbers the rows"
        raise DataError(f"{shown(path)} has no name for column {nameless[0]} of {len(names)}", hint)
    positions: dict[str, list[int]] = {}
    for position, name in enumerate(names, 1):
        positions.setdefault(name, []).append(position)
    repeated = {name: where for name, where in positions.items() if len(where) > 1}
    if repeated:
        raise DataError(f"{shown(path)} repeats column names: {_listed(repeated)}", "rename them apart")


def _looks_like_record(names: list[str]) -> bool:
    """Whether names are numbers, other than the counting ones (0, 1, 2; 2019, 2020) that tools and people write."""
    numbers = [name for name in names if _NUMBER.fullmatch(name)]
    blanks = [name for name in names if name.strip() in MISSING]
    if blanks and any(names) and len(numbers) + len(blanks) == len(names):
        return True
    if not numbers:
        return False
    if not all(re.fullmatch(r"\d{1,9}", name, re.ASCII) for name in numbers):
        return True
    counted = [int(name) for name in numbers]
    return counted != list(range(counted[0], counted[0] + len(counted)))


def _listed(repeated: Mapping[str, list[int]], limit: int = 5) -> str:
    """`'x' (columns 1, 3)`, for each repeated name; what could be a record's value is told by its position alone."""
    parts = []
    for name, where in list(repeated.items())[:limit]:
        columns = f"columns {', '.join(map(str, where))}"
        parts.append(columns if _NUMBER.fullmatch(name) or len(name) > 60 else f"{shown(name)} ({columns})")
    return "; ".join(parts) + ("; and others" if len(repeated) > limit else "")


def _read_text(data: bytes, header: _Header, path: Path) -> pl.DataFrame:
    """Every cell as text. The last record must be the one `read_csv` put there."""
    import polars as pl
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    names = header.names
    table = None
    with suppress(pa.ArrowInvalid):
        table = pa_csv.read_csv(
            pa.BufferReader(data),
            pa_csv.ReadOptions(column_names=names, block_size=max(_BLOCK, 16 * header.end)),
            # In a file of one column an empty line is an empty cell; elsewhere it is no row.
            pa_csv.ParseOptions(
                delimiter=header.separator, newlines_in_values=b'"' in data, ignore_empty_lines=len(names) > 1
            ),
            pa_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""]
            ),
        )
    # Raised out here, so that Arrow's error, which quotes the row, is not even its context.
    if table is None:
        raise _fault(data, header, path)
    frame = pl.DataFrame(pl.from_arrow(table)).rechunk()
    if frame.row(-1) != (_END,) * len(names):
        raise _fault(data, header, path)
    if frame.height == 1:
        raise DataError(f"{shown(path)} has no rows below its header", "check that it is the right file")
    return frame.head(-1)


def _fault(data: bytes, header: _Header, path: Path) -> FileError:
    """What is wrong with the rows, by line. The standard library is slow, but keeps count."""
    lines = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline="")
    reader = csv.reader(lines, delimiter=header.separator, strict=True)
    line = header.lines + 1
    try:
        for row in reader:
            if row and len(row) != len(header.names):
                return FileError(
                    f"{shown(path)} has {len(row)} cells on line {line} where the header has {len(header.names)}",
                    f"the separator is {SEPARATORS[header.separator]}; cells that contain it need quotes",
                )
            line = header.lines + reader.line_num + 1
    except csv.Error:
        return FileError(
            f"{shown(path)} has a quote on line {line} that is not closed, or is followed by text",
            'write quotes inside a cell twice ("")',
        )
    return FileError(f"{shown(path)} cannot be split into rows", "export it again; the file may be damaged")
