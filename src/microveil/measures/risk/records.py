"""The risk of each single record, for the owner's eyes only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from microveil.core.arrays import Array
from microveil.core.table import Matrix
from microveil.core.tolerances import LINKAGE_TIE
from microveil.measures.base import Estimate, scales
from microveil.measures.nearest.distances import Index
from microveil.measures.risk.matches import REMOTE_ALONE, search_matches
from microveil.measures.risk.proportions import PAIRS, attack, sample_note
from microveil.rules.domain import step_of

TAIL = 0.1
"""Share of the strangers that stand out most, from which it is told how rare it is to stand out still more."""

CROWD = 50
"""Strangers without which it cannot be told what is usual."""

REASONS = {
    "margin": "a released record stands out as the nearest to it{own}, {by}",
    "nearly copied": "nearly copied: a released record is far nearer than any other original{own}, {by}",
}
BY = {"dbrl": "by values", "mahalanobis_linkage": "allowing for correlations", "rank_linkage": "by ranks"}


@attack(
    "how sure an intruder can be of the record at highest risk: one less the probability that a stranger stands out so"
)
def max_record_risk(original: Matrix, released: Matrix, *, seed: int | None = None) -> Estimate:
    """The record at highest risk, as `assessment.records` has them.

    Averages hide persons: a release in which one of a thousand is given away has a linkage of .001, which is luck. So
    each record is looked at for itself, in any row and by three kinds of distance: how much does its nearest released
    record stand out from the second nearest, or from the nearest other original? How often strangers stand out as much
    is told by the other originals (an exponential tail is fitted to the tenth that stands out most); if that record is
    in its own row, luck would have had to find the row as well. The risk is the probability that of as many strangers,
    looked at in as many ways, nobody stands out so: near 1 if this can hardly be luck.

    If nobody can be found the largest risk is anywhere between 0 and 1, so that chance is one half, and a limit of .95
    is exceeded by luck in about one release of twenty, .99 in one of a hundred. It is no share, and so no part of
    `worst_attack`. In few columns of few whole numbers it is rather too high.
    """
    found = records_at_risk(original, released, seed)
    if not found.row.size:
        return Estimate(0.0, chance=0.0, note="there are too few records to tell what is usual")
    sample = sample_note(found.row.size, original.shape[0])
    parts = {f"records above {limit}": float((found.risk > limit).sum()) for limit in (0.95, 0.99)}
    return Estimate(float(found.risk.max()), chance=0.5, note=sample, parts=parts)


@dataclass(frozen=True, repr=False)
class RecordsAtRisk:
    """Records from the one at highest risk on: numbers from 0, the risk, and the reason in words, without a value."""

    row: Index
    risk: Array
    reason: list[str]

    def to_dict(self, most: int) -> dict[str, list[Any]]:
        """Columns by name, of the first few."""
        return {
            "row": self.row[:most].tolist(),
            "risk": self.risk[:most].tolist(),
            "reason": self.reason[:most],
        }


def records_at_risk(original: Matrix, released: Matrix, seed: int | None = None) -> RecordsAtRisk:
    """Every record (of many a sample), the one at highest risk first; see `max_record_risk`."""
    steps = [(step_of(original.columns[j]) or 0.0) / sd for j, (_, sd) in scales(original, needed=True).items()]
    floor = max(float(np.sqrt(np.square(steps).sum())), LINKAGE_TIE)  # rounded data agree by luck
    found = search_matches(original, released, seed, PAIRS, floor)
    if found is None or found.rows.size < CROWD:
        return RecordsAtRisk(np.arange(0), np.zeros(0), [])
    evidence = {way: one for way, one in found.evidence.items() if REMOTE_ALONE not in way}  # of every record
    rare = [rarity(one.ratio, one.usual) for one in evidence.values()]
    owned = [
        np.where(one.own, probability / released.shape[0], 1.0)
        for one, probability in zip(evidence.values(), rare, strict=True)
    ]
    probabilities = np.stack([*rare, *owned])
    best = probabilities.argmin(axis=0)
    least = probabilities[best, np.arange(found.rows.size)]
    risk = np.exp(-least * len(probabilities) * found.rows.size)
    order = np.argsort(-risk, kind="stable")
    ways = list(evidence)
    reason = [_reason(ways[best[i] % len(ways)], own=best[i] >= len(ways)) for i in order]
    return RecordsAtRisk(found.rows[order], risk[order], reason)


def rarity(ratio: Array, usual: Array) -> Array:
    """The probability that a stranger's ratio is as small; an exponential tail is fitted to the rarest tenth."""
    depth, known = -np.log(ratio), np.sort(-np.log(usual))
    start = float(np.quantile(known, 1 - TAIL))
    beyond = known[known > start] - start
    share = max(beyond.size, 1) / known.size
    if np.unique(beyond).size < TAIL * known.size / 2:  # so coarse that it cannot be told what is rare
        return np.full(ratio.size, share)
    tail = share * np.exp(-np.maximum(depth - start, 0.0) / float(beyond.mean()))
    inside = (known.size - np.searchsorted(known, depth, "left")) / known.size
    return np.where(depth > start, tail, np.maximum(inside, share))


def _reason(way: str, *, own: bool) -> str:
    kind, _, view = way.partition(" by ")
    said = REASONS["nearly copied" if kind == "nearly copied" else "margin"]
    return said.format(own=", in its own row" if own else "", by=BY[view])
