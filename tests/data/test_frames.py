"""Frames in, the same kind of frame out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import microveil as mv
from microveil.errors import DataError

RNG = np.random.default_rng(11)
NUMBERS = RNG.normal(size=(60, 3)) @ RNG.normal(size=(3, 3)) + 50
TEXT = [f"r{i % 4}" for i in range(60)]


def columns() -> dict[str, Any]:
    return {"who": TEXT, "a": NUMBERS[:, 0], "b": NUMBERS[:, 1], "c": NUMBERS[:, 2], "flag": NUMBERS[:, 0] > 50}


FRAMES = {
    "pandas": lambda: pd.DataFrame(columns(), index=pd.Index(range(60, 0, -1), name="key")),
    "pandas nullable": lambda: pd.DataFrame(columns()).convert_dtypes(),
    "pandas arrow": lambda: pd.DataFrame(columns()).convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda: pl.DataFrame(columns()),
    "arrow": lambda: pa.table(columns()),
}


def as_dict(frame: Any) -> dict[str, list[Any]]:
    if isinstance(frame, pd.DataFrame):
        return {name: frame[name].tolist() for name in frame}
    return frame.to_dict(as_series=False) if isinstance(frame, pl.DataFrame) else frame.to_pydict()


def types(frame: Any) -> dict[str, str]:
    if isinstance(frame, pa.Table):
        return {field.name: str(field.type) for field in frame.schema}
    return {name: str(frame[name].dtype) for name in frame.columns}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_comes_back_as_the_same_kind_with_the_same_types(kind: str) -> None:
    frame = FRAMES[kind]()
    release = mv.protect(frame, seed=4)
    assert type(release.data) is type(frame)
    assert types(release.data) == types(frame)
    before, after = as_dict(frame), as_dict(release.data)
    assert list(after) == list(before)
    assert after["who"] == before["who"]
    assert after["flag"] == before["flag"], "true and false are not numbers"
    for name in "abc":
        assert after[name] != before[name]
    if isinstance(frame, pd.DataFrame):
        assert release.data.index.equals(frame.index)


def test_every_kind_of_frame_gives_the_same_values() -> None:
    array = mv.protect(NUMBERS, seed=4).data
    for make in FRAMES.values():
        after = as_dict(mv.protect(make(), seed=4).data)
        assert np.array_equal(np.column_stack([after[name] for name in "abc"]), array)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int16, np.uint8])
def test_arrays_of_any_number_type(order: str, dtype: Any) -> None:
    data = np.array(NUMBERS, dtype=dtype, order=order)
    release = mv.protect(data, seed=4)
    assert release.data.dtype == (dtype if np.dtype(dtype).kind == "f" else np.float64)
    assert release.data.shape == data.shape
    scale = data.std(axis=0, dtype=np.float64)
    assert np.allclose(
        release.data.mean(axis=0, dtype=np.float64), data.mean(axis=0, dtype=np.float64), atol=1e-6 * scale.max()
    )


def test_layout_and_contiguity_do_not_matter() -> None:
    wide = np.empty((60, 6))
    wide[:, ::2] = NUMBERS
    for view in (NUMBERS, np.asfortranarray(NUMBERS), wide[:, ::2], NUMBERS[::-1][::-1]):
        assert np.array_equal(mv.protect(view, seed=9).data, mv.protect(NUMBERS, seed=9).data)


def test_a_read_only_array_is_fine() -> None:
    data = NUMBERS.copy()
    data.flags.writeable = False
    assert mv.protect(data, seed=1).data.flags.writeable


def test_some_columns_of_an_array_by_number() -> None:
    release = mv.protect(NUMBERS, confidential=[0, 2], seed=1)
    assert np.array_equal(release.data[:, 1], NUMBERS[:, 1])
    assert not np.array_equal(release.data[:, 0], NUMBERS[:, 0])


def test_float32_is_measured_as_it_is_stored() -> None:
    release = mv.protect(NUMBERS.astype(np.float32), seed=1)
    assert 1e-12 < release.kept["mean"] < 1e-6
    assert any(warning.startswith("mean: kept to") for warning in release.warnings)


def test_missing_cells_of_integer_columns_stay_missing() -> None:
    for frame in (
        pd.DataFrame({"a": pd.array([1, 2, None, 4, 9, 7], dtype="Int64"), "b": [3.0, 1, 4, 1, 5, 9]}),
        pl.DataFrame({"a": [1, 2, None, 4, 9, 7], "b": [3.0, 1, 4, 1, 5, 9]}),
        pa.table({"a": [1, 2, None, 4, 9, 7], "b": [3.0, 1, 4, 1, 5, 9]}),
    ):
        after = as_dict(mv.protect(frame, seed=2).data)
        assert [pd.isna(value) for value in after["a"]] == [False, False, True, False, False, False]


BAD: dict[str, tuple[Any, str]] = {
    "a list": ([[1, 2], [3, 4]], "list"),
    "one dimension": (np.arange(5.0), "1 dimension"),
    "three dimensions": (np.zeros((3, 3, 3)), "3 dimensions"),
    "an array of text": (np.array([["a", "b"]] * 4), "not numbers"),
    "an array of objects": (np.array([[1, "b"]] * 4, dtype=object), "not numbers"),
    "a masked array": (np.ma.masked_array(NUMBERS, NUMBERS > 50), "filled"),
    "a lazy frame": (pl.LazyFrame({"a": [1]}), "collect"),
    "pandas with duplicates": (pd.DataFrame(NUMBERS, columns=["x", "x", "y"]), "'x'"),
    "arrow with duplicates": (pa.table([pa.array([1.0, 2, 3])] * 2, names=["x", "x"]), "'x'"),
    "pandas with numbers for names": (pd.DataFrame(NUMBERS), "text"),
    "no columns": (pl.DataFrame(), "numeric column"),
    "no rows": (pl.DataFrame({"a": [], "b": []}, schema={"a": pl.Float64, "b": pl.Float64}), "no rows"),
    "an all-missing column": (pl.DataFrame({"a": [1.0, 2, 4], "b": [2.0, 1, 1], "c": [None] * 3}), "'c'"),
    "nan only": (np.column_stack([NUMBERS, np.full(60, np.nan)]), "'3'"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_protected_is_refused_with_a_reason(case: str) -> None:
    data, expected = BAD[case]
    with pytest.raises(DataError, match=expected) as caught:
        mv.protect(data)
    assert "\n" not in str(caught.value)
    assert "; " in str(caught.value)
