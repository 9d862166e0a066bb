"""centre -> decompose -> perturb -> restore -> join, for columns that vary, have no holes and stand for themselves.

Scores live in one buffer, a row per component, because perturbing and releasing both go column by column; the
release overwrites them piece by piece, so the whole takes the size of the input and little more beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.core.linalg import regression_slopes
from microveil.core.moments import Moments, Pieces, Room, moments
from microveil.core.rng import Stream, Streams
from microveil.core.table import Table
from microveil.core.threads import in_threads, segments
from microveil.decompose import Axes, Centre, fit_centre
from microveil.methods import Plan
from microveil.perturb import Column
from microveil.restore import Correction, correction

Progress = Callable[[str, float], None]

WELL_CONDITIONED = 1e3
"""Condition number up to which one correction of the scores is exact to round-off; above it, another follows."""

CORRECTIONS = 4
"""Corrections at most: each squares the error that the one before left, so more would find nothing to do."""

ATTEMPTS = 20
"""Few rows can fall into an order that leaves no room for exact moments; then they are perturbed anew."""


SMALL = 50_000
"""Cells of a score matrix up to which threads are not worth their start."""

FEW_ROWS = 20
"""Rows so few that a random order may well be the old one, which is then drawn again."""

HIGH_LEVERAGE = 0.9
"""Share of a record's own weight in its fitted value from which on the public columns all but tell its values."""

ALONE = 1 - 1e-9
"""Leverage of a record that the fit must pass through: the only one of its label, in its stratum say."""


@dataclass(frozen=True, repr=False)
class Spectrum:
    """The components of a release: which there were, which were perturbed, and what each column owes to them."""

    columns: tuple[str, ...]
    axes: Axes
    selected: list[int]
    shares: Array
    determined: list[int]
    notes: dict[int, str]
    leverage: int = 0

    @property
    def untouched(self) -> int:
        """How many components came through as they were."""
        return self.axes.count - len(self.selected)


def protected(
    plan: Plan, table: Table, summary: Moments, sensitive: list[int], streams: Streams, stratum: int, progress: Progress
) -> tuple[list[Array], Spectrum]:
    """The released confidential columns, and the components behind them."""
    centre = _refined(table, fit_centre(summary, table.public))
    determined = centre.determined(summary)
    _check_sensitive(table, sensitive, determined)
    axes = _axes(plan, table, centre, determined, streams.stream("decompose", stratum))
    shares = axes.variance_shares(summary.variance[table.public :])
    selected = plan.select.choose(shares, sensitive)
    plan.perturb.check(table.count, len(selected))
    _check_room(plan, table, axes, selected)

    leverage = _leverage(table, centre, summary)

    progress("finding scores", 0.2)
    buffer = np.empty((centre.slopes.shape[1], table.count))
    scores = _scores(table, centre, axes, buffer)
    target = _score_moments(table, centre, scores) if plan.exact else None
    for attempt in range(ATTEMPTS):
        if attempt:
            scores = _scores(table, centre, axes, buffer)
        before = scores.copy() if table.count <= FEW_ROWS else None
        notes = _perturb(plan, table, scores, selected, streams, (stratum, attempt), progress)
        if before is not None and np.array_equal(before, scores) and attempt < ATTEMPTS - 1:
            continue
        fix = None if target is None else _exact(table, centre, scores, selected, target, progress)
        if fix is None or np.isfinite(fix.condition):
            break
    else:
        raise DataError(
            "exact moments cannot be reached: the perturbed components are collinear", "use exact=False or more rows"
        )
    progress("writing columns", 0.85)
    _join(table, centre, axes, buffer, fix)
    return list(buffer), Spectrum(table.confidential_names, axes, selected, shares, determined, notes, leverage)


def _check_sensitive(table: Table, sensitive: list[int], determined: list[int]) -> None:
    for j in sensitive:
        if j in determined:
            raise DataError(
                f"sensitive: the public columns determine '{table.confidential_names[j]}'", "make fewer columns public"
            )


