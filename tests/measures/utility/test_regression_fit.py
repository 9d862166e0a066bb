"""Regressions of the original and of the release side by side, beside ordinary least squares written out."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from samples import matrix

import microveil as mv
from microveil.errors import DataError
from microveil.measures.utility.regression import ci_overlap, regression_fit

Array = NDArray[np.float64]


def table(rng: np.random.Generator, rows: int = 300) -> Array:
    return rng.normal(size=(rows, 4)) @ (np.eye(4) + 0.4)


def least_squares(data: Array, j: int) -> tuple[Array, Array, float]:
    """Slopes of one column on the others, their standard errors, and R²."""
    y, x = data[:, j], np.column_stack([np.ones(len(data)), np.delete(data, j, axis=1)])
    slopes = np.linalg.lstsq(x, y, rcond=None)[0]
    rest = y - x @ slopes
    errors = np.sqrt(rest @ rest / (len(y) - x.shape[1]) * np.diagonal(np.linalg.inv(x.T @ x)))
    return slopes[1:], errors[1:], float(1 - rest.var() / y.var())


def karr(low: float, high: float, new_low: float, new_high: float) -> float:
    """Karr et al. (2006): the mean of the shares of either interval that the other covers."""
    both = max(min(high, new_high) - max(low, new_low), 0.0)
    return (both / (high - low) + both / (new_high - new_low)) / 2


def test_overlap_and_distance_are_those_of_least_squares() -> None:
    rng = np.random.default_rng(1)
    data = table(rng)
    released = data + 0.3 * rng.normal(size=data.shape)
    overlaps, distances, changes = [], [], []
    for j in range(4):
        (b, se, r2), (new_b, new_se, new_r2) = least_squares(data, j), least_squares(released, j)
        z = 1.959964
        overlaps += [
            karr(b[k] - z * se[k], b[k] + z * se[k], new_b[k] - z * new_se[k], new_b[k] + z * new_se[k])
            for k in range(3)
        ]
        distances += list(np.abs(new_b - b) / se)
        changes.append(abs(new_r2 - r2))
    overlap, fit = ci_overlap(matrix(data), matrix(released)), regression_fit(matrix(data), matrix(released))
    assert overlap.value == pytest.approx(np.mean(overlaps), rel=1e-6)
    assert overlap.parts["smallest"] == pytest.approx(min(overlaps), rel=1e-6)
    assert fit.value == pytest.approx(np.mean(distances), rel=1e-9)
    assert fit.parts["largest"] == pytest.approx(max(distances), rel=1e-9)
    assert fit.parts["change of R²"] == pytest.approx(np.mean(changes), rel=1e-9)
    assert fit.parts["largest change of R²"] == pytest.approx(max(changes), rel=1e-9)


def test_overlap_of_means_by_hand() -> None:
    # A shift by one standard error of intervals of 3.92: 2.92 / 3.92 is common.
    data = table(np.random.default_rng(2))
    released = data + data.std(axis=0) / np.sqrt(len(data))
    found = ci_overlap(matrix(data), matrix(released))
    assert found.parts["means"] == pytest.approx(1 - 1 / (2 * 1.959964))
    assert found.value == pytest.approx(1)
    assert ci_overlap(matrix(data), matrix(data + 9)).parts["means"] == 0


@pytest.mark.slow
def test_two_samples_of_one_population_score_chance() -> None:
    rng = np.random.default_rng(3)
    pairs = [(matrix(table(rng)), matrix(table(rng))) for _ in range(150)]
    for measure in (ci_overlap, regression_fit):
        found = [measure(*pair) for pair in pairs]
        values = np.array([figure.value for figure in found])
        assert values.mean() == pytest.approx(found[0].chance, abs=4 * values.std() / np.sqrt(150)), measure.id
    assert regression_fit(*pairs[0]).chance == pytest.approx(2 / np.sqrt(np.pi))


@pytest.mark.slow
def test_samples_of_different_sizes_score_their_chance() -> None:
    rng = np.random.default_rng(13)
    pairs = [(matrix(rng.normal(size=(300, 3))), matrix(rng.normal(size=(60, 3)))) for _ in range(200)]
    for measure in (ci_overlap, regression_fit):
        found = [measure(*pair) for pair in pairs]
        values = np.array([figure.value for figure in found])
        assert values.mean() == pytest.approx(found[0].chance, abs=4 * values.std() / np.sqrt(200)), measure.id
    assert regression_fit(*pairs[0]).chance == pytest.approx(np.sqrt(2 / np.pi * (1 + 297 / 57)))


def test_exact_covariances_keep_every_regression_and_a_shuffle_none() -> None:
    data = np.random.default_rng(4).lognormal(size=(300, 5)) @ (np.eye(5) + 0.4)
    exact = mv.protect(data, "pca", exact=True, seed=1, rules=None).data
    assert ci_overlap(matrix(data), matrix(exact)).value == pytest.approx(1, abs=1e-9)
    assert regression_fit(matrix(data), matrix(exact)).value == pytest.approx(0, abs=1e-6)


def test_columns_that_are_computed_and_dimensions_that_are_gone() -> None:
    rng = np.random.default_rng(5)
    data = table(rng)
    released = data + 0.3 * rng.normal(size=data.shape)
    total, new_total = (np.column_stack([side, side.sum(axis=1)]) for side in (data, released))
    for measure in (ci_overlap, regression_fit):
        plain = measure(matrix(data), matrix(released)).value
        assert measure(matrix(total), matrix(new_total)).value == pytest.approx(plain, rel=1e-9)
        assert measure(matrix(total), matrix(total)).value == pytest.approx(1 if measure is ci_overlap else 0)
        with pytest.raises(DataError, match="two columns"):
            measure(matrix(data[:, :1]), matrix(data[:, :1]))
    flat = data.copy()
    flat[:, 2:] = data[:, :2]  # two columns of the release repeat the others
    assert 0 <= ci_overlap(matrix(data), matrix(flat)).value < 0.5
    assert regression_fit(matrix(data), matrix(flat)).value > 1
