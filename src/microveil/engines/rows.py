"""Rows in a pipeline: the centre is taken off, they are turned into scores and joined again, piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from microveil.core.arrays import Array
from microveil.core.linalg import rank_of, sorted_eigen, triangular_root
from microveil.core.moments import Moments, Pieces, moments
from microveil.core.rng import Stream, Streams
from microveil.core.table import Matrix, Microdata
from microveil.core.threads import for_each_piece
from microveil.core.tolerances import FINE_ROUND_OFF
from microveil.decompose import Axes, Centre, standard_axes
from microveil.methods import Plan
from microveil.restore import Correction

COLLINEAR = 1e-6
"""Smallest over largest eigenvalue of the public columns' correlations, below which moments blur the fit on them."""

MENDINGS = 3
"""Each squares the error that the one before has left."""


@dataclass(frozen=True, repr=False)
class ColumnTask:
    """Columns in a pipeline: what is taken off them, the components of what is left, and which of these to perturb."""

    table: Microdata
    centre: Centre
    axes: Axes
    selected: list[int]

    @property
    def width(self) -> int:
        """The number of confidential columns."""
        return int(self.centre.slopes.shape[1])

    def on_principal_components(self) -> ColumnTask:
        """The same with the principal components of the columns for axes, all of them perturbed."""
        free = self.axes.columns.tolist()
        axes = widened(standard_axes(self.centre.centred.select(free)), free, self.width)
        return replace(self, axes=axes, selected=list(range(axes.count)))


@dataclass(frozen=True, repr=False)
class Source:
    """Where scores come from: columns, what is taken off them, and the projection of what is left."""

    table: Microdata
    centre: Centre
    projection: Array


def spread_out(table: Microdata, summary: Moments) -> tuple[Microdata, Moments]:
    """The table with public columns that are far from collinear, and its moments.

    Where they are nearly collinear, uncorrelated scores that span the same take their place: nothing else matters to a
    regression. Columns that are constant, in a stratum say, or follow from others are gone then, and tie nothing down.
    """
    varying = np.flatnonzero(summary.sd[: table.public] > 0).tolist()
    if not varying:
        return table, summary
    known = summary.select(varying)
    values, vectors = sorted_eigen(known.covariance / np.outer(known.sd, known.sd))
    if len(varying) == table.public and values[-1] > COLLINEAR * values[0]:
        return table, summary
    rank = rank_of(values)
    scores, columns = np.empty((rank, table.count)), table.values.select(varying)

    def off_centre(piece: slice) -> Array:
        room = columns.less(piece, known.shift, np.empty((len(varying), piece.stop - piece.start)))
        room -= known.offset[:, None]
        return room

    projection = vectors[:, :rank] / np.sqrt(values[:rank]) / known.sd[:, None]
    map_rows(off_centre, scores, projection, np.zeros(rank))
    made_uncorrelated(scores, table.weights)
    names = (*(f"score {number}" for number in range(rank)), *table.confidential_names)
    spread = replace(table, values=Matrix([*scores, *table.confidential.columns]), names=names, public=rank)
    return spread, moments(spread.pieces, spread.count, weights=spread.weights)


def made_uncorrelated(scores: Array, weights: Array | None) -> Array:
    """Make scores that are nearly uncorrelated at unit variance so to the last digit, in place.

    From moments alone they are so up to the squared condition of the columns only. What is returned turns their
    loadings into those of the new scores.
    """
    turn_loadings = np.eye(scores.shape[0])
    for _ in range(MENDINGS):
        root = triangular_root(moments(rows_of(scores), scores.shape[1], weights=weights).covariance)
        if np.abs(root - np.eye(root.shape[0])).max() <= FINE_ROUND_OFF:
            break
        back = np.asarray(np.linalg.inv(root), dtype=np.float64)
        map_rows(rows_of(scores), scores, back, np.zeros(root.shape[0]))
        turn_loadings = root @ turn_loadings
    return turn_loadings


def refined(table: Microdata, centre: Centre, summary: Moments) -> Centre:
    """The centre with its residuals measured on the rows: from moments alone, a good fit leaves them few digits."""
    if centre.is_sharp(summary):
        return centre
    return centre.refined(table.measure(partial(centred, centre)))


def centred(centre: Centre, cells: Array, rows: slice) -> Array:  # noqa: ARG001 - a row map hears of its rows
    """Rows with the centre taken off: public columns without their means, and residuals."""
    room = cells - centre.shift[:, None]
    _less_fit(centre, room)
    return room


def centre_off(table: Microdata, centre: Centre, piece: slice, room: Array) -> Array:
    """The piece with its means and, from the confidential columns, the fit taken off; the residuals are returned."""
    return _less_fit(centre, table.values.less(piece, centre.shift, room))


