"""The attacker reads the columns that nobody took for numbers.

Amounts do not only come as doubles. A file may keep them as decimals, as halves, as sparse columns, as categories or in
lists. A column of a type that is not looked for is released in clear, and one that a double cannot hold is another
column before any work is done. Each of them is protected and comes back in its own type, or is refused by name.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

import microveil as mv
from microveil.errors import DataError

pytestmark = pytest.mark.usefixtures("few_exchanges")

ROWS = 60
RNG = np.random.default_rng(3)
WAGES = RNG.lognormal(3, 1, ROWS).round(1)
OTHERS = {"b": (2 * WAGES + RNG.normal(size=ROWS)).round(1), "c": RNG.lognormal(2, 1, ROWS).round(1)}
DECIMALS = [Decimal(str(wage)) for wage in WAGES]
HUGE = [Decimal(10) ** 25 + int(10 * wage) for wage in WAGES]
LARGE = [2**60 + int(10 * wage) for wage in WAGES]
ENCODED = pa.array(WAGES).dictionary_encode()


def frame(column: Any) -> pd.DataFrame:
    return pd.DataFrame({"a": column, **OTHERS})


def table(column: Any) -> pa.Table:
    return pa.table({"a": column, **OTHERS})


def polars(column: Any, kind: Any) -> pl.DataFrame:
    return pl.DataFrame({"a": pl.Series(column, dtype=kind, strict=False), **OTHERS})


def kind_of(data: Any) -> str:
    return str(data.schema.field("a").type if isinstance(data, pa.Table) else data["a"].dtype)


def cells(data: Any) -> list[float | None]:
    column = data.column("a").to_pylist() if isinstance(data, pa.Table) else list(data["a"])
    return [None if cell is None or cell is pd.NA or cell != cell else float(cell) for cell in column]


PROTECTED = {
    "decimals of Arrow": lambda: table(pa.array(DECIMALS, pa.decimal128(10, 1))),
    "decimals with many places": lambda: table(pa.array(DECIMALS, pa.decimal128(38, 18))),
    "decimals of polars": lambda: polars(DECIMALS, pl.Decimal(10, 1)),
    "decimals of pandas": lambda: frame(pd.Series(DECIMALS, dtype=pd.ArrowDtype(pa.decimal128(10, 1)))),
    "decimals with holes": lambda: table(pa.array([None, *DECIMALS[1:]], pa.decimal128(10, 1))),
    "halves of Arrow": lambda: table(WAGES.astype(np.float16)),
    "halves of polars": lambda: polars(WAGES, pl.Float16),
    "halves of pandas": lambda: frame(WAGES.astype(np.float16)),
    "long doubles": lambda: frame(WAGES.astype(np.longdouble)),
    "sparse": lambda: frame(pd.arrays.SparseArray(np.where(WAGES > 20, WAGES, 0.0), fill_value=0.0)),
    "sparse whole numbers": lambda: frame(pd.arrays.SparseArray(np.where(WAGES > 20, WAGES, 0).astype(int))),
    "sparse with holes": lambda: frame(pd.arrays.SparseArray(np.where(WAGES > 9, WAGES, np.nan))),
}


@pytest.mark.parametrize("case", PROTECTED)
def test_they_are_protected_and_come_back_in_their_own_type(case: str) -> None:
    data = PROTECTED[case]()
    release = mv.protect(data, seed=1)
    assert "a" in release.dose
    assert kind_of(release.data) == kind_of(data)
    before, after = cells(data), cells(release.data)
    assert after.count(None) == before.count(None)
    changed = [new != old for new, old in zip(after, before, strict=True) if old]
    assert np.mean(changed) > 0.9
    assert not any("as float64" in warning for warning in release.warnings)


@pytest.mark.parametrize("case", PROTECTED)
def test_they_are_the_numbers_that_doubles_are(case: str) -> None:
    """The same values, as far as the type holds them, whatever it is called."""
    data = PROTECTED[case]()
    doubles = mv.protect(frame(np.array(cells(data), dtype=float)), seed=1).data["a"].to_numpy()
    after = np.array(cells(mv.protect(data, seed=1).data), dtype=float)
    assert np.allclose(after, doubles, rtol=1e-3, equal_nan=True)


def test_long_doubles_of_an_array_come_back() -> None:
    values = np.column_stack([WAGES, *OTHERS.values()])
    release = mv.protect(values.astype(np.longdouble), seed=1)
    assert release.data.dtype == np.longdouble
    assert np.array_equal(release.data.astype(float), mv.protect(values, seed=1).data)


TOO_LONG = {
    "decimals around 1e25 in Arrow": lambda: table(pa.array(HUGE, pa.decimal128(38, 2))),
    "decimals around 1e25 in polars": lambda: polars(HUGE, pl.Decimal(38, 2)),
    "decimals around 1e25 in pandas": lambda: frame(pd.Series(HUGE, dtype=pd.ArrowDtype(pa.decimal128(38, 2)))),
    "decimals of 17 digits": lambda: table(pa.array([d + Decimal("12345678901234.567") for d in DECIMALS])),
    "whole numbers of Arrow": lambda: table(LARGE),
    "whole numbers of polars": lambda: polars(LARGE, pl.Int64),
    "very long ones of polars": lambda: polars([10**25 + int(wage) for wage in WAGES], pl.Int128),
    "whole numbers of pandas": lambda: frame(LARGE),
    "whole numbers with holes": lambda: frame(pd.array([None, *LARGE[1:]], dtype="Int64")),
    "without a sign": lambda: frame(np.array(LARGE, dtype=np.uint64)),
    "negative": lambda: frame([-cell for cell in LARGE]),
    "long doubles": lambda: frame(np.longdouble(1) + np.finfo(np.longdouble).eps * np.arange(ROWS)),
}


@pytest.mark.parametrize("case", TOO_LONG)
def test_what_a_double_cannot_hold_is_refused_by_name(case: str) -> None:
    if case == "long doubles" and np.finfo(np.longdouble).eps == np.finfo(float).eps:
        pytest.skip("long doubles are doubles here")
    with pytest.raises(DataError, match="column 'a' has numbers with more digits") as caught:
        mv.protect(TOO_LONG[case](), seed=1)
    assert "divide it by a unit" in str(caught.value)
    assert not any(str(cell) in str(caught.value) for cell in (*LARGE, *HUGE))


def test_arrays_of_them_are_refused_by_number() -> None:
    with pytest.raises(DataError, match="column '1' has numbers"):
        mv.protect(np.column_stack([np.arange(ROWS) % 7, LARGE, np.arange(ROWS) % 5]), seed=1)


def test_columns_that_are_not_protected_may_be_as_long_as_they_like() -> None:
    release = mv.protect(frame(LARGE).assign(a=LARGE), confidential=["b", "c"], seed=1)
    assert release.data["a"].tolist() == LARGE
    apart = pd.DataFrame({"g": [2**60 + i % 2 for i in range(ROWS)], **OTHERS})
    for data in (apart, pl.DataFrame(apart), pa.Table.from_pandas(apart)):
        release = mv.protect(data, "ipso", strata=["g"], seed=1, rules=None)
        after = release.data if isinstance(data, pd.DataFrame) else release.data.to_pandas()
        for group, rows in apart.groupby("g"):
            assert after.loc[rows.index, "b"].mean() == pytest.approx(rows["b"].mean()), group


HIDDEN = {
    "a dictionary of Arrow": lambda: table(ENCODED),
    "a dictionary of pandas": lambda: frame(pd.Series(pd.arrays.ArrowExtensionArray(ENCODED))),
    "categories of pandas": lambda: frame(pd.Categorical(WAGES)),
    "ordered categories": lambda: frame(pd.Categorical(WAGES.astype(int), ordered=True)),
    "runs of Arrow": lambda: table(pa.compute.run_end_encode(pa.array(WAGES))),
    "wide decimals": lambda: table(pa.array(DECIMALS, pa.decimal256(50, 1))),
    "narrow decimals": lambda: table(pa.array(DECIMALS, pa.decimal32(8, 1))),
    "complex numbers": lambda: frame(WAGES.astype(complex)),
    "lists of Arrow": lambda: table([[wage] for wage in WAGES]),
    "lists of polars": lambda: polars([[wage] for wage in WAGES], pl.List(pl.Float64)),
    "arrays of polars": lambda: polars([[wage] for wage in WAGES], pl.Array(pl.Float64, 1)),
    "records of polars": lambda: polars([{"x": [wage]} for wage in WAGES], pl.Struct({"x": pl.List(pl.Float64)})),
}


@pytest.mark.parametrize("case", HIDDEN)
def test_numbers_in_a_column_of_another_type_are_refused_by_name(case: str) -> None:
    with pytest.raises(DataError, match="column 'a' holds numbers, but its type"):
        mv.protect(HIDDEN[case](), seed=1)


@pytest.mark.parametrize(
    "cells",
    [
        [[wage] for wage in WAGES],
        [np.array([wage]) for wage in WAGES],
        [{"paid": wage} for wage in WAGES],
        [str(wage).encode() for wage in WAGES],
        [complex(wage) for wage in WAGES],
    ],
    ids=["lists", "arrays", "records", "bytes", "complex numbers"],
)
def test_objects_of_numbers_are_refused_by_name(cells: list[Any]) -> None:
    with pytest.raises(DataError, match="column 'a' is text, but most of its cells look like numbers"):
        mv.protect(frame(pd.Series(cells, dtype=object)), seed=1)


def test_bytes_that_read_like_numbers_are_refused_by_name() -> None:
    with pytest.raises(DataError, match="column 'a' is text, but most of its cells look like numbers"):
        mv.protect(table([str(wage).encode() for wage in WAGES]), seed=1)


def test_decimals_of_thousands_are_refused() -> None:
    thousands = pa.array([1000 * int(wage) for wage in WAGES]).cast(pa.decimal128(25, 0)).cast(pa.decimal128(22, -3))
    with pytest.raises(DataError, match="decimals of a negative scale"):
        mv.protect(table(thousands), seed=1)


def test_describe_tells_of_them() -> None:
    described = mv.describe(table(LARGE)).columns[0]
    assert (described.kind, described.content, described.distinct) == ("count", "beyond float64", len(set(LARGE)))
    for case in ("decimals around 1e25 in Arrow", "decimals around 1e25 in polars", "decimals around 1e25 in pandas"):
        described = mv.describe(TOO_LONG[case]()).columns[0]
        assert (described.kind, described.content, described.distinct) == ("count", "beyond float64", len(set(HUGE)))


def test_categories_that_are_numbers_may_be_public_or_left_alone_on_purpose() -> None:
    data = frame(pd.Categorical(np.arange(ROWS) % 2))
    assert mv.protect(data, "ipso", public=["a"], rules=None, seed=1).data["a"].equals(data["a"])
    release = mv.protect(data, confidential=["b", "c"], seed=1)
    assert release.data["a"].equals(data["a"])
    assert "released as they are: a" in release.warnings


def test_decimals_that_get_more_digits_are_doubles_and_it_is_said() -> None:
    data = table(pa.array(DECIMALS, pa.decimal128(10, 1)))
    release = mv.protect(data, "ipso", rules=None, seed=1)
    assert kind_of(release.data) == "double"
    assert "decimals that come back as float64, as they have more digits now: a" in release.warnings


# Block by block


def streamed(data: pa.Table, folder: Path, **options: Any) -> tuple[mv.Release, pa.Table]:
    parquet.write_table(data, folder / "in.parquet")
    release = mv.protect_file(
        folder / "in.parquet", folder / "out.parquet", "pca", rules=None, seed=1, engine="stream", **options
    )
    return release, parquet.read_table(folder / "out.parquet")


def test_blocks_refuse_what_a_double_cannot_hold(tmp_path: Path) -> None:
    for column in (LARGE, pa.array(HUGE, pa.decimal128(38, 2))):
        with pytest.raises(DataError, match="column 'a' has numbers with more digits"):
            streamed(table(column), tmp_path)
    table(LARGE).to_pandas().to_csv(tmp_path / "in.csv", index=False)
    with pytest.raises(DataError, match="column 'a' has numbers with more digits"):
        mv.protect_file(tmp_path / "in.csv", tmp_path / "out.csv", "pca", rules=None, engine="stream")


def test_blocks_refuse_hidden_numbers(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="column 'a' holds numbers, but its type"):
        streamed(table([[wage] for wage in WAGES]), tmp_path)
    assert not (tmp_path / "out.parquet").exists()


def test_halves_stay_halves_in_blocks_and_decimals_are_told(tmp_path: Path) -> None:
    halves = table(WAGES.astype(np.float16))
    _, after = streamed(halves, tmp_path)
    assert kind_of(after) == "halffloat"
    assert after.equals(mv.protect(halves, "pca", rules=None, seed=1).data)
    (tmp_path / "out.parquet").unlink()
    release, after = streamed(table(pa.array(DECIMALS, pa.decimal128(10, 1))), tmp_path)
    assert kind_of(after) == "double"
    assert "decimals that come back as float64, in blocks: a" in release.warnings
