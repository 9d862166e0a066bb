"""What is guessed of a secret: by the nearest, by a vote, by a regression; and what others' data tell anyway."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from samples import matrix

import microveil as mv
from microveil.errors import DataError, ParameterError
from microveil.measures.risk.attribute_inference import Ranks, attribute_inference, by_regression, by_vote, inference

Array = NDArray[np.float64]


def table(seed: int, rows: int = 300) -> Array:
    rng = np.random.default_rng(seed)
    return rng.lognormal(sigma=0.7, size=(rows, 5)) @ (np.eye(5) + 0.4)


def test_leaving_one_out_is_a_regression_without_it() -> None:
    rng = np.random.default_rng(1)
    known, secret = rng.normal(size=(40, 3)), rng.normal(size=40)
    own = np.arange(0, 40, 3)
    found = by_regression(known, secret, known[own], own)
    for i, guess in zip(own, found, strict=True):
        others = np.delete(np.arange(40), i)
        design = np.column_stack([np.ones(39), known[others]])
        slopes = np.linalg.lstsq(design, secret[others], rcond=None)[0]
        assert guess == pytest.approx(np.concatenate([[1.0], known[i]]) @ slopes)


def test_a_vote_weighs_by_the_inverse_squared_distance() -> None:
    known, secret = np.array([[0.0], [1.0], [3.0], [100.0]]), np.array([1.0, 2.0, 4.0, 1000.0])
    found = by_vote(3)(known, secret, np.array([[2.0]]), None)
    weights = np.array([1 / 4, 1.0, 1.0])
    assert found == pytest.approx([weights @ [1, 2, 4] / weights.sum()])
    assert by_vote(3)(known, secret, known[:1], None) == pytest.approx([1.0])  # one that is equal decides alone
    assert by_vote(1)(known, secret, known, np.arange(4)) == pytest.approx([2.0, 1.0, 2.0, 4.0])


def test_near_is_near_in_rank() -> None:
    ranks = Ranks.of(np.concatenate([np.arange(1.0, 101.0), [np.nan]]))
    truth = np.full(5, 50.0)
    assert ranks.are_near(truth, np.array([45.0, 44.9, 55.0, 55.1, np.nan])).tolist() == [
        True,
        False,
        True,
        False,
        False,
    ]
    children = Ranks.of(np.repeat([0.0, 1.0, 2.0], [50, 30, 20]))
    truth = np.array([0.0, 0.0, 1.0, 1.0])
    assert children.are_near(truth, np.array([0.01, 0.5, 0.5, 1.0])).tolist() == [True, False, False, True]


def test_a_release_from_which_everybody_can_be_guessed_is_no_disclosure() -> None:
    # The secret is nearly a function of the known columns: a regression tells it of people who never entered.
    rng = np.random.default_rng(2)
    known = rng.normal(size=(400, 3))
    data = np.column_stack([known, known.sum(axis=1) + 0.02 * rng.normal(size=400)])
    other = rng.normal(size=(400, 3))
    fresh = np.column_stack([other, other.sum(axis=1) + 0.02 * rng.normal(size=400)])
    found = attribute_inference(matrix(data), matrix(fresh), sensitive=[3], seed=1)
    assert found.parts["attack"] > 0.9
    assert found.parts["control"] > 0.9
    assert found.low <= found.chance


def test_regressions_are_worth_what_the_release_keeps_and_votes_see_copies() -> None:
    data = table(3)
    swapped = mv.protect(data, "pca", exact=True, seed=1, rules=None).data
    kept = attribute_inference(matrix(data), matrix(swapped), seed=1)
    assert kept.low <= kept.chance
    assert kept.parts["attack"] > 2 * kept.parts["luck"]  # the regression itself is there, as it should be
    weak = data + 0.05 * data.std(axis=0) * np.random.default_rng(4).normal(size=data.shape)
    for attack in (inference, attribute_inference):
        assert attack(matrix(data), matrix(weak), seed=1).low > 0.3, attack.id


def test_the_worst_column_is_named_and_all_are_told() -> None:
    data = table(5)
    rng = np.random.default_rng(6)
    released = data + data.std(axis=0) * rng.normal(size=data.shape) * [0.01, 0.02, 0.5, 0.02, 0.01]
    found = attribute_inference(matrix(data), matrix(released), seed=1)
    each = {name: value for name, value in found.parts.items() if name.startswith("column")}
    assert list(each) == [f"column {j}" for j in range(5)]
    assert found.value == max(each.values())
    assert f"the worst is {max(each, key=each.__getitem__)} (from 0)" in found.note
    only = attribute_inference(matrix(data), matrix(released), sensitive=[2], seed=1)
    assert only.value == each["column 2"]
    assert only.chance < found.chance
    mean = inference(matrix(data), matrix(released), seed=1)
    assert mean.parts["attack"] == pytest.approx(np.mean([mean.parts[f"column {j}"] for j in range(5)]))


def test_constant_columns_keep_their_numbers_and_bad_ones_are_refused() -> None:
    data = np.column_stack([np.ones(60), table(7, 60)])
    assert list(inference(matrix(data), matrix(data), seed=1).parts)[3:] == [f"column {j}" for j in range(1, 6)]
    with pytest.raises(ParameterError, match="sensitive"):
        attribute_inference(matrix(data), matrix(data), sensitive=[6])
    with pytest.raises(DataError, match="two columns"):
        attribute_inference(matrix(data), matrix(data), sensitive=[0])
    for attack in (inference, attribute_inference):
        with pytest.raises(DataError, match="two columns"):
            attack(matrix(data[:, :2]), matrix(data[:, :2]))


def test_secrets_that_are_missing_are_neither_tried_nor_told() -> None:
    data = table(8, 100)
    holes = data.copy()
    holes[:50, 1] = np.nan
    assert inference(matrix(holes), matrix(data), seed=1).parts["column 1"] == 1  # of the fifty that are there
    told = inference(matrix(data), matrix(holes), seed=1)
    assert told.parts["column 1"] < 0.75  # fifty can only be guessed from the others
    gone = data.copy()
    gone[:, 1] = np.nan
    assert inference(matrix(data), matrix(gone), seed=1).parts["column 1"] == 0
