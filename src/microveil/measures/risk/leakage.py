"""Leakage: how many records come back whole when every component is swapped on its own (Hsu and Chen 2008)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from microveil.core.arrays import Array
from microveil.core.errors import DataError, ParameterError
from microveil.core.table import Matrix
from microveil.measures.base import Estimate, standardised
from microveil.measures.nearest.standardisation import whitening_axes
from microveil.measures.risk.proportions import attack, sampled_rows, share_of

BOX = 0.1
"""Half-width of the box in which a record is nearly back, in standard deviations of each component."""

NEGLIGIBLE = 1e-18
"""Terms of the alternating sum below this share of the first no longer change its last digit."""


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


@dataclass(frozen=True, repr=False)
class NearReturns:
    """How many released records are expected in a small box around each original, after every component was swapped.

    `per_record` is λ_i; their sum `expected` is the exact mean number of (original, released) pairs that near.
    """

    per_record: Array

    @property
    def expected(self) -> float:
        """Expected number of pairs of an original and a released record within each other's box."""
        return float(self.per_record.sum())

    @property
    def risk(self) -> Array:
        """For each original, the probability (nearly) that some released record comes that near: 1 - exp(-λ_i)."""
        return -np.expm1(-self.per_record)


def expected_near_returns(scores: Array, eps: float) -> NearReturns:
    """Near leakage: the theorem counts records that come back whole; records that come back nearly tell as much.

    With the components swapped independently, a released record lies within ±eps (in standard deviations of each
    component) of original i with probability prod_c p_ic, where p_ic is the share of values of component c within eps
    of i's own. So λ_i = n prod_c p_ic released records are expected there. For eps = 0 and distinct values the sum of
    the λ_i is n^(2-m), the mean of Theorem 1.

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
    return NearReturns(expected)


@attack("share of records with a released one within a tenth of a standard deviation in every principal component")
def near_leakage(original: Matrix, released: Matrix, *, eps: float = BOX, seed: int | None = None) -> Estimate:
    """Records that come back nearly, beside how many must be near by nature.

    The intruder takes a released record that is very near to a known one in *every* respect for its own: within ±`eps`
    in each principal component of the original, in standard deviations of the component. Chance is the share of
    originals that have another *original* as near, which is about what a fresh sample of the population gives that has
    as many records. It is an estimate like the figure itself, and the interval is that of the figure alone: the part
    "standard error of chance" belongs beside it (as who is near to another has the other near, it may be √2 times that
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
            "swapped components": float(expected_near_returns(scores, eps).risk.mean()),
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
