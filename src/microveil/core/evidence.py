"""What a release really kept and really changed, measured on the released values themselves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from microveil.core.moments import Array, Moments, Room, add_up, pair_moments
from microveil.core.table import Matrix, Table
from microveil.core.threads import segments

SAME = 1e-9
"""Cells that moved by less than this share of the column's standard deviation count as unchanged."""


@dataclass(frozen=True)
class Evidence:
    """Errors are in standard deviations: the worst mean, and the worst covariance over sd x sd."""

    mean_error: float
    covariance_error: float
    correlation: Array
    changed: Array


def evidence(original: Table, before: Moments, released: Matrix, present: NDArray[np.bool_] | None) -> Evidence:
    """Compare released columns with the confidential ones, cell by cell and moment by moment.

    `before` has the moments of the confidential columns; with missing cells (`present`) they are found anew.
    """
    if present is not None:
        return _evidence_with_holes(original, released, present)
    columns, weights, width = original.confidential, original.weights, len(original.confidential_names)
    shift, tolerance = before.shift[:, None], SAME * before.sd[:, None]

    def sums(pieces: list[slice]) -> tuple[float, Array, Array]:
        firsts, second = np.zeros((3, width)), np.zeros((width, width))
        rooms = [Room(width, pieces) for _ in range(3)]
        for piece in pieces:
            old = np.subtract(columns.piece(piece), shift, out=rooms[0].of(piece))
            new = np.subtract(released.piece(piece), shift, out=rooms[1].of(piece))
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
    return _judged(offset - before.offset, before.covariance, after, across, firsts[2] / original.count)


def _judged(mean_gap: Array, before: Array, after: Array, across: Array, changed: Array) -> Evidence:
    sd, sd_after = np.sqrt(np.diagonal(before)), np.sqrt(np.clip(np.diagonal(after), 0, None))
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = np.abs(after - before) / np.outer(sd, sd)
        correlation = np.where(sd_after > 0, across / (sd * sd_after), 0.0)
        mean_error = np.abs(mean_gap) / sd
    return Evidence(float(np.nanmax(mean_error)), float(np.nanmax(gap)), correlation, changed)


def _evidence_with_holes(original: Table, released: Matrix, present: NDArray[np.bool_]) -> Evidence:
    before, after = np.column_stack(original.confidential.columns), np.column_stack(released.columns)
    width, weights = before.shape[1], original.weights
    both = pair_moments(np.hstack([before, after]), np.hstack([present, present]), weights=weights)
    old, new = both.covariance[:width, :width], both.covariance[width:, width:]
    moved = np.where(present, np.abs(after - before) > SAME * both.sd[:width], False)
    changed = moved.sum(axis=0) / np.maximum(present.sum(axis=0), 1)
    mean_gap = both.mean[width:] - both.mean[:width]
    return _judged(mean_gap, old, new, np.diagonal(both.covariance[:width, width:]), changed)
