"""Rules of columns end to end: what is declared always holds, what was found yields to exact moments and is told."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from gaps import patterns

import microveil as mv
from microveil.core.errors import DataError, ParameterError

ROWS = 300
EXACT = ["pca", "primp_cholesky", "cholesky"]
FREE = ["primp", "normal", "noise"]
EVERY = ["veil", *EXACT, *FREE, "rank_swap"]
every_method = pytest.mark.parametrize("method", EVERY)


def shops(seed: int = 0, rows: int = ROWS) -> pd.DataFrame:
    """Revenue, quantity (some zeros), price = revenue / quantity, rating from 0 to 10, and rent."""
    rng = np.random.default_rng(seed)
    size = np.exp(rng.standard_normal((rows, 1)) + 0.5 * rng.standard_normal((rows, 4)))
    quantity = np.where(np.arange(rows) % 20 == 0, 0.0, np.ceil(20 * size[:, 0]))
    revenue = np.round(100 * size[:, 1] * size[:, 0], 2)
    price = np.round(np.divide(revenue, quantity, out=np.zeros(rows), where=quantity > 0), 2)
    rating = np.clip(np.round(4 + 2 * np.log(size[:, 2]), 1), 0, 10)
    return pd.DataFrame(
        {"revenue": revenue, "quantity": quantity, "price": price, "rating": rating, "rent": 1000 * size[:, 3]}
    )


def expected_price(data: pd.DataFrame, otherwise: float = 0.0) -> pd.Series:
    return (data["revenue"] / data["quantity"].where(data["quantity"] != 0)).fillna(otherwise)


PLAIN = ["revenue", "quantity", "rating", "rent"]
RATIO = {"ratios": [{"ratio": "price", "numerator": "revenue", "denominator": "quantity"}]}
DOMAINS: dict[str, Any] = {
    "columns": {
        "revenue": {"minimum": 0, "step": 0.01},
        "quantity": {"minimum": 0, "step": 1, "zeros": True},
        "rating": {"minimum": 0, "maximum": 10, "step": 0.1},
        "rent": {"minimum": 0},
    }
}


# --- Declared domains


@every_method
def test_declared_domains_hold_for_every_method(method: str) -> None:
    data = shops()[PLAIN]
    new = mv.protect(data, method, rules=DOMAINS, seed=1).data
    assert (new.min() >= 0).all()
    assert new["rating"].max() <= 10
    assert (new["quantity"] == new["quantity"].round()).all()
    assert (new["rating"] == new["rating"].round(1)).all()
    assert (new["revenue"] == new["revenue"].round(2)).all()
    assert (new["quantity"] == 0).sum() == (data["quantity"] == 0).sum()


@pytest.mark.parametrize("method", EXACT)
def test_the_cost_of_declared_rules_is_told_where_moments_were_promised(method: str) -> None:
    data = shops()[PLAIN]
    release = mv.protect(data, method, rules=DOMAINS, seed=1)
    said = "\n".join(release.warnings)
    assert "were moved to values the columns can have" in said
    assert "because declared rules come first" in said
    error = float(((release.data.mean() - data.mean()).abs() / data.std(ddof=0)).max())
    assert release.kept["mean"] == pytest.approx(error, rel=1e-6)
    assert error > 1e-6
    free = mv.protect(data, method, rules=None, seed=1)
    assert free.kept["mean"] <= 1e-12
    assert free.data.min().min() < 0


@pytest.mark.parametrize("method", EXACT)
def test_learnt_domains_give_way_to_exact_moments_and_are_named(method: str) -> None:
    data = shops()[PLAIN]
    release = mv.protect(data, method, seed=1)
    assert release.kept["mean"] <= 1e-12
    assert release.kept["covariance"] <= 1e-9
    (negative,) = [said for said in release.warnings if said.startswith("negative values where there were none")]
    assert all(name in negative for name in release.data.columns[release.data.min() < 0])
    decimals = next(said for said in release.warnings if said.startswith("decimals where there were whole numbers"))
    assert "quantity" in decimals
    assert "unless the dictionary of the columns declares" in decimals


@pytest.mark.parametrize("method", ["normal", "noise", "veil"])
def test_learnt_domains_are_enforced_where_no_moment_is_promised(method: str) -> None:
    data = shops()[PLAIN]
    release = mv.protect(data, method, seed=1)
    new = release.data
    assert (new.min() >= 0).all()
    assert (new["quantity"] == new["quantity"].round()).all()
    assert (new["rating"] == new["rating"].round(1)).all()
    assert not any("where there were" in said for said in release.warnings)
    if method != "veil":
        assert (new["quantity"] == 0).sum() == (data["quantity"] == 0).sum()
        (cost,) = [said for said in release.warnings if "were moved to values the columns can have" in said]
        cells = int(cost.split()[0])
        bare = mv.protect(data, method, rules=None, seed=1).data
        assert cells == ((new - bare).abs() > 1e-12 * new.abs()).sum().sum()


def test_without_rules_nothing_is_enforced() -> None:
    release = mv.protect(shops()[PLAIN], "normal", rules=None, seed=1)
    assert release.data.min().min() < 0
    assert (release.data["quantity"] != release.data["quantity"].round()).any()


def test_bounds_may_cut_off_what_a_method_has_kept() -> None:
    """The dictionary is the user's word: a maximum below some values is a lid on the release."""
    data = shops()[PLAIN]
    lid = float(data["rent"].quantile(0.9))
    release = mv.protect(data, "veil", rules={"columns": {"rent": {"maximum": lid}}}, seed=1)
    assert release.data["rent"].max() == lid
    assert any("rent were moved to values the columns can have" in said for said in release.warnings)


