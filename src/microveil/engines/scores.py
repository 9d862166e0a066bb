"""The scores of a table in a pipeline: where they are, and what can be done with them there.

The pipeline says what happens, and the scores know how: held in one buffer (here), or made of the rows again whenever
they are needed (`engines.out_of_core`), for rows that are too many to be held.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from microveil.core.arrays import Array
from microveil.core.moments import Moments
from microveil.core.rng import Stream
from microveil.core.threads import in_threads
from microveil.engines.rows import (
    ColumnTask,
    Source,
    join_rows,
    map_rows,
    rows_of,
    score_moments,
    scores_of,
    with_public,
)
from microveil.perturb import Column, ColumnPerturbation, Columns, JointPerturbation
from microveil.restore import Correction

SMALL = 50_000
"""Cells of a score matrix up to which threads are not worth their start."""

ShareDone = Callable[[float], None]
"""Hears what share of the components is done."""


@dataclass(frozen=True, repr=False)
class ComponentTask:
    """A component to perturb: its number and place among those perturbed, its stream, and what is known of it.

    `known` has its mean and standard deviation, if they are known; `free` are the dimensions that it is free in.
    """

    number: int
    position: int
    stream: Stream
    known: tuple[float, float] | None
    free: int

    def column(self, values: Array, weights: Array | None) -> Column:
        """The whole component, as a perturbation sees it."""
        return Column(values, self.stream, self.position, weights, free=self.free, known=self.known)


Components = Sequence[ComponentTask]


class Scores(ABC):
    """Scores of all rows, a component each; whatever is done to them takes their place."""

    @abstractmethod
    def restart(self) -> None:
        """The scores as they were before anything was done to them."""

    def copied(self) -> Array | None:
        """A copy of all the scores, a row per component, where they are held."""
        return None

    def is_still(self, before: Array) -> bool:  # noqa: ARG002 - others compare
        """Are the scores what they were?"""
        return False

    @abstractmethod
    def moments(self, task: ColumnTask) -> Moments:
        """Moments of the public columns and the scores."""

    @abstractmethod
    def powers(self) -> tuple[Array, Array]:
        """Sums of the squares and of the fourth powers of each component."""

    @abstractmethod
    def perturb(self, by: ColumnPerturbation, components: Components, report: ShareDone) -> list[list[str]]:
        """Perturb components each by itself, with one method; what is returned are the notes on each."""

    @abstractmethod
    def rotate(self, goal: ColumnTask, onto: Array) -> None:
        """Scores on other axes: those of the goal."""

    @abstractmethod
    def correct(self, task: ColumnTask, fix: Correction) -> None:
        """Scores through a correction."""


class HeldScores(Scores):
    """Scores in one buffer, a row per component, because perturbing and releasing both go column by column.

    The release overwrites them piece by piece, so all of it takes the size of the input and little more.
    """

    def __init__(self, task: ColumnTask, source: Source) -> None:
        self.source, self.weights = source, task.table.weights
        self.count = task.axes.count
        self.buffer = np.empty((max(task.width, self.count), task.table.count))
        self.restart()

    @property
    def values(self) -> Array:
        """The scores, a row per component."""
        return self.buffer[: self.count]

    def copied(self) -> Array:
        """A copy of all the scores, a row per component."""
        return self.values.copy()

    def is_still(self, before: Array) -> bool:
        """Are the scores what they were?"""
        return np.array_equal(before, self.values)

    def restart(self) -> None:
        """The scores as they were before anything was done to them."""
        self.count = scores_of(self.source, self.buffer).shape[0]

    def moments(self, task: ColumnTask) -> Moments:
        """Moments of the public columns and the scores."""
        return score_moments(task, self.values)

    def powers(self) -> tuple[Array, Array]:
        """Sums of the squares and of the fourth powers of each component."""
        squares = [np.square(score) for score in self.values]
        return np.array([s.sum() for s in squares]), np.array([s @ s for s in squares])

    def perturb(self, by: ColumnPerturbation, components: Components, report: ShareDone) -> list[list[str]]:
        """Perturb components each by itself, in threads."""

        def one(component: ComponentTask) -> list[str]:
            column = component.column(self.buffer[component.number], self.weights)
            self.buffer[component.number] = by.apply(column)
            return column.notes

        tasks = [partial(one, component) for component in components]
        return in_threads(tasks, lambda done: report(done / len(components)), small=self.values.size <= SMALL)

    def perturb_together(self, perturb: JointPerturbation, task: ColumnTask, stream: Stream) -> list[str]:
        """Perturb the chosen components all at once; what is returned are notes on them."""
        public = with_public(task, self.values)(slice(0, task.table.count))[: task.table.public]
        columns = Columns(self.buffer[task.selected], stream, public, self.weights)
        self.buffer[task.selected] = perturb.apply_together(columns)
        return columns.notes

    def rotate(self, goal: ColumnTask, onto: Array) -> None:
        """Scores on other axes: those of the goal."""
        scores, self.count = self.values, goal.axes.count
        map_rows(rows_of(scores), self.values, onto, np.zeros(self.count))

    def correct(self, task: ColumnTask, fix: Correction) -> None:
        """Scores through a correction."""
        map_rows(with_public(task, self.values), self.values, fix.matrix, fix.constant)

    def joined(self, task: ColumnTask, fix: Correction | None) -> list[Array]:
        """The columns that the scores add up to; the scores are gone then."""
        join_rows(task, self.buffer, task.axes.loadings, fix)
        return list(self.buffer[: task.width])
