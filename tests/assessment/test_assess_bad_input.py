"""`assess` refuses what it cannot compare, with a way out and without a value."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from assess_tables import SENTINEL, frame, table

import microveil as mv
from microveil.errors import DataError, ParameterError

BAD: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "a column is missing": (
        frame(table()), frame(table()).drop("stock"), {"confidential": ["stock"]}, "file has no column 'stock'",
    ),
    "nothing in common": (frame(table()), pl.DataFrame({"x": [1.0]}), {}, "no column in common"),
    "no numbers in common": (
        frame(table()), frame(table()).select(pl.all().cast(pl.String)), {}, "no numeric column in common",
    ),
    "text": (
        frame(table()), frame(table()).cast({"stock": pl.String}), {"confidential": "stock"},
        "'stock' of the released file is not numeric",
    ),
    "array and frame": (table(), frame(table()), {}, "one file is an array"),
    "widths": (table(), table()[:, :3], {}, "5 and 3 columns"),
    "no rows": (table(), table()[:0], {}, "released file has no rows"),
    "constant": (np.full((9, 2), SENTINEL), table()[:9, :2], {}, "every column is constant"),
    "infinite": (table(), np.where(table() == np.round(SENTINEL), np.inf, table()), {}, "'0' of the released file"),
    "too large": (table() * 1e200, table(), {}, "too large"),
    "another unit": (table(), table() * 1e30, {}, "differs too much"),
    "unknown column": (frame(table()), frame(table()), {"confidential": "wage"}, "did you mean 'wages'"),
    "two roles": (frame(table()), frame(table()), {"confidential": "wages", "public": "wages"}, "named twice"),
    "no columns": (frame(table()), frame(table()), {"confidential": []}, "no column named"),
    "sensitive, but not compared": (
        frame(table()), frame(table()), {"confidential": "wages", "sensitive": "stock"}, "'stock' is not compared",
    ),
    "nothing sensitive": (frame(table()), frame(table()), {"sensitive": []}, "sensitive: no column named"),
    "unknown measure": (table(), table(), {"measures": ["dbrll"]}, "did you mean 'dbrl'"),
    "no measures": (table(), table(), {"measures": []}, "none is named"),
    "measures of another kind": (table(), table(), {"measures": 3}, "takes ids"),
    "seed": (table(), table(), {"seed": -1}, "seed: must be a whole number"),
    "not a table": ([[SENTINEL]], table(), {}, "cannot work with list"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_with_a_way_out_and_without_a_value(case: str) -> None:
    original, released, options, expected = BAD[case]
    with pytest.raises((DataError, ParameterError)) as refusal:
        mv.assess(original, released, **options)
    assert expected in str(refusal.value)
    assert refusal.value.hint
    assert "86420" not in str(refusal.value)
    assert "86421" not in str(refusal.value)


@pytest.mark.parametrize("gone", [["a"], ["c", "a"], ["ab"]])
def test_releases_of_different_columns_are_refused(gone: list[str]) -> None:
    """Those of as many columns once were combined, whatever their names."""
    data = pl.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), schema=list("abc"))
    releases = [data.drop(list(names)) for names in ("b", *gone)]
    with pytest.raises(DataError, match=r"column '[abc]' is not compared as numbers in every release; .* confidential"):
        mv.assess(data, releases)
    assert mv.assess(data, [data, *releases[:1]], confidential="c", measures=["dbrl"])["dbrl"].value == 1