@pytest.mark.parametrize("method", ["veil", "pca"])
def test_a_bound_that_most_of_the_original_breaks_is_audited_and_told(method: str) -> None:
    data = pd.DataFrame(np.random.default_rng(7).gamma(2.0, 300, size=(400, 3)), columns=["wages", "b", "c"])
    release = mv.protect(data, method, rules={"columns": {"wages": {"maximum": 300}}}, seed=1)
    outside = int((data["wages"] > 300).sum())
    assert outside > 200
    assert [(line.before, line.after) for line in release.audit or [] if line.rule == "wages: at most 300"] == [
        (outside, 0)
    ]
    assert sum(f"{outside} cells of the original 'wages' are outside" in said for said in release.warnings) == 1
    fitting = mv.protect(data, method, rules={"columns": {"wages": {"maximum": 1e6}}}, seed=1)
    assert not any("of the original" in said for said in fitting.warnings)


def test_declared_zeros_are_those_of_each_stratum() -> None:
    data = shops()[PLAIN].assign(town=np.arange(ROWS) % 3)
    data.loc[data["town"] == 1, "quantity"] += 1  # no zero there
    new = mv.protect(data, "pca", strata="town", confidential=PLAIN, rules=DOMAINS, seed=1).data
    before, after = ((side["quantity"] == 0).groupby(side["town"]).sum() for side in (data, new))
    assert before[1] == 0
    assert (before == after).all()


def test_declared_domains_hold_for_the_cells_that_are_there() -> None:
    data = shops()[PLAIN].mask(np.random.default_rng(2).random((ROWS, 4)) < 0.2)
    new = mv.protect(data, "pca", rules=DOMAINS, seed=1).data
    assert (new.isna() == data.isna()).all(axis=None)
    assert (new.min() >= 0).all()
    assert (new["quantity"] == 0).sum() == (data["quantity"] == 0).sum()


def test_special_codes_are_no_values_of_the_domain() -> None:
    data = shops()[PLAIN]
    data.loc[::9, "rating"] = -9.0
    rules = {"columns": {"rating": {"special_codes": [-9], "minimum": 0, "maximum": 10, "step": 0.1}}}
    new = mv.protect(data, "pca", rules=rules, seed=1).data
    assert (new.loc[::9, "rating"] == -9).all()
    assert new["rating"].drop(index=range(0, ROWS, 9)).between(0, 10).all()


