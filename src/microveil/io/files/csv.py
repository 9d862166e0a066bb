"""CSV in and out, so that what was not changed comes back as it was written.

A file is read as text first, and its columns of numbers keep that text (see `numerals`). Separator, decimal sign,
quotes and encoding are found, shown to the user, and used again for the release; where two readings are possible,
the user is asked to say which.

Rows are split by Arrow, or by the standard library where it is not installed, rather than by polars: they refuse rows
that are too short instead of filling them up, and take quotes inside a cell literally.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, ClassVar, Final

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError, FileError
from microveil.core.late import has_arrow, pa, pa_csv, pl
from microveil.io.blocks import FIRST_ROWS, BlockSink, BlockSource, rebatched
from microveil.io.files import numerals
from microveil.io.files.dialect import SAMPLED_BYTES, SEPARATORS, Dialect, Encoding, as_utf8, find_quoting, quoted_cells
from microveil.io.files.formats import Format, ReadOptions, check_flat, check_names, check_options, sign_of
from microveil.io.files.formula_injection import text_cells
from microveil.io.files.header import NAMELESS, ROW_NAMES, ROW_NAMES_SAID, Header, find_names, with_every_name
from microveil.io.files.layout import TOTAL_LEFT_OUT, check_given, said_of_rows, without_total
from microveil.io.frames.number_types import check_held, wholes_held
from microveil.io.frames.validation import check_shape
from microveil.storage.atomic import shown, system_errors

_WORDS: Final = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "bar": "|", "pipe": "|"}

_BLOCK: Final = 2**22  # bytes Arrow splits at a time, and so the longest row; more than fits a cache is slower
_END: Final = "end"

OPTIONS: Final = ("delimiter", "decimal", "encoding", "header_row", "skip_rows")


class Csv(Format):
    """Text in rows and columns."""

    name: ClassVar[str] = "csv"
    options: ClassVar[Sequence[str]] = OPTIONS
    default: ClassVar[Dialect] = Dialect()

    def read(self, path: Path, read_options: ReadOptions) -> tuple[pl.DataFrame, Dialect]:
        """Numbers are Int64 or Float64; the rest is text, empty cells null."""
        data, encoding = as_utf8(path.read_bytes(), path, read_options.encoding)
        return parse(data, encoding, path, read_options)[:2]

    def write(self, frame: pl.DataFrame, path: Path, like: Dialect, *, shown_as: Path) -> None:
        """Write with the separator, line endings, missing cells and unchanged columns of the file it came from."""
        with path.open("wb") as file:
            write_csv(frame, file, like, shown_as)

    def adapted(self, like: Dialect, extension: str) -> Dialect:
        """Tabs come and go with the extension that means them."""
        if (like.extension == ".tsv") == (extension == ".tsv"):
            return like
        return replace(like, separator="\t" if extension == ".tsv" else ",")

    def check_holds(self, frame: pl.DataFrame, path: Path) -> None:
        """No lists, no bytes."""
        check_flat(frame, path)


def parse(
    data: bytes, encoding: Encoding, path: Path, read_options: ReadOptions
) -> tuple[pl.DataFrame, Dialect, Header]:
    """The table in `data`, the UTF-8 text of the file at `path` or of its beginning; it was in an `encoding`."""
    separator = sign_of("delimiter", read_options.delimiter, _WORDS)
    decimal = sign_of("decimal", read_options.decimal, numerals.DECIMALS)
    check_given(read_options)
    header = find_names(data, path, separator, read_options)
    check_shape(path, len(header.names))
    names, header = header.names, with_every_name(header, path)
    beginning = data[header.end : header.end + SAMPLED_BYTES]
    quoting = find_quoting(header.names, data[header.start : header.end], beginning, header.separator)
    # One more record, of words, ends the file: a quote that is never closed swallows it, and so gives itself away.
    last = header.separator.join([_END] * len(header.names)).encode()
    data = b"".join((memoryview(data)[header.end :], b"" if data.endswith((b"\n", b"\r")) else b"\n", last, b"\n"))
    text = _read_text(data, header, path)
    nameless = [name for name in text.columns if name.startswith(NAMELESS)]
    looked_at = [] if read_options.without_looking else nameless
    filled = [name for name in looked_at if text[name].null_count() < text.height]
    of_rows = filled == text.columns[:1] and ROW_NAMES not in names
    if of_rows:
        text, header = text.rename({filled[0]: ROW_NAMES}), replace(header, names=[ROW_NAMES, *header.names[1:]])
        nameless.remove(filled[0])
    elif filled:
        check_names(names, path)
    text = text.drop(nameless)

    if read_options.without_looking:
        comma = pl.all().str.replace(r"^([+-]?\d*),(\d+)$", "$1.$2")
        return text.with_columns(comma) if decimal == "," else text, Dialect(separator=header.separator), header

    def typed(part: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, numerals.Original], str]:
        originals, sign = numerals.find_numbers(part.get_columns(), path, separator=header.separator, decimal=decimal)
        return part.with_columns(found.numbers for found in originals.values()), originals, sign

    (frame, originals, sign), of_total = without_total(text.row(-1), text, typed)
    said = [*said_of_rows(header.row, 0, len(nameless)), *([ROW_NAMES_SAID] if of_rows else []), *of_total]
    said += [found.finding for found in originals.values() if found.finding]
    dialect = Dialect(
        columns=originals,
        findings=said,
        separator=header.separator,
        line_ending=header.line_ending,
        decimal=sign,
        encoding=encoding,
        quoting=quoting,
    )
    return frame, dialect, header


def write_csv(
    frame: pl.DataFrame,
    file: IO[bytes],
    like: Dialect,
    shown_as: Path,
    *,
    numbers: Collection[str] | None = None,
    headed: bool = True,
) -> None:
    """Write `frame` with the separator, line endings, missing cells and unchanged columns of the file it was `like`.

    `shown_as` is what errors call the file. `numbers` names the columns of numbers, where some of them are given as
    the text they were. If not `headed`, what is written goes on where another part ended.
    """
    if numbers is None:
        numbers = [name for name, kind in frame.schema.items() if kind.is_numeric()]
    cells = frame.with_columns(
        numerals.written_as(frame[name], original, like.decimal)
        for name, original in like.columns.items()
        if name in frame.columns
    )
    cells = cells.with_columns(numerals.with_decimals(column, like.decimal) for column in cells.get_columns())
    cells = cells.with_columns(text_cells(column) for column in cells.get_columns() if column.name not in numbers)
    if like.quoting.description:
        cells = quoted_cells(cells, numbers, like.quoting, like.separator)
    elif cells.width == 1:
        # An empty cell alone would be an empty line, which other programs skip.
        cells = cells.select(pl.all().cast(pl.String).fill_null(""))
    # Polars writes UTF-8; for another encoding it writes into memory first.
    plain = like.encoding.name == "utf-8"
    stream = file if plain else io.BytesIO()
    signs: dict[str, Any] = {"separator": like.separator, "line_terminator": like.line_ending}
    if headed:
        stream.write(like.encoding.mark if plain else b"")
        cells.clear().write_csv(stream, quote_style="always" if like.quoting.names else "necessary", **signs)
    style: Any = "never" if like.quoting.description else "necessary"
    cells.write_csv(stream, include_header=False, quote_style=style, **signs)
    if isinstance(stream, io.BytesIO):
        file.write(like.encoding.bytes_of(stream.getvalue(), shown_as))


# Rows


def _read_text(data: bytes, header: Header, path: Path) -> pl.DataFrame:
    """Every cell as text. The last record must be the one that `parse` put there."""
    frame = _split_by_arrow(data, header) if has_arrow() else _split_plainly(data, header)
    # Raised out here, so that Arrow's error, which quotes the row, is not even its context.
    if frame is None or frame.row(-1) != (_END,) * len(header.names):
        raise _fault(data, header, path)
    if frame.height == 1:
        raise DataError(f"{shown(path)} has no rows below its header", "check that it is the right file")
    return frame.head(-1)


def _split_by_arrow(data: bytes, header: Header) -> pl.DataFrame | None:
    with suppress(pa.ArrowInvalid):
        table = pa_csv.read_csv(pa.BufferReader(data), **arrow_options(header, header.names, quotes=b'"' in data))
        return pl.DataFrame(pl.from_arrow(table)).rechunk()
    return None


def _split_plainly(data: bytes, header: Header) -> pl.DataFrame | None:
    """The same by the standard library, where there is no Arrow: a few seconds for a million cells."""
    lines = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline="")
    width = len(header.names)
    try:
        rows = [row or [""] for row in csv.reader(lines, delimiter=header.separator) if row or width == 1]
    except (csv.Error, UnicodeDecodeError):
        return None
    if any(len(row) != width for row in rows):
        return None
    cells = zip(header.names, zip(*rows, strict=True), strict=True)
    return pl.DataFrame({name: pl.Series(column, dtype=pl.String) for name, column in cells}).with_columns(
        pl.all().replace("", None)
    )


def arrow_options(header: Header, wanted: Sequence[str], *, quotes: bool) -> dict[str, Any]:
    """How Arrow splits the records below a header: some of the columns, every cell as text."""
    names = header.names
    return {
        "read_options": pa_csv.ReadOptions(column_names=names, block_size=max(_BLOCK, 16 * header.end)),
        # In a file of one column an empty line is an empty cell; elsewhere it is no row.
        "parse_options": pa_csv.ParseOptions(
            delimiter=header.separator, newlines_in_values=quotes, ignore_empty_lines=len(names) > 1
        ),
        "convert_options": pa_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            include_columns=list(wanted),
            strings_can_be_null=True,
            null_values=[""],
        ),
    }


def _fault(data: bytes, header: Header, path: Path) -> FileError:
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


BEGINNING = 2**23
"""Bytes by which separator, decimal sign and kinds of columns are found."""

COUNTED = 2**24
"""Bytes that are looked at together for ends of lines."""


def _last_end(data: bytes) -> int:
    """Where the last whole record ends: at a line's end outside of quotes, of which there are even many before."""
    end = data.rfind(b"\n") + 1
    quotes = data.count(b'"', 0, end)
    while quotes % 2 and end:
        before = data.rfind(b"\n", 0, end - 1) + 1
        quotes -= data.count(b'"', before, end)
        end = before
    return end


