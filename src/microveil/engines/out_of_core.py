"""Tables whose rows are too many to be held: on a disk, or on a cluster.

Everything a linear method does to a row is a small matrix, so the steps from its cells to what is released can be
written down once and run again whenever they are needed: to measure scores, and at last to write. Only a permutation
needs all rows at once; an engine has a verb of its own for it. What an engine must be able to do with its rows is

- reduce them to a summary that can be merged (`measure`, `total`),
- map them (it calls the row map that `run_out_of_core` returns, wherever the rows are),
- permute what is made of them over all rows (`permuted`).
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Mask
from microveil.core.errors import DataError, ParameterError
from microveil.core.moments import Moments, Profile
from microveil.core.rng import ROWS_PER_BLOCK, Stream, Streams
from microveil.core.table import Microdata, RowMap
from microveil.decompose import Centre, Clustered
from microveil.engines.pipeline import Spectrum, perturbed, prepared
from microveil.engines.rows import ColumnTask, Gridding, Progress, RunContext, centred, gridding, joining
from microveil.engines.scores import Components, Scores, ShareDone
from microveil.engines.set_aside import dependence_of, places_of
from microveil.methods import Plan
from microveil.perturb import Column, ColumnPerturbation
from microveil.restore import Correction, Settled
from microveil.rules.column_rules import NOTHING_KNOWN, ColumnRules
from microveil.rules.linear_rules import Dependence, LinearRule


class RemoteTable(Microdata):
    """A table whose rows are elsewhere. Its columns are read by pieces only, never whole."""

    @abstractmethod
    def permuted(self, of: RowMap, streams: Sequence[Stream], report: ShareDone) -> Self:
        """The table with further columns: what is made of the rows, each column of it in a random order.

        The order is the one that `core.shuffle.shuffled` gives with the column's stream.
        """

    def stored(self, of: RowMap, width: int, report: ShareDone) -> Sequence[Any]:
        """What is made of the rows, so many columns, stored where the rows are, if they can be read whole there."""
        raise NotImplementedError


class Remembered(Stream):
    """A stream that keeps the block it drew last, as rows are read in pieces that are smaller than a block."""

    def __init__(self, entropy: int, key: tuple[int, ...]) -> None:
        super().__init__(entropy, key)
        object.__setattr__(self, "_last", threading.local())

    def __reduce__(self) -> tuple[type[Self], tuple[int, tuple[int, ...]]]:
        """The block that was drawn last is not pickled."""
        return type(self), (self.entropy, self.key)

    def _drawn(self, kind: str, size: int, start: int) -> Array:
        block, skipped = divmod(start, ROWS_PER_BLOCK)
        if skipped + size > ROWS_PER_BLOCK:
            return super()._drawn(kind, size, start)
        last: threading.local = self._last  # type: ignore[attr-defined]  # a frozen class
        if getattr(last, "block", None) != (kind, block):
            last.values = np.empty(ROWS_PER_BLOCK)
            self._fill(kind, block, last.values)
            last.block = kind, block
        part: Array = last.values[skipped : skipped + size]
        return part


@dataclass(frozen=True, repr=False)
class ByRows:
    """New scores of a component, made of the old ones row by row."""

    perturb: ColumnPerturbation
    column: Column

    def __call__(self, scores: Array, cells: Array, rows: slice) -> Array:  # noqa: ARG002 - others read the cells
        """The new scores of some rows."""
        return self.perturb.apply(replace(self.column, values=scores, rows=rows, notes=[]))


def _stored_scores(place: int, scores: Array, cells: Array, rows: slice) -> Array:  # noqa: ARG001 - others need all
    """New `scores` of a component that are stored as a column of the table (`cells`), at this place, of some rows."""
    stored: Array = cells[place]
    return stored


Change = Callable[[Array, Array, slice], Array]
"""What takes the place of a component's scores: the old ones, the cells and the numbers of some rows in."""


