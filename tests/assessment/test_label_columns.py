"""The labels of two files beside their numbers: what is a label, on which list of levels, and what is in clear."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import microveil as mv
from microveil.assessment.pairing import Pair, pair_up
from microveil.core.errors import DisclosureWarning, ParameterError
from microveil.core.keys import grouped
from microveil.io.frames.dataframes import open_frame
from microveil.options import Assess
from microveil.report.reporter import pair_of


def people(rows: int = 200, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    sizes = ["small", "medium", "large"]
    return pd.DataFrame(
        {
            "income": rng.lognormal(10, 1, rows).round(2),
            "sex": rng.choice(["f", "m"], rows),
            "size": pd.Categorical(rng.choice(sizes, rows), categories=sizes, ordered=True),
            "member": rng.random(rows) < 0.3,
            "region": rng.integers(1, 5, rows),
            "born": pd.Timestamp("1950-01-01") + pd.to_timedelta(rng.integers(0, 20_000, rows), unit="D"),
            "email": [f"someone{number}@example.org" for number in range(rows)],
        }
    )


def paired(original: Any, released: Any, **options: Any) -> Pair:
    return pair_up(open_frame(original), open_frame(released), Assess(**options))


def shuffled(frame: pd.DataFrame, seed: int = 2) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return frame.assign(**{name: frame[name].sample(frac=1, random_state=rng).to_numpy() for name in frame})


def test_labels_dates_and_numbers_stand_beside_each_other() -> None:
    data = people()
    both = paired(data, shuffled(data).assign(size=shuffled(data)["size"]))
    labels = both.labels
    assert both.names == ("income", "born")
    assert labels is not None
    assert labels.names == ("sex", "size", "member", "region")
    assert labels.kinds == ("category", "ordered", "category", "category")
    assert labels.sizes == (2, 3, 2, 4)
    assert labels.in_clear == (False,) * 4
    assert labels.keys == (0, 1, 2, 3)
    assert labels.original.shape == labels.released.shape == (200, 4)
    assert labels.level_names[1] == ("small", "medium", "large"), "in the order of the type, not of the alphabet"
    assert "small" not in repr(labels)


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_a_label_has_one_number_in_both_files_whatever_holds_them(kind: str) -> None:
    old, new = pd.DataFrame({"a": ["x", "y", "z", None, "x"]}), pd.DataFrame({"a": ["y", "q", None, "z", "z"]})
    make: Any = {"pandas": lambda f: f, "polars": pl.from_pandas, "arrow": pa.Table.from_pandas}[kind]
    labels = paired(make(old), pl.from_pandas(new)).labels
    assert labels is not None
    assert labels.original[:, 0].tolist() == [1, 2, 3, -1, 1]
    assert labels.released[:, 0].tolist() == [2, 0, -1, 3, 3]


def test_codes_that_noise_has_changed_are_numbers() -> None:
    data = people()
    noisy = data.assign(region=data["region"] + np.random.default_rng(3).normal(size=len(data)))
    both = paired(data, noisy)
    assert "region" in both.names
    assert both.labels is not None
    assert "region" not in both.labels.names


def test_what_is_the_same_in_both_files_is_in_clear_whatever_its_kind() -> None:
    data = people()
    released = shuffled(data).assign(sex=data["sex"], born=data["born"], email=data["email"])
    labels = paired(data, released).labels
    assert labels is not None
    assert labels.of_clear.names == ("sex", "born", "email")
    assert grouped(labels.of_clear.original)[0].size == len(data), "the address names everybody"
    only = paired(data, released, confidential=["income"]).labels
    assert only is not None
    assert only.names == ("sex", "born", "email"), "columns nobody asked for are in clear all the same"


def test_a_release_knows_its_kinds_and_what_is_in_clear() -> None:
    data = people()
    with pytest.warns(DisclosureWarning):
        release = mv.protect(data, keep=["region"], kinds={"region": "category"}, seed=1)
    both, _ = pair_of(release)
    labels = both.labels
    assert labels is not None
    assert labels.of_clear.names == ("region",)
    assert {*both.names, *labels.names} == {*data.columns} - {"email"}


def test_files_of_labels_alone_and_of_different_lengths() -> None:
    data = people()[["sex", "size"]]
    both = paired(data, shuffled(data).head(50))
    assert both.names == ()
    assert both.rows == (200, 50)


def test_keys_weights_and_sensitive_labels() -> None:
    data = people().assign(weight=2.5)
    data.loc[0, "weight"] = 3.5
    labels = paired(data, shuffled(data), keys=["sex", "income"], weight="weight", sensitive=["size"]).labels
    assert labels is not None
    assert labels.select(labels.keys).names == ("income", "sex")
    assert [labels.names[j] for j in labels.sensitive or ()] == ["size"]
    assert labels.weights is not None
    assert labels.weights[0] == 3.5
    with pytest.raises(ParameterError, match="keys: there is no column 'sexx'"):
        paired(data, data, keys="sexx")


def test_dates_of_different_precision_are_on_one_line_of_time() -> None:
    months = pd.DataFrame({"at": pd.to_datetime(["2020-01-01", "2020-02-01", "2020-03-01"] * 5)})
    both = paired(months, months + pd.Timedelta(days=1))
    assert np.allclose(both.released.columns[0] - both.original.columns[0], 1)
    assert both.original.columns[0][0] == 18262


def test_a_holdout_has_the_same_levels() -> None:
    data, others = people(), people(seed=5)
    labels = paired(data, shuffled(data), holdout=others).labels
    assert labels is not None
    assert labels.holdout is not None
    first = labels.level_names[0]
    assert [first[code] for code in labels.holdout[:5, 0]] == others["sex"].head(5).tolist()


ASKED = ["clear_uniques", "mixed_linkage", "two_way_tables", "group_means", "classifier_auc", "membership", "dbrl"]
SECRET = "Zwetschgenstein"


def odd_pairs() -> dict[str, tuple[Any, Any, dict[str, Any]]]:
    rng = np.random.default_rng(7)
    data = people(60).drop(columns=["email", "born"])
    data["sex"] = rng.choice(["f", "m", SECRET], 60)
    other = shuffled(data)
    few = pd.array([True, None] * 30, dtype="boolean")
    return {
        "holdout without a label": (data, other, {"holdout": data.drop(columns="sex")}),
        "holdout with another type": (data, other, {"holdout": data.assign(region="north")}),
        "holdout of labels": (data[["sex", "size"]], other[["sex", "size"]], {"holdout": data[["sex", "size"]]}),
        "two releases": (data, [other, shuffled(data, 3)], {}),
        "a sensitive label": (data, other, {"sensitive": "sex"}),
        "a sensitive number": (data, other, {"sensitive": "income"}),
        "a label by name": (data, other, {"confidential": ["sex"]}),
        "a public label": (data, other.assign(member=data["member"]), {"public": "member"}),
        "no label left": (data, other.assign(sex=None), {}),
        "lists": (data.assign(l=[[1, 2]] * 60), other.assign(l=[[1, 3]] * 60), {}),
        "several types": (data.assign(m=[1, "a"] * 30), other.assign(m=["a", 1] * 30), {}),
        "missing booleans": (data.assign(f=few), other.assign(f=few[::-1]), {}),
        "fewer rows": (data, other.head(20), {}),
        "three rows": (data.head(3), other.head(3), {}),
        "weight of text": (data, other, {"weight": "sex"}),
        "kind of nothing": (data, other, {"kinds": {"q": "category"}}),
    }


@pytest.mark.parametrize("case", odd_pairs())
def test_odd_files_are_assessed_or_refused_without_a_value(case: str) -> None:
    original, released, options = odd_pairs()[case]
    asked = partial(mv.assess, original, released, measures=ASKED, seed=1, sanity="holdout" in case, **options)
    if case in ("holdout without a label", "holdout with another type", "weight of text", "kind of nothing"):
        with pytest.raises(mv.errors.MicroveilError) as raised:
            asked()
        assert SECRET not in str(raised.value)
    else:
        found = asked()
        assert len(found) >= 3
        assert SECRET not in repr(found) + found.to_json()


def test_labels_are_no_matter_of_files_in_blocks(tmp_path: Any) -> None:
    data = people()
    data.to_csv(tmp_path / "a.csv", index=False)
    shuffled(data).to_csv(tmp_path / "b.csv", index=False)
    files = tmp_path / "a.csv", tmp_path / "b.csv"
    found = mv.assess_files(*files, measures=["ks", "mixed_linkage", "two_way_tables"], sanity=False)
    assert list(found) == ["ks"]
    assert "needs all records in memory" in found.skipped["mixed_linkage"]
    with pytest.raises(ParameterError, match="keys: goes with engine='memory' only"):
        mv.assess_files(*files, keys=["sex"])