def test_a_declared_bound_of_a_total_yields_to_the_sum_and_is_counted() -> None:
    data = shops()[["revenue", "rent", "rating"]]
    data["income"] = data["revenue"] + data["rent"]
    rules = {
        "columns": {"income": {"maximum": float(data["income"].median())}},
        "sums": [{"total": "income", "parts": ["revenue", "rent"]}],
    }
    release = mv.protect(data, rules=rules, seed=1)
    new = release.data
    assert np.allclose(new["income"], new["revenue"] + new["rent"], rtol=1e-12)
    above = int((new["income"] > data["income"].median()).sum())
    assert any(f"{above} cells of 'income' are outside what the dictionary" in said for said in release.warnings)


@pytest.mark.parametrize("step", [0.3, 0.4, 0.25, 1.5, 12])
def test_steps_of_all_kinds_are_met(step: float) -> None:
    new = mv.protect(shops()[PLAIN], "pca", rules={"columns": {"rent": {"step": step}}}, seed=1).data["rent"]
    assert np.abs(new / step - (new / step).round()).max() <= 1e-9 * (new / step).abs().max()
    assert new.nunique() > 30


# --- Ratios


@pytest.mark.parametrize("method", ["veil", *FREE])
def test_a_ratio_is_found_and_holds_in_the_release(method: str) -> None:
    release = mv.protect(shops(), method, marginals="smoothed", seed=1)
    new = release.data
    assert "price = revenue / quantity" in release.rules
    assert (new["price"] - expected_price(new)).abs().max() <= 0.005 * (1 + 1e-9)
    assert (new["price"] == new["price"].round(2)).all()
    assert (new["price"] != shops()["price"]).mean() > 0.8


@pytest.mark.parametrize("method", EXACT)
def test_a_found_ratio_gives_way_to_exact_moments_and_is_named(method: str) -> None:
    """Over a denominator that happens to be next to zero, it would be anything, and its mean with it."""
    release = mv.protect(shops(), method, seed=1)
    assert release.kept["mean"] <= 1e-12
    assert release.kept["covariance"] <= 1e-9
    assert release.rules == []
    assert any("held before, and no longer does: price = revenue / quantity" in said for said in release.warnings)


@every_method
def test_a_declared_ratio_holds_for_every_method(method: str) -> None:
    release = mv.protect(shops(), method, rules={**RATIO, **DOMAINS}, seed=1)
    new = release.data
    assert (new["price"] - expected_price(new)).abs().max() <= 0.005 * (1 + 1e-9)
    assert "price = revenue / quantity" in release.rules
    if method in EXACT:
        assert any("mean: kept to" in said and "declared rules come first" in said for said in release.warnings)


def test_a_ratio_of_a_total_is_computed_from_the_new_total() -> None:
    data = shops()
    data["income"] = data["revenue"] + data["rent"]
    data["per_head"] = data["income"] / (data["quantity"] + 1)
    data["staff"] = data["quantity"] + 1
    rules = {
        "sums": [{"total": "income", "parts": ["revenue", "rent"]}],
        "ratios": [{"ratio": "per_head", "numerator": "income", "denominator": "staff"}],
    }
    new = mv.protect(data.drop(columns=["quantity", "price"]), rules=rules, seed=1).data
    assert np.allclose(new["income"], new["revenue"] + new["rent"], rtol=1e-12)
    assert np.allclose(new["per_head"], new["income"] / new["staff"], rtol=1e-12)


def test_ratios_hold_in_strata_with_weights_and_public_columns() -> None:
    data = shops().assign(town=np.arange(ROWS) % 3, weight=np.random.default_rng(1).uniform(1, 5, ROWS))
    for roles in ({"strata": "town"}, {"weight": "weight"}, {"public": "rating"}):
        confidential = [name for name in shops() if name not in roles.values()]
        new = mv.protect(data, confidential=confidential, rules=RATIO, seed=1, **roles).data
        assert (new["price"] - expected_price(new)).abs().max() <= 0.005 * (1 + 1e-9)


