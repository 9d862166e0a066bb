"""Rows in a pipeline: the centre is taken off, they are turned into scores and joined again, piece by piece.

And what is refused before any row is touched: tables in which nothing could be hidden.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError, ParameterError
from microveil.core.linalg import leverage, rank_of, regression_slopes, sorted_eigen, triangular_root
from microveil.core.moments import Moments, Pieces, is_wide, moments
from microveil.core.rng import Stream, Streams
from microveil.core.table import Matrix, Microdata
from microveil.core.threads import for_each_piece
from microveil.core.tolerances import FINE_ROUND_OFF
from microveil.decompose import Axes, Centre, standard_axes
from microveil.methods import Plan
from microveil.restore import Correction, correction, on_grid

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


Source = tuple[Microdata, Centre, Array]
"""Where scores come from: columns, what is taken off them, and the projection of what is left."""


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
    table, centre, projection = source
    across = np.ascontiguousarray(projection.T)
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


HIGH_LEVERAGE = 0.5
"""Share of a record's own weight in its fitted value from which on the public columns all but tell its values."""

ALONE = 1 - 1e-9
"""Leverage of a record that the fit must pass through: the only one of its label, in its stratum say."""


MOST_WITH_HOLES = 2_000
"""Columns of a wide table with missing cells, at most: every pair of columns has rows of its own then."""


def check_holes(table: Microdata) -> None:
    """Refuse tables with missing cells that are too wide for matrices of all pairs of columns."""
    count, width = table.count, len(table.names)
    if is_wide(count, width) and width > MOST_WITH_HOLES:
        raise DataError(
            f"cells are missing, and there are {count} rows of {width} columns: with fewer rows than columns, at most "
            f"{MOST_WITH_HOLES} columns may have missing cells among them",
            "fill the missing cells first, or protect some columns at a time",
        )


def has_own_moments(task: ColumnTask) -> bool:
    """Are the scores as free as their number says?

    If there are more scores than dimensions, those that stay determine all the others, and exact moments of the scores
    would bring every one of them back. It is then the joined data that get their moments back.
    """
    noise = 0 if task.axes.noise is None else task.axes.noise.shape[0]
    return task.axes.count <= task.axes.columns.size + noise


def check_determined(table: Microdata, determined: list[int], sensitive: list[int]) -> None:
    """A column that the public ones leave nothing of would be released as it is, be it sensitive or not."""
    for j in sensitive:
        if j in determined:
            problem = f"sensitive: the public columns determine '{table.confidential_names[j]}'"
            raise DataError(problem, "make fewer columns public")
    if determined:
        names = ", ".join(f"'{table.confidential_names[j]}'" for j in determined)
        raise DataError(
            f"public: these columns determine {names}, so nothing of it would be replaced",
            "make fewer columns public, or leave it out of confidential",
        )


def check_noise(task: ColumnTask) -> None:
    """Noise that is uncorrelated with the data needs rows enough to be so."""
    table, noise = task.table, task.axes.noise
    columns = task.axes.columns.size
    if noise is not None and table.count - 1 - table.public - columns < noise.shape[0]:
        raise DataError(
            f"exact scores of {noise.shape[0]} factors of {columns} columns need more than {table.count} rows",
            "use scores='regression', or more rows",
        )


def check_room(plan: Plan, task: ColumnTask) -> None:
    """Exact moments tie the perturbed scores to all that stays; what is left must be more than a change of sign."""
    table, untouched = task.table, task.axes.count - len(task.selected)
    if plan.exact and table.count - 1 - table.public - untouched < max(len(task.selected), 2):
        raise DataError(
            f"exact moments of {table.count} rows with {untouched} components untouched leave no other table than this",
            "perturb all components, use exact=False, or more rows",
        )


def high_leverage(table: Microdata, centre: Centre, summary: Moments) -> int:
    """How many records are so far out in the public columns that the fit follows them."""
    public = table.public
    if public == 0:
        return 0
    inverse = regression_slopes(summary.between(slice(0, public), slice(0, public)), np.eye(public))
    shift, offset = centre.shift[:public, None], centre.offset[:public, None]

    def standing_out(cells: Array, rows: slice) -> Array:
        x = cells - shift - offset
        weight = 1.0 if table.weights is None else table.weights[rows]
        own = leverage((x * (inverse @ x)).sum(axis=0), weight, summary.weight)
        return np.array([np.count_nonzero(own > HIGH_LEVERAGE), np.count_nonzero(own > ALONE)])

    high, alone = table.total(standing_out, range(public)).tolist()
    if alone:
        raise DataError(
            f"public: {alone} records are alone in what the public columns say, and would be released as they are",
            "group rare values, or make fewer columns public",
        )
    return int(high)


@dataclass(frozen=True, repr=False)
class Gridding:
    """The map of confidential columns, with public ones before them: `mean + constant + (cells - means) @ matrix`."""

    means: Array
    matrix: Array
    constant: Array
    public: int
    remark: str

    def of_columns(self, table: Microdata, columns: list[Array]) -> list[Array]:
        """Columns that are held."""
        public, released = table.regressors, Matrix(columns)
        new = np.empty((len(columns), table.count))

        def fill(piece: slice, room: Array) -> None:  # noqa: ARG001 - a grid needs no room of its own
            new[:, piece] = self.of_rows(public.piece(piece), released.piece(piece))

        for_each_piece(fill, table.count, len(columns))
        return list(new)

    def of_rows(self, cells: Array, released: Array) -> Array:
        """Some rows: their cells, of which public columns are the first, and the confidential ones to be released."""
        off_centre = np.vstack([cells[: self.public], released]) - self.means[:, None]
        new: Array = np.ascontiguousarray(self.matrix.T) @ off_centre
        new += self.constant[:, None]
        new += self.means[self.public :, None]
        return new


def gridding(table: Microdata, summary: Moments, lowest: Array, highest: Array) -> Gridding:
    """What brings columns with exact moments to the grid; `summary` and the extremes are of the original."""
    if table.weights is not None and not isinstance(table.weights, np.ndarray):
        raise ParameterError("exact: 'rounded' does not go with weights on Spark", "use engine='stream'")
    heaviest = 1.0 if table.weights is None else float(table.weights.max())
    found = on_grid(summary, lowest, highest, table.public, heaviest)
    zero = np.zeros_like(summary.offset)
    now = replace(summary, shift=zero, offset=zero)
    goal = replace(found.moments, shift=zero, offset=found.moments.mean - summary.mean)
    fix = correction(now, goal, table.public, list(range(zero.size - table.public)))
    if not np.isfinite(fix.condition):
        raise DataError("exact: the columns are collinear, and their moments cannot be rounded", "use exact=False")
    remark = ""
    if found.left < 1:
        remark = f"rounded correlations do not fit together: {1 - found.left:.0%} were taken off all of them"
    return Gridding(summary.mean, fix.matrix, fix.constant, table.public, remark)
