"""veil with odd tables, frames, types and seeds: they come through, and errors tell no value."""

from __future__ import annotations

import traceback
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from veil_tables import NAMES, ROWS, Array, attacks, correlation_error, factors, firms, harmless, released

import microveil as mv
from microveil.core.errors import MicroveilError

# --- Odd tables


@pytest.mark.parametrize("rows", [3, 4, 5, 7, 10, 15, 19, 20, 21, 25])
def test_few_rows(rows: int) -> None:
    before = firms()[["sales", "staff", "energy"]].head(rows)
    release = mv.protect(before, seed=1)
    assert release.data.shape == before.shape
    assert np.isfinite(release.data).all(axis=None)
    assert (release.data["sales"] != before["sales"]).any()
    free = any("did not get their own distributions back" in said for said in release.warnings)
    assert free == (rows < 20)


def with_labels(rows: int) -> pd.DataFrame:
    before = firms()[["sales", "staff", "energy"]].head(rows)
    rng = np.random.default_rng(rows)
    trade, town = rng.choice(["mill", "shop", "inn", "farm"], rows), rng.choice(["a", "b", "c"], rows)
    return before.assign(trade=trade, town=town)


def same_share(before: pd.DataFrame, after: pd.DataFrame) -> dict[str, float]:
    return {name: float((before[name] == after[name]).mean()) for name in ("trade", "town")}


@pytest.mark.parametrize("rows", [8, 18])
def test_labels_of_few_rows_do_not_stay_with_their_records(rows: int) -> None:
    before = with_labels(rows)
    same = [same_share(before, mv.protect(before, seed=seed).data) for seed in range(5)]
    assert np.mean([list(share.values()) for share in same]) < 0.6, "by chance about a third are the same"


def test_labels_of_small_strata_do_not_stay_with_their_records() -> None:
    before = with_labels(90).assign(region=np.repeat(["north", "south"], [75, 15]))
    release = mv.protect(before, strata="region", seed=1)
    small = before["region"] == "south"
    assert max(same_share(before[small], release.data[small]).values()) < 0.75


def test_a_label_that_goes_with_what_is_missing_tells_nobodys() -> None:
    """It stays with missing cells, which go to other rows; where they cannot, it is named."""
    before = with_labels(300)
    before["half"] = np.where(np.arange(300) % 2 == 0, "first", "second")
    before.loc[before["half"] == "first", ["staff", "energy"]] = np.nan
    release = mv.protect(before, seed=1)
    assert (release.data["half"] == before["half"]).mean() < 0.6
    assert (release.data["staff"].isna() == (release.data["half"] == "first")).mean() > 0.75
    assert not [said for said in release.warnings if "less than half as much as asked" in said]
    release = mv.protect(before, public="sales", seed=1)
    (said,) = [said for said in release.warnings if "less than half as much as asked" in said]
    assert "half (" in said
    assert "trade" not in said
    assert any("they stay in their places" in said and "in 150 rows" in said for said in release.warnings)


@pytest.mark.parametrize(("rows", "columns"), [(5, 9), (12, 20), (25, 30), (45, 50)])
def test_more_columns_than_rows(rows: int, columns: int) -> None:
    before = factors(rows, columns)
    release = mv.protect(before, seed=1)
    assert np.isfinite(release.data).all()
    assert (release.data != before).mean() > 0.9


def test_copies_of_columns_stay_copies_and_constants_constant() -> None:
    before = firms()
    before["again"], before["twice"], before["one"] = before["sales"], 2 * before["staff"], 1.0
    release = mv.protect(before, seed=1)
    after = release.data
    assert (after["again"] == after["sales"]).all()
    assert (after["twice"] == 2 * after["staff"]).all()
    assert (after["one"] == 1).all()
    assert max(correlation_error(before[NAMES], after[NAMES])) <= 0.05


# Related to the third of the other columns, but not a function of it.
BASE = factors()[:, 3] * np.random.default_rng(8).lognormal(0, 0.3, ROWS)