def _check_room(plan: Plan, table: Table, axes: Axes, selected: list[int]) -> None:
    """Exact moments tie the perturbed scores to all that stays; what is left must be more than a change of sign."""
    untouched = axes.count - len(selected)
    if plan.exact and table.count - 1 - table.public - untouched < max(len(selected), 2):
        raise DataError(
            f"exact moments of {table.count} rows with {untouched} components untouched leave no other table than this",
            "perturb all components, use exact=False, or more rows",
        )


def _axes(plan: Plan, table: Table, centre: Centre, determined: list[int], stream: Stream) -> Axes:
    """The axes of the residuals; columns that the public ones determine have no part in any."""
    width = centre.slopes.shape[1]
    free = [j for j in range(width) if j not in set(determined)]
    if not free:
        raise DataError(
            "public: these columns determine every confidential one, so nothing can be hidden",
            "make fewer columns public",
        )

    def sample(most: int) -> Array:
        rows = np.arange(table.count)
        if table.count > most:
            rows = np.unique(stream.child("sample").integers(table.count, most))
        part = table.take(rows)
        room = np.empty((centre.shift.size, rows.size))
        return _centre_off(part, centre, slice(0, rows.size), room)[free].T

    return _widened(plan.decompose.fit(centre.centred.select(free), sample, stream), free, width)


def _leverage(table: Table, centre: Centre, summary: Moments) -> int:
    """How many records are so far out in the public columns that the fit follows them."""
    public = table.public
    if public == 0:
        return 0
    inverse = regression_slopes(summary.comoment[:public, :public], np.eye(public))
    shift, offset = centre.shift[:public, None], centre.offset[:public, None]
    high = alone = 0
    for piece in (piece for pieces in segments(table.count, public) for piece in pieces):
        x = table.pieces(piece)[:public] - shift - offset
        weight = 1.0 if table.weights is None else table.weights[piece]
        leverage = weight * (1 / summary.weight + (x * (inverse @ x)).sum(axis=0))
        high += int(np.count_nonzero(leverage > HIGH_LEVERAGE))
        alone += int(np.count_nonzero(leverage > ALONE))
    if alone:
        raise DataError(
            f"public: {alone} records are alone in what the public columns say, and would be released as they are",
            "group rare values, or make fewer columns public",
        )
    return high


def _refined(table: Table, centre: Centre) -> Centre:
    """The centre with its residuals measured on the rows: from moments alone, a good fit leaves them few digits."""
    if table.public == 0:
        return centre
    width = centre.shift.size

    def pieces(piece: slice) -> Array:
        room = np.empty((width, piece.stop - piece.start))
        _centre_off(table, centre, piece, room)
        return room

    return centre.refined(moments(pieces, table.count, weights=table.weights))


def _centre_off(table: Table, centre: Centre, piece: slice, room: Array) -> Array:
    """The piece with its means and, from the confidential columns, the fit taken off; the residuals are returned.

    The fit is taken off before anything else is done: in one product with the projection, the round-off of a
    column that the public ones nearly determine would spread over all components.
    """
    np.subtract(table.pieces(piece), centre.shift[:, None], out=room)
    room -= centre.offset[:, None]
    residuals = room[table.public :]
    if table.public:
        residuals -= centre.slopes.T @ room[: table.public]
    return residuals


def _widened(axes: Axes, columns: list[int], width: int) -> Axes:
    """Axes found on some columns, for all of them: the others have no part in any component."""
    if len(columns) == width:
        return axes
    projection, loadings, weights = (
        np.zeros((width, axes.count)),
        np.zeros((axes.count, width)),
        np.zeros((width, axes.count)),
    )
    projection[columns], loadings[:, columns], weights[columns] = axes.projection, axes.loadings, axes.weights
    return replace(axes, projection=projection, loadings=loadings, weights=weights)


