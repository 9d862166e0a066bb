"""Weights of records: what they multiply is kept, and what they could give away is refused, or pointed out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import microveil as mv
from microveil.errors import ParameterError

both = pytest.mark.parametrize("method", ["veil", "pca"])


def frame(seed: int = 1, rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.gamma(2.0, size=(rows, 4)) @ rng.uniform(0.2, 1, size=(4, 4)), columns=list("abcd"))


def weighted(values: pd.DataFrame, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.average(values, axis=0, weights=weights), np.cov(values.T, aweights=weights)


@both
def test_rules_are_found_with_weights(method: str) -> None:
    data = frame().assign(t=lambda f: f["a"] + f["b"], w=np.random.default_rng(1).uniform(1, 30, 300))
    release = mv.protect(data, method, weight="w", seed=1)
    assert release.rules == ["t = a + b"]
    assert np.allclose(release.data["t"], release.data["a"] + release.data["b"], rtol=1e-12)


@pytest.mark.quick("redraw", "normal")
@pytest.mark.parametrize("perturb", ["redraw", "normal", "parametric", "noise"])
def test_weighted_moments_are_kept_on_average_without_exact(perturb: str) -> None:
    data = frame(8, 400)
    size = data["a"].rank(pct=True).to_numpy()
    weights = 1 + 30 * (1 - size) ** 2  # small units have large weights, as in a survey of firms
    mean, covariance = weighted(data, weights)
    found = [
        weighted(
            mv.protect(data.assign(w=weights), "pca", perturb=perturb, weight="w", exact=False, seed=s).data[
                list("abcd")
            ],
            weights,
        )
        for s in range(40)
    ]
    sd = np.sqrt(np.diagonal(covariance))
    assert np.abs(np.mean([m for m, _ in found], axis=0) - mean).max() / sd.max() < 0.1
    ratio = np.mean([np.diagonal(c) for _, c in found], axis=0) / np.diagonal(covariance)
    low, high = (0.8, 1.45) if perturb == "redraw" else (0.8, 1.2)  # the smoothing adds h² to the variance
    assert ((ratio > low) & (ratio < high)).all()


def test_the_default_keeps_weighted_moments_closely() -> None:
    data = frame(8, 400)
    weights = np.random.default_rng(1).uniform(1, 30, 400) * (1.5 - data["a"].rank(pct=True).to_numpy())
    release = mv.protect(data.assign(w=weights), weight="w", seed=1)
    mean, covariance = weighted(data, weights)
    new_mean, new_covariance = weighted(release.data[list("abcd")], weights)
    sd = np.sqrt(np.diagonal(covariance))
    assert (np.abs(new_mean - mean) / sd).max() < 0.05
    assert (np.abs(new_covariance - covariance) / np.outer(sd, sd)).max() < 0.05
    assert release.kept["covariance"] < 0.05
    assert min(dose.achieved for dose in release.dose.values()) > 0.3


def test_swap_with_weights_needs_exact() -> None:
    data = frame().assign(w=1.5)
    with pytest.raises(ParameterError, match="exact=True"):
        mv.protect(data, "pca", weight="w", exact=False)
    with pytest.raises(ParameterError, match="exact=True"):
        mv.protect(data, weight="w", marginals="free")


def test_noise_reaches_the_dose_it_was_asked_for_with_weights() -> None:
    data = frame(9, 500)
    weights = 1 + 30 * (1 - data["a"].rank(pct=True).to_numpy()) ** 2
    release = mv.protect(data.assign(w=weights), "pca", perturb="noise", weight="w", seed=2)
    for dose in release.dose.values():
        assert dose.achieved == pytest.approx(dose.asked, abs=0.05)


@both
def test_a_swap_of_everything_is_asked_in_full_with_weights_and_holes(method: str) -> None:
    data = frame(9, 500).mask(np.random.default_rng(1).random((500, 4)) < 0.1)
    weights = 1 + 30 * (1 - data["a"].rank(pct=True).fillna(0.5).to_numpy()) ** 2
    for dose in mv.protect(data.assign(w=weights), method, weight="w", seed=2).dose.values():
        assert dose.asked == pytest.approx(1, abs=0.15)


@both
def test_huge_weights_are_only_ratios(method: str) -> None:
    data = frame()
    weights = np.random.default_rng(1).uniform(1, 3, 300)
    one, huge = (
        mv.protect(data.assign(w=weights * unit), method, weight="w", seed=3).data[list("abcd")].to_numpy()
        for unit in (1, 2.0**900)
    )
    assert np.array_equal(one, huge)
