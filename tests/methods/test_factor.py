"""Factor masking (Calviño, Aldeguer and Domingo-Ferrer 2017): the contract, what is kept, and whom it protects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from reference import tarragona

import microveil as mv
from microveil.assess import quick_risk
from microveil.core.moments import moments
from microveil.core.rng import Streams
from microveil.core.table import Matrix, Microdata
from microveil.decompose.factor import principal_axes
from microveil.decompose.select import columns_first
from microveil.engines.pipeline import Spectrum, protected
from microveil.engines.rows import RunContext
from microveil.engines.scores import RebuildMap
from microveil.errors import DataError, ParameterError
from microveil.methods import METHODS
from microveil.perturb import PERTURBATIONS

Array = NDArray[np.float64]
NAMES = ["income", "tax", "assets", "debt", "rent"]


def skewed(seed: int = 0, rows: int = 300, columns: int = 5) -> Array:
    rng = np.random.default_rng(seed)
    common = rng.gamma(1.5, size=(rows, 2)) @ rng.uniform(0.3, 1, size=(2, columns))
    return common + rng.gamma(2.0, size=(rows, columns)) * rng.uniform(0.5, 1, size=columns) + 10


def correlated(rho: float, rows: int = 400) -> Array:
    """Two columns whose sample correlation is rho to the last digit."""
    raw = np.random.default_rng(0).gamma(2.0, size=(rows, 2))
    white = np.linalg.qr(raw - raw.mean(axis=0))[0]
    return white @ np.linalg.cholesky([[1, rho], [rho, 1]]).T


def two_groups(rows: int = 2000) -> Array:
    """Columns 0, 1, 2 share one factor and columns 3, 4, 5 another; the groups have nothing in common."""
    rng = np.random.default_rng(1)
    factors = np.repeat(rng.gamma(2.0, size=(rows, 2)), 3, axis=1)
    return factors + 0.6 * rng.gamma(2.0, size=(rows, 6))


def standardised(data: Array) -> Array:
    return (data - data.mean(axis=0)) / data.std(axis=0)


def covariance_gaps(data: Array, releases: list[Array]) -> Array:
    """Covariances of the releases less those of the data, in standard deviations: releases x columns x columns."""
    sd = data.std(axis=0)
    return np.array([np.cov((out / sd).T, ddof=0) - np.cov((data / sd).T, ddof=0) for out in releases])


def spectrum_of(data: Array, places: list[int] | None = None, **params: Any) -> Spectrum:
    table = Microdata(Matrix.from_array(data), tuple(f"x{j}" for j in range(data.shape[1])))
    plan = METHODS["factor"].plan(params)
    summary = moments(table.pieces, table.count)
    every = list(range(data.shape[1]))
    alone = RebuildMap(table.names, np.eye(len(every)), every)
    return protected(RunContext(plan, Streams(1)), table, summary, places or [], lambda: alone, Matrix)[1]


# --- The contract


@pytest.mark.parametrize("kind", ["numpy", "pandas", "polars", "arrow"])
def test_the_same_kind_comes_back_and_the_input_stays(kind: str) -> None:
    values = skewed()
    make = {
        "numpy": lambda: values.copy(),
        "pandas": lambda: pd.DataFrame(values, columns=NAMES),
        "polars": lambda: pl.DataFrame(values, schema=NAMES),
        "arrow": lambda: pa.table(dict(zip(NAMES, values.T, strict=True))),
    }[kind]
    data = make()
    out = mv.protect(data, "factor", seed=3).data
    assert type(out) is type(data)
    columns = range(5) if kind == "numpy" else NAMES
    before, after = (
        np.column_stack([np.asarray(t[:, c] if kind == "numpy" else t[c]) for c in columns]) for t in (data, out)
    )
    assert np.array_equal(before, values)
    assert np.array_equal(after, mv.protect(values, "factor", seed=3).data)


@pytest.mark.slow
@pytest.mark.parametrize("params", [{}, {"scores": "regression"}, {"rest": "keep"}], ids=str)
def test_seeds_repeat_and_differ(params: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    data = skewed(rows=20_000)
    first = mv.protect(data, "factor", seed=1, **params).data
    for threads in ("1", "3"):
        monkeypatch.setenv("MICROVEIL_THREADS", threads)
        assert np.array_equal(mv.protect(data, "factor", seed=1, **params).data, first)
    assert (mv.protect(data, "factor", seed=2, **params).data != first).mean() > 0.9
    assert (mv.protect(data, "factor", **params).data != first).mean() > 0.9


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"scores": "regression", "exact": False},
        {"extraction": "ml", "factors": 2, "rotation": "varimax", "rest": "keep"},
        {"select": "loads_on_sensitive", "rotation": "sensitive_first", "sensitive": ["tax"], "threshold": 0.4},
        {"select": [1, 0], "perturb": "redraw", "bandwidth_ratio": 0.5},
        {"select": 1, "rest": "perturb_sensitive", "sensitive": ["debt", "tax"]},
    ],
    ids=str,
)
def test_the_recipe_replays(params: dict[str, Any]) -> None:
    data = pd.DataFrame(skewed(), columns=NAMES)
    release = mv.protect(data, "factor", **params)
    recipe = release.recipe(include_seed=True)
    again = mv.protect(data, recipe["method"], seed=recipe["seed"], **recipe["parameters"])
    pd.testing.assert_frame_equal(again.data, release.data, check_exact=True)


@pytest.mark.quick("noise", "shuffle", "redraw")
@pytest.mark.parametrize("perturb", PERTURBATIONS)
def test_every_perturbation_goes_with_factors(perturb: str) -> None:
    release = mv.protect(skewed(), "factor", perturb=perturb, seed=1)
    assert release.kept["covariance"] < 1e-10
    replaces = PERTURBATIONS[perturb].replaces
    assert release.release_type == ("synthetic" if replaces else "masked")
    assert mv.protect(skewed(), "factor", perturb=perturb, rest="keep", seed=1).release_type == (
        "hybrid" if replaces else "masked"
    )


@pytest.mark.parametrize("params", [{}, {"scores": "regression"}, {"rest": "keep"}], ids=str)
def test_hostile_data_give_finite_output(params: dict[str, Any]) -> None:
    rng = np.random.default_rng(2)
    base = skewed(rows=60, columns=4)
    hostile = {
        "huge": base * 1e140,
        "tiny": base * 1e-140,
        "mixed units": base * [1e100, 1e-100, 1, 1e50],
        "spikes": np.where(rng.random(base.shape) < 0.9, 0.0, base),
        "twins": np.column_stack([base, base]),
        "two values": rng.integers(0, 2, (60, 4)).astype(float),
        "nearly a sum": np.column_stack([base, base.sum(axis=1) + 1e-6 * rng.normal(size=60)]),
        "few rows": base[:10],
    }
    for name, data in hostile.items():
        release = mv.protect(data, "factor", seed=3, rules=None, **params)
        assert np.isfinite(release.data).all(), name
        assert max(release.kept.values()) < 1e-9, name


@pytest.mark.parametrize("scores", ["exact", "regression"])
def test_missing_cells_strata_and_public_columns_go_along(scores: str) -> None:
    rng = np.random.default_rng(4)
    data = pd.DataFrame(skewed(4), columns=NAMES).assign(g=np.repeat(["x", "y"], 150), x=rng.normal(size=300))
    holed = data.mask((rng.random(data.shape) < 0.1) & ~data.columns.isin(["g", "x"]))
    release = mv.protect(holed, "factor", strata="g", public="x", scores=scores, seed=1)
    assert release.data.isna().equals(holed.isna())
    for group in ("x", "y"):
        rows = data["g"] == group
        before, after = holed.loc[rows, NAMES], release.data.loc[rows, NAMES]
        assert ((after.mean() - before.mean()).abs() / before.std()).max() < 1e-10


@pytest.mark.parametrize("params", [{}, {"rest": "keep"}, {"scores": "regression"}], ids=str)
def test_exact_moments_with_weights_and_public_columns(params: dict[str, Any]) -> None:
    rng = np.random.default_rng(5)
    data = pd.DataFrame(skewed(5), columns=NAMES).assign(w=rng.uniform(1, 5, 300), x=rng.gamma(1.0, size=300))
    data[NAMES] += data[["x"]].to_numpy() * rng.uniform(0, 2, 5)
    out = mv.protect(data, "factor", weight="w", public="x", seed=1, **params).data
    columns = [*NAMES, "x"]
    before, after = (np.cov(t[columns].to_numpy().T, aweights=data["w"], ddof=0) for t in (data, out))
    sd = np.sqrt(np.diagonal(before))
    assert (np.abs(after - before) / np.outer(sd, sd)).max() < 1e-12
    assert np.abs(np.corrcoef(data["tax"], out["tax"])[0, 1]) < 0.9


# --- Covariances: kept on average by exact scores, not by regression scores


@pytest.mark.slow
@pytest.mark.parametrize("params", [{}, {"rest": "keep"}, {"factors": 1}, {"select": [0], "rest": "keep"}], ids=str)
def test_exact_scores_keep_the_covariances_on_average(params: dict[str, Any]) -> None:
    data = skewed(6)
    repeats = 300
    seeds = range(1000, 1000 + repeats)
    gaps = covariance_gaps(data, [mv.protect(data, "factor", exact=False, seed=s, **params).data for s in seeds])
    error = gaps.std(axis=0) / np.sqrt(repeats)
    assert (np.abs(gaps.mean(axis=0)) < 4 * error + 1e-12).all()
    release = mv.protect(data, "factor", exact=False, seed=1, **params)
    assert release.kept_on_average == ("covariance",)
    assert set(release.kept) == {"mean"}


@pytest.mark.slow
@pytest.mark.parametrize(("rho", "left"), [(0.5, 2 / 3), (0.2, 1 - 2 * 0.2 * (1 - 0.4 / 1.2))])
def test_regression_scores_shrink_the_variances(rho: float, left: float) -> None:
    # One factor with loadings sqrt(rho): the data tell S = 2 rho / (1 + rho) of it, and 1 - 2 rho (1 - S) stays.
    data = correlated(rho)
    repeats = 200
    options: dict[str, Any] = {"scores": "regression", "exact": False}
    gaps = covariance_gaps(data, [mv.protect(data, "factor", seed=s, **options).data for s in range(repeats)])
    ratios = 1 + gaps[:, [0, 1], [0, 1]]
    error = ratios.std(axis=0) / np.sqrt(repeats)
    assert (np.abs(ratios.mean(axis=0) - left) < 4 * error).all()
    release = mv.protect(data, "factor", seed=1, **options)
    assert release.kept_on_average == ()
    assert set(release.kept) == {"mean"}


@pytest.mark.slow
def test_regression_scores_shrink_tarragona_to_95_per_cent() -> None:
    _, data = tarragona()
    options: dict[str, Any] = {"scores": "regression", "exact": False, "rest": "keep"}
    releases = [mv.protect(data, "factor", seed=s, **options).data for s in range(60)]
    ratios = np.mean([out.var(axis=0) / data.var(axis=0) for out in releases], axis=0)
    assert ratios.mean() == pytest.approx(0.945, abs=0.005)
    assert ratios.min() == pytest.approx(0.89, abs=0.02)


def test_exact_moments_restore_what_regression_scores_lost_without_undoing_them() -> None:
    # Regression scores and the rest are functions of each other: moments of the scores would bring the data back.
    data = skewed(7)
    for rest in ("keep", "perturb"):
        release = mv.protect(data, "factor", scores="regression", rest=rest, seed=1)
        assert np.abs(covariance_gaps(data, [release.data])).max() < 1e-12
        assert min(dose.achieved for dose in release.dose.values()) > 0.1
        loose = mv.protect(data, "factor", scores="regression", rest=rest, exact=False, seed=1)
        agreement = [np.corrcoef(release.data[:, j], loose.data[:, j])[0, 1] for j in range(5)]
        assert min(agreement) > 0.95


# --- The rest


def untouched_rest(spectrum: Spectrum) -> Array:
    """The share of each column's variance that no factor has and that came through as it was."""
    kept = [k for k in range(spectrum.axes.shared, spectrum.axes.count) if k not in spectrum.selected]
    return np.asarray(spectrum.shares[kept].sum(axis=0))


