"""Recoding: caps, bands and groups, the same for all records, in every kind of table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import microveil as mv
from microveil.core.errors import DataError, ParameterError

pytestmark = pytest.mark.filterwarnings("ignore::microveil.core.errors.DisclosureWarning")


def people(rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 95, rows),
            "wage": rng.lognormal(3, 1, rows).round(2),
            "region": pd.Categorical(rng.choice(list("abc"), rows)),
            "code": rng.choice([10, 11, 20], rows).astype("int16"),
        }
    )


PARTS = {"a": "west", "b": "west", "c": "east"}
KINDS: dict[str, Any] = {
    "pandas": lambda table: table,
    "polars": pl.from_pandas,
    "arrow": lambda table: pl.from_pandas(table).to_arrow(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_caps_bands_and_groups(kind: str) -> None:
    table = people()
    release = mv.protect(
        KINDS[kind](table),
        "recode",
        top={"wage": 50},
        bottom={"wage": 5},
        bands={"age": [18, 65]},
        groups={"region": PARTS, "code": {"10": 1, "*": 2}},
    )
    out = release.data if kind == "pandas" else release.data.to_pandas()
    assert (out["wage"] == table["wage"].clip(5, 50)).all()
    assert (out["age"] == pd.cut(table["age"], [0, 18, 65, 99], right=False, labels=["<18", "18-64", "65+"])).all()
    assert (out["region"].astype(str) == table["region"].astype(str).map(PARTS)).all()
    assert (out["code"] == table["code"].map({10: 1, 11: 2, 20: 2})).all()
    assert out["region"].dtype == "category"
    assert str(out["code"].dtype) == "int16"
    assert str(out["wage"].dtype) == "float64"
    assert release.in_clear == ()
    share = float(((table["wage"] > 50) | (table["wage"] < 5)).mean())
    assert release.labels["wage"].cells_changed == pytest.approx(share)


def test_whole_numbers_stay_whole_and_missing_cells_missing() -> None:
    table = people().astype({"age": "Int64"})
    table.loc[3, "age"] = None
    out = mv.protect(table, "recode", top={"age": 80}).data["age"]
    assert str(out.dtype) == "Int64"
    assert out.isna().tolist() == table["age"].isna().tolist()
    assert out.max() == 80


@pytest.mark.parametrize(
    ("value", "bands", "band"),
    [(20, 10, "20-29"), (-3, 5, "-5--1"), (7, 1, "7"), (2.5, 1, "2 to <3"), (0.25, [0, 0.5], "0 to <0.5")],
)
def test_bands_are_called_by_what_is_in_them(value: float, bands: Any, band: str) -> None:
    table = pd.DataFrame({"x": [value, value, value + 100, value + 200]})
    assert mv.protect(table, "recode", bands={"x": bands}).data["x"][0] == band


def test_groups_come_from_a_table(tmp_path: Path) -> None:
    path = tmp_path / "parts.csv"
    path.write_text("region,part\na,west\nb,west\nc,east\n")
    out = mv.protect(people(), "recode", groups={"region": str(path)}).data
    assert (out["region"].astype(str) == people()["region"].astype(str).map(PARTS)).all()


def test_an_array_is_capped_and_takes_no_text() -> None:
    values = np.random.default_rng(1).integers(0, 100, (50, 2))
    out = mv.protect(values, "recode", top={"0": 60}).data
    assert out.dtype == values.dtype
    assert (out == np.column_stack([values[:, 0].clip(max=60), values[:, 1]])).all()
    with pytest.raises(DataError, match="numbers only"):
        mv.protect(values, "recode", bands={"0": 10})


def test_an_ordered_type_does_not_invent_an_order() -> None:
    grades = pd.Categorical(["low", "mid", "high"] * 20, ["low", "mid", "high"], ordered=True)
    table = pd.DataFrame({"grade": grades})
    merged = mv.protect(table, "recode", groups={"grade": {"low": "low", "*": "high"}}).data["grade"]
    assert merged.cat.ordered
    assert list(merged.cat.categories) == ["low", "mid", "high"]
    assert not mv.protect(table, "recode", groups={"grade": {"low": "b", "*": "a"}}).data["grade"].cat.ordered


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "nothing to do"),
        ({"top": {"agee": 3}}, "agee"),
        ({"top": {"region": 3}}, "region"),
        ({"top": {"age": 10}, "bottom": {"age": 20}}, "age"),
        ({"top": {"age": 10}, "bands": {"age": 5}}, "two ways"),
        ({"bands": {"age": 0}}, "bands"),
        ({"bands": {"age": float("inf")}}, "finite"),
        ({"top": {"age": float("nan")}}, "finite"),
        ({"bands": {"age": [5, 1]}}, "bands"),
        ({"groups": {"region": {"a": "west"}}}, "2 labels"),
        ({"top": {"age": 10}, "confidential": ["age", "wage"]}, "wage"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(options: dict[str, Any], says: str) -> None:
    with pytest.raises((DataError, ParameterError), match=says):
        mv.protect(people(), "recode", **options)


def test_what_is_not_recoded_is_said_to_be_in_clear() -> None:
    assert mv.protect(people(), "recode", top={"wage": 50}).in_clear == ("age", "region", "code")
