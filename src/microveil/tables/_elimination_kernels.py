"""The compiled elimination. Importing this module imports numba and compiles or loads it.

Unknowns are columns of a sparse system of equations, and come in an order. Those that are no combination of earlier
ones form the basis; each other one is a combination of the basis unknowns before it, and the two together are a circle
of unknowns that can move against each other while all equations hold.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, types

from microveil.core.compiled import compiled
from microveil.tables._basis_kernels import (
    Numbers,
    PrimeField,
    SparseColumns,
    Steps,
    Workspace,
    appended,
    cleared,
    entered,
    free_slot,
    fresh,
    loaded,
    no_columns,
    rest,
    solved,
    some,
    touch,
)

PROBE_AGAIN = 16
"""The probes are made anew when columns have touched one in so many as there are entries in all steps."""

HIDDEN = -2
"""Stands for an unknown that was hidden, once it is in the basis: it is neither primary nor ever leaves again."""


class SuppressionSearch(NamedTuple):
    """The state of the search for cells to hide.

    `member` is the unknown that each slot has in the basis. `waits_for` is, of each primary unknown, the cheapest
    unknown outside of the basis that closes a circle with it (all unknowns: none was found; -1: the circle is hidden
    for good), and `wanted` by how many each is waited for. Outside of the basis, an unknown is known by the column that
    was `saved` of it, or by the step at which it `left`. The first unknowns are `primary`, and those before `kept` are
    hidden in any case.
    """

    primary: int
    kept: int
    member: Numbers
    waits_for: Numbers
    wanted: Numbers
    saved: Numbers
    left: Numbers


@njit(nogil=True)
def _now_safe(search: SuppressionSearch, work: Workspace, count: int, column: int) -> int:
    """Note for which primary unknowns the column in `work` (`count` slots) closes the first circle; gives how many."""
    unknowns, found = search.wanted.size, 0
    for place in range(count):
        slot = work.touched[place]
        other = search.member[slot]
        if work.column[slot] and other < search.primary and search.waits_for[other] == unknowns:
            search.waits_for[other] = column
            found += 1
    search.wanted[column] = found
    return found


@njit(nogil=True)
def _dearest(search: SuppressionSearch, work: Workspace, count: int) -> int:
    """The slot of the dearest unknown in a column that may leave the basis, -1 if there is none."""
    dearest = -1
    for place in range(count):
        slot = work.touched[place]
        dearer = dearest < 0 or search.member[slot] > search.member[dearest]
        if work.column[slot] and search.member[slot] >= search.kept and dearer:
            dearest = slot
    return dearest


@njit(nogil=True)
def _wait_anew(search: SuppressionSearch, work: Workspace, count: int, cheaper: int) -> None:
    """Primary unknowns in the column in `work` (`count` slots) wait for what leaves the basis, if that is `cheaper`."""
    for place in range(count):
        slot = work.touched[place]
        other = search.member[slot]
        if work.column[slot] and 0 <= other < search.primary and search.waits_for[other] > cheaper:
            search.wanted[search.waits_for[other]] -= 1
            search.waits_for[other] = cheaper
            if cheaper >= 0:
                search.wanted[cheaper] += 1


@njit(nogil=True)
def _probe(
    probes: Numbers, steps: Steps, number: int, search: SuppressionSearch, draws: Numbers, field: PrimeField
) -> None:
    """Fill `probes`: two vectors that show of a column what its solution would, all but surely.

    The first is zero on columns of the basis and combinations of them; the second, on columns whose combination has
    none of the primary unknowns that are in no circle yet. Both are random (`draws`), and brought back through a
    `number` of steps.
    """
    unknowns, columns = search.wanted.size, steps.columns
    for slot in range(draws.size):
        member = search.member[slot]
        probes[0, slot] = draws[slot] if member < 0 else 0
        probes[1, slot] = draws[slot] if member >= 0 and search.waits_for[member] == unknowns else 0
    for probe in probes:
        for step in range(number - 1, -1, -1):
            value = probe[steps.slot[step]]
            for entry in range(columns.start[step], columns.start[step + 1]):
                other = probe[columns.rows[entry]]
                if other:
                    value = rest(value + (field.prime - other) * columns.values[entry], field)
            probe[steps.slot[step]] = rest(value * steps.inverse[step], field)


@njit(nogil=True)
def _tells_nothing(probes: Numbers, given: SparseColumns, column: int, field: PrimeField) -> bool:
    """Whether a column of those `given` is a combination of the basis without a primary unknown in no circle yet."""
    first, second = 0, 0
    for entry in range(given.start[column], given.start[column + 1]):
        slot, value = given.rows[entry], given.values[entry]
        first = rest(first + probes[0, slot] * value, field)
        second = rest(second + probes[1, slot] * value, field)
    return first == 0 and second == 0


@njit(nogil=True)
def _forward(
    given: SparseColumns,
    length: Numbers,
    draws: Numbers,
    field: PrimeField,
    steps: Steps,
    work: Workspace,
    search: SuppressionSearch,
) -> tuple[int, int, Steps, SparseColumns]:
    """Go from the cheapest unknown on until every primary one is in a circle.

    `given` has the columns, `length` and `draws` a number for each equation; `steps`, `work` and `search` are fresh.
    Gives how many unknowns were needed, the number of steps, the steps, and the columns that were saved.
    """
    unknowns, kept = search.wanted.size, search.kept
    probes, spent = np.zeros((2, length.size), np.int64), np.iinfo(np.int64).max // PROBE_AGAIN
    store, stored = no_columns(unknowns, unknowns), some(0)
    open_ones, number, column = 0, some(0), some(0)
    while column < unknowns and (column < kept or open_ones > 0):
        if column >= kept:
            if spent * PROBE_AGAIN > steps.columns.start[number]:
                _probe(probes, steps, number, search, draws, field)
                spent = 0
            if _tells_nothing(probes, given, column, field):
                column += 1
                continue
        count = solved(work, loaded(work, given, column), steps, some(-1), field)
        slot = free_slot(work, count, search.member, length)
        if slot >= 0:
            steps = entered(steps, number, work, count, slot, field)
            search.member[slot] = column
            number += 1
            if column < search.primary:
                search.waits_for[column] = unknowns
                open_ones += 1
        else:
            found = _now_safe(search, work, count, column)
            open_ones -= found
            if found and column >= kept:
                store = appended(store, stored, work, count, some(-1))
                search.saved[column] = stored
                stored += 1
        cleared(work, count)
        spent += count if column >= kept else 0
        column += 1
    return column, number, steps, store


_NUMBERS = types.Array(types.int64, 1, "C", readonly=True)
_DRAWS = types.Array(types.int64, 2, "C", readonly=True)
_COLUMNS = types.UniTuple(_NUMBERS, 3)  # type: ignore[no-untyped-call]
_INT = types.int64


@compiled((_COLUMNS, _NUMBERS, _INT, _INT, _NUMBERS, _INT))
def greedy(
    columns: tuple[Numbers, Numbers, Numbers], length: Numbers, primary: int, kept: int, draws: Numbers, prime: int
) -> tuple[Numbers, Numbers]:
    """Which unknowns to hide in addition to the `primary` first ones and those before `kept`, which always are.

    `columns` are those of `SparseColumns`; `length` (the unknowns in it) and `draws` are of each equation. The other
    unknowns come from the cheapest to the dearest. Going back from the dearest, each is published unless a primary one
    would then be in no circle any more, that is, would follow from what is published. Gives a mark for each unknown
    that is hidden, and for each primary one whether it is safe.

    An unknown that is hidden moves to the front of the order, and with that into the basis; the dearest one of its
    circle leaves it. For the primary ones of the circle this is now the cheapest way to close one, unless they have
    one that is cheaper already. So nothing else has to be known of the unknowns between.
    """
    given, field = SparseColumns(*columns), PrimeField(prime, 1.0 / prime)
    equations, unknowns = length.size, given.start.size - 1
    steps, work = fresh(equations, unknowns)
    none, member = np.full(unknowns, -1, np.int64), np.full(equations, -1, np.int64)
    search = SuppressionSearch(primary, kept, member, none.copy(), np.zeros(unknowns, np.int64), none.copy(), none)
    end, number, steps, store = _forward(given, length, draws, field, steps, work, search)
    base, hidden = number - 1, np.zeros(unknowns, np.int64)
    for column in range(end - 1, kept - 1, -1):
        if not search.wanted[column]:
            continue
        hidden[column] = 1
        if search.saved[column] >= 0:
            count = solved(work, loaded(work, store, search.saved[column]), steps, base, field)
        else:
            slot = steps.slot[search.left[column]]
            work.column[slot] = 1
            count = solved(work, touch(work, some(0), slot), steps, search.left[column] - 1, field)
        slot = _dearest(search, work, count)
        cheaper = search.member[slot] if slot >= 0 else -1
        _wait_anew(search, work, count, cheaper)
        if slot >= 0:
            search.left[cheaper] = number
            steps = entered(steps, number, work, count, slot, field)
            search.member[slot] = HIDDEN
            number += 1
        cleared(work, count)
    return hidden, (search.waits_for[:primary] < unknowns).astype(np.int64)


@compiled((_COLUMNS, _NUMBERS, _DRAWS, _INT))
def movement(columns: tuple[Numbers, Numbers, Numbers], length: Numbers, draws: Numbers, prime: int) -> Numbers:
    """Random movements (unknowns x movements) of all unknowns together while the equations hold.

    `columns` are those of `SparseColumns`, `length` is the number of unknowns in each equation. Unknowns outside of the
    basis move by their `draws` (unknowns x movements, below the `prime`), and those in it follow. One that never moves
    is known.
    """
    given, field = SparseColumns(*columns), PrimeField(prime, 1.0 / prime)
    equations, unknowns = length.size, given.start.size - 1
    steps, work = fresh(equations, unknowns)
    member = np.full(equations, -1, np.int64)
    moves, number = np.zeros(draws.shape, np.int64), some(0)
    for column in range(unknowns):
        count = solved(work, loaded(work, given, column), steps, some(-1), field)
        slot = free_slot(work, count, member, length)
        if slot >= 0:
            steps = entered(steps, number, work, count, slot, field)
            member[slot] = column
            number += 1
        else:
            for place in range(count):
                slot = work.touched[place]
                factor = prime - work.column[slot]
                if work.column[slot]:
                    for j in range(draws.shape[1]):
                        before = moves[member[slot], j]
                        moves[member[slot], j] = rest(before + factor * draws[column, j], field)
            for j in range(draws.shape[1]):
                moves[column, j] = draws[column, j]
        cleared(work, count)
    return moves
