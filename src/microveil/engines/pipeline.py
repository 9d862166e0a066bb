"""centre -> decompose -> perturb -> restore -> join, for columns that vary, have no holes and stand for themselves.

Every engine runs these steps: what is done to rows is up to the table (`measure`, `total`) and to the scores
(`engines.scores`), which know where the rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.core.keys import Codes
from microveil.core.linalg import inverse_square_root, rank_of, regression_slopes, sorted_eigen
from microveil.core.moments import Moments, moments
from microveil.core.rng import Stream
from microveil.core.table import Matrix, Microdata
from microveil.core.threads import for_each_piece, in_threads
from microveil.decompose import Axes, Centre, Offer, fit_centre
from microveil.engines.rows import (
    ColumnTask,
    RunContext,
    Source,
    centre_off,
    centred,
    check_determined,
    check_noise,
    check_room,
    has_own_moments,
    high_leverage,
    refined,
    spread_out,
)
from microveil.engines.scores import HeldScores, RebuildMap, Scores, blended, other_scores
from microveil.measures.risk.closest import expected_near_returns
from microveil.methods import Plan
from microveil.perturb import (
    CarryingPerturbation,
    Column,
    ColumnPerturbation,
    JointPerturbation,
    Labels,
    Mixture,
    Normal,
    OtherScores,
)
from microveil.restore import Correction, correction

PutBack = Callable[[list[Array]], Matrix]

WELL_CONDITIONED = 1e3
"""Condition number up to which one correction of the scores is exact to round-off; above it, another follows."""

CORRECTIONS = 4
"""Corrections at most: each squares the error that the one before left, so more would find nothing to do."""

ATTEMPTS = 20
"""Few rows can fall into an order that leaves no room for exact moments; then they are perturbed anew."""

FEW_ROWS = 20
"""Rows so few that a random order may well be the old one, which is then drawn again."""


FEW_RECORDS, FEW_OF_FEW = 1 / 16, 9.0
"""Share of fourth powers from which on few records dominate a component: that of one with a quarter of its variance;
in small files three times what normal scores have."""

DOMINATED = "a few records have most of its variance: drawn anew, as carried to others they would be found there"


MOST_MOVED = 10_000
"""Records, evenly spaced, on which it is looked at how far exact moments move one."""

NEAR = 0.1
"""Half-width, in standard deviations of a component, of the box in which a released record is a near-return."""


@dataclass(frozen=True, repr=False)
class Spectrum:
    """The components of a release: which there were, which were perturbed, and what each column owes to them."""

    columns: tuple[str, ...]
    axes: Axes
    selected: list[int]
    shares: Array
    notes: dict[int, str]
    leverage: int = 0
    near_returns: float | None = None
    left_near: float | None = None
    """Where it is looked at: the share of records that exact moments leave near where they would be without them."""

    retained: Array | None = None
    """Where it is known: the correlation that the perturbed part of each column keeps with the original one."""

    found: Mapping[str, float] = field(default_factory=dict)
    """Figures that the method had to find, by name."""

    clusters: NDArray[np.intp] | None = None
    """The cluster of each record, where the method has any."""

    pieces: NDArray[np.intp] | None = None
    """The piece of a cluster that each record is in, which keeps its means; the clusters, where they have no pieces."""

    masked_labels: Codes | None = None
    """Labels that were masked together with the components, records x columns, -1 where a cell is missing."""

    def with_remark(self, more: str) -> Spectrum:
        """The same, with more to say of the axes."""
        remark = "; ".join(text for text in (self.axes.remark, more) if text)
        return replace(self, axes=replace(self.axes, remark=remark))

    @property
    def untouched(self) -> int:
        """How many components came through as they were."""
        return self.axes.count - len(self.selected)

    @property
    def names(self) -> tuple[str, ...]:
        """What to call the components, where some are the rest of a column; else none has a name."""
        if not self.axes.rest_of:
            return ()
        factors = (f"factor {number}" for number in range(1, self.axes.shared + 1))
        return (*factors, *(f"rest of {self.columns[j]}" for j in self.axes.rest_of))

    @property
    def unmoved(self) -> int:
        """How many combinations of the columns came through exactly, because nothing of them was perturbed."""
        moved = self.axes.weights[:, self.selected]
        return self.axes.columns.size - rank_of(sorted_eigen(moved @ moved.T)[0])


def joined_spectrum(parts: Sequence[Spectrum], sizes: Sequence[int]) -> Spectrum:
    """Of several strata, the components of the largest, with figures and remarks of the worst of all."""
    largest = parts[int(np.argmax(sizes))]
    if not largest.found:
        return largest
    worst = min(parts, key=lambda part: part.found.get("alpha", 1.0))
    found = {name: min(part.found[name] for part in parts) for name in largest.found}
    for name in ("clusters", "suppressed"):
        if name in found:
            found[name] = sum(part.found[name] for part in parts)
    if "suppressed" in found:
        remark = f"{found['suppressed']:.0f} cells are left out in all; keys are shared within each stratum"
        return replace(largest, found=found, axes=replace(largest.axes, remark=remark))
    remark = worst.axes.remark and f"in a stratum, the worst of all: {worst.axes.remark}"
    return replace(largest, found=found, axes=replace(largest.axes, remark=remark))


NO_COMPONENTS = Spectrum(
    (), Axes(np.empty((0, 0)), np.empty((0, 0)), np.empty(0), np.empty((0, 0))), [], np.empty((0, 0)), {}
)
"""Where no column of numbers varies."""


def protected(
    context: RunContext,
    table: Microdata,
    summary: Moments,
    sensitive: list[int],
    rebuilt_later: Callable[[], RebuildMap],
    put_back: PutBack,
) -> tuple[list[Array], Spectrum]:
    """The released confidential columns, and the components behind them.

    `summary` has the moments of public and confidential columns, `sensitive` counts the confidential ones.
    `rebuilt_later` says how the columns that are set aside follow from these, and `put_back` makes them.
    """
    plan = context.plan
    task, spectrum, stream = prepared(context, table, summary, sensitive, put_back)
    if isinstance(plan.perturb, Mixture):
        context.progress("mixing scores", 0.3)
        columns, retained, mixed = blended(context, plan.perturb, task, rebuilt_later())
        return columns, replace(spectrum.with_remark(mixed.remark), retained=retained, found=mixed.found)
    context.progress("finding scores", 0.2)
    scores = HeldScores(task, _source(task, stream))
    near_returns = _near_returns(plan, task, scores.values)
    some = None if near_returns is None else scores.values[:, :: -(-table.count // MOST_MOVED)].T.copy()
    goal, fix, notes = perturbed(context, task, scores)
    context.progress("writing columns", 0.85)
    columns = scores.joined(goal, fix)
    left_near = None if some is None or table.public else _left_near(task, goal, fix, some)
    found = replace(spectrum, notes={**spectrum.notes, **notes}, near_returns=near_returns, left_near=left_near)
    return columns, replace(found, masked_labels=scores.masked_labels)


def prepared(
    context: RunContext, table: Microdata, summary: Moments, sensitive: list[int], put_back: PutBack = Matrix
) -> tuple[ColumnTask, Spectrum, Stream]:
    """What is to be done to which components, with everything checked that can be before a row is touched.

    The arguments are those of `protected`; the stream is the one that the components were found with.
    """
    plan = context.plan
    if not plan.perturb.regresses_itself:
        table, summary = spread_out(table, summary)
    centre = refined(table, fit_centre(summary, table.public), summary)
    determined = centre.determined(summary)
    check_determined(table, determined, sensitive)
    stream = context.stream("decompose")
    found = _axes(plan, table, centre, stream)
    axes = plan.select.turned(found, sensitive, centre.centred)
    shares = axes.variance_shares(summary.variance[table.public :])
    offer = _offer(table, centre, axes, shares, sensitive, put_back)
    selected = [k for k in plan.select.choose(offer) if k not in axes.reserved]
    if isinstance(plan.perturb, Mixture):
        selected = plan.perturb.touched(axes.count)
    plan.perturb.check(table.count, len(selected))
    task = ColumnTask(table, centre, axes, selected)
    check_noise(task)
    check_room(plan, task if has_own_moments(task) else task.on_principal_components())
    leverage = high_leverage(table, centre, summary)
    if not plan.decompose.centres and (plan.perturb.regresses_itself or (not plan.exact and table.public == 0)):
        # Values that only change places come back to the last digit.
        task = replace(task, centre=centre.nothing())
    spectrum = Spectrum(table.confidential_names, axes, selected, shares, offer.notes, leverage)
    for remark in offer.remarks:
        spectrum = spectrum.with_remark(remark)
    return task, spectrum, stream


def perturbed(
    context: RunContext, task: ColumnTask, scores: Scores
) -> tuple[ColumnTask, Correction | None, dict[int, str]]:
    """Perturb the scores, and give them back their moments but for the last correction.

    What is left to do is to join them on the axes of the goal, through a correction if any; there are notes on some.
    """
    plan = context.plan
    exact = plan.exact or task.axes.sets_moments
    goal = task if not exact or has_own_moments(task) else task.on_principal_components()
    target = _target(goal, scores if goal is task else None) if exact else None
    for attempt in range(ATTEMPTS):
        if attempt:
            scores.restart()
        before = scores.copied() if task.table.count <= FEW_ROWS and task.selected else None
        measured = target if goal is task and not task.axes.sets_moments else None
        if measured is None and plan.perturb.by_rows:
            measured = scores.moments(task)
        notes = _perturb(context, attempt, task, scores, measured)
        after = None if before is None else scores.copied()
        if before is not None and after is not None and np.array_equal(before, after) and attempt < ATTEMPTS - 1:
            continue
        if goal is not task:
            scores.rotate(goal, task.axes.loadings @ goal.axes.projection)
        fix = None if target is None else _exact(context, goal, scores, target)
        if fix is None or np.isfinite(fix.condition):
            return goal, fix, notes
        if not plan.exact:
            return goal, None, notes  # too few rows for the moments that were set, and nobody promised them
    raise DataError(
        "exact moments cannot be reached: the perturbed components are collinear", "use exact=False or more rows"
    )


def _near_returns(plan: Plan, task: ColumnTask, scores: Array) -> float | None:
    """Expected near-returns, where the method's paper asks for leakage, and every component changes places."""
    swapped = plan.perturb.permutes and not plan.maps_values and len(task.selected) == task.axes.count
    if not (plan.decompose.reports_near_returns and swapped):
        return None
    return float(expected_near_returns(scores.T, NEAR).sum())


