"""Univariate microaggregation: groups of neighbours and their means."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from microveil.core.rng import Streams
from microveil.errors import ParameterError
from microveil.perturb import Column
from microveil.perturb.microaggregate import Microaggregate, group_sizes

Array = NDArray[np.float64]


def column(values: Array, weights: Array | None = None) -> Column:
    return Column(values, Streams(1).stream("unused"), 0, weights)


@pytest.mark.parametrize(("rows", "size"), [(3, 3), (5, 3), (6, 3), (8, 3), (100, 7), (11, 10), (19, 10)])
def test_groups_have_the_size_asked_and_the_last_takes_the_rest(rows: int, size: int) -> None:
    sizes = group_sizes(rows, size)
    assert sizes.sum() == rows
    assert (sizes[:-1] == size).all()
    assert size <= sizes[-1] < 2 * size


def test_neighbours_become_their_mean() -> None:
    values = np.array([9.0, 1.0, 2.0, 100.0, 3.0, 10.0, 11.0, 4.0])
    new = Microaggregate(group_size=3).apply(column(values))
    # sorted: 1 2 3 | 4 9 10 11 100 (the last group takes the remainder)
    assert new.tolist() == [26.8, 2.0, 2.0, 26.8, 2.0, 26.8, 26.8, 26.8]


@pytest.mark.parametrize("size", [2, 3, 10, 250])
def test_the_mean_is_kept_and_the_variance_shrinks_by_what_varies_within_groups(size: int) -> None:
    values = np.random.default_rng(2).gamma(1.0, size=500)
    new = Microaggregate(group_size=size).apply(column(values))
    assert new.mean() == pytest.approx(values.mean(), rel=1e-14)
    assert np.var(new) == pytest.approx(np.var(values) - np.var(values - new), rel=1e-12)
    assert np.unique(new, return_counts=True)[1].min() >= size
    assert np.array_equal(np.argsort(new, kind="stable"), np.lexsort((np.arange(500), new)))
    assert (np.diff(new[np.argsort(values)]) >= 0).all()


def test_with_weights_the_weighted_mean_is_kept_and_groups_still_count_records() -> None:
    rng = np.random.default_rng(3)
    values, weights = rng.normal(size=200), rng.uniform(0.1, 10, 200)
    new = Microaggregate(group_size=5).apply(column(values, weights))
    assert np.average(new, weights=weights) == pytest.approx(np.average(values, weights=weights), rel=1e-13)
    assert np.unique(new, return_counts=True)[1].tolist() == [5] * 40


def test_a_group_larger_than_the_table_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"^group_size: 9 records asked, but there are 8 rows"):
        Microaggregate(group_size=9).check(8, 1)
    Microaggregate(group_size=8).check(8, 1)
