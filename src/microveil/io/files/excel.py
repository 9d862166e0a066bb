"""Excel workbooks (.xlsx): one sheet in, a workbook with that one sheet out.

The other sheets of a workbook stay behind: nobody has looked at what is in them; so do titles above the table, notes
below it, and a row of totals. Cells keep the number formats of their columns. Texts of numbers are numbers, as in a CSV
file. A column with cells of several kinds is text for the methods, and comes back as it was.
"""

from __future__ import annotations

import datetime as dt
import math
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, ClassVar, Final, NamedTuple
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile, ZipInfo

from microveil.core.errors import DataError, FileError, did_you_mean
from microveil.core.late import openpyxl, pl
from microveil.io.files import formats, layout
from microveil.io.files.formula_injection import text_cells
from microveil.io.files.header import ROW_NAMES, ROW_NAMES_SAID
from microveil.io.files.numerals import DECIMALS, Original, find_numbers, least_decimals
from microveil.io.frames.mixed_types import MixedColumn, as_dates, to_cells
from microveil.io.frames.validation import MAX_CELLS, check_shape, limit_of
from microveil.io.locations import Sheet
from microveil.storage.atomic import shown

DAWN: Final = dt.datetime(1980, 1, 1)
"""When workbooks say that they were made, so that the same table gives the same bytes."""

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


@dataclass(frozen=True, kw_only=True)
class SheetFormat(formats.FileFormat):
    """The sheet a table was on, and how many others there were; columns are kept as `SheetColumn`."""

    sheet: str = "Sheet1"
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


class Excel(formats.Format):
    """A workbook of Excel or LibreOffice."""

    name: ClassVar[str] = "excel"
    options: ClassVar[Sequence[str]] = ("sheet", "decimal", "header_row", "skip_rows")
    default: ClassVar[SheetFormat] = SheetFormat()

    def read(self, path: Path, read_options: formats.ReadOptions) -> tuple[pl.DataFrame, SheetFormat]:
        """The first sheet, or the one that is named; its names are looked for below titles."""
        layout.check_given(read_options)
        decimal = formats.sign_of("decimal", read_options.decimal, DECIMALS)
        sheets, table = _sheet(path, read_options)
        names = ["" if heading is None else str(heading) for heading in table.headings]
        formats.check_names(names, path)
        if not table.records:
            formats.check_table(pl.DataFrame(schema=names), path)

        def typed(records: list[Row]) -> tuple[pl.DataFrame, list[MixedColumn], dict[str, Original]]:
            cells = {name: list(column) for name, column in zip(names, zip(*records, strict=True), strict=True)}
            loose, spelled = _columns(cells, path, decimal)
            return pl.DataFrame([column.seen for column in loose]), loose, spelled

        (frame, loose, spelled), of_total = layout.without_total(table.records[-1], table.records, typed)
        shown_as = [
            _format_with(spelled[name]) if name in spelled and form == _GENERAL else form
            for name, form in zip(names, table.formats, strict=True)
        ]
        columns = {name: SheetColumn(*kept) for name, *kept in zip(names, loose, shown_as, table.headings, strict=True)}
        findings = [*table.findings, *of_total, *(found.finding for found in spelled.values() if found.finding)]
        sheet = read_options.sheet or sheets[0]
        return frame, SheetFormat(columns=columns, findings=findings, sheet=sheet, others=len(sheets) - 1)

    def write(self, frame: pl.DataFrame, path: Path, like: SheetFormat, *, shown_as: Path) -> None:
        """A new workbook with one sheet."""
        formats.needs("openpyxl", shown_as)
        book = openpyxl.Workbook(write_only=True)
        sheet = book.create_sheet(like.sheet)
        known = [like.columns.get(name, SheetColumn(None, _GENERAL, name)) for name in frame.columns]
        columns = [_cells(column, kept.column) for column, kept in zip(frame.get_columns(), known, strict=True)]
        number_formats = [kept.number_format for kept in known]

        def cell(value: Any, form: str) -> Any:
            long = isinstance(value, float) and math.isfinite(value) and float(f"{value:.16g}") != value
            if not long and (form == _GENERAL or value is None or isinstance(value, str)):
                return _literal(sheet, value)
            styled = openpyxl.cell.WriteOnlyCell(sheet, value)
            styled.number_format = form
            if long:
                styled._value = repr(value)  # openpyxl writes 16 digits, and some numbers have 17
            return styled

        sheet.append([_literal(sheet, kept.heading) for kept in known])
        for row in zip(*columns, strict=True):
            sheet.append([cell(value, form) for value, form in zip(row, number_formats, strict=True)])
        book.properties.created = book.properties.modified = DAWN
        with _Timeless(path, "w", ZIP_DEFLATED) as archive:
            openpyxl.writer.excel.ExcelWriter(book, archive).save()  # closes it

    def check_holds(self, frame: pl.DataFrame, path: Path) -> None:
        """A sheet has room for a million rows."""
        formats.check_flat(frame, path)
        if frame.height > ROWS or frame.width > COLUMNS:
            problem = f"{shown(path)} cannot hold {frame.height:,} rows of {frame.width:,} columns"
            raise FileError(problem, f"a sheet has {ROWS:,} rows and {COLUMNS:,} columns; write a .parquet file")


