"""Methods that fix their steps: the contract of each, and what its paper promises."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hostile import hostile_tables
from numpy.typing import NDArray
from reference import census, tarragona
from samples import moment_errors, skewed

import microveil as mv
from microveil.assess import quick_risk
from microveil.core.rng import Streams
from microveil.decompose import Components, ica
from microveil.errors import DataError, ParameterError
from microveil.methods import METHODS
from microveil.perturb import Perturbation

pytestmark = pytest.mark.usefixtures("few_exchanges")

Array = NDArray[np.float64]
FIXED = [
    name for name, method in METHODS.items() if method.fixed and method.select is Components and not method.labels_only
]
every_preset = pytest.mark.parametrize("method", FIXED)


def perturbation(method: str) -> type[Perturbation]:
    return next(iter(METHODS[method].perturbations.values()))  # the one that is taken if nobody asks for another


def beside(method: str, data: Any) -> dict[str, Any]:
    """What a method needs beside the data: those that start from another masker's output get one."""
    if not perturbation(method).from_other:
        return {}
    if isinstance(data, np.ndarray):
        return {"other": data + 0.5 * data.std(axis=0) * np.random.default_rng(77).standard_normal(data.shape)}
    return {"other": mv.protect(data, "noise", confidential=NAMES, seed=1).data}


NAMES = ["income", "tax", "assets", "debt"]


KINDS: dict[str, Callable[[Array], Any]] = {
    "numpy": lambda values: values,
    "pandas": lambda values: pd.DataFrame(values, columns=NAMES),
    "polars": lambda values: pl.DataFrame(values, schema=NAMES),
    "arrow": lambda values: pa.table(dict(zip(NAMES, values.T, strict=True))),
}


# --- The contract


@pytest.mark.quick("numpy-*", "*-noise")
@every_preset
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_kind_comes_back_and_the_input_stays(method: str, kind: str) -> None:
    values = skewed()
    data = KINDS[kind](values.copy())
    also = beside(method, values)
    release = mv.protect(data, method, seed=3, **also)
    assert type(release.data) is type(data)
    after = release.data if kind == "numpy" else np.column_stack([np.asarray(release.data[name]) for name in NAMES])
    assert after.shape == values.shape
    before = data if kind == "numpy" else np.column_stack([np.asarray(data[name]) for name in NAMES])
    assert np.array_equal(before, values)
    assert np.array_equal(after, mv.protect(values, method, seed=3, **also).data)


