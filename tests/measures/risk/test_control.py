"""Attacks beside their controls: the arithmetic, what is no risk at all, and what the figures must not depend on."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from samples import matrix
from scipy.stats import binomtest, norm

from microveil.core.rng import Streams
from microveil.errors import DataError
from microveil.measures.base import MeasureSpec
from microveil.measures.risk.attribute_inference import attribute_inference, inference
from microveil.measures.risk.control import AttackOutcome, Trial, _best_of_errors, best_by_luck
from microveil.measures.risk.linkability import linkability
from microveil.measures.risk.proportions import Tally, wilson_interval
from microveil.measures.risk.singling_out import singling_out

Array = NDArray[np.float64]
ATTACKS = [singling_out, linkability, inference, attribute_inference]

every = pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.id)


def people(rng: np.random.Generator, rows: int = 250) -> Array:
    """A sample of one population."""
    return rng.lognormal(sigma=0.7, size=(rows, 5)) @ (np.eye(5) + 0.4)


def test_wilsons_interval_is_scipys() -> None:
    for hits, tries in ((0, 50), (3, 50), (50, 50), (400, 1000)):
        expected = binomtest(hits, tries).proportion_ci(0.95, "wilson")
        assert wilson_interval(hits, tries) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert wilson_interval(0, 0) == (0, 1)


def test_the_risk_is_what_the_control_is_not_told() -> None:
    found = AttackOutcome(Tally(80, 100), Tally(60, 100), Tally(10, 100)).estimate()
    assert found.value == pytest.approx((0.8 - 0.6) / (1 - 0.6))
    assert found.low < found.value < found.high
    assert found.parts == {"attack": 0.8, "control": 0.6, "luck": 0.1}
    assert found.note == ""
    none = AttackOutcome(Tally(40, 100), Tally(60, 100), Tally(10, 100)).estimate()
    assert none.value == none.low == 0  # less than the control is no negative risk
    whole = AttackOutcome(Tally(100, 100), Tally(60, 100), Tally(10, 100)).estimate()
    assert whole.value == whole.high == 1
    assert whole.low == pytest.approx(1 - (1 - wilson_interval(100, 100)[0]) / 0.4)


def test_the_interval_covers_the_difference_of_two_shares() -> None:
    rng = np.random.default_rng(1)
    truth = 1 - (1 - 0.5) / (1 - 0.3)
    trials = [
        AttackOutcome(Tally(rng.binomial(300, 0.5), 300), Tally(rng.binomial(300, 0.3), 300), Tally(0, 300)).estimate()
        for _ in range(2000)
    ]
    covered = np.mean([found.low <= truth <= found.high for found in trials])
    assert covered == pytest.approx(0.95, abs=3 * np.sqrt(0.95 * 0.05 / 2000))


def test_the_best_of_several_has_a_wider_interval_and_a_higher_chance() -> None:
    outcome = AttackOutcome(Tally(80, 100), Tally(60, 100), Tally(10, 100))
    one, ten = outcome.estimate(), outcome.estimate(best_of=10)
    assert ten.low < one.low < one.high < ten.high
    assert ten.chance > one.chance > 0
    assert _best_of_errors(1) == pytest.approx(norm.pdf(0), abs=1e-4)
    drawn = np.random.default_rng(2).normal(size=(100_000, 7)).max(axis=1).clip(0)
    assert _best_of_errors(7) == pytest.approx(drawn.mean(), abs=4 * drawn.std() / np.sqrt(100_000))


def test_what_attack_and_control_share_is_no_error_of_their_difference() -> None:
    rng = np.random.default_rng(3)
    truth, found = 1 - (1 - 0.5) / (1 - 0.4), []
    for _ in range(2000):
        easy = rng.random(300)
        attack, control = ((easy + 0.1 * rng.random(300) < limit).astype(float) for limit in (0.55, 0.45))
        tallies = (Tally(float(each.sum()), 300, each) for each in (attack, control))
        found.append(AttackOutcome(*tallies, Tally(0, 300), paired=True).estimate())
    covered = np.mean([measure.low <= truth <= measure.high for measure in found])
    assert covered >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 2000)
    widths = [measure.high - measure.low for measure in found]
    apart = AttackOutcome(Tally(150, 300), Tally(120, 300), Tally(0, 300)).estimate()
    assert np.mean(widths) < 0.7 * (apart.high - apart.low)


def test_luck_alone_in_columns_that_hang_together() -> None:
    rng = np.random.default_rng(4)
    values, chances = [], []
    for seed in range(300):
        common, found = rng.random((400, 1)), []
        attack, control = ((common + 0.3 * rng.random((400, 6)) < 0.5).astype(float) for _ in range(2))
        for each, other in zip(attack.T, control.T, strict=True):
            tallies = (Tally(float(side.sum()), 400, side) for side in (each, other))
            found.append(AttackOutcome(*tallies, Tally(0, 400), paired=True))
        values.append(max(0.0, *(outcome.beyond for outcome in found)))
        chances.append(best_by_luck(found, Streams.from_seed(seed).stream("errors")))
    assert np.mean(chances) == pytest.approx(np.mean(values), abs=4 * np.std(values) / np.sqrt(300))


def test_an_attack_without_power_says_so() -> None:
    assert "no power" in AttackOutcome(Tally(12, 100), Tally(2, 100), Tally(10, 100)).estimate().note
    assert "nothing to try" in AttackOutcome(Tally(), Tally(2, 100), Tally()).estimate().note
    assert "learnt everything too" in AttackOutcome(Tally(9, 10), Tally(10, 10), Tally(0, 10)).estimate().note


@pytest.mark.quick("linkability")
@every
@pytest.mark.usefixtures("few_descriptions")
def test_a_fresh_sample_of_the_population_is_no_risk(attack: MeasureSpec) -> None:
    # The mean of the figure over many pairs of samples is what is called the chance level. Descriptions are not told
    # target by target: there attack and control are taken for independent, and chance may be too high.
    rng = np.random.default_rng(3)
    found = [attack(matrix(people(rng)), matrix(people(rng)), seed=seed) for seed in range(25)]
    values = np.array([measure.value for measure in found])
    chance = np.mean([measure.chance for measure in found])
    error = values.std(ddof=1) / np.sqrt(25)
    assert values.mean() <= chance + 3 * error
    assert attack is singling_out or values.mean() >= chance - 3 * error
    assert np.mean([measure.low <= measure.chance for measure in found]) >= 0.88


@pytest.mark.quick("linkability", "inference", "attribute_inference")
@every
def test_records_that_entered_are_at_risk_and_those_of_a_control_file_are_not(attack: MeasureSpec) -> None:
    rng = np.random.default_rng(4)
    data, outside = people(rng), people(rng)
    weak = data + 0.02 * data.std(axis=0) * rng.normal(size=data.shape)
    entered = attack(matrix(data), matrix(weak), control=matrix(outside), seed=1)
    assert entered.low > 5 * entered.chance
    assert entered.parts["attack"] > entered.parts["control"] > 0
    not_entered = attack(matrix(outside), matrix(weak), control=matrix(people(rng)), seed=1)
    assert not_entered.low <= not_entered.chance
    with pytest.raises(DataError, match="columns"):
        attack(matrix(data), matrix(weak), control=matrix(outside[:, :3]), seed=1)


@every
def test_a_shuffle_of_the_columns_has_no_power(attack: MeasureSpec) -> None:
    rng = np.random.default_rng(5)
    data = people(rng, 400)
    shuffled = np.column_stack([rng.permutation(column) for column in data.T])
    found = attack(matrix(data), matrix(shuffled), seed=1)
    assert found.low <= found.chance
    assert "no power" in found.note
    assert found.parts["attack"] == pytest.approx(found.parts["luck"], abs=0.06)


@pytest.mark.quick("linkability", "inference")
@every
def test_neither_file_has_an_order(attack: MeasureSpec) -> None:
    rng = np.random.default_rng(6)
    data = people(rng, 120)
    data[::7, 2] = np.nan
    released = data + 0.1 * np.nanstd(data, axis=0) * rng.normal(size=data.shape)
    found = attack(matrix(data), matrix(released), seed=1)
    first, second = rng.permutation(120), rng.permutation(120)
    other = attack(matrix(data[first]), matrix(released[second]), seed=1)
    assert (other.value, other.low, other.high) == pytest.approx((found.value, found.low, found.high), abs=1e-9)
    assert other.parts == pytest.approx(found.parts, abs=1e-9)


def test_of_many_records_some_are_tried() -> None:
    rng = np.random.default_rng(7)
    data = rng.normal(size=(5000, 3))
    trial = Trial.of(matrix(data), matrix(data), matrix(data), 1, pairs=1)
    assert trial.tried.size == len(trial.control) == 2000
    assert trial.sample == "an estimate from 2000 of 5000 records, drawn at random"
    assert Trial.of(matrix(data), matrix(data), None, 1).sample == ""
