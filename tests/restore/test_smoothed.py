"""Values of a column that are its own, and nobody's: in order, near, on its step, and without its extremes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from microveil.core.domain import step_of
from microveil.core.rng import Streams
from microveil.restore.marginals import Marginal, Marginals, smoothed

Array = NDArray[np.float64]
GROUP = 5


def of(values: Array, seed: int = 1, group: int = GROUP) -> Array:
    return smoothed(np.sort(np.asarray(values, dtype=float)), group, Streams.from_seed(seed).stream("smooth"))


def given_away(original: Array, released: Array, group: int = GROUP) -> int:
    """How many of the extreme values are told exactly by their rank, though they are somebody's own.

    That is a value that no other record has, and the very last one, if fewer than `group` records share it.
    """
    count = 0
    for before, after in ((np.sort(original), np.sort(released)), (np.sort(-original), np.sort(-released))):
        for true, told in zip(before[-group:], after[-group:], strict=True):
            count += true == told and np.count_nonzero(before == true) < (group if true == before[-1] else 2)
    return count


RNG = np.random.default_rng(0)
COLUMNS: dict[str, Array] = {
    "amounts": RNG.lognormal(size=400),
    "normal": RNG.standard_normal(400),
    "large amounts": np.round(1e6 * RNG.lognormal(3, 3, size=400)),
    "negative": -RNG.lognormal(size=400),
    "percentages": np.round(100 * RNG.beta(2, 5, 400), 1),
    "hundreds": 100 * np.round(50 * RNG.lognormal(size=400)),
    "ages": np.round(RNG.uniform(17, 98, 400)),
    "counts": RNG.poisson(2, 400).astype(float),
    "answers from 1 to 5": RNG.integers(1, 6, 400).astype(float),
    "many zeros": np.where(RNG.random(400) < 0.6, 0.0, RNG.lognormal(size=400)),
    "a few that are not zero": np.where(np.arange(400) < 3, 1000 * RNG.lognormal(size=400), 0.0),
    "one that is not zero": np.where(np.arange(400) == 7, 52_341.0, 0.0),
    "a run of whole numbers": np.arange(400.0),
    "a run far out": np.concatenate([np.zeros(200), np.ones(195), np.arange(88.0, 93)]),
    "equal ends": np.concatenate([np.full(9, -3.0), RNG.standard_normal(100), np.full(9, 12.0)]),
    "nearly equal ends": np.concatenate([np.full(4, -3.0), np.full(4, 12.0), RNG.standard_normal(100)]),
    "five decimals": np.arange(40) * 1e-5,
    "far from zero": 1e9 + 1e-6 * RNG.lognormal(size=400),
    "next to each other": 1.0 + np.spacing(1.0) * RNG.integers(0, 30, 400),
    "one value and one more": np.append(np.full(399, 7.0), 9.0),
    "both signs and zero": np.round(RNG.standard_normal(400), 1),
    "twenty": RNG.lognormal(size=20),
    "ten": RNG.lognormal(size=10),
}
every_column = pytest.mark.parametrize("name", COLUMNS)


@every_column
def test_values_come_in_order_and_from_the_range_of_the_column(name: str) -> None:
    values = COLUMNS[name]
    new = of(values)
    assert new.shape == values.shape
    assert (np.diff(new) >= 0).all()
    assert values.min() <= new[0]
    assert new[-1] <= values.max()
    assert not (np.signbit(new) & (new == 0)).any()


@every_column
def test_no_value_of_one_record_and_no_extreme_of_fewer_than_five_is_given_away_by_rank(name: str) -> None:
    for seed in range(5):
        assert given_away(COLUMNS[name], of(COLUMNS[name], seed)) == 0


@every_column
def test_the_mean_is_nearly_kept(name: str) -> None:
    values = COLUMNS[name]
    step = step_of(values) or 0.0
    # Ends that must come down to a free place move by a few steps, five of so many values at each end.
    few_steps = 4 * GROUP * step / values.size
    # About the first value: the sum of numbers far from zero has too few digits.
    shift = np.mean([(of(values, seed) - values[0]).mean() for seed in range(20)]) - (values - values[0]).mean()
    assert abs(shift) <= 0.02 * values.std() + few_steps


@every_column
def test_the_step_is_kept(name: str) -> None:
    step = step_of(COLUMNS[name])
    if step is not None:
        new = of(COLUMNS[name])
        assert np.abs(new / step - np.round(new / step)).max() <= 1e-9 * np.abs(new / step).max()
        # 0.3 must be the 0.3 of a reader, and not 0.1 + 0.2.
        assert all(value == float(f"{value:.4f}") for value in new)


@every_column
def test_values_that_several_share_stay_between_the_ends(name: str) -> None:
    values = np.sort(COLUMNS[name])
    low, high = values[GROUP - 1], values[-GROUP]  # what is equal to an end may have gone with it
    inside = (values > low) & (values < high)
    shared = inside & np.isin(values, values[1:][values[1:] == values[:-1]])
    assert (of(values)[shared] == values[shared]).all()


@every_column
def test_between_the_ends_no_value_leaves_the_gap_to_its_neighbours(name: str) -> None:
    values = np.sort(COLUMNS[name])
    new = of(values)
    inside = np.flatnonzero((values > values[GROUP - 1]) & (values < values[-GROUP]))
    assert (new[inside] >= values[inside - 1]).all()
    assert (new[inside] <= values[inside + 1]).all()


def test_values_of_one_record_each_move_and_depend_on_the_seed() -> None:
    values = np.sort(COLUMNS["amounts"])
    first, second = of(values, 1), of(values, 2)
    assert not np.isin(first, values).any()
    assert (first[GROUP:-GROUP] != second[GROUP:-GROUP]).all()
    assert (of(values, 1) == first).all()


def test_the_ends_become_their_means() -> None:
    values = np.sort(COLUMNS["amounts"])
    new = of(values)
    assert np.allclose(new[:GROUP], values[:GROUP].mean(), rtol=1e-14)
    assert np.allclose(new[-GROUP:], values[-GROUP:].mean(), rtol=1e-14)


@pytest.mark.parametrize("group", [2, 3, 10, 50])
def test_the_group_has_the_size_that_was_asked_for(group: int) -> None:
    values = COLUMNS["amounts"]
    new = of(values, group=group)
    assert np.unique(new[-group:]).size == 1
    assert new[-group - 1] < new[-group]
    assert given_away(values, new, group) == 0


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        ([90, 92, 93, 95, 97], 94),  # the mean is 93, which is one of them; 94 is next to it
        ([96, 98, 99, 100, 104], 101),  # 98, 99 and 100 are all taken
        ([88, 89, 90, 91, 92], 87),  # every number between is taken: next below
        ([50, 50, 50, 50, 51], 50),  # four share it
        ([48, 48, 49, 50, 50], 48),  # 49 is of one record, and 50 the largest
        ([46, 47, 48, 48, 50], 49),
        ([47, 48, 49, 49, 50], 49),  # two share it, and it is not the largest
        ([49, 50, 50, 50, 50], 48),  # four share the largest, and one the other
        ([49, 50, 50, 50, 50, 50], 50),
    ],
)
def test_a_mean_that_is_one_of_the_values_makes_room(tail: list[float], expected: float) -> None:
    values = np.concatenate([np.arange(0, 40, 0.5).round() * 1.0, tail])
    assert of(values)[-GROUP:].tolist() == [expected] * GROUP
    assert (of(-values)[:GROUP] == -expected).all()


def test_an_end_that_as_many_share_is_no_secret() -> None:
    answers = np.concatenate([np.full(30, 3.0), np.full(30, 4.0), np.full(2, 5.0), np.arange(3)])
    assert of(answers)[-GROUP:].tolist() == [4.0] * GROUP  # two fives are hidden among thirty fours


@pytest.mark.parametrize("rare", [1, 2, 4, 50])
def test_a_flag_stays_a_flag(rare: int) -> None:
    """Averaged, it would be the same for everybody; its two values are known, and who has which is what is hidden."""
    for low, high in ((0.0, 1.0), (1.0, 2.0), (-0.1, 0.0)):
        flag = np.where(np.arange(200) < rare, high, low)
        assert (of(flag) == np.sort(flag)).all()


def test_a_scale_with_rare_ends_does_not_become_constant() -> None:
    answers = np.repeat([0.0, 1.0, 2.0], [3, 3, 200])
    assert of(answers).tolist() == [1.0] * 6 + [2.0] * 200  # three zeros hide among three ones
    answers = np.repeat([0.0, 1.0, 2.0], [3, 1, 200])
    assert of(answers).tolist() == answers.tolist()


def test_the_largest_hide_among_those_that_share_the_next_value() -> None:
    values = np.concatenate([np.arange(40.0) * 10, [500, 500, 500, 500, 510, 510, 510]])
    # The five largest leave no place: 500 and 510 are next to each other on a step of ten, and three share 510.
    assert of(values)[-7:].tolist() == [500.0] * 7


@pytest.mark.parametrize("mean", [1, 3, 5])
def test_counts_lose_little_of_their_variance(mean: int) -> None:
    """Averaging itself costs 1 to 2 per cent of it here, the whole numbers some more."""
    lost = []
    for seed in range(100):
        counts = np.random.default_rng(seed).poisson(mean, 100).astype(float)
        lost.append(1 - of(counts, seed).var() / counts.var())
    assert np.mean(lost) < 0.06
    assert max(lost) < 0.35


def test_a_column_of_fewer_values_than_two_groups_becomes_its_mean() -> None:
    """As many as that may be left where most cells are missing."""
    for count in range(1, 2 * GROUP):
        values = 100 * RNG.lognormal(size=count)
        assert np.allclose(of(values), values.mean(), rtol=1e-14)
    assert of(np.array([3.0, 4.0, 9.0])).tolist() == [5.0] * 3
    assert of(np.full(7, 4.0)).tolist() == [4.0] * 7


@given(
    st.lists(st.integers(-40, 40), min_size=2 * GROUP, max_size=60),
    st.sampled_from([0.01, 0.1, 1.0, 5.0, 1000.0]),
    st.integers(0, 5),
)
@settings(deadline=None)
def test_whole_numbers_of_all_kinds(numbers: list[int], unit: float, seed: int) -> None:
    values = np.sort(np.round(np.array(numbers) * unit, 2))
    new = of(values, seed)
    assert (np.diff(new) >= 0).all()
    assert values[0] <= new[0]
    assert new[-1] <= values[-1]
    unchanged = (new == values).all() and np.unique(values).size < 2 * GROUP
    assert unchanged or given_away(values, new) == 0


# --- Values by rank


def test_values_are_put_in_the_order_of_another_column() -> None:
    marginal = Marginal(np.array([1.0, 2, 2, 5]))
    assert marginal.in_order_of(np.array([0.3, 9.0, -4, 0.2])).tolist() == [2, 5, 1, 2]


def test_missing_cells_keep_their_values_among_themselves() -> None:
    step = Marginals(marginals="original")
    column = np.array([5.0, 99, 1, 98, 3])
    present = np.array([True, False, True, False, True])
    marginal = step.of(column, present, Streams.from_seed(1).stream("x"))
    out = marginal.in_order_of(np.array([-1.0, -7, -2, -8, -3]))
    assert out.tolist() == [5, 99, 3, 98, 1]


@pytest.mark.parametrize("kind", ["smoothed", "stratified"])
def test_values_of_missing_cells_have_no_part_in_the_others(kind: str) -> None:
    step = Marginals(marginals=kind)  # type: ignore[arg-type]
    present = np.arange(100) < 60
    column = np.where(present, RNG.uniform(0, 1, 100), 1e6)
    marginal = step.of(column, present, Streams.from_seed(1).stream("x"))
    assert marginal.values.size == 60
    assert marginal.values.max() <= 1
