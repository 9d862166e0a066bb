"""The Spark engine: a Spark DataFrame or a Parquet dataset protected where its rows are, on the workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.errors import DataError, FileError, ParameterError
from microveil.core.late import pa, pl, sf, spark_types
from microveil.core.rng import Stream, Streams
from microveil.core.shuffle import traded_places
from microveil.core.table import LabelColumns, RowMap
from microveil.core.threads import rows_per_piece
from microveil.engines.out_of_core import Released, RemoteOutcome
from microveil.engines.renumbering import hashing_key
from microveil.engines.spark.columns import Indicator, levels_in, quoted_column
from microveil.engines.spark.rows import (
    RECORD,
    Batches,
    CellForm,
    Making,
    Packing,
    RecordLayout,
    ReleasedColumns,
    RemoteColumn,
    numbers_in,
    release_rows,
)
from microveil.engines.spark.sessions import check_workers, in_own_session, the_session
from microveil.engines.spark.table import (
    SparkMatrix,
    SparkRecords,
    SparkTable,
    columns_at,
    on_disks,
    on_workers,
)
from microveil.intake.from_dates import DateRule
from microveil.intake.model_matrix import check_levels, check_rare, check_room
from microveil.intake.roles import Roles
from microveil.intake.sources import (
    Cells,
    CountRows,
    ReadTable,
    bad_weight,
    check_count,
    check_declares_sums,
    check_simple_roles,
)
from microveil.io.dictionary import Dictionary
from microveil.io.frames.number_types import LARGEST_WHOLE, check_held
from microveil.io.frames.times import TimeForm

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

RECORDS_AT_ONCE = 16
"""Records that Spark hands to a worker's Python process in one batch."""

FIRST_ROWS = 1_000

FormedColumn = tuple[str, CellForm | None]
"""A column, and how its cells become numbers where they are none."""

FILE, ROW = "_metadata.file_path", "_metadata.row_index"
"""What Spark knows of a row of a Parquet file: it says the same whatever task reads the row."""


MAGIC = b"PAR1"
"""What a Parquet file begins with."""


def _is_another_file(path: Path) -> bool:
    """Is it a file of this machine that is no Parquet?"""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) != MAGIC


