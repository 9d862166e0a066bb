"""Records and columns that a careless release would give away: each is refused, or pointed out."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import microveil as mv
from microveil.errors import DataError, DisclosureWarning, ParameterError
from microveil.methods import METHODS
from microveil.perturb import PERTURBATIONS

# The default, which gives every column values of its own, and the method that promises exact moments.
both = pytest.mark.parametrize("method", ["veil", "pca"])


def amounts(seed: int, rows: int, columns: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.gamma(2.0, size=(rows, columns)) @ rng.uniform(0.2, 1, size=(columns, columns))


def frame(seed: int = 1, rows: int = 300) -> pd.DataFrame:
    return pd.DataFrame(amounts(seed, rows, 4), columns=list("abcd"))


# --- Public columns


def test_a_record_alone_in_a_public_label_is_pooled() -> None:
    data = frame().assign(g=["x", "y"] * 150)
    data.loc[7, "g"] = "only"
    release = mv.protect(data, "ipso", public="g", seed=1)
    assert any(warning.startswith("1 of the groups by public 'g' have too few records") for warning in release.warnings)
    assert (release.data.loc[7, list("abcd")] - data.loc[7, list("abcd")]).abs().min() > 0


@both
def test_a_record_alone_in_its_label_within_a_stratum_is_refused(method: str) -> None:
    data = frame().assign(s=np.repeat(["x", "y", "z"], 100), p=["u", "v"] * 150)
    data.loc[:99, "p"] = "u"
    data.loc[0, "p"] = "v"
    with pytest.raises(DataError, match="1 records are alone in what the public columns say"):
        mv.protect(data, method, strata="s", public="p")


@both
def test_a_record_alone_in_a_numeric_indicator_is_refused(method: str) -> None:
    data = frame().assign(p=0)
    data.loc[7, "p"] = 1
    with pytest.raises(DataError, match="alone in what the public columns say"):
        mv.protect(data, method, public="p")


def test_special_codes_of_a_public_column_are_refused() -> None:
    data = frame().assign(p=np.arange(300) % 7 - 2)
    with pytest.raises(ParameterError, match="public column 'p' has special codes"):
        mv.protect(data, public="p", rules={"columns": {"p": {"special_codes": [-2]}}})


@both
def test_a_record_far_out_in_a_public_column_is_pointed_out(method: str) -> None:
    data = frame().assign(x=np.random.default_rng(2).normal(size=300))
    assert not any("far out" in warning for warning in mv.protect(data, method, public="x", seed=1).warnings)
    data.loc[5, "x"] = 100.0
    warnings = mv.protect(data, method, public="x", seed=1).warnings
    assert any(warning.startswith("1 records stand so far out in the public columns") for warning in warnings)


@both
def test_public_columns_that_determine_everything_are_refused(method: str) -> None:
    x = np.random.default_rng(3).normal(size=50)
    with pytest.raises(DataError, match="follows from '0'"):
        mv.protect(np.column_stack([x, 2 * x, 3 * x + 1]), method, public=[0])


def test_a_sensitive_column_that_public_ones_determine_is_refused() -> None:
    data = amounts(4, 60, 3)
    data = np.column_stack([data, 2 * data[:, 0] + 1])
    with pytest.raises(DataError, match="'3' follows from '0'"):
        mv.protect(data, "pca", public=[0], components="sensitive", sensitive=[3])


def test_a_code_in_a_public_column_is_pointed_out() -> None:
    data = frame().assign(x=np.random.default_rng(2).integers(0, 50, 300))
    data.loc[:9, "x"] = -9
    assert any(
        "public column 'x': -9 looks like a code" in warning for warning in mv.protect(data, public="x").warnings
    )


@both
@pytest.mark.parametrize("share", [0.1, 0.3])
def test_relations_to_public_columns_survive_missing_cells(share: float, method: str) -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=400)
    data = pd.DataFrame({"x": x, "a": 2 * x + 0.3 * rng.normal(size=400), "b": rng.normal(size=400) - x, "c": x**2})
    data = data.mask((rng.random(data.shape) < share) & (data.columns != "x"))
    release = mv.protect(data, method, public="x", seed=5)
    scale = np.outer(data.std(), data.std())
    error = (np.abs(release.data.cov() - data.cov()) / scale).to_numpy().max()
    # Smoothed tails cost some variance; a sampling error would be ten times as much.
    assert error < {"pca": 1e-10, "veil": 0.02}[method]
    assert release.kept["covariance"] == pytest.approx(error, rel=0.02, abs=1e-12)
    assert (release.data.isna() == data.isna()).all(axis=None)


def test_kept_sees_a_broken_relation_to_public_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(200, 1))
    data = np.hstack([x, x + amounts(6, 200, 3)])
    honest = mv.protect(data, "pca", public=[0], seed=1)
    assert honest.kept["covariance"] < 1e-10
    from microveil.engines import pipeline

    def forgetful(*arguments: Any) -> Any:
        fix = original(*arguments)
        return dataclasses.replace(fix, matrix=np.vstack([fix.matrix[:1] + 0.2, fix.matrix[1:]]))

    original = pipeline.correction
    monkeypatch.setattr(pipeline, "correction", forgetful)
    assert mv.protect(data, "pca", public=[0], seed=1).kept["covariance"] > 0.01


# --- Few answers, few rows


@pytest.mark.parametrize("answers", [1, 2])
def test_one_or_two_answers_are_refused(answers: int) -> None:
    data = frame()
    data.loc[answers:, "b"] = np.nan
    with pytest.raises(DataError, match="'b' has fewer than 3 values"):
        mv.protect(data)


def test_one_or_two_answers_in_a_stratum_are_refused() -> None:
    data = frame().assign(g=np.repeat(["x", "y", "z"], 100))
    data.loc[101:199, "b"] = np.nan
    with pytest.raises(DataError, match="'b' has fewer than 3 values in 1 of the groups"):
        mv.protect(data, strata="g")


@pytest.mark.parametrize("perturb", PERTURBATIONS)
def test_no_room_for_another_table_is_refused(perturb: str) -> None:
    data = np.random.default_rng(7).normal(size=(12, 11))
    with pytest.raises(DataError, match="leave no other table than this"):
        mv.protect(data, "pca", components=1, perturb=perturb)


def test_few_rows_never_come_back_in_the_old_order() -> None:
    for seed in range(60):
        data = np.random.default_rng(seed).normal(size=(3, 2))
        assert not np.allclose(mv.protect(data, "pca", components=1, exact=False, seed=seed).data, data)
        assert not np.allclose(mv.protect(data, seed=seed).data, data)


# --- Strata


@both
def test_only_rules_of_the_whole_table_are_told(method: str) -> None:
    data = frame().assign(g=np.repeat(["large", "small"], [200, 100]))
    data["d"] = data["a"] + data["b"]
    assert mv.protect(data, method, strata="g", seed=1).rules == ["d = a + b"]
    data.loc[200:, "d"] += np.random.default_rng(1).normal(size=100)
    release = mv.protect(data, method, strata="g", seed=1)
    assert release.rules == []
    assert "linear rules" not in release.kept
    assert max(release.kept["mean"], release.kept["covariance"]) < {"pca": 1e-10, "veil": 0.05}[method]


@both
def test_a_column_constant_in_the_largest_stratum_only_is_not_called_constant(method: str) -> None:
    data = frame().assign(g=np.repeat(["large", "small"], [200, 100]))
    data.loc[:199, "c"] = 5.0
    release = mv.protect(data, method, strata="g", seed=1)
    assert not any("constant" in warning for warning in release.warnings)
    assert release.dose["c"].cells_changed == pytest.approx(1 / 3)
    assert release.components.columns == ("a", "b", "d"), "the components shown are those of the largest stratum"
    assert release.components.weights.shape == (3, 3)
    assert (release.data.loc[:199, "c"] == 5).all()


@both
def test_a_stratum_in_which_nothing_varies_passes(method: str) -> None:
    data = frame().assign(g=np.repeat(["large", "flat"], [200, 100]))
    data.loc[200:, list("abcd")] = 1.0
    release = mv.protect(data, method, strata="g", seed=1)
    assert (release.data.loc[200:, list("abcd")] == 1).all(axis=None)
    data.loc[:199, list("abcd")] = 2.0
    with pytest.raises(DataError, match="constant in every group"):
        mv.protect(data, method, strata="g", seed=1)


@both
def test_kept_is_the_worst_stratum(method: str) -> None:
    data = frame().assign(g=np.repeat(["x", "y"], 150))
    data = data.mask((np.random.default_rng(1).random(data.shape) < 0.1) & (data.columns != "g"))
    release = mv.protect(data, method, strata="g", seed=1)
    errors = []
    for group in "xy":
        before, after = (frame.loc[data["g"] == group, list("abcd")] for frame in (data, release.data))
        scale = np.outer(before.std(), before.std())
        errors.append(((after.cov() - before.cov()).abs() / scale).to_numpy().max())
    assert max(errors) < {"pca": 1e-10, "veil": 0.08}[method]
    assert release.kept["covariance"] == pytest.approx(max(errors), rel=0.05, abs=1e-12)


def test_an_error_in_a_stratum_says_so() -> None:
    data = frame().assign(g=np.repeat(["x", "y"], [280, 20]))
    data.loc[280:, "d"] = data.loc[280:, "a"] + data.loc[280:, "b"]
    with pytest.raises(ParameterError, match="in a stratum of 20 rows: components: 4 asked, but there are 3"):
        mv.protect(data, "pca", strata="g", components=4)


def test_kind_and_warnings_speak_of_every_stratum() -> None:
    data = frame().assign(g=np.repeat(["large", "small"], [200, 100])).drop(columns="d")
    data.loc[:199, "c"] = 1.0
    release = mv.protect(data, "pca", strata="g", components=2, perturb="normal", seed=1)
    assert release.release_type == "hybrid", "one of the three components of the small stratum is untouched"
    assert any(warning.startswith("1 components are untouched") for warning in release.warnings)


@both
def test_the_dose_asked_is_a_share_of_the_whole_variance_with_strata(method: str) -> None:
    data = frame().assign(g=np.repeat([0, 1, 2], 100))
    data[list("abcd")] += 30 * data[["g"]].to_numpy()
    for dose in mv.protect(data, method, strata="g", seed=1).dose.values():
        assert dose.achieved == pytest.approx(dose.asked, abs=0.01)


# --- Holes and rules


def test_sums_are_found_among_the_fullest_columns_when_few_rows_are_whole() -> None:
    rng = np.random.default_rng(12)
    data = pd.DataFrame(amounts(12, 2000, 20).round(2), columns=[f"x{i}" for i in range(20)])
    data = data.mask((rng.random(data.shape) < 0.2) & ~data.columns.isin(["x0", "x1"]))
    data["total"] = data["x0"] + data["x1"]
    release = mv.protect(data, "pca", seed=1)
    assert release.rules == ["total = x0 + x1"]
    assert np.allclose(release.data["total"], release.data["x0"] + release.data["x1"], rtol=1e-9)
    assert any("sums were looked for among the fullest columns only" in warning for warning in release.warnings)


@both
def test_a_column_constant_among_the_whole_rows_does_no_harm(method: str) -> None:
    rng = np.random.default_rng(13)
    data = pd.DataFrame(amounts(13, 200, 2), columns=list("ab")).assign(t=lambda f: f["a"] + f["b"], c=5.0)
    data.loc[:49, "c"] = rng.normal(size=50)
    data.loc[:49, ["a", "t"]] = np.nan
    release = mv.protect(data, method, seed=1)
    assert release.rules[0] == "t = a + b"  # and orders, which veil keeps
    assert np.allclose(release.data["t"], release.data["a"] + release.data["b"], rtol=1e-12, equal_nan=True)
    assert mv.describe(data).rules == ["t = a + b"]


def test_nothing_is_said_to_be_kept_on_average_with_missing_cells() -> None:
    options: dict[str, Any] = {"perturb": "normal", "exact": False, "seed": 1}
    data = frame()
    assert mv.protect(data, "pca", rules=None, **options).kept_on_average == ("mean", "covariance")
    data.loc[:30, "a"] = np.nan
    assert mv.protect(data, "pca", rules=None, **options).kept_on_average == ()


def test_nothing_is_said_to_be_kept_on_average_where_values_were_moved_into_their_domain() -> None:
    release = mv.protect(frame(), "pca", perturb="normal", exact=False, seed=1)
    assert release.kept_on_average == ()
    assert any("were moved to values the columns can have" in warning for warning in release.warnings)
    assert (release.data >= 0).all(axis=None)


def test_a_sensitive_total_of_totals_stands_for_its_parts() -> None:
    data = frame().assign(t1=lambda f: f["a"] + f["b"], t=lambda f: f["a"] + f["b"] + f["c"])
    rules = {"sums": [{"total": "t1", "parts": ["a", "b"]}, {"total": "t", "parts": ["t1", "c"]}]}
    release = mv.protect(data, "pca", rules=rules, components="sensitive", sensitive=["t"], seed=1)
    assert release.dose["t"].asked > 0.7


# --- Types


def test_values_too_large_to_be_added_up_are_refused_by_name() -> None:
    with pytest.raises(DataError, match="column 'b' is too large or too small in its unit"):
        mv.protect(pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [8e4, 1e308, 1e308]}), "ipso")


def test_values_that_do_not_fit_their_type_are_refused() -> None:
    data = np.minimum(6e4 + 3e3 * np.random.default_rng(1).normal(size=(60, 3)), 65000).astype(np.float16)
    with pytest.raises(DataError, match="does not fit its type"):
        mv.protect(data, "pca", seed=1, perturb="normal")
    release = mv.protect(data, seed=1)
    assert release.data.dtype == np.float16, "values of its own fit a column's type"
    assert (release.data <= data.max(axis=0)).all()


# --- Columns that are released as they are


def test_a_number_is_the_column_that_is_called_so() -> None:
    """Labels that count from 1: to protect the columns at these places would release the first one in clear."""
    data = pd.DataFrame(amounts(1, 300, 4), columns=[1, 2, 3, 4])
    release = mv.protect(data, "ipso", confidential=[1, 2], seed=1)
    assert list(release.dose) == ["1", "2"]
    assert not np.isclose(release.data[1], data[1]).any()
    assert release.data[[3, 4]].equals(data[[3, 4]])
    places = mv.protect(data.set_axis(list("abcd"), axis=1), "ipso", confidential=[1, 2], seed=1)
    assert list(places.dose) == ["b", "c"]


def test_columns_without_a_role_are_named() -> None:
    data = frame().assign(name=[f"firm {i}" for i in range(300)], region=["n", "s"] * 150)
    release = mv.protect(data, seed=1)
    assert list(release.data.columns) == [*frame().columns, "region"]
    assert list(release.labels) == ["region"]
    assert any("left out of the release: column 'name' (identifier" in warning for warning in release.warnings)
    assert (release.in_clear, release.unique_in_clear) == ((), 0.0)
    with pytest.warns(DisclosureWarning, match="released as they are: name, region"):
        kept = mv.protect(data, keep=["name", "region"], seed=1)
    assert kept.data[["name", "region"]].equals(data[["name", "region"]])
    assert kept.warnings[0] == "released as they are: name, region"
    assert kept.warnings[1].startswith("100.0 % of the rows are unique on the columns in clear")
    assert (kept.in_clear, kept.unique_in_clear) == (("name", "region"), 1.0)


@pytest.mark.parametrize(
    "cells",
    [
        ["2100,82", "17,5", "3,25"],
        ["<5", "12", "40"],
        ["1.234,5", "7,1", "2,0"],
        ["1 234", "56", "7 890"],
        ["12.5%", "3 %", "40%"],
        ["€12.00", "7.50 EUR", "(5)"],
    ],
)
def test_amounts_that_were_read_as_text_are_not_released_in_clear(cells: list[str]) -> None:
    data = pl.DataFrame(amounts(1, 300, 3), schema=list("abc")).with_columns(wages=pl.Series(cells * 100))
    with pytest.raises(DataError, match="'wages' is text, but most of its cells look like numbers"):
        mv.protect(data)
    assert mv.protect(data, confidential=["a", "b", "c"], seed=1).data["wages"].equals(data["wages"])


def test_one_cell_like_a_code_does_not_make_amounts_codes() -> None:
    cells = [str(1000 + 7 * i) for i in range(300)]
    cells[3] = "007"
    data = pl.DataFrame(amounts(1, 300, 3), schema=list("abc")).with_columns(wages=pl.Series(cells))
    with pytest.raises(DataError, match="'wages' is text"):
        mv.protect(data)
    codes = pl.Series([f"{i % 90:03d}" for i in range(300)])
    labels = mv.protect(data.with_columns(wages=codes), seed=1).data["wages"]
    assert sorted(labels) == sorted(codes)
    assert (labels != codes).mean() > 0.9


# --- Messages and reprs


def test_a_series_in_the_place_of_a_name_is_refused_without_its_cells() -> None:
    data = frame().assign(w=np.random.default_rng(1).uniform(1, 2, 300), name=[f"Smith {i}" for i in range(300)])
    for role in ("weight", "strata", "public", "confidential"):
        with pytest.raises(ParameterError, match=f"{role}: takes the names of columns") as caught:
            mv.protect(data, **{role: data["name"] if role == "strata" else data["w"]})
        assert "Smith" not in str(caught.value)
        assert str(data["w"][0]) not in str(caught.value)


@both
def test_equal_values_give_equal_bytes_whatever_their_bits(method: str) -> None:
    data = amounts(10, 200, 3)
    data[3, 1], data[5, 2] = 0.0, np.nan
    other = data.copy()
    other[3, 1], other[5, 2] = -0.0, -np.nan
    one, two = (mv.protect(values, method, seed=4).data for values in (data, other))
    assert np.array_equal(one, two, equal_nan=True)


def test_no_dataclass_that_holds_arrays_prints_them() -> None:
    """By the source: to import all of it compiles every loop."""
    source = [ast.parse(path.read_text()) for path in Path(mv.__file__).parent.rglob("*.py")]
    classes = {node.name: node for tree in source for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}

    def holds_arrays(kind: ast.ClassDef) -> bool:
        fields = [ast.unparse(node.annotation) for node in kind.body if isinstance(node, ast.AnnAssign)]
        bases = [classes[base.id] for base in kind.bases if isinstance(base, ast.Name) and base.id in classes]
        return any(word in field for field in fields for word in ("Array", "Moments", "Matrix")) or any(
            map(holds_arrays, bases)
        )

    made = {name: " ".join(map(ast.unparse, kind.decorator_list)) for name, kind in classes.items()}
    made = {name: by for name, by in made.items() if "dataclass" in by}
    assert len(made) > 150
    assert [name for name, by in made.items() if holds_arrays(classes[name]) and "repr=False" not in by] == []


def test_the_plan_does_not_print_permutations() -> None:
    order = np.random.default_rng(1).permutation(50)[:, None]
    assert str(order[0, 0]) + " " not in repr(METHODS["pca"].plan({"permutations": order, "components": 1}))


def test_the_recipe_is_a_copy() -> None:
    rules = {"columns": {"a": {"special_codes": [1]}}}
    release = mv.protect(frame(), rules=rules, seed=1)
    rules["columns"]["a"]["special_codes"].append(5)
    release.recipe()["parameters"]["perturb"] = "other"
    assert release.recipe()["rules"]["columns"]["a"]["special_codes"] == [1]
    assert release.recipe()["parameters"]["perturb"] == "swap"


@both
def test_the_recipe_of_rules_none_replays(method: str) -> None:
    data = frame()
    data.loc[:9, "a"] = -9
    release = mv.protect(data, method, rules=None, seed=5)
    recipe = release.recipe(include_seed=True)
    assert recipe["rules"] == "none"
    again = mv.protect(data, recipe["method"], rules=recipe["rules"], seed=recipe["seed"], **recipe["parameters"])
    assert again.data.equals(release.data)
