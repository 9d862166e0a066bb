"""The smoothed bootstrap: moments on average, and how near to the originals its records are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from reference import tarragona
from samples import wages, weighted_moments
from scipy.spatial import cKDTree

import microveil as mv
from microveil.core.rng import Streams
from microveil.errors import ParameterError
from microveil.perturb import Columns
from microveil.perturb.redraw import SmoothedBootstrap, bandwidth, donors

Array = NDArray[np.float64]
REPEATS = 400


def drawn(data: Array, seed: int, weights: Array | None = None, **parameters: Any) -> Array:
    columns = Columns(data.T, Streams(seed).stream("x"), np.empty((0, len(data))), weights)
    return SmoothedBootstrap(**parameters).apply_together(columns).T


# --- The theorem


@pytest.mark.quick("False-0.3")
@pytest.mark.parametrize("ratio", [0.3, 1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_means_and_covariances_come_back_on_average(ratio: float, weighted: bool) -> None:
    data = wages()
    weights = np.random.default_rng(1).uniform(0.2, 5, 150) if weighted else np.ones(150)
    given = weights if weighted else None
    found = np.array([weighted_moments(drawn(data, s, given, bandwidth_ratio=ratio), weights) for s in range(REPEATS)])
    expected = weighted_moments(data, weights)
    expected[1:] *= 1 - np.square(weights).sum() / weights.sum() ** 2  # a sample varies about its own mean
    error = found.std(axis=0, ddof=1) / np.sqrt(REPEATS)
    assert (np.abs(found.mean(axis=0) - expected) < 4 * error).all()


def test_records_are_drawn_whole_blurred_and_shrunk() -> None:
    data, draws = wages(), np.random.default_rng(2).standard_normal((150, 3))
    h = 0.5 * (4 / (5 * 150)) ** (1 / 7)
    from_rows = data[donors(Streams(3).stream("x"), 150, None)]
    values, vectors = np.linalg.eigh(np.corrcoef(data.T))
    noise = draws @ (vectors * np.sqrt(values)) @ vectors.T * data.std(axis=0)
    mean = data.mean(axis=0)
    expected = mean + (from_rows - mean + h * noise) / np.sqrt(1 + h**2)
    assert np.allclose(drawn(data, 3, bandwidth_ratio=0.5, draws=draws), expected, rtol=1e-12)


def test_the_bandwidth_is_silverman_s() -> None:
    assert bandwidth(1, 1_000) == pytest.approx(1.06 * 1_000**-0.2, rel=1e-3)
    assert bandwidth(2, 500) == pytest.approx(0.96 * 500 ** (-1 / 6), rel=0.05)  # where he tabulates A(K) = .96


def test_heavy_records_are_drawn_more_often() -> None:
    data = np.column_stack([np.repeat([0.0, 100.0], 500), np.random.default_rng(4).standard_normal(1_000)])
    weights = np.repeat([1.0, 3.0], 500)
    found = drawn(data, 5, weights, bandwidth_ratio=0.01)[:, 0] > 50
    assert found.mean() == pytest.approx(0.75, abs=4 * np.sqrt(0.75 * 0.25 / 1_000))


def test_the_release_is_synthetic_and_tells_what_comes_back_on_average() -> None:
    release = mv.protect(wages(), "smoothed_bootstrap", seed=1, rules=None)
    assert (release.release_type, release.kept, release.kept_on_average) == ("synthetic", {}, ("mean", "covariance"))
    with pytest.raises(ParameterError, match=r"^bandwidth_ratio: .*above 0"):
        mv.protect(wages(), "smoothed_bootstrap", bandwidth_ratio=0)


# --- How near


def beside_their_source(data: Array, ratio: float) -> tuple[float, float]:
    """Share of released records whose nearest original is the one they were made of, and the median of how far off
    they are from the nearest, in units of the median distance between nearest originals."""
    z = (data - data.mean(axis=0)) / data.std(axis=0)
    tree = cKDTree(z)
    apart = np.median(tree.query(z, 2)[0][:, 1])
    found = []
    for seed in range(5):
        distance, nearest = tree.query(drawn(z, seed, bandwidth_ratio=ratio))
        source = donors(Streams(seed).stream("x"), len(z), None)
        found.append(((z[nearest] == z[source]).all(axis=1).mean(), np.median(distance) / apart))
    share, off = np.mean(found, axis=0)
    return float(share), float(off)


def check_nearness(data: Array) -> None:
    shares, distances = zip(*(beside_their_source(data, ratio) for ratio in (0.1, 0.5, 1, 2)), strict=True)
    assert list(shares) == sorted(shares, reverse=True)
    assert list(distances) == sorted(distances)
    assert shares[0] > 0.5  # nearly copies
    assert distances[0] < 1
    assert shares[2] < 0.2  # by default, records lie as among the originals or further off
    assert distances[2] > 1


def test_by_default_records_of_tarragona_are_no_copies() -> None:
    check_nearness(tarragona()[1])


def test_by_default_records_of_our_own_survey_are_no_copies() -> None:
    survey = pd.read_csv(mv.example_file()).drop(columns="weight").select_dtypes("number")
    check_nearness(survey.dropna().to_numpy(dtype=float))