def _left_near(task: ColumnTask, goal: ColumnTask, fix: Correction | None, scores: Array) -> float:
    """The share of records (scores of some, records x components) whose every component is moved by little only.

    They are moved by the correction, on the axes of the goal: so would be a record whose components came back together.
    """
    if fix is None:
        return 1.0
    turned = scores if goal is task else scores @ task.axes.loadings @ goal.axes.projection
    moved = (fix.constant + turned @ fix.matrix - turned) @ goal.axes.loadings @ task.axes.projection
    return float((np.abs(moved) <= NEAR * scores.std(axis=0)).all(axis=1).mean())


def _offer(
    table: Microdata, centre: Centre, axes: Axes, shares: Array, sensitive: list[int], put_back: PutBack
) -> Offer:
    """What the selection chooses from, and the columns as they are without some components, rebuilt ones among them."""

    def without(components: list[int]) -> Matrix:
        taken_out = np.ascontiguousarray((axes.projection[:, components] @ axes.loadings[components]).T)
        left = np.empty((taken_out.shape[0], table.count))

        def take_out(piece: slice, room: Array) -> None:
            residuals = centre_off(table, centre, piece, room)
            np.subtract(table.pieces(piece)[table.public :], taken_out @ residuals, out=left[:, piece])

        for_each_piece(take_out, table.count, centre.shift.size)
        return put_back(list(left))

    return Offer(axes, shares, table.confidential_names, sensitive, without)


