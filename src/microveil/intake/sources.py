"""Where columns come from: one protocol for a frame in memory, a file that is read in blocks, and rows on Spark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import numpy as np

from microveil.core.arrays import Array, Index
from microveil.core.errors import DataError, ParameterError
from microveil.core.fewest_records import pooled, pulled_in
from microveil.core.keys import grouped
from microveil.core.table import Clustering, Groups, LabelColumns, Matrix, Microdata
from microveil.intake.model_matrix import model_matrix
from microveil.intake.roles import Roles
from microveil.io.blocks import BlockSource
from microveil.io.dictionary import Dictionary
from microveil.io.frames.dataframes import Frame
from microveil.io.frames.number_types import check_held
from microveil.io.frames.validation import SMALLEST_TABLE

Cells = Mapping[str, Array]
"""Cells of some columns of the same rows, by the columns' names."""

Opened = TypeVar("Opened", Frame, BlockSource)

CountRows = Callable[[Cells], tuple[int, int]]
"""Two numbers of rows, counted in some cells."""


@dataclass(frozen=True, repr=False)
class ReadTable:
    """The table that the columns of a source make, and what was noticed about them."""

    table: Microdata
    plain: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    """Which columns of the table are plain columns of numbers to regress on, with their role and name."""

    crossed: Mapping[tuple[str, str], Array] = field(default_factory=dict)
    """By role and name, the columns of numbers that are regressed on in products only."""

    rare: Mapping[str, int] = field(default_factory=dict)
    """How many labels, combinations or strata were pooled, because few records have them; see `Intake`."""


class IntakeSource(Protocol):
    """A table before it is taken in."""

    @property
    def in_memory(self) -> bool:
        """Can whole columns be searched?"""

    @property
    def takes_gaps(self) -> bool:
        """Can cells be missing?"""

    @property
    def names(self) -> list[str]:
        """The columns."""

    @property
    def count(self) -> int:
        """The number of rows."""

    def is_numeric(self, name: str) -> bool:
        """Does the column hold numbers?"""

    def read(self, roles: Roles) -> ReadTable:
        """The columns that have a role, as a table; everything is checked that can be before all rows are profiled."""

    def check_dictionary(self, dictionary: Dictionary) -> None:
        """Refuse a dictionary that declares what cannot be checked or kept where the rows are."""

    def sample(self, names: Sequence[str], rows: Index) -> Cells:
        """Cells of some columns of numbers in these rows, or in as many others where rows have no order."""

    def counted(self, count: CountRows, names: Sequence[str]) -> Iterable[tuple[int, int]]:
        """What is counted in some columns of numbers, over all rows in parts."""


@dataclass(frozen=True, repr=False)
class BatchedSource(ABC, Generic[Opened]):
    """A frame, or a file that is read in blocks: its rows come in batches, in order."""

    opened: Opened

    @property
    @abstractmethod
    def in_memory(self) -> bool:
        """Can whole columns be searched?"""

    @property
    def takes_gaps(self) -> bool:
        """Can cells be missing?"""
        return self.in_memory

    @abstractmethod
    def number_batches(self, names: Sequence[str]) -> Iterator[Cells]:
        """Some columns of numbers, some rows at a time."""

    @property
    def names(self) -> list[str]:
        """The columns."""
        return self.opened.names

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.opened.count

    def is_numeric(self, name: str) -> bool:
        """Does the column hold numbers?"""
        return self.opened.is_numeric(name)

    def sample(self, names: Sequence[str], rows: Index) -> Cells:
        """Cells of some columns of numbers in these rows, which are in ascending order."""
        first, parts = 0, []
        for cells in self.number_batches(names):
            size = cells[names[0]].size
            wanted = rows[(rows >= first) & (rows < first + size)] - first
            parts.append({name: values[wanted] for name, values in cells.items()})
            first += size
        return {name: np.concatenate([part[name] for part in parts]) for name in names}

    def counted(self, count: CountRows, names: Sequence[str]) -> Iterable[tuple[int, int]]:
        """What is counted in some columns of numbers, batch by batch."""
        return map(count, self.number_batches(names))

    def check_dictionary(self, dictionary: Dictionary) -> None:
        """Refuse what needs whole columns, of rows that are not in memory."""
        if not self.in_memory:
            check_declares_sums(dictionary)


