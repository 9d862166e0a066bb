"""Compiled steps of the elimination: a basis of the columns of a sparse system, for `_elimination_kernels`.

Numbers are those of a field of prime size, in which nothing is rounded. The inverse of the basis is kept as a product
of steps, as the simplex method does: a step has the column that entered and the slot (equation) it entered at. Steps
are short because the systems are sparse and only the cheapest unknowns, far fewer than all, are ever needed.

Numba keeps a loop by the date of its own file: after a change here, `_elimination_kernels.py` has to be saved anew.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


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


@njit(nogil=True)
def some(number: int) -> int:
    """The number, as one that the compiler does not know: for a known one it compiles again all that it is given to."""
    return int(np.int64(number))


@njit(nogil=True)
def rest(number: int, field: PrimeField) -> int:
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
            result = rest(result * number, field)
        number = rest(number * number, field)
        power >>= 1
    return result


@njit(nogil=True)
def _await(work: Workspace, heap: list[Any], steps: Steps, slot: int, after: int) -> None:
    """Let the first of the `steps` at a slot that comes `after` another wait in the `heap`; `work` notes it."""
    step = steps.first[slot]
    while step >= 0 and step <= after:
        step = steps.next[step]
    if step >= 0 and not work.waits[step]:
        work.waits[step] = True
        heappush(heap, step)


@njit(nogil=True)
def touch(work: Workspace, count: int, slot: int) -> int:
    if not work.is_touched[slot]:
        work.is_touched[slot] = True
        work.touched[count] = slot
        return count + 1
    return count


@njit(nogil=True)
def solved(work: Workspace, count: int, steps: Steps, after: int, field: PrimeField) -> int:
    """Bring the column in `work` (`count` slots) through all `steps` after one; gives how many slots it touches."""
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
        factor = rest(column[slot] * steps.inverse[step], field)
        column[slot] = factor
        _await(work, heap, steps, slot, step)
        for entry in range(columns.start[step], columns.start[step + 1]):
            other = columns.rows[entry]
            before = column[other]
            column[other] = rest(before + (field.prime - factor) * columns.values[entry], field)
            if before == 0:
                count = touch(work, count, other)
                _await(work, heap, steps, other, step)
    return count


@njit(nogil=True)
def cleared(work: Workspace, count: int) -> None:
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
    for place in range(array.size):
        grown[place] = array[place]
    return grown


@njit(nogil=True)
def appended(columns: SparseColumns, number: int, work: Workspace, count: int, without: int) -> SparseColumns:
    """The columns, with the one in `work` (which touches `count` slots) as that of this number, without one slot."""
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
def entered(steps: Steps, number: int, work: Workspace, count: int, pivot: int, field: PrimeField) -> Steps:
    """A step more, of this `number`: the column in `work` enters the basis at the slot of its `pivot`.

    It touches `count` slots; numbers are those of the `field`.
    """
    columns = appended(steps.columns, number, work, count, pivot)
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
def no_columns(columns: int, entries: int) -> SparseColumns:
    """No columns yet, and room for so many."""
    few = np.zeros(max(entries, 1), np.int64)
    return SparseColumns(np.zeros(columns + 2, np.int64), few, few.copy())


@njit(nogil=True)
def fresh(equations: int, unknowns: int) -> tuple[Steps, Workspace]:
    """No steps yet, and a workspace."""
    none, few = np.full(equations, -1, np.int64), np.zeros(equations + 1, np.int64)
    steps = Steps(
        no_columns(equations, unknowns), few, few.copy(), none, none.copy(), np.full(equations + 1, -1, np.int64)
    )
    work = Workspace(
        np.zeros(equations, np.int64), np.zeros(equations, np.int64), np.zeros(equations, np.bool_),
        np.zeros(unknowns + equations + 2, np.bool_),
    )  # fmt: skip
    return steps, work


@njit(nogil=True)
def loaded(work: Workspace, columns: SparseColumns, column: int) -> int:
    """Start to work on a column; gives how many slots it touches."""
    count = some(0)
    for entry in range(columns.start[column], columns.start[column + 1]):
        work.column[columns.rows[entry]] = columns.values[entry]
        count = touch(work, count, columns.rows[entry])
    return count


@njit(nogil=True)
def free_slot(work: Workspace, count: int, member: Numbers, length: Numbers) -> int:
    """The slot of the shortest equation that the column in `work` is in and no unknown of the basis has, -1 for none.

    The column touches `count` slots; `member` has the unknown of each slot, `length` that of each equation.
    """
    best = -1
    for place in range(count):
        slot = work.touched[place]
        shorter = best < 0 or (length[slot], slot) < (length[best], best)
        if work.column[slot] and member[slot] < 0 and shorter:
            best = slot
    return best
