"""Component removal (D'Acquisto and Naldi): closed forms, the loop, and that it protects nobody."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from reference import census, tarragona

import microveil as mv
from microveil.assess import quick_risk
from microveil.core.moments import moments
from microveil.core.rng import Streams
from microveil.core.table import Matrix, Microdata
from microveil.engines.pipeline import Spectrum, protected
from microveil.engines.rows import RunContext
from microveil.engines.scores import RebuildMap
from microveil.errors import DataError, ParameterError
from microveil.measures.utility import MEASURES
from microveil.methods import METHODS
from microveil.methods.by_utility import USABLE

Array = NDArray[np.float64]
LEAST = -1.0  # a threshold that every vector correlation meets


def mixed(seed: int = 0, rows: int = 300, columns: int = 6) -> Array:
    rng = np.random.default_rng(seed)
    return rng.gamma(1.5, size=(rows, columns)) @ rng.standard_normal((columns, columns)) + 10


def eigenvalues(data: Array) -> Array:
    return np.linalg.eigvalsh(np.corrcoef(data.T))[::-1]


def removed_at_once(data: Array, count: int) -> Array:
    """B = mu + sigma (Z (I - V V')), with V the first eigenvectors."""
    mean, sd = data.mean(axis=0), data.std(axis=0)
    z = (data - mean) / sd
    vectors = np.linalg.eigh(z.T @ z / len(z))[1][:, ::-1][:, :count]
    return mean + sd * (z - z @ vectors @ vectors.T)


def taken_apart(data: Array, **params: Any) -> tuple[Array, Spectrum]:
    """The released columns and the components of a table whose columns are all decomposed, dependent ones too."""
    table = Microdata(Matrix.from_array(data), tuple(f"x{j}" for j in range(data.shape[1])))
    plan = METHODS["component_removal"].plan(params)
    summary = moments(table.pieces, table.count)
    every = list(range(data.shape[1]))
    alone = RebuildMap(table.names, np.eye(len(every)), every)
    columns, spectrum = protected(RunContext(plan, Streams(1)), table, summary, [], lambda: alone, Matrix)
    return np.column_stack(columns), spectrum


def threshold_for(data: Array, count: int) -> float:
    """A vector correlation between those that `count` and one more removed components leave."""
    left = np.sqrt(np.clip(1 - np.cumsum(eigenvalues(data)) / data.shape[1], 0, None))
    return float((left[count - 1] + left[count]) / 2)


def measured(name: str, before: Array, after: Array) -> float:
    return MEASURES[name](Matrix.from_array(before), Matrix.from_array(after)).value


# --- Closed forms


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_closed_forms_of_what_is_left(count: int) -> None:
    data = mixed()
    rows, columns = data.shape
    given = {"threshold": threshold_for(data, count)} if count < 5 else {"threshold": LEAST}
    release = mv.protect(data, "component_removal", **given)
    assert release.components.perturbed == tuple(range(count))
    lost = eigenvalues(data)[:count].sum()
    moves = (release.data - data) / data.std(axis=0)
    assert measured("norm_frobenius", data, release.data) == pytest.approx(np.sqrt(rows * lost), rel=1e-10)
    assert measured("vector_correlation", data, release.data) == pytest.approx(np.sqrt(1 - lost / columns), rel=1e-10)
    assert np.square(moves).mean() == pytest.approx(lost / columns, rel=1e-10)
    assert measured("wasserstein_gaussian", data, release.data) == pytest.approx(lost, rel=1e-6)
    assert np.linalg.matrix_rank(release.data - data.mean(axis=0), tol=1e-8) == columns - count


def test_closed_forms_on_the_census() -> None:
    # Thirteen columns, one of them the sum of two others: the published eigenvalues are those of all thirteen.
    _, data = census()
    correlations = (0.64267, 0.51831, 0.43609)
    for count, expected in enumerate(correlations, start=1):
        after, spectrum = taken_apart(data, threshold=expected - 1e-4)
        assert spectrum.selected == list(range(count))
        assert measured("vector_correlation", data, after) == pytest.approx(expected, abs=5e-6)
        if count == 1:
            assert measured("norm_frobenius", data, after) == pytest.approx(90.78114, abs=5e-6)


@pytest.mark.parametrize("seed", range(3))
def test_one_after_the_other_is_the_same_as_all_at_once(seed: int) -> None:
    data = mixed(seed)
    mean, sd = data.mean(axis=0), data.std(axis=0)
    z = (data - mean) / sd
    for count in range(1, 5):
        # The paper's steps 2 to 4, without standardising again: that would be another method.
        first = np.linalg.eigh(z.T @ z)[1][:, -1]
        z = z - np.outer(z @ first, first)
        release = mv.protect(data, "component_removal", threshold=threshold_for(data, count))
        assert np.abs((release.data - mean) / sd - z).max() < 1e-12
        assert np.abs(release.data - removed_at_once(data, count)).max() < 1e-11


# --- The loop


def test_the_last_useful_number_is_removed_and_the_literal_loop_goes_one_further() -> None:
    data = mixed()
    for count in range(1, 5):
        limit = threshold_for(data, count)
        assert len(mv.protect(data, "component_removal", threshold=limit).components.perturbed) == count
        literal = mv.protect(data, "component_removal", threshold=limit, literal=True)
        assert len(literal.components.perturbed) == count + 1


@pytest.mark.parametrize("made", ["sum", "ratio"])
def test_the_threshold_holds_for_columns_that_follow_from_others_too(made: str) -> None:
    data = pd.DataFrame(np.random.default_rng(5).gamma(2.0, size=(300, 4)), columns=list("abcd")).round(2)
    data["a"] += 3 * data["b"]
    data["made"] = data["a"] + data["b"] if made == "sum" else data["a"] / data["b"]
    sums = [{"total": "made", "parts": ["a", "b"]}] if made == "sum" else []
    ratios = [{"ratio": "made", "numerator": "a", "denominator": "b"}] if made == "ratio" else []
    for count in (1, 2):
        rules = {"columns": {}, "sums": sums, "ratios": ratios}
        settings = {"utility": "norm_frobenius", "rules": rules}
        wide = mv.protect(data, "component_removal", threshold=1e9, **settings)
        told = float(wide.components.notes[count - 1].split()[1])
        below, above = (
            mv.protect(data, "component_removal", threshold=threshold, **settings)
            for threshold in (0.999 * told, 1.001 * told)
        )
        assert len(below.components.perturbed) == count - 1
        assert len(above.components.perturbed) == count
        assert measured("norm_frobenius", data.to_numpy(), above.data.to_numpy()) == pytest.approx(told, rel=1e-3)


def test_the_census_without_its_largest_component() -> None:
    """One column is the sum of two others: it is rebuilt, and has its part in the utility."""
    data = census()[1]
    release = mv.protect(data, "component_removal", utility="norm_frobenius", threshold=90.7)
    assert release.components.perturbed == (0,)
    assert measured("norm_frobenius", data, release.data) == pytest.approx(90.65149, abs=1e-5)
    assert measured("vector_correlation", data, release.data) == pytest.approx(0.64397, abs=1e-5)
    less = mv.protect(data, "component_removal", utility="norm_frobenius", threshold=90.6)
    assert less.components.perturbed == ()


def test_one_component_always_stays() -> None:
    for literal in (False, True):
        release = mv.protect(mixed(), "component_removal", threshold=LEAST, literal=literal)
        assert release.components.perturbed == (0, 1, 2, 3, 4)


def test_a_threshold_that_is_just_met_is_met() -> None:
    data = mixed()
    value = measured("norm_sum", data, removed_at_once(data, 2))
    for limit, count in ((value * (1 + 1e-9), 2), (value * (1 - 1e-9), 1)):
        release = mv.protect(data, "component_removal", utility="norm_sum", threshold=limit)
        assert len(release.components.perturbed) == count


def test_nothing_is_removed_where_all_costs_too_much_and_the_release_says_so() -> None:
    data = mixed()
    release = mv.protect(data, "component_removal", threshold=1.0)
    assert release.components.perturbed == ()
    assert np.abs(release.data - data).max() < 1e-12
    assert any(warning.startswith("nothing was removed") for warning in release.warnings)
    assert not any("does not protect" in warning for warning in release.warnings)
    assert len(mv.protect(data, "component_removal", threshold=1.0, literal=True).components.perturbed) == 1


@pytest.mark.parametrize("utility", ["norm_sum", "norm_max_row", "psnr", "ssim", "pil", "kl_ridge", "ks"])
def test_any_measure_of_utility_serves(utility: str) -> None:
    data = mixed(1)
    path = [measured(utility, data, removed_at_once(data, count)) for count in range(1, 6)]
    better = MEASURES[utility].better
    between = np.convolve(np.sort(path), [0.5, 0.5], mode="valid")
    for limit in between.tolist():
        good = [value <= limit if better == "low" else value >= limit for value in path]
        expected = good.index(False) if False in good else 5
        release = mv.protect(data, "component_removal", utility=utility, threshold=limit)
        assert len(release.components.perturbed) == expected
    for component, value in enumerate(path):
        assert release.components.notes[component] == f"{utility} {value:.4g} without the components up to this one"


def test_a_divergence_that_is_infinite_removes_nothing() -> None:
    # The release has no density: the paper's Kullback-Leibler divergence (eq. 8) is infinite after the first removal.
    release = mv.protect(mixed(), "component_removal", utility="kl_gaussian", threshold=1e300)
    assert release.components.perturbed == ()


def test_ties_between_eigenvalues_are_told() -> None:
    rng = np.random.default_rng(3)
    white = np.linalg.qr(np.column_stack([np.ones(200), rng.normal(size=(200, 4))]))[0][:, 1:]
    blocks = np.kron(np.eye(2), np.linalg.cholesky([[1, 0.6], [0.6, 1]]).T)
    tied = mv.protect(white @ blocks, "component_removal", threshold=0.6)
    assert tied.components.perturbed == (0,)
    assert any("which is which is chance" in warning for warning in tied.warnings)
    assert not any("chance" in warning for warning in mv.protect(mixed(), "component_removal").warnings)


# --- No protection


def test_the_release_warns_that_it_does_not_protect_and_is_right() -> None:
    data = mixed(4, rows=500)
    for threshold in (0.8, 0.5, 0.3):
        release = mv.protect(data, "component_removal", threshold=threshold)
        assert any("does not protect" in w and "records link to 100 %" in w for w in release.warnings)
        assert quick_risk(release, {})[1].value == 1.0
        assert release.release_type == "masked"


def test_every_tarragona_record_links() -> None:
    _, data = tarragona()
    release = mv.protect(data, "component_removal")
    assert release.components.perturbed == (0, 1)
    assert quick_risk(release, {})[1].value == 1.0


@pytest.mark.parametrize("count", [1, 2, 3])
def test_who_knows_some_values_computes_the_others(count: int) -> None:
    data = np.round(1000 * mixed(5))
    released = mv.protect(data, "component_removal", threshold=threshold_for(data, count)).data
    # Means and the removed directions are there to be seen: the release has no variance in them.
    mean, sd = released.mean(axis=0), data.std(axis=0)
    directions = np.linalg.eigh(np.cov(((released - mean) / sd).T))[1][:, :count]
    known = list(range(count))
    gap = ((data - released) / sd)[:, known]
    found = released + sd * (gap @ np.linalg.inv(directions[known].T) @ directions.T)
    assert np.abs(found - data).max() < 1e-5


# --- The contract


def test_it_is_a_function_of_the_data_alone() -> None:
    data = mixed(rows=5000)
    first, second = (mv.protect(data, "component_removal", seed=seed).data for seed in (1, 2))
    assert np.array_equal(first, second)


def test_means_stay_and_nothing_else_is_promised() -> None:
    data = mixed()
    release = mv.protect(data, "component_removal")
    assert set(release.kept) == {"mean"}
    assert release.kept["mean"] < 1e-13
    assert release.kept_on_average == ()
    assert (release.data.var(axis=0) < data.var(axis=0)).all()
    assert all(dose.asked is not None for dose in release.dose.values())


def test_missing_cells_strata_weights_and_public_columns_go_along() -> None:
    rng = np.random.default_rng(6)
    names = list("abcdef")
    data = pd.DataFrame(mixed(6), columns=names).assign(g=np.repeat(["x", "y"], 150), p=rng.normal(size=300), w=2.5)
    holed = data.mask((rng.random(data.shape) < 0.1) & ~data.columns.isin(["g", "p", "w"]))
    release = mv.protect(holed, "component_removal", strata="g", public="p", weight="w")
    assert release.data.isna().equals(holed.isna())
    assert np.isfinite(release.data[names].to_numpy()[holed[names].notna()]).all()


def test_the_recipe_replays() -> None:
    data = mixed()
    release = mv.protect(data, "component_removal", utility="psnr", threshold=20.0, standardise=False)
    recipe = release.recipe()
    assert np.array_equal(mv.protect(data, recipe["method"], **recipe["parameters"]).data, release.data)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"exact": True}, "^exact: component_removal has it fixed at False"),
        ({"perturb": "swap"}, "^perturb: component_removal has it fixed at 'remove'"),
        ({"components": 2}, "has no parameter 'components'"),
        ({"utility": "vector_corelation"}, "^utility: .*did you mean 'vector_correlation'"),
        ({"utility": "eigen_decay", "threshold": 1}, "^utility: no measure of utility 'eigen_decay'"),
        ({"utility": "psnr"}, "psnr has a unit of its own; give a threshold"),
        ({"threshold": "much"}, "^threshold: "),
        ({"threshold": float("nan")}, "^threshold: "),
        ({"threshold": True}, "^threshold: "),
        ({"literal": "perhaps"}, "^literal: "),
    ],
    ids=str,
)
def test_bad_parameters_are_refused_by_name(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        mv.protect(mixed(), "component_removal", **params)


def test_removal_goes_with_no_other_method() -> None:
    with pytest.raises(ParameterError, match=r"^perturb: pca cannot 'remove'"):
        mv.protect(mixed(), "pca", perturb="remove")


def test_measures_without_a_better_direction_are_no_utility() -> None:
    assert "vector_correlation" in USABLE
    assert "selectivity" not in USABLE
    assert all(gauge.better in ("low", "high") for gauge in USABLE.values())


def test_one_column_has_no_components() -> None:
    with pytest.raises(DataError, match="at least 2 columns"):
        mv.protect(mixed()[:, :1], "component_removal")
