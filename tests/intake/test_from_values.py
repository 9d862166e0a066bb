"""Columns that follow from a column of numbers are found, left out and computed anew: they agree in every row."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import microveil as mv
from microveil.intake.from_values import find_value_rules
from microveil.io.frames.dataframes import open_frame

ROWS = 600


def people(seed: int = 0) -> pd.DataFrame:
    """An age with its groups, an income with a flag of zeros, a month with a price, and columns that follow nothing."""
    rng = np.random.default_rng(seed)
    age, month = rng.integers(18, 90, ROWS), rng.integers(1, 13, ROWS)
    income = np.where(rng.random(ROWS) < 0.2, 0.0, np.round(rng.lognormal(8, 1, ROWS)))
    return pd.DataFrame(
        {
            "age": age,
            "age_group": np.array(["young", "middle", "old"])[np.digitize(age, [40, 65])],
            "income": income,
            "no_income": income == 0,
            "month_no": month,
            "price": rng.permutation(100)[month],
            "sex": rng.choice(["f", "m"], ROWS),
            "height": rng.normal(170, 10, ROWS).round(1),
        }
    )


def agree(table: pd.DataFrame, prices: pd.Series) -> None:
    assert (table["age_group"] == np.array(["young", "middle", "old"])[np.digitize(table["age"], [40, 65])]).all()
    assert (table["no_income"] == (table["income"] == 0)).all()
    assert (table["price"] == prices.loc[table["month_no"]].to_numpy()).all()


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas], ids=["pandas", "polars"])
def test_they_agree_in_every_row_of_a_release(kind) -> None:
    table = people()
    release = mv.protect(kind(table), seed=1)
    data = release.data if isinstance(release.data, pd.DataFrame) else release.data.to_pandas()
    agree(data, table.groupby("month_no")["price"].first())
    assert list(data.columns) == list(table.columns)
    assert "age_group follows from age: by its value" in release.rules
    assert not (data["age"] == table["age"]).all()


def test_planted_ones_are_found_in_random_tables_and_nothing_else() -> None:
    for seed in range(25):
        table = people(seed)
        columns = {name: table[name].dtype.kind not in "if" for name in table}
        sources = [name for name, labels in columns.items() if not labels]
        found = find_value_rules(open_frame(table), sources, columns)
        assert {(rule.column, rule.source) for rule in found} == {
            ("age_group", "age"),
            ("no_income", "income"),
            ("price", "month_no"),
        }


def test_none_is_found_where_there_is_none() -> None:
    for seed in range(50):
        rng = np.random.default_rng(seed)
        rows = int(rng.integers(50, 400))
        common = rng.standard_normal(rows)
        table = pd.DataFrame(
            {
                "a": np.round(common + rng.standard_normal(rows), 1),
                "b": rng.poisson(np.exp(common.clip(-2, 2))),
                "c": rng.integers(0, 5, rows),
                "rare": (rng.random(rows) < 0.03).astype(int),
                "d": rng.choice(["u", "v", "w"], rows),
                "flag": common + 0.3 * rng.standard_normal(rows) > 0,
            }
        )
        columns = {name: name in {"d", "flag"} for name in table}
        assert not find_value_rules(open_frame(table), ["a", "b", "c", "rare"], columns)


def test_a_run_of_few_records_is_no_rule() -> None:
    """It would tell what these records have."""
    table = pd.DataFrame({"x": np.arange(300.0), "top": np.arange(300) >= 295})
    assert not find_value_rules(open_frame(table), ["x"], {"top": True})
    table["top"] = np.arange(300) >= 280
    assert [rule.column for rule in find_value_rules(open_frame(table), ["x"], {"top": True})] == ["top"]


def test_a_month_of_few_records_has_the_price_of_the_month_before() -> None:
    sizes = [400, 4, 300, 300, 3]
    month = np.repeat(np.arange(5.0), sizes)
    table = pd.DataFrame({"month_no": month, "price": np.array([7.0, 8.0, 5.0, 9.0, 4.0])[month.astype(int)]})
    (rule,) = find_value_rules(open_frame(table), ["month_no"], {"price": False})
    found = rule.computed(open_frame(pd.DataFrame({"month_no": np.arange(5.0)})))
    assert found.tolist() == [7.0, 7.0, 5.0, 9.0, 9.0]
    table.loc[:20, "price"] = 8.0  # exceptions are no runs
    assert not find_value_rules(open_frame(table), ["month_no"], {"price": False})


def test_missing_numbers_have_missing_values() -> None:
    table = people()
    table.loc[:20, ["month_no", "price"]] = np.nan
    data = mv.protect(table, seed=1).data
    assert (data["month_no"].isna() == data["price"].isna()).all()
    known = data.dropna()
    assert (known["price"] == table.groupby("month_no")["price"].first().loc[known["month_no"]].to_numpy()).all()


def test_gaps_of_their_own_go_to_other_rows() -> None:
    """A single missing cell is no exception, and stays no clue to its record."""
    table = people()
    table[["month_no", "price"]] = table[["month_no", "price"]].astype(float)
    table.loc[:30, "price"] = np.nan
    table.loc[300:320, "age_group"] = None
    release = mv.protect(table, seed=1)
    assert {"price", "age_group"} <= {*release.computed}
    data = release.data
    for name, gaps in (("price", 31), ("age_group", 21)):
        assert data[name].isna().sum() == gaps
        assert (data[name].isna() & table[name].isna()).sum() < 8
    agree(data.dropna(), table.dropna().groupby("month_no")["price"].first())


def test_what_follows_from_a_gap_is_what_follows_in_any_row() -> None:
    table = people().astype({"month_no": float, "age": float})
    table.loc[:30, "month_no"] = np.nan
    table.loc[100:130, "age"] = np.nan
    data = mv.protect(table, seed=1).data
    assert data["price"].notna().all()
    assert data["age_group"].notna().all()
    assert set(data["price"]) <= set(table["price"])
    agree(data.dropna(), table.dropna().groupby("month_no")["price"].first())
    assert data.loc[data["age"].isna(), "age_group"].nunique() == 3, "drawn at random, not from the source"
    table.loc[:70, "month_no"] = np.nan  # too many
    assert not find_value_rules(open_frame(table), ["month_no"], {"price": False})


def test_describe_says_so_and_a_dictionary_decides() -> None:
    table = people()
    described = mv.describe(table)
    assert "price follows from month_no: by its value" in described.relations.sentences
    release = mv.protect(table, method="veil", seed=1, rules={"columns": {"age": {"minimum": 18}}})
    assert not [rule for rule in release.rules if "follows" in rule]


def test_methods_that_keep_moments_exactly_keep_those_of_all_columns() -> None:
    table = people().drop(columns=["age_group", "no_income", "sex"])
    release = mv.protect(table, method="pca", seed=1)
    assert not [rule for rule in release.rules if "follows" in rule]