def test_the_rest_that_stays_is_reported() -> None:
    data = skewed(8)
    release = mv.protect(data, "factor", rest="keep", seed=1)
    told = [warning for warning in release.warnings if warning.startswith("the rest of the columns")]
    own = 1 - np.square(principal_axes(np.corrcoef(data.T), 5)).sum(axis=1)
    assert len(told) == 1
    assert f"{own.mean():.0%} of their variance" in told[0]
    assert f"the most in '{own.argmax()}' ({own.max():.0%})" in told[0]
    assert not any("rest" in warning for warning in mv.protect(data, "factor", seed=1).warnings)

    spectrum = spectrum_of(data, rest="keep")
    assert np.allclose(untouched_rest(spectrum), own, atol=1e-12)
    assert spectrum.names[:2] == ("factor 1", "factor 2")
    assert spectrum.names[-1] == "rest of x4"
    assert spectrum.unmoved == 5 - spectrum.axes.shared
    whole = spectrum_of(data)
    assert not untouched_rest(whole).any()
    assert whole.unmoved == whole.untouched == 0


def test_the_rest_of_sensitive_columns_can_be_perturbed_alone() -> None:
    data = skewed(9)
    spectrum = spectrum_of(data, [1, 3], select=1, rest="perturb_sensitive", sensitive=(1, 3))
    own = 1 - np.square(principal_axes(np.corrcoef(data.T), 5)).sum(axis=1)
    assert np.allclose(untouched_rest(spectrum), own * [1, 0, 1, 0, 1], atol=1e-12)


