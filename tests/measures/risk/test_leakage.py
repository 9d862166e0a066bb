"""Hsu and Chen's leakage, with Theorem 1 corrected, and records that come back nearly."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

import microveil as mv
from microveil.core.table import Matrix
from microveil.errors import DataError, ParameterError
from microveil.measures.risk.closest import expected_near_returns, near_leakage


def enumerated(n: int, m: int) -> dict[int, Fraction]:
    """P{N = k} by trying all swaps; one component may stay, as only relative orders matter."""
    orders = list(itertools.permutations(range(n)))
    if len(orders) ** (m - 1) > 200_000:
        return by_inclusion(n, m)
    counts: Counter[int] = Counter()
    for chosen in itertools.product(orders, repeat=m - 1):
        counts[sum(all(order[i] == i for order in chosen) for i in range(n))] += 1
    total = sum(counts.values())
    return {k: Fraction(count, total) for k, count in counts.items()}


def by_inclusion(n: int, m: int) -> dict[int, Fraction]:
    """The same by inclusion and exclusion, in fractions: the number of common fixed points of m-1 permutations."""
    moments = [
        Fraction(math.comb(n, j)) * Fraction(math.factorial(n - j), math.factorial(n)) ** (m - 1) for j in range(n + 1)
    ]
    return {
        k: sum(((-1) ** (j - k) * math.comb(j, k) * moments[j] for j in range(k, n + 1)), Fraction(0))
        for k in range(n + 1)
    }


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("m", [2, 3, 4, 5])
def test_the_corrected_theorem_equals_enumeration(n: int, m: int) -> None:
    exact = enumerated(n, m)
    found = mv.leakage_distribution(n, m)
    for k in range(n + 1):
        assert found.pmf(k) == pytest.approx(float(exact.get(k, 0)), rel=1e-12, abs=1e-15)
    mean = sum(k * p for k, p in exact.items())
    assert found.mean == pytest.approx(float(mean), rel=1e-12)
    assert found.variance == pytest.approx(
        float(sum(k * k * p for k, p in exact.items()) - mean**2), rel=1e-9, abs=1e-15
    )
    assert found.risk == pytest.approx(float(1 - exact.get(0, Fraction(0))), rel=1e-12)


def test_inclusion_and_exclusion_agrees_with_trying_all() -> None:
    assert by_inclusion(3, 3) == {k: enumerated(3, 3).get(k, 0) for k in range(4)}


def test_a_billion_records() -> None:
    # The figures of the corrected theorem; the risk of two components is 1 - 1/e.
    assert mv.leakage_distribution(10**9, 2).risk == pytest.approx(0.632120558829, abs=5e-13)
    assert mv.leakage_distribution(10**9, 3).risk == pytest.approx(9.999999995e-10, rel=1e-9)
    assert mv.leakage_distribution(10**9, 4).risk == pytest.approx(1e-18, rel=1e-6)
    for m in (2, 3, 6):
        distribution = mv.leakage_distribution(10**9, m)
        assert math.fsum(distribution.pmf(k) for k in range(40)) == pytest.approx(1, abs=1e-14)


def test_published_monte_carlo_figures() -> None:
    # n = 50, m = 3: .98038, .01946, .00017 by simulation; the theorem as printed gives .980, .980, .490.
    found = mv.leakage_distribution(50, 3)
    assert [found.pmf(k) for k in range(3)] == pytest.approx([0.98020, 0.01960, 0.00020], abs=5e-6)
    assert found.pmf(-1) == found.pmf(51) == 0


@pytest.mark.parametrize(("n", "m"), [(0, 2), (5, 1), (2.5, 2), (True, 2)])
def test_what_makes_no_sense_is_refused(n: object, m: object) -> None:
    with pytest.raises(ParameterError, match="whole number"):
        mv.leakage_distribution(n, m)  # type: ignore[arg-type]


def test_near_returns_without_a_box_are_the_theorems_mean() -> None:
    scores = np.random.default_rng(1).normal(size=(30, 3))
    found = expected_near_returns(scores, 0.0)
    assert found == pytest.approx(np.full(30, 30.0**-2))
    assert found.sum() == pytest.approx(mv.leakage_distribution(30, 3).mean)
    assert expected_near_returns(scores, 1e9).sum() == 30 * 30


@pytest.mark.quick("0.05")
@pytest.mark.parametrize("eps", [0.05, 0.3])
def test_near_returns_are_those_of_a_simulation(eps: float) -> None:
    rng = np.random.default_rng(2)
    scores = rng.lognormal(size=(150, 3))
    width = eps * scores.std(axis=0)
    expected = expected_near_returns(scores, eps)
    counts, hits = [], np.zeros(150)
    for _ in range(400):
        swapped = np.column_stack([rng.permutation(column) for column in scores.T])
        near = (np.abs(scores[:, None] - swapped[None]) <= width).all(axis=2)
        counts.append(near.sum())
        hits += near.any(axis=1)
    assert expected.sum() == pytest.approx(np.mean(counts), abs=4 * np.std(counts) / np.sqrt(400))
    # Of one record it is a Poisson approximation: right on average to a few per cent.
    assert (-np.expm1(-expected)).sum() == pytest.approx(hits.sum() / 400, rel=0.1)


def test_near_returns_refuse_holes_and_negative_boxes() -> None:
    with pytest.raises(DataError, match="scores"):
        expected_near_returns(np.array([[1.0, np.nan]]), 0.1)
    with pytest.raises(ParameterError, match="eps"):
        expected_near_returns(np.ones((3, 2)), -0.1)


def test_near_returns_of_swapped_components_are_as_many_as_expected() -> None:
    # The principal components of the original, swapped independently: the formula is for exactly this.
    rng = np.random.default_rng(11)
    data = rng.lognormal(sigma=0.5, size=(400, 3)) @ (np.eye(3) + 0.4)
    mean, sd = data.mean(axis=0), data.std(axis=0)
    z = (data - mean) / sd
    axes = np.linalg.eigh(z.T @ z)[1]
    shares = []
    for _ in range(60):
        swapped = np.column_stack([rng.permutation(column) for column in (z @ axes).T])
        found = near_leakage(Matrix(list(data.T)), Matrix(list((mean + sd * (swapped @ axes.T)).T)), seed=1)
        shares.append(found.value)
    assert found.parts["swapped components"] > 0.05  # three components, four hundred records: some are near by accident
    standard_error = np.std(shares) / np.sqrt(60)
    assert np.mean(shares) == pytest.approx(found.parts["swapped components"], abs=4 * standard_error + 0.005)


def test_near_leakage_is_that_of_looking_at_every_pair() -> None:
    rng = np.random.default_rng(12)
    data = rng.lognormal(sigma=0.5, size=(300, 2)) @ (np.eye(2) + 0.4)
    released = data + 0.2 * rng.normal(size=data.shape)
    z = (data - data.mean(axis=0)) / data.std(axis=0)
    values, vectors = np.linalg.eigh(z.T @ z / 300)
    before = z @ vectors / np.sqrt(values)
    after = (released - data.mean(axis=0)) / data.std(axis=0) @ vectors / np.sqrt(values)
    near = (np.abs(before[:, None] - after[None]).max(axis=2) <= 0.05).any(axis=1)
    others = (np.abs(before[:, None] - before[None]).max(axis=2) <= 0.05).sum(axis=1) > 1
    found = near_leakage(Matrix(list(data.T)), Matrix(list(released.T)), eps=0.05)
    assert found.value == pytest.approx(near.mean())
    assert found.chance == pytest.approx(others.mean())
    with pytest.raises(ParameterError, match="eps"):
        near_leakage(Matrix(list(data.T)), Matrix(list(data.T)), eps=0.0)


def test_a_fresh_sample_is_near_as_often_as_other_originals() -> None:
    rng = np.random.default_rng(13)
    found = [near_leakage(*(Matrix(list(rng.normal(size=(400, 2)).T)) for _ in range(2))) for _ in range(40)]
    gaps = np.array([measure.value - measure.chance for measure in found])
    assert gaps.mean() == pytest.approx(0.0, abs=4 * gaps.std() / np.sqrt(40))


@pytest.mark.quick("2")
@pytest.mark.parametrize("columns", [2, 3])
def test_figure_and_chance_agree_within_the_errors_of_both(columns: int) -> None:
    rng = np.random.default_rng(14)
    found = [near_leakage(*(Matrix(list(rng.normal(size=(400, columns)).T)) for _ in range(2))) for _ in range(200)]
    agree = []
    for measure in found:
        own, chance = measure.value * (1 - measure.value) / 400, measure.parts["standard error of chance"]
        agree.append(abs(measure.value - measure.chance) <= 1.96 * np.sqrt(own + chance**2))
    assert np.mean(agree) >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 200)
