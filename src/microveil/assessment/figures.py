"""One figure of two tables, in memory, on a disk or on Spark, from random numbers that are the measure's own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from microveil.core.errors import DataError
from microveil.core.rng import Streams
from microveil.core.table import Matrix
from microveil.measures.base import HELD_COLUMNS, Measure, MeasureSpec, are_many, check_shapes, drawn_rows
from microveil.measures.risk import MEASURES as RISKS
from microveil.measures.utility import MEASURES as UTILITIES
from microveil.storage.disk_columns import BYTES

GAUGES: dict[str, MeasureSpec] = {**RISKS, **UTILITIES}

ALL = "all measures"
"""Whose random numbers measures of large files draw from: they try the same records."""

RANK_ROWS = 200_000
"""Rows, drawn at random, for measures of ranks of tables on a disk."""


@dataclass(frozen=True)
class DiskLimits:
    """How tables that are not in memory are measured: the bytes that may be held, and the originals that attacks are
    tried on.
    """

    memory: int
    sample: int
    on_spark: bool = False


def figure_of(
    name: str, original: Matrix, released: Matrix, streams: Streams, limits: DiskLimits | None = None, **options: Any
) -> Measure:
    """One figure of two tables.

    Args:
        name: the id of the measure.
        original: the columns as they were, rows x columns.
        released: the same columns of the release.
        streams: where its random numbers come from.
        limits: for tables on a disk, of which a `DataError` may say why there is no figure.
        **options: of the measure.
    """
    gauge = GAUGES[name]
    if limits is not None:
        if original.shape[1] or gauge.needs != "labels":
            check_shapes(original, released, paired=gauge.paired)
        if not gauge.on_spark if limits.on_spark else gauge.on_disk == "no":
            where = "it is not measured on Spark" if limits.on_spark else "it needs all records in memory"
            raise DataError(f"{where}; measure a random sample of the rows of both files with the engine 'memory'")
        if gauge.on_disk == "sample":
            return _of_sample(name, original, released, streams, **options)
        held = HELD_COLUMNS * BYTES * max(original.shape[0], released.shape[0])
        if gauge.on_disk == "columns" and not limits.on_spark and held > limits.memory:
            raise DataError(f"it holds whole columns, {-(-held // 10**6)} MB of them: allow for so much memory")
        options |= {"sample": limits.sample} if gauge.takes("sample") else {}
    take = gauge if limits is None else gauge.take  # on a disk, shapes have been checked
    seed = seed_of(name, streams) if limits is not None else seed_for(name, original, streams)
    return take(original, released, **gauge.seeded(seed), **options)


def _of_sample(name: str, original: Matrix, released: Matrix, streams: Streams, **options: Any) -> Measure:
    """A figure (`name`) of rows drawn from the `streams`: the same of both files, if they have as many."""
    stream = streams.stream("sampled rows")
    counts = original.shape[0], released.shape[0]
    rows = [drawn_rows(count, RANK_ROWS, stream) for count in counts]
    held = None
    if "control" in options:
        held = drawn_rows(options["control"].shape[0], RANK_ROWS, stream)
        options["control"] = options["control"].take(held)
    if "labels" in options:
        options["labels"] = options["labels"].of_rows(*rows, held)
    found = figure_of(name, original.take(rows[0]), released.take(rows[1]), streams, **options)
    if max(counts) <= RANK_ROWS:
        return found
    # Of a rank correlation where there is none: elsewhere it is less as a rule, though not always.
    error = f"standard error of a correlation about {1 / np.sqrt(RANK_ROWS):.4f}"
    error = "matches with other rows are not seen" if name in RISKS else error
    sample = f"an estimate from {rows[0].size} and {rows[1].size} rows drawn at random, {error}"
    return replace(found, note="; ".join(filter(None, [sample, found.note])))


def seed_for(name: str, original: Matrix, streams: Streams) -> int:
    """The seed of one measure of a table in memory; of a large one that of all of them, who try the same records."""
    return seed_of(ALL if are_many(original.shape[0]) else name, streams)


def seed_of(name: str, streams: Streams) -> int:
    """The seed of one measure."""
    return int(streams.stream("measure", name).generator().integers(2**63))
