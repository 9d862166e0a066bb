"""The records of a Stata file in the types they had.

pyreadstat writes every whole number as `long` and every fraction as `double`, and text no wider than it is. Here the
records are packed again as the columns say: byte, int, long, float or double, with the code of each missing cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars as pl

_STRL: Final = 32768
_DATA: Final = 9  # its place in the map of the file's parts


@dataclass(frozen=True)
class _Storage:
    """A numeric type: its codes in new and old files, the code of `.`, the step to `.a`, and the largest value."""

    code: int
    old: int
    dtype: str
    missing: int
    step: int
    largest: float


TYPES: Final = {
    "byte": _Storage(65530, 251, "<i1", 101, 1, 100),
    "int": _Storage(65529, 252, "<i2", 32741, 1, 32740),
    "long": _Storage(65528, 253, "<i4", 2147483621, 1, 2147483620),
    "float": _Storage(65527, 254, "<f4", 0x7F000000, 0x800, np.inf),
    "double": _Storage(65526, 255, "<f8", 0x7FE0000000000000, 0x10000000000, np.inf),
}


@dataclass(frozen=True)
class _Layout:
    """Where the types and the records are, and how a type is written."""

    types: int
    records: int
    type_dtype: str
    old: bool
    map: int | None


def repack(path: Path, cells: pl.DataFrame, letters: Mapping[str, pl.Series], widths: Mapping[str, int]) -> None:
    """Write the file at `path` again, its numbers in the types of the columns and its text as wide as it was."""
    content = path.read_bytes()
    layout = _layout(content, cells.width)
    codes = np.frombuffer(content, layout.type_dtype, cells.width, layout.types).tolist()
    records = np.frombuffer(content, _record(codes, layout), cells.height, layout.records)
    pairs = zip(cells.get_columns(), codes, strict=True)
    wanted = [_wanted(column, code, widths.get(column.name, 0), layout) for column, code in pairs]
    packed = np.zeros(cells.height, _record(wanted, layout))
    for number, (name, code) in enumerate(zip(cells.columns, wanted, strict=True)):
        storage = _storage(code, layout)
        old = records[f"f{number}"]
        packed[f"f{number}"] = old if storage is None else _numbers(cells[name], letters.get(name), storage, old)
    types = np.array(wanted, layout.type_dtype).tobytes()
    end = layout.records + records.nbytes
    parts = [content[: layout.types], types, content[layout.types + len(types) : layout.records], packed.tobytes()]
    start = bytearray(b"".join(parts[:3]))
    if layout.map is not None:
        places = np.frombuffer(content, "<i8", 14, layout.map).copy()
        places[_DATA + 1 :] += packed.nbytes - records.nbytes
        start[layout.map : layout.map + places.nbytes] = places.tobytes()
    with path.open("wb") as file:
        file.writelines((start, parts[3], content[end:]))


def _layout(content: bytes, width: int) -> _Layout:
    if not content.startswith(b"<stata_dta>"):
        return _old_layout(content, width)
    mark = b"</header><map>"
    place = content.index(mark) + len(mark)
    places = np.frombuffer(content, "<i8", 14, place)
    types = int(places[2]) + len(b"<variable_types>")
    return _Layout(types, int(places[_DATA]) + len(b"<data>"), "<u2", False, place)


def _old_layout(content: bytes, width: int) -> _Layout:
    """Releases up to 115: parts of fixed length, then pieces that say their own."""
    form = 12 if content[0] < 114 else 49
    place = 109 + width + 33 * width + 2 * (width + 1) + (form + 33 + 81) * width
    while any(content[place : place + 5]):
        place += 5 + int.from_bytes(content[place + 1 : place + 5], "little")
    return _Layout(109, place + 5, "<u1", True, None)


def _storage(code: int, layout: _Layout) -> _Storage | None:
    """The numeric type of a code; nothing for text."""
    return next((found for found in TYPES.values() if code == (found.old if layout.old else found.code)), None)


def _record(codes: list[int], layout: _Layout) -> np.dtype[Any]:
    def one(code: int) -> str:
        storage = _storage(code, layout)
        if storage is not None:
            return storage.dtype
        return "V8" if code == _STRL and not layout.old else f"S{code}"

    return np.dtype([(f"f{number}", one(code)) for number, code in enumerate(codes)])


def _wanted(column: pl.Series, code: int, width: int, layout: _Layout) -> int:
    """The type a column is to have: as narrow as its own, if its values fit."""
    storage = _storage(code, layout)
    if storage is None:
        widest = 244 if layout.old else 2045
        return code if code > widest else max(code, min(width, widest))
    names = {"Int8": ["byte", "int", "long"], "Int16": ["int", "long"], "Int32": ["long"], "Float32": ["float"]}
    largest = column.max() if column.dtype.is_integer() else None
    for name in names.get(str(column.dtype), ()):
        if largest is None or float(largest) <= TYPES[name].largest:  # type: ignore[arg-type]  # a number
            return TYPES[name].old if layout.old else TYPES[name].code
    return code


def _numbers(column: pl.Series, letters: pl.Series | None, storage: _Storage, old: NDArray[Any]) -> NDArray[Any]:
    """Values in their type, and the code of each missing cell."""
    if not column.dtype.is_numeric():  # a date, which pyreadstat has turned into a number
        return old
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
