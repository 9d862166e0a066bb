"""Reconstruction: exact facts about a record, left in the release by what was not touched.

The intruder has found somebody's released record (component removal links every one), knows a few of the original
values, and wants the others. A method that perturbs or removes some components leaves all others of each record as they
were; and which these are can be read off the release: removed components are the directions without variance, and where
covariances are kept exactly the axes are the original's own. So the original differs from its release in a few known
directions only, by amounts that a few known values determine, and the rest is arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError
from microveil.core.linalg import independent_columns, sorted_eigen
from microveil.core.rng import Streams
from microveil.core.table import Matrix
from microveil.measures.base import Estimate, scales, standardised
from microveil.measures.nearest.distances import Index
from microveil.measures.risk.proportions import attack, sampled_rows, share_of
from microveil.measures.risk.subspace import selections

WITHIN = 0.01
"""A value is reconstructed if the guess is this near, in standard deviations of the column."""

DRAWS_PER_SIZE = 5
MOST_SIZES = 12
MOST_TRIED = 2_000

NO_MORE = 0.01
"""A gain in the share of values that is not worth another known column."""

VAGUE = 1e-6
"""Known values that tell less than this of a direction tell nothing of it."""


@attack(
    "share of unknown values that follow within 1 % of a standard deviation from the release and some known values",
    paired=True,
)
def reconstruction(original: Matrix, released: Matrix, *, seed: int | None = None) -> Estimate:
    """Values computed from the components that were left alone (D'Acquisto and Naldi's removal, partial swaps).

    The intruder knows 1, 2, 3 ... columns of a record, five random choices each, its own released record, and means and
    standard deviations of the original. Changed components are taken to be a single one, the leading k or the trailing
    k of the release's principal components (removed ones are trailing), the best of all these being reported, as if the
    method were known; the difference between original and release is solved for in them by least squares. Where columns
    are computed from others by a rule, both is tried: with them, and without, as methods leave them out (of a total and
    its parts the total).

    The same with a *stranger's* released record is the chance level: what the known values and rules between columns
    tell by themselves (a total whose parts are known is no disclosure of the release). The figure is that of the fewest
    known columns with which the attack gains most over it; the parts have the whole curve.
    """
    whole, chosen = list(scales(original, needed=True)), _independent(original)
    if len(whole) < 2:
        raise DataError("reconstruction: needs two columns that vary", "there must be one to know and one to compute")
    rows = sampled_rows(original.shape[0], seed, sample=MOST_TRIED)
    sets = [whole] if len(chosen) in (0, 1, len(whole)) else [whole, chosen]
    curve = max(
        (_curve(original.select(s), released.select(s), rows, seed) for s in sets), key=lambda curve: curve.gain
    )
    power = "" if curve.gain > NO_MORE else "; the attack had no power: a stranger's record tells as much"
    return share_of(
        curve.own[curve.fewest] * rows.size,
        rows.size,
        chance=curve.luck[curve.fewest],
        of=original.shape[0],
        note=f"with {curve.fewest} of {curve.width} columns known{power}",
        parts={f"{size} known": share for size, share in curve.own.items()},
    )


@dataclass(frozen=True)
class Curve:
    """Shares of values computed, by the number of columns known: from the own released record, and from another."""

    width: int
    own: Mapping[int, float]
    luck: Mapping[int, float]

    @property
    def gain(self) -> float:
        """The most that the own record tells beyond another one."""
        return max(self.own[size] - self.luck[size] for size in self.own)

    @property
    def fewest(self) -> int:
        """The fewest known columns with which (nearly) as much is gained."""
        return next(size for size in self.own if self.own[size] - self.luck[size] >= self.gain - NO_MORE)


def _curve(original: Matrix, released: Matrix, rows: Index, seed: int | None) -> Curve:
    """The shares of values of some `rows` that are computed, by the number of known columns."""
    before, after = standardised(original, released)
    width, streams = before.shape[1], Streams.from_seed(seed)
    order = streams.stream("strangers").generator().permutation(rows.size)
    own, strangers = rows[order], rows[np.roll(order, 1)]
    filled = np.nan_to_num(after)
    axes = sorted_eigen(filled.T @ filled / len(filled))[1]
    directions = [axes[:, chosen] for _, chosen in selections(width, "principal") if chosen != slice(0, width)]
    found, luck = {}, {}
    for size in sorted({round(step) for step in np.linspace(1, width - 1, min(width - 1, MOST_SIZES))}):
        generator = streams.stream("known columns").generator(size)
        draws = [generator.permutation(width)[:size] for _ in range(DRAWS_PER_SIZE)]
        found[size] = _best(before[own], after[own], directions, draws)
        luck[size] = _best(before[own], after[strangers], directions, draws)
    return Curve(width, found, luck)


def _independent(original: Matrix) -> list[int]:
    """Columns that vary and are not determined by others that vary less; in their order."""
    found = scales(original, needed=True)
    numbers = sorted(found, key=lambda j: found[j][1])
    values = np.column_stack([np.nan_to_num((original.columns[j] - found[j][0]) / found[j][1]) for j in numbers])
    return sorted(numbers[place] for place in independent_columns(values.T @ values / len(values)))


def _best(truth: Array, released: Array, directions: list[Array], draws: list[Index]) -> float:
    """The share of unknown cells computed, in those of the `directions` in which most are; mean over the `draws`."""
    return max(
        float(np.mean([_computed(truth, released, changed, known) for known in draws])) for changed in directions
    )


def _computed(truth: Array, released: Array, changed: Array, known: Index) -> float:
    """The share of unknown cells that follow from the known ones, if only the `changed` directions differ."""
    unknown = np.delete(np.arange(truth.shape[1]), known)
    moved = np.nan_to_num(truth[:, known] - released[:, known])
    guesses = released[:, unknown] + moved @ (changed[unknown] @ np.linalg.pinv(changed[known], rcond=VAGUE)).T
    hits = int(np.count_nonzero(np.abs(guesses - truth[:, unknown]) <= WITHIN))
    return hits / max(int(np.count_nonzero(~np.isnan(truth[:, unknown]))), 1)
