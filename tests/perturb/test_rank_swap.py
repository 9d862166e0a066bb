"""The rule of rank swapping: who may change places with whom, and how likely."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from microveil.core.rng import Streams
from microveil.errors import ParameterError
from microveil.perturb import Column, swap
from microveil.perturb.swap import RankSwap, partners

Array = NDArray[np.float64]


def column(values: Array, seed: int = 0) -> Column:
    return Column(values, Streams(seed).stream("swap"))


def outcomes(rows: int, window: int, partner: tuple[int, ...] = (), rank: int = 0) -> dict[tuple[int, ...], Fraction]:
    """The probability of every outcome, by walking all paths of the rule as it is written down."""
    partner = partner or (-1,) * rows
    if rank == rows:
        return {partner: Fraction(1)}
    if partner[rank] >= 0:
        return outcomes(rows, window, partner, rank + 1)
    free = [k for k in range(rank, min(rank + window, rows - 1) + 1) if partner[k] < 0]
    found: Counter[tuple[int, ...]] = Counter()
    for chosen in free:
        new = list(partner)
        new[rank], new[chosen] = chosen, rank
        for outcome, probability in outcomes(rows, window, tuple(new), rank + 1).items():
            found[outcome] += probability / len(free)
    return dict(found)


@pytest.mark.quick("4-1")
@pytest.mark.parametrize(("rows", "window"), [(4, 1), (5, 2), (6, 3), (5, 5)])
def test_every_outcome_is_as_likely_as_the_rule_says(rows: int, window: int) -> None:
    expected = outcomes(rows, window)
    assert sum(expected.values()) == 1
    draws = 20_000
    seen = Counter(tuple(partners(rows, window, Streams(draw).stream("swap")).tolist()) for draw in range(draws))
    assert set(seen) <= set(expected)
    counts = [seen[outcome] for outcome in expected]
    test = stats.chisquare(counts, [float(probability) * draws for probability in expected.values()])
    assert test.pvalue > 1e-3


@pytest.mark.parametrize(("rows", "window"), [(1000, 1), (1000, 37), (1000, 500), (1000, 1000)])
def test_partners_pair_off_within_the_window(rows: int, window: int) -> None:
    for seed in range(5):
        partner = partners(rows, window, Streams(seed).stream("swap"))
        assert np.array_equal(partner[partner], np.arange(rows))
        assert np.abs(partner - np.arange(rows)).max() <= window
        assert np.abs(partner - np.arange(rows)).max() >= 0.5 * window  # the window is used
        assert (partner != np.arange(rows)).mean() > (0.4 if window == 1 else 0.9)


@pytest.mark.parametrize(("rows", "window"), [(1, 1), (7, 3), (5000, 1), (5000, 500), (5000, 5000)])
def test_compiled_and_plain_loops_agree(rows: int, window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Streams(3).stream("swap")
    plain = partners(rows, window, stream)
    monkeypatch.setattr(swap, "SMALL", 0)
    assert np.array_equal(partners(rows, window, stream), plain)


@pytest.mark.parametrize("p", [0.01, 0.1, 0.3, 1.0])
def test_values_change_places_within_the_window_of_ranks(p: float) -> None:
    rng = np.random.default_rng(1)
    values = rng.permutation(np.exp(rng.standard_normal(500)))
    new = RankSwap(rank_window=p).apply(column(values))
    assert np.array_equal(np.sort(new), np.sort(values))
    rank = {value: k for k, value in enumerate(np.sort(values).tolist())}
    shifts = [abs(rank[a] - rank[b]) for a, b in zip(values.tolist(), new.tolist(), strict=True)]
    assert 0 < max(shifts) <= 500 * p


def test_ties_and_input_are_left_alone() -> None:
    values = np.repeat([3.0, 1.0, 2.0], 40)
    before = values.copy()
    new = RankSwap(rank_window=0.2).apply(column(values))
    assert np.array_equal(values, before)
    assert np.array_equal(np.sort(new), np.sort(values))
    assert set(np.abs(new - values)) <= {0.0, 1.0}  # 24 ranks never reach over the 40 twos


@pytest.mark.parametrize(("rows", "p", "window"), [(100, 0.29, 29), (832, 0.05, 41), (10, 0.3, 3), (7, 1.0, 7)])
def test_window_is_the_floor_without_round_off(rows: int, p: float, window: int) -> None:
    assert RankSwap(rank_window=p).window(rows) == window


def test_percentages_are_refused_with_what_was_meant() -> None:
    from microveil.core.parameters import validated

    with pytest.raises(ParameterError, match=r"^rank_window: 10 is not a fraction .* give 0\.1"):
        validated(RankSwap, {"rank_window": 10})
    with pytest.raises(ParameterError, match=r"^rank_window: .* give 0\.025"):
        validated(RankSwap, {"rank_window": 2.5})
    for value in (0, -0.1, 101, float("nan"), float("inf"), "wide", None, True):
        with pytest.raises(ParameterError, match=r"^rank_window: "):
            validated(RankSwap, {"rank_window": value})


def test_a_window_without_neighbours_is_refused_with_one_that_has_some() -> None:
    for rows in (3, 7, 9, 99, 12_345):
        with pytest.raises(ParameterError, match=r"^rank_window: .* nothing would change") as caught:
            RankSwap(rank_window=0.5 / rows).check(rows, 1)
        advised = float(str(caught.value).rsplit(" ", 1)[1])
        RankSwap(rank_window=advised).check(rows, 1)
