"""The statistics packages: SPSS, Stata, and SAS (transport files in and out, data sets only in).

Labels, missing codes (of Stata .a to .z), formats and storage types of columns come back. Of a Stata file, pyreadstat
writes every whole number as `long` and every fraction as `double`, and text no wider than it is; pandas knows no value
for missing cells but `.`. Its records are packed again as the columns say: byte, int, long, float or double, with
the code of each missing cell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from microveil.core.errors import FileError
from microveil.core.late import pl
from microveil.io.files.stat_packages import WORDS, Clock, StatFileFormat, StatFormat
from microveil.storage.atomic import shown

LONG_MISSING: Final = 2147483621
_STRL: Final = 32768
_DATA: Final = 9  # its place in the map of the file's parts


class _Storage(NamedTuple):
    """A numeric type: the code of `.`, the step to `.a`, and the largest value."""

    dtype: str
    missing: int
    step: int
    largest: float


# byte, int, long, float, double: the order of their codes
_NUMERIC: Final = (
    _Storage("<i1", 101, 1, 100),
    _Storage("<i2", 32741, 1, 32740),
    _Storage("<i4", LONG_MISSING, 1, 2147483620),
    _Storage("<f4", 0x7F000000, 0x800, np.inf),
    _Storage("<f8", 0x7FE0000000000000, 0x10000000000, np.inf),
)
_NARROWEST: Final = {"Int8": (0, 1, 2), "Int16": (1, 2), "Int32": (2,), "Float32": (3,)}


class _Layout(NamedTuple):
    """Where the types and the records are, how a type is written, and what map of the file there is to correct."""

    types: int
    records: int
    type_dtype: str
    codes: range
    widest: int
    map: int | None

    def storage(self, code: int) -> _Storage | None:
        """The numeric type of a code; nothing for text."""
        return _NUMERIC[self.codes.index(code)] if code in self.codes else None

    def record(self, codes: list[int]) -> np.dtype[Any]:
        """What numpy calls records of columns of these types."""
        found = [self.storage(code) for code in codes]
        text = ("V8" if code == _STRL else f"S{code}" for code in codes)
        return np.dtype([("", name if kind is None else kind.dtype) for kind, name in zip(found, text, strict=True)])


def repack(path: Path, cells: pl.DataFrame, letters: Mapping[str, pl.Series], widths: Mapping[str, int]) -> None:
    """Write the file at `path` again, its numbers in the types of the columns and its text as wide as it was.

    `cells` are the columns as they were written, `letters` those of missing cells by column, `widths` those of text.
    """
    content = path.read_bytes()
    layout = _layout(content, cells.width)
    codes = np.frombuffer(content, layout.type_dtype, cells.width, layout.types).tolist()
    records = np.frombuffer(content, layout.record(codes), cells.height, layout.records)
    pairs = zip(cells.get_columns(), codes, strict=True)
    wanted = [_wanted(column, code, widths.get(column.name, 0), layout) for column, code in pairs]
    packed = np.zeros(cells.height, layout.record(wanted))
    for place, column, code in zip(records.dtype.names or (), cells.get_columns(), wanted, strict=True):
        storage = layout.storage(code)
        if storage is None or not column.dtype.is_numeric():  # text, or a date that pyreadstat has turned into a number
            packed[place] = records[place]
        else:
            packed[place] = _numbers(column, letters.get(column.name), storage)
    types = np.array(wanted, layout.type_dtype).tobytes()
    start = bytearray(content[: layout.records])
    start[layout.types : layout.types + len(types)] = types
    if layout.map is not None:
        places = np.frombuffer(content, "<i8", 14, layout.map).copy()
        places[_DATA + 1 :] += packed.nbytes - records.nbytes
        start[layout.map : layout.map + places.nbytes] = places.tobytes()
    with path.open("wb") as file:
        file.writelines((start, packed.tobytes(), content[layout.records + records.nbytes :]))


def _layout(content: bytes, width: int) -> _Layout:
    mark = b"</header><map>"
    if content.startswith(b"<stata_dta>"):
        place = content.index(mark) + len(mark)
        places = np.frombuffer(content, "<i8", 14, place).tolist()
        types, records = places[2] + len(b"<variable_types>"), places[_DATA] + len(b"<data>")
        return _Layout(types, records, "<u2", range(65530, 65525, -1), 2045, place)
    # Releases up to 115: parts of fixed length, then pieces that say their own.
    form = 12 if content[0] < 114 else 49
    place = 109 + width + 33 * width + 2 * (width + 1) + (form + 33 + 81) * width
    while any(content[place : place + 5]):
        place += 5 + int.from_bytes(content[place + 1 : place + 5], "little")
    return _Layout(109, place + 5, "<u1", range(251, 256), 244, None)


def _wanted(column: pl.Series, code: int, width: int, layout: _Layout) -> int:
    """The type for a column that has type `code`: as narrow as its own, if its values fit; text is `width` wide."""
    if layout.storage(code) is None:
        return code if code > layout.widest else max(code, min(width, layout.widest))
    largest: Any = column.max() if column.dtype.is_integer() else None
    for place in _NARROWEST.get(str(column.dtype), ()):
        if largest is None or largest <= _NUMERIC[place].largest:
            return layout.codes[place]
    return code


def _numbers(column: pl.Series, letters: pl.Series | None, storage: _Storage) -> NDArray[Any]:
    """Values in their type, and the code of each missing cell."""
    column = column.fill_nan(None) if column.dtype.is_float() else column
    missing = column.is_null().to_numpy()
    values = column.fill_null(0).to_numpy().astype(storage.dtype)
    which = np.zeros(len(column), dtype=np.int64)
    if letters is not None:
        tags = letters.fill_null("`").to_numpy()  # the sign before 'a'
        which = np.array([ord(tag) - ord("`") for tag in tags], dtype=np.int64)
    bits = values.view(storage.dtype.replace("f", "i"))
    bits[missing] = (storage.missing + storage.step * which[missing]).astype(bits.dtype)
    return values


# SPSS has seconds since the first day of the Gregorian calendar, the others count from 1960 on.
_GREGORIAN, _SIXTIES = "1582-10-14", "1960-01-01"
_DAYS = Clock("date", _SIXTIES, 86_400_000)
_SAS_NAME: Final = {5: re.compile(r"[A-Za-z_]\w{0,7}", re.ASCII), 8: re.compile(r"[A-Za-z_]\w{0,31}", re.ASCII)}
_AS_READ: Final = ("variable_value_labels", "missing_ranges", "variable_display_width", "variable_measure")
_RELEASE: Final = re.compile(rb"<stata_dta><header><release>(\d+)</release>")
# What pyreadstat calls the versions of Stata that write these releases of the format.
_VERSIONS: Final = {113: 8, 114: 10, 115: 12, 117: 13, 118: 14, 119: 15}
_USUAL: Final = 118


class Spss(StatFormat):
    """A file of SPSS or PSPP (.sav, .zsav)."""

    name: ClassVar[str] = "spss"
    title: ClassVar[str] = "SPSS"
    functions: ClassVar[str] = "sav"
    column_name = (
        re.compile(r"[^\W\d_][\w.@#$]{0,63}|[@#$][\w.@#$]{0,63}"),
        "names begin with a letter, and have at most 64 letters, digits and . _ @ # $",
    )
    default: ClassVar[StatFileFormat] = StatFileFormat(title=title)
    clocks: ClassVar[Mapping[str, Clock]] = {
        r"[AEJS]?DATE|QYR|MOYR|WKYR": Clock("date", _GREGORIAN, 1000),
        r"DATETIME|YMDHMS": Clock("datetime", _GREGORIAN, 1000),
        r"[DM]?TIME": Clock("duration", _GREGORIAN, 1000),
    }

    def write_settings(self, like: StatFileFormat, columns: Sequence[str], shown_as: Path) -> dict[str, Any]:
        """What pyreadstat's reader found under the same names; and how the file is compressed."""
        zipped = shown_as.suffix.lower() == ".zsav"
        return {
            **{option: getattr(like.meta, option, None) for option in _AS_READ},
            "note": like.notes.get("note", "").splitlines(),
            "compress": zipped,
            "row_compress": not zipped,
        }


