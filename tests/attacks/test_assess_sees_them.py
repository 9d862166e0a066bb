"""Releases that were called safe once, made by hand: the default set of `assess` shows each, and a clean one of none.

The methods that made them are cured, so nobody can make them again by `protect`. What another tool releases, or a
colleague, may still look like this.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import microveil as mv
from microveil.measures import base
from microveil.measures.nearest import nearest_records
from microveil.measures.risk import proportions

Array = NDArray[np.float64]
Release = tuple[Array, Array]

ROWS, COLUMNS = 500, 6
UTILITY = ("pil", "propensity_2", "propensity_3", "classifier_auc", "ks")


def firms(seed: int) -> Array:
    rng = np.random.default_rng(seed)
    return np.exp(0.7 * rng.normal(size=(ROWS, 1)) + 0.7 * rng.normal(size=(ROWS, COLUMNS))).round(3)


def clean(seed: int) -> Release:
    """A sample of the same population: it tells of nobody."""
    return firms(seed), firms(seed + 100)


def lone_gap(seed: int) -> Release:
    """The record with the only missing cell comes back within a percent, in its own row."""
    data, released = clean(seed)
    data[7] *= 3
    released[7] = data[7] * np.random.default_rng(seed).uniform(0.99, 1.01, COLUMNS)
    data[7, 0] = released[7, 0] = np.nan
    return data, released


def giant(seed: int) -> Release:
    """The one record that dominates comes back within .3 %, in another row."""
    data, released = clean(seed)
    data[3] = 1000 * data.mean(axis=0)
    released[40] = data[3] * np.random.default_rng(seed).uniform(0.997, 1.003, COLUMNS)
    return data, released


def averaged_tails(seed: int) -> Release:
    """The five largest and smallest values of each column are replaced by their mean; the columns are shuffled."""
    data = firms(seed)
    released = np.sort(data, axis=0)
    released[:5], released[-5:] = released[:5].mean(axis=0), released[-5:].mean(axis=0)
    return data, np.random.default_rng(seed).permuted(released, axis=0)


def within_gaps(seed: int) -> Release:
    """Every value moves within the gap to its neighbours; the columns are shuffled."""
    data, rng = firms(seed), np.random.default_rng(seed)
    ordered = np.sort(data, axis=0)
    moved = ordered + rng.uniform(-0.4, 0.4, data.shape) * np.gradient(ordered, axis=0)
    return data, rng.permuted(moved, axis=0)


def shuffled_noise(seed: int) -> Release:
    """The originals with .05 % of noise, in another order."""
    data, rng = firms(seed), np.random.default_rng(seed)
    return data, rng.permutation(data * rng.normal(1, 0.0005, data.shape))


def small_file(seed: int) -> Release:
    """Ten records, one of which is released as it was."""
    data, released = firms(seed)[:10, :3], firms(seed + 100)[:10, :3]
    released[4] = data[8]
    return data, released


BROKEN: dict[str, tuple[Callable[[int], Release], set[str]]] = {
    "lone gap": (lone_gap, {"max_record_risk"}),
    "giant": (giant, {"max_record_risk", "extreme_disclosure"}),
    "averaged tails": (averaged_tails, {"extreme_disclosure"}),
    "within gaps": (within_gaps, {"membership"}),
    "shuffled noise": (shuffled_noise, {"near_matches", "optimal_linkage", "max_record_risk"}),
    "small file": (small_file, {"exact_matches"}),
}


def shown(original: Array, released: Array) -> set[str]:
    """The risks of the default set whose figure is above its chance level, and not by accident.

    The worst record of a clean release is anywhere between 0 and 1.
    """
    holdout = firms(999)[: len(original), : original.shape[1]]
    found = mv.assess(original, released, holdout=holdout, seed=1, sanity=False)
    risks = {name: figure for name, figure in found.items() if name not in UTILITY and figure.chance is not None}
    above = {name for name, figure in risks.items() if figure.low > figure.chance and name != "max_record_risk"}
    return above | ({"max_record_risk"} if found["max_record_risk"].value > 0.99 else set())


@pytest.fixture(params=["all", "sampled"])
def tried(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attacks on all records, and on two fifths of them, as if these files were large."""
    if request.param == "sampled":
        monkeypatch.setattr(base, "EXACT_ROWS", 5)
        monkeypatch.setattr(proportions, "FEWEST_TRIED", 200)
        monkeypatch.setattr(nearest_records, "OUTLYING", 20)


@pytest.mark.quick("*-giant")
@pytest.mark.usefixtures("tried")
@pytest.mark.parametrize("name", BROKEN)
def test_the_default_set_shows_what_was_called_safe(name: str) -> None:
    make, expected = BROKEN[name]
    for seed in (1, 2, 3):
        assert expected & shown(*make(seed)), seed


@pytest.mark.usefixtures("tried")
def test_a_clean_release_shows_nothing() -> None:
    by_accident = [shown(*clean(seed)) - {"worst_attack"} for seed in (1, 2, 3)]  # which is one of the others
    assert sum(map(len, by_accident)) <= 1
