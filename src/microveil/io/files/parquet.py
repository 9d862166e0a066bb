"""Parquet in and out."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from microveil.core.errors import DataError, FileError
from microveil.core.late import pa, pl
from microveil.io.files.formats import Format, ReadOptions, SourceFormat, check_unique, split_notes
from microveil.io.frames.validation import check_shape
from microveil.storage.atomic import shown


@dataclass(frozen=True)
class ParquetSource(SourceFormat):
    """What pandas notes in a file (which column is its index), and the types of the columns it is about."""

    pandas: bytes | None = field(default=None, repr=False)
    schema: Mapping[str, Any] = field(default_factory=dict, repr=False)
    notes: Mapping[bytes, bytes] = field(default_factory=dict, repr=False)  # of whoever made the file


class Parquet(Format):
    """Columns of any type, nested ones included."""

    name: ClassVar[str] = "parquet"
    default: ClassVar[ParquetSource] = ParquetSource()

    def read(self, path: Path, read_options: ReadOptions) -> tuple[pl.DataFrame, ParquetSource]:
        """The table; it knows its types itself."""
        schema = _check_schema(path)
        frame = _read(path)
        pandas, notes = (None, {}) if schema is None else split_notes(schema)
        return frame, ParquetSource(pandas, dict(frame.schema), notes)

    def write(self, frame: pl.DataFrame, path: Path, source_format: ParquetSource, *, shown_as: Path) -> None:
        """Write with zstd, which every reader of today knows and which is far smaller than the older default."""
        from pyarrow import parquet

        pandas = None if dict(frame.schema) != source_format.schema else source_format.pandas
        notes = {**({} if pandas is None else {b"pandas": pandas}), **source_format.notes}
        with path.open("wb") as file:
            if not notes:
                frame.write_parquet(file, compression="zstd")
                return
            # Polars has no place for such notes where pandas looks for them.
            table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
            parquet.write_table(table.replace_schema_metadata(notes), file, compression="zstd")


def _check_schema(path: Path) -> pa.Schema | None:
    """Its schema stands at the end of a file, and how large it is; what is damaged is found by whoever reads it."""
    from pyarrow import ArrowException, parquet

    with suppress(ArrowException):
        about = parquet.read_metadata(path)
        check_shape(path, about.num_columns, about.num_columns * about.num_rows, size=path.stat().st_size)
        schema = about.schema.to_arrow_schema()
        check_unique(schema.names, path)
        return schema
    return None


def _read(path: Path) -> pl.DataFrame:
    """By polars, which keeps types of its own that Arrow does not know."""
    frame = None
    # A file, not its name: polars reads '*' and '[' in names as patterns.
    with path.open("rb") as file, suppress(pl.exceptions.PolarsError, pl.exceptions.PanicException):
        frame = pl.read_parquet(file)
    # Raised out here, so that the error polars gave, which may quote the data, is not even its context.
    if frame is None:
        raise FileError(f"{shown(path)} is not a Parquet file, or is damaged", "write it again, or read a .csv")
    if frame.is_empty():
        raise DataError(f"{shown(path)} has no rows", "check that it is the right file")
    return frame
