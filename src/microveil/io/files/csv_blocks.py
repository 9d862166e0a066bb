"""CSV files block by block. What kind of columns they have is found on the beginning, as `csv` does on the whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError, FileError
from microveil.core.late import pa, pa_csv, pl
from microveil.io.blocks import FIRST_ROWS, BlockSink, BlockSource, rebatched
from microveil.io.files.csv import Dialect, arrow_options, parse, write_csv
from microveil.io.files.encodings import as_utf8
from microveil.io.files.formats import ReadOptions, check_options
from microveil.io.files.numerals import least_decimals, pad_decimals, to_numbers
from microveil.io.frames.number_types import check_held, wholes_held
from microveil.storage.atomic import cannot, shown

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

    def __init__(self, path: Path, read_options: ReadOptions) -> None:
        check_options(("delimiter", "decimal", "encoding"), read_options, "CSV files")
        self.path = path
        try:
            with path.open("rb") as file:
                start = file.read(BEGINNING)
                whole = not file.read(1)
        except OSError as error:
            raise cannot("read", path, error) from None
        beginning = start if whole else start[: _last_end(start)]
        data, encoding = as_utf8(beginning, path, read_options.encoding)
        if encoding.name != "utf-8":
            raise FileError(
                f"{shown(path)} is in {encoding.name}, and block by block only UTF-8 is read",
                "convert it, or use engine='memory'",
            )
        frame, dialect, self.header = parse(data, encoding, path, read_options)
        self.first = len(beginning) - len(data) + self.header.end
        self.least = {name: least_decimals(original.text) for name, original in dialect.originals.items()}
        self.dialect: Dialect = replace(dialect, originals={})
        self.numeric = set(dialect.originals)
        self._head = frame.head(FIRST_ROWS)
        self.names = list(frame.columns)
        self.count = max(_lines(path) - self.header.lines, 1)

    def head(self) -> pl.DataFrame:
        """The first rows with all columns."""
        return self._head

    def numbers(self, name: str, column: pa.Array) -> tuple[Array, int]:
        """The cells of a column of numbers as doubles, and how many of them are missing."""
        found = to_numbers(pl.Series(name, column), self.dialect.decimal)
        if found is None:
            raise DataError(
                f"column '{name}' begins as numbers, but has cells further down that are none",
                "correct them, or leave the column out of confidential",
            )
        if found.dtype.is_integer():
            check_held(name, wholes_held(found.min(), found.max()))
        cells = found.cast(pl.Float64).to_numpy()
        return np.asarray(cells, dtype=np.float64), int(found.null_count())

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

    def sink(self, file: IO[bytes], changed: Sequence[str]) -> BlockSink:  # noqa: ARG002 - what is text says so
        """What writes a CSV file with the same separators, quotes and decimals."""
        return _CsvSink(file, self)


class _CsvSink(BlockSink):
    def __init__(self, file: IO[bytes], like: CsvBlocks) -> None:
        self.file, self.like, self.headed = file, like, True

    def write(self, unchanged: pa.RecordBatch | None, changed: Mapping[str, Array]) -> None:
        """Write the next rows."""
        least, decimal = self.like.least, self.like.dialect.decimal
        columns = {name: pad_decimals(pl.Series(name, cells), least[name], decimal) for name, cells in changed.items()}
        if unchanged is not None:
            columns |= {name: pl.Series(name, unchanged.column(name)) for name in unchanged.schema.names}
        frame = pl.DataFrame([columns[name] for name in self.like.names])
        write_csv(frame, self.file, self.like.dialect, self.like.path, numbers=self.like.numeric, headed=self.headed)
        self.headed = False


def _lines(path: Path) -> int:
    """About how many lines a file has: cells may hold ends of lines, too."""
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(COUNTED), b"")) + 1
