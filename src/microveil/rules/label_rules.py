"""Rules between columns of labels: those that follow from another column, and pairs of labels that never meet.

Both can come about by accident, the more easily the fewer records a label has. So both are believed only if chance,
were the columns independent, would hardly ever bring them about.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.intp]

BY_CHANCE = 1e-4
"""How probable a finding may be in a table of independent columns, all its pairs of columns together."""

MOST_CELLS = 1_000_000
"""Cells of a two-way table, at most; larger ones are not looked at."""


@dataclass(frozen=True, repr=False)
class Dependency:
    """A column that follows from another, by the level of that one; columns by number."""

    column: int
    source: int
    levels: NDArray[np.intp]
    """The level of the column for each level of the source."""

    def rebuilt(self, codes: Codes) -> Codes:
        """The column, from the source."""
        made: Codes = self.levels[codes]
        return made

    def sentence(self, names: Sequence[str]) -> str:
        """It as a person would say it."""
        return f"{names[self.column]} follows from {names[self.source]}"


@dataclass(frozen=True)
class ImpossiblePair:
    """Two labels that no record has together, though many should by chance; columns and levels by number."""

    columns: tuple[int, int]
    levels: tuple[int, int]


@dataclass(frozen=True, repr=False)
class LabelRules:
    """What is known of columns of labels: which follow from others, and which labels never meet.

    Dependencies count all `columns`, pairs count those that follow from nothing (`independent`).
    """

    columns: tuple[Codes, ...] = ()
    dependencies: Sequence[Dependency] = ()
    pairs: Sequence[ImpossiblePair] = ()

    @classmethod
    def among(cls, columns: Sequence[Codes]) -> LabelRules:
        """The rules that columns of labels look like."""
        found = cls(tuple(columns), find_dependencies(columns))
        return cls(found.columns, found.dependencies, find_impossible_pairs([columns[j] for j in found.independent]))

    @property
    def independent(self) -> list[int]:
        """The columns that follow from no other, by number."""
        made = {rule.column for rule in self.dependencies}
        return [j for j in range(len(self.columns)) if j not in made]

    def restored(self, labels: Sequence[Codes], generator: np.random.Generator) -> list[Codes]:
        """All columns, from the independent ones: without pairs that cannot be, and with those that follow."""
        free = dict(zip(self.independent, without_impossible_pairs(labels, self.pairs, generator), strict=True))
        made = {rule.column: rule.rebuilt(free[rule.source]) for rule in self.dependencies}
        return [{**free, **made}[j] for j in range(len(self.columns))]


def find_dependencies(columns: Sequence[Codes]) -> list[Dependency]:
    """Columns that follow from one other column, each from the one with the fewest levels; of twins, the later one.

    `columns` have the numbers of the levels, from 0.
    """
    sizes = [int(codes.max(initial=0)) + 1 for codes in columns]
    pairs = max(len(columns) * (len(columns) - 1), 1)
    found: dict[int, Dependency] = {}
    for source in sorted(range(len(columns)), key=lambda j: (sizes[j], j)):
        for column in range(len(columns)):
            twins = sizes[column] == sizes[source] and column < source
            if column == source or column in found or sizes[column] > sizes[source] or twins:
                continue
            levels = _levels_by(columns[source], columns[column], sizes[source], sizes[column])
            if levels is not None and _luck(columns[source], columns[column]) < np.log(BY_CHANCE / pairs):
                found[column] = Dependency(column, source, levels)
    return [_from_first(found, rule) for rule in found.values()]


def _from_first(found: dict[int, Dependency], rule: Dependency) -> Dependency:
    """The rule with a source that follows from nothing itself, so that the order of rebuilding does not matter."""
    while rule.source in found:
        onward = found[rule.source]
        rule = Dependency(rule.column, onward.source, rule.levels[onward.levels])
    return rule


def _levels_by(source: Codes, column: Codes, size: int, width: int) -> NDArray[np.intp] | None:
    """The one level of the column that each level of the source has; None if one has several."""
    if size * width > MOST_CELLS:
        return None
    seen = np.zeros((size, width), dtype=bool)
    seen[source, column] = True
    return seen.argmax(axis=1).astype(np.intp) if (seen.sum(axis=1) <= 1).all() else None


def _luck(source: Codes, column: Codes) -> float:
    """The log of the probability that each level of the source has only one of the column, if they are independent."""
    rows = np.bincount(source)
    shares = np.bincount(column) / column.size
    shares = shares[shares > 0]
    log_same = np.logaddexp.reduce(np.log(shares)[:, None] * np.unique(rows)[None, :], axis=0)
    by_rows = dict(zip(np.unique(rows).tolist(), np.minimum(log_same, 0.0).tolist(), strict=True))
    return float(sum(by_rows[count] for count in rows.tolist()))


def find_impossible_pairs(columns: Sequence[Codes]) -> list[ImpossiblePair]:
    """Pairs of labels that no record has, where independent columns would have many such records."""
    sizes = [int(codes.max(initial=0)) + 1 for codes in columns]
    counts = [np.bincount(codes, minlength=size) for codes, size in zip(columns, sizes, strict=True)]
    cells = sum(a * b for i, a in enumerate(sizes) for b in sizes[i + 1 :])
    found = []
    for first in range(len(columns)):
        for second in range(first + 1, len(columns)):
            if sizes[first] * sizes[second] > MOST_CELLS:
                continue
            together = np.zeros((sizes[first], sizes[second]), dtype=bool)
            together[columns[first], columns[second]] = True
            expected = np.outer(counts[first], counts[second]) / columns[first].size
            never = ~together & (expected > -np.log(BY_CHANCE / max(cells, 1)))
            found += [
                ImpossiblePair((first, second), (int(a), int(b))) for a, b in zip(*np.nonzero(never), strict=True)
            ]
    return found


def without_impossible_pairs(
    columns: Sequence[Codes],
    pairs: Sequence[ImpossiblePair],
    generator: np.random.Generator,
    stay: Collection[int] = (),
) -> list[Codes]:
    """The columns with labels exchanged between records until no pair is left that cannot be.

    A record with such a pair exchanges one of both labels with a random record, if that leaves neither with one. The
    columns that `stay`, by number, exchange nothing.
    """
    out = [np.array(codes) for codes in columns]
    for pair in pairs:
        first, second = pair.columns
        for row in np.flatnonzero((out[first] == pair.levels[0]) & (out[second] == pair.levels[1])).tolist():
            any(_exchange_away(out, pairs, j, row, generator) for j in (second, first) if j not in stay)
    return out


TRIES = 2_000
"""Partners for an exchange that are tried."""


def _exchange_away(
    columns: list[Codes], pairs: Sequence[ImpossiblePair], column: int, row: int, generator: np.random.Generator
) -> bool:
    """Exchange a label of a record (a `row`) with that of another one, so that neither has a pair that cannot be."""
    codes = columns[column]
    for other in generator.integers(codes.size, size=min(TRIES, 4 * codes.size)).tolist():
        if codes[other] == codes[row]:
            continue
        codes[row], codes[other] = codes[other], codes[row]
        if not any(_holds(columns, pair, place) for pair in pairs if column in pair.columns for place in (row, other)):
            return True
        codes[row], codes[other] = codes[other], codes[row]
    return False


def _holds(columns: Sequence[Codes], pair: ImpossiblePair, row: int) -> bool:
    """Does a record have both labels of a pair?"""
    return all(columns[j][row] == level for j, level in zip(pair.columns, pair.levels, strict=True))
