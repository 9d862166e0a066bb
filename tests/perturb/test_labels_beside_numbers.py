"""Labels through methods for numbers: swapped, swapped by rank, shuffled, and microaggregated on mixed distances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import microveil as mv
from microveil.core.errors import DataError, ParameterError
from microveil.core.keys import key_counts
from microveil.perturb.microaggregate import group_modes, similar_mixed_records

GRADES = ["low", "mid", "good", "high"]


def people(rows: int = 240, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    grade = rng.choice(GRADES, rows, p=[0.4, 0.3, 0.2, 0.1])
    wage = (rng.lognormal(3, 0.5, rows) * (1 + np.array([GRADES.index(g) for g in grade]))).round(1)
    table = pd.DataFrame({"grade": pd.Categorical(grade, GRADES, ordered=True), "wage": wage})
    return table.assign(
        age=rng.integers(18, 80, rows), sex=rng.choice(["f", "m"], rows), other=rng.choice(list("abc"), rows)
    )


@pytest.mark.parametrize("method", ["swap", "shuffle", "microaggregate"])
@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_labels_are_masked_with_the_numbers_and_keep_their_types(method: str, kind: str) -> None:
    table: Any = people() if kind == "pandas" else pl.from_pandas(people())
    release = mv.protect(table, method, seed=1)
    assert release.in_clear == ()
    assert list(release.data.dtypes)[3:] == list(table.dtypes)[3:]
    assert set(release.labels) == {"grade", "sex", "other"}
    for name in release.labels:
        assert (np.asarray(release.data[name]) != np.asarray(table[name])).any()
        if method != "microaggregate":
            assert sorted(release.data[name].to_list()) == sorted(table[name].to_list())
    again = mv.protect(table, method, seed=1).data
    assert again.equals(release.data)


def test_microaggregated_records_are_equal_in_groups_over_all_columns() -> None:
    out = mv.protect(people(), "microaggregate", group_size=4).data
    codes = out.apply(lambda column: pd.factorize(column)[0]).to_numpy(dtype=np.int64)
    assert key_counts(codes).sample.min() >= 4
    np.testing.assert_allclose(out[["wage", "age"]].mean(), people()[["wage", "age"]].mean())


def test_labels_alone_are_microaggregated() -> None:
    table = people()[["grade", "sex", "other"]]
    out = mv.protect(table, "microaggregate", group_size=5).data
    codes = out.apply(lambda column: pd.factorize(column)[0]).to_numpy(dtype=np.int64)
    assert key_counts(codes).sample.min() >= 5


def test_similar_mixed_records_are_near_by_gower() -> None:
    """Two clouds that labels tell apart, and two that a number does: no group mixes them."""
    labels = np.repeat([0, 1], 10)[:, None]
    far = np.tile(np.repeat([0.0, 1.0], 5), 2) + np.linspace(0, 0.01, 20)
    groups = similar_mixed_records(far[None], labels, 5)
    assert len(np.unique(groups)) == 4
    assert all(len(np.unique(groups[start : start + 5])) == 1 for start in range(0, 20, 5))


def test_the_most_frequent_label_of_a_group_and_gaps_are_a_level() -> None:
    codes = np.array([[0], [1], [1], [-1], [-1], [2], [3], [3]])
    groups = np.array([0, 0, 0, 1, 1, 1, 2, 2])
    assert group_modes(codes, groups)[:, 0].tolist() == [1, 1, 1, -1, -1, -1, 3, 3]


def test_ordered_labels_change_places_with_neighbours_only() -> None:
    table = people(400)[["grade", "wage", "age"]]
    out = mv.protect(table, "rank_swap", rank_window=0.05, seed=1).data
    old, new = (frame["grade"].cat.codes.to_numpy() for frame in (table, out))
    assert 0 < np.mean(old != new) < 0.3
    assert np.abs(old - new).max() == 1, "by the order of the type, not of the alphabet"
    assert np.bincount(old).tolist() == np.bincount(new).tolist()


def test_rank_swap_leaves_gaps_where_they_are() -> None:
    table = people()[["grade", "wage"]]
    table.loc[::9, "grade"] = None
    out = mv.protect(table, "rank_swap", seed=1).data
    assert (out["grade"].isna() == table["grade"].isna()).all()


def test_labels_without_an_order_are_refused_by_name() -> None:
    with pytest.raises(DataError, match=r"'sex', 'other' have no order.*kinds"):
        mv.protect(people(), "rank_swap")
    kinds = {"sex": "ordered", "other": "ordered"}
    assert set(mv.protect(people(), "rank_swap", kinds=kinds).labels) == {"grade", "sex", "other"}


def test_groups_along_a_line_take_no_labels() -> None:
    with pytest.raises(ParameterError, match="grouping: 'univariate'"):
        mv.protect(people(), "microaggregate", grouping="univariate")


@pytest.mark.parametrize("method", ["noise", "pca", "microaggregate_noise", "smoothed_bootstrap"])
def test_other_methods_refuse_labels_by_name(method: str) -> None:
    with pytest.raises(DataError, match="'grade', 'sex', 'other'"):
        mv.protect(people(), method)


def test_strata_are_masked_apart() -> None:
    out = mv.protect(people(), "swap", strata="sex", seed=1).data
    for sex, part in people().groupby("sex"):
        assert sorted(out.loc[out["sex"] == sex, "other"]) == sorted(part["other"])