def _axes(plan: Plan, table: Microdata, centre: Centre, stream: Stream) -> Axes:
    """The axes of the residuals."""

    def sample(most: int) -> Array:
        rows = np.arange(table.count)
        if table.count > most:
            rows = np.unique(stream.child("sample").integers(table.count, most))
        part = table.take(rows)
        room = np.empty((centre.shift.size, rows.size))
        return centre_off(part, centre, slice(0, rows.size), room).T

    return plan.decompose.fit(centre.centred, sample, stream)


def _source(task: ColumnTask, stream: Stream) -> Source:
    """Where the scores come from: the columns, and noise with them where the axes need it.

    Noise joins the table as columns of its own, and its moments with the others are measured. To make it uncorrelated
    with the data and itself, at unit variance, is then a matter of small matrices, which go into the projection.
    """
    table, axes = task.table, task.axes
    if axes.noise is None:
        return table, task.centre, axes.projection
    extra, free = axes.noise.shape[0], axes.columns
    noise = in_threads([partial(stream.child(f"noise {j}").normal, table.count) for j in range(extra)])
    columns = Matrix([*table.values.columns, *noise])
    wide = replace(table, values=columns, names=(*table.names, *("noise" for _ in noise)))
    summary = moments(wide.pieces, wide.count, weights=wide.weights)
    centre = refined(wide, fit_centre(summary, wide.public), summary)
    covariance = centre.centred.covariance
    own = np.arange(task.width, task.width + extra)
    shared = covariance[np.ix_(free, own)]
    slopes = regression_slopes(covariance[np.ix_(free, free)], shared)
    whitening, _ = inverse_square_root(covariance[np.ix_(own, own)] - shared.T @ slopes)
    entering = whitening @ axes.noise
    projection = np.vstack([axes.projection, entering])
    projection[free] -= slopes @ entering
    return wide, centre, projection


def _target(goal: ColumnTask, scores: Scores | None) -> Moments:
    """The moments to give back, of public columns and scores; the scores are found here where they are not given."""
    if scores is not None:
        measured = scores.moments(goal)
        return _as_set(goal, measured) if goal.axes.sets_moments else measured
    public, across = goal.table.public, goal.axes.projection.T

    def beside_public(cells: Array, rows: slice) -> Array:
        off_centre = centred(goal.centre, cells, rows)
        return np.vstack([off_centre[:public], across @ off_centre[public:]])

    return goal.table.measure(beside_public)


