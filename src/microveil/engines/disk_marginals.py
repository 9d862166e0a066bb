"""Columns on a disk get their own distributions back, one column at a time.

A column that fits into the memory is put in order there, by the very step that tables in memory go through. One that
does not is mapped by the quantiles of a sample, whose error is known: the share of values below any value is off by no
more than a bound of Dvoretzky, Kiefer, Wolfowitz and Massart, which a remark states.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from microveil.core.arrays import Array
from microveil.core.rng import Stream, Streams
from microveil.engines.context import Progress
from microveil.engines.disk import DiskTable
from microveil.engines.out_of_core import RemoteOutcome, StoredColumns
from microveil.restore import Marginals
from microveil.storage.disk_columns import BYTES, DiskColumn

COPIES = 6
"""Columns of the size of one that sorting and smoothing it take."""

DOUBT = 0.05
"""Probability that the error of a sample is larger than stated."""


def with_marginals(
    step: Marginals, original: DiskTable, found: RemoteOutcome, streams: Streams, tell: Progress
) -> RemoteOutcome:
    """The outcome with the values of the original columns in the order of the perturbed ones."""
    table, chosen = found.table, found.released.chosen
    if not isinstance(table, DiskTable):
        raise TypeError("columns are put in order on a disk")
    if step.marginals == "smoothed" and not step.smooths(table.count):
        return found
    columns = table.stored(
        found.released.perturbed, len(chosen), lambda share: tell("storing columns", 0.55 + 0.05 * share)
    )
    stream, own = streams.stream("marginals", 0), original.confidential.columns
    rows = table.shelf.memory // (COPIES * BYTES)
    for place, (number, column) in enumerate(zip(chosen, columns, strict=True)):
        tell("ordering columns", 0.6 + 0.1 * place / len(chosen))
        child = stream.child(f"smooth {place}")
        if table.count <= rows:
            values = column[:]
            step.of(own[number][:], None, child).put_in_order_of(values)
            column.write(0, values)
        else:
            _map_by_sample(step, own[number], column, rows, child)
    released = replace(found.released, perturbed=StoredColumns(table.values.shape[1], len(columns)))
    remark = "" if table.count <= rows else _doubt(rows)
    return replace(found, table=table.with_columns(columns), released=released, remark=remark)


def _map_by_sample(step: Marginals, own: Array, column: DiskColumn, most: int, stream: Stream) -> None:
    """Each value becomes the one of the original sample that is as far up as it is in its own sample."""
    rows = np.unique(stream.child("rows").integers(column.size, most // 2))
    ranks = np.sort(column[rows])
    values = step.of(own[rows], None, stream).values
    start = 0
    for piece in column.pieces():
        low, high = (np.searchsorted(ranks, piece, side=side) for side in ("left", "right"))
        # Values that several records share are in the middle of their places.
        column.write(start, values[np.minimum((low + high) // 2, values.size - 1)])
        start += piece.size


def _doubt(most: int) -> str:
    rows = most // 2
    error = 2 * math.sqrt(math.log(2 / DOUBT) / (2 * rows))
    return (
        f"the columns were too long to be put in order: their distributions come from samples of about {rows} rows, "
        f"and shares of values are off by at most {error:.1e} (in {1 - DOUBT:.0%} of all cases)"
    )
