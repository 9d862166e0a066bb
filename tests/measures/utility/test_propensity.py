"""Propensity scores: maximum likelihood as others find it, exact moments score 0, separation ends."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from samples import matrix
from sklearn.linear_model import LogisticRegression

import microveil as mv
from microveil.measures.utility import propensity
from microveil.measures.utility.propensity import propensity_2, propensity_3

Array = NDArray[np.float64]


def by_sklearn(data: Array, released: Array, degree: int) -> float:
    z = np.vstack([data, released])
    z = (z - data.mean(axis=0)) / data.std(axis=0)
    i, j = np.triu_indices(z.shape[1])
    terms = np.hstack([z, z[:, i] * z[:, j]] + ([z**3] if degree == 3 else []))
    terms = (terms - terms.mean(axis=0)) / terms.std(axis=0)
    labels = np.repeat([0, 1], [len(data), len(released)])
    model = LogisticRegression(C=np.inf, tol=1e-10, max_iter=5000, solver="newton-cholesky").fit(terms, labels)
    return float(4 * np.square(model.predict_proba(terms)[:, 1] - 0.5).mean())


@pytest.mark.parametrize(("measure", "degree"), [(propensity_2, 2), (propensity_3, 3)])
def test_the_maximum_is_that_of_another_solver(measure, degree: int) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(degree)
    data = rng.gamma(3.0, size=(400, 3)) @ (np.eye(3) + 0.3)
    released = data[rng.permutation(400)] + 0.7 * rng.normal(size=(400, 3))
    found = measure(matrix(data), matrix(released))
    assert found.value == pytest.approx(by_sklearn(data, released, degree), abs=1e-6)
    assert found.parts["converged"] == 1
    assert "converged in" in found.note


def test_exact_moments_score_nothing_by_construction() -> None:
    # The score equations hold at zero; that the cubes see a difference shows that there is one.
    data = np.random.default_rng(4).lognormal(size=(500, 5)) @ (np.eye(5) + 0.2) * np.geomspace(1e-3, 1e6, 5)
    released = mv.protect(data, "pca", exact=True, seed=1, rules=None).data
    assert propensity_2(matrix(data), matrix(released)).value == pytest.approx(0, abs=1e-16)
    assert propensity_3(matrix(data), matrix(released)).value > 0.1
    assert propensity_3(matrix(data), matrix(data)).value == pytest.approx(0, abs=1e-16)


def test_chance_is_that_of_two_samples_of_one_population() -> None:
    rng = np.random.default_rng(5)
    found = [propensity_2(*(matrix(rng.normal(size=(400, 4))) for _ in range(2))) for _ in range(60)]
    values = [measure.value for measure in found]
    assert found[0].chance == 14 / 800  # x, x² and products of four columns
    assert np.mean(values) == pytest.approx(found[0].chance, abs=4 * np.std(values) / np.sqrt(60))


def test_files_that_can_be_told_apart_score_one_and_say_so() -> None:
    data = np.random.default_rng(6).normal(size=(100, 2))
    found = propensity_2(matrix(data), matrix(data + 30))
    assert found.value == pytest.approx(1, abs=1e-4)
    assert found.parts["converged"] == 0
    assert "differ completely" in found.note


def test_more_terms_never_tell_less() -> None:
    rng = np.random.default_rng(7)
    data = rng.standard_t(2.5, size=(300, 4))
    released = np.column_stack([rng.permutation(column) for column in data.T @ np.eye(300)])
    two, three = (measure(matrix(data), matrix(released)).value for measure in (propensity_2, propensity_3))
    assert three >= two - 1e-6


def test_dependent_columns_and_files_of_different_lengths() -> None:
    rng = np.random.default_rng(8)
    data = rng.normal(size=(300, 3))
    released = data + 0.5 * rng.normal(size=data.shape)
    plain = propensity_2(matrix(data), matrix(released)).value
    doubled = (np.column_stack([side, side.sum(axis=1)]) for side in (data, released))
    assert propensity_2(*(matrix(side) for side in doubled)).value == pytest.approx(plain, abs=1e-6)
    longer = propensity_2(matrix(data), matrix(np.vstack([released] * 3)))
    assert 0 < longer.value < 1


def test_large_files_are_sampled_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(propensity, "MOST_CELLS", 1)
    rng = np.random.default_rng(9)
    data = rng.normal(size=(1500, 2))
    released = data + rng.normal(size=data.shape)
    first, second, other = (propensity_2(matrix(data), matrix(released), seed=s) for s in (1, 1, 2))
    assert first == second
    assert first.value != other.value
    assert "from 1000 and 1000 records drawn at random" in first.note
    assert propensity_2(matrix(data), matrix(data), seed=None).value == pytest.approx(0, abs=1e-16)  # the same rows
