"""Stata files (.dta): labels, extended missing values (.a to .z), formats and storage types come back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from microveil.core.late import pl
from microveil.io.files.stat_packages import WORDS, Clock, StatFormat, StatSource
from microveil.io.files.stata_records import LONG_MISSING, repack

_ORIGIN: Final = "1960-01-01"
_RELEASE: Final = re.compile(rb"<stata_dta><header><release>(\d+)</release>")
# What pyreadstat calls the versions of Stata that write these releases of the format.
_VERSIONS: Final = {113: 8, 114: 10, 115: 12, 117: 13, 118: 14, 119: 15}
_USUAL: Final = 118


class Stata(StatFormat):
    """A file of Stata."""

    name: ClassVar[str] = "stata"
    title: ClassVar[str] = "Stata"
    functions: ClassVar[str] = "dta"
    column_name = re.compile(r"[^\W\d][\w]{0,31}"), WORDS
    padded: ClassVar[bool] = False
    default: ClassVar[StatSource] = StatSource(title, release=_USUAL)

    def clock(self, form: str) -> Clock | None:
        """Days for %td, milliseconds for %tc. Months and quarters are counted in units of no fixed length."""
        if form.startswith(("%td", "%d", "%-td", "%-d")) and not re.fullmatch(r"%-?\d+.*", form):
            return Clock("date", _ORIGIN, 86_400_000)
        return Clock("datetime", _ORIGIN, 1) if form.startswith(("%tc", "%tC", "%-tc", "%-tC")) else None

    def release(self, path: Path) -> int:
        """As the header says: in words, or in the first byte of older files."""
        with path.open("rb") as file:
            start = file.read(64)
        found = _RELEASE.match(start)
        return int(found[1]) if found else start[0]

    def write_settings(self, source_format: StatSource, columns: Sequence[str], shown_as: Path) -> dict[str, Any]:
        """The release of the source, and its labels."""
        release = source_format.release if source_format.release in _VERSIONS else _USUAL
        known = {} if source_format.meta is None else source_format.meta.variable_value_labels
        labels = {name: {_code(value): label for value, label in entry.items()} for name, entry in known.items()}
        return {"version": _VERSIONS[release], "variable_value_labels": labels}

    def finish(
        self, path: Path, cells: pl.DataFrame, letters: Mapping[str, pl.Series], source_format: StatSource
    ) -> None:
        """The columns get the storage types they had."""
        widths = {} if source_format.meta is None else source_format.meta.variable_storage_width
        repack(path, cells, letters, {name: width - 1 for name, width in widths.items()})  # less the end of the text


def _code(value: Any) -> Any:
    """A value that has a label; `.a` by the number that stands for it in a table of labels."""
    return LONG_MISSING + ord(value) - ord("`") if isinstance(value, str) else value
