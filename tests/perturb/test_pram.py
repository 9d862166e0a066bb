"""Post-randomisation: what is promised of frequencies, and what becomes of rules between labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from samples import close_on_average

import microveil as mv
from microveil.core.errors import ParameterError
from microveil.core.rng import Streams
from microveil.perturb.pram import drawn_anew, invariant_matrix

pytestmark = pytest.mark.filterwarnings("ignore::microveil.core.errors.DisclosureWarning")

SEX = {"sex": {"f": {"f": 0.9, "m": 0.1}, "m": {"f": 0.3, "m": 0.7}}}


def people(rows: int = 600, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    region = rng.choice(list("abcd"), rows, p=[0.5, 0.3, 0.15, 0.05])
    return pd.DataFrame(
        {"sex": rng.choice(["f", "m"], rows, p=[0.7, 0.3]), "region": region, "job": rng.choice(5, rows)}
    )


def frequencies(column: pd.Series) -> np.ndarray[Any, Any]:
    return column.value_counts(dropna=False).sort_index().to_numpy(dtype=float)


@pytest.mark.parametrize("frequencies_", [[3, 5, 2], [1, 0, 9], [7, 7, 7]])
def test_an_invariant_matrix_keeps_expected_frequencies(frequencies_: list[int]) -> None:
    matrix = np.random.default_rng(1).dirichlet(np.ones(3), 3)
    made = invariant_matrix(matrix, np.array(frequencies_))
    np.testing.assert_allclose(made.sum(axis=1), 1)
    np.testing.assert_allclose(np.array(frequencies_) @ made, frequencies_)
    assert (made >= 0).all()


@pytest.mark.quick("matrix")
@pytest.mark.parametrize("given", [{}, {"matrix": SEX}, {"retention": 0.3}], ids=["default", "matrix", "retention"])
def test_frequencies_come_back_on_average(given: dict[str, Any]) -> None:
    table = people()
    found = [
        frequencies(
            mv.protect(table, "pram", confidential=["sex", "region"], seed=seed, rules=None, **given).data["sex"]
        )
        for seed in range(60)
    ]
    assert close_on_average(np.array(found), frequencies(table["sex"]))


def test_without_invariance_they_go_where_the_matrix_leads() -> None:
    table = people(4000)
    release = mv.protect(table, "pram", confidential=["sex"], matrix=SEX, invariant=False, seed=1)
    expected = frequencies(table["sex"]) @ np.array([[0.9, 0.1], [0.3, 0.7]])
    assert np.abs(frequencies(release.data["sex"]) - expected).max() < 120
    assert release.kept_on_average == ()


def test_a_label_stays_with_the_probability_asked_for() -> None:
    codes = np.random.default_rng(2).integers(0, 50, 40_000)
    stream = Streams.from_seed(3, 0).stream("labels")
    for invariant in (True, False):
        new = drawn_anew(codes, 0.6, stream, invariant=invariant)
        assert abs(np.mean(new == codes) - (0.6 + 0.4 * invariant / 50)) < 0.01
        assert set(np.unique(new)) == set(range(50))


def test_missing_cells_are_a_level_and_a_given_matrix_leaves_them() -> None:
    table = people()
    table.loc[::7, "sex"] = None
    drawn = mv.protect(table, "pram", confidential=["sex"], retention=0.2, seed=1).data["sex"]
    assert (drawn.isna() != table["sex"].isna()).any()
    given = mv.protect(table, "pram", confidential=["sex"], matrix=SEX, seed=1).data["sex"]
    assert (given.isna() == table["sex"].isna()).all()


def test_columns_that_follow_and_pairs_that_never_meet_stay_so() -> None:
    table = people(2000)
    table["part"] = table["region"].map({"a": "west", "b": "west", "c": "east", "d": "east"})
    table["pregnant"] = np.where((table["sex"] == "f") & (table["job"] < 2), "yes", "no")
    out = mv.protect(table, "pram", confidential=["sex", "region", "part", "pregnant"], seed=1).data
    assert (out["part"] == out["region"].map({"a": "west", "b": "west", "c": "east", "d": "east"})).all()
    assert not ((out["sex"] == "m") & (out["pregnant"] == "yes")).any()
    assert (out["region"] != table["region"]).any()


@pytest.mark.parametrize(
    "matrix",
    [
        {"sex": {"f": {"f": 0.9, "m": 0.2}, "m": {"m": 1.0}}},
        {"sex": {"f": {"f": 0.9, "x": 0.1}, "x": {"x": 1.0}}},
        {"sex": {"f": {"f": 0.9, "m": 0.1}}},
        {"sex": {"f": {"f": 1.1, "m": -0.1}, "m": {"m": 1.0}}},
        {"region": {"a": {"a": 1.0}}},
    ],
)
def test_a_matrix_that_is_none_is_refused_without_a_value(matrix: Any) -> None:
    with pytest.raises(ParameterError, match=r"^matrix: ") as caught:
        mv.protect(people(), "pram", confidential=["sex"], matrix=matrix)
    assert "'f'" not in str(caught.value)


def test_a_percentage_is_no_probability() -> None:
    with pytest.raises(ParameterError, match=r"give 0\.8"):
        mv.protect(people(), "pram", confidential=["sex"], retention=80)