class CsvBlocks(BlockSource):
    """A CSV file in UTF-8. Cells that stay as they are come back as they were written."""

    numeric: set[str]
    broken: list[str]

    def __init__(self, path: Path, read_options: ReadOptions) -> None:
        check_options(OPTIONS, read_options, "CSV files")
        self.path = path
        with system_errors("read", path), path.open("rb") as file:
            start = file.read(BEGINNING)
            whole = not file.read(1)
        beginning = start if whole else start[: _last_end(start)]
        data, encoding = as_utf8(beginning, path, read_options.encoding)
        if encoding.name != "utf-8":
            raise FileError(
                f"{shown(path)} is in {encoding.name}, and block by block only UTF-8 is read",
                "convert it, or use engine='memory'",
            )
        frame, dialect, self.header = parse(data, encoding, path, read_options)
        spelled = next((name for name, original in dialect.columns.items() if original.plain is not None), None)
        if spelled is not None or (whole and TOTAL_LEFT_OUT in dialect.findings):
            what = "a row of totals" if spelled is None else f"units or thousands separators in column {shown(spelled)}"
            raise FileError(f"{shown(path)} has {what}, which block by block is not read", "use engine='memory'")
        self.findings = dialect.findings
        self.first = len(beginning) - len(data) + self.header.end
        self.least = {name: numerals.least_decimals(original.text) for name, original in dialect.columns.items()}
        self.dialect: Dialect = replace(dialect, columns={})
        self.numeric = set(dialect.columns)
        self.broken = []
        self._whole = {name for name in self.numeric if frame.schema[name].is_integer()}
        self._head = frame.head(FIRST_ROWS)
        self.names = list(frame.columns)
        self.count = max(_lines(path) - self.header.lines, 1)

    def head(self) -> pl.DataFrame:
        """The first rows with all columns."""
        return self._head

    def is_integer(self, name: str) -> bool:
        """Are the cells of a column whole numbers, as far as it has been read?"""
        return name in self._whole

    def typed(self, name: str, column: pa.Array) -> pa.Array | None:
        """Cells as whole numbers, numbers or text, whichever all of the column are as far as it has been read."""
        found = numerals.to_numbers(pl.Series(name, column), self.dialect.decimal) if name in self.numeric else None
        if name in self.numeric and found is None:
            self.numeric.discard(name)
            self._head = self._head.with_columns(pl.col(name).cast(pl.String))
            self.broken.append(name)
            return None
        if found is not None and name in self._whole and not found.dtype.is_integer():
            self._whole.discard(name)
            return None
        return column if found is None else found.cast(pl.Int64 if name in self._whole else pl.Float64).to_arrow()

    def _doubles(self, name: str, column: pa.Array, *, held: bool) -> tuple[Array, int]:
        found = numerals.to_numbers(pl.Series(name, column), self.dialect.decimal)
        if found is None:
            raise DataError(
                f"column '{name}' begins as numbers, but has cells further down that are none",
                "correct them, or leave the column out of confidential",
            )
        if held and found.dtype.is_integer():
            check_held(name, wholes_held(found.min(), found.max()))
        return np.asarray(found.cast(pl.Float64).to_numpy(), dtype=np.float64), int(found.null_count())

    def batches(self, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Some columns of all rows, as text, so many rows at a time."""
        return rebatched(self._batches(names), rows)

    def _batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        count, broken = 0, ""
        with pa.OSFile(str(self.path)) as file:
            file.seek(self.first)
            try:
                for batch in pa_csv.open_csv(file, **arrow_options(self.header, names, quotes=True)):
                    count += batch.num_rows
                    yield batch
            except pa.ArrowInvalid as error:
                broken = "letters" if "UTF8" in str(error) else "cells"
        # Raised out here, so that Arrow's error, which quotes the row, is not even its context.
        if broken == "letters":
            raise FileError(f"{shown(self.path)} is not UTF-8 after row {count}", "convert it, or use engine='memory'")
        if broken:
            raise FileError(
                f"{shown(self.path)} has a row with another number of cells after row {count}",
                f"rows must have {len(self.names)} cells; check quotes and separators",
            )
        self.count = count

    def sink(self, file: IO[bytes], changed: Mapping[str, pa.DataType | None]) -> BlockSink:  # noqa: ARG002 - text
        """What writes a CSV file with the same separators, quotes and decimals."""
        return _CsvSink(file, self)


class _CsvSink(BlockSink):
    def __init__(self, file: IO[bytes], like: CsvBlocks) -> None:
        self.file, self.like, self.headed = file, like, True

    def write(self, unchanged: pa.RecordBatch | None, changed: Mapping[str, Array | pa.Array]) -> None:
        """Write the next rows."""
        least, decimal = self.like.least, self.like.dialect.decimal
        columns = {name: pl.Series(name, cells) for name, cells in changed.items()}
        columns |= {
            name: numerals.pad_decimals(column, least[name], decimal)
            for name, column in columns.items()
            if name in least
        }
        if unchanged is not None:
            columns |= {name: pl.Series(name, unchanged.column(name)) for name in unchanged.schema.names}
        frame = pl.DataFrame([columns[name] for name in self.like.names])
        write_csv(frame, self.file, self.like.dialect, self.like.path, numbers=self.like.numeric, headed=self.headed)
        self.headed = False


def _lines(path: Path) -> int:
    """About how many lines a file has: cells may hold ends of lines, too."""
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(COUNTED), b"")) + 1
