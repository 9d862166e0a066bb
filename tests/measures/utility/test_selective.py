"""Selectivity: sensitive columns are to lose their correlation with the original, the others are to keep it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from samples import matrix

from microveil.errors import ParameterError
from microveil.measures.utility.distances import selectivity

Array = NDArray[np.float64]


def pair() -> tuple[Array, Array]:
    rng = np.random.default_rng(1)
    data = rng.lognormal(size=(200, 3))
    return data, data + data.std(axis=0) * rng.normal(size=data.shape) * [2.0, 0.1, 0.0]


def test_the_papers_index() -> None:
    data, released = pair()
    cor = [abs(np.corrcoef(old, new)[0, 1]) for old, new in zip(data.T, released.T, strict=True)]
    found = selectivity(matrix(data), matrix(released), sensitive=[0])
    assert found.value == pytest.approx((cor[0] + (1 - cor[1]) + (1 - cor[2])) / 3)
    assert found.parts == pytest.approx({"sensitive": cor[0], "others": (cor[1] + cor[2]) / 2})
    everything = selectivity(matrix(data), matrix(released))
    assert everything.value == pytest.approx(np.mean(cor))
    assert list(everything.parts) == ["sensitive"]


def test_a_column_turned_around_is_still_known() -> None:
    data, _ = pair()
    assert selectivity(matrix(data), matrix(-3 * data + 1)).value == pytest.approx(1)


def test_the_extremes_and_bad_columns() -> None:
    data, _ = pair()
    gone = data.copy()
    gone[:, 0] = 1.0
    assert selectivity(matrix(data), matrix(gone), sensitive=[0]).value == pytest.approx(0)
    assert selectivity(matrix(data), matrix(gone), sensitive=[1, 2]).value == pytest.approx(1)
    holes = data.copy()
    holes[:100] = np.nan
    assert selectivity(matrix(data), matrix(holes)).value == pytest.approx(1)
    for wrong in ([], [3], [-1]):
        with pytest.raises(ParameterError, match="sensitive"):
            selectivity(matrix(data), matrix(data), sensitive=wrong)


def test_for_two_columns_it_is_one_half_whatever_is_swapped() -> None:
    # cor(x, x') is the same for both columns when their common component is swapped: the index cannot tell.
    rng = np.random.default_rng(2)
    common, own = rng.normal(size=(2, 100_000))
    data = np.column_stack([common + own, common - own])
    swapped = rng.permutation(common)
    released = np.column_stack([swapped + own, swapped - own])
    assert selectivity(matrix(data), matrix(released), sensitive=[0]).value == pytest.approx(0.5, abs=0.01)