class Stata(StatFormat):
    """A file of Stata (.dta)."""

    name: ClassVar[str] = "stata"
    title: ClassVar[str] = "Stata"
    functions: ClassVar[str] = "dta"
    column_name = re.compile(r"[^\W\d][\w]{0,31}"), WORDS
    padded: ClassVar[bool] = False
    default: ClassVar[StatFileFormat] = StatFileFormat(title=title, release=_USUAL)

    def clock(self, form: str) -> Clock | None:
        """Days for %td, milliseconds for %tc. Months and quarters are counted in units of no fixed length."""
        if form.startswith(("%td", "%d", "%-td", "%-d")) and not re.fullmatch(r"%-?\d+.*", form):
            return _DAYS
        return Clock("datetime", _SIXTIES, 1) if form.startswith(("%tc", "%tC", "%-tc", "%-tC")) else None

    def release(self, path: Path) -> int:
        """As the header says: in words, or in the first byte of older files."""
        with path.open("rb") as file:
            start = file.read(64)
        found = _RELEASE.match(start)
        return int(found[1]) if found else start[0]

    def write_settings(self, like: StatFileFormat, columns: Sequence[str], shown_as: Path) -> dict[str, Any]:
        """The release of the source, and its labels; `.a` by the number that stands for it in a table of labels."""
        release = like.release if like.release in _VERSIONS else _USUAL
        known = {} if like.meta is None else like.meta.variable_value_labels

        def code(value: Any) -> Any:
            return LONG_MISSING + ord(value) - ord("`") if isinstance(value, str) else value

        labels = {name: {code(value): label for value, label in entry.items()} for name, entry in known.items()}
        return {"version": _VERSIONS[release], "variable_value_labels": labels}

    def finish(self, path: Path, cells: pl.DataFrame, letters: Mapping[str, pl.Series], like: StatFileFormat) -> None:
        """The columns get the storage types they had."""
        widths = {} if like.meta is None else like.meta.variable_storage_width
        repack(path, cells, letters, {name: width - 1 for name, width in widths.items()})  # less the end of the text


