"""Dates and times are numbers on the line of time, and come back in their type, precision and writing."""

from __future__ import annotations

import datetime as dt
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from microveil.io.frames.times import read_times

DAYS = pd.Timestamp("2000-01-01") + pd.to_timedelta(np.random.default_rng(0).integers(0, 9_000, 50), unit="D")
STAMPS = list((DAYS + pd.Timedelta(hours=7, minutes=5)).to_pydatetime())

CASES: dict[str, tuple[Any, str, str]] = {
    "pandas": (pd.Series(DAYS), "datetime", "day"),
    "pandas, dates as objects": (pd.Series([*(day.date() for day in DAYS), None]), "date", "day"),
    "pandas, a zone": (pd.Series(STAMPS).dt.tz_localize("Europe/Berlin"), "datetime", "minute"),
    "pandas, of Arrow": (pd.Series(DAYS).astype("timestamp[us][pyarrow]"), "datetime", "day"),
    "polars": (pl.Series([*(day.date() for day in DAYS), None]), "date", "day"),
    "polars, milliseconds": (pl.Series(STAMPS).cast(pl.Datetime("ms")), "datetime", "minute"),
    "polars, a zone": (pl.Series(STAMPS).dt.replace_time_zone("America/Lima"), "datetime", "minute"),
    "Arrow": (pa.chunked_array([pa.array([day.date() for day in DAYS])]), "date", "day"),
    "months": (pl.Series([dt.date(day.year, day.month, 1) for day in DAYS]), "date", "month"),
    "times of day": (pl.Series([dt.time(i % 24, i % 60) for i in range(50)]), "time", "minute"),
    "text": (pl.Series([f"{day:%Y-%m-%d}" for day in DAYS]), "date", "day"),
    "text with points": (pd.Series([f"{day:%d.%m.%Y}" for day in DAYS]), "date", "day"),
    "text without zeros": (pl.Series([f"{day.day}.{day.month}.{day.year}" for day in DAYS]), "date", "day"),
    "numbers": (pl.Series([int(f"{day:%Y%m%d}") for day in DAYS]), "date", "day"),
    "numbers, short": (pd.Series([int(f"{day:%Y%m%d}") for day in DAYS], dtype="int32"), "date", "day"),
    "numbers and holes": (pd.Series([*(float(f"{day:%Y%m%d}") for day in DAYS), np.nan]), "date", "day"),
    "numbers and holes of pandas": (
        pd.Series([*(int(f"{d:%Y%m%d}") for d in DAYS), None], dtype="Int64"),
        "date",
        "day",
    ),
    "numbers of Arrow": (pa.chunked_array([pa.array([int(f"{day:%Y%m}") for day in DAYS])]), "date", "month"),
    "text with times": (pl.Series([f"{stamp:%Y-%m-%d %H:%M}" for stamp in STAMPS]), "datetime", "minute"),
}


def listed(series: Any) -> list[Any]:
    return [
        None if cell is pd.NA or cell != cell else cell for cell in nw.from_native(series, series_only=True).to_list()
    ]


@pytest.mark.parametrize("name", CASES)
def test_they_come_back_as_they_were(name: str) -> None:
    series, kind, unit = CASES[name]
    column = nw.from_native(series, series_only=True)
    found = read_times(column)
    assert found is not None
    assert (found.kind, found.unit) == (kind, unit)
    steps = found.numbers[~np.isnan(found.numbers)]
    assert (steps == np.round(steps)).all()
    back = found.written(found.numbers, column)
    assert listed(back) == listed(series)
    assert str(nw.from_native(back, series_only=True).dtype) == str(column.dtype)
    later = found.written(found.numbers + 1, column)
    assert listed(later) != listed(series)


@pytest.mark.parametrize(
    "series",
    [
        pl.Series(["a", "b", "c"] * 9),
        pl.Series(["1.5", "2.5", "3.5"] * 9),
        pl.Series(["2001-2", "2002-3", "2003-4"]),
        pl.Series(["2001-02-30", "2001-01-01", "2001-05-05"]),
        pl.Series(["2001-01-01", "01.02.2001", "2001-05-05"]),
        pl.Series([1.0, 2.0, 3.0]),
        pd.Series([dt.date(2020, 1, 1), "x", 3.0]),
        pl.Series([None, None], dtype=pl.Date),
        pl.Series([20230229, 20230101, 20230102]),
        pl.Series([20231301, 20230101, 20230102]),
        pl.Series([20230100, 20230101, 20230102]),
        pl.Series([99991231, 20230101, 20230102]),
        pl.Series([20230101.5, 20230102, 20230103]),
        pl.Series([20230101, 20230102] * 9),
        pl.Series([202301, 202302, 202303] * 9),
        pl.Series(range(1950, 2010)),
    ],
    ids=range(16),
)
def test_what_is_no_date_is_none(series: Any) -> None:
    assert read_times(nw.from_native(series, series_only=True)) is None
