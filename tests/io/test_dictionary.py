"""Special codes and declared sums."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import microveil as mv
from microveil.core.table import Matrix
from microveil.errors import DataError, FileError, ParameterError
from microveil.io.dictionary import find_codes

NAN = float("nan")


def codes(*values: float) -> tuple[float, ...]:
    """The codes that are found in a column of these values."""
    column = np.array(values, dtype=float)
    ends = float(np.nanmin(column)), float(np.nanmax(column))
    return find_codes(Matrix([column]), 0, *ends)


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
    "an unknown key": ({"colums": {}}, "no key 'colums'"),
    "a wrong type": ({"columns": {"a": {"special_codes": "many"}}}, "rules: columns.a.special_codes"),
    "no parts": ({"sums": [{"total": "t", "parts": []}]}, "rules: sums 1.parts"),
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


def test_a_part_of_a_sum_may_be_zero_in_every_row() -> None:
    rules = {"sums": [{"total": "t", "parts": ["a", "b", "none"]}]}
    release = mv.protect(frame(none=np.zeros(100)), rules=rules, seed=1)
    after = release.data
    assert np.allclose(after["t"], after["a"] + after["b"] + after["none"])
    assert after["none"].to_list() == [0.0] * 100
    assert after["a"].to_list() != frame()["a"].to_list()
    assert release.in_clear == ()


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
    with pytest.raises(FileError, match="not valid TOML") as caught:
        mv.protect(frame(), rules=path)
    assert "86420" not in str(caught.value)
    with pytest.raises(ParameterError, match="rules: cannot be int"):
        mv.protect(frame(), rules=5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([5, -3, 8, -999999, -999999, -999999, 2], (-999999.0,)),  # far below other negative numbers
        ([5, -3, 8, -9, -9, -9, 2], ()),
        ([10, 20, 999998, 999998, 999998, 999999, 999999, 999999], (999998.0, 999999.0)),
        ([10, 20, 9997, 9997, 9997], (9997.0,)),
        ([10, 20, 97, 97, 97], ()),
        ([0.5, 0.25, -9, -9, -9, 9999, 9999, 9999], (-9.0, 9999.0)),
        ([1e9, 2e9, 999999999999.0, 999999999999.0, 999999999999.0], ()),
        ([5, 6, -9.5, -9.5, -9.5], ()),
    ],
)
def test_several_codes_and_codes_among_negative_numbers(values: list[float], expected: tuple[float, ...]) -> None:
    assert codes(*values) == expected


# --- Rules with exceptions, and orders


def test_a_sum_with_exceptions_must_say_so() -> None:
    broken = table()["t"].copy()
    broken[[3, 8]] += 1
    entry = {"total": "t", "parts": ["a", "b"]}
    for allowed in (0, 1):
        with pytest.raises(DataError, match=r"in 2 of 100 rows; .*exceptions = 2"):
            mv.protect(frame(t=broken), rules={"sums": [{**entry, "exceptions": allowed}]})
    release = mv.protect(frame(t=broken), "pca", rules={"sums": [{**entry, "exceptions": 2}]}, seed=1)
    out = release.data
    assert np.allclose(out["t"], out["a"] + out["b"], rtol=1e-12)
    assert "t = a + b" in release.rules
    assert any("declared rules come first" in warning for warning in release.warnings)
    watched = mv.protect(frame(t=broken), "pca", rules={"sums": [{**entry, "enforce": False}]}, seed=1)
    assert "t = a + b" not in watched.rules
    line = next(line for line in watched.audit or [] if line.rule == "t = a + b")
    assert line.before == 2
    assert line.after > 2


def ordered_frame(seed: int = 1) -> object:
    import polars as pl

    rng = np.random.default_rng(seed)
    gross = np.round(rng.lognormal(7, 1, 400))
    net = np.round(gross * rng.uniform(0.3, 1, 400))
    return pl.DataFrame({"gross": gross, "net": net, "age": rng.integers(18, 90, 400), "hours": rng.gamma(5, 7, 400)})


ORDER = {"lower": "net", "upper": "gross"}


@pytest.mark.parametrize("method", ["veil", "pca", "noise", "microaggregate"])
def test_a_declared_order_holds_in_every_row(method: str) -> None:
    data = ordered_frame()
    rules = {"columns": {"net": {"minimum": 0, "step": 1}, "gross": {"minimum": 0, "step": 1}}, "orders": [ORDER]}
    free = mv.protect(data, method, rules={**rules, "orders": [{**ORDER, "enforce": False}]}, seed=2)
    kept = mv.protect(data, method, rules=rules, seed=2)
    assert (kept.data["net"] <= kept.data["gross"]).all()
    for name in ("net", "gross"):
        values = kept.data[name].to_numpy()
        assert values.min() >= 0
        assert (values == np.round(values)).all()
    lines = {which: next(li for li in (r.audit or []) if "<=" in li.rule) for which, r in (("f", free), ("k", kept))}
    broken = int((free.data["net"] > free.data["gross"]).sum())
    assert (lines["f"].before, lines["f"].after) == (0, broken)
    assert (lines["k"].before, lines["k"].after) == (0, 0)
    if method in ("pca", "noise"):
        assert broken > 0, "otherwise nothing was tried"
        assert any("were moved to values the columns can have" in warning for warning in kept.warnings)


def test_an_order_that_is_found_is_counted_but_not_kept() -> None:
    data = ordered_frame()
    release = mv.protect(data, "pca", seed=2)
    broken = int((release.data["net"] > release.data["gross"]).sum())
    assert broken > 0, "otherwise nothing was tried"
    line = next(line for line in release.audit or [] if line.rule == "net <= gross")
    assert (line.before, line.after) == (0, broken)
    assert not [line for line in mv.protect(data, "pca", rules=None, seed=2).audit or [] if "<=" in line.rule]


def test_an_order_with_a_total_moves_what_is_free() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.integers(1, 500, (2, 300)).astype(float)
    import polars as pl

    data = pl.DataFrame({"a": a, "b": b, "t": a + b, "tax": np.round((a + b) * rng.uniform(0.1, 0.9, 300))})
    rules = {"sums": [{"total": "t", "parts": ["a", "b"]}], "orders": [{"lower": "tax", "upper": "t"}]}
    out = mv.protect(data, "pca", rules=rules, seed=1).data
    assert (out["tax"] <= out["t"] + 1e-9).all()
    assert np.allclose(out["t"], out["a"] + out["b"], rtol=1e-12)


def test_a_chain_of_orders_holds() -> None:
    import polars as pl

    rng = np.random.default_rng(6)
    columns = np.sort(rng.lognormal(3, 1, (300, 4)), axis=1).T
    data = pl.DataFrame(dict(zip("dcba", columns, strict=True)))
    orders = [{"lower": low, "upper": high} for low, high in (("d", "c"), ("c", "b"), ("b", "a"))]
    out = mv.protect(data, "noise", rules={"orders": orders[::-1]}, seed=1).data
    assert (out["d"] <= out["c"]).all()
    assert (out["c"] <= out["b"]).all()
    assert (out["b"] <= out["a"]).all()


def test_orders_leave_missing_cells_alone() -> None:
    data = ordered_frame().to_pandas()  # type: ignore[attr-defined]
    data.loc[::7, "net"] = np.nan
    data.loc[::11, "gross"] = np.nan
    out = mv.protect(data, "pca", rules={"orders": [ORDER]}, seed=1).data
    assert out.isna().equals(data.isna())
    assert not (out["net"] > out["gross"]).any()


MORE_BAD = {
    "an order of one": ({"orders": [{"lower": "a", "upper": "a"}]}, "below itself"),
    "an order that does not hold": ({"orders": [{"lower": "a", "upper": "b"}]}, "'a' is above 'b' in"),
    "coefficients that do not fit": (
        {"sums": [{"total": "t", "parts": ["a", "b"], "coefficients": [1]}]},
        "do not fit",
    ),
    "a coefficient of nothing": (
        {"sums": [{"total": "t", "parts": ["a", "b"], "coefficients": [1, 0]}]},
        "do not fit",
    ),
    "a coefficient beyond all numbers": (
        {"sums": [{"total": "t", "parts": ["a", "b"], "coefficients": [1, -1e300], "exceptions": 100}]},
        "makes it too large",
    ),
    "a sum that never holds": (
        {"sums": [{"total": "t", "parts": ["a", "b"], "coefficients": [1, 7], "exceptions": 1000}]},
        "in 100 of 100 rows; correct the dictionary",
    ),
    "text for a number": ({"columns": {"a": {"minimum": "0"}}}, "rules: columns.a.minimum"),
    "a truth for a number": ({"columns": {"a": {"step": True}}}, "rules: columns.a.step"),
    "an infinite code": ({"columns": {"a": {"special_codes": [float("inf")]}}}, "special_codes"),
    "fewer than no exceptions": ({"sums": [{"total": "t", "parts": ["a"], "exceptions": -1}]}, "exceptions"),
    "a key of another table": ({"orders": [{"lower": "a", "uper": "b"}]}, "'upper'"),
}


@pytest.mark.parametrize("case", MORE_BAD)
def test_what_cannot_be_meant_is_refused(case: str) -> None:
    rules, expected = MORE_BAD[case]
    with pytest.raises((ParameterError, DataError), match=expected):
        mv.protect(frame(), rules=rules)


@pytest.mark.parametrize("text", ["[1, 2]", '"a"', "{", '{"columns": 3}', "[" * 100_000])
def test_json_that_is_no_dictionary_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_text(text)
    with pytest.raises((FileError, ParameterError), match="rules: "):
        mv.protect(frame(), rules=path)


def test_units_are_for_people() -> None:
    rules = {"columns": {"a": {"unit": "EUR"}}}
    assert mv.protect(frame(), rules=rules, seed=1).data.equals(mv.protect(frame(), rules={}, seed=1).data)


def test_a_column_may_be_called_as_a_key_of_ours() -> None:
    data = pl.DataFrame({"special_codes": [1.0, 5.0, 2.0, 7.0], "b": [4.0, 1.0, 3.0, 3.0]})
    with pytest.raises(ParameterError, match=r"there is no key 'columns' in columns\.special_codes"):
        mv.protect(data, "noise", rules={"columns": {"special_codes": {"columns": []}}})