def linked_by_what_came_through(data: Array, released: Array, factors: int) -> float:
    """Share of records an intruder links by the combinations of columns that no factor of the release has a part in."""
    before, after = standardised(data), (released - data.mean(axis=0)) / data.std(axis=0)
    loadings = principal_axes(np.corrcoef(released.T), factors)
    through = np.linalg.svd(loadings)[0][:, loadings.shape[1] :]
    gaps = np.square((before @ through)[:, None] - (after @ through)[None]).sum(axis=2)
    return float((gaps.argmin(axis=1) == np.arange(len(data))).mean())


def test_a_rest_that_stays_links_every_record() -> None:
    data = skewed(10)
    kept = mv.protect(data, "factor", rest="keep", seed=1)
    assert linked_by_what_came_through(data, kept.data, 5) == 1.0
    assert any("1 combinations of the columns come through exactly" in warning for warning in kept.warnings)
    assert linked_by_what_came_through(data, mv.protect(data, "factor", seed=1).data, 5) < 0.03


def test_a_rest_that_stays_links_every_tarragona_record() -> None:
    _, data = tarragona()
    assert linked_by_what_came_through(data, mv.protect(data, "factor", rest="keep", seed=1).data, 13) == 1.0
    assert linked_by_what_came_through(data, mv.protect(data, "factor", seed=1).data, 13) < 0.02
    few = mv.protect(data, "factor", rest="keep", factors=4, exact=False, seed=1)
    assert linked_by_what_came_through(data, few.data, 4) > 0.6


