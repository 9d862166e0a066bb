"""The scores of a table in a pipeline: where they are, and what can be done with them there.

The pipeline says what happens, and the scores know how: held in one buffer (here), or made of the rows again whenever
they are needed (`engines.out_of_core`), for rows that are too many to be held.

Mixtures map scores that are kept and fresh ones, uncorrelated with them, onto the data together. Langsrud (2019):
Y* = fit + [Q_kept Q_fresh] K. The orthonormal Q are never made: what makes the scores orthonormal is a small matrix,
and goes with K into the one product that every row takes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.core.keys import Codes
from microveil.core.moments import Moments, moments
from microveil.core.rng import Stream
from microveil.core.threads import in_threads
from microveil.decompose import fit_centre
from microveil.engines.rows import (
    ColumnTask,
    RunContext,
    Source,
    join_rows,
    made_uncorrelated,
    map_rows,
    refined,
    rows_of,
    score_moments,
    scores_of,
    widened,
    with_public,
)
from microveil.perturb import (
    Column,
    ColumnPerturbation,
    Columns,
    JointPerturbation,
    Labels,
    Mixed,
    Mixture,
    OtherScores,
    check_draws,
)
from microveil.restore import Correction, correction

SMALL = 50_000
"""Cells of a score matrix up to which threads are not worth their start."""

IN_CACHE = 16_384
"""Scores that are squared at a time: they stay in the cache."""

ShareDone = Callable[[float], None]
"""Hears what share of the components is done."""


Components = Mapping[int, Column]
"""Components to perturb by their numbers, as a perturbation sees them, but for their values. Notes are left on them."""


class Scores(ABC):
    """Scores of all rows, a component each; whatever is done to them takes their place."""

    @abstractmethod
    def restart(self) -> None:
        """The scores as they were before anything was done to them."""

    def copied(self) -> Array | None:
        """A copy of all the scores, a row per component, where they are held."""
        return None

    @abstractmethod
    def moments(self, task: ColumnTask) -> Moments:
        """Moments of the public columns and the scores."""

    @abstractmethod
    def powers(self) -> tuple[Array, Array]:
        """Sums of the squares and of the fourth powers of each component."""

    @abstractmethod
    def perturb(self, by: ColumnPerturbation, components: Components, report: ShareDone) -> None:
        """Perturb components each by itself, with one method."""

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
        self.masked_labels: Codes | None = None
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

    def restart(self) -> None:
        """The scores as they were before anything was done to them."""
        self.count = scores_of(self.source, self.buffer).shape[0]

    def moments(self, task: ColumnTask) -> Moments:
        """Moments of the public columns and the scores."""
        return score_moments(task, self.values)

    def powers(self) -> tuple[Array, Array]:
        """Sums of the squares and of the fourth powers of each component."""
        squares, fourths = np.zeros((2, len(self.values)))
        for number, score in enumerate(self.values):
            for start in range(0, score.size, IN_CACHE):
                square = np.square(score[start : start + IN_CACHE])
                squares[number] += square.sum()
                fourths[number] += square @ square
        return squares, fourths

    def perturb(self, by: ColumnPerturbation, components: Components, report: ShareDone) -> None:
        """Perturb components each by itself, in threads."""

        def one(number: int, column: Column) -> None:
            self.buffer[number] = by.apply(replace(column, values=self.buffer[number], weights=self.weights))

        tasks = [partial(one, *component) for component in components.items()]
        in_threads(tasks, lambda done: report(done / len(components)), small=self.values.size <= SMALL)

    def perturb_together(
        self, perturb: JointPerturbation, task: ColumnTask, stream: Stream, labels: Labels | None = None
    ) -> list[str]:
        """Perturb the chosen components all at once; what is returned are notes on them.

        `labels` take part where the perturbation lets them, and are `masked_labels` afterwards.
        """
        public = with_public(task, self.values)(slice(0, task.table.count))[: task.table.public]
        columns = Columns(self.buffer[task.selected], stream, public, self.weights, labels=labels)
        self.buffer[task.selected] = perturb.apply_together(columns)
        self.masked_labels = columns.masked[-1] if columns.masked else None
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


@dataclass(frozen=True, repr=False)
class RebuildMap:
    """All columns that vary, in their order, as combinations of the perturbed ones.

    `matrix` is perturbed x all columns, and `perturbed` has the places of the perturbed ones among all.
    """

    names: tuple[str, ...]
    matrix: Array
    perturbed: list[int]


def blended(
    context: RunContext, mixture: Mixture, task: ColumnTask, rebuild: RebuildMap
) -> tuple[list[Array], Array | None, Mixed]:
    """The released columns: the kept scores and fresh ones, each with their loadings, as the mixture says.

    With them comes the correlation each keeps with its original residuals, where known. The mixture is chosen by what
    it does to all columns that vary, those that are rebuilt later among them.
    """
    table, public = task.table, task.table.public
    scores, loadings = _orthonormal(task)
    own = loadings @ rebuild.matrix
    if mixture.from_other:
        scores, loadings = _orthonormal(other_task(context, task))
    mixed = mixture.mix(own, loadings @ rebuild.matrix, rebuild.names)
    kept, fresh = len(mixed.kept), mixed.new.shape[0]
    _check_room(task, kept, fresh)
    check_draws(mixture.draws, table.count, fresh)
    buffer = np.empty((max(task.width, kept + fresh), table.count))
    buffer[:kept] = scores[mixed.kept]
    del scores
    _draw(mixture.draws, buffer[kept : kept + fresh], context)
    now = score_moments(task, buffer[: kept + fresh])
    goal = _uncorrelated(now, public + kept)
    fix = correction(now, goal, public, list(range(kept, kept + fresh)), "triangular")
    join_rows(task, buffer, np.vstack([mixed.old, mixed.new])[:, rebuild.perturbed], fix)
    retained = None if mixture.from_other else _retained(own, mixed)[rebuild.perturbed]
    return list(buffer[: task.width]), retained, mixed


def other_task(context: RunContext, task: ColumnTask) -> ColumnTask:
    """The same task for the other masker's columns: the public columns' fit taken off them, and axes of their own."""
    table = task.table
    if table.other is None:
        raise DataError("other: is needed", "give the columns as another masker released them")
    columns, perturb = table.other.columns, context.plan.perturb
    if isinstance(perturb, OtherScores) and perturb.own_share:
        columns = perturb.combined(table.confidential.columns, columns)
    other = table.with_confidential(columns)
    summary = moments(other.pieces, other.count, weights=other.weights)
    centre = refined(other, fit_centre(summary, other.public), summary)
    determined = set(centre.determined(summary))
    free = [j for j in task.axes.columns.tolist() if j not in determined]
    if not free:
        raise DataError("other: it is constant or follows from the public columns, so it has no scores", "give another")
    stream = context.stream("other")
    axes = context.plan.decompose.fit(centre.centred.select(free), lambda most: np.empty((0, most)), stream)
    return ColumnTask(other, centre, widened(axes, free, task.width), list(range(axes.count)))


def other_scores(context: RunContext, task: ColumnTask, count: int) -> Array:
    """The first scores of the other masker's output: as many as the data's own."""
    other = other_task(context, task)
    if other.axes.count < count:
        raise DataError(
            f"other: what the public columns leave of it has {other.axes.count} dimensions, and {count} are needed",
            "give a table in which no column is constant or follows from others that does not in the data",
        )
    buffer = np.empty((other.axes.count, task.table.count))
    return scores_of((other.table, other.centre, other.axes.projection), buffer)[:count]


def _orthonormal(task: ColumnTask) -> tuple[Array, Array]:
    """Scores that are uncorrelated at unit variance to the last digit, and their loadings."""
    scores = np.empty((task.axes.count, task.table.count))
    scores_of((task.table, task.centre, task.axes.projection), scores)
    return scores, made_uncorrelated(scores, task.table.weights) @ task.axes.loadings


def _check_room(task: ColumnTask, kept: int, fresh: int) -> None:
    """Fresh scores need directions of their own."""
    table = task.table
    needed = 1 + table.public + kept + fresh
    if table.count < needed:
        raise DataError(
            f"{table.count} rows are too few for {fresh} fresh scores beside {kept} kept ones"
            + (f" and {table.public} public columns" if table.public else "")
            + f": at least {needed} are needed",
            "use ipso or romm, fewer columns, or more rows",
        )


def _draw(given: Array | None, target: Array, context: RunContext) -> None:
    """Normal deviates, a row for each fresh score."""
    if given is not None:
        target[:] = given.T[: target.shape[0]]
        return

    def fill(number: int) -> None:
        target[number] = context.stream("mix", number).normal(target.shape[1])

    in_threads([partial(fill, number) for number in range(target.shape[0])])


def _uncorrelated(now: Moments, fixed: int) -> Moments:
    """The same moments, but with those after the first `fixed` at unit variance and uncorrelated with everything."""
    comoment, offset = now.comoment.copy(), now.mean.copy()
    comoment[fixed:], comoment[:, fixed:], offset[fixed:] = 0.0, 0.0, 0.0
    comoment[fixed:, fixed:] = np.eye(offset.size - fixed) * now.weight
    return Moments(now.weight, np.zeros_like(offset), offset, comoment)


def _retained(own: Array, mixed: Mixed) -> Array:
    """The correlation of new with old residuals, column by column."""
    shared: Array = (own[mixed.kept] * mixed.old).sum(axis=0) / np.square(own).sum(axis=0)
    return shared
