"""Which measures there are, which are taken, and from which random numbers.

Measures, scores and sanity lines are taken here, from two tables that are ready to be compared, in memory or on a disk.
Every measure has random numbers of its own, by its id: a figure does not depend on which others are asked for.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from microveil.assessment.assessment import WORST, WORST_MEANING, Assessment, Sanity, worst_of
from microveil.assessment.figures import GAUGES, DiskLimits, figure_of, seed_for
from microveil.assessment.measure_options import MeasureOptions, noted
from microveil.assessment.pairing import Pair, SortedOnce
from microveil.assessment.policy import Policy
from microveil.core.errors import DataError, ParameterError, did_you_mean
from microveil.core.rng import Streams
from microveil.core.table import Matrix
from microveil.core.threads import in_threads
from microveil.io.frames.dataframes import Frame, table_like
from microveil.measures.base import IF_THERE, Measure, MeasureInfo
from microveil.measures.labels import LABEL_KINDS
from microveil.measures.risk import MEASURES as RISKS
from microveil.measures.risk.matches import OWN_ROW, records_at_risk
from microveil.measures.utility import SCORES

SANITY_ROWS = 1_000
"""Original records the sanity lines are measured on; more would cost more than the figures themselves."""

SANITY_SHARE = 0.4
"""Of the work."""

MANY_ROWS = 1_000_000

OUT_OF_ORDER = "released records that match originals stand in other rows: the order of rows was not used"
"""As for a table that was only sorted; but its values were changed as well."""

MATCHES = "near_matches"
CLEAR, MIXED, NUMBERS = "clear_uniques", "mixed_linkage", "dbrl"
"""What columns in clear tell, and linkage on all columns, or on those of numbers."""

BY_RANK = ("extreme_disclosure",)
"""Attacks that count from the ends of columns: those of several releases together are other ends."""

FEWEST_IN_PLACE = 0.5
"""Share of the matches found that stand in their own row, below which the order of rows does not tell who is who."""

BLIND = 1e-6
"""A second-degree propensity below this says that second moments are kept, and nothing else."""

REPORT_CELLS = 500_000
"""Cells up to which a report has the default set, which then takes about half a minute of CPU time."""

NOT_IN_ALL = {name for name, gauge in GAUGES.items() if gauge.needs in IF_THERE}
"""Measures of columns that not every file has."""

DEFAULT = (
    *(name for name, gauge in GAUGES.items() if gauge.default and name not in NOT_IN_ALL),
    *(name for name, score in SCORES.items() if score.default),
    WORST,
)
"""The attacks that have something to say about any file, and one measure for each thing that files are used for."""

Tell = Callable[[str, float], None]


def entries() -> dict[str, MeasureInfo]:
    """Every measure and score by its id: risks, utilities, scores."""
    story = inspect.cleandoc(worst_of.__doc__ or "")
    worst = MeasureInfo(WORST, "risk", WORST_MEANING, "low", (0.0, 1.0), "slow", False, story)
    return {**GAUGES, **SCORES, WORST: worst}


def chosen(measures: str | Sequence[str], also: Sequence[str] = ()) -> list[str]:
    """Ids, each once, and `also` those of a policy; "default" and "all" stand for many that every file has."""
    if not isinstance(measures, str | list | tuple) or not all(isinstance(word, str) for word in measures):
        raise ParameterError("measures: takes ids", "give 'default', 'all' or a list of ids")
    known = [*GAUGES, *SCORES, WORST]
    many = {"default": list(DEFAULT), "all": [name for name in known if name not in NOT_IN_ALL]}
    found: dict[str, None] = {}
    for word in (*([measures] if isinstance(measures, str) else measures), *also):
        if word not in many and word not in known:
            raise ParameterError(f"measures: there is no '{word}'", did_you_mean(word, [*many, *known]))
        found |= dict.fromkeys(many.get(word, [word]))
    if not found:
        raise ParameterError("measures: none is named", "give 'default', 'all' or ids")
    if WORST in found and not any(name in RISKS for name in found):
        found = dict.fromkeys([*(name for name in DEFAULT if name in RISKS), *found])
    return list(found)


def of_labels(measures: str | Sequence[str]) -> list[str]:
    """Ids that "default" and "all" stand for as well, where there are labels or columns in clear."""
    words = {measures} if isinstance(measures, str) else {*measures}
    wanted = ("all", "default")
    return [name for name in GAUGES if name in NOT_IN_ALL and words & {*wanted[: 1 + GAUGES[name].default]}]


def for_report(both: Pair, *, public_only: bool) -> tuple[list[str], str]:
    """What is measured for a report of two files, and a word on it.

    The default set, and what outliers risk; of large files only what is fast, and the linkage everyone asks for. A
    public report shows utility alone.
    """
    known, small = entries(), both.rows[0] * len(both.compared) <= REPORT_CELLS
    there = available(both)
    default = [name for name in (*of_labels("default"), *DEFAULT) if _needs(name) in there]
    cheap = [name for name in default if name in (CLEAR, MIXED, NUMBERS) or known[name].cost == "fast"]
    ids = [*default, *(["outlier_risk"] if both.names else [])] if small else cheap
    if public_only:
        ids = [name for name in ids if known[name].kind == "utility"]
    word = "" if small else f"The file has more than {REPORT_CELLS} cells, so only what is fast was measured; "
    return ids, word and f"{word}`microveil assess` measures the rest."


@dataclass(frozen=True, repr=False)
class Request:
    """What is to be measured: the ids as `chosen` gives them, from which random numbers, and with the sanity lines?"""

    ids: Sequence[str]
    streams: Streams
    sanity: bool
    policy: Policy | None = None
    """What the figures are held against."""

    options: MeasureOptions = field(default_factory=dict)
    """Options of measures and weights of scores."""

    if_there: Sequence[str] = ()
    """Measures of labels and of columns in clear, which are taken where there are some."""

    def ids_for(self, both: Pair) -> list[str]:
        """What is measured of these files, what not every file has first: it is what the whole file gives away."""
        there = available(both)
        by_word = {*self.if_there, *(DEFAULT if self.if_there else ())}
        ids = dict.fromkeys([*self.if_there, *self.ids])
        return [name for name in ids if name not in by_word or _needs(name) in there]


def available(both: Pair) -> set[str]:
    """What measures can be taken of in these files, in the words of `Needs`."""
    labels = both.labels
    found = {"any": True, "numbers": bool(both.names), "others": labels is not None}
    if labels is not None:
        found |= {"labels": bool(set(labels.kinds) & set(LABEL_KINDS)), "clear": any(labels.in_clear)}
        found["both"] = found["labels"] and found["numbers"]
    return {name for name, there in found.items() if there}


def _needs(name: str) -> str:
    """What a measure is taken of; scores are made of measures of numbers."""
    return GAUGES[name].needs if name in GAUGES else "any" if name == WORST else "numbers"


def assess_pair(
    pair: Pair,
    request: Request,
    like: Frame,
    tell: Tell,
    *,
    limits: DiskLimits | None = None,
    known: Mapping[str, Measure] | None = None,
) -> Assessment:
    """The figures of a release and, if there is a policy, its verdict.

    Where rows are not in order and nobody said so, matches in other rows tell (in memory only).

    Args:
        pair: the original and the release.
        request: what is measured.
        like: figures can be put into a table like this one.
        tell: called with the name of a measure and the share done.
        limits: for tables that are not in memory; the sanity lines are of a few records, which are.
        known: figures by id that are not measured again.
    """
    ids, streams = request.ids_for(pair), request.streams
    share = 1.0 - SANITY_SHARE if request.sanity else 1.0
    found = dict(known or {})
    if limits is None:
        pair, early = _in_order(pair, ids, streams)
        found = {**early, **found}
    elif not limits.on_spark and any(GAUGES[name].on_disk in ("sorted", "columns") for name in parts_of(ids)):
        tables, columns = (pair.original, pair.released), range(pair.original.shape[1])
        in_threads([partial(table.in_order, j) for table in tables for j in columns])  # all at once
    # Every look at a risk shows this one, too: no small figure stands above rows that are alone in clear.
    risky = any(name in RISKS for name in parts_of(ids))
    if "clear" in available(pair) and CLEAR not in found and risky:
        found[CLEAR] = figure_of(CLEAR, pair.original, pair.released, streams, labels=pair.labels)
    figures, skipped = take(pair, ids, streams, _part_of(tell, "", 0.0, share), limits, found, request.options)
    for table in (pair.original, pair.released):
        if isinstance(table, SortedOnce):  # the assessment keeps the files, for the records at risk
            table.forget_order()
    if not figures:
        name, reason = next(iter(skipped.items()))
        raise DataError(f"nothing could be measured ({name}: {reason})", "give both files whole, in one order of rows")
    assessment = Assessment(
        figures=figures,
        entries=entries(),
        columns=pair.compared or pair.names,
        rows=pair.rows,
        sanity=_sanity(pair, replace(request, ids=list(figures)), tell) if request.sanity else None,
        skipped=skipped,
        notes=[*filter(None, [pair.reordered]), *pair.notes, *notes(figures)],
        make_frame=partial(table_like, like),
        in_clear=found.get(CLEAR) if risky else None,
        find_records=None if limits is not None or not pair.names else partial(_records, pair, streams),
    )
    tell("done", 1.0)
    return assessment if request.policy is None else replace(assessment, verdict=request.policy.check(assessment))


def _records(both: Pair, streams: Streams, most: int) -> dict[str, list[Any]]:
    """The records at highest risk of those columns that attacks are about."""
    about = _sensitive_alone(both)
    known = _known_of(about, "max_record_risk")
    seed = seed_for("records", about.original, streams)
    found = records_at_risk(about.original, known, seed, both.labels if known is not about.union else None)
    return {name: cells[:most] for name, cells in found.items()}


def _sanity(both: Pair, request: Request, tell: Tell) -> Sanity:
    """For the scale: the figures of some of the originals themselves and of a shuffle of them."""
    ids, streams, options = request.ids, request.streams, request.options
    count, generator = both.rows[0], streams.stream("sanity rows").generator()
    # Numbers of all rows would take more room than anything else, were there many.
    many = count > MANY_ROWS
    rows = generator.choice(count, SANITY_ROWS, replace=False) if many else generator.permutation(count)[:SANITY_ROWS]
    sample = both.original.take(np.sort(rows))
    orders = [streams.stream("sanity shuffle", number).generator() for number in range(sample.shape[1])]
    shuffled = Matrix([order.permutation(column) for order, column in zip(orders, sample.columns, strict=True)])
    start, share = 1.0 - SANITY_SHARE, SANITY_SHARE / 2
    few = replace(both, original=sample, reordered="", union=None, mean=None, labels=None)
    same, other = (replace(few, released=released) for released in (sample, shuffled))
    if both.labels is not None:  # what is in clear is no matter of either release
        known = both.labels.of_labels
        codes = known.original[np.sort(rows)]
        mixed = [streams.stream("sanity labels", j).generator().permutation(of) for j, of in enumerate(codes.T)]
        other_codes = np.column_stack(mixed) if mixed else codes
        same, other = (
            replace(one, labels=replace(known.of_records(codes, new), in_clear=(False,) * len(known.names)))
            for one, new in ((same, codes), (other, other_codes))
        )
    identity, _ = take(same, ids, streams, _part_of(tell, " of the originals", start, share), options=options)
    shuffle, _ = take(other, ids, streams, _part_of(tell, " of a shuffle", start + share, share), options=options)
    return Sanity(identity, shuffle, rows.size, count)


def _part_of(tell: Tell, of: str, start: float, share: float) -> Tell:
    """Tells of measures (`of` what) whose work begins at `start` and is a `share` of all."""
    return lambda name, done: tell(f"measuring {name}{of}", start + share * done)


def take(
    both: Pair,
    ids: Sequence[str],
    streams: Streams,
    tell: Tell,
    limits: DiskLimits | None = None,
    known: Mapping[str, Measure] = MappingProxyType({}),
    options: MeasureOptions = MappingProxyType({}),
) -> tuple[dict[str, Measure], dict[str, str]]:
    """The figures of some measures, in their order; and those that these files do not allow, with the reason.

    Measures number the columns of which they speak; names take the place of the numbers.

    Args:
        both: the files.
        ids: the measures and scores.
        streams: where their random numbers come from.
        tell: called with the id of a measure and the share done.
        limits: for tables on a disk.
        known: figures by id that are not measured again.
        options: of measures, by id.
    """
    hidden = _sensitive_alone(both)
    whole = [name for name in ids if name in SCORES and SCORES[name].of_whole and hidden is not both]
    needed = [*parts_of(name for name in ids if name not in whole), *(name for name in known if name == CLEAR)]
    tasks = {(name, False): both if name not in RISKS or _by_column(name) else hidden for name in needed}
    # Risks of all columns, for scores that are about these; what is not about sensitive columns is measured once.
    tasks |= {(name, name in RISKS and not _by_column(name)): both for name in parts_of(whole)}
    taken: list[dict[str, Measure]] = [{}, {}]
    skipped: dict[str, str] = {}
    for number, ((name, of_whole), pair) in enumerate(tasks.items()):
        tell(name, number / len(tasks))
        try:
            if both.reordered and GAUGES[name].paired:
                raise DataError(both.reordered)
            if name in known and not of_whole and name not in options:
                found = known[name]
            else:
                found = _figure(name, pair, both, streams, limits, options.get(name, {}))
            note = noted(found, options.get(name))
            taken[of_whole][name] = replace(found, note=_with_names(note, pair.names))
        except DataError as error:
            skipped[name] = _with_names(error.problem, pair.names)
    return with_scores(ids, taken, skipped, options)


def _by_column(name: str) -> bool:
    """Does the measure take the numbers of the sensitive columns, and look at the others as well?"""
    return GAUGES[name].takes("sensitive")


def _figure(
    name: str, about: Pair, both: Pair, streams: Streams, limits: DiskLimits | None, given: Mapping[str, Any]
) -> Measure:
    """One figure (`name`) of the columns it is `about`, with options that were `given`.

    `both` are all columns; `limits` are for tables on a disk.
    """
    gauge, options = GAUGES[name], dict(given)
    if gauge.takes("sensitive"):
        options["sensitive"] = both.sensitive
    if gauge.takes("sensitive") and both.sensitive == ():
        raise DataError("no column of numbers is sensitive")
    if about.holdout is not None and gauge.takes("control"):
        options["control"] = about.holdout
    tables = about.original, _known_of(about, name)
    # Of several releases, labels are those of the first, and do not go with the numbers of all.
    if both.labels is not None and gauge.takes("labels") and tables[1] is not about.union:
        options["labels"] = both.labels
    return figure_of(name, *tables, streams, limits, **options)


def _in_order(both: Pair, ids: Sequence[str], streams: Streams) -> tuple[Pair, dict[str, Measure]]:
    """The files with the reason why their rows are not paired, if matches are found that stand in other rows.

    It is asked only where it matters: measures of pairs are asked for, and nobody knows the order.
    """
    paired = any(GAUGES[name].paired for name in parts_of(ids))
    if both.order_known or both.reordered or not paired or both.rows[0] != both.rows[1]:
        return both, {}
    about = _sensitive_alone(both)
    try:
        found = figure_of(MATCHES, about.original, about.released, streams)
    except DataError:  # nothing varies; each measure tells for itself
        return both, {}
    matched = found.low > (found.chance or 0.0)
    away = matched and found.parts[OWN_ROW] < FEWEST_IN_PLACE
    return (replace(both, reordered=OUT_OF_ORDER) if away else both), ({} if both.union else {MATCHES: found})


def _sensitive_alone(both: Pair) -> Pair:
    """What attacks are about."""
    if both.sensitive is None:
        return both
    original, released = (table.select(both.sensitive) for table in (both.original, both.released))
    holdout = None if both.holdout is None else both.holdout.select(both.sensitive)
    names = tuple(both.names[j] for j in both.sensitive)
    union, mean = (None if table is None else table.select(both.sensitive) for table in (both.union, both.mean))
    return Pair(names, original, released, both.notes, holdout=holdout, union=union, mean=mean)


def _known_of(both: Pair, name: str) -> Matrix:
    """What an attack goes by: of several releases all records, or the mean of each; everything else by the first."""
    known = (both.mean if GAUGES[name].paired else both.union) if name in RISKS and name not in BY_RANK else None
    return both.released if known is None else known


def parts_of(ids: Iterable[str]) -> list[str]:
    """What is measured, each once, so that these are known: scores are made of other measures."""
    parts = (SCORES[name].parts if name in SCORES else (name,) for name in ids if name != WORST)
    return list(dict.fromkeys(part for each in parts for part in each))


def with_scores(
    ids: Sequence[str], taken: Sequence[Mapping[str, Measure]], skipped: Mapping[str, str], options: MeasureOptions
) -> tuple[dict[str, Measure], dict[str, str]]:
    """The figures asked for, scores among them, and the reasons for those that are not there.

    `taken` has what was measured, and risks that were measured of all columns; `skipped` why others were not; `options`
    the weights of scores.
    """
    figures, reasons = dict(taken[0]), dict(skipped)
    for name in (name for name in ids if name in SCORES):
        lacking = next((part for part in SCORES[name].parts if part in skipped), None)
        if lacking is None:
            parts = {**taken[0], **(taken[1] if SCORES[name].of_whole else {})}
            score = SCORES[name](parts, options.get(name))
            figures[name] = replace(score, note=noted(score, options.get(name)))
        else:
            reasons[name] = f"it needs {lacking}: {skipped[lacking]}"
    if WORST in ids:
        worst = worst_of([measure for name, measure in figures.items() if name in RISKS])
        figures |= {} if worst is None else {WORST: worst}
        reasons |= {WORST: "no attack with a chance level was measured"} if worst is None else {}
    return {name: figures[name] for name in ids if name in figures}, {n: reasons[n] for n in ids if n in reasons}


def _with_names(sentence: str, names: Sequence[str]) -> str:
    return re.sub(r"column (\d+) \(from 0\)", lambda found: f"column '{names[int(found[1])]}'", sentence)


def notes(figures: Mapping[str, Measure]) -> list[str]:
    """What a reader of some figures must know."""
    blind, seeing = figures.get("propensity_2"), figures.get("classifier_auc")
    if blind is None or blind.value >= BLIND:
        return []
    better = "measure classifier_auc too" if seeing is None else f"classifier_auc is {seeing.value:.2f} (.5 is best)"
    return [
        "propensity_2 is 0 by construction where means, variances and covariances are kept exactly, however different "
        f"the files are otherwise: {better}"
    ]
