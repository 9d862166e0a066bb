"""Frames in, the same kind of frame out."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import microveil as mv
from microveil.errors import DataError, ParameterError
from microveil.io.frames.dataframes import NumpyFrame, open_frame

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
    for kept in ((), ("who", "flag")):
        release = mv.protect(frame, keep=list(kept), seed=4)
        assert type(release.data) is type(frame)
        assert types(release.data) == types(frame)
        before, after = as_dict(frame), as_dict(release.data)
        assert list(after) == list(before)
        assert [name for name in after if after[name] == before[name]] == list(kept)
        assert release.in_clear == kept
        for name in ("who", "flag"):
            assert set(after[name]) == set(before[name]), "labels, and true and false are labels too"
        if isinstance(frame, pd.DataFrame):
            assert release.data.index.equals(pd.RangeIndex(60)), "an index may name the records"


def test_every_kind_of_frame_gives_the_same_values() -> None:
    array = mv.protect(NUMBERS, seed=4).data
    labelled = as_dict(mv.protect(FRAMES["polars"](), seed=4).data)
    for make in FRAMES.values():
        after = as_dict(mv.protect(make(), keep=["who", "flag"], seed=4).data)
        assert np.array_equal(np.column_stack([after[name] for name in "abc"]), array)
        assert as_dict(mv.protect(make(), seed=4).data) == labelled


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int16, np.uint8])
@pytest.mark.parametrize("method", ["veil", "pca"])
def test_arrays_of_any_number_type(order: str, dtype: Any, method: str) -> None:
    data = np.array(NUMBERS, dtype=dtype, order=order)
    release = mv.protect(data, method, seed=4)
    # Exact moments need decimals; a column with values of its own does not.
    assert release.data.dtype == (dtype if method == "veil" or np.dtype(dtype).kind == "f" else np.float64)
    assert release.data.shape == data.shape
    before, after = data.astype(np.float64), release.data.astype(np.float64)
    error = np.abs(after.mean(axis=0) - before.mean(axis=0)) / before.std(axis=0)
    # Values are drawn anew, and rounded to whole numbers where the column has these.
    assert error.max() < {"pca": 1e-6, "veil": 0.1}[method]
    if method == "veil":
        assert (after.min(axis=0) >= before.min(axis=0)).all()
        assert (after.max(axis=0) <= before.max(axis=0)).all()


def whole_numbers() -> dict[str, list[int | None]]:
    """Whole numbers of three sizes: one with holes, one that skips all odd numbers, one with negative numbers."""
    a, b, c = np.round(NUMBERS * [1, 10, 1] - [0, 0, 50]).astype(int).T.tolist()
    return {"a": [None if i % 7 == 3 else value for i, value in enumerate(a)], "b": [2 * v for v in b], "c": c}


@pytest.mark.parametrize(
    "make",
    [
        lambda: pd.DataFrame({name: pd.array(values, "Int64") for name, values in whole_numbers().items()}).astype(
            {"a": "UInt8", "c": "Int16"}
        ),
        lambda: pd.DataFrame(whole_numbers()).astype("int32[pyarrow]"),
        lambda: pl.DataFrame(whole_numbers(), schema={"a": pl.UInt8, "b": pl.Int64, "c": pl.Int16}),
        lambda: pa.table(whole_numbers(), schema=pa.schema({"a": pa.uint8(), "b": pa.int64(), "c": pa.int16()})),
    ],
    ids=["pandas nullable", "pandas arrow", "polars", "arrow"],
)
def test_whole_numbers_stay_whole_and_of_their_type_in_every_kind_of_frame(make: Any) -> None:
    frame = make()
    release = mv.protect(frame, seed=4)
    assert types(release.data) == types(frame)
    assert not any("decimals" in warning for warning in release.warnings)
    before, after = as_dict(frame), as_dict(release.data)
    assert sum(pd.isna(value) for value in after["a"]) == sum(i % 7 == 3 for i in range(60))
    assert all(value % 2 == 0 for value in after["b"])
    assert after["b"] != before["b"]
    array = np.array([[np.nan if v is None else v for v in column] for column in whole_numbers().values()]).T
    expected = mv.protect(array, seed=4).data
    found = np.array([[np.nan if pd.isna(v) else v for v in after[name]] for name in "abc"]).T
    assert np.array_equal(found, expected, equal_nan=True)


@pytest.mark.slow
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
    release = mv.protect(NUMBERS.astype(np.float32), "pca", seed=1)
    assert 1e-12 < release.kept["mean"] < 1e-6
    assert any(warning.startswith("mean: kept to") for warning in release.warnings)


def test_missing_cells_of_integer_columns_stay_missing() -> None:
    for frame in (
        pd.DataFrame({"a": pd.array([1, 2, None, 4, 9, 7], dtype="Int64"), "b": [3.0, 1, 4, 1, 5, 9]}),
        pl.DataFrame({"a": [1, 2, None, 4, 9, 7], "b": [3.0, 1, 4, 1, 5, 9]}),
        pa.table({"a": [1, 2, None, 4, 9, 7], "b": [3.0, 1, 4, 1, 5, 9]}),
    ):
        after = as_dict(mv.protect(frame, seed=2).data)
        assert sum(pd.isna(value) for value in after["a"]) == 1


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
    "pandas names that become equal": (pd.DataFrame(NUMBERS, columns=[1, "1", 2]), "'1'"),
    "no columns": (pl.DataFrame(), "no column to protect"),
    "one row": (pl.DataFrame({"a": [1.5], "b": [2.5]}), "1 row"),
    "no rows": (pl.DataFrame({"a": [], "b": []}, schema={"a": pl.Float64, "b": pl.Float64}), "no rows"),
    "nothing but missing cells": (
        pl.DataFrame({"a": [None] * 3, "b": [float("nan")] * 3}),
        "column '[ab]' has no values",
    ),
    "nan only": (np.full((60, 2), np.nan), "column '0' has no values"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_protected_is_refused_with_a_reason(case: str) -> None:
    data, expected = BAD[case]
    with pytest.raises(DataError, match=expected) as caught:
        mv.protect(data)
    assert "\n" not in str(caught.value)
    assert "; " in str(caught.value)


# Names


NAMES = {
    "numbers": pd.RangeIndex(3),
    "other numbers": pd.Index([7, 5, 11], name="codes"),
    "tuples": pd.MultiIndex.from_tuples([("a", "x"), ("a", "y"), ("b", "x")], names=["upper", "lower"]),
    "dates": pd.to_datetime(["2024-01-31", "2024-02-29", "2024-03-31"]),
    "mixed": pd.Index(["a", 2, None], dtype=object),
}


@pytest.mark.parametrize("case", NAMES)
def test_column_names_of_pandas_that_are_not_text_come_back(case: str) -> None:
    frame = pd.DataFrame(NUMBERS, columns=NAMES[case])
    kept = frame.copy()
    release = mv.protect(frame, seed=4)
    assert release.data.columns is frame.columns
    assert np.array_equal(release.data.to_numpy(), mv.protect(NUMBERS, seed=4).data)
    assert list(release.dose) == [str(name) for name in NAMES[case]]
    pd.testing.assert_frame_equal(frame, kept)  # its own names included


def test_roles_of_columns_whose_names_are_not_text() -> None:
    frame = pd.DataFrame(NUMBERS, columns=NAMES["tuples"])
    by_number, by_text = (mv.protect(frame, confidential=c, seed=1) for c in ([0, 2], ["('a', 'x')", "('b', 'x')"]))
    pd.testing.assert_frame_equal(by_number.data, by_text.data)
    assert by_number.data[("a", "y")].equals(frame[("a", "y")])
    with pytest.raises(ParameterError, match="there is no column"):
        mv.protect(frame, confidential=["a", "b"])


def test_the_name_of_the_column_index_comes_back() -> None:
    frame = pd.DataFrame(NUMBERS, columns=pd.Index(list("abc"), name="variable"))
    assert mv.protect(frame, seed=1).data.columns is frame.columns


# Numbers

LARGE = [2**53 + 1, 2**62 + 12345, -(2**60) - 1, None, 5]


@pytest.mark.parametrize(
    "make",
    [
        lambda: pl.DataFrame({"a": LARGE}),
        lambda: pa.table({"a": LARGE}),
        lambda: pa.table({"a": pa.chunked_array([LARGE[:2], LARGE[2:]])}),
        lambda: pd.DataFrame({"a": pd.array(LARGE, dtype="Int64")}),
        lambda: pd.DataFrame({"a": pd.array(LARGE, dtype="int64[pyarrow]")}, index=list("edcba")),
    ],
)
def test_large_whole_numbers_become_the_nearest_decimal_number(make: Any) -> None:
    frame = open_frame(make())
    expected = np.array([np.nan if value is None else float(value) for value in LARGE])
    assert np.array_equal(frame.numbers("a"), expected, equal_nan=True)
    mask = np.array([True, False, True, False, False])
    rebuilt = open_frame(frame.rebuilt({"a": np.full(5, 0.5)}, {"a": mask}))
    assert np.array_equal(rebuilt.numbers("a"), np.where(mask, 0.5, expected), equal_nan=True)


def test_a_library_error_does_not_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise pa.ArrowInvalid("cannot convert 86420.97531")

    monkeypatch.setattr("microveil.io.frames.dataframes._as_float64", broken)
    with pytest.raises(DataError, match="'a'") as caught:
        open_frame(pl.DataFrame({"a": [1.0]})).numbers("a")
    assert caught.value.__context__ is None
    assert "86420" not in str(caught.value)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "2.5", "-3"], True),
        (["2100,82", "17,5", "3,0"], True),
        (["1.234,5", "12.345.678", "0,5"], True),
        (["1,234.5", "+1e5", ".5"], True),
        (["<5", ">100", "< 5", ">=7", "12"], True),
        (["1", "2", "x", "y"], True),
        (["1", "2", "x", "y", "z"], False),
        (["12", "x", "NA", ".", "", None], True),
        (["12", "007", "15"], False),
        (["12", "01.11", "15"], False),
        (["0", "0.5", "-0,25"], True),
        (["2024-01-31", "31.12.2024", "12:30"], False),
        (["1.2.3", "1 2", "12a"], False),
        (["", "NA", None], False),
        ([None, None], False),
    ],
)
def test_text_that_is_meant_as_numbers(cells: list[str | None], expected: bool) -> None:
    for frame in (
        pl.DataFrame({"a": pl.Series(cells, dtype=pl.String)}),
        pa.table({"a": pa.array(cells, pa.string())}),
        pd.DataFrame({"a": pd.Series(cells, dtype="str")}),
        pd.DataFrame({"a": pd.Series(cells, dtype="object")}),
    ):
        assert open_frame(frame).looks_numeric("a") is expected


def test_objects_that_are_meant_as_numbers() -> None:
    def looks(cells: list[Any], dtype: Any = object) -> bool:
        return open_frame(pd.DataFrame({"a": pd.Series(cells, dtype=dtype)})).looks_numeric("a")

    assert looks([Decimal("1.5"), "2", None])
    assert not looks([Decimal("1.5"), Decimal("2"), None]), "decimals alone are numbers by type"
    assert looks([1, "2", 3.5, "x"])
    assert not looks([True, False, None])
    assert not looks([dt.date(2024, 1, 31)] * 3)
    assert not looks(["1", "2"], "category")
    assert not looks([True, False], bool)
    assert not looks([1.0, 2.0], float), "that is numeric by type"
    assert not open_frame(pl.DataFrame({"a": pl.Series(["1", "2"], dtype=pl.Enum(["1", "2"]))})).looks_numeric("a")
    assert not open_frame(NUMBERS).looks_numeric("0")


def test_the_sample_of_a_long_column_reaches_its_end() -> None:
    cells = ["x"] * 2000 + ["1"] * 3500
    assert open_frame(pl.DataFrame({"a": cells})).looks_numeric("a")
    assert not open_frame(pl.DataFrame({"a": cells[::-1] + ["x"] * 3000})).looks_numeric("a")


# Labels and identifiers


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["a", "b", "c"], True),
        (["a", "b", "b"], False),
        (["a", "b", None], False),
        ([3, 1, 2], True),
        ([2**53, 2**53 + 1, 2**53 + 2], True),
        ([3, 1, 3], False),
        ([0.5, 1.5, None], False),
        ([True, False], True),
        ([[1], [2]], True),
        ([[1], [1]], False),
        ([], False),
    ],
)
def test_unique_columns(cells: list[Any], expected: bool) -> None:
    for frame in (pl.DataFrame({"a": cells}), pa.table({"a": cells}), pd.DataFrame({"a": cells})):
        assert open_frame(frame).is_unique("a") is expected


def test_unique_columns_of_arrays_and_late_repeats() -> None:
    frame = open_frame(np.array([[1.0, 1, 1], [2, 1, np.nan]]))
    assert [frame.is_unique(name) for name in frame.names] == [True, False, False]
    large = open_frame(np.array([[2**53], [2**53 + 1]]))
    assert large.is_unique("0")
    late = [*range(5000), 7]
    assert not open_frame(pl.DataFrame({"a": late})).is_unique("a")
    assert open_frame(pl.DataFrame({"a": [0.5, float("nan")]})).is_unique("a") is False


def slow_labels(cells: list[Any], numeric: bool) -> list[int]:
    """What `labels` promises, cell by cell."""
    present = [cell for cell in cells if cell is not None and cell == cell]
    order = sorted(set(present)) if numeric else sorted({str(cell) for cell in present})
    return [
        order.index(cell if numeric else str(cell)) if cell is not None and cell == cell else len(order)
        for cell in cells
    ]


COLUMNS: dict[str, list[Any]] = {
    "text": ["b", "a", None, "B", "ä", "b", "", "a b", "10", "9"],
    "numbers": [10, 9, None, 9, -1],
    "decimals": [0.5, float("nan"), -1.5, 0.5],
    "truth": [True, None, False, True],
    "dates": [dt.date(2024, 2, 1), dt.date(2023, 1, 1), None, dt.date(2024, 2, 1)],
    "times": [dt.datetime(2024, 2, 1, 3), dt.datetime(2023, 1, 1), None],
    "lists": [[2, 1], [1], None, [2, 1]],
    "nothing missing": ["x", "y", "x"],
}


@pytest.mark.parametrize("case", COLUMNS)
def test_labels_are_the_same_from_every_kind_of_frame(case: str) -> None:
    cells = COLUMNS[case]
    expected = slow_labels(cells, case in ("numbers", "decimals"))
    missing = sum(cell is None or cell != cell for cell in cells)
    for frame in (
        pl.DataFrame({"a": pl.Series(cells, strict=False)}),
        pa.table({"a": cells}),
        pa.table({"a": pa.chunked_array([cells[:2], cells[2:]])}),
        pd.DataFrame({"a": cells}),
        pd.DataFrame({"a": pd.Series(cells, dtype="object")}) if case == "text" else pd.DataFrame({"a": cells}),
    ):
        opened = open_frame(frame)
        assert opened.labels("a").tolist() == expected
        assert opened.missing("a") == missing


def test_labels_of_categories_count_only_what_occurs() -> None:
    cells = ["b", None, "a", "b"]
    categories = ["z", "b", "unused", "a"]
    for frame in (
        pl.DataFrame({"a": pl.Series(cells, dtype=pl.Enum(categories))}),
        pl.DataFrame({"a": pl.Series(cells, dtype=pl.Categorical)}),
        pd.DataFrame({"a": pd.Categorical(cells, categories)}),
        pa.table({"a": pa.chunked_array([pa.array(cells[:2]), pa.array(cells[2:])]).dictionary_encode()}),
    ):
        assert open_frame(frame).labels("a").tolist() == [1, 2, 0, 1]


def test_labels_of_objects_go_by_their_text() -> None:
    frame = pd.DataFrame({"a": pd.Series(["x", 2, 2.0, True, None, "2"], dtype=object)})
    assert nw.from_native(frame)["a"].dtype == nw.Object
    assert open_frame(frame).labels("a").tolist() == [3, 0, 1, 2, 4, 0]


def test_labels_of_an_array() -> None:
    assert NumpyFrame(np.array([[3.0], [np.nan], [1], [3], [np.nan]])).labels("0").tolist() == [1, 2, 0, 1, 2]
