"""Singling out: a description that fits one person only.

The intruder has nothing but the release, and wants to be able to say: "there is exactly one firm with more than so many
employees, more than so much turnover and less than so much profit", without knowing which one it is. So the intruder
makes up descriptions that fit exactly one *released* record, and hopes that each fits exactly one original too.
Whoever meets such a firm later knows that it was in the data, and which record is meant.

Descriptions are kept as numbers (a column, a side, a limit), never as text that would have to be evaluated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import ParameterError
from microveil.core.rng import Stream, Streams
from microveil.core.table import Matrix
from microveil.core.tolerances import LINKAGE_TIE
from microveil.measures.base import Estimate
from microveil.measures.nearest.distances import Index
from microveil.measures.risk.control import Trial
from microveil.measures.risk.proportions import Tally, attack

DESCRIPTIONS, FEWEST, COMPARISONS = 1_000, 200, 100_000_000
"""Descriptions tried, each fitting one released record; fewer, but not fewer than the second, where more comparisons
with records were needed than the third."""

DRAWS_EACH = 5
"""Draws made for each of them before the search is given up."""

COLUMNS = 3

WIDEST = 1.0
"""Room (in standard deviations) beyond which more makes no description safer."""


@attack("share of descriptions fitting one released record only that fit exactly one original too, beyond a control")
def singling_out(
    original: Matrix,
    released: Matrix,
    *,
    columns: int = COLUMNS,
    control: Matrix | None = None,
    seed: int | None = None,
) -> Estimate:
    """Singling out, the first risk of WP216.

    A description takes a released record at random, rather one that stands out, and some of its columns (three unless
    `columns` says otherwise), and says of each "more than so much" if the record is above the middle there, else "less
    than so much". The limits are drawn where they leave most room: half-way to the next record that would fit if they
    were relaxed, so that small changes do not matter. Those that fit one released record only are tried on the
    originals: 1,000 of them, if there are as many. The control is a control file, which should have as many records as
    the original (in a smaller one fewer are singled out, and the risk seems larger); without one, descriptions of one
    random half of the originals are tried on the other half.

    The part "one column" is the share for descriptions by one column alone (its largest, its smallest, a value that
    occurs once). It is not in the figure: every release that keeps the values of a column has it at 1, in whatever
    order they are; see `extreme_disclosure`.
    """
    if columns < 1:
        raise ParameterError("columns: a description needs at least one", "give for example 3")
    streams = Streams.from_seed(seed)
    trial = Trial.of(original, released, control, seed)
    found = trial.run(partial(_singled_out, columns=columns, stream=streams.stream("descriptions")))
    alone = _by_one_column(trial.released, trial.original)
    note = f"{found.attack.tries} released records could be described"
    return found.estimate(note=note, parts={"one column": alone.share})


@dataclass(frozen=True, repr=False)
class Sorted:
    """A table whose columns are kept in order too, so that few rows must be looked at to find those that fit."""

    values: Array
    order: list[Index]
    ascending: list[Array]

    @classmethod
    def of(cls, values: Array) -> Sorted:
        """From a table with NaN where cells are missing; those fit no description."""
        order = [np.argsort(column, kind="stable")[: np.count_nonzero(~np.isnan(column))] for column in values.T]
        return cls(values, order, [values[rows, j] for j, rows in enumerate(order)])

    def fitting(self, columns: Index, limits: Array, side: Array) -> int:
        """How many records are at the limits or beyond them: above where the side is 1, below where it is -1.

        The column that leaves fewest is looked up, the others are checked for those only.
        """
        rows = min((self._beyond(*condition) for condition in zip(columns, limits, side, strict=True)), key=len)
        fits = (self.values[np.ix_(rows, columns)] - limits) * side >= -LINKAGE_TIE
        return int(np.count_nonzero(fits.all(axis=1)))

    def _beyond(self, column: int, limit: float, side: float) -> Index:
        """Records at the limit or beyond it, in one column."""
        rows, values = self.order[column], self.ascending[column]
        if side > 0:
            return rows[np.searchsorted(values, limit - LINKAGE_TIE, "left") :]
        return rows[: np.searchsorted(values, limit + LINKAGE_TIE, "right")]

    def room(self, row: int, columns: Index, side: Array) -> float:
        """By how much the limits can be relaxed in all columns until a second record fits (inf: no other ever does)."""
        lacking = ((self.values[row, columns] - self.values[:, columns]) * side).max(axis=1)
        lacking[row] = np.inf
        return float(np.nanmin(lacking))


def _singled_out(source: Array, targets: Array, own: Index | None, *, columns: int, stream: Stream) -> Tally:
    """Descriptions that fit one record of the source, and how many of them fit one target.

    Both are records x columns. Where they are the same records (`own` rows of the source), one half of them describes
    and the other half is described.
    """
    generator = stream.generator()
    if own is not None:
        half = len(source) // 2
        rows = generator.permutation(len(source))
        source, targets = source[rows[:half]], source[rows[half : 2 * half]]
    if np.isnan(source).all():
        return Tally()
    there, described, hits = Sorted.of(targets), [], 0
    wanted = max(min(DESCRIPTIONS, COMPARISONS // len(source)), FEWEST)
    found = _descriptions(Sorted.of(source), columns, generator, DRAWS_EACH * wanted)
    for row, chosen, limits, side in islice(found, wanted):
        described.append(row)
        hits += there.fitting(chosen, limits, side) == 1
    # Descriptions of one record stand and fall together: it counts as one try.
    records = len(set(described))
    return Tally(hits / max(len(described), 1) * records, records)


def _descriptions(
    table: Sorted, columns: int, generator: np.random.Generator, draws: int
) -> Iterator[tuple[int, Index, Array, Array]]:
    """Different descriptions that fit one record each: its row, some `columns` of it, their limits and sides.

    So many `draws` are made at most.
    """
    middle = np.array([values[values.size // 2] if values.size else np.nan for values in table.ascending])
    seen: set[tuple[int, ...]] = set()
    for _ in range(draws):
        row, chosen = _drawn(table, columns, generator)
        key = (row, *chosen.tolist())
        if key in seen:
            continue
        seen.add(key)
        values = table.values[row, chosen]
        side = np.where(values > middle[chosen], 1.0, -1.0)
        if table.fitting(chosen, values, side) == 1:
            yield row, chosen, values - side * min(table.room(row, chosen, side), WIDEST) / 2, side


def _drawn(table: Sorted, columns: int, generator: np.random.Generator) -> tuple[int, Index]:
    """A record and some of its columns.

    Who is to be singled out stands out: the record is one of the largest or smallest in one of the columns, all orders
    of magnitude of its place from the end being equally likely.
    """
    column = int(generator.choice([j for j, rows in enumerate(table.order) if rows.size]))
    rows = table.order[column]
    place = min(int(np.exp(generator.random() * np.log(rows.size / 2 + 1))), rows.size) - 1
    row = int(rows[place] if generator.random() < 0.5 else rows[-1 - place])
    others = [j for j in np.flatnonzero(~np.isnan(table.values[row])) if j != column]
    return row, np.sort([column, *generator.permutation(others)[: columns - 1]]).astype(np.intp)


def _by_one_column(source: Array, targets: Array) -> Tally:
    """Descriptions by one column: the largest value, the smallest, and those that occur once, in the source."""
    hits = tries = 0
    for new, old in zip(source.T, targets.T, strict=True):
        new_values, true = (np.sort(column[~np.isnan(column)]) for column in (new, old))
        once = new_values[_occurrences(new_values, new_values) == 1]
        hits += int(np.count_nonzero(_occurrences(once, true) == 1))
        tries += once.size
        for up, down in ((new_values, true), (-new_values[::-1], -true[::-1])):
            if up.size > 1 and up[-1] - up[-2] > LINKAGE_TIE:
                hits += int(np.count_nonzero(down >= (up[-1] + up[-2]) / 2)) == 1
                tries += 1
    return Tally(float(hits), tries)


def _occurrences(values: Array, ordered: Array) -> Index:
    return np.searchsorted(ordered, values + LINKAGE_TIE, "right") - np.searchsorted(
        ordered, values - LINKAGE_TIE, "left"
    )