class _Timeless(ZipFile):
    """An archive that does not note when its parts were made."""

    def writestr(self, zinfo_or_arcname: Any, data: Any, *_: Any, **__: Any) -> None:
        """A part from memory."""
        super().writestr(ZipInfo(str(zinfo_or_arcname)), data, ZIP_DEFLATED)

    def write(self, filename: Any, arcname: Any = None, *_: Any, **__: Any) -> None:
        """A part from a file."""
        part = ZipInfo(str(arcname))
        part.compress_type, part.file_size = ZIP_DEFLATED, Path(filename).stat().st_size
        with Path(filename).open("rb") as source, self.open(part, "w") as target:
            shutil.copyfileobj(source, target)


def check_sheet(place: Sheet) -> None:
    """Refuse, before the long work, a name that no sheet can have."""
    name = place.sheet
    if not name or len(name) > LONGEST or set(name) & set("[]:*?/\\") or "'" in (name[0], name[-1]):
        problem = f"{shown(place)} is no name of a sheet"
        raise FileError(problem, f"use up to {LONGEST} signs, none of them [ ] : * ? / \\, and no ' at the ends")


def _literal(sheet: Any, value: Any) -> Any:
    """Text as text: what begins with = is no formula of ours."""
    if not isinstance(value, str) or not value.startswith("="):
        return value
    cell = openpyxl.cell.WriteOnlyCell(sheet, value)
    cell.data_type = "s"
    return cell


Row = tuple[Any, ...]


class SheetTable(NamedTuple):
    """The table on a sheet: its headings, its records of as many cells, the usual number formats, and findings."""

    headings: list[Any]
    records: list[Row]
    formats: list[str]
    findings: list[str]


def _sheet(path: Path, read_options: formats.ReadOptions) -> tuple[list[str], SheetTable]:
    """The names of the sheets, and the table on one of them."""
    wanted = read_options.sheet
    formats.needs("openpyxl", path)
    book, refused = None, openpyxl.utils.exceptions.InvalidFileException
    with path.open("rb") as file:
        with suppress(BadZipFile, refused, KeyError, ValueError, TypeError, SyntaxError):
            _check_packed(file, path)
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        if book is None:  # raised out here: its errors may quote the data
            raise FileError(f"{shown(path)} is not an Excel workbook, or is damaged", "save it again as .xlsx")
        names = [sheet.title for sheet in book.worksheets]
        if wanted is not None and wanted not in names:
            raise FileError(f"{shown(path)} has no sheet {shown(wanted)}", did_you_mean(wanted, names))
        sheet = book[wanted] if wanted is not None else book.worksheets[0]
        sheet.reset_dimensions()  # some programs write them wrong
        found = _table(sheet.iter_rows(), path, read_options)
        _check_formulas(file, sheet, path)
        book.close()
    return names, found


