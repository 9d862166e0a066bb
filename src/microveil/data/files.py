"""Tables in and out of files: the door of this room.

The format is told by the extension. No message holds a data value, and none is chained to a library's own, which do.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Literal

from microveil.core.atomic import atomic_target, cannot, check_place, error_code, shown
from microveil.core.errors import FileError, did_you_mean, one_of
from microveil.data.csv import Dialect, no_place_in_csv, read_csv, write_csv
from microveil.data.parquet import read_parquet, write_parquet

if TYPE_CHECKING:
    import polars as pl

__all__ = ["EXTENSIONS", "FileFormat", "atomic_target", "check_place", "check_target", "read_table", "write_table"]

EXTENSIONS: Final[dict[str, Literal["csv", "parquet"]]] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
}


@dataclass(frozen=True)
class FileFormat:
    """What it takes to write a file of the same kind as the one that was read."""

    name: Literal["csv", "parquet"]
    extension: str
    dialect: Dialect = field(default_factory=Dialect)


def read_table(path: Path) -> tuple[pl.DataFrame, FileFormat]:
    """The table in a file, and the format to write one like it.

    From CSV, columns in which every cell is a number or missing are Int64 or Float64; the others are text, verbatim.
    """
    name = _format_of(path)
    _check_source(path)
    extension = path.suffix.lower()
    try:
        if name == "parquet":
            return read_parquet(path), FileFormat(name, extension)
        frame, dialect = read_csv(path)
    except OSError as error:
        raise cannot("read", path, error) from None
    return frame, FileFormat(name, extension, dialect)


def write_table(frame: pl.DataFrame, path: Path, like: FileFormat, *, into: Path | None = None) -> None:
    """Write `frame` in the format of the target's extension, whole or not at all.

    `like` says how the table was written where it came from. Columns whose values have not changed since come back
    as the very text they were, and missing cells as they were marked. With `into`, the caller's temporary file is
    written, which is going to take the place of `path` together with others (see `atomic_targets`).
    """
    name = _format_of(path)
    _check_holds(frame, path)
    try:
        with atomic_target(path) if into is None else nullcontext(into) as temporary, temporary.open("wb") as file:
            _write(frame, file, path, _dialect(path, like) if name == "csv" else None)
    except OSError as error:
        raise cannot("written", path, error) from None


def _write(frame: pl.DataFrame, file: IO[bytes], path: Path, dialect: Dialect | None) -> None:
    """Write CSV in a dialect, or Parquet."""
    import polars as pl

    try:
        if dialect is None:
            write_parquet(frame, file)
        else:
            write_csv(frame, file, dialect)
        return
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        code = error_code(error)
        if code is not None:  # a full disk, wrapped by polars
            raise OSError(code, "") from None
    why = f"a column's type has no place in {_format_of(path)}"
    raise FileError(f"{shown(path)} cannot be written: {why}", "convert it to numbers or text first")


def check_target(path: Path, inputs: Iterable[Path] = (), frame: pl.DataFrame | None = None) -> None:
    """Refuse, before the long work, a target that `write_table` could not write or that is one of the inputs."""
    _format_of(path)
    check_place(path, inputs)
    if frame is not None:
        _check_holds(frame, path)


def _check_holds(frame: pl.DataFrame, path: Path) -> None:
    """Refuse columns for which the format has no form."""
    if _format_of(path) == "csv" and (names := no_place_in_csv(frame)):
        raise FileError(f"{shown(path)} cannot hold column {shown(names[0])}", "lists and bytes need a .parquet file")


def _dialect(path: Path, like: FileFormat) -> Dialect:
    """The dialect of the source, but for the separator where one of the two is a .tsv and the other is not."""
    tabs = path.suffix.lower() == ".tsv"
    if like.name == "csv" and tabs == (like.extension == ".tsv"):
        return like.dialect
    return replace(like.dialect, separator="\t" if tabs else ",")


def _format_of(path: Path) -> Literal["csv", "parquet"]:
    """The format an extension stands for."""
    name = EXTENSIONS.get(path.suffix.lower())
    if name is None:
        what = f"the extension {shown(path.suffix)}, which is not known" if path.suffix else "no extension"
        raise FileError(f"{shown(path)} has {what}", f"use {one_of(EXTENSIONS)}")
    return name


def _check_source(path: Path) -> None:
    """Refuse what is not a file with something in it."""
    try:
        info = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise FileError(f"there is no file {shown(path)}", _nearby(path)) from None
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        raise cannot("read", path, error) from None
    if stat.S_ISDIR(info.st_mode):
        raise FileError(f"{shown(path)} is a directory", "name one file in it")
    if not stat.S_ISREG(info.st_mode):
        raise FileError(f"{shown(path)} is a device or a pipe", "save the data to an ordinary file first")
    if info.st_size == 0:
        raise FileError(f"{shown(path)} is empty", "check that it is the right file")


def _nearby(path: Path) -> str:
    """A hint that names files in the same folder that could have been meant."""
    try:
        names = sorted(other.name for other in path.parent.iterdir() if other.suffix.lower() in EXTENSIONS)
    except OSError:
        names = []
    printable = [name for name in names if name.isprintable()]
    return did_you_mean(path.name, printable) if printable else "check the path"
