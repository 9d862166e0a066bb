"""Scores are weighted means of other figures, and say what they lack."""

from __future__ import annotations

import pytest

from microveil.errors import ParameterError
from microveil.measures.base import Measure
from microveil.measures.risk import MEASURES as RISKS
from microveil.measures.utility import MEASURES as UTILITIES
from microveil.measures.utility import SCORES
from microveil.measures.utility.score import overall, score_2


def measure(name: str, value: float, note: str = "") -> Measure:
    return Measure(name, value, value - 0.1, value + 0.1, None, "low", (0.0, 1.0), "a figure", note)


MEASURED = {
    "propensity_2": measure("propensity_2", 0.2, "converged in 4 steps"),
    "pil": measure("pil", 0.4),
    "dbrl": measure("dbrl", 0.6),
    "interval_disclosure": measure("interval_disclosure", 0.8),
}


def test_a_score_is_the_mean_of_its_parts() -> None:
    found = score_2(MEASURED)
    assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.4, 0.6))
    assert found.note == "propensity_2: converged in 4 steps"
    assert found.parts == {name: measured.value for name, measured in MEASURED.items()}


def test_weights_can_be_given() -> None:
    weights = {"propensity_2": 0, "pil": 0, "dbrl": 3, "interval_disclosure": 1}
    assert score_2(MEASURED, weights).value == pytest.approx(0.65)
    with pytest.raises(ParameterError, match="weights"):
        score_2(MEASURED, {"dbrl": 1})


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ParameterError, match="needs pil"):
        score_2({name: measured for name, measured in MEASURED.items() if name != "pil"})


def test_scores_are_made_of_registered_measures_between_0_and_1() -> None:
    for score in SCORES.values():
        for part in score.parts:
            gauge = {**UTILITIES, **RISKS}[part]
            assert gauge.range == (0, 1)
            assert gauge.better == "low"


def test_overall_counts_selectivity_twice() -> None:
    values = {"pil7": 0.1, "propensity_2": 0.2, "dbrl": 0.3, "interval_disclosure_own": 0.4, "selectivity": 0.5}
    found = overall({name: measure(name, value) for name, value in values.items()})
    assert found.value == pytest.approx((0.1 + 0.2 + 0.3 + 0.4 + 2 * 0.5) / 6)
    equal = overall({name: measure(name, value) for name, value in values.items()}, dict.fromkeys(values, 1.0))
    assert equal.value == pytest.approx(0.3)