@dataclass(frozen=True, repr=False)
class SparkSource:
    """Rows to protect: a DataFrame, or what was read of a Parquet dataset.

    Rows of a dataset are numbered by the names of its files and their places in these, whatever the partitions. Rows
    of a DataFrame are numbered in the order in which `collect` gives them.
    """

    frame: DataFrame
    from_files: bool = False
    kept: list[DataFrame] = field(default_factory=list)
    """What Spark keeps on its disks for records that were gathered here."""

    chosen: tuple[str, ...] = ()
    """The columns of the release; all, if none is named."""

    times: Mapping[str, TimeForm] = field(default_factory=dict)
    """Columns of dates and times that count as numbers, and how."""

    renumbered: tuple[str, ...] = ()
    from_dates: tuple[DateRule, ...] = ()
    """How columns that are not read are computed from released dates."""

    takes_gaps: bool = False
    """Can cells be missing?"""

    in_memory: ClassVar[bool] = False

    @classmethod
    def opened(cls, source: Any, session: SparkSession | None = None) -> SparkSource:
        """A DataFrame as it is, or the path of a Parquet file or of a folder of these."""
        if hasattr(source, "mapInArrow"):
            if not hasattr(source, "_jdf"):
                raise ParameterError("data: DataFrames of Spark Connect are not supported", "use a classic session")
            check_workers(source.sparkSession)
            return cls(source)
        if not isinstance(source, str | PathLike):
            kind = type(source).__name__
            raise ParameterError(f"data: {kind} is no DataFrame of Spark and no path", "name a folder of Parquet")
        from pyspark.errors import AnalysisException

        only = f"Spark cannot read '{source}' as Parquet", "check the path, or protect it without Spark"
        if _is_another_file(Path(source)):  # of which Spark would say more than a screen holds
            raise FileError(*only)
        session = session or the_session()
        check_workers(session)
        try:
            return cls(session.read.parquet(str(source)), from_files=True)
        except AnalysisException:
            raise FileError(*only) from None

    def head(self) -> pl.DataFrame:
        """Some rows with all columns, to see what kind of columns they are."""
        return pl.DataFrame(pl.from_arrow(self.frame.limit(FIRST_ROWS).toArrow()))

    @property
    def names(self) -> list[str]:
        """The columns that are read, but for those that are numbered anew."""
        apart = {*self.renumbered, *(rule.column for rule in self.from_dates)}
        return [name for name in self.chosen or self.frame.columns if name not in apart]

    @property
    def numeric(self) -> dict[str, bool]:
        """Which columns are numbers."""
        kinds = {field.name: field.dataType for field in self.frame.schema.fields}
        return {name: name in self.times or isinstance(kinds[name], spark_types.NumericType) for name in self.names}

    @property
    def single(self) -> set[str]:
        """Columns of single precision, which they keep."""
        return {field.name for field in self.frame.schema.fields if isinstance(field.dataType, spark_types.FloatType)}

    @cached_property
    def count(self) -> int:
        """The number of rows."""
        return self.frame.count()

    def is_numeric(self, name: str) -> bool:
        """Does the column hold numbers?"""
        return self.numeric[name]

    def sample(self, names: Sequence[str], rows: NDArray[np.intp]) -> Cells:
        """Cells of some columns of numbers, in as many random rows."""
        share = min(2 * rows.size / max(self.count, 1), 1.0)  # twice as many, as Spark draws rows one by one
        some = self.cells(names).sample(withReplacement=False, fraction=share, seed=0).limit(rows.size).toArrow()
        return {name: numbers_in(some.column(f"cell{j}"), self.times.get(name)) for j, name in enumerate(names)}

    def counted(self, count: CountRows, names: Sequence[str]) -> Iterable[tuple[int, int]]:
        """What is counted in some columns of numbers, on the workers."""
        counting = partial(_counted, count, {name: self.times.get(name) for name in names})
        rows = self.cells(names).mapInArrow(counting, "broken long, rows long").collect()
        return [(row["broken"], row["rows"]) for row in rows]

    def check_dictionary(self, dictionary: Dictionary) -> None:
        """Refuse all but sums that hold in every row: others are counted in whole columns."""
        check_declares_sums(dictionary)
        for entry in dictionary.sums:
            if entry.exceptions or not entry.enforce:
                raise ParameterError(
                    f"rules: on Spark, the sum for '{entry.total}' must hold in every row and be kept",
                    "use engine='memory'",
                )

    def cells(self, names: Sequence[str]) -> DataFrame:
        """Some columns as doubles, but for dates and times, which the workers turn into numbers."""
        cells = (_cell(name, self.times.get(name)) for name in names)
        return self.frame.select(*(cell.alias(f"cell{j}") for j, cell in enumerate(cells)))

    def read(self, roles: Roles) -> ReadTable:
        """The columns with a role, gathered into records on the workers' disks."""
        check_simple_roles(roles)
        if len({name.lower() for name in self.names}) < len(self.names):
            raise DataError("data: several columns have the same name, capitals aside", "rename them")
        confidential, weight = roles.confidential, roles.weight
        self._check_held(confidential)
        factors = [product[0] for product in roles.public.products]
        numbers = [factor.column for factor in factors if not factor.labels]
        public: list[FormedColumn] = [(name, self.times.get(name)) for name in numbers]
        in_public = [factor.column for factor in factors if factor.labels]
        found = levels_in(self.frame, [*in_public, *roles.labels])
        for name in in_public:
            check_levels("public", [name], len(found[name].cells))
            check_rare("public", name, found[name].rows)
            # The first label follows from the others, all 0.
            public += [(name, Indicator(found[name].form, level)) for level in range(1, len(found[name].cells))]
        names = (*(name for name, _ in public), *confidential)
        if not names:  # labels alone: a column of ones says how many rows there are
            names, public = ("1",), [(roles.labels[0], Indicator(found[roles.labels[0]].form))]
        columns = [*public, *((name, self.times.get(name)) for name in confidential)]
        columns += [(name, found[name].form) for name in roles.labels]
        columns += [] if weight is None else [(weight, None)]
        hidden = {*confidential, *roles.labels}
        records = self.gathered(columns, [name for name in (*self.names, *self.renumbered) if name not in hidden])
        count = records.layout.count
        check_count(count)
        check_room(count, "public", len(public))
        labels = LabelColumns(
            roles.labels,
            cast(Any, tuple(columns_at(range(len(names), len(names) + len(roles.labels)), count))),
            tuple(found[name].missing for name in roles.labels),
            tuple(found[name].cells for name in roles.labels),
        )
        values = SparkMatrix(columns_at(range(len(names)), count), records=records)
        table = SparkTable(values, names, len(public), labels=labels)
        table = table if weight is None else _weighted(table, weight, len(columns) - 1)
        return ReadTable(table, {number: ("public", name) for number, name in enumerate(numbers)})

    def gathered(self, columns: Sequence[FormedColumn], rest: Sequence[str]) -> SparkRecords:
        """Records with some columns as numbers, and the rest as it is."""
        by_place = {number: form for number, (_, form) in enumerate(columns) if form is not None}
        packing = Packing(len(columns), rows_per_piece(len(columns)), self.from_files, by_place)
        packed = on_workers(self._chosen(columns, rest), packing, RECORD)
        frame = in_own_session(packed)
        packed.persist(on_disks())
        try:
            layout = self._layout(frame, len(columns))
        except BaseException:
            packed.unpersist()
            raise
        # Until now rows were handed over, and from now on records are, which are a thousand times as large.
        frame.sparkSession.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(RECORDS_AT_ONCE))
        self.kept.append(packed)
        return SparkRecords(frame, layout, len(columns), self.kept)

    def _check_held(self, confidential: Sequence[str]) -> None:
        """Long whole numbers and decimals, in a pass of its own: doubles must hold them."""
        doubles = {*confidential} - {*self.times}
        kinds = {field.name: field.dataType for field in self.frame.schema.fields if field.name in doubles}
        lost = {
            name: quoted_column(name).cast("double").cast(kind) != quoted_column(name) for name, kind in kinds.items()
        }
        lost |= {
            name: ~quoted_column(name).between(-LARGEST_WHOLE, LARGEST_WHOLE)
            for name, kind in kinds.items()
            if isinstance(kind, spark_types.LongType)
        }
        wide = [
            name for name, kind in kinds.items() if isinstance(kind, spark_types.LongType | spark_types.DecimalType)
        ]
        if wide:
            found = self.frame.agg(*(sf.max(lost[name]).alias(f"lost{j}") for j, name in enumerate(wide))).first()
            for name, is_lost in zip(wide, found or (), strict=True):
                check_held(name, not is_lost)

    def _chosen(self, columns: Sequence[FormedColumn], rest: Sequence[str]) -> DataFrame:
        """Where each row is in its file, the cells, and the columns that stay, under names that need no quoting."""
        found = [sf.xxhash64(FILE).alias("place"), sf.col(ROW).alias("row")] if self.from_files else []
        cells = [_cell(*column).alias(f"cell{j}") for j, column in enumerate(columns)]
        others = [quoted_column(name).alias(f"other{j}") for j, name in enumerate(rest)]
        return self.frame.select(*found, *cells, *others)

    def _layout(self, frame: DataFrame, columns: int) -> RecordLayout:
        """All records, with so many columns of numbers: one small row of each comes to the driver."""
        known = ["part", "at", "place", "start", "rows", "cells_check", "rest_check"]
        found = np.array(sorted(map(tuple, frame.select(*known).collect())), dtype=np.int64).reshape(-1, len(known))
        part, at, place, start, rows = found[:, :5].T
        begins = self._begins(place, rows)
        first = start + np.array([begins[where] for where in place.tolist()], dtype=np.int64)
        layout = RecordLayout(part, at, first, rows, found[:, 5:], columns)
        in_order = rows[layout.by_row]
        if not np.array_equal(np.cumsum(in_order) - in_order, first[layout.by_row]):
            raise DataError("data: rows of the files are missing or came twice", "write the dataset anew")
        return layout

    def _begins(self, place: NDArray[np.int64], rows: NDArray[np.int64]) -> dict[int, int]:
        """The number of the first row of each file, by their names, or of each partition."""
        order, inverse = np.unique(place, return_inverse=True)
        sizes = dict(zip(order.tolist(), np.bincount(inverse, weights=rows).astype(np.int64).tolist(), strict=True))
        if self.from_files:
            named = self.frame.select(sf.col(FILE).alias("file"), sf.xxhash64(FILE).alias("place"))
            sizes = {row["place"]: sizes[row["place"]] for row in sorted(named.distinct().collect())}
        starts = np.cumsum([0, *sizes.values()]).tolist()
        return dict(zip(sizes, starts, strict=False))

    def released(self, table: SparkTable, outcome: RemoteOutcome, streams: Streams | None = None) -> DataFrame:
        """The rows as they are released, in the order in which Spark reads them; `streams` number columns anew."""
        from pyspark.sql.pandas.types import to_arrow_type

        cells, names = cast(SparkTable, outcome.table).cells, self.chosen or tuple(self.frame.columns)
        doubles = {*table.confidential_names} - self.single - {*self.times}
        kinds = {name: self.frame.schema[name].dataType for name in names}
        kinds |= {name: spark_types.DoubleType() for name in doubles}
        number, text = spark_types.LongType(), spark_types.StringType()
        kinds |= {n: number if isinstance(kinds[n], spark_types.NumericType) else text for n in self.renumbered}
        new = [*table.confidential_names, *self.renumbered, *(rule.column for rule in self.from_dates)]
        hidden = {*table.confidential_names, *table.labels.names}
        columns = ReleasedColumns(
            {name: to_arrow_type(kinds[name], timestamp_utc=True) if name in new else None for name in names},
            table.confidential_names,
            [name for name in (*self.names, *self.renumbered) if name not in hidden],
            self.times,
            {} if streams is None else {name: hashing_key(streams, name) for name in self.renumbered},
            self.from_dates,
            dict(zip(table.labels.names, table.labels.levels, strict=True)),
        )
        # The cells as they were read are the first of a record: those that are missing, or codes, stay so.
        first = range(table.public, table.public + len(table.confidential_names))
        trade = None if streams is None or outcome.released.holes is None else streams.stream("places")
        back = partial(_with_cells_back, outcome.released, outcome.labels, len(cells.places), trade)
        made = Making(back, [*cells.places, *first])
        releasing = partial(release_rows, cells.records.layout, made, columns)
        fields = [spark_types.StructField(name, kind) for name, kind in kinds.items()]
        return cells.records.mapped(releasing, spark_types.StructType(fields), with_rest=True)


