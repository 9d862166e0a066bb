"""Assessment of two files that may be larger than the memory: both go onto a disk, and are measured there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from microveil.assessment.assessment import Assessment
from microveil.assessment.measuring import DiskLimits, Tell, assess_pair, chosen
from microveil.assessment.pairing import FileColumns, pair_up
from microveil.core.errors import ParameterError
from microveil.core.rng import Streams
from microveil.intake.intake import Rules
from microveil.intake.roles import Choice
from microveil.io.blocks import open_blocks
from microveil.io.files.formats import ReadOptions
from microveil.storage.disk_columns import Shelf, memory_in_bytes, temporary_folder

TRIED = 1_000
"""Originals that an attack is tried on; with a share of one half, the interval is 0.03 to either side."""

READING, SORTED = 0.15, 0.3
"""Share of the work that is done after reading, and after sorting."""


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
    ids, tell = chosen(measures), progress or (lambda *_: None)
    limits = DiskLimits(memory_in_bytes(memory), sample)
    with (
        closing(open_blocks(Path(original), reading)) as before,
        closing(open_blocks(Path(released), reading)) as after,
        Shelf(_folder(Path(released)), limits.memory) as shelf,
    ):
        first = FileColumns(before, shelf, lambda done: tell("reading the original", READING * done / 2))
        second = FileColumns(after, shelf, lambda done: tell("reading the release", READING * (1 + done) / 2))
        pair = pair_up(first, second, confidential=confidential, public=public, rules=rules, sensitive=sensitive)
        tell("sorting", READING)
        found = assess_pair(
            pair,
            ids,
            Streams.from_seed(None if seed is None else int(seed)),
            like=first.first,
            sanity=sanity,
            tell=lambda step, done: tell(step, SORTED + (1 - SORTED) * done),
            limits=limits,
        )
    tell("done", 1.0)
    return found


def _folder(released: Path) -> Path:
    """Temporary files go beside the release, where there is room for a file of that size, if that can be written to."""
    beside = temporary_folder(released)
    return beside if os.access(beside, os.W_OK) else temporary_folder(None)
