"""The attacker subtracts one release from another: two files that differ by one record.

A file is released in January and, with one firm less, in February. Both releases keep means and covariances exactly.
n times the mean of the one less that of the other is the firm that left, to the last digit, and the sums of products
are its products. With `exact="rounded"` moments lie on a grid that is wider than what any firm moves: what is left of
the attack is no better than to guess the mean, for giants too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import microveil as mv
from microveil.core.arrays import Array
from microveil.core.moments import moments
from microveil.core.table import Matrix
from microveil.errors import ParameterError
from microveil.methods import METHODS
from microveil.restore import on_grid

CLUSTERED = {"microhybrid", "cluster_hybrid", "outlier_split"}
GIVEN = {"correct", "synthetic_addition"}
ON_AVERAGE = {name for name, method in METHODS.items() if method.fixed.get("exact") is False}
ROUNDED = sorted({*METHODS} - CLUSTERED - ON_AVERAGE - GIVEN)
QUICK = ["pca", "ipso", "cholesky", "noise"]


def firms(count: int = 400, giant: float = 1.0) -> Array:
    rng = np.random.default_rng(4)
    table = rng.lognormal(3, 0.7, (count, 5)) @ (np.eye(5) + 0.3 * rng.random((5, 5)))
    table[7] *= giant
    return np.asarray(table)


def guesses(first: Array, second: Array) -> tuple[Array, Array]:
    """The record that left, from sums and from sums of products (by their largest eigenvector)."""
    sums = first.sum(axis=0) - second.sum(axis=0)
    values, vectors = np.linalg.eigh(first.T @ first - second.T @ second)
    products = vectors[:, -1] * np.sqrt(max(values[-1], 0.0))
    return sums, products * np.sign(products.sum())


def errors(table: Array, row: int, method: str, exact: Any, **options: Any) -> list[float]:
    """Errors of both guesses over that of guessing the mean, the median over columns."""
    both = [
        mv.protect(file, method, exact=exact, seed=seed, rules=None, **options).data
        for seed, file in enumerate((table, np.delete(table, row, axis=0)))
    ]
    mean = np.abs(table.mean(axis=0) - table[row])
    return [float(np.median(np.abs(guess - table[row]) / mean)) for guess in guesses(*both)]


@pytest.mark.parametrize("method", QUICK)
@pytest.mark.parametrize("giant", [1.0, 40.0])
def test_exact_moments_return_the_record(method: str, giant: float) -> None:
    """Documented: this is what `exact=True` means."""
    assert max(errors(firms(giant=giant), 7, method, True)) < 1e-5


@pytest.mark.quick("cholesky", "microaggregate_noise", "residual_mix")
@pytest.mark.parametrize("method", ROUNDED)
def test_rounded_moments_tell_no_more_than_the_mean(method: str) -> None:
    table = firms(200, giant=40.0)
    for row in (7, 11):
        assert min(errors(table, row, method, "rounded")) > 0.8


@pytest.mark.quick("pca")
@pytest.mark.parametrize("method", QUICK)
def test_over_many_records(method: str) -> None:
    table = firms()
    found = np.array([errors(table, row, method, "rounded") for row in range(0, 400, 40)])
    assert (np.median(found, axis=0) > 0.85).all()


def test_most_records_leave_no_trace_in_rounded_moments() -> None:
    table = firms()
    whole, *others = (
        on_grid(moments(Matrix.from_array(file).piece, len(file)), file.min(axis=0), file.max(axis=0), 0).moments
        for file in (table, *(np.delete(table, row, axis=0) for row in range(40)))
    )
    same = [np.isclose(other.mean, whole.mean).all() and np.isclose(other.sd, whole.sd).all() for other in others]
    assert np.mean(same) > 0.8


def test_strata_have_grids_of_their_own() -> None:
    frame = pl.DataFrame(firms(600), schema=list("abcde")).with_columns(g=pl.Series(["u", "v", "w"] * 200))
    release = mv.protect(frame, "pca", strata="g", exact="rounded", seed=1, rules=None)
    for group in "uvw":
        before, after = (table.filter(pl.col("g") == group).drop("g").to_numpy() for table in (frame, release.data))
        step = np.exp2(np.ceil(np.log2(4 * np.sqrt(5) * np.abs(before - before.mean(axis=0)).max(axis=0) / 200)))
        assert np.allclose(after.mean(axis=0) / step, np.round(after.mean(axis=0) / step))


def test_weights_and_public_columns() -> None:
    rng = np.random.default_rng(5)
    table = np.column_stack([firms(), rng.normal(size=400), rng.uniform(0.5, 4, 400)])
    options = {"confidential": [0, 1, 2, 3, 4], "public": [5], "weight": 6, "exact": "rounded", "rules": None}
    release = mv.protect(table, "pca", seed=1, **options)
    weights = table[:, 6] / table[:, 6].mean()
    mean, before = (np.average(data[:, :5], axis=0, weights=weights) for data in (release.data, table))
    reach = np.abs(table[:, :5] - before).max(axis=0)
    step = np.exp2(np.ceil(np.log2(4 * np.sqrt(5) * weights.max() * reach / 400)))
    assert np.allclose(mean / step, np.round(mean / step))


def test_sums_still_hold_and_the_account_is_honest() -> None:
    frame = pl.DataFrame(firms(), schema=list("abcde")).with_columns(total=pl.col("a") + pl.col("b"))
    release = mv.protect(frame, "pca", exact="rounded", seed=1)
    assert np.allclose(release.data["a"] + release.data["b"], release.data["total"], rtol=1e-12)
    assert release.kept["linear rules"] < 1e-12
    off = np.abs(release.data.to_numpy().mean(axis=0) - frame.to_numpy().mean(axis=0)) / frame.to_numpy().std(axis=0)
    assert release.kept["mean"] == pytest.approx(off.max())
    assert release.kept["mean"] > 1e-3
    assert any("rounded to a grid" in warning for warning in release.warnings)
    assert not any("span too many digits" in warning for warning in release.warnings)


def test_correlations_that_do_not_fit_together_are_repaired_and_told() -> None:
    rng = np.random.default_rng(6)
    table = np.repeat(rng.normal(size=(2_000, 1)), 6, axis=1) + 0.01 * rng.normal(size=(2_000, 6))
    release = mv.protect(table, "pca", exact="rounded", seed=1, rules=None)
    assert np.isfinite(release.data).all()
    assert any("do not fit together" in warning for warning in release.warnings)


def test_missing_cells() -> None:
    table = firms()
    table[::9, 2] = np.nan
    release = mv.protect(table, "pca", exact="rounded", seed=1, rules=None)
    assert np.array_equal(np.isnan(release.data), np.isnan(table))
    assert release.kept["mean"] > 1e-6


@pytest.mark.parametrize("method", sorted(CLUSTERED))
def test_moments_of_clusters_are_refused_by_name(method: str) -> None:
    with pytest.raises(ParameterError, match="keeps the moments of clusters"):
        mv.protect(firms(), method, exact="rounded")


@pytest.mark.parametrize("method", sorted(ON_AVERAGE - {"generalised_microaggregation"}))
def test_methods_without_exact_moments_say_so(method: str) -> None:
    with pytest.raises(ParameterError, match="has it fixed at False"):
        mv.protect(firms(), method, exact="rounded")


@pytest.mark.parametrize("public", [None, ["e"]])
@pytest.mark.parametrize("method", ["pca", "ipso"])
def test_a_stream_gives_the_same_bits(tmp_path: Path, method: str, public: Any) -> None:
    frame = pl.DataFrame(firms(), schema=list("abcde")).with_columns(total=pl.col("a") + pl.col("b"))
    source, output = tmp_path / "a.parquet", tmp_path / "b.parquet"
    frame.write_parquet(source)
    options = {"public": public, "exact": "rounded", "seed": 1}
    mv.protect_file(source, output, method, engine="stream", **options)
    assert pl.read_parquet(output).equals(mv.protect(frame, method, **options).data)
