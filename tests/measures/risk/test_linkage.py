"""Record linkage: doing nothing scores 1, an unrelated shuffle scores chance, and each attack beats what it should."""

from __future__ import annotations

import numpy as np
import pytest
from samples import matrix
from scipy.stats import binomtest

import microveil as mv
from microveil.measures.base import MeasureSpec
from microveil.measures.risk.linkage import (
    dbrl,
    known_columns_linkage,
    mahalanobis_linkage,
    optimal_linkage,
    rank_linkage,
)
from microveil.measures.risk.proportions import FEWEST_TRIED, PAIRS, binomial_interval, sampled_rows

ATTACKS = [dbrl, mahalanobis_linkage, rank_linkage, optimal_linkage, known_columns_linkage]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.id)
def test_doing_nothing_links_every_record(attack: MeasureSpec) -> None:
    data = np.random.default_rng(1).lognormal(size=(500, 5))
    found = attack(matrix(data), matrix(data), seed=1)
    assert found.value == found.high == 1.0
    assert found.low > 0.99
    if attack is known_columns_linkage:  # measured on 200 shuffles, each with one hit by luck (variance one)
        assert found.chance == pytest.approx(1 / 500, abs=4 / 500 / np.sqrt(200))
    else:
        assert found.chance == 1 / 500


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.id)
def test_an_unrelated_shuffle_scores_chance(attack: MeasureSpec) -> None:
    rng = np.random.default_rng(2)
    data = rng.lognormal(size=(900, 4))
    shuffled = np.column_stack([rng.permutation(column) for column in data.T])
    found = attack(matrix(data), matrix(shuffled), seed=1)
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


def test_a_record_nothing_is_known_of_is_no_hit() -> None:
    rng = np.random.default_rng(5)
    data = rng.normal(size=(60, 4))
    data[7] = np.nan  # the only record at the mean, and nearest to its own release, which is there too
    for attack in ATTACKS:
        assert attack(matrix(data), matrix(data), seed=1).value == pytest.approx(59 / 60), attack.id
    alone = np.full((40, 3), np.nan)
    for attack in ATTACKS:
        assert attack(matrix(rng.normal(size=(40, 3))), matrix(alone), seed=1).value == 0, attack.id


def test_many_records_are_sampled_and_repeatable() -> None:
    assert sampled_rows(100_000, 1).size == 100_000
    assert np.unique(sampled_rows(10**6, 1)).size == FEWEST_TRIED
    assert sampled_rows(20_000, 1, pairs=PAIRS).size == 20_000
    assert np.unique(sampled_rows(10**5, 1, pairs=PAIRS)).size == 4_000
    assert sampled_rows(10**6, 1, pairs=PAIRS).size == FEWEST_TRIED
    rng = np.random.default_rng(5)
    data = rng.normal(size=(FEWEST_TRIED + 3000, 3))
    noisy = data + 0.2 * rng.normal(size=data.shape)
    first, second, other = (dbrl(matrix(data), matrix(noisy), seed=s, pairs=1) for s in (9, 9, 10))
    assert first == second != other
    assert first.low < first.value < first.high
    assert "an estimate from 2000 of 5000 records" in first.note
    everyone = dbrl(matrix(data), matrix(noisy))
    assert everyone.note == ""
    assert first.low < everyone.value < first.high


def test_the_interval_is_that_of_clopper_and_pearson() -> None:
    for hits, tries in ((0, 50), (3, 50), (50, 50), (400, 1000)):
        exact = binomtest(hits, tries).proportion_ci(0.95, "exact")
        assert binomial_interval(hits, tries) == pytest.approx((exact.low, exact.high), abs=1e-12)


def test_fewer_components_swapped_link_more_on_our_own_data() -> None:
    rng = np.random.default_rng(6)
    data = rng.lognormal(size=(600, 8)) @ (np.eye(8) + 0.2)
    found = [
        dbrl(matrix(data), matrix(mv.protect(data, "pca", components=c, exact=False, seed=1).data)).value
        for c in (1, 4, 8)
    ]
    assert found[0] > found[1] > found[2]
    assert found[2] < 0.02


