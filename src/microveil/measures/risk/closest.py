"""The closest record: did anybody come back, whole or nearly?

The intruder compares the release with people whose data are known, and asks of each: is somebody in it who can be
nobody else? No linkage is needed for that, and no pairing: it is enough that a released record lies where only one
original does.
"""

from __future__ import annotations

import numpy as np

from microveil.core.arrays import Array
from microveil.core.table import Matrix
from microveil.core.tolerances import LINKAGE_TIE
from microveil.measures.base import Estimate, gauge, scales, standardised
from microveil.measures.nearest.distances import Index
from microveil.measures.nearest.neighbours import nearest
from microveil.measures.risk.proportions import PAIRS, attack, sample_note, sampled_rows, share_of
from microveil.rules.domain import step_of

LAST_DIGITS = 2
"""Steps between two numbers of the computer that are round-off: those of large numbers are large."""

NEAR = {"below 0.1": 0.1, "below 0.5": 0.5}


@gauge(
    "distance to the nearest released record over the distance to the nearest other original, median of the records",
    better="high",
    range=(0, np.inf),
    cost="slow",
)
def dcr_ratio(original: Matrix, released: Matrix, *, seed: int | None = None) -> Estimate:
    """Distance to the closest record, in units of what is usual.

    A released record near an original means little where originals are dense. So the distance of each original to its
    nearest released record (columns in standard deviations of the original) is divided by that to its nearest *other*
    original: about 1 for a fresh sample of the population, which is the chance level, and 0 for a copy. Of records that
    occur twice the ratio is 1 if they came back, else infinite. The parts have the shares of records below 0.1 and 0.5:
    the median may be harmless while a few records are nearly copied. The interval is that of the median by ranks.
    """
    before, after = (side[~np.isnan(side).all(axis=1)] for side in standardised(original, released))
    if not len(after) or len(before) < 2:
        return Estimate(np.inf, chance=1.0, note="there are no two records to compare", parts=dict.fromkeys(NEAR, 0.0))
    before, after = np.nan_to_num(before), np.nan_to_num(after)
    tried = sampled_rows(len(before), seed, pairs=PAIRS // 2)
    released_at = nearest(before[tried], after, 1)[1][:, 0]
    other_at = nearest(before[tried], before, 2)[1][:, 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.sort(np.where(released_at + other_at <= LINKAGE_TIE, 1.0, released_at / other_at))
    low, high = _ends_of_median(ratios)
    parts = {name: float((ratios < limit).mean()) for name, limit in NEAR.items()}
    return Estimate(_middle(ratios), low, high, 1.0, sample_note(tried.size, len(before)), parts)


@attack(
    "share of records that came back whole: some released record is the same in all columns", cost="fast", default=True
)
def exact_matches(original: Matrix, released: Matrix) -> Estimate:
    """Records that came back, to the resolution of the data.

    If a column has whole numbers, or so many decimals, released values are rounded to them before they are compared;
    values of other columns are equal up to round-off. A missing cell equals a missing one, but a record without any
    cell is no match. Chance is what strangers give: the share of originals that have a twin among as many *other*
    originals, or that meet a released record by accident if each column is shuffled, whichever is more. It is large
    only where there are few columns with few values.
    """
    count, others = original.shape[0], released.shape[0]
    keys, luck = np.zeros(count + others, dtype=np.intp), np.full(count, float(others))
    present = np.zeros(count, dtype=bool)
    for number, (_, sd) in scales(original, needed=True).items():
        old, new = original.columns[number], released.columns[number]
        step, both = step_of(old), np.concatenate([old, new])  # missing cells are equal too
        codes = np.unique(np.round(both / step), return_inverse=True)[1] if step else _runs(both, sd * LINKAGE_TIE)
        keys = np.unique(keys * (codes.max() + 1) + codes, return_inverse=True)[1]  # equal numbers for equal pairs
        luck *= np.bincount(codes[count:], minlength=codes.max() + 1)[codes[:count]] / others
        present |= ~np.isnan(old)
    back = np.isin(keys[:count], keys[count:]) & present
    twins = (np.bincount(keys[:count])[keys[:count]] > 1) & present
    accidents = float(abs(np.expm1(-luck[present]).sum()))
    strangers = float(twins.sum()) * min(others / count, 1.0)
    return share_of(float(back.sum()), count, chance=max(accidents, strangers) / count)


def _runs(values: Array, apart: float) -> Index:
    """One number for values that stand next to each other and differ by no more than that and the last two digits.

    A grid would not do: values that differ in the last digit may lie on either side of one of its borders.
    """
    order = np.argsort(values, kind="stable")  # missing cells come last
    ordered = values[order]
    gap = np.diff(ordered)
    new = (gap > apart + LAST_DIGITS * np.spacing(np.abs(ordered[1:]))) | (np.isnan(gap) & ~np.isnan(ordered[:-1]))
    codes = np.empty(values.size, dtype=np.intp)
    codes[order] = np.concatenate([[0], np.cumsum(new)])
    return codes


def _middle(ordered: Array) -> float:
    """The median; of an even number the lower of the middle two if the upper is infinite."""
    low, high = ordered[(ordered.size - 1) // 2], ordered[ordered.size // 2]
    return float(low if np.isinf(high) else (low + high) / 2)


def _ends_of_median(ordered: Array) -> tuple[float, float]:
    """The values whose ranks enclose the population's median with 95 % confidence, whatever the distribution."""
    reach = 1.96 * np.sqrt(ordered.size)
    low = max(int((ordered.size - reach) / 2), 0)
    high = min(int(np.ceil((ordered.size + reach) / 2)), ordered.size - 1)
    return float(ordered[low]), float(ordered[high])
