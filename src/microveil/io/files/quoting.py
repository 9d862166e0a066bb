"""Which cells of a CSV file stand in quotes: those that must, all, or all text, as R writes it.

What a file does is judged by its records, and done again for the release.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from microveil.core.late import pl
from microveil.io.files.numerals import MISSING

SAMPLED_BYTES: Final = 2**16
"""Bytes of a file by which its quoting is judged."""

_TOKENS: Final = {token.encode() for token in MISSING}


@dataclass(frozen=True)
class Quoting:
    """Which columns are quoted, by name; whether the names are; whether an empty cell is `""`; whether NA is bare."""

    columns: Mapping[str, bool] = field(default_factory=dict)
    names: bool = False
    empty: bool = False
    bare_missing: bool = False

    @property
    def description(self) -> str:
        """`all cells quoted`; nothing for what is usual."""
        if not any(self.columns.values()):
            return ""
        return "all cells quoted" if all(self.columns.values()) else "text quoted"

    def wants(self, name: str, *, text: bool) -> bool:
        """Whether all cells of a column stand in quotes; a column that is new does as the others of its kind."""
        usual = any(self.columns.values()) and (text or all(self.columns.values()))
        return self.columns.get(name, usual)


def find_quoting(names: Sequence[str], header: bytes, records: bytes, separator: str) -> Quoting:
    """How a file quotes, by the bytes of its `header` and of its first `records`; `names` are those of its columns."""
    if b'"' not in header and b'"' not in records:
        return Quoting()
    quoted_names = all(cell.startswith(b'"') for cell in _cells(header, separator))
    cells = _cells(records, separator)
    del cells[len(cells) - len(cells) % len(names) :]
    if len(records) == SAMPLED_BYTES:
        del cells[-len(names) :]  # which may be cut
    columns = {name: cells[place :: len(names)] for place, name in enumerate(names)}
    flat = [cell for cell in cells if cell != b'""']
    if not any(cell.startswith(b'"') and _needless(cell, separator) for cell in flat):  # the others had to be
        return Quoting(names=quoted_names and any(_needless(cell, separator) for cell in _cells(header, separator)))
    return Quoting(
        {name: _is_quoted(column) for name, column in columns.items()},
        quoted_names,
        b'""' in cells,
        any(cell and cell in _TOKENS for cell in cells),
    )


def _is_quoted(cells: Sequence[bytes]) -> bool:
    """Whether every cell of a column is, but for empty ones and words for missing."""
    bare = [cell for cell in cells if not cell.startswith(b'"')]
    return any(cell.startswith(b'"') and cell != b'""' for cell in cells) and all(c.strip() in _TOKENS for c in bare)


def _cells(text: bytes, separator: str) -> list[bytes]:
    """Raw cells with their quotes. Empty lines are none."""
    mark = re.escape(separator.encode())
    plain = rb"[^" + mark + rb"\r\n]*"
    pattern = re.compile(rb'("(?:[^"]|"")*"?' + plain + rb"|" + plain + rb")(" + mark + rb"|\r\n|\r|\n|$)")
    found, position, ended = [], 0, True
    while position < len(text):
        match = pattern.match(text, position)
        if match is None:
            break
        position = match.end()
        ends = match[2] != separator.encode()
        if match[1] or not (ended and ends):
            found.append(match[1])
        ended = ends
    return found


def _needless(cell: bytes, separator: str) -> bool:
    return not any(mark in cell[1:-1] for mark in (separator.encode(), b'"', b"\n", b"\r"))


def quoted_cells(cells: pl.DataFrame, numbers: Collection[str], quoting: Quoting, separator: str) -> pl.DataFrame:
    """The `cells` as text, in quotes where the file has them; `numbers` names the columns of numbers."""

    def quoted(name: str) -> pl.Expr:
        text = pl.selectors.by_name(name).as_expr().cast(pl.String)  # pl.col takes names such as * for patterns
        needed = text.str.contains_any([separator, '"', "\n", "\r"])
        wanted = needed
        if quoting.wants(name, text=name not in numbers):
            is_word = text.is_in([token for token in MISSING if token])
            wanted = needed | ~is_word if quoting.bare_missing else pl.lit(value=True)
        within = pl.format('"{}"', text.str.replace_all('"', '""', literal=True))
        empty = '""' if quoting.empty or cells.width == 1 else ""
        return pl.when(wanted).then(within).otherwise(text).fill_null(empty).alias(name)

    return cells.select(quoted(name) for name in cells.columns)
