"""Public columns by a formula: the model matrix, and what is kept of it."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from formula_samples import FIRMS, MONEY, firms, matrix_of, terms_of
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from properties import examples

import microveil as mv
from microveil.cli.main import main
from microveil.errors import MicroveilError, ParameterError

Array = NDArray[np.float64]


def per_label(frame: pd.DataFrame, name: str) -> Array:
    return np.column_stack([frame[name] == label for label in frame[name].unique()]).astype(float)


def times(*blocks: Array) -> Array:
    """All products of a column of each block."""
    product = np.ones((len(blocks[0]), 1))
    for block in blocks:
        product = np.column_stack([a * b for a in product.T for b in np.atleast_2d(block.T)])
    return product


def by_hand(frame: pd.DataFrame) -> dict[str, list[Array]]:
    """Formulas, and blocks of columns that span the same together with the intercept."""
    region, size, code = (per_label(frame, name) for name in ("region", "size", "code"))
    x, y, floor = (frame[name].to_numpy() for name in ("x", "y", "floor space"))
    return {
        "~ x": [x],
        "~x+y": [x, y],
        "~ 1 + x * y": [x, y, x * y],
        "~ x:y": [x * y],
        "~ (x + y + `floor space`)^2": [x, y, floor, x * y, x * floor, y * floor],
        "~ (x + y + `floor space`)**3": [x, y, floor, x * y, x * floor, y * floor, x * y * floor],
        "~ code": [frame["code"].to_numpy(dtype=float)],
        "~ C(code)": [code],
        "~ C( `code` ):`floor space` + code": [times(code, floor[:, None]), frame["code"].to_numpy(dtype=float)],
        "~ region": [region],
        "~ region + size": [region, size],
        "~ region * size": [times(region, size)],
        "~ region:size": [times(region, size)],
        "~ region * size - region": [times(region, size)],
        "~ region * x": [region, times(region, x[:, None])],
        "~ region:x": [times(region, x[:, None])],
        "~ region * x - region": [times(region, x[:, None])],
        "~ region * x - x": [region, times(region, x[:, None])],
        "~ (region + size + x)^2": [times(region, size), times(region, x[:, None]), times(size, x[:, None])],
        "~ (region + size + x)^2 - region:size": [region, size, times(region, x[:, None]), times(size, x[:, None])],
        "~ region * size * C(code) - region:size:C(code)": [
            times(region, size),
            times(region, code),
            times(size, code),
        ],
        "~ region:(x + y) + size:x:y": [
            times(region, x[:, None]),
            times(region, y[:, None]),
            times(size, (x * y)[:, None]),
        ],
        "~ size * x * y + region": [times(size, np.column_stack([np.ones(len(x)), x, y, x * y])), region],
    }


FORMULAS = list(by_hand(FIRMS))


def joined(blocks: list[Array]) -> Array:
    return np.column_stack([np.ones(len(blocks[0])), *blocks])


def projection(columns: Array) -> tuple[Array, int]:
    """The projection onto the span of columns, and its dimension."""
    left, values, _ = np.linalg.svd(columns / np.linalg.norm(columns, axis=0), full_matrices=False)
    left = left[:, values > 1e-10 * values[0]]
    return left @ left.T, left.shape[1]


# --- The model matrix


@pytest.mark.parametrize("formula", FORMULAS)
def test_the_model_matrix_spans_what_one_written_by_hand_does(formula: str) -> None:
    found = matrix_of(FIRMS, formula)
    expected, rank = projection(joined(by_hand(FIRMS)[formula]))
    assert np.abs(projection(joined(found.columns))[0] - expected).max() < 1e-10
    assert len(found.columns) == len(found.names) == rank - 1, "no column is there twice"
    assert all(column.dtype == np.float64 for column in found.columns)


@st.composite
def formulas(draw: st.DrawFn, depth: int = 3) -> str:
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from(["x", "y", "`floor space`", "region", "size", "C(code)"]))
    left, right = draw(formulas(depth - 1)), draw(formulas(depth - 1))
    shape = draw(st.sampled_from(["({} + {})", "({} + {})", "({} * {})", "({}:{})", "({} + {})^2"]))
    return shape.format(left, right)


@settings(max_examples=examples(60))
@given(formulas())
def test_the_model_matrix_spans_what_that_of_formulaic_does(text: str) -> None:
    import formulaic

    few = FIRMS[::2]
    try:
        found = matrix_of(few, f"~ {text}")
    except MicroveilError as error:
        refused = str(error)
        assert any(why in refused for why in ("times itself", "too few", "fewer than", "more than"))
        return
    if found.rare:
        return  # labels that are rare in half of the file are pooled
    expected = formulaic.model_matrix(f"~ {text}", few).to_numpy(dtype=float)
    assert np.abs(projection(joined(found.columns))[0] - projection(expected)[0]).max() < 1e-9
    assert len(found.columns) == expected.shape[1] - 1


def test_combinations_that_do_not_occur_and_constant_columns_have_no_column() -> None:
    few = FIRMS[(FIRMS["region"] != "west") | (FIRMS["size"] != "small")].assign(constant=7)
    assert len(matrix_of(FIRMS, "~ region * size").columns) == 11
    found = matrix_of(few, "~ region * size + constant")
    assert len(found.columns) == 10
    cells = times(per_label(few, "region"), per_label(few, "size"))
    expected, rank = projection(cells[:, cells.any(axis=0)])
    assert rank == 11
    assert np.abs(projection(joined(found.columns))[0] - expected).max() < 1e-10


def test_a_number_that_is_zero_under_a_label_has_no_column_there() -> None:
    data = FIRMS.assign(x=FIRMS["x"].where(FIRMS["region"] != "west", 0.0))
    found = matrix_of(data, "~ region:x")
    assert found.names == ("x", "region:x", "region:x")
    slopes = times(per_label(data, "region"), data[["x"]].to_numpy())
    expected, rank = projection(joined([slopes[:, slopes.any(axis=0)]]))
    assert rank == 4
    assert np.abs(projection(joined(found.columns))[0] - expected).max() < 1e-10


def test_a_text_column_is_its_labels_with_and_without_c() -> None:
    assert terms_of(FIRMS, "~ C(region)*x").products == terms_of(FIRMS, "~ region*x").products
    assert terms_of(FIRMS, "~ C(code)").products != terms_of(FIRMS, "~ code").products


def test_columns_of_odd_names_are_had_in_backticks() -> None:
    odd = FIRMS.rename(columns={"x": "C(code)", "y": "a + b", "code": "2019", "floor space": "~x"})
    assert terms_of(odd, "~ `C(code)`:`a + b` + C(`2019`)").columns == ("C(code)", "a + b", "2019")
    assert terms_of(odd, ["~x"]).columns == ("~x",), "in a list, a name is a name"


# --- What is kept


def worst_product(columns: Array, before: Array, after: Array) -> float:
    """The largest change of X'Y, over the norms."""
    scale = np.outer(np.linalg.norm(columns, axis=0), np.linalg.norm(before, axis=0))
    return float(np.abs((columns.T @ (after - before)) / scale).max())


