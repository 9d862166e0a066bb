"""With exact=True, means and covariances come back, whatever the data and whatever the perturbation.

Errors are in standard deviations: |mean' - mean| / sd and |cov'_ij - cov_ij| / (sd_i sd_j), found here with extended
precision and two passes, not with the package's own moments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from properties import examples
from selection import mostly_slow

import microveil as mv
from microveil.core.errors import DataError
from microveil.perturb import PERTURBATIONS

Array = NDArray[np.float64]

EXACT = 1e-10
SEEDS = (1, 2, 3)

# Fitting eight families takes its time; exactness does not depend on which one is drawn from.
# A window must reach another row, and a handful of rows is one or two groups, with nothing left to be exact about.
QUICK: dict[str, dict[str, Any]] = {
    "parametric": {"families": ["normal", "uniform"]},
    "rank_swap": {"rank_window": 0.5},
}
NEEDS_ROWS = ("microaggregate",)

every_perturbation = pytest.mark.parametrize("perturb", mostly_slow(PERTURBATIONS))
every_perturbation_of_few_rows = pytest.mark.parametrize(
    "perturb", mostly_slow(p for p in PERTURBATIONS if p not in NEEDS_ROWS)
)


def release_of(data: Any, perturb: str, seed: int, **options: Any) -> mv.Release:
    return mv.protect(data, "pca", perturb=perturb, seed=seed, **{"rules": None, **QUICK.get(perturb, {}), **options})


def two_pass(values: Array, weights: Array | None = None) -> tuple[Array, Array]:
    """Mean and population covariance in extended precision."""
    x = np.asarray(values, dtype=np.longdouble)
    w = np.ones(len(x), dtype=np.longdouble) if weights is None else np.asarray(weights, dtype=np.longdouble)
    w = w / w.sum()
    mean = w @ x
    centred = x - mean
    return mean, (centred * w[:, None]).T @ centred


def moment_errors(before: Array, after: Array, weights: Array | None = None) -> tuple[float, float]:
    """The worst mean and the worst covariance, in standard deviations; constant columns must not move at all."""
    (mean, cov), (new_mean, new_cov) = two_pass(before, weights), two_pass(after, weights)
    varies = np.ptp(before, axis=0) > 0
    assert (after[:, ~varies] == before[:, ~varies]).all()
    sd = np.sqrt(np.diagonal(cov)[varies])
    gap = np.abs(new_cov - cov)[np.ix_(varies, varies)] / np.outer(sd, sd)
    return float((np.abs(new_mean - mean)[varies] / sd).max()), float(gap.max())


def assert_exact(before: Array, after: Array, weights: Array | None = None, mean: float = EXACT) -> None:
    mean_error, covariance_error = moment_errors(before, after, weights)
    assert mean_error <= mean
    assert covariance_error <= EXACT
    assert not np.array_equal(before, after)


# --- The data


def mixed(rng: np.random.Generator, rows: int, columns: int) -> Array:
    """Normal columns with correlations of all sizes."""
    return rng.standard_normal((rows, columns)) @ rng.standard_normal((columns, columns))


def nested_totals(rng: np.random.Generator) -> Array:
    parts = np.abs(mixed(rng, 300, 5))
    first, second = parts[:, :2].sum(axis=1), parts[:, 2:4].sum(axis=1)
    return np.column_stack([first + second, parts, first, second, first + second + parts[:, 4]])


def badly_scaled(rng: np.random.Generator) -> Array:
    return (mixed(rng, 300, 6) + 3) * [1e-6, 1e9, 1e-3, 1, 1e5, 1e2]


def heavy_tails(rng: np.random.Generator) -> Array:
    return np.exp(2 * rng.standard_normal((300, 5)) @ np.linalg.cholesky(0.5 + 0.5 * np.eye(5)).T)


def one_outlier(rng: np.random.Generator) -> Array:
    values = mixed(rng, 200, 4)
    values[0, 0] = 1e12
    return values


def near_collinear(rng: np.random.Generator) -> Array:
    values = mixed(rng, 300, 3)
    total = values @ [1, 2, 3]
    noise = 1e-5 * rng.standard_normal((300, 2))
    return np.column_stack([values, total + total.std() * noise[:, 0], values[:, 0] * (1 + noise[:, 1])])


def zeros_mostly(rng: np.random.Generator) -> Array:
    return np.where(rng.random((200, 4)) < 0.8, 0.0, np.exp(mixed(rng, 200, 4) / 2))


def whole_numbers(rng: np.random.Generator) -> Array:
    return rng.poisson(1.0, (60, 4)).astype(float)


def with_constant(rng: np.random.Generator) -> Array:
    values = mixed(rng, 100, 4)
    values[:, 2] = 0.1
    return values


SCENARIOS: dict[str, Callable[[np.random.Generator], Array]] = {
    "plain": lambda rng: mixed(rng, 300, 6) + 5,
    "rank-deficient: nested totals": nested_totals,
    "badly scaled: 1e-6 to 1e9": badly_scaled,
    "heavy tails": heavy_tails,
    "one outlier": one_outlier,
    "5 x 8": lambda rng: mixed(rng, 5, 8),
    "8 x 8": lambda rng: mixed(rng, 8, 8),
    "9 x 8": lambda rng: mixed(rng, 9, 8),
    "3 x 2": lambda rng: mixed(rng, 3, 2),
    "3 x 5": lambda rng: mixed(rng, 3, 5),
    "near-collinear: 1e-5": near_collinear,
    "mostly zeros": zeros_mostly,
    "small whole numbers": whole_numbers,
    "a constant column": with_constant,
    "200 columns": lambda rng: mixed(rng, 400, 200),
}

every_scenario = pytest.mark.parametrize("scenario", SCENARIOS)


# --- Mean and covariance of the whole table


@pytest.mark.quick("shuffle-*", "redraw-*", "*-plain")
@every_scenario
@every_perturbation
def test_mean_and_covariance_are_exact(scenario: str, perturb: str) -> None:
    for seed in SEEDS[: 1 if scenario == "200 columns" else 3]:
        data = SCENARIOS[scenario](np.random.default_rng(seed))
        if perturb in NEEDS_ROWS and len(data) < 6:
            with pytest.raises(DataError, match="exact moments cannot be reached"):
                release_of(data, perturb, seed)
            continue
        assert_exact(data, release_of(data, perturb, seed).data)


@every_perturbation
def test_covariance_is_exact_under_large_offsets(perturb: str) -> None:
    for seed in range(5):
        data = mixed(np.random.default_rng(seed), 300, 5)
        data = (data / data.std(axis=0) + 1e6) * [1, -1, 1e3, 1e-3, 1]
        assert moment_errors(data, release_of(data, perturb, seed).data)[1] <= EXACT


@every_perturbation
def test_mean_is_exact_under_large_offsets(perturb: str) -> None:
    # A cell is a multiple of 1.2e-10 sd here, but a mean over 300 cells can be, and so must be, better than that.
    for seed in range(5):
        data = mixed(np.random.default_rng(seed), 300, 5)
        data = (data / data.std(axis=0) + 1e6) * [1, -1, 1e3, 1e-3, 1]
        assert moment_errors(data, release_of(data, perturb, seed).data)[0] <= EXACT


@every_perturbation
def test_mean_is_exact_with_public_columns_under_large_offsets(perturb: str) -> None:
    for seed in range(5):
        data = mixed(np.random.default_rng(seed), 300, 5)
        data = data / data.std(axis=0) + 1e6
        assert moment_errors(data, release_of(data, perturb, seed, public=[0, 1]).data)[0] <= EXACT


@every_perturbation
def test_every_covariance_is_exact_relative_to_itself(perturb: str) -> None:
    for seed in SEEDS:
        data = badly_scaled(np.random.default_rng(seed))
        _, before = two_pass(data)
        _, after = two_pass(release_of(data, perturb, seed).data)
        sd = np.sqrt(np.diagonal(before))
        sizeable = np.abs(before) >= 1e-3 * np.outer(sd, sd)
        assert (np.abs(after - before)[sizeable] / np.abs(before)[sizeable]).max() <= EXACT


@every_perturbation
@pytest.mark.parametrize("ratio", [1e2, 1e3, 1e4, 1e5])
def test_mean_and_covariance_are_exact_without_standardisation(perturb: str, ratio: float) -> None:
    data = mixed(np.random.default_rng(4), 100, 4) * [1, 10, 1, ratio]
    assert_exact(data, release_of(data, perturb, 4, standardise=False).data)


@settings(max_examples=examples(60))
@given(
    rows=st.integers(3, 40),
    columns=st.integers(2, 9),
    perturb=st.sampled_from([name for name in PERTURBATIONS if name not in ("parametric", *NEEDS_ROWS)]),
    exponents=st.lists(st.integers(-9, 9), min_size=9, max_size=9),
    offset=st.sampled_from([0.0, 1.0, 1e3]),
    tail=st.sampled_from(["normal", "exponential", "whole"]),
    seed=st.integers(0, 2**64),
)
def test_any_shape_scale_and_tail_is_exact(
    rows: int, columns: int, perturb: str, exponents: list[int], offset: float, tail: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    data = mixed(rng, rows, columns) + offset
    if tail == "exponential":
        data = np.exp(data / (1 + np.abs(data).max() / 5))
    elif tail == "whole":
        data = np.round(3 * data)
    data = data * 10.0 ** np.array(exponents[:columns])
    if np.count_nonzero(np.ptp(data, axis=0)) == 0:
        return
    after = release_of(data, perturb, seed).data
    mean_error, covariance_error = moment_errors(data, after)
    assert mean_error <= EXACT
    assert covariance_error <= EXACT


# --- Weights, strata, public columns


@every_perturbation
def test_weighted_moments_are_exact(perturb: str) -> None:
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        weights = np.exp(rng.standard_normal(200))
        data = np.column_stack([mixed(rng, 200, 5) + 2, weights])
        after = release_of(data, perturb, seed, weight=5).data
        assert_exact(data[:, :5], after[:, :5], weights)
        assert (after[:, 5] == weights).all()
        # They are not the unweighted ones in disguise.
        assert moment_errors(data[:, :5], after[:, :5])[1] > 1e-3


@every_perturbation_of_few_rows
def test_moments_are_exact_within_each_stratum_and_overall(perturb: str) -> None:
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        groups = np.repeat(np.arange(5), [11, 12, 20, 60, 97])
        rng.shuffle(groups)
        data = np.column_stack([mixed(rng, 200, 4) + 3 * groups[:, None], groups])
        after = release_of(data, perturb, seed, strata=4).data
        assert (after[:, 4] == groups).all()
        assert_exact(data[:, :4], after[:, :4])
        for group in range(5):
            assert_exact(data[groups == group, :4], after[groups == group, :4])


@every_perturbation_of_few_rows
def test_weighted_moments_are_exact_within_each_stratum_and_overall(perturb: str) -> None:
    rng = np.random.default_rng(6)
    groups = np.repeat(np.arange(3), [11, 40, 99])
    weights = rng.uniform(1, 50, 150)
    data = np.column_stack([mixed(rng, 150, 3) + groups[:, None], groups, weights])
    after = release_of(data, perturb, 6, strata=3, weight=4).data
    assert_exact(data[:, :3], after[:, :3], weights)
    for group in range(3):
        rows = groups == group
        assert_exact(data[rows, :3], after[rows, :3], weights[rows])


@every_perturbation
def test_stratum_with_a_constant_column_and_a_rule_of_its_own_is_exact(perturb: str) -> None:
    rng = np.random.default_rng(7)
    groups = np.repeat(np.arange(3), 50)
    data = np.column_stack([mixed(rng, 150, 4), groups])
    data[groups == 1, 1] = 7.0
    data[groups == 2, 3] = data[groups == 2, 0] + data[groups == 2, 2]
    after = release_of(data, perturb, 7, strata=4).data
    for group in range(3):
        assert_exact(data[groups == group, :4], after[groups == group, :4])
    gap = after[groups == 2, 3] - after[groups == 2, 0] - after[groups == 2, 2]
    assert np.abs(gap).max() <= 1e-9 * np.abs(after).max()


@every_perturbation
def test_public_columns_are_untouched_and_their_covariances_kept(perturb: str) -> None:
    for seed in SEEDS:
        data = mixed(np.random.default_rng(seed), 200, 6) + 4
        after = release_of(data, perturb, seed, public=[4, 0]).data
        assert (after[:, [4, 0]] == data[:, [4, 0]]).all()
        assert_exact(data, after)


@every_perturbation
def test_collinear_public_columns_do_no_harm(perturb: str) -> None:
    data = mixed(np.random.default_rng(8), 200, 4)
    data = np.column_stack([data, data[:, 0] + data[:, 1], np.full(200, 3.0)])
    after = release_of(data, perturb, 8, public=[0, 1, 4, 5]).data
    assert (after[:, [0, 1, 4, 5]] == data[:, [0, 1, 4, 5]]).all()
    assert_exact(data, after)


@every_perturbation
def test_group_means_of_a_public_text_column_are_kept(perturb: str) -> None:
    rng = np.random.default_rng(9)
    sector = rng.choice(["farm", "mine", "shop"], 150)
    frame = pd.DataFrame(mixed(rng, 150, 3), columns=["a", "b", "c"])
    frame += 2 * (sector == "shop")[:, None]
    frame["sector"] = sector
    out = release_of(frame, perturb, 9, public="sector").data
    assert (out.sector == frame.sector).all()
    before, after = frame.groupby("sector").mean(), out.groupby("sector").mean()
    assert ((after - before).abs() / frame[["a", "b", "c"]].std()).to_numpy().max() <= EXACT
    assert_exact(frame[["a", "b", "c"]].to_numpy(), out[["a", "b", "c"]].to_numpy())


@every_perturbation
def test_public_weights_strata_and_partial_components_together_are_exact(perturb: str) -> None:
    rng = np.random.default_rng(10)
    groups, weights = np.repeat([0, 1], 80), rng.uniform(1, 9, 160)
    data = np.column_stack([mixed(rng, 160, 5) + groups[:, None], groups, weights])
    after = release_of(data, perturb, 10, public=0, strata=5, weight=6, components=[1, 2]).data
    assert (after[:, [0, 5, 6]] == data[:, [0, 5, 6]]).all()
    for group in (0, 1):
        rows = groups == group
        assert_exact(data[rows, :5], after[rows, :5], weights[rows])


@pytest.mark.quick("shuffle-*", "noise-*", "redraw-*", "*shuffle", "*noise")
@every_perturbation
@pytest.mark.parametrize("rows", [6, 7, 8])
def test_fewest_rows_with_public_columns_are_exact_or_refused(perturb: str, rows: int) -> None:
    # Three public columns and a mean leave the residuals of six rows two directions, of eight rows four.
    exact = 0
    for seed in range(20):
        data = mixed(np.random.default_rng(seed), rows, 6)
        try:
            after = release_of(data, perturb, seed, public=[0, 1, 2]).data
        except DataError:
            continue
        exact += 1
        mean_error, covariance_error = moment_errors(data, after)
        assert mean_error <= EXACT
        assert covariance_error <= EXACT
    assert exact >= 10


@pytest.mark.parametrize("noise", [1e-5, 1e-6, 3e-7])
def test_a_column_that_the_public_ones_nearly_determine_spoils_nothing(noise: float) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=400)
    data = np.column_stack(
        [x, x + rng.normal(size=400), rng.normal(size=400), 2 * x + 1 + noise * rng.normal(size=400)]
    )
    after = release_of(data, "swap", 3, public=[0]).data
    mean_error, covariance_error = moment_errors(data, after)
    assert mean_error <= EXACT
    assert covariance_error <= EXACT


def test_too_few_rows_for_the_public_columns_are_refused() -> None:
    # One direction is left: an exact release could only be the original or its mirror image.
    data = mixed(np.random.default_rng(1), 5, 6)
    with pytest.raises(DataError, match="at least 6"):
        release_of(data, "swap", 1, public=[0, 1, 2])


# --- Some components only


@every_perturbation
@pytest.mark.parametrize("chosen", [[0], [1, 3], [4], [3, 0, 2]])
def test_untouched_components_come_back_record_by_record(perturb: str, chosen: list[int]) -> None:
    for exact in (True, False):
        data = mixed(np.random.default_rng(12), 150, 5) * [1, 10, 100, 0.1, 1] + 20
        release = release_of(data, perturb, 12, components=chosen, exact=exact)
        untouched = [k for k in range(5) if k not in chosen]
        weights, sd = release.components.weights, data.std(axis=0)
        before = (data - data.mean(axis=0)) / sd @ weights
        after = (release.data - data.mean(axis=0)) / sd @ weights
        component_sd = np.sqrt(release.components.variance)
        moved = np.abs(after - before).max(axis=0) / component_sd
        assert moved[untouched].max() <= 1e-12
        assert moved[chosen].min() > 0.1


@pytest.mark.quick("noise", "shuffle", "redraw")
@every_perturbation
def test_partial_components_are_exact(perturb: str) -> None:
    for seed in SEEDS:
        data = mixed(np.random.default_rng(seed), 150, 5) + 20
        for chosen in (1, 3, [2, 4], [0]):
            assert_exact(data, release_of(data, perturb, seed, components=chosen).data)


# --- Totals


@pytest.mark.quick("*noise", "*shuffle", "*redraw")
@every_perturbation
@pytest.mark.parametrize("exact", [True, False])
def test_nested_totals_hold_in_every_row(perturb: str, exact: bool) -> None:
    for seed in SEEDS:
        data = nested_totals(np.random.default_rng(seed))
        after = release_of(data, perturb, seed, exact=exact).data
        for total, parts in ((0, [6, 7]), (6, [1, 2]), (7, [3, 4]), (8, [0, 5]), (8, [1, 2, 3, 4, 5])):
            size = np.abs(after[:, total]) + np.abs(after[:, parts]).sum(axis=1)
            assert (np.abs(after[:, total] - after[:, parts].sum(axis=1)) / size).max() <= 1e-9


@pytest.mark.parametrize("size", [10, 14, 16, 20])
def test_total_of_a_large_and_a_small_part_is_exact_and_holds_in_every_row(size: int) -> None:
    # The small part is between 1e-5 and 1e-9 of the large one, and must not be taken for round-off: both are whole.
    rng = np.random.default_rng(13)
    large, small = np.round(np.exp(rng.standard_normal(500) + size)), rng.poisson(3.0, 500).astype(float)
    data = np.column_stack([large, small, large + small])
    after = release_of(data, "swap", 13).data
    assert_exact(data, after)
    gap = np.abs(after[:, 2] - after[:, 0] - after[:, 1])
    assert (gap / np.abs(after).sum(axis=1)).max() <= 1e-9


# --- Without exact


@every_scenario
def test_swap_keeps_means_without_exact(scenario: str) -> None:
    for seed in SEEDS[:1]:
        data = SCENARIOS[scenario](np.random.default_rng(seed))
        release = release_of(data, "swap", seed, exact=False, dominated="keep")
        assert moment_errors(data, release.data)[0] <= 1e-14
        assert "covariance" not in release.kept


@every_perturbation
def test_covariances_move_without_exact(perturb: str) -> None:
    data = mixed(np.random.default_rng(14), 300, 5)
    assert moment_errors(data, release_of(data, perturb, 14, exact=False).data)[1] > 1e-3


# --- What the release says about itself


@pytest.mark.quick("heavy tails", "3 x 5", "mostly zeros")
@every_scenario
def test_kept_tells_the_error_that_was_reached(scenario: str) -> None:
    data = SCENARIOS[scenario](np.random.default_rng(5))
    for perturb in ["swap"] if scenario == "200 columns" else PERTURBATIONS:
        if perturb in NEEDS_ROWS and len(data) < 6:
            continue
        release = release_of(data, perturb, 5)
        mean_error, covariance_error = moment_errors(data, release.data)
        # Both figures have round-off of their own.
        assert release.kept["mean"] >= mean_error - 1e-14
        assert release.kept["covariance"] >= covariance_error - 1e-13


def test_kept_tells_the_error_of_the_released_single_precision_numbers() -> None:
    data = (mixed(np.random.default_rng(15), 200, 4) + 3).astype(np.float32)
    release = release_of(data, "swap", 15)
    assert release.data.dtype == np.float32
    mean_error, covariance_error = moment_errors(data, release.data)
    assert covariance_error > 1e-10  # single precision has seven digits: the promise cannot hold to ten
    assert release.kept["mean"] >= 0.99 * mean_error
    assert release.kept["covariance"] >= 0.99 * covariance_error


def test_impossible_exactness_is_refused_and_not_approximated() -> None:
    data = mixed(np.random.default_rng(16), 30, 3)
    with pytest.raises(DataError, match="exact moments cannot be reached"):
        mv.protect(data, "pca", perturb="normal", draws=np.ones((30, 3)), rules=None)
