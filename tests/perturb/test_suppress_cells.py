"""Local suppression: k-anonymity in either way of counting, with no more cells than sdcMicro leaves out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from labels import random_codes
from reference import sdcmicro_labels

import microveil as mv
from microveil.core.errors import DataError, ParameterError
from microveil.core.keys import key_counts
from microveil.perturb.suppress_cells import with_level, with_matches

SEARCHES: dict[str, Any] = {"matches": with_matches, "level": with_level}
pytestmark = pytest.mark.filterwarnings("ignore::microveil.core.errors.DisclosureWarning")


@pytest.mark.parametrize("missing", SEARCHES)
@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("blanks", [0.0, 0.1])
def test_every_record_shares_its_key(missing: str, k: int, blanks: float) -> None:
    codes = random_codes(5, 200, blanks)
    new = SEARCHES[missing](codes, k, np.ones(5))
    assert key_counts(new, missing=missing).sample.min() >= k
    left = new >= 0
    assert (new[left] == codes[left]).all()
    assert (codes[left] >= 0).all()


def test_a_record_is_not_hidden_by_the_blanks_of_others_alone() -> None:
    """One record without any label would match all others: what was rare loses a cell of its own all the same."""
    codes = random_codes(6, 300)
    rare = key_counts(codes).sample < 3
    new = with_matches(codes, 3, np.ones(5))
    assert rare.any()
    assert (new[rare] < 0).any(axis=1).all()
    assert (new[~rare] == codes[~rare]).all()


def test_parts_of_many_records_are_anonymous_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("microveil.perturb.suppress_cells.MOST_RECORDS", 20)
    new = with_matches(random_codes(7, 400), 4, np.ones(5))
    assert key_counts(new).sample.min() >= 4


@pytest.mark.parametrize("k", [2, 5])
def test_few_records_and_keys_all_of_them_different(k: int) -> None:
    codes = np.arange(5)[:, None] * np.ones(3, dtype=np.int64)
    for missing, search in SEARCHES.items():
        assert key_counts(search(codes.astype(np.int64), k, np.ones(3)), missing=missing).sample.min() >= k


@pytest.mark.parametrize(("data", "result"), [("francdat", "labels_francdat"), ("testdata", "labels_testdata_5keys")])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_no_more_cells_than_sdcmicro(data: str, result: str, k: int) -> None:
    codes, _, found = sdcmicro_labels(data, result)
    new = with_matches(codes, k, np.ones(codes.shape[1]))
    assert key_counts(new).sample.min() >= k
    assert np.count_nonzero(new < 0) <= sum(found[f"suppressed_k{k}"])


def test_as_many_cells_as_there_are_rare_records_where_one_of_each_does() -> None:
    codes = random_codes(8, 2000)
    rare = int(np.count_nonzero(key_counts(codes).sample < 3))
    assert rare > 10
    assert np.count_nonzero(with_matches(codes, 3, np.ones(5)) < 0) <= 1.1 * rare


# --- As a method


def frame(rows: int = 200) -> pd.DataFrame:
    codes = random_codes(9, rows)
    region = pd.Categorical(np.array(list("abcde"))[codes[:, 3]])
    job = np.array(["clerk", "cook", "guard", "judge"])[codes[:, 2]]
    return pd.DataFrame(
        {"sex": codes[:, 0], "status": codes[:, 1].astype("int8"), "job": job, "region": region, "old": codes[:, 4] > 1}
    )


def missing(table: Any) -> pd.DataFrame:
    return pd.DataFrame(table.to_pandas() if not isinstance(table, pd.DataFrame) else table).isna()


def cells(table: Any) -> dict[str, list[Any]]:
    """Columns as lists, None where a cell is missing."""
    if isinstance(table, pd.DataFrame):
        return {str(name): [None if pd.isna(cell) else cell for cell in table[name]] for name in table}
    return table.to_pydict() if hasattr(table, "to_pydict") else table.to_dict(as_series=False)


def types(table: Any) -> list[str]:
    """Types of columns; those of pandas that can have missing cells count as the others."""
    if isinstance(table, pd.DataFrame):
        return [str(kind).lower().removesuffix("ean") for kind in table.dtypes]
    return [str(kind) for kind in (table.schema.types if hasattr(table, "to_pydict") else table.dtypes)]


KEYS = ["sex", "status", "job", "region", "old"]


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "pandas of arrow"])
def test_suppressed_cells_are_missing_and_types_stay(kind: str) -> None:
    table: Any = frame()
    if kind == "pandas of arrow":
        table = table.convert_dtypes(dtype_backend="pyarrow")
    elif kind != "pandas":
        table = pl.from_pandas(table) if kind == "polars" else pl.from_pandas(table).to_arrow()
    release = mv.protect(table, "suppress_cells", confidential=KEYS, k=3)
    assert type(release.data) is type(table)
    assert types(release.data) == types(table)
    before, after = cells(table), cells(release.data)
    gone = {name: [cell is None for cell in column] for name, column in after.items()}
    assert release.found["suppressed"] == sum(sum(column) for column in gone.values()) > 0
    for name in KEYS:
        assert all(out or new == old for out, new, old in zip(gone[name], after[name], before[name], strict=True))


def test_an_array_gets_nan() -> None:
    codes = random_codes(10)
    out = mv.protect(codes, "suppress_cells", confidential=[0, 1, 2, 3, 4]).data
    assert key_counts(np.where(np.isnan(out), -1, out).astype(np.int64)).sample.min() >= 3


def test_an_important_column_loses_no_cell_as_long_as_others_do() -> None:
    plain, careful = (
        missing(mv.protect(frame(), "suppress_cells", confidential=KEYS, k=3, importance=given).data).sum()
        for given in (None, {"region": 1, "job": 2})
    )
    assert plain["region"] > 0
    assert careful["region"] == 0
    assert careful["job"] <= plain["job"]


def test_strata_have_keys_of_their_own() -> None:
    table = frame(400).assign(area=np.arange(400) % 2)
    release = mv.protect(table, "suppress_cells", confidential=["status", "job"], strata="area", k=5)
    assert release.found["suppressed"] == release.data.isna().to_numpy().sum() > 0
    for _, part in release.data.groupby("area"):
        codes = part[["status", "job"]].apply(lambda c: pd.Categorical(c).codes).to_numpy(dtype=np.int64)
        assert key_counts(codes).sample.min() >= 5


def test_columns_that_follow_from_others_are_part_of_the_key() -> None:
    table = frame().assign(county=lambda t: t["region"].astype(str).map(dict(zip("abcde", "vwxyz", strict=True))))
    release = mv.protect(table, "suppress_cells", confidential=[*KEYS, "county"], k=3)
    codes = release.data.apply(lambda c: pd.Categorical(c).codes).to_numpy(dtype=np.int64)
    assert key_counts(codes).sample.min() >= 3


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({}, DataError, "'sex'"),
        ({"confidential": KEYS, "k": 500}, ParameterError, "k: 500"),
        ({"confidential": KEYS, "k": 1}, ParameterError, "k: "),
        ({"confidential": KEYS, "importance": {"sexx": 1}}, ParameterError, "sex"),
        ({"confidential": KEYS, "importance": {"sex": 0}}, ParameterError, "importance"),
        ({"confidential": KEYS[1:], "public": "sex"}, ParameterError, "public"),
        ({"confidential": KEYS, "perturb": "swap"}, ParameterError, "perturb"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(options: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        mv.protect(frame().assign(sex=frame()["sex"] * 1.5), "suppress_cells", **options)


def test_columns_of_any_kind_are_a_key_if_they_are_named() -> None:
    table = frame().assign(born=pd.date_range("1980-01-01", periods=10).repeat(20), one="x", none=None)
    table["long"] = 2**60 + np.arange(200) % 3
    keys = ["born", "one", "none", "long", "old"]
    out = mv.protect(table, "suppress_cells", confidential=keys, k=4, missing="level").data
    assert key_counts(out[keys].apply(lambda c: pd.factorize(c)[0]).to_numpy(dtype=np.int64)).sample.min() >= 4
    assert set(out["long"].dropna()) <= set(table["long"]), "longer than a double can hold"
    assert "born" not in mv.protect(table, "suppress_cells", drop=["born", "sex", "status", "long"], k=4).data


def test_the_release_replays_from_its_recipe() -> None:
    release = mv.protect(frame(), "suppress_cells", confidential=KEYS, k=4, importance={"sex": 1})
    again = mv.run(release.recipe(), frame())
    pd.testing.assert_frame_equal(again.data, release.data)