class SasTransport(StatFormat):
    """A transport file of SAS (.xpt), of version 5 or 8."""

    name: ClassVar[str] = "xport"
    title: ClassVar[str] = "SAS transport"
    functions: ClassVar[str] = "xport"
    column_name = _SAS_NAME[8], WORDS
    read_settings: ClassVar[Mapping[str, Any]] = {}
    default: ClassVar[StatFileFormat] = StatFileFormat(title=title, release=8)
    clocks: ClassVar[Mapping[str, Clock]] = {
        r"DATE|DAY|WEEKDATE|WEEKDATX|WORDDATE|WORDDATX|JULIAN|MONYY|YYMON|(?:DDMMYY|MMDDYY|YYMMDD)[BCDNPS]?"
        r"|(?:IS|E|B)8601DA": _DAYS,
        r"DATETIME|DATEAMPM|MDYAMPM|(?:IS|E|B)8601D[TN]": Clock("datetime", _SIXTIES, 1000),
        r"TIME|HHMM|TOD|TIMEAMPM|(?:IS|E|B)8601TM": Clock("duration", _SIXTIES, 1000),
    }

    def release(self, path: Path) -> int:
        """As the first record says."""
        with path.open("rb") as file:
            return 8 if b"LIBV8" in file.read(80) else 5

    def write_settings(self, like: StatFileFormat, columns: Sequence[str], shown_as: Path) -> dict[str, Any]:
        """The version of the source, which decides how long names are."""
        version = like.release or 8
        fit = all(_SAS_NAME[version].fullmatch(name) for name in columns)
        meta = like.meta
        informats = {} if meta is None else meta.original_variable_informats
        return {
            "file_format_version": version if fit else 8,
            "table_name": None if meta is None else meta.table_name,
            "variable_informat": {name: form for name, form in informats.items() if form},
        }


class SasDataSet(SasTransport):
    """A data set of SAS (.sas7bdat), which only SAS writes."""

    name: ClassVar[str] = "sas7bdat"
    title: ClassVar[str] = "SAS"
    functions: ClassVar[str] = "sas7bdat"
    read_settings: ClassVar[Mapping[str, Any]] = StatFormat.read_settings

    def check_holds(self, frame: pl.DataFrame, path: Path) -> None:
        """Refuse to begin."""
        raise FileError(f"{shown(path)} cannot be written: only SAS writes such files", "write a .xpt file instead")
