"""Columns that follow from dates agree with them in every row of a release."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import microveil as mv
from microveil.intake.from_dates import find_date_rules
from microveil.io.frames.dataframes import open_frame

SURVEY = pd.Timestamp("2023-05-05")


def years(first: pd.Series, last: Any) -> pd.Series:
    """Completed years, by the calendar."""
    last = pd.Series([last] * len(first)) if isinstance(last, pd.Timestamp) else last
    early = (last.dt.month * 100 + last.dt.day) < (first.dt.month * 100 + first.dt.day)
    return last.dt.year - first.dt.year - early


def visits(seed: int, rows: int | None = None) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = rows or int(rng.integers(80, 800))
    birth = pd.Series(pd.Timestamp("1930-01-01") + pd.to_timedelta(rng.integers(0, 30_000, rows), unit="D"))
    admitted = pd.Series(pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 3_000, rows), unit="D"))
    return pd.DataFrame(
        {
            "birth": birth,
            "admitted": admitted,
            "age": years(birth, admitted),
            "age_at_survey": years(birth, SURVEY),
            "year": admitted.dt.year,
            "month": admitted.dt.month,
            "weekday": admitted.dt.day_of_week,
            "score": rng.integers(18, 90, rows),
            "stars": rng.integers(1, 8, rows),
            "cost": rng.lognormal(7, 1, rows),
        }
    )


def test_in_fifty_tables_all_are_found_and_nothing_else_is() -> None:
    for seed in range(50):
        frame = open_frame(visits(seed)).with_times(["birth", "admitted"])
        names = [name for name in frame.names if name not in frame.times]
        found = {rule.column: (rule.date, rule.part, rule.until) for rule in find_date_rules(frame, names)}
        assert found == {
            "age": ("birth", "completed years", "admitted"),
            "age_at_survey": ("birth", "completed years", None),
            "year": ("admitted", "the year", None),
            "month": ("admitted", "the month", None),
            "weekday": ("admitted", "the weekday", None),
        }, seed


@pytest.mark.parametrize("make", [lambda f: f, pl.from_pandas])
def test_they_agree_in_every_row_of_a_release(make: Any) -> None:
    data = visits(3, 500)
    release = mv.protect(make(data), seed=1)
    out = release.data if isinstance(release.data, pd.DataFrame) else release.data.to_pandas()
    assert list(out.columns) == list(data.columns)
    assert (out["age"] == years(out["birth"], out["admitted"])).all()
    assert (out["age_at_survey"] == years(out["birth"], SURVEY)).mean() > 0.98, (
        "or a day that suits the original as well"
    )
    assert (out["year"] == out["admitted"].dt.year).all()
    assert (out["weekday"] == out["admitted"].dt.day_of_week).all()
    assert (out["age"] != data["age"]).mean() > 0.8
    assert "age follows from birth: completed years until admitted" in release.rules
    assert release.in_clear == ()
    again = mv.run(release.recipe(include_seed=True), make(data))
    assert again.data.equals(release.data), "a recipe names what is protected, and computes the same columns"


def test_what_somebody_names_is_not_computed() -> None:
    data = visits(3, 500)
    assert mv.protect(data, keep="age", seed=1).data["age"].equals(data["age"])
    named = mv.protect(data, confidential=["birth", "age", "cost"], seed=1)
    assert "age" in named.dose
    assert (named.data["age_at_survey"] != data["age_at_survey"]).any(), "it would tell the date that is protected"
    assert "year" in named.in_clear


def test_names_and_other_parts_of_dates_agree_with_them() -> None:
    rng = np.random.default_rng(2)
    day = pd.Series(pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 900, 800), unit="D"))
    data = pd.DataFrame(
        {"day": day, "cost": rng.lognormal(5, 1, 800).round(2), "hours": rng.normal(38, 4, 800).round(1)}
    )
    parts = {
        "day_name": lambda d: d.dt.day_name(),
        "month_name": lambda d: d.dt.month_name(),
        "period": lambda d: d.dt.strftime("%Y-%m"),
        "weekend": lambda d: np.where(d.dt.day_of_week >= 5, "yes", "no"),
        "quarter": lambda d: d.dt.quarter,
        "day_of_year": lambda d: d.dt.day_of_year,
        "day_of_month": lambda d: d.dt.day,
    }
    for name, part in parts.items():
        data[name] = part(data["day"])
    data["sex"] = rng.choice(["f", "m"], 800)
    out = mv.protect(data, seed=1).data
    assert (out["day"] != data["day"]).mean() > 0.9
    for name, part in parts.items():
        assert (out[name] == part(out["day"])).all(), name
    assert {entry["column"] for entry in mv.describe(data).relations.follows} == set(parts)


def with_gaps(data: pd.DataFrame, names: list[str], share: float, seed: int = 0) -> pd.DataFrame:
    rng, out = np.random.default_rng(seed), data.copy()
    for name in names:
        out[name] = out[name].where(rng.random(len(out)) >= share)
    return out


def test_in_fifty_tables_with_gaps_the_same_are_found() -> None:
    for seed in range(50):
        data = visits(seed)
        data = with_gaps(data, ["birth", "admitted"], 0.03, seed)
        data = with_gaps(data, [name for name in data if name not in ("birth", "admitted")], 0.2, seed)
        frame = open_frame(data).with_times(["birth", "admitted"])
        names = [name for name in frame.names if name not in frame.times]
        found = {rule.column for rule in find_date_rules(frame, names)}
        assert found == {"age", "age_at_survey", "year", "month", "weekday"}, seed
        assert find_date_rules(frame, names, gaps=False) == [], seed


def test_a_missing_date_or_cell_does_not_tear_columns_from_their_dates() -> None:
    data = visits(3, 1_000).assign(day_name=lambda t: t["admitted"].dt.day_name())
    data = with_gaps(data, ["birth", "admitted", "age", "year", "day_name"], 0.02)
    release = mv.protect(data, seed=1)
    assert {"age", "age_at_survey", "year", "month", "weekday", "day_name"} <= {*release.computed}
    out = release.data
    known = out.dropna()
    assert (known["age"] == years(known["birth"], known["admitted"])).all()
    assert (known["year"] == known["admitted"].dt.year).all()
    assert (known["day_name"] == known["admitted"].dt.day_name()).all()
    for name in data:
        assert out[name].isna().sum() == data[name].isna().sum(), name
        assert (out[name].isna() & data[name].isna()).sum() <= 5, name
    blank = out["admitted"].isna() & out["day_name"].notna()
    assert out.loc[blank, "day_name"].nunique() > 2, "what follows in any row"