@pytest.mark.quick("noise", "primp", "romm", "rank_swap", "microaggregate")
@every_preset
def test_seeds_repeat_and_differ(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = skewed()
    also = beside(method, data)
    first = mv.protect(data, method, seed=1, **also)
    for threads in ("1", "3"):
        monkeypatch.setenv("MICROVEIL_THREADS", threads)
        assert np.array_equal(mv.protect(data, method, seed=1, **also).data, first.data)
    random = perturbation(method).random
    assert np.array_equal(mv.protect(data, method, seed=2, **also).data, first.data) != random
    fresh = [mv.protect(data, method, **also).data for _ in range(2)]
    assert np.array_equal(*fresh) != random


@pytest.mark.quick("noise", "veil", "primp", "cluster_hybrid", "microaggregate")
@every_preset
def test_the_recipe_replays(method: str) -> None:
    data = skewed()
    also = beside(method, data)
    release = mv.protect(data, method, **also)
    recipe = json.loads(json.dumps(release.recipe(include_seed=True)))
    again = mv.protect(data, recipe["method"], seed=recipe["seed"], **recipe["parameters"], **also)
    assert np.array_equal(again.data, release.data)
    assert again.recipe() == release.recipe()


@pytest.mark.quick("noise", "veil")
@every_preset
def test_reports_are_written_for_both_audiences(method: str, tmp_path: Path) -> None:
    data = skewed()
    release = mv.protect(data, method, seed=1, **beside(method, data))
    for audience in ("internal", "public"):
        release.report(tmp_path / f"{audience}.html", audience=audience)
        assert f"<strong>{method}</strong>" in (tmp_path / f"{audience}.html").read_text(encoding="utf-8")


@every_preset
def test_what_is_fixed_cannot_be_changed(method: str) -> None:
    fixed = METHODS[method].fixed
    mv.protect(skewed(), method, seed=1, **fixed, **beside(method, skewed()))  # as a recipe has it
    others = {
        bool: lambda value: not value,
        str: lambda value: value + "?",
        tuple: lambda value: ["0"],
        float: lambda value: 0.5,
        int: lambda value: value + 1,
        type(None): lambda value: 0.5,
    }
    for name, value in fixed.items():
        for other in (others[type(value)](value), None, np.zeros(3)):
            if other is None and value is None:
                continue
            with pytest.raises(ParameterError, match=f"^{name}: {method} has it fixed"):
                mv.protect(skewed(), method, **{name: other})
    with pytest.raises(ParameterError, match="'bogus'"):
        mv.protect(skewed(), method, bogus=1)


@every_preset
def test_defaults_are_shown_and_can_be_changed(method: str) -> None:
    preset = METHODS[method]
    shown = {p.name: p.default for group in preset.parameters() for p in group.parameters}
    assert shown.keys().isdisjoint(preset.fixed.keys() - {"exact"})  # exact moments can be rounded
    for name, value in preset.defaults.items():
        assert shown[name] == value
        assert mv.protect(skewed(), method, seed=1).recipe()["parameters"][name] == value
        other = {"smoothed": "original", "mdav": "univariate"}[value] if isinstance(value, str) else not value
        assert mv.protect(skewed(), method, seed=1, **{name: other}).recipe()["parameters"][name] == other


# A tenth of five rows reaches no other row, and is refused.
FEW_ROWS: dict[str, dict[str, Any]] = {
    "rank_swap": {"rank_window": 0.4},
    "microhybrid": {"group_size": 4},
    "generalised_microaggregation": {"group_size": 4},
}
# Fresh scores beside those that are kept need twice the dimensions, and there are none.
NEED_ROOM = {"score_mix", "residual_mix", "synthetic_addition"}


@pytest.mark.quick("noise", "veil", "microaggregate", "primp")
@every_preset
def test_hostile_data_give_finite_output(method: str) -> None:
    for name, data in hostile_tables(skewed(rows=60)).items():
        options = {**FEW_ROWS.get(method, {}), **beside(method, data)}
        if method in NEED_ROOM and len(data) < 10:
            with pytest.raises(DataError, match="rows are too few"):
                mv.protect(data, method, seed=3, rules=None, **options)
            continue
        release = mv.protect(data, method, seed=3, rules=None, **options)
        assert np.isfinite(release.data).all(), name
        assert not np.array_equal(release.data, data), name


@pytest.mark.quick("noise", "veil", "primp", "romm", "microaggregate")
@every_preset
def test_missing_cells_strata_and_public_columns_go_along(method: str) -> None:
    rng = np.random.default_rng(4)
    data = pd.DataFrame(skewed(4), columns=NAMES).assign(g=np.repeat(["x", "y"], 150), x=rng.normal(size=300))
    holed = data.mask((rng.random(data.shape) < 0.1) & ~data.columns.isin(["g", "x"]))
    also = beside(method, holed)
    release = mv.protect(holed, method, strata="g", public="x", seed=1, **also)
    assert release.data.isna().equals(holed.isna())
    assert np.array_equal(release.data["x"], data["x"])
    plan = METHODS[method].plan(also)
    if not (plan.promises_moments or plan.maps_values):
        assert "mean" not in release.kept
        return
    for group in ("x", "y"):
        rows = data["g"] == group
        before, after = holed.loc[rows, NAMES], release.data.loc[rows, NAMES]
        error = ((after.mean() - before.mean()).abs() / before.std()).max()
        # Values that were given back have nearly the old mean, and smoothed tails only nearly theirs.
        assert error < (1e-10 if plan.promises_moments else 0.02)


# --- PRIMP (Hsu and Chen 2008)


@pytest.mark.slow
def test_primp_keeps_the_means_exactly_and_covariances_on_average() -> None:
    data = skewed(5, 2000)
    errors = [moment_errors(data, mv.protect(data, "primp", seed=seed).data) for seed in range(5)]
    assert max(mean for mean, _ in errors) < 1e-12
    gaps = [np.cov(mv.protect(data, "primp", seed=seed).data.T) - np.cov(data.T) for seed in range(40)]
    sd = data.std(axis=0)
    assert (np.abs(np.mean(gaps, axis=0)) / np.outer(sd, sd)).max() < 0.03
    assert set(mv.protect(data, "primp", seed=1).kept) == {"mean"}


@pytest.mark.parametrize("scales", [(1, 1, 1, 1), (1e-6, 1, 1e3, 1e9)])
def test_primp_cholesky_is_exact_also_with_dependent_columns(scales: tuple[float, ...]) -> None:
    data = skewed(6) * scales
    data = np.column_stack([data, data[:, 0] + data[:, 1], 3 * data[:, 2] - data[:, 3]])
    release = mv.protect(data, "primp_cholesky", seed=2)
    mean, covariance = moment_errors(data, release.data)
    assert mean < 1e-12
    assert covariance < 1e-10
    assert release.kept["covariance"] < 1e-10


def test_primp_cholesky_is_exact_on_the_rank_deficient_census() -> None:
    # The naive Cholesky factor is off by 2.8e-3 here, the published hybrid by 2.4e-4.
    names, data = census()
    release = mv.protect(data, "primp_cholesky", seed=1)
    mean, covariance = moment_errors(data, release.data)
    assert mean < 1e-12
    assert covariance < 1e-10
    place = {name: j for j, name in enumerate(names)}
    total = release.data[:, place["POTHVAL"]] + release.data[:, place["PEARNVAL"]]
    assert np.allclose(release.data[:, place["PTOTVAL"]], total, rtol=1e-9)


def test_independent_sources_are_found() -> None:
    rng = np.random.default_rng(7)
    sources = np.column_stack([rng.exponential(size=4000), rng.uniform(-1, 1, 4000), rng.laplace(size=4000)])
    data = sources @ rng.standard_normal((3, 3))
    weights = mv.protect(data, "primp", seed=1).components.weights
    z = (data - data.mean(axis=0)) / data.std(axis=0)
    found = z @ np.linalg.inv(weights.T)
    match = np.abs(np.corrcoef(found.T, sources.T)[:3, 3:])
    assert (match.max(axis=1) > 0.99).all()
    assert sorted(match.argmax(axis=1)) == [0, 1, 2]


def test_sources_are_exactly_uncorrelated() -> None:
    data = skewed(8)
    components = mv.protect(data, "primp", seed=1).components
    correlation = np.corrcoef(data.T)
    assert np.allclose(components.weights @ components.weights.T, correlation, atol=1e-12)


def test_swapping_independent_sources_keeps_skewness_better_than_principal_components() -> None:
    rng = np.random.default_rng(9)
    data = rng.exponential(size=(3000, 5)) @ (np.eye(5) + 0.5)

    def skewness(values: Array) -> Array:
        z = (values - values.mean(axis=0)) / values.std(axis=0)
        return (z**3).mean(axis=0)

    def bias(method: str) -> float:
        found = [skewness(mv.protect(data, method, seed=seed).data) for seed in range(5)]
        return float(np.abs(np.mean(found, axis=0) / skewness(data) - 1).mean())

    assert bias("primp_cholesky") < 0.1 < bias("pca")


def test_tarragona_and_its_sibling_link_no_more_than_chance() -> None:
    _, data = tarragona()
    assert quick_risk(mv.protect(data, "primp_cholesky", seed=1), {})[1].value < 0.01


def test_our_own_data_link_no_more_than_chance() -> None:
    data = skewed(10, 800)
    assert quick_risk(mv.protect(data, "primp_cholesky", seed=1), {})[1].value < 0.01


def test_fewer_sources_than_dimensions_leave_the_other_principal_components() -> None:
    data = skewed(11)
    release = mv.protect(data, "primp", sources=2, seed=1)
    pca = mv.protect(data, "pca", seed=1).components
    own = release.components.weights[:, 2:]
    principal = pca.weights[:, 2:] * np.sqrt(pca.variance[2:])
    assert np.allclose(own, principal, atol=1e-12)
    assert np.abs(release.data.mean(axis=0) - data.mean(axis=0)).max() < 1e-10
    with pytest.raises(ParameterError, match="4 dimensions"):
        mv.protect(data, "primp", sources=5)


@pytest.mark.parametrize("method", ["primp", "primp_cholesky"])
def test_the_rest_beyond_the_sources_is_swapped_or_kept_with_a_warning(method: str) -> None:
    data = skewed(12)
    swapped = mv.protect(data, method, sources=2, seed=1)
    assert swapped.components.perturbed == (0, 1, 2, 3)
    assert not any("untouched" in warning for warning in swapped.warnings)
    kept = mv.protect(data, method, sources=2, rest="keep", seed=1)
    assert kept.components.perturbed == (0, 1)
    assert any(warning.startswith("2 of 4 components are untouched") for warning in kept.warnings)
    # The last two principal components of every record come back, and only they.
    vectors = mv.protect(data, "pca", seed=1).components.weights
    before, after = ((one - data.mean(axis=0)) / data.std(axis=0) @ vectors for one in (data, kept.data))
    assert np.abs(after - before)[:, 2:].max() < 1e-12
    assert (np.abs(after - before)[:, :2].max(axis=0) > 0.1).all()
    if method == "primp_cholesky":
        assert kept.kept["covariance"] < 1e-12


def test_there_is_no_rest_to_keep_when_all_dimensions_are_sources() -> None:
    with pytest.raises(ParameterError, match="nothing is left to keep"):
        mv.protect(skewed(), "primp", rest="keep")
    with pytest.raises(ParameterError, match="rest: "):
        mv.protect(skewed(), "primp", sources=2, rest="drop")


def test_a_rotation_that_does_not_converge_is_retried_and_then_told(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = []
    original = ica.fast_ica

    def stubborn(white: Array, first: Array, iterations: int) -> tuple[Array, bool]:
        rotation, converged = original(white, first, iterations)
        assert not converged
        starts.append(rotation)
        return rotation, converged

    monkeypatch.setattr(ica, "ITERATIONS", 2)
    monkeypatch.setattr(ica, "fast_ica", stubborn)
    for method in ("primp", "primp_cholesky"):
        starts.clear()
        release = mv.protect(skewed(rows=2000), method, seed=1)
        assert len(starts) == 3
        assert not np.allclose(starts[0], starts[1])  # another start, not the same again
        assert any("did not converge" in warning for warning in release.warnings)
        assert max(release.kept.values()) < 1e-10
        # Any rotation will do for the identity: the sources are uncorrelated, and all of them are swapped.
        weights = release.components.weights
        assert np.allclose(weights @ weights.T, np.corrcoef(skewed(rows=2000).T), atol=1e-12)
    monkeypatch.undo()
    assert not any("converge" in warning for warning in mv.protect(skewed(rows=2000), "primp", seed=1).warnings)


def test_of_rotations_that_did_not_converge_the_least_normal_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(13)
    sources = rng.laplace(size=(4000, 2))
    turns = [np.array([[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]]) for t in (0.7, 0.02, 0.4)]
    answers = iter(turns)
    monkeypatch.setattr(ica, "fast_ica", lambda *_: (next(answers), False))
    rotation, remark = ica._rotation(sources / sources.std(axis=0), Streams(1).stream("x"))
    assert np.array_equal(rotation, turns[1])
    assert "did not converge" in remark


def test_iterations_that_run_out_count_as_not_converged() -> None:
    white = np.random.default_rng(1).standard_normal((200, 4))
    _, converged = ica.fast_ica(white, np.random.default_rng(2).standard_normal((4, 4)), 1)
    assert not converged


@pytest.mark.slow
def test_the_rotation_is_fitted_on_a_sample_and_applied_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(14)
    sources = rng.gamma(0.7, size=(300_000, 8))
    data = sources @ rng.standard_normal((8, 8))
    seen = []
    original = ica.fast_ica

    def watched(white: Array, first: Array, iterations: int) -> tuple[Array, bool]:
        seen.append(len(white))
        return original(white, first, iterations)

    monkeypatch.setattr(ica, "fast_ica", watched)
    start = time.process_time()
    release = mv.protect(data, "primp_cholesky", seed=1)
    assert time.process_time() - start < 60  # a second or two; FastICA on all rows takes many times that
    assert 15_000 < seen[0] <= ica.SAMPLE_ROWS
    assert release.kept["covariance"] < 1e-11
    found = (data - data.mean(axis=0)) / data.std(axis=0) @ np.linalg.inv(release.components.weights.T)
    match = np.abs(np.corrcoef(found[:50_000].T, sources[:50_000].T)[:8, 8:])
    assert (match.max(axis=1) > 0.98).all()


def test_swaps_that_ignore_weights_are_refused_unless_exact() -> None:
    data = pd.DataFrame(skewed(), columns=NAMES).assign(w=2.5)
    with pytest.raises(ParameterError, match="weight"):
        mv.protect(data, "primp", weight="w")
    assert mv.protect(data, "primp_cholesky", weight="w", seed=1).kept["covariance"] < 1e-10


def test_one_column_has_no_sources() -> None:
    with pytest.raises(DataError, match="at least 2 columns"):
        mv.protect(skewed()[:, :1], "primp")
