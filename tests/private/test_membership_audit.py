"""Membership attacks on neighbouring tables: they gain less than epsilon, and find a mechanism that is broken.

The attacker knows all records but one, which stands out as far as the bounds let it, and whether it is there is what is
guessed: from the noisy answers, and from released rows alone.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta

from microveil.core.rng import Streams
from microveil.private import distributions
from microveil.private.arrangement import synthesised
from microveil.private.distributions import Scale
from microveil.private.mechanism import Account
from microveil.private.moments import NEAR, QUERIES, MomentGroup
from microveil.private.targets import Records, measured

EPSILON, DELTA, RUNS, ROWS = 1.0, 1e-3, 1_000, 20
SCALE = Scale(0.0, 10.0, 1.0)


def _records(amounts="x"):
    """A tiny table; the target, its last record (or several), alone has the second level, and the highest values."""
    own = _Listening.rows_of_target
    cells, codes = np.append(np.arange(ROWS) % 5, [10] * own), np.append(np.zeros(ROWS, np.intp), [1] * own)
    return Records(ROWS + own, dict.fromkeys(amounts, (SCALE, cells)), {"c": (2, codes)})


class _Listening(Account):
    """An account that takes the target out of the exact numbers, if it is not there, and adds up what the answers say
    for it: all of it, each by its precision. So no attack on the answers does better.
    """

    said, lost, with_target, rows_of_target = 0.0, 0.0, False, 1

    def noisy(self, query, exact, sensitivity, rho, per_unit=1.0):
        rows = self.rows_of_target
        own = {"number of records": [rows], "distribution of c": [0, rows]}.get(query)
        own = OF_TARGET.pop() if own is None else np.array(own)
        found = self.answered(query, exact - own * (not self.with_target), sensitivity, rho, per_unit)
        precision = self.noise_sd(sensitivity, rho) ** -2
        self.said += float((found - exact + own / 2) @ own) * precision
        self.lost += float(own @ own) * precision / 2
        return found

    def answered(self, *asked):
        return super().noisy(*asked)


class _Broken(_Listening):
    """A tenth of the noise that it charges for."""

    def answered(self, query, exact, sensitivity, rho, per_unit=1.0):
        return exact + np.round(np.random.default_rng().normal(0, self.noise_sd(sensitivity, rho) / 10, exact.size))


OF_TARGET = []
"""What the target alone adds to the numbers that are asked for next."""


@pytest.fixture
def seen(monkeypatch):
    """Whatever is summed over records is summed over the target alone, too."""
    counts, sums = distributions._counts, MomentGroup.exact

    def counted(cells, runs):
        OF_TARGET.append(counts(cells[-_Listening.rows_of_target :], runs))
        return counts(cells, runs)

    def summed(self):
        own = slice(-_Listening.rows_of_target, None)
        alone = [[replace(block, features=block.features[own]) for block in pair] for pair in self.pairs]
        OF_TARGET.append(sums(MomentGroup(self.name, alone)))
        return sums(self)

    monkeypatch.setattr(distributions, "_counts", counted)
    monkeypatch.setattr(MomentGroup, "exact", summed)


def _attacked(account_kind, with_target):
    """What the answers, and the released rows, say for the target in each run."""
    answers, released = [], []
    for _ in range(RUNS):
        account = account_kind(EPSILON, DELTA)
        account.with_target = with_target
        found = measured(_records(), account)
        made = synthesised(found, 10 * ROWS, Streams.from_seed(None))
        answers.append(account.said)
        released.append((made.categories["c"] == 1).mean() + (made.amounts["x"] >= 9).mean() / 10)
    return np.array(answers), np.array(released)


def found_by(account_kind):
    """Lower bounds of epsilon by the answers and by the released rows."""
    there, absent = (_attacked(account_kind, target) for target in (True, False))
    return [least_epsilon(one, other) for one, other in zip(there, absent, strict=True)]


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


def test_the_target_loses_all_of_the_budget_and_no_more(seen):
    """The loss as zCDP, for sure: half the square of what the target changes, in standard deviations of the noise."""
    lost = []
    for run in range(40):
        account = _Listening(EPSILON, DELTA)
        account.with_target = bool(run % 2)
        measured(_records(), account)
        lost.append(account.lost)
    assert max(lost) < account.rho
    assert np.mean(lost) > 0.95 * account.rho


@pytest.mark.parametrize(("allowed", "within"), [(3, True), (2, False)])
def test_a_unit_of_several_rows_loses_no_more_either(seen, monkeypatch, allowed, within):
    monkeypatch.setattr(_Listening, "rows_of_target", 3)
    account = _Listening(EPSILON, DELTA, allowed)
    measured(_records(), account)
    assert (account.lost < account.rho) is within
    assert account.lost > 0.95 * account.rho


def test_nor_does_it_lose_more_where_amounts_are_nearly_alike(seen):
    """The first differs from the second in the target alone."""
    records = _records("xy")
    scale, cells = records.amounts["y"]
    records = replace(records, amounts={**records.amounts, "y": (scale, np.append(cells[:-1], 0))})
    asked = set()
    for run in range(10):
        account = _Listening(200.0, DELTA)
        account.with_target = bool(run % 2)
        measured(records, account)
        asked |= {entry.query for entry in account.entries}
        assert account.lost < account.rho
    assert QUERIES[NEAR] in asked


@pytest.mark.slow
def test_attacks_gain_less_than_epsilon_and_find_a_tenth_of_the_noise(seen):
    assert max(found_by(_Listening)) < EPSILON
    assert min(found_by(_Broken)) > EPSILON
