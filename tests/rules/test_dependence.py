"""Linear rules between columns are found where they hold in every row, told in plain words, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from gaps import patterns
from numpy.typing import NDArray

import microveil as mv
from microveil.core.table import Matrix
from microveil.rules.linear_rules import Dependence, LinearRule, dependence_among

Array = NDArray[np.float64]


def dependence(*columns: Array, declared: tuple[LinearRule, ...] = ()) -> Dependence:
    matrix = Matrix([np.asarray(column, dtype=float) for column in columns])
    return dependence_among(matrix, range(len(columns)), declared=declared)


def sentences(**columns: Array) -> list[str]:
    return [rule.sentence(list(columns)) for rule in dependence(*columns.values()).rules]


def amounts(seed: int, count: int, rows: int = 400) -> Array:
    """Whole amounts with long tails, as in a business survey."""
    rng = np.random.default_rng(seed)
    return np.round(np.exp(rng.standard_normal((count, rows)) + 5))


def assert_rules_hold(found: Dependence, columns: tuple[Array, ...], tolerance: float = 1e-9) -> None:
    """Every rule, row by row, against the sizes of its terms; and rules and columns fit together."""
    for rule in found.rules:
        assert rule.column not in found.independent
        assert set(rule.terms) <= set(found.independent)
        parts = [abs(c) * np.abs(columns[j]) for j, c in rule.terms.items()]
        size = np.abs(columns[rule.column]) + np.sum(parts, axis=0) + abs(rule.constant)
        gap = np.abs(columns[rule.column] - rule.rebuilt(columns))
        assert (gap <= tolerance * size).all()
    assert len(found.independent) + len(found.rules) == len(columns)


# --- Sums


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_total_is_found_with_whole_coefficients_wherever_it_stands(order: tuple[int, int, int]) -> None:
    home, abroad = amounts(1, 2)
    columns = [home, abroad, home + abroad]
    names = ["home", "abroad", "total"]
    shown = {names[j]: columns[j] for j in order}
    assert sentences(**shown) in (["total = home + abroad"], ["total = abroad + home"])
    (rule,) = dependence(*shown.values()).rules
    assert set(rule.terms.values()) == {1.0}
    assert rule.constant == 0.0


def test_nested_totals_come_out_as_sums_of_their_parts() -> None:
    a, b, c, d = amounts(2, 4)
    found = sentences(a=a, b=b, c=c, d=d, ab=a + b, cd=c + d, all=a + b + c + d)
    assert sorted(found) == ["ab = a + b", "all = a + b + c + d", "cd = c + d"]


def test_total_of_totals_only_is_found() -> None:
    a, b, c, d = amounts(3, 4)
    columns = (a + b, c + d, a + b + c + d, a, c)
    found = dependence(*columns)
    assert len(found.rules) == 1
    assert_rules_hold(found, columns)
    assert set(found.rules[0].terms.values()) <= {1.0, -1.0}


def test_difference_is_found_and_reads_as_one_or_as_its_sum() -> None:
    sales, costs = amounts(4, 2)
    assert sentences(sales=sales, costs=costs, profit=sales - costs) in (
        ["profit = sales - costs"],
        ["sales = costs + profit"],
        ["costs = sales - profit"],
    )


def test_small_difference_of_large_columns_is_found() -> None:
    rng = np.random.default_rng(5)
    sales = np.round(np.exp(rng.standard_normal(400) + 9))
    costs = np.round(0.95 * sales + 10 * rng.standard_normal(400))
    columns = (sales, costs, sales - costs)
    found = dependence(*columns)
    assert len(found.rules) == 1
    assert set(map(abs, found.rules[0].terms.values())) == {1.0}
    assert_rules_hold(found, columns, 1e-15)


def test_whole_coefficients_other_than_one_are_found() -> None:
    a, b = amounts(6, 2)
    (rule,) = dependence(a, b, 3 * a + 2 * b).rules
    assert rule == LinearRule(2, {0: 3.0, 1: 2.0}, 0.0)
    assert rule.sentence(["a", "b", "score"]) == "score = 3 a + 2 b"


def test_duplicate_mirrored_and_rescaled_columns_are_found() -> None:
    a, b = amounts(7, 2)
    assert sentences(a=a, b=b, again=a) == ["again = a"]
    assert sentences(a=a, b=b, mirrored=-a) == ["mirrored = - a"]
    assert sentences(a=a, b=b, thousands=1000 * a) == ["thousands = 1000 a"]


def test_sums_of_cents_are_found_in_spite_of_round_off() -> None:
    rng = np.random.default_rng(8)
    parts = np.round(np.exp(rng.standard_normal((3, 400)) + 3), 2)
    assert sentences(a=parts[0], b=parts[1], c=parts[2], t=np.round(parts.sum(axis=0), 2)) == ["t = a + b + c"]


def test_rules_are_found_far_from_the_origin() -> None:
    rng = np.random.default_rng(9)
    a, b = np.round(100 * rng.standard_normal((2, 400))) + 1e8
    assert sentences(a=a, b=b, t=a + b) == ["t = a + b"]


@pytest.mark.parametrize("size", [8, 10, 12, 14, 16, 18])
def test_small_part_of_a_large_total_is_not_taken_for_round_off(size: int) -> None:
    rng = np.random.default_rng(10)
    large, small = np.round(np.exp(rng.standard_normal(500) + size)), rng.poisson(3.0, 500).astype(float)
    found = dependence(large, small, large + small)
    (rule,) = found.rules
    assert {rule.column, *rule.terms} == {0, 1, 2}
    assert set(map(abs, rule.terms.values())) == {1.0}
    assert_rules_hold(found, (large, small, large + small))


# --- Coefficients that are not whole, and constants


@pytest.mark.parametrize("rate", [0.19, 1.8, 0.621371, Fraction(1, 3)])
def test_coefficients_that_are_not_whole_are_found(rate: float) -> None:
    a, b = amounts(11, 2)
    columns = (a, b, float(rate) * a)
    found = dependence(*columns)
    (rule,) = found.rules
    assert {rule.column, *rule.terms} == {0, 2}
    (coefficient,) = rule.terms.values()
    assert coefficient == pytest.approx(float(rate) if rule.column == 2 else 1 / float(rate), rel=1e-9)
    assert_rules_hold(found, columns)


def test_several_coefficients_that_are_not_whole_are_found() -> None:
    a, b, c = amounts(12, 3)
    columns = (a, b, c, 0.19 * a + 0.07 * b)
    found = dependence(*columns)
    (rule,) = found.rules
    assert {rule.column, *rule.terms} == {0, 1, 3}
    assert_rules_hold(found, columns)


def test_rule_with_a_constant_is_found_and_the_constant_is_not_told() -> None:
    a, b = amounts(13, 2)
    (rule,) = dependence(a, b, a + b + 12345).rules
    assert rule.constant == pytest.approx(12345, rel=1e-12)
    assert rule.sentence(["a", "b", "t"]) == "t = a + b + constant"


def test_degrees_are_found_with_their_constant() -> None:
    celsius, other = np.round(10 * np.random.default_rng(14).standard_normal((2, 300)), 1)
    columns = (celsius, other, 1.8 * celsius + 32)
    found = dependence(*columns)
    (rule,) = found.rules
    assert rule.column == 2
    assert rule.terms == pytest.approx({0: 1.8}, rel=1e-10)
    assert rule.constant == pytest.approx(32, rel=1e-10)


def test_rule_without_a_constant_is_not_told_with_one() -> None:
    a, b = amounts(15, 2)
    (sentence,) = sentences(net=a, b=b, vat=0.19 * a)
    assert "constant" not in sentence


def test_shares_that_add_up_to_one_are_found() -> None:
    shares = np.random.default_rng(16).dirichlet([1, 2, 3, 4], 400).T
    columns = tuple(shares)
    found = dependence(*columns)
    (rule,) = found.rules
    assert set(rule.terms.values()) == {-1.0}
    assert rule.constant == pytest.approx(1, rel=1e-12)
    assert_rules_hold(found, columns)


# --- Declared rules


def test_declared_rule_is_kept_and_not_found_twice() -> None:
    a, b, c = amounts(17, 3)
    declared = LinearRule(3, {0: 1.0, 1: 1.0})
    found = dependence(a, b, c, a + b, a + b + c, declared=(declared,))
    assert found.rules[0] == declared
    assert [rule.column for rule in found.rules] == [3, 4]
    assert found.independent == [0, 1, 2]


def test_declared_rule_is_used_where_there_are_too_few_rows_to_find_one() -> None:
    a, b = amounts(18, 2, rows=3)
    found = dependence(a, b, a + b, declared=(LinearRule(2, {0: 1.0, 1: 1.0}),))
    assert found.independent == [0, 1]
    assert len(found.rules) == 1


# --- No rule where there is none

KINDS: dict[str, Callable[[np.random.Generator, int, int], Array]] = {
    "normal": lambda rng, rows, columns: rng.standard_normal((rows, columns)),
    "mixed": lambda rng, rows, columns: rng.standard_normal((rows, columns)) @ rng.standard_normal((columns, columns)),
    "heavy tails": lambda rng, rows, columns: np.exp(3 * rng.standard_normal((rows, columns))),
    "no variance": lambda rng, rows, columns: rng.standard_cauchy((rows, columns)),
    "mixed units": lambda rng, rows, columns: (
        rng.standard_normal((rows, columns)) * 10.0 ** rng.uniform(-8, 8, columns)
    ),
    "far away": lambda rng, rows, columns: rng.standard_normal((rows, columns)) + 1e7,
    "counts": lambda rng, rows, columns: rng.poisson(50, (rows, columns)).astype(float),
    "nearly collinear": lambda rng, rows, columns: nearly_collinear(rng, rows, columns, 1e-4),
}


def nearly_collinear(rng: np.random.Generator, rows: int, columns: int, noise: float) -> Array:
    values = rng.standard_normal((rows, columns))
    total = values[:, :-1] @ rng.integers(1, 4, columns - 1)
    values[:, -1] = total + noise * total.std() * rng.standard_normal(rows)
    return values


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rows", "columns"), [(12, 10), (30, 5), (100, 2), (200, 20), (1000, 8), (60, 50)])
def test_no_rule_is_found_in_random_data(kind: str, rows: int, columns: int) -> None:
    for seed in range(10):
        values = KINDS[kind](np.random.default_rng([seed, rows, columns]), rows, columns)
        found = dependence(*values.T)
        assert found.rules == []
        assert found.independent == list(range(columns))


@pytest.mark.parametrize(("rows", "columns"), [(3, 3), (3, 8), (8, 8), (20, 30)])
def test_no_rule_is_found_with_no_more_rows_than_columns(rows: int, columns: int) -> None:
    for seed in range(10):
        values = np.random.default_rng(seed).standard_normal((rows, columns))
        values[:, -1] = values[:, 0] + values[:, 1]
        assert dependence(*values.T).rules == []


@pytest.mark.parametrize("slip", [1.0, 0.01])
def test_total_broken_in_one_row_is_no_rule(slip: float) -> None:
    a, b = amounts(19, 2)
    total = a + b
    total[3] += slip
    assert dependence(a, b, total).rules == []


def test_rounded_total_is_no_rule() -> None:
    a, b = amounts(20, 2) / 7
    assert dependence(a, b, np.round(a + b)).rules == []


def test_total_broken_in_a_small_record_is_not_told_as_a_sum() -> None:
    # The slip is 1e-12 of the largest record, but a tenth of the record it is in.
    a, b = np.round(np.exp(np.random.default_rng(21).standard_normal((2, 400)) * 3 + 18))
    total = a + b
    a[7], b[7], total[7] = 6.0, 4.0, 11.0
    assert sentences(a=a, b=b, total=total) != ["total = a + b"]


# --- With holes, through the front door


def holed(seed: int, share: float) -> pd.DataFrame:
    a, b, c = amounts(seed, 3)
    frame = pd.DataFrame({"a": a, "b": b, "c": c, "ab": a + b, "total": a + b + c})
    return frame.mask(np.random.default_rng(seed).random(frame.shape) < share)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
def test_rules_are_found_in_presence_of_holes(share: float) -> None:
    frame = holed(22, share)
    release = mv.protect(frame, seed=1, rules=None)
    assert sorted(release.rules) == ["ab = a + b", "total = a + b + c"]
    assert sorted(mv.describe(frame).rules) == ["ab = a + b", "total = a + b + c"]


@pytest.mark.quick("0", "7", "14")
@pytest.mark.parametrize("seed", [*range(20), 77])
def test_rule_that_holds_in_complete_rows_only_is_not_taken(seed: int) -> None:
    # A term that is round-off (seed 77 once gave one) must not hide the rows in which its column has a hole.
    frame = holed(seed, 0.0)
    frame.loc[:20, "c"] = np.nan
    frame.loc[5, "ab"] += 1  # broken in a row that has a hole elsewhere
    release = mv.protect(frame, seed=1, rules=None)
    assert not any(rule.startswith("ab =") for rule in release.rules)


def test_too_few_complete_rows_find_no_rule() -> None:
    frame = holed(24, 0.0).iloc[:40]
    for row in range(40):
        frame.iloc[row, row % 5] = np.nan
    assert mv.protect(frame, seed=1, rules=None).rules == []


# --- Rebuilt columns, through the front door


def test_a_total_of_cents_has_no_digits_of_round_off() -> None:
    a, b, c = np.random.default_rng(30).gamma(2, 10, (3, 300)).round(2)
    release = mv.protect(pd.DataFrame({"a": a, "b": b, "c": c, "total": (a + b).round(2)}), seed=1)
    assert release.rules == ["total = a + b"]
    out = release.data
    assert (out["total"] == (out["a"] + out["b"]).round(2)).all()
    assert ((out["a"] + out["b"]) != out["total"]).any(), "0.1 + 0.2 would have come out as 0.30000000000000004"


def test_a_total_beside_a_missing_part_is_a_value_of_its_domain() -> None:
    a, b, c = np.random.default_rng(31).gamma(1, 10, (3, 300)).round()
    frame = pd.DataFrame({"a": a, "b": b, "c": c, "total": a + b})
    frame.loc[::4, "b"] = np.nan
    release = mv.protect(frame, seed=1)
    assert release.rules == ["total = a + b"]
    out = release.data
    assert patterns(out) == patterns(frame)
    assert (out["total"] == out["total"].round()).all()
    assert (out["total"] >= 0).all()
    whole = out.dropna()
    assert (whole["total"] == whole["a"] + whole["b"]).all()


# --- The rule itself


def test_sentence_is_what_a_person_would_write() -> None:
    names = ["a", "b", "c", "t"]
    assert LinearRule(3, {0: 1.0, 1: 1.0}).sentence(names) == "t = a + b"
    assert LinearRule(3, {0: 1.0, 1: -1.0}).sentence(names) == "t = a - b"
    assert LinearRule(3, {0: -1.0, 2: 2.5}).sentence(names) == "t = - a + 2.5 c"
    assert LinearRule(3, {0: 0.1}, 7.0).sentence(names) == "t = 0.1 a + constant"


def test_rebuilt_is_the_sum_of_the_terms() -> None:
    columns = [np.array([1.0, 2.0]), np.array([10.0, 20.0]), np.array([0.0, 0.0])]
    assert LinearRule(2, {0: 3.0, 1: -1.0}, 0.5).rebuilt(columns).tolist() == [-6.5, -13.5]
    assert LinearRule(0, {1: 2.0}).renumbered({0: 5, 1: 3}) == LinearRule(5, {3: 2.0})
    assert LinearRule(2, {0: 1.0}).worst_error(columns) == pytest.approx(2 / 2)
