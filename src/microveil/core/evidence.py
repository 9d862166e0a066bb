"""What a release really kept and really changed, measured on the released values themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

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
    of the confidential columns.
    """

    mean_error: float
    covariance_error: float
    correlation: Array
    changed: Array


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
    new_table = Matrix([*original.values.columns[:public], *released])
    shift, tolerance = before.shift[:, None], SAME * before.sd[:, None]

    def sums(pieces: list[slice]) -> tuple[float, Array, Array]:
        firsts, second = np.zeros((3, width)), np.zeros((width, width))
        rooms = [Room(width, pieces) for _ in range(3)]
        for piece in pieces:
            old = np.subtract(original.pieces(piece), shift, out=rooms[0].of(piece))
            new = np.subtract(new_table.piece(piece), shift, out=rooms[1].of(piece))
            gap = np.abs(np.subtract(new, old, out=rooms[2].of(piece)), out=rooms[2].of(piece))
            firsts[2] += np.count_nonzero(gap > tolerance, axis=1)
            weighted = new if weights is None else np.multiply(new, weights[piece], out=rooms[2].of(piece))
            firsts[0] += weighted.sum(axis=1)
            firsts[1] += np.einsum("ij,ij->i", weighted, old)
            second += weighted @ new.T
        return 0.0, firsts, second

    _, firsts, second = add_up([partial(sums, pieces) for pieces in segments(original.count, width)])
    offset = firsts[0] / before.weight
    across = firsts[1] / before.weight - offset * before.offset
    after = second / before.weight - np.outer(offset, offset)
    return _judged(offset - before.offset, before.covariance, after, across, firsts[2] / original.count, public)


def _judged(mean_gap: Array, before: Array, after: Array, across: Array, changed: Array, public: int) -> Evidence:
    sd, sd_after = np.sqrt(np.diagonal(before)), np.sqrt(np.clip(np.diagonal(after), 0, None))
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = np.abs(after - before) / np.outer(sd, sd)
        correlation = np.where(sd_after > 0, across / (sd * sd_after), 0.0)
        mean_error = np.abs(mean_gap) / sd
    # Constant columns, and pairs without a common row, have no standard deviation to measure by.
    worst_mean, worst_gap = (float(errors[np.isfinite(errors)].max(initial=0.0)) for errors in (mean_error, gap))
    return Evidence(worst_mean, worst_gap, correlation[public:], changed[public:])


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
    return _judged(mean_gap, old, new, np.diagonal(both.covariance[:width, width:]), changed, public)
