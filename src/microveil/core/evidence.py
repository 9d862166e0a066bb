"""What a release really kept and really changed, measured on the released values themselves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from microveil.core.moments import Array, add_up, first_mean, pair_moments
from microveil.core.table import Matrix
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


def evidence(original: Matrix, released: Matrix, weights: Array | None, present: NDArray[np.bool_] | None) -> Evidence:
    """Compare two tables of the same shape, cell by cell and moment by moment."""
    if present is not None:
        return _evidence_with_holes(original, released, weights, present)
    count, width = original.shape
    shift = first_mean(original.piece, count)[:, None]
    tolerance = SAME * _spread(original)[:, None]

    def sums(pieces: list[slice]) -> tuple[float, Array, Array]:
        total, first, second = 0.0, np.zeros(3 * width), np.zeros((3, width, width))
        for piece in pieces:
            before, after = original.piece(piece) - shift, released.piece(piece) - shift
            moved = np.count_nonzero(np.abs(after - before) > tolerance, axis=1)
            w = np.ones(1) if weights is None else weights[piece]
            before_w, after_w = (before, after) if weights is None else (before * w, after * w)
            total += before.shape[1] if weights is None else float(w.sum())
            first += np.concatenate([before_w.sum(axis=1), after_w.sum(axis=1), moved])
            second[0] += before_w @ before.T
            second[1] += after_w @ after.T
            second[2, 0] += np.einsum("ij,ij->i", before_w, after)
        return total, first, second

    total, first, second = add_up([partial(sums, pieces) for pieces in segments(count)])
    mean_before, mean_after = first[:width] / total, first[width : 2 * width] / total
    before = second[0] / total - np.outer(mean_before, mean_before)
    after = second[1] / total - np.outer(mean_after, mean_after)
    across = second[2, 0] / total - mean_before * mean_after
    return _judged(mean_after - mean_before, before, after, across, first[2 * width :] / count)


def _spread(original: Matrix) -> Array:
    """Standard deviations from a sample: only a yardstick for what counts as moved."""
    count = original.shape[0]
    sample = np.unique(np.linspace(0, count - 1, min(count, 2_000)).astype(np.intp))
    return np.array([float(np.nanstd(column[sample])) for column in original.columns])


def _judged(mean_gap: Array, before: Array, after: Array, across: Array, changed: Array) -> Evidence:
    sd, sd_after = np.sqrt(np.diagonal(before)), np.sqrt(np.clip(np.diagonal(after), 0, None))
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = np.abs(after - before) / np.outer(sd, sd)
        correlation = np.where(sd_after > 0, across / (sd * sd_after), 0.0)
        mean_error = np.abs(mean_gap) / sd
    return Evidence(float(np.nanmax(mean_error)), float(np.nanmax(gap)), correlation, changed)


def _evidence_with_holes(
    original: Matrix, released: Matrix, weights: Array | None, present: NDArray[np.bool_]
) -> Evidence:
    before, after = np.column_stack(original.columns), np.column_stack(released.columns)
    width = before.shape[1]
    first, second = pair_moments(before, present, weights=weights), pair_moments(after, present, weights=weights)
    both = pair_moments(np.hstack([before, after]), np.hstack([present, present]), weights=weights)
    across = np.diagonal(both.covariance[:width, width:])
    moved = np.where(present, np.abs(after - before) > SAME * first.sd, False)
    changed = moved.sum(axis=0) / np.maximum(present.sum(axis=0), 1)
    return _judged(second.mean - first.mean, first.covariance, second.covariance, across, changed)
