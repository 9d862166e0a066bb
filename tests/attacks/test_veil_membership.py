"""Who was in the file that `veil` released?

Half of a file is released with the defaults, the other half are strangers from the same population. The intruder adds
up how near a record's values come to released ones, with and without training on releases of its own, or looks for
the nearest released record. One default for all files, no dial set.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import membership as attack
import numpy as np
import pytest
import reference
from numpy.typing import NDArray

import microveil as mv

Array = NDArray[np.float64]

SEEDS = range(1, 4)


def breast_cancer() -> Array:
    """569 patients, 30 measures of their cells: many columns for few records."""
    from sklearn.datasets import load_breast_cancer

    found: Array = load_breast_cancer().data
    return found


FILES: dict[str, Callable[[], Array]] = {
    "breast cancer": breast_cancer,
    "Census": lambda: reference.census_12()[1],
    "EIA": lambda: reference.eia()[1],
}
MOST = {"breast cancer": 0.67, "Census": 0.6, "EIA": 0.6}
"""The area that the untrained attack on gaps may have."""

every_file = pytest.mark.parametrize("name", FILES)


def veil(data: Array, seed: int) -> Array:
    found: Array = mv.protect(data, seed=seed).data
    return found


@cache
def released(name: str, seed: int) -> attack.Attacked:
    return attack.attacked(veil, FILES[name](), seed)


@cache
def untrained(name: str) -> tuple[list[attack.Told], list[attack.Told]]:
    """The attack on gaps and the one on the nearest record, for each seed."""
    gaps = [attack.untrained_gap_auc(*released(name, seed)) for seed in SEEDS]
    return gaps, [attack.nearest_auc(*released(name, seed)) for seed in SEEDS]


@pytest.mark.slow
@every_file
def test_gaps_and_nearest_records_tell_no_members(name: str) -> None:
    gaps, nearest = untrained(name)
    assert np.mean([told.auc for told in gaps]) <= MOST[name]
    assert np.mean([told.found for told in gaps]) <= 0.05
    assert np.mean([told.auc for told in nearest]) <= 0.55


@pytest.mark.slow
@every_file
def test_kept_sums_tell_no_more_members_than_gaps_may(name: str) -> None:
    found = []
    for seed in SEEDS:
        members, strangers, after = released(name, seed)
        told = mv.assess(members, after, holdout=strangers, measures=["membership"], seed=1, sanity=False)
        found.append(told["membership"].parts["moments"])
    assert np.mean(found) <= MOST[name]


@pytest.mark.slow
@every_file
def test_training_helps_by_little(name: str) -> None:
    """Each release is attacked by an intruder who has learnt from the four others."""
    made = [released(name, seed) for seed in (*SEEDS, 4, 5)]
    trained = [attack.trained_gap_auc(one, [*made[:place], *made[place + 1 :]]) for place, one in enumerate(made)]
    assert np.mean([told.auc for told in trained]) <= np.mean([told.auc for told in untrained(name)[0]]) + 0.05
    assert np.mean([told.found for told in trained]) <= 0.05
