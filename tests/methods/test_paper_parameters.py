"""Parameters that the papers have: thresholds on loadings, sources drawn anew, the literal hybrid, eq. 13 to 16."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

import microveil as mv
from microveil.cli.main import main
from microveil.core.errors import ParameterError

Array = NDArray[np.float64]


def skewed(rows: int = 300, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    return rng.exponential(size=(rows, 3)) @ rng.normal(size=(3, 3))


def released(data: Array, method: str, **parameters: object) -> Array:
    return np.asarray(mv.protect(data, method, seed=1, rules=None, **parameters).data)


# --- Components on which a sensitive column loads (Calviño 2017, Fig. 1; Calviño et al. 2017, §IV.1)


def test_a_threshold_on_loadings_takes_the_components_that_reach_it_for_any_sensitive_column() -> None:
    data = skewed()
    weights = np.abs(mv.protect(data, "pca", seed=1, rules=None).components.weights)
    for sensitive in ([0], [1, 2]):
        reached = weights[sensitive].max(axis=0)
        for least in np.sort(reached)[:-1] + 1e-9:
            found = mv.protect(
                data, "pca", components="sensitive", sensitive=sensitive, sensitive_loading=least, seed=1, rules=None
            )
            assert list(found.components.perturbed) == np.flatnonzero(reached >= least).tolist()


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"components": "sensitive", "sensitive": [0], "sensitive_loading": 0.9999}, "no component has such a weight"),
        ({"components": "sensitive", "sensitive_loading": 0.5}, "no column named"),
        ({"sensitive_loading": 0.5}, "goes with components='sensitive' only"),
        ({"components": "sensitive", "sensitive": [0], "sensitive_loading": 0.5, "sensitive_share": 0.5}, "two ways"),
        ({"components": "sensitive", "sensitive": [0], "sensitive_loading": 1.5}, "sensitive_loading"),
    ],
)
def test_thresholds_that_make_no_sense_are_refused(parameters: dict[str, object], problem: str) -> None:
    with pytest.raises(ParameterError, match=problem):
        released(skewed(), "pca", **parameters)


# --- Hsu and Chen (2008): how sources are drawn, and the hybrid of Table 4


def sources_of(data: Array, release: mv.Release) -> Array:
    standard = (np.asarray(release.data) - data.mean(axis=0)) / data.std(axis=0)
    return np.linalg.solve(release.components.weights, standard.T).T


def test_sources_are_shuffled_resampled_or_drawn_from_strata() -> None:
    data = skewed()
    own = mv.protect(data, "primp", seed=1, rules=None)
    before = sources_of(data, own)  # swapped: the same values in another order
    assert own.release_type == "masked"
    resampled = sources_of(data, mv.protect(data, "primp", perturb="bootstrap", seed=1, rules=None))
    strata = sources_of(data, mv.protect(data, "primp", perturb="stratified", seed=1, rules=None))
    for j in range(3):
        assert np.abs(resampled[:, j][:, None] - before[:, j]).min(axis=1).max() < 1e-9
        assert len(np.unique(resampled[:, j].round(9))) < 0.8 * len(data)  # with replacement
        # One in each n-th: the i-th smallest lies between quantiles of (i - 1)/n and i/n.
        edges = np.quantile(before[:, j], np.linspace(0, 1, len(data) + 1))
        drawn = np.sort(strata[:, j])
        assert (drawn >= edges[:-1] - 1e-9).all()
        assert (drawn <= edges[1:] + 1e-9).all()
        assert len(np.unique(drawn)) == len(data)
    with pytest.raises(ParameterError, match="primp cannot 'noise'"):
        released(data, "primp", perturb="noise")


def test_the_hybrid_with_a_triangular_root_is_table_4_to_the_letter() -> None:
    """Seeds of PRIMP, orthogonalised one column after the other, times the Cholesky factor, plus the means."""
    data = skewed()
    seeds = released(data, "primp")
    centred, factors = seeds - seeds.mean(axis=0), [np.linalg.cholesky(np.cov(of.T)) for of in (seeds, data)]
    literal = np.linalg.solve(factors[0], centred.T).T @ factors[1].T + data.mean(axis=0)
    assert released(data, "primp_cholesky", root="triangular") == pytest.approx(literal, abs=1e-12)
    symmetric = released(data, "primp_cholesky")
    assert np.abs(symmetric - literal).max() > 1e-4
    for found in (literal, symmetric):
        assert np.cov(found.T) == pytest.approx(np.cov(data.T), rel=1e-12)
    # The symmetric root moves seeds least; both move every record, so that none comes back whole.
    moved = [np.linalg.norm(found - seeds, axis=1) for found in (symmetric, literal)]
    assert np.square(moved[0]).sum() < np.square(moved[1]).sum()
    assert min(of.min() for of in moved) > 0


# --- Langsrud (2019)


def test_equation_13_mixes_the_original_into_what_is_corrected() -> None:
    data = skewed()
    other = np.random.default_rng(2).normal(size=data.shape) * data.std(axis=0)
    shares = np.array([0.2, 0.5, 0.8])
    mixed = data * shares + other * (1 - shares)
    assert released(data, "correct", other=other, own_share=shares.tolist()) == pytest.approx(
        released(data, "correct", other=mixed), abs=1e-12
    )
    near = [
        np.corrcoef(data[:, 0], released(data, "correct", other=other, own_share=s)[:, 0])[0, 1] for s in (0, 0.5, 0.95)
    ]
    assert near == sorted(near)
    assert near[-1] > 0.99
    for wrong, problem in (
        (1.0, "below 1"),
        (-0.1, "below 1"),
        ([0.1, 0.2], "own_share: 2 given"),
        (True, "own_share"),
    ):
        with pytest.raises(ParameterError, match=problem):
            released(data, "correct", other=other, own_share=wrong)


def completed(columns: Array) -> Array:
    """Orthonormal columns and others that make the matrix square."""
    rest = np.linalg.svd(np.eye(len(columns)) - columns @ columns.T)[0][:, : len(columns) - columns.shape[1]]
    return np.hstack([columns, rest])


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("ipso", {}),
        ("score_mix", {"correlation": 0.6}),
        ("residual_mix", {"correlation": 0.5}),
        ("romm", {"noise": 0.3}),
    ],
)
def test_every_release_is_an_orthogonal_matrix_times_the_data(method: str, parameters: dict[str, float]) -> None:
    """Eq. 14 to 16: Y* = M Y with M = [U_X T* U_A*][U_X T U_A]', which is orthogonal and leaves X as it is."""
    data = skewed(rows=12, seed=3)
    table = np.asarray(mv.protect(data, method, confidential=[1, 2], public=[0], seed=1, rules=None, **parameters).data)
    fixed = np.linalg.qr(np.column_stack([np.ones(12), data[:, 0]]))[0]
    own, new = (of[:, 1:] - fixed @ (fixed.T @ of[:, 1:]) for of in (data, table))
    scores, loadings = np.linalg.qr(own)
    fresh = np.linalg.solve(loadings.T, new.T).T
    assert fresh.T @ fresh == pytest.approx(np.eye(2), abs=1e-10)
    turn = completed(np.hstack([fixed, fresh])) @ completed(np.hstack([fixed, scores])).T
    assert turn @ turn.T == pytest.approx(np.eye(12), abs=1e-10)
    assert turn @ data[:, 1:] == pytest.approx(table[:, 1:], abs=1e-9)
    assert turn @ data[:, 0] == pytest.approx(data[:, 0], abs=1e-10)


