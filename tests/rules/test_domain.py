"""Which values a column can have: learnt from those it has, and never from a single one of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from microveil.rules.domain import Domain, learnt_domain, step_of

NAN = float("nan")


def lognormal(size: int = 500, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).lognormal(size=size)


def learnt(*values: float) -> Domain:
    column = np.array(values, dtype=float)
    return learnt_domain(column, float(np.nanmin(column)), float(np.nanmax(column)))


# --- The step


@pytest.mark.parametrize(
    ("values", "step"),
    [
        (np.round(lognormal()), 1.0),
        (np.round(lognormal()) * 1000, 1000.0),
        (np.round(lognormal()) * -25, 25.0),
        (np.round(lognormal(), 1), 0.1),
        (np.round(lognormal(), 2), 0.01),
        (np.round(lognormal(), 4), 0.0001),
        (np.round(lognormal(), 5), None),  # five decimals and none that can be seen are the same to a reader
        (lognormal(), None),
        (np.round(lognormal(), 2) + 1e6, 0.01),
        (np.full(30, 0.5), 0.1),
        (np.zeros(30), 1.0),
        (np.array([]), 1.0),
        (2.0**53 * (1 + np.round(lognormal())), None),  # all doubles from there on are whole numbers
    ],
)
def test_the_step_is_what_all_values_are_multiples_of(values: NDArray[np.float64], step: float | None) -> None:
    assert step_of(values) == step


@pytest.mark.parametrize("offset", [1e6, 1e9, 1e12, -1e9])
@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e3])
def test_an_offset_does_not_make_a_column_rounded(offset: float, scale: float) -> None:
    # What is relative to a value of a billion is a thousand steps; rounding would make the column a constant.
    values = offset + scale * lognormal()
    step = step_of(values)
    rounded = Domain(step=step).rounded(values)
    assert np.abs(rounded - values).max() <= 2 * np.spacing(abs(offset))


@pytest.mark.parametrize("scale", [1e-5, 1e-9, 1e-12, 1e-100])
def test_small_values_are_not_rounded_to_zero(scale: float) -> None:
    assert step_of(scale * lognormal()) is None


def test_round_off_of_sums_does_not_hide_a_step() -> None:
    cents = np.round(lognormal(), 2)
    assert step_of(cents + 0.1 + 0.2) == 0.01
    assert (cents + 0.1 + 0.2 != np.round(cents + 0.3, 2)).any()


def test_the_step_of_the_first_rows_is_checked_on_all() -> None:
    values = np.round(lognormal(3000))
    values[2500] += 0.25
    assert step_of(values) == 0.01
    values[2600] = np.pi
    assert step_of(values) is None


def test_holes_are_passed_over() -> None:
    values = np.where(np.arange(2000) % 3 == 0, NAN, np.round(lognormal(2000), 1))
    assert step_of(values) == 0.1
    values[:1500] = NAN
    assert step_of(values) == 0.1


@pytest.mark.parametrize("others", [0, 1, 3])
def test_the_step_does_not_tell_the_value_of_a_single_record(others: int) -> None:
    """The greatest divisor of one value is the value itself, that of a few nearly tells them."""
    values = np.zeros(100)
    values[7] = 52_341
    values[8 : 8 + others] = 52_341 * np.arange(2, 2 + others)
    assert step_of(values) == 1.0
    values[20:30] = 52_341 * np.arange(5, 15)  # the custom of fourteen
    assert step_of(values) == 52_341


# --- What is learnt


def test_sign_step_and_spike_are_learnt_and_no_extreme() -> None:
    assert learnt(0, 0, 3, 7, 12, NAN, 80) == Domain(minimum=0.0, step=1.0, zeros=1 / 3)
    assert learnt(-0.5, -2.25) == Domain(maximum=0.0, step=0.01)
    assert learnt(-1.5, 2, np.pi) == Domain()
    assert learnt(*np.arange(1.0, 101), 0) == Domain(minimum=0.0, step=1.0)  # one zero in a hundred is no spike
    assert learnt_domain(np.array([NAN, NAN]), NAN, NAN) == Domain()


def test_the_share_of_zeros_is_that_of_the_rows_at_hand() -> None:
    domain = Domain(minimum=0.0, zeros=0.5)
    assert domain.here(np.array([0.0, 1, 2, 3, NAN])).zeros == 0.25
    assert domain.here(np.array([NAN])).zeros == 0.5
    assert domain.here(np.array([1.0, 2.0])).zeros == 0.0
    assert Domain().here(np.zeros(4)).zeros is None  # not a value of its own here either


def test_what_is_declared_comes_before_what_is_learnt() -> None:
    said = Domain(minimum=-1.0, step=0.5)
    assert said.over(Domain(0.0, 9.0, 1.0, 0.3)) == Domain(-1.0, 9.0, 0.5, 0.3)
    assert Domain().over(said) == said


# --- Values brought to it


@pytest.mark.parametrize("step", [0.0001, 0.01, 0.1, 0.25, 0.3, 0.4, 0.5, 0.75, 1, 1.5, 2, 12, 100])
def test_rounding_gives_the_nearest_multiples(step: float) -> None:
    values = np.concatenate([50 * lognormal(), -50 * lognormal()])
    rounded = Domain(step=step).rounded(values)
    assert np.abs(rounded - values).max() <= step / 2 * (1 + 1e-9)
    assert np.abs(rounded / step - np.round(rounded / step)).max() <= 1e-9 * np.abs(rounded / step).max()
    assert Domain(step=step).outside(rounded) == 0


@pytest.mark.parametrize("decimals", [1, 2, 3, 4])
def test_rounded_values_are_the_doubles_that_their_decimals_are_read_as(decimals: int) -> None:
    rounded = Domain(step=10.0**-decimals).rounded(lognormal())
    assert all(value == float(f"{value:.{decimals}f}") for value in rounded)


@given(
    st.floats(-100, 100),
    st.floats(0, 50),
    st.sampled_from([None, 0.01, 0.1, 0.3, 1.0, 2.5, 7.0]),
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20),
)
def test_allowed_values_are_inside(low: float, width: float, step: float | None, values: list[float]) -> None:
    domain = Domain(low, low + width, step)
    least, largest = domain.bounds()
    assert least is not None
    assert largest is not None
    if least <= largest:
        allowed = domain.allowed(np.array(values))
        assert ((allowed >= least) & (allowed <= largest)).all()
        slack = 1e-9 * max(abs(low), abs(low + width), step or 0)
        assert allowed.min() >= low - slack
        assert allowed.max() <= low + width + slack
        assert (domain.allowed(allowed) == allowed).all()


def test_bounds_between_multiples_leave_only_multiples() -> None:
    # Rounding first and cutting off then would give 0.5 and 9.5.
    assert Domain(0.5, 9.5, 1.0).bounds() == (1.0, 9.0)
    assert Domain(0.5, 9.5, 1.0).allowed(np.array([-3.0, 0.6, 5.4, 9.4, 20.0])).tolist() == [1, 1, 5, 9, 9]
    assert Domain(0.3, None, 0.1).bounds() == (0.3, None)  # 0.3 / 0.1 is a little less than 3
    assert Domain(None, 0.7, 0.1).bounds() == (None, 0.7)
    assert Domain(0.0005, None, 1.0).bounds() == (1.0, None)


def test_no_negative_zero_tells_of_a_value_below_zero() -> None:
    values = np.array([-0.0, -0.2, 0.2])
    for domain in (Domain(step=1.0), Domain(0.0, None, 1.0), Domain(None, 0.0, 0.5)):
        assert not np.signbit(domain.allowed(values)).any()


def test_values_outside_are_counted() -> None:
    domain = Domain(0.0, 10.0, 0.1)
    assert domain.outside(np.array([-0.1, 0.0, 0.1 + 0.2, 10.0, 10.1, 5.55, NAN])) == 3
    assert Domain().outside(np.array([1e300, NAN])) == 0
