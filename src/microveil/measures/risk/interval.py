"""Interval disclosure: does the release give a value away nearly, even without the right record?

Columns that are constant in the original hold no secret, and are left out.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import ParameterError
from microveil.core.sorted_columns import pieces_of
from microveil.core.table import Matrix
from microveil.core.threads import in_threads, segments
from microveil.measures.base import Estimate, are_many, scale_of, scales, standardised
from microveil.measures.nearest.distances import Index
from microveil.measures.nearest.neighbours import nearest
from microveil.measures.risk.links import around_sample, links_in_pieces, links_of
from microveil.measures.risk.proportions import attack, paired_attack, sampled_rows, share_of
from microveil.storage.disk_columns import RemoteMatrix

PERCENTS = tuple(range(1, 11))
"""Half-widths of the intervals, in per cent of the records (or of the standard deviation); the mean is taken."""

MOST_RANKS = 5_000
"""Released records the chance of a record picked at random is worked out from, evenly spaced in rank."""

MOST_OWN = 100_000
"""Originals whose own release is looked at: their share has an interval of .003 to either side at most."""

MOST_STRANGERS = 20_000
"""Originals tried on strangers at most, evenly spaced in the file: their share has a standard error below .004."""


@paired_attack(
    "share of values that lie in a narrow rank interval around the nearest released record's, half-widths of 1 to 10 %",
    on_disk="columns",
)
def interval_disclosure(
    original: Matrix, released: Matrix, *, seed: int | None = None, sample: int | None = None
) -> Estimate:
    """Rank interval disclosure around the closest record (Calviño 2017, §4.1).

    The intruder links a record to the nearest released one, as in `dbrl`, and believes that each value of the record
    lies between the two released values whose ranks are p % of the records above and below the linked one's. The figure
    is the share of values for which that is so, over p = 1 ... 10 %, the columns and the records.

    The nearest stranger resembles a record, too, the more so the more records there are. So chance is what an unrelated
    release of the same population gives to the same search: the other originals take the place of the release, without
    the cells that the release lacks, and with its cells where they lack their own. Where records are not in memory, a
    `sample` of so many originals is tried.
    """
    count = original.shape[0]
    tried = sampled_rows(count, seed, sample=sample)
    some = tried[np.linspace(0, tried.size - 1, min(tried.size, MOST_STRANGERS)).astype(np.intp)]
    others = strangers(original, released)
    if are_many(count) and sample is None and others is original:
        around = around_sample("dbrl", original, released, tried)
        linked, some, links = around.released[:, 0], tried, around.strangers(tried)
    elif sample is None:
        linked = links_of(*standardised(original, released), tried).nearest
        queries, records = standardised(original, others, some, np.arange(count))
        which, _ = nearest(np.nan_to_num(queries), np.nan_to_num(records), 2)
        links = np.where(which[:, 0] == some, which[:, 1], which[:, 0])  # not to itself
    else:
        linked = links_in_pieces(original, released, tried).nearest
        links = links_in_pieces(original, others, some, own_barred=True).nearest
    chance = share_inside(original, others, some, links, among=True)
    share = share_inside(original, released, tried, linked)
    # A record counts as one try: its values are not independent of each other.
    return share_of(share * tried.size, tried.size, chance=chance, of=count)


@paired_attack(
    "share of values that lie in a narrow rank interval around their own released value, half-widths of 1 to 10 %",
    cost="fast",
    on_disk="columns",
)
def interval_disclosure_own(
    original: Matrix, released: Matrix, *, seed: int | None = None, sample: int | None = None
) -> Estimate:
    """Rank interval disclosure around the own record (Domingo-Ferrer and Torra 2001; Calviño et al. 2017, §2).

    The intruder already knows which released record is whose (an identifier was left in, or the linkage succeeded),
    and wonders what the perturbed values still tell: each value is believed to lie between the two released values
    whose ranks are p % of the records above and below the released one. Averages as in `interval_disclosure`; chance is
    the share for a released record picked at random. Above 100,000 originals so many are tried; of originals that are
    not in memory, a `sample`.
    """
    count = original.shape[0]
    tried = sampled_rows(count, seed, sample=sample or MOST_OWN)
    share, chance = share_inside(original, released, tried, tried), _share_by_luck(original, released)
    return share_of(share * tried.size, tried.size, chance=chance, of=count)


@attack(
    "share of values within 1 to 10 % of a standard deviation of their own released value",
    cost="fast",
    paired=True,
    on_disk="passes",
)
def interval_disclosure_sd(
    original: Matrix, released: Matrix, *, widths: tuple[float, ...] = tuple(p / 100 for p in PERCENTS)
) -> Estimate:
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
    return Estimate(float(hits) / (len(widths) * max(float(cells), 1.0)), parts={"whole records": share})


def _sample_sd(column: Array) -> float:
    """The standard deviation with divisor n - 1; 0 for a constant column."""
    count = sum(int(np.count_nonzero(~np.isnan(piece))) for piece in pieces_of(column))
    _, sd = scale_of(column) or (0.0, 0.0)
    return sd * float(np.sqrt(count / max(count - 1, 1)))


def share_inside(original: Matrix, released: Matrix, tried: Index, linked: Index, *, among: bool = False) -> float:
    """The share of values of the originals tried in the intervals around the released records they are linked to.

    Where they are `among` these records themselves, each is left out of the order that its intervals are taken from.
    """
    rows = np.concatenate([linked, tried]) if among else linked
    hits, known = 0.0, 0
    for j in scales(original, needed=True):
        values, ordered = original.columns[j][tried], released.in_order(j)[:]
        known += int(np.count_nonzero(~np.isnan(values)))
        if ordered.size:
            rank, *own = np.split(_ranks(released.columns[j], ordered, rows), 1 + among)
            hits += _inside(values, ordered, rank, *own)
    return hits / max(known, 1)


def strangers(original: Matrix, released: Matrix) -> Matrix:
    """The originals as an unrelated release of their population, with cells where the release has some."""
    pairs = list(zip(original.columns, released.columns, strict=True))
    pieces = (zip(pieces_of(old), pieces_of(new), strict=True) for old, new in pairs)
    if all(np.array_equal(np.isnan(old), np.isnan(new)) for both in pieces for old, new in both):
        return original
    if isinstance(original, RemoteMatrix):
        return replace(original, columns=[cast(Array, _Filled(old, new)) for old, new in pairs])
    return Matrix([_filled(old, new) for old, new in pairs])


def _filled(old: Array, new: Array) -> Array:
    """The first where the second has cells; what the first lacks is taken from the second."""
    return np.where(np.isnan(old) | np.isnan(new), new, old)


class _Filled:
    """The same of columns on a disk."""

    def __init__(self, old: Array, new: Array) -> None:
        self.old, self.new = old, new
        self.shape, self.size = old.shape, old.size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, rows: slice | Index) -> Array:
        return _filled(self.old[rows], self.new[rows])


def _ranks(column: Array, ordered: Array, rows: Index) -> Index:
    """Ranks of some cells from 0 (-1 where one is missing); equal cells have theirs in the order of the rows."""
    cells = column[rows]
    first = np.searchsorted(ordered, cells, "left")
    tied = np.flatnonzero(np.searchsorted(ordered, cells, "right") > first + 1)
    if tied.size and isinstance(column, np.ndarray):
        rank = np.full(column.size, -1, dtype=np.intp)
        rank[np.argsort(column, kind="stable")[: ordered.size]] = np.arange(ordered.size)  # missing cells come last
        return rank[rows]
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


def _bounds(ordered: Array, rank: Index, percent: int, left_out: Index | None = None) -> tuple[Array, Array]:
    """The released values whose ranks are so many per cent of the records below and above.

    `ordered` has the released values, `rank` (m) the places from which on is counted. For each, one rank may be
    `left_out` (-1: none): those above it are one lower then.
    """
    reach, last = int(ordered.size * percent / 100 + 1e-9), ordered.size - 1
    if left_out is None:
        return ordered[np.maximum(rank - reach, 0)], ordered[np.minimum(rank + reach, last)]
    out = np.where(left_out < 0, ordered.size, left_out)
    rank = rank - (rank > out)
    low, high = np.maximum(rank - reach, 0), np.minimum(rank + reach, last - (out <= last))
    return ordered[np.minimum(low + (low >= out), last)], ordered[high + (high >= out)]


def _inside(values: Array, ordered: Array, rank: Index, left_out: Index | None = None) -> float:
    """The number of `values` (m) in their intervals, mean over the half-widths; a missing cell is in none.

    `ordered`, `rank` and `left_out` are those of `_bounds`.
    """
    there, hits = rank >= 0, 0
    for percent in PERCENTS:
        low, high = _bounds(ordered, rank, percent, left_out)
        hits += int(np.count_nonzero((low <= values) & (values <= high) & there))
    return hits / len(PERCENTS)


def _share_by_luck(original: Matrix, released: Matrix) -> float:
    """The share of values in the interval of a released record picked at random; a missing one gives nothing away."""
    hits, known = 0.0, 0
    for j in scales(original, needed=True):
        values, ordered = original.in_order(j)[:], released.in_order(j)[:]
        known += values.size
        if ordered.size:
            rank = np.linspace(0, ordered.size - 1, min(ordered.size, MOST_RANKS)).astype(np.intp)
            ends = [_bounds(ordered, rank, percent) for percent in PERCENTS]
            pairs = sum(
                int((np.searchsorted(values, high, "right") - np.searchsorted(values, low, "left")).sum())
                for low, high in ends
            )
            share = pairs / (len(PERCENTS) * rank.size * max(values.size, 1))
            hits += share * values.size * ordered.size / released.shape[0]
    return hits / known
