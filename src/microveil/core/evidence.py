"""What a release really kept and really changed, measured on the released values themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array, Mask
from microveil.core.moments import Moments, Room, add_up, moments, pair_moments
from microveil.core.table import Matrix, Table, rows_by_group
from microveil.core.threads import segments

SAME = 1e-9
"""Cells that moved by less than this share of the column's standard deviation count as unchanged."""


@dataclass(frozen=True, repr=False)
class Evidence:
    """Errors are in standard deviations: the worst mean, and the worst covariance over sd x sd.

    Covariances with public columns count too; `correlation` (with the original) and `changed` (share of cells) are
    of the confidential columns. `same_records` came back as they were in all of these.
    """

    mean_error: float
    covariance_error: float
    correlation: Array
    changed: Array
    same_records: int


def evidence(original: Table, released: Sequence[Array], present: Mask | None, before: Moments) -> Evidence:
    """Compare released columns with the confidential ones, cell by cell and moment by moment.

    `before` has the moments of the original; where cells are missing (`present`) they are found anew. With strata,
    the moments are those of each stratum, and the errors the worst of all.
    """
    whole = _evidence(original, released, present, before)
    if original.strata is None:
        return whole
    parts = []
    for rows in rows_by_group(original.strata):
        holes = None if present is None else present[rows]
        part = original.take(rows)
        look = moments(part.pieces, part.count, weights=part.weights)
        parts.append(_evidence(part, [column[rows] for column in released], holes, look))
    return replace(
        whole,
        mean_error=max(part.mean_error for part in parts),
        covariance_error=max(part.covariance_error for part in parts),
    )


def _evidence(original: Table, released: Sequence[Array], present: Mask | None, before: Moments) -> Evidence:
    if present is not None:
        return _evidence_with_holes(original, released, present)
    weights, public, width = original.weights, original.public, len(original.names)
    old_table, new_table = original.confidential, Matrix([*original.values.columns[:public], *released])
    shift, tolerance = before.shift, SAME * before.sd[public:, None]

    def sums(pieces: list[slice]) -> tuple[float, Array, Array]:
        # Public columns are the same before and after: only what the others share with them can have changed.
        same, firsts, second = 0, np.zeros((3, width - public)), np.zeros((width - public, width))
        rooms = [Room(rows, pieces) for rows in (width - public, width, width - public)]
        for piece in pieces:
            old = old_table.less(piece, shift[public:], rooms[0].of(piece))
            new = new_table.less(piece, shift, rooms[1].of(piece))
            own = new[public:]
            gap = np.abs(np.subtract(own, old, out=rooms[2].of(piece)), out=rooms[2].of(piece))
            moved = gap > tolerance
            firsts[2] += np.count_nonzero(moved, axis=1)
            same += int(np.count_nonzero(~moved.any(axis=0)))
            weighted = own if weights is None else np.multiply(own, weights[piece], out=rooms[2].of(piece))
            firsts[0] += weighted.sum(axis=1)
            firsts[1] += np.einsum("ij,ij->i", weighted, old)
            second += weighted @ new.T
        return float(same), firsts, second

    same, firsts, second = add_up([partial(sums, pieces) for pieces in segments(original.count, width)])
    offset, earlier = firsts[0] / before.weight, before.offset[public:]
    across = firsts[1] / before.weight - offset * earlier
    after = before.covariance.copy()
    after[public:] = second / before.weight - np.outer(offset, np.concatenate([before.offset[:public], offset]))
    after[:public, public:] = after[public:, :public].T
    changed = firsts[2] / original.count
    return _judged(offset - earlier, before.covariance, after, across, changed, int(same), public)


def _judged(
    mean_gap: Array, before: Array, after: Array, across: Array, changed: Array, same: int, public: int
) -> Evidence:
    """The worst errors; `before` and `after` have public columns first, the others are of confidential ones alone."""
    sd, sd_after = np.sqrt(np.diagonal(before)), np.sqrt(np.clip(np.diagonal(after), 0, None))
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = np.abs(after - before) / np.outer(sd, sd)
        own, own_after = sd[public:], sd_after[public:]
        correlation = np.where(own_after > 0, across / (own * own_after), 0.0)
        mean_error = np.abs(mean_gap) / own
    # Constant columns, and pairs without a common row, have no standard deviation to measure by.
    worst_mean, worst_gap = (float(errors[np.isfinite(errors)].max(initial=0.0)) for errors in (mean_error, gap))
    return Evidence(worst_mean, worst_gap, correlation, changed, same)


def _evidence_with_holes(original: Table, released: Sequence[Array], present: Mask) -> Evidence:
    public, weights = original.public, original.weights
    before, known = original.beside_public(original.confidential.columns, present)
    after, _ = original.beside_public(released, present)
    width = before.shape[1]
    both = pair_moments(np.hstack([before, after]), np.hstack([known, known]), weights=weights)
    old, new = both.covariance[:width, :width], both.covariance[width:, width:]
    moved = np.where(known, np.abs(after - before) > SAME * both.sd[:width], False)
    changed = moved.sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    mean_gap = both.mean[width:] - both.mean[:width]
    across = np.diagonal(both.covariance[:width, width:])
    same = int(np.count_nonzero(present.any(axis=1) & ~moved[:, public:].any(axis=1)))
    return _judged(mean_gap[public:], old, new, across[public:], changed[public:], same, public)


def mean_error_within(groups: NDArray[np.intp], original: Sequence[Array], released: Sequence[Array]) -> float:
    """The largest difference of a group's mean, in standard deviations of the column; all cells must be there."""
    sizes = np.bincount(groups)
    worst = 0.0
    for old, new in zip(original, released, strict=True):
        spread = float(old.std())
        gap = np.abs(np.bincount(groups, weights=new - old) / sizes).max()
        worst = max(worst, float(gap) / spread if spread > 0 else 0.0)
    return worst


def covariance_error_within(groups: NDArray[np.intp], original: Sequence[Array], released: Sequence[Array]) -> float:
    """The largest difference of a covariance inside a group, in standard deviations of the columns over all."""
    spread = np.array([column.std() for column in original])
    spread = np.where(spread > 0, spread, 1.0)
    worst = 0.0
    for rows in rows_by_group(groups):
        old, new = (np.cov(np.array([column[rows] for column in those]), bias=True) for those in (original, released))
        worst = max(worst, float((np.abs(new - old) / np.outer(spread, spread)).max()))
    return worst
