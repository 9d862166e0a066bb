"""Who was in the file that `veil` released?

Half of a file is released with the defaults, the other half are strangers from the same population. The intruder adds
up how near a record's values come to released ones, with and without training on releases of its own, or looks for
the nearest released record; and reads the ends of a column by rank alone. One default for all files, no dial set.
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
def untrained(name: str) -> tuple[list[attack.Told], list[attack.Told]]:
    """The attack on gaps and the one on the nearest record, for each seed."""
    gaps, nearest = [], []
    for seed in SEEDS:
        members, strangers = attack.halves(FILES[name](), np.random.default_rng(seed))
        released = veil(members, seed)
        gaps.append(attack.untrained_gap_auc(members, strangers, released))
        nearest.append(attack.nearest_auc(members, strangers, released))
    return gaps, nearest


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
        members, strangers = attack.halves(FILES[name](), np.random.default_rng(seed))
        told = mv.assess(members, veil(members, seed), holdout=strangers, measures=["membership"], seed=1, sanity=False)
        found.append(told["membership"].parts["moments"])
    assert np.mean(found) <= MOST[name]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "most"), [("tarragona", 0.5), ("eia", 0.75)])
def test_ranks_near_the_ends_tell_few_values(name: str, most: float) -> None:
    """Ranks 6 to 25 from both ends, within 5 % of the truth; and columns keep their distributions all the same."""
    data, ends = getattr(reference, name)()[1], np.r_[5:25, -25:-5]
    told, off = [], []
    for seed in SEEDS:
        old, new = (np.sort(table, axis=0) for table in (data, veil(data, seed)))
        told.append(np.mean(np.abs(new[ends] - old[ends]) <= 0.05 * np.abs(old[ends])))
        off.append(mv.assess(data, new, measures=["ks"], sanity=False)["ks"].value)
    assert np.mean(told) <= most
    assert np.mean(off) <= 0.03


@pytest.mark.slow
@every_file
def test_training_helps_by_little(name: str) -> None:
    trained = [attack.trained_gap_auc(veil, FILES[name](), seed=seed) for seed in SEEDS]
    assert np.mean([told.auc for told in trained]) <= np.mean([told.auc for told in untrained(name)[0]]) + 0.05
    assert np.mean([told.found for told in trained]) <= 0.05
