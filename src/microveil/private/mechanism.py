"""The only door to the data: noisy counts and sums, by OpenDP, each charged to an account before it is given out.

Every query is a vector of whole numbers that one record changes by a bounded length (its L2 sensitivity). OpenDP adds
discrete Gaussian noise from the operating system's secure source; there is no rounding that could tell anything, as
there are no fractions. Losses add up as zero-concentrated differential privacy (Bun and Steinke 2016), and the sum is
turned into (epsilon, delta) by OpenDP's conversion (Canonne, Kamath and Steinke 2020).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microveil.core.arrays import Array
from microveil.core.errors import ParameterError

MISSING_OPENDP = "`pip install 'microveil[privacy]'` installs it"

PROMISE = (
    "differential privacy: whatever anybody knows, the release is nearly as likely with any one {unit} as without "
    "(epsilon {epsilon:g}, delta {delta:g})"
)
LARGE = 1_000.0
"""A loss, as zCDP, that promises nothing worth counting."""

NO_NOISE = "epsilon is infinite and no noise was added"


@dataclass(frozen=True)
class Spent:
    """One query: what was asked, of how many numbers, what it cost (zCDP) and the standard deviation of its noise."""

    query: str
    numbers: int
    sensitivity: float
    rho: float
    noise_sd: float


@dataclass(frozen=True)
class Ledger:
    """What a release has cost: nothing in it depends on the data, but for how often marginals were refined."""

    epsilon: float
    delta: float
    unit: str
    rho: float
    entries: tuple[Spent, ...]
    void: tuple[str, ...] = ()
    """Why nothing is promised after all; empty if it is."""

    @property
    def promise(self) -> str:
        """What is promised to whom, or that nothing is."""
        if self.void:
            return f"NO GUARANTEE: this release is not differentially private, as {' and '.join(self.void)}"
        return PROMISE.format(unit=self.unit, epsilon=self.epsilon, delta=self.delta)

    @property
    def spent_rho(self) -> float:
        """What all queries have cost together, as zCDP."""
        return math.fsum(entry.rho for entry in self.entries)

    @property
    def spent_epsilon(self) -> float:
        """What they have cost as epsilon, at the delta that was asked for."""
        return epsilon_of(self.spent_rho, self.delta)

    @property
    def remaining_epsilon(self) -> float:
        """What is left of the epsilon that was asked for; it cannot be spent later."""
        return 0.0 if math.isinf(self.epsilon) else max(self.epsilon - self.spent_epsilon, 0.0)

    def to_dict(self) -> dict[str, Any]:
        """For a report: the promise, and each query with its cost; what is infinite is None."""
        return {
            "guarantee": not self.void,
            "promise": self.promise,
            "epsilon": _finite(self.epsilon),
            "delta": self.delta,
            "unit": self.unit,
            "rho": _finite(self.rho),
            "spent_epsilon": _finite(self.spent_epsilon),
            "remaining_epsilon": self.remaining_epsilon,
            "queries": [{**vars(entry), "rho": _finite(entry.rho)} for entry in self.entries],
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """One row per query, for a frame or a page."""
        return [
            {**vars(entry), "share": 1.0 if math.isinf(self.rho) else entry.rho / self.rho} for entry in self.entries
        ]


class Account:
    """A budget, from which every query is paid before it is answered.

    `contributions` is the most rows that one unit of privacy (a record, or a person) has in what is asked about.
    """

    def __init__(self, epsilon: float, delta: float, contributions: int = 1, unit: str = "record") -> None:
        self.epsilon, self.delta, self.contributions, self.unit = epsilon, delta, contributions, unit
        self.rho = largest_rho(epsilon, delta)
        self.entries: list[Spent] = []

    def noise_sd(self, sensitivity: float, rho: float) -> float:
        """The standard deviation of the noise that a query of this sensitivity (one row) needs at this cost."""
        return self.contributions * sensitivity / math.sqrt(2 * rho) * (1 + 1e-9)

    def noisy(
        self, query: str, exact: NDArray[np.int64], sensitivity: float, rho: float, per_unit: float = 1.0
    ) -> Array:
        """The exact numbers with noise.

        Args:
            query: what is asked, for the ledger.
            exact: whole numbers.
            sensitivity: the most that one row changes them by, as a Euclidean length.
            rho: what it may cost.
            per_unit: how much of them is one, for the ledger.
        """
        scale = self.noise_sd(sensitivity, rho)
        in_units = self.contributions * sensitivity / per_unit
        if scale == 0:  # epsilon is infinite: there is no noise, and no promise
            self.entries.append(Spent(query, exact.size, in_units, math.inf, 0.0))
            return exact.astype(np.float64)
        dp = _opendp()
        whole = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
        mechanism = dp.m.make_gaussian(*whole, scale=scale)
        cost = mechanism.map(float(self.contributions * sensitivity))
        if math.fsum([*(entry.rho for entry in self.entries), cost]) > self.rho:
            raise AssertionError("the budget of the release is spent")
        self.entries.append(Spent(query, exact.size, in_units, cost, scale / per_unit))
        return np.array(mechanism(exact.tolist()), np.float64)

    def ledger(self, void: tuple[str, ...] = ()) -> Ledger:
        """What has been spent; `void` says why nothing is promised, if so, in addition to an infinite epsilon."""
        void = ((NO_NOISE,) if math.isinf(self.epsilon) else ()) + void
        return Ledger(self.epsilon, self.delta, self.unit, self.rho, tuple(_summed(self.entries)), void)


def _summed(entries: Iterable[Spent]) -> list[Spent]:
    """Queries of the same name as one: their costs add up, and the noise is that of the last."""
    found: dict[str, Spent] = {}
    for new in entries:
        old = found.get(new.query)
        numbers, cost = (0, 0.0) if old is None else (old.numbers, old.rho)
        found[new.query] = Spent(new.query, numbers + new.numbers, new.sensitivity, cost + new.rho, new.noise_sd)
    return list(found.values())


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


@lru_cache
def largest_rho(epsilon: float, delta: float) -> float:
    """The largest loss, as zCDP, that is still (epsilon, delta)-differentially private."""
    if math.isinf(epsilon):
        return math.inf
    low, high = 0.0, epsilon
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if epsilon_of(middle, delta) <= epsilon else (low, middle)
    if low == 0:
        raise ParameterError("epsilon: too small for any answer at this delta", "give a larger one of the two")
    return low


def epsilon_of(rho: float, delta: float) -> float:
    """The epsilon of a loss in zCDP, at a delta; of a large one, at which OpenDP overflows, Bun and Steinke's bound."""
    if rho == 0 or math.isinf(rho):
        return rho
    if rho > LARGE:
        return rho + 2 * math.sqrt(rho * -math.log(delta))
    dp = _opendp()
    single = dp.atom_domain(T="i64"), dp.absolute_distance(T="f64")
    mechanism = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*single, scale=1.0))
    return float(mechanism.map(math.nextafter(math.sqrt(2 * rho), math.inf)).epsilon(delta))


@lru_cache
def _opendp() -> Any:
    """OpenDP, with the mechanisms that it has not had vetted itself: their proofs are beside their code."""
    try:
        import opendp.prelude as dp
    except ImportError:
        raise ParameterError("epsilon: OpenDP is not installed", MISSING_OPENDP) from None
    dp.enable_features("contrib")
    return dp
