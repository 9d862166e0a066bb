"""The compiled elimination. Importing this module imports numba and compiles or loads it.

Unknowns are columns of a sparse system of equations, and come in an order. Those that are no combination of earlier
ones form the basis; each other one is a combination of the basis unknowns before it, and the two together are a circle
of unknowns that can move against each other while all equations hold. Numbers are those of a field of prime size, in
which nothing is rounded.

The inverse of the basis is kept as a product of steps, as the simplex method does: a step has the column that entered
and the slot (equation) it entered at. Steps are short because the systems are sparse and only the cheapest unknowns,
far fewer than all, are ever needed.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from microveil.core.compiled import compiled

Numbers = NDArray[np.int64]

PROBE_AGAIN = 16
"""The probes are made anew when columns have touched one in so many as there are entries in all steps."""

HIDDEN = -2
"""Stands for an unknown that was hidden, once it is in the basis: it is neither primary nor ever leaves again."""


class PrimeField(NamedTuple):
    """The numbers from 0 to below a prime; `inverse` is one over the prime, so that remainders need no division."""

    prime: int
    inverse: float


class SparseColumns(NamedTuple):
    """Sparse columns, one after the other: column k has entries `start[k]` to `start[k + 1]`."""

    start: Numbers
    rows: Numbers
    values: Numbers


class Steps(NamedTuple):
    """The product form of an inverse: each step has a column without its pivot, a slot, and the pivot's inverse.

    `first` is the first step at each slot and `next` the next step at the same slot, -1 for none.
    """

    columns: SparseColumns
    slot: Numbers
    inverse: Numbers
    first: Numbers
    last: Numbers
    next: Numbers


class Workspace(NamedTuple):
    """Room to work in: a column, the slots that were touched, and which steps wait their turn."""

    column: Numbers
    touched: Numbers
    is_touched: NDArray[np.bool_]
    waits: NDArray[np.bool_]


@njit(nogil=True, inline="always")
def _rest(number: int, field: PrimeField) -> int:
    """The remainder of a number below 2**62."""
    rest = number - int(number * field.inverse) * field.prime
    if rest < 0:
        rest += field.prime
    if rest >= field.prime:
        rest -= field.prime
    return rest


@njit(nogil=True)
def _inverse(number: int, field: PrimeField) -> int:
    """The inverse by Fermat's little theorem."""
    result, power = 1, field.prime - 2
    while power:
        if power & 1:
            result = _rest(result * number, field)
        number = _rest(number * number, field)
        power >>= 1
    return result


@njit(nogil=True)
def _await(work: Workspace, heap: list[Any], steps: Steps, slot: int, after: int) -> None:
    """Let the first step at a slot that comes after another wait its turn."""
    step = steps.first[slot]
    while step >= 0 and step <= after:
        step = steps.next[step]
    if step >= 0 and not work.waits[step]:
        work.waits[step] = True
        heappush(heap, step)


@njit(nogil=True)
def _touch(work: Workspace, count: int, slot: int) -> int:
    if not work.is_touched[slot]:
        work.is_touched[slot] = True
        work.touched[count] = slot
        return count + 1
    return count


@njit(nogil=True)
def _solved(work: Workspace, count: int, steps: Steps, after: int, field: PrimeField) -> int:
    """Bring the column, which touches `count` slots, through all steps after one; gives how many it touches then."""
    column, columns = work.column, steps.columns
    heap: list[Any] = [0 for _ in range(0)]
    for place in range(count):
        _await(work, heap, steps, work.touched[place], after)
    while len(heap):
        step = heappop(heap)
        work.waits[step] = False
        slot = steps.slot[step]
        if column[slot] == 0:
            continue
        factor = _rest(column[slot] * steps.inverse[step], field)
        column[slot] = factor
        _await(work, heap, steps, slot, step)
        for entry in range(columns.start[step], columns.start[step + 1]):
            other = columns.rows[entry]
            before = column[other]
            column[other] = _rest(before + (field.prime - factor) * columns.values[entry], field)
            if before == 0:
                count = _touch(work, count, other)
                _await(work, heap, steps, other, step)
    return count


@njit(nogil=True)
def _cleared(work: Workspace, count: int) -> None:
    for place in range(count):
        slot = work.touched[place]
        work.column[slot] = 0
        work.is_touched[slot] = False


