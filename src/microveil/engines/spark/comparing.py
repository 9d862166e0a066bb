"""Two tables on Spark side by side: columns that measures are taken of where the rows are, and which rows are paired.

Rows of a DataFrame have no number of their own. So they are paired only if the release says that they are those of the
original, as what `protect_spark` gives back does, or if both tables have a column that names the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from microveil.assessment.label_columns import ColumnKinds
from microveil.core.arrays import Array
from microveil.core.errors import ParameterError
from microveil.core.late import pa
from microveil.core.table import Matrix, RowMap, as_they_are
from microveil.engines.spark.columns import LabelForm, quoted_column, seen_levels
from microveil.engines.spark.frames import SparkSource
from microveil.engines.spark.rows import CellForm
from microveil.engines.spark.survey import survey_spark
from microveil.engines.spark.table import SparkMatrix, columns_at
from microveil.intake.intake import dictionary_for
from microveil.intake.kinds import LABELS, TIMES, ColumnKind, declared_kinds, find_kinds
from microveil.io.frames.surveyed import SurveyedFrame
from microveil.io.frames.times import MICROSECONDS, TimeForm
from microveil.measures.labels import DistantCodes, LabelPair
from microveil.options import Assess

UNPAIRED = (
    "nobody knows which rows of the two tables belong together: give `assess` what protect_spark gave back, or keep a "
    "column that names the rows, the same in both, and say so: kinds={'id': 'identifier'}"
)

Level = str | float


@dataclass(frozen=True, repr=False)
class ComparedColumns(SparkMatrix):
    """Columns of records without special codes."""

    codes: tuple[tuple[float, ...], ...] = ()

    def without(self, codes: Sequence[Sequence[float]]) -> ComparedColumns:
        """The same columns with NaN where a cell holds a code of its column."""
        return replace(self, codes=tuple(map(tuple, codes)))

    def select(self, columns: Sequence[int]) -> ComparedColumns:
        """Some of the columns, in the order given."""
        codes = tuple(self.codes[j] for j in columns) if self.codes else ()
        return replace(self, columns=[self.columns[j] for j in columns], codes=codes)

    def folded(self, of: RowMap, columns: Sequence[int], fold: Callable[[list[Array]], Array]) -> Array:
        """What is made of some columns of each record, in one."""
        return super().folded(partial(_without_codes, self.select(columns).codes, of), columns, fold)

    def take(self, rows: NDArray[Any]) -> Matrix:
        """Some of the rows, in memory."""
        return Matrix(list(self.sampled(partial(_without_codes, self.codes, as_they_are), rows)))


def _without_codes(codes: Sequence[Sequence[float]], of: RowMap, cells: Array, rows: slice) -> Array:
    """What is made of some rows without the `codes` of each column; see `ComparedColumns`."""
    if any(codes):
        cells = np.array([np.where(np.isin(own, some), np.nan, own) for own, some in zip(cells, codes, strict=True)])
    return of(cells, rows)


@dataclass(frozen=True, repr=False)
class SparkColumns:
    """A table on Spark as far as its columns go."""

    source: SparkSource
    survey: SurveyedFrame
    forms: Mapping[str, TimeForm]
    """Columns of dates and times that are numbers in both tables, and how."""

    found: ColumnKinds
    levels: Mapping[str, Sequence[Level]]
    """Those of the columns of labels, in both tables."""

    @property
    def names(self) -> list[str]:
        """All columns."""
        return list(self.source.frame.columns)

    def is_numeric(self, name: str) -> bool:
        """Does the column hold numbers?"""
        return name in self.forms or self.survey.is_numeric(name)

    def looks_numeric(self, name: str) -> bool:
        """Does a column of text look like one of numbers?"""
        return self.survey.looks_numeric(name)

    def read(self, names: Sequence[str]) -> ComparedColumns:
        """Some columns in records, as doubles, NaN where a cell is missing."""
        return self._gathered(names, self.forms)

    def kinds(self, released: Any, asked: Assess, known: Mapping[str, str] | None) -> ColumnKinds:  # noqa: ARG002 - `opened_pair` has asked
        """The kinds of the columns."""
        return self.found

    def labels(self, released: SparkColumns, names: Sequence[str]) -> LabelPair | None:
        """Columns of labels of this table, the original, and of the release."""
        if not names:
            return None
        forms = {name: LabelForm(pa.array(self.levels[name])) for name in names}
        codes = [DistantCodes(table._gathered(names, forms)) for table in (self, released)]
        return LabelPair(
            names=tuple(names),
            kinds=tuple(self.found.kinds[name].kind for name in names),
            sizes=tuple(len(self.levels[name]) for name in names),
            original=cast(Any, codes[0]),
            released=cast(Any, codes[1]),
            in_clear=(False,) * len(names),
            keys=tuple(range(len(names))),
        )

    def _gathered(self, names: Sequence[str], forms: Mapping[str, CellForm]) -> ComparedColumns:
        records = self.source.gathered([(name, forms.get(name)) for name in names or self.names[:1]], ())
        return ComparedColumns(columns_at(range(len(names)), records.layout.count), records=records)


def opened_pair(
    original: Any, released: Any, asked: Assess, known: Mapping[str, str] | None
) -> tuple[SparkColumns, SparkColumns, bool]:
    """Two tables on Spark, DataFrames or paths of Parquet; and whether their rows are in the order of one key.

    Args:
        original: the table as it was.
        released: the one to judge.
        asked: `kinds` and `rules` are among the options.
        known: kinds of columns that a release has told.
    """
    for option in ("keys", "weight", "holdout"):
        if getattr(asked, option) is not None:
            raise ParameterError(f"{option}: does not go with Spark", "measure a sample of the rows of both in memory")
    # Numbered as Spark reads them: a release has the rows of its original in that order, whatever their files.
    sources = [replace(SparkSource.opened(data), from_files=False) for data in (original, released)]
    surveys = [survey_spark(source) for source in sources]
    dictionary, _ = dictionary_for(asked.rules, surveys[0].names)
    declared = {name: entry.kind for name, entry in dictionary.columns.items() if entry.kind is not None}
    kinds = find_kinds(surveys[0], declared | declared_kinds(asked.kinds))
    kinds |= {name: ColumnKind(cast(Any, kind)) for name, kind in (known or {}).items() if name in kinds}
    shared = [name for name in surveys[0].names if name in surveys[1].names]
    forms = _common_forms(surveys, [name for name in shared if kinds[name].kind in TIMES])
    levels = _common_levels(sources, [name for name in shared if kinds[name].kind in LABELS])
    found = ColumnKinds(list(surveys), kinds, tuple(levels))
    key = next((name for name in shared if kinds[name].kind == "identifier" and _names_rows(sources, name)), None)
    if key is not None:
        sources = [replace(source, frame=source.frame.orderBy(quoted_column(key))) for source in sources]
    sides = zip(sources, surveys, forms, strict=True)
    first, second = (SparkColumns(source, survey, of, found, levels) for source, survey, of in sides)
    return first, second, key is not None


def _common_forms(surveys: Sequence[SurveyedFrame], names: Sequence[str]) -> list[dict[str, TimeForm]]:
    """For each table how dates and times are numbers, in the finest of their units, where they are some in both."""
    forms: list[dict[str, TimeForm]] = [{} for _ in surveys]
    for name in names:
        columns = [column for survey in surveys if (column := survey.time_column(name)) is not None]
        if len(columns) == len(surveys) and len({column.kind == "time" for column in columns}) == 1:
            unit = max((column.unit for column in columns), key=["month", *MICROSECONDS].index)
            for of, column in zip(forms, columns, strict=True):
                of[name] = TimeForm(column.kind, unit, column.text, column.is_number)
    return forms


def _common_levels(sources: Sequence[SparkSource], names: Sequence[str]) -> dict[str, list[Level]]:
    """The levels of columns that are labels in both tables: text, or numbers of which the release has no others."""
    numeric = {name: {source.is_numeric(name) for source in sources} for name in names}
    chosen = [name for name in names if len(numeric[name]) == 1]
    found: list[dict[str, set[Level]]] = []
    for source in sources:
        texts = {name: (_as_number if True in numeric[name] else _as_text)(name) for name in chosen}
        seen = {name: rows.keys() - {None} for name, rows in seen_levels(source.frame, texts).items()}
        found.append({n: set(map(float, own) if True in numeric[n] else own) for n, own in seen.items()})  # type: ignore[arg-type]  # None is not among them
    same = [name for name in chosen if False in numeric[name] or found[1][name] <= found[0][name]]
    return {name: sorted(found[0][name] | found[1][name], key=lambda level: (str(type(level)), level)) for name in same}


def _as_text(name: str) -> Any:
    return quoted_column(name).cast("string")


def _as_number(name: str) -> Any:
    return quoted_column(name).cast("double").cast("string")


def _names_rows(sources: Sequence[SparkSource], name: str) -> bool:
    """Does the column name the rows of both tables, each once and the same in both?"""
    if len({source.frame.schema[name].dataType for source in sources}) > 1:
        return False
    keys = [source.frame.select(quoted_column(name).alias("key")) for source in sources]
    counts = {source.count for source in sources} | {of.distinct().count() for of in keys}
    return len(counts) == 1 and keys[0].join(keys[1], "key").count() in counts
