"""SAS files: transport files (.xpt) in and out with labels and formats, data sets (.sas7bdat) only in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from microveil.core.errors import FileError
from microveil.core.late import pl
from microveil.io.files.stat_packages import WORDS, Clock, StatFormat, StatSource
from microveil.storage.atomic import shown

_ORIGIN: Final = "1960-01-01"
_CLOCKS: Final = {
    re.compile(
        r"(?:DATE|DAY|WEEKDATE|WEEKDATX|WORDDATE|WORDDATX|JULIAN|MONYY|YYMON|(?:DDMMYY|MMDDYY|YYMMDD)[BCDNPS]?|(?:IS|E|B)8601DA)"
    ): Clock("date", _ORIGIN, 86_400_000),
    re.compile(r"(?:DATETIME|DATEAMPM|MDYAMPM|(?:IS|E|B)8601D[TN])"): Clock("datetime", _ORIGIN, 1000),
    re.compile(r"(?:TIME|HHMM|TOD|TIMEAMPM|(?:IS|E|B)8601TM)"): Clock("duration", _ORIGIN, 1000),
}
_NAME: Final = {5: re.compile(r"[A-Za-z_]\w{0,7}", re.ASCII), 8: re.compile(r"[A-Za-z_]\w{0,31}", re.ASCII)}


class SasTransport(StatFormat):
    """A transport file, of version 5 or 8."""

    name: ClassVar[str] = "xport"
    title: ClassVar[str] = "SAS transport"
    functions: ClassVar[str] = "xport"
    column_name = _NAME[8], WORDS
    read_settings: ClassVar[Mapping[str, Any]] = {}
    default: ClassVar[StatSource] = StatSource(title, release=8)

    def clock(self, form: str) -> Clock | None:
        """By the name of the format, whatever its width."""
        name = re.sub(r"\d*\.?\d*$", "", form.upper())
        return next((clock for pattern, clock in _CLOCKS.items() if pattern.fullmatch(name)), None)

    def release(self, path: Path) -> int:
        """As the first record says."""
        with path.open("rb") as file:
            return 8 if b"LIBV8" in file.read(80) else 5

    def write_settings(self, source_format: StatSource, columns: Sequence[str], shown_as: Path) -> dict[str, Any]:
        """The version of the source, which decides how long names are."""
        version = source_format.release or 8
        fit = all(_NAME[version].fullmatch(name) for name in columns)
        meta = source_format.meta
        informats = {} if meta is None else meta.original_variable_informats
        return {
            "file_format_version": version if fit else 8,
            "table_name": None if meta is None else meta.table_name,
            "variable_informat": {name: form for name, form in informats.items() if form},
        }


class SasDataSet(SasTransport):
    """A data set of SAS, which only SAS writes."""

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
