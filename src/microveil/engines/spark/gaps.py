"""Missing cells of a table on Spark, drawn for the decomposition where the rows are, as in memory."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from microveil.core.arrays import Array
from microveil.core.moments import PairMoments, Profile, is_wide, pair_sums
from microveil.core.rng import Streams
from microveil.engines.rows import check_holes
from microveil.engines.spark.table import SparkTable
from microveil.intake.intake import check_answered
from microveil.restore.missing import GapFilling


def without_gaps(table: SparkTable, profile: Profile, streams: Streams) -> SparkTable:
    """The table with its missing cells drawn, given the others of their rows; `profile` is that of the table.

    Moments of complete pairs are added up over all rows, then each row fills its own gaps.
    """
    check_holes(table)
    varying, gaps = profile.varying(), profile.missing()
    low = np.nan_to_num(profile.minimum)
    counts, sums = table.total(partial(_sums_present, low))
    for j in gaps:
        check_answered(table.names[j], int(counts[j]))
    shift, core = (low + sums / counts)[varying], table.cells.select(varying)
    pairs = PairMoments.of_sums(core.total(partial(_pair_sums, shift), range(len(varying))), shift)
    if is_wide(*core.shape):  # whose rows would tell their gaps, if these were regressed on them
        pairs = replace(pairs, covariance=np.diag(np.diagonal(pairs.covariance)))
    places = {j: at for at, j in enumerate(varying) if j in gaps}
    luck = {at: streams.stream("missing", 0, at) for at in places.values()}
    if not luck:
        return table
    below, above = core.largest(_far_out, range(len(varying)))
    wider = core.stored(GapFilling(pairs, luck, np.array([-below, above])), len(luck))
    new = dict(zip(places, wider.columns[len(varying) :], strict=True))
    values = replace(wider, columns=[new.get(j, column) for j, column in enumerate(table.values.columns)])
    return replace(table, values=values)


def _sums_present(low: Array, cells: Array, rows: slice) -> Array:  # noqa: ARG001 - a row map
    """How many cells of each column are there, and their sums above `low` (columns)."""
    there = ~np.isnan(cells)
    return np.array([there.sum(axis=1), np.where(there, cells - low[:, None], 0.0).sum(axis=1)])


def _far_out(cells: Array, rows: slice) -> Array:  # noqa: ARG001 - a row map
    """How far cells that are there go below zero, and above it."""
    there = ~np.isnan(cells)
    return np.array([np.where(there, side, -np.inf).max(axis=1, initial=-np.inf) for side in (-cells, cells)])


def _pair_sums(shift: Array, cells: Array, rows: slice) -> Array:  # noqa: ARG001 - a row map
    return pair_sums(cells.T, ~np.isnan(cells.T), shift)
