"""Invariant coordinates: what the two scatter matrices become, and what does not depend on units and mixtures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hostile import hostile_tables
from numpy.typing import NDArray
from reference import tarragona
from sklearn.covariance import MinCovDet

import microveil as mv
from microveil.assess import quick_risk
from microveil.core.moments import moments
from microveil.core.rng import Streams
from microveil.decompose import Axes, ica
from microveil.decompose.ica import InvariantCoordinates
from microveil.errors import DataError, ParameterError

Array = NDArray[np.float64]
SCATTERS = ["cov_cov4", "mcd_cov"]
every_scatter = pytest.mark.parametrize("scatter", SCATTERS)


def mixed(seed: int = 0, rows: int = 400, columns: int = 4) -> Array:
    """Skewed sources of different kurtosis, so that no two coordinates are alike."""
    rng = np.random.default_rng(seed)
    shapes = np.geomspace(0.5, 8, columns)
    return rng.gamma(shapes, size=(rows, columns)) @ rng.standard_normal((columns, columns)) + 10


def axes_of(data: Array, scatter: str, seed: int = 1) -> Axes:
    summary = moments(lambda rows: np.ascontiguousarray(data[rows].T), len(data))
    centred = data - data.mean(axis=0)
    step = InvariantCoordinates(scatter=scatter)
    return step.fit(summary, lambda most: centred[:most], Streams(seed).stream("decompose"))


def scores_of(data: Array, scatter: str) -> Array:
    return (data - data.mean(axis=0)) @ axes_of(data, scatter).projection


def cov4(values: Array) -> Array:
    centred = values - values.mean(axis=0)
    distance = np.einsum("ij,ij->i", centred @ np.linalg.inv(np.cov(values.T, ddof=0)), centred)
    return (centred * distance[:, None]).T @ centred / (len(values) * (values.shape[1] + 2))


def mixing(seed: int, columns: int = 4) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((columns, columns)))[0]
    return turn * np.geomspace(0.1, 100, columns), rng.normal(size=columns) * 1e3


# --- The scatter matrices


def test_cov_is_the_identity_and_cov4_diagonal_in_the_new_coordinates() -> None:
    scores = scores_of(mixed(), "cov_cov4")
    assert np.abs(np.cov(scores.T, ddof=0) - np.eye(4)).max() < 1e-12
    scatter = cov4(scores)
    assert np.abs(scatter - np.diag(np.diagonal(scatter))).max() < 1e-12
    assert (np.diff(np.diagonal(scatter)) < 0).all()


def test_cov4_of_normal_data_is_the_identity() -> None:
    white = np.random.default_rng(1).standard_normal((200_000, 3))
    assert np.abs(ica._fourth_moments(white) - np.eye(3)).max() < 0.02


def test_mcd_is_the_identity_and_cov_diagonal_in_the_new_coordinates() -> None:
    data = mixed(2)
    axes = axes_of(data, "mcd_cov")
    scores = (data - data.mean(axis=0)) @ axes.projection
    assert np.abs(np.cov(scores.T, ddof=0) - np.diag(axes.variance)).max() < 1e-11 * axes.variance.max()
    assert (np.diff(axes.variance) < 0).all()
    seed = int(Streams(1).stream("decompose").child("mcd").generator().integers(2**31))
    robust = MinCovDet(random_state=seed).fit(scores).covariance_
    assert np.abs(robust - np.eye(4)).max() < 1e-8


@every_scatter
def test_scores_and_loadings_give_the_data_back_also_where_columns_depend(scatter: str) -> None:
    data = mixed(3)
    data = np.column_stack([data, data[:, 0] + data[:, 1]])
    axes = axes_of(data, scatter)
    assert axes.count == 4
    centred = data - data.mean(axis=0)
    assert np.abs(centred @ axes.projection @ axes.loadings - centred).max() < 1e-10
    release = mv.protect(data, "ics", scatter=scatter, seed=1)
    assert release.kept["covariance"] < 1e-11
    assert release.kept["linear rules"] < 1e-12


def test_sources_of_different_kurtosis_are_found() -> None:
    """Fourth moments are enough to separate independent sources whose kurtosis differs (FOBI)."""
    rng = np.random.default_rng(4)
    sources = np.column_stack([rng.exponential(size=50_000), rng.uniform(-1, 1, 50_000), rng.normal(size=50_000)])
    found = scores_of(sources @ rng.standard_normal((3, 3)), "cov_cov4")
    match = np.abs(np.corrcoef(found.T, sources.T)[:3, 3:])
    assert (match.max(axis=1) > 0.98).all()
    assert match.argmax(axis=1).tolist() == [0, 2, 1]  # from the most to the least outlying
    assert ((found**3).mean(axis=0)[[0]] > 0).all()


# --- Affine invariance


@every_scatter
def test_scores_do_not_depend_on_units_and_mixtures(scatter: str) -> None:
    data = mixed(5)
    expected = scores_of(data, scatter)
    for seed in range(5):
        matrix, shift = mixing(seed)
        assert np.abs(scores_of(data @ matrix + shift, scatter) - expected).max() < 1e-8


@every_scatter
@pytest.mark.parametrize("exact", [False, True])
def test_releases_with_given_orders_follow_the_mixture(
    scatter: str, exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The robust search starts from a seed that depends on the data; here it must be the same for both.
    original = ica._robust_scatter
    monkeypatch.setattr(ica, "_robust_scatter", lambda white, stream: original(white, Streams(1).stream("same")))
    data = mixed(6, 200)
    orders = np.column_stack([np.random.default_rng(j).permutation(200) for j in range(4)])
    matrix, shift = mixing(6)
    options = {"scatter": scatter, "permutations": orders, "exact": exact, "rules": None}
    plain = mv.protect(data, "ics", **options).data
    other = mv.protect(data @ matrix + shift, "ics", **options).data
    assert np.abs((other - (plain @ matrix + shift)) / (data @ matrix).std(axis=0)).max() < 1e-8
    # Principal components do depend on it.
    if not exact:
        plain = mv.protect(data, "pca", permutations=orders, rules=None).data
        other = mv.protect(data @ matrix + shift, "pca", permutations=orders, rules=None).data
        assert np.abs((other - (plain @ matrix + shift)) / (data @ matrix).std(axis=0)).max() > 0.1


# --- The method


@every_scatter
def test_means_and_covariances_are_exact_and_all_components_are_swapped(scatter: str) -> None:
    data = mixed(7)
    release = mv.protect(data, "ics", scatter=scatter, seed=1)
    assert release.release_type == "masked"
    assert release.components.perturbed == (0, 1, 2, 3)
    assert max(release.kept.values()) < 1e-12
    loose = mv.protect(data, "ics", scatter=scatter, exact=False, seed=1)
    assert set(loose.kept) == {"mean"}
    assert loose.kept_on_average == ("covariance",)
    assert np.allclose(release.components.variance_shares.sum(axis=1), 1)


def test_outliers_bend_the_robust_axes_less_than_principal_components() -> None:
    """A tenth of far records along one direction becomes one coordinate, and leaves the others to the bulk."""
    rng = np.random.default_rng(8)
    data = rng.standard_normal((600, 3)) @ np.diag([3.0, 2.0, 1.0])
    data[:60] += [20, 20, 20]
    first = np.abs(scores_of(data, "mcd_cov")[:, 0])
    assert first[:60].min() > first[60:].max()
    axes = axes_of(data, "mcd_cov")
    bulk = (data[60:] - data[60:].mean(axis=0)) @ axes.projection
    assert np.abs(np.corrcoef(bulk.T) - np.eye(3)).max() < 0.15


def test_the_fit_is_on_a_bounded_sample_and_the_components_uncorrelated_in_the_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = mixed(9, 5000)
    seen = []
    original = ica._fourth_moments

    def watched(white: Array) -> Array:
        seen.append(len(white))
        return original(white)

    monkeypatch.setattr(ica, "_fourth_moments", watched)
    monkeypatch.setattr(ica, "COV4_ROWS", 1000)
    weights = mv.protect(data, "ics", seed=1).components.weights
    assert 800 < seen[0] <= 1000
    assert np.allclose(weights @ weights.T, np.corrcoef(data.T), atol=1e-12)


@every_scatter
def test_hostile_data_give_finite_output_or_a_clear_error(scatter: str) -> None:
    base = mixed(10, 60)
    hostile = {
        **hostile_tables(base),
        "two columns": base[:, :2],
        "twins": np.column_stack([base, base]),
    }
    if scatter == "mcd_cov":
        with pytest.raises(DataError, match=r"^scatter: half of the records lie in a plane"):
            mv.protect(hostile.pop("spikes"), "ics", scatter=scatter, seed=3, rules=None)
    for name, data in hostile.items():
        release = mv.protect(data, "ics", scatter=scatter, seed=3, rules=None)
        assert np.isfinite(release.data).all(), name
        assert release.kept["covariance"] < 1e-9, name


@every_scatter
def test_missing_cells_strata_public_columns_and_weights_go_along(scatter: str) -> None:
    rng = np.random.default_rng(11)
    frame = pd.DataFrame(mixed(11), columns=list("abcd")).assign(
        g=np.repeat(["x", "y"], 200), x=rng.normal(size=400), w=rng.uniform(1, 3, 400)
    )
    release = mv.protect(frame, "ics", scatter=scatter, strata="g", public="x", weight="w", seed=1)
    assert max(release.kept.values()) < 1e-11
    holed = frame.mask((rng.random(frame.shape) < 0.05) & frame.columns.isin(list("abcd")))
    release = mv.protect(holed, "ics", scatter=scatter, seed=1, confidential=list("abcd"))
    assert release.data.isna().equals(holed.isna())


def test_unknown_scatter_is_refused_by_name() -> None:
    with pytest.raises(ParameterError, match=r"^scatter: "):
        mv.protect(mixed(), "ics", scatter="tyler")


@every_scatter
def test_tarragona_links_no_more_than_chance(scatter: str) -> None:
    _, data = tarragona()
    assert quick_risk(mv.protect(data, "ics", scatter=scatter, seed=1), {})[1].value < 0.01


@every_scatter
def test_our_own_data_link_no_more_than_chance(scatter: str) -> None:
    data = mixed(12, 800)
    assert quick_risk(mv.protect(data, "ics", scatter=scatter, seed=1), {})[1].value < 0.01
