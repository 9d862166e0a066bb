"""SPSS files (.sav, .zsav): labels, user-missing codes, measures, widths and formats of columns come back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from microveil.io.files.stat_packages import Clock, StatFormat, StatSource

# Dates are seconds since the first day of the Gregorian calendar.
_ORIGIN: Final = "1582-10-14"
_CLOCKS: Final = {
    **dict.fromkeys(("DATE", "ADATE", "EDATE", "JDATE", "SDATE", "QYR", "MOYR", "WKYR"), Clock("date", _ORIGIN, 1000)),
    **dict.fromkeys(("DATETIME", "YMDHMS"), Clock("datetime", _ORIGIN, 1000)),
    **dict.fromkeys(("TIME", "DTIME", "MTIME"), Clock("duration", _ORIGIN, 1000)),
}
_SAME: Final = ("variable_value_labels", "missing_ranges", "variable_display_width", "variable_measure")


class Spss(StatFormat):
    """A file of SPSS or PSPP."""

    name: ClassVar[str] = "spss"
    title: ClassVar[str] = "SPSS"
    functions: ClassVar[str] = "sav"
    column_name = (
        re.compile(r"[^\W\d_][\w.@#$]{0,63}|[@#$][\w.@#$]{0,63}"),
        "names begin with a letter, and have at most 64 letters, digits and . _ @ # $",
    )
    default: ClassVar[StatSource] = StatSource(title)

    def clock(self, form: str) -> Clock | None:
        """By the name of the format, whatever its width."""
        return _CLOCKS.get(re.sub(r"[\d.]+$", "", form.upper()))

    def write_settings(self, source_format: StatSource, columns: Sequence[str], shown_as: Path) -> dict[str, Any]:
        """What pyreadstat's reader found under the same names; and how the file is compressed."""
        zipped = shown_as.suffix.lower() == ".zsav"
        return {
            **{option: getattr(source_format.meta, option, None) for option in _SAME},
            "note": source_format.notes.get("note", "").splitlines(),
            "compress": zipped,
            "row_compress": not zipped,
        }