@dataclass(frozen=True, repr=False)
class RowPipeline:
    """The steps of a row: the centre is taken off, it is turned into scores, some are changed, and all are mapped.

    `across` (components x confidential columns) turns what the centre leaves into scores.
    """

    centre: Centre
    across: Array
    changes: Mapping[int, Change] = field(default_factory=dict)
    maps: tuple[tuple[Array, Array], ...] = ()
    """Matrices that public columns and scores go through, and constants that are added."""

    @property
    def reads(self) -> int | None:
        """How many columns, counted from the first, it needs of a row; None if all.

        Where every score is drawn anew, the old ones need not be known: public columns are all that is read.
        """
        drawn = [change for change in self.changes.values() if isinstance(change, ByRows) and change.perturb.replaces]
        return self.centre.public if len(drawn) == self.across.shape[0] else None

    def scores(self, cells: Array, rows: slice) -> Array:
        """Public columns without their means, and scores."""
        public = self.centre.public
        both = np.empty((public + self.across.shape[0], rows.stop - rows.start))
        scores = both[public:]
        if self.reads is None:
            off_centre = centred(self.centre, cells[: self.centre.shift.size], rows)
            both[:public] = off_centre[:public]
            np.matmul(self.across, off_centre[public:], out=scores)
        elif public:
            both[:public] = cells[:public] - self.centre.shift[:public, None]
            both[:public] -= self.centre.offset[:public, None]
        for component, change in self.changes.items():
            scores[component] = change(scores[component], cells, rows)
        for matrix, constant in self.maps:
            both = np.vstack([both[:public], mapped(both, matrix, constant)])
        return both

    def only(self, components: Sequence[int], cells: Array, rows: slice) -> Array:
        """The scores of some components."""
        scores = self.scores(cells, rows)[self.centre.public :]
        return scores[list(components)]


def mapped(both: Array, matrix: Array, constant: Array) -> Array:
    """Public columns and scores through a matrix."""
    found: Array = np.ascontiguousarray(matrix.T) @ both
    found += constant[:, None]
    return found


def _powers(pipeline: RowPipeline, cells: Array, rows: slice) -> Array:
    """Squares and fourth powers of the scores, added up."""
    squares = np.square(pipeline.scores(cells, rows)[pipeline.centre.public :])
    return np.stack([squares.sum(axis=1), np.square(squares).sum(axis=1)])


class LazyScores(Scores):
    """Scores that are made of the rows whenever they are needed; of these, only permuted ones are stored."""

    def __init__(self, task: ColumnTask) -> None:
        if not isinstance(task.table, RemoteTable):
            raise TypeError("scores of a table in memory are held")
        self.table = task.table
        self.original = RowPipeline(task.centre, np.ascontiguousarray(task.axes.projection.T))
        self.pipeline = self.original

    def restart(self) -> None:
        """The scores as they were before anything was done to them."""
        self.pipeline = self.original

    def moments(self, task: ColumnTask) -> Moments:  # noqa: ARG002 - the pipeline knows
        """Moments of the public columns and the scores."""
        return self.table.measure(self.pipeline.scores, self.pipeline.reads)

    def powers(self) -> tuple[Array, Array]:
        """Sums of the squares and of the fourth powers of each component."""
        squares, fourths = self.table.total(partial(_powers, self.pipeline))
        return squares, fourths

    def perturb(self, by: ColumnPerturbation, components: Components, report: ShareDone) -> None:
        """Row by row, or by a permutation over all rows."""
        if not components:
            return
        changes: dict[int, Change] = {}
        if by.by_rows:
            for number, column in components.items():
                stream = Remembered(column.stream.entropy, column.stream.key)
                changes[number] = ByRows(by, replace(column, stream=stream, rows_in_all=self.table.count))
        else:
            first = self.table.values.shape[1]
            chosen = partial(self.pipeline.only, list(components))
            self.table = self.table.permuted(chosen, [column.stream for column in components.values()], report)
            changes = {number: partial(_stored_scores, first + at) for at, number in enumerate(components)}
        self.pipeline = replace(self.pipeline, changes={**self.pipeline.changes, **changes})

    def rotate(self, goal: ColumnTask, onto: Array) -> None:
        """Scores on other axes: those of the goal."""
        matrix = np.vstack([np.zeros((self.pipeline.centre.public, onto.shape[1])), onto])
        self._through(matrix, np.zeros(goal.axes.count))

    def correct(self, task: ColumnTask, fix: Correction) -> None:  # noqa: ARG002 - the pipeline knows
        """Scores through a correction."""
        self._through(fix.matrix, fix.constant)

    def _through(self, matrix: Array, constant: Array) -> None:
        self.pipeline = replace(self.pipeline, maps=(*self.pipeline.maps, (matrix, constant)))


