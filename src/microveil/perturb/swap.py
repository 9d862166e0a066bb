"""Swapping: the scores stay, their owners change, anywhere or among neighbours in rank. And taking them out."""

from __future__ import annotations

import math
from collections.abc import MutableSequence, Sequence
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from microveil.core.arrays import Array
from microveil.core.compiled import compiled_late
from microveil.core.errors import ParameterError
from microveil.core.keys import Codes
from microveil.core.rng import Stream
from microveil.core.shuffle import shuffled
from microveil.perturb.base import (
    CarryingPerturbation,
    Column,
    ColumnPerturbation,
    Labels,
    Permutations,
    check_given,
    not_percent,
)


class Swap(CarryingPerturbation):
    """Put the values in random order, each component in an order of its own.

    Calviño (2017), §3.1. The distribution of every component comes back exactly, so the means do too; the
    covariances do on average (components are uncorrelated, their swapped selves only nearly so).
    """

    reference: ClassVar[str] = "Calviño (2017), §3.1"
    keeps_mean: ClassVar[bool] = True
    knows_weights: ClassVar[bool] = False
    permutes: ClassVar[bool] = True
    masks_labels: ClassVar[bool] = True

    permutations: Permutations = None

    def apply(self, column: Column) -> Array:
        """`values[permutation]`, with a uniformly random permutation."""
        if self.permutations is not None:
            return column.values[self.permutations[:, column.position]]
        return shuffled(column.values, column.stream)

    def mask_labels(self, labels: Labels) -> Codes:
        """Each column in a random order of its own."""
        return exchanged(labels)

    def check(self, rows: int, columns: int) -> None:
        """Given permutations must be permutations."""
        check_given("permutations", self.permutations, rows, columns)
        if self.permutations is not None and (np.sort(self.permutations, axis=0) != np.arange(rows)[:, None]).any():
            raise ParameterError(
                f"permutations: a column does not hold each of 0 ... {rows - 1} once", "count rows from 0"
            )


def exchanged(labels: Labels) -> Codes:
    """Columns of labels, each in a random order: their frequencies stay, their relations to others are lost."""
    if labels.names:
        labels.notes.append("labels were put in a random order each: their relations to other columns are lost")
    orders = [labels.stream.child(name).generator().permutation(len(labels.codes)) for name in labels.names]
    return np.column_stack([codes[order] for codes, order in zip(labels.codes.T, orders, strict=True)])


SMALL = 100_000
"""Up to this many rows the loop runs as it is, as the compiled one takes half a second to load; the results agree."""


class RankSwap(ColumnPerturbation):
    """Let each value change places with one of nearly the same rank.

    The ranks are walked upwards; one that has not changed places yet picks a partner at random among those that have
    not either and are at most `rank_window` of the rows above it, itself included. The values stay the same set, so
    means and variances come back exactly; covariances do not, not even on average. Survey weights play no part.
    """

    reference: ClassVar[str] = "Moore (1996); Calviño (2017), §4.1"
    keeps_mean: ClassVar[bool] = True
    # Neighbours in rank follow each other's expectation, so what was dependent without being correlated may correlate.
    keeps_variance: ClassVar[bool] = False
    knows_weights: ClassVar[bool] = False
    retention_varies: ClassVar[bool] = True  # with how far apart neighbours are
    masks_labels: ClassVar[bool] = True
    needs_order: ClassVar[bool] = True

    rank_window: Annotated[float, not_percent("a fraction of the rows")] = Field(
        default=0.1, gt=0, le=1, description="how many ranks away a partner may be, as a fraction of the number of rows"
    )

    def apply(self, column: Column) -> Array:
        """The values of the partners."""
        order = np.argsort(column.values, kind="stable")
        new = np.empty_like(column.values)
        new[order] = column.values[order[partners(order.size, self.window(order.size), column.stream)]]
        return new

    def mask_labels(self, labels: Labels) -> Codes:
        """Labels with an order change places with those of nearly the same rank, ties in any order; gaps stay."""
        new = labels.codes.copy()
        for j, (name, ranks) in enumerate(zip(labels.names, labels.ranks, strict=True)):
            rows = np.flatnonzero(labels.codes[:, j] >= 0)
            codes, stream = labels.codes[rows, j], labels.stream.child(name)
            order = np.lexsort((stream.child("ties").uniform(rows.size), codes if ranks is None else ranks[codes]))
            partner = partners(rows.size, max(self.window(rows.size), 1), stream.child("partners"))
            new[rows[order], j] = codes[order[partner]]
        return new

    def window(self, rows: int) -> int:
        """How many ranks away a partner may be; a product such as 0.29 * 100 must not fall short of 29."""
        return math.floor(rows * self.rank_window + 1e-9)

    def check(self, rows: int, columns: int) -> None:  # noqa: ARG002 - a window is of rows
        """A window without neighbours would release every value in its place."""
        if self.window(rows) == 0:
            raise ParameterError(
                f"rank_window: {self.rank_window:g} of {rows} rows is less than one rank, so nothing would change",
                f"use at least {math.ceil(10_000 / rows) / 10_000:g}",
            )


def partners(rows: int, window: int, stream: Stream) -> NDArray[np.int64]:
    """For each rank the one it changes places with (itself, where it keeps its own)."""
    luck = stream.uniform(rows)
    room = min(window + 1, rows)
    if rows <= SMALL:
        partner = [-1] * rows
        walk(luck.tolist(), window, partner, [0] * room, [0] * rows)
        return np.array(partner, dtype=np.int64)
    found = np.full(rows, -1, dtype=np.int64)
    fast = compiled_late(walk, "void(float64[::1], int64, int64[::1], int64[::1], int64[::1])")
    fast(luck, window, found, np.empty(room, dtype=np.int64), np.empty(rows, dtype=np.int64))
    return found


def walk(
    luck: Sequence[float],
    window: int,
    partner: MutableSequence[int],
    pool: MutableSequence[int],
    place: MutableSequence[int],
) -> None:
    """Fill `partner`, which comes filled with -1. The same lines run as they are on lists, and compiled on arrays.

    The pool holds the ranks of the window that have not changed places, in no order; `place` says where each is in it.
    So a partner is found, and taken out, in a step or two, however wide the window.
    """
    rows, size, entering = len(partner), 0, 0
    for rank in range(rows):
        while entering < rows and entering <= rank + window:
            pool[size] = entering
            place[entering] = size
            size += 1
            entering += 1
        if partner[rank] >= 0:
            continue
        chosen = pool[int(luck[rank] * size)]
        partner[rank] = chosen
        partner[chosen] = rank
        size -= 1
        last, hole = pool[size], place[rank]
        pool[hole] = last
        place[last] = hole
        if chosen != rank:
            size -= 1
            last, hole = pool[size], place[chosen]
            pool[hole] = last
            place[last] = hole


class Remove(ColumnPerturbation):
    """Set the component to its mean, which is zero.

    The means of the data stay; variances shrink by what the component had, and nothing is random. It hides no record:
    all that is left of one is exact.
    """

    reference: ClassVar[str] = "D'Acquisto and Naldi, §III, step 3"
    keeps_mean: ClassVar[bool] = True
    keeps_variance: ClassVar[bool] = False
    random: ClassVar[bool] = False
    by_rows: ClassVar[bool] = True

    def apply(self, column: Column) -> Array:
        """Zeros."""
        return np.zeros_like(column.values)
