"""Columns that are the ratio of two others: found only if they are, and computed anew from what was released."""

from __future__ import annotations

import time

import numpy as np
import pytest
from numpy.typing import NDArray

from microveil.core.table import Matrix
from microveil.rules.ratios import RatioRule, find_ratios, ratio_rule

Array = NDArray[np.float64]
NAN = float("nan")
REVENUE, QUANTITY, PRICE = 0, 1, 2


def table(seed: int = 0, rows: int = 400, decimals: int | None = 2) -> list[Array]:
    """Revenue, quantity, price = revenue / quantity, and two columns that have nothing to do with it."""
    rng = np.random.default_rng(seed)
    revenue, quantity = np.round(1000 * rng.lognormal(size=rows), 1), np.round(1 + 50 * rng.lognormal(size=rows))
    price = revenue / quantity
    others = 10 * rng.lognormal(size=(2, rows))
    return [revenue, quantity, price if decimals is None else np.round(price, decimals), *others]


def found(columns: list[Array]) -> list[RatioRule]:
    return find_ratios(Matrix(columns))


# --- Finding


@pytest.mark.parametrize("decimals", [1, 2, 4])
def test_a_rounded_ratio_is_found_wherever_it_stands(decimals: int) -> None:
    columns = table(decimals=decimals)
    assert found(columns) == [RatioRule(PRICE, REVENUE, QUANTITY, 10.0**-decimals)]
    for order in ([2, 1, 0, 3, 4], [3, 2, 4, 1, 0]):
        turned = [columns[j] for j in order]
        expected = RatioRule(order.index(2), order.index(0), order.index(1), 10.0**-decimals)
        assert found(turned) == [expected]


def test_an_unrounded_ratio_is_found_as_one_of_its_forms() -> None:
    columns = table(decimals=None)
    (rule,) = found(columns)
    assert {rule.column, rule.numerator, rule.denominator} == {REVENUE, QUANTITY, PRICE}
    assert rule.step is None
    assert np.allclose(rule.rebuilt(columns), columns[rule.column], rtol=1e-12)


def test_ways_of_rounding_a_half_are_all_taken_for_one() -> None:
    rng = np.random.default_rng(3)
    quantity = rng.choice([8.0, 16.0, 40.0], 300)
    revenue = rng.integers(1, 4000, 300).astype(float)
    price = np.floor(100 * revenue / quantity + 0.5) / 100  # a half goes up here, and to the even digit in numpy
    assert (price != np.round(revenue / quantity, 2)).any()
    columns = [revenue, quantity, price, rng.lognormal(size=300)]
    assert found(columns) == [RatioRule(PRICE, REVENUE, QUANTITY, 0.01)]


def test_one_row_that_does_not_fit_refutes_a_ratio() -> None:
    columns = table()
    columns[PRICE][333] += 0.02
    assert found(columns) == []
    assert ratio_rule(columns, PRICE, REVENUE, QUANTITY).broken(columns) == 1


def test_whole_numbers_are_no_ratios() -> None:
    """Rounded to whole numbers, many a count would fit many a quotient."""
    columns = table()
    columns[PRICE] = np.round(columns[REVENUE] / columns[QUANTITY])
    assert found(columns) == []


def test_few_different_values_are_no_ratios() -> None:
    rng = np.random.default_rng(1)
    half = np.where(rng.random(400) < 0.5, 0.5, 0.25)
    below = 1 + rng.integers(1, 9, 400) * 4.0
    assert found([half * below, below, half, rng.lognormal(size=400)]) == []


def test_a_constant_denominator_makes_a_unit_and_no_ratio() -> None:
    columns = table()
    columns[QUANTITY][:] = 100.0
    columns[PRICE] = columns[REVENUE] / 100
    assert found(columns) == []


def test_columns_that_have_nothing_to_do_with_each_other_have_no_ratios() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        assert found(list(np.round(100 * rng.lognormal(size=(6, 60)), 1))) == []


