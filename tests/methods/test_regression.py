"""What the regression family keeps exactly, whatever it draws (Langsrud 2019, §2-5)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from regression_family import ROWS, WIDTH, Array, masked, population, relative, released, residuals

import microveil as mv
from microveil.catalogue import method_details
from microveil.core.errors import DataError
from microveil.core.factor import Factors, generalised_qr, generalised_svd

FAMILY: dict[str, dict[str, Any]] = {
    "ipso": {},
    "score_mix": {"correlation": [0.9, None, 0.0, 1.0]},
    "residual_mix": {"correlation": [0.9, 0.1, 0.5, 0.7]},
    "romm": {"noise": 0.05},
    "correct": {},
    "synthetic_addition": {},
}


def options(method: str, y: Array) -> dict[str, Any]:
    given = dict(FAMILY[method])
    if method in ("correct", "synthetic_addition"):
        given["other"] = masked(y)
    return given


@pytest.mark.parametrize("condition", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("decomposition", ["qr", "svd"])
@pytest.mark.parametrize("method", FAMILY)
def test_products_with_public_columns_and_with_each_other_come_back(
    method: str, decomposition: str, condition: float
) -> None:
    y, x = population(condition=condition)
    given = options(method, y)
    if "decomposition" not in mv_parameters(method):
        if decomposition == "svd":
            return
    else:
        given["decomposition"] = decomposition
    _, new = released(method, y, x, seed=3, **given)
    design = np.column_stack([np.ones(ROWS), x])
    assert relative(design.T @ new, design.T @ y, design, y) <= 1e-12
    assert relative(new.T @ new, y.T @ y, y, y) <= 1e-12
    assert np.abs(new - y).max() > 1e-3 * y.std()


def mv_parameters(method: str) -> set[str]:
    details = method_details(method)
    return {one["name"] for group in details["parameters"] for one in group["parameters"]}


@pytest.mark.parametrize("method", FAMILY)
def test_offsets_of_a_million_standard_deviations_do_no_harm(method: str) -> None:
    y, x = population(offset=1e6)
    release, new = released(method, y, x, seed=1, **options(method, y))
    assert np.abs(new.mean(axis=0) - y.mean(axis=0)).max() <= 1e-9
    assert np.abs(np.cov(new.T) - np.cov(y.T)).max() <= 1e-9
    assert release.kept["covariance"] <= 1e-9


@pytest.mark.parametrize("method", FAMILY)
def test_totals_stay_totals(method: str) -> None:
    y, x = population()
    y = np.column_stack([y[:, 0], y[:, 1], y[:, 0] + y[:, 1], y[:, 3]])
    given = options(method, y) | ({"correlation": 0.6} if "mix" in method else {})
    _, new = released(method, y, x, seed=1, **given)
    assert np.abs(new[:, 2] - new[:, 0] - new[:, 1]).max() <= 1e-12
    assert relative(new.T @ new, y.T @ y, y, y) <= 1e-12


@pytest.mark.parametrize("method", ["ipso", "score_mix", "residual_mix", "romm"])
def test_weighted_moments_come_back_when_there_are_weights(method: str) -> None:
    y, x = population()
    weights = np.random.default_rng(2).uniform(1, 9, ROWS)
    data = np.column_stack([y, x, weights])
    width = y.shape[1]
    release = mv.protect(
        data, method, confidential=list(range(width)), public=[width, width + 1], weight=width + 2, rules=None, seed=1
    )
    new = release.data[:, :width]
    before, after = (np.cov(np.hstack([table, x]).T, aweights=weights, bias=True) for table in (y, new))
    assert np.abs(after - before).max() <= 1e-12 * np.abs(before).max()


@pytest.mark.parametrize("decomposition", ["qr", "svd"])
def test_scores_have_the_correlations_asked_for(decomposition: str) -> None:
    y, x = population()
    asked = [0.9, 0.3, 0.0, 1.0]
    _, new = released("score_mix", y, x, seed=1, correlation=asked, decomposition=decomposition)
    split = generalised_qr if decomposition == "qr" else generalised_svd
    before, after = split(residuals(y, x)), split(residuals(new, x))
    # The loadings are the same, so the scores can be found again in the release.
    assert np.abs(before.loadings - after.loadings).max() <= 1e-10 * np.abs(before.loadings).max()
    shared = before.scores.T @ after.scores
    assert np.abs(np.diagonal(shared) - asked).max() <= 1e-10
    assert np.abs(shared - np.diag(np.diagonal(shared))).max() <= 1e-10


@pytest.mark.slow
def test_a_free_score_is_left_to_chance_and_one_at_zero_is_not() -> None:
    y, x = population(rows=60)
    found = {}
    for asked in (None, 0.0):
        seen = []
        for seed in range(200):
            _, new = released("score_mix", y, x, seed=seed, correlation=asked)
            seen.append(
                np.sum(generalised_qr(residuals(y, x)).scores * generalised_qr(residuals(new, x)).scores, axis=0)
            )
        found[asked] = np.array(seen)
    assert np.abs(found[0.0]).max() <= 1e-10
    # As a random direction among 60 - 3: standard deviation 1 / sqrt(57), mean zero.
    spread = 1 / np.sqrt(57)
    assert np.abs(found[None].std(axis=0) / spread - 1).max() < 4 / np.sqrt(2 * 200)
    assert np.abs(found[None].mean(axis=0)).max() < 4 * spread / np.sqrt(200)


def test_residuals_have_the_correlations_asked_for() -> None:
    y, x = population()
    asked = np.array([0.9, 0.3, 0.0, 0.6])
    release, new = released("residual_mix", y, x, seed=1, correlation=asked.tolist())
    old_residuals, new_residuals = residuals(y, x), residuals(new, x)
    reached = np.sum(old_residuals * new_residuals, axis=0) / np.square(old_residuals).sum(axis=0)
    assert release.found["alpha"] == 1
    assert np.abs(reached - asked).max() <= 1e-10
    for name, dose in release.dose.items():
        assert dose.achieved == pytest.approx(dose.asked, abs=1e-9), name


def test_where_correlations_have_no_solution_all_are_lowered_alike_or_refused() -> None:
    rng = np.random.default_rng(0)
    common = rng.standard_normal((ROWS, 1))
    y = common + 0.1 * rng.standard_normal((ROWS, 3))
    asked = [0.99, 0.0, 0.5]
    release, new = released("residual_mix", y, None, seed=1, correlation=asked)
    alpha, limit = release.found["alpha"], release.found["alpha_limit"]
    centred = y - y.mean(axis=0)
    # The paper's own formula: the limit is the root of the smallest eigenvalue of E'E (Eg'Eg)^-1, or its inverse.
    part = centred * np.array(asked)
    largest = np.linalg.eigvals(np.linalg.solve(centred.T @ centred, part.T @ part)).real.max()
    assert limit == pytest.approx(1 / np.sqrt(largest), rel=1e-9)
    assert limit / (1 + 1e-7) == pytest.approx(alpha, rel=1e-12)
    reached = [float(np.corrcoef(y[:, j], new[:, j])[0, 1]) for j in range(3)]
    assert np.abs(np.array(reached) - alpha * np.array(asked)).max() <= 1e-10
    assert any("alpha" in said for said in release.warnings)
    with pytest.raises(DataError, match="the largest alpha is 0"):
        released("residual_mix", y, None, correlation=asked, lower=False)


def test_equal_correlations_make_both_mixtures_the_same() -> None:
    y, x = population()
    draws = np.random.default_rng(1).standard_normal(y.shape)
    both = [released(method, y, x, correlation=0.4, draws=draws)[1] for method in ("score_mix", "residual_mix")]
    assert np.abs(both[0] - both[1]).max() <= 1e-12


def test_ipso_is_what_romm_and_a_free_mixture_become() -> None:
    y, x = population()
    draws = np.random.default_rng(1).standard_normal(y.shape)
    _, ipso = released("ipso", y, x, draws=draws)
    without = [{"noise": np.inf}, {"noise": 1e300}, {"target_correlation": 1e-300}]
    for method, given in (*(("romm", one) for one in without), ("score_mix", {"correlation": None})):
        _, new = released(method, y, x, draws=draws, **given)
        assert np.abs(new - ipso).max() <= 1e-12, method
    _, corrected = released("correct", y, x, other=draws)
    assert np.abs(corrected - ipso).max() <= 1e-12


def test_correcting_what_is_exact_changes_nothing_and_correcting_twice_neither() -> None:
    y, x = population()
    _, same = released("correct", y, x, other=y)
    assert np.abs(same - y).max() <= 1e-12
    _, once = released("correct", y, x, other=masked(y))
    _, twice = released("correct", y, x, other=once)
    assert np.abs(once - twice).max() <= 1e-12


def test_correcting_moves_another_masker_little_and_the_first_columns_least() -> None:
    """With QR; 10 % noise as in the paper's use."""
    y, _ = population(rows=3000)
    other = y + 0.1 * y.std(axis=0) * np.random.default_rng(5).standard_normal(y.shape)
    _, new = released("correct", y, None, other=other)
    moved = np.sqrt(np.square(new - other).mean(axis=0)) / y.std(axis=0)
    assert moved.max() < 0.05
    assert moved[0] < moved[-1]