def joined(pipeline: RowPipeline, onto_data: Array, constant: Array, shift: Array, cells: Array, rows: slice) -> Array:
    """The columns that the scores of some rows (`cells`) add up to at the end of a pipeline.

    `onto_data` (public columns and scores x columns), `constant` and `shift` (columns) are those of `joining`.
    """
    columns = mapped(pipeline.scores(cells, rows), onto_data, constant)
    columns += shift[:, None]
    return columns


def stored_columns(first: int, count: int, cells: Array, rows: slice) -> Array:  # noqa: ARG001 - a row map
    """Perturbed columns of some rows, stored as columns of the table (`cells`): so many, from the `first` on."""
    return cells[first : first + count]


@dataclass(frozen=True, repr=False)
class Released:
    """The last step: columns that follow from the perturbed ones rebuilt, and constant ones put back.

    It `reads` so many columns of a row, counted from the first; None if all. Perturbed columns may have been `stored`.
    """

    perturbed: RowMap
    reads: int | None
    gridding: Gridding | None
    chosen: Sequence[int]
    rules: Sequence[LinearRule]
    constants: Mapping[int, float]
    stored: bool = False
    holes: int | None = None
    """Where the confidential columns as they were begin among the cells, if some of theirs are missing."""

    def __call__(self, cells: Array, rows: slice) -> Array:
        """The released confidential columns of some rows, NaN where a cell was missing."""
        columns = self._columns(cells, rows)
        return columns if self.holes is None else np.where(self.gaps(cells), np.nan, columns)

    def gaps(self, cells: Array) -> Mask:
        """Where cells of the confidential columns were missing: columns x rows."""
        first, width = self.holes or 0, len(self.chosen) + len(self.rules) + len(self.constants)
        return np.isnan(cells[first : first + width])

    def _columns(self, cells: Array, rows: slice) -> Array:
        """The same columns without gaps."""
        perturbed = self.perturbed(cells, rows)
        if self.gridding is not None:
            perturbed = self.gridding.of_rows(cells, perturbed)
        if not self.rules and not self.constants:
            return perturbed
        new = dict(zip(self.chosen, perturbed, strict=True))
        for rule in self.rules:
            new[rule.column] = rule.rebuilt(new)
        new |= {j: np.full(perturbed.shape[1], value) for j, value in self.constants.items()}
        return np.array([new[j] for j in sorted(new)])


def with_stored_digits(released: RowMap, kinds: Mapping[int, Any], cells: Array, rows: slice) -> Array:
    """Released columns of some rows (`cells`) with the digits that they are stored with.

    `kinds` has what rounds each column that has fewer, by its number: a type of numbers, or `np.round`.
    """
    values = released(cells, rows)
    for number, kind in kinds.items():
        values[number] = kind(values[number])
    return values


class MadeColumn:
    """A released column that is made of the rows again when some of it is read."""

    def __init__(self, made: Callable[[slice], Array], number: int, rows: int) -> None:
        self.made, self.number = made, number
        self.shape, self.size = (rows,), rows

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, rows: slice) -> Array:
        start, stop, _ = rows.indices(self.size)
        column: Array = self.made(slice(start, stop))[self.number]
        return column


def made_columns(table: RemoteTable, released: RowMap, width: int) -> list[Array]:
    """So many released columns. Rows that were made last are kept, as columns are read one after the other."""
    last = threading.local()

    def made(rows: slice) -> Array:
        if getattr(last, "rows", None) != rows:
            last.values, last.rows = released(table.values.piece(rows), rows), rows
        values: Array = last.values
        return values

    return cast(list[Array], [MadeColumn(made, number, table.count) for number in range(width)])


@dataclass(frozen=True, repr=False)
class RemoteOutcome:
    """What was found: the table to read (with stored columns), what to make of its rows, and the components."""

    table: RemoteTable
    released: Released
    dependence: Dependence
    spectrum: Spectrum
    remark: str = ""
    settled: Settled | None = None
    """How near exchanges came, where there were any."""

    labels: RowMap | None = None
    """The numbers of the labels of some rows, where labels were exchanged."""

    filled: Moments | None = None
    """Those of the columns with missing cells filled in, where there were any."""


