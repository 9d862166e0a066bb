"""Rules of single columns on a release: no value they exclude, as many zeros as there were, and the cost told."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from microveil.restore import Enforcement, enforced
from microveil.rules.column_rules import ColumnRules
from microveil.rules.domain import Domain
from microveil.rules.linear_rules import LinearRule
from microveil.rules.ratios import RatioRule

Array = NDArray[np.float64]


def column(seed: int = 0, rows: int = 1000, mean: float = 1.0) -> Array:
    return mean + 3 * np.random.default_rng(seed).standard_normal(rows)


def one(values: Array, domain: Domain, present: NDArray[np.bool_] | None = None) -> Array:
    new, _ = enforced([values], [domain], None if present is None else present[:, None], None)
    return new[0]


DOMAINS = {
    "nothing": Domain(),
    "not below zero": Domain(minimum=0.0),
    "between": Domain(-1.0, 2.5),
    "whole": Domain(step=1.0),
    "percent": Domain(0.0, 4.0, 0.1),
    "odd step": Domain(0.5, None, 0.3),
    "zeros": Domain(zeros=0.3),
    "zeros, not below": Domain(0.0, None, None, 0.2),
    "zeros, not above": Domain(None, 0.0, None, 0.2),
    "whole, zeros, not below": Domain(0.0, None, 1.0, 0.2),
    "whole, zeros, both signs": Domain(None, None, 1.0, 0.05),
    "no zeros at all": Domain(0.0, None, None, 0.0),
    "hardly any zeros among whole numbers": Domain(0.0, None, 1.0, 0.001),
}
every_domain = pytest.mark.parametrize("name", DOMAINS)


@every_domain
def test_no_value_is_left_that_the_domain_excludes(name: str) -> None:
    domain = DOMAINS[name]
    new = one(column(), domain)
    assert domain.outside(new) == 0
    assert not (np.signbit(new) & (new == 0)).any()


@every_domain
def test_the_share_of_zeros_is_kept_where_zeros_are_a_value_of_their_own(name: str) -> None:
    """Cutting off at zero and rounding make zeros too, and these must not come on top."""
    domain = DOMAINS[name]
    if domain.zeros is not None:
        assert np.mean(one(column(), domain) == 0) == pytest.approx(domain.zeros, abs=1e-9)


@every_domain
def test_order_is_kept(name: str) -> None:
    values = np.sort(column())
    new = one(values, DOMAINS[name])
    if name not in ("zeros", "whole, zeros, both signs"):  # where what is nearest to zero is in the middle
        assert (np.diff(new) >= 0).all()


@every_domain
def test_values_that_are_allowed_stay_and_cost_nothing(name: str) -> None:
    allowed = one(column(), DOMAINS[name])
    domain = DOMAINS[name].here(allowed)
    again, cost = enforced([allowed], [domain], None, None)
    assert (again[0] == allowed).all()
    assert cost is None


def test_what_is_nearest_to_zero_becomes_zero() -> None:
    values = np.array([-5.0, -0.1, 0.2, 3.0, -2.0])
    assert one(values, Domain(zeros=0.4)).tolist() == [-5, 0, 0, 3, -2]
    assert one(values, Domain(minimum=0.0, zeros=0.6)).tolist() == [0, 0, 0.2, 3, 0]
    assert one(values, Domain(maximum=0.0, zeros=0.6)).tolist() == [-5, 0, 0, 0, -2]


def test_what_is_cut_off_beyond_the_zeros_gets_the_least_value_beside_them() -> None:
    values = np.array([-5.0, -4, -3, -2, 0.7, 3])
    assert one(values, Domain(minimum=0.0, zeros=1 / 3)).tolist() == [0, 0, 0.7, 0.7, 0.7, 3]
    assert one(-values, Domain(maximum=0.0, zeros=1 / 3)).tolist() == [0, 0, -0.7, -0.7, -0.7, -3]
    assert one(values, Domain(minimum=0.0, step=0.5, zeros=1 / 3)).tolist() == [0, 0, 0.5, 0.5, 0.5, 3]


def test_missing_cells_are_left_alone() -> None:
    values = column()
    present = np.random.default_rng(1).random(1000) > 0.4
    domain = Domain(0.0, None, 1.0, 0.25)
    new = one(values, domain, present)
    assert (new[~present] == values[~present]).all()
    assert domain.outside(new[present]) == 0
    assert np.mean(new[present] == 0) == pytest.approx(0.25, abs=1 / present.sum())


def test_the_columns_that_came_in_are_not_changed() -> None:
    values = column()
    before = values.copy()
    enforced([values], [Domain(0.0, 1.0, 0.5, 0.1)], None, None)
    assert (values == before).all()


def test_the_cost_is_what_means_and_covariances_moved_by() -> None:
    columns = [column(0), column(1, mean=20), column(2)]
    new, cost = enforced(columns, [Domain(minimum=0.0), Domain(minimum=0.0), Domain()], None, None)
    assert cost is not None
    assert cost.columns == {0}
    assert cost.cells == np.count_nonzero(columns[0] < 0)
    before, after = np.array(columns), np.array(new)
    sd = before.std(axis=1)
    assert cost.mean == pytest.approx(np.abs((after.mean(axis=1) - before.mean(axis=1)) / sd).max())
    moved = (np.cov(after, bias=True) - np.cov(before, bias=True)) / np.outer(sd, sd)
    assert cost.covariance == pytest.approx(np.abs(moved).max())


def test_with_weights_the_cost_is_weighted() -> None:
    values, weights = column(), np.random.default_rng(5).uniform(1, 9, 1000)
    (new,), cost = enforced([values], [Domain(minimum=0.0)], None, weights)
    assert cost is not None
    mean = np.average(values, weights=weights)
    sd = np.sqrt(np.average((values - mean) ** 2, weights=weights))
    assert cost.mean == pytest.approx((np.average(new, weights=weights) - mean) / sd)


def test_round_off_is_put_right_and_costs_nothing() -> None:
    tenths = np.arange(1, 8) * 0.1  # 0.30000000000000004 is among them
    (new,), cost = enforced([tenths], [Domain(step=0.1)], None, None)
    assert new.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    assert cost is None


def test_costs_of_strata_come_together() -> None:
    one, other = Enforcement(frozenset({0}), 3, 0.1, 0.02), Enforcement(frozenset({2}), 4, 0.05, 0.3)
    assert one.combined(other) == other.combined(one) == Enforcement(frozenset({0, 2}), 7, 0.1, 0.3)


@given(
    st.lists(st.floats(-50, 50), min_size=1, max_size=40),
    st.sampled_from([None, 0.0, -3.5]),
    st.sampled_from([None, 0.0, 7.0]),
    st.sampled_from([None, 0.1, 1.0, 2.5]),
    st.floats(0, 1),
)
@example([0.0, -8.0], None, 7.0, None, 0.0)  # the value nearest to zero is further below it than any may be above
@example([0.0, 6.0, -9.0], -3.5, 7.0, None, 0.0)
@example([-1.0, 0.0, 5.0], -3.5, None, 5.0, 0.0)  # no multiple of the step below zero
def test_whatever_comes(
    values: list[float], low: float | None, high: float | None, step: float | None, zeros: float
) -> None:
    domain = Domain(low, high, step, zeros)
    cells = np.array(values)
    if low == high == 0:
        return
    new = one(cells, domain)
    assert domain.outside(new) == 0
    wanted = round(zeros * cells.size)
    if step is not None:
        assert np.count_nonzero(new == 0) == wanted
    assert np.count_nonzero(new == 0) >= wanted


# --- What is known, and what of it is enforced


def test_what_was_found_gives_way_to_moments_and_what_was_declared_does_not() -> None:
    ratio, sum_ = RatioRule(0, 1, 2), LinearRule(0, {1: 1.0})
    found = ColumnRules(found_ratios=[ratio], learnt=[Domain(0.0)])
    declared = ColumnRules(sums=[sum_], ratios=[ratio], declared=[Domain(1.0)])
    first = found.of_use(moments_first=True)
    assert (list(first.ratios), first.domains(mapped=False)) == ([], [])
    second = found.of_use(moments_first=False)
    assert (list(second.ratios), second.domains(mapped=False)) == ([ratio], [Domain(0.0)])
    for moments_first in (True, False):
        kept = declared.of_use(moments_first=moments_first)
        assert (list(kept.sums), list(kept.ratios), kept.domains(mapped=False)) == ([sum_], [ratio], [Domain(1.0)])


def test_zeros_that_smoothing_took_are_not_forced_back_unless_declared() -> None:
    assert ColumnRules(learnt=[Domain(0.0, zeros=0.9)]).domains(mapped=True) == [Domain(0.0)]
    assert ColumnRules(learnt=[Domain(0.0, zeros=0.9)]).domains(mapped=False) == [Domain(0.0, zeros=0.9)]
    assert ColumnRules(declared=[Domain(0.0, zeros=0.9)]).domains(mapped=True) == [Domain(0.0, zeros=0.9)]
