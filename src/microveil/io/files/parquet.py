"""Parquet in and out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from microveil.core.errors import DataError, FileError
from microveil.io.files.formats import Format, ReadOptions, SourceFormat, plain_pandas_note
from microveil.io.frames.validation import check_shape
from microveil.storage.atomic import shown

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class ParquetSource(SourceFormat):
    """What pandas notes in a file (which column is its index), and the types of the columns it is about."""

    pandas: str | None = field(default=None, repr=False)
    schema: Mapping[str, Any] = field(default_factory=dict, repr=False)
    notes: Mapping[bytes, bytes] = field(default_factory=dict, repr=False)  # of whoever made the file


class Parquet(Format):
    """Columns of any type, nested ones included."""

    name: ClassVar[str] = "parquet"
    default: ClassVar[ParquetSource] = ParquetSource()

    def read(self, path: Path, read_options: ReadOptions) -> tuple[pl.DataFrame, ParquetSource]:
        """The table; it knows its types itself."""
        from pyarrow import parquet

        frame = read_parquet(path)
        noted = parquet.read_schema(path).metadata or {}
        pandas = plain_pandas_note(noted.get(b"pandas"))
        notes = {key: note for key, note in noted.items() if key != b"pandas" or note != pandas}
        return frame, ParquetSource(None if pandas is None else pandas.decode(), dict(frame.schema), notes)

    def write(self, frame: pl.DataFrame, path: Path, source_format: ParquetSource, *, shown_as: Path) -> None:
        """Write with zstd, which every reader of today knows and which is far smaller than the older default."""
        import polars as pl
        from pyarrow import parquet

        pandas = None if dict(frame.schema) != source_format.schema else source_format.pandas
        notes = {**({} if pandas is None else {b"pandas": pandas.encode()}), **source_format.notes}
        with path.open("wb") as file:
            if not notes:
                frame.write_parquet(file, compression="zstd")
                return
            # Polars has no place for such notes where pandas looks for them.
            table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
            parquet.write_table(table.replace_schema_metadata(notes), file, compression="zstd")


def read_parquet(path: Path) -> pl.DataFrame:
    """The table in a Parquet file; columns of any type, nested ones included."""
    import polars as pl

    _check_size(path)
    frame = None
    repeated = False
    with path.open("rb") as file:  # a file, not its name: polars reads '*' and '[' in names as patterns
        try:
            frame = pl.read_parquet(file)
        except pl.exceptions.DuplicateError:
            repeated = True
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            pass
    # Raised out here, so that the error polars gave, which may quote the data, is not even its context.
    if repeated:
        raise DataError(f"{shown(path)} repeats column names: {_repeated(path)}", "rename them apart")
    if frame is None:
        raise FileError(f"{shown(path)} is not a Parquet file, or is damaged", "write it again, or read a .csv")
    if frame.is_empty():
        raise DataError(f"{shown(path)} has no rows", "check that it is the right file")
    return frame


def _check_size(path: Path) -> None:
    """How large the table is stands at the end of the file; what is damaged is told by whoever reads it."""
    from pyarrow import ArrowException, parquet

    with suppress(ArrowException):
        about = parquet.read_metadata(path)
        check_shape(path, about.num_columns, about.num_columns * about.num_rows, size=path.stat().st_size)


def _repeated(path: Path) -> str:
    """The names that more than one column has. Polars stops at the first, so Arrow reads them."""
    from pyarrow import parquet

    counts = Counter(parquet.read_schema(path).names)
    return ", ".join(shown(name) for name, count in counts.items() if count > 1)