@pytest.mark.parametrize("formula", FORMULAS)
def test_products_with_every_column_of_the_model_matrix_are_kept(formula: str) -> None:
    release = mv.protect(FIRMS, "pca", confidential=MONEY, public=formula, exact=True, seed=1)
    before, after = (frame[MONEY].to_numpy() for frame in (FIRMS, release.data))
    assert worst_product(joined(by_hand(FIRMS)[formula]), before, after) < 1e-12
    assert worst_product(joined(matrix_of(FIRMS, formula).columns), before, after) < 1e-12
    assert np.abs(after - before).max() > 0.1
    public = [name for name in FIRMS if name not in MONEY]
    pd.testing.assert_frame_equal(release.data[public], FIRMS[public])
    assert release.kept["covariance"] < 1e-11


def test_an_interaction_is_kept_only_if_it_is_asked_for() -> None:
    x, y = FIRMS["x"].to_numpy(), FIRMS["y"].to_numpy()
    both = ((x - x.mean()) * (y - y.mean()))[:, None]
    moved = {
        formula: worst_product(both, FIRMS[MONEY].to_numpy(), release_of(formula)[MONEY].to_numpy())
        for formula in ("~ x + y", "~ x * y")
    }
    assert moved["~ x * y"] < 1e-12
    assert moved["~ x + y"] > 1e-3


def release_of(formula: str, data: pd.DataFrame = FIRMS, **options: Any) -> pd.DataFrame:
    return mv.protect(data, "pca", confidential=MONEY, public=formula, seed=1, **options).data


