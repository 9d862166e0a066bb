"""Extreme values: who is the largest is no secret, so how large must be one."""

from __future__ import annotations

import numpy as np
import pytest

from microveil.core.table import Matrix
from microveil.measures.risk.extremes import extreme_disclosure


def column(values: object) -> Matrix:
    return Matrix([np.asarray(values, dtype=float)])


def test_keeping_the_values_in_any_order_gives_all_away() -> None:
    rng = np.random.default_rng(1)
    data = rng.lognormal(size=(200, 3))
    shuffled = np.column_stack([rng.permutation(values) for values in data.T])
    found = extreme_disclosure(Matrix(list(data.T)), Matrix(list(shuffled.T)))
    assert found.value == 1
    assert found.low > 0.85  # of 150 values, which are told together


def test_five_per_cent_is_the_limit_at_both_ends() -> None:
    data = np.arange(1.0, 101.0)
    assert extreme_disclosure(column(data), column(data * 1.049)).value == 1
    assert extreme_disclosure(column(data), column(data * 1.051)).value == 0
    assert extreme_disclosure(column(-data), column(-data * 1.051)).value == 0
    half = np.where(data > 50, data * 1.2, data)
    assert extreme_disclosure(column(data), column(half)).value == 0.5


def test_a_value_many_share_is_nobodys_secret() -> None:
    data = np.concatenate([np.zeros(50), np.arange(1.0, 51.0)])  # the smallest are all zero: only the largest count
    blurred = data * np.where(data >= 50, 2.0, 1.0)
    assert extreme_disclosure(column(data), column(data)).value == 1
    assert extreme_disclosure(column(data), column(blurred)).parts["ranks 1-5"] == pytest.approx(4 / 5)
    flat = extreme_disclosure(column(np.repeat([0.0, 1.0], 30)), column(np.repeat([0.0, 1.0], 30)))
    assert flat.value == 0
    assert "shared" in flat.note


def test_missing_cells_are_not_extremes() -> None:
    data = np.arange(1.0, 101.0)
    holes = data.copy()
    holes[-3:] = np.nan
    assert extreme_disclosure(column(holes), column(holes)).value == 1
    assert extreme_disclosure(column(data), column(np.full(100, np.nan))).value == 0
    assert extreme_disclosure(column(data), column([100.0])).value == pytest.approx(1 / 50)


def test_ranks_and_sums_are_told_apart() -> None:
    data = np.exp(np.linspace(0, 12, 200))
    tail = data.copy()
    tail[-5:] = data[-5:].mean()  # averaged, which tells the sum
    tail[-25:-5] *= 0.8
    found = extreme_disclosure(column(data), column(tail))
    assert found.parts["ranks 1-5"] < 0.7  # at the upper end, what is near the mean
    assert found.parts["ranks 6-25"] == pytest.approx(0.5)
    assert found.parts["sums"] == pytest.approx(15 / 20)
    assert found.value == pytest.approx(30 / 50)


def test_another_sample_tells_no_more_than_strangers_do() -> None:
    rng = np.random.default_rng(2)
    draws = {
        "heavy": lambda: rng.lognormal(sigma=1.5, size=(300, 4)),
        "ages": lambda: rng.uniform(18, 90, size=(300, 4)),
        "few": lambda: rng.normal(size=(20, 4)),
    }
    for draw in draws.values():
        found = [extreme_disclosure(*(Matrix(list(draw().T)) for _ in range(2)), seed=k) for k in range(20)]
        values, chances = (np.array([getattr(one, what) for one in found]) for what in ("value", "chance"))
        assert values.mean() == pytest.approx(chances.mean(), abs=0.08)
    # What is dense is no secret; and who keeps the values of a heavy tail gives it away.
    ages, heavy = draws["ages"](), draws["heavy"]()
    assert extreme_disclosure(*[Matrix(list(ages.T))] * 2).chance > 0.7
    assert extreme_disclosure(*[Matrix(list(heavy.T))] * 2).chance < 0.5


def test_fresh_samples_are_seldom_taken_for_more_than_luck() -> None:
    beyond = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        both = (Matrix(list(rng.lognormal(sigma=0.3, size=(2, 500)))) for _ in range(2))
        found = extreme_disclosure(*both, seed=seed)
        beyond += found.low > found.chance
    assert beyond <= 4  # 1 in 40 is the level; one value at a time, it would be 15 of 60
