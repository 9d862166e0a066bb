"""Copies and near copies, by distances and by equality, beside looking at every pair."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from samples import matrix

from microveil.measures.risk.closest import dcr_ratio, exact_matches

Array = NDArray[np.float64]


@pytest.mark.parametrize("columns", [2, 12])
def test_ratios_are_those_of_looking_at_every_pair(columns: int) -> None:
    rng = np.random.default_rng(1)
    data = rng.lognormal(size=(150, columns))
    released = (data + 0.2 * data.std(axis=0) * rng.normal(size=data.shape))[:120]
    z, y = ((side - data.mean(axis=0)) / data.std(axis=0) for side in (data, released))
    to_released = np.sqrt(np.square(z[:, None] - y[None]).sum(axis=2)).min(axis=1)
    to_others = np.sqrt(np.square(z[:, None] - z[None]).sum(axis=2)) + np.diag(np.full(150, np.inf))
    ratios = to_released / to_others.min(axis=1)
    found = dcr_ratio(matrix(data), matrix(released))
    assert found.value == pytest.approx(np.median(ratios), rel=1e-9)
    assert found.parts == {"below 0.1": (ratios < 0.1).mean(), "below 0.5": (ratios < 0.5).mean()}


def test_a_fresh_sample_is_as_far_as_other_originals() -> None:
    rng = np.random.default_rng(2)
    found = [dcr_ratio(*(matrix(rng.lognormal(size=(300, 4))) for _ in range(2))) for _ in range(40)]
    values = np.array([measure.value for measure in found])
    assert values.mean() == pytest.approx(1.0, abs=4 * values.std() / np.sqrt(40))
    assert np.mean([measure.low <= 1 <= measure.high for measure in found]) >= 0.85


def test_twins_that_came_back_are_as_near_as_each_other() -> None:
    data = np.array([[0.0, 0.0], [0.0, 0.0], [5.0, 1.0], [9.0, 7.0]])
    assert dcr_ratio(matrix(data), matrix(data)).value == pytest.approx(0.5)  # 0, 0 and twice 1
    gone = dcr_ratio(matrix(data), matrix(data[2:] + 0.1))
    assert np.isinf(gone.high)
    assert dcr_ratio(matrix(data), matrix(np.full((2, 2), np.nan))).value == np.inf


def test_of_many_records_a_sample_is_tried() -> None:
    data = np.random.default_rng(3).normal(size=(15_000, 2))
    found = dcr_ratio(matrix(data), matrix(data), seed=1)
    assert "an estimate from 13333 of 15000 records" in found.note
    assert found.value == 0


def test_matches_are_those_of_comparing_every_pair() -> None:
    rng = np.random.default_rng(4)
    data = rng.integers(0, 6, size=(300, 3)).astype(float)
    released = rng.integers(0, 6, size=(40, 3)).astype(float)
    expected = np.mean([(record == released).all(axis=1).any() for record in data])
    found = exact_matches(matrix(data), matrix(released))
    assert found.value == pytest.approx(expected)
    # Forty records in 216 places: the columns are independent, so accidents are all there is.
    assert found.low <= found.chance <= found.high


def test_values_are_compared_at_the_resolution_of_the_data() -> None:
    rng = np.random.default_rng(5)
    whole = rng.integers(1000, 90_000, size=(100, 3)).astype(float)
    moved = whole + rng.uniform(-0.49, 0.49, size=whole.shape)
    assert exact_matches(matrix(whole), matrix(moved)).value == 1
    assert exact_matches(matrix(whole), matrix(whole + 0.51)).value == 0
    cents = np.round(rng.normal(size=(100, 3)), 2)
    assert exact_matches(matrix(cents), matrix(cents + 0.004)).value == 1
    real = rng.normal(size=(100, 3))
    assert exact_matches(matrix(real), matrix(real * (1 + 1e-15))).value == 1
    assert exact_matches(matrix(real), matrix(real + 1e-6)).value == 0


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e10])
def test_a_last_digit_makes_no_other_record(offset: float) -> None:
    rng = np.random.default_rng(15)
    data = rng.normal(size=(400, 3)) + offset
    again = rng.permutation(np.nextafter(data, np.inf))
    found = exact_matches(matrix(data), matrix(again))
    assert found.value == 1
    assert found.chance < 0.01
    data[::9, 1] = np.nan
    assert exact_matches(matrix(data), matrix(again)).value == pytest.approx(1 - len(data[::9]) / 400)
    assert exact_matches(matrix(data), matrix(rng.normal(size=(400, 3)) + offset)).value == 0


def test_missing_cells_match_missing_cells_but_nothing_matches_nobody() -> None:
    data = np.random.default_rng(6).normal(size=(20, 3))
    data[0] = np.nan
    data[1:5, 1] = np.nan
    assert exact_matches(matrix(data), matrix(data)).value == pytest.approx(19 / 20)
    filled = np.where(np.isnan(data), 0.0, data)
    assert exact_matches(matrix(data), matrix(filled)).value == pytest.approx(15 / 20)


def test_one_record_that_came_back_is_found() -> None:
    rng = np.random.default_rng(7)
    data = rng.normal(size=(500, 4))
    released = rng.normal(size=(500, 4))
    released[321] = data[17]
    assert exact_matches(matrix(data), matrix(released)).value == pytest.approx(1 / 500)
    assert dcr_ratio(matrix(data), matrix(released)).parts["below 0.1"] >= 1 / 500
