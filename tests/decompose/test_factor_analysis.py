"""Factor analysis as algebra: Z = F L' + e, and what of it is exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from reference import census, tarragona

from microveil.core.errors import ParameterError
from microveil.core.moments import moments
from microveil.core.rng import Streams
from microveil.core.table import Matrix, Microdata
from microveil.decompose import Axes, FactorAnalysis, fit_centre
from microveil.decompose import factor as fa
from microveil.engines import pipeline, rows

Array = NDArray[np.float64]
EXTRACTIONS = list(fa.EXTRACTIONS)


def skewed(seed: int = 0, rows: int = 500, columns: int = 5) -> Array:
    """Columns that share much, and have something of their own each: the rounds of principal axes converge on them."""
    rng = np.random.default_rng(seed)
    common = rng.gamma(1.5, size=(rows, 2)) @ rng.uniform(0.3, 1, size=(2, columns))
    return common + rng.gamma(2.0, size=(rows, columns)) * rng.uniform(0.5, 1, size=columns) + 10


def correlated(rho: float, rows: int = 400, seed: int = 0) -> Array:
    """Two columns whose sample correlation is rho to the last digit."""
    rng = np.random.default_rng(seed)
    raw = rng.gamma(2.0, size=(rows, 2))
    white = np.linalg.qr(raw - raw.mean(axis=0))[0]
    return white @ np.linalg.cholesky([[1, rho], [rho, 1]]).T


@dataclass
class Parts:
    """A table taken apart: standardised data, scores of factors and of the rest, loadings of both."""

    z: Array
    factors: Array
    rest: Array
    loadings: Array
    rest_loadings: Array
    axes: Axes
    weights: Array

    @property
    def e(self) -> Array:
        return self.rest @ self.rest_loadings

    def cov(self, left: Array, right: Array) -> Array:
        return (left * self.weights[:, None]).T @ right / self.weights.sum()


def parts_of(data: Array, *, public: int = 0, weights: Array | None = None, **params: Any) -> Parts:
    """As the pipeline takes the columns after the public ones apart."""
    names = tuple(f"x{j}" for j in range(data.shape[1]))
    table = Microdata(Matrix.from_array(data), names, public, weights)
    summary = moments(table.pieces, table.count, weights=weights)
    centre = rows.refined(table, fit_centre(summary, public), summary)
    stream = Streams(7).stream("decompose", 0)
    axes = FactorAnalysis(**params).fit(centre.centred, lambda most: data, stream)
    source = pipeline._source(rows.ColumnTask(table, centre, axes, []), stream)
    scores = rows.scores_of(source, np.empty((axes.count, table.count))).T
    sd = centre.centred.sd
    whole = slice(0, table.count)
    residuals = rows.centred(centre, table.pieces(whole), whole)[public:].T
    return Parts(
        z=residuals / sd,
        factors=scores[:, : axes.shared],
        rest=scores[:, axes.shared :],
        loadings=axes.weights[:, : axes.shared],
        rest_loadings=axes.loadings[axes.shared :] / sd,
        axes=axes,
        weights=np.ones(table.count) if weights is None else weights,
    )


# --- The identity, and exact scores (Guttman 1955)


@pytest.mark.parametrize("scores", ["exact", "regression"])
@pytest.mark.parametrize("factors", ["all", 1, 3])
@pytest.mark.parametrize("extraction", EXTRACTIONS)
def test_the_data_are_factors_and_rest(extraction: str, factors: Any, scores: str) -> None:
    found = parts_of(skewed(), extraction=extraction, factors=factors, scores=scores)
    assert np.abs(found.factors @ found.loadings.T + found.e - found.z).max() < 1e-12
    assert np.allclose(found.axes.loadings, (found.axes.weights * skewed().std(axis=0)[:, None]).T, rtol=1e-12)


@pytest.mark.parametrize("factors", ["all", 1, 3])
@pytest.mark.parametrize("extraction", EXTRACTIONS)
def test_exact_scores_are_what_the_model_says(extraction: str, factors: Any) -> None:
    found = parts_of(skewed(), extraction=extraction, factors=factors)
    count = found.axes.shared
    assert np.abs(found.factors.mean(axis=0)).max() < 1e-12
    assert np.abs(found.cov(found.factors, found.factors) - np.eye(count)).max() < 1e-12
    assert np.abs(found.cov(found.factors, found.e)).max() < 1e-12
    assert np.abs(found.cov(found.z, found.factors) - found.loadings).max() < 1e-12
    rest = np.corrcoef(found.z.T) - found.loadings @ found.loadings.T
    assert np.abs(found.cov(found.e, found.e) - rest).max() < 1e-12
    # The components of the rest are uncorrelated too, so that perturbing them one by one keeps the covariance of e.
    assert np.abs(found.cov(found.rest, found.rest) - np.eye(found.rest.shape[1])).max() < 1e-11
    assert np.allclose(found.axes.variance, 1)


@pytest.mark.parametrize("seed", range(4))
def test_with_all_factors_each_column_has_a_rest_of_its_own(seed: int) -> None:
    found = parts_of(skewed(seed))
    own = 1 - np.square(found.loadings).sum(axis=1)
    assert np.abs(found.cov(found.e, found.e) - np.diag(own)).max() < 1e-12
    assert np.abs(found.rest * np.sqrt(own) - found.e).max() < 1e-10
    assert found.axes.rest_of == (0, 1, 2, 3, 4)
    assert found.axes.shared < 5


def test_exact_scores_heed_survey_weights_and_public_columns() -> None:
    rng = np.random.default_rng(3)
    public = rng.normal(size=(500, 2))
    data = np.column_stack([public, skewed() + public @ rng.normal(size=(2, 5))])
    weights = rng.uniform(0.5, 4, 500)
    found = parts_of(data, public=2, weights=weights)
    assert np.abs(found.factors @ found.loadings.T + found.e - found.z).max() < 1e-12
    assert np.abs(found.cov(found.factors, found.factors) - np.eye(found.axes.shared)).max() < 1e-12
    assert np.abs(found.cov(found.factors, found.e)).max() < 1e-12
    everything = np.column_stack([np.ones(500), public])
    assert np.abs(found.cov(everything, found.factors)).max() < 1e-12


def test_regression_scores_are_the_best_guess_and_correlated_with_the_rest() -> None:
    found = parts_of(skewed(), scores="regression")
    r = np.corrcoef(found.z.T)
    assert np.abs(found.factors - found.z @ np.linalg.solve(r, found.loadings)).max() < 1e-12
    determined = found.loadings.T @ np.linalg.solve(r, found.loadings)
    assert np.abs(found.cov(found.factors, found.factors) - determined).max() < 1e-12
    assert np.allclose(found.axes.variance[: found.axes.shared], np.diagonal(determined))
    assert np.abs(found.cov(found.factors, found.e)).max() > 0.01
    assert np.abs(found.cov(found.rest, found.rest) - np.eye(5)).max() < 1e-11
    assert found.axes.noise is None


def test_exact_scores_differ_with_the_seed_but_not_what_they_say() -> None:
    # The part of a factor that the data do not tell is noise: two draws agree on the rest of it only.
    data = skewed()
    names = tuple("abcde")
    table = Microdata(Matrix.from_array(data), names)
    centre = fit_centre(moments(table.pieces, 500), 0)
    axes = FactorAnalysis().fit(centre.centred, lambda most: data, Streams(1).stream("x"))
    task = rows.ColumnTask(table, centre, axes, [])
    draws = [
        rows.scores_of(pipeline._source(task, Streams(seed).stream("x")), np.empty((axes.count, 500)))[: axes.shared]
        for seed in (1, 2)
    ]
    told = np.diagonal(axes.weights[:, : axes.shared].T @ np.linalg.solve(np.corrcoef(data.T), axes.weights))
    agreement = np.diagonal(np.corrcoef(*draws)[: axes.shared, axes.shared :])
    assert np.abs(agreement - told[: axes.shared]).max() < 4 / np.sqrt(500)


def test_near_collinear_columns_lose_no_digits() -> None:
    rng = np.random.default_rng(5)
    # Where one column is nearly the sum of others, the least that counts as a dimension is 1e-7 of a column.
    for gap, identity, model in ((1e-2, 1e-11, 1e-11), (1e-4, 1e-10, 1e-6), (1e-6, 1e-6, 0.1)):
        data = skewed(6)
        data[:, 4] = data[:, :4].sum(axis=1) + gap * rng.normal(size=500)
        for factors in ("all", 1, 2):
            found = parts_of(data, factors=factors)
            assert np.abs(found.factors @ found.loadings.T + found.e - found.z).max() < identity, (gap, factors)
            assert np.abs(found.cov(found.factors, found.factors) - np.eye(found.axes.shared)).max() < model
            # Little of what the factors explain is lost to the cut.
            assert np.square(found.loadings).sum(axis=1).min() > 0.2


# --- Extraction


@pytest.mark.parametrize("rho", [0.05, 0.5, 0.95, -0.6])
def test_two_columns_have_one_factor_with_communality_rho(rho: float) -> None:
    loadings = fa.principal_axes(np.corrcoef(correlated(rho).T), 2)
    assert loadings.shape == (2, 1)
    assert np.allclose(np.square(loadings), abs(rho), atol=1e-12)
    assert np.allclose(loadings[0] * loadings[1], rho, atol=1e-12)


def test_tarragona_has_twelve_factors_with_88_65_per_cent() -> None:
    _, data = tarragona()
    loadings = fa.principal_axes(np.corrcoef(data.T), 13)
    communalities = np.square(loadings).sum(axis=1)
    assert loadings.shape == (13, 12)
    assert communalities.mean() == pytest.approx(0.8865, abs=5e-5)
    assert communalities.max() < 0.996
    # The limit on communalities is in the way here: the rests are all but uncorrelated, not exactly.
    rest = np.corrcoef(data.T) - loadings @ loadings.T
    assert np.abs(rest - np.diag(np.diagonal(rest))).max() < 5e-4
    # R's psych::fa with minimum residuals, which the authors probably used, explains 88.72 %.
    assert np.square(fa.minres(np.corrcoef(data.T), 13)).sum() / 13 == pytest.approx(0.8872, abs=5e-4)


@pytest.mark.parametrize("of", [tarragona, census])
def test_the_identity_holds_on_the_reference_data(of: Any) -> None:
    names, data = of()
    data = data[:, [j for j, name in enumerate(names) if name != "POTHVAL"]]
    found = parts_of(data)
    assert np.abs(found.factors @ found.loadings.T + found.e - found.z).max() < 1e-12
    assert np.abs(found.cov(found.factors, found.factors) - np.eye(found.axes.shared)).max() < 1e-12
    assert np.abs(found.cov(found.factors, found.e)).max() < 1e-12


@pytest.mark.parametrize("extraction", EXTRACTIONS)
def test_a_factor_that_is_there_is_found(extraction: str) -> None:
    loading = np.array([0.9, 0.8, 0.7, 0.6, 0.5])
    correlation = np.outer(loading, loading)
    np.fill_diagonal(correlation, 1)
    found = fa.EXTRACTIONS[extraction](correlation, 1)
    assert np.abs(found[:, 0] - loading).max() < 1e-4


def test_principal_axes_and_minimum_residuals_end_in_the_same_place() -> None:
    # Both minimise the squared residual correlations, in different ways.
    correlation = np.corrcoef(skewed(8, columns=7).T)
    one, other = (extract(correlation, 2) for extract in (fa.principal_axes, fa.minres))
    assert np.abs(one @ one.T - other @ other.T).max() < 1e-3


def test_maximum_likelihood_agrees_with_scikit_learn() -> None:
    from sklearn.decomposition import FactorAnalysis as Reference

    data = skewed(9, rows=2000, columns=8)
    z = (data - data.mean(axis=0)) / data.std(axis=0)
    theirs = Reference(n_components=2, tol=1e-8, max_iter=10_000, svd_method="lapack").fit(z).components_
    ours = fa.maximum_likelihood(np.corrcoef(data.T), 2)
    assert np.abs(ours @ ours.T - theirs.T @ theirs).max() < 1e-3


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("extraction", ["minres", "ml"])
def test_gradients_are_those_of_the_functions(extraction: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from scipy.optimize import approx_fprime

    taken: list[Any] = []
    original = fa._minimised
    monkeypatch.setattr(fa, "_minimised", lambda function, r: taken.append(function) or original(function, r))
    fa.EXTRACTIONS[extraction](np.corrcoef(skewed().T), count)
    # Away from where the number of explained directions changes, at which there is no gradient.
    at = np.array([0.11, 0.37, 0.52, 0.74, 0.9])
    assert np.abs(taken[0](at)[1] - approx_fprime(at, lambda u: taken[0](u)[0], 1e-7)).max() < 1e-4


def test_factors_that_claim_more_than_there_is_are_cut_back() -> None:
    # Two factors cannot describe six mixed columns: of some combination they claim more than all of its variance.
    rng = np.random.default_rng(0)
    claims = []
    for _ in range(20):
        data = rng.gamma(1.5, size=(300, 6)) @ rng.standard_normal((6, 6))
        correlation = np.corrcoef(data.T)
        loadings = fa.principal_axes(correlation, 2)
        claims.append(np.linalg.eigvalsh(loadings.T @ np.linalg.solve(correlation, loadings))[-1])
        found = parts_of(data, factors=2)
        left = np.linalg.eigvalsh(correlation - found.loadings @ found.loadings.T)
        assert left[0] > 0
        assert np.abs(found.cov(found.factors, found.factors) - np.eye(2)).max() < 1e-11
        assert np.abs(found.factors @ found.loadings.T + found.e - found.z).max() < 1e-11
    assert min(claims) > 1
    # Columns that two factors describe well need no cut.
    well = np.corrcoef(skewed().T)
    assert np.array_equal(fa._within(well, fa.principal_axes(well, 2)), fa.principal_axes(well, 2))


def test_columns_without_anything_in_common_have_no_factor() -> None:
    rng = np.random.default_rng(2)
    data = np.linalg.qr(np.column_stack([np.ones(60), rng.normal(size=(60, 4))]))[0][:, 1:]
    found = parts_of(data)
    assert found.axes.shared == 0
    assert found.axes.noise is None
    assert np.abs(found.e - found.z).max() < 1e-12


# --- Parameters


@pytest.mark.parametrize("factors", [0, -1, 1.5, True, "some", None])
def test_bad_numbers_of_factors_are_refused(factors: Any) -> None:
    with pytest.raises(ValueError, match="factors"):
        FactorAnalysis(factors=factors)


def test_more_factors_than_columns_are_refused() -> None:
    with pytest.raises(ParameterError, match="6 asked, but there are 5 columns"):
        parts_of(skewed(), factors=6)


def test_fewer_factors_than_asked_for_are_told() -> None:
    assert parts_of(correlated(0.5), factors=2).axes.remark == "2 factors asked, but only 1 explain anything"
    assert parts_of(correlated(0.5)).axes.remark == ""


def test_only_exact_scores_count_as_uncorrelated() -> None:
    assert FactorAnalysis().uncorrelated
    assert not FactorAnalysis(scores="regression").uncorrelated
