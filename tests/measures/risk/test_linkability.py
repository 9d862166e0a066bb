"""Two halves of a record that meet in one released record."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from samples import matrix

from microveil.core.rng import Streams
from microveil.errors import DataError
from microveil.measures.risk.linkability import _put_together, linkability

Array = NDArray[np.float64]
STREAM = Streams(1).stream("test")
HALVES = [[np.array([0]), np.array([1])]]


def test_halves_meet_if_one_record_is_nearest_to_both() -> None:
    source = np.array([[0.0, 0.0], [10.0, 10.0]])
    targets = np.array([[1.0, 2.0], [1.0, 9.0], [9.0, 9.0]])  # the second one's halves are nearest to different records
    found = _put_together(source, targets, None, halves=HALVES, stream=STREAM)
    assert (found.hits, found.tries) == (2, 3)


def test_nobody_is_found_by_the_own_row() -> None:
    # The first two are neighbours in both halves, the third is nearest to different ones.
    source = np.array([[0.0, 0.0], [1.0, 1.0], [2.5, -2.0]])
    found = _put_together(source, source, np.arange(3), halves=HALVES, stream=STREAM)
    assert found.hits == 2
    alone = _put_together(source[:1], source[:1], np.arange(1), halves=HALVES, stream=STREAM)
    assert alone.hits == 0


def test_equals_are_picked_at_random() -> None:
    # A hundred equal records: both halves pick the same one of a hundred by luck.
    source = np.zeros((100, 2))
    targets = np.zeros((100, 2))
    hits = [
        _put_together(source, targets, None, halves=HALVES, stream=Streams(seed).stream("test")).hits
        for seed in range(300)
    ]
    # All targets of a draw pick alike: a draw is all or nothing.
    assert np.mean(hits) / 100 == pytest.approx(0.01, abs=4 * np.sqrt(0.01 * 0.99 / 300))


def test_a_half_of_which_nothing_is_known_meets_nobody() -> None:
    data = np.random.default_rng(1).normal(size=(50, 2))
    assert _put_together(data, data, None, halves=HALVES, stream=STREAM).hits == 50
    holes = data.copy()
    holes[:20, 0] = np.nan
    assert _put_together(data, holes, None, halves=HALVES, stream=STREAM).hits == 30
    # Of those whose release has a hole, both halves go to other records, and meet by luck at most.
    assert 30 <= _put_together(holes, data, None, halves=HALVES, stream=STREAM).hits <= 33
    with pytest.raises(DataError, match="two columns"):
        linkability(matrix(data[:, :1]), matrix(data[:, :1]))


def test_less_noise_links_more() -> None:
    rng = np.random.default_rng(2)
    data = rng.normal(size=(300, 6))
    noise = rng.normal(size=data.shape)
    found = [linkability(matrix(data), matrix(data + sd * noise), seed=1) for sd in (0.0, 0.05, 0.2, 1.0)]
    values = [measure.value for measure in found]
    assert values == sorted(values, reverse=True)
    assert values[0] == 1
    assert found[3].low <= found[3].chance