def test_a_column_is_in_one_rule_and_no_ratio_is_made_of_ratios() -> None:
    columns = table(decimals=None)
    columns += [columns[3] / columns[4], columns[3] / columns[QUANTITY]]
    rules = found(columns)
    made = {rule.column for rule in rules}
    assert len(made) == len(rules) == 3
    assert not made & {j for rule in rules for j in (rule.numerator, rule.denominator)}


def test_few_rows_say_nothing() -> None:
    columns = [column[:10] for column in table()]
    assert found(columns) == []


def test_forty_columns_are_searched_in_a_moment() -> None:
    rng = np.random.default_rng(0)
    columns = list(np.round(100 * rng.lognormal(size=(40, 2000)), 2))
    start = time.process_time()
    assert found(columns) == []
    assert time.process_time() - start < 2


# --- Zeros and holes


def test_where_the_denominator_is_zero_the_custom_of_the_file_is_kept() -> None:
    for custom in (0.0, 99.9):
        columns = table()
        columns[QUANTITY][10:20] = 0.0
        columns[PRICE][10:20] = custom
        assert found(columns) == [RatioRule(PRICE, REVENUE, QUANTITY, 0.01, otherwise=custom)]


def test_where_the_denominator_is_zero_nobody_s_own_value_becomes_the_custom() -> None:
    columns = table()
    columns[QUANTITY][10] = 0.0
    columns[PRICE][10] = 777.77
    rule = ratio_rule(columns, PRICE, REVENUE, QUANTITY)
    assert rule.otherwise == 0
    assert rule.broken(columns) == 1
    assert found(columns) == []


def test_different_values_over_zero_are_no_custom() -> None:
    columns = table()
    columns[QUANTITY][10:20] = 0.0
    assert found(columns) == []  # what was the price stays, a different one in each row


def test_a_hole_in_the_ratio_says_nothing() -> None:
    columns = table()
    columns[PRICE][::3] = NAN
    assert found(columns) == [RatioRule(PRICE, REVENUE, QUANTITY, 0.01)]
    columns[QUANTITY][::9] = NAN  # where the ratio is missing anyway
    assert found(columns) == [RatioRule(PRICE, REVENUE, QUANTITY, 0.01)]


def test_a_ratio_that_is_known_while_its_parts_are_not_cannot_be_computed_anew() -> None:
    columns = table()
    columns[QUANTITY][5] = NAN
    assert ratio_rule(columns, PRICE, REVENUE, QUANTITY).broken(columns) == 1
    assert found(columns) == []


def test_a_column_of_holes_refutes_nothing_and_is_not_believed() -> None:
    columns = table()
    columns[PRICE][100:] = NAN
    assert found(columns) == []


def test_quotients_beyond_all_numbers_are_no_ratio() -> None:
    tiny = np.full(10, 1e-308)
    assert find_ratios(Matrix([tiny, np.full(10, 86420.0), np.arange(10.0)])) == []


def test_a_missing_ratio_over_zero_is_missing_again() -> None:
    columns = table()
    columns[QUANTITY][10:20] = 0.0
    columns[PRICE][10:20] = NAN
    (rule,) = found(columns)
    rebuilt = rule.rebuilt(columns)
    assert np.isnan(rebuilt[10:20]).all()
    assert np.isfinite(np.delete(rebuilt, slice(10, 20))).all()


# --- Computing anew


def test_the_ratio_is_rebuilt_from_other_values_with_its_rounding() -> None:
    columns = table()
    rule = RatioRule(PRICE, REVENUE, QUANTITY, 0.01, otherwise=-1.0)
    new = [np.array([10.0, 7.0, 0.0, -4.0]), np.array([3.0, 0.0, 0.0, -0.0]), np.zeros(4)]
    assert rule.rebuilt(new).tolist() == [3.33, -1, -1, -1]
    assert rule.broken([*new[:2], rule.rebuilt(new)]) == 0
    assert rule.broken(columns) == 0
    assert rule.sentence(["revenue", "quantity", "price"]) == "price = revenue / quantity"
