"""Screening: BT.500 by hand, its limits as theorems, and how often it fails, by simulation. Nobody was asked."""

from __future__ import annotations

import numpy as np
import observers
import pytest
from numpy.typing import NDArray
from scipy.stats import kurtosis

from microveil.assessment import mos
from microveil.errors import DataError
from microveil.opinion.score import ADVISED, FEWEST, FEWEST_STIMULI, agreements, outlying, screen

Array = NDArray[np.float64]


def names(count: int) -> list[str]:
    return [f"o{i}" for i in range(count)]


# --- BT.500 by hand


def by_hand() -> Array:
    """Seven observers, four stimuli.

    First: mean 380/7, squares around it 1021.43, S = 13.05 (divisor 6): 80 is 25.71 above, less than 2 S = 26.09.
    Second: mean 55, squares 1300, S = 14.72: 85 is 30 above, more than 2 S = 29.44; β2 = 7 x 872500 / 1300² = 3.61, in
    [2, 4]: far. Third: the second upside down. Fourth: the first observer as far as one of seven can be, 6/√7 = 2.27
    S, but β2 = 31/6: the limit is √20 S, not far.
    """
    first = [80, 40, 45, 50, 50, 55, 60]
    second = [85, 40, 45, 50, 50, 55, 60]
    return np.array([first, second, [100 - x for x in second], [0, *6 * [100]]], dtype=float).T


def test_by_hand() -> None:
    opinions = by_hand()
    assert np.square(opinions[:, 0]).sum() - 380**2 / 7 == pytest.approx(1021.43, abs=0.005)
    assert [np.power(opinions[:, 1] - 55, power).sum() for power in (1, 2, 4)] == [0, 1300, 872500]
    assert kurtosis(opinions[:, 3], fisher=False) == pytest.approx(31 / 6)
    above, below = outlying(opinions)
    assert above.tolist() == [1, 0, 0, 0, 0, 0, 0]
    assert below.tolist() == [1, 0, 0, 0, 0, 0, 0]
    found = screen(opinions, names(7))
    assert found.rejected == {"o0": "BT.500: 1 of 4 ratings far above the panel and 1 far below"}


def test_far_off_to_one_side_is_a_scale_of_ones_own() -> None:
    above, below = outlying(by_hand()[:, [1, 1, 1, 2]])
    assert (above[0], below[0]) == (3, 1)
    assert screen(by_hand()[:, [1, 1, 1, 2]], names(7)).rejected == {}, "|3 - 1| / 4 is not below 0.3"


def test_seldom_far_off_is_no_reason() -> None:
    """More than a twentieth: two of 39 stimuli are, two of 40 are not."""
    quiet = 50 + np.random.default_rng(1).uniform(-1, 1, size=(7, 38))
    assert np.add(*outlying(quiet)).sum() == 0, "where ratings are spread evenly, nobody among seven is far off"
    trend = np.linspace(-20, 20, 40)  # all see the same differences, so that nobody is rejected for disagreeing
    both = np.column_stack([quiet[:, :19], by_hand()[:, 1:3], quiet[:, 19:]]) + trend
    assert list(screen(both[:, 1:], names(7)).rejected) == ["o0"]
    assert screen(both, names(7)).rejected == {}


def test_the_moments_are_those_of_scipy() -> None:
    rng = np.random.default_rng(2)
    opinions = np.clip(60 + 20 * rng.standard_t(4, size=(25, 60)), 0, 100)
    expected = np.zeros((2, 25), dtype=int)
    for column in opinions.T:
        limit = (2 if 2 <= kurtosis(column, fisher=False) <= 4 else np.sqrt(20)) * column.std(ddof=1)
        expected[0] += column >= column.mean() + limit
        expected[1] += column <= column.mean() - limit
    assert np.array_equal(outlying(opinions), expected)
    assert expected.sum() > 20


def test_where_all_agree_nobody_is_far_off() -> None:
    """By the letter of BT.500 S = 0, and everybody is both far above and far below."""
    for value in (100.0, 0.0, 70.1, 100 / 3):
        assert np.add(*outlying(np.full((8, 10), value))).sum() == 0


def test_missing_ratings_count_for_nothing() -> None:
    whole = by_hand()
    holed = np.vstack([whole, np.full(4, np.nan)])
    assert np.array_equal(np.array(outlying(holed))[:, :7], outlying(whole))


# --- What screening can and cannot do


def test_among_five_nobody_can_be_far_off_and_among_21_not_by_the_wider_limit() -> None:
    def furthest(count: int) -> float:
        lone = np.zeros(count)
        lone[0] = 1.0
        return float((lone[0] - lone.mean()) / lone.std(ddof=1))

    for count in range(2, 40):
        assert furthest(count) == pytest.approx((count - 1) / np.sqrt(count))
    assert furthest(FEWEST - 1) < 2 < furthest(FEWEST)
    assert furthest(21) < np.sqrt(20) < furthest(22)