@pytest.mark.parametrize("library", ["pandas", "polars", "Float64"])
def test_a_ratio_that_is_missing_over_zero_is_missing_again_and_holes_stay(library: str) -> None:
    data = shops()
    data["price"] = data["price"].where(data["quantity"] != 0)
    data.loc[5:30:5, "price"] = np.nan
    frame: Any = {"pandas": data, "polars": pl.from_pandas(data), "Float64": data.astype("Float64")}[library]
    out = mv.protect(frame, rules={**RATIO, "columns": {"quantity": {"zeros": True}}}, seed=1).data
    assert type(out) is type(frame)
    if library == "polars":
        assert out["price"].is_nan().sum() == 0  # missing as the library has it
    new = (out.to_pandas() if library == "polars" else out).astype(float)
    assert (new["quantity"] == 0).sum() == (data["quantity"] == 0).sum()
    missing = new["price"].isna()
    assert missing[new["quantity"] == 0].all()
    others = len(range(5, 31, 5)) + (data["quantity"] == 0).sum()  # gaps that went to rows with another quantity
    assert data["price"].isna().sum() <= missing.sum() <= others + (new["quantity"] == 0).sum()
    assert (new["price"] - expected_price(new))[~missing].abs().max() <= 0.005 * (1 + 1e-9)


def test_a_sensitive_ratio_stands_for_what_it_is_made_of() -> None:
    of_ratio = mv.protect(shops(), "pca", components="sensitive", sensitive=["price"], rules=RATIO, seed=1)
    of_parts = mv.protect(
        shops(), "pca", components="sensitive", sensitive=["revenue", "quantity"], rules=RATIO, seed=1
    )
    assert of_ratio.components.perturbed == of_parts.components.perturbed


def test_a_ratio_and_its_dose_are_told_without_values() -> None:
    release = mv.protect(shops(), seed=1)
    assert release.dose["price"].asked is None  # how much a quotient moves depends on both
    assert release.dose["price"].achieved > 0.5


# --- Contradictions and slips


def refusal(rules: Any, data: pd.DataFrame | None = None) -> str:
    with pytest.raises((ParameterError, DataError)) as caught:
        mv.protect(shops() if data is None else data, rules=rules)
    return str(caught.value)


CONTRADICTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "minimum above maximum": ({"minimum": 31.25, "maximum": 7.75}, "no value of column 'rent' is between"),
    "no multiple between": ({"minimum": 31.25, "maximum": 31.75, "step": 1}, "no value of column 'rent' is between"),
    "zeros below the minimum": ({"minimum": 31.25, "zeros": True}, "its bounds exclude zero"),
    "zeros above the maximum": ({"maximum": -31.25, "zeros": True}, "its bounds exclude zero"),
    "a minimum above all values": ({"minimum": 1e300}, "every value of column 'rent' is outside"),
    "a maximum below all values": ({"maximum": -31.25}, "every value of column 'rent' is outside"),
    "a step of zero": ({"step": 0}, "columns.rent.step"),
    "a step below zero": ({"step": -31.25}, "columns.rent.step"),
    "an infinite bound": ({"minimum": float("-inf")}, "columns.rent.minimum"),
    "no number": ({"maximum": "much"}, "columns.rent.maximum"),
    "an unknown word": ({"minimun": 31.25}, "no key 'minimun' in columns.rent"),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_contradictory_domains_are_refused_by_name_and_without_values(case: str) -> None:
    entry, expected = CONTRADICTIONS[case]
    said = refusal({"columns": {"rent": entry}})
    assert expected in said
    assert not re.search(r"31\.25|7\.75", said)


