"""Rules between columns of labels: those that follow from another column, and pairs of labels that never meet.

Both can come about by accident, the more easily the fewer records a label has. So both are believed only if chance,
were the columns independent, would hardly ever bring them about.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from microveil.core.arrays import Index, Mask

Codes = Index

BY_CHANCE = 1e-4
"""How probable a finding may be in a table of independent columns, all its pairs of columns together."""

MOST_CELLS = 1_000_000
"""Cells of a two-way table, at most; larger ones are not looked at."""

FIRST_ROWS = 5_000
"""Rows from all over a table that mostly tell whether a column follows from another."""

EXCEPTIONS, OF_A_LEVEL = 0.01, 0.05
"""Share of the records beyond the commonest label that may be exceptions from a dependency, and of those of any label:
a rare label that has much to do with another column does not follow from it."""


@dataclass(frozen=True, repr=False)
class Dependency:
    """A column that follows from another, by the level of that one; columns by number."""

    column: int
    source: int
    levels: Index
    """The level of the column for each level of the source."""

    exceptions: int = 0
    """Records of the original in which it does not hold."""

    def rebuilt(self, codes: Codes) -> Codes:
        """The column, from the source."""
        return self.levels[codes]

    def sentence(self, names: Sequence[str]) -> str:
        """The rule in words."""
        but = f" (but for {self.exceptions} rows)" if self.exceptions else ""
        return f"{names[self.column]} follows from {names[self.source]}{but}"


class ImpossiblePair(NamedTuple):
    """Two labels that no record has together, though many should by chance; columns and levels by number."""

    columns: tuple[int, int]
    levels: tuple[int, int]


@dataclass(frozen=True, repr=False)
class LabelRules:
    """What is known of columns of labels: which follow from others, and which labels never meet.

    Columns count all `columns`; some of them `stay` as they are.
    """

    columns: tuple[Codes, ...] = ()
    dependencies: Sequence[Dependency] = ()
    pairs: Sequence[ImpossiblePair] = ()
    stay: Collection[int] = ()

    @classmethod
    def among(cls, columns: Sequence[Codes], stay: Collection[int] = ()) -> LabelRules:
        """The rules that columns of labels look like."""
        found = find_dependencies(columns, stay)
        pairs = [pair for pair in find_impossible_pairs(columns) if not {*pair.columns} <= {*stay}]
        return cls(tuple(columns), found, _of_their_own(pairs, found), stay)

    @property
    def independent(self) -> list[int]:
        """The columns that follow from no other, by number."""
        made = {rule.column for rule in self.dependencies}
        return [j for j in range(len(self.columns)) if j not in made]

    def restored(self, labels: Sequence[Codes], generator: np.random.Generator) -> list[Codes]:
        """All columns, from the independent ones: without pairs that cannot be, and with those that follow."""
        place = {j: at for at, j in enumerate(self.independent)}
        pairs = [ImpossiblePair((place[a], place[b]), levels) for (a, b), levels in self.between_independent()]
        stay = {place[j] for j in self.stay if j in place}
        fixed = dict(zip(place, without_impossible_pairs(labels, pairs, generator, stay), strict=True))
        made = {rule.column: rule.rebuilt(fixed[rule.source]) for rule in self.dependencies}
        return [{**fixed, **made}[j] for j in range(len(self.columns))]

    def between_independent(self) -> list[ImpossiblePair]:
        """The pairs as what they are to columns that follow from nothing: a chapter is all its codes."""
        by_column = {rule.column: rule for rule in self.dependencies}
        found: dict[ImpossiblePair, None] = {}
        for pair in self.pairs:
            rules = [by_column.get(j) for j in pair.columns]
            sources = [j if rule is None else rule.source for j, rule in zip(pair.columns, rules, strict=True)]
            if sources[0] == sources[1] or {*sources} <= {*self.stay}:
                continue
            first, second = (
                [level] if rule is None else np.flatnonzero(rule.levels == level).tolist()
                for level, rule in zip(pair.levels, rules, strict=True)
            )
            found |= dict.fromkeys(ImpossiblePair((sources[0], sources[1]), (a, b)) for a in first for b in second)
        return list(found)


def _of_their_own(pairs: Sequence[ImpossiblePair], rules: Sequence[Dependency]) -> list[ImpossiblePair]:
    """The pairs that are more than a dependency, and more than another pair: if no man is in a chapter, he has none of
    its codes.
    """
    source = {rule.column: rule.source for rule in rules}
    apart = [p for p in pairs if source.get(p.columns[0], p.columns[0]) != source.get(p.columns[1], p.columns[1])]
    known, own = set(apart), []
    for pair in apart:
        (a, b), (x, y) = pair
        wider = [((r.column, b), (int(r.levels[x]), y)) for r in rules if r.source == a]
        wider += [((a, r.column), (x, int(r.levels[y]))) for r in rules if r.source == b]
        forms = [ImpossiblePair(*form) for form in wider]
        forms += [ImpossiblePair((q, p), (v, u)) for (p, q), (u, v) in forms]
        own += [] if known.intersection(forms) else [pair]
    return own


def find_dependencies(columns: Sequence[Codes], stay: Collection[int] = ()) -> list[Dependency]:
    """Columns that follow from one other column, each from the one with the fewest levels; of twins, the later one.

    `columns` have the numbers of the levels, from 0. Those that `stay`, by number, follow from nothing.
    """
    sizes = [int(codes.max(initial=0)) + 1 for codes in columns]
    pairs = max(len(columns) * (len(columns) - 1), 1)
    step = max(1, columns[0].size // FIRST_ROWS) if columns else 1
    found: dict[int, Dependency] = {}
    nearly: dict[int, Dependency] = {}
    for source in sorted(range(len(columns)), key=lambda j: (sizes[j], j)):
        for column in range(len(columns)):
            twins = sizes[column] == sizes[source] and column < source
            if column == source or column in found or column in stay or sizes[column] > sizes[source] or twins:
                continue
            if step > 1 and follows(columns[source][::step], columns[column][::step], 0.5) is None:
                continue
            rule = follows(columns[source], columns[column], BY_CHANCE / pairs)
            if rule is not None:
                target = nearly if rule.exceptions else found
                target.setdefault(column, Dependency(column, source, rule.levels, rule.exceptions))
    # What follows without exception needs no rule with some; nor does what another follows from.
    every = {**{column: rule for column, rule in nearly.items() if column not in found}, **found}
    return [_from_first(every, every[column]) for column in sorted(every)]


def _from_first(found: Mapping[int, Dependency], rule: Dependency) -> Dependency:
    """The rule with a source that follows from nothing itself, so that the order of rebuilding does not matter."""
    while rule.source in found:
        onward = found[rule.source]
        rule = Dependency(rule.column, onward.source, rule.levels[onward.levels], rule.exceptions + onward.exceptions)
    return rule


def follows(source: Codes, column: Codes, by_chance: float) -> Dependency | None:
    """How a column follows from another but for a few exceptions, unless that could well be chance."""
    size, width = int(source.max(initial=0)) + 1, int(column.max(initial=0)) + 1
    if size * width > MOST_CELLS or width < 2:
        return None
    both = source.astype(np.intp) * width + column  # codes may be kept in a byte each
    counts = np.bincount(both, minlength=size * width).reshape(size, width)
    levels = counts.argmax(axis=1).astype(np.intp)
    most, shares = counts.max(axis=1), counts.sum(axis=0)
    exceptions = column.size - int(most.sum())
    if exceptions > EXCEPTIONS * (column.size - shares.max()):
        return None
    right = np.bincount(levels, weights=most, minlength=width)
    if (right < (1 - OF_A_LEVEL) * shares).any():
        return None
    return Dependency(1, 0, levels, exceptions) if _luck(counts, most) < np.log(by_chance) else None


def _luck(counts: Index, most: Index) -> float:
    """The log of the probability that each level of the source has so much of one level, if they are independent.

    `counts` is the two-way table, source x column, and `most` the largest number of each row. The binomial coefficient
    is bounded by (n e / k)^k, where k are the exceptions.
    """
    rows = counts.sum(axis=1)
    shares = counts.sum(axis=0) / counts.sum()
    log_same = np.logaddexp.reduce(np.log(shares[shares > 0])[:, None] * np.unique(most)[None, :], axis=0)
    same = dict(zip(np.unique(most).tolist(), log_same.tolist(), strict=True))
    others = rows - most
    ways = np.where(others > 0, others * (1 + np.log(np.maximum(rows, 1) / np.maximum(others, 1))), 0.0)
    return float(sum(min(0.0, same[n] + way) for n, way in zip(most.tolist(), ways.tolist(), strict=True)))


def find_impossible_pairs(columns: Sequence[Codes]) -> list[ImpossiblePair]:
    """Pairs of labels that no record has, where independent columns would have many such records."""
    sizes = [int(codes.max(initial=0)) + 1 for codes in columns]
    counts = [np.bincount(codes, minlength=size) for codes, size in zip(columns, sizes, strict=True)]
    cells = sum(a * b for i, a in enumerate(sizes) for b in sizes[i + 1 :])
    least = -np.log(BY_CHANCE / max(cells, 1))
    found = []
    for first in range(len(columns)):
        for second in range(first + 1, len(columns)):
            expected = np.outer(counts[first], counts[second]) / max(columns[first].size, 1)
            if sizes[first] * sizes[second] > MOST_CELLS or not (expected > least).any():
                continue
            codes = columns[first].astype(np.intp) * sizes[second] + columns[second]
            together = np.bincount(codes, minlength=expected.size).reshape(expected.shape)
            never = (together == 0) & (expected > least)
            found += [
                ImpossiblePair((first, second), (int(a), int(b))) for a, b in zip(*np.nonzero(never), strict=True)
            ]
    return found


ROUNDS = 200
"""Rounds of exchanges with random partners; what is left then looks for one among all records."""

STEPS = 500
"""So often, and once for each that is left then, a record looks for its best partner among all."""


def without_impossible_pairs(
    columns: Sequence[Codes],
    pairs: Sequence[ImpossiblePair],
    generator: np.random.Generator,
    stay: Collection[int] = (),
) -> list[Codes]:
    """The columns with labels exchanged between records until none of the `pairs` is left.

    A record with such a pair exchanges one of both labels with a random record (of the `generator`), if that leaves
    fewer of them. The columns that `stay`, by number, exchange nothing.
    """
    out = [np.array(codes) for codes in columns]
    never = _NeverTogether.of(out, pairs)
    moving = sorted({j for pair in pairs for j in pair.columns} - set(stay), reverse=True)
    for number in range(ROUNDS if moving else 0):
        bad = never.broken(out)
        if not bad.size:
            break
        column = moving[number % len(moving)]
        partners = generator.integers(out[0].size, size=bad.size)
        # Each record takes part in one exchange at a time.
        seen = np.concatenate([bad, partners])
        alone = np.zeros(seen.size, dtype=bool)
        alone[np.unique(seen, return_index=True)[1]] = True
        both = alone[bad.size :]
        never.exchange(out, column, bad[both], partners[both])
    for _ in range(STEPS + never.broken(out).size if moving else 0):
        bad = never.broken(out)
        if not bad.size:
            break
        never.step(out, int(generator.choice(moving)), int(generator.choice(bad)), generator)
    return out


@dataclass(frozen=True, repr=False)
class _NeverTogether:
    """For pairs of columns, which levels never meet: levels of the one x levels of the other."""

    tables: Mapping[tuple[int, int], Mask]

    @classmethod
    def of(cls, columns: Sequence[Codes], pairs: Sequence[ImpossiblePair]) -> _NeverTogether:
        """The tables of some pairs."""
        sizes = [int(codes.max(initial=0)) + 1 for codes in columns]
        for (a, b), (x, y) in pairs:  # levels that no record has any more
            sizes[a], sizes[b] = max(sizes[a], x + 1), max(sizes[b], y + 1)
        tables = {(a, b): np.zeros((sizes[a], sizes[b]), dtype=bool) for (a, b), _ in pairs}
        for between, levels in pairs:
            tables[between][levels] = True
        return cls(tables)

    def broken(self, columns: Sequence[Codes]) -> Codes:
        """The records that have a pair that cannot be."""
        bad = np.zeros(columns[0].size if columns else 0, dtype=bool)
        for (a, b), table in self.tables.items():
            bad |= table[columns[a], columns[b]]
        return np.flatnonzero(bad).astype(np.intp)

    def gains(self, columns: Sequence[Codes], column: int, rows: Codes, others: Codes) -> Index:
        """How many pairs fewer there are if `rows` exchange their label of a `column` with `others`, each by itself."""
        gained = np.zeros(rows.size, dtype=np.intp)
        for table, of in self._of(column):
            for here, there in ((rows, others), (others, rows)):
                now, then = columns[column][here], columns[column][there]
                gained += table[now, columns[of][here]].astype(np.intp) - table[then, columns[of][here]]
        return gained

    def exchange(self, columns: Sequence[Codes], column: int, rows: Codes, others: Codes) -> None:
        """Exchange the label of `rows` in a `column` with that of `others`, in place, where it makes fewer pairs."""
        good = self.gains(columns, column, rows, others) > 0
        rows, others, codes = rows[good], others[good], columns[column]
        codes[rows], codes[others] = codes[others], codes[rows]

    def step(self, columns: Sequence[Codes], column: int, row: int, generator: np.random.Generator) -> None:
        """Exchange the label of a `row` in a `column` with that of the best other, even if that only moves the fault.

        A head in the place of a child and a partner in that of a head cannot be cured by one exchange: the partner
        belongs to a third record.
        """
        codes = columns[column]
        others = generator.permutation(np.flatnonzero(codes != codes[row]))
        gains = self.gains(columns, column, np.full(others.size, row), others)
        if gains.size and gains.max() >= 0:
            other = others[np.argmax(gains)]
            codes[row], codes[other] = codes[other], codes[row]

    def _of(self, column: int) -> Iterator[tuple[Mask, int]]:
        """The tables of a column, with its levels first, and the number of the other column."""
        for (a, b), table in self.tables.items():
            if column == a:
                yield table, b
            elif column == b:
                yield table.T, a