SHOWN = 10_000
"""Rows that reports are drawn from."""


def shown_rows(streams: Streams, count: int) -> NDArray[np.intp]:
    """Rows that are kept for reports, in order."""
    if count <= SHOWN:
        return np.arange(count)
    return np.sort(streams.stream("shown rows").generator().choice(count, SHOWN, replace=False, shuffle=False))


def check_eligible(plan: Plan, engine: str) -> None:
    """Refuse methods that need all rows at once, and name an engine that works."""
    perturb = plan.perturb
    reason = ""
    if isinstance(plan.decompose, Clustered):
        reason = "compares records with each other"
    elif plan.maps_values and (plan.rounded or (engine != "stream" and (plan.exact or not plan.arranges))):
        reason = "puts the values of all records in order"
    elif not isinstance(perturb, ColumnPerturbation) or not (perturb.by_rows or perturb.permutes):
        reason = f"needs all values of a component at once for perturb='{plan.parameters['perturb']}'"
    elif plan.select.looks_at_rows:
        reason = "measures what each choice of components would do to all rows"
    if reason:
        raise ParameterError(f"engine: '{engine}' cannot run {plan.method}: it {reason}", "use engine='memory'")
    if plan.given_draws and perturb.permutes:
        raise ParameterError(f"permutations: go with engine='memory' only, not '{engine}'", "leave them out")


def perturbed_columns(
    context: RunContext, core: RemoteTable, summary: Moments, places: list[int]
) -> tuple[list[Array], Spectrum]:
    """The perturbed columns of a table, stored where its rows are, and the components behind them.

    `summary` has the moments of public and confidential columns, and `places` are those of the sensitive ones.
    """
    table, rows, _, spectrum = _row_map(context, core, summary, places)
    columns = table.stored(rows, len(core.confidential_names), lambda share: context.progress("storing columns", share))
    return list(columns), spectrum


def _row_map(
    context: RunContext, core: Microdata, summary: Moments, places: list[int]
) -> tuple[RemoteTable, RowMap, int | None, Spectrum]:
    """The table to read, what makes perturbed columns of its rows, how many columns that reads, and the components."""
    task, spectrum, _ = prepared(context, core, summary, places)
    if task.axes.noise is not None:
        raise DataError("scores='exact' needs all rows at once", "use engine='memory', or scores='regression'")
    scores = LazyScores(task)
    context.progress("finding scores", 0.2)
    goal, fix, notes = perturbed(context, task, scores)
    spectrum = replace(spectrum, notes={**spectrum.notes, **notes})
    if context.plan.rounded and task.table.names != core.names:
        raise DataError("public: columns are nearly collinear, and a grid of moments needs them", "use fewer")
    rows = partial(joined, scores.pipeline, *joining(goal, goal.axes.loadings, fix))
    return scores.table, rows, scores.pipeline.reads, spectrum


def run_out_of_core(
    plan: Plan,
    table: RemoteTable,
    profile: Profile,
    streams: Streams,
    *,
    sensitive: Sequence[int] = (),
    known: ColumnRules = NOTHING_KNOWN,
    progress: Progress = lambda *_: None,
) -> RemoteOutcome:
    """Run the pipeline over rows that are elsewhere; the arguments are those of `memory.run`."""
    context = RunContext(plan, streams, progress)
    dependence = dependence_of(plan, table, profile, known)
    places = places_of(sensitive, dependence, (), table.confidential_names)
    core = table.keep(dependence.independent)
    chosen = [*range(table.public), *(table.public + j for j in dependence.independent)]
    summary = profile.moments.select(chosen)
    stored, perturbed_rows, reads, spectrum = _row_map(context, core, summary, places)
    gridded = None
    if plan.rounded:
        gridded = gridding(core, summary, profile.minimum[chosen], profile.maximum[chosen])
        spectrum = spectrum.with_remark(gridded.remark)
    rules = dependence.ordered_rules
    made = {*dependence.independent, *(rule.column for rule in rules)}
    constants = {
        j: float(profile.minimum[table.public + j]) for j in range(len(table.confidential_names)) if j not in made
    }
    released = Released(perturbed_rows, reads, gridded, dependence.independent, rules, constants)
    return RemoteOutcome(stored, released, dependence, spectrum)
