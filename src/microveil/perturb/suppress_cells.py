"""Local suppression: the fewest labels are left out until every record shares its key with others."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from microveil.core.arrays import Array, Index
from microveil.core.errors import DataError, ParameterError, did_you_mean
from microveil.core.keys import MISSING, Codes, Missing, grouped, key_counts
from microveil.perturb.base import LabelPerturbation, Labels

Bits = NDArray[np.int64]
"""Columns as bits of a number."""

MOST_COLUMNS = 60
"""Columns that have a bit each."""

MOST_RECORDS, MOST_PAIRS = 2_000, 10_000_000
"""Records with a rare key that are treated together, and pairs of records that are compared at once."""

FEW_BITS = 12
"""Columns whose sets are few enough to be counted one by one."""

CANDIDATES = 48
"""Sets of cells of a record that are tried, the cheapest ones."""

HELP, FEW = (0.3, 0.0, 1.0), 1_000
"""How much matches that a missing cell gives to other records count: among few records several searches are made, of
which the best is taken."""

FINER = 1e-6
"""What a cell of the column with most levels costs less: of two that do as well, the finer one is left out."""

ALL_SUBSETS = 10
"""Columns up to which all sets of them are tried where a missing cell is a level."""


class SuppressCells(LabelPerturbation):
    """Leave out as few labels as possible, so that each record has the same key as at least k - 1 others.

    The columns together are the key (Samarati and Sweeney 1998). By default a missing cell matches every label, as in
    sdcMicro: one record with a cell left out can be the match of many. With `missing="level"` it matches missing cells
    only, so that what is to be seen of a record is to be seen k times. Which cells to leave out is a search, the best
    share of matches for its cost first, then backwards for what is no longer needed; nothing is random. Numbers that
    are named are taken for labels.
    """

    reference: ClassVar[str] = "Samarati and Sweeney (1998); Templ, Kowarik and Meindl (2015), §4.3"
    random: ClassVar[bool] = False

    k: int = Field(default=3, ge=2, description="records that must share a key, at least")
    importance: Mapping[str, int] | None = Field(
        default=None,
        description="columns by importance: 1 is left out last, and those that are not named come first",
        json_schema_extra={"allowed": "a whole number of at least 1 for each of some columns"},
    )
    missing: Missing = Field(
        default="matches", description="what a missing cell is equal to: every label, or missing ones only (level)"
    )

    @field_validator("importance")
    @classmethod
    def _ranks(cls, value: Mapping[str, int] | None) -> Mapping[str, int] | None:
        if value is not None and any(rank < 1 for rank in value.values()):
            raise ValueError("the most important column has 1, less important ones more")
        return value

    def mask_labels(self, labels: Labels) -> Codes:
        """The codes with some of them left out."""
        rows, width = labels.codes.shape
        if rows < self.k:
            raise ParameterError(f"k: {self.k} records cannot share a key, as there are {rows}", "use a smaller k")
        if width > MOST_COLUMNS:
            raise DataError(f"{width} columns make a key, and {MOST_COLUMNS} can", "name fewer in confidential")
        costs = costs_of(labels.names, self.importance)
        costs -= FINER * labels.codes.max(axis=0) / max(int(labels.codes.max()), 1)
        search = with_matches if self.missing == "matches" else with_level
        new = search(labels.codes, self.k, costs)
        gone = ((new < 0) & (labels.codes >= 0)).sum(axis=0).tolist()
        labels.found["suppressed"] = float(sum(gone))
        each = ", ".join(f"{name} {count}" for name, count in zip(labels.names, gone, strict=True) if count)
        labels.notes.append(
            f"{sum(gone)} of {rows * width} cells are left out" + (f": {each}" if each else "")
            + f"; every record has the labels of {self.k - 1} others at least, a missing cell "
            + ("matching every label" if self.missing == "matches" else "being a level of its own")
        )  # fmt: skip
        return new


def costs_of(names: tuple[str, ...], importance: Mapping[str, int] | None) -> Array:
    """What a cell of each column costs: 1, and with each step of importance more than all cells of a record below."""
    given = importance or {}
    for name in given:
        if name not in names:
            raise ParameterError(f"importance: there is no column '{name}' in the key", did_you_mean(name, names))
    ranks = sorted(set(given.values()), reverse=True)
    steps = [ranks.index(given[name]) + 1 if name in given else 0 for name in names]
    return np.array([float(len(names) + 1) ** step for step in steps])


# --- A missing cell matches every label


def with_matches(codes: Codes, k: int, costs: Array) -> Codes:
    """Codes (records x columns) of which k match each other or more, if missing cells match everything.

    Records with a rare key are compared with each other and with the keys of all others; if there are many, in parts,
    in the order of their keys. What a part does not see can only add matches.
    """
    new, matches = codes.copy(), key_counts(codes).sample
    rare = np.flatnonzero(matches < k)
    common = np.flatnonzero(matches >= k)
    first, group = grouped(codes[common])
    keys, sizes = codes[common[first]], np.bincount(group, minlength=first.size)
    most = max(2 * k, min(MOST_RECORDS, MOST_PAIRS // (first.size + 1)))
    # Coarse columns first, so that a part has those of similar records.
    order = np.lexsort([codes[rare, j] for j in np.argsort(-codes.max(axis=0, initial=0), kind="stable")])
    for part in np.array_split(rare[order], max(-(-rare.size // most), 1)):
        if part.size:
            new[part] = _Part(codes[part], matches[part], keys, sizes, k, costs).searched()
    return new


class _Part:
    """Records with a rare key, each of them a number, and how many records match them as cells are left out."""

    def __init__(
        self, codes: Codes, matches: NDArray[np.int64], keys: Codes, sizes: Index, k: int, costs: Array
    ) -> None:
        """Compare all `codes` with each other and with the common `keys`.

        Args:
            codes: records with a rare key x columns.
            matches: how many records match each of them.
            keys: keys that are common x columns.
            sizes: how many records have each of these.
            k: how many have to match.
            costs: what a cell of each column costs.
        """
        self.codes, self.first_matches, self.k, self.costs = codes, matches, k, costs
        every = np.concatenate([codes, keys])
        self.size = np.concatenate([np.ones(len(codes)), sizes])
        self.bits = 1 << np.arange(codes.shape[1], dtype=np.int64)
        self.given: Bits = ((every < 0) * self.bits).sum(axis=1)
        self.differ: Bits = np.zeros((len(codes), len(every)), dtype=np.int64)
        for own, column, bit in zip(codes.T, every.T, self.bits, strict=True):
            self.differ |= (own[:, None] != column) * bit

    def searched(self) -> Codes:
        """The codes, with the cells left out that have been found: of several searches, the cheapest."""
        tries = HELP if len(self.codes) <= FEW else HELP[:1]
        found = min((self._search(weight) for weight in tries), key=self._total)
        return np.where((found[:, None] & self.bits) > 0, MISSING, self.codes)

    def _total(self, blank: Bits) -> float:
        return float(self._cost(blank & ~self.given[: blank.size]).sum())

    def _cost(self, sets: Bits) -> Array:
        return ((sets[:, None] & self.bits) > 0) @ self.costs

    def _search(self, weight: float) -> Bits:
        """Which cells are blank after a search in which matches for others count `weight` times as much as own ones."""
        self.blank, self.matches, self.weight = self.given.copy(), self.first_matches.copy(), weight
        self.lacks = np.zeros(self.size.size)
        self.lacks[: len(self.codes)] = 1.0
        # The best set of cells of each record; it can only become less good, so it is looked at again in its turn.
        heap = [(-worth, row, cells) for row in range(len(self.codes)) for worth, cells in [self._best(row)]]
        heapq.heapify(heap)
        while heap:
            _, row, _ = heapq.heappop(heap)
            if not self._needs(row):
                continue
            worth, cells = self._best(row)
            if heap and worth < -heap[0][0]:
                heapq.heappush(heap, (-worth, row, cells))
                continue
            self._blank_out(row, cells)
            if self._needs(row):
                heapq.heappush(heap, (-worth, row, cells))
        self._put_back()
        return self.blank[: len(self.codes)]

    def _whole(self, row: int) -> bool:
        return bool(self.blank[row] == self.given[row])

    def _needs(self, row: int) -> bool:
        """Does a record lack matches? Or a cell that is left out: blanks of others alone do not hide it."""
        return bool(self.matches[row] < self.k) or self._whole(row)

    def _best(self, row: int) -> tuple[float, int]:
        """The cells of a record that gain most of what is needed for each unit of cost, and how much."""
        apart = self.differ[row] & ~(self.blank | self.blank[row])
        if self.bits.size <= FEW_BITS:  # then the sets are numbers that can be counted as they are
            sizes = np.bincount(apart, self.size)
            sets = np.flatnonzero(sizes)
            sizes, lacking = sizes[sets], np.bincount(apart, self.lacks)[sets]
        else:
            sets, at = np.unique(apart, return_inverse=True)
            sizes, lacking = (np.bincount(at.ravel(), counts, sets.size) for counts in (self.size, self.lacks))
        sizes[sets == 0] = lacking[sets == 0] = 0.0
        single = self.bits[(self.bits & self.blank[row]) == 0]
        tried = np.unique(np.append(sets[sets > 0], single))
        costs = self._cost(tried)
        cheapest = np.argsort(costs, kind="stable")[:CANDIDATES]
        tried, costs = tried[cheapest], costs[cheapest]
        inside = ((sets[:, None] & ~tried) == 0).astype(np.float64)
        own = np.minimum(sizes @ inside, max(self.k - int(self.matches[row]), 0))
        worth = (own + self._whole(row) + self.weight * (lacking @ inside)) / costs
        best = int(np.argmax(worth))
        return float(worth[best]), int(tried[best])

    def _blank_out(self, row: int, cells: int) -> None:
        apart = self.differ[row] & ~(self.blank | self.blank[row])
        new = (apart > 0) & ((apart & ~cells) == 0)
        self.blank[row] |= cells
        self.matches[row] += int(self.size[new].sum())
        mine = new[: len(self.codes)]
        self.matches[mine] += 1
        self.lacks[: len(self.codes)] = self.matches < self.k

    def _put_back(self) -> None:
        """Put cells back that are no longer needed, the dearest first."""
        rows, columns = np.nonzero(((self.blank & ~self.given)[: len(self.codes), None] & self.bits) > 0)
        for at in np.argsort(-self.costs[columns], kind="stable").tolist():
            row, bit = int(rows[at]), self.bits[columns[at]]
            lost = (self.differ[row] & ~(self.blank | (self.blank[row] & ~bit))) == bit
            own, mine = int(self.matches[row]) - int(self.size[lost].sum()), lost[: len(self.codes)]
            only = (self.blank[row] & ~self.given[row]) == bit
            if own >= self.k and (self.matches[mine] > self.k).all() and not only:
                self.blank[row] &= ~bit
                self.matches[row] = own
                self.matches[mine] -= 1


# --- A missing cell is a level of its own


def with_level(codes: Codes, k: int, costs: Array) -> Codes:
    """Codes (records x columns) of which k or more are equal, missing cells to missing ones only.

    Sets of columns are left out, the cheapest first, wherever this makes k records with a rare key equal. The few that
    are left in the end lose all labels, together with as many others as they need.
    """
    new = codes.copy()
    waiting = np.flatnonzero(key_counts(new, missing="level").sample < k)
    for columns in _column_sets(codes.shape[1], costs):
        if not waiting.size:
            return new
        tried = new.copy()
        tried[np.ix_(waiting, np.array(columns))] = MISSING
        counts = key_counts(tried, missing="level").sample[waiting]
        new[waiting[counts >= k]] = tried[waiting[counts >= k]]
        waiting = waiting[counts < k]
    while waiting.size:
        waiting = _with_company(new, waiting, k)
    return new


def _column_sets(width: int, costs: Array) -> list[list[int]]:
    """Sets of columns, cheapest first: all of them, or of many columns those that grow by the cheapest one."""
    if width > ALL_SUBSETS:
        order = np.argsort(costs, kind="stable").tolist()
        return [order[: size + 1] for size in range(width)]
    sets = [list(chosen) for size in range(1, width + 1) for chosen in combinations(range(width), size)]
    return sorted(sets, key=lambda chosen: float(costs[chosen].sum()))


def _with_company(new: Codes, waiting: Index, k: int) -> Index:
    """Leave out all cells of the few that wait, and of others: of large groups, or else of a whole small one."""
    new[waiting] = MISSING
    first, group = grouped(new)
    sizes = np.bincount(group)
    blank = group[waiting[0]]
    needed = k - int(sizes[blank])
    if needed <= 0:
        return waiting[:0]
    spare = np.where(np.arange(first.size) == blank, 0, sizes - k)
    largest = int(np.argmax(spare))
    if spare[largest] > 0:
        given = np.flatnonzero(group == largest)[: min(needed, int(spare[largest]))]
    else:
        sizes[blank] = len(new) + 1
        given = np.flatnonzero(group == int(np.argmin(sizes)))
    return np.concatenate([waiting, given])