def _check_packed(file: IO[bytes], path: Path) -> None:
    """Refuse a workbook that would fill the memory; the end of the file says how large it is unpacked."""
    with ZipFile(file) as archive:
        size, packed = (
            sum(getattr(part, kind) for part in archive.infolist()) for kind in ("file_size", "compress_size")
        )
    check_shape(path, 0, size // BYTES_PER_CELL)
    if size > TIGHT_FROM and size > TIGHTEST * packed:
        problem = f"{shown(path)} unpacks to {size // packed:,} times its size, which no table does"
        raise FileError(problem, "save it again in a spreadsheet program, or as a .csv file")


def _table(rows: Iterable[Row], path: Path, read_options: formats.ReadOptions) -> SheetTable:
    """The table among the rows of a sheet. What a far cell has before it is not filled."""
    rows = iter(rows)
    header, titled, looked_at = _heading(rows, path, read_options)
    width, seen = len(header), [Counter[str]() for _ in header]
    records: list[Row] = []
    most, nothing, empty, last_gap = limit_of(MAX_CELLS) // max(width, 1), (None,) * width, 0, None
    blank = 0
    for row in chain(looked_at, rows):
        values = tuple(cell.value for cell in row)
        if not any(map(layout.is_filled, values)):
            blank += 1
            continue
        if any(map(layout.is_filled, values[width:])):
            hint = "give every column a name in the row of names (--header-row), and leave nothing next to the table"
            raise DataError(f"{shown(path)}: the sheet has cells beyond its last column name", hint)
        count = len(records) + empty + blank + 1
        if count > min(most, ROWS):
            check_shape(path, width, count * width)
            raise FileError(f"{shown(path)} has more rows than a sheet can have", "save it again as .xlsx")
        if blank:
            last_gap = len(records)
            records += [nothing] * blank if width == 1 else []  # in one column, a missing cell
            empty, blank = empty + (blank if width > 1 else 0), 0
        records.append((*values[:width], *nothing[len(values) :]))
        for cell, known in zip(row, seen, strict=False):
            if cell.value is not None and not isinstance(cell.value, str):
                known[cell.number_format] += 1
    notes = layout.notes_below(records, width, last_gap)
    records = records[: len(records) - notes]
    usual = [known.most_common(1)[0][0] if known else _GENERAL for known in seen]
    gone = {j for j, name in enumerate(header) if name is None and not any(layout.is_filled(row[j]) for row in records)}
    kept = [j for j in range(width) if j not in gone]
    findings = layout.said_of_rows(titled, empty, len(gone), notes)
    if kept and header[kept[0]] is None and ROW_NAMES not in header:
        header = [*header[: kept[0]], ROW_NAMES, *header[kept[0] + 1 :]]
        findings.append(ROW_NAMES_SAID)
    if gone:
        records = [tuple(row[j] for j in kept) for row in records]
    return SheetTable([header[j] for j in kept], records, [usual[j] for j in kept], findings)


def _heading(rows: Iterator[Row], path: Path, read_options: formats.ReadOptions) -> tuple[list[Any], int, list[Row]]:
    """The row of names without its empty end, its place if others stand above, and rows below that were looked at."""
    first = (read_options.header_row or 1) - 1 + (read_options.skip_rows or 0)
    skipped = sum(1 for _ in islice(rows, first))
    looked_at = list(islice(rows, layout.LOOKED_AT))
    values = [tuple(cell.value for cell in row) for row in looked_at]
    if not looked_at or (read_options.header_row is None and not any(map(layout.is_filled, chain(*values)))):
        hint = "check --header-row or --skip-rows" if skipped else "name another with --sheet"
        raise DataError(f"{shown(path)}: the sheet is empty" + (f" from row {first + 1} on" if first else ""), hint)
    place = 0 if read_options.header_row is not None else layout.find_header(values)
    header = [cell if layout.is_filled(cell) else None for cell in values[place]]
    while header and header[-1] is None:
        header.pop()
    check_shape(path, len(header))
    titled = skipped + place if skipped or any(map(layout.is_filled, chain(*values[:place]))) else 0
    return header, titled, looked_at[place + 1 :]


def _columns(
    cells: Mapping[str, list[Any]], path: Path, decimal: str | None
) -> tuple[list[MixedColumn], dict[str, Original]]:
    """Columns of cells in their types; and those among them that have numbers written as text, with the text."""
    texts = {name: _numerals(column) for name, column in cells.items()}
    given = [pl.Series(name, column, pl.String) for name, column in texts.items() if column is not None]
    found, _ = find_numbers(given, path, separator="", decimal=decimal)
    loose, spelled = [], {}
    for name, column in cells.items():
        original = found.get(name)
        mixed = [cell for cell in column if isinstance(cell, int | float)]
        if original is None or (original.unit and mixed):  # 0.45 and 45 % in one column: nobody knows what is meant
            loose.append(MixedColumn.read(name, as_dates(column) or column))
            continue
        spelled[name] = original
        numbers = zip(column, original.numbers.to_list(), strict=True)
        loose.append(MixedColumn.of_numbers(name, [c if isinstance(c, int | float) else n for c, n in numbers], column))
    return loose, spelled


def _numerals(column: Sequence[Any]) -> list[str | None] | None:
    """The texts of a column that has nothing but texts and numbers; None if it has other cells, or no text to read."""
    kinds = {type(cell) for cell in column if layout.is_filled(cell)}
    if str not in kinds or not kinds <= {str, int, float}:
        return None
    texts = [cell if isinstance(cell, str) else None for cell in column]
    return None if all(text is None or text.strip() in formats.MISSING for text in texts) else texts


def _format_with(original: Original) -> str:
    """A number format that shows the decimals and the unit that texts had."""
    decimals = least_decimals(original.text if original.plain is None else original.plain)
    digits = f"0.{'0' * decimals}" if decimals and original.numbers.dtype.is_float() else "0"
    before, after = (f'"{part}"' if part else "" for part in (original.before, original.after))
    return f"{before}{digits}{after}" if original.unit else _GENERAL


def _check_formulas(file: IO[bytes], sheet: Any, path: Path) -> None:
    """Refuse formulas without a result: programs that do not calculate leave it out, and the cell would seem empty."""
    with ZipFile(file) as archive, archive.open(sheet._worksheet_path.lstrip("/")) as stream:
        if not _has_formulas(stream):
            return
    unevaluated = openpyxl.load_workbook(file, read_only=True)[sheet.title]
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
