"""Which cells to hide so that no sensitive one can be worked out, by exact elimination."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.tables.hierarchy import Numbers

if TYPE_CHECKING:
    from scipy.sparse import csc_array

PRIMES = (2**31 - 1, 2**31 - 19, 2**31 - 61)
"""Sizes of the fields that are calculated in. What is found in one is checked in the next."""


class System:
    """The equations between cells, without the cells that are known from the start.

    `equations` is equations x cells, the rest has a figure for each cell. `primary` cells must not become known;
    `free` ones are hidden anyway and need no protection; `worth` says of the others how dear they are.
    """

    def __init__(self, equations: csc_array, primary: Mask, free: Mask, known: Mask, worth: Array) -> None:
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
        for prime, other in zip(PRIMES, PRIMES[1:] + PRIMES[:1], strict=True):
            marks, safe = self._greedy(prime)
            marks[: self.kept] = True
            moves = self._moves(np.flatnonzero(marks), other, np.random.default_rng(other), 1)
            if (moves[: self.primary][safe, 0] != 0).all():
                hidden = np.zeros(self.size, dtype=bool)
                hidden[self.order[marks]] = True
                return hidden, self.order[: self.primary][~safe]
        raise ArithmeticError("no two fields agree on what can be worked out from a table")

    def _greedy(self, prime: int) -> tuple[Mask, Mask]:
        from microveil.tables._elimination_kernels import greedy

        equations = self.columns.shape[0]
        looked_at = self.columns[:, : self.kept + equations].tocsr()
        length = np.diff(looked_at.indptr).astype(np.int64)
        draws = np.random.default_rng(prime).integers(1, prime, equations)
        marks, safe = greedy(_arrays(self.columns, prime), length, self.primary, self.kept, draws, prime)
        return marks != 0, safe != 0

    def moves(self, hidden: Mask, count: int, rng: np.random.Generator) -> Numbers:
        """Random movements of all cells while what is published stays: cells x count, in the first field."""
        places = np.flatnonzero(hidden[self.order])
        moves = np.zeros((self.size, count), dtype=np.int64)
        moves[self.order[places]] = self._moves(places, PRIMES[0], rng, count)
        return moves

    def _moves(self, places: Numbers, prime: int, rng: np.random.Generator, count: int) -> Numbers:
        from microveil.tables._elimination_kernels import movement

        columns = self.columns[:, places]
        draws = rng.integers(1, prime, size=(places.size, count))
        length = np.diff(columns.tocsr().indptr).astype(np.int64)
        moves: Numbers = movement(_arrays(columns, prime), length, draws, prime)
        return moves


def _arrays(columns: csc_array, prime: int) -> tuple[Numbers, Numbers, Numbers]:
    """Where each column starts, and its equations and entries in the field."""
    start, rows = (np.ascontiguousarray(each, dtype=np.int64) for each in (columns.indptr, columns.indices))
    return start, rows, np.ascontiguousarray(columns.data % prime, dtype=np.int64)
