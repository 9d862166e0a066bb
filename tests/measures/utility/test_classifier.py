"""The classifier sees what propensity scores cannot, and is not fooled by values that stand in both files."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from samples import matrix

import microveil as mv
from microveil.measures.utility._boosted_trees_kernels import BINS, binned, log_odds
from microveil.measures.utility.propensity import _apart, classifier_auc, propensity_2

Array = NDArray[np.float64]


def table(seed: int, rows: int = 500) -> Array:
    return np.random.default_rng(seed).lognormal(size=(rows, 4)) @ (np.eye(4) + 0.3)


def test_exact_moments_with_another_shape_are_told_apart() -> None:
    data = table(1)
    released = mv.protect(data, "pca", perturb="normal", exact=True, seed=1, rules=None).data
    assert propensity_2(matrix(data), matrix(released)).value < 1e-12
    found = classifier_auc(matrix(data), matrix(released), seed=1)
    assert found.value > 0.85
    assert found.low > found.chance


@pytest.mark.slow
def test_two_samples_of_one_population_and_copies_are_not() -> None:
    for released in (table(3), table(2)):  # another sample, and the very same values
        found = classifier_auc(matrix(table(2)), matrix(released), seed=1)
        assert found.value < 0.58
        assert found.low <= found.value <= found.high
        assert 0.5 < found.chance < 0.52


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "others"), [(60, 60), (200, 100)])
def test_chance_is_the_mean_of_what_was_raised_to_one_half(rows: int, others: int) -> None:
    found = [
        classifier_auc(matrix(table(20 + seed, rows)), matrix(table(80 + seed, others)), seed=seed)
        for seed in range(25)
    ]
    values = np.array([figure.value for figure in found])
    chance = found[0].chance
    assert chance is not None
    assert 0.5 < chance < 1
    assert chance == pytest.approx(values.mean(), abs=3 * values.std(ddof=1) / np.sqrt(25))


def test_shuffled_columns_are_told_apart_though_every_value_is_a_copy() -> None:
    rng = np.random.default_rng(4)
    data = table(5)
    shuffled = np.column_stack([rng.permutation(column) for column in data.T])
    assert classifier_auc(matrix(data), matrix(shuffled), seed=1).value > 0.7


def test_a_figure_below_one_half_is_raised_and_said() -> None:
    # Independent columns: a shuffle changes nothing, but copies in other rows mislead the trees.
    data = np.random.default_rng(6).normal(size=(300, 2))
    rng = np.random.default_rng(7)
    for _ in range(6):
        shuffled = np.column_stack([rng.permutation(column) for column in data.T])
        found = classifier_auc(matrix(data), matrix(shuffled), seed=1)
        if found.parts["raw"] < 0.5:
            break
    assert found.parts["raw"] < 0.5 == found.value == found.low
    assert "below one half" in found.note


def test_values_are_moved_within_their_gaps_only() -> None:
    rng = np.random.default_rng(8)
    values = np.column_stack([rng.integers(0, 5, 200).astype(float), rng.normal(size=200)])
    values[3, 0] = np.nan
    moved = _apart(values, rng)
    there = ~np.isnan(values[:, 0])
    assert np.isnan(moved[3, 0])
    assert np.abs(moved - values)[there, 0].max() <= 0.5
    assert np.unique(moved[there, 0]).size == there.sum()
    assert (np.argsort(moved[:, 1]) == np.argsort(values[:, 1])).all()


def test_large_files_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    from microveil.measures.utility import propensity

    monkeypatch.setattr(propensity, "MOST_ROWS", 100)
    found = classifier_auc(matrix(table(9)), matrix(table(10, 300)), seed=1)
    assert "from 100 and 100 records" in found.note


@pytest.mark.slow
def test_the_trees_see_what_those_of_scikit_learn_see() -> None:
    ensemble, metrics = pytest.importorskip("sklearn.ensemble"), pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(11)
    values = rng.normal(size=(1200, 5))
    values[rng.random(1200) < 0.1, 4] = np.nan
    crossed = np.sign(values[:, 0] * values[:, 1]) * np.abs(values[:, 2])  # no column tells anything by itself
    label = rng.random(1200) < 1 / (1 + np.exp(-5 * (crossed > 0) + 2.5 - np.isnan(values[:, 4])))
    learnt = np.arange(1200) < 800
    own = log_odds(binned(values), label, learnt)[~learnt]
    model = ensemble.HistGradientBoostingClassifier(max_iter=60, early_stopping=False)
    other = model.fit(values[learnt], label[learnt]).decision_function(values[~learnt])
    areas = [metrics.roc_auc_score(label[~learnt], odds) for odds in (own, other)]
    assert areas[0] > 0.8
    assert abs(areas[0] - areas[1]) < 0.02
    assert np.corrcoef(own, other)[0, 1] > 0.9


def test_labels_that_are_not_learnt_from_do_not_matter() -> None:
    rng = np.random.default_rng(12)
    bins, label, learnt = binned(rng.normal(size=(300, 3))), rng.random(300) < 0.4, rng.random(300) < 0.7
    assert (log_odds(bins, label, learnt) == log_odds(bins, label & learnt, learnt)).all()


def test_missing_cells_and_columns_without_any_value_are_a_bin_of_their_own() -> None:
    values = np.column_stack([[3.0, np.nan, 1.0, 2.0], np.full(4, np.nan), np.full(4, 7.0)])
    found = binned(values)
    assert (found == 0).tolist() == np.isnan(values).tolist()
    assert 0 < found[2, 0] < found[3, 0] < found[0, 0] < BINS
    assert np.unique(found[:, 2]).size == 1
