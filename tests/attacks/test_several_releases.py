"""Last year's file is still on the disk.

The intruder kept every release of a file. Errors that are drawn anew each time cancel out in the mean; and where sums
are kept exactly, two releases whose data differ by one person tell that person by a subtraction.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import microveil as mv
from microveil.errors import ParameterError

Array = NDArray[np.float64]


def firms(seed: int, rows: int = 400, columns: int = 5) -> Array:
    rng = np.random.default_rng(seed)
    return np.exp(0.7 * rng.normal(size=(rows, 1)) + 0.7 * rng.normal(size=(rows, columns)))


def test_the_mean_of_many_noisy_releases_links_more() -> None:
    data = firms(1)
    releases = [mv.protect(data, "noise", seed=seed).data for seed in range(8)]
    options = {"measures": ["dbrl", "near_matches", "ks"], "seed": 1, "sanity": False}
    one, all_ = mv.assess(data, releases[0], **options), mv.assess(data, releases, **options)
    assert all_["dbrl"].value > one["dbrl"].value + 0.1
    assert all_["ks"] == one["ks"]  # what a release is good for is that of the first
    assert all_.notes[0].startswith("8 releases")


def test_two_files_that_differ_by_one_record_give_it_away() -> None:
    data = firms(2)
    first, second = (
        mv.protect(table, "ipso", seed=seed).data for seed, table in enumerate([data, np.delete(data, 123, 0)])
    )
    options = {"measures": ["exact_matches", "max_record_risk"], "seed": 1, "sanity": False}
    found = mv.assess(data, [first, second], **options)
    assert any("differ by a record" in note for note in found.notes)
    assert found.records["row"][0] == 123
    assert found["max_record_risk"].value > 0.99
    alone = mv.assess(data, first, **options)
    assert alone["max_record_risk"].value < 0.99
    again = mv.protect(data, "ipso", seed=5).data
    assert not any("differ by a record" in note for note in mv.assess(data, [first, again], **options).notes)


def test_values_that_stand_in_several_releases_are_counted() -> None:
    data = firms(3)
    swapped = [mv.protect(data, "rank_swap", seed=seed).data for seed in range(2)]
    found = mv.assess(data, swapped, measures=["ks"], seed=1, sanity=False)
    assert "100.0% of the values" in found.notes[1]


def test_one_release_in_a_list_is_one_release_and_none_is_refused() -> None:
    data = firms(4)
    options = {"measures": ["dbrl"], "seed": 1, "sanity": False}
    released = mv.protect(data, "pca", seed=1)
    assert mv.assess(data, [released], **options)["dbrl"] == mv.assess(data, released, **options)["dbrl"]
    with pytest.raises(ParameterError, match="no release"):
        mv.assess(data, [], **options)