@dataclass(frozen=True, repr=False)
class FrameSource(BatchedSource[Frame]):
    """A frame in memory.

    With `pull_in`, records far out in public columns or weights are pulled in: a method that keeps moments exactly
    promises those with the columns as they are. `with_levels` reads what labels are called, too.
    """

    pull_in: bool = False
    with_levels: bool = False

    @property
    def in_memory(self) -> bool:
        """Everything is at hand."""
        return True

    def number_batches(self, names: Sequence[str]) -> Iterator[Cells]:
        """All rows at once."""
        yield {name: self.opened.numbers(name) for name in names}

    def read(self, roles: Roles) -> ReadTable:
        """The table, with labels and strata of few records pooled."""
        frame = self.opened
        check_count(frame.count)
        for name in roles.confidential:
            check_held(name, frame.is_held(name))
        weights = None if roles.weight is None else scaled_weights(roles.weight, frame.numbers(roles.weight))
        rare: dict[str, int] = {}
        if weights is not None and self.pull_in:
            (weights,), heavy = pulled_in([weights], None)
            weights /= weights.mean()
            rare |= {"heavy": heavy} if heavy else {}
        strata = None
        if roles.strata:
            strata, few = pooled(group_numbers(frame, roles.strata))
            rare |= {"strata": few} if few else {}
        codes = tuple(frame.labels(name) for name in roles.labels)
        blanks = tuple(
            int(c.max()) if frame.missing(name) else None for name, c in zip(roles.labels, codes, strict=True)
        )
        levels = tuple(frame.level_values(name) for name in roles.labels) if self.with_levels else ()
        ranks = tuple(_ranks(frame, name) for name in roles.labels)
        labels = LabelColumns(roles.labels, codes, blanks, levels, ranks)
        block = frame.block()
        if block is not None and not labels.names and not roles.shown and list(roles.confidential) == frame.names:
            table = Microdata(Matrix.from_array(block), roles.confidential, 0, weights, strata)
            return ReadTable(table, rare=rare)
        names: list[str] = []
        columns: list[Array] = []
        plain: dict[int, tuple[str, str]] = {}
        crossed: dict[tuple[str, str], Array] = {}
        places: dict[str, tuple[int, ...]] = {}
        for role, terms in {"public": roles.public, **roles.regressors}.items():
            matrix = model_matrix(frame, terms, role)
            plain |= {len(names) + number: (role, name) for number, name in matrix.plain.items()}
            crossed |= {(role, name): values for name, values in matrix.crossed.items()}
            rare |= {f"{role} '{name}'": few for name, few in matrix.rare.items()}
            places[role] = tuple(range(len(names), len(names) + len(matrix.names)))
            names += matrix.names
            columns += matrix.columns
        groups = {role: _groups(frame, chosen) for role, chosen in roles.groups.items()}
        clustering = Clustering(
            groups.get("clusters"),
            groups.get("pieces"),
            groups.get("groups"),
            *(places.get(role, ()) for role in ("local", "local_pieces", "grouped")),
        )
        if self.pull_in and np.isfinite(columns).all():  # what is not finite is refused later
            columns, far = pulled_in(columns, weights)
            rare |= {"far": far} if far else {}
        if not columns and not roles.confidential:  # labels alone: a column of ones says how many rows there are
            names, columns = ["1"], [np.ones(frame.count)]
        values = Matrix([*columns, *(frame.numbers(name) for name in roles.confidential)])
        table = Microdata(
            values, (*names, *roles.confidential), len(names), weights, strata, clustering=clustering, labels=labels
        )
        _check_strata(table, roles)
        return ReadTable(table, plain, crossed, rare)


