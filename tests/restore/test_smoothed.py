"""Values of a column that tell its distribution and nobody's value: on its step, in its range, without its extremes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from microveil.core.rng import Streams
from microveil.restore.marginals import Marginal, Marginals, smoothed
from microveil.rules.domain import step_of

Array = NDArray[np.float64]
GROUP, WINDOW = 5, 20


def of(values: Array, seed: int = 1, group: int = GROUP, window: int = WINDOW) -> Array:
    return smoothed(np.sort(np.asarray(values, dtype=float)), window, group, Streams.from_seed(seed).stream("smooth"))


def ends_given_away(original: Array, released: Array, group: int = GROUP) -> int:
    """How many of both extremes are released, though fewer than `group` records share them."""
    ends = (original.min(), original.max())
    return sum(bool((released == end).any()) and np.count_nonzero(original == end) < group for end in ends)


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


def is_all_shared(values: Array) -> bool:
    """Fewer than a group of values are anyone's own."""
    return int(sum(count for count in np.unique(values, return_counts=True)[1] if count < GROUP)) < GROUP


def is_scale(values: Array) -> bool:
    """A flag, or the whole numbers of a scale: everybody knows these values."""
    return bool((np.diff(np.unique(values)) == 1).all())


@every_column
def test_no_extreme_of_fewer_than_five_is_released(name: str) -> None:
    values = COLUMNS[name]
    for seed in range(5):
        new = of(values, seed)
        known = is_all_shared(values) and is_scale(values)
        assert ends_given_away(values, new) == 0 or (known and (new == np.sort(values)).all())


@pytest.mark.parametrize("name", ["a few that are not zero", "one that is not zero", "one value and one more"])
def test_amounts_of_fewer_than_five_are_not_released_though_the_column_becomes_constant(name: str) -> None:
    new = of(COLUMNS[name])
    assert new[0] == new[-1] == np.median(COLUMNS[name])


@pytest.mark.parametrize("name", [name for name in COLUMNS if "not zero" not in name])
def test_the_mean_is_nearly_kept(name: str) -> None:
    values = COLUMNS[name]
    step = step_of(values) or 0.0
    # Ends come in; in whole numbers, by a few steps.
    few_steps = 4 * GROUP * step / values.size
    # About the first value: the sum of numbers far from zero has too few digits.
    shift = np.mean([(of(values, seed) - values[0]).mean() for seed in range(20)]) - (values - values[0]).mean()
    assert abs(shift) <= 0.05 * values.std() + few_steps


@every_column
def test_the_step_is_kept(name: str) -> None:
    step = step_of(COLUMNS[name])
    if step is not None:
        new = of(COLUMNS[name])
        assert np.abs(new / step - np.round(new / step)).max() <= 1e-9 * np.abs(new / step).max()
        # 0.3 must be the 0.3 of a reader, and not 0.1 + 0.2.
        assert all(value == float(f"{value:.4f}") for value in new)


@every_column
def test_what_many_share_stays_and_nothing_else(name: str) -> None:
    values = COLUMNS[name]
    shared = {
        value: count for value, count in zip(*np.unique(values, return_counts=True), strict=True) if count >= GROUP
    }
    new = of(values)
    assert all(np.count_nonzero(new == value) >= count for value, count in shared.items())
    if step_of(values) is None and not is_all_shared(values) and np.spacing(values.max()) < 1e-9 * values.std():
        own = values[~np.isin(values, list(shared))]
        assert not np.isin(own, new).any()


def test_values_depend_on_the_seed() -> None:
    values = np.sort(COLUMNS["amounts"])
    first, second = of(values, 1), of(values, 2)
    assert (first != second).all()
    assert (of(values, 1) == first).all()


def test_values_two_records_share_are_not_verbatim() -> None:
    values = np.repeat(RNG.lognormal(size=100), 2)
    assert not np.isin(of(values), values).any()


@pytest.mark.parametrize("kind", ["lognormal", "exponential", "normal"])
def test_windows_keep_means_and_variances(kind: str) -> None:
    values = {"lognormal": RNG.lognormal(size=2000), "exponential": RNG.exponential(size=2000)}.get(
        kind, RNG.standard_normal(2000)
    )
    for seed in range(5):
        new = of(values, seed)
        assert abs(new.mean() - values.mean()) < 0.01 * values.std()
        assert abs(new.std() / values.std() - 1) < 0.05


def test_wider_windows_hide_more() -> None:
    """How much nearer the released values are to those of the file than to those of strangers."""
    values, strangers = (np.random.default_rng(seed).lognormal(size=(300, 40)) for seed in (1, 2))

    def advantage(window: int) -> float:
        logs = []
        for people in (values, strangers):
            gaps = [
                np.abs(own[:, None] - of(column, j, window=window)[None, :]).min(axis=1)
                for j, (own, column) in enumerate(zip(people.T, values.T, strict=True))
            ]
            logs.append(np.log(np.column_stack(gaps) + 1e-12).mean())
        return float(logs[1] - logs[0])

    narrow, default = advantage(4), advantage(WINDOW)
    assert default < 0.5 * narrow
    assert default < 0.2


def test_the_largest_is_not_told_by_its_rank() -> None:
    told, shares = 0, []
    for seed in range(100):
        firms = np.random.default_rng(seed).lognormal(0, 1.5, 400)
        share = of(firms, seed)[-1] / firms.max()
        told += abs(share - 1) <= 0.1
        shares.append(share)
    assert told <= 10
    # Nor by a rule of thumb: no constant times the released maximum is within a tenth of the truth for most.
    best = max(np.mean(np.abs(times * np.array(shares) - 1) <= 0.1) for times in np.linspace(1, 4, 61))
    assert best <= 0.6


def test_a_record_that_dominates_its_window_is_not_told_by_the_sum() -> None:
    told = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        firms = np.append(rng.lognormal(size=400), 2000 * rng.lognormal(0, 0.3))
        released = of(firms, seed)
        told += abs(released.sum() - np.sort(firms)[:-1].sum() - firms.max()) <= 0.1 * firms.max()
    assert told <= 35


def test_signs_stay_where_zero_is_a_heap() -> None:
    values = np.concatenate([-RNG.lognormal(size=60), np.zeros(100), RNG.lognormal(size=140)])
    for seed in range(5):
        assert np.sign(of(values, seed)).tolist() == np.sign(np.sort(values)).tolist()


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


def test_few_values_hide_among_those_that_share_the_nearest() -> None:
    values = np.concatenate([np.repeat(np.arange(5.0) * 10, 20), [500, 510, 510]])
    assert of(values)[-23:].tolist() == [40.0] * 23


@pytest.mark.parametrize("mean", [1, 3, 5])
def test_counts_lose_little_of_their_variance(mean: int) -> None:
    """Ends that come in, and have to be whole, cost a tenth of it in the mean of such small files."""
    lost = []
    for seed in range(100):
        counts = np.random.default_rng(seed).poisson(mean, 100).astype(float)
        lost.append(1 - of(counts, seed).var() / counts.var())
    assert np.mean(lost) < 0.12
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
def test_whole_numbers_of_all_kinds(numbers: list[int], unit: float, seed: int) -> None:
    values = np.sort(np.round(np.array(numbers) * unit, 2))
    new = of(values, seed)
    assert (np.diff(new) >= 0).all()
    assert values[0] <= new[0]
    assert new[-1] <= values[-1]
    unchanged = (new == values).all() and np.unique(values).size < 2 * GROUP  # else it would be constant
    assert unchanged or ends_given_away(values, new) == 0


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
