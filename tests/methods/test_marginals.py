"""marginals=...: the values of a released column are its own again, whatever the method has done to their order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from gaps import patterns
from numpy.typing import NDArray

import microveil as mv
from microveil.core.errors import ParameterError
from microveil.decompose import Clustered
from microveil.methods import METHODS

Array = NDArray[np.float64]
NAMES = ["turnover", "wages", "staff", "share", "result", "flag"]
ROWS = 240

# Methods whose parameters leave the marginals and the moments open.
OPEN = [
    name
    for name, method in METHODS.items()
    if "marginals" not in method.fixed and method.fixed.get("exact") is not True
]
every_method = pytest.mark.parametrize("method", OPEN)


def firms(seed: int = 0, rows: int = ROWS) -> pd.DataFrame:
    """Skewed amounts, one with many zeros, counts, percentages, a result of both signs, a flag."""
    rng = np.random.default_rng(seed)
    size = np.exp(rng.standard_normal((rows, 1)) + 0.6 * rng.standard_normal((rows, 6)))
    return pd.DataFrame(
        {
            "turnover": 1000 * size[:, 0],
            "wages": np.where(rng.random(rows) < 0.3, 0.0, np.round(100 * size[:, 1])),
            "staff": np.round(5 * size[:, 2]),
            "share": np.round(100 * size[:, 3] / (1 + size[:, 3]), 1),
            "result": np.round(50 * (size[:, 4] - size[:, 0]), 2),
            "flag": (size[:, 5] > 1).astype(float),
        }
    )


def with_holes() -> pd.DataFrame:
    return firms().mask(np.random.default_rng(3).random((ROWS, len(NAMES))) < 0.25)


def with_public() -> pd.DataFrame:
    data = firms()
    data["area"] = data["turnover"] ** 0.5 + np.random.default_rng(4).standard_normal(ROWS)
    data["region"] = np.array(["north", "south", "west"])[np.arange(ROWS) % 3]
    return data


KINDS: dict[str, tuple[pd.DataFrame, dict[str, Any]]] = {
    "plain": (firms(), {}),
    "holes": (with_holes(), {}),
    "public columns": (with_public(), {"public": ["area", "region"]}),
    "strata": (firms().assign(branch=np.arange(ROWS) % 3), {"strata": "branch"}),
    "weights": (firms().assign(weight=np.random.default_rng(5).uniform(1, 9, ROWS)), {"weight": "weight"}),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def released(kind: str, method: str, **options: Any) -> tuple[pd.DataFrame, mv.Release]:
    data, roles = KINDS[kind]
    return data, mv.protect(data, method, confidential=NAMES, seed=1, **{**roles, **options})


def same_values(before: pd.DataFrame, after: pd.DataFrame) -> bool:
    return all((np.sort(before[name].dropna()) == np.sort(after[name].dropna())).all() for name in NAMES)


# --- original


@pytest.mark.quick("plain-pca", "plain-noise", "plain-rank_swap", "plain-microaggregate", "*-veil")
@every_method
@every_kind
def test_every_column_has_exactly_its_own_values_in_another_order(method: str, kind: str) -> None:
    if kind == "weights" and issubclass(METHODS[method].decompose, Clustered):
        with pytest.raises(ParameterError, match="weight: plays no part inside clusters"):
            released(kind, method, marginals="original")
        return
    data, release = released(kind, method, marginals="original")
    new = release.data
    assert same_values(data, new)
    assert patterns(new[NAMES]) == patterns(data[NAMES])
    assert list(new.dtypes) == list(data.dtypes)
    others = [name for name in data if name not in NAMES]
    pd.testing.assert_frame_equal(new[others], data[others])
    for _, rows in data.groupby("branch") if kind == "strata" else []:
        assert same_values(rows, new.loc[rows.index])
    assert release.kept["distribution"] == 0
    if kind != "weights":  # a sum of weighted values depends on who has which
        assert release.kept["mean"] <= 1e-12


@pytest.mark.parametrize("method", ["veil", "primp", "pca", "normal"])
def test_the_order_is_another_one_and_correlations_come_back(method: str) -> None:
    data, release = released("plain", method, marginals="original")
    new = release.data
    moved = (new[NAMES] != data[NAMES]).mean()
    assert (moved.drop(["flag", "wages"]) >= 0.9).all()  # equal values may well meet
    assert (new[NAMES].corr() - data[NAMES].corr()).abs().max(axis=None) <= 0.05
    assert (new[NAMES].corr("spearman") - data[NAMES].corr("spearman")).abs().max(axis=None) <= 0.05
    assert release.kept["rank correlation"] <= 0.05


@pytest.mark.parametrize("method", ["pca", "primp_cholesky", "cholesky", "veil"])
def test_values_and_exact_covariances_cannot_both_be_kept(method: str) -> None:
    with pytest.raises(ParameterError, match="exact: values in another order cannot also have exact covariances") as e:
        mv.protect(firms(), method, marginals="original", exact=True)
    assert "smoothed" in str(e.value)


def test_exact_is_off_by_itself_where_values_are_asked_for() -> None:
    release = mv.protect(firms(), "pca", marginals="original", seed=1)
    assert release.settings["parameters"]["exact"] is False
    assert mv.protect(firms(), "pca", seed=1).settings["parameters"]["exact"] is True


@pytest.mark.quick("True-veil", "False-pca", "False-rank_swap")
@pytest.mark.parametrize("method", ["veil", "pca", "rank_swap"])
@pytest.mark.parametrize("declared", [False, True])
def test_a_sum_comes_before_the_values_of_the_total(method: str, declared: bool) -> None:
    data = firms()
    data["costs"] = data["wages"] + data["staff"]
    rules = {"sums": [{"total": "costs", "parts": ["wages", "staff"]}]} if declared else "infer"
    release = mv.protect(data, method, marginals="original", rules=rules, seed=1)
    new = release.data
    assert (new["costs"] == new["wages"] + new["staff"]).all()
    assert same_values(data[NAMES], new[NAMES])
    assert "costs = wages + staff" in release.rules
    assert release.kept["linear rules"] == 0


def test_a_sum_with_holes_holds_where_all_is_there() -> None:
    data = firms()
    data["costs"] = data["wages"] + data["staff"]
    data = data.mask(np.random.default_rng(3).random(data.shape) < 0.15)
    rules = {"sums": [{"total": "costs", "parts": ["wages", "staff"]}]}
    new = mv.protect(data, marginals="original", rules=rules, seed=1).data
    whole = new[["costs", "wages", "staff"]].notna().all(axis=1)
    assert (new["costs"] == new["wages"] + new["staff"])[whole].all()
    assert patterns(new) == patterns(data)


# --- smoothed


def given_away(before: pd.Series, after: pd.Series, group: int = 5, ranks: int = 5) -> int:
    """Extreme values that their rank tells exactly, of those that fewer than `group` records share."""
    count, often = 0, before.value_counts()
    for down in (True, False):
        true, told = (side.dropna().sort_values(ascending=not down).to_numpy()[:ranks] for side in (before, after))
        count += sum(a == b and often[a] < group for a, b in zip(true, told, strict=True))
    return count


@pytest.mark.quick("*-veil")
@pytest.mark.parametrize("method", ["veil", "pca", "normal", "noise"])
@every_kind
def test_no_extreme_is_given_away_and_no_value_leaves_the_domain(method: str, kind: str) -> None:
    data, release = released(kind, method, marginals="smoothed")
    new = release.data
    for name in NAMES:
        if kind != "strata":  # there, the tails are those of the strata
            assert given_away(data[name], new[name]) == 0
        assert new[name].min() >= data[name].min()
        assert new[name].max() <= data[name].max()
    for _, rows in data.groupby("branch") if kind == "strata" else []:
        assert sum(given_away(rows[name], new.loc[rows.index, name], ranks=1) for name in NAMES) == 0
        # In columns of few steps, values of small strata meet by accident.
        assert sum(given_away(rows[name], new.loc[rows.index, name]) for name in NAMES) <= 0.05 * 2 * 5 * len(NAMES)
    whole = new[["wages", "staff", "flag"]].dropna()
    assert (whole == whole.round()).all(axis=None)
    assert (new["share"] == new["share"].round(1)).sum() == new["share"].notna().sum()
    assert set(new["flag"].dropna()) == {0.0, 1.0}
    assert abs((new["wages"] == 0).mean() - (data["wages"] == 0).mean()) <= 0.02
    assert patterns(new[NAMES]) == patterns(data[NAMES])


def test_what_fewer_than_the_tail_group_share_is_drawn_anew() -> None:
    data = firms()
    data.loc[:5, "turnover"] = 1234.5
    for group, stays in ((6, True), (7, False)):
        new = mv.protect(data, marginals="smoothed", tail_group=group, seed=1).data
        assert ((new["turnover"] == 1234.5).sum() == 6) == stays


def test_a_larger_tail_group_than_the_rows_allow_leaves_the_columns_free_and_says_so() -> None:
    release = mv.protect(firms(rows=40), tail_group=11, seed=1)
    assert any("did not get their own distributions back" in warning for warning in release.warnings)
    assert "distribution" not in release.kept


def test_smoothed_values_can_be_moved_once_more_for_exact_moments() -> None:
    data = firms()
    release = mv.protect(data, "veil", exact=True, seed=1)
    assert release.kept["mean"] <= 1e-12
    assert release.kept["covariance"] <= 1e-10
    assert (release.data.cov() - data.cov()).abs().max(axis=None) <= 1e-8 * data.cov().abs().max(axis=None)
    # What was learnt of the columns gives way, and the release says so.
    assert any("exact moments come first" in warning for warning in release.warnings)


# --- What goes with what


def test_parameters_that_go_with_others_only_are_refused_elsewhere() -> None:
    with pytest.raises(ParameterError, match="tail_group goes with marginals='smoothed' only"):
        mv.protect(firms(), "pca", tail_group=7)
    with pytest.raises(ParameterError, match="tail_group goes with"):
        mv.protect(firms(), "veil", marginals="original", tail_group=7)
    with pytest.raises(ParameterError, match="tail_group"):
        mv.protect(firms(), tail_group=1)
    with pytest.raises(ParameterError, match="free, original"):
        mv.protect(firms(), marginals="orignal")


def test_free_columns_are_what_the_components_add_up_to() -> None:
    data = firms()
    assert (mv.protect(data, "veil", marginals="free", rules=None, seed=4).data != data).mean(axis=None) > 0.95
    assert "distribution" not in mv.protect(data, "veil", marginals="free", rules=None, seed=4).kept


def test_methods_that_refuse_the_original_values_are_named_and_do_not_offer_them() -> None:
    refusing = [method for method in METHODS.values() if method.fixed.get("exact") is True or method.id == "lhs"]
    for method in (method for method in METHODS.values() if not method.labels_only):
        given = {"other": "file.csv"} if method.id in ("correct", "synthetic_addition") else {}
        offered = [p.allowed for p in method.parameters()[0].parameters if p.name == "marginals"]
        if method in refusing:
            with pytest.raises(ParameterError, match=r"^exact: |^marginals: "):
                method.plan({**given, "marginals": "original"})
            assert offered in ([], ["free, smoothed or stratified"])
        else:
            assert not method.plan({**given, "marginals": "original"}).exact
            assert offered == ["free, original, smoothed or stratified"]
    page = (Path(__file__).parents[2] / "docs" / "restorations.md").read_text()
    named = page[page.index("So `marginals=") : page.index("Mapped values")]
    assert {f"`{method.id}`" for method in refusing} - {"`lhs`"} == set(re.findall(r"`[a-z_]+`", named))
