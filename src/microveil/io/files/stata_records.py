"""The records of a Stata file in the types they had.

pyreadstat writes every whole number as `long` and every fraction as `double`, and text no wider than it is; pandas
knows no missing values but `.`. Here the records are packed again as the columns say: byte, int, long, float or double,
with the code of each missing cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from microveil.core.late import pl

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
