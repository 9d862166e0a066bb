"""Hidden cells that somebody knows more about than a reader does.

A contributor who is alone in a hidden cell knows its amount, so what is hidden from everybody must also be hidden from
them. And a hidden count of one gives itself away in company: where zeros are shown, hidden counts are known to be at
least one, so two of them that come to two are known; where zeros can be hidden, the same holds of zeros that come to
zero. Both are put right by imagining a cell that must not become known either: the sum that gives something away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, lcm

import numpy as np

from microveil.core.arrays import Mask
from microveil.core.late import optimize, sparse
from microveil.core.tolerances import PROGRAM_ROUND_OFF
from microveil.tables.hierarchy import Numbers
from microveil.tables.relations import PRIMES, System, unknown_of_inner
from microveil.tables.rules import largest, sole_contributors
from microveil.tables.table import Table

FIELD = PRIMES[0]

MOST_ALONE = 200
"""Hidden cells that one contributor is alone in, up to which all of them are taken together."""

MISSING = 1e3
"""What it costs if a cell cannot grow, where moving the dearest published cell costs one."""


@dataclass(frozen=True)
class Imagined:
    """A cell that is not in the table: the sum of some unknowns, times whole numbers."""

    unknowns: tuple[int, ...]
    factors: tuple[int, ...]


def with_imagined(equations: sparse.csc_array, imagined: list[Imagined]) -> sparse.csc_array:
    """The equations with further unknowns, one for each cell that is imagined, and what these are the sums of."""
    rows, columns = equations.shape
    row = np.repeat(np.arange(len(imagined)), [len(cell.unknowns) for cell in imagined])
    unknown = np.array([unknown for cell in imagined for unknown in cell.unknowns], dtype=np.int64)
    factor = np.array([factor for cell in imagined for factor in cell.factors], dtype=np.int64)
    own = np.arange(len(imagined))
    old = equations.tocoo()
    entries = np.concatenate([old.data, factor, np.full(len(imagined), -1)])
    places = (
        np.concatenate([old.row, rows + row, rows + own]),
        np.concatenate([old.col, unknown, columns + own]),
    )
    return sparse.csc_array((entries, places), shape=(rows + len(imagined), columns + len(imagined)))


class Guard:
    """Finds the sums that give hidden cells away, for a table and a choice of what is special in it."""

    def __init__(self, table: Table, primary: Mask, zeros_can_be_hidden: bool) -> None:
        self.table = table
        self.primary = np.flatnonzero(primary)
        self.unknown = unknown_of_inner(table)
        self.sole = sole_contributors(table)
        telling = 0 if zeros_can_be_hidden else 1
        self.inner = np.flatnonzero(table.inner_counts == telling)
        self.telling = self.unknown[self.inner]
        if table.linked is not None:  # inner cells are not shown, and nobody knows of them whether they are zero
            shown = np.diff(table.matrix.indptr) > 0
            self.inner, self.telling = self.inner[:0], np.flatnonzero(shown & (table.published_counts == telling))

    def given_away(self, system: System, hidden: Mask) -> list[Imagined]:
        """Sums that must not be known, and are."""
        rng = np.random.default_rng(FIELD)  # for what holds in all but one of two billion draws, whichever they are
        if self.table.is_magnitude:
            return list(dict.fromkeys(self._to_contributors(system, hidden, rng)))
        inner = self.inner[hidden[self.unknown[self.inner]]]
        if not inner.size:
            return []
        # Counts of one, or of zero, within one published cell.
        within, unknown = self.table.matrix[:, inner].tocsr(), self.unknown[inner]
        still = (within @ system.moves(hidden, 1, rng)[unknown, 0]) % FIELD == 0
        rows = np.flatnonzero((np.diff(within.indptr) > 1) & still)
        parts = (sorted(unknown[within.indices[slice(*within.indptr[row : row + 2])]].tolist()) for row in rows)
        return list(dict.fromkeys(Imagined(tuple(cells), (1,) * len(cells)) for cells in parts))

    def more_to_hide(self, system: System, hidden: Mask) -> tuple[Numbers, bool]:
        """Cells to hide so that counts of one, or zero, can all grow at once; and whether that is enough.

        As long as they can, no sum of them gives them away, within one published cell or across several.
        """
        telling = self.telling[:0] if self.table.is_magnitude else self.telling[hidden[self.telling]]
        return growing(system, hidden, telling) if telling.size else (telling, True)

    # Contributors who are alone in a hidden cell.

    def _to_contributors(self, system: System, hidden: Mask, rng: np.random.Generator) -> Iterator[Imagined]:
        alone = np.flatnonzero((self.sole >= 0) & hidden[self.unknown])
        if not alone.size:
            return
        order = np.argsort(self.sole[alone], kind="stable")
        who, cells = self.sole[alone][order], self.unknown[alone][order]
        groups = np.split(cells, np.flatnonzero(np.diff(who)) + 1)
        count = min(max(len(group) for group in groups), MOST_ALONE) + 1
        moves = system.moves(hidden, count, rng)
        owner = self._owners()
        people = np.unique(who).tolist()
        single = {int(group[0]): person for group, person in zip(groups, people, strict=True) if len(group) == 1}
        yield from _parallel(single, self.primary, moves[:, :2], owner)
        for group, person in zip(groups, people, strict=True):
            if len(group) > 1:
                others = np.setdiff1d(self.primary[owner[self.primary] != person], group)
                yield from _follow_from(group[:MOST_ALONE], others, moves)

    def _owners(self) -> Numbers:
        """The contributor whose own a published cell is, -1 for those of several."""
        table = self.table
        alone = table.published_counts == 1
        if table.contributions is not None:
            alone = largest(table, 1, "singletons='protected'").contributors == 1
        owner = np.full(table.count, -1, dtype=np.int64)
        for inner, rows in table.lifts():
            own = self.sole[inner] >= 0
            owner[rows[own]] = self.sole[inner[own]]
        return np.where(alone, owner, -1)


def _parallel(known: dict[int, int], others: Numbers, moves: Numbers, owner: Numbers) -> Iterator[Imagined]:
    """Cells that move only as a single other one does, whose amount somebody knows, and that are not theirs alone.

    `known` has the person who knows a cell, `others` are the cells to protect; `moves` is cells x 2, `owner` of each
    cell.
    """
    direction = _divided(moves[:, 1], moves[:, 0])
    by_direction: dict[int, list[int]] = {}
    for cell in others.tolist():
        by_direction.setdefault(int(direction[cell]), []).append(cell)
    for cell, person in known.items():
        for other in by_direction.get(int(direction[cell]), []):
            ratio = _fraction(int(_divided(moves[[other], 0], moves[[cell], 0])[0]))
            if owner[other] != person:
                yield _imagined([(other, Fraction(-1)), (cell, ratio)])


def _follow_from(known: Numbers, others: Numbers, moves: Numbers) -> Iterator[Imagined]:
    """Cells that follow, for somebody who knows some, from what is published: they move only as the known ones do."""
    moves = moves[:, : known.size + 1]
    factors, inside = _combined(moves[known], moves[others])
    for row in np.flatnonzero(inside):
        ratios = [_fraction(factor) for factor in factors[row].tolist()]
        yield _imagined([(int(others[row]), Fraction(-1)), *zip(known.tolist(), ratios, strict=True)])


def _imagined(parts: Iterable[tuple[int, Fraction]]) -> Imagined:
    """A cell made of others times fractions, which are brought to whole numbers."""
    used = sorted((cell, ratio) for cell, ratio in parts if ratio)
    common = lcm(*(ratio.denominator for _, ratio in used))
    sign = 1 if used[0][1] > 0 else -1
    factors = (int(sign * common * ratio) for _, ratio in used)
    return Imagined(tuple(cell for cell, _ in used), tuple(f if abs(f) < FIELD else f % FIELD for f in factors))


def _fraction(number: int) -> Fraction:
    """The fraction of small whole numbers that a number of the field stands for (Wang's reconstruction).

    Where there is none, the number itself: its sum is then the right one in this field only, which is the one that
    cells are chosen in.
    """
    limit = isqrt(FIELD // 2)
    old, new, old_factor, factor = FIELD, number % FIELD, 0, 1
    while new > limit:
        quotient = old // new
        old, new, old_factor, factor = new, old - quotient * new, factor, old_factor - quotient * factor
    return Fraction(new, factor) if 0 < abs(factor) <= limit else Fraction(number)


def _divided(above: Numbers, below: Numbers) -> Numbers:
    """Quotients in the field; those by zero are zero."""
    result, square, power = above % FIELD, below % FIELD, FIELD - 2
    while power:
        if power & 1:
            result = result * square % FIELD
        square = square * square % FIELD
        power >>= 1
    return result


def _combined(basis: Numbers, rows: Numbers) -> tuple[Numbers, Mask]:
    """Factors with which the rows are combinations of a basis, and which of them are, in the field."""
    size, count = basis.shape
    left = np.concatenate([basis % FIELD, np.eye(size, dtype=np.int64)], axis=1)
    rest, factors = rows % FIELD, np.zeros((len(rows), size), dtype=np.int64)
    for place in range(size):
        at = np.flatnonzero(left[place, :count])
        if not at.size:
            continue
        column = at[0]
        own = left[place] * _divided(np.ones(1, np.int64), left[place, [column]]) % FIELD
        for others in range(place + 1, size):
            left[others] = (left[others] - left[others, column] * own) % FIELD
        share = rest[:, [column]]
        rest = (rest - share * own[:count]) % FIELD
        factors = (factors + share * own[count:]) % FIELD
    return factors, (rest == 0).all(axis=1)


def growing(system: System, hidden: Mask, telling: Numbers) -> tuple[Numbers, bool]:
    """The cells to hide, worth as little as possible, so that the telling ones can all grow; and whether they can."""
    published = system.order[~hidden[system.order]]  # from the cheapest on
    looked_at = 0
    while True:
        missing, moved = _moved(system, np.flatnonzero(hidden), published[:looked_at], telling)
        if not missing or looked_at == published.size:
            return moved, not missing
        looked_at = min(published.size, max(4 * looked_at, 2 * np.count_nonzero(hidden)))


def _moved(system: System, hidden: Numbers, published: Numbers, telling: Numbers) -> tuple[bool, Numbers]:
    """Whether something is missing for the telling cells to grow by one, and the published cells that move for it.

    In the linear program, hidden cells move for nothing, a published one costs its worth, up or down, and what is
    missing costs more than anything else. Each unknown is that beyond a growth of one, for the telling ones.
    """
    equations = system.equations.astype(np.float64)
    others = np.setdiff1d(hidden, telling, assume_unique=True)
    moved, dear = equations[:, telling], equations[:, published]
    worth = system.worth[published]
    price = worth / max(float(worth.max(initial=0.0)), 1.0)
    cost = np.concatenate([np.zeros(others.size + telling.size), np.full(telling.size, MISSING), price, price])
    bounds = np.tile([0.0, np.inf], (cost.size, 1))
    bounds[: others.size, 0] = -np.inf
    columns = sparse.hstack([equations[:, others], moved, -moved, dear, -dear], format="csc")
    for method in ("highs", "highs-ipm"):
        solved = optimize.linprog(cost, A_eq=columns, b_eq=-moved.sum(axis=1), bounds=bounds, method=method)
        if solved.status == 0:
            break
    else:
        raise ArithmeticError(f"the search for sums that give cells away ended with status {solved.status}")
    short, up, down = np.split(solved.x[others.size + telling.size :], [telling.size, telling.size + published.size])
    return bool(short.sum() > PROGRAM_ROUND_OFF), published[up + down > PROGRAM_ROUND_OFF]