def _as_set(goal: ColumnTask, measured: Moments) -> Moments:
    """Moments of scores that are uncorrelated with each other and with public columns, whatever they were before."""
    public, scores = goal.table.public, slice(goal.table.public, None)
    comoment = measured.comoment.copy()
    comoment[scores], comoment[:, scores] = 0.0, 0.0
    comoment[scores, scores] = np.diag(goal.axes.variance) * measured.weight
    offset = np.concatenate([measured.mean[:public], np.zeros(goal.axes.count)])
    return Moments(measured.weight, np.zeros_like(offset), offset, comoment)


def _perturb(
    context: RunContext, attempt: int, task: ColumnTask, scores: Scores, measured: Moments | None
) -> dict[int, str]:
    """The chosen components through the perturbation, together or each with a random stream of its own.

    `measured` has the moments of public columns and scores, where they are known; notes on components are returned.
    """
    plan, perturb, selected = context.plan, context.plan.perturb, task.selected
    if isinstance(perturb, ColumnPerturbation):
        dominated = _dominated(plan, task, scores)
        if dominated and measured is None:
            measured = scores.moments(task)
        components = {k: _component(context, attempt, task, measured, k) for k in selected}
        redrawn = {k: components.pop(k) for k in dominated}
        progress = context.progress
        scores.perturb(perturb, components, lambda share: progress("perturbing components", 0.3 + 0.4 * share))
        scores.perturb(Normal(), redrawn, lambda _: None)
        notes = {k: "; ".join(column.notes) for k, column in components.items() if column.notes}
        return notes | dict.fromkeys(dominated, DOMINATED)
    if not isinstance(scores, HeldScores):
        raise TypeError(f"{type(perturb).__name__} needs all scores at once")
    if isinstance(perturb, OtherScores):
        scores.values[selected] = other_scores(context, task, len(selected))
        return {}
    if not isinstance(perturb, JointPerturbation):
        raise TypeError(f"{type(perturb).__name__} is neither for one column nor for several")
    labels = labels_of(context, task.table) if plan.masks_labels and task.table.labels.names else None
    notes_on_all = scores.perturb_together(perturb, task, context.stream("perturb", attempt), labels)
    return {selected[0]: "; ".join(notes_on_all)} if notes_on_all else {}


def labels_of(context: RunContext, table: Microdata) -> Labels:
    """The labels of a table, for a perturbation of labels."""
    own = table.labels
    return Labels(own.names, own.with_blanks(), context.stream("labels"), own.levels, own.ranks)


def _dominated(plan: Plan, task: ColumnTask, scores: Scores) -> list[int]:
    """Components that are drawn anew instead, because a few records have most of their variance.

    Sums of fourth powers over squared sums of squares are 1 over the number of records, were these all that is not 0.
    """
    carries = isinstance(plan.perturb, CarryingPerturbation) and plan.perturb.dominated == "redraw"
    if not carries or not plan.decompose.uncorrelated or "permutations" in plan.given_draws:
        return []
    squares, fourths = scores.powers()
    limit = max(FEW_RECORDS, FEW_OF_FEW / task.table.count)
    share = fourths / np.maximum(np.square(squares), np.finfo(float).tiny)
    return [k for k in task.selected if share[k] > limit]


def _component(context: RunContext, attempt: int, task: ColumnTask, measured: Moments | None, number: int) -> Column:
    """What a perturbation needs to know of the component with this number, but for its values.

    The `attempt` counts from 0, and `measured` has the moments of public columns and scores, where they are known.
    """
    table = task.table
    place = table.public + number
    known = None if measured is None else (float(measured.mean[place]), float(measured.sd[place]))
    stream = context.stream("perturb", attempt, number)
    free = table.count - 1 - table.public
    return Column(np.empty(0), stream, task.selected.index(number), free=free, known=known)


def _exact(context: RunContext, task: ColumnTask, scores: Scores, target: Moments) -> Correction:
    """The correction that gives the scores back their moments; all but the last are applied at once."""
    context.progress("restoring moments", 0.75)
    plan, loadings = context.plan, task.axes.loadings[task.selected]
    # Independent components have no order, but columns have: one is orthogonalised after the other, as in the paper.
    in_columns = plan.decompose.has_no_order and loadings.shape[0] == loadings.shape[1]
    for _ in range(CORRECTIONS):
        now = scores.moments(task)
        fix = correction(now, target, task.table.public, task.selected, plan.root, loadings if in_columns else None)
        if not WELL_CONDITIONED < fix.condition < np.inf:
            break
        scores.correct(task, fix)
    return fix
