"""Hsu and Chen's leakage, with Theorem 1 corrected."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import pytest

import microveil as mv
from microveil.errors import ParameterError


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
