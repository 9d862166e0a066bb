"""Figures that explain themselves, how a measure is declared, and two files on one scale.

A measure is a pure function of two tables. It is declared once, by a decorator that says what the figure means, its
range, which direction is better, what it costs and how it is taken of files on a disk or tables on Spark; the function
itself gives back an `Estimate`:

    @gauge("share of cells that moved", better="low", range=(0, 1), cost="fast", paired=True, on_disk="passes")
    def moved(original: Matrix, released: Matrix) -> Estimate: ...

and is then called as `moved(original, released)`, which checks the tables and gives back a `Measure`. What is taken of
labels says so, `needs="labels"`, and has the argument `labels`, a `LabelPair`. The registries
(`microveil.measures.utility.MEASURES`, `microveil.measures.risk.MEASURES`) hold what their files declare.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from types import ModuleType
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.errors import DataError, ParameterError
from microveil.core.rng import Stream
from microveil.core.sorted_columns import pieces_of
from microveil.core.table import Matrix
from microveil.core.threads import in_threads, segments, single_threaded_blas
from microveil.core.tolerances import RANGE_ROUND_OFF
from microveil.measures.labels import LABEL_KINDS, LabelPair

Better = Literal["low", "high", "neither"]
Cost = Literal["fast", "slow"]
"""`fast` grows like n log n and takes seconds for a million rows; `slow` searches, fits or simulates."""

Kind = Literal["risk", "utility", "score"]

OnDisk = Literal["no", "passes", "sorted", "columns", "sample"]
"""How a measure is taken of tables that are not in memory: not at all; in passes over pieces of rows, or from rows that
it draws itself; from columns in ascending order too; from `HELD_COLUMNS` such columns held at once; or from a random
sample of the rows."""

Needs = Literal["numbers", "labels", "both", "clear", "others", "any"]
"""What columns a measure is taken of: numbers; labels; both; those in clear, of any kind; labels or those in clear;
numbers or labels, whichever there are. What not every file has is in the default set of files that have it, in memory.
"""

IF_THERE = ("labels", "both", "clear", "others")

HELD_COLUMNS = 3

EXACT_ROWS = 100_000
"""Records that are all looked for, at most. Figures of files with no more of them are the same as ever."""

SMALL = 1_000_000
"""Cells that are not worth a thread."""

Answer = TypeVar("Answer")
Rows = NDArray[np.intp] | slice


@dataclass(frozen=True)
class Estimate:
    """What a measure found. Without `low` and `high` no sampling is involved, and the interval is the value itself.

    `chance` is what luck alone gives: guessing, for a risk; two independent samples of one population, for a distance.
    `parts` holds figures the value is made of, or versions of it; `note` says what a reader must know about this one.
    """

    value: float
    low: float | None = None
    high: float | None = None
    chance: float | None = None
    note: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Measure:
    """One measured figure."""

    id: str
    value: float
    low: float
    high: float
    chance: float | None
    better: Better
    range: tuple[float, float]
    meaning: str
    note: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)

    @property
    def utility(self) -> float:
        """The figure with the sign that makes more of it better: distances are turned around."""
        return -self.value if self.better == "low" else self.value

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON. JSON has no infinity, so it is the word "Infinity", which most languages can read."""
        return {name: plain(value) for name, value in asdict(self).items()}