def _ranks(frame: Frame, name: str) -> Index | None:
    """The place of each level of a column in the order that its type has; None if it has none."""
    order = {level: place for place, level in enumerate(frame.level_order(name))}
    if not order:
        return None
    return np.array([order.get(str(level), len(order)) for level in frame.level_values(name)], dtype=np.intp)


def check_count(rows: int) -> None:
    """Refuse a table with too few rows to hide one among others."""
    if rows < SMALLEST_TABLE:
        counted = "no rows" if rows == 0 else f"{rows} row{'s' if rows > 1 else ''}"
        raise DataError(f"data: has {counted}", f"at least {SMALLEST_TABLE} are needed to hide one among others")


def check_simple_roles(roles: Roles) -> None:
    """Refuse strata and products of public columns, for rows that are not in memory."""
    if roles.strata:
        raise ParameterError("strata: go with engine='memory' only", "protect a file for each stratum, or use memory")
    if any(len(product) > 1 for product in roles.public.products):
        raise ParameterError("public: products of columns go with engine='memory' only", "add them to the data")


def check_declares_sums(dictionary: Dictionary) -> None:
    """Refuse what else a dictionary can declare, for rows that are not in memory: it needs whole columns."""
    if dictionary != Dictionary(sums=dictionary.sums):
        raise ParameterError(
            "rules: for rows that are not in memory, a dictionary of the columns can declare sums only",
            "use engine='memory'",
        )


def has_missing(name: str) -> DataError:
    """The error for missing cells of rows that are not in memory."""
    return DataError(
        f"column '{name}' has missing cells, and rows that are not in memory must be whole",
        "use engine='memory', or leave the column out",
    )


def bad_weight(name: str) -> DataError:
    """The error for survey weights that are none."""
    return DataError(f"weight: column '{name}' has cells that are missing or not above 0", "give every row a weight")


def scaled_weights(name: str, weights: Array) -> Array:
    """Survey weights at a mean of one: only their ratios matter, and sums stay in range."""
    if not np.isfinite(weights).all() or (weights <= 0).any():
        raise bad_weight(name)
    scaled: Array = weights / weights.mean()
    return scaled


def _groups(frame: Frame, chosen: Sequence[str]) -> Groups | None:
    """Groups of records with the same cells in some columns, called by these."""
    if not chosen:
        return None
    numbers = group_numbers(frame, chosen)
    first = np.unique(numbers, return_index=True)[1]
    parts = [frame.words(name, first) for name in chosen]
    return Groups(numbers, tuple(", ".join(cells) for cells in zip(*parts, strict=True)))


def group_numbers(frame: Frame, names: Sequence[str]) -> Index:
    """The number of the group of each record: those with the same cells in some columns are one."""
    return grouped(np.column_stack([frame.labels(name) for name in names]))[1]


def share_unique(frame: Frame, names: Sequence[str]) -> float:
    """The share of the records that no other is equal to in some columns."""
    if not names:
        return 0.0
    if any(frame.is_unique(name) for name in names):  # measured amounts are, and are sorted faster than grouped
        return 1.0
    groups = group_numbers(frame, names)
    return float(np.mean(np.bincount(groups)[groups] == 1))


def _check_strata(table: Microdata, roles: Roles) -> None:
    """Each public column ties the residuals down once; as many rows more are needed, in every stratum."""
    if table.strata is None:
        return
    needed = SMALLEST_TABLE + table.public
    small = int(np.count_nonzero(np.bincount(table.strata) < needed))
    if small:
        raise DataError(
            f"strata: {small} of the groups by {', '.join(roles.strata)} have fewer than {needed} rows",
            "merge small groups, or use fewer columns",
        )