def test_outlying_records_can_be_left_alone_and_that_is_told() -> None:
    data = np.random.default_rng(4).normal(size=(200, 3))
    data[:6] += 20
    kept = mv.protect(data, "outlier_split", outliers="keep", seed=1, rules=None)
    same = (np.asarray(kept.data) == data).all(axis=1)
    assert same[:6].all()
    assert same.sum() < 30
    assert np.cov(np.asarray(kept.data).T) == pytest.approx(np.cov(data.T), rel=1e-9)
    assert any("outlying records are released as they are" in warning for warning in kept.warnings)
    # Too few of them to be redrawn among themselves: so that is refused, and leaving them alone is not.
    data[2:6] -= 20
    few = released(data, "outlier_split", outliers="keep", outlier_quantile=0.99999)
    assert (few[:2] == data[:2]).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "flags", "parameters"),
    [
        (
            "pca",
            ["--set", "sensitive=a", "--set", "components=sensitive", "--set", "sensitive_loading=0.3"],
            {"sensitive": ["a"], "components": "sensitive", "sensitive_loading": 0.3},
        ),
        ("outlier_split", ["--set", "outliers=keep"], {"outliers": "keep"}),
        ("primp_cholesky", ["--set", "root=triangular"], {"root": "triangular"}),
        ("primp", ["--set", "perturb=bootstrap"], {"perturb": "bootstrap"}),
        ("primp", ["--set", "perturb=stratified"], {"perturb": "stratified"}),
        ("correct", ["--set", "other=other.csv", "--set", "own_share=0.4"], {"own_share": 0.4}),
    ],
)
def test_the_command_line_reaches_what_the_papers_have(
    method: str, flags: list[str], parameters: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(6)
    columns = dict(zip("abc", skewed(rows=80, seed=6).T, strict=True))
    table = pl.DataFrame(columns)
    table.write_csv("data.csv")
    other = table.select(pl.all() + pl.Series(rng.standard_normal(80)))
    other.write_csv("other.csv")
    given = {**parameters, **({"other": other} if method == "correct" else {})}
    with pytest.raises(SystemExit) as stopped:
        main(["protect", "data.csv", "-o", "out.csv", "--method", method, "--seed", "3", "--rules", "none", *flags])
    assert not stopped.value.code
    expected = mv.protect(pl.read_csv("data.csv"), method, seed=3, rules=None, **given).data
    assert pl.read_csv("out.csv").to_numpy() == pytest.approx(expected.to_numpy(), rel=1e-9)
