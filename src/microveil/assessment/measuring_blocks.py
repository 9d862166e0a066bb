"""Measures of two files that are larger than the memory, which go onto a disk and are passed by piece by piece.

Most measures are the same functions as in memory: what they ask of a table (moments, columns in order, some rows) is
found in pieces. Attacks that search try some originals against all released records. What needs all records at once is
left out, and the reason is told.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microveil.assessment import measuring
from microveil.assessment.assessment import Assessment
from microveil.assessment.pairing_blocks import pair_up_blocks
from microveil.core.errors import DataError, ParameterError
from microveil.core.rng import Stream, Streams
from microveil.core.table import Matrix
from microveil.core.threads import in_threads
from microveil.intake.intake import Rules
from microveil.intake.roles import Choice
from microveil.io.files.formats import ReadOptions
from microveil.io.frames.dataframes import open_frame
from microveil.io.tables import open_blocks
from microveil.measures.base import Measure, check_shapes
from microveil.measures.nearest.linkage_blocks import ATTACKS
from microveil.storage.disk_columns import BYTES, Shelf, memory_in_bytes, temporary_folder

TRIED = 1_000
"""Originals that an attack is tried on; with a share of one half, the interval is 0.03 to either side."""

SAMPLED_ROWS = 200_000
"""Rows, drawn at random, for measures of ranks."""

READING, SORTED = 0.15, 0.3
"""Share of the work that is done after reading, and after sorting."""

IN_ORDER = ("pil", "pil7", "ks", "marginal_distance", "extreme_disclosure")
IN_PASSES = (
    "mean_bias",
    "variance_bias",
    "skewness_bias",
    "kurtosis_bias",
    "correlation_bias",
    "correlation_difference",
    "ci_overlap",
    "regression_fit",
    "kl_gaussian",
    "kl_ridge",
    "wasserstein_gaussian",
    "eigen_decay",
    "between_correlation",
    "within_correlation",
    "selectivity",
    "il1s",
    "norm_sum",
    "norm_max_row",
    "norm_frobenius",
    "vector_correlation",
    "interval_disclosure_sd",
)
OF_SOME_ROWS = ("propensity_2", "propensity_3", "classifier_auc", "optimal_linkage")
"""These draw a sample themselves, if there are many rows, and say so."""

OF_RANKS = ("rank_correlation_bias", "rank_correlation_difference", "kendall_bias")
HELD_COLUMNS = {"interval_disclosure": 3, "interval_disclosure_own": 3}
"""Columns of all rows that must be held at once."""

Tell = Callable[[str, float], None]


def assess_files(
    original: str | Path,
    released: str | Path,
    *,
    confidential: Choice = None,
    public: Choice = None,
    measures: str | Sequence[str] = "default",
    seed: int | None = None,
    rules: Rules = "infer",
    sensitive: Choice = None,
    memory: int | str = "1GB",
    sample: int = TRIED,
    sanity: bool = True,
    reading: ReadOptions | None = None,
    progress: Tell | None = None,
) -> Assessment:
    """Measure what a release gives away and what it is still good for, of files that may be larger than the memory.

    As `assess`, which it equals wherever it measures all records. Both files are read once, onto a disk: temporary
    files without a name take 16 bytes for every cell of each, beside the released file or where `MICROVEIL_TEMPORARY`
    says.

    Args:
        original: the file as it was.
        released: the file to judge; for measures that compare records one by one, in the same order of rows.
        confidential: columns to compare; by default all that are numeric in both files.
        public: columns that were to stay as they are: not compared, but a note tells if they did change.
        measures: "default", "all", or ids. Those that need all records at once are skipped.
        seed: a whole number for figures that can be repeated.
        rules: as for `assess`.
        sensitive: as for `assess`.
        memory: how much the rows at hand may take, as `800MB` or `1GB`; libraries take about 300 MB beside it.
        sample: original records, drawn at random, that attacks are tried on; all released records compete.
        sanity: whether to measure some originals themselves and a shuffle of them too, for the scale.
        reading: how files of text are read (separator, encoding, ...), both alike.
        progress: called with the name of the step and the share done.
    """
    if isinstance(sample, bool) or not isinstance(sample, int) or sample < 1:
        raise ParameterError("sample: must be a whole number of records, at least 1", f"leave it out for {TRIED}")
    ids, tell = measuring.chosen(measures), progress or (lambda *_: None)
    size, streams = memory_in_bytes(memory), Streams.from_seed(None if seed is None else int(seed))
    with (
        closing(open_blocks(Path(original), reading)) as before,
        closing(open_blocks(Path(released), reading)) as after,
        Shelf(_folder(Path(released)), size) as shelf,
    ):
        both = pair_up_blocks(
            before,
            after,
            confidential=confidential,
            public=public,
            rules=rules,
            sensitive=sensitive,
            shelf=shelf,
            tell=lambda step, done: tell(step, READING * done),
        )
        tell("sorting", READING)
        _sort(both.original, both.released, ids)
        found = measuring.assessment(
            both,
            ids,
            streams,
            like=open_frame(before.head()),
            sanity=sanity,
            tell=lambda step, done: tell(step, SORTED + (1 - SORTED) * done),
            figure=Passing(size, sample).figure,
        )
    tell("done", 1.0)
    return found


def _folder(released: Path) -> Path:
    """Temporary files go beside the release, where there is room for a file of that size, if that can be written to."""
    beside = temporary_folder(released)
    return beside if os.access(beside, os.W_OK) else temporary_folder(None)


def _sort(original: Matrix, released: Matrix, ids: Sequence[str]) -> None:
    """Columns in order, if a measure asks for them: all at once, in threads."""
    if {*measuring.parts_of(ids)} & {*IN_ORDER, *HELD_COLUMNS}:
        in_threads([partial(table.in_order, j) for table in (original, released) for j in range(original.shape[1])])


@dataclass(frozen=True)
class Passing:
    """How a measure is taken of tables on a disk."""

    memory: int
    sample: int

    def figure(self, name: str, original: Matrix, released: Matrix, streams: Streams, **options: Any) -> Measure:
        """One figure, or a `DataError` that says why there is none."""
        gauge, seed = measuring.GAUGES[name], measuring.seed_of(name, streams)
        check_shapes(original, released, paired=gauge.paired)
        held = HELD_COLUMNS.get(name, 0) * BYTES * max(original.shape[0], released.shape[0])
        if held > self.memory:
            raise DataError(f"it holds whole columns, {-(-held // 10**6)} MB of them: allow for so much memory")
        if name in ATTACKS:
            attack = replace(gauge, function=ATTACKS[name])
            return attack.take(original, released, seed=seed, sample=self.sample)
        if name in (*IN_ORDER, *IN_PASSES, *OF_SOME_ROWS):
            return gauge.take(original, released, **gauge.seeded(seed), **options)
        if name in OF_RANKS:
            return _of_sample(name, original, released, streams)
        raise DataError(
            "it needs all records in memory; measure a random sample of the rows of both files with the engine 'memory'"
        )


def _drawn(count: int, stream: Stream) -> NDArray[np.intp]:
    """Rows for measures of ranks: all, or some drawn at random."""
    if count <= SAMPLED_ROWS:
        return np.arange(count)
    return np.sort(stream.generator().choice(count, SAMPLED_ROWS, replace=False))


def _of_sample(name: str, original: Matrix, released: Matrix, streams: Streams) -> Measure:
    """A figure of some rows: the same of both files, if they have as many."""
    stream = streams.stream("sampled rows")
    counts = original.shape[0], released.shape[0]
    rows = [_drawn(count, stream) for count in counts]
    found = measuring.figure_of(name, original.take(rows[0]), released.take(rows[1]), streams)
    if max(counts) <= SAMPLED_ROWS:
        return found
    # Of a rank correlation where there is none: elsewhere it is less as a rule, though not always.
    error = f"standard error of a correlation about {1 / np.sqrt(SAMPLED_ROWS):.4f}"
    said = f"an estimate from {rows[0].size} and {rows[1].size} rows drawn at random, {error}"
    return replace(found, note="; ".join(filter(None, [said, found.note])))
