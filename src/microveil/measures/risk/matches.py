"""Matches in any row: who is found without knowing which released record is whose?

A release may come in any order. So what counts is how near *any* released record comes to somebody, compared with the
other originals, who are strangers. As averages hide persons, the same is asked of each single record, for the owner's
eyes only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from microveil.core.arrays import Array, Mask
from microveil.core.rng import Streams
from microveil.core.table import Matrix
from microveil.core.tolerances import LINKAGE_TIE
from microveil.measures.base import Estimate, are_many, scales
from microveil.measures.labels import LabelPair, indicator_columns
from microveil.measures.nearest.distances import Index, reach
from microveil.measures.nearest.nearest_records import NearestRecords
from microveil.measures.nearest.standardisation import VIEWS
from microveil.measures.risk.links import around_sample, with_outlying
from microveil.measures.risk.proportions import PAIRS, attack, note_of, sample_note, sampled_rows
from microveil.rules.domain import step_of

SHARES = np.concatenate([[0.0], np.geomspace(0.002, 0.8, 30)])
"""Shares of strangers below a limit, at which records and strangers are compared."""

NEARLY = np.array([0.01, 0.03, 0.1, 0.2])
"""A released record that is nearer than this share of the distance to the nearest other original is a near copy."""

REMOTE_ALONE = "margin of remote records"
REMOTE = 0.1
"""Share of records that are looked at for themselves, because they are far from all others."""

FLIPS = 300
"""Times that luck decides who is the record and who the stranger."""

LIMIT = 2.9
"""Standard errors to the ends of the interval: 95 % for the best of a dozen limits that are about independent."""

FEWEST, FEWEST_COLUMNS = 4, 2
"""Records and columns without which there is nothing to compare: on a line everybody stands between two others."""

OWN_ROW = "of them, in their own row"

TAIL = 0.1
"""Share of the strangers that stand out most, who show how rare it is to stand out still more."""

MOST_TERMS = 50
"""Labels that count as columns, the most frequent."""

CROWD = 50
"""Strangers without whom nobody knows what is usual."""

REASONS = {
    "margin": "a released record stands out as the nearest to it{own}, {by}",
    "nearly copied": "nearly copied: a released record is far nearer than any other original{own}, {by}",
}
BY_RANKS = "rank_linkage"
BY = {"dbrl": "by values", "mahalanobis_linkage": "allowing for correlations", BY_RANKS: "by ranks"}


@attack(
    "share of records that stand out from strangers by how near some released record, in any row, comes to them",
    default=True,
    on_disk="sample",
)
def near_matches(original: Matrix, released: Matrix, *, seed: int | None = None) -> Estimate:
    """Near matches, whatever the order of rows.

    The intruder looks for each known record among all released ones, by three kinds of distance (those of `dbrl`,
    `mahalanobis_linkage` and `rank_linkage`). A nearest record that stands out from the second nearest is probably a
    match. So the ratio of the two distances (`margin`) is compared with the same ratio among the *other originals*. A
    record that is the nearest of several is the match of the nearest of them only. The figure is how many more records
    than strangers have a ratio below a limit, at the limit that finds most, among all records and among the tenth that
    is farthest from everybody. It also counts records that are `nearly copied`: the nearest released record is nearer
    than a fifth (or less) of the distance to the nearest other original, beyond those of which the opposite is true.

    Another sample of the population gives 0 but for luck: chance is the mean of the best of all limits if a coin
    decides for each record which of the two ratios is the stranger's. The interval is for the best of several. Noise
    that hides most records among others is seen in those that stay remote, so the figure is rather too low. Where both
    files have as many rows, a part says how many of the matches beyond those of strangers stand in their own row: about
    1 if rows are in the same order, else about 0. Of many records a sample is tried.
    """
    tried, evidence = search_matches(original, released, seed)
    if not evidence:
        return Estimate(0.0, chance=0.0, note="there are too few records or columns to compare")
    parts = {name: float(one.gains.mean(axis=0).max()) for name, one in evidence.items()}
    way = max(parts, key=lambda name: parts[name])
    best = evidence[way]
    limit = int(best.gains.mean(axis=0).argmax())
    each = best.gains[:, limit]
    value, margin = float(each.mean()), LIMIT * float(each.std()) / np.sqrt(tried.size)
    # Luck: the most that any limit finds, at least 0, if record and stranger are exchanged at random.
    signs = Streams.from_seed(seed).stream("flips").generator().choice([-1.0, 1.0], (FLIPS, tried.size))
    luck = np.max([(signs @ one.gains).max(axis=1) for one in evidence.values()], axis=0).clip(0.0)
    if original.shape[0] == released.shape[0]:  # of the matches beyond strangers' the share in their own row
        at_home = float(((best.ratio < best.limits[limit]) & best.own).mean())
        parts[OWN_ROW] = min(at_home / value, 1.0) if value > 0 else 0.0
    return Estimate(
        max(value, 0.0),
        max(value - margin, 0.0),
        min(max(value + margin, 0.0), 1.0),
        float(luck.mean() / tried.size),
        note=note_of(sample_note(tried.size, original.shape[0]), f"best by {way}" if value > 0 else ""),
        parts=parts,
    )


@dataclass(frozen=True, repr=False)
class MatchEvidence:
    """What one kind of distance says of matches.

    `ratio` has a number per record, small for a match, and `usual` the same of its stranger; `gains` what each limit
    (a column) finds of it beyond its stranger; `own` says whether the nearest released record is that of its row.
    """

    ratio: Array
    usual: Array
    gains: Array
    limits: Array
    own: Mask


def search_matches(
    original: Matrix,
    released: Matrix,
    seed: int | None,
    pairs: int = PAIRS // 8,
    floor: float = LINKAGE_TIE,
    *,
    outliers: bool = False,
) -> tuple[Index, dict[str, MatchEvidence]]:
    """The rows tried, and by each kind of distance what their nearest released records and other originals say.

    There is no evidence where records or columns are too few. With more `pairs` of records than these a sample is
    tried; `outliers` are tried in any case, if asked for. The `floor` is added to distances: what is nearer than the
    data are precise is as near as can be.
    """
    tried = sampled_rows(original.shape[0], seed, pairs=pairs)
    empty = np.all([np.isnan(column[tried]) for column in original.columns], axis=0)
    tried = tried[~empty]
    if tried.size < FEWEST or released.shape[0] < FEWEST or original.shape[0] < FEWEST:
        return tried, {}
    if all(np.isnan(column).all() for column in released.columns) or len(scales(original)) < FEWEST_COLUMNS:
        return tried, {}
    evidence: dict[str, MatchEvidence] = {}
    rows = with_outlying(original, released, tried) if outliers and are_many(original.shape[0]) else tried
    for name in VIEWS:
        around = around_sample(name, original, released, tried, outliers=outliers)
        evidence |= _evidence(name, around, rows, floor, tried.size)
    return rows, evidence


def _evidence(name: str, around: NearestRecords, tried: Index, floor: float, drawn: int) -> dict[str, MatchEvidence]:
    """The ratios of the records `tried` (rows) and of their strangers, from who is `around` them.

    `name` is that of the view; the `floor` is added to distances. What is usual is that of the first records, which
    were `drawn` at random.
    """
    near, others, own = around.released_at, around.others_at[:, 1:], around.own  # but for itself
    first, second = _first_claim(around.released[:, 0], near[:, 0]), _first_claim(around.strangers(tried), others[:, 0])
    margins = np.where(first, _ratio(near.T, floor), 1.0), np.where(second, _ratio(others.T, floor), 1.0)
    if name == BY_RANKS:
        # A record that has but one value of its own, all others being zero, say, stands between two others that are
        # a rank away each; released ones never are so even.
        even = (others[:, 0] > LINKAGE_TIE) & (others[:, 1] <= reach(others[:, 0]))
        margins = np.where(even, 1.0, margins[0]), margins[1]
    both = near[:, 0], others[:, 0]
    copies = np.where(first, _ratio(both, floor), 1.0), np.where(second, _ratio(both[::-1], floor), 1.0)
    # Who is far from everybody in both files: chosen alike for record and stranger, so that neither has an advantage.
    apart = np.minimum(near[:, 1], others[:, 1])
    alone = apart >= np.quantile(apart, 1 - REMOTE)
    remote = np.where(alone, margins[0], 1.0), np.where(alone, margins[1], 1.0)
    ratios = {
        f"margin by {name}": (*margins, np.quantile(margins[1], SHARES)),
        f"{REMOTE_ALONE} by {name}": (*remote, np.quantile(margins[1][alone], SHARES)),
        f"nearly copied by {name}": (*copies, NEARLY),
    }
    found = {}
    for way, (ratio, usual, limits) in ratios.items():
        gains = (ratio[:, None] < limits).astype(float) - (usual[:, None] < limits)
        found[way] = MatchEvidence(ratio, usual[:drawn], gains, limits, own)
    return found


def _first_claim(which: Index, distance: Array) -> Mask:
    """Those who are nearer than all others whose nearest record is the same one: it can be the match of one only."""
    order = np.lexsort((distance, which))
    same = np.append(which[order[1:]] == which[order[:-1]], False)
    first = np.ones(order.size, dtype=bool)
    first[order[1:]] = ~same[:-1]
    tied = same & (np.append(distance[order[1:]], np.inf) <= reach(distance[order]))
    first[order[tied]] = False  # nobody is nearest
    return first


def _ratio(distances: Sequence[Array] | Array, floor: float) -> Array:
    """Of the first to the second; 1 where there is no distance at all: what many share is nobody's."""
    return (distances[0] + floor) / (distances[1] + floor)


