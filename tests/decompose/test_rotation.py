"""Rotations: orthogonal, and what each is for."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from numpy.typing import NDArray
from reference import tarragona

from microveil.core.linalg import fast_ica, nearest_rotation
from microveil.decompose.factor import principal_axes
from microveil.decompose.select import columns_first, varimax, varimax_criterion

Array = NDArray[np.float64]


def loadings(seed: int = 0, columns: int = 7, factors: int = 4) -> Array:
    return np.random.default_rng(seed).normal(size=(columns, factors)) / 3


def is_rotation(matrix: Array) -> bool:
    return bool(np.abs(matrix.T @ matrix - np.eye(matrix.shape[1])).max() < 1e-13)


@pytest.mark.parametrize("columns", [[0], [3, 1], [5, 0, 2], [6, 5, 4, 3], [0, 1, 2, 3, 4, 5, 6]])
def test_the_first_columns_become_lower_triangular(columns: list[int]) -> None:
    before = loadings()
    turn = columns_first(before, columns)
    after = before @ turn
    assert is_rotation(turn)
    assert np.abs(np.triu(after[columns], 1)).max(initial=0) < 1e-12
    assert (np.diagonal(after[columns]) >= 0).all()
    assert np.abs(after @ after.T - before @ before.T).max() < 1e-13
    # The first column's communality is all in the first factor.
    assert after[columns[0], 0] == pytest.approx(np.linalg.norm(before[columns[0]]), abs=1e-13)


def test_every_tarragona_variable_can_come_first() -> None:
    _, data = tarragona()
    before = principal_axes(np.corrcoef(data.T), 13)
    for first in range(13):
        columns = [first, (first + 5) % 13, (first + 2) % 13]
        after = before @ columns_first(before, columns)
        assert np.abs(np.triu(after[columns], 1)).max() < 1e-12
        assert np.abs(after @ after.T - before @ before.T).max() < 1e-12


def test_columns_that_load_alike_or_not_at_all_are_no_obstacle() -> None:
    before = loadings()
    before[1] = 2 * before[0]
    before[2] = 0
    turn = columns_first(before, [0, 1, 2])
    assert is_rotation(turn)
    assert np.abs(np.triu((before @ turn)[[0, 1, 2]], 1)).max() < 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_varimax_is_the_best_of_all_angles(seed: int) -> None:
    before = loadings(seed, factors=2)
    rows = before / np.linalg.norm(before, axis=1, keepdims=True)
    angles = np.linspace(0, np.pi, 20_001)
    best = max(varimax_criterion(rows @ np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])) for a in angles)
    turn = varimax(before)
    assert is_rotation(turn)
    assert varimax_criterion(rows @ turn) == pytest.approx(best, rel=1e-6)


def test_varimax_finds_a_simple_structure_again() -> None:
    simple = np.kron(np.eye(3), np.array([[0.9], [0.7], [0.6]]))
    hidden = simple @ np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    found = hidden @ varimax(hidden)
    order = np.argmax(np.abs(found[[0, 3, 6]]), axis=1)
    assert np.abs(found[:, order] - simple).max() < 1e-5


def test_one_factor_and_columns_without_loadings_need_no_varimax() -> None:
    assert np.array_equal(varimax(loadings(factors=1)), np.eye(1))
    before = loadings()
    before[3] = 0
    assert is_rotation(varimax(before))


@pytest.mark.parametrize("columns", [2, 7])
def test_independent_components_are_those_of_scikit_learn_to_the_bit(columns: int) -> None:
    decomposition = pytest.importorskip("sklearn.decomposition")
    rng = np.random.default_rng(3)
    mixed = rng.exponential(size=(500, columns)) @ rng.normal(size=(columns, columns))
    white = np.linalg.qr(mixed - mixed.mean(axis=0))[0] * np.sqrt(500)
    start = rng.standard_normal((columns, columns))
    model = decomposition.FastICA(whiten=False, max_iter=200, w_init=start.copy()).fit(white)
    found, converged = fast_ica(white, start, 200)
    assert is_rotation(found)
    assert converged
    assert (found == nearest_rotation(model.components_.T)).all()
    assert not fast_ica(white, start, 1)[1]


def test_a_search_in_circles_is_cut_short_and_ends_where_it_would() -> None:
    rng = np.random.default_rng(3)
    data = rng.gamma(2, size=(150, 4)) @ rng.standard_normal((4, 4))
    left, _, _ = np.linalg.svd(data - data.mean(axis=0), full_matrices=False)
    white, circles = left * np.sqrt(len(data)), 0
    for seed in range(20):
        start = np.random.default_rng(seed).standard_normal((4, 4))
        steps = [fast_ica(white, start, count) for count in (996, 997, 998, 999, 1000)]
        if steps[-1][1]:
            continue
        circles, circling = circles + 1, start
        # What 1,000 steps end with is what they would without a look for circles: one more plain step leads on from it.
        for (one, _), (two, _) in itertools.pairwise(steps):
            bent = np.tanh(white @ one)
            turned = nearest_rotation(white.T @ bent / len(white) - one * (1 - bent**2).mean(axis=0))
            assert np.abs(np.einsum("ij,ij->j", turned, two)) == pytest.approx(1, abs=1e-9)
    assert circles > 3
    before = time.process_time()
    fast_ica(white, circling, 10**7)
    assert time.process_time() - before < 5, "ten million steps are not taken"
