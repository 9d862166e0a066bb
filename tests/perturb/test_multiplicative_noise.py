"""Multiplicative noise: it acts on the values themselves, and its moments are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from samples import close_on_average

import microveil as mv
from microveil.core.rng import Streams
from microveil.errors import DataError, ParameterError
from microveil.perturb import Columns
from microveil.perturb.noise import MultiplicativeNoise

Array = NDArray[np.float64]
REPEATS = 400


def amounts(rows: int = 200, seed: int = 0) -> Array:
    """Amounts with zeros, one column of them with both signs."""
    rng = np.random.default_rng(seed)
    size = rng.lognormal(3, 1, rows)
    result = size * rng.normal(0.1, 0.5, rows)
    return np.column_stack([size, size * rng.lognormal(0, 0.5, rows) * (rng.random(rows) < 0.6), result])


def multiplied(data: Array, seed: int, **parameters: Any) -> Array:
    columns = Columns(data.T, Streams(seed).stream("x"), np.empty((0, len(data))))
    return MultiplicativeNoise(**parameters).apply_together(columns).T


def factors(draws: Array, cv: float) -> Array:
    variance = np.log(1 + cv**2)
    return np.exp(np.sqrt(variance) * draws - variance / 2)


# --- The theorem


@pytest.mark.parametrize("shared", ["cell", "record"])
@pytest.mark.parametrize("cv", [0.1, 0.7])
def test_means_come_back_on_average_and_second_moments_grow_as_told(shared: str, cv: float) -> None:
    data = amounts()
    new = np.array([multiplied(data, seed, noise_cv=cv, shared=shared) for seed in range(REPEATS)])
    assert close_on_average(new.mean(axis=1), data.mean(axis=0))
    grown = np.full((3, 3), 1 + cv**2) if shared == "record" else np.ones((3, 3)) + cv**2 * np.eye(3)
    found = np.array([one.T @ one / len(one) for one in new])
    expected = data.T @ data / len(data)
    assert close_on_average(found, expected * grown)
    assert not close_on_average(found, expected)


def test_factors_have_mean_one_and_the_variation_asked_for() -> None:
    found = multiplied(np.ones((50_000, 4)), 1, noise_cv=0.4)
    # Of 200,000 factors the mean is off by cv / sqrt(n), and log factors are normal with a known variance.
    assert found.mean() == pytest.approx(1, abs=4 * 0.4 / np.sqrt(found.size))
    logs, variance = np.log(found), np.log(1 + 0.4**2)
    assert logs.mean() == pytest.approx(-variance / 2, abs=4 * np.sqrt(variance / found.size))
    assert logs.var() == pytest.approx(variance, rel=4 * np.sqrt(2 / found.size))


@pytest.mark.parametrize("rules", [None, "infer"])
@pytest.mark.parametrize("shared", ["cell", "record"])
def test_zeros_stay_zero_and_signs_stay(rules: str | None, shared: str) -> None:
    data = amounts(seed=1)
    release = mv.protect(data, "multiplicative_noise", noise_cv=1, shared=shared, rules=rules, seed=1)
    assert np.array_equal(np.sign(release.data), np.sign(data))
    assert (release.data != data)[data != 0].all()
    zeros = [f"{j} ({share:.2%})" for j, share in enumerate((data == 0).mean(axis=0)) if share > 0]
    assert zeros
    assert release.warnings[0] == f"cells that come back as they were, as zeros stay zero: {', '.join(zeros)}"
    assert all("who knows them" in said for said in release.warnings[1:])
    assert (release.release_type, release.kept, release.kept_on_average) == ("masked", {}, ("mean",))


def test_a_factor_for_the_record_keeps_ratios_and_sums() -> None:
    data = amounts(seed=2)
    data = np.column_stack([data, data[:, 0] + 2 * data[:, 1]])
    whole = data[:, 1] > 0

    def ratios(values: Array) -> Array:
        return values[whole, 0] / values[whole, 1]

    new = mv.protect(data, "multiplicative_noise", shared="record", seed=1, rules=None).data
    assert np.allclose(ratios(new), ratios(data), rtol=1e-14)
    assert np.allclose(new[:, 3], new[:, 0] + 2 * new[:, 1], rtol=1e-14)
    own = mv.protect(data, "multiplicative_noise", seed=1, rules=None).data
    assert not np.allclose(ratios(own), ratios(data), rtol=0.1)
    assert np.allclose(own[:, 3], own[:, 0] + 2 * own[:, 1], rtol=1e-14)  # as rules are kept by every method


def test_weighted_means_come_back_on_average() -> None:
    data, weights = amounts(seed=3), np.random.default_rng(1).uniform(0.2, 5, 200)
    table = np.column_stack([data, weights])
    found = [
        np.average(mv.protect(table, "multiplicative_noise", weight=3, seed=seed).data[:, :3], axis=0, weights=weights)
        for seed in range(60)
    ]
    assert close_on_average(np.array(found), np.average(data, axis=0, weights=weights))


# --- Raw values, whatever else is asked for


def test_given_draws_multiply_the_values_beside_public_columns_too() -> None:
    data, draws = amounts(seed=4), np.random.default_rng(5).standard_normal((200, 3))
    plain = mv.protect(data, "multiplicative_noise", noise_cv=0.3, draws=draws, rules=None).data
    assert np.allclose(plain, data * factors(draws, 0.3), rtol=1e-14)
    table = np.column_stack([np.arange(200.0) ** 2, data])
    beside = mv.protect(table, "multiplicative_noise", public=0, noise_cv=0.3, draws=draws, rules=None).data
    assert np.allclose(beside[:, 1:], plain, rtol=1e-14)
    assert np.array_equal(beside[:, 0], table[:, 0])
    whole = mv.protect(data, "multiplicative_noise", shared="record", noise_cv=0.3, draws=draws[:, :1], rules=None).data
    assert np.allclose(whole, data * factors(draws[:, :1], 0.3), rtol=1e-14)


@pytest.mark.parametrize("public", [None, 0])
def test_exact_moments_are_given_to_the_multiplied_values(public: int | None) -> None:
    """The release is a linear map of the products, and would not be one had distances from the mean been multiplied."""
    draws = np.random.default_rng(6).standard_normal((200, 3))
    table = np.column_stack([np.random.default_rng(7).lognormal(size=200), amounts(seed=5)])
    chosen = {"confidential": [1, 2, 3], "public": public}
    release = mv.protect(table, "multiplicative_noise", **chosen, exact=True, draws=draws, rules=None)
    assert max(release.kept.values()) < 1e-13
    products = table[:, 1:] * factors(draws, 0.5)
    beside = table[:, :1] if public == 0 else np.empty((200, 0))
    basis = np.column_stack([np.ones(200), beside, products])
    left = release.data[:, 1:] - basis @ np.linalg.lstsq(basis, release.data[:, 1:], rcond=None)[0]
    assert (np.abs(left) / table[:, 1:].std(axis=0)).max() < 1e-12
    if public == 0:
        gap = np.cov(release.data.T) - np.cov(table.T)
        assert np.abs(gap / np.outer(table.std(axis=0), table.std(axis=0))).max() < 1e-12


def test_a_column_that_public_ones_determine_is_refused() -> None:
    data = pd.DataFrame(amounts(seed=6), columns=["a", "b", "c"]).assign(x=np.linspace(5, 9, 200))
    data["follows"] = 3 * data["x"] + 1
    with pytest.raises(DataError, match="'follows' follows from 'x'"):
        mv.protect(data, "multiplicative_noise", public="x", seed=1)


# --- Parameters


def test_percentages_and_other_methods_are_refused_with_advice() -> None:
    with pytest.raises(ParameterError, match=r"^noise_cv: 10 is not a coefficient of variation .* give 0\.1"):
        mv.protect(amounts(), "multiplicative_noise", noise_cv=10)
    for bad in (0, -0.1, 101, float("nan"), True, "much"):
        with pytest.raises(ParameterError, match=r"^noise_cv: "):
            mv.protect(amounts(), "multiplicative_noise", noise_cv=bad)
    with pytest.raises(ParameterError, match=r"^shared: "):
        mv.protect(amounts(), "multiplicative_noise", shared="column")
    with pytest.raises(ParameterError, match=r"^perturb: pca cannot 'multiplicative_noise'"):
        mv.protect(amounts(), "pca", perturb="multiplicative_noise")


def test_draws_are_one_column_for_all_where_a_record_shares_its_factor() -> None:
    draws = np.zeros((200, 3))
    with pytest.raises(ParameterError, match=r"^draws: "):
        mv.protect(amounts(), "multiplicative_noise", shared="record", draws=draws)
    with pytest.raises(ParameterError, match=r"^draws: "):
        mv.protect(amounts(), "multiplicative_noise", draws=draws[:, :1])
    assert MultiplicativeNoise().retained() is None