@attack(
    "how sure an intruder can be of the record at highest risk: one less the probability that a stranger stands out so",
    default=True,
    on_disk="sample",
)
def max_record_risk(
    original: Matrix, released: Matrix, *, labels: LabelPair | None = None, seed: int | None = None
) -> Estimate:
    """The record at highest risk, as `assessment.records` has them.

    Averages hide persons: if one of a thousand is given away, linkage is .001, which is luck. So each record is looked
    at for itself, in any row and by three kinds of distance: how far does its nearest released record stand out from
    the second nearest, or from the nearest other original? The other originals show how often strangers stand out as
    much (an exponential tail is fitted to the tenth that stands out most); if the record is in its own row, luck would
    have had to find the row as well. The risk is the probability that of as many strangers, looked at in as many ways,
    nobody stands out so: near 1 if this can hardly be luck.

    If nobody can be found the largest risk is anywhere between 0 and 1, so chance is one half, and luck exceeds a limit
    of .95 in about one release of twenty, .99 in one of a hundred. It is no share, and so no part of `worst_attack`. In
    few columns of few whole numbers it is rather too high. Labels count as columns of 0 and 1.

    Of more than 20,000 records a random sample is looked for. Of more than 100,000 so are, in any case, those that
    stand apart (the most remote, the ends of each column) and those that are nearest to their own release; all are
    judged as one of all records, and the interval ends at 1, as somebody who was not looked for may be at more risk.
    """
    found, count = records_at_risk(original, released, seed, labels), original.shape[0]
    if not found["row"]:
        return Estimate(0.0, chance=0.0, note="there are too few records to know what is usual")
    sample, risks = sample_note(len(found["row"]), count), found["risk"]
    parts = {f"records above {limit}": float(sum(risk > limit for risk in risks)) for limit in (0.95, 0.99)}
    if not are_many(count):
        return Estimate(max(risks), chance=0.5, note=sample, parts=parts)
    note = (
        f"{len(risks)} of {count} records were looked for: a random sample, and all that stand apart or hardly changed"
    )
    return Estimate(max(risks), max(risks), 1.0, 0.5, note, parts)


