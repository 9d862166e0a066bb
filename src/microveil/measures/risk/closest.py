"""The closest record: did anybody come back, whole or nearly?

The intruder compares the release with people whose data are known, and asks of each: is somebody in it who can be
nobody else? No linkage is needed for that, and no pairing: it is enough that a released record lies where only one
original does. How many come back where every component is swapped on its own is a theorem (Hsu and Chen 2008).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError, ParameterError
from microveil.core.sorted_columns import ascending_order
from microveil.core.table import Matrix
from microveil.core.tolerances import LINKAGE_TIE
from microveil.measures.base import Estimate, gauge, scales, standardised
from microveil.measures.nearest.distances import Index
from microveil.measures.nearest.neighbours import nearest
from microveil.measures.nearest.standardisation import whitening_axes
from microveil.measures.risk.proportions import PAIRS, attack, sample_note, sampled_rows, share_of
from microveil.rules.domain import step_of

LAST_DIGITS = 2
"""Steps between two numbers of the computer that are round-off: those of large numbers are large."""

NEAR = {"below 0.1": 0.1, "below 0.5": 0.5}

BOX = 0.1
"""Half-width of the box in which a record is nearly back, in standard deviations of each component."""

NEGLIGIBLE = 1e-18
"""Terms of the alternating sum below this share of the first no longer change its last digit."""


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
    parts = {name: float((ratios < limit).mean()) for name, limit in NEAR.items()}
    return Estimate(*_median(ratios), 1.0, sample_note(tried.size, len(before)), parts)


@attack(
    "share of records that came back whole: some released record is the same in all columns",
    cost="fast",
    default=True,
    on_disk="sample",
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
        if keys.max() + 1 < keys.size:  # else they are all different already
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
    order = ascending_order(values)  # missing cells come last
    ordered = values[order]
    gap = np.diff(ordered)
    new = (gap > apart + LAST_DIGITS * np.spacing(np.abs(ordered[1:]))) | (np.isnan(gap) & ~np.isnan(ordered[:-1]))
    codes = np.empty(values.size, dtype=np.intp)
    codes[order] = np.concatenate([[0], np.cumsum(new)])
    return codes


def _median(ordered: Array) -> tuple[float, float, float]:
    """The median, and the values whose ranks enclose the population's with 95 % confidence, whatever the distribution.

    Of an even number it is the lower of the middle two if the upper is infinite.
    """
    size, reach = ordered.size, 1.96 * np.sqrt(ordered.size)
    low, high = ordered[(size - 1) // 2], ordered[size // 2]
    ends = ordered[max(int((size - reach) / 2), 0)], ordered[min(int(np.ceil((size + reach) / 2)), size - 1)]
    return float(low if np.isinf(high) else (low + high) / 2), float(ends[0]), float(ends[1])


@dataclass(frozen=True)
class LeakageDistribution:
    """The number N of original records among the released ones after m independent swaps of n records.

    Theorem 1 as printed is right for m = 2 only (for m = 3 its probabilities add up to more than 1). Right is

        P{N = k} = (1/k!) sum over l = 0 ... n-k of (-1)^l / l! * ((n-k-l)! / n!)^(m-2),

    which equals exact enumeration. It assumes that the values of each component are distinct.
    """

    n: int
    m: int

    def __post_init__(self) -> None:
        for name, value, least in (("n", self.n, 1), ("m", self.m, 2)):
            if isinstance(value, bool) or not hasattr(value, "__index__") or value < least:
                raise ParameterError(f"{name}: must be a whole number of at least {least}", f"give {name} >= {least}")

    def pmf(self, k: int) -> float:
        """P{N = k}."""
        if k < 0 or k > self.n:
            return 0.0
        return math.fsum(self._terms(k))

    @property
    def mean(self) -> float:
        """E N = n^(2-m)."""
        return math.exp((2 - self.m) * math.log(self.n))

    @property
    def variance(self) -> float:
        """E N(N-1) + E N - (E N)², with E N(N-1) = (n(n-1))^(2-m)."""
        pairs = math.exp((2 - self.m) * math.log(self.n * (self.n - 1))) if self.n > 1 else 0.0
        return pairs + self.mean - self.mean**2

    @property
    def risk(self) -> float:
        """P{N > 0} (Theorem 2), summed without taking P{N = 0} from 1, where all digits would be lost."""
        return -math.fsum(self._terms(0, first=1))

    def _terms(self, k: int, first: int = 0) -> Iterator[float]:
        """The terms from l = `first`, by a running logarithm: factorials of n itself lose their digits at n = 1e9."""
        power = self.m - 2
        logarithm = -math.lgamma(k + 1) - power * sum(math.log(self.n - i) for i in range(k))
        largest = None
        for l in range(self.n - k + 1):  # noqa: E741 - the paper's letter
            if l:
                logarithm -= math.log(l) + power * math.log(self.n - k - l + 1)
            if l < first:
                continue
            largest = logarithm if largest is None else largest
            if logarithm < largest + math.log(NEGLIGIBLE):
                return
            yield math.exp(logarithm) if l % 2 == 0 else -math.exp(logarithm)


def leakage_distribution(n: int, m: int) -> LeakageDistribution:
    """Records returned by m independent swaps of n records: `.pmf(k)`, `.mean`, `.variance`, `.risk`."""
    return LeakageDistribution(n, m)


def expected_near_returns(scores: Array, eps: float) -> Array:
    """Near leakage: the theorem counts records that come back whole; records that come back nearly are as harmful.

    With the components swapped independently, a released record lies within ±eps (in standard deviations of each
    component) of original i with probability prod_c p_ic, where p_ic is the share of values of component c within eps
    of i's own. So λ_i = n prod_c p_ic released records are expected there, which is given back: their sum is the exact
    mean number of pairs that near, and 1 - exp(-λ_i) nearly the probability that some record comes that near to i. For
    eps = 0 and distinct values the sum is n^(2-m), the mean of Theorem 1.

    Args:
        scores: the components, records x components, without missing cells.
        eps: half-width of the box in standard deviations (divisor n) of each component.
    """
    if scores.ndim != 2 or not scores.size or not np.isfinite(scores).all():
        raise DataError("scores: must be a table of finite numbers", "leave out records with missing cells")
    if not eps >= 0:
        raise ParameterError("eps: must be at least 0", "give a share of a standard deviation, such as 0.1")
    count = scores.shape[0]
    expected = np.full(count, float(count))
    for column in scores.T:
        ordered = np.sort(column)
        width = eps * column.std()
        near = np.searchsorted(ordered, column + width, "right") - np.searchsorted(ordered, column - width, "left")
        expected *= near / count
    return expected


@attack("share of records with a released one within a tenth of a standard deviation in every principal component")
def near_leakage(original: Matrix, released: Matrix, *, eps: float = BOX, seed: int | None = None) -> Estimate:
    """Records that come back nearly, compared with how many are near by nature.

    The intruder takes a released record that is very near to a known one in *every* respect for its own: within ±`eps`
    in each principal component of the original, in standard deviations of the component. Chance is the share of
    originals that have another *original* as near, which is about what a fresh sample of the population gives that has
    as many records. It is an estimate like the figure itself, and the interval is that of the figure alone: the part
    "standard error of chance" belongs to it (as who is near to another has the other near, it may be √2 times that
    of independent tries, and is taken for that). The part "swapped components" is what independent swaps of these
    components give, mean of 1 - exp(-λ_i) by `expected_near_returns`.
    """
    if not eps > 0:
        raise ParameterError("eps: must be above 0", "give a share of a standard deviation, such as 0.1")
    before, after = (side[~np.isnan(side).all(axis=1)] for side in standardised(original, released))
    before, after = np.nan_to_num(before), np.nan_to_num(after)
    axes = whitening_axes(before)
    scores = before @ axes
    tried = sampled_rows(len(scores), seed)
    near = _in_the_box(scores[tried], after @ axes, eps, 1)
    chance = _in_the_box(scores[tried], scores, eps, 2) / tried.size
    return share_of(
        near,
        tried.size,
        chance=chance,
        of=len(scores),
        parts={
            "swapped components": float(-np.expm1(-expected_near_returns(scores, eps)).mean()),
            "standard error of chance": math.sqrt(2 * chance * (1 - chance) / tried.size),
        },
    )


def _in_the_box(scores: Array, others: Array, eps: float, count: int) -> int:
    """How many of the `scores` (m x k) have at least `count` of the `others` (n x k) in their box."""
    from scipy.spatial import cKDTree

    if len(others) < count:
        return 0
    # The tree looks no further than the box: what is outside counts as infinitely far.
    distance, _ = cKDTree(others).query(scores, k=[count], p=np.inf, distance_upper_bound=eps * (1 + 1e-9))
    return int(np.count_nonzero(np.isfinite(distance)))
