"""Distance-based record linkage: doing nothing scores 1, an unrelated shuffle scores chance."""

from __future__ import annotations

import numpy as np
import pytest
from reference import tarragona
from scipy.stats import binomtest

import microveil as mv
from microveil.core.table import Matrix
from microveil.risk import dbrl
from microveil.risk.linkage import MOST_QUERIES, binomial_interval


def matrix(values: np.ndarray) -> Matrix:
    return Matrix(list(values.T))


def test_doing_nothing_links_every_record() -> None:
    data = np.random.default_rng(1).lognormal(size=(500, 5))
    found = dbrl(matrix(data), matrix(data))
    assert found.value == found.high == 1.0
    assert found.low > 0.99
    assert found.chance == 1 / 500


def test_an_unrelated_shuffle_scores_chance() -> None:
    rng = np.random.default_rng(2)
    data = rng.lognormal(size=(1500, 4))
    shuffled = np.column_stack([rng.permutation(column) for column in data.T])
    found = dbrl(matrix(data), matrix(shuffled))
    assert found.low <= found.chance <= found.high


def test_of_equal_records_each_is_a_guess() -> None:
    # Eight different records, each a hundred times or so: the intruder finds the right one of a hundred by luck.
    rng = np.random.default_rng(3)
    data = rng.integers(0, 2, size=(800, 3)).astype(float)
    assert dbrl(matrix(data), matrix(data)).value == pytest.approx(8 / 800)
    assert dbrl(matrix(data), matrix(data[rng.permutation(800)])).value < 0.02


def test_units_do_not_matter_and_missing_cells_are_no_hits() -> None:
    rng = np.random.default_rng(4)
    data = rng.normal(size=(300, 4))
    noisy = data + 0.3 * rng.normal(size=data.shape)
    plain = dbrl(matrix(data), matrix(noisy)).value
    units = np.array([1e-6, 1.0, 1e3, 1e9])
    assert dbrl(matrix(data * units), matrix(noisy * units)).value == plain
    blank = np.full_like(data, np.nan)
    blank[:, 0] = 1.0
    blank[0, 0] = 2.0
    assert dbrl(matrix(blank), matrix(blank)).value < 0.02


def test_many_records_are_sampled_and_repeatable() -> None:
    rng = np.random.default_rng(5)
    data = rng.normal(size=(MOST_QUERIES + 3000, 3))
    noisy = data + 0.2 * rng.normal(size=data.shape)
    first, second = (dbrl(matrix(data), matrix(noisy), seed=9) for _ in range(2))
    assert first == second
    assert first.low < first.value < first.high


def test_the_interval_is_that_of_clopper_and_pearson() -> None:
    for hits, tries in ((0, 50), (3, 50), (50, 50), (400, 1000)):
        exact = binomtest(hits, tries).proportion_ci(0.95, "exact")
        assert binomial_interval(hits, tries) == pytest.approx((exact.low, exact.high), abs=1e-12)


@pytest.mark.parametrize(("components", "published"), [(1, 0.3642), (3, 0.0974), (8, 0.0052), (13, 0.0012)])
def test_the_papers_linkage_on_tarragona(components: int, published: float) -> None:
    # Calviño (2017), Table 4, swapping the first components; means over 100 draws there, over 12 here.
    _, data = tarragona()
    found = [
        dbrl(matrix(data), matrix(mv.protect(data, components=components, exact=False, seed=s, rules=None).data)).value
        for s in range(12)
    ]
    assert np.mean(found) == pytest.approx(published, abs=0.01)


def test_fewer_components_swapped_link_more_on_our_own_data() -> None:
    rng = np.random.default_rng(6)
    data = rng.lognormal(size=(600, 8)) @ (np.eye(8) + 0.2)
    found = [
        dbrl(matrix(data), matrix(mv.protect(data, components=c, exact=False, seed=1).data)).value for c in (1, 4, 8)
    ]
    assert found[0] > found[1] > found[2]
    assert found[2] < 0.02
