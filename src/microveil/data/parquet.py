"""Parquet in and out."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import IO, TYPE_CHECKING

from microveil.core.atomic import shown
from microveil.core.errors import DataError, FileError

if TYPE_CHECKING:
    import polars as pl


def read_parquet(path: Path) -> pl.DataFrame:
    """The table in a Parquet file; columns of any type, nested ones included."""
    import polars as pl

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


def _repeated(path: Path) -> str:
    """The names that more than one column has. Polars stops at the first, so Arrow reads them."""
    from pyarrow import parquet

    counts = Counter(parquet.read_schema(path).names)
    return ", ".join(shown(name) for name, count in counts.items() if count > 1)


def write_parquet(frame: pl.DataFrame, file: IO[bytes]) -> None:
    """Write with zstd, which every reader of today knows and which is far smaller than the older default."""
    frame.write_parquet(file, compression="zstd")