def records_at_risk(
    original: Matrix, released: Matrix, seed: int | None = None, labels: LabelPair | None = None
) -> dict[str, list[Any]]:
    """Every record (of many a sample), the one at highest risk first; see `max_record_risk`.

    Gives columns by name: `row`, a number from 0, the `risk`, and the `reason` in words, without a value. The `labels`
    of the same records, if there are any, count as further columns.
    """
    steps = [(step_of(original.columns[j]) or 0.0) / sd for j, (_, sd) in scales(original, needed=True).items()]
    floor = max(float(np.sqrt(np.square(steps).sum())), LINKAGE_TIE)  # rounded data agree by luck
    if labels is not None:
        terms = indicator_columns(labels.hidden.of_labels, MOST_TERMS, fewest=FEWEST)[:2]
        original, released = (
            Matrix([*table.columns, *of.T]) for table, of in zip((original, released), terms, strict=True)
        )
    tried, found = search_matches(original, released, seed, PAIRS, floor, outliers=True)
    if not found or tried.size < CROWD:
        return {"row": [], "risk": [], "reason": []}
    evidence = {way: one for way, one in found.items() if REMOTE_ALONE not in way}  # of every record
    rare = [rarity(one.ratio, one.usual) for one in evidence.values()]
    owned = [
        np.where(one.own, probability / released.shape[0], 1.0)
        for one, probability in zip(evidence.values(), rare, strict=True)
    ]
    probabilities = np.stack([*rare, *owned])
    best = probabilities.argmin(axis=0)
    least = probabilities[best, np.arange(tried.size)]
    among = original.shape[0] if are_many(original.shape[0]) else tried.size
    risk = np.exp(-least * len(probabilities) * among)
    order = np.argsort(-risk, kind="stable")
    ways = list(evidence)
    reasons = []
    for way in best[order]:
        kind, _, view = ways[way % len(ways)].partition(" by ")
        own = ", in its own row" if way >= len(ways) else ""
        reasons.append(REASONS["nearly copied" if kind == "nearly copied" else "margin"].format(own=own, by=BY[view]))
    return {"row": tried[order].tolist(), "risk": risk[order].tolist(), "reason": reasons}


def rarity(ratio: Array, usual: Array) -> Array:
    """The probability that a stranger's ratio is as small; an exponential tail is fitted to the rarest tenth."""
    depth, known = -np.log(ratio), np.sort(-np.log(usual))
    start = float(np.quantile(known, 1 - TAIL))
    beyond = known[known > start] - start
    share = max(beyond.size, 1) / known.size
    if np.unique(beyond).size < TAIL * known.size / 2:  # too coarse to show what is rare
        return np.full(ratio.size, share)
    tail = share * np.exp(-np.maximum(depth - start, 0.0) / float(beyond.mean()))
    inside = (known.size - np.searchsorted(known, depth, "left")) / known.size
    return np.where(depth > start, tail, np.maximum(inside, share))
