"""Interval disclosure: does the release tell a value nearly, even if the intruder does not have the right record?

Columns that are constant in the original hold no secret, and are left out.
"""

from __future__ import annotations

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import ParameterError
from microveil.core.measure import Reading, standardised, varying
from microveil.core.table import Matrix
from microveil.risk.linkage import links_of
from microveil.risk.neighbours import Index
from microveil.risk.shares import attack, sampled_rows, share_of

PERCENTS = tuple(range(1, 11))
"""Half-widths of the intervals, in per cent of the records (or of the standard deviation); the mean is taken."""

MOST_RANKS = 5_000
"""Released records the chance level is worked out from, evenly spaced in rank."""


@attack(
    "share of values that lie in a narrow rank interval around the nearest released record's, half-widths of 1 to 10 %",
    cost="slow",
    paired=True,
)
def interval_disclosure(original: Matrix, released: Matrix, *, seed: int | None = None) -> Reading:
    """Rank interval disclosure around the closest record (Calviño 2017, §4.1).

    The intruder links a record to the nearest released one, as in `dbrl`, and believes that each value of the record
    lies near the released value: between the two released values whose ranks are p % of the records above and below.
    The figure is the share of values for which that is so, over p = 1 ... 10 %, the columns and the records. Chance is
    the share for a released record picked at random.
    """
    tried = sampled_rows(original.shape[0], seed)
    nearest = links_of(*standardised(original, released), tried).nearest
    return disclosed(original, released, tried, nearest)


@attack(
    "share of values that lie in a narrow rank interval around their own released value, half-widths of 1 to 10 %",
    cost="fast",
    paired=True,
)
def interval_disclosure_own(original: Matrix, released: Matrix) -> Reading:
    """Rank interval disclosure around the own record (Domingo-Ferrer and Torra 2001; Calviño et al. 2017, §2).

    The intruder already knows which released record is whose (an identifier was left in, or the linkage succeeded),
    and wonders what the perturbed values still tell: each value is believed to lie between the two released values
    whose ranks are p % of the records above and below the released one. Averages and chance as in
    `interval_disclosure`.
    """
    rows = np.arange(original.shape[0])
    return disclosed(original, released, rows, rows)


@attack(
    "share of values within 1 to 10 % of a standard deviation of their own released value",
    cost="fast",
    paired=True,
)
def interval_disclosure_sd(
    original: Matrix, released: Matrix, *, widths: tuple[float, ...] = tuple(p / 100 for p in PERCENTS)
) -> Reading:
    """Standard-deviation interval disclosure, SDID (Mateo-Sanz, Sebé and Domingo-Ferrer 2004).

    As `interval_disclosure_own`, but the intruder believes each value to lie within some share of the released
    column's standard deviation (divisor n - 1). The part `whole records` counts records of which *all* values lie in
    their intervals; with one width this is sdcMicro's `dRisk`. No sampling is involved in either.
    """
    if not widths or min(widths) < 0:
        raise ParameterError("widths: must be shares of a standard deviation, at least one", "give for example 0.05")
    hits, cells = 0, 0
    whole, known = np.ones((len(widths), original.shape[0]), dtype=bool), np.zeros(original.shape[0], dtype=bool)
    for old, new in varying(original, released):
        there, seen = new[~np.isnan(new)], ~np.isnan(old)
        sd = there.std(ddof=1) if there.size > 1 else 0.0
        inside = np.abs(old - new) <= sd * np.array(widths)[:, None]
        hits, cells = hits + int(inside.sum()), cells + int(seen.sum())
        whole &= inside | ~seen
        known |= seen
    return Reading(hits / (len(widths) * max(cells, 1)), parts={"whole records": float((whole & known).mean())})


def disclosed(original: Matrix, released: Matrix, tried: Index, linked: Index) -> Reading:
    """Each value of the originals tried, against the intervals around the released records they are linked to.

    For the interval of the figure a record counts as one try, as its values are not independent of each other.
    """
    hits, known, chances = 0.0, 0, []
    for old, new in varying(original, released):
        ordered, rank = _ordered(new)
        known += int(np.count_nonzero(~np.isnan(old[tried])))
        if ordered.size:
            hits += _inside(old[tried], ordered, rank[linked])
            chances.append(_by_luck(old, ordered))
    chance = float(np.mean(chances)) if chances else None
    return share_of(hits / max(known, 1) * tried.size, tried.size, chance=chance, of=original.shape[0])


def _ordered(column: Array) -> tuple[Array, Index]:
    """The values that are there in ascending order, and the rank of each cell from 0 (-1 where it is missing)."""
    order = np.argsort(column, kind="stable")
    there = order[: column.size - np.count_nonzero(np.isnan(column))]  # missing cells are sorted to the end
    rank = np.full(column.size, -1, dtype=np.intp)
    rank[there] = np.arange(there.size)
    return column[there], rank


def _bounds(ordered: Array, rank: Index, percent: int) -> tuple[Array, Array]:
    """The released values whose ranks are so many per cent of the records below and above."""
    reach = int(ordered.size * percent / 100 + 1e-9)
    return ordered[np.maximum(rank - reach, 0)], ordered[np.minimum(rank + reach, ordered.size - 1)]


def _inside(values: Array, ordered: Array, rank: Index) -> float:
    """The number of values in their intervals, mean over the half-widths. A missing cell is in none."""
    there, hits = rank >= 0, 0
    for percent in PERCENTS:
        low, high = _bounds(ordered, rank, percent)
        hits += int(np.count_nonzero((low <= values) & (values <= high) & there))
    return hits / len(PERCENTS)


def _by_luck(values: Array, ordered: Array) -> float:
    """The share of (value, released record) pairs with the value in the interval; of some records if there are many."""
    values = np.sort(values[~np.isnan(values)])
    rank = np.linspace(0, ordered.size - 1, min(ordered.size, MOST_RANKS)).astype(np.intp)
    hits = 0
    for percent in PERCENTS:
        low, high = _bounds(ordered, rank, percent)
        hits += int((np.searchsorted(values, high, "right") - np.searchsorted(values, low, "left")).sum())
    return hits / (len(PERCENTS) * rank.size * max(values.size, 1))
