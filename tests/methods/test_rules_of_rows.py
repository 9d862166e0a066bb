"""Sums, shares and orders in releases of veil: right way round, within their domain, in every row."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import microveil as mv
from microveil.core.errors import ParameterError
from microveil.core.table import Matrix
from microveil.engines import row_limits
from microveil.rules.linear_rules import LinearRule, dependence_among
from microveil.rules.near_rules import gaps, without_gaps
from microveil.rules.orders import find_orders

pytestmark = pytest.mark.filterwarnings("ignore::microveil.errors.DisclosureWarning")
ROWS = 1_000


def households(seed: int = 1) -> pd.DataFrame:
    """Incomes and their total, which varies less than wages: who has wages has little else."""
    rng = np.random.default_rng(seed)
    employed = rng.random(ROWS) < 0.7
    wage = np.where(employed, rng.lognormal(7.6, 0.5, ROWS), 0).round()
    own = np.where(employed, 0, rng.lognormal(7.7, 0.3, ROWS)).round()
    benefits = np.where(rng.random(ROWS) < 0.4, rng.lognormal(5.8, 0.6, ROWS), 0).round()
    data = pd.DataFrame({"wage": wage, "self_income": own, "benefits": benefits})
    data["income_total"] = data.sum(axis=1)
    return data.assign(rent=rng.lognormal(6.2, 0.4, ROWS).round(2))


def spearman_loss(before: pd.DataFrame, after: pd.DataFrame) -> float:
    gap = before.corr("spearman") - after.corr("spearman")
    return float(gap.abs().to_numpy().max())


# --- Sums


@pytest.mark.parametrize("codes", [False, True])
def test_a_total_is_rebuilt_and_never_a_part(codes: bool) -> None:
    data = households()
    assert data["wage"].std() > data["income_total"].std()
    if codes:
        rng = np.random.default_rng(2)
        data.loc[rng.random(ROWS) < 0.06, "benefits"] = -9
        data.loc[rng.random(ROWS) < 0.04, "wage"] = np.nan
    release = mv.protect(data, seed=1)
    assert release.rules == ["income_total = wage + self_income + benefits"]
    found = release.data.replace({"benefits": {-9: np.nan}})
    assert (found.min() >= 0).all()
    gap = found["income_total"] - found[["wage", "self_income", "benefits"]].sum(axis=1, skipna=False)
    assert gap.abs().max() == 0
    assert found["benefits"].isna().sum() == (data["benefits"] == -9).sum()


@pytest.mark.parametrize(
    ("columns", "rebuilt"),
    [
        ({"profit": (1.0, -1.0), "sales": (1.0, 0.0), "costs": (0.0, 1.0)}, "sales"),
        ({"total": (1.0, 1.0), "a": (1.0, 0.0), "b": (0.0, 1.0)}, "total"),
        ({"half": (0.5, 0.5), "a": (1.0, 0.0), "b": (0.0, 1.0)}, "a"),
    ],
)
def test_the_column_that_stands_alone_is_the_total(columns: dict[str, tuple[float, float]], rebuilt: str) -> None:
    rng = np.random.default_rng(3)
    first, second = rng.integers(50, 90, 300) * 2.0, rng.integers(0, 25, 300) * 2.0
    made = [a * first + b * second for a, b in columns.values()]
    found = dependence_among(Matrix(made), range(3))
    assert [rule.exact for rule in found.rules] == [True]
    if rebuilt == "a":  # of terms of another size, the one that varies most is rebuilt
        assert found.rules[0].broken(Matrix(made)) == 0
    else:
        assert list(columns)[found.rules[0].column] == rebuilt


def test_the_dictionary_says_which_column_is_rebuilt() -> None:
    data = households()
    entry = {"total": "wage", "parts": ["income_total", "self_income", "benefits"], "coefficients": [1, -1, -1]}
    release = mv.protect(data, seed=1, rules={"sums": [entry], "columns": {"wage": {"minimum": 0}}})
    assert release.rules == ["wage = income_total - self_income - benefits"]
    assert release.data["wage"].min() >= 0, "a bound of a column that is rebuilt is kept by exchanges"


# --- Shares


def shares(seed: int, digits: int | None) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    found = rng.dirichlet([0.5, 1, 2, 3], ROWS)
    found = np.where(found < 0.02, 0, found)
    found /= found.sum(axis=1, keepdims=True)
    data = pd.DataFrame(found, columns=["drink", "cloth", "rent", "food"])
    data = data if digits is None else data.round(digits)
    return data.assign(spent=np.exp(data["food"] + rng.standard_normal(ROWS)))


@pytest.mark.quick("1-*")
@pytest.mark.parametrize("digits", [None, 4])
@pytest.mark.parametrize("seed", [1, 2])
def test_shares_stay_shares(seed: int, digits: int | None) -> None:
    data = shares(4, digits)
    parts = list(data)[:4]
    found = mv.protect(data, seed=seed).data
    assert found[parts].to_numpy().min() >= 0
    assert found[parts].to_numpy().max() <= 1
    assert ((found == 0).mean() <= (data == 0).mean() + 0.01).all()
    before, after = (of[parts].sum(axis=1) - 1 for of in (data, found))
    assert after.abs().max() <= before.abs().max() + 1e-12
    assert spearman_loss(data, found) <= 0.05


def test_shares_are_written_as_a_person_would_and_can_be_declared() -> None:
    described = mv.describe(shares(4, None))
    assert described.rules == ["food = 1 - drink - cloth - rent"]
    assert described.sums == [
        {"total": "food", "parts": ["drink", "cloth", "rent"], "coefficients": [-1, -1, -1], "constant": 1}
    ]
    release = mv.protect(shares(4, None), rules=described.to_dictionary(), seed=1)
    assert release.rules == described.rules


# --- Orders

SURVEY = ("materials <= turnover_total", "energy_cost <= turnover_domestic", "operating_profit <= turnover_total")


@cache
def survey() -> pd.DataFrame:
    return pd.read_csv(mv.example_file())


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"weight": "weight"}, {"drop": ["weight"]}], ids=["weights", "plain"])
def test_orders_of_the_survey_hold_in_every_row_and_cost_little(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = [name for name in survey().select_dtypes("number") if name not in ("weight", "rd_spending")]
    release = mv.protect(survey(), seed=2, **options)
    assert set(SURVEY) <= set(release.rules)
    assert [line for line in release.audit or [] if " <= " in line.rule and line.after] == []
    gap = release.data["turnover_total"] - release.data[["turnover_domestic", "turnover_export"]].sum(axis=1)
    assert gap.abs().max() == 0
    monkeypatch.setattr("microveil.engines.memory.limited", lambda mapping, *_: mapping)
    free = mv.protect(survey(), seed=2, **options)
    assert any(" <= " in line.rule and line.after for line in free.audit or [])
    before, kept, loose = (of[numbers].corr("spearman").to_numpy() for of in (survey(), release.data, free.data))
    assert (np.abs(kept - before) - np.abs(loose - before)).max() <= 0.02
    assert release.kept["covariance"] <= max(
        0.1, 1.2 * free.kept["covariance"]
    )  # weighted ones, where there are weights
    for name in set(numbers) - {"turnover_total"}:
        assert (np.sort(release.data[name]) == np.sort(free.data[name]))[: survey()[name].count()].mean() >= 0.99


def chained(seed: int = 5, rows: int = ROWS) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    least = rng.lognormal(3, 1, rows)
    middle = least * (1 + rng.exponential(0.5, rows))
    most = middle * (1 + rng.exponential(0.5, rows))
    other = rng.standard_normal(rows) + np.log(least)
    return pd.DataFrame({"least": least, "middle": middle, "most": most, "other": other})


@pytest.mark.parametrize("strata", [False, True])
def test_orders_in_a_chain_hold(strata: bool) -> None:
    data = chained()
    if strata:
        data["area"] = np.arange(ROWS) % 3
    release = mv.protect(data, seed=1, strata=["area"] if strata else None)
    found = release.data
    assert {"least <= middle", "middle <= most"} <= set(release.rules)
    assert (found["least"] <= found["middle"]).all()
    assert (found["middle"] <= found["most"]).all()
    assert spearman_loss(data, found) <= 0.03


def test_orders_of_parts_and_of_totals_hold_with_the_sums() -> None:
    rng = np.random.default_rng(6)
    whole = pd.DataFrame({"a": rng.lognormal(4, 0.8, ROWS), "b": rng.lognormal(3, 0.8, ROWS)}).round(2)
    part = (whole * rng.beta(8, 1, (ROWS, 2))).round(2).add_prefix("part_")
    data = whole.assign(all=whole.sum(axis=1).round(2), **part, part_all=part.sum(axis=1).round(2))
    release = mv.protect(data, seed=1)
    found = release.data
    assert {"all = a + b", "part_all = part_a + part_b"} <= set(release.rules)
    for name in ("a", "b", "all"):
        assert (found[f"part_{name}"] <= found[name]).all()
    assert (found["a"] + found["b"] - found["all"]).abs().max() < 1e-9


@pytest.mark.parametrize("holes", [False, True])
def test_who_is_discharged_was_admitted(holes: bool) -> None:
    rng = np.random.default_rng(7)
    stay = rng.geometric(0.12, ROWS) - 1
    admission = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 1000, ROWS), unit="D")
    data = pd.DataFrame({"admission": admission, "discharge": admission + pd.to_timedelta(stay, unit="D")})
    data["cost"] = np.exp(6 + 0.05 * stay + 0.4 * rng.standard_normal(ROWS)).round(2)
    if holes:
        data.loc[rng.random(ROWS) < 0.1, "discharge"] = pd.NaT
    found = mv.protect(data, seed=1).data
    days = [(of["discharge"] - of["admission"]).dt.days for of in (data, found)]
    assert days[1].min() >= 0
    assert found["discharge"].dtype == data["discharge"].dtype
    assert days[1].mean() == pytest.approx(days[0].mean(), rel=0.02)
    assert days[1].std() == pytest.approx(days[0].std(), rel=0.05)
    costs = [of.corr(table["cost"], "spearman") for of, table in zip(days, (data, found), strict=True)]
    assert costs[1] == pytest.approx(costs[0], abs=0.03)


def test_an_order_that_costs_too_much_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_limits, "MOST_COST", -1.0)
    release = mv.protect(chained(), seed=1)
    assert not any(" <= " in rule for rule in release.rules)
    said = [remark for remark in release.warnings if remark.startswith("not kept, as that would cost")]
    assert len(said) == 2
    assert all("declare it in rules" in remark for remark in said)


def test_a_declared_order_is_kept_whatever_it_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_limits, "MOST_COST", -1.0)
    release = mv.protect(chained(), seed=1, rules={"orders": [{"lower": "least", "upper": "middle"}]})
    assert (release.data["least"] <= release.data["middle"]).all()


def test_an_order_may_be_kept_if_cheap_or_only_counted() -> None:
    entry = {"lower": "least", "upper": "middle"}
    cheap = mv.protect(chained(), seed=1, rules={"orders": [{**entry, "enforce": "if_cheap"}]})
    counted = mv.protect(chained(), seed=1, rules={"orders": [{**entry, "enforce": False}]})
    after = [next(line.after for line in of.audit or [] if line.rule == "least <= middle") for of in (cheap, counted)]
    assert after[0] == 0
    assert after[1] > 0
    with pytest.raises(ParameterError):
        mv.protect(chained(), rules={"orders": [{**entry, "enforce": "perhaps"}]})


@pytest.mark.parametrize("seed", range(50))
def test_no_order_is_found_that_is_not_there(seed: int) -> None:
    rng = np.random.default_rng([seed, 12])
    rows = int(rng.choice([60, 200, 1_000]))
    mixed = rng.standard_normal((rows, 8)) @ rng.standard_normal((8, 8)) / np.sqrt(8)
    scales = 10 ** rng.uniform(0, 2, 8)
    for table in (mixed, np.exp(mixed), np.exp(mixed) * scales, np.round(np.exp(mixed) * scales)):
        assert find_orders(Matrix(list(table.T))) == []


def test_the_same_seed_gives_the_same_release() -> None:
    first, second = (mv.protect(chained(), seed=3).data for _ in range(2))
    pd.testing.assert_frame_equal(first, second)


def test_gaps_of_chained_orders_come_back() -> None:
    columns = [np.array([1.0, 2.0]), np.array([3.0, 5.0]), np.array([4.0, 9.0])]
    rules = [LinearRule(1, {0: 1.0}, exact=False), LinearRule(2, {1: 1.0}, exact=False)]
    again = without_gaps(gaps(columns, rules), rules)
    np.testing.assert_array_equal(again, columns)
