"""Arrow and Feather files in and out; unchanged columns come back in the very types they had."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from microveil.core.errors import FileError
from microveil.core.late import pa, pl
from microveil.io.files.formats import (
    Format,
    ReadOptions,
    SourceFormat,
    check_table,
    check_unique,
    same_cells,
    split_notes,
)
from microveil.io.frames.validation import check_shape
from microveil.storage.atomic import shown


@dataclass(frozen=True)
class ArrowSource(SourceFormat):
    """The columns as they were, by name: as Arrow has them and as the methods see them; and what pandas notes."""

    columns: Mapping[str, tuple[Any, Any, pl.Series]] = field(default_factory=dict, repr=False, compare=False)
    pandas: bytes | None = field(default=None, repr=False)
    notes: Mapping[str | None, Any] = field(default_factory=dict, repr=False)  # by column; under no name, on the table


class Arrow(Format):
    """The file format of Arrow, which Feather is another name for."""

    name: ClassVar[str] = "arrow"
    default: ClassVar[ArrowSource] = ArrowSource()

    def read(self, path: Path, read_options: ReadOptions) -> tuple[pl.DataFrame, ArrowSource]:
        """Columns of any type, nested ones included."""
        table = _read(path)
        check_unique(table.column_names, path)
        frame = pl.DataFrame(pl.from_arrow(table))
        check_table(frame, path)
        columns = {name: (table.schema.field(name), table.column(name), frame[name]) for name in table.column_names}
        pandas, whole = split_notes(table.schema)
        notes = {field.name: field.metadata for field in table.schema if field.metadata} | (
            {None: whole} if whole else {}
        )
        return frame, ArrowSource(columns, pandas, notes)

    def write(self, frame: pl.DataFrame, path: Path, source_format: ArrowSource, *, shown_as: Path) -> None:
        """Write, compressed as Feather files are; in an .arrow file as it is, to be mapped into memory."""
        found = [_field_and_cells(column, source_format.columns.get(column.name)) for column in frame.get_columns()]
        fields = [kind.with_metadata(source_format.notes.get(kind.name)) for kind, _ in found]
        before = {name: seen.dtype for name, (_, _, seen) in source_format.columns.items()}
        same = dict(frame.schema) == before  # what pandas notes is about the types, too
        noted = {b"pandas": source_format.pandas} if source_format.pandas is not None and same else {}
        schema = pa.schema(fields, metadata={**noted, **source_format.notes.get(None, {})})
        table = pa.table([cells for _, cells in found], schema=schema)
        options = pa.ipc.IpcWriteOptions(compression="lz4" if shown_as.suffix.lower() == ".feather" else None)
        with path.open("wb") as file, pa.ipc.new_file(file, table.schema, options=options) as writer:
            writer.write_table(table)


def _read(path: Path) -> Any:
    """The table, whichever of the three formats of Arrow it is in."""
    with path.open("rb") as file:
        content = pa.py_buffer(file.read())
    for opened in (pa.ipc.open_file, pa.ipc.open_stream):
        try:
            source = opened(content)
            check_shape(path, len(source.schema))
            return source.read_all()
        except (pa.ArrowException, OSError):  # its errors may quote the data
            continue
    raise FileError(f"{shown(path)} is not an Arrow file, or is damaged", "write it again, or as a .parquet file")


def _field_and_cells(column: pl.Series, was: tuple[Any, Any, pl.Series] | None) -> tuple[Any, Any]:
    """A column for Arrow: the very one it was, if nothing has changed, else in the type it had."""
    cells = column.to_arrow(compat_level=pl.CompatLevel.oldest())
    if was is None:
        return pa.field(column.name, cells.type), cells
    kind, original, seen = was
    if same_cells(column, seen):
        return kind, original
    if column.dtype == seen.dtype:
        with suppress(pa.ArrowException):  # a dictionary of another width
            return kind, cells.cast(kind.type)
    return pa.field(column.name, cells.type), cells
