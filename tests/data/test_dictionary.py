"""Special codes and declared sums."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import microveil as mv
from microveil.data.dictionary import find_codes
from microveil.errors import DataError, FileError, ParameterError

NAN = float("nan")


def codes(*values: float) -> tuple[float, ...]:
    column = np.array(values, dtype=float)
    return find_codes(column, float(np.nanmin(column)), float(np.nanmax(column)))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3, 5, -9, 8, -9, 2, -9], (-9.0,)),
        ([3, 5, -9, 8, -9, NAN, -9, NAN], (-9.0,)),
        ([3, -8, -8, -8, -9, -9, -9, 2], (-9.0, -8.0)),
        ([3, 5, -9, 8, -9, 2], ()),  # twice may be chance
        ([3, -4, -9, 8, -9, 2, -9], ()),  # among other negative numbers it is a number
        ([-9, -9, -9, -9], ()),  # nothing but -9
        ([NAN, -99, NAN], ()),
        ([-1, 0, 1, 2, -1, -1, -1], ()),
        ([10, 20, 999, 999, 999, 30], (999.0,)),
        ([10, 20, 999998, 999998, 999998, 30], (999998.0,)),
        ([600, 20, 999, 999, 999, 30], ()),  # not far enough from the rest
        ([10, 20, 999, 999, 30], ()),
        ([10, 20, 99, 99, 99, -9, -9, -9, 30], (-9.0, 99.0)),
        ([0, 0, 0, 5, 7], ()),
    ],
)
def test_codes_are_found_by_what_they_are_how_often_and_how_far(
    values: list[float], expected: tuple[float, ...]
) -> None:
    assert codes(*values) == expected


def table() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    a, b, c = rng.integers(1, 1000, size=(3, 100)).astype(float)
    return {"a": a, "b": b, "c": c, "t": a + b, "g": a + b + c}


def frame(**changes: np.ndarray) -> object:
    import polars as pl

    return pl.DataFrame({**table(), **changes})


def test_a_dictionary_from_a_file_serves_as_one_from_a_dict(tmp_path: Path) -> None:
    as_dict = {"columns": {"c": {"special_codes": [5]}}, "sums": [{"total": "t", "parts": ["a", "b"]}]}
    toml, json = tmp_path / "d.toml", tmp_path / "d.json"
    toml.write_text('[columns.c]\nspecial_codes = [5]\n[[sums]]\ntotal = "t"\nparts = ["a", "b"]\n')
    json.write_text('{"columns": {"c": {"special_codes": [5]}}, "sums": [{"total": "t", "parts": ["a", "b"]}]}')
    first = mv.protect(frame(), rules=as_dict, seed=1).data
    for path in (toml, json, str(toml)):
        assert mv.protect(frame(), rules=path, seed=1).data.equals(first)


BAD = {
    "an unknown column": ({"columns": {"x": {}}}, "no column 'x'"),
    "an unknown key": ({"colums": {}}, "rules: colums"),
    "a wrong type": ({"columns": {"a": {"special_codes": "many"}}}, "rules: columns.a.special_codes"),
    "no parts": ({"sums": [{"total": "t", "parts": []}]}, "rules: sums.0.parts"),
    "a part twice": ({"sums": [{"total": "t", "parts": ["a", "a"]}]}, "names a column twice"),
    "a total twice": ({"sums": [{"total": "t", "parts": ["a", "b"]}] * 2}, "declared twice"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_dictionary_is_refused_by_place(case: str) -> None:
    rules, expected = BAD[case]
    with pytest.raises(ParameterError, match=expected):
        mv.protect(frame(), rules=rules)


def test_sums_in_a_circle_are_refused() -> None:
    zero = np.zeros(100)
    rules = {"sums": [{"total": "a", "parts": ["b", "c"]}, {"total": "b", "parts": ["a", "c"]}]}
    with pytest.raises(ParameterError, match="circle"):
        mv.protect(frame(b=table()["a"], c=zero), rules=rules)


def test_a_sum_that_does_not_hold_is_refused_with_a_count() -> None:
    broken = table()["t"].copy()
    broken[[3, 8]] += 1
    with pytest.raises(DataError, match="'t' is not the sum of its parts in 2 of 100 rows"):
        mv.protect(frame(t=broken), rules={"sums": [{"total": "t", "parts": ["a", "b"]}]})


def test_a_sum_is_protected_as_a_whole() -> None:
    rules = {"sums": [{"total": "t", "parts": ["a", "b"]}]}
    with pytest.raises(ParameterError, match="needs 'b', which is not protected"):
        mv.protect(frame(), confidential=["a", "c", "t"], rules=rules)


def test_a_file_that_is_no_dictionary_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "d.toml"
    path.write_text("secret = = 86420")
    with pytest.raises(FileError, match="not valid TOML or JSON") as caught:
        mv.protect(frame(), rules=path)
    assert "86420" not in str(caught.value)
    with pytest.raises(ParameterError, match="rules: cannot be int"):
        mv.protect(frame(), rules=5)  # type: ignore[arg-type]