def correlated(rows: int, seed: int) -> np.ndarray:
    """Two columns that nearly agree, and a third."""
    rng = np.random.default_rng(seed)
    data = rng.normal(size=(rows, 3))
    data[:, 1] = data[:, 0] + 0.05 * data[:, 1]
    return data


def test_whitened_distances_see_what_runs_against_the_correlation() -> None:
    # Noise along the common direction hides the records from plain distances, and leaves the difference as it was.
    data = correlated(400, 7)
    noise = np.random.default_rng(8).normal(size=400)
    released = data + np.column_stack([noise, noise, np.zeros(400)])
    plain, whitened = (attack(matrix(data), matrix(released)).value for attack in (dbrl, mahalanobis_linkage))
    assert whitened > 2 * plain


def test_whitened_distances_are_those_of_the_textbook() -> None:
    from scipy.spatial.distance import cdist

    data = correlated(150, 9)
    released = data + 0.1 * np.random.default_rng(10).normal(size=data.shape)
    distance = cdist(data, released, "mahalanobis", VI=np.linalg.inv(np.cov(data.T)))
    expected = (distance.argmin(axis=1) == np.arange(150)).mean()
    assert mahalanobis_linkage(matrix(data), matrix(released)).value == pytest.approx(expected)


def test_ranks_do_not_mind_a_monotone_transformation() -> None:
    data = np.random.default_rng(11).normal(size=(300, 3))
    bent = np.exp(3 * data)
    assert rank_linkage(matrix(data), matrix(bent)).value == 1
    assert dbrl(matrix(data), matrix(bent)).value < 0.2


def test_one_to_one_is_the_best_assignment_and_ties_are_no_hits() -> None:
    # Two originals have the same nearest release, and only one of them may have it.
    data = np.array([[0.0], [1.0], [10.0], [20.0]])
    released = np.array([[0.9], [1.2], [10.0], [20.0]])
    assert dbrl(matrix(data), matrix(released)).value == 0.75
    assert optimal_linkage(matrix(data), matrix(released), seed=1).value == 1
    flat = np.repeat([0.0, 1.0], 50)[:, None]
    assert optimal_linkage(matrix(flat), matrix(flat), seed=1).value == pytest.approx(2 / 100)


def test_one_to_one_is_tried_on_a_sample_when_there_are_many() -> None:
    data = np.random.default_rng(12).normal(size=(2500, 2))
    found = optimal_linkage(matrix(data), matrix(data), seed=3)
    assert found.value == 1
    assert "an estimate from 2000 of 2500 records" in found.note


def test_the_curve_of_known_columns_rises_to_full_knowledge() -> None:
    rng = np.random.default_rng(13)
    data = rng.normal(size=(300, 6))
    released = data + 0.3 * rng.normal(size=data.shape)
    found = known_columns_linkage(matrix(data), matrix(released), seed=1)
    curve = list(found.parts.values())
    assert list(found.parts) == [f"{size} known" for size in range(1, 7)]
    assert curve == sorted(curve)
    assert curve[0] < 0.05 < 0.5 < curve[-1]
    assert curve[-1] == found.value == dbrl(matrix(data), matrix(released)).value


@pytest.mark.quick("60")
@pytest.mark.parametrize("rows", [60, 150, 400])
def test_the_highest_point_of_an_unrelated_release_is_at_chance(rows: int) -> None:
    rng = np.random.default_rng(rows)
    gains, chances = [], []
    for seed in range(40):
        data, unrelated = (matrix(rng.lognormal(size=(rows, 6))) for _ in range(2))
        found = known_columns_linkage(data, unrelated, seed=seed)
        assert found.chance is not None
        gains.append(found.value - found.chance)
        chances.append(found.chance)
    error = np.std(gains, ddof=1) / np.sqrt(40)
    assert abs(np.mean(gains)) < 3 * error
    assert np.mean(chances) > 1 / rows + 4 * error  # a guess alone would be too low
