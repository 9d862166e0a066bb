"""Leakage: how many records come back whole when every component is swapped on its own (Hsu and Chen 2008)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from microveil.core.errors import ParameterError

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
        terms = self._terms(0)
        next(terms)
        return -math.fsum(terms)

    def _terms(self, k: int) -> Iterator[float]:
        """The terms of the sum, by a running logarithm: factorials of n itself have lost their digits at n = 1e9."""
        power = self.m - 2
        logarithm = -math.lgamma(k + 1) - power * sum(math.log(self.n - i) for i in range(k))
        first = logarithm
        for l in range(self.n - k + 1):  # noqa: E741 - the paper's letter
            if l:
                logarithm -= math.log(l) + power * math.log(self.n - k - l + 1)
            if logarithm < first + math.log(NEGLIGIBLE):
                return
            yield math.exp(logarithm) if l % 2 == 0 else -math.exp(logarithm)


def leakage_distribution(n: int, m: int) -> LeakageDistribution:
    """Records returned by m independent swaps of n records: `.pmf(k)`, `.mean`, `.variance`, `.risk`."""
    return LeakageDistribution(n, m)