ODD: dict[str, Array] = {
    "far from zero": 1e9 + BASE,
    "far from zero and hardly varying": 1e9 + 1e-3 * BASE,
    "far from zero and varying in the last digits": 1e9 + 1e-6 * BASE,
    "tiny": 1e-6 * BASE,
    "enormous": 1e120 * BASE,
    "one enormous value": np.where(np.arange(ROWS) == 9, 1e12, BASE),
    "answers from 1 to 5": np.clip(np.round(3 + np.log(BASE)), 1, 5),
    "a rare flag": (np.arange(ROWS) < 2).astype(float),
    "one that is not zero": np.where(np.arange(ROWS) == 9, 52_341.0, 0.0),
    "nearly constant": np.where(np.arange(ROWS) == 9, 5.5, 5.0),
    "all negative": -BASE,
    "a curve": factors()[:, 0] ** 3,
    "whole numbers beyond what doubles tell apart": np.round(2.0**60 * BASE),
}


@pytest.mark.quick("a rare flag", "nearly constant", "one enormous value")
@pytest.mark.parametrize("name", ODD)
def test_an_odd_column_comes_through_and_does_not_harm_the_others(name: str) -> None:
    before = np.column_stack([factors(), ODD[name]])
    release = mv.protect(before, seed=1)
    after = release.data
    assert np.isfinite(after).all()
    assert max(correlation_error(before[:, :8], after[:, :8])) <= 0.03
    assert (before[:, 8].min() <= after[:, 8]).all()
    assert (after[:, 8] <= before[:, 8].max()).all()
    if name not in ("one that is not zero", "nearly constant"):  # an amount that one record has is not released
        assert np.unique(after[:, 8]).size > 1
    if name not in ("a rare flag", "one that is not zero", "one enormous value", "nearly constant"):
        centred = [np.column_stack([side[:, :8], side[:, 8] - before[0, 8]]) for side in (before, after)]
        assert max(correlation_error(*centred)) <= 0.05


@pytest.mark.slow
def test_the_largest_of_one_column_does_not_come_back() -> None:
    for name in ("one enormous value", "one that is not zero"):
        after = mv.protect(np.column_stack([factors(), ODD[name]]), seed=1).data[:, 8]
        if name == "one enormous value":
            assert after.max() < 0.95 * ODD[name].max()


def test_heavy_ties_everywhere() -> None:
    rng = np.random.default_rng(1)
    common = rng.standard_normal((600, 2)) @ rng.uniform(-1, 1, (2, 8))
    answers = np.clip(np.round(3 + common + 0.7 * rng.standard_normal((600, 8))), 1, 5)
    after = mv.protect(answers, seed=1).data
    assert (np.sort(after, axis=0) == np.sort(answers, axis=0)).all()
    assert max(correlation_error(answers, after)) <= 0.05
    for found in attacks(answers, after).values():
        assert harmless(found)


def test_a_file_that_begins_with_zeros_is_not_taken_for_one_of_whole_numbers() -> None:
    before = factors(1500, 4)
    before[:1200, 1] = 0.0
    release = mv.protect(before, seed=1)
    assert release.warnings == []
    assert (release.data[:, 1] == 0).sum() == 1200


def test_records_that_repeat() -> None:
    before = np.repeat(factors(200, 5), 4, axis=0)
    after = mv.protect(before, seed=1).data
    assert max(correlation_error(before, after)) <= 0.03
    assert np.unique(after, axis=0).shape[0] > 700


@pytest.mark.slow
def test_many_columns() -> None:
    before = factors(100, 40)
    after = mv.protect(before, seed=1).data
    assert (
        np.abs(np.corrcoef(before.T) - np.corrcoef(after.T)).mean() <= 0.08
    )  # another sample of a hundred differs by 0.08


# --- Frames, types, seeds


def as_frame(kind: str, values: Array) -> Any:
    names = [f"c{j}" for j in range(values.shape[1])]
    return {
        "numpy": lambda: values,
        "float32": lambda: values.astype(np.float32),
        "pandas": lambda: pd.DataFrame(values, columns=names),
        "polars": lambda: pl.DataFrame(values, schema=names),
        "arrow": lambda: pa.table(dict(zip(names, values.T, strict=True))),
        "arrow in pandas": lambda: pd.DataFrame(values, columns=names).astype("double[pyarrow]"),
        "Float64": lambda: pd.DataFrame(values, columns=names).astype("Float64"),
    }[kind]()