@dataclass(frozen=True)
class MeasureInfo:
    """A measure as people choose it: what is known of it before it is taken.

    `paired` measures compare each record with its own release, and need as many rows in both files, in one order.
    `story` is the whole of it, in the words of the function that measures; `parts` are the measures a score is made of.
    """

    id: str
    kind: Kind
    summary: str
    better: Better
    range: tuple[float, float]
    cost: Cost
    paired: bool
    story: str = ""
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class MeasureSpec(MeasureInfo):
    """A measure as it is declared: the function with what is to be known about it. Calling it measures.

    `default` ones have something to say about any file, and are taken if nobody names others.
    """

    function: Callable[..., Estimate]
    default: bool
    on_disk: OnDisk
    on_spark: bool
    needs: Needs

    def __post_init__(self) -> None:
        object.__setattr__(self, "__doc__", self.function.__doc__)

    @property
    def arguments(self) -> dict[str, Any]:
        """What the function takes in addition to the two files, with the defaults."""
        known = inspect.signature(self.function).parameters.values()
        return {one.name: one.default for one in known if one.kind is one.KEYWORD_ONLY}

    def takes(self, option: str) -> bool:
        """Is there such an option?"""
        return option in inspect.signature(self.function).parameters

    def seeded(self, seed: int | None) -> dict[str, int | None]:
        """The seed as an argument, for those that draw random numbers; nothing for the others."""
        return {"seed": seed} if self.takes("seed") else {}

    def __call__(self, original: Matrix, released: Matrix, **options: Any) -> Measure:
        """Measure."""
        labels: LabelPair | None = options.get("labels")
        if self.needs in IF_THERE or (labels is not None and not original.shape[1]):
            check_labels(labels, self.needs, paired=self.paired)
        if original.shape[1] or self.needs in ("numbers", "both") or labels is None:
            check_comparable(original, released, paired=self.paired)
        return self.take(original, released, **options)

    def take(self, original: Matrix, released: Matrix, **options: Any) -> Measure:
        """Measure tables that were found comparable before."""
        with single_threaded_blas():  # figures must not depend on the number of threads
            found = self.function(original, released, **options)
        ends = (found.value if end is None else end for end in (found.value, found.low, found.high))
        value, low, high = map(self._inside, ends)
        known = found.chance, self.better, self.range, self.summary
        return Measure(self.id, value, low, high, *known, note=found.note, parts=found.parts)

    def _inside(self, value: float) -> float:
        """Round-off may lead just out of the range; anything more is a fault, and stays to be seen."""
        inside = min(max(value, self.range[0]), self.range[1])
        return float(inside if abs(inside - value) <= RANGE_ROUND_OFF else value)


def gauge(
    summary: str,
    *,
    better: Better = "low",
    range: tuple[float, float] = (0.0, 1.0),  # noqa: A002 - the word every report uses
    cost: Cost = "fast",
    paired: bool = False,
    default: bool = False,
    on_disk: OnDisk = "no",
    on_spark: bool = False,
    needs: Needs = "numbers",
) -> Callable[[Callable[..., Estimate]], MeasureSpec]:
    """Declare a measure; its id is the name of the function.

    `summary` says what the figure means, `better` which direction is, `range` its ends, `cost` whether it is fast. A
    `paired` one compares each record with its own release, a `default` one is taken if nobody names others; `on_disk`
    and `needs` are explained above. One that needs no more of all rows than folds of what is made of each file's by
    itself (`Matrix.folded`) is taken `on_spark`, as those are that are `on_disk="sample"`. It is one of utility, unless
    `registry` says otherwise.
    """

    def declared(function: Callable[..., Estimate]) -> MeasureSpec:
        ends, story = (float(range[0]), float(range[1])), inspect.cleandoc(function.__doc__ or "")
        on_workers = on_spark or on_disk == "sample"
        kept: dict[str, Any] = {"default": default, "on_disk": on_disk, "on_spark": on_workers, "needs": needs}
        kept["function"] = function
        return MeasureSpec(function.__name__, "utility", summary, better, ends, cost, paired, story, **kept)

    return declared


distance = partial(gauge, range=(0.0, math.inf), on_disk="passes", on_spark=True)
"""Declares a distance of moments: 0 if nothing has changed, and taken in passes over the rows of each file."""


def registry(kind: Kind, *files: ModuleType) -> dict[str, MeasureSpec]:
    """The measures of one kind that some files declare, by their id, in the order of their declarations."""
    declared = [one for file in files for one in vars(file).values() if isinstance(one, MeasureSpec)]
    return {entry.id: replace(entry, kind=kind) for entry in declared}


def check_comparable(original: Matrix, released: Matrix, *, paired: bool) -> None:
    """Refuse two tables that cannot be compared: they need the same columns, some rows, and nothing infinite."""
    check_shapes(original, released, paired=paired)
    for which, table in (("original", original), ("released", released)):
        for number, column in enumerate(table.columns):
            if np.isinf(column).any():
                raise DataError(f"column {number} (from 0) of the {which} file has infinite cells", "remove them")


