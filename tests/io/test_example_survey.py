"""The bundled example survey is what its script makes, and has the traits its README promises."""

from __future__ import annotations

from importlib.resources import files
from types import ModuleType

import checkout
import numpy as np
import polars as pl
import pytest

SURVEY = files("microveil.examples") / "business_survey.csv"

NUMERIC = [
    "employees",
    "hours_worked",
    "turnover_domestic",
    "turnover_export",
    "turnover_total",
    "wages",
    "materials",
    "energy_cost",
    "depreciation",
    "investment",
    "stock_change",
    "financial_result",
    "operating_profit",
    "rd_spending",
]
DECIMALS = {"energy_cost": 2, "financial_result": 1, "weight": 2}
SIGNED = {"stock_change", "financial_result", "operating_profit"}
SIZE_LIKE = ["employees", "hours_worked", "turnover_total", "wages", "materials", "energy_cost", "depreciation"]


@pytest.fixture(scope="module")
def survey() -> pl.DataFrame:
    return pl.read_csv(SURVEY.read_bytes(), infer_schema_length=None)


@pytest.fixture(scope="module")
def answers(survey: pl.DataFrame) -> pl.DataFrame:
    """The numeric columns as floats, with the refusals missing."""
    refusal_missing = pl.col("rd_spending").replace(-9, None)
    return survey.with_columns(refusal_missing).select(NUMERIC).cast(pl.Float64)


@pytest.fixture
def script() -> ModuleType:
    return checkout.script("make_example_survey")


def kurtosis(values: np.ndarray) -> float:
    centred = values - values.mean()
    return float((centred**4).mean() / (centred**2).mean() ** 2)


def test_committed_file_is_what_the_script_makes(script):
    made = script.make_survey()
    assert made == SURVEY.read_bytes()
    assert made == script.make_survey()


@pytest.mark.parametrize(("change", "code"), [(b"", 0), (b"x", 1), (None, 1)])
def test_check_tells_whether_the_file_differs(script, monkeypatch, tmp_path, change, code):
    monkeypatch.setattr(script, "TARGET", tmp_path / "business_survey.csv")
    monkeypatch.setattr("sys.argv", ["make_example_survey.py", "--check"])
    if change is not None:
        script.TARGET.write_bytes(SURVEY.read_bytes() + change)
    assert script.main() == code


def test_plain_text():
    content = SURVEY.read_bytes()
    assert len(content) < 150_000
    assert content.isascii()
    assert b"\r" not in content
    assert content.endswith(b"\n")
    assert b'"' not in content


def test_shape_and_types(survey):
    assert survey.shape == (1200, 17)
    assert survey.columns == ["region", "industry", *NUMERIC, "weight"]
    assert not survey.is_duplicated().any()
    for name in [*NUMERIC, "weight"]:
        assert survey[name].dtype == (pl.Float64 if name in DECIMALS else pl.Int64), name
    for name, digits in DECIMALS.items():
        values = survey[name].drop_nulls().to_numpy()
        assert np.array_equal(values, np.round(values, digits)), name


def test_regions_and_industries(survey):
    assert survey["region"].n_unique() == 8
    assert survey["industry"].n_unique() == 10
    assert survey["industry"].str.contains(r"^[A-S] [A-Z][a-z ]+$").all()
    assert survey["region"].value_counts()["count"].min() >= 30
    assert survey["industry"].value_counts()["count"].min() >= 20


def test_firms_differ_by_industry(survey):
    per_employee = pl.col("turnover_total") / pl.col("employees")
    medians = survey.group_by("industry").agg(per_employee.median())["turnover_total"]
    assert medians.max() > 3 * medians.min()


def test_sum_rule_in_every_row(survey, answers):
    assert (survey["turnover_domestic"] + survey["turnover_export"] == survey["turnover_total"]).all()
    assert (answers["turnover_domestic"] + answers["turnover_export"] == answers["turnover_total"]).all()


def test_refusals_only_in_research(survey):
    assert 0.03 < (survey["rd_spending"] == -9).mean() < 0.05
    for name in [*NUMERIC[:-1], "weight"]:
        assert not (survey[name] == -9).any(), name


def test_missing_shares(survey):
    missing = {name: survey[name].null_count() / survey.height for name in survey.columns}
    assert 0.02 < missing.pop("investment") < 0.04
    assert 0.01 < missing.pop("energy_cost") < 0.02
    assert set(missing.values()) == {0.0}


@pytest.mark.parametrize("name", ["investment", "energy_cost"])
def test_small_firms_miss_more(survey, name):
    small = survey["employees"] < 50
    share = survey[name].is_null()
    assert share.filter(small).mean() > 1.5 * share.filter(~small).mean()


def test_zeros(answers):
    shares = {name: (answers[name].drop_nulls() == 0).mean() for name in NUMERIC}
    assert 0.40 < shares["turnover_export"] < 0.50
    assert 0.20 < shares["investment"] < 0.30
    assert 0.65 < shares["rd_spending"] < 0.85
    assert max(shares[name] for name in SIZE_LIKE) < 0.01


def test_signs(answers):
    negative = {name: (answers[name].drop_nulls() < 0).mean() for name in NUMERIC}
    assert {name for name, share in negative.items() if share > 0} == SIGNED
    assert 0.3 < negative["stock_change"] < 0.5
    assert 0.8 < negative["financial_result"] < 0.97
    assert 0.1 < negative["operating_profit"] < 0.35
    assert answers["employees"].min() == 1


def test_heavy_tails(answers):
    for name in NUMERIC:
        assert 20 < kurtosis(answers[name].drop_nulls().to_numpy()) < 150, name


def test_correlations(answers):
    complete = answers.drop_nulls()
    between_sizes = np.corrcoef(complete.select(SIZE_LIKE).to_numpy(), rowvar=False)
    above = between_sizes[np.triu_indices(len(SIZE_LIKE), 1)]
    assert above.min() > 0.5
    assert above.max() < 0.95
    everything = np.abs(np.corrcoef(complete.to_numpy(), rowvar=False))
    assert everything[np.triu_indices(len(NUMERIC), 1)].min() < 0.1


def test_sum_rule_is_the_only_linear_relation(answers):
    values = answers.drop_nulls().to_numpy()
    assert len(values) > 1000
    # With and without an intercept; the thirteenth direction is far from the rounding error, not just above it.
    for columns in (values, values - values.mean(axis=0)):
        singular = np.linalg.svd(columns / np.linalg.norm(columns, axis=0), compute_uv=False)
        assert singular[12] > 0.01
        assert singular[13] < 1e-12


def test_weights_follow_size(survey):
    weight, employees = survey["weight"], survey["employees"]
    assert (weight > 0).all()
    assert (weight.filter(employees >= 250) == 1).all()
    assert weight.filter(employees < 250).min() > 1
    assert weight.filter(employees < 10).min() > weight.filter(employees >= 10).max()
    assert 25_000 < weight.sum() < 45_000
