"""Membership attacks on neighbouring tables: they gain less than epsilon, and find a mechanism that is broken.

The attacker knows all records but one, which stands out as far as the bounds let it, and whether it is there is what is
guessed: from the noisy answers, and from released rows alone.
"""

import math

import numpy as np
import pytest
from scipy.stats import beta

from microveil.core.rng import Streams
from microveil.private.arrangement import synthesised
from microveil.private.mechanism import Account
from microveil.private.scale import Scale
from microveil.private.targets import Records, measured

EPSILON, DELTA, RUNS, ROWS = 1.0, 1e-3, 1_000, 20
SCALE = Scale(0.0, 10.0, 1.0)


def _records(with_target):
    """A tiny table; the target alone has the second level, and the highest value."""
    cells, codes = np.append(np.arange(ROWS) % 5, 10), np.append(np.zeros(ROWS, np.intp), 1)
    rows = ROWS + with_target
    return Records(rows, {"x": (SCALE, cells[:rows])}, {"c": (2, codes[:rows])})


class _Listening(Account):
    """An account that adds up, by their precision, what the answers say beyond what all other records explain."""

    said, with_target = 0.0, False

    def noisy(self, query, exact, sensitivity, rho, per_unit=1.0):
        found = self.answered(query, exact, sensitivity, rho, per_unit)
        shares = {"number of records": [1.0], "distribution of c": [0.0, 1.0]}
        target = np.array([-0.5, 0.5]) * math.sqrt(2) * per_unit if query.startswith("sums") else shares.get(query)
        if target is not None:
            beyond = found - exact + np.multiply(target, self.with_target)
            self.said += float(beyond @ np.array(target)) / self.noise_sd(sensitivity, rho) ** 2
        return found

    def answered(self, *asked):
        return super().noisy(*asked)


class _Broken(_Listening):
    """A tenth of the noise that it charges for."""

    def answered(self, query, exact, sensitivity, rho, per_unit=1.0):
        return exact + np.round(np.random.default_rng().normal(0, self.noise_sd(sensitivity, rho) / 10, exact.size))


def _attacked(account_kind, with_target, runs):
    """What the answers, and the released rows, say for the target in each of some runs."""
    answers, released = [], []
    for _ in range(runs):
        account = account_kind(EPSILON, DELTA)
        account.with_target = with_target
        found = measured(_records(with_target), account)
        made = synthesised(found, 10 * ROWS, Streams.from_seed(None))
        answers.append(account.said)
        released.append((made.categories["c"] == 1).mean() + (made.amounts["x"] >= 9).mean() / 10)
    return np.array(answers), np.array(released)


def least_epsilon(there, not_there):
    """A lower bound of epsilon (95 %), by the best threshold of the first half, tried on the second."""
    half = there.size // 2
    best = 0.0
    for sign in (1, -1):
        one, other = sign * there, sign * not_there
        levels = np.quantile(np.append(one[:half], other[:half]), np.linspace(0.02, 0.98, 49))
        gain = [_bound((one[:half] >= t).sum(), (other[:half] >= t).sum(), half) for t in levels]
        level = levels[int(np.argmax(gain))]
        rest = there.size - half
        best = max(best, _bound((one[half:] >= level).sum(), (other[half:] >= level).sum(), rest))
    return best


def _bound(hits, false_alarms, runs):
    low = beta.ppf(0.0125, hits, runs - hits + 1) if hits else 0.0
    high = beta.ppf(0.9875, false_alarms + 1, runs - false_alarms) if false_alarms < runs else 1.0
    return math.log(max(low - DELTA, 1e-12) / high)


@pytest.mark.slow
def test_attacks_gain_less_than_epsilon_and_find_a_tenth_of_the_noise():
    there, absent = (_attacked(_Listening, target, RUNS) for target in (True, False))
    by_answers, by_rows = (least_epsilon(one, other) for one, other in zip(there, absent, strict=True))
    assert by_answers < EPSILON
    assert by_rows < EPSILON
    there, absent = (_attacked(_Broken, target, RUNS) for target in (True, False))
    by_answers, by_rows = (least_epsilon(one, other) for one, other in zip(there, absent, strict=True))
    assert by_answers > EPSILON
    assert by_rows > EPSILON
