"""The statistics packages: SPSS, Stata, and SAS (transport files in and out, data sets only in).

Labels, missing codes (of Stata .a to .z), formats and storage types of columns come back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from microveil.core.errors import FileError
from microveil.core.late import pl
from microveil.io.files.stat_packages import WORDS, Clock, StatFormat, StatSource
from microveil.io.files.stata_records import LONG_MISSING, repack
from microveil.storage.atomic import shown

# SPSS has seconds since the first day of the Gregorian calendar, the others count from 1960 on.
_GREGORIAN, _SIXTIES = "1582-10-14", "1960-01-01"
_DAYS, _SECONDS = Clock("date", _SIXTIES, 86_400_000), Clock("datetime", _SIXTIES, 1000)
_CLOCKS_OF_SPSS: Final = {
    r"[AEJS]?DATE|QYR|MOYR|WKYR": Clock("date", _GREGORIAN, 1000),
    r"DATETIME|YMDHMS": Clock("datetime", _GREGORIAN, 1000),
    r"[DM]?TIME": Clock("duration", _GREGORIAN, 1000),
}
_CLOCKS_OF_SAS: Final = {
    r"DATE|DAY|WEEKDATE|WEEKDATX|WORDDATE|WORDDATX|JULIAN|MONYY|YYMON|(?:DDMMYY|MMDDYY|YYMMDD)[BCDNPS]?"
    r"|(?:IS|E|B)8601DA": _DAYS,
    r"DATETIME|DATEAMPM|MDYAMPM|(?:IS|E|B)8601D[TN]": _SECONDS,
    r"TIME|HHMM|TOD|TIMEAMPM|(?:IS|E|B)8601TM": Clock("duration", _SIXTIES, 1000),
}
_SAS_NAME: Final = {5: re.compile(r"[A-Za-z_]\w{0,7}", re.ASCII), 8: re.compile(r"[A-Za-z_]\w{0,31}", re.ASCII)}
_AS_READ: Final = ("variable_value_labels", "missing_ranges", "variable_display_width", "variable_measure")
_RELEASE: Final = re.compile(rb"<stata_dta><header><release>(\d+)</release>")
# What pyreadstat calls the versions of Stata that write these releases of the format.
_VERSIONS: Final = {113: 8, 114: 10, 115: 12, 117: 13, 118: 14, 119: 15}
_USUAL: Final = 118


def _clock(clocks: Mapping[str, Clock], form: str) -> Clock | None:
    """By the name of the format, whatever its width."""
    name = re.sub(r"\d*\.?\d*$", "", form.upper())
    return next((clock for pattern, clock in clocks.items() if re.fullmatch(pattern, name)), None)


class Spss(StatFormat):
    """A file of SPSS or PSPP (.sav, .zsav)."""

    name: ClassVar[str] = "spss"
    title: ClassVar[str] = "SPSS"
    functions: ClassVar[str] = "sav"
    column_name = (
        re.compile(r"[^\W\d_][\w.@#$]{0,63}|[@#$][\w.@#$]{0,63}"),
        "names begin with a letter, and have at most 64 letters, digits and . _ @ # $",
    )
    default: ClassVar[StatSource] = StatSource(title)

    def clock(self, form: str) -> Clock | None:
        """By the name of the format."""
        return _clock(_CLOCKS_OF_SPSS, form)

    def write_settings(self, source_format: StatSource, columns: Sequence[str], shown_as: Path) -> dict[str, Any]:
        """What pyreadstat's reader found under the same names; and how the file is compressed."""
        zipped = shown_as.suffix.lower() == ".zsav"
        return {
            **{option: getattr(source_format.meta, option, None) for option in _AS_READ},
            "note": source_format.notes.get("note", "").splitlines(),
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
    default: ClassVar[StatSource] = StatSource(title, release=_USUAL)

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

    def write_settings(self, source_format: StatSource, columns: Sequence[str], shown_as: Path) -> dict[str, Any]:
        """The release of the source, and its labels; `.a` by the number that stands for it in a table of labels."""
        release = source_format.release if source_format.release in _VERSIONS else _USUAL
        known = {} if source_format.meta is None else source_format.meta.variable_value_labels

        def code(value: Any) -> Any:
            return LONG_MISSING + ord(value) - ord("`") if isinstance(value, str) else value

        labels = {name: {code(value): label for value, label in entry.items()} for name, entry in known.items()}
        return {"version": _VERSIONS[release], "variable_value_labels": labels}

    def finish(
        self, path: Path, cells: pl.DataFrame, letters: Mapping[str, pl.Series], source_format: StatSource
    ) -> None:
        """The columns get the storage types they had."""
        widths = {} if source_format.meta is None else source_format.meta.variable_storage_width
        repack(path, cells, letters, {name: width - 1 for name, width in widths.items()})  # less the end of the text


class SasTransport(StatFormat):
    """A transport file of SAS (.xpt), of version 5 or 8."""

    name: ClassVar[str] = "xport"
    title: ClassVar[str] = "SAS transport"
    functions: ClassVar[str] = "xport"
    column_name = _SAS_NAME[8], WORDS
    read_settings: ClassVar[Mapping[str, Any]] = {}
    default: ClassVar[StatSource] = StatSource(title, release=8)

    def clock(self, form: str) -> Clock | None:
        """By the name of the format."""
        return _clock(_CLOCKS_OF_SAS, form)

    def release(self, path: Path) -> int:
        """As the first record says."""
        with path.open("rb") as file:
            return 8 if b"LIBV8" in file.read(80) else 5

    def write_settings(self, source_format: StatSource, columns: Sequence[str], shown_as: Path) -> dict[str, Any]:
        """The version of the source, which decides how long names are."""
        version = source_format.release or 8
        fit = all(_SAS_NAME[version].fullmatch(name) for name in columns)
        meta = source_format.meta
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

    def release(self, path: Path) -> int:
        """Of no use."""
        return 0

    def check_holds(self, frame: pl.DataFrame, path: Path) -> None:
        """Refuse to begin."""
        raise FileError(f"{shown(path)} cannot be written: only SAS writes such files", "write a .xpt file instead")
