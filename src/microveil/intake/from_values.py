"""Columns that follow from a column of numbers: age groups from ages, a flag of zeros, a price from a month.

They are left out and computed anew from the released numbers, so that they agree in every row. In the order of the
numbers such a column is a few runs of equal values. A run of a few records would tell what these records have: it takes
the value of the next run, if such records are rare. Runs of enough records hardly ever happen in a table of independent
columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from microveil.core.arrays import Array, Index, Mask
from microveil.core.fewest_records import FEWEST_RECORDS
from microveil.core.table import Bands
from microveil.io.frames.dataframes import Frame

FEWEST = 50
"""Rows of a table, at least: in fewer, runs come about by accident."""

BY_VALUE = "by its value"
"""How a dictionary says that a column follows so."""

MOST_PAIRS = 40_000
"""Pairs of columns that are looked at; a table with more is not searched."""

MOST_RUNS = 500
SAMPLE = 2_000
RARE = 0.01
"""Runs, at most; and rows that are looked at first, in which other columns have more of them; and the share of the
records that may be in runs of few."""

MADE_UP = 0.1
"""Share of the rows that may have a cell, but not what it follows from: theirs are drawn from those of all rows."""


@dataclass(frozen=True, repr=False, eq=False)
class ValueRule(Bands):
    """A column that follows from another one: one value, or level of labels, between each two cuts."""

    column: str
    part: str = BY_VALUE

    @property
    def sentence(self) -> str:
        """The rule in words; never the cuts, which are near values."""
        return f"{self.column} follows from {self.source}: {self.part}"

    def computed(self, frame: Frame) -> Array:
        """The column, from the source in a table; NaN where that is missing."""
        numbers = frame.numbers(self.source)
        return np.where(np.isnan(numbers), np.nan, self.of(numbers))


def find_value_rules(
    frame: Frame, sources: Sequence[str], columns: Mapping[str, bool], *, gaps: bool = True
) -> list[ValueRule]:
    """The columns that follow from one of the sources, in every row; those with most different values are asked first.

    Args:
        frame: the table.
        sources: columns of numbers that will be perturbed.
        columns: columns that may follow, and whether they are labels.
        gaps: whether cells may be missing where the source is not, and in some rows the source where cells are not.
    """
    if frame.count < FEWEST or len(sources) * len(columns) > MOST_PAIRS:
        return []
    some = np.linspace(0, frame.count - 1, min(SAMPLE, frame.count)).astype(np.intp)
    cells = {name: cells_of(frame, name, labels=labels) for name, labels in columns.items()}
    numbers = {name: frame.numbers(name) for name in sources}
    seen = {name: values[some] for name, values in numbers.items()}
    sizes = {name: np.unique(values[~np.isnan(values)]).size for name, values in seen.items()}
    found: dict[str, ValueRule] = {}
    for source in sorted(sources, key=lambda name: -sizes[name]):
        if source in found or sizes[source] <= 2:  # the rules of labels find what follows from a flag
            continue
        order, first = None, some[np.argsort(numbers[source][some], kind="stable")]
        for name, labels in columns.items():
            used = name in {source, *found} or any(rule.source == name for rule in found.values())
            # A finer column does not follow from a coarser one.
            if (
                used
                or sizes[source] < sizes.get(name, 0)
                or not _may_follow(numbers[source][first], cells[name][first])
            ):
                continue
            order = np.argsort(numbers[source], kind="stable") if order is None else order
            runs = _runs(numbers[source], cells[name], order, gaps)
            if runs is not None:
                found[name] = ValueRule(source, *runs, labels, name)
    return list(found.values())


def cells_of(frame: Frame, name: str, *, labels: bool) -> Array:
    """The numbers of a column, or those of its `labels`: NaN where a cell is missing."""
    if not labels:
        return frame.numbers(name)
    codes = frame.labels(name).astype(np.float64)
    return np.where(codes == codes.max(), np.nan, codes) if frame.missing(name) else codes


def known_rows(unknown: Mask, cells: Array, *, gaps: bool) -> Mask | None:
    """Rows in which `cells` can be seen to follow from what is not `unknown`; None where they cannot, as others tell.

    With `gaps`, one of the two may be missing without the other. But if there is a word for a gap, which stands nowhere
    else, it stands beside each.
    """
    missing = np.isnan(cells)
    known, made_up = ~(unknown | missing), unknown & ~missing
    if not known.any() or not (gaps or np.array_equal(unknown, missing)):
        return None
    if np.count_nonzero(made_up) > MADE_UP * cells.size:
        return None
    words = words_for_gaps(cells[made_up], cells[known])
    return known if words.size == 0 or (cells[made_up] == words[0]).all() else None


def words_for_gaps(beside: Array, elsewhere: Array) -> Array:
    """What enough records have `beside` a gap, and none has `elsewhere`."""
    values, counts = np.unique(beside, return_counts=True)
    return values[(counts >= FEWEST_RECORDS) & ~np.isin(values, elsewhere)]


def _may_follow(numbers: Array, cells: Array) -> bool:
    """Whether some rows, in the order of the numbers, look as if cells followed from these, where both are there."""
    there = ~(np.isnan(cells) | np.isnan(numbers))
    numbers, other = numbers[there], _differs(cells[there])
    return bool(np.count_nonzero(other) <= MOST_RUNS and not (other & (numbers[1:] == numbers[:-1])).any())


def _runs(numbers: Array, cells: Array, order: Index, gaps: bool) -> tuple[Array, Array] | None:
    """Where the runs of equal cells end in the `order` of the numbers, halfway to the next, and what each run has.

    A run of few records is part of the one before it, the first of the next. None where there are too many runs, or
    more than a few records in such, or records with the same number have different cells; `gaps` as in `known_rows`.
    """
    known = known_rows(np.isnan(numbers), cells, gaps=gaps)
    if known is None:
        return None
    order = order[known[order]]
    values, along = numbers[order], cells[order]
    ends = np.flatnonzero(_differs(along))
    sizes = np.diff(np.r_[-1, ends, along.size - 1])
    small, own = sizes < FEWEST_RECORDS, along[np.r_[ends, along.size - 1]]
    if ends.size > MOST_RUNS or sizes[small].sum() > RARE * along.size or (values[ends] == values[ends + 1]).any():
        return None
    begins, kept = ~small[1:] & (np.cumsum(~small)[:-1] > 0), own[~small]  # where both a run and one before are large
    exceptions = own.size > np.unique(own[small]).size + kept.size or np.isin(own[small], kept).any()
    if exceptions or not begins.any() or not _differs(kept).all():
        return None
    return ((values[ends] + values[ends + 1]) / 2)[begins], kept


def _differs(cells: Array) -> Mask:
    """Which cells differ from the next one."""
    differs: Mask = cells[1:] != cells[:-1]
    return differs