@pytest.mark.quick("numpy", "arrow", "Float64")
@pytest.mark.parametrize("kind", ["numpy", "float32", "pandas", "polars", "arrow", "arrow in pandas", "Float64"])
def test_the_same_kind_of_frame_with_the_same_values_comes_back(kind: str) -> None:
    before = factors(300, 4)
    data = as_frame(kind, before)
    out = mv.protect(data, seed=1).data
    assert type(out) is type(data)
    assert getattr(out, "dtype", None) == getattr(data, "dtype", None)
    if hasattr(data, "dtypes"):
        assert list(out.dtypes) == list(data.dtypes)
    values = np.column_stack([np.asarray(c) for c in out.columns]) if kind == "arrow" else np.asarray(out, dtype=float)
    if kind != "float32":
        assert (values == mv.protect(before, seed=1).data).all()
    assert max(correlation_error(before, values)) <= 0.03


@pytest.mark.quick("int8", "uint64")
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_whole_numbers_of_every_width_come_back(dtype: str) -> None:
    before = np.minimum(np.round(10 * factors(300, 4)), 120).astype(dtype)
    after = mv.protect(before, seed=1).data
    assert after.dtype == dtype
    assert max(correlation_error(before, after)) <= 0.03


def test_a_seed_repeats_byte_for_byte_and_another_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = (mv.protect(firms(300), seed=seed).data for seed in (1, 2))
    for threads in ("1", "5"):
        monkeypatch.setenv("MICROVEIL_THREADS", threads)
        again = mv.protect(firms(300), seed=1).data
        assert again.to_numpy().tobytes() == first.to_numpy().tobytes()
    own = ["sales", "result", "energy"]
    assert (other[own] != first[own]).mean(axis=None) > 0.99


def test_it_is_the_default_and_says_what_it_did() -> None:
    release = released()
    assert release.method == "veil"
    assert release.release_type == "masked"
    assert set(release.kept) == {"mean", "covariance", "rank correlation", "distribution"}
    assert all(dose.asked == pytest.approx(1) and dose.achieved > 0.8 for dose in release.dose.values())
    recipe = release.recipe()
    assert "seed" not in str(recipe)


# --- Errors tell no value


SECRET = 86_420.975_31


FAULTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "one column": (np.full((30, 1), SECRET) * np.arange(1, 31)[:, None], {}),
    "two rows": (np.full((2, 3), SECRET), {}),
    "all constant": (np.full((30, 3), SECRET), {}),
    "infinite": (np.where(np.eye(30, 3) > 0, np.inf, SECRET * np.arange(1, 91).reshape(30, 3)), {}),
    "too large": (1e200 * SECRET * np.arange(1, 91).reshape(30, 3), {}),
    "few answers": (np.where(np.arange(90).reshape(30, 3) > 2, np.nan, SECRET), {}),
    "exact values": (SECRET * factors(30, 3), {"marginals": "original", "exact": True}),
    "a group of one": (SECRET * factors(30, 3), {"tail_group": 1}),
    "broken sum": (
        pd.DataFrame(SECRET * factors(30, 3), columns=list("abc")),
        {"rules": {"sums": [{"total": "a", "parts": ["b", "c"]}]}},
    ),
    "broken ratio": (
        pd.DataFrame(SECRET * factors(30, 3), columns=list("abc")),
        {"rules": {"ratios": [{"ratio": "a", "numerator": "b", "denominator": "c"}]}},
    ),
    "impossible bounds": (
        pd.DataFrame(SECRET * factors(30, 3), columns=list("abc")),
        {"rules": {"columns": {"a": {"minimum": SECRET, "maximum": 0}}}},
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_errors_tell_no_value(name: str) -> None:
    data, options = FAULTS[name]
    with pytest.raises(MicroveilError) as caught:
        mv.protect(data, seed=1, **options)
    shown = "".join(traceback.format_exception(caught.value, chain=True))
    said = f"{caught.value}{caught.value.__context__}{caught.value.__cause__}"
    assert "86420" not in said.replace(",", "").replace("_", "")
    assert "86420.9" not in shown
