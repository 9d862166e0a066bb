"""Measuring a release: pair the files, take the measures, hold them against a policy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from microveil.assessment import measuring
from microveil.assessment.assessment import Assessment, gain_of
from microveil.assessment.column_sources import FileColumns
from microveil.assessment.figures import GAUGES, DiskLimits
from microveil.assessment.measure_options import checked_options
from microveil.assessment.measuring import CLEAR, MIXED, NUMBERS
from microveil.assessment.pairing import Pair, pair_up
from microveil.assessment.policy import Policy
from microveil.assessment.policy import read_policy as policy_from
from microveil.assessment.several_releases import combined
from microveil.core.errors import ParameterError
from microveil.core.rng import Streams
from microveil.core.threads import single_threaded_blas
from microveil.engines import Progress
from microveil.io.files.formats import ReadOptions
from microveil.io.frames.dataframes import Frame, open_frame
from microveil.io.tables import open_blocks
from microveil.measures.base import Measure
from microveil.measures.risk.proportions import PAIRS
from microveil.options import Assess, AssessFiles, declared_by
from microveil.protection.checks import checked_seed
from microveil.protection.in_memory import READING
from microveil.release.release import Release
from microveil.report.reporter import in_file_order, original_of, pair_of
from microveil.storage.disk_columns import Shelf, memory_in_bytes, temporary_folder

NOT_FOR_PUBLICATION = (
    "not for publication: these figures are of the original itself, and outside of what differential privacy promises"
)

TRIED = 1_000
"""Originals that an attack is tried on in files; with a share of one half, the interval is 0.03 to either side."""

READ, SORTED = 0.15, 0.3
"""Share of the work on files that is done after reading, and after sorting."""


@declared_by(Assess)
def assess(original: Any, released: Any, *, progress: Progress | None = None, **options: Any) -> Assessment:
    """Measure what a release gives away and what it is still good for.

    Both files are of any kind that `protect` takes, or DataFrames of Spark, which are measured where their rows are:
    linkages try a sample of originals against all released records there, and what needs all records in one place is
    skipped with the reason. Columns are matched by name (arrays: by number), and rows by their
    place: measures that compare records one by one need both files in the same order, and are skipped where the files
    have different numbers of rows.

    Args:
        original: the file as it was.
        released: the file to judge, made by microveil or by anything else; or what `protect` gave back, which knows
            where its rows were if it has shuffled them; or a list of several releases of the file, which an intruder
            may compare with each other.
        progress: called with the name of the step and the share done.
        **options: the options below. Ids of measures are those of `measures()`; a policy is a file, a dict or what
            `read_policy` gives, and its measures are taken too.
    """
    asked = Assess.checked(options)
    request = _request(asked)  # before the work
    tell = progress or (lambda *_: None)
    if hasattr(original, "mapInArrow"):
        return assess_on_spark(original, released, asked, tell)
    frame = open_frame(original)
    releases = list(released) if isinstance(released, list | tuple) else [released]
    if not releases:
        raise ParameterError("released: no release is given", "give one, or several as a list")
    tell(READING, 0.0)
    pairs = [_pair(frame, one, asked) for one in releases]
    found = measuring.assess_pair(pairs[0] if len(pairs) == 1 else combined(pairs), request, frame, tell)
    private = any(isinstance(one, Release) and one.ledger is not None for one in releases)
    return replace(found, notes=[NOT_FOR_PUBLICATION, *found.notes]) if private else found


def assess_on_spark(original: Any, released: Any, asked: Assess, tell: Progress) -> Assessment:
    """`assess` for tables on Spark, where the rows are: DataFrames, what `protect_spark` gave, or paths of Parquet."""
    from microveil.engines.spark.comparing import UNPAIRED, opened_pair
    from microveil.engines.spark.table import forget

    request = _request(asked)
    release = released if isinstance(released, Release) else None
    data = released if release is None else release.data
    tell(READING, 0.0)
    first, second, by_key = opened_pair(original, data, asked, None if release is None else release.kinds)
    try:
        pair = pair_up(first, second, asked, order_known=by_key or release is not None)
        pair = pair if pair.order_known else replace(pair, reordered=UNPAIRED)
        limits, known = DiskLimits(0, TRIED, on_spark=True), {} if release is None else _known_in_clear(release)
        return measuring.assess_pair(pair, request, first.survey, tell, limits=limits, known=known)
    finally:
        for table in (first, second):
            forget(table.source.kept)


def _pair(frame: Frame, released: Any, asked: Assess) -> Pair:
    if not isinstance(released, Release):
        return pair_up(frame, open_frame(released), asked)
    weight = released.settings.get("weight") if asked.weight is None else asked.weight
    return pair_up(
        frame,
        open_frame(in_file_order(released)),
        asked.model_copy(update={"weight": weight}),
        order_known=True,
        kinds=released.kinds,
        in_clear=released.in_clear,
    )


def _request(asked: Assess) -> measuring.Request:
    policy = read_policy(asked.policy)
    ids = measuring.chosen(asked.measures, also=policy.measures if policy else ())
    streams = Streams.from_seed(checked_seed(asked.seed))
    options = checked_options(asked.measure_options)
    fixed = {} if policy is None else policy.options
    both = next((name for name in options if name in fixed and options[name] != fixed[name]), None)
    if both is not None:
        raise ParameterError(f"measure_options: the policy has its own of {both}", "leave yours out")
    idle = next((name for name in {**options, **fixed} if name not in (*ids, *measuring.parts_of(ids))), None)
    if idle is not None:
        raise ParameterError(f"measure_options: {idle} is not measured", "add it to the measures, or leave them out")
    return measuring.Request(
        ids, streams, asked.sanity, policy, {**options, **fixed}, measuring.of_labels(asked.measures)
    )


def assess_release(
    release: Release, *, known: Mapping[str, Measure] | None = None, progress: Progress | None = None, **options: Any
) -> Assessment:
    """`assess` with the columns, rules and seed of a release, whose files are paired once.

    Args:
        release: what `protect` gave back, in the process that made it.
        known: figures by id that were measured of it before with the same seed; they are not measured again.
        progress: called with the name of the step and the share done.
        **options: those of `assess` that are no columns.
    """
    asked = Assess.checked({**options, "seed": release.seed})
    request = _request(asked)  # before the work
    both, frame = pair_of(release)
    known = {**_known_in_clear(release), **(known or {})}
    return measuring.assess_pair(both, request, frame, progress or (lambda *_: None), known=known)


def _known_in_clear(release: Release) -> dict[str, Measure]:
    """Of a file too large to be held, rows that are alone in clear were counted among all; a sample would mislead."""
    if release.sample is None or not release.in_clear:
        return {}
    entry, share = GAUGES[CLEAR], release.unique_in_clear
    note = f"in clear: {', '.join(release.in_clear)}"
    return {entry.id: Measure(entry.id, share, share, share, 0.0, entry.better, entry.range, entry.summary, note)}


def quick_risk(release: Release, known: Mapping[str, Measure]) -> tuple[Measure, Measure]:
    """The first risk figure that every face shows, of the originals themselves and of the release: that of the whole
    file.

    It is the share of records that are linked by all columns, or of those that are alone with what is in clear,
    whichever is more. Of many records a sample is tried; `known` are figures by id that are not measured again.
    """
    both, known = pair_of(release)[0], {**_known_in_clear(release), **known}
    there, columns = measuring.available(both), (both.original, both.released)
    found = []
    if CLEAR in known and "clear" not in there:  # counted among all rows, of which these are a sample
        found.append((known[CLEAR], known[CLEAR]))
    for name in [MIXED if "others" in there else NUMBERS, *([CLEAR] if "clear" in there else [])]:
        options: dict[str, Any] = {} if name == CLEAR else {"seed": release.seed, "pairs": PAIRS}
        before, after = dict(options), dict(options)
        if both.labels is not None and name != NUMBERS:
            labels = both.labels
            before["labels"], after["labels"] = labels.of_records(labels.original, labels.original), labels
        released = known.get(name) or GAUGES[name](*columns, **after)
        found.append((GAUGES[name](columns[0], columns[0], **before), released))
    return max(found, key=lambda pair: gain_of(pair[1]))


def held_rows(release: Release) -> int:
    """Rows of a release that are at hand: all, or those of a sample."""
    return original_of(release).count


@declared_by(AssessFiles, "holdout", "engine", "delimiter", "decimal", "encoding")
def assess_files(
    original: str | Path,
    released: str | Path,
    *,
    reading: ReadOptions | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Assessment:
    """`assess` for files that may be larger than the memory.

    Measures that are sums over rows, or need columns in order, are exact; linkages try a sample of originals against
    all released records; what can only be had from a sample of rows says so, and what cannot be had is skipped with
    the reason.

    Args:
        original: the file as it was.
        released: the file to judge.
        reading: how both are read.
        progress: called with the name of the step and the share done.
        **options: the options below.
    """
    asked = AssessFiles.checked(options)
    sample = TRIED if asked.sample is None else asked.sample
    if isinstance(sample, bool) or not isinstance(sample, int) or sample < 1:
        raise ParameterError("sample: must be a whole number of records, at least 1", f"leave it out for {TRIED}")
    request = _request(asked)
    limits, tell = DiskLimits(memory_in_bytes(asked.memory), sample), progress or (lambda *_: None)
    with (
        single_threaded_blas(),
        closing(open_blocks(Path(original), reading)) as before,
        closing(open_blocks(Path(released), reading)) as after,
        Shelf(_folder(Path(released)), limits.memory) as shelf,
    ):
        first = FileColumns(before, shelf, lambda done: tell("reading the original", READ * done / 2))
        second = FileColumns(after, shelf, lambda done: tell("reading the release", READ * (1 + done) / 2))
        pair = pair_up(first, second, asked)
        tell("sorting", READ)
        return measuring.assess_pair(
            pair, request, first.first, lambda step, done: tell(step, SORTED + (1 - SORTED) * done), limits=limits
        )


def _folder(released: Path) -> Path:
    """Temporary files go next to the release, where there is room for such a file, if that can be written to."""
    here = temporary_folder(released)
    return here if os.access(here, os.W_OK) else temporary_folder(None)


def read_policy(source: Policy | Mapping[str, Any] | str | Path | None) -> Policy | None:
    """A policy from a TOML file, or from a dict of the same shape; `policy.check(assessment)` gives the verdict."""
    if source is None or isinstance(source, Policy):
        return source
    policy = policy_from(source, measuring.entries())
    return replace(policy, options=checked_options(policy.options, "policy: options"))
