"""Stata files (.dta): labels, extended missing values (.a to .z), formats and storage types come back."""

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
from microveil.io.files.stata_records import TYPES, repack

if TYPE_CHECKING:
    import polars as pl

_ORIGIN: Final = "1960-01-01"
_DAY: Final = 86_400_000
_NAME: Final = re.compile(r"[^\W\d][\w]{0,31}")
_RELEASE: Final = re.compile(rb"<stata_dta><header><release>(\d+)</release>")
# What pyreadstat calls the versions of Stata that write these releases of the format.
_VERSIONS: Final = {113: 8, 114: 10, 115: 12, 117: 13, 118: 14, 119: 15}
_USUAL: Final = 118


class Stata(Format):
    """A file of Stata."""

    name: ClassVar[str] = "stata"
    default: ClassVar[StatSource] = StatSource("Stata", release=_USUAL)

    def read(self, path: Path, read_options: ReadOptions) -> tuple[pl.DataFrame, StatSource]:
        """Whole numbers and fractions are as narrow as in the file."""
        with path.open("rb") as file:
            start = file.read(64)
        found = _RELEASE.match(start)
        release = int(found[1]) if found else start[0]
        return read_stat("read_dta", path, "Stata", _clock, release, user_missing=True)

    def write(self, frame: pl.DataFrame, path: Path, source_format: StatSource, *, shown_as: Path) -> None:
        """Write with everything the source said about its columns, in its release of the format."""
        cells, letters = stored_columns(frame, source_format, padded=False)
        release = source_format.release if source_format.release in _VERSIONS else _USUAL
        write_stat("write_dta", cells, path, shown_as, version=_VERSIONS[release], **_about(source_format))
        widths = {} if source_format.meta is None else source_format.meta.variable_storage_width
        repack(path, cells, letters, {name: width - 1 for name, width in widths.items()})  # less the end of the text

    def check_holds(self, frame: pl.DataFrame, path: Path) -> None:
        """Names are words."""
        check_names(frame, path, _NAME, "names are letters, digits and _, at most 32, not beginning with a digit")


def _clock(form: str) -> Clock | None:
    """Days for %td, milliseconds for %tc. Months and quarters are counted in units of no fixed length."""
    if form.startswith(("%td", "%d", "%-td", "%-d")) and not re.fullmatch(r"%-?\d+.*", form):
        return Clock("date", _ORIGIN, _DAY)
    return Clock("datetime", _ORIGIN, 1) if form.startswith(("%tc", "%tC", "%-tc", "%-tC")) else None


def _about(source_format: StatSource) -> dict[str, Any]:
    """What pyreadstat takes of what it found."""
    meta = source_format.meta
    if meta is None:
        return {}
    labels = {
        name: {_code(value): label for value, label in known.items()}
        for name, known in meta.variable_value_labels.items()
    }
    return {
        **labelled(source_format),
        "column_labels": {name: label for name, label in meta.column_names_to_labels.items() if label is not None},
        "variable_value_labels": labels,
        "variable_format": {name: form for name, form in meta.original_variable_types.items() if form},
    }


def _code(value: Any) -> Any:
    """A value that has a label; `.a` by the number that stands for it in a table of labels."""
    return TYPES["long"].missing + ord(value) - ord("`") if isinstance(value, str) else value
