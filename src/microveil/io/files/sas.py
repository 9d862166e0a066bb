"""SAS files: transport files (.xpt) in and out with labels and formats, data sets (.sas7bdat) only in."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from microveil.core.errors import FileError
from microveil.io.files.formats import Format, ReadOptions
from microveil.io.files.stat_packages import (
    Clock,
    StatSource,
    check_names,
    labelled,
    read_stat,
    stored_columns,
    write_stat,
)
from microveil.storage.atomic import shown

if TYPE_CHECKING:
    import polars as pl

_ORIGIN: Final = "1960-01-01"
_DATES: Final = re.compile(
    r"(?:DATE|DAY|WEEKDATE|WEEKDATX|WORDDATE|WORDDATX|JULIAN|MONYY|YYMON|(?:DDMMYY|MMDDYY|YYMMDD)[BCDNPS]?|(?:IS|E|B)8601DA)"
)
_MOMENTS: Final = re.compile(r"(?:DATETIME|DATEAMPM|MDYAMPM|(?:IS|E|B)8601D[TN])")
_TIMES: Final = re.compile(r"(?:TIME|HHMM|TOD|TIMEAMPM|(?:IS|E|B)8601TM)")
_NAME: Final = {5: re.compile(r"[A-Za-z_]\w{0,7}", re.ASCII), 8: re.compile(r"[A-Za-z_]\w{0,31}", re.ASCII)}


class Transport(Format):
    """A transport file, of version 5 or 8."""

    name: ClassVar[str] = "xport"
    default: ClassVar[StatSource] = StatSource("SAS transport", release=8)

    def read(self, path: Path, read_options: ReadOptions) -> tuple[pl.DataFrame, StatSource]:
        """Numbers are Float64, as SAS has no other."""
        with path.open("rb") as file:
            release = 8 if b"LIBV8" in file.read(80) else 5
        return read_stat("read_xport", path, "SAS transport", _clock, release)

    def write(self, frame: pl.DataFrame, path: Path, source_format: StatSource, *, shown_as: Path) -> None:
        """Write in the version of the source, which decides how long names are."""
        cells, _ = stored_columns(frame, source_format, padded=True)
        version = source_format.release or 8
        if not all(_NAME[version].fullmatch(name) for name in frame.columns):
            version = 8
        write_stat("write_xport", cells, path, shown_as, file_format_version=version, **_about(source_format))

    def check_holds(self, frame: pl.DataFrame, path: Path) -> None:
        """Names are words."""
        check_names(frame, path, _NAME[8], "names are letters, digits and _, at most 32, not beginning with a digit")


class DataSet(Format):
    """A data set of SAS, which only SAS writes."""

    name: ClassVar[str] = "sas7bdat"

    def read(self, path: Path, read_options: ReadOptions) -> tuple[pl.DataFrame, StatSource]:
        """Numbers are Float64."""
        return read_stat("read_sas7bdat", path, "SAS", _clock, user_missing=True)

    def write(self, frame: pl.DataFrame, path: Path, source_format: Any, *, shown_as: Path) -> None:
        """Never."""
        self.check_holds(frame, shown_as)

    def check_holds(self, frame: pl.DataFrame, path: Path) -> None:
        """Refuse to begin."""
        raise FileError(f"{shown(path)} cannot be written: only SAS writes such files", "write a .xpt file instead")


def _clock(form: str) -> Clock | None:
    name = re.sub(r"\d*\.?\d*$", "", form.upper())
    if _DATES.fullmatch(name):
        return Clock("date", _ORIGIN, 86_400_000)
    if _MOMENTS.fullmatch(name):
        return Clock("datetime", _ORIGIN, 1000)
    return Clock("duration", _ORIGIN, 1000) if _TIMES.fullmatch(name) else None


def _about(source_format: StatSource) -> dict[str, Any]:
    """What pyreadstat takes of what it found."""
    meta = source_format.meta
    if meta is None:
        return {}
    return {
        **labelled(source_format),
        "table_name": meta.table_name,
        "column_labels": {name: label for name, label in meta.column_names_to_labels.items() if label is not None},
        "variable_format": {name: form for name, form in meta.original_variable_types.items() if form},
        "variable_informat": {name: form for name, form in meta.original_variable_informats.items() if form},
    }