def gaps_of_cells(release: mv.Release) -> pd.DataFrame:
    """How far the means of region x size have moved, in standard deviations."""
    before, after = (frame.groupby(["region", "size"])[MONEY].mean() for frame in (FIRMS, release.data))
    return (after - before).abs() / FIRMS[MONEY].std(ddof=0)


def test_means_of_crossed_groups_are_kept_exactly() -> None:
    crossed, uncrossed = (
        gaps_of_cells(mv.protect(FIRMS, "pca", confidential=MONEY, public=formula, seed=1)).to_numpy()
        for formula in ("~ region * size", "~ region + size")
    )
    assert crossed.max() < 1e-12
    assert uncrossed.max() > 0.01


def test_means_of_crossed_groups_are_kept_as_closely_as_covariances() -> None:
    release = mv.protect(FIRMS, "veil", confidential=MONEY, public="~ region * size", seed=1)
    gaps = gaps_of_cells(release).drop("east", level="region").drop("large", level="size")  # these have no column
    share = (FIRMS.groupby(["region", "size"]).size() / len(FIRMS)).loc[gaps.index]
    # The mean of a group of share p is the overall mean plus cov(indicator, y) / p, and the indicator's sd is
    # sqrt(p (1 - p)).
    most = release.kept["covariance"] * np.sqrt((1 - share) / share) + release.kept["mean"]
    assert (gaps.max(axis=1) <= most * (1 + 1e-9)).all()
    assert most.max() < 0.1


def test_weighted_means_of_crossed_groups_are_kept_in_every_stratum() -> None:
    rng = np.random.default_rng(2)
    data = firms(900).assign(w=rng.uniform(1, 9, 900), s=rng.choice(["u", "v"], 900))
    after = release_of("~ region * size", data, weight="w", strata="s")
    for rows in data.groupby(["s", "region", "size"]).groups.values():
        old, new = (np.average(frame.loc[rows, MONEY], axis=0, weights=data.loc[rows, "w"]) for frame in (data, after))
        assert np.abs((new - old) / data[MONEY].std()).max() < 1e-11


def test_figures_far_from_zero_keep_their_interaction() -> None:
    # The products differ from the figures by a millionth: all digits of the interaction are in the last ones.
    data = firms(offset=1e6)
    x, y = (data[name].to_numpy() - data[name].mean() for name in "xy")
    north = (data["region"] == "north").to_numpy() * x
    after = release_of("~ region * x + x * y", data)
    assert worst_product(np.column_stack([x * y, north]), data[MONEY].to_numpy(), after[MONEY].to_numpy()) < 1e-12


def test_a_missing_label_is_a_label_of_its_own() -> None:
    data = FIRMS.assign(region=FIRMS["region"].where(FIRMS["region"] != "west"))
    after = release_of("~ region * size", data)
    for size in data["size"].unique():
        rows = data["region"].isna() & (data["size"] == size)
        assert np.allclose(after.loc[rows, MONEY].mean(), data.loc[rows, MONEY].mean(), rtol=0, atol=1e-12)


# --- One result, whatever holds the table and whoever asks


def test_main_effects_are_what_a_list_of_columns_is() -> None:
    listed = mv.protect(FIRMS, "pca", confidential=MONEY, public=["x", "region"], seed=1).data
    pd.testing.assert_frame_equal(release_of("~ x + region"), listed, check_exact=True)


def test_every_kind_of_frame_gives_the_same() -> None:
    formula = "~ region * size + C(code) * `floor space`"
    expected = release_of(formula)[MONEY].to_numpy()
    for frame in (pl.from_pandas(FIRMS), pa.Table.from_pandas(FIRMS)):
        released = mv.protect(frame, "pca", confidential=MONEY, public=formula, seed=1).data
        assert type(released) is type(frame)
        assert np.array_equal(np.column_stack([released[name] for name in MONEY]), expected)


def test_arrays_are_called_by_their_numbers_in_backticks() -> None:
    values = FIRMS[["code", "x", *MONEY]].to_numpy()
    formula = "~ C(`0`) * `1`"
    released = mv.protect(values, "pca", public=formula, seed=1).data
    assert np.array_equal(released, mv.protect(pd.DataFrame(values), "pca", public=formula, seed=1).data.to_numpy())
    named = mv.protect(FIRMS[["code", "x", *MONEY]], "pca", public="~ C(code) * x", seed=1).data
    assert np.array_equal(released, named.to_numpy())
    with pytest.raises(ParameterError, match="0 and -1; a column whose name is a number goes in backticks"):
        mv.protect(values, public="~ 0 + 1")
    with pytest.raises(ParameterError, match="there is no column 'x'; there are: 0, 1, 2, 3, 4"):
        mv.protect(values, public="~ x")