@njit(nogil=True)
def _larger(array: Numbers, needed: int) -> Numbers:
    """The array, or a copy with twice the room."""
    if needed <= array.size:
        return array
    grown = np.zeros(max(2 * array.size, needed), array.dtype)
    grown[: array.size] = array
    return grown


@njit(nogil=True)
def _appended(columns: SparseColumns, number: int, work: Workspace, count: int, without: int) -> SparseColumns:
    """The column that is being worked on as the one of this number, behind the others, without one of its slots."""
    start, end = _larger(columns.start, number + 2), columns.start[number]
    rows, values = _larger(columns.rows, end + count), _larger(columns.values, end + count)
    for place in range(count):
        slot = work.touched[place]
        if slot != without and work.column[slot]:
            rows[end], values[end] = slot, work.column[slot]
            end += 1
    start[number + 1] = end
    return SparseColumns(start, rows, values)


@njit(nogil=True)
def _entered(steps: Steps, number: int, work: Workspace, count: int, pivot: int, field: PrimeField) -> Steps:
    """A step more, of this number: the column that is being worked on enters the basis at the slot of its pivot."""
    columns = _appended(steps.columns, number, work, count, pivot)
    slot, inverse = _larger(steps.slot, number + 1), _larger(steps.inverse, number + 1)
    following = _larger(steps.next, number + 1)
    slot[number], inverse[number] = pivot, _inverse(work.column[pivot], field)
    following[number] = -1
    if steps.first[pivot] < 0:
        steps.first[pivot] = number
    else:
        following[steps.last[pivot]] = number
    steps.last[pivot] = number
    return Steps(columns, slot, inverse, steps.first, steps.last, following)


@njit(nogil=True)
def _no_columns(columns: int, entries: int) -> SparseColumns:
    """No columns yet, and room for so many."""
    few = np.zeros(max(entries, 1), np.int64)
    return SparseColumns(np.zeros(columns + 2, np.int64), few, few.copy())


@njit(nogil=True)
def _fresh(equations: int, unknowns: int) -> tuple[Steps, Workspace]:
    """No steps yet, and a workspace."""
    none, few = np.full(equations, -1, np.int64), np.zeros(equations + 1, np.int64)
    steps = Steps(_no_columns(equations, unknowns), few, few.copy(), none, none.copy(), few - 1)
    work = Workspace(
        np.zeros(equations, np.int64), np.zeros(equations, np.int64), np.zeros(equations, np.bool_),
        np.zeros(unknowns + equations + 2, np.bool_),
    )  # fmt: skip
    return steps, work


@njit(nogil=True)
def _loaded(work: Workspace, columns: SparseColumns, column: int) -> int:
    """Start to work on a column; gives how many slots it touches."""
    count = 0
    for entry in range(columns.start[column], columns.start[column + 1]):
        work.column[columns.rows[entry]] = columns.values[entry]
        count = _touch(work, count, columns.rows[entry])
    return count


@njit(nogil=True)
def _free_slot(work: Workspace, count: int, member: Numbers, length: Numbers) -> int:
    """The slot of the shortest equation that the column is in and no unknown of the basis has, -1 for none."""
    best = -1
    for place in range(count):
        slot = work.touched[place]
        shorter = best < 0 or (length[slot], slot) < (length[best], best)
        if work.column[slot] and member[slot] < 0 and shorter:
            best = slot
    return best


class SuppressionSearch(NamedTuple):
    """Where the search for cells to hide stands.

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
    """Note for which primary unknowns a column closes the first circle; gives how many."""
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
    """Primary unknowns in a column that enters the basis wait for what leaves it, if that is cheaper."""
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
    """Two vectors that tell of a column what its solution would, all but surely.

    The first is zero on columns of the basis and combinations of them; the second, on columns whose combination has
    none of the primary unknowns that are in no circle yet. Both are random, and brought back through all steps.
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
                    value = _rest(value + (field.prime - other) * columns.values[entry], field)
            probe[steps.slot[step]] = _rest(value * steps.inverse[step], field)


