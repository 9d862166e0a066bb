"""Redraws: bootstrap, uniform, and van der Waerden scores."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from microveil.core.rng import Streams
from microveil.perturb import (
    PERTURBATIONS,
    Column,
    ColumnPerturbation,
    Columns,
    JointPerturbation,
    Perturbation,
)
from microveil.perturb.redraw import Bootstrap, Redraw, Uniform, VanDerWaerden

Array = NDArray[np.float64]


def column(values: Array, seed: int = 0, weights: Array | None = None) -> Column:
    return Column(values, Streams(seed).stream("redraw"), 0, weights)


# --- Bootstrap


def test_bootstrap_draws_old_values_with_replacement() -> None:
    values = np.random.default_rng(1).normal(size=2000)
    new = Bootstrap().apply(column(values))
    assert np.isin(new, values).all()
    # A share of 1/e of the values is not drawn: sd of that share is about 0.007.
    assert 1 - np.unique(new).size / 2000 == pytest.approx(np.exp(-1), abs=0.03)


def test_bootstrap_is_the_smoothed_redraw_without_smoothing() -> None:
    values = np.random.default_rng(2).normal(size=300)
    assert np.array_equal(Bootstrap().apply(column(values)), Redraw(bandwidth_ratio=0).apply(column(values)))


def test_the_variance_of_a_bootstrapped_mean_is_that_of_a_sample_mean() -> None:
    values = np.random.default_rng(3).gamma(1.0, size=50)
    means = np.array([Bootstrap().apply(column(values, seed)).mean() for seed in range(4000)])
    assert means.mean() == pytest.approx(values.mean(), abs=4 * values.std() / np.sqrt(50 * 4000))
    assert means.var() == pytest.approx(values.var() / 50, rel=4 * np.sqrt(2 / 4000))


def test_weights_make_heavy_records_more_likely() -> None:
    values, weights = np.array([0.0, 1.0] * 500), np.array([1.0, 3.0] * 500)
    drawn = [Bootstrap().apply(column(values, seed, weights)).mean() for seed in range(20)]
    assert np.mean(drawn) == pytest.approx(0.75, abs=0.01)


# --- Uniform


def test_uniform_draws_have_the_mean_and_variance_of_the_column() -> None:
    values = np.random.default_rng(4).gamma(1.0, size=20_000) + 7
    new = Uniform().apply(column(values))
    low, width = values.mean() - np.sqrt(3) * values.std(), np.sqrt(12) * values.std()
    assert stats.kstest(new, stats.uniform(low, width).cdf).pvalue > 1e-3
    assert new.min() >= low
    assert new.max() <= low + width


# --- Van der Waerden scores


@pytest.mark.parametrize("rows", [2, 3, 100, 1001])
def test_van_der_waerden_scores_are_normal_quantiles_in_random_order(rows: int) -> None:
    values = np.random.default_rng(5).gamma(1.0, size=rows) + 7
    new = VanDerWaerden().apply(column(values))
    quantiles = stats.norm.ppf(np.arange(1, rows + 1) / (rows + 1))
    assert np.sort(new) == pytest.approx(values.mean() + values.std() * quantiles / quantiles.std(), rel=1e-12)
    assert new.mean() == pytest.approx(values.mean(), rel=1e-13)
    assert new.std() == pytest.approx(values.std(), rel=1e-12)


def test_the_order_of_van_der_waerden_scores_is_uniform() -> None:
    values = np.array([1.0, 2.0, 3.0, 5.0])
    seen = [tuple(np.argsort(VanDerWaerden().apply(column(values, seed))).tolist()) for seed in range(4800)]
    counts = np.unique(seen, axis=0, return_counts=True)[1]
    assert counts.size == 24
    assert stats.chisquare(counts).pvalue > 1e-3


def test_van_der_waerden_scores_have_weighted_moments_with_weights() -> None:
    rng = np.random.default_rng(6)
    values, weights = rng.normal(size=150) + 2, rng.uniform(0.1, 4, 150)
    new = VanDerWaerden().apply(column(values, 1, weights))
    mean = np.average(values, weights=weights)
    assert np.average(new, weights=weights) == pytest.approx(mean, rel=1e-12)
    spread = np.average((values - mean) ** 2, weights=weights)
    assert np.average((new - mean) ** 2, weights=weights) == pytest.approx(spread, rel=1e-12)


# --- What the perturbations say about themselves


def perturbed(step: Perturbation, values: Array, seed: int) -> Array:
    if isinstance(step, JointPerturbation):
        alone = Columns(values[None, :], Streams(seed).stream("x"), np.empty((0, values.size)))
        return step.apply_together(alone)[0]
    assert isinstance(step, ColumnPerturbation)
    return step.apply(column(values, seed))


@pytest.mark.parametrize("perturb", [name for name in PERTURBATIONS if name != "parametric"])
def test_promises_of_one_column_hold(perturb: str) -> None:
    """Mean exactly where it is promised, mean and variance on average, and no change of the input."""
    values = np.random.default_rng(7).gamma(2.0, size=400) + 5
    step = PERTURBATIONS[perturb]()
    before = values.copy()
    new = np.array([perturbed(step, values, seed) for seed in range(200)])
    assert np.array_equal(values, before)
    if step.keeps_mean:
        assert np.abs(new.mean(axis=1) - values.mean()).max() < 1e-13
    spread = values.std() / np.sqrt(400 * 200)
    assert new.mean() == pytest.approx(values.mean(), abs=5 * spread)
    if step.keeps_variance:
        assert new.var(axis=1).mean() == pytest.approx(values.var() * (1 - 1 / 400), rel=0.03)
    assert step.random == (not np.array_equal(new[0], new[1]))
    retained = step.retained()
    if retained is not None:
        found = np.mean([np.corrcoef(values, one)[0, 1] for one in new])
        assert found == pytest.approx(retained, abs=5 / np.sqrt(400 * 200))


@pytest.mark.parametrize("rows", [1, 2, 3_000])
def test_many_quantiles_are_those_of_numpy_to_the_last_bit(rows: int) -> None:
    rng = np.random.default_rng(rows)
    for values in (rng.standard_normal(rows) * 1e6, np.round(rng.standard_normal(rows))):
        levels = np.append((np.arange(2_000) + rng.uniform(size=2_000)) / 2_000, [0.0, 0.5, 1.0])
        assert np.array_equal(column(values).quantiles(levels), np.quantile(values, levels))