def test_the_recipe_holds_the_formula_and_replays_to_the_same_bytes() -> None:
    formula = " ~ region * size + x "
    release = mv.protect(FIRMS, "pca", confidential=MONEY, public=formula, seed=7)
    assert release.settings["public"] == "~ region * size + x"
    recipe = json.loads(json.dumps(release.recipe(include_seed=True)))
    assert recipe.pop("recipe") == 2
    again = mv.protect(FIRMS, recipe.pop("method"), **recipe.pop("parameters"), **recipe)
    pd.testing.assert_frame_equal(again.data, release.data, check_exact=True)
    assert again.recipe() == release.recipe()
    listed = mv.protect(FIRMS, "pca", confidential=MONEY, public="region", seed=7)
    assert listed.settings["public"] == ["region"]


def test_the_account_names_the_formula_and_what_is_left_of_the_columns(tmp_path: Path) -> None:
    data = FIRMS.assign(x=FIRMS["x"].where(np.arange(240) > 9, -9.0).abs() * np.where(np.arange(240) > 9, 1, -1))
    release = mv.protect(data, "pca", confidential=MONEY, public="~ region:x + size", seed=1)
    assert "released as they are: region, size, code, x, y, floor space" in release.warnings
    for audience in ("internal", "public"):
        release.report(tmp_path / audience, audience)
        assert '<th scope="row">public</th><td>~ region:x + size</td>' in (tmp_path / audience).read_text()
    # As labels, codes are labels like any other.
    coded = {"columns": {"x": {"special_codes": [-9]}}}
    rounded = data.assign(x=data["x"].round())
    mv.protect(rounded[rounded["x"].isin([-9, 2, 3, 4])], "pca", confidential=MONEY, public="~ C(x)", rules=coded)
    for formula in ("~ x", "~ region:x", "~ x:y"):
        with pytest.raises(ParameterError, match="public column 'x' has special codes"):
            mv.protect(data, "pca", confidential=MONEY, public=formula, rules=coded)
        warnings = mv.protect(data, "pca", confidential=MONEY, public=formula, seed=1).warnings
        assert any("public column 'x': -9 looks like a code" in warning for warning in warnings)


def test_the_command_line_takes_a_formula(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out, recipe = tmp_path / "firms.csv", tmp_path / "out.csv", tmp_path / "recipe.toml"
    pl.from_pandas(FIRMS).write_csv(source)
    options = ["--method", "pca", "--seed", "3", "--confidential", ",".join(MONEY), "--save-recipe", str(recipe)]
    formula = "~ region*size + `floor space`"

    def run(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as stopped:
            main(list(arguments))
        printed = capsys.readouterr()
        return int(stopped.value.code or 0), printed.out + printed.err

    assert run("protect", str(source), "-o", str(out), "--public", formula, *options)[0] == 0
    expected = mv.protect(pl.read_csv(source), "pca", confidential=MONEY, public=formula, seed=3).data
    assert pl.read_csv(out).equals(expected)
    assert tomllib.loads(recipe.read_text())["public"] == formula
    code, said = run("protect", str(source), "-o", str(tmp_path / "no.csv"), "--public", "~ log(x)", *options[:-2])
    assert code == 2
    assert "public: 'log(x)' would have to be computed" in said
    assert not (tmp_path / "no.csv").exists()
    assert "formula" in run("protect", "--help")[1]


# --- What it costs


def test_formulaic_is_loaded_for_formulas_only() -> None:
    script = """
import sys
import microveil as mv
heavy = {"formulaic", "pandas"}
assert heavy.isdisjoint(sys.modules), "by the import"
import polars as pl
firms = pl.read_csv(mv.example_file())
options = dict(method="pca", confidential=["wages", "materials"], seed=1)
mv.protect(firms, public=["region", "employees"], **options)
assert "formulaic" not in sys.modules, "by a list of columns"
mv.protect(firms, public="~ region * employees", **options)
assert "formulaic" in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)
