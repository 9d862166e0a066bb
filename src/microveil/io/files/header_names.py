"""Names of columns as a file gives them in its first row, which must be names and not a record."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from microveil.core.errors import DataError
from microveil.io.files.numerals import MISSING
from microveil.storage.atomic import shown

_NUMBER: Final = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)


def check_names(names: list[str], path: Path) -> None:
    """Refuse a header with empty or repeated names, with one that cannot be worked with, or that is a record."""
    if looks_like_record(names):
        # Taken for names, the numbers of the first record would be released as they are.
        raise DataError(f"{shown(path)} has numbers in place of column names", "add a first line with the names")
    nameless = [position for position, name in enumerate(names, 1) if not name.strip()]
    if nameless:
        hint = "name it, or leave it out if it only numbers the rows"
        raise DataError(f"{shown(path)} has no name for column {nameless[0]} of {len(names)}", hint)
    positions: dict[str, list[int]] = {}
    for position, name in enumerate(names, 1):
        positions.setdefault(name, []).append(position)
    repeated = {name: where for name, where in positions.items() if len(where) > 1}
    if repeated:
        raise DataError(f"{shown(path)} repeats column names: {_listed(repeated)}", "rename them apart")
    check_no_pattern(names)


def check_no_pattern(names: Iterable[str]) -> None:
    """Refuse ^names$: polars works on a column by its name, takes these for patterns, and finds nothing or too much."""
    for name in names:
        if name.startswith("^") and name.endswith("$"):
            raise DataError(f"column {shown(name)} has a name that polars takes for a pattern", "rename it")


def looks_like_record(names: list[str]) -> bool:
    """Whether names are numbers, other than the counting ones (0, 1, 2; 2019, 2020) that tools and people write."""
    numbers = [name for name in names if _NUMBER.fullmatch(name)]
    blanks = [name for name in names if name.strip() in MISSING]
    if blanks and any(names) and len(numbers) + len(blanks) == len(names):
        return True
    if not numbers:
        return False
    if not all(re.fullmatch(r"\d{1,9}", name, re.ASCII) for name in numbers):
        return True
    counted = [int(name) for name in numbers]
    return counted != list(range(counted[0], counted[0] + len(counted)))


def _listed(repeated: Mapping[str, list[int]], limit: int = 5) -> str:
    """`'x' (columns 1, 3)`, for each repeated name; what could be a record's value is told by its position alone."""
    parts = []
    for name, where in list(repeated.items())[:limit]:
        columns = f"columns {', '.join(map(str, where))}"
        parts.append(columns if _NUMBER.fullmatch(name) or len(name) > 60 else f"{shown(name)} ({columns})")
    return "; ".join(parts) + ("; and others" if len(repeated) > limit else "")
