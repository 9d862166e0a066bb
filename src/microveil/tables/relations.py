"""What everybody knows about a table before seeing it: which of its cells are the sums of which others.

The cells that are published, and the inner cells that are not, are the unknowns of a system of equations without a
right-hand side: one equation for each cell that is a sum. What a reader can work out from the published values is what
follows from these equations, and they are few and short where the matrix from inner to published cells is neither.
Which cells to hide, so that no sensitive one can be worked out, is found by exact elimination.
"""

from __future__ import annotations

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.late import sparse
from microveil.tables.hierarchy import Numbers
from microveil.tables.table import Table

PRIMES = (2**31 - 1, 2**31 - 19, 2**31 - 61)
"""Sizes of the fields that are calculated in. What is found in one is checked in the next."""


def relations(table: Table) -> sparse.csc_array:
    """Equations x unknowns: 1 for the sum and -1 for its parts. The published cells come first, then hidden inner ones.

    Each sum is that of the cells one step down in one dimension, if they are shown; else that of inner cells.
    """
    element = unknown_of_inner(table)
    sums, parts, rest = _steps_down(table)
    if rest.size:
        below = table.matrix[rest].tocoo()
        sums = np.concatenate([sums, rest[below.row]])
        parts = np.concatenate([parts, element[below.col]])
    which, equation = np.unique(sums, return_inverse=True)
    rows = np.concatenate([np.arange(which.size), equation.ravel()])
    columns = np.concatenate([which, parts])
    entries = np.concatenate([np.ones(which.size, np.int64), np.full(parts.size, -1, np.int64)])
    unknowns = max(table.count, int(element.max(initial=-1)) + 1)
    return sparse.csc_array((entries, (rows, columns)), shape=(which.size, unknowns))


def unknown_of_inner(table: Table) -> Numbers:
    """The unknown that each inner cell is: a published cell, or one after those."""
    codes = np.stack([h.leaves[leaf] for h, leaf in zip(table.hierarchies, table.inner_leaves.T, strict=True)], axis=1)
    element = table.row_of(codes)
    hidden = element < 0
    element[hidden] = table.count + np.arange(np.count_nonzero(hidden))
    return element


def _steps_down(table: Table) -> tuple[Numbers, Numbers, Numbers]:
    """Sums and their parts one step down, pair by pair; and the sums that have no such parts among published cells."""
    codes = table.codes
    is_sum = np.stack([h.leaf_of[column] < 0 for h, column in zip(table.hierarchies, codes.T, strict=True)], axis=1)
    axis = _summed_axis(table, is_sum)
    sums, parts = [], []
    for dimension, hierarchy in enumerate(table.hierarchies):
        cells = np.flatnonzero(axis == dimension)
        # The codes right below each code, without the total, which comes first; and where they start.
        children = np.argsort(hierarchy.above, kind="stable")[1:]
        first = np.cumsum([0, *np.bincount(hierarchy.above[1:], minlength=len(hierarchy.codes))])
        many = np.diff(first)[codes[cells, dimension]]
        owner = np.repeat(cells, many)
        within = np.arange(owner.size) - np.repeat(np.cumsum(many) - many, many)
        below = codes[owner].copy()
        below[:, dimension] = children[first[codes[owner, dimension]] + within]
        sums.append(owner)
        parts.append(table.row_of(below))
    return np.concatenate(sums), np.concatenate(parts), np.flatnonzero((axis < 0) & is_sum.any(axis=1))


def _summed_axis(table: Table, is_sum: Mask) -> Numbers:
    """For each published cell the dimension along which it is a sum of cells that are shown, -1 if there is none."""
    axis = np.full(table.count, -1, dtype=np.int64)
    for shown in table.linked or [table.dimensions]:
        inside = np.array([name in shown for name in table.dimensions])
        member = (table.codes[:, ~inside] == 0).all(axis=1)
        for dimension in np.flatnonzero(inside):
            axis[member & (axis < 0) & is_sum[:, dimension]] = dimension
    return axis


class System:
    """The equations between cells, without the cells that are known from the start.

    `equations` is equations x cells, the rest has a figure for each cell. `primary` cells must not become known;
    `free` ones are hidden anyway and need no protection; `worth` says of the others how dear they are.
    """

    def __init__(self, equations: sparse.csc_array, primary: Mask, free: Mask, known: Mask, worth: Array) -> None:
        kinds = [np.flatnonzero(mask & ~known) for mask in (primary, free & ~primary)]
        others = np.flatnonzero(~(primary | free | known))
        self.order = np.concatenate([*kinds, others[np.argsort(-worth[others], kind="stable")[::-1]]])
        self.primary, self.kept = kinds[0].size, kinds[0].size + kinds[1].size
        self.equations, self.columns, self.worth = equations, equations[:, self.order], worth
        self.size = equations.shape[1]

    def hidden(self) -> tuple[Mask, Numbers]:
        """The cells to hide, and the primary cells that cannot be protected.

        A wrong answer needs a determinant that the prime divides, so the answer is checked in another field.
        """
        from microveil.tables._elimination_kernels import greedy

        equations = self.columns.shape[0]
        length = np.diff(self.columns[:, : self.kept + equations].tocsr().indptr).astype(np.int64)
        for prime, other in zip(PRIMES, PRIMES[1:] + PRIMES[:1], strict=True):
            draws = np.random.default_rng(prime).integers(1, prime, equations)
            marks, safe = (
                found != 0
                for found in greedy(_arrays(self.columns, prime), length, self.primary, self.kept, draws, prime)
            )
            marks[: self.kept] = True
            moves = self._moves(np.flatnonzero(marks), other, np.random.default_rng(other), 1)
            if (moves[: self.primary][safe, 0] != 0).all():
                hidden = np.zeros(self.size, dtype=bool)
                hidden[self.order[marks]] = True
                return hidden, self.order[: self.primary][~safe]
        raise ArithmeticError("no two fields agree on what can be worked out from a table")

    def moves(self, hidden: Mask, count: int, rng: np.random.Generator) -> Numbers:
        """Random movements of all cells while what is published stays: cells x count, in the first field."""
        places = np.flatnonzero(hidden[self.order])
        moves = np.zeros((self.size, count), dtype=np.int64)
        moves[self.order[places]] = self._moves(places, PRIMES[0], rng, count)
        return moves

    def _moves(self, places: Numbers, prime: int, rng: np.random.Generator, count: int) -> Numbers:
        """Movements (places x count) of the cells at some places of the order, in the field of a prime."""
        from microveil.tables._elimination_kernels import movement

        columns = self.columns[:, places]
        draws = rng.integers(1, prime, size=(places.size, count))
        length = np.diff(columns.tocsr().indptr).astype(np.int64)
        moves: Numbers = movement(_arrays(columns, prime), length, draws, prime)
        return moves


def _arrays(columns: sparse.csc_array, prime: int) -> tuple[Numbers, Numbers, Numbers]:
    """Where each column starts, and its equations and entries in the field."""
    start, rows = (np.ascontiguousarray(each, dtype=np.int64) for each in (columns.indptr, columns.indices))
    return start, rows, np.ascontiguousarray(columns.data % prime, dtype=np.int64)
