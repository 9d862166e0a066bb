"""Missing cells stay missing, and what analysts compute from such a file comes back.

That is, in pandas' words, `.mean()` (over the cells present) and `.cov()` (over complete pairs). Errors are in
standard deviations, as everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from properties import examples
from selection import mostly_slow

import microveil as mv
from microveil.errors import DataError
from microveil.perturb import PERTURBATIONS

Array = NDArray[np.float64]

EXACT = 1e-10
QUICK: dict[str, dict[str, Any]] = {"parametric": {"families": ["normal", "uniform"]}}
every_perturbation = pytest.mark.parametrize("perturb", mostly_slow(PERTURBATIONS))


def release_of(data: Any, perturb: str = "swap", **options: Any) -> mv.Release:
    return mv.protect(data, "pca", perturb=perturb, **{"rules": None, **QUICK.get(perturb, {}), **options})


def full(seed: int, rows: int = 300, columns: int = 6) -> Array:
    """Columns that share a factor, so that correlations are about one half, with means off zero."""
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((rows, 1))
    return 5 + factor * rng.uniform(0.5, 1.5, columns) + rng.standard_normal((rows, columns))


def with_holes(values: Array, share: float, seed: int) -> pd.DataFrame:
    """Holes completely at random: none in the first column, 60 % of the last, `share` of the others."""
    rng = np.random.default_rng(1000 + seed)
    shares = np.full(values.shape[1], share)
    shares[0], shares[-1] = 0.0, 0.6
    holes = rng.random(values.shape) < shares
    return pd.DataFrame(np.where(holes, np.nan, values), columns=[f"c{j}" for j in range(values.shape[1])])


def pair_errors(before: pd.DataFrame, after: pd.DataFrame) -> tuple[float, float]:
    """The worst `.mean()` and the worst `.cov()`, in standard deviations."""
    sd = before.std()
    scale = np.outer(sd, sd)
    mean_error = ((after.mean() - before.mean()).abs() / sd).max()
    return float(mean_error), float(((after.cov() - before.cov()).abs() / scale).to_numpy().max())


def assert_pairs_exact(before: pd.DataFrame, after: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(after.isna(), before.isna())
    mean_error, covariance_error = pair_errors(before, after)
    assert mean_error <= EXACT
    assert covariance_error <= EXACT
    present = before.notna().to_numpy()
    assert (before.to_numpy()[present] != after.to_numpy()[present]).mean() > 0.95


# --- Means and pairwise covariances


@pytest.mark.quick("*shuffle*", "*redraw*", "*noise*")
@every_perturbation
@pytest.mark.parametrize("share", [0.05, 0.15, 0.3])
def test_means_and_pairwise_covariances_are_exact(perturb: str, share: float) -> None:
    for seed in range(5):
        frame = with_holes(full(seed), share, seed)
        assert_pairs_exact(frame, release_of(frame, perturb, seed=seed).data)


@pytest.mark.parametrize("correlation", [0.0, 0.9, 0.99])
def test_pairwise_covariances_are_exact_at_any_correlation(correlation: float) -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        factor = rng.standard_normal((250, 1))
        values = np.sqrt(correlation) * factor + np.sqrt(1 - correlation) * rng.standard_normal((250, 5))
        frame = with_holes(values, 0.15, seed)
        assert_pairs_exact(frame, release_of(frame, seed=seed).data)


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_pairwise_covariances_are_exact_with_correlations_of_all_sizes(share: float) -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        frame = with_holes(rng.standard_normal((300, 5)) @ rng.standard_normal((5, 5)), share, seed)
        assert_pairs_exact(frame, release_of(frame, seed=seed).data)


@pytest.mark.parametrize(("rows", "columns"), [(60, 4), (100, 8), (1000, 12)])
def test_pairwise_covariances_are_exact_in_any_shape(rows: int, columns: int) -> None:
    for seed in range(3):
        frame = with_holes(full(seed, rows, columns), 0.1, seed)
        assert_pairs_exact(frame, release_of(frame, seed=seed).data)


def test_pairwise_covariances_are_exact_with_heavy_tails_and_mixed_units() -> None:
    for seed in range(4):
        frame = with_holes(np.exp(full(seed) / 2) * [1e-6, 1e9, 1, 1e3, 1e-3, 10], 0.15, seed)
        assert_pairs_exact(frame, release_of(frame, seed=seed).data)


def test_one_missing_cell_does_not_end_exactness() -> None:
    frame = pd.DataFrame(full(1, 80, 5), columns=list("abcde"))
    frame.loc[17, "c"] = np.nan
    assert_pairs_exact(frame, release_of(frame, seed=1).data)


@settings(max_examples=examples(30))
@given(
    rows=st.integers(80, 400),
    columns=st.integers(2, 7),
    share=st.floats(0.01, 0.3),
    perturb=st.sampled_from([name for name in PERTURBATIONS if name != "parametric"]),
    seed=st.integers(0, 2**32),
)
def test_any_table_with_holes_is_exact(rows: int, columns: int, share: float, perturb: str, seed: int) -> None:
    frame = with_holes(full(seed, rows, columns), share, seed)
    after = release_of(frame, perturb, seed=seed).data
    mean_error, covariance_error = pair_errors(frame, after)
    assert mean_error <= EXACT
    assert covariance_error <= EXACT


@pytest.mark.quick("shuffle", "redraw", "noise")
@every_perturbation
def test_released_cells_stay_in_the_range_of_the_data(perturb: str) -> None:
    # Meeting the moments must not wreck the values: swapped or redrawn normal data have no cell at 8 sd.
    for seed in range(5):
        frame = with_holes(full(seed), 0.15, seed)
        after = release_of(frame, perturb, seed=seed).data
        assert ((after - frame.mean()).abs() / frame.std()).max().max() <= 8


@pytest.mark.quick("noise", "shuffle", "redraw")
@every_perturbation
def test_kept_tells_the_error_that_was_reached(perturb: str) -> None:
    for seed in range(3):
        frame = with_holes(full(seed), 0.3, seed)
        release = release_of(frame, perturb, seed=seed)
        mean_error, covariance_error = pair_errors(frame, release.data)
        assert release.kept["mean"] >= mean_error - 1e-13
        # pandas divides by n - 1: a factor that differs from pair to pair, but only by n / (n - 1) at most.
        assert release.kept["covariance"] >= 0.98 * covariance_error - 1e-13


@pytest.mark.quick("shuffle", "redraw", "noise")
@every_perturbation
def test_weighted_means_and_pairwise_covariances_are_exact(perturb: str) -> None:
    for seed in range(3):
        weights = np.random.default_rng(seed).uniform(1, 20, 300)
        frame = with_holes(full(seed), 0.15, seed)
        after = release_of(frame.assign(w=weights), perturb, weight="w", seed=seed).data
        assert (after.pop("w") == weights).all()
        pd.testing.assert_frame_equal(after.isna(), frame.isna())
        mean_error, covariance_error = weighted_errors(frame.to_numpy(), after.to_numpy(), weights)
        assert mean_error <= EXACT
        assert covariance_error <= EXACT


def weighted_errors(before: Array, after: Array, weights: Array) -> tuple[float, float]:
    """As `pair_errors`, weighted: pair by pair, with `np.cov`."""
    sd = [np.sqrt(np.cov(column[~np.isnan(column)], aweights=weights[~np.isnan(column)])) for column in before.T]
    worst_mean, worst_covariance = 0.0, 0.0
    for j in range(before.shape[1]):
        for k in range(j + 1):
            both = ~np.isnan(before[:, [j, k]]).any(axis=1)
            found = [np.cov(values[both][:, [j, k]].T, aweights=weights[both])[0, 1] for values in (before, after)]
            worst_covariance = max(worst_covariance, abs(found[1] - found[0]) / (sd[j] * sd[k]))
        there = ~np.isnan(before[:, j])
        gap = np.average(after[there, j] - before[there, j], weights=weights[there])
        worst_mean = max(worst_mean, abs(gap) / sd[j])
    return worst_mean, worst_covariance


@pytest.mark.quick("shuffle", "redraw", "noise")
@every_perturbation
def test_strata_with_holes_are_exact_within_each(perturb: str) -> None:
    for seed in range(3):
        groups = np.repeat(["a", "b", "c"], [60, 100, 140])
        frame = with_holes(full(seed) + (groups == "b")[:, None], 0.1, seed)
        after = release_of(frame.assign(g=groups), perturb, strata="g", seed=seed).data
        for group in "abc":
            assert_pairs_exact(frame[groups == group], after.loc[groups == group, frame.columns])
        mean_error, _ = pair_errors(frame, after[frame.columns])
        assert mean_error <= EXACT


def test_strata_where_only_one_has_holes_are_exact_within_each() -> None:
    groups = np.repeat([0, 1], 100)
    frame = pd.DataFrame(full(4, 200, 4), columns=list("abcd"))
    frame.loc[np.arange(5, 95, 7), "b"] = np.nan
    after = release_of(frame.assign(g=groups), strata="g", seed=4).data
    for group in (0, 1):
        assert_pairs_exact(frame[groups == group], after.loc[groups == group, frame.columns])


@every_perturbation
def test_public_columns_stay_and_pairs_are_exact_with_holes(perturb: str) -> None:
    frame = with_holes(full(6), 0.1, 6)
    after = release_of(frame, perturb, public="c0", seed=6).data
    assert (after.c0 == frame.c0).all()
    assert_pairs_exact(frame.drop(columns="c0"), after.drop(columns="c0"))


# --- Without exact


def test_swap_keeps_means_over_cells_present_without_exact() -> None:
    for share in (0.05, 0.3):
        for seed in range(3):
            frame = with_holes(full(seed), share, seed)
            release = release_of(frame, exact=False, seed=seed)
            pd.testing.assert_frame_equal(release.data.isna(), frame.isna())
            mean_error, covariance_error = pair_errors(frame, release.data)
            assert mean_error <= 1e-13
            assert 1e-3 < covariance_error < 0.5
            assert "covariance" not in release.kept


# --- Special codes


def coded(seed: int = 2) -> pd.DataFrame:
    """Columns above zero in which 10 % of one and 40 % of another are coded -9."""
    frame = pd.DataFrame(np.exp(full(seed, 300, 4) / 3), columns=list("abcd"))
    rng = np.random.default_rng(seed)
    frame.loc[rng.random(300) < 0.1, "b"] = -9.0
    frame.loc[rng.random(300) < 0.4, "d"] = -9.0
    return frame


@every_perturbation
def test_special_codes_stay_and_are_handled_like_missing_cells(perturb: str) -> None:
    frame = coded()
    release = release_of(frame, perturb, rules="infer", seed=2)
    assert ((release.data == -9) == (frame == -9)).all().all()
    assert_pairs_exact(frame.mask(frame == -9), release.data.mask(frame == -9))
    assert any("'b': -9 taken for a code" in warning for warning in release.warnings)


def test_codes_give_the_same_release_as_missing_cells() -> None:
    frame = coded()
    from_codes = release_of(frame, rules="infer", seed=2).data
    from_holes = release_of(frame.mask(frame == -9), rules="infer", seed=2).data
    pd.testing.assert_frame_equal(from_codes.mask(frame == -9), from_holes, check_exact=True)


def test_declared_codes_and_missing_cells_in_one_column_each_come_back() -> None:
    frame = coded()
    frame.loc[10:30, "b"] = np.nan
    frame.loc[40:50, "b"] = 777.0
    rules = {"columns": {"b": {"special_codes": [-9, 777]}, "d": {"special_codes": [-9]}}}
    out = release_of(frame, rules=rules, seed=2).data
    assert (out.b.isna() == frame.b.isna()).all()
    for code in (-9.0, 777.0):
        assert ((out.b == code) == (frame.b == code)).all()
    hidden = frame.isna() | frame.isin([-9.0, 777.0])
    assert_pairs_exact(frame.mask(hidden), out.mask(hidden))


def test_without_rules_a_code_is_a_value() -> None:
    frame = coded()
    out = release_of(frame, rules=None, seed=2).data
    assert not (out == -9).any().any()
    assert_pairs_exact(frame, out)


@pytest.mark.parametrize("values", [[-9.0, -3.0, 4.0], [-9.0, 1.0, 2.0]])
def test_minus_nine_among_negative_numbers_or_alone_is_a_value(values: list[float]) -> None:
    frame = pd.DataFrame(full(3, 60, 3), columns=list("abc"))
    frame["a"] = np.tile(values, 20)
    if min(values[1:]) > 0:
        frame["a"] = [-9.0, *values[1:], *np.tile(values[1:], 30)][:60]  # -9 occurs once
    out = release_of(frame, rules="infer", seed=3).data
    assert not (out["a"] == -9).any()


# --- Kinds of frames, kinds of missing


def two_kinds_of_missing() -> list[float | None]:
    column: list[float | None] = full(5, 200, 1)[:, 0].tolist()
    for row in (3, 50, 51, 120):
        column[row] = None
    for row in (4, 60, 121):
        column[row] = float("nan")
    return column


def test_nulls_and_nans_of_polars_each_come_back_as_they_were() -> None:
    values = full(5, 200, 3)
    frame = pl.DataFrame({"a": two_kinds_of_missing(), "b": values[:, 1], "c": values[:, 2]}, strict=False)
    out = release_of(frame, seed=5).data
    assert out.schema == frame.schema
    assert out["a"].is_null().arg_true().to_list() == [3, 50, 51, 120]
    assert out["a"].is_nan().fill_null(value=False).arg_true().to_list() == [4, 60, 121]
    assert out["b"].is_null().sum() == 0
    present = out["a"].is_finite().fill_null(value=False)
    assert present.sum() == 193
    assert (out["a"].filter(present) != frame["a"].filter(present)).all()


def test_nulls_and_nans_of_arrow_each_come_back_as_they_were() -> None:
    values = full(5, 200, 3)
    column = pa.array(two_kinds_of_missing(), from_pandas=False)
    table = pa.table({"a": column, "b": values[:, 1], "c": values[:, 2]})
    out = release_of(table, seed=5).data
    assert out.schema.equals(table.schema)
    found = out["a"].to_pylist()
    assert [row for row, value in enumerate(found) if value is None] == [3, 50, 51, 120]
    assert [row for row, value in enumerate(found) if value is not None and np.isnan(value)] == [4, 60, 121]


@pytest.mark.parametrize("dtype", ["float64", "float32", "Float64", "Int64"])
def test_missing_cells_of_pandas_stay_in_every_type(dtype: str) -> None:
    frame = with_holes(np.round(10 * full(6)), 0.1, 6).astype(dtype)
    out = release_of(frame, seed=6).data
    assert {str(kind) for kind in out.dtypes} == {"Float64" if dtype == "Int64" else dtype}
    pd.testing.assert_frame_equal(out.isna(), frame.isna())


def test_numpy_holes_stay_and_the_input_is_untouched() -> None:
    data = with_holes(full(7), 0.2, 7).to_numpy()
    before = data.tobytes()
    out = release_of(data, seed=7).data
    assert (np.isnan(out) == np.isnan(data)).all()
    assert data.tobytes() == before


def test_same_seed_gives_the_same_release_in_every_kind_of_frame_with_holes() -> None:
    frame = with_holes(full(8), 0.2, 8)
    expected = release_of(frame, seed=8).data.to_numpy()
    assert np.array_equal(release_of(frame.to_numpy(), seed=8).data, expected, equal_nan=True)
    assert np.array_equal(release_of(pl.from_pandas(frame), seed=8).data.to_numpy(), expected, equal_nan=True)
    arrow = release_of(pa.Table.from_pandas(frame), seed=8).data.to_pandas()
    assert np.array_equal(arrow.to_numpy(), expected, equal_nan=True)


# --- Totals with holes


def test_totals_hold_in_every_complete_row() -> None:
    values = np.exp(full(9, 300, 3) / 3)
    frame = pd.DataFrame(values, columns=list("abc"))
    frame["total"] = frame.sum(axis=1)
    rng = np.random.default_rng(9)
    frame = frame.mask(rng.random(frame.shape) < 0.1)
    release = release_of(frame, seed=9)
    assert release.rules == ["total = a + b + c"]
    pd.testing.assert_frame_equal(release.data.isna(), frame.isna())
    whole = release.data.dropna()
    assert len(whole) > 150
    gap = (whole.total - whole.a - whole.b - whole.c).abs() / whole.abs().sum(axis=1)
    assert gap.max() <= 1e-9


def test_kept_tells_the_truth_about_totals_with_holes() -> None:
    values = np.exp(full(9, 300, 3) / 3)
    frame = pd.DataFrame(values, columns=list("abc"))
    frame["total"] = frame.sum(axis=1)
    frame = frame.mask(np.random.default_rng(9).random(frame.shape) < 0.1)
    release = release_of(frame, seed=9)
    mean_error, covariance_error = pair_errors(frame, release.data)
    assert release.kept["mean"] >= mean_error - 1e-13
    assert release.kept["covariance"] >= 0.98 * covariance_error - 1e-13
    assert max(mean_error, covariance_error) <= EXACT or any("kept to" in warning for warning in release.warnings)


# --- Columns without a value


@pytest.mark.quick("numpy", "polars")
@pytest.mark.parametrize("kind", ["numpy", "pandas", "polars", "polars without a type", "arrow"])
def test_a_column_without_values_passes_through_unless_it_is_named(kind: str) -> None:
    values = full(8)
    values[:, 2] = np.nan
    names = [str(j) for j in range(6)]
    type_ = None if kind == "polars without a type" else pl.Float64
    polars = pl.from_numpy(values, names).with_columns(pl.Series("2", [None] * 300, type_))
    others = {"numpy": values, "pandas": pd.DataFrame(values, columns=names), "arrow": polars.to_arrow()}
    data = others.get(kind, polars)
    for method in ("veil", "pca"):
        release = mv.protect(data, method, seed=1)
        assert list(release.dose) == [name for name in names if name != "2"]
        assert any(said == "column '2' has no values, and passes through as it is" for said in release.warnings)
    with pytest.raises(DataError, match="confidential: column '2' has no values"):
        mv.protect(data, "pca", confidential=["1", "2", "3"])


def test_a_column_without_values_passes_through_beside_units() -> None:
    data = pd.DataFrame(full(9, 100), columns=list("abcdef")).assign(unit=np.arange(100) // 2)
    data["a"] = data["a"].groupby(data["unit"]).transform("first")
    data["b"] = data["b"].groupby(data["unit"]).transform("first")
    data["e"] = np.nan
    release = mv.protect(data, "pca", unit="unit", seed=1)
    assert list(release.dose) == ["a", "b", "c", "d", "f"]
    assert release.data["e"].isna().all()


def test_a_table_without_any_value_is_refused() -> None:
    with pytest.raises(DataError, match="has no values"):
        mv.protect(np.full((20, 3), np.nan), confidential=[0])


# --- Sums with holes of their own


@pytest.mark.parametrize("where", ["part and total together", "anywhere"])
@pytest.mark.parametrize("weight", [None, "w"])
def test_totals_keep_their_own_moments_over_their_own_cells(where: str, weight: str | None) -> None:
    rng = np.random.default_rng(12)
    data = pd.DataFrame(full(10, 400, 4), columns=list("abcd"))
    data["sub"] = data["a"] + data["b"] + 3
    data["total"] = data["sub"] + data["c"]
    names = list(data)
    if where == "anywhere":
        data = data.mask(rng.random(data.shape) < 0.1)
    else:
        data.loc[rng.random(400) < 0.1, ["b", "sub", "total"]] = np.nan
    data["w"] = rng.uniform(1, 2, 400)
    rules = {"sums": [{"total": "total", "parts": ["sub", "c"]}]} if weight else "infer"
    release = mv.protect(data, "pca", confidential=names, weight=weight, rules=rules, seed=1)
    assert max(release.kept["mean"], release.kept["covariance"]) < EXACT
    new = release.data[names]
    assert (new.isna() == data[names].isna()).all(axis=None)
    assert np.allclose((new["sub"] + new["c"] - new["total"]).dropna(), 0, atol=1e-10)
    if weight is None:
        assert_pairs_exact(data[names], new)
