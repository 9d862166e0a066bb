"""Interval disclosure: does the release tell a value nearly, even if the intruder does not have the right record?

Columns that are constant in the original hold no secret, and are left out.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import ParameterError
from microveil.core.in_order import pieces_of
from microveil.core.measure import Reading, scale_of, scales, standardised
from microveil.core.table import Matrix
from microveil.core.threads import in_threads, segments
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
    before, after = (table.select(list(scales(original, needed=True))) for table in (original, released))
    reach = np.multiply.outer(np.array(widths), [_sample_sd(column) for column in after.columns])[:, :, None]

    def inside(pieces: list[slice]) -> Array:
        total = np.zeros(3)
        for piece in pieces:
            old, new = before.piece(piece), after.piece(piece)
            seen, near = ~np.isnan(old), np.abs(old - new) <= reach
            whole = (near | ~seen).all(axis=1) & seen.any(axis=0)
            total += near.sum(), seen.sum(), whole.sum()
        return total

    runs = segments(original.shape[0], len(widths) * before.shape[1])
    hits, cells, whole = np.sum(in_threads([partial(inside, run) for run in runs]), axis=0)
    share = float(whole) / (len(widths) * original.shape[0])
    return Reading(float(hits) / (len(widths) * max(float(cells), 1.0)), parts={"whole records": share})


def _sample_sd(column: Array) -> float:
    """The standard deviation with divisor n - 1; 0 for a constant column."""
    count = sum(int(np.count_nonzero(~np.isnan(piece))) for piece in pieces_of(column))
    _, sd = scale_of(column) or (0.0, 0.0)
    return sd * float(np.sqrt(count / max(count - 1, 1)))


def disclosed(original: Matrix, released: Matrix, tried: Index, linked: Index) -> Reading:
    """Each value of the originals tried, against the intervals around the released records they are linked to.

    For the interval of the figure a record counts as one try, as its values are not independent of each other.
    """
    hits, known, chances = 0.0, 0, []
    for j in scales(original, needed=True):
        values, ordered = original.columns[j][tried], released.in_order(j)[:]
        known += int(np.count_nonzero(~np.isnan(values)))
        if ordered.size:
            hits += _inside(values, ordered, _ranks(released.columns[j], ordered, linked))
            chances.append(_by_luck(original.in_order(j)[:], ordered))
    chance = float(np.mean(chances)) if chances else None
    return share_of(hits / max(known, 1) * tried.size, tried.size, chance=chance, of=original.shape[0])


def _ranks(column: Array, ordered: Array, rows: Index) -> Index:
    """Ranks of some cells from 0 (-1 where one is missing); equal cells have theirs in the order of the rows."""
    if isinstance(column, np.ndarray):
        rank = np.full(column.size, -1, dtype=np.intp)
        rank[np.argsort(column, kind="stable")[: ordered.size]] = np.arange(ordered.size)  # missing cells come last
        return rank[rows]
    cells = column[rows]
    first = np.searchsorted(ordered, cells, "left")
    tied = np.flatnonzero(np.searchsorted(ordered, cells, "right") > first + 1)
    if tied.size:
        first[tied] += _equals_before(column, cells[tied], rows[tied])
    return np.where(np.isnan(cells), -1, first)


def _equals_before(column: Array, cells: Array, rows: Index) -> Index:
    """How many equal cells come before some, of a column that is read in pieces."""
    values, which = np.unique(cells, return_inverse=True)
    passed, before, start = np.zeros(values.size, dtype=np.intp), np.zeros(rows.size, dtype=np.intp), 0
    for piece in pieces_of(column):
        place = np.minimum(np.searchsorted(values, piece), values.size - 1)
        group = np.where(values[place] == piece, place, values.size)
        for asked in np.flatnonzero((rows >= start) & (rows < start + piece.size)):
            own = which[asked]
            before[asked] = passed[own] + np.count_nonzero(group[: rows[asked] - start] == own)
        passed += np.bincount(group, minlength=values.size + 1)[:-1]
        start += piece.size
    return before


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
    """The share of (value, released record) pairs with the value in the interval; of some records if there are many.

    Both come in ascending order.
    """
    rank = np.linspace(0, ordered.size - 1, min(ordered.size, MOST_RANKS)).astype(np.intp)
    hits = 0
    for percent in PERCENTS:
        low, high = _bounds(ordered, rank, percent)
        hits += int((np.searchsorted(values, high, "right") - np.searchsorted(values, low, "left")).sum())
    return hits / (len(PERCENTS) * rank.size * max(values.size, 1))
