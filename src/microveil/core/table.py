"""The table as the steps see it: a matrix of numbers with roles, and nothing about where it came from."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import FIRST_ROWS, Array, Index, Mask
from microveil.core.moments import Moments, Pieces, Profile, moments, profile_of
from microveil.core.sorted_columns import in_order
from microveil.core.threads import in_threads, segments

Answer = TypeVar("Answer")

RowMap = Callable[[Array, slice], Array]
"""What is made of rows one by one: a *columns x rows* piece of a table and the numbers of its rows in, an array out.

It depends on these rows only, so an engine may call it wherever they are, in any pieces, and again.
"""


def as_they_are(cells: Array, rows: slice) -> Array:  # noqa: ARG001 - every row map is given its rows
    """The row map of the cells themselves."""
    return cells


@dataclass(frozen=True, repr=False)
class Matrix:
    """Columns of equal length, held as one array or as separate ones, read piece by piece without copying the whole."""

    columns: Sequence[Array]
    block: Array | None = None
    kept: dict[tuple[Hashable, int], Any] = field(default_factory=dict, init=False, compare=False)

    distant: ClassVar[bool] = False
    """Are the rows where only few of them come from, and what is folded of all (`folded`)?"""

    @classmethod
    def from_array(cls, values: Array) -> Matrix:
        """A view of a two-dimensional array."""
        return cls([values[:, j] for j in range(values.shape[1])], values)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return (self.columns[0].shape[0] if self.columns else 0), len(self.columns)

    def piece(self, rows: slice) -> Array:
        """Some rows as a columns x rows array (possibly a view: not to be written to)."""
        if self.block is not None:
            return self.block[rows].T
        out = np.empty((len(self.columns), rows.stop - rows.start))
        for j, column in enumerate(self.columns):
            out[j] = column[rows]
        return out

    def less(self, rows: slice, shift: Array, out: Array) -> Array:
        """Some rows, less a number for each column, as a columns x rows array into the memory given."""
        if self.block is not None:
            return np.subtract(self.block[rows].T, shift[:, None], out=out)
        for column, off, target in zip(self.columns, shift.tolist(), out, strict=True):
            np.subtract(column[rows], off, out=target)
        return out

    def select(self, columns: Sequence[int]) -> Matrix:
        """Some of the columns, in the order given."""
        if list(columns) == list(range(len(self.columns))):
            return self
        return Matrix([self.columns[j] for j in columns])

    def measure(self, of: RowMap = as_they_are, weights: Array | None = None, first: int | None = None) -> Moments:
        """Moments of what is made of the rows; of their `first` columns only, if it needs no others."""
        read = self if first is None else self.select(range(first))
        return moments(lambda piece: of(read.piece(piece), piece), self.shape[0], weights=weights)

    def profile(self, weights: Array | None = None) -> Profile:
        """Moments, extremes and a fingerprint of all rows."""
        return profile_of(self.piece, *self.shape, weights)

    def total(self, of: RowMap, columns: Sequence[int]) -> Array:
        """The sum over all pieces of what is made of some columns."""
        return self.folded(of, columns, partial(np.sum, axis=0))

    def largest(self, of: RowMap, columns: Sequence[int]) -> Array:
        """The largest over all pieces of what is made of some columns."""
        return self.folded(of, columns, partial(np.max, axis=0))

    def folded(self, of: RowMap, columns: Sequence[int], fold: Callable[[list[Array]], Array]) -> Array:
        """What is made of some columns, piece by piece, in one: `fold` takes what came of some pieces, or of folds."""
        chosen = self.select(columns)
        runs = segments(self.shape[0], len(columns)) or [[slice(0, 0)]]

        def made(pieces: list[slice]) -> list[Array]:
            return [of(chosen.piece(piece), piece) for piece in pieces]

        return fold([result for results in in_threads([partial(made, run) for run in runs]) for result in results])

    def varies(self, column: int) -> bool:
        """Is the column not constant? The first rows mostly decide."""
        values = self.columns[column]
        head = values[:FIRST_ROWS]
        return bool(head.max() > head.min() or values.max() > values.min())

    def take(self, rows: Index | Mask) -> Matrix:
        """Some of the rows, copied."""
        return Matrix([column[rows] for column in self.columns])

    def put_aside(self, column: Array) -> Array:
        """A column that stands beside these, kept where they are: in memory, it is the same one."""
        return column

    def made_when_read(self, make: Callable[[], Array]) -> Array:
        """A column beside these that `make` gives, the same each time: in memory, it is made once, now."""
        return make()

    def room_for_features(self, count: int, width: int) -> Any:
        """Room for so many features of so many rows, rows x features in single precision."""
        return np.empty((count, width), np.float32)

    def with_columns(self, columns: Sequence[Array]) -> Matrix:
        """Other columns of the same rows."""
        return Matrix(columns)

    def blanked(self, codes: Mapping[int, Sequence[float]]) -> Matrix:
        """The same with NaN in the place of codes, for the columns that have some, by number."""
        columns = list(self.columns)
        for j, own in codes.items():
            columns[j] = np.where(np.isin(columns[j], own), np.nan, columns[j])
        return self.with_columns(columns)

    def remember(self, what: Hashable, make: Callable[[], Answer], beside: Matrix | None = None) -> Answer:
        """What is made of all rows (and of those of a table `beside` them), by its name: it is made once."""
        name = what, id(beside)
        if name not in self.kept:
            self.kept[name] = make(), beside  # which stays in its place as long as this is kept
        return cast(Answer, self.kept[name][0])

    def in_order(self, column: int) -> Array:
        """The cells of a column that are there, in ascending order."""
        return in_order(self.columns[column])


@dataclass(frozen=True, repr=False)
class RowsFirst:
    """A matrix as an array of rows x columns is read: some rows at a time, or column by column."""

    matrix: Matrix

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.matrix.shape

    @property
    def T(self) -> Iterator[Array]:  # noqa: N802 - as of an array
        """The columns."""
        return (column[:] for column in self.matrix.columns)

    def __getitem__(self, rows: slice) -> Array:
        return np.ascontiguousarray(self.matrix.piece(rows).T)


@dataclass(frozen=True, repr=False)
class Groups:
    """Groups of records: a number for each record, and what each number is called."""

    numbers: Index
    labels: tuple[str, ...]

    def take(self, rows: Index) -> Groups:
        """The groups of some of the records, numbered anew, none of them empty."""
        present, numbers = np.unique(self.numbers[rows], return_inverse=True)
        return Groups(numbers.astype(np.intp), tuple(self.labels[group] for group in present))


@dataclass(frozen=True, repr=False)
class Clustering:
    """Clusters of records for methods that regress inside them, with pieces of clusters and groups of clusters.

    The others number public columns: `local` ones are regressed on in each cluster, `local_pieces` in each piece,
    `grouped` ones in each group of clusters; public columns that are in none of them, over all records.
    """

    clusters: Groups | None = None
    pieces: Groups | None = None
    groups: Groups | None = None
    local: tuple[int, ...] = ()
    local_pieces: tuple[int, ...] = ()
    grouped: tuple[int, ...] = ()

    def take(self, rows: Index) -> Clustering:
        """The same for some of the records."""
        kinds = (self.clusters, self.pieces, self.groups)
        clusters, pieces, groups = (None if kind is None else kind.take(rows) for kind in kinds)
        return replace(self, clusters=clusters, pieces=pieces, groups=groups)


@dataclass(frozen=True, repr=False)
class LabelColumns:
    """Columns of labels: for each the number of the level that each record has. A missing cell is a level, too."""

    names: tuple[str, ...] = ()
    codes: tuple[Index, ...] = ()
    missing: tuple[int | None, ...] = ()
    """Which level of each column is that of missing cells, if any."""

    levels: tuple[Sequence[Any], ...] = ()
    """What the levels are called, where the method asks for it."""

    ranks: tuple[Index | None, ...] = ()
    """The place of each level in the order that the type of a column has, if it has one."""

    def with_blanks(self) -> NDArray[np.int64]:
        """The codes of all columns, records x columns, -1 where a cell is missing."""
        columns = zip(self.codes, self.missing, strict=True)
        return np.column_stack([np.where(codes == blank, -1, codes) for codes, blank in columns]).astype(np.int64)

    def without_blanks(self, codes: NDArray[np.int64]) -> list[Index]:
        """Codes of all columns, one by one, with missing cells in the level they have; -1 where there was none."""
        blanks = [-1 if blank is None else blank for blank in self.missing]
        columns = zip(codes.T, blanks, strict=True)
        return [np.where(column < 0, blank, column).astype(np.intp) for column, blank in columns]

    def select(self, columns: Sequence[int]) -> LabelColumns:
        """Some of the columns."""
        parts = vars(self).items()
        return LabelColumns(**{name: tuple(part[j] for j in columns) if part else () for name, part in parts})

    def take(self, rows: Index) -> LabelColumns:
        """The labels of some of the records."""
        return replace(self, codes=tuple(codes[rows] for codes in self.codes))


NO_LABELS = LabelColumns()


@dataclass(frozen=True, repr=False)
class Beside:
    """Columns that are protected already, as they were and as they are released: what others are arranged beside.

    Nothing is regressed on them: what was said of a record would come back with it.
    """

    before: Sequence[Array] = ()
    after: Sequence[Array] = ()

    def take(self, rows: Index) -> Beside:
        """The same for some of the records."""
        return Beside([column[rows] for column in self.before], [column[rows] for column in self.after])


NOTHING_BESIDE = Beside()


@dataclass(frozen=True, repr=False, eq=False)
class Bands:
    """How a column follows from one of numbers (`source`): one value, or level of labels, between each two cuts."""

    source: str
    cuts: Array
    values: Array
    labels: bool

    def of(self, numbers: Array) -> Array:
        """The column, from the numbers."""
        found: Array = self.values[np.searchsorted(self.cuts, numbers)]
        return found


@dataclass(frozen=True, repr=False)
class Microdata:
    """What is to be protected, and what else is known of the records.

    `values` has the public columns first, then the confidential ones: every step that needs both reads one piece.
    `other` has the confidential columns as another masker released them, for methods that start from these, and
    `clustering` says which records belong together, for methods that regress inside clusters. `labels` are
    the confidential columns of labels, which have no order and no moments of their own; `beside` are columns whose
    relations to the confidential ones come back, although they are other columns in the release. `bands` are columns
    that follow from confidential ones, and are computed anew from these.
    """

    values: Matrix
    names: tuple[str, ...]
    public: int = 0
    weights: Array | None = None
    strata: Index | None = None
    other: Matrix | None = None
    clustering: Clustering = field(default_factory=Clustering)
    labels: LabelColumns = field(default_factory=lambda: NO_LABELS)
    beside: Beside = NOTHING_BESIDE
    bands: tuple[Bands, ...] = ()
    rows_trade: bool = False
    """Do rows trade their confidential cells in the end, so that no row tells where its own ones went?"""

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.values.shape[0]

    @property
    def regressors(self) -> Matrix:
        """The public columns."""
        return self.values.select(range(self.public))

    @property
    def confidential(self) -> Matrix:
        """The columns to be protected."""
        return self.values.select(range(self.public, len(self.names)))

    @property
    def confidential_names(self) -> tuple[str, ...]:
        """The names of the columns to be protected."""
        return self.names[self.public :]

    @property
    def pieces(self) -> Pieces:
        """Public and confidential columns, piece by piece."""
        return self.values.piece

    def profile(self) -> Profile:
        """Moments, extremes and a fingerprint of all rows."""
        return self.values.profile(self.weights)

    def measure(self, of: RowMap, first: int | None = None) -> Moments:
        """Moments of what is made of the rows; of their `first` columns only, if it needs no others."""
        return self.values.measure(of, self.weights, first)

    def total(self, of: RowMap, columns: Sequence[int] | None = None) -> Array:
        """Sums over all pieces of what is made of each (of some columns only), in the order of the rows."""
        return self.values.total(of, range(self.values.shape[1]) if columns is None else columns)

    def alike(self) -> NDArray[np.uint64] | None:
        """Which rows are alike in all that stays in its place: a number for each; None where nothing stays."""
        stays = [*self.regressors.columns, *(own for own in (self.weights, self.strata) if own is not None)]
        if not stays:
            return None
        numbers = np.zeros(self.count, dtype=np.uint64)
        for column in stays:  # that two differ and have one number is as good as impossible
            bits = (np.asarray(column[:], dtype=np.float64) + 0.0).view(np.uint64)  # 0.0 and -0.0 are one
            numbers = (numbers ^ bits) * np.uint64(0x9E3779B97F4A7C15)
            numbers = (numbers ^ (numbers >> np.uint64(32))) * np.uint64(0xBF58476D1CE4E5B9)
        return numbers

    def keep(self, confidential: Sequence[int]) -> Microdata:
        """The table with only some of its confidential columns (numbered among themselves)."""
        columns = [*range(self.public), *(self.public + j for j in confidential)]
        return replace(
            self,
            values=self.values.select(columns),
            names=tuple(self.names[j] for j in columns),
            other=None if self.other is None else self.other.select(confidential),
        )

    def with_confidential(self, columns: Sequence[Array]) -> Microdata:
        """The table with other values in its confidential columns."""
        return replace(self, values=self.values.with_columns([*self.values.columns[: self.public], *columns]))

    def beside_public(self, columns: Sequence[Array], present: Mask) -> tuple[Array, Mask]:
        """Public columns, which have no holes, and others that have some, rows x columns; and which cells are there."""
        return np.column_stack([*self.values.columns[: self.public], *columns]), self.beside_public_cells(present)

    def beside_public_cells(self, present: Mask) -> Mask:
        """Which cells are there, those of public columns first, which all are: rows x columns."""
        return np.hstack([np.ones((self.count, self.public), dtype=bool), present]) if self.public else present

    def take(self, rows: Index) -> Microdata:
        """Some of the rows, as a table without strata."""
        weights = None if self.weights is None else self.weights[rows]
        other = None if self.other is None else self.other.take(rows)
        return replace(
            self,
            values=self.values.take(rows),
            weights=weights,
            strata=None,
            other=other,
            clustering=self.clustering.take(rows),
            labels=self.labels.take(rows),
            beside=self.beside.take(rows),
        )


def rows_by_group(groups: Index) -> list[Index]:
    """The rows of each group (numbered from 0, none empty), in row order."""
    return np.split(np.argsort(groups, kind="stable"), np.cumsum(np.bincount(groups))[:-1])