def test_with_everything_perturbed_records_link_no_more_than_chance() -> None:
    data = skewed(11, 800)
    assert quick_risk(mv.protect(data, "factor", seed=1), {})[1].value < 0.01


# --- Selective protection (§IV)


def loadings_of(data: Array, first: list[int]) -> Array:
    loadings = principal_axes(np.corrcoef(data.T), data.shape[1])
    return np.abs(loadings @ columns_first(loadings, first))


@pytest.mark.parametrize("sensitive", [[4], [2, 0]])
@pytest.mark.parametrize("rotation", ["sensitive_first", "public_first"])
def test_the_three_criteria(rotation: str, sensitive: list[int]) -> None:
    data, threshold = skewed(12), 0.35
    others = [j for j in range(5) if j not in sensitive]
    loadings = loadings_of(data, sensitive if rotation == "sensitive_first" else others)
    most_sensitive, most_public = loadings[sensitive].max(axis=0), loadings[others].max(axis=0)
    expected = {
        "loads_on_sensitive": most_sensitive > threshold,
        "not_on_public": most_public <= threshold,
        "more_sensitive_than_public": most_sensitive > most_public,
    }
    for select, meets in expected.items():
        given = {} if select == "more_sensitive_than_public" else {"threshold": threshold}
        options = {"select": select, "rotation": rotation, "rest": "keep", "sensitive": tuple(sensitive), **given}
        if meets.any():
            spectrum = spectrum_of(data, sensitive, **options)
            assert spectrum.selected == np.flatnonzero(meets).tolist(), select
        else:
            with pytest.raises(ParameterError, match=r"none of the . factors meets"):
                spectrum_of(data, sensitive, **options)


def test_an_empty_selection_is_an_error_that_says_so() -> None:
    with pytest.raises(ParameterError, match=r"^select: none of the . factors meets 'loads_on_sensitive'"):
        mv.protect(skewed(), "factor", select="loads_on_sensitive", threshold=0.99, sensitive=0)


def test_public_first_finds_no_factor_for_four_tarragona_variables() -> None:
    _, data = tarragona()
    options: dict[str, Any] = {"rotation": "public_first", "select": "more_sensitive_than_public", "rest": "keep"}
    without = []
    for variable in range(13):
        try:
            mv.protect(data, "factor", sensitive=variable, seed=1, **options)
        except ParameterError:
            without.append(variable + 1)
    assert without == [2, 6, 10, 12]


