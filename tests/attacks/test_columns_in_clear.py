"""The attacker subtracts: what is hidden follows from what is shown.

A file has wages A, other costs B and the total T = A + B. The owner protects the wages and lets the total and the other
costs pass. The attacker computes T - B and has the wage of every firm, whatever the method did to A. So such a file is
refused by name, before any row is touched, for every method and by every engine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import microveil as mv
from microveil.errors import DataError
from microveil.methods import METHODS

FOLLOWS = r"'wages' follows from .*make them confidential too, or drop them"
OTHER = {"correct", "synthetic_addition"}


def firms(count: int = 300, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(np.round(rng.lognormal(5, 1, (count, 4)), 2), columns=["wages", "costs", "stock", "profit"])
    return frame.assign(total=frame["wages"] + frame["costs"], region=rng.integers(0, 4, count), weight=1.0)


def attacked(frame: pd.DataFrame, method: str = "pca", **options: Any) -> mv.Release:
    given = {"other": frame * 1.1} if method in OTHER else {}
    return mv.protect(frame, method, seed=1, **{"confidential": ["wages", "stock", "profit"], **given, **options})


@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if not method.labels_only])
def test_subtraction_is_refused_for_every_method(method: str) -> None:
    with pytest.raises(DataError, match=r"'wages' follows from 'costs', 'total'.*" + FOLLOWS[-20:]):
        attacked(firms(), method)


@pytest.mark.parametrize(
    "role",
    [{"public": ["costs", "total"]}, {"public": "costs", "weight": "total"}, {"strata": "region"}, {"unit": "u"}],
)
def test_whatever_the_role_of_the_columns_in_clear(role: dict[str, Any]) -> None:
    frame = firms().assign(u=np.arange(300) // 2)
    with pytest.raises(DataError, match=FOLLOWS):
        attacked(frame, **role)


@pytest.mark.parametrize("engine", ["stream", "memory"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_in_files_too(tmp_path: Path, engine: str, suffix: str) -> None:
    source, output = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    frame = pl.from_pandas(firms(5_000))
    frame.write_csv(source) if suffix == "csv" else frame.write_parquet(source)
    given = {"confidential": ["wages", "stock", "profit"], "exact": True}
    call = mv.protect_file if engine == "stream" else mv.protect
    files = (source, output) if engine == "stream" else (frame,)
    with pytest.raises(DataError, match=FOLLOWS):
        call(*files, "pca", **given)
    assert not output.exists()


def equal(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.drop(columns="total").assign(copy=frame["wages"])


def other_unit(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.drop(columns="total").assign(in_thousands=frame["wages"] / 1000 + 3)


def rounded(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(wages=(1.19 * frame["costs"]).round(2)).drop(columns="total")


def product(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(hours=frame["wages"] / frame["costs"]).drop(columns="total")


def with_holes(frame: pd.DataFrame) -> pd.DataFrame:
    holes = np.random.default_rng(2).random(frame.shape) < 0.1
    return frame.mask(holes & ~frame.columns.isin(["region", "weight"]))


def with_codes(frame: pd.DataFrame) -> pd.DataFrame:
    frame.loc[::10, ["wages", "total"]] = -9
    return frame


def wide(frame: pd.DataFrame) -> pd.DataFrame:
    others = np.random.default_rng(3).normal(size=(len(frame), 250))
    return pd.concat([pd.DataFrame(others).add_prefix("o"), frame[::-1].reset_index(drop=True)], axis=1)


def constant_beside(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(year=2024.0, empty=np.nan)


@pytest.mark.parametrize("spoil", [equal, other_unit, rounded, product, with_holes, with_codes, wide, constant_beside])
def test_other_ways_to_follow(spoil: Any) -> None:
    with pytest.raises(DataError, match=FOLLOWS):
        attacked(spoil(firms(1_000)))


def test_a_rule_of_most_rows_tells_most_records_and_is_warned_of() -> None:
    frame = firms(1_000)
    frame.loc[::20, "total"] += 7.31
    warnings = attacked(frame).warnings
    assert [text for text in warnings if "'wages' follows in 95.0% of the rows from 'costs', 'total'" in text]


def test_a_column_that_follows_closely_is_warned_of() -> None:
    frame = firms(1_000).drop(columns="total")
    frame["like"] = frame["wages"] + np.random.default_rng(4).normal(size=1_000) * 0.05
    assert any("'wages' follows closely from 'like'" in warning for warning in attacked(frame).warnings)


def clean(count: int, wide: int) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    shown = pd.DataFrame(rng.integers(0, 3, (count, wide))).add_prefix("x")
    return pd.concat([firms(count).drop(columns="total"), shown], axis=1)


@pytest.mark.parametrize(("count", "wide"), [(300, 5), (30, 60), (12, 12), (40, 11)])
def test_no_false_alarm_however_many_columns_are_in_clear(count: int, wide: int) -> None:
    assert not [text for text in attacked(clean(count, wide)).warnings if "follows" in text]


def test_the_cure_is_to_protect_them_too_or_to_drop_them_or_to_say_that_the_column_is_public() -> None:
    frame = firms()
    attacked(frame, confidential=["wages", "stock", "profit", "costs", "total"])
    attacked(frame, drop="total")
    attacked(frame, confidential=["stock", "profit"], public="wages")


def test_the_error_tells_no_value() -> None:
    frame = firms()
    with pytest.raises(DataError) as error:
        attacked(frame)
    assert not any(symbol.isdigit() for symbol in str(error.value))