@njit(nogil=True)
def _tells_nothing(probes: Numbers, given: SparseColumns, column: int, field: PrimeField) -> bool:
    """Whether a column is a combination of the basis without a primary unknown that is in no circle yet."""
    first, second = 0, 0
    for entry in range(given.start[column], given.start[column + 1]):
        slot, value = given.rows[entry], given.values[entry]
        first = _rest(first + probes[0, slot] * value, field)
        second = _rest(second + probes[1, slot] * value, field)
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

    `length` and `draws` have a number for each equation. Gives how many unknowns were needed, the number of steps, the
    steps, and the columns that were saved.
    """
    unknowns, kept = search.wanted.size, search.kept
    probes, spent = np.zeros((2, length.size), np.int64), np.iinfo(np.int64).max // PROBE_AGAIN
    store, stored = _no_columns(unknowns, unknowns), 0
    open_ones, number, column = 0, 0, 0
    while column < unknowns and (column < kept or open_ones > 0):
        if column >= kept:
            if spent * PROBE_AGAIN > steps.columns.start[number]:
                _probe(probes, steps, number, search, draws, field)
                spent = 0
            if _tells_nothing(probes, given, column, field):
                column += 1
                continue
        count = _solved(work, _loaded(work, given, column), steps, -1, field)
        slot = _free_slot(work, count, search.member, length)
        if slot >= 0:
            steps = _entered(steps, number, work, count, slot, field)
            search.member[slot] = column
            number += 1
            if column < search.primary:
                search.waits_for[column] = unknowns
                open_ones += 1
        else:
            found = _now_safe(search, work, count, column)
            open_ones -= found
            if found and column >= kept:
                store = _appended(store, stored, work, count, -1)
                search.saved[column] = stored
                stored += 1
        _cleared(work, count)
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
    steps, work = _fresh(equations, unknowns)
    none, member = np.full(unknowns, -1, np.int64), np.full(equations, -1, np.int64)
    search = SuppressionSearch(primary, kept, member, none.copy(), np.zeros(unknowns, np.int64), none.copy(), none)
    end, number, steps, store = _forward(given, length, draws, field, steps, work, search)
    base, hidden = number - 1, np.zeros(unknowns, np.int64)
    for column in range(end - 1, kept - 1, -1):
        if not search.wanted[column]:
            continue
        hidden[column] = 1
        if search.saved[column] >= 0:
            count = _solved(work, _loaded(work, store, search.saved[column]), steps, base, field)
        else:
            slot = steps.slot[search.left[column]]
            work.column[slot] = 1
            count = _solved(work, _touch(work, 0, slot), steps, search.left[column] - 1, field)
        slot = _dearest(search, work, count)
        cheaper = search.member[slot] if slot >= 0 else -1
        _wait_anew(search, work, count, cheaper)
        if slot >= 0:
            search.left[cheaper] = number
            steps = _entered(steps, number, work, count, slot, field)
            search.member[slot] = HIDDEN
            number += 1
        _cleared(work, count)
    return hidden, (search.waits_for[:primary] < unknowns).astype(np.int64)


@compiled((_COLUMNS, _NUMBERS, _DRAWS, _INT))
def movement(columns: tuple[Numbers, Numbers, Numbers], length: Numbers, draws: Numbers, prime: int) -> Numbers:
    """Random movements (unknowns x movements) of all unknowns together while the equations hold.

    `columns` are those of `SparseColumns`, `length` is the number of unknowns in each equation. Unknowns outside of the
    basis move by what was drawn for them, and those in it follow. An unknown that never moves is known.
    """
    given, field = SparseColumns(*columns), PrimeField(prime, 1.0 / prime)
    equations, unknowns = length.size, given.start.size - 1
    steps, work = _fresh(equations, unknowns)
    member = np.full(equations, -1, np.int64)
    moves, number = np.zeros(draws.shape, np.int64), 0
    for column in range(unknowns):
        count = _solved(work, _loaded(work, given, column), steps, -1, field)
        slot = _free_slot(work, count, member, length)
        if slot >= 0:
            steps = _entered(steps, number, work, count, slot, field)
            member[slot] = column
            number += 1
        else:
            for place in range(count):
                slot = work.touched[place]
                factor = prime - work.column[slot]
                if work.column[slot]:
                    for j in range(draws.shape[1]):
                        before = moves[member[slot], j]
                        moves[member[slot], j] = _rest(before + factor * draws[column, j], field)
            moves[column] = draws[column]
        _cleared(work, count)
    return moves
