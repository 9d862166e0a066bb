"""Descriptions that fit one person: made without text, and no better than those of strangers where nothing leaks."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from samples import matrix

from microveil.errors import ParameterError
from microveil.measures.risk.singling_out import Sorted, _by_one_column, singling_out

Array = NDArray[np.float64]


def test_records_that_fit_are_counted_as_by_looking_at_all() -> None:
    rng = np.random.default_rng(1)
    values = np.round(rng.normal(size=(200, 4)), 1)  # rounded: limits are met
    values[rng.random(values.shape) < 0.1] = np.nan
    table = Sorted.of(values)
    for _ in range(200):
        columns = np.sort(rng.permutation(4)[: rng.integers(1, 5)])
        limits, side = np.round(rng.normal(size=columns.size), 1), rng.choice([-1.0, 1.0], columns.size)
        fits = [
            all(not np.isnan(v) and (v >= c if up > 0 else v <= c) for v, c, up in zip(row, limits, side, strict=True))
            for row in values[:, columns]
        ]
        assert table.fitting(columns, limits, side) == sum(fits)


def test_limits_are_half_way_to_the_next_record() -> None:
    values = np.array([[9.0, 9.0], [7.0, 8.0], [9.5, 3.0], [1.0, 1.0], [np.nan, 20.0]])
    table = Sorted.of(values)
    both, up = np.array([0, 1]), np.array([1.0, 1.0])
    assert table.fitting(both, values[0], up) == 1
    assert table.room(0, both, up) == 2  # by two less in either column the second record would fit too
    assert table.fitting(both, values[0] - 1.99, up) == 1
    assert table.fitting(both, values[0] - 2.0, up) == 2
    assert Sorted.of(values[[0, 4]]).room(0, both, up) == np.inf  # a missing cell never fits


def test_one_column_alone() -> None:
    original = np.array([[1.0], [2.0], [2.0], [9.0]])
    # The ends of the release are half-way to the next, 1.5 and 3.5: one original is below, one above. The values that
    # occur once are 1, which one original has, and 5, which none has.
    found = _by_one_column(np.array([[1.0], [2.0], [2.0], [5.0]]), original)
    assert (found.hits, found.tries) == (3, 4)
    assert _by_one_column(original, original).share == 1
    assert _by_one_column(np.full((3, 1), np.nan), original).tries == 0


def test_a_release_that_keeps_the_columns_keeps_what_one_column_tells() -> None:
    rng = np.random.default_rng(2)
    data = rng.lognormal(size=(300, 4))
    shuffled = np.column_stack([rng.permutation(column) for column in data.T])
    found = singling_out(matrix(data), matrix(shuffled), seed=1)
    assert found.parts["one column"] == 1
    assert found.value < 0.1


@pytest.mark.slow
def test_the_less_is_changed_the_more_are_singled_out() -> None:
    rng = np.random.default_rng(3)
    data = rng.normal(size=(300, 6))
    nearly, weak, strong = (data + sd * rng.normal(size=data.shape) for sd in (1e-6, 0.01, 0.5))
    for columns in (2, 4, 9):
        found = [singling_out(matrix(data), matrix(side), columns=columns, seed=1) for side in (nearly, weak, strong)]
        assert found[0].value > 0.97
        assert found[0].value > found[1].value > found[2].value
    with pytest.raises(ParameterError, match="columns"):
        singling_out(matrix(data), matrix(data), columns=0)


def test_where_all_are_alike_nobody_is_singled_out() -> None:
    data = np.repeat([[0.0, 1.0], [1.0, 0.0]], 50, axis=0)
    found = singling_out(matrix(data), matrix(data), seed=1)
    assert found.value == 0
    assert "nothing to try" in found.note


def test_records_described_are_told() -> None:
    data = np.random.default_rng(4).normal(size=(200, 3))
    found = singling_out(matrix(data), matrix(data), seed=1)
    assert found.value == 1
    number = int(found.note.split()[0])
    assert 10 < number <= 200
    assert found.low == pytest.approx(
        1 - (1 - number / (number + 1.959964**2)) / (1 - found.parts["control"]), abs=1e-6
    )  # Wilson's lower end where all tries are hits is n / (n + z²)