def test_synthetic_addition_adds_what_is_uncorrelated_with_what_it_starts_from() -> None:
    y, x = population()
    start = 0.5 * y
    release, new = released("synthetic_addition", y, x, other=start, seed=2)
    assert release.found["alpha"] == 1
    added = residuals(new, x) - residuals(start, x)
    cross = residuals(start, x).T @ added
    assert np.abs(cross).max() <= 1e-10 * np.abs(y.T @ y).max()


def test_romm_is_a_random_orthogonal_matrix_whose_basis_begins_with_the_scores() -> None:
    """Eq. 15 and eq. 17 give the same release from coupled draws; with another basis they do not."""
    y, x = population(rows=20)
    rows, noise = len(y), 0.4
    rng = np.random.default_rng(4)
    design = np.column_stack([np.ones(rows), x])
    scores = generalised_qr(residuals(y, x)).scores
    full, _ = np.linalg.qr(np.hstack([design, scores, rng.standard_normal((rows, rows - 3 - WIDTH))]))
    for basis_starts_with_scores in (True, False):
        others = full[:, 3 + WIDTH :]
        space = np.hstack([scores, others]) if basis_starts_with_scores else np.hstack([others, scores])
        h = rng.standard_normal((rows - 3, rows - 3))
        turn = generalised_qr(np.eye(rows - 3) + noise * h).scores
        fit = full[:, :3] @ full[:, :3].T
        by_matrix = (fit + space @ turn @ space.T) @ y
        # Normal deviates in the basis of the residuals, and any in the span of the public columns.
        draws = space @ h[:, :WIDTH] + full[:, :3] @ rng.standard_normal((3, WIDTH))
        _, new = released("romm", y, x, noise=noise, draws=draws)
        gap = float(np.abs(new - by_matrix).max())
        assert gap <= 1e-11 if basis_starts_with_scores else gap > 0.1


