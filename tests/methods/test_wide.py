"""Tables with more columns than rows: the same promises, in time that grows with the columns and not their square."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import microveil as mv
from microveil.core.errors import DataError
from microveil.core.moments import WIDE, Moments, is_wide, largest_gap, moments
from microveil.decompose.axes import residual_axes, standard_axes


def wide_table(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    """Lognormal columns that share one factor."""
    rng = np.random.default_rng(seed)
    return np.exp(rng.normal(size=(rows, columns)) / 2 + rng.normal(size=(rows, 1))) * 100


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def both_ways(values: np.ndarray, weights: np.ndarray | None = None) -> tuple[Moments, Moments]:
    """The moments of a wide table, and the same with the matrix of products."""
    found = moments(lambda piece: values[piece].T, len(values), weights=weights)
    return found, Moments(found.weight, found.shift, found.offset, found.comoment)


def test_a_table_is_wide_if_it_has_many_columns_and_fewer_rows() -> None:
    assert is_wide(50, WIDE)
    assert not is_wide(50, WIDE - 1)
    assert not is_wide(WIDE, WIDE)


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_stand_for_the_products(weighted: bool) -> None:
    values = wide_table(30, 600) + 1e6
    weights = np.random.default_rng(1).uniform(0.5, 2, 30) if weighted else None
    rows, matrix = both_ways(values, weights)
    assert rows.products is None
    np.testing.assert_allclose(rows.mean, np.average(values, axis=0, weights=weights), rtol=1e-12)
    exact = np.cov(values.T, bias=True, aweights=weights)
    np.testing.assert_allclose(rows.covariance, exact, rtol=1e-8, atol=1e-8 * exact.max())
    np.testing.assert_allclose(rows.variance, matrix.variance)
    some = [5, 3, 500]
    np.testing.assert_allclose(rows.select(some).comoment, matrix.select(some).comoment)
    assert largest_gap(rows, matrix, rows.sd) < 1e-12
    assert largest_gap(rows, moments(lambda piece: 2 * values[piece].T, 30), rows.sd) > 1


@pytest.mark.slow
def test_axes_of_the_rows_are_those_of_the_matrix() -> None:
    rows, matrix = both_ways(wide_table(12, 600))
    for axes in (standard_axes, residual_axes):
        one, other = axes(rows), axes(matrix)
        assert one.count == other.count == 11
        np.testing.assert_allclose(one.loadings, other.loadings, atol=1e-7 * np.abs(other.loadings).max())
        np.testing.assert_allclose(one.variance, other.variance, rtol=1e-7)


@pytest.mark.quick("pca")
@pytest.mark.parametrize("method", ["pca", "primp_cholesky", "cholesky", "ipso", "ics", "romm"])
def test_moments_are_exact_with_public_columns_and_weights(method: str) -> None:
    values = wide_table(40, 603)
    data = pl.DataFrame(values, schema=[f"c{number}" for number in range(603)])
    release = mv.protect(data, method, public=["c0", "c1"], weight="c2", seed=1)
    assert max(release.kept.values()) < 1e-9
    released = release.data.to_numpy()
    assert (released[:, :3] == values[:, :3]).all()
    before, after = (np.cov(table[:, [0, 1, 7, 602]].T, aweights=values[:, 2]) for table in (values, released))
    np.testing.assert_allclose(after, before, rtol=1e-9)
    assert not np.isclose(released[:, 3:], values[:, 3:]).all(axis=1).any()


def test_strata_keep_their_own_moments() -> None:
    values = wide_table(40, 600)
    data = pl.DataFrame(values).with_columns(group=pl.Series(["a", "b"] * 20))
    release = mv.protect(data, "pca", strata="group", seed=1)
    part = release.data.filter(pl.col("group") == "a").drop("group").to_numpy()
    np.testing.assert_allclose(part.mean(axis=0), values[::2].mean(axis=0))


def test_a_file_gives_the_same_release(tmp_path: Path) -> None:
    data = pl.DataFrame(wide_table(30, 600))
    data.write_parquet(tmp_path / "in.parquet")
    streamed = mv.protect_file(tmp_path / "in.parquet", tmp_path / "out.parquet", "pca", seed=3)
    held = mv.protect(data, "pca", seed=3)
    assert pl.read_parquet(tmp_path / "out.parquet").equals(held.data)
    assert streamed.kept == held.kept


@pytest.mark.slow
def test_pca_of_ten_thousand_columns_takes_seconds() -> None:
    values = wide_table(50, 10_000)
    assert cpu_seconds(lambda: mv.protect(values, "pca", seed=1)) < 20


@pytest.mark.slow
def test_describing_ten_thousand_columns_takes_seconds() -> None:
    values = wide_table(50, 10_000)
    assert cpu_seconds(lambda: mv.describe(values)) < 15


@pytest.mark.slow
def test_veil_of_a_thousand_columns_takes_seconds() -> None:
    values = wide_table(50, 1_000)
    assert cpu_seconds(lambda: mv.protect(values, seed=1)) < 30


@pytest.mark.slow
def test_veil_of_a_wide_table_can_be_repeated_and_keeps_distributions() -> None:
    values = wide_table(30, 600)
    release, again = (mv.protect(values, seed=1) for _ in range(2))
    np.testing.assert_array_equal(release.data, again.data)
    assert any("values were not exchanged" in warning for warning in release.warnings)


def test_missing_cells_of_wide_tables_end_in_time_or_are_refused() -> None:
    values = wide_table(50, 600)
    values[np.random.default_rng(1).random(values.shape) < 0.01] = np.nan
    release = mv.protect(values, "pca", seed=1)
    assert release.kept["mean"] < 1e-9
    assert (np.isnan(release.data) == np.isnan(values)).all()
    wider = np.hstack([values, wide_table(50, 1_500)])
    with pytest.raises(DataError, match="at most 2000 columns"):
        mv.protect(wider, "pca", seed=1)


@pytest.mark.slow
def test_what_takes_all_pairs_of_columns_says_its_limit() -> None:
    values = wide_table(20, 1_001)
    with pytest.raises(DataError, match="at most 1000 columns"):
        mv.protect(values, "factor", seed=1, rules=None)
    found = mv.assess(values, values[::-1], measures=["propensity_2", "ks"], sanity=False, seed=1)
    assert "at most 400 columns" in found.skipped["propensity_2"]
    many = wide_table(10, 4_001)
    found = mv.assess(many, many[::-1], measures=["pil", "correlation_difference", "ks"], sanity=False, seed=1)
    assert set(found.skipped) == {"pil", "correlation_difference"}
