"""Tables in and out of files and databases: the door of this room.

The extension says what format it is, or how an address begins. No message holds a data value, and none is chained
to a library's own, which do.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from microveil.core.errors import FileError, ParameterError, did_you_mean, one_of
from microveil.core.late import pl
from microveil.io.blocks import BlockSource
from microveil.io.databases.base import Engine
from microveil.io.databases.duckdb import DuckDb
from microveil.io.databases.postgresql import PostgreSql
from microveil.io.databases.sqlite import Sqlite
from microveil.io.files.columnar import Arrow, Parquet, ParquetBlocks
from microveil.io.files.csv import Csv, CsvBlocks
from microveil.io.files.excel import Excel, check_sheet
from microveil.io.files.formats import FileFormat, Format, ReadOptions, check_flat, check_options, check_table, needs
from microveil.io.files.stat_formats import SasDataSet, SasTransport, Spss, Stata
from microveil.io.locations import Database, Place, Sheet, file_of, place_from
from microveil.storage.atomic import atomic_target, cannot, check_place, error_code, shown, system_errors

FORMATS: Final[Mapping[str, Format]] = {
    ".csv": Csv(),
    ".tsv": Csv(),
    ".txt": Csv(),
    ".parquet": Parquet(),
    ".pq": Parquet(),
    ".arrow": Arrow(),
    ".feather": Arrow(),
    ".xlsx": Excel(),
    ".sav": Spss(),
    ".zsav": Spss(),
    ".dta": Stata(),
    ".xpt": SasTransport(),
    ".sas7bdat": SasDataSet(),
}
"""Kinds of files, by their extension."""

DATABASES: Final[Mapping[str, Engine]] = {"sqlite": Sqlite(), "duckdb": DuckDb(), "postgresql": PostgreSql()}
"""Databases, by how their address begins."""

BLOCKS: Final[Mapping[str, Callable[[Path, ReadOptions], BlockSource]]] = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), CsvBlocks),
    **dict.fromkeys((".parquet", ".pq"), ParquetBlocks),
}
"""Kinds of files that are also read and written block by block."""

EXTENSIONS: Final = {extension: kind.name for extension, kind in FORMATS.items()}


def read_table(place: str | Place, read_options: ReadOptions | None = None) -> tuple[pl.DataFrame, FileFormat]:
    """The table in a file or database, and the format to write one like it.

    From CSV, columns in which every cell is a number or missing are Int64 or Float64; the others are text, verbatim.
    """
    where, read_options = place_from(place), read_options or ReadOptions()
    if isinstance(where, Database):
        return _read_database(where, read_options)
    if isinstance(where, Sheet):
        read_options, where = replace(read_options, sheet=where.sheet), where.path
    path, kind = where, _format_of(where)
    check_options(kind.options, read_options, f"{path.suffix.lower()} files")
    _check_source(path)
    with system_errors("read", path):
        frame, found = kind.read(path, read_options)
    return frame, replace(found, name=kind.name, extension=path.suffix.lower())


def without_looking(place: Place, given: ReadOptions) -> ReadOptions:
    """How a file is read if nothing may be found by looking at its cells: as the user says, or the usual way."""
    extension = place.suffix.lower() if isinstance(place, Path) else ".xlsx" if isinstance(place, Sheet) else ""
    if extension == ".xlsx":
        raise ParameterError(
            "epsilon: which cells of a spreadsheet are the table is found by looking at them",
            "save it as CSV or Parquet",
        )
    if extension not in (".csv", ".tsv", ".txt"):
        return replace(given, without_looking=True)
    usual: dict[str, Any] = {
        "delimiter": "tab" if extension == ".tsv" else ",",
        "decimal": ".",
        "encoding": "utf-8",
        "header_row": 1,
    }
    usual |= {"header_row": None} if given.skip_rows is not None else {}
    return replace(given, **{**usual, **given.given}, without_looking=True)


def open_blocks(path: Path, read_options: ReadOptions | None = None) -> BlockSource:
    """A file to be read in blocks."""
    kind = BLOCKS.get(path.suffix.lower())
    if kind is None:
        raise FileError(f"{shown(path)} cannot be read block by block", "use a .parquet file, or engine='memory'")
    needs("pyarrow", f"{path.name}, block by block,")
    return kind(path, read_options or ReadOptions())


def write_table(
    frame: pl.DataFrame,
    place: str | Place,
    like: FileFormat,
    *,
    into: Path | None = None,
    replacing: bool = False,
    keep_notes: bool = False,
) -> None:
    """Write `frame` in the format of the target's extension, whole or not at all.

    `like` says how the table was written where it came from. Columns whose values have not changed since come back
    as the very text they were, and missing cells as they were marked. With `into`, the caller's temporary file is
    written, which is going to take the place of `path` together with others (see `atomic_targets`).
    The table of a database that exists already is refused, but for `replacing`. Notes on the source (its label, its
    metadata) are left out, but for `keep_notes`: nobody has looked at what is in them.
    """
    where = place_from(place)
    if isinstance(where, Database):
        with pending_table(frame, where, like, replacing=replacing):
            return
    path = where.path if isinstance(where, Sheet) else where
    kind = _format_of(path, to_write=True)
    kind.check_holds(frame, path)
    own = like.name == kind.name and isinstance(like, type(kind.default))
    form = kind.adapted(like if own else kind.default, path.suffix.lower())
    if not keep_notes and form.notes:
        form = replace(form, notes={})
    if isinstance(where, Sheet):
        form = replace(form, sheet=where.sheet)
    with system_errors("written", path), atomic_target(path) if into is None else nullcontext(into) as temporary:
        _write(kind, frame, temporary, form, path)


@contextmanager
def pending_table(frame: pl.DataFrame, place: Database, like: FileFormat, *, replacing: bool = False) -> Iterator[None]:
    """Write `frame` into the table at `place`, in a transaction that is made good when the block ends well.

    `like` and `replacing` are those of `write_table`.
    """
    kind = DATABASES[place.kind]
    with kind.writing(frame, place, like.columns if like.name == kind.name else {}, replacing=replacing):
        yield


def check_target(
    place: str | Place, inputs: Iterable[Place] = (), frame: pl.DataFrame | None = None, *, replacing: bool = False
) -> None:
    """Refuse, before the long work, a target `place` that `write_table` could not write or that is one of the `inputs`.

    With a `frame`, also one that the format cannot hold; `replacing` as in `write_table`.
    """
    where, others = place_from(place), list(inputs)
    if isinstance(where, Database):
        kind = DATABASES[where.kind]
        if any(isinstance(other, Database) and kind.is_same(where, other) for other in others):
            raise FileError(f"{shown(where)} is one of the inputs", "give the output another name")
        kind.check_target(where, replacing=replacing)
        if frame is not None:
            check_flat(frame, where, "turn its lists into columns of their own", binary=True)
        return
    if isinstance(where, Sheet):
        check_sheet(where)
    path = where.path if isinstance(where, Sheet) else where
    kind_of_file = _format_of(path, to_write=True)
    check_place(path, [file for file in map(file_of, others) if file is not None])
    if frame is not None:
        kind_of_file.check_holds(frame, path)


def _read_database(place: Database, read_options: ReadOptions) -> tuple[pl.DataFrame, FileFormat]:
    kind = DATABASES[place.kind]
    check_options(("query",), read_options, "databases")
    if not place.table and read_options.query is None:
        names = kind.tables(place)
        there = f"there are: {', '.join(names[:12])}" if names else "there are none"
        raise FileError(f"{shown(place)} names no table", f"add #TABLE, or --query; {there}")
    if place.table and read_options.query is not None:
        raise FileError(f"{shown(place)} names a table, and there is a query", "give one of them")
    if place.file is not None:
        _check_source(place.file)
    frame, columns = kind.read(place, read_options.query)
    if read_options.without_looking:
        frame = frame.with_columns(column.unseen for column in columns.values())
    check_table(frame, place)
    return frame, FileFormat(kind.name, columns=columns)


def _write(kind: Format, frame: pl.DataFrame, temporary: Path, like: Any, path: Path) -> None:
    """Write `frame` by a `kind`, `like` its source, into the `temporary` file for `path`; a full disk is an OSError."""
    try:
        kind.write(frame, temporary, like, shown_as=path)
        return
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        code = error_code(error)
        if code is not None:
            raise OSError(code, "") from None
    why = f"a column's type has no place in {kind.name}"
    raise FileError(f"{shown(path)} cannot be written: {why}", "convert it to numbers or text first")


def _format_of(path: Path, *, to_write: bool = False) -> Format:
    """The format an extension stands for."""
    kind = FORMATS.get(path.suffix.lower())
    if kind is None:
        what = f"the extension {shown(path.suffix)}, which is not known" if path.suffix else "no extension"
        offered = [extension for extension in FORMATS if not (to_write and extension == ".sas7bdat")]
        raise FileError(f"{shown(path)} has {what}", f"use {one_of(offered)}")
    return kind


def _check_source(path: Path) -> None:
    """Refuse a path that is no ordinary file, or an empty one."""
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
        names = sorted(other.name for other in path.parent.iterdir() if other.suffix.lower() in FORMATS)
    except OSError:
        names = []
    printable = [name for name in names if name.isprintable()]
    return did_you_mean(path.name, printable) if printable else "check the path"