@pytest.mark.parametrize("target", [0.9, 0.5, 0.2])
def test_a_target_correlation_is_met_on_average(target: float) -> None:
    y, x = population(rows=5000)
    _, new = released("romm", y, x, target_correlation=target, seed=1)
    reached = np.sum(generalised_qr(residuals(y, x)).scores * generalised_qr(residuals(new, x)).scores, axis=0)
    assert np.abs(reached - target).max() < 4 / np.sqrt(5000)


@pytest.mark.slow
def test_every_direction_is_as_likely_as_any_other() -> None:
    """Signs are fixed: without that the first score of the first record would have one sign in every draw."""
    y, _ = population(rows=12)
    centred = y - y.mean(axis=0)
    positive = 0
    for seed in range(400):
        _, new = released("ipso", y, None, seed=seed)
        positive += int(np.sum((new - new.mean(axis=0))[0] * centred[0]) > 0)
    assert abs(positive - 200) < 4 * np.sqrt(400 / 4)


def test_small_units_are_not_lost_with_svd() -> None:
    """A rank decided on raw columns drops one in units a billion times smaller than another's."""
    y, x = population()
    y = y * np.array([1e6, 1.0, 1e-3, 1.0])
    release, new = released("ipso", y, x, seed=1, decomposition="svd")
    assert np.abs(new.var(axis=0) / y.var(axis=0) - 1).max() <= 1e-9
    assert release.components.variance.size == WIDTH


@pytest.mark.parametrize("ratio", [1e3, 1e6, 1e12])
@pytest.mark.parametrize("method", ["ipso", "score_mix", "romm", "correct"])
def test_units_do_not_matter_with_svd(method: str, ratio: float) -> None:
    """Loadings from singular vectors have errors as large as the last digit of the largest column."""
    y, x = population()
    y = y * np.array([1.0, ratio, 1 / ratio, 1.0])
    given = options(method, y) | {"decomposition": "svd"}
    _, new = released(method, y, x, seed=1, **given)
    assert relative(new.T @ new, y.T @ y, y, y) <= 1e-12


