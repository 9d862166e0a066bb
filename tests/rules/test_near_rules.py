"""Sums that hold in most rows: found though some rows are wrong, and not found where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from microveil.core.moments import moments
from microveil.core.rng import Streams
from microveil.core.table import Matrix
from microveil.rules.linear_rules import LinearRule
from microveil.rules.near_rules import find_near_rules, find_near_sums, gaps, is_sum, share_met, without_gaps

Array = NDArray[np.float64]
TOTAL = 3


def found(columns: list[Array]) -> list[LinearRule]:
    table = Matrix(columns)
    stream = Streams.from_seed(1).stream("rules")
    return find_near_rules(table, moments(table.piece, table.shape[0]), stream)


def amounts(seed: int = 0, rows: int = 1000, columns: int = 3) -> list[Array]:
    """Whole amounts of very different size that have a factor in common."""
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal(rows)
    return [np.round(1000 * np.exp(factor + rng.standard_normal(rows))) for _ in range(columns)]


def with_total(parts: list[Array], wrong: float, size: float, seed: int = 5) -> list[Array]:
    """The parts and their sum, which is wrong in a share of the rows by 1, or by up to `size` times itself."""
    rng = np.random.default_rng(seed)
    total = np.sum(parts, axis=0)
    rows = rng.random(total.size) < wrong
    error = np.where(
        rows, rng.choice([-1.0, 1.0], total.size) + np.round(rng.uniform(-0.9, 1, total.size) * size * total), 0
    )
    return [*parts, total + error]


SUM = LinearRule(TOTAL, {0: 1, 1: 1, 2: 1}, exact=False)


@pytest.mark.parametrize("wrong", [0.001, 0.06, 0.3, 0.45])
@pytest.mark.parametrize("size", [0.0, 0.5, 10.0, 1000.0])
def test_a_total_is_found_though_it_is_wrong_in_some_rows(wrong: float, size: float) -> None:
    assert found(with_total(amounts(), wrong, size)) == [SUM]


def test_a_total_that_is_mostly_wrong_is_none() -> None:
    assert [rule for rule in found(with_total(amounts(), 0.6, 0.5)) if is_sum(rule)] == []


def test_rounding_differences_in_most_rows_count_as_none() -> None:
    columns = amounts()
    rng = np.random.default_rng(2)
    columns.append(np.sum(columns, axis=0) + rng.integers(-1, 2, 1000))
    assert share_met(columns, SUM) < 0.4
    assert found(columns) == [SUM]


def test_rounding_is_no_excuse_where_the_numbers_are_small() -> None:
    rng = np.random.default_rng(2)
    counts = list(rng.poisson(2, size=(3, 1000)).astype(float))
    counts.append(np.clip(np.sum(counts, axis=0) + rng.integers(-2, 3, 1000), 0, None))
    assert found(counts) == []


def test_coefficients_may_be_any_whole_numbers() -> None:
    a, b, c = amounts()
    rng = np.random.default_rng(1)
    wrong = np.where(rng.random(1000) < 0.1, rng.integers(1, 5000, 1000), 0.0)
    rules = found([a, b, c, 12 * a - b + wrong])
    assert rules == [LinearRule(3, {0: 12, 1: -1}, exact=False)]


def test_two_totals_are_found_each_in_terms_of_its_own_parts() -> None:
    first = with_total(amounts(1), 0.06, 2.0)
    second = with_total(amounts(2), 0.06, 2.0, seed=6)
    rules = sorted(found([*first, *second]), key=lambda rule: rule.column)
    assert rules == [SUM, LinearRule(7, {4: 1, 5: 1, 6: 1}, exact=False)]


def test_rows_of_zeros_speak_for_no_sum() -> None:
    """Where both columns are zero, every coefficient fits."""
    rng = np.random.default_rng(3)
    amount = np.where(rng.random(1000) < 0.3, np.round(1000 * rng.lognormal(size=1000)), 0.0)
    related = np.round(amount * rng.uniform(0.9, 1.1, 1000))
    rule = LinearRule(1, {0: 1}, exact=False)
    assert np.mean(related == amount) > 0.6
    assert share_met([amount, related], rule) < 0.1
    assert [found for found in found([amount, related, *amounts()]) if is_sum(found)] == []


def test_flags_that_agree_are_no_sum_of_each_other() -> None:
    """Mapped by their gap, they would get the values -1 and 2."""
    rng = np.random.default_rng(3)
    flag = (rng.random(1000) < 0.4).astype(float)
    other = np.where(rng.random(1000) < 0.02, 1 - flag, flag)
    assert found([flag, other, *amounts()]) == []


@pytest.mark.parametrize("seed", range(5))
def test_related_columns_without_a_rule_have_none(seed: int) -> None:
    assert found(amounts(seed, columns=6)) == []
    rng = np.random.default_rng(seed)
    assert found(list(rng.standard_normal((6, 300)))) == []


@pytest.mark.parametrize("noise", [1e-2, 1e-4, 1e-6])
def test_a_column_that_follows_from_others_but_for_a_trifle_is_found_with_fitted_coefficients(noise: float) -> None:
    columns = amounts()
    total = 0.3 * columns[0] + 0.7 * columns[1] + 0.4 * columns[2]
    columns.append(total + noise * total.std() * np.random.default_rng(4).standard_normal(1000))
    (rule,) = found(columns)
    assert not is_sum(rule)
    gap = gaps(columns, [rule])[rule.column]
    assert gap.std() <= 5 * noise * columns[rule.column].std()


def test_a_column_with_a_tenth_of_its_own_is_left_alone() -> None:
    columns = amounts()
    total = 0.3 * columns[0] + 0.7 * columns[1]
    columns.append(total + 0.1 * total.std() * np.random.default_rng(4).standard_normal(1000))
    assert found(columns) == []


def test_a_large_table_is_looked_at_in_part() -> None:
    rules = found(with_total(amounts(rows=60_000), 0.06, 10.0))
    assert rules == [SUM]


def test_few_rows_say_nothing() -> None:
    assert found([column[:8] for column in with_total(amounts(), 0.1, 1.0)]) == []


def test_a_column_far_from_zero_that_hardly_varies_does_no_harm() -> None:
    columns = with_total(amounts(), 0.06, 1.0)
    columns.append(1e9 + 1e-6 * columns[0] / columns[0].std())
    columns.append(1e-9 * amounts(9)[0])
    assert SUM in found(columns)


def test_gaps_undo_themselves() -> None:
    columns = with_total(amounts(), 0.06, 1.0)
    opened = gaps(columns, [SUM])
    assert np.mean(opened[TOTAL] == 0) > 0.9
    assert all(a is b for a, b in zip(opened[:3], columns[:3], strict=True))
    assert (without_gaps(opened, [SUM])[TOTAL] == columns[TOTAL]).all()


def test_what_holds_only_to_its_rounding_is_not_told_with_exceptions() -> None:
    number = np.arange(400.0)
    stream = Streams(1).stream("x")
    assert find_near_sums(Matrix([np.floor(number / 4), number]), [0, 1], None, stream) == []


def test_exceptions_are_counted_among_the_rows_that_tell() -> None:
    rng = np.random.default_rng(5)
    a, b, c = np.round(rng.lognormal(6, 1.5, (3, 500)))
    total = a + b
    total[:40] += 3
    a[100:150] = np.nan
    values = Matrix([a, b, c, total])
    holes = np.isnan(np.column_stack(values.columns))
    (found,) = find_near_sums(values, [0, 1, 2, 3], holes, Streams(1).stream("x"))
    assert (found.rule.column, dict(found.rule.terms)) == (3, {0: 1.0, 1: 1.0})
    assert (found.exceptions, found.rows) == (40, 450)
