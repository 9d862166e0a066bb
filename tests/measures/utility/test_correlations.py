"""Correlation matrices beside scipy, relative biases by hand, and the cookbook's inputs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from samples import matrix
from scipy.stats import kendalltau, spearmanr

from microveil.errors import ParameterError
from microveil.measures.utility.dependence import (
    between_correlation,
    correlation_bias,
    correlation_difference,
    kendall_bias,
    rank_correlation_bias,
    rank_correlation_difference,
    within_correlation,
)

Array = NDArray[np.float64]


def pair(seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    data = np.round(rng.lognormal(size=(250, 4)) @ (np.eye(4) + 0.4), 1)  # rounded: there are ties
    return data, np.round(data + rng.normal(size=data.shape), 1)


def kendalls(values: Array) -> Array:
    columns = range(values.shape[1])
    return np.array([[kendalltau(values[:, i], values[:, j]).statistic for j in columns] for i in columns])


MATRICES = {
    correlation_bias: lambda x: np.corrcoef(x.T),
    rank_correlation_bias: lambda x: spearmanr(x).statistic,
    kendall_bias: kendalls,
}


@pytest.mark.parametrize("measure", MATRICES, ids=lambda measure: measure.id)
def test_biases_are_the_papers_formula(measure) -> None:  # type: ignore[no-untyped-def]
    data, released = pair(1)
    old, new = MATRICES[measure](data), MATRICES[measure](released)
    m, gap = 4, np.abs(new - old)
    rows, columns = np.triu_indices(m, 1)
    found = measure(matrix(data), matrix(released))
    literal = 2 / (m**2 + m) * sum(gap[i, j] / abs(old[i, j]) for i in range(m) for j in range(i, m))
    assert found.value == pytest.approx(literal, rel=1e-9)
    floored = np.mean(gap[rows, columns] / np.maximum(np.abs(old[rows, columns]), 0.05))
    assert found.parts["floored"] == pytest.approx(floored, rel=1e-9)
    assert found.parts["absolute"] == pytest.approx(gap[rows, columns].mean(), rel=1e-9)
    assert found.parts["smallest original"] == pytest.approx(np.abs(old[rows, columns]).min(), rel=1e-9)


def test_largest_differences() -> None:
    data, released = pair(2)
    pearson = np.abs(np.corrcoef(data.T) - np.corrcoef(released.T)).max()
    spearman = np.abs(spearmanr(data).statistic - spearmanr(released).statistic).max()
    assert correlation_difference(matrix(data), matrix(released)).value == pytest.approx(pearson, rel=1e-9)
    assert rank_correlation_difference(matrix(data), matrix(released)).value == pytest.approx(spearman, rel=1e-9)


def test_a_correlation_near_zero_explodes_the_literal_bias_only() -> None:
    data = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 1e-9]])
    data = np.vstack([data, np.column_stack([data[:, 0], -data[:, 1]])])  # correlation 0 up to 1e-17
    found = correlation_bias(matrix(data), matrix(data + np.outer(np.arange(8.0), [0, 0.1])))
    assert found.value > 1e6
    assert found.parts["floored"] < 20 * found.parts["absolute"] + 1e-9
    assert found.parts["absolute"] < 1


def test_cells_that_are_missing_are_left_out_pair_by_pair() -> None:
    data, _ = pair(3)
    holes = data.copy()
    holes[200:, 0] = np.nan
    changed = holes.copy()
    changed[:, 1] = -changed[:, 1]
    first = np.corrcoef(data[:200, 0], data[:200, 1])[0, 1]
    others = np.corrcoef(data.T)[1, 2:]
    expected = 2 * max(abs(first), *np.abs(others))
    # Means and deviations are those of all cells of a column that are there, hence the tolerance.
    assert correlation_difference(matrix(holes), matrix(changed)).value == pytest.approx(expected, abs=0.05)


def model(b: float, w: float, rows: int = 60) -> Array:
    """Data whose correlation matrix is exactly expression (5): b with the sensitive first column, w elsewhere."""
    target = np.full((5, 5), w)
    target[0] = target[:, 0] = b
    np.fill_diagonal(target, 1.0)
    raw = np.random.default_rng(4).normal(size=(rows, 5))
    white, _ = np.linalg.qr(raw - raw.mean(axis=0))
    return white @ np.linalg.cholesky(target).T


def test_between_and_within_are_b_and_w_on_the_papers_matrix() -> None:
    data = model(0.3, 0.6)
    released = model(0.1, 0.2)
    between = between_correlation(matrix(data), matrix(released), sensitive=[0])
    within = within_correlation(matrix(data), matrix(released), sensitive=[0])
    assert (between.value, between.parts["released"]) == pytest.approx((0.3, 0.1))
    assert (within.value, within.parts["released"]) == pytest.approx((0.6, 0.2))
    assert between.better == within.better == "neither"


def test_without_sensitive_columns_each_takes_its_turn() -> None:
    data, _ = pair(5)
    found = between_correlation(matrix(data), matrix(data)).value
    each = [between_correlation(matrix(data), matrix(data), sensitive=[p]).value for p in range(4)]
    assert found == pytest.approx(np.mean(each))
    with pytest.raises(ParameterError, match="sensitive"):
        between_correlation(matrix(data), matrix(data), sensitive=[4])