def check_labels(labels: LabelPair | None, needs: Needs, *, paired: bool) -> None:
    """There are columns of the kind that a measure needs; and as many rows, if records are compared one by one."""
    if needs != "clear" and (labels is None or (needs != "others" and not set(labels.kinds) & set(LABEL_KINDS))):
        raise DataError("the files have no columns of labels in common", "give both files with their labels")
    if labels is None or (needs == "clear" and not any(labels.in_clear)):
        raise DataError("no column is released as it is", "there is nothing to measure, and that is good")
    _check_rows(len(labels.original), len(labels.released), paired)


def check_shapes(original: Matrix, released: Matrix, *, paired: bool) -> None:
    """Same columns, some rows; and as many, if records are compared one by one."""
    (rows, columns), (new_rows, new_columns) = original.shape, released.shape
    if columns != new_columns:
        raise DataError(f"the files have {columns} and {new_columns} columns", "compare the same columns of both")
    if not rows or not new_rows or not columns:
        raise DataError("there is nothing to measure", "both files need rows and columns of numbers")
    _check_rows(rows, new_rows, paired)


def _check_rows(rows: int, new_rows: int, paired: bool) -> None:
    if paired and rows != new_rows:
        raise DataError(
            f"the files have {rows} and {new_rows} rows, and this measure compares records one by one",
            "give both files in the same order of rows, or choose a measure that compares distributions",
        )


def check_sensitive(sensitive: Sequence[int] | None, width: int) -> None:
    """Sensitive columns are numbers of columns of a table of that width, if any are named."""
    if sensitive is not None and (not len(sensitive) or not set(sensitive) <= set(range(width))):
        raise ParameterError(f"sensitive: numbers of columns from 0 to {width - 1}", "name columns of the table")


def are_many(records: int) -> bool:
    """Too many for all of them to be looked for?"""
    return records > EXACT_ROWS


def drawn_rows(count: int, most: int, stream: Stream) -> NDArray[np.intp]:
    """All rows, or a random sample of `most` of them in the order of the file."""
    if count <= most:
        return np.arange(count)
    return np.sort(stream.generator().choice(count, most, replace=False))


def standardised(
    reference: Matrix,
    other: Matrix,
    rows: NDArray[np.intp] | None = None,
    others: NDArray[np.intp] | None = None,
) -> tuple[Array, Array]:
    """Both files in standard deviations (divisor n) of the reference from its mean; missing cells stay NaN.

    Columns that are constant in the reference have no scale, and are left out of both. Of each file some `rows` may be
    asked for (the same of both, unless `others` are named); the scale is that of all.
    """
    if rows is None:
        return _all_standardised(reference, reference), _all_standardised(reference, other)
    found = scales(reference, needed=True)
    asked = ((reference, rows), (other, rows if others is None else others))
    first, second = (
        np.column_stack([(cells - mean) / sd for cells, (mean, sd) in zip(chosen, found.values(), strict=True)])
        for chosen in (_some_rows(table.select(list(found)), some) for table, some in asked)
    )
    return first, second


def _all_standardised(reference: Matrix, table: Matrix) -> Array:
    """Every row of a table: in pieces, as a column at a time would go through all of the memory for each."""
    piece_of, count = standardised_pieces(reference, table), table.shape[0]
    out = np.empty((count, len(scales(reference))))

    def fill(pieces: list[slice]) -> None:
        for piece in pieces:
            out[piece] = piece_of(piece)[0].T

    in_threads([partial(fill, run) for run in segments(count, out.shape[1])], small=out.size < SMALL)
    return out


def without_holes(values: Array) -> Array:
    """Standardised values with missing cells in the middle: the same array if there are none."""
    holes = np.isnan(values)
    return np.where(holes, 0.0, values) if holes.any() else values


def _some_rows(table: Matrix, rows: Rows) -> Sequence[Array]:
    """Some rows of each column."""
    if table.distant and not isinstance(rows, slice):
        return table.take(rows).columns
    return [column[rows] for column in table.columns]


def standardised_pieces(reference: Matrix, *tables: Matrix) -> Callable[[slice], list[Array]]:
    """What gives some rows of tables, each columns x rows, in standard deviations of the reference; NaN where missing.

    Columns that are constant in the reference are left out.
    """
    found = scales(reference, needed=True)
    chosen = [table.select(list(found)) for table in tables]
    mean, sd = means_and_sds(found)
    return lambda rows: [(table.piece(rows) - mean) / sd for table in chosen]