def test_svd_has_as_many_scores_as_qr() -> None:
    """Powers of a column: each adds more than round-off to those before it, but the last singular value is below it."""
    powers = np.random.default_rng(0).uniform(0, 1, (200, 1)) ** np.arange(1, 11)
    centred = powers - powers.mean(axis=0)
    lengths = np.linalg.svd(centred / np.linalg.norm(centred, axis=0), compute_uv=False)
    assert lengths[-1] < 1e-7 * lengths[0]
    for method in ("ipso", "score_mix", "romm"):
        release, new = released(method, powers, None, seed=1, decomposition="svd")
        assert release.components.variance.size == 10
        assert relative(np.cov(new.T), np.cov(powers.T), powers - powers.mean(0), powers - powers.mean(0)) <= 1e-12


def test_lapack_finds_what_one_column_after_the_other_finds() -> None:
    rng = np.random.default_rng(0)
    for rows, width in ((40, 5), (5, 5), (1, 1), (300, 1)):
        matrix = rng.standard_normal((rows, width)) * np.geomspace(1, 1e-8, width)
        plain = gram_schmidt(matrix)
        found = generalised_qr(matrix)
        assert np.abs(found.scores - plain.scores).max() <= 1e-12
        assert (np.diagonal(found.loadings) > 0).all()
        assert np.abs((found.scores @ found.loadings - matrix) / np.linalg.norm(matrix, axis=0)).max() <= 1e-14
    dependent = np.column_stack([matrix, 2 * matrix, rng.standard_normal(300)])
    assert generalised_qr(dependent).rank == 2


def gram_schmidt(matrix: Array) -> Factors:
    scores = np.zeros_like(matrix)
    for j, column in enumerate(matrix.T):
        left = column - scores @ (scores.T @ column)
        left -= scores @ (scores.T @ left)
        scores[:, j] = left / np.linalg.norm(left)
    return Factors(scores, scores.T @ matrix)


@pytest.mark.parametrize("share", [1e-4, 1e-5, 1e-6])
@pytest.mark.parametrize("method", FAMILY)
def test_public_columns_may_be_nearly_collinear(method: str, share: float) -> None:
    y, x = population()
    x = np.column_stack([x, x[:, 0] + share * np.random.default_rng(1).standard_normal(ROWS)])
    release, new = released(method, y, x, seed=1, **options(method, y))
    centred = x - x.mean(axis=0)
    assert relative(centred.T @ new, centred.T @ y, centred, y) <= 1e-12
    # In the direction in which the columns differ too, up to the digits that are left there.
    gap = (x[:, 2] - x[:, 0])[:, None]
    gap = gap - gap.mean()
    assert relative(gap.T @ new, gap.T @ y, gap, y) <= 1e-14 / share
    assert release.kept["covariance"] <= 1e-12


def test_public_columns_that_follow_from_others_tie_nothing_down() -> None:
    """Regions beside the countries they lie in: as many rows are needed as the rank says, and lambda knows it too."""
    y, x = population(rows=30)
    y, x = y[:, :3], x[:, :1]
    many = x * np.arange(1, 25)
    with pytest.raises(DataError, match="7 rows are too few for 3 fresh scores beside 3 kept ones"):
        released("score_mix", y[:7], x[:7], correlation=0.5, seed=1)
    release, new = released("score_mix", y, many, correlation=0.5, seed=1)
    assert relative(x.T @ new, x.T @ y, x, y) <= 1e-12
    draws = np.random.default_rng(0).standard_normal(y.shape)
    one, other = (released("romm", y, those, target_correlation=0.5, draws=draws)[1] for those in (x, many))
    assert np.abs(one - other).max() <= 1e-10
    assert release.kept["covariance"] <= 1e-12


@pytest.mark.parametrize("method", FAMILY)
def test_a_column_that_public_ones_determine_is_refused_by_name(method: str) -> None:
    y, x = population()
    frame = pd.DataFrame({"wage": y[:, 0], "tax": 0.3 * x[:, 0] - x[:, 1], "age": x[:, 0], "size": x[:, 1]})
    given = {"other": frame[["wage", "tax"]] * 1.01} if method in ("correct", "synthetic_addition") else {}
    with pytest.raises(DataError, match="'tax' follows from 'age', 'size'"):
        mv.protect(frame, method, confidential=["wage", "tax"], public=["age", "size"], **given)