def _scores(table: Table, centre: Centre, axes: Axes, buffer: Array) -> Array:
    """(y - fitted) @ projection, into the first rows of the buffer."""
    across = np.ascontiguousarray(axes.projection.T)
    scores = buffer[: axes.count]

    def fill(pieces: list[slice]) -> None:
        room = Room(centre.shift.size, pieces)
        for piece in pieces:
            np.matmul(across, _centre_off(table, centre, piece, room.of(piece)), out=scores[:, piece])

    in_threads([partial(fill, pieces) for pieces in segments(table.count, centre.shift.size)])
    return scores


def _score_moments(table: Table, centre: Centre, scores: Array) -> Moments:
    """Moments of public columns and scores: measured, as eigenvalues are blurred where variances differ much."""
    return moments(_with_public(table, centre, scores), table.count, weights=table.weights)


def _perturb(
    plan: Plan,
    table: Table,
    scores: Array,
    selected: list[int],
    streams: Streams,
    address: tuple[int, int],
    progress: Progress,
) -> dict[int, str]:
    """Each chosen component through the perturbation, with a random stream of its own."""

    def one(position: int, component: int) -> list[str]:
        stream = streams.stream("perturb", *address, component)
        column = Column(scores[component], stream, position, table.weights)
        scores[component] = plan.perturb.apply(column)
        return column.notes

    notes = in_threads(
        [partial(one, *place) for place in enumerate(selected)],
        lambda done: progress("perturbing components", 0.3 + 0.4 * done / len(selected)),
        small=scores.size <= SMALL,
    )
    return {component: "; ".join(said) for component, said in zip(selected, notes, strict=True) if said}


def _exact(
    table: Table, centre: Centre, scores: Array, selected: list[int], target: Moments, progress: Progress
) -> Correction:
    """The correction that gives the scores back their moments; all but the last are applied at once."""
    progress("restoring moments", 0.75)
    for _ in range(CORRECTIONS):
        fix = correction(_score_moments(table, centre, scores), target, table.public, selected)
        if not WELL_CONDITIONED < fix.condition < np.inf:
            break
        _map_rows(_with_public(table, centre, scores), scores, fix.matrix, fix.constant)
    return fix


def _with_public(table: Table, centre: Centre, scores: Array) -> Pieces:
    """Pieces of centred public columns and scores, one above the other."""
    public = table.public
    if public == 0:
        return lambda piece: scores[:, piece]
    shift, offset = centre.shift[:public, None], centre.offset[:public, None]
    return lambda piece: np.vstack([table.pieces(piece)[:public] - shift - offset, scores[:, piece]])


def _join(table: Table, centre: Centre, axes: Axes, buffer: Array, fix: Correction | None) -> None:
    """The identity data = centre + scores @ loadings, over the scores in the buffer."""
    public = table.public
    matrix = np.vstack([np.zeros((public, axes.count)), np.eye(axes.count)]) if fix is None else fix.matrix
    onto_data = matrix @ axes.loadings
    onto_data[:public] += centre.slopes
    constant = centre.offset[public:] if fix is None else centre.offset[public:] + fix.constant @ axes.loadings
    pieces = _with_public(table, centre, buffer[: axes.count])
    _map_rows(pieces, buffer, onto_data, constant, centre.shift[public:])


def _map_rows(pieces_of: Pieces, target: Array, matrix: Array, constant: Array, shift: Array | None = None) -> None:
    """Every row through `shift + (row @ matrix + constant)`, into the target, which the pieces may be read from.

    The shift is added last, so that its round-off falls on each cell by chance instead of on all of them alike.
    """
    across = np.ascontiguousarray(matrix.T)

    def fill(pieces: list[slice]) -> None:
        room = Room(constant.size, pieces)
        for piece in pieces:
            mapped = np.matmul(across, pieces_of(piece), out=room.of(piece))
            mapped += constant[:, None]
            target[:, piece] = mapped if shift is None else np.add(mapped, shift[:, None], out=mapped)

    in_threads([partial(fill, pieces) for pieces in segments(target.shape[1], target.shape[0])])