def over_rows(reference: Matrix, other: Matrix, of: Callable[[Array, Array], Answer]) -> list[Answer]:
    """What is made of the rows of two files of one length, piece by piece.

    Pieces are columns x rows, in standard deviations of the reference, as `standardised` has the whole.
    """
    pieces_of = standardised_pieces(reference, reference, other)

    def made(pieces: list[slice]) -> list[Answer]:
        return [of(*pieces_of(piece)) for piece in pieces]

    runs = segments(reference.shape[0], 2 * len(scales(reference)))
    return [answer for run in in_threads([partial(made, run) for run in runs]) for answer in run]


def scales(table: Matrix, *, needed: bool = False) -> dict[int, tuple[float, float]]:
    """Mean and standard deviation (divisor n) of each column that is not constant, by its number."""
    few = table.shape[0] * table.shape[1] < SMALL
    look = partial(in_threads, [partial(scale_of, column) for column in table.columns], small=few)
    looks = table.remember("scales", partial(_distant_scales, table) if table.distant else look)
    found = {number: scale for number, scale in enumerate(looks) if scale is not None}
    if needed and not found:
        raise DataError("every column is constant", "there is nothing to measure; check the data")
    return found


def scale_of(column: Array) -> tuple[float, float] | None:
    """Mean and standard deviation (divisor n) of the cells that are there; None for a constant column."""
    looks = [(there.size, float(there.sum()), there.min(), there.max()) for there in _present(column)]
    if not looks:
        return None
    count, total = sum(look[0] for look in looks), math.fsum(look[1] for look in looks)
    mean, low, high = total / count, float(min(look[2] for look in looks)), float(max(look[3] for look in looks))
    if not high > low:
        return None
    # By the span first: squares of very small or very large numbers are no numbers any more.
    span = high - low
    squares = math.fsum(float(np.square((there - mean) / span).sum()) for there in _present(column))
    return mean, span * math.sqrt(squares / count)


def _distant_scales(table: Matrix) -> list[tuple[float, float] | None]:
    """`scale_of` all columns of a table whose rows are far away."""
    every = range(table.shape[1])
    count, total = table.total(_counts_and_sums, every)
    low, high = ends_of(table)
    mean = total / np.maximum(count, 1)
    span = np.where(high > low, high - low, 1.0)
    squares = table.total(partial(_squares, mean, span), every)
    sd = span * np.sqrt(squares / np.maximum(count, 1))
    return [(float(mean[j]), float(sd[j])) if high[j] > low[j] else None for j in every]


def means_and_sds(found: Mapping[int, tuple[float, float]]) -> tuple[Array, Array]:
    """The `scales` of columns in two arrays, a row for each column: to be taken off columns x rows, and divided by."""
    mean, sd = (np.array(side)[:, None] for side in zip(*found.values(), strict=True))
    return mean, sd


def ends_of(table: Matrix) -> tuple[Array, Array]:
    """The least and the largest cells of the columns of a table, wherever its rows are; zeros of an empty one."""
    ends = table.remember("ends", lambda: table.largest(_ends, range(table.shape[1])))
    low, high = np.where(ends == -np.inf, 0.0, ends) * [[-1.0], [1.0]]
    return low, high


def _ends(cells: Array, rows: slice) -> Array:  # noqa: ARG001 - every row map is given its rows
    return np.stack([np.where(np.isnan(of), -np.inf, of).max(axis=1, initial=-np.inf) for of in (-cells, cells)])


def _counts_and_sums(cells: Array, rows: slice) -> Array:  # noqa: ARG001 - as above
    return np.stack([np.count_nonzero(~np.isnan(cells), axis=1), np.nansum(cells, axis=1)])


def _squares(mean: Array, span: Array, cells: Array, rows: slice) -> Array:  # noqa: ARG001 - as above
    squares: Array = np.nansum(np.square((cells - mean[:, None]) / span[:, None]), axis=1)
    return squares


def _present(column: Array) -> Iterator[Array]:
    """The cells that are there, piece by piece."""
    for piece in pieces_of(column):
        there = piece[~np.isnan(piece)]
        if there.size:
            yield there


def plain(value: Any) -> Any:
    """The value as JSON can hold it."""
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