def _less_fit(centre: Centre, room: Array) -> Array:
    """Take what is left of the means and the fit off; the residuals are returned.

    The fit is taken off before anything else is done: in one product with the projection, the round-off of a
    column that the public ones nearly determine would spread over all components.
    """
    room -= centre.offset[:, None]
    residuals = room[centre.public :]
    if centre.public:
        residuals -= centre.slopes.T @ room[: centre.public]
    return residuals


def widened(axes: Axes, columns: list[int], width: int) -> Axes:
    """Axes found on some columns, for all of them: the others have no part in any component."""
    if len(columns) == width:
        return axes
    projection, loadings, weights = (
        np.zeros((width, axes.count)),
        np.zeros((axes.count, width)),
        np.zeros((width, axes.count)),
    )
    projection[columns], loadings[:, columns], weights[columns] = axes.projection, axes.loadings, axes.weights
    rest_of = tuple(columns[j] for j in axes.rest_of)
    return replace(axes, projection=projection, loadings=loadings, weights=weights, rest_of=rest_of)


def scores_of(source: Source, buffer: Array) -> Array:
    """(y - fitted) @ projection, into the first rows of the buffer."""
    table, centre = source.table, source.centre
    across = np.ascontiguousarray(source.projection.T)
    scores = buffer[: across.shape[0]]

    def project(piece: slice, room: Array) -> None:
        np.matmul(across, centre_off(table, centre, piece, room), out=scores[:, piece])

    for_each_piece(project, table.count, centre.shift.size)
    return scores


def score_moments(task: ColumnTask, scores: Array) -> Moments:
    """Moments of public columns and scores: measured, as eigenvalues are blurred where variances differ much."""
    return moments(with_public(task, scores), task.table.count, weights=task.table.weights)


def rows_of(scores: Array) -> Pieces:
    """Pieces of the scores alone."""
    return lambda piece: scores[:, piece]


def with_public(task: ColumnTask, scores: Array) -> Pieces:
    """Pieces of centred public columns and scores, one above the other."""
    table, public = task.table, task.table.public
    if public == 0:
        return rows_of(scores)
    shift, offset = task.centre.shift[:public], task.centre.offset[:public, None]
    regressors = table.regressors

    def pieces(piece: slice) -> Array:
        both = np.empty((public + scores.shape[0], piece.stop - piece.start))
        regressors.less(piece, shift, both[:public])
        both[:public] -= offset
        both[public:] = scores[:, piece]
        return both

    return pieces


def join_rows(task: ColumnTask, buffer: Array, loadings: Array, fix: Correction | None) -> None:
    """The identity data = centre + scores @ loadings, over the scores in the first rows of the buffer."""
    onto_data, constant, shift = joining(task, loadings, fix)
    pieces = with_public(task, buffer[: loadings.shape[0]])
    map_rows(pieces, buffer[: task.width], onto_data, constant, shift)


def joining(task: ColumnTask, loadings: Array, fix: Correction | None) -> tuple[Array, Array, Array]:
    """The matrix from public columns and scores to data, a constant, and the shift that is added last."""
    public, centre, count = task.table.public, task.centre, loadings.shape[0]
    matrix = np.vstack([np.zeros((public, count)), np.eye(count)]) if fix is None else fix.matrix
    onto_data = matrix @ loadings
    onto_data[:public] += centre.slopes
    constant = centre.offset[public:] if fix is None else centre.offset[public:] + fix.constant @ loadings
    return onto_data, constant, centre.shift[public:]


def map_rows(pieces_of: Pieces, target: Array, matrix: Array, constant: Array, shift: Array | None = None) -> None:
    """Every row through `shift + (row @ matrix + constant)`, into the target, which the pieces may be read from.

    The shift is added last, so that its round-off falls on each cell by chance instead of on all of them alike.
    """
    across = np.ascontiguousarray(matrix.T)

    def fill(piece: slice, room: Array) -> None:
        mapped = np.matmul(across, pieces_of(piece), out=room)
        mapped += constant[:, None]
        target[:, piece] = mapped if shift is None else np.add(mapped, shift[:, None], out=mapped)

    for_each_piece(fill, target.shape[1], target.shape[0])


Progress = Callable[[str, float], None]
"""Hears the name of the step at hand and the share of the work that is done."""


@dataclass(frozen=True, repr=False)
class RunContext:
    """A run of a method over a table, or over one stratum of it."""

    plan: Plan
    streams: Streams
    progress: Progress = lambda *_: None
    stratum: int = 0

    def stream(self, step: str, *address: int) -> Stream:
        """The random stream of a step in this stratum."""
        return self.streams.stream(step, self.stratum, *address)

    def in_stratum(self, stratum: int) -> RunContext:
        """The same for one stratum of several, which tells nobody of its progress."""
        return replace(self, stratum=stratum, progress=lambda *_: None)
