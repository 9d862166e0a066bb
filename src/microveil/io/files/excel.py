"""Excel workbooks (.xlsx): one sheet in, a workbook with that one sheet out.

The other sheets of a workbook stay behind: nobody has looked at what is in them. Cells keep the number formats of
their columns. A column with cells of several kinds is text for the methods, and comes back as it was.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, ClassVar, Final, NamedTuple
from zipfile import BadZipFile, ZipFile

from microveil.core.errors import DataError, FileError, did_you_mean
from microveil.core.late import pl
from microveil.io.files.formats import Format, ReadOptions, SourceFormat, check_flat, check_names, check_table, needs
from microveil.io.files.formula_injection import text_cells
from microveil.io.frames.mixed_types import MixedColumn, to_cells
from microveil.io.frames.validation import MAX_CELLS, check_shape, limit_of
from microveil.io.locations import Sheet
from microveil.storage.atomic import shown

EXTRA: Final = "excel"
ROWS: Final = 1_048_575
"""Rows that a sheet can hold below its names."""

COLUMNS: Final = 16_384
BLOCK: Final = 2**20
BYTES_PER_CELL: Final = 40
"""Of a workbook, unpacked: so a limit on cells is one on what is unpacked to find them."""

TIGHT_FROM, TIGHTEST = 100 * 2**20, 200
"""Bytes from which on it matters how tightly a workbook is packed; real ones shrink to a tenth or a thirtieth."""

LONGEST: Final = 31
"""Signs that the name of a sheet can have."""

_GENERAL: Final = "General"


class SheetColumn(NamedTuple):
    """What is kept of a column: its cells, how most of them are shown, and the cell that names it (2019 is no text)."""

    column: MixedColumn | None
    number_format: str
    heading: Any


@dataclass(frozen=True)
class SheetSource(SourceFormat):
    """The sheet a table was on, and what is kept of its columns."""

    sheet: str = "Sheet1"
    columns: Mapping[str, SheetColumn] = field(default_factory=dict, repr=False, compare=False)
    others: int = 0

    @property
    def description(self) -> str:
        """`sheet 'Survey' (of 3; the others are not released)`."""
        more = f" (of {self.others + 1}; the others are not released)" if self.others else ""
        return f"sheet {shown(self.sheet)}{more}"

    @property
    def is_plain(self) -> bool:
        """One sheet is nothing to talk about."""
        return not self.others


class Excel(Format):
    """A workbook of Excel or LibreOffice."""

    name: ClassVar[str] = "excel"
    options: ClassVar[Sequence[str]] = ("sheet",)
    default: ClassVar[SheetSource] = SheetSource()

    def read(self, path: Path, read_options: ReadOptions) -> tuple[pl.DataFrame, SheetSource]:
        """The first sheet, or the one that is named; its first row has the names."""
        sheets, headings, records, formats = _sheet(path, read_options.sheet)
        names = ["" if heading is None else str(heading) for heading in headings]
        check_names(names, path)
        cells = [list(column) for column in zip(*records, strict=True)] if records else [[] for _ in names]
        loose = [MixedColumn.read(name, column) for name, column in zip(names, cells, strict=True)]
        frame = pl.DataFrame([column.seen for column in loose])
        check_table(frame, path)
        columns = {name: SheetColumn(*kept) for name, *kept in zip(names, loose, formats, headings, strict=False)}
        return frame, SheetSource(read_options.sheet or sheets[0], columns, len(sheets) - 1)

    def write(self, frame: pl.DataFrame, path: Path, source_format: SheetSource, *, shown_as: Path) -> None:
        """A new workbook with one sheet."""
        needs("openpyxl", EXTRA, shown_as)
        from openpyxl import Workbook
        from openpyxl.cell import WriteOnlyCell

        book = Workbook(write_only=True)
        sheet = book.create_sheet(source_format.sheet)
        known = [source_format.columns.get(name, SheetColumn(None, _GENERAL, name)) for name in frame.columns]
        columns = [_cells(column, kept.column) for column, kept in zip(frame.get_columns(), known, strict=True)]
        formats = [kept.number_format for kept in known]

        def cell(value: Any, form: str) -> Any:
            long = isinstance(value, float) and math.isfinite(value) and float(f"{value:.16g}") != value
            if not long and (form == _GENERAL or value is None or isinstance(value, str)):
                return _literal(sheet, value)
            styled = WriteOnlyCell(sheet, value)
            styled.number_format = form
            if long:
                styled._value = repr(value)  # openpyxl writes 16 digits, and some numbers have 17
            return styled

        sheet.append([_literal(sheet, kept.heading) for kept in known])
        for row in zip(*columns, strict=True):
            sheet.append([cell(value, form) for value, form in zip(row, formats, strict=True)])
        with path.open("wb") as file:
            book.save(file)

    def check_holds(self, frame: pl.DataFrame, path: Path) -> None:
        """A sheet has room for a million rows."""
        check_flat(frame, path)
        if frame.height > ROWS or frame.width > COLUMNS:
            problem = f"{shown(path)} cannot hold {frame.height:,} rows of {frame.width:,} columns"
            raise FileError(problem, f"a sheet has {ROWS:,} rows and {COLUMNS:,} columns; write a .parquet file")


def check_sheet(place: Sheet) -> None:
    """Refuse, before the long work, a name that no sheet can have."""
    name = place.sheet
    if not name or len(name) > LONGEST or set(name) & set("[]:*?/\\") or "'" in (name[0], name[-1]):
        problem = f"{shown(place)} is no name of a sheet"
        raise FileError(problem, f"use up to {LONGEST} signs, none of them [ ] : * ? / \\, and no ' at the ends")


def _literal(sheet: Any, value: Any) -> Any:
    """Text as text: what begins with = is no formula of ours."""
    from openpyxl.cell import WriteOnlyCell

    if not isinstance(value, str) or not value.startswith("="):
        return value
    cell = WriteOnlyCell(sheet, value)
    cell.data_type = "s"
    return cell


Row = tuple[Any, ...]


def _sheet(path: Path, wanted: str | None) -> tuple[list[str], list[Any], list[Row], list[str]]:
    """The names of the sheets; the headings and the records of one of them, and the number formats of its columns."""
    needs("openpyxl", EXTRA, path)
    from openpyxl import load_workbook
    from openpyxl.utils.exceptions import InvalidFileException

    book = None
    with path.open("rb") as file:
        with suppress(BadZipFile, InvalidFileException, KeyError, ValueError, TypeError, SyntaxError):
            _check_packed(file, path)
            book = load_workbook(file, read_only=True, data_only=True)
        if book is None:  # raised out here: its errors may quote the data
            raise FileError(f"{shown(path)} is not an Excel workbook, or is damaged", "save it again as .xlsx")
        names = [sheet.title for sheet in book.worksheets]
        if wanted is not None and wanted not in names:
            raise FileError(f"{shown(path)} has no sheet {shown(wanted)}", did_you_mean(wanted, names))
        sheet = book[wanted] if wanted is not None else book.worksheets[0]
        sheet.reset_dimensions()  # some programs write them wrong
        found = _table(sheet.iter_rows(), path)
        _check_formulas(file, sheet, path)
        book.close()
    return names, *found


def _check_packed(file: IO[bytes], path: Path) -> None:
    """Refuse a workbook that would fill the memory when it is unpacked; how large it is then stands at its end."""
    with ZipFile(file) as archive:
        size, packed = (
            sum(getattr(part, kind) for part in archive.infolist()) for kind in ("file_size", "compress_size")
        )
    check_shape(path, 0, size // BYTES_PER_CELL)
    if size > TIGHT_FROM and size > TIGHTEST * packed:
        problem = f"{shown(path)} unpacks to {size // packed:,} times its size, which no table does"
        raise FileError(problem, "save it again in a spreadsheet program, or as a .csv file")


def _table(rows: Iterable[Row], path: Path) -> tuple[list[Any], list[Row], list[str]]:
    """Headings, records of as many cells, and the usual number formats. What a far cell has before it is not filled."""
    rows = iter(rows)
    header = _heading(next(rows, None), path)
    width, formats = len(header), [Counter[str]() for _ in header]
    records: list[Row] = []
    most, nothing, blank = limit_of(MAX_CELLS) // max(width, 1), (None,) * width, 0
    for row in rows:
        values = tuple(cell.value for cell in row)
        if not any(value is not None for value in values):
            blank += 1  # which is a record only if another one follows
            continue
        if any(value is not None for value in values[width:]):
            hint = "give every column a name in the first row, and leave nothing beside the table"
            raise DataError(f"{shown(path)}: the sheet has cells beyond its last column name", hint)
        count = len(records) + blank + 1
        if count > min(most, ROWS):
            check_shape(path, width, count * width)
            raise FileError(f"{shown(path)} has more rows than a sheet can have", "save it again as .xlsx")
        records += [nothing] * blank
        records.append((*values[:width], *nothing[len(values) :]))
        blank = 0
        for cell, known in zip(row, formats, strict=False):
            if cell.value is not None and not isinstance(cell.value, str):
                known[cell.number_format] += 1
    return header, records, [known.most_common(1)[0][0] if known else _GENERAL for known in formats]


def _heading(row: Row | None, path: Path) -> list[Any]:
    """The first row without its empty end."""
    if row is None:
        raise DataError(f"{shown(path)}: the sheet is empty", "name another with --sheet")
    header = [cell.value for cell in row]
    while header and header[-1] is None:
        header.pop()
    check_shape(path, len(header))
    return header


def _check_formulas(file: IO[bytes], sheet: Any, path: Path) -> None:
    """Refuse formulas without a result: programs that do not calculate leave it out, and the cell would seem empty."""
    from openpyxl import load_workbook

    with ZipFile(file) as archive, archive.open(sheet._worksheet_path.lstrip("/")) as stream:
        if not _has_formulas(stream):
            return
    unevaluated = load_workbook(file, read_only=True)[sheet.title]
    unevaluated.reset_dimensions()
    for formulas, results in zip(unevaluated.iter_rows(), sheet.iter_rows(values_only=True), strict=True):
        for place, (cell, result) in enumerate(zip(formulas, results, strict=True), 1):
            if result is None and cell.data_type == "f":
                problem = f"{shown(path)}: column {place} of the sheet has formulas without a result"
                raise DataError(problem, "open the workbook in a spreadsheet program, and save it again")


def _has_formulas(stream: IO[bytes]) -> bool:
    """Whether there may be some; what is taken for one only because a block ends in it costs a second look."""
    end = b""
    while block := stream.read(BLOCK):
        text = (end + block).replace(b"<filter", b"")
        if b"<f" in text:
            return True
        end = text[-1:]
    return False


def _cells(column: pl.Series, was: MixedColumn | None) -> list[Any]:
    """The cells to write, text by way of the one place that all text passes."""
    if isinstance(column.dtype, pl.Datetime):
        column = column.dt.replace_time_zone(None)  # Excel knows no zones
    cells = to_cells(column) if was is None else was.back(column)
    if all(cell is None or isinstance(cell, str) for cell in cells):
        return text_cells(pl.Series(column.name, cells, pl.String)).to_list()
    return cells
