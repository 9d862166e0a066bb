"""Orders between columns, and heaps at round numbers."""

from __future__ import annotations

import numpy as np
import pytest

from microveil.core.table import Matrix
from microveil.rules.domain import heaping
from microveil.rules.orders import OrderRule, find_orders, of_one_measure

NAN = float("nan")


def test_rows_with_holes_break_no_order() -> None:
    low, high = np.array([1.0, 5.0, NAN, 2.0]), np.array([2.0, 4.0, 0.0, NAN])
    assert OrderRule(0, 1).broken_rows([low, high]).tolist() == [False, True, False, False]
    assert OrderRule(0, 1).broken([low, high]) == 1
    assert OrderRule(0, 1).sentence(["net", "gross"]) == "net <= gross"


@pytest.mark.parametrize("place", [0, 49, 51, 999])
def test_one_row_against_it_is_enough(place: int) -> None:
    rng = np.random.default_rng(1)
    high = rng.lognormal(size=1000)
    low = high * rng.uniform(0.2, 1, 1000)
    assert find_orders(Matrix([low, high])) == [OrderRule(0, 1)]
    low[place] = 2 * high[place]
    assert find_orders(Matrix([low, high])) == []


def test_columns_of_different_measures_are_in_no_order_unless_some_rows_are_equal() -> None:
    """`materials <= hours_worked` held in every row of the survey, by the sizes of an amount of money and of hours."""
    rng = np.random.default_rng(1)
    high = rng.lognormal(size=1000)
    apart, near = high * rng.uniform(0.1, 0.9, 1000), np.minimum(high, high * rng.uniform(0.1, 1.2, 1000))
    for low, names, found in (
        (apart, ["materials", "hours_worked"], 0),
        (apart, ["overtimeHours", "hours_worked"], 1),
        (apart, ["materials", "turnover"], 1),
        (apart, ["share_pct", "age"], 0),
        (near, ["materials", "hours_worked"], 1),
    ):
        values = Matrix([low, high])
        assert len(of_one_measure(values, find_orders(values), names)) == found, names


def test_few_rows_say_nothing() -> None:
    rng = np.random.default_rng(2)
    high = rng.lognormal(size=12)
    assert find_orders(Matrix([high * 0.6, high])) == []


def test_equal_columns_are_in_no_order() -> None:
    column = np.random.default_rng(3).lognormal(size=500)
    assert find_orders(Matrix([column, column.copy()])) == []


@pytest.mark.parametrize("step", [1.0, 0.01])
def test_no_heap_in_values_that_nobody_rounded(step: float) -> None:
    values = np.round(np.random.default_rng(4).uniform(0, 50_000, 20_000) / step) * step
    assert heaping(values, step) == {}


def test_heaps_are_where_they_were_made() -> None:
    rng = np.random.default_rng(5)
    values = np.round(rng.uniform(1_000, 90_000, 10_000))
    rounded = rng.random(10_000)
    values = np.where(rounded < 0.3, np.round(values / 1000) * 1000, values)
    found = heaping(values, 1.0)
    assert found[1000] == pytest.approx(0.3 + 0.7 / 1000, abs=4 * np.sqrt(0.3 * 0.7 / 10_000))
    assert max(found) == 1000
    assert heaping(values, None) == {}
    assert heaping(np.array([NAN, 0.0]), 1.0) == {}


def test_heaps_at_five_are_not_told_as_heaps_at_fifty() -> None:
    values = 5 * np.round(np.random.default_rng(6).uniform(0, 20_000, 10_000))
    values[::3] += 1
    assert list(heaping(values, 1.0)) == [5]