def test_contradictory_ratios_are_refused() -> None:
    ratio = RATIO["ratios"][0]
    assert "no column 'prise'" in refusal({"ratios": [{**ratio, "ratio": "prise"}]})
    assert "more than a ratio" in refusal({"ratios": [{**ratio, "denominator": "price"}]})
    assert "declared twice" in refusal({"ratios": [ratio, ratio]})
    other = {"ratio": "rent", "numerator": "price", "denominator": "quantity"}
    data = shops()
    data["rent"] = (data["price"] / data["quantity"].where(data["quantity"] > 0)).fillna(0.0)
    assert "made of another ratio" in refusal({"ratios": [ratio, other]}, data)
    data["rent"] = data["price"] + data["rating"]
    sums = [{"total": "rent", "parts": ["price", "rating"]}]
    assert "a ratio is part of a sum" in refusal({"ratios": [ratio], "sums": sums}, data)
    sums = [{"total": "price", "parts": ["rent", "rating"]}]
    assert "more than a ratio" in refusal(
        {"ratios": [ratio], "sums": sums}, data.assign(price=data["rent"] + data["rating"])
    )


def test_a_ratio_that_does_not_hold_is_refused_with_a_count_and_without_values() -> None:
    data = shops()
    data.loc[[3, 4], "price"] = 86_420.97
    said = refusal(RATIO, data)
    assert "'price' is not the ratio of its columns in 2 of 300 rows" in said
    assert "86" not in said


def test_a_ratio_is_protected_as_a_whole_or_not_at_all() -> None:
    with pytest.raises(ParameterError, match="needs 'quantity', which is not protected"):
        mv.protect(shops(), confidential=["revenue", "price", "rent"], rules=RATIO)
    mv.protect(shops(), confidential=["rating", "rent"], rules=RATIO, seed=1)


def test_a_dictionary_of_everything_can_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "shops.toml"
    path.write_text(
        """
        [columns.quantity]
        minimum = 0
        step = 1
        zeros = true

        [[ratios]]
        ratio = "price"
        numerator = "revenue"
        denominator = "quantity"
        """
    )
    rules = {"columns": {"quantity": {"minimum": 0, "step": 1, "zeros": True}}, **RATIO}
    first, second = (mv.protect(shops(), rules=given, seed=1).data for given in (path, rules))
    pd.testing.assert_frame_equal(first, second)


@pytest.mark.parametrize("rules", ["infer", RATIO, None])
def test_seeds_repeat_with_rules(rules: Any) -> None:
    first, second = (mv.protect(shops(), rules=rules, seed=3).data for _ in range(2))
    pd.testing.assert_frame_equal(first, second)


# --- Whole numbers come back in integer columns


@pytest.mark.parametrize("method", ["veil", "noise", "rank_swap"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "uint64", "Int16", "Int64", "UInt8"])
def test_integer_columns_stay_integer_columns(method: str, dtype: str) -> None:
    rng = np.random.default_rng(7)
    factor = rng.standard_normal((ROWS, 1))
    data = pd.DataFrame(
        np.clip(np.round(60 + 10 * (factor + rng.standard_normal((ROWS, 3)))), 0, 110), columns=list("abc")
    )
    new = mv.protect(data.astype(dtype), method, seed=1).data
    assert {str(found) for found in new.dtypes} == {dtype}


def test_integers_of_128_bits_are_protected() -> None:
    data = pl.DataFrame({name: shops()[name].round() for name in PLAIN}).cast(pl.Int128)
    out = mv.protect(data, seed=1).data
    assert out.dtypes == [pl.Int128] * len(PLAIN)


def test_an_integer_column_that_gets_decimals_becomes_one_of_decimals_and_says_so() -> None:
    data = shops()[PLAIN].round().astype("int64")
    release = mv.protect(data, "pca", seed=1)
    assert {str(found) for found in release.data.dtypes} == {"float64"}
    assert any("decimals where there were whole numbers" in said for said in release.warnings)


def test_nullable_integers_keep_their_holes() -> None:
    data = shops()[PLAIN].round().astype("Int64").mask(np.random.default_rng(2).random((ROWS, 4)) < 0.2)
    new = mv.protect(data, seed=1).data
    assert {str(found) for found in new.dtypes} == {"Int64"}
    assert patterns(new) == patterns(data)
