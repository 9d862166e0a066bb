"""Latin hypercube sampling: a value from each n-th of the distribution, in an order with given rank correlations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

import microveil as mv
from microveil.core.rng import Streams
from microveil.restore.marginals import stratified


def amounts(rows: int) -> np.ndarray:
    rng = np.random.default_rng(5)
    normal = rng.multivariate_normal(np.zeros(4), 0.7 ** np.abs(np.subtract.outer(np.arange(4), np.arange(4))), rows)
    return np.exp(normal * [0.5, 1.0, 1.5, 0.2])


def test_each_stratum_of_the_distribution_has_one_value() -> None:
    ascending = np.sort(amounts(500)[:, 1])
    drawn = stratified(ascending, Streams(1).stream("test"))
    edges = np.quantile(ascending, np.linspace(0, 1, 501))
    assert ((drawn >= edges[:-1]) & (drawn <= edges[1:])).all()


@pytest.mark.slow
def test_rank_correlations_meet_the_target() -> None:
    data = amounts(4000)
    wanted = spearmanr(data).statistic
    errors = {}
    for target in ("adjusted", "spearman", "pearson"):
        found = [spearmanr(mv.protect(data, "lhs", target=target, seed=s).data).statistic for s in range(4)]
        errors[target] = np.abs(np.mean(found, axis=0) - wanted).max()
    # Iman and Conover's correction makes the normal scores exact, so that hardly any luck is left.
    assert errors["adjusted"] < 0.01
    # r_s itself as the target comes out as 6/pi arcsin(r_s/2), up to 0.018 smaller.
    largest = np.max(wanted - 6 / np.pi * np.arcsin(wanted / 2))
    assert errors["spearman"] == pytest.approx(largest, abs=0.006)
    assert errors["adjusted"] < errors["spearman"] < errors["pearson"]


def test_distributions_come_back_and_values_do_not() -> None:
    data = amounts(800)
    release = mv.protect(data, "lhs", seed=1)
    assert release.release_type == "synthetic"
    assert release.kept["distribution"] < 0.01
    assert not np.isin(release.data, data).any()
    assert "covariance" not in release.kept


def test_few_rows_and_dependent_columns_do_not_stop_it() -> None:
    rng = np.random.default_rng(1)
    few = rng.standard_normal((5, 7))
    assert np.isfinite(mv.protect(few, "lhs", seed=1).data).all()
    total = np.column_stack([amounts(200)[:, :2], amounts(200)[:, :2].sum(axis=1)])
    released = mv.protect(total, "lhs", seed=1).data
    assert released[:, 2] == pytest.approx(released[:, 0] + released[:, 1], rel=1e-12)
