"""Columns of a table on Spark that are no numbers: the levels of labels, and how workers turn cells into numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.core.late import pa, sf, spark_types
from microveil.io.frames.surveyed import plain_cells

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MOST_LEVELS = 10_000
"""Labels of all columns together that come to the driver."""


def quoted_column(name: str) -> Column:
    """The column of a name that may have dots and blanks."""
    quoted = name.replace("`", "``")
    return sf.col(f"`{quoted}`")


@dataclass(frozen=True, repr=False)
class LabelForm:
    """How labels are numbers: by their places among the levels, cells of Arrow; `blank` where a cell is missing."""

    levels: pa.Array
    blank: int = -1

    def steps(self, cells: Any) -> Array:
        """Cells of Arrow as numbers."""
        import pyarrow.compute as pc

        found = pc.index_in(plain_cells(cells).cast(self.levels.type), self.levels)
        return np.asarray(pc.fill_null(found, self.blank).to_numpy(zero_copy_only=False), dtype=np.float64)


@dataclass(frozen=True, repr=False)
class Indicator:
    """1 where a cell has a level, by its number, and 0 elsewhere; without a level, 1 everywhere."""

    labels: LabelForm
    level: int | None = None

    def steps(self, cells: Any) -> Array:
        """Cells of Arrow as numbers."""
        return np.ones(len(cells)) if self.level is None else np.asarray(self.labels.steps(cells) == self.level, float)


@dataclass(frozen=True, repr=False)
class ColumnLevels:
    """The levels of a column in order, as its type has them: a missing cell is the last one, if there is any."""

    cells: pa.Array
    rows: NDArray[np.int64]
    """How many rows have each."""

    @property
    def missing(self) -> int | None:
        """The number of the level of missing cells, if there are any."""
        return len(self.cells) - 1 if self.cells.null_count else None

    @property
    def form(self) -> LabelForm:
        """How cells are numbers."""
        return LabelForm(self.cells.drop_null(), len(self.cells) - 1)


def levels_in(frame: DataFrame, names: list[str]) -> dict[str, ColumnLevels]:
    """The levels of columns of labels, in the order that tables in memory number them in."""
    from pyspark.sql.pandas.types import to_arrow_type

    found = {}
    kinds = {name: frame.schema[name].dataType for name in names}
    for name, rows in seen_levels(frame, {name: _text(name, kind) for name, kind in kinds.items()}).items():
        known: list[Any] = [level for level in rows if level is not None]
        known.sort(key=Decimal if isinstance(kinds[name], spark_types.NumericType) else None)
        known += [None] if None in rows else []
        try:
            cells = pa.array(known, pa.string()).cast(to_arrow_type(kinds[name], timestamp_utc=True))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise DataError(
                f"column '{name}' is of a type whose labels are not exchanged on Spark", "turn it into text, or drop it"
            ) from None
        found[name] = ColumnLevels(cells, np.array([rows[level] for level in known]))
    return found


def _text(name: str, kind: Any) -> Column:
    """A column as text, without what is no number among numbers."""
    column = quoted_column(name)
    if isinstance(kind, spark_types.DoubleType | spark_types.FloatType):
        column = sf.when(~sf.isnan(column), column)
    return column.cast("string")


def seen_levels(frame: DataFrame, texts: Mapping[str, Column]) -> dict[str, dict[str | None, int]]:
    """The levels of columns, given as text, and how many rows have each; None stands for missing cells."""
    found: dict[str, dict[str | None, int]] = {name: {} for name in texts}
    if not texts:
        return found
    cells = [sf.struct(sf.lit(j).alias("column"), text.alias("level")) for j, text in enumerate(texts.values())]
    rows = frame.select(sf.explode(sf.array(*cells)).alias("cell")).select("cell.*")
    seen = rows.groupBy("column", "level").agg(sf.count(sf.lit(1)).alias("rows")).limit(MOST_LEVELS + 1).collect()
    if len(seen) > MOST_LEVELS:
        raise DataError(
            f"columns of labels have more than {MOST_LEVELS} levels together",
            "name fewer columns in confidential, or drop some",
        )
    names = list(texts)
    for row in seen:
        found[names[row["column"]]][row["level"]] = row["rows"]
    return found
