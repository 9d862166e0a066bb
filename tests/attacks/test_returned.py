"""Warnings on what the released values alone disclose: they come where a record is found, not where luck finds one."""

import numpy as np
import pytest

from microveil.release.returned import giveaways

FOUND = "four times as near"


def coarse(rows, seed):
    """Records of an age and eight questions that are answered with yes or no, which go together."""
    rng = np.random.default_rng(seed)
    health = rng.normal(size=rows)
    answers = [(health + rng.normal(size=rows) > limit).astype(float) for limit in np.linspace(0.5, 2.5, 8)]
    return [np.round(50 + 10 * health + 8 * rng.normal(size=rows)), *answers]


@pytest.mark.parametrize("seed", range(5))
def test_records_that_luck_finds_are_no_warning(seed):
    file, strangers = coarse(900, seed), coarse(900, seed + 100)
    assert not any(FOUND in said for said in giveaways(file, strangers))


@pytest.mark.parametrize("seed", range(5))
def test_copies_with_a_little_noise_are_one(seed):
    rng = np.random.default_rng(seed)
    file = coarse(900, seed)
    moved = rng.permutation(900)
    copies = [(column + 0.002 * column.std() * rng.normal(size=900))[moved] for column in file]
    assert any(FOUND in said for said in giveaways(file, copies))