def test_too_few_observers_are_not_screened_and_the_scores_say_so() -> None:
    with pytest.raises(DataError, match="5 observers are too few to be screened; it takes 6"):
        screen(np.zeros((5, 10)), names(5))
    few = mos.score(observers.ratings(observers.session(observers=5), random=2))
    assert few.rejected == {}
    assert few.notes == ["the observers were not screened: 5 are too few, it takes 6"]
    more = mos.score(observers.ratings(observers.session(observers=ADVISED - 1)))
    assert f"14 observers are few: BT.500 asks for at least {ADVISED}" in more.notes
    assert mos.score(observers.ratings(observers.session(observers=ADVISED))).notes == []


def test_agreement_is_the_correlation_with_all_others() -> None:
    rng = np.random.default_rng(3)
    opinions = rng.uniform(0, 100, size=(9, 12))
    opinions[2, 5] = np.nan
    found, comparable = agreements(opinions)
    for i in range(9):
        both = ~np.isnan(opinions[i])
        others = np.nanmean(np.delete(opinions, i, axis=0), axis=0)
        assert found[i] == pytest.approx(np.corrcoef(opinions[i, both], others[both])[0, 1], abs=1e-12)
    assert comparable.tolist() == [12, 12, 11, *6 * [12]]


def test_who_gives_the_same_to_everything_is_rejected() -> None:
    opinions = np.random.default_rng(4).normal(np.linspace(10, 90, 12), 5.0, size=(16, 12))
    opinions[3] = 50
    assert screen(opinions, names(16)).rejected["o3"].endswith("the ratings are all the same")


def test_few_stimuli_are_no_ground_to_ask_for_agreement() -> None:
    rng = np.random.default_rng(5)
    opinions = rng.uniform(0, 100, size=(20, FEWEST_STIMULI - 1))
    found = screen(opinions, names(20))
    assert not any("correlation" in reason for reason in found.rejected.values())
    assert any(note.startswith("20 of 20 observers rated fewer than 8 stimuli") for note in found.notes)


def test_stimuli_that_nobody_can_tell_apart_are_suspected_and_not_the_observers_alone() -> None:
    opinions = np.random.default_rng(6).normal(50, 10, size=(20, 20))
    found = screen(opinions, names(20))
    assert len(found.rejected) > 10
    assert any("the stimuli may be too much alike" in note for note in found.notes)
    shown = observers.session()
    ramp = np.tile(np.linspace(0, 100, len(shown.stimuli)), (20, 1))
    with pytest.raises(DataError, match=r"20 of 20 observers are rejected, and 0 left.*screening=False"):
        mos.score(mos.Ratings(shown, np.random.default_rng(7).permuted(ramp, axis=1)))


# --- How often, by simulation


def panel(rng: np.random.Generator, people: int, random: int, stimuli: int, shift: float = 5.0) -> Array:
    """Who looks has a noise of 10 and a scale that is shifted by about 5; the first `random` do not look."""
    truth = rng.uniform(10, 95, stimuli)
    opinions = truth + rng.normal(0, shift, (people, 1)) + rng.normal(0, 10, (people, stimuli))
    opinions[:random] = rng.uniform(0, 100, (random, stimuli))
    return np.clip(opinions, 0, 100)


def shares(people: int, random: int, stimuli: int, panels: int) -> tuple[Array, Array]:
    """Rejected by BT.500 alone and by both rules, of those who do not look and of the others; and standard errors."""
    rng = np.random.default_rng(8)
    found = []
    for _ in range(panels):
        opinions = panel(rng, people, random, stimuli)
        reasons = screen(opinions, names(people)).rejected
        alone = np.array(["BT.500" in reasons.get(name, "") for name in names(people)])
        both = np.array([name in reasons for name in names(people)])
        found.append([alone[:random].mean(), alone[random:].mean(), both[:random].mean(), both[random:].mean()])
    return np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(panels)


def test_bt500_alone_misses_most_who_rate_at_random_and_both_rules_miss_hardly_any() -> None:
    """Two of twenty rate twenty stimuli at random: BT.500 alone catches about a quarter of them.

    2000 panels gave 25.5 %, with a standard error of 0.7 %.
    """
    (alone, good_alone, both, good), (error, *_) = shares(people=20, random=2, stimuli=20, panels=300)
    assert abs(alone - 0.255) < 4 * np.hypot(error, 0.007)
    assert error < 0.025, "or the line above would say little"
    assert both > 0.98
    assert good_alone <= good < 0.005


def test_how_many_are_caught_depends_on_the_panel() -> None:
    """More stimuli show more, more company hides: a quarter is the share of one setting."""
    many, _ = shares(people=20, random=1, stimuli=40, panels=100)
    company, _ = shares(people=30, random=4, stimuli=12, panels=100)
    assert many[0] > 0.4
    assert company[0] < 0.2
    assert min(many[2], company[2]) > 0.97


@pytest.mark.parametrize(("shift", "share"), [(5.0, 0.0166), (0.0, 0.0499)])
def test_a_panel_in_which_everybody_looks_loses_some_nevertheless(shift: float, share: float) -> None:
    """2000 panels gave these shares, to 0.1 %: it takes only two ratings that are far off to different sides."""
    rng = np.random.default_rng(9)
    lost = [len(screen(panel(rng, 20, 0, 20, shift), names(20)).rejected) / 20 for _ in range(200)]
    assert abs(np.mean(lost) - share) < 4 * np.hypot(np.std(lost, ddof=1) / np.sqrt(200), 0.001)