def _with_cells_back(
    released: RowMap, labels: RowMap | None, width: int, trade: Stream | None, cells: Array, rows: slice
) -> Array:
    """Released columns and labels of some rows, given the first `width` cells; in gaps, the cells that were read.

    If there are gaps, the rows trade their cells at random (`trade`), so that gaps go elsewhere.
    """
    numbers, own = released(cells[:width], rows), cells[:width]
    if isinstance(released, Released) and released.holes is not None:
        numbers = np.where(released.gaps(own), cells[width:], numbers)
    made = numbers if labels is None else np.vstack([numbers, labels(own, rows)])
    if trade is None:
        return made
    stream = trade.child(f"rows {rows.start}") if rows.start else trade  # a table of one record is that of memory
    return made[:, traded_places(None, made.shape[1], stream)]


def _counted(count: CountRows, forms: Mapping[str, TimeForm | None], batches: Batches) -> Batches:
    """What is counted of each batch, on a worker; `forms` has how each column is numbers, if it is of dates."""
    for batch in batches:
        broken, rows = count({name: numbers_in(batch.column(j), forms[name]) for j, name in enumerate(forms)})
        yield pa.RecordBatch.from_pydict({"broken": [broken], "rows": [rows]})


def write_dataset(frame: DataFrame, target: str) -> None:
    """Write Parquet files into a new folder, which has its name only when all of them are there."""
    session = frame.sparkSession
    hadoop = session._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]  # a session has one
    goal = hadoop.Path(target)
    files = goal.getFileSystem(session._jsc.hadoopConfiguration())
    if files.exists(goal):
        raise FileError(f"'{target}' exists already", "choose another name, or remove it first")
    temporary = hadoop.Path(goal.getParent() or hadoop.Path("."), f".{goal.getName()}.{uuid4().hex}")
    try:
        frame.write.parquet(temporary.toString())
        if not files.rename(temporary, goal):
            raise FileError(f"'{target}' cannot be written", "is there a folder to put it in?")
    finally:
        files.delete(temporary, True)


def _cell(name: str, form: CellForm | None) -> Column:
    """A column as doubles, unless it has a form, by which the workers turn it into numbers."""
    return quoted_column(name) if form is not None else quoted_column(name).cast("double")


def _weighted(table: SparkTable, name: str, place: int) -> SparkTable:
    """The table with survey weights, at a mean of one."""
    only = SparkMatrix(columns_at([place], table.count), records=table.cells.records)
    bad, total = only.total(_weighed, [0]).tolist()
    if bad:
        raise bad_weight(name)
    return replace(table, weights=cast(Array, RemoteColumn(place, table.count, total / table.count)))


def _weighed(cells: Array, rows: slice) -> Array:  # noqa: ARG001 - a row map hears of its rows
    bad = np.count_nonzero(~(np.isfinite(cells) & (cells > 0)))
    return np.array([bad, cells.sum()])