def test_only_the_columns_of_the_sensitive_group_change() -> None:
    data = two_groups()
    options: dict[str, Any] = {"rotation": "sensitive_first", "factors": 2, "select": "loads_on_sensitive"}
    release = mv.protect(data, "factor", sensitive=[0], rest="keep", seed=1, **options)
    changed = np.array([dose.achieved for dose in release.dose.values()])
    assert changed[:3].min() > 0.5
    assert changed[3:].max() < 0.01
    more = mv.protect(data, "factor", sensitive=[0], rest="perturb_sensitive", seed=1, **options)
    assert more.dose["0"].achieved > 0.95
    assert more.dose["1"].achieved == pytest.approx(release.dose["1"].achieved, abs=0.05)


def test_rotations_change_which_factors_there_are_but_not_what_they_explain() -> None:
    data = skewed(13)
    shares = [
        spectrum_of(data, [3] if rotation.endswith("first") else [], rotation=rotation).shares
        for rotation in ("none", "varimax", "sensitive_first", "public_first")
    ]
    count = shares[0].shape[0] - 5
    for other in shares[1:]:
        assert np.allclose(other[:count].sum(axis=0), shares[0][:count].sum(axis=0), atol=1e-12)
        assert np.allclose(other[count:], shares[0][count:], atol=1e-12)
        assert np.abs(other[:count] - shares[0][:count]).max() > 0.05
    assert np.allclose(shares[2][1:count, 3], 0, atol=1e-12)


def test_variances_of_turned_regression_scores_are_theirs() -> None:
    data = skewed(14)
    spectrum = spectrum_of(data, rotation="varimax", scores="regression")
    scores = (data - data.mean(axis=0)) @ spectrum.axes.projection
    assert np.allclose(scores.var(axis=0), spectrum.axes.variance, rtol=1e-10)


# --- Errors


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"select": "sensitive"}, "^select: "),
        ({"select": []}, "^select: the list is empty"),
        ({"select": [0, 0]}, "^select: a component is listed twice"),
        ({"select": [4]}, "^select: there is no component 4"),
        ({"select": 5}, "^select: 5 asked, but there are 4"),
        ({"select": True}, "^select: true and false"),
        ({"threshold": 0.5}, "^threshold: threshold goes with"),
        ({"threshold": 1.0, "select": "not_on_public"}, "^threshold: "),
        ({"rotation": "promax"}, "^rotation: "),
        ({"rest": "drop"}, "^rest: "),
        ({"scores": "bartlett"}, "^scores: "),
        ({"extraction": "pca"}, "^extraction: "),
        ({"factors": 0}, "^factors: "),
        ({"factors": 6}, "^factors: 6 asked, but there are 5 columns"),
        ({"sensitive": [0]}, "^sensitive: plays no part"),
        ({"sensitive": [9], "rotation": "sensitive_first"}, "^sensitive: there is no column"),
        ({"rotation": "sensitive_first"}, "^sensitive: no column named; rotation='sensitive_first' needs"),
        ({"rotation": "public_first"}, "^sensitive: no column named"),
        ({"select": "not_on_public"}, "^sensitive: no column named; select='not_on_public' needs"),
        ({"rest": "perturb_sensitive"}, "^sensitive: no column named; rest='perturb_sensitive' needs"),
        ({"components": 1}, "factor.* has no parameter 'components'"),
        ({"wieght": 1}, "factor.* has no parameter 'wieght'; did you mean 'weight'\\?"),
        ({"factor": 1}, "factor.* has no parameter 'factor'; did you mean 'factors'\\?"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused_by_name(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        mv.protect(skewed(), "factor", seed=1, **params)


def test_columns_without_anything_in_common_have_nothing_to_perturb_but_the_rest() -> None:
    rng = np.random.default_rng(2)
    data = np.linalg.qr(np.column_stack([np.ones(60), rng.normal(size=(60, 4))]))[0][:, 1:]
    with pytest.raises(DataError, match="no common factor"):
        mv.protect(data, "factor", rest="keep")
    assert mv.protect(data, "factor", seed=1).kept["covariance"] < 1e-12


def test_too_few_rows_for_exact_scores_are_told() -> None:
    with pytest.raises(DataError, match=r"exact scores of . factors of 4 columns need more than 7 rows; use scores="):
        mv.protect(skewed(rows=7, columns=4), "factor", exact=False)
    assert np.isfinite(mv.protect(skewed(rows=7, columns=4), "factor", scores="regression", seed=1).data).all()


def test_one_column_has_no_factors() -> None:
    with pytest.raises(DataError, match="at least 2 columns"):
        mv.protect(skewed()[:, :1], "factor")
