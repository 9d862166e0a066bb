"""SPSS files (.sav, .zsav): labels, user-missing codes, measures, widths and formats of columns come back."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

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

if TYPE_CHECKING:
    import polars as pl

# Dates are seconds since the first day of the Gregorian calendar.
_ORIGIN: Final = "1582-10-14"
_CLOCKS: Final = {
    **dict.fromkeys(("DATE", "ADATE", "EDATE", "JDATE", "SDATE", "QYR", "MOYR", "WKYR"), Clock("date", _ORIGIN, 1000)),
    **dict.fromkeys(("DATETIME", "YMDHMS"), Clock("datetime", _ORIGIN, 1000)),
    **dict.fromkeys(("TIME", "DTIME", "MTIME"), Clock("duration", _ORIGIN, 1000)),
}
_NAME: Final = re.compile(r"[^\W\d_][\w.@#$]{0,63}|[@#$][\w.@#$]{0,63}")


class Spss(Format):
    """A file of SPSS or PSPP."""

    name: ClassVar[str] = "spss"
    default: ClassVar[StatSource] = StatSource("SPSS")

    def read(self, path: Path, read_options: ReadOptions) -> tuple[pl.DataFrame, StatSource]:
        """Numbers are Float64, as SPSS has no other."""
        return read_stat("read_sav", path, "SPSS", _clock, user_missing=True)

    def write(self, frame: pl.DataFrame, path: Path, source_format: StatSource, *, shown_as: Path) -> None:
        """Write with everything the source said about its columns."""
        cells, _ = stored_columns(frame, source_format, padded=True)
        zipped = shown_as.suffix.lower() == ".zsav"
        about = {
            **labelled(source_format),
            "note": source_format.notes.get("note", "").splitlines(),
            **_about(source_format.meta),
        }
        write_stat("write_sav", cells, path, shown_as, compress=zipped, row_compress=not zipped, **about)

    def check_holds(self, frame: pl.DataFrame, path: Path) -> None:
        """Names begin with a letter and have no space."""
        check_names(frame, path, _NAME, "names begin with a letter, and have at most 64 letters, digits and . _ @ # $")


def _clock(form: str) -> Clock | None:
    return _CLOCKS.get(re.sub(r"[\d.]+$", "", form.upper()))


def _about(meta: Any) -> dict[str, Any]:
    """What pyreadstat takes of what it found."""
    if meta is None:
        return {}
    return {
        "column_labels": {name: label for name, label in meta.column_names_to_labels.items() if label is not None},
        "variable_value_labels": meta.variable_value_labels,
        "missing_ranges": meta.missing_ranges,
        "variable_display_width": meta.variable_display_width,
        "variable_measure": meta.variable_measure,
        "variable_format": {name: form for name, form in meta.original_variable_types.items() if form},
    }
